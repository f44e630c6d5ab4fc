"""No secret reaches a cassette: what looks like one is replaced before a line is written.

Headers are never written at all, so this guards bodies: a key in a tool result, a token in a sentence.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from pytest_cua.errors import CuaError

_SHAPES = (
    re.compile(r"sk-ant-[A-Za-z0-9_-]{8,}"),
    re.compile(r"gh[pousr]_[A-Za-z0-9]{20,}"),
    re.compile(r"AKIA[0-9A-Z]{16}"),
    re.compile(r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
)
# what services of a test are given in place of a secret; to hide these words everywhere would hide nothing
_WORDS = ("password", "postgres", "changeme", "mysecretpassword", "testpassword", "secretpassword")
_NAMES = re.compile(
    r"(^|_)(API|ACCESS|AUTH|PRIVATE|SECRET)?"
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?)(_|$)",
    re.IGNORECASE,
)
_FOLDERS = ("PWD", "OLDPWD")
REDACTED = re.compile(r"\[redacted (\w+)\]")
_SHORTEST = 8  # characters; shorter values of such variables are words, not secrets


def environment_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of variables whose names say that they are secret, with the names."""
    environ = os.environ if environ is None else environ
    found = {
        value: name
        for name, value in environ.items()
        if _NAMES.search(name) and name not in _FOLDERS and len(value) >= _SHORTEST and not _is_place(value)
    }
    for word in _WORDS:
        found.pop(word, None)
    # the longest first, or one that begins with another would leave its end
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _is_place(value: str) -> bool:
    """Whether it is a path, or an address without a user: where a secret is, not which."""
    if value.startswith("/"):
        return Path("/", *value.split("/")[1:2]).exists()  # a key may begin with a slash too
    return re.match(r"https?://[^@\s]*$", value) is not None


def _forms(value: str) -> Iterator[str]:
    """The value as it is, and as it stands in addresses, forms and JSON."""
    yield value
    for form in (quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1]):
        if form != value:
            yield form


def redact_text(text: str, secrets: Mapping[str, str]) -> str:
    """The text without secrets; each is replaced by a word that says what stood there."""
    for value, name in secrets.items():
        for form in _forms(value):
            if form in text:
                text = text.replace(form, f"[redacted {name}]")
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
        if found := REDACTED.search(value):
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


def hide_secrets(error: CuaError) -> None:
    """Take secrets out of what an error says: a report is read by more people than may know them."""
    secrets = environment_secrets()
    error.message = redact_text(error.message, secrets)
    error.hints = tuple(redact_text(hint, secrets) for hint in error.hints)
