"""Schema text -> a tree with places: YAML 1.2 without anchors, aliases, tags and second documents.

The syntax is ruamel.yaml's. What a plain word means is decided here, from its text: numbers stay
exact, NO is a word, and nothing in the file can make the reader run code, expand or recurse.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml import events as yaml_events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from dp_sql.errors import Position, SchemaError
from dp_sql.schema.document import (
    Document,
    Entry,
    ListNode,
    MappingNode,
    Node,
    Plain,
    Problem,
    ScalarNode,
    shorten,
    spot,
)

MAX_BYTES = 1_000_000
MAX_DEPTH = 16  # a valid file needs 6
MAX_NODES = 250_000  # keys and values; a column lists 100,000 values at most
MAX_DIGITS = 60  # as many as an exact amount may have
MAX_EXPONENT = 999

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True} | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL = re.compile(
    r"[-+]?(?P<mantissa>\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE](?P<exponent>[-+]?[0-9]+))?"
)
_INFINITE = re.compile(r"(?P<sign>[-+]?)\.(inf|Inf|INF)")
_NANS = frozenset({".nan", ".NaN", ".NAN"})
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # only an escape can write them
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt]| +)([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)"
)


def read(path: str | os.PathLike[str]) -> tuple[Path, Document]:
    """Return the absolute path of a schema file and its tree.

    Raises SchemaError where the file can't be read, is no plain UTF-8 text below a megabyte, or is
    not the YAML that a schema may use.
    """
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise SchemaError(
            f"The schema must be the path of a YAML file, not a {type(path).__name__}.",
            hint='connect("shop.yaml")',
        ) from None
    return Path(os.path.abspath(name)), parse(_text(name), name)  # noqa: PTH100 -- keeps links


def _text(name: str) -> str:
    """Return the text of the file called `name`."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116 -- the name may hold anything
            what = "a folder" if os.path.isdir(name) else "not a plain file"  # noqa: PTH112
            raise SchemaError(
                f"{shorten(name, 200)} is {what}; a schema is one YAML file.",
                hint="name the file: shop.yaml",
            )
        with open(name, "rb") as file:  # noqa: PTH123
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SchemaError(
            f"There is no schema file {shorten(name, 200)}.",
            hint="check the path; the README shows a first schema file",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not a valid path"
        raise SchemaError(
            f"The schema file {shorten(name, 200)} can't be read: {reason}.",
            hint="check the path and its permissions",
        ) from None
    if len(content) > MAX_BYTES:
        raise SchemaError(
            f"The schema file {shorten(name, 200)} is larger than {MAX_BYTES:,} bytes.",
            hint="put long lists of keys in a public table and join it",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SchemaError(
            f"{name}, line {line}: the file is not UTF-8 text.", hint="save it as UTF-8"
        ) from None


def parse(text: str, name: str) -> Document:
    """Return the tree of a schema text; `name` stands for the file in messages.

    Raises SchemaError with the line and column of whatever is not the YAML that a schema may use.
    """
    reader = _Reader(name, text)
    try:
        for event in _events(text):
            reader.take(event)
    except SchemaError:
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(1, 1) if mark is None else Position(mark.line + 1, mark.column + 1)
        what = error.problem or error.context or "it can't be read"
        reader.refuse(place, f"this is not valid YAML: {what.splitlines()[0]}.", _syntax_hint(what))
    except ReaderError as error:
        start = text.rfind("\n", 0, error.position) + 1
        place = Position(text.count("\n", 0, error.position) + 1, error.position - start + 1)
        reader.refuse(
            place,
            f"this is not valid YAML: it may not hold the character U+{error.character:04X}.",
            "remove it, or write it as an escape in double quotes",
        )
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError):
        # ruamel raises these on some malformed input, such as escapes of no character
        reader.refuse(
            reader.last,
            "this is not valid YAML, at or after this place.",
            "look for wrong escapes (\\U…) and a wrong %YAML line",
        )
    if reader.root is None:
        raise SchemaError(
            f"{name} is empty.", hint="start with `version: 1`, `database:` and `privacy:`"
        )
    return Document(name, text, reader.root)


def _events(text: str) -> Iterator[yaml_events.Event]:
    """Yield ruamel's syntax events: no tags resolved, nothing constructed."""
    yield from YAML(typ="safe", pure=True).parse(text)


def _syntax_hint(problem: str) -> str | None:
    """Return what usually helps against a YAML syntax error."""
    if "tab" in problem or "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if "could not find expected ':'" in problem or "mapping values are not allowed" in problem:
        return "check the indentation, and put text with `:` or `#` in quotes"
    if "flow" in problem or "expected ',' or" in problem:
        return "check that every `{` and `[` is closed, with commas between the parts"
    return None


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end hasn't been read; `key` waits for its value."""

    position: Position
    mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: str | None = None
    key_position: Position = field(default_factory=lambda: Position(1, 1))


class _Reader:
    """Builds the tree from events, one at a time, without recursion."""

    def __init__(self, name: str, text: str) -> None:
        self.root: Node | None = None
        self.last = Position(1, 1)
        self._name = name
        self._text = text
        self._open: list[_Open] = []
        self._documents = 0
        self._nodes = 0

    def refuse(self, position: Position, message: str, hint: str | None = None) -> NoReturn:
        """Raise the SchemaError that says `message` at `position`."""
        raise SchemaError(
            f"{self._name}, {spot(position)}: {message}",
            hint=hint,
            text=self._text,
            position=position,
        ) from None

    def take(self, event: yaml_events.Event) -> None:
        """Add one event to the tree."""
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if end.line == start.line else 1
        self.last = position = Position(start.line + 1, start.column + 1, max(1, length))
        match event:
            case yaml_events.DocumentStartEvent():
                self._start_document(event, position)
            case yaml_events.AliasEvent():
                self._refuse_anchor(position)
            case yaml_events.ScalarEvent():
                self._check_node(event, position)
                self._scalar(event, position)
            case yaml_events.MappingStartEvent() | yaml_events.SequenceStartEvent():
                self._check_node(event, position)
                if len(self._open) == MAX_DEPTH:
                    self.refuse(
                        position,
                        f"lists and mappings may be nested {MAX_DEPTH} deep; a schema needs 6.",
                    )
                start_only = Position(position.line, position.column)
                self._check_key(start_only)
                self._open.append(
                    _Open(start_only, isinstance(event, yaml_events.MappingStartEvent))
                )
            case yaml_events.MappingEndEvent() | yaml_events.SequenceEndEvent():
                done = self._open.pop()
                self._add(
                    MappingNode(done.entries, done.position)
                    if done.mapping
                    else ListNode(tuple(done.items), done.position)
                )

    def _start_document(self, event: yaml_events.DocumentStartEvent, position: Position) -> None:
        self._documents += 1
        if self._documents > 1:
            self.refuse(
                position, "a schema file holds one document.", "remove what stands from `---` on"
            )
        if event.version is not None and tuple(event.version) != (1, 2):
            self.refuse(position, "schema files are YAML 1.2.", "remove the %YAML line")

    def _refuse_anchor(self, position: Position) -> NoReturn:
        self.refuse(
            position,
            "YAML anchors (`&name`) and aliases (`*name`) are not allowed in a schema.",
            "write the value out, or put a text that starts with `&` or `*` in quotes",
        )

    def _check_node(
        self,
        event: yaml_events.ScalarEvent | yaml_events.CollectionStartEvent,
        position: Position,
    ) -> None:
        """Refuse anchors and tags on any node, and more nodes than a schema can need."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self.refuse(
                position,
                f"a schema has at most {MAX_NODES:,} keys and values.",
                "put long lists of keys in a public table and join it",
            )
        if event.anchor is not None:
            self._refuse_anchor(position)
        if event.tag is not None:
            self.refuse(
                position,
                "YAML tags (`!name`) are not allowed in a schema.",
                "remove the tag, or put a text that starts with `!` in quotes",
            )

    def _check_key(self, position: Position) -> None:
        """Refuse a list or mapping where a key is wanted."""
        if self._open and self._open[-1].mapping and self._open[-1].key is None:
            self.refuse(position, "a key must be a word, not a list or a mapping.")

    def _scalar(self, event: yaml_events.ScalarEvent, position: Position) -> None:
        text: str = event.value
        if _UNWRITABLE.search(text):
            self.refuse(position, "the text holds a character that no SQL text can hold.")
        if self._open and self._open[-1].mapping and self._open[-1].key is None:
            self._key(text, position)
            return
        try:
            value = meaning(text) if event.style is None else text
        except Problem as problem:
            self.refuse(position, problem.message, problem.hint)
        self._add(ScalarNode(value, position))

    def _key(self, text: str, position: Position) -> None:
        """Note the key whose value comes next."""
        inner = self._open[-1]
        if text in inner.entries:
            first = inner.entries[text].position
            self.refuse(
                position,
                f"the key {shorten(text)} stands here twice; it is first in line {first.line}.",
                "keep one of them",
            )
        self._check_split_decimal(inner, text)
        inner.key, inner.key_position = text, position

    def _check_split_decimal(self, inner: _Open, text: str) -> None:
        """Refuse `{type: decimal(12,2)}`: the comma of an unquoted type ends the value."""
        if not re.fullmatch(r"[0-9]+\s*\)", text) or not inner.entries:
            return
        before = next(reversed(inner.entries.values())).node
        if isinstance(before, ScalarNode) and re.fullmatch(r"\w+\s*\([0-9]+", str(before.value)):
            whole = f"{before.value},{text}"
            self.refuse(
                before.position,
                f"inside braces the comma of {whole} ends the value, so the type is cut in two.",
                f'put the type in quotes: type: "{whole}"',
            )

    def _add(self, node: Node) -> None:
        """Put a finished node where it belongs."""
        if not self._open:
            self.root = node
            return
        inner = self._open[-1]
        if not inner.mapping:
            inner.items.append(node)
        elif inner.key is not None:
            inner.entries[inner.key] = Entry(inner.key_position, node)
            inner.key = None


def meaning(text: str) -> Plain:
    """Return what an unquoted word of YAML 1.2 means; dates and timestamps are values, too.

    Raises Problem for a number with more digits than any amount or bound can have.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NANS:
        return Decimal("NaN")
    if infinite := _INFINITE.fullmatch(text):
        return Decimal(infinite["sign"] + "Infinity")
    if number := _DECIMAL.fullmatch(text):
        exponent = number["exponent"] or "0"
        if (
            len(number["mantissa"]) > MAX_DIGITS
            or len(exponent) > 5
            or abs(int(exponent)) > MAX_EXPONENT
        ):
            raise Problem(
                f"the number {shorten(text, 40)[1:-1]} is too long: numbers have at most "
                f"{MAX_DIGITS} digits and exponents up to {MAX_EXPONENT}.",
                hint="put it in quotes if it is a text",
            )
        return int(text) if _INTEGER.fullmatch(text) else Decimal(text)
    if _BASED.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text, 0)
    return _moment(text)


def _moment(text: str) -> date | str:
    """Return the date or timestamp that `text` writes, or `text` itself."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if stamp := _TIMESTAMP.fullmatch(text):
            return datetime.fromisoformat(f"{stamp[1]} {stamp[2]}")
    except ValueError:  # no such day or hour: whoever wants a date will say so
        return text
    return text
