"""Files of a desktop, as a test sees them: live ones and recorded ones."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from pytest_cua.desktop.isolation import HOME_INSIDE
from pytest_cua.desktop.observer import Observer
from pytest_cua.errors import BadArgument, CuaFailure, NeedsApplication
from pytest_cua.secrets import Secret

#: The time of change of files that a test brings: file dialogs show it. 2024-01-01 10:00:00 UTC.
FIXED_TIME: Final = 1_704_103_200
_MOST_LINKS: Final = 40


class MissingFile(CuaFailure, FileNotFoundError):
    """A file that a test reads is not there."""


class FileStore(Protocol):
    """Where the files of a desktop are."""

    observer: Observer

    def inside(self, path: str) -> str:
        """The path as programs see it; raises BadArgument when it leaves HOME."""
        ...

    def host(self, path: str) -> Path:
        """The path on the host."""
        ...

    def read(self, path: str) -> bytes | None:
        """The contents, None when there is no such file."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write it, with its directories."""
        ...

    def copy(self, path: str, source: Path) -> None:
        """Copy a file or directory of the host there."""
        ...

    def remove(self, path: str) -> None:
        """Remove it."""
        ...

    def names(self) -> list[str]:
        """The files in HOME, for messages."""
        ...


class DesktopFile:
    """A file of the desktop, whether it exists or not.

    Args:
        path: As the test wrote it: relative to HOME, or absolute as programs see it.
        store: Where it is.
    """

    def __init__(self, path: str, store: FileStore) -> None:
        self.path = path
        self._store = store
        self.inside_path = store.inside(path)

    def __repr__(self) -> str:
        return f"DesktopFile({self.path!r})"

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """The path as the test wrote it."""
        return self.path

    @property
    def host_path(self) -> Path:
        """Where it is on the host.

        Raises:
            NeedsApplication: there is none, as the desktop is a recorded one.
        """
        place = self._store.host(self.path)
        self._store.observer.handed_out("file", self.path)
        return place

    def exists(self) -> bool:
        """Whether it is there."""
        return self._store.read(self.path) is not None

    def read_bytes(self) -> bytes:
        """Its contents.

        Raises:
            MissingFile: it does not exist.
        """
        data = self._store.read(self.path)
        if data is None:
            raise MissingFile(
                f"There is no file {self.path!r} on the desktop. {_listing(self._store.names())}".rstrip()
            )
        return data

    def read_text(self) -> str:
        """Its contents, decoded from UTF-8.

        Raises:
            MissingFile: it does not exist.
            CuaFailure: it is not UTF-8.
        """
        data = self.read_bytes()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            around = data[max(0, error.start - 8) : error.start + 8]
            raise CuaFailure(
                f"The file {self.path!r} is not UTF-8: byte {error.start} of {len(data)} is "
                f"0x{data[error.start]:02x}, in {around!r}.",
                "read it with read_bytes()",
            ) from None

    def size(self) -> int:
        """Its size in bytes.

        Raises:
            MissingFile: it does not exist.
        """
        return len(self.read_bytes())

    def write(self, data: str | bytes) -> None:
        """Write it, text as UTF-8; directories are made. Its time of change is a fixed one.

        Raises:
            BadArgument: the file is outside HOME, or `data` is neither str nor bytes.
        """
        if not isinstance(data, str | bytes):
            hint = ("a secret's value is given only to who asks for it: write(secret.value)",)
            raise BadArgument(
                f"write() takes str or bytes, not {type(data).__name__}.", *(hint if isinstance(data, Secret) else ())
            )
        self._store.write(self.path, data.encode("utf-8") if isinstance(data, str) else data)

    def copy_from(self, source: str | os.PathLike[str]) -> None:
        """Copy a file or directory of the host there.

        Raises:
            BadArgument: `source` does not exist, or the file is outside HOME.
        """
        self._store.copy(self.path, Path(source))

    def unlink(self) -> None:
        """Remove it; a file that is not there is none to remove.

        Raises:
            BadArgument: the file is outside HOME.
        """
        self._store.remove(self.path)


class LiveStore:
    """The files of a running desktop.

    Args:
        home: HOME on the host.
        home_inside: HOME as programs see it.
        view: The root of what programs see, on the host.
        observer: Hook that readings go through.
    """

    def __init__(self, home: Path, home_inside: str, view: Path, observer: Observer) -> None:
        self._home = home
        self._home_inside = home_inside
        self._view = view
        self._writes = 0
        self.observer = observer

    def inside(self, path: str) -> str:
        """The path as programs see it."""
        return inside_path(path, self._home_inside)

    def host(self, path: str) -> Path:
        """The path on the host."""
        inside = PurePosixPath(self.inside(path))
        if not inside.is_relative_to(self._home_inside):
            return self._view / inside.relative_to("/")
        return self._follow(inside, path)

    def read(self, path: str) -> bytes | None:
        """The contents, by the observer."""
        data = self.observer.observe("file", path, lambda: self._read(path))
        if data is not None and not isinstance(data, bytes):
            raise TypeError(f"the observer gave {type(data).__name__} for a file")
        return data

    def write(self, path: str, data: bytes) -> None:
        """Write it, with its directories."""
        place = self._place_to_write(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self._set_time(place)

    def copy(self, path: str, source: Path) -> None:
        """Copy a file or directory of the host there."""
        place = self._place_to_write(path)
        if not source.exists():
            raise BadArgument(f"There is no {str(source)!r} to copy to {path!r}.")
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
            set_times(place)
        else:
            shutil.copyfile(source, place)
            shutil.copymode(source, place)
        self._set_time(place)

    def remove(self, path: str) -> None:
        """Remove it."""
        place = self._place_to_write(path)
        if place.is_dir():
            raise BadArgument(f"{path!r} is a directory; only files can be removed.")
        place.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The files in HOME."""
        return sorted(entry.name + "/" * entry.is_dir() for entry in self._home.iterdir())

    def _read(self, path: str) -> bytes | None:
        place = self.host(path)
        try:
            return place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            return b""  # it exists, that is all that can be said
        except OSError as error:
            raise BadArgument(f"The file {path!r} cannot be read: {error.strerror}.") from None

    def _place_to_write(self, path: str) -> Path:
        if not PurePosixPath(self.inside(path)).is_relative_to(self._home_inside):
            raise BadArgument(
                f"The file {path!r} is outside the desktop's HOME; it can be read, not written.",
                f"use a path relative to HOME, which is {self._home_inside}",
            )
        return self.host(path)

    def _set_time(self, place: Path) -> None:
        # the same in every run, but never the same for two writes: programs notice changes by it
        self._writes += 1
        os.utime(place, (FIXED_TIME + self._writes, FIXED_TIME + self._writes))

    def _follow(self, inside: PurePosixPath, path: str) -> Path:
        """The place on the host, with symbolic links followed as programs inside would, but never out of HOME."""
        home = PurePosixPath(self._home_inside)
        done: list[str] = []
        rest = list(inside.relative_to(home).parts)
        links = 0
        while rest:
            part = rest.pop(0)
            here = self._home.joinpath(*done, part)
            if not here.is_symlink():
                done.append(part)
                continue
            links += 1
            target = posixpath.normpath(home.joinpath(*done) / here.readlink())
            if links > _MOST_LINKS or not PurePosixPath(target).is_relative_to(home):
                raise BadArgument(f"The file {path!r} is reached by a symbolic link that leaves HOME ({target}).")
            done, rest = [], [*PurePosixPath(target).relative_to(home).parts, *rest]
        return self._home.joinpath(*done)


class RecordedStore:
    """The files of a desktop that does not run: readings come from the observer, writing does nothing."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def inside(self, path: str) -> str:
        """The path as programs saw it."""
        return inside_path(path, HOME_INSIDE)

    def host(self, path: str) -> Path:
        """Raises NeedsApplication."""
        raise NeedsApplication(f"desktop.file({path!r}).host_path needs the application")

    def read(self, path: str) -> bytes | None:
        """The recorded contents, by the observer."""

        def needs_application() -> bytes | None:
            raise NeedsApplication(f"desktop.file({path!r}) needs the application: no reading of it was recorded")

        return self.observer.observe("file", path, needs_application)

    def write(self, path: str, data: bytes) -> None:
        """Do nothing."""

    def copy(self, path: str, source: Path) -> None:
        """Do nothing."""

    def remove(self, path: str) -> None:
        """Do nothing."""

    def names(self) -> list[str]:
        """Nothing is known of it."""
        return []


def stamps(home: Path) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of change in nanoseconds of every file below HOME that is not hidden, by its path.

    Hidden ones are the programs' own: caches, settings, sockets.
    """
    found = {}
    for folder, names, files in os.walk(home):
        names[:] = [name for name in names if not name.startswith(".")]
        for name in files:
            path = Path(folder) / name
            if name.startswith("."):
                continue
            with suppress(OSError):  # gone since
                status = path.lstat()
                found[path.relative_to(home).as_posix()] = (status.st_size, status.st_mtime_ns)
    return found


def inside_path(path: str, home: str) -> str:
    """The absolute path, as programs see it, that a test means by `path`.

    Raises:
        BadArgument: it is empty, no text, or leaves HOME by "..".
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise BadArgument(f"{path!r} is no path of a file.")
    short = path[2:] or "." if path.startswith("~/") else path
    absolute = posixpath.normpath(posixpath.join(home, short))
    # "//x" is a path of its own in POSIX, and the same as "/x" on Linux
    absolute = "/" + absolute.lstrip("/")
    if not short.startswith("/") and not PurePosixPath(absolute).is_relative_to(home):
        raise BadArgument(f"The path {path!r} leaves the desktop's HOME.", "write an absolute path, if it is meant")
    return absolute


def set_times(directory: Path) -> None:
    """Give everything in a directory the fixed time of change."""
    for place in [*directory.rglob("*"), directory]:
        os.utime(place, (FIXED_TIME, FIXED_TIME), follow_symlinks=False)


def _listing(names: Iterable[str]) -> str:
    shown = [name for name in names if not name.startswith(".")]
    if not shown:
        return "HOME is empty."
    more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
    return f"In HOME are {', '.join(shown[:20])}{more}."
