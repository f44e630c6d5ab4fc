"""No secret is written; what was taken out comes back where it is known; a word like one does no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECRET = "correct-horse-7"

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
        got = (self.headers["Private-Token"], self.headers["Authorization"], self.headers["X-Kept"])
        self.send_response(200 if got == (os.environ["DB_TOKEN"], "Bearer of-nobody", "as it is") else 403)
        self.send_header("X-Issued", "for " + os.environ["DB_TOKEN"])
        self.send_header("X-Plain", "as it is too")
        self.end_headers()
        self.wfile.write(b"welcome")

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
    return {"filter_headers": ["user-agent"]}
"""


@pytest.mark.parametrize("config", ["", CONFIG], ids=["plain", "with vcr_config"])
def test_no_secret_of_a_header_is_written(project: Any, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setenv("DB_TOKEN", SECRET)
    project.script(SERVER + config)
    project.steps(
        """
        headers = {"Private-Token": os.environ["DB_TOKEN"], "Authorization": "Bearer of-nobody", "X-Kept": "as it is"}
        reply = urllib.request.urlopen(urllib.request.Request(url, headers=headers))
        assert reply.status == 200
        assert reply.headers["X-Plain"] == "as it is too"
        cua.do("Look")
        assert cua.desktop.windows() == []
        """,
        head="import os, urllib.request",
        arguments="cua, url",
    )
    project.record().assert_outcomes(passed=1)
    kept = (project.folder("test_it", "test_it") / "http.yaml").read_text()
    assert SECRET not in kept
    assert kept.count("[redacted DB_TOKEN]") == 2  # one asked with, one answered with
    assert "of-nobody" not in kept
    assert "as it is\n" in kept
    assert ("user-agent" in kept.lower()) is not bool(config)
    for path in written(project):
        assert SECRET.encode() not in path.read_bytes(), path
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
