from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cua.desktop.desktop import Desktop, DesktopConfig

# `--import-mode=importlib` leaves the directory out, and with it `desktop_support`
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def desktop() -> Iterator[Desktop]:
    with Desktop.start(DesktopConfig(size=(1024, 768))) as running:
        yield running
