"""All cassettes together, without a run of pytest: what `verify` finds, whose steps are whose, when a model ends."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))  # importlib mode leaves it out

from suite_support import days_ago, make, tree

from pytest_cua.cassette import suite
from pytest_cua.cassette.format import load
from pytest_cua.cassette.store import FAILED, cassette_folder
from pytest_cua.cassette.suite import Collected, find_unused, move, renamed_from, retired, rewrite, verify
from pytest_cua.cli import main
from pytest_cua.errors import CassetteUnreadable

TEST = "tests/test_a.py::test_a"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("good") / "cassettes"
    # what the test read is too long for its line, so it lies in files/
    make(root, TEST, "Open it", "Save it", picture="red", files=[bytes(range(256)) * 20], http="interactions: []\n")
    make(root, "tests/test_a.py::test_b[x y]", "Open it", picture="blue", flows=["flows/a.py::f"])
    make(root, "flows/a.py::f", "Log in", kind="flow")
    return root


@pytest.fixture
def root(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("")
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(good, tmp_path / "cassettes"))


@pytest.fixture
def folder(root: Path) -> Path:
    return cassette_folder(root, TEST)


# ------------------------------------------------------------------ verify

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def screen_of(folder: Path) -> Path:
    (key,) = load(folder).screens()
    return folder.parents[2] / "screens" / key[:2] / f"{key}.webp"


def page(folder: Path) -> Path:
    path = folder / "steps.md"
    path.write_bytes(path.read_bytes() + b"more\n")
    return path


def no_page(folder: Path) -> Path:
    (folder / "steps.md").unlink()
    return folder / "steps.md"


def other_picture(folder: Path) -> Path:
    path = screen_of(folder)
    shutil.copy2(screen_of(cassette_folder(folder.parents[2], "tests/test_a.py::test_b[x y]")), path)
    return path


def no_picture(folder: Path) -> Path:
    path = screen_of(folder)
    path.unlink()
    return path


def damaged_picture(folder: Path) -> Path:
    path = screen_of(folder)
    path.write_bytes(path.read_bytes()[:-9])
    return path


def picture_pointer(folder: Path) -> Path:
    path = screen_of(folder)
    path.write_bytes(POINTER)
    return path


def no_file(folder: Path) -> Path:
    path = only(folder, "files/*.bin")
    path.unlink()
    return path


def other_file(folder: Path) -> Path:
    path = only(folder, "files/*.bin")
    path.write_bytes(b"other")
    return path


def stray_file(folder: Path) -> Path:
    path = folder / "files" / "it's.bin"
    path.write_bytes(b"stray")
    return path


def edited_http(folder: Path) -> Path:
    (folder / "http.yaml").write_text("interactions: [1]\n")
    return folder / "http.yaml"


def no_http(folder: Path) -> Path:
    (folder / "http.yaml").unlink()
    return folder / "http.yaml"


def http_pointer(folder: Path) -> Path:
    (folder / "http.yaml").write_bytes(POINTER)
    return folder / "http.yaml"


def cut(folder: Path) -> Path:
    path = folder / "cassette.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return path


def cassette_pointer(folder: Path) -> Path:
    (folder / "cassette.jsonl").write_bytes(POINTER)
    return folder / "cassette.jsonl"


def edited(folder: Path) -> Path:
    path = folder / "cassette.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Open it", b"Open IT"))
    return path


def no_attributes(folder: Path) -> Path:
    (folder.parents[2] / ".gitattributes").unlink()
    return folder.parents[2] / ".gitattributes"


def other_attributes(folder: Path) -> Path:
    (folder.parents[2] / ".gitattributes").write_text("*.png binary\n")
    return folder.parents[2] / ".gitattributes"


def swapped(folder: Path) -> Path:
    (folder / "cassette.jsonl").write_bytes((folder.parents[2] / "flows/a/f/cassette.jsonl").read_bytes())
    return folder / "cassette.jsonl"


DAMAGES: list[tuple[Callable[[Path], Path], str, str]] = [
    (page, "was edited, or is of another recording", "hint: write it anew from the recording: pytest-cua show --write"),
    (no_page, "is missing: pytest-cua show --write {folder}", ""),
    (other_picture, "is not the picture that was recorded", "hint: restore it from version control"),
    (no_picture, "cannot be read: No such file", "hint: restore it from version control"),
    (damaged_picture, "is damaged", "hint: restore it from version control"),
    (
        picture_pointer,
        "is a pointer of Git LFS, not the picture",
        "hint: fetch the files: git lfs install && git lfs pull",
    ),
    (no_file, "cannot be read: No such file", "hint: restore it from version control"),
    (other_file, "is not the content that was recorded", "hint: restore it from version control: git checkout -- "),
    (stray_file, "belongs to no line of {folder}/cassette.jsonl: rm '{folder}/files/it'\"'\"'s.bin'", ""),
    (edited_http, "was edited, or is of another recording", "hint: restore it: git checkout -- {folder}/http.yaml"),
    (no_http, "is missing", "hint: restore it: git checkout -- {folder}/http.yaml"),
    (http_pointer, "is a pointer of Git LFS", "hint: fetch the files: git lfs install && git lfs pull"),
    (cut, "ends after line 11 without a footer", "hint: restore it from version control (git checkout -- "),
    (cassette_pointer, "is a pointer of Git LFS", "hint: fetch the files: git lfs install && git lfs pull"),
    (edited, "line 2 does not carry the digest of its content; it was edited", "hint: restore it from version control"),
    (no_attributes, "is missing, so git may convert line ends", "git checkout -- {root}/.gitattributes, or record any"),
    (
        other_attributes,
        "does not speak of cassette.jsonl, so git may",
        "git checkout -- {root}/.gitattributes, or record",
    ),
]


@pytest.mark.parametrize(("damage", "message", "todo"), DAMAGES, ids=[d.__name__ for d, *_ in DAMAGES])
def test_verify_names_the_file_what_is_wrong_and_what_to_do(
    folder: Path, damage: Any, message: str, todo: str, capsys: Any
) -> None:
    path = damage(folder)
    root = folder.parents[2]
    before = tree(root)
    assert main(["verify"]) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"{path}")
    for words in (message, todo):
        assert words.format(folder=folder, root=root) in err
    assert out.endswith("3 recordings, 1 problem\n")
    assert tree(root) == before


def test_every_problem_is_told_not_only_the_first(root: Path, folder: Path, capsys: Any) -> None:
    damages = [no_picture, no_file, stray_file, edited_http, no_attributes]
    paths = [damage(folder) for damage in damages]
    cut(cassette_folder(root, "flows/a.py::f"))
    assert main(["verify"]) == 1
    out, err = capsys.readouterr()
    assert out.endswith("3 recordings, 6 problems\n")
    assert [path for path in paths if str(path) not in err] == []


def test_a_good_suite_has_no_problem_and_no_file_is_touched(root: Path) -> None:
    before = tree(root)
    times = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert verify(root) == ([], [])
    assert tree(root) == before
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == times


def test_a_cassette_in_a_wrong_folder_is_told_with_the_right_one(root: Path, folder: Path) -> None:
    folder.rename(folder.with_name("test_other"))
    problems, _ = verify(root)
    assert len(problems) == 1
    place = f"{folder.with_name('test_other')}/cassette.jsonl: it is of {TEST}, whose recording belongs into {folder}: "
    assert problems[0].startswith(place)
    assert problems[0].endswith(f"move the folder there, or if the test was renamed: pytest-cua move {TEST} NEW")
    assert move(root, TEST, "tests/test_a.py::test_other") == [(TEST, "tests/test_a.py::test_other")]
    assert verify(root) == ([], [])


def test_two_cassettes_of_one_test_are_told(root: Path, folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("test_copy"))
    problems, _ = verify(root)
    first, second = problems
    assert first.startswith(f"{folder.with_name('test_copy')}/cassette.jsonl: {TEST} is recorded in {folder}/")
    assert first.endswith("too: remove the folder that is not wanted")
    assert "whose recording belongs into" in second


def test_a_cassette_that_is_of_another_test_is_told(root: Path, folder: Path) -> None:
    swapped(folder)
    problems, _ = verify(root)
    assert any(p.startswith(f"{folder}/cassette.jsonl: it is of flows/a.py::f, whose recording") for p in problems)


def test_a_secret_of_this_machine_in_an_old_cassette_is_told_but_not_shown(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hunter-2-and-more"
    make(root, TEST, f"Type {secret}")
    assert verify(root) == ([], [])
    monkeypatch.setenv("SHOP_PASSWORD", secret)
    problems, _ = verify(root)
    assert problems
    assert secret not in "".join(problems)
    files = {"cassette.jsonl", "steps.md"}
    for problem in problems:
        assert problem.startswith(f"a secret: {folder}/")
        assert ": the secret SHOP_PASSWORD (as is)" in problem
        assert problem.endswith(f": make it invalid, then record again: pytest --cua-mode=record {TEST}")
        files -= {name for name in files if name in problem}
    assert not files


def test_what_else_is_worth_knowing_is_no_problem(root: Path, folder: Path) -> None:
    kept = make(root, TEST, "Again", passed=False) / FAILED
    (root / "screens/ab").mkdir()
    (root / "screens/ab/abababababababab.webp").write_bytes(b"x" * 3000)
    make(root, "tests/test_a.py::test_c", model="claude-3-opus-20240229")
    problems, notes = verify(root)
    assert problems == []
    assert notes[0].startswith(
        f"{root}/tests/test_a/test_c/cassette.jsonl: recorded with claude-3-opus-20240229, which "
    )
    assert notes[1:] == [
        f"kept aside, not committed: {kept}",
        "1 picture that no cassette shows (3 kB): pytest-cua prune",
    ]


def test_pictures_of_a_cassette_that_cannot_be_read_are_not_called_unused(root: Path, folder: Path) -> None:
    cassette_pointer(folder)
    problems, notes = verify(root)
    assert len(problems) == 1
    assert notes == []


@pytest.mark.parametrize(("text", "problems"), [("30d fail", 1), ("31d fail", 0), ("30d", 0), ("4w fail", 1), ("", 0)])
def test_an_age_that_is_to_fail_fails_here_too(
    root: Path, text: str, problems: int, monkeypatch: Any, capsys: Any
) -> None:
    make(root, TEST, recorded_at=days_ago(30))
    for given in ("ini", "environment"):
        (root.parent / "pytest.ini").write_text(f"[pytest]\ncua_max_age = {text if given == 'ini' else ''}\n")
        monkeypatch.setenv("PYTEST_CUA_MAX_AGE", text if given == "environment" else "")
        assert main(["verify"]) == problems
        days = 28 if "w" in text else 30
        told = f"recorded 30 days ago, and cua_max_age is {days} days: pytest --cua-mode=record {TEST}"
        assert (told in capsys.readouterr().err) is bool(problems)


def test_what_is_adopted_is_whole(root: Path, folder: Path) -> None:
    make(root, TEST, "Again", picture="lime", passed=False)
    new = "tests/test_a.py::test_new"
    assert main(["move", TEST, new]) == 0
    assert main(["accept", new]) == 0
    assert "## 1. Again" in (folder.with_name("test_new") / "steps.md").read_text()
    assert verify(root)[0] == []


def test_commands_work_from_a_folder_of_the_project_as_pytest_does(root: Path, monkeypatch: Any, capsys: Any) -> None:
    below = root.parent / "tests/deep"  # the empty pytest.ini marks the root
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert main(["verify"]) == 0
    assert main(["show", "../test_a.py::test_a"]) == 0
    assert f"# {TEST}" in capsys.readouterr().out


# ------------------------------------------------------------------ one recording, written anew


def test_a_recording_is_written_anew_whole_or_not_at_all(root: Path, folder: Path) -> None:
    before = tree(root)

    def fail(line: dict[str, Any]) -> dict[str, Any]:
        if line["type"] == "end":
            raise RuntimeError
        return {**line, "more": 1}

    with pytest.raises(RuntimeError):
        rewrite(folder, folder, root, fail)
    assert tree(root) == before
    rewrite(folder, folder, root, dict)
    assert tree(root) == before


def test_a_recording_without_its_end_stays_without(root: Path, folder: Path) -> None:
    cut(folder)
    rewrite(folder, folder, root, lambda line: {**line, "more": 1})
    with pytest.raises(CassetteUnreadable, match="without a footer"):
        load(folder)
    assert all(line["more"] == 1 for line in load(folder, partial=True).lines)


# ------------------------------------------------------------------ whose steps are whose

SOURCE = """
class TestGroup:
    def test_in(self, cua):
        cua.do("Save it")

def test_new(cua):
    cua.do("Open it")
    cua.do("Save it")

def test_else(cua):
    cua.do("Open it")
"""


@pytest.mark.parametrize(
    ("test", "old"),
    [
        ("tests/test_a.py::test_new", TEST),
        ("tests/test_a.py::TestGroup::test_in", None),  # not all sentences
        ("tests/test_a.py::test_else[x y]", "tests/test_a.py::test_b[x y]"),
        ("tests/test_a.py::test_nowhere", None),
        ("tests/test_b.py::test_new", None),
    ],
)
def test_a_test_is_known_by_its_sentences_when_the_old_one_is_gone(root: Path, test: str, old: str | None) -> None:
    if "else" in test:
        make(root, "tests/test_a.py::test_b[z]", "Open it")
    (root.parent / "tests").mkdir()
    (root.parent / "tests/test_a.py").write_text(SOURCE)
    assert renamed_from(root, root.parent, test) == old
    (root.parent / "tests/test_a.py").write_text(f"{SOURCE}\ndef test_a(): pass\ndef test_b(): pass\n")
    assert renamed_from(root, root.parent, test) is None


def test_a_renamed_test_is_known_where_no_picture_was_ever_taken(root: Path, capsys: Any) -> None:
    shutil.rmtree(root)
    make(root, TEST, "Open it", "Save it")
    shutil.rmtree(root / "screens")  # git keeps no empty folder
    (root.parent / "tests").mkdir()
    (root.parent / "tests/test_a.py").write_text(SOURCE)
    assert main(["show", "tests/test_a.py::test_new"]) == 1
    told = capsys.readouterr().err
    assert f"its steps are those of {TEST}: pytest-cua move {TEST} tests/test_a.py::test_new\n" in told


def test_of_several_rows_none_is_guessed(root: Path) -> None:
    (root.parent / "tests").mkdir()
    (root.parent / "tests/test_a.py").write_text(SOURCE)
    for row in "vw":
        make(root, f"tests/test_a.py::test_b[{row}]", "Open it")
    assert renamed_from(root, root.parent, "tests/test_a.py::test_else[z]") is None
    assert renamed_from(root, root.parent, "tests/test_a.py::test_else[w]") == "tests/test_a.py::test_b[w]"
    make(root, "tests/test_a.py::test_elses[v]", "Open it")  # closer, but of another row
    assert renamed_from(root, root.parent, "tests/test_a.py::test_else[w]") == "tests/test_a.py::test_b[w]"


def test_steps_of_fixtures_do_not_count_for_the_test(root: Path, folder: Path) -> None:
    def in_setup(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "phase": "setup"} if line["type"] == "step" and line["step"] == 1 else line

    rewrite(folder, folder, root, in_setup)
    (root.parent / "tests").mkdir()
    (root.parent / "tests/test_a.py").write_text('def test_new(cua, opened):\n    cua.do("Save it")\n')
    assert renamed_from(root, root.parent, "tests/test_a.py::test_new") == TEST


def test_of_several_tests_with_the_same_sentences_the_closest_is_named_each_time(root: Path) -> None:
    (root.parent / "tests").mkdir()
    names = ["test_zebra", "test_a_b", "test_quite_other", "test_open"]
    (root.parent / "tests/test_a.py").write_text("".join(f'def {n}(): "Open it", "Save it"\n' for n in names))
    ids = [f"tests/test_a.py::{name}" for name in names]
    for order in (ids, ids[::-1]):
        unused = find_unused(root, root.parent, Collected(order, ["."]))
        assert unused.renamed[TEST] == (TEST, "tests/test_a.py::test_a_b")


@pytest.mark.parametrize(
    ("places", "covered"),
    [
        (["."], True),
        ([""], True),
        (["tests"], True),
        (["tests/"], True),
        (["tests/test_a.py"], True),
        (["tes"], False),
        (["tests/test_a"], False),
        (["tests/test_a.pyx"], False),
        (["other"], False),
        ([], False),
    ],
)
def test_a_place_covers_what_lies_in_it(places: list[str], covered: bool) -> None:
    assert Collected([], places).covers(TEST) is covered


@pytest.mark.parametrize(
    ("left_out", "left"),
    [
        ("tests/test_a.py", True),
        ("tests/test_a.py::test_a", True),
        ("tests", True),
        ("", True),
        (".", True),
        ("tests/test_a.py::test", False),
        ("tests/test", False),
        ("tests/test_a.py::TestGroup", False),
    ],
)
def test_what_was_left_out_holds_what_is_in_it(left_out: str, left: bool) -> None:
    assert Collected([], ["."], left_out=[left_out]).left(TEST) is left


# ------------------------------------------------------------------ models that go


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("January 5th, 2026", "which is not offered since 2026-01-05"),
        ("July 21st, 2199", "which is offered until 2199-07-21"),
        ("the end of the year", "which is offered until the end of the year"),
    ],
)
def test_the_end_of_a_model_is_told_by_the_list_of_the_sdk(end: str, words: str, monkeypatch: Any) -> None:
    from anthropic.resources.messages import DEPRECATED_MODELS

    monkeypatch.setitem(DEPRECATED_MODELS, "claude-invented-1", end)
    assert retired("claude-invented-1") == words


def test_models_of_today_have_no_end_and_those_that_the_sdk_forgot_have() -> None:
    assert retired("claude-sonnet-5-5") is None
    assert retired("") is None
    assert retired("claude-2.1") == "which is not offered any more"


def test_the_age_is_counted_in_whole_days(root: Path) -> None:
    for given, days in ((0, 0), (1, 1), (400, 400)):
        folder = make(root, TEST, recorded_at=days_ago(given))
        assert suite.age_in_days(load(folder)) == days
    east = dt.datetime.now(dt.timezone(dt.timedelta(hours=14))) - dt.timedelta(days=2, minutes=1)
    folder = make(root, TEST, recorded_at=east.isoformat())
    assert suite.age_in_days(load(folder)) == 2
