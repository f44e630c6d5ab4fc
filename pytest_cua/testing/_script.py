"""What a script says and sees: the builders of replies, and the request a script answers."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

from PIL import Image

from pytest_cua.errors import BadArgument
from pytest_cua.testing._find import Box, find_template, find_text

Json: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]


# ---------------------------------------------------------------------------------------------------------- replies
@dataclass(frozen=True)
class Turn:
    """One reply of the model: its content blocks, without the ids and signatures that the server adds."""

    blocks: tuple[Block, ...]
    stop_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    cut: bool = False


@dataclass(frozen=True)
class Failure:
    """One HTTP error instead of a reply."""

    status: int
    type: str
    message: str
    retry_after: float | None = None
    details: Mapping[str, Any] | None = None
    should_retry: bool | None = None


@dataclass(frozen=True)
class Raw:
    """A whole body, sent as it is."""

    body: Json
    status: int = 200


Reply: TypeAlias = Turn | Failure | Raw
Answer: TypeAlias = Reply | Block | Sequence[Block]


def say(text: str) -> Block:
    """A text block."""
    return {"type": "text", "text": text}


def think(text: str = "") -> Block:
    """A thinking block; the server signs it.

    As with the real models from 5.5 on, the text is only sent when the request asks for it
    (`thinking.display` of `summarized` or `updates`); otherwise it arrives empty, with its signature.
    """
    return {"type": "thinking", "thinking": text}


def use(name: str, /, **input: Any) -> Block:
    """A call of a member of the computer toolset, such as `use("left_click", coordinate=[x, y])`.

    A `Box` among the values, as `find_text` returns it, stands for its centre.
    """
    return {"type": "tool_use", "name": name, "toolset_name": "computer", "input": _plain(input)}


def use_tool(name: str, /, **input: Any) -> Block:
    """A call of a tool outside a toolset: bash, the editor, your own, or the single `computer` tool with `action=`."""
    return {"type": "tool_use", "name": name, "input": _plain(input)}


def finish(summary: str = "", outcome: str = "done", observations: Any = None) -> Block:
    """The call that ends a step of pytest-cua: `finish_step`. It is only valid alone in its turn."""
    input = {"outcome": outcome, "summary": summary}
    return use_tool("finish_step", **input if observations is None else {**input, "observations": observations})


def turn(*blocks: Block, stop_reason: str | None = None, usage: Mapping[str, Any] | None = None) -> Turn:
    """A whole reply.

    Args:
        blocks: Its content, in order.
        stop_reason: By default `tool_use` when a tool is called, else `end_turn`.
        usage: Fields that replace the estimated ones, such as `{"output_tokens": 7}`.
    """
    return Turn(tuple(blocks), stop_reason, usage)


def error(
    status: int,
    type: str,
    message: str,
    retry_after: float | None = None,
    *,
    details: Mapping[str, Any] | None = None,
    should_retry: bool | None = None,
) -> Failure:
    """An HTTP error, answered once: the SDK's next attempt is a new request to the script.

    Args:
        status: 401, 429, 500, 529 ...
        type: `authentication_error`, `rate_limit_error`, `api_error`, `overloaded_error` ...
        message: What the error says.
        retry_after: Seconds, for the `retry-after` header.
        details: `error.details` of the body, such as `{"error_code": "thread_not_found"}`.
        should_retry: The `x-should-retry` header, which the SDK obeys; by default it goes by the status.
    """
    return Failure(status, type, message, retry_after, details, should_retry)


def raw(body: Json, status: int = 200) -> Raw:
    """A whole JSON body, sent as it is and not remembered: for replies that no builder makes."""
    return Raw(body, status)


def disconnect(*blocks: Block) -> Turn:
    """Close the connection in the middle of the reply made of `blocks`; nothing of it is remembered."""
    return Turn(blocks or (say("This reply is cut off before its end."),), cut=True)


def as_reply(answer: Answer) -> Reply:
    """`answer` of a script as a whole reply: a block or a list of blocks is a turn."""
    if isinstance(answer, (Turn, Failure, Raw)):
        return answer
    blocks = (answer,) if isinstance(answer, Mapping) else answer
    if not isinstance(blocks, Sequence) or isinstance(blocks, (str, bytes)):
        raise BadArgument(
            f"A script answered with {answer!r}, which is no reply.",
            "Return a block such as say('...') or use('screenshot'), a list of blocks, or turn(...).",
        )
    for block in blocks:
        if not isinstance(block, Mapping) or "type" not in block:
            raise BadArgument(f"A script answered with {block!r} as a block of a reply; a block is a dict with a type.")
    return Turn(tuple(blocks))


def _plain(value: Any) -> Any:
    if isinstance(value, Box):
        return list(value.center)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


# --------------------------------------------------------------------------------------------------------- requests
@dataclass(frozen=True)
class ToolResult:
    """One result of the last user message.

    Attributes:
        id: The id of the call it answers.
        name: The tool or toolset member that was called.
        is_error: Whether the call failed.
        text: Its text blocks, joined by line ends.
        image: Its last image, RGB, or `None`.
    """

    id: str
    name: str
    is_error: bool
    text: str
    _images: tuple[Block, ...] = field(default=(), repr=False)

    @cached_property
    def image(self) -> Image.Image | None:
        """Its last image, RGB, or `None`."""
        return _decode(self._images[-1]) if self._images else None


@dataclass(eq=False)
class ScriptedRequest:
    """One request as a script sees it.

    Attributes:
        body: The JSON body as it came.
        headers: The headers, names in lower case.
        messages: The whole conversation; what the server holds of a thread comes first.
        tools: The tool definitions in force; those of the thread when it continues.
        system: The system prompt in force.
        conversation: A name for the conversation, the same for all its requests: `conversation-1`.
    """

    body: Json
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    messages: list[Json] = field(default_factory=list, repr=False)
    tools: list[Json] = field(default_factory=list, repr=False)
    system: Any = field(default=None, repr=False)
    conversation: str = ""

    @property
    def model(self) -> str:
        """The model asked for."""
        return str(self.body.get("model", ""))

    @property
    def turn(self) -> int:
        """The number of the reply in its conversation, from 1."""
        return 1 + len([message for message in self.messages if message.get("role") == "assistant"])

    @property
    def sentence(self) -> str:
        """The last text of the conversation's first user message: the step itself."""
        first = next((message for message in self.messages if message.get("role") == "user"), {})
        texts = [block.get("text", "") for block in blocks_of(first) if block.get("type") == "text"]
        return str(texts[-1]) if texts else ""

    @cached_property
    def tool_results(self) -> list[ToolResult]:
        """The results in the last user message, in order."""
        if len(self.messages) < 2:
            return []
        names = {block["id"]: block["name"] for block in blocks_of(self.messages[-2]) if block["type"] == "tool_use"}
        return [_tool_result(block, names) for block in blocks_of(self.messages[-1]) if block["type"] == "tool_result"]

    @property
    def last_error(self) -> str | None:
        """The text of the first failed result in the last user message, or `None`."""
        return next((result.text for result in self.tool_results if result.is_error), None)

    @cached_property
    def screenshot(self) -> Image.Image | None:
        """The last image of the conversation, RGB, or `None`.

        Pictures that answer `zoom` are passed over, because coordinates refer to the whole screen.
        """
        block = next(_screenshots_from_last(self.messages), None)
        return None if block is None else _decode(block)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screenshot in pixels.

        Raises:
            LookupError: The conversation holds no screenshot yet.
        """
        return self._needed_screenshot().size

    def find_text(self, text: str, **options: Any) -> Box:
        """Where `text` is on the screenshot; the options are those of `pytest_cua.testing.find_text`."""
        return find_text(self._needed_screenshot(), text, **options)

    def find_template(self, template: Image.Image | str | Path, **options: Any) -> Box:
        """Where the picture `template` is on the screenshot; options as of `pytest_cua.testing.find_template`."""
        return find_template(self._needed_screenshot(), template, **options)

    def _needed_screenshot(self) -> Image.Image:
        if self.screenshot is None:
            raise LookupError("the conversation holds no screenshot yet: answer use('screenshot') first")
        return self.screenshot


def blocks_of(message: Mapping[str, Any]) -> list[Block]:
    """The content of a message as blocks; a plain string is one text block."""
    content = message.get("content", [])
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _tool_result(block: Block, names: Mapping[str, str]) -> ToolResult:
    inner = blocks_of(block)
    return ToolResult(
        id=str(block.get("tool_use_id")),
        name=names.get(str(block.get("tool_use_id")), ""),
        is_error=bool(block.get("is_error")),
        text="\n".join(part["text"] for part in inner if part["type"] == "text"),
        _images=tuple(part for part in inner if part["type"] == "image"),
    )


def _screenshots_from_last(messages: list[Json]) -> Iterator[Block]:
    zooms = {
        block["id"]
        for message in messages
        for block in blocks_of(message)
        if block["type"] == "tool_use" and "zoom" in (block["name"], block["input"].get("action"))
    }
    for message in reversed(messages):
        for block in reversed(blocks_of(message)):
            inner = blocks_of(block) if block["type"] == "tool_result" else [block]
            images = [part for part in inner if part["type"] == "image"]
            # a host may append a screenshot behind the picture that a zoom gave
            yield from reversed(images[1:] if block.get("tool_use_id") in zooms else images)


def _decode(block: Block) -> Image.Image:
    with Image.open(io.BytesIO(base64.b64decode(block["source"]["data"]))) as image:
        return image.convert("RGB")


# ---------------------------------------------------------------------------------------------------------- scripts
Play: TypeAlias = (
    Callable[[ScriptedRequest], "Generator[Answer, ScriptedRequest, Answer | None] | Answer"] | Sequence[Answer]
)
Script: TypeAlias = Callable[[ScriptedRequest], Answer]


class ScriptEnded(Exception):
    """A script has no answer for a request: it is exhausted, or knows no such sentence. Answered as HTTP 400."""


class ListScript:
    """Turns answered in order, over all requests."""

    def __init__(self, turns: Sequence[Answer]) -> None:
        self._turns = [as_reply(turn) for turn in turns]
        self._asked = 0

    @property
    def unused(self) -> list[Reply]:
        """The turns that were not asked for."""
        return self._turns[self._asked :]

    def __call__(self, request: ScriptedRequest) -> Answer:
        if self._asked >= len(self._turns):
            raise ScriptEnded(
                f"the script of ScriptedClaude is exhausted: all its {len(self._turns)} turns were answered, and "
                f"turn {request.turn} of {request.conversation} ({request.sentence!r}) asks for one more"
            )
        self._asked += 1
        return self._turns[self._asked - 1]


def by_sentence(plays: Mapping[str | re.Pattern[str], Play] | Callable[[str], Play]) -> Script:
    """A script that plays one generator per conversation, chosen by the sentence of its step.

    ```python
    def save(request):
        request = yield use("screenshot")
        request = yield [use("left_click", coordinate=request.find_text("Save").center), use("screenshot")]
        yield finish("saved")

    with ScriptedClaude(by_sentence({"save the document": save})) as claude: ...
    ```

    Args:
        plays: Patterns and what plays them. A pattern that equals the sentence goes first, then the first one that
            is found in it as a regular expression (or literally, when it is none). A play is a generator function,
            started with the conversation's first request and sent each next one, or a plain function that is called
            with every request, or a list of turns. Instead of a mapping, a function that gives the play of a sentence.
    """
    choose = plays if callable(plays) else _Chooser(plays)
    playing: dict[str, _Playing] = {}

    def script(request: ScriptedRequest) -> Answer:
        if request.conversation not in playing:
            playing[request.conversation] = _Playing(choose(request.sentence))
        return playing[request.conversation].answer(request)

    return script


class _Playing:
    """One play in one conversation."""

    def __init__(self, play: Play) -> None:
        self._play = play if callable(play) else ListScript(play)
        self._generator: Generator[Answer, ScriptedRequest, Answer | None] | None = None

    def answer(self, request: ScriptedRequest) -> Answer:
        try:
            if self._generator is not None:
                return self._generator.send(request)
            played = self._play(request)
            if not isinstance(played, Generator):
                return played
            self._generator = played
            return next(played)
        except StopIteration as stop:
            # `return finish()` at a generator's end is meant as a last reply
            if stop.value is not None:
                return cast("Answer", stop.value)
        raise ScriptEnded(
            f"the script {getattr(self._play, '__name__', 'of this sentence')}() has ended, and turn {request.turn} of "
            f"{request.conversation} ({request.sentence!r}) asks for one more"
        )


class _Chooser:
    def __init__(self, plays: Mapping[str | re.Pattern[str], Play]) -> None:
        self._plays = plays

    def __call__(self, sentence: str) -> Play:
        if sentence in self._plays:
            return self._plays[sentence]
        for pattern, play in self._plays.items():
            if _found(pattern, sentence):
                return play
        known = ", ".join(repr(getattr(pattern, "pattern", pattern)) for pattern in self._plays) or "none"
        raise ScriptEnded(f"no script for the sentence {sentence!r}; the patterns are: {known}")


def _found(pattern: str | re.Pattern[str], sentence: str) -> bool:
    try:
        return re.search(pattern, sentence) is not None
    except re.error:
        return str(pattern) in sentence
