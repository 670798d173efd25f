"""Local sensitivity beside the default: what three ways to choose a median and a mode are off by.

The default, permute-and-flip, chooses among public candidates and needs no delta. Smooth sensitivity
and propose-test-release compute the exact answer and add noise for how far these very data let it
move. Both are safe, and both are answered where a schema names them; the numbers say why none does.

Run it from anywhere: python examples/local_sensitivity.py
"""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import duckdb

import dp_sql

DATA = Path(__file__).resolve().parent / "data" / "census_income_kdd_test.parquet"
RUNS = 7
SCHEMA = f"""
version: 1
database: "duckdb://"
privacy: {{level: event}}
mechanisms: {{quantiles: [QUANTILES], mode: [MODE]}}
tables:
  census:
    source: {DATA.name}
    budget: {{epsilon: 1e6, delta: 0.5, accountant: sequential}}
    columns:
      pid: {{type: integer, bounds: [0, 100000]}}
      age: {{type: integer, bounds: [0, 90]}}
      sex: {{type: varchar, values: [Female, Male]}}
"""
WAYS = {  # the mechanisms of quantiles and of MODE, and what the call says more
    "permute_and_flip": ("permute_and_flip", ""),
    "smooth_sensitivity": ("permute_and_flip", ""),
    "propose_test_release": ("propose_test_release", ", proposed => 1"),
}
QUESTIONS = {"100,000 rows": "TRUE", "2,000 rows": "pid % 50 = 0", "200 rows": "pid % 500 = 0"}

print(f"Median age and most frequent sex at epsilon 1 and delta 1e-6, {RUNS} times each:")
errors, lines = {}, {}
with TemporaryDirectory() as folder:
    for way, (mode, more) in WAYS.items():
        schema = Path(folder) / f"{way}.yaml"
        schema.write_text(SCHEMA.replace("QUANTILES", way).replace("MODE", mode), encoding="utf-8")
        with dp_sql.connect(
            schema,
            data_dir=DATA.parent,
            ledger=":memory:",
            reuse=False,  # each run draws anew
        ) as connection:
            for rows, where in QUESTIONS.items():
                # only who holds the data can say how far an answer is off
                exact = f"SELECT MEDIAN(age), MODE(sex) FROM '{DATA}' WHERE {where}"
                ((age, sex),) = duckdb.sql(exact).fetchall()
                ages, sexes = (
                    [
                        connection.sql(
                            f"SELECT {call} FROM census WHERE {where}", epsilon=1, delta="1e-6"
                        ).fetchall()[0][0]
                        for _ in range(RUNS)
                    ]
                    for call in (f"MEDIAN(age{more})", "MODE(sex)")
                )
                shown = [abs(value - age) for value in ages if value is not None]
                errors[rows, way] = median(shown) if shown else float("inf")
                off = f"off by {errors[rows, way]:.2f} years" if shown else "never shown"
                lines[rows, way] = (
                    f"{rows:>12}  {way:20}  median {off:17} (NULL {RUNS - len(shown):2} times), "
                    f"mode right {sexes.count(sex):2} times (NULL {sexes.count(None):2} times)"
                )
for rows in QUESTIONS:
    for way in WAYS:
        print(lines[rows, way])

best = sum(errors[r, "permute_and_flip"] <= min(errors[r, w] for w in WAYS) for r in QUESTIONS)
print(f"The default, permute_and_flip, was off by least on {best} of {len(QUESTIONS)}.")
