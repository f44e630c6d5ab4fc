"""Which request continues which conversation, when the code under test has several at once.

A client may be used by threads and tasks at the same time, in another order on each run. So what tells conversations
apart is what is asked, never when: a request that repeats the history of a conversation, or continues its thread,
belongs to it; any other begins one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_cua.cassette.format import RecordedConversation, canonical
from pytest_cua.cassette.match import Names
from pytest_cua.cassette.packing import event_data
from pytest_cua.cassette.wire import History, Reply, Request, common_start


@dataclass
class Lane:
    """One conversation of a client, as it goes on.

    Attributes:
        recorded: The recording that answers it; None while recording.
        last_message: The id of the last reply, by which a thread is continued.
        said: What the last reply said, as `said_in` gives it.
        heard: What each reply so far said.
        began: How many messages its first request had: an answer among those, such as an example, is none of ours.
        attempts: Replies to the request at hand after which the SDK asks again.
    """

    number: int
    history: History = field(default_factory=History)
    sent: list[str] = field(default_factory=list)  # the messages of the last request, as `_unmarked` gives them
    turn: int = 0
    recorded: RecordedConversation | None = None
    last_message: str | None = None
    said: Any = None
    heard: list[Any] = field(default_factory=list)
    began: int = 0
    attempts: list[Any] = field(default_factory=list)

    def replied(self, reply: Reply, named: Callable[[Any], Any] = lambda value: value) -> None:
        """Note what the next request of this conversation will repeat, its values named as they are in requests."""
        message = reply.body if reply.events is None else message_of(reply.events)
        if isinstance(message, Mapping):
            self.last_message = message.get("id")
            self.said = said_in(named(message.get("content")))
            self.heard.append(self.said)

    def likeness(self, texts: list[str], messages: list[Any]) -> tuple[bool, int]:
        """How much of this conversation a request repeats: whether its last reply follows, and how many messages.

        None at all when it repeats no reply: many prompts begin alike.
        """
        same = common_start(self.sent, texts)
        answers = [message for message in messages[self.began :] if _is_answer(message)]
        if not same or not any(said_in(answer.get("content")) in self.heard for answer in answers):
            return False, 0
        follows = messages[same] if same == len(self.sent) and same < len(messages) else {}
        return _is_answer(follows) and said_in(follows.get("content")) == self.said, same


def _is_answer(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def _unmarked(message: Any) -> str:
    """A message without its cache breakpoints, which move on from request to request."""
    return canonical(_without_marks(message))


def _without_marks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_marks(item) for name, item in value.items() if name != "cache_control"}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def said_in(content: Any) -> Any:
    """What a message says, however it is written: its text, and the ids of its tool calls."""
    if isinstance(content, str):
        return content, ()
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return text, tuple(block.get("id") for block in blocks if block.get("type") == "tool_use")


def message_of(events: list[Any]) -> dict[str, Any]:
    """The id and the content of a streamed message, as far as `said_in` needs it."""
    found, blocks = None, []
    for _, text in events:
        match event_data(text):
            case {"type": "message_start", "message": {"id": id}}:
                found = id
            case {"type": "content_block_start", "content_block": {**block}}:
                blocks.append(block)
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(words)}} if blocks:
                blocks[-1]["text"] = str(blocks[-1].get("text", "")) + words
    return {"id": found, "content": blocks}


class Lanes:
    """All conversations of the clients of one test."""

    def __init__(self) -> None:
        self.names = Names()
        self.ended = threading.Event()  # the test has
        self.lanes: list[Lane] = []
        self.lock = threading.RLock()
        self._underway: dict[str, tuple[Lane, int, tuple[int, list[Any]]]] = {}

    def place(
        self, request: Request, call: str, *, again: bool = False
    ) -> tuple[Lane, int, tuple[int, list[Any]], bool]:
        """The conversation of a request, its turn, which messages are new, and whether the conversation is.

        Args:
            request: What is asked.
            call: The same for all attempts of one call, which are one turn.
            again: Whether this is not the first of them.
        """
        with self.lock:
            if again and call in self._underway:
                return *self._underway[call], False
            found = self._find(request)
            lane = found or Lane(len(self.lanes) + 1, began=len(request.messages))
            if found is None:
                self.lanes.append(lane)
            lane.turn += 1
            lane.sent = [_unmarked(message) for message in request.messages]
            placed = (lane, lane.turn, lane.history.new_messages(request.messages))
            if call:
                self._underway[call] = placed
            return *placed, found is None

    def is_underway(self, call: str) -> bool:
        """Whether the call was asked, and not answered."""
        with self.lock:
            return call in self._underway

    def done(self, call: str) -> None:
        """The call has its reply."""
        with self.lock:
            self._underway.pop(call, None)

    def _find(self, request: Request) -> Lane | None:
        thread = request.params.get("thread")
        if isinstance(thread, Mapping) and thread.get("previous_message_id"):
            wanted = thread["previous_message_id"]
            return next((lane for lane in self.lanes if lane.last_message == wanted), None)
        if not any(_is_answer(message) for message in request.messages):
            return None  # nothing was answered yet
        texts = [_unmarked(message) for message in request.messages]
        ranked = [(*lane.likeness(texts, request.messages), -lane.number, lane) for lane in self.lanes]
        best = max(ranked, key=lambda found: found[:3], default=None)
        return best[3] if best is not None and best[1] else None
