"""What an edit does to a text: only the edited place changes, near places are those of the definition."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_cua.tools import edit_match, edit_view
from pytest_cua.tools.edit_files import Place
from pytest_cua.tools.edit_history import History, Undo, digest
from pytest_cua.tools.edit_text import (
    Document,
    EditFailed,
    common_prefix,
    count_lines,
    difference,
    flattened,
    lines_of,
    numbered,
)

LINE = st.text(alphabet="ab \té€😀", max_size=6)
LINE_END = st.sampled_from(["\n", "\r\n"])
#: Texts with mixed line ends, with and without a last one.
TEXT = st.builds(
    lambda lines, last: "".join(line + end for line, end in lines) + last,
    st.lists(st.tuples(LINE, LINE_END), max_size=8),
    LINE,
)
NEW = st.text(alphabet="ab\n\té", max_size=8)


# ---------------------------------------------------------------------- bytes and characters


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbfa")
@example(b"caf\xe9 \x80\x9d")
@example("ä".encode() + b"\xff")
def test_bytes_survive_whatever_they_are(data: bytes) -> None:
    try:
        document = Document.decode(data)
    except EditFailed:
        assert data[:2] in (b"\xff\xfe", b"\xfe\xff")
        return
    assert document.encode() == data


@given(TEXT, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_an_edit_keeps_encoding_and_byte_order_mark(text: str, encoding: str) -> None:
    edit = Document.decode(("X" + text).encode(encoding)).replaced(0, 1, "ü")
    assert edit.document.encode() == ("ü" + text).encode(encoding)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        ("Grüße".encode(), "utf-8"),
        ("Grüße".encode("latin-1"), "cp1252"),
        ("5 €".encode("cp1252"), "cp1252"),
        (b"\x81\xe9", "latin-1"),
        ("Grüße".encode() + b"\xff", "utf-8"),  # some of it is, so a new ü is written as the others are
        ("ab".encode("utf-16-le"), "utf-8"),
        (b"\xff\xfea\0", "utf-16-le"),
        (b"\xfe\xff\0a", "utf-16-be"),
    ],
)
def test_the_encoding_is_what_a_person_would_say(data: bytes, encoding: str) -> None:
    assert Document.decode(data).encoding == encoding


def test_a_character_that_the_encoding_lacks_is_refused() -> None:
    document = Document.decode("Grüße".encode("latin-1"))
    assert document.replaced(0, 5, "Öde").document.encode() == "Öde".encode("latin-1")
    with pytest.raises(EditFailed, match="Windows-1252, which has no '日'"):
        document.replaced(0, 5, "日")


# ---------------------------------------------------------------------- replacing


@given(TEXT, st.data(), NEW)
def test_only_the_place_changes(text: str, data: st.DataObject, new: str) -> None:
    flat = flattened(text)
    start = data.draw(st.integers(0, len(flat)))
    end = data.draw(st.integers(start, len(flat)))
    edit = Document(text).replaced(start, end, new)
    after = edit.document.text
    assert flattened(after) == flat[:start] + new + flat[end:]
    before_place, behind = _split(text, start)[0], _split(text, end)[1]
    assert after.startswith(before_place) and after.endswith(behind)
    assert len(after) >= len(before_place) + len(behind)


@given(TEXT, st.data(), NEW, LINE_END)
def test_new_lines_end_as_all_lines_do(text: str, data: st.DataObject, new: str, line_end: str) -> None:
    text = flattened(text).replace("\n", line_end)
    assume(line_end in text)
    flat = flattened(text)
    start = data.draw(st.integers(0, len(flat)))
    end = data.draw(st.integers(start, len(flat)))
    after = Document(text).replaced(start, end, new).document.text
    assert after == flattened(after).replace("\n", line_end)


def test_mixed_line_ends_stay_where_the_text_stays() -> None:
    document = Document("a\r\nb\nc\r\nd\n")
    start = document.flat.index("a")
    edit = document.replaced(start, document.flat.index("d"), "a\nX\nb\nc\n")
    assert edit.document.text == "a\r\nX\r\nb\nc\r\nd\n"  # b keeps its LF, c its CRLF
    after = Document("a\r\nb\nc").replaced(0, 5, "a\nb\nX").document
    assert after.text == "a\r\nb\nX"


def test_makefile_and_crlf_are_the_same_bytes_outside_the_edit() -> None:
    text = "all:\r\n\techo\t1\r\n\r\nold:\n\techo 2"
    start = text.replace("\r", "").index("1")
    assert Document(text).replaced(start, start + 1, "one").document.text == text.replace("1", "one")


def test_changed_lines_are_named() -> None:
    document = Document("1\n2\n3\n4\n5\n")
    for start, end, new, lines in [
        (2, 3, "x", (2, 2)),
        (2, 3, "x\ny", (2, 3)),
        (2, 6, "", (2, 2)),
        (0, 9, "x", (1, 1)),
    ]:
        edit = document.replaced(start, end, new)
        assert (edit.first, edit.last) == lines
        assert difference(document, edit.document).document == edit.document


def test_a_snippet_has_the_change_and_four_lines_around() -> None:
    document = Document("".join(f"{n}\n" for n in range(1, 101)))
    edit = document.replaced(document.flat.index("50\n"), document.flat.index("51\n"), "new\n")
    assert edit.snippet() == numbered([*map(str, range(46, 50)), "new", *map(str, range(51, 55))], 46)
    long = document.replaced(0, 0, "new\n" * 1000 + "z" * 10_000).snippet()
    assert len(long.splitlines()) == 25
    assert "[981 more lines]" in long
    assert "[... 9,501 more characters]" in long


# ---------------------------------------------------------------------- inserting


@given(TEXT, st.data(), st.text(alphabet="ab\n", min_size=1, max_size=6))
def test_inserted_lines_are_lines_and_nothing_else_moves(text: str, data: st.DataObject, new: str) -> None:
    before = lines_of(flattened(text))
    line = data.draw(st.integers(0, len(before)))
    edit = Document(text).inserted(line, new)
    flat = edit.document.flat
    assert lines_of(flat) == before[:line] + lines_of(new) + before[line:]
    assert lines_of(flat)[edit.first - 1 : edit.last] == lines_of(new)
    if line < len(before):  # what was there is there still, with its line ends and with or without a last one
        head = _split(text, len("".join(f"{each}\n" for each in before[:line])))[0]
        assert edit.document.text.startswith(head)
        assert edit.document.text.endswith(text[len(head) :])


@pytest.mark.parametrize(
    ("text", "line", "new", "after"),
    [
        ("a\nb\n", 2, "HELLO\n", "a\nb\nHELLO\n"),
        ("a\nb\n", 1, "HELLO\n", "a\nHELLO\nb\n"),
        ("a\nb\n", 1, "HELLO", "a\nHELLO\nb\n"),
        ("a\nb\n", 0, "0\n", "0\na\nb\n"),
        ("a\nb\n", 2, "HELLO", "a\nb\nHELLO\n"),
        ("a\nb", 2, "HELLO", "a\nb\nHELLO"),  # there was no line end at the end, and is none now
        ("a\nb", 2, "HELLO\n", "a\nb\nHELLO\n"),  # unless it is asked for
        ("", 0, "HELLO", "HELLO\n"),
        ("a\r\nb\r\n", 1, "x\ny", "a\r\nx\r\ny\r\nb\r\n"),
        ("a\r\nb\n", 1, "x", "a\r\nx\r\nb\n"),
        ("a\nb\r\n", 1, "x", "a\nx\nb\r\n"),
        ("a\n", 1, "\n", "a\n\n"),
    ],
)
def test_insert(text: str, line: int, new: str, after: str) -> None:
    assert Document(text).inserted(line, new).document.text == after


# ---------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n", 1), ("a\fb\x0bc\u2028d\x85e\rf", 1)]
)
def test_lines_are_counted_as_a_person_does(text: str, lines: int) -> None:
    assert count_lines(text) == lines == len(lines_of(text))


@given(st.text(alphabet="ab", max_size=12), st.text(alphabet="ab", max_size=12))
def test_common_prefix(a: str, b: str) -> None:
    length = common_prefix(a, b)
    assert a[:length] == b[:length]
    assert length in (len(a), len(b)) or a[length] != b[length]


@given(TEXT, st.integers(1, 9), st.none() | st.integers(1, 12), st.integers(1, 40), st.data())
def test_an_excerpt_is_the_same_however_the_text_comes(
    text: str, first: int, last: int | None, most: int, data: st.DataObject
) -> None:
    assume(last is None or last >= first)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = edit_view.excerpt(pieces, first, last, most)
    lines = text.split("\n")
    wanted = [line + "\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
    assert found.text == "".join(wanted[first - 1 : last])[:most]
    assert found.lines == count_lines(flattened(text))
    assert found.ends_open == (text != "" and not text.endswith("\n"))


@given(TEXT, st.integers(1, 120))
def test_a_view_stays_below_its_limit_and_says_where_to_go_on(text: str, most: int) -> None:
    place = Place("/home/cua/a", ("a",))
    lines = lines_of(flattened(text))
    shown = edit_view.render(place, edit_view.excerpt([text], 1, None, most + 1), None, most, "utf-8")
    body = [line for line in shown.split("\n")[1:] if not line.startswith("[")]
    assert len("\n".join(body)) <= max(most, 8)
    assert "\n".join(body) == numbered(lines[: len(body)], 1)[: len("\n".join(body))]
    whole = numbered(lines, 1)
    assert ("Cut after line" in shown) == (len(body) < len(lines))
    assert ("is cut" in shown) == (len(lines) > 0 and len(numbered(lines[:1], 1)) > most)
    if len(whole) <= most:
        assert "\n".join(body) == whole


# ---------------------------------------------------------------------- near places


@functools.cache
def levenshtein(a: str, b: str) -> int:
    """By its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        levenshtein(a[1:], b[1:]) + (a[0] != b[0]),
        levenshtein(a[1:], b) + 1,
        levenshtein(a, b[1:]) + 1,
    )


def by_definition(pattern: str, text: str, errors: int) -> edit_match.Near | None:
    """All parts of the text at the least distance."""
    spans = [(start, end) for start in range(len(text) + 1) for end in range(start, len(text) + 1)]
    distances = {span: levenshtein(pattern, text[slice(*span)]) for span in spans}
    least = min(distances.values())
    if least > errors:
        return None
    return edit_match.Near(least, sorted(span for span in spans if distances[span] == least))


@settings(max_examples=300)
@given(st.text(alphabet="abc", min_size=4, max_size=7), st.text(alphabet="abc\n", max_size=14), st.integers(0, 3))
@example("aaaa", "aaaaaaaa", 3)
@example("abcabc", "xabxcabcx", 3)
@example("abca", "", 3)
def test_near_places_are_those_of_the_definition(pattern: str, text: str, errors: int) -> None:
    assert edit_match.near(pattern, text, errors) == by_definition(pattern, text, errors)


@given(st.text(alphabet="ab😀\udc80", min_size=20, max_size=40), st.lists(st.integers(0, 19), max_size=3), st.data())
def test_up_to_three_changes_are_found(pattern: str, places: list[int], data: st.DataObject) -> None:
    text = pattern
    for place in places:
        text = text[:place] + data.draw(st.sampled_from(["", "X", f"X{text[place : place + 1]}"])) + text[place + 1 :]
    found = edit_match.near(pattern, f"({text})", 3)
    assert found is not None
    assert found.distance <= len(places)


def test_the_measured_mistakes_of_others_are_none_here() -> None:
    """The first match is not taken when a better one comes later, and nothing is taken for a match that is far away."""
    found = edit_match.near("def total(x):", "def totals(y):\n    pass\ndef total (x):\n", 3)
    assert found == edit_match.Near(1, [(24, 38)])
    assert edit_match.near("port = 8080, host = 'a'", "port = 9191, host = 'b'\n") is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [" " * 1_000_000, "ab" * 500_000, "the quick brown fox jumps over\n" * 32_000])
def test_near_places_in_a_megabyte_take_no_longer_for_bad_luck(text: str) -> None:
    found = edit_match.near(f"{text[:60]}XYZ{text[60:120]}", text, 3, 10)  # some 0.1 s
    assert found is not None
    assert found.distance == 3


# ---------------------------------------------------------------------- what is most like it


def test_other_white_space_is_seen() -> None:
    flat = "if x:\n\treturn  1\n\nelse:\n\treturn 2\n"
    assert edit_match.similar("if x:\n    return 1\n", flat) == edit_match.Similar(1, 2, True)


def test_the_most_similar_line_is_found_by_the_longest_that_was_given() -> None:
    flat = "a\nb\n{\n    total = price * amount\n}\nc\n"
    assert edit_match.similar("{\n    total = prize * amounts\n}\n", flat) == edit_match.Similar(3, 5, False)
    assert edit_match.similar("nothing of the kind", flat) is None
    assert edit_match.similar(" \n", flat) is None


def test_a_part_of_a_line_with_few_mistakes_is_seen() -> None:
    flat = "x\n" + "begin " * 50 + "total = price * amount; " + "end " * 50 + "\ny\n"
    assert edit_match.similar("total = prize * amount;", flat) == edit_match.Similar(2, 2, False)


@given(st.text(alphabet="ab", min_size=1, max_size=3), st.text(alphabet="ab", max_size=20))
def test_occurrences_may_overlap(pattern: str, text: str) -> None:
    assert edit_match.occurrences(pattern, text) == [n for n in range(len(text)) if text.startswith(pattern, n)]


# ---------------------------------------------------------------------- history


def test_history_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    history = History(tmp_path / "undo", per_file=3, most_bytes=2_000)
    for number in range(5):
        history.add(Undo("a", str(number).encode(), digest(b""), 0))
    for number in (4, 3, 2):
        assert (history.last("a") or pytest.fail()).before == str(number).encode()
        history.drop("a")
    assert history.last("a") is None
    history.add(Undo("a", None, digest(b"1"), 2))
    assert History(tmp_path / "undo").last("a") == Undo("a", None, digest(b"1"), 2)
    history.add(Undo("b", b"x" * 5_000, digest(b""), 0))
    assert history.last("a") is None
    assert (history.last("b") or pytest.fail()).before == b"x" * 5_000


def _split(text: str, position: int) -> tuple[str, str]:
    """A text around a position of its flat form."""
    head = 0
    for _ in range(position):
        head += 2 if text.startswith("\r\n", head) else 1
    return text[:head], text[head:]
