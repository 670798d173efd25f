"""`dpsql audit` finds each mechanism's broken copy, and nothing in the mechanisms as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_sql import stages
from dp_sql.audit.run import Finding, audit
from dp_sql.audit.trials import trials
from dp_sql.errors import ParameterError
from dp_sql.executor import lower_relation
from dp_sql.mechanisms import chooser, measurement, optimal, popular
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.distinct import Counter
from dp_sql.plan.relation import BoundGroups, Relation
from dp_sql.schema.loader import load

SCHEMA = """
version: 1
database: duckdb:///nowhere.duckdb
privacy: {level: LEVEL, adjacency: ADJACENCY, unit: person, group_size: SIZE}
tables:
  visits:
    owner: uid
    budget: {epsilon: 10, delta: 0.001}
    limits: {max_groups: GROUPS, max_rows_per_group: 2}
    columns:
      uid: {type: bigint}
      x: {type: integer, bounds: [0, 8]}
      note: {type: varchar}
  cities: {public: true, columns: {city: {type: varchar}}}
"""


def schema(
    folder: Path,
    level: str = "event",
    groups: int = 1,
    adjacency: str = "add_remove",
    size: int = 1,
) -> Path:
    text = SCHEMA.replace("LEVEL", level).replace("GROUPS", str(groups))
    text = text.replace("ADJACENCY", adjacency).replace("SIZE", str(size))
    if level == "event":
        lines = [w for w in text.splitlines() if "owner:" not in w and "limits:" not in w]
        text = "\n".join(lines).replace("unit: person, ", "")
    path = folder / "schema.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def found(path: Path, name: str, runs: int, epsilon: str = "1") -> list[Finding]:
    return list(audit(load(path), epsilon=epsilon, runs=runs, mechanisms=[name]))


def scaled(divisor: int) -> tuple[Any, str, Any]:
    """Return a patch: noise of vectors that is too small for what it says that it costs."""
    known = stages.calibrate_sets  # type: ignore[attr-defined]

    def calibrated(*arguments: Any, **more: Any) -> Any:
        return tuple(
            replace(m, noises=tuple(replace(n, scale=max(1, n.scale // divisor)) for n in m.noises))
            for m in known(*arguments, **more)
        )

    return stages, "calibrate_sets", calibrated


def quick(times: int) -> tuple[Any, str, Any]:
    """Return a patch: choices at a multiple of their rate."""
    known = chooser.rate_below
    return chooser, "rate_below", lambda limit: known(times * limit)


def lavish(factor: Fraction) -> tuple[Any, str, Any]:
    """Return a patch: thresholds for a larger delta."""
    known = measurement.threshold
    most = Fraction(1, 3)
    return measurement, "threshold", lambda n, delta, *r: known(n, min(delta * factor, most), *r)


def lucky() -> tuple[Any, str, Any]:
    known = optimal.chances
    return (
        optimal,
        "chances",
        lambda epsilon, delta: known(epsilon, min(10 * delta, Fraction(1, 3))),
    )


def faint(divisor: int) -> tuple[Any, str, Any]:
    """Return a patch: noise on the weights of public values that is too small; the event stays whole."""
    known = popular._noisy

    def noisy(weights: Any, chooser: Chooser, sampler: Any) -> Any:
        return known(weights, replace(chooser, epsilon=divisor * chooser.epsilon), sampler)

    return popular, "_noisy", noisy


def unsure(divisor: int) -> tuple[Any, str, Any]:
    """Return a patch: noise on numbers of distinct values that is too small."""
    known: Callable[..., Any] = Counter.noise

    def noise(self: Counter, cap: int) -> tuple[int, int]:
        lattice, scale = known(self, cap)
        return lattice, max(1, scale // divisor)

    return Counter, "noise", noise


def unbounded_groups() -> tuple[Any, str, Any]:
    def whole(relation: Relation) -> str:
        inner = relation.source if isinstance(relation, BoundGroups) else relation
        return f"({lower_relation.lower_relation(inner)}) AS pairs_"

    return lower_relation, "_few", whole


NO_ROW_LIMIT = (lower_relation, "_bound", lambda _, value, *__: f"CAST({value} AS HUGEINT)")
BROKEN: dict[str, tuple[str, dict[str, Any], int, Callable[[], tuple[Any, str, Any]]]] = {
    # what is broken: (mechanism, schema, runs, patch)
    "a quarter of the noise": ("count:laplace", {}, 1500, lambda: scaled(4)),
    "half the noise": ("count:laplace", {}, 6000, lambda: scaled(2)),
    "half the noise of a sum": ("sum:laplace", {}, 6000, lambda: scaled(2)),
    "a quarter of the noise of a mean": ("mean:laplace", {}, 4000, lambda: scaled(4)),
    "an eighth of the noise of a variance": ("variance:laplace", {}, 4000, lambda: scaled(8)),
    "a quarter of Gaussian noise": ("count:gaussian", {}, 4000, lambda: scaled(4)),
    "half the noise of persons": ("persons", {"level": "user"}, 4000, lambda: scaled(2)),
    "choices too quick": ("quantiles:permute_and_flip", {}, 3000, lambda: quick(12)),
    "exponential choices too quick": ("quantiles:exponential", {}, 3000, lambda: quick(12)),
    "modes too quick": ("mode:permute_and_flip", {}, 4000, lambda: quick(4)),
    "modes by exponential choice too quick": ("mode:exponential", {}, 8000, lambda: quick(5)),
    "a quarter of the noise on weights": ("mode:noisy_max_laplace", {}, 8000, lambda: faint(4)),
    "half the noise of distinct values": ("distinct", {}, 4000, lambda: unsure(2)),
    "L0 ignored": ("count:laplace", {"level": "user"}, 1500, unbounded_groups),
    "rows of a person not bounded": ("count:laplace", {"level": "user"}, 4000, lambda: NO_ROW_LIMIT),
    "sums of a person not bounded": ("sum:laplace", {"level": "user"}, 4000, lambda: NO_ROW_LIMIT),
    "thresholds too low": ("keys:laplace", {}, 4000, lambda: lavish(Fraction(6))),
    "Gaussian thresholds too low": ("keys:gaussian", {}, 4000, lambda: lavish(Fraction(40))),
    "weighted thresholds too low": (
        "keys:weighted_gaussian", {"level": "user", "groups": 2}, 4000, lambda: lavish(Fraction(80)),
    ),
    "two rounds' thresholds too low": (
        "keys:two_rounds", {"level": "user", "groups": 2}, 4000, lambda: lavish(Fraction(80)),
    ),
    "lucky coins": ("keys:optimal", {"level": "user"}, 1500, lucky),
    "one of two replaced units is forgotten": (
        "count:laplace", {"adjacency": "substitution"}, 4000, lambda: scaled(2),
    ),
}  # fmt: skip
OFTEN = ("a quarter of the noise", "L0 ignored", "lucky coins")


def often(names: Any, some: tuple[str, ...]) -> list[Any]:
    return [n if n in some else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", often(BROKEN, OFTEN))
def test_a_broken_copy_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, kind, runs, patch = BROKEN[name]
    path = schema(tmp_path, **kind)
    monkeypatch.setattr(*patch())
    epsilon = "2" if name == "L0 ignored" else "1"
    (finding,) = found(path, mechanism, runs, epsilon)
    assert finding.broken, finding


WHOLE: dict[str, dict[str, Any]] = {
    "event": {},
    "user": {"level": "user"},
    "two groups": {"level": "user", "groups": 2},
    "replaced": {"level": "user", "adjacency": "substitution"},
    "emptied": {"level": "user", "adjacency": "zero_out"},
    "two units": {"size": 2},
}


@pytest.mark.parametrize("name", often(WHOLE, ()))
def test_no_mechanism_is_found_to_break_its_claim_long(name: str, tmp_path: Path) -> None:
    path = schema(tmp_path, **WHOLE[name])
    findings = list(audit(load(path), epsilon="1", runs=4000))
    assert len(findings) >= 15
    for finding in findings:
        assert not finding.broken, finding
        assert finding.bound is not None or finding.reason
    assert sum(f.bound is not None and f.bound > 0.1 for f in findings) >= 3


def test_counts_and_keys_keep_their_claims(tmp_path: Path) -> None:
    path = schema(tmp_path, "user", 2)
    for mechanism in ("persons", "keys:optimal"):
        (finding,) = found(path, mechanism, 600)
        assert finding.bound is not None
        assert 0 < finding.claim <= 1
        assert not finding.broken


def test_every_mechanism_of_a_schema_is_tried(tmp_path: Path) -> None:
    names = [trial.name for trial in trials(load(schema(tmp_path, "user")))]
    assert len(names) == len(set(names))
    for family in ("count:laplace", "sum:gaussian", "persons", "distinct"):
        assert family in names
    for name in ("keys:laplace", "keys:two_rounds", "keys:optimal", "mode:permute_and_flip"):
        assert name in names
    assert {trial.table.name for trial in trials(load(schema(tmp_path)))} == {"visits"}


def test_what_is_no_mechanism_and_no_amount_is_refused(tmp_path: Path) -> None:
    catalog = load(schema(tmp_path))
    for epsilon, runs, mechanism in (
        ("0", 10, "count"), ("nan", 10, "count"), ("1", 1, "count"), ("1", 10, "counts"),
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            list(audit(catalog, epsilon=epsilon, runs=runs, mechanisms=[mechanism]))
