"""Random and mutated statements give a result or an error of the project, and never a bug's trace."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from golden.shop import write_shop

import dp_sql
from dp_sql.errors import DPSQLError, EngineError, InternalError, LedgerError, SchemaError

CORPUS = Path(__file__).parent.parent / "golden" / "corpus.jsonl"
TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\w+)?|[<>=!|:/]{2}|\S")
STRANGE = (
    "(", ")", ",", "*", "'", '"', ";", "--", "/*", "*/", "$$", "NULL", "DISTINCT", "OVER", "FILTER",
    "WITHIN GROUP", "LATERAL", "UNNEST", "[", "]", "{", "}", "::", "->", "=>", ":=", "@", "#1", "?", "$1",
    "\\", "\x00", "\u00e9", "\u212a", "\u200b", "1e999", "0x1F", "1_000", ".5", "5.", "1.2.3", "ALL", "ANY",
    "EXCEPT", "UNION ALL", "WITH", "SELECT", "FROM", "GROUP BY ALL", "HAVING", "QUALIFY",
    "LIMIT 1", "OFFSET 2", "USING", "NATURAL", "CROSS", "FULL", "LEFT", "JOIN", "ASOF", "TABLESAMPLE",
    "COLUMNS(*)", "EXCLUDE", "REPLACE", "INTERVAL 1 DAY", "DATE '2024-01-01'", "CASE", "WHEN", "END",
    "clamp", "uid", "people", "visits", "cities", "r0", "released", "public", "rowid", "k0", "a0",
)  # fmt: skip


def statements() -> list[tuple[str, str]]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    found = [(c["schema"], c["sql"]) for c in map(json.loads, lines)]
    return [(s, sql) for s, sql in found if "RECURSIVE" not in sql]  # these needn't end


CLASSES = (
    re.compile(r"[\d.]+"),
    re.compile(r"'.*'"),
    re.compile(
        r"COUNT|SUM|AVG|MIN|MAX|VAR_\w+|STDDEV\w*|ABS|LENGTH|LOWER|UPPER|ROUND|FLOOR|CLAMP|MEDIAN"
    ),
    re.compile(r"[a-z]\w*(\.\w+)?"),
    re.compile(r"[-+/%=<>|]+"),
    re.compile(r"AND|OR"),
    re.compile(r"ASC|DESC|LIKE|ILIKE|IN|IS|NOT|BETWEEN"),
)
"""Numbers, texts, functions, names, operators, and words that stand in like places."""


def kind(token: str) -> int | None:
    """Return the class of a token, None for a word that holds a statement together."""
    return next((i for i, c in enumerate(CLASSES) if c.fullmatch(token)), None)


def exchanged(r: Random, tokens: list[str], pool: list[str]) -> str:
    """Return the text with one or two tokens replaced by others of their class."""
    tokens = list(tokens)
    places = [i for i, t in enumerate(tokens) if kind(t) is not None]
    for place in r.sample(places, min(len(places), r.choice((1, 2)))):
        tokens[place] = r.choice([t for t in pool if kind(t) == kind(tokens[place])])
    return " ".join(tokens)


def mutated(r: Random, tokens: list[str], pool: list[str]) -> str:
    """Return the text with one to four tokens deleted, doubled, swapped, replaced or inserted."""
    tokens = list(tokens)
    for _ in range(r.choice((1, 1, 2, 3, 4))):
        place = r.randrange(len(tokens) + 1)
        other = r.randrange(len(tokens)) if tokens else 0
        match r.randrange(6):
            case 0 if tokens:
                del tokens[other]
            case 1 if tokens:
                tokens.insert(place, tokens[other])
            case 2 if tokens and place < len(tokens):
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 3 if tokens:
                tokens[other] = r.choice(pool)
            case 4 if tokens:
                a, b = sorted((place, other))
                tokens[a:b] = []
            case _:
                tokens.insert(place, r.choice(pool))
    text = " ".join(tokens)
    if r.random() < 0.05:  # a cut or a changed character
        place = r.randrange(len(text) + 1)
        text = (
            text[:place]
            + r.choice(("", "\x00", "'", "\n", "\udcff", "\U0001f642"))
            + text[place + 1 :]
        )
    return text


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dp_sql.Connection]]:
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder)
    opened = {
        name: dp_sql.connect(folder / f"{name}.yaml", ledger=":memory:")
        for name in ("people", "visits")
    }
    yield opened
    for connection in opened.values():
        connection.close()


def fuzz(connections: dict[str, dp_sql.Connection], seed: str, count: int) -> Counter[str]:
    """Ask `count` mutated statements and return what came back, by kind."""
    r = Random(seed)
    known = statements()
    tokens = [(schema, TOKEN.findall(sql)) for schema, sql in known]
    pool = sorted({t for _, some in tokens for t in some}) + list(STRANGE) * 4
    seen: Counter[str] = Counter()
    for _ in range(count):
        schema, some = r.choice(tokens)
        sql = (exchanged if r.random() < 0.6 else mutated)(r, some, pool)
        try:
            result = connections[schema].sql(sql, epsilon=1, delta="1e-6")
        except (InternalError, SchemaError, LedgerError) as error:
            pytest.fail(f"{type(error).__name__}: {error}\n{sql!r}")
        except EngineError as error:
            if "the statement failed in the database" in str(error):
                pytest.fail(f"{error}\n{sql!r}")
            seen["failed above the release"] += 1
        except DPSQLError as error:
            seen[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001  that there is none is the test
            pytest.fail(f"{type(error).__name__}: {error}\n{sql!r}")
        else:
            assert all(len(row) == len(result.columns) for row in result.fetchall()), sql
            seen["answered"] += 1
    return seen


def test_mutated_statements_are_answered_or_refused(
    connections: dict[str, dp_sql.Connection],
) -> None:
    seen = fuzz(connections, "fuzz", 120)
    print(f"\nfuzz: {sum(seen.values())} statements, {dict(seen)}")  # noqa: T201
    assert sum(seen.values()) == 120
    assert seen["answered"] >= 2
    assert seen["QueryError"] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_mutated_statements_are_answered_or_refused_long(
    connections: dict[str, dp_sql.Connection], part: int
) -> None:
    seen = fuzz(connections, f"fuzz-{part}", 2000)
    print(f"\nfuzz {part}: {dict(seen)}")  # noqa: T201
    assert sum(seen.values()) == 1200


@pytest.mark.parametrize(
    "sql", ["SELECT '\udcff'", "\ud800", "SELECT COUNT(*) FROM people -- \udfff"]
)
def test_half_a_character_is_refused(connections: dict[str, dp_sql.Connection], sql: str) -> None:
    with pytest.raises(dp_sql.QueryError):
        connections["people"].sql(sql, epsilon=1)
