"""`pytest-cua` on recordings: move, show, diff, verify, migrate; and what git does with them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from suite_support import make, tree

from pytest_cua.cassette import suite
from pytest_cua.cassette.format import load, read_lines
from pytest_cua.cassette.store import GIT_ATTRIBUTES, cassette_folder
from pytest_cua.cli import main

PAGES = """
import pytest_cua

@pytest_cua.flow
def log_in(cua):
    \"\"\"Log in to the shop.\"\"\"
    cua.do("Look at the login")
"""
ROWS = """
import pages
import pytest
from pytest_cua import expect

@pytest.mark.parametrize("word", ["one two", "it's $HOME"])
def test_rows(cua, word):
    pages.log_in(cua)
    cua.do("Look for {word}", params={"word": word})
    cua.desktop.file("a.bin").write(bytes(range(256)))
    assert len(cua.desktop.file("a.bin").read_bytes()) == 256
    expect(cua.desktop).to_have_screenshot("whole")
"""
ONE, TWO = "test_rows.py::test_rows[one two]", "test_rows.py::test_rows[it's $HOME]"

kept: dict[str, Path] = {}  # what this module has recorded


class Shop:
    """The project, with recordings of two rows of a test and of the flow that both use."""

    def __init__(self, project: Any, capsys: Any) -> None:
        self.project = project
        self.path: Path = project.path
        self.root = self.path / "cassettes"
        self._capsys = capsys

    def folder(self, test: str) -> Path:
        return cassette_folder(self.root, test)

    def command(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(arguments)
        out, err = self._capsys.readouterr()
        return code, out, err

    def done(self, *arguments: str) -> str:
        """What a command says that does its work."""
        code, out, err = self.command(*arguments)
        assert (code, err) == (0, "")
        return out

    def refused(self, *arguments: str) -> str:
        """What a command says that changes nothing and exits with 1."""
        before = tree(self.path)
        code, out, err = self.command(*arguments)
        assert (code, out) == (1, "")
        assert tree(self.path) == before
        return err

    def offline(self) -> Any:
        return self.project.run("--cua-mode=offline")

    def replays(self, tests: int = 2) -> None:
        self.offline().assert_outcomes(passed=tests)
        assert self.done("verify").endswith(f"{tests + 1} recordings, no problems\n")


@pytest.fixture
def shop(project: Any, capsys: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    (project.path / "test_note.py").unlink()
    project.write(test_rows=ROWS, pages=PAGES)
    (project.path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    made = Shop(project, capsys)
    if not kept:
        result = project.record()
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["recorded *test_rows-one-two-?????? (* kB of text, * kB of new pictures)"])
        for test in (ONE, TWO):
            assert "accepted" in made.done("accept", test)
        kept["shop"] = tmp_path_factory.mktemp("shop") / "cassettes"
        shutil.copytree(made.root, kept["shop"])
    else:
        shutil.copytree(kept["shop"], made.root)
    return made


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for cassettes in an empty project."""
    (tmp_path / "pytest.ini").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cassettes"


def set_aside(folder: Path, *, name: str = ".failed") -> Path:
    """A recording that was kept aside: a copy of the one beside it."""
    (folder / name).mkdir()
    shutil.copy2(folder / "cassette.jsonl", folder / name / "cassette.jsonl")
    return folder / name


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


# ------------------------------------------------------------------ move


def test_a_renamed_test_replays_after_the_command_that_its_error_names(shop: Shop) -> None:
    recorded_at = load(shop.folder(ONE)).header["recorded_at"]
    baseline = shop.folder(TWO) / "baselines"
    baselines = tree(baseline)
    assert len(baselines) == 2
    set_aside(shop.folder(TWO))
    set_aside(shop.folder(TWO), name=".recording")
    edit(shop.path / "test_rows.py", "test_rows(", "test_lines(")
    result = shop.offline()
    result.assert_outcomes(errors=2)
    hints = re.findall("hint: its steps are those of .*: (pytest-cua move .*)", result.stdout.str())
    assert hints == [
        "pytest-cua move 'test_rows.py::test_rows[one two]' 'test_rows.py::test_lines[one two]'",
        "pytest-cua move 'test_rows.py::test_rows[it'\\''s $HOME]' 'test_rows.py::test_lines[it'\\''s $HOME]'",
    ]
    assert "unused: cassettes/test_rows/test_rows-one-two-" in result.stdout.str()
    assert "pytest-cua move test_rows.py::test_rows test_rows.py::test_lines\n" in result.stdout.str()
    for hint in hints:  # as a person copies it into a shell
        command = hint.replace("pytest-cua", f"{sys.executable} -m pytest_cua.cli")
        subprocess.run(["/bin/sh", "-c", command], cwd=shop.path, check=True)
    one, two = (test.replace("test_rows[", "test_lines[") for test in (ONE, TWO))
    assert [shop.folder(test).exists() for test in (ONE, TWO, one, two)] == [False, False, True, True]
    assert load(shop.folder(one)).header["recorded_at"] == recorded_at
    assert (shop.folder(one) / "steps.md").read_text().startswith(f"# {one}\n")
    assert tree(shop.folder(two) / "baselines") == baselines
    for name in (".failed", ".recording"):
        assert load(shop.folder(two) / name).header["test"] == two
    assert "unused" not in shop.offline().stdout.str()
    shutil.rmtree(shop.folder(two) / ".recording")
    shop.replays()
    assert "adopted" in shop.done("accept", two)
    shop.replays()
    shop.project.run("-k", "one").assert_outcomes(passed=1, deselected=1)


def test_all_rows_move_at_once_into_a_class_of_another_file(shop: Shop) -> None:
    text = ROWS.replace("@pytest", "class TestLines:\n    @pytest")
    head, body = text.split("def test_rows(cua, word)")
    shop.project.write(test_more=f"{head}    def test_it(self, cua, word){body.replace(chr(10), chr(10) + '    ')}")
    (shop.path / "test_rows.py").unlink()
    out = shop.done("move", "test_rows.py::test_rows", "test_more.py::TestLines::test_it")
    assert out.splitlines() == [
        "moved test_rows.py::test_rows[it's $HOME] to test_more.py::TestLines::test_it[it's $HOME]",
        "moved test_rows.py::test_rows[one two] to test_more.py::TestLines::test_it[one two]",
    ]
    assert not (shop.root / "test_rows").exists()
    shop.replays()


def test_a_file_moves_with_all_its_tests_from_a_folder_in_the_project(shop: Shop, monkeypatch: Any) -> None:
    (shop.path / "deep/er").mkdir(parents=True)
    (shop.path / "test_rows.py").rename(shop.path / "deep/er/test_it.py")
    monkeypatch.chdir(shop.path / "deep")
    shop.done("move", "../test_rows.py", "er/test_it.py")
    monkeypatch.chdir(shop.path)
    (shop.path / "pages.py").rename(shop.path / "sites.py")
    edit(shop.path / "deep/er/test_it.py", "pages", "sites")
    assert shop.done("move", "pages.py", "sites.py") == "moved flows/pages.py::log_in to flows/sites.py::log_in\n"
    assert not (shop.root / "test_rows").exists()
    assert len(list((shop.root / "deep/er/test_it").iterdir())) == 2
    shop.replays()


def test_a_flow_moves_and_its_users_follow(shop: Shop) -> None:
    aside = set_aside(shop.folder(ONE))
    edit(shop.path / "pages.py", "def log_in", "def sign_in")
    edit(shop.path / "test_rows.py", "log_in", "sign_in")
    assert "The flow sign_in, used by" in shop.offline().stdout.str()
    out = shop.done("move", "flows/pages.py::log_in", "flows/pages.py::sign_in")
    assert out == "moved flows/pages.py::log_in to flows/pages.py::sign_in\n"
    assert [line["flow"] for line in load(aside).flows] == ["flows/pages.py::sign_in"]
    shop.replays()
    shop.done("accept", ONE)
    shop.replays()


def test_a_folder_that_was_renamed_by_hand_is_mended_by_the_command_of_the_error(shop: Shop) -> None:
    new = "test_rows.py::test_lines[one two]"
    edit(shop.path / "test_rows.py", "test_rows(", "test_lines(")
    shop.folder(ONE).rename(shop.folder(new))
    text = shop.offline().stdout.str()
    assert f"was recorded for {ONE}, not for {new}." in text
    assert f"if the test was renamed: pytest-cua move '{ONE}' '{new}'" in text
    assert f"move '{TWO}' '" not in shop.done("move", ONE, new)
    shop.done("move", TWO, TWO.replace("test_rows[", "test_lines["))
    shop.replays()


def test_a_move_that_cannot_be_meant_so_changes_nothing(shop: Shop) -> None:
    other = "test_rows.py::test_other[one two]"
    said = shop.refused("move", ONE, TWO)
    assert said.startswith(f"There is a recording of {TWO} already: {shop.folder(TWO)}.\nhint: remove it first")
    said = shop.refused("move", ONE, ONE)
    assert said == f'"{ONE}" is the old name and the new one: there is nothing to move.\n'.replace('"', "'")
    assert "are not of the same kind: give two test ids, or two files" in shop.refused("move", "test_rows.py", other)
    (shop.folder(other) / "baselines").mkdir(parents=True)
    assert f"{shop.folder(other) / 'baselines'} exists already, and" in shop.refused("move", ONE, other)
    shutil.rmtree(shop.folder(other))
    aside = set_aside(shop.folder(ONE), name=".recording")
    with (aside / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert shop.refused("move", ONE, other).startswith(f"A run is recording in {shop.folder(ONE)} just now.")
    cassette = shop.folder(TWO) / "cassette.jsonl"
    cassette.write_bytes(cassette.read_bytes()[:-9])
    assert shop.refused("move", ONE, other).startswith(f"{cassette} cannot be replayed: ")


def test_an_old_id_that_is_not_recorded_names_those_that_are_close(shop: Shop) -> None:
    said = shop.refused("move", "test_rows.py::test_row", "test_rows.py::test_new")
    assert said.splitlines() == [
        f"Nothing is recorded for test_rows.py::test_row in {shop.root}.",
        "hint: did you mean test_rows.py::test_rows or 'test_rows.py::test_rows[one two]' or "
        "'test_rows.py::test_rows[it'\\''s $HOME]'?",
    ]
    assert "hint: did you mean test_rows.py?" in shop.refused("move", "test_row.py", "test_new.py")
    said = shop.refused("move", "zzz.py::q", "y.py::q")
    assert "hint: recorded are flows/pages.py::log_in, test_rows.py::test_rows[it's $HOME]" in said
    shutil.rmtree(shop.root)
    assert "hint: nothing is recorded there at all" in shop.refused("move", "zzz.py::q", "y.py::q")


def test_a_move_leaves_the_tests_below_the_folder(root: Path) -> None:
    old = make(root, "a.py::b", "One", files=[bytes(range(256)) * 20], http="interactions: []\n")
    below = make(root, "a/b/c.py::d", "Two")
    new = cassette_folder(root, "a/b/c.py::e")
    assert main(["move", "a.py::b", "a/b/c.py::e"]) == 0
    assert sorted(path.name for path in old.iterdir()) == ["c"]
    assert sorted(path.name for path in new.iterdir()) == ["cassette.jsonl", "files", "http.yaml", "steps.md"]
    assert load(below).header["test"] == "a/b/c.py::d"
    assert main(["verify"]) == 0


# ------------------------------------------------------------------ show


def test_a_recording_is_shown_whole_or_as_far_as_it_goes(shop: Shop) -> None:
    out = shop.done("show", ONE)
    assert out.startswith(f"# {ONE}\n")
    assert "## Flow: Log in" in out
    assert "## 1. Look for {word}" in out
    assert "\n2 turns, 1 actions, " in out
    for form in (str(shop.folder(ONE)), f"{shop.folder(ONE)}/"):
        assert shop.done("show", form) == out
    assert f"# {ONE}" in shop.done("show", str(shop.folder(ONE) / "cassette.jsonl"))


def test_what_a_killed_run_left_is_shown_up_to_the_line_that_is_cut(shop: Shop) -> None:
    aside = set_aside(shop.folder(ONE), name=".recording")
    file = aside / "cassette.jsonl"
    raw = file.read_bytes()
    at = raw.index(b'"type": "action"') + 30
    file.write_bytes(raw[:at])
    (shop.folder(ONE) / "cassette.jsonl").unlink()
    out = shop.done("show", ONE)
    assert out.startswith(f"(kept aside, being recorded, or left by a run that was killed: {aside})\n")
    assert "**Incomplete.** " in out
    assert re.search(r"line \d+ is no whole JSON object; the file was cut or edited", out)
    assert "## 1. Look for {word}" in out
    assert "**It broke off here.**" in out
    aside.rename(shop.folder(ONE) / ".failed")
    assert "(kept aside, of a run that failed: " in shop.done("show", ONE)


def test_show_of_what_is_not_there_says_how_to_record_it(shop: Shop) -> None:
    for extra in ((), ("--write",)):
        said = shop.refused("show", "test_rows.py::test_other", *extra)
        assert said.startswith("There is no cassette for test_rows.py::test_other: ")
        assert "pytest --cua-record test_rows.py::test_other" in said


def test_an_edited_page_fails_the_replay_until_it_is_written_anew(shop: Shop) -> None:
    page = shop.folder(TWO) / "steps.md"
    good = page.read_bytes()
    page.write_bytes(good.replace(b"Look for", b"Look nowhere for"))
    text = shop.offline().stdout.str()
    hint = re.search(r"hint: write it anew from the recording: pytest-cua show --write (\S+)", text)
    assert hint is not None
    assert shop.done("show", "--write", hint[1]) == f"wrote {page}\n"
    assert page.read_bytes() == good
    shop.replays()
    page.unlink()
    (shop.root / ".gitattributes").unlink()
    shop.done("show", "--write", TWO)
    assert page.read_bytes() == good


# ------------------------------------------------------------------ diff


def test_two_recordings_are_told_apart_in_words(root: Path, capsys: Any) -> None:
    prompt = "You are a {} tester of this application and you look at it with care."
    first = make(
        root, "a.py::a", "Open the file", "Save it", picture="red", says="Saved.", system=prompt.format("good")
    )
    make(
        root,
        "a.py::b",
        "Open the file",
        "Save it now",
        picture="blue",
        says="Stored.",
        system=prompt.format("thorough"),
        recorded_at="2026-01-01T00:00:00.000+00:00",
        http="interactions: [one]\n",
    )
    assert main(["diff", "a.py::a", "a.py::b"]) == 1
    told = capsys.readouterr().out
    for line in (
        "-test: a.py::a",
        "+test: a.py::b",
        "-step 2 (do, desktop 1, call): Save it",
        "+step 2 (do, desktop 1, call): Save it now",
        "-  turn 1 says: Saved.",
        "+  turn 1 says: Stored.",
        "+interactions: [one]",
    ):
        assert line in told.splitlines()
    assert "system: " in told
    assert "a [-good-]{+thorough+} tester of this" in told
    assert told.count("[-good-]") == 1
    assert "recorded_at" not in told
    assert "step 1" not in told.replace(" step 1 (do, desktop 1, call): Open the file", "")
    for form in (".", "cassette.jsonl"):
        assert main(["diff", str(first / form), str(root / "a/b" / form)]) == 1
        assert "[-good-]{+thorough+}" in capsys.readouterr().out


def test_the_same_recording_made_twice_does_not_differ(root: Path, capsys: Any) -> None:
    options: dict[str, Any] = {"picture": "red", "files": [b"x"], "turns": [("Sum?", "42")], "http": "a: 1\n"}
    for name in ("one", "two"):
        make(root.parent / name, "a.py::a", "Open it", **options)
    assert main(["diff", str(root.parent / "one/a/a"), str(root.parent / "two/a/a")]) == 0
    assert capsys.readouterr().out == "no difference in words\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"turns": [("Total?", "42")]}, '+  turn 1 asks POST /v1/messages: [{"content": "Total?", "role": "user"}]'),
        ({"turns": [("Sum?", "43")]}, "+  turn 1 says: 43"),
        ({"turns": [("Sum?", "42"), ("And?", "0")]}, "+  turn 2 says: 0"),
        ({"http": "a: 2\n"}, "+a: 2"),
        ({"http": None}, "-a: 1"),
        ({"files": [b"y"]}, '+looked at file a.bin after step 1: {"text": "y"}'),
        ({"flows": ["flows/a.py::f"]}, "+flow flows/a.py::f after step 0"),
        ({"model": "claude-opus-5"}, "+model: claude-opus-5"),
    ],
    ids=str,
)
def test_what_may_differ_is_told(root: Path, capsys: Any, change: dict[str, Any], told: str) -> None:
    options: dict[str, Any] = {"picture": "red", "files": [b"x"], "turns": [("Sum?", "42")], "http": "a: 1\n"}
    make(root.parent / "one", "a.py::a", "Open it", **options)
    make(root.parent / "two", "a.py::a", "Open it", **{**options, **change})
    assert main(["diff", "one/a/a", "two/a/a"]) == 1
    assert told in capsys.readouterr().out.splitlines()


def test_what_was_kept_aside_is_set_against_the_cassette(root: Path, capsys: Any) -> None:
    make(root, "a.py::a", "Open it")
    assert main(["diff", "a.py::a"]) == 1
    assert "No recording of a.py::a was kept aside that could be set against it." in capsys.readouterr().err
    make(root, "a.py::a", "Open it", says="No.", passed=False)
    assert main(["diff", "a.py::a"]) == 1
    assert "+  turn 1 says: No." in capsys.readouterr().out


def test_a_diff_with_what_is_not_there_says_so(root: Path, capsys: Any) -> None:
    make(root, "a.py::a", "Open it")
    assert main(["diff", "a.py::a", "a.py::b"]) == 1
    assert "There is no cassette for a.py::b: " in capsys.readouterr().err


# ------------------------------------------------------------------ git


@pytest.fixture
def git(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A repository in the project; the recordings are under version control, and git converts line ends."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=root.parent)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("init", "-q", "-b", "main")
    for name, value in {
        "user.name": "a",
        "user.email": "a@b",
        "core.autocrlf": "true",
        "core.safecrlf": "false",
    }.items():
        run("config", name, value)
    run("config", "diff.pytest-cua.textconv", f"{sys.executable} -m pytest_cua.cli show")
    make(root, "a.py::a", "Open the file", picture="red", says="It is open.", files=[b"\r\n" * 3000], http="a: 1\n")
    run("add", ".")
    run("commit", "-qm", "first")
    return run


def test_git_shows_a_new_recording_in_words(root: Path, git: Any) -> None:
    make(root, "a.py::a", "Open the file", picture="blue", says="It is open now.")
    told = git("diff", "--", "cassettes/a/a/cassette.jsonl")
    assert "-> It is open.\n+> It is open now.\n" in told
    assert '"type"' not in told
    (root / "a/a/cassette.jsonl").write_bytes(b"no recording\n")  # git would show nothing of any file
    told = git("diff")
    assert "line 1 is no whole JSON object" in told
    assert "+no recording" in told
    assert "GIT binary patch" not in git("log", "-p", "--stat")


def test_what_git_calls_loads_nothing_that_it_does_not_need(root: Path) -> None:
    folder = make(root, "a.py::a", "Open the file", says="It is open.", picture="red", turns=[("Ask", "Answer")])
    script = "import sys; from pytest_cua.cli import main; main(['show', sys.argv[1]]); print(sorted(sys.modules))"
    command = [sys.executable, "-c", script, str(folder / "cassette.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *page, modules = done.stdout.splitlines()
    assert "> It is open." in page
    heavy = ("anthropic", "httpx2", "vcr", "pydantic", "yaml", "PIL", "numpy", "pytest", "_pytest")
    assert [name for name in heavy if f"'{name}'" in modules] == []


def test_git_never_merges_two_recordings_line_by_line(root: Path, git: Any) -> None:
    folder = root / "a/a"
    sides = {}
    for branch, says in (("theirs", "It opened."), ("main", "Now it is open.")):
        git("checkout", "-q", *(["-b", branch] if branch == "theirs" else [branch]))
        make(
            root,
            "a.py::a",
            "Open the file",
            picture="lime" if branch == "main" else "blue",
            says=says,
            http=f"a: {says}\n",
        )
        sides[branch] = {name: (folder / name).read_bytes() for name in ("cassette.jsonl", "steps.md", "http.yaml")}
        git("add", ".")
        git("commit", "-qm", branch)
    told = git("merge", "theirs", code=1)
    for name in ("cassette.jsonl", "steps.md", "http.yaml"):
        assert f"Merge conflict in cassettes/a/a/{name}" in told
        assert (folder / name).read_bytes() == sides["main"][name]
    assert main(["verify"]) == 0
    git("checkout", "--theirs", "--", "cassettes/a/a")
    assert {name: (folder / name).read_bytes() for name in sides["theirs"]} == sides["theirs"]
    git("add", ".")
    assert main(["verify"]) == 0
    # of two sides that were mixed by hand, the digest in the footer tells
    (folder / "http.yaml").write_bytes(sides["main"]["http.yaml"])
    assert main(["verify"]) == 1


def test_git_converts_no_line_ends(root: Path, git: Any) -> None:
    before = tree(root)
    shutil.rmtree(root)
    git("checkout", "-q", "--", "cassettes")
    assert {**tree(root), ".gitattributes": ""} == {**before, ".gitattributes": ""}
    assert main(["verify"]) == 0
    assert git("status", "--porcelain") == ""


def test_without_attributes_the_damage_is_told_with_the_way_out(root: Path, git: Any, capsys: Any) -> None:
    git("rm", "-q", "cassettes/.gitattributes")
    git("commit", "-qm", "without")
    shutil.rmtree(root / "a/a")
    git("checkout", "-q", "--", "cassettes")
    assert main(["verify"]) == 1
    told = capsys.readouterr().err
    file = root / "a/a/cassette.jsonl"
    assert f"{file} cannot be replayed: line 1 ends with CR LF: its line ends were converted." in told
    assert f"{root / '.gitattributes'} is missing, so git may convert line ends" in told
    hint = re.search("hint: restore it without conversion: (.*)", told)
    assert hint is not None
    subprocess.run(["/bin/sh", "-c", hint[1]], check=True)
    assert load(root / "a/a")


def test_what_a_user_wrote_in_gitattributes_stays(root: Path) -> None:
    root.mkdir()
    (root / ".gitattributes").write_text("*.png filter=lfs\n*.txt text")
    for _ in range(2):
        make(root, "a.py::a", "Open the file")
    lines = (root / ".gitattributes").read_text().splitlines()
    assert lines[:2] == ["*.png filter=lfs", "*.txt text"]
    assert [line.split()[0] for line in lines[2:]] == [
        "#",
        "cassette.jsonl",
        "http.yaml",
        "steps.md",
        "*.webp",
        "*.bin",
    ]


def test_what_a_user_wrote_in_gitattributes_stays_in_whatever_encoding(root: Path) -> None:
    root.mkdir()
    written = "# Prüfbilder\n*.png filter=lfs".encode("latin-1")
    (root / ".gitattributes").write_bytes(written)
    for _ in range(2):
        make(root, "a.py::a", "Open the file")
    assert (root / ".gitattributes").read_bytes() == written + b"\n" + GIT_ATTRIBUTES.encode()
    assert main(["verify"]) == 0


# ------------------------------------------------------------------ verify


def test_a_good_suite_is_good_and_stays_as_it_is(shop: Shop) -> None:
    before = tree(shop.path)
    assert shop.done("verify") == "3 recordings, no problems\n"
    assert tree(shop.path) == before


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap makes everything read-only, for root too")
def test_a_checkout_that_may_not_be_written_can_be_verified(shop: Shop) -> None:
    set_aside(shop.folder(ONE))
    (shop.folder(TWO) / ".recording").mkdir()  # left by a run that was killed in its very last moment
    (shop.folder(TWO) / "steps.md").rename(shop.folder(TWO) / ".recording/steps.md")
    before = tree(shop.path)
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", sys.executable, "-m", "pytest_cua.cli", "verify"]
    done = subprocess.run(command, cwd=shop.path, capture_output=True, text=True, check=False)
    if done.stderr.startswith("bwrap:"):
        pytest.skip(f"nothing can be made read-only here: {done.stderr}")
    assert tree(shop.path) == before
    assert f"kept aside, not committed: {shop.folder(ONE) / '.failed'}" in done.stdout
    assert done.stdout.endswith("3 recordings, 1 problem\n")
    told = f"{shop.folder(TWO) / '.recording'}: its swap was broken off by a kill; a replay finishes it: pytest "
    assert done.stderr.startswith(told)
    shop.replays()


def test_verify_in_a_folder_without_recordings_says_so(root: Path, capsys: Any) -> None:
    assert main(["verify"]) == 1
    assert f"There is no folder {root}." in capsys.readouterr().err
    root.mkdir()
    assert main(["verify"]) == 0
    assert capsys.readouterr().out == "0 recordings, no problems\n"


def test_folders_of_cassettes_in_one_another_are_checked_each_by_itself(root: Path, capsys: Any) -> None:
    make(root, "a.py::a", "Open it", picture="red")
    inner = root / "slow"
    made = make(inner, "a.py::a", "Open it slowly", picture="blue", passed=True)
    make(inner / "own", "b.py::b", "Open it", picture="lime")
    make(inner, "a.py::a", "Once more", passed=False)
    assert main(["verify"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        f"{root}: 1 recording, no problems",
        f"kept aside, not committed: {made / '.failed'}",
        f"{inner}: 1 recording, no problems",
        f"{inner / 'own'}: 1 recording, no problems",
        f"folders of cassettes that lie in {root}, and were checked each by itself: {inner}, {inner / 'own'}",
    ]
    assert main(["verify", "--cassettes", str(inner / "own")]) == 0
    assert capsys.readouterr().out == "1 recording, no problems\n"
    (made / "steps.md").write_text("other")
    assert main(["verify"]) == 1
    out, err = capsys.readouterr()
    assert f"{inner}: 1 recording, 1 problem\n" in out
    assert err.startswith(f"{made / 'steps.md'}, the page for reviewers ")


def test_a_folder_of_cassettes_in_another_is_not_pruned_with_it(root: Path, capsys: Any) -> None:
    make(root, "a.py::a", "Open it", picture="red")
    inner = root / "slow/deep"
    make(inner, "b.py::b", "Open it", picture="blue")
    (inner / "tests/test_b/test_b/baselines").mkdir(parents=True)
    (inner / "tests/test_b/test_b/baselines/whole.png").write_bytes(b"picture")
    before = tree(inner)
    assert main(["prune"]) == 0
    assert "removed 1 recording and" in capsys.readouterr().out
    assert tree(inner) == before


# ------------------------------------------------------------------ migrate, versions


def age_to_format_0(folder: Path) -> None:
    """Write a recording as an older version would have done, in which a sentence was called otherwise."""
    lines = read_lines(folder / "cassette.jsonl")
    for line in lines:
        if line["type"] == "step":
            line["prompt"] = line.pop("sentence")
    lines[0]["format"] = 0
    suite._write(lines, folder / "cassette.jsonl")


def up_to_1(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**{name: value for name, value in line.items() if name != "prompt"}, "sentence": line["prompt"]}
        if line["type"] == "step"
        else line
        for line in lines
    ]


def test_recordings_of_an_older_format_are_brought_up_to_date(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.done("migrate") == "all recordings have format 1, the newest: nothing to do\n"
    pages = {test: (shop.folder(test) / "steps.md").read_bytes() for test in (ONE, TWO)}
    for test in (ONE, TWO):
        age_to_format_0(shop.folder(test))
    text = shop.offline().stdout.str()
    assert "it has format 0 and this version of pytest-cua reads format 1" in text
    assert f"hint: bring all cassettes up to date: pytest-cua migrate {shop.folder(ONE)}" in text
    said = shop.refused("migrate")
    assert f"{shop.folder(TWO) / 'cassette.jsonl'} has format 0, from which this version of pytest-cua cannot" in said
    assert "hint: record the test again" in said
    monkeypatch.setitem(suite.MIGRATIONS, 0, up_to_1)
    out = shop.done("migrate", str(shop.folder(ONE)))
    assert out == f"brought {shop.folder(ONE) / 'cassette.jsonl'} from format 0 to 1\n"
    out = shop.done("migrate", "cassettes/test_rows")
    assert out == f"brought {shop.folder(TWO) / 'cassette.jsonl'} from format 0 to 1\n"
    assert "nothing to do" in shop.done("migrate")
    shop.replays()
    assert {test: (shop.folder(test) / "steps.md").read_bytes() for test in (ONE, TWO)} == pages


def test_a_newer_format_is_refused_in_words(shop: Shop) -> None:
    folder = shop.folder(ONE)
    lines = read_lines(folder / "cassette.jsonl")
    lines[0] |= {"format": 2, "plugin": "9.1.0"}
    suite._write(lines, folder / "cassette.jsonl")
    words = "it has format 2 and this version of pytest-cua reads format 1"
    hint = "hint: install a newer pytest-cua, as the one that wrote it (9.1.0), or record the test again"
    for said in (shop.offline().stdout.str(), shop.refused("migrate"), shop.command("verify")[2]):
        assert words in said
        assert hint in said


def test_a_folder_that_is_not_there_is_not_called_up_to_date(shop: Shop) -> None:
    assert shop.refused("migrate", "nowhere").startswith("There is no folder nowhere.")


# ------------------------------------------------------------------ settings that cannot be read


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("[pytest\n", "cannot be read, and may hold pytest's settings"),
        ("[pytest]\ncua_max_age = soon\n", "cua_max_age: 'soon' is no value for it: it is a number of days or weeks"),
    ],
)
def test_settings_that_cannot_be_meant_so_are_told(root: Path, capsys: Any, settings: str, told: str) -> None:
    make(root, "a.py::a", "Open it")
    (root.parent / "pytest.ini").write_text(settings)
    assert main(["verify"]) == 1
    assert told in capsys.readouterr().err
