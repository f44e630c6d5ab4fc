"""Recordings of other tools: real ones are taken in and replayed by the SDK as they were, and go out to stock vcrpy.

The originals are in tests/data/vcr, with where they come from. What the SDK parses from a replay is compared with what
it parses from the original bytes, which a transport hands it without anything of ours between.
"""

from __future__ import annotations

import base64
import gzip
import inspect
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
import vcr
import yaml
from PIL import Image
from vcr.request import Request as VcrRequest
from vcr.serialize import serialize
from vcr.serializers import jsonserializer

from pytest_cua.cassette.format import Cassette, load
from pytest_cua.cassette.lanes import Lanes
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.player import ClientPlayer, Player
from pytest_cua.cassette.store import CassetteWriter, load_cassette
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.vcr_export import export_vcr
from pytest_cua.cassette.vcr_files import Exchange, read_vcr
from pytest_cua.cassette.vcr_import import ImportReport, import_vcr, is_claude
from pytest_cua.cassette.wire import History, Reply, Request, plain
from pytest_cua.errors import BadArgument, CassetteMismatch, CassetteUnreadable
from pytest_cua.trace import Run

DATA = Path(__file__).parents[1] / "data" / "vcr"
TEST = "tests/test_chat.py::test_answer"
KEY = "sk-ant-api03-abcdefghijklmnop"
CLAUDE = sorted(path for path in DATA.glob("*.yaml") if "openai" not in path.name)
STREAMED = [path for path in CLAUDE if b"text/event-stream" in path.read_bytes() or "cagent" in path.name]
OPENAI = DATA / "lmnr__openai_responses_computer_call.yaml"
IMAGES = DATA / "pydantic-ai__test_model_sees_multiple_images_anthropic.yaml"
TWO_TURNS = DATA / "docker-cagent__TestExec_Anthropic_ToolCall.yaml"
COMPUTER = DATA / "lmnr__litellm_anthropic_with_computer_tools.yaml"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*thinking.type=enabled.*:UserWarning"),
]


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


# ---------------------------------------------------------------------- the SDK on originals, replays and exports


def originals(path: Path) -> list[tuple[dict[str, Any], httpx2.Response]]:
    """Request bodies and replies, straight from the YAML: as they came over the wire, compressed ones too."""
    found = []
    for item in yaml.safe_load(path.read_text(encoding="utf-8"))["interactions"]:
        request, reply = item["request"], item["response"]
        sent = request["parsed_body"] if "parsed_body" in request else json.loads(request["body"])
        body = reply.get("body")
        body = json.dumps(reply["parsed_body"]) if body is None else body["string"] if isinstance(body, dict) else body
        raw = body.encode() if isinstance(body, str) else body
        headers = {name.lower(): values[0] for name, values in reply["headers"].items()}
        headers = {
            name: headers[name] for name in ("content-type", "content-encoding", "request-id") if name in headers
        }
        headers.setdefault("content-type", "text/event-stream")  # go-vcr was told to keep none
        found.append((sent, httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(raw))))
    return found


def original_client(path: Path) -> anthropic.Anthropic:
    replies = iter([reply for _, reply in originals(path)])
    transport = httpx2.MockTransport(lambda request: next(replies))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=httpx2.Client(transport=transport))


def replay_client(cassette: Cassette) -> tuple[anthropic.Anthropic, ClientPlayer]:
    player = ClientPlayer(cassette, Player(cassette, test=TEST, latch=Latch()), Lanes()).bound_to(None)
    client = anthropic.Anthropic(api_key="none", base_url="http://replay.invalid", max_retries=0, middleware=[player])
    player.client = client
    return client, player


def asked(method: Callable[..., Any], body: Mapping[str, Any]) -> Any:
    """Call a method of the SDK so that it sends this body, arguments that it has no more among them."""
    known = inspect.signature(method).parameters
    named = {name: value for name, value in body.items() if name in known}
    extra = {name: value for name, value in body.items() if name not in known and name != "stream"}
    return method(**named, extra_body=extra or None)


def parsed(client: anthropic.Anthropic, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every message as the SDK gives it, put together when it was streamed."""
    found = []
    for body in bodies:
        if body.get("stream"):
            with asked(client.messages.stream, body) as stream:
                message = stream.get_final_message()
                request_id = stream.request_id
        else:
            message = asked(client.messages.create, body)
            request_id = message._request_id
        found.append({**message.to_dict(mode="json"), "request_id": request_id})
    return found


def events(client: anthropic.Anthropic, bodies: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Every event of every stream as the SDK gives it."""
    return [[event.to_dict(mode="json") for event in asked(client.messages.create, body)] for body in bodies]


def bodies_of(path: Path) -> list[dict[str, Any]]:
    return [body for body, _ in originals(path)]


def same(replayed: list[dict[str, Any]], original: list[dict[str, Any]]) -> None:
    assert len(replayed) == len(original)
    for one, other in zip(replayed, original, strict=True):
        for block, other_block in zip(one["content"], other["content"], strict=True):
            assert block == other_block
        assert one == other  # ids, stop_reason, usage and whatever else there is


def imported(path: Path, root: Path, **options: Any) -> tuple[ImportReport, Cassette]:
    report = import_vcr(path, root=root, test=TEST, **options)
    return report, load_cassette(root, TEST)


# ---------------------------------------------------------------------- import and replay


@each(CLAUDE)
def test_a_replay_gives_what_the_sdk_read_from_the_original(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    client, player = replay_client(cassette)
    same(parsed(client, bodies_of(path)), parsed(original_client(path), bodies_of(path)))
    player.finish()


@each(STREAMED)
def test_a_replayed_stream_gives_every_event_of_the_original(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    replayed = events(replay_client(cassette)[0], bodies_of(path))
    original = events(original_client(path), bodies_of(path))
    assert [len(one) for one in replayed] == [len(one) for one in original]
    for one, other in zip(replayed, original, strict=True):
        for event, other_event in zip(one, other, strict=True):
            assert event == other_event


@each(STREAMED)
def test_a_stream_is_kept_byte_by_byte(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    kept = ["".join(text for _, text in turn.events or ()) for turn in cassette.turns()]
    assert kept == [reply.read().decode() for _, reply in originals(path)]


@each([*CLAUDE, OPENAI])
def test_an_import_says_where_it_is_from(path: Path, tmp_path: Path) -> None:
    report, cassette = imported(path, tmp_path)
    assert cassette.header["imported_from"] == path.name
    assert cassette.header["model_endpoint"] == ("none" if path == OPENAI else "anthropic")
    assert cassette.header["display"] == {}
    assert report.left_out == 0
    assert report.turns + report.http == len(yaml.safe_load(path.read_text(encoding="utf-8"))["interactions"])
    assert path.name in str(report)


def test_the_model_is_read_from_the_requests(tmp_path: Path) -> None:
    assert imported(IMAGES, tmp_path)[1].header["model"] == "claude-sonnet-4-5"


@each([IMAGES, TWO_TURNS])
def test_turns_keep_their_order(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    first, second = cassette.turns()
    assert [len(first.new), first.keep] == [1, 0]
    assert second.keep + len(second.new) == 3
    assert len(bodies_of(path)[1]["messages"]) == 3


def test_a_reply_that_the_next_request_repeats_is_named(tmp_path: Path) -> None:
    _, cassette = imported(IMAGES, tmp_path)
    (conversation,) = cassette.conversations
    assert conversation.turns[1].new[0] == {"role": "assistant", "content": "=reply"}


def test_each_picture_is_stored_once_without_loss(tmp_path: Path) -> None:
    report, cassette = imported(IMAGES, tmp_path)
    sent = {source["data"] for source in sources(bodies_of(IMAGES)) if source["type"] == "base64"}
    (stored,) = (tmp_path / "screens").rglob("*.webp")
    assert len(sent) == report.pictures == len(cassette.screens()) == 1
    original = Image.open(io.BytesIO(base64.b64decode(sent.pop()))).convert("RGB")
    assert Image.open(stored).convert("RGB").tobytes() == original.tobytes()
    assert cassette.file.stat().st_size < 6_000 < IMAGES.stat().st_size // 20


def sources(value: Any) -> Iterator[dict[str, Any]]:
    """Where pictures in a request come from."""
    if isinstance(value, dict):
        if value.get("type") == "image":
            yield value["source"]
        for item in value.values():
            yield from sources(item)
    elif isinstance(value, list):
        for item in value:
            yield from sources(item)


def test_another_question_is_a_mismatch(tmp_path: Path) -> None:
    _, cassette = imported(COMPUTER, tmp_path)
    body = bodies_of(COMPUTER)[0]
    body["messages"] = [{"role": "user", "content": "What is the capital of Spain?"}]
    with pytest.raises(CassetteMismatch, match="Spain"):
        parsed(replay_client(cassette)[0], [body])


def test_what_others_answered_goes_to_http_yaml_and_is_replayed(tmp_path: Path) -> None:
    report, cassette = imported(OPENAI, tmp_path)
    assert (report.http, report.turns, cassette.conversations) == (1, 0, [])
    with vcr.use_cassette(str(cassette.folder / "http.yaml"), record_mode="none") as played:
        reply = httpx2.post("https://api.openai.com/v1/responses", json=bodies_of(OPENAI)[0])
    assert reply.json()["output"][-1]["action"] == {"type": "screenshot"}
    assert played.all_played
    assert "cua_http_recorded = api.openai.com" in str(report)
    assert "no call to Claude is among them" in str(report)


CHAT = """
import anthropic

def ask(what):
    with anthropic.Anthropic().messages.stream(
        model="claude-sonnet-4-0",
        max_tokens=4096,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[{"role": "user", "content": what}],
    ) as stream:
        return stream.get_final_message().content

def test_same(cua):
    thought, answer = ask("How do I cross the street?")
    assert thought.type == "thinking" and thought.signature
    assert "street" in answer.text

def test_other(cua):
    ask("How do I cross the river?")
"""


def test_tests_are_answered_from_an_import_without_a_key(pytester: pytest.Pytester) -> None:
    path = DATA / "pydantic-ai__thinking_part_stream.yaml"
    for name in ("same", "other"):
        import_vcr(path, root=pytester.path / "cassettes", test=f"test_chat.py::test_{name}")
    pytester.makepyfile(test_chat=CHAT)
    result = pytester.runpytest_subprocess("--cua-mode=offline")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch*test_other*", "*recorded:*the street?*", "*now:*the river?*"])


# ---------------------------------------------------------------------- old shapes


def reply_with(**changes: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-2",
        "content": [{"type": "text", "text": "Paris"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return {**message, **changes}


ASKED = {"model": "claude-2", "max_tokens": 9, "messages": [{"role": "user", "content": "The capital of France?"}]}


def vcr_file(folder: Path, *pairs: tuple[Any, Any], path: str = "/v1/messages", status: int = 200) -> Path:
    """A file as vcrpy writes it by default: with every header."""
    requests = [
        VcrRequest(
            "POST",
            f"https://api.anthropic.com{path}",
            json.dumps(body),
            {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01", "x-api-key": KEY},
        )
        for body, _ in pairs
    ]
    replies = [
        {
            "status": {"code": 200 if reply.get("type") != "error" else status, "message": "OK"},
            "headers": {"content-type": ["application/json"], "set-cookie": [f"session={KEY}"]},
            "body": {"string": json.dumps(reply).encode()},
        }
        for _, reply in pairs
    ]
    target = folder / "recorded.yaml"
    target.write_text(serialize({"requests": requests, "responses": replies}, vcr.serializers.yamlserializer))
    return target


def test_text_completions_cannot_be_asked_any_more(tmp_path: Path) -> None:
    path = vcr_file(
        tmp_path, ({"prompt": "\n\nHuman: hi", "model": "claude-2"}, {"completion": "hi"}), path="/v1/complete"
    )
    with pytest.raises(CassetteUnreadable, match=rf"holds nothing that anthropic {anthropic.__version__}") as caught:
        import_vcr(path, root=tmp_path, test=TEST)
    assert "text completions (POST /v1/complete) are an old API" in str(caught.value)


def test_an_argument_that_the_sdk_dropped_is_named(tmp_path: Path) -> None:
    report, _ = imported(DATA / "llm-anthropic__test_stream_events_tool_calls.yaml", tmp_path)
    assert "has no argument `temperature`" in str(report)


def test_the_api_version_of_then_is_named(tmp_path: Path) -> None:
    report, _ = imported(COMPUTER, tmp_path)
    assert "recorded under API version 2023-06-01" in str(report)


def test_an_address_of_old_beta_methods_is_brought_up_to_date(tmp_path: Path) -> None:
    report, cassette = imported(IMAGES, tmp_path)
    assert {turn.path for turn in cassette.turns()} == {"/v1/messages"}
    assert "`?beta=true` was taken off" in str(report)


@pytest.mark.parametrize(
    ("body", "reply", "said"),
    [
        (ASKED, reply_with(content=[{"type": "hologram"}]), "content.0 is a block of type 'hologram'"),
        (ASKED, {k: v for k, v in reply_with().items() if k != "usage"}, "usage: Field required"),
        ({**ASKED, "max_tokens": 64_000}, reply_with(), "cannot replay this: ValueError: Streaming is required"),
    ],
)
def test_what_the_sdk_cannot_ask_or_read_is_said(body: Any, reply: Any, said: str, tmp_path: Path) -> None:
    report, _ = imported(vcr_file(tmp_path, (body, reply)), tmp_path)
    assert "conversation 1, turn 1: " in str(report)
    assert said in str(report)


def test_what_all_is_well_with_is_not_talked_about(tmp_path: Path) -> None:
    report, _ = imported(vcr_file(tmp_path, (ASKED, reply_with())), tmp_path)
    assert [note for note in report.notes if "API version" not in note] == []


def test_what_was_asked_again_is_one_turn(tmp_path: Path) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    report, cassette = imported(vcr_file(tmp_path, (ASKED, overloaded), (ASKED, reply_with()), status=529), tmp_path)
    (turn,) = cassette.turns()
    assert report.turns == 1
    assert turn.attempts == [{"status": 529, "error": overloaded}]
    same(parsed(replay_client(cassette)[0], [ASKED]), [{**reply_with(), "request_id": None}])


def test_an_error_that_was_the_last_word_is_replayed(tmp_path: Path) -> None:
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "too old"}}
    _, cassette = imported(vcr_file(tmp_path, (ASKED, refused), status=400), tmp_path)
    with pytest.raises(anthropic.BadRequestError, match="too old"):
        parsed(replay_client(cassette)[0], [ASKED])


# ---------------------------------------------------------------------- secrets and what is there


def test_no_key_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse")
    secret = {**ASKED, "messages": [{"role": "user", "content": f"log in with correct-horse, or {KEY}"}]}
    source = vcr_file(tmp_path, (secret, reply_with()))
    other = (
        source.read_text().replace("api.anthropic.com", f"user:{KEY}@shop.example").replace("anthropic-version", "x")
    )
    source.write_text(source.read_text().replace("version: 1\n", "") + other.replace("interactions:\n", ""))
    root = tmp_path / "cassettes"
    report = import_vcr(source, root=root, test=TEST)
    assert (report.turns, report.http) == (1, 1)
    (kept,) = read_vcr(report.folder / "http.yaml")
    assert kept.url == "https://shop.example/v1/messages"
    assert kept.request_headers == {}
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert b"correct-horse" not in written
    assert b"[redacted SHOP_PASSWORD]" in written


def test_a_cassette_is_not_overwritten_unasked(tmp_path: Path) -> None:
    imported(COMPUTER, tmp_path)
    with pytest.raises(BadArgument, match="has a cassette already.*\n.*--force"):
        import_vcr(IMAGES, root=tmp_path, test=TEST)
    assert imported(IMAGES, tmp_path, force=True)[1].header["imported_from"] == IMAGES.name


def test_an_import_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Tape, "turn", broken)
    with pytest.raises(OSError, match="no space left"):
        import_vcr(COMPUTER, root=tmp_path, test=TEST)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# ---------------------------------------------------------------------- reading


def comparable(exchange: Exchange) -> tuple[Any, ...]:
    return exchange.method, exchange.url, exchange.request_body, exchange.status, exchange.reply_body


def test_the_json_of_vcrpy_is_read_as_its_yaml(tmp_path: Path) -> None:
    path = DATA / "llm-anthropic__test_image_prompt.yaml"
    copy = tmp_path / "recorded.json"
    copy.write_text(jsonserializer.serialize(yaml.safe_load(path.read_text())))
    assert [comparable(e) for e in read_vcr(copy)] == [comparable(e) for e in read_vcr(path)]


def test_what_vcrpy_once_wrote_for_httpx_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    reply = {"status_code": 200, "http_version": "HTTP/1.1", "headers": {"content-type": ["a/b"]}, "content": "hello"}
    request = {"method": "GET", "uri": "https://example.com/a?b=1", "body": "", "headers": {}}
    path.write_text(yaml.safe_dump({"interactions": [{"request": request, "response": reply}], "version": 1}))
    (exchange,) = read_vcr(path)
    assert comparable(exchange) == ("GET", "https://example.com/a?b=1", b"", 200, b"hello")
    assert (exchange.host, exchange.path, is_claude(exchange)) == ("example.com", "/a", False)


def test_ruby_s_vcr_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ruby.yml"
    path.write_text(
        """---
http_interactions:
- request:
    method: post
    uri: https://api.anthropic.com/v1/messages
    body: {encoding: UTF-8, string: '{"model": "claude-2"}'}
    headers: {Content-Type: [application/json]}
  response:
    status: {code: 200, message: OK}
    headers: {Content-Type: [application/json]}
    body: {encoding: ASCII-8BIT, base64_string: eyJpZCI6IDF9}
  recorded_at: Tue, 01 Nov 2011 04:58:44 GMT
recorded_with: VCR 6.0.0
"""
    )
    (exchange,) = read_vcr(path)
    assert comparable(exchange)[2:] == (b'{"model": "claude-2"}', 200, b'{"id": 1}')
    assert exchange.reply_headers == {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vercel-ai__anthropic-memory-20250818.json", "it is one JSON reply of the Messages API, without its request"),
        (
            "vercel-ai__anthropic-tool-no-args.chunks.txt",
            "the events of one streamed reply of the Messages API as lines",
        ),
        ("anthropic-sdk__tool_use_response.sse.txt", "it is an event stream, one streamed reply without its request"),
        ("anthropic-sdk__stream-a-toolrefusal.sse", "it is an event stream, one streamed reply without its request"),
        ("README.md", "it is no whole YAML"),
    ],
)
def test_what_is_no_cassette_is_called_by_its_name(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CassetteUnreadable, match="cannot be imported: ") as caught:
        import_vcr(DATA / name, root=tmp_path, test=TEST)
    assert said in str(caught.value)
    assert "hint: " in str(caught.value)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("interactions: []\nversion: 1\n", "hold nothing"),
        ('{"log": {"entries": []}}', "HTTP archive"),
        ('{"object": "chat.completion"}', "OpenAI"),
        ('{"model": "m", "messages": []}', "one request of the Messages API"),
        ('{"a": 1', "no whole JSON"),
        ('{"type": "header", "format": 1}\n{"type": "footer"}\n', "a cassette of pytest-cua already"),
        ('[{"request": {}, "response": {}}]', "before 1.0"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "pointer of Git LFS"),
        ("interactions:\n- !!python/object:os.system {}\nversion: 1\n", "Python objects"),
        ("interactions:\n- request: {method: GET}\n  response: {}\nversion: 1\n", "interaction 1 has no status"),
        ("interactions:\n- request: {method: GET, uri: a}\nversion: 1\n", "interaction 1 has no response"),
    ],
)
def test_every_other_file_is_refused_in_plain_words(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(CassetteUnreadable) as caught:
        read_vcr(path)
    assert said in str(caught.value)


def test_a_picture_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    with pytest.raises(CassetteUnreadable, match="it is no text"):
        read_vcr(path)
    with pytest.raises(CassetteUnreadable, match="No such file"):
        read_vcr(tmp_path / "none.yaml")


def file_with(folder: Path, **reply: Any) -> Path:
    """A file of vcrpy with one reply."""
    path = folder / "one.yaml"
    request = {"method": "GET", "uri": "https://example.com/", "body": None, "headers": {}}
    whole = {"status": {"code": 200, "message": "OK"}, "headers": {}, **reply}
    path.write_text(yaml.dump({"interactions": [{"request": request, "response": whole}], "version": 1}))
    return path


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-encoding": ["gzip"]}, {"string": gzip.compress(b"hello")}),
        ({"Content-Encoding": "deflate"}, {"string": zlib.compress(b"hello")}),
        ({"content-encoding": ["gzip"]}, {"string": "hello"}),  # unpacked by who wrote the file
        ({"content-encoding": ["br"]}, {"base64_string": "aGVsbG8="}),
        ({}, "hello"),
        ({}, [b"hel", "lo"]),
        ({}, {"string": io.BytesIO(b"hello")}),  # as old files have what was sent from a file
    ],
)
def test_every_form_of_a_body_is_read(headers: Any, body: Any, tmp_path: Path) -> None:
    (exchange,) = read_vcr(file_with(tmp_path, headers=headers, body=body))
    assert exchange.reply_body == b"hello"
    assert "content-encoding" not in exchange.reply_headers


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({"content-encoding": ["gzip"]}, {"string": b"\xff\xfe no gzip"}, "no whole 'gzip' data"),
        ({}, {"base64_string": "a"}, "is no base64"),
    ],
)
def test_a_body_that_is_broken_is_refused(headers: Any, body: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(CassetteUnreadable, match=said):
        read_vcr(file_with(tmp_path, headers=headers, body=body))


def test_a_reply_that_cannot_be_unpacked_here_says_what_is_missing(tmp_path: Path) -> None:
    path = file_with(tmp_path, headers={"content-encoding": ["br"]}, body={"string": b"\x0b\x02\x80\xff\x03"})
    with pytest.raises(CassetteUnreadable, match="compressed with 'br'.*\n.*pip install brotli"):
        read_vcr(path)


@each([IMAGES, COMPUTER, DATA / "llm-anthropic__test_image_prompt.yaml"])
def test_a_file_that_was_cut_is_never_taken_for_whole(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    copy = tmp_path / path.name
    for end in range(0, len(text.rstrip(".\n")) - 1, max(1, len(text) // 60)):
        copy.write_text(text[:end])
        with pytest.raises(CassetteUnreadable):
            read_vcr(copy)


# ---------------------------------------------------------------------- export


@each(CLAUDE)
def test_stock_vcrpy_replays_an_export(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    original = parsed(original_client(path), bodies_of(path))
    bodies = iter(bodies_of(path))
    replayed = []
    for conversation in cassette.conversations:
        target = tmp_path / f"{conversation.number}.yaml"
        report = export_vcr(cassette.folder, target, conversation=conversation.number)
        assert report.interactions == len(conversation.turns)
        with vcr.use_cassette(str(target), record_mode="none") as played:  # default match_on, default serializer
            client = anthropic.Anthropic(api_key="none", max_retries=0)
            replayed += parsed(client, [next(bodies) for _ in conversation.turns])
            assert played.all_played
    same(replayed, original)


@each(CLAUDE)
def test_an_export_asks_what_was_asked(path: Path, tmp_path: Path) -> None:
    _, cassette = imported(path, tmp_path)
    found = []
    for conversation in cassette.conversations:
        target = tmp_path / f"{conversation.number}.yaml"
        export_vcr(cassette.folder, target, conversation=conversation.number)
        found += [json.loads(exchange.request_body) for exchange in read_vcr(target)]
    assert [pixels(body) for body in found] == [pixels(body) for body in bodies_of(path)]


def pixels(value: Any) -> Any:
    """A request with each base64 picture as its pixels: an export holds PNG, whatever was sent."""

    def picture(data: str, media_type: str) -> str:
        image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        return f"{image.size} {hash(image.tobytes())}"

    whole = plain(value, picture)
    return json.loads(json.dumps(whole).replace("image/jpeg", "image/png"))


def test_an_export_is_imported_as_it_was(tmp_path: Path) -> None:
    _, cassette = imported(IMAGES, tmp_path)
    export_vcr(cassette.folder, tmp_path / "out.yaml")
    again = import_vcr(tmp_path / "out.yaml", root=tmp_path / "again", test=TEST)
    turns = [(t.params, t.keep, t.body, t.status, t.headers) for t in cassette.turns()]
    assert [(t.params, t.keep, t.body, t.status, t.headers) for t in load(again.folder).turns()] == turns
    assert load(again.folder).screens() == cassette.screens()


def test_what_was_asked_again_is_asked_again_in_an_export(tmp_path: Path) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    _, cassette = imported(vcr_file(tmp_path, (ASKED, overloaded), (ASKED, reply_with()), status=529), tmp_path)
    report = export_vcr(cassette.folder, tmp_path / "out.yaml")
    assert report.interactions == 2
    with vcr.use_cassette(str(tmp_path / "out.yaml"), record_mode="none") as played:
        same(parsed(anthropic.Anthropic(api_key="none"), [ASKED]), [{**reply_with(), "request_id": None}])
    assert played.all_played


def step_cassette(root: Path, picture: Image.Image) -> Path:
    """A cassette with one step of two turns, the second of which shows a screenshot."""
    writer = CassetteWriter(root / "tests" / "test_chat" / "test_answer", root)
    header = header_line(test=TEST, model="m", tools=[], prompt_digest="", display={}, environment={})
    tape = Tape(writer, header=header, run=Run(test=TEST, mode="record"))
    tape.replied("scripted")
    tape.write({"type": "step", "step": 1, "kind": "do", "desktop": "1", "sentence": "Look"})
    use = {"type": "tool_use", "id": "t1", "name": "screenshot", "input": {}}
    shown = {"type": "image", "media_type": "image/png", "screen": tape.picture(picture)}
    look = {"role": "user", "content": "Look"}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [shown]}]}
    history = History()
    params = {"model": "m", "max_tokens": 9}
    for number, (messages, blocks) in enumerate(
        [([look], [use]), ([look, {"role": "assistant", "content": [use]}, result], reply_with()["content"])], start=1
    ):
        tape.turn(
            {"step": 1, "turn": number},
            history,
            Request("post", "/v1/messages", dict(params), messages),
            Reply(200, reply_with(content=blocks)),
            waited_ms=3,
            attempts=[],
        )
    tape.write({"type": "end", "step": 1, "outcome": "done", "summary": "seen", "observations": [], "usage": {}})
    tape.close(passed=True)
    return writer.folder


def test_a_step_is_exported_with_its_history_and_its_screenshots(tmp_path: Path) -> None:
    picture = Image.effect_noise((40, 30), 90).convert("RGB")
    target = tmp_path / "step.yaml"
    report = export_vcr(step_cassette(tmp_path / "cassettes", picture), target, step=1)
    assert str(report).startswith(f"{target}: step 1, 2 interactions, ")
    bodies = [json.loads(exchange.request_body) for exchange in read_vcr(target)]
    assert [message["role"] for message in bodies[1]["messages"]] == ["user", "assistant", "user"]
    (source,) = sources(bodies)
    assert source["media_type"] == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(source["data"]))).tobytes() == picture.tobytes()
    with vcr.use_cassette(str(target), record_mode="none") as played:
        messages = parsed(anthropic.Anthropic(api_key="none", max_retries=0), bodies)
    assert [message["content"][0]["type"] for message in messages] == ["tool_use", "text"]
    assert played.all_played


def test_an_export_names_what_there_is(tmp_path: Path) -> None:
    folder = step_cassette(tmp_path / "cassettes", Image.new("RGB", (4, 4)))
    assert export_vcr(folder, tmp_path / "only.yaml").what == "step 1"
    with pytest.raises(BadArgument, match="step 2 was asked for; .* holds step 1"):
        export_vcr(folder, tmp_path / "out.yaml", step=2)
    with pytest.raises(BadArgument, match="only.yaml exists already"):
        export_vcr(folder, tmp_path / "only.yaml")
    export_vcr(folder, tmp_path / "only.yaml", force=True)


PDF = b"%PDF-1.7 \xff"


def test_an_export_holds_whatever_else_a_conversation_had(tmp_path: Path) -> None:
    writer = CassetteWriter(tmp_path / "tests" / "test_chat" / "test_answer", tmp_path)
    header = header_line(test=TEST, model="m", tools=[], prompt_digest="", display={}, environment={})
    tape = Tape(writer, header=header, run=Run(test=TEST, mode="record"))
    tape.replied("anthropic")
    tape.write({"type": "conversation", "conversation": 1, "client": "Anthropic"})
    document = {"type": "document", "media_type": "application/pdf", "file": tape.file(PDF), "title": "a"}
    replies = [
        Reply(200, events=[[1, "event: ping\ndata: {}\n\n"]], cut="closed"),
        Reply(0, body="APITimeoutError"),
        Reply(502, body="<html>bad gateway</html>"),
        Reply(200, file=b"\xff\x00"),
    ]
    for turn, reply in enumerate(replies, start=1):
        asked = Request("post", "/v1/messages", {"model": "m"}, [{"role": "user", "content": [document]}])
        tape.turn({"conversation": 1, "turn": turn}, History(), asked, reply, waited_ms=1, attempts=[])
    models = Request("get", "/v1/models?limit=2", {}, [])
    tape.turn(
        {"conversation": 1, "turn": 5}, History(), models, Reply(200, body={"data": []}), waited_ms=1, attempts=[]
    )
    tape.close(passed=True)

    report = export_vcr(writer.folder, tmp_path / "out.yaml")
    found = read_vcr(tmp_path / "out.yaml")
    assert [(exchange.method, exchange.status, exchange.reply_body) for exchange in found] == [
        ("POST", 200, b"event: ping\ndata: {}\n\n"),
        ("POST", 502, b"<html>bad gateway</html>"),
        ("POST", 200, b"\xff\x00"),
        ("GET", 200, b'{"data": []}'),
    ]
    assert (found[3].url, found[3].request_body) == ("https://api.anthropic.com/v1/models?limit=2", b"")
    source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(PDF).decode()}
    (sent,) = json.loads(found[0].request_body)["messages"][0]["content"]
    assert sent == {"type": "document", "title": "a", "source": source}
    assert report.notes == [
        "the stream of turn 1 ends where its recording ended (closed)",
        "turn 2 is left out: no reply came, which a file of vcrpy cannot say",
    ]


async def ask_async(body: dict[str, Any]) -> dict[str, Any]:
    client = anthropic.AsyncAnthropic(api_key="none", max_retries=0)
    async with asked(client.messages.stream, body) as stream:
        return (await stream.get_final_message()).to_dict(mode="json")


def test_an_asynchronous_client_replays_an_export_too(tmp_path: Path) -> None:
    import asyncio

    path = DATA / "pydantic-ai__thinking_part_stream.yaml"
    _, cassette = imported(path, tmp_path)
    export_vcr(cassette.folder, tmp_path / "out.yaml")
    with vcr.use_cassette(str(tmp_path / "out.yaml"), record_mode="none"):
        message = asyncio.run(ask_async(bodies_of(path)[0]))
    same([{**message, "request_id": None}], parsed(original_client(path), bodies_of(path)))
