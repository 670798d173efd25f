"""What is protected: the privacy unit and what a neighbouring data set may change."""

from __future__ import annotations

from enum import StrEnum

from dp_sql.dataclass import dataclass


class Level(StrEnum):
    """Whether a unit is one row or everything that one owner has."""

    EVENT = "event"
    USER = "user"


class Adjacency(StrEnum):
    """What a neighbour D' of D is.

    ADD_REMOVE: one unit's rows added or removed. SUBSTITUTION: one unit's rows replaced by another
    unit's rows, the number of units being public. ZERO_OUT: one unit's protected columns replaced by
    NULL. METRIC: one row's location columns moved by at most a radius.
    """

    ADD_REMOVE = "add_remove"
    SUBSTITUTION = "substitution"
    ZERO_OUT = "zero_out"
    METRIC = "metric"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The unit of a schema: level, adjacency, how many units are protected at once, its name."""

    level: Level
    adjacency: Adjacency
    group_size: int = 1  # units that change at once; at least 1
    name: str = "unit"

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ValueError("group_size must be at least 1")
