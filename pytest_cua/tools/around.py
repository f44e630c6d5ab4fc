"""What happens around every tool call of a step, whatever the tool: frames, checks, the listener; or the recording.

`Live` does the call between two frames of the desktop, `Recorded` gives what the cassette holds. A tool knows only
that it acts through one of them.
"""

from __future__ import annotations

import base64
import io
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from anthropic.tools import ToolError
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.redact import environment_secrets, redact_text
from pytest_cua.desktop.masks import masks_of
from pytest_cua.errors import BadArgument, CuaError, NotDelivered, StepFailed
from pytest_cua.secrets import Secret
from pytest_cua.trace import Action

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

log = logging.getLogger("pytest_cua.actions")

MAX_PICTURE = 5_000_000  # bytes in base64: what each platform takes (10 MB on the Claude API, 5 MB elsewhere)
LOOKS = ("screenshot", "zoom", "cursor_position")  # members that change nothing


class Abort(BaseException):
    """Carries an error of ours through the SDK, which would turn any `Exception` into a tool result for Claude."""

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
    """For executors that are used by hand: nobody listens, so nothing need be known by its key."""

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """The key of the picture, if it is known."""
        return key or ""

    def sent(self, data: str, key: str) -> None:
        """Nothing."""

    def action(self, action: Action) -> None:
        """Nothing."""


class Live:
    """Does actions on a live desktop, each between the frame it meets and the screen at rest after it.

    Args:
        desktop: Where.
        listener: Hears of each finished action.
        check: Asked before and after each action; None checks nothing.
        params: Values that stand for `{name}`; titles of windows get their names back.
        quiet: Milliseconds without a changed pixel after which the screen is still.
        max_pictures: How many pictures Claude may be shown: the API takes no more in one conversation.

    Attributes:
        pictures: Give what Claude was shown, in order.
    """

    def __init__(
        self,
        desktop: Desktop,
        *,
        listener: Listener | None = None,
        check: Check | None = None,
        params: Mapping[str, str | Secret] | None = None,
        quiet: int = 150,
        max_pictures: int | None = None,
    ) -> None:
        self.desktop = desktop
        self._max_pictures = max_pictures
        self.pictures: list[Callable[[], Image.Image]] = []
        self.params = {
            name: value.value if isinstance(value, Secret) else value for name, value in (params or {}).items()
        }
        self._frame: Image.Image | None = None  # that the current action met; after it, the one it left
        self._is_untouched = False  # by the action that failed
        self._is_watched = listener is not None or check is not None
        self._listener = listener or SilentListener()
        self._check = check
        self._quiet = quiet

    def act(self, action: Action, work: Callable[[], Any], *, show: Callable[[], None] = lambda: None) -> Any:
        """Do one action and tell the listener.

        Args:
            action: What is done; what came of it is filled in.
            work: Does it, and gives its result.
            show: Called once the screen is at rest after it, for a picture that goes with the result.

        Raises:
            ToolError: What Claude is to read.
            Abort: Any other error: it ends the step.
        """
        started = time.monotonic()
        try:
            self._before(action)
            result = self._result(action, work)
            action.duration_ms = round((time.monotonic() - started) * 1000, 1)
            self._after(action, show)
        except CuaError as error:
            raise Abort(error) from None
        except Exception as error:  # a fault of ours must not become a tool result that Claude works around
            raise Abort(CuaError(f"{action.words()} failed inside pytest-cua: {error!r}")) from error
        if isinstance(result, ToolError):
            raise result
        return result

    def picture(self, action: Action, image: Image.Image, key: str | None = None) -> tuple[str, str]:
        """Keep a picture that goes with the result of an action, and give it in base64, with its media type.

        Raises:
            StepFailed: Claude has been shown as many as one conversation takes.
        """
        if self._max_pictures is not None and len(self.pictures) >= self._max_pictures:
            raise StepFailed(
                f"Claude has been shown {len(self.pictures)} pictures in this step, and the API takes no more.",
                "write smaller steps: each is a conversation of its own",
            )
        action.screen = self._listener.picture(image, key)
        encoded, media_type = sendable(image)
        self.pictures.append(partial(screens.decode, encoded, "a screenshot"))
        data = base64.b64encode(encoded).decode()
        self._listener.sent(data, action.screen)
        return data, media_type

    @property
    def frame(self) -> Image.Image:
        """The frame that the current action met; once it is done, the one it left."""
        if self._frame is None:
            self._frame = screens.with_bytes(self.desktop.capture())
        return self._frame

    def _before(self, action: Action) -> None:
        self._frame = None
        if not self._is_watched:
            return  # it is taken when it is asked for
        self._frame = screens.with_bytes(self._check.before(action) if self._check else self.desktop.capture())
        action.before = self._listener.picture(self._frame)
        action.masked = _boxes(masks_of(self._frame))

    def _result(self, action: Action, work: Callable[[], Any]) -> Any:
        """The result of the action, or the `ToolError` that Claude is to read."""
        try:
            return work()
        except (BadArgument, NotDelivered, ToolError) as error:
            action.is_error = True
            self._is_untouched = not isinstance(error, NotDelivered)  # part of a text may have arrived
            action.text = error.message if isinstance(error, CuaError) else str(error)
            told = ToolError(str(error))
            told.__cause__ = error
            return told

    def _after(self, action: Action, show: Callable[[], None]) -> None:
        if action.name in LOOKS or (action.is_error and self._is_untouched):
            action.after = action.before
        else:
            still = self.desktop.wait_until_still(quiet=self._quiet)
            action.still_ms = round(still.waited_ms, 1)
            self._frame = None
            if self._is_watched:
                action.after = self._listener.picture(self.frame)
                action.masked = _boxes([*action.masked, *masks_of(self.frame)])
        if not action.is_error:
            show()
        if self._is_watched:
            self._tell(action)
        log_action(action)

    def _tell(self, action: Action) -> None:
        """Note what is on the screen now, and let check and listener know."""
        action.pointer = self.desktop.pointer.position()
        windows = self.desktop.read_windows()
        action.windows = [{"title": self._named(w.title), "program": w.program, "box": list(w.box)} for w in windows]
        action.focus = next((self._named(w.title) for w in windows if w.focused), None)
        if self._check:
            self._check.after(action)
        self._listener.action(action)

    def _named(self, text: str) -> str:
        """The text with the values of parameters put back to their names."""
        names = {value: name for name, value in self.params.items() if len(value) > 2}  # shorter ones occur by chance
        if not names:
            return text
        longest_first = sorted(names, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: f"{{{names[found[0]]}}}", text)


def sendable(image: Image.Image) -> tuple[bytes, str]:
    """The file of a picture that the API takes, and its media type: PNG, or JPEG where that would be too large."""
    png = screens.to_png(image)
    if len(png) * 4 / 3 <= MAX_PICTURE:
        return png, "image/png"
    for quality in (92, 85, 70, 50, 30):  # noise does not get smaller than this
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=quality)
        if out.tell() * 4 / 3 <= MAX_PICTURE:
            break
    return out.getvalue(), "image/jpeg"


class Recorded:
    """Gives the result of each action from the cassette; nothing is done.

    Args:
        recorded: Gives the recorded action of a `tool_use` id.
        screen: Gives the recorded picture of a key.
        file: Gives its WebP file.
        missing: Called with the action when the cassette has none; raises.
        listener: Hears of each action.
    """

    def __init__(
        self,
        *,
        recorded: Callable[[str], Action | None],
        screen: Callable[[str], Image.Image],
        file: Callable[[str], bytes],
        missing: Callable[[str], NoReturn],
        listener: Listener,
    ) -> None:
        self.pictures: list[Callable[[], Image.Image]] = []
        self._recorded = recorded
        self._screen = screen
        self._file = file
        self._missing = missing
        self._listener = listener

    def action(self, id: str, name: str) -> Action:
        """The recorded action, which the listener hears of.

        Raises:
            ToolError: It failed while recording: what Claude is to read.
            Abort: There is none.
        """
        try:
            action = self._recorded(id)
            if action is None or action.name != name:
                self._missing(f"{name} ({id})")
            self._listener.action(action)
            log_action(action)
        except CuaError as error:
            raise Abort(error) from None
        if action.is_error:
            raise ToolError(action.text)
        return action

    def picture(self, key: str) -> str:
        """A recorded picture as base64, in the form in which it is stored (WebP): nobody is sent it.

        Raises:
            Abort: It is missing or damaged.
        """
        try:
            data = self._file(key)
        except CuaError as error:
            raise Abort(error) from None
        self.pictures.append(partial(self._screen, key))
        return base64.b64encode(data).decode()


def log_action(action: Action) -> None:
    """Log one action, without secrets: what was typed may be one."""
    told = f"{action.words()}: {action.text}" if action.is_error else action.words()
    log.info("%s", redact_text(told, environment_secrets()))


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


def _boxes(boxes: Iterable[Iterable[int]]) -> list[list[int]]:
    return [list(box) for box in sorted({tuple(box) for box in boxes})]
