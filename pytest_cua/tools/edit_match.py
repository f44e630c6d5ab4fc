"""Where a text is found in another: exactly, nearly, and what is most like it.

Near places are found by the bit-parallel recurrence of Wu and Manber ("Fast text searching allowing errors",
Communications of the ACM 35, 1992), turned around: here the bits of a number are the positions of the *text*, so that
each character of the pattern costs a handful of operations on whole numbers of Python, whatever the text is. For a text
of a megabyte these are numbers of 125 KB, and a pattern of 100 characters takes some 70 ms without a further package.
Nothing of it depends on the data: a file of nothing but blanks takes no longer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from pytest_cua.tools.edit_text import lines_of

#: Characters that may differ at most, and the length from which on so few are few.
MOST_ERRORS: Final = 3
SHORTEST: Final = 20
#: Length of the text times that of the pattern up to which near places are looked for: about two seconds.
MOST_WORK: Final = 6_000_000_000
_MOST_PLACES: Final = 1_000
_MOST_LINES: Final = 20_000  # that are compared to find the most similar one
_LONGEST_COMPARED: Final = 300  # characters of a line
_SIMILAR: Final = 0.6  # of 1: difflib's own idea of a close match


@dataclass(frozen=True)
class Near:
    """The places that are nearest to a pattern.

    Args:
        distance: Levenshtein distance to it: characters that were inserted, left out or exchanged.
        places: Begin and end of every part of the text at that distance, in order; a thousand at most.
    """

    distance: int
    places: list[tuple[int, int]]


def occurrences(pattern: str, text: str, most: int = _MOST_PLACES) -> list[int]:
    """Where the pattern begins in the text, also where two of them overlap; at most so many."""
    found: list[int] = []
    place = text.find(pattern)
    while place >= 0 and len(found) < most:
        found.append(place)
        place = text.find(pattern, place + 1)
    return found


def near(pattern: str, text: str, errors: int = MOST_ERRORS, most: int = _MOST_PLACES) -> Near | None:
    """The parts of the text at the least distance from the pattern, if that is not more than `errors`.

    Args:
        pattern: Longer than `errors`.
        text: Where it is looked for.
        errors: The greatest distance.
        most: Places after which to stop.
    """
    for distance, ends in enumerate(_ends(pattern, text, errors)):
        if not ends:
            continue
        places: list[tuple[int, int]] = []
        for end in _bits(ends):
            places += [(start, end) for start in _starts(pattern, text, end, distance)]
            if len(places) >= most:
                break
        return Near(distance, sorted(places)[:most])
    return None


@dataclass(frozen=True)
class Similar:
    """The text that is most like another.

    Args:
        first, last: Its lines, counted from 1.
        only_white_space: Whether nothing but blanks, tabs and line ends differ.
    """

    first: int
    last: int
    only_white_space: bool


def similar(wanted: str, flat: str) -> Similar | None:
    """The lines of a text that are most like another text, None when nothing is.

    Args:
        wanted: What was looked for.
        flat: Where, with LF at the lines' ends.
    """
    words = wanted.split()
    if not words:
        return None
    if len(wanted) <= _MOST_LINES:
        found = re.search(r"\s+".join(map(re.escape, words)), flat)
        if found:
            return _lines_at(flat, found.start(), found.end(), only_white_space=True)
    errors = min(MOST_ERRORS, len(wanted) // 8)
    if errors and len(wanted) * len(flat) <= MOST_WORK:
        close = near(wanted, flat, errors, 1)
        if close:
            return _lines_at(flat, *close.places[0])
    return _similar_line(wanted, flat)


def _lines_at(flat: str, start: int, end: int, *, only_white_space: bool = False) -> Similar:
    first = flat.count("\n", 0, start) + 1
    return Similar(first, first + flat.count("\n", start, max(start, end - 1)), only_white_space)


def _similar_line(wanted: str, flat: str) -> Similar | None:
    """By the longest of the lines, as it says most."""
    wanted_lines = lines_of(wanted)
    index = max(range(len(wanted_lines)), key=lambda number: len(wanted_lines[number].strip()))
    lines = lines_of(flat)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted_lines[index].strip()[:_LONGEST_COMPARED])
    best, best_line = _SIMILAR, 0
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        matcher.set_seq1(line.strip()[:_LONGEST_COMPARED])
        # each is an upper bound of the next, and much cheaper
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, best_line = matcher.ratio(), number
    if not best_line:
        return None
    first = max(1, best_line - index)
    return Similar(first, min(len(lines), first + len(wanted_lines) - 1), False)


def _ends(pattern: str, text: str, errors: int) -> list[int]:
    """For each number of errors up to `errors`: the positions, as bits, where a part with so many ends."""
    everywhere = (1 << (len(text) + 1)) - 1
    masks = _masks(text, set(pattern))
    rows = [everywhere] * (errors + 1)  # nothing of the pattern fits before every position
    for character in pattern:
        mask = masks[character]
        before = rows[0]
        rows[0] = (before << 1) & mask
        for count in range(1, errors + 1):
            here = rows[count]
            # the character fits; another is in its place; it is left out; one more is in the text
            rows[count] = (((here << 1) & mask) | (before << 1) | before | (rows[count - 1] << 1)) & everywhere
            before = here
    return rows


def _masks(text: str, characters: set[str]) -> dict[str, int]:
    """For each character the positions behind it, as bits."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return {
        character: int.from_bytes(np.packbits(codes == ord(character), bitorder="little").tobytes(), "little") << 1
        for character in characters
    }


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _starts(pattern: str, text: str, end: int, distance: int) -> list[int]:
    """Where the parts begin that end there and have this distance, the least of all: a table along its diagonal."""
    behind = pattern[::-1]
    before = text[max(0, end - len(pattern) - distance) : end][::-1]
    far = distance + 1
    row = {column: column for column in range(distance + 1) if column <= len(before)}
    for index, character in enumerate(behind, 1):
        above, row = row, {}
        for column in range(max(0, index - distance), min(len(before), index + distance) + 1):
            cost = min(above.get(column, far), row.get(column - 1, far)) + 1
            if column and before[column - 1] == character:
                cost = min(cost, above.get(column - 1, far))
            else:
                cost = min(cost, above.get(column - 1, far) + 1)
            row[column] = cost
    return [end - column for column, cost in row.items() if cost == distance]
