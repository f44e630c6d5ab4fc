"""The lines of a cassette: what was encoded is what is read, and nothing that happens to the file goes unnoticed."""

from __future__ import annotations

import base64
import io
import itertools
import json
import random
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.diff import differences
from pytest_cua.cassette.format import FILE, RecordedTurn, canonical, load, load_file, read_lines, seal, sum_of, to_text
from pytest_cua.cassette.lanes import Lane
from pytest_cua.cassette.player import stored_file, stored_screen
from pytest_cua.cassette.store import CassetteWriter, cassette_folder, file_key, load_cassette, write_git_attributes
from pytest_cua.cassette.suite import verify
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.wire import CLOSED, History, Reply, Request, plain
from pytest_cua.errors import CassetteUnreadable
from pytest_cua.trace import Action, Run

TEST = "tests/test_a.py::test_a"
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

text = st.text(st.characters(), max_size=12)  # lone surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


def as_json(value: Any) -> Any:
    """The value as JSON can say it: two surrogates that make a pair are one character there."""
    return json.loads(json.dumps(value))


# ------------------------------------------------------------------ one line


def test_each_sum_depends_on_every_line_before_it() -> None:
    first, second = seal({"type": "a"}, ""), seal({"type": "b"}, "")
    assert sum_of(first) != sum_of(second)
    assert sum_of(seal({"type": "c"}, sum_of(first))) != sum_of(seal({"type": "c"}, sum_of(second)))
    assert seal(json.loads(first), "") == first  # an own sum is no part of what is summed
    assert re.fullmatch("[0-9a-f]{16}", sum_of(first))
    assert json.loads(first) == {"type": "a", "sum": sum_of(first)}


@quick
@given(st.dictionaries(text, json_values, max_size=5), st.sampled_from(["", "0" * 16]))
@example({"a": "\u2028 \u2029 \x85 \x0b \x0c \x1c"}, "")
@example({"a": "\ud800 lone", "\udfff": 1}, "")
@example({"a": '"\\\n\r\t\0', "sum": "its own"}, "")
def test_a_line_is_one_line_and_gives_back_what_it_was_made_of(value: dict[str, Any], previous: str) -> None:
    sealed = seal({"type": "x", "value": value}, previous)
    raw = sealed.encode()
    assert b"\n" not in raw
    assert b"\r" not in raw
    assert not any(mark in sealed for mark in "\u2028\u2029")
    again = json.loads(raw)
    assert again == {"type": "x", "value": as_json(value), "sum": sum_of(sealed)}
    assert seal(again, previous) == sealed


@quick
@given(json_values)
def test_equal_values_have_one_canonical_text(value: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(item) for name, item in reversed(value.items())}
        return [turned(item) for item in value] if isinstance(value, list) else value

    assert canonical(turned(value)) == canonical(value)
    assert json.loads(canonical(value)) == as_json(value)


def test_a_line_is_readable_in_a_diff() -> None:
    assert to_text({"type": "step", "sentence": "Größe “2”"}) == '{"type": "step", "sentence": "Größe “2”"}'
    assert to_text({"a": "\ud800ö"}) == '{"a": "\\ud800\\u00f6"}'


# ------------------------------------------------------------------ what is encoded is what is read


@dataclass
class Asked:
    """One request and its reply, as they went over the line."""

    params: dict[str, Any]
    messages: list[Any]
    reply: Reply
    attempts: list[Any]
    waited_ms: float


@dataclass
class Told:
    """What was recorded: for each step and each conversation, its turns."""

    steps: list[list[Asked]] = field(default_factory=list)
    conversations: dict[int, list[Asked]] = field(default_factory=dict)
    observations: list[Any] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)


PICTURES = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]


def base64_of(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


IMAGES: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64_of(picture)}}
    for picture in PICTURES
]
PDF = b"%PDF-1.7 \xff\xfe"
DOCUMENT: dict[str, Any] = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(PDF).decode()},
}
NO_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!no base64"}}

text_blocks = st.builds(lambda words: {"type": "text", "text": words}, text)
user_blocks = st.one_of(
    text_blocks,
    st.sampled_from([*IMAGES, DOCUMENT, NO_PICTURE]),
    st.builds(
        lambda id, content: {"type": "tool_result", "tool_use_id": id, "content": content},
        text,
        st.lists(st.one_of(text_blocks, st.sampled_from(IMAGES)), max_size=2),
    ),
)
users = st.builds(lambda content: {"role": "user", "content": content}, text | st.lists(user_blocks, max_size=3))
assistants = st.builds(
    lambda content: {"role": "assistant", "content": content}, text | st.lists(text_blocks | json_values, max_size=2)
)
contents = st.lists(
    st.one_of(
        text_blocks,
        st.builds(
            lambda id, value: {"type": "tool_use", "id": id, "name": "t", "input": {"a": value}}, text, json_values
        ),
        st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "s"}, text),
    ),
    max_size=3,
)
raw_events = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
replies = st.one_of(
    st.builds(lambda content, id: Reply(200, {"id": id, "type": "message", "content": content}), contents, text),
    st.builds(Reply, st.sampled_from([200, 400, 529]), json_values),
    st.builds(lambda raw: Reply(200, file=raw), st.binary(max_size=20)),
    st.builds(
        lambda events, cut: Reply(200, events=[[at, event] for at, event in enumerate(events)], cut=cut),
        st.lists(raw_events, max_size=4),
        st.sampled_from([None, CLOSED, "ReadError('gone')"]),
    ),
    st.builds(lambda words: Reply(0, body=f"APIConnectionError: {words}"), text),
)
params = st.fixed_dictionaries({"model": st.sampled_from(["m", "n"])}, optional={"system": text, "x": json_values})


@st.composite
def next_messages(draw: st.DrawFn, before: list[Any], reply: Any) -> tuple[list[Any], Any]:
    """The messages of a conversation's next request, and its thread: of each kind that clients send."""
    new = draw(st.lists(users, min_size=1, max_size=2))
    said = (
        {"role": "assistant", "content": reply["content"]} if isinstance(reply, dict) and "content" in reply else None
    )
    match draw(st.sampled_from(["whole", "thread", "edited", "shortened", "the same", "other"])):
        case "whole":
            return [*before, *([said] if said else []), *new], None
        case "thread":
            return new, {"type": "continue", "previous_message_id": draw(text)}
        case "edited" if before:
            at = draw(st.integers(0, len(before) - 1))
            edited = [*before[:at], draw(users), *before[at + 1 :]]
            return [*edited, *([said] if said else []), *new], None
        case "shortened" if before:
            return [*before[draw(st.integers(0, len(before) - 1)) :], *new], None
        case "the same":
            return before, None
        case _:
            return draw(st.lists(users | assistants, max_size=3)), None


class Teller:
    """Records what is drawn, through the objects that a test's recording goes through."""

    def __init__(self, root: Path, test: str = TEST) -> None:
        self.root = root
        self.told = Told()
        writer = CassetteWriter(cassette_folder(root, test), root)
        header = header_line(test=test, model="m", tools=[], prompt_digest="", display={}, environment={})
        self.tape = Tape(writer, header=header, run=Run(test=test, mode="record"))
        self._histories: dict[Any, History] = {}
        self._last: dict[Any, tuple[list[Any], Any]] = {}

    def step(self, sentence: str) -> None:
        self.told.steps.append([])
        self.tape.step = len(self.told.steps)
        self._last.pop("step", None)
        self._histories.pop("step", None)
        self.tape.write({"type": "step", "step": self.tape.step, "kind": "do", "desktop": "1", "sentence": sentence})

    def turn(self, conversation: int | None, asked: Callable[[list[Any], Any], Asked]) -> None:
        """One turn of a conversation, or of the step at hand."""
        key: Any = "step" if conversation is None else conversation
        if conversation is not None and conversation not in self.told.conversations:
            self.told.conversations[conversation] = []
            self.tape.write({"type": "conversation", "conversation": conversation, "client": "Anthropic"})
        turns = self.told.steps[-1] if conversation is None else self.told.conversations[conversation]
        entry = asked(*self._last.get(key, ([], None)))
        messages = plain(entry.messages, self.tape.request_picture, self.tape.request_file)
        history = self._histories.setdefault(key, History())
        where = {"step": self.tape.step} if conversation is None else {"conversation": conversation}
        self.tape.replied("scripted")
        self.tape.turn(
            {**where, "turn": len(turns) + 1},
            history,
            Request("post", "/v1/messages", entry.params, messages),
            entry.reply,
            waited_ms=entry.waited_ms,
            attempts=entry.attempts,
        )
        self._last[key] = (entry.messages, entry.reply.body)
        turns.append(entry)

    def action(self, action: Action) -> None:
        self.told.actions.append(action)
        turn = len(self.told.steps[-1])
        self.tape.write({"type": "action", "step": self.tape.step, "turn": turn, **action.to_json()})

    def close(self) -> Any:
        self.tape.close(passed=True)
        return load_cassette(self.root, self.tape.run.test)


def rebuilt(turns: list[RecordedTurn]) -> Iterator[list[Any]]:
    """The whole messages of each request, put together from what the lines keep of them."""
    before: list[Any] = []
    reply: Any = None
    for turn in turns:
        new = []
        for message in turn.new:
            if message == {"role": "assistant", "content": "=reply"}:
                new.append({"role": "assistant", "content": reply["content"]})
            else:
                new.append(message)
        before = [*before[: turn.keep], *new]
        yield before
        reply = turn.body


def as_kept(data: str, media_type: str = "") -> str | None:
    """The key of a picture or a document among those that are drawn."""
    keys = {image["source"]["data"]: screens.content_key(p) for image, p in zip(IMAGES, PICTURES, strict=True)}
    return {**keys, DOCUMENT["source"]["data"]: file_key(PDF)}.get(data)


def compare(cassette: Any, asked: list[Asked], turns: list[RecordedTurn]) -> None:
    """What was read of one step or conversation against what was told."""
    assert [turn.number for turn in turns] == list(range(1, len(asked) + 1))
    for entry, turn, messages in zip(asked, turns, rebuilt(turns), strict=True):
        assert messages == as_json(plain(entry.messages, as_kept, as_kept))
        assert turn.params == as_json(entry.params)
        assert (turn.status, turn.cut) == (entry.reply.status, entry.reply.cut)
        assert turn.events == as_json(entry.reply.events)
        assert turn.attempts == as_json(entry.attempts)
        assert turn.waited_ms == round(entry.waited_ms)
        if entry.reply.file is not None:
            assert turn.file is not None
            assert stored_file(cassette, turn.file) == entry.reply.file
        elif entry.reply.events is None:
            assert turn.body == as_json(entry.reply.body)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_what_is_encoded_is_what_is_read(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place:
        teller = Teller(Path(place))
        sentences: list[str] = []

        def asked(before: list[Any], reply: Any) -> Asked:
            messages, thread = data.draw(next_messages(before, reply))
            fields = data.draw(params)
            return Asked(
                fields if thread is None else {**fields, "thread": thread},
                messages,
                data.draw(replies),
                data.draw(st.lists(st.fixed_dictionaries({"status": st.just(529), "error": json_values}), max_size=1)),
                data.draw(st.floats(0, 1e6)),
            )

        for what in data.draw(
            st.lists(st.sampled_from(["step", "turn", "c1", "c2", "c3", "look", "act"]), max_size=12)
        ):
            if what == "step" or (what in ("turn", "act") and not sentences):
                sentences.append(data.draw(text))
                teller.step(sentences[-1])
            if what == "turn" or (what == "act" and not teller.told.steps[-1]):
                teller.turn(None, asked)
            if what == "act":
                name = data.draw(text.filter(bool))
                teller.action(
                    Action(
                        id=str(len(teller.told.actions)), tool="computer", name=name, input={"text": name}, text=name
                    )
                )
            elif what == "look":
                teller.told.observations.append(data.draw(json_values))
                teller.tape.observation("windows", "", "1", teller.told.observations[-1] or [])
            elif what.startswith("c"):
                teller.turn(int(what[1]), asked)
        told = teller.told
        if teller.tape._header is not None and not teller.tape._waiting:
            teller.tape.close(passed=True)
            return  # nothing was asked and nothing seen: nothing is kept
        cassette = teller.close()
        for key in cassette.screens():
            stored_screen(cassette, key)
        for key in cassette.files():
            stored_file(cassette, key)
        assert [step.sentence for step in cassette.steps] == as_json(sentences)
        for turns, step in zip(told.steps, cassette.steps, strict=True):
            compare(cassette, turns, step.turns)
        assert [c.number for c in cassette.conversations] == list(told.conversations)
        for conversation in cassette.conversations:
            compare(cassette, told.conversations[conversation.number], conversation.turns)
        found = [action for step in cassette.steps for turn in step.turns for action in turn.actions.values()]
        assert [action.input for action in found] == as_json([action.input for action in told.actions])
        assert [o["value"]["json"] for o in cassette.observations] == as_json([o or [] for o in told.observations])
        counts = (len(told.steps), sum(map(len, told.steps)) + sum(map(len, told.conversations.values())))
        assert (cassette.footer["steps"], cassette.footer["turns"]) == counts


ODD = [
    Reply(200, {"content": [{"type": "text", "text": 5}, {"type": "text"}, 7]}),
    Reply(200, {"content": 5}),
    Reply(200, {"content": None}),
    Reply(200, [1]),
    Reply(200, events=[[0, f"data: {line}\n\n"] for line in ('{"delta": "x"}', '{"delta": {"text": 5}}', "{", "[]")]),
    Reply(200, events=[[0, 'data: {"type": "message_start", "message": 5}\n\n']]),
    Reply(200, events=[[0, 'data: {"type": "content_block_start", "content_block": 5}\n\n']]),
    Reply(200, events=[[0, 'data: {"type": "content_block_delta", "delta": {"type": "text_delta"}}\n\n']]),
]


@pytest.mark.parametrize("reply", ODD)
def test_a_reply_of_an_odd_shape_is_kept_all_the_same(tmp_path: Path, reply: Reply) -> None:
    """A gateway or another endpoint need not answer as the API does, and what was asked was paid for."""
    teller = Teller(tmp_path)
    odd = {"role": "user", "content": [{"type": "text", "text": 5}, 5]}
    teller.turn(1, lambda before, last: Asked({"model": "m"}, [odd], reply, [], 0))
    Lane(1).replied(reply)
    cassette = teller.close()
    compare(cassette, teller.told.conversations[1], cassette.conversations[0].turns)
    assert not differences(cassette, cassette)


def test_what_a_tool_is_given_is_no_picture_and_no_file(tmp_path: Path) -> None:
    given = {"file": "notes.txt", "screen": "main", "before": "noon", "after": "midnight"}
    content = [{"type": "tool_use", "id": "t", "name": "open", "input": given}]
    picture = {"role": "user", "content": [IMAGES[0], DOCUMENT]}
    teller = Teller(tmp_path)
    teller.turn(1, lambda before, last: Asked({"model": "m"}, [picture], Reply(200, {"content": content}), [], 0))
    cassette = teller.close()
    assert cassette.screens() == {screens.content_key(PICTURES[0])}
    assert cassette.files() == {file_key(PDF)}
    assert verify(tmp_path)[0] == []


# ------------------------------------------------------------------ nothing that happens to the file goes unnoticed


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small recording: a line of each kind."""
    root = tmp_path_factory.mktemp("small")
    writer = CassetteWriter(cassette_folder(root, TEST), root)
    header = {"type": "header", "format": 1, "test": TEST, "recorded_at": "2026-01-01T00:00:00+00:00", "model": "m"}
    tape = Tape(writer, header=header, run=Run(test=TEST, mode="record"))
    tape.replied("scripted")
    tape.step = 1
    tape.write({"type": "step", "step": 1, "kind": "do", "desktop": "1", "sentence": "Öffne"})
    message = {"role": "user", "content": "Öffne"}
    reply = Reply(200, {"content": []})
    asked = Request("post", "/v1/messages", {"model": "m"}, [message])
    tape.turn({"step": 1, "turn": 1}, History(), asked, reply, waited_ms=1, attempts=[])
    tape.write({"type": "action", "step": 1, "turn": 1, **Action(id="t", tool="c", name="key", input={}).to_json()})
    tape.write({"type": "end", "step": 1, "outcome": "done", "summary": "ok"})
    tape.write({"type": "flow", "after_step": 1, "flow": "flows.py::f", "title": "F"})
    tape.write({"type": "conversation", "conversation": 1, "client": "A"})
    tape.turn({"conversation": 1, "turn": 1}, History(), asked, reply, waited_ms=1, attempts=[])
    tape.observation("file", "a.txt", "1", b"x")
    tape.close(passed=True)
    return writer.folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with many lines of all lengths."""
    root = tmp_path_factory.mktemp("large")
    teller = Teller(root)
    draw = random.Random(1)
    for number in range(4):
        teller.step(f"Schritt {number}: " + "ä\u2028\ud800\n" * draw.randrange(30))
        for _ in range(5):
            said = Reply(200, {"content": [{"type": "text", "text": "x" * draw.randrange(2000)}]})
            teller.turn(None, lambda before, last, said=said: Asked({"model": "m"}, [*before, *USERS], said, [], 1))
            teller.turn(
                1, lambda before, last: Asked({"model": "n"}, USERS, Reply(200, events=[[1, "data: 1\n\n"]]), [], 1)
            )
    teller.close()
    return (cassette_folder(root, TEST) / FILE).read_bytes()


USERS = [{"role": "user", "content": "ü"}]


def first_line_that_differs(good: bytes, bad: bytes) -> int:
    same = next((at for at, (a, b) in enumerate(zip(good, bad, strict=False)) if a != b), min(len(good), len(bad)))
    return bad.count(b"\n", 0, same) + 1


def complaint(path: Path, bad: bytes) -> str:
    path.write_bytes(bad)
    with pytest.raises(CassetteUnreadable) as caught:
        load_file(path)
    assert str(path) in caught.value.message
    assert caught.value.hints
    return caught.value.message


def check_noticed(path: Path, good: bytes, bad: bytes) -> None:
    """The damage must be noticed, and its line be named."""
    said = complaint(path, bad)
    line = first_line_that_differs(good, bad)
    if line == 1 and ("it has format " in said or "byte order mark" in said):
        return  # these are of the file
    if bad == good[: len(bad)] and bad.endswith(b"\n"):
        assert f"it ends after line {line - 1} without a footer" in said
        return
    assert re.search(rf"\bline {line}\b", said), (line, said)


def byte_damages(good: bytes, at: int) -> Iterator[bytes]:
    """Each kind of damage to the byte at a place."""
    byte = good[at]
    yield good[:at] + good[at + 1 :]  # removed
    for other in {byte ^ 1, byte ^ 0x80, 10, 13, 34} - {byte}:  # changed
        yield good[:at] + bytes([other]) + good[at + 1 :]
    for more in (byte, 10, 0xEF):  # inserted
        yield good[:at] + bytes([more]) + good[at:]
    if at + 1 < len(good) and good[at + 1] != byte:  # swapped
        yield good[:at] + bytes([good[at + 1], byte]) + good[at + 2 :]


@pytest.mark.parametrize("part", range(4))
def test_every_damaged_byte_of_a_small_recording_is_noticed(small: Path, tmp_path: Path, part: int) -> None:
    good = (small / FILE).read_bytes()
    kinds = [line["type"] for line in load(small).lines]
    assert sorted(set(kinds)) == sorted(
        {"header", "params", "step", "turn", "action", "end", "flow", "conversation", "observation", "footer"}
    )
    for at in range(part, len(good), 4):
        for bad in byte_damages(good, at):
            check_noticed(tmp_path / FILE, good, bad)


def test_bytes_after_the_end_are_noticed(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    for more in (b"\n", b" ", b"x", b"\r\n", b"{}\n", b"\0"):
        check_noticed(tmp_path / FILE, good, good + more)


def test_a_file_cut_at_any_byte_is_noticed(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    assert "it is empty" in complaint(tmp_path / FILE, b"")
    for length in range(1, len(good)):
        check_noticed(tmp_path / FILE, good, good[:length])


def test_a_file_cut_at_any_byte_gives_the_lines_before(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    whole = load(small).lines
    for length in range(good.index(b"\n"), len(good)):
        (tmp_path / FILE).write_bytes(good[:length])
        cassette = load(tmp_path, partial=True)
        ended = good[: length + 1].count(b"\n")  # a line is whole without its line end too
        assert cassette.lines == whole[: max(ended, 1)]
        assert cassette.broken


def test_lines_removed_doubled_and_swapped_are_noticed(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    lines = good.splitlines(keepends=True)
    for at, line in enumerate(lines):
        damages = [lines[:at] + lines[at + 1 :], [*lines[: at + 1], *lines[at:]]]
        for other in range(at + 1, len(lines)):
            swapped = list(lines)
            swapped[at], swapped[other] = lines[other], line
            damages += [swapped, [*lines[:at], *lines[at + 1 : other + 1], line, *lines[other + 1 :]]]  # and moved
        for damage in damages:
            check_noticed(tmp_path / FILE, good, b"".join(damage))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_to_a_large_recording_is_noticed(large: bytes, tmp_path: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(large) - 1))
    match data.draw(st.sampled_from(["change", "remove", "insert", "swap", "cut out", "line"])):
        case "change":
            bad = large[:at] + bytes([data.draw(st.integers(0, 255))]) + large[at + 1 :]
        case "remove":
            bad = large[:at] + large[at + 1 :]
        case "insert":
            bad = large[:at] + data.draw(st.binary(min_size=1, max_size=4)) + large[at:]
        case "swap":
            bad = large[:at] + large[at : at + 2][::-1] + large[at + 2 :]
        case "cut out":
            bad = large[:at] + large[at + data.draw(st.integers(1, 3000)) :]
        case _:
            lines = large.splitlines(keepends=True)
            one, other = data.draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
            lines[one] = lines[other]
            bad = b"".join(lines)
    if bad != large:
        check_noticed(tmp_path / FILE, large, bad)


@quick
@given(data=st.data())
def test_an_edited_value_is_noticed(small: Path, tmp_path: Path, data: st.DataObject) -> None:
    """However carefully it was edited: the line is JSON in the same spelling, only with another sum."""
    good = (small / FILE).read_bytes()
    lines = [json.loads(line) for line in good.splitlines()]
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.sampled_from(sorted(lines[number])))
    other = data.draw(json_values)
    if canonical(lines[number][place]) == canonical(other):
        return
    lines[number][place] = other
    check_noticed(tmp_path / FILE, good, "".join(to_text(line) + "\n" for line in lines).encode())


def test_a_line_that_was_sealed_anew_breaks_the_next(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    lines = good.decode().splitlines()
    for at in range(1, len(lines) - 1):
        edited = {**json.loads(lines[at]), "more": 1}
        bad = [*lines[:at], seal(edited, sum_of(lines[at - 1])), *lines[at + 1 :]]
        said = complaint(tmp_path / FILE, "".join(f"{line}\n" for line in bad).encode())
        assert f"line {at + 2} does not carry the digest of its content; it was edited, or a line before it" in said


# ------------------------------------------------------------------ what version control does to it


def other_recording(folder: Path) -> bytes:
    """Of the same test: the sentence is another."""
    lines = [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]
    lines[1]["sentence"] = "Schließe"
    previous, texts = "", []
    for line in lines:
        texts.append(seal(line, previous))
        previous = sum_of(texts[-1])
    return "".join(f"{sealed}\n" for sealed in texts).encode()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (lambda raw: POINTER, "it is a pointer of Git LFS, not the file itself", "git lfs install && git lfs pull"),
        (lambda raw: b"<<<<<<< HEAD\n" + raw, "line 1 is a merge conflict", "git checkout --ours -- "),
        (lambda raw: raw.replace(b"\n", b"\n=======\n", 1), "line 2 is a merge conflict", "--theirs"),
        (lambda raw: raw + b">>>>>>> theirs\n", "is a merge conflict", "--cua-mode=record"),
        (lambda raw: raw.replace(b"\n", b"\n||||||| base\n", 2), "line 2 is a merge conflict", "--ours"),
        (
            lambda raw: raw.replace(b"\n", b"\r\n"),
            "line 1 ends with CR LF: its line ends were converted",
            "git -c core.autocrlf=false checkout -- ",
        ),
        (lambda raw: raw.replace(b"\n", b"\r"), "line 1 ends with CR", "core.autocrlf=false"),
        (lambda raw: b"\xef\xbb\xbf" + raw, "it begins with a byte order mark", "git checkout -- "),
        (lambda raw: raw.decode().encode("utf-16"), "line 1 is no whole JSON object", "git checkout -- "),
        (lambda raw: b"", "it is empty", "git checkout -- "),
        (lambda raw: raw[:-1], "has no line end; the file was cut or edited", "git checkout -- "),
        (lambda raw: raw[: raw.rindex(b'{"type": "footer"')], "without a footer", "--cua-mode=record"),
        (lambda raw: b"[1]\n" + raw, "line 1 is no JSON object", "git checkout -- "),
        (lambda raw: raw.partition(b"\n")[2], "line 1 is no header", "git checkout -- "),
        (
            lambda raw: raw.replace(b'"format": 1', b'"format": 99'),
            "it has format 99 and this version of pytest-cua reads format 1",
            "install a newer pytest-cua",
        ),
        (lambda raw: raw.replace(b'"format": 1', b'"format": 0'), "it has format 0 and", "pytest-cua migrate "),
        (lambda raw: raw.replace(b'"format": 1', b'"format": "x"'), "it has format 'x' and", "--cua-mode=record"),
        (
            lambda raw: raw.replace(b'"type": "end"', b'"type": "fin"'),
            "line 6 has the unknown type 'fin'",
            "git checkout",
        ),
    ],
)
def test_what_happened_to_a_file_is_said_with_the_next_step(
    small: Path, tmp_path: Path, damage: Callable[[bytes], bytes], message: str, hint: str
) -> None:
    path = tmp_path / FILE
    path.write_bytes(damage((small / FILE).read_bytes()))
    with pytest.raises(CassetteUnreadable) as caught:
        load(tmp_path)
    assert caught.value.message.startswith(f"{path} cannot be replayed: ")
    assert message in caught.value.message
    assert any(hint in line for line in caught.value.hints), caught.value.hints
    with pytest.raises(CassetteUnreadable):
        read_lines(path)


def test_two_files_put_together_are_told(small: Path, tmp_path: Path) -> None:
    good = (small / FILE).read_bytes()
    second = good.count(b"\n") + 1
    for bad in (good + good, good + other_recording(small)):
        said = complaint(tmp_path / FILE, bad)
        assert f"line {second} begins another recording; two files were put together" in said


def test_lines_of_two_recordings_never_make_one(small: Path, tmp_path: Path) -> None:
    """As a merge line by line would mix them: every choice of sides but the two whole ones."""
    good, other = (small / FILE).read_bytes().splitlines(), other_recording(small).splitlines()
    assert len(good) == len(other)
    sides = list(itertools.product((0, 1), repeat=len(good) - 1))
    for choice in random.Random(1).sample(sides, 400):
        # the first lines are equal
        lines = [good[0], *((good, other)[side][at] for at, side in enumerate(choice, start=1))]
        path = tmp_path / FILE
        path.write_bytes(b"\n".join(lines) + b"\n")
        if len(set(choice)) == 1:
            load(tmp_path)
            continue
        change = next(at for at, side in enumerate(choice) if side != choice[0]) + 2
        assert f"line {change} does not carry the digest of its content" in complaint(path, path.read_bytes())


def git(folder: Path, *arguments: str, fails: bool = False) -> str:
    quiet = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *quiet, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("attributes", [True, False])
def test_git_itself_mixes_and_converts_nothing_thanks_to_the_attributes(
    small: Path, tmp_path: Path, attributes: bool
) -> None:
    path = tmp_path / FILE
    git(tmp_path, "init")
    git(tmp_path, "config", "core.autocrlf", "true")
    path.write_bytes((small / FILE).read_bytes())
    if attributes:
        write_git_attributes(tmp_path)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    path.unlink()
    git(tmp_path, "checkout", "--", FILE)
    if attributes:
        load(tmp_path)
    else:
        assert "CR LF" in complaint(path, path.read_bytes())
    git(tmp_path, "config", "core.autocrlf", "false")
    for branch, sentence in (("a", "A"), ("b", "B")):
        git(tmp_path, "checkout", "-b", branch, "main")
        path.write_bytes(other_recording(small).replace("Schließe".encode(), sentence.encode()))
        git(tmp_path, "commit", "-am", branch)
    git(tmp_path, "checkout", "a")
    git(tmp_path, "merge", "b", fails=True)
    said = complaint(path, path.read_bytes())
    if attributes:  # one side is there whole; it was made up here, so that its own sum is wrong
        assert b"<<<<" not in path.read_bytes()
        assert "line 2 does not carry the digest" in said
    else:
        assert "line 2 is a merge conflict" in said
