"""What Claude is shown is what a replay can find again: a screen at rest, or one whose moving parts are known."""

from __future__ import annotations

from typing import Any

import pytest

# a window whose colour a click changes three times: late, and slower than the rest between two inputs
LATE = """
import tkinter

root = tkinter.Tk()
root.geometry("400x300+100+100")
root.configure(background="white")

def clicked(event):
    for number, colour in enumerate(("red", "yellow", "blue")):
        root.after(200 + 260 * number, lambda colour=colour: root.configure(background=colour))

root.bind("<Button-1>", clicked)
root.mainloop()
"""

# a counter that never rests, above a text that the test chooses; a number of milliseconds delays the text
MOVING = """
import sys, tkinter

root = tkinter.Tk()
root.geometry("400x300+100+100")
root.configure(background="white")
counter = tkinter.Label(root, font=("DejaVu Sans Mono", 24), background="white")
counter.place(x=20, y=20)
result = tkinter.Label(root, font=("DejaVu Sans", 24), background="white")
result.place(x=20, y=180)

def count(number):
    counter.configure(text=f"{number % 100:02}")
    root.after(100, count, number + 1)

if "count" in sys.argv:
    count(0)
show = lambda: result.configure(text=sys.argv[1])
root.after(int(sys.argv[2]), show) if len(sys.argv) > 2 and sys.argv[2].isdigit() else show()
root.mainloop()
"""

SCRIPTS = """
def click(request):
    yield turn(use("left_click", coordinate=[300, 250]), use("screenshot"))
    yield finish("It changed its colour.")

def look(request):
    yield use("screenshot")
    yield finish("Seen.")

def near(request):
    yield use("zoom", region=[600, 300, 800, 400])
    yield finish("Seen.")

def opinion(request):
    return use_tool("give_opinion", holds=True, reason="I see it.")

SCRIPT = {"click": click, "Judged": opinion, "near": near, "": look}
"""


def looked(project: Any) -> list[dict[str, Any]]:
    """The recorded actions with a picture."""
    return [line for line in project.lines("test_it", "test_it") if line["type"] == "action" and "screen" in line]


def test_a_screen_that_changes_late_is_shown_when_it_rests(project: Any) -> None:
    project.script(SCRIPTS)
    project.steps(
        f"""
        cua.desktop.file("app.py").write({LATE!r})
        cua.desktop.launch("/usr/bin/python3", "app.py")
        picture = cua.do("click").screenshots[-1]
        assert picture.getpixel((300, 250)) == (0, 0, 255)
        assert cua.desktop.windows()
        """
    )
    project.record().assert_outcomes(passed=1)
    (look,) = looked(project)
    assert "moving" not in look  # it came to rest
    for _ in range(3):
        project.run().assert_outcomes(passed=1)


def test_a_part_that_never_rests_is_left_out_and_nothing_else(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULT", "Order saved")
    project.script(SCRIPTS)
    project.steps(
        f"""
        cua.desktop.file("app.py").write({MOVING!r})
        cua.desktop.launch("/usr/bin/python3", "app.py", os.environ["RESULT"], "count", timeout=15000)
        cua.do("look")
        assert cua.desktop.windows()
        """,
        head="import os",
    )
    project.record().assert_outcomes(passed=1)
    (look,) = looked(project)
    assert look["moving"]
    for x, y, width, height in look["moving"]:  # around the counter, in the upper left of the window
        assert x >= 100
        assert x + width <= 260
        assert y >= 100
        assert y + height <= 220
    for _ in range(3):
        project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("RESULT", "Order failed")
    result = project.run("-o", "cua_drift_timeout=2000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *pytest_cua.ScreenDrift: step 1 'look', turn 1, screenshot: within 2 s the screen*"]
    )


def test_a_judged_screen_that_comes_late_is_waited_for(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELAY", "0")
    project.script(SCRIPTS)
    project.steps(
        f"""
        cua.desktop.file("app.py").write({MOVING!r})
        cua.desktop.launch("/usr/bin/python3", "app.py", os.environ.get("RESULT", "Order saved"), os.environ["DELAY"])
        assert cua.judge("Judged: the order was saved")
        assert cua.desktop.windows()
        """,
        head="import os",
    )
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("DELAY", "900")
    project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("RESULT", "Order failed")
    result = project.run("-o", "cua_drift_timeout=2000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *pytest_cua.ScreenDrift: step 1, judge 'Judged: the order was saved': within 2 s the screen*"]
    )


def test_a_zoom_into_what_is_left_out(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULT", "Order saved")
    project.script(SCRIPTS.replace("[600, 300, 800, 400]", "[110, 280, 300, 360]"))
    project.steps(
        f"""
        cua.desktop.file("app.py").write({MOVING!r})
        cua.desktop.launch("/usr/bin/python3", "app.py", os.environ["RESULT"])
        cua.do("Look near")
        assert cua.desktop.windows()
        """,
        head="import os",
    )
    text = (project.path / "test_it.py").read_text()
    marked = text.replace("def test_it", "@pytest.mark.cua(exclude=[(100, 270, 300, 100)])\ndef test_it")
    project.write(test_it=marked)
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("RESULT", "Order failed")
    project.run().assert_outcomes(passed=1)  # nobody shall look there
    project.write(test_it=text)
    result = project.run("-o", "cua_drift_timeout=1000")
    result.stdout.fnmatch_lines(["E *pytest_cua.ScreenDrift: step 1 'Look near', turn 1, zoom *"])


@pytest.mark.parametrize("body", ['cua.do("look")', 'cua.judge("Judged: it is empty")'], ids=["do", "judge"])
def test_a_box_outside_of_the_screen_is_told_while_recording(project: Any, body: str) -> None:
    project.script(SCRIPTS)
    project.steps(f"{body}\nassert cua.desktop.windows() == []")
    result = project.record("-o", "cua_exclude=1270,700,20,50")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *pytest_cua.BadArgument: area 20x50 at (1270, 700), type exclude reaches outside the picture of 1280x800 *"]
    )
    assert not list((project.path / "cassettes").rglob("cassette.jsonl"))  # Claude was not asked
