"""What a failure of ours looks like: the user's own lines, the message, what to do next, and nothing from inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pytest_cua.errors import CuaError


@dataclass
class Crash:
    """Where a test failed when none of the user's lines did: pytest reads it for the summary line."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        # as pytest's own, which `--tb=line` prints
        return f"{self.path}:{self.lineno}: {self.message.partition(chr(10))[0]}"

    def toterminal(self, writer: Any) -> None:
        """Nothing: there is no such line to show."""


def show_user_lines(item: Any, excinfo: Any) -> Callable[[Any], None] | None:
    """Leave only the user's lines in the traceback of an error of ours.

    Args:
        item: The test.
        excinfo: pytest's `ExceptionInfo`.

    Returns:
        What is to be done with the report that is made of it; None for other errors, and for faults of our own, which
        are plain `CuaError`s: of these everything is shown.
    """
    error = excinfo.value
    if not isinstance(error, CuaError) or type(error) is CuaError or item.config.getoption("fulltrace", False):
        return None
    lines = _user_lines(error.__traceback__)
    # pytest cuts it once more, from the raw one, so a filtered `excinfo.traceback` would not do
    excinfo.traceback = type(excinfo.traceback)([] if lines is None else lines)
    _hide_ours_behind(error)
    has_lines = lines is not None

    def finish(report: Any) -> None:
        shown = report.longrepr
        if has_lines or not hasattr(shown, "reprtraceback"):
            return
        path, line, _ = item.location
        shown.reprtraceback.extraline = None  # pytest's "all traceback entries are hidden"
        for entry in shown.reprtraceback.reprentries:
            entry.lines[:] = [f"E{line[1:]}" if line.startswith(" ") else line for line in entry.lines]
        shown.reprcrash = Crash(path, (line or 0) + 1, excinfo.exconly(tryshort=True))
        shown.chain[-1] = (shown.chain[-1][0], shown.reprcrash, shown.chain[-1][2])  # what pytest-xdist sends

    return finish


def _user_lines(trace: TracebackType | None) -> TracebackType | None:
    from pytest_cua.assertions.evidence import is_inside

    kept: list[TracebackType] = []
    while trace is not None:
        if not is_inside(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _hide_ours_behind(error: BaseException) -> None:
    """Errors that led to this one are told by its message; only those of the user's own code are shown as well."""
    from pytest_cua.assertions.evidence import is_inside

    behind = error.__cause__ or error.__context__
    if behind is None or (error.__suppress_context__ and error.__cause__ is None):
        return
    trace = behind.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if isinstance(behind, CuaError) or trace is None or is_inside(trace.tb_frame.f_code.co_filename):
        error.__cause__, error.__suppress_context__ = None, True
