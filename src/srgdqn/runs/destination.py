"""Where runs and files are written: checked before any long work, and written whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from srgdqn.errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover, where the system has no such locks
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"
"""The file by which a run's folder is known."""


def check_destination(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The folder as an absolute path, if a run can be saved there; it asks the disk itself by making a folder."""
    path = Path(os.path.abspath(folder))
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # free, or below a file: which one is found next
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be used as a folder: {error}. Give another one.") from error
    else:
        _check_replaceable(path, overwrite=overwrite)
    ancestor = next(parent for parent in path.parents if os.path.lexists(parent))
    if not ancestor.is_dir():
        raise InputError(f"{path} cannot be made, because {ancestor} is not a folder. Give a folder elsewhere.")
    try:
        _probe(ancestor)
    except OSError as error:
        raise InputError(
            f"{path} cannot be made, because {ancestor} cannot be written to ({error.strerror}). "
            "Give a folder in a place where you may write."
        ) from error
    return path


def check_file(path: str | os.PathLike[str], suffixes: Sequence[str], *, what: str, overwrite: bool = False) -> Path:
    """The path, if a file with one of the suffixes can be written there; `what` is what it will be, such as a figure.

    >>> check_file("curves.bmp", (".png", ".pdf"), what="figure")
    Traceback (most recent call last):
    srgdqn.errors.InputError: curves.bmp ends in '.bmp', which no figure can be written as. End it in .png or .pdf.
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(
            f"{target} ends in {target.suffix!r}, which no {what} can be written as. End it in "
            f"{' or '.join(filter(None, (', '.join(suffixes[:-1]), suffixes[-1])))}."
        )
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written, because {target.parent} is not a folder. Make it first.")
    if os.path.lexists(target) and not (overwrite and target.is_file()):
        raise InputError(
            f"{target} exists already. Give another file, or overwrite it (--overwrite, or overwrite=True in Python)."
        )
    try:
        _probe(target.parent)
    except OSError as error:
        raise InputError(
            f"{target} cannot be written, because {target.parent} cannot be written to ({error.strerror}). Give a file "
            "in a place where you may write."
        ) from error
    return target


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder as an absolute path, made if there is none; an `InputError` if nothing can be written in it."""
    path = Path(os.path.abspath(folder))
    try:
        path.mkdir(parents=True, exist_ok=True)
        _probe(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be used as a folder ({error.strerror}). Give one in a place where you may write."
        ) from error
    return path


def write_file(path: Path, data: bytes) -> Path:
    """Writes a file that appears, or replaces an older one, only once it is whole."""
    with written_whole(path) as written, disk_errors_reported(path):
        _write(written, data)
    return path


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to be written, with the same suffix; it takes its place at the end, if nothing failed."""
    with scratch(path.parent, path.suffix) as written:
        try:
            yield written
            with disk_errors_reported(path):
                os.replace(written, path)
        finally:
            with contextlib.suppress(OSError):  # nothing can be removed where nothing can be written
                written.unlink(missing_ok=True)


@contextlib.contextmanager
def disk_errors_reported(path: Path) -> Iterator[None]:
    """What the system refuses meanwhile is an `InputError` about `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} could not be written ({error.strerror or error}). Free some space.") from error


def write_folder(folder: str | os.PathLike[str], contents: Mapping[str, bytes], *, overwrite: bool = False) -> Path:
    """Writes files into a folder that appears only once they are all on the disk."""
    path = check_destination(folder, overwrite=overwrite)
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_folder(path, contents, overwrite=overwrite)
    except BaseException as error:
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise InputError(
                f"the run could not be saved in {path}: {error.strerror or error}. Nothing was changed there. Free "
                "some space or give another folder, and save it again."
            ) from error
        raise
    sync_folder(path.parent)
    return path


def _write_folder(path: Path, contents: Mapping[str, bytes], *, overwrite: bool) -> None:
    with scratch(path.parent) as written:
        try:
            written.mkdir()
            for name, data in contents.items():
                _write(written / name, data)
            sync_folder(written)
            _move(written, path, overwrite=overwrite)
        except BaseException:
            shutil.rmtree(written, ignore_errors=True)
            raise


def _probe(folder: Path) -> None:
    """Asks the disk itself whether anything can be written in a folder, by making a folder there."""
    with scratch(folder) as probe:
        probe.mkdir()
        probe.rmdir()


def _check_replaceable(path: Path, *, overwrite: bool) -> None:
    """An `InputError` unless a run can take the place of what is there: an empty folder, or a run if so wished."""
    # A folder appears whole by being renamed: to the first of these nothing can be, and the second would be gone.
    for refused, what in ((os.path.ismount(path), "where a volume is mounted"), (_is_here(path), "the working folder")):
        if refused:
            raise InputError(f"{path} is {what}. Give a folder below it, such as {path / 'run'}.")
    try:
        names = os.listdir(path)
    except OSError:
        names = ["unknown"]
    if path.is_symlink() or (names and MANIFEST not in names):
        raise InputError(
            f"{path} exists already and is not the folder of a run, so that it will not be overwritten. "
            "Give another folder."
        )
    if names and not overwrite:
        raise InputError(
            f"{path} exists already. Give another folder, or overwrite it (--overwrite, or overwrite=True in Python)."
        )


def _is_here(path: Path) -> bool:
    try:
        return os.path.samefile(path, os.curdir)
    except OSError:  # there is none
        return False


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes the folder's names last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move(written: Path, path: Path, *, overwrite: bool) -> None:
    if not (overwrite and os.path.lexists(path)):
        if path.is_dir():  # an empty one, which is replaced; one that was private stays so
            shutil.copymode(path, written)
        os.rename(written, path)
        return
    # A folder cannot replace a full one in one go: the old run steps aside, and comes back if anything fails.
    before = aside(path.parent)
    os.rename(path, before)
    try:
        os.rename(written, path)
    except BaseException:
        os.rename(before, path)
        raise
    shutil.rmtree(before, ignore_errors=True)


# Names for what is still being written, and the removal of what killed processes left of such.
#
# Whoever writes in a folder shares a lock of the kernel's on the folder itself, which is gone with the process. Who can
# have that lock alone knows that nobody writes there, and removes what is left. Such a lock may be known to one machine
# only, where folders are shared. So a name has a mark of the running system, and only what bears one's own is removed;
# where there are no locks or no such mark, nothing is.

_PREFIX = ".srgdqn-"
_RUNNING_SYSTEM = Path("/proc/sys/kernel/random/boot_id")  # Linux's own name for it, another one after every start


@contextlib.contextmanager
def scratch(folder: Path, suffix: str = "") -> Iterator[Path]:
    """A path in the folder at which nothing is, for a file or a folder. No other process removes it meanwhile."""
    handle = _entered(folder)
    try:
        mark = "" if handle is None else f"{_mark()}-"
        yield folder / f"{_PREFIX}{mark}{secrets.token_hex(8)}{suffix}"
    finally:
        if handle is not None:
            os.close(handle)


def remove_what_is_left(folder: Path) -> None:
    """Removes what killed processes have left in the folder, as far as that is known."""
    with scratch(folder):
        pass


def aside(folder: Path) -> Path:
    """A path for what is about to be replaced. It may be all that there is of it, and is never removed by others."""
    return folder / f"{_PREFIX}replaced-{secrets.token_hex(8)}"


def is_scratch(name: str) -> bool:
    """Whether a file or folder of that name is none that was ever finished."""
    return name.startswith(_PREFIX)


def _entered(folder: Path) -> int | None:
    """The handle by which the folder's lock is shared until it is closed; None where it cannot be had at once."""
    if fcntl is None or _mark() is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # there is none, or it may not be read
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_all(handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # somebody holds the lock alone, who need not be one of us, or there are none here
        os.close(handle)
        return None
    return handle


def _remove_all(folder: int) -> None:
    """Of the folder that is locked, whatever is by now at its path."""
    ours = re.compile(rf"{re.escape(_PREFIX)}{_mark()}-[0-9a-f]{{16}}(\..*)?")
    for name in os.listdir(folder):
        if ours.fullmatch(name):
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:  # as it is a folder
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


@functools.cache
def _mark() -> str | None:
    """A word for the system that is running; None where it has none."""
    try:
        return hashlib.sha256(_RUNNING_SYSTEM.read_bytes()).hexdigest()[:8]
    except OSError:
        return None
