"""Claude's turns, answered again from a recording, as long as the harness asks as it did."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
from anthropic import APIRequest, APIResponse
from anthropic._middleware import AsyncCallNext, CallNext
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import Cassette, RecordedConversation, RecordedStep, RecordedTurn
from pytest_cua.cassette.lanes import Lane, Lanes
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.match import Difference, Normalize, explain, first_difference, fits, request_view
from pytest_cua.cassette.recorder import GIVEN_UP, UNFINISHED, CassetteMiddleware, ClientMiddleware
from pytest_cua.cassette.redact import environment_secrets, redact_text, restore, restore_known, restored_events
from pytest_cua.cassette.store import file_key
from pytest_cua.cassette.wire import CLOSED, History, Reply, Request, response
from pytest_cua.desktop.masks import with_masks
from pytest_cua.errors import (
    BadArgument,
    CassetteMismatch,
    CassetteUnreadable,
    CuaError,
    NeedsApplication,
    path_quoted,
    pytest_command,
)
from pytest_cua.model import replay_client
from pytest_cua.trace import Action, Step

_POLL = 0.02  # seconds between looks at whether the test has ended
_GIVES_UP = 20_000  # milliseconds within which what was given up while recording must be given up again
_TEST_ENDS = 3_600_000  # milliseconds: as good as for ever


def _no_picture(data: str, media_type: str) -> str:
    return "picture"  # never compared, so it need not be decoded


def _no_file(data: str) -> str:
    return "file"


class Player(CassetteMiddleware):
    """Answers the steps of a test from its recording.

    Args:
        cassette: The recording.
        test: The test's node id, for the command in a message.
        latch: Where the first mismatch is kept.
        normalize: Takes out of a text what differs from run to run; None for the usual things alone.
        flow: Name of the flow whose recording this is; "" for a test's own.

    Attributes:
        served: How many turns were answered.
        waited_ms: How long the reply at hand took while recording.
    """

    def __init__(
        self, cassette: Cassette, *, test: str, latch: Latch, normalize: Normalize | None = None, flow: str = ""
    ) -> None:
        self.cassette = cassette
        self.test = test
        self.latch = latch
        self.normalize = normalize or Normalize()
        self.flow = flow
        self.served = 0
        self.waited_ms = 0.0
        self._step: RecordedStep | None = None
        self._place = ""
        self._turn = 0
        self._history = History()
        self._played: dict[int, int] = {}  # turns, by step
        self._done: list[str] = []  # ids of the actions carried out since the last reply
        self._secrets = environment_secrets()
        self._observed: dict[tuple[str, str, str], int] = {}

    @property
    def has_replies(self) -> bool:
        """Whether anything was answered."""
        return self.served > 0

    def player_for(self, number: int) -> Player | None:
        """Itself: it answers every step."""
        return self

    # ------------------------------------------------------------------ what the loop tells

    def begin_step(self, step: Step) -> None:
        """A step begins; its ordinal, kind and desktop must be the recorded ones.

        Raises:
            CassetteMismatch: It was not recorded, or as another kind of step, or on another desktop.
        """
        recorded = self.cassette.step(step.number)
        self._place = f"step {step.number} {step.sentence!r}"
        if recorded is None:
            raise self.mismatch(
                f"{self._place} was not recorded: the cassette holds {_count(len(self.cassette.steps), 'step')}"
            )
        if (recorded.kind, recorded.desktop) != (step.kind, step.desktop):
            raise self.mismatch(
                f"{self._place} is a {step.kind!r} on desktop {step.desktop}; "
                f"recorded was a {recorded.kind!r} on desktop {recorded.desktop}"
            )
        self._step, self._turn, self._done = recorded, 0, []
        self._history = History()

    def action(self, action: Action) -> None:
        """An action was carried out; nothing is stored, the cassette holds it."""
        self._done.append(action.id)

    def picture(self, image: Image.Image, key: str | None = None) -> str:
        """The key of a picture; nothing is stored."""
        return key or screens.content_key(image)

    def sent(self, data: str, key: str) -> None:
        """Nothing: pictures of requests are not compared."""

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
            raise self.mismatch(
                f"step {step.number} ended after turn {self._turn}; the recording has {left} more: turns not played"
            )
        self._check_done()

    def finish(self, steps: int, flows: list[str]) -> None:
        """The test passed; everything that was recorded must have been asked for, and something at all.

        Raises:
            CassetteMismatch: Steps or flows are left over, or no turn was answered.
        """
        left = [step for step in self.cassette.steps if step.number > steps]
        if left:
            names = "; ".join(repr(step.sentence) for step in left[:3])
            raise self.mismatch(f"the test ended after step {steps}, but the recording goes on with {names}")
        for step in self.cassette.steps:  # one that raised, in a test that went on
            if (unplayed := len(step.turns) - self._played.get(step.number, 0)) > 0:
                raise self.mismatch(
                    f"step {step.number} {step.sentence!r} broke off {_count(unplayed, 'turn')} before its recorded "
                    "end, and the test went on: turns not played"
                )
        recorded = [str(line["flow"]) for line in self.cassette.flows]
        if recorded != flows:
            raise self.mismatch(f"the test used the flows {flows or 'none'}, and {recorded or 'none'} while recording")

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
            return with_masks(self.screen(kept["screen"]), kept.get("masked", ()))
        if "text" in kept:
            return self._restored(kept["text"]).encode()
        if "file" in kept:
            data = stored_file(self.cassette, kept["file"])
            try:
                return self._restored(data.decode()).encode()
            except UnicodeError:
                return data
        return self._restored(kept["json"])

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
        return stored_screen(self.cassette, key)

    def picture_file(self, key: str) -> bytes:
        """The WebP file of the recorded picture with this key, seen to be whole, and not decoded.

        That its pixels are those of the key is seen where they are used (`screen`), and by `pytest-cua verify`.

        Raises:
            CassetteUnreadable: The file is missing or damaged.
        """
        return _picture_file(self.cassette, key)

    # ------------------------------------------------------------------ middleware

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Answer from the cassette; nothing is ever sent."""
        if self.latch.error is not None:
            raise self.latch.error
        if self._step is None:
            raise self.mismatch("a request was made with the client of the steps outside of any step")
        if self._turn >= len(self._step.turns):
            raise self.mismatch(
                f"{self._place} asks for turn {self._turn + 1}; the recording has {len(self._step.turns)}"
            )
        self._check_done()
        recorded = self._step.turns[self._turn]
        self._turn = self._played[self._step.number] = self._turn + 1
        asked = Request.of(request, _no_picture, _no_file)
        keep, new = self._history.new_messages(asked.messages)
        difference = first_difference(
            request_view(recorded.params, recorded.keep, recorded.new),
            request_view(asked.params, keep, new),
            normalize=self.normalize,
            strict=True,
        )
        if difference:
            raise self.different(f"{self._place}, turn {recorded.number}", difference, is_step=True)
        self._history.replied(recorded.body)
        self.served += 1
        self.waited_ms = recorded.waited_ms
        return response(  # type: ignore[no-any-return]
            request, _with_secrets(recorded), replay_client(), over=self._over
        )

    def _over(self, turn: RecordedTurn) -> BaseException:
        return self.mismatch(f"{self._place}, turn {turn.number}: its recorded stream has no end ({turn.cut})")

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
                raise self.mismatch(
                    f"{self._place}, turn {turn.number}: {left_out[0]} was carried "
                    "out while recording and is not now; does the confirm hook decline it?"
                )

    def different(self, place: str, difference: Difference, *, is_step: bool) -> CuaError:
        """Latch that a request is not the recorded one, and give the failure to be raised."""
        header = self.cassette.header
        likely = explain(
            difference,
            is_step=is_step,
            recorded_by=f"pytest-cua {header.get('plugin')}, {header.get('sdk')}",
            runs=f"pytest-cua {version('pytest-cua')}, anthropic {anthropic.__version__}",
        )
        return self.mismatch(
            f"{place}: the request is not the recorded one\n{redact_text(str(difference), environment_secrets())}",
            f"likely: {likely}",
        )

    def unknown_secret(self, name: str) -> CuaError:
        """The failure of an action whose text was taken out of the recording and is not known here."""
        return self.mismatch(
            f"Claude used a secret that was taken out of the recording and is not known here: {name}",
            f"set the variable {name} as it was set while recording, or pass the value as a parameter",
        )

    def record_again(self) -> str:
        """The command that makes this recording anew."""
        if self.flow:
            return f"rm -r {path_quoted(self.cassette.folder)} && {pytest_command('--cua-record', test=self.test)}"
        return pytest_command("--cua-mode=record", test=self.test)

    def mismatch(self, what: str, *hints: str) -> CuaError:
        """Latch that the harness does not ask as it did, and give it to be raised."""
        whose = f"flow {self.flow}, used by {self.test}: " if self.flow else ""
        command = f"if the change is meant, record it again: {self.record_again()}"
        return self.latch.set(CassetteMismatch(f"{self.cassette.file}: {whose}{what}", *hints, command))


def stored_screen(cassette: Cassette, key: str) -> Image.Image:
    """A picture of a recording.

    Raises:
        CassetteUnreadable: The file is missing or damaged.
    """
    path = cassette.screen_path(key)
    raw = _picture_file(cassette, key)
    try:
        image = screens.decode(raw, path)
    except BadArgument:
        raise CassetteUnreadable(f"{path} is damaged.", _restore_it(path)) from None
    if screens.content_key(image) != key:
        raise CassetteUnreadable(f"{path} is not the picture that was recorded.", _restore_it(path))
    return image


def _restore_it(path: Path) -> str:
    return f"restore it from version control (git log --all -- {path_quoted(path)} finds it), or record the test again"


def _picture_file(cassette: Cassette, key: str) -> bytes:
    """The bytes of a picture's file, which is there and has the length that its head says."""
    path = cassette.screen_path(key)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CassetteUnreadable(
            f"{path}, which {cassette.file} shows, cannot be read: {error.strerror}.", _restore_it(path)
        ) from None
    if raw.startswith(b"version https://git-lfs"):
        raise CassetteUnreadable(
            f"{path} is a pointer of Git LFS, not the picture.", "fetch the files: git lfs install && git lfs pull"
        )
    whole = raw[:4] == b"RIFF" and raw[8:12] == b"WEBP" and int.from_bytes(raw[4:8], "little") + 8 == len(raw)
    if not whole:
        raise CassetteUnreadable(f"{path} is damaged.", _restore_it(path))
    return raw


def stored_file(cassette: Cassette, key: str) -> bytes:
    """Bytes that lie beside a recording.

    Raises:
        CassetteUnreadable: They are missing or others.
    """
    path = cassette.file_path(key)
    restore_it = f"restore it from version control: git checkout -- {path_quoted(path)}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CassetteUnreadable(f"{path} cannot be read: {error.strerror}.", restore_it) from None
    if file_key(data) != key:
        raise CassetteUnreadable(f"{path} is not the content that was recorded.", restore_it)
    return data


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _with_secrets(turn: RecordedTurn) -> RecordedTurn:
    """The reply, with the secrets put back that Claude said; one that is not known here stays a marker.

    `offline` does not need it, and a live desktop refuses to type a marker.
    """
    if turn.events is None:
        return replace(turn, body=restore_known(turn.body, environment_secrets()))
    return replace(turn, events=restored_events(turn.events, environment_secrets()))


# ---------------------------------------------------------------------- clients of the code under test


class ClientPlayer(ClientMiddleware):
    """Answers what the code under test asks a model with clients of its own.

    Args:
        cassette: The recording.
        player: The test's, which knows how to say that something is not as recorded.
        lanes: The conversations of all clients of the test.
    """

    def __init__(self, cassette: Cassette, player: Player, lanes: Lanes) -> None:
        self.cassette = cassette
        self.lanes = lanes
        self._player = player

    def bound_to(self, client: Any) -> ClientPlayer:
        """A player for another client of the same test."""
        bound = ClientPlayer(self.cassette, self._player, self.lanes)
        bound.client = client
        return bound

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        """Answer from the cassette; nothing is ever sent."""
        if (successor := self.successor(request)) is not None:
            return successor.handle(request, call_next)
        turn = self._answer(request)
        if turn.status == 0:
            until = _unreplied_until(turn)
            if until is not None:
                self.lanes.ended.wait(until / 1000)
            raise self._no_reply(request, turn)
        return self._response(request, turn)  # type: ignore[no-any-return]

    async def handle_async(self, request: APIRequest, call_next: AsyncCallNext) -> Any:
        """As `handle`, for an asynchronous client."""
        if (successor := self.successor(request)) is not None:
            return await successor.handle_async(request, call_next)
        turn = self._answer(request)
        if turn.status == 0:
            until = _unreplied_until(turn)
            if until is not None:
                await self._cancelled(until)
            raise self._no_reply(request, turn)
        return self._response(request, turn)

    async def _cancelled(self, limit: float) -> None:
        """Wait to be cancelled, as then; at most `limit` milliseconds, or until the test ends."""
        with anyio.move_on_after(limit / 1000):
            while not self.lanes.ended.is_set():
                await anyio.sleep(_POLL)

    def _answer(self, request: APIRequest) -> RecordedTurn:
        """The recorded turn that answers a request.

        Raises:
            CassetteMismatch: None does.
        """
        self._player.latch.check_process("asks a model")
        if self._player.latch.error is not None:
            raise self._player.latch.error
        asked = Request.of(request, _no_picture, _no_file).mapped(self.lanes.names)
        with self.lanes.lock:
            lane, number, (keep, new), is_new = self.lanes.place(asked, "")
            if is_new:
                lane.recorded = self._choose(asked, keep, new)
            else:
                self._rebind(lane, number, asked, keep, new)
            turn = self._turn(lane, number)
            difference = self._difference(turn, asked, keep, new)
            if difference:
                place = f"conversation {_recorded_number(lane)} of the code under test, turn {turn.number}"
                raise self._player.different(place, difference, is_step=False)
            lane.history.replied(turn.body)
            lane.replied(Reply(turn.status, turn.body, turn.events), self.lanes.names)
            self._player.served += 1
        return turn

    def _response(self, request: APIRequest, turn: RecordedTurn) -> Any:
        try:
            content = stored_file(self.cassette, turn.file) if turn.file else None
        except CassetteUnreadable as error:
            raise self._player.latch.set(error) from None
        return response(request, _with_secrets(turn), self.client, over=self._over, content=content)

    def _difference(self, turn: RecordedTurn, asked: Request, keep: int, new: list[Any]) -> Any:
        now = {
            "request": f"{asked.method.upper()} {asked.path}",
            **request_view(asked.params, keep, new, first=turn.number == 1, own_tools=True),
        }
        return first_difference(_asked_in(turn), now, normalize=self._player.normalize)

    def _rebind(self, lane: Lane, number: int, asked: Request, keep: int, new: list[Any]) -> None:
        """Let another recorded conversation answer a request that is not that of its own.

        Conversations that begin alike cannot be told apart before they part, and who comes first is by chance: so
        those whose requests so far are the same change places.
        """
        own = lane.recorded
        assert own is not None
        if self._answers(own, number, asked, keep, new):
            return
        holders = {id(other.recorded): other for other in self.lanes.lanes}
        for recorded in self.cassette.conversations:
            holder = holders.get(id(recorded))
            played = max(number - 1, holder.turn if holder is not None else 0)
            if self._answers(recorded, number, asked, keep, new) and self._begin_alike(own, recorded, played):
                lane.recorded = recorded
                if holder is not None:
                    holder.recorded = own
                return

    def _begin_alike(self, one: RecordedConversation, other: RecordedConversation, turns: int) -> bool:
        """Whether the first turns of both ask the same."""
        if turns > min(len(one.turns), len(other.turns)):
            return False
        pairs = zip(one.turns[:turns], other.turns[:turns], strict=True)
        return not any(
            first_difference(_asked_in(first), _asked_in(second), normalize=self._player.normalize)
            for first, second in pairs
        )

    def _answers(self, recorded: RecordedConversation, number: int, asked: Request, keep: int, new: list[Any]) -> bool:
        return number <= len(recorded.turns) and not self._difference(recorded.turns[number - 1], asked, keep, new)

    def _choose(self, asked: Request, keep: int, new: list[Any]) -> RecordedConversation:
        """The recorded conversation that begins with this request.

        Raises:
            CassetteMismatch: None does.
        """
        taken = {id(lane.recorded) for lane in self.lanes.lanes}
        left = [recorded for recorded in self.cassette.conversations if id(recorded) not in taken]
        for recorded in left:
            if recorded.turns and not self._difference(recorded.turns[0], asked, keep, new):
                return recorded
        if not left:
            raise self._player.mismatch(
                f"the code under test begins conversation {len(self.lanes.lanes)} with a model; "
                f"the recording has {_count(len(self.cassette.conversations), 'conversation')} of it"
            )
        return left[0]  # the difference from it is what the message tells

    def _turn(self, lane: Lane, number: int) -> RecordedTurn:
        assert lane.recorded is not None
        if number > len(lane.recorded.turns):
            raise self._player.mismatch(
                f"conversation {_recorded_number(lane)} goes on with turn {number}; "
                f"the recording has {len(lane.recorded.turns)}"
            )
        return lane.recorded.turns[number - 1]

    def _over(self, turn: RecordedTurn) -> BaseException:
        if turn.cut == CLOSED:
            return self._player.mismatch(
                f"the stream of turn {turn.number} is read on; while recording it was closed after "
                f"{_count(len(turn.events or ()), 'event')}"
            )
        return httpx2.ReadError(f"the recorded stream broke off here: {turn.cut}")

    def _no_reply(self, request: APIRequest, turn: RecordedTurn) -> BaseException:
        """What the client was told when no reply came."""
        sent = httpx2.Request(request.method, f"http://replay.invalid{request.url}")
        name, _, said = str(turn.body).partition(": ")
        if name == GIVEN_UP:
            return self._player.mismatch(
                f"turn {turn.number} of the code under test was given up while recording ({said.rstrip(': ')} after "
                f"{turn.waited_ms:.0f} ms), and is waited for now"
            )
        if name == "APITimeoutError":
            return anthropic.APITimeoutError(request=sent)
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):  # raised before anything was sent
            return kind(said)
        return anthropic.APIConnectionError(message=str(turn.body), request=sent)

    def finish(self) -> None:
        """The test passed; everything that was recorded must have been asked for.

        Raises:
            CassetteMismatch: Something is left over.
        """
        played = {id(lane.recorded): lane.turn for lane in self.lanes.lanes}
        for recorded in self.cassette.conversations:
            awaited = [turn for turn in recorded.turns if turn.body != UNFINISHED]  # the test did not wait for others
            left = len(awaited) - played.get(id(recorded), 0)
            if left > 0:
                raise self._player.mismatch(
                    f"conversation {recorded.number} of the code under test ended {_count(left, 'turn')} before the "
                    "recorded end: turns not played"
                )


def _asked_in(turn: RecordedTurn) -> dict[str, Any]:
    """The part of a recorded request of the code under test that is compared."""
    view = request_view(turn.params, turn.keep, turn.new, first=turn.number == 1, own_tools=True)
    return {"request": f"{turn.method.upper()} {turn.path}", **view}


def _unreplied_until(turn: RecordedTurn) -> float | None:
    """How long to wait, in milliseconds, where no reply came because nobody waited for it; None where one was told."""
    if turn.body == UNFINISHED:
        return _TEST_ENDS
    return max(_GIVES_UP, 3 * turn.waited_ms) if str(turn.body).startswith(f"{GIVEN_UP}: ") else None


def _recorded_number(lane: Lane) -> int:
    return lane.recorded.number if lane.recorded is not None else lane.number
