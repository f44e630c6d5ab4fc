"""Bash on a desktop, as Claude's bash tool knows it: one shell that goes on from command to command.

What is written comes together and in order, with the exit status; a command that does not end in its time is ended,
and the shell goes on where it can.
"""

from __future__ import annotations

import codecs
import json
import re
import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_cua.desktop.commands import CommandShell, Outcome, ShellGone, ShellId
from pytest_cua.desktop.waiting import now_ms
from pytest_cua.errors import BadArgument, DesktopDied

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

_LOST: Final = "variables and the working directory are lost"
_APT: Final = re.compile(
    r"\b(?:apt|apt-get|aptitude)\b[^\n;|&]*\s(?:install|update|upgrade)\b|\bdpkg\s+(?:-i|--install)\b"
)
_APT_HINT: Final = (
    "[Packages cannot be installed from inside the desktop. Those that a test needs are listed in sandbox/packages.txt "
    "and installed before the run: say which one is missing.]"
)


@dataclass(frozen=True)
class BashResult:
    """How a command came out.

    Args:
        output: What it wrote to standard output and error, in order, as text; a line tells how much was left out.
        exit_code: Its exit status, the negative number of the signal that ended the shell itself, or None when it
            never ended.
        timed_out: Whether it was ended at its deadline.
        shell_ended: Whether the shell is gone, by the command (`exit`) or at the deadline; the next command gets a new
            one.
        truncated_bytes: How many bytes of the output were left out.
        duration_ms: How long it took, in milliseconds.
        timeout: Its deadline, in milliseconds.
        in_new_shell: Whether the shell of the command before had ended in between, and this one ran in a new shell.
    """

    output: str
    exit_code: int | None
    timed_out: bool
    shell_ended: bool
    truncated_bytes: int
    duration_ms: float
    timeout: float = 0.0
    in_new_shell: bool = False


@dataclass(frozen=True)
class BashHandle:
    """Names a shell, so that another process can go on with it: `Bash.attach(handle)`.

    Args:
        desktop: The directory of its desktop.
        pid: Its process, as the desktop's programs count.
        started: When that began, in ticks of the kernel's clock.
    """

    desktop: str
    pid: int
    started: int

    def to_json(self) -> str:
        """The handle as a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BashHandle:
        """The handle that `to_json` wrote.

        Raises:
            BadArgument: the text is none.
        """
        try:
            values = json.loads(text)
            handle = cls(**values)
        except (TypeError, ValueError):
            raise BadArgument(f"{text!r} is no handle of a shell.", "write what BashHandle.to_json() gave") from None
        if not isinstance(handle.desktop, str) or not all(type(n) is int for n in (handle.pid, handle.started)):
            raise BadArgument(f"{text!r} is no handle of a shell.", "write what BashHandle.to_json() gave")
        return handle


class Answer(NamedTuple):
    """What Claude is told of a call.

    Args:
        text: The result, never empty.
        is_error: Whether it is one.
    """

    text: str
    is_error: bool


class Bash:
    """One bash inside a desktop's isolation, with the desktop's environment; it starts with the first command.

    Directory, variables, functions, aliases and programs in the background stay from command to command. A command's
    standard input is empty. Safe for threads: commands run one after another.

    Args:
        desktop: Where it runs.
        timeout: Milliseconds that a command may take.
        max_output: Bytes of a command's output that are kept, half of them from its beginning, half from its end.

    Raises:
        BadArgument: `timeout` or `max_output` is not positive.
    """

    def __init__(self, desktop: Desktop, *, timeout: float = 120_000, max_output: int = 16_000) -> None:
        self.desktop = desktop
        self._timeout = _checked_timeout(timeout)
        if max_output <= 0:
            raise BadArgument(f"max_output={max_output!r} is no number of bytes.")
        self._max_output = max_output
        self._mutex = threading.Lock()
        self._shell: CommandShell | None = None
        self._has_ended = False  # the shell, with a command

    @classmethod
    def attach(
        cls, handle: BashHandle, desktop: Desktop | None = None, *, timeout: float = 120_000, max_output: int = 16_000
    ) -> Bash:
        """Go on with a shell that another process has started.

        A command at which that process was killed has gone on, without a deadline: `resume()` waits for its result,
        `run()` stops it first.

        Args:
            handle: Names it.
            desktop: Its desktop, if this process has attached to that already; `bash.desktop` otherwise is.
            timeout: Milliseconds that a command may take.
            max_output: Bytes of a command's output that are kept.

        Raises:
            SetupError: the shell or its desktop is gone, or another process has it.
        """
        from pytest_cua.desktop.desktop import Desktop

        bash = cls(desktop or Desktop.attach(handle.desktop), timeout=timeout, max_output=max_output)
        bash._shell = bash.desktop.find_shell(ShellId(handle.pid, handle.started))
        return bash

    def __enter__(self) -> Bash:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def handle(self) -> BashHandle:
        """Names the shell for `attach`; it is started if it is not there. Another shell has another handle.

        Raises:
            DesktopDied: the desktop is gone.
        """
        with self._mutex:
            shell = self._started()
            return BashHandle(str(self.desktop.root), shell.id.pid, shell.id.started)

    def run(self, command: str, *, timeout: float | None = None) -> BashResult:
        """Execute a command, which may have several lines, and wait for its end.

        At the deadline all that it has started is ended, and the shell drops the rest of it. If the shell does not come
        back then, it is ended with all that it has started, and the next command gets a new one.

        Args:
            command: As it is typed.
            timeout: Milliseconds; the shell's own by default.

        Raises:
            BadArgument: the command holds a NUL character or is no text; the timeout is not positive.
            DesktopDied: the desktop is gone.
        """
        _check_command(command)
        limit = self._timeout if timeout is None else _checked_timeout(timeout)
        with self._mutex:
            begin = now_ms()
            number, is_new = self._begin(command)
            return replace(self._wait(number, limit, begin), in_new_shell=is_new)

    def resume(self, *, timeout: float | None = None) -> BashResult | None:
        """Wait for the shell's last command, whoever has begun it, and give its result; None if there was none.

        It is for a command that the runner was killed at, or that an interrupt has left alone. A result that was seen
        already is given again.

        Args:
            timeout: Milliseconds from now; the shell's own by default.

        Raises:
            DesktopDied: the desktop is gone.
        """
        limit = self._timeout if timeout is None else _checked_timeout(timeout)
        with self._mutex:
            if self._shell is None or self._has_ended:
                return None
            begin = now_ms()
            try:
                number, outcome = self._shell.last()
            except ShellGone:
                self._has_ended = True
                return None
            if outcome is not None:
                return self._result(outcome, limit, now_ms() - begin)
            return self._wait(number, limit, begin) if number else None

    def restart(self) -> None:
        """End the shell and all that it has started; the next command gets a new one.

        Raises:
            DesktopDied: the desktop is gone.
        """
        with self._mutex:
            if self._shell is not None:
                self._shell.end()
                self._has_ended = True

    def close(self) -> None:
        """End the shell and all that it has started. Calling it again, or when the desktop is gone, does nothing."""
        try:
            self.restart()
        except DesktopDied:
            return

    def call(self, input: Mapping[str, Any]) -> Answer:
        """Answer a call of Claude's bash tool: `{"command": ...}` or `{"restart": true}`.

        Args:
            input: Of the tool_use block.

        Raises:
            DesktopDied: the desktop is gone.
        """
        complaint = _complaint(input)
        if complaint:
            return Answer(complaint, True)
        restarted = ""
        if input.get("restart"):
            self.restart()
            restarted = f"The shell was restarted: {_LOST}, and its programs in the background were ended."
        command = input.get("command")
        if restarted and not command:
            return Answer(restarted, False)
        try:
            answer = render(self.run(command or ""), command or "")
        except BadArgument as error:
            return Answer(error.message, True)
        return Answer(f"{restarted}\n{answer.text}", answer.is_error) if restarted else answer

    def _started(self) -> CommandShell:
        if self._shell is None or self._has_ended:
            # what an earlier one has left in the background belongs to this one, and ends with it
            self._shell = self.desktop.start_shell(self._shell.mark if self._shell else "")
            self._has_ended = False
        return self._shell

    def _begin(self, command: str) -> tuple[int, bool]:
        """Give the shell a command, or a new shell when it has ended since; the latter is the second value."""
        try:
            return self._started().begin(command, self._max_output), False
        except ShellGone:
            self._has_ended = True
            return self._started().begin(command, self._max_output), True

    def _wait(self, number: int, limit: float, begin: float) -> BashResult:
        assert self._shell is not None
        outcome = self._shell.wait(number, limit)
        return self._result(outcome, limit, now_ms() - begin)

    def _result(self, outcome: Outcome, limit: float, duration: float) -> BashResult:
        assert self._shell is not None
        # scripts are executed from a file, whose name differs from run to run and says nothing
        output, left_out = _text(outcome, f"{self._shell.directory}/command".encode())
        self._has_ended = outcome.shell_ended
        return BashResult(
            output=output,
            exit_code=outcome.code,
            timed_out=outcome.stopped,
            shell_ended=outcome.shell_ended,
            truncated_bytes=left_out,
            duration_ms=duration,
            timeout=limit,
        )


def render(result: BashResult, command: str = "") -> Answer:
    """A result as Claude is told it: the output, and in brackets what else there is to say.

    It is an error when the exit status is not 0, or the command did not end.

    Args:
        result: Of the command.
        command: The command, for hints.
    """
    # a NUL is valid in JSON, and refused by much of what stores text
    parts = [result.output.rstrip("\n").replace("\0", "\N{REPLACEMENT CHARACTER}")]
    failed = result.timed_out or result.exit_code != 0
    if result.in_new_shell:
        parts.insert(0, f"[The shell had ended before this command, which ran in a new one: {_LOST}.]")
    parts.extend(_remarks(result))
    if _APT.search(command) and (failed or re.search(r"^E: ", result.output, re.MULTILINE)):
        parts.append(_APT_HINT)
    return Answer("\n".join(part for part in parts if part) or "(no output)", failed)


def _remarks(result: BashResult) -> list[str]:
    within = f"[The command did not end within {result.timeout / 1000:g} s"
    if result.timed_out and result.shell_ended:
        return [f"{within}, nor did the shell come back; the shell was restarted: {_LOST}.]"]
    if result.timed_out:
        return [f"{within} and was ended; the shell goes on.]"]
    if result.shell_ended:
        how = _ending(result.exit_code)
        return [f"[The shell ended with the command ({how}); the shell was restarted: {_LOST}.]"]
    return [f"[{_ending(result.exit_code).capitalize()}]"] if result.exit_code else []


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"signal {names.get(-code, -code)}"
    return f"exit status {code}"


def _text(outcome: Outcome, script: bytes) -> tuple[str, int]:
    """The output as text, and how many bytes were left out: a character that was cut is left out whole."""
    head, tail = (part.replace(script, b"bash") for part in (outcome.head, outcome.tail))
    if not outcome.left_out:
        return (head + tail).decode("utf-8", "replace"), 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    begin = decoder.decode(head)
    pending = len(decoder.getstate()[0])
    rest = tail[:3].lstrip(bytes(range(0x80, 0xC0))) + tail[3:]
    left_out = outcome.left_out + pending + len(tail) - len(rest)
    return (
        f"{begin}\n[... {left_out:,} bytes of output were left out here ...]\n{rest.decode('utf-8', 'replace')}",
        left_out,
    )


def _checked_timeout(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise BadArgument(f"timeout={timeout!r} is no time.", "write milliseconds, more than 0")
    return timeout


def _check_command(command: object) -> None:
    if not isinstance(command, str):
        raise BadArgument(f"A command is text, not {type(command).__name__}.")
    if "\0" in command:
        raise BadArgument("The command holds a NUL character, which bash cannot read.", "write it as $'\\0' or \\x00")
    try:
        command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadArgument(f"The command holds half a character, {command[error.start]!a}.") from None


def _complaint(input: Mapping[str, Any]) -> str:
    """What is wrong with the input of a call, or ""."""
    if not isinstance(input, Mapping):
        return f"The input is no object but {type(input).__name__}: write a command, or restart: true."
    unknown = sorted(str(name) for name in input if name not in ("command", "restart"))
    command, restart = input.get("command"), input.get("restart")
    if unknown:
        return f"There is no parameter {', '.join(unknown)}: write a command, or restart: true."
    if restart is not None and not isinstance(restart, bool):
        return f"restart is true or false, not {restart!r}."
    if command is not None and not isinstance(command, str):
        return f"The command is text, not {type(command).__name__}."
    if command is None and not restart:
        return "Neither a command nor restart: true was given."
    return ""
