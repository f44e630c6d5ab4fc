"""Typed text, complete and in order: runs, faults and milliseconds per 100 characters in five programs.

Each run types another mixed text (ASCII, accents, other scripts, CJK, emoji and their sequences, combining marks,
newlines, tabs) and compares it with what the program holds, while every core is kept busy. Target: no fault.

    bench_text.py [--programs xterm,tk] [--runs 200] [--long 5] [--no-load]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/desktop"))

from text_programs import PROGRAMS, first_difference, mixed_text

from pytest_cua.desktop.desktop import Desktop
from pytest_cua.desktop.waiting import now_ms

SHORT, LONG = 100, 5_000


@contextlib.contextmanager
def load(cores: int) -> Iterator[None]:
    """Keep so many cores busy during a block."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(name: str, runs: int, length: int, offset: int) -> tuple[int, list[str], list[float], list[float]]:
    """The number of runs, the faults, and the milliseconds per 100 characters to type and until they had arrived."""
    typing, arriving, faults = [], [], []
    with Desktop.start() as desktop:
        before = keyboard_map(desktop)
        holder = PROGRAMS[name](desktop)
        for run in range(runs):
            text = mixed_text(offset + run, length)
            holder.empty()
            start = now_ms()
            desktop.keyboard.type(text)
            typed = now_ms()
            got = holder.text(text)
            typing.append((typed - start) / length * 100)
            arriving.append((now_ms() - start) / length * 100)
            if got != text:
                faults.append(f"run {run}: {first_difference(got, text)}")
        if keyboard_map(desktop) != before:
            faults.append("the keyboard map is another one afterwards")
    return runs, faults, typing, arriving


def keyboard_map(desktop: Desktop) -> list[list[int]]:
    """Every key's keysyms, as the server has them."""
    with desktop.keyboard._connection.use() as display:
        low, high = display.display.info.min_keycode, display.display.info.max_keycode
        return [list(row) for row in display.get_keyboard_mapping(low, high - low + 1)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--long", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-load", action="store_true")
    options = parser.parse_args()
    head = f"{'program':<12}{'characters':>11}{'runs':>6}{'faults':>8}"
    print(f"{head}{'typed ms/100':>14}{'arrived ms/100':>16}{'worst':>8}")
    failed = False
    with contextlib.nullcontext() if options.no_load else load(os.cpu_count() or 1):
        for name in options.programs.split(","):
            for runs, length in ((options.runs, SHORT), (options.long, LONG)):
                if not runs:
                    continue
                tried, faults, typing, arriving = measure(name, runs, length, options.seed)
                failed |= bool(faults)
                median, worst = statistics.median, max(arriving)
                print(
                    f"{name:<12}{length:>11}{tried:>6}{len(faults):>8}{median(typing):>14.1f}"
                    f"{median(arriving):>16.1f}{worst:>8.0f}",
                    flush=True,
                )
                for fault in faults[:10]:
                    print(f"    {fault}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
