"""Two recordings against each other, in words: what a reviewer of a new recording asks for."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator

from pytest_cua.cassette.format import Cassette, RecordedStep, RecordedTurn
from pytest_cua.cassette.match import word_diff

_UNCOMPARED = ("sum", "recorded_at", "type")


def differences(first: Cassette, second: Cassette) -> list[str]:
    """How two recordings differ, as a unified diff of their words; empty when they do not.

    Compared are headers (without the time), parameters of requests, sentences, what Claude said and did, the pictures
    by their key, outcomes and observations; ids and durations are not.
    """
    lines = difflib.unified_diff(
        list(_words(first)), list(_words(second)), str(first.file), str(second.file), lineterm="", n=2
    )
    return [*lines, *_prompts(first, second)]


def _words(cassette: Cassette) -> Iterator[str]:
    for name, value in cassette.header.items():
        if name not in _UNCOMPARED:
            yield f"{name}: {value if isinstance(value, str) else json.dumps(value)}"
    for step in cassette.steps:
        yield from _step(step)
    for conversation in cassette.conversations:
        yield f"conversation {conversation.number} ({conversation.client})"
        for turn in conversation.turns:
            yield from _turn(turn)
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
    content = turn.body.get("content", []) if isinstance(turn.body, dict) else []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "text":
            yield f"  turn {turn.number} says: {block.get('text')}"
    if turn.events is not None:
        yield f"  turn {turn.number} streams {len(turn.events)} events"
    if turn.status != 200:
        yield f"  turn {turn.number} is answered {turn.status}: {json.dumps(turn.body)}"
    for action in turn.actions.values():
        result = f" -> error {action.text}" if action.is_error else f" -> {action.text}" if action.text else ""
        yield f"  turn {turn.number}: {action.words()}{result}" + (
            f" [screen {action.screen}]" if action.screen else ""
        )


def _prompts(first: Cassette, second: Cassette) -> Iterator[str]:
    """Differences of the request's parameters, which stand in no page."""
    pairs = zip(first.turns(), second.turns(), strict=False)
    one, two = next(pairs, (None, None))
    if one is None or two is None:
        return
    for name in sorted({*one.params, *two.params} - {"thread"}):
        a, b = (json.dumps(turn.params.get(name), ensure_ascii=False) for turn in (one, two))
        if a != b:
            yield f"{name}: {word_diff(a, b)}"
