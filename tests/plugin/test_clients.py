"""Clients that the code under test builds itself: recorded with the test, answered from its recording."""

from __future__ import annotations

import json
from typing import Any

import pytest

CODE = '''
import asyncio, os
import anthropic

ASK = {"model": "claude-sonnet-5-5", "max_tokens": 100}

def client(**options):
    """As the application makes it: by the variables of its environment."""
    return anthropic.Anthropic(**options)

def ask(text, **options):
    message = client(**options).messages.create(messages=[{"role": "user", "content": text}], **ASK)
    return message.content[0].text

def chat(*texts):
    """A conversation that repeats its history."""
    asked, messages, answers = client(), [], []
    for text in texts:
        messages.append({"role": "user", "content": text})
        message = asked.messages.create(messages=messages, **ASK)
        messages.append({"role": "assistant", "content": message.content})
        answers.append(message.content[0].text)
    return answers

def stream(text, most=None):
    pieces = []
    with client().messages.stream(messages=[{"role": "user", "content": text}], **ASK) as found:
        for piece in found.text_stream:
            pieces.append(piece)
            if len(pieces) == most:
                break
    return pieces

async def ask_later(text):
    async with anthropic.AsyncAnthropic() as asked:
        message = await asked.messages.create(messages=[{"role": "user", "content": text}], **ASK)
        return message.content[0].text

async def stream_later(text):
    async with anthropic.AsyncAnthropic() as asked:
        async with asked.messages.stream(messages=[{"role": "user", "content": text}], **ASK) as found:
            return [piece async for piece in found.text_stream]
'''

SCRIPT = """
BUSY = [1]
LOOKING = by_sentence({"": look})

def answer(request):
    if request.tools:
        return LOOKING(request)
    text = request.messages[-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    if "always busy" in text or ("busy" in text and BUSY and BUSY.pop()):
        return error(529, "overloaded_error", "later")
    if "refused" in text:
        return error(400, "invalid_request_error", "not so")
    return say("You said: " + text + " " + "and so on " * 5)

SCRIPT = answer

@pytest.fixture
def cua_client(monkeypatch):
    with ScriptedClaude(SCRIPT) as claude:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-a-key-of-nobody")
        yield anthropic.Anthropic(max_retries=0)
"""


@pytest.fixture
def app(project: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    project.script(SCRIPT)
    project.write(app=CODE)
    (project.path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    return project


def asked(project: Any, body: str, head: str = "import app, asyncio, anthropic") -> None:
    look = 'cua.desktop.file("a").write("x")\nassert cua.desktop.file("a").read_text() == "x"\n'
    project.steps(body + "\n" + look, head=head)


def replays(project: Any) -> None:
    for mode in ("replay", "offline"):
        result = project.run(f"--cua-mode={mode}")
        result.assert_outcomes(passed=1)


def turns(project: Any) -> list[dict[str, Any]]:
    path = project.folder("test_it", "test_it") / "cassette.jsonl"
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["type"] == "turn"]


def test_what_the_code_under_test_asks_is_recorded_and_answered(app: Any) -> None:
    asked(
        app,
        """
assert app.ask("one").startswith("You said: one")
assert [answer[:14] for answer in app.chat("two", "three")] == ["You said: two ", "You said: thre"]
assert asyncio.run(app.ask_later("four")).startswith("You said: four")
with pytest.raises(anthropic.NotFoundError):  # the scripted Claude counts no tokens
    cua.client.messages.count_tokens(model="claude-sonnet-5-5", messages=[{"role": "user", "content": "x"}])
cua.do("Look")
assert app.ask("five").startswith("You said: five")
""",
    )
    app.record().assert_outcomes(passed=1)
    found = turns(app)
    assert [(t.get("conversation"), t.get("step"), t["turn"]) for t in found] == [
        (1, None, 1),
        (2, None, 1),
        (2, None, 2),
        (3, None, 1),
        (4, None, 1),
        (None, 1, 1),
        (None, 1, 2),
        (5, None, 1),
    ]
    again = found[2]["request"]
    assert (again["keep"], again["new"][0]) == (1, {"role": "assistant", "content": "=reply"})
    page = (app.folder("test_it", "test_it") / "steps.md").read_text()
    assert "## Conversation 2 of the code under test (Anthropic)" in page
    assert "- asked: three" in page
    replays(app)


def test_values_of_params_do_not_age_what_was_asked(app: Any) -> None:
    body = """
cua.do("Look for {order}", params={"order": "4711-A"})
assert app.ask("What is with 4711-A?").startswith("You said: What is with ")
assert len(app.chat("And 4711-A?", "Sure of 4711-A?")) == 2
"""
    asked(app, body)
    app.record().assert_outcomes(passed=1)
    assert "What is with {order}?" in json.dumps(turns(app))
    asked(app, body.replace("4711-A", "4712-BB"))
    replays(app)


def test_streams_are_passed_through_and_answered_event_by_event(app: Any) -> None:
    asked(
        app,
        """
pieces = app.stream("one")
assert len(pieces) > 2
assert "".join(pieces).startswith("You said: one and so on")
assert "".join(asyncio.run(app.stream_later("two"))) == "".join(pieces).replace("one", "two")
assert len(app.stream("three", most=2)) == 2
""",
    )
    app.record().assert_outcomes(passed=1)
    events = [turn["reply"]["events"] for turn in turns(app)]
    assert events[0][0][1].startswith("event: message_start\n")
    assert events[0][-1][1].startswith("event: message_stop\n")
    assert turns(app)[2]["reply"]["cut"] == "closed"
    replays(app)
    app.write(test_it=(app.path / "test_it.py").read_text().replace('"three", most=2', '"three", most=3'))
    result = app.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)


def test_retries_are_kept_and_not_waited_for(app: Any) -> None:
    asked(
        app,
        """
assert app.ask("busy", max_retries=2).startswith("You said: busy")
with pytest.raises(anthropic.BadRequestError, match="not so"):
    app.ask("refused")
with pytest.raises(anthropic.InternalServerError):
    app.ask("always busy", max_retries=0)
""",
    )
    app.record().assert_outcomes(passed=1)
    found = turns(app)
    assert [attempt["status"] for attempt in found[0]["attempts"]] == [529]
    assert [turn["reply"]["status"] for turn in found] == [200, 400, 529]
    slept = """
import pytest, anthropic._base_client as base
@pytest.fixture(autouse=True)
def nobody_sleeps(monkeypatch):
    for kind in (base.SyncAPIClient, base.AsyncAPIClient):
        monkeypatch.setattr(kind, "_sleep_for_retry", lambda *a, **k: pytest.fail("it slept"))
"""
    app.script(SCRIPT + slept)
    replays(app)


def test_a_server_that_cannot_be_reached_is_recorded_too(app: Any) -> None:
    asked(
        app,
        """
assert app.ask("one").startswith("You said: one")
with pytest.raises(anthropic.APIConnectionError):
    app.ask("gone", base_url="http://127.0.0.1:9", max_retries=0)
""",
    )
    app.record().assert_outcomes(passed=1)
    replays(app)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("app.ask('one')", "app.ask('other')"), "messages[0].content[0].text"),
        (("app.ask('one')", "app.ask('one') and app.ask('more')"), "begins conversation 2"),
        (("app.ask('one')", "'nothing'"), "turns not played"),
        (("app.ask('one')", "app.chat('one', 'two')"), "goes on with turn 2"),
    ],
)
def test_other_questions_fail_the_test_even_where_the_code_swallows_it(
    app: Any, change: tuple[str, str], message: str
) -> None:
    body = "cua.do('Look')\ntry:\n    app.ask('one')\nexcept Exception:\n    pass\n"
    asked(app, body)
    app.record().assert_outcomes(passed=1)
    asked(app, body.replace(*change))
    for mode in ("replay", "offline"):
        result = app.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        assert message in result.stdout.str()
        assert "pytest --cua-mode=record test_it.py::test_it" in result.stdout.str()


def test_a_client_made_before_the_test_is_told_while_recording_and_in_a_replay(app: Any) -> None:
    head = """
import app, anthropic
client = anthropic.Anthropic(api_key="k", base_url="https://api.anthropic.com", max_retries=0)
"""
    body = """
cua.do("Look")
try:
    client.messages.create(messages=[{"role": "user", "content": "x"}], **app.ASK)
except Exception:
    pass
"""
    asked(app, body, head=head)
    result = app.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UndeclaredRequest*"])
    asked(app, "cua.do('Look')", head=head)
    app.record().assert_outcomes(passed=1)
    asked(app, body, head=head)
    for mode in ("replay", "offline"):
        result = app.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*UndeclaredRequest*"])


def test_a_test_that_asks_nothing_is_no_test_of_an_agent(app: Any) -> None:
    app.steps("assert cua.desktop.windows() == []")
    result = app.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*asks Claude nothing: no turn was recorded*"])
    asked(app, "if cua.is_live:\n    cua.do('Look')")
    app.record().assert_outcomes(passed=1)
    result = app.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the recording goes on with 'Look'*"])


CACHED = """
import functools
@functools.lru_cache
def cached():
    return app.client()

def ask(text):
    message = cached().messages.create(messages=[{"role": "user", "content": text}], **app.ASK)
    return message.content[0].text

def test_one(cua):
    assert ask("first").startswith("You said: first")
    cua.desktop.file("a").write("x")
    assert cua.desktop.file("a").read_text() == "x"

def test_two(cua):
    cua.do("Look")
    try:
        assert ask("second").startswith("You said: second")
    except Exception:
        pass
    cua.desktop.file("a").write("x")
    assert cua.desktop.file("a").read_text() == "x"
"""


def test_a_client_that_outlives_its_test_belongs_to_the_one_that_runs(app: Any) -> None:
    app.steps("pass")
    app.write(test_it="import app\n" + CACHED)
    app.record().assert_outcomes(passed=2)
    assert "second" in (app.folder("test_two", "test_it") / "cassette.jsonl").read_text()
    app.run("--cua-mode=offline").assert_outcomes(passed=2)
    app.run("--cua-mode=offline", "-k", "two").assert_outcomes(passed=1, deselected=1)
    app.write(test_it="import app\n" + CACHED.replace('ask("second")', 'ask("another")'))
    app.run("--cua-mode=offline").assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("said", "now"),
    [
        ('[{"role": "user", "content": "?"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "x"}]',
         '[{"role": "user", "content": "?"}, {"role": "assistant", "content": "n"}, {"role": "user", "content": "x"}]'),
        ('[{"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", '
         '"data": "a"}}, {"type": "text", "text": "x"}]}]',
         '[{"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", '
         '"data": "b"}}, {"type": "text", "text": "x"}]}]'),
    ],
    ids=["examples in the prompt", "a document of text"],
)  # fmt: skip
def test_what_the_code_writes_into_a_prompt_is_compared_whoever_it_quotes(said: str, now: str) -> None:
    from pytest_cua.cassette.match import first_difference, request_view

    first, second = (request_view({}, 0, json.loads(text), first=True) for text in (said, now))
    assert first_difference(first, first) is None
    assert first_difference(first, second) is not None
