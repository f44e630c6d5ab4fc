"""A program that was launched on the desktop, and the wait for its window."""

from __future__ import annotations

import difflib
import itertools
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_cua.desktop.isolation import merged, words
from pytest_cua.desktop.link import Link, tail
from pytest_cua.desktop.waiting import now_ms
from pytest_cua.desktop.windows import Mark, Window, WindowReader
from pytest_cua.errors import BadArgument, CuaFailure, LaunchFailed, MissingProgram

#: Milliseconds that a program which ended well may take until the one it handed over to shows a window.
_HANDED_OVER: Final = 5_000.0
#: Milliseconds after which a window that has no focus is given it.
_FOCUS_GRACE: Final = 700.0

#: Debian packages of programs whose names differ from them.
_PACKAGES: Final = {
    "firefox": "firefox-esr",
    "soffice": "libreoffice",
    "xclock": "x11-apps",
    "xeyes": "x11-apps",
    "xmessage": "x11-utils",
    "gnome-calculator": "gnome-calculator",
}
_WELL_KNOWN: Final = (
    "mousepad",
    "xterm",
    "chromium",
    "gedit",
    "libreoffice",
    "gimp",
    "inkscape",
    "pcmanfm",
    "galculator",
)


class Program:
    """A program on the desktop.

    Args:
        link: To the desktop.
        argv: Its command line.
        pid: Its process, as the desktop's programs count.
        mark: Of this launch.
        log: Where its output goes, on the host.
    """

    def __init__(self, link: Link, argv: list[str], pid: int, mark: str, log: Path) -> None:
        self._link = link
        self._mark = mark
        self.argv = argv
        self.pid = pid
        self.log = log
        self.window: Window | None = None

    def __repr__(self) -> str:
        return f"Program({' '.join(self.argv)!r}, pid={self.pid})"

    @property
    def returncode(self) -> int | None:
        """Its exit code, the negative number of the signal that ended it, or None while it runs."""
        return self._link.exit_code(self.pid)

    def running(self) -> bool:
        """Whether it runs.

        Raises:
            DesktopDied: the desktop is gone.
        """
        if self.returncode is not None:
            return False
        self._link.check_alive()
        return self.returncode is None

    def wait(self, timeout: float = 30_000) -> int:
        """Wait until it ends and return its exit code.

        Args:
            timeout: Milliseconds.

        Raises:
            CuaFailure: it still runs.
            DesktopDied: the desktop is gone.
        """
        code = self._link.wait(lambda: (self.returncode,) if self.returncode is not None else (), timeout)
        if code:
            return int(code[0] or 0)
        self._link.check_alive()
        raise CuaFailure(
            f"{self.argv[0]} still runs after {timeout:.0f} ms.", f"its output is in {self.log}", "end it with kill()"
        )

    def terminate(self) -> None:
        """Ask it, and all that it started, to end (SIGTERM). `wait()` waits for it."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all that it started (SIGKILL). `wait()` waits for it."""
        self._signal(signal.SIGKILL)

    def output(self) -> str:
        """What it has written to its standard output and error so far."""
        try:
            return self.log.read_text("utf-8", "replace")
        except OSError:
            return ""

    def owns(self, pids: list[int]) -> set[int]:
        """Which processes are this program or came of it."""
        return set(self._link.request("belongs", pid=self.pid, mark=self._mark, pids=pids)["pids"])

    def _signal(self, number: int) -> None:
        self._link.request("signal", pid=self.pid, mark=self._mark, signal=int(number))


class Launcher:
    """Launches programs on one desktop.

    Args:
        link: To the desktop.
        windows: Reads its windows.
        home: HOME on the host.
    """

    def __init__(self, link: Link, windows: WindowReader, home: Path) -> None:
        assert link.ready is not None
        self._link = link
        self._windows = windows
        self._home = home
        self._home_inside: str = link.ready["home"]
        self._environment: dict[str, str] = link.ready["environment"]
        self._numbers = itertools.count(1)

    def start(self, argv: list[object], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> Program:
        """Start a program.

        Raises:
            MissingProgram: it is not there.
            LaunchFailed: it could not be executed.
            BadArgument: something that is no argument, variable or directory.
            DesktopDied: the desktop is gone.
        """
        command = words(argv)
        if not command[0]:
            raise BadArgument("launch() needs the name of a program.")
        directory = os.path.join(self._home_inside, os.fspath(cwd or ""))  # noqa: PTH118 - of another file system
        number = next(self._numbers)
        log = f"{number:02}-{PurePosixPath(command[0]).name}.log"
        mark = str(number)
        answer = self._link.request(
            "launch", argv=command, env=merged(self._environment, env), cwd=directory, log=log, mark=mark
        )
        if "error" in answer:
            raise self._failure(command[0], directory, answer)
        return Program(self._link, command, answer["pid"], mark, self._link.root / "logs" / log)

    def window_of(self, program: Program, before: Mark, timeout: float) -> Window:
        """Wait until a program's window is there and has the keyboard.

        Args:
            program: Just started.
            before: The moment before it started.
            timeout: Milliseconds.

        Raises:
            LaunchFailed: it ended, or showed no window in time.
            DesktopDied: the desktop is gone.
        """
        search = _WindowSearch(program, self._windows, before)
        found = self._link.wait(search.look, timeout, self._windows.fileno())
        if found is not None:
            return found
        self._link.check_alive()
        raise self._no_window(program, search, timeout)

    def _no_window(self, program: Program, search: _WindowSearch, timeout: float) -> LaunchFailed:
        name = program.argv[0]
        windows = self._windows.read()
        there = ", ".join(repr(w.title) + (" (has the keyboard)" if w.focused else "") for w in windows) or "none"
        if search.candidates:
            return LaunchFailed(
                f"{name} opened a window, but it did not get the keyboard within {timeout:.0f} ms. Windows: {there}.",
                "close the window that keeps the keyboard first",
            )
        output = tail(program.log)
        return LaunchFailed(
            f"{name} runs, but opened no window within {timeout:.0f} ms. Windows: {there}."
            + (f" The end of its output:\n{output}" if output else " It wrote nothing."),
            f"launch({name!r}, ..., wait=False) if it has none, or a greater timeout=",
        )

    def _failure(self, name: str, directory: str, answer: dict[str, object]) -> Exception:
        if answer["error"] == "no-cwd":
            return BadArgument(f"cwd={directory!r} is no directory on the desktop.", "it is relative to HOME")
        if answer["error"] != "not-found":
            return LaunchFailed(f"{name} could not be started: {answer.get('detail')}.")
        if shutil.which(name, path=self._environment["PATH"]) or ("/" in name and Path(name).exists()):
            return MissingProgram(
                f"{name} is on this machine, but the desktop's programs cannot see or run it there.",
                "copy it into HOME, or show its directory with expose=",
            )
        names = answer["names"] if isinstance(answer["names"], list) else []
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.75)
        hints = [f"did you mean {' or '.join(close)}?"] if close else []
        package = _PACKAGES.get(name) or (name if name in _WELL_KNOWN else None)
        if package:
            hints.append(f"apt-get install {package}")
        return MissingProgram(f"The program {name!r} is not installed.", *hints)


class _WindowSearch:
    """Looks for the window that a program opened."""

    def __init__(self, program: Program, windows: WindowReader, before: Mark) -> None:
        self._program = program
        self._windows = windows
        self._before = before
        self._mine: dict[int, bool] = {}
        self._ended_at: float | None = None
        self._first_seen: float | None = None
        self._activated = False
        self.candidates: list[Window] = []

    def look(self) -> Window | None:
        """The window, once it is there and has the keyboard.

        Raises:
            LaunchFailed: the program ended without one.
        """
        code = self._program.returncode  # before the windows: what it opened is there then
        handed_over = code == 0
        windows = self._windows.read()
        new = [w for w in windows if self._windows.is_new(w.id, self._before)]
        self.candidates = [w for w in new if self._is_mine(w, handed_over)]
        if not self.candidates:
            self._check_ended(code)
            return None
        focused = next((w for w in self.candidates if w.focused), None)
        if focused is not None:
            return focused
        return self._give_focus()

    def _give_focus(self) -> Window | None:
        self._first_seen = self._first_seen or now_ms()
        if now_ms() - self._first_seen < _FOCUS_GRACE:
            return None
        top = self.candidates[-1]
        if not self._windows.wants_keys(top.id):
            return top
        if not self._activated:
            self._windows.activate(top.id)
            self._activated = True
        return None

    def _is_mine(self, window: Window, handed_over: bool) -> bool:
        if handed_over:
            return True
        if window.id not in self._mine:
            pid = self._windows.process(window.id)
            self._mine[window.id] = pid is None or pid in self._program.owns([pid])
        return self._mine[window.id]

    def _check_ended(self, code: int | None) -> None:
        if code is None:
            return
        self._ended_at = self._ended_at or now_ms()
        if code == 0 and now_ms() - self._ended_at < _HANDED_OVER:
            return
        output = tail(self._program.log)
        raise LaunchFailed(
            f"{self._program.argv[0]} ended with exit code {code} before it opened a window."
            + (f" The end of its output:\n{output}" if output else " It wrote nothing."),
            *(["wait=False if it is not meant to open one"] if code == 0 else []),
        )
