"""`expect(x)`: polls until it holds or its time passes, on the application itself, or offline on what was kept.

One import serves: a Playwright page, locator or response is handed to Playwright's own `expect`.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
import sqlite3
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from pytest_cua.errors import BadArgument, CuaFailure, ExpectFailure, shell_quoted
from pytest_cua.observe import TestContext, TestObserver, current

if TYPE_CHECKING:
    from PIL import Image

    from pytest_cua.screens import Area, Comparison

Box = tuple[int, int, int, int]
P = ParamSpec("P")
S = TypeVar("S", bound="_Expectation")

_PACE = 0.05  # s between two looks at a file or at the windows
_DIFF_LINES = 40
_WAL_FLAGS, _WAL = slice(18, 20), b"\2\2"  # of an SQLite file's header: who writes or reads it uses a write-ahead log
_MOST_CHECKPOINTS = 5  # during one look


@dataclass(frozen=True)
class Verdict:
    """Whether it holds now, and what to say if that was not wished.

    `holds` is None when there is nothing to judge, such as a file that does not exist: then neither the expectation
    nor its opposite holds, or `not_to_contain_text` would be green for a log that was never written.
    """

    holds: bool | None
    found: str = ""


def negated(method: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """The same expectation, the other way round."""

    @functools.wraps(method)
    def opposite(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._negated = True
        try:
            method(self, *args, **kwargs)
        finally:
            self._negated = False

    opposite.__name__ = f"not_{method.__name__}"
    opposite.__doc__ = f"The opposite of `{method.__name__}`: it must stop holding within its time."
    return cast("Callable[Concatenate[S, P], None]", opposite)


class _Expectation:
    """What every expectation shares: polling, negation, soft failures."""

    def __init__(self, subject: Any, *, name: str, observer: Any, soft: bool) -> None:
        self._subject = subject
        self._name = name
        self._observer = observer
        self._soft = soft
        self._negated = False

    @property
    def _context(self) -> TestContext | None:
        return self._observer.context if isinstance(self._observer, TestObserver) else None

    def _hold(self, what: str, check: Callable[[], Verdict], timeout: int | None) -> None:
        """Poll `check` until it gives what is wished.

        Args:
            what: The expectation in words, to follow "expected <subject>".
            check: Looks once.
            timeout: Milliseconds; None takes the setting.
        """
        limit = self._limit(timeout)
        started = time.monotonic()
        verdict = self._until(check, limit, started)
        context = self._context or (current[-1] if current else None)
        holds = self._wished(verdict)
        if context is not None:
            _count(context, held=holds)
        if holds:
            return
        waited = "" if limit == 0 else f" within {limit / 1000:g} s"
        place = " (as recorded)" if context and context.is_offline else ""
        found = verdict.found if verdict.found.startswith("\n") else f" {verdict.found}".rstrip()
        self._fail(f"expected {self._name}{place} {'not ' if self._negated else ''}{what}{waited}.{found}")

    def _wished(self, verdict: Verdict) -> bool:
        return verdict.holds is not None and verdict.holds is not self._negated

    def _until(self, check: Callable[[], Verdict], limit: int, started: float) -> Verdict:
        if not isinstance(self._observer, TestObserver):
            return self._poll(check, limit, started)
        with self._observer.polling():
            return self._poll(check, limit, started)

    def _poll(self, check: Callable[[], Verdict], limit: int, started: float) -> Verdict:
        while True:
            verdict = check()
            if self._wished(verdict) or (time.monotonic() - started) * 1000 >= limit:
                return verdict
            Event().wait(_PACE)

    def _limit(self, timeout: int | None) -> int:
        if timeout is not None and timeout < 0:
            raise BadArgument(f"timeout is in milliseconds and may not be negative: {timeout}")
        context = self._context
        if context is not None and context.is_offline:
            return 0  # a recording does not change while one waits
        if timeout is not None:
            return timeout
        return context.settings.timeout if context else 5_000

    def _fail(self, message: str, *hints: str) -> None:
        error = ExpectFailure(message, *hints)
        context = self._context
        if self._soft and context is not None:
            context.soft_failures.append(error)
            return
        raise error


class FileExpectation(_Expectation):
    """Expectations on a file of the desktop."""

    def _bytes(self) -> bytes | None:
        return self._subject._store.read(self._subject.path)  # type: ignore[no-any-return]  # through the observer

    def _database(self) -> tuple[bytes | None, bytes | None]:
        """An SQLite file, and in WAL mode the log beside it, which holds what was committed since the last checkpoint.

        A checkpoint between the two readings would move rows from the one to the other, so the file is read again.
        """
        data, log = self._bytes(), None
        for _ in range(_MOST_CHECKPOINTS):
            if data is None or data[_WAL_FLAGS] != _WAL:
                return data, None
            log = self._subject._store.read(f"{self._subject.path}-wal")
            again = data if self._context and self._context.is_offline else self._bytes()
            if again == data:
                break
            data = again
        return data, log

    def to_exist(self, *, timeout: int | None = None) -> None:
        """The file exists.

        Args:
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: It does not within its time.
        """

        def check() -> Verdict:
            data = self._bytes()
            return Verdict(data is not None, "It does not exist." if data is None else f"It has {len(data)} bytes.")

        self._hold("to exist", check, timeout)

    not_to_exist = negated(to_exist)

    def to_have_text(self, expected: str | re.Pattern[str], *, timeout: int | None = None) -> None:
        """The whole text is `expected`, or matches it from beginning to end when it is a pattern.

        Args:
            expected: Text, compared to the last character, or a compiled pattern.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: The message shows the difference, line by line.
        """

        def check() -> Verdict:
            text, problem = _text(self._bytes())
            if text is None:
                return Verdict(None, problem)
            if isinstance(expected, re.Pattern):
                return Verdict(expected.fullmatch(text) is not None, f"It has the text {_short(text)}.")
            return Verdict(text == expected, _text_difference(expected, text))

        self._hold(f"to have the text {_short(_shown(expected))}", check, timeout)

    not_to_have_text = negated(to_have_text)

    def to_contain_text(self, expected: str | re.Pattern[str], *, timeout: int | None = None) -> None:
        """`expected` occurs somewhere in the text.

        Args:
            expected: Text, or a compiled pattern that is searched.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: It does not occur within its time.
        """

        def check() -> Verdict:
            text, problem = _text(self._bytes())
            if text is None:
                return Verdict(None, problem)
            found = expected.search(text) if isinstance(expected, re.Pattern) else expected in text
            return Verdict(bool(found), f"It has the text {_short(text)}.")

        self._hold(f"to contain {_short(_shown(expected))}", check, timeout)

    not_to_contain_text = negated(to_contain_text)

    def to_have_json(self, expected: Any, *, timeout: int | None = None) -> None:
        """The file is JSON, equal to `expected`.

        Args:
            expected: A value as `json.loads` gives it.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: It is no JSON, or another value.
        """

        def check() -> Verdict:
            text, problem = _text(self._bytes())
            if text is None:
                return Verdict(None, problem)
            try:
                value = json.loads(text)
            except ValueError as error:
                return Verdict(None, f"It is no JSON: {error}.")
            pretty = [json.dumps(v, indent=2, sort_keys=True, ensure_ascii=False) for v in (expected, value)]
            return Verdict(value == expected, _text_difference(*pretty))

        self._hold(f"to have the JSON {_short(repr(expected))}", check, timeout)

    not_to_have_json = negated(to_have_json)

    def to_have_rows(self, query: str, expected: Iterable[Sequence[Any]], *, timeout: int | None = None) -> None:
        """The file is an SQLite database in which the query gives these rows, in this order.

        Args:
            query: One SQL query; give it an ORDER BY when there can be several rows.
            expected: Rows, each a sequence of values.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: There are other rows, or no such database.
        """
        wanted = [tuple(row) for row in expected]

        def check() -> Verdict:
            data, log = self._database()
            if data is None:
                return Verdict(None, "The file does not exist.")
            try:
                rows = _rows(data, log, query)
            except sqlite3.Error as error:
                return Verdict(None, f"SQLite says: {error}.")
            listed = "\n".join(f"  {row!r}" for row in rows[:20]) or "  (no rows)"
            return Verdict(rows == wanted, f"It has {len(rows)} rows:\n{listed}")

        listed = _short(", ".join(map(repr, wanted[:5])), 300) if wanted else "no rows"
        self._hold(f"to have {listed} for {query!r}", check, timeout)

    not_to_have_rows = negated(to_have_rows)


def _rows(data: bytes, log: bytes | None, query: str) -> list[tuple[Any, ...]]:
    with tempfile.TemporaryDirectory() as folder:  # the application's own file is never opened
        copy = Path(folder, "copy.sqlite")
        copy.write_bytes(data)
        if log:
            Path(f"{copy}-wal").write_bytes(log)
        connection = sqlite3.connect(copy)  # not read-only: SQLite writes an index of the log beside it
        try:
            connection.execute("pragma query_only = on")
            connection.execute("pragma schema_version")  # a query that reads no table would not look at the file
            return [tuple(row) for row in connection.execute(query).fetchall()]
        finally:
            connection.close()


class DesktopExpectation(_Expectation):
    """Expectations on a desktop."""

    def to_have_window(
        self, title: str | re.Pattern[str] | None = None, *, program: str | None = None, timeout: int | None = None
    ) -> None:
        """A window is open.

        Args:
            title: The whole title, or a compiled pattern that is searched in it; None takes any.
            program: The window's class, such as "Mousepad"; None takes any.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: The message lists the windows that are open.
        """
        if title is None and program is None:
            raise BadArgument("to_have_window() needs a title, a program or both.")

        def fits(window: Any) -> bool:
            if program is not None and window.program != program:
                return False
            if isinstance(title, re.Pattern):
                return title.search(window.title) is not None
            return title is None or window.title == title

        def check() -> Verdict:
            windows = self._subject.windows()
            listed = ", ".join(f"{w.title!r} ({w.program})" for w in windows) or "none"
            return Verdict(any(map(fits, windows)), f"Open windows: {listed}.")

        of = f" of {program}" if program else ""
        called = f" {_shown(title)!r}" if title is not None else ""
        self._hold(f"to have a window{called}{of}", check, timeout)

    not_to_have_window = negated(to_have_window)

    def to_have_screenshot(
        self,
        name: str,
        *,
        areas: Sequence[Area | Box] = (),
        exclude: Sequence[Area | Box] = (),
        tolerance: str = "strict",
        max_distance: int | None = None,
        timeout: int | None = None,
    ) -> None:
        """The screen is the accepted one.

        Args:
            name: Name of the baseline in the test's folder.
            areas: Where to look, boxes `(x, y, width, height)` in pixels; none looks everywhere.
            exclude: Boxes that never count, beside those of the baseline.
            tolerance: "strict" (default), "exact" or "perceptual".
            max_distance: For "perceptual": the most bits of 64 by which the worst tile's hash may differ.
            timeout: Milliseconds to wait.

        Raises:
            ExpectFailure: It differs, or there is no baseline; the message names the boxes and the pictures.
        """
        check = self._screenshot_check(
            name, areas=areas, exclude=exclude, tolerance=tolerance, max_distance=max_distance
        )
        limit = self._limit(timeout)
        comparison = self._until_same(check, limit)
        problem = check.settle(comparison)
        _count(self._observer.context, held=problem is None)
        if problem is not None:
            self._fail(*problem)

    def not_to_have_screenshot(
        self,
        name: str,
        *,
        areas: Sequence[Area | Box] = (),
        exclude: Sequence[Area | Box] = (),
        tolerance: str = "strict",
        max_distance: int | None = None,
        timeout: int | None = None,
    ) -> None:
        """The screen stops being the accepted one; nothing is ever written. Arguments as of `to_have_screenshot`.

        Raises:
            ExpectFailure: It stays the accepted one, or there is no baseline.
        """
        check = self._screenshot_check(
            name, areas=areas, exclude=exclude, tolerance=tolerance, max_distance=max_distance
        )
        limit = self._limit(timeout)
        _, comparison = self._until_same(check, limit, wished=False)
        _count(self._observer.context, held=comparison is not None and not comparison.same)
        if comparison is None:
            self._fail(*check.missing())
        elif comparison.same:
            waited = f" within {limit / 1000:g} s" if limit else ""
            self._fail(f"expected {self._name} not to show the baseline {name!r}{waited}. {comparison.summary}")

    def _screenshot_check(self, name: str, **options: Any) -> Any:
        from pytest_cua.assertions.baselines import ScreenshotCheck

        context = self._context
        if context is None:
            raise BadArgument(
                "to_have_screenshot() needs a desktop of the `cua` or `desktop` fixture: it keeps its baselines in the "
                "test's folder."
            )
        return ScreenshotCheck(context, self._subject.name, name, **options)

    def _until_same(self, check: Any, limit: int, *, wished: bool = True) -> tuple[Image.Image, Comparison | None]:
        deadline = time.monotonic() + limit / 1000
        with self._observer.polling():
            while True:
                if self._subject.is_live:
                    self._subject.wait_until_still(quiet=self._observer.context.settings.quiet, timeout=max(limit, 100))
                image = self._subject.screenshot()
                comparison = check.compare(image)
                if comparison is None or comparison.same is wished or time.monotonic() >= deadline:
                    return image, comparison


def _text(data: bytes | None) -> tuple[str | None, str]:
    if data is None:
        return None, "The file does not exist."
    try:
        return data.decode(), ""
    except UnicodeDecodeError as error:
        return None, f"It is no UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}."


def _shown(expected: str | re.Pattern[str] | None) -> str:
    return expected.pattern if isinstance(expected, re.Pattern) else str(expected)


def _short(text: str, limit: int = 120) -> str:
    text = repr(text) if not text.startswith(("'", '"', "(", "[")) else text
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text_difference(expected: str, actual: str) -> str:
    if expected == actual:
        return "It is the same."
    if expected.rstrip("\n") == actual.rstrip("\n"):
        return (
            f"Only the line ends at the end differ: expected {len(expected) - len(expected.rstrip(chr(10)))}, "
            f"found {len(actual) - len(actual.rstrip(chr(10)))}."
        )
    lines = list(
        difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "found", lineterm="", n=2)
    )
    more = f"\n… {len(lines) - _DIFF_LINES} more lines" if len(lines) > _DIFF_LINES else ""
    return "\n" + "\n".join(lines[:_DIFF_LINES]) + more


def _count(context: TestContext, *, held: bool) -> None:
    """An expectation that held is a check; one that did not is a reading, which a `pytest.raises` around it checks."""
    if held:
        context.evidence.expect_held()
    else:
        context.evidence.state_read()


class Expect:
    """`expect(x)` and `expect.soft(x)`."""

    def __call__(self, actual: Any) -> Any:
        """Expectations on a desktop, a file of it, or anything that Playwright's own `expect` takes.

        Raises:
            BadArgument: There is nothing to expect of such a value.
        """
        return self._made(actual, soft=False)

    def soft(self, actual: Any) -> Any:
        """Like `expect(...)`, but the test goes on; what did not hold fails it at its end."""
        return self._made(actual, soft=True)

    def _made(self, actual: Any, *, soft: bool) -> Any:
        kind = type(actual).__name__
        if kind == "DesktopFile":
            return FileExpectation(actual, name=f"file {actual.path!r}", observer=actual._store.observer, soft=soft)
        if kind in ("Desktop", "RecordedDesktop"):
            return DesktopExpectation(actual, name=f"desktop {actual.name}", observer=actual.observer, soft=soft)
        if type(actual).__module__.startswith("playwright."):
            return _playwright(actual)
        raise BadArgument(
            f"expect() takes a desktop, a file of it (cua.desktop.file(...)), or a Playwright page, locator or "
            f"response, not {kind} {actual!r}.",
            "for a plain value write an assert",
        )


def _playwright(actual: Any) -> Any:
    from playwright.sync_api import expect as playwright_expect

    if current:  # it counts as evaluated once it is called; what is never called holds nothing up
        return _Counted(playwright_expect(actual), current[-1])
    return playwright_expect(actual)


class _Counted:
    """Playwright's assertions, counted when one is evaluated."""

    def __init__(self, assertions: Any, context: TestContext) -> None:
        self._assertions = assertions
        self._context = context

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._assertions, name)
        if not callable(value):
            return value

        @functools.wraps(value)
        def evaluated(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            self._context.evidence.expect_held()
            return result

        return evaluated


expect = Expect()


def raise_soft_failures(context: TestContext) -> None:
    """Fail the test with everything that `expect.soft` collected.

    Raises:
        ExpectFailure: One message for all of them.
    """
    failures: list[CuaFailure] = context.soft_failures
    if not failures:
        return
    texts = (textwrap.indent(str(failure), "   ").strip() for failure in failures)
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))
    raise ExpectFailure(f"{len(failures)} soft expectations did not hold in {shell_quoted(context.test)}:\n{listed}")


__all__ = ["DesktopExpectation", "Expect", "FileExpectation", "expect", "raise_soft_failures"]
