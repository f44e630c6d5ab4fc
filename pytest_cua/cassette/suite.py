"""All cassettes of a project together: what no test uses, moving, checking, bringing up to date."""

from __future__ import annotations

import ast
import datetime as dt
import difflib
import fcntl
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from pytest_cua.cassette.review import steps_markdown
from pytest_cua.cassette.store import (
    BASELINES,
    FAILED,
    FLOWS,
    HTTP,
    PAGE,
    RECORDING,
    all_cassettes,
    all_kept_aside,
    cassette_folder,
    check_beside,
    digest_of,
    folders_of,
    kept_recordings,
    locked,
)
from pytest_cua.cassette.unseen import Unseen, baselines_in, noted, unseen
from pytest_cua.errors import (
    BadArgument,
    CassetteMissing,
    CassetteUnreadable,
    cua_command,
    path_quoted,
    pytest_command,
    shell_quoted,
)

# ---------------------------------------------------------------------- what no test uses


@dataclass(frozen=True)
class Collected:
    """What a run of pytest has collected.

    Attributes:
        ids: The ids of all tests, those that were deselected too.
        places: The files and folders that were given to it, or its testpaths, relative to the root.
        files: The ids of files and classes that were looked into, those in which no test was found too.
        left_out: The ids of files and classes that were skipped, or could not be collected.
        compared: For each test that ran and passed, the baselines it looked at; None when none were run.
    """

    ids: Collection[str]
    places: Sequence[str]
    files: Collection[str] = ()
    left_out: Collection[str] = ()
    compared: Mapping[str, Collection[str]] | None = None

    def covers(self, test: str) -> bool:
        """Whether the test's file was asked for."""
        file = test.partition("::")[0]
        return any(
            place in (".", "") or file == place or file.startswith(place.rstrip("/") + "/") for place in self.places
        )

    def left(self, test: str) -> bool:
        """Whether what holds the test was skipped or could not be collected."""
        return any(name in ("", ".") or f"{test}::".startswith((f"{name}::", f"{name}/")) for name in self.left_out)


@dataclass
class Unused:
    """What no test uses.

    Attributes:
        tests: Cassettes, as folder and test id; and folders of baselines whose tests have no cassette.
        screens: Pictures that no cassette shows.
        baselines: Expected screenshots that tests have and do not look at any more, each with its test's id.
        renamed: For a test id of `tests`, what to give to `move`: the old name and the new one of a test with the same
            sentences that has no cassette.
        damaged: Cassettes that cannot be read. What they show and use is not known, so neither pictures nor flows are
            unused then.
    """

    tests: list[tuple[Path, str]] = field(default_factory=list)
    screens: list[Path] = field(default_factory=list)
    baselines: list[Unseen] = field(default_factory=list)
    renamed: dict[str, tuple[str, str]] = field(default_factory=dict)
    damaged: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.tests or self.screens or self.baselines)

    def lines(self, root: Path) -> Iterator[str]:
        """What to say about it, a line each."""
        told = set()
        for folder, test in self.tests:
            yield f"unused: {folder.relative_to(root.parent)} ({test}, {_size(_files_of(folder))})"
            pair = self.renamed.get(test)
            if pair is not None and pair not in told:
                told.add(pair)
                old, new = map(shell_quoted, pair)
                yield f"  its steps are those of {pair[1]}: {cua_command('move', old, new)}"
        for picture, test in self.baselines:
            yield f"unused: {picture.relative_to(root.parent)} ({test} passes without it, {_size([picture])})"
        if self.screens:
            yield f"unused: {counted(self.screens, 'picture')} that no cassette shows ({_size(self.screens)})"
        if self.damaged:
            yield (
                f"{counted(self.damaged, 'cassette')} cannot be read, so pictures and flows are not judged: "
                f"{cua_command('verify')}"
            )


def _files_of(folder: Path) -> list[Path]:
    return [file for path in _own(folder) for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]


def _own(folder: Path) -> list[Path]:
    """What belongs to the recording in a folder; tests may lie in folders below it, and those do not."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.name.startswith(".") or not path.is_dir() or not _holds_recordings(path)
    ]


def _holds_recordings(folder: Path) -> bool:
    return any(path.name in (FILE, BASELINES) for path in folder.rglob("*"))


def _size(paths: Iterable[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1000:.0f} kB"


def counted(things: Collection[Any], what: str) -> str:
    """How many there are, in words."""
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def find_unused(root: Path, project: Path, collected: Collected) -> Unused:
    """The cassettes whose tests are gone, the baselines that tests do not compare, and the pictures nobody shows.

    A cassette is unused only when its test's file is gone, or was collected whole and holds no such test; never when
    its test was merely not collected, deselected or skipped. A baseline is when its test ran and passed without it: of
    this run, or of the last complete one when this ran no tests.

    Args:
        root: The folder of all cassettes.
        project: The root of test ids.
        collected: What was collected.
    """
    found = Unused()
    files = {test.partition("::")[0] for test in collected.ids} | set(collected.files)
    flows: list[Cassette] = []
    used: set[str] = {str(line["flow"]) for cassette in _kept_aside(root) for line in cassette.flows}
    speaks_of_all = bool(collected.places)
    for path in all_cassettes(root):
        try:
            cassette = load(path.parent, partial=True)
        except CassetteUnreadable:
            found.damaged.append(path)
            continue  # `verify` speaks of those
        if cassette.broken:
            found.damaged.append(path)
        test = str(cassette.header.get("test"))
        if cassette.header.get("kind") == "flow":
            flows.append(cassette)
        elif _is_gone(test, files, project, collected):
            found.tests.append((path.parent, test))
            continue
        else:
            speaks_of_all = speaks_of_all and collected.covers(test)
        used |= {str(line["flow"]) for line in cassette.flows}
    found.tests += _lone_baselines(root, files, project, collected)
    found.renamed = _renamed(found.tests, root, project, collected.ids)
    if speaks_of_all and not found.damaged:
        found.tests += [(flow.folder, flow.header["test"]) for flow in flows if flow.header["test"] not in used]
    found.screens = [] if found.damaged else unused_screens(root)
    if collected.compared is not None:
        found.baselines = unseen(root, collected.compared)
    else:
        found.baselines = list(noted(root, project, collected.ids))
    return found


def _kept_aside(root: Path) -> Iterator[Cassette]:
    """The recordings that did not take their place, as far as they can be read."""
    for folder in all_kept_aside(root):
        with suppress(CassetteUnreadable):
            yield load(folder, partial=True)


def _is_gone(test: str, files: Collection[str], project: Path, collected: Collected) -> bool:
    if test in collected.ids or not collected.covers(test) or collected.left(test):
        return False
    file = test.partition("::")[0]
    return file in files or not (project / file).exists()


def _lone_baselines(
    root: Path, files: Collection[str], project: Path, collected: Collected
) -> Iterator[tuple[Path, str]]:
    """The folders of baselines whose tests are gone; of tests that have no cassette, as those of a desktop alone."""
    holding = [folder for folder in folders_of(root) if len(folder.relative_to(root).parts) > 1]
    folders = [folder for folder in holding if baselines_in(folder) and not (folder / FILE).exists()]
    if not folders:
        return
    living = {cassette_folder(root, test) for test in collected.ids if "::" in test}
    for folder in folders:
        file = f"{folder.parent.relative_to(root).as_posix()}.py"
        kept = any(path.parent.name.startswith(".") for path in folder.glob(f"*/{FILE}"))
        left = any(name.partition("::")[0] == file for name in collected.left_out)
        if folder not in living and not kept and not left:
            # the folder tells the name of the test only about, but the path of its file
            test = f"{file}::{folder.name}"
            if _is_gone(test, files, project, collected):
                yield folder, test


def unused_screens(root: Path) -> list[Path]:
    """The pictures that no cassette shows, all of them being whole."""
    shown: set[str] = set()
    for path in all_cassettes(root):
        shown |= {key.decode() for key in _KEY.findall(path.read_bytes())}
    return [path for path in sorted((root / SCREENS).glob("??/*.webp")) if path.stem not in shown]


_KEY = re.compile(rb"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


def _renamed(
    tests: list[tuple[Path, str]], root: Path, project: Path, ids: Collection[str]
) -> dict[str, tuple[str, str]]:
    """For tests that are gone, what to give to `move`."""
    orphans = [(folder, test) for folder, test in tests if (folder / FILE).exists()]
    if not orphans:
        return {}
    sources = _Sources(project)
    without = sorted(test for test in ids if "::" in test and not (cassette_folder(root, test) / FILE).exists())
    found: dict[str, str] = {}
    for folder, test in orphans:
        sentences = _sentences(load(folder, partial=True))
        same = [other for other in without if sources.says(other, sentences)]
        if same:
            found[test] = max(same, key=lambda other: _likeness(test, other))
            without.remove(found[test])
    return {test: _to_move(test, new, found, orphans, ids) for test, new in found.items()}


def _likeness(old: str, new: str) -> tuple[bool, float]:
    """How likely a test is another one renamed: its parameters are the same, and its name is close."""
    return _row(old) == _row(new), difflib.SequenceMatcher(None, old, new).ratio()


def _row(test: str) -> str:
    return test.partition("[")[2]


def _to_move(
    old: str, new: str, found: dict[str, str], orphans: list[tuple[Path, str]], ids: Collection[str]
) -> tuple[str, str]:
    """The shortest names that move a test: of its file, of its function with all rows, or of itself."""
    file, names = old.split("::", 1)
    other, other_names = new.split("::", 1)
    beside = [test for _, test in orphans if test.startswith(f"{file}::")]
    same_names = names == other_names and all(found.get(test) == other + test[len(file) :] for test in beside)
    if len(beside) > 1 and same_names and not any(test.startswith(f"{file}::") for test in ids):
        return file, other
    function, renamed = old.partition("[")[0], new.partition("[")[0]
    if _row(old) == _row(new) and not any(test.partition("[")[0] == function for test in ids):
        return function, renamed
    return old, new


def renamed_from(root: Path, project: Path, test: str) -> str | None:
    """The id under which a test was recorded before it was renamed, as far as its sentences tell; None when unknown."""
    sources = _Sources(project)
    found = []
    for path in all_cassettes(root):
        try:
            cassette = load(path.parent, partial=True)
        except CassetteUnreadable:
            continue
        old = str(cassette.header.get("test"))
        if cassette.header.get("kind") == "flow" or sources.function(old) is not None:
            continue
        if sources.says(test, _sentences(cassette)):
            found.append(old)
    best = max(found, key=lambda old: _likeness(old, test), default=None)
    if best is None or (len(found) > 1 and _row(best) != _row(test)):
        return None  # of several rows, none is known to be this one
    return best


def _sentences(cassette: Cassette) -> list[str]:
    """What the test's function said; what fixtures did before and after it stands elsewhere."""
    return [step.sentence for step in cassette.steps if step.phase == "call"]


class _Sources:
    """The source of tests, each file parsed once."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._modules: dict[str, ast.Module | None] = {}
        self._texts: dict[str, set[str]] = {}

    def says(self, test: str, sentences: list[str]) -> bool:
        """Whether the source of a test holds all of some sentences."""
        name = test.partition("[")[0]
        if name not in self._texts:
            function = self.function(name)
            nodes = ast.walk(function) if function is not None else ()
            constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
            self._texts[name] = {value for value in constants if isinstance(value, str)}
        return bool(sentences) and all(sentence in self._texts[name] for sentence in sentences)

    def function(self, test: str) -> ast.AST | None:
        """The definition of a test, found by its names alone."""
        file, *names = test.partition("[")[0].split("::")
        node: Any = self._module(file)
        for name in names:
            kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            inside = node.body if node is not None else ()
            node = next((inner for inner in inside if isinstance(inner, kinds) and inner.name == name), None)
        return node  # type: ignore[no-any-return]

    def _module(self, file: str) -> ast.Module | None:
        if file not in self._modules:
            try:
                self._modules[file] = ast.parse((self._project / file).read_text(encoding="utf-8"))
            except (OSError, ValueError, SyntaxError):
                self._modules[file] = None
        return self._modules[file]


def prune(unused: Unused, root: Path) -> None:
    """Remove what is unused; the pictures that become unused by it too."""
    for folder, _ in unused.tests:
        _remove(folder, root)
    for picture, _ in unused.baselines:
        picture.unlink()
        picture.with_suffix(".json").unlink(missing_ok=True)
        _remove_empty(picture.parent, root)
    if unused.damaged or not (root / SCREENS).is_dir():
        return
    with locked(root):  # a recording that takes its place just now brings its pictures first
        for path in unused_screens(root):
            path.unlink()
            _remove_empty(path.parent, root / SCREENS)


def _remove(folder: Path, root: Path) -> None:
    for path in _own(folder):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    _remove_empty(folder, root)


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
    if old == new:
        raise BadArgument(f"{old!r} is the old name and the new one: there is nothing to move.")
    recorded = {path.parent: str(load(path.parent).header["test"]) for path in all_cassettes(root)}
    pairs = [
        (folder, test, new + test[len(old) :])
        for folder, test in recorded.items()
        if test == old or test.startswith((f"{old}[", f"{old}::"))
    ]
    if "::" not in old:  # the flows that the file defines
        pairs += [
            (folder, test, f"{FLOWS}/{new}{test[len(FLOWS) + 1 + len(old) :]}")
            for folder, test in recorded.items()
            if test.startswith(f"{FLOWS}/{old}::")
        ]
    if not pairs:
        raise CassetteMissing(f"Nothing is recorded for {old} in {root}.", *_close_to(old, recorded.values()))
    for folder, _, target in pairs:
        _check_free(folder, cassette_folder(root, target), target)
    for folder, test, target in pairs:
        _move_one(root, folder, test, target)
    _rename_flows(root, {test: target for _, test, target in pairs})
    return [(test, target) for _, test, target in pairs]


def _close_to(name: str, tests: Iterable[str]) -> list[str]:
    """What may have been meant, as hints: ids, functions and files that something is recorded for."""
    known: dict[str, None] = {}
    for test in tests:
        names = (test, test.partition("[")[0]) if "::" in name else (test.partition("::")[0],)
        known |= dict.fromkeys(names)
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return [f"did you mean {' or '.join(map(shell_quoted, close))}?"]
    few = f"recorded are {', '.join(list(known)[:5])}{' ...' if len(known) > 5 else ''}"
    return [few] if known else ["nothing is recorded there at all: --cassettes names another folder"]


def _check_free(source: Path, target: Path, test: str) -> None:
    """Nothing of the new test's may be lost, and nobody may be writing into the old one's folder.

    Raises:
        BadArgument: It would be.
    """
    if source == target:
        return
    if (target / FILE).exists():
        raise BadArgument(
            f"There is a recording of {test} already: {target}.",
            "remove it first if the old one is to take its place",
        )
    for path in _own(source):
        if (target / path.name).exists():
            raise BadArgument(
                f"{target / path.name} exists already, and {path} would take its place.",
                "remove the one that is not wanted",
            )
    with suppress(FileNotFoundError), (source / RECORDING / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadArgument(f"A run is recording in {source} just now.", "wait for it to end") from None


def _move_one(root: Path, source: Path, old: str, new: str) -> None:
    target = cassette_folder(root, new)
    target.mkdir(parents=True, exist_ok=True)

    def renamed(line: Line) -> Line:
        return {**line, "test": new} if line["type"] == "header" and line["test"] == old else line

    rewrite(source, target, root, renamed)
    for path in _own(source):
        if path.name not in (FILE, PAGE):
            path.replace(target / path.name)
    for kept in kept_recordings(target):
        with suppress(CassetteUnreadable):  # not one whole line: nothing in it names a test
            rewrite(kept, kept, root, renamed)
    if source != target:  # else it was moved by hand, and only its lines named the old test
        _remove(source, root)


def _rename_flows(root: Path, names: dict[str, str]) -> None:
    def renamed(line: Line) -> Line:
        return {**line, "flow": names.get(line["flow"], line["flow"])} if line["type"] == "flow" else line

    for cassette in [*(load(path.parent) for path in all_cassettes(root)), *_kept_aside(root)]:
        if any(line["flow"] in names for line in cassette.flows):
            rewrite(cassette.folder, cassette.folder, root, renamed)


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
    is_whole = True
    for path in all_cassettes(root):
        try:
            cassette = load(path.parent)
            cassette.root = root
            problems += _problems(cassette, root, seen)
            age = age_in_days(cassette)
            if max_age is not None and age >= max_age:
                again = pytest_command("--cua-mode=record", test=str(cassette.header["test"]))
                problems.append(f"{path}: recorded {age} days ago, and cua_max_age is {max_age} days: {again}")
            if (gone := retired(str(cassette.header["model"]))) is not None:
                notes.append(f"{path}: recorded with {cassette.header['model']}, {gone}")
        except CassetteUnreadable as error:
            is_whole = False
            problems.append(str(error))
    notes += [f"kept aside, not committed: {kept}" for kept in all_kept_aside(root)]
    if is_whole and (screens := unused_screens(root)):
        notes.append(f"{counted(screens, 'picture')} that no cassette shows ({_size(screens)}): {cua_command('prune')}")
    if all_cassettes(root):
        problems += _attributes(root / ".gitattributes")
    return problems, notes


def _attributes(path: Path) -> Iterator[str]:
    """What is wrong with what git is told."""
    again = f"git checkout -- {path_quoted(path)}, or record any test, which writes it"
    if not path.exists():
        yield f"{path} is missing, so git may convert line ends and merge recordings line by line: {again}"
    elif FILE not in path.read_text(encoding="utf-8", errors="replace"):
        yield f"{path} does not speak of {FILE}, so git may convert line ends and merge it line by line: {again}"


def _problems(cassette: Cassette, root: Path, seen: dict[str, Path]) -> Iterator[str]:
    test = str(cassette.header.get("test"))
    if test in seen:
        yield f"{cassette.file}: {test} is recorded in {seen[test]} too: remove the folder that is not wanted"
    seen.setdefault(test, cassette.file)
    place = cassette_folder(root, test)
    if cassette.folder != place:
        yield (
            f"{cassette.file}: it is of {test}, whose recording belongs into {place}: move the folder there, "
            f"or if the test was renamed: {cua_command('move', shell_quoted(test), 'NEW')}"
        )
    for aside in (cassette.folder / RECORDING, cassette.folder / FAILED):
        if not (aside / FILE).exists() and ((aside / PAGE).exists() or (aside / HTTP).exists()):
            yield f"{aside}: its swap was broken off by a kill; a replay finishes it: {pytest_command(test=test)}"
            return
    yield from _beside(cassette)
    yield from _pictures_and_files(cassette)
    for hit in scan_folder(cassette.folder, allowed=(test,)):
        again = pytest_command("--cua-mode=record", test=test)
        yield f"a secret: {hit}: make it invalid, then record again: {again}"


def _beside(cassette: Cassette) -> Iterator[str]:
    page, anew = cassette.folder / PAGE, cua_command("show", "--write", cassette.folder)
    try:
        check_beside(cassette)
    except CassetteUnreadable as error:
        yield str(error)
        return
    if not page.exists():
        yield f"{page} is missing: {anew}"
    elif cassette.header.get("plugin") == version("pytest-cua") and page.read_bytes() != page_of(cassette):
        yield f"{page} does not say what {FILE} says: {anew}"


def _pictures_and_files(cassette: Cassette) -> Iterator[str]:
    from pytest_cua.cassette.player import stored_file, stored_screen

    checks: list[tuple[Callable[[Cassette, str], Any], set[str]]] = [
        (stored_screen, cassette.screens()),
        (stored_file, cassette.files()),
    ]
    for check, keys in checks:
        for key in sorted(keys):
            try:
                check(cassette, key)
            except CassetteUnreadable as error:
                yield str(error)
    for path in sorted((cassette.folder / FILES).glob("*")):
        if path.stem not in cassette.files():
            yield f"{path} belongs to no line of {cassette.file}: rm {path_quoted(path)}"


def page_of(cassette: Cassette) -> bytes:
    """The page of a recording, as it is written."""
    return steps_markdown(cassette).encode("utf-8", "backslashreplace")


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


def migrate(path: Path, root: Path) -> list[tuple[Path, int]]:
    """Bring every recording in a folder up to the format of today; a page is written with each.

    Args:
        path: The folder of one recording, or of several.
        root: The folder of all cassettes.

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
                    f"record the test again: {pytest_command('--cua-mode=record')} TEST",
                )
            lines = MIGRATIONS[number](lines)
        lines[0] = {**lines[0], "format": FORMAT}
        above = root if file.is_relative_to(root) else load_root(file.parent)
        write_lines(lines, file.parent, above, page=(file.parent / PAGE).exists())
        changed.append((file, was))
    return changed


def load_root(folder: Path) -> Path:
    """The folder of all cassettes above one."""
    return Cassette(folder, {}, [], [], {}).root


def write_page(folder: Path, root: Path) -> Path:
    """Write the page of a recording anew, and let its footer name it; returns its path."""
    lines = [{k: v for k, v in line.items() if k != "sum"} for line in load(folder).lines]
    write_lines(lines, folder, root, page=True)
    return folder / PAGE
