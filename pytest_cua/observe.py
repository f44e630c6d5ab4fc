"""The one hook through which a test reads: what it sees is counted, kept while recording, and answered in `offline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pytest_cua.errors import NeedsApplication

if TYPE_CHECKING:
    from pytest_cua.assertions.evidence import Evidence
    from pytest_cua.cassette.player import Player
    from pytest_cua.cassette.recorder import Recorder
    from pytest_cua.settings import Settings

T = TypeVar("T")


@dataclass
class TestContext:
    """What the assertions of one test need to know about it.

    Attributes:
        test: The node id.
        folder: The test's folder of cassette and baselines.
        artifacts: Where pictures of failures go.
        keeper: The recorder or player; None in a test that uses a desktop without `cua`.
        recording: Whether a cassette is being recorded.
        soft_failures: What `expect.soft` collected.
        notes: Lines for the report ("recorded", "proposed").
        compared: The names of the baselines that were looked at.
        needs: What `offline` held no answer for.
        failed_first: The failure during which it was asked for, as in a `finally`.
    """

    __test__ = False  # not a class of tests, whatever its name begins with

    test: str
    settings: Settings
    evidence: Evidence
    folder: Path
    artifacts: Path
    keeper: Recorder | Player | None = None
    recording: bool = False
    soft_failures: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: set[str] = field(default_factory=set)
    needs: str | None = None  # what `offline` could not answer; kept, so that no `except` can hide it
    failed_first: BaseException | None = None  # what was already on its way out then
    latch: Any = None  # the first mismatch, once a cassette is open
    phase: str = "setup"  # of the test: the part that runs just now

    @property
    def is_offline(self) -> bool:
        """Whether everything comes from the cassette."""
        return not self.settings.has_desktop

    def needs_application(self, what: str) -> NoReturn:
        """End the test as skipped, now, or at its end if something catches this.

        Raises:
            NeedsApplication: Always.
        """
        raise NeedsApplication(f"needs the application: {what}")  # noted by `note_need`

    def note_need(self, reason: str) -> None:
        """Remember the first thing that `offline` could not answer, unless the test had failed before."""
        if not self.is_offline or self.needs is not None or self.soft_failures:
            return
        if self.latch is None or self.latch.error is None:
            self.needs, self.failed_first = reason, self.evidence.failure_underway()


current: list[TestContext] = []  # the innermost is the test that runs now


def _note_need(reason: str) -> None:
    if current:
        current[-1].note_need(reason)


NeedsApplication.noted_by.append(_note_need)


class TestObserver:
    """Reads for one desktop of one test."""

    __test__ = False

    def __init__(self, context: TestContext, desktop: str) -> None:
        self.context = context
        self.desktop = desktop
        self._polling = 0
        self._pending: dict[tuple[str, str], Any] = {}

    def observe(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        """Read, count and keep one observation.

        Raises:
            NeedsApplication: `offline`, and nothing was kept for it.
        """
        context = self.context
        if not self._polling:
            context.evidence.state_read()
        if context.is_offline:
            return self._recorded(kind, subject, read)
        value = read()
        if self._polling:
            self._pending[kind, subject] = value
        else:
            self._keep(kind, subject, value)
        return value

    def handed_out(self, kind: str, subject: str) -> None:
        """Count it: what the test reads by itself cannot be seen."""
        self.context.evidence.handle_given()

    def _recorded(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        keeper: Any = self.context.keeper
        if keeper is None:
            return read()  # a recorded desktop without a cassette says itself that it needs the application
        value = keeper.recorded_observation(kind, subject, self.desktop)
        if kind == "windows":
            from pytest_cua.desktop.desktop import Window

            value = [Window(**{**window, "box": tuple(window["box"])}) for window in value]
        return value  # type: ignore[no-any-return]

    def _keep(self, kind: str, subject: str, value: Any) -> None:
        if self.context.keeper is None:
            return
        if kind == "windows":
            value = [asdict(window) for window in value]
        self.context.keeper.observation(kind, subject, self.desktop, value)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """While an `expect` looks again and again, only what it saw last is kept."""
        self._polling += 1
        try:
            yield
        finally:
            self._polling -= 1
            pending, self._pending = self._pending, {}
            for (kind, subject), value in pending.items():
                self._keep(kind, subject, value)
