"""No request to a model, and no key, leaves a replay: not with the network cut, not with a server that waits.

Nor does any other request that is not declared, from whatever thread or task.
"""

from __future__ import annotations

import http.server
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

TEST = """
cua.desktop.launch("mousepad", "a.txt")
cua.do("Look at the screen")
cua.desktop.file("a.txt").write("1")
expect(cua.desktop.file("a.txt")).to_have_text("1")
"""
LOOPBACK = (
    "import fcntl, os, socket, struct, sys;"
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
    "fcntl.ioctl(s, 0x8914, struct.pack('16sH22x', b'lo', 1));"  # SIOCSIFFLAGS, IFF_UP
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def cut() -> tuple[str, ...]:
    """A command that runs another without any network."""
    for command in (("unshare", "-n"), ("unshare", "-rn")):
        if subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0:
            return command
    pytest.skip("no network namespace can be made here")


def test_replay_and_offline_need_no_network(project: Any, cut: tuple[str, ...]) -> None:
    import sys

    project.steps(TEST)
    project.record().assert_outcomes(passed=1)
    (project.path / "conftest.py").write_text("")
    look = ("python3", "-c", "import socket; print(socket.if_nameindex()); socket.create_connection(('127.0.0.1', 9))")
    probe = subprocess.run([*cut, *look], capture_output=True, text=True, check=False)
    assert "unreachable" in probe.stderr  # it is cut indeed
    code, output = project.output("--cua-mode=offline", prefix=cut)
    assert code == 0, output
    code, output = project.output(prefix=(*cut, sys.executable, "-c", LOOPBACK))
    assert code == 0, output
    assert "1 passed" in output


def test_a_server_that_waits_for_a_request_gets_none(project: Any) -> None:
    project.steps(TEST)
    project.record().assert_outcomes(passed=1)
    (project.path / "conftest.py").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked: list[Any] = []
        threading.Thread(target=lambda: asked.append(server.accept()), daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        environment = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-ant-live", "HTTPS_PROXY": address}
        for mode in ("replay", "offline"):
            code, output = project.output(f"--cua-mode={mode}", **environment)
            assert code == 0, output
        assert asked == []
        socket.create_connection(server.getsockname()).close()


def test_no_key_gets_into_a_recording(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "ANTHROPIC_API_KEY": "sk-ant-api03-abcdefghijkl",
        "SHOP_TOKEN": "correct-horse-battery",
        "DB_PASSWORD": "staple-staple",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    project.script(
        """
import os
def look(request):
    yield use("type", text=os.environ["SHOP_TOKEN"])
    yield finish("Logged in with " + os.environ["SHOP_TOKEN"], observations=[os.environ["DB_PASSWORD"]])

SCRIPT = {"": look}
KEY = os.environ["ANTHROPIC_API_KEY"]
"""
    )
    project.steps(
        """
        url = serve()
        urllib.request.urlopen(url + "?token=" + os.environ["SHOP_TOKEN"]).read()
        cua.desktop.file("a.txt").write(os.environ["DB_PASSWORD"])
        cua.desktop.file("b.txt").write(9999 * "x" + os.environ["DB_PASSWORD"])
        cua.desktop.file("c.bin").write(b"\\xff" + os.environ["DB_PASSWORD"].encode())
        cua.do("Log in with " + os.environ["SHOP_TOKEN"])
        expect(cua.desktop.file("a.txt")).to_have_text(os.environ["DB_PASSWORD"])
        expect(cua.desktop.file("b.txt")).to_have_text(9999 * "x" + os.environ["DB_PASSWORD"])
        assert len(cua.desktop.file("c.bin").read_bytes()) == 14
        """,
        head="""
        import http.server, os, threading, urllib.request

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("set-cookie", os.environ["SHOP_TOKEN"])
                self.end_headers()
                self.wfile.write(os.environ["DB_PASSWORD"].encode())

            def log_message(self, *args):
                pass

        def serve():
            server = http.server.HTTPServer(("127.0.0.1", 0), Page)
            threading.Thread(target=server.handle_request, daemon=True).start()
            return f"http://127.0.0.1:{server.server_port}/"
        """,
    )
    result = project.record("--junitxml=a.xml")
    result.assert_outcomes(passed=1)
    files = [path for path in project.folder("test_it", "test_it").rglob("*") if path.is_file()]
    assert {"cassette.jsonl", "http.yaml", "steps.md"} <= {path.name for path in files}
    for path in [*files, project.path / "a.xml"]:
        for value in secrets.values():
            assert value.encode() not in path.read_bytes(), path
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    monkeypatch.delenv("DB_PASSWORD")
    monkeypatch.setenv("OTHER", secrets["DB_PASSWORD"])
    project.write(test_it=(project.path / "test_it.py").read_text().replace("DB_PASSWORD", "OTHER"))
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*held a secret that is not known here (DB_PASSWORD)"])


# ------------------------------------------------------------------ what is not declared

WRITE = """
cua.desktop.file("a.txt").write("1")
cua.do("Look at the screen")
{more}
expect(cua.desktop.file("a.txt")).to_have_text("1")
"""
HEAD = """
import asyncio, os, socket, sys, threading, urllib.request
import anthropic

PAST = anthropic.Anthropic(api_key="x", base_url=os.environ.get("PAST_URL", "https://api.anthropic.com"), max_retries=0)

def swallow(function):
    try:
        function()
    except BaseException:
        pass

def connect():
    socket.create_connection(("api.example.com", 443))

def fetch(url="http://api.example.com/list?key=hidden"):
    proxies = {"http": os.environ["PROXY"]} if "PROXY" in os.environ else {}
    return urllib.request.build_opener(urllib.request.ProxyHandler(proxies)).open(url).read().decode()

def in_thread(function):
    thread = threading.Thread(target=swallow, args=(function,), name="poller")
    thread.start()
    thread.join()

def in_task(*arguments):
    async def main():
        task = asyncio.create_task(asyncio.open_connection(*arguments))
        await asyncio.gather(task, return_exceptions=True)
    asyncio.run(main())

def ask_model():
    PAST.messages.create(model="claude-sonnet-5-5", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
"""
UNDECLARED = {
    "swallow(connect)": "A lookup of api.example.com leaves this machine in *, and api.example.com is not declared.",
    "swallow(fetch)": "GET http://api.example.com/list leaves this machine in *, and api.example.com is not declared.",
    "in_thread(connect)": "A lookup of api.example.com leaves * is not declared (asked by the thread 'poller').",
    "in_thread(fetch)": "GET http://api.example.com/list leaves * is not declared (asked by the thread 'poller').",
    'in_task("api.example.com", 443)': "A lookup of api.example.com leaves this machine *",
    'in_task("93.184.216.34", 443)': "A connection to 93.184.216.34:443 leaves this machine *",
    'in_thread(lambda: socket.gethostbyname("api.anthropic.com"))': "A lookup of api.anthropic.com asked a model in *",
    "swallow(ask_model)": "POST https://api.anthropic.com/v1/messages asked a model in *.",
    "in_thread(ask_model)": "POST https://api.anthropic.com/v1/messages asked a model in * the thread 'poller').",
}


def with_more(project: Any, more: str, *, arguments: str = "cua", head: str = "") -> None:
    project.steps(WRITE.format(more=more), head=HEAD + head, arguments=arguments)


@pytest.fixture
def recorded(project: Any) -> Any:
    """A project whose test was recorded and asked nobody."""
    with_more(project, "pass")
    project.record().assert_outcomes(passed=1)
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)
    return project


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_what_is_not_declared_fails_a_replay_although_it_is_swallowed(recorded: Any, mode: str) -> None:
    for asking, message in UNDECLARED.items():
        with_more(recorded, asking)
        result = recorded.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"E *pytest_cua.UndeclaredRequest: {message}"])
        assert "hidden" not in "".join(line for line in result.outlines if line.startswith("E "))


def test_a_client_that_was_made_before_the_test_cannot_be_recorded(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("https://api.anthropic.com", "http://127.0.0.1:9"):
        monkeypatch.setenv("PAST_URL", place)
        with_more(project, "in_thread(ask_model)")
        result = project.record()
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            [
                f"E *UndeclaredRequest: POST {place}/v1/messages asks a model with a client that was made *",
                "E *hint: make the client inside the test, or use cua.client",
            ]
        )


def test_what_is_asked_while_the_fixtures_end_is_not_lost(recorded: Any) -> None:
    late = """
@pytest.fixture
def late(desktop):
    yield
    in_thread(connect)
"""
    with_more(recorded, "pass", arguments="late, cua", head=late)
    result = recorded.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["E *UndeclaredRequest: A lookup of api.example.com leaves *"])


def test_other_tests_and_threads_that_outlive_theirs_may_ask(recorded: Any) -> None:
    with_more(
        recorded,
        "threading.Thread(target=outlive).start()",
        head="""
over, asked = threading.Event(), threading.Event()

def look_up():
    sys.audit("socket.getaddrinfo", "api.example.com", 443, 0, 0, 0)  # as it tells, without its being done

def outlive():
    over.wait()
    look_up()
    asked.set()

def test_other():
    look_up()
    over.set()
    assert asked.wait(20)
""",
    )
    text = (recorded.path / "test_it.py").read_text()
    before, _, other = text.partition("def test_other():")
    other, _, test = other.partition("def test_it(")
    recorded.write(test_it=f"{before}def test_it({test}\n\ndef test_other():{other}")
    recorded.run().assert_outcomes(passed=2)


# ------------------------------------------------------------------ what is declared


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("X-Shop-Page", "7")
        self.end_headers()
        self.wfile.write(f"answer {len(server.asked)}".encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Answers every address, of whatever host, and counts."""
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    made.asked = []
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("PROXY", f"http://127.0.0.1:{made.server_port}")
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


NOTE = "asked while recording: api.example.com; declare it in cua_http_recorded or cua_http_live, or its replay fails"


def test_the_way_from_an_undeclared_host_to_a_recorded_one_needs_no_new_recording(
    project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_more(project, "fetch()\nprint('told', fetch())")
    result = project.record()
    result.assert_outcomes(passed=1)
    assert result.outlines.count(NOTE) == 1
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *UndeclaredRequest: GET http://api.example.com/list leaves this machine in a replay*",
            "E *hint: add api.example.com to cua_http_recorded, and it is answered from the recording",
        ]
    )
    monkeypatch.setenv("PYTEST_CUA_HTTP_RECORDED", "api.example.com")
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    assert "told answer 2" in result.stdout.str()
    assert len(proxy.asked) == 2


def declare(project: Any, monkeypatch: pytest.MonkeyPatch, how: str, setting: str, value: str) -> None:
    """Give a setting in one of the three ways there are."""
    pyproject, test = project.path / "pyproject.toml", project.path / "test_it.py"
    if how == "ini":
        pyproject.write_text(pyproject.read_text() + f'\ncua_{setting} = ["{value}"]\n')
    elif how == "environment":
        monkeypatch.setenv(f"PYTEST_CUA_{setting.upper()}", value)
    else:
        test.write_text(
            test.read_text().replace("def test_it(", f"@pytest.mark.cua({setting}=['{value}'])\ndef test_it(")
        )


@pytest.mark.parametrize("how", ["ini", "environment", "marker"])
def test_a_recorded_host_is_answered_from_the_recording_and_a_live_one_is_asked(
    project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with_more(project, "print('told', fetch())")
    declare(project, monkeypatch, how, "http_recorded", "*.example.com")
    result = project.record("-s")
    result.assert_outcomes(passed=1)
    assert NOTE not in result.outlines
    for mode in ("replay", "offline"):
        result = project.run(f"--cua-mode={mode}", "-s")
        result.assert_outcomes(passed=1)
        assert "told answer 1" in result.stdout.str()
    assert len(proxy.asked) == 1
    with_more(project, "print('told', fetch())")
    declare(project, monkeypatch, "environment", "http_recorded", "other.test")
    if how == "ini":
        pyproject = project.path / "pyproject.toml"
        pyproject.write_text("\n".join(pyproject.read_text().splitlines()[:-1]))
    declare(project, monkeypatch, how, "http_live", "*.example.com:80")
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    assert "told answer 2" in result.stdout.str()
    assert "told answer 1" in project.run("--cua-mode=offline", "-s").stdout.str()
    assert len(proxy.asked) == 2


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_a_request_that_the_recording_cannot_answer_fails_although_it_is_swallowed(
    project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("PYTEST_CUA_HTTP_RECORDED", "api.example.com")
    with_more(project, "in_thread(fetch)")
    project.record().assert_outcomes(passed=1)
    with_more(project, "in_thread(lambda: fetch('http://api.example.com/list?key=other'))")
    result = project.run(f"--cua-mode={mode}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *CassetteMismatch: *http.yaml: GET http://api.example.com/list?key=other was not recorded. *vcrpy's *",
            "E *The nearest that were:",
            "E *GET http://api.example.com/list?key=hidden (query: *",
            "E *hint: record the test again: pytest --cua-mode=record test_it.py::test_it",
        ]
    )
    assert len(proxy.asked) == 1


def test_what_was_recorded_and_is_not_asked_for_is_noted_and_fails_nothing(
    project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_CUA_HTTP_RECORDED", "api.example.com")
    with_more(project, "fetch()")
    project.record().assert_outcomes(passed=1)
    with_more(project, "pass")
    line = "test_it.py::test_it: recorded in http.yaml and not asked for: GET http://api.example.com/list?key=hidden"
    for mode in ("replay", "offline"):
        result = project.run(f"--cua-mode={mode}")
        result.assert_outcomes(passed=1)
        assert result.outlines.count(line) == 1
    with_more(project, "assert cua.desktop.file('a.txt').read_text() == '2'")
    assert line not in project.run().outlines


def test_headers_are_kept_that_are_named(project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with_more(project, "fetch()")
    project.record().assert_outcomes(passed=1)
    assert "Shop" not in (project.folder("test_it", "test_it") / "http.yaml").read_text()
    declare(project, monkeypatch, "marker", "http_headers", "X-Shop-*")
    project.record().assert_outcomes(passed=1)
    assert "X-Shop-Page" in (project.folder("test_it", "test_it") / "http.yaml").read_text()


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("http_live", "https://api.example.com", "'https://api.example.com' is no host: it is a name or an address"),
        ("http_recorded", "*", "'*' is no host"),
        ("http_live", "a.test:http", "'a.test:http' is no host"),
        ("http_headers", "*", "'*' is no name of a header"),
        ("http_headers", "Authorization", "authorization carries secrets and is never kept"),
    ],
)
def test_a_declaration_that_cannot_be_meant_so(
    project: Any, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"PYTEST_CUA_{setting.upper()}", value)
    assert message in project.run().stderr.str()


# ------------------------------------------------------------------ for those who come from vcrpy


@pytest.mark.parametrize(
    ("word", "here"),
    [
        ("none", "replay, or offline"),
        ("once", "record-missing, which"),
        ("new_episodes", "record-missing, which"),
        ("all", "record"),
        ("rewrite", "record"),
    ],
)
def test_a_mode_in_vcrpys_words_is_told_in_ours(
    project: Any, monkeypatch: pytest.MonkeyPatch, word: str, here: str
) -> None:
    result = project.run(f"--cua-mode={word}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--cua-mode: '{word}' is vcrpy's word; here it is {here}" in result.stderr.str()
    monkeypatch.setenv("PYTEST_CUA_MODE", word)
    assert f"PYTEST_CUA_MODE: '{word}' is vcrpy's word" in project.run().stderr.str()


def test_a_record_mode_of_vcr_config_has_no_effect_and_is_told(recorded: Any) -> None:
    recorded.script("\n@pytest.fixture\ndef vcr_config():\n    return {'record_mode': 'new_episodes'}\n")
    result = recorded.run()
    result.assert_outcomes(passed=1)
    line = "vcr_config: record_mode='new_episodes' has no effect; --cua-mode says it, in its words record-missing*"
    result.stdout.fnmatch_lines([line])


def test_a_forked_process_that_asks_a_recorded_host_is_told_while_recording(
    project: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_CUA_HTTP_RECORDED", "api.example.com")
    forked = """
import os
child = os.fork()
if child == 0:
    try:
        fetch()
    finally:
        os._exit(0)
os.waitpid(child, 0)
"""
    with_more(project, forked)
    result = project.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*In a process that the test forked: *asks GET http://api.example.com*"])
    assert proxy.asked == []
