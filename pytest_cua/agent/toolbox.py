"""The tools of one step: the computer in the version that the model takes, its partners, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaAsyncFunctionTool, BetaFunctionTool
from PIL import Image

from pytest_cua.errors import BadArgument
from pytest_cua.tools.around import Live, Recorded
from pytest_cua.tools.computer import ComputerToolset, RecordedComputer
from pytest_cua.tools.computer_single import SingleComputer
from pytest_cua.tools.partners import BashTool, EditorTool
from pytest_cua.tools.plain import Calls, FunctionTool, PlainTool
from pytest_cua.tools.scaling import Scaling
from pytest_cua.versions import PARTNERS, TOOLSET, VERSIONS


@dataclass(frozen=True)
class Toolbox:
    """What Claude may use in one step.

    Attributes:
        tools: For the SDK's runner.
        calls: Told of each reply.
        betas: Beta headers that the tools need.
        pictures: Give what Claude was shown, in order.
    """

    tools: tuple[Any, ...]
    calls: Calls
    betas: tuple[str, ...]
    pictures: list[Callable[[], Image.Image]]


def toolbox(
    around: Live | Recorded,
    scaling: Scaling,
    *,
    version: str,
    more: Sequence[Any] = (),
    partners: Callable[[str], Any],
    confirm: Callable[[Any], bool] | None = None,
) -> Toolbox:
    """Make the tools of one step.

    Args:
        around: Does each action on a desktop, or gives what was recorded.
        scaling: From screenshot to screen.
        version: Of the computer tool.
        more: "bash", "editor", and functions that the SDK's `@beta_tool` made tools of.
        partners: Gives the session that bash or the editor goes on with on this desktop.
        confirm: The SDK's hook before every action.

    Raises:
        BadArgument: Something in `more` is no tool.
    """
    calls, row = Calls(), VERSIONS[version]
    live = around if isinstance(around, Live) else None
    hands = ComputerToolset(live.desktop, live=live, scaling=scaling, confirm=confirm) if live is not None else None
    computer: Any = hands or RecordedComputer(around, confirm=confirm)  # type: ignore[arg-type]
    if version != TOOLSET:
        computer = SingleComputer(version, scaling.sent, hands, around, calls, confirm=confirm)
    others = [_other(tool, around, calls, row, partners=partners, confirm=confirm) for tool in more]
    names = [tool.name for tool in others]
    for name in names:
        if names.count(name) > 1 or name in ("finish_step", "computer"):
            raise BadArgument(f"There are two tools called {name!r}.", "give each tool a name of its own")
    return Toolbox((computer, *others), calls, (row.beta,) if row.beta else (), around.pictures)


def _other(
    tool: Any, around: Live | Recorded, calls: Calls, row: Any, *, partners: Callable[[str], Any], confirm: Any
) -> PlainTool:
    if tool == "bash":
        return BashTool(row.bash, partners("bash"), around, calls, confirm=confirm)
    if tool == "editor":
        return EditorTool(row.editor, partners("editor"), around, calls, confirm=confirm)
    check_tool(tool)
    return FunctionTool(tool, around, calls, confirm=confirm)


def check_tool(tool: Any) -> None:
    """Refuse what Claude cannot be given as a tool.

    Raises:
        BadArgument: It is none.
    """
    if tool in PARTNERS or isinstance(tool, BetaFunctionTool):
        return
    if isinstance(tool, BetaAsyncFunctionTool | BetaAsyncBuiltinFunctionTool):
        raise BadArgument(f"The tool {tool.name!r} is asynchronous, and steps are not.", "make it with @beta_tool")
    name = getattr(tool, "__name__", repr(tool))
    raise BadArgument(
        f"{name} is no tool: it is 'bash', 'editor', or a function that `anthropic.beta_tool` made a tool of.",
        "from anthropic import beta_tool, and @beta_tool before the function",
    )
