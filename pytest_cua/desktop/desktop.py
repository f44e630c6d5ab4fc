"""A running virtual desktop: programs, pixels, windows, files, input."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_cua.desktop import isolation, shell, trees
from pytest_cua.desktop.browser import Browsers
from pytest_cua.desktop.capture import Screen
from pytest_cua.desktop.commands import CommandShell, ShellId
from pytest_cua.desktop.connection import Connection
from pytest_cua.desktop.files import DesktopFile, LiveStore, set_times, stamps
from pytest_cua.desktop.keyboard import Keyboard
from pytest_cua.desktop.link import Link, discard, tail
from pytest_cua.desktop.masks import Masks
from pytest_cua.desktop.observer import DirectObserver, Observer
from pytest_cua.desktop.pointer import Pointer
from pytest_cua.desktop.program import Launcher, Program
from pytest_cua.desktop.stillness import Stillness, StillnessWatch
from pytest_cua.desktop.waiting import now_ms
from pytest_cua.desktop.windows import Window, WindowReader

__all__ = ["Desktop", "DesktopConfig", "DesktopFile", "Program", "Stillness", "Window"]
from pytest_cua.errors import BadArgument, SetupError

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.sync_api import Page

#: Milliseconds for the screen to become still after a window has opened; one that moves for ever is no error.
_SETTLE_TIMEOUT: Final = 5_000.0
#: Milliseconds after which a panel that does not show itself is started again: seen once in a thousand starts.
_PANEL_PATIENCE: Final = 3_000.0
#: Milliseconds for the first try of a start; the rest of the time is for a second.
_FIRST_TRY: Final = 6_000.0
#: Files of `data/` and their places in the configuration directory.
_CONFIGURATION: Final = {
    "fonts.conf": "fonts.conf",
    "openbox.xml": "openbox.xml",
    "tint2rc": "tint2rc",
    "Xresources": "Xresources",
    "gtkrc-2.0": "gtkrc-2.0",
    "gtk-settings.ini": "xdg/gtk-3.0/settings.ini",
}


@dataclass(frozen=True)
class DesktopConfig:
    """How a desktop shall be.

    Args:
        size: Width and height of the screen in pixels.
        shell: "openbox" or "mutter".
        isolation: "auto" (bubblewrap if it works here), "bubblewrap", "no-network" or "process-group".
        gl: Whether programs may use GLX, rendered in software.
        locale: LANG of programs.
        timezone: TZ of programs.
        home: Directory whose contents HOME starts with.
        expose: Directories that programs may see, read-only, although their parents are hidden.
        start_timeout: Milliseconds for the desktop to start.
        outlive: Seconds that the desktop waits for another runner (`Desktop.attach`) when its own ends without closing
            it; with 0 it ends with its runner.
    """

    size: tuple[int, int] = (1280, 800)
    shell: str = "openbox"
    isolation: str = "auto"
    gl: bool = False
    locale: str = "C.UTF-8"
    timezone: str = "UTC"
    home: Path | None = None
    expose: tuple[Path, ...] = ()
    start_timeout: float = 15_000
    outlive: float = 0


class Desktop:
    """A running desktop. Get one with `Desktop.start()`; it is also a context manager."""

    is_live: Final = True

    def __init__(
        self, config: DesktopConfig, link: Link, chosen: isolation.Isolation, name: str, observer: Observer
    ) -> None:
        ready = link.ready
        assert ready is not None
        self.name = name
        self.config = config
        self.size = config.size
        self.display = f":{ready['display']}"
        self.home = link.root / "home"
        self.home_inside: str = ready["home"]
        self.isolation = str(chosen)
        self._link = link
        connection = Connection(ready["display"], link)
        watching = Connection(ready["display"], link)
        self._screen = Screen(connection, link, config.size)
        self._stillness = StillnessWatch(watching, self._screen)
        self._windows = WindowReader(connection)
        self._launcher = Launcher(link, self._windows, self.home)
        self._store = LiveStore(self.home, self.home_inside, _view(chosen, ready), observer)
        self._browsers = Browsers(self.launch, self.home, self.home_inside)
        self._masks = Masks(
            self._windows, self._screen.image, lambda quiet: self.wait_until_still(quiet=quiet, timeout=_SETTLE_TIMEOUT)
        )
        self.keyboard = Keyboard(connection, lambda: self.wait_until_still(quiet=300), self._masks.hiding)
        self.pointer = Pointer(connection, self.keyboard, config.size)
        parts = (self._screen, watching, connection)
        self._finalizer = weakref.finalize(self, _let_go if config.outlive else _close, link, parts)

    @classmethod
    def start(
        cls, config: DesktopConfig | None = None, *, observer: Observer | None = None, name: str = "1"
    ) -> Desktop:
        """Start a desktop and wait until its panel is drawn.

        Args:
            config: How it shall be.
            observer: Hook that everything a test reads goes through.
            name: Of this desktop among several.

        Raises:
            MissingProgram: a program of the desktop is not installed.
            SetupError: it did not start, or the isolation asked for cannot be had.
            BadArgument: a setting that cannot be meant.
        """
        config = config or DesktopConfig()
        _check(config)
        chosen = isolation.choose(config.isolation)
        expose = isolation.check_exposed(config.expose)
        for abandoned in trees.abandoned():
            discard(abandoned)
        start = now_ms()
        end = start + config.start_timeout
        for limit in (min(start + _FIRST_TRY, end), end):
            try:
                return cls._start_once(
                    config, chosen, expose, observer=observer or DirectObserver(), name=name, end=limit
                )
            except _PanelMissing as error:
                # about one start in some hundred on a loaded machine: the panel never shows, not even started again;
                # another display gets another one
                if limit == end:
                    raise SetupError(error.message, *error.hints) from None
        raise AssertionError("unreachable")

    @classmethod
    def attach(cls, desktop: str | os.PathLike[str], *, observer: Observer | None = None) -> Desktop:
        """Become the runner of a desktop that has outlived its own.

        Keys and buttons that are down are released. What was masked while a secret was typed is no longer known.

        Args:
            desktop: Its directory (`desktop.root`), the name of that, or the name that it was started with.
            observer: Hook that everything a test reads goes through.

        Raises:
            SetupError: it is gone, ends with its runner, or has a runner.
            BadArgument: several have this name.
        """
        link, about = Link.attach(_root_of(desktop))
        try:
            config, chosen = _config_of(about)
            attached = cls(config, link, chosen, about["name"], observer or DirectObserver())
            attached.release_input()
        except BaseException:
            link.let_go()
            raise
        return attached

    @classmethod
    def _start_once(
        cls,
        config: DesktopConfig,
        chosen: isolation.Isolation,
        expose: list[Path],
        *,
        observer: Observer,
        name: str,
        end: float,
    ) -> Desktop:
        """Start a desktop until the time `end`, or leave nothing of it."""
        root, lock = trees.make()
        link = None
        try:
            _write_configuration(root)
            _seed_home(root / "home", config.home)
            if config.outlive:
                trees.set_name(root, name)
            order = {**_order(config, chosen, expose), "about": _about(config, chosen, name)}
            link = Link.start(root, lock, order)
            link.wait_until_ready(end - now_ms())
            desktop = cls(config, link, chosen, name, observer)
            desktop._wait_for_shell(end)
        except BaseException:
            if link is not None:
                link.close()
            else:
                discard(root)
                os.close(lock)
            raise
        return desktop

    def __enter__(self) -> Desktop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Desktop({self.name!r}, display={self.display!r})"

    @property
    def root(self) -> Path:
        """The directory of the desktop on the host."""
        return self._link.root

    @property
    def observer(self) -> Observer:
        """The hook that everything a test reads goes through."""
        return self._store.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._store.observer = observer

    def launch(
        self,
        program: str | os.PathLike[str],
        *args: object,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        wait: bool = True,
        timeout: float = 30_000,
    ) -> Program:
        """Start a program and wait until its window is there, has the keyboard, and the screen is still.

        Args:
            program: Its name or path.
            args: Its arguments; paths are passed as text.
            env: Additions to its environment.
            cwd: Where it starts, relative to HOME; HOME by default.
            wait: Whether to wait at all.
            timeout: Milliseconds for its window to open.

        Raises:
            MissingProgram: it is not installed.
            LaunchFailed: it ended, or opened no window in time.
            BadArgument: something that is no argument, variable or directory.
            DesktopDied: the desktop is gone.
        """
        before = self._windows.mark()
        started = self._launcher.start([program, *args], env, cwd)
        if not wait:
            return started
        window = self._launcher.window_of(started, before, timeout)
        self.wait_until_still(timeout=_SETTLE_TIMEOUT)
        # titles often come after the window
        started.window = self._windows.one(window.id) or window
        return started

    def screenshot(self) -> Image:
        """The screen now, as an RGB picture without the pointer. A test reads it, so it is an observation.

        What changed while a secret was typed is painted over in grey.

        Raises:
            DesktopDied: the desktop is gone.
        """
        return self.observer.observe("screenshot", "", self.capture)

    @property
    def server_version(self) -> str:
        """Vendor and version of the X server, such as "The X.Org Foundation 21.1.7"."""
        with self._windows._connection.use() as display:
            vendor, release = display.display.info.vendor, display.display.info.release_number
        parts = [release // 10_000_000, release // 100_000 % 100, release // 1000 % 100]  # as xdpyinfo reads it
        return f"{vendor} {'.'.join(map(str, parts))}"

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of every file of HOME that is not hidden; the test's own reading is `file()`."""
        return stamps(self.home)

    def capture(self) -> Image:
        """The screen now, as an RGB picture without the pointer, for tools.

        What changed while a secret was typed is painted over in grey; `pytest_cua.desktop.masks.masks_of` tells where.

        Raises:
            DesktopDied: the desktop is gone.
        """
        return self._masks.capture()

    def windows(self) -> list[Window]:
        """The windows from bottom to top, without the panel. A test reads them, so it is an observation.

        Raises:
            DesktopDied: the desktop is gone.
        """
        return self.observer.observe("windows", "", self.read_windows)

    def read_windows(self) -> list[Window]:
        """The windows from bottom to top, without the panel, for tools.

        Raises:
            DesktopDied: the desktop is gone.
        """
        return self._windows.read()

    def file(self, path: str | os.PathLike[str]) -> DesktopFile:
        """A file of the desktop, whether it exists or not.

        Args:
            path: Relative to HOME. Absolute paths are as programs see them; outside HOME they can only be read.

        Raises:
            BadArgument: the path leaves HOME by "..".
        """
        return DesktopFile(os.fspath(path), self._store)

    def wait_until_still(self, *, quiet: float = 150, timeout: float = 10_000) -> Stillness:
        """Wait until the program with the keyboard has read its input and no pixel has changed for a while.

        Args:
            quiet: Milliseconds without a change, counted from now at the earliest.
            timeout: Milliseconds after which to give up, which is no error.

        Raises:
            DesktopDied: the desktop is gone.
        """
        start = now_ms()
        left = self._masks.left_over()
        # a program that still works off its input may show nothing of it for a while
        has_read = self._windows.wait_until_read(timeout)
        stillness = self._stillness.wait(quiet=quiet, timeout=max(0.0, start + timeout - now_ms()))
        if stillness.still:
            self._masks.forget(left)
        return Stillness(has_read and stillness.still, now_ms() - start)

    def browser(self, url: str | None = None, *, timeout: float = 30_000) -> Page:
        """Start Chromium with a fresh profile, covering the screen, and return its page for Playwright.

        Coordinates of the page are coordinates of the screen.

        Args:
            url: What it shows.
            timeout: Milliseconds for all of it.

        Raises:
            MissingProgram: no Chromium is installed.
            LaunchFailed: it did not start.
            SetupError: the desktop has no network in common with this process, or Playwright did not start.
        """
        if self.isolation == str(isolation.Isolation("no-network")):
            raise SetupError(
                'desktop.browser() cannot look into a browser on a desktop with isolation="no-network".',
                'use isolation="bubblewrap", or launch("chromium", ...) and look at the screen',
            )
        page = self._browsers.open(url, timeout)
        self.wait_until_still(timeout=timeout)
        return page

    def processes(self) -> list[tuple[int, list[str]]]:
        """What runs on the desktop besides its shell: the process and its command line.

        Raises:
            DesktopDied: the desktop is gone.
        """
        return [(pid, argv) for pid, argv in self._link.request("processes")["processes"]]

    def start_shell(self, mark: str = "") -> CommandShell:
        """Start a bash that is given commands, for tools; `pytest_cua.tools.bash.Bash` is what a test uses.

        Args:
            mark: Of an earlier one, whose programs in the background shall belong to this one.

        Raises:
            MissingProgram: there is no bash.
            LaunchFailed: it could not be started.
            DesktopDied: the desktop is gone.
        """
        return CommandShell.start(self._link, mark)

    def find_shell(self, shell: ShellId) -> CommandShell:
        """The shell that an earlier runner has started.

        Raises:
            SetupError: it is gone.
            DesktopDied: the desktop is gone.
        """
        return CommandShell.find(self._link, shell)

    def release_input(self) -> None:
        """Release every key and button that is down."""
        self.keyboard.release_all()
        self.pointer.release_all()

    def check_alive(self) -> None:
        """Raise DesktopDied, with the end of the server's log, when the desktop is gone."""
        self._link.check_alive()

    def close(self) -> None:
        """End everything that runs on the desktop and remove its files. Calling it again does nothing."""
        self._browsers.close()
        alive = self._finalizer.detach()
        if alive is not None:
            _, _, (link, parts), _ = alive
            _close(link, parts)

    def _wait_for_shell(self, end: float) -> None:
        """Wait until window manager, panel and bus are there, and the panel is drawn."""
        while True:
            left = max(0.0, end - now_ms())
            ready = self._link.wait(self._shell_is_ready, min(_PANEL_PATIENCE, left), self._windows.fileno())
            self._link.raise_failure()
            ended = self._link.ended_shell()
            # what was ready is not asked again: the panel may take itself away for a moment to draw itself anew
            if ready and not ended:
                break
            missing = ended or self._shell_lacks()
            if not missing:
                break
            if ended or left == 0:
                raise self._shell_failed(missing, ended=bool(ended))
            if missing == "tint2":  # seen on loaded machines: it waits for something it has missed
                self._link.restart_panel()
        self.wait_until_still(quiet=50, timeout=max(0.0, end - now_ms()))

    def _shell_failed(self, missing: str, *, ended: bool) -> SetupError:
        kind = _PanelMissing if missing == "tint2" and not ended else SetupError
        log = tail(self._link.root / "logs" / f"{missing}.log")
        return kind(
            f"The desktop started, but {missing} "
            + ("ended." if ended else f"is not ready after {self.config.start_timeout:.0f} ms.")
            + (f" The end of its log:\n{log}" if log else ""),
            "run the test again; if it happens often, the machine is overloaded or pytest-cua doctor knows more",
        )

    def _shell_is_ready(self) -> bool:
        self._windows.drain()
        self._link.raise_failure()
        return not self._shell_lacks() or self._link.ended_shell() is not None

    def _shell_lacks(self) -> str:
        """The program of the shell that is not ready, or ""."""
        ended = self._link.ended_shell()
        if ended:
            return ended
        if not self._windows.manager():
            return self.config.shell
        if not self._link.bus_listens:
            return "dbus-daemon"
        area = self._windows.work_area()
        if not self._windows.docks() or len(area) < 4 or area[3] >= self.size[1]:
            return "tint2"
        return ""


class _PanelMissing(SetupError):
    """The panel did not show in time, and has not ended either."""


def _close(link: Link, parts: tuple[Any, ...]) -> None:
    link.close()
    for part in parts:
        part.close()


def _let_go(link: Link, parts: tuple[Any, ...]) -> None:
    link.let_go()
    for part in parts:
        part.close()


def _root_of(desktop: str | os.PathLike[str]) -> Path:
    """The directory of the desktop that is meant."""
    name = os.fspath(desktop)
    if not isinstance(name, str) or not name:
        raise BadArgument(f"{desktop!r} names no desktop.", "give its directory (desktop.root) or its name")
    if os.sep in name:
        return Path(name)
    found = trees.named(name)
    if len(found) > 1:
        raise BadArgument(f"Several desktops are called {name!r}: {', '.join(map(str, found))}.", "give the directory")
    if not found:
        there = ", ".join(map(str, trees.named(""))) or "none"
        raise SetupError(
            f"There is no desktop {name!r} that can be attached to. Those that can: {there}.",
            "start it with DesktopConfig(outlive=SECONDS), and attach before they have passed",
        )
    return found[0]


def _about(config: DesktopConfig, chosen: isolation.Isolation, name: str) -> dict[str, Any]:
    """What another runner must know of a desktop, as JSON can hold it."""
    values = {
        **{field.name: getattr(config, field.name) for field in fields(config)},
        "home": None if config.home is None else str(config.home),
        "expose": [str(path) for path in config.expose],
    }
    return {"name": name, "config": values, "isolation": [chosen.kind, chosen.reason]}


def _config_of(about: Mapping[str, Any]) -> tuple[DesktopConfig, isolation.Isolation]:
    values = about["config"]
    config = DesktopConfig(
        **{
            **values,
            "size": tuple(values["size"]),
            "home": None if values["home"] is None else Path(values["home"]),
            "expose": tuple(map(Path, values["expose"])),
        }
    )
    return config, isolation.Isolation(*about["isolation"])


def _view(chosen: isolation.Isolation, ready: Mapping[str, Any]) -> Path:
    """The root of what programs see, on the host."""
    if not chosen.is_namespace:
        return Path("/")
    box = ready["box_pid"]
    children = Path(f"/proc/{box}/task/{box}/children")  # bwrap itself stays outside, its child is process 1 inside
    inside = children.read_text().split() if children.exists() else []
    return Path(f"/proc/{inside[0]}/root") if inside else Path("/")


def _check(config: DesktopConfig) -> None:
    shell.check_shell(config.shell)
    size = config.size
    if len(size) != 2 or not all(isinstance(n, int) and 100 <= n <= 8192 for n in size):
        raise BadArgument(f"size={size!r} is no size of a screen.", "write (width, height), 100 to 8192 pixels each")
    if not isinstance(config.outlive, int | float) or not 0 <= config.outlive < float("inf"):
        raise BadArgument(f"outlive={config.outlive!r} is no time.", "write seconds, or 0")
    if config.home is not None and not Path(config.home).is_dir():
        raise BadArgument(f"home={str(config.home)!r} is no directory.")


def _order(config: DesktopConfig, chosen: isolation.Isolation, expose: list[Path]) -> dict[str, Any]:
    return {
        "width": config.size[0],
        "height": config.size[1],
        "shell": config.shell,
        "isolation": chosen.kind,
        "gl": config.gl,
        "locale": config.locale,
        "timezone": config.timezone,
        "path": isolation.complete_path(os.environ.get("PATH", os.defpath)),
        "expose": [str(path) for path in [*isolation.exposed_by_default(), Path(sys.executable).parent, *expose]],
        "timeout": config.start_timeout,
        "outlive": config.outlive,
    }


def _write_configuration(root: Path) -> None:
    data = importlib.resources.files("pytest_cua.desktop") / "data"
    for name, place in _CONFIGURATION.items():
        file = root / "config" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((data / name).read_bytes())
    shutil.copytree(root / "config/xdg/gtk-3.0", root / "config/xdg/gtk-4.0")
    isolation.account_files(root)


def _seed_home(home: Path, template: Path | None) -> None:
    if template is not None:
        shutil.copytree(template, home, symlinks=True, dirs_exist_ok=True)
    set_times(home)
