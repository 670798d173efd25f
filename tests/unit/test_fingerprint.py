"""The digest of a release changes with every field that it depends on, and with nothing else."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import pytest

from dp_sql.errors import InternalError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.plan.expression import Call, Column, Literal, Ref
from dp_sql.plan.fingerprint import LEFT_OUT, CanonicalText
from dp_sql.plan.release import PlannedRelease, Stage, StageTable
from dp_sql.plan.rows import Scan, StageScan
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.sqltype import BIGINT, DOUBLE, Kind, SqlType

WITHOUT_MEANING = {
    "Column": {"name"},
    "Key": {"name"},
    "Aggregate": {"name", "place"},
    "DropKeys": {"stage"},
    "PrivacyUnit": {"name"},
    "Release": {"name", "intervals"},
    "Options": {"epsilon", "delta", "accuracy"},
    "BoundGroups": {"hash_key"},
    "Distinct": {"hash_key"},
    "Sampled": {"hash_key"},
    "Sample": {"key"},
    "HistogramFacts": {"rule"},
    "Join": {"site"},
    "RowAggregate": {"place"},
    "WindowFunction": {"place"},
    "Cost": {"parts"},
    "Share": {"place"},
}
"""What a fingerprint may leave out, by class: names, secrets, and sentences and places for messages."""

STAGES = [
    StageTable(Stage(name, "", (), (Column(9, "c", BIGINT),), single=False, releases=()), ((row,),))
    for name, row in (("a", "1"), ("b", "2"))
]
MADE: dict[type, list[Any]] = {
    bool: [False, True],
    int: [1, 2],
    str: ["a", "b"],
    float: [0.5, 0.25],
    Fraction: [Fraction(1, 2), Fraction(1, 3)],
    Decimal: [Decimal("1.5"), Decimal("1.50")],
    date: [date(2026, 1, 1), date(2026, 1, 2)],
    datetime: [datetime(2026, 1, 1), datetime(2026, 1, 2)],  # noqa: DTZ001  DuckDB's have no zone
    time: [time(1), time(2)],
    types.NoneType: [None],
    object: ["a", 1, None],
    Column: [Column(1, "c", BIGINT), Column(1, "c", DOUBLE)],
    SqlType: [DOUBLE, SqlType(Kind.DECIMAL, 5, 2), SqlType(Kind.DECIMAL, 6, 2)],
    VectorNoise: [VectorNoise(NoiseKind.LAPLACE, 2, 8)],
    PrivacyUnit: [
        PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE),
        PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, 2),
    ],
    Cost: [Cost(Fraction(1), Fraction(0), ()), Cost(Fraction(2), Fraction(0), ())],
}


def text(*values: object) -> str:
    made = CanonicalText(STAGES)
    made.add(*values)
    return made.digest()


def plain(hint: Any) -> Any:
    """Return a simple value of an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in MADE:
        return MADE[hint][0]
    if origin in (typing.Union, types.UnionType):
        return plain(arguments[0])
    if origin is tuple:
        return tuple(plain(argument) for argument in arguments if argument is not Ellipsis)
    if origin is frozenset:
        return frozenset({plain(arguments[0])})
    if issubclass(hint, Enum):
        return next(iter(hint))
    return hint(**{name: plain(kind) for name, kind in hints(hint).items()})


def others(hint: Any) -> list[Any]:
    """Return some values of an annotation that differ from its `plain` one."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in MADE:
        return MADE[hint][1:]
    if origin in (typing.Union, types.UnionType):
        return [*others(arguments[0]), *(plain(argument) for argument in arguments[1:])]
    if origin is tuple and arguments[-1] is Ellipsis:
        one = plain(arguments[0])
        return [*((other,) for other in others(arguments[0])), (), (one, one)]
    if origin is tuple:
        first = plain(hint)
        return [
            (*first[:i], other, *first[i + 1 :])
            for i, argument in enumerate(arguments)
            for other in others(argument)
        ]
    if origin is frozenset:
        return [frozenset({other}) for other in others(arguments[0])] + [frozenset()]
    if issubclass(hint, Enum):
        return list(hint)[1:]
    return [next(value for name, value in changes(hint) if name not in without(hint))]


def hints(kind: type) -> dict[str, Any]:
    found = typing.get_type_hints(kind)
    return {field.name: found[field.name] for field in dataclasses.fields(kind)}


def without(kind: type) -> set[str]:
    if kind.__module__ == "dp_sql.plan.block":
        return set()  # its Sample isn't that of `plan.relation`
    return WITHOUT_MEANING.get(kind.__name__, set())


def classes(kind: Any, found: dict[type, None]) -> None:
    """Collect the classes of values that may stand below one of that annotation."""
    for argument in typing.get_args(kind):
        classes(argument, found)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind not in found:
        found[kind] = None
        for hint in hints(kind).values():
            classes(hint, found)


def reachable() -> list[type]:
    found: dict[type, None] = {}
    classes(PlannedRelease, found)
    classes(Measurement, found)
    classes(PrivacyUnit, found)
    return list(found)


def changes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield values that differ from the plain one of a class in one field, with its name."""
    base = plain(kind)
    for name, hint in hints(kind).items():
        for other in [o for o in (plain(hint), *others(hint)) if o != getattr(base, name)]:
            try:
                yield name, replace(base, **{name: other})
            except (ValueError, InternalError):
                continue  # no such value exists


def test_every_class_of_a_release_and_its_noise_is_looked_at() -> None:
    names = {kind.__name__ for kind in reachable()}
    assert len(names) > 70
    assert {"Scan", "Join", "Mark", "BoundGroups", "KeySpace", "Chooser", "Coins", "Call"} <= names


@pytest.mark.parametrize("kind", reachable(), ids=lambda kind: kind.__name__)
def test_each_field_changes_the_digest_unless_it_means_nothing(kind: type) -> None:
    base = text(plain(kind))
    changed = set()
    for name, value in changes(kind):
        same = text(value) == base
        if kind is Column and name == "number":
            assert same  # alone: numbers count only against each other
        else:
            assert same == (name in without(kind)), (name, value)
        changed.add(name)
    assert changed >= hints(kind).keys() - without(kind) - SINGLE.get(kind.__name__, set())


SINGLE = {
    "SqlType": {"kind", "precision", "scale"},
    "VectorNoise": {"kind"},  # NONE has another lattice
    "PrivacyUnit": {"latitudes", "longitudes", "radius", "kept"},
}
"""Fields that can't be changed alone."""


def test_values_of_units_that_go_together() -> None:
    metric = PrivacyUnit(Level.EVENT, Adjacency.METRIC, radius=Fraction(5))
    kept = PrivacyUnit(Level.USER, Adjacency.ZERO_OUT)
    found = [
        metric,
        replace(metric, radius=Fraction(6)),
        replace(metric, latitudes=frozenset({("t", "a")})),
        replace(metric, longitudes=frozenset({("t", "a")})),
        kept,
        replace(kept, kept=frozenset({("t", "a"), ("t", "b")})),
        replace(kept, kept=frozenset({("t", "a")})),
        replace(kept, level=Level.EVENT),
        VectorNoise(NoiseKind.NONE, 1, 0),
        *(SqlType(Kind.DECIMAL, *digits) for digits in ((5, 2), (5, 3), (6, 2))),
        DOUBLE,
        BIGINT,
    ]
    assert len({text(value) for value in found}) == len(found)


def test_what_is_left_out_is_what_means_nothing() -> None:
    for kind, names in LEFT_OUT.items():
        assert names == WITHOUT_MEANING[kind.__name__] - {"place"}


def columns(*numbers: int) -> Sequence[Ref]:
    return [Ref(Column(number, f"c{number}", BIGINT)) for number in numbers]


def test_columns_count_by_where_they_are_used_first() -> None:
    def both(*numbers: int) -> str:
        return text(Call("+", tuple(columns(*numbers)), BIGINT))

    assert both(1, 2) == both(7, 3) != both(1, 1) == both(5, 5)
    assert both(1, 2, 1) == both(2, 1, 2) != both(1, 2, 2)


def test_lists_of_values_never_run_together() -> None:
    found = [
        ("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), (("a",), "bc"), ("a", ("bc",)), (1, 23), (12, 3),
        ("1",), (1,), (True,), (1.0,), (Fraction(1),), (Decimal(1),), (None,), ((),), (), ("s1:a",),
        (-1,), (0.0,), (-0.0,), (float("nan"),), (float("inf"),), ("\ud800",), ("\u00e9",), ("e\u0301",),
        (date(2026, 1, 1),), (datetime(2026, 1, 1),), ("2026-01-01",),  # noqa: DTZ001
    ]  # fmt: skip
    digests = {text(value) for value in found}
    assert len(digests) == len(found)


def test_a_stage_counts_by_its_rows_and_not_by_its_name_or_their_order() -> None:
    def over(name: str, rows: Sequence[tuple[str | None]], kind: SqlType = BIGINT) -> str:
        column = Column(4, "c", kind)
        stage = Stage(name, f"sql of {name}", (), (column,), single=False, releases=("r0",))
        made = CanonicalText([StageTable(stage, tuple(rows))])
        made.add(StageScan(name, (column,), single=False))
        return made.digest()

    one = over("s0", [("1",), (None,), ("2",)])
    assert one == over("s7", [("2",), ("1",), (None,)])
    assert one != over("s0", [("1",), ("2",)])
    assert one != over("s0", [("1",), ("",), ("2",)])
    assert one != over("s0", [("1",), (None,), ("2",)], DOUBLE)
    with pytest.raises(InternalError):
        CanonicalText().add(StageScan("s0", (), single=False))


def test_public_tables_are_named_and_unknown_values_refused() -> None:
    made = CanonicalText()
    made.add(Scan("towns", public=True, columns=(), sources=(), owner=None))
    made.add(Scan("people", public=False, columns=(), sources=(), owner=None))
    assert made.public_tables == {"towns"}
    with pytest.raises(InternalError, match="no plan holds a bytes"):
        made.add((Literal(1, BIGINT), b"x"))
