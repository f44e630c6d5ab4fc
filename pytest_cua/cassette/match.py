"""Whether a request is the recorded one, judged on what the harness sends, and the first difference if not.

The content of tool results and the bytes of pictures are never a mismatch: a live application may answer differently,
which is for the checks of the screen to judge. What Claude said is never compared with itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cua.cassette.redact import REDACTED

_ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """The first place where two requests differ: a path such as `messages[0].content[1].text` and both values."""

    path: str
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"{self.path}\n  recorded: {self.recorded}\n  now:      {self.now}"


def harness_view(params: Mapping[str, Any], new: list[Any]) -> dict[str, Any]:
    """The part of a request that the harness answers for."""
    return {**params, "messages": [_message(message) for message in new]}


def _message(message: Mapping[str, Any]) -> Any:
    if message["role"] == "assistant":
        return {"role": "assistant"}
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {"role": message["role"], "content": [_block(block) for block in content]}


def _block(block: Mapping[str, Any]) -> Any:
    match block.get("type"):
        case "tool_result":
            return {name: block.get(name) for name in ("type", "tool_use_id", "toolset_name")}
        case "image":
            return {"type": "image"}
        case _:
            return {name: value for name, value in block.items() if name != "cache_control"}


def first_difference(recorded: Any, now: Any, path: str = "") -> Difference | None:
    """The first difference of two JSON values, None when they are equal."""
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        for name in [*recorded, *(name for name in now if name not in recorded)]:
            found = first_difference(
                recorded.get(name, _ABSENT), now.get(name, _ABSENT), f"{path}.{name}" if path else name
            )
            if found:
                return found
        return None
    if isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            found = first_difference(
                recorded[index] if index < len(recorded) else _ABSENT,
                now[index] if index < len(now) else _ABSENT,
                f"{path}[{index}]",
            )
            if found:
                return found
        return None
    if recorded is now or recorded == now or fits(recorded, now):
        return None
    return Difference(path, *_shown(recorded, now))


def fits(recorded: Any, now: Any) -> bool:
    """Whether two texts differ only where a secret was taken out of the recorded one: it may be another here."""
    if not (isinstance(recorded, str) and isinstance(now, str) and REDACTED.search(recorded)):
        return False
    parts = [re.escape(part) for part in REDACTED.sub("\0", recorded).split("\0")]
    return re.fullmatch(".+".join(parts), now, re.DOTALL) is not None


def _shown(recorded: Any, now: Any) -> tuple[str, str]:
    """Both values, long texts cut to the place where they part."""
    if not (isinstance(recorded, str) and isinstance(now, str)):
        return _short(recorded), _short(now)
    same = next(
        (i for i, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b), min(len(recorded), len(now))
    )
    start = max(0, same - 30)
    cut = "…" if start else ""
    return f"{cut}{_short(recorded[start:])}", f"{cut}{_short(now[start:])}"


def _short(value: Any, limit: int = 120) -> str:
    if value is _ABSENT:
        return "(nothing)"
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
