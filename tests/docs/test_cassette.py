"""The published schema is the format: it fits every line that is written, and knows no more than that."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from pytest_cua import cassette
from pytest_cua.cassette.format import FILE, FORMAT, LINE_TYPES, load
from pytest_cua.cassette.store import CassetteWriter
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.vcr_import import import_vcr
from pytest_cua.cassette.wire import History, Reply, Request
from pytest_cua.trace import Action, Run, Usage

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs/reference/cassette.schema.json").read_text(encoding="utf-8"))
COMMITTED = sorted((ROOT / "cassettes").rglob(FILE))
IMPORTED = ROOT / "tests/data/vcr/pydantic-ai__test_model_sees_multiple_images_anthropic.yaml"
PAGE = ROOT / "docs/reference/cassette.md"

CONFTEST = """
import anthropic
import pytest
from pytest_cua.testing import ScriptedClaude, error, finish, say, turn, use, use_tool


def look(request):
    yield use("screenshot")
    yield finish("Seen.", observations=["a window is open"])


def log_in(request):
    yield turn(use("type", text="{password}"), use("left_click", coordinate=[9000, 1]), use("screenshot"))
    yield finish("Typed.")


def slow(request):
    yield error(529, "overloaded_error", "later", retry_after=0)
    yield say("blue")


SCRIPT = {
    "Log in": log_in,
    "is there": [use_tool("give_opinion", holds=True, reason="It is.")],
    "Press": [finish("There is no such button.", outcome="blocked")],
    "Slowly": slow,
    "Break": [error(500, "api_error", "no", retry_after=0), error(500, "api_error", "no", retry_after=0)],
    "Name a colour": [say("blue"), say("red")],
    "Name a number": [say("seven")],
    "": look,
}


@pytest.fixture
def cua_client(monkeypatch):
    with ScriptedClaude(SCRIPT) as claude:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "scripted-key")
        yield anthropic.Anthropic(max_retries=1)


@pytest.fixture
def around(cua):
    cua.do("Look before the test")
    yield
    cua.do("Look after the test")
    assert cua.desktop.windows()
"""

TEST = """
import base64
import http.server
import io
import threading
import urllib.request

import anthropic
import pytest
import pytest_cua
from PIL import Image
from pytest_cua import Secret, expect


@pytest_cua.flow
def log_in(cua):
    '''Log in as anna.'''
    cua.desktop.file("login.txt").write("")
    cua.desktop.launch("mousepad", "login.txt")
    cua.do("Log in with {password}", params={"password": Secret("correct-horse-7")})
    expect(cua.desktop.file("login.txt")).to_exist()


@pytest_cua.flow(name="to the cart")
def to_cart(cua):
    log_in(cua)
    cua.do("Look at the cart")


def picture():
    data = io.BytesIO()
    Image.new("RGB", (20, 20), "red").save(data, "PNG")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data.getvalue()).decode()}
    return {"type": "image", "source": source}


def ask(client, content, *before, **more):
    messages = [*before, {"role": "user", "content": content}]
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=50, messages=messages, **more)


def ask_for_a_stream(client):
    messages = [{"role": "user", "content": "Name a number"}]
    return client.messages.stream(model="claude-sonnet-5-5", max_tokens=50, messages=messages)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_everything(cua, around):
    to_cart(cua)
    with pytest.raises(pytest_cua.Blocked):
        cua.do("Press the button")
    assert cua.judge("is there a window")

    client = anthropic.Anthropic(max_retries=1)
    first = ask(client, "Name a colour").content[0].text
    ask(client, "Another", {"role": "user", "content": "Name a colour"}, {"role": "assistant", "content": first})
    ask(client, [{"type": "text", "text": "Name a number"}, picture()])
    assert ask(client, "Slowly").content[0].text == "blue"
    with pytest.raises(anthropic.InternalServerError):
        ask(client, "Break")
    with ask_for_a_stream(client) as stream:
        stream.get_final_message()
    with ask_for_a_stream(client) as stream:
        next(iter(stream))

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.handle_request, daemon=True).start()
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()

    cua.desktop.file("new.bin").write(bytes(range(256)))
    assert cua.desktop.file("new.bin").read_bytes()
    assert cua.desktop.screenshot().size
    expect(cua.desktop.file("none")).not_to_exist()
    expect(cua.desktop).to_have_window(program="Mousepad")


def test_that_fails(cua):
    cua.do("Look")
    assert cua.desktop.windows()
"""


# ---------------------------------------------------------------------- recordings to be checked


def run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which all there is was recorded, and one test failed."""
    project = tmp_path_factory.mktemp("project")
    (project / "pyproject.toml").write_text('[tool.pytest]\naddopts = ["--import-mode=importlib"]\n', encoding="utf-8")
    (project / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (project / "test_all.py").write_text(TEST, encoding="utf-8")
    output = run(project, "--cua-mode=record")
    assert "1 failed, 1 passed" in output, output
    return project


SEEN = {"type": "image", "media_type": "image/png", "screen": "0" * 16}
RESULTS: list[dict[str, Any]] = [  # each is packed in another way
    {"content": [{"type": "text", "text": "seen"}]},
    {"content": [SEEN]},
    {"content": [{"type": "text", "text": "no"}], "is_error": True},
    {"content": [SEEN], "cache_control": {"type": "ephemeral"}},
    {"content": [{"type": "text", "text": "seen"}, SEEN]},
    {"content": "seen"},
    {"content": []},
    {"is_error": False},
]


def whole_action() -> Action:
    """An action with every field, some of which no scripted test brings about."""
    return Action(
        id="toolu_1",
        tool="computer",
        name="screenshot",
        input={},
        text="seen",
        is_error=True,
        screen="0" * 16,
        before="0" * 16,
        after="1" * 16,
        pointer=(1, 2),
        focus="Editor",
        windows=[{"title": "Editor", "program": "Editor", "box": [0, 0, 9, 9]}],
        moving=[[1, 2, 3, 4]],
        masked=[[1, 2, 3, 4]],
        still_ms=1.5,
        duration_ms=2.5,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of what no scripted test brings about, by the same writer."""
    root = tmp_path_factory.mktemp("cassettes")
    made = header_line(test="t.py::t", model="m", tools=[], prompt_digest="", display={}, environment={})
    tape = Tape(CassetteWriter(root / "t" / "t", root), header=made, run=Run(test="t.py::t", mode="record"))
    tape.replied("other: gateway.example.com")
    tape.write({"type": "step", "step": 1, "kind": "do", "desktop": "1", "sentence": "Look"})
    history, asked = History(), Request("post", "/v1/messages", {"model": "m"}, [])
    attempts = [{"status": 0, "error": "no"}]
    tape.turn({"step": 1, "turn": 1}, history, asked, Reply(200, file=b"\xff"), waited_ms=1, attempts=attempts)
    tape.action(1, 1, whole_action().to_json(), history.body)
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "look", "input": {}} for n in range(len(RESULTS))]
    body = {"id": "msg_1", "model": "m", "content": calls, "stop_reason": "tool_use", "usage": {"input_tokens": 1}}
    tape.turn({"step": 1, "turn": 2}, history, asked, Reply(200, body), waited_ms=1, attempts=[])
    tape.action(1, 2, {"id": "toolu_0", "tool": "look", "name": "look", "input": {}, "duration_ms": 1}, body)
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", **result} for n, result in enumerate(RESULTS)]
    asked = Request("post", "/v1/messages", {"model": "m"}, [{"role": "user", "content": results}])
    body = {**body, "id": "msg_2", "usage": {"input_tokens": 2}}
    tape.turn({"step": 1, "turn": 3}, history, asked, Reply(200, body), waited_ms=1, attempts=[])
    tape.close(passed=False)
    import_vcr(IMPORTED, root=root, test="tests/test_chat.py::test_answer")
    return root


def all_lines(*roots: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in (path for root in roots for path in sorted(root.rglob(FILE))):
        for number, text in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
            yield f"{path}, line {number}", json.loads(text)


# ---------------------------------------------------------------------- the schema


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA["$defs"][name], "$defs": SCHEMA["$defs"]})


def complaints(line: dict[str, Any]) -> list[str]:
    """What does not fit, told by the schema of the line's type: that of all types only says that none fits."""
    return [f"{error.json_path}: {error.message[:300]}" for error in validator(line["type"]).iter_errors(line)]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return {**SCHEMA["$defs"][name], **schema} if name else schema


def branches(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas of which one describes a value."""
    schema = resolved(schema)
    return [found for part in schema["oneOf"] for found in branches(part)] if "oneOf" in schema else [schema]


def properties(schema: dict[str, Any]) -> set[str]:
    """The names that an object may have."""
    return {name for branch in branches(schema) for name in branch.get("properties", ())}


def paths(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """The path of every field that the schema describes."""
    for branch in branches(schema):
        for name, part in branch.get("properties", {}).items():
            yield f"{at}.{name}"
            yield from paths(part, f"{at}.{name}")
        if isinstance(branch.get("items"), dict):
            yield from paths(branch["items"], f"{at}[]")


def used(value: Any, at: str = "") -> Iterator[str]:
    """The path of every field in a value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield f"{at}.{name}"
            yield from used(item, f"{at}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from used(item, f"{at}[]")


def described(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field with what the schema says of it."""
    if isinstance(schema, dict):
        for name, part in schema.get("properties", {}).items():
            yield name, part
        for part in schema.values():
            yield from described(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from described(part)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert [part["$ref"] for part in SCHEMA["oneOf"]] == [f"#/$defs/{name}" for name in LINE_TYPES]
    assert f"format {FORMAT}" in SCHEMA["title"]


def test_every_field_is_described() -> None:
    without = {name for name, part in described(SCHEMA) if not resolved(part).get("description")}
    assert without <= {"content-type", "request-id", "retry-after"}  # told where they are listed


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_it_fits_every_committed_line(path: Path) -> None:
    whole = Draft202012Validator(SCHEMA)
    for place, line in all_lines(path.parent):
        assert not complaints(line), place
        assert whole.is_valid(line), place


def test_it_fits_every_line_that_is_written(recorded: Path, written: Path) -> None:
    found = {place: complaints(line) for place, line in all_lines(recorded, written)}
    assert not {place: said for place, said in found.items() if said}
    assert len(found) > 80


def test_it_has_no_field_that_is_never_written(recorded: Path, written: Path) -> None:
    lines = [line for _, line in all_lines(recorded, written, ROOT / "cassettes")]
    seen = {f"{line['type']}{path}" for line in lines for path in used(line)}
    known = {f"{name}{path}" for name in LINE_TYPES for path in paths(SCHEMA["$defs"][name])}
    rare = {"end.files.removed", "turn.reply.headers.content-type", "turn.reply.headers.retry-after"}
    assert known - seen <= rare


def test_a_field_that_is_not_described_is_refused(recorded: Path) -> None:
    kinds = set()
    for _, line in all_lines(recorded):
        kinds.add(line["type"])
        assert complaints({**line, "new": 1})
        for name, value in line.items():
            if isinstance(value, dict) and name not in ("input", "value"):
                assert complaints({**line, name: {**value, "new": 1}}), f"{line['type']}.{name}"
    assert kinds == set(LINE_TYPES)


def test_what_the_lines_above_leave_out_is_put_back(written: Path) -> None:
    kept = load(next(written.rglob(".failed")))
    one, two, three = kept.steps[0].turns
    assert one.actions == {"toolu_1": whole_action()}
    assert two.actions == {"toolu_0": Action(id="toolu_0", tool="look", name="look", input={}, duration_ms=1)}
    (message,) = three.new
    assert [{**result, "type": None, "tool_use_id": None} for result in message["content"]] == [
        {"type": None, "tool_use_id": None, **result} for result in RESULTS
    ]
    assert three.body == {**two.body, "id": "msg_2", "usage": {"input_tokens": 2}}


def lines_of(written: Path, kind: str) -> list[dict[str, Any]]:
    return [line for place, line in all_lines(written) if ".failed" in place and line["type"] == kind]


def test_what_is_never_packed_so_is_refused(written: Path) -> None:
    turn = lines_of(written, "turn")[2]
    assert [type(result) for result in turn["request"]["new"][0]["results"]] == [str] + 7 * [dict]
    text, picture = {"content": [{"type": "text", "text": "seen"}]}, {"content": [SEEN]}
    for result in (
        {"is": "seen"},
        {"is": ["seen"], "is_error": True},
        {"is": "seen", "tool_use_id": "toolu_0"},
        {"screen": "0" * 16, "is_error": True},
        {"screen": "no key"},
        {"block": text},
        {"block": picture},
        {"block": {"type": "tool_result"}},
        {"block": {}, "is_error": True},
        None,
    ):
        assert complaints({**turn, "request": {**turn["request"], "new": [{"role": "user", "results": [result]}]}})
    for message in ({"role": "user", "results": []}, {"results": ["seen"]}, {"role": "user", "results": "seen"}):
        assert complaints({**turn, "request": {**turn["request"], "new": [message]}})
    message = {"role": "user", "content": "=reply", "results": ["seen"]}
    assert complaints({**turn, "request": {**turn["request"], "new": [message]}})
    for more in ({"thread": "=replies"}, {"thread": None}, {"params": "r1"}):
        assert complaints({**turn, "request": {**turn["request"], **more}})
    for reply in (
        {"status": 200, "like": "p1", "body": {}},
        {"status": 200, "like": "r1", "body": {"usage": {}}},
        {"status": 200, "like": "r1"},
        {"status": 200, "like": "r1", "body": "text"},
        {"status": 200, "like": "r1", "body": {}, "file": "0" * 32},
        {"status": 200, "like": "r1", "body": {}, "headers": {"request-id": "req_1"}},
        {"status": 200, "body": {"id": "msg_1", "usage": {"input_tokens": 1}}},
    ):
        assert complaints({**turn, "reply": reply})
    asked, shared = lines_of(written, "params")
    for line in (
        {**asked, "id": "q1"},
        {**asked, "id": "r1"},
        {**asked, "value": {"messages": []}},
        {**shared, "value": {"model": "m"}},
        {**shared, "value": {**shared["value"], "content": []}},
    ):
        assert complaints(line)
    (action, _) = lines_of(written, "action")
    wrong: list[dict[str, Any]] = [
        {"is_error": False},
        {"before": None, "after": None},
        {"pointer": [1]},
        {"input": None},
    ]
    for more in wrong:
        assert complaints({**action, **more})
    nothing: dict[str, Any] = {"before": None, "pointer": None, "focus": None, "windows": []}
    assert not complaints({**action, **nothing})


def test_every_field_of_the_trace_is_in_it() -> None:
    actions = SCHEMA["$defs"]["action"]
    assert properties(actions) == {field.name for field in fields(Action)} | {"type", "step", "turn", "sum"}
    assert properties(SCHEMA["$defs"]["usage"]) == {field.name for field in fields(Usage)}
    assert set(whole_action().to_json()) == {field.name for field in fields(Action)}


def test_every_field_that_the_code_writes_is_in_it() -> None:
    """Also where no test above brings it about: every dict of the source that says which line it is."""
    found = set()
    for path in Path(cassette.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                names = {
                    key.value: value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                kind = names.get("type")
                if isinstance(kind, ast.Constant) and kind.value in LINE_TYPES:
                    found.add(kind.value)
                    assert set(names) <= properties(SCHEMA["$defs"][kind.value]), f"{path.name}, line {node.lineno}"
    assert found == set(LINE_TYPES)


# ---------------------------------------------------------------------- the page


def blocks(language: str) -> list[str]:
    parts = PAGE.read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return [part.partition("```")[0] for part in parts]


def test_the_sums_can_be_verified_by_hand(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,), (commands,) = blocks("python"), blocks("sh")
    folder = tmp_path / "copy"
    shutil.copytree(recorded / "cassettes/test_all/test_everything", folder)
    monkeypatch.chdir(folder)
    exec(code, {})
    output = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True).stdout.split()
    kept = load(folder)
    assert output == [kept.lines[1]["sum"], kept.footer["files"]["steps.md"]]

    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    for changed, message in (
        ([lines[0], lines[1].replace(b"Look", b"look"), *lines[2:]], "line 2"),
        ([lines[0], *lines[2:]], "line 2"),
        ([lines[1], lines[0], *lines[2:]], "line 1"),
        (lines[:-1], "not complete"),
    ):
        (folder / FILE).write_bytes(b"".join(changed))
        with pytest.raises(AssertionError, match=message):
            exec(code, {})


def test_every_name_in_a_folder_is_on_the_page(recorded: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"# Cassette format {FORMAT}\n" in text
    for path in (recorded / "cassettes/test_all").rglob("*"):
        if path.is_file() and path.suffix not in (".webp", ".bin") and path.name not in ("lock", ".gitignore"):
            assert f"`{path.name}`" in text, path
    assert "`.failed/`" in text
    assert (recorded / "cassettes/test_all/test_that_fails/.failed" / FILE).exists()
    assert (recorded / "cassettes/test_all/test_everything/http.yaml").exists()


def test_what_was_recorded_replays(recorded: Path) -> None:
    for mode in ("replay", "offline"):
        output = run(recorded, f"--cua-mode={mode}", "test_all.py::test_everything")
        assert "1 passed" in output, output
