"""Steps wherever a test may give them, and what a test gets back from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

MODES = ("record", "replay", "offline")


def everywhere(project: Any, modes: tuple[str, ...] = MODES, **outcomes: int) -> None:
    """Record, then replay and run from the recording alone, with the same outcome."""
    for mode in modes:
        project.run(f"--cua-mode={mode}").assert_outcomes(**(outcomes or {"passed": 1}))


def sentences(project: Any, test: str = "test_it") -> list[str]:
    return [line["sentence"] for line in project.lines(test, "test_it") if line["type"] == "step"]


def test_steps_in_loops_helpers_and_fixtures(project: Any) -> None:
    project.steps(
        """
        for number in range(2):
            cua.do(f"Look {number}")
        twice(cua)
        assert opened.text == "Seen."
        assert cua.desktop.windows() == []
        """,
        head="""
        @pytest.fixture
        def opened(cua):
            return cua.do("Look in a fixture")

        def twice(cua):
            cua.do("Look in a helper")
        """,
        arguments="opened, cua",
    )
    everywhere(project)
    assert sentences(project) == ["Look in a fixture", "Look 0", "Look 1", "Look in a helper"]
    # each is a conversation of its own, which opens with what was done before
    opening = [
        line["request"]["new"][0]["content"]
        for line in project.lines("test_it", "test_it")
        if line.get("turn") == 1 and line["type"] == "turn"
    ]
    assert [block["text"] for block in opening[0]] == ["Look in a fixture"]
    assert [block["text"] for block in opening[2]] == [
        "These steps of the test are already done:\n1. Look in a fixture\n2. Look 0",
        "Look 1",
    ]


ROWS = """
import pytest

@pytest.mark.parametrize("word", ["a/b", "../x", "ünï", "a b", "{w}", "x" * 300, ".", ""], ids=lambda w: w or "empty")
def test_row(cua, word):
    cua.do("Look for {word}", params={"word": word})
    assert cua.desktop.windows() == []

class TestShop:
    class TestCart:
        def test_total(self, cua):
            cua.do("Look")
            assert cua.desktop.windows() == []
"""


def test_rows_and_methods_have_cassettes_of_their_own(project: Any) -> None:
    project.write(test_note=ROWS)
    project.record().assert_outcomes(passed=9)
    cassettes = sorted((project.path / "cassettes").rglob("cassette.jsonl"))
    assert len(cassettes) == 9
    assert {path.parents[1] for path in cassettes} == {project.path / "cassettes/test_note"}
    assert (project.path / "cassettes/test_note/TestShop.TestCart.test_total/cassette.jsonl") in cassettes
    assert len({json.loads(path.read_text().splitlines()[0])["test"] for path in cassettes}) == 9
    assert not (project.path.parent / "x").exists()
    project.run("--cua-mode=offline").assert_outcomes(passed=9)
    code, output = project.output("-n2", "-v")
    assert code == 0, output
    assert "9 passed" in output
    assert output.count("cua: replay") == 1


def test_recording_with_xdist_reports_once(project: Any) -> None:
    project.write(test_note=ROWS)
    code, output = project.output("-n2", "--cua-mode=record", "-k", "empty or total")
    assert code == 0, output
    told = [line.partition(" (")[0] for line in output.splitlines() if line.startswith("recorded ")]
    assert sorted(line.rpartition("/")[2] for line in told) == [
        "TestShop.TestCart.test_total",
        next(path.name for path in (project.path / "cassettes/test_note").iterdir() if "empty" in path.name),
    ]
    assert "tokens in" in output


def test_two_desktops_in_one_test(project: Any) -> None:
    project.steps(
        """
        other = desktop_factory("other", size=(640, 480))
        cua.do("Look here")
        result = cua.do("Look there", desktop=other)
        assert result.screenshots[0].size == (640, 480)
        cua.desktop.file("a.txt").write("here")
        other.file("a.txt").write("there")
        assert cua.desktop.file("a.txt").read_text() == "here"
        assert other.file("a.txt").read_text() == "there"
        """,
        arguments="cua, desktop_factory",
    )
    everywhere(project)
    steps = [line["desktop"] for line in project.lines("test_it", "test_it") if line["type"] == "step"]
    assert steps == ["1", "other"]
    text = (project.path / "test_it.py").read_text()
    project.write(
        test_it=text.replace('"Look there", desktop=other', '"Look there"').replace(
            "(640, 480)\n    cua.d", "(1280, 800)\n    cua.d"
        )
    )
    result = project.run("--cua-mode=offline")
    result.stdout.fnmatch_lines(["*CassetteMismatch*'do' on desktop 1; recorded was a 'do' on desktop other*"])


def test_reruns_start_afresh_and_report_once(project: Any) -> None:
    project.steps(
        """
        cua.do("Look")
        (pathlib.Path(__file__).parent / "seen").open("a").write("x")
        cua.desktop.file("a.txt").write((pathlib.Path(__file__).parent / "seen").read_text())
        expect(cua.desktop.file("a.txt")).to_have_text("xx", timeout=100)
        """,
        head="import pathlib",
    )
    result = project.record("--reruns=2")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "recorded *test_it (*)",
            "kept aside (the test failed): *.failed",
            "*1 passed, 1 rerun*",
        ]
    )
    folder = project.folder("test_it", "test_it")
    assert (folder / "cassette.jsonl").exists()
    assert (folder / ".failed/cassette.jsonl").exists()
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_a_declined_action_is_told_to_claude_who_goes_on(project: Any) -> None:
    project.script(
        """
def press(request):
    request = yield use("key", text="ctrl+q")
    request = yield use("type", text="a")
    yield finish("Told: " + str(request.last_error))

def refuse(request):
    request = yield use("key", text="ctrl+q")
    yield finish("Told: " + str(request.last_error))

SCRIPT = {"quit": refuse, "": press}

@pytest.fixture
def cua_confirm():
    return lambda context: context.tool_use.name != "key"
"""
    )
    project.steps(
        """
        result = cua.do("quit")
        assert result.text.startswith("Told: ")
        assert result.text != "Told: None"
        assert result.actions == []
        assert [a.name for a in cua.do("Press").actions] == ["type"]
        assert cua.desktop.windows() == []
        """
    )
    everywhere(project)


OPINION = """
def opinion(request):
    assert request.screenshot.size == (1280, 800)
    return use_tool("give_opinion", holds="empty" in request.sentence, reason="I see the screen.")

SCRIPT = {"screen is": opinion, "": look}
"""


def test_an_opinion_is_recorded_and_replayed(project: Any) -> None:
    project.script(OPINION)
    project.steps(
        """
        cua.do("Look")
        opinion = cua.judge("The screen is empty")
        assert opinion and opinion.reason == "I see the screen."
        assert not cua.judge("The screen is full")
        assert cua.desktop.windows() == []
        """
    )
    everywhere(project)
    kinds = [line["kind"] for line in project.lines("test_it", "test_it") if line["type"] == "step"]
    assert kinds == ["do", "judge", "judge"]
    text = (project.path / "test_it.py").read_text()
    project.write(test_it=text.replace("    opinion =", '    cua.desktop.launch("mousepad")\n    opinion ='))
    result = project.run("-o", "cua_drift_timeout=500")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ScreenDrift: step 2, judge 'The screen is empty': within * s the screen did not become*"]
    )


def test_what_a_step_gives_back(project: Any) -> None:
    project.script(
        """
def work(request):
    yield turn(say("I look."), use("screenshot"))
    yield turn(use("mouse_move", coordinate=[10, 20]), use("cursor_position"))
    yield turn(use("zoom", region=[0, 0, 100, 50]))
    yield finish("It is done.", observations=["There is a panel."])

SCRIPT = {"": work}
"""
    )
    project.steps(
        """
        assert cua.usage.input_tokens == 0
        result = cua.do("Work")
        assert result.text == "It is done."
        assert result.outcome == "done"
        assert result.observations == ["There is a panel."]
        assert [a.words() for a in result.actions] == [
            "screenshot", "mouse_move at 10, 20", "cursor_position", "zoom region=[0, 0, 100, 50]"
        ]
        assert result.actions[2].text == "X=10,Y=20"
        assert [p.size for p in result.screenshots] == [(1280, 800), (1280, 640)]
        assert result.usage.input_tokens > 0 and result.usage.cost_usd > 0
        before = cua.usage
        assert before == result.usage
        again = cua.do("Work")
        assert cua.usage == before + again.usage
        assert cua.desktop.windows() == []
        print("usage", cua.usage.to_json(), cua.is_live, cua.cassette)
        """
    )
    printed = []
    for mode in MODES:
        result = project.run(f"--cua-mode={mode}", "-s")
        result.assert_outcomes(passed=1)
        printed.append(next(line for line in result.stdout.lines if "usage {" in line).partition("usage")[2])
    folder = project.folder("test_it", "test_it")
    assert printed[0].endswith(f" True {folder}")
    assert printed[1] == printed[2] == printed[0].replace("True", "False")


def test_actions_and_turns_are_logged(project: Any) -> None:
    project.script(
        """
def work(request):
    yield turn(say("I move there."), use("mouse_move", coordinate=[5, 6]))
    yield use("key", text="no-such-key")
    yield finish("Done.")

SCRIPT = {"": work}
"""
    )
    project.steps('cua.do("Work")\nassert cua.desktop.windows() == []')
    for mode in MODES:
        result = project.run(f"--cua-mode={mode}", "--log-cli-level=INFO")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(
            [
                "INFO *pytest_cua.steps:* step 1, turn 1: I move there.",
                "INFO *pytest_cua.actions:* mouse_move at 5, 6",
                "INFO *pytest_cua.actions:* key 'no-such-key': *no-such-key*",
            ]
        )


def test_a_tool_that_fails_otherwise_than_recorded_is_drift(project: Any) -> None:
    project.script(
        """
def work(request):
    yield use("left_click", coordinate=[900, 700])
    yield finish("Done.")

SCRIPT = {"": work}
"""
    )
    project.steps('cua.do("Work")\nassert cua.desktop.windows() == []')
    project.record().assert_outcomes(passed=1)
    head = (
        "from pytest_cua.desktop.pointer import Pointer\nfrom pytest_cua.errors import BadArgument\n"
        "def fails(*a, **k): raise BadArgument('The button is stuck.')\nPointer.click = fails\n"
    )
    project.write(conftest=(project.path / "conftest.py").read_text() + head)
    code, output = project.output("-o", "cua_drift_timeout=500")
    assert code == 1
    assert (
        "ScreenDrift: step 1 'Work', turn 1, left_click at 900, 700: "
        "this worked while recording and now fails: The button" in output
    )


def test_a_step_report_shows_what_was_done(project: Any) -> None:
    project.steps('cua.do("Look at the screen")\nassert cua.desktop.windows() == ["x"]')
    result = project.record()
    result.stdout.fnmatch_lines(
        [
            "*Computer-use steps*",
            "✓ 1. Look at the screen (2 turns, 1 actions, * s)",
            "    screenshot",
            "The recording was kept*",
        ]
    )


def test_a_test_may_use_a_desktop_without_any_model(project: Any) -> None:
    project.steps(
        """
        computer.mouse_move((5, 6))
        assert computer.cursor_position() == (5, 6)
        desktop.file("a.txt").write("1")
        assert desktop.file("a.txt").read_text() == "1"
        """,
        arguments="desktop, computer",
    )
    project.run().assert_outcomes(passed=1)
    assert not (project.path / "cassettes").exists()
    project.run("--cua-mode=offline").assert_outcomes(skipped=1)


def test_a_skip_and_an_expected_failure_stay_what_they_are(project: Any) -> None:
    project.write(
        test_it="import pytest\n"
        "def test_skip(cua):\n    pytest.skip('not today')\n"
        "@pytest.mark.xfail(strict=True, raises=AssertionError)\n"
        "def test_xfail(cua):\n    cua.do('Look')\n    assert cua.desktop.windows() == ['x']\n"
    )
    (project.path / "test_note.py").unlink()
    project.record().assert_outcomes(skipped=1, xfailed=1)
    kept = [path.parent.name for path in (project.path / "cassettes").rglob("cassette.jsonl")]
    assert kept == [".failed"]  # neither passed, and only one asked a model


def test_a_fixture_that_fails_afterwards_keeps_the_recording_from_taking_its_place(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.steps(
        'cua.do("Look")\nassert cua.desktop.windows() == []',
        head="""
        import os

        @pytest.fixture
        def server():
            yield
            assert not os.environ.get("BROKEN")
        """,
        arguments="cua, server",
    )
    project.record().assert_outcomes(passed=1)
    folder = project.folder("test_it", "test_it")
    before = (folder / "cassette.jsonl").read_bytes()
    monkeypatch.setenv("BROKEN", "1")
    result = project.record()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["kept aside (the test failed): *"])
    result.stdout.no_fnmatch_line("recorded *")
    assert (folder / "cassette.jsonl").read_bytes() == before
    assert (folder / ".failed/cassette.jsonl").exists()
