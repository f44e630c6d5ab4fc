"""The tool executors beside other ways to do the same, both sides in one run.

- the reference's way of working: a subprocess for each action and each picture (xdotool, scrot, ImageMagick), two
  seconds of waiting after each action; written here from its description, not taken from it;
- the same scenario by hand with python-xlib, and with Playwright in Chromium.

Prints medians and ratios, and fails where a target is missed. `--quick` makes the reference's part shorter.
"""

from __future__ import annotations

import argparse
import base64
import io
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mss
from PIL import Image
from Xlib import XK, X
from Xlib.display import Display
from Xlib.ext import xtest

from pytest_cua import screens
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.tools.around import Live
from pytest_cua.tools.bash import Bash
from pytest_cua.tools.computer import ComputerToolset
from pytest_cua.tools.computer_single import SingleComputer

SIZE = (1280, 800)
VERSION = "computer_20250124"  # a screenshot comes with every result, as in the reference
ROUNDS = 20
LINE = "the quick brown fox."
FIELD = (640, 400)

Action = tuple[str, dict[str, Any]]


def scenario(rounds: int) -> list[Action]:
    """Clicks, moves and keys, and half as many texts and screenshots."""
    found: list[Action] = []
    for number in range(rounds):
        x, y = FIELD[0] + (-200, 0, 200)[number % 3], FIELD[1] + 40 * (number % 4)  # no double clicks
        found.append(("left_click", {"coordinate": [x, y]}))
        found.append(("mouse_move", {"coordinate": [x + 11, y + 3]}))
        found.append(("key", {"text": "End"}))
        if number % 2:
            found += [("type", {"text": LINE}), ("screenshot", {})]
    return found


# ---------------------------------------------------------------------- ours


class Ours:
    """The single computer tool, each result with its screenshot as PNG in base64."""

    def __init__(self, desktop: Desktop, quiet: int) -> None:
        live = Live(desktop, quiet=quiet)
        hands = ComputerToolset(desktop, live=live)
        self._tool = SingleComputer(VERSION, SIZE, hands, live)
        self._live = live

    def __call__(self, name: str, input: dict[str, Any]) -> str:
        result: Any = self._tool.call({"action": name, **input})
        self._live.pictures.clear()
        return str(result[0]["source"]["data"])


# ---------------------------------------------------------------------- one subprocess per action


class Subprocesses:
    """The reference's way: each action and each picture is a shell command or two."""

    def __init__(self, display: str, folder: Path, delay: float) -> None:
        self._display = display
        self._file = folder / "shot.png"
        self._delay = delay

    def _run(self, command: str) -> None:
        subprocess.run(f"DISPLAY={self._display} {command}", shell=True, check=True, capture_output=True)

    def _picture(self) -> str:
        self._file.unlink(missing_ok=True)
        self._run(f"scrot -p {self._file}")
        self._run(f"/usr/bin/convert {self._file} -resize {SIZE[0]}x{SIZE[1]}! {self._file}")
        return base64.b64encode(self._file.read_bytes()).decode()

    def __call__(self, name: str, input: dict[str, Any]) -> str:
        x, y = input.get("coordinate", (0, 0))
        if name == "screenshot":
            return self._picture()
        if name == "type":
            self._run(f"xdotool type --delay 12 -- '{input['text']}'")
            return self._picture()
        self._run(
            {
                "left_click": f"xdotool mousemove --sync {x} {y} click 1",
                "mouse_move": f"xdotool mousemove --sync {x} {y}",
                "key": f"xdotool key -- {input.get('text')}",
            }[name]
        )
        time.sleep(self._delay)
        return self._picture()


# ---------------------------------------------------------------------- by hand


class ByXlib:
    """What a good script would do: one connection, XTEST, shared memory, Pillow."""

    def __init__(self, display: str) -> None:
        self._display = Display(display)
        self._grabber = mss.MSS(display=display)
        self._codes = {char: self._display.keysym_to_keycode(XK.string_to_keysym(_name(char))) for char in LINE}
        self._end = self._display.keysym_to_keycode(XK.string_to_keysym("End"))

    def __call__(self, name: str, input: dict[str, Any]) -> str:
        if "coordinate" in input:
            xtest.fake_input(self._display, X.MotionNotify, x=input["coordinate"][0], y=input["coordinate"][1])
        if name == "left_click":
            xtest.fake_input(self._display, X.ButtonPress, 1)
            xtest.fake_input(self._display, X.ButtonRelease, 1)
        codes = [self._end] if name == "key" else [self._codes[char] for char in input.get("text", "")]
        for code in codes:
            xtest.fake_input(self._display, X.KeyPress, code)
            xtest.fake_input(self._display, X.KeyRelease, code)
        self._display.sync()
        shot = self._grabber.grab(self._grabber.monitors[0])
        out = io.BytesIO()
        Image.frombytes("RGB", shot.size, shot.bgra, "raw", "BGRX").save(out, "PNG", compress_level=1)
        return base64.b64encode(out.getvalue()).decode()


def _name(char: str) -> str:
    return {" ": "space", ".": "period"}.get(char, char)


class ByPlaywright:
    """The page's own mouse, keyboard and screenshot."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def __call__(self, name: str, input: dict[str, Any]) -> str:
        mouse, keyboard = self._page.mouse, self._page.keyboard
        if name == "left_click":
            mouse.click(*input["coordinate"])
        elif name == "mouse_move":
            mouse.move(*input["coordinate"])
        elif name == "key":
            keyboard.press(input["text"])
        elif name == "type":
            keyboard.type(input["text"])
        return base64.b64encode(self._page.screenshot()).decode()


# ---------------------------------------------------------------------- measuring


def timed(do: Callable[[str, dict[str, Any]], str], actions: list[Action]) -> dict[str, list[float]]:
    """Milliseconds of each action, by its name."""
    found: dict[str, list[float]] = {}
    for name, input in actions:
        begin = time.perf_counter()
        data = do(name, input)
        found.setdefault(name, []).append((time.perf_counter() - begin) * 1000)
        assert len(data) > 500
    return found


def total(found: dict[str, list[float]]) -> float:
    return sum(map(sum, found.values()))


@contextmanager
def editor() -> Iterator[Desktop]:
    """A desktop with an editor on all of it."""
    with Desktop.start(DesktopConfig(size=SIZE)) as desktop:
        desktop.file("text.txt").write("")
        desktop.launch("mousepad", "text.txt")
        desktop.pointer.click(*FIELD)
        desktop.wait_until_still()
        yield desktop


class Targets:
    """What is reached, and what is not."""

    def __init__(self) -> None:
        self.missed = 0

    def check(self, what: str, value: float, limit: float, unit: str, *, at_least: bool = False) -> None:
        good = value >= limit if at_least else value <= limit
        self.missed += not good
        sign = ">=" if at_least else "<="
        print(f"  {what:74} {value:9.2f} {unit:3} {sign} {limit:g}  {'' if good else 'MISSED'}")

    def note(self, what: str, value: float, unit: str) -> None:
        print(f"  {what:74} {value:9.2f} {unit}")


def median_ms(work: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append((time.perf_counter() - begin) * 1000)
    return statistics.median(found)


def against_subprocesses(targets: Targets, rounds: int) -> None:
    """The scenario in an editor: ours with and without waiting, and the reference's way with and without."""
    actions = scenario(rounds)
    print(f"{len(actions)} actions in an editor, each with a screenshot in base64; {SIZE[0]}x{SIZE[1]}")
    with editor() as desktop, tempfile.TemporaryDirectory() as folder:
        quiet = timed(Ours(desktop, 100), actions)
        at_once = timed(Ours(desktop, 0), actions)
        slow = timed(Subprocesses(desktop.display, Path(folder), 2.0), actions)
        slow_at_once = timed(Subprocesses(desktop.display, Path(folder), 0.0), actions)
        for name in quiet:
            rows = [statistics.median(found[name]) for found in (slow, slow_at_once, quiet, at_once)]
            print(
                f"    {name:12}"
                + "".join(f"{row:10.1f}" for row in rows)
                + "  ms: reference, without its delay, ours, at once"
            )
        targets.check("reference / ours, still for 100 ms", total(slow) / total(quiet), 15, "x", at_least=True)
        targets.check("reference / ours, without waiting", total(slow) / total(at_once), 200, "x", at_least=True)
        ratio = total(slow_at_once) / total(at_once)
        targets.check("reference without its delay / ours, without waiting", ratio, 30, "x", at_least=True)
        drag = {"start_coordinate": [500, 300], "coordinate": [700, 420]}
        ours = timed(Ours(desktop, 0), [("left_click_drag", drag)] * 5)
        targets.note(
            "a drag, apart (its steps take 16 ms each, so that programs see a movement)", total(ours) / 5, "ms"
        )
        by_hand = timed(ByXlib(desktop.display), actions)
        at_once = timed(Ours(desktop, 0), actions)
        targets.check("ours / by hand with python-xlib, without waiting", total(at_once) / total(by_hand), 1.2, "x")


def against_playwright(targets: Targets, rounds: int) -> None:
    """The scenario in Chromium."""
    actions = scenario(rounds)
    page_text = "<textarea style='position:fixed;left:0;top:0;width:100%;height:100%'></textarea>"
    with Desktop.start(DesktopConfig(size=SIZE)) as desktop:
        page = desktop.browser("about:blank")
        page.set_content(page_text)
        page.mouse.click(*FIELD)
        theirs = timed(ByPlaywright(page), actions)
        ours = timed(Ours(desktop, 0), actions)
        targets.check("ours / by hand with Playwright, without waiting", total(ours) / total(theirs), 1.2, "x")


def single_figures(targets: Targets) -> None:
    """Medians of single things."""
    print("single things, medians")
    with editor() as desktop, tempfile.TemporaryDirectory() as folder:
        places = itertools.cycle(
            [(200, 200), (600, 200), (600, 600), (200, 600)]
        )  # two at one place wait for each other
        targets.check("a click", median_ms(lambda: desktop.pointer.click(*next(places)), 60), 1, "ms")
        targets.check("a frame as raw pixels", median_ms(desktop.capture, 40), 2, "ms")
        shot = Path(folder) / "shot.png"
        command = f"DISPLAY={desktop.display} scrot -o -p {shot}"

        def scrot() -> None:
            subprocess.run(command, shell=True, check=True)

        ours = median_ms(lambda: base64.b64encode(screens.to_png(desktop.capture())), 20)
        theirs = median_ms(scrot, 10)
        targets.check("scrot to a file / a frame as PNG in base64", theirs / ours, 8, "x", at_least=True)
        text = (LINE * 5)[:100]
        targets.check("100 characters typed", median_ms(lambda: desktop.keyboard.type(text), 15), 60, "ms")
        with Bash(desktop) as bash:
            bash.run("true")
            targets.check("an empty bash command", median_ms(lambda: bash.run("true"), 50), 5, "ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the scenario")
    rounds = ROUNDS // 4 if parser.parse_args().quick else ROUNDS
    for program in ("xdotool", "scrot"):
        if subprocess.run(["which", program], capture_output=True, check=False).returncode:
            print(f"{program} is not installed, so nothing can be compared: apt-get install xdotool scrot imagemagick")
            return 1
    targets = Targets()
    single_figures(targets)
    against_subprocesses(targets, rounds)
    against_playwright(targets, rounds)
    print(f"{targets.missed} targets missed" if targets.missed else "all targets reached")
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())
