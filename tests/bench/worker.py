"""Measures what the worker costs: the same statements in pairs, with it and in the process that asks.

usage: python tests/bench/worker.py [ROUNDS]

Prints, over the demo's data, the smallest and the median milliseconds of opening, of statements and of
a whole `dpsql query` from cold, in process and with a worker. Where other programs use the machine the
smallest tell more.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import dp_sql
from dp_sql.demo import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

STATEMENTS = (
    "SELECT COUNT(*) FROM purchases",
    "SELECT year(day) AS y, COUNT(*), AVG(dollars) FROM purchases GROUP BY y",
    "SELECT MEDIAN(dollars) FROM purchases",
)
KINDS = ("in process", "worker")


def measured(rounds: int, works: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return seconds of each kind of work, which take turns."""
    found = defaultdict(list)
    for turn in range(rounds):
        for kind in KINDS if turn % 2 else KINDS[::-1]:
            began = time.perf_counter()
            works[kind]()
            found[kind].append(time.perf_counter() - began)
    return found


def show(what: str, found: dict[str, list[float]]) -> None:
    texts = [
        f"{kind} {1000 * min(times):.1f} (median {1000 * statistics.median(times):.1f})"
        for kind, times in sorted(found.items())
    ]
    print(f"{what}: {', '.join(texts)} ms")


def connect(kind: str) -> dp_sql.Connection:
    return dp_sql.connect(SCHEMA, ledger=":memory:", reuse=False, in_process=kind == "in process")


def asked(connection: dp_sql.Connection, sql: str) -> Callable[[], object]:
    return lambda: connection.sql(sql, epsilon="0.001").fetchall()


def cold(schema: Path) -> None:
    words = ["query", str(schema), "--data-dir", str(SCHEMA.parent), "--ledger", ":memory:", "-c"]
    program = "from dp_sql.cli.main import program; program()"
    subprocess.run(
        [sys.executable, "-c", program, *words, STATEMENTS[0]], check=True, capture_output=True
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    show("connect and close", measured(rounds, {k: lambda k=k: connect(k).close() for k in KINDS}))
    with ExitStack() as stack:
        opened = {kind: stack.enter_context(connect(kind)) for kind in KINDS}
        for sql in STATEMENTS:
            show(sql, measured(2 * rounds, {k: asked(opened[k], sql) for k in KINDS}))
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f"{kind}.yaml" for kind in KINDS}
        text = SCHEMA.read_text(encoding="utf-8")
        files["worker"].write_text(text, encoding="utf-8")
        files["in process"].write_text(f"{text}\nworker: {{in_process: true}}\n", encoding="utf-8")
        show(
            "dpsql query from cold",
            measured(rounds, {k: lambda f=f: cold(f) for k, f in files.items()}),
        )


if __name__ == "__main__":
    main()
