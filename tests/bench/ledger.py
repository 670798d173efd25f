"""How long a reservation takes, on an empty ledger and after 10,000 statements: wall time.

python tests/bench/ledger.py [STATEMENTS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))

from budget_cases import laplace, statement
from ledger_cases import new_ledger
from postgres_cluster import shared_cluster

from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Status

ONE = {"a": laplace("0.01")}


def measured(ledger: Ledger) -> str:
    """Return the median, the fastest and the slowest tenth of 300 reservations, in milliseconds."""
    times = []
    for _ in range(300):
        start = time.perf_counter()
        receipt = ledger.reserve(statement(), ONE)
        times.append(1000 * (time.perf_counter() - start))
        ledger.finish(receipt, Status.ANSWERED)
    tenths = quantiles(times, n=10)
    return f"median {median(times):5.2f}  fastest tenth {tenths[0]:5.2f}  slowest {tenths[-1]:5.2f}"


def main(statements: int) -> None:
    with tempfile.TemporaryDirectory() as folder, shared_cluster(Path(folder)) as cluster:
        cluster.run("CREATE DATABASE bench")
        for name, where in {
            "SQLite": str(Path(folder) / "bench.ledger"),
            "PostgreSQL": cluster.url("bench"),
        }.items():
            with new_ledger(where) as ledger:
                print(f"{name:10}  {'empty':>16}: {measured(ledger)} ms")
                for _ in range(0, statements, 250):
                    ledger.reserve_all([(statement(), ONE) for _ in range(250)])
                print(f"{name:10}  {statements:>5} statements: {measured(ledger)} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
