"""A window that writes down every event it is given, drawn by this process: nothing else has to be installed for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from Xlib import XK, X, Xutil
from Xlib.protocol import event, rq

from pytest_cua.desktop import keys
from pytest_cua.desktop.waiting import wait_for, wait_readable
from pytest_cua.errors import DesktopDied, LaunchFailed

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

_KINDS: Final = {
    X.KeyPress: "key",
    X.KeyRelease: "key-up",
    X.ButtonPress: "press",
    X.ButtonRelease: "release",
    X.MotionNotify: "move",
    X.EnterNotify: "enter",
    X.LeaveNotify: "leave",
    X.FocusIn: "focus",
    X.FocusOut: "focus-out",
}
_CHARACTERS: Final = {XK.XK_Return: "\n", XK.XK_Tab: "\t"}
_BACKGROUND: Final = 0xFFFFE0
#: Milliseconds after which the window asks for the keyboard, and in which it must have it.
_PATIENCE: Final = 2_000.0
_LONG_PATIENCE: Final = 10_000.0


@dataclass(frozen=True)
class ProbeEvent:
    """What a window was given.

    Args:
        kind: "key", "key-up", "press", "release", "move", "enter", "leave", "focus" or "focus-out".
        detail: The keycode or the button.
        key: The name of the key, as X calls it, or its character.
        text: The character that a key writes, "" if it writes none.
        x: Where the pointer was, in pixels of the screen.
        y: See `x`.
        state: Modifiers and buttons that were down before, as X's mask: 1 shift, 4 ctrl, 8 alt, 0x100 the left button.
        time: Of the server, in milliseconds.
    """

    kind: str
    detail: int = 0
    key: str = ""
    text: str = ""
    x: int = 0
    y: int = 0
    state: int = 0
    time: int = 0


class ProbeWindow:
    """A window on a desktop that writes down what it is given. It is also a context manager.

    Args:
        desktop: A live desktop.
        title: Of the window.
        size: Width and height in pixels.

    Raises:
        LaunchFailed: the window manager did not show it, or did not give it the keyboard.
        DesktopDied: the desktop is gone.
    """

    def __init__(self, desktop: Desktop, *, title: str = "probe", size: tuple[int, int] = (400, 300)) -> None:
        self._desktop = desktop
        self._connection = desktop.keyboard.beside()
        self._events: list[ProbeEvent] = []
        self._lock = threading.Lock()
        self._is_open = True
        with self._connection.use() as display:
            self._window = self._make(display, title, size)
            self._window.map()
            display.sync()
        self.id = int(self._window.id)
        # a thread, as a program reads its events while the test does something else
        self._thread = threading.Thread(target=self._read, name="probe window", daemon=True)
        self._thread.start()
        self._wait_for_keyboard()
        self.clear()

    def __enter__(self) -> ProbeWindow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Where it is: x, y, width and height in pixels of the screen, without the frame."""
        with self._connection.use():
            geometry = self._window.get_geometry()
            origin = self._connection.root.translate_coords(self._window, 0, 0)
        return int(origin.x), int(origin.y), int(geometry.width), int(geometry.height)

    def events(self, *kinds: str) -> list[ProbeEvent]:
        """What it was given so far, in order.

        Args:
            kinds: Only these; none named: all.
        """
        with self._lock:
            return [event for event in self._events if not kinds or event.kind in kinds]

    @property
    def text(self) -> str:
        """The characters of the keys that it was given."""
        return "".join(event.text for event in self.events("key"))

    def clear(self) -> None:
        """Forget what it was given."""
        with self._lock:
            self._events.clear()

    def wait(self, condition: Callable[[ProbeWindow], bool], timeout: float = 5_000) -> bool:
        """Wait until a condition holds.

        Args:
            condition: Is given this window.
            timeout: Milliseconds.

        Returns:
            Whether it held in time.
        """
        return wait_for(lambda: condition(self), timeout)

    def close(self) -> None:
        """Close the window. Calling it again does nothing."""
        self._is_open = False
        self._thread.join()
        self._connection.close()

    def _make(self, display: Any, title: str, size: tuple[int, int]) -> Any:
        mask = (
            X.KeyPressMask
            | X.KeyReleaseMask
            | X.ButtonPressMask
            | X.ButtonReleaseMask
            | X.PointerMotionMask
            | X.EnterWindowMask
            | X.LeaveWindowMask
            | X.FocusChangeMask
        )
        window = self._connection.root.create_window(
            0, 0, *size, 0, X.CopyFromParent, background_pixel=_BACKGROUND, event_mask=mask
        )
        window.set_wm_name(title)
        window.set_wm_class("probe", "Probe")
        window.set_wm_hints(flags=Xutil.InputHint | Xutil.StateHint, input=1, initial_state=Xutil.NormalState)
        window.set_wm_protocols([display.get_atom("WM_DELETE_WINDOW"), display.get_atom("_NET_WM_PING")])
        return window

    def _wait_for_keyboard(self) -> None:
        if self.wait(_has_keyboard, _PATIENCE):
            return
        self._desktop.keyboard.activate(self.id)
        if not self.wait(_has_keyboard, _LONG_PATIENCE):
            self.close()
            raise LaunchFailed(
                "The probe window did not get the keyboard.", "close the window that keeps the keyboard first"
            )

    def _read(self) -> None:
        with contextlib.suppress(DesktopDied):
            while self._is_open:
                wait_readable([self._connection.fileno()], 50)
                for news in self._connection.drain():
                    self._hear(news)

    def _hear(self, news: rq.Event) -> None:
        if news.type == X.MappingNotify:
            with self._connection.use() as display:
                display.refresh_keyboard_mapping(news)
        elif news.type == X.ClientMessage:
            self._answer(news)
        elif news.type in _KINDS:
            kept = self._event(news)
            with self._lock:
                self._events.append(kept)

    def _event(self, news: rq.Event) -> ProbeEvent:
        kind = _KINDS[news.type]
        if kind.startswith("focus"):
            return ProbeEvent(kind)
        keysym = 0
        if news.type in (X.KeyPress, X.KeyRelease):
            with self._connection.use() as display:
                keysym = display.keycode_to_keysym(news.detail, int(bool(news.state & X.ShiftMask)))
        text = _text(keysym)
        return ProbeEvent(
            kind,
            detail=int(news.detail),
            key=keys.name(keysym),
            text=text if not news.state & (X.ControlMask | X.Mod1Mask) else "",
            x=int(news.root_x),
            y=int(news.root_y),
            state=int(news.state),
            time=int(news.time),
        )

    def _answer(self, news: rq.Event) -> None:
        """Answer a ping, as programs do (EWMH)."""
        with self._connection.use() as display:
            if news.data[1][0] != self._connection.atom("_NET_WM_PING"):
                return
            root = self._connection.root
            reply = event.ClientMessage(window=root, client_type=news.client_type, data=news.data)
            root.send_event(reply, event_mask=X.SubstructureNotifyMask | X.SubstructureRedirectMask)
            display.flush()


def _has_keyboard(probe: ProbeWindow) -> bool:
    return any(event.kind == "focus" for event in probe.events())


def _text(keysym: int) -> str:
    """The character that a key writes."""
    if keysym in _CHARACTERS:
        return _CHARACTERS[keysym]
    name = keys.name(keysym)
    return name if len(name) == 1 else " " if keysym == XK.XK_space else ""
