"""Waiting until the screen stands still: the server tells what is drawn, a comparison says whether a pixel changed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from Xlib.ext import damage

from pytest_cua.desktop.capture import Screen
from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.waiting import now_ms, wait_readable


@dataclass(frozen=True)
class Stillness:
    """How a wait for a still screen ended.

    Args:
        still: Whether no pixel changed for the time asked for.
        waited_ms: How long it took, in milliseconds.
    """

    still: bool
    waited_ms: float


class StillnessWatch:
    """Watches one display for changes.

    Args:
        connection: Its own one, as it reads the events.
        screen: Takes the pictures.
    """

    #: Milliseconds between two pictures where the server has no damage extension
    _POLL = 20.0

    def __init__(self, connection: Connection, screen: Screen) -> None:
        self._connection = connection
        self._screen = screen
        self._mutex = threading.Lock()
        self._damage: int | None = None
        self._event = -1
        with connection.use() as display:
            if display.has_extension(damage.extname):
                display.damage_query_version()
                # python-xlib makes a class of its own for each connection's events; only the number tells them
                self._event = int(display.extension_event.DamageNotify)
                # one event until it is taken back, however much is drawn
                self._damage = connection.root.damage_create(damage.DamageReportNonEmpty)
                display.sync()

    def wait(self, *, quiet: float, timeout: float) -> Stillness:
        """Wait until no pixel has changed for `quiet` milliseconds, counted from now at the earliest."""
        with self._mutex:
            return self._wait(quiet, timeout)

    def _wait(self, quiet: float, timeout: float) -> Stillness:
        start = now_ms()
        self._take_damage()
        pixels = self._screen.pixels()
        changed = now_ms()
        while True:
            now = now_ms()
            if now - changed >= quiet:
                return Stillness(True, now - start)
            if now - start >= timeout:
                return Stillness(False, now - start)
            if not self._something_drawn(min(changed + quiet, start + timeout) - now):
                continue
            seen = now_ms()
            latest = self._screen.pixels()
            if latest != pixels:
                pixels, changed = latest, seen

    def _something_drawn(self, milliseconds: float) -> bool:
        if self._damage is None:
            wait_readable([self._connection.fileno()], min(milliseconds, self._POLL))
            self._connection.drain()
            return True
        if self._take_damage():
            return True
        wait_readable([self._connection.fileno()], milliseconds)
        return self._take_damage()

    def _take_damage(self) -> bool:
        """Whether something was drawn since the last call."""
        events = self._connection.drain()
        if not any(event.type == self._event for event in events):
            return False
        with self._connection.use() as display:
            display.damage_subtract(self._damage)
            display.sync()
        return True
