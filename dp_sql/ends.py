"""Intervals of what stands over a release's groups: of aggregates, and of expressions over them. Free.

They are computed from released values and public noise alone, which is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.interval import interval, redraw
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.plan.histogram import Bin
from dp_sql.plan.release import (
    GROUP_NUMBER,
    GROUPING_SET,
    Aggregate,
    IntervalColumn,
    PlannedRelease,
    Release,
)
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import ReleasedColumn, array_type
from dp_sql.result import Interval
from dp_sql.schema.sqltype import BIGINT, DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRAWS = 1000  # redrawn noise vectors behind an interval
_MOST_REDRAWN = 2_000_000  # rows of redrawn values at once


@dataclass(frozen=True, slots=True)
class Groups:
    """A released table: its parts, in the order of its rows. They are one set of keys each."""

    release: Release
    parts: tuple[tuple[PlannedRelease, Released], ...]

    def __len__(self) -> int:
        return sum(len(done.keys) for _, done in self.parts)


def item_ends(
    table: Groups,
    items: Sequence[str | None],
    groups: Iterable[int],
    post: PostProcessor,
    sampler: Sampler,
    level: float,
) -> dict[int, list[Interval]]:
    """Return an interval for every item of some groups, None where there is none.

    items: texts over the released table. One that is an aggregate as it stands has the interval of its
    mechanism; an expression over a group's aggregates is computed over redrawn noise. A value that is
    chosen by its rank has none, nor has what is computed with one.
    """
    parsed = table.release
    names = {a.name: f'"{parsed.name}"."{a.name}"' for a in parsed.aggregates}
    ranked = [names[a.name] for a in parsed.aggregates if _is_chosen(a)]
    ranked += [f'"{parsed.name}"."{column.name}"' for column in parsed.intervals]
    places = {names[a.name]: i for i, a in enumerate(parsed.aggregates) if not _is_chosen(a)}
    computed = [
        (position, item)
        for position, item in enumerate(items)
        if item is not None
        and item not in places
        and any(name in item for name in places)
        and not any(name in item for name in ranked)
    ]
    chosen: dict[int, list[Interval]] = {g: [None] * len(items) for g in groups}
    first = 0
    for place, (plan, done) in enumerate(table.parts):
        mine = {g - first: chosen[g] for g in chosen if 0 <= g - first < len(done.keys)}
        for position, item in enumerate(items):
            if mine and item in places:
                low, high = interval(plan, done, places[item], level, sampler)
                for group, ends in mine.items():
                    ends[position] = (float(low[group]), float(high[group]))
        if mine and computed:
            _computed(mine, computed, (parsed, place, plan, done), post, sampler, level)
        first += len(done.keys)
    return chosen


def interval_columns(
    table: Groups, post: PostProcessor, sampler: Sampler
) -> tuple[ReleasedColumn, ...]:
    """Return the columns that hold ends of intervals; NULL where there is no interval.

    Claim:   these columns cost nothing.
    Why:     they are computed from the released values, the law of their noise, which is public, and
             fresh random numbers: post-processing.
    Assumes: nothing else of the data is in `table`.
    Source:  [Dwork2014]
    """
    wanted = table.release.intervals
    found: dict[IntervalColumn, list[float | None]] = {}
    for level in dict.fromkeys(column.level for column in wanted):
        mine = [column for column in wanted if column.level == level]
        items = list(dict.fromkeys(column.item for column in mine))
        ends = item_ends(table, items, range(len(table)), post, sampler, float(level))
        for column in mine:
            place = items.index(column.item)
            pairs = [ends[group][place] for group in range(len(table))]
            found[column] = [None if pair is None else pair[int(column.high)] for pair in pairs]
    return tuple(ReleasedColumn(c.name, DOUBLE, _values(found[c])) for c in wanted)


def key_columns(parsed: Release, keys: list[tuple[object, ...]]) -> list[ReleasedColumn]:
    """Return the columns of a released table's keys."""
    return [
        ReleasedColumn(key.name, key.expression.type, [row[i] for row in keys])
        for i, key in enumerate(parsed.keys)
    ]


def value_columns(parsed: Release, values: Sequence[NDArray[np.generic]]) -> list[ReleasedColumn]:
    """Return the columns of a released table's aggregates."""
    return [
        ReleasedColumn(a.name, a.type, v if v.dtype == object else v.astype(array_type(a.type)))
        for a, v in zip(parsed.aggregates, values, strict=True)
    ]


def padded(parsed: Release, plan: PlannedRelease, released: Released) -> list[tuple[object, ...]]:
    """Return the groups by all keys of a release, NULL for those outside this set."""
    names = [key.name for key in plan.release.keys]
    if len(names) == len(parsed.keys):
        return released.keys
    places = [names.index(k.name) if k.name in names else -1 for k in parsed.keys]
    return [tuple([None if i < 0 else key[i] for i in places]) for key in released.keys]


def _is_chosen(aggregate: Aggregate) -> bool:
    """Return whether nobody knows how far an aggregate's value is off: it was chosen, not counted."""
    return aggregate.choice is not None and not isinstance(aggregate.choice, Bin)


def _values(ends: list[float | None]) -> Sequence[object] | NDArray[np.float64]:
    known = [end for end in ends if end is not None]
    return np.array(known) if len(known) == len(ends) else ends


def _computed(
    chosen: Mapping[int, list[Interval]],
    computed: list[tuple[int, str]],
    part: tuple[Release, int, PlannedRelease, Released],
    post: PostProcessor,
    sampler: Sampler,
    level: float,
) -> None:
    """Fill in the intervals of expressions over one set's groups, some groups at a time."""
    parsed, place, plan, done = part
    padded_keys = padded(parsed, plan, done)
    groups = sorted(chosen)
    size = max(1, _MOST_REDRAWN // _DRAWS)
    for start in range(0, len(groups), size):
        some = groups[start : start + size]
        values = redraw(plan, done, some, _DRAWS, sampler)
        keys = [padded_keys[g] for g in some for _ in range(_DRAWS)]
        numbers = ReleasedColumn(GROUP_NUMBER, BIGINT, np.repeat(np.array(some, np.int64), _DRAWS))
        columns = (*key_columns(parsed, keys), *value_columns(parsed, values), numbers)
        if parsed.sets:
            places = np.full(len(keys), place, dtype=np.int64)
            columns = (*columns, ReleasedColumn(GROUPING_SET, BIGINT, places))
        found = post.spread([i for _, i in computed], parsed.name, columns, level)
        for group, ends in found.items():
            for (position, _), end in zip(computed, ends, strict=True):
                chosen[group][position] = end
