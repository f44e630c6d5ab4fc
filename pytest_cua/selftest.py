"""Whether input arrives on this machine: every kind of it is sent to a window, with the X server as a witness.

`run()` starts a desktop, opens a window that writes down what it is given, and sends clicks, drags, scrolls, keys and
texts through the executors that tests use. Each row of the answer says what was sent, what the server saw and what the
window got.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TextIO, TypeAlias

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.desktop.probe import ProbeEvent, ProbeWindow
from pytest_cua.desktop.witness import Sighting, Witness
from pytest_cua.doctor import checks
from pytest_cua.errors import CuaError, DesktopDied

Box: TypeAlias = tuple[int, int, int, int]  # x, y, width, height in pixels

SHIFT, CTRL, BUTTON = 1, 4, 0x100  # of X's mask
_INPUT = ("key", "key-up", "press", "release")
HOLD_S = 0.3
ARRIVAL = 10_000.0  # milliseconds
TEXTS = {
    "ASCII": "".join(map(chr, range(32, 127))),
    "a leading dash": "-n --help $HOME `x` \\",
    "accents": "äöüß ÄÖÜ ñ é €",
    "CJK": "漢字 かな 한국어",
    "emoji": "😀 👩🏽‍🚀 👨‍👩‍👧 🇩🇪",
    "combining marks": "e\u0301 a\u0308\u0300 s\u0323\u0307",
    "lines and tabs": "first\nsecond\n\tthird\n",
    "more characters than free keys": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя αβγδεζηθικλμνξοπρστυφχψω",
    "1,000 characters": "The quick brown fox jumps over the lazy dog. 0123 -+=/*\n"[:50] * 20,
}


@dataclass(frozen=True)
class Row:
    """One thing that was sent.

    Args:
        sent: What.
        server: What the X server saw of the devices.
        window: What the window got.
        ok: Whether all of it arrived, and nothing else.
        problem: What is wrong, "" where nothing is.
    """

    sent: str
    server: str
    window: str
    ok: bool
    problem: str = ""


@dataclass(frozen=True)
class Report:
    """All rows, and the machine they hold for.

    Args:
        versions: What was tested, by name.
        rows: In the order in which they were sent.
    """

    versions: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether everything arrived."""
        return bool(self.rows) and all(row.ok for row in self.rows)


@dataclass(frozen=True)
class Case:
    """One thing to send.

    Args:
        sent: What, in words.
        send: Sends it; is given the desktop and the place and size of the window.
        seen: How many events of each kind the server must see and the window must get, without moves.
        got: Gives what is wrong with those that the window got, "" if nothing is.
    """

    sent: str
    send: Callable[[Desktop, Box], None]
    seen: dict[str, int]
    got: Callable[[list[ProbeEvent], Box], str]


def run(config: DesktopConfig | None = None) -> Report:
    """Send every kind of input to a window on a desktop of its own; takes five seconds on an idle machine.

    Args:
        config: How the desktop shall be.

    Raises:
        SetupError: the desktop did not start, or its X server has no RECORD extension.
    """
    with Desktop.start(config) as desktop, ProbeWindow(desktop) as window:
        witness = Witness(desktop.keyboard.beside(), moves=True)
        desktop.wait_until_still()
        rows = tuple(_row(case, desktop, window, witness) for case in cases())
        return Report(_versions(desktop), rows)


def report(*, as_json: bool, config: DesktopConfig | None = None, stream: TextIO | None = None) -> int:
    """Run the self-test and write its table.

    Args:
        as_json: Write JSON instead.
        config: How the desktop shall be.
        stream: Where to; None is standard output.

    Returns:
        An exit code: 0 when everything arrived.
    """
    stream = stream or sys.stdout
    result = run(config)
    if as_json:
        rows = [asdict(row) for row in result.rows]
        json.dump({"ok": result.ok, "versions": result.versions, "rows": rows}, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    else:
        stream.write("\n".join(_table(result)) + "\n")
    return 0 if result.ok else 1


def cases() -> list[Case]:
    """Everything that is sent."""
    return [
        _move(),
        *(_click(button, count) for button in (1, 2, 3) for count in (1, 2, 3)),
        *(_click(1, 1, modifiers) for modifiers in ("shift", "ctrl", "ctrl+shift")),
        _drag(),
        _drag("shift"),
        *(_scroll(direction, button) for direction, button in (("up", 4), ("down", 5), ("left", 6), ("right", 7))),
        _press_and_release(),
        *(_key(name) for name in ("Return", "esc", "Tab", "BackSpace", "del", "pgdn", "Up", "F5", "space", "é", "€")),
        _key("ctrl+s", ("Control_L", "s")),
        _key("ctrl+shift+t", ("Control_L", "Shift_L", "T")),
        _key("cmd+e", ("Super_L", "e")),
        _key("A", ("Shift_L", "A")),
        _key("Down", ("Down",) * 3, repeat=3),
        _hold(),
        *(_type(name, text) for name, text in TEXTS.items()),
    ]


def _row(case: Case, desktop: Desktop, window: ProbeWindow, witness: Witness) -> Row:
    window.clear()
    box = window.box
    problem = ""
    try:
        with witness.watching() as seen:
            case.send(desktop, box)
            window.wait(lambda probe: not _wrong(case, probe.events(), box), ARRIVAL)
    except DesktopDied:
        raise
    except CuaError as error:
        problem = error.message
    server = _counts(sighting.kind for sighting in seen if sighting.client is None)
    events = window.events()
    missing = _wrong(case, events, box)
    if not problem and not witness.works:
        problem = "the X server has no RECORD extension, so there is no witness"
    if not problem and _without_moves(seen) != case.seen:
        problem = f"the server was to see {_in_words(case.seen)}"
    problem = problem or missing
    got = _counts(event.kind for event in events if event.kind in (*_INPUT, "move"))
    return Row(case.sent, server, got, not problem, problem)


def _wrong(case: Case, events: list[ProbeEvent], box: Box) -> str:
    """What is wrong with what the window got; "" if nothing is."""
    counts = dict(Counter(event.kind for event in events if event.kind in _INPUT))
    if wrong := case.got(events, box):
        return wrong
    return "" if counts == case.seen else f"the window was to get {_in_words(case.seen)}"


# ---------------------------------------------------------------------- what is sent


def _middle(box: Box, dx: int = 0, dy: int = 0) -> tuple[int, int]:
    return box[0] + box[2] // 2 + dx, box[1] + box[3] // 2 + dy


def _move() -> Case:
    def got(events: list[ProbeEvent], box: Box) -> str:
        moves = [(event.x, event.y) for event in events if event.kind == "move"]
        entered = [(event.x, event.y) for event in events if event.kind == "enter"]
        return "" if _middle(box, 7, 5) in [*moves, *entered] else "the pointer did not come to its place"

    def send(desktop: Desktop, box: Box) -> None:
        desktop.pointer.move(*_middle(box))
        desktop.pointer.move(*_middle(box, 7, 5))

    return Case("move", send, {}, got)


def _click(button: int, count: int, modifiers: str = "") -> Case:
    keys = len(modifiers.split("+")) if modifiers else 0
    mask = (SHIFT if "shift" in modifiers else 0) | (CTRL if "ctrl" in modifiers else 0)

    def got(events: list[ProbeEvent], box: Box) -> str:
        where = _middle(box, 10 * button, 10 * count)
        clicks = [e for e in events if e.kind in ("press", "release")]
        expected = ["press", "release"] * count
        if [e.kind for e in clicks] != expected or {e.detail for e in clicks} != {button}:
            return f"the window was to get {count} clicks of button {button}"
        if {(e.x, e.y) for e in clicks} != {where}:
            return f"the click was to land at {where}"
        return "" if all(e.state & (SHIFT | CTRL) == mask for e in clicks) else "the modifiers were not held"

    words = f"{('', 'double ', 'triple ')[count - 1]}click, {('left', 'middle', 'right')[button - 1]} button"
    seen = {"press": count, "release": count} | ({"key": keys, "key-up": keys} if keys else {})
    return Case(
        f"{modifiers} + {words}" if modifiers else words,
        lambda desktop, box: desktop.pointer.click(
            *_middle(box, 10 * button, 10 * count), button=button, count=count, modifiers=modifiers
        ),
        seen,
        got,
    )


def _drag(modifiers: str = "") -> Case:
    def ends(box: Box) -> tuple[tuple[int, int], tuple[int, int]]:
        return _middle(box, -100, -80), _middle(box, 90, 70)

    def got(events: list[ProbeEvent], box: Box) -> str:
        start, end = ends(box)
        buttons = [(e.kind, e.detail, (e.x, e.y)) for e in events if e.kind in ("press", "release")]
        if buttons != [("press", 1, start), ("release", 1, end)]:
            return f"the window was to get a press at {start} and a release at {end}"
        moves = sum(1 for e in events if e.kind == "move" and e.state & BUTTON)
        return "" if moves >= 5 else f"the window was to get 5 moves with the button down, not {moves}"

    keys = {"key": 1, "key-up": 1} if modifiers else {}
    return Case(
        f"{modifiers} + drag" if modifiers else "drag",
        lambda desktop, box: desktop.pointer.drag(*ends(box), modifiers=modifiers),
        {"press": 1, "release": 1} | keys,
        got,
    )


def _scroll(direction: str, button: int) -> Case:
    def got(events: list[ProbeEvent], box: Box) -> str:
        turned = [e.detail for e in events if e.kind == "press"]
        return "" if turned == [button] * 3 else f"the window was to get button {button} three times"

    return Case(
        f"scroll {direction}, 3 notches",
        lambda desktop, box: desktop.pointer.scroll(direction, 3, *_middle(box)),
        {"press": 3, "release": 3},
        got,
    )


def _press_and_release() -> Case:
    def send(desktop: Desktop, box: Box) -> None:
        desktop.pointer.move(*_middle(box, -40, 40))
        desktop.pointer.press(1)
        desktop.pointer.move(*_middle(box, 40, 40))
        desktop.pointer.release(1)

    def got(events: list[ProbeEvent], box: Box) -> str:
        buttons = [(e.kind, (e.x, e.y)) for e in events if e.kind in ("press", "release")]
        expected = [("press", _middle(box, -40, 40)), ("release", _middle(box, 40, 40))]
        return "" if buttons == expected else "the window was to get a press and, elsewhere, a release"

    return Case("press, move, release", send, {"press": 1, "release": 1}, got)


_KEYS = {"esc": "Escape", "del": "Delete", "pgdn": "Page_Down"}


def _key(name: str, expected: Sequence[str] = (), *, repeat: int = 1) -> Case:
    wanted = list(expected) or [_KEYS.get(name, name)]

    def got(events: list[ProbeEvent], box: Box) -> str:
        pressed = [e.key for e in events if e.kind == "key"]
        released = sorted(e.detail for e in events if e.kind == "key-up")
        if pressed != wanted:
            return f"the window was to get {' '.join(wanted)}, not {' '.join(pressed) or 'nothing'}"
        down = sorted(e.detail for e in events if e.kind == "key")
        return "" if released == down else "not every key was released"

    return Case(
        f"key {name}" + (f", {repeat} times" if repeat > 1 else ""),
        lambda desktop, box: desktop.keyboard.press(name, repeat=repeat),
        {"key": len(wanted), "key-up": len(wanted)},
        got,
    )


def _hold() -> Case:
    def got(events: list[ProbeEvent], box: Box) -> str:
        keys = [e for e in events if e.kind in ("key", "key-up")]
        if [(e.kind, e.key) for e in keys] != [("key", "w"), ("key-up", "w")]:
            return "the window was to get one key w"
        held = keys[1].time - keys[0].time
        return "" if held >= HOLD_S * 1000 - 5 else f"it was down for {held} ms only"

    return Case(
        f"hold w for {HOLD_S} s",
        lambda desktop, box: desktop.keyboard.hold("w", HOLD_S),
        {"key": 1, "key-up": 1},
        got,
    )


def _type(name: str, text: str) -> Case:
    def got(events: list[ProbeEvent], box: Box) -> str:
        arrived = "".join(e.text for e in events if e.kind == "key")
        if arrived == text:
            return ""
        at = next((i for i, (a, b) in enumerate(zip(arrived, text, strict=False)) if a != b), len(arrived))
        return f"of {len(text)} characters {len(arrived)} arrived; the first that is wrong is number {at + 1}"

    shifted = sum(1 for char in text if char.isascii() and (char.isupper() or char in '~!@#$%^&*()_+{}|:"<>?'))
    presses = len(text) + shifted
    return Case(
        f"type {name}", lambda desktop, box: desktop.keyboard.type(text), {"key": presses, "key-up": presses}, got
    )


# ---------------------------------------------------------------------- what is told


def _without_moves(seen: list[Sighting]) -> dict[str, int]:
    return dict(Counter(sighting.kind for sighting in seen if sighting.client is None and sighting.kind != "move"))


def _counts(kinds: Iterable[str]) -> str:
    return _in_words(Counter(kinds))


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"


def _versions(desktop: Desktop) -> dict[str, str]:
    found = {check.name: check.detail for check in checks()}
    manager = desktop.config.shell
    return {
        "pytest-cua": version("pytest-cua"),
        "Python": platform.python_version(),
        "X server": found.get("Xvfb", "") or desktop.server_version,
        "window manager": found.get(manager, manager),
        "isolation": desktop.isolation,
        "screen": f"{desktop.size[0]}x{desktop.size[1]}",
    }


def _table(result: Report) -> list[str]:
    lines = [f"{name:<15} {value}" for name, value in result.versions.items()]
    columns = [("sent", "the server saw", "the window got", "")]
    columns += [(row.sent, row.server, row.window, "ok" if row.ok else "NOT OK") for row in result.rows]
    widths = [max(len(line[column]) for line in columns) for column in range(3)]
    lines.append("")
    for line, problem in zip(columns, ["", *(row.problem for row in result.rows)], strict=True):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        lines.append("  ".join([*cells, line[3]]).rstrip() + (f": {problem}" if problem else ""))
    wrong = sum(not row.ok for row in result.rows)
    lines += ["", f"{len(result.rows)} kinds of input, " + (f"{wrong} did not arrive." if wrong else "all arrived.")]
    return lines
