"""Processes that use a ledger at the same time, fork, and are killed. Started by the tests.

Each command prints one line of JSON. Children are forked from a process that has imported
everything, so that a try takes milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from budget_cases import UNIT, budget, laplace, statement

from dp_sql.budget import open_ledger
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import OWNER
from dp_sql.errors import BudgetExceededError, LedgerError
from dp_sql.schema.catalog import AccountantKind, BudgetSpec


def in_child(work: Callable[[int], object]) -> tuple[int, int]:
    """Fork, run `work` with the writing end of a pipe, and return pid and reading end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            work(writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading


def read_all(descriptor: int) -> list[str]:
    with os.fdopen(descriptor) as pipe:
        return pipe.read().split()


def spend_everything(ledger: Ledger, epsilon: str) -> list[str]:
    """Reserve until nothing fits, and return the query ids that were paid for."""
    paid = []
    while True:
        record = statement()
        try:
            ledger.reserve(record, {"a": laplace(epsilon), "b": laplace(epsilon)})
        except BudgetExceededError:
            return paid
        paid.append(record.query_id)


def race(path: str, processes: int, threads: int, epsilon: str) -> object:
    """Let threads of several processes spend one budget; return what each process was granted."""

    def work(writing: int) -> None:
        paid: list[str] = []
        with open_ledger(path) as ledger:
            each = [
                threading.Thread(target=lambda: paid.extend(spend_everything(ledger, epsilon)))
                for _ in range(threads)
            ]
            for thread in each:
                thread.start()
            for thread in each:
                thread.join()
        os.write(writing, "".join(f"{query_id} " for query_id in paid).encode())

    open_ledger(path).close()  # what is imported lazily is imported once
    children = [in_child(work) for _ in range(processes)]
    paid = [read_all(reading) for _, reading in children]
    codes = [os.waitpid(pid, 0)[1] for pid, _ in children]
    return {"paid": paid, "codes": codes}


def kills(path: str, tries: int, seed: int) -> object:
    """Kill a child that reserves and then answers, again and again; compare both afterwards.

    The children go on with a ledger that has compiled its statements. One in four is killed while
    it opens the file or reserves for the first time, the others at any step of what follows.
    """
    ledger = open_ledger(path)
    reserve(ledger)

    def work(writing: int) -> None:
        while True:
            os.write(writing, f"{reserve(ledger)} ".encode())

    moments = random.Random(seed)
    answered: set[str] = set()
    lost = 0
    for _ in range(tries):
        pid, reading = in_child(work)
        begun = b"" if moments.random() < 0.25 else os.read(reading, 37)  # the first answer
        time.sleep(moments.uniform(0, 0.04))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        answered.update(begun.decode().split(), read_all(reading))
        charged = {entry.query_id for entry in ledger.entries()}
        lost += len(answered - charged)
    problems = ledger.verify().problems
    charges = ledger.state("a").statements - 1
    ledger.close()
    return {
        "tries": tries,
        "answers": len(answered),
        "charges": charges,
        "lost": lost,
        "problems": problems,
    }


def keep_asking(path: str) -> object:
    """Reserve, whatever happens to the server, until standard input ends; print what was paid for."""
    errors = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            with open_ledger(path) as ledger:
                while not select.select([sys.stdin], [], [], 0)[0]:
                    sys.stdout.write(f"{reserve(ledger)}\n")
                    sys.stdout.flush()
        except LedgerError:
            errors += 1
            time.sleep(0.01)
    return {"errors": errors}


def raise_race(path: str, processes: int) -> object:
    """Let processes raise one budget to 2, 3, … and spend it at the same time."""

    def work(writing: int) -> None:
        told = []
        with open_ledger(path) as ledger:
            for epsilon in range(2, processes + 2):
                try:
                    ledger.raise_budget("a", pure(epsilon), OWNER, f"to {epsilon}")
                    told.append(f"raised:{epsilon}")
                except LedgerError:
                    pass  # another process has raised it that far, or further
                told.append(f"paid:{reserve(ledger)}")
        os.write(writing, " ".join(told).encode())

    children = [in_child(work) for _ in range(processes)]
    told = [word.split(":") for _, reading in children for word in read_all(reading)]
    codes = [os.waitpid(pid, 0)[1] for pid, _ in children]
    found: dict[str, list[str]] = {"raised": [], "paid": []}
    for kind, what in told:
        found[kind].append(what)
    return {**found, "codes": codes}


def raise_kills(path: str, tries: int, seed: int) -> object:
    """Kill a child that raises a budget again and again and tells each raise when it is done."""
    ledger = open_ledger(path)
    moments = random.Random(seed)
    told: set[int] = set()
    lost = 0

    def work(writing: int) -> None:
        while True:
            epsilon = int(ledger.state("a").registration.budget.epsilon) + 1
            ledger.raise_budget("a", pure(epsilon), OWNER, "")
            os.write(writing, f"{epsilon:>9} ".encode())

    for _ in range(tries):
        pid, reading = in_child(work)
        begun = b"" if moments.random() < 0.25 else os.read(reading, 10)
        time.sleep(moments.uniform(0, 0.04))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told.update(map(int, [*begun.decode().split(), *read_all(reading)]))
        lost += max(told, default=0) > ledger.state("a").registration.budget.epsilon
    raises, problems = ledger.raises(), ledger.verify().problems
    lost += len(told - {int(entry.epsilon) for entry in raises})
    ledger.close()
    return {
        "tries": tries,
        "told": len(told),
        "raises": len(raises),
        "lost": lost,
        "problems": problems,
    }


def fork(path: str) -> object:
    """Fork with an open ledger; close it in the parent while the child goes on."""
    ledger = open_ledger(path)
    before = [reserve(ledger) for _ in range(3)]
    go_on_reading, go_on_writing = os.pipe()

    def work(writing: int) -> None:
        first = [reserve(ledger) for _ in range(3)]
        os.write(writing, b"started ")
        os.read(go_on_reading, 1)  # the parent has closed its ledger
        paid = first + [reserve(ledger) for _ in range(3)]
        os.write(writing, " ".join(paid).encode())

    pid, reading = in_child(work)
    assert os.read(reading, 8) == b"started "
    after = reserve(ledger)
    ledger.close()
    os.write(go_on_writing, b"x")
    child = read_all(reading)
    _, code = os.waitpid(pid, 0)
    return {"parent": [*before, after], "child": child, "code": code}


def fork_among_threads(path: str, forks: int) -> object:
    """Fork again and again while threads of the parent reserve; each child reserves once."""
    ledger = open_ledger(path)
    stop = threading.Event()
    paid: list[str] = []

    def spend() -> None:
        while not stop.is_set():
            paid.append(reserve(ledger))

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    children, codes = [], []
    for _ in range(forks):
        pid, reading = in_child(lambda writing: os.write(writing, reserve(ledger).encode()))
        children += read_all(reading)
        codes.append(os.waitpid(pid, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    ledger.close()
    return {"paid": [*paid, *children], "children": len(children), "codes": codes}


def fork_memory() -> object:
    """Use the parent's ledger in memory in a child."""
    ledger = open_ledger(":memory:")
    ledger.register("a", "a", UNIT, budget())

    def work(writing: int) -> None:
        try:
            reserve(ledger)
        except LedgerError as error:
            os.write(writing, error.message.replace(" ", "_").encode())

    pid, reading = in_child(work)
    message = read_all(reading)
    os.waitpid(pid, 0)
    reserve(ledger)
    return {"message": message, "parent": ledger.state("a").statements}


def full_disk(path: str, room: int, kind: str) -> object:
    """Reserve, or raise a budget, until no file may grow; return what was told and the last error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = open_ledger(path)
    log = Path(path + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (log + room, log + room))
    told: list[object] = []
    try:
        while True:
            if kind == "reserve":
                told.append(reserve(ledger))
            else:
                epsilon = 2_000_000 + len(told)
                wanted = budget(str(epsilon), "1e-6", AccountantKind.PURE, "0")
                ledger.raise_budget("a", wanted, OWNER, "more " * 20)
                told.append(epsilon)
    except LedgerError as error:
        message = error.message
    return {"told": told, "message": message}


def open_as_nobody(path: str) -> object:
    """Open a ledger as a user without rights, unless this user has none anyway."""
    open_ledger(":memory:").close()  # what is imported lazily is imported with root's rights
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        ledger = open_ledger(path)
        reserve(ledger)
    except LedgerError as error:
        return {"error": str(error)}
    return {"error": None}


def pure(epsilon: int) -> BudgetSpec:
    return budget(str(epsilon), "0", AccountantKind.PURE, "0")


def reserve(ledger: Ledger) -> str:
    record = statement()
    ledger.reserve(record, {"a": laplace("0.01")})
    return record.query_id


COMMANDS: dict[str, Callable[..., object]] = {
    "race": race,
    "kills": kills,
    "keep_asking": keep_asking,
    "raise_race": raise_race,
    "raise_kills": raise_kills,
    "fork": fork,
    "fork_among_threads": fork_among_threads,
    "fork_memory": fork_memory,
    "full_disk": full_disk,
    "open_as_nobody": open_as_nobody,
}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    answer = COMMANDS[command](*(int(a) if a.isdigit() else a for a in arguments))
    sys.stdout.write(json.dumps(answer) + "\n")
