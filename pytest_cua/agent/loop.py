"""One step: from a sentence to turns, on the SDK's tool runner, until `finish_step`.

The loop cannot tell a live model from a cassette: both are middleware of the client. Nor can it tell a live
desktop from a recorded one: both are a computer toolset.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
from anthropic import omit
from anthropic.tools import ToolsetUsageError

from pytest_cua.agent.budget import Budget, Clock
from pytest_cua.agent.outcome import Ending, finish_tool, opinion_tool
from pytest_cua.agent.prompt import JUDGE_PROMPT, NUDGE, SYSTEM_PROMPT
from pytest_cua.cassette.recorder import SCRIPTED_HEADER
from pytest_cua.errors import Blocked, CuaError, ModelRefused, StepFailed, pytest_command
from pytest_cua.model import model_info, usage_of
from pytest_cua.tools.around import Abort
from pytest_cua.tools.plain import Calls
from pytest_cua.trace import Action, Step, Turn

log = logging.getLogger("pytest_cua.steps")

_UNFINISHED = {
    "max_tokens": "the reply was cut at its limit of tokens",
    "refusal": "Claude refused to go on",
    "model_context_window_exceeded": "the conversation no longer fits the model's context",
}


class Keeper(Protocol):
    """The cassette's side of a step: `Recorder` or `Player`."""

    def begin_step(self, step: Step) -> None:
        """A step begins: its requests are one conversation."""
        ...

    def end_step(self, step: Step) -> None:
        """A step ended as it should."""
        ...

    def action(self, action: Action) -> None:
        """An action is done."""
        ...


@dataclass
class Conversation:
    """One conversation with Claude: a step, or a judgement.

    Attributes:
        client: With the recorder's or the player's middleware.
        model: The model's name.
        blocks: The content of the first user message.
        tools: What Claude may use, apart from the tool that ends the conversation; none for a judgement.
        calls: Told of each reply's calls, for tools that are not told which call they answer.
        betas: Beta headers that the tools need.
        threads: Whether the API holds the conversation between turns.
        max_turns: Most replies.
        on_turn: Called with each reply's turn before its tools run.
        is_live: Whether replies cost money; those of a cassette were paid for when it was made.
    """

    client: anthropic.Anthropic
    model: str
    blocks: Sequence[Mapping[str, Any]]
    step: Step
    tools: Sequence[Any]
    calls: Calls
    betas: Sequence[str]
    threads: bool
    max_turns: int
    clock: Clock
    budget: Budget
    on_turn: Callable[[Turn], None]
    is_live: bool = True
    ending: Ending = field(default_factory=Ending)
    _runner: Any = None
    _calls: int = 0  # tool calls in the reply at hand

    def run(self) -> Ending:
        """Talk until the ending tool was called.

        Raises:
            StepFailed: Claude does not end the step.
            ModelRefused: The API refused a request or could not be reached.
            CuaError: Whatever a tool or the cassette raised.
        """
        messages: list[Any] = [{"role": "user", "content": list(self.blocks)}]
        for asked_again in (False, True):
            last = self._talk(messages)
            if self.ending.reached:
                return self.ending
            if last.stop_reason not in _UNFINISHED:
                self._check_limits()
            if any(block.type == "tool_use" for block in last.content) and last.stop_reason != "tool_use":
                why = _UNFINISHED.get(
                    last.stop_reason, f"the reply ended ({last.stop_reason}) before its tools could run"
                )
                raise self._unfinished(why, _refusal(last))
            if last.stop_reason in _UNFINISHED:
                raise self._unfinished(_UNFINISHED[last.stop_reason], _refusal(last))
            if not asked_again:
                messages = [*self._history(last), {"role": "user", "content": [{"type": "text", "text": NUDGE}]}]
        said = self.step.turns[-1].text
        raise self._unfinished(f"Claude ended its reply twice without {self._tool_name}", f" Its last words: {said!r}.")

    @property
    def _tool_name(self) -> str:
        return "finish_step" if self.step.kind == "do" else "give_opinion"

    def _talk(self, messages: Sequence[Any]) -> Any:
        """Run one tool runner to its end and give the last reply."""
        info = model_info(self.model)
        make = finish_tool if self.step.kind == "do" else opinion_tool
        ending_tool = make(self.ending, alone=lambda: self._calls == 1, done=self._close)
        messages_api: Any = self.client.beta.messages  # its overloads do not know a list of our own tools
        self._runner = messages_api.tool_runner(
            model=self.model,
            max_tokens=info.max_tokens,
            system=SYSTEM_PROMPT if self.step.kind == "do" else JUDGE_PROMPT,
            messages=messages,
            tools=[*self.tools, ending_tool],
            betas=list(self.betas) or omit,
            thinking=dict(info.thinking) if info.thinking else omit,
            cache_control={"type": "ephemeral"},
            max_iterations=self.max_turns - len(self.step.turns),  # a call that could end the step may be refused
            thread=omit if self.threads else False,
            timeout=max(1.0, self.clock.left / 1000),
        )
        last = None
        for message in self._runner:
            if last is not None and self._may_end(last):
                self._check_limits()  # the call that could have ended the step was refused
            last = message
            self._take(message)
        return last

    def _close(self) -> None:
        """No request after the one at hand."""
        self._runner.close()

    def _take(self, message: Any) -> None:
        """Note a reply, before its tools run, and stop when a limit is reached."""
        turn = Turn(
            number=len(self.step.turns) + 1,
            text=_text(message, "text"),
            thinking=_text(message, "thinking"),
            stop_reason=message.stop_reason,
            usage=usage_of(message, self.model),
        )
        self.step.turns.append(turn)
        self._calls = sum(1 for block in message.content if block.type == "tool_use")
        self.calls.begin(message.content)
        if self.is_live:
            self.budget.pay(turn.usage)
        self.on_turn(turn)
        if turn.text:
            log.info("step %d, turn %d: %s", self.step.number, turn.number, turn.text)
        if not self._may_end(message):
            self._check_limits()

    def _may_end(self, message: Any) -> bool:
        """Whether this reply can end the step; any other must not be followed by a request beyond a limit."""
        return message.stop_reason == "tool_use" and [
            block.name for block in message.content if block.type == "tool_use" and block.toolset_name is None
        ] == [self._tool_name] * self._calls == [self._tool_name]

    def _check_limits(self) -> None:
        """Stop before the next request when a limit is reached.

        Raises:
            StepFailed: One is.
        """
        if len(self.step.turns) >= self.max_turns:
            raise StepFailed(
                f"Claude did not finish step {self.step.number} {self.step.sentence!r} within {self.max_turns} turns.",
                "raise the limit: cua.do(..., max_turns=N) or -o cua_max_turns=N; or write a smaller step",
            )
        self.clock.check(self.step)
        if self.is_live:
            self.budget.check_money(self.step)

    def _history(self, last: Any) -> list[Any]:
        """The conversation so far; an empty reply, which the API would refuse, is left out."""
        kept: list[Any] = []

        def take(params: Any) -> Any:
            kept.extend(params["messages"])
            return params

        self._runner.set_messages_params(take)
        if not last.content and kept and kept[-1]["role"] == "assistant":
            kept.pop()
        return kept

    def _unfinished(self, why: str, more: str = "") -> StepFailed:
        return StepFailed(
            f"Claude did not finish step {self.step.number} {self.step.sentence!r}: {why}.{more}",
            "say in the sentence what is to be seen when the step is done",
        )


def _text(message: Any, kind: str) -> str:
    return "\n".join(getattr(block, kind) or "" for block in message.content if block.type == kind).strip()


def _refusal(message: Any) -> str:
    details = getattr(message, "stop_details", None)
    category = getattr(details, "category", None)
    return f" The category it gave: {category}." if category else ""


@contextmanager
def _nobody_asked() -> Iterator[None]:
    """In a replay, keep the SDK from warning of a retired model: `check_age` says it of the recording."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The model '.*' is deprecated and will reach end-of-life", DeprecationWarning)
        yield


def run_conversation(conversation: Conversation, keeper: Keeper) -> Ending:
    """Run one conversation between `begin_step` and `end_step`, every error one of ours.

    Raises:
        Blocked: Claude reports the step as blocked.
        CuaError: Anything else that ends it.
    """
    step = conversation.step
    keeper.begin_step(step)
    try:
        with nullcontext() if conversation.is_live else _nobody_asked():
            ending = conversation.run()
    except Abort as abort:
        raise abort.error from abort.__cause__
    except ToolsetUsageError as error:
        raise CuaError(f"The computer toolset was misused by pytest-cua: {error}") from error
    except anthropic.AnthropicError as error:
        raise refused(error, conversation.model) from None
    except TypeError as error:
        if "authentication" not in str(error):  # how SDK 2.14 says that it found no key
            raise
        raise _no_key() from None
    finally:
        step.duration_ms = conversation.clock.elapsed
    step.outcome, step.summary, step.observations = ending.outcome or "done", ending.summary, ending.observations
    keeper.end_step(step)
    if ending.outcome == "blocked":
        raise Blocked(
            f"Step {step.number} {step.sentence!r} is blocked: {ending.summary}",
            "if this is what the application should do, catch it: with pytest.raises(pytest_cua.Blocked): cua.do(...)",
            reason=ending.summary,
        )
    return ending


def _without_key() -> str:
    return f"or replay without a key: {pytest_command('--cua-mode=replay')}"


def _no_key() -> ModelRefused:
    return ModelRefused(
        "No API key was found, and this mode asks a model.", "export ANTHROPIC_API_KEY=...", _without_key()
    )


def refused(error: anthropic.AnthropicError, model: str) -> ModelRefused:
    """What the API's refusal means and what to do about it."""
    replay = _without_key()
    if (
        isinstance(error, anthropic.APIStatusError)
        and SCRIPTED_HEADER in error.response.headers
        and "script" in str(error.api_message)
    ):
        return ModelRefused(
            f"ScriptedClaude, which plays the model here, answered {error.status_code}: {error.api_message}.",
            "mend the script: its own errors are in claude.script_errors, what it refused in claude.errors",
        )
    if isinstance(error, (anthropic.AuthenticationError, anthropic.PermissionDeniedError)):
        return ModelRefused(
            f"The API refused the key ({error.status_code}): {error.api_message}.",
            "check ANTHROPIC_API_KEY, and ANTHROPIC_BASE_URL if a gateway is used",
            replay,
        )
    if isinstance(error, anthropic.APITimeoutError):
        return ModelRefused("The API did not answer in time.", "run it again", replay)
    if isinstance(error, anthropic.APIConnectionError):
        return ModelRefused(
            f"The API could not be reached: {error.__cause__ or error}.",
            "check the network and ANTHROPIC_BASE_URL",
            replay,
        )
    if isinstance(error, anthropic.APIStatusError):
        return ModelRefused(
            f"The API answered {error.status_code} for model {model}: {error.api_message}.",
            "a 404 or 400 about the model: set another with --cua-model; 429 or 5xx: run it again later",
            replay,
        )
    if "api_key" in str(error) or "authentication" in str(error).lower():
        return _no_key()
    return ModelRefused(f"The request could not be made: {error}.", replay)
