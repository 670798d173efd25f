"""From SAMPLE_AND_AGGREGATE to the rows of its blocks and the grid of their results."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from dp_sql.errors import InternalError
from dp_sql.plan.block import BlockMeasure, Sample
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Column, Expression, Ref
from dp_sql.plan.relation import CountMeasure, MeasureRows, Relation, output
from dp_sql.plan.release import Aggregate, Release
from dp_sql.plan.row_aggregates import typed
from dp_sql.plan.rows import RowAggregate
from dp_sql.plan.sampled import Sampled
from dp_sql.planner.row_grids import gridded
from dp_sql.privacy.unit import Level
from dp_sql.schema import sqltype

_STEPS = 2**20  # of a block's result, where the noise can be drawn on as many
_LARGEST = 2**52  # steps from 0: DOUBLE holds each of them
_MOST_NOISE = 2**48  # a noise scale, in steps: the samplers end at 2^50


def plan_sampled(
    release: Release,
    aggregate: Aggregate,
    sample: Sample,
    columns: tuple[Column, ...],
    domains: Mapping[int, Domain],
    level: Level,
    *,
    noise: Fraction,
    numbers: Iterator[int],
    bounded: Callable[[Relation], Relation],
) -> Sampled:
    """Return the plan of one aggregate over blocks.

    columns: those of the release's keys. noise: the Laplace scale of a number that a unit moves by
    1. bounded: what keeps public keys, and a unit's groups, in their limits.

    Raises NotPrivateError for a sum of floats without bounds.
    """
    if aggregate.argument is None:
        raise InternalError("an aggregate of blocks has an argument")
    argument, type_ = typed(sample.kind, aggregate.argument)
    result = Column(next(numbers), "result", type_)
    made = gridded(
        RowAggregate(sample.kind, argument, result, place=aggregate.place), domains, "one block's"
    )
    if made.argument is None:
        raise InternalError("an aggregate of blocks has an argument")
    value = Column(next(numbers), "x", made.argument.type)
    read = () if level is Level.USER else output(release.source)
    content = tuple(Column(next(numbers), c.name, c.type) for c in read)
    counted = (Column(next(numbers), "v", sqltype.BIGINT),)
    expressions: tuple[Expression, ...] = (
        *(k.expression for k in release.keys),
        made.argument,
        *(Ref(column) for column in read),
    )
    relation = MeasureRows(
        release.source,
        (*columns, value, *content),
        expressions,
        (CountMeasure(None),),
        (counted,),
    )
    over = RowAggregate(sample.kind, Ref(value), result, grid=made.grid, place=made.place)
    step = _step(sample, noise)
    measure = BlockMeasure(
        sample.kind, aggregate.argument, sample.low, sample.high, step, sample.blocks
    )
    return Sampled(bounded(relation), measure, over, value, content, secrets.randbits(63))


def _step(sample: Sample, noise: Fraction) -> Fraction:
    """Return the step of a block's result: a power of two of the range, finer where it can be."""
    width, largest = sample.high - sample.low, max(abs(sample.low), abs(sample.high))
    step = Fraction(1)
    while step * _STEPS > width:
        step /= 2
    while step * _STEPS * 2 <= width:
        step *= 2
    while largest / step > _LARGEST or (width / step * noise > _MOST_NOISE and 4 * step < width):
        step *= 2
    return step
