"""Whether a request is the recorded one, judged on what the harness sends, and the first difference if not.

The content of tool results and the bytes of pictures are never a mismatch: a live application may answer differently,
which is for the checks of the screen to judge. What Claude said is never compared with itself. What differs from run to
run by nature (ids, dates, temporary paths, ports, process numbers) counts as equal, except in a step's own sentence:
there its author gives it as a parameter, else Claude's recorded actions would type the old value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_cua.cassette.redact import REDACTED

_ABSENT = object()
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:[AaPp][Mm]\b|Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}))*"
VOLATILE: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (what, mark, re.compile(pattern))
    for what, mark, pattern in (
        ("an id", "<id>", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
        ("an id", "<id>", r"\b(?:toolu|srvtoolu|msg|req|thread|call|chatcmpl|run|session|sess)_[A-Za-z0-9]{6,}\b"),
        ("a date", "<date>", rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_TIME})?"),
        (
            "a date",
            "<date>",
            rf"\b(?:{_DAY},? )?(?:{_MONTH} \d{{1,2}}|\d{{1,2}} {_MONTH})\b(?:,? {_TIME})?(?:,? \d{{4}})?",
        ),
        ("a date", "<date>", r"\b\d{1,2}[./]\d{1,2}[./]\d{4}\b"),
        ("a time", "<time>", rf"(?<![\w.]){_TIME}(?!\d)"),  # no part of an address with its port
        (
            "a temporary path",
            "<tmp>",
            r"(?:/private)?/(?:var/)?tmp/(?:pytest-of-[^/\s'\"]+/pytest-[^/\s'\"]+(?:/[^/\s'\"]+)?|[^/\s'\"]+)",
        ),
        ("a port", r"\g<1>:<port>", r"(?<![\w.])(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):\d{2,5}\b"),
        ("a process number", r"\g<1><pid>", r"\b((?:pid|PID|[Pp]rocess (?:id|ID|number))[ =:#]+|[Pp]rocess \[)\d+\b"),
        (
            "a process number",
            r"\g<1><pid>",  # of "process 40", a number only where nothing is counted: "process 40 orders"
            r"\b([Pp]rocess #?)\d+\b"
            r"(?=\W*$|[.,;:!?)\]]|\s+(?:is|was|has|did|exited|ended|died|failed|killed|started)\b)",
        ),
    )
)


class Names:
    """The values of a test's `params`, by which texts of the code under test get their names back.

    So a recording does not age with a value: what was asked about order 4711 is stored as `{order}`.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Mapping[str, str]) -> None:
        """More values by name; shorter ones than three characters occur by chance and are left alone."""
        found = {value: name for name, value in values.items() if len(value) > 2}
        if found.items() <= self._names.items():
            return
        self._names.update(found)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def __call__(self, value: Any) -> Any:
        """The JSON value with every text in it named."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(lambda found: f"{{{self._names[found[0]]}}}", value)
        if isinstance(value, Mapping):
            return {name: item if name in _FIXED else self(item) for name, item in value.items()}
        return [self(item) for item in value] if isinstance(value, list) else value


_FIXED = ("type", "role", "model", "id", "name", "tool_use_id", "media_type", "screen", "file", "cache_control")


@dataclass(frozen=True)
class Normalize:
    """Takes out of a text what differs from run to run.

    Args:
        more: The project's own `(text) -> text`, from the fixture `cua_normalize`; runs first.
    """

    more: Callable[[str], str] | None = None

    def __call__(self, text: str) -> str:
        """The text without it."""
        if self.more is not None:
            text = self.more(text)
        for _, mark, pattern in VOLATILE:
            text = pattern.sub(mark, text)
        return text


@dataclass(frozen=True)
class Difference:
    """The first place where two requests differ: a path such as `messages[0].content[1].text` and both values."""

    path: str
    recorded: str
    now: str
    values: tuple[Any, Any] = field(default=(None, None), repr=False, compare=False)

    def __str__(self) -> str:
        text = f"{self.path}\n  recorded: {self.recorded}\n  now:      {self.now}"
        first, second = self.values
        if isinstance(first, str) and isinstance(second, str) and min(len(first), len(second)) > 60:
            text += f"\n  words:    {word_diff(first, second)}"
        return text


def request_view(
    params: Mapping[str, Any], keep: int, new: Iterable[Any], *, first: bool = False, own_tools: bool = False
) -> dict[str, Any]:
    """The part of a request that the harness answers for; the messages by their place in the whole conversation.

    Args:
        params, keep, new: Of the request.
        first: Whether it begins its conversation: what stands there as Claude's was written by the code that asks.
        own_tools: Whether that code ran the tools, so that it says itself what failed; else the checks of the live
            screen say it.
    """
    asked = {name: value for name, value in params.items() if (name, value) != ("stream", False)}  # as if not given
    return {**asked, "messages": [None] * keep + [_message(message, own=first, own_tools=own_tools) for message in new]}


def _message(message: Any, *, own: bool, own_tools: bool) -> Any:
    if not isinstance(message, Mapping) or "role" not in message:
        return message
    if message["role"] == "assistant" and not own:
        return {"role": "assistant"}
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = [_block(block, own_tools) for block in content] if isinstance(content, list) else content
    return {"role": message["role"], "content": blocks}


def _block(block: Any, own_tools: bool) -> Any:
    if not isinstance(block, Mapping):
        return block
    match block.get("type"):
        case "tool_result":
            kept = {name: block.get(name) for name in ("type", "tool_use_id", "toolset_name")}
            return {**kept, "is_error": bool(block.get("is_error"))} if own_tools else kept
        case "image" | "document":
            source = block.get("source")
            bytes_of_it = isinstance(source, Mapping) and source.get("type") == "base64"
            left_out = ("screen", "file", "media_type", "cache_control", *(["source"] if bytes_of_it else []))
            return {name: value for name, value in block.items() if name not in left_out}
        case _:
            return {name: value for name, value in block.items() if name != "cache_control"}


_SENTENCE = re.compile(r"messages\[0\]\.content\[\d+\]\.text")


def first_difference(
    recorded: Any, now: Any, path: str = "", *, normalize: Normalize | None = None, strict: bool = False
) -> Difference | None:
    """The first difference of two JSON values, None when they are equal.

    Args:
        recorded, now: The values.
        path: Where they stand.
        normalize: Takes out of texts what differs from run to run; None compares them as they are.
        strict: Whether the sentences of a step, which open its conversation, are compared as they are.
    """
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        now = _named_as(recorded, now)
        names = [*recorded, *(name for name in now if name not in recorded)]
        pairs = [
            (f"{path}.{name}" if path else str(name), recorded.get(name, _ABSENT), now.get(name, _ABSENT))
            for name in names
        ]
    elif isinstance(recorded, list) and isinstance(now, list):
        pairs = [
            (
                f"{path}[{index}]",
                recorded[index] if index < len(recorded) else _ABSENT,
                now[index] if index < len(now) else _ABSENT,
            )
            for index in range(max(len(recorded), len(now)))
        ]
    else:
        if recorded is now or recorded == now or fits(recorded, now):
            return None
        if isinstance(recorded, str) and isinstance(now, str) and normalize is not None:
            first, second = normalize(recorded), normalize(now)
            is_sentence = strict and _SENTENCE.fullmatch(path)
            if not is_sentence and (first == second or fits(first, second)):
                return None
        return Difference(path, *_shown(recorded, now), (recorded, now))
    for place, first, second in pairs:
        found = first_difference(first, second, place, normalize=normalize, strict=strict)
        if found:
            return found
    return None


def _named_as(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """The value of now, with the recorded names for those from which a secret was taken."""
    markers = [name for name in recorded if "[redacted " in name and name not in now]
    if not markers:
        return now
    return {next((mark for mark in markers if fits(mark, name)), name): item for name, item in now.items()}


def fits(recorded: Any, now: Any) -> bool:
    """Whether two texts differ only where a secret was taken out of the recorded one: it may be another here."""
    if not (isinstance(recorded, str) and isinstance(now, str) and REDACTED.search(recorded)):
        return False
    parts = [re.escape(part) for part in REDACTED.sub("\0", recorded).split("\0")]
    return re.fullmatch(".+".join(parts), now, re.DOTALL) is not None


def explain(difference: Difference, *, is_step: bool, recorded_by: str = "", runs: str = "") -> str:
    """The likely reason for a difference, in one sentence.

    Args:
        difference: What differs.
        is_step: Whether the request is of a step of ours, not of a client of the code under test.
        recorded_by, runs: Versions of the plugin and the SDK, while recording and now.
    """
    path, (first, second) = difference.path, difference.values
    other = f"; recorded with {recorded_by}, running with {runs}" if recorded_by != runs else ""
    if kind := _only_volatile(first, second):
        return f"the two differ only in {kind}, which changes from run to run: give it in params= as {{name}}"
    name = path.split(".")[0].split("[")[0]
    if _SENTENCE.fullmatch(path):
        return "a sentence was edited, or a step before this one" if is_step else "the prompt was edited"
    if name == "messages" and "(nothing)" in (difference.recorded, difference.now):
        return "the conversation has more or fewer messages than were recorded"
    reasons = {
        "system": ("the fixed prompt of pytest-cua changed" if is_step else "the system prompt was edited") + other,
        "tools": f"a tool or its schema changed{other}",
        "model": "another model is chosen than the one that was recorded",
        "request": "the code under test asks something else first, or in another order",
        "messages": "the conversation took another way: the code that answers Claude changed",
    }
    return reasons.get(name, f"the parameter {name} of the request was changed{other}")


def _only_volatile(first: Any, second: Any) -> str | None:
    if not (isinstance(first, str) and isinstance(second, str)):
        return None
    for what, mark, pattern in VOLATILE:
        if pattern.sub(mark, first) == pattern.sub(mark, second):
            return what
    return "what changes from run to run" if Normalize()(first) == Normalize()(second) else None


def word_diff(first: str, second: str, *, context: int = 4, most: int = 6) -> str:
    """How two texts differ, word by word: `[-gone-]` and `{+new+}`, a few words around each change."""
    a, b = re.findall(r"\s+|\S+", first), re.findall(r"\s+|\S+", second)
    parts = []
    groups = difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(2 * context)
    for group in list(groups)[:most]:
        words = ""
        for kind, a1, a2, b1, b2 in group:
            gone, new = "".join(a[a1:a2]), "".join(b[b1:b2])
            if kind == "equal":
                words += gone
                continue
            words += f"[-{gone}-]" if gone else ""
            words += f"{{+{new}+}}" if new else ""
        parts.append(" ".join(words.split()))
    return " … ".join(parts)


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
