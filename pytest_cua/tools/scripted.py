"""The computer tool without a model: what Claude could do, as typed methods for tests that are scripted."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from anthropic.tools import ToolError
from PIL import Image

from pytest_cua.errors import BadArgument
from pytest_cua.secrets import Secret
from pytest_cua.tools.around import Abort
from pytest_cua.tools.computer import FIELDS, ComputerToolset
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

Point = Sequence[int]


class Computer:
    """The members of Claude's computer toolset, called by the test itself: the same executor, limits and waiting.

    Coordinates are pixels of the screen. Each method returns once the screen is still. What cannot be meant so raises
    `BadArgument`, before anything is done; input that reached no window, `NotDelivered`.

    Args:
        desktop: Where.
        quiet: Milliseconds without a changed pixel after which the screen is still.
    """

    def __init__(self, desktop: Desktop, *, quiet: int = 150) -> None:
        self._toolset = ComputerToolset(desktop, quiet=quiet)

    # ------------------------------------------------------------------ looking

    def screenshot(self) -> Image.Image:
        """The screen."""
        return self._picture("screenshot")

    def zoom(self, region: Sequence[int]) -> Image.Image:
        """A region `(left, top, right, bottom)`, enlarged to fill the size of a screenshot."""
        return self._picture("zoom", region=_numbers(region, "region", 4))

    def cursor_position(self) -> tuple[int, int]:
        """Where the pointer is."""
        x, _, y = self._do("cursor_position").partition(",")
        return int(x.removeprefix("X=")), int(y.removeprefix("Y="))

    # ------------------------------------------------------------------ mouse

    def left_click(self, coordinate: Point | None = None, *, text: str | None = None) -> None:
        """Click with the left button.

        Args:
            coordinate: Where; None for where the pointer is.
            text: Modifiers held meanwhile, such as "ctrl+shift".
        """
        self._click("left_click", coordinate, text)

    def right_click(self, coordinate: Point | None = None, *, text: str | None = None) -> None:
        """As `left_click`, with the right button."""
        self._click("right_click", coordinate, text)

    def middle_click(self, coordinate: Point | None = None, *, text: str | None = None) -> None:
        """As `left_click`, with the middle button."""
        self._click("middle_click", coordinate, text)

    def double_click(self, coordinate: Point | None = None, *, text: str | None = None) -> None:
        """As `left_click`, twice."""
        self._click("double_click", coordinate, text)

    def triple_click(self, coordinate: Point | None = None, *, text: str | None = None) -> None:
        """As `left_click`, three times."""
        self._click("triple_click", coordinate, text)

    def left_click_drag(self, start_coordinate: Point, coordinate: Point, *, text: str | None = None) -> None:
        """Press the left button at one place, move, and release it at another."""
        start = _numbers(start_coordinate, "start_coordinate")
        self._do("left_click_drag", start_coordinate=start, coordinate=_numbers(coordinate, "coordinate"), text=text)

    def left_mouse_down(self) -> None:
        """Press the left button and keep it."""
        self._do("left_mouse_down")

    def left_mouse_up(self) -> None:
        """Release the left button."""
        self._do("left_mouse_up")

    def mouse_move(self, coordinate: Point) -> None:
        """Move the pointer."""
        self._do("mouse_move", coordinate=_numbers(coordinate, "coordinate"))

    def scroll(
        self,
        direction: Literal["up", "down", "left", "right"],
        amount: int,
        coordinate: Point | None = None,
        *,
        text: str | None = None,
    ) -> None:
        """Turn the wheel.

        Args:
            direction: Which way to scroll.
            amount: Clicks of the wheel, 0 to 100.
            coordinate: Where; None for where the pointer is.
            text: Modifiers held meanwhile.
        """
        if direction not in ("up", "down", "left", "right"):
            raise BadArgument(f"direction={direction!r} is not up, down, left or right.")
        place = None if coordinate is None else _numbers(coordinate, "coordinate")
        self._do("scroll", scroll_direction=direction, scroll_amount=amount, coordinate=place, text=text)

    # ------------------------------------------------------------------ keyboard

    def type(self, text: str | Secret) -> None:
        """Type text where the focus is."""
        self._do("type", text=text.value if isinstance(text, Secret) else text)

    def key(self, text: str, *, repeat: int = 1) -> None:
        """Press a key or a combination, such as "ctrl+s", 1 to 100 times."""
        self._do("key", text=text, repeat=repeat)

    def hold_key(self, text: str, duration: float) -> None:
        """Hold a key or a combination for some seconds, 0 to 300."""
        self._do("hold_key", text=text, duration=duration)

    def wait(self, duration: float) -> None:
        """Let seconds pass, 0 to 300. An `expect` waits for what is meant instead, and no longer."""
        self._do("wait", duration=duration)

    # ------------------------------------------------------------------ inside

    def _click(self, name: str, coordinate: Point | None, text: str | None) -> None:
        self._do(name, coordinate=None if coordinate is None else _numbers(coordinate, "coordinate"), text=text)

    def _picture(self, name: str, **input: Any) -> Image.Image:
        self._do(name, **input)
        return self._toolset.pictures.pop()()

    def _do(self, name: str, **input: Any) -> str:
        given = {field: value for field, value in input.items() if value is not None}
        action = Action(id="", tool="computer", name=name, input=given)
        fields = SimpleNamespace(**{**dict.fromkeys(FIELDS), **given})
        try:
            return str(self._toolset.live.act(action, lambda: self._toolset.member(action, fields)))
        except ToolError as error:  # as Claude would read it
            raise error.__cause__ or error from None
        except Abort as abort:
            raise abort.error from abort.__cause__


def _numbers(value: Sequence[int], what: str, length: int = 2) -> list[int]:
    if len(value) != length or not all(isinstance(number, int) for number in value):
        raise BadArgument(f"{what}={value!r} is not {length} whole numbers of pixels.")
    return list(value)
