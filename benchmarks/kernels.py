"""The kernels that training can run on, each with the options that choose it."""

from __future__ import annotations

import dataclasses
from typing import Any

from srgdqn.settings import TrainingSettings

_CAN_CHOOSE = any(field.name == "kernel" for field in dataclasses.fields(TrainingSettings))

KERNELS: dict[str, dict[str, Any]] = (
    {name: {"kernel": name} for name in ("xla", "native")} if _CAN_CHOOSE else {"xla": {}}
)
