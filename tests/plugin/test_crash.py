"""A run that is killed, interrupted or doubled: nothing half is taken for whole, what was paid for is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from desktop_support import Process, alive, eventually, process_tree

from pytest_cua.cli import main
from pytest_cua.desktop import trees

LOOK = """
cua.desktop.launch("mousepad")
cua.do("Look at the screen")
cua.desktop.file("a.txt").write("1")
expect(cua.desktop.file("a.txt")).to_have_text("1")
"""

# the second reply is held back until the test has done what it is about
HELD = """
import pathlib, threading
HERE = pathlib.Path(__file__).parent

def held(request):
    yield use("screenshot")
    (HERE / "reached").touch()
    while not (HERE / "go").exists():
        threading.Event().wait(0.02)
    yield finish("Seen.")

SCRIPT = {"": held}
"""


def reach(project: Any) -> tuple[subprocess.Popen[str], set[Process]]:
    """Start a recording and wait until it is in the middle of its step; gives its processes too."""
    project.script(HELD)
    project.steps(LOOK)
    process = project.start("--cua-mode=record", "-x")
    eventually((project.path / "reached").exists, 60_000)
    started = process_tree(process.pid)
    assert len(started) > 5  # pytest, holder, Xvfb, window manager, editor ...
    return process, started


def desktops() -> set[Path]:
    return set(trees.temporary_directory().glob(f"{trees.PREFIX}*"))


def test_a_killed_recording_leaves_no_cassette_and_no_process_and_is_kept_by_the_next(project: Any) -> None:
    process, started = reach(project)
    folder = project.folder("test_it", "test_it")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: not alive(started))
    assert not (folder / "cassette.jsonl").exists()
    paid = (folder / ".recording/cassette.jsonl").read_bytes()
    assert b'"type": "turn"' in paid
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*CassetteMissing*"])
    (project.path / "go").touch()
    project.record().assert_outcomes(passed=1)
    assert (folder / ".failed/cassette.jsonl").read_bytes() == paid
    assert not (folder / ".recording").exists()
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_an_interrupted_recording_is_kept_aside_and_leaves_nothing(project: Any) -> None:
    process, started = reach(project)
    before = desktops()
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "KeyboardInterrupt" in output
    eventually(lambda: not alive(started))
    folder = project.folder("test_it", "test_it")
    assert b'"type": "turn"' in (folder / ".failed/cassette.jsonl").read_bytes()
    assert not (folder / ".recording").exists()
    assert not (folder / "cassette.jsonl").exists()
    assert len(before - desktops()) >= 1  # its own went
    assert f"kept aside (the run was interrupted): {folder / '.failed'}\n" in output
    assert (
        f"  It ends inside step 1, so it can be read (pytest-cua show {folder / '.failed'}), not replayed.\n" in output
    )


FLOW = """
@pytest_cua.flow
def look(cua):
    cua.do("Look at all of it")
"""
STEPS = """
cua.do("Look at the screen")
cua.desktop.file("a.txt").write("x")
expect(cua.desktop.file("a.txt")).to_have_text("x")
"""


def test_a_run_that_ends_itself_says_where_its_recordings_are_and_how_they_are_adopted(project: Any) -> None:
    project.steps(f"look(cua)\n{STEPS}pytest.exit('enough')", head=FLOW)
    output = project.record().stdout.str()
    kept = {
        "flows/test_it.py::look": project.folder("look", "flows/test_it"),
        "test_it.py::test_it": project.folder("test_it", "test_it"),
    }
    for of, folder in kept.items():
        told = (
            f"kept aside (the run was interrupted): {folder / '.failed'}\n  hint: if only the test was wrong, adopt it:"
        )
        assert f"{told} pytest-cua accept {of}\n" in output
        assert main(["accept", of]) == 0
    project.steps(f"look(cua)\n{STEPS}", head=FLOW)
    project.run("--cua-mode=offline").assert_outcomes(passed=1)
    assert "interrupted" not in project.record().stdout.str()


def test_a_run_that_ends_itself_in_a_fixture_after_the_test_says_so_too(project: Any) -> None:
    project.steps(STEPS, head="@pytest.fixture(autouse=True)\ndef end(cua):\n    yield\n    pytest.exit('enough')\n")
    output = project.record().stdout.str()
    assert f"kept aside (the run was interrupted): {project.folder('test_it', 'test_it') / '.failed'}\n" in output


def test_two_recordings_of_one_test_at_once(project: Any) -> None:
    first, _ = reach(project)
    code, output = project.output("--cua-mode=record")
    assert code == 1
    assert "CassetteUnwritable: Another run is recording this test just now" in output
    assert "hint: wait for it to end" in output
    (project.path / "go").touch()
    output, _ = first.communicate(timeout=60)
    assert first.returncode == 0, output
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_a_killed_replay_leaves_no_process_and_the_cassette_as_it_was(project: Any) -> None:
    project.script(HELD)
    (project.path / "go").touch()
    project.steps(LOOK + '\ncua.desktop.file("b.txt").write("1")\n')
    project.record().assert_outcomes(passed=1)
    text = (project.path / "test_it.py").read_text()
    wait = "    import pathlib, threading\n    pathlib.Path('here').touch()\n    threading.Event().wait()\n"
    project.write(test_it=text + wait)
    folder = project.folder("test_it", "test_it")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    process = project.start()
    eventually((project.path / "here").exists, 60_000)
    started = process_tree(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: not alive(started))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_test_that_hangs_is_ended_by_pytest_timeout_and_kept(project: Any) -> None:
    project.script(HELD)
    project.steps(LOOK)
    code, output = project.output("--cua-mode=record", "--timeout=4", "-o", "timeout_method=signal")
    assert code == 1
    assert "Timeout" in output
    assert b'"type": "turn"' in (project.folder("test_it", "test_it") / ".failed/cassette.jsonl").read_bytes()
