"""What an edit does to a text: bytes to characters and back, line ends that stay as they are, numbered lines.

Nothing here touches a file. Positions and lines are those of the *flat* text, in which every line ends in LF; what is
written is the text itself, in which only the edited place is another.
"""

from __future__ import annotations

import bisect
import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pytest_cua.errors import BadArgument, CuaFailure

#: Lines that are shown before and after a change.
AROUND: Final = 4
_LONGEST_LINE: Final = 500  # characters of a line beside a change
_MOST_CHANGED: Final = 20  # lines of a change that are shown
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNPRINTABLE: Final = re.compile("[\0\ud800-\udfff]")


class EditFailed(CuaFailure):
    """The editor could not do what was asked, because of what the file is or holds; nothing was changed."""


@dataclass(frozen=True)
class Document:
    """A text file in characters.

    Args:
        text: Its characters; bytes that are no UTF-8 are lone surrogates (PEP 383).
        encoding: As Python calls it.
        bom: The byte order mark before them, or nothing.
    """

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> Document:
        """Read a file's bytes; `encode` gives the same bytes back.

        Raises:
            EditFailed: they begin as UTF-16 or UTF-32, and are damaged.
        """
        bom, encoding = byte_order_mark(data)
        body = data[len(bom) :]
        if not bom:
            encoding = _encoding_of(body)
        try:
            return cls(body.decode(encoding, _errors(encoding)), encoding, bom)
        except UnicodeDecodeError as error:
            raise EditFailed(
                f"The file begins as {encoding_name(encoding)}, and is none: {error.reason} at byte {error.start}."
            ) from None

    def encode(self) -> bytes:
        """The bytes of the file.

        Raises:
            EditFailed: the encoding has no such character.
        """
        try:
            return self.bom + self.text.encode(self.encoding, _errors(self.encoding))
        except UnicodeEncodeError as error:
            raise EditFailed(
                f"The file is {encoding_name(self.encoding)}, which has no {self.text[error.start]!r}. "
                "Use characters that it has, or convert the file first (iconv)."
            ) from None

    @cached_property
    def flat(self) -> str:
        """The text with LF at every line's end."""
        return flattened(self.text)

    @cached_property
    def _returns(self) -> list[int]:
        """Where, in the flat text, the line ends are that are CRLF."""
        return [found.start() - index for index, found in enumerate(re.finditer("\r\n", self.text))]

    def replaced(self, start: int, end: int, new: str) -> Edit:
        """The document with other text at a place.

        What the old and the new text have in common at their ends is not touched, whatever its line ends are.

        Args:
            start, end: The place in the flat text.
            new: What comes there, with LF; it gets the line ends of its place.

        Raises:
            EditFailed: the encoding has no such character.
        """
        line_end = self._line_end(start, end)
        old = self.flat[start:end]
        same = common_prefix(old, new)
        same_after = common_prefix(old[same:][::-1], new[same:][::-1])
        first, last = start + same, end - same_after
        middle = new[same : len(new) - same_after]
        text = self.text[: self._raw(first)] + middle.replace("\n", line_end) + self.text[self._raw(last) :]
        line = self.flat.count("\n", 0, first) + 1
        document = Document(text, self.encoding, self.bom)
        document.encode()
        return Edit(document, line, line + middle.count("\n"))

    def inserted(self, line: int, new: str) -> Edit:
        """The document with lines inserted after a line, 0 for the beginning.

        Lines are kept apart: where a line end is missing between the old and the new text, it is added. After the last
        line of a file that does not end in one, none is added behind.

        Raises:
            EditFailed: the encoding has no such character.
        """
        place = self._begin_of(line + 1)
        is_at_end = place == len(self.flat)
        ends_open = self.flat != "" and not self.flat.endswith("\n")
        before = "\n" if is_at_end and ends_open else ""
        after = "" if new.endswith("\n") or (is_at_end and ends_open) else "\n"
        edit = self.replaced(place, place, before + new + after)
        return Edit(edit.document, line + 1, line + count_lines(new + after))

    def _begin_of(self, line: int) -> int:
        """Where a line begins in the flat text; the end for one after the last."""
        place = -1
        for _ in range(line - 1):
            place = self.flat.find("\n", place + 1)
            if place < 0:
                return len(self.flat)
        return place + 1

    def _raw(self, position: int) -> int:
        return position + bisect.bisect_left(self._returns, position)

    def _line_end(self, start: int, end: int) -> str:
        """The line end at a place: the first in it, else that of its line, else of the line before."""
        found = self.flat.find("\n", start, end)
        if found < 0 and start == end and start:
            # between two lines it is the line before that tells, as one that goes on
            found = start - 1 if self.flat[start - 1] == "\n" else -1
        if found < 0:
            found = self.flat.find("\n", end)
        if found < 0:
            found = self.flat.rfind("\n", 0, start)
        if found < 0:
            return "\n"
        index = bisect.bisect_left(self._returns, found)
        return "\r\n" if index < len(self._returns) and self._returns[index] == found else "\n"


@dataclass(frozen=True)
class Edit:
    """A document after a change.

    Args:
        document: How it is now.
        first, last: The lines that changed, counted from 1; where lines only went, the one that is there now.
    """

    document: Document
    first: int
    last: int

    def snippet(self) -> str:
        """The changed lines, numbered, and a few around them."""
        lines = lines_of(self.document.flat)
        begin, end = max(1, self.first - AROUND), min(len(lines), self.last + AROUND)
        if begin > end:
            return ""
        if self.last - self.first < _MOST_CHANGED:
            return numbered(_short(lines[begin - 1 : end]), begin)
        half = _MOST_CHANGED // 2
        head = numbered(_short(lines[begin - 1 : self.first - 1 + half]), begin)
        tail = numbered(_short(lines[self.last - half : end]), self.last - half + 1)
        return f"{head}\n[{self.last - self.first + 1 - 2 * half:,} more lines]\n{tail}"


def difference(before: Document, after: Document) -> Edit:
    """What changed from one document to another, as one edit."""
    same = common_prefix(before.flat, after.flat)
    same_after = common_prefix(before.flat[same:][::-1], after.flat[same:][::-1])
    first = after.flat.count("\n", 0, same) + 1
    return Edit(after, first, first + after.flat.count("\n", same, len(after.flat) - same_after))


def flattened(text: str) -> str:
    """The text with LF for CRLF. A CR alone is a character, as for grep and sed."""
    return text.replace("\r\n", "\n")


def lines_of(flat: str) -> list[str]:
    """The lines of a text, without their ends; a line end at the end of the text begins no further line."""
    lines = flat.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def count_lines(flat: str) -> int:
    """How many lines a text has, as a person counts them."""
    return flat.count("\n") + (flat != "" and not flat.endswith("\n"))


def numbered(lines: Iterable[str], first: int) -> str:
    """Lines with their numbers, as `cat -n` writes them."""
    return "\n".join(f"{number:6}\t{printable(line)}" for number, line in enumerate(lines, first))


def printable(text: str) -> str:
    """The text with U+FFFD where it holds a byte that is no character, or a NUL, which JSON or its readers refuse."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def given_text(value: object, name: str) -> str:
    """A text that a caller gave, with LF at the lines' ends.

    Raises:
        BadArgument: it is no text, or holds half of a surrogate pair, which no file can hold.
    """
    if not isinstance(value, str):
        raise BadArgument(f"{name} must be text, not {type(value).__name__}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadArgument(f"{name} holds {value[error.start]!r}, half of a surrogate pair, at {error.start}.") from None
    return value


def byte_order_mark(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the beginning, and the encoding that it tells; both empty without one."""
    return next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), (b"", ""))


def encoding_name(encoding: str) -> str:
    """An encoding as people write it."""
    names = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}
    return names.get(encoding, encoding.upper())


def common_prefix(a: str, b: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # slices are compared in C, many times faster than characters one by one
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _encoding_of(body: bytes) -> str:
    """The encoding of bytes without a mark: UTF-8 as long as any character says so, else one of single bytes."""
    try:
        body.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        pass
    if re.search("[^\0-\x7f\udc80-\udcff]", body.decode("utf-8", "surrogateescape")):
        return "utf-8"  # some of it is; the rest survives as it is
    try:
        body.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"  # knows every byte


def _errors(encoding: str) -> str:
    if encoding == "utf-8":
        return "surrogateescape"
    return "surrogatepass" if encoding.startswith("utf") else "strict"


def _short(lines: Sequence[str]) -> list[str]:
    return [
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]} [... {len(line) - _LONGEST_LINE:,} more characters]"
        for line in lines
    ]
