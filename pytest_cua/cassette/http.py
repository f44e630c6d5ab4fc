"""Every other HTTP call of the test process, through vcrpy: `http.yaml` beside the cassette.

| | recorded hosts (`cua_http_recorded`) | all others, the application's among them |
|---|---|---|
| while recording | live, kept | live, kept |
| replay | from the recording | live: a broken application must be asked, not remembered |
| offline | from the recording | from the recording |

Requests to a model never come here: they carry our own middleware, and their hosts are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import vcr
import yaml
from vcr.persisters.filesystem import CassetteDecodeError, CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.serialize import deserialize, serialize

from pytest_cua.cassette.redact import environment_secrets, redact, redact_bytes, redact_text
from pytest_cua.errors import CassetteUnreadable

FILE = "http.yaml"
SECRET_HEADERS = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token")
SECRET_REPLY_HEADERS = ("set-cookie", "anthropic-organization-id")
_OURS = (
    "path_transformer",
    "cassette_library_dir",
    "serializer",
    "persister",
    "record_mode",
)  # where and how it is kept
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


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
    if first.host in _LOOPBACK and second.host in _LOOPBACK:
        return
    assert (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)


class HttpRecording:
    """vcrpy around one test.

    Args:
        mode: "record", "replay" or "offline".
        folder: The folder of `http.yaml`.
        recorded_hosts: Hosts that `replay` answers from the recording.
        passed_over: Hosts that are never kept or answered: those of a model.
        config: The user's `vcr_config`.
        on_request: Called with each request that the test makes, before it is answered.
        on_missing: Called with a request for which `offline` holds no answer.
    """

    def __init__(
        self,
        *,
        mode: Literal["record", "replay", "offline"],
        folder: Path,
        recorded_hosts: Sequence[str],
        passed_over: Sequence[str],
        config: Mapping[str, Any],
        on_request: Callable[[str], None],
        on_missing: Callable[[str], None],
    ) -> None:
        self._mode = mode
        self._recorded_hosts = recorded_hosts
        self._passed_over = passed_over
        self._on_request = on_request
        self._on_missing = on_missing
        self._user_filter = config.get("before_record_request")
        self._user_response_filter = config.get("before_record_response")
        self._secrets = environment_secrets()
        recorder = vcr.VCR()
        recorder.register_persister(_Persister)
        recorder.register_matcher("same_place", _same_place)
        config = {name: value for name, value in config.items() if name not in _OURS}
        options = {
            "match_on": ("method", "same_place", "path", "query"),
            **config,
            "filter_headers": [*SECRET_HEADERS, *config.get("filter_headers", ())],
            "before_record_response": self._filter_response,
            "record_mode": RecordMode.ALL if mode == "record" else RecordMode.NONE,
            "before_record_request": self._filter,
        }
        self._context = recorder.use_cassette(str(folder / FILE), **options)

    def _filter(self, request: Any) -> Any:
        """vcrpy's hook: None lets a request through, unkept and unanswered."""
        if self._user_filter is not None:
            request = self._user_filter(request)
        if request is None or f"{request.host}:{request.port}" in self._passed_over:
            return None
        if self._mode == "replay" and request.host not in self._recorded_hosts:
            return None
        # vcrpy gives a copy, so what is sent is not touched
        request.uri = redact_text(request.uri, self._secrets)
        request.headers = redact(dict(request.headers), self._secrets)
        if isinstance(request.body, bytes):
            request.body = redact_bytes(request.body, self._secrets)
        return request

    def _filter_response(self, response: Any) -> Any:
        """vcrpy's hook, called with a copy."""
        if self._user_response_filter is not None:
            response = self._user_response_filter(response)
        if response is None:
            return None
        headers = response.get("headers", {})
        for name in [name for name in headers if name.lower() in SECRET_REPLY_HEADERS]:
            del headers[name]
        response["headers"] = redact(headers, self._secrets)
        body = response.get("body") or {}
        if isinstance(body.get("string"), bytes):
            body["string"] = redact_bytes(body["string"], self._secrets)
        return response

    def __enter__(self) -> HttpRecording:
        cassette = self._context.__enter__()
        playable = cassette.can_play_response_for

        def watched(request: Any) -> bool:
            shown = f"{request.method} {redact_text(request.uri, self._secrets)}"
            if f"{request.host}:{request.port}" not in self._passed_over:
                self._on_request(shown)
            found = bool(playable(request))
            if not found and self._mode == "offline":
                self._on_missing(shown)
            return found

        cassette.can_play_response_for = watched  # asked once for each request, before anything is sent
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.__exit__(*exception)


def place_of(url: str) -> str:
    """The `host:port` of a URL, as requests name it."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}"
