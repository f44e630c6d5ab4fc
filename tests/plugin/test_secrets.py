"""No secret is written; what was taken out comes back where it is known; a word like one does no harm."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_cua import secrets
from pytest_cua.cassette.redact import scan_folder
from pytest_cua.desktop.masks import GREY

SECRET = "correct-horse-7"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Nested runs share this process, which knows a Secret for as long as it lives."""
    made, variables = dict(secrets._made), set(secrets._variables)
    yield
    secrets._made.clear()
    secrets._made.update(made)
    secrets._variables.clear()
    secrets._variables.update(variables)


FILL_IN = """
import os

def fill_in(request):
    yield turn(use("key", text="ctrl+End"), use("type", text=os.environ["DB_TOKEN"]), use("key", text="ctrl+s"))
    yield finish("Filled in.")

SCRIPT = {"Fill": fill_in, "": look}
"""


def written(project: Any) -> list[Path]:
    """Every file of all recordings."""
    return [path for path in (project.path / "cassettes").rglob("*") if path.is_file()]


def test_a_secret_that_claude_types(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_TOKEN", SECRET)
    project.script(FILL_IN)
    project.steps(
        """
        note = cua.desktop.file("note.txt")
        note.write("token: ")
        cua.desktop.launch("mousepad", "note.txt")
        try:
            cua.do("Fill in the token and save")
            expect(note).to_have_text("token: correct-horse-7")
        finally:
            print("saved", ascii(note.read_text()), "titled", [window.title for window in cua.desktop.windows()])
        """
    )
    project.record().assert_outcomes(passed=1)
    actions = [line for line in project.lines("test_it", "test_it") if line["type"] == "action"]
    assert [action["input"]["text"] for action in actions] == ["ctrl+End", "[redacted DB_TOKEN]", "ctrl+s"]
    for path in written(project):
        assert SECRET.encode() not in path.read_bytes(), path
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)

    monkeypatch.delenv("DB_TOKEN")
    (project.path / "conftest.py").write_text("")
    result = project.run("-s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*saved 'token: ' titled [[]'~/note.txt - Mousepad'[]]",  # an asterisk would tell that it was typed into
            "E *pytest_cua.CassetteMismatch: *a secret that was taken out of the recording and is not known here: "
            "DB_TOKEN*",
            "E *hint: set the variable DB_TOKEN *",
        ]
    )


WORD = """
import pytest
from pytest_cua import expect

@pytest.mark.parametrize("word", ["documents"])
def test_open(cua, word):
    cua.desktop.file("documents.txt").write("many documents")
    cua.do("open the documents list")
    cua.do("open the {word}", params={"word": word})
    expect(cua.desktop.file("documents.txt")).to_have_text("many documents")
"""


def test_a_word_that_is_a_secret_only_where_it_is_replayed(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(test_note=WORD)
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("MYSQL_ROOT_PASSWORD", "documents")
    project.run().assert_outcomes(passed=1)


def test_a_file_whose_name_is_a_secret_only_where_it_is_replayed(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(test_note=WORD)
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("MYSQL_ROOT_PASSWORD", "documents")
    project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_a_word_that_is_a_secret_only_where_it_was_recorded(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(test_note=WORD)
    monkeypatch.setenv("MYSQL_ROOT_PASSWORD", "documents")
    project.record().assert_outcomes(passed=1)
    folder = next((project.path / "cassettes/test_note").iterdir())
    lines = project.lines(folder.name)
    assert lines[0]["test"] == "test_note.py::test_open[documents]"
    assert [line["sentence"] for line in lines if line["type"] == "step"] == [
        "open the [redacted MYSQL_ROOT_PASSWORD] list",
        "open the {word}",
    ]
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    monkeypatch.delenv("MYSQL_ROOT_PASSWORD")
    project.run().assert_outcomes(passed=1)
    # what a file held is not known here any more, so only the application can tell
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs the application: *"])
    # another sentence is another sentence all the same
    project.write(test_note=WORD.replace("the documents list", "the documents table"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *pytest_cua.CassetteMismatch: *step 1 *the request is not the recorded one*"])


SERVER = """
import http.server, os, threading, urllib.request

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        got = (self.headers["Private-Token"], self.headers["Authorization"], self.headers["Accept-Language"])
        self.send_response(200 if got == (os.environ["DB_TOKEN"], "Bearer of-nobody", "as it is") else 403)
        self.send_header("X-Issued", "for " + os.environ["DB_TOKEN"])
        self.send_header("Link", "</list?token=" + os.environ["DB_TOKEN"] + ">")
        self.send_header("ETag", "as it is too")
        self.end_headers()
        self.wfile.write(b"welcome, " + os.environ["DB_TOKEN"].encode())

    def log_message(self, *args):
        pass

@pytest.fixture
def url():
    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/list"
    server.shutdown()
    thread.join()
    server.server_close()
"""
CONFIG = """
@pytest.fixture
def vcr_config():
    return {"filter_headers": ["accept-language"]}
"""


@pytest.mark.parametrize("config", ["", CONFIG], ids=["plain", "with vcr_config"])
def test_no_secret_of_a_header_is_written(project: Any, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setenv("DB_TOKEN", SECRET)
    project.script(SERVER + config)
    project.steps(
        """
        token = os.environ["DB_TOKEN"]
        headers = {"Private-Token": token, "Authorization": "Bearer of-nobody", "Accept-Language": "as it is"}
        reply = urllib.request.urlopen(urllib.request.Request(f"{url}?token={token}", headers=headers))
        assert reply.status == 200
        assert reply.headers["ETag"] == "as it is too"
        assert reply.read().decode() == f"welcome, {token}"
        cua.do("Look")
        assert cua.desktop.windows() == []
        """,
        head="import os, urllib.request",
        arguments="cua, url",
    )
    project.record().assert_outcomes(passed=1)
    kept = (project.folder("test_it", "test_it") / "http.yaml").read_text()
    assert SECRET not in kept
    assert kept.count("[redacted DB_TOKEN]") == 3  # in the address that was asked, in the link, and in the answer
    assert "of-nobody" not in kept
    assert "as it is too\n" in kept
    assert ("as it is\n" in kept) is not bool(config)
    for path in written(project):
        assert SECRET.encode() not in path.read_bytes(), path
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


# ------------------------------------------------------------------ Secret

PASSWORD, OTHER = "Wm4#hunter2/iii", "mmmmmmmm+WWWWWWWW&20"
FORM = """
import sys, tkinter
root = tkinter.Tk()
root.title("Log in")
root.geometry("500x200+100+100")
entry = tkinter.Entry(root, width=60, insertofftime=0)
entry.place(x=40, y=30)
tkinter.Label(root, text=sys.argv[1]).place(x=40, y=80)
said = tkinter.Label(root)
said.place(x=40, y=130)

def log_in(event):
    open("typed.txt", "w").write(entry.get())
    root.title("as " + entry.get())
    said.config(text="Welcome")

root.bind("<Return>", log_in)
entry.focus_force()
root.mainloop()
"""
LOG_IN = """
import json, pathlib

def log_in(request):
    yield use("screenshot")
    yield turn(use("type", text="{password}"), use("zoom", region=[100, 100, 600, 300]), use("screenshot"))
    yield turn(use("key", text="Return"), use("screenshot"))
    yield finish("Logged in.")

def hurried(request):
    yield turn(use("type", text="{password}\\n"), use("screenshot"))
    yield finish("Logged in.")

def misspelt(request):
    yield use("type", text="{pasword}")
    yield turn(use("type", text="{{x}} {password}"), use("key", text="Return"))
    yield finish("Logged in.")

SCRIPT = {"Log in": log_in, "Hurry": hurried, "Misspell": misspelt, "": look}

@pytest.fixture
def cua_client():
    with ScriptedClaude(SCRIPT) as claude:
        yield anthropic.Anthropic(api_key="scripted", base_url=claude.base_url, max_retries=0)
    if claude.requests:
        pathlib.Path("sent.json").write_text(json.dumps([request.body for request in claude.requests]))
"""
HEAD = f"""
import os
from pytest_cua import Secret

FORM = {FORM!r}
LABEL = "Password"

def start(desktop):
    desktop.file("form.py").write(FORM)
    desktop.launch("/usr/bin/python3", "form.py", LABEL)
"""
BODY = """
start(cua.desktop)
cua.do("Log in with {password}", params={"password": Secret.from_env("SHOP_PASSWORD")})
expect(cua.desktop).to_have_screenshot("welcome")
expect(cua.desktop.file("typed.txt")).to_have_text(os.environ["SHOP_PASSWORD"])
assert cua.desktop.windows()[0].title == "as " + os.environ["SHOP_PASSWORD"]
"""


def actions_of(project: Any) -> list[dict[str, Any]]:
    return [line for line in project.lines("test_it", "test_it") if line["type"] == "action"]


def screen(project: Any, key: str) -> Image.Image:
    return Image.open(next((project.path / "cassettes").rglob(f"{key}.webp"))).convert("RGB")


def sent_pictures(value: Any) -> list[Image.Image]:
    """The pictures in what was sent to the model, in order."""
    if isinstance(value, dict) and value.get("type") == "base64":
        return [Image.open(io.BytesIO(base64.b64decode(value["data"]))).convert("RGB")]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [picture for part in parts for picture in sent_pictures(part)]


def letters(project: Any) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of where the first letters stand in the field, on the screen."""
    left, top, _, _ = actions_of(project)[0]["windows"][0]["box"]
    return left + 44, top + 36, left + 110, top + 46


def is_grey(image: Image.Image, box: Any) -> bool:
    return bool((np.asarray(image.crop(box)) == GREY).all())


def assert_nowhere(project: Any, *values: str) -> None:
    """No file of the project but the test's own holds a value in any form."""
    known = dict.fromkeys(values, "SHOP_PASSWORD")
    for folder in ("cassettes", "cua-artifacts"):
        assert scan_folder(project.path / folder, known) == []
    files = [path for path in project.path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 5
    for path in files:
        for value in values:
            assert value.encode() not in path.read_bytes(), path


def test_a_secret_that_is_typed_is_in_no_file_and_in_no_picture(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    project.steps(BODY, head=HEAD)
    project.record().assert_outcomes(passed=1)

    actions = actions_of(project)
    assert [action["name"] for action in actions] == ["screenshot", "type", "zoom", "screenshot", "key", "screenshot"]
    assert actions[1]["input"] == {"text": "{password}"}
    assert actions[-1]["windows"][0]["title"] == actions[-1]["focus"] == "as {password}"
    assert_nowhere(project, PASSWORD)

    place = letters(project)
    assert not is_grey(screen(project, actions[1]["before"]), place)
    assert [bool(action.get("masked")) for action in actions] == [False, True, True, True, True, True]
    for action in actions[2:]:
        assert is_grey(screen(project, action["before"]), place)
        for x, y, width, height in action["masked"]:
            assert is_grey(screen(project, action["after"]), (x, y, x + width, y + height))
    first, zoomed, typed, welcome = sent_pictures(json.loads((project.path / "sent.json").read_text()))[-4:]
    assert not is_grey(first, place)
    assert is_grey(typed, place) and is_grey(welcome, place)
    factor = zoomed.width / 500
    assert is_grey(zoomed, [round((edge - 100) * factor) for edge in place])

    baseline = project.folder("test_it", "test_it") / "baselines" / "welcome"
    assert is_grey(Image.open(baseline.with_suffix(".png")).convert("RGB"), place)
    areas = json.loads(baseline.with_suffix(".json").read_text())["areas"]
    assert [[a["xpos"], a["ypos"], a["width"], a["height"]] for a in areas] == actions[-1]["masked"]
    assert {area["type"] for area in areas} == {"exclude"}

    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


@pytest.mark.parametrize("other", [OTHER, "ill!"], ids=["longer", "shorter"])
def test_another_value_replays(project: Any, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    project.steps(BODY, head=HEAD)
    project.record().assert_outcomes(passed=1)
    monkeypatch.setenv("SHOP_PASSWORD", other)
    project.run().assert_outcomes(passed=1)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.run().assert_outcomes(passed=1)


def test_a_picture_of_a_failure_is_painted_over_too(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    project.steps(BODY, head=HEAD)
    project.record().assert_outcomes(passed=1)
    place = letters(project)
    project.steps(BODY, head=HEAD.replace('text="Welcome"', 'text="Welcome back"'))
    monkeypatch.setenv("SHOP_PASSWORD", OTHER)
    result = project.run("-o", "cua_drift_timeout=1000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *pytest_cua.ScreenDrift: *"])
    result.stdout.no_fnmatch_line(f"*{OTHER}*")
    pictures = {path.name: path for path in (project.path / "cua-artifacts").rglob("*.png")}
    assert {"drift-expected.png", "drift-actual.png"} <= set(pictures)
    for name in ("drift-expected.png", "drift-actual.png"):
        assert is_grey(Image.open(pictures[name]).convert("RGB"), place), name
    assert_nowhere(project, PASSWORD, OTHER)


def test_a_screenshot_that_failed_is_painted_over_too(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    project.steps(BODY, head=HEAD)
    project.record().assert_outcomes(passed=1)
    place = letters(project)
    body = BODY.replace("expect(cua.desktop)", 'cua.desktop.launch("xeyes"); expect(cua.desktop)').replace(
        '"welcome"', '"welcome", timeout=0'
    )
    body = body.replace("xeyes", '/usr/bin/python3", "form.py", "Another')
    project.steps(body, head=HEAD)
    project.run().assert_outcomes(failed=1)
    actual = next((project.path / "cua-artifacts").rglob("welcome-actual.png"))
    masked = actions_of(project)[-1]["masked"]
    assert masked
    assert is_grey(Image.open(actual).convert("RGB"), place)


def test_a_return_after_the_secret_hides_nothing_else(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    project.steps(BODY.replace("Log in with", "Hurry to log in with"), head=HEAD)
    project.record().assert_outcomes(passed=1)
    actions = actions_of(project)
    left, top, _, _ = actions[0]["windows"][0]["box"]
    said = (left + 40, top + 130, left + 110, top + 150)
    colours = screen(project, actions[-1]["after"]).crop(said).getcolors(10_000)
    assert colours is not None and len(colours) > 1  # "Welcome"
    project.run().assert_outcomes(passed=1)


def test_a_secret_made_in_the_test_and_without_a_name(project: Any) -> None:
    project.script(LOG_IN)
    project.steps(
        f"""
        note = cua.desktop.file("note.txt")
        start(cua.desktop)
        secret = Secret({PASSWORD!r})
        cua.do("Log in with {{password}}", params={{"password": secret}})
        expect(cua.desktop.file("typed.txt")).to_have_text(secret.value)
        note.write(f"it is {{secret.value}}, not {{secret}}")
        expect(note).to_have_text(f"it is {{secret.value}}, not [secret password]")
        with pytest.raises(pytest_cua.BadArgument, match="secret.value"):
            note.write(secret)
        """,
        head=HEAD,
    )
    project.record().assert_outcomes(passed=1)
    assert scan_folder(project.path / "cassettes", {PASSWORD: "password"}) == []
    kept = [line["value"] for line in project.lines("test_it", "test_it") if line["type"] == "observation"]
    assert {"text": "[redacted password]"} in kept
    assert {"text": "it is [redacted password], not [secret password]"} in kept
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


def test_a_secret_that_is_not_set_here_is_needed_only_where_it_is_typed(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    project.script(LOG_IN)
    body = """
    start(cua.desktop)
    try:
        cua.do("Log in with {password}", params={"password": Secret.from_env("SHOP_PASSWORD")})
    except pytest_cua.SetupError:
        print("typed:", cua.desktop.file("typed.txt").exists())
        raise
    assert cua.desktop.file("form.py").exists()
    """
    project.steps(body, head=HEAD)
    project.record().assert_outcomes(passed=1)
    monkeypatch.delenv("SHOP_PASSWORD")
    project.run("--cua-mode=offline").assert_outcomes(passed=1)
    for mode in ("replay", "record"):
        result = project.run(f"--cua-mode={mode}", "-s")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["*typed: False*", "E *pytest_cua.SetupError: *SHOP_PASSWORD*", "E *hint: export SHOP_PASSWORD=*"]
        )


# ------------------------------------------------------------------ placeholders without a value


def test_a_placeholder_without_a_value_is_an_error_before_anything_is_asked(project: Any) -> None:
    project.script(LOG_IN)
    project.steps(
        """
        with pytest.raises(pytest_cua.BadArgument) as caught:
            cua.do("Log in with {pasword}")
        assert caught.value.hints == (
            "give it: cua.do(..., params={'pasword': ...})", "if braces are meant, double them: {{pasword}}"
        )
        with pytest.raises(pytest_cua.BadArgument, match="has no value for it. Did you mean {password}"):
            cua.do("Log in with {password} and {pasword}", params={"password": "x"})
        with pytest.raises(pytest_cua.BadArgument, match="has no placeholder {password}"):
            cua.do("Log in with {{password}}", params={"password": "x"})
        assert cua.usage.input_tokens == 0
        cua.do("Look at {{braces}} and { spaces } and {}")
        cua.do("Look again")
        assert cua.desktop.windows() == []
        """
    )
    project.record().assert_outcomes(passed=1)
    sentences = [line["sentence"] for line in project.lines("test_it", "test_it") if line["type"] == "step"]
    assert sentences == ["Look at {{braces}} and { spaces } and {}", "Look again"]
    sent = (project.path / "sent.json").read_text()
    assert sent.count("Look at {braces} and { spaces } and {}") >= 2  # as the sentence, and as an earlier one
    assert "{{" not in sent.replace("{{name}}", "")
    project.run().assert_outcomes(passed=1)


def test_an_unknown_placeholder_that_claude_types_is_told_before_anything_is_typed(project: Any) -> None:
    project.script(LOG_IN)
    project.steps(
        """
        start(cua.desktop)
        cua.do("Misspell {password}", params={"password": "pass"})
        expect(cua.desktop.file("typed.txt")).to_have_text("{x} pass")
        """,
        head=HEAD,
    )
    project.record().assert_outcomes(passed=1)
    first = actions_of(project)[0]
    assert first["is_error"]
    assert first["text"].startswith(
        "Nothing was typed: this step has no placeholder {pasword}. Did you mean {password}?"
    )
    assert "double them: {{pasword}}" in (project.path / "sent.json").read_text()
    project.run().assert_outcomes(passed=1)


def test_without_parameters_braces_are_typed_as_they_are(project: Any) -> None:
    script = LOG_IN.replace('text="{password}\\n"', 'text="{a} {{b}}\\n"')
    assert script != LOG_IN
    project.script(script)
    project.steps(
        """
        start(cua.desktop)
        cua.do("Hurry")
        expect(cua.desktop.file("typed.txt")).to_have_text("{a} {{b}}")
        """,
        head=HEAD,
    )
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)
