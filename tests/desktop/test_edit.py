"""The text editor tool on a desktop: files of HOME and nothing else, byte by byte, in every version."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.tools import ToolError
from anthropic.types import beta as api
from desktop_support import eventually
from PIL import Image

from pytest_cua.desktop.desktop import Desktop, DesktopConfig
from pytest_cua.errors import BadArgument, DesktopDied
from pytest_cua.tools import edit_files, edit_view
from pytest_cua.tools.edit import EDITORS, EditFailed, Editor

HOME = "/home/cua"
FILE = f"{HOME}/a.txt"


@pytest.fixture(scope="module")
def desktop() -> Iterator[Desktop]:
    with Desktop.start(DesktopConfig(size=(400, 300))) as running:
        yield running


@pytest.fixture
def home(desktop: Desktop) -> Iterator[Path]:
    yield desktop.home
    for path in desktop.home.iterdir():
        if not path.name.startswith("."):
            subprocess.run(["rm", "-rf", str(path)], check=True)
    assert not any(desktop.home.glob(".a.txt*"))  # an edit leaves nothing beside its file
    assert not (desktop.root / "editor" / "new").exists()
    shutil.rmtree(desktop.root / "editor", ignore_errors=True)


@pytest.fixture
def editor(desktop: Desktop, home: Path) -> Editor:
    return Editor(desktop)


# ---------------------------------------------------------------------- what changes, and what does not


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"all:\n\techo\t1\n\techo 2\n", "echo 2", "echo 3", b"all:\n\techo\t1\n\techo 3\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b\r\n", "", b"a\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b", "x\ny", b"a\r\nx\ny\nc\r\n"),
        (b"a\r\nb\nc", "c", "x\ny", b"a\r\nb\nx\ny"),
        (b"no end", "no end", "still none", b"still none"),
        (b"\xef\xbb\xbfBOM\n", "BOM", "B", b"\xef\xbb\xbfB\n"),
        ("\ufeffä\r\nb".encode("utf-16-le"), "ä\nb", "ö\n日", "\ufeffö\r\n日".encode("utf-16-le")),
        (b"caf\xe9 \x93x\x94", "x", "\u20ac", b"caf\xe9 \x93\x80\x94"),
        ("é".encode() + b" \xff\xfe x", "x", "ü", "é".encode() + b" \xff\xfe " + "ü".encode()),
        (b"a\rb\r\nc\fd", "d", "e", b"a\rb\r\nc\fe"),
        (b"one line", "one line", "", b""),
    ],
)
def test_bytes_outside_of_the_edit_stay(
    editor: Editor, home: Path, *, before: bytes, old: str, new: str, after: bytes
) -> None:
    (home / "a.txt").write_bytes(before)
    editor.str_replace(FILE, old, new)
    assert (home / "a.txt").read_bytes() == after
    editor.undo_edit(FILE)
    assert (home / "a.txt").read_bytes() == before


def test_the_answer_shows_what_changed(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 21)))
    assert editor.str_replace(FILE, "10\n", "ten\n") == (
        f"{FILE} was changed at line 10, where it is now:\n"
        "     6\t6\n     7\t7\n     8\t8\n     9\t9\n    10\tten\n    11\t11\n    12\t12\n    13\t13\n    14\t14"
    )
    assert "at lines 21 to 22" in editor.insert(FILE, 20, "x\ny\n")
    assert (home / "a.txt").read_text().endswith("20\nx\ny\n")


def test_one_that_may_mean_several_is_refused(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("x = 1\ny = 2\nx = 1\n" + "z\n" * 30)
    with pytest.raises(EditFailed, match=r"occurs 2 times in /home/cua/a\.txt, beginning in lines 1, 3; nothing"):
        editor.str_replace(FILE, "x = 1", "x = 2")
    with pytest.raises(EditFailed, match=r"occurs 30 times .* 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 20 more lines"):
        editor.str_replace(FILE, "z", "")
    assert (home / "a.txt").read_text().startswith("x = 1\ny = 2\nx = 1\n")


def test_one_that_is_not_there_tells_what_is(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("def total(x):\n\treturn  x\n\nend\n")
    with pytest.raises(EditFailed, match=r"does not occur") as caught:
        editor.str_replace(FILE, "def total(x):\n    return x", "")
    assert str(caught.value).endswith(
        "The same words with other white space are here:\n     1\tdef total(x):\n     2\t\treturn  x"
    )
    with pytest.raises(EditFailed, match=r"Most like it is what is here:\n     1\tdef total\(x\):$"):
        editor.str_replace(FILE, "def totals(y):", "")
    with pytest.raises(EditFailed, match="Nothing in the file is like it"):
        editor.str_replace(FILE, "§§§", "")


def test_what_cannot_be_meant(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("a\nb\n")
    for call, message in [
        (lambda: editor.str_replace(FILE, "", "x"), "old_str is empty"),
        (lambda: editor.str_replace(FILE, "a", "a"), "old_str and new_str are the same"),
        (lambda: editor.str_replace(FILE, "a\r\n", "a\n"), "differ in their line ends alone"),
        (lambda: editor.str_replace(FILE, "a", "\ud800"), "half of a surrogate pair"),
        (lambda: editor.insert(FILE, 3, "x"), "insert_line=3 must be from 0 to 2, as /home/cua/a.txt has 2 lines"),
        (lambda: editor.insert(FILE, -1, "x"), "insert_line=-1 must be from 0 to 2"),
        (lambda: editor.insert(FILE, True, "x"), "must be a whole number"),
        (lambda: editor.insert(FILE, 1, ""), "insert_text is empty"),
        (lambda: editor.create(FILE, 3), "file_text must be text"),  # type: ignore[arg-type]
        (lambda: editor.create(f"{HOME}/d/", ""), "names a directory"),
    ]:
        with pytest.raises(BadArgument, match=message):
            call()
    assert (home / "a.txt").read_text() == "a\nb\n"


# ---------------------------------------------------------------------- create and undo


def test_create_makes_directories_and_undo_takes_all_of_it_back(editor: Editor, home: Path) -> None:
    (home / "there").mkdir()
    path = f"{HOME}/there/is none/yet/a.txt"
    assert editor.create(path, "a\nb") == f"{path} was created with 2 lines."
    assert (home / "there/is none/yet/a.txt").read_bytes() == b"a\nb"
    assert "is gone again" in editor.undo_edit(path)
    assert list(home.joinpath("there").iterdir()) == []


def test_create_replaces_and_says_so(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_bytes(b"\0old\r\n")  # binary: it is not shown, but it can be replaced
    answer = editor.create(FILE, "ä\n")
    assert answer == f"{FILE} was there already, with 6 bytes; it was replaced, and has 1 line now."
    assert (home / "a.txt").read_bytes() == "ä\n".encode()
    editor.undo_edit(FILE)
    assert (home / "a.txt").read_bytes() == b"\0old\r\n"


def test_undo_goes_back_step_by_step_to_the_absence(editor: Editor, home: Path) -> None:
    editor.create(FILE, "1\n")
    editor.str_replace(FILE, "1", "2")
    editor.insert(FILE, 0, "0\n")
    for text in ("2\n", "1\n"):
        assert f"Now it is:\n     1\t{text.strip()}" in editor.undo_edit(FILE)
        assert (home / "a.txt").read_text() == text
    editor.undo_edit(FILE)
    assert not (home / "a.txt").exists()
    with pytest.raises(EditFailed, match="no change of /home/cua/a.txt to take back"):
        editor.undo_edit(FILE)


def test_undo_never_loses_what_others_wrote(editor: Editor, home: Path) -> None:
    editor.create(FILE, "1\n")
    (home / "a.txt").write_text("theirs\n")
    with pytest.raises(EditFailed, match="was changed by another program"):
        editor.undo_edit(FILE)
    assert (home / "a.txt").read_text() == "theirs\n"
    editor.str_replace(FILE, "theirs", "ours")
    editor.undo_edit(FILE)  # our own, on top of theirs
    assert (home / "a.txt").read_text() == "theirs\n"
    (home / "a.txt").unlink()
    assert "as it was before" in editor.undo_edit(FILE)  # it is as before the create
    editor.create(FILE, "2\n")
    editor.str_replace(FILE, "2", "3")
    (home / "a.txt").unlink()
    with pytest.raises(EditFailed, match="was removed by another program"):
        editor.undo_edit(FILE)


def test_undo_outlives_the_process_and_is_seen_by_no_program(desktop: Desktop, editor: Editor, home: Path) -> None:
    """Another process makes the change; this one, which has never seen it, takes it back."""
    (home / "a.txt").write_text("before\n")
    code = f"""
        import types
        from pathlib import Path
        from pytest_cua.tools.edit import Editor
        root = Path({str(desktop.root)!r})
        desktop = types.SimpleNamespace(root=root, home=root / "home", home_inside={HOME!r}, check_alive=lambda: None)
        Editor(desktop).str_replace({FILE!r}, "before", "after")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    assert (home / "a.txt").read_text() == "after\n"
    program = desktop.launch("/bin/sh", "-c", f"ls -a {HOME} {desktop.root} / /tmp 2>&1", wait=False)
    program.wait()
    assert "a.txt" in program.output()
    assert "undo" not in program.output() and "editor" not in program.output()
    editor.undo_edit(FILE)
    assert (home / "a.txt").read_text() == "before\n"


def test_an_edit_that_fails_leaves_nothing_to_undo(editor: Editor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "a.txt").write_text("a\n")

    def full(self: Path, data: bytes) -> int:
        if self.parent.name == "editor":
            raise OSError(errno.ENOSPC, "no space")
        return real(self, data)

    real = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EditFailed, match=r"/home/cua/a\.txt: No space left on device"):
        editor.create(FILE, "b\n")
    monkeypatch.undo()
    assert (home / "a.txt").read_text() == "a\n"
    with pytest.raises(EditFailed, match="no change"):
        editor.undo_edit(FILE)


# ---------------------------------------------------------------------- the file itself


def test_mode_owner_and_attributes_stay(editor: Editor, home: Path) -> None:
    file = home / "a.txt"
    file.write_text("a\n")
    file.chmod(0o751)
    os.setxattr(file, "user.note", b"kept")
    if os.getuid() == 0:
        os.chown(file, 1234, 4321)
    owner = file.stat().st_uid, file.stat().st_gid
    editor.str_replace(FILE, "a", "b")
    assert file.stat().st_mode & 0o7777 == 0o751
    assert (file.stat().st_uid, file.stat().st_gid) == owner
    assert os.getxattr(file, "user.note") == b"kept"


def test_a_file_that_is_read_only_is_not_changed(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("a\n")
    (home / "a.txt").chmod(0o444)
    for change in (lambda: editor.str_replace(FILE, "a", "b"), lambda: editor.create(FILE, "b")):
        with pytest.raises(EditFailed, match=r"read-only \(mode 0444\)"):
            change()
    (home / "a.txt").chmod(0o000)
    with pytest.raises(EditFailed, match=r"may not be read \(mode 0000\)|Permission denied"):
        editor.view(FILE)


def test_links_lead_to_their_target_and_stay_links(editor: Editor, home: Path) -> None:
    (home / "dir").mkdir()
    (home / "dir/real.txt").write_text("a\n")
    (home / "a.txt").symlink_to(f"{HOME}/link")  # as programs of the desktop see it
    (home / "link").symlink_to("dir/real.txt")
    editor.str_replace(FILE, "a", "b")
    assert (home / "a.txt").is_symlink() and (home / "link").is_symlink()
    assert (home / "dir/real.txt").read_text() == "b\n"
    assert editor.view(FILE).endswith("     1\tb")
    editor.undo_edit(f"{HOME}/dir/real.txt")  # one history, by whatever name
    assert (home / "dir/real.txt").read_text() == "a\n"
    (home / "new").symlink_to("dir/created.txt")
    editor.create(f"{HOME}/new", "c")
    assert (home / "dir/created.txt").read_text() == "c"


def test_hard_links_are_told(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text("a\n")
    (home / "other.txt").hardlink_to(home / "a.txt")
    assert "had 1 other name (hard links), which keeps the old content" in editor.str_replace(FILE, "a", "b")
    assert ((home / "a.txt").read_text(), (home / "other.txt").read_text()) == ("b\n", "a\n")


def test_nobody_sees_half_a_file_and_no_change_is_lost(desktop: Desktop, home: Path) -> None:
    """Four editors change one file at once while a reader watches it."""
    texts = {f"{n}:" + letter * 2_000_000 + "\n" for n, letter in enumerate("abcd")}
    (home / "a.txt").write_text(next(iter(texts)))
    done = threading.Event()
    seen: set[str] = set()

    def watch() -> None:
        while not done.is_set():
            seen.add((home / "a.txt").read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda text: Editor(desktop).create(FILE, text), [*texts] * 3))
            done.set()
            watcher.join()
            (home / "a.txt").write_text("".join(f"<{n}>\n" for n in range(40)))
            list(pool.map(lambda n: Editor(desktop).str_replace(FILE, f"<{n}>", f"({n})"), range(40)))
    finally:
        done.set()
    assert (home / "a.txt").read_text() == "".join(f"({n})\n" for n in range(40))
    assert seen - texts == set()
    assert len(seen) > 1


def test_what_a_program_writes_meanwhile_is_not_lost(
    editor: Editor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a.txt").write_text("a\n")
    real = edit_files.HomeFiles.write

    def late(self: Any, *args: Any) -> None:
        (home / "a.txt").write_text("theirs\n")
        real(self, *args)

    monkeypatch.setattr(edit_files.HomeFiles, "write", late)
    with pytest.raises(EditFailed, match="changed by a program while it was edited"):
        editor.str_replace(FILE, "a", "b")
    assert (home / "a.txt").read_text() == "theirs\n"


# ---------------------------------------------------------------------- paths

COMMANDS: Mapping[str, Callable[[Editor, str], str]] = {
    "view": lambda editor, path: editor.view(path),
    "create": lambda editor, path: editor.create(path, "x"),
    "str_replace": lambda editor, path: editor.str_replace(path, "x", "y"),
    "insert": lambda editor, path: editor.insert(path, 0, "x"),
    "undo_edit": lambda editor, path: editor.undo_edit(path),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.txt", r"not absolute: .* Perhaps /home/cua/a\.txt is meant"),
        ("./sub/a.txt", r"Perhaps /home/cua/sub/a\.txt is meant"),
        ("~/a.txt", r"Perhaps /home/cua/a\.txt is meant"),
        ("../a.txt", r"must begin with '/'\.$"),
        ("", "is no path"),
        ("/home/cua/a\0b", "is no path"),
        ("/home/cua/../../etc/passwd", r"has '\.\.' in it, which the editor does not follow\.$"),
        ("/home/cua/x/../a.txt", r"has '\.\.' in it.* Write /home/cua/a\.txt\."),
        ("/etc/passwd", "outside of /home/cua, .* Use bash"),
        ("//etc/passwd", "outside of /home/cua, .* Use bash"),
        ("/home/cuautla", "outside of /home/cua"),
        ("/proc/self/root/etc/passwd", "outside of /home/cua"),
        ("/tmp/x", "outside of /home/cua"),
    ],
)
def test_paths_outside_of_home_are_refused(editor: Editor, command: str, path: str, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        COMMANDS[command](editor, path)


@pytest.mark.parametrize("command", COMMANDS)
def test_links_that_lead_out_of_home_are_refused(editor: Editor, home: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "secret.txt").write_text("x of the host\n")
    for name, target in {
        "file": tmp_path / "secret.txt",
        "dir": tmp_path,
        "up": "../../..",
        "proc": "/proc/self/cwd",
        "loop": "loop",
    }.items():
        (home / name).symlink_to(target)
    for path in ("file", "dir/secret.txt", "dir/new.txt", "up/etc/passwd", "proc/x", "loop"):
        with pytest.raises(BadArgument, match="symbolic link that leaves HOME"):
            COMMANDS[command](editor, f"{HOME}/{path}")
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert (tmp_path / "secret.txt").read_text() == "x of the host\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("part", ["dir", "dir/a.txt"])
def test_a_link_that_comes_after_the_look_is_not_followed(
    editor: Editor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, command: str, part: str
) -> None:
    """A program exchanges a directory, or the file, for a link once the path was resolved."""
    (tmp_path / "a.txt").write_text("x of the host\n")
    (home / "dir").mkdir()
    (home / "dir/a.txt").write_text("x\n")
    path = f"{HOME}/dir/a.txt"
    editor.str_replace(path, "x", "xx")
    editor.str_replace(path, "xx", "x")
    real = edit_files.HomeFiles.place

    def place(self: Any, given: object) -> edit_files.Place:
        found = real(self, given)
        (home / part).rename(home / "aside")
        (home / part).symlink_to(tmp_path / "a.txt" if part.endswith(".txt") else tmp_path)
        return found

    monkeypatch.setattr(edit_files.HomeFiles, "place", place)
    with pytest.raises(EditFailed, match="leads through something that is no directory|became a link"):
        COMMANDS[command](editor, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "x of the host\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "undo_edit"])
def test_what_is_no_file_never_blocks(desktop: Desktop, editor: Editor, home: Path, command: str) -> None:
    desktop.launch("mkfifo", "pipe", wait=False).wait()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "socket"))
        for name, kind in (("pipe", "a FIFO"), ("socket", "a socket")):
            with pytest.raises(EditFailed, match=f"is {kind}, which holds no text"):
                COMMANDS[command](editor, f"{HOME}/{name}")
    if os.getuid() == 0:
        os.mknod(home / "null", 0o20666, os.makedev(1, 3))
        with pytest.raises(EditFailed, match="is a character device"):
            COMMANDS[command](editor, f"{HOME}/null")


@pytest.mark.timeout(20)
def test_a_fifo_that_comes_after_the_look_does_not_block(
    editor: Editor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a.txt").write_text("x\n")
    real = os.open

    def late(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if path == "a.txt":
            (home / "a.txt").unlink()
            os.mkfifo(home / "a.txt")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(EditFailed, match="is a FIFO"):
        editor.view(FILE)


def test_directories_and_files_on_the_way(editor: Editor, home: Path) -> None:
    (home / "dir").mkdir()
    (home / "a.txt").write_text("x\n")
    for change in ("create", "str_replace", "insert"):
        for path in (f"{HOME}/dir", HOME):
            with pytest.raises(EditFailed, match="is a directory; it can be viewed"):
                COMMANDS[change](editor, path)
        with pytest.raises(EditFailed, match="leads through something that is no directory"):
            COMMANDS[change](editor, f"{FILE}/b")
    with pytest.raises(BadArgument, match="File name too long"):
        editor.view(f"{HOME}/{'n' * 300}")


def test_a_file_that_is_not_there_tells_names_like_it(editor: Editor, home: Path) -> None:
    (home / "invoice.txt").write_text("")
    with pytest.raises(
        EditFailed, match=r"^There is no /home/cua/invioce\.txt\. In its directory are: invoice\.txt\.$"
    ):
        editor.view(f"{HOME}/invioce.txt")
    with pytest.raises(EditFailed, match=r"^There is no /home/cua/d/e/f\.$"):
        editor.str_replace(f"{HOME}/d/e/f", "x", "y")
    assert not (home / "d").exists()


# ---------------------------------------------------------------------- view


def test_lines_are_numbered(editor: Editor, home: Path) -> None:
    (home / "a.txt").write_bytes(b"a\n\tb\n\nd\n")
    assert editor.view(FILE) == f"{FILE} (4 lines):\n     1\ta\n     2\t\tb\n     3\t\n     4\td"
    (home / "a.txt").write_bytes(b"a\r\nb")
    assert editor.view(FILE) == (f"{FILE} (2 lines, CRLF line ends, no line end after the last):\n     1\ta\n     2\tb")
    (home / "a.txt").write_bytes("é".encode("latin-1"))
    assert editor.view(FILE) == f"{FILE} (1 line, Windows-1252, no line end after the last):\n     1\té"
    (home / "a.txt").write_bytes("é".encode() + b"\xff")
    assert editor.view(FILE).endswith("     1\té\N{REPLACEMENT CHARACTER}")
    (home / "a.txt").write_bytes(b"")
    assert editor.view(FILE) == f"{FILE} is empty."


@pytest.mark.parametrize(
    ("view_range", "lines"),
    [([1, 1], "1"), ([2, 3], "23"), ([9, -1], "9X"), ([9, 99], "9X"), ([0, 2], "12"), ((10, 10), "X"), ([10, 11], "X")],
)
def test_a_range_is_clamped_to_the_file(editor: Editor, home: Path, view_range: list[int], lines: str) -> None:
    (home / "a.txt").write_text("".join(f"{n}\n" for n in "123456789X"))
    shown = editor.view(FILE, view_range).split("\n")[1:]
    assert [line.split("\t")[1] for line in shown] == list(lines)


@pytest.mark.parametrize(
    "view_range", [[3, 2], [-1, 2], [1, -2], [1], [1, 2, 3], [1, "2"], [1.0, 2], [True, 2], "12", 3, [0, 0]]
)
def test_a_range_that_means_nothing(editor: Editor, home: Path, view_range: Any) -> None:
    (home / "a.txt").write_text("1\n2\n3\n4\n")
    with pytest.raises(BadArgument, match=r"view_range="):
        editor.view(FILE, view_range)
    with pytest.raises(BadArgument, match=r"view_range begins with line 5, and /home/cua/a\.txt has 4 lines"):
        editor.view(FILE, [5, 6])
    with pytest.raises(BadArgument, match="view_range means nothing"):
        editor.view(HOME, [1, 2])


def test_directories_two_levels_deep(editor: Editor, home: Path, tmp_path: Path) -> None:
    (tmp_path / "of the host").touch()
    for path in ("b dir/two/three.txt", "b dir/.hidden/x", "a.txt", ".secret-dir/x", "line\nend"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).touch()
    (home / "out").symlink_to(tmp_path)
    (home / "in").symlink_to("b dir")
    Path(os.fsdecode(os.fsencode(home) + b"/\xff")).touch()
    assert editor.view(HOME).split("\n") == [
        f"{HOME}/ has, two levels deep and without hidden files:",
        "a.txt",
        "b dir/",
        "b dir/two/",
        "in -> b dir",
        "line\\nend",
        f"out -> {tmp_path}",
        "\N{REPLACEMENT CHARACTER}",
    ]
    assert editor.view(f"{HOME}/b dir/").split("\n")[1:] == ["two/", "two/three.txt"]
    assert editor.view(f"{HOME}/in").split("\n")[1:] == ["two/", "two/three.txt"]
    (home / "b dir/two/three.txt").unlink()
    assert "is an empty directory" in editor.view(f"{HOME}/b dir/two")
    for number in range(1_200):
        (home / f"b dir/{number}").touch()
    many = editor.view(HOME).split("\n")
    assert len(many) == 1_002
    assert many[-1] == "[There are more: 1,000 are shown.]"


def test_a_view_has_a_limit_and_says_so(desktop: Desktop, home: Path) -> None:
    (home / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 1_001)))
    limited = Editor(desktop, max_characters=50)
    head, *lines = limited.view(FILE).split("\n")
    assert head == f"{FILE} (1,000 lines):"
    assert lines == [
        "     1\tline 1",
        "     2\tline 2",
        "     3\tline 3",
        "[Cut after line 3, as a view has no more than 50 characters: view_range [4, 1000] shows on.]",
    ]
    assert "view_range [7, 8] shows on" in limited.view(FILE, [4, 8])
    (home / "a.txt").write_text("x" * 1_000_000)
    assert limited.view(FILE).split("\n")[1:] == [
        "     1\t" + "x" * 43,
        "[Line 1 is cut, as a view has no more than 50 characters.]",
    ]
    assert 200_000 < len(Editor(desktop).view(FILE)) < 200_200


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "WebP", "TIFF"])
def test_pictures_are_for_the_screen(editor: Editor, home: Path, format: str) -> None:
    Image.new("RGB", (40, 40), "red").save(home / "picture", format)
    for command in ("view", "str_replace", "insert"):
        with pytest.raises(
            EditFailed, match=rf"is a picture \({format}, [\d,]+ bytes\).* look at the screen"
        ) as caught:
            COMMANDS[command](editor, f"{HOME}/picture")
        assert f"{(home / 'picture').stat().st_size:,} bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"a\0b", "binary data, 3 bytes"), (b"%PDF-1.7\n", "a PDF document, 9 bytes"), (b"PK\3\4", "a ZIP archive")],
)
def test_what_is_no_text_says_what_it_is(editor: Editor, home: Path, data: bytes, kind: str) -> None:
    (home / "a.txt").write_bytes(data)
    for command in ("view", "str_replace", "insert"):
        with pytest.raises(EditFailed, match=f"is no text: {kind}"):
            COMMANDS[command](editor, FILE)
    assert (home / "a.txt").read_bytes() == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_hundred_megabytes_are_viewed_in_little_memory(editor: Editor, home: Path, encoding: str) -> None:
    line = "é 3456789 123456789 123456789\n"
    count = 100_000_000 // len(line.encode(encoding))
    with (home / "a.txt").open("w", encoding=encoding, newline="") as file:
        for _ in range(100):
            file.write(line * (count // 100))
        file.write("the last")
    assert (home / "a.txt").stat().st_size > 90_000_000
    lines = count // 100 * 100 + 1
    tracemalloc.start()
    assert editor.view(FILE, [lines - 1, -1]).split("\n")[1:] == [
        f"{lines - 1:6}\t{line.strip()}",
        f"{lines:6}\tthe last",
    ]
    assert f"({lines:,} lines" in editor.view(FILE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15_000_000
    for command in ("create", "str_replace", "insert"):
        with pytest.raises(EditFailed, match=r"and the editor changes files of up to 20,000,000"):
            COMMANDS[command](editor, FILE)


def test_a_file_beyond_the_limit_is_not_looked_through(editor: Editor, home: Path) -> None:
    with (home / "a.txt").open("wb") as file:
        file.write(b"text\n" * 2_000)
        file.truncate(edit_view.MOST_VIEWED + 1)
    with pytest.raises(EditFailed, match=r"has 2,000,000,001 bytes, more than a view looks through. Use bash"):
        editor.view(FILE)


# ---------------------------------------------------------------------- nearly

NEAR = "def total(items):\n    return sum(item.price for item in items)\n"


def test_a_near_text_is_replaced_only_when_asked_for_and_is_told(desktop: Desktop, editor: Editor, home: Path) -> None:
    (home / "a.txt").write_text(f"import x\n{NEAR}\nprint()\n")
    wanted = "return sum(item.prize  for item in items)"
    with pytest.raises(EditFailed, match="does not occur"):
        editor.str_replace(FILE, wanted, "return 0")
    answer = Editor(desktop, fuzzy=True).str_replace(FILE, wanted, "return 0")
    assert answer.endswith(
        "[old_str was not there exactly. What was replaced differs from it in 2 characters, and is the only text so "
        "near:]\nreturn sum(item.price for item in items)"
    )
    assert (home / "a.txt").read_text() == "import x\ndef total(items):\n    return 0\n\nprint()\n"


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        ("a short text, exactly\n", "a short tixt", "does not occur"),  # less than 20 characters
        ("return sum(item.price for item in items)\n", "return max(item.prize for i in items)", "does not occur"),
        (
            "x = first_value + 1000\nx = first_value + 1001\n",
            "x = first_value - 100",
            "not unique: it begins in lines 1, 2",
        ),
        ("total = alpha + beta + gamma\n" * 2, "total = alpha - beta + gamma", "not unique: it begins in lines 1, 2"),
        ("total = alpha + beta + gamma\n", "total = alpha - beta + gamma", "new_str is in its place already"),
    ],
)
def test_a_near_text_is_refused_in_doubt(desktop: Desktop, home: Path, text: str, wanted: str, message: str) -> None:
    (home / "a.txt").write_text(text)
    with pytest.raises(EditFailed, match=message):
        Editor(desktop, fuzzy=True).str_replace(FILE, wanted, "total = alpha + beta + gamma")
    assert (home / "a.txt").read_text() == text


def test_the_best_is_taken_not_the_first(desktop: Desktop, home: Path) -> None:
    (home / "a.txt").write_text("def grand_totals(y, rate):\n\ndef grand_total (x, rate):\n")
    Editor(desktop, fuzzy=True).str_replace(FILE, "def grand_total(x, rate):", "NEW")
    assert (home / "a.txt").read_text() == "def grand_totals(y, rate):\n\nNEW\n"


# ---------------------------------------------------------------------- the API


@pytest.mark.parametrize("version", EDITORS)
def test_the_definition_is_that_of_the_sdk(desktop: Desktop, version: str) -> None:
    kind = getattr(api, f"BetaToolTextEditor{version.rpartition('_')[2]}Param")
    hints = get_type_hints(kind)
    editor = Editor(desktop, version=version)
    assert editor.to_dict() == {"type": version, "name": editor.name}
    assert get_args(hints["name"]) == (editor.name,)
    assert ("max_characters" in hints) == EDITORS[version].max_characters
    assert editor.beta == ("computer-use-2024-10-22" if version.endswith("20241022") else None)


def test_a_limit_is_in_the_definition_where_the_version_has_it(desktop: Desktop) -> None:
    assert Editor(desktop, max_characters=7).to_dict()["max_characters"] == 7
    with pytest.raises(BadArgument, match="takes no max_characters"):
        Editor(desktop, version="text_editor_20250429", max_characters=7)
    for bad in (0, -1, True, 1.5, "7"):
        with pytest.raises(BadArgument, match="max_characters="):
            Editor(desktop, max_characters=bad)  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="no text editor tool: there are text_editor_20250728, "):
        Editor(desktop, version="text_editor_20260101")


@pytest.mark.parametrize("version", EDITORS)
@pytest.mark.parametrize("parameter", ["insert_text", "new_str"])
def test_calls_of_every_version(desktop: Desktop, home: Path, version: str, parameter: str) -> None:
    editor = Editor(desktop, version=version)

    def call(command: str, **more: Any) -> str:
        return editor.call({"command": command, "path": FILE, **more})

    call("create", file_text="a\nb\n")
    call("insert", insert_line=1, **{parameter: "HELLO\n"})
    assert (home / "a.txt").read_text() == "a\nHELLO\nb\n"
    call("str_replace", old_str="a\n", view_range=None)
    assert call("view", view_range=[1, -1]).endswith("     1\tHELLO\n     2\tb")
    if version in ("text_editor_20250124", "text_editor_20241022"):
        call("undo_edit")
        assert (home / "a.txt").read_text() == "a\nHELLO\nb\n"
    else:
        with pytest.raises(ToolError, match="'undo_edit' is no command of str_replace_based_edit_tool: it has view,"):
            call("undo_edit")


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "command=None is no command"),
        ({"command": "_checked", "path": FILE}, "is no command"),
        ({"command": ["view"], "path": FILE}, "is no command"),
        ({"command": "view"}, "view needs the parameter path"),
        ({"command": "create", "path": FILE}, "create needs the parameter file_text"),
        ({"command": "insert", "path": FILE, "insert_line": 0}, "insert needs the parameter insert_text"),
        ({"command": "insert", "path": FILE, "insert_line": "0", "new_str": "x"}, "must be a whole number"),
        ({"command": "insert", "path": FILE, "insert_line": 0, "new_str": "x", "insert_text": "y"}, "differ: give one"),
        ({"command": "view", "path": FILE, "old_str": "x"}, "old_str is no parameter of view"),
        ({"command": "view", "path": 3}, "path=3 is no path"),
        ({"command": "view", "path": "a.txt"}, "Perhaps /home/cua/a.txt is meant"),
        ({"command": "view", "path": FILE}, "There is no /home/cua/a.txt"),
        ({"command": "view", "path": f"{HOME}/\ud800"}, "half of a surrogate pair"),
    ],
)
def test_a_call_that_cannot_be_done_is_a_tool_error(editor: Editor, input: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        editor.call(input)


def test_programs_of_the_desktop_see_the_file_and_notice_the_change(desktop: Desktop, editor: Editor) -> None:
    editor.create(FILE, "first\n")
    program = desktop.launch(
        "/bin/sh", "-c", "cat a.txt; until grep second a.txt; do sleep 0.05; done; stat -c %U a.txt", wait=False
    )
    eventually(lambda: "first" in program.output())
    editor.str_replace(FILE, "first", "second")
    program.wait()
    assert program.output() == "first\nsecond\ncua\n"


def test_a_desktop_without_a_namespace_has_its_home_elsewhere() -> None:
    with Desktop.start(DesktopConfig(size=(400, 300), isolation="process-group")) as desktop:
        editor = Editor(desktop)
        editor.create(f"{desktop.home_inside}/a.txt", "x\n")
        assert desktop.file("a.txt").read_text() == "x\n"
        with pytest.raises(BadArgument, match=f"outside of {desktop.home_inside}"):
            editor.view("/etc/passwd")
    with pytest.raises(DesktopDied, match="closed"):
        editor.view(f"{desktop.home_inside}/a.txt")
