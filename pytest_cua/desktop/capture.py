"""Pictures of the screen, over shared memory, in this process. The pointer is never in them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from PIL import Image
from Xlib import X

from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.link import Link


class Screen:
    """Takes pictures of one display.

    Args:
        connection: Used where shared memory is not to be had.
        link: Is asked why when the server is gone.
        size: Width and height in pixels.
    """

    def __init__(self, connection: Connection, link: Link, size: tuple[int, int]) -> None:
        self._connection = connection
        self._link = link
        self.size = size
        self._mutex = threading.Lock()
        self._grabber = self._open()

    def pixels(self) -> bytes:
        """The screen now: rows from the top, four bytes a pixel: blue, green, red, unused.

        Raises:
            DesktopDied: the server is gone.
        """
        with self._mutex:
            self._link.check_open()
            if self._grabber is None:
                return self._slow_pixels()
            width, height = self.size
            try:
                return bytes(self._grabber.grab({"left": 0, "top": 0, "width": width, "height": height}).bgra)
            except Exception as failure:  # mss has many; all of them here mean a server that is gone
                self._link.check_alive()
                self._link.die(f"its X server gave no picture ({failure})")

    def image(self) -> Image.Image:
        """The screen now, as an RGB picture."""
        return image_of(self.pixels(), self.size)

    def close(self) -> None:
        """Give back the shared memory."""
        with self._mutex, contextlib.suppress(Exception):
            if self._grabber is not None:
                self._grabber.close()

    def _open(self) -> Any:
        import mss

        try:
            return mss.MSS(display=f":{self._connection.number}")
        except Exception:  # no libxcb, for instance
            self._link.check_alive()
            return None

    def _slow_pixels(self) -> bytes:
        with self._connection.use():
            return bytes(self._connection.root.get_image(0, 0, *self.size, X.ZPixmap, 0xFFFFFFFF).data)


def image_of(pixels: bytes, size: tuple[int, int]) -> Image.Image:
    """The picture that `Screen.pixels` means."""
    return Image.frombuffer("RGB", size, pixels, "raw", "BGRX", 0, 1)
