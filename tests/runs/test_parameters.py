import json

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srgdqn.errors import InputError
from srgdqn.runs.parameters import decode, encode

DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint32", "bool"]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=4).map(lambda shape: (3, *shape)))
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=4))
def test_what_was_written_is_read(parameters: dict[str, np.ndarray]) -> None:
    read = decode(encode(parameters))
    assert read.keys() == parameters.keys()
    for name, array in parameters.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()


def test_strides_and_byte_order_do_not_matter() -> None:
    array = np.arange(24, dtype=">f4").reshape(4, 3, 2).transpose(1, 2, 0)[:, ::-1]
    read = decode(encode({"a": array}))["a"]
    np.testing.assert_array_equal(read, array)
    assert encode({"a": array}) == encode({"a": np.ascontiguousarray(array, "<f4")})


def test_others_can_read_the_file() -> None:
    tensors = safetensors.numpy.load(encode({"layers/0/weight": np.ones((2, 3), np.float32)}))
    np.testing.assert_array_equal(tensors["layers/0/weight"], np.ones((2, 3)))


def test_every_flipped_bit_is_found() -> None:
    parameters = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((2, 1), np.float32)}
    data = encode(parameters)
    harmless = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        try:
            read = decode(bytes(damaged))
        except InputError:
            continue
        harmless += 1
        assert all(np.array_equal(read[name], parameters[name]) for name in parameters)
    assert harmless < 10  # at most some of the header's padding


@pytest.mark.parametrize("length", [0, 4, 8, 20, -1])
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(InputError, match="not a file of parameters"):
        decode(encode({"w": np.ones((2, 3))})[:length])


def test_a_file_without_digest_is_refused() -> None:
    with pytest.raises(InputError, match="not a file of parameters"):
        decode(safetensors.numpy.save({"w": np.ones((2, 3))}))


def test_a_renamed_tensor_is_found() -> None:
    data = encode({"weight": np.ones((2, 3))})
    size = int.from_bytes(data[:8], "little")
    assert "weight" in json.loads(data[8 : 8 + size])
    with pytest.raises(InputError, match="its digest is not that of its tensors"):
        decode(data.replace(b"weight", b"height"))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"w": np.float32(3)}, "parameter 'w' is a scalar. Give it a first axis for rounds."),
        ({"w": np.array(["a"])}, "parameter 'w' has type"),
        ({"w": np.array([object()])}, "parameter 'w' has type object. Give one of: bool, "),
        ({"w": np.ones(2, complex)}, "parameter 'w' has type complex128"),
        ({"w": np.ones(2), "b": np.ones(3)}, "parameters differ in their number of rounds"),
    ],
)
def test_what_is_no_parameter_is_refused(parameters: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(InputError) as caught:
        encode(parameters)
    assert said in str(caught.value)
