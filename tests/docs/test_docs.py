"""The documents say what the code does: every name is in the reference, every link leads somewhere, code compiles."""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import pytest_cua
from pytest_cua import errors, fixtures
from pytest_cua.agent.cua import Cua
from pytest_cua.assertions.expect import DesktopExpectation, FileExpectation
from pytest_cua.cassette.format import LINE_TYPES
from pytest_cua.cassette.store import GIT_ATTRIBUTES
from pytest_cua.cli import _parser
from pytest_cua.settings import OPTION_ONLY, SESSION_ONLY, Settings, add_options

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_test_in_the_readme_is_one_that_runs() -> None:
    shown = ast.parse(blocks(page("README.md"), "python")[0])
    real = ast.parse(page("tests/examples/test_mousepad.py"))
    by_name = {node.name: node for node in real.body if isinstance(node, ast.FunctionDef)}
    tests = [node for node in shown.body if isinstance(node, ast.FunctionDef)]
    assert tests
    for test in tests:
        assert [ast.unparse(s) for s in test.body] == [ast.unparse(s) for s in by_name[test.name].body]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_compiles_and_imports_exist(path: Path) -> None:
    for code in blocks(path.read_text(encoding="utf-8"), "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pytest_cua"):
                module = __import__(node.module, fromlist=[alias.name for alias in node.names])
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def options_of_pytest() -> set[str]:
    """The options that `pytest --help` shows."""
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    options = parser.getgroup("cua").options
    return {name for option in options if option.attrs().get("help") != argparse.SUPPRESS for name in option.names()}


def test_every_setting_option_and_default_is_in_the_reference() -> None:
    text = page("docs/reference/options.md")
    rows = {name: line for line in text.splitlines() for name in re.findall(r"^\| `cua_(\w+)`", line)}
    assert set(rows) == {field.name for field in fields(Settings)} - set(OPTION_ONLY)
    for name, row in rows.items():
        assert ("not for the marker" in row) == (name in SESSION_ONLY), name
    assert set(re.findall(r"^\| `(--[\w-]+)", text, re.MULTILINE)) == options_of_pytest()
    for name in ("max_turns", "step_timeout", "timeout", "drift_timeout", "quiet", "max_cost", "max_cost_run"):
        assert f"| `cua_{name}` | `{getattr(Settings(), name)}` |" in text, name


def test_every_fixture_is_in_the_reference() -> None:
    text = page("docs/reference/fixtures.md")
    made = [name for name, value in vars(fixtures).items() if type(value).__name__ == "FixtureFunctionDefinition"]
    assert "cua" in made
    for name in made:
        assert name.startswith("_") or f"| `{name}` |" in text, name
    for name in ("client", "desktop", "cassette", "usage", "is_live"):
        assert f"| `{name}` |" in text, name
    public = ["do(", "judge(", *(name for name, value in vars(Cua).items() if isinstance(value, property))]
    for name in public:
        assert name.startswith("_") or f"| `{name}" in text, name
    for name in ("@pytest_cua.flow", "pytest_cua.Secret(", "pytest_cua.Secret.from_env("):
        assert f"`{name}" in text, name


def test_every_error_is_in_the_reference_and_is_public() -> None:
    text = page("docs/reference/errors.md")
    kinds = {v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)}
    for kind in kinds:
        assert f"`{kind.__name__}`" in text or f"`pytest_cua.{kind.__name__}`" in text, kind
        assert getattr(pytest_cua, kind.__name__) is kind


def test_every_expectation_is_in_the_reference() -> None:
    text = page("docs/reference/expect.md")
    for kind in (FileExpectation, DesktopExpectation):
        for name in vars(kind):
            if name.startswith(("to_", "not_to_")):
                assert f"`{name}" in text, name


def test_every_command_is_in_the_reference() -> None:
    text = page("docs/reference/command.md")
    commands = next(action for action in _parser()._actions if action.choices)
    assert isinstance(commands.choices, dict)
    rows = [line for line in text.splitlines() if line.startswith("| `pytest-cua ")]
    assert {row.split("`")[1].split()[1] for row in rows} == set(commands.choices)
    for name, command in commands.choices.items():
        told = " ".join(row for row in rows if f"`pytest-cua {name}" in row)
        for action in command._actions:
            option = next((option for option in action.option_strings if option.startswith("--")), None)
            assert option in (None, "--help", "--cassettes") or option in told, f"{name} {option}"
    assert "`--cassettes FOLDER`" in text


def test_every_type_of_line_is_in_the_format() -> None:
    text = page("docs/reference/cassette.md")
    for name in LINE_TYPES:
        assert f"| `{name}` |" in text, name


def test_git_is_told_on_the_page_what_it_is_told_in_the_folder() -> None:
    assert blocks(page("docs/review.md"), "text") == [GIT_ATTRIBUTES.partition("\n")[2]]


def test_every_module_is_on_the_map() -> None:
    text = page("docs/architecture.md")
    for path in sorted((ROOT / "pytest_cua").rglob("*.py")):
        if not path.name.startswith("_"):
            assert re.search(rf"\b{path.name}", text), path.relative_to(ROOT)
    layers = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [layer.replace("pytest_cua.", "") for layer in layers]
    assert "\n".join(names) in text


def test_every_public_name_exists() -> None:
    for name in pytest_cua.__all__:
        assert getattr(pytest_cua, name) is not None


def test_the_page_of_the_scripted_claude_can_be_pasted(pytester: pytest.Pytester) -> None:
    conftest, test = blocks(page("docs/scripted-claude.md"), "python")
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_letter=test)
    pytester.makepyprojecttoml("[tool.pytest]\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--cua-record").assert_outcomes(passed=1)
    assert (pytester.path / "cassettes/test_letter/test_letter/steps.md").exists()
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


FLOWS_AND_CLIENTS = """
import anthropic
import pytest
from pytest_cua.testing import ScriptedClaude, finish, say, turn, use


def write(text):
    def play(request):
        yield use("screenshot")
        yield turn(use("key", text="ctrl+End"), use("type", text=text), use("key", text="ctrl+s"), use("screenshot"))
        yield finish("It is there and saved.")
    return play


SCRIPT = {
    "Write": write("{name}\\n"),
    "Dear Bob": write("Dear Bob,\\n"),
    "Yours": write("Yours\\n"),
    "colour": [say("blue")],
    "number": [say("seven")],
}


@pytest.fixture
def cua_client(monkeypatch):
    with ScriptedClaude(SCRIPT) as claude:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "scripted-key")
        yield anthropic.Anthropic()
"""


TOOLS = """
import anthropic, pytest
from pytest_cua.testing import ScriptedClaude, finish, use_tool

def order(request):
    assert [tool.get("name") for tool in request.tools][1:4] == ["bash", "str_replace_based_edit_tool", "stock"]
    yield use_tool("stock", article="pear")
    yield use_tool("str_replace_based_edit_tool", command="create", path="/home/cua/pears.txt", file_text="7\\n")
    yield use_tool("bash", command="sed -i s/7/12/ pears.txt && cat pears.txt")
    yield finish("12 pears.")

@pytest.fixture
def cua_client():
    with ScriptedClaude({"Write how many": order}) as claude:
        yield anthropic.Anthropic(api_key="none", base_url=claude.base_url, max_retries=0)
"""


def test_the_page_of_tools_can_be_pasted(pytester: pytest.Pytester) -> None:
    tools, hook, by_hand = blocks(page("docs/tools.md"), "python")
    pytester.makeconftest(TOOLS + hook)
    pytester.makepyfile(test_tools=tools, test_by_hand=by_hand)
    for mode, passed, skipped in (("record", 2, 0), ("replay", 2, 0), ("offline", 1, 1)):
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--cua-mode={mode}")
        result.assert_outcomes(passed=passed, skipped=skipped)


def test_the_pages_of_flows_and_clients_can_be_pasted(pytester: pytest.Pytester) -> None:
    flow, tests = blocks(page("docs/flows.md"), "python")
    clients, normalize = blocks(page("docs/clients.md"), "python")
    pytester.makepyprojecttoml('[tool.pytest]\npythonpath = ["."]\n')
    pytester.makeconftest(FLOWS_AND_CLIENTS + normalize)
    pytester.makepyfile(letters=flow, test_letters=tests, test_clients=clients)

    def passes(*arguments: str) -> pytest.RunResult:
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
        result.assert_outcomes(passed=4)
        return result

    told = [line.split()[1] for line in passes("--cua-record").outlines if line.startswith("recorded ")]
    folder = pytester.path / "cassettes/flows/letters/write_letterhead"
    assert [place for place in told if "/flows/" in place] == [str(folder)]  # once, for both tests
    for mode in ("replay", "offline"):
        passes(f"--cua-mode={mode}")

    # an edited sentence fails each test, and the page's command mends all
    letters = pytester.path / "letters.py"
    letters.write_text(
        letters.read_text(encoding="utf-8").replace('and save it",', 'and save this",'), encoding="utf-8"
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--cua-mode=offline", "test_letters.py")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([f"*rm -r *{folder.relative_to(pytester.path)} && pytest --cua-record *"])
    shutil.rmtree(folder)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--cua-record", "test_letters.py::test_greeting")
    assert [line.split()[1] for line in result.outlines if line.startswith("recorded ")] == [str(folder)]
    passes("--cua-mode=offline")
