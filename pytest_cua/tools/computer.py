"""`computer_toolset_20260801` on a desktop: the SDK's abstract toolset, its 17 members done in process.

The SDK parses and checks what Claude sends, asks `confirm`, and renders results; see `anthropic.tools.computer`.
"""

from __future__ import annotations

import base64
import difflib
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from anthropic.tools import ToolError, ToolsetUsageError
from anthropic.tools.computer import (
    BetaAbstractComputerToolset20260801,
    BetaComputerCursorPositionResult,
    BetaScreenshotResult,
    BetaToolsetCallContext,
)
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.redact import environment_secrets, redact_text
from pytest_cua.desktop.masks import masks_of
from pytest_cua.errors import BadArgument, CuaError
from pytest_cua.secrets import Secret
from pytest_cua.tools.scaling import Scaling
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

log = logging.getLogger("pytest_cua.actions")

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
_BRACES = re.compile(r"\{\{([^\W\d]\w*)\}\}|\{([^\W\d]\w*)\}")  # {{literal}} or {placeholder}


class Abort(ToolsetUsageError):
    """Carries an error of ours through the SDK, which would turn any other into a tool result for Claude."""

    def __init__(self, error: CuaError) -> None:
        super().__init__(str(error))
        self.error = error


class Listener(Protocol):
    """Who hears of actions: trace and cassette."""

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """A frame; gives its key."""
        ...

    def sent(self, data: str, key: str) -> None:
        """A picture, as base64, that Claude is about to be sent; the key that `picture` gave."""
        ...

    def action(self, action: Action) -> None:
        """An action that is done."""
        ...


class Check(Protocol):
    """What is asked around each action; `pytest_cua.replay.check` has both kinds."""

    def before(self, action: Action) -> Image.Image:
        """Called before the action; gives the frame it meets."""
        ...

    def after(self, action: Action) -> None:
        """Called after the action, with its result filled in."""
        ...


class SilentListener:
    """For executors that are used by hand: nobody listens."""

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """The key of the picture."""
        return key or screens.content_key(image)

    def sent(self, data: str, key: str) -> None:
        """Nothing."""

    def action(self, action: Action) -> None:
        """Nothing."""


class Computer(BetaAbstractComputerToolset20260801):
    """The computer toolset on a live desktop.

    Args:
        desktop: Where actions happen.
        listener: Hears of each finished action.
        check: Asked before and after each action; None checks nothing.
        confirm: `(context) -> bool`, the SDK's hook before every action; only True lets it run. None lets all run.
        scaling: From screenshot to screen; None sends screenshots as they are.
        params: Values that `type` puts in place of `{name}`.
        quiet: Milliseconds without a changed pixel after which the screen is still.

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
    ) -> None:
        super().__init__(confirm=guarded(confirm))
        self.desktop = desktop
        self.pictures: list[Callable[[], Image.Image]] = []  # gives what Claude was shown
        self._listener = listener or SilentListener()
        self._check = check
        self._scaling = scaling or Scaling(desktop.size, desktop.size)
        self._params = {
            name: value.value if isinstance(value, Secret) else value for name, value in (params or {}).items()
        }
        self._quiet = quiet
        self._frame: Image.Image | None = None  # the frame that the current action met
        self._action: Action | None = None  # the current action

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
        started = time.monotonic()
        self._action = action
        try:
            self._before(action)
            result = self._run(context, action, input)
            action.duration_ms = round((time.monotonic() - started) * 1000, 1)
            self._after(action)
        except CuaError as error:
            raise Abort(error) from None
        except Exception as error:  # a fault of ours must not become a tool result that Claude works around
            raise Abort(CuaError(f"{action.words()} failed inside pytest-cua: {error!r}")) from error
        if isinstance(result, ToolError):
            raise result
        return result

    def _before(self, action: Action) -> None:
        self._frame = self._check.before(action) if self._check else self.desktop.capture()
        action.before = self._listener.picture(self._frame)
        action.masked = _boxes(masks_of(self._frame))

    def _run(self, context: BetaToolsetCallContext, action: Action, input: Any) -> Any:
        """The result of the action, or the `ToolError` that Claude is to read."""
        try:
            result = super().execute(context, action.name, input)  # type: ignore[arg-type]
        except (BadArgument, ToolError) as error:
            action.is_error = True
            action.text = error.message if isinstance(error, BadArgument) else str(error)
            return ToolError(str(error))
        if isinstance(result, BetaComputerCursorPositionResult):
            action.text = f"X={result.x},Y={result.y}"
        elif isinstance(result, str):
            action.text = result
        return result

    def _after(self, action: Action) -> None:
        if action.name in ("screenshot", "zoom", "cursor_position") or action.is_error:
            action.after = action.before
        else:
            still = self.desktop.wait_until_still(quiet=self._quiet)
            action.still_ms = round(still.waited_ms, 1)
            frame = self.desktop.capture()
            action.after = self._listener.picture(frame)
            action.masked = _boxes([*action.masked, *masks_of(frame)])
        action.pointer = self.desktop.pointer.position()
        windows = self.desktop.read_windows()
        action.windows = [{"title": self._named(w.title), "program": w.program, "box": list(w.box)} for w in windows]
        action.focus = next((self._named(w.title) for w in windows if w.focused), None)
        if self._check:
            self._check.after(action)
        self._listener.action(action)
        _log(action)

    def _named(self, text: str) -> str:
        """The text with the values of parameters put back to their names."""
        names = {value: name for name, value in self._params.items() if len(value) > 2}  # shorter ones occur by chance
        if not names:
            return text
        longest_first = sorted(names, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: f"{{{names[found[0]]}}}", text)

    # ------------------------------------------------------------------ looking

    def screenshot(self, context: BetaToolsetCallContext, input: Any) -> BetaScreenshotResult:
        """The whole screen, in the size the model's tier takes."""
        assert self._frame is not None
        assert self._action is not None
        if self._scaling.is_identity:
            return self._picture(self._frame, self._action.before)
        return self._picture(self._frame.resize(self._scaling.sent, Image.Resampling.LANCZOS))

    def zoom(self, context: BetaToolsetCallContext, input: Any) -> BetaScreenshotResult:
        """A region, cropped from the native frame and enlarged to fill the size of a screenshot."""
        assert self._frame is not None
        part = self._frame.crop(self._scaling.region_to_screen(input.region))
        factor = min(self._scaling.sent[0] / part.width, self._scaling.sent[1] / part.height)
        size = max(1, int(part.width * factor)), max(1, int(part.height * factor))
        return self._picture(part.resize(size, Image.Resampling.LANCZOS))

    def _picture(self, image: Image.Image, key: str | None = None) -> BetaScreenshotResult:
        assert self._action is not None
        self._action.screen = self._listener.picture(image, key)
        png = screens.to_png(image)
        self.pictures.append(partial(screens.decode, png, "a screenshot"))
        data = base64.b64encode(png).decode()
        self._listener.sent(data, self._action.screen)
        return BetaScreenshotResult(data=data, media_type="image/png")

    def cursor_position(self, context: BetaToolsetCallContext, input: Any) -> BetaComputerCursorPositionResult:
        """Where the pointer is, in pixels of the screenshot."""
        x, y = self._scaling.to_sent(self.desktop.pointer.position())
        return BetaComputerCursorPositionResult(x=x, y=y)

    # ------------------------------------------------------------------ mouse

    def _point(self, coordinate: list[int] | None, what: str = "coordinate") -> tuple[int, int]:
        if coordinate is None:
            return self.desktop.pointer.position()
        return self._scaling.to_screen(coordinate, what=what)

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
        self.desktop.keyboard.type(filled(input.text, self._params) if self._params else input.text)

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
        recorded: Gives the recorded action of a `tool_use` id.
        screen: Gives the recorded picture of a key.
        file: Gives its WebP file.
        missing: Called with the action when the cassette has none; raises.
        listener: Hears of each action.
        confirm: As for `Computer`: a hook that declined while recording declines again.
    """

    def __init__(
        self,
        *,
        recorded: Callable[[str], Action | None],
        screen: Callable[[str], Image.Image],
        file: Callable[[str], bytes],
        missing: Callable[[str], NoReturn],
        listener: Listener,
        confirm: Callable[[Any], bool] | None = None,
    ) -> None:
        super().__init__(confirm=guarded(confirm))
        self.pictures: list[Callable[[], Image.Image]] = []
        self._recorded = recorded
        self._screen = screen
        self._file = file
        self._missing = missing
        self._listener = listener

    def execute(self, context: BetaToolsetCallContext, name: Any, input: Any) -> Any:
        """The recorded result."""
        assert context.tool_use is not None
        try:
            action = self._recorded(context.tool_use.id)
            if action is None or action.name != name:
                self._missing(f"{name} ({context.tool_use.id})")
            self._listener.action(action)
            _log(action)
            return self._result(action)
        except CuaError as error:
            raise Abort(error) from None

    def _result(self, action: Action) -> Any:
        if action.is_error:
            raise ToolError(action.text)
        if action.screen:
            data = self._file(action.screen)  # as it is stored: nobody is sent it
            self.pictures.append(partial(self._screen, action.screen))
            return BetaScreenshotResult(data=base64.b64encode(data).decode(), media_type="image/webp")
        if action.name == "cursor_position":
            x, _, y = action.text.partition(",")
            return BetaComputerCursorPositionResult(x=int(x.removeprefix("X=")), y=int(y.removeprefix("Y=")))
        return action.text or None


def _boxes(boxes: Iterable[Iterable[int]]) -> list[list[int]]:
    return [list(box) for box in sorted({tuple(box) for box in boxes})]


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


def _log(action: Action) -> None:
    told = f"{action.words()}: {action.text}" if action.is_error else action.words()
    log.info("%s", redact_text(told, environment_secrets()))  # what was typed may be a secret


def guarded(confirm: Callable[[Any], bool] | None) -> Callable[[Any], bool]:
    """A `confirm` hook whose errors end the step; the SDK would take them for "declined" and let Claude go on."""

    def ask(context: Any) -> bool:
        if confirm is None:
            return True
        try:
            return confirm(context)
        except CuaError as error:
            raise Abort(error) from None
        except Exception as error:
            raise Abort(CuaError(f"The confirm hook failed at {context.member}: {error!r}")) from error

    return ask


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
