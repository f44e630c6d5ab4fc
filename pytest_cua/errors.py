"""What can go wrong, and what each thing says.

```
CuaError                      every error of pytest-cua; carries hints, each one thing to do next
 ├─ CuaFailure                (also AssertionError) the test failed: a person should look at the application or the test
 │   ├─ StepFailed            the agent did not finish a step
 │   │   └─ Blocked           ... and said why
 │   ├─ CassetteMismatch      what the harness sends is no longer what was recorded
 │   ├─ UndeclaredRequest     a replay asked a model, or a host that is not declared
 │   ├─ ScreenDrift           the live screen, or a tool's outcome, is not the recorded one
 │   ├─ NotDelivered          keys, text or a click reached no window
 │   ├─ ExpectFailure         an `expect(...)` did not hold
 │   ├─ SecretLeaked          a recording held a secret, and was removed
 │   └─ VacuousTest           the test could not have failed
 └─ SetupError                the machine, the key or the files are not as needed: nothing is said about the application
     ├─ MissingProgram        a program that is not installed
     ├─ DesktopDied           Xvfb or the desktop's holder ended in the middle
     ├─ LaunchFailed          a program did not open its window
     ├─ CassetteMissing       nothing was recorded for this test
     ├─ CassetteUnreadable    a cassette that is incomplete, damaged or of another format
     ├─ CassetteUnwritable    a folder that cannot be written
     ├─ ModelRefused          the API refused the key, the model or the request
     └─ BadArgument           (also ValueError) a call that cannot be meant so
```
`NeedsApplication` stands apart: it is no error, it ends a test as skipped, because `offline` has nothing to judge.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar


class CuaError(Exception):
    """The base of every error of pytest-cua.

    Args:
        message: What happened, in one paragraph, with values.
        hints: What to do next, each one sentence or one command to copy.
    """

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"hint: {hint}" for hint in self.hints)])


class CuaFailure(CuaError, AssertionError):
    """The test failed: the application, the test or the agent is not as it should be."""


class StepFailed(CuaFailure):
    """The agent did not finish a step: out of turns or time, a reply without an end, a refusal."""


class Blocked(StepFailed):
    """Claude reported the step as blocked. `reason` is what it said."""

    def __init__(self, message: str, *hints: str, reason: str = "") -> None:
        super().__init__(message, *hints)
        self.reason = reason


class CassetteMismatch(CuaFailure):
    """What the harness sends is no longer what was recorded."""


class UndeclaredRequest(CuaFailure):
    """A request went to a model past the recording, or in a replay to a host that is not declared."""


class ScreenDrift(CuaFailure):
    """The live screen, or the outcome of a tool, is not the recorded one."""


class NotDelivered(CuaFailure):
    """Keys, text or a click reached no window, or not the one that they were meant for."""


class ExpectFailure(CuaFailure):
    """An `expect(...)` did not hold within its time."""


class SecretLeaked(CuaFailure):
    """A recording held a secret although each line was looked through; it was removed, nothing of it is kept."""


class VacuousTest(CuaFailure):
    """The test could not have failed: after its last step nothing was asserted."""


class SetupError(CuaError):
    """The machine, the key or the files are not as needed; nothing is said about the application."""


class MissingProgram(SetupError):
    """A program that is needed is not installed."""


class DesktopDied(SetupError):
    """Xvfb or the desktop's holder ended while the test still needed it."""


class LaunchFailed(SetupError):
    """A program could not be started or did not open its window in time."""


class CassetteMissing(SetupError):
    """Nothing was recorded for this test."""


class CassetteUnreadable(SetupError):
    """A cassette that is incomplete, damaged or of another format version."""


class CassetteUnwritable(SetupError):
    """The cassette's folder or a file in it cannot be written."""


class ModelRefused(SetupError):
    """The API refused the key, the model or the request, or could not be reached."""


class BadArgument(SetupError, ValueError):
    """A call that cannot be meant so: an unknown option value, a coordinate outside the screen, a wrong type."""


class CuaWarning(UserWarning):
    """Something about a recording that a person should know, and that fails no test: its age, a retired model."""


class NeedsApplication(Exception):
    """`offline` has no recorded answer for this: the test ends as skipped, never as passed.

    It is noted when it is made, so that a test that catches it does not pass either.
    """

    noted_by: ClassVar[list[Callable[[str], None]]] = []

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        for note in self.noted_by:
            note(reason)


for _error in [v for v in vars().values() if isinstance(v, type) and issubclass(v, Exception)]:
    # tracebacks and summaries then print the public path, `pytest_cua.Blocked`
    _error.__module__ = "pytest_cua"


# ---------------------------------------------------------------------- commands that a message gives

_root: list[Path] = []  # the root of test ids and the folder from which pytest was started, once they are known
_cassettes: list[Path] = []  # the folder of all cassettes, when an option named it


def set_root(root: Path, started_in: Path) -> None:
    """Let the commands in hints work where pytest was started; a test's id begins at the root."""
    _root[:] = [root, started_in]


def project_root() -> Path | None:
    """The root of test ids, once it is known."""
    return _root[0].resolve() if _root else None


def shell_quoted(test: str) -> str:
    """The test's id as an argument of a shell command."""
    if _root and _root[0] != _root[1]:
        path, separator, names = test.partition("::")
        test = os.path.relpath(_root[0] / path, _root[1]) + separator + names
    return test if re.fullmatch(r"[A-Za-z0-9_./:-]+", test) else "'" + test.replace("'", "'\\''") + "'"


def set_cassettes(folder: Path | None) -> None:
    """Let the commands in messages name the folder of all cassettes; None where pytest's settings name it."""
    _cassettes[:] = [] if folder is None else [folder.resolve()]


def pytest_command(*options: str, test: str = "") -> str:
    """A run of pytest, to be copied into a shell; it uses the same folder of cassettes as this run.

    Args:
        options: As they are typed.
        test: The id of the test; without one all tests are run.
    """
    named = [f"-o {shlex.quote(f'cua_cassette_dir={_seen_from(_root[:1], folder)}')}" for folder in _cassettes]
    return " ".join(["pytest", *options, *named, *([shell_quoted(test)] if test else [])])


def cua_command(name: str, *arguments: str | Path) -> str:
    """A command of `pytest-cua`, to be copied into a shell; it uses the same folder of cassettes as this run.

    Args:
        name: What it does, such as `accept`.
        arguments: Paths, which are quoted; and words as they are typed, such as a test's id from `shell_quoted`.
    """
    named = [f"--cassettes {path_quoted(_seen_from(_root[1:], folder))}" for folder in _cassettes]
    words = [path_quoted(word) if isinstance(word, Path) else word for word in arguments]
    return " ".join(["pytest-cua", name, *words, *named])


def path_quoted(path: Path) -> str:
    """A path as an argument of a shell command."""
    return shlex.quote(str(path))


def _seen_from(starts: list[Path], folder: Path) -> Path:
    """The folder by its way from another, if it lies below that."""
    below = [start.resolve() for start in starts if folder.is_relative_to(start.resolve())]
    return folder.relative_to(below[0]) if below else folder
