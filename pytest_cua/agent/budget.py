"""Limits of turns, time and money, checked before more of either is spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pytest_cua.errors import StepFailed
from pytest_cua.trace import Step, Usage


@dataclass
class Purse:
    """Money spent by one run, shared by its tests."""

    limit: float
    spent: float = 0.0


@dataclass
class Budget:
    """The limits of one test.

    Attributes:
        max_cost: US dollars for the test.
        purse: What the whole run may spend.
    """

    max_cost: float
    purse: Purse
    spent: float = field(default=0.0, init=False)

    def pay(self, usage: Usage) -> None:
        """Count a reply; a model without a known price costs nothing here, and the summary says so."""
        self.spent += usage.cost_usd or 0.0
        self.purse.spent += usage.cost_usd or 0.0

    def check_money(self, step: Step) -> None:
        """Stop before the next request when the test or the run has spent its money.

        Raises:
            StepFailed: A limit is reached.
        """
        for spent, limit, what, name in (
            (self.spent, self.max_cost, "test", "cua_max_cost"),
            (self.purse.spent, self.purse.limit, "run", "cua_max_cost_run"),
        ):
            if spent >= limit > 0:
                raise StepFailed(
                    f"Step {step.number} {step.sentence!r} was stopped: the {what} has cost {spent:.2f} USD "
                    f"of at most {limit:.2f}.",
                    f"raise the limit with -o {name}=AMOUNT, or write a smaller step",
                )


class Clock:
    """The time limit of one step, in milliseconds."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Milliseconds since the step began."""
        return (time.monotonic() - self._start) * 1000

    @property
    def left(self) -> float:
        """Milliseconds until the limit."""
        return self.limit - self.elapsed

    def check(self, step: Step) -> None:
        """Stop before the next request when the time is over.

        Raises:
            StepFailed: The limit is reached.
        """
        if self.elapsed > self.limit:
            raise StepFailed(
                f"Claude did not finish step {step.number} {step.sentence!r} within {self.limit / 1000:g} s "
                f"({len(step.turns)} turns).",
                "raise the limit: cua.do(..., timeout=MILLISECONDS) or -o cua_step_timeout=MILLISECONDS",
            )
