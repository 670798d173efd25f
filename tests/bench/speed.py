"""Measures the engine against DuckDB itself: hand-written bounded SQL, and the plain query.

usage: python tests/bench/visits.py visits.duckdb 1e7; python tests/bench/speed.py visits.duckdb

Prints medians of the timed runs and ratios within one run, of time and of processor time. User level is
compared with hand-written SQL that enforces the same contribution set, event level with the plain query.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import yaml_text

import dp_sql

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
GROUPS, ROWS = 3, 20
PAIRS = """
WITH p AS (SELECT user_id, {key} AS g, {inner} FROM visits GROUP BY ALL)
SELECT g, {outer} FROM (SELECT *, lag(1, {groups}) OVER (PARTITION BY user_id
  ORDER BY hash(user_id, g, 42)) AS l FROM p) WHERE l IS NULL GROUP BY g
"""
CLAMPED = (
    "sum(CASE WHEN amount BETWEEN 0 AND 500 THEN CAST(amount * 100 AS BIGINT) "
    "WHEN amount IS NULL OR isnan(amount) THEN NULL WHEN amount < 0 THEN 0 ELSE 50000 END)"
)
COUNT = ("least(count(*), 20) AS n", "sum(n)")
AVERAGE = (
    f"count(*) AS c, count(amount) AS m, {CLAMPED} AS s",
    (
        "sum(CASE WHEN c > 20 THEN s * 20 // c ELSE s END), "
        "sum(CASE WHEN c > 20 THEN m * 20 // c ELSE m END)"
    ),
)
CASES = [
    ("region", "COUNT(*)", COUNT),
    ("category", "COUNT(*)", COUNT),
    ("day", "COUNT(*)", COUNT),
    ("region", "COUNT(*), AVG(amount)", AVERAGE),
    ("category", "COUNT(*), AVG(amount)", AVERAGE),
]


def medians(*runs: Callable[[], object]) -> list[tuple[float, float]]:
    """Return the median seconds and processor seconds of each of `runs`, which take turns RUNS times.

    The processor's seconds are of all threads of this process: other programs hardly change them.
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in runs]
    for turn in range(RUNS + 1):
        for run, times in zip(runs, taken, strict=True):
            wall, processor = time.perf_counter(), time.process_time()
            run()
            if turn:  # the first is a warm-up
                times.append((time.perf_counter() - wall, time.process_time() - processor))
    return [
        (statistics.median(w for w, _ in times), statistics.median(p for _, p in times))
        for times in taken
    ]


def main(file: str) -> None:
    """Print one line a level and case; what is compared takes turns, on the same settings."""
    print(
        f"{'level':6} {'key':9} {'aggregates':22} {'dp_sql':>8} {'hand':>8} {'plain':>8} {'ratio':>6} "
        f"{'processor':>9}"
    )
    with tempfile.TemporaryDirectory() as folder, closing(duckdb.connect()) as duck:
        duck.execute(f"ATTACH '{file}' AS visits_ (READ_ONLY)")
        duck.execute("USE visits_")
        duck.execute("SET preserve_insertion_order = false")
        schema = Path(folder) / "visits.yaml"
        for key, aggregates, (inner, outer) in CASES:
            bounded = PAIRS.format(key=key, inner=inner, outer=outer, groups=GROUPS)
            simple = f"SELECT {key}, {aggregates} FROM visits GROUP BY {key}"
            for level, rival in (("event", simple), ("user", bounded)):
                schema.write_text(yaml_text.visits(file, level, GROUPS, ROWS))
                with dp_sql.connect(schema, ledger=":memory:", reuse=False, in_process=True) as con:
                    ours, theirs = medians(
                        lambda sql=simple, con=con: _ask(con, sql),
                        lambda sql=rival: duck.execute(sql).fetchall(),
                    )
                print(
                    f"{level:6} {key:9} {aggregates:22} {ours[0]:8.3f} "
                    f"{theirs[0] if level == 'user' else 0:8.3f} "
                    f"{theirs[0] if level == 'event' else 0:8.3f} {ours[0] / theirs[0]:6.2f} "
                    f"{ours[1] / theirs[1]:9.2f}",
                    flush=True,
                )


def _ask(con: Any, sql: str) -> object:
    return con.sql(sql, epsilon=1, delta=1e-9).fetchall()


if __name__ == "__main__":
    main(sys.argv[1])
