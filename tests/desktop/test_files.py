"""Files of the desktop, live and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_cua.desktop.desktop import Desktop
from pytest_cua.desktop.files import MissingFile
from pytest_cua.desktop.recorded import RecordedDesktop
from pytest_cua.desktop.stillness import Stillness
from pytest_cua.errors import BadArgument, CuaFailure, NeedsApplication

T = TypeVar("T")


@pytest.fixture(scope="module")
def live() -> Iterator[Desktop]:
    with Desktop.start() as desktop:
        yield desktop


def test_a_file_is_written_and_read(live: Desktop) -> None:
    file = live.file("sub/a.txt")
    assert not file.exists()
    file.write("é\n")
    assert file.exists()
    assert (file.read_text(), file.read_bytes(), file.size()) == ("é\n", b"\xc3\xa9\n", 3)
    assert str(file) == file.name == "sub/a.txt"
    assert file.inside_path == "/home/cua/sub/a.txt"
    assert file.host_path == live.home / "sub" / "a.txt"
    assert live.file(Path("/home/cua/sub/a.txt")).read_text() == "é\n"
    assert live.file("~/sub/a.txt").read_text() == "é\n"
    file.unlink()
    assert not file.exists()
    file.unlink()


def test_programs_see_it_and_the_host_sees_theirs(live: Desktop) -> None:
    live.file("in.txt").write(b"in")
    live.launch("/bin/sh", "-c", "cp in.txt out.txt; echo private >/tmp/there.txt", wait=False).wait()
    assert live.file("out.txt").read_text() == "in"
    assert live.file("/tmp/there.txt").read_text() == "private\n"  # of the desktop's own /tmp
    assert not Path("/tmp/there.txt").exists()


def test_files_and_directories_are_copied_in(live: Desktop, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "a.sh").chmod(0o755)
    live.file("tools").copy_from(tmp_path)
    live.file("b.sh").copy_from(tmp_path / "a.sh")
    program = live.launch("./b.sh", wait=False)
    program.wait()
    assert program.output() == "ran\n"
    assert live.file("tools/a.sh").exists()
    with pytest.raises(BadArgument, match="There is no"):
        live.file("c").copy_from(tmp_path / "nothing")


def test_a_file_that_is_missing_says_what_there_is(live: Desktop) -> None:
    live.file("there.txt").write("")
    with pytest.raises(MissingFile, match=r"no file 'ther.txt' on the desktop. In HOME are .*there.txt") as caught:
        live.file("ther.txt").read_text()
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, CuaFailure)


def test_a_file_that_is_no_text_says_where(live: Desktop) -> None:
    live.file("binary").write(b"ab\xff")
    with pytest.raises(CuaFailure, match="byte 2 of 3 is 0xff"):
        live.file("binary").read_text()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "", "a\0b", ".."])
def test_paths_that_leave_home(live: Desktop, path: str) -> None:
    with pytest.raises(BadArgument):
        live.file(path)


def test_outside_home_is_read_only(live: Desktop) -> None:
    assert "cua" in live.file("/etc/passwd").read_text()  # as programs see it
    for write in (lambda f: f.write("x"), lambda f: f.unlink(), lambda f: f.copy_from("/etc/hostname")):
        with pytest.raises(BadArgument, match="outside the desktop's HOME"):
            write(live.file("/etc/passwd"))


def test_links_are_followed_as_programs_see_them_and_not_out_of_home(live: Desktop) -> None:
    live.file("target.txt").write("t")
    script = "ln -sf /home/cua/target.txt good; ln -sf /etc/passwd bad; ln -sf .. up; ln -sf loop loop"
    live.launch("/bin/sh", "-c", script, wait=False).wait()
    assert live.file("good").read_text() == "t"
    for path in ("bad", "up/x", "loop"):
        with pytest.raises(BadArgument, match="symbolic link"):
            live.file(path).read_bytes()
        with pytest.raises(BadArgument, match="symbolic link"):
            live.file(path).write("x")


def test_programs_notice_that_a_file_was_written_again(live: Desktop) -> None:
    live.file("again.txt").write("1")
    first = live.file("again.txt").host_path.stat().st_mtime
    live.file("again.txt").write("2")
    second = live.file("again.txt").host_path.stat().st_mtime
    assert first != second
    assert 0 < second - first < 60  # but not by the clock of this machine
    assert second < 1_710_000_000


class Answers:
    """An observer that answers from a recording, or passes on."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers

    def observe(self, kind: str, subject: str, read: Callable[[], T]) -> T:
        if kind in self.answers:
            return self.answers[kind]  # type: ignore[return-value]
        return read()


def test_a_recorded_desktop_answers_from_the_recording() -> None:
    desktop = RecordedDesktop(Answers(file=b"text", windows=["w"], screenshot="picture"), "1", (800, 600))
    file = desktop.file("a.txt")
    file.write("something else")
    file.copy_from("/nowhere")
    assert (file.read_text(), file.exists(), file.size()) == ("text", True, 4)
    assert file.inside_path == "/home/cua/a.txt"
    assert (desktop.windows(), desktop.screenshot()) == (["w"], "picture")
    assert (desktop.size, desktop.is_live, desktop.name) == ((800, 600), False, "1")
    assert desktop.wait_until_still() == Stillness(True, 0.0)
    desktop.check_alive()
    desktop.close()


def test_a_recorded_file_that_did_not_exist() -> None:
    file = RecordedDesktop(Answers(file=None)).file("a.txt")
    assert not file.exists()
    with pytest.raises(MissingFile):
        file.read_text()


@pytest.mark.parametrize(
    "touch",
    [
        lambda d: d.screenshot(),
        lambda d: d.windows(),
        lambda d: d.file("a").read_bytes(),
        lambda d: d.file("a").exists(),
        lambda d: d.file("a").host_path,
        lambda d: d.home,
        lambda d: d.browser().title(),
        lambda d: d.processes(),
        lambda d: d.pointer,
        lambda d: d.keyboard,
        lambda d: d.launch("x").running(),
        lambda d: d.launch("x").window,
        lambda d: d.launch("x").wait(),
        lambda d: d.launch("x").output(),
        lambda d: d.launch("x").returncode,
        lambda d: d.launch("x").pid,
        lambda d: d.root,
        lambda d: d.start_shell(),
        lambda d: d.find_shell(None),
    ],
    ids=[str(number) for number in range(19)],
)
def test_what_was_not_recorded_needs_the_application(touch: Callable[[RecordedDesktop], object]) -> None:
    with pytest.raises(NeedsApplication, match="needs the application"):
        touch(RecordedDesktop(Answers()))


def test_a_recorded_desktop_refuses_what_a_live_one_refuses() -> None:
    desktop = RecordedDesktop(Answers())
    with pytest.raises(BadArgument):
        desktop.file("../x")
    with pytest.raises(BadArgument):
        desktop.launch("x", object())


def test_both_desktops_have_the_same_surface() -> None:
    def surface(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    instance_only = {"name", "size", "config", "display", "home", "home_inside", "isolation", "keyboard", "pointer"}
    assert surface(Desktop) - surface(RecordedDesktop) == {"start", "attach"}
    assert surface(RecordedDesktop) - surface(Desktop) <= instance_only
