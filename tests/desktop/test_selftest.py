"""`pytest-cua selftest`: passes here, and fails when something does not arrive."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from pytest_cua import selftest
from pytest_cua.cli import main
from pytest_cua.desktop.keyboard import Keyboard
from pytest_cua.desktop.pointer import Pointer
from pytest_cua.desktop.witness import Witness


def test_everything_arrives_here(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["selftest"])
    table = capsys.readouterr().out
    assert code == 0, table
    assert "NOT OK" not in table
    for word in ("X server", "Xvfb", "openbox", "isolation", "triple click, right button", "scroll left", "type emoji"):
        assert word in table
    assert table.splitlines()[-1] == f"{len(selftest.cases())} kinds of input, all arrived."


def few(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the self-test send only this."""
    chosen = [case for case in selftest.cases() if case.sent in names]
    assert len(chosen) == len(names)
    monkeypatch.setattr(selftest, "cases", lambda: chosen)
    monkeypatch.setattr(selftest, "ARRIVAL", 300.0)


def rows(monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    stream = io.StringIO()
    code = selftest.report(as_json=True, stream=stream)
    result = json.loads(stream.getvalue())
    return code, {row["sent"]: row for row in result["rows"]} | {"ok": result["ok"], "versions": result["versions"]}


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few(monkeypatch, "move", "key é")
    assert main(["selftest", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True
    assert set(result["versions"]) >= {"X server", "window manager", "isolation"}
    assert result["rows"][1] == {
        "sent": "key é",
        "server": "1 key, 1 key-up",
        "window": "1 key, 1 key-up",
        "ok": True,
        "problem": "",
    }


def test_an_executor_that_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "click, left button", "type accents", "key Tab")
    monkeypatch.setattr(Pointer, "_button", lambda *_: None)
    monkeypatch.setattr(Keyboard, "_key", lambda *_: None)
    code, found = rows(monkeypatch)
    assert code == 1
    assert found["ok"] is False
    for name in ("click, left button", "type accents", "key Tab"):
        assert found[name]["ok"] is False, name
        assert found[name]["server"] in ("nothing", "1 move"), name


def test_an_executor_that_loses_one_character(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "type CJK", "key F5")
    original = Keyboard._send
    monkeypatch.setattr(Keyboard, "_send", lambda self, keysyms, delay: original(self, keysyms[:-1], delay))
    monkeypatch.setattr("pytest_cua.desktop.keyboard._PATIENCE", 200.0)
    code, found = rows(monkeypatch)
    assert code == 1
    assert found["type CJK"]["server"] == "8 key, 8 key-up"
    assert found["type CJK"]["ok"] is False
    assert found["key F5"]["ok"] is True


def test_an_executor_that_presses_another_button_in_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "click, left button", "scroll up, 3 notches", "drag")
    original = Pointer._button
    monkeypatch.setattr(
        Pointer, "_button", lambda self, display, button, *more: original(self, display, button + 1, *more)
    )
    code, found = rows(monkeypatch)
    assert code == 1
    assert not any(found[name]["ok"] for name in ("click, left button", "scroll up, 3 notches", "drag"))
    assert "button 1" in found["click, left button"]["problem"]


def test_a_modifier_that_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "shift + click, left button")
    monkeypatch.setattr(Keyboard, "_release", lambda *_: None)
    code, found = rows(monkeypatch)
    assert code == 1
    assert "key-up" in found["shift + click, left button"]["problem"]


def test_without_a_witness_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, "key F5")
    original = Witness.__init__

    def without(self: Witness, *arguments: Any, **more: Any) -> None:
        original(self, *arguments, **more)
        self.works = False

    monkeypatch.setattr(Witness, "__init__", without)
    code, found = rows(monkeypatch)
    assert code == 1
    assert "RECORD" in found["key F5"]["problem"]
