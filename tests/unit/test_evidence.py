"""What counts as an assertion, found from running lines and from source alone."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_cua.assertions.evidence import (
    Evidence,
    Place,
    Words,
    asserted_from,
    asserts_in,
    checks_in,
    is_inside,
    provably_vacuous,
    user_places,
)

LINES = """
import pytest

def after(x):
    read(x)
    assert x

def before(x):
    assert x
    read(x)

def in_loop(xs):
    for x in xs:
        assert x
        read(x)

def after_loop(xs):
    for x in xs:
        read(x)
    return x

def outside_loop(xs):
    assert xs
    while xs:
        read(xs)

@pytest.fixture
@pytest.mark.usefixtures("x")
def decorated(x):
    read(x)
    assert x

def outer(x):
    def inner():
        read(x)
    inner()
    assert x

def inner_only(x):
    def inner():
        read(x)
        assert x
    return inner

def by_call(x):
    read(x)
    check.assert_is_file(x)

def by_raises(x):
    with pytest.raises(ValueError):
        read(x)

def in_branch(x):
    if read(x):
        return 1
    assert x

def across_lines(x):
    assert (
        "a" in
        read(x)
    )

async def later(x):
    read(x)
    assert x
"""


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    """The place of the call of `read` in a function of LINES."""
    file = tmp_path / "lines.py"
    file.write_text(LINES)
    lines = LINES.splitlines()

    def find(function: str, inside: str | None = None) -> Place:
        first = next(i for i, line in enumerate(lines) if line.strip().split("(")[0].endswith(f"def {function}"))
        begin = first
        while lines[begin - 1].startswith("@"):
            begin -= 1
        read = next(i for i in range(first, len(lines)) if "read(" in lines[i])
        if inside:
            begin = next(i for i in range(first, len(lines)) if f"def {inside}" in lines[i])
        return Place(str(file), begin + 1, read + 1)

    return find


@pytest.mark.parametrize(
    ("function", "inside", "counts"),
    [
        ("after", None, True),
        ("before", None, False),
        ("in_loop", None, True),
        ("after_loop", None, False),
        ("outside_loop", None, False),
        ("decorated", None, True),
        ("outer", "inner", False),
        ("outer", None, True),
        ("inner_only", "inner", True),
        ("by_call", None, True),
        ("by_raises", None, True),
        ("in_branch", None, True),
        ("across_lines", None, True),
        ("later", None, True),
    ],
)
def test_an_assert_counts_where_the_reading_leads_to_it(
    place: Callable[..., Place], function: str, inside: str | None, counts: bool
) -> None:
    assert asserted_from(place(function, inside)) is counts


CHECKS = [
    ('assert r.outcome == "done"', False),
    ("assert r", False),
    ('assert "Seen" in r.text.lower() and len(r.text) > 3, x', False),
    ("text = r.text\n    assert text", False),
    ("self.assertEqual(r.outcome, 'done')", False),
    ("assert cua.usage.cost_usd < 1", False),
    ("assert self.cua.judge('y', desktop=x)", False),
    ("first, second = cua.do('a'), cua.do('b')\n    assert first.outcome == second.outcome", False),
    ("if (later := cua.do('a')):\n        assert later.outcome == 'done'", False),
    ("seen = [r.text]\n    for word in seen:\n        assert word", False),
    ("if r.outcome != 'done':\n        raise RuntimeError(r.text)", False),
    ("if r.outcome != 'done':\n        pytest.fail(x)", False),
    ("assert x == r.text", True),
    ("assert check(r)", True),
    ("assert open('a').read() == r.text", True),
    ("assert cua.desktop.windows()", True),
    ("r = x.read()\n    assert r", True),
    ("seen = [r.text]\n    seen.append(x.read())\n    assert seen", True),
    ("seen = {0: r.text}\n    seen[1] = x.read()\n    assert seen", True),
    ("LOG.append(r.text)\n    assert LOG", True),
    ("for r in x:\n        assert r", True),
    ("with x as r:\n        assert r", True),
    ("assert all(r for r in x)", True),
    ("if x.windows():\n        assert False", True),
    ("if x.windows():\n        raise RuntimeError(r.text)", True),
    ("if x.windows():\n        if r.outcome:\n            raise RuntimeError", True),
    ("if r.outcome == 'done':\n        assert x.windows()", True),
    ("if r.outcome == 'done':\n        with pytest.raises(E):\n            x.read()", True),
]


@pytest.mark.parametrize(("body", "counts"), CHECKS)
def test_what_looks_at_the_agents_words_alone_is_no_check(body: str, counts: bool) -> None:
    function = ast.parse(f"def test_a(self, cua, x):\n    r = cua.do('y')\n    {body}\n")
    assert any(True for _ in checks_in(function, Words(function))) is counts


def test_a_place_that_is_no_function_or_no_python_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    assert not asserted_from(Place(str(tmp_path / "broken.py"), 1, 1))
    assert not asserted_from(Place(str(tmp_path / "absent.py"), 1, 1))
    assert not asserted_from(Place(str(tmp_path / "broken.py"), 99, 99))


def test_only_what_begins_later_counts_for_a_step(place: Callable[..., Place]) -> None:
    assert asserted_from(place("after"), later=True)
    assert not asserted_from(place("by_raises"), later=True)


def test_the_running_lines_are_those_of_the_users_functions() -> None:
    def reader() -> tuple[Place, ...]:
        return user_places()

    places = reader()
    assert [Path(p.file).name for p in places] == ["test_evidence.py", "test_evidence.py"]
    assert places[0].function_line == reader.__code__.co_firstlineno
    assert not any(is_inside(p.file) for p in places)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        (textwrap.__file__, True),
        (pytest.__file__, True),
        (str(Path(__file__).parents[2] / "pytest_cua/observe.py"), True),
        ("<string>", True),
        (__file__, False),
        (str(Path(__file__).parents[2] / "pytest_cua_tests/test_x.py"), False),
    ],
)
def test_lines_of_libraries_and_of_ours_are_not_the_users(path: str, inside: bool) -> None:
    assert is_inside(path) is inside


def test_what_came_before_the_last_step_is_forgotten() -> None:
    evidence = Evidence()
    assert evidence.is_enough  # a test without steps is no concern of ours
    evidence.step_done()
    assert not evidence.is_enough
    evidence.expect_held()
    assert evidence.is_enough
    evidence.step_done()
    assert not evidence.is_enough


def test_an_opinion_alone_is_no_check_and_takes_none_away() -> None:
    evidence = Evidence(judges=1)
    assert not evidence.is_enough
    assert "beside the agent's opinion nothing was looked at" in evidence.complaint("test_a")
    evidence.state_read()
    assert evidence.is_enough


def test_what_is_on_its_way_out_is_told_from_what_was_handled() -> None:
    evidence = Evidence()
    found: list[BaseException | None] = []

    def look() -> None:
        try:
            {}["inside"]
        except KeyError:
            found.append(evidence.failure_underway())

    def handles(error: Exception) -> None:
        try:
            raise error
        except Exception:
            look()

    def raises_again(error: Exception) -> None:
        try:
            raise error
        except Exception:
            look()
            raise

    def ends(error: Exception) -> None:
        try:
            raise error
        finally:
            look()

    look()
    handles(ValueError())
    assert found == [None, None]
    for function in (raises_again, ends):
        error = ValueError()
        with pytest.raises(ValueError):
            function(error)
        assert found.pop() is error


def test_a_reading_counts_only_with_an_assert_behind_it() -> None:
    def read_only(evidence: Evidence) -> None:
        evidence.state_read()

    def read_and_check(evidence: Evidence) -> None:
        evidence.state_read()
        assert evidence

    # the test that runs this has asserts of its own, so the readings are cut to the innermost line
    for function, enough in ((read_only, False), (read_and_check, True)):
        evidence = Evidence()
        evidence.step_done()
        function(evidence)
        evidence.readings = [places[:1] for places in evidence.readings]
        assert evidence.is_enough is enough


OURS = frozenset({"cua", "_cua_test", "desktop", "desktop_factory", "request"})


def vacuous(source: str, fixtures: frozenset[str] = OURS) -> bool:
    return provably_vacuous(textwrap.dedent(source), fixtures=fixtures)


@pytest.mark.parametrize(
    "body",
    [
        'cua.do("x")',
        'result = cua.do("x")\n    print(result.text)',
        'for n in range(3):\n        cua.do("x")',
        'cua.desktop.launch("a")\n    cua.do("x")\n    cua.desktop.file("a").read_text()',
        'if cua.judge("x"):\n        cua.do("y")',
    ],
)
def test_steps_and_nothing_else_are_proven_to_assert_nothing(body: str) -> None:
    assert vacuous(f"def test_a(cua):\n    {body}\n")
    assert vacuous(f"@pytest.mark.parametrize('x', list(range(3)))\ndef test_a(self, cua):\n    {body}\n")
    assert vacuous(f"async def test_a(cua):\n    {body}\n")


@pytest.mark.parametrize(
    "body",
    [
        'cua.do("x")\n    assert True',
        'cua.do("x")\n    expect(cua.desktop)',
        'cua.do("x")\n    check(cua)',
        'cua.do("x")\n    if not cua.desktop.windows():\n        raise ValueError',
        'cua.do("x")\n    pytest.fail("x")',
        'with pytest.raises(ValueError):\n        cua.do("x")',
        'def verify():\n        assert cua\n    cua.do("x")\n    verify()',
        'cua.do("x")\n    yield',
        'cua.desktop.launch("mousepad")',
    ],
)
def test_whatever_could_assert_is_left_to_the_run(body: str) -> None:
    assert not vacuous(f"def test_a(cua):\n    {body}\n")


def test_a_fixture_of_the_users_could_assert() -> None:
    source = 'def test_a(cua):\n    cua.do("x")\n'
    assert not vacuous(source, OURS | {"checked"})
    assert not vacuous(source, frozenset({"request"}))
    assert not vacuous("def test_a(:")
    assert not vacuous("x = 1")


def test_asserting_calls_are_known_by_their_names() -> None:
    def found(text: str) -> list[Any]:
        return list(asserts_in(ast.parse(text)))

    for text in (
        "assert x",
        "raise x",
        "self.assertEqual(1, 1)",
        "assert_frame_equal(a, b)",
        "pytest.raises(E)",
        "pytest.fail()",
    ):
        assert len(found(text)) == 1, text
    for text in ("print(x)", "expect(x)", "x.asserted", "raises = 1"):
        assert not found(text), text
