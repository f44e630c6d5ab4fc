"""What happened, as data: Run > Step > Turn > Action, shared by agent, cassette and report.

Everything here is plain and can be written as JSON; pictures are named by the key of their pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["done", "blocked"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and money of one or more model replies.

    Token counts are the API's own (`usage` of the Messages API). `cost_usd` is None when the price of the model is
    not in the table of models.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_input_tokens=self.cache_read_input_tokens + other.cache_read_input_tokens,
            cache_creation_input_tokens=self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            cost_usd=cost,
        )

    def to_json(self) -> dict[str, Any]:
        """The usage as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Usage:
        """The usage that `to_json` wrote."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__ if name in value})


@dataclass(kw_only=True)
class Action:
    """One tool call and what it did.

    Attributes:
        id: The `tool_use` id it answers.
        tool: The toolset or tool ("computer", "finish_step").
        name: The member ("left_click"); equal to `tool` for a plain tool.
        input: What the model sent.
        text: The text of the tool result.
        is_error: Whether the result was an error.
        screen: Key of the picture in the result, None without one.
        before, after: Keys of the frames right before and after the action; None where there is no desktop.
        pointer: Pointer position after the action, in pixels of the screen.
        focus: Title of the focused window after the action.
        windows: The windows after the action, as JSON objects.
        moving: Boxes `(x, y, width, height)` that changed while Claude looked; a replay leaves them out.
        masked: Boxes `(x, y, width, height)` that are painted over in `before` or `after`, because a secret was typed
            there; a replay leaves them out.
        still_ms: How long the screen took to come to rest, in milliseconds.
        duration_ms: The whole action, in milliseconds.
    """

    id: str
    tool: str
    name: str
    input: dict[str, Any]
    text: str = ""
    is_error: bool = False
    screen: str | None = None
    before: str | None = None
    after: str | None = None
    pointer: tuple[int, int] | None = None
    focus: str | None = None
    windows: list[dict[str, Any]] = field(default_factory=list)
    moving: list[list[int]] = field(default_factory=list)
    masked: list[list[int]] = field(default_factory=list)
    still_ms: float | None = None
    duration_ms: float = 0.0

    def words(self) -> str:
        """The action in one line, as a person would say it: `left_click at 550, 140`."""
        value = dict(self.input)
        parts = [self.name]
        if "start_coordinate" in value:
            parts.append("from {}, {}".format(*value.pop("start_coordinate")))
            parts.append("to {}, {}".format(*value.pop("coordinate")))
        elif "coordinate" in value:
            parts.append("at {}, {}".format(*value.pop("coordinate")))
        parts += [f"{text!r}" if name == "text" else f"{name}={text!r}" for name, text in value.items()]
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The action as a JSON object, without what is empty."""
        found = {
            name: value for name, value in asdict(self).items() if value not in (None, "", []) and value is not False
        }
        return found | ({"pointer": list(self.pointer)} if self.pointer is not None else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Action:
        """The action that `to_json` wrote; what it does not know is left out."""
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        if known.get("pointer") is not None:
            known["pointer"] = tuple(known["pointer"])
        return cls(**known)


@dataclass(kw_only=True)
class Turn:
    """One model reply and its tool results."""

    number: int
    text: str = ""
    thinking: str = ""
    stop_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    actions: list[Action] = field(default_factory=list)


@dataclass(kw_only=True)
class Step:
    """One sentence given to the agent, and what came of it.

    Attributes:
        number: Its ordinal in the test, from 1.
        sentence: As written in the test, placeholders unfilled.
        desktop: Name of the desktop it ran on.
        kind: "do", or "judge" for an opinion.
        outcome: None while it runs or when it failed.
        summary: What Claude said at its end.
        observations: What Claude noted at its end; an opinion of the agent, never a verdict.
        error: Why it failed, in one paragraph.
        phase: The part of the test it belongs to: a fixture's "setup" or "teardown", or the "call" itself.
        flow: The name of the flow it belongs to; "" for a step of the test itself.
        is_replayed: Whether a recording answers it, not a model.
        files_changed: While recording, tells which files of HOME were created, changed and removed since it began.
    """

    number: int
    sentence: str
    desktop: str = "1"
    kind: Literal["do", "judge"] = "do"
    outcome: Outcome | None = None
    summary: str = ""
    observations: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    error: str | None = None
    phase: str = "call"
    flow: str = ""
    is_replayed: bool = False
    files_changed: Callable[[], dict[str, list[str]]] | None = field(default=None, repr=False)
    duration_ms: float = 0.0

    @property
    def actions(self) -> list[Action]:
        """The actions of all turns, in order."""
        return [action for turn in self.turns for action in turn.actions]

    @property
    def usage(self) -> Usage:
        """The usage of all turns together."""
        return sum((turn.usage for turn in self.turns), Usage())


@dataclass(kw_only=True)
class Run:
    """One test's steps, in order."""

    test: str
    mode: str
    steps: list[Step] = field(default_factory=list)

    @property
    def usage(self) -> Usage:
        """The usage of all steps together."""
        return sum((step.usage for step in self.steps), Usage())

    def actions(self) -> Iterator[Action]:
        """All actions, in order."""
        for step in self.steps:
            yield from step.actions
