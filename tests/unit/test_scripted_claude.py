"""ScriptedClaude, driven by the real SDK and, where the SDK would not send it, by raw requests."""

from __future__ import annotations

import base64
import copy
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import beta_tool
from anthropic.tools import ToolError
from anthropic.tools.computer import BetaAbstractComputerToolset20260801, BetaScreenshotResult
from PIL import Image

from pytest_cua.errors import BadArgument
from pytest_cua.testing import (
    Box,
    ScriptedClaude,
    ScriptedRequest,
    by_sentence,
    disconnect,
    error,
    finish,
    raw,
    say,
    think,
    turn,
    use,
    use_tool,
)

MODEL = "claude-sonnet-5-5"
TOOLSET: dict[str, Any] = {"type": "computer_toolset_20260801"}
THREADS = "message-threads-2026-08-12"
Body = dict[str, Any]


def picture(width: int = 60, height: int = 40, colour: str = "white", kind: str = "PNG") -> str:
    data = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(data, kind)
    return base64.b64encode(data.getvalue()).decode()


class Computer(BetaAbstractComputerToolset20260801):
    """A desktop of one colour, which remembers where it was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.clicks: list[list[int]] = []

    def screenshot(self, context: Any, input: Any) -> BetaScreenshotResult:
        return BetaScreenshotResult(data=picture(colour="navy"), media_type="image/png")

    def left_click(self, context: Any, input: Any) -> None:
        if input.coordinate[0] > 60:
            raise ToolError("outside the screen")
        self.clicks.append(input.coordinate)


@beta_tool
def finish_step(outcome: str, summary: str) -> str:
    """End the step.

    Args:
        outcome: done or blocked
        summary: what was done
    """
    return "noted"


def client_of(claude: ScriptedClaude, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="scripted", base_url=claude.base_url, **options)


def run(
    claude: ScriptedClaude, sentence: str = "save it", *, computer: Computer | None = None, **more: Any
) -> list[Any]:
    """The replies of one run of the SDK's tool runner."""
    with client_of(claude) as client:
        runner = client.beta.messages.tool_runner(
            model=more.pop("model", MODEL),
            max_tokens=2000,
            system="be careful",
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "earlier"}, {"type": "text", "text": sentence}]}
            ],
            tools=[computer or Computer(), finish_step],
            **more,
        )
        return [item.get_final_message() if more.get("stream") else item for item in runner]


# ------------------------------------------------------------------------------------------- the SDK's tool runner
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("options", [{}, {"thread": False}], ids=["thread", "history"])
def test_tool_runner_plays_a_whole_step(options: dict[str, Any], stream: bool) -> None:
    computer = Computer()
    script = [
        turn(think("where is it?"), use("screenshot")),
        turn(use("left_click", coordinate=[7, 8]), use("left_click", coordinate=Box(10, 10, 4, 6)), use("screenshot")),
        finish("clicked"),
        say("bye"),
    ]
    with ScriptedClaude(script) as claude:
        replies = run(
            claude, computer=computer, stream=stream, thinking={"type": "adaptive", "display": "summarized"}, **options
        )
    assert not claude.errors and not claude.unused and not claude.script_errors
    assert computer.clicks == [[7, 8], [12, 13]]
    assert [reply.stop_reason for reply in replies] == ["tool_use", "tool_use", "tool_use", "end_turn"]
    assert replies[0].content[0].thinking == "where is it?"
    assert replies[2].content[0].input == {"outcome": "done", "summary": "clicked"}
    assert replies[3].content[0].text == "bye"
    assert [request.turn for request in claude.requests] == [1, 2, 3, 4]
    assert {request.conversation for request in claude.requests} == {"conversation-1"}


def test_threads_hold_what_was_sent_before() -> None:
    with ScriptedClaude([use("screenshot"), finish(), say("bye")]) as claude:
        run(claude)
    create, following, last = (request.body for request in claude.requests)
    assert create["thread"] == {"type": "create"} and create["system"] == "be careful"
    assert following["thread"] == {"type": "continue", "previous_message_id": "msg_scripted000001"}
    assert "tools" not in following and "system" not in following
    assert [message["role"] for message in following["messages"]] == ["user"]
    assert last["thread"]["previous_message_id"] == "msg_scripted000002"
    assert THREADS in claude.requests[0].headers["anthropic-beta"]
    whole = claude.requests[2]
    assert [message["role"] for message in whole.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [tool.get("name", tool.get("type")) for tool in whole.tools] == [TOOLSET["type"], "finish_step"]
    assert whole.system == "be careful"


def test_a_lost_thread_is_replayed_by_the_sdk() -> None:
    with ScriptedClaude([use("screenshot"), use("screenshot"), say("done")]) as claude, client_of(claude) as client:
        runner = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "go"}], tools=[Computer()]
        )
        for reply in runner:
            if reply.id == "msg_scripted000002":
                claude.forget_threads()
    assert reply.content[0].text == "done"
    assert [problem.status for problem in claude.errors] == [404]
    threads = [request.body["thread"]["type"] for request in claude.requests]
    assert threads == ["create", "continue", "continue", "create"]
    assert len(claude.requests[3].body["messages"]) == 5
    assert claude.requests[3].conversation == "conversation-1"


def test_a_thread_continues_once() -> None:
    with ScriptedClaude([say("one"), say("two"), say("three")]) as claude, client_of(claude) as client:
        thread = client.beta.messages.thread(model=MODEL, max_tokens=100)
        first = thread.send({"role": "user", "content": "a"})
        thread.send({"role": "user", "content": "b"})
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.beta.messages.create(
                model=MODEL,
                max_tokens=100,
                messages=[{"role": "user", "content": "c"}],
                thread={"type": "continue", "previous_message_id": first.id},
                betas=[THREADS],
            )
    assert caught.value.body["error"]["details"] == {"error_code": "thread_already_continued"}


def test_results_of_the_last_turn() -> None:
    seen: list[ScriptedRequest] = []

    def play(request: ScriptedRequest) -> Iterator[Any]:
        request = yield [use("screenshot"), use_tool("finish_step", outcome="done", summary="x")]
        seen.append(request)
        request = yield [use("left_click", coordinate=[99, 1]), use("left_click", coordinate=[1, 1])]
        seen.append(request)
        yield say("bye")

    with ScriptedClaude({"save": play}) as claude:
        run(claude)
    picture_result, noted = seen[0].tool_results
    assert (picture_result.name, picture_result.is_error) == ("screenshot", False)
    assert picture_result.image is not None and picture_result.image.getpixel((0, 0)) == (0, 0, 128)
    assert (noted.name, noted.text, noted.image) == ("finish_step", "noted", None)
    assert seen[0].last_error is None and seen[0].size == (60, 40)
    assert seen[1].last_error == "outside the screen"
    assert [result.is_error for result in seen[1].tool_results] == [True, True]
    assert seen[1].tool_results[1].text == "Not executed: an earlier computer action in this turn failed."
    assert seen[1].screenshot is not None and seen[1].sentence == "save it"


def test_a_zoomed_picture_is_not_the_screenshot() -> None:
    messages = [
        user("look"),
        {"role": "assistant", "content": [called("a", "screenshot"), called("b", "zoom", region=[0, 0, 10, 10])]},
        {"role": "user", "content": [result("a", [image(80, 60)]), result("b", [image(20, 20)])]},
    ]
    with ScriptedClaude([say("seen")]) as claude:
        assert post(claude, body(messages=messages)).status_code == 200
    assert claude.requests[0].size == (80, 60)
    assert claude.requests[0].tool_results[1].image.size == (20, 20)


def test_no_screenshot_yet() -> None:
    request = ScriptedRequest(body(), messages=[user("hello")])
    assert request.screenshot is None
    with pytest.raises(LookupError, match="no screenshot yet"):
        request.find_text("Save")


# ------------------------------------------------------------------------------------------------------- plain calls
def test_create_without_tools() -> None:
    with ScriptedClaude([say("hello")]) as claude, client_of(claude) as client:
        message = client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    assert (message.content[0].text, message.stop_reason, message.model) == ("hello", "end_turn", MODEL)
    assert message._request_id == "req_scripted000001"
    assert message.usage.input_tokens == 1 and message.usage.output_tokens == 2


def test_usage_counts_text_and_patches_of_images() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "x" * 400}, image(57, 28)]}]
    with ScriptedClaude([turn(say("ok"), usage={"output_tokens": 77})]) as claude:
        usage = post(claude, body(messages=messages, tools=[TOOLSET])).json()["usage"]
    assert usage["input_tokens"] == 4500 + 100 + 3
    assert usage["output_tokens"] == 77 and usage["cache_read_input_tokens"] == 0


def test_streamed_events_are_those_of_the_api() -> None:
    script = [turn(think("hm"), say("A text of more than sixteen letters"), use_tool("bash", command="ls"))]
    with ScriptedClaude(script, model="claude-opus-4-7") as claude:
        answer = post(claude, body(model="claude-opus-4-7", stream=True))
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    names = [event["type"] for event in events]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert names[:3] == ["message_start", "content_block_start", "ping"] and names[-2:] == [
        "message_delta",
        "message_stop",
    ]
    assert names.count("content_block_stop") == 3
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas[:2]] == ["thinking_delta", "signature_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "A text of more than sixteen letters"
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"command": "ls"}
    assert events[0]["message"]["content"] == [] and events[-2]["delta"]["stop_reason"] == "tool_use"


def test_thinking_is_empty_unless_it_is_asked_for() -> None:
    with ScriptedClaude(lambda request: think("secret")) as claude:
        omitted = post(claude, body()).json()["content"][0]
        shown = post(claude, body(thinking={"type": "adaptive", "display": "summarized"})).json()["content"][0]
    assert omitted["thinking"] == "" and omitted["signature"]
    assert shown["thinking"] == "secret"


def test_the_single_computer_tool() -> None:
    tool = {"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
    script = [use_tool("computer", action="zoom", region=[0, 0, 9, 9]), say("bye")]
    with ScriptedClaude(script) as claude, client_of(claude) as client:
        request = {
            "model": "claude-opus-4-7",
            "max_tokens": 99,
            "tools": [tool],
            "betas": ["computer-use-2025-11-24"],
        }
        first = client.beta.messages.create(messages=[{"role": "user", "content": "go"}], **request)
        call = first.content[0]
        done = {"type": "tool_result", "tool_use_id": call.id, "content": [image(3000, 2000)]}
        messages = [{"role": "user", "content": "go"}, first.to_param(), {"role": "user", "content": [done]}]
        second = client.beta.messages.create(messages=messages, **request)
    assert call.input == {"action": "zoom", "region": [0, 0, 9, 9]} and call.toolset_name is None
    assert second.content[0].text == "bye"
    assert claude.requests[1].screenshot is None  # it was a zoom


def test_ids_are_the_same_every_time_and_differ_by_seed() -> None:
    def ids(seed: str) -> list[str]:
        with ScriptedClaude([use("screenshot"), say("x")], seed=seed) as claude:
            return [item for reply in run(claude) for item in (reply.id, getattr(reply.content[0], "id", ""))]

    assert ids("") == ids("") == ["msg_scripted000001", "toolu_scripted000001", "msg_scripted000002", ""]
    assert not set(ids("b")[:3]) & set(ids(""))


def test_a_history_from_elsewhere_is_continued_without_repeating_its_ids() -> None:
    messages = [
        user("go"),
        {"role": "assistant", "content": [called("toolu_scripted000001", "screenshot")]},
        {"role": "user", "content": [result("toolu_scripted000001", [image()])]},
    ]
    with ScriptedClaude([use("screenshot")]) as claude:
        answer = post(claude, body(messages=messages)).json()
    assert answer["content"][0]["id"] == "toolu_scripted000002"
    assert claude.requests[0].turn == 2


# ------------------------------------------------------------------------------------------------ errors on demand
def test_the_sdk_retries_what_can_be_retried() -> None:
    script = [
        error(529, "overloaded_error", "busy", retry_after=0.01),
        error(500, "api_error", "oops", 0.01),
        say("ok"),
    ]
    with ScriptedClaude(script) as claude, client_of(claude) as client:
        message = client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    assert message.content[0].text == "ok" and len(claude.requests) == 3
    assert not claude.errors
    assert {request.conversation for request in claude.requests} == {"conversation-1"}


def test_the_sdk_does_not_retry_a_refused_key() -> None:
    with ScriptedClaude([say("never")], valid_key="right") as claude:
        with client_of(claude) as client, pytest.raises(anthropic.AuthenticationError, match="invalid bearer token"):
            client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
        with (
            pytest.raises(anthropic.AuthenticationError),
            anthropic.Anthropic(api_key="x", base_url=claude.base_url) as other,
        ):
            other.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    assert len(claude.requests) == 2 and len(claude.unused) == 1


def test_rate_limit_header() -> None:
    with ScriptedClaude([error(429, "rate_limit_error", "slow down", retry_after=30)]) as claude:
        answer = post(claude, body())
    assert answer.status_code == 429 and answer.headers["retry-after"] == "30"
    assert answer.json()["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert answer.json()["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_disconnect_closes_in_the_middle(stream: bool) -> None:
    with (
        ScriptedClaude([disconnect(say("a text that is long enough to be cut"))]) as claude,
        client_of(claude, max_retries=0) as client,
        pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)),
    ):
        answer = client.messages.create(
            model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}], stream=stream
        )
        list(answer)


def test_a_disconnected_turn_is_asked_again() -> None:
    with ScriptedClaude([use("screenshot"), disconnect(), finish(), say("bye")]) as claude:
        replies = run(claude)
    assert [reply.stop_reason for reply in replies] == ["tool_use", "tool_use", "end_turn"]
    assert [request.turn for request in claude.requests] == [1, 2, 2, 3]
    assert not claude.errors


def test_raw_body_is_sent_as_it_is() -> None:
    with ScriptedClaude([raw({"type": "surprise"}, status=418)]) as claude:
        answer = post(claude, body())
    assert (answer.status_code, answer.json()) == (418, {"type": "surprise"})


def test_exhausted_script_says_so() -> None:
    with ScriptedClaude([say("only one")]) as claude:
        post(claude, body())
        answer = post(claude, body(messages=[user("again")]))
    assert answer.status_code == 400
    assert "exhausted: all its 1 turns were answered, and turn 1 of conversation-2 ('again')" in message_of(answer)
    assert "exhausted" in str(claude.errors[0]) and claude.errors[0].request == 2


def test_unused_turns_are_listed() -> None:
    with ScriptedClaude([say("one"), say("two")]) as claude:
        post(claude, body())
    assert claude.unused == [turn(say("two"))]


def test_an_exception_in_a_script_is_kept_and_not_retried() -> None:
    def script(request: ScriptedRequest) -> Any:
        raise ZeroDivisionError("in the script")

    with (
        ScriptedClaude(script) as claude,
        client_of(claude) as client,
        pytest.raises(anthropic.InternalServerError, match="ZeroDivisionError: in the script"),
    ):
        client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
    assert len(claude.requests) == 1
    assert isinstance(claude.script_errors[0], ZeroDivisionError)


@pytest.mark.parametrize("answer", [None, "text", [None], [{"text": "without a type"}]])
def test_a_wrong_answer_of_a_script_is_named(answer: Any) -> None:
    with ScriptedClaude(lambda request: answer) as claude:
        assert post(claude, body()).status_code == 500
    assert isinstance(claude.script_errors[0], BadArgument)


def test_every_answer_is_marked_as_scripted() -> None:
    with ScriptedClaude([say("x"), error(500, "api_error", "y")]) as claude:
        answers = [post(claude, body()), post(claude, body()), post(claude, {}), get(claude, "/v1/models")]
    assert [answer.status_code for answer in answers] == [200, 500, 400, 404]
    assert {answer.headers["x-pytest-cua-scripted"] for answer in answers} == {"1"}
    assert len({answer.headers["request-id"] for answer in answers}) == 4


def test_latency_is_waited_before_an_answer() -> None:
    with ScriptedClaude([say("x")], latency=5) as claude, pytest.raises(httpx2.ReadTimeout):
        post(claude, body(), timeout=0.2)


# --------------------------------------------------------------------------------------------------- by sentence
def save(request: ScriptedRequest) -> Iterator[Any]:
    request = yield use("screenshot")
    assert request.turn == 2
    yield finish(f"saved {request.sentence}")


def test_by_sentence_keeps_one_generator_per_conversation() -> None:
    def other(request: ScriptedRequest) -> Any:
        return finish("other") if request.turn == 1 else say("bye")

    script = by_sentence({"save": save, r"close.*window": other, "in a list (": [finish("listed")]})
    with ScriptedClaude(script) as claude:
        first = post(claude, body(messages=[user("save A")])).json()
        second = post(claude, body(messages=[user("save B")])).json()
        third = post(claude, body(messages=[user("please close the window")])).json()
        fourth = post(claude, body(messages=[user("in a list (")])).json()
        ends = [
            post(claude, body(messages=[user(f"save {name}"), said(reply), answered(reply)])).json()
            for name, reply in (("B", second), ("A", first))
        ]
    assert [end["content"][0]["input"]["summary"] for end in ends] == ["saved save B", "saved save A"]
    assert third["content"][0]["input"]["summary"] == "other"
    assert fourth["content"][0]["input"]["summary"] == "listed"
    assert [request.conversation[-1] for request in claude.requests] == ["1", "2", "3", "4", "2", "1"]


def test_the_whole_sentence_goes_before_a_pattern() -> None:
    with ScriptedClaude({".*": [say("any")], "Is it saved?": [say("exact")]}) as claude:
        assert post(claude, body(messages=[user("Is it saved?")])).json()["content"][0]["text"] == "exact"


def test_an_unknown_sentence_lists_the_patterns() -> None:
    with ScriptedClaude({"save": save, "close": save}) as claude:
        answer = post(claude, body(messages=[user("open it")]))
    assert answer.status_code == 400
    assert message_of(answer) == "no script for the sentence 'open it'; the patterns are: 'save', 'close'"


def test_a_script_that_has_ended_says_so() -> None:
    def short(request: ScriptedRequest) -> Iterator[Any]:
        yield use("screenshot")

    with ScriptedClaude({"save": short}) as claude:
        reply = post(claude, body(messages=[user("save")])).json()
        answer = post(claude, body(messages=[user("save"), said(reply), answered(reply)]))
    assert "the script short() has ended, and turn 2 of conversation-1 ('save') asks for one more" in message_of(answer)


def test_a_generator_may_return_its_last_reply() -> None:
    def short(request: ScriptedRequest) -> Iterator[Any]:
        return say("at once")
        yield

    with ScriptedClaude({"save": short}) as claude:
        assert post(claude, body(messages=[user("save")])).json()["content"][0]["text"] == "at once"


# ----------------------------------------------------------------------------------------------------- validation
def user(text: str) -> Body:
    return {"role": "user", "content": text}


def image(width: int = 60, height: int = 40, kind: str = "PNG", media_type: str = "image/png") -> Body:
    source = {"type": "base64", "media_type": media_type, "data": picture(width, height, kind=kind)}
    return {"type": "image", "source": source}


def called(id: str, name: str, **input: Any) -> Body:
    return {"type": "tool_use", "id": id, "name": name, "toolset_name": "computer", "input": input}


def result(id: str, content: Any, **more: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": id, "toolset_name": "computer", "content": content, **more}


def said(reply: Body) -> Body:
    return {"role": "assistant", "content": reply["content"]}


def answered(reply: Body) -> Body:
    calls = [block for block in reply["content"] if block["type"] == "tool_use"]
    return {"role": "user", "content": [result(call["id"], [image()]) for call in calls]}


def body(**fields: Any) -> Body:
    return {"model": MODEL, "max_tokens": 100, "messages": [user("hello")], **fields}


def conversation() -> list[Body]:
    return [
        user("go"),
        {"role": "assistant", "content": [called("a", "screenshot"), called("b", "key", text="Return")]},
        {"role": "user", "content": [result("a", [image()]), result("b", [{"type": "text", "text": "OK"}])]},
    ]


HEADERS = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}


def post(claude: ScriptedClaude, sent: Any, *, timeout: float = 20, **headers: str | None) -> httpx2.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in {**HEADERS, **given}.items() if value is not None}
    data = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return httpx2.post(f"{claude.base_url}/v1/messages", content=data, headers=kept, timeout=timeout)


def get(claude: ScriptedClaude, path: str) -> httpx2.Response:
    return httpx2.get(f"{claude.base_url}{path}")


def message_of(answer: httpx2.Response) -> str:
    return str(answer.json()["error"]["message"])


@pytest.fixture(scope="module")
def lenient() -> Iterator[ScriptedClaude]:
    """A server that answers anything that passes the validation."""
    with ScriptedClaude(lambda request: say("accepted"), retired=["claude-old"]) as claude:
        yield claude


def refused(claude: ScriptedClaude, sent: Any, expected: str, status: int = 400, **headers: str | None) -> None:
    before = len(claude.errors)
    answer = post(claude, sent, **headers)
    assert answer.status_code == status, answer.text
    assert expected in message_of(answer)
    assert answer.json()["type"] == "error" and answer.json()["request_id"].startswith("req_")
    assert [problem.message for problem in claude.errors[before:]] == [message_of(answer)]


def accepted(claude: ScriptedClaude, sent: Any, **headers: str | None) -> None:
    answer = post(claude, sent, **headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("headers", "status", "expected"),
    [
        ({"x_api_key": None}, 401, "x-api-key header is required"),
        ({"x_api_key": None, "authorization": "Basic abc"}, 401, "x-api-key header is required"),
        ({"anthropic_version": None}, 400, "anthropic-version: header is required"),
        ({"anthropic_version": "2020-01-01"}, 400, "not a valid version"),
        ({"content_type": "text/plain"}, 400, "expected application/json"),
    ],
)
def test_headers(lenient: ScriptedClaude, headers: dict[str, Any], status: int, expected: str) -> None:
    refused(lenient, body(), expected, status, **headers)


def test_both_kinds_of_key_are_accepted(lenient: ScriptedClaude) -> None:
    accepted(lenient, body())
    accepted(lenient, body(), x_api_key=None, authorization="Bearer k")


FIELDS: list[tuple[Body, str]] = [
    ({"nosuch": 1}, "nosuch: Extra inputs are not permitted"),
    ({"betas": ["x"]}, "betas: Extra inputs are not permitted"),
    ({"temperature": 0}, "temperature: sampling parameters"),
    ({"top_p": 1}, "top_p: sampling parameters"),
    ({"top_k": 1}, "top_k: sampling parameters"),
    ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
    ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
    ({"model": ""}, "model: Input should be a valid string"),
    ({"messages": "hi"}, "messages: Input should be a valid list"),
    ({"messages": []}, "messages: at least one message is required"),
    ({"stream": "yes"}, "stream: Input should be a valid boolean"),
    ({"thread": {"type": "create"}}, f"the anthropic-beta header lacks {THREADS}"),
    ({"context_management": {}}, "context_management: Extra inputs"),
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, '"enabled" is not supported for the model'),
    ({"thinking": {"type": "disabled"}}, '"disabled" is not supported for the model'),
    ({"thinking": {"type": "deep"}}, "thinking.type: Input should be one of"),
    ({"thinking": {"type": "adaptive", "budget_tokens": 1}}, "thinking.adaptive.budget_tokens: Extra inputs"),
    ({"thinking": {"type": "adaptive", "display": "all"}}, "thinking.adaptive.display"),
    ({"thinking": {"type": "adaptive", "block_binding": {}}}, "thinking.adaptive.block_binding: Extra inputs"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"power": 1}}, "output_config.power: Extra inputs"),
    ({"system": 7}, "system: Input should be a valid string or list"),
    ({"system": [{"type": "image"}]}, "system.0.type: Input should be 'text'"),
    ({"system": [{"type": "text", "text": ""}]}, "system.0.text: text content blocks must be non-empty"),
    ({"metadata": {"name": "x"}}, "metadata.name: Extra inputs"),
    ({"cache_control": {"type": "forever"}}, "cache_control.type: Input should be 'ephemeral'"),
    ({"cache_control": {"type": "ephemeral", "ttl": "9m"}}, "cache_control.ttl"),
    ({"tool_choice": {"type": "auto"}}, "tool_choice: may only be specified while providing tools"),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS, ids=[expected for _, expected in FIELDS])
def test_fields(lenient: ScriptedClaude, fields: Body, expected: str) -> None:
    refused(lenient, body(**fields), expected)


@pytest.mark.parametrize("missing", ["model", "max_tokens", "messages"])
def test_required_fields(lenient: ScriptedClaude, missing: str) -> None:
    sent = body()
    del sent[missing]
    refused(lenient, sent, f"{missing}: Field required")


@pytest.mark.parametrize("data", [b"{", b"[]", b'"x"'])
def test_a_body_that_is_no_json_object(lenient: ScriptedClaude, data: bytes) -> None:
    refused(lenient, data, "The request body is not")


def test_old_models_think_with_a_budget(lenient: ScriptedClaude) -> None:
    accepted(
        lenient, body(model="claude-opus-4-6", max_tokens=3000, thinking={"type": "enabled", "budget_tokens": 1024})
    )
    small = body(model="claude-opus-4-6", max_tokens=3000, thinking={"type": "enabled", "budget_tokens": 5})
    refused(lenient, small, "budget_tokens: Input should be greater than or equal to 1024")
    large = body(model="claude-opus-4-6", max_tokens=1500, thinking={"type": "enabled", "budget_tokens": 2000})
    refused(lenient, large, "max_tokens: must be greater than `thinking.budget_tokens`")


def test_at_most_four_cache_breakpoints(lenient: ScriptedClaude) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"type": "text", "text": "x", **mark} for _ in range(4)]
    accepted(lenient, body(messages=[{"role": "user", "content": blocks}]))
    refused(lenient, body(messages=[{"role": "user", "content": blocks}], tools=[{**TOOLSET, **mark}]), "Found 5")


def test_a_retired_model(lenient: ScriptedClaude) -> None:
    refused(lenient, body(model="claude-old"), "model: claude-old", 404)


def test_a_body_that_is_too_large() -> None:
    with ScriptedClaude([say("x")], max_body=1000) as claude:
        refused(claude, body(messages=[user("x" * 1000)]), "exceeds the maximum size", 413)
        accepted(claude, body())


CUSTOM = {"name": "look", "input_schema": {"type": "object"}}
OLD = {"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
TOOLS: list[tuple[Any, str]] = [
    ("x", "tools: Input should be a valid list"),
    (["x"], "tools.0: Input should be a valid dictionary"),
    ([{"type": "computer_20990101"}], "tools.0: Input tag 'computer_20990101' found using 'type'"),
    ([{**TOOLSET, "name": "computer"}], "tools.0.computer_toolset_20260801.name: Extra inputs"),
    ([{**TOOLSET, "display_width_px": 1}], "display_width_px: Extra inputs"),
    ([{**TOOLSET, "enable_zoom": True}], "enable_zoom: Extra inputs"),
    ([{**TOOLSET, "strict": True}], "strict: Extra inputs"),
    ([{**TOOLSET, "defer_loading": True}], "defer_loading: Extra inputs"),
    ([{**TOOLSET, "configs": {"fly": {}}}], "configs.fly: Extra inputs"),
    ([{**TOOLSET, "configs": {"zoom": {"enable": True}}}], "configs.zoom.enable: Extra inputs"),
    ([{**TOOLSET, "configs": {"zoom": {"enabled": "no"}}}], "configs.zoom.enabled: Input should be a valid boolean"),
    ([TOOLSET, TOOLSET], "each type may be given once"),
    ([TOOLSET, {**CUSTOM, "name": "computer"}], "cannot be combined with another tool named `computer`"),
    ([CUSTOM, CUSTOM], "Tool names must be unique: look"),
    ([{"name": "look"}], "tools.0.custom.input_schema: Field required"),
    ([{**CUSTOM, "name": "a b"}], "tools.0.custom.name: String should match"),
    ([{**CUSTOM, "input_schema": {"type": "string"}}], "input_schema.type: Input should be 'object'"),
    ([{**CUSTOM, "color": 1}], "tools.0.custom.color: Extra inputs"),
    ([{"type": "bash_20250124", "name": "shell"}], "bash_20250124.name: Input should be 'bash'"),
    ([{"type": "bash_20250124"}], "bash_20250124.name: Field required"),
    ([OLD], "lacks computer-use-2025-11-24"),
    ([{"type": "bash_20241022", "name": "bash"}], "lacks computer-use-2024-10-22"),
]


@pytest.mark.parametrize(("tools", "expected"), TOOLS, ids=[expected for _, expected in TOOLS])
def test_tools(lenient: ScriptedClaude, tools: Any, expected: str) -> None:
    refused(lenient, body(tools=tools), expected)


def test_a_toolset_with_everything_off(lenient: ScriptedClaude) -> None:
    from pytest_cua.testing._validate import COMPUTER_MEMBERS

    off = {name: {"enabled": False} for name in COMPUTER_MEMBERS}
    refused(lenient, body(tools=[{**TOOLSET, "configs": off}]), "at least one member must be enabled")
    del off["wait"]
    accepted(lenient, body(tools=[{**TOOLSET, "configs": off}]))


@pytest.mark.parametrize(
    ("model", "tool", "good"),
    [
        ("claude-opus-5-5", "computer_20251124", False),
        ("claude-haiku-5-5", "computer_20251124", False),
        ("claude-opus-5", "computer_20251124", True),
        ("claude-opus-4-6", "computer_toolset_20260801", False),
        ("claude-opus-4-5-20251101", "computer_20251124", True),
        ("claude-sonnet-4-5-20250929", "computer_20251124", False),
        ("claude-haiku-4-5", "computer_20250124", True),
    ],
)
def test_models_and_their_computer_tools(lenient: ScriptedClaude, model: str, tool: str, good: bool) -> None:
    entry = TOOLSET if tool == TOOLSET["type"] else {**OLD, "type": tool}
    beta = "computer-use-2025-11-24, computer-use-2025-01-24"
    if good:
        accepted(lenient, body(model=model, tools=[entry]), anthropic_beta=beta)
    else:
        expected = f"'{model}' does not support tool types: {tool}"
        refused(lenient, body(model=model, tools=[entry]), expected, anthropic_beta=beta)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"])
@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "look"}])
def test_tool_use_cannot_be_forced(lenient: ScriptedClaude, model: str, choice: Body) -> None:
    refused(lenient, body(model=model, tools=[CUSTOM], tool_choice=choice), "tool use cannot be forced")
    accepted(lenient, body(model="claude-opus-4-6", tools=[CUSTOM], tool_choice=choice))


def test_a_forced_tool_must_be_there(lenient: ScriptedClaude) -> None:
    choice = {"type": "tool", "name": "screenshot"}
    sent = body(model="claude-opus-4-8", tools=[TOOLSET, CUSTOM], tool_choice=choice)
    refused(lenient, sent, "Tool 'screenshot' not found in provided tools")


def change(path: str, value: Any) -> Callable[[list[Body]], None]:
    """Set one thing in a conversation; `None` removes it."""

    def apply(messages: Any) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at = messages
        for part in way:
            at = at[part]
        if value is None:
            del at[last]
        else:
            at[last] = value

    return apply


def null(path: str) -> Callable[[list[Body]], None]:
    def apply(messages: Any) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at = messages
        for part in way:
            at = at[part]
        at[last] = None

    return apply


TEXT = {"type": "text", "text": "x"}
MESSAGES: list[tuple[str, Callable[[list[Body]], None], str]] = [
    ("null caller", null("1.content.0.caller"), "messages.1.content.0.tool_use.caller: Extra inputs are not permitted"),
    ("null toolset", null("1.content.0.toolset_name"), "tool_use.toolset_name: Extra inputs are not permitted"),
    ("null citations", change("1.content", [{**TEXT, "citations": None}]), "text.citations: Extra inputs"),
    ("citations of a user", change("0.content", [{**TEXT, "citations": []}]), "text.citations: Extra inputs"),
    ("unknown field", change("0.content", [{**TEXT, "colour": 1}]), "messages.0.content.0.text.colour: Extra inputs"),
    ("unknown message field", change("0.name", "x"), "messages.0.name: Extra inputs"),
    ("unknown role", change("0.role", "system"), "messages.0.role: Input should be 'user' or 'assistant'"),
    ("unknown block", change("0.content", [{"type": "video"}]), "messages.0.content.0: Input tag 'video'"),
    ("tool_use of a user", change("0.content", [called("x", "key")]), "messages.0.content.0: Input tag 'tool_use'"),
    ("empty text", change("0.content", [{"type": "text", "text": ""}]), "text content blocks must be non-empty"),
    ("blank text", change("0.content", "  \n"), "must contain non-whitespace text"),
    ("empty content", change("0.content", []), "user messages must have non-empty content"),
    ("first assistant", lambda messages: messages.pop(0), "the first message must have the role 'user'"),
    ("one unanswered", change("2.content.1", None), "messages.2: `tool_use` ids were found without `tool_result`"),
    (
        "all unanswered",
        change("2", user("and now?")),
        "were found without `tool_result` blocks immediately after: a, b",
    ),
    ("answered later", lambda messages: messages.insert(2, user("wait")), "without `tool_result` blocks"),
    ("unknown answer", change("2.content.1.tool_use_id", "z"), "unexpected `tool_use_id` found in `tool_result`"),
    ("answered twice", change("2.content.1.tool_use_id", "a"), "each tool_use must have a single result"),
    ("text first", lambda messages: messages[2]["content"].insert(0, TEXT), "must come before all other blocks"),
    ("text between", lambda messages: messages[2]["content"].insert(1, TEXT), "messages.2.content.2: `tool_result`"),
    ("no toolset in result", change("2.content.0.toolset_name", None), "toolset_name: Field required"),
    ("other toolset in result", change("2.content.0.toolset_name", "browser"), "does not match the call's 'computer'"),
    ("toolset of a plain call", change("1.content.0.toolset_name", None), "toolset_name: must be absent"),
    ("image in error", change("2.content.0.is_error", True), 'all content must be type "text" if `is_error` is true'),
    ("empty error", change("2.content.0", result("a", [], is_error=True)), "must not be empty if `is_error` is true"),
    ("empty error text", change("2.content.0", result("a", "", is_error=True)), "must not be empty if `is_error`"),
    ("is_error of text", change("2.content.0.is_error", "yes"), "is_error: Input should be a valid boolean"),
    (
        "document in result",
        change("2.content.0.content", [{"type": "document", "source": {}}]),
        "Input should be 'text' or 'image' in a result of the toolset",
    ),
    ("same id twice", change("1.content.1.id", "a"), "`tool_use` ids must be unique"),
    ("input of text", change("1.content.0.input", "x"), "tool_use.input: Input should be a valid dictionary"),
    ("prefill", lambda messages: messages.append({"role": "assistant", "content": "So"}), "assistant message prefill"),
    (
        "made up thinking",
        change("1.content.0", {"type": "thinking", "thinking": "x", "signature": "y"}),
        "Invalid `signature`",
    ),
    (
        "unsigned thinking",
        change("1.content.0", {"type": "thinking", "thinking": "x"}),
        "thinking.signature: Field required",
    ),
]


@pytest.mark.parametrize(("spoil", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_messages(lenient: ScriptedClaude, spoil: Callable[[list[Body]], None], expected: str) -> None:
    messages = conversation()
    accepted(lenient, body(messages=messages))
    spoilt = copy.deepcopy(messages)
    spoil(spoilt)
    if "Invalid `signature`" in expected or "signature: Field" in expected:
        spoilt[2]["content"].pop(0)  # the call it took the place of needs no answer
    refused(lenient, body(messages=spoilt), expected)


def test_an_id_must_not_come_again_later(lenient: ScriptedClaude) -> None:
    messages = conversation()
    refused(lenient, body(messages=[*messages, *messages[1:]]), "messages.3: `tool_use` ids must be unique: a, b")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (image(8001, 10), "image dimensions exceed max allowed size: 8000 pixels"),
        (
            image(kind="JPEG"),
            "specified using the image/png media type, but the image appears to be a image/jpeg image",
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!"}},
            "invalid base64 data",
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            "Could not process",
        ),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AAAA"}}, "media_type"),
        ({"type": "image", "source": {"type": "paper"}}, "source.type"),
    ],
    ids=["8000", "other type", "base64", "no image", "bmp", "source"],
)
def test_images(lenient: ScriptedClaude, block: Body, expected: str) -> None:
    refused(lenient, body(messages=[{"role": "user", "content": [block]}]), expected)
    messages = conversation()
    messages[2]["content"][0]["content"] = [block]
    refused(lenient, body(messages=messages), "messages.2.content.0.content.0")


@pytest.mark.parametrize(
    ("model", "size", "good"),
    [
        ("claude-sonnet-5-5", (2576, 1449), True),
        ("claude-sonnet-5-5", (2577, 100), False),
        ("claude-sonnet-5-5", (1960, 1932), False),  # 70 x 69 patches, 4830
        ("claude-opus-4-6", (1456, 819), True),
        ("claude-opus-4-6", (1600, 900), False),
    ],
)
def test_images_of_a_toolset_fit_the_tier(
    lenient: ScriptedClaude, model: str, size: tuple[int, int], good: bool
) -> None:
    messages = conversation()
    messages[2]["content"][0]["content"] = [image(*size)]
    if good:
        accepted(lenient, body(model=model, messages=messages))
        return
    refused(lenient, body(model=model, messages=messages), f"an image of {size[0]}x{size[1]} pixels is too large")
    accepted(lenient, body(model=model, messages=[{"role": "user", "content": [image(*size)]}]))


def test_many_images_must_be_small(lenient: ScriptedClaude) -> None:
    large, small = image(2001, 10), image()
    accepted(lenient, body(messages=[{"role": "user", "content": [large, *[small] * 19]}]))
    answer = post(lenient, body(messages=[{"role": "user", "content": [large, *[small] * 20]}]))
    details = {
        "error_code": "image_dimensions_too_large",
        "max_side_length_pixels": 2000,
        "paths": ["messages.0.content.0"],
    }
    assert answer.status_code == 400 and answer.json()["error"]["details"] == details


# ---------------------------------------------------------------------------------------- what the model said before
@pytest.fixture
def thinking() -> Iterator[tuple[ScriptedClaude, list[Body]]]:
    """A server, and a conversation with a reply of it that holds thinking."""
    with ScriptedClaude(lambda request: [think("hm"), say("look"), use("screenshot")]) as claude:
        sent = body(messages=[user("go")], thinking={"type": "adaptive", "display": "summarized"})
        reply = post(claude, sent).json()
        yield claude, [user("go"), said(reply), answered(reply)]


def test_what_the_model_said_comes_back_unchanged(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    claude, messages = thinking
    accepted(claude, body(messages=messages))
    messages[1]["content"][1]["text"] = "looked"
    refused(claude, body(messages=messages), "messages.1.content.1: the content of this assistant message is not what")


def test_a_dropped_block_is_a_change(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    claude, messages = thinking
    del messages[1]["content"][0]
    refused(claude, body(messages=messages), "3 blocks were sent, 2 came back, block 0 differs")


def test_thinking_cannot_be_modified(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    claude, messages = thinking
    messages[1]["content"][0]["thinking"] = "ha"
    refused(claude, body(messages=messages), "messages.1.content.0: Invalid `signature` in `thinking` block")


def test_thinking_is_bound_to_the_conversation_before_it(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    claude, messages = thinking
    messages[0] = user("go, but differently")
    refused(claude, body(messages=messages), "belongs to another conversation: the messages before it changed")
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    accepted(claude, body(messages=messages, thinking=drop), anthropic_beta="thinking-binding-controls-2026-08-01")
    accepted(claude, body(messages=messages, model="claude-opus-5"))


def test_cache_control_may_move(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    claude, messages = thinking
    messages[0]["content"] = [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]
    messages[1]["content"][1]["cache_control"] = {"type": "ephemeral"}
    accepted(claude, body(messages=messages))


def test_another_server_knows_the_signature(thinking: tuple[ScriptedClaude, list[Body]]) -> None:
    _, messages = thinking
    with ScriptedClaude([say("go on")]) as other:
        accepted(other, body(messages=messages))


def test_model_dump_of_a_reply_is_refused() -> None:
    with ScriptedClaude([say("hello"), say("never")]) as claude, client_of(claude) as client:
        reply = client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}])
        dumped = {"role": "assistant", "content": reply.model_dump()["content"]}
        messages: Any = [{"role": "user", "content": "hi"}, dumped, {"role": "user", "content": "more"}]
        with pytest.raises(anthropic.BadRequestError, match="citations: Extra inputs are not permitted"):
            client.messages.create(model=MODEL, max_tokens=10, messages=messages)


def test_a_paused_turn_is_sent_back_as_it_is() -> None:
    with ScriptedClaude([turn(say("working"), stop_reason="pause_turn"), say("done")]) as claude:
        assert [reply.stop_reason for reply in run(claude)] == ["pause_turn", "end_turn"]
        assert claude.requests[1].body["messages"] == []
    with ScriptedClaude([turn(say("working"), stop_reason="pause_turn"), say("done")]) as claude:
        assert len(run(claude, thread=False)) == 2


# ------------------------------------------------------------------------------------------------------------ threads
def test_threads_take_tools_and_system_from_their_beginning(lenient: ScriptedClaude) -> None:
    first = post(lenient, body(thread={"type": "create"}), anthropic_beta=THREADS).json()
    onward = {"type": "continue", "previous_message_id": first["id"]}
    for field, value in (("system", "other"), ("tools", [CUSTOM])):
        refused(lenient, body(thread=onward, **{field: value}), f"{field}: must not be sent", anthropic_beta=THREADS)
    refused(lenient, body(thread={"type": "fork"}), "thread.type: Input should be", anthropic_beta=THREADS)
    refused(lenient, body(thread={"type": "continue"}), "previous_message_id: Field required", anthropic_beta=THREADS)
    refused(lenient, body(thread={"type": "create", "id": 1}), "thread.create.id: Extra inputs", anthropic_beta=THREADS)


def test_an_unknown_thread_is_not_found(lenient: ScriptedClaude) -> None:
    sent = body(thread={"type": "continue", "previous_message_id": "msg_nosuch"})
    answer = post(lenient, sent, anthropic_beta=THREADS)
    assert answer.status_code == 404
    assert answer.json()["error"]["details"] == {"error_code": "thread_not_found"}


def test_the_whole_of_a_thread_is_checked() -> None:
    with ScriptedClaude([use("screenshot"), say("never")]) as claude:
        first = post(claude, body(tools=[TOOLSET], thread={"type": "create"}), anthropic_beta=THREADS).json()
        onward = body(messages=[user("and?")], thread={"type": "continue", "previous_message_id": first["id"]})
        refused(claude, onward, "messages.0: `tool_use` ids were found without", anthropic_beta=THREADS)
        onward["messages"] = [{"role": "user", "content": [result(first["content"][0]["id"], [image(2600, 10)])]}]
        refused(claude, onward, "messages.0.content.0.content.0: an image of 2600x10", anthropic_beta=THREADS)
        onward["messages"] = [answered(first)]
        accepted(claude, onward, anthropic_beta=THREADS)  # a refused attempt has not continued it
    assert claude.requests[-1].conversation == "conversation-1"
