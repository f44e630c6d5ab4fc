"""The runner's end of a desktop: starting its holder, asking it, and noticing its end."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from pytest_cua.desktop import shell, trees
from pytest_cua.desktop.channel import Channel, ChannelClosed
from pytest_cua.desktop.waiting import wait_for, wait_readable
from pytest_cua.errors import DesktopDied, MissingProgram, SetupError, pytest_command

T = TypeVar("T")

_START: Final = (
    "import json, sys; sys.path[:0] = json.loads(sys.argv.pop(1)); from pytest_cua.desktop.holder import main; main()"
)
_ANSWER_TIMEOUT: Final = 10_000.0
_END_TIMEOUT: Final = 15.0
#: Milliseconds for the holder to tell why something ended.
_LAST_WORDS: Final = 1_000.0


class Link:
    """Talks to the holder of one desktop. Safe for threads.

    Args:
        root: The desktop's directory.
        lock: The descriptor of its lock; the link closes it.
        order: What the holder is to start.
    """

    def __init__(self, root: Path, lock: int, order: dict[str, Any]) -> None:
        self.root = root
        self._lock_fd = lock
        self._owner = os.getpid()
        self._mutex = threading.RLock()
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._exits: dict[int, int] = {}
        self._shell: dict[str, int] = {}
        self._death = ""
        self._failure: dict[str, Any] | None = None
        self.ready: dict[str, Any] | None = None
        self.bus_listens = False
        self.is_closed = False
        mine, theirs = socket.socketpair()
        paths = [str(Path(__file__).resolve().parent.parent.parent), *filter(None, sys.path)]
        with (root / "holder.log").open("wb") as log:
            self._holder = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, json.dumps(paths), str(theirs.fileno()), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(), lock),
                cwd="/",
                start_new_session=True,  # Ctrl+C goes to pytest alone
            )
        theirs.close()
        self._channel = Channel(mine)
        with contextlib.suppress(ChannelClosed):  # told by `wait_until_ready`
            self._channel.send({**order, "root": str(root), "runner": os.getpid(), "keep": False})

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
            os.close(self._lock_fd)

    def _take(self, message: dict[str, Any]) -> None:
        event = message.get("event")
        if event is None:
            self._answers[message["id"]] = message
        elif event == "exit":
            self._exits[message["pid"]] = message["code"]
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
