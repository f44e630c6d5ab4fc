"""A browser on the desktop, driven by input like any program and looked into with Playwright."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_cua.desktop.waiting import wait_for
from pytest_cua.errors import LaunchFailed, MissingProgram, SetupError

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from pytest_cua.desktop.program import Program

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: Quiet, and the same pixels at every run. The page covers the screen: its coordinates are those of the screen.
_FLAGS: Final = (
    "--kiosk",
    "--no-sandbox",  # it is inside bubblewrap, and as root it would not start otherwise
    "--test-type",  # no bar that warns of --no-sandbox
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,CertificateTransparencyComponentUpdater",
    "--disable-session-crashed-bubble",
    "--hide-crash-restore-bubble",
    "--password-store=basic",
    "--use-mock-keychain",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--disable-smooth-scrolling",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
)


#: Resolves after two frames: a page that is loaded may still be white on the screen.
_PAINTED: Final = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


class Browsers:
    """The browsers of one desktop, and the Playwright connections to them.

    Args:
        launch: Starts a program on the desktop and waits for its window.
        home: HOME on the host.
        home_inside: HOME as programs see it.
    """

    def __init__(self, launch: Callable[..., Program], home: Path, home_inside: str) -> None:
        self._launch = launch
        self._home = home
        self._home_inside = home_inside
        self._count = 0
        self._connections: list[Any] = []
        self._uses_playwright = False

    def open(self, url: str | None, timeout: float) -> Page:
        """Start a browser with a profile of its own and return its page.

        Args:
            url: What it shows; None is an empty page.
            timeout: Milliseconds for all of it.

        Raises:
            MissingProgram: no Chromium is installed.
            LaunchFailed: it did not start, or did not let itself be looked into.
        """
        executable = next(filter(None, map(shutil.which, _BROWSERS)), None)
        if executable is None:
            raise MissingProgram(
                "desktop.browser() needs Chromium, which is not installed.", "apt-get install chromium"
            )
        self._count += 1
        profile = f".chromium-{self._count}"
        program = self._launch(
            executable, f"--user-data-dir={self._home_inside}/{profile}", *_FLAGS, "about:blank", timeout=timeout
        )
        port = wait_for(lambda: _read_port(self._home / profile / "DevToolsActivePort"), timeout)
        if port is None:
            raise LaunchFailed(f"{executable} opened no port to look into it. Its output:\n{program.output()[-2000:]}")
        page = self._attach(port, timeout)
        page.set_default_timeout(timeout)
        if url is not None:
            page.goto(url, timeout=timeout)
        page.bring_to_front()
        page.evaluate(_PAINTED)
        return page

    def close(self) -> None:
        """Disconnect from all browsers."""
        for connection in self._connections:
            with contextlib.suppress(Exception):  # the browser may be gone already
                connection.close()
        self._connections.clear()
        if self._uses_playwright:
            self._uses_playwright = False
            _playwright.release()

    def _attach(self, port: int, timeout: float) -> Page:
        if not self._uses_playwright:
            _playwright.acquire()
            self._uses_playwright = True
        connection = _playwright.driver.chromium.connect_over_cdp(f"http://127.0.0.1:{port}", timeout=timeout)
        self._connections.append(connection)
        context = connection.contexts[0]
        page: Page = context.pages[0] if context.pages else context.new_page()
        return page


class _Playwright:
    """The one Playwright of this process: a second one in the same thread is refused by it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._users = 0
        self._manager: Any = None
        self.driver: Any = None

    def acquire(self) -> None:
        with self._mutex:
            if self.driver is None:
                from playwright.sync_api import sync_playwright

                try:
                    self.driver = sync_playwright().start()
                except Exception as error:
                    raise SetupError(
                        f"Playwright did not start: {error}",
                        "a test that uses desktop.browser() cannot use the fixtures of pytest-playwright as well",
                    ) from error
            self._users += 1

    def release(self) -> None:
        with self._mutex:
            self._users -= 1
            if self._users == 0:
                driver, self.driver = self.driver, None
                with contextlib.suppress(Exception):
                    driver.stop()


_playwright = _Playwright()


def _read_port(file: Path) -> int | None:
    try:
        return int(file.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
