"""The `cua` object of a test: `do`, `judge`, and what belongs to them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import anthropic
from PIL import Image

from pytest_cua import screens
from pytest_cua.agent.budget import Budget, Clock
from pytest_cua.agent.loop import Conversation, run_conversation
from pytest_cua.agent.outcome import Opinion, StepResult
from pytest_cua.agent.prompt import opening
from pytest_cua.cassette.recorder import Latch, Player, Recorder
from pytest_cua.errors import BadArgument, CassetteMismatch, CuaError, shell_quoted
from pytest_cua.model import model_info
from pytest_cua.replay.check import NoCheck, ScreenCheck
from pytest_cua.tools.computer import Computer, RecordedComputer
from pytest_cua.tools.scaling import Scaling, sent_size
from pytest_cua.trace import Action, Run, Step, Turn, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cua.assertions.evidence import Evidence
    from pytest_cua.desktop.desktop import Desktop
    from pytest_cua.desktop.recorded import RecordedDesktop
    from pytest_cua.settings import Settings


@dataclass
class Cua:
    """Gives sentences to the agent, and the desktop to the test.

    Attributes:
        desktop: The desktop on which steps run unless told otherwise.
        is_live: Whether a model is asked in this run.
    """

    test: str
    settings: Settings
    desktop: Desktop | RecordedDesktop
    keeper: Recorder | Player
    client: anthropic.Anthropic
    model: str
    run: Run
    latch: Latch
    budget: Budget
    evidence: Evidence
    artifacts: Path
    confirm: Callable[[Any], bool] | None = None
    _turn: Turn | None = field(default=None, repr=False)
    _check: ScreenCheck | None = field(default=None, repr=False)

    @property
    def is_live(self) -> bool:
        """Whether a model is asked in this run."""
        return isinstance(self.keeper, Recorder)

    @property
    def cassette(self) -> Path:
        """The folder of this test's recording."""
        return self.keeper.writer.folder if isinstance(self.keeper, Recorder) else self.keeper.cassette.folder

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
            params: The values, by name.
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
        number = len(self.run.steps) + 1
        earlier = [s.sentence for s in self.run.steps if s.kind == "do" and s.outcome == "done"]
        entry = Step(number=number, sentence=step, desktop=where.name)
        toolset = self._toolset(where, values)
        blocks = opening(step, earlier=earlier, params=values)
        self._converse(entry, blocks, toolset, max_turns, timeout)
        return StepResult(entry, tuple(toolset.pictures))

    def judge(self, statement: str, *, desktop: Desktop | RecordedDesktop | None = None) -> Opinion:
        """Ask the model whether a statement holds on the screen: an opinion, recorded and labelled so.

        It never counts as a test's assertion: what decides a test is evaluated on the application in each run.

        Raises:
            ScreenDrift: The screen that was judged while recording is not the one that is there now.
        """
        if not isinstance(statement, str) or not statement.strip():
            raise BadArgument("cua.judge() needs a statement about the screen.")
        where = desktop or self.desktop
        entry = Step(number=len(self.run.steps) + 1, sentence=statement, desktop=where.name, kind="judge")
        image = self._judged_screen(where, entry)
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": statement},
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": base64.b64encode(screens.to_png(image)).decode(),
                },
            },
        ]
        ending = self._converse(entry, blocks, None, 3, None)
        return Opinion(statement, bool(ending.holds), ending.summary)

    def __repr__(self) -> str:
        return f"Cua({self.test!r})"

    # ------------------------------------------------------------------ inside

    def _converse(
        self, entry: Step, blocks: list[dict[str, Any]], toolset: Any, max_turns: int | None, timeout: int | None
    ) -> Any:
        if self.latch.error is not None:
            raise self.latch.error
        self.run.steps.append(entry)
        conversation = Conversation(
            client=self.client,
            model=self.model,
            blocks=blocks,
            step=entry,
            toolset=toolset,
            threads=self.settings.threads,
            max_turns=max_turns or self.settings.max_turns,
            clock=Clock(timeout or self.settings.step_timeout),
            budget=self.budget,
            on_turn=self._begin_turn,
            is_live=self.is_live,
        )
        if self.is_live:
            self.budget.check_money(entry)
        try:
            ending = run_conversation(conversation, self.keeper)
            self._hold(entry)
            return ending
        except CuaError as error:
            entry.error = error.message
            raise
        finally:
            if entry.kind == "do":  # an opinion changes nothing, so what was asserted before it still counts
                self.evidence.step_done()

    def _hold(self, entry: Step) -> None:
        """In a replay, give the application the time that Claude took to call the step done."""
        if self._check is None or not isinstance(self.keeper, Player) or entry.kind != "do" or not entry.actions:
            return
        recorded = self.keeper.cassette.step(entry.number)
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
        return self.keeper.picture(image, key)

    def action(self, action: Action) -> None:
        """An action that is done: into the trace and the cassette."""
        if self._turn is not None:
            self._turn.actions.append(action)
        self.keeper.action(action)

    def _toolset(self, where: Desktop | RecordedDesktop, values: Mapping[str, str]) -> Any:
        if not where.is_live:
            assert isinstance(self.keeper, Player)
            return RecordedComputer(
                recorded=self.keeper.recorded_action,
                screen=self.keeper.screen,
                missing=self._missing_action,
                listener=self,
                confirm=self.confirm,
            )
        desktop: Any = where
        self._check = self._screen_check(desktop)
        return Computer(
            desktop,
            listener=self,
            check=self._check or NoCheck(desktop),
            confirm=self.confirm,
            scaling=self._scaling(desktop),
            params=values,
            quiet=self.settings.quiet,
        )

    def _scaling(self, desktop: Any) -> Scaling:
        info = model_info(self.model)
        return Scaling(desktop.size, sent_size(desktop.size, long_edge=info.long_edge, tokens=info.image_tokens))

    def _screen_check(self, desktop: Any) -> ScreenCheck | None:
        """What a replay checks; the boxes to leave out must lie on the screen, while recording already."""
        for box in self.settings.exclude:
            screens.Area(*box, type="exclude").check_inside(desktop.size)
        if not isinstance(self.keeper, Player):
            return None
        return ScreenCheck(
            self.keeper,
            desktop,
            exclude=self.settings.exclude,
            timeout=self.settings.drift_timeout,
            artifacts=self.artifacts,
            scaling=self._scaling(desktop),
        )

    def _missing_action(self, what: str) -> NoReturn:
        raise self.latch.set(
            CassetteMismatch(
                f"{self.cassette}: the recording holds no result for {what}.",
                f"record the test again: pytest --cua-mode=record {shell_quoted(self.test)}",
            )
        )

    def _judged_screen(self, where: Any, entry: Step) -> Any:
        """The screen to judge: live, and in a replay the recorded one, which the live one must still be."""
        recorded = None
        if isinstance(self.keeper, Player):
            step = self.keeper.cassette.step(entry.number)
            recorded = self.keeper.screen(key) if step and (key := _judged_key(step)) else None
        if not where.is_live:
            return recorded if recorded is not None else Image.new("RGB", where.size)
        check = self._screen_check(where)
        if check is not None and recorded is not None:
            check.place = f"step {entry.number}"
            return check.judged(recorded, entry.sentence)
        where.wait_until_still(quiet=self.settings.quiet)
        return where.capture()


def _judged_key(step: Any) -> str | None:
    for turn in step.turns:
        for message in turn.new:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "image":
                    return block.get("screen")  # type: ignore[no-any-return]
    return None


def _checked_params(step: str, params: Mapping[str, object]) -> dict[str, str]:
    values = {}
    for name, value in params.items():
        if not name.isidentifier():
            raise BadArgument(f"{name!r} is no name for a parameter: use letters, digits and underscores.")
        if f"{{{name}}}" not in step:
            raise BadArgument(f"The sentence {step!r} has no placeholder {{{name}}} for params[{name!r}].")
        values[name] = str(value)
    return values
