"""Did the test assert anything? A test that could not have failed must not be green.

Counted is what was evaluated after the last step: an `expect`, or a reading of the desktop's state from which an
`assert` follows, in the same function or in one that called it. What the agent said never counts.

A test that passed has run its asserts without a failure, so it is enough to know that state was read and that an assert
stands where the reading leads: there itself, or in a function of the user's that is called there. That is looked up in
the source of the functions that were running; an assert that is there and was skipped by a branch is not told apart.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from pytest_cua.errors import NeedsApplication

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
    """A line that was running: the file, the first line of its function, the line, and what its names mean there."""

    file: str
    function_line: int
    line: int
    scope: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    helpers: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


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
            places.append(_place(frame))
        frame = frame.f_back
    return tuple(places)


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    known = {name: _known(value) for name, value in frame.f_locals.items()}
    return Place(code.co_filename, code.co_firstlineno, frame.f_lineno, frame.f_globals, known)


def _known(value: Any) -> Any:
    """What helps to find the functions that a local name leads to; the value itself is not kept alive."""
    return _code_of(value) or (value if isinstance(value, type | ModuleType) else type(value))


@dataclass
class Evidence:
    """What was asserted since the last step of one test."""

    steps: int = 0
    judges: int = 0  # opinions that were asked for; they change nothing, and what came before them still counts
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
        """The test was given something live that it reads without us, at once or later."""
        self.handles += 1
        self.state_read()

    def failure_underway(self) -> BaseException | None:
        """What has failed and is on its way out, while a `finally`, or an `except` that raises again, still runs."""
        return _failure_underway()

    @property
    def is_enough(self) -> bool:
        """Whether the test could have failed after its last step."""
        if self.steps + self.judges == 0 or self.expected:
            return True
        if any(asserted_from(place) for places in self.readings for place in places):
            return True
        return bool(self.handles) and any(asserted_from(place, later=True) for place in self.step_places)

    def complaint(self, test: str) -> str:
        """Why the test is refused, in one paragraph."""
        read = "state was read, but no assert follows from it" if self.readings else "nothing was looked at"
        when = "after its last step " if self.steps else "beside the agent's opinion "
        return (
            f"{test} passed without a check: {when}{read}, so it would pass whatever the application did "
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

    def comes(node: ast.stmt | ast.expr) -> bool:
        return (node.end_lineno or node.lineno) >= first or any(_belongs(node, loop) for loop in inside)

    words = Words(function)
    if any(comes(node) for node in checks_in(function, words)):
        return True
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(comes(call) and _helper_checks(call, place, words) for call in calls)


def _belongs(node: ast.stmt | ast.expr, block: ast.stmt) -> bool:
    if isinstance(block, ast.With):
        return any(node is part for item in block.items for part in ast.walk(item.context_expr))
    return block.lineno <= node.lineno <= (block.end_lineno or 0)


def asserts_in(function: ast.AST) -> Iterator[ast.Assert | ast.Raise | ast.Call]:
    """The statements and calls in a function that can fail a test."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Assert, ast.Raise)) or (isinstance(node, ast.Call) and _can_fail(_called(node))):
            yield node


def checks_in(function: ast.AST, words: Words) -> Iterator[ast.stmt | ast.expr]:
    """The asserts of a function, without those that look at nothing but what the agent said."""
    aside = words.decided_by_the_agent()
    for node in asserts_in(function):
        if isinstance(node, ast.Assert):
            passed_over = words.are_the_agents([node.test])
        elif isinstance(node, ast.Raise) or _called(node) == "fail":
            passed_over = node in aside
        else:
            passed_over = _called(node) != "raises" and words.are_the_agents(_arguments(node))
        if not passed_over:
            yield node


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _can_fail(name: str) -> bool:
    return name.startswith("assert") or name in _ASSERTING_CALLS


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


# ------------------------------------------------------------------ what the agent said

_ANSWERS = ("do", "judge")  # of `cua`, called
_ACCOUNTS = ("usage", "cassette", "is_live", "model", "run")  # of `cua`
# functions that add no state of their own to what they are given
_PURE = ("all", "any", "bool", "float", "hash", "isinstance", "max", "min", "round", "set", "sum", "type", "zip")


class Words:
    """Which names of a function hold only what the agent said: results of `cua.do`, opinions, and parts of them."""

    def __init__(self, function: ast.AST) -> None:
        self._function = function
        given: dict[str, list[ast.expr | None]] = {}
        for name, value in _bindings(function):
            given.setdefault(name, []).append(value)
        for name, value in _changes(function):
            if name in given:  # what comes from elsewhere holds more than what is put into it here
                given[name].append(value)
        self._names = set(given)
        while spoilt := {name for name in self._names if not self._only_said(given[name])}:
            self._names -= spoilt

    def _only_said(self, values: list[ast.expr | None]) -> bool:
        said = [value for value in values if not isinstance(value, ast.Constant)]
        return bool(said) and all(value is not None and self.are_the_agents([value]) for value in said)

    def are_the_agents(self, expressions: list[ast.expr]) -> bool:
        """Whether the expressions are made of the agent's words and of nothing else that could be state."""
        parts = [part for expression in expressions for part in self._parts(expression)]
        return bool(parts) and all(parts)

    def _parts(self, node: ast.AST, own: frozenset[str] = frozenset()) -> Iterator[bool]:
        """For each name in an expression, whether it is the agent's; names that mean no state are left out."""
        if _is_an_answer(node):
            yield True
        elif isinstance(node, ast.Name):
            if node.id not in own and node.id not in (*_PURE, *_HARMLESS):
                yield node.id in self._names
        else:
            if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                # its own names are filled from what it goes through, which is looked at as well
                own |= {n.id for loop in node.generators for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            for child in ast.iter_child_nodes(node):
                yield from self._parts(child, own)

    def decided_by_the_agent(self) -> set[ast.AST]:
        """What runs only if the agent said so, such as the `raise` in `if result.outcome != "done": raise ...`."""
        aside: set[ast.AST] = set()
        kept: set[ast.AST] = set()  # stands under another condition as well
        for node in ast.walk(self._function):
            if isinstance(node, ast.If | ast.While):
                under = {inner for part in (*node.body, *node.orelse) for inner in ast.walk(part)}
                (aside if self.are_the_agents([node.test]) else kept).update(under)
        return aside - kept


def _is_an_answer(node: ast.AST) -> bool:
    named = node.func if isinstance(node, ast.Call) else node
    if not isinstance(named, ast.Attribute):
        return False
    owner = named.value
    if (owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else "") != "cua":
        return False
    return named.attr in _ANSWERS if isinstance(node, ast.Call) else named.attr in _ACCOUNTS


def _bindings(function: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Every name that a function gives a value, with the value; None is a value that is not looked into."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for target in targets for name in _stored(target))
            case ast.AnnAssign(target=target, value=value) if value is not None:
                yield from ((name, value) for name in _stored(target))
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield from ((name, value) for name in _stored(target))
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield from ((name, value) for name in _stored(target))
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from ((name, None) for name in _stored(target))
            case ast.arg(arg=name) | ast.ExceptHandler(name=str() as name):
                yield name, None


def _changes(function: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """What is put into names that have a value: `seen.append(x)`, `seen[i] = x`."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner), args=args)):
                yield from ((_root(owner), arg) for arg in args)
            case ast.Assign(targets=targets, value=value):
                yield from ((_root(target), value) for target in targets)
            case ast.AugAssign(target=target, value=value):
                yield _root(target), value


def _stored(target: ast.expr) -> list[str]:
    """The names that an assignment to `target` gives a value."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for part in target.elts for name in _stored(part)]
    target = target.value if isinstance(target, ast.Starred) else target
    return [target.id] if isinstance(target, ast.Name) else []


# ------------------------------------------------------------------ functions that a test calls


def _helper_checks(call: ast.Call, place: Place, words: Words) -> bool:
    """Whether a function of the user's that is called with something to look at can fail the test."""
    if _is_an_answer(call):
        return False
    target = _resolved(call.func, place)
    looked_at = _arguments(call)
    if isinstance(call.func, ast.Attribute) and not isinstance(_resolved(call.func.value, place), ModuleType):
        looked_at.append(call.func.value)
    if not looked_at or words.are_the_agents(looked_at):
        return False
    found = _source_of(target)
    if found is None and (isinstance(call.func, ast.Name) or _root(call.func) in ("self", "cls")):
        named = _functions(place.file).values()  # a fixture, or a method, of the same file
        found = next((f for f in named if getattr(f, "name", None) == _called(call)), None)
    return found is not None and any(True for _ in checks_in(found, Words(found)))


def _resolved(node: ast.AST, place: Place) -> Any:
    """What a dotted name means, as far as that can be told without running anything; else None."""
    if isinstance(node, ast.Name):
        return place.helpers[node.id] if node.id in place.helpers else place.scope.get(node.id)
    if isinstance(node, ast.Call):  # Page(cua).check()
        made = _resolved(node.func, place)
        return made if isinstance(made, type) else None
    if not isinstance(node, ast.Attribute):
        return None
    owner = _resolved(node.value, place)
    if isinstance(owner, ModuleType):
        return vars(owner).get(node.attr)
    return inspect.getattr_static(owner, node.attr, None) if isinstance(owner, type) else None


def _source_of(target: Any) -> ast.AST | None:
    code = _code_of(target)
    if code is None or is_inside(code.co_filename):
        return None
    return _functions(code.co_filename).get(code.co_firstlineno)


def _code_of(target: Any) -> CodeType | None:
    """The code of a function, behind decorators and the like."""
    if isinstance(target, staticmethod | classmethod | MethodType):
        target = target.__func__
    if isinstance(target, partial):
        target = target.func
    if isinstance(target, FunctionType):
        target = inspect.unwrap(target)
    if isinstance(target, FunctionType):
        return target.__code__
    return target if isinstance(target, CodeType) else None


# ------------------------------------------------------------------ what failed first


def _failure_underway() -> BaseException | None:
    error = sys.exception()
    running = _running_frames()
    while error is not None:
        frame = error.__traceback__.tb_frame if error.__traceback__ else None  # the one that holds it now
        if frame is not None and frame in running and not isinstance(error, NeedsApplication):
            code = frame.f_code
            is_ours = is_inside(code.co_filename)
            if not is_ours and not _is_handled(Place(code.co_filename, code.co_firstlineno, frame.f_lineno)):
                return error
        error = error.__context__
    return None


def _running_frames() -> set[FrameType]:
    frames: set[FrameType] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.add(frame)
        frame = frame.f_back
    return frames


def _is_handled(place: Place) -> bool:
    """Whether a line stands in an `except` that lets the test go on: one without a `raise`."""
    function = _functions(place.file).get(place.function_line)
    handlers = [node for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)] if function else []
    around = [node for node in handlers if node.lineno <= place.line <= (node.end_lineno or node.lineno)]
    return any(not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)) for node in around)


# ------------------------------------------------------------------ before anything runs

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
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
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
