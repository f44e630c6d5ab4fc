"""No secret reaches a cassette: what looks like one is replaced before a line is written.

Headers are never written at all, so this guards bodies: a key in a tool result, a token in a sentence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_SHAPES = (
    re.compile(r"sk-ant-[A-Za-z0-9_-]{8,}"),
    re.compile(r"gh[pousr]_[A-Za-z0-9]{20,}"),
    re.compile(r"AKIA[0-9A-Z]{16}"),
    re.compile(r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
)
_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_REDACTED = re.compile(r"\[redacted (\w+)\]")
_SHORTEST = 8  # characters; shorter values of such variables are words, not secrets


def environment_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of variables whose names say that they are secret, with the names."""
    environ = os.environ if environ is None else environ
    found = {
        value: name
        for name, value in environ.items()
        if _NAMES.search(name) and len(value) >= _SHORTEST and not value.startswith(("/", "http"))
    }
    # the longest first, or one that begins with another would leave its end
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def redact_text(text: str, secrets: Mapping[str, str]) -> str:
    """The text without secrets; each is replaced by a word that says what stood there."""
    for value, name in secrets.items():
        if value in text:
            text = text.replace(value, f"[redacted {name}]")
    for shape in _SHAPES:
        text = shape.sub("[redacted key]", text)
    return text


def redact_bytes(data: bytes, secrets: Mapping[str, str]) -> bytes:
    """The content of a file without secrets; in one that is no text they are overwritten, so that nothing moves."""
    try:
        return redact_text(data.decode(), secrets).encode()
    except UnicodeError:
        text = data.decode("latin-1")  # each byte a character
    for value in secrets:
        hidden = value.encode("utf-8", "surrogateescape").decode("latin-1")
        text = text.replace(hidden, "*" * len(hidden))
    for shape in _SHAPES:
        text = shape.sub(lambda found: "*" * len(found[0]), text)
    return text.encode("latin-1")


def restore(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with the secrets that are known here put back.

    Raises:
        LookupError: One is not known here.
    """
    if isinstance(value, str):
        for secret, name in secrets.items():
            value = value.replace(f"[redacted {name}]", secret)
        if found := _REDACTED.search(value):
            raise LookupError(found[1])
        return value
    if isinstance(value, Mapping):
        return {name: restore(item, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [restore(item, secrets) for item in value]
    return value


def redact(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every text in it redacted."""
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, Mapping):
        return {name: redact(item, secrets) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(item, secrets) for item in value]
    return value
