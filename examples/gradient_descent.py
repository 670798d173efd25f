"""Training in SQL: a logistic regression by private gradient descent (DP-SGD) on the census sample.

Which adults work all year round? Each step sums the gradients of a fresh sample of persons, each of
them cut to a length of 1, and adds noise to the sum. The steps are small and many, and the Rényi rule
of the budget knows that nobody sees who is in a sample.

Run it from anywhere: python examples/gradient_descent.py
"""

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
STEPS, RATE, EPSILON, DELTA = 20, 0.05, 0.1, 1e-8

with dp_sql.connect(
    ROOT / "schemas" / "census.yaml", data_dir=ROOT / "examples" / "data", ledger=":memory:"
) as connection:
    train, test = ROWS.format(part="<> 0"), ROWS.format(part="= 0")
    ((persons,),) = connection.sql(f"SELECT COUNT(*) FROM {train}", epsilon=0.01)
    weights, momentum = np.zeros(len(FEATURES)), np.zeros(len(FEATURES))
    for _ in range(STEPS):
        score = " + ".join(f"{w:.6f} * {f}" for w, f in zip(weights, FEATURES, strict=True))
        gradient = ", ".join(f"error * {name}" for name in FEATURES)
        step = f"""
            SELECT VECTOR_SUM([{gradient}], 1)
            FROM (SELECT *, y - 1 / (1 + exp(-({score}))) AS error FROM {train})
        """
        ((total,),) = connection.sql(step, epsilon=EPSILON, delta=DELTA, sample_rate=RATE)
        momentum = 0.9 * momentum + np.array(total) / (RATE * persons)
        weights += 1.0 * momentum
    print("weights:", ", ".join(f"{f} {w:.2f}" for f, w in zip(FEATURES, weights, strict=True)))
    print(f"{STEPS} steps of epsilon {EPSILON} on samples of {RATE:.0%} of {persons} persons:")
    for line in connection.budget()["census"].lines():
        print(f"  {line}")

    score = " + ".join(f"{w:.6f} * {f}" for w, f in zip(weights, FEATURES, strict=True))
    question = f"""
        SELECT AVG(CASE WHEN ({score} > 0) = (y = 1) THEN 1 ELSE 0 END) AS right, AVG(y) AS busy
        FROM {test}
    """
    ((right, busy),) = connection.sql(question, epsilon=0.5)
    print(f"right for {right:.1%} of the others, where {max(busy, 1 - busy):.1%} are of one kind")
