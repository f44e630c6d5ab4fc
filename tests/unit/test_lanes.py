"""Which request continues which conversation: told by what is asked, never by when."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from pytest_cua.cassette.lanes import Lane, Lanes, message_of, said_in
from pytest_cua.cassette.wire import Reply, Request


def asked(*messages: Any, **params: Any) -> Request:
    return Request("post", "/v1/messages", {"model": "m", **params}, list(messages))


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, *tools: str) -> dict[str, Any]:
    """Claude's words as a request repeats them."""
    content: list[Any] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": tool, "name": "t", "input": {}} for tool in tools]
    return {"role": "assistant", "content": content}


def marked(message: dict[str, Any]) -> dict[str, Any]:
    """The message with a cache breakpoint at its end."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}


def answer(lane: Lane, message: dict[str, Any], id: str = "msg_1") -> None:
    """The reply comes, as a recorder or a player tells it."""
    body = {"id": id, **message}
    lane.history.replied(body)
    lane.replied(Reply(200, body))


def answer_streamed(lane: Lane, text: str, id: str = "msg_1") -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": id, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": c}} for c in text),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    told = [[0, f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"] for event in events]
    lane.history.replied(None)
    lane.replied(Reply(200, events=told))


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


# ------------------------------------------------------------------ whole histories


def test_a_request_that_repeats_a_conversation_belongs_to_it(lanes: Lanes) -> None:
    lane, turn, new, is_new = lanes.place(asked(user("a")), "")
    assert (lane.number, turn, new, is_new) == (1, 1, (0, [user("a")]), True)
    answer(lane, said("b"))
    again, turn, new, is_new = lanes.place(asked(user("a"), said("b"), user("c")), "")
    assert again is lane
    assert (turn, is_new) == (2, False)
    assert new == (1, [{"role": "assistant", "content": "=reply"}, user("c")])
    answer(lane, said("d"))
    _, turn, new, _ = lanes.place(asked(user("a"), said("b"), user("c"), said("d"), user("e")), "")
    assert (turn, new) == (3, (3, [{"role": "assistant", "content": "=reply"}, user("e")]))


def test_what_was_not_answered_begins_a_conversation_each_time(lanes: Lanes) -> None:
    numbers = [lanes.place(asked(user("the same")), "")[0].number for _ in range(3)]
    assert numbers == [1, 2, 3]


def test_a_history_that_nobody_here_gave_begins_one(lanes: Lanes) -> None:
    lane = lanes.place(asked(user("a")), "")[0]
    answer(lane, said("b"))
    lane, turn, new, is_new = lanes.place(asked(user("z"), said("y"), user("x")), "")
    assert (lane.number, turn, is_new) == (2, 1, True)
    assert new == (0, [user("z"), said("y"), user("x")])


def test_examples_that_open_every_prompt_do_not_make_one_conversation_of_them(lanes: Lanes) -> None:
    """Shots before the question are in each request, and no reply of ours."""
    shots = (user("2+2"), said("4"))
    first = lanes.place(asked(*shots, user("3+3")), "")[0]
    answer(first, said("6"))
    second, turn, new, is_new = lanes.place(asked(*shots, user("5+5")), "")
    assert (second.number, turn, is_new) == (2, 1, True)
    assert new == (0, [*shots, user("5+5")])
    answer(second, said("10"))
    again, turn, _, _ = lanes.place(asked(*shots, user("3+3"), said("6"), user("sure?")), "")
    assert (again.number, turn) == (1, 2)
    again, turn, _, _ = lanes.place(asked(*shots, user("5+5"), said("10"), user("sure?")), "")
    assert (again.number, turn) == (2, 2)


def test_one_first_message_and_two_replies(lanes: Lanes) -> None:
    first = lanes.place(asked(user("hello")), "")[0]
    second = lanes.place(asked(user("hello")), "")[0]
    answer(second, said("I am two"))
    answer(first, said("I am one"))
    assert lanes.place(asked(user("hello"), said("I am two"), user("go on")), "")[0] is second
    assert lanes.place(asked(user("hello"), said("I am one"), user("go on")), "")[0] is first
    answer(first, said("one still"))
    answer(second, said("two still"))
    for lane, words in ((second, "two"), (first, "one")):
        history = (user("hello"), said(f"I am {words}"), user("go on"), said(f"{words} still"), user("end"))
        assert lanes.place(asked(*history), "")[0] is lane


def test_replies_that_say_nothing_are_told_apart_by_their_tool_calls(lanes: Lanes) -> None:
    made = [lanes.place(asked(user("look")), "")[0] for _ in range(2)]
    for lane, tool in zip(made, ("toolu_1", "toolu_2"), strict=True):
        answer(lane, said("", tool))
    for lane, tool in reversed([*zip(made, ("toolu_1", "toolu_2"), strict=True)]):
        result = user([{"type": "tool_result", "tool_use_id": tool, "content": "ok"}])
        assert lanes.place(asked(user("look"), said("", tool), result), "")[0] is lane


def test_one_first_message_and_one_reply_stay_two_conversations(lanes: Lanes) -> None:
    """Nothing tells them apart until they part, and then each goes its own way."""
    first = lanes.place(asked(user("hello")), "")[0]
    second = lanes.place(asked(user("hello")), "")[0]
    answer(first, said("yes?"))
    answer(second, said("yes?"))
    red, turn, _, _ = lanes.place(asked(user("hello"), said("yes?"), user("red")), "")
    blue, other_turn, _, _ = lanes.place(asked(user("hello"), said("yes?"), user("blue")), "")
    assert red is not blue
    assert (turn, other_turn) == (2, 2)
    answer(red, said("a colour"))
    answer(blue, said("a colour"))
    for lane, word in ((blue, "blue"), (red, "red")):
        history = (user("hello"), said("yes?"), user(word), said("a colour"), user("more"))
        assert lanes.place(asked(*history), "")[0] is lane


@pytest.mark.parametrize("content", ["b", [{"type": "text", "text": "b", "citations": None}]])
def test_a_reply_is_known_again_however_it_is_written(lanes: Lanes, content: Any) -> None:
    lane = lanes.place(asked(user("a")), "")[0]
    other = lanes.place(asked(user("a")), "")[0]
    answer(other, said("c"))
    answer(lane, said("b"))
    found = lanes.place(asked(user("a"), {"role": "assistant", "content": content}, user("d")), "")
    assert found[0] is lane
    assert said_in("b") == said_in([{"type": "text", "text": "b"}]) == ("b", ())


def test_what_was_streamed_is_known_again(lanes: Lanes) -> None:
    first = lanes.place(asked(user("a")), "")[0]
    second = lanes.place(asked(user("a")), "")[0]
    answer_streamed(first, "one", "msg_1")
    answer_streamed(second, "two", "msg_2")
    found, turn, new, _ = lanes.place(asked(user("a"), said("two"), user("b")), "")
    assert (found, turn) == (second, 2)
    assert new == (1, [said("two"), user("b")])  # a stream is no body that could be named
    assert lanes.place(asked(user("a"), said("one"), user("b")), "")[0] is first
    assert (first.last_message, second.last_message) == ("msg_1", "msg_2")


def test_a_streamed_tool_call_is_known_by_its_id() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1"}}
    events = [[0, f"data: {json.dumps(start)}\n\n"], [1, "event: ping\ndata: nothing\n\n"], [2, ": a comment\n\n"]]
    assert said_in(message_of(events)["content"]) == ("", ("toolu_1",))


# ------------------------------------------------------------------ edited histories


def test_an_edited_history_stays_in_its_conversation(lanes: Lanes) -> None:
    lane = lanes.place(asked(user("task")), "")[0]
    answer(lane, said("one"))
    lanes.place(asked(user("task"), said("one"), user("a long result")), "")
    answer(lane, said("two"))
    # a long result is cut out of the past, as the code's own agents do it to save tokens
    found, turn, new, is_new = lanes.place(
        asked(user("task"), said("one"), user("(cut)"), said("two"), user("next")), ""
    )
    assert (found, turn, is_new) == (lane, 3, False)
    assert new == (2, [user("(cut)"), {"role": "assistant", "content": "=reply"}, user("next")])


def test_an_edited_history_stays_in_the_conversation_it_is_most_like(lanes: Lanes) -> None:
    made = [lanes.place(asked(user("task")), "")[0] for _ in range(2)]
    for lane, word in zip(made, ("one", "two"), strict=True):
        answer(lane, said(word))
    for lane, word in zip(made, ("one", "two"), strict=True):
        assert lanes.place(asked(user("task"), said(word), user("result")), "")[0] is lane
        answer(lane, said(f"{word} more"))
    for lane, word in reversed([*zip(made, ("one", "two"), strict=True)]):
        history = (user("task"), said(word), user("(cut)"), said(f"{word} more"), user("next"))
        assert lanes.place(asked(*history), "")[0] is lane


def test_a_moved_cache_breakpoint_is_no_edit(lanes: Lanes) -> None:
    first = lanes.place(asked(marked(user("a"))), "")[0]
    second = lanes.place(asked(marked(user("a"))), "")[0]
    answer(first, said("one"))
    answer(second, said("two"))
    for lane, word in ((second, "two"), (first, "one")):
        plain = user([{"type": "text", "text": "a"}])
        found, turn, new, _ = lanes.place(asked(plain, said(word), marked(user("b"))), "")
        assert (found, turn) == (lane, 2)
        assert new[1][-1] == marked(user("b"))  # what is sent is kept as it is
    answer(first, said("three"))
    known = [user([{"type": "text", "text": "a"}]), said("one"), user([{"type": "text", "text": "b"}])]
    found, turn, new, _ = lanes.place(asked(*known, said("three"), marked(user("c"))), "")
    assert (found, turn) == (first, 3)
    assert new[0] == 2  # only what the breakpoint stood in is written again


# ------------------------------------------------------------------ threads held by the API


def test_a_thread_is_continued_by_the_id_of_its_last_reply(lanes: Lanes) -> None:
    first = lanes.place(asked(user("a"), thread={"type": "create"}), "")[0]
    second = lanes.place(asked(user("a"), thread={"type": "create"}), "")[0]
    answer(first, said("x"), "msg_1")
    answer_streamed(second, "x", "msg_2")
    for lane, id in ((second, "msg_2"), (first, "msg_1")):
        found, turn, new, is_new = lanes.place(
            asked(user("b"), thread={"type": "continue", "previous_message_id": id}), ""
        )
        assert (found, turn, is_new) == (lane, 2, False)
        assert new == (0, [user("b")])


def test_a_thread_that_began_elsewhere_begins_a_conversation(lanes: Lanes) -> None:
    lane = lanes.place(asked(user("a"), thread={"type": "create"}), "")[0]
    answer(lane, said("x"), "msg_1")
    thread = {"type": "continue", "previous_message_id": "msg_9"}
    _, turn, _, is_new = lanes.place(asked(user("b"), thread=thread), "")
    assert (turn, is_new) == (1, True)


def test_a_reply_that_was_continued_is_not_continued_twice(lanes: Lanes) -> None:
    """The API holds only the newest reply of a thread open."""
    lane = lanes.place(asked(user("a"), thread={"type": "create"}), "")[0]
    answer(lane, said("x"), "msg_1")
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    assert lanes.place(asked(user("b"), thread=thread), "")[0] is lane
    answer(lane, said("y"), "msg_2")
    assert lanes.place(asked(user("c"), thread=thread), "")[3]


# ------------------------------------------------------------------ attempts


def test_the_attempts_of_one_call_are_one_turn(lanes: Lanes) -> None:
    placed = lanes.place(asked(user("a")), "key-1")
    again = lanes.place(asked(user("a")), "key-1", again=True)
    assert placed[3] and not again[3]
    assert again[:3] == placed[:3]
    lanes.done("key-1")
    assert lanes.place(asked(user("a")), "key-1", again=True)[0] is not placed[0]


def test_a_call_underway_does_not_take_part_of_another(lanes: Lanes) -> None:
    first = lanes.place(asked(user("a")), "key-1")[0]
    second = lanes.place(asked(user("a")), "key-2")[0]
    assert first is not second
    assert lanes.place(asked(user("a")), "key-2", again=True)[0] is second
    assert lanes.place(asked(user("a")), "key-1", again=True)[0] is first


# ------------------------------------------------------------------ in any order


def talk(lanes: Lanes, order: list[str]) -> dict[str, set[int]]:
    """Several conversations with one opening, each of four turns, taken on in an order; the lanes each was put in."""
    turns: dict[str, int] = {}
    histories: dict[str, list[Any]] = {}
    found: dict[str, set[int]] = {}
    for who in order:
        turns[who] = turns.get(who, 0) + 1
        history = histories.setdefault(who, [])
        history.append(user("hello" if turns[who] == 1 else f"{turns[who]}?"))
        lane, turn, _, _ = lanes.place(asked(*history), "")
        assert turn == turns[who]
        found.setdefault(who, set()).add(lane.number)
        answer(lane, said(f"{who} {turns[who]}"))
        history.append(said(f"{who} {turns[who]}"))
    return found


def test_conversations_stay_apart_in_every_order_of_two() -> None:
    for order in set(itertools.permutations("aaabbb")):
        found = talk(Lanes(), list(order))
        assert all(len(numbers) == 1 for numbers in found.values()), order
        assert found["a"] != found["b"]


def test_conversations_stay_apart_in_many_orders_of_six() -> None:
    for seed in range(50):
        order = list("abcdef" * 4)
        random.Random(seed).shuffle(order)
        found = talk(Lanes(), order)
        assert sorted(map(len, found.values())) == [1] * 6, seed
        assert len(set.union(*found.values())) == 6
