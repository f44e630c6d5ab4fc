"""What a line need not repeat: taken out when it is written, put back when it is read.

Most of a conversation is said twice: a tool result names the call it answers, a reply has the fields of the one before,
an action is the call that stands in the reply above it, and windows seldom change. A cassette says each once, so that a
reviewer reads what happened and not what must be so. Nothing is guessed: only what can be put back exactly is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_OWN = ("id", "content", "stop_reason")  # of a reply: its own, whatever the others say
_CARRIED = ("windows", "focus", "pointer")  # of an action: as they were after the one before, unless it says otherwise
_NOTHING: Mapping[str, Any] = {"windows": [], "focus": None, "pointer": None}


# ---------------------------------------------------------------------- replies


def shared_fields(body: Any) -> dict[str, Any] | None:
    """The fields of a reply that others are likely to have too; None of what is no message."""
    if not isinstance(body, Mapping) or not isinstance(body.get("usage"), Mapping):
        return None
    return {name: value for name, value in body.items() if name not in _OWN}


def packed_reply(body: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any] | None:
    """The reply without what it has in common with `shared`; None when it lacks one of those fields."""
    if not shared.keys() <= body.keys() or set(body["usage"]) != set(shared["usage"]):
        return None
    found = {name: value for name, value in body.items() if not _same(shared.get(name, _MISSING), value)}
    if "usage" in found:
        usage = shared["usage"]
        found["usage"] = {name: value for name, value in body["usage"].items() if not _same(usage[name], value)}
    return found


def unpacked_reply(packed: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """The whole reply again."""
    return {**shared, **packed, "usage": {**shared["usage"], **packed.get("usage", {})}}


_MISSING = object()


def _same(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal, also in kind: 1 is neither 1.0 nor true."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)


def packed_thread(thread: Any, reply: Any) -> Any:
    """The field `thread` of a request; one that goes on from the reply before need not name it."""
    return "=reply" if _same(thread, _going_on(reply)) else thread


def unpacked_thread(thread: Any, reply: Any) -> Any:
    """The whole field again."""
    return _going_on(reply) if thread == "=reply" else thread


def _going_on(reply: Any) -> Any:
    return {"type": "continue", "previous_message_id": reply.get("id")} if isinstance(reply, Mapping) else None


# ---------------------------------------------------------------------- streamed replies


def event_data(event: str) -> Any:
    """The JSON object that an event carries, None when it carries none."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith("data:")]
    try:
        data = json.loads("\n".join(lines))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


# ---------------------------------------------------------------------- tool results


def packed_messages(messages: list[Any], reply: Any) -> list[Any]:
    """The messages, one that answers all tool calls of the reply before with its results alone, in their order."""
    calls = _calls(reply)
    return [_packed_results(message, calls) or message for message in messages] if calls else messages


def _packed_results(message: Any, calls: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or len(content) != len(calls) or set(message) != {"role", "content"}:
        return None
    packed = [_packed_result(block) for block in content]
    found = {"role": message["role"], "results": packed}
    return found if None not in packed and _same(_unpacked_results(found, calls), dict(message)) else None


def _packed_result(block: Any) -> Any:
    match block:
        case {"type": "tool_result", "content": [{"type": "text", "text": str(text), **more}], **rest} if not more:
            short: Any = text
        case {
            "type": "tool_result",
            "content": [{"type": "image", "media_type": "image/png", "screen": key, **more}],
            **rest,
        } if not more:
            short = {"screen": key}
        case {"type": "tool_result", **rest}:
            short = {name: value for name, value in rest.items() if name not in ("tool_use_id", "toolset_name")}
            return {"block": short}
        case _:
            return None
    others = {name: value for name, value in rest.items() if name not in ("tool_use_id", "toolset_name")}
    return {"is": short, **others} if others else short


def unpacked_messages(messages: list[Any], reply: Any) -> list[Any]:
    """The whole messages again."""
    calls = _calls(reply)
    return [_unpacked_results(message, calls) if _is_packed(message, calls) else message for message in messages]


def _is_packed(message: Any, calls: list[Mapping[str, Any]]) -> bool:
    """Whether it answers the calls in short; the code under test may send a field of that name too."""
    if not isinstance(message, Mapping) or set(message) != {"role", "results"}:
        return False
    return isinstance(message["results"], list) and len(message["results"]) == len(calls) > 0


def _unpacked_results(message: Mapping[str, Any], calls: list[Mapping[str, Any]]) -> dict[str, Any]:
    pairs = zip(message["results"], calls, strict=True)
    return {"role": message["role"], "content": [_unpacked_result(short, call) for short, call in pairs]}


def _unpacked_result(short: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    head = {"type": "tool_result", "tool_use_id": call["id"]}
    if call.get("toolset_name") is not None:
        head["toolset_name"] = call["toolset_name"]
    if isinstance(short, Mapping) and "block" in short:
        return {**head, **short["block"]}
    others = {}
    if isinstance(short, Mapping) and "is" in short:
        others = {name: value for name, value in short.items() if name != "is"}
        short = short["is"]
    if isinstance(short, str):
        return {**head, "content": [{"type": "text", "text": short}], **others}
    return {**head, "content": [{"type": "image", "media_type": "image/png", "screen": short["screen"]}], **others}


def _calls(reply: Any) -> list[Mapping[str, Any]]:
    """The tool calls of a reply."""
    content = reply.get("content") if isinstance(reply, Mapping) else None
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"]


# ---------------------------------------------------------------------- actions


def packed_action(action: Mapping[str, Any], reply: Any, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The action without what the call in the reply says, and what is as it was after the one before.

    Args:
        action: As `trace.Action.to_json` gives it.
        reply: The body of the reply that it belongs to.
        before: The action before it in the same step; None for the first one.
    """
    found = dict(action)
    call = _call_of(action, reply)
    for name in ("tool", "name", "input"):
        if call is not None and _same(call[name], action.get(name)):
            del found[name]
    for name in _CARRIED:
        was, now = (before or _NOTHING).get(name, _NOTHING[name]), action.get(name, _NOTHING[name])
        found.pop(name, None)
        if was != now:
            found[name] = now
    if before is not None and before.get("after") == action.get("before"):
        found.pop("before", None)
    elif "before" not in action and before is not None and before.get("after") is not None:
        found["before"] = None
    if action.get("after") == action.get("before"):
        found.pop("after", None)
    elif "after" not in action:
        found["after"] = None
    return found


def unpacked_action(packed: Mapping[str, Any], reply: Any, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The whole action again; `before` is the unpacked one before it."""
    call = _call_of(packed, reply) or {}
    carried = {name: (before or _NOTHING).get(name, _NOTHING[name]) for name in _CARRIED}
    found = {**call, **carried, "before": (before or {}).get("after"), **packed}
    found.setdefault("after", found["before"])
    return found


def _call_of(action: Mapping[str, Any], reply: Any) -> dict[str, Any] | None:
    for block in _calls(reply):
        if block.get("id") == action.get("id"):
            name = block.get("name")
            return {"tool": block.get("toolset_name") or name, "name": name, "input": block.get("input")}
    return None
