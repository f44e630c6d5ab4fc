"""Turns and money end a step in time while it is recorded, and a replay, which pays nothing, is never ended by them."""

from __future__ import annotations

from typing import Any

import pytest

SCRIPTS = """
import pathlib

def together(request):
    while True:
        yield turn(use("screenshot"), finish("It is done."))

def unknown(request):
    while True:
        yield finish("It went wrong.", outcome="failed")

def at_once(request):
    yield finish("It was done before.")

def dear(request):
    yield turn(use("screenshot"), usage={"input_tokens": 600000, "output_tokens": 1})
    yield finish("Seen.")

SCRIPT = {name: globals()[name] for name in ("together", "unknown", "at_once", "dear")}

@pytest.fixture
def cua_client(request):
    with ScriptedClaude(SCRIPT) as claude:
        yield anthropic.Anthropic(api_key=KEY, base_url=claude.base_url, max_retries=0)
        with (pathlib.Path(__file__).parent / "asked").open("a") as asked:
            asked.write(f"{len(claude.requests)}\\n")
"""

DEAR = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_dear(cua, number):
    cua.do("dear")
    assert cua.desktop.windows() == []
"""


def asked(project: Any) -> list[int]:
    """How many requests each test made since the last call."""
    file = project.path / "asked"
    counts = [int(line) for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return counts


@pytest.mark.parametrize("script", ["together", "unknown"])
def test_a_refused_end_counts_as_a_turn(project: Any, script: str) -> None:
    project.script(SCRIPTS)
    project.steps(f'cua.do("{script}", max_turns=3)\nassert cua.desktop.windows() == []')
    result = project.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"E *pytest_cua.StepFailed: Claude did not finish step 1 '{script}' within 3 turns.*", f"✗ 1. {script} (3 t*"]
    )
    assert asked(project) == [3]
    assert not (project.folder("test_it", "test_it") / "cassette.jsonl").exists()


def test_one_turn_is_enough_for_a_reply_that_ends(project: Any) -> None:
    project.script(SCRIPTS)
    project.steps('assert cua.do("at_once").text == "It was done before."\nassert cua.desktop.windows() == []')
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}", "-o", "cua_max_turns=1").assert_outcomes(passed=1)
    assert asked(project) == [1]


def test_a_replay_pays_nothing(project: Any) -> None:
    project.script(SCRIPTS)
    project.write(test_note=DEAR)
    project.record("-o", "cua_max_cost=5").assert_outcomes(passed=2)
    assert asked(project) == [2, 2]
    for cassette in (project.path / "cassettes/test_note").iterdir():
        assert project.lines(cassette.name)[-1]["usage"]["cost_usd"] > 1
    project.run().assert_outcomes(passed=2)
    project.run("-o", "cua_max_cost_run=0.5", "-o", "cua_max_cost=0.01").assert_outcomes(passed=2)
    project.run("--cua-mode=offline", "-o", "cua_max_cost_run=0.5").assert_outcomes(passed=2)
    assert asked(project) == []


@pytest.mark.parametrize(
    ("options", "message", "counts"),
    [
        ((), "was stopped: the test has cost 1.2* USD of at most 1.00.", [1, 1]),
        # the second test is not even begun: the run has nothing left
        (
            ("-o", "cua_max_cost=5", "-o", "cua_max_cost_run=0.5"),
            "was stopped: the run has cost 1.2* USD of at most 0.50.",
            [1, 0],
        ),
    ],
    ids=["test", "run"],
)
def test_money_ends_a_step_while_recording(
    project: Any, options: tuple[str, ...], message: str, counts: list[int]
) -> None:
    project.script(SCRIPTS)
    project.write(test_note=DEAR)
    result = project.record(*options)
    result.assert_outcomes(failed=2)
    name = options[-1].partition("=")[0] if options else "cua_max_cost"
    result.stdout.fnmatch_lines(
        [f"E *pytest_cua.StepFailed: Step 1 'dear' {message}", f"E *hint: raise the limit with -o {name}=AMOUNT*"] * 2
    )
    assert asked(project) == counts
    assert not list((project.path / "cassettes").glob("*/*/cassette.jsonl"))
