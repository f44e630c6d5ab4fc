"""Bash on a desktop: one shell that goes on from command to command, whatever a command does to it."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from desktop_support import eventually

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument, DesktopDied
from pytest_cua.tools.bash import Bash, BashHandle, render

#: Milliseconds beyond its deadline that a command may take at most.
GRACE = 2_000
#: Twenty processes, each in a session of its own.
FORKING = """python3 -c 'import os, time
n = 0
while os.fork() and n < 20: n += 1
os.setsid()
time.sleep(1000)'"""


@pytest.fixture(scope="module")
def desktop() -> Iterator[Desktop]:
    with Desktop.start(DesktopConfig(size=(400, 300))) as running:
        yield running


@pytest.fixture
def bash(desktop: Desktop) -> Iterator[Bash]:
    with Bash(desktop, timeout=20_000) as running:
        yield running
    assert desktop.processes() == []  # whatever a test has done: closing leaves nothing


def names(desktop: Desktop) -> list[str]:
    return [" ".join(argv) for _, argv in desktop.processes()]


# ---------------------------------------------------------------------- what a command gives


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi", "hi\n", 0),
        ("", "", 0),
        ("# only a comment", "", 0),
        ("echo hi # comment", "hi\n", 0),
        ("echo 1\necho 2\n\necho 3\n", "1\n2\n3\n", 0),
        ("cat <<E\none\ntwo\nE", "one\ntwo\n", 0),  # the last line, without an end of line
        ("cat <<E\none\nE\n", "one\n", 0),
        ("echo out; echo err >&2; echo again", "out\nerr\nagain\n", 0),
        ("false", "", 1),
        ("(exit 7)", "", 7),
        ("return 5", "", 5),
        ("cat", "", 0),  # reads a standard input that is empty
        ("read x; echo $?", "1\n", 0),
        ("printf 'no end of line'", "no end of line", 0),
        ("echo äöü€“日本語; echo $((1+1))", "äöü€“日本語\n2\n", 0),
        ("printf '\\xff\\xfe ok'", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} ok", 0),
        ("printf 'a\\0b'", "a\0b", 0),
        ("set -o pipefail; true | false | true", "", 1),
        ("echo '<<exit>>'; echo 0; printf '\\n0\\n'; echo after", "<<exit>>\n0\n\n0\nafter\n", 0),
        ("pwd", "/home/cua\n", 0),
        ("echo $0 $#", "bash 0\n", 0),
        ("set -x; echo hi; set +x", "++ echo hi\nhi\n++ set +x\n", 0),
        ("nosuchprogram", "bash: line 1: nosuchprogram: command not found\n", 127),
    ],
)
def test_output_and_exit_status(bash: Bash, command: str, output: str, code: int) -> None:
    result = bash.run(command)
    assert (result.output, result.exit_code) == (output, code)
    assert not (result.timed_out or result.shell_ended or result.truncated_bytes)
    assert bash.run("echo next").output == "next\n"


@pytest.mark.parametrize("command", ["echo 'unfinished", 'echo "unfinished', "if true; then", "for", "echo )", "$("])
def test_a_syntax_error_is_told_and_the_shell_goes_on(bash: Bash, command: str) -> None:
    bash.run("x=kept")
    result = bash.run(command)
    assert result.exit_code
    assert "line" in result.output
    assert bash.run("echo $x").output == "kept\n"


def test_a_prompt_finds_no_input(bash: Bash) -> None:
    result = bash.run("python3 -c 'input()'")
    assert result.exit_code == 1
    assert "EOFError" in result.output
    assert result.duration_ms < 10_000


def test_variables_directory_functions_aliases_and_options_stay(bash: Bash) -> None:
    bash.run("x='a  b'; export Y=1; mkdir -p /tmp/d; cd /tmp/d")
    bash.run("f() { echo \"f:$1\"; }\nalias g='echo alias'\nset -u; umask 077; set -- p q")
    result = bash.run('echo "$x"; pwd; f 1; g 2; env | grep ^Y=; umask; echo $2; echo $nothing')
    assert result.output.splitlines()[:7] == ["a  b", "/tmp/d", "f:1", "alias 2", "Y=1", "0077", "q"]
    assert "nothing: unbound variable" in result.output


def test_the_environment_is_that_of_the_desktop(bash: Bash, desktop: Desktop) -> None:
    lines = bash.run("echo $DISPLAY; echo $HOME; id -un; echo $TERM$PYTEST_CURRENT_TEST").output.splitlines()
    assert lines == [desktop.display, "/home/cua", "cua", "xterm-256color"]


def test_what_it_writes_is_a_file_of_the_desktop_and_nothing_else_is(bash: Bash, desktop: Desktop) -> None:
    bash.run("echo text >note.txt")
    assert desktop.file("note.txt").read_text() == "text\n"
    assert [path.name for path in desktop.home.iterdir() if not path.name.startswith(".")] == ["note.txt"]
    bash.run("rm note.txt")


def test_a_program_with_a_window_stays(bash: Bash, desktop: Desktop) -> None:
    assert bash.run("xterm -T here >/dev/null 2>&1 &").exit_code == 0
    eventually(lambda: [window.title for window in desktop.windows()] == ["here"])


def test_a_file_that_would_break_a_shell_at_its_start_is_ignored(desktop: Desktop) -> None:
    for name in (".bashrc", ".bash_profile", ".profile"):
        desktop.file(name).write("set -o noclobber\nexit 9\n")
    with Bash(desktop) as bash:
        assert bash.run("echo fine; echo $SHELLOPTS | grep -c noclobber").output == "fine\n0\n"
    for name in (".bashrc", ".bash_profile", ".profile"):
        desktop.file(name).unlink()


def test_options_that_would_break_the_harness(bash: Bash) -> None:
    for options in ("set -o noclobber", "set -f", "set -u", "IFS=0123456789", "set -a", "set -o posix", "trap '' INT"):
        assert bash.run(options).exit_code == 0
        assert bash.run("echo still; (exit 10)").exit_code == 10


# ---------------------------------------------------------------------- programs in the background


@pytest.mark.parametrize("command", ["sleep 1000 &", "sleep 1000 & echo started", "(while :; do sleep 1; done) &"])
def test_a_program_in_the_background_holds_nobody_up(bash: Bash, desktop: Desktop, command: str) -> None:
    result = bash.run(command)
    assert (result.exit_code, result.timed_out) == (0, False)
    assert result.duration_ms < 5_000
    assert desktop.processes()
    # and when the shell itself ends then, that is seen at once, although the program still has its output
    ended = bash.run("set -e; false")
    assert (ended.exit_code, ended.shell_ended) == (1, True)
    assert ended.duration_ms < 5_000


def test_what_the_background_writes_later_disturbs_nobody_and_does_not_end_it(bash: Bash, desktop: Desktop) -> None:
    bash.run("(while [ ! -e /tmp/go ]; do sleep 0.01; done; seq 100000 && touch /tmp/done; exec sleep 1000) &")
    result = bash.run("touch /tmp/go; while [ ! -e /tmp/done ]; do sleep 0.01; done; echo mine")
    assert result.output == "mine\n"
    eventually(lambda: "sleep 1000" in names(desktop))
    bash.run("rm /tmp/go /tmp/done")


def test_a_flood_from_the_background_ends_no_command_late(bash: Bash) -> None:
    assert bash.run("yes &").duration_ms < 5_000
    assert bash.run("echo on").output == "on\n"


# ---------------------------------------------------------------------- much


def test_a_command_of_a_megabyte(bash: Bash) -> None:
    text = "äb" * 350_000
    assert bash.run(f"x='{text}'; echo ${{#x}}").output == "700000\n"


def test_much_output_keeps_its_beginning_and_end(desktop: Desktop) -> None:
    with Bash(desktop, max_output=1_000) as bash:
        result = bash.run("seq 100000")
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    assert result.truncated_bytes == len(whole) - 1_000
    head, notice, tail = result.output.partition("\n[... 587,895 bytes of output were left out here ...]\n")
    assert notice
    assert (head, tail) == (whole[:500], whole[-500:])


def test_output_that_just_fits_is_whole(desktop: Desktop) -> None:
    with Bash(desktop, max_output=1_000) as bash:
        fits = bash.run("printf '%01000d' 7")
        exceeds = bash.run("printf '%01001d' 7")
    assert (fits.output, fits.truncated_bytes) == ("7".rjust(1000, "0"), 0)
    assert exceeds.truncated_bytes == 1


def test_a_character_is_not_cut(desktop: Desktop) -> None:
    with Bash(desktop, max_output=1_001) as bash:  # neither half is a multiple of three bytes
        result = bash.run("printf '€%.0s' {1..1000}")
    assert "\N{REPLACEMENT CHARACTER}" not in result.output
    assert result.truncated_bytes == 3_000 - 3 * result.output.count("€")


def test_200_megabytes_of_output_need_neither_memory_nor_disk(bash: Bash, desktop: Desktop) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    disk = bash.run("df --output=used / /tmp /run/user/1000 | tail -n +2")
    result = bash.run("head -c 200000000 /dev/zero | tr '\\0' x; grep VmHWM /proc/1/status")
    assert result.exit_code == 0
    assert result.truncated_bytes > 199_000_000
    assert result.output.startswith("xxxx")
    peak = int(result.output.rpartition("VmHWM:")[2].split()[0])  # of the process that reads it, in KiB
    assert peak < 60_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000
    after = bash.run("df --output=used / /tmp /run/user/1000 | tail -n +2")
    grown = [int(new) - int(old) for old, new in zip(disk.output.split(), after.output.split(), strict=True)]
    assert grown[1:] == [0, 0]  # the first is shared with the whole machine
    assert sum(path.stat().st_size for path in desktop.root.rglob("*") if path.is_file()) < 5_000_000


# ---------------------------------------------------------------------- what would break a shell


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("exit 3", 3, ""),
        ("echo before; exit", 0, "before\n"),
        ("set -e; false; echo never", 1, ""),
        ("kill -9 $$; sleep 10", -signal.SIGKILL, ""),
        ("exec echo replaced", 0, "replaced\n"),
        ("trap 'echo bye' EXIT; exit 4", 4, "bye\n"),
        ("echo ${nothing?}; echo never", 1, None),
    ],
)
def test_a_command_that_ends_the_shell(bash: Bash, command: str, code: int, output: str | None) -> None:
    bash.run("x=1; cd /tmp")
    result = bash.run(command)
    assert (result.exit_code, result.shell_ended, result.timed_out) == (code, True, False)
    assert result.duration_ms < 5_000
    if output is not None:
        assert result.output == output
    assert bash.run("echo ${x-lost}; pwd").output == "lost\n/home/cua\n"


@pytest.mark.parametrize(
    "command",
    [
        "exec 1>/dev/null; echo unseen",
        "exec >/dev/null 2>&1; echo unseen",
        "exec 0<&-",
        "exec 0<&- 1>&- 2>&-",
        'for fd in {3..254}; do eval "exec $fd>&-"; done',
        "trap 'echo bye' EXIT",
        "unset IFS PATH; PATH=/nowhere",
        "mkdir -p gone && cd gone && rmdir ../gone",
        "alias builtin=false printf=false read=false while=false; :",
        "printf() { false; }; read() { false; }; trap() { false; }",
        "kill -INT $$; kill -TERM $BASHPID & wait",
        "set -m; sleep 1000 & bg 2>/dev/null; set +m",
        "ulimit -n 20",
        "stty -echo; tput reset >/dev/null",
    ],
)
def test_what_a_command_may_do_to_the_shell(bash: Bash, command: str) -> None:
    result = bash.run(command)
    assert not result.timed_out
    after = bash.run("echo fine; (exit 5)")
    assert (after.output, after.exit_code, after.timed_out) == ("fine\n", 5, False)


def test_the_shells_own_directory_is_removed_by_a_command(bash: Bash) -> None:
    result = bash.run("rm -rf $XDG_RUNTIME_DIR/bash-*; echo done; (exit 6)")
    assert (result.output, result.exit_code, result.shell_ended) == ("done\n", 6, True)
    assert bash.run("echo on").output == "on\n"


def test_the_shells_own_directory_is_removed_between_two_commands(bash: Bash, desktop: Desktop) -> None:
    bash.run("x=1")
    desktop.launch("/bin/sh", "-c", "rm -rf $XDG_RUNTIME_DIR/bash-*", wait=False).wait()
    result = bash.run("echo ${x-lost}")
    assert (result.output, result.in_new_shell) == ("lost\n", True)
    assert "ran in a new one" in render(result).text


def test_a_shell_that_was_killed_between_two_commands_is_told(bash: Bash) -> None:
    assert bash.run("x=1; rm -f ~/now; (until [ -e ~/now ]; do sleep 0.01; done; kill -9 $$) &").exit_code == 0
    (bash.desktop.home / "now").touch()
    shell = bash._shell
    assert shell is not None
    eventually(lambda: not shell._is_there())
    result = bash.run("echo ${x-lost}")
    assert (result.output, result.in_new_shell) == ("lost\n", True)
    assert not bash.run("true").in_new_shell


# ---------------------------------------------------------------------- deadlines


@pytest.mark.parametrize(
    "command",
    [
        "echo part; sleep 1000; echo never",
        "echo part; setsid sleep 1000; echo never",
        "echo part; setsid -f sleep 1000; sleep 1000; echo never",
        "echo part; (trap '' TERM INT HUP; sleep 1000); echo never",
        "echo part; sleep 1000 | cat; echo never",
        "echo part; x=$(sleep 1000); echo never",
        "echo part; sleep 1000 & wait; echo never",
        "echo part; while :; do sleep 0.01; done; echo never",
        "echo part; while :; do :; done; echo never",
        "f() { g; echo never; }; g() { sleep 1000; echo never; }; echo part; f; echo never",
        "echo part; mkfifo -m 600 /tmp/pipe$RANDOM$RANDOM; read x </tmp/pipe*; echo never",
        f"echo part; {FORKING}; echo never",
    ],
)
def test_at_the_deadline_the_command_ends_and_the_shell_goes_on(bash: Bash, desktop: Desktop, command: str) -> None:
    bash.run("x=kept; cd /tmp; sleep 2000 &")
    result = bash.run(command, timeout=700)
    assert (result.timed_out, result.shell_ended, result.exit_code) == (True, False, None)
    assert result.output.startswith("part\n")
    assert "never" not in result.output
    assert result.duration_ms < 700 + GRACE
    assert render(result).text.endswith("[The command did not end within 0.7 s and was ended; the shell goes on.]")
    # bash may tell first that a program in the background was ended
    assert bash.run("echo $x; pwd").output.endswith("kept\n/tmp\n")
    assert names(desktop) == ["sleep 2000"]  # of an earlier command; and nothing of this one


@pytest.mark.parametrize(
    "command", ["trap '' RTMAX; echo part; while :; do :; done", "echo part; kill -STOP $$; echo never"]
)
def test_a_shell_that_does_not_come_back_is_ended_with_everything(bash: Bash, desktop: Desktop, command: str) -> None:
    bash.run("x=1; sleep 2000 &")
    result = bash.run(command, timeout=500)
    assert (result.timed_out, result.shell_ended, result.exit_code) == (True, True, None)
    assert result.output == "part\n"
    assert result.duration_ms < 500 + GRACE
    assert desktop.processes() == []
    text = render(result).text
    assert "did not end within 0.5 s" in text
    assert "the shell was restarted: variables and the working directory are lost" in text
    assert bash.run("echo ${x-lost}").output == "lost\n"


def test_what_an_earlier_program_has_started_since_is_not_ended(bash: Bash, desktop: Desktop) -> None:
    bash.run("(until [ -e /tmp/go ]; do sleep 0.01; done; rm /tmp/go; sleep 3000 & wait) &")
    result = bash.run("touch /tmp/go; while [ -e /tmp/go ]; do sleep 0.01; done; sleep 1000", timeout=1_000)
    assert result.timed_out
    assert "sleep 3000" in names(desktop)
    assert "sleep 1000" not in names(desktop)


def test_a_deadline_needs_no_rest_of_the_time(bash: Bash) -> None:
    begin = time.monotonic()
    assert not bash.run("true", timeout=100_000).timed_out
    assert time.monotonic() - begin < 5


# ---------------------------------------------------------------------- restart, close, threads


def test_a_restart_ends_the_shell_and_what_it_has_started(bash: Bash, desktop: Desktop) -> None:
    bash.run("x=1; sleep 1000 & setsid -f sleep 1001")
    bash.restart()
    assert desktop.processes() == []
    result = bash.run("echo ${x-lost}")
    assert (result.output, result.in_new_shell) == ("lost\n", False)


def test_closing_ends_what_a_shell_that_ended_has_left(desktop: Desktop) -> None:
    bash = Bash(desktop)
    bash.close()  # never used
    bash.run("sleep 1000 & exit 0")
    eventually(lambda: names(desktop) == ["sleep 1000"])
    bash.close()
    assert desktop.processes() == []


def test_two_shells_do_not_meet(bash: Bash, desktop: Desktop) -> None:
    bash.run("x=1; sleep 1000 &")
    with Bash(desktop) as other:
        assert other.run("echo ${x-none}").output == "none\n"
        assert other.run("sleep 2000", timeout=300).timed_out
    assert names(desktop) == ["sleep 1000"]
    assert bash.run("echo $x").output == "1\n"


def test_threads_take_turns(bash: Bash) -> None:
    script = "cat /tmp/busy 2>/dev/null; echo busy >/tmp/busy; for i in {1..2000}; do :; done; rm /tmp/busy; echo "
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: bash.run(f"{script}{n}"), range(20)))
    assert [result.output for result in results] == [f"{n}\n" for n in range(20)]


def test_an_interrupted_wait_leaves_a_shell_that_goes_on(bash: Bash, monkeypatch: pytest.MonkeyPatch) -> None:
    bash.run("x=kept")
    shell = bash._shell
    assert shell is not None

    def interrupted(number: int, timeout: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shell, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bash.run("sleep 1000; echo never")
    monkeypatch.undo()
    assert bash.run("echo $x").output.endswith("kept\n")
    assert not bash.run("true").in_new_shell


def test_a_command_that_an_interrupt_has_left_alone_can_be_waited_for(bash: Bash) -> None:
    assert bash.resume() is None
    assert bash.handle
    assert bash.resume() is None  # a shell without a command
    shell = bash._shell
    assert shell is not None
    shell.begin("echo begun; sleep 0.2; (exit 4)", 1_000)
    result = bash.resume()
    assert result is not None
    assert (result.output, result.exit_code) == ("begun\n", 4)
    assert bash.resume(timeout=1) == replace(result, duration_ms=ANY, timeout=1)
    bash.run("exit")
    assert bash.resume() is None


def test_a_deadline_before_the_shell_has_begun(bash: Bash) -> None:
    result = bash.run("sleep 1000", timeout=0.1)
    assert result.timed_out
    assert result.duration_ms < GRACE
    assert bash.run("echo on").output.endswith("on\n")


def test_the_end_of_the_desktop_is_told_at_once() -> None:
    with Desktop.start(DesktopConfig(size=(400, 300))) as desktop:
        bash = Bash(desktop)
        bash.run("true")

        def kill() -> None:
            eventually(desktop.processes)
            os.kill(desktop._link.holder_pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(DesktopDied):
            bash.run("sleep 1000", timeout=60_000)
        killer.join()
        bash.close()  # nothing is left to end


@pytest.mark.parametrize("isolation", ["process-group", "no-network"])
def test_it_is_the_same_in_every_isolation(isolation: str) -> None:
    with Desktop.start(DesktopConfig(size=(400, 300), isolation=isolation)) as desktop, Bash(desktop) as bash:
        assert bash.run("x=1; sleep 1000 & nosuch").output == "bash: line 1: nosuch: command not found\n"
        assert bash.run("setsid -f sleep 1001; sleep 1002", timeout=400).timed_out
        assert bash.run("echo $x; pwd").output == f"1\n{desktop.home_inside}\n"
        assert names(desktop) == ["sleep 1000"]
        assert bash.run("rm -rf $XDG_RUNTIME_DIR $HOME; exit 3").exit_code == 3
        assert bash.run("echo on").output == "on\n"


# ---------------------------------------------------------------------- Claude's calls


@pytest.mark.parametrize(
    ("input", "text", "is_error"),
    [
        ({"command": "echo hi"}, "hi", False),
        ({"command": "true"}, "(no output)", False),
        ({"command": ""}, "(no output)", False),
        ({"command": "echo out; echo err >&2"}, "out\nerr", False),
        ({"command": "echo out; (exit 3)"}, "out\n[Exit status 3]", True),
        (
            {"command": "exit 0"},
            "[The shell ended with the command (exit status 0); the shell was restarted: variables and the working "
            "directory are lost.]",
            False,
        ),
        ({"command": "printf 'a\\0b'"}, "a\N{REPLACEMENT CHARACTER}b", False),
        ({}, "Neither a command nor restart: true was given.", True),
        ({"restart": False}, "Neither a command nor restart: true was given.", True),
        ({"command": 3}, "The command is text, not int.", True),
        ({"command": ["ls"]}, "The command is text, not list.", True),
        ({"restart": "yes"}, "restart is true or false, not 'yes'.", True),
        ({"cmd": "ls"}, "There is no parameter cmd: write a command, or restart: true.", True),
        ({"command": "a\0b"}, "The command holds a NUL character, which bash cannot read.", True),
        ({"command": "\ud800"}, "The command holds half a character, '\\ud800'.", True),
        ({"command": None, "restart": True}, None, False),
    ],
)
def test_a_call(bash: Bash, input: dict[str, object], text: str | None, is_error: bool) -> None:
    answer = bash.call(input)
    assert answer.is_error is is_error
    if text is not None:
        assert answer.text == text


def test_a_call_that_restarts(bash: Bash) -> None:
    bash.call({"command": "x=1; sleep 1000 &"})
    answer = bash.call({"restart": True})
    assert answer.text.startswith("The shell was restarted: variables and the working directory are lost")
    assert not answer.is_error
    assert bash.call({"command": "echo ${x-lost}"}).text == "lost"
    assert bash.call({"restart": True, "command": "echo too"}).text.endswith("\ntoo")


def test_an_installation_that_fails_names_the_list_of_packages(bash: Bash) -> None:
    for command in ("apt-get install -y cowsay", "sudo apt install cowsay", "apt-get update || true"):
        assert "sandbox/packages.txt" in bash.call({"command": command}).text, command
    for command in ("echo apt-get install cowsay", "false"):
        assert "packages.txt" not in bash.call({"command": command}).text, command


@pytest.mark.parametrize("timeout", [0, -1, "5", True])
def test_times_that_cannot_be_meant(bash: Bash, desktop: Desktop, timeout: float) -> None:
    with pytest.raises(BadArgument, match="timeout"):
        bash.run("true", timeout=timeout)
    with pytest.raises(BadArgument, match="timeout"):
        Bash(desktop, timeout=timeout)


def test_a_handle_is_a_line_of_json(bash: Bash, desktop: Desktop) -> None:
    handle = bash.handle
    assert BashHandle.from_json(handle.to_json()) == handle
    assert Path(handle.desktop) == desktop.root
    assert bash.run("echo $$").output == f"{handle.pid}\n"
    for text in ("", "{}", "[1]", '{"desktop": 1, "pid": 1, "started": 1}'):
        with pytest.raises(BadArgument, match="handle"):
            BashHandle.from_json(text)
