"""One frozen `Settings`: option > marker > ini > environment, resolved and validated once for each test."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_cua.errors import set_cassettes
from pytest_cua.versions import PARTNERS, VERSIONS

MODES = ("replay", "offline", "record", "record-missing")
LIVE_MODES = ("record", "record-missing")  # may ask a model
UPDATES = ("changed", "missing", "all")
SHELLS = ("openbox", "mutter")
ISOLATIONS = ("auto", "bubblewrap", "no-network", "process-group")
Box = tuple[int, int, int, int]
VCRPY_MODES = {
    "none": "replay, or offline",
    "once": "record-missing, which records a test that has no cassette and replays one that has",
    "new_episodes": "record-missing, which records a test that has no cassette and adds nothing to one that has",
    "all": "record",
    "rewrite": "record",  # pytest-recording's
}
NEVER_KEPT = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set, with the value that holds.

    Times are milliseconds, sizes pixels, money US dollars. Every field is an ini name with `cua_` before it, a
    variable `PYTEST_CUA_<NAME>`, and (except `mode`) an argument of `@pytest.mark.cua(...)`.
    """

    mode: str = "replay"
    update: str = ""
    from_step: int = 0
    unused: str = "report"
    max_age: tuple[int, str] | None = None
    model: str = "claude-sonnet-5-5"
    computer_tool: str = "auto"
    tools: tuple[Any, ...] = ()
    cassette_dir: Path = Path("cassettes")
    artifacts_dir: Path = Path("cua-artifacts")
    size: tuple[int, int] = (1280, 800)
    shell: str = "openbox"
    isolation: str = "auto"
    gl: bool = False
    locale: str = "C.UTF-8"
    timezone: str = "UTC"
    home: Path | None = None
    max_turns: int = 30
    step_timeout: int = 300_000
    timeout: int = 5_000
    drift_timeout: int = 10_000
    quiet: int = 150
    max_cost: float = 1.0
    max_cost_run: float = 10.0
    threads: bool = True
    strict: bool = True
    exclude: tuple[Box, ...] = ()
    http_recorded: tuple[str, ...] = ()
    http_live: tuple[str, ...] = ()
    http_headers: tuple[str, ...] = ()

    @property
    def may_ask(self) -> bool:
        """Whether this mode may ask a model."""
        return self.mode in LIVE_MODES

    @property
    def has_desktop(self) -> bool:
        """Whether this mode runs programs on a desktop."""
        return self.mode != "offline"


HELP: Mapping[str, str] = {
    "mode": "replay (default): recorded answers, live desktop; offline: nothing but the cassette; record: ask the "
    "model, write new cassettes; record-missing: record where there is no cassette, else replay",
    "update": "rewrite screenshot baselines: changed, missing or all; refused in CI",
    "from_step": "record from this step on; those before it are answered by the recording that was kept aside, else "
    "by the cassette, and cost nothing",
    "unused": "what a complete run does about recordings that no test uses: report (default), fail or off",
    "max_age": "the age from which a replay warns of a recording, such as 90d; `90d fail` makes the test fail",
    "model": "the Claude model that records (default claude-sonnet-5-5)",
    "computer_tool": "version of the computer tool that records: auto (default, what the model takes), or one of "
    f"{', '.join(VERSIONS)}",
    "tools": "what Claude may use besides the computer: bash, editor; the marker takes the SDK's function tools too",
    "cassette_dir": "folder of the recordings, relative to the root (default cassettes)",
    "artifacts_dir": "folder for the pictures of failures, relative to the root (default cua-artifacts)",
    "size": "size of the desktops in pixels (default 1280x800)",
    "shell": "window manager: openbox (default) or mutter, each with the tint2 panel",
    "isolation": "auto (default), bubblewrap, no-network or process-group",
    "gl": "whether the display offers OpenGL by software (default false)",
    "locale": "locale of the desktop's programs (default C.UTF-8)",
    "timezone": "time zone of the desktop's programs (default UTC)",
    "home": "folder whose content every desktop's HOME starts with",
    "max_turns": "most model replies in one step (default 30)",
    "step_timeout": "most milliseconds one step may take (default 300000)",
    "timeout": "milliseconds an expect() waits until it holds (default 5000)",
    "drift_timeout": "milliseconds a replay waits for the recorded screen (default 10000)",
    "quiet": "milliseconds without a changed pixel after which the screen is still (default 150)",
    "max_cost": "most US dollars one test may cost (default 1)",
    "max_cost_run": "most US dollars one run may cost (default 10)",
    "threads": "whether the API holds the conversation between turns (default true)",
    "strict": "whether a test that asserts nothing after its last step fails (default true)",
    "exclude": "areas that are never compared in a replay, one `x,y,width,height` a line",
    "http_recorded": "hosts outside this machine that are answered from the recording in replay",
    "http_live": "hosts outside this machine that belong to the application: asked live wherever there is a desktop",
    "http_headers": "further headers that http.yaml keeps, each a name or a beginning such as x-shop-*",
}


def _integer(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError("it is a whole number") from None
    if value < 0:
        raise ValueError("it may not be negative")
    return value


def _count(text: str) -> int:
    if (value := _integer(text)) == 0:
        raise ValueError("it is at least 1")
    return value


def _age(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+) ?([dw]|days?|weeks?)(?:[ ,]+(warn|fail))?", text.strip())
    if found is None:
        raise ValueError("it is a number of days or weeks, such as 90d, and after it warn (default) or fail")
    days = int(found[1]) * (7 if found[2].startswith("w") else 1)
    if days < 1:
        raise ValueError("it is at least one day")
    return days, found[3] or "warn"


def _hosts(text: str) -> tuple[str, ...]:
    for entry in text.split():
        if not _HOST.fullmatch(entry):
            raise ValueError(
                f"{entry!r} is no host: it is a name or an address, with a port if you like and nothing else, such as "
                "api.example.com, *.example.com, 10.0.0.7:5432 or [fd00::7]:5432"
            )
    return tuple(text.split())


_HOST = re.compile(r"(\*\.)?[\w.-]+(:\d+)?|\[[\da-f:.]+\](:\d+)?|[\da-f.]*(:[\da-f.]*){2,}", re.IGNORECASE)


def _headers(text: str) -> tuple[str, ...]:
    names = tuple(text.lower().split())
    for name in names:
        if not re.fullmatch(r"[\w-]+\*?", name):
            raise ValueError(f"{name!r} is no name of a header, nor the beginning of one, such as x-shop-*")
        if name in NEVER_KEPT:
            raise ValueError(f"{name} carries secrets and is never kept")
    return names


def _tools(text: str) -> tuple[str, ...]:
    for name in text.split():
        if name not in PARTNERS:
            raise ValueError(
                f"{name!r} is no tool: it is one of {', '.join(PARTNERS)}, or in the marker a function tool"
            )
    return tuple(text.split())


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("it is an amount of US dollars, such as 0.5") from None
    if not 0 <= value < math.inf:
        raise ValueError("it is 0 or more US dollars")
    return value


def _boolean(text: str) -> bool:
    words = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}
    try:
        return words[text.lower()]
    except KeyError:
        raise ValueError("say true or false") from None


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    try:
        size = int(width), int(height)
    except ValueError:
        raise ValueError("it is WIDTHxHEIGHT in pixels, such as 1280x800") from None
    if not all(64 <= side <= 8000 for side in size):
        raise ValueError("each side is 64 to 8000 pixels")
    return size


def _boxes(text: str) -> tuple[Box, ...]:
    return tuple(_box(line) for line in text.splitlines() if line.strip())


def _box(line: str) -> Box:
    try:
        numbers = [int(part) for part in line.replace(" ", "").split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4 or numbers[2] <= 0 or numbers[3] <= 0:
        raise ValueError(f"an area is `x,y,width,height` in pixels, not {line.strip()!r}")
    return (numbers[0], numbers[1], numbers[2], numbers[3])


def _one_of(*words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            close = difflib.get_close_matches(text, words, n=1)
            raise ValueError(f"it is one of {', '.join(words)}" + (f"; did you mean {close[0]}?" if close else ""))
        return text

    return check


PARSE: Mapping[str, Callable[[str], Any]] = {
    "mode": _one_of(*MODES),
    "update": _one_of(*UPDATES),
    "from_step": _count,
    "unused": _one_of("report", "fail", "off"),
    "max_age": _age,
    "model": str,
    "computer_tool": _one_of("auto", *VERSIONS),
    "tools": _tools,
    "cassette_dir": Path,
    "artifacts_dir": Path,
    "size": _size,
    "shell": _one_of(*SHELLS),
    "isolation": _one_of(*ISOLATIONS),
    "gl": _boolean,
    "locale": str,
    "timezone": str,
    "home": Path,
    "max_turns": _count,
    "step_timeout": _integer,
    "timeout": _integer,
    "drift_timeout": _integer,
    "quiet": _integer,
    "max_cost": _amount,
    "max_cost_run": _amount,
    "threads": _boolean,
    "strict": _boolean,
    "exclude": _boxes,
    "http_recorded": _hosts,
    "http_live": _hosts,
    "http_headers": _headers,
}
OPTION_ONLY = ("update", "from_step")  # decisions of one run, never of a file
SESSION_ONLY = ("mode", "update", "from_step", "unused", "cassette_dir", "artifacts_dir", "max_cost_run")


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini name."""
    group = parser.getgroup("cua", "computer use (pytest-cua)")
    group.addoption("--cua-mode", metavar="MODE", help=HELP["mode"])
    group.addoption("--cua-record", dest="cua_record", action="store_true", help="short for --cua-mode=record-missing")
    group.addoption("--cua-update", metavar="WHICH", help=HELP["update"])
    group.addoption("--cua-model", metavar="MODEL", help=HELP["model"])
    group.addoption("--cua-from-step", metavar="STEP", help=HELP["from_step"])
    group.addoption("--cua-collected", metavar="FILE", help=argparse.SUPPRESS)
    group.addoption("--cua-unused", metavar="WHAT", help=HELP["unused"])
    group.addoption(
        "--cua-allow-api", action="store_true", help="let a mode that asks a model start although CI is set"
    )
    for field in fields(Settings):
        if field.name not in OPTION_ONLY:
            parser.addini(f"cua_{field.name}", HELP[field.name], type=_ini_type(field.name), default=None)


def _ini_type(name: str) -> Any:
    """What pytest takes for a setting: in native TOML a number is a number (or text), and a list a list.

    pytest takes two types for one name from 9.2 on; before, numbers must be text there.
    """
    if PARSE[name] in (_boxes, _hosts, _headers, _tools):
        return "linelist"
    native: dict[Any, Any] = {_integer: int, _count: int, _amount: float, _boolean: bool}
    kind = native.get(PARSE[name])
    return "string" if kind is None or pytest.version_tuple < (9, 2) else kind | str


def _ini_text(value: Any) -> str:
    """A value of pytest's as text: native TOML gives numbers, booleans and lists."""
    return "\n".join(value) if isinstance(value, list) else str(value).strip()


def session_settings(config: pytest.Config) -> Settings:
    """The settings of the run: option > ini > environment.

    Raises:
        pytest.UsageError: A value that cannot be meant so, or a mode that may not start here.
    """
    values: dict[str, Any] = {}
    for field in fields(Settings):
        given = _given(config, field.name)
        if given is not None:
            values[field.name] = _parsed(field.name, *given)
    settings = Settings(**values)
    root = config.rootpath
    settings = replace(
        settings,
        cassette_dir=root / settings.cassette_dir,
        artifacts_dir=root / settings.artifacts_dir,
        home=root / settings.home if settings.home else None,
    )
    _check_ci(settings, allow=config.getoption("--cua-allow-api"))
    # the commands in messages of this run
    set_cassettes(settings.cassette_dir if _is_overridden(config, "cua_cassette_dir") else None)
    return settings


def _is_overridden(config: pytest.Config, name: str) -> bool:
    """Whether `-o` gives the setting: a command that is copied from a message must give it too."""
    return any(text.partition("=")[0].strip() == name for text in config.getoption("override_ini") or ())


def _given(config: pytest.Config, name: str) -> tuple[str, str] | None:
    """The text that was given for a setting, and where."""
    if name == "mode" and config.getoption("cua_record"):
        if config.getoption("--cua-mode") not in (None, "record-missing"):
            raise pytest.UsageError("--cua-record means --cua-mode=record-missing: give one of the two")
        return "record-missing", "--cua-record"
    option = f"--cua-{name.replace('_', '-')}"
    if name in ("mode", "update", "model", "from_step", "unused") and (text := config.getoption(option)) is not None:
        return text, option
    if name not in OPTION_ONLY:
        value = config.getini(f"cua_{name}")
        if value not in (None, "", []):
            return _ini_text(value), f"ini cua_{name}"
    variable = f"PYTEST_CUA_{name.upper()}"
    if text := os.environ.get(variable):
        return text, variable
    return None


def _parsed(name: str, text: str, source: str) -> Any:
    if name == "mode" and text in VCRPY_MODES:
        raise pytest.UsageError(f"{source}: {text!r} is vcrpy's word; here it is {VCRPY_MODES[text]}")
    try:
        return PARSE[name](text)
    except ValueError as error:
        raise pytest.UsageError(f"{source}: {text!r} is no value for it: {error}") from None


def _check_ci(settings: Settings, *, allow: bool) -> None:
    if settings.from_step and settings.mode != "record":
        raise pytest.UsageError(f"--cua-from-step goes with --cua-mode=record, not with {settings.mode}")
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        return
    if settings.update:
        raise pytest.UsageError(
            "--cua-update rewrites accepted screenshots and is refused where CI is set. "
            "Run it on your own machine and commit the result."
        )
    if settings.may_ask and not allow:
        raise pytest.UsageError(
            f"--cua-mode={settings.mode} asks a model, which costs money, and CI is set. "
            "Add --cua-allow-api if that is meant."
        )


def check_markers(settings: Settings, items: Iterable[pytest.Item]) -> None:
    """Check every `@pytest.mark.cua(...)` of the run.

    Raises:
        pytest.UsageError: As `with_marker`.
    """
    for item in items:
        if item.get_closest_marker("cua") is not None:
            with_marker(settings, item)


def with_marker(settings: Settings, item: pytest.Item) -> Settings:
    """The settings of one test: those of the run, with its `@pytest.mark.cua(...)` arguments where no option was given.

    Raises:
        pytest.UsageError: An argument that does not exist or cannot be meant so.
    """
    changes: dict[str, Any] = {}
    known = [field.name for field in fields(Settings) if field.name not in SESSION_ONLY]
    for marker in reversed(list(item.iter_markers("cua"))):
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.cua takes keyword arguments only")
        for name, value in marker.kwargs.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                raise pytest.UsageError(
                    f"{item.nodeid}: @pytest.mark.cua has no argument {name!r}; it takes {', '.join(known)}"
                    + (f". Did you mean {close[0]}?" if close else "")
                )
            changes[name] = _marker_value(item, name, value)
    if item.config.getoption("--cua-model"):
        changes.pop("model", None)
    return replace(settings, **changes)


def _marker_value(item: pytest.Item, name: str, value: Any) -> Any:
    if name == "size" and not isinstance(value, str):
        value = "x".join(map(str, value))
    if name == "exclude" and not isinstance(value, str):
        value = "\n".join(",".join(map(str, box)) for box in value)
    if PARSE[name] in (_hosts, _headers) and not isinstance(value, str):
        value = " ".join(value)
    if name == "tools" and not isinstance(value, str):
        words = " ".join(tool for tool in value if isinstance(tool, str))
        _parsed(name, words, f"{item.nodeid}: @pytest.mark.cua(tools=...)")
        return tuple(value)  # functions are looked at when the first step is given them
    if name == "home":
        return item.config.rootpath / value
    return _parsed(name, str(value), f"{item.nodeid}: @pytest.mark.cua({name}=...)")
