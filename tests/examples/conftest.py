"""What the example tests share: the programs they test, and who plays Claude when they are recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cua import Cua, expect

APPS = Path(__file__).parents[2] / "fixtures" / "apps"
PYTHON = "/usr/bin/python3"  # the system's: it has Tk


def flags(app: str) -> list[str]:
    """`--break NAME` or `--vary NAME` for a program, as the demo asks for it: EXAMPLES_BREAK=invoice:save."""
    asked = []
    for option in ("break", "vary"):
        name, _, value = os.environ.get(f"EXAMPLES_{option.upper()}", "").partition(":")
        if name == app:
            asked += [f"--{option}", value]
    return asked


@pytest.fixture
def invoice(cua: Cua) -> Cua:
    """The invoice program is running; it saves to `invoices.db` in the desktop's HOME."""
    cua.desktop.launch(PYTHON, APPS / "invoice.py", "--db", "invoices.db", *flags("invoice"))
    return cua


@pytest.fixture
def shop(cua: Cua) -> str:
    """The web shop is running; gives its address."""
    command = (APPS / "shop.py", "--db", "shop.db", "--port-file", "shop.port", *flags("shop"))
    cua.desktop.launch(PYTHON, *command, wait=False)
    expect(cua.desktop.file("shop.port")).to_exist()
    port = cua.desktop.file("shop.port").read_text().strip()
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def cua_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Who answers while recording: a script, as long as these recordings are made without a key."""
    import anthropic

    if os.environ.get("EXAMPLES_REAL_MODEL"):
        yield anthropic.Anthropic()
        return
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        import claude_script
    finally:
        sys.path.pop(0)
    from pytest_cua.testing import ScriptedClaude

    with ScriptedClaude(claude_script.script()) as claude:
        yield anthropic.Anthropic(api_key="scripted", base_url=claude.base_url)
        assert not claude.errors, claude.errors
        assert not claude.script_errors, claude.script_errors
