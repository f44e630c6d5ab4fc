"""Windows, as the window manager tells about them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

from Xlib import X, Xatom, error
from Xlib.protocol import event, rq

from pytest_cua.desktop.connection import Connection, property_values
from pytest_cua.desktop.waiting import wait_for

#: Types that are part of the desktop, or that pass by themselves.
_NO_WINDOWS: Final = ("DOCK", "DESKTOP", "SPLASH", "NOTIFICATION", "TOOLTIP", "DND")
_ICONIC: Final = 3  # of WM_STATE
#: Pixels of the title bar that a program draws itself, in GTK's and Qt's themes at 96 dpi.
_OWN_TITLE: Final = 48
#: Window managers ping too, with the time as their serial: this is twenty days after the server started.
_serials: Final = itertools.count(0x68000000)


@dataclass(frozen=True)
class Window:
    """A window on the desktop.

    Args:
        title: What its title bar says.
        program: The class it gives itself (WM_CLASS), such as "Mousepad".
        box: x, y, width and height in pixels of what the program draws, without the frame.
        focused: Whether keys go to it.
        id: Of the X protocol. It differs from run to run.
        minimized: Whether it is only to be found in the panel.
    """

    title: str
    program: str
    box: tuple[int, int, int, int]
    focused: bool
    id: int
    minimized: bool = False


@dataclass(frozen=True)
class Mark:
    """A moment: the windows there were, and how many had closed before."""

    windows: set[int]
    closed: int


class WindowReader:
    """Reads the windows of one display."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types = {connection.atom(f"_NET_WM_WINDOW_TYPE_{name}") for name in _NO_WINDOWS}
        self._closed: list[int] = []
        self._closed_since_ping: set[int] = set()
        self._pongs: set[int] = set()
        self._answering: set[int] = set()
        self._mute: set[int] = set()
        self._serial = 0
        self._ping_atom = connection.atom("_NET_WM_PING")
        connection.listeners.append(self._hear)
        with connection.use() as display:
            # every change of the list wakes who waits for one; Qt sends its answers to a ping to StructureNotify alone
            mask = X.PropertyChangeMask | X.SubstructureNotifyMask | X.StructureNotifyMask
            connection.root.change_attributes(event_mask=mask)
            display.sync()

    def fileno(self) -> int:
        """A descriptor with news when something about the windows changed; `read` takes the news."""
        return self._connection.fileno()

    def drain(self) -> None:
        """Take the news."""
        self._connection.drain()

    def read(self) -> list[Window]:
        """All windows that a user can use, from bottom to top.

        Raises:
            DesktopDied: the desktop is gone.
        """
        self._connection.drain()
        focus = self.focus_chain()
        found = (self._window(number, focus) for number in self.ids("_NET_CLIENT_LIST_STACKING"))
        return [window for window in found if window is not None]

    def ids(self, name: str = "_NET_CLIENT_LIST") -> list[int]:
        """The ids of all windows that the window manager knows, docks too."""
        with self._connection.use():
            return property_values(self._connection.root, self._connection.atom(name), Xatom.WINDOW)

    def mark(self) -> Mark:
        """Remember the windows there are, to tell new ones from them.

        The server gives the ids of a program that ended to the next one; so what closes from now on is heard.
        """
        self._connection.drain()
        start = len(self._closed)
        return Mark({number for number in self.ids() if self._listen(number)}, start)

    def is_new(self, number: int, mark: Mark) -> bool:
        """Whether a window has opened since a mark."""
        return number not in mark.windows or number in self._closed[mark.closed :]

    def wait_until_read(self, timeout: float) -> bool:
        """Wait until the program with the keyboard has worked off the input that was sent to it.

        It is asked by _NET_WM_PING (EWMH), which it answers when it comes to it, after all that was sent before.
        Programs that do not know it are not waited for.

        Args:
            timeout: Milliseconds.

        Returns:
            False if it did not answer in time.
        """
        return self.ask_whether_read(timeout) is not False

    def ask_whether_read(self, timeout: float) -> bool | None:
        """As `wait_until_read`, but None if the program does not know the question.

        Args:
            timeout: Milliseconds.
        """
        with self._connection.use():
            atom = self._connection.atom("_NET_ACTIVE_WINDOW")
            active = property_values(self._connection.root, atom, Xatom.WINDOW)[:1]
        if not active or not active[0] or active[0] in self._mute or not self._ping(active[0]):
            return None
        serial = self._serial

        def answered() -> bool:
            self._connection.drain()
            return serial in self._pongs or active[0] in self._closed_since_ping

        if wait_for(answered, timeout, [self._connection.fileno()]):
            return True
        if active[0] not in self._answering:
            self._mute.add(active[0])  # it says that it answers, but it never did: do not wait for it again
        return False

    def _ping(self, number: int) -> bool:
        """Ask a window for a sign of life; False if it would give none."""
        self._serial = next(_serials)
        self._pongs.clear()
        self._closed_since_ping.clear()
        with self._connection.use() as display:
            window = display.create_resource_object("window", number)
            ping, protocols = self._connection.atom("_NET_WM_PING"), self._connection.atom("WM_PROTOCOLS")
            try:
                if not self._listen(number) or ping not in list(window.get_wm_protocols() or ()):
                    return False
                data = (32, [ping, self._serial, number, 0, 0])
                window.send_event(event.ClientMessage(window=window, client_type=protocols, data=data))
                display.sync()
            except error.XError:
                return False
        return True

    def _listen(self, number: int) -> bool:
        """Hear when a window closes; False when it has."""
        with self._connection.use() as display:
            window = display.create_resource_object("window", number)
            window.change_attributes(event_mask=X.StructureNotifyMask)
            try:
                window.get_geometry()
            except error.XError:
                return False
        return True

    def _hear(self, news: rq.Event) -> None:
        if news.type == X.DestroyNotify:
            self._closed.append(int(news.window.id))
            self._closed_since_ping.add(int(news.window.id))
            self._answering.discard(int(news.window.id))  # the id may be given to another
            self._mute.discard(int(news.window.id))
        elif news.type == X.ClientMessage and news.data[0] == 32:
            kind, serial, number, *_ = news.data[1]
            if kind == self._ping_atom:
                self._pongs.add(int(serial))
                self._answering.add(int(number))
                self._mute.discard(int(number))

    def one(self, number: int) -> Window | None:
        """The window with this id, or None when it is gone, or no window for users."""
        return self._window(number, self.focus_chain())

    def process(self, number: int) -> int | None:
        """The process that a window says it belongs to (_NET_WM_PID), as the program itself counts."""
        with self._connection.use() as display:
            try:
                window = display.create_resource_object("window", number)
                values = property_values(window, self._connection.atom("_NET_WM_PID"), Xatom.CARDINAL)
            except error.XError:
                return None
        return values[0] if values else None

    def wants_keys(self, number: int) -> bool:
        """Whether a window takes the keyboard at all (WM_HINTS, WM_TAKE_FOCUS)."""
        with self._connection.use() as display:
            try:
                window = display.create_resource_object("window", number)
                hints = window.get_wm_hints()
                protocols = window.get_wm_protocols()
            except error.XError:
                return False
        takes_focus = self._connection.atom("WM_TAKE_FOCUS") in list(protocols or ())
        return takes_focus or hints is None or not hints.flags & 1 or bool(hints.input)

    def activate(self, number: int) -> None:
        """Ask the window manager to bring a window to the top and to give it the keyboard."""
        with self._connection.use() as display:
            message = event.ClientMessage(
                window=display.create_resource_object("window", number),
                client_type=self._connection.atom("_NET_ACTIVE_WINDOW"),
                data=(32, [2, X.CurrentTime, 0, 0, 0]),  # 2: a user asked for it
            )
            mask = X.SubstructureRedirectMask | X.SubstructureNotifyMask
            self._connection.root.send_event(message, event_mask=mask)
            display.sync()

    def focus_chain(self) -> set[int]:
        """The window that has the keyboard, and those around it."""
        chain: set[int] = set()
        with self._connection.use() as display:
            window = display.get_input_focus().focus
            try:
                while not isinstance(window, int) and window.id != self._connection.root.id:
                    chain.add(window.id)
                    window = window.query_tree().parent
            except error.XError:  # it is just closing
                return set()
        return chain

    def docks(self) -> list[int]:
        """The ids of the docks that are shown: the panel."""
        dock = self._connection.atom("_NET_WM_WINDOW_TYPE_DOCK")
        return [number for number in self.ids() if dock in self._types_of(number) and self._is_shown(number)]

    def dock_boxes(self) -> list[tuple[int, int, int, int]]:
        """Where the docks are: x, y, width and height in pixels."""
        found = (self._box(number) for number in self.docks())
        return [box for box in found if box is not None]

    def title_bar(self, window: Window) -> tuple[int, int, int, int]:
        """Where the title of a window is drawn: x, y, width and height in pixels.

        That is its frame, or the upper edge of the window itself where the program draws its own.
        """
        x, y, width, height = window.box
        with self._connection.use() as display:
            try:
                resource = display.create_resource_object("window", window.id)
                extents = property_values(resource, self._connection.atom("_NET_FRAME_EXTENTS"), Xatom.CARDINAL)
            except error.XError:
                extents = []
        left, right, top, _ = extents if len(extents) == 4 else (0, 0, 0, 0)
        return (x - left, y - top, left + width + right, top) if top else (x, y, width, min(height, _OWN_TITLE))

    def _box(self, number: int) -> tuple[int, int, int, int] | None:
        with self._connection.use() as display:
            window = display.create_resource_object("window", number)
            try:
                geometry, origin = window.get_geometry(), self._connection.root.translate_coords(window, 0, 0)
            except error.XError:
                return None
        return int(origin.x), int(origin.y), int(geometry.width), int(geometry.height)

    def work_area(self) -> list[int]:
        """What is left of the screen beside the docks: x, y, width, height; empty if unknown."""
        with self._connection.use():
            atom = self._connection.atom("_NET_WORKAREA")
            return property_values(self._connection.root, atom, Xatom.CARDINAL)[:4]

    def manager(self) -> bool:
        """Whether a window manager has taken over."""
        with self._connection.use():
            atom = self._connection.atom("_NET_SUPPORTING_WM_CHECK")
            return bool(property_values(self._connection.root, atom, Xatom.WINDOW))

    def _types_of(self, number: int) -> list[int]:
        with self._connection.use() as display:
            try:
                window = display.create_resource_object("window", number)
                return property_values(window, self._connection.atom("_NET_WM_WINDOW_TYPE"), Xatom.ATOM)
            except error.XError:
                return []

    def _is_shown(self, number: int) -> bool:
        with self._connection.use() as display:
            try:
                state = display.create_resource_object("window", number).get_attributes().map_state
            except error.XError:
                return False
        return bool(state == X.IsViewable)

    def _window(self, number: int, focus: set[int]) -> Window | None:
        if self._types & set(self._types_of(number)):
            return None
        with self._connection.use() as display:
            window = display.create_resource_object("window", number)
            try:
                minimized = self._is_minimized(window)
                if not minimized and window.get_attributes().map_state != X.IsViewable:
                    return None
                geometry = window.get_geometry()
                origin = self._connection.root.translate_coords(window, 0, 0)
                names = window.get_wm_class()
                title = self._title(window)
            except error.XError:  # closed while we looked
                return None
        return Window(
            title=title,
            program=names[1] if names else "",
            box=(int(origin.x), int(origin.y), int(geometry.width), int(geometry.height)),
            focused=number in focus,
            id=number,
            minimized=minimized,
        )

    def _is_minimized(self, window: Any) -> bool:
        atom = self._connection.atom("WM_STATE")
        return property_values(window, atom, atom)[:1] == [_ICONIC]

    def _title(self, window: Any) -> str:
        modern = window.get_full_property(self._connection.atom("_NET_WM_NAME"), self._connection.atom("UTF8_STRING"))
        if modern is not None:
            return bytes(modern.value).decode("utf-8", "replace")
        name = window.get_wm_name()
        return name.decode("latin-1") if isinstance(name, bytes) else str(name or "")
