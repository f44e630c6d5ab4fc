"""Recordings that are old, or made with a model that goes: a warning, or a failure, counted from the recording."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out

from suite_support import days_ago

from pytest_cua.cassette.format import load
from pytest_cua.cassette.suite import move, rewrite

STEPS = """
cua.do("Look at the screen")
cua.desktop.file("a.txt").write("x")
expect(cua.desktop.file("a.txt")).to_have_text("x")
"""
FLOW = """
@pytest_cua.flow
def look(cua):
    cua.do("Look at all of it")
"""
TEST = "test_it.py::test_it"

kept: dict[str, Path] = {}


class Aged:
    """A project with one recording, whose header is written anew."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.root: Path = project.path / "cassettes"

    def header(self, test: str = "test_it/test_it", **facts: Any) -> None:
        folder = self.root / test
        rewrite(folder, folder, self.root, lambda line: {**line, **facts} if line["type"] == "header" else line)

    def offline(self, *arguments: str) -> Any:
        return self.project.run("--cua-mode=offline", *arguments)


@pytest.fixture
def aged(project: Any, tmp_path_factory: pytest.TempPathFactory) -> Aged:
    project.steps(f"look(cua)\n{STEPS}", head=FLOW)
    made = Aged(project)
    if not kept:
        project.record().assert_outcomes(passed=1)
        kept["cassettes"] = tmp_path_factory.mktemp("aged") / "cassettes"
        shutil.copytree(made.root, kept["cassettes"])
    else:
        shutil.copytree(kept["cassettes"], made.root)
    return made


def old(aged: Aged, days: int, of: int) -> str:
    return (
        f"CuaWarning: {aged.root}/test_it/test_it/cassette.jsonl was recorded {days} days ago, and cua_max_age is {of} "
        f"days. record it again: pytest --cua-mode=record {TEST}"
    )


def test_a_recording_warns_from_its_age_on_and_passes(aged: Aged) -> None:
    aged.header(recorded_at=days_ago(30))
    for mode in ("offline", "replay"):
        result = aged.project.run(f"--cua-mode={mode}", "-o", "cua_max_age=30d")
        result.assert_outcomes(passed=1, warnings=1)
        assert old(aged, 30, 30) in result.stdout.str()
    aged.offline("-o", "cua_max_age=31d").assert_outcomes(passed=1, warnings=0)
    aged.offline().assert_outcomes(passed=1, warnings=0)


def test_a_recording_that_is_too_old_fails_when_that_is_asked_for(aged: Aged) -> None:
    aged.header(recorded_at=days_ago(30))
    for mode in ("offline", "replay"):
        result = aged.project.run(f"--cua-mode={mode}", "-o", "cua_max_age=4w fail")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(
            [
                f"*CassetteUnreadable: {aged.root}/test_it/test_it/cassette.jsonl was recorded 30 days ago, and "
                "cua_max_age is 28 days.",
                f"E *hint: record it again: pytest --cua-mode=record {TEST}",
            ]
        )
    aged.offline("-o", "cua_max_age=31d fail").assert_outcomes(passed=1)


def test_a_flow_that_is_too_old_fails_its_user(aged: Aged) -> None:
    aged.header("flows/test_it/look", recorded_at=days_ago(30))
    result = aged.offline("-o", "cua_max_age=30d fail")
    result.assert_outcomes(failed=1)
    assert f"{aged.root}/flows/test_it/look/cassette.jsonl was recorded 30 days ago" in result.stdout.str()
    assert "pytest --cua-mode=record flows" not in result.stdout.str()  # no test is called so


def test_a_marker_stands_above_the_settings_and_those_above_the_environment(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged.header(recorded_at=days_ago(30))
    monkeypatch.setenv("PYTEST_CUA_MAX_AGE", "30 days fail")
    aged.offline().assert_outcomes(errors=1)
    aged.offline("-o", "cua_max_age=40d fail").assert_outcomes(passed=1)
    aged.project.steps(f"look(cua)\n{STEPS}", head=f'{FLOW}\n@pytest.mark.cua(max_age="3 weeks, fail")')
    aged.offline("-o", "cua_max_age=40d").assert_outcomes(errors=1)
    aged.project.steps(f"look(cua)\n{STEPS}", head=f'{FLOW}\n@pytest.mark.cua(max_age="90d")')
    aged.offline("-o", "cua_max_age=1d fail").assert_outcomes(passed=1, warnings=0)


@pytest.mark.parametrize("text", ["soon", "90", "-3d", "0d", "90d later", "1.5w", "d", "90d fail warn"])
def test_an_age_that_cannot_be_meant_so_ends_the_run(aged: Aged, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = f"{text!r} is no value for it: it is " + (
        "at least one day" if text == "0d" else "a number of days or weeks"
    )
    result = aged.offline("-o", f"cua_max_age={text}")
    assert result.ret == 4
    assert f"ini cua_max_age: {told}" in result.stderr.str()
    monkeypatch.setenv("PYTEST_CUA_MAX_AGE", text)
    assert f"PYTEST_CUA_MAX_AGE: {told}" in aged.offline().stderr.str()
    monkeypatch.delenv("PYTEST_CUA_MAX_AGE")
    aged.project.steps(STEPS, head=f'@pytest.mark.cua(max_age="{text}")')
    result = aged.offline()
    assert result.ret == 4
    assert f"{TEST}: @pytest.mark.cua(max_age=...): {told}" in result.stderr.str()


def test_it_is_counted_from_the_recording_whatever_was_done_with_it_since(aged: Aged) -> None:
    aged.header(recorded_at=days_ago(30))
    move(aged.root, TEST, "test_it.py::test_other")
    move(aged.root, "test_it.py::test_other", TEST)
    shutil.copytree(aged.root / "test_it/test_it", aged.root / "copy")
    shutil.rmtree(aged.root / "test_it/test_it")
    (aged.root / "copy").rename(aged.root / "test_it/test_it")
    aged.offline("-o", "cua_max_age=30d fail").assert_outcomes(errors=1)


def test_recording_again_makes_it_young(aged: Aged) -> None:
    aged.header(recorded_at=days_ago(30))
    aged.project.record("-o", "cua_max_age=1d fail").assert_outcomes(passed=1, warnings=0)
    assert load(aged.root / "test_it/test_it").header["recorded_at"] > days_ago(1)


@pytest.mark.parametrize("mode", ["offline", "replay"])
def test_a_model_that_goes_warns(aged: Aged, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from anthropic.resources.messages import DEPRECATED_MODELS

    model = load(aged.root / "test_it/test_it").header["model"]
    monkeypatch.setitem(DEPRECATED_MODELS, model, "January 5th, 2026")
    result = aged.project.run(f"--cua-mode={mode}")
    result.assert_outcomes(passed=1, warnings=2)  # and none of the SDK, which nobody asks
    assert result.stdout.str().count("CuaWarning: ") == 2  # of the test and of the flow
    assert (
        f"cassette.jsonl was recorded with {model}, which is not offered since 2026-01-05. "
        f"record it again: pytest --cua-mode=record --cua-model=MODEL {TEST}"
    ) in result.stdout.str()
    newer = aged.project.run(f"--cua-mode={mode}", "--cua-model=claude-opus-5").stdout.str()
    assert f"record it again: pytest --cua-mode=record --cua-model=claude-opus-5 {TEST}" in newer
    flow = f"rm -r {aged.root}/flows/test_it/look, then pytest --cua-record --cua-model=claude-opus-5 with a test"
    assert f"record it again: {flow} that uses it" in newer
    monkeypatch.setitem(DEPRECATED_MODELS, model, "January 5th, 2199")
    assert "which is offered until 2199-01-05" in aged.project.run(f"--cua-mode={mode}").stdout.str()


def test_a_warning_can_be_made_an_error_as_any_other(aged: Aged) -> None:
    aged.header(recorded_at=days_ago(30))
    result = aged.offline("-o", "cua_max_age=30d", "-W", "error::pytest_cua.errors.CuaWarning")
    result.assert_outcomes(errors=1)
