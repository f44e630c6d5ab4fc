"""Keys pressed and text typed through XTEST.

Characters that the layout lacks get a free keycode each. A keycode stays bound until another character needs it:
programs look up what a key means when they come to it, which may be long after it was pressed, so a binding that is
taken back at once is one that a slow program sees too late.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from Xlib import XK, X
from Xlib.ext import xtest

from pytest_cua.desktop import keys
from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.waiting import wait_for
from pytest_cua.errors import BadArgument
from pytest_cua.secrets import Secret, split

#: Milliseconds between a new binding and the first key that uses it.
_SETTLE: Final = 50
_LONGEST_HOLD: Final = 300.0


class Keymap:
    """Which key gives which keysym.

    Args:
        connection: Of the display.
        wait_until_read: Waits until programs have worked off the keys pressed so far.
    """

    def __init__(self, connection: Connection, wait_until_read: Callable[[], object]) -> None:
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
        self._keymap = Keymap(connection, wait_until_read)
        self._down: list[int] = []

    def press(self, key: str, repeat: int = 1) -> None:
        """Press and release a key or a combination.

        Args:
            key: "Return", "ctrl+s", "é"; several separated by spaces are pressed one after the other.
            repeat: How many times, 1 to 100.

        Raises:
            BadArgument: an unknown key, or a `repeat` out of range.
            DesktopDied: the desktop is gone.
        """
        if not isinstance(repeat, int) or not 1 <= repeat <= 100:
            raise BadArgument(f"repeat={repeat!r} is not between 1 and 100.")
        chords = keys.chords(key)
        for _ in range(repeat):
            for chord in chords:
                with self._held(chord):
                    pass

    def hold(self, key: str, seconds: float) -> None:
        """Hold a key or a combination. It does not repeat, since that would depend on the machine's speed.

        Args:
            key: As in `press`.
            seconds: How long, 0 to 300.

        Raises:
            BadArgument: an unknown key, or a time out of range.
            DesktopDied: the desktop is gone.
        """
        if not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_HOLD:
            raise BadArgument(f"seconds={seconds!r} is not between 0 and 300.")
        chords = keys.chords(key)
        if len(chords) > 1:
            raise BadArgument(f"{key!r} is more than one combination; only one can be held.")
        with self._held(chords[0]):
            # the duration is the action; a server that ends shows itself when events are read
            wait_for(lambda: self._connection.drain() is None, seconds * 1000.0, [self._connection.fileno()])

    def type(self, text: str | Secret) -> None:
        """Type text literally at the focus. A newline is the Return key, a tab the Tab key.

        What changes on the screen while a secret in it is typed is painted over in every later picture. Programs may
        still be reading when this returns: wait until the screen is still before looking at it.

        Raises:
            BadArgument: a character that cannot be typed; nothing has been typed then.
            SetupError: a secret whose environment variable is not set; nothing has been typed then.
            DesktopDied: the desktop is gone.
        """
        text = text.value if isinstance(text, Secret) else text
        if not isinstance(text, str):
            raise BadArgument(f"type() takes text, not {text!r}.")
        pieces = [
            ([keys.character(char) for char in piece], is_secret)
            for piece, is_secret in split(text.replace("\r\n", "\n"))
        ]
        for keysyms, is_secret in pieces:
            with self._hiding() if is_secret else contextlib.nullcontext():
                self._type_keysyms(keysyms)

    def _type_keysyms(self, keysyms: list[int]) -> None:
        start = 0
        while start < len(keysyms):
            end = self._end_of_batch(keysyms, start)
            self._type_batch(keysyms[start:end])
            start = end

    @contextlib.contextmanager
    def held(self, modifiers: object) -> Iterator[None]:
        """Hold modifier keys during a block.

        Args:
            modifiers: "shift", "ctrl+alt", or several such names.
        """
        with self._held(keys.modifiers(modifiers)):
            yield

    def release_all(self) -> None:
        """Release every key that is down, whoever pressed it."""
        with self._connection.use() as display:
            bits = display.query_keymap()
            down = [8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1]
            for keycode in dict.fromkeys([*reversed(self._down), *down]):
                xtest.fake_input(display, X.KeyRelease, keycode)
            self._down.clear()
            display.sync()

    def _end_of_batch(self, keysyms: list[int], start: int) -> int:
        """The end of the longest piece of text that the free keycodes suffice for."""
        foreign: set[int] = set()
        for index in range(start, len(keysyms)):
            if not self._keymap.has(keysyms[index]):
                foreign.add(keysyms[index])
            if len(foreign) > self._keymap.room:
                return max(index, start + 1)
        return len(keysyms)

    def _type_batch(self, keysyms: list[int]) -> None:
        delay = _SETTLE if self._keymap.bind(keysyms) else 0
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
    def _held(self, chord: list[int]) -> Iterator[None]:
        """Press the keys of a combination in order; release them afterwards, whatever happens."""
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
            with self._connection.use() as display:
                for keycode in keycodes:
                    pressed.append(keycode)
                    self._key(display, keycode, True, delay)
                    delay = 0
                display.sync()
            yield
        finally:
            with self._connection.use() as display:
                for keycode in reversed(pressed):
                    self._key(display, keycode, False)
                display.sync()

    @contextlib.contextmanager
    def _released_in_the_end(self, display: Any) -> Iterator[None]:
        before = list(self._down)
        try:
            yield
        finally:
            left = [keycode for keycode in self._down if keycode not in before]
            for keycode in reversed(left):
                self._key(display, keycode, False)

    @property
    def _shift(self) -> int:
        return self._keymap.place(XK.XK_Shift_L)[0]

    def _key(self, display: Any, keycode: int, pressed: bool, delay: int = 0) -> None:
        xtest.fake_input(display, X.KeyPress if pressed else X.KeyRelease, keycode, time=delay)
        if pressed:
            self._down.append(keycode)
        elif keycode in self._down:
            self._down.remove(keycode)
