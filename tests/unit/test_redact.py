"""What a Secret is, every form in which one is found, and that nothing else is taken for one."""

from __future__ import annotations

import base64
import copy
import html
import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from PIL import Image

from pytest_cua import BadArgument, Secret, SetupError, screens, secrets
from pytest_cua.cassette.redact import Hit, environment_secrets, redact, redact_bytes, redact_text, restore, scan
from pytest_cua.cassette.redact import scan_folder as scanned

VALUE = 'q+T "ök"/en=998877&<x>'
KNOWN = {VALUE: "SHOP_PASSWORD"}


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """A Secret is known for as long as its process lives: those of these tests must not hide words in others."""
    made, variables = dict(secrets._made), set(secrets._variables)
    yield
    secrets._made.clear()
    secrets._made.update(made)
    secrets._variables.clear()
    secrets._variables.update(variables)


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# ------------------------------------------------------------------ Secret


def test_a_secret_never_shows_its_value() -> None:
    secret = Secret("hunter2-hunter2", name="SHOP_PASSWORD")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>30}", "%s" % secret, f"{[secret]}", f"{secret!a}"]  # noqa: UP031
    assert "hunter2" not in " ".join(shown)
    assert str(secret) == "[secret SHOP_PASSWORD]"
    assert secret.value == "hunter2-hunter2"


def test_a_secret_is_copied_as_itself_and_never_pickled() -> None:
    secret = Secret("hunter2-hunter2")
    assert copy.deepcopy([secret])[0] is secret
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)


@pytest.mark.parametrize("value", ["", "abc", "  ab  ", 12345678, None])
def test_a_value_that_can_be_no_secret(value: object) -> None:
    with pytest.raises(BadArgument) as caught:
        Secret(value, name="PIN")  # type: ignore[arg-type]
    assert "PIN" in str(caught.value)
    assert "abc" not in str(caught.value) and "12345678" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "", "x]"])
def test_a_name_that_would_not_be_found_again(name: str) -> None:
    with pytest.raises(BadArgument, match="no name for a Secret"):
        Secret("hunter2-hunter2", name=name)


def test_a_variable_is_read_when_the_value_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_LOGIN", raising=False)
    secret = Secret.from_env("SHOP_LOGIN")
    with pytest.raises(SetupError) as caught:
        _ = secret.value
    assert "SHOP_LOGIN" in caught.value.message
    assert caught.value.hints == ("export SHOP_LOGIN=...",)
    monkeypatch.setenv("SHOP_LOGIN", "anna-of-the-shop")
    assert secret.value == "anna-of-the-shop"
    monkeypatch.setenv("SHOP_LOGIN", "x")
    with pytest.raises(BadArgument, match="SHOP_LOGIN: this value has 1 characters"):
        _ = secret.value


def test_a_secret_takes_the_name_of_its_parameter_unless_it_has_one() -> None:
    assert Secret("hunter2-hunter2").named("password").name == "password"
    assert Secret("hunter2-hunter3", name="PASS").named("password").name == "PASS"


# ------------------------------------------------------------------ what is known


def test_what_becomes_a_secret_later_counts_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    known = environment_secrets()
    text = "made-in-the-middle set-in-the-middle"
    assert redact_text(text, known) == text
    Secret("made-in-the-middle", name="made")
    monkeypatch.setenv("LATE_TOKEN", "set-in-the-middle")
    assert redact_text(text, known) == "[redacted made] [redacted LATE_TOKEN]"
    monkeypatch.delenv("LATE_TOKEN")
    assert redact({"a": [text]}, known) == {"a": ["[redacted made] [redacted LATE_TOKEN]"]}
    assert restore("[redacted made] [redacted LATE_TOKEN]", known) == text


def test_a_variable_that_a_secret_was_taken_from_is_secret_whatever_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_LOGIN", "anna-of-the-shop")
    assert redact_text("anna-of-the-shop", environment_secrets()) == "anna-of-the-shop"
    Secret.from_env("SHOP_LOGIN")
    assert redact_text("anna-of-the-shop", environment_secrets()) == "[redacted SHOP_LOGIN]"


def test_of_two_secrets_of_one_name_the_newest_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    known = environment_secrets()
    Secret("the-first-one", name="password")
    Secret("the-second-one", name="password")
    assert restore("[redacted password]", known) == "the-second-one"
    Secret("the-first-one", name="password")
    assert restore("[redacted password]", known) == "the-first-one"
    assert redact_text("the-first-one the-second-one", known) == "[redacted password] [redacted password]"


def test_a_word_that_every_program_shows_stays_in_texts() -> None:
    Secret("password", name="login")
    assert redact_text('{"password": "{password}"}', environment_secrets()) == '{"password": "{password}"}'
    assert secrets.split("my password\n") == [("my ", False), ("password", True), ("\n", False)]


# ------------------------------------------------------------------ forms

AROUND = [(before, after) for before in ("", "x", "xy", "xyz") for after in ("", "z", "yz")]
FORMS = {
    "as is": [f"a{VALUE}b"],
    "URL": [
        f"?p={quote(VALUE, safe='')}&",
        f"/{quote(VALUE)}/",
        f"p={quote_plus(VALUE)}",
        quote(VALUE, safe="").replace("%2B", "%2b").replace("%C3%B6", "%c3%b6").lower().replace("q%2bt", "q%2bT"),
    ],
    "JSON": [
        json.dumps(f"a{VALUE}"),
        json.dumps(f"a{VALUE}", ensure_ascii=False),
        json.dumps({"inner": json.dumps({"p": VALUE})}),
    ],
    "HTML": [f'<input value="{html.escape(VALUE)}">', html.escape(VALUE, quote=False)],
    "base64": [
        *(b64(f"{before}{VALUE}{after}".encode()) for before, after in AROUND),
        *(base64.urlsafe_b64encode(f"{before}{VALUE}{after}".encode()).decode() for before, after in AROUND),
    ],
    "hex": [VALUE.encode().hex(), f"0x{VALUE.encode().hex().upper()}"],
}


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_is_taken_out_and_found(kind: str) -> None:
    for text in FORMS[kind]:
        redacted = redact_text(text, KNOWN)
        assert "[redacted SHOP_PASSWORD]" in redacted
        assert "998877" not in redacted
        hits = scan(f"first line\n{text}\n".encode(), KNOWN)
        assert [(hit.line, hit.name, hit.form) for hit in hits] == [(2, "SHOP_PASSWORD", kind)], text
        assert scan(redacted.encode(), KNOWN) == []


@pytest.mark.parametrize("offset", range(3))
def test_each_alignment_of_base64(offset: int) -> None:
    """Whatever stands around it, all characters that tell of the secret alone are found."""
    source = random.Random(offset)
    for _ in range(200):
        around = source.randbytes(offset), source.randbytes(source.randrange(6))
        assert [hit.form for hit in scan(b64(VALUE.encode().join(around)).encode(), KNOWN)] == ["base64"]


def test_base64_that_is_wrapped_is_found_across_lines() -> None:
    encoded = base64.encodebytes(b"x" * 50 + VALUE.encode() + b"y" * 50).decode()
    text = "body: !!binary |\n" + "".join(f"    {line}\n" for line in encoded.splitlines())
    assert [(hit.form, hit.line) for hit in scan(text.encode(), KNOWN)] == [("base64", 2)]


def test_in_a_file_that_is_no_text(tmp_path: Path) -> None:
    head = b"\x00\xff\xfe\x89"
    for form, raw in {
        "as is": VALUE.encode(),
        "UTF-16": VALUE.encode("utf-16-le"),
        "base64": b64(VALUE.encode()).encode(),
        "URL": quote(VALUE, safe="").encode(),
    }.items():
        data = head + raw + b"\x00\xff"
        assert scan(data, KNOWN) == [Hit(None, "SHOP_PASSWORD", form, offset=4)]
        hidden = redact_bytes(data, KNOWN)
        assert len(hidden) == len(data)
        assert scan(hidden, KNOWN) == []


def test_the_shape_of_a_key_is_found_whoever_holds_it(tmp_path: Path) -> None:
    key = "sk-ant-api03-abcdefgh"
    (tmp_path / "a.txt").write_text(f"one\ntwo {key}\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\x00" + key.encode())
    hits = scanned(tmp_path, {})
    assert [(hit.file and hit.file.name, hit.form, hit.line, hit.offset) for hit in hits] == [
        ("a.txt", "shape", 2, None),
        ("b.bin", "shape", None, 2),
    ]


def test_a_hit_says_where_and_never_what(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    path = tmp_path / ".hidden" / "a.txt"
    path.write_text(f"{VALUE}\n\n{quote(VALUE)}")
    hits = scanned(tmp_path, KNOWN)
    assert [str(hit) for hit in hits] == [
        f"{path}, line 1: the secret SHOP_PASSWORD (as is)",
        f"{path}, line 3: the secret SHOP_PASSWORD (URL)",
    ]
    assert "998877" not in repr(hits)


def test_what_may_stand_there() -> None:
    """A test's id is looked for as it is, and a marker may hold the word that it stands for."""
    text = 'test_open["documents"] [redacted documents]'
    known = {"documents": "documents"}
    for raw in (text, json.dumps({"test": text})):
        assert scan(raw.encode(), known, allowed=['test_open["documents"]']) == []
    assert len(scan(text.encode(), known)) == 1


# ------------------------------------------------------------------ no false alarm


def test_pictures_and_digests_hold_no_short_secret_by_chance(tmp_path: Path) -> None:
    source = random.Random(1)
    for number in range(3):
        image = Image.frombytes("RGB", (320, 240), source.randbytes(320 * 240 * 3))
        (tmp_path / f"{number}.webp").write_bytes(screens.to_webp(image))
    (tmp_path / "files.bin").write_bytes(source.randbytes(2_000_000))
    digests = "".join(f"{source.getrandbits(64):016x}\n" for _ in range(20_000))
    (tmp_path / "digests.txt").write_text(digests)
    four = {f"{number:04}": f"PIN{number}" for number in range(1000, 1060)}
    assert scanned(tmp_path, four) == []
    assert redact_text(digests, four) == digests
    eight = {"correct7": "A", "Tr0ub4d0": "B", "00112233": "C"}
    assert scanned(tmp_path, eight) == []


def test_a_short_secret_is_a_word_of_its_own() -> None:
    pin = {"4711": "PIN"}
    assert redact_text("pin=4711, 47110, x4711, [4711]", pin) == "pin=[redacted PIN], 47110, x4711, [[redacted PIN]]"
    assert redact_text("p@s5 ap@s5", {"p@s5": "P"}) == "[redacted P] ap@s5"
    assert len(scan(b"the pin is 4711", pin)) == 1
    assert scan(b"\xff\x00 4711 ", pin) == []


def test_a_short_number_in_json_is_mostly_no_secret(tmp_path: Path) -> None:
    pin = {"4711": "PIN"}
    path = tmp_path / "cassette.jsonl"
    path.write_text('{"pointer": [4711, 4711], "waited_ms": 4711}\n{"text": "4711"}\n{"text": "it is 4711."}\n')
    assert [hit.line for hit in scan(path, pin)] == [2, 3]
    path = tmp_path / "http.yaml"
    path.write_text("code: 4711\nlist:\n- 4711\nbody: 'the pin 4711'\n")
    assert [hit.line for hit in scan(path, pin)] == [4]


def test_a_variable_that_is_no_utf_8_does_no_harm() -> None:
    known = {"caf\udce9-and-more": "ODD_TOKEN"}
    assert redact_text("x caf\udce9-and-more y", known) == "x [redacted ODD_TOKEN] y"
    assert [hit.form for hit in scan(b"x caf\xe9-and-more y", known)] == ["as is"]


def test_a_secret_that_is_a_word_of_the_format_leaves_recordings_readable() -> None:
    words = set()
    for path in (Path(__file__).parents[2] / "cassettes").rglob("cassette.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words |= _format_words(json.loads(line))
    assert len(words) > 80
    for word in sorted(word for word in words if len(word) >= 4):
        Secret(word)
        assert redact_text(f'"{word}"', environment_secrets()) == f'"{word}"', word
    Secret("correct horse")
    assert redact_text("a correct horse", environment_secrets()) != "a correct horse"


def _format_words(value: Any) -> set[str]:
    """The names of fields, and the values of those that hold words of the format."""
    if isinstance(value, list):
        return set().union(*map(_format_words, value))
    if not isinstance(value, dict):
        return set()
    fixed = ("type", "role", "kind", "phase", "outcome", "method", "stop_reason", "media_type", "model_endpoint")
    found = {value[name] for name in fixed if isinstance(value.get(name), str)}
    return found | set(value) | set().union(*map(_format_words, value.values()))
