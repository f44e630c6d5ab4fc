"""The text editor tool on a desktop: Claude's, in every version of the API, and by hand for scripted tests.

It runs outside the desktop's isolation and touches nothing but files below HOME, through `edit_files`. What it does to
a text is in `edit_text`, where it finds it in `edit_match`, what it shows in `edit_view`, and what it can take back in
`edit_history`.

Sources: the text editor page of platform.claude.com as of November 2026, and the parameter types of SDK 2.14
(`anthropic.types.beta.beta_tool_text_editor_*_param`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from anthropic.tools import ToolError

from pytest_cua.errors import BadArgument
from pytest_cua.tools import edit_match as match
from pytest_cua.tools import edit_view
from pytest_cua.tools.edit_files import Found, HomeFiles, Place
from pytest_cua.tools.edit_history import History, Undo, digest
from pytest_cua.tools.edit_text import (
    Document,
    Edit,
    EditFailed,
    count_lines,
    difference,
    flattened,
    given_text,
    lines_of,
    numbered,
    printable,
)

__all__ = ["EDITORS", "EditFailed", "Editor", "EditorVersion"]

if TYPE_CHECKING:
    from pytest_cua.desktop.desktop import Desktop

#: Characters of a view when no other number was given: about 50,000 tokens.
MOST_SHOWN: Final = 200_000
_MOST_NAMED: Final = 10  # lines that a message names
_MOST_NEAR: Final = 50  # places that are looked for, when one too many is enough to refuse
_MOST_QUOTED: Final = 2_000  # characters of a text that was replaced without being asked for exactly


@dataclass(frozen=True, kw_only=True)
class EditorVersion:
    """One version of the text editor tool.

    Attributes:
        name: How Claude calls it.
        undo: Whether it has `undo_edit`.
        max_characters: Whether its definition may limit a view.
        beta: The beta header that it needs; None for none.
    """

    name: str = "str_replace_based_edit_tool"
    undo: bool = False
    max_characters: bool = False
    beta: str | None = None

    @property
    def commands(self) -> Mapping[str, Mapping[str, bool]]:
        """Its commands, each with the parameters it takes and whether they must be given."""
        return {name: takes for name, takes in _COMMANDS.items() if self.undo or name != "undo_edit"}


EDITORS: Final[Mapping[str, EditorVersion]] = MappingProxyType(
    {
        "text_editor_20250728": EditorVersion(max_characters=True),
        "text_editor_20250429": EditorVersion(),
        "text_editor_20250124": EditorVersion(name="str_replace_editor", undo=True),
        "text_editor_20241022": EditorVersion(name="str_replace_editor", undo=True, beta="computer-use-2024-10-22"),
    }
)
#: `insert` takes `new_str` in the versions with undo, `insert_text` in the others. Documents and models mix them up
#: (anthropic-sdk-python #1155), so both are taken everywhere.
_COMMANDS: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "view": {"path": True, "view_range": False},
        "create": {"path": True, "file_text": True},
        "str_replace": {"path": True, "old_str": True, "new_str": False},
        "insert": {"path": True, "insert_line": True, "insert_text": False, "new_str": False},
        "undo_edit": {"path": True},
    }
)


class Editor:
    """The text editor tool on the files of a desktop's HOME.

    Paths are absolute, as programs of the desktop see them. Each method returns what Claude would read. A call that
    cannot be meant so raises `BadArgument`, one that the file does not allow `EditFailed`; nothing is changed then.
    Safe for threads, and for several editors of one desktop.

    Args:
        desktop: Where.
        version: Of the tool, one of `EDITORS`.
        max_characters: Characters that a view has at most, line numbers included; by default 200,000.
        fuzzy: Whether `str_replace` also takes a text that differs in up to three characters, when it is the only one
            so near.

    Raises:
        BadArgument: there is no such version, or it takes no `max_characters`.
    """

    def __init__(
        self,
        desktop: Desktop,
        *,
        version: str = "text_editor_20250728",
        max_characters: int | None = None,
        fuzzy: bool = False,
    ) -> None:
        if version not in EDITORS:
            raise BadArgument(f"version={version!r} is no text editor tool: there are {', '.join(EDITORS)}.")
        if max_characters is not None and not EDITORS[version].max_characters:
            raise BadArgument(f"{version} takes no max_characters.")
        if max_characters is not None and (type(max_characters) is not int or max_characters < 1):
            raise BadArgument(f"max_characters={max_characters!r} is no number of characters.")
        self.desktop = desktop
        self.version = version
        self._row = EDITORS[version]
        self._max_characters = max_characters
        self._fuzzy = fuzzy
        self._files = HomeFiles(desktop)
        self._history = History(self._files.directory / "undo")

    @property
    def name(self) -> str:
        """How Claude calls the tool."""
        return self._row.name

    @property
    def beta(self) -> str | None:
        """The beta header that the version needs; None for none."""
        return self._row.beta

    def to_dict(self) -> dict[str, Any]:
        """The tool's definition for a request."""
        limit = {} if self._max_characters is None else {"max_characters": self._max_characters}
        return {"type": self.version, "name": self.name, **limit}

    def close(self) -> None:
        """Do nothing: what can be undone stays with the desktop."""

    # ------------------------------------------------------------------ the commands

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """The lines of a file, numbered from 1, or what is in a directory, two levels deep.

        Args:
            path: Of the file or directory.
            view_range: First and last line; -1 for the end.

        Raises:
            BadArgument: the path or the range cannot be meant so.
            EditFailed: there is no such file, or it holds no text.
            DesktopDied: the desktop is gone.
        """
        self.desktop.check_alive()
        place = self._files.place(path)
        with self._files.opened(place) as (descriptor, status):
            if stat.S_ISDIR(status.st_mode):
                if view_range is not None:
                    raise BadArgument(f"{place.path} is a directory, of which view_range means nothing.")
                return _listed(place, self._files.listing(descriptor))
            first, last = _checked_range(view_range)
            edit_view.check_text(place, edit_view.head_of(descriptor), status.st_size)
            if status.st_size > edit_view.MOST_VIEWED:
                raise EditFailed(
                    f"{place.path} has {status.st_size:,} bytes, more than a view looks through. "
                    "Use bash (head, sed -n)."
                )
            most = self._max_characters or MOST_SHOWN
            pieces, encoding = edit_view.pieces(descriptor, status.st_size)
            found = edit_view.excerpt(pieces, first, last, most + 1)
        return edit_view.render(place, found, last, most, encoding)

    def create(self, path: str, file_text: str) -> str:
        """Write a file, with the directories above it; one that is there is replaced.

        Args:
            path: Of the file.
            file_text: All that it holds, written as UTF-8.

        Raises:
            BadArgument: the path or the text cannot be meant so.
            EditFailed: something is there that is no file, or that could not be brought back.
            DesktopDied: the desktop is gone.
        """
        data = given_text(file_text, "file_text").encode()
        with self._changing(path) as place:
            if str(path).endswith("/"):
                raise BadArgument(
                    f"{path} names a directory; create writes files, and makes the directories above them."
                )
            found = None
            made = 0
            if place.parts and self._files.status(place) is None:
                made = self._files.make_directories(place)
            else:
                found = self._files.read(place)
            self._write(place, data, found, made)
        lines = _plural(count_lines(flattened(file_text)), "line")
        if found is None:
            return f"{place.path} was created with {lines}."
        return (
            f"{place.path} was there already, with {len(found.data):,} bytes; it was replaced, and has {lines} now."
            + (_other_names(found))
        )

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that occurs once in a file.

        Args:
            path: Of the file.
            old_str: The text; LF in it stands for CRLF, too.
            new_str: What comes in its place; nothing deletes it.

        Raises:
            BadArgument: a text or the path cannot be meant so.
            EditFailed: the text is not there, or more than once; the file cannot be changed.
            DesktopDied: the desktop is gone.
        """
        old = flattened(given_text(old_str, "old_str"))
        new = flattened(given_text(new_str, "new_str"))
        if not old:
            raise BadArgument("old_str is empty. Give the text that is to be replaced; insert adds text at a line.")
        if old_str == new_str:
            raise BadArgument("old_str and new_str are the same: there is nothing to change.")
        if old == new:
            raise BadArgument(
                "old_str and new_str differ in their line ends alone, which the editor keeps as the file has them. "
                "Use bash (sed) to convert them."
            )
        with self._changing(path) as place:
            document, found = self._document(place)
            start, end, remark = self._found(place, document, old)
            if document.flat[start:end] == new:
                raise EditFailed(f"old_str does not occur in {place.path}, and new_str is in its place already.")
            edit = document.replaced(start, end, new)
            self._write(place, edit.document.encode(), found)
        return _done(place, edit, found) + remark

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert lines.

        Args:
            path: Of the file.
            insert_line: The line after which they come; 0 for the beginning.
            insert_text: The lines. A line end that is missing after the last one is added.

        Raises:
            BadArgument: the line, the text or the path cannot be meant so.
            EditFailed: the file cannot be changed.
            DesktopDied: the desktop is gone.
        """
        new = flattened(given_text(insert_text, "insert_text"))
        if not new:
            raise BadArgument('insert_text is empty. For an empty line write "\\n".')
        if type(insert_line) is not int:
            raise BadArgument(f"insert_line={insert_line!r} must be a whole number.")
        with self._changing(path) as place:
            document, found = self._document(place)
            lines = count_lines(document.flat)
            if not 0 <= insert_line <= lines:
                has = _plural(lines, "line")
                raise BadArgument(f"insert_line={insert_line} must be from 0 to {lines}, as {place.path} has {has}.")
            edit = document.inserted(insert_line, new)
            self._write(place, edit.document.encode(), found)
        return _done(place, edit, found)

    def undo_edit(self, path: str) -> str:
        """Take back the last change that an editor of this desktop, in whatever process, has made to a file.

        Args:
            path: Of the file.

        Raises:
            BadArgument: the path cannot be meant so.
            EditFailed: there is none to take back, or the file was changed since by another program.
            DesktopDied: the desktop is gone.
        """
        with self._changing(path) as place:
            undo = self._history.last(place.key)
            if undo is None:
                raise EditFailed(f"There is no change of {place.path} to take back.")
            found = None if self._files.status(place) is None else self._files.read(place)
            now = None if found is None else found.data
            if now == undo.before:
                self._history.drop(place.key)
                return f"{place.path} is as it was before its last change already; nothing was done."
            if found is None or digest(found.data) != undo.after:
                raise EditFailed(
                    f"{place.path} was {'changed' if found else 'removed'} by another program since the editor changed "
                    "it last. Taking that back would lose it; nothing was done."
                )
            if undo.before is None:
                self._files.remove(place, found, undo.made)
            else:
                self._files.write(place, undo.before, found)
            self._history.drop(place.key)
        return _undone(place, undo.before, found.data)

    def call(self, input: Mapping[str, Any]) -> str:
        """Answer a call of Claude's.

        Args:
            input: Of the tool_use block, as the version has it.

        Raises:
            ToolError: what Claude is to read.
            DesktopDied: the desktop is gone.
        """
        try:
            command, given = self._checked(input)
            result: str = getattr(self, command)(**given)
        except (BadArgument, EditFailed) as error:
            raise ToolError(printable(str(error))) from None
        return result

    # ------------------------------------------------------------------ inside

    def _checked(self, input: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The command of a call, and its parameters as the method takes them."""
        given = {name: value for name, value in input.items() if value is not None}
        command = given.pop("command", None)
        commands = self._row.commands
        if not isinstance(command, str) or command not in commands:
            raise BadArgument(f"command={command!r} is no command of {self.name}: it has {', '.join(commands)}.")
        takes = commands[command]
        for name in given:
            if name not in takes:
                raise BadArgument(f"{name} is no parameter of {command}, which takes {', '.join(takes)}.")
        if command == "insert" and "new_str" in given:
            text = given.pop("new_str")
            if given.setdefault("insert_text", text) != text:
                raise BadArgument(
                    "insert_text and new_str are two names of one parameter, and differ: give one of them."
                )
        needed = [name for name, is_needed in takes.items() if is_needed]
        if command == "insert":
            needed.append("insert_text")
        for name in needed:
            if name not in given:
                raise BadArgument(f"{command} needs the parameter {name}.")
        return command, given

    @contextmanager
    def _changing(self, path: str) -> Iterator[Place]:
        """While a file is changed: no other editor changes one."""
        self.desktop.check_alive()
        place = self._files.place(path)
        try:
            with self._files.locked():
                yield place
        except OSError as error:  # of the lock and the history; those of the file are told by name
            raise EditFailed(f"{place.path} was not changed: {error.strerror}.") from None

    def _document(self, place: Place) -> tuple[Document, Found]:
        found = self._files.read(place)
        edit_view.check_text(place, found.data, len(found.data))
        return Document.decode(found.data), found

    def _write(self, place: Place, data: bytes, found: Found | None, made: int = 0) -> None:
        """Write a file. That it can be undone is noted first: a kill in between leaves a note of nothing, no loss."""
        before = None if found is None else found.data
        self._history.add(Undo(place.key, before, digest(data), made))
        try:
            self._files.write(place, data, found)
        except EditFailed:
            self._history.drop(place.key)
            raise

    def _found(self, place: Place, document: Document, old: str) -> tuple[int, int, str]:
        """The one place of a text, and a remark if it is not exactly there."""
        places = match.occurrences(old, document.flat)
        if len(places) == 1:
            return places[0], places[0] + len(old), ""
        if places:
            where = _line_numbers(document.flat, places)
            times = f"{len(places)} times" if len(places) < 1000 else "a thousand times or more"
            raise EditFailed(
                f"old_str occurs {times} in {place.path}, beginning in {where}; nothing was changed. "
                "Give more of the text around the one that is meant."
            )
        near = self._near(document, old)
        if near is None:
            raise EditFailed(f"old_str does not occur in {place.path}; nothing was changed. {_nearest(document, old)}")
        if len(near.places) > 1:
            where = _line_numbers(document.flat, [start for start, _ in near.places])
            raise EditFailed(
                f"old_str does not occur in {place.path}, and what differs from it in "
                f"{_plural(near.distance, 'character')} is not unique: it begins in {where}. "
                f"Nothing was changed. {_nearest(document, old)}"
            )
        start, end = near.places[0]
        return start, end, _fuzzy_remark(document.flat[start:end], near.distance)

    def _near(self, document: Document, old: str) -> match.Near | None:
        is_tried = self._fuzzy and len(old) >= match.SHORTEST and len(old) * len(document.flat) <= match.MOST_WORK
        return match.near(old, document.flat, most=_MOST_NEAR) if is_tried else None


def _checked_range(view_range: Sequence[int] | None) -> tuple[int, int | None]:
    """First and last line, None for the end."""
    if view_range is None:
        return 1, None
    is_pair = isinstance(view_range, list | tuple) and len(view_range) == 2
    if not is_pair or not all(type(number) is int for number in view_range):
        raise BadArgument(f"view_range={view_range!r} must be two whole numbers, the first and the last line.")
    first, last = view_range
    if first < 0 or last < -1 or (last != -1 and last < first) or last == 0:
        raise BadArgument(
            f"view_range={list(view_range)} means no lines: they are counted from 1, the first is not after the last, "
            "and -1 as the last is the end of the file."
        )
    return max(first, 1), None if last == -1 else last


def _listed(place: Place, lines: Sequence[str]) -> str:
    if not lines:
        return f"{place.path} is an empty directory, or has hidden files alone."
    return "\n".join([f"{place.path}/ has, two levels deep and without hidden files:", *lines])


def _done(place: Place, edit: Edit, found: Found) -> str:
    snippet = edit.snippet()
    if not snippet:
        return f"{place.path} was changed, and is empty now.{_other_names(found)}"
    lines = f"line {edit.first:,}" if edit.first >= edit.last else f"lines {edit.first:,} to {edit.last:,}"
    return f"{place.path} was changed at {lines}, where it is now:\n{snippet}{_other_names(found)}"


def _other_names(found: Found) -> str:
    """Where a file has other names: they keep the old content, as the new one is another file."""
    others = found.status.st_nlink - 1
    if not others:
        return ""
    keep = "keep" if others > 1 else "keeps"
    return f"\n[The file had {_plural(others, 'other name')} (hard links), which {keep} the old content.]"


def _undone(place: Place, before: bytes | None, after: bytes) -> str:
    if before is None:
        return f"The last change of {place.path} was taken back: it had been created, and is gone again."
    text = f"The last change of {place.path} was taken back."
    try:
        edit_view.check_text(place, before, len(before))
        snippet = difference(Document.decode(after), Document.decode(before)).snippet()
    except EditFailed:  # it was no text, or is none again
        return text
    return f"{text} Now it is:\n{snippet}" if snippet else f"{text} It is empty now."


def _line_numbers(flat: str, places: Sequence[int]) -> str:
    """Lines by their numbers, each once."""
    numbers: list[int] = []
    line, here = 1, 0
    for place in places:
        line += flat.count("\n", here, place)
        here = place
        if numbers[-1:] != [line]:
            numbers.append(line)
    named = ", ".join(map(str, numbers[:_MOST_NAMED]))
    more = f" and {_plural(len(numbers) - _MOST_NAMED, 'more line')}" if len(numbers) > _MOST_NAMED else ""
    return f"line {named}" if len(numbers) == 1 else f"lines {named}{more}"


def _nearest(document: Document, old: str) -> str:
    """What could be meant by a text that is not there."""
    if "\N{REPLACEMENT CHARACTER}" in old and "\N{REPLACEMENT CHARACTER}" not in document.flat:
        return "It holds U+FFFD, which stands for bytes that are no text: leave them out of old_str."
    found = match.similar(old, document.flat)
    if found is None:
        return "Nothing in the file is like it. View the file, and copy the text from there."
    lines = lines_of(document.flat)[found.first - 1 : min(found.last, found.first + _MOST_NAMED - 1)]
    what = "The same words with other white space are" if found.only_white_space else "Most like it is what is"
    return f"{what} here:\n{numbered((line[:500] for line in lines), found.first)}"


def _fuzzy_remark(replaced: str, distance: int) -> str:
    quoted = replaced[:_MOST_QUOTED] + f" [... {len(replaced) - _MOST_QUOTED:,} more]" * (len(replaced) > _MOST_QUOTED)
    return (
        f"\n[old_str was not there exactly. What was replaced differs from it in {_plural(distance, 'character')}, "
        f"and is the only text so near:]\n{printable(quoted)}"
    )


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
