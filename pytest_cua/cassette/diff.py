"""Two recordings against each other, in words: what a reviewer of a new recording asks for."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_cua.cassette.format import Cassette, RecordedStep, RecordedTurn
from pytest_cua.cassette.match import word_diff
from pytest_cua.cassette.packing import event_data
from pytest_cua.cassette.store import HTTP

_UNCOMPARED = ("sum", "recorded_at", "type")
_OF_ONE_RUN = ("id", "tool_use_id", "signature", "usage")  # of messages


def differences(first: Cassette, second: Cassette) -> list[str]:
    """How two recordings differ, as a unified diff of their words; empty when they do not.

    Compared are headers (without the time), parameters of requests, sentences, what Claude said and did, the pictures
    by their key, outcomes and observations, what the code under test asked a model, and its HTTP calls; ids and
    durations are not.
    """
    return [
        *_unified(list(_words(first)), list(_words(second)), first.file, second.file),
        *_prompts(first, second),
        *_unified(_http(first), _http(second), first.folder / HTTP, second.folder / HTTP),
    ]


def _unified(first: list[str], second: list[str], one: Path, two: Path) -> Iterator[str]:
    return difflib.unified_diff(first, second, str(one), str(two), lineterm="", n=2)


def _http(cassette: Cassette) -> list[str]:
    """The lines of the HTTP calls that belong to a recording."""
    path = cassette.folder / HTTP
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _words(cassette: Cassette) -> Iterator[str]:
    for name, value in cassette.header.items():
        if name not in _UNCOMPARED:
            yield f"{name}: {value if isinstance(value, str) else json.dumps(value)}"
    for step in cassette.steps:
        yield from _step(step)
    for conversation in cassette.conversations:
        yield f"conversation {conversation.number} ({conversation.client})"
        for turn in conversation.turns:
            yield f"  turn {turn.number} asks {turn.method.upper()} {turn.path}: {_json(turn.new)}"
            yield from _turn(turn)
            yield from _called(turn)
    for flow in cassette.flows:
        yield f"flow {flow['flow']} after step {flow['after_step']}"
    for seen in cassette.observations:
        yield f"looked at {seen['kind']} {seen['subject']} after step {seen['after_step']}: {json.dumps(seen['value'])}"


def _step(step: RecordedStep) -> Iterator[str]:
    yield f"step {step.number} ({step.kind}, desktop {step.desktop}, {step.phase}): {step.sentence}"
    for turn in step.turns:
        yield from _turn(turn)
    if step.end:
        yield f"  {step.end['outcome']}: {step.end['summary']}"
        for what, names in step.end.get("files", {}).items():
            yield f"  files {what}: {', '.join(names)}"
    else:
        yield "  broke off"


def _turn(turn: RecordedTurn) -> Iterator[str]:
    content = turn.body.get("content") if isinstance(turn.body, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            yield f"  turn {turn.number} says: {block.get('text')}"
    if turn.events is not None:
        deltas = ((event_data(text) or {}).get("delta") for _, text in turn.events)
        told = [delta.get("text") or delta.get("partial_json") for delta in deltas if isinstance(delta, Mapping)]
        yield f"  turn {turn.number} streams: {''.join(map(str, filter(None, told)))}"
    if turn.status != 200:
        yield f"  turn {turn.number} is answered {turn.status}: {json.dumps(turn.body)}"
    for action in turn.actions.values():
        result = f" -> error {action.text}" if action.is_error else f" -> {action.text}" if action.text else ""
        yield f"  turn {turn.number}: {action.words()}{result}" + (
            f" [screen {action.screen}]" if action.screen else ""
        )


def _called(turn: RecordedTurn) -> Iterator[str]:
    """What a reply holds beside text; of a step, the actions tell it."""
    content = turn.body.get("content") if isinstance(turn.body, dict) else None
    if isinstance(content, list):
        for block in content:
            if not isinstance(block, dict) or block.get("type") != "text":
                yield f"  turn {turn.number} answers: {_json(block)}"
    elif turn.body is not None and turn.status == 200:
        yield f"  turn {turn.number} answers: {_json(turn.body)}"


def _json(value: Any) -> str:
    """A message or a part of it, without what differs from run to run."""
    return json.dumps(_without(value), ensure_ascii=False, sort_keys=True)


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(item) for name, item in value.items() if name not in _OF_ONE_RUN}
    return [_without(item) for item in value] if isinstance(value, list) else value


def _prompts(first: Cassette, second: Cassette) -> Iterator[str]:
    """Differences of the request's parameters, which stand in no page; each once, however many turns have it."""
    told = set()
    for one, two in zip(first.turns(), second.turns(), strict=False):
        for name in sorted({*one.params, *two.params} - {"thread"}):
            a, b = (json.dumps(turn.params.get(name), ensure_ascii=False) for turn in (one, two))
            if a != b and (name, a, b) not in told:
                told.add((name, a, b))
                yield f"{name}: {word_diff(a, b)}"
