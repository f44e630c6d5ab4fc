"""Whether a replayed action meets the screen it met while it was recorded.

Until there are gates for each target, the verdict is the plain one: the screen that Claude looked at must come back
within its time, compared strictly outside of excluded areas, and a tool that worked must work. Before any other action
the recorded screen is waited for, because Claude's thinking time is gone in a replay, but without a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import Cassette
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.player import Player
from pytest_cua.cassette.redact import REDACTED
from pytest_cua.desktop.masks import masks_of
from pytest_cua.errors import BadArgument, CuaError, ScreenDrift
from pytest_cua.tools.scaling import Scaling
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

_LOOKED_AT = ("screenshot", "zoom")  # the actions whose picture Claude saw
_BEFORE_LIMIT = 4_000  # ms: how long an input waits for the recorded screen before it goes on without one
_PACE = 40  # ms of rest between two looks
_LOOK_QUIET = 400  # ms without a changed pixel before Claude looks, while recording
_LOOK_LIMIT = 4_000  # ms after which what still moves is taken to move for ever
_MOVING_FRAMES = 4
_HOLD_LIMIT = 1_000  # ms: the most that a replay waits at the end of a step for what Claude's thinking time would show
_ROOM = 6  # pixels around what moves


class NoCheck:
    """While recording, whatever is on the screen is right; but a replay must be able to find it again.

    So before Claude looks, the screen is waited for longer than between inputs: a frame that was only in passing
    would be asked for in vain. What never comes to rest is noted with its place, and a replay leaves it out.
    """

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def before(self, action: Action) -> Image.Image:
        """The frame as it is, at rest if Claude looks at it."""
        if action.name not in _LOOKED_AT:
            return self._desktop.capture()
        if self._desktop.wait_until_still(quiet=_LOOK_QUIET, timeout=_LOOK_LIMIT).still:
            return self._desktop.capture()
        frames = [self._desktop.capture()]
        for _ in range(_MOVING_FRAMES):
            self._desktop.wait_until_still(quiet=_LOOK_QUIET, timeout=_LOOK_QUIET)
            frames.append(self._desktop.capture())
        action.moving = _moving_boxes(frames)
        return frames[-1]

    def after(self, action: Action) -> None:
        """Nothing."""


def _moving_boxes(frames: Sequence[Image.Image]) -> list[list[int]]:
    """The boxes that differ among frames of one screen, with some room around each, inside of the picture."""
    width, height = frames[0].size
    found = set()
    for frame in frames[1:]:
        for region in screens.compare(frames[0], frame).regions:
            x, y, w, h = region.box
            left, top = max(0, x - _ROOM), max(0, y - _ROOM)
            found.add((left, top, min(width, x + w + _ROOM) - left, min(height, y + h + _ROOM) - top))
    return [list(box) for box in sorted(found)]


def _excluding(boxes: Iterable[Sequence[int]]) -> list[screens.Area]:
    return [screens.Area(x, y, width, height, type="exclude") for x, y, width, height in boxes]


def recorded_masks(cassette: Cassette, number: int, desktop: str) -> list[list[int]]:
    """What was painted over on a desktop before step `number`, while recording, because a secret was typed there."""
    for step in reversed(cassette.steps):
        if step.number < number and step.desktop == desktop:
            for turn in reversed(step.turns):
                for action in reversed(turn.actions.values()):
                    return action.masked
    return []


class ScreenCheck:
    """While replaying, the recorded screen is waited for, and its absence is drift.

    Args:
        player: The recording.
        desktop: The live desktop.
        exclude: Boxes `(x, y, width, height)` that are never compared.
        timeout: Milliseconds to wait for a screen that Claude looked at.
        artifacts: Folder for the pictures of a failure.
        scaling: From the screenshots that Claude was sent to the screen.
    """

    def __init__(
        self,
        player: Player,
        desktop: Desktop,
        *,
        exclude: Sequence[tuple[int, int, int, int]],
        timeout: int,
        artifacts: Path,
        scaling: Scaling,
    ) -> None:
        self._player = player
        self._desktop = desktop
        self._exclude = exclude
        self._timeout = timeout
        self._artifacts = artifacts
        self._scaling = scaling
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
        if recorded is None:
            raise self.latch.set(
                ScreenDrift(
                    f"{self.place}, {action.words()}: this was not carried out while recording; "
                    "does the confirm hook decide otherwise now?",
                    *self._hints(),
                )
            )
        if found := REDACTED.search(str(action.input.get("text", ""))):
            raise self._player.unknown_secret(found[1])
        if recorded.before is None:
            return self._desktop.capture()
        looked_at = recorded.name in _LOOKED_AT and not recorded.is_error
        limit = self._timeout if looked_at else min(self._timeout, _BEFORE_LIMIT)
        expected = self._player.screen(recorded.before)
        frame, comparison = self._wait_for(expected, limit, recorded)
        if looked_at and comparison is not None and not comparison.same:
            raise self._drift(action.words(), expected, frame, comparison)
        return frame

    def still_stands(self, action: Action, hold: float) -> None:
        """The screen that Claude looked at last must stand while Claude takes to call the step done, at most 1 s.

        An application that takes back what it showed would otherwise be left before it does.

        Args:
            action: The last action of the step.
            hold: Milliseconds.

        Raises:
            ScreenDrift: It changed meanwhile, and did not come back.
        """
        recorded = self._player.recorded_action(action.id)
        if recorded is None or recorded.name not in _LOOKED_AT or recorded.is_error or recorded.before is None:
            return
        deadline = time.monotonic() + min(hold, _HOLD_LIMIT) / 1000
        while (left := (deadline - time.monotonic()) * 1000) > 0:
            self._desktop.wait_until_still(quiet=left, timeout=left)
        expected = self._player.screen(recorded.before)
        frame, comparison = self._wait_for(expected, 0, recorded)
        if comparison is not None and not comparison.same:
            raise self._drift(f"after {action.words()}, before the step was called done", expected, frame, comparison)

    def judged(self, expected: Image.Image, sentence: str, *, masked: Iterable[Sequence[int]] = ()) -> Image.Image:
        """Wait for the screen that was judged while recording.

        Args:
            expected: That screen.
            sentence: The statement about it.
            masked: Boxes `(x, y, width, height)` that were painted over in it; see `recorded_masks`.

        Raises:
            ScreenDrift: It did not come back: the recorded opinion is about another screen.
        """
        frame, comparison = self._wait_for(expected, self._timeout, None, masked)
        if comparison is not None and not comparison.same:
            raise self._drift(f"judge {sentence!r}", expected, frame, comparison)
        return frame

    def _wait_for(
        self, expected: Image.Image, limit: int, recorded: Action | None, masked: Iterable[Sequence[int]] = ()
    ) -> tuple[Image.Image, screens.Comparison | None]:
        """The frame once it is the expected one or the time is over; None where nothing is left to compare."""
        areas = self._zoomed(recorded) if recorded else ()
        left_out = [*recorded.moving, *recorded.masked] if recorded else list(masked)
        exclude: list[screens.Area | tuple[int, int, int, int]] = [*self._exclude, *_excluding(left_out)]
        deadline = time.monotonic() + limit / 1000
        while True:
            frame = self._desktop.capture()
            masks = _excluding(masks_of(frame))  # another secret takes another place
            try:
                comparison = screens.compare(expected, frame, areas=areas, exclude=[*exclude, *masks])
            except BadArgument:
                if not areas and not masks:
                    raise
                return frame, None  # Claude zoomed into what is left out, or all of it is painted over
            if comparison.same or time.monotonic() >= deadline:
                return frame, comparison
            self._desktop.wait_until_still(quiet=_PACE, timeout=_PACE * 4)

    def _zoomed(self, recorded: Action) -> tuple[screens.Area, ...]:
        """For a zoom only its region counts; Claude saw no more."""
        if recorded.name != "zoom" or recorded.is_error:
            return ()
        left, top, right, bottom = self._scaling.region_to_screen(recorded.input["region"])
        return (screens.Area(left, top, right - left, bottom - top),)

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

    def _drift(self, what: str, expected: Image.Image, actual: Image.Image, comparison: screens.Comparison) -> CuaError:
        self._artifacts.mkdir(parents=True, exist_ok=True)
        paths = {}
        for name, image in (("expected", expected), ("actual", actual), ("diff", comparison.diff_image())):
            paths[name] = self._artifacts / f"drift-{name}.png"
            image.save(paths[name])
        return self.latch.set(
            ScreenDrift(
                f"{self.place}, {what}: within {self._timeout / 1000:g} s the screen did not become the "
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
            f"if the change is meant, record it again: {self._player.record_again()}",
            "if it is noise, leave the area out: @pytest.mark.cua(exclude=[(x, y, width, height)])",
        )
