"""What the X server did with input: which device events it saw, and which client was given them (extension RECORD).

Recording is on only during an action: a context that is always on would fill the server's memory with every program's
events while nobody reads them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from Xlib import X
from Xlib.ext import record

from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.waiting import wait_for

_GENERIC: Final = 35  # events of XInput2 (GTK, Chromium), of which RECORD keeps the first 32 bytes
_EVENT: Final = 32  # bytes
_KINDS: Final = {X.KeyPress: "key", X.KeyRelease: "key-up", X.ButtonPress: "press", X.ButtonRelease: "release"}
#: Milliseconds for the server to begin or to end a recording.
_PATIENCE: Final = 5_000.0


@dataclass(frozen=True)
class Sighting:
    """An input event, as a device made it or as a client was given it.

    Args:
        kind: "key", "key-up", "press", "release" or "move".
        detail: The keycode or the button; 0 of a move.
        client: The first resource id of the client that was given it, None where the device made it.
        window: The window that it was reported to; 0 where the device made it.
    """

    kind: str
    detail: int
    client: int | None = None
    window: int = 0


class Witness:
    """Sees what becomes of input on one display.

    Args:
        connection: Of the display. Recordings come over another one, which closes with it.
        moves: Whether moves of the pointer are seen too.
    """

    def __init__(self, connection: Connection, *, moves: bool = False) -> None:
        self._control = connection
        self._data: Connection | None = None
        self._context: Any = None
        self._seen: list[Sighting] = []
        self._state = ""
        self._last = X.MotionNotify if moves else X.ButtonRelease
        with connection.use() as display:
            self.works = bool(display.has_extension(record.extname))
            input_events = display.query_extension("XInputExtension")
            self._input_events = int(input_events.major_opcode) if input_events is not None else -1

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Sighting]]:
        """Record during a block; the list grows, and is complete after it. It stays empty without the extension.

        Raises:
            DesktopDied: the desktop is gone.
        """
        seen: list[Sighting] = []
        if not self.works:
            yield seen
            return
        self._begin(seen)
        try:
            yield seen
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong in the block says more
                self._end()
            raise
        self._end()

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait, inside of `watching`, until what was seen fulfils a condition.

        Args:
            condition: Looks at the list.
            timeout: Milliseconds.
        """
        if self._data is None:
            return condition()
        return wait_for(lambda: self._read() or condition(), timeout, [self._data.fileno()])

    def _begin(self, seen: list[Sighting]) -> None:
        if self._data is None:
            self._data = self._control.beside()
            with self._control.use() as display:
                events = (X.KeyPress, self._last)
                ranges = {"delivered_events": (X.KeyPress, _GENERIC), "device_events": events}
                self._context = display.record_create_context(
                    record.FromServerTime, [record.AllClients], [_NOTHING | ranges]
                )
                display.sync()
        self._seen, self._state = seen, "beginning"
        with self._data.use() as display:
            opcode = display.display.get_extension_major(record.extname)
            # without `defer` it would not return before the recording ends
            record.EnableContext(self._hear, display=display.display, opcode=opcode, context=self._context, defer=True)
            display.flush()
        wait_for(lambda: self._read() or self._state == "on", _PATIENCE, [self._data.fileno()])

    def _end(self) -> None:
        assert self._data is not None
        with self._control.use() as display:
            display.record_disable_context(self._context)
            display.sync()
        # its last message comes after all that was recorded
        wait_for(lambda: self._read() or self._state == "off", _PATIENCE, [self._data.fileno()])

    def _read(self) -> bool:
        assert self._data is not None
        self._data.drain()
        return False

    def _hear(self, reply: Any) -> None:
        if reply.category == record.StartOfData:
            self._state = "on"
        elif reply.category == record.EndOfData:
            self._state = "off"
        elif reply.category == record.FromServer:
            each = _EVENT + 4  # the server's time goes before each event
            for start in range(0, len(reply.data) - each + 1, each):
                event = reply.data[start + 4 : start + each]
                sighting = _sighting(event, int(reply.id_base), self._input_events)
                if sighting is not None:
                    self._seen.append(sighting)


_NOTHING: Final[dict[str, Any]] = {
    "core_requests": (0, 0),
    "core_replies": (0, 0),
    "ext_requests": (0, 0, 0, 0),
    "ext_replies": (0, 0, 0, 0),
    "delivered_events": (0, 0),
    "device_events": (0, 0),
    "errors": (0, 0),
    "client_started": False,
    "client_died": False,
}


def _sighting(event: bytes, client: int, input_events: int) -> Sighting | None:
    """One event, of the core protocol or of XInput2 (XI2proto: xXIDeviceEvent); None of another kind."""
    code = event[0] & 0x7F
    if code == _GENERIC:
        if event[1] != input_events:
            return None
        # its kinds have the numbers of the core protocol
        code, _device, _time, detail, _root, window = struct.unpack_from("<HHIIII", event, 8)
    else:
        detail = event[1]
        window = struct.unpack_from("<I", event, 12)[0]
    if code == X.MotionNotify:
        kind, detail = "move", 0
    elif code in _KINDS:
        kind = _KINDS[code]
    else:
        return None
    return Sighting(kind, detail, client or None, window if client else 0)
