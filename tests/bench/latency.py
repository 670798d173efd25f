"""Measures statements on small tables, from text to answer, each statement for the first time.

usage: python tests/bench/latency.py [FOLDER]

FOLDER: where the ledgers lie, on the disk whose sync counts; by default a temporary one. Prints the
median milliseconds of distinct statements, of each part of them, and of the same ones asked again.
The first tenth tells more than the median where other programs use the machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import visits
import yaml_text

import dp_sql
from dp_sql import connection, demo, stages

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 4
DEMO = (
    "purchases",
    ("", "year(day)", "month(day)", "year(day), month(day)"),
    (
        "COUNT(*)", "COUNT(*), SUM(dollars)", "AVG(dollars)", "SUM(cds)",
        "COUNT(DISTINCT customer_id)", "AVG(cds), AVG(dollars)",
    ),
    ("", "dollars > {}", "cds <= {}", "cds > 1 AND dollars < 100.{}"),
)  # fmt: skip
VISITS = (
    "visits",
    ("", "region", "month(day)", "category"),
    ("COUNT(*)", "COUNT(*), SUM(amount)", "AVG(amount)", "COUNT(*), AVG(amount)"),
    ("", "amount > {}", "day <> DATE '2024-02-11' AND amount < 100.{}"),
)


def statements(case: tuple[Any, ...]) -> list[str]:
    """Return statements that are all different, shuffled the same way each time."""
    table, keys, aggregates, filters = case
    texts = []
    for turn, (key, aggregate, condition) in enumerate(
        product(keys, aggregates, list(filters) * ROUNDS)
    ):
        where = f" WHERE {condition.format(10 + turn)}" if condition else ""
        alias = f" AS a{turn}"
        items = ", ".join(part for part in (key, aggregate + alias) if part)
        rest = f" GROUP BY {key} ORDER BY {key}" if key else ""
        texts.append(f"SELECT {items} FROM {table}{where}{rest}")
    return sorted(texts, key=hash_of)


def hash_of(text: str) -> int:
    """Return a number that mixes the order of texts and is the same in each run."""
    return int.from_bytes(text.encode()) % 1_000_003


class Clock:
    """Seconds by part of a statement."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Measure every call of a function of a module, or of an object's method."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[label].append(time.perf_counter() - start)

        setattr(owner, name, timed)

    def line(self) -> str:
        """Return the medians, in milliseconds."""
        return ", ".join(
            f"{label} {1000 * statistics.median(seconds):.2f}"
            for label, seconds in self.seconds.items()
        )


def measure(name: str, schema: Path, ledger: Path, case: tuple[Any, ...]) -> None:
    """Print one table's medians."""
    texts = statements(case)
    clock = Clock()
    with dp_sql.connect(schema, ledger=ledger, reuse=False) as con:
        seen: Any = con
        clock.watch(seen._ledger, "finish", "finish")
        clock.watch(seen._post, "describe", "describe")
        clock.watch(seen._post, "run", "answer")
        clock.watch(seen._engine, "execute", "execute")
        for module, function, label in (
            (connection, "parse", "parse"),
            (connection, "reserve", "reserve"),
            (stages, "plan_sets", "plan"),
            (stages, "calibrate_sets", "calibrate"),
            (stages, "release", "noise"),
        ):
            clock.watch(module, function, label)
        for text in texts[:5]:
            ask(con, text)
        clock.seconds.clear()
        for text in texts[5:]:
            clock.seconds["whole"].append(ask(con, text))
        whole = clock.seconds.pop("whole")
        fast = statistics.quantiles(whole, n=10)[0]
        print(
            f"{name}: {1000 * statistics.median(whole):.1f} ms of {len(whole)} statements, "
            f"a tenth of them below {1000 * fast:.1f} ms"
        )
        print(f"  {clock.line()}")
        again = [ask(con, text) for text in texts[5:]]
        print(f"  asked again, and drawn anew: {1000 * statistics.median(again):.1f} ms")
    with dp_sql.connect(schema, ledger=ledger) as con:
        for text in texts:
            ask(con, text)
        free = [ask(con, text) for text in texts[5:]]
        print(f"  asked again, for free: {1000 * statistics.median(free):.1f} ms")


def ask(con: dp_sql.Connection, text: str) -> float:
    """Return the seconds from text to rows."""
    start = time.perf_counter()
    con.sql(text, epsilon="0.001", delta="1e-12").fetchall()
    return time.perf_counter() - start


def main(folder: Path) -> None:
    """Measure 2,000 visits at both levels, and the purchases of the demo."""
    file = folder / "visits.duckdb"
    visits.make(str(file), 2000)
    for level in ("event", "user"):
        schema = folder / f"{level}.yaml"
        schema.write_text(yaml_text.visits(str(file), level, 3, 20))
        measure(f"visits, {level} level", schema, folder / f"{level}.ledger", VISITS)
    measure("demo", Path(demo.SCHEMA), folder / "demo.ledger", DEMO)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as made:
        main(Path(made))
