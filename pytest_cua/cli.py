"""`pytest-cua`, the command beside pytest: what is missing here, what a recording holds, adopting one that was kept."""

from __future__ import annotations

import argparse
import configparser
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_cua.errors import CassetteUnreadable, CuaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 not done, 2 misuse."""
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

    doctor = commands.add_parser("doctor", help="what is missing on this machine, and the command that installs it")
    doctor.set_defaults(run=_doctor)

    show = commands.add_parser("show", help="a recording in words: steps, turns, actions, observations")
    _add_test(show)
    show.set_defaults(run=_show)

    accept = commands.add_parser(
        "accept", help="adopt a recording that was kept aside, and accept the test's proposed baselines"
    )
    _add_test(accept)
    accept.set_defaults(run=_accept)
    return parser


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", help="the test's id, such as tests/test_file.py::test_name, or its cassette's folder")
    parser.add_argument(
        "--cassettes", type=Path, help="folder of all cassettes (default: cua_cassette_dir of pytest's settings)"
    )


def _folder(options: argparse.Namespace) -> Path:
    """The cassette's folder of the test, or the folder that was given."""
    from pytest_cua.cassette.store import cassette_folder

    if options.test and Path(options.test).is_dir():
        return Path(options.test)
    return cassette_folder(*_root_and_id(options))


def _root_and_id(options: argparse.Namespace) -> tuple[Path, str]:
    """The folder of all cassettes, and the test's id from the root of the project on, wherever the command is run."""
    root, configured = _project(Path.cwd())
    path, separator, names = options.test.partition("::")
    with suppress(ValueError):  # a path that leads elsewhere stays as it is, and is not found
        path = str((Path.cwd() / path).resolve().relative_to(root)) if separator else path
    return options.cassettes or root / configured, path + separator + names


def _project(start: Path) -> tuple[Path, str]:
    """The folder of pytest's settings, and where cassettes lie by them; without such, this folder."""
    for folder in (start, *start.parents):
        for name in (
            "pytest.toml",
            ".pytest.toml",
            "pytest.ini",
            ".pytest.ini",
            "pyproject.toml",
            "tox.ini",
            "setup.cfg",
        ):
            settings = _settings_in(folder / name)
            if settings is not None:
                return folder.resolve(), str(settings.get("cua_cassette_dir", "cassettes")).strip()
    return start.resolve(), "cassettes"


def _settings_in(path: Path) -> Mapping[str, Any] | None:
    """What a file says to pytest, None when it says nothing to it."""
    if not path.is_file():
        return None
    if path.suffix == ".toml":
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        if path.name != "pyproject.toml":
            return dict(table.get("pytest", {}))
        found = table.get("tool", {}).get("pytest")
        return None if found is None else dict(found.get("ini_options", found))
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(path, encoding="utf-8")
    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    return parser[section] if parser.has_section(section) else None


def _doctor(options: argparse.Namespace) -> int:
    from pytest_cua.doctor import report

    return report()


def _show(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.format import FILE, load
    from pytest_cua.cassette.review import steps_markdown
    from pytest_cua.cassette.store import FAILED, load_cassette

    folder = _folder(options)
    if not (folder / FILE).exists() and (folder / FAILED / FILE).exists():
        folder = folder / FAILED
        print(f"(kept aside, of a run that failed: {folder})\n")
    if not (folder / FILE).exists():
        load_cassette(*_root_and_id(options))  # says what is missing and how to record it
    cassette = load(folder)
    print(steps_markdown(folder), end="")
    footer = cassette.footer
    print(f"\n{footer['turns']} turns, {footer['actions']} actions, {footer['observations']} observations")
    return 0


def _accept(options: argparse.Namespace) -> int:
    from pytest_cua.assertions.baselines import accept_proposed
    from pytest_cua.cassette.store import FAILED, adopt, load_cassette

    folder = _folder(options)
    adopted, problem = False, None
    if (folder / FAILED).is_dir():
        try:
            print(f"adopted {adopt(folder).file}")
            adopted = True
        except CassetteUnreadable as error:
            problem = error
            print(error, file=sys.stderr)
    accepted = accept_proposed(folder)
    for path in accepted:
        print(f"accepted {path}")
    if not adopted and not accepted and problem is None:
        if not folder.is_dir():
            load_cassette(*_root_and_id(options))  # says what is missing and how to record it
        print(
            f"nothing to accept in {folder}: no recording was kept aside and no baseline is proposed", file=sys.stderr
        )
        return 1
    return 0 if adopted or accepted else 1


if __name__ == "__main__":
    sys.exit(main())
