"""`export-vcr`: a part of a cassette as a file that stock vcrpy replays, for who leaves or has other tools to feed.

A cassette holds what is new in each request; vcrpy wants each request whole. So the history is put together again, and
pictures go back into it as base64: the file of a long step is large (50 turns with screenshots: half a gigabyte).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vcr.request import Request as VcrRequest
from vcr.serialize import serialize
from vcr.serializers import yamlserializer

from pytest_cua import screens
from pytest_cua.cassette.format import Cassette, RecordedTurn, load
from pytest_cua.cassette.player import stored_file, stored_screen
from pytest_cua.cassette.redact import REDACTED
from pytest_cua.errors import BadArgument

_API = "https://api.anthropic.com"
_MESSAGES = "/v1/messages"
_JSON = "application/json"


@dataclass
class ExportReport:
    """What was written.

    Attributes:
        target: The file.
        what: The part of the cassette that it holds.
        interactions: How many requests with their replies.
        size: Its size in bytes.
        notes: What a reader should know.
    """

    target: Path
    what: str
    interactions: int = 0
    size: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    def __str__(self) -> str:
        plural = "" if self.interactions == 1 else "s"
        told = f"{self.target}: {self.what}, {self.interactions} interaction{plural}, {self.size:,} bytes"
        return "\n".join([told, *(f"note: {note}" for note in self.notes)])


def export_vcr(
    folder: Path, target: Path, *, step: int | None = None, conversation: int | None = None, force: bool = False
) -> ExportReport:
    """Write a step or a conversation of a cassette as a plain vcrpy cassette.

    Args:
        folder: The folder of the cassette.
        target: The YAML file to be written.
        step: The ordinal of the step.
        conversation: The ordinal of a conversation of the code under test. With neither, the only part there is.
        force: Whether to replace a file.

    Raises:
        BadArgument: There is no such part, or several and none was named, or the target exists.
        CassetteUnreadable: The cassette or a picture of it is damaged.
    """
    cassette = load(folder)
    if target.exists() and not force:
        raise BadArgument(f"{target} exists already.", "choose another name, or replace it with --force")
    what, turns = _part(cassette, step, conversation)
    report = ExportReport(target, what)
    pairs = list(_interactions(cassette, turns, report))
    if not pairs:
        raise BadArgument(f"{what} of {cassette.file} got no reply that a file of vcrpy could hold.")
    requests, replies = zip(*pairs, strict=True)
    text = serialize({"requests": requests, "responses": replies}, yamlserializer)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.part")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(target)
    report.interactions, report.size = len(pairs), len(text.encode())
    if REDACTED.search(text):
        report.note("secrets stay taken out: `[redacted NAME]` stands where one was")
    return report


def _part(cassette: Cassette, step: int | None, conversation: int | None) -> tuple[str, list[RecordedTurn]]:
    parts = {("step", s.number): s.turns for s in cassette.steps}
    parts |= {("conversation", c.number): c.turns for c in cassette.conversations}
    wanted = [(kind, n) for kind, n in (("step", step), ("conversation", conversation)) if n is not None]
    if not wanted and len(parts) == 1:
        wanted = list(parts)
    if len(wanted) != 1 or wanted[0] not in parts:
        held = ", ".join(f"{kind} {number}" for kind, number in parts) or "nothing"
        asked = " and ".join(f"{kind} {number}" for kind, number in wanted) or "no part"
        raise BadArgument(
            f"{asked} was asked for; {cassette.file} holds {held}.", "name one: --step N, --conversation N"
        )
    kind, number = wanted[0]
    return f"{kind} {number}", parts[wanted[0]]


# ---------------------------------------------------------------------- interactions


def _interactions(
    cassette: Cassette, turns: Sequence[RecordedTurn], report: ExportReport
) -> Iterator[tuple[VcrRequest, dict[str, Any]]]:
    whole = _Whole(cassette)
    messages: list[Any] = []
    reply: Any = None
    for turn in turns:
        messages = messages[: turn.keep] + [whole.message(message, reply) for message in turn.new]
        request = _request(turn, whole, messages)
        for attempt in turn.attempts:
            if attempt["status"]:
                yield request, _failed(attempt)
        if turn.status == 0:
            report.note(f"turn {turn.number} is left out: no reply came, which a file of vcrpy cannot say")
        else:
            if turn.cut:
                report.note(f"the stream of turn {turn.number} ends where its recording ended ({turn.cut})")
            yield request, _reply(cassette, turn)
        reply = turn.body.get("content") if isinstance(turn.body, Mapping) else None


class _Whole:
    """Puts back into a request what a cassette keeps beside it: the inverse of `wire.plain`."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._png = cache(self._encoded)  # the same screenshot is in every request that follows

    def message(self, message: Any, reply: Any) -> Any:
        """A message whole; `=reply` is what Claude said last."""
        if isinstance(message, Mapping) and message.get("content") == "=reply":
            message = {**message, "content": reply}
        return self.value(message)

    def value(self, value: Any) -> Any:
        """Any part of a request."""
        if isinstance(value, Mapping):
            rest = {name: self.value(item) for name, item in value.items()}
            if value.get("type") == "image" and "screen" in value:
                return self._with_source(rest, "screen", "image/png", self._png(value["screen"]))
            if value.get("type") == "document" and "file" in value:
                data = base64.b64encode(stored_file(self._cassette, value["file"])).decode()
                return self._with_source(rest, "file", value["media_type"], data)
            return rest
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    @staticmethod
    def _with_source(block: dict[str, Any], name: str, media_type: str, data: str) -> dict[str, Any]:
        rest = {key: item for key, item in block.items() if key not in (name, "media_type")}
        return {**rest, "source": {"type": "base64", "media_type": media_type, "data": data}}

    def _encoded(self, key: str) -> str:
        return base64.b64encode(screens.to_png(stored_screen(self._cassette, key))).decode()


def _request(turn: RecordedTurn, whole: _Whole, messages: list[Any]) -> VcrRequest:
    body = {**whole.value(dict(turn.params)), "messages": messages} if messages else whole.value(dict(turn.params))
    headers = {"accept": _JSON}
    if body:
        headers["content-type"] = _JSON
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace") if body else None
    return VcrRequest(turn.method.upper(), f"{_API}{turn.path or _MESSAGES}", data, headers)


def _reply(cassette: Cassette, turn: RecordedTurn) -> dict[str, Any]:
    headers = {name: [value] for name, value in turn.headers.items()}
    if turn.events is not None:
        headers.setdefault("content-type", ["text/event-stream; charset=utf-8"])
        body = "".join(text for _, text in turn.events).encode("utf-8", "surrogateescape")
    elif turn.file:
        body = stored_file(cassette, turn.file)
    elif isinstance(turn.body, str):
        headers.setdefault("content-type", ["text/plain; charset=utf-8"])
        body = turn.body.encode("utf-8", "surrogateescape")
    else:
        headers.setdefault("content-type", [_JSON])
        body = json.dumps(turn.body).encode()
    return {
        "status": {"code": turn.status, "message": _words(turn.status)},
        "headers": headers,
        "body": {"string": body},
    }


def _failed(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A reply after which the SDK asked again; a replay need not wait as long as the recording did."""
    error = attempt.get("error")
    body = error if isinstance(error, str) else json.dumps(error)
    status = int(attempt["status"])
    return {
        "status": {"code": status, "message": _words(status)},
        "headers": {"content-type": [_JSON], "retry-after-ms": ["1"]},
        "body": {"string": body.encode("utf-8", "surrogateescape")},
    }


def _words(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""  # 529, with which an overloaded API answers, is in no standard
