"""What a budget does: it is charged before data are read, and refuses what no longer fits.

Run it from anywhere: python examples/budget.py
"""

import tempfile
from pathlib import Path

import dp_sql

ROOT = Path(__file__).resolve().parent.parent
QUESTION = "SELECT COUNT(DISTINCT customer_id) AS customers FROM purchases WHERE dollars > 100"


def ask_until_refused(ledger: Path) -> int:
    """Ask the same question until the budget has no room for it; return how often it was answered.

    Asked again it would be free: the first answer is kept. Here every answer is drawn anew and paid.
    """
    answered = 0
    with dp_sql.connect(
        ROOT / "schemas" / "cdnow.yaml",
        data_dir=ROOT / "dp_sql" / "demo",
        ledger=ledger,
        reuse=False,
    ) as connection:
        while True:
            try:
                connection.sql(QUESTION, epsilon=1)
            except dp_sql.BudgetExceededError as refusal:
                print(refusal)
                return answered
            answered += 1


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "purchases.ledger"
    print(f"answered {ask_until_refused(file)} times")
    # The budget belongs to the data, not to a connection: a new one finds it spent.
    print(f"answered {ask_until_refused(file)} times")
