"""Several at once: workers of one run, processes on one test, threads and tasks of the code under test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cua.cassette.format import load
from pytest_cua.cassette.store import cassette_folder
from pytest_cua.cassette.suite import verify
from pytest_cua.cli import main
from pytest_cua.testing import ScriptedClaude, finish, say, use

CONFTEST = """
import anthropic, os, pytest

@pytest.fixture
def cua_client():
    return anthropic.Anthropic(api_key="scripted", base_url=os.environ["CLAUDE"], max_retries=0)
"""


def look(request: Any) -> Iterator[Any]:
    yield use("screenshot")
    yield finish("Seen.")


@pytest.fixture
def served(project: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives a function that serves a script to all processes and threads of the project, and counts for all."""
    (project.path / "conftest.py").write_text(CONFTEST)
    (project.path / "test_note.py").unlink()
    running = []

    def serve(script: Any) -> ScriptedClaude:
        claude = ScriptedClaude(script)
        running.append(claude)
        monkeypatch.setenv("CLAUDE", claude.base_url)
        return claude

    yield serve
    for claude in running:
        claude.close()
        assert not claude.errors
        assert not claude.script_errors


# ------------------------------------------------------------------ workers of one run

SUITE = """
import pytest
import pytest_cua
from pytest_cua import expect

@pytest_cua.flow
def look_around(cua):
    cua.do("Look around first")

@pytest.mark.parametrize("number", range(4))
def test_it(cua, number):
    cua.desktop.file("seen.txt").write(str(number))
    look_around(cua)
    cua.do(f"Look at number {number}")
    expect(cua.desktop.file("seen.txt")).to_have_text(str(number))
"""


def test_four_workers_record_a_shared_flow_once_and_replay_it(project: Any, served: Any) -> None:
    claude = served({"": look})
    project.write(test_it=SUITE)
    requests = 0
    for again in (False, True):
        code, output = project.output("-n4", "--cua-mode=record")
        assert code == 0, output
        assert "4 passed" in output
        sentences = sorted(request.sentence for request in claude.requests[requests:] if request.turn == 1)
        assert sentences == ["Look around first", *(f"Look at number {number}" for number in range(4))]
        requests += 2 * len(sentences)
        assert len(claude.requests) == requests
        root = project.path / "cassettes"
        flow = load(root / "flows/test_it/look_around")
        for number in range(4):
            cassette = load(cassette_folder(root, f"test_it.py::test_it[{number}]"))
            assert [line["flow"] for line in cassette.flows] == ["flows/test_it.py::look_around"]
            assert len(cassette.steps) == 1
        assert flow.header["kind"] == "flow"
        assert verify(root)[0] == []
        code, output = project.output("-n4", "--cua-mode=offline" if again else "--cua-mode=replay")
        assert code == 0, output
        assert "4 passed" in output
    assert len(claude.requests) == requests


# ------------------------------------------------------------------ processes on one test

LOOP = """
import sys
from pathlib import Path
from pytest_cua.cassette.store import CassetteWriter, cassette_folder
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.wire import History, Reply, Request
from pytest_cua.errors import CassetteUnwritable
from pytest_cua.trace import Run

TEST = "test_a.py::test_a"
root, who = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
recorded = refused = 0
for attempt in range(40):
    try:
        writer = CassetteWriter(cassette_folder(root, TEST), root)
    except CassetteUnwritable as error:
        assert error.message.startswith("Another run is recording this test just now"), error
        refused += 1
        continue
    header = header_line(test=TEST, model=who, tools=[], prompt_digest="", display={}, environment={})
    tape, history = Tape(writer, header=header, run=Run(test=TEST, mode="record")), History()
    tape.write({"type": "conversation", "conversation": 1, "client": who})
    tape.replied("scripted")
    for turn in range(1, 4):
        asked = Request("post", "/", {"model": who}, [{"role": "user", "content": f"{who} {attempt} {turn}"}])
        tape.turn({"conversation": 1, "turn": turn}, history, asked, Reply(200, {"by": who}), waited_ms=1, attempts=[])
    (writer.aside / "http.yaml").write_text(f"interactions: [] # {who} {attempt}\\n")
    tape.close(passed=True)
    recorded += 1
print(recorded, refused, flush=True)
"""


def test_processes_that_record_one_test_are_refused_or_record_it_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOOP, str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, who], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for who in "abcd"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, [errors for _, errors in told]
    counts = [tuple(map(int, output.split())) for output, _ in told]
    assert all(recorded + refused == 40 for recorded, refused in counts)
    assert sum(recorded for recorded, _ in counts) > 0
    folder = tmp_path / "test_a/test_a"
    cassette = load(folder)
    who, attempt, _ = cassette.conversations[0].turns[0].new[0]["content"].split()
    assert [turn.new[0]["content"] for turn in cassette.turns()] == [f"{who} {attempt} {turn}" for turn in range(1, 4)]
    assert f"# {who} {attempt}\n" in (folder / "http.yaml").read_text()
    assert verify(tmp_path)[0] == []
    assert sorted(path.name for path in folder.iterdir()) == ["cassette.jsonl", "http.yaml", "steps.md"]


HELD = """
    import pathlib, threading
    pathlib.Path("reached").touch()
    while not pathlib.Path("go").exists():
        threading.Event().wait(0.02)
"""


def test_a_second_run_that_records_the_same_test_is_refused_at_its_beginning(project: Any, served: Any) -> None:
    from desktop_support import eventually

    claude = served({"": look})
    head = (
        "from pytest_cua import expect\ndef test_it(cua):\n    cua.desktop.file('a').write('1')\n    cua.do('Look')\n"
    )
    end = "    expect(cua.desktop.file('a')).to_have_text('1')\n"
    project.write(test_it=head + HELD + end)
    first = project.start("--cua-mode=record")
    eventually((project.path / "reached").exists, 60_000)
    code, output = project.output("--cua-mode=record")
    assert code == 1
    assert "CassetteUnwritable: Another run is recording this test just now" in output
    assert len(claude.requests) == 2  # the second asked nothing, so it cost nothing
    (project.path / "go").touch()
    output, _ = first.communicate(timeout=60)
    assert first.returncode == 0, output
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


# ------------------------------------------------------------------ threads and tasks of the code under test

TALKS = """
import asyncio, itertools, os, threading
import anthropic
from pytest_cua import expect

FIRST = os.environ["FIRST"]  # who begins
SECOND = "b" if FIRST == "a" else "a"
ASKED = dict(model="claude-sonnet-5-5", max_tokens=100)
STREAM = os.environ["STREAM"] == "yes"
MADE = dict(api_key="scripted", base_url=os.environ["CLAUDE"], max_retries=0)

def check(said, cua):
    numbers = {who: {text.split()[0] for text in texts} for who, texts in said.items()}
    print("said", {who: texts[0] for who, texts in sorted(said.items())})
    assert all(len(found) == 1 for found in numbers.values()), said
    assert numbers["a"] | numbers["b"] == {"one", "two"}
    for texts in said.values():
        assert [text.split()[1] for text in texts] == ["1", "2", "3"]
    cua.desktop.file("a.txt").write("1")
    expect(cua.desktop.file("a.txt")).to_have_text("1")
"""

THREADS = (
    TALKS
    + """
def ask(client, history):
    if STREAM:
        with client.messages.stream(**ASKED, messages=history) as stream:
            return stream.get_final_message()
    return client.messages.create(**ASKED, messages=history)

def test_it(cua):
    clients = {"a": anthropic.Anthropic(**MADE), "b": CLIENT}
    said, begun, go = {"a": [], "b": []}, threading.Event(), threading.Barrier(2)

    def talk(who):
        if who == SECOND:
            begun.wait()
        history = [{"role": "user", "content": "Hello"}]
        for turn in range(3):
            message = ask(clients[who], history)
            said[who].append(message.content[0].text)
            history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": "Go on"}]
            begun.set()
            go.wait()  # from here on nobody says who is first

    threads = [threading.Thread(target=talk, args=(who,)) for who in (SECOND, FIRST)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    check(said, cua)
"""
)

TASKS = (
    TALKS
    + """
async def ask(client, history):
    if STREAM:
        async with client.messages.stream(**ASKED, messages=history) as stream:
            return await stream.get_final_message()
    return await client.messages.create(**ASKED, messages=history)

async def both(client, said):
    begun = asyncio.Event()

    async def talk(who):
        if who == SECOND:
            await begun.wait()
        history = [{"role": "user", "content": "Hello"}]
        for turn in range(3):
            message = await ask(client, history)
            said[who].append(message.content[0].text)
            history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": "Go on"}]
            begun.set()

    await asyncio.gather(talk(SECOND), talk(FIRST))

def test_it(cua):
    said = {"a": [], "b": []}
    asyncio.run(both(anthropic.AsyncAnthropic(**MADE), said))
    check(said, cua)
"""
)


def talkers() -> Any:
    """A script that gives each conversation a name of its own, whatever it is asked."""
    names = iter(["one", "two", "three"])

    def talk(request: Any) -> Iterator[Any]:
        name = next(names)
        for turn in range(1, 4):
            yield say(f"{name} {turn}")

    return {"": talk}


@pytest.mark.parametrize("stream", ["no", "yes"])
@pytest.mark.parametrize(
    "test",
    [
        THREADS.replace("CLIENT", "cua.client"),
        THREADS.replace("CLIENT", "anthropic.Anthropic(**MADE)"),
        THREADS.replace("CLIENT", "clients_a").replace("clients = {", "clients_a = cua.client\n    clients = {"),
        TASKS,
    ],
    ids=["a client and cua.client", "two clients", "cua.client twice", "tasks of one client"],
)
def test_conversations_at_once_stay_apart_whoever_begins(
    project: Any, served: Any, monkeypatch: pytest.MonkeyPatch, test: str, stream: str
) -> None:
    claude = served(talkers())
    monkeypatch.setenv("STREAM", stream)
    project.write(test_it=test)
    monkeypatch.setenv("FIRST", "a")
    result = project.record("-s")
    result.assert_outcomes(passed=1)
    assert "said {'a': 'one 1', 'b': 'two 1'}" in result.stdout.str()
    asked = len(claude.requests)
    assert asked == 6
    cassette = load(project.folder("test_it", "test_it"))
    assert [len(conversation.turns) for conversation in cassette.conversations] == [3, 3]
    assert all((turn.events is not None) == (stream == "yes") for turn in cassette.turns())
    for first, said in (("a", "{'a': 'one 1', 'b': 'two 1'}"), ("b", "{'a': 'two 1', 'b': 'one 1'}")):
        monkeypatch.setenv("FIRST", first)
        for _ in range(3):
            result = project.run("--cua-mode=offline", "-s")
            result.assert_outcomes(passed=1)
            assert f"said {said}" in result.stdout.str()
    project.run().assert_outcomes(passed=1)
    assert len(claude.requests) == asked
    monkeypatch.chdir(project.path)
    assert main(["verify"]) == 0
