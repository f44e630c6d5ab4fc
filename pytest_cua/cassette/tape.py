"""One recording that is being written: its lines, its pictures, its end. Whoever records writes through this."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anthropic
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import FILE, FORMAT, INLINE_TEXT, canonical, load, read_lines
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.packing import (
    event_data,
    packed_action,
    packed_messages,
    packed_reply,
    packed_thread,
    shared_fields,
)
from pytest_cua.cassette.redact import redact, redact_bytes, redact_text, scan_folder
from pytest_cua.cassette.review import steps_markdown
from pytest_cua.cassette.store import HTTP, PAGE, CassetteWriter, digest_of
from pytest_cua.cassette.wire import History, Reply, Request, decoded_bytes, decoded_picture
from pytest_cua.desktop.masks import masks_of
from pytest_cua.errors import CuaError, SecretLeaked
from pytest_cua.secrets import KnownSecrets, made_in
from pytest_cua.trace import Run

_DELTAS = ("text", "thinking", "partial_json")


class Tape:
    """Writes the lines of one recording.

    Args:
        writer: Where the lines go.
        header: The facts of this recording that are known from the start; `model_endpoint` is added by the first reply.
        run: The trace, for the totals.
        latch: Keeps what goes wrong with the writing, which the code under test may swallow.

    Attributes:
        endpoint: "scripted", "anthropic" or "other: host", once a reply came; "none" before.
        step: The ordinal of the step at hand, or of the last one.
        size: How many bytes the new pictures take, once it is committed.
    """

    def __init__(
        self, writer: CassetteWriter, *, header: Mapping[str, Any], run: Run, latch: Latch | None = None
    ) -> None:
        self.writer = writer
        self.run = run
        self.latch = latch or Latch()
        self.endpoint = "none"
        self.step = 0
        self.size = 0
        self.unanswered: dict[str, Any] = {}  # by call, the exchanges that have no reply yet, or not all of it
        self._header: dict[str, Any] | None = dict(header)
        self._waiting: list[dict[str, Any]] = []
        self._params: dict[str, str] = {}
        self._shared: dict[tuple[str, ...], tuple[str, dict[str, Any]]] = {}
        self._last_action: tuple[int, Mapping[str, Any]] = (0, {})
        self._observations = 0
        self._secrets = KnownSecrets()  # the variables of now, and every Secret, also of later
        self._known = self._secrets.pairs()
        self._lock = threading.RLock()  # a thread of the test may look at the desktop while a step goes on
        self._keys: dict[int, str | None] = {}
        self._last_pixels: tuple[tuple[int, int], bytes] = ((0, 0), b"")
        self._last_key = ""
        self._counts = dict.fromkeys(("steps", "turns", "actions"), 0)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One thread at a time, in the process that began; what goes wrong cannot be swallowed.

        Raises:
            BadArgument: This is another process, which the test has forked.
            CassetteUnwritable: The disk is full, or the folder is gone.
        """
        self.latch.check_process("records")
        with self._lock:
            try:
                yield
            except CuaError as error:
                raise self.latch.set(error) from None

    def answered(self, call: str, exchange: Any) -> bool:
        """An exchange has its reply; whether it still counts, which it does not once the test has ended."""
        with self._lock:
            if self.unanswered.get(call) is not exchange:
                return False
            del self.unanswered[call]
            return True

    # ------------------------------------------------------------------ lines

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one line, secrets taken out."""
        with self._writing():
            count = f"{line['type']}s"
            if count in self._counts:
                self._counts[count] += 1
            line = redact(line, self._secrets)
            if self._header is not None:
                self._waiting.append(dict(line))
            else:
                self.writer.write(line)

    def replied(self, endpoint: str) -> None:
        """Write what waited for the first reply, which shows whom the model was asked of."""
        with self._writing():
            if self._header is None:
                return
            header, self._header = self._header, None
            self.endpoint = endpoint
            redacted = redact({**header, "model_endpoint": endpoint}, self._secrets)
            # the test's id is looked for as it is; a name of a test is no secret
            self.writer.write({**redacted, "test": header["test"]})
            waiting, self._waiting = self._waiting, []
            for line in waiting:
                self.writer.write(line)

    @property
    def has_replies(self) -> bool:
        """Whether anything was answered yet."""
        return self._counts["turns"] > 0

    def turn(
        self,
        where: Mapping[str, Any],
        history: History,
        request: Request,
        reply: Reply,
        *,
        waited_ms: float,
        attempts: list[Any],
        new: tuple[int, list[Any]] | None = None,
    ) -> None:
        """Write one request and its reply.

        Args:
            where: `step` or `conversation`, and `turn`.
            history: The conversation so far.
            request, reply: What was asked and answered.
            waited_ms: How long the reply took, in milliseconds.
            attempts: What was answered before and asked again.
            new: What `history` said of the request's messages, when it was asked before.
        """
        with self._writing():
            keep, messages = new if new is not None else history.new_messages(request.messages)
            params = dict(request.params)
            thread = params.pop("thread", None)  # differs with each turn, so it stays with the turn
            line: dict[str, Any] = {"params": self._params_id(params)}
            if "conversation" in where:
                line = {"method": request.method, "path": request.path, **line}
            if thread is not None:
                line["thread"] = packed_thread(thread, history.body)
            if keep:
                line["keep"] = keep
            line["new"] = packed_messages(messages, history.body)
            whole = {
                "type": "turn",
                **where,
                "request": line,
                "reply": self._reply(reply, where),
                "waited_ms": round(waited_ms),
            }
            if attempts:
                whole["attempts"] = attempts
            history.replied(reply.body)
            self.write(whole)

    def _reply(self, reply: Reply, where: Mapping[str, Any]) -> dict[str, Any]:
        line: dict[str, Any] = {"status": reply.status}
        if reply.headers and "conversation" in where:  # the loop's own code looks at none of them
            line["headers"] = reply.headers
        if reply.events is not None:
            line["events"] = redact_events(reply.events, self._secrets)
            if reply.cut:
                line["cut"] = reply.cut
        elif reply.file is not None:
            line["file"] = self.file(reply.file)
        else:
            line |= self._packed(reply.body)
        return line

    def _packed(self, body: Any) -> dict[str, Any]:
        """A reply's body, what it shares with others stored once."""
        shared = shared_fields(body)
        if shared is None:
            return {"body": body}
        kind = (str(shared.get("model")), *sorted(shared), *sorted(shared["usage"]))
        if kind not in self._shared:
            self._shared[kind] = (f"r{len(self._shared) + 1}", shared)
            self.write({"type": "params", "id": self._shared[kind][0], "value": shared})
        name, shared = self._shared[kind]
        packed = packed_reply(body, shared)
        return {"body": body} if packed is None else {"like": name, "body": packed}

    def action(self, step: int, turn: int, action: Mapping[str, Any], reply: Any) -> None:
        """Write one action of a step; `reply` is the body that holds its call."""
        with self._writing():
            before = self._last_action[1] if self._last_action[0] == step else None
            self._last_action = (step, action)
            packed = packed_action(action, reply, before)
            self.write({"type": "action", "step": step, "turn": turn, **packed})

    def _params_id(self, params: dict[str, Any]) -> str:
        text = canonical(params)
        if text not in self._params:
            self._params[text] = f"p{len(self._params) + 1}"
            self.write({"type": "params", "id": self._params[text], "value": params})
        return self._params[text]

    # ------------------------------------------------------------------ pictures and files

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """Store a picture and return its key."""
        with self._writing():
            if key is None:
                rgb = screens.load(image)
                key = self._key_of(rgb.size, screens.rgb_bytes(rgb))
            if not self.writer.has_screen(key):
                self.writer.add_screen(key, screens.to_webp(image))
        return key

    def _key_of(self, size: tuple[int, int], pixels: bytes) -> str:
        """The key of a picture; most are the one before once more, which costs less to see than to hash."""
        if (size, pixels) != self._last_pixels:
            self._last_pixels, self._last_key = (size, pixels), screens.key_of_pixels(size, pixels)
        return self._last_key

    def file(self, data: bytes) -> str:
        """Store bytes, secrets taken out, and return their key."""
        with self._writing():
            return self.writer.add_file(redact_bytes(data, self._secrets))

    def request_picture(self, data: str, media_type: str) -> str | None:
        """The key of a base64 picture in a request; None leaves what is no picture as it is."""
        fingerprint = hash(data)
        if fingerprint not in self._keys:
            self._keys[fingerprint] = self._request_key(data)
        return self._keys[fingerprint]

    def sent(self, data: str, key: str) -> None:
        """The base64 data of a picture that was kept already, so that it need not be decoded to be known."""
        self._keys[hash(data)] = key

    def _request_key(self, data: str) -> str | None:
        content = decoded_bytes(data)
        image = decoded_picture(content) if content is not None else None
        return self.picture(image) if image is not None else None

    def request_file(self, data: str) -> str | None:
        """The key of a base64 document in a request."""
        content = decoded_bytes(data)
        return self.file(content) if content is not None else None

    def observation(self, kind: str, subject: str, desktop: str, value: Any) -> None:
        """Keep what the test looked at."""
        with self._writing():
            self._observations += 1
            self.write(
                {
                    "type": "observation",
                    "number": self._observations,
                    "after_step": self.step,
                    "desktop": desktop,
                    "kind": kind,
                    "subject": subject,
                    "value": self._kept(value),
                }
            )

    def _kept(self, value: Any) -> dict[str, Any]:
        if value is None:
            return {"missing": True}
        if isinstance(value, Image.Image):
            masks = [list(box) for box in masks_of(value)]
            return {"screen": self.picture(value), **({"masked": masks} if masks else {})}
        if isinstance(value, bytes):
            value = redact_bytes(value, self._secrets)
            text = _readable(value)
            return {"text": text} if text is not None else {"file": self.writer.add_file(value), "bytes": len(value)}
        return {"json": value}

    # ------------------------------------------------------------------ the end

    def close(self, *, passed: bool) -> Path | None:
        """End the recording: swap it in when the test passed, else keep it aside and return where.

        Raises:
            SecretLeaked: Something in it is a secret although each line was looked through; nothing of it is kept.
            CassetteUnwritable: It cannot take its place.
        """
        for exchange in [*self.unanswered.values()]:
            exchange.finish()
        if self._header is not None and not self._waiting:
            self.writer.keep_aside()
            return None
        self.replied("none")
        self._take_out_late_secrets()
        so_far = load(self.writer.aside, partial=True)
        so_far.root, so_far.broken = self.writer.root, None
        self.writer.write_page(steps_markdown(so_far, usage=self.run.usage))
        self.writer.write(self._footer(passed))
        self._check_for_secrets()
        if not passed:
            return self.writer.keep_aside()
        self.size = self.writer.commit()
        return None

    def _footer(self, passed: bool) -> dict[str, Any]:
        beside = {name: digest_of(self.writer.aside / name) for name in (HTTP, PAGE)}
        return {
            "type": "footer",
            "outcome": "passed" if passed else "failed",
            **self._counts,
            "observations": self._observations,
            "usage": self.run.usage.to_json(),
            "files": {name: digest for name, digest in beside.items() if digest is not None},
        }

    def _take_out_late_secrets(self) -> None:
        """What became a secret after lines were written, as a `Secret` that the test makes late: out of those too."""
        if self._known == self._secrets.pairs():
            return
        header, *lines = read_lines(self.writer.aside / FILE, partial=True)
        self.writer.rewrite([{**self._redacted(header), "test": header["test"]}, *map(self._redacted, lines)])

    def _redacted(self, line: Mapping[str, Any]) -> dict[str, Any]:
        line = redact(line, self._secrets)
        reply = line.get("reply", {})
        if "events" in reply:
            return {**line, "reply": {**reply, "events": redact_events(reply["events"], self._secrets)}}
        return dict(line)

    def _check_for_secrets(self) -> None:
        """Look through everything that was written.

        Raises:
            SecretLeaked: There is a secret in it, or in the name of the test; the recording is removed.
        """
        row = str(self.run.test).partition("[")[2]
        if (name := made_in(row)) is not None:
            self.writer.destroy()
            raise SecretLeaked(
                f"The secret {name} stands in the name of the test, which names the folder of its recording.",
                'give the row of parametrize a name of its own: pytest.param(..., id="a customer")',
            )
        hits = scan_folder(self.writer.aside, self._secrets, allowed=(str(self.run.test),))
        if not hits:
            return
        self.writer.destroy()
        places = "; ".join(dict.fromkeys(str(hit) for hit in hits))
        raise SecretLeaked(
            f"The recording held a secret and was removed: {places}.",
            "give the value as a Secret in params=, so that Claude never sees it; or keep it off what the test shows",
        )


def redact_events(events: list[Any], secrets: Mapping[str, str]) -> list[Any]:
    """The events of a stream without secrets, also one that comes in pieces."""
    parsed = [event_data(text) for _, text in events]
    pieces: dict[tuple[Any, str], list[int]] = {}
    for number, data in enumerate(parsed):
        delta = data.get("delta") if data else None
        for name in _DELTAS:
            if isinstance(delta, dict) and isinstance(delta.get(name), str):
                pieces.setdefault((data.get("index"), name), []).append(number)
    changed = set()
    for (_, name), numbers in pieces.items():
        whole = "".join(parsed[number]["delta"][name] for number in numbers)
        if (redacted := redact_text(whole, secrets)) != whole:
            for number in numbers:  # the first says it all
                parsed[number]["delta"][name] = redacted if number == numbers[0] else ""
                changed.add(number)
    return [
        [waited, f"event: {parsed[number]['type']}\ndata: {json.dumps(parsed[number])}\n\n"]
        if number in changed
        else [waited, text]
        for number, (waited, text) in enumerate(events)
    ]


def _readable(value: bytes) -> str | None:
    if len(value) > INLINE_TEXT:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def header_line(
    *,
    test: str,
    model: str,
    tools: list[str],
    prompt_digest: str,
    display: Mapping[str, Any],
    environment: Mapping[str, Any],
) -> dict[str, Any]:
    """The first line of a recording, except the endpoint, which the first reply shows."""
    return {
        "type": "header",
        "format": FORMAT,
        "test": test,
        "recorded_at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        "plugin": version("pytest-cua"),
        "sdk": f"anthropic {anthropic.__version__}",
        "model": model,
        "tools": tools,
        "prompt_digest": prompt_digest,
        "display": dict(display),
        "environment": dict(environment),
    }
