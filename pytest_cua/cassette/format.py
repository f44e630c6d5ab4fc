"""What a line of `cassette.jsonl` is.

One JSON object a line, in the order in which things happened:

| type | holds |
|---|---|
| `header` | format version, test, time, versions, model, endpoint, display, environment |
| `params` | request parameters that later turns refer to by `id`: stored once, not once a turn |
| `step` | a sentence, its ordinal, its desktop, and the phase of the test it belongs to |
| `flow` | a flow is used here; its steps lie in a recording of their own |
| `conversation` | a client that the code under test uses itself begins a conversation |
| `turn` | one request (only what is new in it) and its reply, of a step or of a conversation |
| `action` | one tool call with its result, frames, pointer, windows |
| `end` | how a step ended |
| `observation` | something the test looked at, kept for `offline` |
| `footer` | totals, and the digests of the files beside it; a file without it is incomplete and is never replayed |

Each line ends with `sum`: 16 hex digits of the SHA-256 of the previous line's sum and the bytes of this line before its
own. So any changed, missing, added or moved byte is found, and the number of its line is known. Pictures are stored
once each for all cassettes, `screens/<2 digits>/<key>.webp` in the folder of all cassettes, under the hash of their
pixels; other bytes that are not short text lie beside the cassette as `files/<sha256>.bin`.

The schema of each line is published: `docs/reference/cassette.schema.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_cua.cassette.packing import unpacked_action, unpacked_messages, unpacked_reply, unpacked_thread
from pytest_cua.errors import CassetteUnreadable, cua_command, path_quoted
from pytest_cua.trace import Action

FORMAT = 1
FILE = "cassette.jsonl"
SCREENS = "screens"
FILES = "files"
LINE_TYPES = (
    "header",
    "params",
    "step",
    "flow",
    "conversation",
    "turn",
    "action",
    "end",
    "observation",
    "footer",
)
INLINE_TEXT = 4096  # bytes of readable text that stay in the line; more goes to files/

_SCREEN_KEY = re.compile("[0-9a-f]{16}")
_FILE_KEY = re.compile("[0-9a-f]{32}")
_SUM = ', "sum": "'
_TAIL = len(_SUM) + 16 + len('"}')  # characters of a line from its sum on

Line = dict[str, Any]


def canonical(value: Any) -> str:
    """The value as JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def to_text(line: Mapping[str, Any]) -> str:
    """The line as JSON, readable in a diff; lone surrogates are escaped."""
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(line, ensure_ascii=True, separators=(", ", ": "))
    # JSON allows these two raw, but editors and `splitlines` take them for line ends
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def seal(line: Mapping[str, Any], previous: str) -> str:
    """The line as it stands in the file, with the sum that chains it to the one before; without its line end."""
    body = to_text({name: value for name, value in line.items() if name != "sum"})
    return f'{body[:-1]}{_SUM}{_digest(body, previous)}"}}'


def sum_of(sealed: str) -> str:
    """The sum of a sealed line."""
    return sealed[-18:-2]


def _digest(body: str, previous: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()[:16]


@dataclass
class RecordedTurn:
    """One request and its reply, as recorded.

    Attributes:
        number: Its ordinal in its step or conversation, from 1.
        params: The fields of the request's body, except its messages.
        keep: How many messages of the request before it were repeated; `new` are those that follow, with pictures named
            by key.
        new: The messages that the request added.
        status, headers: Of the reply; headers by allow-list.
        body: The reply's JSON or text; None when it was streamed, or is kept as a file.
        file: The key of the reply's bytes when they are neither.
        events: The reply as a stream: `[milliseconds since the request, text of the event]` each.
        cut: Why a stream has no end: "closed" by its reader, or the error that broke it off.
        attempts: What was answered before and asked again.
        waited_ms: How long the reply took, in milliseconds.
    """

    number: int
    params: Mapping[str, Any]
    new: list[Any]
    status: int
    body: Any
    keep: int = 0
    events: list[Any] | None = None
    cut: str | None = None
    file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    attempts: list[Any] = field(default_factory=list)
    method: str = "post"
    path: str = ""
    actions: dict[str, Action] = field(default_factory=dict)
    waited_ms: float = 0.0


@dataclass
class RecordedStep:
    """One sentence and its turns, as recorded."""

    number: int
    sentence: str
    desktop: str
    kind: str
    phase: str = "call"
    turns: list[RecordedTurn] = field(default_factory=list)
    end: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class RecordedConversation:
    """What one client of the code under test asked in one conversation, as recorded."""

    number: int
    client: str
    turns: list[RecordedTurn] = field(default_factory=list)


@dataclass
class Cassette:
    """A whole recording in memory. Pictures stay on disk until they are asked for.

    Attributes:
        flows: The names of the flows that were used, in order.
        copy_of: Of a copy that is read in place of it, the folder of the recording itself.
        broken: Of an incomplete recording: from which line on it cannot be read, and why; None when it is complete.
    """

    folder: Path
    header: Mapping[str, Any]
    steps: list[RecordedStep]
    observations: list[Mapping[str, Any]]
    footer: Mapping[str, Any]
    conversations: list[RecordedConversation] = field(default_factory=list)
    flows: list[Mapping[str, Any]] = field(default_factory=list)
    broken: str | None = None
    lines: list[Line] = field(default_factory=list, repr=False)
    copy_of: Path | None = None

    @property
    def file(self) -> Path:
        """The path of `cassette.jsonl`, as a person finds it."""
        return (self.copy_of or self.folder) / FILE

    @property
    def sum(self) -> str:
        """The digest of the whole: the sum of the last line."""
        return str(self.lines[-1]["sum"])

    @cached_property
    def root(self) -> Path:
        """The folder of all cassettes: the nearest above it that holds pictures, and what git must know of them."""
        for parent in self.folder.absolute().parents:
            if (parent / SCREENS).is_dir() and (parent / ".gitattributes").exists():
                return parent
        return self.folder.parent

    def screen_path(self, key: str) -> Path:
        """Where the picture with this key lies: with all others, or, of a recording kept aside, in its own folder."""
        own = self._own(SCREENS, f"{key}.webp")
        return own if own.exists() else shared_screen(self.root, key)

    def file_path(self, key: str) -> Path:
        """Where the bytes with this key lie."""
        return self._own(FILES, f"{key}.bin")

    def _own(self, kind: str, name: str) -> Path:
        """A file of the recording, as a person finds it; of a copy, what the recording itself has no more."""
        copied, original = (folder / kind / name for folder in (self.folder, self.copy_of or self.folder))
        return copied if copied.exists() and not original.exists() else original

    def step(self, number: int) -> RecordedStep | None:
        """The step with this ordinal, None when fewer were recorded."""
        return next((step for step in self.steps if step.number == number), None)

    def turns(self) -> Iterator[RecordedTurn]:
        """All turns, of steps and of conversations."""
        for step in self.steps:
            yield from step.turns
        for conversation in self.conversations:
            yield from conversation.turns

    def screens(self) -> set[str]:
        """The keys of all pictures that the lines refer to."""
        return set(_named_in(self.lines, ("screen", "before", "after"), _SCREEN_KEY))

    def files(self) -> set[str]:
        """The keys of all stored bytes that the lines refer to."""
        return set(_named_in(self.lines, ("file",), _FILE_KEY))


def shared_screen(root: Path, key: str) -> Path:
    """Where a picture lies that all cassettes of a folder share."""
    return root / SCREENS / key[:2] / f"{key}.webp"


def _named_in(value: Any, names: tuple[str, ...], key: re.Pattern[str]) -> Iterable[str]:
    """The keys under these names; what a tool is given may be called so too, and is none."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in names and isinstance(item, str):
                if key.fullmatch(item):
                    yield item
            else:
                yield from _named_in(item, names, key)
    elif isinstance(value, list):
        for item in value:
            yield from _named_in(item, names, key)


def load(folder: Path, *, partial: bool = False) -> Cassette:
    """Read and verify a recording.

    Args:
        folder: Its folder.
        partial: Whether to give what can be read of an incomplete one, as a run leaves it that was killed.

    Raises:
        CassetteUnreadable: It is incomplete, was edited or cut, or has another format version.
    """
    return load_file(folder / FILE, folder=folder, partial=partial)


def load_file(path: Path, *, folder: Path | None = None, partial: bool = False) -> Cassette:
    """As `load`, of a file wherever it lies."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _broken(path, f"it cannot be read ({error.strerror})") from None
    lines, broken = _verified(path, raw)
    if broken is not None and not (partial and lines):
        raise broken
    cassette = _assemble(folder or path.parent, lines)
    cassette.broken = broken.message if broken else None
    return cassette


def read_lines(path: Path, *, partial: bool = False) -> list[Line]:
    """The lines of a recording of this format or an older one, verified, without their sums.

    Args:
        path: Its file.
        partial: Whether to give what can be read of one that has not come to its end.

    Raises:
        CassetteUnreadable: It is damaged, incomplete or newer.
    """
    lines, broken = _verified(path, path.read_bytes(), oldest=0)
    if broken is not None and not partial:
        raise broken
    return [{name: value for name, value in line.items() if name != "sum"} for line in lines]


def _broken(path: Path, what: str, *hints: str) -> CassetteUnreadable:
    restore = (
        f"restore it from version control (git checkout -- {path_quoted(path)}) "
        "or record the test again with --cua-mode=record"
    )
    return CassetteUnreadable(f"{path} cannot be replayed: {what}.", *(hints or (restore,)))


def _verified(path: Path, raw: bytes, *, oldest: int = FORMAT) -> tuple[list[Line], CassetteUnreadable | None]:
    """The lines that are whole, and what is wrong with the next one."""
    if (damage := damage_by_git(path, raw)) is not None:
        return [], damage
    lines: list[Line] = []
    previous = ""
    try:
        for number, text in enumerate(_lines(path, raw), start=1):
            line = _line(path, number, text, previous, oldest)
            previous = line["sum"]
            lines.append(line)
    except CassetteUnreadable as error:
        return lines, error
    if lines[-1]["type"] != "footer":
        return lines, _broken(
            path, f"it ends after line {len(lines)} without a footer, so the recording did not come to its end"
        )
    return lines, None


def damage_by_git(path: Path, raw: bytes) -> CassetteUnreadable | None:
    """What version control is known to do to a file, in words of its own."""
    if raw.startswith(b"version https://git-lfs"):
        return _broken(
            path, "it is a pointer of Git LFS, not the file itself", "fetch the files: git lfs install && git lfs pull"
        )
    if raw.startswith(b"\xef\xbb\xbf"):
        return _broken(path, "it begins with a byte order mark, which an editor or a conversion has put there")
    for number, text in enumerate(raw.split(b"\n"), start=1):
        if text.startswith((b"<<<<<<< ", b"||||||| ", b">>>>>>> ")) or text.rstrip(b"\r") == b"=======":
            return _broken(
                path,
                f"line {number} is a merge conflict",
                f"take one side whole: git checkout --ours -- {path_quoted(path)}  (or --theirs)",
                "or record the test again with --cua-mode=record",
            )
        if text.endswith(b"\r"):
            return _broken(
                path,
                f"line {number} ends with CR LF: its line ends were converted",
                f"restore it without conversion: rm {path_quoted(path)} && "
                f"git -c core.autocrlf=false checkout -- {path_quoted(path)}",
                "commit the .gitattributes that lies in the folder of all cassettes: it forbids the conversion",
            )
    return None


def _lines(path: Path, raw: bytes) -> Iterator[bytes]:
    if not raw:
        raise _broken(path, "it is empty")
    lines = raw.split(b"\n")
    end = lines.pop()
    yield from lines
    if end:
        yield end  # cut in its middle, or only without its line end; the first is told better by what it holds
        raise _broken(path, f"line {len(lines) + 1} has no line end; the file was cut or edited")


def _line(path: Path, number: int, raw: bytes, previous: str, oldest: int) -> Line:
    try:
        text = raw.decode()
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise _broken(path, f"line {number} is no whole JSON object; the file was cut or edited") from None
    if not isinstance(line, dict):
        raise _broken(path, f"line {number} is no JSON object")
    if number == 1:
        _check_version(path, line, oldest)
    elif line.get("type") == "header":
        raise _broken(path, f"line {number} begins another recording; two files were put together")
    if line.get("type") not in LINE_TYPES and oldest == FORMAT:
        raise _broken(path, f"line {number} has the unknown type {line.get('type')!r}")
    if f'{text[:-_TAIL]}{_SUM}{_digest(text[:-_TAIL] + "}", previous)}"}}' != text:
        raise _broken(
            path, f"line {number} does not carry the digest of its content; it was edited, or a line before it"
        )
    return line


def _check_version(path: Path, line: Line, oldest: int) -> None:
    if line.get("type") != "header":
        raise _broken(path, "line 1 is no header")
    version = line.get("format")
    if isinstance(version, int) and oldest <= version <= FORMAT:
        return
    if isinstance(version, int) and version < FORMAT:
        raise _broken(
            path,
            f"it has format {version} and this version of pytest-cua reads format {FORMAT}",
            f"bring all cassettes up to date: {cua_command('migrate', path.parent)}",
        )
    raise _broken(
        path,
        f"it has format {version!r} and this version of pytest-cua reads format {FORMAT}",
        f"install a newer pytest-cua, as the one that wrote it ({line.get('plugin', 'not known')}), "
        "or record the test again with --cua-mode=record",
    )


def _assemble(folder: Path, lines: list[Line]) -> Cassette:
    params: dict[str, Any] = {}
    replies: dict[Any, Any] = {}  # the last reply of each step and conversation
    action: dict[str, Any] | None = None
    cassette = Cassette(folder, lines[0], [], [], lines[-1] if lines[-1]["type"] == "footer" else {}, lines=lines)
    conversations: dict[int, RecordedConversation] = {}
    for line in lines:
        match line["type"]:
            case "params":
                params[line["id"]] = line["value"]
            case "step":
                action = None
                cassette.steps.append(
                    RecordedStep(
                        line["step"], line["sentence"], line["desktop"], line["kind"], line.get("phase", "call")
                    )
                )
            case "conversation":
                conversations[line["conversation"]] = RecordedConversation(line["conversation"], line["client"])
            case "turn":
                place = line.get("conversation") or f"step {line['step']}"
                turn = _turn(line, params, replies.get(place))
                replies[place] = turn.body
                if "conversation" in line:
                    conversations[line["conversation"]].turns.append(turn)
                else:
                    cassette.steps[-1].turns.append(turn)
            case "action":
                turn = cassette.steps[-1].turns[-1]
                action = unpacked_action(line, turn.body, action)
                turn.actions[line["id"]] = Action.from_json(action)
            case "end":
                cassette.steps[-1].end = line
            case "observation":
                cassette.observations.append(line)
            case "flow":
                cassette.flows.append(line)
    cassette.conversations = list(conversations.values())
    for conversation in cassette.conversations:  # a stream is written when it ends, which may be after a later turn
        conversation.turns.sort(key=lambda turn: turn.number)
    return cassette


def _turn(line: Line, params: Mapping[str, Any], before: Any) -> RecordedTurn:
    request, reply = line["request"], line["reply"]
    body = reply.get("body")
    fields = dict(params[request["params"]])
    if "thread" in request:
        fields["thread"] = unpacked_thread(request["thread"], before)
    return RecordedTurn(
        line["turn"],
        fields,
        unpacked_messages(request["new"], before),
        reply["status"],
        unpacked_reply(body, params[reply["like"]]) if "like" in reply else body,
        keep=request.get("keep", 0),
        events=reply.get("events"),
        cut=reply.get("cut"),
        file=reply.get("file"),
        headers=reply.get("headers", {}),
        attempts=line.get("attempts", []),
        method=request.get("method", "post"),
        path=request.get("path", ""),
        waited_ms=line.get("waited_ms", 0),
    )
