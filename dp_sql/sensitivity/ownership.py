"""Ownership: which columns of a relation hold the owner of the row. It travels with the column."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import assert_never

from dp_sql.plan.expression import Call, Case, Cast, Column, Expression, Literal, Ref
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    DropKeys,
    KeepKeys,
    MeasureRows,
    Relation,
    SpreadRows,
    SumPerUnit,
    inputs,
    output,
)
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Link,
    Mark,
    Project,
    Rows,
    Scan,
    SetKind,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType


def is_protected(relation: Relation) -> bool:
    """Return whether a relation reads a protected table."""
    if isinstance(relation, Scan):
        return not relation.public
    return any(is_protected(source) for source in inputs(relation))


def owners_of(relation: Relation) -> frozenset[int]:
    """Return the numbers of the columns that hold the owner of the row and are never NULL.

    Claim:   every row belongs to the value of each such column, and to one owner only.
    Why:     a scan keeps rows whose owner is not NULL; filters, projections, marks and windows keep
             a row's owner; a join of two protected sides is on the owner, so both sides' columns
             agree, and a padded side never gives one; what a full join pads has the other side's.
             A group has the owner among its keys. A union takes the owner from the same place. What a
             condition that is true of every row makes equal to an owner of its type is that owner.
    Assumes: `sensitivity.locality` holds for the relation (it refuses every other join, group, …).
    Source:  [Wilson2020]
    """
    match relation:
        case Scan(owner=owner):
            return frozenset() if owner is None else frozenset({owner.number})
        case StageScan():
            return frozenset()
        case Filter(source=source, predicate=predicate):
            return _equal_to(owners_of(source), predicate)
        case WindowRows(source=source):
            return owners_of(source)
        case Mark(left=left):
            return owners_of(left)
        case Project(source=source, columns=columns, expressions=expressions):
            return _kept(source, columns, expressions)
        case GroupRows(source=source, keys=keys, key_expressions=expressions):
            return _kept(source, keys, expressions)
        case Join(kind=JoinKind.FULL, owner=owner):
            return frozenset() if owner is None else frozenset({owner[0].number})
        case Join(left=left, right=right, kind=kind, condition=condition):
            kept = owners_of(left)
            return kept if kind.pads_right else _equal_to(kept | owners_of(right), condition)
        case SetRows():
            return frozenset(column.number for column, _ in owner_places(relation))
        case (
            MeasureRows()
            | SumPerUnit()
            | DropKeys()
            | KeepKeys()
            | BoundRows()
            | BoundGroups()
            | SpreadRows()
        ):
            return owners_of(relation.source)
        case _:
            assert_never(relation)


def _equal_to(owners: frozenset[int], condition: Expression) -> frozenset[int]:
    """Return the owners' columns with those of the same type that a condition makes equal to them."""
    found, pairs = owners, [(a, b) for a, b in equal_columns(condition) if a.type == b.type]
    while more := {b.number for a, b in pairs if a.number in found} - found:
        found |= more
    return found


def merged_owner(rows: Rows, columns: Collection[Column], type_: SqlType) -> Expression | None:
    """Return the owner as a type where COALESCE of some columns is it, in whatever order.

    Claim:   the result is the row's owner, whichever of the columns is the first that isn't NULL.
    Why:     each of them holds the owner or NULL, and on every row one isn't NULL (`_covered`). A cast
             of the owner gives what the same cast of a column of its family gives.
    Assumes: `owners_of`; a join of two protected sides is on the owner (`sensitivity.locality`).
    Source:  [Wilson2020]
    """
    numbers = {column.number for column in columns}
    owners = owners_of(rows)
    if not numbers <= owner_or_null(rows).keys() | owners or not _covered(rows, numbers):
        return None
    held = [c for c in output(rows) if c.number in owners]
    same = next((c for c in held if c.type == type_), None)
    if same is not None:
        return Ref(same)
    families = {_family(column) for column in columns}
    wider = [Cast(Ref(c), type_) for c in held if {_family(c)} == families]
    return next((cast for cast in wider if holds_owner(cast, owners)), None)


def _covered(rows: Rows, numbers: Collection[int]) -> bool:
    """Return whether on every row one of the columns holds the owner, and isn't NULL.

    Of a full join both sides have to be covered: on each of its rows one of them is there. A column
    of either side of an inner join, and of the kept side of a left one, is there on all.
    """
    if any(number in owners_of(rows) for number in numbers):
        return True
    match rows:
        case Filter(source=source) | WindowRows(source=source):
            return _covered(source, numbers)
        case Mark(left=left):
            return _covered(left, numbers)
        case Join(left=left, right=right, kind=JoinKind.FULL, owner=owner):
            return owner is not None and _covered(left, numbers) and _covered(right, numbers)
        case Join(left=left, right=right, kind=kind):
            return _covered(left, numbers) or (not kind.pads_right and _covered(right, numbers))
        case _:
            return False


def owner_or_null(rows: Rows) -> dict[int, Column]:
    """Return the columns, by number, that hold the row's owner or NULL."""
    match rows:
        case Filter(source=source) | WindowRows(source=source):
            return owner_or_null(source)
        case Mark(left=left):
            return owner_or_null(left)
        case Join(left=left, right=right):
            owners = owners_of(rows)
            own = {c.number: c for c in output(rows) if c.number in owners}
            return owner_or_null(left) | owner_or_null(right) | own
        case Project(source=source, columns=columns, expressions=expressions):
            below = owner_or_null(source)
            return {
                c.number: c
                for c, e in zip(columns, expressions, strict=True)
                if holds_owner_or_null(e, below)
            }
        case _:
            owners = owners_of(rows)
            return {c.number: c for c in output(rows) if c.number in owners}


def holds_owner_or_null(expression: Expression, numbers: Collection[int]) -> bool:
    """Return whether every value that an expression can take is one of some columns', or NULL."""
    match expression:
        case Literal(value=None):
            return True
        case Call(function="if", args=(_, *values)):
            return all(holds_owner_or_null(e, numbers) for e in values)
        case Case(branches=branches, otherwise=otherwise):
            return all(
                holds_owner_or_null(e, numbers) for e in (*(v for _, v in branches), otherwise)
            )
        case Call(function="coalesce" | "ifnull", args=args):
            return all(holds_owner_or_null(e, numbers) for e in args)
        case Call(function="nullif", args=args):
            return holds_owner_or_null(args[0], numbers)
        case _:
            return holds_owner(expression, numbers)


def with_owner(rows: Rows, expression: Expression) -> Expression:
    """Return an expression with what picks the owner among columns that may be NULL as the owner.

    It is picked by COALESCE, or by CASE with IS NULL or IS NOT NULL.
    """
    match expression:
        case Call(function=function, args=args, type=type_):
            owner = _picked_owner(rows, expression, type_)
            made = Call(function, tuple(with_owner(rows, a) for a in args), type_)
            return made if owner is None else owner
        case Case(type=type_):
            owner = _picked_owner(rows, expression, type_)
            return expression if owner is None else owner
        case Cast(operand=operand, type=type_):
            return Cast(with_owner(rows, operand), type_)
        case _:
            return expression


def _picked_owner(rows: Rows, expression: Expression, type_: SqlType) -> Expression | None:
    columns = _first_of(expression)
    return merged_owner(rows, columns, type_) if columns else None


def _first_of(expression: Expression) -> list[Column] | None:
    """Return columns of which an expression is the first that isn't NULL, None where it isn't so.

    Casts of them are one to one. `CASE WHEN a IS NULL THEN b ELSE a END` is b only where a is NULL.
    """
    match expression:
        case Call(function="coalesce" | "ifnull", args=parts):
            pass
        case Call(function="if", args=(when, value, other), type=type_):
            return _first_of(Case(((when, value),), other, type_))
        case Case(branches=((Call(function="is_null", args=(tested,)), value),), otherwise=other):
            parts = (other, value) if _same(other, tested) else ()
        case Case(branches=branches, otherwise=other):
            given = all(
                isinstance(when, Call)
                and when.function == "is_not_null"
                and _same(value, when.args[0])
                for when, value in branches
            )
            parts = (*(value for _, value in branches), other) if given else ()
        case _:
            column = _one_to_one(expression)
            return None if column is None else [column]
    found = [_first_of(part) for part in parts]
    columns = [column for one in found if one is not None for column in one]
    return columns if found and None not in found else None


def _same(value: Expression, tested: Expression) -> bool:
    """Return whether two expressions hold one column, so that both are NULL or neither is."""
    column = _one_to_one(value)
    return column is not None and column == _one_to_one(tested)


def _kept(
    source: Rows, columns: tuple[Column, ...], expressions: tuple[Expression, ...]
) -> frozenset[int]:
    below = owners_of(source)
    return frozenset(
        column.number
        for column, expression in zip(columns, expressions, strict=True)
        if (found := _one_to_one(expression)) is not None and found.number in below
    )


def _one_to_one(expression: Expression, *, total: bool = True) -> Column | None:
    """Return the column that an expression holds under casts that are one to one; else None.

    total: the casts give no NULL but of NULL; where equality is asked, NULL is equal to nothing.

    Claim:   two such expressions over columns of one family of types (`_family`) that are equal hold
             equal values, and each holds as many values as its column.
    Why:     a wider integer, the digits of an integer, the text of a date or a UUID and midnight of
             a date are different for different values, and the same for equal integers of every
             width; the integer that digits of an integer stand for is that integer.
    Assumes: DuckDB's texts of these types are canonical, as is a value of the declared type.
    """
    casts = []
    while isinstance(expression, Cast):
        casts.append(expression.type.kind)
        expression = expression.operand
    if not isinstance(expression, Ref):
        return None
    source = now = expression.column.type.kind
    for kind in reversed(casts):
        held = source if now is Kind.VARCHAR else now
        texts = kind is Kind.VARCHAR and (now in INTEGER_BITS or now in _TEXTS)
        midnight = now is Kind.DATE and kind is Kind.TIMESTAMP and not total
        same = kind is now and kind is not Kind.DECIMAL
        if not (same or _holds(held, kind) or texts or midnight):
            return None
        now = kind
    return expression.column


_TEXTS = (Kind.DATE, Kind.UUID, Kind.VARCHAR)  # and integers: types whose text tells the value


def _holds(inner: Kind, outer: Kind) -> bool:
    """Return whether an integer type has every value of another."""
    if inner not in INTEGER_BITS or outer not in INTEGER_BITS:
        return False
    (low, high), (least, most) = INTEGER_BITS[inner], INTEGER_BITS[outer]
    return least <= low and high <= most


def _family(column: Column) -> Kind:
    """Return one kind for all types whose equal values have one text: integers are one family."""
    return Kind.BIGINT if column.type.is_integer else column.type.kind


def holds_owner(expression: Expression, owners: Collection[int]) -> bool:
    """Return whether an expression is one of the owners' columns, as it is or cast one to one."""
    column = _one_to_one(expression)
    return column is not None and column.number in owners


def owner_places(rows: SetRows) -> list[tuple[Column, int]]:
    """Return the columns of a set operation that hold the owner, with their positions.

    The rows of EXCEPT and INTERSECT are rows of the left side; a union needs both.
    """
    left, right = owners_of(rows.left), owners_of(rows.right)
    union = rows.kind in (SetKind.UNION, SetKind.UNION_ALL)
    pairs = zip(rows.columns, output(rows.left), output(rows.right), strict=True)
    return [
        (column, position)
        for position, (column, a, b) in enumerate(pairs)
        if a.number in left and (not union or b.number in right)
    ]


def owner_of(relation: Relation) -> Column | None:
    """Return one column that holds the owner, or None at event level and for public relations."""
    numbers = owners_of(relation)
    return next((column for column in output(_rows(relation)) if column.number in numbers), None)


def _rows(relation: Relation) -> Rows:
    """Return the relation of private rows below what the planner put on top."""
    while isinstance(
        relation,
        MeasureRows | KeepKeys | SumPerUnit | DropKeys | BoundRows | BoundGroups | SpreadRows,
    ):
        relation = relation.source
    return relation


def conjuncts(condition: Expression) -> list[Expression]:
    """Return the parts of a top-level AND, in order."""
    found, left = list[Expression](), [condition]
    while left:
        part = left.pop()
        if isinstance(part, Call) and part.function == "and":
            left += reversed(part.args)
        else:
            found.append(part)
    return found


def equal_columns(condition: Expression) -> Iterator[tuple[Column, Column]]:
    """Yield the pairs of columns that a condition's top-level conjuncts make equal, both ways round."""
    for a, b in _equal(condition, "="):
        if _family(a) is _family(b):
            yield a, b


def _equal(condition: Expression, sign: str) -> Iterator[tuple[Column, Column]]:
    """Yield the pairs of columns that conjuncts compare so under casts that are one to one."""
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function == sign:
            first, second = (_one_to_one(arg, total=sign != "=") for arg in part.args)
            if first is not None and second is not None:
                yield first, second
                yield second, first


def same_owner(left: Relation, right: Relation, condition: Expression) -> bool:
    """Return whether a condition lets only rows of one owner meet.

    Claim:   a pair of rows for which the condition is true has one owner.
    Why:     a top-level conjunct says that an owner column of one side equals one of the other, or
             isn't distinct from it: owners are never NULL, nor is what casts make of them there.
             Under casts that are one to one, an owner is equal to one owner of the other side.
    Assumes: equality of owners is equality of their bits; where one side has the key as a text
             (a cast made it), that text is the owner.
    Source:  [Wilson2020]
    """
    first, second = owners_of(left), owners_of(right)
    return any(
        a.number in first and b.number in second
        for sign in ("=", "is_not_distinct_from")
        for a, b in _equal(condition, sign)
    )


def link_of(relation: Relation) -> Link | None:
    """Return the foreign key of rows whose owner hasn't been found yet, or None."""
    match relation:
        case Scan(link=link):
            return link
        case Filter(source=source):
            return link_of(source)
        case _:
            return None


def linked(rows: Relation, parents: Relation, condition: Expression) -> bool:
    """Return whether a join on `condition` finds the owner of `rows` through their foreign key.

    Claim:   each pair belongs to the owner of the row of `parents`, and the pairs of one owner
             depend on that owner's rows and on rows reached through them alone.
    Why:     conjuncts make the whole foreign key equal to the columns of one scan of its parent
             table inside `parents`; the parent's row there is of the pair's owner.
    Assumes: a row that is reached through no remaining row of its parent table is gone (the
             definition of neighbours for tables owned through a key).
    Source:  [Kotsogiannis2019]
    """
    link = link_of(rows)
    if link is None or not owners_of(parents):
        return False
    equal = {(a.number, b.number) for a, b in equal_columns(condition)}
    visible = {column.number for column in output(parents)}
    return any(
        all(
            any(
                (own.number, column.number) in equal and column.number in visible
                for column, source in zip(scan.columns, scan.sources, strict=True)
                if source == name
            )
            for own, name in link.pairs
        )
        for scan in scans_of(parents)
        if scan.table == link.table
    )


def all_scans(relation: Relation) -> Iterator[Scan]:
    """Yield every scan below."""
    if isinstance(relation, Scan):
        yield relation
    for source in inputs(relation):
        yield from all_scans(source)


def scans_of(relation: Relation) -> Iterator[Scan]:
    """Yield the scans below whose columns keep their numbers up to `relation`."""
    match relation:
        case Scan():
            yield relation
        case Mark(left=left):
            yield from scans_of(left)
        case SetRows():
            return
        case _:
            for source in inputs(relation):
                yield from scans_of(source)
