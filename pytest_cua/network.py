"""What a replay may ask: this machine, and the hosts that are declared. Anything else fails the test.

Two places look. vcrpy's patches see HTTP requests as such (`cassette.http`), whatever way they would take. The guard
here sees sockets, so it also sees what vcrpy does not know: databases, sockets of one's own, other clients.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Literal, NoReturn
from unittest import mock
from urllib.parse import urlsplit

from pytest_cua.errors import CuaFailure, UndeclaredRequest

Mode = Literal["record", "replay", "offline"]
Side = Literal["here", "recorded", "live", "undeclared"]
MODEL_HOST = "api.anthropic.com"
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


# ------------------------------------------------------------------ hosts


def is_loopback(host: str) -> bool:
    """Whether the host, a name or an address, is this machine's loopback, or the address of no host in particular."""
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_this_machine(host: str) -> bool:
    """Whether the host is this machine, by whatever name or address."""
    if not host or is_loopback(host):
        return True
    address = _address(host)
    if address is None:
        own = socket.gethostname().lower()
        return host in (own, own.partition(".")[0])
    return _can_be_bound(address)


def _can_be_bound(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    # the kernel lets a socket take an address of this machine, or of everybody, and no other; nothing is asked for that
    if address.is_multicast or str(address) == "255.255.255.255":
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _host(value: Any) -> str:
    """The host as the socket module takes it: text, bytes, or None for this machine."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("ascii", "replace")
    return str(value or "").lower().rstrip(".")


def split_place(entry: str) -> tuple[str, int | None]:
    """A declared host and its port: `api.example.com`, `*.example.com:8443`, `10.0.0.7`, `[fd00::7]:5432`."""
    entry = entry.lower()
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        host, port = entry, ""
    return host.rstrip("."), int(port) if port else None


def place_of(url: str) -> str:
    """The `host:port` of a URL, as requests name it."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}"


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The hosts that a test has declared, and those of a model.

    Attributes:
        recorded: `cua_http_recorded`, answered from the recording.
        live: `cua_http_live`, part of the application.
        models: Base URLs under which a model answers, besides `api.anthropic.com`.
    """

    recorded: Sequence[str] = ()
    live: Sequence[str] = ()
    models: Sequence[str] = ()

    def side(self, host: str, port: int | None) -> Side:
        """Where a request to the host belongs; a port that is not known fits every port."""
        if _declared(self.recorded, host, port):
            return "recorded"  # also on this machine, if it is asked for
        if _declared(self.live, host, port):
            return "live"
        return "here" if is_this_machine(host) else "undeclared"

    def is_model(self, url: str, headers: Mapping[str, Any]) -> bool:
        """Whether the request is one to a model."""
        if "anthropic-version" in headers or urlsplit(url).hostname == MODEL_HOST:
            return True
        return any(_is_below(url, base) for base in self.models)

    def is_model_host(self, host: str) -> bool:
        """Whether nothing but a model is known to answer there."""
        bases = [urlsplit(base) for base in self.models]
        return any(base.hostname == host and base.path in ("", "/") for base in bases)


def _is_below(url: str, base: str) -> bool:
    path = urlsplit(base).path.rstrip("/")  # a gateway may serve other things beside the model
    return place_of(url) == place_of(base) and (urlsplit(url).path + "/").startswith(f"{path}/")


def _declared(entries: Sequence[str], host: str, port: int | None) -> bool:
    for name, at in map(split_place, entries):
        if at is not None and port is not None and at != port:
            continue
        if name == host or (name.startswith("*.") and host.endswith(name[1:])):
            return True
        if (address := _address(name)) is not None and address == _address(host):
            return True
    return False


# ------------------------------------------------------------------ what is said


def undeclared(mode: Mode, what: str, host: str) -> UndeclaredRequest:
    """The failure of a request to a host that nobody has declared."""
    return UndeclaredRequest(
        f"{what} leaves this machine in {_a(mode)}, and {host} is not declared{_asked_by()}.",
        f"add {host} to cua_http_recorded, and it is answered from the recording",
        "or to cua_http_live, and it is asked live wherever there is a desktop: it belongs to the application",
    )


def past_the_recording(mode: Mode, what: str, host: str) -> UndeclaredRequest:
    """The failure of a connection to a host that the recording answers for."""
    return UndeclaredRequest(
        f"{what} leaves this machine in {_a(mode)}. cua_http_recorded names {host}, so the recording answers for it, "
        f"but this did not come by a client that vcrpy sees{_asked_by()}.",
        "ask with a client that vcrpy knows (urllib, requests, httpx, aiohttp), and do not let vcr_config pass it over",
        f"or move {host} to cua_http_live, and it is asked live wherever there is a desktop",
    )


def asked_model(mode: Mode, what: str) -> UndeclaredRequest:
    """The failure of a request to a model that does not come through our middleware."""
    if mode == "record":
        return UndeclaredRequest(
            f"{what} asks a model with a client that was made before the test, so it cannot be recorded{_asked_by()}.",
            "make the client inside the test, or use cua.client",
        )
    return UndeclaredRequest(
        f"{what} asked a model in {_a(mode)}{_asked_by()}.",
        "make the client inside the test, or use cua.client: then it is recorded, and answered from the cassette",
    )


def _a(mode: Mode) -> str:
    return "an offline run" if mode == "offline" else f"a {mode}"


def _asked_by() -> str:
    name = threading.current_thread().name
    return "" if name == "MainThread" else f" (asked by the thread {name!r})"


# ------------------------------------------------------------------ the guard

# An audit hook (PEP 578) sees every lookup and connection of this process, in C code of the socket module itself: from
# any thread, any event loop, through names that were imported or methods that were bound before the test. A patched
# `socket.socket` misses all of these, and is itself taken for the real one by whatever subclasses or saves it in the
# meantime. A hook cannot be taken out again, so it is put in once, when a replay first needs it, and the list of
# open guards is what switches it on. One thing it sees too late: a name that is given to `connect` itself is resolved
# before the event, so `connect` is wrapped as well, for as long as a guard is open. Neither a hook nor a patch sees
# child processes: what the application may reach is the desktop's isolation (`cua_isolation = no-network`). Nor are C
# libraries seen that open sockets of their own.
_EVENTS = frozenset(
    {
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.sendto",
        "socket.sendmsg",
    }
)
_open: list[Guard] = []  # the innermost is that of the test that runs now
_installed: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS:
        return
    for guard in _open[-1:]:  # a slice: another thread may end the test meanwhile
        guard.see(event, arguments)


def _looking_first(connect: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(connect)
    def looked(sock: socket.socket, address: Any) -> Any:
        _hook("socket.connect", (sock, address))
        return connect(sock, address)

    return looked


class Guard:
    """Refuses connections that a replay may not make, from its start to its end.

    A connection shows an address, not the name that was looked up for it, and the answer of a lookup cannot be seen; so
    once a declared name was looked up, addresses are let through that are declared nowhere. A name never is.

    Args:
        mode: "replay" or "offline".
        hosts: What is declared.
        fail: Keeps a failure, so that no `except` hides it, and gives back what to raise.
        on_missing: Called in `offline` with what was asked of the application.
        is_ours: Whether what is asked now is asked by ourselves, as when a replayed test records a flow.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        hosts: Hosts,
        fail: Callable[[CuaFailure], CuaFailure],
        on_missing: Callable[[str], NoReturn],
        is_ours: Callable[[], bool] = lambda: False,
    ) -> None:
        self._mode = mode
        self._hosts = hosts
        self._fail = fail
        self._on_missing = on_missing
        self._is_ours = is_ours
        self._looked_up = False
        self._wrapped = ExitStack()
        # who reaches the application through a proxy asks for the proxy; HTTP through it is seen by vcrpy's patches
        self._proxies = _proxies() if hosts.live and mode == "replay" else ()

    def start(self) -> None:
        """From now on refuse."""
        if not _installed:
            _installed.append(True)
            sys.addaudithook(_hook)
        for name in ("connect", "connect_ex"):
            wrapped = _looking_first(getattr(socket.socket, name))
            self._wrapped.enter_context(mock.patch.object(socket.socket, name, wrapped))
        _open.append(self)

    def stop(self) -> None:
        """Refuse no more; what threads of the test still ask belongs to no test."""
        if self in _open:
            _open.remove(self)
        self._wrapped.close()

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Judge one event of the socket module.

        Raises:
            UndeclaredRequest: It may not be.
            NeedsApplication: `offline`, and it is part of the application.
        """
        if self._is_ours():
            return
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            sock, address = arguments[:2]
            if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
                return
            host, port = _host(address[0]), address[1]
            self._judge(f"A connection to {host}:{port}", host, port)
            return
        host = _host(arguments[0])
        port = str(arguments[1]) if event == "socket.getaddrinfo" else ""
        self._judge(f"A lookup of {host}", host, int(port) if port.isdecimal() and port != "0" else None)

    def _judge(self, what: str, host: str, port: int | None) -> None:
        side = self._hosts.side(host, port)
        if side == "here" or (side == "recorded" and is_this_machine(host)):
            return
        if host == MODEL_HOST or (side != "live" and self._hosts.is_model_host(host)):
            raise self._fail(asked_model(self._mode, what))
        if side == "recorded":
            raise self._fail(past_the_recording(self._mode, what, host))
        if side == "live" and self._mode == "offline":
            self._on_missing(what)
        is_name = _address(host) is None
        if side == "live" or host in self._proxies:
            self._looked_up |= is_name
            return
        if is_name or not self._looked_up:
            raise self._fail(undeclared(self._mode, what, host))


def _proxies() -> tuple[str, ...]:
    values = [os.environ.get(name) or os.environ.get(name.lower()) or "" for name in _PROXIES]
    return tuple(_host(urlsplit(value if "//" in value else f"//{value}").hostname) for value in values if value)
