"""The first process inside a desktop's isolation: it starts programs, reaps them and reports their end.

It is a script of the standard library alone, run with `python -I -S`, so that it starts in a few milliseconds and
depends on nothing that the isolation may hide. It is process 1 of its PID namespace (bubblewrap) or a child subreaper
(process group): a program that detaches itself becomes its child, and its end is the end of them all.

It speaks lines of JSON on the socket whose number is the first argument; programs' output goes to files in the
directory whose descriptor is the second argument. A request `{"id": 1, "op": "launch", ...}` is answered by
`{"id": 1, ...}`; the end of a program that was launched is told by `{"event": "exit", "pid": 7, "code": 0}`.

It also serves shells that are given one command after another (`CommandShell`); the end of a command is told by
`{"event": "command", "pid": 7, "number": 3, "code": 0, ...}`.
"""

from __future__ import annotations

import binascii
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
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
#: how often, with the same pause, it is looked whether what was killed has ended; it takes one or two milliseconds
END_READS = 200
#: /proc/PID/stat: a thread of the kernel, which never has arguments
PF_KTHREAD = 0x00200000
#: the request of ioctl(2) for how much a pipe holds
FIONREAD = 0x541B
#: bytes that the pipe of a command's output may hold; more than the usual 64 KiB saves turns where much is written
PIPE_SIZE = 1 << 18
#: SIGKILL is repeated for what was forked in the meantime; a program that forks on and on is stopped by its limits
KILL_ROUNDS = 50


#: What a shell for commands runs: it reads each command from a file, which it executes itself, and holds no descriptor
#: of ours meanwhile, so that nothing a command opens, closes or leaves running in the background can be in the way.
#: All is done by builtins, without a fork. The signal makes it drop the command it is at, functions and loops included.
COMMAND_LOOP = """\
BASH_ARGV0=bash
shopt -s expand_aliases
builtin trap '__cua_stop=1; builtin trap "builtin return 137 2>/dev/null" DEBUG; builtin return 137' RTMAX
while [[ -p DIR/status ]] && IFS= builtin read -r _ <DIR/request; do
    . DIR/command </dev/null >|DIR/output 2>&1
    __cua=$?
    if [[ ${__cua_stop-} ]]; then builtin trap - DEBUG; __cua_stop=; fi
    [[ -p DIR/status ]] || builtin exit "$__cua"
    builtin printf '%d\\n' "$__cua" >|DIR/status || builtin exit "$__cua"
done
"""


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


def _start_of(pid: int) -> int:
    """When a process began, in ticks of the kernel's clock since the machine did; 0 when it is gone."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else 0


def _moment() -> tuple[int, int]:
    """Now, and the process that was the last to begin, for telling which processes began later.

    A tick takes ten milliseconds, in which many may begin; they are told apart by their numbers, which go up.
    """
    ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
        return ticks, int(file.read().split()[-1])


def _held(descriptor: int) -> int:
    """How many bytes a pipe holds."""
    count = bytearray(4)
    fcntl.ioctl(descriptor, FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def _read(descriptor: int, most: int) -> bytes | None:
    """What a pipe gives at once; None when that is nothing, although it is open."""
    try:
        return os.read(descriptor, most)
    except BlockingIOError:
        return None


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


class Output:
    """The beginning and the end of what a command writes; what is between them is counted only.

    Args:
        keep: How many bytes of it shall be kept.
    """

    def __init__(self, keep: int) -> None:
        self.head_size, self.tail_size = keep - keep // 2, keep // 2
        self.head = self.tail = b""
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take what was written next."""
        self.total += len(data)
        room = self.head_size - len(self.head)
        if room:
            self.head += data[:room]
            data = data[room:]
        if data:
            tail = data if len(data) >= self.tail_size else self.tail + data
            self.tail = tail[max(0, len(tail) - self.tail_size) :]


class CommandShell:
    """A bash that executes one command after another, and what the last one has come to.

    Its directory holds the file `command`, and the pipes `request` (a line: do it), `output` (new for each command) and
    `status` (a line: the exit status).

    Args:
        directory: Where to make them.
        mark: Of all that it starts.
    """

    def __init__(self, directory: str, mark: str) -> None:
        self.directory = directory
        self.mark = mark
        self.pid = 0
        self.started = 0
        self.number = 0
        self.began = (0, 0)
        self.runs = False
        self.output = Output(0)
        self.result: dict[str, Any] | None = None
        self.pipe = -1  # of the output of the command that runs, while somebody can write to it
        os.makedirs(directory, 0o700)  # noqa: PTH103
        for name in ("request", "status"):
            os.mkfifo(self.path(name), 0o600)
        # opened for both directions: neither side waits for the other to open it
        self.request = os.open(self.path("request"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.status = os.open(self.path("status"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._write("loop", COMMAND_LOOP.replace("DIR", _quoted(directory)).encode())

    def path(self, name: str) -> str:
        """A file of its directory."""
        return f"{self.directory}/{name}"

    def begin(self, command: bytes, keep: int) -> int:
        """Give it a command, and return the pipe of the earlier one if somebody still writes to that.

        Raises:
            OSError: its directory is gone.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("output"))  # noqa: PTH108
        os.mkfifo(self.path("output"), 0o600)
        self._write("command", command)
        pipe = os.open(self.path("output"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user may have too many pipes for large ones
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        earlier, self.pipe = self.pipe, pipe
        self.number += 1
        self.output, self.result, self.runs = Output(keep), None, True
        self.began = _moment()
        os.write(self.request, b"\n")
        return earlier

    def began_later(self, pid: int) -> bool:
        """Whether a process began after the command that runs."""
        ticks, last = self.began
        start = _start_of(pid)
        return start > ticks or (start == ticks and pid > last)

    def take_output(self) -> None:
        """Read once what the command has written, or what its background programs still write."""
        data = _read(self.pipe, PIPE_SIZE)
        if data == b"":  # nobody is left to write
            os.close(self.pipe)
            self.pipe = -1
        elif data and self.runs:
            self.output.add(data)

    def take_status(self) -> int | None:
        """The exit status, once it has told it."""
        data = _read(self.status, 4096)
        digits = data.split()[-1:] if data else []
        return int(digits[0]) if digits and digits[0].isdigit() else None

    def finish(self, code: int | None, *, ended: bool) -> dict[str, Any]:
        """Note how the command came out: what was written before now belongs to it, what comes later does not."""
        left = _held(self.pipe) if self.pipe >= 0 else 0
        while left > 0:
            data = _read(self.pipe, left)
            if not data:
                break
            self.output.add(data)
            left -= len(data)
        self.runs = False
        output = self.output
        self.result = {
            "number": self.number,
            "code": code,
            "ended": ended,
            "head": binascii.b2a_base64(output.head).decode(),
            "tail": binascii.b2a_base64(output.tail).decode(),
            "total": output.total,
        }
        return self.result

    def close(self) -> int:
        """Remove its directory, and return the pipe that programs in the background may still write to, or -1."""
        os.close(self.request)
        os.close(self.status)
        for name in ("loop", "command", "request", "status", "output"):
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))  # noqa: PTH108
        with contextlib.suppress(OSError):
            os.rmdir(self.directory)  # noqa: PTH106
        return self.pipe

    def _write(self, name: str, data: bytes) -> None:
        descriptor = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(data)


class Spawner:
    """Serves one holder until its socket closes."""

    def __init__(self, control: socket.socket, logs: int) -> None:
        self.control = control
        self.logs = logs
        self.is_init = os.getpid() == 1
        self.launched: dict[int, str] = {}  # pid -> mark, of what was started on request
        self.starting: dict[int, int] = {}  # read end of a readiness pipe -> pid
        self.shells: dict[int, CommandShell] = {}  # pid -> a shell for commands
        self.shell_count = 0
        #: pipes of commands that have ended, to which programs in the background still write: that is thrown away, as
        #: a pipe that nobody reads would stop them, and a closed one would end them
        self.unheard: set[int] = set()
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
            readable = self._wait()
            for pipe in [fd for fd in self.starting if fd in readable]:
                os.close(pipe)
                self._send({"event": "started", "pid": self.starting.pop(pipe)})
            self._hear_shells(readable)
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

    def _wait(self) -> set[int]:
        """Wait for news, and return the descriptors that have some."""
        poller = select.poll()
        for descriptor in (self.control.fileno(), self.wake_read, *self.starting, *self.unheard):
            poller.register(descriptor, select.POLLIN)
        for shell in self.shells.values():
            poller.register(shell.status, select.POLLIN)
            if shell.pipe >= 0:
                poller.register(shell.pipe, select.POLLIN)
        return {descriptor for descriptor, _ in poller.poll()}

    def _hear_shells(self, readable: set[int]) -> None:
        for pipe in self.unheard & readable:
            if _read(pipe, PIPE_SIZE) == b"":
                os.close(pipe)
                self.unheard.discard(pipe)
        for shell in self.shells.values():
            if shell.pipe in readable:
                shell.take_output()
            if shell.status in readable:
                code = shell.take_status()
                if code is not None:
                    self._command_ended(shell, code, ended=False)

    def _command_ended(self, shell: CommandShell, code: int | None, *, ended: bool) -> None:
        if shell.runs:
            self._send({"event": "command", "pid": shell.pid, **shell.finish(code, ended=ended)})

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
            "shell-start": self._shell_start,
            "shell-find": self._shell_find,
            "shell-run": self._shell_run,
            "shell-stop": self._shell_stop,
            "shell-result": self._shell_result,
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
            if pid in self.shells:
                self._shell_ended(self.shells.pop(pid), os.waitstatus_to_exitcode(status))
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
        pid, mark = request["pid"], request["mark"]
        signalled = self._send_signal(
            request["signal"],
            lambda parents: [p for p in parents if p == pid or pid in _ancestors(p, parents) or _mark_of(p) == mark],
        )
        return {"signalled": signalled}

    def _send_signal(self, number: int, choose: Callable[[dict[int, int]], list[int]]) -> list[int]:
        """Send a signal to the processes that `choose` gives, from all processes and their parents."""
        signalled: set[int] = {os.getpid()}
        # a process may have forked after it was listed, before it was ended; only SIGKILL is repeated: what a program
        # starts to clean up after SIGTERM shall do so
        for _ in range(KILL_ROUNDS if number == signal.SIGKILL else 1):
            parents = _parents()
            targets = [p for p in choose(parents) if p not in signalled]
            if not targets:
                break
            for target in targets:
                with contextlib.suppress(OSError):
                    os.kill(target, number)
            signalled.update(targets)
        found = sorted(signalled - {os.getpid()})
        if number == signal.SIGKILL:
            self._wait_for_end(found)
        return found

    def _wait_for_end(self, pids: list[int]) -> None:
        """Wait, for a short while, until the kernel has ended what was killed."""
        for _ in range(END_READS):
            statuses = map(_stat_fields, pids)
            if all(fields is None or fields[0] in "ZX" for fields in statuses):
                return
            time.sleep(EXEC_PAUSE)

    def _processes(self, request: dict[str, Any]) -> dict[str, Any]:
        """What runs for the test: everything but this process, the shell of the desktop and shells for commands."""
        me = os.getpid()
        parents = _parents()
        mine = sorted(pid for pid in parents if pid != me and (self.is_init or me in _ancestors(pid, parents)))
        shell = {pid for pid, mark in self.launched.items() if mark == SHELL_MARK}
        found = []
        for pid in mine:
            argv = _argv_of(pid)
            if pid in self.shells:
                continue
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

    def _shell_start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start a shell for commands; the mark of an earlier one makes it the owner of what that has left running."""
        self.shell_count += 1
        mark = request["mark"] or f"bash-{self.shell_count}"
        shell = CommandShell(f"{request['directory']}/bash-{self.shell_count}", mark)
        argv = ["bash", "--noprofile", "--norc", shell.path("loop")]
        cwd = request["cwd"] if os.path.isdir(request["cwd"]) else "/"  # noqa: PTH112
        answer = self._launch({**request, "argv": argv, "mark": mark, "cwd": cwd})
        if "error" in answer:
            shell.close()
            return answer
        shell.pid, shell.started = answer["pid"], _start_of(answer["pid"])
        self.shells[shell.pid] = shell
        return self._shell_find({"pid": shell.pid, "started": shell.started})

    def _shell_of(self, request: dict[str, Any]) -> CommandShell | None:
        """The shell that is meant: numbers of processes are used again, times of start are not."""
        shell = self.shells.get(request["pid"])
        return shell if shell and shell.started == request["started"] else None

    def _shell_find(self, request: dict[str, Any]) -> dict[str, Any]:
        shell = self._shell_of(request)
        if shell is None:
            return {"error": "gone", "started": _start_of(request["pid"])}
        return {"pid": shell.pid, "started": shell.started, "mark": shell.mark, "directory": shell.directory}

    def _shell_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give a command to a shell."""
        shell = self._shell_of(request)
        if shell is None:
            return {"error": "gone"}
        if shell.runs:
            return {"error": "busy"}
        try:
            earlier = shell.begin(request["command"].encode("utf-8", "surrogateescape"), request["keep"])
        except OSError:  # its directory was removed
            os.kill(shell.pid, signal.SIGKILL)
            return {"error": "gone"}
        if earlier >= 0:
            self.unheard.add(earlier)
        return {"number": shell.number}

    def _shell_stop(self, request: dict[str, Any]) -> dict[str, Any]:
        """End what the command has started, and make the shell drop the rest of it."""
        shell = self._shell_of(request)
        if shell is None or not shell.runs or shell.number != request["number"]:
            return {}
        os.kill(shell.pid, signal.SIGRTMAX)  # first: else it would go on with what comes after the ended program
        return {"signalled": self._send_signal(signal.SIGKILL, lambda parents: self._of_command(shell, parents))}

    def _of_command(self, shell: CommandShell, parents: dict[int, int]) -> list[int]:
        """What the command has started, but not what earlier ones have, nor what came of that since."""
        mine = [
            p for p in parents if p != shell.pid and (shell.pid in _ancestors(p, parents) or _mark_of(p) == shell.mark)
        ]
        earlier = {p for p in mine if not shell.began_later(p)}
        return [p for p in mine if not _ancestors(p, parents) & earlier]

    def _shell_result(self, request: dict[str, Any]) -> dict[str, Any]:
        """How the last command came out, None while it runs. With `now`, it is given up as it is."""
        shell = self._shell_of(request)
        if shell is None:
            return {"error": "gone"}
        if request["now"]:
            self._command_ended(shell, None, ended=True)
        return {"number": shell.number, "result": shell.result}

    def _shell_ended(self, shell: CommandShell, code: int) -> None:
        status = shell.take_status()  # it may have told it and then found no more requests
        self._command_ended(shell, code if status is None else status, ended=True)
        left = shell.close()
        if left >= 0:
            self.unheard.add(left)


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
