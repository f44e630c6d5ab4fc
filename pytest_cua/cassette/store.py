"""Cassettes on disk: where a test's lies, how one is written without ever losing another.

A recording is written line by line, each flushed to the disk, into `.recording/` inside the test's folder, and takes
the place of the old one by a rename when the test passed. When it failed, it is kept aside in `.failed/`, which
`pytest-cua accept` adopts. Neither folder is meant for version control; each carries its own `.gitignore`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pytest_cua.cassette.format import FILE, FILES, SCREENS, Cassette, Line, load, seal, to_text
from pytest_cua.errors import (
    BadArgument,
    CassetteMissing,
    CassetteUnreadable,
    CassetteUnwritable,
    shell_quoted,
)

RECORDING = ".recording"
FAILED = ".failed"
UNFINISHED = ".failed-unfinished"  # beside a kept one that is better, since it came to its end
HTTP = "http.yaml"  # what vcrpy keeps beside it
PAGE = "steps.md"
_LONGEST_NAME = 100  # characters of a folder name; file systems take 255 bytes, and people read it


def cassette_folder(root: Path, test: str) -> Path:
    """The folder of a test's cassette, mirroring the test's path.

    Args:
        root: The folder of all cassettes.
        test: The node id, such as `tests/shop/test_order.py::TestCart::test_total[3 items]`.

    A name that had to be changed to be a file name, or to be short, carries 6 hex digits of the node id's hash, so that
    two tests never share a folder.
    """
    path, _, names = test.partition("::")
    if not names:
        raise BadArgument(f"{test!r} is no test id.", "it looks like tests/test_file.py::test_name")
    found = Path(path).with_suffix("").parts
    parts = [part for part in found if part not in ("/", "..", ".")]
    inner, bracket, params = names.partition("[")
    name = inner.replace("::", ".") + bracket + params
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    if slug != name or len(slug) > _LONGEST_NAME or len(parts) < len(found):
        digest = hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        slug = f"{slug[:_LONGEST_NAME].rstrip('-.')}-{digest}"
    return root.joinpath(*parts, slug)


def file_key(data: bytes) -> str:
    """The name under which bytes are stored: their hash."""
    return hashlib.sha256(data).hexdigest()[:32]


def load_cassette(root: Path, test: str) -> Cassette:
    """The recording of a test.

    Raises:
        CassetteMissing: None was made; the message names the command that makes one.
        CassetteUnreadable: It is damaged or incomplete.
    """
    folder = cassette_folder(root, test)
    if not (folder / FILE).exists():
        raise CassetteMissing(*_missing(folder, test))
    cassette = load(folder)
    recorded = cassette.header.get("test")
    if recorded != test:
        raise CassetteUnreadable(
            f"{cassette.file} was recorded for {recorded}, not for {test}.",
            f"pytest --cua-mode=record {shell_quoted(test)}",
        )
    return cassette


def _missing(folder: Path, test: str) -> tuple[str, ...]:
    message = f"There is no cassette for {test}: {folder / FILE} does not exist."
    hints = [f"record it: pytest --cua-record {shell_quoted(test)}"]
    if is_adoptable(folder / FAILED):
        hints.insert(0, f"a recording of a run that failed was kept: pytest-cua accept {shell_quoted(test)}")
    elif (folder / FAILED / FILE).exists():
        hints.append(f"one that broke off inside a step was kept to be read: pytest-cua show {shell_quoted(test)}")
    if folder.parent.is_dir():
        others = sorted(path.parent.name for path in folder.parent.glob(f"*/{FILE}"))
        if others:
            message += f" Beside it there are cassettes for {', '.join(others[:5])}."
    return message, *hints


class CassetteWriter:
    """Writes one recording beside the old one.

    Args:
        folder: The test's folder.

    Raises:
        CassetteUnwritable: The folder cannot be written, or another run is recording this test.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.aside = folder / RECORDING
        self._sum = ""
        self._screens: set[str] = set()
        self._stream: IO[bytes] | None = None
        self._lock: IO[bytes] | None = None
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> CassetteUnwritable:
        return CassetteUnwritable(
            f"The cassette cannot be written: {error.filename or self.folder}: {error.strerror or error}.",
            f"make the folder writable, or choose another with -o cua_cassette_dir=FOLDER (now {self.folder.parent})",
        )

    def _open(self) -> None:
        self.aside.mkdir(parents=True, exist_ok=True)
        self._lock = (self.aside / "lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise CassetteUnwritable(
                f"Another run is recording this test just now: {self.aside}.",
                "wait for it to end; two recordings of one test at once would mix",
            ) from None
        if (self.aside / FILE).exists():  # left by a run that was killed: it was paid for, so it is kept
            _keep(self.aside, self.folder / FAILED)
        _clear(self.aside)
        (self.aside / ".gitignore").write_text("*\n", encoding="utf-8")
        (self.aside / SCREENS).mkdir(exist_ok=True)
        self._stream = (self.aside / FILE).open("wb")

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line and flush it to the disk; once the recording is closed, do nothing.

        A fixture of the user's may go on after a test that failed, whose recording lies aside by then.
        """
        if self._stream is None:
            return
        sealed: Line = seal(line, self._sum)
        try:
            self._stream.write(to_text(sealed).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise self._unwritable(error) from None
        self._sum = sealed["sum"]

    def add_screen(self, key: str, webp: bytes) -> None:
        """Store a picture under the key of its pixels, once."""
        self._add(SCREENS, f"{key}.webp", webp)
        self._screens.add(key)

    def has_screen(self, key: str) -> bool:
        """Whether the picture is stored already."""
        return key in self._screens

    def add_file(self, data: bytes) -> str:
        """Store bytes under their own hash and return it."""
        key = file_key(data)
        self._add(FILES, f"{key}.bin", data)
        return key

    def _add(self, kind: str, name: str, data: bytes) -> None:
        target = self.aside / kind / name
        if self._stream is None or target.exists():
            return
        try:
            target.parent.mkdir(exist_ok=True)
            partial = target.with_suffix(".part")
            partial.write_bytes(data)
            partial.replace(target)
        except OSError as error:
            raise self._unwritable(error) from None

    def write_page(self, text: str) -> None:
        """Write `steps.md`, the page for reviewers."""
        try:
            (self.folder / PAGE).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise self._unwritable(error) from None

    def commit(self) -> None:
        """Let the new recording take the place of the old one; it was written to its end and the test passed."""
        self._close_stream()
        try:
            load(self.aside)  # what cannot be replayed must not replace what can
            for kind in (SCREENS, FILES):
                for path in sorted((self.aside / kind).glob("*")) if (self.aside / kind).is_dir() else ():
                    (self.folder / kind).mkdir(exist_ok=True)
                    path.replace(self.folder / kind / path.name)
            _replace_or_remove(self.aside / HTTP, self.folder / HTTP)
            (self.aside / FILE).replace(self.folder / FILE)
            _sync_folder(self.folder)
            prune_unreferenced(self.folder)
        except CassetteUnreadable:
            self._unlock()  # what is left was paid for, and the next recording keeps it
            raise
        except OSError as error:
            self._unlock()
            raise self._unwritable(error) from None
        self._discard()

    def keep_aside(self) -> Path | None:
        """Keep a recording that may not replace the old one; returns where, None when nothing was asked of a model."""
        self._close_stream()
        kept = _keep(self.aside, self.folder / FAILED)
        self._discard()
        return kept

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _discard(self) -> None:
        shutil.rmtree(self.aside, ignore_errors=True)
        self._unlock()  # not before: who takes the lock writes into that folder
        with suppress(OSError):  # only when nothing else is in it
            self.folder.rmdir()


def _worth_keeping(path: Path) -> bool:
    """Whether the file holds an answer of a model."""
    return path.exists() and any(line.startswith(b'{"type": "turn"') for line in path.read_bytes().splitlines())


def _clear(aside: Path) -> None:
    """Remove what an earlier run left, so that nothing of it gets into the new recording; the lock stays."""
    for path in aside.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _keep(aside: Path, target: Path) -> Path | None:
    """Move a recording aside, never in the place of a better one; returns where it lies."""
    if not _worth_keeping(aside / FILE):
        return None
    if is_adoptable(target) and not is_adoptable(aside):
        target = target.with_name(UNFINISHED)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in (FILE, HTTP, SCREENS, FILES, ".gitignore"):
        if (aside / name).exists():
            (aside / name).replace(target / name)
    return target


def is_adoptable(folder: Path) -> bool:
    """Whether a folder holds a recording of which every step came to its end."""
    try:
        return all(step.end for step in load(folder).steps)
    except (OSError, CassetteUnreadable):
        return False


def adopt(folder: Path) -> Cassette:
    """Let the recording that was kept aside take the place of the cassette.

    Raises:
        CassetteMissing: Nothing was kept.
        CassetteUnreadable: What was kept did not come to its end, so it cannot be replayed.
    """
    kept = folder / FAILED
    if not (kept / FILE).exists():
        raise CassetteMissing(
            f"No recording was kept aside in {folder}.", "record the test: pytest --cua-mode=record ..."
        )
    recording = load(kept)
    if (folder / FILE).exists() and load(folder).header["recorded_at"] > recording.header["recorded_at"]:
        raise CassetteUnreadable(
            f"The recording kept in {kept} is older than the cassette beside it, which a later run made.",
            f"if it is not wanted any more: rm -r {kept}",
        )
    unfinished = [step.number for step in recording.steps if not step.end]
    if unfinished:
        raise CassetteUnreadable(
            f"The recording kept in {kept} ends inside step {unfinished[0]}, so it cannot be replayed to its end.",
            f"record the test again: pytest --cua-mode=record {shell_quoted(recording.header['test'])}",
        )
    for kind in (SCREENS, FILES):
        for path in sorted((kept / kind).glob("*")) if (kept / kind).is_dir() else ():
            (folder / kind).mkdir(exist_ok=True)
            path.replace(folder / kind / path.name)
    _replace_or_remove(kept / HTTP, folder / HTTP)
    (kept / FILE).replace(folder / FILE)
    _sync_folder(folder)
    shutil.rmtree(kept, ignore_errors=True)
    prune_unreferenced(folder)
    return load(folder)


def _replace_or_remove(source: Path, target: Path) -> None:
    """Let a file take the place of another; without a new one the old one goes."""
    if source.exists():
        source.replace(target)
    else:
        target.unlink(missing_ok=True)


def prune_unreferenced(folder: Path) -> int:
    """Remove the pictures and files that no line refers to; returns how many."""
    referenced = load(folder).referenced()
    removed = 0
    for kind in (SCREENS, FILES):
        for path in (folder / kind).glob("*") if (folder / kind).is_dir() else ():
            if path.stem not in referenced:
                path.unlink()
                removed += 1
        with suppress(OSError):
            (folder / kind).rmdir()
    return removed


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself: without it a power cut could bring the old name back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
