"""Window manager, panel and session bus: which commands they are, and when they are ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_cua.errors import BadArgument

#: The programs of the shell and the Debian package of each.
PACKAGES: Final = {
    "openbox": "openbox",
    "mutter": "mutter",
    "tint2": "tint2",
    "dbus-daemon": "dbus",
}
SHELLS: Final = ("openbox", "mutter")


@dataclass(frozen=True)
class ShellProgram:
    """A program of the shell.

    Args:
        name: Its name, as in `PACKAGES`.
        argv: Its command line. `{ready}` stands for a descriptor it writes to when it is ready.
        needs_bus: Whether it may only start when the bus listens.
        needs_manager: Whether it may only start when the window manager has taken over.
        env: What its environment has besides that of all programs.
    """

    name: str
    argv: tuple[str, ...]
    needs_bus: bool = False
    needs_manager: bool = False
    env: tuple[tuple[str, str], ...] = ()


def programs(shell: str, config: str, runtime: str) -> list[ShellProgram]:
    """The programs that make up `shell`, in the order they start.

    Args:
        shell: "openbox" or "mutter".
        config: Directory of the configuration files, as the programs see it.
        runtime: XDG_RUNTIME_DIR, as the programs see it.
    """
    bus = ("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={runtime}/bus")
    managers = {
        "openbox": ShellProgram("openbox", ("openbox", "--sm-disable", "--config-file", f"{config}/openbox.xml")),
        "mutter": ShellProgram("mutter", ("mutter", "--x11", "--sm-disable"), needs_bus=True),
    }
    return [
        ShellProgram("dbus-daemon", (*bus, "--print-address={ready}")),
        managers[shell],
        # without a window manager it would look for one again only after a second
        ShellProgram(
            "tint2",
            ("tint2", "-c", f"{config}/tint2rc"),
            needs_manager=True,
            env=(("G_SLICE", "always-malloc"),),  # it warns otherwise
        ),
    ]


def check_shell(shell: str) -> None:
    """Raise BadArgument unless `shell` is known."""
    if shell not in SHELLS:
        raise BadArgument(f"shell={shell!r} is unknown.", f"use one of {', '.join(map(repr, SHELLS))}")
