"""Claude's turns, recorded and answered again, as middleware of the SDK's client.

The SDK calls middleware once per HTTP attempt with the request as a dict, before it is serialised: a recording costs a
line a turn, a replay costs no HTTP at all, and an `AssertionError` from here reaches the test as it is (it is neither
wrapped as "Connection error." nor retried; `_middleware.py` and `_base_client.py` of SDK 2.14).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import io
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anthropic
import httpx2
from anthropic import APIRequest, APIResponse
from anthropic._middleware import CallNext, Middleware  # the package exports these names nowhere else
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import FORMAT, INLINE_TEXT, Cassette, RecordedStep, canonical
from pytest_cua.cassette.match import first_difference, fits, harness_view
from pytest_cua.cassette.redact import environment_secrets, redact, redact_bytes, redact_text, restore
from pytest_cua.cassette.review import steps_markdown
from pytest_cua.cassette.store import CassetteWriter, file_key
from pytest_cua.errors import (
    BadArgument,
    CassetteMismatch,
    CassetteUnreadable,
    CuaFailure,
    NeedsApplication,
    shell_quoted,
)
from pytest_cua.model import replay_client
from pytest_cua.trace import Action, Run, Step

_RETRYABLE = (408, 409, 429)  # and everything from 500: what the SDK asks again (`_should_retry`)
SCRIPTED_HEADER = "x-pytest-cua-scripted"


def plain(value: Any, image: Callable[[str, str], str | None]) -> Any:
    """A request body as plain JSON, each base64 picture replaced by its key.

    Args:
        value: The body, or a part of it; the SDK's objects in it are dumped with the fields that were set.
        image: Takes the base64 data and the media type, gives the key, or None to leave the picture as it is.
    """
    if hasattr(value, "to_dict"):
        value = value.to_dict(mode="json")
    if isinstance(value, Mapping):
        if value.get("type") == "image" and isinstance(source := value.get("source"), Mapping):
            key = image(source["data"], source["media_type"]) if source.get("type") == "base64" else None
            if key is not None:
                rest = {name: item for name, item in value.items() if name != "source"}
                return {**rest, "media_type": source["media_type"], "screen": key}
        return {name: plain(item, image) for name, item in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return [plain(item, image) for item in value]
    return value


class Conversation:
    """Tells, request by request, which messages of a conversation are new."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._reply: str | None = None

    def new_messages(self, messages: list[Any]) -> list[Any]:
        """The messages that were not sent before; Claude's own last reply among them is named, not repeated."""
        texts = [canonical(message) for message in messages]
        keep = 0
        while keep < min(len(texts), len(self._sent)) and texts[keep] == self._sent[keep]:
            keep += 1
        if keep < len(self._sent):
            keep = 0  # another history: a thread's delta, or a new start
        self._sent = texts
        return [self._named(message, text) for message, text in zip(messages[keep:], texts[keep:], strict=True)]

    def _named(self, message: Any, text: str) -> Any:
        is_last_reply = message.get("role") == "assistant" and canonical(message.get("content")) == self._reply
        return {"role": "assistant", "content": "=reply"} if is_last_reply else message

    def replied(self, body: Any) -> None:
        """Remember the reply as the next request will repeat it."""
        self._reply = canonical(body.get("content")) if isinstance(body, Mapping) else None


def _split(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    return {name: value for name, value in body.items() if name != "messages"}, list(body.get("messages", ()))


class Latch:
    """Remembers the first failure, so that no `except` between here and the test can hide it."""

    def __init__(self) -> None:
        self.error: CuaFailure | None = None

    def set(self, error: CuaFailure) -> CuaFailure:
        """Keep the error, unless one was kept before, and give back the one that is kept."""
        self.error = self.error or error
        return self.error


class Recorder(Middleware):
    """Writes a cassette while Claude answers.

    Args:
        writer: Where the lines go.
        header: The facts of this recording that are known from the start.
        run: The trace, for the review page and the totals.
    """

    def __init__(self, writer: CassetteWriter, *, header: Mapping[str, Any], run: Run) -> None:
        self.writer = writer
        self.run = run
        self.failed_attempts: list[dict[str, Any]] = []
        self.endpoint = "none"  # "scripted", "anthropic" or another host, once a reply came
        self._header: dict[str, Any] | None = dict(header)
        self._waiting: list[dict[str, Any]] = []
        self._params: dict[str, str] = {}
        self._secrets = environment_secrets()
        self._conversation = Conversation()
        self._step = 0
        self._turn = 0
        self._in_step = False
        self._observation = 0
        self._waited_ms = 0
        self._lock = threading.RLock()  # a thread of the test may look at the desktop while a step goes on
        self._keys: dict[int, str] = {}

    # ------------------------------------------------------------------ lines

    def _write(self, line: Mapping[str, Any]) -> None:
        line = redact(line, self._secrets)
        with self._lock:
            if self._header is not None:
                self._waiting.append(dict(line))
            else:
                self.writer.write(line)

    def _write_header(self, endpoint: str) -> None:
        if self._header is None:
            return
        with self._lock:
            header, self._header = self._header, None
            self.endpoint = endpoint
            # the test's id is looked for as it is; a name of a test is no secret
            self.writer.write({**redact({**header, "model_endpoint": endpoint}, self._secrets), "test": header["test"]})
            waiting, self._waiting = self._waiting, []
            for line in waiting:
                self.writer.write(line)

    # ------------------------------------------------------------------ what the loop tells

    def begin_step(self, step: Step) -> None:
        """A step begins: its requests are one conversation."""
        self._step, self._turn, self._in_step = step.number, 0, True
        self._conversation = Conversation()
        self._write(
            {
                "type": "step",
                "step": step.number,
                "kind": step.kind,
                "desktop": step.desktop,
                "sentence": step.sentence,
            }
        )

    def action(self, action: Action) -> None:
        """An action is done; its pictures were given to `picture` before."""
        self._write({"type": "action", "step": self._step, "turn": self._turn, **action.to_json()})

    def end_step(self, step: Step) -> None:
        """A step ended as it should."""
        self._in_step = False
        self._write(
            {
                "type": "end",
                "step": step.number,
                "outcome": step.outcome,
                "summary": step.summary,
                "observations": step.observations,
                "usage": step.usage.to_json(),
            }
        )

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """Store a picture and return its key."""
        key = key or screens.content_key(image)
        if not self.writer.has_screen(key):
            self.writer.add_screen(key, screens.to_webp(image))
        return key

    def observation(self, kind: str, subject: str, desktop: str, value: Any) -> None:
        """Keep what the test looked at."""
        with self._lock:
            self._observation += 1
            self._write(
                {
                    "type": "observation",
                    "number": self._observation,
                    "after_step": self._step,
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
            return {"screen": self.picture(value)}
        if isinstance(value, bytes):
            value = redact_bytes(value, self._secrets)
            text = _readable(value)
            return {"text": text} if text is not None else {"file": self.writer.add_file(value), "bytes": len(value)}
        return {"json": value}

    # ------------------------------------------------------------------ middleware

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Let the request through and keep it with its reply."""
        if not self._in_step:
            raise BadArgument(
                "A request was made with cua.client outside of any step, where nothing can replay it.",
                "use cua.do() or cua.judge(), or ask with another client",
            )
        if request.stream:
            raise BadArgument("A streamed request inside a step cannot be recorded.", "send it without stream=True")
        asked = time.monotonic()
        response = call_next(request)
        http = response.http_response
        http.read()
        self._waited_ms = round((time.monotonic() - asked) * 1000)
        self._write_header(_endpoint(http))
        reply = _reply_body(http)
        if _will_be_retried(http):
            self.failed_attempts.append({"status": http.status_code, "error": reply})
            return response
        self._keep_turn(request, http.status_code, reply)
        return response

    def _keep_turn(self, request: APIRequest, status: int, reply: Any) -> None:
        self._turn += 1
        params, messages = _split(plain(request.json, self._request_image))
        attempts, self.failed_attempts = self.failed_attempts, []
        thread = params.pop("thread", None)  # differs with each turn, so it stays with the turn
        request_line: dict[str, Any] = {"params": self._params_id(params)}
        if thread is not None:
            request_line["thread"] = thread
        request_line["new"] = self._conversation.new_messages(messages)
        line: dict[str, Any] = {
            "type": "turn",
            "step": self._step,
            "turn": self._turn,
            "request": request_line,
            "reply": {"status": status, "body": reply},
            "waited_ms": self._waited_ms,
        }
        if attempts:
            line["attempts"] = attempts
        self._conversation.replied(reply)
        self._write(line)

    def _params_id(self, params: dict[str, Any]) -> str:
        text = canonical(params)
        if text not in self._params:
            self._params[text] = f"p{len(self._params) + 1}"
            self._write({"type": "params", "id": self._params[text], "value": params})
        return self._params[text]

    def _request_image(self, data: str, media_type: str) -> str | None:
        fingerprint = hash(data)
        if fingerprint not in self._keys:
            try:
                image = screens.load(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))
            except (binascii.Error, OSError, BadArgument):
                return None
            self._keys[fingerprint] = self.picture(image)
        return self._keys[fingerprint]

    # ------------------------------------------------------------------ the end

    def close(self, *, passed: bool) -> Path | None:
        """End the recording: swap it in when the test passed, else keep it aside and return where."""
        if self._header is not None and not self._waiting:
            self.writer.keep_aside()
            return None
        self._write_header("none")
        usage = self.run.usage
        self.writer.write(
            {
                "type": "footer",
                "outcome": "passed" if passed else "failed",
                "steps": len(self.run.steps),
                "turns": sum(len(step.turns) for step in self.run.steps),
                "actions": sum(1 for _ in self.run.actions()),
                "observations": self._observation,
                "usage": usage.to_json(),
            }
        )
        if not passed:
            return self.writer.keep_aside()
        self.writer.commit()
        self.writer.write_page(steps_markdown(self.writer.folder))
        return None


def _readable(value: bytes) -> str | None:
    if len(value) > INLINE_TEXT:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _endpoint(http: httpx2.Response) -> str:
    if SCRIPTED_HEADER in http.headers:
        return "scripted"
    host = http.request.url.host
    return "anthropic" if host == "api.anthropic.com" else f"other: {host}"


def _reply_body(http: httpx2.Response) -> Any:
    try:
        return http.json()
    except ValueError:
        return http.text


def _will_be_retried(http: httpx2.Response) -> bool:
    should = http.headers.get("x-should-retry")
    if should in ("true", "false"):
        return should == "true"
    return http.status_code in _RETRYABLE or http.status_code >= 500


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
        "recorded_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "plugin": version("pytest-cua"),
        "sdk": f"anthropic {anthropic.__version__}",
        "model": model,
        "tools": tools,
        "prompt_digest": prompt_digest,
        "display": dict(display),
        "environment": dict(environment),
    }


class Player(Middleware):
    """Answers as Claude did, as long as the harness asks as it did.

    Args:
        cassette: The recording.
        test: The test's node id, for the command in a message.
        latch: Where the first mismatch is kept.
    """

    def __init__(self, cassette: Cassette, *, test: str, latch: Latch) -> None:
        self.cassette = cassette
        self.test = test
        self.latch = latch
        self._step: RecordedStep | None = None
        self._turn = 0
        self._conversation = Conversation()
        self._secrets = environment_secrets()
        self._done: list[str] = []  # ids of the actions carried out since the last reply
        self._observed: dict[tuple[str, str, str], int] = {}

    # ------------------------------------------------------------------ what the loop tells

    def begin_step(self, step: Step) -> None:
        """A step begins; its ordinal, kind and desktop must be the recorded ones.

        Raises:
            CassetteMismatch: It was not recorded, or as another kind of step, or on another desktop.
        """
        recorded = self.cassette.step(step.number)
        if recorded is None:
            raise self._mismatch(
                f"step {step.number} {step.sentence!r} was not recorded: the cassette holds "
                f"{len(self.cassette.steps)} steps"
            )
        if (recorded.kind, recorded.desktop) != (step.kind, step.desktop):
            raise self._mismatch(
                f"step {step.number} {step.sentence!r} is a {step.kind!r} on desktop {step.desktop}; "
                f"recorded was a {recorded.kind!r} on desktop {recorded.desktop}"
            )
        self._step, self._turn, self._done = recorded, 0, []
        self._conversation = Conversation()

    def action(self, action: Action) -> None:
        """An action was carried out; nothing is stored, the cassette holds it."""
        self._done.append(action.id)

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """The key of a picture; nothing is stored."""
        return key or screens.content_key(image)

    def observation(self, kind: str, subject: str, desktop: str, value: Any) -> None:
        """Nothing: a replay looks at the application itself."""

    def recorded_action(self, action_id: str) -> Action | None:
        """The action as recorded, None when the recording has no such `tool_use`."""
        turns = self._step.turns if self._step else []
        at_hand = turns[max(self._turn - 1, 0) : self._turn]  # an id may come again in another turn
        return next((turn.actions[action_id] for turn in [*at_hand, *turns] if action_id in turn.actions), None)

    def end_step(self, step: Step) -> None:
        """A step ended; every recorded turn must have been asked for.

        Raises:
            CassetteMismatch: Turns are left over.
        """
        assert self._step is not None
        left = len(self._step.turns) - self._turn
        if left:
            raise self._mismatch(f"step {step.number} ended after turn {self._turn}; the recording has {left} more")
        self._check_done()

    def finish(self, steps: int) -> None:
        """The test passed; every recorded step must have been asked for.

        Raises:
            CassetteMismatch: Steps are left over.
        """
        left = [step for step in self.cassette.steps if step.number > steps]
        if left:
            names = "; ".join(repr(step.sentence) for step in left[:3])
            raise self._mismatch(f"the test ended after step {steps}, but the recording goes on with {names}")

    def recorded_observation(self, kind: str, subject: str, desktop: str) -> Any:
        """What the test saw here while it was recorded.

        Raises:
            NeedsApplication: Nothing was kept, or less than the test looks at now.
        """
        place = (desktop, kind, subject)
        kept = [
            o
            for o in self.cassette.observations
            if (o["desktop"], o["kind"]) == (desktop, kind) and (o["subject"] == subject or fits(o["subject"], subject))
        ]
        index = self._observed.get(place, 0)
        what = f"{kind} {subject!r}".replace(" ''", "")
        if not kept:
            raise NeedsApplication(f"needs the application: {what} was not looked at while recording")
        if index >= len(kept):
            raise NeedsApplication(
                f"needs the application: {what} is looked at {index + 1} times, and was {len(kept)} times "
                f"while recording"
            )
        self._observed[place] = index + 1
        return self._value(kept[index]["value"])

    def _value(self, kept: Mapping[str, Any]) -> Any:
        if kept.get("missing"):
            return None
        if "screen" in kept:
            return self.screen(kept["screen"])
        if "text" in kept:
            return self._restored(kept["text"]).encode()
        if "file" in kept:
            path = self.cassette.folder / "files" / f"{kept['file']}.bin"
            if not path.exists():
                raise CassetteUnreadable(f"{path} is missing from the recording.", "restore it from version control")
            return self._file_content(path, kept["file"])
        return self._restored(kept["json"])

    def _file_content(self, path: Path, key: str) -> bytes:
        data = path.read_bytes()
        if file_key(data) != key:
            raise CassetteUnreadable(f"{path} is not the content that was recorded.", "restore it from version control")
        try:
            return self._restored(data.decode()).encode()  # type: ignore[no-any-return]
        except UnicodeError:
            return data

    def _restored(self, value: Any) -> Any:
        try:
            return restore(value, self._secrets)
        except LookupError as error:
            raise NeedsApplication(
                f"needs the application: what was recorded held a secret that is not known here ({error.args[0]})"
            ) from None

    def screen(self, key: str) -> Image.Image:
        """The recorded picture with this key.

        Raises:
            CassetteUnreadable: The file is missing or damaged.
        """
        path = self.cassette.screen_path(key)
        try:
            image = screens.load(path)
        except (OSError, BadArgument):
            raise CassetteUnreadable(
                f"{path} is missing or damaged.", "restore it from version control, or record the test again"
            ) from None
        if screens.content_key(image) != key:
            raise CassetteUnreadable(f"{path} is not the picture that was recorded.", "restore it from version control")
        return image

    # ------------------------------------------------------------------ middleware

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Answer from the cassette; nothing is ever sent."""
        if self.latch.error is not None:
            raise self.latch.error
        if self._step is None:
            raise self._mismatch("a request was made outside of any step")
        if self._turn >= len(self._step.turns):
            raise self._mismatch(
                f"step {self._step.number} {self._step.sentence!r} asks for turn {self._turn + 1}; "
                f"the recording has {len(self._step.turns)}"
            )
        self._check_done()
        recorded = self._step.turns[self._turn]
        self._turn += 1
        params, messages = _split(plain(request.json, lambda data, media: "picture"))
        new = self._conversation.new_messages(messages)
        difference = first_difference(harness_view(recorded.params, recorded.new), harness_view(params, new))
        if difference:
            raise self._mismatch(
                f"step {self._step.number} {self._step.sentence!r}, turn {recorded.number}: "
                f"the request is not the recorded one\n{redact_text(str(difference), self._secrets)}",
            )
        self._conversation.replied(recorded.body)
        return _response(request, recorded.status, self._with_secrets(recorded.body))

    def _check_done(self) -> None:
        """Every action of the turn before must have been carried out again.

        Raises:
            CassetteMismatch: One was left out, as when the `confirm` hook now declines it.
        """
        assert self._step is not None
        done, self._done = self._done, []
        if self._turn:
            turn = self._step.turns[self._turn - 1]
            left_out = [action.words() for action_id, action in turn.actions.items() if action_id not in done]
            if left_out:
                raise self._mismatch(
                    f"step {self._step.number} {self._step.sentence!r}, turn {turn.number}: {left_out[0]} was carried "
                    "out while recording and is not now; does the confirm hook decline it?"
                )

    def _with_secrets(self, body: Any) -> Any:
        """The reply, with the secrets put back that Claude used; one that is not known here stays a marker."""
        if not isinstance(body, Mapping) or not isinstance(body.get("content"), list):
            return body
        return {**body, "content": [self._block_with_secrets(block) for block in body["content"]]}

    def _block_with_secrets(self, block: Any) -> Any:
        if block.get("type") != "tool_use":
            return block
        try:
            return {**block, "input": restore(block["input"], self._secrets)}
        except LookupError:
            return block  # `offline` does not need it, and a live desktop refuses to type a marker

    def unknown_secret(self, name: str) -> CassetteMismatch:
        """The failure of an action whose text was taken out of the recording and is not known here."""
        return self._mismatch(
            f"Claude used a secret that was taken out of the recording and is not known here: {name}",
            f"set the variable {name} as it was set while recording, or pass the value as a parameter",
        )

    def _mismatch(self, what: str, *hints: str) -> CassetteMismatch:
        command = f"if the change is meant, record the test again: pytest --cua-mode=record {shell_quoted(self.test)}"
        return self.latch.set(CassetteMismatch(f"{self.cassette.file}: {what}", *hints, command))  # type: ignore[return-value]


def _response(request: APIRequest, status: int, body: Any) -> APIResponse[Any]:
    url = f"http://replay.invalid{request.url}"
    http = httpx2.Response(status, json=body, request=httpx2.Request(request.method, url))
    return APIResponse(
        raw=http,
        cast_to=request.cast_to,
        client=replay_client(),  # asked only whether responses are validated strictly
        stream=False,
        stream_cls=None,
        options=request.options,
        retries_taken=request.retries_taken,
    )
