"""The computer tool as it was before the toolset: one tool, `computer`, whose input names the action.

The actions are those of the toolset's members and are done by the same executor; what differs is what each version
takes, and that a screenshot goes with every result. What is refused here is what the reference implementation of
each version refuses (the computer-use demo of claude-quickstarts), with the same conditions in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from anthropic.tools import ToolError

from pytest_cua.tools.around import LOOKS, Live, Recorded
from pytest_cua.tools.computer import FIELDS, ComputerToolset
from pytest_cua.tools.plain import Calls, PlainTool, Result
from pytest_cua.trace import Action
from pytest_cua.versions import VERSIONS

MAX_SECONDS = 100  # `wait` and `hold_key`, shorter than for the toolset
_CLICKS = ("left_click", "right_click", "middle_click", "double_click", "triple_click")
_TEXT = ("key", "type", "hold_key")
_TAKES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_CLICKS, ("coordinate", "text")),
    "key": ("text",),
    "type": ("text",),
    "hold_key": ("text", "duration"),
    "mouse_move": ("coordinate",),
    "left_click_drag": ("start_coordinate", "coordinate", "text"),
    "scroll": ("coordinate", "scroll_direction", "scroll_amount", "text"),
    "wait": ("duration",),
    "zoom": ("region",),
}
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "key": ("text",),
    "type": ("text",),
    "hold_key": ("text", "duration"),
    "mouse_move": ("coordinate",),
    "left_click_drag": ("coordinate",),
    "scroll": ("scroll_direction", "scroll_amount"),
    "wait": ("duration",),
    "zoom": ("region",),
}


class SingleComputer(PlainTool):
    """`computer_20251124`, `computer_20250124` or `computer_20241022` on a desktop, or from a recording.

    Args:
        version: Which of them.
        size: Width and height of the screenshots that are sent, in pixels.
        computer: Does the actions; None where they come from a recording.
        around, calls, confirm: As for `PlainTool`.
    """

    def __init__(
        self,
        version: str,
        size: tuple[int, int],
        computer: ComputerToolset | None,
        around: Live | Recorded,
        calls: Calls | None = None,
        *,
        confirm: Callable[[Any], bool] | None = None,
    ) -> None:
        super().__init__(around, calls, confirm=confirm)
        self._type = version
        self._version = VERSIONS[version]
        self._size = size
        self._computer = computer
        self._picture: tuple[str, str] = ("", "")  # that goes with the result at hand: its data and media type

    def to_dict(self) -> Any:
        """Its definition: type, name, the size of screenshots, and whether it can zoom."""
        found = {
            "type": self._type,
            "name": "computer",
            "display_width_px": self._size[0],
            "display_height_px": self._size[1],
        }
        return {**found, "enable_zoom": True} if self._version.zoom else found

    def action_name(self, input: Mapping[str, Any]) -> str:
        """The action that the input names."""
        return str(input.get("action"))

    def work(self, action: Action) -> Result:
        """Do the action."""
        assert self._computer is not None
        given = self.checked(action.input)
        action.input = {name: value for name, value in action.input.items() if name != "action"}
        done = self._computer.member(action, SimpleNamespace(**given))
        if isinstance(done, str):
            return done
        self._picture = (done.data, done.media_type)
        return ""

    def show(self, action: Action) -> None:
        """Take the screenshot that goes with the result; one that looked has its own."""
        assert self._computer is not None
        if action.name not in LOOKS:
            self._picture = self._computer.live.picture(action, *self._computer.shown())

    def result(self, done: Result, action: Action) -> Result:
        """The screenshot; of `cursor_position` the text."""
        return done if action.name == "cursor_position" else [_image(*self._picture)]

    def recorded_result(self, action: Action, recorded: Recorded) -> Result:
        """As `result`, from the recording."""
        return [_image(recorded.picture(action.screen), "image/webp")] if action.screen else action.text

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The input with every field, None where it was not given.

        Raises:
            ToolError: The version does not know the action, or the action does not take what was given.
        """
        name = given.get("action")
        if name not in self._version.actions:
            raise ToolError(f"{name!r} is no action of {self._type}: it takes {', '.join(self._version.actions)}.")
        fields = {field: given[field] for field in given if field != "action" and given[field] is not None}
        takes = _TAKES.get(name, ())
        if not self._version.click_coordinates and name in _CLICKS:
            takes = ()
        for field in fields:
            if field not in FIELDS:
                raise ToolError(f"{field} is no parameter of {self._type}.")
            if field not in takes:
                raise ToolError(f"{field} is not accepted for {name}.")
        for field in _NEEDS.get(name, ()):
            if field not in fields:
                raise ToolError(f"{field} is required for {name}.")
        for field, value in fields.items():
            _check_field(field, value)
        return {**dict.fromkeys(FIELDS), **fields}


def _check_field(field: str, value: Any) -> None:
    if field in ("coordinate", "start_coordinate", "region"):
        length = 4 if field == "region" else 2
        if not isinstance(value, list | tuple) or len(value) != length or not all(map(_is_natural, value)):
            raise ToolError(f"{field}={value!r} must be {length} whole numbers of 0 or more.")
    elif field == "text":
        if not isinstance(value, str):
            raise ToolError(f"text={value!r} must be text.")
    elif field == "scroll_direction":
        if value not in ("up", "down", "left", "right"):
            raise ToolError(f"scroll_direction={value!r} must be up, down, left or right.")
    elif field == "scroll_amount":
        if not _is_natural(value):
            raise ToolError(f"scroll_amount={value!r} must be a whole number of 0 or more.")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise ToolError(f"duration={value!r} must be a number of seconds, 0 to {MAX_SECONDS}.")


def _is_natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _image(data: str, media_type: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
