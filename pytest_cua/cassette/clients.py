"""Clients that the code under test builds itself: each gets the middleware that records or replays it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anthropic._base_client import AsyncAPIClient, SyncAPIClient

from pytest_cua.cassette.recorder import CassetteMiddleware, ClientMiddleware


@contextmanager
def recorded_clients(middleware: ClientMiddleware, *, replaying: bool) -> Iterator[None]:
    """While this lasts, every client of the SDK that is made carries the middleware, whatever its kind.

    The constructors of the two base classes are wrapped, since those of Bedrock, Vertex and Foundry end there too. The
    middleware comes last, next to the network, so that the code's own runs as it does in life.

    Args:
        middleware: Of which each client gets one bound to itself.
        replaying: Whether nothing is asked, so that nothing need be asked twice.
    """
    made = {kind: kind.__init__ for kind in (SyncAPIClient, AsyncAPIClient)}
    ClientMiddleware.active.append(middleware)
    for kind, original in made.items():
        kind.__init__ = _wrapped(original, middleware, replaying)  # type: ignore[method-assign]
    try:
        yield
    finally:
        ClientMiddleware.active.remove(middleware)
        middleware.lanes.ended.set()
        for kind, original in made.items():
            kind.__init__ = original  # type: ignore[method-assign]


def _wrapped(original: Any, middleware: ClientMiddleware, replaying: bool) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        entries = list(kwargs.get("middleware") or ())
        if not any(isinstance(entry, CassetteMiddleware) for entry in entries):
            own = middleware.bound_to(self)
            kwargs["middleware"] = [entry for entry in entries if not isinstance(entry, ClientMiddleware)] + [own]
            if replaying:
                kwargs["max_retries"] = 0  # what was asked again while recording has its answer at once
        original(self, *args, **kwargs)

    return __init__


def with_middleware(client: Any, middleware: Any) -> Any:
    """A client like this one, with one more middleware next to the network."""
    kept = [entry for entry in client.middleware if not isinstance(entry, (CassetteMiddleware, ClientMiddleware))]
    made = client.with_options(middleware=[*kept, middleware])
    middleware.client = made
    return made
