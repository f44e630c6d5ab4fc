"""What a test has seen is forgotten when the test is over, so that a run of many tests does not grow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

SCRIPT = """
def opinion(request):
    return use_tool("give_opinion", holds=True, reason="It is.")

SCRIPT = {"is there": opinion, "": look}
"""
TESTS = """
import gc, weakref
from pytest_cua.agent.cua import Cua
from pytest_cua.agent.loop import Conversation
from pytest_cua.session import TestState

seen = []

def is_ours(thing):  # other tests of this process may have left some behind, in threads that never end
    if isinstance(thing, Conversation):
        return thing.step.sentence in ("Look, and forget it", "It is there, and forgotten")
    return isinstance(thing, (Cua, TestState)) and thing.test.endswith("test_note.py::test_one")

def test_one(cua):
    gc.disable()
    cua.do("Look, and forget it")
    cua.judge("It is there, and forgotten")
    seen[:] = [weakref.ref(thing) for thing in gc.get_objects() if is_ours(thing)]
    gc.enable()
    assert cua.desktop.windows() == []

def test_two():
    gc.collect()
    assert len(seen) >= 4
    assert [ref() for ref in seen if ref() is not None] == []
"""
# The first run in each mode loads modules, whose loader is the rewriting of that run's asserts: it stays.
RUNS = """
import gc, sys, weakref, pytest

sessions = []

class Noting:
    def pytest_sessionstart(self, session):
        sessions.append(weakref.ref(session))

for mode in 2 * ("record", "replay", "offline"):
    options = ["-p", "no:cacheprovider", "-p", "no:rerunfailures", f"--cua-mode={mode}"]
    assert pytest.main(options, plugins=[Noting()]) == 0
    for name in ("conftest", "test_note"):
        del sys.modules[name]
gc.collect()
assert [ref() for ref in sessions[3:]] == [None] * 3
"""


def test_nothing_of_a_test_stays(project: Any) -> None:
    project.script(SCRIPT)
    project.write(test_note=TESTS)
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=2)


def test_nothing_of_a_run_stays(project: Any) -> None:
    project.script(SCRIPT)
    project.write(test_note=TESTS, runs=RUNS)
    done = subprocess.run(
        [sys.executable, "runs.py"], cwd=project.path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
