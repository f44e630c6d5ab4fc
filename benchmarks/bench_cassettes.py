"""A conversation of 50 screenshots: what its recording takes, against targets and beside stock vcrpy.

The harness's own loop talks through the installed SDK to a server on loopback that is as strict as the Messages API.
Instead of a desktop there are drawn screens; all else is what a test runs: the computer toolset, the recorder, the
store of cassettes, the player. Each figure comes from a process of its own. Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

SHOTS = 50
SHOTS_BESIDE_VCRPY = 10
SIZE = (1024, 768)
TICKS = 10  # a turn takes 6 s, so each tenth time the clock goes on while Claude thinks: a frame that it never sees
TEST = "tests/test_bench.py::test_bench"
MODEL = "claude-sonnet-5-5"
KB, MB = 1_000, 1_000_000

# ---------------------------------------------------------------------- the screens


def draw_screens(folder: Path, count: int) -> None:
    """Draw `count` screens `NNN.png`, each unlike the one before, and `NNN-tick.png` where the clock went on."""
    photo = _photo()
    for number in range(count):
        screen = _screen(number, photo)
        screen.save(folder / f"{number:03}.png")
        if _ticks_after(number):
            _clock(screen, number, late=True)
            screen.save(folder / f"{number:03}-tick.png")


def _ticks_after(number: int) -> bool:
    return number % TICKS == TICKS - 1


def _photo() -> Any:
    """A landscape of clouds, larger than any window: with the grain of a camera, and as a JPEG keeps it."""
    import numpy as np
    from PIL import Image

    dice = np.random.default_rng(20260801)
    width, height = 1400, 1000
    sky = np.linspace(200, 80, height)[:, None, None] * np.array([0.75, 0.9, 1.1])
    for cells, weight in ((4, 80), (11, 45), (37, 24), (140, 12), (400, 6)):
        noise = dice.integers(0, 256, (cells * 3 // 4 + 1, cells, 3), dtype=np.uint8)
        soft = np.asarray(Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)).astype(float) - 128
        sky = sky + (0.7 * soft.mean(axis=2, keepdims=True) * 1.7 + 0.3 * soft) * weight / 128
    grain = dice.normal(0, 2.5, (height, width, 1)) + dice.normal(0, 1, sky.shape)
    kept = io.BytesIO()
    Image.fromarray((sky + grain).clip(0, 255).astype(np.uint8)).save(kept, "JPEG", quality=90, subsampling=0)
    return Image.open(kept).convert("RGB")


_WORDS = """
    invoice total customer delivery order paper quantity price net amount due account the of and for with from to
    Acme Ltd Vienna Street 14 reminder sent March 2026 payment received by transfer open items discount shipping
""".split()  # noqa: SIM905 # prose


def _screen(number: int, photo: Any) -> Any:
    """One desktop: wallpaper, panel, icons, and the windows of a mail program, a table and a picture viewer."""
    import numpy as np
    from PIL import Image, ImageDraw

    dice = np.random.default_rng(number)
    width, height = SIZE
    slope = np.linspace(0, 1, height)[:, None] + np.linspace(0, 0.4, width)[None, :]
    pixels = np.stack([30 + 40 * slope, 70 + 60 * slope, 110 + 70 * slope], axis=2).astype(np.uint8)
    screen = Image.fromarray(pixels)
    draw = ImageDraw.Draw(screen)
    for place, name in enumerate(("Files", "Mail", "Terminal", "Browser", "Notes", "Trash")):
        _icon(draw, 22, 24 + 96 * place, name, place)
    _table(draw, (110, 30, 520, 330), number)
    _window(draw, (560, 20, 450, 340), "holiday.jpg")
    across, down = 13 * number % (photo.width - 446), 29 * number % (photo.height - 310)
    screen.paste(photo.crop((across, down, across + 446, down + 310)), (562, 48))
    _text(draw, (110, 390, 560, 330), f"Letter {number + 1}", dice)
    _text(draw, (690, 392, 315, 328), f"Inbox ({number % 9})", dice)
    if number % 4 == 3:
        _dialog(draw, 320, 260, f"Save the changes of letter {number + 1}?")
    draw.rectangle((0, height - 32, width, height), fill=(38, 40, 48))
    for place, title in enumerate(("Orders", "holiday.jpg", "Letter")):
        draw.text((90 + 130 * place, height - 25), title, (225, 228, 235), _font(14))
    _clock(screen, number)
    return screen


def _clock(screen: Any, number: int, *, late: bool = False) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(screen)
    minutes = 9 * 60 + number // TICKS + late
    draw.rectangle((SIZE[0] - 110, SIZE[1] - 30, SIZE[0] - 4, SIZE[1] - 2), fill=(38, 40, 48))
    text = f"Mon {minutes // 60:02}:{minutes % 60:02}"
    draw.text((SIZE[0] - 100, SIZE[1] - 25), text, (240, 240, 245), _font(15))


def _font(size: int) -> Any:
    """The font that comes with Pillow, so that the screens are the same everywhere."""
    from PIL import ImageFont

    if size not in _fonts:
        _fonts[size] = ImageFont.load_default(size)
    return _fonts[size]


_fonts: dict[int, Any] = {}


def _icon(draw: Any, x: int, y: int, name: str, place: int) -> None:
    for ring in range(24):
        colour = (90 + 6 * ring, (60 + 31 * place + 4 * ring) % 256, (200 - 29 * place + 3 * ring) % 256)
        draw.rounded_rectangle((x + ring, y + ring, x + 52 - ring, y + 52 - ring), 8, fill=colour)
    draw.text((x + 4, y + 58), name, (245, 245, 245), _font(13))


def _window(draw: Any, box: tuple[int, int, int, int], title: str) -> None:
    x, y, width, height = box
    for ring in range(6, 0, -1):
        shade = (45 - 4 * (6 - ring), 88 - 8 * (6 - ring), 130 - 12 * (6 - ring))
        draw.rectangle((x - ring, y - ring, x + width + ring, y + height + ring), outline=shade)
    draw.rectangle((x, y, x + width, y + height), fill=(251, 251, 252), outline=(90, 95, 105))
    for line in range(26):
        draw.line((x + 1, y + 1 + line, x + width - 1, y + 1 + line), fill=(232 - line, 233 - line, 236 - line))
    draw.text((x + 10, y + 4), title, (40, 42, 48), _font(15))
    for place, colour in enumerate(((240, 90, 80), (240, 190, 60), (90, 200, 90))):
        draw.ellipse((x + width - 20 - 20 * place, y + 8, x + width - 8 - 20 * place, y + 20), fill=colour)


def _table(draw: Any, box: tuple[int, int, int, int], number: int) -> None:
    x, y, width, height = box
    _window(draw, box, f"Orders: {41 + number} rows")
    for row in range((height - 30) // 20):
        top, order = y + 28 + 20 * row, row + number
        if row % 2:
            draw.rectangle((x + 1, top, x + width - 1, top + 19), fill=(240, 244, 250))
        cells = (
            f"{1000 + order}",
            _WORDS[order * 7 % len(_WORDS)],
            f"{order * 37 % 90 + 1}",
            f"{order * 1.73 % 99:.2f}",
        )
        for column, cell in enumerate(cells):
            draw.text((x + 12 + 125 * column, top + 2), cell, (35, 38, 45), _font(13))


def _text(draw: Any, box: tuple[int, int, int, int], title: str, dice: Any) -> None:
    x, y, width, height = box
    _window(draw, box, title)
    for line in range((height - 40) // 18):
        words = " ".join(_WORDS[index] for index in dice.integers(0, len(_WORDS), 14))
        draw.text((x + 12, y + 36 + 18 * line), words[: width // 7], (20, 20, 24), _font(13))


def _dialog(draw: Any, x: int, y: int, question: str) -> None:
    _window(draw, (x, y, 360, 130), "Save")
    draw.text((x + 20, y + 48), question, (25, 25, 30), _font(15))
    for place, name in enumerate(("Cancel", "Save")):
        left = x + 150 + 100 * place
        draw.rounded_rectangle((left, y + 90, left + 86, y + 118), 5, fill=(225, 230, 240), outline=(120, 130, 150))
        draw.text((left + 18, y + 95), name, (30, 30, 40), _font(14))


# ---------------------------------------------------------------------- the desktop and the model


class Desktop:
    """Shows the drawn screens: each input brings the next one."""

    name, is_live, size = "1", True, SIZE

    def __init__(self, folder: Path, *, alone: bool = False) -> None:
        from pytest_cua.desktop.stillness import Stillness
        from pytest_cua.desktop.windows import Window

        self._folder = folder
        self._alone = alone  # changes without an input
        self._number = -1 if alone else 0
        self._ticked = False
        self._looked = False
        self._still = Stillness(True, 151.0)
        self._window = Window("Letter", "letters", (130, 390, 600, 330), True, 7)
        self._pixels: tuple[Path | None, bytes] = (None, b"")

    def input(self, *_: object, **__: object) -> None:
        self._number, self._ticked = self._number + 1, False

    def next_turn(self) -> None:
        """While Claude thinks, the clock goes on."""
        if self._alone:
            self._number = min(self._number + 1, SHOTS - 1)
        self._ticked = _ticks_after(self._number)

    def capture(self) -> Any:
        from PIL import Image

        path = self._folder / f"{self._number:03}{'-tick' if self._ticked else ''}.png"
        if self._pixels[0] != path:
            with Image.open(path) as image:
                self._pixels = path, image.convert("RGB").tobytes()
        return Image.frombytes("RGB", SIZE, self._pixels[1])  # a new picture each time, as of a live screen

    def wait_until_still(self, **_: object) -> Any:
        return self._still

    def read_windows(self) -> list[Any]:
        return [self._window]

    def check_alive(self) -> None:
        """It is."""

    def position(self) -> tuple[int, int]:
        return 300 + self._number, 420

    @property
    def pointer(self) -> Desktop:
        return self

    keyboard = pointer
    click = scroll = type = press = input


def replies(shots: int, *, alone: bool) -> list[Any]:
    """What Claude answers: an action and a look at what came of it, again and again; or looks alone."""
    from pytest_cua.testing import finish, say, use

    if alone:
        return [*([use("screenshot")] for _ in range(shots)), finish("All letters are written.")]
    found: list[Any] = [[use("screenshot")]]
    for number in range(1, shots):
        action = (
            use("left_click", coordinate=[300 + number, 420]),
            use("type", text=f"Dear customer {number}, "),
            use("key", text="ctrl+s"),
            use("scroll", coordinate=[400, 500], scroll_direction="down", scroll_amount=3),
        )[number % 4]
        words = [say(f"Letter {number} is open; on to the next.")] if number % 5 == 0 else []
        found.append([*words, action, use("screenshot")])
    return [*found, finish("All letters are written.")]


def serve(shots: int, *, alone: bool) -> None:
    """Answer until the standard input ends; the address goes to the standard output."""
    from pytest_cua.testing import ScriptedClaude

    plays = replies(shots, alone=alone)

    def script(request: Any) -> Any:
        claude.requests.clear()  # they are large
        return plays[sum(message["role"] == "assistant" for message in request.messages)]

    with ScriptedClaude(script, model=MODEL) as claude:
        print(claude.base_url, flush=True)
        sys.stdin.read()
        assert not claude.errors and not claude.script_errors, (claude.errors, claude.script_errors)


@contextmanager
def server(shots: int, *, alone: bool = False) -> Iterator[str]:
    command = [sys.executable, __file__, "serve", "--shots", str(shots), "--alone", str(alone)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        if process.wait():
            raise SystemExit("the server refused something, see above")


# ---------------------------------------------------------------------- one conversation


class Nobody:
    """Hears of a step and keeps nothing: the loop without a recorder."""

    def nothing(self, *_: object) -> str:
        return ""

    begin_step = end_step = action = picture = sent = nothing


class Talk:
    """One conversation of the harness's loop.

    Args:
        keeper: Recorder, player or nobody.
        client: Asks, or is answered by the keeper.
        toolset: Live or recorded.
        next_turn: Called when a reply came.
    """

    def __init__(
        self, keeper: Any, client: Any, toolset: Any, *, threads: bool, next_turn: Callable[[], None] = lambda: None
    ) -> None:
        from pytest_cua.agent.budget import Budget, Clock, Purse
        from pytest_cua.agent.loop import Conversation
        from pytest_cua.agent.prompt import opening
        from pytest_cua.tools.plain import Calls
        from pytest_cua.trace import Step

        self.turns: list[tuple[float, ...]] = []  # of each reply: wall and CPU, and both of encoding until then
        self._keeper = keeper
        self._next_turn = next_turn
        self._conversation = Conversation(
            client=client,
            model=MODEL,
            blocks=opening("Write all letters", earlier=[], params={}),
            step=Step(number=1, sentence="Write all letters"),
            tools=(toolset,),
            calls=Calls(),
            betas=(),
            threads=threads,
            max_turns=10 * SHOTS,
            clock=Clock(10**9),
            budget=Budget(0, Purse(0)),
            on_turn=self._on_turn,
        )

    def run(self) -> Talk:
        from pytest_cua.agent.loop import run_conversation

        ending = run_conversation(self._conversation, self._keeper)
        assert ending.outcome == "done"
        return self

    def _on_turn(self, turn: Any) -> None:
        self.turns.append((time.perf_counter(), time.process_time(), Encoding.spent, Encoding.spent_cpu))
        self._next_turn()


class Encoding:
    """The time that encoding pictures for the recording takes."""

    spent = 0.0
    spent_cpu = 0.0

    @classmethod
    def watch(cls) -> None:
        from pytest_cua import screens

        encode = screens.to_webp

        def timed(image: Any) -> bytes:
            started, started_cpu = time.perf_counter(), time.process_time()
            try:
                return encode(image)
            finally:
                cls.spent += time.perf_counter() - started
                cls.spent_cpu += time.process_time() - started_cpu

        screens.to_webp = timed


# ---------------------------------------------------------------------- what runs in a process of its own


class Memory:
    """Peak memory over the process as it idles after its imports, in bytes."""

    def __init__(self) -> None:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        self._idle = self._read("VmRSS")

    def peak(self) -> int:
        return self._read("VmHWM") - self._idle

    @staticmethod
    def _read(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) * 1024


def imports() -> None:
    """Everything that the phases import, and what is made once a process: the client, Pillow's formats."""
    import vcr
    import vcr.migration  # noqa: F401 # a submodule that a cassette of any format needs
    from PIL import Image

    import pytest_cua.cassette.player
    import pytest_cua.cassette.recorder
    import pytest_cua.tools.computer  # noqa: F401
    from pytest_cua.model import replay_client

    Image.init()
    replay_client()


def live_client(url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(api_key="scripted", base_url=url, max_retries=0)


def computer(desktop: Desktop, keeper: Any) -> Any:
    from pytest_cua.replay.check import NoCheck
    from pytest_cua.tools.computer import ComputerToolset

    return ComputerToolset(desktop, listener=keeper, check=NoCheck(desktop))  # type: ignore[arg-type]


def record_ours(root: Path, talk: Callable[..., Talk], url: str, desktop: Desktop) -> tuple[Talk, float]:
    """Record the conversation; the talk, and how long closing the cassette took."""
    from pytest_cua.agent.prompt import prompt_digest
    from pytest_cua.cassette.clients import with_middleware
    from pytest_cua.cassette.recorder import Recorder
    from pytest_cua.cassette.store import CassetteWriter, cassette_folder
    from pytest_cua.cassette.tape import Tape, header_line
    from pytest_cua.model import TOOLSET
    from pytest_cua.trace import Run

    header = header_line(
        test=TEST,
        model=MODEL,
        tools=[TOOLSET],
        prompt_digest=prompt_digest(),
        display={"width": SIZE[0], "height": SIZE[1]},
        environment={"shell": "openbox", "theme": "Adwaita", "locale": "C.UTF-8", "timezone": "UTC"},
    )
    tape = Tape(CassetteWriter(cassette_folder(root, TEST), root), header=header, run=Run(test=TEST, mode="record"))
    recorder = Recorder(tape)
    told = talk(recorder, with_middleware(live_client(url), recorder), computer(desktop, recorder))
    started = time.perf_counter()
    assert tape.close(passed=True) is None
    return told, time.perf_counter() - started


def phase_record(place: Place) -> dict[str, float]:
    """Record one conversation with ours."""
    desktop = Desktop(place.screens)
    memory, started, started_cpu = Memory(), time.perf_counter(), time.process_time()
    Encoding.watch()

    def talk(*parts: Any) -> Talk:
        return Talk(*parts, threads=place.threads, next_turn=desktop.next_turn).run()

    _, closing = record_ours(place.cassettes, talk, place.url, desktop)
    return {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - started_cpu,
        "encoding": Encoding.spent_cpu,
        "closing": closing,
        "peak": memory.peak(),
    }


def phase_nobody(place: Place) -> dict[str, float]:
    """The same conversation, and nobody records it."""
    desktop = Desktop(place.screens)
    memory, started, started_cpu = Memory(), time.perf_counter(), time.process_time()
    keeper, client = Nobody(), live_client(place.url)
    Talk(keeper, client, computer(desktop, keeper), threads=place.threads, next_turn=desktop.next_turn).run()
    return {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - started_cpu,
        "peak": memory.peak(),
    }


def phase_cost(place: Place) -> dict[str, Any]:
    """The time of each turn without and with a recorder, in turn; encoding taken out."""
    Encoding.watch()
    found: dict[str, Any] = {"plain": [], "recorded": []}
    for number in range(place.repeats):
        for name, times in found.items():
            desktop = Desktop(place.screens, alone=place.alone)

            def talk(*parts: Any, desktop: Desktop = desktop) -> Talk:
                return Talk(*parts, threads=place.threads, next_turn=desktop.next_turn).run()

            Encoding.spent = Encoding.spent_cpu = 0.0
            if name == "plain":
                keeper = Nobody()
                told = talk(keeper, live_client(place.url), computer(desktop, keeper))
            else:
                told, _ = record_ours(place.cassettes / f"cost{number}", talk, place.url, desktop)
            times.append(told.turns)
    return found


def phase_replay(place: Place) -> dict[str, float]:
    """Load the cassette and replay the whole conversation from it, as `offline` does."""
    from pytest_cua.cassette.clients import with_middleware
    from pytest_cua.cassette.latch import Latch
    from pytest_cua.cassette.player import Player
    from pytest_cua.cassette.store import load_cassette
    from pytest_cua.model import replay_client
    from pytest_cua.tools.around import Recorded
    from pytest_cua.tools.computer import RecordedComputer

    def missing(action: str) -> NoReturn:
        raise AssertionError(action)

    def replay() -> None:
        player = Player(load_cassette(place.cassettes, TEST), test=TEST, latch=Latch())
        recorded = Recorded(
            recorded=player.recorded_action,
            screen=player.screen,
            file=player.picture_file,
            missing=missing,
            listener=player,
        )
        toolset = RecordedComputer(recorded)
        Talk(player, with_middleware(replay_client(), player), toolset, threads=place.threads).run()
        player.finish(1, [])
        assert len(toolset.pictures) == player.served - 1

    memory, started, started_cpu = Memory(), time.perf_counter(), time.process_time()
    replay()
    found = {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - started_cpu,
        "peak": memory.peak(),
    }
    started_cpu = time.process_time()
    replay()
    found["again"] = time.process_time() - started_cpu
    loads = [_timed(lambda: load_cassette(place.cassettes, TEST)) for _ in range(21)]
    return {**found, "load": statistics.median(loads)}


def phase_vcr_record(place: Place) -> dict[str, float]:
    """Record one conversation with stock vcrpy."""
    import vcr

    desktop = Desktop(place.screens)
    memory, started, started_cpu = Memory(), time.perf_counter(), time.process_time()
    keeper = Nobody()
    with vcr.use_cassette(str(place.cassettes / "vcrpy.yaml")):
        client = live_client(place.url)
        Talk(keeper, client, computer(desktop, keeper), threads=place.threads, next_turn=desktop.next_turn).run()
    return {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - started_cpu,
        "peak": memory.peak(),
    }


def phase_vcr_replay(place: Place) -> dict[str, float]:
    """Load vcrpy's cassette and replay the conversation from it, on the same screens."""
    import vcr
    from vcr.cassette import Cassette

    desktop = Desktop(place.screens)
    path = str(place.cassettes / "vcrpy.yaml")
    memory, started, started_cpu = Memory(), time.perf_counter(), time.process_time()
    keeper = Nobody()
    with vcr.use_cassette(path, record_mode="none") as cassette:
        client = live_client(place.url)
        Talk(keeper, client, computer(desktop, keeper), threads=place.threads, next_turn=desktop.next_turn).run()
        assert cassette.all_played
    found = {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - started_cpu,
        "peak": memory.peak(),
    }
    return {**found, "load": statistics.median(_timed(lambda: Cassette.load(path=path)) for _ in range(3))}


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


PHASES: dict[str, Callable[[Place], dict[str, Any]]] = {
    "record": phase_record,
    "nobody": phase_nobody,
    "cost": phase_cost,
    "replay": phase_replay,
    "vcr-record": phase_vcr_record,
    "vcr-replay": phase_vcr_replay,
}


# ---------------------------------------------------------------------- the benchmark


@dataclass(frozen=True)
class Place:
    """Where a phase finds what it needs, and how its conversation is held."""

    screens: Path
    cassettes: Path
    url: str = ""
    threads: bool = False
    repeats: int = 1
    alone: bool = False

    def run(self, phase: str) -> dict[str, Any]:
        """The figures of a phase, from a process of its own."""
        options = [f"--{name}={value}" for name, value in asdict(self).items()]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
        command = [sys.executable, __file__, phase, *options]
        result = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        return dict(json.loads(result.stdout))


def cost_per_turn(found: dict[str, Any]) -> tuple[float, float]:
    """What a turn costs more with a recorder, encoding taken out: the median of all turns, wall and CPU seconds.

    Of each turn the fastest of the rounds counts: on a machine with other work, the others measure that.
    """
    both = []
    for column in (0, 1):
        plain, recorded = (
            [
                min(talk[turn][column] - talk[turn - 1][column] - _encoded(talk, turn, column) for talk in found[name])
                for turn in range(1, len(found[name][0]))
            ]
            for name in ("plain", "recorded")
        )
        both.append(statistics.median(b - a for a, b in zip(plain, recorded, strict=True)))
    return both[0], both[1]


def _encoded(talk: Any, turn: int, column: int) -> float:
    return float(talk[turn][column + 2] - talk[turn - 1][column + 2])


def sizes(root: Path) -> tuple[int, int, int]:
    """The bytes of `cassette.jsonl`, of the page beside it, and of all pictures."""
    from pytest_cua.cassette.store import cassette_folder

    folder = cassette_folder(root, TEST)
    pictures = sum(path.stat().st_size for path in (root / "screens").rglob("*.webp"))
    return (folder / "cassette.jsonl").stat().st_size, (folder / "steps.md").stat().st_size, pictures


class Targets:
    """The table of targets; remembers what was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.how = ""  # the conversation is held

    def check(self, what: str, value: float, limit: float, unit: str) -> None:
        good = value <= limit
        if not good:
            self.missed.append(f"{what} ({self.how})")
        print(f"  {what:66} {value:9.1f} {unit:3} at most {limit:6.1f}  {'yes' if good else 'MISSED'}")

    def note(self, what: str, value: float, unit: str) -> None:
        print(f"  {what:66} {value:9.1f} {unit}")


def median_of(found: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(each[name] for each in found))


def check_targets(screens: Path, root: Path) -> Targets:
    """Measure ours: with full histories, and with threads."""
    targets = Targets()
    for threads in (False, True):
        how = targets.how = "threads" if threads else "full histories"
        print(f"{SHOTS} turns, {how}")
        with server(SHOTS) as url:
            place = Place(screens, root / how.replace(" ", "-"), url, threads)
            recorded, nobody = place.run("record"), place.run("nobody")
            replaceable = Place(screens, root / "costs" / how.replace(" ", "-"), url, threads, 3 if threads else 2)
            pair, pair_cpu = cost_per_turn(replaceable.run("cost"))
        with server(SHOTS, alone=True) as url:
            alone = replace(replaceable, cassettes=root / "alone" / how.replace(" ", "-"), url=url, alone=True)
            cost, cost_cpu = cost_per_turn(alone.run("cost"))
        replays = [place.run("replay") for _ in range(3)]
        text, page, pictures = sizes(place.cassettes)
        targets.check("cassette text", text / KB, 60, "kB")
        targets.note("  beside it, the page for reviewers (steps.md)", page / KB, "kB")
        targets.check("pictures: those sent, and frames of the gate that differ", pictures / MB, 9 * 1.1, "MB")
        targets.check("load, median of 21", median_of(replays, "load") * 1000, 10, "ms")
        targets.check("offline replay of the whole conversation, CPU", median_of(replays, "cpu"), 1, "s")
        targets.note("  again in the same process: the SDK has built its models", median_of(replays, "again"), "s")
        targets.note("  wall", median_of(replays, "wall"), "s")
        targets.check("peak memory of load and replay", median_of(replays, "peak") / MB, 150, "MB")
        targets.note("  of recording", recorded["peak"] / MB, "MB")
        targets.note("  of the same conversation without a recorder", nobody["peak"] / MB, "MB")
        targets.check("cost of a recorded turn that brings a screenshot, encoding taken out", cost * 1000, 5, "ms")
        targets.note("  CPU alone", cost_cpu * 1000, "ms")
        targets.note("  of a turn with an action too: two more frames, compared and hashed", pair * 1000, "ms")
        targets.note("  CPU alone", pair_cpu * 1000, "ms")
        targets.note("recording, CPU", recorded["cpu"], "s")
        targets.note("  of which encoding pictures", recorded["encoding"], "s")
        targets.note("  the same conversation without a recorder, CPU", nobody["cpu"], "s")
        targets.note("closing the cassette: page, look through, move", recorded["closing"] * 1000, "ms")
    return targets


def sent_size(path: Path) -> int:
    """The bytes of a screenshot as it goes to Claude."""
    from pytest_cua.screens import load, to_png

    return len(to_png(load(path)))


def compare_with_vcrpy(screens: Path, root: Path) -> None:
    """Measure ours and stock vcrpy on the same short conversation."""
    with server(SHOTS_BESIDE_VCRPY) as url:
        place = Place(screens, root / "beside", url)
        recorded, recorded_vcr = place.run("record"), place.run("vcr-record")
    replayed, replayed_vcr = place.run("replay"), place.run("vcr-replay")
    text, _, pictures = sizes(place.cassettes)
    text_vcr = (place.cassettes / "vcrpy.yaml").stat().st_size
    rows = [
        ("cassette text", text / KB, text_vcr / KB, "kB"),
        ("text and pictures", (text + pictures) / KB, text_vcr / KB, "kB"),
        ("record, CPU", recorded["cpu"], recorded_vcr["cpu"], "s"),
        ("record, wall", recorded["wall"], recorded_vcr["wall"], "s"),
        ("peak memory of recording", recorded["peak"] / MB, recorded_vcr["peak"] / MB, "MB"),
        ("load", replayed["load"] * 1000, replayed_vcr["load"] * 1000, "ms"),
        ("load and replay, CPU", replayed["cpu"], replayed_vcr["cpu"], "s"),
        ("load and replay, wall", replayed["wall"], replayed_vcr["wall"], "s"),
        ("peak memory of load and replay", replayed["peak"] / MB, replayed_vcr["peak"] / MB, "MB"),
    ]
    print(f"{SHOTS_BESIDE_VCRPY} turns, full histories      pytest-cua   stock vcrpy (YAML)   vcrpy / pytest-cua")
    for what, own, stock, unit in rows:
        print(f"  {what:32} {own:10.2f} {unit:3} {stock:14.2f} {unit:3} {stock / own:17.1f}")


def main() -> int:
    """Draw the screens, measure, and say what was missed."""
    with tempfile.TemporaryDirectory(prefix="bench-cassettes-") as folder:
        screens, root = Path(folder, "drawn"), Path(folder, "recorded")
        screens.mkdir()
        root.mkdir()
        draw_screens(screens, SHOTS)
        drawn = [path.stat().st_size for path in screens.glob("???.png")]
        drawn_size, sent = statistics.mean(drawn) / KB, sent_size(screens / "000.png") / KB
        print(f"{len(drawn)} screenshots of {SIZE[0]}x{SIZE[1]}, on average {drawn_size:.0f} kB as PNG")
        print(f"(the harness encodes them for Claude with little compression, for speed: {sent:.0f} kB)")
        targets = check_targets(screens, root)
        compare_with_vcrpy(screens, root)
    print(f"missed: {'; '.join(targets.missed)}" if targets.missed else "all targets are met")
    return 1 if targets.missed else 0


def run_phase(arguments: list[str]) -> None:
    """In a process of its own: serve, or run a phase and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("phase", choices=["serve", *PHASES])
    parser.add_argument("--shots", type=int)
    for name, kind in (("screens", Path), ("cassettes", Path), ("url", str), ("repeats", int)):
        parser.add_argument(f"--{name}", type=kind)
    for name in ("threads", "alone"):
        parser.add_argument(f"--{name}", type=lambda text: text == "True")
    options = vars(parser.parse_args(arguments))
    phase, shots = options.pop("phase"), options.pop("shots")
    if phase == "serve":
        serve(shots, alone=options["alone"])
        return
    imports()
    print(json.dumps(PHASES[phase](Place(**options))))


if __name__ == "__main__":
    if sys.argv[1:]:
        run_phase(sys.argv[1:])
    else:
        sys.exit(main())
