"""Which columns of an answer are weighted sums of a release's aggregates, and with which weights."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dp_sql.plan.release import ItemForm

_Weights = dict[str, Fraction]
_REAL = (exp.DataType.Type.DOUBLE, exp.DataType.Type.BIGDECIMAL)


def form_of(tree: exp.Expr, aggregates: Collection[str]) -> ItemForm:
    """Return what an item over a released table is made of. aggregates: the names of its columns."""
    shown = tree.unalias()
    if isinstance(shown, exp.Column):
        known = (shown.name,) if shown.name in aggregates else ()
        return ItemForm(known, tuple(Fraction(1) for _ in known))
    read = [c.name for c in tree.find_all(exp.Column) if c.name in aggregates]
    reads = tuple(dict.fromkeys(read))
    weights = None if tree.find(exp.Window, exp.Query) and reads else _weights(tree, aggregates)
    if weights is None:
        return ItemForm(reads, None)
    return ItemForm(reads, tuple(weights.get(name, Fraction(0)) for name in reads))


def _weights(node: exp.Expr, aggregates: Collection[str]) -> _Weights | None:
    """Return the weight of each aggregate in an expression; None where it is no weighted sum."""
    if not any(c.name in aggregates for c in node.find_all(exp.Column)):
        return {}  # the same with and without noise
    match node:
        case exp.Column():
            return {node.name: Fraction(1)}
        case exp.Alias() | exp.Paren():
            return _weights(node.this, aggregates)
        case exp.Neg():
            return _scaled(_weights(node.this, aggregates), Fraction(-1))
        case exp.Add() | exp.Sub():
            sign = Fraction(1 if isinstance(node, exp.Add) else -1)
            return _added(
                _weights(node.this, aggregates),
                _scaled(_weights(node.expression, aggregates), sign),
            )
        case exp.Mul():
            left, right = _constant(node.this), _constant(node.expression)
            if left is not None:
                return _scaled(_weights(node.expression, aggregates), left)
            return _scaled(_weights(node.this, aggregates), right)
        case exp.Div():
            below = _constant(node.expression)
            factor = None if not below else 1 / below
            return _scaled(_weights(node.this, aggregates), factor)
        case exp.Cast() if node.to.this in _REAL and not node.to.expressions:
            return _weights(node.this, aggregates)
        case exp.Bracket() if (entry := _entry(node)) is not None:
            return _weights(entry, aggregates)
        case _:
            return None


def _entry(node: exp.Bracket) -> exp.Expr | None:
    """Return the entry of a written list that a constant subscript names, or None."""
    places = node.expressions
    if not isinstance(node.this, exp.Array) or len(places) != 1:
        return None
    place = places[0].name if isinstance(places[0], exp.Literal) else ""
    entries = node.this.expressions
    known = place.isdigit() and 1 <= int(place) <= len(entries)
    return entries[int(place) - 1] if known else None


def _scaled(weights: _Weights | None, factor: Fraction | None) -> _Weights | None:
    if weights is None or factor is None:
        return None
    return {name: weight * factor for name, weight in weights.items()}


def _added(one: _Weights | None, other: _Weights | None) -> _Weights | None:
    if one is None or other is None:
        return None
    names = [*one, *(name for name in other if name not in one)]
    return {n: one.get(n, Fraction(0)) + other.get(n, Fraction(0)) for n in names}


def _constant(node: exp.Expr) -> Fraction | None:
    """Return the value of an expression of numbers alone, or None."""
    match node:
        case exp.Literal() if not node.is_string:
            try:
                number = Decimal(node.name.replace("_", ""))
            except InvalidOperation:
                return None
            return Fraction(number) if abs(number.adjusted()) <= 300 else None
        case exp.Paren():
            return _constant(node.this)
        case exp.Neg():
            inner = _constant(node.this)
            return None if inner is None else -inner
        case exp.Mul() | exp.Div():
            left, right = _constant(node.this), _constant(node.expression)
            if left is None or right is None or (isinstance(node, exp.Div) and right == 0):
                return None
            return left * right if isinstance(node, exp.Mul) else left / right
        case _:
            return None
