"""Every other HTTP call of the test process, through vcrpy: `http.yaml` beside the cassette.

| | this machine | `cua_http_live` | `cua_http_recorded` | any other host | a model, past our middleware |
|---|---|---|---|---|---|
| while recording | live, kept | live, kept | live, kept | live, kept, noted | fails the test |
| replay | live | live | from the recording | fails the test | fails the test |
| offline | from the recording | from the recording | from the recording | fails, unless it was kept | fails the test |

The application is asked live wherever there is a desktop: a broken one must be asked, not remembered. Claude's turns do
not come here: while our middleware calls on to the network, the transport of the SDK is as vcrpy found it.
"""

from __future__ import annotations

import functools
import logging
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import httpx2
import vcr
import vcr.patch
import yaml
from vcr.persisters.filesystem import CassetteDecodeError, CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.serialize import deserialize, serialize

from pytest_cua.cassette.redact import environment_secrets, redact, redact_bytes, redact_text, restore_known
from pytest_cua.errors import CassetteMismatch, CassetteUnreadable, CuaFailure, UndeclaredRequest, pytest_command
from pytest_cua.network import Guard, Hosts, Mode, asked_model, is_loopback, undeclared
from pytest_cua.settings import NEVER_KEPT, VCRPY_MODES

asking_model: ContextVar[bool] = ContextVar("asking_model", default=False)
"""True while our middleware calls on to the network: what it asks is in the cassette, so vcrpy keeps out of it."""

FILE = "http.yaml"
KEPT_REQUEST_HEADERS = (
    "accept",
    "accept-language",
    "content-type",
    "content-language",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "range",
    "x-requested-with",
)
KEPT_REPLY_HEADERS = (
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",  # of what vcrpy could not decode
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "vary",
    "x-ratelimit-*",
)
_CHALLENGE = "www-authenticate"  # of which the scheme is kept
_OURS = (  # where, when and how it is kept
    "path_transformer",
    "cassette_library_dir",
    "serializer",
    "persister",
    "record_mode",
    "before_record",
)
_NEAREST = 3  # requests that a message shows
# what never leaves this process, whatever host it names
_IN_PROCESS = (
    ("WSGITransport", "handle_request"),
    ("ASGITransport", "handle_async_request"),
    ("MockTransport", "handle_request"),
    ("MockTransport", "handle_async_request"),
)
_in_process: ContextVar[bool] = ContextVar("in_process", default=False)


class _Persister:
    """vcrpy's own, but whole or not at all, and in UTF-8 whatever the locale says."""

    @staticmethod
    def load_cassette(cassette_path: str, serializer: Any) -> Any:
        path = Path(cassette_path)
        if not path.is_file():
            raise CassetteNotFoundError
        try:
            return deserialize(path.read_text(encoding="utf-8"), serializer)
        except (ValueError, TypeError, CassetteDecodeError, yaml.YAMLError) as error:
            raise CassetteUnreadable(
                f"{path} cannot be replayed: {error}.", "restore it from version control, or record the test again"
            ) from None

    @staticmethod
    def save_cassette(cassette_path: str, cassette_dict: Any, serializer: Any) -> None:
        path = Path(cassette_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_text(serialize(cassette_dict, serializer), encoding="utf-8")
        partial.replace(path)


def _same_place(first: Any, second: Any) -> None:
    """A matcher: host and port, but on this machine the port is whatever was free."""
    if is_loopback(first.host or "") and is_loopback(second.host or ""):
        return
    places = [f"{request.scheme}://{request.host}:{request.port}" for request in (first, second)]
    assert places[0] == places[1], " != ".join(places)


class HttpRecording:
    """vcrpy around one test, and what guards a replay.

    Args:
        mode: "record", "replay" or "offline".
        test: The node id, for the command in a message.
        folder: The folder of `http.yaml`.
        hosts: What is declared.
        headers: Headers that are kept besides the usual ones: names, or beginnings that end with `*`.
        config: The user's `vcr_config`.
        on_request: Called with each request that the test makes, before it is answered.
        on_missing: Called with a request of the application for which `offline` holds no answer.
        fail: Keeps a failure, so that no `except` hides it, and gives back what to raise.
        note: Takes a line for the end of the run.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        test: str,
        folder: Path,
        hosts: Hosts,
        headers: Sequence[str],
        config: Mapping[str, Any],
        on_request: Callable[[str], None],
        on_missing: Callable[[str], NoReturn],
        fail: Callable[[CuaFailure], CuaFailure],
        note: Callable[[str], None],
    ) -> None:
        self._mode = mode
        self._test = test
        self._file = folder / FILE
        self._hosts = hosts
        self._on_request = on_request
        self._on_missing = on_missing
        self._fail = fail
        self._note = note
        self._noted: set[str] = set()
        self._ended = False
        self._process = os.getpid()
        self.answered = 0  # requests, from the recording
        self._entered = ExitStack()
        self._logging = _WithoutSecrets()
        self._guard: Guard | None = None
        if mode != "record":
            self._guard = Guard(mode=mode, hosts=hosts, fail=fail, on_missing=on_missing, is_ours=asking_model.get)
        self._user_filters = _hooks(config.get("before_record_request", config.get("before_record")))
        self._user_reply_filters = _hooks(config.get("before_record_response"))
        filters = tuple(config.get("filter_headers", ()))
        self._request_headers = HeaderNames([*KEPT_REQUEST_HEADERS, *headers, *_replaced(filters)])
        self._reply_headers = HeaderNames([*KEPT_REPLY_HEADERS, *headers])
        self._secrets = environment_secrets()
        self._note_record_mode(config)
        recorder = vcr.VCR()
        recorder.register_persister(_Persister)
        recorder.register_matcher("same_place", _same_place)
        options = {
            "match_on": ("method", "same_place", "path", "query"),
            **{name: value for name, value in config.items() if name not in _OURS},
            "decode_compressed_response": True,  # what is packed cannot be read in a review, nor looked through
            "before_record_response": self._filter_response,
            "record_mode": RecordMode.ALL if mode == "record" else RecordMode.NONE,
            "before_record_request": self._filter,
        }
        self._context = recorder.use_cassette(str(self._file), **options)

    def _note_record_mode(self, config: Mapping[str, Any]) -> None:
        if "record_mode" not in config:
            return
        given = getattr(config["record_mode"], "value", config["record_mode"])
        here = VCRPY_MODES.get(str(given), "replay, offline, record or record-missing")
        self._note(f"vcr_config: record_mode={given!r} has no effect; --cua-mode says it, in its words {here}")

    # ------------------------------------------------------------------ what is kept

    def _filter(self, request: Any) -> Any:
        """vcrpy's hook: None lets a request through, unkept and unanswered."""
        if self._ended or asking_model.get():
            return None
        if self._mode == "replay" and (_in_process.get() or self._side(request) != "recorded"):
            return None
        for user_filter in self._user_filters:
            if request is not None:
                request = user_filter(request)
        if request is None:
            return None
        # vcrpy gives a copy, so what is sent is not touched
        request.uri = redact_text(_without_user(request.uri), self._secrets)
        request.headers = redact(self._request_headers.of(request.headers), self._secrets)
        if isinstance(request.body, bytes):
            request.body = redact_bytes(request.body, self._secrets)
        return request

    def _filter_response(self, response: Any) -> Any:
        """vcrpy's hook, called with a copy."""
        for user_filter in self._user_reply_filters:
            if response is not None:
                response = user_filter(response)
        if response is None:
            return None
        given = response.get("headers") or {}
        headers = redact(self._reply_headers.of(given), self._secrets)
        for name, values in given.items():
            if name.lower() == _CHALLENGE and name not in headers:
                headers[name] = [value.partition(" ")[0] for value in _listed(values)]
        body = response.get("body") or {}
        if isinstance(body.get("string"), bytes):
            body["string"] = redact_bytes(body["string"], self._secrets)
            for name in [name for name in headers if name.lower() == "content-length" and body["string"]]:
                headers[name] = [str(len(body["string"]))]  # it was counted before it was unpacked
        response["headers"] = headers
        return response

    # ------------------------------------------------------------------ what is asked

    def _side(self, request: Any) -> str:
        return self._hosts.side((request.host or "").lower().rstrip("."), request.port)

    def _watched(self, request: Any) -> bool:
        """Whether the recording answers; asked by vcrpy for each request, before anything is sent.

        Raises:
            UndeclaredRequest, CassetteMismatch: It may not be asked, or the recording should answer and cannot.
            NeedsApplication: `offline`, and the recording does not hold it.
        """
        if self._ended or asking_model.get():
            return False
        if not _in_process.get():
            self._refuse(request)
        if self._mode == "record" and self._side(request) == "recorded" and os.getpid() != self._process:
            raise self._fail(
                UndeclaredRequest(
                    f"A process that the test forked asks {self._shown(request)}; it has a copy of the recording, so "
                    "nothing of it would be kept.",
                    "let a thread ask, or declare the host in cua_http_live",
                )
            )
        self._on_request(self._shown(request))
        found = bool(self._playable(request))
        self.answered += found
        if not found and self._mode != "record":
            self._miss(request)
        return found

    def _played(self, request: Any) -> Any:
        """The recorded answer, with those secrets put back that are known here."""
        response = self._play(request)
        headers = restore_known(response["headers"], self._secrets)
        body = (response.get("body") or {}).get("string")
        if not isinstance(body, bytes) or b"[redacted " not in body:
            return {**response, "headers": headers}
        whole = restore_known(body.decode("utf-8", "surrogateescape"), self._secrets).encode("utf-8", "surrogateescape")
        length = {name: [str(len(whole))] for name in headers if name.lower() == "content-length"}
        return {**response, "headers": {**headers, **length}, "body": {**response["body"], "string": whole}}

    def _refuse(self, request: Any) -> None:
        place = self._shown(request).partition("?")[0]
        if self._hosts.is_model(request.uri, request.headers):
            raise self._fail(asked_model(self._mode, place))
        if self._mode == "offline" or self._side(request) != "undeclared":
            return
        if self._mode == "replay":
            raise self._fail(undeclared(self._mode, place, request.host))
        if request.host not in self._noted:
            self._noted.add(request.host)
            self._note(
                f"asked while recording: {request.host}; declare it in cua_http_recorded or cua_http_live, "
                "or its replay fails"
            )

    def _miss(self, request: Any) -> None:
        side = self._side(request)
        if side == "recorded" and not _in_process.get():
            if self._cassette.filter_request(request) is not None:  # else vcr_config lets it through
                raise self._fail(self._not_recorded(request))
        elif self._mode == "offline":
            if side == "undeclared" and not _in_process.get():
                raise self._fail(undeclared(self._mode, self._shown(request).partition("?")[0], request.host))
            self._on_missing(self._shown(request))

    def _shown(self, request: Any) -> str:
        return f"{request.method} {redact_text(_without_user(request.uri), self._secrets)}"

    def _not_recorded(self, request: Any) -> CassetteMismatch:
        asked = self._cassette.filter_request(request)
        near = self._cassette.find_requests_with_most_matches(request)
        again = f"record the test again: {pytest_command('--cua-mode=record', test=self._test)}"
        vcrpy = f"(In vcrpy's words the mode of {_a(self._mode)} is 'none': nothing is added to what was recorded.)"
        what = f"{self._file}: {asked.method} {asked.uri}"
        if not self._file.is_file():
            why = "was not recorded: there is no such file, so no HTTP request of this test was."
            return CassetteMismatch(f"{what} {why} {vcrpy}", again)
        alike = [stored for stored, _, differences in near if not differences]
        if alike:
            times = "once" if len(alike) == 1 else f"{len(alike)} times"
            return CassetteMismatch(
                f"{what} was recorded {times}, and is asked once more. {vcrpy}",
                again,
                'or let an answer serve again: "allow_playback_repeats": True in vcr_config',
            )
        lines = [f"{what} was not recorded. {vcrpy}"]
        if near:
            lines += ["The nearest that were:", *(_difference(*found) for found in near[:_NEAREST])]
        return CassetteMismatch("\n".join(lines), again)

    def unasked(self) -> list[str]:
        """A line about the requests of recorded hosts that the recording holds and the replay did not make."""
        if self._mode == "record":
            return []
        left = [
            f"{request.method} {request.uri}"
            for index, request in enumerate(self._cassette.requests)
            if not self._cassette.play_counts[index] and self._side(request) == "recorded"
        ]
        if not left:
            return []
        more = f" and {len(left) - _NEAREST} more" if len(left) > _NEAREST else ""
        return [f"{self._test}: recorded in {FILE} and not asked for: {', '.join(left[:_NEAREST])}{more}"]

    # ------------------------------------------------------------------ from here to there

    def __enter__(self) -> HttpRecording:
        with ExitStack() as entered:
            self._logging.start()
            entered.callback(self._logging.stop)
            self._cassette = entered.enter_context(self._context)
            self._playable, self._play = self._cassette.can_play_response_for, self._cassette.play_response
            self._cassette.can_play_response_for = self._watched
            self._cassette.play_response = self._played
            for patch in [*_bypasses(), *_inside()]:
                entered.enter_context(patch)
            self._entered = entered.pop_all()
        if self._guard is not None:
            self._guard.start()
        return self

    def allow_model(self, client: Any) -> None:
        """From now on our middleware asks a model with this client, as when a replayed test records a flow.

        What carries the middleware goes through by `asking_model`; other requests to that place are refused.
        """
        self._hosts = replace(self._hosts, models=[*self._hosts.models, str(client.base_url)])

    def __exit__(self, *exception: object) -> None:
        """Write what was recorded; connections of the test that go on belong to no test."""
        self._entered.close()
        self._ended = True

    def release(self) -> None:
        """Let every connection through again: the test is over."""
        if self._guard is not None:
            self._guard.stop()


class _WithoutSecrets(logging.Filter):
    """Takes secrets out of what vcrpy logs: at DEBUG and INFO it tells whole addresses and all headers of replies."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact one line; none is left out."""
        if isinstance(record.args, tuple):  # of a reply, its status says enough: its cookies are nobody's to read
            record.args = tuple(arg.get("status") if isinstance(arg, Mapping) else arg for arg in record.args)
        record.msg, record.args = redact_text(_without_user(record.getMessage()), environment_secrets()), ()
        return True

    def start(self) -> None:
        """See every line of vcrpy's; a filter is not asked about the loggers below its own."""
        for name in _vcr_loggers():
            logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        """See none any more."""
        for name in _vcr_loggers():
            logging.getLogger(name).removeFilter(self)


@functools.cache
def _vcr_loggers() -> list[str]:
    """The names of vcrpy's loggers: its modules log under their own, those too that are imported later."""
    return ["vcr", *(module.name for module in pkgutil.walk_packages(vcr.__path__, "vcr."))]


def _bypasses() -> Iterable[Any]:
    """Patches over vcrpy's: while our middleware asks, the SDK's transport is the one that vcrpy found.

    vcrpy reads an answer to its end before it gives it on; so a streamed one would come in one piece.
    """
    originals = vcr.patch._Httpx2HttpTransport_handle_request, vcr.patch._Httpx2AsyncHttpTransport_handle_async_request
    for transport, original in zip((httpx2.HTTPTransport, httpx2.AsyncHTTPTransport), originals, strict=True):
        patched = getattr(transport, original.__name__)
        yield mock.patch.object(transport, original.__name__, _either(original, patched))


def _either(original: Callable[..., Any], patched: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle(transport: Any, request: Any) -> Any:  # the answer, or the awaitable of one
        return (original if asking_model.get() else patched)(transport, request)

    return handle


def _inside() -> Iterable[Any]:
    """Patches over vcrpy's for transports that call a function of this process."""
    for module in filter(None, map(sys.modules.get, ("httpx", "httpx2"))):
        for name, method in _IN_PROCESS:
            transport = getattr(module, name)
            inside = _async_inside if "async" in method else _sync_inside
            yield mock.patch.object(transport, method, inside(getattr(transport, method)))


def _sync_inside(patched: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(patched)
    def handle(transport: Any, request: Any) -> Any:
        token = _in_process.set(True)
        try:
            return patched(transport, request)
        finally:
            _in_process.reset(token)

    return handle


def _async_inside(patched: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(patched)
    async def handle(transport: Any, request: Any) -> Any:
        token = _in_process.set(True)
        try:
            return await patched(transport, request)
        finally:
            _in_process.reset(token)

    return handle


class HeaderNames:
    """Names of headers, some given by their beginning."""

    def __init__(self, names: Iterable[str]) -> None:
        names = [name.lower() for name in names]
        self._whole = {name for name in names if not name.endswith("*")}
        self._beginnings = tuple(name[:-1] for name in names if name.endswith("*"))

    def of(self, headers: Mapping[Any, Any]) -> dict[str, Any]:
        """Those of the headers that are kept."""
        found = {_text(name): value for name, value in headers.items()}
        return {name: _text(value) for name, value in found.items() if self._keeps(name.lower())}

    def _keeps(self, name: str) -> bool:
        return name in self._whole or (name.startswith(self._beginnings) and name not in NEVER_KEPT)


def _text(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _listed(values: Any) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _replaced(filters: Iterable[Any]) -> list[str]:
    """The headers for which vcr_config's `filter_headers` gives something else to keep."""
    return [entry[0] for entry in filters if isinstance(entry, tuple) and entry[1] is not None]


def _hooks(given: Any) -> list[Callable[[Any], Any]]:
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) else [given]


def _difference(stored: Any, same: Sequence[str], different: Sequence[tuple[str, str | None]]) -> str:
    words = "; ".join(f"{name.strip('_')}: {why}" if why else name.strip("_") for name, why in different)
    return f"  {stored.method} {stored.uri} ({words})"


def _without_user(uri: str) -> str:
    """The address without the name and password that may stand before the host."""
    return re.sub(r"(?<=://)[^/?#]*@", "", uri)


def _a(mode: Mode) -> str:
    return "an offline run" if mode == "offline" else f"a {mode}"
