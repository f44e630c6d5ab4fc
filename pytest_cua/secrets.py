"""What is secret: values that a test types and nobody may read, and those of telling environment variables.

```python
from pytest_cua import Secret

cua.do("Log in as anna with the password {password}", params={"password": Secret.from_env("SHOP_PASSWORD")})
```

Nothing here writes or shows a value. `pytest_cua.cassette.redact` takes known secrets out of what is written, and a
desktop paints over what changed on the screen while one was typed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn, SupportsIndex

from pytest_cua.errors import BadArgument, SetupError

SHORTEST = 4  # characters of a Secret: anything shorter would hide ordinary words and numbers
WHOLE = 8  # characters: shorter values are looked for as whole words alone, and not in other encodings

# what services of a test are given in place of a secret; to hide these words everywhere would hide nothing
_WORDS = (
    "password",
    "postgres",
    "changeme",
    "mysecretpassword",
    "testpassword",
    "secretpassword",
    "secret",
    "redacted",
    "test",
    "admin",
    "user",
    "root",
    "guest",
)
# the words that recordings are written in: to hide one of these would make every recording unreadable
_VOCABULARY = frozenset(
    """
    action actions action_id adaptive additionalproperties after after_step anyof anthropic array
    assistant attempts base64 before blocked body bubblewrap bytes cache_control cache_creation caller
    changed closed computer content content_block content_block_delta content_block_start
    content_block_stop content-type continue conversation conversations coordinate cost_usd create
    created default delta description desktop direct display document done duration_ms encoding
    ephemeral environment enum error event events failed file files finish_step flow flows focus font
    fonts footer format give_opinion header headers height http.yaml image image/png imported_from
    input input_json_delta input_schema input_tokens interactions is_error isolation items json judge
    keep kind left_click locale masked max_tokens media_type message message_delta message_start
    message_stop messages method missing model model_endpoint moving name network noted null number
    object observation observations openbox outcome output_tokens params partial_json passed path phase
    plugin pointer post previous_message_id program prompt_digest properties recorded_at removed reply
    request request-id required response role screen screenshot scripted sentence service_tier setup
    shell signature size status step steps steps.md still_ms stop_reason stop_sequence stream string
    subject summary system teardown text text_delta theme thinking thinking_delta thread timezone title
    tool toolset_name tool_result tool_use tool_use_id tools turn turns type usage value version
    waited_ms width windows xvfb like results
    cache_creation_input_tokens cache_read_input_tokens computer_toolset_20260801
    ephemeral_1h_input_tokens ephemeral_5m_input_tokens output_tokens_details thinking_tokens
    """.split()  # noqa: SIM905  one word a line would take a hundred lines
)
_NAMES = re.compile(
    r"(^|_)(API|ACCESS|AUTH|PRIVATE|SECRET)?"
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?)(_|$)",
    re.IGNORECASE,
)
_FOLDERS = ("PWD", "OLDPWD")

_made: dict[str, str] = {}  # the value of every Secret of this process, and its name; the newest stands last
_variables: set[str] = set()  # those that a Secret was taken from, whatever their names say


class Secret:
    """A value that is typed, and written nowhere.

    Recordings, reports and messages hold `[redacted NAME]` in its place, wherever it comes up in this process from now
    on; what changes on the screen while it is typed is painted over. A word that every second program shows
    ("password", "admin") is painted over as well, but stays in texts: to hide it there would hide nothing.

    Args:
        value: What is typed, 4 characters at least. With fewer than 8 it is found in texts as a whole word alone, and
            not in other encodings.
        name: What stands in its place: letters, digits and underscores. None takes the name of the parameter that it is
            given as.

    Raises:
        BadArgument: The value or the name cannot be meant.
    """

    __slots__ = ("_name", "_value", "_variable")

    def __init__(self, value: str, name: str | None = None) -> None:
        if name is not None and not re.fullmatch(r"\w+", name):
            raise BadArgument(f"{name!r} is no name for a Secret: use letters, digits and underscores.")
        self._name = name
        self._variable: str | None = None
        self._value: str | None = _checked(value, name or "Secret")
        _register(self._value, self.name)

    @classmethod
    def from_env(cls, variable: str) -> Secret:
        """The secret in an environment variable, read when it is needed.

        A variable that is not set is no error before the value is typed: `offline` types nothing and needs none.

        Args:
            variable: Its name, which also stands in place of the value.

        Raises:
            BadArgument: That is no name of a variable.
        """
        if not isinstance(variable, str) or not re.fullmatch(r"[^\W\d]\w*", variable):
            raise BadArgument(f"Secret.from_env({variable!r}): that is no name of an environment variable.")
        made = cls.__new__(cls)
        made._name = made._variable = variable
        made._value = None
        _variables.add(variable)
        return made

    @property
    def name(self) -> str:
        """What stands in its place, as in `[redacted NAME]`."""
        return self._name or "secret"

    @property
    def value(self) -> str:
        """The value itself. Whoever reads it must not write it anywhere.

        Raises:
            SetupError: Its environment variable is not set.
            BadArgument: The variable's value is too short to be a secret.
        """
        if self._variable is None:
            assert self._value is not None
            return self._value
        value = os.environ.get(self._variable)
        if value is None:
            raise SetupError(
                f"The secret {self._variable} is needed here, and no environment variable of this name is set.",
                f"export {self._variable}=...",
            )
        return _checked(value, self._variable)

    def named(self, name: str) -> Secret:
        """Let a secret without a name of its own be called as the parameter it is given as; gives itself."""
        if self._name is None:
            self._name = name
        if self._variable is None and self._value is not None:
            _register(self._value, self.name)
        return self

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __str__(self) -> str:
        return f"[secret {self.name}]"

    def __format__(self, spec: str) -> str:
        return str(self)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: its value would stand in the pickle")


def _checked(value: object, what: str) -> str:
    """The value, if it can be a secret; the message must not show it."""
    if not isinstance(value, str):
        raise BadArgument(f"{what}: a secret is text, not {type(value).__name__}.")
    if any("\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff" for char in value):
        raise BadArgument(f"{what}: the value holds half a character (a lone surrogate), which nobody can type.")
    if len(value.strip()) < SHORTEST:
        raise BadArgument(
            f"{what}: this value has {len(value.strip())} characters. A secret has at least {SHORTEST}: wherever it "
            "stands it is hidden, and a shorter one would hide ordinary words and numbers.",
            "give what is no secret as plain text",
        )
    return value


def _register(value: str, name: str) -> None:
    _made.pop(value, None)
    _made[value] = name


def made_in(text: str) -> str | None:
    """The name of a `Secret` whose value stands in a text; None when none does. Ordinary words are none."""
    for value, name in _made.items():
        if not _is_word(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text):
            return name
    return None


class KnownSecrets(Mapping[str, str]):
    """The value of every secret that is known here, with its name.

    Whichever comes later counts from then on: a Secret that the test makes, a variable that it sets. What was known
    once stays known: a variable may be taken away before the recording is written. The longest value stands first, or
    one that begins with another would leave its end.
    """

    def __init__(self) -> None:
        self._environ: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._pairs: tuple[tuple[str, str], ...] = ()
        self._stamp: tuple[object, ...] = ()

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Values and names as of now; the same object as before while nothing changed."""
        environ = dict(os.environ)
        made = tuple(_made.items())
        stamp = (made, len(_variables))
        if environ != self._environ or stamp != self._stamp:
            # an environment's name comes first: it was there before the Secret was made
            self._seen = {**self._seen, **of_environment(environ)}
            found = {value: name for value, name in made if not _is_word(value)}
            self._pairs = _longest_first({**found, **self._seen})
            self._environ, self._stamp = environ, stamp
        return self._pairs

    def values_by_name(self) -> dict[str, str]:
        """What to put back for a name: the variable's value of now, else that of the newest Secret called so."""
        self.pairs()
        seen = {name: value for value, name in self._seen.items()}
        made = {name: value for value, name in _made.items()}
        now = {name: value for value, name in of_environment(self._environ).items()}
        return {**seen, **made, **now}

    def __getitem__(self, value: str) -> str:
        return dict(self.pairs())[value]

    def __iter__(self) -> Iterator[str]:
        return iter([value for value, _ in self.pairs()])

    def __len__(self) -> int:
        return len(self.pairs())


def of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The values of variables whose names say that they are secret, or that a Secret was taken from; with the names.

    Args:
        environ: As `os.environ`.
    """
    found = {value: name for name, value in environ.items() if _is_secret(name, value)}
    return dict(_longest_first({value: name for value, name in found.items() if not _is_word(value)}))


def _is_word(value: str) -> bool:
    """Whether it is an ordinary word, which is masked in pixels and stays in texts."""
    return value in _WORDS or value.lower() in _VOCABULARY


def _is_secret(name: str, value: str) -> bool:
    if name in _variables:
        return len(value.strip()) >= SHORTEST
    telling = _NAMES.search(name) is not None and name not in _FOLDERS
    return telling and len(value) >= WHOLE and not _is_place(value)


def _is_place(value: str) -> bool:
    """Whether it is a path, or an address without a user: where a secret is, not which."""
    if value.startswith("/"):
        return Path("/", *value.split("/")[1:2]).exists()  # a key may begin with a slash too
    return re.match(r"https?://[^@\s]*$", value) is not None


def _longest_first(secrets: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(secrets.items(), key=lambda pair: -len(pair[0])))


_typed = KnownSecrets()


def are_in(text: str) -> bool:
    """Whether a text holds a secret."""
    return any(is_secret for _, is_secret in split(text))


def any_known() -> bool:
    """Whether there is a secret at all."""
    return bool(_made or _typed.pairs())


def split(text: str) -> list[tuple[str, bool]]:
    """A text in pieces, each with whether it is a secret: what is typed around one may be seen."""
    values = {*_made, *_typed}  # an ordinary word too, if it was given as a Secret
    longest = sorted(filter(None, values), key=len, reverse=True)
    if not any(value in text for value in longest):
        return [(text, False)] if text else []
    parts = re.split(f"({'|'.join(map(re.escape, longest))})", text)
    return [(part, bool(index % 2)) for index, part in enumerate(parts) if part]
