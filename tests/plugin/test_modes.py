"""Which mode a run is in, what decides it, and what a run may not do in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

LOOK = """
cua.desktop.file("seen.txt").write("1")
cua.do("Look at the screen")
expect(cua.desktop.file("seen.txt")).to_have_text("1")
"""
PLAIN = "def test_plain(): pass"


@pytest.mark.parametrize(
    ("arguments", "header"),
    [
        ((), "cua: replay, live desktop"),
        (("--cua-mode=offline",), "cua: offline, from recordings alone: application not exercised"),
        (("--cua-mode=record",), "cua: record, live desktop, asks claude-sonnet-5-5"),
        (("--cua-record",), "cua: record-missing, live desktop, asks claude-sonnet-5-5 where there is no cassette"),
        (("--cua-record", "--cua-mode=record-missing", "--cua-model=claude-opus-5"), "*asks claude-opus-5 where*"),
    ],
)
def test_the_header_says_the_mode(project: Any, arguments: tuple[str, ...], header: str) -> None:
    project.write(test_note=PLAIN)
    result = project.run(*arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([header])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--cua-mode=ofline",), "--cua-mode: 'ofline' is no value for it: it is one of *; did you mean offline?"),
        (("--cua-update=chnged",), "--cua-update: 'chnged' is no value*did you mean changed?"),
        (("-o", "cua_mode=rcord"), "ini cua_mode: 'rcord' is no value for it*did you mean record*"),
        (("-o", "cua_shell=mutterr"), "ini cua_shell: *did you mean mutter?"),
        (("-o", "cua_size=big"), "ini cua_size: 'big' is no value for it: it is WIDTHxHEIGHT in pixels*"),
        (("-o", "cua_timeout=soon"), "ini cua_timeout: 'soon' is no value for it: it is a whole number"),
        (("-o", "cua_timeout=-1"), "ini cua_timeout: '-1' is no value for it: it may not be negative"),
        (("-o", "cua_max_turns=0"), "ini cua_max_turns: '0' is no value for it: it is at least 1"),
        (("-o", "cua_max_cost=nan"), "ini cua_max_cost: 'nan' is no value for it: *US dollars"),
        (("-o", "cua_max_cost=much"), "ini cua_max_cost: 'much' is no value for it: *such as 0.5"),
        (("-o", "cua_strict=maybe"), "ini cua_strict: 'maybe' is no value for it: say true or false"),
        (("-o", "cua_exclude=1,2,3"), "ini cua_exclude: *an area is `x,y,width,height` in pixels, not '1,2,3'"),
        (("--cua-record", "--cua-mode=offline"), "--cua-record means --cua-mode=record-missing: give one of the two"),
    ],
)
def test_a_value_that_cannot_be_meant_is_one_usage_error(
    project: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert len([line for line in result.stderr.lines if line.strip()]) == 1


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("max_turn=3", "@pytest.mark.cua has no argument 'max_turn'; it takes *. Did you mean max_turns?"),
        ("mode='offline'", "@pytest.mark.cua has no argument 'mode'; it takes *"),
        ("max_turns='few'", "@pytest.mark.cua(max_turns=...): 'few' is no value for it: it is a whole number"),
        ("size=(1, 2)", "@pytest.mark.cua(size=...): '1x2' is no value for it: each side is 64 to 8000 pixels"),
        ("'offline'", "@pytest.mark.cua takes keyword arguments only"),
    ],
)
def test_a_marker_that_cannot_be_meant_is_one_usage_error(project: Any, marker: str, complaint: str) -> None:
    project.steps(LOOK, head=f"pytestmark = pytest.mark.cua({marker})")
    result = project.run("--cua-mode=offline")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: test_it.py::test_it: {complaint}"])
    assert "Traceback" not in result.stderr.str()
    project.run("--cua-mode=offline", "--deselect=test_it.py::test_it").stdout.fnmatch_lines(["*1 deselected*"])


def test_a_marker_that_cannot_be_meant_is_told_by_xdist_too(project: Any) -> None:
    project.steps("pass", head="@pytest.mark.cua(max_turn=3)", arguments="desktop")
    code, text = project.output("-n1")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "Did you mean max_turns?" in text
    assert "INTERNALERROR" not in text


@pytest.mark.parametrize("mode", ["record", "record-missing"])
def test_in_ci_a_mode_that_asks_a_model_must_be_allowed(
    project: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    project.write(test_note=PLAIN)
    monkeypatch.setenv("CI", "true")
    result = project.run(f"--cua-mode={mode}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --cua-mode={mode} asks a model*CI is set*--cua-allow-api*"])
    project.run(f"--cua-mode={mode}", "--cua-allow-api").assert_outcomes(passed=1)


def test_in_ci_baselines_are_not_rewritten(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(test_note=PLAIN)
    monkeypatch.setenv("CI", "1")
    result = project.run("--cua-update=all", "--cua-allow-api")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --cua-update rewrites accepted screenshots and is refused where CI is set*"])
    project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("CI", "false")
    project.run("--cua-update=all").assert_outcomes(passed=1)


SETTINGS = """
from pytest_cua.fixtures import TEST
import pytest

def values(request):
    settings = request.node.stash[TEST].settings
    return [settings.model, settings.max_turns, settings.quiet, settings.size]

@pytest.mark.cua(model="marked", max_turns=11)
def test_marked(request, _cua_test):
    print("marked", values(request))

@pytest.mark.cua(max_turns=12)
class TestNear:
    @pytest.mark.cua(max_turns=13)
    def test_near(self, request, _cua_test):
        print("near", values(request))

def test_bare(request, _cua_test):
    print("bare", values(request))
"""


def test_option_before_marker_before_ini_before_environment(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(test_note=SETTINGS)
    for name, value in {"MODEL": "env", "MAX_TURNS": "5", "QUIET": "6", "SIZE": "640x480", "MODE": "offline"}.items():
        monkeypatch.setenv(f"PYTEST_CUA_{name}", value)
    ini = ("-o", "cua_model=ini", "-o", "cua_max_turns=7")
    output = project.run("-s", *ini).stdout.str()
    assert "cua: offline" in output
    assert "marked ['marked', 11, 6, (640, 480)]" in output
    assert "near ['ini', 13, 6, (640, 480)]" in output
    assert "bare ['ini', 7, 6, (640, 480)]" in output
    output = project.run("-s", *ini, "--cua-model=option", "--cua-mode=replay").stdout.str()
    assert "cua: replay" in output
    assert "marked ['option', 11, " in output
    assert "bare ['option', 7, " in output
    output = project.run("-s", "-o", "cua_mode=replay").stdout.str()
    assert "cua: replay" in output
    assert "bare ['env', 5, 6, (640, 480)]" in output


@pytest.mark.parametrize(
    "lines",
    [
        'cua_max_turns = "9"\ncua_strict = "false"\ncua_max_cost = "2"\n'
        'cua_exclude = ["1,2,3,4", "5,6,7,8"]\ncua_http_recorded = ["a b"]\n',
        "cua_max_turns = 9\ncua_strict = false\ncua_max_cost = 2\n"
        'cua_exclude = ["1,2,3,4", "5,6,7,8"]\ncua_http_recorded = ["a", "b"]\n',
    ],
    ids=["text", "native"],
)
def test_settings_in_a_file_are_text_or_native_values(project: Any, lines: str) -> None:
    project.write(
        test_note="from pytest_cua.fixtures import TEST\n"
        "def test_it(request, _cua_test):\n    print('settings', request.node.stash[TEST].settings)\n"
    )
    given = (project.path / "pyproject.toml").read_text()
    (project.path / "pyproject.toml").write_text(f"{given}\n{lines}")
    output = project.run("-s").stdout.str()
    wanted = (
        "max_turns=9",
        "strict=False",
        "max_cost=2.0",
        "exclude=((1, 2, 3, 4), (5, 6, 7, 8))",
        "http_recorded=('a', 'b')",
    )
    for value in wanted:
        assert value in output
    (project.path / "pyproject.toml").write_text(f"{given}\ncua_max_turns = 'many'\n")
    project.run().stderr.fnmatch_lines(["ERROR: ini cua_max_turns: 'many' is no value for it: *"])


def properties(path: Path) -> dict[str, str]:
    tree = ElementTree.parse(path)
    found = [(p.get("name"), p.get("value")) for p in tree.iter("property")]
    assert len(found) == len(dict(found)), "a property is there twice"
    return {str(name): str(value) for name, value in found}


def test_the_mode_is_stored_with_each_result(project: Any) -> None:
    project.steps(LOOK)
    project.record("--junitxml=a.xml").assert_outcomes(passed=1)
    project.run("--cua-mode=offline", "--junitxml=b.xml").assert_outcomes(passed=1)
    recorded, replayed = properties(project.path / "a.xml"), properties(project.path / "b.xml")
    assert recorded["cua_mode"] == "record"
    assert recorded["cua_endpoint"] == "scripted"
    assert recorded["cua_recorded"].endswith("cassettes/test_it/test_it")
    assert replayed["cua_mode"] == "offline"
    for name, value in {"cua_steps": "1", "cua_turns": "2"}.items():
        assert recorded[name] == replayed[name] == value
    assert int(replayed["cua_input_tokens"]) > 0
    (project.folder("test_it", "test_it") / "cassette.jsonl").unlink()
    project.run("--cua-mode=offline", "--junitxml=c.xml").assert_outcomes(errors=1)
    assert properties(project.path / "c.xml")["cua_mode"] == "offline"


# ------------------------------------------------------------------ offline


def test_an_offline_run_that_skips_everything_is_not_green_and_says_why(project: Any) -> None:
    project.steps(LOOK)
    project.record().assert_outcomes(passed=1)
    text = (project.path / "test_it.py").read_text()
    project.write(test_it=text + '    expect(cua.desktop.file("other.txt")).not_to_exist()\n')
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(skipped=1)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "not judged: test_it.py::test_it: needs the application: file 'other.txt' was not looked at *",
            "application not exercised*",
            "every test was skipped, so nothing was judged: this run counts as failed",
        ]
    )
    project.run("--cua-mode=offline", "-rs").stdout.fnmatch_lines(["SKIPPED * test_it.py:*: needs the application: *"])
    project.write(test_plain=PLAIN)
    assert project.run("--cua-mode=offline").ret == pytest.ExitCode.OK


SWALLOWED = """
def swallow(function):
    try:
        function()
    except BaseException:
        pass
"""


TOUCHED = (
    'urllib.request.urlopen("http://127.0.0.1:9/never")',
    'cua.desktop.file("other.txt").read_text()',
    "cua.desktop.browser().title()",
    "cua.desktop.processes()",
    'cua.desktop.launch("mousepad").output()',
    "cua.desktop.windows()",
)


def test_what_was_not_kept_skips_an_offline_test_even_when_it_swallows_exceptions(project: Any) -> None:
    head = f"import urllib.request\n{SWALLOWED}"
    project.steps(LOOK, head=head)
    project.record().assert_outcomes(passed=1)
    for body in (f"{TOUCHED[0]}\n", *(f"swallow(lambda: {touched})\n" for touched in TOUCHED)):
        project.steps(body + LOOK, head=head)
        result = project.run("--cua-mode=offline")
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["not judged: *needs the application*"])


def test_a_mismatch_is_not_turned_into_a_skip_by_what_comes_after_it(project: Any) -> None:
    project.steps(LOOK, head=SWALLOWED)
    project.record().assert_outcomes(passed=1)
    project.steps(
        'swallow(lambda: cua.do("Look elsewhere"))\nswallow(lambda: cua.desktop.file("other.txt").read_text())',
        head=SWALLOWED,
    )
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch*"])


def test_offline_needs_no_display_no_xvfb_and_no_key(project: Any) -> None:
    project.steps(LOOK)
    project.record().assert_outcomes(passed=1)
    empty = project.path / "bin"
    empty.mkdir()
    environment = {"PATH": str(empty), "DISPLAY": "", "XDG_RUNTIME_DIR": ""}
    code, text = project.output("--cua-mode=offline", **environment)
    assert code == 0, text
    assert "1 passed" in text
    assert "ANTHROPIC_API_KEY" not in os.environ
