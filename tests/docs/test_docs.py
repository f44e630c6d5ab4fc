"""The documents say what the code does: every name is in the reference, every link leads somewhere, code compiles."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

import pytest_cua
from pytest_cua import errors, fixtures
from pytest_cua.assertions.expect import DesktopExpectation, FileExpectation
from pytest_cua.cassette.format import LINE_TYPES
from pytest_cua.cli import _parser
from pytest_cua.settings import Settings

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


def test_every_setting_option_and_default_is_in_the_reference() -> None:
    text = page("docs/reference/options.md")
    for field in fields(Settings):
        if field.name != "update":
            assert f"`cua_{field.name}`" in text, field.name
    for option in ("--cua-mode", "--cua-record", "--cua-update", "--cua-model", "--cua-allow-api"):
        assert f"`{option}" in text
    for name in ("max_turns", "step_timeout", "timeout", "drift_timeout", "quiet", "max_cost", "max_cost_run"):
        assert f"| `cua_{name}` | `{getattr(Settings(), name)}` |" in text, name


def test_every_fixture_is_in_the_reference() -> None:
    text = page("docs/reference/fixtures.md")
    made = [name for name, value in vars(fixtures).items() if type(value).__name__ == "FixtureFunctionDefinition"]
    assert "cua" in made
    for name in made:
        assert name.startswith("_") or f"`{name}`" in text, name


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
    for name in commands.choices or ():
        assert f"`pytest-cua {name}" in text, name


def test_every_type_of_line_is_in_the_format() -> None:
    text = page("docs/cassette-format.md")
    for name in LINE_TYPES:
        assert f"| `{name}` |" in text, name


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
