"""Every module stands in a row of the architecture's table of folders, and imports none that stands below it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "srgdqn"
FRONT_DOOR = "__init__"


def rows() -> dict[str, int]:
    """The row of every folder, from the top; a module of a folder may stand in another row than the folder."""
    section = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("\n## Folders\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", section, flags=re.M)
    return {folder.rstrip("/"): row for row, cell in enumerate(cells) for folder in re.findall(r"`([^`]+)`", cell)}


ROWS = rows()
FILES = {
    str(path.relative_to(PACKAGE).with_suffix("")).removesuffix("/__init__"): path for path in PACKAGE.rglob("*.py")
}


def folder_of(module: str) -> str | None:
    """The folder that a module, `store/run`, belongs to."""
    return next((folder for folder in (module, module.partition("/")[0]) if folder in ROWS), None)


def imported(path: Path) -> Iterator[str]:
    """The package's modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == PACKAGE.name and rest != "__version__":
                # What is imported may be a module, or something in one.
                inner = rest.replace(".", "/")
                yield inner if inner in FILES else inner.rpartition("/")[0]


def test_every_module_stands_in_a_row_and_every_row_has_modules() -> None:
    folders = {module: folder_of(module) for module in FILES if module != FRONT_DOOR}
    assert [module for module, folder in folders.items() if folder is None] == []
    assert ROWS.keys() - set(folders.values()) == set()


@pytest.mark.parametrize("module", sorted(FILES.keys() - {FRONT_DOOR}))
def test_no_module_imports_what_stands_below_it(module: str) -> None:
    def row(name: str) -> int:
        folder = folder_of(name)
        assert folder is not None, f"{module} imports {name or 'the front door'}, which stands in no row"
        return ROWS[folder]

    assert [other for other in imported(FILES[module]) if row(other) > row(module)] == []
