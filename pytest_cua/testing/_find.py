"""Finding texts and pictures on a screenshot, without a program for OCR.

A text stands alone: left and right of it there is background. So the places where it can be are those that begin and end
with background and are as wide as the text drawn with the expected font at some size; only there it is compared, by
normalised cross-correlation with the drawn text. Correlation alone takes "Safe" for "Save", so each character must fit
by itself too.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from pytest_cua.errors import BadArgument

Floats: TypeAlias = NDArray[np.float32]
Region: TypeAlias = tuple[int, int, int, int]

SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"
# in pixels: 9 to 16, 8 to 16 pt at 96 dpi, and what headings often have
SIZES = (
    *(9, 9.5, 10, 10.5, 32 / 3, 11, 11.5, 12, 12.5, 13, 40 / 3, 13.5, 14, 14.5, 44 / 3, 15, 15.5, 16),
    *(50 / 3, 52 / 3, 18, 56 / 3, 20, 64 / 3),
)


class NotOnScreen(Exception):
    """What was searched for is not there.

    Attributes:
        best: The best place all the same, or `None`.
    """

    def __init__(self, message: str, best: Box | None = None) -> None:
        super().__init__(message)
        self.best = best


@dataclass(frozen=True)
class Box:
    """A place on a screenshot, in its pixels.

    Attributes:
        x: Left edge.
        y: Upper edge.
        width: Width.
        height: Height.
        score: How well it fits, 1.0 at best.
    """

    x: int
    y: int
    width: int
    height: int
    score: float = 1.0

    @property
    def center(self) -> tuple[int, int]:
        """The pixel to click."""
        return self.x + self.width // 2, self.y + self.height // 2


# ----------------------------------------------------------------------------------------------------- drawing a text
OVERSAMPLING = 8
ASCENT, DESCENT = 0.78, 0.24  # of the size: DejaVu's tallest and deepest letters


@dataclass(frozen=True, eq=False)
class Drawing:
    """A text as a renderer without hinting draws it.

    Attributes:
        ink: Coverage, 0 to 1, `(height, width)`; first and last column are the first and last with ink above the
            baseline.
        above: How many rows are above the baseline.
        glyphs: For each visible character, its first column and the one after its last.
    """

    ink: Floats
    above: int
    glyphs: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def font_file(family: str, bold: bool) -> str:
    """The file of a font family (or `family` itself, when it is a file)."""
    if Path(family).is_file():
        return family
    name = f"{family.replace(' ', '')}{'-Bold' if bold else ''}.ttf"
    usual = Path("/usr/share/fonts/truetype/dejavu") / name
    if usual.is_file():
        return str(usual)
    program = shutil.which("fc-match")
    if program is None:
        raise BadArgument(f"The font {family!r} was not found, and neither was fc-match to search for it.")
    pattern = f"{family}:weight={200 if bold else 80}"
    return subprocess.run([program, "-f", "%{file}", pattern], capture_output=True, text=True, check=True).stdout


@lru_cache(maxsize=256)
def _font(family: str, bold: bool, size: float) -> ImageFont.FreeTypeFont:
    # drawn large and averaged down, because Pillow cannot switch hinting off
    return ImageFont.truetype(font_file(family, bold), size * OVERSAMPLING)


@lru_cache(maxsize=512)
def _advances(text: str, family: str, bold: bool, size: float, spacing: str) -> tuple[float, ...]:
    """Where each character begins, in pixels.

    `spacing` is how the renderer places them: "exact" (Skia: with kerning, anywhere), "whole" (Xft: without kerning,
    on whole pixels) or "kerned" (Pango: with kerning, on whole pixels).
    """
    font = _font(family, bold, size)
    at, places = 0.0, []
    for character, following in zip(text, [*text[1:], ""], strict=True):
        places.append(at)
        alone = font.getlength(character) / OVERSAMPLING
        # the difference of two lengths includes the kerning between them
        pair = (font.getlength(character + following) - font.getlength(following)) / OVERSAMPLING if following else alone
        at += {"exact": pair, "whole": round(alone), "kerned": round(alone) + round(pair - alone)}[spacing]
    return tuple(places)


@lru_cache(maxsize=8192)
def _draw(text: str, family: str, bold: bool, size: float, places: tuple[float, ...], offset: float) -> Drawing:
    """`text` as coverage, its characters at `places` and `offset` pixels further right."""
    font = _font(family, bold, size)
    above, below, margin = math.ceil(size * ASCENT), math.ceil(size * DESCENT), math.ceil(size / 4)
    width = math.ceil(places[-1] + font.getlength(text[-1]) / OVERSAMPLING) + 2 * margin + 1
    large = Image.new("L", (width * OVERSAMPLING, (above + below) * OVERSAMPLING))
    pen = ImageDraw.Draw(large)
    glyphs = []
    for character, place in zip(text, places, strict=True):
        x = (place + offset + margin) * OVERSAMPLING
        pen.text((x, above * OVERSAMPLING), character, fill=255, font=font, anchor="ls")
        if not character.isspace():
            left, _, right, _ = font.getbbox(character, anchor="ls")
            glyphs.append((math.floor((x + left) / OVERSAMPLING), math.ceil((x + right) / OVERSAMPLING)))
    tall = np.asarray(large, np.float32).reshape(above + below, OVERSAMPLING, width, OVERSAMPLING)
    ink = tall.mean((1, 3)) / 255
    inked = np.flatnonzero(ink[:above].max(0) > FAINT)
    first, last = (int(inked[0]), int(inked[-1]) + 1) if inked.size else (0, width)
    kept = tuple((max(left - first, 0), min(right, last) - first) for left, right in glyphs)
    return Drawing(np.ascontiguousarray(ink[:, first:last]), above, kept)


@dataclass(frozen=True)
class _Style:
    """One way a text may be drawn."""

    family: str
    bold: bool
    size: float

    def drawings(self, text: str) -> Iterator[Drawing]:
        """`text` in this style, as each renderer would draw it."""
        exact = _advances(text, self.family, self.bold, self.size, "exact")
        for offset in (0, 0.25, 0.5, 0.75):  # Skia draws at quarters of a pixel
            yield _draw(text, self.family, self.bold, self.size, exact, offset)
        # sizes are seldom round, and where an advance is rounded up instead of down depends on a hundredth
        rounded = {
            _advances(text, self.family, self.bold, self.size + change, spacing)
            for spacing in ("whole", "kerned")
            for change in (-0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15)
        }
        for places in rounded:
            yield _draw(text, self.family, self.bold, self.size, places, 0)


# ------------------------------------------------------------------------------------------------- searching for a text
FAINT = 0.1  # less coverage than this is taken for background
EVEN = 20  # grey levels: a column of pixels that differ less is background, or an edge


class _Screen:
    """A screenshot in grey, and where its columns are even, which is to say hold no letter."""

    def __init__(self, image: Image.Image, within: Region | None) -> None:
        left, top, right, bottom = _region(image, within)
        self.left, self.top = left, top
        self.grey: Floats = np.asarray(image.convert("L"), np.float32)[top:bottom, left:right]
        self._even: dict[int, NDArray[np.bool_]] = {}

    def even(self, height: int) -> NDArray[np.bool_]:
        """For each pixel, whether it and the `height` - 1 pixels above it are alike."""
        if height not in self._even:
            origin = height - 1 - height // 2  # the window then ends with its own row
            high = maximum_filter1d(self.grey, height, axis=0, origin=origin)
            low = minimum_filter1d(self.grey, height, axis=0, origin=origin)
            self._even[height] = high - low < EVEN
        return self._even[height]

    def edges(self, height: int, gap: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where something begins behind `gap` even columns, and where something ends before as many."""
        if (height, gap) not in self._edges:
            even = self.even(height)
            padded = np.pad(even, ((0, 0), (gap, gap)), constant_values=True)
            width = even.shape[1]
            before, after = np.ones_like(even), np.ones_like(even)
            for step in range(1, gap + 1):
                before &= padded[:, gap - step : gap - step + width]
                after &= padded[:, gap + step : gap + step + width]
            self._edges[height, gap] = np.argwhere(~even & before), ~even & after
        return self._edges[height, gap]


@dataclass(frozen=True)
class _Match:
    """A place where a text may be: the pixel of its drawing's upper left corner."""

    x: int
    y: int
    score: float
    drawing: Drawing

    def box(self, screen: _Screen) -> Box:
        height, width = self.drawing.ink.shape
        return Box(self.x + screen.left, self.y + screen.top, width, height, round(self.score, 3))

    def overlaps(self, other: _Match) -> bool:
        (height, width), (other_height, other_width) = self.drawing.ink.shape, other.drawing.ink.shape
        return (
            self.x < other.x + other_width
            and other.x < self.x + width
            and self.y < other.y + other_height
            and other.y < self.y + height
        )


ROUGH = 0.6  # a first look that fits less well is not worth a second


def _matches(screen: _Screen, text: str, style: _Style, floor: float) -> Iterator[_Match]:
    for drawing in style.drawings(text):
        height, width = drawing.ink.shape
        if height > screen.grey.shape[0] or width > screen.grey.shape[1]:
            continue
        starts, ends = screen.edges(drawing.above, max(2, round(style.size * GAP)))
        for x, y in _fitting(starts, ends, drawing):
            for dx in (-1, 0, 1):
                match = _compare(screen, drawing, x + dx, y)
                if match and match.score >= floor:
                    yield match


def _fitting(starts, ends, drawing):
    ys, xs = starts[:, 0], starts[:, 1]
    w = drawing.ink.shape[1]
    W = ends.shape[1]
    ok = np.zeros(len(ys), bool)
    for d in (-1, 0, 1):
        at = xs + w - 1 + d
        ok |= (at < W) & ends[ys, np.minimum(at, W - 1)]
    for y, x in zip(ys[ok], xs[ok]):
        yield int(x), int(y) - drawing.above + 1
