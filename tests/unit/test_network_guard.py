"""What a replay may ask: sockets are judged before a name is looked up, HTTP requests before anything is sent."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.server
import importlib.util
import json
import logging
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pytest_cua.cassette.http import FILE, HttpRecording, asking_model
from pytest_cua.cassette.latch import Latch
from pytest_cua.cassette.store import digest_of
from pytest_cua.errors import CassetteMismatch, NeedsApplication, UndeclaredRequest
from pytest_cua.network import Guard, Hosts, is_this_machine, split_place

OUTSIDE = "93.184.216.34"


def needs(what: str) -> Any:
    raise NeedsApplication(f"needs the application: {what}")


class Refusals:
    """A guard and what it refused."""

    def __init__(self, mode: Any = "replay", **hosts: Any) -> None:
        self.latch = Latch()
        self.guard = Guard(mode=mode, hosts=Hosts(**hosts), fail=self.latch.set, on_missing=needs)

    def __enter__(self) -> Refusals:
        self.guard.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.guard.stop()

    @property
    def message(self) -> str:
        return str(self.latch.error)


def in_thread(function: Callable[[], Any]) -> list[BaseException]:
    """What the function raised in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="poller")
    thread.start()
    thread.join()
    return raised


@contextlib.contextmanager
def open_socket(kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    with contextlib.closing(socket.socket(socket.AF_INET, kind)) as made:
        yield made


def connect(host: str) -> None:
    with open_socket() as made:
        made.connect((host, 443))


def connect_ex(host: str) -> None:
    with open_socket() as made:
        made.connect_ex((host, 443))


def send(host: str) -> None:
    with open_socket(socket.SOCK_DGRAM) as made:
        made.sendto(b"x", (host, 443))


def send_message(host: str) -> None:
    with open_socket(socket.SOCK_DGRAM) as made:
        made.sendmsg([b"x"], [], 0, (host, 443))


def connect_in_asyncio(host: str) -> None:
    asyncio.run(asyncio.wait_for(asyncio.open_connection(host, 443), 30))


def look_up_in_asyncio(host: str) -> None:
    async def look() -> None:
        await asyncio.create_task(asyncio.get_running_loop().getaddrinfo(host, 443))

    asyncio.run(look())


def audited(event: str, *arguments: Any) -> None:
    """What the socket module tells when it is about to do something, without its being done."""
    sys.audit(f"socket.{event}", *arguments)


ASKING: dict[str, tuple[Callable[[str], Any], str]] = {
    "getaddrinfo": (lambda host: socket.getaddrinfo(host, 443), "api.example.com"),
    "getaddrinfo, bytes": (lambda host: socket.getaddrinfo(host.encode(), "https"), "api.example.com"),
    "getaddrinfo, address": (lambda host: socket.getaddrinfo(host, 443), OUTSIDE),
    "gethostbyname": (socket.gethostbyname, "api.example.com"),
    "gethostbyaddr": (socket.gethostbyaddr, OUTSIDE),
    "create_connection": (lambda host: socket.create_connection((host, 443)), "api.example.com"),
    "connect, name": (connect, "api.example.com"),
    "connect, address": (connect, OUTSIDE),
    "connect_ex, name": (connect_ex, "api.example.com"),
    "sendto": (send, OUTSIDE),
    "sendmsg": (send_message, OUTSIDE),
    "asyncio, name": (connect_in_asyncio, "api.example.com"),
    "asyncio, address": (connect_in_asyncio, OUTSIDE),
    "asyncio's getaddrinfo": (look_up_in_asyncio, "api.example.com"),
}


@pytest.mark.parametrize("mode", ["replay", "offline"])
@pytest.mark.parametrize("way", ASKING)
def test_a_host_that_is_not_declared_is_refused_before_anything_is_asked(mode: str, way: str) -> None:
    ask, host = ASKING[way]
    with Refusals(mode) as refused:
        with pytest.raises(UndeclaredRequest) as raised:
            ask(host)
        assert raised.value is refused.latch.error
        assert f"{host} is not declared" in raised.value.message.replace(":443", "")
        assert [hint.split()[2:4] for hint in raised.value.hints] == [
            ["to", "cua_http_recorded,"],
            ["cua_http_live,", "and"],
        ]


def test_a_thread_is_refused_too_and_named_and_nothing_it_catches_hides_it() -> None:
    def swallow() -> None:
        with contextlib.suppress(BaseException):
            socket.create_connection(("api.example.com", 443))

    with Refusals() as refused:
        assert in_thread(swallow) == []
        assert isinstance(refused.latch.error, UndeclaredRequest)
        assert "asked by the thread 'poller'" in refused.message


def test_a_name_that_was_bound_before_the_test_is_seen_too() -> None:
    bound, kept = socket.socket.connect_ex, socket.getaddrinfo
    with Refusals(), open_socket() as made:
        with pytest.raises(UndeclaredRequest):
            kept("api.example.com", 443)
        with pytest.raises(UndeclaredRequest):
            bound(made, (OUTSIDE, 443))


def test_this_machine_is_asked_as_ever(tmp_path: Path) -> None:
    with Refusals() as refused, socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost", b"localhost"):
            socket.create_connection((host, server.getsockname()[1])).close()
        asyncio.run(asyncio.wait_for(asyncio.open_connection("localhost", server.getsockname()[1]), 30))
        with open_socket(socket.SOCK_DGRAM) as made:
            made.sendto(b"x", server.getsockname())
        socket.gethostbyname(socket.gethostname())
        socket.getaddrinfo(None, 80)
        path = str(tmp_path / "socket")
        with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as client:
            unix.bind(path)
            unix.listen()
            client.connect(path)
        assert refused.latch.error is None


@pytest.mark.parametrize(
    "host", ["", "localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"]
)
def test_names_of_this_machine(host: str) -> None:
    assert is_this_machine(host)
    assert is_this_machine(socket.gethostname().lower())
    for other in (
        "localhost.example.com",
        "128.0.0.1",
        OUTSIDE,
        "::2",
        "2001:db8::1",
        "224.0.0.251",
        "255.255.255.255",
    ):
        assert not is_this_machine(other)


def test_its_own_address_is_this_machine_whatever_it_is() -> None:
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed, which knows the addresses")
    listing = subprocess.run(["ip", "-json", "address"], capture_output=True, text=True, check=True).stdout
    for info in (info for device in json.loads(listing) for info in device["addr_info"]):
        assert info["scope"] == "link" or is_this_machine(info["local"]), info


SIDES = [
    ("api.example.com", 443, "recorded"),
    ("shop.test", 443, "live"),
    ("a.shop.test", 443, "live"),
    ("a.b.shop.test", 443, "live"),
    ("evilshop.test", 443, "undeclared"),
    ("api.example.com.evil.test", 443, "undeclared"),
    ("db.test", 5432, "live"),
    ("db.test", 5433, "undeclared"),
    ("db.test", None, "live"),
    ("10.0.0.7", 80, "live"),
    ("10.0.0.8", 80, "undeclared"),
    ("fd00::7", 80, "live"),
    ("fd00:0::7", 80, "live"),
    ("fd00::8", 443, "recorded"),
    ("fd00::8", 80, "undeclared"),
    ("127.0.0.1", 80, "here"),
    ("127.0.0.1", 8080, "recorded"),
]


@pytest.mark.parametrize(("host", "port", "side"), SIDES)
def test_what_a_declaration_covers(host: str, port: int | None, side: str) -> None:
    recorded = ("API.example.com", "127.0.0.1:8080", "[fd00::8]:443")
    live = ("shop.test", "*.shop.test", "db.test:5432", "10.0.0.7", "fd00::7")
    assert Hosts(recorded=recorded, live=live).side(host, port) == side


def test_how_a_declaration_is_read() -> None:
    read = [
        split_place(entry) for entry in ("A.test.", "a.test:80", "[fd00::7]:80", "[fd00::7]", "fd00::7", "*.a.test")
    ]
    assert read == [
        ("a.test", None),
        ("a.test", 80),
        ("fd00::7", 80),
        ("fd00::7", None),
        ("fd00::7", None),
        ("*.a.test", None),
    ]


def test_a_live_host_may_be_asked_and_then_the_addresses_it_has() -> None:
    with Refusals(live=("shop.test",)) as refused, open_socket() as made:
        with pytest.raises(UndeclaredRequest):
            audited("connect", made, (OUTSIDE, 443))
        audited("getaddrinfo", "shop.test", 443, 0, 0, 0)
        audited("connect", made, (OUTSIDE, 443))
        with pytest.raises(UndeclaredRequest):
            audited("getaddrinfo", "api.example.com", 443, 0, 0, 0)
        assert refused.latch.error is not None


def test_an_address_that_is_declared_is_no_leave_for_others() -> None:
    with Refusals(live=("10.0.0.7",)), open_socket() as made:
        audited("connect", made, ("10.0.0.7", 443))
        with pytest.raises(UndeclaredRequest):
            audited("connect", made, (OUTSIDE, 443))


def test_offline_asks_nothing_of_the_application() -> None:
    with Refusals("offline", live=("shop.test",)) as refused:
        with pytest.raises(NeedsApplication, match="A lookup of shop.test"):
            audited("getaddrinfo", "shop.test", 443, 0, 0, 0)
        assert refused.latch.error is None


def test_a_recorded_host_is_not_asked_by_what_vcrpy_does_not_see() -> None:
    refused = Refusals(recorded=("api.example.com",))
    with refused, pytest.raises(UndeclaredRequest, match="the recording answers for it"):
        audited("getaddrinfo", "api.example.com", 443, 0, 0, 0)


@pytest.mark.parametrize("live", [(), ("api.anthropic.com",)], ids=["undeclared", "declared"])
def test_a_host_that_is_a_models_is_told_as_that(live: Any) -> None:
    with Refusals(live=live, models=("https://gateway.test/", "https://corp.test/claude")):
        for host in ("api.anthropic.com", "gateway.test"):
            with pytest.raises(UndeclaredRequest, match="asked a model in a replay"):
                audited("getaddrinfo", host, 443, 0, 0, 0)


def test_a_proxy_may_be_asked_for_the_application_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:word@proxy.test:3128")
    with Refusals(), pytest.raises(UndeclaredRequest):
        audited("getaddrinfo", "proxy.test", 3128, 0, 0, 0)
    with Refusals(live=("shop.test",)) as refused, open_socket() as made:
        audited("getaddrinfo", "proxy.test", 3128, 0, 0, 0)
        audited("connect", made, (OUTSIDE, 3128))
        assert refused.latch.error is None


def test_a_thread_that_outlives_its_test_belongs_to_none() -> None:
    over = threading.Event()
    raised: list[BaseException] = []
    with Refusals() as refused:
        thread = threading.Thread(
            target=lambda: (
                over.wait() and raised.extend(in_thread(lambda: audited("getaddrinfo", "a.test", 1, 0, 0, 0)))
            )
        )
        thread.start()
    over.set()
    thread.join()
    assert raised == []
    assert refused.latch.error is None
    assert "connect" not in vars(socket.socket) or not hasattr(socket.socket.connect, "__wrapped__")


def test_of_two_guards_the_inner_judges_and_the_outer_afterwards() -> None:
    with Refusals() as outer:
        with Refusals(live=("shop.test",)) as inner:
            audited("getaddrinfo", "shop.test", 443, 0, 0, 0)
        assert inner.latch.error is None
        with pytest.raises(UndeclaredRequest):
            audited("getaddrinfo", "shop.test", 443, 0, 0, 0)
        assert outer.latch.error is not None


# ------------------------------------------------------------------ HTTP: a real server, reached as a proxy by any name


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wait = 20  # seconds, of a stream whose reader does not read on

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        if self.path.endswith("/events"):
            self._stream(server)
            return
        body = f"answer {len(server.asked)} to {self.path}".encode()
        self.send_response(401 if self.path.endswith("/closed") else 200)
        if self.path.endswith("/packed"):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def _stream(self, server: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        self.wfile.flush()
        server.in_time = server.read.wait(self.wait)
        self.wfile.write(b"data: last\n\n")
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    """Answers every address, of whatever host, and counts."""
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    made.asked, made.headers, made.read = [], {"Content-Type": "text/plain"}, threading.Event()
    made.url = f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def by_urllib(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
    reply = opener.open(urllib.request.Request(url, headers=headers))
    body = reply.read()
    body = gzip.decompress(body) if reply.headers["Content-Encoding"] == "gzip" else body
    return reply.headers, body.decode()


def by_httpx2(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    with httpx2.Client(proxy=proxy) as client:
        reply = client.get(url, headers=headers)
    return reply.headers, reply.text


def by_httpx(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    httpx = pytest.importorskip("httpx")
    with httpx.Client(proxy=proxy) as client:
        reply = client.get(url, headers=headers)
    return reply.headers, reply.text


def by_async_httpx2(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    async def ask() -> tuple[Any, str]:
        async with httpx2.AsyncClient(proxy=proxy) as client:
            reply = await asyncio.create_task(client.get(url, headers=headers))
        return reply.headers, reply.text

    return asyncio.run(ask())


def by_requests(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    requests = pytest.importorskip("requests")
    reply = requests.get(url, headers=headers, proxies={"http": proxy})
    return reply.headers, reply.text


def by_aiohttp(proxy: str, url: str, headers: dict[str, str]) -> tuple[Any, str]:
    aiohttp = pytest.importorskip("aiohttp")

    async def ask() -> tuple[Any, str]:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, proxy=proxy) as reply:
            return reply.headers, await reply.text()

    return asyncio.run(ask())


CLIENTS = [by_urllib, by_httpx2, by_async_httpx2, by_httpx, by_requests, by_aiohttp]
if importlib.util.find_spec("requests") is None:
    CLIENTS.remove(by_requests)
if importlib.util.find_spec("aiohttp") is None:
    CLIENTS.remove(by_aiohttp)
if importlib.util.find_spec("httpx") is None:
    CLIENTS.remove(by_httpx)


class Http:
    """A recording of HTTP, and what came of it."""

    def __init__(self, mode: Any, folder: Path, *, headers: Any = (), config: Any = None, **hosts: Any) -> None:
        self.latch = Latch()
        self.notes: list[str] = []
        self.seen: list[str] = []
        self.recording = HttpRecording(
            mode=mode,
            test="test_a.py::test_a",
            folder=folder,
            hosts=Hosts(**hosts),
            headers=headers,
            config=config or {},
            on_request=self.seen.append,
            on_missing=needs,
            fail=self.latch.set,
            note=self.notes.append,
        )

    def __enter__(self) -> Http:
        self.recording.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.recording.__exit__(*exception)
        self.recording.release()


@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize("path", ["plain", "packed"])
def test_a_recorded_host_is_answered_from_the_recording(server: Any, tmp_path: Path, ask: Any, path: str) -> None:
    url = f"http://api.example.com/{path}"
    with Http("record", tmp_path, recorded=["api.example.com"]):
        headers, text = ask(server.url, url, {})
    assert text.startswith("answer 1")
    for mode in ("replay", "offline"):
        with Http(mode, tmp_path, recorded=["api.example.com"]) as http:
            headers, again = ask(server.url, url, {})
        assert again == text
        assert headers["content-type"] == "text/plain"
        assert headers["content-length"] == str(len(text))
        assert "content-encoding" not in headers
        assert http.recording.unasked() == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("ask", CLIENTS)
def test_no_secret_of_an_address_stands_in_what_vcrpy_logs(
    server: Any, tmp_path: Path, ask: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse-battery")
    url = "http://api.example.com/plain?token=correct-horse-battery"
    caplog.set_level(logging.DEBUG)
    for mode in ("record", "replay"):
        with Http(mode, tmp_path, recorded=["api.example.com"]):
            ask(server.url, url, {})
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("vcr")]
    assert any("/plain?token=[redacted SHOP_TOKEN]" in line for line in lines)
    assert [line for line in lines if "correct-horse" in line or "headers" in line] == []
    assert [name for name in ("vcr", "vcr.cassette", "vcr.stubs") if logging.getLogger(name).filters] == []


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_live_host_and_this_machine_are_asked_live(server: Any, tmp_path: Path, ask: Any) -> None:
    places = ["http://shop.test/a", f"{server.url}/a"]
    for mode in ("record", "replay"):
        with Http(mode, tmp_path, live=["shop.test"]) as http:
            for place in places:
                ask(server.url, place, {})
        assert len(http.seen) == 2
        assert http.notes == []
    assert len(server.asked) == 4
    with Http("offline", tmp_path, live=["shop.test"]):
        answers = [ask(server.url, place, {})[1] for place in places]
        with pytest.raises(NeedsApplication, match="GET http://shop.test/a"):
            ask(server.url, places[0], {})
    assert [answer.split()[:2] for answer in answers] == [["answer", "1"], ["answer", "2"]]
    assert len(server.asked) == 4


@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_a_request_to_any_other_host_fails(server: Any, tmp_path: Path, ask: Any, mode: str) -> None:
    with Http(mode, tmp_path, recorded=["api.example.com"], live=["shop.test"]) as http:
        with pytest.raises(
            UndeclaredRequest, match="GET http://users.test/list leaves this machine in an? .*not declared"
        ):
            ask(server.url, "http://anna:word@users.test/list?key=hidden", {})
        assert isinstance(http.latch.error, UndeclaredRequest)
        assert not {"word", "hidden"} & set(http.latch.error.message.replace("=", " ").split())
    assert server.asked == []


def test_what_is_asked_while_recording_without_being_declared_is_noted_once(server: Any, tmp_path: Path) -> None:
    with Http("record", tmp_path, recorded=["api.example.com"]) as http:
        for place in ("http://users.test/a", "http://users.test/b", "http://api.example.com/", f"{server.url}/"):
            by_urllib(server.url, place, {})
    assert http.notes == [
        "asked while recording: users.test; declare it in cua_http_recorded or cua_http_live, or its replay fails"
    ]
    assert len(server.asked) == 4


@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize("mode", ["record", "replay", "offline"])
def test_a_request_to_a_model_past_our_middleware_fails(server: Any, tmp_path: Path, ask: Any, mode: str) -> None:
    for url, headers in (
        ("http://api.anthropic.com/v1/messages", {}),
        (f"{server.url}/v1/messages", {}),
        (f"http://127.0.0.1:{server.server_port}/elsewhere", {"Anthropic-Version": "2023-06-01"}),
    ):
        live = ["api.anthropic.com"]  # no leave for that
        with Http(mode, tmp_path, live=live, models=[f"{server.url}/v1"]) as http:
            with pytest.raises(UndeclaredRequest):
                ask(server.url, url, headers)
            error = http.latch.error
            assert error is not None
        what = "a client that was made before the test" if mode == "record" else "asked a model in a"
        assert what in error.message
        assert "make the client inside the test, or use cua.client" in error.hints[0]
        assert url in error.message
    assert server.asked == []
    with Http("replay", tmp_path, models=[f"{server.url}/v1"]):
        ask(server.url, f"{server.url}/v10/other", {})
    assert len(server.asked) == 1


def test_a_transport_inside_this_process_asks_nobody(tmp_path: Path) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text="inside")

    async def ask() -> str:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            return (await client.get("http://users.test/")).text

    with Http("replay", tmp_path) as http:
        with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
            assert client.get("http://users.test/").text == "inside"
        assert asyncio.run(ask()) == "inside"
        assert http.latch.error is None
        with pytest.raises(UndeclaredRequest):
            httpx2.get("http://users.test/")


# ------------------------------------------------------------------ our own middleware's requests


@contextlib.contextmanager
def asking() -> Iterator[None]:
    token = asking_model.set(True)
    try:
        yield
    finally:
        asking_model.reset(token)


def read_stream(server: Any) -> list[str]:
    lines = []
    with httpx2.Client(timeout=60) as client, client.stream("GET", f"{server.url}/events") as reply:
        for line in reply.iter_lines():
            if line:
                lines.append(line)
                server.read.set()
    return lines


def read_stream_in_asyncio(server: Any) -> list[str]:
    async def read() -> list[str]:
        lines = []
        async with httpx2.AsyncClient(timeout=60) as client, client.stream("GET", f"{server.url}/events") as reply:
            async for line in reply.aiter_lines():
                if line:
                    lines.append(line)
                    server.read.set()
        return lines

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_stream, read_stream_in_asyncio])
@pytest.mark.parametrize("mode", ["record", "replay"])
def test_what_our_middleware_asks_streams_and_is_not_kept(server: Any, tmp_path: Path, read: Any, mode: str) -> None:
    with Http(mode, tmp_path, models=[server.url]) as http, asking():
        assert read(server) == ["data: first", "data: last"]
    assert server.in_time, "the first event was held back until the last was sent"
    assert http.seen == http.notes == []
    assert digest_of(tmp_path / "http.yaml") is None


def test_our_middleware_may_ask_a_model_in_a_replay_and_others_may_not(server: Any, tmp_path: Path) -> None:
    class Client:
        base_url = server.url

    with Http("replay", tmp_path) as http:
        http.recording.allow_model(Client)
        with asking():
            audited("getaddrinfo", "api.anthropic.com", 443, 0, 0, 0)
            assert httpx2.get(f"{server.url}/v1/messages").text == "answer 1 to /v1/messages"
        assert http.latch.error is None
        with pytest.raises(UndeclaredRequest, match="asked a model in a replay"):
            httpx2.get(f"{server.url}/v1/messages")
        with pytest.raises(UndeclaredRequest, match="asked a model in a replay"):
            audited("getaddrinfo", "api.anthropic.com", 443, 0, 0, 0)


@pytest.mark.parametrize("ask", CLIENTS)
def test_by_whatever_client_our_middleware_asks_it_is_not_kept(server: Any, tmp_path: Path, ask: Any) -> None:
    with Http("record", tmp_path, models=[server.url]), asking():
        ask(server.url, f"{server.url}/v1/messages", {"anthropic-version": "2023-06-01"})
    assert len(server.asked) == 1
    assert digest_of(tmp_path / "http.yaml") is None


def test_a_streamed_answer_of_others_is_kept_whole(server: Any, tmp_path: Path) -> None:
    server.read.set()
    with Http("record", tmp_path, recorded=["127.0.0.1"]):
        lines = read_stream(server)
    with Http("replay", tmp_path, recorded=["127.0.0.1"]):
        assert read_stream(server) == lines == ["data: first", "data: last"]
    assert len(server.asked) == 1


def test_the_transports_are_as_before_afterwards(tmp_path: Path) -> None:
    kinds = (httpx2.HTTPTransport, httpx2.AsyncHTTPTransport, httpx2.MockTransport, httpx2.ASGITransport)
    before = [dict(vars(kind)) for kind in kinds]
    with Http("replay", tmp_path):
        assert [dict(vars(kind)) for kind in kinds] != before
    assert [dict(vars(kind)) for kind in kinds] == before


# ------------------------------------------------------------------ what is written


REPLY_HEADERS = {
    "Content-Type": "text/plain",
    "ETag": '"7"',
    "X-RateLimit-Remaining": "3",
    "WWW-Authenticate": 'Bearer realm="the realm", nonce="hidden-nonce"',
    "Set-Cookie": "hidden-cookie=1",
    "X-Request-Id": "hidden-id",
    "X-Shop-Page": "4",
    "X-Api-Key": "hidden-key",
}
REQUEST_HEADERS = {
    "Accept": "text/plain",
    "Authorization": "Bearer hidden-token",
    "Cookie": "hidden-cookie=2",
    "X-Api-Key": "hidden-key",
    "X-Unknown": "hidden-unknown",
    "X-Shop-Tenant": "anna",
}


@pytest.mark.parametrize("ask", CLIENTS)
def test_only_headers_that_are_known_to_be_harmless_are_written(server: Any, tmp_path: Path, ask: Any) -> None:
    server.headers.update(REPLY_HEADERS)
    with Http("record", tmp_path, recorded=["api.example.com"]):
        ask(server.url, "http://api.example.com/", REQUEST_HEADERS)
    kept = (tmp_path / FILE).read_text().lower()
    assert "hidden" not in kept
    assert "shop" not in kept
    assert "accept:\n" in kept
    for name in ("etag", "x-ratelimit-remaining", "www-authenticate"):
        assert f"{name}:\n" in kept
    assert "- bearer\n" in kept
    with Http("replay", tmp_path, recorded=["api.example.com"]):
        headers, _ = ask(server.url, "http://api.example.com/", REQUEST_HEADERS)
    assert (headers["etag"], headers["www-authenticate"]) == ('"7"', "Bearer")


def test_more_headers_are_written_where_they_are_asked_for(server: Any, tmp_path: Path) -> None:
    server.headers.update(REPLY_HEADERS)
    with Http("record", tmp_path, headers=("x-*", "www-authenticate")):
        by_urllib(server.url, f"{server.url}/", REQUEST_HEADERS)
    kept = (tmp_path / FILE).read_text().lower()
    for part in ("x-shop-tenant", "x-shop-page", "hidden-unknown", "hidden-id", "hidden-nonce"):
        assert part in kept
    for part in ("hidden-key", "hidden-token", "hidden-cookie"):
        assert part not in kept


def test_filter_headers_of_vcr_config_is_honoured(server: Any, tmp_path: Path) -> None:
    config = {"filter_headers": ["accept", ("authorization", "of nobody")]}
    with Http("record", tmp_path, config=config):
        by_urllib(server.url, f"{server.url}/", REQUEST_HEADERS)
    kept = (tmp_path / FILE).read_text().lower()
    assert "accept:" not in kept
    assert "- of nobody\n" in kept
    assert "hidden" not in kept


def test_what_is_packed_is_looked_through_for_secrets(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct-horse")
    with Http("record", tmp_path, recorded=["127.0.0.1"]):
        by_urllib(server.url, f"{server.url}/correct-horse/packed", {})
    assert "horse" not in (tmp_path / FILE).read_text()
    with Http("replay", tmp_path, recorded=["127.0.0.1"]):
        headers, text = by_urllib(server.url, f"{server.url}/correct-horse/packed", {})
    assert text.endswith("/correct-horse/packed")  # put back
    assert headers["content-length"] == str(len(text))


def test_a_name_and_password_before_the_host_are_not_written(server: Any, tmp_path: Path) -> None:
    url = f"http://anna:hidden@127.0.0.1:{server.server_port}/"
    with Http("record", tmp_path, recorded=["127.0.0.1"]):
        text = httpx2.get(url).text
    assert "hidden" not in (tmp_path / FILE).read_text()
    with Http("replay", tmp_path, recorded=["127.0.0.1"]):
        assert httpx2.get(url).text == text


def test_several_hooks_of_vcr_config_run_before_ours(server: Any, tmp_path: Path) -> None:
    def marked(request: Any) -> Any:
        request.headers["Accept"] = "marked"
        return request

    def shortened(response: Any) -> Any:
        response["body"]["string"] = b"short"
        return response

    config = {"before_record": [marked], "before_record_response": [shortened]}
    with Http("record", tmp_path, config=config, recorded=["127.0.0.1"]):
        by_urllib(server.url, f"{server.url}/", {})
    assert "- marked" in (tmp_path / FILE).read_text()
    with Http("replay", tmp_path, config=config, recorded=["127.0.0.1"]):
        headers, text = by_urllib(server.url, f"{server.url}/", {})
    assert (text, headers["content-length"]) == ("short", "5")


def test_the_digest_is_of_the_bytes(tmp_path: Path) -> None:
    assert digest_of(tmp_path / "http.yaml") is None
    (tmp_path / FILE).write_bytes(b"interactions: []\n")
    first = digest_of(tmp_path / "http.yaml")
    assert first is not None
    assert len(first) == 32
    (tmp_path / FILE).write_bytes(b"interactions: []\r\n")
    assert digest_of(tmp_path / "http.yaml") != first


# ------------------------------------------------------------------ a recording that has no answer


def replayed(server: Any, folder: Path, url: str, mode: str = "replay", **config: Any) -> CassetteMismatch:
    """The failure of a request that the recording cannot answer."""
    with Http(mode, folder, recorded=["api.example.com"], config=config) as http:
        with pytest.raises(CassetteMismatch) as raised:
            by_urllib(server.url, url, {})
        assert http.latch.error is raised.value
    assert any("record the test again: pytest --cua-mode=record test_a.py::test_a" in h for h in raised.value.hints)
    assert "vcrpy's words" in raised.value.message
    assert "'none'" in raised.value.message
    return raised.value


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_a_request_that_was_not_recorded_is_told_with_the_nearest_that_were(
    server: Any, tmp_path: Path, mode: str
) -> None:
    with Http("record", tmp_path, recorded=["api.example.com"]):
        for path in ("list?page=1", "list?page=2", "other"):
            by_urllib(server.url, f"http://api.example.com/{path}", {})
    message = replayed(server, tmp_path, "http://api.example.com/list?page=3", mode).message
    assert "GET http://api.example.com/list?page=3 was not recorded." in message
    assert "GET http://api.example.com/list?page=1 (query: " in message
    assert "api.example.com/other" not in message
    assert len(server.asked) == 3


@pytest.mark.parametrize("mode", ["replay", "offline"])
def test_a_recording_without_any_http_is_told(server: Any, tmp_path: Path, mode: str) -> None:
    message = replayed(server, tmp_path, "http://api.example.com/list", mode).message
    assert "was not recorded: there is no such file" in message
    assert str(tmp_path / FILE) in message
    assert server.asked == []


def test_a_request_that_is_made_once_more_than_recorded_is_told(server: Any, tmp_path: Path) -> None:
    with Http("record", tmp_path, recorded=["api.example.com"]):
        by_urllib(server.url, "http://api.example.com/", {})
    with Http("replay", tmp_path, recorded=["api.example.com"]):
        by_urllib(server.url, "http://api.example.com/", {})
        with pytest.raises(CassetteMismatch, match="was recorded once, and is asked once more") as raised:
            by_urllib(server.url, "http://api.example.com/", {})
    assert "allow_playback_repeats" in raised.value.hints[1]
    with Http("replay", tmp_path, recorded=["api.example.com"], config={"allow_playback_repeats": True}):
        for _ in range(3):
            by_urllib(server.url, "http://api.example.com/", {})


def test_what_was_recorded_and_not_asked_for_is_listed(server: Any, tmp_path: Path) -> None:
    recorded = ["api.example.com"]
    with Http("record", tmp_path, recorded=recorded) as http:
        for path in "abcde":
            by_urllib(server.url, f"http://api.example.com/{path}", {})
        by_urllib(server.url, f"{server.url}/here", {})
    assert http.recording.unasked() == []
    for mode in ("replay", "offline"):
        with Http(mode, tmp_path, recorded=recorded) as http:
            by_urllib(server.url, "http://api.example.com/b", {})
        (line,) = http.recording.unasked()
        first = ", ".join(f"GET http://api.example.com/{path}" for path in "acd")
        assert line == f"test_a.py::test_a: recorded in {FILE} and not asked for: {first} and 1 more"


@pytest.mark.parametrize("given", ["once", "new_episodes"])
def test_a_record_mode_of_vcr_config_is_noted(tmp_path: Path, given: str) -> None:
    with Http("replay", tmp_path, config={"record_mode": given}) as http:
        pass
    (note,) = http.notes
    assert note.startswith(
        f"vcr_config: record_mode={given!r} has no effect; --cua-mode says it, in its words record-m"
    )


def test_a_client_that_outlives_its_test_asks_as_without_us(server: Any, tmp_path: Path) -> None:
    import http.client

    with Http("replay", tmp_path) as http_recording:
        kept = http.client.HTTPConnection("127.0.0.1", server.server_port)
        kept.request("GET", "/", headers={"anthropic-version": "1"})
    assert kept.getresponse().read().startswith(b"answer 1")
    kept.close()
    audited("getaddrinfo", "api.example.com", 443, 0, 0, 0)
    assert http_recording.latch.error is None
