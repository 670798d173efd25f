"""A statement without the part that isn't answered: its other items, tables and conditions kept."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position, QueryError
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.dialect import PrivacyClause, Reading
from dp_sql.parser.spans import Span
from dp_sql.parser.text import parse_text

_LONGEST = 4_000  # characters: reading them again takes a few milliseconds
_WHOLE = ("qualify", "order", "limit", "offset")  # clauses that go as a whole


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a block that can be left out. key: the argument of the block that holds it."""

    block: exp.Select
    key: str
    node: exp.Expr


def leaner(text: str, position: Position | None) -> str | None:
    """Return a statement without the smallest part that holds a place, None where that isn't clear.

    It may not be answered itself: whoever shows it reads it first (`parser.advice`).
    """
    if (
        position is None or len(text) > _LONGEST or "://" in text
    ):  # of a URL: it may hold a password
        return None
    try:
        tree = parse_text(text).tree
    except QueryError:
        return None
    place = _offset(text, position)
    if tree.find(PrivacyClause) is not None:  # which isn't written down again
        return None
    found = [(span, part) for part in _parts(tree) if (span := _span(part.node)) is not None]
    holding = [
        (end - start, i) for i, ((start, end), _) in enumerate(found) if start <= place < end
    ]
    if not holding:
        return None
    part = found[min(holding)[1]][1]
    _leave_out(part)
    return tree.sql(dialect=Reading)


def _offset(text: str, position: Position) -> int:
    return (
        sum(len(line) + 1 for line in text.split("\n")[: position.line - 1]) + position.column - 1
    )


def _span(node: exp.Expr) -> Span | None:
    """Return where a part stands, as far as its words know it."""
    known = [
        (n.meta["start"], n.meta["end"] + 1)
        for n in node.walk()
        if "start" in n.meta and "end" in n.meta
    ]
    return (min(s for s, _ in known), max(e for _, e in known)) if known else None


def _parts(tree: exp.Expr) -> Iterator[_Part]:
    for block in tree.find_all(exp.Select):
        for key in ("expressions", "joins"):
            yield from (_Part(block, key, node) for node in block.args.get(key) or [])
        for key in ("where", "having"):
            clause = block.args.get(key)
            if clause is not None:
                tests = clause.this.flatten() if isinstance(clause.this, exp.And) else [clause.this]
                yield from (_Part(block, key, node) for node in tests)
        group = block.args.get("group")
        if group is not None:
            yield from (_Part(block, "group", node) for node in group.expressions)
        yield from (_Part(block, key, block.args[key]) for key in _WHOLE if block.args.get(key))


def _leave_out(part: _Part) -> None:
    """Take a part out of its tree."""
    block = part.block
    if part.key in _WHOLE:
        block.set(part.key, None)
    elif part.key == "joins":
        part.node.pop()
    elif part.key in ("where", "having"):
        clause = block.args[part.key]
        tests = clause.this.flatten() if isinstance(clause.this, exp.And) else [clause.this]
        rest = [test.copy() for test in tests if test is not part.node]
        block.set(part.key, type(clause)(this=exp.and_(*rest)) if rest else None)
    else:
        _without_item(block, part.node)


def _without_item(block: exp.Select, node: exp.Expr) -> None:
    """Take an item of the select list or a key out, and the key or items that are the same.

    A count takes the place of the last aggregate.
    """
    group = block.args.get("group")
    keys = [] if group is None else group.expressions
    items = block.expressions
    gone = {
        i
        for i, item in enumerate(items)
        if item is node or item.unalias() == node or (node in keys and _names(node, item, i))
    }
    counted = any(has_aggregate(items[i]) for i in gone) or not gone < set(range(len(items)))
    kept = []
    for key in keys:
        named = [i for i in gone if _names(key, items[i], i) or items[i].unalias() == key]
        if key is node or named:
            continue
        number = int(key.name) if isinstance(key, exp.Literal) and key.name.isdecimal() else 0
        less = sum(i + 1 < number for i in gone)
        kept.append(exp.Literal.number(number - less) if less else key.copy())
    rest = [item.copy() for i, item in enumerate(items) if i not in gone]
    if counted and not any(has_aggregate(item) for item in rest):
        rest.append(exp.Count(this=exp.Star(), big_int=True))
    block.set("expressions", rest)
    if keys:
        block.set("group", exp.Group(expressions=kept) if kept else None)


def _names(key: exp.Expr, item: exp.Expr, place: int) -> bool:
    """Return whether a key stands for an item of the select list, by its alias or its number."""
    if isinstance(key, exp.Literal):
        return key.name == str(place + 1)
    return (
        isinstance(key, exp.Column)
        and not key.table
        and key.name.lower() == item.alias.lower() != ""
    )
