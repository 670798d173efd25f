"""Training in SQL: a linear regression from one noisy vector, beside `gradient_descent.py`.

Which adults work all year round? A linear regression needs nothing of the data but the sums of
products of its features, with each other and with what is asked. They are one vector a person, so
one statement releases them all, and everything after it is arithmetic that costs nothing.

Run it from anywhere: python examples/sufficient_statistics.py
"""

from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

import dp_sql

ROOT = Path(__file__).resolve().parent.parent
FEATURES = {
    "one": "1",
    "age": "age / 90",
    "age_squared": "pow(age / 90, 2)",
    "old": "CASE WHEN age >= 62 THEN 1 ELSE 0 END",
    "male": "CASE WHEN sex = 'Male' THEN 1 ELSE 0 END",
    "married": "CASE WHEN marital LIKE 'Married-civ%' THEN 1 ELSE 0 END",
    "married_man": "CASE WHEN marital LIKE 'Married-civ%' AND sex = 'Male' THEN 1 ELSE 0 END",
    "degree": "CASE WHEN education LIKE 'Bach%' OR education LIKE 'Mast%' THEN 1 ELSE 0 END",
    "school": "CASE WHEN education LIKE '%grade%' THEN 1 ELSE 0 END",
    "enrolled": "CASE WHEN enrolled <> 'Not in universe' THEN 1 ELSE 0 END",
}
ITEMS = ", ".join(f"{text} AS {name}" for name, text in FEATURES.items())
ROWS = f"""(
    SELECT {ITEMS}, CASE WHEN weeks_worked >= 48 THEN 1 ELSE 0 END AS y
    FROM census WHERE age >= 18 AND pid % 4 {{part}}
)"""
PAIRS = list(combinations_with_replacement(FEATURES, 2))

with dp_sql.connect(
    ROOT / "schemas" / "census.yaml", data_dir=ROOT / "examples" / "data", ledger=":memory:"
) as connection:
    train, test = ROWS.format(part="<> 0"), ROWS.format(part="= 0")
    products = ", ".join([*(f"{a} * {b}" for a, b in PAIRS), *(f"{f} * y" for f in FEATURES)])
    answer = connection.sql(f"SELECT VECTOR_SUM([{products}], 5) FROM {train}", epsilon=0.5)
    ((sums,),) = answer
    places = {pair: i for i, pair in enumerate(PAIRS)}
    gram = np.array(
        [[sums[places.get((a, b), places.get((b, a)))] for a in FEATURES] for b in FEATURES]
    )
    # Noise of about 53 on each sum moves the matrix's eigenvalues by up to 300 or so, and one that comes
    # near zero would ruin the weights: as much is added to all of them.
    ridge = 300 * np.eye(len(FEATURES))
    weights = np.linalg.solve(gram + ridge, np.array(sums[len(PAIRS) :]))
    print("weights:", ", ".join(f"{f} {w:.2f}" for f, w in zip(FEATURES, weights, strict=True)))
    print(f"{len(sums)} sums in one statement of epsilon {float(answer.cost['census'].epsilon):g}")

    score = " + ".join(f"{w:.6f} * {f}" for w, f in zip(weights, FEATURES, strict=True))
    question = f"""
        SELECT AVG(CASE WHEN ({score} > 0.5) = (y = 1) THEN 1 ELSE 0 END) AS right, AVG(y) AS busy
        FROM {test}
    """
    ((right, busy),) = connection.sql(question, epsilon=0.5)
    print(f"right for {right:.1%} of the others, where {max(busy, 1 - busy):.1%} are of one kind")
