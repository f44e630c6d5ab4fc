"""A small project of a user's, in a folder of its own, with a scripted Claude who answers while it records."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import pytest_cua

sys.path.insert(0, str(Path(__file__).parents[1] / "desktop"))  # importlib mode leaves it out

from desktop_support import alive, eventually, process_tree

# pytester forgets what a run in this process imported; C extensions cannot be imported twice, and a class that is
# imported twice is two classes: so everything is imported here, before.
for _module in pkgutil.walk_packages(pytest_cua.__path__, "pytest_cua."):
    importlib.import_module(_module.name)
importlib.import_module("hypothesis.internal.observability")  # its plugin does so at the end of every run

_installed: dict[str, ModuleType] = {}  # what nested runs have imported of installed packages

NOTE = """
from pytest_cua import expect

def test_note(cua):
    cua.desktop.file("note.txt").write("one\\n")
    cua.desktop.launch("mousepad", "note.txt")
    cua.do("Add the line {line} and save", params={"line": "two"})
    expect(cua.desktop.file("note.txt")).to_have_text("one\\ntwo\\n")
"""

CLIENT = """
import anthropic, pytest
from pytest_cua.testing import *

def add_line(request):
    yield use("screenshot")
    yield turn(use("key", text="ctrl+End"), use("type", text="{line}\\n"), use("key", text="ctrl+s"), use("screenshot"))
    yield finish("The line is there and saved.")

def look(request):
    yield use("screenshot")
    yield finish("Seen.")

SCRIPT = {"Add the line": add_line, "": look}
KEY = "scripted"
VALID_KEY = None

@pytest.fixture
def cua_client():
    with ScriptedClaude(SCRIPT, valid_key=VALID_KEY) as claude:
        with anthropic.Anthropic(api_key=KEY, base_url=claude.base_url, max_retries=0) as client:
            yield client
"""


class Watch:
    """Notes the processes that a nested run has started, and the packages it has imported."""

    def __init__(self) -> None:
        self._before = process_tree(os.getpid())
        self.started: set[tuple[int, str]] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self) -> None:
        self.started |= process_tree(os.getpid()) - self._before

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        for name, module in sys.modules.items():
            spec = getattr(module, "__spec__", None)
            is_installed = (getattr(spec, "origin", None) or "").startswith((sys.prefix, sys.base_prefix))
            # what this run's rewriting of asserts has loaded keeps its configuration, and all of the run with that
            if is_installed and not isinstance(spec.loader, AssertionRewritingHook):
                _installed[name] = module


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Put back what pytester forgets: imported again by each run, much of a package stays in memory each time."""
    yield
    sys.modules.update({**_installed, **sys.modules})


@dataclass
class Project:
    """A folder with tests, run by pytest in this process."""

    pytester: pytest.Pytester
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.pytester.path

    def write(self, **files: str) -> None:
        """Write files; `test_a="..."` becomes `test_a.py`."""
        for name, text in files.items():
            (self.path / f"{name}.py").write_text(text, encoding="utf-8")

    def script(self, text: str) -> None:
        """Replace who answers: `text` follows the standard script and may set SCRIPT, KEY, VALID_KEY."""
        (self.path / "conftest.py").write_text(CLIENT + text, encoding="utf-8")

    def steps(self, body: str, *, head: str = "", arguments: str = "cua") -> None:
        """Write `test_it.py` with one test, `test_it`, whose steps need no application."""
        text = f"import pytest\nimport pytest_cua\nfrom pytest_cua import expect\n{textwrap.dedent(head)}\n\n"
        text += f"def test_it({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
        self.write(test_it=text)
        (self.path / "test_note.py").unlink(missing_ok=True)

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process, and see that every process of it has ended afterwards."""
        watch = Watch()
        plain = ["-p", "no:cacheprovider"]
        if not any(argument.startswith("--reruns") for argument in arguments):
            # its server and the thread of it outlive each run in this process, and keep all of it with them
            plain += ["-p", "no:rerunfailures"]
        result = self.pytester.runpytest_inprocess(*plain, *arguments, plugins=[watch])
        eventually(lambda: not alive(watch.started))
        return result

    def start(self, *arguments: str, prefix: Sequence[str] = (), **environment: str) -> subprocess.Popen[str]:
        """Start pytest in a process of its own."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def output(self, *arguments: str, prefix: Sequence[str] = (), **environment: str) -> tuple[int, str]:
        """Run pytest in a process of its own; its exit code and output."""
        process = self.start(*arguments, prefix=prefix, **environment)
        text, _ = process.communicate(timeout=120)
        return process.returncode, text

    def record(self, *arguments: str) -> pytest.RunResult:
        return self.run("--cua-mode=record", *arguments)

    def folder(self, test: str = "test_note", file: str = "test_note") -> Path:
        return self.path / "cassettes" / file / test

    def lines(self, test: str = "test_note", file: str = "test_note") -> list[dict[str, Any]]:
        """The lines of a cassette; its actions whole, with what their lines need not say."""
        from pytest_cua.cassette.format import load

        cassette = load(self.folder(test, file))
        whole = [
            {"step": step.number, "turn": turn.number, **action.to_json()}
            for step in cassette.steps
            for turn in step.turns
            for action in turn.actions.values()
        ]
        actions = iter(whole)
        return [{**line, **next(actions)} if line["type"] == "action" else line for line in cassette.lines]

    def actions(self, test: str = "test_note") -> list[tuple[str, Any]]:
        return [(line["name"], line["input"]) for line in self.lines(test) if line["type"] == "action"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An empty project with a scripted Claude; `test_note.py` is the usual test."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyprojecttoml('[tool.pytest]\naddopts = ["--import-mode=importlib"]\nstrict = true\n')
    made = Project(pytester)
    made.script("")
    made.write(test_note=NOTE)
    yield made
    for process in made.processes:  # of a test that failed
        if process.poll() is None:
            process.kill()
            process.communicate()
