"""`steps.md`: a recording as a page that a person reviews in a pull request."""

from __future__ import annotations

from pathlib import Path

from pytest_cua.cassette.format import SCREENS, Cassette, RecordedStep, RecordedTurn, load
from pytest_cua.trace import Action


def steps_markdown(folder: Path) -> str:
    """The page for the recording in this folder: every step, what Claude said and did, and the screens it saw."""
    cassette = load(folder)
    header = cassette.header
    lines = [
        f"# {header['test']}",
        "",
        "Generated from `cassette.jsonl`; edits are lost at the next recording.",
        "",
        f"Recorded {header['recorded_at'][:10]} with {header['model']} (endpoint: {header['model_endpoint']}), "
        f"{header['display']['width']}x{header['display']['height']}.",
    ]
    for step in cassette.steps:
        lines += _step(cassette, step)
    if cassette.observations:
        lines += ["", "## What the test looked at", ""]
        lines += [f"- after step {o['after_step']}: {o['kind']} {o['subject']}".rstrip() for o in cassette.observations]
    return "\n".join(lines) + "\n"


def _step(cassette: Cassette, step: RecordedStep) -> list[str]:
    lines = ["", f"## {step.number}. {step.sentence}", ""]
    for turn in step.turns:
        said = _said(turn)
        if said:
            lines.append(f"> {said}")
            lines.append("")
        lines += [_action(action) for action in turn.actions.values()]
    if step.end:
        lines += ["", f"**{step.end['outcome']}**: {step.end['summary']}"]
    return lines


def _said(turn: RecordedTurn) -> str:
    content = turn.body.get("content", []) if isinstance(turn.body, dict) else []
    texts = [block.get("text") or "" for block in content if block.get("type") == "text"]
    return " ".join(" ".join(texts).split())


def _action(action: Action) -> str:
    line = f"- {action.words()}"
    if action.is_error:
        line += f" — error: {action.text}"
    if action.screen:
        line += f" ([screen]({SCREENS}/{action.screen}.webp))"
    return line
