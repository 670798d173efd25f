"""What may stand where the cursor is: tables, columns, functions, keywords and the shell's commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dp_sql.cli.words import ABOVE, AGGREGATES, FUNCTIONS, KEYWORDS
from dp_sql.dataclass import dataclass
from dp_sql.schema.catalog import Catalog, TableSpec

_WORD = re.compile(r'(?:"[^"]*|\w*)\Z')
_BEFORE_TABLE = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:[\w\"]+(?:\s+(?:AS\s+)?\w+)?\s*,\s*)*\Z", re.IGNORECASE
)
_QUALIFIER = re.compile(r'(\w+|"[^"]+")\.\Z')
_TABLES_NAMED = re.compile(r'\b(?:FROM|JOIN|,)\s*"?(\w+)"?(?:\s+(?:AS\s+)?(\w+))?', re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand at the cursor, and what it is."""

    text: str
    what: str


def candidates(
    before: str, after: str, catalog: Catalog, commands: Mapping[str, Iterable[str]]
) -> tuple[str, list[Candidate]]:
    """Return the word that is being written and what it may become, best first.

    before, after: the text on both sides of the cursor. commands: each command of the shell, with
    its backslash, and the words that may follow it.
    """
    if before.lstrip().startswith("\\"):
        return _command(before.lstrip(), commands)
    found = _WORD.search(before)
    word = found.group() if found else ""
    left = before[: len(before) - len(word)]
    fitting = [c for c in _in_statement(left, after, catalog) if _fits(c.text, word)]
    return word, [_in_case_of(c, word) for c in fitting]


def _command(text: str, commands: Mapping[str, Iterable[str]]) -> tuple[str, list[Candidate]]:
    name, gap, rest = text.partition(" ")
    if not gap:
        return name, [Candidate(c, "command") for c in commands if c.startswith(name)]
    word = rest.split(" ")[-1]
    return word, [Candidate(w, "") for w in commands.get(name, ()) if _fits(w, word)]


def _in_statement(left: str, after: str, catalog: Catalog) -> Iterator[Candidate]:
    qualifier = _QUALIFIER.search(left)
    if qualifier is not None:
        table = _named(left + after, catalog).get(qualifier.group(1).strip('"').lower())
        yield from () if table is None else _columns(table)
        return
    if _BEFORE_TABLE.search(left):
        yield from _tables(catalog)
        return
    named = {id(t): t for t in _named(left + " " + after, catalog).values()}
    for table in named.values() or catalog.tables.values():
        yield from _columns(table)
    yield from (Candidate(f"{name}(", "aggregate") for name in AGGREGATES)
    yield from (Candidate(name, "keyword") for name in KEYWORDS)
    yield from (Candidate(f"{name}(", "function") for name in (*FUNCTIONS, *ABOVE))
    yield from _tables(catalog)


def _named(text: str, catalog: Catalog) -> dict[str, TableSpec]:
    """Return the declared tables that a statement names, by lower-cased name and alias."""
    named: dict[str, TableSpec] = {}
    for name, alias in _TABLES_NAMED.findall(text):
        table = catalog.table(name)
        if table is not None:
            named[name.lower()] = table
            if alias and alias.upper() not in KEYWORDS:
                named[alias.lower()] = table
    return named


def _tables(catalog: Catalog) -> Iterator[Candidate]:
    for table in catalog.tables.values():
        yield Candidate(_quoted(table.name), "public table" if table.public else "table")


def _columns(table: TableSpec) -> Iterator[Candidate]:
    for column in table.columns.values():
        yield Candidate(_quoted(column.name), f"{table.name}, {str(column.type).lower()}")


def _quoted(name: str) -> str:
    plain = _PLAIN.fullmatch(name) is not None and name.upper() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _fits(text: str, word: str) -> bool:
    return text.lower().startswith(word.lower()) or text.lower().startswith('"' + word.lower())


def _in_case_of(candidate: Candidate, word: str) -> Candidate:
    """Return a keyword in lower case where the user writes lower case."""
    if candidate.what in ("keyword", "aggregate") and word and word == word.lower():
        return Candidate(candidate.text.lower(), candidate.what)
    return candidate


class ShellCompleter(Completer):
    """`candidates`, as prompt_toolkit asks for them."""

    def __init__(self, catalog: Catalog, commands: Mapping[str, Iterable[str]]) -> None:
        self._catalog = catalog
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what may stand at the cursor; while typing, only once a word has begun."""
        before, after = document.text_before_cursor, document.text_after_cursor
        word, found = candidates(before, after, self._catalog, self._commands)
        dotted = before[: len(before) - len(word)].endswith(".")
        if word or dotted or complete_event.completion_requested:
            for candidate in found:
                yield Completion(
                    candidate.text, start_position=-len(word), display_meta=candidate.what
                )
