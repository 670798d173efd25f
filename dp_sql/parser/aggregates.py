"""Which nodes of the text are aggregates, and which of those a release can hold."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser.dialect import BOUNDS
from dp_sql.plan.release import PAIRS, AggregateKind

_KINDS: Mapping[type[exp.Expr], AggregateKind] = {
    exp.Sum: AggregateKind.SUM,
    exp.Avg: AggregateKind.AVG,
    exp.Variance: AggregateKind.VAR_SAMP,
    exp.VariancePop: AggregateKind.VAR_POP,
    exp.Stddev: AggregateKind.STDDEV_SAMP,
    exp.StddevSamp: AggregateKind.STDDEV_SAMP,
    exp.StddevPop: AggregateKind.STDDEV_POP,
    exp.CovarPop: AggregateKind.COVAR_POP,
    exp.CovarSamp: AggregateKind.COVAR_SAMP,
    exp.Corr: AggregateKind.CORR,
    exp.RegrSlope: AggregateKind.REGR_SLOPE,
    exp.RegrIntercept: AggregateKind.REGR_INTERCEPT,
    exp.RegrR2: AggregateKind.REGR_R2,
    exp.RegrCount: AggregateKind.REGR_COUNT,
    exp.RegrAvgx: AggregateKind.REGR_AVGX,
    exp.RegrAvgy: AggregateKind.REGR_AVGY,
    exp.RegrSxx: AggregateKind.REGR_SXX,
    exp.RegrSyy: AggregateKind.REGR_SYY,
    exp.RegrSxy: AggregateKind.REGR_SXY,
}

# aggregates that the parser library reads as functions without a class of their own, some behind a dot
_ANONYMOUS = frozenset(
    "any_value arbitrary arg_max arg_min argmax argmin max_by min_by bit_and bit_or bit_xor "
    "bitstring_agg bool_and bool_or corr countif count_if covar_pop covar_samp entropy favg first fsum "
    "geomean geometric_mean group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last list "
    "listagg mad max median min mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy "
    "regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile "
    "sem skewness string_agg sumkahan sum_no_overflow approx_count_distinct approx_quantile "
    "approx_top_k top_k distance_to sample_and_aggregate array_agg json_group_array json_group_object "
    "json_group_structure lttb stats vector_sum arg_max_null arg_max_nulls_last arg_min_null "
    "arg_min_nulls_last avg combine_aggr count count_star decimal_average mean stddev stddev_pop stddev_samp "
    "sum var_pop var_samp variance variant_group_object wavg weighted_avg".split()
)


INTERVAL_ENDS: Mapping[str, bool] = {"dp_interval_low": False, "dp_interval_high": True}
"""The calls that stand for an end of an interval, and whether it is the upper one."""


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of the text. argument: None for COUNT(*); condition: of FILTER or COUNT_IF.

    bounds: its named contribution bounds, as the dialect gives them. second: of the kinds in `PAIRS`.
    """

    node: exp.Expr
    kind: AggregateKind | None  # None: an aggregate that a release can't hold
    name: str
    argument: exp.Expr | None
    distinct: bool
    condition: exp.Expr | None
    extra: bool  # the node holds more than is read here
    bounds: list[exp.Expr]
    second: exp.Expr | None = None


def aggregate_name(node: exp.Expr) -> str | None:
    """Return the name of the aggregate that `node` is, or None."""
    if isinstance(node, exp.AggFunc):
        return node.name.upper() if isinstance(node, exp.AnonymousAggFunc) else node.sql_name()
    if isinstance(node, exp.Anonymous) and node.name.lower() in _ANONYMOUS:
        return node.name.upper()
    if isinstance(node, exp.WithinGroup):
        return aggregate_name(node.this) or "WITHIN GROUP"
    return None


def is_interval(node: exp.Expr) -> bool:
    """Return whether `node` asks for an end of an interval around what a group's aggregates give."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in INTERVAL_ENDS


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether an aggregate stands in `node`, outside windows and subqueries."""
    if isinstance(node, exp.Query | exp.Subquery):
        return False
    if isinstance(node, exp.Window):
        return any(has_aggregate(child) for child in _window_children(node))
    if isinstance(node, exp.Filter) or aggregate_name(node) is not None or is_interval(node):
        return True
    return any(has_aggregate(child) for child in node.iter_expressions())


def _window_children(node: exp.Window) -> list[exp.Expr]:
    """Return what a window reads: the arguments of its function, its partition and its order."""
    function = node.this
    tests = [function.expression] if isinstance(function, exp.Filter) else []
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function = function.this
    inner = [*function.iter_expressions(), *tests]
    rest = [child for child in node.iter_expressions() if child is not node.this]
    return inner + rest


def _distance(
    node: exp.Expr, inner: exp.Anonymous, condition: exp.Expr | None, bounds: list[exp.Expr]
) -> Call:
    """Return DISTANCE_TO(p): how many rows have to go until p is true of all, so the rest of them."""
    arguments = inner.expressions
    wrong: exp.Expr | None = None
    if len(arguments) == 1:
        holds = exp.Coalesce(this=arguments[0].copy(), expressions=[exp.false()])
        wrong = exp.Not(this=holds)
        wrong = wrong if condition is None else exp.and_(condition, wrong)
    return Call(
        node,
        AggregateKind.COUNT_STAR,
        "DISTANCE_TO",
        None,
        distinct=False,
        condition=wrong,
        extra=wrong is None,
        bounds=bounds,
    )


def read(node: exp.Expr) -> Call | None:
    """Return the aggregate that `node` is, with its FILTER, or None where it isn't one."""
    condition: exp.Expr | None = None
    inner = node
    if isinstance(node, exp.Filter):
        where = node.expression
        inner, condition = node.this, where.this if isinstance(where, exp.Where) else where
    bounds: list[exp.Expr] = inner.args.get(BOUNDS) or []
    if isinstance(inner, exp.CountIf) or (
        isinstance(inner, exp.Anonymous) and inner.name.lower() == "count_if"
    ):
        chosen = inner.this if isinstance(inner, exp.CountIf) else inner.expressions[0]
        both = chosen if condition is None else exp.and_(condition, chosen)
        return Call(
            node,
            AggregateKind.COUNT_STAR,
            "COUNT_IF",
            None,
            distinct=False,
            condition=both,
            extra=False,
            bounds=bounds,
        )
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "distance_to":
        return _distance(node, inner, condition, bounds)
    name = aggregate_name(inner)
    if name is None:
        return None
    argument, distinct = inner.args.get("this"), False
    if isinstance(argument, exp.Distinct):
        distinct = True
        several = argument.expressions
        extra = len(several) != 1 or argument.args.get("on") is not None
        argument = several[0] if several else None
    else:
        extra = False
    kind = _KINDS.get(type(inner))
    second = inner.args.get("expression") if kind in PAIRS else None
    read_here = ("this", "big_int", BOUNDS, *(("expression",) if kind in PAIRS else ()))
    extra = extra or any(
        value not in (None, False, []) for key, value in inner.args.items() if key not in read_here
    )
    extra = extra or isinstance(second, exp.Order) or (second is None and kind in PAIRS)
    if isinstance(inner, exp.Count):
        star = argument is None or isinstance(argument, exp.Star)
        counted = AggregateKind.COUNT_STAR if star else AggregateKind.COUNT
        return Call(
            node, counted, name, None if star else argument, distinct, condition, extra, bounds
        )
    return Call(node, kind, name, argument, distinct, condition, extra, bounds, second)
