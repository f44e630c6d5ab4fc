"""Waiting for a condition: the one place where this package waits.

Nothing here sleeps a fixed time. A wait ends when a descriptor has news (an X event, a line of the holder) and looks at
its condition again; the short upper bound of a single wait only covers conditions that tell nobody, such as a file.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Milliseconds after which a condition is looked at again although nothing was heard.
LONGEST_WAIT = 30.0


def now_ms() -> float:
    """A clock in milliseconds that never goes back."""
    return time.monotonic() * 1000.0


def wait_readable(descriptors: Sequence[int], milliseconds: float) -> bool:
    """Wait until one of the descriptors can be read, `milliseconds` at most."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, milliseconds)))


def wait_for(condition: Callable[[], T], timeout: float, descriptors: Sequence[int] = ()) -> T:
    """Look at `condition` until it is truthy, or until `timeout` milliseconds have passed.

    Args:
        condition: Looked at now, after news on a descriptor, and at short intervals.
        timeout: Milliseconds.
        descriptors: Files whose news may change the condition. `condition` has to read them empty.

    Returns:
        The last value of `condition`: truthy if it held, falsy after the time has passed.
    """
    end = now_ms() + timeout
    while True:
        value = condition()
        left = end - now_ms()
        if value or left <= 0:
            return value
        wait_readable(descriptors, min(left, LONGEST_WAIT))
