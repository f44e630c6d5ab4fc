"""Comparing pictures of a screen: what differs, where, and whether that counts.

`compare()` looks at pixels and reports boxes. A hash of the whole screen is only an index ("which screen is this?"): on
labelled pairs of real screens it sees 10 % of the changes a person would want to know, and 0 bits of a removed button.

How a tolerance judges, on pixels outside the excluded areas:

- `exact`: any channel differs at all.
- `strict`, the default: any channel differs by more than 12 of 255 levels (`DEAD_ZONE`), or a large area is filled
  faintly otherwise (`_faint_fills`).
- `perceptual`: the picture is cut into tiles of 64 x 64 pixels, and a tile counts when the 64-bit pHashes of its two
  sides differ in more than `max_distance` bits. The rules that make it trustworthy stand at `_tile_distance`.

Measured on 145 labelled pairs of screens (87 changes of the application, 58 of noise; four programs, three sizes)
without any area; "pinned" is a program started again, gradients and noise in the lowest bits; "machine" also a caret,
a clock, a moved pointer, a focus ring and a fading scroll bar, which areas and a parked pointer are for; "render" is
other hinting, subpixels, lossy codecs and shifts by a pixel:

| tolerance | changes seen | false alarms: pinned | machine | render |
|---|---|---|---|---|
| `exact` | 87/87 | 6/14 | 25/33 | 25/25 |
| `strict` | 87/87 | 0/14 | 19/33 (caret, clock, pointer, focus, scroll bar: all) | 25/25 |
| `perceptual`, 0 bits | 87/87 | 0/14 | 19/33 | 25/25 |
| `perceptual`, 4 bits (default) | 70/87 | 0/14 | 19/33 | 25/25 |
| `perceptual`, 8 bits | 67/87 | 0/14 | 15/33 | 23/25 |
| `perceptual`, 20 bits | 49/87 | 0/14 | 11/33 | 21/25 |

`perceptual` with 4 bits is blind to what is small beside other text of its tile: it missed every changed digit of a
table, a spreadsheet, a text and a file name, every decimal comma, every changed word on a button and 3 of 5 changed
letters. Nor does it forgive another renderer. It is there for who asks for a perceptual hash; `strict` judges better.

This module needs numpy and Pillow; `imagehash`, and with it scipy, is imported when a hash is first asked for.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import operator
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, UnidentifiedImageError

from pytest_cua.errors import BadArgument

Pixels: TypeAlias = npt.NDArray[np.uint8]  # (height, width, 3), RGB
Mask: TypeAlias = npt.NDArray[np.bool_]  # (height, width)
Counts: TypeAlias = npt.NDArray[np.intp]
Box: TypeAlias = tuple[int, int, int, int]  # x, y, width, height in pixels
Size: TypeAlias = tuple[int, int]  # width, height in pixels
Source: TypeAlias = str | os.PathLike[str] | Image.Image | npt.NDArray[Any]
AreaType: TypeAlias = Literal["match", "exclude", "text"]
_T = TypeVar("_T")

DEAD_ZONE = 12  # levels of 255; any value from 2 to 17 judges the labelled pairs alike
HASH_BITS = 64
MAX_DISTANCE = 4  # bits, the default of `perceptual`

_TILE = 64  # pixels, edge of a tile of `perceptual`
_CELL = 4  # pixels, edge of a cell of the grid on which differing pixels are clustered
_JOIN_ACROSS, _JOIN_DOWN = 4, 2  # cells: letters of a word become one box, lines of a text stay apart
_FAINT, _FAINT_CELL, _FAINT_SHARE = 4, 16, 0.9  # levels, pixels, share of a cell
_DRAWN = 32  # pixels, edge of a block that has something drawn in it or not
_REFILLED = 0.6  # share of a tile's differing pixels
_LISTED = 5  # regions that a summary names


# -- areas -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Area:
    """A rectangle of a screen that is treated in its own way; the words are openQA's.

    Args:
        x: Left edge, pixels.
        y: Top edge, pixels.
        width: Pixels, at least 1.
        height: Pixels, at least 1.
        type: `match`: once there is such an area, only the pixels inside of such areas count. `exclude`: these pixels
            never count. `text`: an assertion reads its text; `compare()` treats its pixels as those of no area.
        margin: How far the content may have moved, pixels. `compare()` looks at the exact place and warns.

    Raises:
        BadArgument: A coordinate is negative or no whole number, the area is empty, or the type is unknown.
    """

    x: int
    y: int
    width: int
    height: int
    type: AreaType = "match"
    margin: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, naming it."""
        for name in ("x", "y", "width", "height", "margin"):
            object.__setattr__(self, name, _whole_number(getattr(self, name), f"{name} of {self}"))
            if getattr(self, name) < 0:
                raise BadArgument(f"{name} of {self} is negative")
        if not (self.width and self.height):
            raise BadArgument(f"{self} is empty: width and height are at least 1 pixel")
        if self.type not in get_args(AreaType):
            raise BadArgument(f"the type of {self} is unknown", _suggest(self.type, get_args(AreaType)))

    def __str__(self) -> str:
        return f"area {self.width}x{self.height} at ({self.x}, {self.y}), type {self.type}"

    @property
    def box(self) -> Box:
        """`(x, y, width, height)` in pixels."""
        return self.x, self.y, self.width, self.height

    def to_dict(self) -> dict[str, int | str]:
        """Give the area as JSON holds it: openQA's `xpos ypos width height type margin`."""
        values = asdict(self)
        return {"xpos": values.pop("x"), "ypos": values.pop("y"), **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Area:
        """Read an area from JSON; `type` (`match`, also openQA's `ocr` for `text`) and `margin` may be left out.

        Raises:
            BadArgument: A key is missing or unknown (so that no setting is silently ignored), or a value is wrong.
        """
        if not isinstance(values, Mapping):
            raise BadArgument(f"an area is an object with xpos, ypos, width and height, not {values!r}")
        known = ("xpos", "ypos", "width", "height", "type", "margin")
        for key in values:
            if key not in known:
                raise BadArgument(f"the area {dict(values)} has an unknown key {key!r}", _suggest(key, known))
        for key in known[:4]:
            if key not in values:
                raise BadArgument(f"the area {dict(values)} has no {key}")
        x, y, width, height = (values[key] for key in known[:4])
        kind, margin = values.get("type", "match"), values.get("margin", 0)
        return cls(x, y, width, height, type="text" if kind == "ocr" else kind, margin=margin)

    def check_inside(self, size: Size) -> None:
        """Raise BadArgument unless the whole area lies inside a picture of `size` (width, height)."""
        if self.x + self.width > size[0] or self.y + self.height > size[1]:
            raise BadArgument(f"{self} reaches outside the picture of {size[0]}x{size[1]} pixels")


def _whole_number(value: object, name: str) -> int:
    """Give `value` as an int, also from a numpy integer; a float or a text is a BadArgument that names it."""
    try:
        return operator.index(cast(int, value))
    except TypeError:
        raise BadArgument(f"{name} is {value!r}, not a whole number of pixels") from None


def _suggest(word: object, known: Sequence[str]) -> str:
    """Give the hint for a word that is not one of `known`: the closest, then all."""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    return (f"did you mean {close[0]!r}? " if close else "") + "known: " + ", ".join(known)


def _as_area(value: object) -> Area:
    """Give a member of `exclude` as an area that excludes, whatever its type says."""
    if isinstance(value, Area):
        return Area(*value.box, type="exclude")
    try:
        x, y, width, height = cast(Box, value)
    except (TypeError, ValueError):
        raise BadArgument(
            f"exclude holds {value!r}, which is neither an Area nor a box (x, y, width, height)",
            "give a list, also for a single box: exclude=[(x, y, width, height)]",
        ) from None
    return Area(x, y, width, height, type="exclude")


# -- reading and writing pictures --------------------------------------------------------------------------------------


_KEPT = "_pytest_cua_rgb"  # an attribute of a picture whose bytes are kept with it


def load(source: Source) -> Image.Image:
    """Give a picture as RGB with 8 bits a channel, whatever it comes as.

    Transparent pixels are laid over white first, so that colours nobody sees never count; 16-bit greyscale keeps its
    upper eight bits.

    Args:
        source: A path, a Pillow image, or a uint8 array of `(height, width, 3)`, `(height, width, 4)` or
            `(height, width)`.

    Raises:
        BadArgument: The file is missing or no picture, or the picture or array is of a kind without a clear meaning.
    """
    if isinstance(source, np.ndarray):
        return Image.fromarray(_pixels_of_array(source))
    if isinstance(source, Image.Image):
        return _to_rgb(source)
    return decode(_read(source), source)


def _read(path: str | os.PathLike[str]) -> bytes:
    """Read a file, or say in a BadArgument why not."""
    try:
        return Path(path).read_bytes()
    except TypeError:
        raise BadArgument(f"a picture is a path, a Pillow image or a numpy array, not {path!r}") from None
    except OSError as error:
        raise BadArgument(f"cannot read the picture {path}: {error.strerror}") from error


def decode(data: bytes, name: object) -> Image.Image:
    """Decode the bytes of a picture file to RGB, as `load()` does.

    Args:
        data: The whole file.
        name: What to call the picture in the error.

    Raises:
        BadArgument: The bytes are no picture, or a damaged one.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            return _to_rgb(image)
    except UnidentifiedImageError as error:
        raise BadArgument(f"{name} is not a picture: {len(data)} bytes of no known format") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, BadArgument):
            raise
        raise BadArgument(f"the picture {name} is damaged: {error}") from error


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert without the traps of `convert("RGB")`: alpha would be dropped, 16 bits clipped."""
    if image.mode == "RGB" and not image.has_transparency_data:
        image.load()  # a damaged file shows itself here, not in the middle of a comparison
        return image
    if image.mode.startswith("I;16"):
        grey = np.asarray(image).astype(np.uint16) >> 8
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise BadArgument(f"a picture of mode {image.mode} has no fixed white; convert it to RGB first")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _pixels_of_array(array: npt.NDArray[Any]) -> Pixels:
    """Check an array given as a picture, and lay alpha over white."""
    if array.dtype != np.uint8:
        raise BadArgument(f"a picture as an array is of uint8, 0 to 255, not {array.dtype}")
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise BadArgument(f"a picture as an array has the shape (height, width, 3), not {array.shape}")
    if array.ndim == 3 and array.shape[2] == 3:
        return cast(Pixels, array)
    return np.asarray(_to_rgb(Image.fromarray(array)))


def with_bytes(image: Image.Image) -> Image.Image:
    """Keep a picture's bytes with it, for a frame that is looked at several times and that nobody draws on.

    Pillow keeps four bytes a pixel, so that each look at the three that count is a conversion (1 ms).
    """
    rgb = load(image)
    rgb.__dict__[_KEPT] = rgb.tobytes()
    return rgb


def rgb_bytes(image: Image.Image) -> bytes:
    """Give the RGB bytes of a picture, row by row from the top."""
    rgb = load(image)
    kept = rgb.__dict__.get(_KEPT)
    return kept if kept is not None else rgb.tobytes()


def _pixels(source: Source) -> Pixels:
    """Give a picture as an array `(height, width, 3)`."""
    if isinstance(source, Image.Image) and (kept := source.__dict__.get(_KEPT)) is not None:
        return cast(Pixels, np.frombuffer(kept, np.uint8).reshape(source.height, source.width, 3))
    return _pixels_of_array(source) if isinstance(source, np.ndarray) else np.asarray(load(source))


def _pixels_of_both(expected: Source, actual: Source) -> tuple[Pixels, Pixels]:
    """Load two pictures; two files of equal bytes are decoded once, since decoding costs more than comparing."""
    if expected is actual:
        pixels = _pixels(expected)
        return pixels, pixels
    if isinstance(expected, str | os.PathLike) and isinstance(actual, str | os.PathLike):
        first, second = _read(expected), _read(actual)
        pixels = np.asarray(decode(first, expected))
        return pixels, pixels if first == second else np.asarray(decode(second, actual))
    return _pixels(expected), _pixels(actual)


def content_key(image: Source) -> str:
    """Give the identity of a screen: 16 hex digits of a sha256 over its size and RGB pixels, never over file bytes."""
    pixels = _pixels(image)
    height, width, _ = pixels.shape
    return key_of_pixels((width, height), np.ascontiguousarray(pixels).data)


def key_of_pixels(size: Size, pixels: bytes | memoryview) -> str:
    """Give the `content_key` of a picture by its size and its RGB bytes, row by row from the top."""
    digest = hashlib.sha256(b"%dx%d:" % size)
    digest.update(pixels)
    return digest.hexdigest()[:16]


def to_png(image: Source) -> bytes:
    """Encode as PNG, for speed: no row filter, and the fastest compression at hand.

    A desktop of 1280x800 takes 2 ms (Pillow: 15 to 27 ms) and 80 to 123 kB, a third more than Pillow's default.
    """
    pixels = _pixels(image)
    height, width, _ = pixels.shape
    rows = np.zeros((height, width * 3 + 1), np.uint8)  # each row begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = ((b"IHDR", header), (b"IDAT", _deflate(rows.data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in chunks)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _deflate(data: memoryview) -> bytes:
    """Compress with isal when it is there: a platform without its wheel still works, only slower."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.compress(data, 1)
    return isal_zlib.compress(data, 1)


def to_webp(image: Source) -> bytes:
    """Encode as WebP without loss, for keeping.

    Method 1 with effort 50, measured on four desktops of 1280x800: 24 to 44 kB in 33 to 184 ms. PNG has 80 to 123 kB;
    method 0 at its best takes 20 ms for 60 to 79 kB; Pillow's default, method 4 with effort 80, takes 37 to 255 ms for
    1 to 10 % less. What is kept is cloned for ever, and the time hides behind the model's reply when this runs in a
    thread: the encoder lets go of Python's lock.
    """
    buffer = io.BytesIO()
    load(image).save(buffer, "WEBP", lossless=True, method=1, quality=50)
    return buffer.getvalue()


# -- comparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """A place where two screens differ.

    Args:
        box: `(x, y, width, height)` in pixels, tight around the differing pixels.
        pixels: How many pixels in it differ.
        kind: What kind of difference it is; `content` is one that counts.
    """

    box: Box
    pixels: int
    kind: str = "content"

    def __str__(self) -> str:
        x, y, width, height = self.box
        return f"{width}x{height} at ({x}, {y}), {self.pixels} pixel{'s' * (self.pixels != 1)}"


@dataclass(frozen=True, eq=False)
class _Pair:
    """The part that two pictures share, as arrays of one shape, and which of its pixels count."""

    expected: Pixels
    actual: Pixels
    counted: Mask

    @cached_property
    def delta(self) -> npt.NDArray[np.uint8]:
        """Largest difference of a channel, 0 to 255, by pixel `(height, width)`; 0 where a pixel does not count."""
        delta = np.zeros(self.counted.shape, np.uint8)
        rows = np.flatnonzero((self.expected != self.actual).any(axis=(1, 2)))
        if not rows.size:
            return delta
        band = np.s_[rows[0] : rows[-1] + 1]  # most differences are small: the rest of the screen costs nothing
        expected, actual = self.expected[band], self.actual[band]
        channels = np.maximum(expected, actual)  # max - min, since uint8 wraps: 3 - 5 is 254
        np.subtract(channels, np.minimum(expected, actual), out=channels)
        # by hand, since .max(axis=2) takes twenty times as long
        np.maximum(np.maximum(channels[..., 0], channels[..., 1]), channels[..., 2], out=delta[band])
        delta[band] *= self.counted[band]
        return delta

    @cached_property
    def tiles(self) -> dict[Box, int]:
        """pHash distance, 1 to 64 bits, of each tile in which a counted pixel leaves the dead zone."""
        beyond = self.delta > DEAD_ZONE
        found = {}
        for row, column in np.argwhere(_block_sums(beyond, _TILE)):
            top, left = int(row) * _TILE, int(column) * _TILE
            here = np.s_[top : top + _TILE, left : left + _TILE]  # numpy cuts it off at the right and bottom edge
            height, width = beyond[here].shape
            found[left, top, width, height] = _tile_distance(self.expected[here], self.actual[here], beyond[here])
        return found


@dataclass(frozen=True)
class _Options:
    """What a tolerance may be told."""

    max_distance: int = MAX_DISTANCE


def _exact(pair: _Pair, options: _Options) -> Mask:
    return pair.delta > 0


def _strict(pair: _Pair, options: _Options) -> Mask:
    return (pair.delta > DEAD_ZONE) | _faint_fills(pair)


def _perceptual(pair: _Pair, options: _Options) -> Mask:
    differing = np.zeros(pair.delta.shape, np.bool_)
    for (x, y, width, height), distance in pair.tiles.items():
        if distance > options.max_distance:
            differing[y : y + height, x : x + width] = True
    return differing & (pair.delta > DEAD_ZONE)


# which pixels differ, by tolerance: `same` means none does
_TOLERANCES: dict[str, Callable[[_Pair, _Options], Mask]] = {
    "exact": _exact,
    "strict": _strict,
    "perceptual": _perceptual,
}


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare()`; true when the screens are the same.

    Args:
        same: The verdict. Sizes that differ are never the same.
        regions: Where the screens differ, the one with most pixels first; empty when they are the same, or differ in
            nothing but their size. Of unequal sizes the shared part, from the upper left corner, was compared.
        warnings: What makes the verdict doubtful, as sentences; they do not change it.
        tolerance: The tolerance that judged.
        expected_size: `(width, height)` in pixels.
        actual_size: `(width, height)` in pixels.
    """

    same: bool
    regions: tuple[Region, ...]
    warnings: tuple[str, ...]
    tolerance: str
    expected_size: Size
    actual_size: Size
    _options: _Options = field(repr=False)
    _changed: Mask = field(repr=False, compare=False)
    _pair: _Pair = field(repr=False, compare=False)
    _whole: tuple[Pixels, Pixels] = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.same

    @cached_property
    def distance(self) -> int:
        """The largest distance of two tiles, in bits of a 64-bit pHash (Hamming): 0 to 64, outside excluded areas.

        It does not depend on the tolerance. 0: no pixel leaves the dead zone. 64: also when the sizes differ, or a part
        without structure changed its colour. Computed on first access.
        """
        if self.expected_size != self.actual_size:
            return HASH_BITS
        return max(self._pair.tiles.values(), default=0)

    @cached_property
    def screen_distance(self) -> int:
        """The pHash distance of the whole screens, 0 to 64 bits, areas ignored: tells *which* screen it is, no more."""
        return _phash_distance(*self._whole)

    @property
    def largest_difference(self) -> int:
        """The largest difference of a channel among the pixels that count, 0 to 255 levels."""
        return int(self._pair.delta.max())

    @property
    def summary(self) -> str:
        """What differs, in one or two lines."""
        if self.same:
            return "the screens are the same" + (f" ({self.tolerance})" if self.largest_difference else "")
        lines = []
        if self.expected_size != self.actual_size:
            sizes = ["x".join(map(str, size)) for size in (self.expected_size, self.actual_size)]
            lines.append(f"the sizes differ: expected {sizes[0]}, actual {sizes[1]}")
        if self.regions:
            lines.append(self._regions_line())
        return "\n".join(lines)

    def _regions_line(self) -> str:
        count = len(self.regions)
        worst = f"largest difference {self.largest_difference} of 255 levels"
        if self.tolerance == "perceptual":
            worst += f", worst tile {self.distance} bits where {self._options.max_distance} are allowed"
        if _everywhere(self._pair, self._changed):
            regions = f"{count} region{'s' * (count != 1)}, the largest {self.regions[0]}"
            return f"fonts or rendering differ everywhere: {regions}; {worst}"
        listed = "; ".join(str(region) for region in self.regions[:_LISTED])
        more = f"; and {count - _LISTED} more" if count > _LISTED else ""
        return f"{count} region{'s differ' if count != 1 else ' differs'}: {listed}{more}; {worst}"

    def diff_image(self) -> Image.Image:
        """Draw the difference: the actual screen in dim grey, differing pixels in shades of magenta, boxes red.

        What does not count is hatched in blue. Of unequal sizes the picture is as wide and as high as the larger, and
        what only one of them has is black, outlined in red.
        """
        return _draw_difference(self)


def compare(
    expected: Source,
    actual: Source,
    *,
    tolerance: str = "strict",
    areas: Iterable[Area] = (),
    exclude: Iterable[Box | Area] = (),
    max_distance: int | None = None,
) -> Comparison:
    """Compare two pictures of a screen.

    Args:
        expected: The picture as it should be: a path, a Pillow image or a uint8 array `(height, width, 3)`.
        actual: The picture as it is.
        tolerance: `exact`, `strict` or `perceptual`; see the head of this module.
        areas: Areas that limit (`match`) or take out (`exclude`); `exclude` wins where both lie.
        exclude: Boxes `(x, y, width, height)` in pixels, or areas of any type, whose pixels never count.
        max_distance: For `perceptual` only: the most bits, 0 to 63, in which a tile's two 64-bit hashes may differ;
            4 when not given. 0 judges as `strict` does without its rule for faint fills.

    Returns:
        What differs; true when nothing does.

    Raises:
        BadArgument: An unknown tolerance, an option the tolerance does not have, a picture that cannot be read, an
            area outside the expected picture, or areas that leave no pixel to compare.
    """
    judge, options = _tolerance(tolerance, max_distance)
    areas = _checked_areas(areas)
    excluded = [_as_area(value) for value in _listed("exclude", exclude)]
    excluded += [area for area in areas if area.type == "exclude"]
    whole = _pixels_of_both(expected, actual)
    sizes = [(pixels.shape[1], pixels.shape[0]) for pixels in whole]
    for area in [*areas, *excluded]:
        area.check_inside(sizes[0])
    pair = _shared_part(*whole, areas, excluded)
    changed = _changed(pair, judge, options)
    regions = _regions(changed)
    return Comparison(
        same=not regions and sizes[0] == sizes[1],
        regions=regions,
        warnings=_warnings(whole, areas, excluded),
        tolerance=tolerance,
        expected_size=sizes[0],
        actual_size=sizes[1],
        _options=options,
        _changed=changed,
        _pair=pair,
        _whole=whole,
    )


def check_tolerance(name: str) -> None:
    """Raise a BadArgument that lists the known tolerances unless `name` is one."""
    if name not in tuple(_TOLERANCES):  # a tuple, so that what cannot be hashed is refused as well
        raise BadArgument(f"tolerance={name!r} is unknown", _suggest(name, tuple(_TOLERANCES)))


def _tolerance(name: str, max_distance: int | None) -> tuple[Callable[[_Pair, _Options], Mask], _Options]:
    """Look up a tolerance and check what it is told."""
    check_tolerance(name)
    if max_distance is None:
        return _TOLERANCES[name], _Options()
    if name != "perceptual":
        raise BadArgument(f"max_distance={max_distance} means nothing to tolerance={name!r}", "use 'perceptual' for it")
    bits = _whole_number(max_distance, "max_distance")
    if not 0 <= bits < HASH_BITS:
        raise BadArgument(f"max_distance={bits} is not within 0 to {HASH_BITS - 1} bits: such a check could never fail")
    return _TOLERANCES[name], _Options(max_distance=bits)


def _listed(name: str, values: Iterable[_T]) -> list[_T]:
    """Give an argument as a list, or say that it has to be one."""
    try:
        return list(values)
    except TypeError:
        raise BadArgument(f"{name}={values!r} is no list", f"write {name}=[...], also for a single one") from None


def _checked_areas(areas: Iterable[Area]) -> list[Area]:
    """Refuse what is no Area: a box has no type, so it cannot be known what is meant."""
    checked = _listed("areas", areas)
    for area in checked:
        if not isinstance(area, Area):
            raise BadArgument(f"areas holds {area!r}, which is no Area", "write Area(x, y, width, height, type=...)")
    return checked


def _shared_part(expected: Pixels, actual: Pixels, areas: Sequence[Area], excluded: Sequence[Area]) -> _Pair:
    """Cut both pictures to the size they share and mark the pixels that count."""
    matched = [area for area in areas if area.type == "match"]
    counted = np.full(expected.shape[:2], not matched, np.bool_)
    for area in matched:
        counted[_slices(area)] = True
    for area in excluded:
        counted[_slices(area)] = False
    if not counted.any():
        raise BadArgument("the areas leave no pixel to compare: such a check could never fail")
    height, width = np.minimum(expected.shape[:2], actual.shape[:2])
    shared = np.s_[:height, :width]
    return _Pair(expected[shared], actual[shared], counted[shared])


def _slices(area: Area) -> tuple[slice, slice]:
    return np.s_[area.y : area.y + area.height, area.x : area.x + area.width]


def _changed(pair: _Pair, judge: Callable[[_Pair, _Options], Mask], options: _Options) -> Mask:
    """Give the pixels that differ; equal pictures, the usual case, are not looked at twice."""
    if np.array_equal(pair.expected, pair.actual):
        return np.zeros(pair.counted.shape, np.bool_)
    return judge(pair, options)


def _warnings(whole: tuple[Pixels, Pixels], areas: Sequence[Area], excluded: Sequence[Area]) -> tuple[str, ...]:
    """Say what makes a verdict doubtful."""
    found = []
    for name, pixels in zip(("expected", "actual"), whole, strict=True):
        if _is_solid(pixels, excluded):
            found.append(f"the {name} screen is one solid colour: nothing was rendered")
    for area in areas:
        if area.margin:
            found.append(
                f"{area} has a margin of {area.margin} pixels, which went unused: the exact place was compared"
            )
    return tuple(found)


def _is_solid(pixels: Pixels, excluded: Sequence[Area]) -> bool:
    """Tell whether all pixels outside the excluded areas are one colour; a sample answers almost always."""
    sample = pixels[:: max(1, len(pixels) // 16), :: max(1, pixels.shape[1] // 16)]
    if not excluded and (sample != pixels[0, 0]).any():
        return False
    seen = np.ones(pixels.shape[:2], np.bool_)
    for area in excluded:
        seen[_slices(area)] = False
    colours = pixels[seen]
    return len(colours) > 0 and bool((colours == colours[0]).all())


def _block_sums(mask: Mask, edge: int) -> Counts:
    """Count the set pixels of each block of `edge` x `edge`, the smaller blocks at the right and bottom edge too."""
    height, width = mask.shape
    # a column of a block fits in 8 bits (edge is at most 64), which is four times as fast as in 64
    columns = np.add.reduceat(mask, np.arange(0, height, edge), axis=0, dtype=np.uint8)
    return cast(Counts, np.add.reduceat(columns, np.arange(0, width, edge), axis=1, dtype=np.intp))


def _faint_fills(pair: _Pair) -> Mask:
    """Find what the dead zone hides from `strict`: a large area that is filled a little otherwise.

    A cell of 16 x 16 pixels counts when at least 90 % of it differ by more than 4 levels. A single faint pixel is
    noise, a whole cell of them is a colour that somebody chose: the dead zone alone passes a screen 8 levels darker.
    """
    faint = pair.delta > _FAINT
    counts = _block_sums(pair.counted, _FAINT_CELL)
    # of a cell that is mostly excluded, or a sliver at the edge, the few pixels left would not make a large area
    large = counts >= _FAINT_CELL * _FAINT_CELL // 4
    filled = large & (_block_sums(faint, _FAINT_CELL) >= _FAINT_SHARE * counts)
    if not filled.any():
        return np.zeros(faint.shape, np.bool_)
    height, width = faint.shape
    return faint & filled.repeat(_FAINT_CELL, 0)[:height].repeat(_FAINT_CELL, 1)[:, :width]


# -- perceptual hashes -------------------------------------------------------------------------------------------------


def _tile_distance(expected: Pixels, actual: Pixels, beyond: Mask) -> int:
    """Give the pHash distance, 1 to 64 bits, of a tile in which some pixels are `beyond` the dead zone.

    A bare pHash of a tile is worse than a coin, so five rules surround it:

    - pixels inside the dead zone, or excluded, are taken as equal: on a flat tile noise of one level decides every bit;
    - each channel is hashed by itself and the worst counts: in greyscale, red text is grey text;
    - in a channel where one side is flat, a hash says nothing, yet something appeared, vanished or changed its colour:
      all 64 bits;
    - so it does where a fill changed its colour (`_is_refilled`), since a hash looks past contrast: on white, a red bar
      and a green one are the same to it;
    - equal hashes of pixels that differ count as 1: 0 is kept for "no visible difference".
    """
    if _is_refilled(expected[beyond], actual[beyond]):
        return HASH_BITS
    settled = np.where(beyond[..., None], actual, expected)
    worst = 1
    for channel in range(3):
        left, right = expected[..., channel], settled[..., channel]
        if int((np.maximum(left, right) - np.minimum(left, right)).max()) <= DEAD_ZONE:
            continue
        if min(int(np.ptp(left)), int(np.ptp(right))) <= DEAD_ZONE:
            return HASH_BITS
        worst = max(worst, _phash_distance(left, right))
    return worst


def _is_refilled(before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8]) -> bool:
    """Tell whether at least 16 pixels `(pixels, 3)`, and most of them, had one colour and now have one other."""
    one_colour = np.ones(len(before), np.bool_)
    for side in (before, after):
        offset = np.abs(side - np.median(side, axis=0))  # median gives floats, so that nothing wraps
        one_colour &= (offset <= DEAD_ZONE / 2).all(axis=1)
    return bool(one_colour.sum() >= max(16, _REFILLED * len(before)))


def _phash_distance(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> int:
    """Give the Hamming distance of two 64-bit pHashes."""
    import imagehash  # 150 ms, and scipy

    hashes = [imagehash.phash(Image.fromarray(np.ascontiguousarray(side))) for side in (left, right)]
    return int(hashes[0] - hashes[1])


# -- regions -----------------------------------------------------------------------------------------------------------


def _regions(changed: Mask) -> tuple[Region, ...]:
    """Cluster differing pixels to boxes, the one with most pixels first."""
    if not changed.any():
        return ()
    rows, columns, blocks = _occupied_cells(changed)
    component = _components(rows, columns)
    order = np.argsort(component, kind="stable")
    begins = np.flatnonzero(np.diff(component[order], prepend=-1))
    by_row, by_column = (np.asarray(blocks.any(axis=axis)) for axis in (2, 1))
    last = _CELL - 1
    top = np.minimum.reduceat((rows * _CELL + by_row.argmax(axis=1))[order], begins)
    left = np.minimum.reduceat((columns * _CELL + by_column.argmax(axis=1))[order], begins)
    bottom = np.maximum.reduceat((rows * _CELL + last - by_row[:, ::-1].argmax(axis=1))[order], begins)
    right = np.maximum.reduceat((columns * _CELL + last - by_column[:, ::-1].argmax(axis=1))[order], begins)
    pixels = np.add.reduceat(blocks.sum(axis=(1, 2))[order], begins)
    boxes = np.stack([left, top, right - left + 1, bottom - top + 1, pixels], axis=1).tolist()
    regions = [Region((x, y, width, height), count) for x, y, width, height, count in boxes]
    return tuple(sorted(regions, key=lambda region: (-region.pixels, region.box[1], region.box[0])))


def _occupied_cells(changed: Mask) -> tuple[Counts, Counts, Mask]:
    """Give row, column and content `(cells, 4, 4)` of each cell of the coarse grid in which a pixel differs."""
    height, width = changed.shape
    padded = np.pad(changed, ((0, -height % _CELL), (0, -width % _CELL)))
    grid = padded.reshape(padded.shape[0] // _CELL, _CELL, padded.shape[1] // _CELL, _CELL)
    # the four bytes of a cell's row as one number: ten times as fast as looking at each
    rows, columns = np.nonzero((grid.view(np.uint32)[..., 0] != 0).any(axis=1))
    return rows, columns, grid[rows, :, columns]


def _components(rows: Counts, columns: Counts) -> Counts:
    """Number the cells (in reading order) so that near ones share a number.

    Cells of a row that are near become a run, then runs of near rows are united where they touch: few enough for plain
    Python, also when the whole screen differs.
    """
    new = (np.diff(rows, prepend=-1) != 0) | (np.diff(columns, prepend=-_JOIN_ACROSS - 1) > _JOIN_ACROSS)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(rows)) - 1
    starts, ends, lines = columns[first].tolist(), columns[last].tolist(), rows[first].tolist()
    parent = list(range(len(first)))

    def root(run: int) -> int:
        while parent[run] != run:
            parent[run] = parent[parent[run]]
            run = parent[run]
        return run

    runs_of: dict[int, list[int]] = {}
    for run, line in enumerate(lines):
        for above in range(1, _JOIN_DOWN + 1):
            others = runs_of.get(line - above, [])
            for other in others[bisect_left(others, starts[run] - 1, key=ends.__getitem__) :]:
                if starts[other] > ends[run] + 1:
                    break
                parent[root(other)] = root(run)
        runs_of.setdefault(line, []).append(run)
    roots: Counts = np.array([root(run) for run in range(len(first))], np.intp)
    return cast(Counts, roots[np.cumsum(new) - 1])


def _everywhere(pair: _Pair, changed: Mask) -> bool:
    """Tell whether the differences look like another machine's fonts or renderer.

    Then a good part of whatever is drawn differs, all over the screen, but in single pixels along edges; a window that
    is missing or another fills what it covers. Numbers from the labelled pairs: 27 to 91 % of the drawn blocks with
    other fonts, codecs or shifts, at most 18 % with a change of the application that does not fill its cells.
    """
    if pair.delta.max() <= DEAD_ZONE:  # noise in the lowest bits, which only `exact` reports
        return False
    drawn = np.minimum(_block_ranges(pair.expected), _block_ranges(pair.actual)) > 96
    drawn &= _block_sums(pair.counted, _DRAWN) > 0
    if drawn.sum() < 80:  # two or three changes are "everywhere" in a small picture or area
        return False
    differing = _block_sums(changed, _DRAWN) > 0
    share = (differing & drawn).sum() / drawn.sum()
    height, width = differing.shape
    rows, columns = np.nonzero(differing)
    sectors = set(zip((rows * 4 // height).tolist(), (columns * 4 // width).tolist(), strict=True))
    filled = changed.sum() / (_CELL * _CELL * np.count_nonzero(_block_sums(changed, _CELL)))
    return bool(share >= 0.25 and len(sectors) >= 6 and filled < 0.6)


def _block_ranges(pixels: Pixels) -> Counts:
    """Give the contrast, 0 to 255, of each block of 32 x 32 pixels, in green: the channel nearest to brightness."""
    green = pixels[..., 1]
    edges = [np.arange(0, length, _DRAWN) for length in green.shape]
    high, low = (of.reduceat(of.reduceat(green, edges[0], axis=0), edges[1], axis=1) for of in (np.maximum, np.minimum))
    return high.astype(np.intp) - low


# -- drawing -----------------------------------------------------------------------------------------------------------

_RED, _MAGENTA, _BLUE, _BLACK = (220, 0, 0), (255, 0, 255), (60, 90, 200), (0, 0, 0)


def _draw_difference(comparison: Comparison) -> Image.Image:
    """Draw `Comparison.diff_image()`."""
    width, height = np.maximum(comparison.expected_size, comparison.actual_size).tolist()
    shared = comparison._pair.counted.shape[:2]
    canvas = np.full((height, width, 3), _BLACK, np.uint8)
    grey = np.asarray(Image.fromarray(comparison._pair.actual).convert("L"))
    dim = (grey // 2 + 64)[..., None].repeat(3, axis=2)
    rows, columns = np.ogrid[: shared[0], : shared[1]]
    dim[~comparison._pair.counted & ((rows + columns) % 8 < 2)] = _BLUE
    dim[comparison._changed] = _MAGENTA
    dim[..., 1] = np.where(comparison._changed, grey // 2, dim[..., 1])  # shades, so that what is there can be read
    canvas[: shared[0], : shared[1]] = dim
    image = Image.fromarray(canvas)
    draw = ImageDraw.Draw(image)
    boxes = [region.box for region in comparison.regions]
    if shared[1] < width:
        boxes.append((shared[1], 0, width - shared[1], height))
    if shared[0] < height:
        boxes.append((0, shared[0], width, height - shared[0]))
    for x, y, box_width, box_height in boxes:
        # two pixels outside of the box, so that the line hides none of the pixels it is about
        corners = (max(0, x - 3), max(0, y - 3), min(width, x + box_width + 3) - 1, min(height, y + box_height + 3) - 1)
        draw.rectangle(corners, outline=_RED, width=2)
    return image
