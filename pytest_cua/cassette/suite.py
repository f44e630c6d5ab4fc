"""All cassettes of a project together: what no test uses, moving, checking, bringing up to date."""

from __future__ import annotations

import ast
import datetime as dt
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_cua.cassette.format import (
    FILE,
    FILES,
    FORMAT,
    SCREENS,
    Cassette,
    Line,
    load,
    read_lines,
    seal,
    sum_of,
)
from pytest_cua.cassette.redact import scan_folder
from pytest_cua.cassette.store import (
    PAGE,
    RECORDING,
    all_cassettes,
    cassette_folder,
    check_beside,
    digest_of,
    finish_swap,
    kept_recordings,
)
from pytest_cua.errors import BadArgument, CassetteMissing, CassetteUnreadable, shell_quoted

# ---------------------------------------------------------------------- what no test uses


@dataclass(frozen=True)
class Collected:
    """What a run of pytest has collected.

    Attributes:
        ids: The ids of all tests, those that were deselected too.
        places: The files and folders that were given to it, or its testpaths, relative to the root.
    """

    ids: Collection[str]
    places: Sequence[str]


@dataclass
class Unused:
    """What no test uses.

    Attributes:
        tests: Cassettes, as folder and test id.
        screens: Pictures that no cassette shows.
        renamed: For a test id of `tests` the id of a test with the same sentences that has no cassette.
    """

    tests: list[tuple[Path, str]] = field(default_factory=list)
    screens: list[Path] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tests or self.screens)

    def lines(self, root: Path) -> Iterator[str]:
        """What to say about it, a line each."""
        for folder, test in self.tests:
            yield f"unused: {folder.relative_to(root.parent)} ({test}, {_size(_all_files(folder))})"
            if test in self.renamed:
                new = self.renamed[test]
                yield f"  its steps are those of {new}: pytest-cua move {shell_quoted(test)} {shell_quoted(new)}"
        if self.screens:
            yield f"unused: {len(self.screens)} pictures that no cassette shows ({_size(self.screens)})"
        yield "remove what is unused: pytest-cua prune"


def _all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _size(paths: Iterable[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1000:.0f} kB"


def find_unused(root: Path, project: Path, collected: Collected) -> Unused:
    """The cassettes whose tests are gone, and the pictures nobody shows.

    A cassette is unused only when its test's file is gone, or was collected whole and holds no such test; never when
    its test was merely not collected, deselected or skipped.

    Args:
        root: The folder of all cassettes.
        project: The root of test ids.
        collected: What was collected.
    """
    found = Unused()
    files = {test.partition("::")[0] for test in collected.ids}
    kept: list[Cassette] = []
    for path in all_cassettes(root):
        try:
            cassette = load(path.parent, partial=True)
        except CassetteUnreadable:
            continue  # `verify` speaks of those
        kept.append(cassette)
        test = str(cassette.header.get("test"))
        if cassette.header.get("kind") != "flow" and _is_gone(test, files, project, collected):
            found.tests.append((path.parent, test))
    gone = {folder for folder, _ in found.tests}
    used = {str(line["flow"]) for cassette in kept if cassette.folder not in gone for line in cassette.flows}
    everything = any(place in (".", "") or _covers(place, "tests") for place in collected.places)
    for cassette in kept:
        if cassette.header.get("kind") == "flow" and cassette.header["test"] not in used and everything:
            found.tests.append((cassette.folder, str(cassette.header["test"])))
    found.screens = unused_screens(root)
    found.renamed = _renamed(found.tests, root, project, collected.ids)
    return found


def _is_gone(test: str, files: Collection[str], project: Path, collected: Collected) -> bool:
    file = test.partition("::")[0]
    if test in collected.ids or not any(_covers(place, file) for place in collected.places):
        return False
    return file in files or not (project / file).exists()


def _covers(place: str, file: str) -> bool:
    return place in (".", "") or file == place or file.startswith(place.rstrip("/") + "/")


def unused_screens(root: Path) -> list[Path]:
    """The pictures that no cassette shows; when a cassette cannot be read, its text is looked through all the same."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in all_cassettes(root)]
    whole = "\n".join(texts)
    return [path for path in sorted((root / SCREENS).glob("??/*.webp")) if path.stem not in whole]


def _renamed(tests: list[tuple[Path, str]], root: Path, project: Path, ids: Collection[str]) -> dict[str, str]:
    if not tests:
        return {}
    without = [test for test in ids if not (cassette_folder(root, test) / FILE).exists()]
    found = {}
    for folder, test in tests:
        sentences = _sentences(load(folder, partial=True))
        new = next((other for other in without if _says(project, other, sentences)), None)
        if new is not None:
            without.remove(new)
            found[test] = new
    return found


def renamed_from(root: Path, project: Path, test: str) -> str | None:
    """The id under which a test was recorded before it was renamed, as far as its sentences tell; None when unknown."""
    for path in all_cassettes(root):
        try:
            cassette = load(path.parent, partial=True)
        except CassetteUnreadable:
            continue
        old = str(cassette.header.get("test"))
        if cassette.header.get("kind") == "flow" or _exists(project, old):
            continue
        if _says(project, test, _sentences(cassette)):
            return old
    return None


def _sentences(cassette: Cassette) -> list[str]:
    return [step.sentence for step in cassette.steps]


def _says(project: Path, test: str, sentences: list[str]) -> bool:
    """Whether the source of a test holds all of some sentences."""
    function = _function(project, test)
    if function is None or not sentences:
        return False
    texts = {
        node.value for node in ast.walk(function) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return all(sentence in texts for sentence in sentences)


def _exists(project: Path, test: str) -> bool:
    return _function(project, test) is not None


def _function(project: Path, test: str) -> ast.AST | None:
    """The definition of a test, found by its names alone."""
    file, *names = test.partition("[")[0].split("::")
    try:
        node: Any = ast.parse((project / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    for name in names:
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        node = next((inner for inner in node.body if isinstance(inner, kinds) and inner.name == name), None)
        if node is None:
            return None
    return node  # type: ignore[no-any-return]


def prune(unused: Unused, root: Path) -> None:
    """Remove what is unused; the pictures that become unused by it too."""
    for folder, _ in unused.tests:
        shutil.rmtree(folder)
        _remove_empty(folder.parent, root)
    for path in unused_screens(root):
        path.unlink()
        _remove_empty(path.parent, root)


def _remove_empty(folder: Path, root: Path) -> None:
    while folder not in (root, *root.parents) and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


# ---------------------------------------------------------------------- moving


def move(root: Path, old: str, new: str) -> list[tuple[str, str]]:
    """Give recordings to a test that was renamed or moved; its baselines and what was kept aside go with them.

    Args:
        root: The folder of all cassettes.
        old: A test's id, of which all rows are moved; a flow's id; or the path of a file with all its tests.
        new: The same kind of name.

    Returns:
        The ids that were moved, as old and new.

    Raises:
        CassetteMissing: Nothing was recorded under the old name.
        BadArgument: There is a recording under the new one, or the two are not of the same kind.
    """
    if ("::" in old) != ("::" in new):
        raise BadArgument(f"{old!r} and {new!r} are not of the same kind: give two test ids, or two files.")
    pairs = []
    for path in all_cassettes(root):
        test = str(load(path.parent).header["test"])
        if test == old or test.startswith((f"{old}[", f"{old}::")):
            pairs.append((test, new + test[len(old) :]))
    if not pairs:
        raise CassetteMissing(
            f"Nothing is recorded for {old} in {root}.", "pytest-cua verify lists what is recorded, with its tests"
        )
    for _, target in pairs:
        if (cassette_folder(root, target) / FILE).exists():
            raise BadArgument(
                f"There is a recording of {target} already: {cassette_folder(root, target)}.",
                "remove it first if the old one is to take its place",
            )
    for test, target in pairs:
        _move_one(root, test, target)
    _rename_flows(root, dict(pairs))
    return pairs


def _move_one(root: Path, old: str, new: str) -> None:
    source, target = cassette_folder(root, old), cassette_folder(root, new)
    target.mkdir(parents=True, exist_ok=True)

    def renamed(line: Line) -> Line:
        return {**line, "test": new} if line["type"] == "header" else line

    rewrite(source, target, root, renamed)
    for path in sorted(source.iterdir()):
        if path.name not in (FILE, PAGE, RECORDING):
            path.replace(target / path.name)
    for kept in kept_recordings(target):
        rewrite(kept, kept, root, renamed)
    shutil.rmtree(source)
    _remove_empty(source.parent, root)


def _rename_flows(root: Path, names: dict[str, str]) -> None:
    def renamed(line: Line) -> Line:
        return {**line, "flow": names.get(line["flow"], line["flow"])} if line["type"] == "flow" else line

    for path in all_cassettes(root):
        if any(line["flow"] in names for line in load(path.parent).flows):
            rewrite(path.parent, path.parent, root, renamed)


def rewrite(source: Path, target: Path, root: Path, change: Callable[[Line], Line]) -> None:
    """Write a recording anew with each line changed, its page with it; whole or not at all.

    Args:
        source, target: The folders, which may be one.
        root: The folder of all cassettes.
        change: Gives the new line for an old one.
    """
    lines = [change({k: v for k, v in line.items() if k != "sum"}) for line in load(source, partial=True).lines]
    write_lines(lines, target, root, page=(source / PAGE).exists())


def write_lines(lines: list[Line], target: Path, root: Path, *, page: bool) -> None:
    """Write lines as a recording; with its page, which the footer then names.

    Args:
        lines: Without their sums.
        target: The folder.
        root: The folder of all cassettes.
        page: Whether to write `steps.md` too.
    """
    with tempfile.TemporaryDirectory(dir=target, prefix=".rewriting-") as place:
        beside = Path(place)
        if page and lines[-1]["type"] == "footer":
            _write(lines[:-1], beside / FILE)
            so_far = load(beside, partial=True)
            so_far.folder, so_far.root, so_far.broken, so_far.footer = target, root, None, lines[-1]
            (beside / PAGE).write_bytes(page_of(so_far))
            named = {**lines[-1].get("files", {}), PAGE: digest_of(beside / PAGE)}
            lines = [*lines[:-1], {**lines[-1], "files": named}]
        _write(lines, beside / FILE)
        (beside / FILE).replace(target / FILE)
        if (beside / PAGE).exists():
            (beside / PAGE).replace(target / PAGE)


def _write(lines: list[Line], path: Path) -> None:
    previous, texts = "", []
    for line in lines:
        texts.append(seal(line, previous))
        previous = sum_of(texts[-1])
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())


# ---------------------------------------------------------------------- checking


def verify(root: Path, *, max_age: int | None = None) -> tuple[list[str], list[str]]:
    """Check everything that is recorded: digests, pictures, files, pages, places, secrets.

    Args:
        root: The folder of all cassettes.
        max_age: The age in days from which a recording is a problem; None asks for none.

    Returns:
        The problems, and what else is worth knowing, a line each.
    """
    problems: list[str] = []
    notes: list[str] = []
    seen: dict[str, Path] = {}
    for path in all_cassettes(root):
        try:
            finish_swap(path.parent)
            cassette = load(path.parent)
            cassette.root = root
            problems += _problems(cassette, root, seen)
            age = age_in_days(cassette)
            if max_age is not None and age >= max_age:
                problems.append(f"{path}: recorded {age} days ago, and cua_max_age is {max_age} days")
            if (gone := retired(str(cassette.header["model"]))) is not None:
                notes.append(f"{path}: recorded with {cassette.header['model']}, {gone}")
        except CassetteUnreadable as error:
            problems.append(str(error))
    for kept in sorted(folder for path in root.rglob(FILE) for folder in [path.parent] if folder.name.startswith(".")):
        notes.append(f"kept aside, not committed: {kept}")
    if screens := unused_screens(root):
        notes.append(f"{len(screens)} pictures that no cassette shows ({_size(screens)}): pytest-cua prune")
    if all_cassettes(root) and not (root / ".gitattributes").exists():
        problems.append(
            f"{root / '.gitattributes'} is missing: git may convert line ends; the next recording writes it"
        )
    return problems, notes


def _problems(cassette: Cassette, root: Path, seen: dict[str, Path]) -> Iterator[str]:
    test = str(cassette.header.get("test"))
    if test in seen:
        yield f"{cassette.file}: {test} is recorded in {seen[test]} too"
    seen[test] = cassette.file
    if cassette.folder != cassette_folder(root, test):
        yield f"{cassette.file}: it is of {test}, whose recording belongs into {cassette_folder(root, test)}"
    for check in (_check_beside, _check_pictures, _check_files):
        try:
            check(cassette)
        except CassetteUnreadable as error:
            yield str(error)
    page = cassette.folder / PAGE
    if not page.exists():
        yield f"{page} is missing: pytest-cua show --write {cassette.folder}"
    elif cassette.header.get("plugin") == version("pytest-cua") and page.read_bytes() != page_of(cassette):
        yield f"{page} does not say what {FILE} says: pytest-cua show --write {cassette.folder}"
    yield from (f"a secret: {hit}" for hit in scan_folder(cassette.folder, allowed=(test,)))


def page_of(cassette: Cassette) -> bytes:
    """The page of a recording, as it is written."""
    from pytest_cua.cassette.review import steps_markdown  # loads the SDK, which a run without us need not pay for

    return steps_markdown(cassette).encode("utf-8", "backslashreplace")


def _check_beside(cassette: Cassette) -> None:
    check_beside(cassette)


def _check_pictures(cassette: Cassette) -> None:
    from pytest_cua.cassette.player import stored_screen

    for key in sorted(cassette.screens()):
        stored_screen(cassette, key)


def _check_files(cassette: Cassette) -> None:
    from pytest_cua.cassette.player import stored_file

    for key in sorted(cassette.files()):
        stored_file(cassette, key)
    for path in (cassette.folder / FILES).glob("*") if (cassette.folder / FILES).is_dir() else ():
        if path.stem not in cassette.files():
            raise CassetteUnreadable(f"{path} belongs to no line of {cassette.file}.", f"rm {path}")


def age_in_days(cassette: Cassette) -> int:
    """How many whole days ago a recording was made."""
    recorded = dt.datetime.fromisoformat(str(cassette.header["recorded_at"]))
    return (dt.datetime.now(dt.UTC) - recorded).days


_LONG_GONE = ("claude-1", "claude-2", "claude-instant", "claude-3-", "claude-opus-4-0", "claude-sonnet-4-0")


def retired(model: str) -> str | None:
    """Since when a model is not offered any more, or until when, by the SDK's own list; None of one without an end."""
    from anthropic.resources.messages import DEPRECATED_MODELS

    end = DEPRECATED_MODELS.get(model)
    if end is None:
        return "which is not offered any more" if model.startswith(_LONG_GONE) else None
    try:
        day = dt.datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", end), "%B %d, %Y").date()
    except ValueError:
        return f"which is offered until {end}"
    words = "is not offered since" if day <= dt.datetime.now(dt.UTC).date() else "is offered until"
    return f"which {words} {day.isoformat()}"


# ---------------------------------------------------------------------- bringing up to date

#: How lines of a format become those of the next, by the number of the old one.
MIGRATIONS: dict[int, Callable[[list[Line]], list[Line]]] = {}


def migrate(path: Path) -> list[tuple[Path, int]]:
    """Bring every recording in a folder up to the format of today; a page is written with each.

    Args:
        path: The folder of all cassettes, or of one.

    Returns:
        The files that were changed, with the format they had.

    Raises:
        CassetteUnreadable: One is damaged, or of a format that nothing leads on from; it stays as it is.
    """
    changed = []
    files = [path / FILE] if (path / FILE).exists() else all_cassettes(path)
    for file in files:
        lines = read_lines(file)
        was = lines[0]["format"]
        if was == FORMAT:
            continue
        for number in range(was, FORMAT):
            if number not in MIGRATIONS:
                raise CassetteUnreadable(
                    f"{file} has format {number}, from which this version of pytest-cua cannot go on.",
                    "record the test again: pytest --cua-mode=record TEST",
                )
            lines = MIGRATIONS[number](lines)
        lines[0] = {**lines[0], "format": FORMAT}
        root = path if file.parent != path else load_root(file.parent)
        write_lines(lines, file.parent, root, page=(file.parent / PAGE).exists())
        changed.append((file, was))
    return changed


def load_root(folder: Path) -> Path:
    """The folder of all cassettes above one."""
    return Cassette(folder, {}, [], [], {}).root


def write_page(folder: Path) -> Path:
    """Write the page of a recording anew, and let its footer name it; returns its path."""
    root = load_root(folder)
    lines = [{k: v for k, v in line.items() if k != "sum"} for line in load(folder).lines]
    write_lines(lines, folder, root, page=True)
    return folder / PAGE
