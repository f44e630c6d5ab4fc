"""Launching waits for what a person would wait for, and says what went wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from desktop_support import eventually, launch_probe, probe

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument, CuaFailure, LaunchFailed, MissingProgram


def test_it_waits_for_the_window_and_its_focus(desktop: Desktop) -> None:
    program = desktop.launch("mousepad", "notes.txt")
    assert program.window is not None
    assert program.window.title == "*~/notes.txt - Mousepad"
    assert program.window.program == "Mousepad"
    assert program.window.focused
    assert program.running()
    assert desktop.windows() == [program.window]
    desktop.keyboard.type("lost?")  # at once: no key may be lost
    desktop.keyboard.press("ctrl+s")
    eventually(lambda: desktop.file("notes.txt").exists() and desktop.file("notes.txt").read_text() == "lost?")


SHY = """
import Xlib.display, Xlib.Xatom
display = Xlib.display.Display()
window = display.screen().root.create_window(0, 0, 200, 100, 0, display.screen().root_depth)
window.set_wm_name("shy")
window.change_property(display.get_atom("_NET_WM_USER_TIME"), Xlib.Xatom.CARDINAL, 32, [0])
window.map()
while True:
    display.next_event()
"""


def test_a_window_that_opens_without_the_focus_is_given_it(desktop: Desktop) -> None:
    launch_probe(desktop)
    # a user time of 0 says: do not give me the focus (EWMH)
    program = desktop.launch(sys.executable, "-c", SHY)
    assert program.window is not None
    assert (program.window.title, program.window.focused) == ("shy", True)


def test_a_window_opened_by_a_descendant_counts(desktop: Desktop) -> None:
    program = desktop.launch("/bin/sh", "-c", f"/usr/bin/python3 {probe(desktop)} & wait")
    assert program.window is not None
    assert program.window.title == "probe"


def test_a_program_that_hands_over_to_another_counts(desktop: Desktop) -> None:
    desktop.launch("mousepad", "first.txt")
    second = desktop.launch(
        "/bin/sh", "-c", f"setsid env -i DISPLAY=$DISPLAY HOME=$HOME /usr/bin/python3 {probe(desktop)} &"
    )
    assert second.window is not None
    assert second.window.title == "probe"
    assert not second.running()


def test_the_second_window_of_a_program_is_told_from_the_first(desktop: Desktop) -> None:
    first = launch_probe(desktop, "--title", "first")
    second = launch_probe(desktop, "--title", "second")
    assert [w.title for w in desktop.windows()] == ["first", "second"]
    assert [w.focused for w in desktop.windows()] == [False, True]
    assert first.window != second.window


def test_a_window_that_takes_over_the_id_of_one_that_just_closed_is_new(desktop: Desktop) -> None:
    for number in range(4):
        program = launch_probe(desktop, "--title", number)
        assert program.window is not None
        assert program.window.title == str(number)
        program.kill()  # and not waited for: the window manager may still know the window


def test_an_unknown_program(desktop: Desktop) -> None:
    with pytest.raises(MissingProgram, match="'mousepat' is not installed") as caught:
        desktop.launch("mousepat")
    assert "did you mean mousepad?" in caught.value.hints


def test_a_program_that_the_desktop_cannot_see(desktop: Desktop, tmp_path: Path) -> None:
    script = tmp_path / "app"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    with pytest.raises(MissingProgram, match="cannot see") as caught:
        desktop.launch(script)
    assert any("expose=" in hint for hint in caught.value.hints)


def test_a_program_that_ends_before_it_opens_a_window(desktop: Desktop) -> None:
    with pytest.raises(LaunchFailed, match="exit code 4 before it opened a window") as caught:
        desktop.launch("/bin/sh", "-c", "echo no such display >&2; exit 4")
    assert "no such display" in str(caught.value)


def test_a_program_without_a_window(desktop: Desktop) -> None:
    launch_probe(desktop)
    with pytest.raises(LaunchFailed, match="opened no window within 300 ms") as caught:
        desktop.launch("/bin/sh", "-c", "echo hello; sleep 1000", timeout=300)
    assert "Windows: 'probe' (has the keyboard)" in str(caught.value)
    assert "hello" in str(caught.value)
    assert "wait=False" in str(caught.value)


def test_without_waiting_it_returns_at_once(desktop: Desktop) -> None:
    program = desktop.launch("/bin/sleep", 1000, wait=False)
    assert program.window is None
    assert program.running()
    with pytest.raises(CuaFailure, match="still runs after 50 ms"):
        program.wait(50)


def test_output_is_kept(desktop: Desktop) -> None:
    program = desktop.launch("/bin/sh", "-c", "echo out; echo err >&2", wait=False)
    assert program.wait() == 0
    assert program.output() == "out\nerr\n"
    assert program.log.read_text() == "out\nerr\n"


@pytest.mark.parametrize("arguments", [("",), ("ls", object()), ("ls", "a\0b")])
def test_arguments_that_cannot_be_meant(desktop: Desktop, arguments: tuple[str, ...]) -> None:
    with pytest.raises(BadArgument):
        desktop.launch(*arguments)


@pytest.mark.parametrize("shell", ["openbox", "mutter"])
def test_both_shells_manage_windows(shell: str) -> None:
    with Desktop.start(DesktopConfig(shell=shell)) as desktop:
        program = launch_probe(desktop)
        assert program.window is not None
        assert program.window.box[2:] == (400, 300)
        assert program.window.focused
        desktop.keyboard.press("alt+F4")
        eventually(lambda: desktop.windows() == [])
