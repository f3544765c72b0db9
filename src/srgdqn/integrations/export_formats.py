"""The formats that a policy is exported in: an ONNX model, or one Python file that needs nothing but NumPy."""

from __future__ import annotations

import base64
import inspect
import io
import pprint
from typing import TYPE_CHECKING, Any

import numpy as np

from srgdqn.integrations import numpy_policy
from srgdqn.integrations.numpy_policy import PlainPolicy
from srgdqn.integrations.policy import described

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


OPSET = 17
_IR_VERSION = 8  # the oldest that has this operator set, for older runtimes

_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "softplus": "Softplus"}


def onnx_bytes(policy: PlainPolicy) -> bytes:
    """A checked ONNX model: input `observation`, outputs `q_values` and `action`, any number of rows.

    It computes in single precision; the same policy gives the same bytes.
    """
    import onnx
    from onnx import helper

    from srgdqn import __version__

    graph = _Graph()
    inputs: dict[str, tuple[int, list[str | int | None]]] = {
        "vector": (onnx.TensorProto.FLOAT, ["batch", *policy.shape]),
        "image": (onnx.TensorProto.UINT8, ["batch", *policy.shape]),
        "one-hot": (onnx.TensorProto.INT64, ["batch"]),
    }
    _write_forward(graph, policy)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", *inputs[policy.kind])],
            [
                helper.make_tensor_value_info("q_values", onnx.TensorProto.FLOAT, ["batch", policy.actions]),
                helper.make_tensor_value_info("action", onnx.TensorProto.INT64, ["batch"]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="srgdqn",
        producer_version=__version__,
    )
    helper.set_model_props(model, policy.about)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _write_forward(graph: _Graph, policy: PlainPolicy) -> None:
    """The same steps as `PlainPolicy` takes."""
    x, activation = "observation", _ACTIVATIONS[policy.activation]
    if policy.kind == "one-hot":
        depth = np.asarray(policy.shape, np.int64)
        x = graph.add("OneHot", x, graph.constant("depth", depth), graph.constant("off_on", np.array([0.0, 1.0])))
    if policy.kind == "image":
        x = graph.add("Cast", x, to=1)  # single precision
    names = {name: graph.constant(name, array) for name, array in policy.arrays.items()}
    if "mean" in names:
        x = graph.add("Div", graph.add("Sub", x, names["mean"]), names["deviation"])
    if policy.kind == "image":
        x = graph.add("Div", x, graph.constant("brightest", np.array(255.0)))
    for index, stride in enumerate(policy.strides):
        weight, bias = names[f"convolutions.{index}.weight"], names[f"convolutions.{index}.bias"]
        x = graph.add(activation, graph.add("Conv", x, weight, bias, strides=[stride, stride]))
    if policy.strides:
        x = graph.add("Flatten", x)
    for index in range(policy.layers - 1):
        x = graph.add("MatMul", x, names[f"layers.{index}.weight"])
        x = graph.add("Add", x, names[f"layers.{index}.bias"])
        if f"norms.{index}.gain" in names:
            gain, shift = names[f"norms.{index}.gain"], names[f"norms.{index}.shift"]
            x = graph.add("LayerNormalization", x, gain, shift, axis=-1, epsilon=1e-5)
        x = graph.add(activation, x)
    dueling, last = "value.weight" in names, f"layers.{policy.layers - 1}"
    q = graph.add("MatMul", x, names[f"{last}.weight"])
    q = graph.add("Add", q, names[f"{last}.bias"], out=None if dueling else "q_values")
    if dueling:
        value = graph.add("Add", graph.add("MatMul", x, names["value.weight"]), names["value.bias"])
        mean = graph.add("ReduceMean", q, axes=[1], keepdims=1)
        q = graph.add("Add", graph.add("Sub", q, mean), value, out="q_values")
    graph.add("ArgMax", q, out="action", axis=1, keepdims=0)  # the first of equals, as in training


class _Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Adds a node and returns the name of its output."""
        from onnx import helper

        name = out or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"make_{name}", **attributes))
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds an array, in single precision if it is of real numbers, and returns its name."""
        from onnx import numpy_helper

        real = np.issubdtype(array.dtype, np.floating)
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32 if real else None), name))
        return name


_HEAD = '''"""A greedy policy: {title}. Exported by srgdqn {version}; needs NumPy and nothing else.

    from {module} import policy
    action = policy(observation)        # the index of an action; rows of observations give an array of them
    values = policy.q_values(observation)

Observations: {observations}. Actions: 0 to {last}.
"""
'''

_TAIL = '''
ABOUT = {about}

# The parameters: an .npz archive of arrays in base64.
_ARRAYS = """
{arrays}
"""

with np.load(io.BytesIO(base64.b64decode(_ARRAYS)), allow_pickle=False) as _archive:
    policy = PlainPolicy(
        dict(_archive), activation={activation!r}, strides={strides!r}, kind={kind!r}, shape={shape!r}
    )
'''


def python_bytes(policy: PlainPolicy, module: str) -> bytes:
    """The text of a module that holds the policy; the same policy gives the same bytes."""
    from srgdqn import __version__

    head = _HEAD.format(
        title=_quotable(f"{policy.about.get('algorithm', 'unnamed')} on {policy.about.get('task', 'an unnamed task')}"),
        version=__version__,
        module=module if module.isidentifier() else "policy",
        observations=_quotable(described(policy)),
        last=policy.actions - 1,
    )
    tail = _TAIL.format(
        about=pprint.pformat(policy.about, width=118, sort_dicts=False),
        arrays=base64.encodebytes(_archive(policy)).decode().rstrip(),
        activation=policy.activation,
        strides=policy.strides,
        kind=policy.kind,
        shape=policy.shape,
    )
    return (head + _body() + tail).encode()


def _body() -> str:
    """The source of `numpy_policy`, without its docstring and with the two modules that the archive is read with."""
    body = inspect.getsource(numpy_policy).split('"""', 2)[2].removeprefix("\n")
    return body.replace("\nimport math\n", "\nimport base64\nimport io\nimport math\n", 1)


def _archive(policy: PlainPolicy) -> bytes:
    out = io.BytesIO()
    np.savez(out, **policy.arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    return out.getvalue()


def _quotable(text: str) -> str:
    """The text without what would end or escape a docstring: a task may have any name."""
    return text.replace("\\", "/").replace('"', "'")
