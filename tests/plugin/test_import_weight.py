"""A run that uses nothing of ours pays nothing for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

HEAVY = ("anthropic", "vcr", "playwright", "PIL", "numpy", "httpx2", "imagehash", "Xlib", "mss", "jinja2")

SAY = f"""
import sys

def pytest_collection_finish(session):
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    ours = sorted(name for name in sys.modules if name.startswith("pytest_cua"))
    print("heavy:", heavy, "ours:", len(ours))
"""


def collected(project: Any, test: str, *arguments: str) -> str:
    (project.path / "conftest.py").write_text(SAY)
    project.write(test_note=test)
    code, output = project.output("-s", "--collect-only", *arguments)
    assert code == 0, output
    return next(line for line in output.splitlines() if line.startswith("heavy:"))


def test_nothing_heavy_is_imported_to_collect_a_suite(project: Any) -> None:
    assert "heavy: [] " in collected(project, "def test_plain(): pass")
    assert "heavy: [] " in collected(project, "from pytest_cua import expect\ndef test_plain(): pass")
    test = (
        "from pytest_cua import expect\n"
        "def test_it(cua):\n    cua.do('x')\n    expect(cua.desktop).to_have_window('y')\n"
    )
    assert "heavy: [] " in collected(project, test)


def test_nothing_heavy_is_imported_to_run_a_test_that_uses_nothing_of_ours(project: Any) -> None:
    (project.path / "conftest.py").write_text(SAY.replace("collection_finish(session)", "unconfigure()"))
    project.write(test_note="def test_plain(): pass")
    code, output = project.output("-s")
    assert code == 0
    assert "heavy: [] " in output


def test_the_plugin_can_be_switched_off(project: Any) -> None:
    (project.path / "conftest.py").write_text(SAY)
    project.write(test_note="def test_plain(): pass")
    code, output = project.output("-s", "-p", "no:cua")
    assert code == 0
    assert "ours: 0" in output
    assert "cua:" not in output


def test_every_fixture_says_what_it_gives(project: Any) -> None:
    project.write(test_note="def test_plain(): pass")
    output = project.run("--fixtures").stdout.str()
    ours = output[output.index("fixtures defined from pytest_cua") :]
    for name in ("cua", "desktop", "desktop_factory", "computer", "cua_client", "cua_confirm"):
        line = next(i for i, text in enumerate(ours.splitlines()) if text.startswith(f"{name} -- "))
        assert ours.splitlines()[line + 1].strip().endswith((".", ":")) or "." in ours.splitlines()[line + 1]
    assert "no docstring" not in ours.split("fixtures defined from", 2)[1]


def test_options_and_markers_are_described(project: Any) -> None:
    project.write(test_note="def test_plain(): pass")
    text = project.run("--help").stdout.str()
    for name in (
        "--cua-mode",
        "--cua-record",
        "--cua-update",
        "--cua-model",
        "--cua-allow-api",
        "cua_max_cost",
        "cua_exclude",
    ):
        assert name in text
    project.run("--markers").stdout.fnmatch_lines(["@pytest.mark.cua(*settings): settings of pytest-cua for one test*"])


def test_the_package_names_what_it_has() -> None:
    script = (
        "import sys, pytest_cua; assert 'pytest' not in sys.modules; assert 'anthropic' not in sys.modules;"
        "[getattr(pytest_cua, name) for name in dir(pytest_cua)];"
        "\ntry: pytest_cua.nothing\nexcept AttributeError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "module 'pytest_cua' has no attribute 'nothing'"
