"""Baselines: accepted pictures of a screen, each with the areas that say how to look at it.

A baseline is two files in the `baselines` folder beside a test's cassette, so that a person can look at the one and
edit the other: `<name>.png` and `<name>.json`:

```json
{
  "areas": [{"height": 20, "margin": 0, "type": "exclude", "width": 90, "xpos": 930, "ypos": 742}],
  "format": 1,
  "recorded_at": "2026-11-30T10:42:00Z",
  "size": [1024, 768],
  "state": "accepted",
  "tolerance": "strict"
}
```

`state` is `proposed` until a person accepts the picture. `tolerance` may be missing. A key that is not known is an
error: misspelt areas would otherwise be areas that nobody looks at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from PIL import Image

from pytest_cua import screens
from pytest_cua.errors import BadArgument, CassetteUnreadable, CassetteUnwritable, path_quoted, pytest_command
from pytest_cua.screens import Area

__all__ = ["FORMAT", "Area", "Baseline", "State", "load_baseline", "save_baseline"]

State: TypeAlias = Literal["proposed", "accepted"]
FORMAT = 1

_NEEDED = ("format", "state", "size", "areas", "recorded_at")
_KNOWN = (*_NEEDED, "tolerance")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class Baseline:
    """A picture that a screen is compared with.

    Args:
        name: What the test calls it.
        image: The picture, RGB.
        state: `proposed` or `accepted`.
        areas: How to look at it.
        recorded_at: When the picture was taken, UTC.
        tolerance: The tolerance it wants, or None for the test's.
    """

    name: str
    image: Image.Image = field(repr=False, compare=False)
    state: State
    areas: tuple[Area, ...]
    recorded_at: datetime
    tolerance: str | None = None

    @property
    def size(self) -> screens.Size:
        """`(width, height)` in pixels."""
        return self.image.size


@dataclass(frozen=True)
class _Sidecar:
    """What the JSON file of a baseline holds."""

    state: State
    size: screens.Size
    areas: tuple[Area, ...]
    recorded_at: datetime
    tolerance: str | None

    def to_json(self) -> str:
        values: dict[str, Any] = {
            "format": FORMAT,
            "state": self.state,
            "size": list(self.size),
            "areas": [area.to_dict() for area in self.areas],
            "recorded_at": self.recorded_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self.tolerance is not None:
            values["tolerance"] = self.tolerance
        return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def load_baseline(folder: str | os.PathLike[str], name: str) -> Baseline | None:
    """Read a baseline.

    Args:
        folder: The `baselines` folder of a test; it need not exist.
        name: The baseline's name: letters, digits, `-` and `_`.

    Returns:
        The baseline, or None when there is no picture of that name (its areas alone make no baseline, but are kept for
        the next picture).

    Raises:
        BadArgument: The name cannot be the name of a file.
        CassetteUnreadable: One of the files is damaged, or the two do not belong together; says which, and what to do.
    """
    picture, sidecar = _paths(folder, name)
    data = _read(picture)
    if data is None:
        return None
    about = _read_sidecar(sidecar)
    if about is None:
        raise _unreadable(sidecar, f"is missing beside {picture.name}, and says whether that picture was accepted")
    try:
        image = screens.decode(data, picture)
    except BadArgument as error:
        raise _unreadable(picture, f"is damaged: {error.message}") from error
    if image.size != about.size:
        sizes = f"{about.size[0]}x{about.size[1]}, the picture is {image.width}x{image.height}"
        raise _unreadable(sidecar, f"does not belong to {picture.name}: it says {sizes}")
    return Baseline(name, image, about.state, about.areas, about.recorded_at, about.tolerance)


def save_baseline(
    folder: str | os.PathLike[str],
    name: str,
    image: screens.Source,
    *,
    state: State,
    now: datetime,
    areas: Iterable[Area] | None = None,
    tolerance: str | None = None,
) -> Baseline:
    """Write a baseline's picture and what is known about it, replacing each file in one go.

    Args:
        folder: The `baselines` folder of a test; made when it is not there.
        name: The baseline's name: letters, digits, `-` and `_`.
        image: The picture.
        state: `proposed`, or `accepted` when a person said so.
        now: When the picture was taken, with a time zone.
        areas: How to look at it; None keeps the areas that are there.
        tolerance: The tolerance it wants; None keeps what is there.

    Returns:
        What was written.

    Raises:
        BadArgument: The name, the state or the time cannot be meant, or an area lies outside the picture.
        CassetteUnreadable: The JSON file that is there, and whose areas would be lost, is damaged.
        CassetteUnwritable: A file cannot be written; says which, and why.
    """
    picture, sidecar = _paths(folder, name)
    if state not in get_args(State):
        raise BadArgument(f"state={state!r} is unknown", f"known: {', '.join(get_args(State))}")
    if now.tzinfo is None:
        raise BadArgument(f"now={now!r} has no time zone", "use datetime.now(UTC)")
    if tolerance is not None:
        screens.check_tolerance(tolerance)
    old = _read_sidecar(sidecar)
    if old is not None:
        areas = old.areas if areas is None else areas
        tolerance = old.tolerance if tolerance is None else tolerance
    rgb = screens.load(image)
    about = _Sidecar(state, rgb.size, tuple(areas or ()), now.astimezone(UTC).replace(microsecond=0), tolerance)
    for area in about.areas:
        area.check_inside(about.size)
    files = [(picture, screens.to_png(rgb)), (sidecar, about.to_json().encode())]
    # the order matters if we are stopped in between: a picture that nobody accepted must never stand beside "accepted"
    _replace_all(files if state == "accepted" else files[::-1])
    return Baseline(name, rgb, about.state, about.areas, about.recorded_at, about.tolerance)


def _paths(folder: str | os.PathLike[str], name: str) -> tuple[Path, Path]:
    """Give the paths of picture and JSON; the name may not lead out of the folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        slug = re.sub(r"[^A-Za-z0-9_]+", "-", str(name)).strip("-_")[:100]
        raise BadArgument(
            f"a baseline cannot be called {name!r}: letters, digits, '-' and '_', at most 100, the first no sign",
            *([f"call it {slug!r}"] if slug else []),
        )
    return Path(folder) / f"{name}.png", Path(folder) / f"{name}.json"


def _unreadable(path: Path, what: str) -> CassetteUnreadable:
    quoted = " ".join(path_quoted(path.with_suffix(suffix)) for suffix in (".png", ".json"))
    return CassetteUnreadable(
        f"the baseline file {path} {what}",
        f"get it back as committed: git checkout -- {quoted}",
        f"or take a new one: delete both files, then run {pytest_command('--cua-update=missing')}: rm -f {quoted}",
    )


def _read(path: Path) -> bytes | None:
    """Read a file; None when it is not there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        message = f"the baseline file {path} cannot be read: {error.strerror}"
        raise CassetteUnreadable(message, "check who owns the file and its folder") from error


def _read_sidecar(path: Path) -> _Sidecar | None:
    """Read the JSON file of a baseline; None when it is not there."""
    data = _read(path)
    if data is None:
        return None
    try:
        values = json.loads(data.decode())
    except ValueError as error:  # also the errors of UTF-8 and of JSON
        raise _unreadable(path, f"is no JSON: {error}") from error
    try:
        return _parse(values)
    except BadArgument as error:
        raise _unreadable(path, f"is damaged: {error}") from error


def _parse(values: object) -> _Sidecar:
    """Check what a JSON file holds, or say in a BadArgument what is wrong with it."""
    if not isinstance(values, dict):
        raise BadArgument("it holds no object")
    if values.get("format") != FORMAT:
        raise BadArgument(f"its format is {values.get('format')!r}, this version reads {FORMAT}")
    for key in _NEEDED:
        if key not in values:
            raise BadArgument(f"it has no {key!r}")
    for key in values:
        if key not in _KNOWN:
            raise BadArgument(f"it has an unknown key {key!r}; known: {', '.join(_KNOWN)}")
    if values["state"] not in get_args(State):
        raise BadArgument(f"its state is {values['state']!r}, not one of {', '.join(get_args(State))}")
    size, areas = values["size"], values["areas"]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(edge, int) for edge in size)):
        raise BadArgument(f"its size is {size!r}, not [width, height]")
    if not isinstance(areas, list):
        raise BadArgument(f"its areas are {areas!r}, not a list")
    checked = tuple(Area.from_dict(area) for area in areas)
    for area in checked:
        area.check_inside((size[0], size[1]))
    tolerance = values.get("tolerance")
    if tolerance is not None:
        screens.check_tolerance(tolerance)
    return _Sidecar(values["state"], (size[0], size[1]), checked, _parse_time(values["recorded_at"]), tolerance)


def _parse_time(text: object) -> datetime:
    """Read a time such as `2026-11-30T10:42:00Z`."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise BadArgument(f"its recorded_at is {text!r}, not a time such as 2026-11-30T10:42:00Z")
    return time


def _replace_all(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write files beside their places, and move them there only when all are written."""
    ready: list[tuple[Path, Path]] = []
    path = None
    try:
        for path, data in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            # a name of our own, not tempfile's: that makes files only their owner may read, and these are committed
            beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            ready.append((beside, path))
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for beside, path in ready:
            beside.replace(path)
    except OSError as error:
        raise CassetteUnwritable(
            f"the baseline file {path} cannot be written: {error.strerror}",
            "check who owns the folder and whether the disk is full",
        ) from error
    finally:
        for beside, _ in ready:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
