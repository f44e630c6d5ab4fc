"""The hook that everything a test reads from a desktop goes through.

The reading can so be kept in the cassette, counted as evidence, or answered from a recording, and the desktop knows
of none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Observer(Protocol):
    """Is asked for every reading."""

    def observe(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        """Return what `read()` returns, or what was recorded in its place.

        Args:
            kind: What is read: "screenshot", "windows" or "file".
            subject: Of what: a file's path as the test wrote it, or "".
            read: Reads it now.
        """
        ...

    def handed_out(self, kind: str, subject: str) -> None:
        """Be told that the test was given something that it reads by itself.

        Args:
            kind: What was given: "file" for a path on the host.
            subject: As in `observe`.
        """
        ...


class DirectObserver:
    """Reads, and does nothing else."""

    def observe(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        """Return `read()`."""
        return read()

    def handed_out(self, kind: str, subject: str) -> None:
        """Do nothing."""
