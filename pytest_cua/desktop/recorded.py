"""A desktop that does not run: what a test reads of it comes from a recording."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pytest_cua.desktop.files import DesktopFile, RecordedStore
from pytest_cua.desktop.isolation import HOME_INSIDE, words
from pytest_cua.desktop.observer import Observer
from pytest_cua.desktop.stillness import Stillness
from pytest_cua.desktop.windows import Window
from pytest_cua.errors import NeedsApplication

if TYPE_CHECKING:
    from PIL.Image import Image


class RecordedProgram:
    """Stands for a program that was launched while recording. It does not run; touching it needs the application."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv

    def __repr__(self) -> str:
        return f"RecordedProgram({' '.join(self.argv)!r})"

    @property
    def pid(self) -> int:
        """Raises NeedsApplication."""
        self._needs("pid")

    @property
    def log(self) -> Path:
        """Raises NeedsApplication."""
        self._needs("log")

    @property
    def window(self) -> Window | None:
        """Raises NeedsApplication."""
        self._needs("window")

    @property
    def returncode(self) -> int | None:
        """Raises NeedsApplication."""
        self._needs("returncode")

    def running(self) -> bool:
        """Raises NeedsApplication."""
        self._needs("running()")

    def wait(self, timeout: float = 30_000) -> int:
        """Raises NeedsApplication."""
        self._needs("wait()")

    def output(self) -> str:
        """Raises NeedsApplication."""
        self._needs("output()")

    def terminate(self) -> None:
        """Does nothing: there is nothing to end."""

    def kill(self) -> None:
        """Does nothing: there is nothing to end."""

    def _needs(self, what: str) -> NoReturn:
        raise NeedsApplication(f"launch({self.argv[0]!r}).{what} needs the application")


class RecordedPage:
    """Stands for a browser's page, of which nothing was recorded: touching it needs the application."""

    def __repr__(self) -> str:
        return "RecordedPage()"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what Python and pytest ask of any object
            raise AttributeError(name)
        _needs(f"browser() -> page.{name}")


class RecordedDesktop:
    """Has the surface of `Desktop`, and no application.

    Args:
        observer: Answers readings from the recording. It gets a `read` that raises NeedsApplication.
        name: Of this desktop among several.
        size: Width and height of the screen in pixels.
    """

    is_live: Final = False
    display: Final = ""
    isolation: Final = "recorded"
    home_inside: Final = HOME_INSIDE

    def __init__(self, observer: Observer, name: str = "1", size: tuple[int, int] = (1280, 800)) -> None:
        self.name = name
        self.size = size
        self._store = RecordedStore(observer)

    def __enter__(self) -> RecordedDesktop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RecordedDesktop({self.name!r})"

    @property
    def observer(self) -> Observer:
        """Answers readings from the recording."""
        return self._store.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._store.observer = observer

    @property
    def home(self) -> Path:
        """Raises NeedsApplication."""
        _needs("home")

    @property
    def root(self) -> Path:
        """Raises NeedsApplication."""
        _needs("root")

    @property
    def pointer(self) -> Any:
        """Raises NeedsApplication."""
        _needs("pointer")

    @property
    def keyboard(self) -> Any:
        """Raises NeedsApplication."""
        _needs("keyboard")

    def launch(
        self,
        program: str | os.PathLike[str],
        *args: object,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        wait: bool = True,
        timeout: float = 30_000,
    ) -> RecordedProgram:
        """Start nothing, and return what stands for the program.

        Raises:
            BadArgument: an argument that a live desktop would refuse too.
        """
        return RecordedProgram(words([program, *args]))

    def screenshot(self) -> Image:
        """The screen as it was recorded."""
        return self.observer.observe("screenshot", "", lambda: _needs("screenshot()"))

    def windows(self) -> list[Window]:
        """The windows as they were recorded."""
        return self.observer.observe("windows", "", lambda: _needs("windows()"))

    def file(self, path: str | os.PathLike[str]) -> DesktopFile:
        """A file. Reading it gives what was recorded, writing it does nothing.

        Raises:
            BadArgument: the path leaves HOME by "..".
        """
        return DesktopFile(os.fspath(path), self._store)

    def wait_until_still(self, *, quiet: float = 150, timeout: float = 10_000) -> Stillness:
        """Return at once: nothing moves here."""
        return Stillness(True, 0.0)

    server_version: Final = ""

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Nothing: there are no files."""
        return {}

    def capture(self) -> Image:
        """Raises NeedsApplication."""
        _needs("capture()")

    def read_windows(self) -> list[Window]:
        """Raises NeedsApplication."""
        _needs("read_windows()")

    def browser(self, url: str | None = None, *, timeout: float = 30_000) -> Any:
        """Start nothing, and return what stands for the page; touching it needs the application."""
        return RecordedPage()

    def processes(self) -> list[tuple[int, list[str]]]:
        """Raises NeedsApplication."""
        _needs("processes()")

    def start_shell(self, mark: str = "") -> Any:
        """Raises NeedsApplication."""
        _needs("start_shell()")

    def find_shell(self, shell: Any) -> Any:
        """Raises NeedsApplication."""
        _needs("find_shell()")

    def release_input(self) -> None:
        """Do nothing: no key is down."""

    def check_alive(self) -> None:
        """Do nothing: it cannot die."""

    def close(self) -> None:
        """Do nothing."""


def _needs(what: str) -> NoReturn:
    raise NeedsApplication(f"desktop.{what} needs the application")
