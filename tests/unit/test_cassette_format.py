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
from pytest_cua.cassette.format import FILE, RecordedTurn, canonical, load, load_file, read_lines, seal, sum_of, to_text
from pytest_cua.cassette.player import stored_file, stored_screen
from pytest_cua.cassette.store import CassetteWriter, cassette_folder, file_key, load_cassette, write_git_attributes
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
        st.builds(lambda id, value: {"type": "tool_use", "id": id, "name": "t", "input": {"a": value}}, text, json_values),
        st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "s"}, text),
    ),
    max_size=3,
)
raw_events = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
replies = st.one_of(
    st.builds(lambda content, id: Reply(200, {"id": id, "type": "message", "content": content}), contents, text),
    st.builds(lambda status, body: Reply(status, body), st.sampled_from([200, 400, 529]), json_values),
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
    said = {"role": "assistant", "content": reply["content"]} if isinstance(reply, dict) and "content" in reply else None
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
        self.tape.write(
            {"type": "step", "step": self.tape.step, "kind": "do", "desktop": "1", "sentence": sentence}
        )

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

        for what in data.draw(st.lists(st.sampled_from(["step", "turn", "c1", "c2", "c3", "look", "act"]), max_size=12)):
            if what == "step" or (what in ("turn", "act") and not sentences):
                sentences.append(data.draw(text))
                teller.step(sentences[-1])
            if what == "turn" or (what == "act" and not teller.told.steps[-1]):
                teller.turn(None, asked)
            if what == "act":
                name = data.draw(text.filter(bool))
                teller.action(
                    Action(id=str(len(teller.told.actions)), tool="computer", name=name, input={"text": name}, text=name)
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
