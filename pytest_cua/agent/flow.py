"""`@pytest_cua.flow`: steps that are recorded once and used by many tests, such as a login."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from pytest_cua.errors import BadArgument, project_root

if TYPE_CHECKING:
    from pytest_cua.agent.cua import Cua

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Flow:
    """What identifies a flow.

    Attributes:
        name: How it is called in messages.
        id: The key of its recording, in the form of a test's id.
        title: What it does, in the words that later steps are given: the first line of its docstring, or its name.
    """

    name: str
    id: str
    title: str


@overload
def flow(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def flow(*, name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def flow(function: Callable[P, R] | None = None, /, *, name: str | None = None) -> Any:
    """Make a function of steps one recording that many tests replay.

    The function takes the `cua` fixture as one of its arguments; every `cua.do`, `cua.judge` and `expect` in it belongs
    to the recording of the flow, `cassettes/flows/...`, not to that of the test that calls it. What differs from test
    to test goes through `params=`, so that the sentences stay the same. Recorded in the first test that uses it; when
    it is changed, remove its folder and record once, and every test uses the new one.

    Args:
        function: The function.
        name: Its name; None takes the function's, with the path of its file.

    Raises:
        BadArgument: It is no function, or is called without `cua`.
    """
    if function is None:
        if name is None or not str(name).strip():
            raise BadArgument("@pytest_cua.flow(name=...) needs a name.")
        return functools.partial(_flow, name=name)
    return _flow(function, name=None)


def _flow(function: Callable[..., Any], *, name: str | None) -> Callable[..., Any]:
    if (
        not inspect.isfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
    ):
        raise BadArgument(f"@pytest_cua.flow makes a flow of a plain function of steps, not of {function!r}.")
    named = name

    @functools.wraps(function)
    def used(*args: Any, **kwargs: Any) -> Any:
        with _cua_among([*args, *kwargs.values()], function).flow(_described(function, named)):
            return function(*args, **kwargs)

    return used


def _cua_among(values: list[Any], function: Any) -> Cua:
    from pytest_cua.agent.cua import Cua

    for value in values:
        if isinstance(value, Cua):
            return value
    raise BadArgument(
        f"The flow {function.__name__} was called without `cua`.", f"call it as {function.__name__}(cua, ...)"
    )


def _described(function: Any, name: str | None) -> Flow:
    doc = (inspect.getdoc(function) or "").strip().splitlines()
    words = (name or function.__name__).replace("_", " ").strip()
    title = doc[0].rstrip(".") if doc else words[:1].upper() + words[1:]
    if name is not None:
        return Flow(name, f"flows.py::{name}", title)
    path = Path(function.__code__.co_filename).resolve()
    root = project_root()
    if root is not None and path.is_relative_to(root):
        place = path.relative_to(root).as_posix()
    else:
        place = function.__module__.replace(".", "/") + ".py"
    inner = function.__qualname__.replace(".<locals>", "")
    return Flow(function.__name__, f"flows/{place}::{inner}", title)
