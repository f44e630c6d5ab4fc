"""The pointer, moved and clicked through XTEST. Coordinates are pixels of the screen, from its upper left corner."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Final

from Xlib import X
from Xlib.ext import xtest

from pytest_cua.desktop import keys
from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.keyboard import Keyboard
from pytest_cua.desktop.waiting import now_ms
from pytest_cua.errors import BadArgument

# The pace of input, in milliseconds. The server keeps it: a request of XTEST can carry a delay.
_BETWEEN_CLICKS: Final = 10  # without, two of four triple clicks were counted wrong
_BETWEEN_MOVES: Final = 16  # a program sees each step of a drag at this pace; without, only the last
#: Two clicks that were asked for one by one must not become a double click: GTK waits 400, chromium 500
_SEPARATE: Final = 550
_NEAR: Final = 8  # pixels

_WHEEL: Final = {"up": 4, "down": 5, "left": 6, "right": 7}


class Pointer:
    """The desktop's pointer."""

    def __init__(self, connection: Connection, keyboard: Keyboard, size: tuple[int, int]) -> None:
        self._connection = connection
        self._keyboard = keyboard
        self._size = size
        self._down: list[int] = []
        self._last_click: tuple[float, int, tuple[int, int]] | None = None

    def position(self) -> tuple[int, int]:
        """Where it is.

        Raises:
            DesktopDied: the desktop is gone.
        """
        with self._connection.use():
            found = self._connection.root.query_pointer()
            return int(found.root_x), int(found.root_y)

    def move(self, x: int, y: int) -> None:
        """Move it.

        Raises:
            BadArgument: a point outside the screen.
            DesktopDied: the desktop is gone.
        """
        self._check(x, y)
        with self._connection.use() as display:
            self._move(display, x, y)
            display.sync()

    def press(self, button: int = 1) -> None:
        """Press a button and keep it down.

        Args:
            button: 1 is the left, 2 the middle, 3 the right one; 4 to 9 are wheel and side buttons.

        Raises:
            BadArgument: an unknown button.
            NotDelivered: another program has taken the pointer for itself.
            DesktopDied: the desktop is gone.
        """
        _check_button(button)
        try:
            with self._keyboard.delivery.click(button), self._connection.use() as display:
                self._button(display, button, True, self._pause_before(button, self.position()))
                display.sync()
        except BaseException:
            self.release(button)  # one that nobody was given would be dragged along
            raise

    def release(self, button: int = 1) -> None:
        """Release a button."""
        _check_button(button)
        with self._connection.use() as display:
            self._button(display, button, False)
            display.sync()
            self._clicked(button)

    def click(
        self,
        x: int | None = None,
        y: int | None = None,
        *,
        button: int = 1,
        count: int = 1,
        modifiers: object = (),
    ) -> None:
        """Click, `count` times as one double or triple click.

        Two calls in short order at the same spot stay two single clicks: the second one waits until programs no longer
        take it for a part of the first.

        Args:
            x: Where, in pixels; both left out: where the pointer is.
            y: See `x`.
            button: 1 is the left, 2 the middle, 3 the right one.
            count: 1 to 3.
            modifiers: "shift", "ctrl+alt", or several such names, held meanwhile.

        Raises:
            BadArgument: a point outside the screen, an unknown button or modifier.
            NotDelivered: another program has taken the pointer for itself.
            DesktopDied: the desktop is gone.
        """
        _check_button(button)
        if not isinstance(count, int) or not 1 <= count <= 10:
            raise BadArgument(f"count={count!r} is not between 1 and 10.")
        self._go(x, y)
        with (
            self._keyboard.held(modifiers),
            self._keyboard.delivery.click(button),
            self._connection.use() as display,
            self._released_in_the_end(display),
        ):
            delay = self._pause_before(button, self.position())
            for _ in range(count):
                self._button(display, button, True, delay)
                self._button(display, button, False)
                delay = _BETWEEN_CLICKS
            display.sync()
            self._clicked(button)

    def drag(self, start: tuple[int, int], end: tuple[int, int], *, modifiers: object = ()) -> None:
        """Press the left button at `start`, move to `end` in steps that programs can see, and release it.

        Raises:
            BadArgument: a point outside the screen, or an unknown modifier.
            DesktopDied: the desktop is gone.
        """
        for point in (start, end):
            self._check(*_point(point))
        self._go(*start)
        steps = max(5, min(20, int(math.dist(start, end) / 20)))
        with self._keyboard.held(modifiers), self._connection.use() as display, self._released_in_the_end(display):
            with self._keyboard.delivery.click(1):
                self._button(display, 1, True, self._pause_before(1, start))
                display.sync()
            for step in range(1, steps + 1):
                x, y = (round(a + (b - a) * step / steps) for a, b in zip(start, end, strict=True))
                self._move(display, x, y, _BETWEEN_MOVES)
            self._button(display, 1, False, _BETWEEN_MOVES)
            display.sync()

    def scroll(
        self, direction: str, amount: int, x: int | None = None, y: int | None = None, *, modifiers: object = ()
    ) -> None:
        """Turn the wheel.

        Args:
            direction: "up", "down", "left" or "right".
            amount: Notches; 0 does nothing.
            x: Where, in pixels; both left out: where the pointer is.
            y: See `x`.
            modifiers: As in `click`.

        Raises:
            BadArgument: an unknown direction, a negative amount, a point outside the screen.
            NotDelivered: another program has taken the pointer for itself.
            DesktopDied: the desktop is gone.
        """
        if direction not in _WHEEL:
            raise BadArgument(f"{direction!r} is no direction to scroll in.", f"use one of {', '.join(_WHEEL)}")
        if not isinstance(amount, int) or not 0 <= amount <= 1000:
            raise BadArgument(f"amount={amount!r} is not between 0 and 1000.")
        self._go(x, y)
        if amount == 0:
            keys.modifiers(modifiers)  # what cannot be meant is an error all the same
            return
        with (
            self._keyboard.held(modifiers),
            self._keyboard.delivery.click(_WHEEL[direction]),
            self._connection.use() as display,
            self._released_in_the_end(display),
        ):
            for _ in range(amount):
                self._button(display, _WHEEL[direction], True)
                self._button(display, _WHEEL[direction], False)
            display.sync()

    def release_all(self) -> None:
        """Release every button that is down, whoever pressed it."""
        with self._connection.use() as display:
            mask = self._connection.root.query_pointer().mask
            down = [button for button in range(1, 6) if mask & (X.Button1Mask << (button - 1))]
            for button in dict.fromkeys([*self._down, *down]):
                xtest.fake_input(display, X.ButtonRelease, button)
            self._down.clear()
            display.sync()

    def _go(self, x: int | None, y: int | None) -> None:
        if x is None and y is None:
            return
        if x is None or y is None:
            raise BadArgument(f"({x}, {y}) is no point.", "give both x and y, or neither")
        self.move(x, y)

    def _check(self, x: object, y: object) -> None:
        width, height = self._size
        for value in (x, y):
            if not isinstance(value, int) or isinstance(value, bool):
                raise BadArgument(f"({x!r}, {y!r}) is no point: coordinates are whole pixels.")
        if not (0 <= x < width and 0 <= y < height):  # type: ignore[operator]
            raise BadArgument(f"The point ({x}, {y}) is outside the screen, which is {width} by {height} pixels.")

    def _pause_before(self, button: int, at: tuple[int, int]) -> int:
        """Milliseconds to wait so that a press is not taken for the second half of a double click."""
        if self._last_click is None:
            return 0
        when, last_button, where = self._last_click
        if last_button != button or math.dist(at, where) > _NEAR:
            return 0
        return max(0, math.ceil(when + _SEPARATE - now_ms()))

    def _clicked(self, button: int) -> None:
        self._last_click = (now_ms(), button, self.position())

    @contextlib.contextmanager
    def _released_in_the_end(self, display: Any) -> Iterator[None]:
        before = list(self._down)
        try:
            yield
        finally:
            with contextlib.ExitStack() as stack:  # goes on when an interrupt comes in between
                for button in [button for button in self._down if button not in before]:
                    stack.callback(display.sync)  # or the release would wait for the next request
                    stack.callback(self._button, display, button, False)

    def _move(self, display: Any, x: int, y: int, delay: int = 0) -> None:
        xtest.fake_input(display, X.MotionNotify, 0, time=delay, x=x, y=y)

    def _button(self, display: Any, button: int, pressed: bool, delay: int = 0) -> None:
        if pressed:
            self._down.append(button)  # first: an interrupt in between must not leave it down
        xtest.fake_input(display, X.ButtonPress if pressed else X.ButtonRelease, button, time=delay)
        if not pressed and button in self._down:
            self._down.remove(button)


def _check_button(button: object) -> None:
    if not isinstance(button, int) or isinstance(button, bool) or not 1 <= button <= 9:
        raise BadArgument(f"button={button!r} is no button.", "1 is the left, 2 the middle, 3 the right one")


def _point(value: object) -> tuple[object, object]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise BadArgument(f"{value!r} is no point.", "write (x, y), in pixels")
    return value[0], value[1]
