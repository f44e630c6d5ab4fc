"""No secret reaches a file: what is one is replaced before a line is written, and what was written is looked through.

Headers are never written at all, so replacing guards bodies: a key in a tool result, a token in a sentence. It knows a
secret as it is, in addresses, JSON and HTML, in base64 and in hex. `scan_folder` is the second net, for what came into
a file by another way.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_cua.errors import CuaError
from pytest_cua.secrets import WHOLE, KnownSecrets, of_environment

_SHAPE = re.compile(
    r"sk-ant-[A-Za-z0-9_-]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"
)
_SHAPE_NAME = "key"
REDACTED = re.compile(r"\[redacted (\w+)\]")
_ENCODED = ("base64", "hex")
_NUMBERS = (".json", ".jsonl", ".yaml")  # in which a short number is mostly a coordinate or a time


def environment_secrets(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The secrets that are known here, by value, with their names.

    Args:
        environ: Takes those of these variables alone. None gives a live view of this process: its variables, and every
            `Secret` that was made or will be.
    """
    return KnownSecrets() if environ is None else of_environment(environ)


# -- forms -------------------------------------------------------------------------------------------------------------


def _forms(value: str) -> Iterator[tuple[str, str]]:
    """What a secret looks like in a text: the kind of each form, and the form."""
    yield "as is", value
    for url in (quote(value, "", errors="surrogateescape"), quote(value, errors="surrogateescape")):
        for form in (url, url.replace("%20", "+")):
            yield "URL", form
            yield "URL", re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), form)
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield "JSON", once
        yield "JSON", json.dumps(once, ensure_ascii=ascii_only)[1:-1]  # JSON in a string of JSON
    yield "HTML", html.escape(value)
    yield "HTML", html.escape(value, quote=False)
    raw = _bytes(value)
    if len(raw) >= WHOLE:  # fewer would be found by chance
        for form in _base64_forms(raw):
            yield "base64", form
        yield "hex", raw.hex()
        yield "hex", raw.hex().upper()


def _base64_forms(raw: bytes) -> Iterator[str]:
    """The bytes in base64, wherever they begin in what was encoded, without characters that hold bits of others."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode()
        whole = text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield whole
        yield whole.translate(str.maketrans("+/", "-_"))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")  # a variable may hold any bytes


@dataclass(frozen=True)
class _Finder:
    """Looks for a set of secrets; made once for each set."""

    pairs: tuple[tuple[str, str], ...]

    @cached_property
    def forms(self) -> dict[str, tuple[str, str]]:
        """Each form of each secret, with the kind of form and the secret's name; the longest first."""
        found: dict[str, tuple[str, str]] = {}
        for value, name in self.pairs:
            for kind, form in _forms(value):
                found.setdefault(form, (kind, name))
        return dict(sorted(found.items(), key=lambda item: -len(item[0])))

    @cached_property
    def in_text(self) -> re.Pattern[str] | None:
        """Finds any form in a text."""
        return re.compile("|".join(map(_pattern, self.forms))) if self.forms else None

    @cached_property
    def in_bytes(self) -> dict[bytes, tuple[str, str]]:
        """Each form as it stands in a file that is no text; short ones would be found by chance."""
        found = {form.encode("utf-8", "surrogateescape"): about for form, about in self._long_forms()}
        for value, name in self.pairs:
            if len(value) >= WHOLE:
                found[_bytes(value)] = ("as is", name)
                found[value.encode("utf-16-le", "surrogatepass")] = ("UTF-16", name)
        return found

    def _long_forms(self) -> Iterator[tuple[str, tuple[str, str]]]:
        for form, about in self.forms.items():
            if len(form) >= WHOLE and not any("\ud800" <= char <= "\udfff" for char in form):
                yield form, about

    def without(self, text: str) -> str:
        """The text, each secret replaced by a word that says what stood there."""
        if self.in_text is not None:
            text = self.in_text.sub(lambda found: f"[redacted {self.forms[found[0]][1]}]", text)
        return _SHAPE.sub(f"[redacted {_SHAPE_NAME}]", text)


def _pattern(form: str) -> str:
    """What finds a form; a short one only as a whole word, or digests and numbers would be full of it."""
    if len(form) >= WHOLE:
        return re.escape(form)
    start = r"(?<![A-Za-z0-9])" if form[0].isalnum() else ""
    end = r"(?![A-Za-z0-9])" if form[-1].isalnum() else ""
    return start + re.escape(form) + end


@lru_cache(maxsize=32)
def _finder_of(pairs: tuple[tuple[str, str], ...]) -> _Finder:
    return _Finder(pairs)


def _finder(secrets: Mapping[str, str]) -> _Finder:
    return _finder_of(secrets.pairs() if isinstance(secrets, KnownSecrets) else tuple(secrets.items()))


# -- replacing ---------------------------------------------------------------------------------------------------------


def redact_text(text: str, secrets: Mapping[str, str]) -> str:
    """The text without secrets; each is replaced by a word that says what stood there."""
    return _finder(secrets).without(text)


def redact_bytes(data: bytes, secrets: Mapping[str, str]) -> bytes:
    """The content of a file without secrets; in one that is no text they are overwritten, so that nothing moves."""
    finder = _finder(secrets)
    try:
        return finder.without(data.decode()).encode()
    except UnicodeError:
        for form in sorted(finder.in_bytes, key=len, reverse=True):
            data = data.replace(form, b"*" * len(form))
    text = _SHAPE.sub(lambda found: "*" * len(found[0]), data.decode("latin-1"))  # each byte a character
    return text.encode("latin-1")


def redact(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every text in it redacted."""
    return _redacted(value, _finder(secrets))


def _redacted(value: Any, finder: _Finder) -> Any:
    if isinstance(value, str):
        return finder.without(value)
    if isinstance(value, Mapping):
        return {
            finder.without(name) if isinstance(name, str) else name: _redacted(item, finder)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_redacted(item, finder) for item in value]
    return value


def restore(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with the secrets that are known here put back.

    Raises:
        LookupError: One is not known here.
    """
    if isinstance(secrets, KnownSecrets):
        return _restored(value, secrets.values_by_name())
    return _restored(value, {name: known for known, name in reversed(list(secrets.items()))})


def restore_known(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with those secrets put back that are known here; the marker of another stays."""
    if isinstance(value, str):
        try:
            return restore(value, secrets) if "[redacted " in value else value
        except LookupError:
            return value
    if isinstance(value, Mapping):
        return {name: restore_known(item, secrets) for name, item in value.items()}
    return [restore_known(item, secrets) for item in value] if isinstance(value, list) else value


def restored_events(events: list[Any], secrets: Mapping[str, str]) -> list[Any]:
    """The events of a stream with those secrets put back that are known here."""

    def put_back(text: str) -> str:
        if "[redacted " not in text:
            return text
        times = 2 if '"partial_json"' in text else 1  # JSON in a string of JSON
        return REDACTED.sub(lambda found: _in_json(restore_known(found[0], secrets), times), text)

    return [[waited, put_back(text)] for waited, text in events]


def _in_json(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps(text)[1:-1]
    return text


def _restored(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return REDACTED.sub(lambda found: _known(found[1], known), value)
    if isinstance(value, Mapping):
        return {name: _restored(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, known) for item in value]
    return value


def _known(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise LookupError(name)
    return known[name]


def hide_secrets(error: CuaError) -> None:
    """Take secrets out of what an error says: a report is read by more people than may know them."""
    secrets = environment_secrets()
    error.message = redact_text(error.message, secrets)
    error.hints = tuple(redact_text(hint, secrets) for hint in error.hints)


# -- looking through what was written ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hit:
    """A secret that stands in a file. It never tells the value.

    Args:
        file: The file; None for bytes that came from none.
        name: The secret's name, "key" for what only has the shape of a key.
        form: How it stands there: "as is", "URL", "JSON", "HTML", "base64", "hex", "UTF-16" or "shape".
        line: Of a text, from 1; None in a file that is no text.
        offset: Of a file that is no text, in bytes; None in a text.
    """

    file: Path | None
    name: str
    form: str
    line: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line is not None else f"byte {self.offset}"
        what = "something of the shape of a key" if self.form == "shape" else f"the secret {self.name} ({self.form})"
        return f"{self.file or 'the bytes'}, {where}: {what}"


def scan(source: Path | bytes, secrets: Mapping[str, str] | None = None, *, allowed: Iterable[str] = ()) -> list[Hit]:
    """Look through a file, or bytes, for secrets in every form, and for what has the shape of a key.

    Args:
        source: A path, or the bytes themselves.
        secrets: Values and names; None takes all that are known.
        allowed: Texts that may stand there although they hold a secret, such as a test's id.

    Returns:
        Where they stand; empty when there is none.
    """
    finder = _finder(environment_secrets() if secrets is None else secrets)
    path = None if isinstance(source, bytes) else source
    data = source if isinstance(source, bytes) else source.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return list(_hits_in_bytes(path, data, finder))
    return list(_hits_in_text(path, _without(text, allowed), finder))


def scan_folder(folder: Path, secrets: Mapping[str, str] | None = None, *, allowed: Iterable[str] = ()) -> list[Hit]:
    """`scan` for every file in a folder and the folders in it, hidden ones too, in the order of their names."""
    secrets = environment_secrets() if secrets is None else secrets
    allowed = tuple(allowed)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [hit for path in paths for hit in scan(path, secrets, allowed=allowed)]


def _without(text: str, allowed: Iterable[str]) -> str:
    """The text with what may stand there blanked out, line for line: markers, and what the caller allows."""
    text = REDACTED.sub(_blank, text)
    for part in filter(None, allowed):
        for form in (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]):
            text = text.replace(form, " " * len(form))
    return text


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _hits_in_text(path: Path | None, text: str, finder: _Finder) -> Iterator[Hit]:
    lines = text.split("\n")
    plain, joined = _Lines([f"{line}\n" for line in lines]), _Lines([line.strip() for line in lines])
    found = set()
    for form, (kind, name) in finder.forms.items():
        # what is encoded is wrapped in mails and in YAML, so it is looked for across lines
        where = joined if kind in _ENCODED else plain
        if form in where.text:
            found |= {(where.line(at), name, kind) for at in _places(where.text, form, path)}
    found |= {(plain.line(match.start()), _SHAPE_NAME, "shape") for match in _SHAPE.finditer(plain.text)}
    for line, name, kind in sorted(found):
        yield Hit(path, name, kind, line=line)


class _Lines:
    """Lines put together, which still know their numbers."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.text = "".join(lines)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def line(self, at: int) -> int:
        """The number, from 1, of the line in which the character `at` stands."""
        return bisect_right(self._starts, at)


def _places(text: str, form: str, path: Path | None) -> Iterator[int]:
    may_be_number = len(form) < WHOLE and form.isdigit() and path is not None and path.suffix in _NUMBERS
    for found in re.finditer(_pattern(form), text):
        if not (may_be_number and _is_number(text, found.start(), found.end())):
            yield found.start()


def _is_number(text: str, start: int, end: int) -> bool:
    """Whether digits stand there as a number of JSON or YAML, not in a string: a coordinate, a time, a size."""
    before, after = text[max(0, start - 40) : start].rstrip(" "), text[end : end + 1]
    return before[-1:] in (":", "[", ",", "-", "\n") and after in (",", "]", "}", "\n", "")


def _hits_in_bytes(path: Path | None, data: bytes, finder: _Finder) -> Iterator[Hit]:
    found = set()
    for form, (kind, name) in finder.in_bytes.items():
        at = data.find(form)
        if at >= 0:
            found.add((at, name, kind))
    found |= {(match.start(), _SHAPE_NAME, "shape") for match in _SHAPE.finditer(data.decode("latin-1"))}
    for offset, name, kind in sorted(found):
        yield Hit(path, name, kind, offset=offset)
