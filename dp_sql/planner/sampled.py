"""From SAMPLE_AND_AGGREGATE to the rows of its blocks and the grid of their results."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from fractions import Fraction

from dp_sql.errors import InternalError
from dp_sql.plan.block import BlockMeasure, Sample
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Expression, Ref
from dp_sql.plan.relation import CountMeasure, MeasureRows, output
from dp_sql.plan.release import Aggregate
from dp_sql.plan.row_aggregates import typed
from dp_sql.plan.rows import RowAggregate
from dp_sql.plan.sampled import Sampled
from dp_sql.planner.bounded import Frame, kept
from dp_sql.planner.row_grids import gridded

_STEPS = 2**20  # of a block's result, where the noise can be drawn on as many
_LARGEST = 2**52  # steps from 0: DOUBLE holds each of them
_MOST_NOISE = 2**48  # a noise scale, in steps: the samplers end at 2^50


def plan_sampled(
    frame: Frame, domains: Mapping[int, Domain], noise: Fraction
) -> dict[str, Sampled]:
    """Return the plans of the aggregates over random blocks, by their names.

    noise: the Laplace scale of a number that moves by 1 in each group of a unit.

    Raises NotPrivateError for a sum of floats without bounds.
    """
    if not frame.user:
        noise *= max(1, frame.unit_rows or 1)
    return {
        a.name: _sampled(frame, a, a.sample, domains, noise)
        for a in frame.release.aggregates
        if a.sample is not None
    }


def _sampled(
    frame: Frame,
    aggregate: Aggregate,
    sample: Sample,
    domains: Mapping[int, Domain],
    noise: Fraction,
) -> Sampled:
    """Return the plan of one aggregate; noise: of a number that a unit moves by 1."""
    release = frame.release
    if aggregate.argument is None:
        raise InternalError("an aggregate of blocks has an argument")
    argument, type_ = typed(sample.kind, aggregate.argument)
    result = frame.column("result", type_)
    made = gridded(
        RowAggregate(sample.kind, argument, result, place=aggregate.place), domains, "one block's"
    )
    if made.argument is None:
        raise InternalError("an aggregate of blocks has an argument")
    value = frame.column("x", made.argument.type)
    read = () if frame.user else output(release.source)
    content = tuple(frame.column(c.name, c.type) for c in read)
    counted = (frame.column("v"),)
    expressions: tuple[Expression, ...] = (
        *(k.expression for k in release.keys),
        made.argument,
        *(Ref(column) for column in read),
    )
    relation = MeasureRows(
        release.source,
        (*frame.columns, value, *content),
        expressions,
        (CountMeasure(None),),
        (counted,),
    )
    over = RowAggregate(sample.kind, Ref(value), result, grid=made.grid, place=made.place)
    step = _step(sample, noise)
    measure = BlockMeasure(
        sample.kind, aggregate.argument, sample.low, sample.high, step, sample.blocks
    )
    return Sampled(kept(relation, frame), measure, over, value, content, secrets.randbits(63))


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
