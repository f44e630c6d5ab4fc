"""Recordings that other tools made: what vcrpy and its relatives in other languages write, as plain exchanges.

Read are: vcrpy's YAML and JSON, the form it wrote for httpx before 8.2 (`status_code`, `content`), what serializers
such as pydantic-ai's make of it (`parsed_body`), go-vcr (`url`, `code`) and Ruby's VCR (`http_interactions`). Anything
else is refused, in words that say what it looks like.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import yaml
from vcr.serializers import yamlserializer

from pytest_cua.errors import CassetteUnreadable

_LISTS = ("interactions", "http_interactions")
# these say how the bytes travelled, and are no longer true of a body that was unpacked
_TRAVEL = ("content-encoding", "content-length", "transfer-encoding")
_SCRIPT = (
    "a reply without its request cannot be matched: record the test with vcrpy or with --cua-mode=record, "
    "or let pytest_cua.testing.ScriptedClaude give this reply"
)


@dataclass(frozen=True)
class Exchange:
    """One HTTP request and its reply.

    Attributes:
        method: In capitals.
        url: Whole, with its query.
        request_headers, reply_headers: By lower-case name; of several values the first.
        request_body: As it was sent.
        status: The HTTP status.
        reason: The words beside it.
        reply_body: Unpacked, if it was compressed; the headers that said so are gone.
    """

    method: str
    url: str
    request_headers: Mapping[str, str]
    request_body: bytes
    status: int
    reason: str
    reply_headers: Mapping[str, str]
    reply_body: bytes

    @property
    def host(self) -> str:
        """The host that was asked."""
        return urlsplit(self.url).hostname or ""

    @property
    def path(self) -> str:
        """The path that was asked for, without its query."""
        return urlsplit(self.url).path

    @property
    def is_stream(self) -> bool:
        """Whether the reply is an event stream."""
        kind = self.reply_headers.get("content-type", "")
        # go-vcr drops the headers if it is told to; a JSON reply never begins so
        return kind.startswith("text/event-stream") or (not kind and _is_event_stream(self.reply_body))

    def http_response(self) -> httpx2.Response:
        """The reply as the SDK's HTTP library has it."""
        headers = dict(self.reply_headers)
        if "content-type" not in headers and self.is_stream:
            headers["content-type"] = "text/event-stream"
        request = httpx2.Request(self.method, self.url)
        return httpx2.Response(self.status, headers=headers, content=self.reply_body, request=request)


def read_vcr(path: Path) -> list[Exchange]:
    """Read a recording of HTTP calls.

    Args:
        path: A file of vcrpy (YAML or JSON), go-vcr or Ruby's VCR.

    Returns:
        Its exchanges, in the order in which they were recorded.

    Raises:
        CassetteUnreadable: It is something else, or was cut or edited; the message says what it looks like.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _refused(path, f"it cannot be read ({error.strerror})") from None
    data = _parsed(path, raw)
    return [_exchange(path, number, item) for number, item in enumerate(_interactions(path, data), start=1)]


def _refused(path: Path, what: str, *hints: str) -> CassetteUnreadable:
    return CassetteUnreadable(f"{path} cannot be imported: {what}.", *hints)


# ---------------------------------------------------------------------- the file


def _parsed(path: Path, raw: bytes) -> Any:
    """The file as plain data, whichever of the two languages it is written in."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(path, "it is no text; vcr files are YAML or JSON in UTF-8") from None
    if not text.strip():
        raise _refused(path, "it is empty")
    for looks, what, hint in _STRANGERS:
        if looks(text):
            raise _refused(path, what, hint)
    if text.lstrip()[0] in "{[":
        return _from_json(path, text)
    # go-vcr writes its version first, so that its last line tells nothing else
    if not text.endswith("\n") and not re.search(r"^version: \d+$", text.rpartition("\n")[2]):
        raise _refused(path, "its last line has no end, so it was cut", "get the whole file again")
    return _from_yaml(path, text)


def _from_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _refused(
            path, f"it is no whole JSON ({error}); it was cut or edited", "get the whole file again"
        ) from None


def _from_yaml(path: Path, text: str) -> Any:
    try:
        return yamlserializer.deserialize(text)  # vcrpy's own: it takes the tags that old files have, and no other
    except (yaml.YAMLError, ValueError) as error:
        problem = str(getattr(error, "problem", None) or "")
        if problem.startswith("could not determine a constructor"):
            raise _refused(
                path,
                f"it holds Python objects, which are not loaded from files ({problem.rpartition(' ')[2]})",
                "record it again with a current vcrpy",
            ) from None
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}: {problem})" if mark else ""
        raise _refused(
            path, f"it is no whole YAML{where}; it was cut or edited, or is no cassette", "get the whole file again"
        ) from None


def _interactions(path: Path, data: Any) -> list[Any]:
    if isinstance(data, list) and data and isinstance(data[0], Mapping) and "request" in data[0]:
        raise _refused(
            path, "it was written by a vcrpy before 1.0", "bring it up to date: python -m vcr.migration FILE"
        )
    name = next((name for name in _LISTS if isinstance(data, Mapping) and name in data), None)
    if name is None:
        raise _refused(path, f"{_looks_like(data)}; a vcr file has a list of `interactions`", _SCRIPT)
    if not isinstance(data[name], list) or not data[name]:
        raise _refused(path, f"its `{name}` hold nothing")
    if data.get("version", data.get("recorded_with")) is None:
        raise _refused(
            path,
            "it ends without the line `version: 1` that vcrpy writes last, so it was cut",
            "get the whole file again",
        )
    found: list[Any] = data[name]
    return found


# ---------------------------------------------------------------------- what is no vcr file


def _is_event_stream(text: str | bytes) -> bool:
    head = text[:400].decode("utf-8", "replace") if isinstance(text, bytes) else text[:400]
    return re.match(r"\s*(event|data|id|retry): ?\S.*\n(event|data|id|retry|:|\n)", head) is not None


def _first_line(text: str) -> Mapping[str, Any]:
    """The first of several lines that are each a JSON object; nothing for any other text."""
    first, _, rest = text.strip().partition("\n")
    if not rest.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(first)
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


_STRANGERS: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (_is_event_stream, "it is an event stream, one streamed reply without its request", _SCRIPT),
    (
        lambda text: str(_first_line(text).get("type", "")).startswith(("message_", "content_block_", "ping")),
        "it holds the events of one streamed reply of the Messages API as lines of JSON, without their request",
        _SCRIPT,
    ),
    (
        lambda text: _first_line(text).get("type") == "header" and "format" in _first_line(text),
        "it is a cassette of pytest-cua already",
        "let it follow its test: pytest-cua move OLD_TEST NEW_TEST",
    ),
    (lambda text: bool(_first_line(text)), "it holds lines of JSON, not one cassette", _SCRIPT),
    (
        lambda text: text.startswith("version https://git-lfs"),
        "it is a pointer of Git LFS, not the file itself",
        "fetch the files: git lfs install && git lfs pull",
    ),
)


def _looks_like(data: Any) -> str:
    """What a file is that is no vcr file, by what a person would call it."""
    if not isinstance(data, Mapping):
        return f"it holds {'a list' if isinstance(data, list) else 'plain text'}"
    kind = data.get("type")
    if kind == "message" and "content" in data:
        return "it is one JSON reply of the Messages API, without its request"
    if kind == "error":
        return "it is one error reply of the Messages API, without its request"
    if str(data.get("object", "")).startswith(("chat.completion", "response")):
        return "it is one JSON reply of OpenAI's API, without its request"
    if "model" in data and "messages" in data:
        return "it is one request of the Messages API, without its reply"
    if isinstance(data.get("log"), Mapping) and "entries" in data["log"]:
        return "it is an HTTP archive (HAR), as browsers save it"
    return f"it holds {', '.join(map(str, list(data)[:5])) or 'nothing'}"


# ---------------------------------------------------------------------- one interaction


def _exchange(path: Path, number: int, item: Any) -> Exchange:
    request = item.get("request") if isinstance(item, Mapping) else None
    reply = item.get("response") if isinstance(item, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(reply, Mapping):
        raise _incomplete(path, number, "request" if not isinstance(request, Mapping) else "response")
    url = request.get("uri", request.get("url"))
    status, reason = _status(reply)
    if not isinstance(url, str) or status is None:
        raise _incomplete(path, number, "address" if status is not None else "status")
    headers = _headers(reply)
    return Exchange(
        method=str(request.get("method", "GET")).upper(),
        url=url,
        request_headers=_headers(request),
        request_body=_body(path, number, request),
        status=status,
        reason=reason,
        reply_headers={name: value for name, value in headers.items() if name not in _TRAVEL},
        reply_body=_unpacked(path, number, headers, _body(path, number, reply)),
    )


def _incomplete(path: Path, number: int, what: str) -> CassetteUnreadable:
    return _refused(path, f"interaction {number} has no {what}; it was cut or edited", "get the whole file again")


def _status(reply: Mapping[str, Any]) -> tuple[int | None, str]:
    """vcrpy has `status: {code, message}`; go-vcr `status: 200 OK` and `code`; for httpx it once was `status_code`."""
    status = reply.get("status")
    if isinstance(status, Mapping):
        code, words = status.get("code"), status.get("message")
    else:
        code, words = reply.get("code", reply.get("status_code")), str(status or "").partition(" ")[2]
    return (code if isinstance(code, int) and 100 <= code <= 599 else None), str(words or "")


def _headers(part: Mapping[str, Any]) -> dict[str, str]:
    found = part.get("headers") or {}
    pairs = found.items() if isinstance(found, Mapping) else found
    headers = {}
    for name, value in pairs:
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, (str, bytes, int)):
            headers[str(name).lower()] = first.decode("latin-1") if isinstance(first, bytes) else str(first)
    return headers


def _body(path: Path, number: int, part: Mapping[str, Any]) -> bytes:
    if "parsed_body" in part:
        return json.dumps(part["parsed_body"], ensure_ascii=False, default=str).encode()
    body = part.get("body", part.get("content"))
    if isinstance(body, Mapping) and "base64_string" in body:
        try:
            return base64.b64decode(body["base64_string"])
        except (binascii.Error, TypeError, ValueError):
            raise _refused(path, f"a body of interaction {number} is no base64") from None
    if isinstance(body, Mapping) and ("string" in body or not body):
        body = body.get("string")
    return b"".join(_pieces(body))


def _pieces(body: Any) -> Iterator[bytes]:
    """A body in bytes, also one that was sent from a file or piece by piece."""
    if body is None:
        return
    if isinstance(body, bytes):
        yield body
    elif isinstance(body, str):
        yield body.encode("utf-8", "surrogateescape")
    elif hasattr(body, "read"):
        yield from _pieces(body.read())
    elif isinstance(body, Mapping):
        yield json.dumps(body, ensure_ascii=False, default=str).encode()
    else:
        for piece in body:
            yield from _pieces(piece)


def _unpacked(path: Path, number: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """The body without its compression; one that was stored unpacked, header and all, stays."""
    encoding = headers.get("content-encoding", "identity")
    if not body or encoding == "identity" or _is_text(body):
        return body
    try:
        packed = httpx2.Response(200, headers={"content-encoding": encoding}, stream=httpx2.ByteStream(body))
        plain = packed.read()
    except httpx2.DecodingError:
        raise _refused(path, f"the reply of interaction {number} is no whole {encoding!r} data") from None
    if plain == body:  # the library passes on what it cannot unpack
        raise _refused(
            path,
            f"the reply of interaction {number} is compressed with {encoding!r}, which is not installed here",
            f"install it: pip install {'brotli' if encoding == 'br' else 'zstandard'}",
            "or record with vcrpy's decode_compressed_response=True",
        )
    return plain


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
