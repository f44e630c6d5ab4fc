"""The state of a run, and of each test in it: what the fixtures and hooks share."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import re
import subprocess
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cua.errors import (
    CassetteMismatch,
    CassetteMissing,
    CassetteUnreadable,
    CassetteUnwritable,
    CuaError,
    CuaWarning,
    NeedsApplication,
    UndeclaredRequest,
    VacuousTest,
    cua_command,
    path_quoted,
    pytest_command,
    shell_quoted,
)
from pytest_cua.versions import TOOLSET, VERSIONS

if TYPE_CHECKING:
    from pytest_cua.agent.cua import Cua, Deck
    from pytest_cua.agent.flow import Flow
    from pytest_cua.observe import TestContext
    from pytest_cua.settings import Settings

NEEDS = "needs the application"  # in every reason for which `offline` skips
_FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


@dataclass(frozen=True)
class Kept:
    """A recording that was kept aside: its folder, the test that made it, and the test or flow that it is of."""

    folder: Path
    by: str
    of: str


@dataclass
class RunSession:
    """One run: its settings and the money it has spent."""

    settings: Settings
    started: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"))
    unused: Any = None
    found: dict[str, list[str]] = field(default_factory=lambda: {"ids": [], "files": [], "left_out": []})  # `Collected`
    is_partial: bool = False  # tests were deselected, left out or not collected, or a worker died
    kept: list[Kept] = field(default_factory=list)
    _purse: Any = None
    _fails: bool = False  # for what is unused

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
        return TestState(
            test,
            settings,
            context,
            purse=self._purse,
            rootpath=rootpath,
            run_started=self.started,
            kept_by_run=self.kept,
        )

    def find_unused(self, project: Path, places: list[str], reporter: Any) -> None:
        """At the end of a complete run: look for recordings that no test uses, and baselines that none compares.

        Args:
            project: The root of test ids.
            places: The files and folders that were asked for, relative to it.
            reporter: pytest's terminal reporter, which knows what passed; without one (None) no baseline is judged.
        """
        root = self.settings.cassette_dir
        if self.settings.unused != "off" and root.is_dir():
            from pytest_cua.cassette.suite import Collected, find_unused

            found = {name: frozenset(ids) for name, ids in self.found.items()}
            collected = Collected(**found, places=places, compared={})
            self.unused = find_unused(root, project, collected)
            if reporter is not None:
                self._find_unseen(project, collected, reporter)
            self._fails = self.settings.unused == "fail" and bool(self.unused)

    def _find_unseen(self, project: Path, collected: Any, reporter: Any) -> None:
        """Add the baselines that tests do not look at, and note them for `pytest-cua prune`."""
        from pytest_cua.cassette.unseen import note, unseen

        root = self.settings.cassette_dir
        compared = {test: names for test, names in _compared(reporter).items() if collected.covers(test)}
        self.unused.baselines = unseen(root, compared)
        note(self.unused.baselines, root, project, compared)

    def summary(self, reporter: Any) -> None:
        """The lines at the end of a run."""
        ended = [report for report in _reports(reporter) if getattr(report, "when", None) == "teardown"]
        properties = [dict(report.user_properties) for report in ended]
        lines = _summary_lines([p for p in properties if "cua_mode" in p])
        lines += self._interrupted_lines({report.nodeid for report in ended})
        if self.settings.mode == "offline":
            lines += self._offline_lines(reporter)
        if self.unused:
            lines += self.unused.lines(self.settings.cassette_dir)
            lines.append(f"remove what is unused: {cua_command('prune')}")
            if self._fails:
                lines.append("--cua-unused=fail: this run counts as failed")
        if not lines:
            return
        reporter.section("pytest-cua", sep="-")
        for line in lines:
            reporter.line(line)

    def _interrupted_lines(self, ended: set[str]) -> list[str]:
        """What was kept aside of a test that came to no report: Ctrl-C or `pytest.exit` ended the run in it."""
        lines = []
        for kept in self.kept:
            if kept.by not in ended:
                lines.append(f"kept aside (the run was interrupted): {kept.folder}")
                lines += [f"  {line}" for line in hint_for_kept(kept.folder, kept.of).splitlines()]
        return lines

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


def _compared(reporter: Any) -> dict[str, list[str]]:
    """For each test that passed in all its parts, the baselines that it looked at."""
    passed: dict[str, list[str]] = {}
    others = set()
    for report in _reports(reporter):
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            others.add(report.nodeid)
        elif report.when == "teardown":
            passed[report.nodeid] = dict(report.user_properties).get("cua_baselines", "").splitlines()
    return {test: names for test, names in passed.items() if test not in others}


def _summary_lines(properties: list[dict[str, Any]]) -> list[str]:
    """What the properties of all tests come to."""
    recorded = [p["cua_recorded_size"] for p in properties if "cua_recorded_size" in p]
    kept = [p["cua_kept"] for p in properties if "cua_kept" in p]
    lines = [f"recorded {line}" for told in recorded for line in told.splitlines()]
    if recorded:
        accept = cua_command("accept", "TEST")
        lines.append(f"next: read steps.md there, look at proposed baselines, {accept}, and commit the folder")
    lines += [f"kept aside (the test failed): {path}" for paths in kept for path in paths.splitlines()]
    lines += list(dict.fromkeys(note for p in properties for note in p.get("cua_notes", "").splitlines()))
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
    run_started: str
    kept_by_run: list[Kept] = field(default_factory=list)
    recording: bool = False
    passed: bool = False
    kept: Path | None = None
    _kept_flows: list[Path] = field(default_factory=list)
    cua: Cua | None = None
    desktops: list[Any] = field(default_factory=list)
    _keeper: Any = None
    _writer: Any = None
    _cassette: Any = None
    _run: Any = None  # the steps of the test and of its flows
    _latch: Any = None
    _make_client: Callable[[], Any] | None = None
    _normalize: Any = None
    _flows: dict[str, FlowRecording] = field(default_factory=dict)
    _partners: dict[tuple[str, int], Any] = field(default_factory=dict)
    _tools: list[Any] = field(default_factory=list)
    _lanes: Any = None
    _client_player: Any = None
    _scope: ExitStack = field(default_factory=ExitStack)
    _places: ExitStack = field(default_factory=ExitStack)  # folders that go when the recordings have ended
    _http: Any = None
    _committed: bool = False
    isolation: str = ""  # of its desktops, once one has started
    _source: Any = None  # a recording that is continued
    goes_on: bool = False  # a fixture of the user's has more to do after the test

    # ------------------------------------------------------------------ set-up

    def open_cassette(self, *, make_client: Callable[[], Any], normalize: Callable[[str], str] | None) -> None:
        """Decide between recording and replaying, and open the one or the other.

        Args:
            make_client: Gives the client that asks a model; called when it is needed.
            normalize: The project's own part of matching.

        Raises:
            CassetteMissing, CassetteUnreadable, CassetteUnwritable: As their names say.
        """
        from pytest_cua.cassette.continuing import follow
        from pytest_cua.cassette.latch import Latch
        from pytest_cua.cassette.store import CassetteWriter, RecordedElsewhere, load_cassette
        from pytest_cua.trace import Run

        self._make_client, self._normalize = make_client, normalize
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
            self._source = self._recording_to_continue()
            try:
                self._writer = CassetteWriter(self.context.folder, self.settings.cassette_dir)
            except RecordedElsewhere as error:
                raise CassetteUnwritable(error.message, *error.hints) from None
            if self._source is not None:
                follow(self._source, self.context.folder)
            return
        check_age(self._cassette, self.settings)
        self._keeper = self._player(self._cassette)
        self.context.keeper = self._keeper

    def _player(self, cassette: Any, *, flow: str = "") -> Any:
        from pytest_cua.cassette.match import Normalize
        from pytest_cua.cassette.player import Player

        normalize = Normalize(self._normalize)
        return Player(cassette, test=self.test, latch=self._latch, normalize=normalize, flow=flow)

    def _recording_to_continue(self) -> Any:
        """With `--cua-from-step`: the recording whose first steps are taken over; None without.

        It is copied: the new recording is written where it lies.

        Raises:
            CassetteMissing: There is none, or it has fewer steps.
        """
        first = self.settings.from_step
        if first <= 1:
            return None
        from pytest_cua.cassette.continuing import recording_to_continue

        folder = Path(self._scope.enter_context(tempfile.TemporaryDirectory(prefix="pytest-cua-")))
        return recording_to_continue(self.context.folder, self.settings.cassette_dir, self.test, first, folder)

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

    def add_tools(self, more: Iterable[Sequence[Any]]) -> None:
        """Take the tools of the hook, and after them those of the settings, each once.

        Raises:
            BadArgument: One is no tool.
        """
        from pytest_cua.agent.toolbox import check_tool

        for tool in [*(tool for tools in more for tool in tools), *self.settings.tools]:
            check_tool(tool)
            if tool not in self._tools:
                self._tools.append(tool)

    def partner(self, name: str, desktop: Any) -> Any:
        """The session that bash, or the editor, goes on with on a desktop; None on a recorded one.

        Args:
            name: "bash" or "editor".
            desktop: Where.
        """
        if not desktop.is_live:
            return None
        if (name, id(desktop)) not in self._partners:
            from pytest_cua.tools.partners import session_of

            self._partners[name, id(desktop)] = session_of(name, desktop)
        return self._partners[name, id(desktop)]

    def _counted(self, browser: Callable[..., Any]) -> Callable[..., Any]:
        """`Desktop.browser`, whose page the test reads without us: it is counted as given."""

        @functools.wraps(browser)
        def given(*args: Any, **kwargs: Any) -> Any:
            page = browser(*args, **kwargs)
            self.context.evidence.handle_given()
            return page

        return given

    def make_cua(self, desktop: Any, client: Any, confirm: Callable[[Any], bool] | None) -> Cua:
        """The object that the test gets; from here to the test's end, clients that are made are recorded too."""
        from pytest_cua.agent.budget import Budget
        from pytest_cua.agent.cua import Cua
        from pytest_cua.cassette.clients import recorded_clients, with_middleware
        from pytest_cua.cassette.lanes import Lanes
        from pytest_cua.cassette.player import ClientPlayer
        from pytest_cua.cassette.recorder import ClientRecorder
        from pytest_cua.model import replay_client

        lanes = Lanes()
        if self.recording:
            deck = self._recording_deck(self._writer, self.test, desktop, client, source=self._source)
            middleware: Any = ClientRecorder(deck.keeper.tape, lanes)  # type: ignore[union-attr]
        else:
            deck = self._replaying_deck(self._keeper, desktop)
            middleware = self._client_player = ClientPlayer(self._cassette, self._keeper, lanes)
        self._keeper = self.context.keeper = deck.keeper
        self.cua = Cua(
            test=self.test,
            settings=self.settings,
            desktop=desktop,
            client=with_middleware(client if self.recording else replay_client(), middleware),
            run=self._run,
            latch=self._latch,
            budget=Budget(self.settings.max_cost, self.purse),
            context=self.context,
            decks=[deck],
            names=lanes.names,
            open_flow=functools.partial(self._open_flow, desktop),
            partner=self.partner,
            confirm=confirm,
            tools=self._tools,
        )
        self._scope.enter_context(recorded_clients(middleware, replaying=not self.recording))
        return self.cua

    def _recording_deck(
        self, writer: Any, name: str, desktop: Any, client: Any, *, source: Any = None, flow: str = ""
    ) -> Deck:
        from pytest_cua.agent.cua import Deck
        from pytest_cua.agent.prompt import prompt_digest
        from pytest_cua.cassette.clients import with_middleware
        from pytest_cua.cassette.recorder import Recorder
        from pytest_cua.cassette.tape import Tape, header_line
        from pytest_cua.model import computer_version
        from pytest_cua.trace import Run

        model = source.header["model"] if source else self.settings.model
        version = _computer_version(source) if source else computer_version(model, self.settings.computer_tool)
        header = header_line(
            test=name,
            model=model,
            tools=[version, *map(_tool_name, self._tools)],
            prompt_digest=prompt_digest(),
            display={"width": desktop.size[0], "height": desktop.size[1]},
            environment=environment_of(desktop, self.settings),
        )
        run = Run(test=name, mode=self.settings.mode)
        tape = Tape(writer, header={**header, "kind": "flow"} if flow else header, run=run, latch=self._latch)
        player = self._player(source) if source else None
        keeper = Recorder(tape, source=player, from_step=self.settings.from_step if source else 1)
        threads = _threads_of(source) if source else self.settings.threads
        return Deck(keeper, with_middleware(client, keeper), model, threads, version, run, flow=flow)

    def _replaying_deck(self, player: Any, desktop: Any, *, flow: str = "") -> Deck:
        from pytest_cua.agent.cua import Deck
        from pytest_cua.cassette.clients import with_middleware
        from pytest_cua.model import replay_client
        from pytest_cua.trace import Run

        cassette = player.cassette
        self._check_display(cassette, desktop)
        run = Run(test=cassette.header["test"], mode=self.settings.mode)
        client = with_middleware(replay_client(), player)
        model, version = cassette.header["model"], _computer_version(cassette)
        return Deck(player, client, model, _threads_of(cassette), version, run, flow=flow)

    # ------------------------------------------------------------------ flows

    def _open_flow(self, desktop: Any, flow: Flow) -> Deck:
        """What the steps of a flow are recorded to, or answered from.

        Raises:
            CassetteMissing: It was not recorded, and this mode records none.
        """
        from pytest_cua.cassette.format import load

        begun = self._flows.get(flow.id)
        if begun is not None and begun.tape is not None:  # used before in this test, which records it
            begun.tape.replied("none")  # unless it was, and then this does nothing
            return self._replaying_deck(
                self._player(load(begun.tape.writer.aside, partial=True), flow=flow.name), desktop
            )
        if begun is not None:
            return self._replaying_deck(self._player(begun.cassette, flow=flow.name), desktop)
        cassette = self._recorded_flow(flow)
        if cassette is not None:
            check_age(cassette, self.settings)
            self._flows[flow.id] = FlowRecording(cassette=cassette)
            return self._replaying_deck(self._player(cassette, flow=flow.name), desktop)
        writer = self._flow_writer(flow)
        if writer is None:  # another worker has just recorded it
            return self._open_flow(desktop, flow)
        assert self._make_client is not None
        client = self._make_client()
        if self._http is not None:
            self._http.allow_model(client)
        deck = self._recording_deck(writer, flow.id, desktop, client, flow=flow.name)
        self._flows[flow.id] = FlowRecording(tape=deck.keeper.tape)  # type: ignore[union-attr]
        return deck

    def _recorded_flow(self, flow: Flow) -> Any:
        """The recording of a flow, None when it is to be recorded now.

        `record` makes new recordings, but of a flow one a run, however many tests use it.
        """
        from pytest_cua.cassette.store import load_cassette

        try:
            cassette = load_cassette(self.settings.cassette_dir, flow.id)
        except CassetteMissing as error:
            if self.settings.may_ask:
                return None
            raise CassetteMissing(
                f"The flow {flow.name}, used by {self.test}, has no recording: {error.message}",
                f"record it: {pytest_command('--cua-record', test=self.test)}",
            ) from None
        except CassetteUnreadable:
            if self.settings.mode == "record":
                return None
            raise
        is_old = cassette.header["recorded_at"] < self.run_started
        again = self.settings.mode == "record" and not self.settings.from_step  # which pays for nothing twice
        return None if again and is_old else cassette

    def _flow_writer(self, flow: Flow) -> Any:
        """A writer for a flow; None when another worker recorded it while this one waited."""
        from pytest_cua.cassette.store import CassetteWriter, RecordedElsewhere, cassette_folder, wait_for_recording

        root = self.settings.cassette_dir
        folder = cassette_folder(root, flow.id)
        holds_one = any(recording.tape is not None for recording in self._flows.values())
        deadline = time.monotonic() + self.settings.step_timeout / 1000
        while True:
            try:
                return CassetteWriter(folder, root)
            except RecordedElsewhere:
                if holds_one:  # who records it may wait for the one that we hold: paying twice is better than that
                    place = Path(self._places.enter_context(tempfile.TemporaryDirectory(prefix="pytest-cua-")))
                    return CassetteWriter(place / "flow", place)
                if time.monotonic() > deadline:
                    raise
            wait_for_recording(folder, self.settings.step_timeout)
            if self._recorded_flow(flow) is not None:
                return None

    def open_http(self, client: Any, config: Any) -> None:
        """Let vcrpy keep or answer the test's other HTTP calls, and refuse what is not declared, to the test's end."""
        from pytest_cua.cassette.http import HttpRecording
        from pytest_cua.network import Hosts

        context, settings = self.context, self.settings
        mode: Any = "record" if self.recording else "replay" if settings.has_desktop else "offline"
        models = [os.environ.get("ANTHROPIC_BASE_URL"), str(client.base_url) if client is not None else None]
        recording = HttpRecording(
            mode=mode,
            test=self.test,
            folder=self._writer.aside if self.recording else context.folder,
            hosts=Hosts(
                recorded=settings.http_recorded, live=settings.http_live, models=[url for url in models if url]
            ),
            headers=settings.http_headers,
            config=config,
            on_request=lambda request: context.evidence.state_read(),
            on_missing=context.needs_application,
            fail=self._latch.set,
            note=context.notes.append,
        )
        self._http = recording.__enter__()  # kept only once it is entered: it cannot be left otherwise

    def _close_http(self) -> None:
        if self._http is not None:
            self._http.__exit__(None, None, None)  # the second time it does nothing

    def _check_display(self, cassette: Any, desktop: Any) -> None:
        display = cassette.header.get("display") or {"width": desktop.size[0], "height": desktop.size[1]}
        size = (display["width"], display["height"])
        if desktop.size != size:
            raise CassetteMismatch(
                f"{cassette.file} was recorded on a desktop of {size[0]}x{size[1]} pixels; "
                f"this one has {desktop.size[0]}x{desktop.size[1]}.",
                f"set cua_size to {size[0]}x{size[1]}, or record the test again: "
                f"{pytest_command('--cua-mode=record', test=self.test)}",
            )

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

    @property
    def recorded_after_the_test(self) -> bool:
        """Whether the recording has steps that belong to what runs after the test's function."""
        return self._cassette is not None and any(step.phase == "teardown" for step in self._cassette.steps)

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
        hidden = self._latch.error if self._latch else None
        if isinstance(hidden, UndeclaredRequest) and error is not hidden:
            raise hidden from None  # something was to leave the machine: no reason to skip outweighs that
        if needs is not None and (first is None or not _led_to(first, error)):
            raise NeedsApplication(needs)
        if isinstance(error, NeedsApplication) and first is not None:
            raise first from first.__cause__  # lost otherwise: a `finally` after it needed the application
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

        if self.cua is not None:
            self._check_complete(self.cua.decks[0])
        if self.cua is not None:
            self.context.evidence.judges = sum(step.kind == "judge" for step in self._run.steps)
        if self.settings.strict and self.cua is not None and not self.context.evidence.is_enough:
            raise VacuousTest(self.context.evidence.complaint(self.test), ADVICE)

    def _check_complete(self, deck: Deck) -> None:
        """Every recorded turn was played, and one at all: a test that asks nothing would pass whatever happens.

        Raises:
            CassetteMismatch: Something is left over.
            VacuousTest: Nothing was asked.
        """
        assert self.cua is not None
        for broken_off in self.cua.broken_off:
            broken_off.keeper.finish(len(broken_off.run.steps), broken_off.flows)  # type: ignore[union-attr]
        if not self.recording:
            self._keeper.finish(len(deck.run.steps), deck.flows)
            self._client_player.finish()
        if not deck.keeper.has_replies and not self.cua.has_flow_replies and not self._http.answered:
            raise VacuousTest(
                f"{self.test} takes the fixture `cua` and asks Claude nothing: no turn was "
                f"{'recorded' if self.recording else 'played'}.",
                "give it a sentence: cua.do('...'); or take the fixture `desktop`, which needs no recording",
            )

    def _keep_aside(self) -> None:
        self._close_http()
        if self._committed or not self._tapes():
            if self._writer is not None and not self._committed:
                self._committed = True
                self._writer.keep_aside()
            return
        self._close_tapes(passed=False)

    def _close_tapes(self, *, passed: bool) -> None:
        """End every recording, whatever becomes of the others.

        Raises:
            CuaError: The first failure among them.
        """
        self._committed = True
        failures: list[CuaError] = []
        for tape in self._tapes():
            try:
                kept = tape.close(passed=passed and not failures)
            except CuaError as error:
                failures.append(error)
            else:
                lies_there = tape.writer.root == self.settings.cassette_dir  # else in a place that goes with the run
                if kept is not None and lies_there:
                    self.kept_by_run.append(Kept(kept, self.test, tape.run.test))
                self.kept = kept if tape is self._own_tape else self.kept
                self._kept_flows += [kept] if kept is not None and tape is not self._own_tape else []
        if failures:
            raise failures[0]

    @property
    def _own_tape(self) -> Any:
        return self._keeper.tape if self.recording and self._keeper is not None else None

    def _has_its_place(self, tape: Any) -> bool:
        return bool(tape.writer.is_committed and tape.writer.root == self.settings.cassette_dir)

    def _tapes(self) -> list[Any]:
        """What is being recorded: flows that the test was the first to use, and the test, which refers to them."""
        flows = [flow.tape for flow in self._flows.values() if flow.tape is not None]
        return flows + ([self._own_tape] if self._own_tape is not None else [])

    def end(self, *, passed: bool) -> None:
        """The test's fixtures are done: when all of it passed, the new recording takes its place.

        Raises:
            CassetteUnwritable: It cannot.
        """
        self.passed = self.passed and passed
        tapes = self._tapes()
        if tapes and self.passed and not self._committed:
            self._close_http()
            self.passed = False  # until it lies there
            self._close_tapes(passed=True)
            self.passed = True
        self._keep_aside()

    def forget_places(self) -> None:
        """Remove the folders that only this test needed."""
        self._places.close()

    def close_desktops(self) -> None:
        """End every desktop of the test."""
        desktops, self.desktops = self.desktops, []
        sessions, self._partners = self._partners, {}
        with ExitStack() as stack:  # each is closed, whatever the others say
            for desktop in desktops:
                stack.callback(desktop.close)
            for session in sessions.values():  # before their desktops
                stack.callback(session.close)

    def close(self) -> None:
        """Forget the test; a recording that passed waits for `end`.

        Raises:
            CuaFailure: A thread of the test asked what it may not, after the rest of the test was settled.
        """
        from pytest_cua.observe import current

        self._scope.close()
        try:
            self._close_http()
            if self._http is not None:
                self._http.release()
                if self.passed:
                    self.context.notes += self._http.unasked()
            late = self._latch.error if self.passed and self._latch else None
            if late is not None:
                self.passed = False
                raise late from None
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
            where = f"flow {step.flow}: " if step.flow else f"{step.phase}: " if step.phase != "call" else ""
            lines.append(
                f"{mark} {where}{step.number}. {step.sentence} ({len(step.turns)} turns, {len(step.actions)} actions, "
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
            lines += hint_for_kept(self.kept, self.test).splitlines()
        return lines

    def properties(self) -> list[tuple[str, Any]]:
        """What JUnit reports and the summary show of the test."""
        from pytest_cua.trace import Usage

        found: list[tuple[str, Any]] = [("cua_mode", self.settings.mode)]
        if self.cua is not None:
            # of a run that records, what it was charged: steps before --cua-from-step were paid for earlier
            steps = [step for step in self._run.steps if not (self._tapes() and step.is_replayed)]
            usage = sum((step.usage for step in steps), Usage())
            found += [
                ("cua_steps", len(self._run.steps)),
                ("cua_turns", sum(len(step.turns) for step in self._run.steps)),
                ("cua_actions", sum(1 for _ in self._run.actions())),
                ("cua_input_tokens", usage.input_tokens),
                ("cua_output_tokens", usage.output_tokens),
                ("cua_cost_usd", usage.cost_usd),
            ]
            if self.passed and (recorded := [tape for tape in self._tapes() if self._has_its_place(tape)]):
                found.append(("cua_recorded", "\n".join(str(tape.writer.folder) for tape in recorded)))
                found.append(("cua_recorded_size", "\n".join(_told(tape) for tape in recorded)))
        if self.isolation:
            found.append(("cua_isolation", self.isolation))
        if kept := [*self._kept_flows, *([self.kept] if self.kept is not None else [])]:
            found.append(("cua_kept", "\n".join(map(str, kept))))
        if self._own_tape is not None:
            found.append(("cua_endpoint", self._own_tape.endpoint))
        if self.context.compared:
            found.append(("cua_baselines", "\n".join(sorted(self.context.compared))))
        if self.context.notes:
            found.append(("cua_notes", "\n".join(self.context.notes)))
        return found


def hint_for_kept(kept: Path, test: str) -> str:
    """What can be done with a recording that was kept aside.

    Args:
        kept: Its folder.
        test: The id of the test or flow that it is of.
    """
    from pytest_cua.cassette.format import load
    from pytest_cua.cassette.store import FLOWS, is_adoptable

    if is_adoptable(kept):
        return f"hint: if only the test was wrong, adopt it: {cua_command('accept', shell_quoted(test))}"
    steps = load(kept, partial=True).steps
    broken = next((step.number for step in steps if not step.end), len(steps) + 1)
    told = f"It ends inside step {broken}, so it can be read ({cua_command('show', kept)}), not replayed."
    if broken > 1 and not test.startswith(f"{FLOWS}/"):  # a flow is recorded with a test that uses it, from its start
        again = pytest_command("--cua-mode=record", f"--cua-from-step={broken}", test=test)
        told += f"\nhint: go on from there without paying for the steps before it again: {again}"
    return told


def check_age(cassette: Any, settings: Settings) -> None:
    """Warn of a recording that is old, or of a model that is gone; or refuse what is too old.

    Raises:
        CassetteUnreadable: It is older than `cua_max_age`, which is to fail.
    """
    from pytest_cua.cassette.suite import age_in_days, retired

    again = _record_again(cassette)
    age = age_in_days(cassette)
    if settings.max_age is not None and age >= settings.max_age[0]:
        told = f"{cassette.file} was recorded {age} days ago, and cua_max_age is {settings.max_age[0]} days."
        if settings.max_age[1] == "fail":
            raise CassetteUnreadable(told, again)
        warnings.warn(CuaWarning(f"{told} {again}"), stacklevel=2)
    if (gone := retired(str(cassette.header["model"]))) is not None:
        told = f"{cassette.file} was recorded with {cassette.header['model']}, {gone}."
        offered = next((model for model in (settings.model, type(settings).model) if retired(model) is None), "MODEL")
        again = _record_again(cassette, f"--cua-model={offered}")
        warnings.warn(CuaWarning(f"{told} {again}"), stacklevel=2)


def _record_again(cassette: Any, *options: str) -> str:
    """The sentence that says how a recording of a test or flow is made anew."""
    if cassette.header.get("kind") == "flow":
        command = pytest_command("--cua-record", *options)
        return f"record it again: rm -r {path_quoted(cassette.folder)}, then {command} with a test that uses it"
    return f"record it again: {pytest_command('--cua-mode=record', *options, test=str(cassette.header['test']))}"


@dataclass
class FlowRecording:
    """A flow that a test used: being recorded by it, or recorded before."""

    tape: Any = None
    cassette: Any = None


def _computer_version(cassette: Any) -> str:
    """The version of the computer tool in a recording; one that was imported has no tools, and the newest will do."""
    tools = cassette.header.get("tools") or ()
    return str(tools[0]) if tools and tools[0] in VERSIONS else TOOLSET


def _tool_name(tool: Any) -> str:
    return str(getattr(tool, "name", tool))


def _threads_of(cassette: Any) -> bool:
    """Whether the API held the conversation between turns when this was recorded."""
    turns = [turn for step in cassette.steps for turn in step.turns]
    return not turns or "thread" in turns[0].params


def _told(tape: Any) -> str:
    """A recording in the summary: where it lies, and how large it is."""
    folder = tape.writer.folder
    size = (folder / "cassette.jsonl").stat().st_size
    return f"{folder} ({size / 1000:.0f} kB of text, {tape.size / 1000:.0f} kB of new pictures)"


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
    return {
        "xvfb": desktop.server_version,
        "shell": settings.shell,
        "theme": "Adwaita",
        "isolation": re.sub(r"[ ,].*", "", str(desktop.isolation)),
        "locale": settings.locale,
        "timezone": settings.timezone,
        "dpi": 96,
        "font": hashlib.sha256(_FONT.read_bytes()).hexdigest()[:16] if _FONT.exists() else None,
        "fonts": _fonts(),
    }


@functools.cache
def _fonts() -> str | None:
    """The digest of the names and sizes of all fonts; None where fontconfig cannot list them."""
    try:
        listed = subprocess.run(["fc-list", "--format", "%{file}\n"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    paths = sorted({Path(line) for line in listed.stdout.splitlines()})
    told = "\n".join(f"{path.name} {path.stat().st_size}" for path in paths if path.exists())
    return hashlib.sha256(told.encode()).hexdigest()[:16]
