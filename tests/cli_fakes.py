"""A connection that answers what a test tells it, for tests of the shell without an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dp_sql.amounts import Amounts, read_amounts
from dp_sql.demo import SCHEMA
from dp_sql.parser.setting import read_setting
from dp_sql.postprocess.released import Answer
from dp_sql.privacy.cost import Cost
from dp_sql.result import Interval, Result
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.loader import load


def answer(
    columns: list[str],
    types: list[str],
    rows: list[tuple[Any, ...]],
    intervals: list[tuple[Interval, ...]] | None = None,
    cost: dict[str, Cost] | None = None,
) -> Result:
    """Return a result as the engine would give it; without intervals where None are given."""
    beside = [(None,) * len(columns) for _ in rows] if intervals is None else intervals
    return Result(Answer(tuple(columns), tuple(types), rows, ()), cost or {}, lambda _level: beside)


def count_of(number: int) -> Result:
    """Return the answer to a COUNT(*) of purchases at epsilon 0.1."""
    cost = {"purchases": Cost(Fraction(1, 10), Fraction(0), ())}
    ends = (float(number - 4), float(number + 4))
    return answer(["count_star()"], ["BIGINT"], [(number,)], [(ends,)], cost)


@dataclass(frozen=True)
class FakeState:
    def lines(self) -> tuple[str, ...]:
        return ("epsilon: 1 % used, 9.9 left",)

    def left(self) -> str:
        return "epsilon 9.9 of 10; 99 more like this"


@dataclass
class FakeConnection:
    """Answers with `on_sql`; `asked` holds what it was asked, `session` what SET statements said."""

    on_sql: Callable[[str], Result] = lambda _sql: count_of(123)
    catalog: Catalog = field(default_factory=lambda: load(SCHEMA))
    asked: list[tuple[str, object, object]] = field(default_factory=list)
    interrupted: threading.Event = field(default_factory=threading.Event)
    session: Amounts = field(default_factory=Amounts)

    def sql(
        self,
        query: str,
        *,
        epsilon: object = None,
        delta: object = None,
        within: object = None,
        confidence: object = None,
    ) -> Result:
        assert within is None
        assert confidence is None
        setting = read_setting(query)
        if setting is not None:
            changed = {setting.name: setting.value}
            read = read_amounts(changed.get("epsilon"), changed.get("delta"), self.catalog.defaults)
            self.session = replace(self.session, **{setting.name: getattr(read, setting.name)})
            return answer(["Success"], ["BOOLEAN"], [])
        self.asked.append((query.strip(), epsilon, delta))
        return self.on_sql(query)

    def explain(self, query: str, *, epsilon: object = None, delta: object = None) -> str:
        return f"explained {query} at {epsilon}, {delta}"

    def budget(self) -> dict[str, FakeState]:
        return {"purchases": FakeState()}

    def interrupt(self) -> None:
        self.interrupted.set()
