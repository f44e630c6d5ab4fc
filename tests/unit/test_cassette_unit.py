"""The files of cassettes: names that never meet, recordings that are never lost, and no secret in any of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_cua import Secret, screens, secrets
from pytest_cua.cassette.format import FILE, FILES, SCREENS, load, read_lines, shared_screen
from pytest_cua.cassette.player import stored_file, stored_screen
from pytest_cua.cassette.recorder import Recorder
from pytest_cua.cassette.redact import environment_secrets, redact, redact_text
from pytest_cua.cassette.store import (
    FAILED,
    GIT_ATTRIBUTES,
    HTTP,
    PAGE,
    RECORDING,
    UNFINISHED,
    CassetteWriter,
    adopt,
    all_cassettes,
    cassette_folder,
    digest_of,
    file_key,
    finish_swap,
    is_adoptable,
    kept_recordings,
    load_cassette,
    wait_for_recording,
    write_git_attributes,
)
from pytest_cua.cassette.tape import Tape
from pytest_cua.cassette.wire import History, Reply, Request, plain
from pytest_cua.errors import BadArgument, CassetteMissing, CassetteUnreadable, CassetteUnwritable, SecretLeaked
from pytest_cua.trace import Action, Run, Step

TEST = "tests/test_a.py::test_a"
OTHER = "tests/test_a.py::test_b"
PICTURE = Image.new("RGB", (8, 8), "red")
KEY = screens.content_key(PICTURE)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """A Secret is known for as long as its process lives: those of these tests must not hide words in others."""
    made = dict(secrets._made)
    yield
    secrets._made.clear()
    secrets._made.update(made)


def lines_of(*, text: str = "hello", picture: str = "", test: str = TEST) -> list[dict[str, Any]]:
    """What a short recording consists of."""
    return [
        {
            "type": "header",
            "format": 1,
            "test": test,
            "recorded_at": "2026-01-01T00:00:00+00:00",
            "model": "claude-sonnet-5-5",
            "model_endpoint": "scripted",
            "display": {"width": 1280, "height": 800},
        },
        {"type": "step", "step": 1, "kind": "do", "desktop": "1", "sentence": text},
        {"type": "params", "id": "p1", "value": {"model": "m", "max_tokens": 3}},
        {
            "type": "turn",
            "step": 1,
            "turn": 1,
            "request": {"params": "p1", "new": [{"role": "user", "content": text}]},
            "reply": {"status": 200, "body": {"content": [{"type": "text", "text": text}]}},
        },
        {
            "type": "action",
            "step": 1,
            "turn": 1,
            "id": "t1",
            "tool": "computer",
            "name": "key",
            "input": {},
            "before": picture,
        },
        {"type": "end", "step": 1, "outcome": "done", "summary": text, "observations": []},
        {
            "type": "observation",
            "number": 1,
            "after_step": 1,
            "desktop": "1",
            "kind": "file",
            "subject": "a.txt",
            "value": {"text": text},
        },
        {"type": "footer", "steps": 1, "turns": 1, "actions": 1, "observations": 1, "files": {}},
    ]


def write_whole(root: Path, *, test: str = TEST, colour: str = "red", **options: Any) -> CassetteWriter:
    """A recording to its end, not yet in its place."""
    writer = CassetteWriter(cassette_folder(root, test), root)
    picture = Image.new("RGB", (8, 8), colour)
    key = screens.content_key(picture)
    writer.add_screen(key, screens.to_webp(picture))
    for line in lines_of(picture=key, test=test, **options):
        writer.write(line)
    return writer


def tape_of(root: Path, *, test: str = TEST, **header: Any) -> Tape:
    writer = CassetteWriter(cassette_folder(root, test), root)
    return Tape(writer, header={**lines_of(test=test)[0], **header}, run=Run(test=test, mode="record"))


def say(tape: Tape, text: str, reply: Reply | None = None) -> None:
    """One conversation of one turn."""
    tape.replied("scripted")
    tape.write({"type": "conversation", "conversation": 1, "client": "Anthropic"})
    asked = Request("post", "/v1/messages", {"model": "m"}, [{"role": "user", "content": text}])
    answer = reply or Reply(200, {"content": [{"type": "text", "text": text}]})
    tape.turn({"conversation": 1, "turn": 1}, History(), asked, answer, waited_ms=1, attempts=[])


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good recording."""
    write_whole(tmp_path).commit()
    return cassette_folder(tmp_path, TEST)


def test_a_whole_recording_is_read_back(folder: Path, tmp_path: Path) -> None:
    cassette = load_cassette(tmp_path, TEST)
    assert [step.sentence for step in cassette.steps] == ["hello"]
    assert cassette.steps[0].turns[0].params == {"model": "m", "max_tokens": 3}
    assert isinstance(cassette.steps[0].turns[0].actions["t1"], Action)
    assert cassette.steps[0].end["outcome"] == "done"
    assert cassette.screens() == {KEY}
    assert cassette.files() == set()
    assert cassette.step(2) is None
    assert screens.content_key(stored_screen(cassette, KEY)) == KEY
    assert cassette.sum == cassette.lines[-1]["sum"]
    assert cassette.broken is None
    without = [{name: value for name, value in line.items() if name != "sum"} for line in cassette.lines]
    assert read_lines(folder / FILE) == without


# ------------------------------------------------------------------ folders


def test_a_folder_mirrors_the_path_of_the_test(tmp_path: Path) -> None:
    assert cassette_folder(tmp_path, "tests/shop/test_order.py::TestCart::test_total") == (
        tmp_path / "tests/shop/test_order/TestCart.test_total"
    )
    assert cassette_folder(tmp_path, "flows/tests/conftest.py::login") == tmp_path / "flows/tests/conftest/login"
    with pytest.raises(BadArgument, match="is no test id"):
        cassette_folder(tmp_path, "tests/test_a.py")


AWKWARD = [
    "a/b",
    "../x",
    "..",
    ".",
    "",
    "ünï",
    "x" * 500,
    "a b",
    "a-b",
    "a::b",
    "]",
    "a\\b",
    "A",
    "a",
    "\ud800",
    "con",
    ".failed",
]


def test_awkward_ids_never_share_a_folder_nor_leave_it(tmp_path: Path) -> None:
    tests = [f"test_a.py::test_a[{word}]" for word in AWKWARD]
    tests += [
        "test_a.py::test_a",
        "test_a.py::A::test_a",
        "a/test_a.py::test_a",
        "../test_a.py::test_a",
        "/test_a.py::test_a",
    ]
    folders = [cassette_folder(tmp_path, test) for test in tests]
    assert len({str(folder).lower() for folder in folders}) == len(tests)
    for folder in folders:
        assert folder.resolve().is_relative_to(tmp_path.resolve())
        assert ".." not in folder.parts
        folder.mkdir(parents=True)  # the file system takes it


@quick
@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_two_rows_never_share_a_folder(first: str, second: str) -> None:
    root = Path("/r")
    folders = [cassette_folder(root, f"t.py::test_a[{row}]") for row in (first, second)]
    assert (folders[0] == folders[1]) is (first == second)
    assert all(folder.parent == root / "t" for folder in folders)


def test_all_cassettes_are_found_and_nothing_else_is(tmp_path: Path) -> None:
    tests = ["tests/files/test_a.py::test_a", "screens/abc/test_a.py::test_a", "test_b.py::test_b", "flows.py::login"]
    for test in tests:
        write_whole(tmp_path, test=test).commit()
    write_whole(tmp_path, test="test_b.py::test_kept").keep_aside()
    underway = write_whole(tmp_path, test="test_b.py::test_underway")
    assert set(all_cassettes(tmp_path)) == {cassette_folder(tmp_path, test) / FILE for test in tests}
    underway.destroy()


# ------------------------------------------------------------------ writing


def test_nothing_is_taken_for_a_recording_before_it_is_committed(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    writer = write_whole(tmp_path)
    assert not (folder / FILE).exists()
    assert names(tmp_path / SCREENS) == []
    size = writer.commit()
    assert writer.is_committed
    assert names(folder) == [FILE]
    assert names(tmp_path / SCREENS) == [f"{KEY[:2]}/{KEY}.webp"]
    assert size == shared_screen(tmp_path, KEY).stat().st_size
    assert load(folder).footer["turns"] == 1


def test_each_line_is_on_the_disk_once_it_is_written(tmp_path: Path) -> None:
    writer = CassetteWriter(cassette_folder(tmp_path, TEST), tmp_path)
    for number, line in enumerate(lines_of(), start=1):
        writer.write(line)
        read = load(writer.aside, partial=True)
        assert len(read.lines) == number
        assert (read.broken is None) == (line["type"] == "footer")
    writer.destroy()


def test_a_recording_that_cannot_be_replayed_never_replaces_one_that_can(folder: Path, tmp_path: Path) -> None:
    before = (folder / FILE).read_bytes()
    writer = CassetteWriter(folder, tmp_path)
    for line in lines_of(text="new")[:-1]:  # no footer
        writer.write(line)
    with pytest.raises(CassetteUnreadable):
        writer.commit()
    assert not writer.is_committed
    assert (folder / FILE).read_bytes() == before
    write_whole(tmp_path, text="next").commit()  # what was paid for is kept by the next recording
    assert load(folder / FAILED, partial=True).steps[0].sentence == "new"


def test_what_failed_is_kept_and_can_be_adopted(folder: Path, tmp_path: Path) -> None:
    kept = write_whole(tmp_path, text="kept", colour="blue").keep_aside()
    assert kept == folder / FAILED
    assert is_adoptable(kept)
    assert kept_recordings(folder) == [kept]
    assert load(folder).steps[0].sentence == "hello"
    assert (kept / ".gitignore").read_text() == "*\n"
    blue = screens.content_key(Image.new("RGB", (8, 8), "blue"))
    assert names(kept) == [".gitignore", FILE, f"screens/{blue}.webp"]
    stored_screen(load(kept), blue)  # in its own folder
    assert not shared_screen(tmp_path, blue).exists()
    assert adopt(folder, tmp_path).steps[0].sentence == "kept"
    assert names(tmp_path / SCREENS) == [f"{blue[:2]}/{blue}.webp"]  # that of the old one went
    assert not kept.exists()
    with pytest.raises(CassetteMissing):
        adopt(folder, tmp_path)


def test_a_recording_that_ends_inside_a_step_is_not_adopted(folder: Path, tmp_path: Path) -> None:
    writer = CassetteWriter(folder, tmp_path)
    for line in lines_of(text="half"):
        if line["type"] != "end":
            writer.write(line)
    kept = writer.keep_aside()
    assert kept is not None
    assert not is_adoptable(kept)
    with pytest.raises(CassetteUnreadable, match="ends inside step 1") as caught:
        adopt(folder, tmp_path)
    assert any("--cua-from-step=1" in hint for hint in caught.value.hints)
    assert load(folder).steps[0].sentence == "hello"


def test_a_worse_recording_does_not_take_the_place_of_a_kept_one(folder: Path, tmp_path: Path) -> None:
    good = write_whole(tmp_path, text="good").keep_aside()
    writer = CassetteWriter(folder, tmp_path)
    for line in lines_of(text="half")[:4]:
        writer.write(line)
    assert writer.keep_aside() == folder / UNFINISHED
    assert good is not None
    assert load(good).steps[0].sentence == "good"
    assert kept_recordings(folder) == [good, folder / UNFINISHED]


def test_what_asked_no_model_is_not_kept(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    writer = CassetteWriter(folder, tmp_path)
    writer.write(lines_of()[0])
    assert writer.keep_aside() is None
    assert not folder.exists()
    writer.write({"type": "observation"})  # a fixture that goes on
    writer.add_screen("0" * 16, b"")
    assert not folder.exists()


def test_two_writers_of_one_test_are_refused_and_the_first_is_unharmed(folder: Path, tmp_path: Path) -> None:
    first = write_whole(tmp_path, text="first")
    for _ in range(2):
        with pytest.raises(CassetteUnwritable, match="Another run is recording this test") as caught:
            CassetteWriter(folder, tmp_path)
        assert caught.value.hints
    first.commit()
    assert load(folder).steps[0].sentence == "first"
    write_whole(tmp_path, text="second").commit()
    assert load(folder).steps[0].sentence == "second"


def test_two_tests_record_at_once(tmp_path: Path) -> None:
    first, second = (write_whole(tmp_path, test=test, text=test) for test in (TEST, OTHER))
    second.commit()
    first.commit()
    assert names(tmp_path / SCREENS) == [f"{KEY[:2]}/{KEY}.webp"]
    for test in (TEST, OTHER):
        cassette = load_cassette(tmp_path, test)
        assert cassette.steps[0].sentence == test
        stored_screen(cassette, KEY)


def test_who_waits_for_a_recording_goes_on_when_it_has_ended(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    assert not wait_for_recording(folder, 60_000)
    writer = write_whole(tmp_path)
    assert wait_for_recording(folder, 1)  # its time is over
    script = (
        "import sys; from pathlib import Path; from pytest_cua.cassette.store import wait_for_recording;"
        "print('waits', flush=True); print(wait_for_recording(Path(sys.argv[1]), 60_000))"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waits\n"
        writer.commit()
        # whether it still saw the recording is a matter of moments; that it goes on is not
        assert waiting.stdout.readline() in ("True\n", "False\n")
    assert waiting.returncode == 0
    assert not wait_for_recording(folder, 60_000)


def test_what_a_killed_run_left_is_kept_and_gets_into_nothing_else(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    aside = folder / RECORDING
    killed = write_whole(tmp_path, text="killed")
    (aside / HTTP).write_text("old")
    killed._close_stream()
    killed._unlock()  # as the kernel does
    with (aside / FILE).open("ab") as file:
        file.write(b'{"type": "turn", "cut')
    writer = write_whole(tmp_path, text="next")
    assert not (aside / HTTP).exists()
    writer.commit()
    assert load(folder).steps[0].sentence == "next"
    kept = (folder / FAILED / FILE).read_text()
    assert "killed" in kept
    assert kept.endswith("cut")
    assert (folder / FAILED / HTTP).read_text() == "old"
    stored_screen(load(folder / FAILED, partial=True), KEY)


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("")
    with pytest.raises(CassetteUnwritable, match="cannot be written") as caught:
        CassetteWriter(cassette_folder(tmp_path, TEST), tmp_path)
    assert "cua_cassette_dir" in caught.value.hints[0]


def test_a_missing_recording_names_the_command_and_its_neighbours(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CassetteMissing) as caught:
        load_cassette(tmp_path, "tests/test_a.py::test_b[a b]")
    assert "Beside it there are cassettes for test_a." in caught.value.message
    assert caught.value.hints[-1].startswith("record it: pytest --cua-record 'tests/test_a.py::test_b[a b]'")


def test_a_missing_recording_names_what_was_kept_aside(tmp_path: Path) -> None:
    write_whole(tmp_path).keep_aside()
    with pytest.raises(CassetteMissing) as caught:
        load_cassette(tmp_path, TEST)
    assert "pytest-cua accept tests/test_a.py::test_a" in caught.value.hints[0]
    writer = CassetteWriter(cassette_folder(tmp_path, OTHER), tmp_path)
    for line in lines_of(test=OTHER)[:4]:
        writer.write(line)
    writer.keep_aside()
    with pytest.raises(CassetteMissing) as caught:
        load_cassette(tmp_path, OTHER)
    assert "pytest-cua show tests/test_a.py::test_b" in caught.value.hints[-1]


def test_a_recording_of_another_test_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.rename(folder.with_name("test_b"))
    with pytest.raises(CassetteUnreadable, match="was recorded for tests/test_a.py::test_a, not for") as caught:
        load_cassette(tmp_path, OTHER)
    assert f"pytest-cua move {TEST} {OTHER}" in caught.value.hints[0]


# ------------------------------------------------------------------ pictures, shared by all


def test_pictures_that_no_recording_shows_any_more_go_and_others_stay(tmp_path: Path) -> None:
    write_whole(tmp_path, colour="red").commit()
    write_whole(tmp_path, colour="red", test=OTHER).commit()
    write_whole(tmp_path, colour="blue").commit()
    blue = screens.content_key(Image.new("RGB", (8, 8), "blue"))
    assert set(names(tmp_path / SCREENS)) == {f"{key[:2]}/{key}.webp" for key in (KEY, blue)}
    stored_screen(load_cassette(tmp_path, OTHER), KEY)
    write_whole(tmp_path, colour="blue", test=OTHER).commit()
    assert names(tmp_path / SCREENS) == [f"{blue[:2]}/{blue}.webp"]
    assert [path.name for path in (tmp_path / SCREENS).iterdir()] == [blue[:2]]  # and its empty folder


def test_a_picture_that_is_there_is_not_written_again(folder: Path, tmp_path: Path) -> None:
    before = shared_screen(tmp_path, KEY).stat()
    assert write_whole(tmp_path, test=OTHER).commit() == 0
    assert shared_screen(tmp_path, KEY).stat().st_ino == before.st_ino


def test_files_that_no_line_names_go(tmp_path: Path) -> None:
    for number in (1, 2):
        tape = tape_of(tmp_path)
        say(tape, "hello")
        tape.observation("file", "a.bin", "1", bytes([255, number]))
        tape.close(passed=True)
        folder = tape.writer.folder
        assert names(folder / FILES) == [f"{file_key(bytes([255, number]))}.bin"]
        assert stored_file(load(folder), file_key(bytes([255, number]))) == bytes([255, number])
    write_whole(tmp_path).commit()
    assert not (folder / FILES).exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file or directory"),
        (lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "is a pointer of Git LFS"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "is damaged|is not the picture"),
        (
            lambda path: path.write_bytes(screens.to_webp(Image.new("RGB", (8, 8)))),
            "is not the picture that was recorded",
        ),
    ],
)
def test_a_damaged_picture_is_told(folder: Path, tmp_path: Path, damage: Any, message: str) -> None:
    damage(shared_screen(tmp_path, KEY))
    cassette = load_cassette(tmp_path, TEST)
    with pytest.raises(CassetteUnreadable, match=message) as caught:
        stored_screen(cassette, KEY)
    assert caught.value.hints


# ------------------------------------------------------------------ files beside it


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A recording with its HTTP calls and its page."""
    tape = tape_of(tmp_path)
    say(tape, "hello")
    (tape.writer.aside / HTTP).write_text("interactions: []\n")
    tape.close(passed=True)
    return tape.writer.folder


def test_the_footer_names_the_files_beside_it(beside: Path, tmp_path: Path) -> None:
    assert names(beside) == sorted([FILE, HTTP, PAGE])
    footer = load_cassette(tmp_path, TEST).footer
    assert footer["files"] == {name: digest_of(beside / name) for name in (HTTP, PAGE)}
    assert footer["outcome"] == "passed"
    assert "hello" in (beside / PAGE).read_text()


@pytest.mark.parametrize("name", [HTTP, PAGE])
def test_a_file_beside_it_that_was_edited_is_told(beside: Path, tmp_path: Path, name: str) -> None:
    good = (beside / name).read_bytes()
    (beside / name).write_bytes(good + b"x")
    with pytest.raises(CassetteUnreadable, match="is not what was recorded: it was edited") as caught:
        load_cassette(tmp_path, TEST)
    assert str(beside / name) in caught.value.message
    assert caught.value.hints[0].startswith("restore it: git checkout" if name == HTTP else "write it anew")
    for damage, message in ((good.replace(b"\n", b"\r\n"), "CR LF"), (b"<<<<<<< HEAD\n" + good, "line 1 is a merge")):
        (beside / name).write_bytes(damage)
        with pytest.raises(CassetteUnreadable, match=message):
            load_cassette(tmp_path, TEST)


def test_http_calls_that_are_missing_are_told_and_a_page_is_not(beside: Path, tmp_path: Path) -> None:
    (beside / PAGE).unlink()
    load_cassette(tmp_path, TEST)
    (beside / HTTP).unlink()
    with pytest.raises(CassetteUnreadable, match="the HTTP calls of .* is missing"):
        load_cassette(tmp_path, TEST)


def test_http_calls_that_the_footer_does_not_name_are_of_another_recording(folder: Path, tmp_path: Path) -> None:
    (folder / HTTP).write_text("interactions: []\n")
    with pytest.raises(CassetteUnreadable, match="is of another recording"):
        load_cassette(tmp_path, TEST)


def test_a_recording_without_http_calls_takes_away_those_of_the_old_one(beside: Path, tmp_path: Path) -> None:
    tape = tape_of(tmp_path)
    say(tape, "again")
    tape.close(passed=True)
    assert names(beside) == sorted([FILE, PAGE])
    load_cassette(tmp_path, TEST)


def test_a_reader_finishes_what_a_killed_swap_left(beside: Path, tmp_path: Path) -> None:
    aside = beside / RECORDING
    aside.mkdir()
    for name in (HTTP, PAGE):
        (beside / name).replace(aside / name)
    (beside / PAGE).write_text("of the old one")
    load_cassette(tmp_path, TEST)
    assert names(beside) == sorted([FILE, HTTP, PAGE])
    finish_swap(beside)  # nothing is left to do
    load_cassette(tmp_path, TEST)


def test_git_is_told_to_leave_recordings_alone(tmp_path: Path) -> None:
    write_whole(tmp_path).commit()
    assert (tmp_path / ".gitattributes").read_text() == GIT_ATTRIBUTES
    (tmp_path / ".gitattributes").write_text("*.py text")
    write_git_attributes(tmp_path)
    write_git_attributes(tmp_path)
    assert (tmp_path / ".gitattributes").read_text() == "*.py text\n" + GIT_ATTRIBUTES
    for name in (FILE, HTTP, PAGE, "*.webp", "*.bin"):
        assert f"\n{name} -text -merge" in GIT_ATTRIBUTES


# ------------------------------------------------------------------ the tape


def test_the_header_waits_for_the_first_reply_and_lines_wait_for_the_header(tmp_path: Path) -> None:
    tape = tape_of(tmp_path, model_endpoint="nobody yet")
    tape.observation("file", "a.txt", "1", b"seen")
    assert not tape.has_replies
    assert (tape.writer.aside / FILE).read_bytes() == b""
    tape.replied("other: gateway.example")
    tape.replied("anthropic")
    assert tape.endpoint == "other: gateway.example"
    lines = load(tape.writer.aside, partial=True).lines
    assert [line["type"] for line in lines] == ["header", "observation"]
    assert lines[0]["model_endpoint"] == "other: gateway.example"
    tape.writer.destroy()


def test_a_tape_on_which_nothing_is_leaves_nothing(tmp_path: Path) -> None:
    for passed in (True, False):
        assert tape_of(tmp_path).close(passed=passed) is None
        assert not cassette_folder(tmp_path, TEST).exists()


def test_parameters_are_stored_once_and_a_thread_with_its_turn(tmp_path: Path) -> None:
    tape, history = tape_of(tmp_path), History()
    tape.replied("scripted")
    tape.write({"type": "conversation", "conversation": 1, "client": "A"})
    for turn, thread in enumerate(
        [{"type": "create"}, {"type": "continue", "previous_message_id": "m1"}, None], start=1
    ):
        more = {"thread": thread} if thread else {}
        asked = Request(
            "post", "/v1/messages", {"model": "m", "b": 1, **more}, [{"role": "user", "content": f"{turn}"}]
        )
        tape.turn({"conversation": 1, "turn": turn}, history, asked, Reply(200, {}), waited_ms=1, attempts=[])
    asked = Request("post", "/v1/messages", {"b": 1, "model": "m"}, [])
    tape.turn({"conversation": 1, "turn": 4}, history, asked, Reply(200, {}), waited_ms=1, attempts=[])
    tape.close(passed=True)
    cassette = load_cassette(tmp_path, TEST)
    assert [line["value"] for line in cassette.lines if line["type"] == "params"] == [{"model": "m", "b": 1}]
    threads = [turn.params.get("thread") for turn in cassette.conversations[0].turns]
    assert threads == [{"type": "create"}, {"type": "continue", "previous_message_id": "m1"}, None, None]


def test_readings_are_kept_by_their_kind(tmp_path: Path) -> None:
    tape = tape_of(tmp_path)
    say(tape, "hello")
    long = "ä" * 4000
    for value in (None, b"text", b"\xff", long.encode(), PICTURE, [{"title": "a"}]):
        tape.observation("file", "a", "1", value)
    tape.close(passed=True)
    cassette = load_cassette(tmp_path, TEST)
    kept = [line["value"] for line in cassette.observations]
    assert kept[0] == {"missing": True}
    assert kept[1] == {"text": "text"}
    assert kept[2] == {"file": file_key(b"\xff"), "bytes": 1}
    assert kept[3] == {"file": file_key(long.encode()), "bytes": 8000}
    assert kept[4] == {"screen": KEY}
    assert kept[5] == {"json": [{"title": "a"}]}
    assert stored_file(cassette, kept[3]["file"]) == long.encode()
    stored_screen(cassette, KEY)


def test_the_tape_of_a_test_that_failed_is_kept_aside(tmp_path: Path) -> None:
    tape = tape_of(tmp_path)
    say(tape, "hello")
    kept = tape.close(passed=False)
    assert kept == tape.writer.folder / FAILED
    assert load(kept).footer["outcome"] == "failed"
    assert adopt(tape.writer.folder, tmp_path).footer["outcome"] == "failed"  # as its page says too
    load_cassette(tmp_path, TEST)


# ------------------------------------------------------------------ requests


def test_pictures_are_named_by_their_key_and_stored_once() -> None:
    asked = []

    def image(data: str, media_type: str) -> str:
        asked.append((data, media_type))
        return "k1"

    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    body = {"messages": [{"role": "user", "content": [{"type": "image", "source": source, "cache_control": {"a": 1}}]}]}
    assert plain(body, image)["messages"][0]["content"] == [
        {"type": "image", "cache_control": {"a": 1}, "media_type": "image/png", "screen": "k1"}
    ]
    assert asked == [("AAAA", "image/png")]
    assert plain(body, lambda data, media: None) == body
    assert plain((1, iter([2]), {"a": (3,)}), image) == [1, [2], {"a": [3]}]
    by_url = {"type": "image", "source": {"type": "url", "url": "http://x"}}
    assert plain(by_url, image) == by_url
    document = {"type": "document", "source": {**source, "media_type": "application/pdf"}}
    assert plain(document, image) == document
    assert plain(document, image, lambda data: "f1") == {
        "type": "document",
        "media_type": "application/pdf",
        "file": "f1",
    }


def test_only_new_messages_are_kept() -> None:
    history = History()
    user, reply = {"role": "user", "content": "a"}, [{"type": "text", "text": "b"}]
    assert history.new_messages([user]) == (0, [user])
    history.replied({"content": reply})
    more = [user, {"role": "assistant", "content": reply}, {"role": "user", "content": "c"}]
    assert history.new_messages(more) == (1, [{"role": "assistant", "content": "=reply"}, more[2]])
    edited = [user, {"role": "assistant", "content": "other"}, more[2]]
    assert history.new_messages(edited) == (1, edited[1:])
    delta = [{"role": "user", "content": "d"}]  # a thread held by the server
    assert history.new_messages(delta) == (0, delta)
    assert history.new_messages(delta) == (1, [])


# ------------------------------------------------------------------ secrets


def test_no_secret_gets_into_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse-battery")
    key = "sk-ant-api03-" + "Ab1_-" * 8
    text = f"log in with correct-horse-battery and {key}"
    tape = tape_of(tmp_path, environment={"x": key})
    recorder = Recorder(tape)
    step = Step(number=1, sentence=text)
    tape.run.steps.append(step)
    recorder.begin_step(step)
    tape.replied("scripted")
    asked = Request("post", "/v1/messages", {"model": "m", "system": text}, [{"role": "user", "content": text}])
    answer = Reply(200, {"content": [{"type": "text", "text": text}]}, headers={"request-id": text})
    tape.turn({"step": 1, "turn": 1}, History(), asked, answer, waited_ms=1, attempts=[{"status": 529, "error": text}])
    recorder.action(Action(id="a", tool="computer", name="type", input={"text": text}, text=text, focus=text))
    recorder.observation("file", "a.txt", "1", text.encode())
    recorder.observation("file", "long.txt", "1", text.encode() * 100)
    recorder.observation("file", "a.bin", "1", b"\xff" + text.encode())
    recorder.observation("windows", "", "1", [{"title": text}])
    step.outcome, step.summary, step.observations = "done", text, [text]
    recorder.end_step(step)
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    delta = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in pieces]
    say(tape, text, Reply(200, events=[[1, f"event: x\ndata: {json.dumps(d)}\n\n"] for d in delta]))
    tape.close(passed=True)
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {FILE, PAGE} <= set(files)
    assert b"[redacted SHOP_TOKEN]" in files[FILE]
    for raw in files.values():
        assert b"correct-horse" not in raw
        assert key.encode() not in raw
    events = load_cassette(tmp_path, TEST).conversations[0].turns[0].events
    assert events is not None
    said = "".join(json.loads(event.split("data: ")[1])["delta"]["text"] for _, event in events)
    assert said == redact_text(text, environment_secrets())
    assert len(events) == len(pieces)


def test_a_secret_that_came_in_by_another_way_removes_the_recording(tmp_path: Path) -> None:
    Secret("correct-horse-battery", name="SHOP_TOKEN")
    tape = tape_of(tmp_path)
    say(tape, "hello")
    (tape.writer.aside / HTTP).write_text("token: correct-horse-battery\n")
    with pytest.raises(SecretLeaked, match="SHOP_TOKEN") as caught:
        tape.close(passed=True)
    assert "correct-horse" not in str(caught.value)
    assert names(tmp_path) == []


def test_only_values_of_telling_names_and_some_length_are_secrets() -> None:
    environ = {
        "API_KEY": "0123456789",
        "my_password": "hunter2hunter2",
        "SHORT_TOKEN": "abc",
        "SSH_KEY": "/home/me/.ssh/id",
        "SECRET_URL": "https://vault.example",
        "PATHS": "0123456789",
        "KEYCLOAK_REALM": "customers",
        "PWD": "/no/such/folder/here",
        "DB_PASSWORD": "postgres",
        "DB_PASS": "a long one",
        "AWS_SECRET_ACCESS_KEY": "/bPxRfiCYEXAMPLEKEY",
        "GITHUB_PAT": "0123456789ab",
        "PROXY_SECRET": "https://user:word@vault.example",
    }
    known = {"API_KEY", "my_password", "DB_PASS", "AWS_SECRET_ACCESS_KEY", "GITHUB_PAT", "PROXY_SECRET"}
    assert set(environment_secrets(environ).values()) == known


def test_a_secret_is_found_as_it_stands_in_addresses_and_in_json() -> None:
    found = environment_secrets({"A_TOKEN": "q+Tok/en=998877", "B_KEY": "line one\nline two"})
    for text in ("http://x/?t=q%2BTok%2Fen%3D998877", '{"key": "line one\\nline two"}'):
        assert "[redacted " in redact_text(text, found)
        assert "998877" not in redact_text(text, found) and "line two" not in redact_text(text, found)


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    found = environment_secrets({"A_TOKEN": "12345678", "B_TOKEN": "12345678-and-more"})
    assert "and-more" not in redact_text("x 12345678-and-more y", found)


def test_keys_are_known_by_their_shape() -> None:
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghij"
    for secret in ("sk-ant-api03-abcdefgh", "ghp_" + "a" * 36, "AKIAABCDEFGHIJKLMNOP", jwt):
        assert secret not in redact_text(f"the key {secret}, it is", {})
        assert redact({"a": [secret]}, {}) != {"a": [secret]}
    assert redact("sk-ant-", {}) == "sk-ant-"


# ------------------------------------------------------------------ strange texts


def test_lone_surrogates_and_strange_line_ends_survive(tmp_path: Path) -> None:
    text = "a\ud800b\u2028c\u2029d\x85e"
    write_whole(tmp_path, text=text).commit()
    folder = cassette_folder(tmp_path, TEST)
    raw = (folder / FILE).read_bytes()
    assert raw.count(b"\n") == len(lines_of())
    assert len(raw.decode().splitlines()) >= len(lines_of())
    assert load(folder).steps[0].sentence == text


def test_the_page_for_reviewers_takes_any_text(tmp_path: Path) -> None:
    tape = tape_of(tmp_path)
    say(tape, "a\ud800b <script>\u2028")
    tape.close(passed=True)
    page = (tape.writer.folder / PAGE).read_text()
    assert "a\\ud800b &lt;script>" in page
    load_cassette(tmp_path, TEST)


def test_a_disk_that_is_full_is_remembered_whoever_swallows_it(tmp_path: Path) -> None:
    tape = tape_of(tmp_path)
    tape.replied("scripted")
    with Path("/dev/full").open("wb") as full:
        tape.writer._stream.close()
        tape.writer._stream = full
        with pytest.raises(CassetteUnwritable, match="No space left"):
            tape.write({"type": "step", "step": 1})
        assert isinstance(tape.latch.error, CassetteUnwritable)
        with pytest.raises(OSError, match="No space"):
            full.close()


def test_what_a_killed_run_left_is_looked_through_before_it_is_adopted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = write_whole(tmp_path, text="with correct-horse-battery in it").keep_aside()
    assert kept is not None
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse-battery")
    with pytest.raises(SecretLeaked, match="SHOP_TOKEN") as caught:
        adopt(folder, tmp_path)
    assert "correct-horse" not in str(caught.value)
    assert not kept.exists()
    assert load(folder).steps[0].sentence == "hello"
