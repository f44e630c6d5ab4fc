"""Commands in messages can be copied: each works where pytest was started, on the cassettes that were named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from suite_support import days_ago, make

import pytest_cua
from pytest_cua.cassette.store import cassette_folder
from pytest_cua.cli import main
from pytest_cua.errors import cua_command, pytest_command, set_cassettes, set_root

OLD, NEW = "test_it.py::test_it[it's a]", "test_it.py::test_new[it's a]"
TEXT = """
import pytest

@pytest.mark.parametrize("row", ["it's a"])
def test_new(cua, row):
    cua.do("Open it")
    assert cua.desktop.windows() == []
"""
PLACE = "my cassettes"
OPTIONS = (f"-o 'cua_cassette_dir={PLACE}'", f"--cassettes '{PLACE}'")  # of pytest, of pytest-cua


class Elsewhere:
    """A project whose cassettes lie in a folder that an option names."""

    def __init__(self, project: Any, capsys: Any) -> None:
        (project.path / "test_note.py").unlink()
        project.write(test_it=TEXT)
        self.project = project
        self.root: Path = project.path / PLACE
        self._capsys = capsys

    def offline(self, *arguments: str) -> str:
        options = ("--cua-mode=offline", "-o", f"cua_cassette_dir={PLACE}", *arguments)
        return str(self.project.run(*options).stdout.str())

    def command(self, *arguments: str) -> str:
        """What a command says."""
        self._capsys.readouterr()
        main([*arguments, "--cassettes", PLACE])
        return "".join(self._capsys.readouterr())

    def copied(self, command: str) -> str:
        """Run a command as a person copies it into a shell; what it says."""
        words = command.replace("pytest-cua ", f"{sys.executable} -m pytest_cua.cli ", 1)
        words = re.sub("^pytest ", f"{sys.executable} -m pytest ", words)
        done = subprocess.run(
            ["/bin/sh", "-c", words], cwd=self.project.path, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture
def elsewhere(project: Any, capsys: Any) -> Iterator[Elsewhere]:
    yield Elsewhere(project, capsys)
    set_cassettes(None)  # which the runs in this process have set


def commands(text: str) -> list[str]:
    """The commands that a text gives."""
    return re.findall(
        r"(?:: |, )((?:pytest|pytest-cua) (?!could|cannot|cassette).*?)(?=\.?$|, and commit)", text, re.MULTILINE
    )


def test_every_command_names_the_folder_that_an_option_named(elsewhere: Elsewhere) -> None:
    told = [elsewhere.offline(), elsewhere.command("show", NEW), elsewhere.command("accept", NEW)]
    folder = make(elsewhere.root, OLD, "Open it", picture="red", http="interactions: []\n")
    told += [elsewhere.offline(), elsewhere.offline("-o", "cua_max_age=1d")]
    make(elsewhere.root, NEW, "Open it", passed=False)
    told += [elsewhere.offline()]
    make(elsewhere.root, NEW, "Open it", recorded_at=days_ago(9))
    told += [elsewhere.offline("-o", "cua_max_age=1d"), elsewhere.offline("-o", "cua_max_age=1d fail")]
    (folder / "steps.md").write_text("other")
    told += [elsewhere.command("verify"), elsewhere.command("show", OLD)]
    (folder / "steps.md").unlink()
    told += [elsewhere.command("verify"), elsewhere.command("diff", OLD)]
    found = [command for text in told for command in commands(text)]
    assert {command.split()[1] for command in found if command.startswith("pytest-cua ")} >= {"move", "show", "diff"}
    assert len({command for command in found if command.startswith("pytest ")}) >= 2
    without = [command for command in found if OPTIONS[command.startswith("pytest-cua ")] not in command]
    assert without == []


def test_the_commands_work_as_they_stand(elsewhere: Elsewhere) -> None:
    make(elsewhere.root, OLD, "Open it", picture="red")
    move = next(command for command in commands(elsewhere.offline()) if command.startswith("pytest-cua move"))
    assert elsewhere.copied(move) == f"moved {OLD} to {NEW}\n"
    folder = cassette_folder(elsewhere.root, NEW)
    page = (folder / "steps.md").read_bytes()
    (folder / "steps.md").write_text("other")
    (show,) = [command for command in commands(elsewhere.offline()) if "show --write" in command]
    assert elsewhere.copied(show) == f"wrote {folder / 'steps.md'}\n"
    assert (folder / "steps.md").read_bytes() == page
    (folder / "cassette.jsonl").rename(folder / "away")
    (record,) = [command for command in commands(elsewhere.offline()) if "--cua-record" in command]
    assert f"{folder / 'cassette.jsonl'} does not exist" in elsewhere.copied(record.replace("--cua-record", ""))


def test_the_way_is_that_from_the_folder_in_which_it_was_started(tmp_path: Path) -> None:
    set_root(tmp_path, tmp_path / "deep")
    set_cassettes(tmp_path / "cassettes")
    try:
        assert pytest_command("--cua-record", test="a.py::a") == (
            "pytest --cua-record -o cua_cassette_dir=cassettes ../a.py::a"
        )
        assert cua_command("prune") == f"pytest-cua prune --cassettes {tmp_path / 'cassettes'}"
        set_cassettes(tmp_path / "deep/it's")
        assert cua_command("show", Path("a b")) == """pytest-cua show 'a b' --cassettes 'it'"'"'s'"""
        set_cassettes(None)
        assert (pytest_command(), cua_command("prune")) == ("pytest", "pytest-cua prune")
    finally:
        set_cassettes(None)
        set_root(tmp_path, tmp_path)


# ------------------------------------------------------------------ every message

RAW = re.compile(
    r"pytest (-|tests/|\{)|pytest-cua (?!doctor)(move|show|accept|diff|verify|prune|migrate|import-vcr|export-vcr)\b"
    r"|(git checkout|git log|\brm|\bmv)\b[a-z -]*(\{(?!path_quoted\(|quoted\})|'$)"
)
ALLOWED = {"cassette/vcr_files.py": 1}  # made before any folder is known


def messages(source: str) -> Iterator[str]:
    """Every text in a source that is no docstring, with what is put into it."""
    tree = ast.parse(source)
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(node.value)
        if isinstance(node, ast.JoinedStr):
            inner |= {part for part in ast.walk(node) if part is not node}
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and node not in inner:
            yield ast.unparse(node)


def test_no_message_makes_a_command_by_itself() -> None:
    root = Path(pytest_cua.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        raw = [text for text in messages(path.read_text(encoding="utf-8")) if RAW.search(text)]
        name = path.relative_to(root).as_posix()
        if len(raw) > ALLOWED.get(name, 0):
            found[name] = raw
    assert found == {}
