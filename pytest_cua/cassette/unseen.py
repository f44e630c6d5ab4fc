"""Baselines that their tests do not compare any more: a run sees it, and `prune`, which runs nothing, must know of it.

So a complete run notes them in `.unseen/` in the folder of all cassettes. What is noted holds as long as neither the
picture nor the file of its test has changed since.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pytest_cua.cassette.store import BASELINES, cassette_folder, digest_of

UNSEEN = ".unseen"
_NOTE = "baselines.json"
Unseen = tuple[Path, str]  # a baseline's picture, and the id of the test in whose folder it lies


def baselines_in(folder: Path) -> list[Path]:
    """The pictures of the baselines in a test's folder."""
    return sorted((folder / BASELINES).glob("*.png"))


def unseen(root: Path, compared: Mapping[str, Collection[str]]) -> list[Unseen]:
    """The baselines that tests did not look at.

    Args:
        root: The folder of all cassettes.
        compared: For each test that ran and passed, the names of the baselines that it looked at.
    """
    return [
        (picture, test)
        for test, names in sorted(compared.items())
        if "::" in test
        for picture in baselines_in(cassette_folder(root, test))
        if picture.stem not in names
    ]


def note(found: list[Unseen], root: Path, project: Path, compared: Collection[str]) -> None:
    """Note what a complete run has found, in place of what an earlier one found.

    Args:
        found: What it found.
        root: The folder of all cassettes.
        project: The root of test ids.
        compared: The tests that it speaks of; what was noted of others stays.
    """
    folder = root / UNSEEN
    lines = [line for line in _lines(root) if line["test"] not in compared]
    lines += [
        {
            "picture": picture.relative_to(root).as_posix(),
            "digest": str(digest_of(picture)),
            "test": test,
            "source": str(digest_of(_file_of(test, project))),
        }
        for picture, test in found
    ]
    with suppress(OSError):  # a checkout that may not be written is not pruned either
        shutil.rmtree(folder, ignore_errors=True)
        if lines:
            folder.mkdir()
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
            (folder / _NOTE).write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def noted(root: Path, project: Path, tests: Collection[str]) -> Iterator[Unseen]:
    """What the last complete run has found, as far as it still holds.

    Args:
        root: The folder of all cassettes.
        project: The root of test ids.
        tests: The ids of all tests: with one that is gone, its whole folder goes.
    """
    for line in _lines(root):
        picture, test = root / line["picture"], line["test"]
        is_same = digest_of(picture) == line["digest"] and digest_of(_file_of(test, project)) == line["source"]
        if test in tests and is_same:
            yield picture, test


def _lines(root: Path) -> list[dict[str, str]]:
    try:
        lines: list[dict[str, str]] = json.loads((root / UNSEEN / _NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return lines


def _file_of(test: str, project: Path) -> Path:
    return project / test.partition("::")[0]
