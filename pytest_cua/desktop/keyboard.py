"""Keys pressed and text typed through XTEST.

Characters that the layout lacks get a free keycode each. Programs look up what a key means when they come to it, which
may be long after it was pressed. So a keycode is bound to another character, or taken back, only when the program with
the keyboard has read what was sent: it answers a ping in turn, or, where it knows none, its window stands still.

Text always goes by keys. The clipboard would be faster where a text has many different characters, but which keys paste
differs between programs, its content is the user's, and a field may refuse it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from Xlib import XK, X
from Xlib.ext import xtest

from pytest_cua.desktop import keys
from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.delivery import Delivery, Focus
from pytest_cua.desktop.waiting import wait_for
from pytest_cua.desktop.windows import WindowReader
from pytest_cua.desktop.witness import Sighting
from pytest_cua.errors import BadArgument, NotDelivered
from pytest_cua.secrets import Secret, split

#: Milliseconds between a new binding and the first key that uses it.
_SETTLE: Final = 50
_LONGEST_HOLD: Final = 300.0
#: Characters that are sent before it is looked at whether they reached the window.
_CHUNK: Final = 32
#: Milliseconds for a program to read what was sent: one that never answered a ping, and one that does. GTK takes eight
#: seconds for 5,000 characters on an idle machine.
_READING: Final = 10_000.0
_READING_LONG: Final = 60_000.0
#: Milliseconds for keys to be given to a window.
_PATIENCE: Final = 2_000.0


class Keymap:
    """Which key gives which keysym.

    Args:
        connection: Of the display.
        wait_until_read: Waits until programs have worked off the keys pressed so far; False if they have not.
    """

    def __init__(self, connection: Connection, wait_until_read: Callable[[], bool]) -> None:
        self._connection = connection
        self._wait_until_read = wait_until_read
        self._layout: dict[int, tuple[int, bool]] = {}
        self._free: list[int] = []
        self._bound: dict[int, int] = {}  # keysym -> keycode, least recently used first
        self._load()

    @property
    def room(self) -> int:
        """How many characters that the layout lacks can be bound at a time."""
        return len(self._free) + len(self._bound)

    def has(self, keysym: int) -> bool:
        """Whether the layout itself has a key for `keysym`."""
        return keysym in self._layout

    def bind(self, keysyms: list[int]) -> bool:
        """See to it that there are keys for all of `keysyms`, `room` of them at most; True when the map changed."""
        missing = [keysym for keysym in dict.fromkeys(keysyms) if keysym not in self._layout]
        for keysym in missing:
            if keysym in self._bound:
                self._bound[keysym] = self._bound.pop(keysym)  # now the most recently used
        new = [keysym for keysym in missing if keysym not in self._bound]
        if len(new) > len(self._free):
            self._wait_until_read()  # the keys that are taken over may still be waiting to be read
        for keysym in new:
            keycode = self._free.pop(0) if self._free else self._bound.pop(next(iter(self._bound)))
            self._bound[keysym] = keycode
            with self._connection.use() as display:
                # on both levels, so that a held shift does not change the character
                display.change_keyboard_mapping(keycode, [(keysym, keysym)])
        if new:
            with self._connection.use() as display:
                display.sync()
            self._connection.drain()
        return bool(new)

    def restore(self) -> None:
        """Take all bindings back, once the program with the keyboard has read its keys; else keep them for now."""
        if not self._bound or not self._wait_until_read():
            return
        with self._connection.use() as display:
            for keycode in self._bound.values():
                display.change_keyboard_mapping(keycode, [(X.NoSymbol,)])
            display.sync()
        self._free = [*self._free, *self._bound.values()]
        self._bound.clear()
        self._connection.drain()

    def place(self, keysym: int) -> tuple[int, bool]:
        """The keycode of a keysym and whether it needs the shift key."""
        return self._layout.get(keysym) or (self._bound[keysym], False)

    def _load(self) -> None:
        with self._connection.use() as display:
            first = display.display.info.min_keycode
            rows = display.get_keyboard_mapping(first, display.display.info.max_keycode - first + 1)
        for keycode, row in enumerate(rows, first):
            if not any(row):
                self._free.append(keycode)
            for level, keysym in enumerate(row[:2]):  # the group that is active at the start
                if keysym:
                    self._layout.setdefault(keysym, (keycode, level == 1))


@dataclass
class _Progress:
    """How far a text has come.

    Args:
        total: Characters in all.
        focus: Who had the keyboard at the start.
        sent: Characters that reached a window.
    """

    total: int
    focus: Focus
    sent: int = 0

    @property
    def _so_far(self) -> str:
        return f"{self.sent} of {self.total} characters had been typed"

    def closed(self) -> NotDelivered:
        """The error that the window closed."""
        return NotDelivered(
            f"The window with the keyboard closed while text was typed: {self._so_far}, the rest was not sent.",
            "type what closes it, and what is for the next window, by calls of their own",
        )

    def lost(self, delivery: Delivery, focus: Focus, seen: list[Sighting]) -> NotDelivered:
        """The error that keys did not arrive."""
        if self.focus and not delivery.is_there(self.focus):
            return self.closed()
        error = delivery.lost("The text", focus, seen)
        return NotDelivered(f"{error.message} Of it {self._so_far}.", *error.hints)


class Keyboard:
    """The desktop's keyboard.

    Args:
        connection: Of the display.
        wait_until_read: Waits until programs have worked off the keys pressed so far.
        hiding: A block around what nobody may see: what changes on the screen meanwhile is painted over.
    """

    def __init__(
        self,
        connection: Connection,
        wait_until_read: Callable[[], object],
        hiding: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._connection = connection
        self._hiding = hiding
        self._windows = WindowReader(connection)
        self._wait_until_still = wait_until_read
        self._keymap = Keymap(connection, self._wait_until_read)
        self.delivery = Delivery(connection)
        self._down: list[int] = []

    def press(self, key: str, repeat: int = 1) -> None:
        """Press and release a key or a combination.

        Args:
            key: "Return", "ctrl+s", "é"; several separated by spaces are pressed one after the other.
            repeat: How many times, 1 to 100.

        Raises:
            BadArgument: an unknown key, or a `repeat` out of range.
            NotDelivered: no program was given the key.
            DesktopDied: the desktop is gone.
        """
        if not isinstance(repeat, int) or not 1 <= repeat <= 100:
            raise BadArgument(f"repeat={repeat!r} is not between 1 and 100.")
        chords = keys.chords(key)
        for _ in range(repeat):
            for chord in chords:
                with self._held(chord, check=f"The key {key!r}"):
                    pass
        self._keymap.restore()

    def hold(self, key: str, seconds: float) -> None:
        """Hold a key or a combination. It does not repeat, since that would depend on the machine's speed.

        Args:
            key: As in `press`.
            seconds: How long, 0 to 300.

        Raises:
            BadArgument: an unknown key, or a time out of range.
            NotDelivered: no program was given the key.
            DesktopDied: the desktop is gone.
        """
        if not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_HOLD:
            raise BadArgument(f"seconds={seconds!r} is not between 0 and 300.")
        chords = keys.chords(key)
        if len(chords) > 1:
            raise BadArgument(f"{key!r} is more than one combination; only one can be held.")
        with self._held(chords[0], check=f"The key {key!r}"):
            # the duration is the action; a server that ends shows itself when events are read
            wait_for(lambda: self._connection.drain() is None, seconds * 1000.0, [self._connection.fileno()])
        self._keymap.restore()

    def type(self, text: str | Secret) -> None:
        """Type text literally at the focus. A newline is the Return key, a tab the Tab key.

        What changes on the screen while a secret in it is typed is painted over in every later picture. Programs may
        still be reading when this returns: wait until the screen is still before looking at it.

        Raises:
            BadArgument: a character that cannot be typed; nothing has been typed then.
            SetupError: a secret whose environment variable is not set; nothing has been typed then.
            NotDelivered: no window has the keyboard, it closed before all was sent, or another program was given the
                keys; the message says how many characters had been typed.
            DesktopDied: the desktop is gone.
        """
        text = text.value if isinstance(text, Secret) else text
        if not isinstance(text, str):
            raise BadArgument(f"type() takes text, not {text!r}.")
        pieces = [
            ([keys.character(char) for char in piece], is_secret)
            for piece, is_secret in split(text.replace("\r\n", "\n"))
        ]
        if not text:
            return
        progress = _Progress(sum(len(keysyms) for keysyms, _ in pieces), self.delivery.focus())
        for keysyms, is_secret in pieces:
            with self._hiding() if is_secret else contextlib.nullcontext():
                self._type_keysyms(keysyms, progress)
        self._keymap.restore()

    def _type_keysyms(self, keysyms: list[int], progress: _Progress) -> None:
        start = 0
        while start < len(keysyms):
            end = self._end_of_batch(keysyms, start)
            delay = _SETTLE if self._keymap.bind(keysyms[start:end]) else 0
            for chunk in range(start, end, _CHUNK):
                self._type_chunk(keysyms[chunk : min(end, chunk + _CHUNK)], delay, progress)
                delay = 0
            start = end

    @contextlib.contextmanager
    def held(self, modifiers: object) -> Iterator[None]:
        """Hold modifier keys during a block.

        Args:
            modifiers: "shift", "ctrl+alt", or several such names.
        """
        with self._held(keys.modifiers(modifiers)):
            yield

    def beside(self) -> Connection:
        """Another connection to the same display, which is closed with it."""
        return self._connection.beside()

    def activate(self, window: int) -> None:
        """Ask the window manager to give a window the keyboard.

        Args:
            window: Its id.
        """
        self._windows.activate(window)

    def release_all(self) -> None:
        """Release every key that is down, whoever pressed it, and give keys back the meaning they had."""
        with self._connection.use() as display:
            bits = display.query_keymap()
            down = [8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1]
            for keycode in dict.fromkeys([*reversed(self._down), *down]):
                xtest.fake_input(display, X.KeyRelease, keycode)
            self._down.clear()
            display.sync()
        self._keymap.restore()

    def _end_of_batch(self, keysyms: list[int], start: int) -> int:
        """The end of the longest piece of text that the free keycodes suffice for."""
        foreign: set[int] = set()
        for index in range(start, len(keysyms)):
            if not self._keymap.has(keysyms[index]):
                foreign.add(keysyms[index])
            if len(foreign) > self._keymap.room:
                return max(index, start + 1)
        return len(keysyms)

    def _type_chunk(self, keysyms: list[int], delay: int, progress: _Progress) -> None:
        """Send some characters and see to it that they reached the window with the keyboard.

        Args:
            keysyms: For all of which there are keys.
            delay: Milliseconds before the first.
            progress: Of the whole text.
        """
        if progress.sent and progress.focus and not self.delivery.is_there(progress.focus):
            raise progress.closed()
        before = self.delivery.begin()
        if not before and not self.delivery.witness.works:
            raise progress.lost(self.delivery, before, [])
        with self.delivery.witness.watching() as seen:
            self._send(keysyms, delay)

            def reached() -> int:
                return self.delivery.reached(seen, {before}, self._shift)

            def all_reached() -> bool:
                # where one window closes on a key, the next ones are for the window that has the keyboard then
                return reached() == len(keysyms) or (
                    self.delivery.reached(seen, {before, self.delivery.focus()}, self._shift) == len(keysyms)
                )

            arrived = not self.delivery.witness.works or self.delivery.witness.wait(
                all_reached, _PATIENCE if before else 0
            )
        if arrived:
            progress.sent += len(keysyms)
            return
        progress.sent += reached()
        raise progress.lost(self.delivery, before, seen)

    def _send(self, keysyms: list[int], delay: int) -> None:
        with self._connection.use() as display, self._released_in_the_end(display):
            for keysym in keysyms:
                keycode, shifted = self._keymap.place(keysym)
                if shifted:
                    self._key(display, self._shift, True, delay)
                self._key(display, keycode, True, 0 if shifted else delay)
                self._key(display, keycode, False)
                if shifted:
                    self._key(display, self._shift, False)
                delay = 0
            display.sync()

    @contextlib.contextmanager
    def _held(self, chord: list[int], *, check: str = "") -> Iterator[None]:
        """Press the keys of a combination in order; release them afterwards, whatever happens.

        Args:
            chord: Their keysyms.
            check: What to call it in the error that nobody was given it; "" where that is no error.
        """
        if not chord:
            yield
            return
        delay = _SETTLE if self._keymap.bind(chord) else 0
        places = [self._keymap.place(keysym) for keysym in chord]
        needs_shift = any(shifted for _, shifted in places) and not keys.SHIFTS & set(chord)
        keycodes = [keycode for keycode, _ in places]
        if needs_shift:
            # after the other modifiers, before the first key that is none
            first_key = next((i for i, keysym in enumerate(chord) if not keys.is_modifier(keysym)), len(chord))
            keycodes.insert(first_key, self._shift)
        pressed: list[int] = []
        try:
            watched = self.delivery.keys(check, keycodes[-1]) if check else contextlib.nullcontext()
            with watched, self._connection.use() as display:
                for keycode in keycodes:
                    pressed.append(keycode)
                    self._key(display, keycode, True, delay)
                    delay = 0
                display.sync()
            yield
        finally:
            with self._connection.use() as display:
                self._release(display, pressed)

    @contextlib.contextmanager
    def _released_in_the_end(self, display: Any) -> Iterator[None]:
        before = list(self._down)
        try:
            yield
        finally:
            self._release(display, [keycode for keycode in self._down if keycode not in before])

    def _release(self, display: Any, keycodes: list[int]) -> None:
        """Release keys, the last one first; all of them, also when an interrupt comes in between."""
        left = [keycode for keycode in reversed(keycodes) if keycode in self._down]
        if not left:
            return
        try:
            for keycode in left:
                self._key(display, keycode, False)
            display.sync()  # or the releases would wait for the next request
        except BaseException:
            for keycode in left:
                if keycode in self._down:
                    self._key(display, keycode, False)
            display.sync()
            raise

    def _wait_until_read(self) -> bool:
        """Wait until the program with the keyboard has read its keys; False if it does not come to it."""
        answer = self._windows.ask_whether_read(_READING)
        if answer is False:
            answer = self._windows.ask_whether_read(_READING_LONG)  # None at once if it never answered any
        if answer is None:  # it knows no ping: what it has read it shows
            self._wait_until_still()
        return answer is not False

    @property
    def _shift(self) -> int:
        return self._keymap.place(XK.XK_Shift_L)[0]

    def _key(self, display: Any, keycode: int, pressed: bool, delay: int = 0) -> None:
        if pressed:
            self._down.append(keycode)  # first: an interrupt in between must not leave it down
        xtest.fake_input(display, X.KeyPress if pressed else X.KeyRelease, keycode, time=delay)
        if not pressed and keycode in self._down:
            self._down.remove(keycode)
