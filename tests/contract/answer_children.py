"""Processes that ask the same statements of one ledger at the same time, and are killed.

usage: python answer_children.py SCHEMA TRIES SEED. In each try two processes ask the same, and one of
them is killed. Prints one line of JSON: how many were killed, and each answer that was told, with its
statement.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from ledger_children import in_child

import dp_sql
from dp_sql import repeats  # noqa: F401  children are forked with everything imported
from dp_sql.executor import duckdb_engine  # noqa: F401

STATEMENTS = [f"SELECT COUNT(*) FROM people WHERE pay > {k}" for k in range(3)]
STATEMENTS += [
    f"SELECT SUM(pay) FROM people WHERE pay > (SELECT AVG(pay) - {k} FROM people)" for k in "12"
]


def ask(schema: str, order: list[str], writing: int) -> None:
    with dp_sql.connect(schema, ledger=f"{schema}.ledger") as connection:
        for sql in order:
            ((value,),) = connection.sql(sql)
            os.write(writing, f"{json.dumps([sql, value])}\n".encode())


def lines(reading: int, first: bytes = b"") -> list[str]:
    with os.fdopen(reading) as pipe:
        found = (first.decode() + pipe.read()).split("\n")
        return [line for line in found if line.endswith("]")]


def main(schema: str, tries: int, seed: int) -> None:
    moments = random.Random(seed)
    told: list[str] = []
    killed = 0
    for number in range(tries):
        order = moments.sample(STATEMENTS, len(STATEMENTS))
        pids, readings = zip(
            *(in_child(lambda w, order=order: ask(schema, order, w)) for _ in range(2)),  # type: ignore[misc]
            strict=True,
        )
        first = os.read(readings[0], 1)  # connecting takes its time
        time.sleep(moments.uniform(0, 0.08))
        os.kill(pids[0], signal.SIGKILL)
        killed += os.waitpid(pids[0], 0)[1] == signal.SIGKILL
        told += lines(readings[0], first) + lines(readings[1])
        if os.waitpid(pids[1], 0)[1] != 0:
            raise SystemExit("a child failed")
        if number % 2:  # so that there is something to draw again
            Path(f"{schema}.ledger.answers").unlink()
    print(json.dumps({"killed": killed, "told": [json.loads(line) for line in told]}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
