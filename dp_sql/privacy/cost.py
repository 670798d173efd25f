"""What a statement costs: an (epsilon, delta) guarantee and the events that give it."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.privacy.event import Event


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of one release or statement for one protected table.

    epsilon, delta: the whole of it is (epsilon, delta)-DP for the table's unit and adjacency.
    events: the mechanisms that ran, for accountants that know more than that pair. parts: the costs
    that this one is the sum of, where it is one.
    """

    epsilon: Fraction
    delta: Fraction
    events: tuple[Event, ...]
    parts: tuple[Cost, ...] = field(default=(), compare=False)

    @property
    def steps(self) -> tuple[Cost, ...]:
        """The mechanisms that ran one after the other, each with a guarantee of its own."""
        return self.parts or ((self,) if self.events else ())

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both, by basic composition. Source: [Dwork2006b]."""
        return Cost(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.events + other.events,
            self.steps + other.steps,
        )


FREE = Cost(Fraction(0), Fraction(0), ())
