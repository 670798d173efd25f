"""Lowers aggregates and windows over one owner's rows: the same bits in every order of the rows."""

from __future__ import annotations

from collections.abc import Callable

from dp_sql.errors import InternalError
from dp_sql.executor.lower_expression import literal, lower
from dp_sql.executor.lower_measure import grid
from dp_sql.plan.expression import Column, Expression, columns_of
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.row_aggregates import SHAPES, moment_of
from dp_sql.plan.rows import Grid, Order, RowAggregate, RowAggregateKind, WindowFunction
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import DOUBLE, SqlType

_Kind = RowAggregateKind
_EXACT_ROWS = 2**31  # up to so many rows n * sum(a^2) fits a HUGEINT, for |a| <= 2^30

Naming = Callable[[Column], str]


def aggregate_sql(aggregate: RowAggregate, name: Naming) -> str:
    """Return DuckDB's text of an aggregate over one owner's rows.

    Claim:   it raises for no rows, and gives the same bits whatever order the rows come in.
    Why:     counts, extremes, quantiles and truth values don't depend on order; of what comes first,
             last or most often the values themselves break the ties; sums are of whole numbers and
             decimals, or of whole steps of a grid, exact in a HUGEINT that can't overflow; means,
             variances, covariances and roots are one expression over such sums.
    Assumes: the typing (`plan.row_aggregates`) lets no sum in whose type could overflow.
    Source:  [McSherry2009]
    """
    kind, argument = aggregate.kind, aggregate.argument
    if kind is _Kind.COUNT_ROWS:
        return "count(*)"
    if argument is None:
        raise InternalError("this aggregate takes an argument")
    text = lower(argument, name)
    match kind:
        case _Kind.COUNT:
            return f"count({text})"
        case _Kind.COUNT_DISTINCT:
            return f"count(DISTINCT {text})"
        case _Kind.SUM_DISTINCT:
            return _cast(f"sum(DISTINCT {text})", aggregate.column.type)
        case _Kind.AVG_DISTINCT:
            return f"(CAST(sum(DISTINCT {text}) AS DOUBLE) / count(DISTINCT {text}))"
        case _Kind.ARG_MIN | _Kind.ARG_MAX:
            return _at(aggregate, text, name)
        case _Kind.MIN | _Kind.MAX:
            return f"{kind.value.lower()}({text})"
        case _Kind.MODE:
            order = (
                f" ORDER BY {text}" if columns_of(argument) else ""
            )  # DuckDB takes a constant amiss
            return f"mode({text}{order})"
        case _Kind.FIRST | _Kind.LAST | _Kind.ELEMENT:
            order = ", ".join([*(order_sql(o, name) for o in aggregate.order), text])
            if kind is _Kind.ELEMENT:
                return f"list_extract(list({text} ORDER BY {order}), {aggregate.element})"
            return f"{kind.value.lower()}({text} ORDER BY {order})"
        case _Kind.COVAR_POP:
            return _covariance(aggregate, text, argument, name)
        case _Kind.BOOL_AND | _Kind.BOOL_OR:
            return f"{kind.value.lower()}({text})"
        case _Kind.MEDIAN | _Kind.QUANTILE_CONT | _Kind.QUANTILE_DISC:
            return _quantile(aggregate, text)
        case _Kind.SUM:
            if aggregate.grid is None:
                return _cast(f"sum({text})", aggregate.column.type)
            return _scaled(f"sum({_steps(text, argument, aggregate.grid)})", aggregate.grid)
        case _Kind.AVG:
            if aggregate.grid is None:
                return f"(CAST(sum({text}) AS DOUBLE) / count({text}))"
            steps = _steps(text, argument, aggregate.grid)
            return f"({_scaled(f'sum({steps})', aggregate.grid)} / count({steps}))"
        case _Kind.MAD:
            return f"mad({text})"
        case _ if kind in SHAPES:
            if aggregate.grid is None:
                raise InternalError("a moment needs a grid")
            return _shape(kind, _steps(text, argument, aggregate.grid))
        case _:
            if aggregate.grid is None:
                raise InternalError("a variance needs a grid")
            return _variance(kind, _steps(text, argument, aggregate.grid), aggregate.grid)


def _at(aggregate: RowAggregate, text: str, name: Naming) -> str:
    """Return ARG_MIN or ARG_MAX: rows are compared by both values, and need both."""
    if aggregate.by is None:
        raise InternalError("ARG_MIN and ARG_MAX compare a value")
    by = lower(aggregate.by, name)
    both = f"{by} IS NOT NULL AND {text} IS NOT NULL"
    place = f"CASE WHEN {both} THEN struct_pack(a := {by}, b := {text}) END"
    return f"{aggregate.kind.value.lower()}({text}, {place})"


def _cast(text: str, type_: SqlType) -> str:
    return f"CAST({text} AS {type_})"


def _steps(text: str, argument: Expression, chosen: Grid) -> str:
    measure = SumMeasure(argument, chosen.low, chosen.high, chosen.step)
    return grid(measure, (text, argument.type))


def _scaled(text: str, chosen: Grid) -> str:
    return f"(CAST({text} AS DOUBLE) * {literal(float(chosen.step), DOUBLE)})"


def _quantile(aggregate: RowAggregate, text: str) -> str:
    if aggregate.kind is _Kind.MEDIAN:
        return f"median({text})"
    if aggregate.fraction is None:
        raise InternalError("a quantile has a place")
    place = literal(float(aggregate.fraction), DOUBLE)
    return f"{aggregate.kind.value.lower()}({text}, {place})"


def _variance(kind: RowAggregateKind, a: str, chosen: Grid, over: str = "") -> str:
    """Return a variance or its root from the exact n, sum a and sum a^2 of the steps a.

    n * q - s^2 is a whole number that is rounded once, where it fits a HUGEINT; with more rows than
    that each part is rounded by itself. over: the OVER of a window.
    """
    n, s, q = f"count({a}){over}", f"sum({a}){over}", f"sum({a} * {a}){over}"
    exact = f"CAST({n} * {q} - {s} * {s} AS DOUBLE)"
    rough = (
        f"(CAST({n} AS DOUBLE) * CAST({q} AS DOUBLE) - CAST({s} AS DOUBLE) * CAST({s} AS DOUBLE))"
    )
    spread = f"CASE WHEN {n} < {_EXACT_ROWS} THEN {exact} ELSE greatest({rough}, 0) END"
    sample = kind in (_Kind.VAR_SAMP, _Kind.STDDEV_SAMP)
    least, less = (2, f"({n} - 1)") if sample else (1, n)
    square = literal(float(chosen.step**2), DOUBLE)
    value = f"{spread} / CAST({n} AS DOUBLE) / CAST({less} AS DOUBLE) * {square}"
    if kind in (_Kind.STDDEV_POP, _Kind.STDDEV_SAMP):
        value = f"sqrt({value})"
    return f"(CASE WHEN {n} >= {least} THEN {value} END)"


def _shape(kind: RowAggregateKind, a: str) -> str:
    """Return a skewness or a kurtosis from the exact n and sums of the powers of the steps a.

    They don't depend on the step, nor on where it begins. With S_k the sum of a^k, central moments are
    whole numbers over powers of n: n^2 m2 = n S2 - S1^2, n^3 m3 = n^2 S3 - 3 n S1 S2 + 2 S1^3 and
    n^4 m4 = n^3 S4 - 4 n^2 S1 S3 + 6 n S1^2 S2 - 3 S1^4, each rounded once where it fits a HUGEINT, for
    |a| <= 2^19 (`planner.row_grids`); with more rows each part is rounded by itself. As in DuckDB they
    are NULL over fewer rows than they need, and over a constant.
    """
    sums = {"n": f"count({a})", "s1": f"sum({a})", "s2": f"sum({a} * {a})"}
    sums |= {"s3": f"sum({a} * {a} * {a})", "s4": f"sum(CAST({a} AS HUGEINT) * {a} * {a} * {a})"}
    packed = ", ".join(f"{field} := {text}" for field, text in sums.items())
    return once(f"struct_pack({packed})", lambda packed: _shape_of(kind, packed))


def _shape_of(kind: RowAggregateKind, packed: str) -> str:
    """Return a skewness or a kurtosis from the name of a struct of the sums."""
    fields = {field: f"{packed}.{field}" for field in ("s1", "s2", "s3", "s4")}
    count = f"{packed}.n"

    def moment(terms: str, rows: int) -> str:
        whole = terms.format(n=f"CAST({count} AS HUGEINT)", **fields)
        floats = {field: f"CAST({text} AS DOUBLE)" for field, text in fields.items()}
        rough = terms.format(n=f"CAST({count} AS DOUBLE)", **floats)
        return f"(CASE WHEN {count} <= {rows} THEN CAST({whole} AS DOUBLE) ELSE {rough} END)"

    second = moment("({n} * {s2} - {s1} * {s1})", 2**31)
    n = f"CAST({count} AS DOUBLE)"
    if kind is _Kind.SKEWNESS:
        third = moment("({n} * {n} * {s3} - 3 * {n} * {s1} * {s2} + 2 * {s1} * {s1} * {s1})", 2**21)
        value = f"{third} / ({second} * sqrt(greatest({second}, 0))) "
        value += f"* sqrt({n} * greatest({n} - 1, 0)) / ({n} - 2)"
        return f"(CASE WHEN {count} > 2 AND {second} > 0 THEN {value} END)"
    fourth = moment(
        "({n} * {n} * {n} * {s4} - 4 * {n} * {n} * {s1} * {s3} "
        "+ 6 * {n} * {s1} * {s1} * {s2} - 3 * {s1} * {s1} * {s1} * {s1})",
        2**11,
    )
    ratio = f"({fourth} / {second} / {second})"
    if kind is _Kind.KURTOSIS_POP:
        return f"(CASE WHEN {count} > 1 AND {second} > 0 THEN {ratio} - 3 END)"
    value = f"({n} - 1) * (({n} + 1) * {ratio} - 3 * ({n} - 1)) / (({n} - 2) * ({n} - 3))"
    return f"(CASE WHEN {count} > 3 AND {second} > 0 THEN {value} END)"


def _covariance(aggregate: RowAggregate, text: str, argument: Expression, name: Naming) -> str:
    """Return a covariance from the exact n, sums and sum of products of the steps a and b."""
    second, one, two = aggregate.second, aggregate.grid, aggregate.second_grid
    if second is None or one is None or two is None:
        raise InternalError("a covariance needs two grids")
    a, b = _steps(text, argument, one), _steps(lower(second, name), second, two)
    n, s, t, p = f"count({a})", f"sum({a})", f"sum({b})", f"sum({a} * {b})"
    exact = f"CAST({n} * {p} - {s} * {t} AS DOUBLE)"
    rough = (
        f"(CAST({n} AS DOUBLE) * CAST({p} AS DOUBLE) - CAST({s} AS DOUBLE) * CAST({t} AS DOUBLE))"
    )
    spread = f"CASE WHEN {n} < {_EXACT_ROWS} THEN {exact} ELSE {rough} END"
    area = literal(float(one.step * two.step), DOUBLE)
    return f"(CASE WHEN {n} >= 1 THEN {spread} / CAST({n} AS DOUBLE) / CAST({n} AS DOUBLE) * {area} END)"


def order_sql(order: Order, name: Naming) -> str:
    """Return the text of an item of ORDER BY."""
    direction = "DESC" if order.descending else "ASC"
    nulls = "FIRST" if order.nulls_first else "LAST"
    return f"{lower(order.expression, name)} {direction} NULLS {nulls}"


def window_sql(function: WindowFunction, name: Naming) -> str:
    """Return DuckDB's text of a window function over one owner's rows.

    Claim:   its value on a row doesn't depend on the order in which rows are read.
    Why:     the partition is one owner's rows, and the order is total up to equal rows wherever
             the function could tell peers apart. Quantiles and distinct values are of a frame's
             values, whatever their order.
    Assumes: the parser completes the order (`parser.windows`); sums are of whole numbers, decimals
             or steps.
    Source:  [McSherry2009]
    """
    arguments = ", ".join(lower(a, name) for a in function.arguments) or (
        "*" if function.name == "count" else ""
    )
    call = f"{function.name}({arguments}{' IGNORE NULLS' if function.ignore_nulls else ''})"
    if function.name == "count_distinct":
        call = f"count(DISTINCT {arguments})"
    if function.grid is not None:
        argument = function.arguments[0]
        call = f"{function.name}({_steps(lower(argument, name), argument, function.grid)})"
    parts = []
    if function.partition:
        parts.append("PARTITION BY " + ", ".join(lower(e, name) for e in function.partition))
    if function.order:
        parts.append("ORDER BY " + ", ".join(order_sql(o, name) for o in function.order))
    if function.frame:
        parts.append(function.frame)
    over, moment = f" OVER ({' '.join(parts)})", moment_of(function)
    if moment is not None:
        if function.grid is None:
            raise InternalError("a variance needs a grid")
        argument = function.arguments[0]
        steps = _steps(lower(argument, name), argument, function.grid)
        return _variance(moment, steps, function.grid, over)
    text = f"{call}{over}"
    return text if function.grid is None else _scaled(text, function.grid)
