"""A YAML document as a tree that knows the line and column of every key and value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position, SchemaError

Plain = None | bool | int | Decimal | str | date | datetime
"""What a YAML scalar can mean. Numbers with a point or an exponent are exact decimals."""

Step = str | int
Where = tuple[Step, ...]
"""The way from the top of the document to a node: keys of mappings, indexes of lists."""


class Problem(Exception):  # noqa: N818 -- it becomes a SchemaError once its place is known
    """What is wrong with a value, told by code that doesn't know where the value stands."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value, at its place."""

    value: Plain
    position: Position


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list; `position` is where it starts."""

    items: tuple[Node, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with its value; `position` is the key's."""

    position: Position
    node: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys, as their text, and values in the order of the file."""

    entries: Mapping[str, Entry]
    position: Position


Node = ScalarNode | ListNode | MappingNode


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its name for messages, its text for carets, its tree."""

    name: str
    text: str
    root: Node

    def position(self, where: Where, *, key: bool = False) -> Position:
        """Return the place of the value at `where`, or of its key.

        A mapping or list that has a key is shown by its key. Steps that lead to nothing are passed
        over, so the place of the nearest node above is returned.
        """
        node, place, at_key = self.root, self.root.position, False
        for step in where:
            match node:
                case MappingNode(entries=entries) if step in entries:
                    entry = entries[str(step)]
                    node, place, at_key = entry.node, entry.position, True
                case ListNode(items=items) if isinstance(step, int) and step < len(items):
                    node, place, at_key = items[step], items[step].position, False
        if at_key and not key and isinstance(node, ScalarNode):
            return node.position
        return place

    def error(
        self,
        where: Where,
        message: str,
        *,
        hint: str | None = None,
        key: bool = False,
        others: tuple[str, ...] = (),
    ) -> SchemaError:
        """Return the error that says `message` at `where`, with the file, line and column."""
        position = self.position(where, key=key)
        return SchemaError(
            f"{self.name}, {spot(position)}: {message}",
            hint=hint,
            text=self.text,
            position=position,
            others=others,
        )

    def keys(self, where: Where) -> tuple[str, ...]:
        """Return the keys of the mapping at `where`; none where there is no mapping."""
        node = self.root
        for step in where:
            match node:
                case MappingNode(entries=entries) if step in entries:
                    node = entries[str(step)].node
                case ListNode(items=items) if isinstance(step, int) and step < len(items):
                    node = items[step]
                case _:
                    return ()
        return tuple(node.entries) if isinstance(node, MappingNode) else ()

    @contextmanager
    def at(self, where: Where) -> Iterator[None]:
        """Turn a Problem that the block raises into the SchemaError at `where`."""
        try:
            yield
        except Problem as problem:
            raise self.error(
                where, f"{dotted(where)}: {problem.message}", hint=problem.hint
            ) from None

    def plain(self) -> object:
        """Return the tree as dicts, lists and scalars."""
        return _plain(self.root)


def _plain(node: Node) -> object:
    """Return one node as dicts, lists and scalars; the reader has bounded the depth."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(items=items):
            return [_plain(item) for item in items]
        case MappingNode(entries=entries):
            return {key: _plain(entry.node) for key, entry in entries.items()}


def spot(position: Position) -> str:
    """Return a place in words."""
    return f"line {position.line}, column {position.column}"


def dotted(where: Where) -> str:
    """Return the name of a place as messages write it, such as `tables.orders.columns.total`.

    Indexes of lists are left out: they count from 0, which readers of a file don't.
    """
    return ".".join(step for step in where if isinstance(step, str)) or "the schema"


def shorten(text: str, length: int = 60) -> str:
    """Return `text` quoted, cut to `length` characters."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def describe(value: object) -> str:
    """Return what a value of the file is, in words: "the text 'a'", "the number 3", "a list"."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return f"the number {shorten(str(value), 40)[1:-1]}"
        case str():
            return f"the text {shorten(value)}"
        case datetime():
            return f"the timestamp {value}"
        case date():
            return f"the date {value}"
        case list():
            return "a list"
        case _:
            return "a mapping of keys"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` is probably a slip of, or None."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:100].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names the nearest known word, or all of them where none is near."""
    names = tuple(known)
    if not names:
        return "There is none that could be meant."
    near = nearest(word, names)
    if near is not None:
        return f"Did you mean `{near}`?"
    shown = ", ".join(f"`{name}`" for name in names[:40])
    return f"Known here: {shown}{', …' if len(names) > 40 else ''}."
