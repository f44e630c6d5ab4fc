"""The `confirm` hook decides in a replay as it did while recording, or the test fails; its own errors end the step."""

from __future__ import annotations

from typing import Any

import pytest

PRESS = """
import os

def press(request):
    request = yield use("key", text="F5")
    yield finish("Pressed.")

SCRIPT = {"": press}

@pytest.fixture
def cua_confirm():
    def ask(context):
        if os.environ["ANSWER"] == "broken":
            raise RuntimeError("nobody is at the other end")
        return os.environ["ANSWER"] == "yes"

    return ask
"""
BODY = 'cua.do("Press the key")\nassert cua.desktop.windows() == []'


@pytest.fixture
def pressing(project: Any) -> Any:
    project.script(PRESS)
    project.steps(BODY)
    return project


def test_declined_while_recording_and_accepted_now(pressing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "no")
    pressing.record().assert_outcomes(passed=1)
    pressing.run().assert_outcomes(passed=1)
    monkeypatch.setenv("ANSWER", "yes")
    result = pressing.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *pytest_cua.ScreenDrift: step 1 'Press the key', turn 1, key 'F5': "
            "this was not carried out while recording; does the confirm hook decide otherwise now?",
        ]
    )


def test_accepted_while_recording_and_declined_now(pressing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "yes")
    pressing.record().assert_outcomes(passed=1)
    monkeypatch.setenv("ANSWER", "no")
    for mode in ("replay", "offline"):
        result = pressing.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            [
                "E *pytest_cua.CassetteMismatch: *cassette.jsonl: step 1 'Press the key', turn 1: key 'F5' was carried "
                "out while recording and is not now; does the confirm hook decline it?",
            ]
        )
    monkeypatch.setenv("ANSWER", "yes")
    pressing.run().assert_outcomes(passed=1)


def test_a_hook_that_fails_ends_the_step(pressing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "broken")
    result = pressing.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *The confirm hook failed at *key: RuntimeError('nobody is at the other end')*"])
    assert not (pressing.folder("test_it", "test_it") / "cassette.jsonl").exists()
    monkeypatch.setenv("ANSWER", "yes")
    pressing.record().assert_outcomes(passed=1)
    good = (pressing.folder("test_it", "test_it") / "cassette.jsonl").read_bytes()
    monkeypatch.setenv("ANSWER", "broken")
    for mode in ("replay", "record"):
        result = pressing.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["E *The confirm hook failed at *RuntimeError('nobody is at the other end')*"])
    assert (pressing.folder("test_it", "test_it") / "cassette.jsonl").read_bytes() == good


def test_a_value_that_holds_the_name_of_another_is_typed_as_it_is(project: Any) -> None:
    project.script(
        """
def fill_in(request):
    yield turn(use("type", text="{a}|{b}|{{c}}|{ a }"), use("key", text="ctrl+s"))
    yield finish("Filled in.")

SCRIPT = {"": fill_in}
"""
    )
    project.steps(
        """
        cua.desktop.file("note.txt").write("")
        cua.desktop.launch("mousepad", "note.txt")
        cua.do("Type {a}, then {b}, and save", params={"a": "x{b}y", "b": "B"})
        expect(cua.desktop.file("note.txt")).to_have_text("x{b}y|B|{c}|{ a }")
        """
    )
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    assert ("type", {"text": "{a}|{b}|{{c}}|{ a }"}) in [
        (line["name"], line["input"]) for line in project.lines("test_it", "test_it") if line["type"] == "action"
    ]
