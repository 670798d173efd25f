"""What is protected: the privacy unit and what a neighbouring data set may change."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from fractions import Fraction

from dp_sql.dataclass import dataclass

METRES_A_DEGREE = 110_574
"""A degree of latitude is at least so many metres long, everywhere.

On the ellipsoid WGS 84 it is shortest at the equator: a (1 - e^2) pi / 180 = 110,574.27 metres.
Source: [WGS84].
"""

Named = tuple[str, str]
"""A column by its table and its own name, both in lower case."""


class Level(StrEnum):
    """Whether a unit is one row or everything that one owner has."""

    EVENT = "event"
    USER = "user"


class Adjacency(StrEnum):
    """What a neighbour D' of D is.

    ADD_REMOVE: one unit's rows added or removed. SUBSTITUTION: one unit's rows replaced by another
    unit's rows, the number of units being public. ZERO_OUT: one unit's protected columns replaced by
    NULL, in all its rows, which stay. METRIC: one row's place moved by at most a radius; a row
    without a place (NULL, or a latitude beyond 90 degrees) never changes.
    """

    ADD_REMOVE = "add_remove"
    SUBSTITUTION = "substitution"
    ZERO_OUT = "zero_out"
    METRIC = "metric"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The unit of a schema, and what a neighbour changes of it.

    group_size: units that change at once, at least 1. name: in messages. kept (zero_out): the
    columns of protected tables that no neighbour changes. latitudes, longitudes (metric): the
    columns that hold a row's place; all others stay. radius (metric): in metres. owner: of one table
    at user level, whose its rows are, as a text that two schemas share; "" where it isn't told.
    """

    level: Level
    adjacency: Adjacency
    group_size: int = 1
    name: str = "unit"
    kept: frozenset[Named] = frozenset()
    latitudes: frozenset[Named] = frozenset()
    longitudes: frozenset[Named] = frozenset()
    radius: Fraction | None = None
    owner: str = ""

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ValueError("group_size must be at least 1")
        metric = self.adjacency is Adjacency.METRIC
        if metric and self.level is not Level.EVENT:
            raise ValueError("metric is for single rows")
        if metric == (self.radius is None) or (self.radius is not None and self.radius <= 0):
            raise ValueError("metric has a radius above 0, and no other adjacency has one")
        if (self.latitudes or self.longitudes) and not metric:
            raise ValueError("places belong to metric")
        if self.kept and self.adjacency is not Adjacency.ZERO_OUT:
            raise ValueError("columns that stay belong to zero_out")

    @property
    def keeps_rows(self) -> bool:
        """Whether a neighbour has the same rows, with other values in some columns."""
        return self.adjacency in (Adjacency.ZERO_OUT, Adjacency.METRIC)

    @property
    def degrees(self) -> Fraction:
        """How far a latitude moves at most, in degrees. Raises ValueError but for metric.

        Claim:   two places at a distance of at most `radius` metres differ by no more in latitude.
        Why:     the way between them is no shorter than the arc of a meridian between their
                 latitudes, of which a degree is METRES_A_DEGREE long at least.
        Assumes: distances along the ellipsoid WGS 84, or a sphere of radius 6,336 km or more.
        Source:  [WGS84]
        """
        if self.radius is None:
            raise ValueError("only metric moves a place")
        return min(self.radius / METRES_A_DEGREE, Fraction(180))

    def changes(self, table: str, column: str) -> bool:
        """Return whether a neighbour may change values of a protected table's column."""
        match self.adjacency:
            case Adjacency.ZERO_OUT:
                return (table, column) not in self.kept
            case Adjacency.METRIC:
                return (table, column) in self.latitudes | self.longitudes
            case _:
                return True

    def of_table(self, table: str) -> PrivacyUnit:
        """Return what is promised to the rows of one table: its columns alone, under no table's name."""

        def own(columns: frozenset[Named]) -> frozenset[Named]:
            return frozenset(("", column) for of, column in columns if of == table)

        return replace(
            self,
            kept=own(self.kept),
            latitudes=own(self.latitudes),
            longitudes=own(self.longitudes),
        )
