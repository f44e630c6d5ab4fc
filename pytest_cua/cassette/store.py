"""Cassettes on disk: where a test's lies, how one is written without ever losing another.

A recording is written line by line, each flushed to the disk, into `.recording/` inside the test's folder, and takes
the place of the old one by a rename when the test passed. When it failed, it is kept aside in `.failed/`, which
`pytest-cua accept` adopts. Neither folder is meant for version control; each carries its own `.gitignore`.

The rename of `cassette.jsonl` is the moment from which the new recording holds. What belongs to it (`http.yaml`,
`steps.md`) is named in its footer by digest and follows at once; when a crash comes between, the next reader finishes
the move (`finish_swap`). Pictures come before, into the folder that all cassettes share.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import IO, Any

from pytest_cua.cassette.format import (
    FILE,
    FILES,
    SCREENS,
    Cassette,
    damage_by_git,
    load,
    seal,
    shared_screen,
    sum_of,
)
from pytest_cua.cassette.redact import scan_folder
from pytest_cua.errors import (
    BadArgument,
    CassetteMissing,
    CassetteUnreadable,
    CassetteUnwritable,
    SecretLeaked,
    cua_command,
    path_quoted,
    project_root,
    pytest_command,
    shell_quoted,
)

RECORDING = ".recording"
FAILED = ".failed"
UNFINISHED = ".failed-unfinished"  # beside a kept one that is better, since it came to its end
MOVING = ".failed-moving"  # on the way into one of these two
HTTP = "http.yaml"  # what vcrpy keeps beside it
PAGE = "steps.md"
FLOWS = "flows"
BASELINES = "baselines"  # accepted screenshots, in a test's folder
GIT_ATTRIBUTES = """\
# pytest-cua checks every byte of these: no conversion of line ends, no merging line by line
cassette.jsonl -text -merge diff=pytest-cua
http.yaml -text -merge
steps.md -text -merge
*.webp -text -merge -diff
*.bin -text -merge -diff
"""
_PAID = ("header", "turn", "end", "footer")  # lines that go to the disk at once, not only into its cache
_LONGEST_NAME = 100  # characters of a folder name; file systems take 255 bytes, and people read it
_OF_PICTURES = re.compile("[0-9a-f]{2}")  # the names of the folders in `screens/`
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # Windows has no such files


def cassette_folder(root: Path, test: str) -> Path:
    """The folder of a test's cassette, mirroring the test's path.

    Args:
        root: The folder of all cassettes.
        test: The node id, such as `tests/shop/test_order.py::TestCart::test_total[3 items]`; of a flow its id.

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
    changed = slug != name or len(slug) > _LONGEST_NAME or len(parts) < len(found) or _RESERVED.fullmatch(slug)
    if changed:
        digest = hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        slug = f"{slug[:_LONGEST_NAME].rstrip('-.')}-{digest}".lstrip("-")
    return root.joinpath(*parts, slug)


def file_key(data: bytes) -> str:
    """The name under which bytes are stored: their hash."""
    return hashlib.sha256(data).hexdigest()[:32]


def digest_of(path: Path) -> str | None:
    """The digest by which a footer names a file beside it; None when there is no such file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except FileNotFoundError:
        return None


def load_cassette(root: Path, test: str) -> Cassette:
    """The recording of a test, verified together with the files beside it.

    Raises:
        CassetteMissing: None was made; the message names the command that makes one.
        CassetteUnreadable: It is damaged or incomplete, or a file beside it belongs to another recording.
    """
    folder = cassette_folder(root, test)
    if not (folder / FILE).exists():
        raise CassetteMissing(*_missing(root, folder, test))
    finish_swap(folder)
    cassette = load(folder)
    cassette.root = root
    recorded = cassette.header.get("test")
    if recorded != test:
        raise CassetteUnreadable(
            f"{cassette.file} was recorded for {recorded}, not for {test}.",
            f"if the test was renamed: {cua_command('move', shell_quoted(str(recorded)), shell_quoted(test))}",
            f"else record it: {pytest_command('--cua-mode=record', test=test)}",
        )
    try:
        check_beside(cassette)
    except CassetteUnreadable:
        if not wait_for_recording(folder, 2000):
            raise
        cassette = load(folder)  # another run was just putting a new one in its place
        cassette.root = root
        check_beside(cassette)
    return cassette


def check_beside(cassette: Cassette) -> None:
    """Compare the files beside a cassette with what its footer says of them.

    Raises:
        CassetteUnreadable: One was edited, is missing, or belongs to another recording.
    """
    for name, what in ((HTTP, "the HTTP calls"), (PAGE, "the page for reviewers")):
        path = cassette.folder / name
        wanted, found = cassette.footer.get("files", {}).get(name), digest_of(path)
        if wanted == found or (name == PAGE and found is None):
            continue  # a page that is missing misleads nobody; `verify` names it
        if found is not None and (damage := damage_by_git(path, path.read_bytes())) is not None:
            raise damage
        state = "is missing" if found is None else "is not what was recorded: it was edited, or is of another recording"
        hint = f"restore it: git checkout -- {path_quoted(path)}"
        if name == PAGE:
            hint = f"write it anew from the recording: {cua_command('show', '--write', cassette.folder)}"
        raise CassetteUnreadable(f"{path}, {what} of {cassette.file}, {state}.", hint)


def _missing(root: Path, folder: Path, test: str) -> tuple[str, ...]:
    message = (
        f"There is no cassette for {test}: {folder / FILE} does not exist, and this mode records nothing "
        "(vcrpy's `none`; its `once` is --cua-record, its `all` --cua-mode=record)."
    )
    quoted = shell_quoted(test)
    hints = [f"record it: {pytest_command('--cua-record', test=test)}"]
    if (old := _renamed_from(root, test)) is not None:
        hints.insert(0, f"its steps are those of {old}: {cua_command('move', shell_quoted(old), quoted)}")
    if is_adoptable(folder / FAILED):
        hints.insert(0, f"a recording of a run that failed was kept: {cua_command('accept', quoted)}")
    elif (folder / FAILED / FILE).exists() or (folder / RECORDING / FILE).exists():
        hints.append(f"one that broke off inside a step was kept to be read: {cua_command('show', quoted)}")
    if folder.parent.is_dir():
        others = sorted(path.parent.name for path in folder.parent.glob(f"*/{FILE}"))
        if others:
            message += f" Beside it there are cassettes for {', '.join(others[:5])}."
    return message, *hints


def _renamed_from(root: Path, test: str) -> str | None:
    from pytest_cua.cassette.suite import renamed_from  # which needs this module

    project = project_root()
    return renamed_from(root, project, test) if project is not None else None


class RecordedElsewhere(CassetteUnwritable):
    """Another run is recording into this folder."""


class CassetteWriter:
    """Writes one recording beside the old one.

    Args:
        folder: The test's folder.
        root: The folder of all cassettes, which holds the pictures.

    Raises:
        CassetteUnwritable: The folder cannot be written, or another run is recording this test.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.aside = folder / RECORDING
        self.is_committed = False
        self._sum = ""
        self._screens: set[str] = set()
        self._stream: IO[bytes] | None = None
        self._disk = ThreadPoolExecutor(1, "pytest-cua-disk")  # its thread starts with the first line
        self._syncing: Future[None] | None = None
        self._lock: IO[bytes] | None = None
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> CassetteUnwritable:
        return CassetteUnwritable(
            f"The cassette cannot be written: {error.filename or self.folder}: {error.strerror or error}.",
            f"make the folder writable, or choose another with -o cua_cassette_dir=FOLDER (now {self.root})",
        )

    def _open(self) -> None:
        while not self._is_locked():
            pass  # whoever held the lock removed the folder with it
        if (self.aside / FILE).exists() or (
            self.folder / MOVING / FILE
        ).exists():  # left by a run that was killed: it was paid for, so it is kept
            _keep(self.aside, self.folder / FAILED)
        elif (self.folder / FILE).exists():
            with suppress(CassetteUnreadable):  # a damaged one is what this recording is to replace
                _move_beside(self.folder)  # killed between two renames
        _clear(self.aside)
        (self.aside / ".gitignore").write_text("*\n", encoding="utf-8")
        (self.aside / SCREENS).mkdir(exist_ok=True)
        self._stream = (self.aside / FILE).open("wb")

    def _is_locked(self) -> bool:
        """Take the lock; whether it is still that of the folder then, which the one before may have removed."""
        path = self.aside / "lock"
        self.aside.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = path.open("ab")
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RecordedElsewhere(
                f"Another run is recording this test just now: {self.aside}.",
                "wait for it to end; two recordings of one test at once would mix",
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._lock.fileno()), path.stat()):
                return True
        self._lock.close()
        return False

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line and flush it; once the recording is closed, do nothing.

        A kill loses nothing that was flushed. What was paid for is also on its way to the disk then, while the test
        goes on; at most one such line is not there yet, and a disk that fails is told at the next.
        A fixture of the user's may go on after a test that failed, whose recording lies aside by then.
        """
        if self._stream is None:
            return
        sealed = seal(line, self._sum)
        try:
            self._stream.write(sealed.encode() + b"\n")
            self._stream.flush()
            if line.get("type") in _PAID:
                self._wait_for_disk()
                self._syncing = self._disk.submit(os.fsync, self._stream.fileno())
        except OSError as error:
            raise self._unwritable(error) from None
        self._sum = sum_of(sealed)

    def rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Put other lines in place of those that were written so far."""
        assert self._stream is not None
        self._wait_for_disk()
        self._stream.close()
        path, partial = self.aside / FILE, self.aside / f"{FILE}.part"
        self._sum = ""
        self._stream = partial.open("wb")
        for line in lines:
            self.write(line)
        partial.replace(path)

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
        """Write `steps.md`, the page for reviewers, beside the recording that is being written."""
        try:
            (self.aside / PAGE).write_bytes(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise self._unwritable(error) from None

    def commit(self) -> int:
        """Let the new recording take the place of the old one; it was written to its end and the test passed.

        Returns:
            How many bytes its new pictures take.
        """
        self._close_stream()
        try:
            new = load(self.aside)  # what cannot be replayed must not replace what can
            size = _swap(self.aside, self.folder, self.root, new)
        except CassetteUnreadable:
            self._unlock()  # what is left was paid for, and the next recording keeps it
            raise
        except OSError as error:
            self._unlock()
            raise self._unwritable(error) from None
        self.is_committed = True
        self._discard()
        return size

    def keep_aside(self) -> Path | None:
        """Keep a recording that may not replace the old one; returns where, None when nothing was asked of a model."""
        self._close_stream()
        kept = _keep(self.aside, self.folder / FAILED)
        self._discard()
        return kept

    def destroy(self) -> None:
        """Remove the recording: it must not be kept at all."""
        self._close_stream()
        self._discard()

    def _wait_for_disk(self) -> None:
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def _close_stream(self) -> None:
        if self._stream is None:
            return
        try:
            self._wait_for_disk()
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            self._stream.close()
            self._stream = None
            self._disk.shutdown()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _discard(self) -> None:
        shutil.rmtree(self.aside, ignore_errors=True)
        self._unlock()  # not before: who takes the lock writes into that folder
        with suppress(OSError):  # only when nothing else is in it
            self.folder.rmdir()


def wait_for_recording(folder: Path, limit: int) -> bool:
    """Wait while another run is recording in a folder.

    Args:
        folder: Of the cassette.
        limit: Most milliseconds; after that the one who goes on is told that another is recording.

    Returns:
        Whether there was one to wait for.
    """
    lock = folder / RECORDING / "lock"
    deadline = time.monotonic() + limit / 1000
    waited = False
    while time.monotonic() < deadline:
        try:
            handle = lock.open("rb")
        except OSError:
            return waited
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return waited
            except BlockingIOError:
                waited = True
        Event().wait(0.1)
    return waited


# ---------------------------------------------------------------------- the swap


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the folder of pictures: another test's swap may need one that this one would remove.

    Args:
        root: The folder of all cassettes. Other processes wait until this one lets go.
    """
    (root / SCREENS).mkdir(parents=True, exist_ok=True)
    handle = os.open(root / SCREENS, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _swap(aside: Path, folder: Path, root: Path, new: Cassette) -> int:
    """Move a whole recording from `aside` into the place of the one in `folder`; the bytes of pictures that are new."""
    old = _screens_of(folder)
    write_git_attributes(root)
    with locked(root):
        size = _place_pictures(aside, root)
        for path in sorted((aside / FILES).glob("*")) if (aside / FILES).is_dir() else ():
            (folder / FILES).mkdir(exist_ok=True)
            _place(path, folder / FILES / path.name)
        for name in (HTTP, PAGE):
            if (aside / name).exists():
                _sync(aside / name)
        (aside / FILE).replace(folder / FILE)  # from here on the new one holds
        _sync(folder)
        _move_beside(folder, aside)
        _remove_screens(root, old - new.screens())
    _remove_files(folder, new.files())
    return size


def _place_pictures(aside: Path, root: Path) -> int:
    size = 0
    for path in sorted((aside / SCREENS).glob("*.webp")):
        target = shared_screen(root, path.stem)
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            size += path.stat().st_size
            _place(path, target)
    return size


def _place(path: Path, target: Path) -> None:
    """Let a file stand in its place too; until the new cassette holds, the recording aside must have all of its own."""
    _sync(path)
    partial = target.with_suffix(".part")
    partial.unlink(missing_ok=True)
    try:
        partial.hardlink_to(path)
    except OSError:  # a file system that has no links
        shutil.copyfile(path, partial)
        _sync(partial)
    partial.replace(target)
    partial.unlink(missing_ok=True)  # a rename between two names of one file leaves both


def _move_beside(folder: Path, aside: Path | None = None) -> None:
    """Let the files that the new footer names follow it."""
    aside = aside or folder / RECORDING
    footer = load(folder).footer
    for name in (HTTP, PAGE):
        wanted = footer.get("files", {}).get(name)
        if wanted is None:
            (folder / name).unlink(missing_ok=True)
        elif digest_of(aside / name) == wanted:
            (aside / name).replace(folder / name)
    _sync(folder)


def finish_swap(folder: Path) -> None:
    """Finish a swap that a crash or a kill broke off after the new cassette took its place."""
    for aside in (folder / RECORDING, folder / FAILED):  # recorded, or adopted
        if (aside / FILE).exists() or not ((aside / HTTP).exists() or (aside / PAGE).exists()):
            continue
        try:
            lock = (aside / "lock").open("ab")
        except OSError:  # a checkout that may not be written: the check of the files beside it speaks
            continue
        with lock, suppress(BlockingIOError, OSError, CassetteUnreadable):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not (aside / FILE).exists():
                _move_beside(folder, aside)
                shutil.rmtree(aside, ignore_errors=True)


def _screens_of(folder: Path) -> set[str]:
    """The pictures of the cassette in a folder; none where there is none that can be read."""
    try:
        return load(folder, partial=True).screens()
    except CassetteUnreadable:
        return set()


def _remove_screens(root: Path, keys: set[str]) -> None:
    """Remove pictures, unless another cassette shows them."""
    if not keys:
        return
    for path in all_cassettes(root):
        text = path.read_bytes()
        keys = {key for key in keys if key.encode() not in text}
        if not keys:
            return
    for key in keys:
        path = shared_screen(root, key)
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()


def _remove_files(folder: Path, wanted: set[str]) -> None:
    for path in (folder / FILES).glob("*") if (folder / FILES).is_dir() else ():
        if path.stem not in wanted:
            path.unlink()
    with suppress(OSError):
        (folder / FILES).rmdir()


def all_cassettes(root: Path) -> list[Path]:
    """The paths of all cassettes of a root, those being recorded or kept aside left out."""
    return [folder / FILE for folder, files, is_other in _walk(root) if FILE in files and not is_other]


def all_kept_aside(root: Path) -> list[Path]:
    """The folders of all recordings of a root that did not take their place, or are being made."""
    return [path.parent for folder in folders_of(root) for path in sorted(folder.glob(f".*/{FILE}"))]


def folders_of(root: Path) -> list[Path]:
    """The folder of all cassettes and all below it that may hold some, in order.

    Left out are those of pictures, and whatever belongs to another root that lies inside this one.
    """
    return [folder for folder, _, is_other in _walk(root) if not is_other]


def roots_in(root: Path) -> list[Path]:
    """The folder of all cassettes, and others of that kind that lie inside it, as of a second `cua_cassette_dir`."""
    return [root, *(found for folder, _, is_other in _walk(root) if is_other for found in roots_in(folder))]


def _walk(root: Path) -> Iterator[tuple[Path, list[str], bool]]:
    """The folders of a root with their files, and whether each is another root, into which it does not go."""
    for path, names, files in os.walk(root):
        folder = Path(path)
        may_be = folder != root and (SCREENS in names or ".gitattributes" in files)
        is_other = may_be and _is_root(folder)
        names[:] = [] if is_other else sorted(name for name in names if not name.startswith("."))
        if folder == root / SCREENS:  # tests may lie in a folder of that name too
            names[:] = [name for name in names if not _OF_PICTURES.fullmatch(name)]
        yield folder, files, is_other


def _is_root(folder: Path) -> bool:
    """Whether a folder is one of all cassettes: it holds their pictures, or what git must know of them."""
    try:
        told = (folder / ".gitattributes").read_bytes()
    except OSError:
        told = b""
    return FILE.encode() in told or any(
        _OF_PICTURES.fullmatch(path.parent.name) for path in (folder / SCREENS).glob("??/*.webp")
    )


def write_git_attributes(root: Path) -> None:
    """Tell git to leave recordings as they are; what a user wrote there stays."""
    path = root / ".gitattributes"
    present = path.read_bytes() if path.exists() else b""  # in whatever encoding
    if FILE.encode() not in present:
        root.mkdir(parents=True, exist_ok=True)
        lead = present if not present or present.endswith(b"\n") else present + b"\n"
        path.write_bytes(lead + GIT_ATTRIBUTES.encode())


def _sync(path: Path) -> None:
    """Flush a file or a folder's names: without it a power cut could bring back what was there before."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------- kept aside


def _worth_keeping(path: Path) -> bool:
    """Whether the file holds an answer of a model."""
    return path.exists() and any(
        line.startswith(b'{"type": "turn"') and b'"status": 200' in line for line in path.read_bytes().splitlines()
    )


def _clear(aside: Path) -> None:
    """Remove what an earlier run left, so that nothing of it gets into the new recording; the lock stays."""
    for path in aside.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _keep(aside: Path, target: Path) -> Path | None:
    """Move a recording aside, never in the place of a better one; returns where it lies."""
    moving = target.with_name(MOVING)  # a kill may come between any two names; the next recording goes on with it
    if not (moving / FILE).exists():
        if not _worth_keeping(aside / FILE):
            return None
        moving.mkdir(exist_ok=True)
        for name in (".gitignore", HTTP, PAGE, SCREENS, FILES, FILE):  # the file last: then all is there
            if (aside / name).exists():
                (aside / name).replace(moving / name)
    if _finished(target) > _finished(moving) or (is_adoptable(target) and not is_adoptable(moving)):
        target = target.with_name(UNFINISHED)  # what is kept there was paid for too, and holds more
    (target / FILE).unlink(missing_ok=True)  # first: nobody takes the rest for a recording
    shutil.rmtree(target, ignore_errors=True)
    return moving.replace(target)


def _finished(folder: Path) -> int:
    """How many steps of a recording came to their end; -1 where none can be read."""
    try:
        return sum(bool(step.end) for step in load(folder, partial=True).steps)
    except (OSError, CassetteUnreadable):
        return -1


def is_adoptable(folder: Path) -> bool:
    """Whether a folder holds a recording of which every step came to its end."""
    try:
        return all(step.end for step in load(folder).steps)
    except (OSError, CassetteUnreadable):
        return False


def kept_recordings(folder: Path) -> list[Path]:
    """The folders of recordings of a test that did not take its place, the most telling first."""
    return [folder / name for name in (FAILED, UNFINISHED, MOVING, RECORDING) if (folder / name / FILE).exists()]


def adopt(folder: Path, root: Path) -> Cassette:
    """Let the recording that was kept aside take the place of the cassette.

    Raises:
        CassetteMissing: Nothing was kept.
        CassetteUnreadable: What was kept did not come to its end, so it cannot be replayed.
        SecretLeaked: It held a secret; nothing of it is kept.
    """
    kept = folder / FAILED
    if not (kept / FILE).exists():
        raise CassetteMissing(
            f"No recording was kept aside in {folder}.", f"record the test: {pytest_command('--cua-mode=record')} TEST"
        )
    recording = load(kept)
    test = str(recording.header["test"])
    again = pytest_command("--cua-mode=record", test=test)
    if (folder / FILE).exists() and load(folder).header["recorded_at"] > recording.header["recorded_at"]:
        raise CassetteUnreadable(
            f"The recording kept in {kept} is older than the cassette beside it, which a later run made.",
            f"if it is not wanted any more: rm -r {path_quoted(kept)}",
        )
    unfinished = [step.number for step in recording.steps if not step.end]
    if unfinished:
        raise CassetteUnreadable(
            f"The recording kept in {kept} ends inside step {unfinished[0]}, so it cannot be replayed to its end.",
            f"go on from there without paying for the steps before it: "
            f"{pytest_command('--cua-mode=record', f'--cua-from-step={unfinished[0]}', test=test)}",
            f"record the test again: {again}",
        )
    if hits := scan_folder(kept, allowed=(test,)):  # a run that was killed did not get that far
        shutil.rmtree(kept)
        raise SecretLeaked(
            f"The recording that was kept in {kept} held a secret and was removed: {'; '.join(map(str, hits))}.",
            f"give the value as a Secret in params=, and record the test again: {again}",
        )
    with (kept / "lock").open("ab") as lock:  # a reader must not take it for a swap that was broken off
        fcntl.flock(lock, fcntl.LOCK_EX)
        _swap(kept, folder, root, recording)
        shutil.rmtree(kept, ignore_errors=True)
    return load(folder)
