"""Input that reaches nobody is an error that says so; a menu that holds the keyboard is none."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from desktop_support import eventually, process_tree
from Xlib import X, display

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.desktop.probe import ProbeWindow
from pytest_cua.errors import DesktopDied, NotDelivered


@pytest.fixture(scope="module")
def running() -> Iterator[Desktop]:
    with Desktop.start(DesktopConfig(size=(1024, 768))) as desktop:
        yield desktop


@pytest.fixture
def empty(running: Desktop) -> Iterator[Desktop]:
    """A desktop without any window, and with no key or button down at the end."""
    eventually(lambda: not running.windows())
    running.wait_until_still(quiet=50)
    yield running
    eventually(lambda: not down(running))


@pytest.fixture
def probe(empty: Desktop) -> Iterator[ProbeWindow]:
    with ProbeWindow(empty) as window:
        yield window


class Other:
    """Another program: a client of its own, without a window unless it opens one."""

    def __init__(self, desktop: Desktop) -> None:
        self.client = display.Display(f"unix{desktop.display}")
        self.root = self.client.screen().root

    def popup(self) -> Any:
        """A window that the window manager leaves alone, as menus are."""
        window = self.root.create_window(
            600, 500, 200, 100, 0, X.CopyFromParent, override_redirect=1, background_pixel=0x99CCFF
        )
        window.map()
        self.client.sync()
        return window

    def grab_keyboard(self, window: Any = None) -> None:
        mode = X.GrabModeAsync
        assert (window or self.root).grab_keyboard(False, mode, mode, X.CurrentTime) == X.GrabSuccess
        self.client.sync()

    def grab_pointer(self, mask: int, window: Any = None) -> None:
        mode = X.GrabModeAsync
        grabbed = (window or self.root).grab_pointer(False, mask, mode, mode, X.NONE, X.NONE, X.CurrentTime)
        assert grabbed == X.GrabSuccess
        self.client.sync()

    def focus(self, where: int) -> None:
        self.client.set_input_focus(where, X.RevertToNone, X.CurrentTime)
        self.client.sync()


@pytest.fixture
def other(empty: Desktop) -> Iterator[Other]:
    program = Other(empty)
    yield program
    program.client.close()


@pytest.fixture
def stopped_manager(empty: Desktop) -> Iterator[None]:
    """A window manager that does not run: it would give the keyboard to a window at once."""
    [pid] = [pid for pid, name in shell_programs(empty) if name == "openbox"]
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


def shell_programs(desktop: Desktop) -> list[tuple[int, str]]:
    """The processes of the host that are this desktop's, and their names."""
    found = []
    for pid, _ in process_tree(desktop._link.holder_pid):
        with contextlib.suppress(OSError):
            found.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return found


def down(desktop: Desktop) -> list[str]:
    with desktop.keyboard._connection.use() as connection:
        keys = [
            f"key {8 * i + b}" for i, byte in enumerate(connection.query_keymap()) for b in range(8) if byte >> b & 1
        ]
        mask = connection.screen().root.query_pointer().mask
    return keys + [f"button {n}" for n in range(1, 6) if mask & (0x80 << n)]


def middle(window: ProbeWindow) -> tuple[int, int]:
    x, y, width, height = window.box
    return x + width // 2, y + height // 2


# ---------------------------------------------------------------------- nobody has the keyboard


@pytest.mark.parametrize(
    "send",
    [lambda k: k.press("a"), lambda k: k.press("ctrl+é"), lambda k: k.hold("a", 0.1)],
    ids=["key", "chord", "held"],
)
def test_a_key_without_any_window_is_an_error(empty: Desktop, send: Callable[[Any], None]) -> None:
    with pytest.raises(NotDelivered, match="no window has the keyboard") as caught:
        send(empty.keyboard)
    assert "click into a window" in caught.value.hints[0]


def test_a_text_without_any_window_is_an_error(empty: Desktop) -> None:
    with pytest.raises(NotDelivered, match=r"no window has the keyboard. Of it 0 of 5 characters had been typed"):
        empty.keyboard.type("hello")


@pytest.mark.parametrize("where", ["none", "root"])
def test_a_window_without_the_keyboard_gets_no_keys(
    probe: ProbeWindow, other: Other, empty: Desktop, stopped_manager: None, where: str
) -> None:
    other.focus(X.NONE if where == "none" else other.root)
    with pytest.raises(NotDelivered, match="no window has the keyboard"):
        empty.keyboard.press("Return")
    with pytest.raises(NotDelivered, match="0 of 2"):
        empty.keyboard.type("ab")
    assert not probe.events("key")


def test_a_binding_of_the_window_manager_works_without_any_window(empty: Desktop) -> None:
    empty.keyboard.press("alt+F4")


def test_nothing_to_type_reaches_nobody_and_is_no_error(empty: Desktop) -> None:
    empty.keyboard.type("")


def test_a_click_where_no_window_is_is_no_error(empty: Desktop) -> None:
    empty.pointer.click(500, 300)
    empty.pointer.click(500, 300, button=3, modifiers="ctrl")
    empty.pointer.scroll("down", 2)
    empty.pointer.drag((100, 100), (200, 200))


# ---------------------------------------------------------------------- the window goes away


def test_a_window_that_closes_while_text_is_typed(empty: Desktop) -> None:
    terminal = empty.launch("xterm", "-e", "sh", "-c", "stty -icanon -echo; head -c 40 >/dev/null")
    with pytest.raises(NotDelivered, match="closed while text was typed") as caught:
        empty.keyboard.type("x" * 5_000)
    found = re.search(r"(\d+) of 5000 characters had been typed", caught.value.message)
    assert found is not None
    assert 40 <= int(found[1]) < 5_000
    terminal.wait()


def test_a_text_whose_end_closes_the_window_has_arrived(empty: Desktop) -> None:
    terminal = empty.launch("xterm", "-e", "sh", "-c", 'read line; test "$line" = bye')
    empty.keyboard.type("bye\n")
    terminal.wait()
    eventually(lambda: not empty.windows())


def test_a_key_that_closes_its_window_has_arrived(empty: Desktop) -> None:
    terminal = empty.launch("xterm", "-e", "sh", "-c", "read line")
    empty.keyboard.press("Return")
    terminal.wait()
    eventually(lambda: not empty.windows())


# ---------------------------------------------------------------------- another program has taken the input


def test_keys_that_another_program_takes_are_an_error(probe: ProbeWindow, other: Other, empty: Desktop) -> None:
    other.grab_keyboard()
    with pytest.raises(NotDelivered, match="taken the keyboard for itself"):
        empty.keyboard.press("ctrl+a")
    with pytest.raises(NotDelivered, match=r"0 of 40 characters"):
        empty.keyboard.type("x" * 40)
    other.client.ungrab_keyboard(X.CurrentTime)
    other.client.sync()
    empty.keyboard.type("back")
    assert probe.wait(lambda window: window.text == "back")


def test_who_took_the_keys_is_named(probe: ProbeWindow, other: Other, empty: Desktop) -> None:
    hidden = other.root.create_window(-50, -50, 9, 9, 0, X.CopyFromParent, override_redirect=1)
    hidden.set_wm_class("keylock", "Keylock")
    hidden.map()
    other.grab_keyboard(hidden)
    with pytest.raises(NotDelivered, match="'Keylock'"):
        empty.keyboard.press("a")


@pytest.mark.parametrize("mask", [X.ButtonPressMask | X.ButtonReleaseMask, 0], ids=["takes it", "takes none"])
def test_a_click_that_another_program_takes_is_an_error(
    probe: ProbeWindow, other: Other, empty: Desktop, mask: int
) -> None:
    x, y = middle(probe)
    other.grab_pointer(mask)
    for send in (
        lambda: empty.pointer.click(x, y, modifiers="shift"),
        lambda: empty.pointer.scroll("up", 1, x, y),
        lambda: empty.pointer.drag((x, y), (x + 40, y)),
        empty.pointer.press,
    ):
        with pytest.raises(NotDelivered, match="taken the pointer for itself"):
            send()
        eventually(lambda: not down(empty))
    assert not probe.events("press")
    other.client.ungrab_pointer(X.CurrentTime)
    other.client.sync()
    empty.pointer.click(x, y)
    assert probe.wait(lambda window: bool(window.events("press")))


def test_a_menu_of_another_program_keeps_working(probe: ProbeWindow, other: Other, empty: Desktop) -> None:
    menu = other.popup()
    other.grab_keyboard(menu)
    other.grab_pointer(X.ButtonPressMask, menu)
    empty.keyboard.press("Down")
    empty.keyboard.type("first letters")
    empty.pointer.click(*middle(probe))  # beside the menu: it would close


def test_menus_of_a_program_keep_working(empty: Desktop) -> None:
    program = empty.launch("mousepad")
    x, y, *_ = empty.windows()[-1].box
    empty.pointer.click(x + 20, y + 10)
    empty.wait_until_still()
    empty.keyboard.press("Down Down")
    empty.keyboard.press("Escape Escape")
    empty.pointer.click(x + 60, y + 10)
    empty.wait_until_still()
    empty.pointer.click(10, 10)  # closes it
    empty.pointer.click(x + 100, y + 150, button=3)
    empty.wait_until_still()
    empty.keyboard.press("Escape")
    empty.keyboard.type("text")
    program.kill()


def test_the_menu_of_the_window_manager_keeps_working(probe: ProbeWindow, empty: Desktop) -> None:
    empty.keyboard.press("alt+space")
    empty.wait_until_still()
    empty.keyboard.press("Down Up Escape")
    empty.wait_until_still()
    empty.keyboard.type("on")
    assert probe.wait(lambda window: window.text == "on")


def test_windows_of_mutter_and_its_menu() -> None:
    with Desktop.start(DesktopConfig(size=(1024, 768), shell="mutter")) as desktop:
        with pytest.raises(NotDelivered, match="no window has the keyboard"):
            desktop.keyboard.press("a")
        desktop.keyboard.press("alt+Tab")
        with ProbeWindow(desktop) as probe:
            desktop.pointer.click(*middle(probe))
            desktop.keyboard.press("alt+space")
            desktop.wait_until_still()
            desktop.keyboard.press("Escape")
            desktop.wait_until_still()
            desktop.keyboard.type("ab é")
            assert probe.wait(lambda window: window.text.endswith("ab é")), probe.text


def test_a_window_that_takes_no_keys(empty: Desktop, other: Other) -> None:
    window = other.root.create_window(100, 100, 200, 100, 0, X.CopyFromParent)
    window.map()
    other.client.sync()
    eventually(lambda: [w.focused for w in empty.windows()] == [True])
    with pytest.raises(NotDelivered, match="takes no keys"):
        empty.keyboard.press("a")
    empty.pointer.click(200, 150)


# ---------------------------------------------------------------------- nothing stays down


class Interrupts:
    """Raises KeyboardInterrupt at the n-th input request, before or after it was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        from Xlib.ext import xtest

        original, count = xtest.fake_input, iter(range(1, 10_000))

        def failing(*arguments: Any, **more: Any) -> None:
            if (number := next(count)) == at and not after:
                raise KeyboardInterrupt
            original(*arguments, **more)
            if number == at:
                raise KeyboardInterrupt

        monkeypatch.setattr(xtest, "fake_input", failing)


ACTIONS: dict[str, Callable[[Desktop, ProbeWindow], None]] = {
    "chord": lambda d, _: d.keyboard.press("ctrl+shift+t"),
    "text": lambda d, _: d.keyboard.type("ABC"),
    "click": lambda d, p: d.pointer.click(*middle(p), modifiers="ctrl"),
    "drag": lambda d, p: d.pointer.drag(middle(p), (300, 300), modifiers="shift"),
    "press": lambda d, _: d.pointer.press(),
}


@pytest.mark.parametrize(
    ("name", "at"),
    # a half more is after the request was made
    [(name, at) for name in ACTIONS for at in ([1, 1.5] if name == "press" else [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5])],
)
def test_an_interrupt_leaves_nothing_down(
    probe: ProbeWindow, empty: Desktop, monkeypatch: pytest.MonkeyPatch, name: str, at: float
) -> None:
    empty.pointer.move(*middle(probe))
    with monkeypatch.context() as patch:
        Interrupts(patch, int(at), after=at != int(at))
        with pytest.raises(KeyboardInterrupt):
            ACTIONS[name](empty, probe)
    # seen by another client: what was only queued on ours would look released to us
    with Fresh(empty) as fresh:
        eventually(lambda: not fresh.down(), 2_000)


class Fresh:
    """A client that sees what the server has down, without making ours send what it has not sent."""

    def __init__(self, desktop: Desktop) -> None:
        self._client = display.Display(f"unix{desktop.display}")

    def __enter__(self) -> Fresh:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def down(self) -> bool:
        mask = self._client.screen().root.query_pointer().mask
        return any(self._client.query_keymap()) or bool(mask & 0x1F00)


def test_keys_that_reached_nobody_are_released(empty: Desktop) -> None:
    with pytest.raises(NotDelivered):
        empty.keyboard.press("ctrl+shift+a")
    with Fresh(empty) as fresh:
        assert not fresh.down()


def test_a_desktop_that_closes_in_the_middle() -> None:
    with Desktop.start(DesktopConfig(size=(640, 480))) as desktop, ProbeWindow(desktop) as probe:
        raised: list[BaseException] = []

        def hold() -> None:
            try:
                desktop.keyboard.hold("shift+a", 60)
            except BaseException as error:
                raised.append(error)

        holding = threading.Thread(target=hold)
        holding.start()
        assert probe.wait(lambda window: bool(window.events("key")))
        desktop.close()
        holding.join(20)
        assert not holding.is_alive()
        assert [type(error) for error in raised] == [DesktopDied]
        with pytest.raises(DesktopDied):
            desktop.keyboard.press("a")
        with pytest.raises(DesktopDied):
            desktop.pointer.click(5, 5)
