"""`pytest_cua.doctor`: what is there is found, what is missing is named with its fix, and a key never shows.

The machine is varied by what a subprocess finds on its PATH: real files that the doctor really runs.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pytest_cua import doctor

ROOT = Path(__file__).parents[2]
NEEDED = ("Xvfb", "openbox", "tint2", "dbus-daemon", "setpriv", "bwrap")
DEBIAN = {"ID": "debian"}


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with every program that is needed, each telling version 1.2.3."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*NEEDED, "mutter", "chromium"):
        script(folder / name, f"echo {name} 1.2.3")
    script(folder / "dpkg-query", "echo 2:21.1.7-3")
    return folder


def run_doctor(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from pytest_cua import doctor; sys.exit(doctor.report())"
    kept = {name: os.environ[name] for name in ("HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PATH": str(folder), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def line_of(result: subprocess.CompletedProcess[str], name: str) -> str:
    found = [line for line in result.stdout.splitlines() if line[5:].startswith(f"{name} ")]
    assert len(found) == 1, result.stdout + result.stderr
    return found[0]


def python_side_is_complete() -> bool:
    return all(check.ok for check in [doctor._python(), doctor._system(), *doctor._packages()])


class TestReport:
    def test_what_is_there_is_ok_with_path_and_version(self, bin_folder):
        result = run_doctor(bin_folder)
        assert line_of(result, "openbox").split() == ["ok", "openbox", f"{bin_folder}/openbox", "1.2.3"]
        assert line_of(result, "Xvfb").split() == ["ok", "Xvfb", f"{bin_folder}/Xvfb", "21.1.7"]
        assert line_of(result, "bwrap").startswith("ok ")

    def test_nothing_missing_is_exit_code_0(self, bin_folder):
        if not python_side_is_complete() or not doctor._fonts(DEBIAN).ok:
            pytest.skip("this machine itself misses something that no PATH can bring")
        result = run_doctor(bin_folder)
        assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "Everything that is needed is here.")

    @pytest.mark.parametrize("name", NEEDED)
    def test_a_missing_program_is_exit_code_1_and_named(self, bin_folder, name):
        (bin_folder / name).unlink()
        result = run_doctor(bin_folder)
        assert result.returncode == 1
        assert line_of(result, name).startswith(f"miss {name} ")
        assert "; fix: " in line_of(result, name)
        last = result.stdout.splitlines()[-1]
        assert last.startswith("Missing: ")
        assert name in last

    @pytest.mark.parametrize("name", ["mutter", "chromium"])
    def test_what_one_can_do_without_is_no_reason_to_fail(self, bin_folder, name):
        before = run_doctor(bin_folder)
        (bin_folder / name).unlink()
        after = run_doctor(bin_folder)
        assert line_of(after, name).startswith(f"opt  {name} ")
        assert after.returncode == before.returncode

    def test_an_empty_machine_is_a_report_and_no_traceback(self, tmp_path):
        result = run_doctor(tmp_path / "nothing")
        assert result.returncode == 1
        assert result.stderr == ""
        assert all(line_of(result, name).startswith("miss ") for name in NEEDED)

    def test_a_program_that_cannot_run_is_still_found(self, bin_folder):
        (bin_folder / "tint2").write_text("neither a script nor a program")
        assert line_of(run_doctor(bin_folder), "tint2").split() == ["ok", "tint2", f"{bin_folder}/tint2"]

    def test_no_key_is_ever_shown(self, bin_folder):
        key = "sk-ant-api03-never-show-this"
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            result = run_doctor(bin_folder, **{name: key})
            assert line_of(result, "API key").split(maxsplit=3) == ["ok", "API", "key", f"{name} is set"]
            assert "never-show-this" not in result.stdout + result.stderr
        assert "not set" in line_of(run_doctor(bin_folder, ANTHROPIC_API_KEY=" "), "API key")

    def test_ci_is_told(self, bin_folder):
        assert "--cua-allow-api" in line_of(run_doctor(bin_folder, CI="true"), "CI variable")
        assert "not set" in line_of(run_doctor(bin_folder), "CI variable")

    def test_nothing_heavy_is_imported(self):
        code = (
            "import sys; from pytest_cua import doctor; doctor.checks(); "
            "print([name for name in ('anthropic', 'vcr', 'numpy', 'PIL', 'playwright', 'Xlib', 'pytest') "
            "if name in sys.modules])"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "[]"


class TestBubblewrap:
    """Being installed is not enough: it is started."""

    def test_a_refusal_names_the_fall_back_and_does_not_fail(self, bin_folder):
        script(
            bin_folder / "bwrap",
            '[ "$1" = --version ] && { echo bubblewrap 1.2.3; exit 0; }\n'
            "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1",
        )
        line = line_of(run_doctor(bin_folder), "bwrap")
        assert line.startswith("opt ")
        assert "is refused (" in line
        assert "a process group, is used" in line
        assert "; fix: " in line

    @pytest.mark.parametrize(
        ("setting", "value", "command"),
        [
            (
                "kernel/apparmor_restrict_unprivileged_userns",
                "1\n",
                "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            ("kernel/unprivileged_userns_clone", "0\n", "sysctl -w kernel.unprivileged_userns_clone=1"),
            ("user/max_user_namespaces", "0\n", "sysctl -w user.max_user_namespaces=10000"),
        ],
    )
    def test_the_kernels_reason_is_found(self, tmp_path, setting, value, command):
        (tmp_path / setting).parent.mkdir(parents=True)
        (tmp_path / setting).write_text(value)
        reason, fix = doctor._why_refused("bwrap: setting up uid map: Permission denied", tmp_path)
        assert setting.replace("/", ".") in reason
        assert fix.endswith(command)

    def test_without_a_known_reason_its_own_words_are_given(self, tmp_path):
        reason, _ = doctor._why_refused("bwrap: first line\nsecond", tmp_path)
        assert reason == "bwrap: first line"
        assert doctor._why_refused("", tmp_path)[0] == "it said nothing"


class TestFixes:
    @pytest.mark.parametrize(
        ("release", "command"),
        [
            (DEBIAN, "sudo apt-get install xvfb"),
            ({"ID": "ubuntu", "ID_LIKE": "debian"}, "sudo apt-get install xvfb"),
            ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "sudo apt-get install xvfb"),
            ({"ID": "fedora"}, "sudo dnf install xorg-x11-server-Xvfb"),
            ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "sudo dnf install xorg-x11-server-Xvfb"),
            ({"ID": "manjaro", "ID_LIKE": "arch"}, "sudo pacman -S xorg-server-xvfb"),
            ({"ID": "alpine"}, "sudo apk add xvfb"),
            ({"ID": "plan9"}, "install the program Xvfb with this system's package manager"),
            ({}, "install the program Xvfb with this system's package manager"),
        ],
    )
    def test_each_family_has_its_command(self, release: Mapping[str, str], command: str):
        assert doctor.install_command("Xvfb", release, root=False) == command

    def test_root_needs_no_sudo(self):
        assert doctor.install_command("bwrap", DEBIAN, root=True) == "apt-get install bubblewrap"

    def test_each_family_knows_every_program(self):
        programs = {*NEEDED, "mutter", "chromium", "DejaVu fonts"}
        assert all(set(family.packages) == programs for family in doctor.INSTALLERS.values())

    def test_debians_names_are_those_of_the_machine_recipe(self):
        recipe = (ROOT / "sandbox" / "packages.txt").read_text().split("[office]")[0]
        listed = {line.split("#")[0].strip() for line in recipe.splitlines()}
        assert set(doctor.INSTALLERS["debian"].packages.values()) <= listed


class TestChromium:
    @pytest.fixture
    def only(self, tmp_path, monkeypatch) -> Path:
        monkeypatch.setenv("PATH", str(tmp_path))
        return tmp_path

    def test_ubuntus_package_that_starts_a_snap_is_not_enough(self, only):
        script(only / "chromium-browser", 'exec /snap/bin/chromium "$@"')
        check = doctor._chromium({"ID": "ubuntu"})
        assert not check.ok
        assert "is a snap" in check.detail
        assert check.fix == "playwright install --with-deps chrome"

    def test_another_chromium_behind_the_snap_is_found(self, only):
        script(only / "chromium-browser", 'exec /snap/bin/chromium "$@"')
        script(only / "google-chrome", "echo Google Chrome 140.0.1")
        assert doctor._chromium({"ID": "ubuntu"}).detail == f"{only}/google-chrome 140.0.1"


class TestPackages:
    @pytest.mark.parametrize(
        ("wanted", "ok"), [("pytest>=8", True), ("pytest>=900", False), ("no-such-thing>=1", False)]
    )
    def test_versions_are_compared(self, wanted, ok):
        check = doctor._package(Requirement(wanted))
        assert check.ok is ok
        assert (check.fix is None) is ok
        assert ok or "-m pip install" in (check.fix or "")

    def test_a_python_without_them_is_told_so(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "packaging.requirements", None)
        (check,) = doctor._packages()
        assert not check.ok
        assert (check.fix or "").endswith("-m pip install pytest-cua")


class TestSockets:
    def test_a_folder_that_is_not_there_is_made_by_xvfb(self, tmp_path):
        assert doctor._sockets(tmp_path / "X").ok

    def test_a_folder_that_can_be_written(self, tmp_path):
        assert doctor._sockets(tmp_path).ok

    def test_a_folder_that_cannot_be_written(self, monkeypatch, tmp_path):
        # root may write everywhere, so the answer of the system call is what is varied
        monkeypatch.setattr(os, "access", lambda *_: False)
        check = doctor._sockets(tmp_path)
        assert not check.ok
        assert str(tmp_path) in (check.fix or "")


def test_the_summary_offers_offline_where_only_the_desktop_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "checks", lambda: [doctor.Check("Xvfb", False, "not found", "x", doctor.DESKTOP)])
    stream = io.StringIO()
    assert doctor.report(stream) == 1
    assert "--cua-mode=offline works" in stream.getvalue()
    monkeypatch.setattr(doctor, "checks", lambda: [doctor.Check("pytest", False, "not found", "x")])
    stream = io.StringIO()
    assert doctor.report(stream) == 1
    assert "offline" not in stream.getvalue()
