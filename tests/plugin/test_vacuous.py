"""A test that could not have failed is not green; one that could is never refused."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest

ADVICE = [
    "*hint: look at what the application did, after the last step*",
    "*expect(cua.desktop.file(*",
    "*strict=False*",
]

REFUSED_AT_COLLECTION = """
import pytest

def test_steps(cua):
    cua.do("Look at the screen")

@pytest.mark.parametrize("word", ["a", "b"])
def test_rows(cua, word):
    cua.do("Look at {word}", params={"word": word})

class TestClass:
    def test_method(self, cua):
        result = cua.do("Look at the screen")
        print(result.text)
"""


def test_what_is_proven_to_assert_nothing_is_refused_before_anything_runs(project: Any) -> None:
    project.write(test_note=REFUSED_AT_COLLECTION)
    result = project.record()
    result.assert_outcomes(errors=1)
    for name in ("test_steps", "test_rows"):
        project.write(test_note=re.sub(rf"def (?!{name})test_", "def other_", REFUSED_AT_COLLECTION))
        result = project.record()
        result.stdout.fnmatch_lines([f"*test_note.py::{name} gives steps to the agent and asserts nothing*", *ADVICE])
        assert "Traceback" not in result.stdout.str()
    assert not (project.path / "cassettes").exists()


def test_the_rule_can_be_switched_off(project: Any) -> None:
    for head, arguments in (
        ("pytestmark = pytest.mark.cua(strict=False)\n", ()),
        ("", ("-o", "cua_strict=false")),
    ):
        text = REFUSED_AT_COLLECTION.replace("import pytest\n", f"import pytest\n{head}")
        project.write(test_note=text)
        project.record(*arguments).assert_outcomes(passed=4)
    one = REFUSED_AT_COLLECTION.replace("def test_steps", "@pytest.mark.cua(strict=False)\ndef test_steps")
    project.write(test_note=one.split("@pytest.mark.parametrize")[0])
    project.record().assert_outcomes(passed=1)


# Each is one test of one file. The functions read and assert as users' tests do.
REFUSED_AT_RUN_TIME = """
import pytest
from pytest_cua import expect

def say(cua):
    return cua.do("Look at the screen").text

def read(cua):
    return cua.desktop.file("a.txt").read_text()

def test_agents_text_through_a_helper(cua):
    assert "Seen" in say(cua)

def test_agents_outcome(cua):
    result = cua.do("Look at the screen")
    assert result.outcome == "done"

def test_agents_opinion(cua):
    cua.do("Look at the screen")
    assert cua.judge("The screen is empty")

def test_asserted_before_the_last_step_only(cua):
    cua.desktop.file("a.txt").write("1")
    assert read(cua) == "1"
    expect(cua.desktop.file("a.txt")).to_have_text("1")
    cua.do("Look at the screen")
    print(cua.usage)

def test_read_and_not_asserted(cua):
    cua.desktop.file("a.txt").write("1")
    assert say(cua)
    read(cua)

def test_expected_and_never_called(cua):
    cua.do("Look at the screen")
    expect(cua.desktop.file("a.txt"))

def test_get_without_an_assert(cua):
    import urllib.request
    cua.do("Look at the screen")
    try:
        urllib.request.urlopen("http://127.0.0.1:9/")
    except OSError:
        pass

def test_opinion_without_a_step(cua):
    assert cua.judge("The screen is empty")

def test_agents_outcome_beside_a_reading(cua):
    result = cua.do("Look at the screen")
    cua.desktop.screenshot().save("debug.png")
    assert result.outcome == "done"

def test_agents_outcomes_and_opinions_beside_a_reading(cua):
    results = [cua.do("Look at the screen") for _ in range(2)]
    opinion = cua.judge("The screen is empty")
    cua.desktop.windows()
    assert all(result.outcome == "done" for result in results) and opinion.holds
    if results[0].outcome != "done":
        raise RuntimeError(results[0].text)
    assert cua.usage.input_tokens < 10_000_000

def test_helper_that_checks_the_agents_words(cua):
    result = cua.do("Look at the screen")
    cua.desktop.windows()
    check_words(result.text)

def check_words(text):
    assert "Seen" in text

def test_path_without_an_assert(cua):
    result = cua.do("Look at the screen")
    cua.desktop.file("a.txt").host_path
    assert result
"""

ACCEPTED = """
import http.server, threading, time, urllib.request
import helpers
import pytest
from helpers import check_note
from pytest_cua import expect

def look(cua, content="1"):
    cua.desktop.file("a.txt").write(content)
    return cua.do("Look at the screen")

def read(cua):
    return cua.desktop.file("a.txt").read_text()

def check(cua):
    assert read(cua) == "1"

def test_expect(cua):
    look(cua)
    expect(cua.desktop.file("a.txt")).to_have_text("1")

def test_expect_and_then_an_opinion(cua):
    look(cua)
    expect(cua.desktop.file("a.txt")).to_have_text("1")
    assert cua.judge("The screen is empty")

def test_assert_on_a_file(cua):
    look(cua)
    assert cua.desktop.file("a.txt").read_text() == "1"

def test_helper_that_asserts(cua):
    look(cua)
    check(cua)

def test_value_of_a_helper(cua):
    look(cua)
    text = read(cua)
    assert text == "1"

def test_loop(cua):
    for content in "12":
        look(cua, content)
        assert read(cua) == content

def test_windows(cua):
    look(cua)
    assert cua.desktop.windows() == []

def test_a_missing_file(cua):
    look(cua)
    with pytest.raises(FileNotFoundError):
        cua.desktop.file("b.txt").read_text()

@pytest.fixture
def looked(cua):
    look(cua)
    assert cua.desktop.file("a.txt").exists()

def test_in_a_fixture_before(cua, looked):
    pass

@pytest.fixture
def checked(cua):
    yield
    expect(cua.desktop.file("a.txt")).to_have_text("1")

def test_in_a_fixture_after(cua, checked):
    look(cua)

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"42")

    def log_message(self, *args):
        pass

def test_http(cua):
    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.handle_request, daemon=True).start()
    look(cua)
    url = f"http://127.0.0.1:{server.server_port}/total"
    assert urllib.request.urlopen(url).read() == b"42"
    server.server_close()

def test_soft(cua):
    look(cua)
    expect.soft(cua.desktop.file("a.txt")).to_have_text("1")

def test_opinion_after_an_assert_without_a_step(cua):
    cua.desktop.file("a.txt").write("1")
    assert read(cua) == "1"
    assert cua.judge("The screen is empty")

def test_value_given_to_a_helper_of_another_module(cua):
    look(cua)
    text = cua.desktop.file("a.txt").read_text()
    check_note(text)

def test_value_given_to_a_function_of_a_module(cua):
    look(cua)
    text = cua.desktop.file("a.txt").read_text()
    helpers.check_note(text)

def verify(text):
    if text != "1":
        raise ValueError(text)

def test_value_given_to_a_helper_that_raises(cua):
    look(cua)
    verify(read(cua))

class TestNotes:
    def check(self, text):
        assert text == "1"

    def test_value_given_to_a_method(self, cua):
        look(cua)
        text = cua.desktop.file("a.txt").read_text()
        self.check(text)

@pytest.fixture
def checker():
    return helpers.checker()

def test_value_given_to_what_a_fixture_made(cua, checker):
    look(cua)
    text = cua.desktop.file("a.txt").read_text()
    checker(text)

def test_raise(cua):
    look(cua)
    if cua.desktop.windows():
        raise RuntimeError("a window is open")

def wait_for(cua, name):
    for _ in range(20):
        if cua.desktop.file(name).exists():
            return
        time.sleep(0.05)
    raise TimeoutError(name)

def test_polling_helper_that_raises(cua):
    look(cua)
    wait_for(cua, "a.txt")
"""

HELPERS = """
def check_note(text):
    assert text == "1"

def checker():
    def check(text):
        assert text == "1"
    return check
"""

SCRIPT = """
def opinion(request):
    return use_tool("give_opinion", holds=True, reason="It is.")

SCRIPT = {"is empty": opinion, "": look}
"""


def test_what_could_not_have_failed_fails_at_its_end(project: Any) -> None:
    project.script(SCRIPT)
    project.write(test_note=REFUSED_AT_RUN_TIME)
    count = REFUSED_AT_RUN_TIME.count("def test_")
    result = project.record("-o", "cua_strict=false")
    result.assert_outcomes(passed=count)
    for mode in ("replay", "record"):
        result = project.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=count)
        output = result.stdout.str()
        assert (
            len(re.findall(r"^E +pytest_cua.VacuousTest: test_note.py::\w+ passed without a check", output, re.M))
            == count
        )
        result.stdout.fnmatch_lines(ADVICE)
        assert "state was read, but no assert follows from it" in output
        assert "nothing was looked at" in output


def test_what_could_have_failed_is_accepted_in_every_mode(project: Any) -> None:
    project.script(SCRIPT)
    project.write(test_note=ACCEPTED, helpers=HELPERS)
    project.pytester.syspathinsert()
    count = ACCEPTED.count("def test_")
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=count)


def test_what_a_fixture_does_after_the_test_is_judged_at_its_end(project: Any) -> None:
    project.steps(
        'cua.do("Look at the screen")',
        head="""
        @pytest.fixture
        def logged_out(cua):
            yield
            cua.do("Look once more")
            print("done")
        """,
        arguments="cua, logged_out",
    )
    result = project.record()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*pytest_cua.VacuousTest: test_it.py::test_it passed without a check*"])
    assert not (project.folder("test_it", "test_it") / "cassette.jsonl").exists()
    text = (project.path / "test_it.py").read_text()
    project.write(test_it=text.replace('print("done")', "assert cua.desktop.windows() == []"))
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    project.write(
        test_it=text.replace('cua.do("Look once more")', "pass").replace("print", "assert cua.desktop.windows")
    )
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch*the recording goes on with 'Look once more'*"])


HOST_PATH = """
import sqlite3

def test_text(cua):
    file = cua.desktop.file("a.txt")
    file.write("1")
    cua.do("Look at the screen")
    assert file.host_path.read_text() == "1"

def test_path_from_before(cua):
    cua.desktop.file("a.txt").write("1")
    path = cua.desktop.file("a.txt").host_path
    cua.do("Look at the screen")
    assert path.read_text() == "1"

def test_database(cua):
    cua.do("Look at the screen")
    connection = sqlite3.connect(cua.desktop.file("a.db").host_path)
    rows = connection.execute("select 1").fetchall()
    connection.close()
    assert rows == [(1,)]
"""


def test_a_path_on_the_host_is_read_without_us_so_an_assert_after_it_counts(project: Any) -> None:
    project.write(test_note=HOST_PATH)
    for mode in ("record", "replay"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=3)
    project.run("--cua-mode=offline").assert_outcomes(skipped=3)


BROWSER = """
def test_page(cua):
    page = cua.desktop.browser("data:text/html,<h1>Total 42</h1>")
    cua.do("Look at the screen")
    {check}
"""


@pytest.mark.parametrize(
    ("check", "accepted"),
    [
        ('assert page.inner_text("h1") == "Total 42"', True),
        ('expect(page.locator("h1")).to_have_text("Total 42")', True),
        ('page.inner_text("h1")', False),
    ],
)
def test_a_page_is_read_without_us_so_an_assert_after_the_last_step_counts(
    project: Any, check: str, accepted: bool
) -> None:
    project.write(test_note="from pytest_cua import expect\n" + textwrap.dedent(BROWSER.format(check=check)))
    result = project.record()
    result.assert_outcomes(passed=int(accepted), failed=int(not accepted))


def test_an_expect_that_failed_and_was_caught_is_no_check(project: Any) -> None:
    project.steps(
        """
        cua.do("Look")
        try: expect(cua.desktop.file("no.txt")).to_exist(timeout=1)
        except AssertionError: pass
        """
    )
    result = project.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*VacuousTest*"])


def test_an_expect_that_must_fail_is_a_check(project: Any) -> None:
    project.steps(
        """
        cua.do("Look")
        with pytest.raises(AssertionError):
            expect(cua.desktop.file("no.txt")).to_exist(timeout=1)
        """
    )
    project.record().assert_outcomes(passed=1)
