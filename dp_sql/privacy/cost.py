"""What a statement costs: an (epsilon, delta) guarantee and the events that give it."""

from __future__ import annotations

from dataclasses import field, replace
from fractions import Fraction
from functools import reduce

from dp_sql.dataclass import dataclass
from dp_sql.privacy.event import Event


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of one release or statement for one protected table.

    epsilon, delta: the whole of it is (epsilon, delta)-DP for the table's unit and adjacency.
    events: the mechanisms that ran, for accountants that know more than that pair. parts: costs that
    add up to this one and are each a guarantee by themselves; none where only the whole is known to be.
    """

    epsilon: Fraction
    delta: Fraction
    events: tuple[Event, ...]
    parts: tuple[Cost, ...] = field(default=(), compare=False)

    @property
    def steps(self) -> tuple[Cost, ...]:
        """What ran one after the other, each with a guarantee of its own."""
        return self.parts or ((self,) if self.events else ())

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both, by basic composition. Source: [Dwork2006b].

        It has no parts: shares of joint noise are added here too, and they are no guarantee alone.
        """
        return Cost(
            self.epsilon + other.epsilon, self.delta + other.delta, self.events + other.events
        )

    def then(self, other: Cost) -> Cost:
        """Return the cost of both where each is a guarantee by itself, as releases are."""
        return replace(self + other, parts=self.steps + other.steps)

    def times(self, count: int) -> Cost:
        """Return the cost of as many runs, one after the other; `count` is at least 1."""
        return reduce(Cost.then, [self] * count)


FREE = Cost(Fraction(0), Fraction(0), ())
