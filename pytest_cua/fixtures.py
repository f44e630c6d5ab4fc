"""The fixtures. They build objects; what the objects do is elsewhere, and is loaded when a fixture is first used."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cua.errors import BadArgument, NeedsApplication
from pytest_cua.session import RunSession, TestState
from pytest_cua.settings import Settings, with_marker

if TYPE_CHECKING:
    import anthropic

    from pytest_cua.agent.cua import Cua
    from pytest_cua.desktop.desktop import Desktop
    from pytest_cua.desktop.recorded import RecordedDesktop
    from pytest_cua.tools.bash import Bash
    from pytest_cua.tools.edit import Editor
    from pytest_cua.tools.scripted import Computer

SESSION = pytest.StashKey[RunSession]()
TEST = pytest.StashKey[TestState]()
_underway: dict[str, TestState] = {}  # tests between their set-up and the end of their fixtures


def session_of(settings: Settings) -> RunSession:
    """The state of a run with these settings."""
    return RunSession(settings)


@pytest.fixture
def _cua_test(request: pytest.FixtureRequest) -> Iterator[TestState]:
    """What belongs to one test: settings, evidence, folder, artifacts."""
    item = request.node
    session = request.config.stash[SESSION]
    try:
        settings = with_marker(session.settings, item)
    except pytest.UsageError as error:
        raise BadArgument(str(error)) from None
    state = session.begin(item.nodeid, settings, rootpath=request.config.rootpath)
    item.stash[TEST] = state
    _underway[item.nodeid] = state
    yield state
    state.close()


@pytest.fixture
def cua_client() -> anthropic.Anthropic:
    """The `anthropic` client that records. Override it for Bedrock, Vertex, Foundry or a gateway."""
    from pytest_cua.model import live_client

    return live_client()


@pytest.fixture
def cua_confirm() -> Callable[[Any], bool] | None:
    """The SDK's `confirm` hook, `(context) -> bool`, asked before every action. Override it to decline some."""
    return None


@pytest.fixture
def cua_normalize() -> Callable[[str], str] | None:
    """`(text) -> text`, applied to what is asked now and was asked then before the two are compared.

    Override it to take out what differs from run to run in your project; ids, dates, temporary paths, ports and process
    numbers are taken out already.
    """
    return None


@pytest.fixture
def desktop_factory(_cua_test: TestState) -> Iterator[Callable[..., Desktop | RecordedDesktop]]:
    """Starts further desktops: `desktop_factory()` gives one that meets no other."""
    yield _cua_test.start_desktop
    _cua_test.close_desktops()


@pytest.fixture
def desktop(desktop_factory: Callable[..., Desktop | RecordedDesktop]) -> Desktop | RecordedDesktop:
    """A running virtual desktop: programs, windows, files, screenshots."""
    return desktop_factory()


@pytest.fixture
def computer(desktop: Desktop) -> Computer:
    """The computer tool on the desktop, for scripted tests without a model: `computer.left_click((10, 20))`."""
    from pytest_cua.tools.scripted import Computer

    _check_live("computer", desktop)
    return Computer(desktop)


@pytest.fixture
def bash(desktop: Desktop, _cua_test: TestState) -> Bash:
    """Claude's bash tool on the desktop, for scripted tests without a model: `bash.run("ls").output`."""
    return _partner(_cua_test, "bash", desktop)  # type: ignore[no-any-return]


@pytest.fixture
def editor(desktop: Desktop, _cua_test: TestState) -> Editor:
    """Claude's text editor tool on the desktop's files, for scripted tests without a model."""
    return _partner(_cua_test, "editor", desktop)  # type: ignore[no-any-return]


def _partner(state: TestState, name: str, desktop: Desktop) -> Any:
    """What steps with a model would go on with, too."""
    _check_live(name, desktop)
    return state.partner(name, desktop)


def _check_live(name: str, desktop: Desktop) -> None:
    if not desktop.is_live:
        raise NeedsApplication(f"needs the application: the fixture {name} works on a live desktop")


@pytest.fixture
def cua(request: pytest.FixtureRequest, _cua_test: TestState) -> Iterator[Cua]:
    """Gives sentences to Claude, recorded once and replayed: `cua.do("...")`, `cua.desktop`."""
    state = _cua_test
    state.open_cassette(
        make_client=lambda: request.getfixturevalue("cua_client"), normalize=request.getfixturevalue("cua_normalize")
    )
    client = request.getfixturevalue("cua_client") if state.recording else None
    desktop = request.getfixturevalue("desktop")
    state.add_tools(request.config.hook.pytest_cua_tools(item=request.node))
    state.open_http(client, _vcr_config(request))
    state.goes_on = _goes_on(request) or state.recorded_after_the_test
    made = state.make_cua(desktop, client, request.getfixturevalue("cua_confirm"))
    try:
        yield made
        state.settle_fixtures()
    finally:
        made.end()


def _goes_on(request: pytest.FixtureRequest) -> bool:
    """Whether a fixture of the test uses `cua` and has something to do after the test, such as a step or an expect."""
    definitions = {name: found[-1] for name, found in request.node._fixtureinfo.name2fixturedefs.items() if found}
    users = {"cua", "desktop"}
    grown = True
    while grown:
        more = {name for name, definition in definitions.items() if users & set(definition.argnames)} - users
        grown, users = bool(more), users | more
    after = [definitions[name].func for name in users & set(definitions)]
    return any(inspect.isgeneratorfunction(f) and not f.__module__.startswith("pytest_cua.") for f in after)


def _vcr_config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The user's `vcr_config` fixture, as pytest-recording and pytest-vcr know it; the name is theirs, not ours."""
    try:
        return dict(request.getfixturevalue("vcr_config"))
    except pytest.FixtureLookupError:
        return {}


def finish_call(item: pytest.Item, error: BaseException | None) -> None:
    """Settle a test whose function has ended: with `error`, or without one.

    Raises:
        CuaFailure: What was latched or collected, or that nothing was asserted.
    """
    state = item.stash.get(TEST, None)
    if state is None or isinstance(error, (KeyboardInterrupt, SystemExit, pytest.exit.Exception)):
        return
    state.settle(error)


def failed_call(test: str) -> None:
    """A report says that a test which is under way did not pass."""
    state = _underway.get(test)
    if state is not None:
        state.passed = False


def set_phase(item: pytest.Item, phase: str) -> None:
    """Say which part of a test runs from now on: its steps are labelled so."""
    state = item.stash.get(TEST, None)
    if state is not None:
        state.context.phase = phase


def end_test(item: pytest.Item, *, passed: bool) -> None:
    """Everything of the test is over: its recording takes its place, or is kept aside.

    Args:
        item: The test.
        passed: Whether all fixtures ended without an error.

    Raises:
        CassetteUnwritable: The recording cannot take its place.
    """
    state = item.stash.get(TEST, None)
    if state is None:
        return
    try:
        state.end(passed=passed)
    finally:
        _underway.pop(item.nodeid, None)
        state.forget_places()
        kept = [pair for pair in item.user_properties if not pair[0].startswith("cua_")]  # of an earlier run of it
        item.user_properties[:] = [*kept, *state.properties()]
        del item.stash[TEST]  # items live as long as the run: what a test has seen does not
