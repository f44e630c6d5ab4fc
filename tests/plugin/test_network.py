"""No request to a model, and no key, leaves a replay: not with the network cut, not with a server that waits."""

from __future__ import annotations

import socket
import subprocess
import threading
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
