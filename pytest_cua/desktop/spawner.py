"""The first process inside a desktop's isolation: it starts programs, reaps them and reports their end.

It is a script of the standard library alone, run with `python -I -S`, so that it starts in a few milliseconds and
depends on nothing that the isolation may hide. It is process 1 of its PID namespace (bubblewrap) or a child subreaper
(process group): a program that detaches itself becomes its child, and its end is the end of them all.

It speaks lines of JSON on the socket whose number is the first argument; programs' output goes to files in the
directory whose descriptor is the second argument. A request `{"id": 1, "op": "launch", ...}` is answered by
`{"id": 1, ...}`; the end of a program that was launched is told by `{"event": "exit", "pid": 7, "code": 0}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: names the launch a process comes from, whatever became of its parents
MARK = "PYTEST_CUA_LAUNCH"
#: the mark of window manager, panel and bus
SHELL_MARK = "shell"
#: how often, and after how many seconds, a process that shows no arguments is read again
EXEC_READS = 40
EXEC_PAUSE = 0.0005
#: /proc/PID/stat: a thread of the kernel, which never has arguments
PF_KTHREAD = 0x00200000
#: SIGKILL is repeated for what was forked in the meantime; a program that forks on and on is stopped by its limits
KILL_ROUNDS = 50


def find_program(program: str, path: str, cwd: str) -> str | None:
    """The executable file `program` stands for, as execvpe(3) would find it, or None."""
    if "/" in program:
        places = [os.path.join(cwd, program)]  # noqa: PTH118 - pathlib would double the start time
    else:
        places = [os.path.join(directory, program) for directory in path.split(os.pathsep) if directory]  # noqa: PTH118
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):  # noqa: PTH113
            return place
    return None


def program_names(path: str) -> list[str]:
    """The names of all programs on `path`, for "did you mean"."""
    names: set[str] = set()
    for directory in path.split(os.pathsep):
        with contextlib.suppress(OSError):
            names.update(os.listdir(directory))  # noqa: PTH208
    return sorted(names)


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command: state, parent, group, session, ..."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().decode("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def _parents() -> dict[int, int]:
    """Every living process and its parent; zombies are no longer living."""
    parents = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        fields = _stat_fields(int(entry)) if entry.isdigit() else None
        if fields is not None and fields[0] not in "ZX":
            parents[int(entry)] = int(fields[1])
    return parents


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
    return seen


def _proc_file(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
        return file.read()
    return b""


def _arguments(pid: int) -> bytes:
    """The command line of a process.

    In the middle of an exec the kernel shows neither arguments nor environment for some microseconds: who read then
    took a program's child for a stranger, and did not end it. So what shows nothing is read again, for a while.
    """
    for _ in range(EXEC_READS):
        arguments = _proc_file(pid, "cmdline")
        fields = None if arguments else _stat_fields(pid)
        if fields is None or fields[0] in "ZX" or int(fields[6]) & PF_KTHREAD:
            return arguments
        time.sleep(EXEC_PAUSE)
    return b""


def _mark_of(pid: int) -> str | None:
    """The launch that a process comes from, read from its environment."""
    environment = _proc_file(pid, "environ")
    if not environment and _arguments(pid):  # it may have been in the middle of an exec
        environment = _proc_file(pid, "environ")
    for entry in environment.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name.decode("utf-8", "replace") == MARK:
            return value.decode("utf-8", "replace")
    return None


def _argv_of(pid: int) -> list[str]:
    # programs that write their own title leave a single string, padded with zeros
    return [part.decode("utf-8", "replace") for part in _arguments(pid).rstrip(b"\0").split(b"\0")]


class Spawner:
    """Serves one holder until its socket closes."""

    def __init__(self, control: socket.socket, logs: int) -> None:
        self.control = control
        self.logs = logs
        self.is_init = os.getpid() == 1
        self.launched: dict[int, str] = {}  # pid -> mark, of what was started on request
        self.starting: dict[int, int] = {}  # read end of a readiness pipe -> pid
        self.wake_read, self.wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> None:
        """Answer requests until the holder is gone, then end everything."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for pytest, not for the programs under test
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self._send({"event": "ready", "pid": os.getpid()})
        buffer = b""
        while True:
            control = self.control.fileno()
            readable, _, _ = select.select([control, self.wake_read, *self.starting], [], [])
            for pipe in [fd for fd in self.starting if fd in readable]:
                os.close(pipe)
                self._send({"event": "started", "pid": self.starting.pop(pipe)})
            if self.wake_read in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake_read, 4096)
                self._reap()
            if control not in readable:
                continue
            data = self._receive()
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._answer(json.loads(line))

    def end_all(self) -> None:
        """Kill every descendant. Process 1 need not: the kernel does it when its namespace ends."""
        if self.is_init:
            return
        me = os.getpid()
        while True:
            parents = _parents()
            mine = [pid for pid in parents if pid != me and me in _ancestors(pid, parents)]
            if not mine:
                return
            for pid in mine:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)

    def _receive(self) -> bytes:
        try:
            return self.control.recv(65536)
        except OSError:
            return b""

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a holder that is gone is seen at the next read
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> None:
        operation = {
            "launch": self._launch,
            "signal": self._signal,
            "processes": self._processes,
            "belongs": self._belongs,
        }[request["op"]]
        try:
            reply = operation(request)
        except Exception as error:  # process 1 may not die of a strange request
            reply = {"error": "failed", "detail": f"{type(error).__name__}: {error}"}
        self._send({"id": request["id"], **reply})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.launched.pop(pid, None) is not None:
                self._send({"event": "exit", "pid": pid, "code": os.waitstatus_to_exitcode(status)})

    def _launch(self, request: dict[str, Any]) -> dict[str, Any]:
        argv: list[str] = request["argv"]
        env: dict[str, str] = {**request["env"], MARK: request["mark"]}
        path = env.get("PATH", os.defpath)
        cwd: str = request["cwd"]
        if not os.path.isdir(cwd):  # noqa: PTH112
            return {"error": "no-cwd"}
        executable = find_program(argv[0], path, cwd)
        if executable is None:
            return {"error": "not-found", "names": [] if "/" in argv[0] else program_names(path)}
        ready = -1
        if any("{ready}" in argument for argument in argv):
            read, ready = os.pipe2(os.O_CLOEXEC)
            argv = [argument.replace("{ready}", str(ready)) for argument in argv]
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644, dir_fd=self.logs)
        try:
            pid, failure = self._start(executable, argv, env=env, cwd=cwd, log=log, ready=ready)
        finally:
            os.close(log)
            if ready >= 0:
                os.close(ready)
        if ready >= 0:
            self.starting[read] = pid
        if failure:
            return {"error": "failed", "detail": os.strerror(failure)}
        self.launched[pid] = request["mark"]
        return {"pid": pid}

    def _start(
        self, executable: str, argv: list[str], *, env: dict[str, str], cwd: str, log: int, ready: int
    ) -> tuple[int, int]:
        """Fork and execute; returns the process and the error number of a failed exec (0 when it worked).

        `ready` is a descriptor that the program shall inherit, or -1.
        """
        read, write = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                if ready >= 0:
                    os.set_inheritable(ready, True)
                self._become(executable, argv, env, cwd, log)
            except OSError as error:
                os.write(write, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(write)
        failure = os.read(read, 32)  # the end of the pipe means that exec worked
        os.close(read)
        return pid, int(failure or 0)

    def _become(self, executable: str, argv: list[str], env: dict[str, str], cwd: str, log: int) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if not self.is_init:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execve(executable, argv, env)

    def _signal(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a signal to a launched program and all that came of it."""
        pid, number = request["pid"], request["signal"]
        mark = request["mark"]
        signalled: set[int] = {os.getpid()}
        # a process may have forked after it was listed, before it was ended; only SIGKILL is repeated: what a program
        # starts to clean up after SIGTERM shall do so
        for _ in range(KILL_ROUNDS if number == signal.SIGKILL else 1):
            parents = _parents()
            targets = [
                p
                for p in parents
                if p not in signalled and (p == pid or pid in _ancestors(p, parents) or _mark_of(p) == mark)
            ]
            if not targets:
                break
            for target in targets:
                with contextlib.suppress(OSError):
                    os.kill(target, number)
            signalled.update(targets)
        return {"signalled": sorted(signalled - {os.getpid()})}

    def _processes(self, request: dict[str, Any]) -> dict[str, Any]:
        """What runs for the test: everything but this process and the shell of the desktop."""
        me = os.getpid()
        parents = _parents()
        mine = sorted(pid for pid in parents if pid != me and (self.is_init or me in _ancestors(pid, parents)))
        shell = {pid for pid, mark in self.launched.items() if mark == SHELL_MARK}
        found = []
        for pid in mine:
            argv = _argv_of(pid)
            if argv and not (_ancestors(pid, parents) & shell) and _mark_of(pid) != SHELL_MARK:
                found.append([pid, argv])
        return {"processes": found}

    def _belongs(self, request: dict[str, Any]) -> dict[str, Any]:
        """Which of `pids` are the launched program `pid` or came of it."""
        parents = _parents()
        mine = [
            p for p in request["pids"] if request["pid"] in _ancestors(p, parents) or _mark_of(p) == request["mark"]
        ]
        return {"pids": mine}


def main() -> None:
    """Serve the socket named on the command line."""
    control_fd, logs = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (control_fd, logs):
        os.set_inheritable(descriptor, False)
    if os.getpid() != 1 and ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(errno.EPERM, "prctl(PR_SET_CHILD_SUBREAPER)")
    spawner = Spawner(socket.socket(fileno=control_fd), logs)
    try:
        spawner.run()
    finally:
        spawner.end_all()


if __name__ == "__main__":
    main()
