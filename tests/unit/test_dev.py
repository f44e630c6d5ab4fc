"""`./dev` and `.ci/run`: what they decide, on machines made of a few programs on a PATH of their own.

The script runs as it is. `apt-get`, `dpkg-query`, `sudo` and `python3` are small programs that write down how they were
called; the Python in the environment that they make is the one that runs these tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "chmod", "cut", "dirname", "env", "grep", "head", "id", "mkdir", "mktemp", "rm", "sed")
TOOLS += ("sha256sum", "tail", "tr", "uname")

# a Python that is old or not, with venv or not; its environments hold the real one, and a pip that only writes down
PYTHON = """#!/bin/bash
case "$*" in
"-c import sys; sys.exit(sys.version_info < (3, 11))") exit @OLD@ ;;
"-c import ensurepip, venv") exit @NO_VENV@ ;;
"-m venv "*)
    echo "python $*" >>"$CALLS"
    mkdir -p "$3/bin"
    cat >"$3/bin/python" <<'END'
#!/bin/bash
if [ "$1 $2" = "-m pip" ]; then
    echo "pip ${*:3}" >>"$CALLS"
    exit "${PIP_FAILS:-0}"
fi
exec '@REAL@' "$@"
END
    chmod +x "$3/bin/python"
    ;;
*) exec '@REAL@' "$@" ;;
esac
"""
APT = """#!/bin/bash
echo "apt-get $*" >>"$CALLS"
case " $* " in *" ${APT_FAILS:-none} "*) echo "E: something about $APT_FAILS" >&2; exit 100 ;; esac
"""
# says that everything is installed but $MISSING
DPKG = """#!/bin/bash
for package in "${@:4}"; do
    case " ${MISSING:-} " in *" $package "*) ;; *) printf 'installed=%s ' "$package" ;; esac
done
"""
SUDO = """#!/bin/bash
echo "sudo $*" >>"$CALLS"
[ "$1" = -n ] && exit "${SUDO_ASKS:-0}"
exec "$@"
"""


class Machine:
    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "a checkout"  # with a space, as people have
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.environment: dict[str, str] = {}
        self.bin.mkdir()
        (self.checkout / "sandbox").mkdir(parents=True)
        shutil.copy(ROOT / "dev", self.checkout)
        shutil.copytree(ROOT / ".ci", self.checkout / ".ci")
        shutil.copy(ROOT / "sandbox" / "packages.txt", self.checkout / "sandbox")
        (self.checkout / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
        (self.checkout / "tests").mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.program("apt-get", APT)
        self.program("dpkg-query", DPKG)
        self.python("python3")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def python(self, name: str, *, old: bool = False, no_venv: bool = False) -> None:
        text = PYTHON.replace("@REAL@", sys.executable)
        self.program(name, text.replace("@OLD@", str(int(old))).replace("@NO_VENV@", str(int(no_venv))))

    def user(self) -> None:
        self.program("id", "#!/bin/bash\necho 1000\n")

    def root(self) -> None:
        self.program("id", "#!/bin/bash\necho 0\n")

    def run(self, *arguments: str, script: str = "dev", **environment: str) -> subprocess.CompletedProcess[str]:
        # no HOME, no terminal, no input: what a container may give
        variables = {"PATH": str(self.bin), "CALLS": str(self.calls), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        variables["TMPDIR"] = str(self.bin.parent)  # where the log of a step that failed stays
        return subprocess.run(
            ["bash", script, *arguments],
            cwd=self.checkout,
            env={**variables, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def write_test(self, body: str) -> None:
        (self.checkout / "tests" / "test_one.py").write_text(body)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.root()
    return made


def refused(result: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return the sentence and the command by hand with which the script stopped."""
    assert result.returncode == 1, result.stdout + result.stderr
    sentence, by_hand = result.stderr.splitlines()[-2:]
    assert sentence.startswith("dev: ")
    assert by_hand.startswith("dev: by hand: ")
    return sentence, by_hand


@pytest.mark.parametrize("script", ["dev", ".ci/run", "sandbox/entrypoint.sh"])
def test_scripts_are_executable_and_their_syntax_is_right(script):
    assert os.access(ROOT / script, os.X_OK)
    shell = (ROOT / script).read_text().splitlines()[0].split("/")[-1].split()[-1]
    subprocess.run([shell, "-n", str(ROOT / script)], check=True)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say():
    scripts = ["dev", ".ci/run", "sandbox/entrypoint.sh"]
    result = subprocess.run(["shellcheck", *scripts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout == ""


class TestHelp:
    @pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"], []])
    def test_help_names_every_command_and_does_nothing(self, machine, arguments):
        result = machine.run(*arguments)
        assert result.returncode == 0
        assert all(f"  {name} " in result.stdout for name in ("demo", "test", "setup", "lint", "bench", "docs", "help"))
        assert machine.called() == []
        assert not (machine.checkout / ".venv").exists()

    def test_an_unknown_command_is_refused(self, machine):
        sentence, by_hand = refused(machine.run("tset"))
        assert sentence == "dev: there is no command 'tset'."
        assert by_hand.endswith("./dev help")


class TestSetup:
    def test_a_bare_machine_gets_everything_after_being_told_what(self, machine):
        result = machine.run("setup", MISSING="xvfb mousepad")
        assert result.returncode == 0, result.stderr
        told = result.stdout.splitlines()[0]
        assert "Debian packages xvfb mousepad with what they need" in told
        assert "MB" in told
        assert "minutes" in told
        apt = "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=300"
        assert machine.called() == [
            f"{apt} update",
            f"{apt} install xvfb mousepad",
            "python -m venv .venv",
            "pip --disable-pip-version-check --no-input -q install pip>=25.1",
            "pip --disable-pip-version-check --no-input -q install -e . --group dev",
        ]
        assert result.stdout.splitlines()[-1] == "dev: ready: ./dev test, ./dev demo"

    def test_the_second_time_there_is_nothing_to_do(self, machine):
        machine.run("setup", MISSING="xvfb")
        machine.calls.unlink()
        result = machine.run("setup")
        assert (result.returncode, result.stdout) == (0, "dev: nothing to do, everything is installed\n")
        assert machine.called() == []

    def test_apt_lists_are_left_alone_when_no_package_is_missing(self, machine):
        assert machine.run("setup").returncode == 0
        assert not [call for call in machine.called() if call.startswith("apt-get")]

    @pytest.mark.parametrize("changed", ["pyproject.toml", "sandbox/packages.txt"])
    def test_changed_needs_are_installed(self, machine, changed):
        machine.run("setup")
        machine.calls.unlink()
        with (machine.checkout / changed).open("a") as file:
            file.write("# changed\n")
        assert machine.run("setup").returncode == 0
        assert machine.called()[-1].endswith("install -e . --group dev")
        assert "python -m venv .venv" not in machine.called()

    def test_an_environment_that_was_not_finished_is_not_taken_for_one(self, machine):
        assert machine.run("setup", PIP_FAILS="1").returncode == 1
        assert machine.run("test").returncode == 5
        assert "dev: nothing" not in machine.run("test").stdout

    def test_a_broken_environment_is_made_anew(self, machine):
        machine.run("setup")
        (machine.checkout / ".venv" / "bin" / "python").unlink()
        assert machine.run("setup").returncode == 0
        assert machine.called().count("python -m venv .venv") == 2

    def test_the_newest_python_that_can_make_environments_is_taken(self, machine):
        machine.python("python3.13", no_venv=True)
        machine.python("python3.12")
        assert f"with {machine.bin}/python3.12" in machine.run("setup").stdout

    def test_packages_can_be_left_to_the_user(self, machine):
        for name in ("apt-get", "dpkg-query"):
            (machine.bin / name).unlink()
        assert machine.run("setup", DEV_SKIP_PACKAGES="1").returncode == 0

    def test_a_user_installs_through_sudo(self, machine):
        machine.user()
        machine.program("sudo", SUDO)
        assert machine.run("setup", MISSING="xvfb").returncode == 0
        assert any(call.startswith("sudo env DEBIAN_FRONTEND=noninteractive apt-get") for call in machine.called())

    def test_lint_needs_no_debian_package(self, machine):
        machine.run("lint", MISSING="xvfb")
        assert not [call for call in machine.called() if call.startswith("apt-get")]


class TestWhatCannotWork:
    def test_no_apt(self, machine):
        (machine.bin / "apt-get").unlink()
        sentence, by_hand = refused(machine.run("test"))
        assert "apt-get is not here" in sentence
        assert "DEV_SKIP_PACKAGES=1 ./dev test" in by_hand
        assert "xvfb" in by_hand

    def test_only_an_old_python(self, machine):
        machine.python("python3", old=True)
        sentence, _ = refused(machine.run("setup"))
        assert sentence.startswith("dev: Python 3.11 or later is needed")

    def test_no_python(self, machine):
        (machine.bin / "python3").unlink()
        sentence, _ = refused(machine.run("setup"))
        assert sentence.startswith("dev: Python 3.11 or later is needed")

    def test_a_python_of_another_place_without_venv(self, machine):
        machine.python("python3", no_venv=True)
        sentence, by_hand = refused(machine.run("setup"))
        assert sentence == f"dev: {machine.bin}/python3 has no venv module."
        assert "-venv" in by_hand

    def test_no_rights(self, machine):
        machine.user()
        sentence, by_hand = refused(machine.run("setup", MISSING="xvfb mutter"))
        assert sentence == "dev: Debian packages are missing, and this user may not install them: xvfb mutter."
        assert by_hand.endswith("apt-get update && apt-get install --no-install-recommends xvfb mutter")

    def test_a_sudo_that_asks_without_a_terminal(self, machine):
        machine.user()
        machine.program("sudo", SUDO)
        sentence, _ = refused(machine.run("setup", MISSING="xvfb", SUDO_ASKS="1"))
        assert "may not install them" in sentence

    @pytest.mark.parametrize("step", ["update", "install"])
    def test_apt_fails(self, machine, step):
        result = machine.run("setup", MISSING="xvfb", APT_FAILS=step)
        sentence, by_hand = refused(result)
        assert "apt-get could not" in sentence
        assert f"E: something about {step}" in result.stderr
        assert by_hand.endswith("install --no-install-recommends xvfb")

    def test_pip_fails(self, machine):
        sentence, by_hand = refused(machine.run("setup", PIP_FAILS="1"))
        assert "is there a network?" in sentence
        assert ".venv/bin/python -m pip" in by_hand


@pytest.mark.parametrize("script", [["dev", "test"], [".ci/run"]], ids=["dev test", ".ci/run"])
class TestTests:
    def run(self, machine: Machine, script: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        return machine.run(*script[1:], *arguments, script=script[0])

    def test_a_run_in_which_no_test_ran_fails(self, machine, script):
        assert self.run(machine, script).returncode == 5

    def test_a_failure_is_a_failure(self, machine, script):
        machine.write_test("def test_fails(): assert 1 == 2\n")
        assert self.run(machine, script).returncode == 1

    def test_an_error_while_collecting_is_a_failure(self, machine, script):
        machine.write_test("import no_such_module\n")
        assert self.run(machine, script).returncode == 2

    def test_success_is_success(self, machine, script):
        machine.write_test("def test_passes(): pass\n")
        assert self.run(machine, script).returncode == 0

    def test_arguments_reach_pytest(self, machine, script):
        machine.write_test("def test_a(): pass\ndef test_b(): assert 0\n")
        result = self.run(machine, script, "-k", "a and not b", "-q")
        assert result.returncode == 0
        assert "1 passed, 1 deselected" in result.stdout

    def test_a_setup_that_fails_is_a_failure(self, machine, script):
        machine.write_test("def test_passes(): pass\n")
        (machine.bin / "apt-get").unlink()
        assert self.run(machine, script).returncode == 1


def test_ci_prints_the_machine_first(machine):
    machine.write_test("def test_passes(): pass\n")
    lines = machine.run(script=".ci/run").stdout.splitlines()
    assert any(line.startswith("python3 ") for line in lines[:8])
    assert any(line.split() == ["chromium", "not", "installed", "yet"] for line in lines)
    assert lines.index(next(line for line in lines if line.startswith("bash "))) < 4


def test_bench_runs_each_file_and_fails_with_the_first_that_fails(machine):
    folder = machine.checkout / "benchmarks"
    folder.mkdir()
    sentence, _ = refused(machine.run("bench"))
    assert sentence == "dev: there is no benchmark in benchmarks/."
    (folder / "a.py").write_text("print('a ran')\n")
    (folder / "_helper.py").write_text("raise SystemExit('a helper is no benchmark')\n")
    result = machine.run("bench")
    assert (result.returncode, "a ran" in result.stdout) == (0, True)
    (folder / "b.py").write_text("raise SystemExit(3)\n")
    assert machine.run("bench").returncode == 3


def test_demo_runs_the_example_with_its_arguments(machine):
    (machine.checkout / "tests" / "examples").mkdir()
    (machine.checkout / "tests" / "examples" / "demo.py").write_text(
        "import sys; print(sys.argv[1:]); sys.exit(len(sys.argv))\n"
    )
    result = machine.run("demo", "--one", "two words")
    assert result.returncode == 3
    assert result.stdout.splitlines()[-1] == "['--one', 'two words']"


def test_lint_runs_every_check_and_names_those_that_found_something(machine):
    machine.run("setup")
    for name, code in {"ruff": 0, "mypy": 1, "lint-imports": 1}.items():
        path = machine.checkout / ".venv" / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\nexit {code}\n')
        path.chmod(0o755)
    sentence, by_hand = refused(machine.run("lint"))
    assert sentence == "dev: lint found something: mypy, lint-imports."
    assert by_hand.endswith(".venv/bin/mypy")
    assert [call.strip() for call in machine.called()[-4:]] == [
        "ruff check",
        "ruff format --check",
        "mypy",
        "lint-imports",
    ]
