"""The first failure of a test, kept where no `except` and no forked process can hide it."""

from __future__ import annotations

import json
import mmap
import os

from pytest_cua import errors
from pytest_cua.errors import BadArgument, CuaError

_ROOM = 4096  # bytes for what a forked process tells
_MOST_TEXT = 900  # characters of it, so that it fits whatever the encoding


class Latch:
    """Remembers the first failure, so that no `except` between here and the test can hide it.

    A process that the test forks has a copy of everything; what it keeps here reaches the test all the same, through
    memory that both share.
    """

    def __init__(self) -> None:
        self._error: CuaError | None = None
        self._process = os.getpid()
        self._told = mmap.mmap(-1, _ROOM)

    @property
    def error(self) -> CuaError | None:
        """The failure that is kept, None while there is none."""
        if self._error is None and self._told[0]:
            self._error = _read(self._told)
        return self._error

    def set(self, error: CuaError) -> CuaError:
        """Keep the error, unless one was kept before, and give back the one that is kept."""
        kept = self.error
        if kept is None:
            kept = self._error = error
            if os.getpid() != self._process:
                _write(self._told, error)
        return kept

    def check_process(self, what: str) -> None:
        """Refuse what a forked process does: it has a copy of the recording, so what it does would be lost.

        Args:
            what: Such as "asks a model".

        Raises:
            BadArgument: This is not the process in which the test began.
        """
        if os.getpid() != self._process:
            raise self.set(
                BadArgument(
                    f"A process that the test forked {what}; a recording belongs to one process, and this is a copy.",
                    "let a thread do it, or start it with the method 'spawn' as a program of its own",
                )
            )


def _write(memory: mmap.mmap, error: CuaError) -> None:
    said = json.dumps([type(error).__name__, error.message[:_MOST_TEXT], [hint[:_MOST_TEXT] for hint in error.hints]])
    data = said.encode()
    if len(data) > _ROOM - 3:
        data = json.dumps([type(error).__name__, error.message[: _MOST_TEXT // 6], []]).encode()
    memory[1:3] = len(data).to_bytes(2, "big")
    memory[3 : 3 + len(data)] = data
    memory[0:1] = b"\1"  # last: whoever sees it finds the rest


def _read(memory: mmap.mmap) -> CuaError:
    length = int.from_bytes(memory[1:3], "big")
    name, message, hints = json.loads(memory[3 : 3 + length])
    kind: type[CuaError] = getattr(errors, name)
    return kind(f"In a process that the test forked: {message}", *hints)
