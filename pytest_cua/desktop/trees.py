"""The directories of desktops on the host: making, finding abandoned ones, removing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "pytest-cua-"
#: In a desktop's directory: the socket by which another runner comes, and the name that it was given.
SOCKET: Final = "holder.sock"
_NAME: Final = "name"
#: A socket's path may have 107 characters; the desktop's own paths add a few to this.
_LONGEST_TEMPORARY: Final = 50


def temporary_directory() -> Path:
    """Where desktops live."""
    directory = tempfile.gettempdir()
    return Path(directory if len(directory) <= _LONGEST_TEMPORARY else "/tmp")  # noqa: S108


def make() -> tuple[Path, int]:
    """Make the directory of a desktop.

    Returns:
        The directory and the descriptor of its lock. While a process holds the lock, the directory is in use.
    """
    root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary_directory()))
    new = root / "lock.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(root / "lock")  # it is locked before anybody can find it
    for name in ("home", "config", "logs", "run"):
        (root / name).mkdir(mode=0o700)
    return root, lock


def abandoned() -> list[Path]:
    """The directories of desktops that nobody holds any more, of our own user."""
    found = []
    for root in temporary_directory().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            lock = os.open(root / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            finally:
                os.close(lock)
            found.append(root)
    return found


def set_name(root: Path, name: str) -> None:
    """Let a desktop be found by its name."""
    (root / _NAME).write_text(name, "utf-8")


def named(name: str) -> list[Path]:
    """The directories of desktops of our own user that can be attached to: those of a name, or of any with ""."""
    found = []
    for root in sorted(temporary_directory().glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            is_ours = not root.is_symlink() and root.stat().st_uid == os.getuid() and (root / SOCKET).exists()
            if is_ours and name in ("", root.name, (root / _NAME).read_text("utf-8")):
                found.append(root)
    return found


def display_of(root: Path) -> int | None:
    """The display that belonged to a directory, if a server was started."""
    try:
        return int((root / "display").read_text())
    except (OSError, ValueError):
        return None


def remove(root: Path) -> None:
    """Remove a tree, also where a program took away its own rights. What stays behind is no error."""
    shutil.rmtree(root, ignore_errors=True)
    if not root.exists():
        return
    _allow(root)
    for parent, names, _ in os.walk(root):  # from the top: each directory is made readable before it is entered
        for name in names:
            _allow(Path(parent, name))
    shutil.rmtree(root, ignore_errors=True)


def _allow(directory: Path) -> None:
    """Give ourselves all rights to a directory, never to one outside that a link in HOME points to."""
    with contextlib.suppress(OSError):
        if not directory.is_symlink():
            directory.chmod(stat.S_IRWXU)
