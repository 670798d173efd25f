"""EXPLAIN: what a statement would do, what it costs, how wrong its answers will be. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, assert_never

from dp_sql.charges import debit_lines, times
from dp_sql.mechanisms import tree
from dp_sql.mechanisms.choice import beyond, rank_error
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.distinct import Counter
from dp_sql.mechanisms.interval import laplace_half_width
from dp_sql.mechanisms.local import proposal
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.selection import Coins
from dp_sql.mechanisms.spread import has_public_noise, shown_half_width
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.facts import HistogramFacts
from dp_sql.plan.histogram import Bin, Choice, Extreme, Histogram, Popular, Quantile
from dp_sql.plan.printer import expression_text, measure_text, relation_text
from dp_sql.plan.relation import Measure, PresenceMeasure
from dp_sql.plan.release import (
    Aggregate,
    AggregateKind,
    ChoiceReadout,
    DistinctReadout,
    Release,
)
from dp_sql.plan.sampled import Sampled
from dp_sql.privacy.amount import show
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import Catalog, ChoiceKind
from dp_sql.stages import Prepared, Step

if TYPE_CHECKING:
    from dp_sql.budget.state import BudgetState

_FALSE_POSITIVES = Fraction(1, 20)


def explanation(
    prepared: Prepared,
    catalog: Catalog,
    states: Mapping[str, BudgetState],
    before: Mapping[str, str],
    learned: Mapping[str, Cost],
) -> str:
    """Return the explanation of a prepared statement.

    states: by lower-cased table name. before: of releases that were there before, what is said of that, by
    their names. learned: what counts against the analyst's own part of a table's budget, where that isn't
    the cost.
    """
    lines = [f"Note: {note}" for note in prepared.query.notes]
    if not prepared.steps:
        lines.append("Reads public data only: plain DuckDB, no noise, no cost.")
    else:
        lines.append(_protects(catalog))
    for stage in prepared.query.stages:
        of = f"of {', '.join(stage.releases)}" if stage.releases else "of public data alone"
        lines.append(f"Stage {stage.name}, {of}: {stage.sql}")
    for parsed in prepared.query.releases:
        steps = [step for step in prepared.steps if step.plan.release.name == parsed.name]
        if parsed.sets:
            lines += _joint(parsed, steps, consistent=catalog.consistent)
        for step in steps:
            lines += _step(step)
        if parsed.name in before:
            lines.append(f"  {before[parsed.name]}")
    lines.append("Above the releases: " + prepared.query.residual.sql)
    for table, cost in prepared.costs.items():
        name = catalog.tables[table].name
        lines.append(
            f"Cost to {name}: epsilon {show(cost.epsilon)}"
            + (f", delta {show(cost.delta)}" if cost.delta else "")
        )
        lines += [f"  {text}" for text in debit_lines(prepared, catalog, table)]
        lines.append(f"  {states[table].taken(cost.times(times(prepared, catalog, table)))}")
        lines += [f"  {text}" for text in states[table].lines()]
    lines += _over_all(prepared, states)
    if prepared.steps and not prepared.costs:
        why = (
            "it was released before"
            if before
            else "the answer depends on nothing that is protected"
        )
        lines.append(f"Cost: none, {why}.")
    for table, cost in learned.items():
        lines.append(
            f"Of your own part of {catalog.tables[table].name}: epsilon {show(cost.epsilon)}"
            + (f", delta {show(cost.delta)}" if cost.delta else "")
            + ", since you are shown it for the first time"
        )
    if prepared.costs:
        epsilon = max(c.epsilon for c in prepared.costs.values())
        delta = max(c.delta for c in prepared.costs.values())
        kept = catalog.unit.keeps_rows
        who, found = ("don't have it", "do") if kept else ("aren't there", "are")
        wrong = (
            "says a value of 5 % of those who" if kept else "is wrong about 5 % of the people who"
        )
        lines.append(
            f"An attacker who {wrong} {who} finds at most {_true_positives(epsilon, delta):.1%} of "
            f"those who {found}."
        )
    return "\n".join(lines)


def _over_all(prepared: Prepared, states: Mapping[str, BudgetState]) -> list[str]:
    """Return what the statement takes of the budget over all tables, where there is one."""
    people = next((s.people for s in states.values() if s.people is not None), None)
    if people is None:
        return []
    cost = reduce(Cost.then, prepared.costs.values())
    account = people.registration.account
    return [
        f"Cost over all tables: epsilon {show(cost.epsilon)}",
        f"  of {account}: {people.taken(cost)}",
    ]


def _protects(catalog: Catalog) -> str:
    unit = catalog.unit
    what = "one row" if unit.level is Level.EVENT else f"everything of one {unit.name}"
    many = f" (of {unit.group_size} at once)" if unit.group_size > 1 else ""
    match unit.adjacency:
        case Adjacency.ADD_REMOVE:
            how = "being there or not"
        case Adjacency.SUBSTITUTION:
            how = "being replaced by another"
        case Adjacency.ZERO_OUT:
            how = "holding its values or NULL"
        case Adjacency.METRIC:
            how = f"being at one place or another, up to {float(unit.radius or 0):g} metres away"
        case _:
            assert_never(unit.adjacency)
    return " ".join([f"Protects {what}{many} {how}.", *unprotected(catalog)])


def unprotected(catalog: Catalog, table: str | None = None) -> list[str]:
    """Return the sentence that says what this adjacency leaves open, none for those that hide rows.

    table: the lower-cased name of one table, of which alone it then speaks.
    """
    unit = catalog.unit
    names = [n for n, spec in catalog.tables.items() if not spec.public and table in (None, n)]
    match unit.adjacency:
        case Adjacency.ADD_REMOVE | Adjacency.SUBSTITUTION:
            return []
        case Adjacency.ZERO_OUT:
            columns = ", ".join(
                column.name if table is not None else f"{catalog.tables[name].name}.{column.name}"
                for name in names
                for key, column in catalog.tables[name].columns.items()
                if not unit.changes(name, key)
            )
            whose = "" if unit.level is Level.EVENT else " and whose they are"
            return [
                f"Not protected: that rows are there{whose}"
                + (f", and the columns {columns}." if columns else ".")
            ]
        case Adjacency.METRIC:
            places = sorted(c for t, c in unit.latitudes | unit.longitudes if t in names)
            rest = f"all columns but {', '.join(places)}, moves over more than the radius"
            return [f"Not protected: that a row is there, {rest}, and rows without a place."]
        case _:
            assert_never(unit.adjacency)


def _joint(parsed: Release, steps: list[Step], *, consistent: bool) -> list[str]:
    """Return what several sets of keys are together."""
    groups = [step.facts.groups for step in steps]
    touched = f"{' + '.join(map(str, groups))} = {sum(groups)}"
    lines = [
        f"Release {parsed.name} by {len(steps)} different sets of keys, one joint release:",
        f"  groups that a unit touches over all sets: at most {touched}",
    ]
    changes: dict[Measure | BlockMeasure, list[Change]] = {}
    for step in steps:
        for vector, fact in zip(step.plan.vectors, step.facts.vectors, strict=True):
            changes.setdefault(vector.measure, []).append(fact.change)
    for measure, found in changes.items():
        l1 = sum(change.l1 for change in found)
        l2 = math.sqrt(sum(change.l2_squared for change in found))
        lines.append(f"  {measure_text(measure)}: Δ1 = {l1}, Δ2 = {l2:.6g}")
    lines.append(
        "  counts and sums are adjusted so that totals are the sum of their parts, which narrows "
        "their noise"
        if consistent
        else "  totals are not adjusted to their parts (consistent: false)"
    )
    return lines


def _step(step: Step) -> list[str]:
    plan, facts, release = step.plan, step.facts, step.plan.release
    keys = ", ".join(
        f"{k.name} = {expression_text(k.expression)} ({'private' if i in plan.private else 'public'})"
        for i, k in enumerate(release.keys)
    )
    lines = [f"Release {release.name}" + (f" by {keys}" if keys else "")]
    lines += ["  " + line for line in relation_text(plan.relation).splitlines()]
    cells = "unknown" if facts.cells is None else str(facts.cells)
    lines.append(f"  owner: {facts.owner}; rows of a unit: {facts.rows}")
    lines.append(f"  groups that a unit touches: at most {facts.groups} of {cells}")
    chosen = step.measurement.selection
    for index, (vector, fact, noise) in enumerate(
        zip(plan.vectors, facts.vectors, step.measurement.noises, strict=True)
    ):
        lines.append(f"  vector v{index}: {measure_text(vector.measure)}")
        lines.append(f"    contribution: {fact.rule}")
        lines.append(f"    Δ1 = {fact.change.l1}, Δ2 = {math.sqrt(fact.change.l2_squared):.6g}")
        tossed = isinstance(chosen, Coins) and chosen.vector == index
        lines.append(f"    noise: {'none: only coins read it' if tossed else _noise(noise)}")
    for index, sampled in enumerate(plan.sampled, start=len(plan.summed)):
        lines.append(f"  rows of v{index}, in blocks by a keyed hash of {_decides(sampled)}:")
        lines += ["    " + line for line in relation_text(sampled.relation).splitlines()]
    for index, (histogram, proved) in enumerate(
        zip(plan.histograms, facts.histograms, strict=True)
    ):
        lines += _histogram(index, histogram, proved, step.measurement.choosers[index])
    for index, (distinct, proved) in enumerate(zip(plan.distincts, facts.distincts, strict=True)):
        lines += _distinct(index, distinct, proved)
    lines += _selection(step)
    for place, aggregate in enumerate(release.aggregates):
        lines.append(f"  {aggregate.name} = {_aggregate(aggregate)}: {_error(step, place)}")
    if step.measurement.cost == FREE:
        lines.append("  no noise and no cost")
    return lines


def _selection(step: Step) -> list[str]:
    """Return by which rule private keys are selected, with its figures."""
    plan, selection = step.plan, step.measurement.selection
    if selection is None:
        return []
    if isinstance(selection, Coins):
        rule = selection.rule
        half, always = rule.units
        return [
            (
                "  a private key is shown by a coin, by the optimal rule: half of the time from "
                f"{half} units on, always from {always} on; of one unit epsilon {show(rule.epsilon)}, delta "
                f"{show(rule.delta)}"
            )
        ]
    noises = step.measurement.noises
    measure = plan.vectors[selection.vector].measure
    weight = measure.weight if isinstance(measure, PresenceMeasure) else 0
    what = "weight of units" if weight else "number of units"
    rounds = [selection, *([step.measurement.second] if step.measurement.second else [])]
    needed = [r.threshold / noises[r.vector].lattice / (weight or 1) for r in rounds]
    kind = noises[selection.vector].kind
    named = "" if kind is NoiseKind.NONE else f" ({kind.value} noise)"
    again = (
        f", or in a second round, without the keys of the first, {needed[1]:.6g}"
        if len(needed) > 1
        else ""
    )
    shown = f"  a private key is shown when its noisy {what} reaches {needed[0]:.6g}{again}{named}"
    if not weight:
        shown += "; just above that, intervals hold the exact value less often than they say"
    return [shown]


def _histogram(
    index: int, histogram: Histogram, facts: HistogramFacts, chooser: Chooser
) -> list[str]:
    """Return what is counted for values that are chosen by their rank, and how they are chosen."""
    measure = histogram.measure
    argument = "?" if measure.argument is None else expression_text(measure.argument)
    low, high = histogram.ratios or (measure.low, measure.high)
    ends = f"[{float(low):g}, {float(high):g}]"
    ratio = " of one ratio" if histogram.ratios else ""
    candidates = measure.cells * histogram.fine + 1
    how = histogram.kind.value.replace("_", " ")
    delta = f", delta {show(chooser.delta)}" if histogram.kind.is_local else ""
    if any(isinstance(choice, Bin) for choice in histogram.choices):
        how = "all weights with Laplace noise"
    how = f"{how}, epsilon {show(chooser.epsilon)}{delta} each, {candidates} candidates"
    if histogram.together:
        how = how.replace(",", ", the histogram halved at one quantile after another,", 1)
    if histogram.kind is ChoiceKind.TREE:
        how = tree.described(histogram, chooser)
    return [
        f"  histogram h{index}: {argument} in {ends}, {measure.cells} steps{ratio}",
        *("    " + line for line in relation_text(histogram.relation).splitlines()),
        f"    contribution: {facts.rule}",
        f"    choice: {how}",
    ]


def _rank_error(step: Step, readout: ChoiceReadout) -> str:
    histogram = step.plan.histograms[readout.histogram]
    chooser = step.measurement.choosers[readout.histogram]
    rank = histogram.choices[readout.position]
    if histogram.kind.is_local:
        return _local_error(histogram, rank)
    if isinstance(rank, Bin):
        lattice, scale = chooser.laplace()
        return f"± {laplace_half_width(scale, 0.95) / lattice / histogram.unit:.6g} in 95 % of runs"
    if isinstance(rank, Popular):
        return "the heaviest value, or one with about as many rows"
    if isinstance(rank, Extreme):
        what = "upper" if rank.largest else "lower"
        return (
            f"a value about {beyond(histogram, rank, chooser):.3g} rows inside: an {what} quantile"
        )
    rows = rank_error(histogram, rank, chooser, 0.05)
    ties = ", or a 64th of the rows that share a value" if histogram.together else ""
    return f"off by at most {rows:.3g} rows in 95 % of runs{ties}, and one step of the grid"


def _local_error(histogram: Histogram, rank: Choice) -> str:
    """Return what is public of the error of a choice by local sensitivity."""
    if histogram.kind is ChoiceKind.SMOOTH_SENSITIVITY:
        return "its error depends on how dense the values are there, which is not public"
    if isinstance(rank, Quantile):
        most = f"{float(proposal(histogram, rank)):g}"
        return f"NULL, unless one unit could hardly move it by more than {most}"
    return "the heaviest value, or NULL where it isn't far ahead of the second"


def _decides(sampled: Sampled) -> str:
    return (
        f"the row ({', '.join(c.name for c in sampled.content)})"
        if sampled.content
        else "the owner"
    )


def _distinct(index: int, distinct: Distinct, facts: HistogramFacts) -> list[str]:
    """Return what is counted for distinct values."""
    lines = [f"  distinct values d{index}:"]
    lines += ["    " + line for line in relation_text(distinct.relation).splitlines()]
    lines.append(f"    contribution: {facts.rule}")
    if distinct.caps:
        lines.append(
            "    pairs of unit and value, hashed, 16 bytes each, pass through Python: a value counts "
            "where a unit vouches for it"
        )
    return lines


def _distinct_error(counter: Counter) -> str:
    widths = []
    for cap in (counter.caps[0], counter.caps[-1]):
        lattice, scale = counter.noise(cap)
        widths.append(laplace_half_width(scale, 0.95) / lattice)
    return (
        f"± {widths[0]:.6g} to {widths[1]:.6g} in 95 % of runs: for how many values a unit vouches is "
        "chosen by the data, with a tenth of the epsilon"
    )


def _aggregate(aggregate: Aggregate) -> str:
    if aggregate.entry is not None:
        first = aggregate.entry.place == 0
        entries = ", ".join(map(expression_text, aggregate.values)) if first else "…"
        limit = f"{float(aggregate.entry.max_norm):g}"
        return f"{aggregate.kind.value}([{entries}], {limit})[{aggregate.entry.place + 1}]"
    if aggregate.argument is None:
        return aggregate.kind.value
    argument = expression_text(aggregate.argument)
    if aggregate.kind is AggregateKind.COUNT_OWNERS:
        return f"{aggregate.kind.value} where {argument} is not NULL"
    if aggregate.sample is not None:
        argument = f"{aggregate.sample.kind.value} of {argument}"
    if aggregate.second is not None:
        argument += f", {expression_text(aggregate.second)}"
    return f"{aggregate.kind.value}({argument})"


def _noise(noise: VectorNoise) -> str:
    match noise.kind:
        case NoiseKind.NONE:
            return "none: no neighbour changes it"
        case NoiseKind.LAPLACE:
            return f"discrete Laplace of scale {noise.scale / noise.lattice:.6g} on each number"
        case NoiseKind.GAUSSIAN:
            return f"discrete Gaussian of sigma {noise.scale / noise.lattice:.6g} on each number"
        case _:
            assert_never(noise.kind)


def _error(step: Step, aggregate: int) -> str:
    """Return the error at 95 % of a count or sum, or why it isn't public."""
    readout = step.plan.readouts[aggregate]
    if isinstance(readout, ChoiceReadout):
        return _rank_error(step, readout)
    if has_public_noise(step.plan, step.measurement, aggregate):
        width = shown_half_width(step.plan, step.measurement, aggregate)
        return f"± {width:.6g} in 95 % of runs"
    if isinstance(readout, DistinctReadout):
        return _distinct_error(step.measurement.counters[readout.distinct])
    return "its error depends on how many rows there are, which is not public"


def _true_positives(epsilon: Fraction, delta: Fraction) -> float:
    """Return the best true-positive rate at a false-positive rate of 5 %. Source: [Kairouz2015]."""
    power = math.exp(min(float(epsilon), 700.0))
    false, slack = float(_FALSE_POSITIVES), float(delta)
    return min(1.0, power * false + slack, 1 - (1 - slack - false) / power)
