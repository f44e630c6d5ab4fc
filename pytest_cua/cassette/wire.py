"""Between the SDK's requests and responses and the plain data of a cassette."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2
from anthropic import APIRequest, APIResponse, AsyncAPIResponse
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import RecordedTurn, canonical
from pytest_cua.errors import BadArgument

# what a reply may bring besides its body: nothing that says whose key it was
REPLY_HEADERS = ("content-type", "request-id", "retry-after")
_RETRYABLE = (408, 409, 429)  # and everything from 500: what the SDK asks again (`_should_retry`)
_SCALARS = frozenset((str, int, float, bool, type(None)))
CLOSED = "closed"  # why a stream has no end: its reader had enough


def plain(value: Any, image: Callable[[str, str], str | None], file: Callable[[str], str | None] | None = None) -> Any:
    """A request body as plain JSON, each base64 picture and document replaced by its key.

    Args:
        value: The body, or a part of it; the SDK's objects in it are dumped with the fields that were set.
        image: Takes the base64 data and the media type, gives the key, or None to leave the picture as it is.
        file: The same for a document's data.
    """
    kind = type(value)  # a whole history is walked through with every request: what is usual is told by its class
    if kind in _SCALARS:
        return value
    if kind is not dict and hasattr(value, "to_dict"):
        value = value.to_dict(mode="json")
    if kind is dict or isinstance(value, Mapping):
        source = value.get("source") if value.get("type") in ("image", "document") else None
        if isinstance(source, Mapping) and source.get("type") == "base64":
            is_image = value["type"] == "image"
            key = image(source["data"], source["media_type"]) if is_image else file(source["data"]) if file else None
            if key is not None:
                rest = {name: plain(item, image, file) for name, item in value.items() if name != "source"}
                return {**rest, "media_type": source["media_type"], "screen" if is_image else "file": key}
        return {n: item if type(item) in _SCALARS else plain(item, image, file) for n, item in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return [plain(item, image, file) for item in value]
    return value


def decoded_picture(content: bytes) -> Image.Image | None:
    """The picture in the bytes of a file, None when it is none."""
    try:
        return screens.decode(content, "in a request")
    except BadArgument:
        return None


def decoded_bytes(data: str) -> bytes | None:
    """The bytes in base64 data, None when it is not base64."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


@dataclass(frozen=True)
class Request:
    """A request as plain data: method, path with its query, the body's fields, its messages."""

    method: str
    path: str
    params: dict[str, Any]
    messages: list[Any]

    @classmethod
    def of(
        cls, request: APIRequest, image: Callable[[str, str], str | None], file: Callable[[str], str | None]
    ) -> Request:
        """The SDK's request, taken apart."""
        body = request.json or {}
        extra = getattr(request.options, "extra_json", None)
        if isinstance(extra, Mapping) and isinstance(body, Mapping):
            body = {**body, **extra}
        whole = plain(body, image, file)
        if not isinstance(whole, dict):
            whole = {"body": whole}
        path = request.url
        if query := dict(request.query_params or {}):
            path += ("&" if "?" in path else "?") + urlencode(sorted(query.items()), doseq=True)
        messages = whole.pop("messages", None)
        return cls(request.method.lower(), path, whole, messages if isinstance(messages, list) else [])

    def mapped(self, change: Callable[[Any], Any]) -> Request:
        """The request with another value for each of its own."""
        return Request(self.method, self.path, change(self.params), change(self.messages))


class History:
    """Tells, request by request, which messages of a conversation are new."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.body: Any = None  # of the last reply
        self._reply: str | None = None

    def new_messages(self, messages: list[Any]) -> tuple[int, list[Any]]:
        """How many messages repeat the request before, and those that do not.

        Claude's own last reply among them is named, not repeated.
        """
        keep = common_start(self.sent, messages)
        self.sent = messages
        return keep, [self._named(message) for message in messages[keep:]]

    def _named(self, message: Any) -> Any:
        if not isinstance(message, Mapping) or message.get("role") != "assistant":
            return message
        is_reply = canonical(message.get("content")) == self._reply
        return {"role": "assistant", "content": "=reply"} if is_reply else message

    def replied(self, body: Any) -> None:
        """Remember the reply as the next request will repeat it."""
        self.body = body
        self._reply = canonical(body.get("content")) if isinstance(body, Mapping) else None


def common_start(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many items two lists have in common from their start on."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))


# ---------------------------------------------------------------------- replies


@dataclass
class Reply:
    """A reply as plain data: either `body` (JSON or text), `file`, or `events`."""

    status: int
    body: Any = None
    events: list[Any] | None = None
    cut: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    file: bytes | None = None


def reply_of(http: httpx2.Response) -> Reply:
    """A reply that was read to its end."""
    reply = Reply(http.status_code, headers=kept_headers(http))
    try:
        reply.body = http.json()
    except ValueError:
        try:
            reply.body = http.content.decode()
        except UnicodeDecodeError:
            reply.file = http.content
    return reply


def kept_headers(http: httpx2.Response) -> dict[str, str]:
    """The reply's headers that are kept; the type of a JSON body goes without saying."""
    found = {name: http.headers[name] for name in REPLY_HEADERS if name in http.headers}
    if found.get("content-type", "").startswith("application/json"):
        del found["content-type"]
    return found


def will_be_retried(http: httpx2.Response) -> bool:
    """Whether the SDK asks again after this reply, as long as it may."""
    should = http.headers.get("x-should-retry")
    if should in ("true", "false"):
        return should == "true"
    return http.status_code in _RETRYABLE or http.status_code >= 500


class Events:
    """Takes a stream apart into its events, with the time each was whole."""

    def __init__(self, started: float) -> None:
        self.found: list[Any] = []
        self._started = started
        self._rest = b""

    def take(self, chunk: bytes) -> None:
        """More bytes have come."""
        self._rest += chunk
        while (end := _end_of_event(self._rest)) is not None:
            self._add(self._rest[:end])
            self._rest = self._rest[end:]

    def end(self) -> None:
        """No more bytes will come."""
        if self._rest:
            self._add(self._rest)
            self._rest = b""

    def _add(self, event: bytes) -> None:
        waited = round((time.monotonic() - self._started) * 1000)
        self.found.append([waited, event.decode("utf-8", "surrogateescape")])


def _end_of_event(data: bytes) -> int | None:
    """Where the first event ends: after the empty line that follows it."""
    ends = [(at, len(mark)) for mark in (b"\n\n", b"\r\n\r\n", b"\r\r") if (at := data.find(mark)) >= 0]
    if not ends:
        return None
    at, length = min(ends)
    return at + length


class Tee(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of a streamed reply, passed through piece by piece, and told once it has ended.

    Args:
        http: The reply that is read.
        started: When the request was sent, by the monotonic clock.
        done: Called once with the events and why they have no end.
    """

    def __init__(self, http: httpx2.Response, started: float, done: Callable[[list[Any], str | None], None]) -> None:
        self._http = http
        self._events = Events(started)
        self._done: Callable[[list[Any], str | None], None] | None = done
        self._cut: str | None = CLOSED

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._http.iter_bytes():
                self._events.take(chunk)
                yield chunk
            self._cut = None
        except (httpx2.HTTPError, OSError) as error:
            self._cut = repr(error)
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._http.aiter_bytes():
                self._events.take(chunk)
                yield chunk
            self._cut = None
        except (httpx2.HTTPError, OSError) as error:
            self._cut = repr(error)
            raise

    def close(self) -> None:
        """The reader is done."""
        self._http.close()
        self.finish()

    async def aclose(self) -> None:
        """The reader is done."""
        await self._http.aclose()
        self.finish()

    def finish(self) -> None:
        """Tell what has come, once."""
        done, self._done = self._done, None
        if done is not None:
            self._events.end()
            done(self._events.found, self._cut)


def with_stream(http: httpx2.Response, stream: Tee) -> httpx2.Response:
    """The same reply with another body, which is no longer compressed."""
    headers = [(k, v) for k, v in http.headers.multi_items() if k not in ("content-encoding", "content-length")]
    new = httpx2.Response(
        http.status_code, headers=headers, stream=stream, request=http.request, extensions=http.extensions
    )
    new.history = http.history
    return new


class _Played(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of a recorded stream, event by event."""

    def __init__(self, turn: RecordedTurn, over: Callable[[RecordedTurn], BaseException]) -> None:
        self._turn = turn
        self._over = over

    def __iter__(self) -> Iterator[bytes]:
        for _, text in self._turn.events or ():
            yield text.encode("utf-8", "surrogateescape")
        if self._turn.cut:
            raise self._over(self._turn)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def response(
    request: APIRequest,
    turn: RecordedTurn,
    client: Any,
    *,
    over: Callable[[RecordedTurn], BaseException],
    content: bytes | None = None,
) -> Any:
    """The recorded reply as the SDK takes it from a middleware.

    Args:
        request: The request at hand.
        turn: The recorded one.
        client: The client that asked; an asynchronous one gets an asynchronous response.
        over: Gives what is raised when a stream is read beyond what was recorded of it.
        content: The body, when it is neither JSON nor text.
    """
    sent = httpx2.Request(request.method, f"http://replay.invalid{request.url}")
    headers = dict(turn.headers)
    headers["x-should-retry"] = "false"  # what was asked again while recording was answered again there
    headers.pop("retry-after", None)
    if turn.events is not None:
        headers.setdefault("content-type", "text/event-stream")
        http = httpx2.Response(turn.status, headers=headers, stream=_Played(turn, over), request=sent)
    elif content is not None:
        http = httpx2.Response(turn.status, headers=headers, content=content, request=sent)
    elif isinstance(turn.body, str):
        http = httpx2.Response(turn.status, headers=headers, text=turn.body, request=sent)
    else:
        headers.setdefault("content-type", "application/json")
        http = httpx2.Response(turn.status, headers=headers, content=json.dumps(turn.body).encode(), request=sent)
    kind: Any = AsyncAPIResponse if _is_async(client) else APIResponse
    return kind(
        raw=http,
        cast_to=request.cast_to,
        client=client,
        stream=request.stream,
        stream_cls=request.stream_cls,
        options=request.options,
        retries_taken=request.retries_taken,
    )


def _is_async(client: Any) -> bool:
    from anthropic._base_client import AsyncAPIClient

    return isinstance(client, AsyncAPIClient)
