"""Rows of one person at a time: grouped by the owner, with windows over each owner's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser import aggregates
from dp_sql.parser.correlated import require_own
from dp_sql.parser.expressions import Expressions, Hook
from dp_sql.parser.list_calls import LENGTHS, aggregate_of
from dp_sql.parser.lists import bracketed
from dp_sql.parser.person_pairs import PAIRS, pair_value
from dp_sql.parser.row_values import folded
from dp_sql.parser.scope import Scope, Statement
from dp_sql.parser.shares import averaged, largest_share
from dp_sql.parser.text import position_of
from dp_sql.plan import functions
from dp_sql.plan.expression import Cast, Column, Expression, Literal, Ref
from dp_sql.plan.row_aggregates import ORDERED, typed
from dp_sql.plan.rows import (
    GroupRows,
    Order,
    Project,
    RowAggregate,
    RowAggregateKind,
    Rows,
    SetKind,
    SetRows,
)
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.sensitivity.ownership import with_owner

_Kind = RowAggregateKind
_NAMES = {
    "SUM": _Kind.SUM, "AVG": _Kind.AVG, "MEAN": _Kind.AVG, "MIN": _Kind.MIN, "MAX": _Kind.MAX,
    "VAR_POP": _Kind.VAR_POP, "VARIANCE_POP": _Kind.VAR_POP, "VAR_SAMP": _Kind.VAR_SAMP,
    "VARIANCE": _Kind.VAR_SAMP, "STDDEV_POP": _Kind.STDDEV_POP, "STDDEV_SAMP": _Kind.STDDEV_SAMP,
    "STDDEV": _Kind.STDDEV_SAMP, "MEDIAN": _Kind.MEDIAN, "QUANTILE_CONT": _Kind.QUANTILE_CONT,
    "PERCENTILE_CONT": _Kind.QUANTILE_CONT, "QUANTILE_DISC": _Kind.QUANTILE_DISC,
    "PERCENTILE_DISC": _Kind.QUANTILE_DISC, "QUANTILE": _Kind.QUANTILE_DISC,
    "BOOL_AND": _Kind.BOOL_AND, "BOOL_OR": _Kind.BOOL_OR, "LOGICAL_AND": _Kind.BOOL_AND,
    "LOGICAL_OR": _Kind.BOOL_OR, "ANY_VALUE": _Kind.MIN, "ARBITRARY": _Kind.MIN,
    "MAD": _Kind.MAD, "SKEWNESS": _Kind.SKEWNESS, "KURTOSIS": _Kind.KURTOSIS,
    "KURTOSIS_POP": _Kind.KURTOSIS_POP, "MODE": _Kind.MODE, "FIRST": _Kind.FIRST, "LAST": _Kind.LAST,
}  # fmt: skip
_PLACES = {
    "ARG_MIN": _Kind.ARG_MIN, "ARGMIN": _Kind.ARG_MIN, "MIN_BY": _Kind.ARG_MIN,
    "ARG_MAX": _Kind.ARG_MAX, "ARGMAX": _Kind.ARG_MAX, "MAX_BY": _Kind.ARG_MAX,
}  # fmt: skip
_OF_DISTINCT = {_Kind.SUM: _Kind.SUM_DISTINCT, _Kind.AVG: _Kind.AVG_DISTINCT}
_ENDS = (_Kind.FIRST, _Kind.LAST)
_QUANTILES = (_Kind.QUANTILE_CONT, _Kind.QUANTILE_DISC)
ALLOWED = (
    "COUNT, SUM, AVG, MIN, MAX, VAR_*, STDDEV_*, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, ARG_MIN, "
    "ARG_MAX, MODE, MAD, SKEWNESS, KURTOSIS, FIRST and LAST with ORDER BY, COVAR_*, CORR, REGR_*, "
    "BOOL_AND, BOOL_OR, the length of a LIST, LIST(x ORDER BY y)[2], or MAX(x, 3)[2]"
)


class PersonGroups:
    """The groups of a block that keeps the owner: its keys and aggregates become columns.

    padded: they will be joined to rows that may have no group, for which a count is 0. sets: where
    there are several sets of keys, the places of each set's in `keys`; the owner is in all of them.
    """

    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        rows: Rows,
        keys: list[Expression],
        aliases: Mapping[str, exp.Expr] | None = None,
        hooks: tuple[Hook, ...] = (),
        *,
        padded: bool = False,
        sets: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self._statement = statement
        self._scope = scope
        self._rows = rows
        self._aliases = aliases or {}
        self._padded = padded
        self._inner = Expressions(scope, {}, hooks)
        self._keys: list[tuple[Column, Expression]] = []
        self._sets = [frozenset(keys[place] for place in one) for one in sets]
        for key in dict.fromkeys(keys):
            named = key.column if isinstance(key, Ref) else None
            if named is not None and not all(key in one for one in self._sets):
                named = statement.column(named.name, named.type)  # NULL in the other sets' groups
            self._keys.append((named or statement.column("key", key.type), key))
        self._aggregates: list[RowAggregate] = []

    def meaning(self, node: exp.Expr) -> Expression | None:
        """Return what a node means above the groups: an aggregate, a key; None for its parts to tell.

        Raises QueryError for a column that is neither.
        """
        collected = self._collected(node)
        if collected is not None:
            return collected
        binder = Expressions(self._scope, {}, (self.meaning,))
        most, mean = largest_share(node), averaged(node)
        if most is None and mean is not None:
            return binder.bind(mean)
        if most is not None:
            share = functions.call("/", (binder.bind(node.this), binder.bind(node.expression)))
            ends = (Literal(0.0, sqltype.DOUBLE), Literal(float(most), sqltype.DOUBLE))
            return functions.call("clamp", (share, *ends))
        call = None if isinstance(node, exp.Window) else aggregates.read(self._plain(node))
        if call is not None and call.name in PAIRS:
            return self._pair(call)
        if call is not None:
            found = Ref(self._aggregate(call))
            if self._padded and found.column.nullable is False:
                return functions.call("coalesce", (found, Literal(0, sqltype.BIGINT)))
            return found
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Var | exp.Window):
            return None
        if not isinstance(node, exp.Condition) or aggregates.has_aggregate(node):
            return None
        if isinstance(node, exp.Subquery | exp.Exists | exp.In) and node.find(exp.Query):
            return None
        try:
            bound = with_owner(self._rows, Expressions(self._scope).bind(node))
        except QueryError:  # its parts will tell
            bound = None
        if bound is not None:
            for column, key in self._keys:
                if key == bound:
                    return Ref(column)
        if isinstance(node, exp.Column):
            self._bare(node)
        return None

    def _plain(self, node: exp.Expr) -> exp.Expr:
        """Return the aggregate that a form stands for, or the node: any value may be the smallest."""
        if isinstance(node, exp.Filter) and isinstance(node.this, exp.IgnoreNulls):
            return exp.Filter(this=self._plain(node.this), expression=node.expression)
        if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
            return node.this
        return node

    def _collected(self, node: exp.Expr) -> Expression | None:
        """Return what is taken of a list of one person's values: its length, or one of its elements.

        None for other nodes. A list holds its NULLs, one if it is DISTINCT; of no rows it is NULL.
        """
        summed = aggregate_of(node)
        if summed is not None:
            return Expressions(self._scope, {}, (self.meaning,)).bind(summed)
        node = bracketed(node)
        inner = node.this.unnest() if isinstance(node, (exp.Bracket, *LENGTHS)) else None
        if isinstance(node, exp.Bracket) and isinstance(inner, exp.ArraySort | exp.Max | exp.Min):
            return self._ranked(node, inner)
        listed = inner.this if isinstance(inner, exp.Filter) else inner
        call = aggregates.read(inner) if inner and isinstance(listed, exp.ArrayAgg) else None
        if call is None or call.extra or call.argument is None:
            return None
        if isinstance(node, exp.Bracket):
            place = _place(node)
            if place is None or call.distinct or not isinstance(call.argument, exp.Order):
                raise self._statement.unsupported(
                    "an element of a LIST is one of an order, not of distinct values, at a constant "
                    "place.",
                    call.node,
                    hint="LIST(x ORDER BY y)[1], or MIN(x)",
                )
            value, order = self._ordered(call, call.argument)
            bound = self._filtered(call, self._inner.bind(value))
            return Ref(self._kept(call, _Kind.ELEMENT, bound, order=order, element=place + 1))
        ordered = isinstance(call.argument, exp.Order)
        bound = self._inner.bind(call.argument.this if ordered else call.argument)
        if ordered:
            self._ordered(call, call.argument)  # the length needs no order, but it may be wrong
        one, none = (Literal(i, sqltype.BIGINT) for i in (1, 0))
        call = replace(call, name="COUNT")
        rows = Ref(
            self._kept(call, _Kind.COUNT_ROWS, None)
            if call.condition is None
            else self._kept(call, _Kind.COUNT, self._filtered(call, one))
        )
        length: Expression = rows
        if call.distinct:
            bound = self._filtered(call, bound)
            known = functions.call(">", (rows, Ref(self._kept(call, _Kind.COUNT, bound))))
            values = Ref(self._kept(call, _Kind.COUNT_DISTINCT, bound))
            length = functions.call("+", (values, functions.case(((known, one),), none)))
        return length if call.condition is None else functions.call("nullif", (length, none))

    def _ranked(self, node: exp.Bracket, inner: exp.Expr) -> Expression | None:
        """Return an element of a sorted list of one person's values, or of their n largest.

        The n largest are those that aren't NULL: past them an element is NULL, as it is here.
        """
        place = _place(node)
        most = inner.args.get("count")
        sort = isinstance(inner, exp.ArraySort)
        call = aggregates.read(inner.this.unnest() if sort else inner)
        if place is None or call is None or call.argument is None or call.distinct:
            return None
        if sort:
            if call.extra or not isinstance(call.node, exp.ArrayAgg) or call.condition is not None:
                return None
            asc, first = (inner.args.get(k) for k in ("asc", "nulls_first"))
            down = isinstance(asc, exp.Boolean) and not asc.this
            nulls = isinstance(first, exp.Boolean) and bool(first.this)
            ordered = isinstance(call.argument, exp.Order)
            argument = call.argument.this if ordered else call.argument
        else:
            if most is None:
                return None
            constant = isinstance(most, exp.Literal) and most.is_int
            if not constant or not 0 <= place < int(most.name):
                raise self._statement.unsupported(
                    f"an element of the n values of {call.name} is one from 1 to n, both constants.",
                    call.node,
                    hint=f"{call.name}(x, 3)[2]",
                )
            down, nulls, argument = isinstance(inner, exp.Max), False, call.argument
        bound = self._inner.bind(argument)
        order = (Order(bound, down, nulls),)
        return Ref(self._kept(call, _Kind.ELEMENT, bound, order=order, element=place + 1))

    def _bare(self, node: exp.Column) -> None:
        found = self._scope.find(node)
        if found is None:
            if not node.table and ascii_lower(node.name) in self._aliases:
                return
            raise self._scope.unknown(node)
        if all(found.number != n.column.number for s in self._scope.sources for n in s.columns):
            return  # a column of the block around a subquery
        raise self._statement.wrong(
            f"{node.name!r} has many values in a group.",
            node,
            hint=f"put {node.name} into GROUP BY, or aggregate it",
        )

    def keys(self) -> list[Column]:
        """Return the columns of the keys."""
        return [column for column, _ in self._keys]

    def column_of(self, key: Expression) -> Column:
        """Return the column that a key has become."""
        return next(column for column, known in self._keys if known == key)

    def added(self, kind: RowAggregateKind, argument: Expression, name: str) -> Column:
        """Return the column of one more aggregate."""
        column = self._statement.column(name, argument.type)
        self._aggregates.append(RowAggregate(kind, argument, column))
        return column

    def relation(self, rows: Rows | None = None) -> Rows:
        """Return the groups, once everything above them is bound.

        rows: what is grouped where the arguments' subqueries have added columns to it.
        """
        source = self._rows if rows is None else rows
        if not self._sets:
            keys, expressions = zip(*self._keys, strict=True) if self._keys else ((), ())
            return GroupRows(source, keys, expressions, tuple(self._aggregates))
        columns = (*self.keys(), *(a.column for a in self._aggregates))
        first, *others = (self._groups_of(source, one) for one in self._sets)
        for other in others:
            last = other is others[-1]
            made = columns if last else tuple(self._fresh(c) for c in columns)
            first = SetRows(SetKind.UNION_ALL, first, other, made)
        return first

    def _fresh(self, column: Column) -> Column:
        return self._statement.column(column.name, column.type, nullable=column.nullable)

    def _groups_of(self, source: Rows, one: frozenset[Expression]) -> Rows:
        """Return the groups of one set of keys: the other keys are NULL."""
        own = {key: self._fresh(column) for column, key in self._keys if key in one}
        made = [replace(a, column=self._fresh(a.column)) for a in self._aggregates]
        groups = GroupRows(source, tuple(own.values()), tuple(own), tuple(made))
        values: list[Expression] = [
            Ref(own[key])
            if key in own
            else functions.cast(Literal(None, sqltype.NULL), column.type)
            for column, key in self._keys
        ]
        values += [Ref(a.column) for a in made]
        columns = (*self.keys(), *(a.column for a in self._aggregates))
        return Project(groups, tuple(self._fresh(c) for c in columns), tuple(values))

    def _aggregate(self, call: aggregates.Call) -> Column:
        if call.bounds:
            raise self._statement.unsupported(
                "contribution bounds belong to an aggregate over many units, not over one's own rows.",
                call.bounds[0],
                hint="CLAMP(x, low, high)",
            )
        if call.name == "COUNT_IF" and not call.extra:
            return self._count_if(call)
        kind, argument, fraction = self._read(call)
        order: tuple[Order, ...] = ()
        if kind in _ENDS:
            argument, order = self._ordered(call, argument, last=kind is _Kind.LAST)
        bound = None if argument is None else self._inner.bind(argument)
        by = self._by(call) if kind in _PLACES.values() else None
        if call.condition is not None and kind is _Kind.COUNT_ROWS:
            kind, bound = _Kind.COUNT, Literal(1, sqltype.INTEGER)
        if bound is not None:
            bound = self._filtered(call, bound)
        return self._kept(call, kind, bound, fraction=fraction, by=by, order=order)

    def _filtered(self, call: aggregates.Call, value: Expression) -> Expression:
        """Return a value that is NULL where the aggregate's FILTER isn't true."""
        if call.condition is None:
            return value
        condition = self._inner.bind_condition(call.condition)
        return functions.case(((condition, value),), Literal(None, sqltype.NULL))

    def _kept(
        self, call: aggregates.Call, kind: RowAggregateKind, bound: Expression | None, **rest: Any
    ) -> Column:
        """Return the column of an aggregate; equal ones are one. rest: of `RowAggregate`."""
        try:
            bound, type_ = typed(kind, bound)
        except functions.TypeProblem as problem:
            raise self._statement.wrong(f"{problem}.", call.node) from None
        counted = kind in (_Kind.COUNT, _Kind.COUNT_ROWS, _Kind.COUNT_DISTINCT)
        column = self._statement.column(call.name.lower(), type_, nullable=not counted)
        found = position_of(self._statement.text, call.node)
        place = None if found is None else (self._statement.text, found)
        made = RowAggregate(kind, bound, column, place=place, **rest)
        require_own(self._scope, call.node, made.read)
        for known in self._aggregates:
            if replace(made, column=known.column) == known:
                return known.column
        self._aggregates.append(made)
        return column

    def _count_if(self, call: aggregates.Call) -> Column:
        """Return COUNT_IF: the sum of ones and zeros, NULL where there are neither, as in DuckDB."""
        node = call.node.this if isinstance(call.node, exp.Filter) else call.node
        bound = self._inner.bind_condition(
            node.this if isinstance(node, exp.CountIf) else node.expressions[0]
        )
        if isinstance(call.node, exp.Filter):
            where = self._inner.bind_condition(call.node.expression.this)
            bound = functions.case(((where, bound),), Literal(None, sqltype.NULL))
        return self._kept(call, _Kind.SUM, bound)

    def _ordered(
        self, call: aggregates.Call, argument: exp.Expr | None, *, last: bool = False
    ) -> tuple[exp.Expr, tuple[Order, ...]]:
        """Return what FIRST, LAST or an element of LIST gives, and its order.

        The rows of a FILTER come before the others, for LAST after them.
        """
        ordered = isinstance(argument, exp.Order) and argument.this is not None
        if not ordered or argument is None:
            raise self._statement.unsupported(
                f"{call.name} needs an order.",
                call.node,
                hint=f"{call.name}(x ORDER BY y)",
                tries=(self._statement.with_arguments(call.node, "{0} ORDER BY {0}"),),
            )
        items = []
        if call.condition is not None:
            passes = self._filtered(call, Literal(1, sqltype.INTEGER))
            items.append(Order(passes, descending=False, nulls_first=last))
        for item in argument.expressions:
            value = self._inner.bind(item.this)
            items.append(
                Order(value, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
            )
        return argument.this, tuple(items)

    def _pair(self, call: aggregates.Call) -> Expression:
        """Return a covariance, a correlation or a part of a regression, from exact sums."""
        y, x = (self._inner.bind(part) for part in self._two(call))
        both = folded("and", [functions.call("is_not_null", (e,)) for e in (y, x)])
        if call.condition is not None:
            both = folded("and", [self._inner.bind_condition(call.condition), both])
        try:
            y, x = (
                functions.cast(
                    functions.case(((both, e),), Literal(None, sqltype.NULL)), sqltype.DOUBLE
                )
                for e in (y, x)
            )
        except functions.TypeProblem as problem:
            raise self._statement.wrong(f"{problem}.", call.node) from None
        if not all(e.operand.type.is_numeric for e in (y, x) if isinstance(e, Cast)):
            raise self._statement.wrong(f"{call.name} takes numbers.", call.node)

        def part(kind: RowAggregateKind, value: Expression) -> Expression:
            second = {"second": x} if kind is _Kind.COVAR_POP else {}
            return Ref(self._kept(call, kind, value, **second))

        count = part(_Kind.COUNT, y)
        if self._padded and call.name == "REGR_COUNT":
            return functions.call("coalesce", (count, Literal(0, sqltype.BIGINT)))
        return pair_value(call.name, part, count, y, x)

    def _read(
        self, call: aggregates.Call
    ) -> tuple[RowAggregateKind, exp.Expr | None, Fraction | None]:
        """Return the kind, the argument and the place of an aggregate, or refuse it."""
        if call.name in ("COUNT", "COUNT_IF"):
            if call.extra:
                raise self._form(call)
            if call.argument is None:
                return _Kind.COUNT_ROWS, None, None
            return (_Kind.COUNT_DISTINCT if call.distinct else _Kind.COUNT), call.argument, None
        if call.name in _PLACES:
            return _PLACES[call.name], self._two(call)[0], None
        kind = _NAMES.get(call.name)
        if kind is None:
            raise self._statement.unsupported(
                f"the aggregate {call.name} isn't answered over one person's rows.",
                call.node,
                hint=ALLOWED,
            )
        if kind in _QUANTILES:
            return self._quantile(kind, call)
        argument = call.argument
        inner = call.node.this if isinstance(call.node, exp.Filter) else call.node
        if isinstance(inner, exp.Anonymous) and len(inner.expressions) == 1:
            argument = inner.expressions[0]
        elif call.extra:
            raise self._form(call)
        if call.distinct:
            if kind in (_Kind.MIN, _Kind.MAX, _Kind.BOOL_AND, _Kind.BOOL_OR):
                return kind, argument, None
            if kind not in _OF_DISTINCT:
                raise self._form(call)
            kind = _OF_DISTINCT[kind]
        return kind, argument, None

    def _two(self, call: aggregates.Call) -> tuple[exp.Expr, exp.Expr]:
        """Return both arguments of ARG_MIN or ARG_MAX."""
        inner = call.node.this if isinstance(call.node, exp.Filter) else call.node
        parts = (
            inner.expressions
            if isinstance(inner, exp.Anonymous)
            else [inner.this, inner.args.get("expression")]
        )
        if len(parts) != 2 or None in parts or inner.args.get("count") or call.distinct:
            raise self._form(call)
        return parts[0], parts[1]

    def _by(self, call: aggregates.Call) -> Expression:
        """Return what ARG_MIN or ARG_MAX compares."""
        by = self._inner.bind(self._two(call)[1])
        if not by.type.is_numeric and by.type.kind not in ORDERED:
            raise self._statement.unsupported(
                f"{call.name} doesn't compare values of type {by.type}.", call.node
            )
        return by

    def _quantile(
        self, kind: RowAggregateKind, call: aggregates.Call
    ) -> tuple[RowAggregateKind, exp.Expr, Fraction]:
        inner = call.node.this if isinstance(call.node, exp.Filter) else call.node
        if isinstance(inner, exp.WithinGroup):
            order = inner.expression
            items = order.expressions if isinstance(order, exp.Order) else []
            if len(items) != 1 or items[0].args.get("desc"):
                raise self._form(call)
            argument, place = items[0].this, inner.this.this
        else:
            parts = inner.expressions if isinstance(inner, exp.Anonymous) else [
                inner.this, inner.args.get("quantile") or inner.args.get("expression"),
            ]  # fmt: skip
            if len(parts) != 2 or call.distinct:
                raise self._form(call)
            argument, place = parts
        if not isinstance(place, exp.Literal) or place.is_string:
            raise self._statement.unsupported(
                f"the place of {call.name} is a constant from 0 to 1.", call.node
            )
        fraction = Fraction(place.name)
        if not 0 <= fraction <= 1:
            raise self._statement.wrong(f"{place.name} isn't between 0 and 1.", place)
        return kind, argument, fraction

    def _form(self, call: aggregates.Call) -> Exception:
        return self._statement.unsupported(f"this form of {call.name} isn't answered.", call.node)


def _place(node: exp.Bracket) -> int | None:
    """Return which element of a list is taken, where it is a constant: one less than is written."""
    place = node.expressions[0] if len(node.expressions) == 1 else None
    sign = 1
    if isinstance(place, exp.Neg):
        place, sign = place.this, -1
    return sign * int(place.name) - 1 if isinstance(place, exp.Literal) and place.is_int else None
