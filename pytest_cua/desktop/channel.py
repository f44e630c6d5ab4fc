"""Lines of JSON over a socket: how runner, holder and spawner talk."""

from __future__ import annotations

import json
import socket
from typing import Any


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """One end of a socket pair. Not safe for threads: the owner locks."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            ChannelClosed: the other side is gone.
        """
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        """Pass on a message as it was received."""
        try:
            self._socket.sendall(line + b"\n")
        except OSError as error:
            raise ChannelClosed from error

    def receive_lines(self) -> list[bytes]:
        """Read once, which blocks when nothing is there, and return the lines that are complete.

        Raises:
            ChannelClosed: the other side is gone.
        """
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise ChannelClosed from error
        if not data:
            raise ChannelClosed
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return lines

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
