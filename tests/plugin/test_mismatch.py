"""A request that is not the recorded one: what is said of it, what does not count, and that nothing hides it."""

from __future__ import annotations

from typing import Any

import pytest

TALK = """
import itertools

def talk(request):
    for number in itertools.count(1):
        yield say(f"Answer {number}.")

SCRIPT = {"Look": look, "": talk}
"""

HOOK = """
import re

@pytest.fixture
def cua_normalize():
    return lambda text: re.sub(r"order \\d+", "order", text)
"""

# what the code under test asks, and in which way it is called
ASK = """
import os
from pathlib import Path

def ask(client, text, history=()):
    messages = [*history, {"role": "user", "content": text}]
    fields = {"model": "claude-sonnet-5-5", "max_tokens": 100, "system": "You are kind."}
    message = client.messages.create(**fields, messages=messages)
    return [*messages, {"role": "assistant", "content": message.content[0].text}]
"""
END = '\ncua.desktop.file("a.txt").write("1")\nexpect(cua.desktop.file("a.txt")).to_have_text("1")'
CONVERSATION = (
    'history = ask(cua.client, os.environ["FIRST"])\nassert history[-1]["content"] == "Answer 1."\n'
    'ask(cua.client, os.environ["SECOND"], history)' + END
)
LONG = "Tell me in a few words whether the order was sent, and by which of the carriers that we know, {}"


@pytest.fixture
def asking(project: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    project.script(TALK)
    project.steps(CONVERSATION, head=ASK)
    monkeypatch.setenv("FIRST", "Is order 17 sent?")
    monkeypatch.setenv("SECOND", LONG.format("please"))
    return project


def test_a_mismatch_names_place_path_both_values_reason_and_command(
    asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.record().assert_outcomes(passed=1)
    asking.run("--cua-mode=offline").assert_outcomes(passed=1)
    monkeypatch.setenv("SECOND", LONG.format("now"))
    result = asking.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    file = asking.folder("test_it", "test_it") / "cassette.jsonl"
    result.stdout.fnmatch_lines(
        [
            f"*CassetteMismatch: {file}: conversation 1 of the code under test, turn 2: *is not the recorded one",
            "*messages[[]2].content[[]0].text",
            "*recorded: *that we know, please'",
            "*now: *that we know, now'",
            "*words: *that we know, [[]-please-]{+now+}",
            "*hint: likely: the conversation took another way: the code that answers Claude changed",
            "*hint: if the change is meant, record it again: pytest --cua-mode=record test_it.py::test_it",
        ]
    )


def test_a_step_is_named_with_its_sentence_and_turn(project: Any) -> None:
    project.steps('cua.do("Look at the window")' + END)
    project.record().assert_outcomes(passed=1)
    project.steps('cua.do("Look at the door")' + END)
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*CassetteMismatch: *: step 1 'Look at the door', turn 1: the request is not the recorded one",
            "*messages[[]0].content[[]*].text",
            "*recorded: *window*",
            "*now: *door*",
            "*hint: likely: a sentence was edited, or a step before this one",
            "*hint: if the change is meant, record it again: pytest --cua-mode=record test_it.py::test_it",
        ]
    )


def test_a_sentence_with_a_date_is_told_to_take_it_as_a_parameter(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.steps("cua.do(f\"Look at {os.environ['DAY']}\")" + END, head="import os")
    monkeypatch.setenv("DAY", "2026-01-01")
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("DAY", "2026-02-02")
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*likely: the two differ only in a date, *: give it in params= as {name}"])


def test_what_changes_from_run_to_run_in_a_prompt_is_no_mismatch(asking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST", "It is 2026-01-01T10:00:00Z, see http://127.0.0.1:40123/a and /tmp/tmpabc/x")
    asking.record().assert_outcomes(passed=1)
    monkeypatch.setenv("FIRST", "It is 2026-02-02T11:11:11Z, see http://127.0.0.1:5000/a and /tmp/tmpdef/x")
    asking.run("--cua-mode=offline").assert_outcomes(passed=1)
    monkeypatch.setenv("FIRST", "It is 2026-02-02T11:11:11Z, see http://127.0.0.1:5000/b and /tmp/tmpdef/x")
    asking.run("--cua-mode=offline").assert_outcomes(failed=1)


def test_the_project_s_own_normalizing_is_asked(asking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asking.record().assert_outcomes(passed=1)
    monkeypatch.setenv("FIRST", "Is order 18 sent?")
    result = asking.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*recorded: *order 17*", "*now: *order 18*", "*likely: the prompt was edited"])
    asking.script(TALK + HOOK)
    asking.run("--cua-mode=offline").assert_outcomes(passed=1)
    monkeypatch.setenv("FIRST", "Is parcel 18 sent?")
    asking.run("--cua-mode=offline").assert_outcomes(failed=1)


SWALLOWED = {
    "except": "try:\n    ask(cua.client, os.environ['FIRST'])\nexcept Exception:\n    pass",
    "thread": """
def work():
    try:
        ask(cua.client, os.environ["FIRST"])
    except Exception:
        pass
thread = threading.Thread(target=work)
thread.start()
thread.join()""",
    "task": """
async def work():
    client = anthropic.AsyncAnthropic(api_key="scripted", base_url="http://127.0.0.1:9")
    client = client if os.environ["LIVE"] == "no" else cua_async
    messages = [{"role": "user", "content": os.environ["FIRST"]}]
    return await client.messages.create(model="claude-sonnet-5-5", max_tokens=100, messages=messages)
async def all_of_it():
    return await asyncio.gather(work(), return_exceptions=True)
cua_async = anthropic.AsyncAnthropic(api_key="scripted", base_url=str(cua.client.base_url))
asyncio.run(all_of_it())""",
}


@pytest.mark.parametrize("way", SWALLOWED)
def test_a_mismatch_that_the_test_swallows_fails_it_all_the_same(
    project: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    project.script(TALK)
    project.steps(SWALLOWED[way] + END, head="import anthropic, asyncio, threading\n" + ASK)
    monkeypatch.setenv("FIRST", "Is order 17 sent?")
    monkeypatch.setenv("LIVE", "yes")
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("LIVE", "no")
    project.run("--cua-mode=offline").assert_outcomes(passed=1)
    monkeypatch.setenv("FIRST", "Is order 18 sent?")
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch: *conversation 1 of the code under test, turn 1: *", "*order 18*"])
    # a request that was made while recording and is not now is no match either
    project.steps(END, head=ASK)
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch: *turns not played*"])


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_an_expected_failure_is_one_of_the_application(project: Any, mode: str) -> None:
    head = "@pytest.mark.xfail(reason='known'{more})"
    body = (
        "def test_it(cua):\n    cua.do('Look')\n    cua.desktop.file('a').write('x')\n"
        "    assert cua.desktop.file('a').read_text() == {now!r}\n"
    )

    def written(now: str = "x", more: str = "", sentence: str = "Look") -> None:
        text = f"import pytest, pytest_cua\n{head.format(more=more)}\n{body.format(now=now)}"
        project.write(test_it=text.replace("'Look'", repr(sentence)))

    (project.path / "test_note.py").unlink()
    written()
    result = project.run(f"--cua-mode={mode}")
    result.assert_outcomes(errors=1)  # nothing was recorded, so nothing is known of the application
    project.write(test_it=f"import pytest\n{body.format(now='x')}")
    project.record().assert_outcomes(passed=1)
    written(now="y")
    project.run(f"--cua-mode={mode}").assert_outcomes(xfailed=1)
    written(sentence="Look again")
    result = project.run(f"--cua-mode={mode}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch*", "*xfail does not cover this*"])
    written(sentence="Look again", more=", raises=pytest_cua.CassetteMismatch")
    project.run(f"--cua-mode={mode}").assert_outcomes(xfailed=1)


def test_a_step_that_breaks_off_and_is_caught_fails_the_test(project: Any) -> None:
    project.script("SCRIPT = {'': add_line}")
    body = """
cua.desktop.launch("xterm")
try:
    cua.do("Type {line}", params={"line": "a"}, max_turns=MOST)
except pytest_cua.StepFailed:
    pass
cua.desktop.file("a").write("x")
assert cua.desktop.file("a").read_text() == "x"
"""
    project.steps(body.replace("MOST", "9"))
    project.record().assert_outcomes(passed=1)
    project.steps(body.replace("MOST", "1"))
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*broke off 2 turns before its recorded end*"])


def test_a_step_after_the_end_of_the_fixture_is_refused(project: Any) -> None:
    text = """
class TestIt:
    def test_it(self, cua):
        self.cua = cua
        cua.do("Look")
        cua.desktop.file("a").write("x")
        assert cua.desktop.file("a").read_text() == "x"

    def teardown_method(self):
        self.cua.do("Close it")
"""
    project.write(test_it=text)
    (project.path / "test_note.py").unlink()
    result = project.record()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*`cua` of *has ended*", "*hint: give what is to be done after the test*"])
