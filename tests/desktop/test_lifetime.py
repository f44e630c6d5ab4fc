"""A desktop starts, ends, and leaves nothing, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from desktop_support import alive, eventually, launch_probe, leftovers, process_tree

import pytest_cua.errors
from pytest_cua.desktop import trees
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument, DesktopDied, MissingProgram

ROOT = Path(pytest_cua.errors.__file__).parent.parent
RUNNER = """
import json, sys
from pytest_cua.desktop.desktop import Desktop, DesktopConfig
desktop = Desktop.start(DesktopConfig(isolation=sys.argv[1]))
# one that leaves its parent, its session and its process group
desktop.launch("/bin/sh", "-c", "setsid sleep 1000 & sleep 1000", wait=False)
while len(desktop.processes()) < 3:
    pass
print(json.dumps([desktop._link.holder_pid, desktop.display, str(desktop.home.parent)]), flush=True)
sys.stdin.read()
"""


def start_runner(isolation: str) -> tuple[subprocess.Popen[str], int, str, Path]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUNNER, isolation]
    runner = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True
    )
    assert runner.stdout is not None
    holder, display, root = json.loads(runner.stdout.readline())
    return runner, holder, display, Path(root)


def end_runner(runner: subprocess.Popen[str]) -> None:
    runner.communicate()


def test_it_starts_and_closing_it_leaves_nothing(desktop: Desktop) -> None:
    launch_probe(desktop)
    processes = process_tree(desktop._link.holder_pid)
    assert len(processes) >= 7  # holder, Xvfb, bwrap, spawner, bus, window manager, panel, probe
    desktop.close()
    assert alive(processes) == set()
    assert leftovers(desktop.display, desktop.home.parent) == []
    desktop.close()  # again: nothing happens


def test_after_closing_every_call_says_so(desktop: Desktop) -> None:
    desktop.close()
    for call in (desktop.capture, desktop.read_windows, desktop.check_alive, desktop.pointer.position):
        with pytest.raises(DesktopDied, match="closed"):
            call()


@pytest.mark.parametrize("isolation", ["auto", "process-group"])
def test_a_killed_runner_leaves_nothing(isolation: str) -> None:
    runner, holder, display, root = start_runner(isolation)
    processes = process_tree(holder)
    assert len(processes) >= 9
    os.kill(runner.pid, signal.SIGKILL)
    end_runner(runner)
    eventually(lambda: not alive(processes))
    eventually(lambda: not leftovers(display, root))


@pytest.mark.parametrize("isolation", ["auto", "process-group"])
def test_a_killed_holder_takes_everything_with_it(isolation: str) -> None:
    desktop = Desktop.start(DesktopConfig(isolation=isolation))
    desktop.launch("/bin/sh", "-c", "setsid sleep 1000 & sleep 1000", wait=False)
    eventually(lambda: len(desktop.processes()) == 3)
    processes = process_tree(desktop._link.holder_pid)
    os.kill(desktop._link.holder_pid, signal.SIGKILL)
    eventually(lambda: not alive(processes))
    with pytest.raises(DesktopDied, match="the process that holds it ended"):
        desktop.check_alive()
    desktop.close()
    assert leftovers(desktop.display, desktop.home.parent) == []


def test_the_next_start_removes_what_a_killed_holder_and_runner_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(
        prefix="cua-own-", dir="/tmp"
    ) as own:  # else another worker's start may come first
        monkeypatch.setenv("TMPDIR", own)
        monkeypatch.setattr(tempfile, "tempdir", own)
        runner, holder, display, root = start_runner("auto")
        os.kill(holder, signal.SIGKILL)
        os.kill(runner.pid, signal.SIGKILL)
        end_runner(runner)
        assert leftovers(display, root)
        Desktop.start().close()
        assert leftovers(display, root) == []


def test_an_abandoned_directory_is_told_from_one_in_use(desktop: Desktop) -> None:
    assert desktop.home.parent not in trees.abandoned()


def test_what_programs_did_to_their_directories_does_not_keep_them(desktop: Desktop, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    temporary = desktop.home.parent.parent
    modes = [place.stat().st_mode for place in (tmp_path, temporary)]
    script = f"mkdir -p locked/inner; touch locked/inner/x; ln -s {tmp_path} link; chmod 0 locked/inner locked ."
    desktop.launch("/bin/sh", "-c", script, wait=False).wait()
    desktop.close()
    assert not desktop.home.exists()
    trees.remove(desktop.home.parent)  # again, as when holder and runner both do it
    assert [place.stat().st_mode for place in (tmp_path, temporary)] == modes


def test_an_interrupt_of_the_runner_does_not_end_the_desktop_before_its_time(desktop: Desktop) -> None:
    # Ctrl+C reaches the whole process group of the terminal; the holder is in none of them
    assert os.getpgid(desktop._link.holder_pid) != os.getpgid(0)
    os.kill(desktop._link.holder_pid, signal.SIGINT)
    desktop.check_alive()
    assert desktop.capture().size == (1024, 768)


CALLS: dict[str, Callable[[Desktop], object]] = {
    "capture": lambda d: d.capture(),
    "screenshot": lambda d: d.screenshot(),
    "windows": lambda d: d.windows(),
    "move": lambda d: d.pointer.move(5, 5),
    "position": lambda d: d.pointer.position(),
    "click": lambda d: d.pointer.click(5, 5),
    "key": lambda d: d.keyboard.press("a"),
    "type": lambda d: d.keyboard.type("é"),
    "hold": lambda d: d.keyboard.hold("shift", 0.1),
    "still": lambda d: d.wait_until_still(),
    "launch": lambda d: d.launch("mousepad"),
    "release": lambda d: d.release_input(),
    "check_alive": lambda d: d.check_alive(),
}


@pytest.mark.parametrize("first", ["capture", "windows", "move", "still", "launch"])
def test_a_killed_server_is_told_by_every_call(desktop: Desktop, first: str) -> None:
    ready = desktop._link.ready
    assert ready is not None
    os.kill(ready["server_pid"], signal.SIGKILL)
    for call in (CALLS[first], *CALLS.values()):  # the first call may still find the server dying
        with pytest.raises(DesktopDied, match=r"exit code -9") as caught:
            call(desktop)
        assert caught.value.hints


def test_a_server_killed_while_somebody_waits_for_it(desktop: Desktop) -> None:
    launch_probe(desktop, "--moving", -1)
    ready = desktop._link.ready
    assert ready is not None
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(desktop.wait_until_still, quiet=500, timeout=20_000)
        os.kill(ready["server_pid"], signal.SIGKILL)
        with pytest.raises(DesktopDied):
            waiting.result(10)


def test_the_environment_of_the_runner_is_not_touched() -> None:
    before = dict(os.environ)
    with Desktop.start() as desktop:
        launch_probe(desktop)
        desktop.capture()
        assert dict(os.environ) == before
    assert dict(os.environ) == before


def test_two_desktops_do_not_meet(desktop: Desktop) -> None:
    with Desktop.start(name="2") as other:
        launch_probe(desktop, "--title", "one")
        launch_probe(other, "--title", "two")
        desktop.file("one.txt").write("1")
        assert [w.title for w in desktop.windows()] == ["one"]
        assert [w.title for w in other.windows()] == ["two"]
        assert not other.file("one.txt").exists()
        assert not any("--title" in argv and "two" in argv for _, argv in desktop.processes())
        # not even by its display's name
        intruder = desktop.launch("mousepad", env={"DISPLAY": other.display}, wait=False)
        assert intruder.wait() != 0
        assert [w.title for w in other.windows()] == ["two"]


def test_several_start_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        desktops = list(pool.map(lambda n: Desktop.start(name=str(n)), range(4)))
    try:
        assert len({desktop.display for desktop in desktops}) == 4
        for desktop in desktops:
            desktop.check_alive()
    finally:
        for desktop in desktops:
            desktop.close()


def test_several_processes_start_theirs_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        runners = list(pool.map(start_runner, ["auto"] * 4))
    assert len({display for _, _, display, _ in runners}) == 4
    for runner, _, _, _ in runners:
        end_runner(runner)
        assert runner.returncode == 0  # and what was not closed is closed at the end of the interpreter
    for _, _, display, root in runners:
        eventually(lambda display=display, root=root: not leftovers(display, root))


def test_a_forked_child_does_not_end_the_desktop(desktop: Desktop) -> None:
    script = "import os, sys; sys.exit(0)"
    pid = os.fork()
    if pid == 0:
        try:
            desktop.close()
        finally:
            os.execv(sys.executable, [sys.executable, "-c", script])
    os.waitpid(pid, 0)
    desktop.check_alive()


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (DesktopConfig(shell="kde"), "shell='kde'"),
        (DesktopConfig(size=(0, 0)), "size"),
        (DesktopConfig(isolation="docker"), "isolation='docker'"),
        (DesktopConfig(home=Path("/nowhere")), "home"),
        (DesktopConfig(expose=(Path("/nowhere"),)), "expose"),
        (DesktopConfig(expose=(Path("/tmp"),)), "expose"),
    ],
)
def test_settings_that_cannot_be_meant(config: DesktopConfig, complaint: str) -> None:
    with pytest.raises(BadArgument, match=complaint):
        Desktop.start(config)


@pytest.mark.parametrize(
    ("missing", "hint"),
    [("Xvfb", "apt-get install xvfb"), ("tint2", "apt-get install tint2"), ("openbox", "apt-get install openbox")],
)
def test_a_missing_program_names_its_package(
    missing: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a PATH on which everything is but the one program
    for directory in os.environ["PATH"].split(":")[::-1]:
        for file in Path(directory).glob("*"):
            link = tmp_path / file.name
            if file.name != missing:
                link.unlink(missing_ok=True)
                link.symlink_to(file)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pytest_cua.desktop.isolation._SYSTEM_PATH", str(tmp_path))
    made: list[Path] = []
    make = trees.make

    def noting() -> tuple[Path, int]:
        root, lock = make()
        made.append(root)
        return root, lock

    monkeypatch.setattr(trees, "make", noting)
    with pytest.raises(MissingProgram, match=missing) as caught:
        Desktop.start(DesktopConfig(expose=(tmp_path,)))
    assert hint in caught.value.hints
    assert [root.exists() for root in made] == [False]


def test_a_panel_that_does_not_show_itself_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = tmp_path / "tint2"
    panel.write_text('#!/bin/sh\n[ -e ~/.again ] && exec /usr/bin/tint2 "$@"\ntouch ~/.again\nsleep 1000\n')
    panel.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Desktop.start(DesktopConfig(expose=(tmp_path,))) as desktop:
        assert desktop.file(".again").exists()
        assert desktop._windows.docks()
        assert desktop.processes() == []


def test_a_panel_that_ended_is_started_again(desktop: Desktop) -> None:
    old = desktop._link._shell["tint2"]
    desktop._link.restart_panel()
    eventually(lambda: desktop._link.ended_shell() is None and desktop._link._shell["tint2"] != old)
    eventually(desktop._windows.docks)


def test_a_missing_server_offers_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingProgram) as caught:
        Desktop.start(DesktopConfig(isolation="process-group"))
    assert "or replay without a desktop: pytest --cua-mode=offline" in caught.value.hints


def test_a_panel_that_never_shows_is_tried_again_on_another_display(monkeypatch: pytest.MonkeyPatch) -> None:
    # the panel that stays away cannot be made to; so the first desktop is told that it does
    from pytest_cua.desktop import desktop as module

    real = Desktop._shell_lacks
    first: list[Desktop] = []

    def lacks(self: Desktop) -> str:
        first.append(self)
        return "tint2" if self is first[0] else real(self)

    monkeypatch.setattr(Desktop, "_shell_lacks", lacks)
    monkeypatch.setattr(module, "_FIRST_TRY", 1_500.0)
    with Desktop.start() as running:
        assert running is not first[0]
        assert running.display != first[0].display
    eventually(lambda: not leftovers(first[0].display, first[0].home.parent))
