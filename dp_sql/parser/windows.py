"""Window functions over private rows: each over the rows of one owner, in an order that is total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.parser import examples, nearby
from dp_sql.parser.correlated import require_own
from dp_sql.parser.expressions import Expressions, Hook
from dp_sql.parser.frames import LARGEST, frame_of
from dp_sql.parser.scope import Scope, Statement
from dp_sql.parser.text import position_of
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.relation import output
from dp_sql.plan.row_aggregates import typed
from dp_sql.plan.rows import Order, RowAggregateKind, Rows, WindowFunction, WindowRows
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import BIGINT, DOUBLE, NULL, SqlType
from dp_sql.sensitivity.ownership import holds_owner, owner_of, owners_of

_PLAIN: Mapping[type[exp.Expr], tuple[str, SqlType]] = {
    exp.RowNumber: ("row_number", BIGINT),
    exp.Rank: ("rank", BIGINT),
    exp.DenseRank: ("dense_rank", BIGINT),
    exp.PercentRank: ("percent_rank", DOUBLE),
    exp.CumeDist: ("cume_dist", DOUBLE),
}
_VALUES: Mapping[type[exp.Expr], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_AGGREGATES: Mapping[type[exp.Expr], tuple[str, RowAggregateKind]] = {
    exp.Count: ("count", RowAggregateKind.COUNT),
    exp.Sum: ("sum", RowAggregateKind.SUM),
    exp.Avg: ("avg", RowAggregateKind.AVG),
    exp.Min: ("min", RowAggregateKind.MIN),
    exp.Max: ("max", RowAggregateKind.MAX),
    exp.Variance: ("var_samp", RowAggregateKind.VAR_SAMP),
    exp.VariancePop: ("var_pop", RowAggregateKind.VAR_POP),
    exp.Stddev: ("stddev_samp", RowAggregateKind.STDDEV_SAMP),
    exp.StddevSamp: ("stddev_samp", RowAggregateKind.STDDEV_SAMP),
    exp.StddevPop: ("stddev_pop", RowAggregateKind.STDDEV_POP),
    exp.LogicalAnd: ("bool_and", RowAggregateKind.BOOL_AND),
    exp.LogicalOr: ("bool_or", RowAggregateKind.BOOL_OR),
    exp.CountIf: ("sum", RowAggregateKind.SUM),  # of a condition
    exp.Median: ("median", RowAggregateKind.MEDIAN),
    exp.PercentileCont: ("quantile_cont", RowAggregateKind.QUANTILE_CONT),
    exp.PercentileDisc: ("quantile_disc", RowAggregateKind.QUANTILE_DISC),
    exp.Quantile: ("quantile_disc", RowAggregateKind.QUANTILE_DISC),
}
_PLACES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile)
_ONE_BY_ONE = (
    "row_number",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
)  # fmt: skip  functions that tell peers apart
_ALLOWED = (
    "ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE, "
    "LAST_VALUE, NTH_VALUE, COUNT, SUM, AVG, MIN, MAX, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, VAR_*, "
    "STDDEV_*"
)


class Windows:
    """The windows of one block; each becomes a column.

    rows: what they are over; of groups, their keys are enough. named: the block's WINDOW clause. keys:
    what every window is partitioned by besides, because the block's rows are those of one outer row
    (`correlated.keys_of`). hooks: what nodes mean inside a window.
    """

    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        rows: Rows,
        aliases: dict[str, exp.Expr],
        named: list[exp.Expr],
        keys: Sequence[Expression] = (),
        hooks: tuple[Hook, ...] = (),
    ) -> None:
        self._statement = statement
        self._scope = scope
        self._binder = Expressions(scope, aliases, hooks)
        self._rows = rows
        self._owners = owners_of(rows)
        self._named = {ascii_lower(w.name): w for w in named}
        self._keys = keys
        self._functions: list[WindowFunction] = []
        self._one_by_one: set[int] = set()  # columns of functions that tell peers apart

    def meaning(self, node: exp.Expr) -> Expression | None:
        """Return the column that a window function becomes; None for every other node."""
        if not isinstance(node, exp.Window):
            return None
        partition, order, spec = self._parts(node)
        if not any(holds_owner(e, self._owners) for e in partition):
            owner = owner_of(self._rows)
            raise self._statement.not_private(
                "a window over the rows of several persons would let one change another's row.",
                node,
                hint="GROUP BY, or the window above the aggregate: SUM(COUNT(*)) OVER ()"
                if owner is None
                else f"PARTITION BY {owner.name}, GROUP BY, or the window above the aggregate",
                tries=(
                    *nearby.of_groups(node),
                    examples.first_rows(self._rows, self._statement.catalog),
                ),
            )
        frame = frame_of(self._statement, spec, node, order)
        try:
            call, ignored = node.this, False
            if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) and type(call.this) in _VALUES:
                call, ignored = call.this, isinstance(call, exp.IgnoreNulls)
            name, arguments, type_ = self._function(call)
        except TypeProblem as problem:
            raise self._statement.wrong(f"{problem}.", node) from None
        found = position_of(self._statement.text, node)
        place = None if found is None else (self._statement.text, found)
        if frame.distant and name in _ONE_BY_ONE:
            raise self._statement.unsupported(
                f"{name} over a RANGE with a distance depends on the order of rows.",
                node,
                hint="MIN, MAX, SUM, COUNT or AVG, or ROWS",
            )
        read = (*arguments, *partition, *(item.expression for item in frame.order))
        require_own(self._scope, node, read)
        column = self._statement.column(name, type_)
        function = WindowFunction(
            name,
            arguments,
            tuple(partition),
            frame.order,
            frame.text,
            column,
            ignore_nulls=ignored,
            place=place,
        )
        for known in self._functions:
            if _same(known, function):
                return Ref(known.column)
        self._functions.append(function)
        if frame.counts_rows or name in _ONE_BY_ONE:
            self._one_by_one.add(column.number)
        return Ref(column)

    def __bool__(self) -> bool:
        """Return whether some window was met."""
        return bool(self._functions)

    def relation(self, rows: Rows) -> Rows:
        """Return rows with their windows, once all expressions are bound."""
        if not self._functions:
            return rows
        functions = (
            replace(f, order=_total(f.order, rows)) if f.column.number in self._one_by_one else f
            for f in self._functions
        )
        return WindowRows(rows, tuple(functions))

    def _parts(
        self, node: exp.Window
    ) -> tuple[list[Expression], list[Order], exp.WindowSpec | None]:
        used: exp.Expr = node
        base = node.args.get("alias")
        if base is not None:
            found = self._named.get(ascii_lower(base.name))
            if found is None:
                raise self._statement.wrong(f"no window is called {base.name!r}.", node)
            if node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
                raise self._statement.unsupported(
                    "a window that adds to a named one isn't answered.", node
                )
            used = found
        for key, value in node.args.items():
            known = ("this", "partition_by", "order", "spec", "alias", "over")
            if key not in known and value not in (None, False, []):
                raise self._statement.unsupported("this form of OVER isn't answered.", node)
        partition = [self._binder.bind(e) for e in used.args.get("partition_by") or []]
        partition += [key for key in self._keys if key not in partition]
        clause = used.args.get("order")
        order = [self._order(item) for item in (clause.expressions if clause else [])]
        spec = used.args.get("spec")
        return partition, order, spec if isinstance(spec, exp.WindowSpec) else None

    def _order(self, item: exp.Expr) -> Order:
        if not isinstance(item, exp.Ordered) or item.args.get("with_fill"):
            raise self._statement.unsupported("this form of ORDER BY isn't answered.", item)
        bound = self._binder.bind(item.this)
        return Order(bound, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))

    def _function(self, node: exp.Expr) -> tuple[str, tuple[Expression, ...], SqlType]:
        kind = type(node)
        if kind in _PLAIN and not any(v for v in node.args.values()):
            name, type_ = _PLAIN[kind]
            return name, (), type_
        if kind is exp.Ntile:
            return "ntile", (self._constant(node.this, least=1),), BIGINT
        if kind in _VALUES:
            return self._value(_VALUES[kind], node)
        filtered = isinstance(node, exp.Filter)
        inner = node.this if filtered else node
        if type(inner) in _AGGREGATES:
            test = node.expression if filtered else None
            return self._aggregate(inner, test.this if isinstance(test, exp.Where) else test)
        raise self._statement.unsupported(
            "this window function isn't answered over one person's rows.", node, hint=_ALLOWED
        )

    def _aggregate(
        self, node: exp.Expr, condition: exp.Expr | None
    ) -> tuple[str, tuple[Expression, ...], SqlType]:
        """Return an aggregate over a window, NULL in place of its argument where FILTER isn't true."""
        name, kind = _AGGREGATES[type(node)]
        argument, places = node.this, ("quantile", "expression")
        rest = {k: v for k, v in node.args.items() if v and k not in ("this", "big_int")}
        place = next((rest.pop(k) for k in places if k in rest and type(node) in _PLACES), None)
        apart = isinstance(argument, exp.Distinct)
        if apart and kind is RowAggregateKind.COUNT and len(argument.expressions) == 1:
            name, kind, argument = (
                "count_distinct",
                RowAggregateKind.COUNT_DISTINCT,
                argument.expressions[0],
            )
        elif apart or rest or (type(node) in _PLACES and place is None):
            raise self._statement.unsupported(f"this form of {name} isn't answered.", node)
        if name == "count" and (argument is None or isinstance(argument, exp.Star)):
            if condition is None:
                return name, (), BIGINT
            value: Expression = Literal(1, BIGINT)
        elif isinstance(node, exp.CountIf):
            value = self._binder.bind_condition(argument)
        else:
            value = self._binder.bind(argument)
        if condition is not None:
            passes = self._binder.bind_condition(condition)
            value = functions.case(((passes, value),), Literal(None, NULL))
        bound, type_ = typed(kind, value)
        assert bound is not None  # noqa: S101  it has an argument
        return name, (bound,) if place is None else (bound, self._fraction(place)), type_

    def _fraction(self, node: exp.Expr) -> Literal:
        """Return the place of a quantile."""
        if not isinstance(node, exp.Literal) or node.is_string or not 0 <= float(node.name) <= 1:
            raise self._statement.unsupported(
                "the place of a quantile is a constant from 0 to 1.", node
            )
        return Literal(float(node.name), DOUBLE)

    def _value(self, name: str, node: exp.Expr) -> tuple[str, tuple[Expression, ...], SqlType]:
        for key, value in node.args.items():
            if key not in ("this", "offset", "default") and value not in (None, False, []):
                raise self._statement.unsupported(f"this form of {name} isn't answered.", node)
        first = self._binder.bind(node.this)
        arguments = [first]
        if node.args.get("offset") is not None:
            arguments.append(self._constant(node.args["offset"], least=0))
        default = node.args.get("default")
        if default is not None and not isinstance(default, exp.Null):
            arguments.append(functions.cast(self._binder.bind(default), first.type))
        return name, tuple(arguments), first.type

    def _constant(self, node: exp.Expr, *, least: int) -> Literal:
        if (
            not isinstance(node, exp.Literal)
            or not node.is_int
            or not least <= int(node.name) <= LARGEST
        ):
            raise self._statement.unsupported(
                f"this is a constant from {least} to {LARGEST:,}.", node
            )
        return Literal(int(node.name), BIGINT)


def _total(order: tuple[Order, ...], rows: Rows) -> tuple[Order, ...]:
    """Return the order completed by every column of the rows.

    Claim:   rows that still tie are equal in every column, so which comes first can't be seen.
    Why:     all columns are among the items of the order.
    Assumes: equal values have equal bits (canonical rows).
    Source:  [McSherry2009]
    """
    read = {item.expression for item in order}
    more = [Order(Ref(c), descending=False, nulls_first=False) for c in output(rows)]
    return (*order, *(o for o in more if o.expression not in read))


def _same(first: WindowFunction, second: WindowFunction) -> bool:
    def parts(f: WindowFunction) -> tuple[object, ...]:
        return f.name, f.arguments, f.partition, f.order, f.frame, f.ignore_nulls

    return parts(first) == parts(second)
