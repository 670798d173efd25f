"""Aggregates of a release: what a call of the text asks of the block's rows, or why it isn't answered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dp_sql.errors import InternalError, Position, QueryError
from dp_sql.parser import aggregates, contribution, rewrites, sample_calls
from dp_sql.parser.bin_calls import Bins, bins_of
from dp_sql.parser.choices import Asked, asked, result_type
from dp_sql.parser.distinct_rows import Values, is_of_values
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.links import conjunction
from dp_sql.parser.nearby import collected
from dp_sql.parser.pair_calls import two_arguments
from dp_sql.parser.scope import Scope, Statement
from dp_sql.parser.text import position_of
from dp_sql.parser.vector_calls import NAME as VECTOR_SUM
from dp_sql.parser.vector_calls import vector_of
from dp_sql.plan import functions
from dp_sql.plan.block import Sample
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.histogram import Bin, Choice, Extreme
from dp_sql.plan.nulls import null_on
from dp_sql.plan.release import PAIRS, Aggregate, AggregateKind
from dp_sql.plan.rows import Rows
from dp_sql.plan.vector import Entry
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

_ARG_MAX = (
    "it shows one row",
    (
        "the most frequent among the largest: SELECT MODE(x) FROM t WHERE y >= "
        "(SELECT QUANTILE_CONT(y, 0.99) FROM t), or ORDER BY an aggregate of groups with LIMIT 1"
    ),
)
_ARG_MIN = (
    _ARG_MAX[0],
    _ARG_MAX[1].replace(">=", "<=").replace("0.99", "0.01").replace("largest", "smallest"),
)
_REFUSED = {
    **dict.fromkeys(("ARG_MAX", "ARGMAX", "MAX_BY"), _ARG_MAX),
    **dict.fromkeys(("ARG_MIN", "ARGMIN", "MIN_BY"), _ARG_MIN),
}  # why, and what to write instead
_COLLECTING = ("LIST", "ARRAY_AGG", "STRING_AGG", "GROUP_CONCAT", "LISTAGG")
_SHOWN = (
    "the values that are shown as groups: SELECT STRING_AGG(x, ',') FROM (SELECT x … GROUP BY x)"
)
_COUNTS = (AggregateKind.COUNT_STAR, AggregateKind.COUNT, AggregateKind.COUNT_OWNERS)


class AggregateCalls:
    """The aggregates of one block: equal ones are one. Their names are columns of its release.

    owners, padded: the numbers of the owners' columns, and of those that an outer join pads. rows: what
    the block reads. values: what these rows stand for where it is distinct values.
    """

    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        binder: Expressions,
        owners: Collection[int],
        padded: Collection[int],
        rows: Rows,
        values: Values | None = None,
    ) -> None:
        self._statement = statement
        self._scope = scope
        self._binder = binder
        self._owners = owners
        self._padded = padded
        self._rows = rows
        self._values = values
        self.found: list[Aggregate] = []
        self._names: dict[Aggregate, str] = {}  # of each that was found, itself without a name
        self._placed: tuple[exp.Expr, Position | None] | None = None

    def columns(self, call: aggregates.Call) -> tuple[list[str], bool]:
        """Return the columns that a call stands for, and whether they are a list's.

        Raises QueryError for a call that isn't answered.
        """
        if self._values is not None and not is_of_values(call):
            return [self._of_values(call, self._values)], False
        if self._counts_values(call):
            return [self._distinct(call)], False
        if call.kind in PAIRS:
            return [self._of_two(call, call.kind)], False
        if call.name == VECTOR_SUM:
            return self._of_vector(call), True
        if call.name == sample_calls.NAME:
            return [self._sampled(call)], False
        chosen = asked(self._statement, call)
        if chosen is not None:
            return self._chosen(call, chosen), chosen.listed
        return [self._aggregate(call)], False

    def require_of_values(self, call: aggregates.Call) -> None:
        """Raise UnsupportedSQLError where the rows are distinct values and the call isn't of those."""
        if self._values is None or is_of_values(call):
            return
        if call.name != "COUNT" or call.extra:
            node = call.node.this if isinstance(call.node, exp.Filter) else call.node
            raise self._statement.unsupported(
                "DISTINCT over the rows of several persons is answered below COUNT, MIN and MAX, "
                f"not {self._statement.word(node) or call.name}.",
                call.node,
                hint="COUNT(*)",
                tries=(self._statement.with_call(call.node, "COUNT(*)"),),
            )

    def _of_values(self, call: aggregates.Call, values: Values) -> str:
        """Return the released column of COUNT over distinct rows: how many combinations there are."""
        tests: list[Expression] = []
        if call.argument is not None:
            if aggregates.has_aggregate(call.argument):
                raise self._statement.wrong("an aggregate can't stand in an aggregate.", call.node)
            argument = self._binder.bind(call.argument)
            if not isinstance(argument, Literal) or argument.value is None:
                tests.append(functions.call("is_not_null", (argument,)))
        if call.condition is not None:
            tests.append(self._binder.bind_condition(call.condition))
        _, bounds = contribution.bounded(
            self._statement, call, AggregateKind.COUNT, None, self._binder
        )
        counted: tuple[Expression, ...] = tuple(Ref(column) for column in values.columns)
        first = _where(tests) if tests else None
        return self._added(
            call,
            AggregateKind.COUNT_DISTINCT,
            first,
            sqltype.BIGINT,
            bounds,
            values=counted if first is None else (first, *counted),
        )

    def binned(self, call: aggregates.Call) -> tuple[Bins, list[str]] | None:
        """Return the bins of a call and the released columns of their counts; None for other calls."""
        bins = bins_of(self._statement, call, self._binder, self._rows, self._owners, self._padded)
        if bins is None:
            return None
        kind, whole = AggregateKind.HISTOGRAM, sqltype.BIGINT
        places = [Bin(place, bins.size) for place in range(bins.size)]
        return bins, [self._added(call, kind, bins.place, whole, choice=p) for p in places]

    def _aggregate(self, call: aggregates.Call) -> str:
        """Return the released column of an aggregate; equal aggregates share one."""
        if call.extra or call.kind is None:
            raise self._refuse_aggregate(call)
        kind, argument = call.kind, None
        if call.argument is not None:
            if aggregates.has_aggregate(call.argument):
                raise self._statement.wrong("an aggregate can't stand in an aggregate.", call.node)
            argument = self._binder.bind(call.argument)
        if self._padded and (argument is None or not null_on(argument, self._padded)):
            raise self._statement.not_private(
                f"this {call.name} would count rows of the public table that match nobody.",
                call.node,
                hint=f"COUNT({self._counted()}), or an inner join",
                tries=(self._statement.with_call(call.node, f"COUNT({self._counted()})"),),
            )
        if call.distinct:
            owned = isinstance(argument, Ref) and argument.column.number in self._owners
            if kind is not AggregateKind.COUNT or not owned:
                raise self._statement.unsupported(
                    f"{call.name}(DISTINCT …) is answered for the owner's column only.",
                    call.node,
                    hint=f"{self._owner_hint()}, or how many values: COUNT(DISTINCT …)",
                    tries=self._without_distinct(call),
                )
            if call.bounds:
                raise self._statement.unsupported(
                    "the owner's column counts each unit once.", call.bounds[0], hint="leave it out"
                )
            kind, argument = AggregateKind.COUNT_OWNERS, None
        if kind is AggregateKind.COUNT and (
            (isinstance(argument, Ref) and argument.column.number in self._owners)
            or (isinstance(argument, Literal) and argument.value is not None)
        ):
            kind, argument = AggregateKind.COUNT_STAR, None
        if kind not in _COUNTS and argument is not None and not _summable(argument.type):
            raise self._statement.wrong(
                f"{call.name} takes numbers, not {argument.type}.", call.argument
            )
        if (
            kind not in _COUNTS
            and isinstance(argument, Ref)
            and argument.column.number in self._owners
        ):
            raise self._statement.not_private(
                "the owner's column can be counted, not computed with.", call.argument
            )
        argument, bounds = contribution.bounded(self._statement, call, kind, argument, self._binder)
        if call.condition is not None:
            condition = self._binder.bind_condition(call.condition)
            value = Literal(1, sqltype.INTEGER) if argument is None else argument
            argument = functions.case(((condition, value),), Literal(None, sqltype.NULL))
            kind = AggregateKind.COUNT if kind is AggregateKind.COUNT_STAR else kind
        whole = kind in _COUNTS or (
            kind is AggregateKind.SUM
            and argument is not None
            and (argument.type.is_integer or argument.type.kind in (Kind.BOOLEAN, Kind.NULL))
        )
        result: SqlType = sqltype.BIGINT if whole else sqltype.DOUBLE
        return self._added(call, kind, argument, result, bounds)

    def _of_two(self, call: aggregates.Call, kind: AggregateKind) -> str:
        """Return the released column of an aggregate of two columns."""
        y, x = two_arguments(self._statement, call, self._binder, self._owners, self._padded)
        result = sqltype.BIGINT if kind is AggregateKind.REGR_COUNT else sqltype.DOUBLE
        return self._added(call, kind, y, result, second=x)

    def _of_vector(self, call: aggregates.Call) -> list[str]:
        """Return the released columns of a vector's sum, one an entry."""
        found = vector_of(self._statement, call, self._binder, self._owners, self._padded)
        entries = [Entry(place, found.max_norm) for place in range(len(found.entries))]
        first = self._added(
            call,
            AggregateKind.VECTOR_SUM,
            None,
            sqltype.DOUBLE,
            values=found.entries,
            entry=entries[0],
        )
        names = [a.name for a in self.found]
        start = names.index(first)
        for entry in entries[len(names) - start :]:  # none where the vector stands here already
            one = replace(self.found[start], name=f"a{len(self.found)}", entry=entry)
            self.found.append(one)
        return [a.name for a in self.found[start : start + len(entries)]]

    def _counts_values(self, call: aggregates.Call) -> bool:
        """Return whether a call is COUNT(DISTINCT x), or its approximation, of no owner's column."""
        approximate = call.name in ("APPROX_DISTINCT", "APPROX_COUNT_DISTINCT")
        if call.argument is None or not (approximate or (call.name == "COUNT" and call.distinct)):
            return False
        if approximate or isinstance(call.argument, exp.Tuple):
            return True
        argument = self._binder.bind(call.argument)
        return not (isinstance(argument, Ref) and argument.column.number in self._owners)

    def _distinct(self, call: aggregates.Call) -> str:
        """Return the released column of COUNT(DISTINCT x) or COUNT(DISTINCT (x, y))."""
        node = call.argument
        if node is None or call.extra or aggregates.has_aggregate(node):
            raise self._refuse_aggregate(call)
        several = isinstance(node, exp.Tuple)
        values = [self._binder.bind(n) for n in (node.expressions if several else [node])]
        if any(v.type.kind in (Kind.INTERVAL, Kind.NULL) for v in values):
            raise self._statement.unsupported("values of this type aren't counted.", node)
        if self._padded and not (len(values) == 1 and null_on(values[0], self._padded)):
            raise self._statement.not_private(
                f"this {call.name} would count rows of the public table that match nobody.",
                call.node,
                hint="an inner join",
            )
        argument, bounds = contribution.bounded(
            self._statement, call, AggregateKind.COUNT, values[0], self._binder
        )
        if argument is not None:
            values[0] = argument
        if call.condition is not None:
            condition = self._binder.bind_condition(call.condition)
            if several:
                values.insert(0, _where([condition]))
            else:
                values[0] = functions.case(((condition, values[0]),), Literal(None, sqltype.NULL))
        whole = several and call.condition is None
        return self._added(
            call,
            AggregateKind.COUNT_DISTINCT,
            None if whole else values[0],
            sqltype.BIGINT,
            bounds,
            values=tuple(values),
        )

    def _chosen(self, call: aggregates.Call, asked: Asked) -> list[str]:
        """Return the released column of each value that is chosen."""
        if aggregates.has_aggregate(asked.argument):
            raise self._statement.wrong("an aggregate can't stand in an aggregate.", call.node)
        argument = self._binder.bind(asked.argument)
        if isinstance(argument, Ref) and argument.column.number in self._owners:
            raise self._statement.not_private(
                f"{call.name} of the owner's column would be one person's.",
                asked.argument,
                hint=f"{self._owner_hint()}, how many there are",
                tries=self._counted_owners(call),
            )
        if self._padded and not null_on(argument, self._padded):
            raise self._statement.not_private(
                f"this {call.name} would read rows of the public table that match nobody.",
                call.node,
                hint="an inner join",
            )
        type_ = result_type(asked.kind, argument.type)
        if type_ is None:
            raise self._statement.not_private(
                f"{call.name} of {argument.type} values would be one person's.",
                asked.argument,
                hint=f"{call.name} of a number, a date or a timestamp",
            )
        value, bounds = contribution.bounded(
            self._statement, call, asked.kind, argument, self._binder
        )
        if value is None or bounds is not None:
            raise InternalError("a value is chosen from rows that are bounded one by one")
        if call.condition is not None:
            condition = self._binder.bind_condition(call.condition)
            value = functions.case(((condition, value),), Literal(None, sqltype.NULL))
        columns = []
        for choice in asked.choices:
            kind = asked.kind
            if isinstance(choice, Extreme):
                kind = AggregateKind.MAX if choice.largest else AggregateKind.MIN
            columns.append(self._added(call, kind, value, type_, choice=choice))
        return columns

    def _sampled(self, call: aggregates.Call) -> str:
        """Return the released column of an aggregate over random blocks."""
        argument, sample = sample_calls.read(
            self._statement, call, self._binder, self._owners, self._padded
        )
        return self._added(call, AggregateKind.SAMPLE, argument, sqltype.DOUBLE, sample=sample)

    def _added(
        self,
        call: aggregates.Call,
        kind: AggregateKind,
        argument: Expression | None,
        type_: SqlType,
        bounds: tuple[Fraction, Fraction] | None = None,
        choice: Choice | None = None,
        values: tuple[Expression, ...] = (),
        second: Expression | None = None,
        entry: Entry | None = None,
        sample: Sample | None = None,
    ) -> str:
        """Return the released column of an aggregate, that of an equal one where there is one."""
        if self._placed is None or self._placed[0] is not call.node:
            self._placed = call.node, position_of(self._statement.text, call.node)
        found = self._placed[1]
        place = None if found is None else (self._statement.text, found)
        made = Aggregate(
            "", kind, argument, type_, place, bounds, choice, values, second, entry, sample
        )
        if made not in self._names:  # places aren't compared
            self._names[made] = f"a{len(self.found)}"
            self.found.append(replace(made, name=self._names[made]))
        return self._names[made]

    def _counted(self) -> str:
        columns = (n for s in self._scope.sources for n in s.columns)
        named = (n.name for n in columns if n.column.number in self._padded)
        return next(named, "a column of the protected table")

    def _owner_hint(self) -> str:
        columns = (n for s in self._scope.sources for n in s.columns)
        named = (n.name for n in columns if n.column.number in self._owners)
        return next((f"COUNT(DISTINCT {name})" for name in named), "COUNT(*)")

    def _counted_owners(self, call: aggregates.Call) -> list[str | None]:
        found = self._statement.call(call.node)
        if found is None or not found[1]:
            return []
        return [self._statement.with_call(call.node, f"COUNT(DISTINCT {found[1][0]})")]

    def _without_distinct(self, call: aggregates.Call) -> list[str | None]:
        found = self._statement.call(call.node)
        (argument,) = found[1] if found is not None and len(found[1]) == 1 else ("",)
        return [self._statement.with_call(call.node, f"COUNT({argument})")] if argument else []

    def _refuse_aggregate(self, call: aggregates.Call) -> QueryError:
        if call.kind is not None:
            return self._statement.unsupported(
                f"this form of {call.name} isn't answered.", call.node
            )
        inner = call.node.this if isinstance(call.node, exp.Filter) else call.node
        name = self._statement.word(inner) or call.name
        reason, hint = _REFUSED.get(call.name, ("its result can be one person's value", None))
        found = self._statement.call(inner)
        new = None if found is None else rewrites.aggregate(name, found[1])
        counted = [] if found is None else [f"count(DISTINCT {each})" for each in found[1][:1]]
        return self._statement.unsupported(
            f"the aggregate {name} isn't answered: {reason}.",
            call.node,
            hint=hint
            or (_SHOWN if call.name in _COLLECTING else None)
            or new
            or "COUNT, SUM, AVG, VAR_*, STDDEV_*, CORR, REGR_*, MEDIAN, QUANTILE_CONT, MIN or MAX",
            tries=[
                *(collected(inner) if call.name in _COLLECTING else ()),
                *(self._statement.with_call(inner, each) for each in (new, *counted)),
            ],
        )


def _where(tests: list[Expression]) -> Expression:
    """Return TRUE where all tests are true, and NULL elsewhere."""
    true = Literal(value=True, type=sqltype.BOOLEAN)
    return functions.case(((conjunction(tests), true),), Literal(None, sqltype.NULL))


def _summable(kind: SqlType) -> bool:
    return kind.is_numeric or kind.kind in (Kind.BOOLEAN, Kind.NULL)
