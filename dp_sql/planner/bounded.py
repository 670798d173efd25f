"""Relations that hold a unit to its limits: what a release sums, and what is counted beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Column
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    CountMeasure,
    DropKeys,
    KeepKeys,
    Measure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    Relation,
    SpreadRows,
    SumMeasure,
    SumPerUnit,
    width,
)
from dp_sql.plan.release import Release, Vector
from dp_sql.plan.vector import NormMeasure
from dp_sql.planner.keys import KeyPlan
from dp_sql.planner.measures import FINEST_CELLS
from dp_sql.planner.sides import partners_of
from dp_sql.privacy.unit import Level
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import Limits

_WEIGHT_BITS = 12  # that the weight of a value carries through the division by their number


@dataclass(frozen=True, slots=True)
class Frame:
    """What all relations of one planned release have in common.

    columns: those of its keys. limits: of a unit, as far as it can reach them. unit_rows: how many rows
    a unit has at most, None unknown. numbers: for the columns that the planner adds. hash_key: 63 secret
    random bits, by which all relations keep a unit's groups: those of the same keys keep the same.
    """

    release: Release
    keys: KeyPlan
    columns: tuple[Column, ...]
    level: Level
    limits: Limits
    unit_rows: int | None
    numbers: Iterator[int]
    hash_key: int

    @property
    def user(self) -> bool:
        """Whether a unit may have many rows."""
        return self.level is Level.USER

    @property
    def rows(self) -> int:
        """How many rows of a unit count in a group."""
        return self.limits.max_rows_per_group if self.user else 1

    @property
    def by_private(self) -> Frame:
        """The same rows by the private keys alone."""
        places = self.keys.private
        return replace(
            self,
            release=replace(self.release, keys=tuple(self.release.keys[i] for i in places)),
            keys=KeyPlan((), tuple(range(len(places)))),
            columns=tuple(self.columns[i] for i in places),
        )

    def column(self, name: str, type_: sqltype.SqlType = sqltype.BIGINT) -> Column:
        """Return a new column."""
        return Column(next(self.numbers), name, type_)

    def measured(
        self, measures: tuple[Measure, ...], named: tuple[tuple[Column, ...], ...]
    ) -> MeasureRows:
        """Return the rows by the keys, with these measures."""
        expressions = tuple(key.expression for key in self.release.keys)
        return MeasureRows(self.release.source, self.columns, expressions, measures, named)


def summed(
    frame: Frame, measures: tuple[Measure, ...], room: int, without: str | None = None
) -> tuple[Relation, tuple[Vector, ...]]:
    """Return the relation that enforces the contribution set, and its vectors.

    room: as in `planner.measures.Wanted`. without: a table of keys whose groups are left out.
    """
    named = tuple(
        tuple(frame.column(f"v{i}_{j}") for j in range(width(m))) for i, m in enumerate(measures)
    )
    measured = frame.measured(measures, named)
    relation = _with_public_keys(measured, frame)
    bits = tuple(_low_bits(m, room) if frame.user else 0 for m in measures)
    if frame.user:
        count = frame.column("c")
        partners = partners_of(measured, frame.limits.max_rows_per_group, bits)
        relation = SumPerUnit(relation, count, partners)
        if without is not None:
            relation = DropKeys(relation, without)
        relation = _few_groups(relation, frame)
        relation = BoundRows(relation, frame.limits.max_rows_per_group, bits)
    vectors = tuple(
        Vector(m, c, _unit(m, b)) for m, c, b in zip(measures, named, bits, strict=True)
    )
    return relation, vectors


def kept(relation: Relation, frame: Frame) -> Relation:
    """Return the relation with public keys alone and, where there are units, few groups of each."""
    relation = _with_public_keys(relation, frame)
    return _few_groups(relation, frame) if frame.user else relation


def spread(frame: Frame, measure: MomentMeasure) -> Relation:
    """Return the relation that enforces what a unit adds to a histogram."""
    named = tuple(frame.column(f"h{j}") for j in range(width(measure)))
    relation = _with_public_keys(frame.measured((measure,), (named,)), frame)
    if not frame.user:
        return relation
    relation = SpreadRows(relation, frame.limits.max_rows_per_group, spread_bits(frame))
    return _few_groups(relation, frame)


def spread_bits(frame: Frame) -> int:
    """Return how many low bits the weight of a value carries; none where no unit has too many rows."""
    few = frame.unit_rows is not None and frame.unit_rows <= frame.limits.max_rows_per_group
    return _WEIGHT_BITS if frame.user and not few else 0


def _with_public_keys(relation: Relation, frame: Frame) -> Relation:
    for space in frame.keys.public:
        columns = tuple(frame.columns[i] for i in space.positions)
        relation = KeepKeys(relation, columns, space.values)
    return relation


def _few_groups(relation: Relation, frame: Frame) -> Relation:
    """Return the relation with a unit's groups bounded, unless nothing can pass the limit."""
    most = frame.limits.max_groups
    cells = prod(max(1, len(space.values)) for space in frame.keys.public)
    few = frame.unit_rows is not None and frame.unit_rows <= most
    if frame.columns and not few and (frame.keys.private or most < cells):
        return BoundGroups(relation, most, frame.hash_key)
    return relation


def _low_bits(measure: Measure, room: int) -> int:
    """Return how many low bits a moment vector carries through the division by the row count."""
    bits = 0
    if isinstance(measure, PairMeasure):
        while measure.total << bits < FINEST_CELLS**2 and measure.total << (bits + 1) <= room:
            bits += 1
        return bits
    if not isinstance(measure, MomentMeasure):
        return 0
    while measure.cells << bits < FINEST_CELLS and measure.total << (bits + 1) <= room:
        bits += 1
    return bits


def _unit(measure: Measure, low_bits: int) -> int:
    match measure:
        case MomentMeasure() | PairMeasure():
            return measure.total << low_bits
        case CountMeasure() | PresenceMeasure() | SumMeasure() | NormMeasure():
            return 1
