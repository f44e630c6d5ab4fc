"""The cassette without a desktop: lines that notice every change, files that are never lost, names that never meet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import FILE, canonical, load, seal, to_text
from pytest_cua.cassette.match import first_difference, harness_view
from pytest_cua.cassette.recorder import Conversation, Recorder, plain
from pytest_cua.cassette.redact import environment_secrets, redact
from pytest_cua.cassette.store import (
    FAILED,
    RECORDING,
    CassetteWriter,
    adopt,
    cassette_folder,
    load_cassette,
    prune_unreferenced,
)
from pytest_cua.errors import BadArgument, CassetteMissing, CassetteUnreadable, CassetteUnwritable
from pytest_cua.trace import Action, Run, Step

TEST = "tests/test_a.py::test_a"
PICTURE = Image.new("RGB", (8, 8), "red")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
        {"type": "end", "step": 1, "outcome": "done", "summary": text},
        {
            "type": "observation",
            "number": 1,
            "after_step": 1,
            "desktop": "1",
            "kind": "file",
            "subject": "a.txt",
            "value": {"text": text},
        },
        {"type": "footer", "steps": 1, "turns": 1, "actions": 1, "observations": 1},
    ]


def write_whole(folder: Path, **options: Any) -> CassetteWriter:
    writer = CassetteWriter(folder)
    key = screens.content_key(PICTURE)
    writer.add_screen(key, screens.to_webp(PICTURE))
    for line in lines_of(picture=key, **options):
        writer.write(line)
    return writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good recording."""
    folder = cassette_folder(tmp_path, TEST)
    write_whole(folder).commit()
    return folder


def parsed(raw: bytes) -> list[Any]:
    return [json.loads(line) for line in raw.split(b"\n") if line.strip()]


# ------------------------------------------------------------------ lines


def test_each_digest_depends_on_every_line_before_it() -> None:
    first, second = seal({"type": "a"}, ""), seal({"type": "b"}, "")
    assert first["sum"] != second["sum"]
    assert seal({"type": "c"}, first["sum"])["sum"] != seal({"type": "c"}, second["sum"])["sum"]
    assert seal(first, "") == first  # an own sum is no part of what is summed
    assert len(first["sum"]) == 16


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@quick
@given(st.dictionaries(st.text(), json_values, max_size=5))
@example({"a": "\u2028 \u2029 \x85 \x0b \x0c \x1c"})
@example({"a": "\ud800 lone", "\udfff": 1})
@example({"a": '"\\\n\r\t\0'})
def test_a_line_is_one_line_and_gives_back_what_it_was_made_of(value: dict[str, Any]) -> None:
    sealed = seal({"type": "x", "value": value}, "0")
    raw = to_text(sealed).encode()
    assert b"\n" not in raw
    assert b"\r" not in raw
    assert not any(mark in raw.decode() for mark in "\u2028\u2029")
    again = json.loads(raw)
    assert again == sealed
    assert seal(again, "0") == sealed


@quick
@given(data=st.data())
def test_a_changed_line_is_noticed(folder: Path, data: st.DataObject) -> None:
    good = (folder / FILE).read_bytes()
    lines = parsed(good)
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.sampled_from(sorted(lines[number])))
    other = data.draw(json_values)
    if canonical(lines[number][place]) == canonical(other):
        return
    lines[number][place] = other
    try:
        (folder / FILE).write_text("".join(to_text(line) + "\n" for line in lines), encoding="utf-8")
        with pytest.raises(CassetteUnreadable):
            load(folder)
    finally:
        (folder / FILE).write_bytes(good)


@quick
@given(data=st.data())
def test_a_changed_byte_is_noticed_or_changes_nothing(folder: Path, data: st.DataObject) -> None:
    good = (folder / FILE).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        (folder / FILE).write_bytes(bad)
        try:
            load(folder)
        except CassetteUnreadable as error:
            assert str(folder / FILE) in error.message
            assert error.hints
        else:
            assert parsed(bad) == parsed(good)
    finally:
        (folder / FILE).write_bytes(good)


def test_lines_left_out_doubled_or_exchanged_are_noticed(folder: Path) -> None:
    good = (folder / FILE).read_bytes().splitlines(keepends=True)
    for at in range(len(good) - 1):
        without = good[:at] + good[at + 1 :]
        doubled = good[: at + 1] + good[at:]
        exchanged = [*good[:at], good[at + 1], good[at], *good[at + 2 :]]
        for lines in (without, doubled, exchanged):
            (folder / FILE).write_bytes(b"".join(lines))
            with pytest.raises(CassetteUnreadable):
                load(folder)


def test_a_file_cut_at_any_byte_is_never_loaded(folder: Path) -> None:
    good = (folder / FILE).read_bytes()
    for length in range(len(good.rstrip(b"\n"))):
        (folder / FILE).write_bytes(good[:length])
        with pytest.raises(CassetteUnreadable):
            load(folder)


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda raw: b"", "it is empty"),
        (lambda raw: b"<<<<<<< HEAD\n" + raw, "line 1 is a merge conflict"),
        (lambda raw: raw.replace(b"\n", b"\n=======\n", 1), "line 2 is a merge conflict"),
        (lambda raw: b"[1]\n" + raw, "line 1 is no JSON object"),
        (lambda raw: raw.partition(b"\n")[2], "its first line is no header"),
        (
            lambda raw: raw.replace(b'"format": 1', b'"format": 99'),
            "it has format 99 and this version of pytest-cua reads format 1",
        ),
        (lambda raw: raw.replace(b'"type": "end"', b'"type": "finis"'), "line 6 has the unknown type 'finis'"),
        (lambda raw: raw[: raw.rindex(b'{"type": "footer"')], "it has no footer"),
        (lambda raw: b"\xff\xfe\x00" + raw, "line 1 is no whole JSON object"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_the_next_step(folder: Path, edit: Any, complaint: str) -> None:
    (folder / FILE).write_bytes(edit((folder / FILE).read_bytes()))
    with pytest.raises(CassetteUnreadable) as caught:
        load(folder)
    assert complaint in caught.value.message
    assert any("git checkout" in hint or "--cua-mode=record" in hint for hint in caught.value.hints)


def test_a_whole_recording_is_read_back(folder: Path) -> None:
    cassette = load_cassette(folder.parents[2], TEST)
    assert [step.sentence for step in cassette.steps] == ["hello"]
    assert cassette.steps[0].turns[0].params == {"model": "m", "max_tokens": 3}
    assert isinstance(cassette.steps[0].turns[0].actions["t1"], Action)
    assert cassette.steps[0].end["outcome"] == "done"
    assert cassette.referenced() == {screens.content_key(PICTURE)}
    assert cassette.step(2) is None


# ------------------------------------------------------------------ folders


def test_a_folder_mirrors_the_path_of_the_test(tmp_path: Path) -> None:
    assert cassette_folder(tmp_path, "tests/shop/test_order.py::TestCart::test_total") == (
        tmp_path / "tests/shop/test_order/TestCart.test_total"
    )
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


# ------------------------------------------------------------------ writing


def test_nothing_is_taken_for_a_recording_before_it_is_committed(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    writer = write_whole(folder)
    assert not (folder / FILE).exists()
    writer.commit()
    assert sorted(path.name for path in folder.iterdir()) == [FILE, "screens"]
    assert load(folder).footer["turns"] == 1


def test_a_recording_that_cannot_be_replayed_never_replaces_one_that_can(folder: Path) -> None:
    before = (folder / FILE).read_bytes()
    writer = CassetteWriter(folder)
    for line in lines_of(text="new")[:-1]:  # no footer
        writer.write(line)
    with pytest.raises(CassetteUnreadable):
        writer.commit()
    assert (folder / FILE).read_bytes() == before


def test_what_failed_is_kept_and_can_be_adopted(folder: Path) -> None:
    kept = write_whole(folder, text="kept").keep_aside()
    assert kept == folder / FAILED
    assert load(folder).steps[0].sentence == "hello"
    assert (kept / ".gitignore").read_text() == "*\n"
    assert adopt(folder).steps[0].sentence == "kept"
    assert not kept.exists()
    with pytest.raises(CassetteMissing):
        adopt(folder)


def test_a_recording_that_ends_inside_a_step_is_not_adopted(folder: Path) -> None:
    writer = CassetteWriter(folder)
    for line in lines_of(text="half"):
        if line["type"] != "end":
            writer.write(line)
    writer.keep_aside()
    with pytest.raises(CassetteUnreadable, match="ends inside step 1"):
        adopt(folder)
    assert load(folder).steps[0].sentence == "hello"


def test_what_asked_no_model_is_not_kept(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    writer = CassetteWriter(folder)
    writer.write(lines_of()[0])
    assert writer.keep_aside() is None
    assert not folder.exists()
    writer.write({"type": "observation"})  # a fixture that goes on
    writer.add_screen("0" * 32, b"")
    assert not folder.exists()


def test_two_writers_of_one_test_are_refused_and_the_first_is_unharmed(folder: Path) -> None:
    first = write_whole(folder, text="first")
    for _ in range(2):
        with pytest.raises(CassetteUnwritable, match="Another run is recording this test"):
            CassetteWriter(folder)
    first.commit()
    assert load(folder).steps[0].sentence == "first"
    write_whole(folder, text="second").commit()
    assert load(folder).steps[0].sentence == "second"


def test_what_a_killed_run_left_is_kept_and_gets_into_nothing_else(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    aside = folder / RECORDING
    killed = write_whole(folder, text="killed")
    (aside / "http.yaml").write_text("old")
    killed._close_stream()
    killed._unlock()  # as the kernel does
    with (aside / FILE).open("ab") as file:
        file.write(b'{"type": "turn", "cut')
    writer = write_whole(folder, text="next")
    assert not (aside / "http.yaml").exists()
    writer.commit()
    assert load(folder).steps[0].sentence == "next"
    kept = (folder / FAILED / FILE).read_text()
    assert "killed" in kept
    assert kept.endswith("cut")
    assert (folder / FAILED / "http.yaml").read_text() == "old"


def test_pictures_that_no_line_names_go(folder: Path) -> None:
    (folder / "screens" / "feed.webp").write_bytes(b"x")
    (folder / "files").mkdir()
    (folder / "files" / "dead.bin").write_bytes(b"x")
    assert prune_unreferenced(folder) == 2
    assert [path.stem for path in (folder / "screens").iterdir()] == [screens.content_key(PICTURE)]
    assert not (folder / "files").exists()
    assert prune_unreferenced(folder) == 0


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("")
    with pytest.raises(CassetteUnwritable, match="cannot be written") as caught:
        CassetteWriter(cassette_folder(tmp_path, TEST))
    assert "cua_cassette_dir" in caught.value.hints[0]


def test_a_missing_recording_names_the_command_and_its_neighbours(folder: Path) -> None:
    root = folder.parents[2]
    with pytest.raises(CassetteMissing) as caught:
        load_cassette(root, "tests/test_a.py::test_b[a b]")
    assert "Beside it there are cassettes for test_a." in caught.value.message
    assert caught.value.hints[-1] == "record it: pytest --cua-record 'tests/test_a.py::test_b[a b]'"


def test_a_recording_of_another_test_is_refused(folder: Path) -> None:
    root = folder.parents[2]
    folder.rename(folder.with_name("test_b"))
    with pytest.raises(CassetteUnreadable, match="was recorded for tests/test_a.py::test_a, not for"):
        load_cassette(root, "tests/test_a.py::test_b")


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


def test_only_new_messages_are_kept() -> None:
    conversation = Conversation()
    user, reply = {"role": "user", "content": "a"}, [{"type": "text", "text": "b"}]
    assert conversation.new_messages([user]) == [user]
    conversation.replied({"content": reply})
    more = [user, {"role": "assistant", "content": reply}, {"role": "user", "content": "c"}]
    assert conversation.new_messages(more) == [{"role": "assistant", "content": "=reply"}, more[2]]
    delta = [{"role": "user", "content": "d"}]  # a thread held by the server
    assert conversation.new_messages(delta) == delta


@pytest.mark.parametrize(
    ("recorded", "now", "path", "shown"),
    [
        ({"a": 1}, {"a": 2}, "a", ("1", "2")),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "a[1].b", ("'x'", "'y'")),
        ({"a": 1}, {}, "a", ("1", "(nothing)")),
        ({}, {"a": None}, "a", ("(nothing)", "None")),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]", ("(nothing)", "2")),
        ({"a": "1"}, {"a": 1}, "a", ("'1'", "1")),
    ],
)
def test_the_first_difference_has_a_path_and_both_values(
    recorded: Any, now: Any, path: str, shown: tuple[str, str]
) -> None:
    found = first_difference(recorded, now)
    assert found is not None
    assert (found.path, found.recorded, found.now) == (path, *shown)


def test_long_texts_are_shown_where_they_part() -> None:
    found = first_difference({"t": "a" * 500 + "X" + "b" * 500}, {"t": "a" * 500 + "Y" + "b" * 500})
    assert found is not None
    for text, letter in ((found.recorded, "X"), (found.now, "Y")):
        assert letter in text
        assert len(text) < 130


@quick
@given(json_values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert first_difference(value, json.loads(json.dumps(value))) is None


def test_what_the_harness_does_not_answer_for_is_not_compared() -> None:
    def view(text: str, picture: str, said: str) -> Any:
        result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]}
        content = [result, {"type": "image", "screen": picture}, {"type": "text", "text": "x", "cache_control": {}}]
        return harness_view(
            {"model": "m"}, [{"role": "assistant", "content": said}, {"role": "user", "content": content}]
        )

    assert view("a", "k1", "hi") == view("b", "k2", "ho")
    other = harness_view({"model": "m"}, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u"}]}])
    assert first_difference(view("a", "k", "hi"), other)


# ------------------------------------------------------------------ secrets


def test_no_secret_gets_into_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse-battery")
    key = "sk-ant-api03-" + "Ab1_-" * 8
    folder = cassette_folder(tmp_path, TEST)
    writer = CassetteWriter(folder)
    run = Run(test=TEST, mode="record")
    recorder = Recorder(writer, header={**lines_of()[0], "environment": {"x": key}}, run=run)
    text = f"log in with correct-horse-battery and {key}"
    step = Step(number=1, sentence=text)
    run.steps.append(step)
    recorder.begin_step(step)
    for line in lines_of(text=text)[2:4]:
        recorder._write(line)
    recorder.action(Action(id="a", tool="computer", name="type", input={"text": text}, text=text, focus=text))
    recorder.observation("file", "a.txt", "1", text.encode())
    recorder.observation("windows", "", "1", [{"title": text}])
    step.outcome, step.summary, step.observations = "done", text, [text]
    recorder.end_step(step)
    recorder.close(passed=True)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {FILE, "steps.md"} <= set(files)
    assert b"[redacted SHOP_TOKEN]" in files[FILE]
    for raw in files.values():
        assert b"correct-horse" not in raw
        assert key.encode() not in raw


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
    secrets = environment_secrets({"A_TOKEN": "q+Tok/en=998877", "B_KEY": "line one\nline two"})
    for text in ("http://x/?t=q%2BTok%2Fen%3D998877", '{"key": "line one\\nline two"}'):
        assert "[redacted " in redact(text, secrets)
        assert "998877" not in redact(text, secrets) and "line two" not in redact(text, secrets)


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    secrets = environment_secrets({"A_TOKEN": "12345678", "B_TOKEN": "12345678-and-more"})
    assert "and-more" not in redact("x 12345678-and-more y", secrets)


def test_keys_are_known_by_their_shape() -> None:
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghij"
    for secret in ("sk-ant-api03-abcdefgh", "ghp_" + "a" * 36, "AKIAABCDEFGHIJKLMNOP", jwt):
        assert secret not in redact(f"the key {secret}, it is", {})
        assert redact({"a": [secret]}, {}) != {"a": [secret]}
    assert redact("sk-ant-", {}) == "sk-ant-"


def test_lone_surrogates_and_strange_line_ends_survive(tmp_path: Path) -> None:
    text = "a\ud800b\u2028c\u2029d\x85e"
    folder = cassette_folder(tmp_path, TEST)
    write_whole(folder, text=text).commit()
    raw = (folder / FILE).read_bytes()
    assert raw.count(b"\n") == len(lines_of())
    assert len(raw.decode().splitlines()) >= len(lines_of())
    assert load(folder).steps[0].sentence == text


def test_the_page_for_reviewers_takes_any_text(tmp_path: Path) -> None:
    folder = cassette_folder(tmp_path, TEST)
    writer = write_whole(folder)
    writer.commit()
    writer.write_page("a\ud800b")
    assert (folder / "steps.md").read_text() == "a\\ud800b"
