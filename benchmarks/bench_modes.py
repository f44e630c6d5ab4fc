"""Wall time per action: record against replay against offline, of one test in one run, as ratios.

The scripted Claude answers at once, so `record` is what recording costs beside the model's own time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST = "tests/examples/test_invoice.py::test_total_of_several_lines"
ROUNDS = 5


def seconds(mode: str, cassettes: str) -> tuple[float, int]:
    """The time of the test's function, and how many actions it took."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST, f"--cua-mode={mode}"]
        options = [f"--junitxml={report}", "-o", f"cua_cassette_dir={cassettes}", "-o", "junit_duration_report=call"]
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True, env=environment)
        case = next(ET.parse(report).iter("testcase"))
        actions = [p.get("value") for p in case.iter("property") if p.get("name") == "cua_actions"]
        return float(case.get("time", "nan")), int(actions[0] or 0)


def main() -> None:
    with tempfile.TemporaryDirectory() as cassettes:
        seconds("record", cassettes)  # a first run that fills caches and makes the cassette
        times: dict[str, list[float]] = {"record": [], "replay": [], "offline": []}
        actions = 0
        for _ in range(ROUNDS):
            for mode, taken in times.items():
                spent, actions = seconds(mode, cassettes)
                taken.append(spent)
    medians = {mode: statistics.median(taken) for mode, taken in times.items()}
    print(f"{TEST}: {actions} actions, median of {ROUNDS} rounds")
    for mode, median in medians.items():
        print(f"  {mode:8} {median / actions * 1000:7.1f} ms per action   {median / medians['record']:.2f} of record")


if __name__ == "__main__":
    main()
