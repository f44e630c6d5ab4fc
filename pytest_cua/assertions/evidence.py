"""Did the test assert anything? A test that could not have failed must not be green.

Counted is what was evaluated after the last step: an `expect`, or a reading of the desktop's state from which an
`assert` follows, in the same function or in one that called it. What the agent said never counts.

A test that passed has run its asserts without a failure, so it is enough to know that state was read and that an assert
stands where the reading leads. That is looked up in the source of the functions that were running; an assert that is
there and was skipped by a branch is not told apart.
"""

from __future__ import annotations

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARIES = tuple({sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# the functions of pytest that call a test or a fixture; frames outside of them are not the user's
_RUNNERS = ("pytest_pyfunc_call", "pytest_fixture_setup", "_teardown_yield_fixture")
_ASSERTING_CALLS = ("raises", "fail")  # of pytest, and every name that begins with "assert"

ADVICE = (
    "look at what the application did, after the last step, for example:\n"
    '    expect(cua.desktop.file("invoice.txt")).to_have_text("Total: 42 EUR\\n")\n'
    '    expect(cua.desktop).to_have_screenshot("invoice-saved")\n'
    "or switch the rule off for this test: @pytest.mark.cua(strict=False)"
)


@dataclass(frozen=True)
class Place:
    """A line that was running: the file, the first line of its function, the line."""

    file: str
    function_line: int
    line: int


def is_inside(path: str) -> bool:
    """Whether a line is of ours, of a library or of nobody, rather than of the user's suite."""
    return path.startswith((_PACKAGE, "<", *_LIBRARIES)) or "/site-packages/" in path or "/dist-packages/" in path


def user_places() -> tuple[Place, ...]:
    """The lines of the user's functions that are running now, the innermost first."""
    places = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name not in _RUNNERS:
        code = frame.f_code
        # an assert in the standard library, through which an HTTP request goes, is none of the test's
        if not is_inside(code.co_filename):
            places.append(Place(code.co_filename, code.co_firstlineno, frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


@dataclass
class Evidence:
    """What was asserted since the last step of one test."""

    steps: int = 0
    expected: int = 0
    readings: list[tuple[Place, ...]] = field(default_factory=list)
    handles: int = 0  # live things in the test's hands, such as a browser's page, whose readings cannot be seen
    step_places: tuple[Place, ...] = ()

    def step_done(self) -> None:
        """A step ended, well or not: what was asserted before it says nothing about what it did."""
        self.steps += 1
        self.expected = 0
        self.readings.clear()
        self.step_places = user_places()

    def expect_held(self) -> None:
        """An `expect` was evaluated and held."""
        self.expected += 1

    def state_read(self) -> None:
        """The test read state of the desktop."""
        self.readings.append(user_places())

    def handle_given(self) -> None:
        """The test was given something live that it reads without us."""
        self.handles += 1

    @property
    def is_enough(self) -> bool:
        """Whether the test could have failed after its last step."""
        if self.steps == 0 or self.expected:
            return True
        if any(asserted_from(place) for places in self.readings for place in places):
            return True
        return bool(self.handles) and any(asserted_from(place, later=True) for place in self.step_places)

    def complaint(self, test: str) -> str:
        """Why the test is refused, in one paragraph."""
        read = "state was read, but no assert follows from it" if self.readings else "nothing was looked at"
        return (
            f"{test} passed without a check: after its last step {read}, so it would pass whatever the application did "
            "(what the agent says about its own work is no check)."
        )


@lru_cache(maxsize=256)
def _functions(file: str) -> dict[int, ast.AST]:
    """The functions of a file, by the line where their code begins (the first decorator's, as in code objects)."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    found: dict[int, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first] = node
    return found


def asserted_from(place: Place, *, later: bool = False) -> bool:
    """Whether an assert stands at the place or where the function goes on from it.

    Args:
        place: A running line.
        later: Only what begins after this line counts.
    """
    function = _functions(place.file).get(place.function_line)
    if function is None:
        return False
    first = place.line + 1 if later else place.line
    # what stands earlier in a loop comes again, and `with pytest.raises(...)` ends after its block
    blocks = (ast.For, ast.AsyncFor, ast.While) if later else (ast.For, ast.AsyncFor, ast.While, ast.With)
    loops = [node for node in ast.walk(function) if isinstance(node, blocks)]
    inside = [loop for loop in loops if loop.lineno <= place.line <= (loop.end_lineno or loop.lineno)]
    return any(
        (node.end_lineno or node.lineno) >= first or any(_belongs(node, loop) for loop in inside)
        for node in asserts_in(function)
    )


def _belongs(node: ast.stmt | ast.expr, block: ast.stmt) -> bool:
    if isinstance(block, ast.With):
        return any(node is part for item in block.items for part in ast.walk(item.context_expr))
    return block.lineno <= node.lineno <= (block.end_lineno or 0)


def asserts_in(function: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """The statements and calls in a function that can fail a test."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _can_fail(_called(node))):
            yield node


def _can_fail(name: str) -> bool:
    return name.startswith("assert") or name in _ASSERTING_CALLS


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


_OURS = ("cua", "desktop", "desktop_factory")
_OUR_FIXTURES = (*_OURS, "_cua_test", "cua_client", "cua_confirm", "computer", "vcr_config", "request", "self")
_HARMLESS = ("print", "str", "int", "len", "range", "repr", "format", "sorted", "list", "dict", "tuple", "enumerate")


def provably_vacuous(source: str, *, fixtures: frozenset[str]) -> bool:
    """Whether a test function that uses `cua` can be seen, from its source alone, to assert nothing anywhere.

    Args:
        source: The function's source.
        fixtures: All fixtures it uses, those it does not name among them.

    Any call to something that is not ours could assert, and so could any fixture of the user's; then nothing is proven.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    function = next((n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if function is None:
        return False
    if "cua" not in fixtures or not fixtures <= set(_OUR_FIXTURES):
        return False
    body = ast.Module(function.body, [])  # without its decorators, whose calls assert nothing
    if any(True for _ in asserts_in(body)):
        return False
    steps = 0
    for node in ast.walk(body):
        if isinstance(node, (ast.Raise, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(node, ast.Call):
            root = _root(node.func)
            if root not in (*_OURS, *_HARMLESS):
                return False
            steps += root == "cua" and _called(node) == "do"
    return steps > 0


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
