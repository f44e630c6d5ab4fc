"""The hooks of the pytest plugin. Nothing heavy is imported here: a run that uses no fixture of ours pays nothing."""

from __future__ import annotations

import inspect
import json
import shutil
import textwrap
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_cua.cassette.redact import hide_secrets
from pytest_cua.errors import (
    CassetteMismatch,
    CassetteMissing,
    CassetteUnreadable,
    CassetteUnwritable,
    CuaError,
    NeedsApplication,
    UndeclaredRequest,
    set_root,
)
from pytest_cua.fixtures import (  # noqa: F401  fixtures are found by being here
    SESSION,
    TEST,
    _cua_test,
    bash,
    computer,
    cua,
    cua_client,
    cua_confirm,
    cua_normalize,
    desktop,
    desktop_factory,
    editor,
    end_test,
    failed_call,
    finish_call,
    session_of,
    set_phase,
)
from pytest_cua.reports import show_user_lines
from pytest_cua.settings import Settings, add_options, check_markers, session_settings

_NOT_THE_APPLICATION = (CassetteMismatch, CassetteMissing, CassetteUnreadable, CassetteUnwritable, UndeclaredRequest)
_MARKER = (
    "cua(**settings): settings of pytest-cua for one test, such as max_turns=10, timeout=20_000, size=(1024, 768), "
    "exclude=[(x, y, width, height)], strict=False"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini names."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that others may implement."""
    from pytest_cua import hooks

    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Resolve the settings once; a value that cannot be meant so ends the run here."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[SESSION] = session_of(session_settings(config))
    set_root(config.rootpath, config.invocation_params.dir)


def pytest_report_header(config: pytest.Config) -> str:
    """Say in which mode this run is."""
    settings = config.stash[SESSION].settings
    words = {
        "replay": "replay, live desktop",
        "offline": "offline, from recordings alone: application not exercised",
        "record": f"record, live desktop, asks {settings.model}",
        "record-missing": f"record-missing, live desktop, asks {settings.model} where there is no cassette",
    }
    weaker = settings.has_desktop and settings.isolation == "auto" and shutil.which("bwrap") is None
    return f"cua: {words[settings.mode]}" + (", isolation: process group (bwrap is not installed)" if weaker else "")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Generator[None, Any, Any]:
    """Refuse a test that can be seen to assert nothing."""
    made = yield
    settings: Settings = collector.config.stash[SESSION].settings
    if made is not None and settings.strict and inspect.isfunction(obj) and "cua" in obj.__code__.co_varnames:
        item = made[0] if isinstance(made, list) and made else made
        if isinstance(item, pytest.Function):
            _refuse_vacuous(collector, name, item, obj)
    return made


def _refuse_vacuous(
    collector: pytest.Module | pytest.Class, name: str, item: pytest.Function, obj: Callable[..., Any]
) -> None:
    from pytest_cua.assertions.evidence import ADVICE, provably_vacuous

    if any(mark.kwargs.get("strict") is False for mark in item.iter_markers("cua")):
        return
    given: set[str] = set()
    for mark in item.iter_markers("parametrize"):
        if mark.args and not mark.kwargs.get("indirect"):  # an indirect one is a fixture, which may assert
            names = mark.args[0]
            given |= {n.strip() for n in names.split(",")} if isinstance(names, str) else set(names)
    try:
        source = textwrap.dedent(inspect.getsource(obj))
    except OSError:
        return
    if provably_vacuous(source, fixtures=frozenset(item.fixturenames) - given):
        raise collector.CollectError(
            f"{collector.nodeid}::{name} gives steps to the agent and asserts nothing, so it could never fail.\n"
            f"hint: {ADVICE}"
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A marker argument that cannot be meant so ends the run before anything is started."""
    if hasattr(config, "workerinput"):
        return  # pytest-xdist takes a usage error in a worker for a crash; there the test's own set-up tells it
    check_markers(config.stash[SESSION].settings, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a test's function: latched failures, soft failures, and whether it asserted anything."""
    set_phase(item, "call")
    try:
        try:
            result = yield
        except BaseException as error:
            finish_call(item, error)
            raise
        finish_call(item, None)
    except NeedsApplication as reason:
        raise _skipped(reason) from None
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that needs the application skips its test in `offline`."""
    try:
        return (yield)
    except NeedsApplication as reason:
        raise _skipped(reason) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """A recording takes its place when the test and every fixture of it have passed."""
    set_phase(item, "teardown")
    try:
        result = yield
    except NeedsApplication as reason:
        end_test(item, passed=False)
        raise _skipped(reason) from None
    except BaseException:
        end_test(item, passed=False)
        raise
    end_test(item, passed=True)
    return result


def _skipped(reason: NeedsApplication) -> BaseException:
    # told at the place of the test, not of this line
    return pytest.skip.Exception(str(reason), _use_item_location=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Errors of ours with the user's lines alone, the steps as one section."""
    if call.excinfo and isinstance(call.excinfo.value, CuaError):
        hide_secrets(call.excinfo.value)
    shown = show_user_lines(item, call.excinfo) if call.excinfo else None
    report = yield
    if shown is not None:
        shown(report)
    if call.excinfo is not None:
        _not_expected(item, call.excinfo.value, report)
    state = item.stash.get(TEST, None)
    if state is not None and report.when != "teardown" and (lines := state.steps_section()):
        report.sections.append(("Computer-use steps", "\n".join(lines)))
    return report


def _not_expected(item: pytest.Item, error: BaseException, report: pytest.TestReport) -> None:
    """An expected failure is one of the application; where the recording does not answer, nothing was seen of it."""
    if not hasattr(report, "wasxfail") or not isinstance(error, _NOT_THE_APPLICATION):
        return
    expected = [mark.kwargs["raises"] for mark in item.iter_markers("xfail") if "raises" in mark.kwargs]
    named = [kind for kinds in expected for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
    if any(issubclass(kind, CuaError) for kind in named):
        return  # by its author
    del report.wasxfail
    report.outcome = "failed"
    said = "xfail does not cover this: the test fails before the application can."
    report.sections.append(("Expected failure", said))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test can fail without an exception that leaves it: unittest's and subtests' failures show in reports alone."""
    if report.when == "call" and report.outcome != "passed":
        failed_call(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Note each test as it is found, before any plugin leaves some out."""
    item.config.stash[SESSION].found["ids"].append(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Note each file and class that was looked into, and each that was skipped or failed: its tests are not known."""
    report = yield
    state = collector.config.stash[SESSION]
    state.found["files" if report.passed else "left_out"].append(collector.nodeid)
    state.is_partial = state.is_partial or report.failed
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    """A run that leaves tests out says nothing about what is unused."""
    if items:
        items[0].config.stash[SESSION].is_partial = True


def pytest_collection_finish(session: pytest.Session) -> None:
    """All tests are known."""
    config: Any = session.config
    state = config.stash[SESSION]
    is_filtered = config.getoption("lf", False)  # it leaves tests out before anyone is told of them
    state.is_partial = state.is_partial or is_filtered
    if hasattr(config, "workerinput"):
        config.workeroutput["cua_collected"] = state.found
    if target := config.getoption("--cua-collected"):
        told = {**state.found, "places": [] if is_filtered else _places(config)}
        Path(target).write_text(json.dumps(told), encoding="utf-8")


def _places(config: pytest.Config) -> list[str]:
    """The files and folders that were asked for, relative to the root; a single test asks for no whole file."""
    given = [str(argument) for argument in config.args if "::" not in str(argument)]
    folders = [(config.invocation_params.dir / place).resolve() for place in given]
    root = config.rootpath.resolve()
    return [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """A worker of pytest-xdist has ended: take over what it collected."""
    state = node.config.stash[SESSION]
    found = getattr(node, "workeroutput", {}).get("cua_collected")
    if error or found is None:
        state.is_partial = True
        return
    state.found = found  # each worker collects all
    state.is_partial = state.is_partial or bool(node.workeroutput.get("cua_partial"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was recorded, what it cost, and what was not exercised."""
    config.stash[SESSION].summary(terminalreporter)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which `offline` could judge nothing must not look green; a complete one looks for what is unused."""
    config: Any = session.config
    state = config.stash[SESSION]
    if hasattr(config, "workerinput"):
        config.workeroutput["cua_partial"] = state.is_partial or bool(session.shouldstop or session.shouldfail)
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    stopped = state.is_partial or session.shouldstop or session.shouldfail or config.option.collectonly
    if ended and not stopped and not session.config.getoption("--cua-collected"):
        state.find_unused(config.rootpath, _places(config), reporter)
        if state.unused and state.settings.unused == "fail" and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if reporter is not None and state.judged_nothing(reporter) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
