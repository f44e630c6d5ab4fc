"""The local server: conversations and threads, replies as JSON and as server-sent events."""

from __future__ import annotations

import json
import math
import socket
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from pytest_cua.testing import _validate as api
from pytest_cua.testing._script import (
    Answer,
    Failure,
    Json,
    ListScript,
    Play,
    Raw,
    Reply,
    Script,
    ScriptedRequest,
    ScriptEnded,
    Turn,
    as_reply,
    blocks_of,
    by_sentence,
)
from pytest_cua.testing._validate import Rejected

SCRIPTED_HEADER = "x-pytest-cua-scripted"


@dataclass(frozen=True)
class Rejection:
    """A request that the server refused, as the API would, or that the script had no answer for.

    Attributes:
        request: Its number, from 1.
        status: The HTTP status.
        type: `invalid_request_error` and so on.
        message: What was wrong, beginning with the path of the field.
    """

    request: int
    status: int
    type: str
    message: str

    def __str__(self) -> str:
        return f"request {self.request}: {self.status} {self.type}: {self.message}"


@dataclass
class _Thread:
    """What the server holds of a thread, up to one of its replies."""

    messages: list[Json]
    tools: list[Json]
    system: Any
    conversation: str
    state: str = "open"  # then "in flight", then "continued"


@dataclass(frozen=True)
class _Tip:
    """The last reply of a conversation."""

    conversation: str
    stop_reason: str


@dataclass(frozen=True)
class _Response:
    """What goes out: a status, headers and a body; `message` is sent as events when `stream` is set."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    cut: bool = False


class ScriptedClaude:
    """A local server that speaks the Messages API and answers what a script says.

    It is as strict as the real API is known to be: what that refuses, this refuses, and names the field.

    ```python
    with ScriptedClaude([use("screenshot"), finish("done")]) as claude:
        client = anthropic.Anthropic(api_key="scripted", base_url=claude.base_url)
        ...
    assert not claude.errors and not claude.unused
    ```

    Args:
        script: The replies. A list of turns, answered in order over all requests; a function that is given each
            `ScriptedRequest`; or a mapping of sentences to plays, as `by_sentence` takes it. Scripts run one at a time.
        model: Whose rules apply when a request names a model that is not known.
        latency: Seconds to wait before each answer.
        valid_key: The only API key that is accepted; by default any is.
        retired: Models that answer 404.
        seed: Part of all ids, to keep those of two servers apart; letters and digits.
        max_body: The largest request in bytes.

    Attributes:
        requests: What was received, in order, refused requests too.
        errors: What was refused, in order; errors that the script asked for are not among them.
        script_errors: Exceptions raised in the script; each was answered as HTTP 500.
    """

    def __init__(
        self,
        script: Sequence[Answer] | Script | Mapping[Any, Play],
        *,
        model: str = "claude-sonnet-5-5",
        latency: float = 0,
        valid_key: str | None = None,
        retired: Sequence[str] = (),
        seed: str = "",
        max_body: int = 32 * api.MEGABYTE,
    ) -> None:
        self.requests: list[ScriptedRequest] = []
        self.errors: list[Rejection] = []
        self.script_errors: list[Exception] = []
        self._script = _as_script(script)
        self._model = model
        self._latency = latency
        self._valid_key = valid_key
        self._retired = frozenset(retired)
        self._seed = seed
        self._max_body = max_body
        self._lock = threading.Lock()
        self._script_lock = threading.Lock()
        self._closed = threading.Event()
        self._counts: dict[str, int] = {}
        self._threads: dict[str, _Thread] = {}
        self._tips: dict[str, _Tip] = {}
        self._unanswered: dict[str, str] = {}
        self._sent: dict[str, tuple[str, list[Json]]] = {}
        self._server = _Server(self._respond, max_body)
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._serving.start()

    @property
    def base_url(self) -> str:
        """The address for `anthropic.Anthropic(base_url=...)`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def unused(self) -> list[Reply]:
        """The turns of a list script that were not asked for."""
        return self._script.unused if isinstance(self._script, ListScript) else []

    def forget_threads(self) -> None:
        """Lose all threads, as the real server may: the next `continue` is answered with `thread_not_found`."""
        with self._lock:
            self._threads.clear()

    def close(self) -> None:
        """Stop serving and close all connections."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._server.shutdown()
        self._serving.join()
        self._server.close_connections()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------- one request
    def _respond(self, path: str, headers: Mapping[str, str], data: bytes) -> _Response:
        if self._latency:
            self._closed.wait(self._latency)
        request = ScriptedRequest({}, headers)
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            base = {"request-id": self._new_id("req"), SCRIPTED_HEADER: "1"}
        try:
            response = self._answer(path, request, data)
        except Rejected as refusal:
            with self._lock:
                self.errors.append(Rejection(number, refusal.status, refusal.type, refusal.message))
            response = _error(refusal.status, refusal.type, refusal.message, refusal.details)
        if response.body.get("type") == "error":
            response.body.setdefault("request_id", base["request-id"])
        return _Response(response.status, response.body, {**base, **response.headers}, response.stream, response.cut)

    def _answer(self, path: str, request: ScriptedRequest, data: bytes) -> _Response:
        if path != "/v1/messages":
            raise Rejected(f"Not found: {path}", status=404, type="not_found_error")
        api.check_headers(request.headers, self._valid_key)
        if len(data) > self._max_body:
            raise Rejected(
                f"Request exceeds the maximum size: {len(data)} bytes > {self._max_body} bytes",
                status=413,
                type="request_too_large",
            )
        try:
            request.body = json.loads(data)
        except ValueError as problem:
            raise Rejected(f"The request body is not valid JSON: {problem}") from None
        rules = self._check_request(request)
        thread = self._take_thread(request.body)
        try:
            return self._play(request, thread, rules)
        finally:
            if thread is not None and thread.state == "in flight":
                thread.state = "open"

    def _check_request(self, request: ScriptedRequest) -> api.ModelRules:
        body = request.body
        named = str(body.get("model", "")) if isinstance(body, dict) else ""
        rules = api.model_rules(named, self._model)
        betas = api.betas_of(request.headers)
        if not isinstance(body, dict):
            request.body = {}
        api.check_fields(body, betas, rules)
        if named in self._retired:
            raise Rejected(f"model: {named}", status=404, type="not_found_error")
        api.check_thread(body)
        request.messages, request.tools, request.system = body["messages"], body.get("tools") or [], body.get("system")
        return rules

    def _take_thread(self, body: Json) -> _Thread | None:
        """The thread to continue, now marked as being continued."""
        wanted = body.get("thread") or {}
        if wanted.get("type") != "continue":
            return None
        message_id = wanted["previous_message_id"]
        with self._lock:
            thread = self._threads.get(message_id)
            if thread is None:
                raise api.thread_not_found(message_id)
            if thread.state != "open":
                raise api.thread_already_continued(message_id, in_flight=thread.state == "in flight")
            thread.state = "in flight"
        return thread

    def _play(self, request: ScriptedRequest, thread: _Thread | None, rules: api.ModelRules) -> _Response:
        chain = self._check_conversation(request, thread, rules)
        with self._lock:
            known = thread.conversation if thread is not None else self._known_conversation(request.messages, chain)
            request.conversation = known or f"conversation-{self._count('conversation')}"
            self._unanswered.pop(chain[-1], None)
        reply = self._ask(request)
        if not isinstance(reply, Turn) or reply.cut:
            # the same request again will be another attempt, not a new conversation
            with self._lock:
                self._unanswered[chain[-1]] = request.conversation
        if isinstance(reply, Failure):
            return _failure(reply)
        stream = bool(request.body.get("stream"))
        if isinstance(reply, Raw):
            return _Response(reply.status, dict(reply.body), stream=stream and reply.body.get("type") == "message")
        with self._lock:
            message = self._message(reply, request, chain[-1], rules)
            if not reply.cut:
                self._remember(message, request, chain[-1], thread)
        return _Response(200, message, stream=stream, cut=reply.cut)

    def _check_conversation(
        self, request: ScriptedRequest, thread: _Thread | None, rules: api.ModelRules
    ) -> Sequence[str]:
        """Refuse a wrong conversation; its digests. What a thread holds is put before what was sent."""
        held, body = 0, request.body
        if thread is not None:
            held = len(thread.messages)
            request.messages = [*thread.messages, *request.messages]
            request.tools, request.system = thread.tools, thread.system
        # also of a thread: a `continue` may name another model, or choose a tool
        api.check_tools({**body, "tools": request.tools or None}, api.betas_of(request.headers), rules)
        api.check_messages(request.messages, held, rules)
        chain = api.digests(request.messages)
        bound = rules.binds_thinking and not api.drops_foreign_thinking(body)
        api.check_thinking_blocks(request.messages, chain, held, bound=bound)
        with self._lock:
            self._check_own_words(request.messages, held)
            self._check_end(request.messages, chain)
        return chain

    def _ask(self, request: ScriptedRequest) -> Reply:
        try:
            with self._script_lock:
                return as_reply(self._script(request))
        except ScriptEnded as end:
            raise Rejected(str(end)) from None
        except Exception as problem:
            with self._lock:
                self.script_errors.append(problem)
            last = traceback.format_exception_only(problem)[-1].strip()
            return Failure(500, "api_error", f"the script of ScriptedClaude raised {last}", should_retry=False)

    # ------------------------------------------------------------------------------------ conversations, under the lock
    def _check_own_words(self, messages: Sequence[Json], held: int) -> None:
        """Assistant messages with calls of ours must say what we sent."""
        for index, message in enumerate(messages):
            uses = [block["id"] for block in blocks_of(message) if block["type"] == "tool_use"]
            sent = next((self._sent[use_id] for use_id in uses if use_id in self._sent), None)
            if message["role"] == "assistant" and sent is not None:
                _check_same(sent[1], api.without_cache_control(message["content"]), f"messages.{index - held}")

    def _check_end(self, messages: Sequence[Json], chain: Sequence[str]) -> None:
        tip = self._tips.get(chain[-1])
        if tip is None or tip.stop_reason != "pause_turn":  # a paused turn is sent back as it is
            api.check_no_prefill(messages)

    def _known_conversation(self, messages: Sequence[Json], chain: Sequence[str]) -> str | None:
        last = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        if last >= 0 and chain[last] in self._tips:
            return self._tips[chain[last]].conversation
        uses = [block["id"] for block in blocks_of(messages[last]) if block["type"] == "tool_use"] if last >= 0 else []
        sent = next((self._sent[use_id][0] for use_id in uses if use_id in self._sent), None)
        return sent or self._unanswered.get(chain[-1])

    def _message(self, reply: Turn, request: ScriptedRequest, before: str, rules: api.ModelRules) -> Json:
        taken = {block["id"] for message in request.messages for block in blocks_of(message) if "id" in block}
        content = [self._block(block, request.body, before, rules, taken) for block in reply.blocks]
        calls = any(block["type"] == "tool_use" for block in content)
        return {
            "id": self._new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": reply.stop_reason or ("tool_use" if calls else "end_turn"),
            "stop_sequence": None,
            "usage": {**_usage(request, reply.blocks), **(reply.usage or {})},
        }

    def _block(self, block: Json, body: Json, before: str, rules: api.ModelRules, taken: set[str]) -> Json:
        if block["type"] == "thinking" and "signature" not in block:
            display = (body.get("thinking") or {}).get("display")
            hidden = display == "omitted" or (display is None and rules.hides_thinking)
            text = "" if hidden else block["thinking"]
            return {"type": "thinking", "thinking": text, "signature": api.sign(text, before)}
        if block["type"] == "tool_use" and "id" not in block:
            # a history from another server may hold ids that this one would give
            new = next(new for new in iter(lambda: self._new_id("toolu"), "") if new not in taken)
            return {"type": "tool_use", "id": new, **_without(block, "type"), "caller": {"type": "direct"}}
        return dict(block)

    def _remember(self, message: Json, request: ScriptedRequest, before: str, thread: _Thread | None) -> None:
        said = [{"role": "assistant", "content": message["content"]}] if message["content"] else []
        if said:
            tip = api.digests(said, before)[0]
            self._tips[tip] = _Tip(request.conversation, message["stop_reason"])
        content = api.without_cache_control(message["content"])
        for block in content:
            if block["type"] == "tool_use":
                self._sent[block["id"]] = (request.conversation, content)
        if thread is not None:
            thread.state = "continued"
        if request.body.get("thread"):
            self._threads[message["id"]] = _Thread(
                [*request.messages, *said], request.tools, request.system, request.conversation
            )

    def _count(self, what: str) -> int:
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what]

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_scripted{self._seed}{self._count(prefix):06d}"


def _as_script(script: Sequence[Answer] | Script | Mapping[Any, Play]) -> Script:
    if callable(script):
        return script
    return by_sentence(script) if isinstance(script, Mapping) else ListScript(script)


def _check_same(sent: list[Json], found: Any, path: str) -> None:
    if found == sent:
        return
    blocks = found if isinstance(found, list) else []
    at = next((at for at, (one, other) in enumerate(zip(sent, blocks, strict=False)) if one != other), len(blocks))
    raise Rejected(
        f"{path}.content.{at}: the content of this assistant message is not what the model answered: "
        f"{len(sent)} blocks were sent, {len(blocks)} came back, block {at} differs"
    )


def _without(block: Json, key: str) -> Json:
    return {name: value for name, value in block.items() if name != key}


# ------------------------------------------------------------------------------------------------- bodies and counts
def _error(status: int, type: str, message: str, details: Mapping[str, Any] | None = None) -> _Response:
    error: Json = {"type": type, "message": message}
    if details is not None:
        error["details"] = dict(details)
    return _Response(status, {"type": "error", "error": error})


def _failure(reply: Failure) -> _Response:
    response = _error(reply.status, reply.type, reply.message, reply.details)
    headers = {}
    if reply.retry_after is not None:
        headers["retry-after"] = f"{reply.retry_after:g}"
    if reply.should_retry is not None:
        headers["x-should-retry"] = str(reply.should_retry).lower()
    return _Response(response.status, response.body, headers)


def _tokens(value: Any) -> int:
    """About how many tokens a text or a JSON value has: a quarter of its characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return math.ceil(len(text) / 4)


TOOLSET_TOKENS = 4500  # what the definition of the computer toolset costs, by its documentation


def _usage(request: ScriptedRequest, content: Sequence[Json]) -> Json:
    tools = sum(TOOLSET_TOKENS if tool.get("type") == api.TOOLSET else _tokens(tool) for tool in request.tools)
    system = _tokens(request.system) if request.system else 0
    messages = sum(_block_tokens(block) for message in request.messages for block in blocks_of(message))
    thinking = sum(_tokens(block["thinking"]) for block in content if block["type"] == "thinking")
    return {
        "input_tokens": tools + system + messages,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": max(1, sum(_block_tokens(block) for block in content)),
        "output_tokens_details": {"thinking_tokens": thinking},
        "service_tier": "standard",
    }


def _block_tokens(block: Json) -> int:
    if block["type"] == "image":
        size = api.image_size(block)
        return api.patches(*size) if size else 0
    if block["type"] == "tool_result":
        return sum(_block_tokens(part) for part in blocks_of(block))
    if block["type"] in ("text", "thinking"):
        return _tokens(block[block["type"]])
    return _tokens(block.get("input", block))


# ------------------------------------------------------------------------------------------------------------ events
def events(message: Json) -> Iterator[Json]:
    """`message` as the events of a stream."""
    usage = {**message["usage"], "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage},
    }
    for index, block in enumerate(message["content"]):
        start, deltas = _opened(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": message.get("stop_sequence")}
    counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    details = ("output_tokens_details",)
    final = {name: message["usage"][name] for name in (*counts, *details) if name in message["usage"]}
    yield {"type": "message_delta", "delta": delta, "usage": final}
    yield {"type": "message_stop"}


def _opened(block: Json) -> tuple[Json, list[Json]]:
    """A block as it starts, and the deltas that fill it."""
    kind = block["type"]
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"])]
        return {**block, "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind == "tool_use":
        parts = ["", *_parts(json.dumps(block["input"], ensure_ascii=False))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block, []


def _parts(text: str, length: int = 16) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


def _event_bytes(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


# -------------------------------------------------------------------------------------------------------------- HTTP
class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, respond: Callable[[str, Mapping[str, str], bytes], _Response], max_body: int) -> None:
        self.respond = respond
        self.max_body = max_body
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would ask the resolver for our name here, which can take seconds
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        # clients keep connections alive, and their handlers would wait for a next request for ever
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

    def do_POST(self) -> None:
        server = cast("_Server", self.server)
        length = int(self.headers.get("content-length", 0))
        data = self._read(length, server.max_body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        response = server.respond(self.path.partition("?")[0], headers, data)
        if response.stream and response.status == 200:
            self._send_events(response)
        else:
            self._send_json(response)

    def do_GET(self) -> None:
        self._send_json(cast("_Server", self.server).respond(f"GET {self.path}", {}, b""))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def _read(self, length: int, limit: int) -> bytes:
        """The body; of one over `limit`, only its length is kept."""
        if length <= limit:
            return self.rfile.read(length)
        left = length
        while left > 0 and (chunk := self.rfile.read(min(left, api.MEGABYTE))):
            left -= len(chunk)
        return bytes(length)

    def _send_json(self, response: _Response) -> None:
        data = json.dumps(response.body, ensure_ascii=False).encode()
        self._send_head(response, "application/json", {"content-length": str(len(data))})
        if response.cut:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.wfile.write(data)

    def _send_events(self, response: _Response) -> None:
        self._send_head(response, "text/event-stream; charset=utf-8", {"transfer-encoding": "chunked"})
        chunks = [_event_bytes(event) for event in events(response.body)]
        for chunk in chunks[: len(chunks) // 2] if response.cut else chunks:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        if response.cut:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _send_head(self, response: _Response, content_type: str, more: Mapping[str, str]) -> None:
        self.send_response(response.status)
        for name, value in {"content-type": content_type, **more, **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
