"""Going on with a recording from one of its steps: what was paid for is not paid for again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import pathlib
ASKED = pathlib.Path(__file__).parent / "asked"

def noting(request):
    ASKED.open("a").write(request.sentence + "\\n")
    yield use("screenshot")
    yield turn(use("key", text="ctrl+End"), use("type", text=request.sentence[-1] + "\\n"), use("key", text="ctrl+s"))
    yield use("screenshot")
    yield finish("Typed " + request.sentence[-1])

SCRIPT = {"": noting}
"""
BODY = """
cua.desktop.file("a.txt").write("")
cua.desktop.launch("mousepad", "a.txt")
cua.do("Type and save A")
cua.do("Type and save B")
cua.do("Type and save C")
expect(cua.desktop.file("a.txt")).to_have_text("A\\nB\\nC\\n", timeout=500)
"""


def asked(project: Any) -> list[str]:
    file = project.path / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return [line[-1] for line in lines]


def paid_for(result: Any) -> int:
    """The tokens that the summary of a run counts."""
    return int(re.search(r"(\d+) tokens in, ", result.stdout.str())[1])


def test_a_flow_is_not_paid_for_again_either(project: Any) -> None:
    flow = "@pytest_cua.flow\ndef begin(cua):\n    cua.do('Type and save F')\n"
    body = BODY.replace('cua.do("Type and save A")', "begin(cua)").replace('"A\\n', '"F\\n')
    project.script(SCRIPT)
    project.steps(body, head=flow)
    project.record().assert_outcomes(passed=1)
    assert asked(project) == ["F", "B", "C"]
    project.record("--cua-from-step=2").assert_outcomes(passed=1)
    assert asked(project) == ["C"]
    project.run().assert_outcomes(passed=1)


def cassette(project: Any) -> list[dict[str, Any]]:
    path: Path = project.folder("test_it", "test_it") / "cassette.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recording_that_broke_off_goes_on_where_it_broke(project: Any) -> None:
    broken = SCRIPT.replace(
        "    yield use", '    if request.sentence[-1] == "C":\n        yield error(400, "bad", "no")\n    yield use', 1
    )
    project.script(broken)
    project.steps(BODY)
    output = project.record()
    output.assert_outcomes(failed=1)
    assert asked(project) == ["A", "B", "C"]
    project.script(SCRIPT)
    kept = project.folder("test_it", "test_it") / ".failed" / "cassette.jsonl"
    first = [json.loads(line) for line in kept.read_text().splitlines()]
    result = project.record("--cua-from-step=3")
    result.assert_outcomes(passed=1)
    assert asked(project) == ["C"]
    assert paid_for(result) < paid_for(output)  # one step of them, not three
    lines = cassette(project)
    turns = [(line["step"], line["reply"]["body"]["id"]) for line in lines if line["type"] == "turn"]
    paid = [
        (line["step"], line["reply"]["body"]["id"]) for line in first if line["type"] == "turn" and line["step"] < 3
    ]
    assert [turn for turn in turns if turn[0] < 3] == paid
    assert [line["outcome"] for line in lines if line["type"] == "end"] == ["done"] * 3
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    assert asked(project) == []


def test_a_cassette_is_recorded_again_from_a_step_on(project: Any) -> None:
    project.script(SCRIPT)
    project.steps(BODY)
    project.record().assert_outcomes(passed=1)
    asked(project)
    project.steps(BODY.replace("save C", "save X").replace("C\\n", "X\\n"))
    project.run("--cua-mode=offline").assert_outcomes(failed=1)
    project.record("--cua-from-step=3").assert_outcomes(passed=1)
    assert asked(project) == ["X"]
    project.run().assert_outcomes(passed=1)


def test_what_is_taken_over_must_still_fit(project: Any) -> None:
    project.script(SCRIPT)
    project.steps(BODY)
    project.record().assert_outcomes(passed=1)
    before = (project.folder("test_it", "test_it") / "cassette.jsonl").read_bytes()
    asked(project)
    project.steps(BODY.replace("save A", "save Q"))
    result = project.record("--cua-from-step=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*likely: a sentence was edited*"])
    opened = re.search(r"CassetteMismatch: (\S+cassette\.jsonl): step 1 ", result.stdout.str())
    assert opened is not None
    assert Path(opened[1]).read_bytes() == before
    assert asked(project) == []
    # and the screen is checked as in a replay
    project.steps(BODY.replace('write("")', 'write("something else")'))
    result = project.record("--cua-from-step=3", "-o", "cua_drift_timeout=500")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScreenDrift*"])
    assert asked(project) == []
    assert (project.folder("test_it", "test_it") / "cassette.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--cua-mode=record", "--cua-from-step=5"),
            "--cua-from-step=5 goes on with a recording of test_it.py::test_it",
        ),
        (("--cua-from-step=2",), "--cua-from-step goes with --cua-mode=record, not with replay"),
        (("--cua-mode=record", "--cua-from-step=x"), "--cua-from-step: 'x' is no value for it"),
    ],
)
def test_a_step_that_cannot_be_gone_on_from(project: Any, arguments: tuple[str, ...], message: str) -> None:
    project.script(SCRIPT)
    project.steps(BODY)
    if "5" in arguments[-1]:
        project.record().assert_outcomes(passed=1)
    code, output = project.output(*arguments)
    assert code != 0
    assert message in output


def test_what_a_killed_run_left_is_named_where_it_was_put(project: Any) -> None:
    project.script(SCRIPT)
    project.steps(BODY)
    project.record().assert_outcomes(passed=1)
    folder = project.folder("test_it", "test_it")
    (folder / ".recording").mkdir()
    (folder / "cassette.jsonl").rename(folder / ".recording/cassette.jsonl")
    project.steps(BODY.replace("save A", "save Q"))
    result = project.record("--cua-from-step=3")
    result.assert_outcomes(failed=1)
    assert f"CassetteMismatch: {folder}/.failed/cassette.jsonl: step 1 " in result.stdout.str()
    assert (folder / ".failed/cassette.jsonl").exists()


def test_a_picture_that_a_message_names_can_be_opened(project: Any) -> None:
    project.script(
        SCRIPT.replace(
            "    yield use", '    if request.sentence[-1] == "C":\n        yield error(400, "", "")\n    yield use', 1
        )
    )
    project.steps(BODY)
    project.record().assert_outcomes(failed=1)
    project.steps(BODY.replace('write("")', 'write("something else")'))
    result = project.record("--cua-from-step=3", "-o", "cua_drift_timeout=500")
    result.assert_outcomes(failed=1)
    shown = re.search(r"ScreenDrift(?:.*\n)*?.*recorded: (\S+\.webp)", result.stdout.str())
    assert shown is not None
    assert Path(shown[1]).is_relative_to(project.folder("test_it", "test_it") / ".failed")
    assert Path(shown[1]).exists()


UNITTEST = """
import os, unittest, pytest
from pytest_cua import expect

class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _take(self, cua):
        self.cua = cua

    def test_it(self):
        self.cua.desktop.file("a").write("x")
        self.cua.do("Look")
        expect(self.cua.desktop.file("a")).to_have_text("x")
        self.assertEqual(WANTED, "x")

def test_parts(cua, subtests):
    cua.desktop.file("a").write("x")
    cua.do("Look")
    with subtests.test("part"):
        assert WANTED == cua.desktop.file("a").read_text()
"""


def test_a_failure_that_only_a_report_shows_keeps_the_recording_aside(project: Any) -> None:
    project.steps("pass")
    project.write(test_it="WANTED = 'x'\n" + UNITTEST)
    assert project.record().ret == 0
    files = [project.folder(name, "test_it") / "cassette.jsonl" for name in ("TestIt.test_it", "test_parts")]
    before = [file.read_bytes() for file in files]
    project.write(test_it="WANTED = 'y'\n" + UNITTEST)
    assert project.record().ret == 1
    assert [file.read_bytes() for file in files] == before
    assert all((file.parent / ".failed" / "cassette.jsonl").exists() for file in files)


def test_a_recording_with_fewer_finished_steps_does_not_take_the_place_of_a_kept_one(project: Any) -> None:
    project.script(SCRIPT)
    project.steps(BODY.replace('"A', '"other A'))
    project.record().assert_outcomes(failed=1)
    kept = project.folder("test_it", "test_it") / ".failed" / "cassette.jsonl"
    before = kept.read_bytes()
    project.script(
        SCRIPT.replace(
            "    yield use",
            '    if request.sentence[-1] == "B":\n        yield error(400, "bad", "no")\n    yield use',
            1,
        )
    )
    project.record().assert_outcomes(failed=1)
    assert kept.read_bytes() == before
    project.steps(BODY.replace("save A", "save Q"))
    project.record("--cua-from-step=3").assert_outcomes(failed=1)
    assert kept.read_bytes() == before
