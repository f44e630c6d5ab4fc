"""A recording process that is killed at any point leaves the old or the new recording, whole, and what was paid for.

The processes are real and so is the SIGKILL. A nursery imports everything once and forks a child for each recording; a
child stops itself right before a chosen change of the file system (a file opened for writing, a name changed or
removed, a flush), so that every such point is hit; or it records in a loop and is killed from outside.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_cua import screens
from pytest_cua.cassette.format import FILE, Cassette, load
from pytest_cua.cassette.player import stored_file, stored_screen
from pytest_cua.cassette.store import (
    HTTP,
    PAGE,
    RECORDING,
    CassetteWriter,
    adopt,
    cassette_folder,
    kept_recordings,
    load_cassette,
)
from pytest_cua.cassette.suite import verify
from pytest_cua.cassette.tape import Tape, header_line
from pytest_cua.cassette.wire import History, Reply, Request
from pytest_cua.cli import main
from pytest_cua.errors import CassetteUnreadable
from pytest_cua.trace import Action, Run

TEST = "tests/test_a.py::test_a"
TURNS = 3
DEADLINE = 30  # seconds until a child must have come to a point


# ------------------------------------------------------------------ a recording that says which it is


def picture(number: int, turn: int) -> Image.Image:
    return Image.new("RGB", (4, 4), (number % 256, turn, number // 256))


def said(number: int, turn: int) -> str:
    return f"recording {number} turn {turn}."


def http_of(number: int) -> bytes:
    return f"interactions: [] # {number}\n".encode()


def seen(number: int) -> bytes:
    return b"\xff" + f"{number}".encode()


def tape_of(root: Path, number: int) -> Tape:
    """A recording that ends short of its footer."""
    writer = CassetteWriter(cassette_folder(root, TEST), root)
    model = f"model-{number}"
    header = header_line(test=TEST, model=model, tools=[], prompt_digest="", display={}, environment={})
    tape, history = Tape(writer, header=header, run=Run(test=TEST, mode="record")), History()
    tape.step = 1
    tape.write({"type": "step", "step": 1, "kind": "do", "desktop": "1", "sentence": f"sentence {number}"})
    tape.replied("scripted")
    messages: list[Any] = []
    for turn in range(1, TURNS + 1):
        messages += [{"role": "user", "content": f"ask {turn}"}]
        reply = [{"type": "text", "text": said(number, turn)}]
        asked = Request("post", "/v1/messages", {"model": "m"}, list(messages))
        tape.turn({"step": 1, "turn": turn}, history, asked, Reply(200, {"content": reply}), waited_ms=1, attempts=[])
        messages.append({"role": "assistant", "content": reply})
        key = tape.picture(picture(number, turn))
        action = Action(id=f"t{turn}", tool="computer", name="screenshot", input={}, screen=key)
        tape.write({"type": "action", "step": 1, "turn": turn, **action.to_json()})
    tape.write({"type": "end", "step": 1, "outcome": "done", "summary": "ok", "observations": []})
    tape.observation("file", "a.bin", "1", seen(number))
    (writer.aside / HTTP).write_bytes(http_of(number))
    return tape


def record(root: Path, number: int, *, passed: bool = True) -> None:
    tape_of(root, number).close(passed=passed)


def number_of(cassette: Cassette) -> int:
    return int(cassette.header["model"].removeprefix("model-"))


def check_whole(cassette: Cassette) -> int:
    """The cassette, and everything beside it, is of one recording; gives its number."""
    number = number_of(cassette)
    assert [step.sentence for step in cassette.steps] == [f"sentence {number}"]
    assert [turn.body["content"][0]["text"] for turn in cassette.turns()] == [
        said(number, turn) for turn in range(1, TURNS + 1)
    ]
    assert (cassette.folder / HTTP).read_bytes() == http_of(number)
    assert said(number, TURNS) in (cassette.folder / PAGE).read_text()
    assert stored_file(cassette, cassette.observations[0]["value"]["file"]) == seen(number)
    assert cassette.screens() == {screens.content_key(picture(number, turn)) for turn in range(1, TURNS + 1)}
    for key in cassette.screens():
        stored_screen(cassette, key)
    return number


def loaded(root: Path) -> int:
    """The number of the recording that a reader gets, whole."""
    return check_whole(load_cassette(root, TEST))


# ------------------------------------------------------------------ the processes


def tell(**what: Any) -> None:
    os.write(1, f"{json.dumps(what)}\n".encode())  # at once: nursery and child share this pipe


def stop_before(point: int, root: Path) -> None:
    """Stop this process right before its n-th change of what lies in a folder, and say what that is."""
    count = 0

    def reached(what: str) -> None:
        nonlocal count
        count += 1
        if count == point:
            tell(before=what)
            os.kill(os.getpid(), signal.SIGSTOP)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
            path = args[0]
        elif event == "fcntl.flock":
            reached(event)
            return
        else:
            return
        path = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if path and (not path.startswith("/") or path.startswith(str(root))):
            reached(f"{event} {path}")

    sync = os.fsync

    def fsync(descriptor: int) -> None:
        reached("os.fsync")
        sync(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)


def nurse() -> None:
    """The nursery: for each order on stdin a child; tells when it has stopped, and when it has ended."""
    for line in sys.stdin:
        order = json.loads(line)
        root = Path(order["root"])
        child = os.fork()
        if child == 0:
            tell(pid=os.getpid())
            if order["point"]:
                stop_before(order["point"], root)
            if order["what"] == "adopt":
                adopt(cassette_folder(root, TEST), root)
            elif order["what"] == "record":
                record(root, order["number"])
            else:
                for number in range(order["number"], 10_000):
                    record(root, number)
            os._exit(0)
        while True:
            _, status = os.waitpid(child, os.WUNTRACED)
            stopped = os.WIFSTOPPED(status)
            tell(stopped=stopped, code=None if stopped else os.waitstatus_to_exitcode(status))
            if not stopped:
                break


class Nursery:
    def __init__(self, log: Path) -> None:
        self.log = log
        self.child = 0  # as long as it lives
        command = [sys.executable, str(Path(__file__))]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return dict(json.loads(line))

    def start(self, what: str, root: Path, *, number: int = 0, point: int = 0) -> int:
        assert self.process.stdin is not None
        order = {"what": what, "root": str(root), "number": number, "point": point}
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        self.child = int(self.told()["pid"])
        return self.child

    def stopped(self) -> str | None:
        """Before what the child stopped; None when it has come to its end."""
        told = self.told()
        if "before" not in told:
            self.child = 0
            assert told == {"stopped": False, "code": 0}, self.log.read_text()
            return None
        assert self.told()["stopped"]
        return str(told["before"])

    def kill(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        self.child = 0
        assert self.told() == {"stopped": False, "code": -signal.SIGKILL}, self.log.read_text()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path / "errors")
    yield made
    if made.child:  # the test failed
        os.kill(made.child, signal.SIGKILL)
    made.process.communicate(timeout=DEADLINE)


def at_every_point(
    nursery: Nursery, what: str, template: Path, place: Path, number: int
) -> Iterator[tuple[str, Path, int]]:
    """A child stopped before each change of the file system in turn, until one comes to its end."""
    for point in range(1, 1000):
        root = place / str(point)
        shutil.copytree(template, root)
        child = nursery.start(what, root, number=number, point=point)
        before = nursery.stopped()
        if before is None:
            assert loaded(root) == number
            assert point > 10
            return
        yield f"point {point}: before {before}", root, child
        shutil.rmtree(root)
    raise AssertionError("it never came to its end")


# ------------------------------------------------------------------ what must hold


def paid_turns(file: Path) -> list[str]:
    """What the whole lines of a file say that a model answered."""
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]
    return [line["reply"]["body"]["content"][0]["text"] for line in lines if line["type"] == "turn"]


def shown(capsys: pytest.CaptureFixture[str], root: Path, folder: Path) -> str:
    capsys.readouterr()
    assert main(["show", str(folder), "--cassettes", str(root)]) == 0
    return capsys.readouterr().out


def check_paid(capsys: pytest.CaptureFixture[str], root: Path, wanted: set[str]) -> None:
    """Turns that were flushed can be shown, from the recording or from what was kept of one."""
    folder = cassette_folder(root, TEST)
    places = [*kept_recordings(folder), folder]
    told = "".join(shown(capsys, root, place) for place in places if size_of(place / FILE))
    assert {turn for turn in wanted if turn not in told} == set()


def check_next_recording(root: Path, number: int) -> None:
    record(root, number)
    assert loaded(root) == number
    assert not (cassette_folder(root, TEST) / RECORDING).exists()
    assert verify(root)[0] == []


def check_kept(folder: Path, number: int) -> None:
    """A recording that was kept has everything that it had."""
    cassette = load(folder, partial=True)
    assert number_of(cassette) == number
    for key in cassette.screens():
        stored_screen(cassette, key)
    for key in cassette.files():
        stored_file(cassette, key)
    assert (folder / HTTP).read_bytes() == http_of(number)


# ------------------------------------------------------------------ at every point


def test_killed_at_every_point_of_a_recording(
    nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "template", 1)
    found = set()
    for point, root, child in at_every_point(nursery, "record", tmp_path / "template", tmp_path, 2):
        aside = cassette_folder(root, TEST) / RECORDING
        nursery.kill(child)
        try:
            paid = paid_turns(aside / FILE) if (aside / FILE).exists() else []
            check_paid(capsys, root, set(paid))
            number = loaded(root)
            assert number in (1, 2)
            found.add((number, len(paid)))
            check_next_recording(root, 3)
            # it was asked and did not take its place: it is kept, unless nothing was
            check_paid(capsys, root, set(paid) if number == 1 else set())
        except Exception as error:
            raise AssertionError(point) from error
    assert found == {(2, 0), *((1, turns) for turns in range(TURNS + 1))}


def test_a_reader_beside_a_recording_at_every_point(nursery: Nursery, tmp_path: Path) -> None:
    """Another process replays the test meanwhile; it waits for nothing that is stopped."""
    record(tmp_path / "template", 1)
    found, between = [], []
    for point, root, child in at_every_point(nursery, "record", tmp_path / "template", tmp_path, 2):
        try:
            found.append(loaded(root))
        except CassetteUnreadable as error:  # between two renames, for as long as those take
            assert "another recording" in error.message, point
            between.append(point)
        except Exception as error:
            raise AssertionError(point) from error
        finally:
            nursery.kill(child)
    assert sorted(found) == found  # never back to the old one
    assert set(found) == {1, 2}
    assert len(between) <= 3, between  # the folder's flush and the two names


def test_killed_at_every_point_of_a_recording_that_follows_a_killed_one(
    nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "template"
    record(template, 1)
    killed = tape_of(template, 7)  # paid for, and never closed
    killed.writer._close_stream()
    killed.writer._unlock()
    wanted = {said(7, turn) for turn in range(1, TURNS + 1)}
    for point, root, child in at_every_point(nursery, "record", template, tmp_path, 2):
        nursery.kill(child)
        try:
            check_paid(capsys, root, wanted)
            assert loaded(root) in (1, 2)
            check_paid(capsys, root, wanted)
            check_next_recording(root, 3)
            folder = cassette_folder(root, TEST)
            kept = {number_of(load(place, partial=True)): place for place in kept_recordings(folder)}
            assert 7 in kept or 2 in kept  # the newest that broke off
            for number, place in kept.items():
                if number == 7 or (place / HTTP).exists():
                    check_kept(place, number)
        except Exception as error:
            raise AssertionError(point) from error


def test_killed_at_every_point_of_adopting_one_that_was_kept(
    nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "template"
    record(template, 1)
    tape = tape_of(template, 2)
    so_far = load(tape.writer.aside, partial=True)
    so_far.root = template
    tape.writer.write_page("\n".join(said(2, turn) for turn in range(1, TURNS + 1)))
    tape.close(passed=False)
    wanted = {said(2, turn) for turn in range(1, TURNS + 1)}
    for point, root, child in at_every_point(nursery, "adopt", template, tmp_path, 2):
        nursery.kill(child)
        try:
            check_paid(capsys, root, wanted)
            number = loaded(root)
            if number == 1:
                folder = cassette_folder(root, TEST)
                assert main(["accept", str(folder), "--cassettes", str(root)]) == 0
                assert loaded(root) == 2
            check_next_recording(root, 3)
        except Exception as error:
            raise AssertionError(point) from error


def test_the_lock_of_a_folder_that_was_removed_is_no_lock(nursery: Nursery, tmp_path: Path) -> None:
    """A recorder that was about to take the lock, while the one before ended and another began."""
    root = tmp_path / "root"
    first = tape_of(root, 5)
    for point in range(1, 10):
        child = nursery.start("record", root, number=6, point=point)
        if nursery.stopped() == "fcntl.flock":
            break
        nursery.kill(child)
    first.close(passed=True)
    third = tape_of(root, 7)
    os.kill(child, signal.SIGCONT)
    nursery.child = 0
    assert nursery.told() == {"stopped": False, "code": 1}
    assert "Another run is recording this test just now" in nursery.log.read_text()
    third.close(passed=True)
    assert loaded(root) == 7
    assert verify(root)[0] == []


# ------------------------------------------------------------------ at any moment


def busy_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def test_killed_at_fifty_random_moments(nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(4711)
    record(tmp_path, 1)
    folder = cassette_folder(tmp_path, TEST)
    aside, whole = folder / RECORDING / FILE, size_of(folder / FILE)
    number, moments = 1, set()
    for _ in range(50):
        before = load(folder).sum
        child = nursery.start("loop", tmp_path, number=number + 1)
        # a number of bytes of some recording, or the moment after one took its place
        if draw.random() < 0.3:
            busy_until(lambda before=before: hashlib_sum(folder) != before)  # type: ignore[misc]
        else:
            size = draw.randrange(whole)
            busy_until(lambda size=size: size_of(aside) >= size)  # type: ignore[misc]
        nursery.kill(child)
        paid = paid_turns(aside) if aside.exists() else []
        check_paid(capsys, tmp_path, set(paid))
        now = loaded(tmp_path)
        assert now >= number
        moments.add((now > number, len(paid)))
        number = now + 1
        check_next_recording(tmp_path, number)
        check_paid(capsys, tmp_path, set(paid) if paid and paid[0] != said(now, 1) else set())
    assert len(moments) > 3, moments  # they were different moments indeed


def hashlib_sum(folder: Path) -> str:
    return (folder / FILE).read_bytes()[-19:-3].decode()


if __name__ == "__main__":
    nurse()
