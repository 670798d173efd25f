"""How wrong answers are, beside the naive choice: python tests/bench/accuracy.py [RUNS | keys | again]

It asks dp_sql through SQL on the CDNOW purchases, the census sample and TPC-H's lineitem (scale 0.01),
at epsilon 1 and 0.1, and writes tests/bench/ACCURACY.md. The naive choice splits epsilon evenly among a
sum around the middle of the range, a count and, for variances, a sum of squares; takes quantiles from a
tree of noisy counts; and shows private keys by a Laplace threshold. Its noise is added to the exact
answer over rows that are weighed as dp_sql weighs them. Errors are medians over the runs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dp_sql

ROOT = Path(__file__).parents[2]
CDNOW = ROOT / "dp_sql" / "demo" / "cdnow.parquet"
CENSUS = ROOT / "examples" / "data" / "census_income_kdd_test.parquet"
TREE = 16  # branches of a node of the naive quantile tree, of 4 levels
DELTA = "1e-9"
KEYS_DELTA = "1e-6"
GAINS = {
    "AVG": 1.2,
    "VAR": 2.0,
}  # at least, of the noise alone: what splitting epsilon among sums costs
MORE = 8  # times the runs, where a quotient came out lower
RNG = np.random.default_rng()

TPCH = """
version: 1
database: "duckdb://"
privacy: {level: event, adjacency: add_remove, caps: {epsilon: 100}}
tables:
  lineitem:
    source: lineitem.parquet
    budget: {epsilon: 1e9, delta: 0.1, accountant: sequential}
    columns:
      l_quantity: {type: "decimal(15,2)", bounds: [1, 50]}
      l_extendedprice: {type: "decimal(15,2)", bounds: [0, 110000]}
      l_discount: {type: "decimal(15,2)", bounds: [0, 0.1]}
      l_returnflag: {type: varchar, values: [A, N, R], nullable: false}
"""


ZIPF = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person, adjacency: add_remove, caps: {epsilon: 100}}
tables:
  events:
    source: zipf.parquet
    owner: uid
    budget: {epsilon: 1e9, delta: 0.1, accountant: sequential}
    limits: {max_groups: 20, max_rows_per_group: 1}
    columns:
      uid: {type: bigint}
      k: {type: bigint}
"""
Pairs = tuple[Any, Any]


@dataclass(frozen=True)
class Scene:
    """One data set. rows, groups: what one unit may add to a group, and to how many groups."""

    name: str
    connection: dp_sql.Connection
    file: Path
    rows: int
    groups: int


@dataclass(frozen=True)
class Case:
    """One question. column, low, high: what is aggregated, in its declared bounds."""

    kind: str
    call: str
    column: str = ""
    low: float = 0
    high: float = 1
    other: tuple[str, float, float] = ("", 0, 1)


def laplace(scale: float) -> float:
    return float(RNG.laplace(0, scale))


def values_of(scene: Scene, table: str, column: str) -> Any:
    whole = f"SELECT *, {weight_of(scene)} AS w FROM '{scene.file}' AS {table}"
    return np.asarray(duckdb.sql(f"SELECT {column} AS v FROM ({whole})").fetchnumpy()["v"], float)


def weight_of(scene: Scene) -> str:
    """Return what a row weighs where a unit's rows weigh as its limit at most, as dp_sql bounds them."""
    if scene.rows == 1:
        return "1"
    return f"least(1, {scene.rows} / count(*) OVER (PARTITION BY customer_id))"


def naive(scene: Scene, table: str, case: Case, epsilon: float) -> float:
    """Return the naive choice's answer."""
    unit = scene.rows  # of one group
    x = np.clip(values_of(scene, table, case.column), case.low, case.high) if case.column else None
    w = values_of(scene, table, "w")
    match case.kind:
        case "AVG" | "VAR":
            parts = 2 if case.kind == "AVG" else 3
            half = (case.high - case.low) / 2
            z = x - (case.low + half)  # type: ignore[operator]
            scale = parts * unit / epsilon
            n = max(1.0, w.sum() + laplace(scale))
            first = ((w * z).sum() + laplace(scale * half)) / n
            if case.kind == "AVG":
                return float(case.low + half + first)
            second = ((w * z**2).sum() + laplace(scale * half**2)) / n
            return float(max(0.0, second - first**2))
        case "CORR":
            name, low, high = case.other
            y = np.clip(values_of(scene, table, name), low, high)
            u = 2 * (x - case.low) / (case.high - case.low) - 1  # type: ignore[operator]
            v = 2 * (y - low) / (high - low) - 1
            scale = 6 * unit / epsilon
            sums = [(w * p).sum() for p in (np.ones(len(u)), u, v, u * u, v * v, u * v)]
            n, a, b, aa, bb, ab = (float(s) + laplace(scale) for s in sums)
            n = max(n, 1.0)
            spread = max(1e-9, aa / n - (a / n) ** 2) * max(1e-9, bb / n - (b / n) ** 2)
            return float(np.clip((ab / n - a * b / n**2) / spread**0.5, -1, 1))
        case "MEDIAN":
            return tree(x, w, case, 4 * unit / epsilon)
        case _:
            raise ValueError(case.kind)


def tree(x: Any, w: Any, case: Case, scale: float) -> float:
    """Return the median by a walk down a tree of noisy counts."""
    leaves = TREE**4
    places = ((x - case.low) / (case.high - case.low) * leaves).astype(int).clip(0, leaves - 1)
    counts = np.bincount(places, weights=w, minlength=leaves)
    start, size = 0, leaves
    wanted = 0.5
    while size > 1:
        step = size // TREE
        noisy = [
            counts[start + i * step : start + (i + 1) * step].sum() + laplace(scale)
            for i in range(TREE)
        ]
        weights = np.maximum(noisy, 0)
        total = weights.sum() or 1.0
        cumulated = np.cumsum(weights) / total
        branch = int(min(np.searchsorted(cumulated, wanted), TREE - 1))
        before = cumulated[branch - 1] if branch else 0.0
        share = weights[branch] / total
        wanted = (wanted - before) / share if share else 0.5
        start, size = start + branch * step, step
    return float(case.low + (case.high - case.low) * start / leaves)


def errors(ask: Callable[[], float], exact: float, runs: int) -> float:
    return float(np.median([abs(ask() - exact) for _ in range(runs)]))


def naive_keys(pairs: Pairs, groups: int, epsilon: float, delta: float) -> int:
    """Return how many keys a Laplace threshold shows, of the pairs of unit and key, a few of each unit."""
    units, keys = pairs
    mixed = RNG.permutation(units.size)
    mixed = mixed[np.argsort(units[mixed], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(units[mixed]) != 0])
    rank = np.arange(mixed.size) - np.repeat(starts, np.diff(np.r_[starts, mixed.size]))
    counts = np.unique(keys[mixed[rank < groups]], return_counts=True)[1]
    own = 1 - (1 - delta) ** (1 / groups)
    threshold = 1 - groups / epsilon * np.log(2 * own)
    return int((counts + RNG.laplace(0, groups / epsilon, counts.size) >= threshold).sum())


def zipf(folder: Path) -> Path:
    """Write units with many keys each, of which few are common: the k-th in proportion to k^-1.05."""
    count, keys = 50_000, 75_000
    chances = 1 / np.arange(1, keys + 1) ** 1.05
    of_unit = np.minimum(1 + RNG.geometric(1 / 11, count), 200)
    units = np.repeat(np.arange(count), of_unit)
    drawn = RNG.choice(keys, units.size, p=chances / chances.sum())
    duckdb.sql(
        "SELECT unnest($u) AS uid, unnest($k) AS k",
        params={"u": units.tolist(), "k": drawn.tolist()},
    ).write_parquet(str(folder / "zipf.parquet"))
    return folder / "zipf.parquet"


def key_lines(made: list[Scene], folder: Path, runs: int) -> list[str]:
    """Return the lines of the table of private keys."""
    file = zipf(folder)
    (folder / "zipf.yaml").write_text(ZIPF)
    connection = dp_sql.connect(
        folder / "zipf.yaml", data_dir=folder, ledger=":memory:", reuse=False
    )
    cases = [("Zipf", connection, file, "events", "uid", "k")]
    cases += [
        (s.name, s.connection, s.file, TABLES[s.name], "customer_id", KEYS[s.name])
        for s in made
        if s.name in KEYS
    ]
    lines = []
    for name, asked, source, table, owner, key in cases:
        found = duckdb.sql(f"SELECT DISTINCT {owner} AS u, {key} AS k FROM '{source}'").fetchnumpy()
        pairs = (np.asarray(found["u"]), np.unique(np.asarray(found["k"]), return_inverse=True)[1])
        for groups in (1, 3, 20):
            options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = {groups})"
            sql = f"SELECT {options} {key} AS k FROM {table} GROUP BY ALL"
            for epsilon in (1.0, 0.1):
                ours = [
                    len(asked.sql(sql, epsilon=str(epsilon), delta=KEYS_DELTA).fetchall())
                    for _ in range(runs)
                ]
                theirs = [
                    naive_keys(pairs, groups, epsilon, float(KEYS_DELTA)) for _ in range(runs)
                ]
                a, b = float(np.median(ours)), float(np.median(theirs))
                ratio = f"{a / b:.1f}" if b else "-"
                lines.append(
                    f"| {name} | `{key}` | {groups} | {epsilon:g} | {a:g} | {b:g} | {ratio} |"
                )
                print(lines[-1], flush=True)
    return lines


CASES = {
    "CDNOW": (
        Case("AVG", "AVG(dollars)", "dollars", 0, 300), Case("VAR", "VAR_POP(dollars)", "dollars", 0, 300),
        Case("MEDIAN", "MEDIAN(dollars)", "dollars", 0, 300),
        Case("CORR", "CORR(dollars, cds)", "dollars", 0, 300, ("cds", 1, 40)),
    ),
    "census": (
        Case("AVG", "AVG(age)", "age", 0, 90), Case("VAR", "VAR_POP(age)", "age", 0, 90),
        Case("AVG", "AVG(wage_per_hour)", "wage_per_hour", 0, 9999),
        Case("VAR", "VAR_POP(wage_per_hour)", "wage_per_hour", 0, 9999),
        Case("MEDIAN", "MEDIAN(age)", "age", 0, 90),
        Case("CORR", "CORR(age, wage_per_hour)", "age", 0, 90, ("wage_per_hour", 0, 9999)),
    ),
    "TPC-H": (
        Case("AVG", "AVG(l_quantity)", "l_quantity", 1, 50),
        Case("VAR", "VAR_POP(l_extendedprice)", "l_extendedprice", 0, 110000),
        Case("MEDIAN", "MEDIAN(l_extendedprice)", "l_extendedprice", 0, 110000),
        Case("CORR", "CORR(l_quantity, l_extendedprice)", "l_quantity", 1, 50, ("l_extendedprice", 0, 110000)),  # noqa: E501
    ),
}  # fmt: skip
TABLES = {"CDNOW": "purchases", "census": "census", "TPC-H": "lineitem"}
KEYS = {"CDNOW": "dollars"}


def scenes(folder: Path) -> list[Scene]:
    subprocess.run(
        ["tpchgen-cli", "parquet", "-s", "0.01", "-T", "lineitem", f"--output-dir={folder}"],  # noqa: S607
        check=True,
    )
    (folder / "tpch.yaml").write_text(TPCH)
    made = []
    for name, schema, data, file, limits in (
        ("CDNOW", ROOT / "schemas" / "cdnow.yaml", CDNOW.parent, CDNOW, (20, 4)),
        ("census", ROOT / "schemas" / "census.yaml", CENSUS.parent, CENSUS, (1, 1)),
        ("TPC-H", folder / "tpch.yaml", folder, folder / "lineitem.parquet", (1, 1)),
    ):
        text = schema.read_text().replace("caps: {epsilon: 1}", "caps: {epsilon: 1e9}")
        text = text.replace(
            "budget: {epsilon: 10, delta: 1e-6, accountant: renyi}",
            "budget: {epsilon: 1e9, delta: 0.1, accountant: sequential}",
        )
        copy = folder / f"{name}.yaml"
        copy.write_text(text)
        connection = dp_sql.connect(copy, data_dir=data, ledger=":memory:", reuse=False)
        made.append(Scene(name, connection, file, *limits))
    return made


HEAD = """# How wrong answers are

Median absolute errors of {runs} runs each, written by `python tests/bench/accuracy.py {runs}`:
dp_sql through SQL, beside the naive choice, which splits epsilon evenly, centres its sums, takes
quantiles from a tree of noisy counts and shows private keys by a Laplace threshold. CDNOW protects
customers with up to 20 rows in each of 4 groups; in the others a row is a person.

| data | question | epsilon | exact | dp_sql | naive | naive / dp_sql |
| --- | --- | --- | --- | --- | --- | --- |
"""


def vector_error(scene: Scene, size: int, epsilon: float, runs: int) -> str:
    """Return the row of a sum of vectors of length 1 on the census: errors of one entry, in persons.

    The naive choice is a sum an entry, each with its part of epsilon.
    """
    entries = [f"cos({k} * age / 10) / sqrt({size})" for k in range(1, size + 1)]
    sums = ", ".join(f"SUM({entry})" for entry in entries)
    (exact,) = duckdb.sql(f"SELECT {sums} FROM '{scene.file}'").fetchall()
    sql = f"SELECT VECTOR_SUM([{', '.join(entries)}], 1) FROM census"
    found = []
    for _ in range(runs):
        ((v,),) = scene.connection.sql(sql, epsilon=str(epsilon), delta=DELTA).fetchall()
        found += [abs(a - b) for a, b in zip(v, exact, strict=True)]
    ours, other = np.median(found), np.median(np.abs(RNG.laplace(0, size / epsilon, 10**5)))
    return (
        f"| {scene.name} | {size} | {epsilon:g} | {ours:.3g} | {other:.3g} | {other / ours:.1f} |"
    )


AGAIN_HEAD = """
## Medians of more runs

A median of {runs} errors is off by {off:.0f} % as a rule, a quotient of two by {both:.0f} %. Where that of a
mean or a variance came out below {mean:g} or {variance:g}, here it is from {more} runs (python
tests/bench/accuracy.py again). Errors are around the answer over rows that weigh as the limits let them,
to which both sides add their noise: where the limits move it by more than the noise does, the table above
says little of the noise.

| data | question | epsilon | limits move it by | dp_sql | naive | naive / dp_sql |
| --- | --- | --- | --- | --- | --- | --- |
"""

NOTES = """
Of variances the gain is largest where most values lie near one end of their range: there the noise of one
number is nearly all of dp_sql's error, while the naive choice has that of three.

Of CDNOW's `CORR` at epsilon 0.1 neither tells anything: the noise of one number is larger than the sums of
squares around the means. dp_sql answers 0 most of the time, with the interval from -1 to 1; the naive
answer is cut to 1 or to -1, to 1 more often, as noise in its count moves the covariance and the variances
alike, and 1 is near to what is asked.
"""


KEYS_HEAD = """## Private keys

How many keys are shown by `SELECT k … GROUP BY k`, medians of 5 runs at delta 1e-6, beside a Laplace
threshold on their numbers of units (python tests/bench/accuracy.py keys). A unit adds to max_groups keys
at most; the same rule leaves out the others on both sides. Zipf: 50,000 units with 12 draws each on
average among 75,000 keys, the k-th in proportion to k^-1.05.

| data | keys | max_groups | epsilon | dp_sql shows | Laplace threshold | times |
| --- | --- | --- | --- | --- | --- | --- |
"""


def exact_of(scene: Scene, table: str, case: Case) -> float:
    """Return the answer without noise, its values cut to the bounds."""
    cut = f"CASE WHEN {case.column} > {case.high} THEN {case.high} ELSE {case.column} END"
    call = case.call.replace(f"({case.column}", f"({cut}")
    return float(duckdb.sql(f"SELECT {call} FROM '{scene.file}' AS {table}").fetchall()[0][0])


def weighed(scene: Scene, table: str, case: Case) -> float:
    """Return the mean or variance without noise of rows that weigh as the limits let them."""
    x = np.clip(values_of(scene, table, case.column), case.low, case.high)
    w = values_of(scene, table, "w")
    mean = float(np.average(x, weights=w))
    return mean if case.kind == "AVG" else float(np.average((x - mean) ** 2, weights=w))


def both_errors(
    scene: Scene, case: Case, epsilon: float, exact: float, runs: int
) -> tuple[float, float]:
    """Return the median errors of dp_sql and of the naive choice."""
    table = TABLES[scene.name]
    sql = f"SELECT {case.call} FROM {table}"

    def ours() -> float:
        return float(scene.connection.sql(sql, epsilon=str(epsilon), delta=DELTA).fetchall()[0][0])

    theirs = errors(lambda: naive(scene, table, case, epsilon), exact, runs)
    return errors(ours, exact, runs), theirs


def compared(scene: Scene, case: Case, epsilon: float, runs: int) -> str:
    """Return the row of one question at one epsilon."""
    exact = exact_of(scene, TABLES[scene.name], case)
    a, b = both_errors(scene, case, epsilon, exact, runs)
    ratio = "-" if a == 0 else f"{b / a:.1f}"
    shown = f"{exact:.6g} | {a:.3g} | {b:.3g} | {ratio}"
    return f"| {scene.name} | `{case.call}` | {epsilon:g} | {shown} |"


def again(made: list[Scene], rows: list[str], runs: int) -> Iterator[str]:
    """Yield the section on the rows of the first table that show less gain than the noise should give."""
    off = 100 / (np.log(2) * np.sqrt(runs))  # of a median of exponential errors, asymptotically
    more = MORE * runs
    head = AGAIN_HEAD.format(
        runs=runs, off=off, both=off * 2**0.5, more=more, mean=GAINS["AVG"], variance=GAINS["VAR"]
    )
    yield from head.rstrip().splitlines()
    found = {tuple(line.split(" | ")[:3]): line.split(" | ")[-1].rstrip(" |") for line in rows}
    for scene in made:
        table = TABLES[scene.name]
        for case in CASES[scene.name]:
            for epsilon in (1.0, 0.1) if case.kind in GAINS else ():
                named = f"| {scene.name} | `{case.call}` | {epsilon:g}"
                if float(found[tuple(named.split(" | "))]) >= GAINS[case.kind]:
                    continue
                exact = weighed(scene, table, case)
                moved = abs(exact - exact_of(scene, table, case))
                moved = moved if scene.rows > 1 else 0.0
                a, b = both_errors(scene, case, epsilon, exact, more)
                line = f"{named} | {moved:.3g} | {a:.3g} | {b:.3g} | {b / a:.1f} |"
                print(line, flush=True)
                yield line
    yield from NOTES.rstrip().splitlines()


def again_alone() -> None:
    """Write the section on more runs anew, for the rows of the table as it is."""
    file = Path(__file__).parent / "ACCURACY.md"
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("| --- ")) + 1
    first = end
    while lines[end].startswith("|"):
        end += 1
    rest = next(i for i, line in enumerate(lines) if line.startswith("| data | entries"))
    runs = int(lines[2].split(" of ")[1].split()[0])
    with tempfile.TemporaryDirectory() as folder:
        new = list(again(scenes(Path(folder)), lines[first:end], runs))
    file.write_text("\n".join([*lines[:end], *new, "", *lines[rest:]]) + "\n", encoding="utf-8")


def keys_alone() -> None:
    """Write the section of private keys anew, and leave the others as they are."""
    file = Path(__file__).parent / "ACCURACY.md"
    above = file.read_text(encoding="utf-8").split(KEYS_HEAD.splitlines()[0])[0].rstrip()
    with tempfile.TemporaryDirectory() as folder:
        lines = key_lines(scenes(Path(folder)), Path(folder), 5)
    file.write_text(
        "\n".join([above, "", *KEYS_HEAD.splitlines(), *lines]) + "\n", encoding="utf-8"
    )


def main(runs: int) -> None:
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        made = scenes(Path(folder))
        for scene in made:
            for case in CASES[scene.name]:
                for epsilon in (1.0, 0.1):
                    rows.append(compared(scene, case, epsilon, runs))
                    print(rows[-1], flush=True)
        lines = [HEAD.format(runs=runs).rstrip(), *rows, *again(made, rows, runs)]
        lines += [
            "",
            "| data | entries of a vector | epsilon | dp_sql | a sum each | naive / dp_sql |",
        ]
        lines.append("| --- | --- | --- | --- | --- | --- |")
        for size in (2, 8, 32):
            for epsilon in (1.0, 0.1):
                lines.append(vector_error(made[1], size, epsilon, max(5, runs // 8)))
                print(lines[-1], flush=True)
        lines += ["", *KEYS_HEAD.splitlines(), *key_lines(made, Path(folder), 5)]
    (Path(__file__).parent / "ACCURACY.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["keys"]:
        keys_alone()
    elif sys.argv[1:] == ["again"]:
        again_alone()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
