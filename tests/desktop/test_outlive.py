"""A desktop that outlives its runner can be gone on with by another process, and otherwise ends in time."""

from __future__ import annotations

import gc
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from desktop_support import alive, eventually, leftovers, process_tree

import pytest_cua.errors
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument, DesktopDied, SetupError
from pytest_cua.tools.bash import Bash, BashHandle

ROOT = Path(pytest_cua.errors.__file__).parent.parent
#: Seconds; every test ends its desktop long before.
LONG = 60
#: Of the desktops of this run of the tests.
NAME = f"shop-{os.getpid()}"
RUNNER = """
import json, sys
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.tools.bash import Bash
_, outlive, isolation, name = sys.argv
desktop = Desktop.start(DesktopConfig(size=(640, 480), isolation=isolation, outlive=float(outlive)), name=name)
bash = Bash(desktop)
bash.run("x=kept; cd /tmp; sleep 1000 &")
desktop.launch("xterm", "-T", "window")
desktop.file("note.txt").write("text")
print(json.dumps([desktop._link.holder_pid, desktop.display, str(desktop.root), bash.handle.to_json()]), flush=True)
exec(sys.stdin.read())
"""
#: Holds a key and a button down.
HOLDING = """
from Xlib import X
from Xlib.ext import xtest
with desktop._screen._connection.use() as display:
    xtest.fake_input(display, X.KeyPress, 50)
    xtest.fake_input(display, X.ButtonPress, 1)
    display.sync()
desktop.file("held").write("")
bash.run("sleep 1000")
"""
LOOKING = """
result = bash.run("ls /tmp /run; find / -name holder.sock 2>/dev/null")
desktop.file("seen").write(result.output)
"""


class Runner:
    """A process that has started a desktop, and executes what it is told last."""

    def __init__(self, outlive: float, isolation: str = "auto") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(outlive), isolation, NAME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        holder, self.display, root, handle = json.loads(self.process.stdout.readline())
        self.root = Path(root)
        self.handle = BashHandle.from_json(handle)
        self.processes = process_tree(holder)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, script: str) -> None:
        self.process.communicate(script)

    def is_gone(self) -> bool:
        return not alive(self.processes) and not leftovers(self.display, self.root)


@pytest.mark.parametrize("isolation", ["auto", "process-group"])
def test_another_process_goes_on_with_the_desktop_of_a_killed_one(isolation: str) -> None:
    runner = Runner(LONG, isolation)
    runner.kill()
    with Desktop.attach(runner.root) as desktop:
        assert (desktop.name, desktop.size, desktop.display) == (NAME, (640, 480), runner.display)
        assert [window.title for window in desktop.windows()] == ["window"]
        assert desktop.capture().size == (640, 480)
        assert desktop.file("note.txt").read_text() == "text"
        desktop.keyboard.type("echo typed >typed.txt\n")
        eventually(lambda: desktop.file("typed.txt").exists())
        assert desktop.file("typed.txt").read_text() == "typed\n"
        assert desktop.launch("xterm", "-T", "second").running()
        desktop.check_alive()
        assert alive(runner.processes) == runner.processes
    assert runner.is_gone()


def test_it_goes_on_with_the_same_shell() -> None:
    runner = Runner(LONG)
    runner.kill()
    with Desktop.attach(runner.root) as desktop:
        bash = Bash.attach(runner.handle, desktop)
        assert bash.handle == runner.handle
        last = bash.resume()  # nobody can know whether it was seen
        assert last is not None
        assert last.exit_code == 0
        result = bash.run("echo $x; pwd; jobs -r | wc -l")
        assert (result.output, result.in_new_shell) == ("kept\n/tmp\n1\n", False)
        bash.close()
        assert [argv[0] for _, argv in desktop.processes() if "sleep" in argv[0]] == []


def test_a_handle_alone_is_enough() -> None:
    runner = Runner(LONG)
    runner.kill()
    bash = Bash.attach(runner.handle)
    assert bash.run("echo $x").output == "kept\n"
    bash.desktop.close()
    assert runner.is_gone()


def test_the_command_at_which_a_runner_was_killed_can_be_waited_for() -> None:
    runner = Runner(LONG)
    script = 'bash.run("echo begun | tee ~/begun; until [ -e ~/go ]; do sleep 0.01; done; echo ended; (exit 3)")'
    assert runner.process.stdin is not None
    runner.process.stdin.write(script)
    runner.process.stdin.close()
    eventually((runner.root / "home/begun").exists)
    runner.process.kill()
    runner.process.wait()
    with Desktop.attach(runner.root) as desktop:
        desktop.file("go").write("")
        bash = Bash.attach(runner.handle, desktop)
        result = bash.resume(timeout=20_000)
        assert result is not None
        assert (result.output, result.exit_code, result.timed_out) == ("begun\nended\n", 3, False)
        assert bash.run("echo $x").output == "kept\n"


def test_or_else_it_is_stopped_by_the_next_one() -> None:
    runner = Runner(LONG)
    assert runner.process.stdin is not None
    runner.process.stdin.write('bash.run("touch ~/begun; sleep 2000; touch ~/never")')
    runner.process.stdin.close()
    eventually((runner.root / "home/begun").exists)
    runner.process.kill()
    runner.process.wait()
    with Desktop.attach(runner.root) as desktop:
        result = Bash.attach(runner.handle, desktop).run("echo $x")
        assert (result.output.splitlines()[-1], result.in_new_shell) == ("kept", False)
        assert not desktop.file("never").exists()
        assert ["sleep", "2000"] not in [argv for _, argv in desktop.processes()]


@pytest.mark.parametrize("script", ["", "del desktop, bash; import gc; gc.collect()", "raise SystemExit(3)"])
def test_it_outlives_every_end_but_closing(script: str) -> None:
    runner = Runner(LONG)
    runner.end(script)
    with Desktop.attach(runner.root):
        assert alive(runner.processes) == runner.processes
    assert runner.is_gone()


def test_closing_ends_it() -> None:
    runner = Runner(LONG)
    runner.end("desktop.close()")
    assert runner.is_gone()
    with pytest.raises(SetupError, match="ended"):
        Desktop.attach(runner.root)
    with pytest.raises(SetupError, match="ended"):
        Bash.attach(runner.handle)


def test_when_nobody_comes_in_time_everything_ends() -> None:
    runner = Runner(1)
    begin = time.monotonic()
    runner.kill()
    assert not runner.is_gone()
    eventually(runner.is_gone)
    assert 0.9 < time.monotonic() - begin < 8


def test_the_time_begins_again_with_the_end_of_each_runner() -> None:
    runner = Runner(1)
    runner.kill()
    desktop = Desktop.attach(runner.root)
    begin = time.monotonic()
    # no sooner than the first time would have passed
    eventually(lambda: time.monotonic() - begin > 1.5)
    desktop.check_alive()
    del desktop
    gc.collect()
    begin = time.monotonic()
    eventually(runner.is_gone)
    assert time.monotonic() - begin > 0.9


def test_without_it_the_desktop_ends_with_its_runner_and_nobody_can_come() -> None:
    runner = Runner(0)
    assert not (runner.root / "holder.sock").exists()
    with pytest.raises(SetupError, match="ends with its runner") as caught:
        Desktop.attach(runner.root)
    assert "outlive" in caught.value.hints[0]
    runner.kill()
    eventually(runner.is_gone)


def test_a_second_one_is_told_who_has_it() -> None:
    runner = Runner(LONG)
    with pytest.raises(SetupError, match=f"process {runner.process.pid} is its runner"):
        Desktop.attach(runner.root)
    runner.kill()
    with Desktop.attach(runner.root) as desktop:
        with pytest.raises(SetupError, match=f"process {os.getpid()} is its runner"):
            Desktop.attach(runner.root)
        desktop.check_alive()  # the first is not disturbed


def test_it_is_found_by_its_name() -> None:
    runner = Runner(LONG)
    with pytest.raises(SetupError, match=str(runner.root)):  # names those that there are
        Desktop.attach("nosuchname")
    other = Runner(LONG)
    with pytest.raises(BadArgument, match="Several"):
        Desktop.attach(NAME)
    other.end("desktop.close()")
    runner.kill()
    with Desktop.attach(NAME) as desktop:
        assert desktop.root == runner.root
    runner = Runner(LONG)
    runner.kill()
    Desktop.attach(runner.root.name).close()
    assert runner.is_gone()


def test_keys_that_a_killed_runner_held_are_released() -> None:
    runner = Runner(LONG)
    assert runner.process.stdin is not None
    runner.process.stdin.write(HOLDING)
    runner.process.stdin.close()
    eventually((runner.root / "home/held").exists)
    runner.process.kill()
    runner.process.wait()
    with Desktop.attach(runner.root) as desktop, desktop._screen._connection.use() as display:
        assert not any(display.query_keymap())
        assert not display.screen().root.query_pointer().mask & 0x1F00  # Button1Mask to Button5Mask


def test_nobody_else_can_come() -> None:
    runner = Runner(LONG)
    place = runner.root / "holder.sock"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(runner.root.stat().st_mode) == 0o700
    assert runner.process.stdin is not None
    runner.process.stdin.write(LOOKING)
    runner.process.stdin.close()
    runner.process.wait()
    with Desktop.attach(runner.root) as desktop:
        seen = desktop.file("seen").read_text()
        assert "pytest-cua" in seen  # the directory of its settings
        assert "holder.sock" not in seen


def test_a_handle_whose_process_is_another_is_refused() -> None:
    runner = Runner(LONG)
    runner.kill()
    with Desktop.attach(runner.root) as desktop:
        with pytest.raises(SetupError, match="belongs to another process now"):
            Bash.attach(replace(runner.handle, started=runner.handle.started - 1), desktop)
        other = next(pid for pid, argv in desktop.processes() if argv[0] == "sleep")
        with pytest.raises(SetupError, match="belongs to another process now"):
            Bash.attach(replace(runner.handle, pid=other), desktop)
        with pytest.raises(SetupError, match="has ended"):
            Bash.attach(replace(runner.handle, pid=4_000_000), desktop)
        bash = Bash.attach(runner.handle, desktop)
        bash.run("exit")
        with pytest.raises(SetupError, match="has ended"):
            Bash.attach(runner.handle, desktop)


@pytest.mark.parametrize("victim", ["server_pid", "box_pid"])
def test_what_nobody_could_go_on_with_ends_at_once(victim: str) -> None:
    runner = Runner(LONG)
    runner.kill()
    desktop = Desktop.attach(runner.root)
    ready = desktop._link.ready
    assert ready is not None
    os.kill(ready[victim], signal.SIGKILL)
    with pytest.raises(DesktopDied):
        eventually(lambda: [desktop.check_alive(), desktop.processes()] == [])
    desktop._finalizer()  # the end of a runner
    eventually(runner.is_gone)


def test_a_killed_holder_is_noticed_by_who_has_attached() -> None:
    runner = Runner(LONG)
    runner.kill()
    desktop = Desktop.attach(runner.root)
    os.kill(desktop._link.holder_pid, signal.SIGKILL)
    with pytest.raises(DesktopDied):
        eventually(lambda: desktop.check_alive() is not None)
    desktop.close()
    eventually(runner.is_gone)


@pytest.mark.parametrize("outlive", [-1, "5", float("inf")])
def test_times_that_cannot_be_meant(outlive: float) -> None:
    with pytest.raises(BadArgument, match="outlive"):
        Desktop.start(DesktopConfig(outlive=outlive))
