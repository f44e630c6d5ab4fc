"""`steps.md`: a recording as a page that a person reviews in a pull request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_cua.cassette.format import (
    FILE,
    Cassette,
    RecordedConversation,
    RecordedStep,
    RecordedTurn,
    shared_screen,
)
from pytest_cua.cassette.packing import event_data
from pytest_cua.cassette.store import RECORDING
from pytest_cua.trace import Action, Usage

_LONGEST = 300  # characters of what a model said that are shown


def steps_markdown(cassette: Cassette, *, usage: Usage | None = None, links: bool = True) -> str:
    """The page for a recording: each step, what Claude said, did and saw, what changed and what it cost.

    Args:
        cassette: The recording, which need not have come to its end.
        usage: Tokens and money of all of it; None takes them from its footer.
        links: Whether pictures are linked; else they are named, for a page that lies nowhere.
    """
    header = cassette.header
    what = "Flow" if header.get("kind") == "flow" else "Test"
    lines = [
        f"# {header['test']}",
        "",
        f"Generated from `{FILE}`, which names it by digest: do not edit.",
        "",
        f"{what} recorded {header['recorded_at'][:10]} with {header['model']} "
        f"(endpoint: {header['model_endpoint']}){_size(header)}.",
    ]
    if cassette.broken:
        lines += ["", f"**Incomplete.** {cassette.broken}"]
    for line in _cost(cassette, usage):
        lines += ["", line]
    lines += _body(cassette, links)
    for conversation in cassette.conversations:
        lines += _conversation(conversation)
    if cassette.observations:
        lines += ["", "## What the test looked at", ""]
        lines += [f"- after step {o['after_step']}: {o['kind']} {o['subject']}".rstrip() for o in cassette.observations]
    return "\n".join(lines) + "\n"


def _size(header: Mapping[str, Any]) -> str:
    display = header.get("display")
    return f", {display['width']}x{display['height']}" if display else ""


def _cost(cassette: Cassette, usage: Usage | None) -> Iterable[str]:
    if usage is None and "usage" in cassette.footer:
        usage = Usage.from_json(cassette.footer["usage"])
    if usage is None:
        return
    cost = "price not known" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD by the price list"
    paid = " (scripted model: nothing was paid)" if cassette.header.get("model_endpoint") == "scripted" else ""
    yield f"{usage.input_tokens} tokens in, {usage.output_tokens} out, {cost}{paid}."


def _body(cassette: Cassette, links: bool) -> list[str]:
    """Steps, and the flows between them where they were used."""
    lines: list[str] = []
    flows = list(cassette.flows)
    for step in cassette.steps:
        while flows and flows[0]["after_step"] < step.number:
            lines += _flow(flows.pop(0))
        lines += _step(cassette, step, links)
    for flow in flows:
        lines += _flow(flow)
    return lines


def _flow(line: Mapping[str, Any]) -> list[str]:
    return ["", f"## Flow: {line['title']}", "", f"Recorded once for all tests, as `{line['flow']}`."]


def _step(cassette: Cassette, step: RecordedStep, links: bool) -> list[str]:
    where = f" ({step.phase})" if step.phase != "call" else ""
    opinion = "Opinion: " if step.kind == "judge" else ""
    lines = ["", f"## {step.number}. {opinion}{_inline(step.sentence)}{where}", ""]
    for turn in step.turns:
        said = _said(turn)
        if said:
            lines += [*([""] if lines[-1] else []), f"> {said}", ""]
        lines += [_action(cassette, action, links) for action in turn.actions.values()]
        lines += [f"- asked again after: {attempt.get('status')}" for attempt in turn.attempts]
    if step.end:
        lines += ["", f"**{step.end['outcome']}**: {_inline(step.end['summary'])}"]
        lines += [f"- noted: {_inline(note)}" for note in step.end.get("observations", ())]
        for what, names in step.end.get("files", {}).items():
            lines += ["", f"Files {what}: {', '.join(f'`{name}`' for name in names)}"]
    else:
        lines += ["", "**It broke off here.**"]
    return lines


def _conversation(conversation: RecordedConversation) -> list[str]:
    lines = ["", f"## Conversation {conversation.number} of the code under test ({conversation.client})", ""]
    for turn in conversation.turns:
        asked = " ".join(filter(None, (_text(message) for message in turn.new)))
        lines.append(f"- asked: {_short(asked or f'{turn.method.upper()} {turn.path}')}")
        lines.append(f"  - answered: {_short(_said(turn) or str(turn.status))}")
    return lines


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return "" if content == "=reply" else content
    blocks = content if isinstance(content, list) else []
    return " ".join(str(block.get("text") or "") for block in blocks if isinstance(block, Mapping))


def _said(turn: RecordedTurn) -> str:
    if turn.events is not None:
        deltas = ((event_data(text) or {}).get("delta") for _, text in turn.events)
        return _inline("".join(str(delta.get("text", "")) for delta in deltas if isinstance(delta, Mapping)))
    content = turn.body.get("content") if isinstance(turn.body, dict) else None
    blocks = content if isinstance(content, list) else []  # not every server's reply has the shape of a message
    texts = [block.get("text") or "" for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return _inline(" ".join(map(str, texts)))


def _inline(text: str) -> str:
    """The text on one line, and no mark-up of its own making."""
    return " ".join(text.split()).replace("<", "&lt;")


def _short(text: str) -> str:
    text = _inline(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _action(cassette: Cassette, action: Action, links: bool) -> str:
    line = f"- {_inline(action.words())}"
    if action.is_error:
        line += f" — error: {_inline(action.text)}"
    if action.screen and not links:
        line += f" (screen {action.screen})"
    elif action.screen:
        folder = cassette.folder.parent if cassette.folder.name == RECORDING else cassette.folder
        path = os.path.relpath(shared_screen(cassette.root, action.screen), folder)
        line += f" ([screen]({path.replace(os.sep, '/')}))"
    return line
