"""Processes that ask the same statements of one ledger at the same time, and are killed.

usage: python answer_children.py SCHEMA race|kills NUMBER SEED. Prints one line of JSON: how often
children were killed, and each answer that one of them told, with its statement.
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

STATEMENTS = [f"SELECT COUNT(*) FROM people WHERE pay > {k}" for k in range(9)]
STATEMENTS += [
    f"SELECT SUM(pay) FROM people WHERE pay > (SELECT AVG(pay) - {k} FROM people)" for k in "12"
]


def ask(schema: str, order: list[str], writing: int) -> None:
    with dp_sql.connect(schema, ledger=f"{schema}.ledger") as connection:
        for sql in order:
            ((value,),) = connection.sql(sql)
            os.write(writing, f"{json.dumps([sql, value])}\n".encode())


def lines(reading: int) -> list[str]:
    with os.fdopen(reading) as pipe:
        return [line for line in pipe.read().split("\n") if line.endswith("]")]


def main(schema: str, command: str, number: int, seed: int) -> None:
    moments = random.Random(seed)
    told: list[str] = []
    if command == "race":
        children = [in_child(lambda w: ask(schema, STATEMENTS, w)) for _ in range(number)]
        told += [line for _, reading in children for line in lines(reading)]
        killed = sum(os.waitpid(pid, 0)[1] != 0 for pid, _ in children)
    else:
        killed = 0
        for _ in range(number):
            order = moments.sample(STATEMENTS, len(STATEMENTS))
            pid, reading = in_child(lambda w, order=order: ask(schema, order, w))  # type: ignore[misc]
            first = os.read(reading, 1)  # connecting takes its time
            time.sleep(moments.uniform(0, 0.15))
            os.kill(pid, signal.SIGKILL)
            killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
            told += [
                first.decode() + line if i == 0 else line for i, line in enumerate(lines(reading))
            ]
            if moments.random() < 0.4:  # so that there is something to draw again
                Path(f"{schema}.ledger.answers").unlink(missing_ok=True)
    print(json.dumps({"killed": killed, "told": [json.loads(line) for line in told]}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
