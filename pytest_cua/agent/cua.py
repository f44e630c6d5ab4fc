"""The `cua` object of a test: `do`, `judge`, and what belongs to them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import anthropic
from PIL import Image

from pytest_cua import screens
from pytest_cua.agent.budget import Budget, Clock
from pytest_cua.agent.loop import Conversation, run_conversation
from pytest_cua.agent.outcome import Opinion, StepResult
from pytest_cua.agent.prompt import opening
from pytest_cua.agent.toolbox import Toolbox, toolbox
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.match import Names
from pytest_cua.cassette.player import Player
from pytest_cua.cassette.recorder import Recorder
from pytest_cua.errors import BadArgument, CassetteMismatch, CuaError
from pytest_cua.model import model_info
from pytest_cua.replay.check import NoCheck, ScreenCheck, recorded_masks
from pytest_cua.secrets import Secret
from pytest_cua.tools.around import Live, Recorded
from pytest_cua.tools.computer import placeholders, suggestion, with_single_braces
from pytest_cua.tools.plain import Calls
from pytest_cua.tools.scaling import MANY_IMAGES_EDGE, Scaling, sent_size
from pytest_cua.trace import Action, Run, Step, Turn, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cua.agent.flow import Flow
    from pytest_cua.desktop.desktop import Desktop
    from pytest_cua.desktop.recorded import RecordedDesktop
    from pytest_cua.observe import TestContext
    from pytest_cua.settings import Settings


_MOST_FILES = 50  # of a kind that are named in a recording


@dataclass
class Deck:
    """What steps are recorded to, or answered from: the cassette of the test, or that of a flow.

    Attributes:
        keeper: Records or replays.
        client: The client of the steps, with the keeper as its middleware.
        model: Its model.
        threads: Whether the API holds the conversation between turns.
        version: Of the computer tool.
        run: The steps of this recording alone.
        flow: The name of the flow; "" for the test's own.
        earlier: What was done before, in words, as the next step's conversation opens with it.
        flows: The flows that were used, in order.
    """

    keeper: Recorder | Player
    client: anthropic.Anthropic
    model: str
    threads: bool
    version: str
    run: Run
    flow: str = ""
    earlier: list[str] = field(default_factory=list)
    flows: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder of the recording."""
        return self.keeper.tape.writer.folder if isinstance(self.keeper, Recorder) else self.keeper.cassette.folder


@dataclass
class Cua:
    """Gives sentences to the agent, and the desktop to the test.

    Attributes:
        desktop: The desktop on which steps run unless told otherwise.
        client: A client for the code under test: what it asks is recorded, and answered from the recording.
        is_live: Whether a model is asked in this run.
        tools: What Claude may use besides the computer: "bash", "editor", and functions that the SDK's `@beta_tool`
            made tools of. Those of the marker and of the hook `pytest_cua_tools` are in it; a test may add more.
    """

    test: str
    settings: Settings
    desktop: Desktop | RecordedDesktop
    client: anthropic.Anthropic
    run: Run
    latch: Latch
    budget: Budget
    context: TestContext
    decks: list[Deck]
    open_flow: Callable[[Flow], Deck]
    partner: Callable[[str, Any], Any]
    names: Names
    confirm: Callable[[Any], bool] | None = None
    tools: list[Any] = field(default_factory=list)
    has_flow_replies: bool = False  # whether anything was answered in a flow
    broken_off: list[Deck] = field(default_factory=list, repr=False)  # replayed flows that raised
    _ended: bool = field(default=False, repr=False)
    _turn: Turn | None = field(default=None, repr=False)
    _check: ScreenCheck | None = field(default=None, repr=False)
    _player: Player | None = field(default=None, repr=False)  # what answers the step at hand

    @property
    def _deck(self) -> Deck:
        return self.decks[-1]

    @property
    def _keeper(self) -> Recorder | Player:
        return self._deck.keeper

    @property
    def is_live(self) -> bool:
        """Whether a model is asked in this run."""
        return isinstance(self.decks[0].keeper, Recorder)

    @property
    def cassette(self) -> Path:
        """The folder of this test's recording."""
        return self.decks[0].folder

    @property
    def usage(self) -> Usage:
        """Tokens and money of the steps so far: spent now while recording, then, when replayed."""
        return self.run.usage

    def do(
        self,
        step: str,
        *,
        params: Mapping[str, object] | None = None,
        max_turns: int | None = None,
        timeout: int | None = None,
        desktop: Desktop | RecordedDesktop | None = None,
    ) -> StepResult:
        """Have Claude carry out one step, or replay how it did.

        Args:
            step: One sentence that says what to do, and best what is to be seen when it is done. `{name}` stands for
                a parameter: Claude sees the name, the value is typed.
            params: The values, by name. A `Secret` is typed, and written nowhere.
            max_turns: Most replies; None takes the setting.
            timeout: Milliseconds; None takes the setting.
            desktop: Where; None takes the test's own.

        Raises:
            Blocked: Claude says the step cannot be done as written.
            StepFailed: It did not come to an end within its limits.
            CassetteMismatch: The harness asks something else than was recorded.
            ScreenDrift: The live screen is not the recorded one.
        """
        if not isinstance(step, str) or not step.strip():
            raise BadArgument("cua.do() needs a sentence that says what to do.")
        for name, limit in (("max_turns", max_turns), ("timeout", timeout)):
            if limit is not None and limit < 1:
                raise BadArgument(f"cua.do({name}={limit!r}): it is at least 1.")
        values = _checked_params(step, params or {})
        where = desktop or self.desktop
        self.names.add({name: value for name, value in values.items() if isinstance(value, str)})
        entry = self._new_step(step, where)
        box = self._toolbox(where, values)
        blocks = opening(with_single_braces(step), earlier=self._deck.earlier, params=values)
        self._converse(entry, where, blocks, box, max_turns=max_turns, timeout=timeout)
        if entry.outcome == "done":
            self._deck.earlier.append(with_single_braces(step))
        return StepResult(entry, tuple(box.pictures))

    def judge(self, statement: str, *, desktop: Desktop | RecordedDesktop | None = None) -> Opinion:
        """Ask the model whether a statement holds on the screen: an opinion, recorded and labelled so.

        It never counts as a test's assertion: what decides a test is evaluated on the application in each run.

        Raises:
            ScreenDrift: The screen that was judged while recording is not the one that is there now.
        """
        if not isinstance(statement, str) or not statement.strip():
            raise BadArgument("cua.judge() needs a statement about the screen.")
        where = desktop or self.desktop
        entry = self._new_step(statement, where, kind="judge")
        image = self._judged_screen(where, entry)
        data = base64.b64encode(screens.to_png(image)).decode()
        self._keeper.sent(data, self._keeper.picture(image))
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": statement},
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": data,
                },
            },
        ]
        ending = self._converse(entry, where, blocks, None, max_turns=3)
        return Opinion(statement, bool(ending.holds), ending.summary)

    def __repr__(self) -> str:
        return f"Cua({self.test!r})"

    @contextmanager
    def flow(self, flow: Flow) -> Iterator[None]:
        """While this lasts, steps belong to a flow: one recording that many tests use. `@pytest_cua.flow` calls this.

        Raises:
            CassetteMismatch: The flow takes fewer steps, or uses other flows, than were recorded.
        """
        self._check_open()
        parent, deck = self._deck, self.open_flow(flow)
        self.decks.append(deck)
        self.context.keeper = deck.keeper
        if isinstance(deck.keeper, Player):
            self.broken_off.append(deck)
        try:
            yield
            if isinstance(deck.keeper, Player):
                deck.keeper.finish(len(deck.run.steps), deck.flows)
                self.broken_off.remove(deck)
        except CuaError as error:
            if not error.message.startswith("In flow "):
                error.message = f"In flow {flow.name} ({deck.folder}), used by {self.test}: {error.message}"
            raise
        finally:
            self.decks.pop()
            self.context.keeper = parent.keeper
            self.has_flow_replies = self.has_flow_replies or deck.keeper.has_replies
        if isinstance(parent.keeper, Recorder):
            parent.keeper.flow(flow.id, flow.title)
        parent.flows.append(flow.id)
        parent.earlier.append(flow.title)

    def end(self) -> None:
        """The fixture is over: its recording ends here."""
        self._ended = True

    # ------------------------------------------------------------------ inside

    def _check_open(self) -> None:
        """Refuse a step after the fixture's end.

        Raises:
            BadArgument: As in `teardown_method`, which pytest runs after the fixtures of the test.
        """
        if self._ended:
            raise BadArgument(
                f"`cua` of {self.test} has ended, and a step now would be in no recording.",
                "give what is to be done after the test to a fixture that takes `cua`, after its yield; "
                "pytest runs teardown_method later",
            )

    def _new_step(self, sentence: str, where: Any, kind: Any = "do") -> Step:
        self._check_open()
        number = len(self._deck.run.steps) + 1
        self._player = self._keeper.player_for(number)
        return Step(
            number=number,
            sentence=sentence,
            desktop=where.name,
            kind=kind,
            phase=self.context.phase,
            flow=self._deck.flow,
            is_replayed=self._player is not None,
        )

    def _converse(
        self,
        entry: Step,
        where: Any,
        blocks: list[dict[str, Any]],
        box: Toolbox | None,
        *,
        max_turns: int | None = None,
        timeout: int | None = None,
    ) -> Any:
        if self.latch.error is not None:
            raise self.latch.error
        deck, is_live = self._deck, self._player is None
        self.run.steps.append(entry)
        deck.run.steps.append(entry)
        conversation = Conversation(
            client=deck.client,
            model=deck.model,
            blocks=blocks,
            step=entry,
            tools=box.tools if box is not None else (),
            calls=box.calls if box is not None else Calls(),
            betas=box.betas if box is not None else (),
            threads=deck.threads,
            max_turns=max_turns or self.settings.max_turns,
            clock=Clock(timeout or self.settings.step_timeout),
            budget=self.budget,
            on_turn=self._begin_turn,
            is_live=is_live,
        )
        if is_live:
            self.budget.check_money(entry)
        try:
            with self._files_noted(entry, where):
                ending = run_conversation(conversation, deck.keeper)
            self._hold(entry)
            return ending
        except CuaError as error:
            entry.error = error.message
            raise
        finally:
            if entry.kind == "do":  # an opinion changes nothing, so what was asserted before it still counts
                self.context.evidence.step_done()

    @contextmanager
    def _files_noted(self, entry: Step, where: Any) -> Iterator[None]:
        """While recording, note which files of HOME the step made, changed or removed, for who reviews it."""
        if not isinstance(self._keeper, Recorder) or not where.is_live:
            yield
            return
        before = where.stamps()
        entry.files_changed = lambda: _changes(before, where.stamps())
        yield

    def _hold(self, entry: Step) -> None:
        """In a replay, give the application the time that Claude took to call the step done."""
        if self._check is None or self._player is None or entry.kind != "do" or not entry.actions:
            return
        recorded = self._player.cassette.step(entry.number)
        if recorded is not None and recorded.turns:
            self._check.still_stands(entry.actions[-1], recorded.turns[-1].waited_ms)

    def _begin_turn(self, turn: Turn) -> None:
        self._turn = turn
        if self._check is not None:
            entry = self.run.steps[-1]
            self._check.place = f"step {entry.number} {entry.sentence!r}, turn {turn.number}"

    # Listener of the toolset ------------------------------------------

    def picture(self, image: Any, key: str | None = None) -> str:
        """A frame: kept by the cassette."""
        return self._keeper.picture(image, key)

    def sent(self, data: str, key: str) -> None:
        """A picture that Claude is about to be sent: the cassette has it under this key."""
        self._keeper.sent(data, key)

    def action(self, action: Action) -> None:
        """An action that is done: into the trace and the cassette."""
        if self._turn is not None:
            self._turn.actions.append(action)
        self._keeper.action(action)

    def _toolbox(self, where: Desktop | RecordedDesktop, values: Mapping[str, str | Secret]) -> Toolbox:
        return toolbox(
            self._around(where, values),
            self._scaling(where),
            version=self._deck.version,
            more=self.tools,
            partners=lambda name: self.partner(name, where),
            confirm=self.confirm,
        )

    def _around(self, where: Desktop | RecordedDesktop, values: Mapping[str, str | Secret]) -> Live | Recorded:
        if not where.is_live:
            assert self._player is not None
            return Recorded(
                recorded=self._player.recorded_action,
                screen=self._player.screen,
                file=self._player.picture_file,
                missing=self._missing_action,
                listener=self,
            )
        desktop: Any = where
        self._check = self._screen_check(desktop)
        check = self._check or NoCheck(desktop)
        most = model_info(self._deck.model).max_images
        return Live(desktop, listener=self, check=check, params=values, quiet=self.settings.quiet, max_pictures=most)

    def _scaling(self, desktop: Any) -> Scaling:
        info = model_info(self._deck.model)
        edge = min(info.long_edge, MANY_IMAGES_EDGE)
        return Scaling(desktop.size, sent_size(desktop.size, long_edge=edge, tokens=info.image_tokens))

    def _screen_check(self, desktop: Any) -> ScreenCheck | None:
        """What a replay checks; the boxes to leave out must lie on the screen, while recording already."""
        for box in self.settings.exclude:
            screens.Area(*box, type="exclude").check_inside(desktop.size)
        if self._player is None:
            return None
        return ScreenCheck(
            self._player,
            desktop,
            exclude=self.settings.exclude,
            timeout=self.settings.drift_timeout,
            artifacts=self.context.artifacts,
            scaling=self._scaling(desktop),
        )

    def _missing_action(self, what: str) -> NoReturn:
        assert self._player is not None
        raise self.latch.set(
            CassetteMismatch(
                f"{self._deck.folder}: the recording holds no result for {what}.",
                f"record it again: {self._player.record_again()}",
            )
        )

    def _judged_screen(self, where: Any, entry: Step) -> Any:
        """The screen to judge: live, and in a replay the recorded one, which the live one must still be."""
        recorded = None
        if self._player is not None:
            step = self._player.cassette.step(entry.number)
            recorded = self._player.screen(key) if step and (key := _judged_key(step)) else None
        if not where.is_live:
            return recorded if recorded is not None else Image.new("RGB", where.size)
        check = self._screen_check(where)
        if check is not None and recorded is not None:
            check.place = f"step {entry.number}"
            assert self._player is not None
            masked = recorded_masks(self._player.cassette, entry.number, where.name)
            return check.judged(recorded, entry.sentence, masked=masked)
        where.wait_until_still(quiet=self.settings.quiet)
        return where.capture()


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[str]]:
    """What became of files, by name; empty where nothing did."""
    found = {
        "created": sorted(after.keys() - before.keys()),
        "changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
        "removed": sorted(before.keys() - after.keys()),
    }
    return {what: names[:_MOST_FILES] for what, names in found.items() if names}


def _judged_key(step: Any) -> str | None:
    for turn in step.turns:
        for message in turn.new:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "image":
                    return block.get("screen")  # type: ignore[no-any-return]
    return None


def _checked_params(step: str, params: Mapping[str, object]) -> dict[str, str | Secret]:
    values: dict[str, str | Secret] = {}
    named = placeholders(step)
    for name, value in params.items():
        if not name.isidentifier():
            raise BadArgument(f"{name!r} is no name for a parameter: use letters, digits and underscores.")
        if name not in named:
            raise BadArgument(f"The sentence {step!r} has no placeholder {{{name}}} for params[{name!r}].")
        values[name] = value.named(name) if isinstance(value, Secret) else str(value)
    for name in named:
        if name not in values:
            raise BadArgument(
                f"The sentence {step!r} has the placeholder {{{name}}}, and params has no value for it."
                f"{suggestion(name, values)}",
                f"give it: cua.do(..., params={{{name!r}: ...}})",
                f"if braces are meant, double them: {{{{{name}}}}}",
            )
    return values
