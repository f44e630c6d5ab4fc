"""Clients of the code under test that get no reply, part ways, fork or hold secrets: told, or replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CODE = '''
import asyncio, os, threading
import anthropic

ASK = {"model": "claude-sonnet-5-5", "max_tokens": 100}

def client(**options):
    return anthropic.Anthropic(**options)

def talk(asked, messages, text):
    messages.append({"role": "user", "content": text})
    message = asked.messages.create(messages=messages, **ASK)
    messages.append({"role": "assistant", "content": message.content})
    return message.content[0].text

def ask(text):
    return talk(client(), [], text)

def quietly(text):
    try:
        ask(text)
    except Exception:
        pass

async def hurry(text):
    sent = asyncio.Event()

    async def noting(request, call_next):
        sent.set()
        return await call_next(request)

    async with anthropic.AsyncAnthropic(middleware=[noting]) as asked:
        task = asyncio.ensure_future(asked.messages.create(messages=[{"role": "user", "content": text}], **ASK))
        await sent.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "gave up"

def in_child(text):
    """Ask in a forked process; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            ask(text)
        except BaseException:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
'''

SCRIPT = """
import pathlib, threading
LOOKING = by_sentence({"": look})
OVER = threading.Event()

def answer(request):
    if request.tools and request.tools[0].get("type", "").startswith("computer"):
        return LOOKING(request)
    text = str(request.messages[-1]["content"])
    if "slow" in text:
        pathlib.Path("slow").touch()
        OVER.wait(60)
    if "tool" in text:
        return [use_tool("lookup", key="a")]
    return say("You said: " + text)

@pytest.fixture
def cua_client(monkeypatch):
    with ScriptedClaude(answer) as claude:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-a-key-of-nobody")
        yield anthropic.Anthropic(max_retries=0)

def pytest_sessionfinish():
    OVER.set()
"""

LOOK = 'cua.do("Look")\ncua.desktop.file("a").write("x")\nassert cua.desktop.file("a").read_text() == "x"\n'


@pytest.fixture
def app(project: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    project.script(SCRIPT)
    project.write(app=CODE)
    (project.path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    return project


def steps(project: Any, body: str, *, look_first: bool = False) -> None:
    project.steps(
        f"{LOOK}\n{body}" if look_first else f"{body}\n{LOOK}", head="import app, anthropic, asyncio, os, threading"
    )


def text_of(project: Any) -> str:
    return (project.folder("test_it", "test_it") / "cassette.jsonl").read_text()


def turns(project: Any) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, text_of(project).splitlines()) if "conversation" in line]


def replays(project: Any) -> None:
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


# -- no reply ----------------------------------------------------------------------------------------------------------


def test_a_task_that_is_cancelled_is_cancelled_again(app: Any) -> None:
    body = "assert asyncio.run(app.hurry('slow')) == 'gave up'\nassert app.ask('one') == 'You said: one'"
    steps(app, body)
    app.record().assert_outcomes(passed=1)
    bodies = [turn["reply"].get("body") for turn in turns(app) if turn["type"] == "turn"]
    assert bodies[0].startswith("given up: CancelledError")
    replays(app)


def test_what_nobody_gives_up_any_more_is_told(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_cua.cassette import player

    monkeypatch.setattr(player, "_GIVES_UP", 300)
    steps(app, "assert asyncio.run(app.hurry('slow')) == 'gave up'")
    app.record().assert_outcomes(passed=1)
    steps(app, "try:\n    app.ask('slow')\nexcept Exception:\n    pass")
    result = app.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was given up while recording (CancelledError*and is waited for now*"])


def test_a_thread_that_still_asks_at_the_end_is_waited_for_by_nobody(app: Any) -> None:
    body = """
thread = threading.Thread(target=app.quietly, args=("slow",), daemon=True)
thread.start()
while cua.is_live and not os.path.exists("slow"):
    pass
"""
    steps(app, body, look_first=True)  # who answers does so one by one
    app.record().assert_outcomes(passed=1)
    assert (app.path / "slow").exists()
    slow = [turn for turn in turns(app) if turn["type"] == "turn" and "slow" in str(turn["request"])]
    assert [turn["reply"]["body"] for turn in slow] == ["unfinished: the test ended before a reply came"]
    replays(app)


def test_a_request_that_cannot_be_made_raises_the_same_again(app: Any) -> None:
    body = """
with pytest.raises(TypeError, match="authentication"):
    found = app.client()
    found.api_key = None
    app.talk(found, [], "without a key")
"""
    steps(app, body)
    app.record().assert_outcomes(passed=1)
    replays(app)


def test_the_attempts_of_a_get_are_one_turn(app: Any) -> None:
    body = """
with pytest.raises(anthropic.APIConnectionError):
    app.client(base_url="http://127.0.0.1:9", max_retries=1).models.list()
"""
    steps(app, body)
    app.record().assert_outcomes(passed=1)
    found = [line for line in turns(app) if line["type"] == "turn"]
    assert [len(line["attempts"]) for line in found] == [1]
    replays(app)


# -- conversations that begin alike ------------------------------------------------------------------------------------


def test_conversations_that_begin_alike_change_places(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
asked, one, other = app.client(), [], []
names = os.environ["ORDER"].split()
order = {"one": one, "other": other}
for name in names:
    app.talk(asked, order[name], "Hello")
assert app.talk(asked, one, "One") == "You said: One"
assert app.talk(asked, other, "Other") == "You said: Other"
if "more" in os.environ.get("EXTRA", ""):
    app.talk(asked, other, "One")
"""
    steps(app, body)
    monkeypatch.setenv("ORDER", "one other")
    app.record().assert_outcomes(passed=1)
    replays(app)
    monkeypatch.setenv("ORDER", "other one")
    replays(app)
    monkeypatch.setenv("EXTRA", "more")
    result = app.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*goes on with turn 3; the recording has 2*"])


def test_the_longer_of_two_that_begin_alike_may_begin_second(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
asked = app.client()
for name in os.environ["ORDER"].split():
    messages = []
    app.talk(asked, messages, "Hello")
    if name == "long":
        assert app.talk(asked, messages, "More") == "You said: More"
"""
    steps(app, body)
    monkeypatch.setenv("ORDER", "long short")
    app.record().assert_outcomes(passed=1)
    monkeypatch.setenv("ORDER", "short long")
    replays(app)
    monkeypatch.setenv("ORDER", "short short")
    result = app.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*turns not played*"])


# -- what the code says of its tools -----------------------------------------------------------------------------------


def test_a_tool_of_the_code_that_fails_now_is_another_conversation(app: Any) -> None:
    body = """
asked = app.client()
tools = [{"name": "lookup", "description": "Looks up.", "input_schema": {"type": "object", "properties": {}}}]
messages = [{"role": "user", "content": "use the tool"}]
reply = asked.messages.create(messages=messages, tools=tools, **app.ASK)
used = reply.content[0]
messages += [
    {"role": "assistant", "content": reply.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used.id, "content": "b", "is_error": FAILS}]},
]
asked.messages.create(messages=messages, tools=tools, **app.ASK)
"""
    steps(app, body.replace("FAILS", "False"))
    app.record().assert_outcomes(passed=1)
    replays(app)
    steps(app, body.replace("FAILS", "True"))
    result = app.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*turn 2: the request is not the recorded one*", "*is_error*"])


# -- forks -------------------------------------------------------------------------------------------------------------


def test_a_forked_process_is_refused_while_recording_and_in_a_replay(app: Any) -> None:
    steps(app, "app.in_child('one')")
    result = app.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*In a process that the test forked*asks a model*", "*hint: let a thread do it*"])
    steps(app, "assert app.ask('one') == 'You said: one'")
    app.record().assert_outcomes(passed=1)
    steps(app, "assert app.ask('one') == 'You said: one'\nassert app.in_child('two') == 7")
    for mode in ("replay", "offline"):
        result = app.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*In a process that the test forked*asks a model*"])


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_a_secret_in_a_reply_is_put_back_in_a_replay(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse-battery")
    body = """
token = os.environ["SHOP_TOKEN"]
assert app.ask(f"say {token}") == f"You said: say {token}"
with app.client().messages.stream(messages=[{"role": "user", "content": f"stream {token}"}], **app.ASK) as found:
    assert "".join(found.text_stream) == f"You said: stream {token}"
"""
    steps(app, body)
    app.record().assert_outcomes(passed=1)
    assert "correct-horse" not in text_of(app)
    replays(app)
    monkeypatch.setenv("SHOP_TOKEN", 'another "one" of now')
    replays(app)


def test_a_secret_that_is_made_after_it_was_said_is_taken_out(app: Any) -> None:
    value = "late-" + "and-secret"
    body = """
assert app.ask("say " + "late-" + "and-secret").endswith("and-secret")
schema = {"type": "object", "properties": {"late-" + "and-secret": {"type": "string"}}}
app.client().messages.create(
    messages=[{"role": "user", "content": "x"}],
    tools=[{"name": "lookup", "description": "Looks up.", "input_schema": schema}], **app.ASK)
pytest_cua.Secret("late-" + "and-secret", "LATE")
cua.do("Look")
"""
    steps(app, body)
    app.record().assert_outcomes(passed=1)
    held = [path for path in Path(app.path / "cassettes").rglob("*.*") if value.encode() in path.read_bytes()]
    assert held == []
    assert "[redacted LATE]" in text_of(app)
    replays(app)


def test_a_secret_in_the_name_of_a_row_ends_the_recording(app: Any) -> None:
    head = """
import pytest, pytest_cua
@pytest.mark.parametrize("word", ROWS)
def test_it(cua, word):
    cua.do("Type {word}", params={"word": pytest_cua.Secret(word)})
    cua.desktop.file("a").write("x")
    assert cua.desktop.file("a").read_text() == "x"
"""
    app.write(test_it=head.replace("ROWS", '["tell-" "nobody-1"]'))
    (app.path / "test_note.py").unlink()
    result = app.record()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*SecretLeaked*stands in the name of the test*", "*pytest.param(..., id=*"])
    assert not list((app.path / "cassettes").rglob("*nobody*"))
    app.write(test_it=head.replace("ROWS", '[pytest.param("tell-" "nobody-1", id="ann")]'))
    app.record().assert_outcomes(passed=1)
