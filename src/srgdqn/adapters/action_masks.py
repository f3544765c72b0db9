"""Action masks: which actions `info["action_mask"]` allows, and which of them a random draw stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from srgdqn.adapters.spaces import OddValueError
from srgdqn.errors import InputError, shown

KEY = "action_mask"


def read_mask(info: Any, actions: int) -> np.ndarray:
    """The actions that the info of a step or a reset allows; an `OddValueError` where it does not say."""
    if not isinstance(info, Mapping) or KEY not in info:
        raise OddValueError(f"no info['{KEY}'], which action_masks asks for: 0 or 1 for each of {actions} actions")
    return checked_mask(info[KEY], actions)


def read_masks(info: Any, needed: np.ndarray, actions: int) -> np.ndarray:
    """The same of a vector environment, in rows; everything is allowed where it is not `needed`."""
    masks = np.ones((len(needed), actions), bool)
    if needed.any():
        there = info.get(f"_{KEY}", np.ones(len(needed), bool)) if isinstance(info, Mapping) else []
        for index in np.flatnonzero(needed).tolist():
            masks[index] = read_mask({KEY: info[KEY][index]} if KEY in info and there[index] else {}, actions)
    return masks


def checked_mask(given: Any, actions: int) -> np.ndarray:
    """A mask as booleans; an `OddValueError` where it is none, or allows nothing."""
    mask = np.asarray(given)
    if mask.shape != (actions,) or mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise OddValueError(f"the info['{KEY}'] {shown(given)}, which is not 0 or 1 for each of {actions} actions")
    if not mask.any():
        raise OddValueError(f"an info['{KEY}'] that allows none of the {actions} actions")
    allowed: np.ndarray = mask.astype(bool)
    return allowed


def given_masks(given: Any, rows: int, single: bool, actions: int) -> np.ndarray:
    """The masks that a user gives with one observation or with rows of them; an `InputError` where they do not fit."""
    try:
        masks = [given] if single else list(given)
        if len(masks) == rows:
            return np.array([checked_mask(mask, actions) for mask in masks])
        problem = f"{len(masks)} masks for {rows} observations"
    except (OddValueError, TypeError) as error:
        problem = str(error)
    raise InputError(
        f"action_masks is {problem}. Give what info['{KEY}'] has, {actions} numbers 0 or 1, one of them 1"
        f"{'' if single else ', for every observation'}."
    )


def random_allowed(drawn: int, share: float, mask: np.ndarray) -> int:
    """The allowed action that a uniform draw of all actions stands for, with a uniform share in [0, 1) beside it: each
    of k is as likely. Where all are allowed it is the draw itself.
    """
    allowed = np.flatnonzero(mask)
    count = len(allowed)
    return int(allowed[(drawn * count + min(int(share * count), count - 1)) // len(mask)])
