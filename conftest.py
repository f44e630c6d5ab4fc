"""The project's own tests: nested pytest runs, a hermetic environment, and no way out of the machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest_plugins = ["pytester"]

# A key or a display of the developer's must not change what a test does.
for _name in [n for n in os.environ if n.startswith(("ANTHROPIC_", "PYTEST_CUA_")) or n in ("DISPLAY", "CI")]:
    del os.environ[_name]


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test whose process connects to anything but this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(
            ("127.", "::1", "localhost")
        ):
            raise AssertionError(f"a test tried to reach {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield
