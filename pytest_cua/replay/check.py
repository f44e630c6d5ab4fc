"""Whether a replayed action meets the screen it met while it was recorded.

Until there are gates for each target, the verdict is the plain one: the screen that Claude looked at must come back
within its time, compared strictly outside of excluded areas, and a tool that worked must work. Before any other action
the recorded screen is waited for, because Claude's thinking time is gone in a replay, but without a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.recorder import Latch, Player
from pytest_cua.errors import ScreenDrift, shell_quoted
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

_LOOKED_AT = ("screenshot", "zoom")  # the actions whose picture Claude saw
_BEFORE_LIMIT = 4_000  # ms: how long an input waits for the recorded screen before it goes on without one
_PACE = 40  # ms of rest between two looks


class Check(Protocol):
    """What an executor asks around each action."""

    def before(self, action: Action) -> Image.Image:
        """Called before the action; gives the frame it meets."""
        ...

    def after(self, action: Action) -> None:
        """Called after the action, with its result filled in."""
        ...


class NoCheck:
    """While recording, whatever is on the screen is right."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def before(self, action: Action) -> Image.Image:
        """The frame as it is."""
        return self._desktop.capture()

    def after(self, action: Action) -> None:
        """Nothing."""


class ScreenCheck:
    """While replaying, the recorded screen is waited for, and its absence is drift.

    Args:
        player: The recording.
        desktop: The live desktop.
        exclude: Boxes `(x, y, width, height)` that are never compared.
        timeout: Milliseconds to wait for a screen that Claude looked at.
        artifacts: Folder for the pictures of a failure.
    """

    def __init__(
        self,
        player: Player,
        desktop: Desktop,
        *,
        exclude: Sequence[tuple[int, int, int, int]],
        timeout: int,
        artifacts: Path,
    ) -> None:
        self._player = player
        self._desktop = desktop
        self._exclude = exclude
        self._timeout = timeout
        self._artifacts = artifacts
        self.place = ""  # "step 2 'save it', turn 3", set by the loop

    @property
    def latch(self) -> Latch:
        """Where the first drift is kept."""
        return self._player.latch

    def before(self, action: Action) -> Image.Image:
        """Wait for the recorded screen and give the frame that is there.

        Raises:
            ScreenDrift: Claude looked at this screen, and it did not come back.
        """
        recorded = self._player.recorded_action(action.id)
        if recorded is None or recorded.before is None:
            return self._desktop.capture()
        looked_at = recorded.name in _LOOKED_AT and not recorded.is_error
        limit = self._timeout if looked_at else min(self._timeout, _BEFORE_LIMIT)
        expected = self._player.screen(recorded.before)
        areas = _zoomed(recorded, expected)
        frame, comparison = self._wait_for(expected, limit, areas)
        if looked_at and not comparison.same:
            raise self._drift(action, expected, frame, comparison)
        return frame

    def _wait_for(
        self, expected: Image.Image, limit: int, areas: Sequence[screens.Area]
    ) -> tuple[Image.Image, screens.Comparison]:
        deadline = time.monotonic() + limit / 1000
        while True:
            frame = self._desktop.capture()
            comparison = screens.compare(expected, frame, areas=areas, exclude=self._exclude)
            if comparison.same or time.monotonic() >= deadline:
                return frame, comparison
            self._desktop.wait_until_still(quiet=_PACE, timeout=_PACE * 4)

    def after(self, action: Action) -> None:
        """Compare the outcome with the recorded one.

        Raises:
            ScreenDrift: The tool failed where it worked, or the other way round.
        """
        recorded = self._player.recorded_action(action.id)
        if recorded is None or recorded.is_error == action.is_error:
            return
        was, now = ("failed", "works") if recorded.is_error else ("worked", "fails")
        raise self.latch.set(
            ScreenDrift(
                f"{self.place}, {action.words()}: this {was} while recording and now {now}: "
                f"{action.text or recorded.text}",
                *self._hints(),
            )
        )

    def _drift(
        self, action: Action, expected: Image.Image, actual: Image.Image, comparison: screens.Comparison
    ) -> ScreenDrift:
        self._artifacts.mkdir(parents=True, exist_ok=True)
        paths = {}
        for name, image in (("expected", expected), ("actual", actual), ("diff", comparison.diff_image())):
            paths[name] = self._artifacts / f"drift-{name}.png"
            image.save(paths[name])
        return self.latch.set(  # type: ignore[return-value]
            ScreenDrift(
                f"{self.place}, {action.words()}: within {self._timeout / 1000:g} s the screen did not become the "
                f"recorded one. {comparison.summary} "
                f"(perceptual distance {comparison.distance} of 64 bits in the worst tile)\n"
                f"  recorded: {self._player.cassette.screen_path(screens.content_key(expected))}\n"
                f"  now:      {paths['actual']}\n"
                f"  diff:     {paths['diff']}",
                *self._hints(),
            )
        )

    def _hints(self) -> tuple[str, ...]:
        return (
            "if the change is meant, record the test again: "
            f"pytest --cua-mode=record {shell_quoted(self._player.test)}",
            "if it is noise, leave the area out: @pytest.mark.cua(exclude=[(x, y, width, height)])",
        )


def _zoomed(recorded: Action, screen: Image.Image) -> tuple[screens.Area, ...]:
    """For a zoom only its region counts; Claude saw no more."""
    if recorded.name != "zoom":
        return ()
    # the region is in pixels of the screenshot, which may be a scaled one: the whole screen counts then
    x0, y0, x1, y1 = recorded.input["region"]
    if x1 > screen.width or y1 > screen.height:
        return ()
    return (screens.Area(x0, y0, x1 - x0, y1 - y0),)
