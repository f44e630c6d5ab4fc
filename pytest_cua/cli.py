"""`pytest-cua`, the command beside pytest: what is missing here, what a recording holds, adopting one that was kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_cua.errors import CuaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 not done, 2 misuse."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
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
        "--cassettes", type=Path, default=Path("cassettes"), help="folder of all cassettes (default: cassettes)"
    )


def _folder(options: argparse.Namespace) -> Path:
    from pytest_cua.cassette.store import cassette_folder

    if Path(options.test).is_dir():
        return Path(options.test)
    return cassette_folder(options.cassettes, options.test)


def _doctor(options: argparse.Namespace) -> int:
    from pytest_cua.doctor import report

    return report()


def _show(options: argparse.Namespace) -> int:
    from pytest_cua.cassette.format import FILE, load
    from pytest_cua.cassette.review import steps_markdown
    from pytest_cua.cassette.store import load_cassette

    folder = _folder(options)
    if not (folder / FILE).exists():
        load_cassette(options.cassettes, options.test)  # says what is missing and how to record it
    cassette = load(folder)
    print(steps_markdown(folder), end="")
    footer = cassette.footer
    print(f"\n{footer['turns']} turns, {footer['actions']} actions, {footer['observations']} observations")
    return 0


def _accept(options: argparse.Namespace) -> int:
    from pytest_cua.assertions.baselines import accept_proposed
    from pytest_cua.cassette.store import FAILED, adopt

    folder = _folder(options)
    adopted = (folder / FAILED).is_dir()
    if adopted:
        print(f"adopted {adopt(folder).file}")
    accepted = accept_proposed(folder)
    for path in accepted:
        print(f"accepted {path}")
    if not adopted and not accepted:
        print(
            f"nothing to accept in {folder}: no recording was kept aside and no baseline is proposed", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
