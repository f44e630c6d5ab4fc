"""What the desktop's programs may see and touch: bubblewrap around them all, or a process group where it cannot run.

Bubblewrap gives the programs a read-only view of the machine, with a HOME, a /tmp and a process table of their own;
they see nothing of the runner's home, environment or other desktops.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_cua.errors import BadArgument, MissingProgram, SetupError

CHOICES: Final = ("auto", "bubblewrap", "no-network", "process-group")

HOME_INSIDE: Final = "/home/cua"
CONFIG_INSIDE: Final = "/run/pytest-cua"
RUNTIME_INSIDE: Final = "/run/user/1000"
UID_INSIDE: Final = 1000

#: Replaced by an empty directory inside, since they hold what belongs to the user or to other programs.
HIDDEN: Final = ("/tmp", "/home", "/root", "/var/tmp", "/run")  # noqa: S108
#: These must stay empty directories, as the desktop's own files are mounted below them.
_NEVER_EXPOSED: Final = ("/", "/tmp", "/home", "/home/cua", "/run", "/var/tmp")  # noqa: S108

_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"


@dataclass(frozen=True)
class Isolation:
    """The isolation that a desktop gets.

    Args:
        kind: "bubblewrap", "no-network" or "process-group".
        reason: Why it is no better than that, or "".
    """

    kind: str
    reason: str = ""

    @property
    def is_namespace(self) -> bool:
        """Whether programs have a HOME and a process table of their own."""
        return self.kind != "process-group"

    def __str__(self) -> str:
        if self.kind == "process-group":
            return f"process group ({self.reason})" if self.reason else "process group"
        return "bubblewrap, no network" if self.kind == "no-network" else self.kind


def choose(wanted: str) -> Isolation:
    """Return the isolation that `wanted` means on this machine.

    Raises:
        BadArgument: `wanted` is none of `CHOICES`.
        SetupError: it was asked for by name and cannot be had here.
    """
    if wanted not in CHOICES:
        raise BadArgument(f"isolation={wanted!r} is unknown.", f"use one of {', '.join(map(repr, CHOICES))}")
    if wanted == "process-group":
        return Isolation("process-group", "as asked")
    refusal = why_not_bubblewrap(no_network=wanted == "no-network")
    if not refusal:
        return Isolation("bubblewrap" if wanted == "auto" else wanted)
    if wanted == "auto":
        return Isolation("process-group", refusal)
    if shutil.which("bwrap") is None:
        raise MissingProgram(f"isolation={wanted!r} needs bubblewrap: {refusal}.", "apt-get install bubblewrap")
    raise SetupError(
        f"isolation={wanted!r} cannot be had on this machine: {refusal}.",
        "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, "
        "--security-opt seccomp=unconfined for a container)",
        'or use isolation="process-group"',
    )


@functools.lru_cache(maxsize=2)
def why_not_bubblewrap(*, no_network: bool = False) -> str:
    """Try bubblewrap once and return why it does not work here, or ""."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = [*_namespaces(no_network=no_network), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    command += [*_hidden(), "--", "/bin/true"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap did not run ({error})"
    if done.returncode == 0:
        return ""
    return f"bwrap was refused ({done.stderr.decode(errors='replace').strip() or f'exit code {done.returncode}'})"


def bubblewrap_command(root: Path, display: int, expose: Iterable[Path], *, no_network: bool) -> list[str]:
    """Return the bwrap command line, to be followed by the command that runs inside.

    Args:
        root: The desktop's own directory on the host, with `home`, `config`, `passwd` and `group`.
        display: Number of the X display.
        expose: Directories or files that stay visible although they are below a hidden directory.
        no_network: Give the programs a network of their own, with nothing but a loopback.
    """
    x_socket = f"/tmp/.X11-unix/X{display}"  # noqa: S108
    command = [*_namespaces(no_network=no_network), "--as-pid-1"]
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_hidden()]
    command += ["--bind", str(root / "home"), HOME_INSIDE, "--ro-bind", str(root / "config"), CONFIG_INSIDE]
    for name in ("passwd", "group"):
        command += ["--ro-bind", str(root / name), f"/etc/{name}"]
    for path in hidden_paths(expose):
        command += ["--ro-bind", str(path), str(path)]
    return [*command, "--ro-bind", x_socket, x_socket, "--chdir", HOME_INSIDE]


def exposed_by_default() -> list[Path]:
    """What programs inside always see: the interpreter, its packages, this package and name resolution."""
    package = Path(__file__).resolve().parent.parent
    return [Path(sys.prefix), Path(sys.base_prefix), package, Path("/run/systemd/resolve")]


def may_be_exposed(path: Path) -> bool:
    """Whether a directory can be shown inside; a desktop has its own /tmp, HOME and the like."""
    return str(Path(path).absolute()) not in _NEVER_EXPOSED


def check_exposed(paths: Iterable[Path]) -> list[Path]:
    """Return `paths` as absolute paths.

    Raises:
        BadArgument: one does not exist, or cannot be shown.
    """
    checked = []
    for path in paths:
        absolute = Path(path).absolute()
        if not may_be_exposed(absolute):
            raise BadArgument(
                f"expose={str(absolute)!r} cannot be shown inside the desktop, which has its own.",
                "expose a directory below it",
            )
        if not absolute.exists():
            raise BadArgument(f"expose={str(absolute)!r} does not exist.")
        checked.append(absolute)
    return checked


def hidden_paths(paths: Iterable[Path]) -> list[Path]:
    """Those of `paths` that exist and would be hidden, without what lies below another one."""
    kept: list[Path] = []
    for path in sorted({Path(p) for p in paths if Path(p).exists()}, key=lambda p: len(p.parts)):
        is_hidden = any(path.is_relative_to(hidden) for hidden in HIDDEN)
        if is_hidden and not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def environment(
    *, home: str, config: str, runtime: str, display: int, path: str, locale: str, timezone: str
) -> dict[str, str]:
    """The environment of the desktop's programs: built from nothing, so that no key of the runner can reach them."""
    return {
        "PATH": path,
        "HOME": home,
        "USER": "cua",
        "LOGNAME": "cua",
        "SHELL": "/bin/bash",
        "LANG": locale,
        "TZ": timezone,
        "TERM": "xterm-256color",
        "DISPLAY": f":{display}",
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
        "XDG_SESSION_TYPE": "x11",
        "XDG_CURRENT_DESKTOP": "X-Generic",
        "XDG_CONFIG_DIRS": f"{config}/xdg:/etc/xdg",
        "FONTCONFIG_FILE": f"{config}/fonts.conf",
        "GTK2_RC_FILES": f"{config}/gtkrc-2.0",
        "GTK_THEME": "Adwaita",
        "GTK_OVERLAY_SCROLLING": "0",
        "GTK_A11Y": "none",
        "NO_AT_BRIDGE": "1",
        "GSETTINGS_BACKEND": "memory",
        "GDK_BACKEND": "x11",
        "GDK_SCALE": "1",
        "QT_QPA_PLATFORM": "xcb",
        "QT_SCALE_FACTOR": "1",
        "XCURSOR_SIZE": "24",
        "XCURSOR_THEME": "Adwaita",
        # software rendering everywhere: a machine with a GPU must not draw other pixels
        "LIBGL_ALWAYS_SOFTWARE": "1",
    }


def account_files(root: Path) -> None:
    """Write `passwd` and `group`, so that names and prompts are the same on every machine."""
    user = f"cua:x:{UID_INSIDE}:{UID_INSIDE}:cua:{HOME_INSIDE}:/bin/bash"
    (root / "passwd").write_text(
        f"root:x:0:0:root:/root:/bin/bash\n{user}\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (root / "group").write_text(f"root:x:0:\ncua:x:{UID_INSIDE}:\nnogroup:x:65534:\n")


def _namespaces(*, no_network: bool) -> list[str]:
    uid = str(UID_INSIDE)
    options = ["--unshare-user", "--uid", uid, "--gid", uid, "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    options += ["--hostname", "cua", *(["--unshare-net"] if no_network else [])]
    return ["bwrap", *options, "--die-with-parent", "--new-session"]


def _hidden() -> list[str]:
    options: list[str] = []
    for directory in HIDDEN:
        options += ["--perms", "1777", "--tmpfs", directory] if directory.endswith("tmp") else ["--tmpfs", directory]
    return [*options, "--dir", "/run/user", "--perms", "0700", "--dir", RUNTIME_INSIDE]


def complete_path(path: str) -> str:
    """Return a PATH without relative entries, and with the directories where a system has its programs."""
    entries = [entry for entry in path.split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(dict.fromkeys([*entries, *_SYSTEM_PATH.split(os.pathsep)]))


def merged(environ: Mapping[str, str], extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return `environ` with the additions of a launch.

    Raises:
        BadArgument: an addition is no text.
    """
    for name, value in (extra or {}).items():
        if not isinstance(name, str) or not isinstance(value, str) or "=" in name or "\0" in name + value:
            raise BadArgument(f"env={{{name!r}: {value!r}}} is no environment variable.", "names and values are str")
    return {**environ, **(extra or {})}


def words(argv: Sequence[object]) -> list[str]:
    """Return a command line as strings.

    Raises:
        BadArgument: an argument is neither str, number nor path, or holds a NUL character.
    """
    result = []
    for argument in argv:
        if not isinstance(argument, str | int | float | os.PathLike):
            raise BadArgument(f"launch() cannot pass {argument!r} to a program.", "arguments are str or Path")
        text = os.fspath(argument) if isinstance(argument, os.PathLike) else str(argument)
        if not isinstance(text, str) or "\0" in text:
            raise BadArgument(f"launch() cannot pass {argument!r} to a program: it holds a NUL character or bytes.")
        result.append(text)
    return result
