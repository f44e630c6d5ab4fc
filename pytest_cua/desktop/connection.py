"""A connection to the X server, which turns the server's end into DesktopDied."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from Xlib import error
from Xlib.display import Display
from Xlib.protocol import rq

from pytest_cua.desktop.link import Link


class Connection:
    """One python-xlib client of a desktop, and the lock that its users take.

    Args:
        number: Of the display.
        link: Is asked why when the server is gone.
    """

    def __init__(self, number: int, link: Link) -> None:
        self._link = link
        self._mutex = threading.RLock()
        self._beside: list[Connection] = []
        self.errors: list[Any] = []
        self.listeners: list[Callable[[rq.Event], None]] = []
        self._display: Any = None
        with self.use() as display:  # a server that is gone shows itself here already
            self.screen = display.screen()
            self.root = self.screen.root
        self.number = number

    def _connect(self) -> Any:
        ready = self._link.ready
        assert ready is not None
        display = Display(f"unix:{ready['display']}")
        # python-xlib would print errors that nobody waited for: a window that is just closing, for instance
        display.set_error_handler(lambda failure, _request: self.errors.append(failure))
        return display

    @contextlib.contextmanager
    def use(self) -> Iterator[Any]:
        """Lend the display to a block.

        Raises:
            DesktopDied: the server is gone.
        """
        with self._mutex:
            self._link.check_open()
            try:
                if self._display is None:
                    self._display = self._connect()
                yield self._display
            except (error.ConnectionClosedError, error.DisplayConnectionError, OSError, EOFError) as failure:
                # the link says more about it than the exception
                self._link.check_alive()
                self._link.die(f"its X server closed the connection ({failure})")

    def fileno(self) -> int:
        """The descriptor that has news when there are events."""
        with self.use() as display:
            return int(display.fileno())

    def drain(self) -> list[rq.Event]:
        """Take the events that have arrived, and let the listeners know."""
        events = []
        with self.use() as display:
            while display.pending_events():
                events.append(display.next_event())
                for listener in self.listeners:
                    listener(events[-1])
        return events

    def atom(self, name: str) -> int:
        """The atom of a name."""
        with self.use() as display:
            return int(display.get_atom(name))

    def beside(self) -> Connection:
        """Another connection to the same server, which is closed with this one.

        Raises:
            DesktopDied: the server is gone.
        """
        other = Connection(self.number, self._link)
        self._beside.append(other)
        return other

    def close(self) -> None:
        """Close the connection, and those beside it."""
        for other in self._beside:
            other.close()
        with self._mutex, contextlib.suppress(Exception):
            if self._display is not None:
                self._display.close()


def property_values(window: Any, atom: int, kind: int) -> list[int]:
    """The numbers in a window's property, or an empty list."""
    found = window.get_full_property(atom, kind)
    return [int(value) for value in found.value] if found is not None and found.format == 32 else []
