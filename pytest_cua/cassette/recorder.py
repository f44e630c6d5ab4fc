"""Claude's turns, recorded, as middleware of the SDK's client.

The SDK calls middleware once per HTTP attempt with the request as a dict, before it is serialised: a recording costs a
line a turn, a replay costs no HTTP at all, and an `AssertionError` from here reaches the test as it is (it is neither
wrapped as "Connection error." nor retried; `_middleware.py` and `_base_client.py` of SDK 2.14).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import anthropic
import httpx2
from anthropic import APIRequest, APIResponse
from anthropic._middleware import AsyncCallNext, CallNext, Middleware  # the package exports these names nowhere else
from PIL import Image

from pytest_cua.cassette.http import asking_model
from pytest_cua.cassette.lanes import Lane, Lanes
from pytest_cua.cassette.tape import Tape
from pytest_cua.cassette.wire import History, Reply, Request, Tee, kept_headers, reply_of, will_be_retried, with_stream
from pytest_cua.errors import BadArgument, StepFailed
from pytest_cua.trace import Action, Step

if TYPE_CHECKING:
    from pytest_cua.cassette.player import Player

# in place of a reply: whoever waited was cancelled, or still waited when the test ended
GIVEN_UP = "given up"
UNFINISHED = "unfinished: the test ended before a reply came"
MAX_REQUEST = 31_000_000  # bytes of pictures in base64; 32 MB is what the Claude API takes in one request
SCRIPTED_HEADER = "x-pytest-cua-scripted"


class CassetteMiddleware(Middleware):
    """What records or replays a step; a client that carries it is no client of the code under test."""


class ClientMiddleware(Middleware):
    """What records or replays a client of the code under test.

    Attributes:
        client: The client it belongs to; each gets one of its own.
    """

    client: Any = None
    lanes: Lanes
    active: ClassVar[list[ClientMiddleware]] = []  # of the tests that run, the innermost last

    def bound_to(self, client: Any) -> ClientMiddleware:
        """One of this kind for a client."""
        raise NotImplementedError

    def successor(self, request: APIRequest) -> ClientMiddleware | None:
        """Who records or answers a client that has outlived its test: the test that runs now; None while its own does.

        Raises:
            BadArgument: None runs, or a thread of the ended test asks again what was not answered then.
        """
        if not self.lanes.ended.is_set():
            return None
        is_late = request.retries_taken > 0 and self.active and not self.active[-1].lanes.is_underway(call_of(request))
        if not self.active or is_late:
            raise BadArgument(
                "A client that was made in a test with `cua` asks after the end of it, where nothing records it.",
                "make the client anew outside of such tests",
            )
        return self.active[-1].bound_to(self.client)


@contextmanager
def _asking() -> Iterator[None]:
    """While a request goes on to the model, vcrpy leaves it alone."""
    token = asking_model.set(True)
    try:
        yield
    finally:
        asking_model.reset(token)


def endpoint_of(http: httpx2.Response) -> str:
    """Who answered, in the words of the header."""
    if SCRIPTED_HEADER in http.headers:
        return "scripted"
    host = http.request.url.host
    return "anthropic" if host == "api.anthropic.com" else f"other: {host}"


def is_last_attempt(request: APIRequest, client: Any) -> bool:
    """Whether the SDK will not ask again, whatever the reply."""
    return bool(request.retries_taken >= request.options.get_max_retries(getattr(client, "max_retries", 2)))


class Recorder(CassetteMiddleware):
    """Writes the steps of a cassette while Claude answers.

    Args:
        tape: Where the lines go.
        source: Another recording that answers the first steps, which were paid for when it was made.
        from_step: The first step that is asked of the model.

    Attributes:
        max_retries: How often the loop's client asks again.
    """

    def __init__(self, tape: Tape, *, source: Player | None = None, from_step: int = 1) -> None:
        self.tape = tape
        self.source = source
        self.from_step = from_step
        self.client: Any = None
        self._attempts: list[dict[str, Any]] = []
        self._history = History()
        self._turn = 0
        self._in_step = False

    def player_for(self, number: int) -> Player | None:
        """The recording that answers a step, None when the model does."""
        return self.source if number < self.from_step else None

    @property
    def player(self) -> Player | None:
        """The recording that answers the step at hand, None when the model does."""
        return self.player_for(self.tape.step)

    @property
    def has_replies(self) -> bool:
        """Whether anything was answered."""
        return self.tape.has_replies

    def flow(self, flow: str, title: str) -> None:
        """A flow was used here; its steps lie in a recording of their own."""
        self.tape.write({"type": "flow", "after_step": self.tape.step, "flow": flow, "title": title})

    # ------------------------------------------------------------------ what the loop tells

    def begin_step(self, step: Step) -> None:
        """A step begins: its requests are one conversation."""
        self.tape.step, self._turn, self._in_step = step.number, 0, True
        self._history = History()
        if self.player is not None:
            self.player.begin_step(step)
        line = {
            "type": "step",
            "step": step.number,
            "kind": step.kind,
            "desktop": step.desktop,
            "sentence": step.sentence,
        }
        self.tape.write(line if step.phase == "call" else {**line, "phase": step.phase})

    def action(self, action: Action) -> None:
        """An action is done; its pictures were given to `picture` before."""
        if self.player is not None:
            self.player.action(action)
        self.tape.action(self.tape.step, self._turn, action.to_json(), self._history.body)

    def end_step(self, step: Step) -> None:
        """A step ended as it should."""
        if self.player is not None:
            self.player.end_step(step)
        self._in_step = False
        line = {
            "type": "end",
            "step": step.number,
            "outcome": step.outcome,
            "summary": step.summary,
            "observations": step.observations,
            "usage": step.usage.to_json(),
        }
        files = step.files_changed() if step.files_changed else {}
        self.tape.write({**line, "files": files} if files else line)

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """Store a picture and return its key."""
        return self.tape.picture(image, key)

    def sent(self, data: str, key: str) -> None:
        """A picture that is about to be sent was kept under this key already."""
        self.tape.sent(data, key)

    def observation(self, kind: str, subject: str, desktop: str, value: Any) -> None:
        """Keep what the test looked at."""
        self.tape.observation(kind, subject, desktop, value)

    # ------------------------------------------------------------------ middleware

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Let the request through and keep it with its reply."""
        self.tape.latch.check_process("asks a model")
        if not self._in_step:
            raise BadArgument(
                "A request was made with the client of the steps outside of any step.",
                "ask with cua.client, or a client of your own: both are recorded",
            )
        asked = self._taken_apart(request)
        response, waited_ms = self._answered(request, call_next)
        http = response.http_response
        http.read()
        reply = reply_of(http)
        if will_be_retried(http) and not is_last_attempt(request, self.client):
            self._attempts.append({"status": http.status_code, "error": reply.body})
            return response
        self._turn += 1
        attempts, self._attempts = self._attempts, []
        self.tape.turn(
            {"step": self.tape.step, "turn": self._turn},
            self._history,
            asked,
            reply,
            waited_ms=waited_ms,
            attempts=attempts,
        )
        return response

    def _taken_apart(self, request: APIRequest) -> Request:
        """The request as plain data.

        Raises:
            StepFailed: It is larger than the API takes, which would refuse it and all that follow.
        """
        sizes: list[int] = []

        def picture(data: str, media_type: str) -> str | None:
            sizes.append(len(data))
            return self.tape.request_picture(data, media_type)

        asked = Request.of(request, picture, self.tape.request_file)
        if sum(sizes) > MAX_REQUEST:
            raise StepFailed(
                f"The next request of this step would hold {len(sizes)} pictures of {sum(sizes) / 1e6:.1f} MB; "
                "the API takes 32 MB in all.",
                "write smaller steps: each is a conversation of its own",
                "or let the API hold the conversation between turns: -o cua_threads=true",
            )
        return asked

    def _answered(self, request: APIRequest, call_next: CallNext) -> tuple[APIResponse[Any], float]:
        """The reply and how long it took, in milliseconds: now, or when it was paid for."""
        if self.player is not None:
            response = self.player.handle(request, call_next)
            self.tape.replied(str(self.player.cassette.header["model_endpoint"]))
            return response, self.player.waited_ms
        asked = time.monotonic()
        with _asking():
            response = call_next(request)
            response.http_response.read()
        self.tape.replied(endpoint_of(response.http_response))
        return response, (time.monotonic() - asked) * 1000


class ClientRecorder(ClientMiddleware):
    """Records what the code under test asks a model with a client of its own.

    Args:
        tape: Where the lines go.
        lanes: The conversations of all clients of the test.
    """

    def __init__(self, tape: Tape, lanes: Lanes) -> None:
        self.tape = tape
        self.lanes = lanes

    def bound_to(self, client: Any) -> ClientRecorder:
        """A recorder for another client of the same test."""
        bound = ClientRecorder(self.tape, self.lanes)
        bound.client = client
        return bound

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Let the request through and keep it with its reply."""
        if (successor := self.successor(request)) is not None:
            return successor.handle(request, call_next)
        exchange = self._begin(request)
        try:
            with _asking():
                response = call_next(request)
                if not _is_streamed(request, response):
                    response.http_response.read()
        except BaseException as error:
            exchange.failed(error)
            raise
        exchange.answered(response)
        return response

    async def handle_async(self, request: APIRequest, call_next: AsyncCallNext) -> Any:
        """As `handle`, for an asynchronous client."""
        if (successor := self.successor(request)) is not None:
            return await successor.handle_async(request, call_next)
        exchange = self._begin(request)
        try:
            with _asking():
                response = await call_next(request)
                if not _is_streamed(request, response):
                    await response.http_response.aread()
        except BaseException as error:  # also of a task that is cancelled
            exchange.failed(error)
            raise
        exchange.answered(response)
        return response

    def _begin(self, request: APIRequest) -> _Exchange:
        self.tape.latch.check_process("asks a model")
        asked = Request.of(request, self.tape.request_picture, self.tape.request_file)
        return _Exchange(self, request, asked.mapped(self.lanes.names))

    def keep(
        self, lane: Lane, turn: int, new: tuple[int, list[Any]], asked: Request, reply: Reply, **more: Any
    ) -> None:
        """Write one exchange of a conversation."""
        self.tape.turn({"conversation": lane.number, "turn": turn}, lane.history, asked, reply, new=new, **more)
        lane.replied(reply, self.lanes.names)


class _Exchange:
    """One attempt of a request of a client, until its reply is whole."""

    def __init__(self, recorder: ClientRecorder, request: APIRequest, asked: Request) -> None:
        self._recorder = recorder
        self._request = request
        self._asked = asked
        self._started = time.monotonic()
        self._tee: Tee | None = None
        self._call = call_of(request)
        self._lane, self._turn, self._new, is_new = recorder.lanes.place(
            asked, self._call, again=request.retries_taken > 0
        )
        if is_new:
            name = type(recorder.client).__name__
            recorder.tape.write({"type": "conversation", "conversation": self._lane.number, "client": name})
        recorder.tape.unanswered[self._call] = self

    def answered(self, response: Any) -> None:
        """A reply has come: whole, or as a stream that the caller reads."""
        if _is_streamed(self._request, response):
            self.stream(response)
        else:
            self.replied(response.http_response)

    def replied(self, http: httpx2.Response) -> None:
        """A reply that was read to its end."""
        reply = reply_of(http)
        self._recorder.tape.replied(endpoint_of(http))
        if will_be_retried(http) and not is_last_attempt(self._request, self._recorder.client):
            self._lane.attempts.append({"status": http.status_code, "error": reply.body})
            return
        self._keep(reply)

    def failed(self, error: BaseException) -> None:
        """No reply came: the connection failed, or whoever waited for it gave up."""
        said = f"{type(error).__name__}: {error.__cause__ or error}"
        is_connection = isinstance(error, anthropic.APIConnectionError)
        if is_connection and not is_last_attempt(self._request, self._recorder.client):
            self._lane.attempts.append({"status": 0, "error": said})
            return
        self._unreplied(said if isinstance(error, Exception) else f"{GIVEN_UP}: {said}")

    def finish(self) -> None:
        """The test has ended, and the code under test still waits for the reply, or has not read it to its end."""
        if self._tee is not None:
            self._tee.finish()
        else:
            self._unreplied(UNFINISHED)

    def _unreplied(self, why: str) -> None:
        self._recorder.tape.replied("none")
        self._keep(Reply(0, body=why))

    def stream(self, response: Any) -> None:
        """A reply that the caller reads piece by piece."""
        http = response.http_response
        self._recorder.tape.replied(endpoint_of(http))

        def done(events: list[Any], cut: str | None) -> None:
            self._keep(Reply(http.status_code, events=events, cut=cut, headers=kept_headers(http)))

        tee = Tee(http, self._started, done)
        self._tee = tee
        response.http_response = with_stream(http, tee)

    def _keep(self, reply: Reply) -> None:
        if not self._recorder.tape.answered(self._call, self):
            return  # the test has ended meanwhile
        attempts, self._lane.attempts = self._lane.attempts, []
        waited = (time.monotonic() - self._started) * 1000
        self._recorder.keep(self._lane, self._turn, self._new, self._asked, reply, waited_ms=waited, attempts=attempts)
        self._recorder.lanes.done(self._call)


def call_of(request: APIRequest) -> str:
    """The same for all attempts of one call; the SDK gives a key to all but a GET."""
    if request.options.idempotency_key:
        return str(request.options.idempotency_key)
    try:
        task: Any = asyncio.current_task()
    except RuntimeError:
        task = None
    return f"{request.method} {request.url} {threading.get_ident()} {id(task)}"


def _is_streamed(request: APIRequest, response: Any) -> bool:
    """Whether the caller reads the body itself; an error is read by the SDK, and is short."""
    http = response.http_response
    return bool(http.is_success and not http.is_closed and not http.is_stream_consumed) or (
        request.stream and http.is_success
    )
