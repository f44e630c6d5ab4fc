"""What is missing on this machine, and the command that installs it.

`checks()` looks, `report()` says. Nothing is changed, no display is opened, no package is imported to learn its
version, and of a key only whether it is set is ever looked at.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from packaging.requirements import Requirement


DESKTOP = "a desktop (every mode but offline)"
ISOLATION = "isolation of the desktop's programs"
BROWSER = "browser tests"
EVERYTHING = "every mode"
MODEL = "record"

LEAST_PYTHON = (3, 11)
ANSWER_WITHIN_S = 20  # a program's version; Chromium's first start from a slow disk is the longest


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        name: What it is, as a person calls it.
        ok: Whether it is as needed.
        detail: Where it is and its version, or what is wrong.
        fix: One command or one sentence that puts it right; None when there is nothing to do.
        needed_for: What does not work without it.
        optional: Whether one can do without it: it is then no reason for an exit code of 1.
    """

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    needed_for: str = EVERYTHING
    optional: bool = False


@dataclass(frozen=True)
class Installer:
    """How one family of distributions installs, and what it calls the programs that we need."""

    command: str
    packages: Mapping[str, str]


_SAME = {name: name for name in ("openbox", "mutter", "tint2", "chromium")} | {"bwrap": "bubblewrap"}
INSTALLERS = {
    "debian": Installer(
        "apt-get install",
        _SAME
        | {"Xvfb": "xvfb", "setpriv": "util-linux", "dbus-daemon": "dbus-daemon", "DejaVu fonts": "fonts-dejavu-core"},
    ),
    "fedora": Installer(
        "dnf install",
        _SAME
        | {
            "Xvfb": "xorg-x11-server-Xvfb",
            "setpriv": "util-linux",
            "dbus-daemon": "dbus-daemon",
            "DejaVu fonts": "dejavu-sans-fonts",
        },
    ),
    "arch": Installer(
        "pacman -S",
        _SAME
        | {"Xvfb": "xorg-server-xvfb", "setpriv": "util-linux", "dbus-daemon": "dbus", "DejaVu fonts": "ttf-dejavu"},
    ),
    "alpine": Installer(
        "apk add",
        _SAME | {"Xvfb": "xvfb", "setpriv": "setpriv", "dbus-daemon": "dbus", "DejaVu fonts": "font-dejavu"},
    ),
}
_FAMILIES = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora"} | {name: name for name in INSTALLERS}

# a whole Google Chrome from its makers' Debian package, for a distribution whose Chromium is a snap
CHROME_BY_PLAYWRIGHT = "playwright install --with-deps chrome"


def installer(release: Mapping[str, str]) -> Installer | None:
    """Return how this distribution installs, from the fields of its `/etc/os-release`; None when we do not know it."""
    # ID_LIKE goes from the nearest relative to the farthest
    for name in [release.get("ID", ""), *release.get("ID_LIKE", "").split()]:
        if name in _FAMILIES:
            return INSTALLERS[_FAMILIES[name]]
    return None


def install_command(program: str, release: Mapping[str, str], *, root: bool) -> str:
    """Return the command that installs a program, or a sentence naming it where the distribution is not known."""
    known = installer(release)
    if known is None:
        return f"install the program {program} with this system's package manager"
    return f"{'' if root else 'sudo '}{known.command} {known.packages[program]}"


def checks() -> list[Check]:
    """Look at this machine; takes about a second."""
    release = _os_release()
    return [
        _python(),
        _system(),
        *_packages(),
        _xvfb(release),
        _program("openbox", release, DESKTOP),
        _program("mutter", release, "the window manager mutter", optional=True),
        _program("tint2", release, DESKTOP),
        _program("dbus-daemon", release, DESKTOP),
        _program("setpriv", release, "ending all processes with the test run"),
        _bubblewrap(release),
        _fonts(release),
        _sockets(),
        _chromium(release),
        _api_key(),
        _ci(),
    ]


def report(stream: TextIO = sys.stdout) -> int:
    """Write one line per check and one that sums up.

    Returns:
        An exit code: 0 when all that is needed is here, 1 when something is missing.
    """
    found = checks()
    width = max(len(check.name) for check in found)
    for check in found:
        mark = "ok" if check.ok else "opt" if check.optional else "miss"
        line = f"{mark:<4} {check.name:<{width}}  {check.detail}"
        if not check.ok:
            line += f"; needed for {check.needed_for}"
        if check.fix:
            line += f"; fix: {check.fix}"
        stream.write(line + "\n")
    missing = [check for check in found if not check.ok and not check.optional]
    if not missing:
        stream.write("Everything that is needed is here.\n")
        return 0
    names = ", ".join(check.name for check in missing)
    alone = "" if any(check.needed_for == EVERYTHING for check in missing) else " Meanwhile --cua-mode=offline works."
    stream.write(f"Missing: {names}. Each line that begins with `miss` ends with its fix.{alone}\n")
    return 1


def _os_release() -> Mapping[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:  # no such file: neither a distribution that we know nor one that we can guess
        return {}


def _is_root() -> bool:
    return os.geteuid() == 0


def _python() -> Check:
    version = platform.python_version()
    ok = sys.version_info >= LEAST_PYTHON
    least = ".".join(map(str, LEAST_PYTHON))
    return Check("Python", ok, f"{sys.executable} {version}", None if ok else f"use Python {least} or later")


def _system() -> Check:
    ok = sys.platform == "linux"
    detail = f"{platform.system()} {platform.release()}"
    return Check("system", ok, detail, None if ok else "run on Linux, or in a container", DESKTOP)


def _packages() -> list[Check]:
    try:
        # comes with pytest; a Python without it is what this page is there to tell
        from packaging.requirements import Requirement
    except ImportError:
        return [Check("packaging", False, "not installed into this Python", f"{_pip()} install pytest-cua")]
    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires("pytest-cua") or []]
    except importlib.metadata.PackageNotFoundError:
        fix = f"{_pip()} install pytest-cua"
        return [Check("pytest-cua", False, "not installed into this Python", fix)]
    here = importlib.metadata.version("pytest-cua")
    # extras are what a user asked for or did not; without one every requirement of an extra is not meant
    needed = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [Check("pytest-cua", True, here), *(_package(requirement) for requirement in needed)]


def _package(wanted: Requirement) -> Check:
    fix = f"{_pip()} install {shlex.quote(f'{wanted.name}{wanted.specifier}')}"
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return Check(wanted.name, False, "not installed into this Python", fix)
    if not wanted.specifier.contains(version, prereleases=True):
        return Check(wanted.name, False, f"{version}, but {wanted.specifier} is needed", fix)
    return Check(wanted.name, True, version)


def _pip() -> str:
    return f"{shlex.quote(sys.executable)} -m pip"


def _xvfb(release: Mapping[str, str]) -> Check:
    name = "Xvfb"
    path = shutil.which(name)
    if path is None:
        return Check(name, False, "not found", install_command(name, release, root=_is_root()), DESKTOP)
    # Xvfb has no option that tells its version; Debian's package knows it
    query = shutil.which("dpkg-query")
    version = _version([query, "-W", "-f", "${Version}", "xvfb"]) if query else ""
    return Check(name, True, f"{path} {version}".rstrip(), None, DESKTOP)


def _program(name: str, release: Mapping[str, str], needed_for: str, *, optional: bool = False) -> Check:
    path = shutil.which(name)
    if path is None:
        fix = install_command(name, release, root=_is_root())
        return Check(name, False, "not found", fix, needed_for, optional)
    return Check(name, True, _with_version(path), None, needed_for, optional)


def _with_version(path: str) -> str:
    return f"{path} {_version([path, '--version'])}".rstrip()


def _version(command: list[str]) -> str:
    code, output = _run(command)
    found = re.search(r"\d+(\.\d+)+", output) if code == 0 else None
    return found.group() if found else ""


def _run(command: list[str]) -> tuple[int | None, str]:
    """Run a program and return its exit code (None: it could not be run or did not end) and all that it wrote."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return None, str(problem)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def _bubblewrap(release: Mapping[str, str]) -> Check:
    found = _program("bwrap", release, ISOLATION)
    path = shutil.which("bwrap")
    if path is None:
        return found
    # being installed says little: whether namespaces may be made is the kernel's and the container's decision
    true = shutil.which("true") or "/bin/true"
    code, output = _run([path, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", true])
    if code == 0:
        return found
    reason, fix = _why_refused(output)
    detail = f"{found.detail} is refused ({reason}); the fall-back, a process group, is used"
    return Check("bwrap", False, detail, fix, ISOLATION, optional=True)


def _why_refused(output: str, kernel: Path = Path("/proc/sys")) -> tuple[str, str]:
    sudo = "" if _is_root() else "sudo "
    for setting, refusing, allowing, reason in (
        # Ubuntu since 23.10
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "0",
            "AppArmor restricts unprivileged user namespaces: kernel.apparmor_restrict_unprivileged_userns=1",
        ),
        # a patch of Debian's, off there until Debian 11
        ("kernel/unprivileged_userns_clone", "0", "1", "the kernel forbids them: kernel.unprivileged_userns_clone=0"),
        ("user/max_user_namespaces", "0", "10000", "the kernel forbids them: user.max_user_namespaces=0"),
    ):
        if _text(kernel / setting) == refusing:
            return reason, f"{sudo}sysctl -w {setting.replace('/', '.')}={allowing}"
    said = output.splitlines()[0] if output else "it said nothing"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return said, "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    return said, "allow user namespaces on this machine, or live with the fall-back"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _fonts(release: Mapping[str, str]) -> Check:
    name = "DejaVu fonts"
    if shutil.which("fc-list"):
        code, output = _run(["fc-list", "DejaVu Sans", "file"])
        if code == 0 and output:
            return Check(name, True, output.splitlines()[0].strip().rstrip(":"), None, DESKTOP)
    # without fontconfig's program the file itself is an answer
    for folder in (Path("/usr/share/fonts"), Path("/usr/local/share/fonts")):
        for path in sorted(folder.rglob("DejaVuSans.ttf")):
            return Check(name, True, str(path), None, DESKTOP)
    return Check(name, False, "not found", install_command(name, release, root=_is_root()), DESKTOP)


def _sockets(folder: Path = Path("/tmp/.X11-unix")) -> Check:  # noqa: S108 -- the place is X11's
    name = str(folder)
    if not folder.exists():
        if os.access(folder.parent, os.W_OK):
            return Check(name, True, "not there yet, Xvfb makes it", None, DESKTOP)
        return Check(name, False, f"{folder.parent} cannot be written", "make it writable", DESKTOP)
    if os.access(folder, os.W_OK):
        return Check(name, True, "can be written", None, DESKTOP)
    sudo = "" if _is_root() else "sudo "
    # WSL mounts its own folder here, read-only
    on_wsl = "microsoft" in platform.release().lower()
    fix = f"{sudo}mount -o remount,rw {folder}" if on_wsl else f"{sudo}chmod 1777 {folder}"
    return Check(name, False, "cannot be written", fix, DESKTOP)


def _chromium(release: Mapping[str, str]) -> Check:
    refused = "not found"
    for program in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(program)
        if path is None:
            continue
        if _is_snap(Path(path)):
            refused = f"{path} is a snap, which cannot run in the sandbox"
            continue
        return Check("chromium", True, _with_version(path), None, BROWSER, optional=True)
    has_deb = release.get("ID") != "ubuntu"  # its package of that name only installs the snap
    fix = install_command("chromium", release, root=_is_root()) if has_deb else CHROME_BY_PLAYWRIGHT
    return Check("chromium", False, refused, fix, BROWSER, optional=True)


def _is_snap(path: Path) -> bool:
    if "snap" in path.parts or "snap" in path.resolve().parts:
        return True
    try:
        with path.open("rb") as program:
            start = program.read(4096)
    except OSError:
        return False
    # Ubuntu's transitional package is a shell script that starts /snap/bin/chromium
    return start.startswith(b"#!") and b"/snap/bin" in start


def _api_key() -> Check:
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    present = [name for name in names if os.environ.get(name, "").strip()]
    # the name alone: a value never gets as far as a variable here
    detail = f"{present[0]} is set" if present else "not set"
    fix = None if present else f"export {names[0]}=... (replay and offline need none)"
    return Check("API key", bool(present), detail, fix, MODEL, optional=True)


def _ci() -> Check:
    detail = "set: record needs --cua-allow-api" if os.environ.get("CI") else "not set"
    return Check("CI variable", True, detail, None, MODEL, optional=True)
