"""An error that is asked for in place of an epsilon."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import Amount, exact, show

CONFIDENCE = Fraction(95, 100)
"""The share of runs where a statement doesn't say it."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Every shown value is within `width` of the one without noise, in a share of all runs.

    width: above 0. confidence: the share, of each value by itself, between 0 and 1.
    """

    width: Fraction
    confidence: Fraction

    def __str__(self) -> str:
        return f"within {show(self.width)} in {show(self.confidence * 100)} % of runs"


def read_accuracy(within: Amount, confidence: Amount | None = None) -> Accuracy:
    """Return the accuracy, or raise ParameterError. confidence: None for 0.95."""
    share = CONFIDENCE if confidence is None else read_confidence(confidence)
    return Accuracy(read_width(within), share)


def read_width(within: Amount) -> Fraction:
    """Return an exact width above 0, or raise ParameterError."""
    width = _number(within, "within", "100")
    if width <= 0:
        raise ParameterError("within must be above zero.", hint="within=100")
    return width


def read_confidence(confidence: Amount) -> Fraction:
    """Return an exact share above 0 and below 1, or raise ParameterError."""
    share = _number(confidence, "confidence", "0.95")
    if not 0 < share < 1:
        raise ParameterError("confidence must be above 0 and below 1.", hint="confidence=0.95")
    return share


def _number(value: Amount, name: str, example: str) -> Fraction:
    try:
        return exact(value, name=name)
    except ParameterError as error:
        raise ParameterError(error.message, hint=f"{name}={example}") from None
