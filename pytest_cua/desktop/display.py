"""The X server: Xvfb, started through xvfbwrapper in the one configuration that was found safe.

xvfbwrapper takes an existing socket for a running server, changes the environment it is given, and leaves the server
running when its parent is killed. So it gets an environment of its own, no display number, a command in front of
Xvfb that ties it to this process, and the server counts as ready only when a client is connected to it.

This module runs in the holder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import socket
import struct
from pathlib import Path
from typing import Any, Final

from Xlib import X, Xatom, error
from Xlib.display import Display
from Xlib.protocol import rq
from xvfbwrapper import Xvfb  # type: ignore[import-untyped]

from pytest_cua.desktop.waiting import wait_for

BACKGROUND: Final = 0x4A6785
_FAMILY_LOCAL: Final = 256  # of an Xauthority file
_FAMILY_SERVER_INTERPRETED: Final = 5  # of the ChangeHosts request
_SOCKETS: Final = Path("/tmp/.X11-unix")  # noqa: S108 - where X servers listen


class ServerFailed(Exception):
    """Xvfb did not start."""


class Server:
    """A running Xvfb with one client, which stays connected for as long as the server lives.

    Args:
        root: The desktop's own directory: its `Xvfb.log` and `display` are for who looks after the desktop.
        size: Width and height in pixels.
        gl: Whether programs may use GLX; it doubles the time to start.
        timeout: Milliseconds for the server to be ready.
    """

    def __init__(self, root: Path, size: tuple[int, int], *, gl: bool, timeout: float) -> None:
        self._root = root
        self._size = size
        self._timeout = timeout
        cookie = secrets.token_bytes(16)
        _write_cookie(root / "server.auth", 0, cookie)
        self._xvfb = Xvfb(
            width=size[0],
            height=size[1],
            colordepth=24,
            # not /tmp: its lock file would be the very one that Xvfb writes, and would be deleted by either
            tempdir=root,
            environ={"PATH": f"{_shim(root)}:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            extra_args=_arguments(root, gl=gl),
            timeout=timeout / 1000.0,
        )
        self._cookie = cookie
        self.client: Any = None

    @property
    def number(self) -> int:
        """The display's number."""
        number = self._xvfb.new_display
        assert number is not None
        return int(number)

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._xvfb.proc is not None
        return int(self._xvfb.proc.pid)

    def poll(self) -> int | None:
        """The server's exit code, or None while it runs."""
        return self._xvfb.proc.poll() if self._xvfb.proc is not None else None

    def start(self) -> None:
        """Start the server. Its socket is there afterwards; `connect` waits until it answers.

        Raises:
            ServerFailed: it ended, or its socket did not appear in time.
        """
        try:
            self._xvfb.start()
        except (RuntimeError, OSError) as failure:
            raise ServerFailed(str(failure)) from failure
        (self._root / "display").write_text(str(self.number))

    def connect(self) -> None:
        """Connect the first client and make the screen as every test finds it.

        Raises:
            ServerFailed: the server ended or did not answer in time.
        """
        _write_cookie(self._root / "client.auth", self.number, self._cookie)
        os.environ["XAUTHORITY"] = str(self._root / "client.auth")  # the holder's own environment
        self.client = wait_for(self._try_to_connect, self._timeout)
        # a foreign server with our number would have refused the cookie, and ours would have ended
        if self.client is None or self.poll() is not None:
            raise ServerFailed(f"Xvfb :{self.number} did not accept a connection (exit code {self.poll()})")
        _admit_user(self.client)
        self._prepare()

    def drain(self) -> None:
        """Read the client's events, of which it wants none."""
        while self.client.pending_events():
            self.client.next_event()

    def is_managed(self) -> bool:
        """Whether a window manager has taken over and told so everything that a panel looks for."""
        root = self.client.screen().root
        names = ("_NET_SUPPORTING_WM_CHECK", "_NET_NUMBER_OF_DESKTOPS", "_NET_CURRENT_DESKTOP", "_NET_CLIENT_LIST")
        return all(root.get_full_property(self.client.get_atom(name), X.AnyPropertyType) for name in names)

    def ignore_properties(self) -> None:
        """Hear no more of the root window's properties, which the window manager changes all the time."""
        self.client.screen().root.change_attributes(event_mask=X.NoEventMask)
        self.client.sync()

    def stop(self) -> None:
        """End the server and remove what it left in /tmp."""
        if self._xvfb.proc is None:
            return
        number = self.number
        with contextlib.suppress(Exception):
            self._xvfb.stop()
        remove_leftovers(number)

    def _try_to_connect(self) -> Any:
        if self.poll() is not None:
            raise ServerFailed(f"Xvfb :{self.number} ended with exit code {self.poll()}")
        try:
            # the name with "unix" keeps python-xlib from trying a TCP port of that number
            return Display(f"unix:{self.number}")
        except (error.DisplayConnectionError, error.ConnectionClosedError, OSError):
            return None

    def _prepare(self) -> None:
        display = self.client
        root = display.screen().root
        root.change_attributes(background_pixel=BACKGROUND, event_mask=X.PropertyChangeMask)
        root.clear_area()
        resources = (self._root / "config" / "Xresources").read_bytes()
        root.change_property(Xatom.RESOURCE_MANAGER, Xatom.STRING, 8, resources)
        display.set_screen_saver(0, 0, X.DontPreferBlanking, X.DontAllowExposures)
        # a held key would otherwise repeat as often as the machine has time for
        display.change_keyboard_control(auto_repeat_mode=X.AutoRepeatModeOff)
        # the corner of the panel, where nothing reacts to a pointer
        root.warp_pointer(self._size[0] - 1, self._size[1] - 1)
        display.sync()


def remove_leftovers(number: int) -> None:
    """Remove the socket and the lock of a server that is gone."""
    with contextlib.suppress(OSError):
        (_SOCKETS / f"X{number}").unlink()
    with contextlib.suppress(OSError):
        Path(f"/tmp/.X{number}-lock").unlink()  # noqa: S108


def make_socket_directory() -> None:
    """Make the directory of X sockets, which Xvfb itself does for root alone."""
    with contextlib.suppress(OSError):
        _SOCKETS.mkdir(mode=0o1777)
        _SOCKETS.chmod(0o1777)


def _arguments(root: Path, *, gl: bool) -> list[str]:
    arguments = ["-noreset", "-nolisten", "tcp", "-nolisten", "local", "-dpi", "96", "-auth", str(root / "server.auth")]
    return [*arguments, "+extension" if gl else "-extension", "GLX"]


def _shim(root: Path) -> Path:
    """A directory with an `Xvfb` that starts the real one so that it dies with the process that started it."""
    real = shutil.which("Xvfb")
    assert real is not None
    setpriv = shutil.which("setpriv")
    bond = f"{shlex.quote(setpriv)} --pdeathsig KILL -- " if setpriv else ""
    directory = root / "bin"
    directory.mkdir()
    shim = directory / "Xvfb"
    log = shlex.quote(str(root / "Xvfb.log"))
    shim.write_text(f'#!/bin/sh\nexec {bond}{shlex.quote(real)} "$@" 2>{log}\n')
    shim.chmod(0o755)
    return directory


def _write_cookie(path: Path, number: int, cookie: bytes) -> None:
    """Write an Xauthority file (format: Xau(3)) with one MIT-MAGIC-COOKIE-1."""
    fields = (socket.gethostname().encode(), str(number).encode(), b"MIT-MAGIC-COOKIE-1", cookie)
    entry = struct.pack(">H", _FAMILY_LOCAL) + b"".join(struct.pack(">H", len(f)) + f for f in fields)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(entry)


class _ChangeHosts(rq.Request):  # type: ignore[misc]
    """The ChangeHosts request; python-xlib's own cannot carry a server-interpreted address."""

    _request = rq.Struct(
        rq.Opcode(109),
        rq.Card8("mode"),
        rq.RequestLength(),
        rq.Card8("family"),
        rq.Pad(1),
        rq.LengthOf("address", 2),
        rq.String8("address"),
    )


def _admit_user(display: Any) -> None:
    """Let our own user connect without the cookie, as in-process clients would have to find it by the environment."""
    address = b"localuser\0#%d" % os.getuid()
    _ChangeHosts(display=display.display, mode=X.HostInsert, family=_FAMILY_SERVER_INTERPRETED, address=address)
    display.sync()
