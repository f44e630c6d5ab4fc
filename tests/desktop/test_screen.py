"""Pictures, windows, and when the screen stands still."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import pytest
from desktop_support import events, eventually, launch_probe, probe
from PIL import ImageChops
from Xlib.ext import damage

from pytest_cua.desktop.capture import Screen
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.desktop.display import BACKGROUND
from pytest_cua.desktop.stillness import StillnessWatch
from pytest_cua.desktop.windows import Window

T = TypeVar("T")


class Recording:
    """An observer that notes what it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    def observe(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        value = read()
        self.seen.append((kind, subject, value))
        return value


def test_a_picture_shows_the_screen(desktop: Desktop) -> None:
    picture = desktop.capture()
    assert (picture.mode, picture.size) == ("RGB", (1024, 768))
    background = (BACKGROUND >> 16, BACKGROUND >> 8 & 255, BACKGROUND & 255)
    assert picture.getpixel((500, 300)) == background
    assert picture.getpixel((500, 767)) != background  # the panel
    window = launch_probe(desktop).window
    assert window is not None
    x, y, width, height = window.box
    assert desktop.capture().getpixel((x + width - 1, y + height - 1)) == (255, 255, 255)
    assert desktop.capture().getpixel((x + width + 5, y)) == background


def test_the_pointer_is_not_in_a_picture(desktop: Desktop) -> None:
    desktop.pointer.move(10, 10)
    before = desktop.capture()
    desktop.pointer.move(600, 300)
    assert ImageChops.difference(before, desktop.capture()).getbbox() is None


def test_a_picture_without_shared_memory_is_the_same(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    launch_probe(desktop)
    fast = desktop.capture()
    monkeypatch.setattr(Screen, "_open", lambda self: None)
    slow = Screen(desktop._windows._connection, desktop._link, desktop.size)
    assert slow.image().tobytes() == fast.tobytes()


def test_readings_of_a_test_go_through_the_observer_and_those_of_tools_do_not(desktop: Desktop) -> None:
    observer = Recording()
    desktop.observer = observer
    desktop.capture()
    desktop.read_windows()
    desktop.file("a").write("x")
    assert observer.seen == []
    assert desktop.windows() == []
    picture = desktop.screenshot()
    assert desktop.file("a").read_text() == "x"
    assert not desktop.file("b").exists()
    assert observer.seen == [
        ("windows", "", []),
        ("screenshot", "", picture),
        ("file", "a", b"x"),
        ("file", "b", None),
    ]


def test_windows_are_told_from_bottom_to_top(desktop: Desktop) -> None:
    launch_probe(desktop, "--title", "Grüße ✓")
    launch_probe(desktop, "--title", "two")
    first, second = desktop.windows()
    assert (first.title, second.title) == ("Grüße ✓", "two")
    assert (first.focused, second.focused) == (False, True)
    assert json.loads(json.dumps(asdict(second)))["box"] == list(second.box)
    assert second.program == "Tk"
    # the panel's first task
    desktop.pointer.click(60, 768 - 15)
    eventually(lambda: [w.title for w in desktop.windows() if w.focused] == ["Grüße ✓"])
    assert [w.title for w in desktop.windows()] == ["two", "Grüße ✓"]
    desktop.pointer.click(60, 768 - 15)
    eventually(lambda: [w.title for w in desktop.windows() if w.minimized] == ["Grüße ✓"])


def test_a_maximized_window_leaves_the_panel_free(desktop: Desktop) -> None:
    window = launch_probe(desktop).window
    assert window is not None
    desktop.pointer.click(window.box[0] + 100, window.box[1] - 10, count=2)  # the title bar

    def maximized() -> Window | None:
        # openbox gives the new size to the program's window before it moves the frame: both must have come
        now = desktop.windows()[0]
        return now if now.box[2] > 1000 and now.box[1] < window.box[1] else None

    box = eventually(maximized).box
    assert box[1] + box[3] <= 768 - 30


def test_a_still_screen_is_still_after_the_quiet_time(desktop: Desktop) -> None:
    stillness = desktop.wait_until_still(quiet=120)
    assert stillness.still
    assert 120 <= stillness.waited_ms < 1000


def test_it_waits_for_a_program_that_draws_for_a_while(desktop: Desktop) -> None:
    desktop.launch("/usr/bin/python3", probe(desktop), "--moving", 1000, wait=False)
    eventually(desktop.windows)
    stillness = desktop.wait_until_still(quiet=200)
    assert stillness.still
    assert events(desktop, "stopped")
    picture = desktop.capture()
    assert desktop.wait_until_still(quiet=100).still
    assert desktop.capture().tobytes() == picture.tobytes()


def test_a_program_that_never_stops_is_told_and_is_no_error(desktop: Desktop) -> None:
    desktop.launch("/usr/bin/python3", probe(desktop), "--moving", -1, wait=False)
    eventually(desktop.windows)
    stillness = desktop.wait_until_still(quiet=150, timeout=600)
    assert not stillness.still
    assert 600 <= stillness.waited_ms < 1500


def test_a_program_that_does_not_read_its_input_is_not_still(desktop: Desktop) -> None:
    program = desktop.launch("mousepad", "a.txt")
    stop = desktop.launch("/bin/sh", "-c", f"kill -STOP {program.pid}", wait=False)
    stop.wait()
    stillness = desktop.wait_until_still(timeout=400)
    assert not stillness.still
    assert 400 <= stillness.waited_ms < 1500
    desktop.launch("/bin/sh", "-c", f"kill -CONT {program.pid}", wait=False).wait()
    assert desktop.wait_until_still().still


def test_what_is_drawn_without_changing_a_pixel_is_no_change(desktop: Desktop) -> None:
    # drawn again and again: the server tells of damage, the picture stays the same
    program = desktop.launch(
        "/usr/bin/python3",
        "-c",
        "import tkinter\nroot = tkinter.Tk()\nlabel = tkinter.Label(root, text='x')\nlabel.pack()\n"
        "def again():\n    label.event_generate('<Expose>')\n    root.after(10, again)\n"
        "again()\nroot.mainloop()",
    )
    assert program.window is not None
    assert desktop.wait_until_still(quiet=200, timeout=2000).still


def test_the_fallback_without_damage_sees_changes_too(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "extname", "NO-DAMAGE")
    watch = StillnessWatch(desktop._windows._connection, desktop._screen)
    desktop.launch("/usr/bin/python3", probe(desktop), "--moving", 600, wait=False)
    eventually(desktop.windows)
    assert watch.wait(quiet=200, timeout=5000).still
    assert events(desktop, "stopped")


def _scene() -> list[bytes]:
    """The pixels of a small session with mousepad, after each step."""
    pictures = []
    with Desktop.start(DesktopConfig(size=(1024, 768))) as desktop:

        def look() -> None:
            assert desktop.wait_until_still().still
            pictures.append(desktop.capture().tobytes())

        look()
        desktop.file("notes.txt").write("Item: 42 EUR\n")
        desktop.launch("mousepad", "notes.txt")
        look()
        desktop.keyboard.press("ctrl+End")
        desktop.keyboard.type("Total: 42 €\n")
        look()
        desktop.keyboard.press("ctrl+f")
        look()
        desktop.keyboard.press("Escape")
        desktop.keyboard.press("ctrl+o")
        look()
        desktop.keyboard.press("Escape")
        desktop.wait_until_still()
        desktop.keyboard.press("ctrl+a")
        look()
    return pictures


def test_the_same_session_gives_the_same_pixels() -> None:
    first, second = _scene(), _scene()
    assert [a == b for a, b in zip(first, second, strict=True)] == [True] * 6
    assert len(set(first)) == 6  # and each step shows something
