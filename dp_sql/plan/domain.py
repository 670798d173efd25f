"""What an expression's value can be: an interval of numbers or dates, or a length of a text."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
    """The declared or derived range of a value.

    low, high: inclusive ends, None where there is none. Booleans are 0 and 1, dates are days and
        timestamps microseconds since 1970-01-01; for every other type but numbers both are None.
    step: the value is a whole multiple of it (1 for integers and dates, 1/100 for DECIMAL(_,2)),
        None for floats and for types that have no ends.
    max_length: of a text, in characters, None where there is none.

    A domain is a claim about what the *declared* data can be. Privacy never rests on it: the
    lowered SQL clamps to it.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    step: Fraction | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("a domain's low end is above its high end")

    @property
    def bounded(self) -> bool:
        """True where both ends are known."""
        return self.low is not None and self.high is not None


UNKNOWN = Domain()
BOOLEANS = Domain(Fraction(0), Fraction(1), Fraction(1))
