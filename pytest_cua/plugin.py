"""The hooks of the pytest plugin. Nothing heavy is imported here: a run that uses no fixture of ours pays nothing."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any

import pytest

from pytest_cua.errors import CuaError, NeedsApplication
from pytest_cua.fixtures import (  # noqa: F401  fixtures are found by being here
    SESSION,
    _cua_test,
    computer,
    cua,
    cua_client,
    cua_confirm,
    desktop,
    desktop_factory,
    finish_call,
    session_of,
)
from pytest_cua.settings import Settings, add_options, session_settings

_MARKER = (
    "cua(**settings): settings of pytest-cua for one test, such as max_turns=10, timeout=20_000, size=(1024, 768), "
    "exclude=[(x, y, width, height)], strict=False"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini names."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Resolve the settings once; a value that cannot be meant so ends the run here."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[SESSION] = session_of(session_settings(config))


def pytest_report_header(config: pytest.Config) -> str:
    """Say in which mode this run is."""
    settings = config.stash[SESSION].settings
    words = {
        "replay": "replay, live desktop",
        "offline": "offline, from recordings alone: application not exercised",
        "record": f"record, live desktop, asks {settings.model}",
        "record-missing": f"record-missing, live desktop, asks {settings.model} where there is no cassette",
    }
    return f"cua: {words[settings.mode]}"


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Generator[None, Any, Any]:
    """Refuse a test that can be seen to assert nothing."""
    made = yield
    settings: Settings = collector.config.stash[SESSION].settings
    if made is not None and settings.strict and inspect.isfunction(obj) and "cua" in obj.__code__.co_varnames:
        _refuse_vacuous(collector, name, obj)
    return made


def _refuse_vacuous(collector: pytest.Module | pytest.Class, name: str, obj: Any) -> None:
    from pytest_cua.assertions.evidence import ADVICE, provably_vacuous

    marks = getattr(obj, "pytestmark", [])
    if any(mark.name == "cua" and mark.kwargs.get("strict") is False for mark in marks):
        return
    given: set[str] = set()
    for mark in marks:
        if mark.name == "parametrize" and mark.args:
            names = mark.args[0]
            given |= {n.strip() for n in names.split(",")} if isinstance(names, str) else set(names)
    try:
        source = inspect.cleandoc("\n" + inspect.getsource(obj))
    except OSError:
        return
    if provably_vacuous(source, params=frozenset(given)):
        raise collector.CollectError(
            f"{collector.nodeid}::{name} gives steps to the agent and asserts nothing, so it could never fail.\n"
            f"hint: {ADVICE}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a test's function: latched failures, soft failures, and whether it asserted anything."""
    try:
        try:
            result = yield
        except BaseException as error:
            finish_call(item, error)
            raise
        finish_call(item, None)
    except NeedsApplication as reason:
        pytest.skip(str(reason))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that needs the application skips its test in `offline`."""
    try:
        return (yield)
    except NeedsApplication as reason:
        pytest.skip(str(reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Errors of ours as one paragraph, the steps as one section."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, CuaError) and call.when != "call":
        report.longrepr = f"{type(error).__module__}.{type(error).__name__}: {error}"
    item.config.stash[SESSION].report(item, report)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Nothing is kept here; what a worker knows travels in `user_properties`."""


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was recorded, what it cost, and what was not exercised."""
    config.stash[SESSION].summary(terminalreporter)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which `offline` could judge nothing must not look green."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    if session.config.stash[SESSION].judged_nothing(reporter) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
