"""Every expectation and its opposite, on a live desktop and on what was recorded."""

from __future__ import annotations

import linecache
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_cua import screens
from pytest_cua.assertions import evidence

# Each line holds: while recording, on a live replay and offline.
HOLDS = r"""
files = cua.desktop.file
files("a.txt").write("one\ntwo ä\n")
files("a.json").write('{"b": [1, 2.5, null], "a": "ä"}')
files("a.db").write(database())
files("a.bin").write(b"\xff\x00")
cua.do("Look")
expect(files("a.txt")).to_exist()
expect(files("none.txt")).not_to_exist()
expect(files("a.txt")).to_have_text("one\ntwo ä\n")
expect(files("a.txt")).to_have_text(re.compile(r"one\n.*\n"))
expect(files("a.txt")).not_to_have_text("one\ntwo\n")
expect(files("a.txt")).not_to_have_text(re.compile("one"))
expect(files("a.txt")).to_contain_text("two")
expect(files("a.txt")).to_contain_text(re.compile("^two", re.M))
expect(files("a.txt")).not_to_contain_text("three")
expect(files("a.json")).to_have_json({"a": "ä", "b": [1, 2.5, None]})
expect(files("a.json")).not_to_have_json({"a": "ä"})
expect(files("a.db")).to_have_rows("select name, price from items order by 1", [("pen", 2.5), ("pot", None)])
expect(files("a.db")).to_have_rows("select * from items where price > 9", [])
expect(files("a.db")).not_to_have_rows("select name from items", [("cup",)])
expect(cua.desktop).not_to_have_window("x")
expect(cua.desktop).not_to_have_window(program="Mousepad")
cua.desktop.launch("mousepad", "a.txt")
expect(cua.desktop).to_have_window(re.compile("a.txt"))
expect(cua.desktop).to_have_window(program="Mousepad")
expect(cua.desktop).to_have_window(re.compile("a.txt"), program="Mousepad")
expect(cua.desktop).not_to_have_window(re.compile("a.txt"), program="Gedit")
expect(cua.desktop).to_have_screenshot("editor")
expect(cua.desktop).to_have_screenshot("editor", tolerance="perceptual", max_distance=2)
cua.desktop.file("b.txt").write("1")
cua.desktop.launch("mousepad", "--disable-server", "b.txt")
expect(cua.desktop).not_to_have_screenshot("editor")
expect.soft(files("b.txt")).to_have_text("1")
"""
HEAD = """
import re, sqlite3, tempfile

def database():
    with tempfile.NamedTemporaryFile() as file:
        connection = sqlite3.connect(file.name)
        connection.execute("create table items (name, price)")
        connection.executemany("insert into items values (?, ?)", [("pen", 2.5), ("pot", None)])
        connection.commit()
        connection.close()
        return open(file.name, "rb").read()
"""


def test_every_expectation_and_its_opposite_hold_live_and_offline(project: Any) -> None:
    project.steps(HOLDS, head=HEAD)
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


# Each line fails with what follows it; `{when}` is " within 0 s" or nothing.
FAILS = r"""
expect(files("none.txt")).to_exist()
    expected file 'none.txt' to exist. It does not exist.
expect(files("a.txt")).not_to_exist()
    expected file 'a.txt' not to exist. It has 8 bytes.
expect(files("a.txt")).to_have_text("one\nthree\n")
    expected file 'a.txt' to have the text 'one\nthree\n'.
    --- expected
    +++ found
     one
    -three
    +two
expect(files("a.txt")).to_have_text("one\ntwo")
    Only the line ends at the end differ: expected 0, found 1.
expect(files("a.txt")).not_to_have_text("one\ntwo\n")
    expected file 'a.txt' not to have the text
expect(files("a.txt")).to_contain_text("three")
    expected file 'a.txt' to contain 'three'. It has the text 'one\ntwo\n'.
expect(files("a.txt")).not_to_contain_text(re.compile("t.o"))
    expected file 'a.txt' not to contain 't.o'. It has the text 'one\ntwo\n'.
expect(files("none.txt")).to_have_text("x")
    to have the text 'x'. The file does not exist.
expect(files("none.txt")).not_to_have_text("x")
    expected file 'none.txt' not to have the text 'x'. The file does not exist.
expect(files("none.txt")).not_to_contain_text("error")
    expected file 'none.txt' not to contain 'error'. The file does not exist.
expect(files("a.bin")).not_to_contain_text("error")
    It is no UTF-8 text: byte 0 is 0xff.
expect(files("a.json")).to_have_json({"a": 2})
    -  "a": 2
    +  "a": 1
expect(files("a.txt")).to_have_json({})
    It is no JSON: Expecting value
expect(files("a.txt")).not_to_have_json({})
    It is no JSON: Expecting value
expect(files("a.db")).to_have_rows("select name from items order by 1", [("cup",)])
    to have ('cup',) for 'select name from items order by 1'. It has 2 rows:
      ('pen',)
      ('pot',)
expect(files("a.db")).not_to_have_rows("select name from absent", [])
    expected file 'a.db' not to have no rows for 'select name from absent'. SQLite says: no such table: absent.
expect(files("a.txt")).to_have_rows("select 1", [(1,)])
    SQLite says: file is not a database.
expect(cua.desktop).to_have_window("Letter")
    expected desktop 1 to have a window 'Letter'. Open windows: 'Untitled 1 - Mousepad' (Mousepad).
expect(cua.desktop).not_to_have_window(program="Mousepad")
    expected desktop 1 not to have a window of Mousepad.
"""


def test_every_failure_says_what_was_found(project: Any) -> None:
    cases = re.findall(r"^(expect.*)\n((?:    .*\n)+)", FAILS, re.M)
    assert len(cases) == len([line for line in FAILS.splitlines() if line.startswith("expect")])
    body = r"""
files = cua.desktop.file
files("a.txt").write("one\ntwo\n")
files("a.json").write('{"a": 1}')
files("a.db").write(database())
files("a.bin").write(b"\xff\x00")
cua.desktop.launch("mousepad")
cua.do("Look")
"""
    for number, (line, _) in enumerate(cases):
        body += f"with pytest.raises(pytest_cua.ExpectFailure) as caught:\n    {line}\n"
        body += f"print('case {number}', repr(str(caught.value)))\n"
    project.steps(body, head=HEAD)
    for mode in ("record", "offline"):
        result = project.run(f"--cua-mode={mode}", "-s", "-o", "cua_timeout=0")
        result.assert_outcomes(passed=1)
        printed = dict(re.findall(r"case (\d+) (.*)", result.stdout.str()))
        for number, (line, message) in enumerate(cases):
            said = eval(printed[str(number)]).replace(" (as recorded)", "")
            assert textwrap.dedent(message).strip() in said.replace("@@ -1,2 +1,2 @@\n", ""), line
        assert ("(as recorded)" in result.stdout.str()) is (mode == "offline")


def test_an_expectation_waits_until_it_holds_and_no_longer_than_its_time(project: Any) -> None:
    project.steps(
        """
        cua.desktop.file("a.txt").write("old")
        cua.do("Look")
        cua.desktop.launch("sh", "-c", "sleep 1; echo new > a.txt; rm -f gone.txt; touch came.txt", wait=False)
        cua.desktop.file("gone.txt").write("1")
        expect(cua.desktop.file("came.txt")).to_exist()
        expect(cua.desktop.file("a.txt")).to_have_text("new\\n")
        expect(cua.desktop.file("gone.txt")).not_to_exist()
        started = time.monotonic()
        with pytest.raises(pytest_cua.ExpectFailure, match="within 0.3 s|as recorded"):
            expect(cua.desktop.file("a.txt")).to_have_text("never", timeout=300)
        assert time.monotonic() - started < 5
        """,
        head="import time",
    )
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    # what was seen on the way is not kept, only what was seen at last
    kept = [(o["subject"], o["value"]) for o in project.lines("test_it", "test_it") if o["type"] == "observation"]
    assert kept == [
        ("came.txt", {"text": ""}),
        ("a.txt", {"text": "new\n"}),
        ("gone.txt", {"missing": True}),
        ("a.txt", {"text": "new\n"}),
    ]


def test_soft_expectations_are_collected_and_told_together(project: Any) -> None:
    project.steps(
        """
        cua.do("Look")
        cua.desktop.file("a.txt").write("1")
        expect.soft(cua.desktop.file("a.txt")).to_have_text("2", timeout=0)
        expect.soft(cua.desktop).to_have_window("x", timeout=0)
        expect.soft(cua.desktop.file("a.txt")).to_have_text("1")
        print("went on")
        """
    )
    result = project.record("-s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *ExpectFailure: 2 soft expectations did not hold in test_it.py::test_it:",
            "E *1. expected file 'a.txt' to have the text '2'.*",
            "E *2. expected desktop 1 to have a window 'x'. Open windows: none.",
        ]
    )
    assert "went on" in result.stdout.str()
    assert "pytest_cua/" not in result.stdout.str()
    text = (project.path / "test_it.py").read_text()
    project.write(test_it=text + "    assert cua.desktop.windows() == [1]\n")
    result = project.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *assert [[]] == [[]1]", "Soft expectations that did not hold:", "*to have the text '2'*"]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('expect("text")', "expect() takes a desktop, a file of it*, not str 'text'*for a plain value write an assert"),
        ("expect(None)", "*not NoneType None*"),
        ("expect(cua)", "*not Cua Cua('test_it.py::test_it')*"),
        ("expect(cua.desktop).to_have_window()", "to_have_window() needs a title, a program or both."),
        (
            'expect(cua.desktop.file("a")).to_exist(timeout=-1)',
            "timeout is in milliseconds and may not be negative: -1",
        ),
        ('expect(cua.desktop).to_have_screenshot("a", tolerance="loose")', "*tolerance*"),
    ],
)
def test_what_cannot_be_expected(project: Any, call: str, message: str) -> None:
    project.steps(f'cua.do("Look")\n{call}')
    result = project.record()
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    pattern = ".*".join(re.escape(part) for part in message.split("*"))
    assert re.search(rf"pytest_cua\.BadArgument: {pattern}", output), output
    assert "pytest_cua/" not in output


# ------------------------------------------------------------------ screenshots

SHOWN = """
cua.desktop.file("a.txt").write("Total: 42 EUR")
cua.desktop.launch("mousepad", "a.txt")
cua.do("Look")
expect(cua.desktop).to_have_screenshot("total", timeout=300)
"""


@pytest.fixture
def baseline(project: Any) -> Path:
    """A recording whose baseline was proposed."""
    project.steps(SHOWN)
    result = project.record()
    result.assert_outcomes(passed=1)
    path: Path = project.folder("test_it", "test_it") / "baselines/total.png"
    assert path.exists()
    result.stdout.fnmatch_lines([f"baseline total: proposed {path}"])
    return path


def changed(project: Any, *, old: str = "Total: 42", new: str = "Total: 43") -> None:
    """The application shows something else, and the check of the replay's screens does not mind."""
    text = (project.path / "test_it.py").read_text().replace(old, new)
    project.write(test_it=text.replace("def test_it", "@pytest.mark.cua(exclude=[(0, 0, 1280, 700)])\ndef test_it"))


def test_a_proposed_baseline_is_accepted_and_compared(project: Any, baseline: Path, monkeypatch: Any) -> None:
    from pytest_cua.cli import main

    monkeypatch.chdir(project.path)
    assert main(["accept", "test_it.py::test_it"]) == 0
    assert main(["accept", "test_it.py::test_it"]) == 1
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    changed(project)
    result = project.run()
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "ExpectFailure: desktop 1 does not show the baseline 'total'. " in output
    box = re.search(r"(\d+)x(\d+) at \((\d+), (\d+)\)", output)
    assert box, output
    assert int(box[1]) <= 40, "one digit is a small box"
    assert int(box[2]) <= 40
    assert re.search(r"\(perceptual distance \d+ of 64 bits in the worst tile\)", output)
    assert f"baseline: {baseline}" in output
    for name in ("actual", "diff"):
        picture = project.path / f"cua-artifacts/test_it/test_it/total-{name}.png"
        assert str(picture) in output
        assert Image.open(picture).size == (1280, 800)
    assert "pytest --cua-update=changed test_it.py::test_it" in output


def test_one_pixel_is_a_difference(project: Any, baseline: Path) -> None:
    image = screens.load(baseline).copy()
    red, green, blue = image.getpixel((640, 600))  # type: ignore[misc]
    image.putpixel((640, 600), (255 - red, green, 255 - blue))
    image.save(baseline)
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    assert "1x1 at (640, 600)" in result.stdout.str()
    assert "(as recorded) does not show the baseline 'total' (proposed, not yet accepted)" in result.stdout.str()


def test_a_baseline_that_is_missing_fails_and_is_written_when_asked(project: Any, baseline: Path) -> None:
    before = baseline.read_bytes()
    for path in baseline.parent.iterdir():
        path.unlink()
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ExpectFailure: There is no baseline 'total'*", "*hint: *pytest --cua-update=missing test_it.py::test_it*"]
    )
    project.run("--cua-update=changed").assert_outcomes(failed=1)
    assert not baseline.exists()
    result = project.run("--cua-update=missing")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"baseline total: accepted {baseline}"])
    assert screens.load(baseline).tobytes() == screens.load(baseline).tobytes()
    assert len(before) > 0
    project.run().assert_outcomes(passed=1)


def test_a_changed_baseline_is_rewritten_only_when_asked(project: Any, baseline: Path) -> None:
    before = baseline.read_bytes()
    changed(project)
    for arguments in ((), ("--cua-update=missing",)):
        project.run(*arguments).assert_outcomes(failed=1)
        assert baseline.read_bytes() == before
    project.run("--cua-update=changed").assert_outcomes(passed=1)
    after = baseline.read_bytes()
    assert after != before
    project.run().assert_outcomes(passed=1)
    project.run("--cua-update=all").assert_outcomes(passed=1)
    assert baseline.read_bytes() == after  # nothing had changed


def test_a_baseline_that_is_only_proposed_is_proposed_anew_by_a_new_recording(project: Any, baseline: Path) -> None:
    before = baseline.read_bytes()
    text = (project.path / "test_it.py").read_text()
    project.write(test_it=text.replace("42", "43"))
    project.record().assert_outcomes(passed=1)
    assert baseline.read_bytes() != before
    from pytest_cua.assertions.baselines import accept_proposed

    assert accept_proposed(baseline.parent.parent) == [baseline]
    project.write(test_it=text)
    result = project.record()
    result.assert_outcomes(failed=1)  # an accepted one is not replaced by recording
    result.stdout.fnmatch_lines(["*does not show the baseline 'total'. *"])


def test_perceptual_tolerance_has_a_limit_that_is_told(project: Any, baseline: Path) -> None:
    text = SHOWN.replace('"total", ', '"total", tolerance="perceptual", max_distance={limit}, ')
    shown = screens.load(baseline)
    dark = next(  # in a word, where a few pixels change some bits of the hash
        (x, y)
        for y in range(shown.height)
        for x in range(shown.width)
        if max(shown.getpixel((x, y))) < 60  # type: ignore[type-var]
    )
    image = shown.copy()
    image.paste((255, 255, 255), (*dark, dark[0] + 4, dark[1] + 4))
    image.save(baseline)
    project.steps(text.format(limit=0))
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    found = re.search(r"perceptual distance (\d+) of 64 bits in the worst tile, allowed 0\)", result.stdout.str())
    assert found
    assert int(found[1]) > 0
    project.steps(text.format(limit=found[1]))
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_areas_and_exclusions_decide_where_one_looks(project: Any, baseline: Path) -> None:
    image = screens.load(baseline).copy()
    image.paste((255, 0, 0), (600, 600, 620, 620))
    image.save(baseline)
    for options, passed in (
        ("", False),
        ("areas=[(0, 0, 300, 300)], ", True),
        ("areas=[(590, 590, 50, 50)], ", False),
        ("exclude=[(600, 600, 20, 20)], ", True),
        ("exclude=[(600, 600, 19, 20)], ", False),
    ):
        project.steps(SHOWN.replace('"total", ', f'"total", {options}'))
        project.run("--cua-mode=offline").assert_outcomes(passed=int(passed), failed=int(not passed))


def test_the_opposite_of_a_screenshot_needs_a_baseline_and_a_difference(project: Any, baseline: Path) -> None:
    project.steps(SHOWN.replace("to_have", "not_to_have").replace("timeout=300", "timeout=0"))
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ExpectFailure: expected desktop 1 not to show the baseline 'total'*"])
    for path in baseline.parent.iterdir():
        path.unlink()
    project.run("--cua-mode=offline").assert_outcomes(failed=1)
    assert not list(baseline.parent.iterdir())


def test_a_page_is_passed_on_to_playwright(project: Any) -> None:
    project.steps(
        """
        page = cua.desktop.browser("data:text/html,<h1>Total 42</h1>")
        cua.do("Look")
        expect(page.locator("h1")).to_have_text("Total 42")
        expect(page).not_to_have_title("x")
        with pytest.raises(AssertionError, match="Total 42"):
            expect(page.locator("h1")).to_have_text("Total 43", timeout=50)
        """
    )
    project.record().assert_outcomes(passed=1)
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["not judged: *desktop.browser()* needs the application"])


# ------------------------------------------------------------------ a database that its application keeps open

WAL_APPLICATION = """
import pathlib, sqlite3, time

connection = sqlite3.connect("shop.db")
connection.execute("pragma journal_mode = wal")
connection.execute("pragma wal_autocheckpoint = 0")
connection.execute("create table orders (name)")
connection.execute("insert into orders values ('Ada')")
connection.commit()
pathlib.Path("ready").touch()
while not pathlib.Path("close").exists():
    time.sleep(0.05)
connection.execute("insert into orders values ('Bob')")
connection.commit()
connection.close()
"""


def test_rows_are_seen_that_an_open_database_holds_in_its_log_alone(project: Any) -> None:
    project.steps(
        """
        cua.desktop.file("shop.py").write(APPLICATION)
        cua.desktop.launch("/usr/bin/python3", "shop.py", wait=False)
        cua.do("Look")
        expect(cua.desktop.file("ready")).to_exist(timeout=20_000)
        shop = expect(cua.desktop.file("shop.db"))
        shop.to_have_rows("select name from orders", [("Ada",)])
        shop.not_to_have_rows("select name from orders", [])
        with pytest.raises(pytest_cua.ExpectFailure, match="readonly"):
            shop.to_have_rows("delete from orders", [], timeout=0)
        cua.desktop.file("close").write("")
        shop.to_have_rows("select name from orders order by 1", [("Ada",), ("Bob",)], timeout=20_000)
        expect(cua.desktop.file("shop.db-wal")).not_to_exist()
        shop.to_have_rows("select count(*) from orders", [(2,)])
        """,
        head=f"APPLICATION = {WAL_APPLICATION!r}",
    )
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


# ------------------------------------------------------------------ offline: what failed before something was missing

FAILED_FIRST = [
    ('expect.soft(cua.desktop.file("a.txt")).to_have_text("2")\ncua.desktop.windows()', "not hold in test_it.py"),
    (
        'expect.soft(cua.desktop.file("a.txt")).to_have_text("2")\n'
        "try:\n    cua.desktop.windows()\nexcept BaseException:\n    pass",
        "not hold in test_it.py",
    ),
    ("try:\n    assert text == 2\nfinally:\n    cua.desktop.windows()", "AssertionError"),
    ("try:\n    raise RuntimeError(text)\nfinally:\n    cua.desktop.windows()", "RuntimeError: 1"),
    ("try:\n    assert text == 2\nexcept AssertionError:\n    cua.desktop.windows()\n    raise", "AssertionError"),
    ("with closing(cua):\n    assert text == 2", "AssertionError"),
    ("try:\n    pytest.fail('no good')\nfinally:\n    cua.desktop.windows()", "Failed: no good"),
    (
        "try:\n    assert text == 2\nfinally:\n    try:\n        cua.desktop.windows()\n"
        "    except BaseException:\n        pass",
        "AssertionError",
    ),
]
SKIPPED = [
    "try:\n    {}['a']\nexcept KeyError:\n    assert cua.desktop.windows()",
    "try:\n    assert text == 2\nexcept AssertionError:\n    assert cua.desktop.windows()",
    "try:\n    cua.desktop.windows()\nexcept BaseException:\n    assert text == 2",
    "try:\n    cua.desktop.windows()\nexcept BaseException:\n    pass\n"
    'expect.soft(cua.desktop.file("a.txt")).to_have_text("2")',
    "try:\n    cua.desktop.windows()\nfinally:\n    assert text == 2",
]
BEFORE = 'cua.do("Look")\ncua.desktop.file("a.txt").write("1")\ntext = cua.desktop.file("a.txt").read_text()\n'
CLOSING = """
from contextlib import contextmanager

@contextmanager
def closing(cua):
    try:
        yield
    finally:
        cua.desktop.windows()
"""


def forget_sources() -> None:
    """A run reads a file's source once; here there are several runs in a process, and the file changes between them."""
    linecache.clearcache()
    evidence._functions.cache_clear()


def test_offline_a_failure_that_came_first_is_not_turned_into_a_skip(project: Any) -> None:
    project.steps(BEFORE + 'expect(cua.desktop.file("a.txt")).to_have_text("1")', head=CLOSING)
    project.record().assert_outcomes(passed=1)
    for body, message in FAILED_FIRST:
        forget_sources()
        project.steps(f"{BEFORE}{body}", head=CLOSING)
        result = project.run("--cua-mode=offline")
        result.assert_outcomes(failed=1)
        assert message in result.stdout.str(), body
    for body in SKIPPED:
        forget_sources()
        project.steps(f"{BEFORE}{body}", head=CLOSING)
        project.run("--cua-mode=offline").assert_outcomes(skipped=1)


def test_a_failure_without_a_line_of_the_test_has_one_line_with_tb_line(project: Any) -> None:
    project.steps('cua.do("Look")\nexpect.soft(cua.desktop.file("a.txt")).to_exist(timeout=0)')
    result = project.record("--tb=line")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_it.py:*: *ExpectFailure: 1 soft expectations did not hold in test_it.py*"])
    assert "Crash(" not in result.stdout.str()
