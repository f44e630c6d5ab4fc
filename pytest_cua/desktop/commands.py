"""A shell on the desktop that is given commands: starting it, asking it, stopping what it is at.

The spawner has it (`CommandShell` there) and reads what commands write, so that their output has an end even when a
program in the background keeps it open. Here is the runner's end.
"""

from __future__ import annotations

import binascii
import itertools
import signal
from dataclasses import dataclass
from typing import Any, Final

from pytest_cua.desktop.link import Link
from pytest_cua.desktop.waiting import now_ms
from pytest_cua.errors import LaunchFailed, MissingProgram, SetupError

#: Milliseconds for a shell to come back after what its command had started was ended.
_COME_BACK: Final = 800.0
#: Milliseconds after which it is told again.
_AGAIN: Final = 100.0
#: Milliseconds for the kernel to end a shell.
_END: Final = 1_000.0

_numbers = itertools.count(1)


@dataclass(frozen=True)
class ShellId:
    """A shell, told from another one whose process has got the same number.

    Args:
        pid: Its process, as the desktop's programs count.
        started: When that began, in ticks of the kernel's clock.
    """

    pid: int
    started: int


@dataclass(frozen=True)
class Outcome:
    """How a command came out.

    Args:
        code: Its exit status, negative for a signal that ended the shell itself; None when it did not end.
        head: The first bytes of what it wrote.
        tail: The last bytes; nothing when `head` is all.
        left_out: How many bytes were between them.
        stopped: Whether it was stopped at its deadline.
        shell_ended: Whether the shell is gone.
    """

    code: int | None
    head: bytes
    tail: bytes
    left_out: int
    stopped: bool
    shell_ended: bool


class ShellGone(Exception):
    """The shell ended before it could be asked."""


class CommandShell:
    """One bash on a desktop, which executes commands one after another. Not safe for threads: the owner locks.

    Args:
        link: To the desktop.
        found: What the spawner says of it.
    """

    def __init__(self, link: Link, found: dict[str, Any]) -> None:
        self._link = link
        self.id = ShellId(found["pid"], found["started"])
        self.mark: str = found["mark"]
        self.directory: str = found["directory"]

    @classmethod
    def start(cls, link: Link, mark: str = "") -> CommandShell:
        """Start one in HOME, with the environment of the desktop's programs.

        Args:
            link: To the desktop.
            mark: Of an earlier shell, whose programs in the background shall belong to this one.

        Raises:
            MissingProgram: there is no bash.
            LaunchFailed: it could not be started.
            DesktopDied: the desktop is gone.
        """
        assert link.ready is not None
        environment = link.ready["environment"]
        answer = link.request(
            "shell-start",
            directory=environment["XDG_RUNTIME_DIR"],
            env=environment,
            cwd=link.ready["home"],
            log=f"bash-{next(_numbers)}.log",
            mark=mark,
        )
        if answer.get("error") == "not-found":
            raise MissingProgram(
                "bash is not installed, or the desktop's programs cannot see it.", "apt-get install bash"
            )
        if "error" in answer:
            raise LaunchFailed(f"bash could not be started on the desktop: {answer.get('detail')}.")
        return cls(link, answer)

    @classmethod
    def find(cls, link: Link, shell: ShellId) -> CommandShell:
        """The shell that an earlier runner had.

        Raises:
            SetupError: it is gone.
            DesktopDied: the desktop is gone.
        """
        answer = link.request("shell-find", pid=shell.pid, started=shell.started)
        if "error" not in answer:
            return cls(link, answer)
        why = "its process number belongs to another process now" if answer["started"] else "it has ended"
        raise SetupError(
            f"The shell of this handle (process {shell.pid}) is gone: {why}.", "start a new one: Bash(desktop)"
        )

    def begin(self, command: str, keep: int) -> int:
        """Give it a command and return the command's number.

        A command that still runs is stopped first: its runner was killed or interrupted, and nobody waits for it.

        Args:
            command: As it is typed; without NUL.
            keep: How many bytes of the output to keep.

        Raises:
            ShellGone: it has ended.
            DesktopDied: the desktop is gone.
        """
        answer = self._ask("shell-run", command=command, keep=keep)
        if answer.get("error") == "busy":
            self.wait(self.last()[0], 0)
            answer = self._ask("shell-run", command=command, keep=keep)
        if "error" in answer:
            raise ShellGone
        return int(answer["number"])

    def wait(self, number: int, timeout: float) -> Outcome:
        """Wait until a command ends; at its deadline it is stopped, and the shell ended if that does not help.

        Args:
            number: Of the command.
            timeout: Milliseconds.

        Raises:
            DesktopDied: the desktop is gone.
        """
        result = self._result(number, timeout)
        if result is not None:
            return _outcome(result, stopped=False)
        if "signalled" not in self._ask("shell-stop", number=number):  # it has ended just now, by itself
            result = self._result(number, _END)
            return _outcome(result or self._give_up(number), stopped=result is None)
        return _outcome(self._come_back(number) or self._give_up(number), stopped=True)

    def last(self) -> tuple[int, Outcome | None]:
        """The number of the last command, 0 if there was none, and how it came out, None while it runs.

        Raises:
            ShellGone: it has ended.
            DesktopDied: the desktop is gone.
        """
        answer = self._ask("shell-result", now=False)
        if "error" in answer:
            raise ShellGone
        result = answer["result"]
        return answer["number"], _outcome(result, stopped=False) if result else None

    def end(self) -> None:
        """End it and all that its commands have started.

        Raises:
            DesktopDied: the desktop is gone.
        """
        pid = self.id.pid if self._is_there() else 0  # the number may be another's
        self._link.request("signal", pid=pid, mark=self.mark, signal=int(signal.SIGKILL))
        self._link.wait(lambda: not self._is_there(), _END)

    def _is_there(self) -> bool:
        return "error" not in self._ask("shell-find")

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return self._link.request(op, pid=self.id.pid, started=self.id.started, **fields)

    def _result(self, number: int, timeout: float) -> dict[str, Any] | None:
        return self._link.wait(lambda: self._link.command_result(self.id.pid, number), timeout)

    def _come_back(self, number: int) -> dict[str, Any] | None:
        """Wait whether the shell comes back; what the command starts meanwhile is ended, too."""
        end = now_ms() + _COME_BACK
        result = self._result(number, _AGAIN)
        while result is None and now_ms() < end:
            self._ask("shell-stop", number=number)
            result = self._result(number, _AGAIN)
        return result

    def _give_up(self, number: int) -> dict[str, Any]:
        """End the shell, which does not come back, and all that it has started."""
        self._link.request("signal", pid=self.id.pid, mark=self.mark, signal=int(signal.SIGKILL))
        result = self._result(number, _END)
        if result is None:  # the kernel does not end it: somewhere it waits for a disk, or a network
            result = self._ask("shell-result", now=True).get("result")
            self._link.command_result(self.id.pid, number)
        return result or {"code": None, "ended": True, "head": "", "tail": "", "total": 0}


def _outcome(result: dict[str, Any], *, stopped: bool) -> Outcome:
    head, tail = binascii.a2b_base64(result["head"]), binascii.a2b_base64(result["tail"])
    return Outcome(
        code=None if stopped else result["code"],
        head=head,
        tail=tail,
        left_out=result["total"] - len(head) - len(tail),
        stopped=stopped,
        shell_ended=result["ended"],
    )
