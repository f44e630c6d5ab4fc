"""`import-vcr`: a recording of another tool becomes the cassette of a test.

What a client asked Claude becomes conversations, as if the code under test had been recorded here; every other call
goes to `http.yaml`. Each reply is tried with the SDK that is installed: what it cannot ask or read any more is told.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import anthropic
import httpx2
from pydantic import ValidationError
from vcr.request import Request as VcrRequest
from vcr.serialize import serialize
from vcr.serializers import yamlserializer

from pytest_cua.cassette.format import FILE
from pytest_cua.cassette.http import KEPT_REPLY_HEADERS, KEPT_REQUEST_HEADERS, HeaderNames
from pytest_cua.cassette.lanes import Lanes
from pytest_cua.cassette.redact import environment_secrets, redact_bytes, redact_text
from pytest_cua.cassette.store import HTTP, CassetteWriter, cassette_folder
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.vcr_files import Exchange, read_vcr
from pytest_cua.cassette.wire import Events, Reply, Request, kept_headers, plain, reply_of, will_be_retried
from pytest_cua.errors import BadArgument, CassetteUnreadable, cua_command, shell_quoted
from pytest_cua.network import MODEL_HOST
from pytest_cua.trace import Run

_COMPLETE = "/v1/complete"  # text completions: the SDK dropped them with 2.0
_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_SDK = f"anthropic {anthropic.__version__}"


@dataclass
class ImportReport:
    """What became of a recording.

    Attributes:
        source: The file that was imported.
        folder: Where the cassette lies now.
        test: The test that it answers.
        conversations, turns, streams: How many there are of Claude's, the last being replies in pieces.
        http: How many other calls went to `http.yaml`.
        pictures: How many different pictures the requests showed.
        left_out: How many calls could not be taken over.
        notes: What a reader should know: shapes that this SDK cannot replay, and what was changed.
    """

    source: Path
    folder: Path
    test: str
    conversations: int = 0
    turns: int = 0
    streams: int = 0
    http: int = 0
    pictures: int = 0
    left_out: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    def __str__(self) -> str:
        counts = [
            (self.conversations, "conversation"),
            (self.turns, "turn"),
            (self.streams, "stream"),
            (self.pictures, "picture"),
            (self.http, "other call"),
            (self.left_out, "left out"),
        ]
        told = ", ".join(f"{n} {what}{'s' if n != 1 and what != 'left out' else ''}" for n, what in counts if n)
        lines = [f"{self.source} is now {self.folder / FILE}, for {self.test}: {told}"]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def import_vcr(source: Path, *, root: Path, test: str, force: bool = False) -> ImportReport:
    """Make a recording of another tool the cassette of a test.

    Secrets are taken out as from any recording; headers of requests are never written.

    Args:
        source: A file that `read_vcr` reads.
        root: The folder of all cassettes.
        test: The id of the test whose code asks these requests, `tests/test_chat.py::test_answer`.
        force: Whether to replace a cassette that the test has.

    Raises:
        CassetteUnreadable: The file is no vcr file, or holds nothing that could be replayed.
        BadArgument: The test has a cassette already.
        CassetteUnwritable, SecretLeaked: As for any recording.
    """
    exchanges = read_vcr(source)
    folder = cassette_folder(root, test)
    if (folder / FILE).exists() and not force:
        raise BadArgument(
            f"{test} has a cassette already: {folder / FILE}.",
            f"replace it: {cua_command('import-vcr', source, '--test', shell_quoted(test), '--force')}",
            "or give the recording to another test",
        )
    report = ImportReport(source, folder, test)
    asked = [exchange for exchange in exchanges if is_claude(exchange) and _is_kept(exchange, report)]
    others = [exchange for exchange in exchanges if not is_claude(exchange)]
    if not asked and not others:
        raise CassetteUnreadable(f"{source} holds nothing that {_SDK} could replay.", *report.notes)
    writer = CassetteWriter(folder, root)
    try:
        _write(writer, report, asked, others)
    except BaseException:
        writer.destroy()
        raise
    return report


# ---------------------------------------------------------------------- whose exchange it is


def is_claude(exchange: Exchange) -> bool:
    """Whether the API of Claude was asked, by whatever host: gateways speak it too."""
    return exchange.host == MODEL_HOST or "anthropic-version" in exchange.request_headers


def _is_kept(exchange: Exchange, report: ImportReport) -> bool:
    """Whether it can be taken over; if not, the report says why."""
    why = None
    if api_path(exchange) == _COMPLETE:
        why = f"text completions (POST {_COMPLETE}) are an old API: {_SDK} has no method that asks for one"
    elif exchange.request_body and _json_body(exchange) is None:
        why = f"{exchange.method} {exchange.path} was sent something else than JSON, which cannot be compared"
    if why is not None:
        report.left_out += 1
        report.note(f"left out: {why}")
    return why is None


def api_path(exchange: Exchange) -> str:
    """The path and query as the installed SDK asks for it: without what a gateway puts before, or an old SDK behind."""
    parts = urlsplit(exchange.url)
    start = parts.path.find("/v1/")
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "beta"]
    path = parts.path[start:] if start > 0 else parts.path
    return f"{path}?{urlencode(sorted(query))}" if query else path


def _json_body(exchange: Exchange) -> dict[str, Any] | None:
    try:
        body = json.loads(exchange.request_body)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


# ---------------------------------------------------------------------- writing


def _write(writer: CassetteWriter, report: ImportReport, asked: list[Exchange], others: list[Exchange]) -> None:
    tape = Tape(writer, header=_header(report, asked), run=Run(test=report.test, mode="import"))
    tape.replied(_endpoint(asked))
    _write_conversations(tape, report, asked)
    if others:
        report.http = len(others)
        hosts = " ".join(dict.fromkeys(exchange.host for exchange in others))
        report.note(f"{HTTP} holds the calls to other hosts; let replay answer them: cua_http_recorded = {hosts}")
        _save_http(writer.aside / HTTP, others)
    if not asked:
        report.note("no call to Claude is among them, so this alone makes no test of an agent")
    _tell_versions(report, asked)
    report.pictures = len(list((writer.aside / "screens").glob("*.webp")))
    tape.close(passed=True)


def _header(report: ImportReport, asked: list[Exchange]) -> dict[str, Any]:
    models = dict.fromkeys(str(body["model"]) for e in asked if (body := _json_body(e)) and "model" in body)
    header = header_line(
        test=report.test, model=next(iter(models), "none"), tools=[], prompt_digest="", display={}, environment={}
    )
    return {**header, "imported_from": report.source.name}


def _endpoint(asked: list[Exchange]) -> str:
    host = asked[0].host if asked else None
    return "none" if host is None else "anthropic" if host == MODEL_HOST else f"other: {host}"


def _write_conversations(tape: Tape, report: ImportReport, asked: list[Exchange]) -> None:
    lanes = Lanes()
    attempts: list[dict[str, Any]] = []
    for number, exchange in enumerate(asked):
        if number + 1 < len(asked) and _asked_again(exchange, asked[number + 1]):
            attempts.append({"status": exchange.status, "error": reply_of(exchange.http_response()).body})
            continue
        body = _json_body(exchange) or {}
        request = _request(tape, exchange, body)
        lane, turn, new, begins = lanes.place(request, "")
        if begins:
            tape.write({"type": "conversation", "conversation": lane.number, "client": "imported"})
        reply = _reply(exchange)
        where = {"conversation": lane.number, "turn": turn}
        tape.turn(where, lane.history, request, reply, waited_ms=0, attempts=attempts, new=new)
        lane.replied(reply)
        attempts = []
        report.turns += 1
        report.streams += exchange.is_stream
        for complaint in _complaints(exchange, body):
            report.note(f"conversation {lane.number}, turn {turn}: {complaint}")
    report.conversations = len(lanes.lanes)


def _asked_again(exchange: Exchange, after: Exchange) -> bool:
    """Whether the next exchange is the same call, once more after an error: its replies are one turn."""
    same = (exchange.method, exchange.url, exchange.request_body) == (after.method, after.url, after.request_body)
    return same and will_be_retried(exchange.http_response())


def _request(tape: Tape, exchange: Exchange, body: Mapping[str, Any]) -> Request:
    params = plain(body, tape.request_picture, tape.request_file)
    messages = params.pop("messages", [])
    return Request(exchange.method.lower(), api_path(exchange), params, messages)


def _reply(exchange: Exchange) -> Reply:
    http = exchange.http_response()
    if not exchange.is_stream:
        return reply_of(http)
    events = Events(started=0.0)
    events.take(exchange.reply_body)
    events.end()
    # when each came was not recorded
    return Reply(exchange.status, events=[[0, text] for _, text in events.found], headers=kept_headers(http))


def _save_http(path: Path, exchanges: list[Exchange]) -> None:
    """Write exchanges as `http.yaml` holds those that were recorded here: few headers, and secrets taken out."""
    secrets = environment_secrets()
    requests, replies = [], []
    for exchange in exchanges:
        body = redact_bytes(exchange.request_body, secrets) if exchange.request_body else None
        headers = _kept(exchange.request_headers, KEPT_REQUEST_HEADERS, secrets)
        requests.append(VcrRequest(exchange.method, redact_text(_without_user(exchange.url), secrets), body, headers))
        replies.append(
            {
                "status": {"code": exchange.status, "message": exchange.reason},
                "headers": {n: [v] for n, v in _kept(exchange.reply_headers, KEPT_REPLY_HEADERS, secrets).items()},
                "body": {"string": redact_bytes(exchange.reply_body, secrets)},
            }
        )
    text = serialize({"requests": requests, "responses": replies}, yamlserializer)
    path.write_text(text, encoding="utf-8", newline="\n")


def _kept(headers: Mapping[str, str], names: tuple[str, ...], secrets: Mapping[str, str]) -> dict[str, str]:
    kept = HeaderNames(names).of(headers)
    return {name: redact_text(value, secrets) for name, value in kept.items()}


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


# ---------------------------------------------------------------------- what the installed SDK says of it


def _tell_versions(report: ImportReport, asked: list[Exchange]) -> None:
    sent = {e.request_headers["anthropic-version"] for e in asked if "anthropic-version" in e.request_headers}
    now = anthropic.Anthropic(api_key="none").default_headers["anthropic-version"]
    if old := sorted(sent - {str(now)}):
        report.note(f"recorded under API version {', '.join(old)}; {_SDK} asks for {now}")
    if any("beta" in dict(parse_qsl(urlsplit(e.url).query)) for e in asked):
        report.note(f"`?beta=true` was taken off the addresses: {_SDK} asks its beta methods at {_MESSAGES}")


class _Recorded(httpx2.BaseTransport):
    """Gives one recorded reply, whatever is asked."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._exchange.http_response()


def _complaints(exchange: Exchange, body: Mapping[str, Any]) -> list[str]:
    """What the installed SDK says when it asks the recorded request and reads the recorded reply."""
    if exchange.method != "POST" or api_path(exchange) not in (_MESSAGES, _COUNT):
        return []
    call = _method(exchange, body, strict=False)
    unknown = [name for name in body if name not in inspect.signature(call).parameters and name != "stream"]
    found = [
        f"{_SDK} has no argument `{name}`; a replay needs extra_body={{'{name}': ...}}, "
        f"and the API of today may refuse it"
        for name in unknown
    ]
    if exchange.status >= 400:  # raised as it was when it was recorded
        return found
    if (error := _try(call, body, unknown)) is not None:
        what = "make a message of this stream" if exchange.is_stream else "replay this"
        return [*found, f"{_SDK} cannot {what}: {error}"]
    if (error := _try(_method(exchange, body, strict=True), body, unknown)) is not None:
        found.append(f"the reply has a shape that {_SDK} does not know, and is read unchecked: {error}")
    return found


def _method(exchange: Exchange, body: Mapping[str, Any], *, strict: bool) -> Any:
    """The method of the SDK that asks so, bound to a client that gets the recorded reply."""
    client = anthropic.Anthropic(
        api_key="none",
        max_retries=0,
        http_client=httpx2.Client(transport=_Recorded(exchange)),
        _strict_response_validation=strict,
    )
    is_beta = "anthropic-beta" in exchange.request_headers or "beta=" in urlsplit(exchange.url).query
    messages: Any = client.beta.messages if is_beta else client.messages
    if api_path(exchange) == _COUNT:
        return messages.count_tokens
    return messages.stream if body.get("stream") else messages.create


def _try(call: Any, body: Mapping[str, Any], unknown: list[str]) -> str | None:
    """Ask and read; gives what went wrong."""
    named = {name: value for name, value in body.items() if name not in unknown and name != "stream"}
    extra = {name: body[name] for name in unknown}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a model is deprecated matters to nobody here
        try:
            answer = call(**named, extra_body=extra or None)
            if body.get("stream"):
                with answer as stream:
                    stream.get_final_message()
        except Exception as error:  # whatever it is, it would be raised in the test
            return _said(error)
    return None


def _said(error: Exception) -> str:
    """An error in one line; of a reply that was checked, the first place where it is not as it should be."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        place = list(first["loc"])
        text = f"{'.'.join(map(str, place))}: {first['msg']}"
        if place[0] == "content" and len(place) > 1:  # pydantic names the first kind of block that it is not
            block = getattr(error, "body", {})["content"][place[1]]
            text = f"content.{place[1]} is a block of type {block.get('type')!r}"
    return " ".join(text.split())[:400]
