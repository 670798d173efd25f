"""Which keys are public, and their values: declared, bounded, read from public tables, or computed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from math import prod
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import UnsupportedSQLError
from dp_sql.plan.conversion import is_null
from dp_sql.plan.domain import Domain
from dp_sql.plan.domains import domain_of
from dp_sql.plan.expression import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Ref,
    children,
    columns_of,
)
from dp_sql.plan.functions import FUNCTIONS
from dp_sql.plan.public import Image, PublicFacts, PublicRows, ValueList
from dp_sql.plan.release import KeyChoice, KeySpace, Release
from dp_sql.plan.rows import Rows, StageScan
from dp_sql.planner.lineage import (
    column_domains,
    expand,
    finite_values,
    scan_column,
    scans,
)
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.sqltype import DOUBLE, Kind
from dp_sql.sensitivity.conditions import always_true

_ROUNDINGS = ("round", "floor", "ceil", "ceiling", "trunc")
_EXACT_PLACES = 15  # powers of ten up to here are floats
_DAY_0 = date(1970, 1, 1).toordinal()  # dates have domains in days since then
MOST_VALUES = 100_000  # of one column
MOST_CELLS = 1_000_000  # of all public keys together
_FIRST_PART = (
    1_000_000_000  # number of a column that stands for a part of a key; no statement has it
)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The keys of a release: spaces of public ones, positions of private ones."""

    public: tuple[KeySpace, ...]
    private: tuple[int, ...]


def plan_keys(release: Release, catalog: Catalog, public: PublicFacts, limit: int) -> KeyPlan:
    """Return which keys of a release are public, with all their values.

    limit: how many rows of one owner an aggregate over them may count.

    Claim:   the values of a public key come from the schema, the statement and public tables alone.
    Why:     each is enumerated from declared values, bounds, literals and public rows; the protected
             rows are not read, and rows outside the values are kept out of the release.
    Assumes: tables declared public are public.
    Source:  [Wilson2020]

    A statement may ask for all keys to be private, also those with public values, or for none.
    Raises UnsupportedSQLError where public keys have more than a million combinations, and for a
    private key where the statement wants public ones, or a least number of units without keys.
    """
    wanted = release.options.keys
    if release.options.min_units is not None and not release.keys:
        raise UnsupportedSQLError(
            "min_privacy_units_per_group needs a GROUP BY: without one there is a single row, always.",
            hint="leave it out",
        )
    if wanted is KeyChoice.PRIVATE or release.options.min_units is not None:
        return KeyPlan((), tuple(range(len(release.keys))))
    expanded = [expand(release.source, key.expression) for key in release.keys]
    spaces, private = _spaces(release, expanded, catalog, public, limit)
    if wanted is not KeyChoice.PUBLIC and _cells(spaces) > MOST_CELLS:
        private += [p for s in spaces for p in s.positions if _is_rounded(s, expanded)]
        spaces = [s for s in spaces if not _is_rounded(s, expanded)]
    _require_answerable(release, expanded, spaces, private)
    return KeyPlan(tuple(sorted(spaces, key=lambda s: s.positions)), tuple(sorted(private)))


def _spaces(
    release: Release,
    expanded: Sequence[Expression],
    catalog: Catalog,
    public: PublicFacts,
    limit: int,
) -> tuple[list[KeySpace], list[int]]:
    """Return the spaces of the keys that have public values, and the positions of the others."""
    domains = column_domains(release.source, catalog, limit)
    ranged = list(expanded)  # each over columns that have an end
    parts: dict[int, list[int]] = {}  # component -> positions
    spaces: list[KeySpace] = []
    private: list[int] = []
    numbers: dict[Expression, int] = {}
    sources: dict[int, tuple[dict[object, ValueList | PublicRows], frozenset[object]]] = {}
    for position, expression in enumerate(expanded):
        found = _sources(release, catalog, expression)
        image = None if found is not None else _image(expression, domains)
        if image is not None:
            spaces.append(KeySpace((position,), tuple((v,) for v in image)))
            continue
        if found is None:
            found = {}
            over = _over_parts(release, catalog, expression, _Parts(domains, found, numbers))
            if over is None:
                private.append(position)
                continue
            ranged[position] = over
        joined = [c for c, (_, ids) in sources.items() if ids & frozenset(found)]
        merged = dict(found)
        positions = [position]
        for component in joined:
            merged.update(sources.pop(component)[0])
            positions += parts.pop(component)
        sources[position] = (merged, frozenset(merged))
        parts[position] = sorted(positions)
    for component, positions in parts.items():
        found, conditions = _narrowed(release.source, sources[component][0])
        values = _enumerate(found, [ranged[p] for p in positions], conditions, public)
        if values is None:
            private += positions
        else:
            spaces.append(KeySpace(tuple(positions), values))
    return spaces, private


def _require_answerable(
    release: Release,
    expanded: Sequence[Expression],
    spaces: Sequence[KeySpace],
    private: Sequence[int],
) -> None:
    """Raise UnsupportedSQLError for more groups than are shown, and for private keys not to be had."""
    cells = _cells(spaces)
    if cells > MOST_CELLS:
        names = ", ".join(_label(expanded[p]) for s in spaces for p in s.positions)
        raise UnsupportedSQLError(
            f"the keys {names} have {cells:,} combinations, and each would be shown; at most "
            f"{MOST_CELLS:,} can be.",
            hint="group by fewer keys, or by coarser ones such as year(day)",
        )
    if not private:
        return
    names = ", ".join(_label(expanded[p]) for p in sorted(private))
    if release.padded:
        raise UnsupportedSQLError(
            f"this outer join shows every row of its public side, but the values of {names} aren't "
            "known before the protected rows are read.",
            hint="an inner join, or a public table or values of the statement as the preserved side",
        )
    if release.options.keys is KeyChoice.PUBLIC:
        raise UnsupportedSQLError(
            f"PUBLIC_GROUPS needs keys whose values are public, and those of {names} aren't.",
            hint="declare its values or bounds in the schema, join a public table and group by its "
            "column, or group_selection_strategy = LAPLACE_THRESHOLD",
        )


def _cells(spaces: Sequence[KeySpace]) -> int:
    """Return the number of combinations of all public keys."""
    return prod(max(1, len(space.values)) for space in spaces)


def _is_rounded(space: KeySpace, keys: Sequence[Expression]) -> bool:
    """Return whether some key of a space is made of rounded floats, of which there may be too many."""
    return any(_rounds(keys[position]) for position in space.positions)


def _rounds(expression: Expression) -> bool:
    own = isinstance(expression, Call) and expression.function in _ROUNDINGS
    return (own and expression.type == DOUBLE) or any(map(_rounds, children(expression)))


def _label(expression: Expression) -> str:
    columns = columns_of(expression)
    return columns[0].name if columns else "a constant"


def _sources(
    release: Release, catalog: Catalog, expression: Expression
) -> dict[object, ValueList | PublicRows] | None:
    """Return what the columns of a key range over, by an identity; None where one has no end."""
    found: dict[object, ValueList | PublicRows] = {}
    for column in columns_of(expression):
        origin = scan_column(release.source, column)
        if origin is None:
            return None
        scan, name, padded = origin
        if scan.public or isinstance(scan, StageScan):
            found["scan", scan.columns[0].number] = PublicRows(scan, padded)
            continue
        values = finite_values(catalog.tables[scan.table].columns[name], MOST_VALUES)
        if values is None:
            return None
        if padded and None not in values:
            values = (*values, None)
        found["column", column.number] = ValueList(column, values)
    return found


def _narrowed(
    rows: Rows, found: dict[object, ValueList | PublicRows]
) -> tuple[dict[object, ValueList | PublicRows], tuple[Expression, ...]]:
    """Return what a key ranges over with the public tables that it is joined with, and conditions.

    The conditions hold for every row and read these sources alone, so they leave out no row's key.
    """
    found = dict(found)
    conditions = [expand(rows, c) for c in always_true(rows)]
    public = {
        c.number: scan
        for scan, padded in scans(rows)
        if scan.public and not padded
        for c in scan.columns
    }
    grown = any(isinstance(source, PublicRows) for source in found.values())
    while grown:
        grown = False
        known = _columns(found)
        for condition in conditions:
            reads = {c.number for c in columns_of(condition)}
            equal = isinstance(condition, Call) and condition.function == "="
            more = reads - known
            if equal and reads & known and more and all(n in public for n in more):
                for number in more:
                    scan = public[number]
                    found["scan", scan.columns[0].number] = PublicRows(scan, padded=False)
                grown = True
                break
    known = _columns(found)
    reading = [
        c for c in conditions if columns_of(c) and all(k.number in known for k in columns_of(c))
    ]
    return found, tuple(dict.fromkeys(reading))


def _columns(found: dict[object, ValueList | PublicRows]) -> set[int]:
    """Return the columns of sources; a padded table's are left out: conditions don't hold there."""
    known = set()
    for source in found.values():
        if isinstance(source, ValueList):
            known.add(source.column.number)
        elif not source.padded:
            known |= {c.number for c in source.scan.columns}
    return known


@dataclass(frozen=True, slots=True)
class _Parts:
    """What parts of a key range over is put into `found`; `numbers` are those of their columns."""

    domains: dict[int, Domain]
    found: dict[object, ValueList | PublicRows]
    numbers: dict[Expression, int]


def _over_parts(
    release: Release, catalog: Catalog, expression: Expression, parts: _Parts
) -> Expression | None:
    """Return a key over columns that have an end, None where there is none.

    A part that has few values whatever its own columns hold, such as hour(seen), stands as a column
    of these values.
    """
    found = _sources(release, catalog, expression)
    if found is not None:
        parts.found.update(found)
        return expression
    values = _image(expression, parts.domains)
    if values is not None:
        number = parts.numbers.setdefault(expression, _FIRST_PART + len(parts.numbers))
        column = Column(number, "part", expression.type)
        parts.found["part", number] = ValueList(column, values)
        return Ref(column)
    inner = [_over_parts(release, catalog, child, parts) for child in children(expression)]
    known = [child for child in inner if child is not None]
    if not known or len(known) < len(inner):
        return None
    match expression:
        case Call(function=name, type=type_):
            return Call(name, tuple(known), type_)
        case Cast(type=type_):
            return Cast(known[0], type_)
        case Case(type=type_):
            pairs = tuple(zip(known[:-1:2], known[1:-1:2], strict=True))
            return Case(pairs, known[-1], type_)
        case Literal() | Ref():
            return None
        case _:
            assert_never(expression)


def _enumerate(
    found: dict[object, ValueList | PublicRows],
    expressions: list[Expression],
    conditions: tuple[Expression, ...],
    public: PublicFacts,
) -> tuple[tuple[object, ...], ...] | None:
    sources = tuple(found.values())
    (first, *others) = sources or (None,)
    if (
        isinstance(first, ValueList)
        and not others
        and not conditions
        and expressions == [Ref(first.column)]
    ):
        return tuple((value,) for value in first.values)
    combinations = 1
    for source in sources:
        combinations *= len(source.values) if isinstance(source, ValueList) else 1
    if combinations > MOST_CELLS:
        return None
    return public.image(Image(sources, tuple(expressions), conditions), MOST_CELLS)


def _image(expression: Expression, domains: dict[int, Domain]) -> tuple[object, ...] | None:
    """Return the values of an expression whose values are few whatever its columns hold, or None."""
    match expression:
        case Literal(value=value):
            return (value,)
        case Case(branches=branches, otherwise=otherwise):
            values = _one_of([value for _, value in branches] + [otherwise], expression, domains)
        case Call(function="if", args=(_, *choices)):
            values = _one_of(choices, expression, domains)
        case Call(function="coalesce" | "ifnull", args=args):
            values = _one_of(args, expression, domains)
            if values is not None and any(isinstance(a, Literal) and not is_null(a) for a in args):
                values = tuple(v for v in values if v is not None)
        case Call() if expression.type.kind is Kind.BOOLEAN:
            return (False, True, None)
        case Call(function=name, args=args):
            few = FUNCTIONS[name].values
            listed = None if few is None else few(args)
            values = None if listed is None else (*dict.fromkeys(listed), None)
        case _:
            values = None
    if values is not None:
        return tuple(dict.fromkeys(values))
    domain = domain_of(expression, domains)
    if domain.low is None or domain.high is None:
        return None
    if isinstance(expression, Call) and expression.function in _ROUNDINGS:
        return _rounded(expression, domain.low, domain.high)
    dated = expression.type.kind is Kind.DATE
    if not expression.type.is_integer and not dated:
        return None
    low, high = -(-domain.low.numerator // domain.low.denominator), domain.high.__floor__()
    if high - low >= MOST_VALUES:
        return None
    if not dated:
        return (*range(low, high + 1), None)
    if low + _DAY_0 < date.min.toordinal() or high + _DAY_0 > date.max.toordinal():
        return None
    return (*(date.fromordinal(day + _DAY_0) for day in range(low, high + 1)), None)


def _rounded(call: Call, low: Fraction, high: Fraction) -> tuple[object, ...] | None:
    """Return the floats between two ends that a rounding gives, as DuckDB computes them; None of too many.

    round(x, 1) is a whole number over 10.0, of which one rounding makes a float, as here.
    """
    places = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], Literal) else 0
    if call.type != DOUBLE or type(places) is not int or abs(places) > _EXACT_PLACES:
        return None
    step = Fraction(10) ** -places
    if (high - low) / step >= MOST_VALUES:
        return None
    first, last = -(-low // step), high // step
    return (*(float(n * step) for n in range(first, last + 1)), None)


def _one_of(
    choices: Sequence[Expression], whole: Expression, domains: dict[int, Domain]
) -> tuple[object, ...] | None:
    """Return the values of an expression that is one of its parts, None where one has no end."""
    found: list[object] = []
    for choice in choices:
        if is_null(choice):
            found.append(None)
            continue
        values = _image(choice, domains) if choice.type == whole.type else None
        if values is None:
            return None
        found += values
    return tuple(found)


def key_column(release: Release, position: int, number: int) -> Column:
    """Return the planned column of a key."""
    key = release.keys[position]
    return Column(number, key.name, key.expression.type)
