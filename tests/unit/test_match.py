"""When a request counts as the recorded one, and what is said when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cua.cassette.match import (
    Difference,
    Normalize,
    explain,
    first_difference,
    fits,
    request_view,
    word_diff,
)

quick = settings(max_examples=60, deadline=None)
NORMAL = Normalize()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


# ------------------------------------------------------------------ what differs from run to run

SAME = [
    ("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7", "id <id>"),
    ("toolu_01A09q90qw90lq917835lq9", "toolu_017pGRXkz9", "<id>"),
    ("see msg_013Zva2CMHLNnjNjJKqJ2EF", "see msg_scripted000002", "see <id>"),
    ("on 2026-11-30", "on 2027-01-02", "on <date>"),
    ("at 2026-11-30T23:59:01.123456+00:00.", "at 2027-01-02 04:05:06Z.", "at <date>."),
    ("at 2026-11-30T23:59", "at 2026-11-30", "at <date>"),
    ("Monday, 30 November", "Tue, 1 Dec", "<date>"),
    ("on Nov 30, 2026", "on December 1, 2027", "on <date>"),
    ("Mon Nov 30 23:59:01 UTC 2026", "Tue Dec 1 00:00:12 UTC 2026", "<date>"),
    ("30.11.2026 or 30/11/2026", "1.12.2026 or 1/12/2026", "<date> or <date>"),
    ("it is 23:59:01", "it is 0:03", "it is <time>"),
    ("at 3:05 pm sharp", "at 11:59 AM sharp", "at <time> sharp"),
    ("/tmp/pytest-of-ada/pytest-12/test_it0/a.txt", "/tmp/pytest-of-bob/pytest-7/test_it0/a.txt", "<tmp>/a.txt"),
    ("'/tmp/tmpab12cd' is", "'/tmp/tmpzz98yx' is", "'<tmp>' is"),
    ("/private/var/tmp/x/log", "/tmp/other/log", "<tmp>/log"),
    ("http://127.0.0.1:40123/a", "http://127.0.0.1:5000/a", "http://127.0.0.1:<port>/a"),
    ("localhost:8080", "localhost:45001", "localhost:<port>"),
    ("0.0.0.0:80 at 10:30", "0.0.0.0:12345 at 9:05", "0.0.0.0:<port> at <time>"),
    ("[::1]:80", "[::1]:44321", "[::1]:<port>"),
    ("pid 4711 ended", "pid 31 ended", "pid <pid> ended"),
    ("process id: 12", "process id: 3456", "process id: <pid>"),
    ("Started server process [12]", "Started server process [345]", "Started server process [<pid>]"),
    ("process 12 exited", "process 345 exited", "process <pid> exited"),
    ("killed process 12.", "killed process 345.", "killed process <pid>."),
]


@pytest.mark.parametrize(("first", "second", "mark"), SAME)
def test_what_changes_from_run_to_run_is_taken_out(first: str, second: str, mark: str) -> None:
    assert NORMAL(first) == NORMAL(second) == mark
    assert first_difference({"t": first}, {"t": second}, normalize=NORMAL) is None
    assert first_difference({"t": first}, {"t": second}) is not None  # only when it is asked for


APART = [
    ("buy 3 apples", "buy 4 apples"),
    ("version 1.2.3", "version 1.2.4"),
    ("price 12.50", "price 13.50"),
    ("/home/ada/a.txt", "/home/bob/a.txt"),
    ("/tmp/one/a.txt", "/tmp/one/b.txt"),
    ("api.example.com:8080", "api.example.com:9090"),
    ("127.0.0.1:80 is up", "localhost:80 is up"),
    ("may I ask", "might I ask"),
    ("ratio 3:1", "ratio 4:1"),
    ("2 March", "two in March"),
    ("scale 1:100", "scale 1:200"),
    ("10.0.0.5:8080", "10.0.0.5:9090"),
    ("the process 12", "the method 12"),
    ("process 12 orders", "process 13 orders"),
    ("please process 40 invoices", "please process 41 invoices"),
    ("May", "June"),
    ("1/2 cup", "3/4 cup"),
    ("msg_1", "msg_2"),  # too short for an id: a name of somebody's own
]


@pytest.mark.parametrize(("first", "second"), APART)
def test_everything_else_is_a_difference(first: str, second: str) -> None:
    assert first_difference({"t": first}, {"t": second}, normalize=NORMAL) is not None


@quick
@given(st.text())
def test_what_was_taken_out_once_stays_as_it_is(text: str) -> None:
    assert NORMAL(NORMAL(text)) == NORMAL(text)


def test_the_project_s_own_part_runs_first() -> None:
    normalize = Normalize(lambda text: text.replace("order 17", "2026-01-01"))
    assert normalize("order 17 of 2026-05-05") == "<date> of <date>"


def test_a_redacted_secret_fits_any_other() -> None:
    assert fits("log in with [redacted SHOP_TOKEN] now", "log in with correct horse\nbattery now")
    assert not fits("log in with [redacted SHOP_TOKEN] now", "log in with x then")
    assert not fits("log in with [redacted SHOP_TOKEN]", "log in with ")
    assert not fits("log in", "log in with x")
    both = {"a": "k [redacted A] 2026-01-01"}, {"a": "k v 2026-02-02"}
    assert first_difference(*both, normalize=NORMAL) is None
    assert first_difference(*both) is not None
    assert not fits("(.*)[redacted A]", "anything x")  # what stands around it is no pattern


# ------------------------------------------------------------------ sentences are compared as they are


@pytest.mark.parametrize("where", [0, 1])
def test_a_sentence_of_a_step_is_compared_as_it_is(where: int) -> None:
    def request(text: str) -> Any:
        blocks: list[Any] = [{"type": "text", "text": "before"}] * where + [{"type": "text", "text": text}]
        return request_view({"model": "m"}, 0, [{"role": "user", "content": blocks}])

    then, now = request("book 2026-01-01"), request("book 2026-02-02")
    found = first_difference(then, now, normalize=NORMAL, strict=True)
    assert found is not None
    assert found.path == f"messages[0].content[{where}].text"
    assert first_difference(then, now, normalize=NORMAL) is None  # the code under test may well say the date


def test_only_sentences_are_strict() -> None:
    def request(date: str) -> Any:
        messages = [{"role": "user", "content": "go"}, {"role": "user", "content": f"it is {date}"}]
        return request_view({"model": "m", "system": f"today is {date}"}, 0, messages)

    assert first_difference(request("2026-01-01"), request("2026-02-02"), normalize=NORMAL, strict=True) is None


def test_a_secret_in_a_sentence_may_be_another_here() -> None:
    then = request_view({}, 0, [{"role": "user", "content": "log in with [redacted SHOP_TOKEN]"}])
    now = request_view({}, 0, [{"role": "user", "content": "log in with correct-horse"}])
    assert first_difference(then, now, normalize=NORMAL, strict=True) is None


# ------------------------------------------------------------------ what is compared


@pytest.mark.parametrize(
    ("recorded", "now", "path", "shown"),
    [
        ({"a": 1}, {"a": 2}, "a", ("1", "2")),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "a[1].b", ("'x'", "'y'")),
        ({"a": 1}, {}, "a", ("1", "(nothing)")),
        ({}, {"a": None}, "a", ("(nothing)", "None")),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]", ("(nothing)", "2")),
        ({"a": "1"}, {"a": 1}, "a", ("'1'", "1")),
        ({"a": {}}, {"a": []}, "a", ("{}", "[]")),
        (1, 2, "", ("1", "2")),
    ],
)
def test_the_first_difference_has_a_path_and_both_values(
    recorded: Any, now: Any, path: str, shown: tuple[str, str]
) -> None:
    found = first_difference(recorded, now, normalize=NORMAL)
    assert found is not None
    assert (found.path, found.recorded, found.now) == (path, *shown)


def test_the_first_difference_is_the_first_in_the_recorded_order() -> None:
    found = first_difference({"z": 1, "a": 1}, {"a": 2, "z": 2, "b": 1})
    assert found is not None
    assert found.path == "z"


def test_long_texts_are_shown_where_they_part() -> None:
    found = first_difference({"t": "a" * 500 + "X" + "b" * 500}, {"t": "a" * 500 + "Y" + "b" * 500})
    assert found is not None
    for text, letter in ((found.recorded, "X"), (found.now, "Y")):
        assert letter in text
        assert text.startswith("…")
        assert len(text) < 130


@quick
@given(json_values)
def test_nothing_differs_from_itself(value: Any) -> None:
    again = json.loads(json.dumps(value))
    assert first_difference(value, again) is None
    assert first_difference(value, again, normalize=NORMAL, strict=True) is None


@quick
@given(json_values, json_values)
def test_what_differs_has_a_place(first: Any, second: Any) -> None:
    found = first_difference(first, second)
    assert (found is None) == (first == second)
    if found is not None:
        assert str(found)


def test_what_the_harness_does_not_answer_for_is_not_compared() -> None:
    def view(text: str, picture: str, said: str, mark: dict[str, Any] | None) -> Any:
        result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]}
        words: dict[str, Any] = {"type": "text", "text": "x"}
        content = [result, {"type": "image", "screen": picture}, {**words, **({"cache_control": mark} if mark else {})}]
        return request_view(
            {"model": "m"}, 0, [{"role": "assistant", "content": said}, {"role": "user", "content": content}]
        )

    assert view("a", "k1", "hi", None) == view("b", "k2", "ho", {"type": "ephemeral"})
    other = request_view(
        {"model": "m"}, 0, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u"}]}]
    )
    assert first_difference(view("a", "k", "hi", None), other)


def test_what_the_harness_answers_for_is() -> None:
    def result(**more: Any) -> Any:
        return request_view({}, 0, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", **more}]}])

    assert first_difference(result(), result(toolset_name="computer"))
    assert first_difference(result(), request_view({}, 0, [{"role": "user", "content": "t"}]))
    assert first_difference(request_view({"system": "a"}, 0, []), request_view({"system": "b"}, 0, []))
    assert first_difference(request_view({"tools": [{"name": "a"}]}, 0, []), request_view({"tools": []}, 0, []))
    assert first_difference(request_view({}, 0, [{"role": "user"}]), request_view({}, 0, [{"role": "assistant"}]))


def test_a_text_is_the_same_as_its_one_block() -> None:
    block = request_view({}, 0, [{"role": "user", "content": [{"type": "text", "text": "a"}]}])
    assert request_view({}, 0, [{"role": "user", "content": "a"}]) == block


def test_messages_are_counted_from_the_beginning_of_the_conversation() -> None:
    found = first_difference(
        request_view({}, 4, [{"role": "user", "content": "a"}]), request_view({}, 4, [{"role": "user", "content": "b"}])
    )
    assert found is not None
    assert found.path == "messages[4].content[0].text"
    assert first_difference(request_view({}, 2, []), request_view({}, 1, []))  # another part of the past was repeated


# ------------------------------------------------------------------ the likely reason


def difference(path: str, recorded: Any, now: Any) -> Difference:
    return Difference(path, repr(recorded), repr(now), (recorded, now))


@pytest.mark.parametrize(
    ("path", "is_step", "reason"),
    [
        ("system[0].text", True, "the fixed prompt of pytest-cua changed"),
        ("system", False, "the system prompt was edited"),
        ("tools[1].input_schema.properties.a", True, "a tool or its schema changed"),
        ("model", True, "another model is chosen than the one that was recorded"),
        ("request", False, "the code under test asks something else first, or in another order"),
        ("messages[0].content[0].text", True, "a sentence was edited, or a step before this one"),
        ("messages[0].content[0].text", False, "the prompt was edited"),
        ("messages[2].content[0].tool_use_id", True, "the conversation took another way"),
        ("max_tokens", False, "the parameter max_tokens of the request was changed"),
        ("output_config.effort", True, "the parameter output_config of the request was changed"),
    ],
)
def test_the_likely_reason(path: str, is_step: bool, reason: str) -> None:
    assert explain(difference(path, "one", "other"), is_step=is_step).startswith(reason)


def test_more_or_fewer_messages_are_called_so() -> None:
    found = first_difference({"messages": [1]}, {"messages": [1, 2]})
    assert found is not None
    assert explain(found, is_step=False) == "the conversation has more or fewer messages than were recorded"


@pytest.mark.parametrize(
    ("recorded", "now", "kind"),
    [
        ("book 2026-01-01", "book 2026-02-02", "a date"),
        ("open /tmp/tmpaa11", "open /tmp/tmpbb22", "a temporary path"),
        ("go to localhost:1234", "go to localhost:4321", "a port"),
        ("at 10:01", "at 11:02", "a time"),
        ("kill pid 12", "kill pid 13", "a process number"),
        ("get msg_abcdef1", "get msg_abcdef2", "an id"),
        ("pid 12 at 10:01", "pid 13 at 10:02", "what changes from run to run"),
    ],
)
def test_a_sentence_with_what_changes_is_told_to_take_it_as_a_parameter(recorded: str, now: str, kind: str) -> None:
    found = explain(difference("messages[0].content[0].text", recorded, now), is_step=True)
    assert found == f"the two differ only in {kind}, which changes from run to run: give it in params= as {{name}}"


def test_versions_are_told_where_they_may_be_the_reason() -> None:
    versions = {"recorded_by": "pytest-cua 1, anthropic 1", "runs": "pytest-cua 2, anthropic 2"}
    told = "; recorded with pytest-cua 1, anthropic 1, running with pytest-cua 2, anthropic 2"
    for path in ("system", "tools[0]", "thinking.type"):
        assert explain(difference(path, 1, 2), is_step=True, **versions).endswith(told)
        assert told not in explain(difference(path, 1, 2), is_step=True, recorded_by="a", runs="a")
    assert told not in explain(difference("messages[0].content[0].text", "a", "b"), is_step=True, **versions)


# ------------------------------------------------------------------ word by word


def test_words_that_went_and_came_are_shown_with_a_few_around_them() -> None:
    first = "one two three four five six seven eight nine ten eleven twelve"
    assert word_diff(first, first.replace("six", "SIX")) == "two three four five [-six-]{+SIX+} seven eight nine ten"
    assert word_diff("a b", "a b") == ""
    assert word_diff("a", "a b") == "a{+ b+}"
    assert word_diff("a\nb c", "a c") == "a[- b-] c"


def test_far_changes_are_apart_and_not_too_many() -> None:
    words = [f"w{number}" for number in range(400)]
    other = [f"X{at}" if at % 40 == 20 else word for at, word in enumerate(words)]
    shown = word_diff(" ".join(words), " ".join(other))
    assert shown.count(" … ") == 5
    assert "[-w20-]{+X20+}" in shown
    assert "w40 " not in shown


@quick
@given(st.text("ab \n", max_size=60), st.text("ab \n", max_size=60))
def test_a_word_diff_never_fails(first: str, second: str) -> None:
    shown = word_diff(first, second)
    assert "\n" not in shown
    assert bool(shown.strip()) or first.split() == second.split()


def test_long_texts_are_shown_with_their_words_and_short_ones_are_not() -> None:
    long = "a fairly long sentence that says what is to be done, word by word, to its end"
    found = first_difference({"t": long}, {"t": long.replace("done", "left")})
    assert found is not None
    assert "words:" in str(found)
    assert "[-done,-]{+left,+}" in str(found)
    found = first_difference({"t": "short"}, {"t": "brief"})
    assert str(found) == "t\n  recorded: 'short'\n  now:      'brief'"
