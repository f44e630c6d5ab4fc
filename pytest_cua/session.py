"""The state of a run, and of each test in it: what the fixtures and hooks share."""

from __future__ import annotations

import functools
import hashlib
import re
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cua.errors import CassetteMismatch, CassetteMissing, NeedsApplication, VacuousTest, shell_quoted

if TYPE_CHECKING:
    from pytest_cua.agent.cua import Cua
    from pytest_cua.observe import TestContext
    from pytest_cua.settings import Settings

NEEDS = "needs the application"  # in every reason for which `offline` skips
_FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


@dataclass
class RunSession:
    """One run: its settings and the money it has spent."""

    settings: Settings
    _purse: Any = None

    def begin(self, test: str, settings: Settings, *, rootpath: Path) -> TestState:
        """The state of a test that begins."""
        from pytest_cua.agent.budget import Purse
        from pytest_cua.assertions.evidence import Evidence
        from pytest_cua.cassette.store import cassette_folder
        from pytest_cua.observe import TestContext, current

        self._purse = self._purse or Purse(self.settings.max_cost_run)
        folder = cassette_folder(settings.cassette_dir, test)
        artifacts = settings.artifacts_dir / folder.relative_to(settings.cassette_dir)
        context = TestContext(test=test, settings=settings, evidence=Evidence(), folder=folder, artifacts=artifacts)
        current.append(context)
        return TestState(test, settings, context, purse=self._purse, rootpath=rootpath)

    def summary(self, reporter: Any) -> None:
        """The lines at the end of a run."""
        properties = [dict(r.user_properties) for r in _reports(reporter) if getattr(r, "when", None) == "teardown"]
        lines = _summary_lines([p for p in properties if "cua_mode" in p])
        if self.settings.mode == "offline":
            lines += self._offline_lines(reporter)
        if not lines:
            return
        reporter.section("pytest-cua", sep="-")
        for line in lines:
            reporter.line(line)

    def _offline_lines(self, reporter: Any) -> list[str]:
        reasons = [
            (r.nodeid, r.longrepr[2]) for r in reporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)
        ]
        lines = [f"not judged: {test}: {why.removeprefix('Skipped: ')}" for test, why in reasons if NEEDS in why]
        lines.append("application not exercised: offline judges prompts, tools and test code on what was recorded")
        if self.judged_nothing(reporter):
            lines.append("every test was skipped, so nothing was judged: this run counts as failed")
        return lines

    def judged_nothing(self, reporter: Any) -> bool:
        """Whether this was an offline run in which every test was skipped."""
        if self.settings.mode != "offline":
            return False
        stats = reporter.stats
        return bool(stats.get("skipped")) and not any(
            stats.get(name) for name in ("passed", "failed", "error", "xfailed")
        )


def _reports(reporter: Any) -> list[Any]:
    return [r for reports in reporter.stats.values() for r in reports if hasattr(r, "user_properties")]


def _summary_lines(properties: list[dict[str, Any]]) -> list[str]:
    """What the properties of all tests come to."""
    recorded = [p["cua_recorded"] for p in properties if "cua_recorded" in p]
    kept = [p["cua_kept"] for p in properties if "cua_kept" in p]
    lines = [f"recorded {path}" for path in recorded]
    if recorded:
        lines.append(
            "next: read steps.md there, look at proposed baselines, pytest-cua accept TEST, and commit the folder"
        )
    lines += [f"kept aside (the test failed): {path}" for path in kept]
    lines += [note for p in properties for note in p.get("cua_notes", "").splitlines()]
    if recorded or kept:
        lines.append(_cost_line([p for p in properties if "cua_recorded" in p or "cua_kept" in p]))
    weaker = {p["cua_isolation"] for p in properties if p.get("cua_isolation", "").startswith("process group (bwrap")}
    lines += [f"isolation: {words}; programs saw this user's files" for words in sorted(weaker)]
    return lines


def _cost_line(properties: list[dict[str, Any]]) -> str:
    tokens_in = sum(p["cua_input_tokens"] for p in properties)
    tokens_out = sum(p["cua_output_tokens"] for p in properties)
    costs = [p["cua_cost_usd"] for p in properties]
    scripted = all(p.get("cua_endpoint") in ("scripted", "none") for p in properties)
    cost = "price not known" if None in costs else f"{sum(costs):.4f} USD by the price list"
    note = " (scripted model: nothing was paid)" if scripted else ""
    return f"{tokens_in} tokens in, {tokens_out} out, {cost}{note}"


@dataclass
class TestState:
    """One test: its cassette, its desktops, its `cua`."""

    __test__ = False

    test: str
    settings: Settings
    context: TestContext
    purse: Any
    rootpath: Path
    recording: bool = False
    passed: bool = False
    kept: Path | None = None
    cua: Cua | None = None
    desktops: list[Any] = field(default_factory=list)
    _keeper: Any = None
    _writer: Any = None
    _cassette: Any = None
    _run: Any = None
    _latch: Any = None
    _http: Any = None
    _committed: bool = False
    isolation: str = ""  # of its desktops, once one has started
    goes_on: bool = False  # a fixture of the user's has more to do after the test

    # ------------------------------------------------------------------ set-up

    def open_cassette(self) -> None:
        """Decide between recording and replaying, and open the one or the other.

        Raises:
            CassetteMissing, CassetteUnreadable, CassetteUnwritable: As their names say.
        """
        from pytest_cua.cassette.recorder import Latch, Player
        from pytest_cua.cassette.store import CassetteWriter, load_cassette
        from pytest_cua.trace import Run

        self._run = Run(test=self.test, mode=self.settings.mode)
        self._latch = self.context.latch = Latch()
        mode = self.settings.mode
        self.recording = mode == "record"
        if mode != "record":
            try:
                self._cassette = load_cassette(self.settings.cassette_dir, self.test)
            except CassetteMissing:
                if mode != "record-missing":
                    raise
                self.recording = True
        self.context.recording = self.recording
        if self.recording:
            self._writer = CassetteWriter(self.context.folder)
            return
        self._keeper = Player(self._cassette, test=self.test, latch=self._latch)
        self.context.keeper = self._keeper

    def start_desktop(self, name: str | None = None, *, size: tuple[int, int] | None = None) -> Any:
        """Start a desktop, or in `offline` stand a recorded one in its place.

        Args:
            name: What messages call it; None takes its ordinal.
            size: Width and height in pixels; None takes the setting.
        """
        from pytest_cua.observe import TestObserver

        name = name or str(len(self.desktops) + 1)
        observer = TestObserver(self.context, name)
        size = size or self.settings.size
        if not self.settings.has_desktop:
            from pytest_cua.desktop.recorded import RecordedDesktop

            recorded: Any = RecordedDesktop(observer, name, size)
            self.desktops.append(recorded)
            return recorded
        from pytest_cua.desktop.desktop import Desktop, DesktopConfig

        settings = self.settings
        config = DesktopConfig(
            size=size,
            shell=settings.shell,
            isolation=settings.isolation,
            gl=settings.gl,
            locale=settings.locale,
            timezone=settings.timezone,
            home=settings.home,
            expose=shown_inside(self.rootpath),
        )
        desktop: Any = Desktop.start(config, observer=observer, name=name)
        self.desktops.append(desktop)
        self.isolation = str(desktop.isolation)
        desktop.browser = self._counted(desktop.browser)
        return desktop

    def _counted(self, browser: Callable[..., Any]) -> Callable[..., Any]:
        """`Desktop.browser`, whose page the test reads without us: it is counted as given."""

        @functools.wraps(browser)
        def given(*args: Any, **kwargs: Any) -> Any:
            page = browser(*args, **kwargs)
            self.context.evidence.handle_given()
            return page

        return given

    def make_cua(self, desktop: Any, client: Any, confirm: Callable[[Any], bool] | None) -> Cua:
        """The object that the test gets."""
        from pytest_cua.agent.budget import Budget
        from pytest_cua.agent.cua import Cua
        from pytest_cua.model import replay_client

        settings = self.settings
        if self.recording:
            self._keeper = self._recorder(desktop)
            self.context.keeper = self._keeper
            model = settings.model
        else:
            header = self._cassette.header
            model = header["model"]
            self._check_display(desktop, header["display"])
            settings = replace(settings, threads=self._recorded_threads())
            client = replay_client()
        self.cua = Cua(
            test=self.test,
            settings=settings,
            desktop=desktop,
            keeper=self._keeper,
            client=client.with_options(middleware=[*client.middleware, self._keeper]),
            model=model,
            run=self._run,
            latch=self._latch,
            budget=Budget(settings.max_cost, self.purse),
            evidence=self.context.evidence,
            artifacts=self.context.artifacts,
            confirm=confirm,
        )
        return self.cua

    def open_http(self, client: Any, config: Any) -> None:
        """Let vcrpy keep or answer the test's other HTTP calls, from here to the end of the test."""
        from pytest_cua.cassette.http import HttpRecording, place_of

        context = self.context
        mode: Any = "record" if self.recording else "replay" if self.settings.has_desktop else "offline"
        recording = HttpRecording(
            mode=mode,
            folder=self._writer.aside if self.recording else context.folder,
            recorded_hosts=self.settings.http_recorded,
            passed_over=[place_of(str(client.base_url))] if client is not None else [],
            config=config,
            on_request=lambda request: context.evidence.state_read(),
            on_missing=context.needs_application,
        )
        self._http = recording.__enter__()  # kept only once it is entered: it cannot be left otherwise

    def _close_http(self) -> None:
        if self._http is not None:
            http, self._http = self._http, None
            http.__exit__(None, None, None)

    def _recorder(self, desktop: Any) -> Any:
        from pytest_cua.agent.prompt import prompt_digest
        from pytest_cua.cassette.recorder import Recorder, header_line
        from pytest_cua.model import TOOLSET

        header = header_line(
            test=self.test,
            model=self.settings.model,
            tools=[TOOLSET],
            prompt_digest=prompt_digest(),
            display={"width": desktop.size[0], "height": desktop.size[1]},
            environment=environment_of(desktop, self.settings),
        )
        return Recorder(self._writer, header=header, run=self._run)

    def _check_display(self, desktop: Any, display: Any) -> None:
        size = (display["width"], display["height"])
        if desktop.size != size:
            raise CassetteMismatch(
                f"{self._cassette.file} was recorded on a desktop of {size[0]}x{size[1]} pixels; "
                f"this one has {desktop.size[0]}x{desktop.size[1]}.",
                f"set cua_size to {size[0]}x{size[1]}, or record the test again: "
                f"pytest --cua-mode=record {shell_quoted(self.test)}",
            )

    def _recorded_threads(self) -> bool:
        turns = [turn for step in self._cassette.steps for turn in step.turns]
        return not turns or "thread" in turns[0].params

    # ------------------------------------------------------------------ the end

    def settle(self, error: BaseException | None) -> None:
        """The test's function has ended; raise what it hid, or that it asserted nothing.

        Raises:
            CuaFailure: A latched or collected failure, or a vacuous test.
        """
        try:
            self._raise_hidden(error)
            if error is None:
                self._raise_soft_failures()
                if not self.goes_on:
                    self._judge()
                self.passed = True
        finally:
            if not self.passed:
                self._keep_aside()

    def settle_fixtures(self) -> None:
        """The user's fixtures that use `cua` have ended: settle what they did after the test.

        Raises:
            CuaFailure: As `settle`.
        """
        if not self.passed:
            return
        self.passed = False
        self._raise_hidden(None)
        self._raise_soft_failures()
        if self.goes_on:
            self._judge()
        self.passed = True

    def _raise_hidden(self, error: BaseException | None) -> None:
        needs, first = self.context.needs, self.context.failed_first
        if needs is not None and (first is None or not _led_to(first, error)):
            raise NeedsApplication(needs)
        if isinstance(error, NeedsApplication) and first is not None:
            raise first from first.__cause__  # lost otherwise: a `finally` after it needed the application
        hidden = self._latch.error if self._latch else None
        if hidden is not None and error is not hidden:
            raise hidden from None
        if isinstance(error, NeedsApplication):
            self._raise_soft_failures()  # they came first

    def _raise_soft_failures(self) -> None:
        if self.context.soft_failures:
            from pytest_cua.assertions.expect import raise_soft_failures

            raise_soft_failures(self.context)

    def _judge(self) -> None:
        from pytest_cua.assertions.evidence import ADVICE

        if self.cua is not None and not self.recording:
            self._keeper.finish(len(self._run.steps))
        if self.cua is not None:
            self.context.evidence.judges = sum(step.kind == "judge" for step in self._run.steps)
        if self.settings.strict and self.cua is not None and not self.context.evidence.is_enough:
            raise VacuousTest(self.context.evidence.complaint(self.test), ADVICE)

    def _keep_aside(self) -> None:
        self._close_http()
        if self.recording and not self._committed:
            self._committed = True
            if self._keeper is not None:
                self.kept = self._keeper.close(passed=False)
            elif self._writer is not None:
                self._writer.keep_aside()

    def end(self, *, passed: bool) -> None:
        """The test's fixtures are done: when all of it passed, the new recording takes its place.

        Raises:
            CassetteUnwritable: It cannot.
        """
        self.passed = self.passed and passed
        if self.recording and self.passed and not self._committed and self._keeper is not None:
            self._close_http()
            self._committed = True
            self.passed = False  # until it lies there
            self._keeper.close(passed=True)
            self.passed = True
        self._keep_aside()

    def close_desktops(self) -> None:
        """End every desktop of the test."""
        desktops, self.desktops = self.desktops, []
        with ExitStack() as stack:  # each is closed, whatever the others say
            for desktop in desktops:
                stack.callback(desktop.close)

    def close(self) -> None:
        """Forget the test; a recording that passed waits for `end`."""
        from pytest_cua.observe import current

        try:
            self._close_http()
        finally:
            if self.context in current:
                current.remove(self.context)
            if not self.passed:
                self._keep_aside()

    # ------------------------------------------------------------------ what reports say

    def steps_section(self) -> list[str]:
        """The steps so far, a line each."""
        from pytest_cua.cassette.redact import environment_secrets, redact_text

        lines: list[str] = []
        for step in self._run.steps if self._run else ():
            mark = "✓" if step.outcome == "done" else "✗"
            lines.append(
                f"{mark} {step.number}. {step.sentence} ({len(step.turns)} turns, {len(step.actions)} actions, "
                f"{step.duration_ms / 1000:.1f} s)"
            )
            lines += [f"    {action.words()}" for action in step.actions]
        if self.context.soft_failures:
            lines.append("Soft expectations that did not hold:")
            lines += [textwrap.indent(str(failure), "    ") for failure in self.context.soft_failures]
        secrets = environment_secrets()
        lines = [redact_text(line, secrets) for line in lines]  # what was typed may be one
        if self.kept is not None:
            lines.append(f"The recording was kept aside: {self.kept}")
            lines.append(self._hint_for_kept())
        return lines

    def _hint_for_kept(self) -> str:
        from pytest_cua.cassette.store import is_adoptable

        assert self.kept is not None
        if is_adoptable(self.kept):
            return f"hint: if only the test was wrong, adopt it: pytest-cua accept {shell_quoted(self.test)}"
        return f"It ends inside a step, so it can be read (pytest-cua show {self.kept}), not replayed."

    def properties(self) -> list[tuple[str, Any]]:
        """What JUnit reports and the summary show of the test."""
        found: list[tuple[str, Any]] = [("cua_mode", self.settings.mode)]
        if self.cua is not None:
            usage = self._run.usage
            found += [
                ("cua_steps", len(self._run.steps)),
                ("cua_turns", sum(len(step.turns) for step in self._run.steps)),
                ("cua_actions", sum(1 for _ in self._run.actions())),
                ("cua_input_tokens", usage.input_tokens),
                ("cua_output_tokens", usage.output_tokens),
                ("cua_cost_usd", usage.cost_usd),
            ]
            if self.recording and self.passed:
                found.append(("cua_recorded", str(self.context.folder)))
        if self.isolation:
            found.append(("cua_isolation", self.isolation))
        if self.kept is not None:
            found.append(("cua_kept", str(self.kept)))
        if self.recording and self._keeper is not None:
            found.append(("cua_endpoint", self._keeper.endpoint))
        if self.context.notes:
            found.append(("cua_notes", "\n".join(self.context.notes)))
        return found


def _led_to(first: BaseException, error: BaseException | None) -> bool:
    """Whether `error` is `first`, or was raised while that was on its way out."""
    while error is not None and error is not first:
        error = error.__context__
    return error is first


def shown_inside(root: Path) -> tuple[Path, ...]:
    """What the desktop's programs see of the project: its root, unless each desktop has a folder of that name."""
    from pytest_cua.desktop.isolation import may_be_exposed

    return (root,) if may_be_exposed(root) else ()


def environment_of(desktop: Any, settings: Settings) -> dict[str, Any]:
    """The facts of this machine that show in pixels, for the header of a recording."""
    font = hashlib.sha256(_FONT.read_bytes()).hexdigest()[:16] if _FONT.exists() else None
    return {
        "shell": settings.shell,
        "isolation": re.sub(r" .*", "", str(desktop.isolation)),
        "locale": settings.locale,
        "timezone": settings.timezone,
        "dpi": 96,
        "font": font,
    }
