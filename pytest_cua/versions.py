"""The versions of Claude's computer tool, and what goes with each: one row, so that type, fields and header agree.

Sources: the tool reference of platform.claude.com as of November 2026, and the parameter types of SDK 2.14
(`anthropic.types.beta.beta_tool_computer_use_*_param`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TOOLSET = "computer_toolset_20260801"
PARTNERS = ("bash", "editor")  # what Claude may be given besides the computer, by name
_FIRST = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "screenshot",
    "cursor_position",
)
_SECOND = (*_FIRST, "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of the computer tool.

    Attributes:
        bash, editor: The versions of its partners.
        beta: The beta header that it needs; None for none.
        actions: The actions of a single tool; empty for the toolset, whose members the SDK knows.
        click_coordinates: Whether clicks take a coordinate and modifiers; else they are where the pointer is.
        zoom: Whether the tool is declared with `enable_zoom`.
    """

    bash: str = "bash_20250124"
    editor: str = "text_editor_20250728"
    beta: str | None = None
    actions: tuple[str, ...] = ()
    click_coordinates: bool = True
    zoom: bool = False


VERSIONS: Mapping[str, Version] = MappingProxyType(
    {
        TOOLSET: Version(),
        "computer_20251124": Version(beta="computer-use-2025-11-24", actions=(*_SECOND, "zoom"), zoom=True),
        "computer_20250124": Version(beta="computer-use-2025-01-24", actions=_SECOND),
        "computer_20241022": Version(
            bash="bash_20241022",
            editor="text_editor_20241022",
            beta="computer-use-2024-10-22",
            actions=_FIRST,
            click_coordinates=False,
        ),
    }
)
