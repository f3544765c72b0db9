"""The kernel's structures have the same fields, in the same order, as their mirrors."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from srgdqn.kernel import build, structures

SETTINGS = (Path(build.__file__).parent / "c" / "settings.h").read_text(encoding="utf-8")
TYPES = {
    "int32_t": ctypes.c_int32,
    "float": ctypes.c_float,
    "Task": structures.Task,
    "Tree": structures.Tree,
}


def fields_in_c(structure: str) -> list[tuple[str, object]]:
    """Names and types, all pointers being alike."""
    text = re.sub(r"/\*.*?\*/", "", SETTINGS, flags=re.DOTALL).replace("\\\n", " ")
    (names,) = re.findall(r"#define NUMBER_NAMES (.*)", text)
    text = text.replace("NUMBER_NAMES;", f"{names};")
    (body,) = re.findall(rf"typedef struct \{{([^}}]*)\}} {structure};", text)
    fields: list[tuple[str, object]] = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+) (.*)", declaration, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        for name in names.split(","):
            bare = re.sub(r"\[.*\]", "", name).strip()
            fields.append((bare.lstrip("*"), ctypes.c_void_p if bare.startswith("*") else TYPES[kind]))
    return fields


@pytest.mark.parametrize("structure", ["Task", "Shape", "Numbers", "Limits", "Tree", "Lanes", "LearnerState", "Log"])
def test_fields_are_mirrored_in_order(structure: str) -> None:
    mirrored = [
        (name, getattr(kind, "_type_", kind) if issubclass(kind, ctypes.Array) else kind)
        for name, kind in getattr(structures, structure)._fields_
    ]
    assert mirrored == fields_in_c(structure)


@pytest.mark.parametrize(
    ("names", "enumeration"),
    [
        (structures.TASKS, "MOUNTAIN_CAR, PENDULUM, CART_POLE, ACROBOT"),
        (structures._REWARDS, "RAW, HEIGHT, DISTANCE, POSITION_AND_ANGLE, UPRIGHT_COSINE"),
        (structures._TARGETS, "TARGET_CURRENT, TARGET_OUTER, TARGET_HARD, TARGET_POLYAK"),
        (structures.ESTIMATORS, "NONE, SGD, FULL, SVRG, SRG, STORM, STORM_INNER"),
        (structures._SCHEDULES, "CONSTANT, LINEAR, COSINE"),
    ],
)
def test_names_stand_where_the_kernels_enumerations_have_them(names: tuple[str, ...], enumeration: str) -> None:
    assert f"enum {{ {enumeration} }};" in SETTINGS
    plain = [name.removeprefix("TARGET_").replace("_", "") for name in enumeration.split(", ")]
    assert [re.sub("[-_]", "", name).upper() for name in names] == plain


def test_sizes_that_are_fixed_agree() -> None:
    assert f"#define MOST_LAYERS {structures.MOST_LAYERS}\n" in SETTINGS
    assert f"#define LEARNER_TREES {structures.LEARNER_TREES}\n" in SETTINGS
    vectors = (Path(build.__file__).parent / "c" / "vectors.h").read_text(encoding="utf-8")
    assert f"#define TEAM {structures.TEAM} " in vectors
