"""`computer_toolset_20260801` on a desktop: the SDK's abstract toolset, its 17 members done in process.

The SDK parses and checks what Claude sends, asks `confirm`, and renders results; see `anthropic.tools.computer`.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

from anthropic.tools.computer import (
    BetaAbstractComputerToolset20260801,
    BetaComputerCursorPositionResult,
    BetaScreenshotResult,
    BetaToolsetCallContext,
)
from PIL import Image

from pytest_cua.errors import BadArgument
from pytest_cua.secrets import Secret
from pytest_cua.tools.around import LOOKS, Check, Listener, Live, Recorded, guarded
from pytest_cua.tools.scaling import Scaling
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

MAX_SECONDS = 300  # `wait` and `hold_key`, as documented for the toolset
MAX_REPEAT = 100
MAX_SCROLL = 100  # wheel clicks; the API documents no limit, and more is surely a mistake
MAX_TEXT = 20_000  # characters in one `type`
MODIFIERS = {
    "shift": "shift",
    "ctrl": "ctrl",
    "control": "ctrl",
    "alt": "alt",
    "option": "alt",
    "super": "super",
    "cmd": "super",
    "win": "super",
    "meta": "super",
}
# of all members; an action that is done by hand has each, None where it was not given
FIELDS = (
    "coordinate",
    "start_coordinate",
    "text",
    "repeat",
    "scroll_direction",
    "scroll_amount",
    "duration",
    "region",
)
_BRACES = re.compile(r"\{\{([^\W\d]\w*)\}\}|\{([^\W\d]\w*)\}")  # {{literal}} or {placeholder}


class ComputerToolset(BetaAbstractComputerToolset20260801):
    """The computer toolset on a live desktop.

    Args:
        desktop: Where actions happen.
        listener: Hears of each finished action.
        check: Asked before and after each action; None checks nothing.
        confirm: `(context) -> bool`, the SDK's hook before every action; only True lets it run. None lets all run.
        scaling: From screenshot to screen; None sends screenshots as they are.
        params: Values that `type` puts in place of `{name}`.
        quiet: Milliseconds without a changed pixel after which the screen is still.
        live: What happens around each action, where several tools share it; replaces `listener`, `check`, `params` and
            `quiet`.

    Raises:
        SetupError: The environment variable of a `Secret` is not set.
    """

    def __init__(
        self,
        desktop: Desktop,
        *,
        listener: Listener | None = None,
        check: Check | None = None,
        confirm: Callable[[Any], bool] | None = None,
        scaling: Scaling | None = None,
        params: Mapping[str, str | Secret] | None = None,
        quiet: int = 150,
        live: Live | None = None,
    ) -> None:
        super().__init__(confirm=guarded(confirm))
        self.desktop = desktop
        self.live = live or Live(desktop, listener=listener, check=check, params=params, quiet=quiet)
        self.scaling = scaling or Scaling(desktop.size, desktop.size)
        self._action: Action | None = None  # the current action

    @property
    def pictures(self) -> list[Callable[[], Image.Image]]:
        """Give what Claude was shown, in order."""
        return self.live.pictures

    # ------------------------------------------------------------------ around every action

    def execute(self, context: BetaToolsetCallContext, name: Any, input: Any) -> Any:
        """Do one action between its two frames, and tell the listener."""
        call = context.tool_use
        action = Action(
            id=call.id if call else "",
            tool="computer",
            name=name,
            input=dict(call.input) if call else input.to_dict(),
        )

        def work() -> Any:
            self._action = action
            result = super(ComputerToolset, self).execute(context, name, input)
            if isinstance(result, BetaComputerCursorPositionResult):
                action.text = f"X={result.x},Y={result.y}"
            elif isinstance(result, str):
                action.text = result
            return result

        return self.live.act(action, work)

    def member(self, action: Action, input: Any) -> str | BetaScreenshotResult:
        """Do one action that is under way already, for a tool that has these actions under another name.

        Args:
            action: Its name is that of a member.
            input: Has an attribute for each field of the member.

        Returns:
            The text of its result, or the picture.
        """
        self._action = action
        result = getattr(self, action.name)(None, input)
        if isinstance(result, BetaComputerCursorPositionResult):
            return f"X={result.x},Y={result.y}"
        return result if isinstance(result, BetaScreenshotResult) else str(result or "")

    # ------------------------------------------------------------------ looking

    def screenshot(self, context: BetaToolsetCallContext, input: Any) -> BetaScreenshotResult:
        """The whole screen, in the size the model's tier takes."""
        return self._picture(*self.shown())

    def shown(self) -> tuple[Image.Image, str | None]:
        """The screen as it is at the action at hand, in the size that is sent, and its key where it is known."""
        frame, action = self.live.frame, self._action
        if self.scaling.is_identity:
            return frame, action.before if action is not None and action.name in LOOKS else None
        return frame.resize(self.scaling.sent, Image.Resampling.LANCZOS), None

    def zoom(self, context: BetaToolsetCallContext, input: Any) -> BetaScreenshotResult:
        """A region, cropped from the native frame and enlarged to fill the size of a screenshot."""
        part = self.live.frame.crop(self.scaling.region_to_screen(input.region))
        factor = min(self.scaling.sent[0] / part.width, self.scaling.sent[1] / part.height)
        size = max(1, int(part.width * factor)), max(1, int(part.height * factor))
        return self._picture(part.resize(size, Image.Resampling.LANCZOS))

    def _picture(self, image: Image.Image, key: str | None = None) -> BetaScreenshotResult:
        assert self._action is not None
        data, media_type = self.live.picture(self._action, image, key)
        return BetaScreenshotResult(data=data, media_type=media_type)  # type: ignore[arg-type]

    def cursor_position(self, context: BetaToolsetCallContext, input: Any) -> BetaComputerCursorPositionResult:
        """Where the pointer is, in pixels of the screenshot."""
        x, y = self.scaling.to_sent(self.desktop.pointer.position())
        return BetaComputerCursorPositionResult(x=x, y=y)

    # ------------------------------------------------------------------ mouse

    def _point(self, coordinate: list[int] | None, what: str = "coordinate") -> tuple[int, int]:
        if coordinate is None:
            return self.desktop.pointer.position()
        return self.scaling.to_screen(coordinate, what=what)

    def _click(self, input: Any, *, button: int = 1, count: int = 1) -> None:
        x, y = self._point(input.coordinate)
        self.desktop.pointer.click(x, y, button=button, count=count, modifiers=modifiers(input.text))

    def left_click(self, context: BetaToolsetCallContext, input: Any) -> None:
        """A click with the left button."""
        self._click(input)

    def right_click(self, context: BetaToolsetCallContext, input: Any) -> None:
        """A click with the right button."""
        self._click(input, button=3)

    def middle_click(self, context: BetaToolsetCallContext, input: Any) -> None:
        """A click with the middle button."""
        self._click(input, button=2)

    def double_click(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Two clicks at one place."""
        self._click(input, count=2)

    def triple_click(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Three clicks at one place."""
        self._click(input, count=3)

    def left_click_drag(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Press at one place, move, release at another."""
        start = self._point(input.start_coordinate, "start_coordinate")
        end = self._point(input.coordinate)
        self.desktop.pointer.drag(start, end, modifiers=modifiers(getattr(input, "text", None)))

    def left_mouse_down(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Press the left button and keep it."""
        self.desktop.pointer.press(1)

    def left_mouse_up(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Release the left button."""
        self.desktop.pointer.release(1)

    def mouse_move(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Move the pointer."""
        self.desktop.pointer.move(*self._point(input.coordinate))

    def scroll(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Turn the wheel."""
        amount = input.scroll_amount
        if not 0 <= amount <= MAX_SCROLL:
            raise BadArgument(f"scroll_amount must be 0 to {MAX_SCROLL} wheel clicks, not {amount}.")
        x, y = self._point(input.coordinate)
        self.desktop.pointer.scroll(str(input.scroll_direction), amount, x, y, modifiers=modifiers(input.text))

    # ------------------------------------------------------------------ keyboard

    def type(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Type text where the focus is; a placeholder is typed as its value, and `{{name}}` as `{name}`.

        Raises:
            BadArgument: The text is too long, or holds a placeholder that the step does not have; nothing is typed.
        """
        if len(input.text) > MAX_TEXT:
            raise BadArgument(
                f"The text is {len(input.text)} characters long; at most {MAX_TEXT} can be typed at once."
            )
        # where the step has none, braces are braces
        self.desktop.keyboard.type(filled(input.text, self.live.params) if self.live.params else input.text)

    def key(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Press a key or a combination, once or several times."""
        repeat = 1 if input.repeat is None else input.repeat
        if not 1 <= repeat <= MAX_REPEAT:
            raise BadArgument(f"repeat must be 1 to {MAX_REPEAT}, not {repeat}.")
        self.desktop.keyboard.press(input.text, repeat=repeat)

    def hold_key(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Hold a key or a combination for some seconds."""
        self.desktop.keyboard.hold(input.text, seconds(input.duration))

    def wait(self, context: BetaToolsetCallContext, input: Any) -> None:
        """Let time pass, because Claude asked for it; a display that dies ends the wait at once."""
        deadline = time.monotonic() + seconds(input.duration)
        while (left := deadline - time.monotonic()) > 0:
            Event().wait(min(left, 0.5))
            self.desktop.check_alive()


class RecordedComputer(BetaAbstractComputerToolset20260801):
    """The computer toolset of `offline`: every result comes from the cassette.

    Args:
        recorded: Gives the results.
        confirm: As for `ComputerToolset`: a hook that declined while recording declines again.
    """

    def __init__(self, recorded: Recorded, *, confirm: Callable[[Any], bool] | None = None) -> None:
        super().__init__(confirm=guarded(confirm))
        self._recorded = recorded

    @property
    def pictures(self) -> list[Callable[[], Image.Image]]:
        """Give what Claude was shown, in order."""
        return self._recorded.pictures

    def execute(self, context: BetaToolsetCallContext, name: Any, input: Any) -> Any:
        """The recorded result."""
        assert context.tool_use is not None
        action = self._recorded.action(context.tool_use.id, name)
        if action.screen:
            return BetaScreenshotResult(data=self._recorded.picture(action.screen), media_type="image/webp")
        if action.name == "cursor_position":
            x, _, y = action.text.partition(",")
            return BetaComputerCursorPositionResult(x=int(x.removeprefix("X=")), y=int(y.removeprefix("Y=")))
        return action.text or None


def placeholders(text: str) -> list[str]:
    """The names of the placeholders `{name}` in a text, in order; doubled braces `{{name}}` make none."""
    return [found[2] for found in _BRACES.finditer(text) if found[2]]


def with_single_braces(text: str) -> str:
    """The text as it is meant: `{{name}}` says `{name}`, placeholders stay."""
    return _BRACES.sub(lambda found: f"{{{found[1] or found[2]}}}", text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, in one pass: a value may hold the name of another.

    Args:
        text: `{name}` stands for a value, `{{name}}` for `{name}` itself.
        values: By name.

    Raises:
        BadArgument: A placeholder has no value; says which there are.
    """
    for name in placeholders(text):
        if name not in values:
            raise BadArgument(
                f"Nothing was typed: this step has no placeholder {{{name}}}.{suggestion(name, values)}",
                f"to type braces, double them: {{{{{name}}}}}",
            )
    return _BRACES.sub(lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], text)


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown placeholder: the one that may be meant, and all there are."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f" Did you mean {{{close[0]}}}?" if close else ""
    return meant + (f" There is {', '.join(f'{{{each}}}' for each in known)}." if known else "")


def modifiers(text: str | None) -> tuple[str, ...]:
    """The modifiers of a click, such as `ctrl+shift`.

    Raises:
        BadArgument: One is no modifier.
    """
    if not text:
        return ()
    names = []
    for part in text.split("+"):
        name = MODIFIERS.get(part.strip().lower())
        if name is None:
            raise BadArgument(
                f"{part.strip()!r} is no modifier for a click: use shift, ctrl, alt or super, joined by +."
            )
        names.append(name)
    return tuple(names)


def seconds(duration: float) -> float:
    """A duration that Claude sent.

    Raises:
        BadArgument: It is negative or longer than the toolset allows.
    """
    if not 0 <= duration <= MAX_SECONDS:
        raise BadArgument(f"duration must be 0 to {MAX_SECONDS} seconds, not {duration}.")
    return duration
