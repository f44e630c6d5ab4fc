"""Whether input reached anybody: who has the keyboard, and which client was given a key or a button.

A menu holds the keyboard and the pointer too. It is told from a program that takes them away from others by what can be
seen: a menu is a window of its client that lies on the screen beside those that the window manager knows. (The server
tells nobody who has grabbed what, and trying to grab would send every program the news that it lost the keyboard.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from Xlib import X, Xatom, error
from Xlib.ext import res
from Xlib.protocol import rq

from pytest_cua.desktop.connection import Connection, property_values
from pytest_cua.desktop.witness import Sighting, Witness
from pytest_cua.errors import NotDelivered

#: Milliseconds for a key to be given to somebody: a window manager that looks at it first may be slow.
_PATIENCE: Final = 2_000.0
#: The same for a click, which may well be for nobody.
_PATIENCE_CLICK: Final = 150.0
_FOCUS_HINT: Final = "click into a window first, or launch a program"


@dataclass(frozen=True)
class Focus:
    """Who has the keyboard.

    Args:
        client: The first resource id of the client, 0 when nobody has it.
        top: The window of it, or its frame, that lies on the root window; 0 when nobody has it.
    """

    client: int = 0
    top: int = 0

    def __bool__(self) -> bool:
        return self.top != 0


class Delivery:
    """Judges whether the input of one display reached anybody.

    Args:
        connection: Of the display.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed: set[int] = set()  # clients of which a window closed since the action began
        self.witness = Witness(connection)
        connection.listeners.append(self._hear)
        with connection.use() as display:
            self._mask = ~int(display.display.info.resource_id_mask) & 0xFFFFFFFF

    def focus(self) -> Focus:
        """Who has the keyboard. A window manager's own unseen window, which has it when no other has, is nobody."""
        with self._connection.use() as display:
            window = display.get_input_focus().focus
            if window == X.PointerRoot:
                window = self._connection.root.query_pointer().child
            if isinstance(window, int) or window.id == self._connection.root.id:
                return Focus()
            top = self._top(window)
            return Focus(window.id & self._mask, top.id) if top is not None and self._is_seen(top) else Focus()

    def begin(self) -> Focus:
        """Begin to send: who has the keyboard. A menu that closes from now on was one that input was meant for."""
        self._connection.drain()
        self._closed.clear()
        return self.focus()

    def is_there(self, focus: Focus) -> bool:
        """Whether the window that had the keyboard is still open."""
        with self._connection.use() as display:
            return self._is_seen(display.create_resource_object("window", focus.top))

    @contextlib.contextmanager
    def keys(self, name: str, last: int) -> Iterator[None]:
        """Around one combination: see to it that its last key reached somebody.

        Args:
            name: Of the combination, for the message.
            last: The keycode of its last key.

        Raises:
            NotDelivered: nobody has the keyboard, or another program has taken it away.
        """
        before = self.begin()
        if not self.witness.works:
            if not before:
                raise _nobody(name)
            yield
            return
        with self.witness.watching() as seen:
            yield
            self.witness.wait(lambda: _given(seen, last, "key") != [], _PATIENCE if before else 0)
        given = _given(seen, last, "key")
        if any(self._may_have(sighting, {before}) for sighting in given) or any(map(self._is_bound, given)):
            return
        raise self._lost(name, before, given)

    @contextlib.contextmanager
    def click(self, button: int) -> Iterator[None]:
        """Around a click: see to it that no other program has taken the pointer away.

        A click where there is no window, or into a window that takes no clicks, is no error.

        Raises:
            NotDelivered: another program was given the click.
        """
        self.begin()
        under = self._under_pointer()
        if not self.witness.works or not under:
            yield
            return
        with self.witness.watching() as seen:
            yield
            self.witness.wait(lambda: _given(seen, button, "press") != [], _PATIENCE_CLICK)
        owners = {Focus(window & self._mask, window) for window in under}
        given = _given(seen, button, "press")
        if not given:
            self._check_grab()
        elif not any(self._may_have(sighting, owners) for sighting in given):
            raise NotDelivered(
                f"The click did not reach the window under the pointer: it went to {self._name(given[0])}, which has "
                "taken the pointer for itself.",
                "end that program, or what it waits for, first",
            )

    def reached(self, seen: list[Sighting], focuses: set[Focus], shift: int) -> int:
        """How many keys, from the first on, were given to one of those who had the keyboard, or to a menu.

        Args:
            seen: By the witness.
            focuses: Who had the keyboard meanwhile.
            shift: The keycode that is not counted.
        """
        verdicts: dict[int, bool] = {}
        pressed: list[int] = []
        missing: dict[int, list[int]] = {}  # keycode -> presses that nobody was given so far
        for sighting in seen:
            if sighting.kind != "key" or sighting.detail == shift:
                continue
            if sighting.client is None:
                missing.setdefault(sighting.detail, []).append(len(pressed))
                pressed.append(sighting.detail)
                continue
            if sighting.client not in verdicts:
                verdicts[sighting.client] = self._may_have(sighting, focuses)
            if verdicts[sighting.client] and missing.get(sighting.detail):
                missing[sighting.detail].pop()
        return min((index for indices in missing.values() for index in indices), default=len(pressed))

    def lost(self, name: str, focus: Focus, seen: list[Sighting]) -> NotDelivered:
        """The error of keys that did not arrive.

        Args:
            name: What was sent.
            focus: Who had the keyboard.
            seen: By the witness.
        """
        return self._lost(name, focus, [s for s in seen if s.kind == "key" and s.client not in (None, focus.client)])

    def _may_have(self, sighting: Sighting, owners: set[Focus]) -> bool:
        """Whether a client is one of those that input was meant for, or shows a menu."""
        assert sighting.client is not None
        if any(owner and (sighting.client == owner.client or sighting.window == owner.top) for owner in owners):
            return True
        return self._has_menu(sighting.client)

    def _lost(self, name: str, focus: Focus, given: list[Sighting]) -> NotDelivered:
        if not focus:
            return _nobody(name)
        if not given:
            return NotDelivered(
                f"{name} did not reach any program: the window with the keyboard takes no keys.", _FOCUS_HINT
            )
        return NotDelivered(
            f"{name} did not reach the window with the keyboard: it went to {self._name(given[0])}, which has taken "
            "the keyboard for itself.",
            "end that program, or what it waits for, first",
        )

    def _is_bound(self, sighting: Sighting) -> bool:
        """Whether a key was given to a client that has bound it: such a key works whoever has the keyboard."""
        if sighting.window != self._connection.root.id:
            return False
        if self._is_manager(sighting.client):
            return True
        failed = error.CatchError(error.BadAccess)
        with self._connection.use() as display:
            root = self._connection.root
            root.grab_key(sighting.detail, X.AnyModifier, True, X.GrabModeAsync, X.GrabModeAsync, onerror=failed)
            display.sync()
            if failed.get_error() is not None:  # another client has
                return True
            root.ungrab_key(sighting.detail, X.AnyModifier)
            display.sync()
        return False

    def _is_manager(self, client: int | None) -> bool:
        """Whether a client is the window manager, or another connection of it: mutter has two."""
        with self._connection.use():
            found = property_values(
                self._connection.root, self._connection.atom("_NET_SUPPORTING_WM_CHECK"), Xatom.WINDOW
            )
        if not found or client is None:
            return False
        manager = found[0] & self._mask
        return client == manager or self._process(client) == self._process(manager) != 0

    def _process(self, client: int) -> int:
        """The process of a client, 0 if the server does not tell."""
        with self._connection.use() as display:
            if not display.has_extension(res.extname):
                return 0
            try:
                answer = display.res_query_client_ids([{"client": client, "mask": res.LocalClientPIDMask}])
            except error.XError:
                return 0
        return int(answer.ids[0].value[0]) if answer.ids and answer.ids[0].value else 0

    def _check_grab(self) -> None:
        """Nobody was given the click: because the window takes none, or because who holds the pointer wants none?"""
        with self._connection.use() as display:
            mode = X.GrabModeAsync
            answer = self._connection.root.grab_pointer(True, 0, mode, mode, X.NONE, X.NONE, X.CurrentTime)
            if answer != X.AlreadyGrabbed:
                display.ungrab_pointer(X.CurrentTime)
                display.sync()
                return
        raise NotDelivered(
            "The click did not reach any window: a program has taken the pointer for itself.",
            "end that program, or what it waits for, first",
        )

    def _under_pointer(self) -> list[int]:
        """The windows under the pointer, from the one on the root window inwards."""
        found: list[int] = []
        with self._connection.use():
            window = self._connection.root
            with contextlib.suppress(error.XError):  # one closes meanwhile
                while (child := window.query_pointer().child) and not isinstance(child, int):
                    found.append(child.id)
                    window = child
        return found

    def _has_menu(self, client: int) -> bool:
        """Whether a client shows a window that is neither managed nor a frame of one, or has just closed one."""
        self._connection.drain()
        if client in self._closed:
            return True
        with self._connection.use() as display:
            managed = set(
                property_values(self._connection.root, self._connection.atom("_NET_CLIENT_LIST"), Xatom.WINDOW)
            )
            for window in self._connection.root.query_tree().children:
                if window.id & self._mask != client or window.id in managed:
                    continue
                with contextlib.suppress(error.XError):  # it closes meanwhile
                    if self._is_seen(window) and not self._holds(window, managed) and self._is_drawn(window):
                        return True
            display.sync()
        return False

    def _holds(self, window: Any, managed: set[int]) -> bool:
        """Whether a window is the frame of a managed one, which lies at most two deep in it."""
        children = window.query_tree().children
        return any(
            child.id in managed or any(inner.id in managed for inner in child.query_tree().children)
            for child in children
        )

    def _is_drawn(self, window: Any) -> bool:
        """Whether something of a window lies on the screen; one that is for input alone shows nothing."""
        box = window.get_geometry()
        screen = self._connection.screen
        on_screen = -box.width < box.x < screen.width_in_pixels and -box.height < box.y < screen.height_in_pixels
        return bool(on_screen and window.get_attributes().win_class == X.InputOutput)

    def _hear(self, news: rq.Event) -> None:
        if news.type == X.UnmapNotify and news.event.id == self._connection.root.id:
            self._closed.add(int(news.window.id) & self._mask)

    def _is_seen(self, window: Any) -> bool:
        """Whether a window is open and larger than the one pixel of those that nobody is to see."""
        try:
            box = window.get_geometry()
            return bool(box.width * box.height > 1 and window.get_attributes().map_state == X.IsViewable)
        except error.XError:
            return False

    def _top(self, window: Any) -> Any:
        """The window around a window that lies on the root window; None when it is just closing."""
        try:
            while (parent := window.query_tree().parent) and parent.id != self._connection.root.id:
                window = parent
        except error.XError:
            return None
        return window

    def _name(self, sighting: Sighting) -> str:
        """What a person may know a client by: the title or class of one of its windows."""
        assert sighting.client is not None
        with self._connection.use() as display:
            listed = property_values(
                self._connection.root, self._connection.atom("_NET_CLIENT_LIST"), X.AnyPropertyType
            )
            for number in (sighting.window, *(n for n in listed if n & self._mask == sighting.client)):
                window = display.create_resource_object("window", number)
                with contextlib.suppress(error.XError):
                    names = window.get_wm_class()
                    title = window.get_wm_name()
                    if names or title:
                        return repr(names[1] if names else title)
        return "a program without a name"


def _nobody(name: str) -> NotDelivered:
    return NotDelivered(f"{name} did not reach any program: no window has the keyboard.", _FOCUS_HINT)


def _given(seen: list[Sighting], detail: int, kind: str) -> list[Sighting]:
    """Where a key or a button was given to somebody."""
    return [s for s in seen if s.kind == kind and s.detail == detail and s.client is not None]
