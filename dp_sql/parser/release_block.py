"""A block that mixes units: its release, and the rest of its text over the released table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.errors import InternalError, QueryError
from dp_sql.parser import aggregates, contribution, examples, options
from dp_sql.parser.choices import Asked, asked, result_type
from dp_sql.parser.dialect import unnamed
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.group_keys import grouping
from dp_sql.parser.links import belongs_to_one
from dp_sql.parser.names import deny_open
from dp_sql.parser.pair_calls import two_arguments
from dp_sql.parser.scope import Environment, Scope, Statement
from dp_sql.parser.subqueries import Subqueries
from dp_sql.parser.text import position_of
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, Ref, columns_of
from dp_sql.plan.histogram import Choice, Extreme
from dp_sql.plan.nulls import null_on
from dp_sql.plan.relation import Relation, inputs
from dp_sql.plan.release import GROUPING_SET, PAIRS, Aggregate, AggregateKind, Key, Release
from dp_sql.plan.rows import Rows, Scan
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.sensitivity.ownership import owner_of, owners_of

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks

_COUNTS = (AggregateKind.COUNT_STAR, AggregateKind.COUNT, AggregateKind.COUNT_OWNERS)
RELEASED = "released"  # the schema of released tables in the residual


class ReleaseBlock:
    """Rewrites one block: aggregates and keys become columns of a released table."""

    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        source: Rows,
        aliases: Mapping[str, exp.Expr],
        blocks: Blocks,
        env: Environment,
        padded: frozenset[int] = frozenset(),
    ) -> None:
        self._statement = statement
        self._source = source
        self._aliases = aliases
        self._blocks = blocks
        self._env = env
        self._padded = padded
        self._subqueries = Subqueries(statement, blocks, env, scope, (source,))
        self._binder = Expressions(scope, aliases, (self._subqueries.meaning,))
        self._plain = Expressions(scope)
        self._scope = scope
        self._owners = owners_of(source)
        self._keys: list[Key] = []
        self._written: list[tuple[exp.Expr, str]] = []  # keys as the text has them
        self._sets: list[tuple[int, ...]] = []
        self._aggregates: list[Aggregate] = []
        self._name, self._position = "", 0

    def rewrite(self, node: exp.Select, *, top: bool) -> exp.Select:
        """Return the block over its released table; the release joins the statement's releases."""
        self._begin()
        self._bind_keys(node, top=top)
        items = [self._item(item) for item in node.expressions]
        args: dict[str, object] = {
            "expressions": items,
            "from_": exp.From(this=exp.table_(self._name, db=RELEASED, quoted=True)),
        }
        having = node.args.get("having")
        if having is not None:
            args["where"] = exp.Where(this=self._open(having.this))
        for key in ("qualify", "order", "limit", "offset", "distinct", "windows"):
            value = node.args.get(key)
            if value is not None and value != []:
                args[key] = self._value(value)
        self._end()
        return exp.Select(**args)

    def by_columns(self, columns: list[Column], item: exp.Expr) -> exp.Select:
        """Return an expression over aggregates by some columns of the source, after these."""
        self._begin()
        self._keys = [Key(f"k{i}", Ref(column)) for i, column in enumerate(columns)]
        shown = [self._released(key.name) for key in self._keys]
        value = exp.Alias(this=self._open(item), alias=exp.to_identifier("value", quoted=True))
        self._end()
        source = exp.From(this=exp.table_(self._name, db=RELEASED, quoted=True))
        return exp.Select(expressions=[*shown, value], from_=source)

    def _begin(self) -> None:
        """Take a place among the releases, kept while subqueries add theirs."""
        options.check_owner(self._scope, frozenset(self._owners), self._env)
        self._position = len(self._statement.releases)
        self._name = f"r{self._position}"
        self._statement.releases.append(Release(self._name, self._source, (), (), ()))

    def _end(self) -> None:
        self._source = self._subqueries.applied(self._source)
        self._statement.releases[self._position] = Release(
            self._name,
            self._source,
            tuple(self._keys),
            tuple(self._aggregates),
            tuple(sorted(_protected_tables(self._source))),
            self._env.options,
            tuple(self._sets) if len(self._sets) > 1 else (),
        )

    def _bind_keys(self, node: exp.Select, *, top: bool) -> None:
        nodes, sets = grouping(self._statement, node)
        distinct = node.args.get("distinct")
        if (
            top
            and node.args.get("group") is None
            and distinct is not None
            and not any(aggregates.has_aggregate(i) for i in node.expressions)
        ):
            if distinct.args.get("on") is not None:
                raise self._statement.unsupported("DISTINCT ON isn't answered.", node)
            nodes = [i.unalias() for i in node.expressions]
        places = []
        for item in nodes:
            if isinstance(item, exp.Star) or aggregates.has_aggregate(item):
                raise self._statement.wrong("this can't be a GROUP BY key.", item)
            bound = self._binder.bind(item)
            self._check_key(bound, item)
            if len(sets) > 1 and not columns_of(bound):
                raise self._statement.unsupported(
                    "a constant can't be one of several sets' keys.",
                    item,
                    hint="leave it out of GROUP BY",
                )
            found = next((key for key in self._keys if key.expression == bound), None)
            if found is None:
                found = Key(f"k{len(self._keys)}", bound)
                self._keys.append(found)
            places.append(self._keys.index(found))
            self._written.append((self._behind(item), found.name))
        self._sets = [tuple(sorted({places[i] for i in one})) for one in sets]

    def _behind(self, item: exp.Expr) -> exp.Expr:
        """Return the expression that an alias names, or the item itself."""
        if isinstance(item, exp.Column) and not item.table and self._scope.find(item) is None:
            return self._aliases.get(ascii_lower(item.name), item)
        return item

    def _check_key(self, bound: Expression, node: exp.Expr) -> None:
        if bound.type.kind in (Kind.INTERVAL, Kind.NULL):
            raise self._statement.unsupported(f"a key of type {bound.type} isn't answered.", node)
        if any(c.number in self._padded for c in columns_of(bound)):
            raise self._statement.not_private(
                "this key is NULL for rows of the public table that match nobody.",
                node,
                hint="group by the public table's columns, or use an inner join",
            )
        if isinstance(bound, Ref) and bound.column.number in self._owners:
            raise self._statement.not_private(
                "a group for each person would show everybody's data.",
                node,
                hint="group by something that many people share, or average over persons",
                example=examples.per_person(self._source, self._statement.catalog),
            )
        if (
            self._owners
            and isinstance(bound, Ref)
            and belongs_to_one(self._source, bound.column, self._statement.catalog) is not None
        ):
            raise self._statement.not_private(
                f"every value of {bound.column.name} belongs to one person, so each group would "
                "show one person's data.",
                node,
                hint="group by something that many people share, or average over persons",
                example=examples.per_person(self._source, self._statement.catalog),
            )

    def _item(self, item: exp.Expr) -> exp.Expr:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            raise self._statement.wrong("* can't stand beside aggregates.", item)
        if isinstance(item, exp.Alias):
            return exp.Alias(this=self._open(item.this), alias=item.args["alias"].copy())
        name = item.name if isinstance(item, exp.Column) else unnamed(item)
        return exp.Alias(this=self._open(item), alias=exp.to_identifier(name, quoted=True))

    def _open(self, node: exp.Expr) -> exp.Expr:
        """Rewrite an expression above the aggregates."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        call = None if isinstance(node, exp.Window) else aggregates.read(node)
        if call is not None and self._counts_values(call):
            return self._released(self._distinct(call))
        if call is not None and call.kind in PAIRS:
            return self._released(self._of_two(call, call.kind))
        if call is not None:
            chosen = asked(self._statement, call)
            return (
                self._released(self._aggregate(call))
                if chosen is None
                else self._chosen(call, chosen)
            )
        if isinstance(node, exp.Query | exp.Subquery):
            return self._blocks.open_expression(node, self._env)
        key = self._key(node)
        if key is not None:
            return self._released(key)
        if isinstance(node, exp.Column):
            return self._bare(node)
        deny_open(self._statement, node)
        if isinstance(node, exp.Window):
            function = node.this
            inner = type(function)(**{k: self._value(v) for k, v in function.args.items()})
            rest = {k: self._value(v) for k, v in node.args.items() if k != "this"}
            return exp.Window(this=inner, **rest)
        return type(node)(**{k: self._value(v) for k, v in node.args.items()})

    def _value(self, value: object) -> object:
        if isinstance(value, exp.Expr):
            return self._open(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value

    def _released(self, column: str) -> exp.Expr:
        return exp.column(column, table=self._name, quoted=True)

    def _key(self, node: exp.Expr) -> str | None:
        """Return the released column of the key that `node` is, or None."""
        if not self._keys or isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Var):
            return None
        if not isinstance(node, exp.Condition) or aggregates.has_aggregate(node):
            return None
        if isinstance(node, exp.Column) and node.find(exp.Star) is not None:
            return None
        if node.find(exp.Query):
            return next((name for tree, name in self._written if tree == node), None)
        try:
            if isinstance(node, exp.Column) and self._scope.find(node) is None:
                return None  # an alias; `bind` would look for names that are like it
            bound = self._plain.bind(node)
        except QueryError:
            return None
        return next((key.name for key in self._keys if key.expression == bound), None)

    def _grouping(self, node: exp.Grouping | exp.GroupingId) -> exp.Expr:
        """Rewrite GROUPING(k, …): a bit for each key, 1 where the group's set is without it."""
        names = [key.name for key in self._keys]
        keys = [self._open(item) for item in node.expressions] if names else []
        if not keys or any(not isinstance(k, exp.Column) or k.name not in names for k in keys):
            raise self._statement.wrong(
                "GROUPING takes keys of the GROUP BY.",
                node,
                hint=None if names else "GROUP BY ROLLUP (…)",
            )
        places = [names.index(key.name) for key in keys]
        masks = ["".join("01"[place not in one] for place in places) for one in self._sets]
        released = self._released(GROUPING_SET)
        ifs = [
            exp.If(this=released.copy().eq(number), true=exp.Literal.number(int(mask, 2)))
            for number, mask in enumerate(masks)
        ]
        several = len(self._sets) > 1
        return exp.cast(exp.Case(ifs=ifs) if several else exp.Literal.number(0), "BIGINT")

    def _bare(self, node: exp.Column) -> exp.Expr:
        """Rewrite a column that is no key: an alias of the select list, or an error."""
        name = ascii_lower(node.name)
        if not node.table and name in self._aliases:
            target = self._aliases[name]
            if not any(
                isinstance(c, exp.Column) and ascii_lower(c.name) == name
                for c in target.find_all(exp.Column)
            ) or aggregates.has_aggregate(target):
                rewritten = self._open(target)
                return rewritten if isinstance(rewritten, exp.Column) else exp.Paren(this=rewritten)
        if self._scope.find(node) is None:
            raise self._scope.unknown(node)
        raise self._statement.wrong(
            f"{node.name!r} has many values in a group.",
            node,
            hint=f"put {node.name} into GROUP BY, or aggregate it",
        )

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
            )
        if call.distinct:
            owned = isinstance(argument, Ref) and argument.column.number in self._owners
            if kind is not AggregateKind.COUNT or not owned:
                raise self._statement.unsupported(
                    f"{call.name}(DISTINCT …) is answered for the owner's column only.",
                    call.node,
                    hint=self._owner_hint(),
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
            if several:
                raise self._statement.unsupported(
                    f"FILTER isn't answered with {call.name} of several columns.",
                    call.node,
                    hint="COUNT(DISTINCT CASE WHEN … THEN x END), or WHERE",
                )
            condition = self._binder.bind_condition(call.condition)
            values[0] = functions.case(((condition, values[0]),), Literal(None, sqltype.NULL))
        return self._added(
            call,
            AggregateKind.COUNT_DISTINCT,
            None if several else values[0],
            sqltype.BIGINT,
            bounds,
            values=tuple(values),
        )

    def _chosen(self, call: aggregates.Call, asked: Asked) -> exp.Expr:
        """Return the released column of a value that is chosen, or the list of several."""
        if aggregates.has_aggregate(asked.argument):
            raise self._statement.wrong("an aggregate can't stand in an aggregate.", call.node)
        argument = self._binder.bind(asked.argument)
        if isinstance(argument, Ref) and argument.column.number in self._owners:
            raise self._statement.not_private(
                f"{call.name} of the owner's column would be one person's.", asked.argument
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
            columns.append(self._released(self._added(call, kind, value, type_, choice=choice)))
        return exp.Array(expressions=columns) if asked.listed else columns[0]

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
    ) -> str:
        """Return the released column of an aggregate, that of an equal one where there is one."""
        name = f"a{len(self._aggregates)}"
        found = position_of(self._statement.text, call.node)
        place = None if found is None else (self._statement.text, found)
        made = Aggregate(name, kind, argument, type_, place, bounds, choice, values, second)
        for known in self._aggregates:
            if replace(made, name=known.name) == known:  # places aren't compared
                return known.name
        self._aggregates.append(made)
        return name

    def _counted(self) -> str:
        columns = (n for s in self._scope.sources for n in s.columns)
        named = (n.name for n in columns if n.column.number in self._padded)
        return next(named, "a column of the protected table")

    def _owner_hint(self) -> str:
        owner = owner_of(self._source)
        return "COUNT(*)" if owner is None else f"COUNT(DISTINCT {owner.name})"

    def _refuse_aggregate(self, call: aggregates.Call) -> QueryError:
        if call.kind is not None:
            return self._statement.unsupported(
                f"this form of {call.name} isn't answered.", call.node
            )
        return self._statement.unsupported(
            f"the aggregate {call.name} isn't answered: its result can be one person's value.",
            call.node,
            hint="COUNT, SUM, AVG, VAR_*, STDDEV_*, CORR, REGR_*, MEDIAN, QUANTILE_CONT, MIN or MAX",
        )


def _summable(kind: SqlType) -> bool:
    return kind.is_numeric or kind.kind in (Kind.BOOLEAN, Kind.NULL)


def _protected_tables(relation: Relation) -> set[str]:
    if isinstance(relation, Scan):
        return set() if relation.public else {relation.table}
    return {name for source in inputs(relation) for name in _protected_tables(source)}
