"""Text arrives complete and in order in programs of every toolkit; `benchmarks/bench_text.py` does the same for longer.

Ground truth is the file that the program saves, or the value that the page holds.
"""

from __future__ import annotations

import pytest
from text_programs import KINDS, PROGRAMS, first_difference, mixed_text

from pytest_cua.desktop.desktop import Desktop

SHORT_RUNS = 3


def keyboard_map(desktop: Desktop) -> list[list[int]]:
    with desktop.keyboard._connection.use() as display:
        low, high = display.display.info.min_keycode, display.display.info.max_keycode
        return [list(row) for row in display.get_keyboard_mapping(low, high - low + 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_mixed_texts_arrive_whole_and_the_keyboard_is_as_before(desktop: Desktop, name: str) -> None:
    before = keyboard_map(desktop)
    program = PROGRAMS[name](desktop)
    for text in [*(mixed_text(seed, 100) for seed in range(SHORT_RUNS)), mixed_text(SHORT_RUNS, 400)]:
        program.empty()
        desktop.keyboard.type(text)
        assert first_difference(program.text(text), text) == ""
    assert keyboard_map(desktop) == before


def test_a_long_text_arrives_whole(desktop: Desktop) -> None:
    program = PROGRAMS["mousepad"](desktop)
    text = mixed_text(7, 2_000)
    program.empty()
    desktop.keyboard.type(text)
    assert first_difference(program.text(text, 30_000), text) == ""


def test_the_texts_hold_every_kind_of_character() -> None:
    drawn = mixed_text(1, 5_000)
    for kind, characters in KINDS.items():
        assert any(character in drawn for character in characters), kind
    assert mixed_text(5, 100).startswith("-")


def test_a_single_key_that_the_layout_lacks_leaves_no_trace(desktop: Desktop) -> None:
    program = PROGRAMS["mousepad"](desktop)
    before = keyboard_map(desktop)
    program.empty()
    desktop.keyboard.press("é", repeat=3)
    desktop.keyboard.press("漢")
    assert keyboard_map(desktop) == before
    assert program.text("ééé漢") == "ééé漢"


def test_a_program_that_does_not_read_keeps_its_meanings_until_it_has(desktop: Desktop, monkeypatch) -> None:
    """What a slow program will look up later must not be taken away from it."""
    from pytest_cua.desktop import keyboard

    monkeypatch.setattr(keyboard, "_READING", 100.0)
    monkeypatch.setattr(keyboard, "_READING_LONG", 100.0)
    program = PROGRAMS["mousepad"](desktop)
    before = keyboard_map(desktop)
    program.empty()
    [pid] = [pid for pid, argv in desktop.processes() if "mousepad" in argv[0]]
    signal(desktop, pid, "STOP")
    desktop.keyboard.type("é漢")
    assert keyboard_map(desktop) != before
    signal(desktop, pid, "CONT")
    assert program.text("é漢") == "é漢"
    assert keyboard_map(desktop) == before  # at the next key, which saved the file


def signal(desktop: Desktop, pid: int, name: str) -> None:
    desktop.launch("kill", f"-{name}", pid, wait=False).wait()
