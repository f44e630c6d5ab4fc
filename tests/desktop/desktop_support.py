"""What several of these tests need: waiting, the probe window, and processes on the host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pytest_cua.desktop.desktop import Desktop
from pytest_cua.desktop.program import Program
from pytest_cua.desktop.waiting import wait_for

T = TypeVar("T")
PROBE = Path(__file__).with_name("probe.py")
Process = tuple[int, str]


def eventually(condition: Callable[[], T], timeout: float = 10_000) -> T:
    """Wait until a condition holds; fails when it does not."""
    value = wait_for(condition, timeout)
    assert value, f"did not hold within {timeout} ms"
    return value


def probe(desktop: Desktop) -> str:
    """The probe's script, as programs see it: this checkout may lie in a folder of which each desktop has its own."""
    desktop.file(".probe.py").copy_from(PROBE)
    return f"{desktop.home_inside}/.probe.py"


def launch_probe(desktop: Desktop, *args: object) -> Program:
    return desktop.launch("/usr/bin/python3", probe(desktop), *args)


def events(desktop: Desktop, kind: str) -> list[dict[str, Any]]:
    file = desktop.home / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def _status(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def process_tree(root: int) -> set[Process]:
    """A process and all that came of it, each with its start time, as numbers are used again."""
    parents = {}
    starts = {}
    for entry in Path("/proc").iterdir():
        fields = _status(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None:
            parents[int(entry.name)] = int(fields[1])
            starts[int(entry.name)] = fields[19]
    tree = {root} if root in parents else set()
    while True:
        grown = tree | {pid for pid, parent in parents.items() if parent in tree}
        if grown == tree:
            return {(pid, starts[pid]) for pid in tree}
        tree = grown


def alive(processes: set[Process]) -> set[Process]:
    """Those of `processes` that still run; zombies do not."""
    found = set()
    for pid, start in processes:
        fields = _status(pid)
        if fields is not None and fields[19] == start and fields[0] not in "ZX":
            found.add((pid, start))
    return found


def leftovers(display: str, root: Path) -> list[Path]:
    """What a desktop has left on the disk."""
    number = display.removeprefix(":")
    places = [Path(f"/tmp/.X11-unix/X{number}"), Path(f"/tmp/.X{number}-lock"), root]
    return [place for place in places if place.exists()]
