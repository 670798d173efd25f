"""`dpsql audit`: what an audit of a schema's mechanisms found, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dp_sql.audit.run import ALPHA, Finding, audit
from dp_sql.cli.grid import table
from dp_sql.privacy.amount import show_up
from dp_sql.schema.loader import load

_TITLES = ("table", "mechanism", "statement", "runs", "claimed", "shown at least", "")


def audit_text(
    schema: Path, *, epsilon: str, runs: int, mechanisms: Sequence[str], width: int | None = None
) -> tuple[str, bool]:
    """Return the findings as a table, and whether no bound passes its claim."""
    findings = list(audit(load(schema), epsilon=epsilon, runs=runs, mechanisms=mechanisms))
    text = table(list(_TITLES), [_row(f) for f in findings], [False] * len(_TITLES), width)
    return text + "".join(f"{line}\n" for line in _summary(findings)), not any(
        f.broken for f in findings
    )


def _row(finding: Finding) -> list[str]:
    trial = finding.trial
    start = [trial.table.name, trial.name, (trial.call or "keys alone").replace("unit_", "owner")]
    if finding.bound is None:
        return [*start, "0", "", "", f"not answered: {finding.reason}"]
    claim = f"epsilon {show_up(finding.claim)}"
    if finding.delta:
        claim += f", delta {show_up(finding.delta)}"
    shown = f"{max(0.0, finding.bound):.3f}"
    return [*start, str(finding.runs), claim, shown, "BROKEN" if finding.broken else "kept"]


def _summary(findings: Sequence[Finding]) -> Iterator[str]:
    broken = sum(finding.broken for finding in findings)
    if broken:
        yield f"{broken} of {len(findings)} mechanisms tell more than they claim."
    else:
        yield f"No mechanism of {len(findings)} was seen to tell more than it claims."
    yield f"Where one keeps its claim, a bound passes it with a probability of at most {ALPHA:g}."
    yield "Rows were made up from the schema: the data and the ledger were not looked at."
