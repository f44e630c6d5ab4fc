"""The runner's end of a desktop: starting its holder, asking it, and noticing its end."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar

from pytest_cua.desktop import shell, trees
from pytest_cua.desktop.channel import Channel, ChannelClosed
from pytest_cua.desktop.trees import SOCKET
from pytest_cua.desktop.waiting import wait_for, wait_readable
from pytest_cua.errors import DesktopDied, MissingProgram, SetupError, pytest_command

T = TypeVar("T")

_START: Final = (
    "import json, sys; sys.path[:0] = json.loads(sys.argv.pop(1)); from pytest_cua.desktop.holder import main; main()"
)
_ANSWER_TIMEOUT: Final = 10_000.0
_END_TIMEOUT: Final = 15.0
#: Holders that were left alone: a child that has ended wants to be waited for, and subprocess sees to that.
_left: Final[list[object]] = []
#: Milliseconds for the holder to tell why something ended.
_LAST_WORDS: Final = 1_000.0


class HolderProcess(Protocol):
    """The process of a holder: our child, or one that we came to later."""

    pid: int

    def poll(self) -> int | None:
        """None while it runs."""
        ...

    def wait(self, timeout: float) -> object:
        """Wait for its end; raises TimeoutExpired after so many seconds."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


class Link:
    """Talks to the holder of one desktop. Safe for threads.

    Args:
        root: The desktop's directory.
        channel: To the holder.
        holder: Its process.
        lock: The descriptor of the directory's lock, which the link closes; None when only the holder has it.
        first_request: The number of the first request.
    """

    def __init__(
        self, root: Path, channel: Channel, holder: HolderProcess, *, lock: int | None, first_request: int = 1
    ) -> None:
        self.root = root
        self._channel = channel
        self._holder = holder
        self._lock_fd = lock
        self._owner = os.getpid()
        self._mutex = threading.RLock()
        self._ids = itertools.count(first_request)
        self._answers: dict[int, dict[str, Any]] = {}
        self._exits: dict[int, int] = {}
        self._commands: dict[tuple[int, int], dict[str, Any]] = {}  # shell and number of a command -> how it came out
        self._shell: dict[str, int] = {}
        self._death = ""
        self._failure: dict[str, Any] | None = None
        self.ready: dict[str, Any] | None = None
        self.bus_listens = False
        self.is_closed = False

    @classmethod
    def start(cls, root: Path, lock: int, order: dict[str, Any]) -> Link:
        """Start a holder.

        Args:
            root: The desktop's directory.
            lock: The descriptor of its lock; the link closes it.
            order: What the holder is to start.
        """
        mine, theirs = socket.socketpair()
        paths = [str(Path(__file__).resolve().parent.parent.parent), *filter(None, sys.path)]
        with (root / "holder.log").open("wb") as log:
            holder = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, json.dumps(paths), str(theirs.fileno()), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(), lock),
                cwd="/",
                start_new_session=True,  # Ctrl+C goes to pytest alone
            )
        theirs.close()
        link = cls(root, Channel(mine), holder, lock=lock)
        with contextlib.suppress(ChannelClosed):  # told by `wait_until_ready`
            link._channel.send({**order, "root": str(root), "runner": os.getpid(), "keep": False})
        return link

    @classmethod
    def attach(cls, root: Path) -> tuple[Link, dict[str, Any]]:
        """Come to a desktop whose runner has ended, and return what its holder says about it, too.

        Args:
            root: The desktop's directory.

        Raises:
            SetupError: it is gone, was not to outlive its runner, or has a runner.
        """
        sock = socket.socket(socket.AF_UNIX)
        channel = Channel(sock)
        try:
            sock.settimeout(_ANSWER_TIMEOUT / 1000)
            sock.connect(str(root / SOCKET))
            pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            holder = _ForeignProcess(pid)
            lines: list[bytes] = []
            while not lines:
                lines = channel.receive_lines()
            sock.settimeout(None)
        except (OSError, ChannelClosed):
            channel.close()
            raise _nobody(root) from None
        told = json.loads(lines[0])
        if told["event"] == "refused":
            channel.close()
            raise SetupError(
                f"The desktop {str(root)!r} is in use: process {told['runner']} is its runner.",
                "wait until that has ended, or end it",
            )
        link = cls(root, channel, holder, lock=None, first_request=told["first_request"])
        link.ready, link._shell, link.bus_listens = told, dict(told["programs"]), told["bus"]
        for line in lines[1:]:
            link._take(json.loads(line))
        return link, told["about"]

    def fileno(self) -> int:
        """A descriptor with news when the holder says something."""
        return self._channel.fileno()

    @property
    def holder_pid(self) -> int:
        """The holder's process."""
        return self._holder.pid

    @property
    def log(self) -> str:
        """The last lines of the X server's log."""
        return tail(self.root / "Xvfb.log")

    def wait_until_ready(self, timeout: float) -> dict[str, Any]:
        """Wait until the server can be used and return what the holder says about it.

        Raises:
            MissingProgram: a program of the desktop is not installed.
            SetupError: it did not start in `timeout` milliseconds.
        """
        self.wait(lambda: self.ready or self._failure or self._death, timeout)
        self.raise_failure()
        if self.ready is None:
            raise SetupError(
                f"The desktop did not start within {timeout:.0f} ms. {self._why_not()}".rstrip(),
                "see whether the machine is overloaded, or give it more time with start_timeout",
            )
        return self.ready

    def raise_failure(self) -> None:
        """Raise what went wrong while starting, if something did.

        Raises:
            MissingProgram: a program of the desktop is not installed.
            SetupError: the server or a program of the shell did not start.
        """
        failure = self._failure
        if failure is None:
            if self._death:
                raise SetupError(f"The desktop did not start: {self._death}. {self._why_not()}".rstrip())
            return
        if failure["kind"] == "missing":
            raise _missing(failure["program"])
        raise SetupError(f"The desktop did not start: {failure['detail']}. {self._why_not()}".rstrip())

    def wait(self, condition: Callable[[], T], timeout: float, *others: int) -> T:
        """Wait for a condition that messages of the holder change; see `wait_for`."""

        def look() -> T:
            self.pump()
            return condition()

        descriptors = [] if self.is_gone else [self.fileno()]
        return wait_for(look, timeout, [*descriptors, *others])

    def pump(self) -> None:
        """Take in what the holder has said."""
        with self._mutex:
            while not self.is_gone and wait_readable([self.fileno()], 0):
                try:
                    lines = self._channel.receive_lines()
                except ChannelClosed:
                    self._death = self._death or "the process that holds it ended"
                    return
                for line in lines:
                    self._take(json.loads(line))

    @property
    def is_gone(self) -> bool:
        """Whether the holder will say nothing more."""
        return self.is_closed or self._death.startswith("the process")

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask the holder or the spawner and return the answer.

        Raises:
            DesktopDied: there is nobody left to answer.
        """
        self.check_open()
        number = next(self._ids)
        with self._mutex:
            try:
                self._channel.send({"id": number, "op": op, **fields})
            except ChannelClosed:
                self.pump()
                self.die()
        answer = self.wait(lambda: self._answers.pop(number, None) or self._death, _ANSWER_TIMEOUT)
        if not isinstance(answer, dict):
            self.die(f"it did not answer ({op})")
        return answer

    def exit_code(self, pid: int) -> int | None:
        """How a launched program ended, or None while it runs."""
        self.pump()
        return self._exits.get(pid)

    def command_result(self, pid: int, number: int) -> dict[str, Any] | None:
        """How a command of a shell came out, None while it runs. It is given once.

        Raises:
            DesktopDied: nobody is left to tell.
        """
        self.check_open()
        self.pump()
        found = self._commands.pop((pid, number), None)
        if found is None and self._death:
            self.die()
        return found

    def restart_panel(self) -> None:
        """End the panel; the holder starts it again."""
        pid = self._shell.get("tint2")
        if pid is not None:
            self.request("signal", pid=pid, mark="none", signal=int(signal.SIGKILL))

    def ended_shell(self) -> str | None:
        """The name of a program of the shell that has ended, if one has."""
        self.pump()
        return next((name for name, pid in self._shell.items() if pid in self._exits), None)

    def check_alive(self) -> None:
        """Raise DesktopDied when holder or server is gone."""
        self.check_open()
        self.pump()
        if not self._death and self._holder.poll() is None:
            status = self.request("status")
            if status["server"] is None:
                return
            self._death = self._death or f"its X server ended with exit code {status['server']}"
        self.die()

    def check_open(self) -> None:
        """Raise DesktopDied when the desktop was closed by ourselves."""
        if self.is_closed:
            raise DesktopDied("The desktop is closed.", "use it before its fixture or `with` block ends")

    def die(self, reason: str = "") -> NoReturn:
        """Raise DesktopDied with what is known about it."""
        self.check_open()
        # a server closes its connections a moment before its end can be seen
        self.wait(lambda: self._death, _LAST_WORDS)
        what = self._death or reason or "its X server closed the connection"
        raise DesktopDied(
            f"The desktop ended while the test still needed it: {what}. {self._why_not()}".rstrip(),
            "run the test again; if it happens again, look for the kernel's out-of-memory killer (dmesg | tail)",
        )

    def close(self) -> None:
        """End the desktop and remove what it left. Calling it again does nothing."""
        # a forked child of the runner inherits this object, but not the desktop
        if self.is_closed or os.getpid() != self._owner:
            return
        with self._mutex:
            self.is_closed = True
            with contextlib.suppress(ChannelClosed):
                self._channel.send({"id": 0, "op": "close"})
            try:
                self._holder.wait(_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._holder.kill()
                self._holder.wait(_END_TIMEOUT)
            self._channel.close()
            # the holder has done this already, unless it was killed
            discard(self.root)
            self._unlock()

    def let_go(self) -> None:
        """Leave the desktop to its holder, which ends it when no other runner comes. The link is closed then."""
        if self.is_closed or os.getpid() != self._owner:
            return
        with self._mutex:
            self.is_closed = True
            self._channel.close()
            self._unlock()
            _left.append(self._holder)

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
        self._lock_fd = None

    def _take(self, message: dict[str, Any]) -> None:
        event = message.get("event")
        if event is None:
            self._answers[message["id"]] = message
        elif event == "exit":
            self._exits[message["pid"]] = message["code"]
        elif event == "command":
            self._commands[message["pid"], message["number"]] = message
        elif event == "ready":
            if self.ready is None and "display" in message:
                self.ready = message
        elif event == "shell":
            self._shell[message["program"]] = message["pid"]
        elif event == "bus":
            self.bus_listens = True
        elif event == "failed":
            self._failure = self._failure or message
        elif event == "server-ended":
            self._death = self._death or f"its X server ended with exit code {message['code']}"
        elif event == "spawner-ended":
            self._death = self._death or "its isolation ended, and every program with it"

    def _why_not(self) -> str:
        parts = []
        for title, name in (("Xvfb", "Xvfb.log"), ("the holder", "holder.log"), ("the isolation", "spawner.log")):
            text = tail(self.root / name)
            if text:
                parts.append(f"The end of the log of {title}:\n{text}")
        return "\n".join(parts)


class _ForeignProcess:
    """A process that is no child of ours."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._descriptor)

    def poll(self) -> int | None:
        """None while it runs; how it ended is told to its parent alone."""
        return 0 if wait_readable([self._descriptor], 0) else None

    def wait(self, timeout: float) -> object:
        """Wait for its end; raises TimeoutExpired after so many seconds."""
        if not wait_readable([self._descriptor], timeout * 1000):
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return None

    def kill(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


def _nobody(root: Path) -> SetupError:
    if not root.is_dir():
        return SetupError(
            f"There is no desktop {str(root)!r} any more: it has ended.", "start a new one: Desktop.start()"
        )
    if not (root / SOCKET).exists():
        return SetupError(
            f"The desktop {str(root)!r} cannot be attached to: it ends with its runner.",
            "start it with DesktopConfig(outlive=SECONDS)",
        )
    return SetupError(f"The desktop {str(root)!r} is ending.", "start a new one: Desktop.start()")


def discard(root: Path) -> None:
    """Remove a desktop's directory and its server's files in /tmp, if they are still there."""
    number = trees.display_of(root)
    if number is not None:
        for leftover in (Path(f"/tmp/.X11-unix/X{number}"), Path(f"/tmp/.X{number}-lock")):  # noqa: S108
            with contextlib.suppress(OSError):
                leftover.unlink()
    if root.exists():
        trees.remove(root)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a text file, or "" when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _missing(program: str) -> MissingProgram:
    if program == "Xvfb":
        return MissingProgram(
            "Xvfb, the X server that a desktop runs on, is not installed.",
            "apt-get install xvfb",
            f"or replay without a desktop: {pytest_command('--cua-mode=offline')}",
        )
    package = shell.PACKAGES.get(program, program)
    return MissingProgram(f"{program}, a part of the desktop, is not installed.", f"apt-get install {package}")
