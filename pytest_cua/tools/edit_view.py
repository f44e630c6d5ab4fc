"""What is shown of a file: some of its lines, however large it is, and what it is when it holds no text."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pytest_cua.errors import BadArgument
from pytest_cua.tools.edit_files import MOST_BYTES, Place, read_all
from pytest_cua.tools.edit_text import Document, EditFailed, byte_order_mark, encoding_name, printable

#: Bytes of a file up to which it is read for a view; a file larger than MOST_BYTES is read piece by piece.
MOST_VIEWED: Final = 2_000_000_000
_PIECE: Final = 1 << 20
_HEAD: Final = 8192  # bytes in which a NUL says that a file is no text, as for git
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\1\0", "ICO"),
)
_BINARIES: Final = (
    (b"%PDF-", "a PDF document"),
    (b"PK\3\4", "a ZIP archive, as office documents are"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document"),
)


@dataclass
class Excerpt:
    """Some lines of a file.

    Args:
        first: The first of them, counted from 1.
        text: They themselves, with their ends, as far as there was room.
        lines: How many the file has.
        ends_open: Whether the file's last line has no line end.
    """

    first: int
    text: str
    lines: int
    ends_open: bool


@dataclass
class _Collector:
    """Takes the wanted lines out of the pieces of a text."""

    first: int
    last: int | None
    room: int
    kept: list[str] = field(default_factory=list)
    passed: int = 0  # line ends so far
    tail: str = ""

    def take(self, piece: str) -> None:
        ends = piece.count("\n")
        line = self.passed + 1  # in which the piece begins
        self.passed += ends
        self.tail = piece[-1:] or self.tail
        if self.room <= 0 or line + ends < self.first or (self.last is not None and line > self.last):
            return
        begin = _behind(piece, self.first - line)
        end = len(piece) if self.last is None else _behind(piece, self.last - line + 1)
        part = piece[begin : min(end, begin + self.room)]
        self.kept.append(part)
        self.room -= len(part)

    def excerpt(self) -> Excerpt:
        ends_open = self.tail not in ("", "\n")
        return Excerpt(self.first, "".join(self.kept), self.passed + ends_open, ends_open)


def excerpt(pieces: Iterable[str], first: int, last: int | None, most: int) -> Excerpt:
    """The lines from `first` to `last` of a text that comes in pieces, no more than `most` characters of them.

    Args:
        pieces: The text.
        first: Counted from 1.
        last: None for the end.
        most: Characters that are kept.
    """
    collector = _Collector(first, last, most)
    for piece in pieces:
        collector.take(piece)
    return collector.excerpt()


def render(place: Place, found: Excerpt, last: int | None, most: int, encoding: str) -> str:
    """An excerpt as Claude is shown it: what it is, then numbered lines.

    Args:
        place: The file.
        found: The lines, with one character more than there is room for when there are more.
        last: The line that was asked for; None for the end.
        most: Characters that are shown, line numbers included.
        encoding: Of the file.

    Raises:
        BadArgument: the file has no such lines.
    """
    if not found.lines:
        return f"{place.path} is empty."
    if found.first > found.lines:
        raise BadArgument(f"view_range begins with line {found.first:,}, and {place.path} has {_lines(found.lines)}.")
    wanted = min(found.lines, last or found.lines)
    shown, number, is_cut = _fitting(found, most)
    is_whole = found.first == 1 and wanted == found.lines
    which = "" if is_whole else f", lines {found.first:,} to {wanted:,}"
    text = f"{place.path} ({_lines(found.lines)}{_remarks(found, wanted, encoding)}){which}:\n{shown}"
    if is_cut:
        text += f"\n[Line {number:,} is cut, as a view has no more than {most:,} characters.]"
    if number < wanted:
        text += (
            f"\n[Cut after line {number:,}, as a view has no more than {most:,} characters: "
            f"view_range [{number + 1}, {wanted}] shows on.]"
        )
    return text


def pieces(descriptor: int, size: int) -> tuple[Iterator[str], str]:
    """The text of an open file, in pieces when it is large, and its encoding."""
    if size <= MOST_BYTES:
        document = Document.decode(read_all(descriptor, size))
        return iter([document.text]), document.encoding
    bom, encoding = byte_order_mark(os.pread(descriptor, 4, 0))
    os.lseek(descriptor, len(bom), os.SEEK_SET)
    decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
    return _decoded(descriptor, decoder), encoding or "utf-8"


def check_text(place: Place, head: bytes, size: int) -> None:
    """Refuse what is no text.

    Args:
        place: The file.
        head: Its first bytes.
        size: All of them, in bytes.

    Raises:
        EditFailed: it is a picture, or binary.
    """
    picture = next((name for magic, name in _PICTURES if head.startswith(magic)), "")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        picture = "WebP"
    if head.startswith(b"BM") and b"\0" in head:
        picture = "BMP"
    if picture:
        raise EditFailed(
            f"{place.path} is a picture ({picture}, {size:,} bytes), which the editor cannot show: open it in a "
            "program and look at the screen."
        )
    kind = next((name for magic, name in _BINARIES if head.startswith(magic)), "")
    if not kind and (byte_order_mark(head)[0] or b"\0" not in head[:_HEAD]):
        return
    raise EditFailed(f"{place.path} is no text: {kind or 'binary data'}, {size:,} bytes. Use bash for it.")


def head_of(descriptor: int) -> bytes:
    """The bytes that tell what a file is."""
    return os.pread(descriptor, _HEAD, 0)


def _decoded(descriptor: int, decoder: codecs.IncrementalDecoder) -> Iterator[str]:
    while piece := os.read(descriptor, _PIECE):
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _behind(piece: str, ends: int) -> int:
    """The place behind so many line ends; the end when there are fewer."""
    if ends <= 0:
        return 0
    parts = piece.split("\n", ends)
    return len(piece) if len(parts) <= ends else len(piece) - len(parts[-1])


def _fitting(found: Excerpt, most: int) -> tuple[str, int, bool]:
    """As many numbered lines as there is room for, the number of the last, and whether that one is cut."""
    lines = found.text.split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines.pop()
    shown: list[str] = []
    room = most
    for number, line in enumerate(lines, found.first):
        content = printable(line.removesuffix("\r"))
        text = f"{number:6}\t{content}"
        if shown and len(text) > room:
            return "\n".join(shown), number - 1, False
        if len(text) > room:
            return text[: max(room, 8)], number, True  # at least the number and a character
        shown.append(text)
        room -= len(text) + 1
    return "\n".join(shown), found.first + len(shown) - 1, False


def _remarks(found: Excerpt, wanted: int, encoding: str) -> str:
    ends, returns = found.text.count("\n"), found.text.count("\r\n")
    said = [] if encoding == "utf-8" else [encoding_name(encoding)]
    if returns:
        said.append("CRLF line ends" if returns == ends else "CRLF and LF line ends")
    if found.ends_open and wanted == found.lines:
        said.append("no line end after the last")
    return "".join(f", {remark}" for remark in said)


def _lines(number: int) -> str:
    return f"{number:,} line{'' if number == 1 else 's'}"
