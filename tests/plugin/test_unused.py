"""What no test uses: told at the end of complete runs, removed by `prune`, and never what was merely not run."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from suite_support import make, tree

from pytest_cua.cassette.store import cassette_folder
from pytest_cua.cli import main

A = """
import pytest

def test_one():
    pass

@pytest.mark.slow
def test_two():
    pass

class TestGroup:
    def test_in(self):
        pass
"""
B = """
import pytest

@pytest.mark.parametrize("row", ["x", "y"])
def test_rows(row):
    pass
"""
C = "def test_other():\n    pass\n"

LIVING = [
    "tests/test_a.py::test_one",
    "tests/test_a.py::test_two",
    "tests/test_a.py::TestGroup::test_in",
    "tests/sub/test_b.py::test_rows[x]",
    "tests/sub/test_b.py::test_rows[y]",
    "other/test_c.py::test_other",
]
GONE = [
    "other/test_c.py::test_lost",  # the function is gone
    "tests/sub/test_b.py::test_rows[z]",  # the row is gone
    "tests/test_a.py::TestGroup::test_out",
    "tests/test_left.py::test_left",  # the file is gone
]
FLOWS = {"flows/pages.py::log_in": True, "flows/pages.py::log_out": False}  # whether a test uses it
FILES = {"tests/test_a.py": A, "tests/sub/test_b.py": B, "other/test_c.py": C}
PICTURES = ["unused: 1 picture that no cassette shows"]


@pytest.fixture(scope="module")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("suite") / "cassettes"
    for number, test in enumerate(LIVING + GONE):
        make(root, test, f"Step of {test}", picture=f"#0000{number:02x}")
    make(root, LIVING[0], "With a flow", picture="#000000", flows=["flows/pages.py::log_in"])
    for flow in FLOWS:
        make(root, flow, f"Step of {flow}", kind="flow")
    (root / "screens/ab").mkdir(exist_ok=True)
    (root / "screens/ab/abababababababab.webp").write_bytes(b"nobody shows it")
    return root


class Suite:
    """A project whose tests need no desktop; they are known by their ids."""

    def __init__(self, pytester: pytest.Pytester, capsys: Any) -> None:
        self.pytester = pytester
        self.capsys = capsys
        self.path = pytester.path
        self.root = self.path / "cassettes"
        self.last: Any = None

    def write(self, file: str, text: str) -> None:
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("-p", "no:rerunfailures", *arguments)  # as `Project.run`

    def unused(self, *arguments: str) -> list[str]:
        """What a run says is unused: ids of tests and flows, and the line about pictures without its size."""
        self.last = self.run(*arguments)
        return self.named(self.last.stdout.str())

    @staticmethod
    def named(text: str) -> list[str]:
        told = re.findall(r"^unused: (?:\S+ \((.*), \d+ kB\)|.*(?=\())", text, re.MULTILINE)
        lines = re.findall(r"^(unused: \d+ pictures? that no cassette shows)", text, re.MULTILINE)
        return [name for name in told if name] + lines

    def command(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = main(arguments)
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture
def suite(pytester: pytest.Pytester, cassettes: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Suite:
    monkeypatch.delenv("CI", raising=False)
    made = Suite(pytester, capsys)
    pytester.makepyprojecttoml('[tool.pytest]\naddopts = ["--import-mode=importlib"]\nmarkers = ["slow: takes long"]\n')
    for file, text in FILES.items():
        made.write(file, text)
    shutil.copytree(cassettes, made.root)
    return made


# ------------------------------------------------------------------ what a complete run says


def test_a_complete_run_names_what_no_test_uses_and_passes(suite: Suite) -> None:
    assert suite.unused() == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert suite.last.ret == 0
    suite.last.stdout.fnmatch_lines(
        [
            "*- pytest-cua -*",
            "unused: cassettes/other/test_c/test_lost (other/test_c.py::test_lost, * kB)",
            "unused: cassettes/tests/sub/test_b/test_rows-z-?????? (tests/sub/test_b.py::test_rows?z?, * kB)",
            "unused: 1 picture that no cassette shows (0 kB)",
            "remove what is unused: pytest-cua prune",
        ]
    )


def test_nothing_unused_says_nothing(suite: Suite) -> None:
    assert suite.command("prune")[0] == 0
    assert suite.unused("--cua-unused=fail") == []
    assert suite.last.ret == 0
    assert "prune" not in suite.last.stdout.str()


def test_fail_makes_the_run_fail_and_off_says_nothing(suite: Suite) -> None:
    assert suite.unused("--cua-unused=fail") == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert suite.last.ret == 1
    suite.last.stdout.fnmatch_lines(["--cua-unused=fail: this run counts as failed"])
    assert suite.unused("--cua-unused=off") == []
    assert suite.last.ret == 0
    assert suite.unused("-o", "cua_unused=fail", "-k", "one") == []  # no complete run
    assert suite.last.ret == 0
    suite.unused("-o", "cua_unused=fail")
    assert suite.last.ret == 1


def test_a_value_that_is_none_is_refused(suite: Suite) -> None:
    suite.unused("--cua-unused=fial")
    assert suite.last.ret == 4
    suite.last.stderr.fnmatch_lines(["*--cua-unused: 'fial' is no value for it: *did you mean fail?"])


def test_a_run_that_fails_for_itself_still_tells(suite: Suite) -> None:
    suite.write("other/test_c.py", "def test_other():\n    assert 0\n")
    assert suite.unused() == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert suite.last.ret == 1


# ------------------------------------------------------------------ what is no complete run

FAILING = {"tests/test_a.py": A.replace("test_one():\n    pass", "test_one():\n    assert 0")}
BROKEN = {"other/test_c.py": "import a_module_that_is_not_there\n"}


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["-k", "one"], {}),
        (["-m", "slow"], {}),
        (["-m", "not slow"], {}),
        (["--deselect", LIVING[0]], {}),
        ([LIVING[0]], {}),
        (["tests/test_a.py::TestGroup"], {}),
        (["-x"], FAILING),
        (["--maxfail=1"], FAILING),
        (["--collect-only"], {}),
        ([], BROKEN),
        (["-n2", "-k", "one"], {}),
        (["-n2", "-x"], FAILING),
        (["-n2"], BROKEN),
        (["--continue-on-collection-errors"], BROKEN),
    ],
    ids=lambda given: "-".join(given) or "whole",
)
def test_a_run_that_is_not_complete_says_nothing(suite: Suite, arguments: list[str], files: dict[str, str]) -> None:
    (suite.root / "screens/ab/abababababababab.webp").unlink()
    for file, text in files.items():
        suite.write(file, text)
    assert suite.unused("--cua-unused=fail", *arguments) == []
    assert suite.last.ret == (1 if files == FAILING else 2 if files == BROKEN else 0) or arguments[:1] in (
        ["-n2"],
        ["--continue-on-collection-errors"],
    )


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_what_last_failed_says_nothing(suite: Suite, workers: tuple[str, ...]) -> None:
    """It leaves out the other tests of a file without telling anybody."""
    suite.write("other/test_c.py", f"{C}\ndef test_lost():\n    assert 0\n")
    assert suite.unused() != []
    assert suite.unused("--lf", *workers) == []
    suite.last.assert_outcomes(failed=1)
    assert suite.unused("--ff", *workers) != []


def test_stepwise_says_nothing(suite: Suite) -> None:
    suite.write("tests/test_a.py", FAILING["tests/test_a.py"])
    assert suite.unused("--sw") == []
    assert suite.unused("--sw") == []


def test_a_worker_that_dies_says_nothing(suite: Suite) -> None:
    suite.write("other/test_c.py", "import os\ndef test_other():\n    os._exit(3)\n")
    assert suite.unused("-n2", "--cua-unused=fail") == []
    assert "crashed" in suite.last.stdout.str()


def test_an_interrupted_run_says_nothing(suite: Suite) -> None:
    suite.write("other/test_c.py", "def test_other():\n    raise KeyboardInterrupt\n")
    result = suite.pytester.runpytest_subprocess()
    assert result.ret == 2
    assert suite.named(result.stdout.str()) == []


# ------------------------------------------------------------------ what was left out of a complete run


def test_a_module_that_is_skipped_whole_is_not_gone(suite: Suite) -> None:
    suite.write("other/test_c.py", "import pytest\npytest.importorskip('a_module_that_is_not_there')\n" + C)
    assert suite.unused() == [*GONE[1:], "flows/pages.py::log_out", *PICTURES]
    suite.write("other/test_c.py", "import pytest\npytest.skip('no', allow_module_level=True)\n" + C)
    assert suite.unused() == [*GONE[1:], "flows/pages.py::log_out", *PICTURES]
    assert suite.unused("-n2") == [*GONE[1:], "flows/pages.py::log_out", *PICTURES]


@pytest.mark.parametrize("arguments", [["--ignore=other"], ["--ignore=other/test_c.py"], ["--ignore-glob=*test_c*"]])
def test_a_file_that_is_ignored_is_not_gone(suite: Suite, arguments: list[str]) -> None:
    assert suite.unused(*arguments) == [*GONE[1:], "flows/pages.py::log_out", *PICTURES]


def test_a_file_that_the_project_leaves_out_is_not_gone(suite: Suite) -> None:
    suite.write("conftest.py", "collect_ignore = ['other/test_c.py']\n")
    assert suite.unused() == [*GONE[1:], "flows/pages.py::log_out", *PICTURES]
    assert suite.command("prune")[0] == 0
    assert (suite.root / "other/test_c/test_lost").exists()


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_class_that_is_skipped_while_it_is_collected_is_not_gone(suite: Suite, workers: tuple[str, ...]) -> None:
    suite.write("tests/test_a.py", A.replace("(self)", "(self, skipping)"))
    suite.write(
        "conftest.py",
        "import pytest\ndef pytest_generate_tests(metafunc):\n"
        "    if 'skipping' in metafunc.fixturenames:\n        pytest.skip('not here')\n",
    )
    told = suite.unused(*workers)
    assert told == [GONE[0], GONE[1], GONE[3], "flows/pages.py::log_out", *PICTURES]


def test_tests_that_a_plugin_takes_out_quietly_are_not_gone(suite: Suite) -> None:
    suite.write("conftest.py", "def pytest_collection_modifyitems(items):\n    del items[1:]\n")
    assert suite.unused() == [*GONE, "flows/pages.py::log_out", *PICTURES]


def test_a_skipped_test_is_not_gone(suite: Suite) -> None:
    suite.write("other/test_c.py", "import pytest\n@pytest.mark.skip\n" + C)
    assert suite.unused() == [*GONE, "flows/pages.py::log_out", *PICTURES]


def test_a_file_in_which_no_test_is_left_is_looked_into(suite: Suite) -> None:
    suite.write("other/test_c.py", "VALUE = 1\n")
    assert suite.unused() == [GONE[0], LIVING[5], *GONE[1:], "flows/pages.py::log_out", *PICTURES]
    assert suite.unused("-n2") == [GONE[0], LIVING[5], *GONE[1:], "flows/pages.py::log_out", *PICTURES]


# ------------------------------------------------------------------ a folder, a file


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tests"], GONE[1:]),
        (["other"], GONE[:1]),
        (["tests/test_a.py"], [GONE[2]]),
        (["tests/sub"], [GONE[1]]),
        (["tests/sub/test_b.py", "other"], GONE[:2]),
        (["tests", "other"], [*GONE, "flows/pages.py::log_out"]),
        (["tests/test_a.py::test_one", "other/test_c.py"], GONE[:1]),
        ([".", "tests/test_a.py::test_one"], [*GONE, "flows/pages.py::log_out"]),
    ],
    ids=str,
)
def test_a_run_of_a_part_speaks_of_that_part(suite: Suite, arguments: list[str], told: list[str]) -> None:
    assert suite.unused(*arguments) == [*told, *PICTURES]


def test_a_run_in_a_folder_speaks_of_that_folder(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.path / "tests")
    code, text = suite.pytester.run(sys.executable, "-m", "pytest", "-q").ret, ""
    assert code == 0
    result = suite.pytester.runpytest_subprocess()
    text = result.stdout.str()
    assert suite.named(text) == [*GONE[1:], *PICTURES]


def test_testpaths_are_the_whole_of_a_suite_only_when_they_are(suite: Suite) -> None:
    assert suite.unused("-o", "testpaths=tests other") == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert suite.unused("-o", "testpaths=tests") == [*GONE[1:], *PICTURES]


# ------------------------------------------------------------------ pytest-xdist


def test_with_workers_it_is_told_once(suite: Suite) -> None:
    assert suite.unused("-n2", "--cua-unused=fail") == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert suite.last.ret == 1
    assert suite.last.stdout.str().count("remove what is unused: pytest-cua prune") == 1


# ------------------------------------------------------------------ prune


def test_prune_says_what_it_would_remove_and_then_removes_that_alone(suite: Suite) -> None:
    before = tree(suite.path)
    code, out, err = suite.command("prune", "--dry-run")
    assert (code, err) == (0, "")
    assert suite.named(out) == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert out.endswith("nothing was removed (--dry-run)\n")
    assert tree(suite.path) == before
    code, out, err = suite.command("prune")
    assert (code, err) == (0, "")
    assert suite.named(out) == [*GONE, "flows/pages.py::log_out", *PICTURES]
    assert out.endswith("removed 5 recordings and the pictures that no other shows\n")
    after = tree(suite.path)
    assert after.items() <= before.items()
    left = [name for name in after if name.endswith("cassette.jsonl")]
    assert len(left) == len(LIVING) + 1
    assert not [name for name in after if "gone" in name or "lost" in name or "left" in name or "log_out" in name]
    assert len([name for name in after if name.endswith(".webp")]) == len(
        LIVING
    )  # those of the tests that are gone too
    code, out, _ = suite.command("verify")
    assert (code, out) == (0, "7 recordings, no problems\n")
    assert suite.command("prune") == (0, "nothing is unused\n", "")
    for folder in suite.root.rglob("*"):
        assert not folder.is_dir() or any(folder.iterdir()), f"{folder} is empty"


def test_prune_knows_the_project_from_a_folder_in_it(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.path / "tests/sub")
    code, out, _ = suite.command("prune", "--dry-run")
    assert code == 0
    assert suite.named(out) == [*GONE, "flows/pages.py::log_out", *PICTURES]


def test_prune_refuses_when_a_test_cannot_be_collected(suite: Suite) -> None:
    suite.write("other/test_c.py", BROKEN["other/test_c.py"])
    before = tree(suite.path)
    code, out, err = suite.command("prune")
    assert (code, out) == (1, "")
    assert "pytest could not collect all tests in " in err
    assert "a_module_that_is_not_there" in err
    assert "hint: mend the collection first: pytest --collect-only" in err
    assert tree(suite.path) == before


@pytest.mark.parametrize("more", ['"-m", "not slow"', '"-k", "one"', '"--lf"', '"-n2"', '"--ignore=other"', '"-q"'])
def test_prune_removes_nothing_of_tests_that_the_settings_leave_out(suite: Suite, more: str) -> None:
    suite.write("tests/test_a.py", FAILING["tests/test_a.py"])
    suite.unused()  # so that there is something that failed last
    text = (suite.path / "pyproject.toml").read_text()
    suite.write("pyproject.toml", text.replace('["--import', f'[{more}, "--import'))
    code, _, err = suite.command("prune")
    assert (code, err) == (0, "")
    for test in LIVING:
        assert (cassette_folder(suite.root, test) / "cassette.jsonl").exists(), test
    assert (suite.root / "other/test_c/test_lost").exists() is (more in ('"--lf"', '"--ignore=other"'))


def test_prune_leaves_what_was_kept_aside_of_a_living_test(suite: Suite) -> None:
    kept = make(suite.root, LIVING[0], "Once more", picture="#123456", passed=False) / ".failed"
    (suite.root / "tests/test_a/test_two").rename(suite.path / "away")
    alone = make(suite.root, LIVING[1], "First try", passed=False, flows=["flows/pages.py::log_out"]) / ".failed"
    before = tree(kept), tree(alone)
    code, out, _ = suite.command("prune")
    assert code == 0
    assert suite.named(out) == [*GONE, "unused: 2 pictures that no cassette shows"]  # log_out is used by the kept one
    assert (tree(kept), tree(alone)) == before


def test_prune_leaves_the_tests_below_the_folder_of_one_that_is_gone(suite: Suite) -> None:
    suite.write("tests/test_left/test_left/test_below.py", C)
    below = make(suite.root, "tests/test_left/test_left/test_below.py::test_other", picture="pink")
    assert suite.command("prune")[0] == 0
    assert not (suite.root / "tests/test_left/test_left/cassette.jsonl").exists()
    assert (below / "cassette.jsonl").exists()
    assert suite.command("verify")[0] == 0


@pytest.mark.parametrize("name", ["files", "baselines", "screens", "ab"])
def test_folders_of_tests_may_be_called_as_ours_are(suite: Suite, name: str) -> None:
    suite.write(f"tests/{name}/test_up.py", C)
    suite.write(f"tests/{name}.py", C)
    made = make(suite.root, f"tests/{name}/test_up.py::test_other", picture="pink")
    gone = make(suite.root, f"tests/{name}/test_down.py::test_lost", picture="lime")
    assert f"tests/{name}/test_down.py::test_lost" in suite.unused()
    assert suite.command("prune")[0] == 0
    assert (made / "cassette.jsonl").exists()
    assert not gone.exists()
    assert suite.command("verify") == (0, "8 recordings, no problems\n", "")


@pytest.mark.parametrize("damage", ["cut", "pointer"])
def test_what_a_damaged_cassette_shows_and_uses_is_not_unused(suite: Suite, damage: str) -> None:
    file = suite.root / "other/test_c/test_other/cassette.jsonl"
    make(suite.root, LIVING[5], picture="pink", flows=["flows/pages.py::log_out"])
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] if damage == "cut" else b"version https://git-lfs.github.com/spec/v1\n")
    pictures = set(suite.root.rglob("*.webp"))
    assert suite.unused() == GONE
    suite.last.stdout.fnmatch_lines(["1 cassette cannot be read, so pictures and flows are not judged: *verify"])
    code, out, _ = suite.command("prune")
    assert code == 0
    assert suite.named(out) == GONE
    assert set(suite.root.rglob("*.webp")) == pictures
    assert (suite.root / "flows/pages/log_out").exists()


def test_baselines_of_a_test_without_a_cassette_go_with_it(suite: Suite) -> None:
    for name in ("test_one", "test_desktop_only"):
        folder = suite.root / "tests/test_a" / name / "baselines"
        folder.mkdir(parents=True)
        (folder / "whole.png").write_bytes(b"picture")
    lone = [cassette_folder(suite.root, test) for test in (LIVING[2], LIVING[3], LIVING[5])]
    for folder in lone:
        shutil.rmtree(folder)
        (folder / "baselines").mkdir(parents=True)
        (folder / "baselines/whole.png").write_bytes(b"picture")
    for file, text in FILES.items():  # what was not run says nothing of its baselines
        suite.write(file, f"{text}\nimport pytest\npytestmark = pytest.mark.skip\n")
    assert "tests/test_a.py::test_desktop_only" in suite.unused()
    assert "tests/test_a.py::test_desktop_only" not in suite.unused("other")
    assert suite.command("prune")[0] == 0
    assert not (suite.root / "tests/test_a/test_desktop_only").exists()
    assert (suite.root / "tests/test_a/test_one/baselines/whole.png").exists()
    assert all((folder / "baselines/whole.png").exists() for folder in lone)


def test_prune_without_a_folder_says_so(suite: Suite) -> None:
    shutil.rmtree(suite.root)
    assert suite.unused() == []
    code, _, err = suite.command("prune")
    assert code == 1
    assert err == f"There is no folder {suite.root}.\nhint: name the folder of all cassettes: --cassettes FOLDER\n"
    shutil.copytree(suite.path / "tests", suite.path / "elsewhere")
    assert suite.command("prune", "--cassettes", "elsewhere") == (0, "nothing is unused\n", "")


def test_prune_takes_the_folder_that_the_settings_name(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.root.rename(suite.path / "recordings")
    monkeypatch.setenv("PYTEST_CUA_CASSETTE_DIR", "recordings")
    code, out, _ = suite.command("prune", "--dry-run")
    assert code == 0
    assert "unused: recordings/other/test_c/test_lost" in out


# ------------------------------------------------------------------ a test that was renamed


def test_a_renamed_test_is_told_with_the_command_that_moves_it(suite: Suite) -> None:
    suite.write("other/test_c.py", f'{C}\ndef test_found(cua):\n    cua.do("Step of {GONE[0]}")\n    assert cua.run\n')
    suite.unused("-p", "no:randomly")
    old, new = "other/test_c.py::test_lost", "other/test_c.py::test_found"
    text = suite.last.stdout.str()
    assert f"  its steps are those of {new}: pytest-cua move {old} {new}\n" in text
    suite.last.assert_outcomes(passed=6, errors=1)
    command = f"hint: its steps are those of {old}: pytest-cua move {old} {new}"
    assert command in text  # of the test's own error too
    assert suite.command("move", old, new) == (0, f"moved {old} to {new}\n", "")
    assert GONE[0] not in suite.unused("--collect-only")
    assert suite.command("verify")[0] == 0


def test_all_rows_are_moved_by_one_command_as_is_a_file(suite: Suite) -> None:
    rows = B.replace("test_rows", "test_lines").replace("pass", '"Step"')
    for row in "xyz":
        make(suite.root, f"tests/sub/test_b.py::test_rows[{row}]", "Step")
    suite.write("tests/sub/test_b.py", rows)
    suite.write(
        "other/test_d.py",
        f'def test_other():\n    "Step of {LIVING[5]}"\n\ndef test_lost():\n    "Step of {GONE[0]}"\n',
    )
    (suite.path / "other/test_c.py").unlink()
    suite.unused()
    moves = re.findall("pytest-cua move .*", suite.last.stdout.str())
    assert moves == [
        "pytest-cua move other/test_c.py other/test_d.py",
        "pytest-cua move tests/sub/test_b.py::test_rows tests/sub/test_b.py::test_lines",
    ]


def test_a_row_that_was_renamed_is_moved_alone(suite: Suite) -> None:
    make(suite.root, GONE[1], "Step")
    suite.write("tests/sub/test_b.py", B.replace('"y"]', '"y", "it\'s"]').replace("pass", '"Step"'))
    suite.unused()
    moves = re.findall("pytest-cua move .*", suite.last.stdout.str())
    assert moves == ["pytest-cua move 'tests/sub/test_b.py::test_rows[z]' 'tests/sub/test_b.py::test_rows[it'\\''s]'"]


def test_a_flow_is_not_taken_for_a_renamed_test(suite: Suite) -> None:
    suite.write("other/test_c.py", f'{C}\ndef test_new():\n    "Step of flows/pages.py::log_out"\n')
    assert "flows/pages.py::log_out" in suite.unused()
    assert "pytest-cua move" not in suite.last.stdout.str()


def test_a_hint_works_in_the_folder_in_which_pytest_was_started(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write("other/test_c.py", f'{C}\ndef test_found():\n    "Step of {GONE[0]}"\n')
    monkeypatch.chdir(suite.path / "other")
    text = suite.pytester.runpytest_subprocess().stdout.str()
    command = re.findall("pytest-cua move (.*)", text)
    assert command == ["test_c.py::test_lost test_c.py::test_found"]
    assert suite.command("move", *command[0].split()) == (
        0,
        "moved other/test_c.py::test_lost to other/test_c.py::test_found\n",
        "",
    )


# ------------------------------------------------------------------ baselines that a test does not compare any more

COMPARES = """
import pytest
from PIL import Image
from pytest_cua import expect
from pytest_cua.assertions.baselines import ScreenshotCheck
from pytest_cua.fixtures import TEST

@pytest.fixture
def compare(_cua_test):
    def look(name):  # as `to_have_screenshot` does, without a desktop
        options = {"areas": (), "exclude": (), "tolerance": "perceptual", "max_distance": None}
        check = ScreenshotCheck(_cua_test.context, "1", name, **options)
        image = Image.new("RGB", (64, 64))
        check.settle((image, check.compare(image)))
    return look

@pytest.mark.parametrize("row", ["x", "y"])
def test_rows(compare, row):
    compare("whole")
    if row == "x":
        compare("part")

def test_bare(compare):
    compare("whole")

@pytest.mark.skipif(MODE == "skip", reason="not today")
def test_other(compare):
    compare("whole")
    assert MODE != "fail"
"""


class Seeing:
    """A project whose tests compare baselines."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        shutil.rmtree(suite.root)
        for folder in ("tests", "other"):
            shutil.rmtree(suite.path / folder)
        self.write()
        suite.run("--cua-update=missing").assert_outcomes(passed=4)

    def write(self, text: str = COMPARES, mode: str = "") -> None:
        self.suite.write("test_see.py", f"MODE = {mode!r}\n{text}")

    def unused(self, *arguments: str) -> list[str]:
        """What a run says is unused: the baselines, each as folder and name."""
        self.suite.last = self.suite.run(*arguments)
        return self.named(self.suite.last.stdout.str())

    @staticmethod
    def named(text: str) -> list[str]:
        return re.findall(r"^unused: cassettes/(\S+)\.png \(", text, re.MULTILINE)

    def baselines(self) -> list[str]:
        root = self.suite.root
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("baselines/*"))


@pytest.fixture
def seeing(suite: Suite) -> Seeing:
    return Seeing(suite)


def pair(test: str, name: str) -> set[str]:
    return {f"{folder_of(test)}/baselines/{name}.{ending}" for ending in ("png", "json")}


def folder_of(test: str) -> str:
    return cassette_folder(Path(), f"test_see.py::{test}").as_posix()


def test_a_baseline_that_a_passing_test_does_not_compare_is_unused(seeing: Seeing) -> None:
    assert seeing.unused() == []
    assert not (seeing.suite.root / ".unseen").exists()
    before = seeing.baselines()
    seeing.write(
        COMPARES.replace('row == "x"', "False").replace('bare(compare):\n    compare("whole")', "bare():\n    pass")
    )
    gone = [f"{folder_of('test_bare')}/baselines/whole", f"{folder_of('test_rows[x]')}/baselines/part"]
    assert seeing.unused() == gone
    text = seeing.suite.last.stdout.str()
    assert "part.png (test_see.py::test_rows[x] passes without it, " in text
    assert "remove what is unused: pytest-cua prune\n" in text
    assert seeing.unused("-n2") == gone
    code, out, err = seeing.suite.command("prune", "--dry-run")
    assert (code, seeing.named(out), err) == (0, gone, "")
    assert seeing.baselines() == before
    code, out, _ = seeing.suite.command("prune")
    assert code == 0
    assert out.endswith("removed 0 recordings, 2 baselines and the pictures that no other shows\n")
    assert set(before) - set(seeing.baselines()) == pair("test_bare", "whole") | pair("test_rows[x]", "part")
    assert not (seeing.suite.root / folder_of("test_bare")).exists()
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"
    assert seeing.unused() == []
    assert not (seeing.suite.root / ".unseen").exists()


@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_a_test_that_did_not_pass_says_nothing_of_its_baselines(seeing: Seeing, mode: str) -> None:
    seeing.write(COMPARES.replace('other(compare):\n    compare("whole")', "other():\n    pass"), mode)
    assert seeing.unused() == []
    assert seeing.suite.last.parseoutcomes()["failed" if mode == "fail" else "skipped"] == 1
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"


def test_a_run_of_some_tests_says_nothing_of_baselines(seeing: Seeing) -> None:
    seeing.write(COMPARES.replace('    compare("whole")', "    pass"))
    for arguments in (("-k", "bare"), ("test_see.py::test_bare",)):
        assert seeing.unused(*arguments) == []
    assert seeing.unused("--cua-unused=off") == []
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"
    assert len(seeing.unused()) == 4


def test_prune_leaves_a_baseline_whose_test_was_edited_since_or_that_is_another_picture(seeing: Seeing) -> None:
    seeing.write(COMPARES.replace('row == "x"', "False"))
    assert len(seeing.unused()) == 1
    before = seeing.baselines()
    seeing.write()
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"
    seeing.write(COMPARES.replace('row == "x"', "False"))
    picture = seeing.suite.root / folder_of("test_rows[x]") / "baselines/part.png"
    picture.write_bytes(picture.read_bytes() + b"0")
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"
    assert seeing.baselines() == before


def test_what_was_noted_stays_until_its_test_runs_again(seeing: Seeing) -> None:
    seeing.write(COMPARES.replace('row == "x"', "False"))
    (gone,) = seeing.unused()
    seeing.suite.write("other/test_c.py", C)
    assert seeing.unused("other") == []
    assert seeing.named(seeing.suite.command("prune", "--dry-run")[1]) == [gone]
    shutil.copytree(seeing.suite.root, seeing.suite.path / "kept")
    (seeing.suite.root / ".unseen/baselines.json").write_text("[")
    assert seeing.suite.command("prune")[1] == "nothing is unused\n"
