"""Whatever is missing, broken or refused: one paragraph, the next command, nothing from inside, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

LOOK = """
cua.do("Look at the screen")
cua.desktop.file("a.txt").write("1")
expect(cua.desktop.file("a.txt")).to_have_text("1")
"""


def said(result: Any, error: str) -> str:
    """The message of a failed test, seen to be the only one, with a next step and no line from inside."""
    output: str = result.stdout.str() + result.stderr.str() if hasattr(result, "stdout") else result
    assert re.search(r"\b1 (failed|error)\b", output), output
    messages = re.findall(r"^E +(pytest_cua\.\w+: .*(?:\n(?:E  )? +.*|\nE$)*)", output, re.M)
    assert len(messages) == 1, output
    assert messages[0].startswith(f"pytest_cua.{error}: "), output
    for inside in ("pytest_cua/", "site-packages", "anthropic/", "Traceback", "During handling", "direct cause"):
        assert inside not in re.sub(r"(?m)^(E .*|    hint: .*)$", "", output), inside
    assert re.search(rf"^(FAILED|ERROR) test_it.py::test_it - pytest_cua\.{error}: ", output, re.M)
    assert messages[0].count("hint: ") == len(set(re.findall("hint: (.*)", messages[0])))
    return "\n".join(re.sub(r"^E? +", "", line) for line in messages[0].splitlines())


@pytest.fixture
def recorded(project: Any) -> Path:
    """The folder of a good recording of LOOK."""
    project.steps(LOOK)
    project.record().assert_outcomes(passed=1)
    folder: Path = project.folder("test_it", "test_it")
    return folder


# ------------------------------------------------------------------ the test


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ('cua.do("")', "BadArgument", "cua.do() needs a sentence"),
        ('cua.do(" \\n")', "BadArgument", "cua.do() needs a sentence"),
        ("cua.do(None)", "BadArgument", "cua.do() needs a sentence"),
        ('cua.judge("")', "BadArgument", "cua.judge() needs a statement"),
        ('cua.do("Type it", params={"total": 1})', "BadArgument", "has no placeholder {total} for params['total']"),
        ('cua.do("Type {a b}", params={"a b": 1})', "BadArgument", "'a b' is no name for a parameter"),
        ('cua.do("Look", max_turns=0)', "BadArgument", "cua.do(max_turns=0): it is at least 1"),
        ('cua.do("Look", timeout=-1)', "BadArgument", "cua.do(timeout=-1): it is at least 1"),
        ('cua.desktop.launch("no-such-program")', "MissingProgram", "'no-such-program'"),
    ],
)
def test_a_call_that_cannot_be_meant(project: Any, body: str, error: str, message: str) -> None:
    project.steps(body + "\nassert cua.desktop.windows()")
    result = project.record()
    text = said(result, error)
    assert message in text
    assert f">       {body}" in result.stdout.str().replace("\\n", "\\n")
    assert not [path for path in (project.path / "cassettes").rglob("*") if path.is_file()]


# ------------------------------------------------------------------ files


def test_a_missing_cassette_ends_with_the_command_that_records_it(project: Any) -> None:
    project.steps(LOOK)
    for mode in ("replay", "offline"):
        text = said(project.run(f"--cua-mode={mode}"), "CassetteMissing")
        assert "There is no cassette for test_it.py::test_it" in text
        assert text.splitlines()[-1] == "hint: record it: pytest --cua-record test_it.py::test_it"


def test_a_folder_that_cannot_be_written(project: Any) -> None:
    project.steps(LOOK)
    (project.path / "cassettes").write_text("a file")
    text = said(project.record(), "CassetteUnwritable")
    assert re.search(r"cannot be written: \S*cassettes\S*: (Not a directory|File exists)\.", text)
    assert "-o cua_cassette_dir=FOLDER" in text
    assert (project.path / "cassettes").read_text() == "a file"


def test_a_full_disk_is_told_and_leaves_no_half_recording(project: Any) -> None:
    project.steps(LOOK)
    (project.path / "cassettes").mkdir()
    mount = f"mount -t tmpfs -o size=12k none '{project.path}/cassettes'"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("no file system of our own can be mounted here")
    script = f'cd / && {mount} && cd "$OLDPWD" && {{ "$@"; echo "left:"; find cassettes -type f; }}'
    code, text = project.output("--cua-mode=record", prefix=("unshare", "-m", "sh", "-c", script, "sh"))
    assert code == 0, text  # of the listing
    report, _, left = text.partition("left:\n")
    assert "No space left on device" in said(report, "CassetteUnwritable")
    files = left.split()
    assert not [path for path in files if path.endswith("test_it/test_it/cassette.jsonl")]


def test_a_recording_that_cannot_take_its_place_is_an_error_and_is_not_lost(project: Any) -> None:
    body = LOOK + 'import os\nos.mkdir(cua.cassette / "cassette.jsonl")'
    project.steps(body)
    result = project.record()
    result.assert_outcomes(passed=1, errors=1)
    assert "Is a directory" in said(result, "CassetteUnwritable")
    assert "recorded /" not in result.stdout.str()
    folder = project.folder("test_it", "test_it")
    (folder / "cassette.jsonl").rmdir()
    project.steps(LOOK)
    project.record().assert_outcomes(passed=1)
    assert (folder / ".failed" / "cassette.jsonl").exists()


DAMAGED = {
    "truncated": (lambda raw: raw[: len(raw) // 2], "is no whole JSON object; the file was cut or edited"),
    "ended": (lambda raw: raw[: raw.rindex(b'{"type": "footer"')], "without a footer"),
    "edited": (
        lambda raw: raw.replace(b"Look at", b"Look to", 1),
        "does not carry the digest of its content; it was edited",
    ),
    "conflict": (
        lambda raw: b"<<<<<<< HEAD\n" + raw + b"=======\n" + raw + b">>>>>>> x\n",
        "line 1 is a merge conflict",
    ),
    "format": (
        lambda raw: raw.replace(b'"format": 1', b'"format": 7', 1),
        "it has format 7 and this version*reads format 1",
    ),
    "empty": (lambda raw: b"", "it is empty"),
    "noise": (lambda raw: os.urandom(1000).replace(b"\r", b""), "line 1 is no whole JSON object"),
}


def test_a_damaged_cassette_is_never_replayed(project: Any, recorded: Path) -> None:
    file = recorded / "cassette.jsonl"
    good = file.read_bytes()
    for name, (damage, message) in DAMAGED.items():
        file.write_bytes(damage(good))
        text = said(project.run("--cua-mode=offline"), "CassetteUnreadable")
        assert all(part in text for part in message.split("*")), (name, text)
        assert "hint: " in text
    for name in ("--cua-mode=replay", "--cua-record"):
        assert "line 1 is no whole JSON object" in said(project.run(name), "CassetteUnreadable")


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_a_picture_that_is_missing_or_another(project: Any, recorded: Path, mode: str) -> None:
    lines = [json.loads(line) for line in (recorded / "cassette.jsonl").read_text().splitlines()]
    key = next(line["screen"] for line in lines if line["type"] == "action")
    picture = project.path / "cassettes" / "screens" / key[:2] / f"{key}.webp"
    good = picture.read_bytes()
    from PIL import Image

    from pytest_cua import screens
    from pytest_cua.cli import main

    for raw, message in (
        (None, "cannot be read: No such file or directory"),
        (b"no picture", "is damaged"),
        (good[: len(good) // 2], "is damaged"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "is a pointer of Git LFS"),
        (screens.to_webp(Image.new("RGB", (1280, 800))), "is not the picture that was recorded"),
    ):
        picture.unlink() if raw is None else picture.write_bytes(raw)
        if mode == "offline" and message.startswith("is not the picture"):
            # nothing is judged on its pixels there; `verify` decodes it
            project.run("--cua-mode=offline").assert_outcomes(passed=1)
            assert main(["verify", "--cassettes", str(project.path / "cassettes")]) == 1
            continue
        text = said(project.run(f"--cua-mode={mode}"), "CassetteUnreadable")
        assert str(picture) in text
        assert message in text
        assert ("git lfs pull" if "LFS" in message else "hint: restore it from version control") in text


def test_another_size_than_recorded(project: Any, recorded: Path) -> None:
    text = said(project.run("-o", "cua_size=800x600", "--cua-mode=offline"), "CassetteMismatch")
    assert "recorded on a desktop of 1280x800 pixels; this one has 800x600" in text
    assert "set cua_size to 1280x800" in text


# ------------------------------------------------------------------ the machine


def test_no_xvfb(project: Any) -> None:
    project.steps(LOOK)
    project.write(conftest=(project.path / "conftest.py").read_text() + NO_SYSTEM_PATH)
    (project.path / "bin").mkdir()
    code, text = project.output(
        "--cua-mode=record", "-o", "cua_isolation=process-group", PATH=str(project.path / "bin")
    )
    assert code == pytest.ExitCode.TESTS_FAILED
    message = said(text, "MissingProgram")
    assert "Xvfb" in message
    assert "apt-get install xvfb" in message
    assert "pytest --cua-mode=offline" in message


# programs are looked for in the system's own directories too, which cannot be taken away here
NO_SYSTEM_PATH = """
import pytest_cua.desktop.isolation
pytest_cua.desktop.isolation._SYSTEM_PATH = "/nowhere"
"""


def test_a_display_that_dies_in_the_middle_of_a_step(project: Any) -> None:
    project.script(
        """
import os, signal
from pytest_cua.observe import current

def kill(request):
    yield use("screenshot")
    from pytest_cua.desktop.desktop import Desktop
    import gc
    desktop = next(d for d in gc.get_objects() if type(d) is Desktop and not d._link.is_closed)
    os.kill(desktop._link.ready["server_pid"], signal.SIGKILL)
    yield use("key", text="a")
    yield finish("Never asked.")

SCRIPT = {"": kill}
"""
    )
    project.steps(LOOK)
    result = project.record()
    result.assert_outcomes(failed=1)
    text = said(result, "DesktopDied")
    assert "The desktop ended while the test still needed it: its X server ended with exit code -9" in text
    assert "run the test again" in text
    assert (project.folder("test_it", "test_it") / ".failed/cassette.jsonl").exists()


# ------------------------------------------------------------------ the model


def test_a_key_that_is_refused(project: Any) -> None:
    project.script('VALID_KEY = "another"\n')
    project.steps(LOOK)
    text = said(project.record(), "ModelRefused")
    assert "The API refused the key (401)" in text
    assert "check ANTHROPIC_API_KEY" in text
    assert not (project.path / "cassettes/test_it/test_it/cassette.jsonl").exists()


def test_no_key_and_no_server(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.steps(LOOK)
    (project.path / "conftest.py").write_text("")
    text = said(project.record(), "ModelRefused")
    assert text.splitlines() == [
        "pytest_cua.ModelRefused: No API key was found, and this mode asks a model.",
        "hint: export ANTHROPIC_API_KEY=...",
        "hint: or replay without a key: pytest --cua-mode=replay",
    ]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    client = "import anthropic, pytest\n@pytest.fixture\ndef cua_client(): return anthropic.Anthropic(max_retries=0)\n"
    (project.path / "conftest.py").write_text(client)
    text = said(project.record(), "ModelRefused")
    assert "The API could not be reached: [Errno 111] Connection refused" in text
    assert "check the network and ANTHROPIC_BASE_URL" in text


SCRIPTS = """
def never(request):
    while True:
        yield use("screenshot")

def talk(request):
    yield use("screenshot")
    yield say("Shall I go on?")
    yield say("I have stopped.")

def nudged(request):
    yield say("Is it done?")
    yield finish("It was.")

def refuse(request):
    yield turn(say("No."), stop_reason="refusal")

def cut(request):
    yield turn(say("This is a long"), stop_reason="max_tokens")

def full(request):
    yield turn(say("This is"), stop_reason="model_context_window_exceeded")

def together(request):
    request = yield turn(use("mouse_move", coordinate=[5, 6]), finish("done"))
    error = request.last_error
    request = yield finish("Asked again: " + error)

def unsure(request):
    request = yield finish("x", outcome="maybe")
    yield finish("Asked again: " + request.last_error)

def overloaded(request):
    while True:
        yield error(529, "overloaded_error", "Overloaded", retry_after=0)

def broken(request):
    yield raw({"hello": "world"})

def blocked(request):
    yield finish("There is no such button.", outcome="blocked")

SCRIPT = {name: globals()[name] for name in (
    "never", "talk", "nudged", "refuse", "cut", "full", "together", "unsure", "overloaded", "broken", "blocked")}
"""


@pytest.mark.parametrize(
    ("step", "error", "message", "hint"),
    [
        (
            '"never", max_turns=3',
            "StepFailed",
            "did not finish step 1 'never' within 3 turns.",
            "cua.do(..., max_turns=N)",
        ),
        (
            '"never", timeout=1',
            "StepFailed",
            "did not finish step 1 'never' within 0.001 s (1 turns).",
            "timeout=MILLISECONDS",
        ),
        (
            '"talk"',
            "StepFailed",
            "ended its reply twice without finish_step. Its last words: 'I have stopped.'",
            "say in",
        ),
        ('"refuse"', "StepFailed", "Claude refused to go on.", "say in the sentence"),
        ('"cut"', "StepFailed", "the reply was cut at its limit of tokens.", "say in the sentence"),
        ('"full"', "StepFailed", "no longer fits the model's context.", "say in the sentence"),
        (
            '"overloaded"',
            "ModelRefused",
            "The API answered 529 for model claude-sonnet-5-5: Overloaded.",
            "run it again later",
        ),
        (
            '"blocked"',
            "Blocked",
            "Step 1 'blocked' is blocked: There is no such button.",
            "pytest.raises(pytest_cua.Blocked)",
        ),
    ],
)
def test_a_step_that_does_not_come_to_its_end(project: Any, step: str, error: str, message: str, hint: str) -> None:
    project.script(SCRIPTS)
    project.steps(f"cua.do({step})\nassert cua.desktop.windows() == []")
    result = project.record()
    text = said(result, error)
    assert message in text
    assert hint in text
    result.stdout.fnmatch_lines(["✗ 1. never (3 turns, 2 actions, *" if "max_turns" in step else "✗ 1. *"])
    folder = project.folder("test_it", "test_it")
    assert not (folder / "cassette.jsonl").exists()
    if "overloaded" not in step:
        # a blocked step is one that came to its end
        after = "hint: *pytest-cua accept test_it.py::test_it" if error == "Blocked" else "It ends inside step *"
        result.stdout.fnmatch_lines(["The recording was kept aside: *", after])


def test_an_overloaded_api_is_asked_again(project: Any) -> None:
    project.script(
        """
def busy(request):
    yield error(529, "overloaded_error", "Overloaded", retry_after=0)
    yield use("screenshot")
    yield error(500, "api_error", "Internal", retry_after=0)
    yield finish("Seen.")

SCRIPT = {"": busy}

@pytest.fixture
def cua_client():
    with ScriptedClaude(SCRIPT) as claude:
        yield anthropic.Anthropic(api_key=KEY, base_url=claude.base_url, max_retries=2)
"""
    )
    project.steps(LOOK)
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    turns = [line for line in project.lines("test_it", "test_it") if line["type"] == "turn"]
    assert [[a["status"] for a in turn.get("attempts", [])] for turn in turns] == [[529], [500]]


def test_claude_is_told_how_to_end_and_ends(project: Any) -> None:
    project.script(SCRIPTS)
    project.steps(
        """
        assert cua.do("nudged").text == "It was."
        together = cua.do("together")
        assert together.text.startswith("Asked again: finish_step must be the only tool call of its reply")
        assert [action.name for action in together.actions] == ["mouse_move"]
        assert 'Asked again: ' in cua.do("unsure").text
        assert cua.desktop.windows() == []
        """
    )
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


def test_a_blocked_step_can_be_expected_in_every_mode(project: Any) -> None:
    project.script(SCRIPTS)
    project.steps(
        """
        with pytest.raises(pytest_cua.Blocked) as caught:
            cua.do("blocked")
        assert caught.value.reason == "There is no such button."
        assert cua.desktop.windows() == []
        """
    )
    for mode in ("record", "replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


def test_money_is_a_limit(project: Any) -> None:
    project.script(SCRIPTS)
    project.steps('cua.do("never")\nassert cua.desktop.windows() == []')
    text = said(project.record("-o", "cua_max_cost=0.03"), "StepFailed")
    assert re.search(r"was stopped: the test has cost 0\.0[3-9] USD of at most 0\.03", text)
    assert "-o cua_max_cost=AMOUNT" in text


def test_a_fault_of_our_own_is_shown_whole(project: Any) -> None:
    project.steps(LOOK)
    project.script(
        """
from pytest_cua.tools.computer import ComputerToolset

@pytest.fixture(autouse=True)
def fault(monkeypatch):
    monkeypatch.setattr(ComputerToolset, "screenshot", lambda *arguments: 1 / 0)
"""
    )
    result = project.record()
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "failed inside pytest-cua: ZeroDivisionError" in output
    assert "pytest_cua/tools/computer.py" in output


def test_full_trace_shows_everything(project: Any) -> None:
    project.steps('cua.do("")')
    assert "pytest_cua/agent/cua.py" in project.record("--full-trace", "-o", "cua_strict=false").stdout.str()
