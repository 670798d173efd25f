"""Asks random statements and compares what neighbours show. Run by hand, a kind and a seed at a time:

    python tests/fuzz.py mutated --count 20000 --seed 1

Kinds: tokens of the corpus mutated, exchanged or crossed with another statement; statements of the grammars
over one table, samples of it, vectors, several tables and extreme values, and their tokens mutated. A
statement is refused, or answered: then data sets that differ in one unit give mechanisms values that are no
further apart than is proved, and show the same where the noisy values are the same, so nothing exact is
shown; and where it fails, it fails alike on all. What else happens is printed. Statements that draw at
random, read the clock or leave an order open may differ for that.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "property")]

import test_fuzz as mutation  # noqa: E402  found by the line above
import test_recorded as recorded  # noqa: E402
from oracle import family_data, family_schema, family_statements, hostile, statements  # noqa: E402
from oracle.hostile_persons import person_attack  # noqa: E402
from oracle.recorder import one_hash_key  # noqa: E402
from oracle.world import World  # noqa: E402

from dp_sql.errors import (  # noqa: E402
    DPSQLError,
    EngineError,
    InternalError,
    LedgerError,
    SchemaError,
)

Written = Iterator[tuple[list[Any], str]]
"""Statements, each with the data sets that it is asked of."""
WORDS = (
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "FROM",
    "SELECT",
    "JOIN",
    "QUALIFY",
    "LIMIT",
    "ON",
    "AND",
)


class _Silent:
    records = ()


def crossed(r: Random, tokens: list[str], other: list[str]) -> str:
    """Return the text with a part in parentheses, or a clause, replaced by one of another statement."""
    here, there = _parts(tokens), _parts(other)
    if not here or not there:
        return " ".join(tokens)
    first, last = r.choice(here)
    like = [p for p in there if other[p[0]].upper() == tokens[first].upper()]
    start, end = r.choice(like or there)
    return " ".join(tokens[:first] + other[start:end] + tokens[last:])


def _parts(tokens: list[str]) -> list[tuple[int, int]]:
    found, opened = [], []
    for place, word in enumerate(tokens):
        if word == "(":
            opened.append(place)
        elif word == ")" and opened:
            found.append((opened.pop(), place + 1))
    heads = [place for place, word in enumerate(tokens) if word.upper() in WORDS]
    return found + list(pairwise([*heads, len(tokens)]))


def of_corpus(kind: str, r: Random, folder: Path) -> Written:
    known = [(schema, mutation.TOKEN.findall(sql)) for schema, sql in mutation.statements()]
    pool = sorted({t for _, some in known for t in some}) + list(mutation.STRANGE) * 4
    with recorded.opened_shops(folder) as shops:
        while True:
            schema, tokens = r.choice(known)
            if kind == "crossed":
                other = r.choice([some for name, some in known if name == schema])
                yield shops[schema], crossed(r, tokens, other)
            else:
                change = mutation.exchanged if kind == "exchanged" else mutation.mutated
                yield shops[schema], change(r, tokens, pool)


def of_grammar(kind: str, r: Random, folder: Path) -> Written:
    """Yield statements over small data, new ones after 250."""
    for number in range(10**6):
        place = folder / str(number)
        place.mkdir()
        if kind == "family":
            worlds = family(r, place)
        elif kind == "hostile":
            worlds = recorded.hostile_worlds(place)
        else:
            worlds = recorded.worlds(place, str(r.random()))
        user = worlds[0].catalog.unit.level is recorded.Level.USER
        try:
            for index in range(250):
                near = (worlds[:2], worlds[2:])[index % 2] if kind == "hostile" else worlds
                yield near, grammars(r, user=user, sampled=index % 9 == 0)[kind]()
        finally:
            for world in worlds:
                world.__exit__()


def grammars(r: Random, *, user: bool, sampled: bool) -> dict[str, Callable[[], str]]:
    families = tuple(family_statements.FAMILIES)
    return {
        "grammar": lambda: statements.statement(r, user=user, sampled=sampled),
        "vectors": lambda: statements.vector_statement(r, user=user),
        "family": lambda: family_statements.statement(r, r.choice(families)).sql,
        "hostile": lambda: r.choice((hostile.attack, person_attack))(r),
        "samples": lambda: on_sample(statements.statement(r, user=user), r.choice(("0.5", "0.9"))),
    }


def on_sample(sql: str, rate: str) -> str:
    """Return a statement over a sample of the units, where it begins with what it aggregates."""
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sample_rate = {rate}) "
    return clause + sql.removeprefix("SELECT ") if sql.startswith("SELECT ") else sql


def family(r: Random, folder: Path) -> list[World]:
    data = family_data.database(r)
    for person in range(11, 14):
        data = family_data.with_person(r, data, person)
    less = family_data.without(data, family_data.owners(data)[0])
    sets = {"d": data, "less": less, "more": family_data.with_person(r, data, 99)}
    public = {name: rows for name, (_, rows) in family_schema.PUBLIC.items()}
    catalog = family_schema.family_catalog(
        max_groups=r.choice((1, 2, 3)), max_rows=r.choice((1, 2, 3))
    )
    return [World(folder, catalog, {**rows, **public}, name) for name, rows in sets.items()]


def of_mutated_grammar(kind: str, r: Random, folder: Path) -> Written:
    pool = list(mutation.STRANGE)
    for worlds, sql in of_grammar(kind.removesuffix("-mutated"), r, folder):
        tokens = mutation.TOKEN.findall(sql)
        pool = (tokens + pool)[:1500]
        change = mutation.exchanged if r.random() < 0.6 else mutation.mutated
        yield worlds, change(r, tokens, pool)


KINDS: dict[str, Callable[[str, Random, Path], Written]] = {
    **dict.fromkeys(("mutated", "exchanged", "crossed"), of_corpus),
    **dict.fromkeys(("grammar", "vectors", "family", "hostile", "samples"), of_grammar),
    **dict.fromkeys(("grammar-mutated", "family-mutated"), of_mutated_grammar),
}


def outcome(places: list[Any], sql: str, *, compared: bool) -> str:
    """Return what becomes of a statement; raise for what must not happen."""
    error: DPSQLError | None = None
    try:
        if not isinstance(places[0], World):
            result = places[0].sql(sql, epsilon=1, delta="1e-6")
            assert all(len(row) == len(result.columns) for row in result.fetchall())
        elif not compared:
            places[0].prepare(sql, recorded.EPSILON, recorded.DELTA)
    except DPSQLError as first:
        error = first
    if compared:  # also what the first data set refuses: others may not
        try:
            with one_hash_key():
                error = recorded.examine(places, sql, _Silent()) or error  # type: ignore[arg-type]
        except DPSQLError as shared:
            error = shared
    if error is None:
        return "answered"
    if isinstance(error, InternalError | SchemaError | LedgerError):
        raise error
    if isinstance(error, EngineError):
        if "the statement failed in the database" in str(error):
            raise error
        return "failed above the release"
    return type(error).__name__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--compared", type=float, default=1, help="which part of what is answered")
    options = parser.parse_args()
    r, chosen = Random(f"{options.kind}-{options.seed}"), Random(options.seed)
    seen: Counter[str] = Counter()
    with TemporaryDirectory(prefix="fuzz-") as folder:
        written = KINDS[options.kind](options.kind, r, Path(folder))
        for _ in range(options.count):
            places, sql = next(written)
            began = time.monotonic()
            try:
                seen[outcome(places, sql, compared=chosen.random() < options.compared)] += 1
            except Exception as error:  # noqa: BLE001  that there is none is what is looked for
                seen["faults"] += 1
                print(f"{type(error).__name__}: {error}\n    {sql!r}", flush=True)
            if time.monotonic() - began > 10:
                print(f"slow: {sql!r}", flush=True)
        written.close()  # type: ignore[attr-defined]
    print(options.kind, options.seed, options.count, dict(seen), dict(recorded.FOUND))


if __name__ == "__main__":
    main()
