"""`./dev demo`: what a suite of computer-use tests catches, and what it leaves alone.

It replays the example tests on live desktops; then against programs that lie, one lie at a time; then against programs
that changed harmlessly; then from the recordings alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = "tests/examples"
FILES = {"invoice": f"{EXAMPLES}/test_invoice.py", "shop": f"{EXAMPLES}/test_shop.py"}
LIES = {
    "invoice:save": "Save does nothing and shows 'Saved'",
    "invoice:total": "the total leaves a line out",
    "invoice:button": "the Save button is gone",
    "invoice:label": "a label is changed",
    "invoice:field": "the customer is not stored",
    "shop:order": "the order is confirmed, not stored",
    "shop:total": "the total is wrong",
    "shop:quantity": "the quantity is ignored",
}
HARMLESS = {
    "invoice:window": "the window opens elsewhere",
    "invoice:slow": "everything comes 3 s later",
    "invoice:date": "another date",
    "invoice:list": "a longer list of old invoices",
    "shop:slow": "each page comes 3 s later",
}
CAP_USD = 0.50  # what `--record` may spend
WIDTH = 58


@dataclass(frozen=True)
class Result:
    """What one run of pytest said of each test: its outcome and the text of a failure or skip."""

    outcomes: dict[str, tuple[str, str]]
    failures: list[str]  # each in full

    def of(self, outcome: str) -> list[str]:
        return [text for kind, text in self.outcomes.values() if kind == outcome]


def run(*arguments: str, **environment: str) -> Result:
    """Run pytest in a process of its own and read its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={report}", *arguments]
        done = subprocess.run(
            [*command, "-o", f"cua_artifacts_dir={folder}/artifacts"],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise SystemExit(f"demo: pytest did not run:\n{done.stdout}{done.stderr}")
        failures = [child.text or "" for child in ET.parse(report).iter("failure")]
        return Result(dict(_outcomes(report)), failures)


def _outcomes(report: Path) -> Iterable[tuple[str, tuple[str, str]]]:
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        found = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if found is None:
            yield name, ("passed", "")
        else:
            yield name, (found.tag, found.get("message") or found.text or "")


def first_sentence(message: str) -> str:
    """The first sentence of a failure, without the class of the error."""
    text = " ".join(message.split())
    text = text.removeprefix("pytest_cua.")
    return textwrap.shorten(text.split(". ")[0], 230, placeholder=" ...")


def say(text: str = "") -> None:
    print(text, flush=True)


def replay() -> Result:
    say("1. Replaying the example tests on live desktops (no key, no model) ...")
    started = time.monotonic()
    result = run(EXAMPLES)
    passed = len(result.of("passed"))
    say(f"   {passed} of {len(result.outcomes)} passed in {time.monotonic() - started:.0f} s")
    for name, (kind, text) in result.outcomes.items():
        if kind != "passed":
            say(f"   {kind}: {name}: {first_sentence(text)}")
    return result


def changed(option: str, names: dict[str, str], *settings: str) -> dict[str, Result]:
    """The example tests of a program, against it with one change at a time; two at once."""

    def one(name: str) -> Result:
        result = run(FILES[name.partition(":")[0]], *settings, **{f"EXAMPLES_{option}": name})
        failed = len(result.of("failure")) + len(result.of("error"))
        say(f"   {name:16} {names[name]:40} {'red' if failed else 'green'}")
        return result

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def columns(left: list[str], right: list[str]) -> None:
    """Two columns of wrapped text."""
    rows = zip_longest(*(wrapped(column) for column in (left, right)), fillvalue="")
    for a, b in rows:
        say(f"   {a:{WIDTH}}  {b}".rstrip())


def wrapped(lines: list[str]) -> list[str]:
    return [part for line in lines for part in (textwrap.wrap(line, WIDTH - 1, subsequent_indent="    ") or [""])]


def is_red(result: Result) -> bool:
    return bool(result.of("failure") or result.of("error"))


def why(result: Result) -> str:
    return first_sentence((result.of("failure") + result.of("error"))[0])


def compare() -> tuple[int, int, dict[str, Result]]:
    say("\n2. The same tests against programs that lie ...")
    lies = changed("BREAK", LIES, "-o", "cua_drift_timeout=5000", "-o", "cua_timeout=2000")
    say("\n3. ... and against programs that changed harmlessly ...")
    harmless = changed("VARY", HARMLESS)
    caught = [name for name, result in lies.items() if is_red(result)]
    cried = [name for name, result in harmless.items() if is_red(result)]
    say()
    left = [f"LIES CAUGHT: {len(caught)} of {len(LIES)}", ""]
    for name, result in lies.items():
        left.append(f"{'caught' if name in caught else 'MISSED'}  {name}: {LIES[name]}")
        left += [f"    {why(result)}"] if name in caught else []
    right = [f"HARMLESS CHANGES THAT TURNED RED: {len(cried)} of {len(HARMLESS)}", ""]
    for name, result in harmless.items():
        right.append(f"{'RED  ' if name in cried else 'green'}  {name}: {HARMLESS[name]}")
        right += [f"    {why(result)}"] if name in cried else []
    if cried:
        right += [
            "",
            "Red here is honest: this version compares whole screens strictly outside of excluded areas. "
            "Checks of the target of each action come with a later version.",
        ]
    columns(left, right)
    return len(caught), len(cried), lies


def show_drift(lies: dict[str, Result]) -> None:
    say("\n4. One failure in full (invoice:label), as pytest prints it:\n")
    message = next(
        (text for text in lies["invoice:label"].failures if "ScreenDrift" in text), "(no drift was reported)"
    )
    say(textwrap.indent(message.replace(f"{ROOT}/", ""), "   | "))


def offline() -> Result:
    say("\n5. From the recordings alone: no display, no programs, application not exercised ...")
    result = run(EXAMPLES, "--cua-mode=offline", DISPLAY="")
    passed, skipped = result.of("passed"), result.of("skipped")
    say(f"   {len(passed)} of {len(result.outcomes)} passed, {len(skipped)} skipped")
    for text in skipped:
        say(f"   skipped: {first_sentence(text)}")
    return result


def record() -> int:
    """Record one test with the real model, into a folder of its own."""
    if not os.environ.get("ANTHROPIC_API_KEY"):
        say("demo: --record asks the real model and needs a key: export ANTHROPIC_API_KEY=..., then run it again.")
        return 1
    folder = tempfile.mkdtemp(prefix="pytest-cua-demo-")
    say(f"Recording {EXAMPLES}/test_mousepad.py::test_invoice_total with the real model, at most {CAP_USD:.2f} USD ...")
    command = [sys.executable, "-m", "pytest", "-q", f"{EXAMPLES}/test_mousepad.py::test_invoice_total"]
    options = ["--cua-mode=record", "-o", f"cua_cassette_dir={folder}", "-o", f"cua_max_cost={CAP_USD}"]
    done = subprocess.run([*command, *options], cwd=ROOT, env={**os.environ, "EXAMPLES_REAL_MODEL": "1"}, check=False)
    say(f"The recording is in {folder}" if done.returncode == 0 else "The recording did not succeed; see above.")
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="record one test with the real model (needs a key)")
    options = parser.parse_args()
    if options.record:
        return record()
    started = time.monotonic()
    live = replay()
    caught, _, lies = compare()
    show_drift(lies)
    recorded = offline()
    ok = (
        len(live.of("passed")) == len(live.outcomes)
        and caught == len(LIES)
        and 2 * len(recorded.of("passed")) >= len(recorded.outcomes)
        and not is_red(recorded)
    )
    verdict = "done" if ok else "NOT as it should be"
    say(f"\nDemo {verdict} in {time.monotonic() - started:.0f} s: {caught} of {len(LIES)} lies caught.")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
