"""What a line of `cassette.jsonl` is.

One JSON object a line, in the order in which things happened:

| type | holds |
|---|---|
| `header` | format version, test, time, versions, model, endpoint, display, environment |
| `params` | request parameters that later turns refer to by `id`: stored once, not once a turn |
| `step` | a sentence, its ordinal and its desktop |
| `turn` | one request (only what is new in it) and its reply |
| `action` | one tool call with its result, frames, pointer, windows |
| `end` | how a step ended |
| `observation` | something the test looked at, kept for `offline` |
| `footer` | totals; a file without it is incomplete and is never replayed |

Each line ends with `sum`: 16 hex digits of the SHA-256 of the previous line's sum and this line without its own.
Pictures are stored once each beside it, `screens/<key>.webp`, under the hash of their pixels; other bytes that are not
short text as `files/<sha256>.bin`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cua.errors import CassetteUnreadable
from pytest_cua.trace import Action

FORMAT = 1
FILE = "cassette.jsonl"
SCREENS = "screens"
FILES = "files"
LINE_TYPES = ("header", "params", "step", "turn", "action", "end", "observation", "footer")
INLINE_TEXT = 4096  # bytes of readable text that stay in the line; more goes to files/

Line = dict[str, Any]


def canonical(value: Any) -> str:
    """The value as JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def seal(line: Mapping[str, Any], previous: str) -> Line:
    """The line with the sum that chains it to the one before."""
    body = {name: value for name, value in line.items() if name != "sum"}
    digest = hashlib.sha256(f"{previous}\n{canonical(body)}".encode()).hexdigest()[:16]
    return {**body, "sum": digest}


def to_text(line: Mapping[str, Any]) -> str:
    """The line as it stands in the file, readable in a diff; lone surrogates are escaped."""
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(line, ensure_ascii=True, separators=(", ", ": "))
    # JSON allows these two raw, but editors and `splitlines` take them for line ends
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@dataclass
class RecordedTurn:
    """One request and its reply, as recorded.

    `new` are the messages that the request added, with pictures named by key; `params` the other fields.
    """

    number: int
    params: Mapping[str, Any]
    new: list[Any]
    status: int
    body: Any
    actions: dict[str, Action] = field(default_factory=dict)
    waited_ms: float = 0.0  # how long the reply took


@dataclass
class RecordedStep:
    """One sentence and its turns, as recorded."""

    number: int
    sentence: str
    desktop: str
    kind: str
    turns: list[RecordedTurn] = field(default_factory=list)
    end: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Cassette:
    """A whole recording in memory. Pictures stay on disk until they are asked for."""

    folder: Path
    header: Mapping[str, Any]
    steps: list[RecordedStep]
    observations: list[Mapping[str, Any]]
    footer: Mapping[str, Any]

    @property
    def file(self) -> Path:
        """The path of `cassette.jsonl`."""
        return self.folder / FILE

    def screen_path(self, key: str) -> Path:
        """Where the picture with this key lies."""
        return self.folder / SCREENS / f"{key}.webp"

    def step(self, number: int) -> RecordedStep | None:
        """The step with this ordinal, None when fewer were recorded."""
        return next((step for step in self.steps if step.number == number), None)

    def referenced(self) -> set[str]:
        """The keys of all pictures and files that the lines refer to."""
        return set(_references([self.header, self.observations, [vars(s) for s in self.steps]]))


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in ("screen", "before", "after", "file") and isinstance(item, str):
                yield item
            else:
                yield from _references(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _references(item)
    elif isinstance(value, (RecordedTurn, Action)):
        yield from _references(vars(value))


def load(folder: Path) -> Cassette:
    """Read and verify a recording.

    Raises:
        CassetteUnreadable: It is incomplete, was edited or cut, or has another format version.
    """
    path = folder / FILE
    lines = _verified(path, path.read_bytes())
    return _assemble(folder, lines)


def _broken(path: Path, what: str, *hints: str) -> CassetteUnreadable:
    restore = (
        f"restore it from version control (git checkout -- {path}) or record the test again with --cua-mode=record"
    )
    return CassetteUnreadable(f"{path} cannot be replayed: {what}.", *(hints or (restore,)))


def _verified(path: Path, raw: bytes) -> list[Line]:
    lines: list[Line] = []
    previous = ""
    for number, text in enumerate(raw.split(b"\n"), start=1):
        if not text.strip():
            continue
        if text.startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
            raise _broken(
                path, f"line {number} is a merge conflict", "take one side whole: git checkout --ours/--theirs"
            )
        try:
            line = json.loads(text)
        except ValueError:
            raise _broken(path, f"line {number} is no whole JSON object; the file was cut or edited") from None
        if not isinstance(line, dict):
            raise _broken(path, f"line {number} is no JSON object")
        if number == 1:
            _check_version(path, line)
        if line.get("type") not in LINE_TYPES:
            raise _broken(path, f"line {number} has the unknown type {line.get('type')!r}")
        if seal(line, previous).get("sum") != line.get("sum"):
            raise _broken(
                path, f"line {number} does not carry the digest of its content; it was edited, or a line before it"
            )
        previous = line["sum"]
        lines.append(line)
    if not lines:
        raise _broken(path, "it is empty")
    if lines[-1]["type"] != "footer":
        raise _broken(path, "it has no footer, so the recording did not come to its end")
    return lines


def _check_version(path: Path, line: Line) -> None:
    if line.get("type") != "header":
        raise _broken(path, "its first line is no header")
    version = line.get("format")
    if version != FORMAT:
        raise _broken(
            path,
            f"it has format {version!r} and this version of pytest-cua reads format {FORMAT}",
            "install the version of pytest-cua that wrote it, or record the test again with --cua-mode=record",
        )


def _assemble(folder: Path, lines: list[Line]) -> Cassette:
    params: dict[str, Any] = {}
    steps: list[RecordedStep] = []
    observations: list[Mapping[str, Any]] = []
    for line in lines:
        match line["type"]:
            case "params":
                params[line["id"]] = line["value"]
            case "step":
                steps.append(RecordedStep(line["step"], line["sentence"], line["desktop"], line["kind"]))
            case "turn":
                request, reply = line["request"], line["reply"]
                fields = dict(params[request["params"]])
                if "thread" in request:
                    fields["thread"] = request["thread"]
                turn = RecordedTurn(line["turn"], fields, request["new"], reply["status"], reply["body"])
                turn.waited_ms = line.get("waited_ms", 0)
                steps[-1].turns.append(turn)
            case "action":
                steps[-1].turns[-1].actions[line["id"]] = Action.from_json(line)
            case "end":
                steps[-1].end = line
            case "observation":
                observations.append(line)
    return Cassette(folder, lines[0], steps, observations, lines[-1])
