"""The computer tool without a model."""

from __future__ import annotations

import pytest
from desktop_support import eventually, launch_probe

from pytest_cua.desktop.desktop import Desktop
from pytest_cua.errors import BadArgument, DesktopDied, NotDelivered
from pytest_cua.testing import ProbeWindow
from pytest_cua.tools.scripted import Computer


@pytest.fixture
def computer(desktop: Desktop) -> Computer:
    return Computer(desktop)


def test_each_member_does_what_it_says(desktop: Desktop, computer: Computer) -> None:
    with ProbeWindow(desktop) as probe:
        computer.type("a line\n")
        assert probe.wait(lambda window: window.text == "a line\n")
        computer.key("x", repeat=3)
        assert probe.wait(lambda window: window.text.endswith("xxx"))
        computer.mouse_move((300, 310))
        assert computer.cursor_position() == (300, 310)
        computer.left_click_drag((200, 200), (260, 240), text="shift")
        assert computer.cursor_position() == (260, 240)
        for click in (computer.left_click, computer.right_click, computer.middle_click):
            click((400, 300), text="ctrl")
        computer.double_click((500, 300))
        computer.triple_click((420, 380))
        computer.scroll("down", 3, (400, 300))
        computer.left_mouse_down()
        computer.left_mouse_up()
        computer.hold_key("shift", 0.01)
        computer.wait(0)
    assert computer.screenshot().size == desktop.size
    assert computer.zoom((0, 0, 64, 48)).size == desktop.size


def test_a_picture_shows_what_the_action_left(desktop: Desktop, computer: Computer) -> None:
    empty = computer.screenshot().tobytes()
    launch_probe(desktop)
    eventually(lambda: computer.screenshot().tobytes() != empty)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("left_click", [(1280, 5)], r"coordinate \(1280, 5\) is outside"),
        ("left_click", [(1, 2, 3)], "is not 2 whole numbers"),
        ("left_click_drag", [(0, 0), (0, 800)], r"coordinate \(0, 800\) is outside"),
        ("scroll", ["sideways", 1], "is not up, down, left or right"),
        ("scroll", ["up", 101], "0 to 100"),
        ("key", ["Retrun"], "Retrun"),
        ("hold_key", ["a", 301], "0 to 300"),
        ("wait", [-1], "0 to 300"),
        ("zoom", [(5, 5, 5, 9)], "x0 < x1"),
        ("type", ["x" * 20_001], "at most 20000"),
    ],
)
def test_what_cannot_be_meant_raises_before_anything_is_done(
    computer: Computer, name: str, arguments: list[object], message: str
) -> None:
    with pytest.raises(BadArgument, match=message):
        getattr(computer, name)(*arguments)


def test_keys_that_no_window_gets_are_told(computer: Computer) -> None:
    with pytest.raises(NotDelivered):
        computer.type("for nobody")


def test_a_desktop_that_is_closed_is_told(desktop: Desktop, computer: Computer) -> None:
    desktop.close()
    with pytest.raises(DesktopDied, match="closed"):
        computer.left_click((5, 5))
