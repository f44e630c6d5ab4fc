"""Finding texts and pictures on a screenshot, without a program for OCR.

A text stands alone: left and right of it there is background. So the places where it can be are those that begin and
end with background and are as wide as the text drawn with the expected font at some size; only there it is compared,
by normalised cross-correlation with the drawn text. Correlation alone takes "Safe" for "Save", so each character must
fit by itself too.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
Integers: TypeAlias = NDArray[np.int64]
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
OVERSAMPLING = 8  # Pillow cannot switch hinting off, so characters are drawn large and averaged down
UNITS = 2048  # pixels per em: what fonts are designed in, so that nothing is rounded
ASCENT, DESCENT = 0.78, 0.24  # of the size: DejaVu's tallest and deepest letters


@dataclass(frozen=True, eq=False)
class _Drawing:
    """A text as a renderer without hinting draws it.

    Attributes:
        ink: Coverage, 0 to 1, `(height, width)`; its first and last columns are the first and last with ink above the
            baseline.
        above: How many rows are above the baseline.
        glyphs: For each visible character, its first column and the one after its last.
    """

    ink: Floats
    above: int
    glyphs: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def _font_file(family: str, bold: bool) -> str:
    """The file of a font family, or `family` itself when it is a file."""
    if Path(family).is_file():
        return family
    usual = Path("/usr/share/fonts/truetype/dejavu") / f"{family.replace(' ', '')}{'-Bold' if bold else ''}.ttf"
    if usual.is_file():
        return str(usual)
    program = shutil.which("fc-match")
    if program is None:
        raise BadArgument(f"The font {family!r} was not found, and neither was fc-match to search for it.")
    pattern = f"{family}:weight={200 if bold else 80}"
    return subprocess.run([program, "-f", "%{file}", pattern], capture_output=True, text=True, check=True).stdout


@dataclass(frozen=True)
class _Style:
    """One way a text may be drawn: a font's family and weight, and pixels per em."""

    family: str
    bold: bool
    size: float

    @property
    def above(self) -> int:
        return math.ceil(self.size * ASCENT)

    @property
    def gap(self) -> int:
        """How many columns beside a text must be background: less than a space has, more than is between letters."""
        return max(2, round(self.size * 0.28))

    @lru_cache(maxsize=256)  # noqa: B019 - styles are few, and equal ones share the cache
    def font(self) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(_font_file(self.family, self.bold), self.size * OVERSAMPLING)

    def resized(self, change: float) -> _Style:
        return _Style(self.family, self.bold, self.size + change)


@lru_cache(maxsize=65536)
def _advance(character: str, following: str, family: str, bold: bool) -> tuple[float, float]:
    """How far `following` is from `character`, in em: without kerning, and what kerning adds."""
    font = _Style(family, bold, UNITS / OVERSAMPLING).font()
    alone = font.getlength(character)
    pair = font.getlength(character + following) - font.getlength(following) if following else alone
    return alone / UNITS, (pair - alone) / UNITS


def _places(text: str, style: _Style, spacing: str) -> tuple[float, ...]:
    """Where each character begins, in pixels.

    `spacing` is how a renderer places them: "exact" (Skia: with kerning, anywhere), "whole" (Xft: without kerning, on
    whole pixels) or "kerned" (Pango: with kerning, on whole pixels).
    """
    at, places = 0.0, []
    for character, following in zip(text, [*text[1:], ""], strict=True):
        places.append(at)
        alone, kerning = _advance(character, following, style.family, style.bold)
        kerned = (alone + kerning) * style.size
        at += {"exact": kerned, "whole": round(alone * style.size), "kerned": round(kerned)}[spacing]
    return tuple(places)


@lru_cache(maxsize=65536)
def _cell(character: str, style: _Style, phase: int) -> tuple[int, Floats]:
    """One character as coverage, begun `phase` eighths of a pixel into a column: its first column, and its pixels."""
    above, below, left = style.above, math.ceil(style.size * DESCENT), math.ceil(style.size / 4)
    width = math.ceil(style.font().getlength(character) / OVERSAMPLING) + 2 * left + 1
    large = Image.new("L", (width * OVERSAMPLING, (above + below) * OVERSAMPLING))
    place = (left * OVERSAMPLING + phase, above * OVERSAMPLING)
    ImageDraw.Draw(large).text(place, character, fill=255, font=style.font(), anchor="ls")
    pixels = np.asarray(large, np.float32).reshape(above + below, OVERSAMPLING, width, OVERSAMPLING).mean((1, 3)) / 255
    inked = np.flatnonzero(pixels.max(0) > 0)
    first, last = (int(inked[0]), int(inked[-1]) + 1) if inked.size else (0, 0)
    return first - left, np.ascontiguousarray(pixels[:, first:last])


@lru_cache(maxsize=4096)
def _draw(text: str, style: _Style, places: tuple[float, ...], offset: float) -> _Drawing:
    """`text` as coverage, its characters at `places`, and `offset` pixels further right."""
    cells = []
    for character, place in zip(text, places, strict=True):
        column, phase = divmod(round((place + offset) * OVERSAMPLING), OVERSAMPLING)
        first, pixels = _cell(character, style, phase)
        if pixels.size:
            cells.append((column + first, pixels))
    left = min(at for at, _ in cells)
    ink = np.zeros((cells[0][1].shape[0], max(at + pixels.shape[1] for at, pixels in cells) - left), np.float32)
    for at, pixels in cells:
        ink[:, at - left : at - left + pixels.shape[1]] += pixels
    np.minimum(ink, 1, out=ink)
    inked = np.flatnonzero(ink[: style.above].max(0) > FAINT)
    first, last = (int(inked[0]), int(inked[-1]) + 1) if inked.size else (0, ink.shape[1])
    glyphs = tuple((max(at - left - first, 0), min(at - left + pixels.shape[1], last) - first) for at, pixels in cells)
    return _Drawing(np.ascontiguousarray(ink[:, first:last]), style.above, glyphs)


def _drawings(text: str, style: _Style) -> Iterator[_Drawing]:
    """`text` in a style, as each renderer would draw it."""
    exact = _places(text, style, "exact")
    for offset in (0, 0.25, 0.5, 0.75):  # Skia draws at quarters of a pixel
        yield _draw(text, style, exact, offset)
    for places in _rounded(text, style):
        yield _draw(text, style, places, 0)


@lru_cache(maxsize=1024)
def _rounded(text: str, style: _Style) -> tuple[tuple[float, ...], ...]:
    """The places of characters on whole pixels, of this size and of slightly other ones.

    Sizes are seldom round, and whether an advance is rounded up or down can depend on a hundredth of a pixel.
    """
    changes = (0, -0.05, 0.05, -0.1, 0.1, -0.15, 0.15)
    found = {_places(text, style.resized(change), spacing) for change in changes for spacing in ("whole", "kerned")}
    return tuple(sorted(found))


# ------------------------------------------------------------------------------------------------- searching for a text
FAINT = 0.4  # an outermost column with less coverage is left out: a tight background may end before it
EVEN = 20  # grey levels: pixels that differ less are alike
LEAST_CONTRAST = 2  # grey levels, on average
ROUGH = 0.65  # a first look that fits less well is not worth a second (measured on right places: 0.77 and more)
MOST_STYLES = 8  # that get a second look at one place (measured: the right one is among the first 3)
ROUGH_WIDTH = 40  # pixels: further right, the places of characters differ too much between renderers


class _Screen:
    """A screenshot in grey, and where on it something can begin and end."""

    def __init__(self, image: Image.Image, region: Region) -> None:
        self.left, self.top, right, bottom = region
        grey = np.asarray(image.convert("L"), np.float32)
        self.grey: Floats = np.ascontiguousarray(grey[self.top : bottom, self.left : right])
        changes = np.abs(np.diff(self.grey, axis=1)) > EVEN / 2
        self._changes = np.pad(np.cumsum(changes, axis=1, dtype=np.int32), ((0, 0), (1, 1)), mode="edge")
        self._changes[:, 0] = 0
        self._even: dict[int, NDArray[np.bool_]] = {}
        self._edges: dict[tuple[int, int], tuple[Integers, Integers, NDArray[np.bool_]]] = {}

    def even(self, style: _Style) -> NDArray[np.bool_]:
        """For each pixel, whether it and those above it are alike, for one more than the tallest letter has."""
        height = style.above + 1
        if height not in self._even:
            origin = (height - 1) // 2  # the window then ends with its own row
            high = maximum_filter1d(self.grey, height, axis=0, origin=origin, mode="nearest")
            low = minimum_filter1d(self.grey, height, axis=0, origin=origin, mode="nearest")
            even = high - low < EVEN
            even[: style.above - 1] = True  # no text fits there
            self._even[height] = even
        return self._even[height]

    def edges(self, style: _Style) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """Rows and columns where something begins behind background, and for each pixel, whether something ends there.

        A column is background when its pixels above the baseline are alike: so is a line that is taller than the text.
        """
        key = (style.above, style.gap)
        if key not in self._edges:
            even = self.even(style)
            padded = np.pad(even, ((0, 0), (style.gap, style.gap)), constant_values=True)
            before, after = ~even, ~even
            for step in range(1, style.gap + 1):
                before &= padded[:, style.gap - step : style.gap - step + even.shape[1]]
                after &= padded[:, style.gap + step : style.gap + step + even.shape[1]]
            rows, columns = np.nonzero(before)
            self._edges[key] = (rows, columns, after)
        return self._edges[key]

    def busy(self, rows: Integers, columns: Integers, width: int) -> NDArray[np.bool_]:
        """Whether pixels change along a row, from a column on for `width` pixels."""
        last = self.grey.shape[1]
        right = np.minimum(columns + width, last)
        return self._changes[rows, right] > self._changes[rows, columns]


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a text may begin: a column, and the last row above the baseline."""

    score: float
    column: int
    row: int
    style: _Style


def _rough_places(screen: _Screen, text: str, style: _Style) -> Iterator[_Place]:
    """Where something begins and ends as `text` in a style would, and fits at a first look."""
    drawing = _draw(text, style, _places(text, style, "exact"), 0.375)
    rows, columns, ends = screen.edges(style)
    fits = columns + drawing.ink.shape[1] <= ends.shape[1] + 1
    rows, columns = rows[fits], columns[fits]
    fits = _rows_fit(screen, drawing, rows, columns)
    rows, columns = rows[fits], columns[fits]
    fits = np.zeros(rows.size, np.bool_)
    for width in _widths(text, style, drawing):
        fits |= ends[rows, np.clip(columns + width - 1, 0, ends.shape[1] - 1)]
    fits &= _gaps_fit(screen.even(style), text, drawing, rows, columns)
    rows, columns = rows[fits], columns[fits]
    if not rows.size:
        return
    scores = np.zeros(rows.size, np.float32)
    for look in _looks(text, style):
        part = look.ink[: look.above, :ROUGH_WIDTH]
        windows = sliding_window_view(screen.grey, part.shape)
        for by in (-1, 0, 1):
            at = np.clip(columns + by, 0, windows.shape[1] - 1)
            np.maximum(scores, _correlation(windows[rows - look.above + 1, at], part), out=scores)
    for index in np.flatnonzero(scores >= ROUGH):
        yield _Place(float(scores[index]), int(columns[index]), int(rows[index]), style)


def _looks(text: str, style: _Style) -> list[_Drawing]:
    """The beginning of `text`, as each renderer would draw it."""
    exact = _places(text, style, "exact")
    count = max(1, sum(place < ROUGH_WIDTH for place in exact) - 1)
    beginnings = sorted({places[:count] for places in _rounded(text, style)})
    return [
        _draw(text[:count], style, exact[:count], 0.375),
        *(_draw(text[:count], style, places, 0) for places in beginnings),
    ]


def _rows_fit(screen: _Screen, drawing: _Drawing, rows: Integers, columns: Integers) -> NDArray[np.bool_]:
    """Whether the text's highest and lowest rows hold something, and the row above it does not."""
    inked = np.flatnonzero(drawing.ink[: drawing.above].max(1) > 0.3)
    top, bottom, width = int(inked[0]), int(inked[-1]), drawing.ink.shape[1]
    first = rows - drawing.above + 1
    fits = screen.busy(first + top, columns, width) & screen.busy(first + bottom, columns, width)
    return fits & ~screen.busy(first + top - 2, columns, width) if top >= 2 else fits


def _gaps_fit(
    even: NDArray[np.bool_], text: str, drawing: _Drawing, rows: Integers, columns: Integers
) -> NDArray[np.bool_]:
    """Whether there is background where the spaces are, give or take the spacing of renderers."""
    fits = np.ones(rows.size, np.bool_)
    characters = 0
    for word in text.split()[:-1]:
        characters += len(word)
        middle = (drawing.glyphs[characters - 1][1] + drawing.glyphs[characters][0]) // 2
        drift = 2 + characters // 4
        tries = [np.clip(columns + middle + by, 0, even.shape[1] - 1) for by in range(-drift, drift + 1)]
        fits &= np.any([even[rows, at] for at in tries], axis=0)
    return fits


def _widths(text: str, style: _Style, drawing: _Drawing) -> set[int]:
    """How wide the text is with any renderer's spacing, given one drawing of it with exact spacing."""
    exact = _places(text, style, "exact")[-1]
    changes = {0, *(round(places[-1] - exact) for places in _rounded(text, style))}
    # the start may be a faint column before the drawing's first, the end one behind its last
    return {drawing.ink.shape[1] + change + by for change in changes for by in (-1, 0, 1, 2)}


def _correlation(windows: Floats, part: Floats) -> Floats:
    """How alike each of `windows` and `part` are, 0 to 1, whatever their colours, and which is the darker one."""
    pattern = (part - part.mean()).ravel()
    flat = windows.reshape(len(windows), pattern.size)
    spread = np.einsum("ij,ij->i", flat, flat) - flat.sum(1) ** 2 / pattern.size
    # where there is next to no contrast, noise would look like anything
    lengths = np.sqrt(np.maximum(spread, LEAST_CONTRAST**2 * pattern.size)) * np.linalg.norm(pattern)
    return np.asarray(np.abs(flat @ pattern) / lengths, np.float32)


@dataclass(frozen=True, eq=False)
class _Match:
    """A text at a place: the upper left pixel of its drawing."""

    score: float
    x: int
    y: int
    drawing: _Drawing

    def near(self, other: _Match) -> bool:
        """Whether both are the same text on the screen."""
        return abs(self.x - other.x) < 6 and abs(self.y - other.y) < 6


def _match(screen: _Screen, text: str, place: _Place) -> _Match | None:
    """The best fit of `text` at a place, among the drawings of all renderers."""
    best, window = None, None
    for drawing in _drawings(text, place.style):
        top = place.row - drawing.above + 1
        # the rows below the baseline may be underlined
        for height in (drawing.ink.shape[0], drawing.above):
            part = screen.grey[top : top + height, max(place.column - 1, 0) : place.column + 1 + drawing.ink.shape[1]]
            if part.shape[0] < height or part.shape[1] < drawing.ink.shape[1]:
                continue  # at the edge of the screen
            windows = sliding_window_view(part, (height, drawing.ink.shape[1]))[0]
            scores = _correlation(windows, drawing.ink[:height])
            at = int(scores.argmax())
            if best is None or scores[at] > best.score:
                best = _Match(float(scores[at]), max(place.column - 1, 0) + at, top, drawing)
                window = windows[at]
    if best is None or window is None:
        return None
    ends = screen.edges(place.style)[2][place.row]
    last = best.x + best.drawing.ink.shape[1] - 1
    if not ends[max(last - 1, 0) : last + 2].any():
        return replace(best, score=0.0)  # the beginning of a longer word
    return replace(best, score=min(best.score, _worst_character(window, best.drawing)))


def _worst_character(window: Floats, drawing: _Drawing) -> float:
    """How well the character fits that fits worst: 1 less its share of ink that is missing or too much."""
    ink = drawing.ink[: window.shape[0]]
    spread = ink - ink.mean()
    slope = float((spread * window).sum() / (spread * spread).sum())
    if abs(slope) < 1:
        return 0
    wrong = ((window - window.mean()) / slope - spread) ** 2
    shares = [wrong[:, first:last].sum() / (ink[:, first:last] ** 2).sum() for first, last in drawing.glyphs]
    return max(0.0, 1 - float(max(*shares, wrong.max())))


def _most_likely(places: list[_Place]) -> Iterator[_Place]:
    """Of the styles that fit at about the same place, the best ones."""
    looks: dict[tuple[int, int], int] = {}
    for place in sorted(places, key=lambda place: -place.score):
        about = (place.column // 8, place.row // 4)
        looks[about] = looks.get(about, 0) + 1
        if looks[about] <= MOST_STYLES:
            yield place


def _all_matches(screen: _Screen, text: str, styles: Sequence[_Style]) -> list[_Match]:
    """The best match of each place, best first."""
    places = [place for style in styles for place in _rough_places(screen, text, style)]
    matches = [match for place in _most_likely(places) if (match := _match(screen, text, place))]
    matches.sort(key=lambda match: -match.score)
    kept: list[_Match] = []
    for match in matches:
        if not any(match.near(other) for other in kept):
            kept.append(match)
    return kept


def find_text(
    image: Image.Image,
    text: str,
    *,
    font: str | None = None,
    sizes: Sequence[float] = SIZES,
    bold: bool | None = None,
    within: Box | Region | None = None,
    nth: int = 0,
    threshold: float = 0.8,
) -> Box:
    """Find where a text stands on a screenshot.

    The text must be whole words: on both sides, for a fifth of its size, there is background, or a straight line. So
    "Total" is found in "Total cost", but neither in "Totals" nor in "Total:". Any colours do, dark on light or light
    on dark, underlined or not.

    What it cannot do: other fonts than `font` (by default DejaVu Sans, and DejaVu Sans Mono if that is not found as
    often as `nth` asks); slanted, hinted, shadowed or scaled text; subpixel (coloured) antialiasing; texts of faint
    contrast (less than about 50 grey levels); texts on pictures or steep gradients; several lines. It sees no
    difference that is only below the baseline ("." and ","). The letters of scripts that join them are drawn one by
    one, as are ligatures.

    Args:
        image: The screenshot, height x width.
        text: What to find, as it is written.
        font: A font family, or the path of a font file.
        sizes: The sizes to try, in pixels per em (points at 96 dpi are 4/3 of a pixel).
        bold: Whether it is bold; by default either.
        within: Where to search: a `Box`, or left, top, right and bottom in pixels.
        nth: Which of several, from 0, counted from top to bottom, then from left to right.
        threshold: The least score: how well the character fits that fits worst, 1.0 at best. Measured on Tk, GTK and
            Chromium: 0.81 and more for texts that are there, 0.78 and less for others ("Appiy" for "Apply").

    Raises:
        NotOnScreen: No place, or not as many, reach the threshold. The message names the best score.
        BadArgument: `text` is empty, or the font is not there.
    """
    if not text.strip():
        raise BadArgument("find_text needs a text to find; it was given an empty one.")
    text = text.strip()
    screen = _Screen(image, _region(image, within))
    weights = (False, True) if bold is None else (bold,)
    matches: list[_Match] = []
    for family in (SANS, MONO) if font is None else (font,):
        matches += _all_matches(screen, text, [_Style(family, weight, size) for weight in weights for size in sizes])
        found = _reading_order([_box(screen, match) for match in matches if match.score >= threshold])
        if len(found) > nth:
            return found[nth]
    best = max((_box(screen, match) for match in matches), key=lambda box: box.score, default=None)
    raise NotOnScreen(_missing(repr(text), best, len(found), nth, threshold), best)


def _reading_order(boxes: list[Box]) -> list[Box]:
    """From top to bottom, and those that are on about the same line from left to right."""
    lines: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box.y):
        if lines and box.y < lines[-1][0].y + lines[-1][0].height / 2:
            lines[-1].append(box)
        else:
            lines.append([box])
    return [box for line in lines for box in sorted(line, key=lambda box: box.x)]


def _box(screen: _Screen, match: _Match) -> Box:
    height, width = match.drawing.ink.shape
    return Box(match.x + screen.left, match.y + screen.top, width, height, round(match.score, 3))


def _missing(what: str, best: Box | None, found: int, nth: int, threshold: float) -> str:
    if found:
        return f"{what} is on the screen {found} times only, and number {nth} (from 0) was asked for"
    if best is None:
        return f"{what} is not on the screen: nothing on it has its width between background"
    return (
        f"{what} is not on the screen: the best place, at ({best.x}, {best.y}), fits with {best.score:.2f}, less than "
        f"the threshold of {threshold:g}"
    )


def _region(image: Image.Image, within: Box | Region | None) -> Region:
    if within is None:
        return (0, 0, *image.size)
    if isinstance(within, Box):
        within = (within.x, within.y, within.x + within.width, within.y + within.height)
    left, top, right, bottom = within
    region = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
    if region[0] >= region[2] or region[1] >= region[3]:
        raise BadArgument(f"within={within} is empty or outside the picture of {image.width}x{image.height} pixels.")
    return region


# ---------------------------------------------------------------------------------------------------------- pictures
def find_template(
    image: Image.Image,
    template: Image.Image | str | Path,
    *,
    tolerance: int = 12,
    within: Box | Region | None = None,
    nth: int = 0,
) -> Box:
    """Find a picture on a screenshot, pixel by pixel: neither scaled, turned nor recoloured.

    Args:
        image: The screenshot, height x width.
        template: The picture, or its file. Its transparent pixels match anything.
        tolerance: By how many levels, of 0 to 255, each channel of each pixel may differ.
        within: Where to search: a `Box`, or left, top, right and bottom in pixels.
        nth: Which of several, from 0, counted from top to bottom, then from left to right.

    Raises:
        NotOnScreen: It is not there, or not as often. The message names the best place among those that were compared.
        BadArgument: The template is wholly transparent.
    """
    left, top, right, bottom = _region(image, within)
    screen = np.asarray(image.convert("RGB"), np.int16)[top:bottom, left:right]
    pixels, solid = _pixels(template)
    height, width = solid.shape
    if height > screen.shape[0] or width > screen.shape[1]:
        raise NotOnScreen(f"the template of {width}x{height} pixels is larger than where it is searched for")
    rows, columns, complete = _samples_fit(screen, pixels, solid, tolerance)
    found, best = [], None
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        part = screen[row : row + height, column : column + width]
        share = float((np.abs(part - pixels).max(2) <= tolerance)[solid].mean())
        box = Box(column + left, row + top, width, height, share)
        if complete and share == 1:
            found.append(box)
            if len(found) > nth:
                return box
        if best is None or share > best.score:
            best = box
    raise NotOnScreen(_missing("the template", best, len(found), nth, 1), best)


SAMPLES = 16
MOST_NEAR = 50


def _pixels(template: Image.Image | str | Path) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """The colours of a template, and which of its pixels are not transparent."""
    if not isinstance(template, Image.Image):
        with Image.open(template) as opened:
            template = opened.convert("RGBA")
    pixels = np.asarray(template.convert("RGBA"), np.int16)
    solid = pixels[..., 3] > 0
    if not solid.any():
        raise BadArgument("The template is wholly transparent: it would match anywhere.")
    return pixels[..., :3], solid


def _samples_fit(
    screen: NDArray[np.int16], pixels: NDArray[np.int16], solid: NDArray[np.bool_], tolerance: int
) -> tuple[Integers, Integers, bool]:
    """The rows and columns where some pixels of the template all fit; failing that, where most do, and `False`."""
    down, across = screen.shape[0] - solid.shape[0] + 1, screen.shape[1] - solid.shape[1] + 1
    samples = _telling(pixels, solid)

    def fit(y: int, x: int) -> NDArray[np.bool_]:
        part = screen[y : y + down, x : x + across]
        return np.asarray(np.abs(part - pixels[y, x]).max(2) <= tolerance)

    rows, columns = np.nonzero(fit(*samples[0]))
    for y, x in samples[1:]:
        kept = np.abs(screen[rows + y, columns + x] - pixels[y, x]).max(1) <= tolerance
        rows, columns = rows[kept], columns[kept]
    if rows.size:
        return rows, columns, True
    fitting = np.sum([fit(y, x) for y, x in samples], axis=0, dtype=np.uint8)
    most = np.argsort(-fitting.astype(np.int16), axis=None, kind="stable")[:MOST_NEAR]
    rows, columns = np.unravel_index(most, fitting.shape)
    return rows, columns, False


def _telling(pixels: NDArray[np.int16], solid: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Some pixels of the template, those first whose colour is rare in it."""
    places = np.argwhere(solid)
    _, inverse, counts = np.unique(pixels[solid], axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(counts[inverse.ravel()], kind="stable")
    rare, spread = places[order[: SAMPLES // 2]], places[:: max(1, len(places) // (SAMPLES // 2))]
    return list(dict.fromkeys((int(y), int(x)) for y, x in [*rare, *spread]))
