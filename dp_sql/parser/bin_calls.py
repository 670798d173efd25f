"""HISTOGRAM(x), HISTOGRAM(x, bins) and HISTOGRAM_EXACT(x, values): a map of noisy counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import QueryError
from dp_sql.parser import aggregates
from dp_sql.parser.dialect import Reading
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.conversion import position
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.nulls import null_on
from dp_sql.plan.rows import Rows
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import Catalog, ColumnSpec, Scalar
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType
from dp_sql.sensitivity.ownership import scans_of

NAMES = ("HISTOGRAM", "HISTOGRAM_EXACT")
MOST_BINS = 1000
_SMALL = (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.UTINYINT, Kind.USMALLINT)
_ENDLESS = {
    Kind.FLOAT: "inf",
    Kind.DOUBLE: "inf",
    Kind.DATE: "infinity",
    Kind.TIMESTAMP: "infinity",
}


@dataclass(frozen=True, slots=True)
class Bins:
    """What a call counts. place: the number of a row's bin, NULL for none.

    keys: of the bins, in order. rest: the key of the rows beyond all bins, which are the last place;
    None where such rows don't count.
    """

    place: Expression
    keys: tuple[exp.Expr, ...]
    rest: exp.Expr | None

    @property
    def size(self) -> int:
        """How many counts there are."""
        return len(self.keys) + (self.rest is not None)


def bins_of(
    statement: Statement,
    call: aggregates.Call,
    binder: Expressions,
    rows: Rows,
    owners: Collection[int],
    padded: Collection[int],
) -> Bins | None:
    """Return the bins of a call, None for other aggregates.

    rows: what the block reads. owners, padded: the numbers of the owners' columns, and of those that an
    outer join pads. Raises QueryError for a call that isn't answered.
    """
    if call.name not in NAMES:
        return None
    function = call.node.this if isinstance(call.node, exp.Filter) else call.node
    parts = function.expressions
    exact = call.name == "HISTOGRAM_EXACT"
    listed = parts[1] if len(parts) == 2 else None
    if call.bounds or len(parts) not in ((2,) if exact else (1, 2)):
        raise _form(statement, call, parts)
    if any(aggregates.has_aggregate(part) for part in parts):
        raise statement.wrong("an aggregate can't stand in an aggregate.", call.node)
    argument = binder.bind(parts[0])
    if isinstance(argument, Ref) and argument.column.number in owners:
        raise statement.not_private(
            f"{call.name} of the owner's column would be everybody's.", parts[0]
        )
    if padded and not null_on(argument, padded):
        raise statement.not_private(
            f"this {call.name} would count rows of the public table that match nobody.",
            call.node,
            hint="an inner join",
        )
    if listed is None:
        found = _of_values(statement, call, parts, argument, rows)
    elif isinstance(listed, exp.Array):
        found = _of_list(statement, call, parts, argument, binder, exact=exact)
    else:
        raise _form(statement, call, parts)
    if call.condition is None:
        return found
    condition = binder.bind_condition(call.condition)
    place = functions.case(((condition, found.place),), Literal(None, sqltype.NULL))
    return Bins(place, found.keys, found.rest)


def shown(bins: Bins, columns: Sequence[exp.Expr]) -> exp.Expr:
    """Return the map of released counts. The rest has a key where its noisy count is above 0."""

    def mapped(keys: Sequence[exp.Expr], values: Sequence[exp.Expr]) -> exp.Expr:
        held = ([node.copy() for node in nodes] for nodes in (keys, values))
        first, second = (exp.Array(expressions=nodes) for nodes in held)
        return exp.Map(keys=first, values=second)

    if bins.rest is None:
        return mapped(bins.keys, columns)
    whole = mapped([*bins.keys, bins.rest], columns)
    some = exp.If(
        this=exp.GT(this=columns[-1].copy(), expression=exp.Literal.number(0)), true=whole
    )
    return exp.Case(ifs=[some], default=mapped(bins.keys, columns[:-1]))


def _of_values(
    statement: Statement,
    call: aggregates.Call,
    parts: list[exp.Expr],
    argument: Expression,
    rows: Rows,
) -> Bins:
    """Return a bin for each public value of a column."""
    values: Sequence[Scalar] = (False, True) if argument.type.kind is Kind.BOOLEAN else ()
    spec = _declared(rows, argument, statement.catalog)
    if spec is not None and spec.values is not None:
        values = spec.values
    elif spec is not None and spec.type.is_integer and spec.low is not None:
        low, high = int(str(spec.low)), int(str(spec.high))
        values = range(low, high + 1) if high - low < MOST_BINS else ()
    if not values or len(values) > MOST_BINS:
        raise statement.not_private(
            f"{call.name} counts up to {MOST_BINS:,} public values, and this expression has no such list.",
            parts[0],
            hint=_example(parts, argument),
        )
    constants = [Literal(v, argument.type) for v in values]
    keys = [exp.cast(_written(v), str(argument.type)) for v in values]
    place = _place("=", argument, constants, None)
    return Bins(place, tuple(keys), None)


def _of_list(
    statement: Statement,
    call: aggregates.Call,
    parts: list[exp.Expr],
    argument: Expression,
    binder: Expressions,
    *,
    exact: bool,
) -> Bins:
    """Return the bins of a list of constants: up to each, or with exact each itself."""
    nodes = parts[1].expressions
    if not 1 <= len(nodes) <= MOST_BINS:
        raise statement.unsupported(
            f"{call.name} takes from 1 to {MOST_BINS:,} bins.", parts[1], hint=_example(parts)
        )
    found: dict[Fraction | str, tuple[Expression, exp.Expr]] = {}
    for node in nodes:
        bound = binder.bind(node)
        where = position(bound)
        text = bound.value if isinstance(bound, Literal) and isinstance(bound.value, str) else None
        if where is None and text is None:
            raise statement.unsupported(
                f"the bins of {call.name} are constants.", node, hint=_example(parts)
            )
        found.setdefault((where or Fraction(0)) if text is None else text, (bound, node))
    places = sorted(found, key=lambda p: (isinstance(p, str), p))
    try:
        type_ = _key_type(argument, places)
        place = _place("=" if exact else "<=", argument, [found[p][0] for p in places], len(places))
    except TypeProblem:
        type_ = None
    if type_ is None or (type_.kind is Kind.VARCHAR and not exact):
        raise statement.unsupported(
            f"{call.name} takes numbers, dates or timestamps, and bins of their kind.",
            call.node,
            hint=_example(parts, argument),
        )
    keys = tuple(exp.cast(found[p][1].copy(), str(type_)) for p in places)
    rest = exp.cast(_rest(type_), str(type_))
    return Bins(place, keys, rest)


def _place(
    operator: str, argument: Expression, bounds: Sequence[Expression], beyond: int | None
) -> Expression:
    """Return the number of the first bound that holds, `beyond` for other rows but those with NULL."""
    branches = [
        (functions.call(operator, (argument, bound)), Literal(i, sqltype.INTEGER))
        for i, bound in enumerate(bounds)
    ]
    if beyond is not None:
        held = functions.call("is_not_null", (argument,))
        branches.append((held, Literal(beyond, sqltype.INTEGER)))
    return functions.case(tuple(branches), Literal(None, sqltype.NULL))


def _key_type(counted: Expression, places: Sequence[Fraction | str]) -> SqlType | None:
    """Return the type of the map's keys, as DuckDB has it.

    What is computed of BIGINT is HUGEINT here, so as not to overflow, and BIGINT in DuckDB.
    """
    argument = counted.type
    if argument.is_integer and all(isinstance(p, Fraction) and p.denominator == 1 for p in places):
        held = argument.kind is Kind.HUGEINT and isinstance(counted, Ref)
        if held or argument.kind is Kind.UBIGINT:
            return sqltype.HUGEINT
        low, high = INTEGER_BITS[Kind.INTEGER]
        small = all(low <= Fraction(p) <= high for p in places)
        return sqltype.INTEGER if small and argument.kind in _SMALL else sqltype.BIGINT
    if argument.is_numeric:
        return argument if argument.kind is Kind.FLOAT else sqltype.DOUBLE
    known = (Kind.DATE, Kind.TIMESTAMP, Kind.VARCHAR)
    return argument if argument.kind in known else None


def _rest(type_: SqlType) -> exp.Expr:
    if type_.kind in _ENDLESS:
        return exp.Literal.string(_ENDLESS[type_.kind])
    if type_.kind is Kind.VARCHAR:
        return exp.Literal.string("")
    return exp.Literal.number(INTEGER_BITS[type_.kind][1])


def _declared(rows: Rows, argument: Expression, catalog: Catalog) -> ColumnSpec | None:
    """Return the schema's column that an argument is as it stands, or None."""
    if not isinstance(argument, Ref):
        return None
    for scan in scans_of(rows):
        for own, source in zip(scan.columns, scan.sources, strict=True):
            if own.number == argument.column.number:
                return catalog.tables[scan.table].columns[source]
    return None


def _written(value: object) -> exp.Expr:
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, int | float | Decimal):
        return exp.Literal.number(str(value))
    return exp.Literal.string(
        value.isoformat() if isinstance(value, date | datetime) else str(value)
    )


def _example(parts: list[exp.Expr], argument: Expression | None = None) -> str:
    written = parts[0].sql(dialect=Reading) if parts else "x"
    if argument is not None and argument.type.kind is Kind.VARCHAR:
        return f"HISTOGRAM_EXACT({written}, ['a', 'b'])"
    return f"HISTOGRAM({written}, [10, 20, 30]), whose bins are all values up to each"


def _form(statement: Statement, call: aggregates.Call, parts: list[exp.Expr]) -> QueryError:
    return statement.unsupported(
        f"this form of {call.name} isn't answered.", call.node, hint=_example(parts)
    )
