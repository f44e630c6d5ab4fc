"""What programs receive from keyboard and pointer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from desktop_support import events, eventually, launch_probe

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument

SHIFT, CTRL, ALT = 1, 4, 8


@pytest.fixture(scope="module")
def running() -> Iterator[Desktop]:
    with Desktop.start(DesktopConfig(size=(1024, 768))) as desktop:
        window = launch_probe(desktop).window
        assert window is not None
        assert window.box[2:] == (400, 300)
        yield desktop


@pytest.fixture
def probe(running: Desktop) -> Iterator[Desktop]:
    """A desktop with the probe in front, and nothing written yet."""
    running.wait_until_still(quiet=50)
    running.file("events.jsonl").unlink()
    yield running
    eventually(lambda: not down(running))


def down(desktop: Desktop) -> list[str]:
    """The keys and buttons that the server has down. A window manager that looks at a click first holds up the rest."""
    with desktop.keyboard._connection.use() as display:
        keys = [f"key {8 * i + b}" for i, byte in enumerate(display.query_keymap()) for b in range(8) if byte >> b & 1]
        mask = display.screen().root.query_pointer().mask
    return keys + [f"button {n}" for n in range(1, 6) if mask & (0x80 << n)]


def middle(desktop: Desktop, dx: int = 0, dy: int = 0) -> tuple[int, int]:
    x, y, width, height = desktop.windows()[-1].box
    return x + width // 2 + dx, y + height // 2 + dy


def keys_seen(desktop: Desktop, count: int) -> list[str]:
    eventually(lambda: len(events(desktop, "key-up")) >= count, 5000)
    return [event["name"] for event in events(desktop, "key")]


TEXTS = {
    "ascii": "".join(map(chr, range(32, 127))),
    "umlauts": "äöüßÄÖÜ ñ é",
    "other scripts": "€ 漢字 😀 ’ … Ж",
    "lines": "first\nsecond\n\tthird\n",
    "leading dash": "-n --help $HOME `x` \\",
    "more than the free keys": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя" + "αβγδεζηθικλμνξοπρστυφχψω",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_text_arrives_as_it_is(desktop: Desktop, text: str) -> None:
    desktop.launch("mousepad", "text.txt")
    desktop.keyboard.type(text)
    desktop.wait_until_still()
    desktop.keyboard.press("ctrl+s")
    eventually(lambda: desktop.file("text.txt").exists() and desktop.file("text.txt").read_text() == text)


def test_after_a_long_text_the_screen_is_still_only_when_all_of_it_was_read(desktop: Desktop) -> None:
    desktop.launch("mousepad", "long.txt")
    text = "lorem ipsum dolor sit\n" * 100
    desktop.keyboard.type(text)
    assert desktop.wait_until_still().still
    desktop.keyboard.press("ctrl+s")
    assert desktop.wait_until_still().still
    assert desktop.file("long.txt").read_text() == text


def test_text_that_cannot_be_typed_types_nothing(probe: Desktop) -> None:
    with pytest.raises(BadArgument, match=r"U\+0007"):
        probe.keyboard.type("ab\x07")
    probe.keyboard.type("c")
    assert keys_seen(probe, 1) == ["c"]


def test_a_combination_presses_in_order_and_releases(probe: Desktop) -> None:
    probe.keyboard.press("ctrl+shift+T")
    assert keys_seen(probe, 3)[:2] == ["Control_L", "Shift_L"]
    last = events(probe, "key")[-1]
    assert last["name"].lower() == "t"
    assert last["state"] & (SHIFT | CTRL) == SHIFT | CTRL


def test_a_capital_letter_and_a_sign_take_the_shift_key(probe: Desktop) -> None:
    probe.keyboard.press("A")
    probe.keyboard.press("ctrl++")
    keys_seen(probe, 5)
    seen = [(event["name"], event["state"] & (SHIFT | CTRL)) for event in events(probe, "key")]
    assert ("A", SHIFT) in seen
    assert ("plus", SHIFT | CTRL) in seen


def test_keys_repeat_and_follow_each_other(probe: Desktop) -> None:
    probe.keyboard.press("Down", repeat=3)
    probe.keyboard.press("ctrl+a Delete")
    assert keys_seen(probe, 6) == ["Down", "Down", "Down", "Control_L", "a", "Delete"]


def test_a_key_that_the_layout_lacks_can_be_pressed(probe: Desktop) -> None:
    probe.keyboard.press("ctrl+é")
    assert keys_seen(probe, 2) == ["Control_L", "eacute"]


def test_a_held_key_is_one_press(probe: Desktop) -> None:
    probe.keyboard.hold("w", 0.8)  # auto-repeat would begin after half a second
    assert keys_seen(probe, 1) == ["w"]


def test_an_unknown_key_is_an_error_and_presses_nothing(probe: Desktop) -> None:
    with pytest.raises(BadArgument, match="'Retrun' is no key") as caught:
        probe.keyboard.press("ctrl+Retrun")
    assert "Return" in caught.value.hints[0]
    eventually(lambda: not down(probe))


@pytest.mark.parametrize(("button", "expected"), [(1, 1), (2, 2), (3, 3)])
def test_a_click_lands_where_it_is_meant(probe: Desktop, button: int, expected: int) -> None:
    x, y = middle(probe, dx=-40 * button)  # Tk takes two buttons at one spot for a double click
    probe.pointer.click(x, y, button=button)
    event = eventually(lambda: events(probe, "press"))[0]
    assert (event["x"], event["y"], event["button"], event["count"]) == (x, y, expected, 1)
    assert probe.pointer.position() == (x, y)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_clicks_are_counted(probe: Desktop, count: int) -> None:
    probe.pointer.click(*middle(probe, dx=20 * count), count=count)
    eventually(lambda: len(events(probe, "release")) == count)
    assert [event["count"] for event in events(probe, "press")] == list(range(1, count + 1))


def test_two_clicks_asked_for_one_by_one_are_no_double_click(probe: Desktop) -> None:
    probe.pointer.click(*middle(probe, dy=40))
    probe.pointer.click()
    eventually(lambda: len(events(probe, "release")) == 2)
    assert [event["count"] for event in events(probe, "press")] == [1, 1]


def test_a_modifier_is_held_during_a_click_and_not_after(probe: Desktop) -> None:
    probe.pointer.click(*middle(probe, dy=60), modifiers="ctrl+shift")
    event = eventually(lambda: events(probe, "press"))[0]
    assert event["state"] & (SHIFT | CTRL) == SHIFT | CTRL
    eventually(lambda: not down(probe))


def test_a_drag_is_seen_step_by_step(probe: Desktop) -> None:
    start, end = middle(probe, -100, -80), middle(probe, 80, 60)
    probe.pointer.drag(start, end, modifiers="shift")
    release = eventually(lambda: events(probe, "release"))[0]
    press = events(probe, "press")[0]
    assert (press["x"], press["y"]) == start
    assert (release["x"], release["y"]) == end
    assert len(events(probe, "drag")) >= 5
    assert press["state"] & SHIFT


def test_buttons_can_be_pressed_and_released_apart(probe: Desktop) -> None:
    start, end = middle(probe, -50), middle(probe, 50)
    probe.pointer.move(*start)
    probe.pointer.press()
    eventually(lambda: down(probe) == ["button 1"])
    probe.pointer.move(*end)
    probe.pointer.release()
    release = eventually(lambda: events(probe, "release"))[0]
    assert (release["x"], release["y"]) == end


@pytest.mark.parametrize(("direction", "button"), [("up", 4), ("down", 5), ("left", 6), ("right", 7)])
def test_scrolling_turns_the_wheel(desktop: Desktop, direction: str, button: int) -> None:
    launch_probe(desktop)
    desktop.pointer.scroll(direction, 3, *middle(desktop))
    desktop.pointer.scroll(direction, 0)  # nothing
    desktop.keyboard.press("a")  # what came before it has arrived when it has
    eventually(lambda: events(desktop, "key"))
    # Tk shows the buttons 6 and 7 of the horizontal wheel as the vertical one with shift
    expected = (button, 0) if button < 6 else (button - 2, SHIFT)
    assert [(event["button"], event["state"] & SHIFT) for event in events(desktop, "press")] == [expected] * 3


@pytest.mark.parametrize("point", [(-1, 0), (1024, 0), (0, 768), (1.5, 2), ("1", 2), (True, 1)])
def test_a_point_outside_the_screen_is_an_error(probe: Desktop, point: tuple[int, int]) -> None:
    before = probe.pointer.position()
    with pytest.raises(BadArgument):
        probe.pointer.click(*point)
    with pytest.raises(BadArgument):
        probe.pointer.drag((0, 0), point)
    assert probe.pointer.position() == before


def test_the_corners_of_the_screen_can_be_reached(probe: Desktop) -> None:
    for point in ((0, 0), (1023, 0), (0, 767), (1023, 767)):
        probe.pointer.move(*point)
        assert probe.pointer.position() == point


def test_a_failing_action_releases_what_it_pressed(probe: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    original = type(probe.pointer)._button

    def failing(self: object, display: object, button: int, pressed: bool, delay: int = 0) -> None:
        original(self, display, button, pressed, delay)  # type: ignore[arg-type]
        if pressed:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(probe.pointer), "_button", failing)
    with pytest.raises(KeyboardInterrupt):
        probe.pointer.click(*middle(probe), modifiers="shift")
    eventually(lambda: not down(probe))


def test_release_all_releases_also_what_others_pressed(probe: Desktop) -> None:
    from Xlib import X
    from Xlib.ext import xtest

    with probe.keyboard._connection.use() as display:
        xtest.fake_input(display, X.KeyPress, 38)
        display.sync()
    probe.pointer.move(*middle(probe))
    probe.pointer.press()
    eventually(lambda: down(probe) == ["key 38", "button 1"])
    probe.release_input()
    eventually(lambda: not down(probe))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.keyboard.press("a", repeat=0),
        lambda d: d.keyboard.press("a", repeat=101),
        lambda d: d.keyboard.hold("a", -1),
        lambda d: d.keyboard.hold("a b", 1),
        lambda d: d.keyboard.type(3),
        lambda d: d.pointer.click(5),
        lambda d: d.pointer.click(5, 5, button=0),
        lambda d: d.pointer.click(5, 5, count=0),
        lambda d: d.pointer.click(5, 5, modifiers="a"),
        lambda d: d.pointer.scroll("sideways", 1),
        lambda d: d.pointer.scroll("up", -1),
        lambda d: d.pointer.drag((1, 2), 3),
    ],
    ids=[str(number) for number in range(12)],
)
def test_arguments_that_cannot_be_meant(probe: Desktop, call: object) -> None:
    with pytest.raises(BadArgument):
        call(probe)  # type: ignore[operator]
