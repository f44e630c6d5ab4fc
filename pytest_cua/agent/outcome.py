"""How a step ends: `finish_step`, and what the test gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

from anthropic import beta_tool
from anthropic.tools import ToolError
from PIL import Image

from pytest_cua.trace import Action, Outcome, Step, Usage

OUTCOMES: tuple[str, ...] = get_args(Outcome)


@dataclass(frozen=True)
class StepResult:
    """What became of a step: Claude's account of it, which is never a verdict on the application.

    Attributes:
        text: Claude's summary.
        outcome: "done"; a blocked step raises `Blocked` instead.
        observations: What Claude noted, if anything.
        actions: What it did, in order.
        usage: Tokens and money, of the recording when it is replayed.
    """

    step: Step
    _pictures: tuple[Callable[[], Image.Image], ...] = field(repr=False, default=())

    @property
    def text(self) -> str:
        """Claude's summary of the step."""
        return self.step.summary

    @property
    def outcome(self) -> Outcome | None:
        """How Claude says the step ended."""
        return self.step.outcome

    @property
    def observations(self) -> list[str]:
        """What Claude noted at the end of the step."""
        return self.step.observations

    @property
    def actions(self) -> list[Action]:
        """The actions of the step, in order."""
        return self.step.actions

    @property
    def usage(self) -> Usage:
        """Tokens and money the step took when it was recorded."""
        return self.step.usage

    @property
    def screenshots(self) -> list[Image.Image]:
        """The pictures Claude was shown, in order, as it saw them."""
        return [picture() for picture in self._pictures]


@dataclass(frozen=True)
class Opinion:
    """What the model thinks of a statement: an opinion, recorded and labelled so, never a test's only assertion."""

    statement: str
    holds: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds


@dataclass
class Ending:
    """Filled by the tool that ends a conversation."""

    outcome: Outcome | None = None
    summary: str = ""
    observations: list[str] = field(default_factory=list)
    holds: bool | None = None

    @property
    def reached(self) -> bool:
        """Whether the conversation was ended by its tool."""
        return self.outcome is not None or self.holds is not None


def finish_tool(ending: Ending, *, alone: Callable[[], bool], done: Callable[[], None]) -> Any:
    """The custom tool `finish_step`.

    Args:
        ending: Where the outcome goes.
        alone: Whether it is the only tool call of its reply.
        done: Called once the outcome is taken, to stop the runner.
    """
    return beta_tool(_finish_step(ending, alone, done), input_schema=_schema(_finish_step))


def opinion_tool(ending: Ending, *, alone: Callable[[], bool], done: Callable[[], None]) -> Any:
    """The custom tool `give_opinion`, for `cua.judge`."""
    return beta_tool(_give_opinion(ending, alone, done), input_schema=_schema(_give_opinion))


@cache
def _schema(make: Callable[..., Callable[..., str]]) -> Any:
    """The input schema of a tool, made of a function that reaches nothing.

    The SDK keeps every function for ever whose schema it makes; one that ends a conversation would keep with it the
    conversation and the pictures in it, the test, and the whole run of pytest.
    """
    return beta_tool(make(Ending(), bool, bool)).input_schema


def _finish_step(ending: Ending, alone: Callable[[], bool], done: Callable[[], object]) -> Callable[..., str]:
    def finish_step(outcome: Literal["done", "blocked"], summary: str, observations: list[str] | None = None) -> str:
        """End the step. Call it alone in a reply, after you have seen the result on the screen.

        Args:
            outcome: "done" when the step is carried out as written, "blocked" when it cannot be.
            summary: One sentence: what you saw that shows it is done, or what stands in the way.
            observations: Things worth knowing about the application that you came across, if any.
        """
        if not alone():
            raise ToolError(
                "finish_step must be the only tool call of its reply: look at what your last actions did first, "
                "then call finish_step alone."
            )
        if outcome not in OUTCOMES:
            raise ToolError(f'outcome must be "done" or "blocked", not {outcome!r}.')
        ending.outcome, ending.summary, ending.observations = outcome, summary, list(observations or ())
        done()
        return "The step is ended."

    return finish_step


def _give_opinion(ending: Ending, alone: Callable[[], bool], done: Callable[[], object]) -> Callable[..., str]:
    def give_opinion(holds: bool, reason: str) -> str:
        """Say whether the statement holds on the screenshot.

        Args:
            holds: Whether it holds.
            reason: One sentence: what on the screen shows it.
        """
        if not alone():
            raise ToolError("give_opinion must be the only tool call of its reply.")
        ending.holds, ending.summary = holds, reason
        done()
        return "Thank you."

    return give_opinion
