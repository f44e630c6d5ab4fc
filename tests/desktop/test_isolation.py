"""What programs on the desktop see of the machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from desktop_support import eventually, launch_probe

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.desktop.program import Program
from pytest_cua.errors import BadArgument


def shell(desktop: Desktop, script: str) -> str:
    """What a shell script on the desktop prints."""
    program = desktop.launch("/bin/sh", "-c", script, wait=False)
    program.wait()
    return program.output().strip()


@pytest.fixture(scope="module")
def secret_machine() -> Iterator[Desktop]:
    """A desktop whose runner has a key in its environment and files in its home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        with Desktop.start() as desktop:
            assert desktop.isolation == "bubblewrap"
            yield desktop


def test_no_key_leaks_into_programs(secret_machine: Desktop) -> None:
    assert "sk-ant" not in shell(secret_machine, "env; cat /proc/*/environ | tr '\\0' '\\n'")


def test_the_home_of_the_user_is_hidden(secret_machine: Desktop) -> None:
    assert shell(secret_machine, "ls -A /root/.ssh /root/.bashrc 2>/dev/null") == ""
    assert "cua" in shell(secret_machine, "ls /home")
    # of /tmp there is the X socket, and where the interpreter lives, if it lives there
    seen = shell(secret_machine, "ls -A /tmp").split()
    assert secret_machine.home.parent.name not in seen


def test_it_is_the_same_place_on_every_machine(secret_machine: Desktop) -> None:
    said = shell(secret_machine, "id -un; id -u; hostname; echo $HOME; pwd; echo $TZ $LANG; stat -c %a /run/user/1000")
    assert said.splitlines() == ["cua", "1000", "cua", "/home/cua", "/home/cua", "UTC C.UTF-8", "700"]


def test_nothing_outside_home_can_be_written(secret_machine: Desktop) -> None:
    assert "Read-only" in shell(secret_machine, "touch /etc/x /usr/x")
    assert shell(secret_machine, "echo ok >/home/cua/x && cat /home/cua/x") == "ok"
    assert secret_machine.file("x").read_text() == "ok\n"


def test_other_processes_are_not_seen(secret_machine: Desktop) -> None:
    seen = [int(pid) for pid in shell(secret_machine, "ls /proc | grep '^[0-9]'").split()]
    assert 1 in seen
    assert len(seen) < 15
    assert "spawner" in shell(secret_machine, "tr '\\0' ' ' </proc/1/cmdline")


def test_what_is_exposed_is_seen_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "shown.txt").write_text("shown")
    with Desktop.start(DesktopConfig(expose=(tmp_path,))) as desktop:
        assert shell(desktop, f"cat {tmp_path}/shown.txt") == "shown"
        assert "Read-only" in shell(desktop, f"touch {tmp_path}/new")
        assert desktop.file(str(tmp_path / "shown.txt")).read_text() == "shown"


def test_home_starts_with_a_copy(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a")
    with Desktop.start(DesktopConfig(home=tmp_path)) as desktop:
        desktop.file("sub/a.txt").write("b")
        said = shell(desktop, "cat sub/a.txt; ls -l --time-style=+%F sub/a.txt")
        assert said.startswith("b")
        assert "2024-01-01" in said
    assert (tmp_path / "sub" / "a.txt").read_text() == "a"


def test_without_network_only_the_loopback_is_there() -> None:
    with Desktop.start(DesktopConfig(isolation="no-network")) as desktop:
        assert desktop.isolation == "bubblewrap, no network"
        listing = shell(desktop, "cat /proc/net/dev | tail -n +3 | cut -d: -f1")
        assert listing.split() == ["lo"]
        launch_probe(desktop)  # X still works
        with pytest.raises(Exception, match="no-network"):
            desktop.browser()


def test_as_a_process_group_everything_works_and_the_reason_is_told() -> None:
    with Desktop.start(DesktopConfig(isolation="process-group")) as desktop:
        assert desktop.isolation == "process group (as asked)"
        assert shell(desktop, "echo $HOME; env | grep -c ANTHROPIC").split() == [str(desktop.home), "0"]
        program = launch_probe(desktop)
        assert program.window is not None
        desktop.file("a.txt").write("a")
        assert shell(desktop, f"cat {desktop.home}/a.txt") == "a"
        assert [argv[1].endswith("probe.py") for _, argv in desktop.processes()] == [True]


def test_where_bubblewrap_is_refused_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_cua.desktop import isolation

    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    isolation.why_not_bubblewrap.cache_clear()
    try:
        chosen = isolation.choose("auto")
        assert str(chosen) == "process group (bwrap was refused (bwrap: setting up uid map: Permission denied))"
        with pytest.raises(Exception, match="Permission denied"):
            isolation.choose("bubblewrap")
    finally:
        isolation.why_not_bubblewrap.cache_clear()


def test_every_program_is_reaped_and_its_end_is_known(secret_machine: Desktop) -> None:
    program = secret_machine.launch("/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 3", wait=False)
    assert program.wait() == 3
    assert not program.running()
    assert program.returncode == 3
    eventually(lambda: len(secret_machine.processes()) == 2)
    program.kill()  # also what it left behind
    eventually(lambda: secret_machine.processes() == [])
    assert "Z" not in shell(secret_machine, "cat /proc/[0-9]*/stat | cut -d' ' -f3 | sort -u | tr -d '\\n'")


def test_kill_reaches_what_is_just_being_started(secret_machine: Desktop) -> None:
    """In the middle of an exec a process shows no environment: it is not a stranger for that."""
    for _ in range(15):
        program = secret_machine.launch(
            "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do setsid sleep 1000 & done", wait=False
        )
        program.wait()
        program.kill()
    eventually(lambda: secret_machine.processes() == [])


def test_signals_reach_programs(secret_machine: Desktop) -> None:
    program: Program = secret_machine.launch("/bin/sleep", 1000, wait=False)
    assert program.running()
    program.terminate()
    assert program.wait() == -15
    assert json.dumps(program.argv) == '["/bin/sleep", "1000"]'


def test_env_of_a_launch_is_added(secret_machine: Desktop) -> None:
    program = secret_machine.launch("/bin/sh", "-c", "echo $A; pwd", env={"A": "b"}, cwd="/usr", wait=False)
    program.wait()
    assert program.output() == "b\n/usr\n"
    with pytest.raises(BadArgument):
        secret_machine.launch("/bin/true", env={"A": 1}, wait=False)  # type: ignore[dict-item]
    with pytest.raises(BadArgument, match="cwd"):
        secret_machine.launch("/bin/true", cwd="nowhere", wait=False)
