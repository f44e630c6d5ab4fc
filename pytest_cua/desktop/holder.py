"""The process that owns a desktop: the X server and, in the isolation, everything else.

It ends when it is told to, or when its runner is gone, and takes everything with it. When it is killed itself, the
kernel ends the server and the isolation (parent-death signals), and who comes next removes the files.

With `outlive` it waits that many seconds for another runner, which comes by a socket in the desktop's directory.

    runner  ──channel──  holder  ──channel──  spawner

Messages are lines of JSON. Requests with an `op` of the holder's own (`close`, `status`) are answered here, all others
are passed on to the spawner as they are, and what it says is passed back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from select import POLLIN, poll, select
from typing import Any

from pytest_cua.desktop import display, isolation, shell, trees
from pytest_cua.desktop.channel import Channel, ChannelClosed

#: The requests of each runner are numbered from so many more, so that no answer reaches the next one.
_REQUESTS = 1_000_000_000


class StartFailed(Exception):
    """The desktop cannot start; the arguments are a kind and details for the runner."""

    def __init__(self, kind: str, **details: Any) -> None:
        super().__init__(kind)
        self.message = {"event": "failed", "kind": kind, **details}


class Holder:
    """Holds one desktop.

    Args:
        runner: The channel to the process that asked for the desktop.
        order: What it asked for.
    """

    def __init__(self, runner: Channel, order: dict[str, Any]) -> None:
        self._runner: Channel | None = runner
        self._runner_pid: int = order["runner"]
        self._runner_end = -1  # tells the end of its process
        self._runners = 1
        self._alone_until: float | None = None  # when to end if no runner has come, by the monotonic clock
        self._order = order
        self._root = Path(order["root"])
        self._spawner: Channel | None = None
        self._box: subprocess.Popen[bytes] | None = None
        self._server: display.Server | None = None
        self._shell: dict[str, shell.ShellProgram] = {}  # request id -> program
        self._waiting_for_bus: list[shell.ShellProgram] = []
        self._waiting_for_manager: list[shell.ShellProgram] = []
        self._bus_pid = 0
        self._panel_pid = 0
        self._panel_starts_left = 3
        self._ready: dict[str, Any] = {}
        self._shell_pids: dict[str, int] = {}
        self._bus_listens_now = False
        self._callers: socket.socket | None = None
        self._watched = poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._is_ending = False

    def start(self) -> None:
        """Start server, isolation and shell.

        Raises:
            StartFailed: something is missing or did not start.
        """
        if shutil.which("Xvfb") is None:
            raise StartFailed("missing", program="Xvfb")
        display.make_socket_directory()
        size = (self._order["width"], self._order["height"])
        server = display.Server(self._root, size, gl=self._order["gl"], timeout=self._order["timeout"])
        self._server = server
        try:
            server.start()
            self._start_box()  # starts while the server initialises
            server.connect()
        except display.ServerFailed as failure:
            raise StartFailed("server", detail=str(failure)) from failure
        self._start_shell()
        if self._order["outlive"]:
            self._callers = _listen(self._root / trees.SOCKET)
        self._ready = {
            "event": "ready",
            "display": server.number,
            "server_pid": server.pid,
            "home": self._home,
            "environment": self._environment,
            "box_pid": self._box.pid if self._box else 0,
        }
        assert self._runner is not None
        self._runner.send(self._ready)

    def serve(self) -> None:
        """Pass messages on until told to end, or until nobody is left to hold the desktop for."""
        assert self._server is not None and self._runner is not None
        self._watch_runner(self._runner, self._runner_pid)
        self._watch(os.pidfd_open(self._server.pid), self._server_ended)
        self._watch(self._server.client.fileno(), self._hear_server)
        if self._spawner is not None:
            self._watch(self._spawner.fileno(), self._hear_spawner)
        callers = self._callers.fileno() if self._callers else -1
        if self._callers is not None:
            self._watch(callers, self._hear_caller)
        while not self._is_ending:
            news = [descriptor for descriptor, _ in self._watched.poll(self._patience())]
            self._is_ending = self._patience() == 0
            for descriptor in sorted(news, key=lambda d: d == callers):  # a runner goes before the next one comes
                handler = self._handlers.get(descriptor)  # none when another one has taken it away
                if handler is not None:
                    handler()

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._watched.register(descriptor, POLLIN)

    def _forget(self, handler: Callable[[], None]) -> None:
        """Watch no longer what a handler was for."""
        for descriptor in [d for d, known in self._handlers.items() if known == handler]:
            del self._handlers[descriptor]
            self._watched.unregister(descriptor)

    def _watch_runner(self, runner: Channel, pid: int) -> None:
        self._runner, self._runner_pid = runner, pid
        self._watch(runner.fileno(), self._hear_runner)
        self._runner_end = _open_pidfd(pid)
        if self._runner_end >= 0:
            self._watch(self._runner_end, self._runner_ended)

    def _patience(self) -> float | None:
        """Milliseconds for which the desktop still waits for a runner; None while it has one."""
        if self._alone_until is None:
            return None
        return max(0.0, self._alone_until - time.monotonic()) * 1000

    def end(self) -> None:
        """End every program and the server, and remove the desktop's directory."""
        if self._callers is not None:
            self._callers.close()  # who comes now finds nobody
        if self._spawner is not None:
            self._spawner.close()  # its end is the end of everything inside
        if self._box is not None:
            try:
                self._box.wait(5)
            except subprocess.TimeoutExpired:
                self._box.kill()
                self._box.wait(5)
        if self._server is not None:
            self._server.stop()
        if not self._order["keep"]:
            trees.remove(self._root)

    @property
    def _is_namespace(self) -> bool:
        return bool(self._order["isolation"] != "process-group")

    @property
    def _home(self) -> str:
        return isolation.HOME_INSIDE if self._is_namespace else str(self._root / "home")

    @property
    def _config(self) -> str:
        return isolation.CONFIG_INSIDE if self._is_namespace else str(self._root / "config")

    @property
    def _runtime(self) -> str:
        return isolation.RUNTIME_INSIDE if self._is_namespace else str(self._root / "run")

    @property
    def _environment(self) -> dict[str, str]:
        assert self._server is not None
        return isolation.environment(
            home=self._home,
            config=self._config,
            runtime=self._runtime,
            display=self._server.number,
            path=self._order["path"],
            locale=self._order["locale"],
            timezone=self._order["timezone"],
        )

    def _start_box(self) -> None:
        """Start the spawner, inside bubblewrap if it can be had."""
        assert self._server is not None
        mine, theirs = socket.socketpair()
        logs = os.open(self._root / "logs", os.O_RDONLY | os.O_DIRECTORY)
        script = Path(__file__).with_name("spawner.py")
        command = [sys.executable, "-I", "-S", str(script), str(theirs.fileno()), str(logs)]
        if self._is_namespace:
            command = [
                *isolation.bubblewrap_command(
                    self._root,
                    self._server.number,
                    [Path(path) for path in self._order["expose"]],
                    no_network=self._order["isolation"] == "no-network",
                ),
                "--",
                *command,
            ]
        with (self._root / "spawner.log").open("wb") as log:
            self._box = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(), logs),
                # nothing of the runner's environment may be found in process 1 either
                env={"PATH": self._order["path"], "LANG": "C.UTF-8"},
                start_new_session=not self._is_namespace,
            )
        theirs.close()
        os.close(logs)
        self._spawner = Channel(mine)

    def _start_shell(self) -> None:
        for program in shell.programs(self._order["shell"], self._config, self._runtime):
            if program.needs_bus:
                self._waiting_for_bus.append(program)
            elif program.needs_manager:
                self._waiting_for_manager.append(program)
            else:
                self._start_shell_program(program)

    def _start_shell_program(self, program: shell.ShellProgram) -> None:
        assert self._spawner is not None
        request_id = f"shell:{program.name}"
        self._shell[request_id] = program
        request = {
            "id": request_id,
            "op": "launch",
            "argv": list(program.argv),
            "env": {**self._environment, **dict(program.env)},
            "cwd": self._home,
            "log": f"{program.name}.log",
            "mark": "shell",
        }
        with contextlib.suppress(ChannelClosed):  # seen and told by `_hear_spawner`
            self._spawner.send(request)

    def _runner_ended(self) -> None:
        """End, or wait for another runner as long as was asked for."""
        self._forget(self._hear_runner)
        self._forget(self._runner_ended)
        if self._runner is not None:
            self._runner.close()
        if self._runner_end >= 0:
            os.close(self._runner_end)
        self._runner, self._runner_end = None, -1
        assert self._server is not None
        is_whole = self._server.poll() is None and self._hear_spawner in self._handlers.values()
        if not self._order["outlive"] or not is_whole:
            self._is_ending = True
            return
        self._alone_until = time.monotonic() + self._order["outlive"]

    def _hear_caller(self) -> None:
        """Take another runner, if there is none."""
        assert self._callers is not None
        try:
            connection, _ = self._callers.accept()
        except OSError:  # it has given up
            return
        caller = Channel(connection)
        pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if self._runner_end >= 0 and select([self._runner_end], [], [], 0)[0]:
            self._runner_ended()
        with contextlib.suppress(ChannelClosed):
            if user != os.getuid() or self._runner is not None:
                caller.send({"event": "refused", "runner": self._runner_pid})
                caller.close()
                return
            caller.send(
                {
                    **self._ready,
                    "event": "attached",
                    "about": self._order["about"],
                    "programs": self._shell_pids,
                    "bus": self._bus_listens_now,
                    "first_request": self._runners * _REQUESTS + 1,
                }
            )
            self._runners += 1
            self._alone_until = None
            self._watch_runner(caller, pid)
            return
        self._runner_ended()  # it has gone again

    def _hear_runner(self) -> None:
        assert self._runner is not None
        try:
            lines = self._runner.receive_lines()
        except ChannelClosed:
            self._runner_ended()
            return
        for line in lines:
            request = json.loads(line)
            if request["op"] == "close":
                self._order["keep"] = request.get("keep", False)
                self._is_ending = True
            elif request["op"] == "status":
                assert self._server is not None
                self._tell({"id": request["id"], "server": self._server.poll()})
            elif self._spawner is not None:
                with contextlib.suppress(ChannelClosed):  # told by `_hear_spawner`
                    self._spawner.send_line(line)

    def _server_ended(self) -> None:
        assert self._server is not None
        self._forget(self._server_ended)
        self._forget(self._hear_server)
        self._tell({"event": "server-ended", "code": self._server.poll()})
        self._end_if_alone()

    def _end_if_alone(self) -> None:
        """A desktop without its server or its programs is nothing that another runner could go on with."""
        if self._runner is None:
            self._is_ending = True

    def _hear_server(self) -> None:
        """Take the events of the screen, which tell when the window manager has taken over."""
        assert self._server is not None
        if self._server.poll() is not None:
            self._server_ended()
            return
        with contextlib.suppress(Exception):  # its end is told by the process
            self._server.drain()
            if self._waiting_for_manager and self._server.is_managed():
                for program in self._waiting_for_manager:
                    self._start_shell_program(program)
                self._waiting_for_manager.clear()
                self._server.ignore_properties()

    def _hear_spawner(self) -> None:
        """Pass on what the spawner says."""
        assert self._spawner is not None
        try:
            lines = self._spawner.receive_lines()
        except ChannelClosed:
            self._forget(self._hear_spawner)
            self._tell({"event": "spawner-ended"})
            self._end_if_alone()
            return
        for line in lines:
            message = json.loads(line)
            program = self._shell.get(str(message.get("id")))
            if program is not None:
                self._shell_answered(program, message)
                continue
            if message.get("event") == "exit" and self._panel_ended(message["pid"]):
                continue
            if message.get("event") == "started" and message["pid"] == self._bus_pid:
                self._bus_listens()
                continue
            if self._runner is not None:
                with contextlib.suppress(ChannelClosed):  # seen at the next read
                    self._runner.send_line(line)

    def _panel_ended(self, pid: int) -> bool:
        """Start the panel again, a few times: it holds nothing, and nobody tests it."""
        if pid != self._panel_pid or self._panel_starts_left == 0:
            return False
        self._panel_starts_left -= 1
        panel = next(program for program in self._shell.values() if program.name == "tint2")
        self._start_shell_program(panel)
        return True

    def _shell_answered(self, program: shell.ShellProgram, message: dict[str, Any]) -> None:
        if "error" in message:
            self._tell({"event": "failed", "kind": "missing", "program": program.name})
            return
        if program.name == "tint2":
            self._panel_pid = message["pid"]
        if program.name == "dbus-daemon":
            self._bus_pid = message["pid"]
        self._shell_pids[program.name] = message["pid"]
        self._tell({"event": "shell", "program": program.name, "pid": message["pid"]})

    def _bus_listens(self) -> None:
        self._bus_listens_now = True
        self._tell({"event": "bus"})
        for program in self._waiting_for_bus:
            self._start_shell_program(program)
        self._waiting_for_bus.clear()

    def _tell(self, message: dict[str, Any]) -> None:
        if self._runner is None:
            return
        with contextlib.suppress(ChannelClosed):  # a runner that is gone is seen at the next read
            self._runner.send(message)


def main() -> None:
    """Hold the desktop that the first message on the socket orders."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the runner, which ends us by its own end
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    runner_fd, lock_fd = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (runner_fd, lock_fd):
        # the lock says "in use" for as long as this process lives; no child may keep it
        os.set_inheritable(descriptor, False)
    runner = Channel(socket.socket(fileno=runner_fd))
    try:
        lines: list[bytes] = []
        while not lines:
            lines = runner.receive_lines()
    except ChannelClosed:
        return
    holder = Holder(runner, json.loads(lines[0]))
    try:
        holder.start()
        holder.serve()
    except StartFailed as failure:
        with contextlib.suppress(ChannelClosed):
            runner.send(failure.message)
    except ChannelClosed:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        holder.end()


def _listen(path: Path) -> socket.socket:
    """A socket to which the desktop's user alone can come."""
    callers = socket.socket(socket.AF_UNIX)
    callers.setblocking(False)
    callers.bind(str(path))  # its directory is closed to others already
    path.chmod(0o600)
    callers.listen()
    return callers


def _open_pidfd(pid: int) -> int:
    """A descriptor that tells the end of `pid`, also when a forked child of it keeps our channel open."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise ChannelClosed from None
    except OSError:  # a kernel without them
        return -1


if __name__ == "__main__":
    main()
