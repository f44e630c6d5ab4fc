"""The files below a desktop's HOME, for an editor that runs outside the isolation.

Programs of the desktop may change every directory and link at any moment. So a path is resolved once, by the desktop's
own rules (`LiveStore`), and then walked from HOME without following any link: what was exchanged in between is an
error, never a file of the host. Nothing that is no regular file is opened.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import itertools
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from pytest_cua.desktop.files import LiveStore, inside_path
from pytest_cua.desktop.observer import DirectObserver
from pytest_cua.errors import BadArgument
from pytest_cua.tools.edit_text import EditFailed, printable

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

#: Bytes of a file that are read as a whole, and so can be edited.
MOST_BYTES: Final = 20_000_000
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK: if a FIFO has come in its place since it was looked at, nobody waits for its writer.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
_MOST_LISTED: Final = 1_000
_LINE_ENDS: Final = re.compile(r"[\r\n]")


@dataclass(frozen=True)
class Place:
    """Where a file is, whether it exists or not.

    Args:
        path: As programs of the desktop see it.
        parts: The way from HOME, with links resolved.
    """

    path: str
    parts: tuple[str, ...]

    @property
    def key(self) -> str:
        """The file itself, whatever link names it."""
        return "/".join(self.parts)

    @property
    def name(self) -> str:
        """In its directory."""
        return self.parts[-1] if self.parts else "."


@dataclass(frozen=True)
class Found:
    """A file that was read.

    Args:
        data: Its content.
        status: How it was before that.
    """

    data: bytes
    status: os.stat_result


class HomeFiles:
    """Reads and writes files below HOME.

    Args:
        desktop: Whose HOME.
    """

    def __init__(self, desktop: Desktop) -> None:
        self._home = desktop.home
        self._inside = desktop.home_inside
        self._store = LiveStore(desktop.home, desktop.home_inside, Path("/"), DirectObserver())
        self.directory = desktop.root / "editor"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other editor of this desktop change a file meanwhile, in whatever process or thread it is."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def place(self, path: object) -> Place:
        """Where a file is.

        Raises:
            BadArgument: the path is not absolute, not below HOME, or reached by a link that leaves HOME.
        """
        self._check(path)
        assert isinstance(path, str)
        inside = inside_path(path, self._inside)
        try:
            host = self._store.host(inside)
        except OSError as error:
            raise BadArgument(f"{printable(path)} cannot be looked for: {error.strerror}.") from None
        return Place(inside, host.relative_to(self._home).parts)

    def status(self, place: Place) -> os.stat_result | None:
        """What is there, None when nothing is.

        Raises:
            EditFailed: its directory cannot be reached.
        """
        with _errors(place), contextlib.suppress(FileNotFoundError), self._parent(place) as parent:
            return os.stat(place.name, dir_fd=parent, follow_symlinks=False)
        return None

    @contextlib.contextmanager
    def opened(self, place: Place) -> Iterator[tuple[int, os.stat_result]]:
        """A regular file or a directory, open for reading: its descriptor and status.

        Raises:
            EditFailed: it is neither, not there, or may not be read.
        """
        with _errors(place, self._missing), self._parent(place) as parent:
            _check_kind(place, os.stat(place.name, dir_fd=parent, follow_symlinks=False))
            descriptor = os.open(place.name, _READ, dir_fd=parent)
        try:
            status = os.fstat(descriptor)
            _check_kind(place, status)
            if not stat.S_IMODE(status.st_mode) & stat.S_IRUSR:  # root may, programs of the desktop may not
                raise EditFailed(f"{place.path} may not be read (mode {stat.S_IMODE(status.st_mode):04o}).")
            yield descriptor, status
        finally:
            os.close(descriptor)

    def read(self, place: Place) -> Found:
        """A regular file as a whole.

        Raises:
            EditFailed: it is none, not there, may not be read, or is too large.
        """
        with self.opened(place) as (descriptor, status):
            if stat.S_ISDIR(status.st_mode):
                raise EditFailed(f"{place.path} is a directory; it can be viewed, not changed.")
            check_size(place, status.st_size)
            with _errors(place):
                data = read_all(descriptor, MOST_BYTES + 1)
            check_size(place, len(data))
            return Found(data, status)

    def write(self, place: Place, data: bytes, found: Found | None) -> None:
        """Put a file in its place as a whole, so that nobody ever sees a part of it.

        Mode, owner and extended attributes are those of the file before.

        Args:
            place: Where.
            data: Its content.
            found: The file before; None when there was none.

        Raises:
            EditFailed: it was changed since it was read, is read-only, or cannot be written.
        """
        if found is not None and not stat.S_IMODE(found.status.st_mode) & stat.S_IWUSR:
            raise EditFailed(
                f"{place.path} is read-only (mode {stat.S_IMODE(found.status.st_mode):04o}). "
                "If it shall be changed all the same, make it writable first (chmod u+w)."
            )
        new = self.directory / "new"  # on the same disk as HOME, and where no program looks
        with _errors(place), self._parent(place) as parent:
            try:
                new.write_bytes(data)
                if found is None:
                    new.chmod(0o644)
                else:
                    _make_like(new, place, parent, found.status)
                self._check_unchanged(place, parent, found)
                os.rename(new, place.name, dst_dir_fd=parent)  # Path.rename knows no dir_fd
            finally:
                new.unlink(missing_ok=True)

    def remove(self, place: Place, found: Found, made: int) -> None:
        """Remove a file, and so many directories above it, as far as they are empty.

        Raises:
            EditFailed: it was changed since it was read, or cannot be removed.
        """
        with _errors(place), self._parent(place) as parent:
            self._check_unchanged(place, parent, found)
            os.unlink(place.name, dir_fd=parent)
        for length in range(len(place.parts) - 1, len(place.parts) - 1 - made, -1):
            above = Place(place.path, place.parts[:length])
            try:
                with self._parent(above) as parent:
                    os.rmdir(above.name, dir_fd=parent)
            except OSError:
                return

    def make_directories(self, place: Place) -> int:
        """Make the directories above a file; gives how many there were to make.

        Raises:
            EditFailed: something else is there.
        """
        made = 0
        with _errors(place), contextlib.ExitStack() as stack:
            here = _opened(self._home, stack)
            for part in place.parts[:-1]:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=here)
                    made += 1
                here = _opened(part, stack, here)
        return made

    def listing(self, descriptor: int) -> list[str]:
        """What is in an open directory, two levels deep, without hidden entries; directories end in "/"."""
        lines: list[str] = []
        for name, shown in _entries(descriptor):
            lines.append(shown)
            if shown.endswith("/"):
                with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # gone since, or closed to us
                    below = _opened(name, stack, descriptor)
                    lines += [shown + further for _, further in _entries(below)]
            if len(lines) > _MOST_LISTED:
                return [*lines[:_MOST_LISTED], f"[There are more: {_MOST_LISTED:,} are shown.]"]
        return lines

    def _check(self, path: object) -> None:
        if not isinstance(path, str) or not path or "\0" in path:
            raise BadArgument(f"path={path!r} is no path of a file.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise BadArgument(f"path={path!r} holds half of a surrogate pair.") from None
        if not path.startswith("/"):
            below = path.removeprefix("~/") if path != "~" else "."
            meant = posixpath.normpath(posixpath.join(self._inside, below))
            is_below = PurePosixPath(meant).is_relative_to(self._inside)
            hint = f" Perhaps {meant} is meant." if is_below else ""
            raise BadArgument(f"The path {path!r} is not absolute: it must begin with '/'.{hint}")
        plain = "/" + posixpath.normpath(path).lstrip("/")
        if ".." in path.split("/"):
            is_below = PurePosixPath(plain).is_relative_to(self._inside)
            hint = f" Write {plain}." if is_below else ""
            raise BadArgument(f"The path {path!r} has '..' in it, which the editor does not follow.{hint}")
        if not PurePosixPath(plain).is_relative_to(self._inside):
            raise BadArgument(
                f"{path} is outside of {self._inside}, and the editor has only what is below that. "
                "Use bash for files elsewhere."
            )

    @contextlib.contextmanager
    def _parent(self, place: Place) -> Iterator[int]:
        """The directory of a file, open; no part of the way may have become a link."""
        with contextlib.ExitStack() as stack:
            here = _opened(self._home, stack)
            for part in place.parts[:-1]:
                here = _opened(part, stack, here)
            yield here

    def _missing(self, place: Place) -> str:
        """The message when a file is not there, with names that are like its own."""
        text = f"There is no {printable(place.path)}."
        with contextlib.suppress(OSError), self._parent(place) as parent:
            with os.scandir(parent) as entries:
                names = [entry.name for entry in itertools.islice(entries, _MOST_LISTED)]
            close = difflib.get_close_matches(place.name, names, 3)
            if close:
                text += f" In its directory are: {', '.join(map(printable, close))}."
        return text

    @staticmethod
    def _check_unchanged(place: Place, parent: int, found: Found | None) -> None:
        try:
            now = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if (now and _version(now)) != (found and _version(found.status)):
            raise EditFailed(
                f"{place.path} was changed by a program while it was edited; nothing was written. "
                "View it, and edit again."
            )


def check_size(place: Place, size: int) -> None:
    """Raise EditFailed for a file that is too large to be edited."""
    if size > MOST_BYTES:
        raise EditFailed(
            f"{place.path} has {size:,} bytes, and the editor changes files of up to {MOST_BYTES:,}. "
            "Use bash (sed, python3) for it."
        )


def read_all(descriptor: int, most: int) -> bytes:
    """What a regular file holds, up to so many bytes."""
    pieces = []
    while most > 0 and (piece := os.read(descriptor, min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _make_like(new: Path, place: Place, parent: int, status: os.stat_result) -> None:
    """Give a file the owner, extended attributes and mode of another."""
    made = new.stat()
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.chown(new, status.st_uid, status.st_gid)
        except PermissionError:
            raise EditFailed(
                f"{place.path} belongs to user {status.st_uid} and group {status.st_gid}, which an edit could not keep."
            ) from None
    old = os.open(place.name, _READ, dir_fd=parent)
    try:
        for name in os.listxattr(old):
            with contextlib.suppress(OSError):  # some are the kernel's own
                os.setxattr(new, name, os.getxattr(old, name))
    finally:
        os.close(old)
    new.chmod(stat.S_IMODE(status.st_mode))  # last, as a change of the owner takes set-user-ID away


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _check_kind(place: Place, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise EditFailed(f"{place.path} became a link while it was looked for; try again.")
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "no regular file")
    raise EditFailed(f"{place.path} is {kind}, which holds no text to view or change.")


def _opened(name: str | Path, stack: contextlib.ExitStack, parent: int | None = None) -> int:
    """A directory, open until the stack ends."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    stack.callback(os.close, descriptor)
    return descriptor


def _entries(descriptor: int) -> Iterator[tuple[str, str]]:
    """What is in a directory and not hidden, in order: its name, and how it is shown. Links are not followed."""
    with os.scandir(descriptor) as entries:
        found = sorted((entry.name, entry) for entry in entries if not entry.name.startswith("."))
    for name, entry in found:
        shown = _LINE_ENDS.sub(lambda end: repr(end[0])[1:-1], printable(name))
        if entry.is_symlink():
            with contextlib.suppress(OSError):
                shown += f" -> {printable(os.readlink(name, dir_fd=descriptor))}"
            yield name, shown.rstrip("/")  # what it leads to is not entered
        else:
            yield name, shown + "/" * entry.is_dir(follow_symlinks=False)


@contextlib.contextmanager
def _errors(place: Place, missing: Callable[[Place], str] | None = None) -> Iterator[None]:
    """Say what an error of the system means."""
    try:
        yield
    except FileNotFoundError:
        raise EditFailed(missing(place) if missing else f"There is no {printable(place.path)} any more.") from None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise EditFailed(f"The way to {place.path} leads through something that is no directory.") from None
        raise EditFailed(f"{printable(place.path)}: {os.strerror(error.errno or 0)}.") from None
