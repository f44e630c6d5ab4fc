"""Tools that are no toolset: each with a name of its own, called by the SDK's runner with its input alone.

The runner takes every exception of such a tool for its result, and does not say which call it runs; `Calls` knows,
since calls are run in the order of the reply.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anthropic.lib.tools import BetaBuiltinFunctionTool
from anthropic.tools import ToolError

from pytest_cua.errors import CuaError, CuaFailure
from pytest_cua.tools.around import Live, Recorded, guarded
from pytest_cua.trace import Action

Result = str | list[dict[str, Any]]


@dataclass
class Calls:
    """The calls of the reply at hand that no toolset answers, in order."""

    _left: list[Any] = field(default_factory=list)

    def begin(self, blocks: Iterable[Any]) -> None:
        """A reply has come."""
        self._left = [block for block in blocks if block.type == "tool_use" and block.toolset_name is None]

    def take(self, name: str) -> Any:
        """The next call of a tool; None when it is called by hand."""
        block = next((block for block in self._left if block.name == name), None)
        if block is not None:
            del self._left[: self._left.index(block) + 1]
        return block


@dataclass(frozen=True)
class ConfirmContext:
    """What the `confirm` hook is told of a call: its action (or the tool's name), its input, the block itself."""

    member: str
    input: Mapping[str, Any]
    tool_use: Any


class PlainTool(BetaBuiltinFunctionTool):
    """A tool whose calls are recorded and replayed as those of the toolset are.

    Args:
        around: Does each call between two frames of the desktop, or gives what was recorded.
        calls: Knows which call it is.
        confirm: The SDK's hook before every call; only True lets it run. None lets all run.
    """

    def __init__(
        self, around: Live | Recorded, calls: Calls | None = None, *, confirm: Callable[[Any], bool] | None = None
    ) -> None:
        self.around = around
        self._calls = calls or Calls()
        self._confirm = guarded(confirm)

    @abstractmethod
    def work(self, action: Action) -> Result:
        """Do one call, and give its result.

        Raises:
            ToolError, BadArgument: What Claude is to read.
        """

    def action_name(self, input: Mapping[str, Any]) -> str:
        """What a call is called in recordings and reports."""
        return self.name

    def show(self, action: Action) -> None:
        """Once the screen is at rest after a call: keep a picture that goes with its result. Most tools have none."""

    def result(self, done: Result, action: Action) -> Result:
        """What Claude is sent of a call that was done."""
        return done

    def recorded_result(self, action: Action, recorded: Recorded) -> Result:
        """What Claude was sent while recording; pictures of the user's own tools are left out."""
        return action.text

    def call(self, input: object) -> Any:
        """Run one call for the SDK's runner."""
        given: dict[str, Any] = dict(input) if isinstance(input, Mapping) else {"input": input}
        block = self._calls.take(self.name)
        name = self.action_name(given)
        if self._confirm(ConfirmContext(name, given, block)) is not True:
            raise ToolError(
                f"The user did not grant permission to run {name!r}. Do not retry it unless the user asks you to."
            )
        id = block.id if block is not None else ""
        if isinstance(self.around, Recorded):
            return self.recorded_result(self.around.action(id, name), self.around)
        action = Action(id=id, tool=self.name, name=name, input=given)

        def work() -> Result:
            done = self.work(action)
            action.text = done if isinstance(done, str) else _text_of(done)
            return done

        return self.result(self.around.act(action, work, show=lambda: self.show(action)), action)


def _text_of(blocks: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")


class FunctionTool(PlainTool):
    """A tool of the user's own: the SDK's `@beta_tool` function.

    Args:
        tool: The function tool.
        around, calls, confirm: As for `PlainTool`.
    """

    def __init__(self, tool: Any, around: Live | Recorded, calls: Calls, **more: Any) -> None:
        super().__init__(around, calls, **more)
        self._tool = tool

    def to_dict(self) -> Any:
        """Its definition."""
        return self._tool.to_dict()

    def work(self, action: Action) -> Result:
        """Call the function; an assertion that fails in it fails the test, any other error is Claude's to read."""
        try:
            result = self._tool.call(action.input)
        except (ToolError, CuaError):
            raise
        except AssertionError as error:
            raise CuaFailure(f"The tool {self.name} failed: {error or 'an assertion in it did not hold'}") from error
        except ValueError as error:
            raise ToolError(f"{error}: {error.__cause__}" if error.__cause__ else f"ValueError: {error}") from error
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error
        return result if isinstance(result, str) else list(result or ())
