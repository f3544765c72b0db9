"""A policy as one Python file that needs nothing but NumPy."""

from __future__ import annotations

import base64
import inspect
import io
import pprint

import numpy as np

from srgdqn.integrations import numpy_policy as plain
from srgdqn.integrations.policy import Policy

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


def python_bytes(policy: Policy, module: str) -> bytes:
    """The text of a module that holds the policy; the same policy gives the same bytes."""
    from srgdqn import __version__

    observation = policy.observation
    head = _HEAD.format(
        title=_quotable(f"{policy.about.get('algorithm', 'unnamed')} on {policy.about.get('task', 'an unnamed task')}"),
        version=__version__,
        module=module if module.isidentifier() else "policy",
        observations=observation.described,
        last=policy.actions - 1,
    )
    tail = _TAIL.format(
        about=pprint.pformat(dict(policy.about), width=118, sort_dicts=False),
        arrays=base64.encodebytes(_archive(policy)).decode().rstrip(),
        activation=policy.activation,
        strides=policy.strides,
        kind=observation.kind,
        shape=observation.shape,
    )
    return (head + _body() + tail).encode()


def _body() -> str:
    """The text of the plain policy, without its docstring and with the two modules that the archive is read with."""
    source = inspect.getsource(plain)
    body = source.split('"""', 2)[2].removeprefix("\n")
    return body.replace("\nimport math\n", "\nimport base64\nimport io\nimport math\n", 1)


def _archive(policy: Policy) -> bytes:
    out = io.BytesIO()
    np.savez(out, **policy.arrays())  # type: ignore[arg-type]  # numpy's keyword allow_pickle is none of the names
    return out.getvalue()


def _quotable(text: str) -> str:
    """Without what would end or escape a docstring: the name of a task may be anything."""
    return text.replace("\\", "/").replace('"', "'")
