"""`pytest-cua`, the command beside pytest: what is missing here, and everything that is done with recordings."""

from __future__ import annotations

import argparse
import configparser
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cua.errors import (
    BadArgument,
    CassetteUnreadable,
    CuaError,
    cua_command,
    pytest_command,
    set_cassettes,
    set_root,
)

if TYPE_CHECKING:
    from pytest_cua.cassette.format import Cassette

_SETTINGS_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 not done or something was found, 2 misuse."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # whoever read has seen enough; Python must not complain about the rest at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CuaError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-cua", description="What belongs to computer-use tests outside of a test run."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help[:1].upper() + help[1:] + ".")
        added.set_defaults(run=run)
        return added

    command("doctor", _doctor, "what is missing on this machine, and the command that installs it")

    selftest = command("selftest", _selftest, "whether clicks, keys and text arrive on this machine, all kinds of them")
    selftest.add_argument("--json", action="store_true", help="write JSON instead of a table")
    selftest.add_argument("--shell", default="openbox", help="the window manager: openbox or mutter (default: openbox)")
    selftest.add_argument(
        "--isolation", default="auto", help="auto, bubblewrap, no-network or process-group (default: auto)"
    )

    show = command("show", _show, "a recording in words: steps, turns, actions, observations; also one that broke off")
    _add_test(show)
    show.add_argument("--write", action="store_true", help="write steps.md anew, and let the recording name it")

    accept = command(
        "accept", _accept, "adopt a recording that was kept aside, and accept the test's proposed baselines"
    )
    _add_test(accept)

    diff = command("diff", _diff, "two recordings against each other, in words; exits with 1 when they differ")
    diff.add_argument("first", help="a test's id, a cassette's folder, or a cassette.jsonl")
    diff.add_argument("second", nargs="?", help="the other; without it, what was kept aside of the first one's test")
    _add_cassettes(diff)

    verify = command(
        "verify", _verify, "check the integrity of all recordings: digests, pictures, pages, secrets; for CI"
    )
    _add_cassettes(verify)

    prune = command("prune", _prune, "remove recordings of tests that are gone, and pictures that nobody shows")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    _add_cassettes(prune)

    move = command("move", _move, "give the recordings of a test that was renamed, or of a file, to its new name")
    move.add_argument("old", help="the old id of the test or flow, or the old path of the file")
    move.add_argument("new", help="the new one")
    _add_cassettes(move)

    migrate = command("migrate", _migrate, "bring recordings of an older format up to date")
    migrate.add_argument("folder", nargs="?", type=Path, help="of one recording (default: all)")
    _add_cassettes(migrate)

    importing = command("import-vcr", _import_vcr, "make a recording of a cassette of vcrpy or pytest-recording")
    importing.add_argument("file", type=Path, help="the YAML or JSON file")
    importing.add_argument("--test", required=True, help="the id of the test that is to replay it")
    importing.add_argument("--force", action="store_true", help="replace a recording that the test has")
    _add_cassettes(importing)

    exporting = command("export-vcr", _export_vcr, "write a step as a plain vcrpy cassette, which stock vcrpy replays")
    _add_test(exporting)
    exporting.add_argument("file", type=Path, help="where the YAML goes")
    exporting.add_argument("--force", action="store_true", help="replace a file that is there")
    which = exporting.add_mutually_exclusive_group()
    which.add_argument("--step", type=int, help="the step's number (default: the only one)")
    which.add_argument("--conversation", type=int, help="the number of a conversation of the code under test")
    return parser


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", help="the test's id, such as tests/test_file.py::test_name, or its cassette's folder")
    _add_cassettes(parser)


def _add_cassettes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cassettes", type=Path, help="folder of all cassettes (default: cua_cassette_dir of pytest's settings)"
    )


def _root(options: argparse.Namespace) -> Path:
    """The folder of all cassettes."""
    project, configured = _project(Path.cwd())
    root = Path(options.cassettes or project / configured)
    set_root(project, Path.cwd())
    set_cassettes(None if root.resolve() == (project / configured).resolve() else root)
    return root


def _folder(options: argparse.Namespace, test: str | None = None) -> Path:
    """The cassette's folder of the test, or the folder that was given."""
    from pytest_cua.cassette.store import cassette_folder

    root = _root(options)
    test = test or options.test
    if test and Path(test).is_dir():
        return Path(test)
    return cassette_folder(root, _id(test))


def _id(test: str) -> str:
    """The test's id from the root of the project on, wherever the command is run."""
    project, _ = _project(Path.cwd())
    path, separator, names = test.partition("::")
    if path == "flows.py" or path.startswith("flows/"):
        return test
    with suppress(ValueError):  # a path that leads elsewhere stays as it is, and is not found
        path = (Path.cwd() / path).resolve().relative_to(project).as_posix()
    return path + separator + names


def _project(start: Path) -> tuple[Path, str]:
    """The folder of pytest's settings, and where cassettes lie by them; without such, this folder."""
    for folder in (start, *start.parents):
        for name in _SETTINGS_FILES:
            settings = _settings_in(folder / name)
            if settings is not None:
                return folder.resolve(), _setting(settings, "cassette_dir") or "cassettes"
    return start.resolve(), _setting({}, "cassette_dir") or "cassettes"


def _setting(settings: Mapping[str, Any], name: str) -> str:
    """The text that is given for a setting, in a file or in the environment, as pytest takes it."""
    return str(settings.get(f"cua_{name}", "")).strip() or os.environ.get(f"PYTEST_CUA_{name.upper()}", "").strip()


def _settings_in(path: Path) -> Mapping[str, Any] | None:
    """What a file says to pytest, None when it says nothing to it.

    Raises:
        BadArgument: It cannot be read.
    """
    try:
        return _read_settings(path) if path.is_file() else None
    except (ValueError, configparser.Error) as error:
        raise BadArgument(f"{path} cannot be read, and may hold pytest's settings: {error}") from None


def _read_settings(path: Path) -> Mapping[str, Any] | None:
    if path.suffix == ".toml":
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        if path.name != "pyproject.toml":
            return dict(table.get("pytest", {}))
        found = table.get("tool", {}).get("pytest")
        return None if found is None else dict(found.get("ini_options", found))
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(path, encoding="utf-8")
    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    if parser.has_section(section):
        return parser[section]
    return {} if path.name.endswith("pytest.ini") else None  # an empty one marks the root too


def _doctor(options: argparse.Namespace) -> int:
    from pytest_cua.doctor import report

    return report()


def _selftest(options: argparse.Namespace) -> int:
    from pytest_cua.desktop.desktop import DesktopConfig
    from pytest_cua.selftest import report

    config = DesktopConfig(shell=options.shell, isolation=options.isolation)
    return report(as_json=options.json, config=config)


def _show(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.review import steps_markdown
    from pytest_cua.cassette.store import kept_recordings

    if Path(options.test).is_file():  # as git calls it, to show a difference in words
        print(_words_of(Path(options.test)), end="")
        return 0
    if options.write:
        from pytest_cua.cassette.suite import write_page

        folder = _folder(options)
        if not folder.is_dir():
            _to_show(options)  # says what is missing
        print(f"wrote {write_page(folder, _root_above(options, folder))}")
        return 0
    cassette = _to_show(options)
    print(steps_markdown(cassette), end="")
    for kept in kept_recordings(cassette.folder):
        print(f"\n(there is another recording, which did not take its place: {cua_command('show', kept)})")
    if cassette.footer:
        counts = ", ".join(f"{cassette.footer[name]} {name}" for name in ("turns", "actions", "observations"))
        print(f"\n{counts}")
    return 0


def _words_of(path: Path) -> str:
    """A cassette's file in words; one that cannot be read as it is, or git would show nothing at all of any file."""
    from pytest_cua.cassette.format import load_file
    from pytest_cua.cassette.review import steps_markdown

    try:
        return steps_markdown(load_file(path, partial=True), links=False)
    except CassetteUnreadable as error:
        return f"({error.message})\n\n{path.read_text(encoding='utf-8', errors='replace')}"


def _root_above(options: argparse.Namespace, folder: Path) -> Path:
    """The folder of all cassettes that one lies in, also when it is not that of this project."""
    from pytest_cua.cassette.suite import load_root

    root = _root(options)
    return root if folder.resolve().is_relative_to(root.resolve()) else load_root(folder)


def _to_show(options: argparse.Namespace) -> Cassette:
    """The recording of a test, or one of it that did not take its place."""
    from pytest_cua.cassette.format import FILE, load
    from pytest_cua.cassette.store import RECORDING, kept_recordings, load_cassette

    folder = _folder(options)
    if (folder / FILE).exists():
        return load(folder, partial=folder.name.startswith("."))
    for kept in kept_recordings(folder):
        how = "being recorded, or left by a run that was killed" if kept.name == RECORDING else "of a run that failed"
        print(f"(kept aside, {how}: {kept})\n")
        return load(kept, partial=True)
    return load_cassette(_root(options), _id(options.test))  # says what is missing and how to record it


def _accept(options: argparse.Namespace) -> int:
    from pytest_cua.assertions.baselines import accept_proposed
    from pytest_cua.cassette.store import FAILED, adopt, load_cassette
    from pytest_cua.cassette.suite import write_page

    folder = _folder(options)
    adopted, problem = False, None
    if (folder / FAILED).is_dir():
        root = _root_above(options, folder)
        try:
            print(f"adopted {adopt(folder, root).file}")
            write_page(folder, root)  # which a recording that failed has not
            adopted = True
        except CassetteUnreadable as error:
            problem = error
            print(error, file=sys.stderr)
    accepted = accept_proposed(folder)
    for path in accepted:
        print(f"accepted {path}")
    if not adopted and not accepted and problem is None:
        if not folder.is_dir():
            load_cassette(_root(options), _id(options.test))  # says what is missing and how to record it
        print(
            f"nothing to accept in {folder}: no recording was kept aside and no baseline is proposed", file=sys.stderr
        )
        return 1
    return 0 if adopted or accepted else 1


def _diff(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.diff import differences
    from pytest_cua.cassette.store import kept_recordings

    first = _named(options, options.first)
    if options.second:
        second = _named(options, options.second)
    else:
        from pytest_cua.cassette.format import load

        kept = kept_recordings(first.folder)
        if not kept:
            raise BadArgument(
                f"No recording of {options.first} was kept aside that could be set against it.",
                f"name the other one: {cua_command('diff', 'FIRST', 'SECOND')}",
            )
        second = load(kept[0], partial=True)
    lines = differences(first, second)
    print("\n".join(lines) if lines else "no difference in words")
    return 1 if lines else 0


def _named(options: argparse.Namespace, name: str) -> Cassette:
    from pytest_cua.cassette.format import FILE, load, load_file
    from pytest_cua.cassette.store import load_cassette

    if Path(name).is_file():
        return load_file(Path(name), partial=True)
    folder = _folder(options, name)
    if not (folder / FILE).exists() and not folder.is_dir():
        return load_cassette(_root(options), _id(name))  # says what is missing and how to record it
    return load(folder, partial=True)


def _verify(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.store import roots_in
    from pytest_cua.cassette.suite import verify

    root, *inside = roots_in(_existing_root(options))
    max_age = _max_age()
    if not inside:
        return _told(root, *verify(root, max_age=max_age))
    found = [_told(each, *verify(each, max_age=max_age), which=f"{each}: ") for each in (root, *inside)]
    print(f"folders of cassettes that lie in {root}, and were checked each by itself: {', '.join(map(str, inside))}")
    return max(found)


def _told(root: Path, problems: list[str], notes: list[str], which: str = "") -> int:
    """Say what `verify` found in a folder of cassettes; the exit code."""
    from pytest_cua.cassette.store import all_cassettes
    from pytest_cua.cassette.suite import counted

    for line in notes:
        print(line)
    for problem in problems:
        print(problem, file=sys.stderr)
    wrong = counted(problems, "problem") if problems else "no problems"
    print(f"{which}{counted(all_cassettes(root), 'recording')}, {wrong}")
    return 1 if problems else 0


def _existing_root(options: argparse.Namespace) -> Path:
    root = _root(options)
    if not root.is_dir():
        raise BadArgument(f"There is no folder {root}.", "name the folder of all cassettes: --cassettes FOLDER")
    return root


def _max_age() -> int | None:
    """`cua_max_age` of pytest's settings, when it is to fail: in days."""
    from pytest_cua.settings import PARSE

    folders = (Path.cwd(), *Path.cwd().parents)
    files = (_settings_in(folder / name) for folder in folders for name in _SETTINGS_FILES)
    text = _setting(next((settings for settings in files if settings is not None), {}), "max_age")
    try:
        days, what = PARSE["max_age"](text) if text else (None, "warn")
    except ValueError as error:
        raise BadArgument(f"cua_max_age: {text!r} is no value for it: {error}") from None
    return days if what == "fail" else None


def _prune(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.suite import counted, find_unused, prune

    root = _existing_root(options)
    project, _ = _project(Path.cwd())
    unused = find_unused(root, project, _collect(project))
    for line in unused.lines(root):
        print(line)
    if not unused:
        print("nothing is unused")
        return 0
    if options.dry_run:
        print("nothing was removed (--dry-run)")
        return 0
    prune(unused, root)
    baselines = f", {counted(unused.baselines, 'baseline')}" if unused.baselines else ""
    print(f"removed {counted(unused.tests, 'recording')}{baselines} and the pictures that no other shows")
    return 0


def _collect(project: Path) -> Any:
    """What pytest collects in the project: asked of pytest itself, in a process of its own."""
    import json
    import subprocess
    import tempfile

    from pytest_cua.cassette.suite import Collected

    with tempfile.TemporaryDirectory() as place:
        found = Path(place) / "collected.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--cua-collected={found}"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 5) or not found.exists():
            raise BadArgument(
                f"pytest could not collect all tests in {project}, so nothing can be said to be unused:\n"
                f"{(done.stdout + done.stderr).strip()[-2000:]}",
                f"mend the collection first: {pytest_command('--collect-only')}",
            )
        told = json.loads(found.read_text(encoding="utf-8"))
    return Collected(**{**told, "ids": frozenset(told["ids"])})


def _move(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.suite import move

    for old, new in move(_root(options), _id(options.old), _id(options.new)):
        print(f"moved {old} to {new}")
    return 0


def _migrate(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.format import FORMAT
    from pytest_cua.cassette.suite import migrate

    if options.folder is not None and not options.folder.is_dir():
        raise BadArgument(f"There is no folder {options.folder}.", "name a recording's folder, or none to take all")
    folder = options.folder or _existing_root(options)
    changed = migrate(folder.resolve(), _root(options).resolve())
    for path, was in changed:
        print(f"brought {path} from format {was} to {FORMAT}")
    if not changed:
        print(f"all recordings have format {FORMAT}, the newest: nothing to do")
    return 0


def _import_vcr(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.vcr_import import import_vcr

    print(import_vcr(options.file, root=_root(options), test=_id(options.test), force=options.force))
    return 0


def _export_vcr(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.vcr_export import export_vcr

    folder = _folder(options)
    part = {"step": options.step, "conversation": options.conversation}
    print(export_vcr(folder, options.file, **part, force=options.force))
    return 0


if __name__ == "__main__":
    sys.exit(main())
