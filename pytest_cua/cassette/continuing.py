"""Going on with a recording from one of its steps, without paying for those before it again."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_cua.cassette.format import FILE, FILES, SCREENS, Cassette, load
from pytest_cua.cassette.store import digest_of, kept_recordings
from pytest_cua.errors import CassetteMissing, CassetteUnreadable, pytest_command


def recording_to_continue(folder: Path, root: Path, test: str, first: int, place: Path) -> Cassette:
    """A copy of the recording whose steps before `first` are taken over: one that was kept aside, else the cassette.

    Args:
        folder: The test's folder.
        root: The folder of all cassettes.
        test: The test's id, for messages.
        first: The first step that is asked of the model again.
        place: An empty folder for the copy: recording anew may clear the place where it lies.

    Raises:
        CassetteMissing: There is no recording in which the steps before it came to their end.
    """
    told = []
    for source in [*kept_recordings(folder), folder]:
        if not (source / FILE).exists():
            continue
        try:
            cassette = load(source, partial=True)
        except CassetteUnreadable as error:
            told.append(error.message)
            continue
        done = next((step.number for step in cassette.steps if not step.end), len(cassette.steps) + 1)
        if done >= first and cassette.header.get("test") == test:
            return _copied(source, root, place)
        told.append(f"{source / FILE} has {done - 1} finished steps.")
    raise CassetteMissing(
        f"--cua-from-step={first} goes on with a recording of {test} whose steps before step {first} came to "
        f"their end; there is none. {' '.join(told)}".rstrip(),
        f"record it from its beginning: {pytest_command('--cua-mode=record', test=test)}",
    )


def _copied(source: Path, root: Path, place: Path) -> Cassette:
    for name in (FILE, SCREENS, FILES):
        path = source / name
        if path.is_dir():
            shutil.copytree(path, place / name)
        elif path.exists():
            shutil.copy2(path, place / name)
    cassette = load(place, partial=True)
    cassette.root, cassette.copy_of = root, source
    return cassette


def follow(copy: Cassette, folder: Path) -> None:
    """Find the recording that was copied again: one of a run that was killed is put aside when the next one begins.

    Args:
        copy: What `recording_to_continue` gave.
        folder: The test's folder.
    """
    wanted = digest_of(copy.folder / FILE)
    copy.copy_of = next(
        (place for place in [*kept_recordings(folder), folder] if digest_of(place / FILE) == wanted), None
    )
