"""Flows: steps that are recorded once and used by many tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import pathlib
ASKED = pathlib.Path(__file__).parent / "asked"

def noting(request):
    ASKED.open("a").write(request.sentence + "\\n")
    yield use("screenshot")
    yield turn(use("type", text="{user}\\n") if "{user}" in request.sentence else use("key", text="ctrl+End"))
    yield finish("Done.")

SCRIPT = {"": noting}
"""

FLOWS = '''
import pytest_cua

@pytest_cua.flow
def log_in(cua, user="ann"):
    """Log in to the shop."""
    cua.do("Type the name {user} into the page", params={"user": user})
    cua.do("Confirm the login")

@pytest_cua.flow(name="leave")
def log_out(cua):
    cua.do("Log out again")
'''

TESTS = """
import shop_flows
from pytest_cua import expect

def check(cua):
    cua.desktop.file("a.txt").write("x")
    expect(cua.desktop.file("a.txt")).to_have_text("x")

def test_one(cua):
    shop_flows.log_in(cua)
    cua.do("Look at the cart")
    check(cua)

def test_two(cua):
    shop_flows.log_in(cua, user="bob")
    cua.do("Look at the orders")
    shop_flows.log_out(cua)
    shop_flows.log_in(cua, "eve")
    check(cua)

def test_three(cua):
    cua.do("Look around")
    check(cua)
"""


@pytest.fixture
def shop(project: Any) -> Any:
    project.script(SCRIPT)
    project.write(shop_flows=FLOWS, test_shop=TESTS)
    (project.path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')
    (project.path / "test_note.py").unlink()
    return project


def asked(project: Any) -> list[str]:
    file = project.path / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "cassette.jsonl").read_text().splitlines()]


LOGIN = ["Type the name {user} into the page", "Confirm the login"]


def test_a_flow_is_recorded_once_and_used_by_many_tests(shop: Any) -> None:
    shop.record().assert_outcomes(passed=3)
    assert asked(shop) == [*LOGIN, "Look at the cart", "Look at the orders", "Log out again", "Look around"]
    folder = shop.path / "cassettes/flows/shop_flows/log_in"
    flow = lines_of(folder)
    assert flow[0]["kind"] == "flow"
    assert [line["sentence"] for line in flow if line["type"] == "step"] == LOGIN
    own = lines_of(shop.path / "cassettes/test_shop/test_two")
    assert [line["sentence"] for line in own if line["type"] == "step"] == ["Look at the orders"]
    assert [(line["flow"], line["after_step"]) for line in own if line["type"] == "flow"] == [
        ("flows/shop_flows.py::log_in", 0),
        ("flows.py::leave", 1),
        ("flows/shop_flows.py::log_in", 1),
    ]
    # what later steps are told of it stays the same when its sentences change
    opening = next(line for line in own if line["type"] == "turn")["request"]["new"][0]["content"]
    assert opening[0]["text"] == "These steps of the test are already done:\n1. Log in to the shop"
    page = (shop.path / "cassettes/test_shop/test_two/steps.md").read_text()
    assert "## Flow: Log in to the shop" in page
    for mode in ("replay", "offline"):
        shop.run(f"--cua-mode={mode}").assert_outcomes(passed=3)
    assert asked(shop) == []


def test_a_flow_that_changes_is_recorded_once_again_and_no_test_with_it(shop: Any) -> None:
    shop.record().assert_outcomes(passed=3)
    asked(shop)
    shop.write(shop_flows=FLOWS.replace("Confirm the login", "Confirm it with Return"))
    result = shop.run("--cua-mode=offline")
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    for test in ("test_one", "test_two"):
        assert f"In flow log_in ({shop.path}/cassettes/flows/shop_flows/log_in), used by test_shop.py::{test}: " in text
    assert "likely: a sentence was edited" in text
    hint = f"rm -r {shop.path}/cassettes/flows/shop_flows/log_in && pytest --cua-record test_shop.py::test_one"
    assert hint in text
    shutil.rmtree(shop.path / "cassettes/flows/shop_flows/log_in")
    before = (shop.path / "cassettes/test_shop/test_one/cassette.jsonl").read_bytes()
    shop.run("--cua-record").assert_outcomes(passed=3)
    assert asked(shop) == [LOGIN[0], "Confirm it with Return"]
    assert (shop.path / "cassettes/test_shop/test_one/cassette.jsonl").read_bytes() == before
    shop.run().assert_outcomes(passed=3)


def test_recording_a_new_test_leaves_the_flow_as_it_is(shop: Any) -> None:
    shop.record("-k", "one").assert_outcomes(passed=1, deselected=2)
    asked(shop)
    flow = (shop.path / "cassettes/flows/shop_flows/log_in/cassette.jsonl").read_bytes()
    shop.run("--cua-record").assert_outcomes(passed=3)
    assert asked(shop) == ["Look at the orders", "Log out again", "Look around"]
    assert (shop.path / "cassettes/flows/shop_flows/log_in/cassette.jsonl").read_bytes() == flow
    shop.record("-k", "one").assert_outcomes(passed=1, deselected=2)
    assert asked(shop) == [*LOGIN, "Look at the cart"]
    assert (shop.path / "cassettes/flows/shop_flows/log_in/cassette.jsonl").read_bytes() != flow


def test_a_flow_without_a_recording_says_how_to_make_it(shop: Any) -> None:
    shop.record().assert_outcomes(passed=3)
    shutil.rmtree(shop.path / "cassettes/flows/shop_flows")
    text = shop.run("-k", "one").stdout.str()
    assert "The flow log_in, used by test_shop.py::test_one, has no recording" in text
    assert "hint: record it: pytest --cua-record test_shop.py::test_one" in text


def test_a_flow_of_a_test_that_failed_is_kept_aside_too(shop: Any) -> None:
    shop.write(test_shop=TESTS.replace('to_have_text("x")', 'to_have_text("y", timeout=100)'))
    shop.record("-k", "one").assert_outcomes(failed=1, deselected=2)
    assert not (shop.path / "cassettes/flows/shop_flows/log_in/cassette.jsonl").exists()
    assert (shop.path / "cassettes/flows/shop_flows/log_in/.failed/cassette.jsonl").exists()
    assert (shop.path / "cassettes/test_shop/test_one/.failed/cassette.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("    shop_flows.log_out(cua)\n", ""), "the test used the flows"),
        (('    shop_flows.log_in(cua, "eve")\n', ""), "the test used the flows"),
    ],
)
def test_a_flow_that_is_not_used_any_more_fails_the_test(shop: Any, change: tuple[str, str], message: str) -> None:
    shop.record().assert_outcomes(passed=3)
    shop.write(test_shop=TESTS.replace(*change))
    result = shop.run("--cua-mode=offline")
    result.assert_outcomes(passed=2, failed=1)
    assert message in result.stdout.str()


def test_steps_are_labelled_by_the_part_of_the_test_they_belong_to(shop: Any) -> None:
    shop.write(
        test_shop="""
import pytest
from pytest_cua import expect

@pytest.fixture
def ready(cua):
    cua.do("Prepare the page")
    yield
    cua.do("Tidy up")
    cua.desktop.file("a.txt").write("x")
    expect(cua.desktop.file("a.txt")).to_have_text("x")

def test_it(cua, ready):
    cua.do("Look at it")
    assert cua.desktop.windows() == []
"""
    )
    shop.record().assert_outcomes(passed=1)
    steps = [line for line in lines_of(shop.path / "cassettes/test_shop/test_it") if line["type"] == "step"]
    assert [(step["sentence"], step.get("phase")) for step in steps] == [
        ("Prepare the page", "setup"),
        ("Look at it", None),
        ("Tidy up", "teardown"),
    ]
    page = (shop.path / "cassettes/test_shop/test_it/steps.md").read_text()
    assert "## 1. Prepare the page (setup)" in page
    assert "## 3. Tidy up (teardown)" in page
    shop.run("--cua-mode=offline").assert_outcomes(passed=1)
    (shop.path / "cassettes/test_shop/test_it/steps.md").unlink()  # a page that is missing misleads nobody
    text = (shop.path / "test_shop.py").read_text().replace("== []", "== 1")
    shop.write(test_shop=text)
    output = shop.run("--cua-mode=offline").stdout.str()
    assert "✓ setup: 1. Prepare the page" in output


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@pytest_cua.flow\ndef f(): pass\nf()", "The flow f was called without `cua`"),
        ("pytest_cua.flow(3)", "makes a flow of a plain function"),
        ("pytest_cua.flow()", "needs a name"),
        ("@pytest_cua.flow\nasync def f(cua): pass", "makes a flow of a plain function"),
    ],
)
def test_what_is_no_flow_is_told(body: str, message: str) -> None:
    import pytest_cua

    with pytest.raises(pytest_cua.BadArgument, match=message):
        exec(body, {"pytest_cua": pytest_cua})


BROKEN = '''
import pytest_cua, os

@pytest_cua.flow
def try_it(cua):
    """Try it."""
    cua.do("Look one")
    if os.environ.get("BREAKS"):
        raise ValueError("half way")
    cua.do("Look two")
    if os.environ.get("RAISES"):
        raise ValueError("at the end")
'''


def broken(shop: Any) -> None:
    shop.write(shop_flows=BROKEN)
    (shop.path / "test_shop.py").unlink(missing_ok=True)
    body = """
try:
    shop_flows.try_it(cua)
except ValueError:
    pass
cua.desktop.file("a").write("x")
assert cua.desktop.file("a").read_text() == "x"
"""
    shop.steps(body, head="import shop_flows")


def test_a_flow_that_breaks_off_in_a_replay_is_noticed_although_the_test_goes_on(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(shop)
    shop.record().assert_outcomes(passed=1)
    shop.run().assert_outcomes(passed=1)
    monkeypatch.setenv("BREAKS", "1")
    for mode in ("replay", "offline"):
        result = shop.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*flow try_it*ended after step 1*goes on with 'Look two'*"])


def test_a_flow_that_raises_has_asked_all_the_same(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(shop)
    monkeypatch.setenv("RAISES", "1")
    shop.record().assert_outcomes(passed=1)
    for mode in ("replay", "offline"):
        shop.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


def test_a_flow_of_expects_alone_may_be_used_twice(shop: Any) -> None:
    shop.write(
        shop_flows='''
import pytest_cua
from pytest_cua import expect

@pytest_cua.flow
def check(cua):
    """Check."""
    expect(cua.desktop.file("a")).to_have_text("x")
'''
    )
    (shop.path / "test_shop.py").unlink()
    body = 'cua.desktop.file("a").write("x")\nshop_flows.check(cua)\ncua.do("Look")\nshop_flows.check(cua)\n'
    shop.steps(body, head="import shop_flows")
    shop.record().assert_outcomes(passed=1)
    for mode in ("replay", "offline"):
        shop.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
