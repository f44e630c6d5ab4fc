"""Recordings that are made at once, without a desktop, through the objects that a test's recording goes through."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from pytest_cua.cassette.store import CassetteWriter, cassette_folder
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.wire import History, Reply, Request
from pytest_cua.trace import Action, Run


def make(
    root: Path,
    test: str,
    *sentences: str,
    picture: str | None = None,
    flows: Sequence[str] = (),
    files: Sequence[bytes] = (),
    passed: bool = True,
    says: str = "Done.",
    http: str | None = None,
    turns: Sequence[tuple[str, str]] = (),
    system: str = "You are a tester.",
    **header: Any,
) -> Path:
    """Record a test with some steps; gives its folder.

    Args:
        root: The folder of all cassettes.
        test: The id of the test, or of the flow with `kind="flow"`.
        sentences: Its steps; none takes one.
        picture: The colour of the screen; None shows none.
        flows: The ids of flows it uses.
        files: What the test looked at.
        passed: Whether it takes its place; else it is kept aside.
        says: What Claude says at the end of each step.
        http: The content of `http.yaml`.
        turns: What the code under test asked a model, and what that answered.
        system: The prompt of the steps.
        header: Further or other facts of the header.
    """
    writer = CassetteWriter(cassette_folder(root, test), root)
    line = header_line(
        test=test,
        model="claude-sonnet-5-5",
        tools=[],
        prompt_digest="1",
        display={"width": 1280, "height": 800},
        environment={},
    )
    tape = Tape(writer, header={**line, **header}, run=Run(test=test, mode="record"))
    if http is not None:
        (writer.aside / "http.yaml").write_text(http, encoding="utf-8")
    for flow in flows:
        tape.write({"type": "flow", "flow": flow, "title": "Log in", "after_step": 0})
    for number, sentence in enumerate(sentences or ("Look around",), start=1):
        tape.step = number
        tape.write({"type": "step", "step": number, "kind": "do", "desktop": "1", "sentence": sentence})
        _turn(tape, {"step": number, "turn": 1}, sentence, says, {"model": "m", "system": system})
        screen = tape.picture(Image.new("RGB", (8, 8), picture)) if picture else None
        action = Action(id=f"t{number}", tool="computer", name="screenshot", input={}, screen=screen)
        tape.write({"type": "action", "step": number, "turn": 1, **action.to_json()})
        tape.write({"type": "end", "step": number, "outcome": "done", "summary": says})
    for content in files:
        tape.observation("file", "a.bin", "1", content)
    if turns:
        tape.write({"type": "conversation", "conversation": 1, "client": "Anthropic"})
    for number, (asked, answered) in enumerate(turns, start=1):
        _turn(tape, {"conversation": 1, "turn": number}, asked, answered, {"model": "m"})
    tape.close(passed=passed)
    return writer.folder


def _turn(tape: Tape, where: dict[str, Any], asked: str, answered: str, params: dict[str, Any]) -> None:
    tape.replied("scripted")
    reply = Reply(200, {"type": "message", "content": [{"type": "text", "text": answered}]})
    request = Request("post", "/v1/messages", params, [{"role": "user", "content": asked}])
    tape.turn(where, History(), request, reply, waited_ms=1, attempts=[])


def days_ago(days: int) -> str:
    """The time of a recording that is so old."""
    return (dt.datetime.now(dt.UTC) - dt.timedelta(days=days, minutes=1)).isoformat(timespec="milliseconds")


def tree(folder: Path) -> dict[str, str]:
    """Every file and folder below one, with the digest of its content: to see that nothing was changed."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and ".pytest_cache" not in path.parts
    }
