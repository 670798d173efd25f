"""Audits through SQL: every mechanism's answers on two neighbours, told apart no better than claimed.

A group of a public key is a run: groups hold the same rows, and their noise is independent. One
neighbour has one row more in every group, so at event level, or with one person a group, each group's
answer has to be epsilon-close to the other's.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from test_release_audit import epsilon_at_least

import dp_sql
from dp_sql.executor import lower_relation, lower_vector
from dp_sql.mechanisms import chooser, local
from dp_sql.mechanisms.sampler import Rate
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.contribution import Change
from dp_sql.sensitivity import delta, histogram

EPSILON = 1.0
NOTHING = -100  # stands for NULL
SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: LEVEL, adjacency: add_remove, unit: person, caps: {epsilon: 100}}
mechanisms: {mode: [KIND], quantiles: [RANKS]}
tables:
  rows:
    owner: uid
    budget: {epsilon: 1e9, delta: 0.1, accountant: sequential}
    limits: {max_groups: 1, max_rows_per_group: 2}
    columns:
      uid: {type: bigint}
      g: {type: integer, bounds: [1, RUNS], nullable: false}
      x: {type: integer, bounds: [0, 8]}
      y: {type: integer, bounds: [0, 8]}
"""
# one row more, as (x, y), and the statistic that an attacker looks at
CASES = {
    "owners": ("COUNT(DISTINCT uid)", (4, 4)),
    "deviation": ("STDDEV_SAMP(x)", (8, 4)),
    "slope": ("REGR_SLOPE(y, x)", (8, 8)),
    "all": ("CAST(BOOL_AND(x < 8) AS INTEGER)", (8, 4)),
    "distance": ("DISTANCE_TO(x < 8)", (8, 4)),
    "count": ("COUNT(*)", (4, 4)),
    "sum": ("SUM(x)", (8, 4)),
    "mean": ("AVG(x)", (8, 4)),
    "variance": ("VAR_POP(x)", (8, 4)),
    "covariance": ("COVAR_POP(x, y)", (8, 8)),
    "correlation": ("CORR(x, y)", (8, 8)),
    "median": ("MEDIAN(x)", (8, 4)),
    "quantile": ("QUANTILE_DISC(x, 0.9)", (8, 4)),
    "list of quantiles": ("QUANTILE_CONT(x, [0.25, 0.5, 0.75])[2]", (8, 4)),
    "halved quantiles": ("list_sum(QUANTILE_DISC(x, [0.1, 0.3, 0.5, 0.7, 0.9]))", (8, 4)),
    "maximum": ("MAX(x)", (8, 4)),
    "minimum": ("MIN(x)", (0, 4)),
    "mode": ("MODE(x)", (8, 4)),
    "top": ("TOP_K(x, 2)[2]", (8, 4)),
    "bins": ("HISTOGRAM(x, [4])[4]", (4, 4)),
    "rest": ("COALESCE(HISTOGRAM(x, [4])[2147483647], 0)", (8, 4)),
    "blocks": ("SAMPLE_AND_AGGREGATE('max', x, 5, 8, 1)", (8, 4)),
    "distinct": ("COUNT(DISTINCT x)", (8, 4)),
    "vector": ("VECTOR_SUM([x, y], 2)[1]", (8, 0)),
    "long vector": (f"VECTOR_SUM([x, y{', 0' * 30}], 2)[1]", (8, 0)),
}

FEWER = {"halved quantiles": 1_000}
"""Runs of what chooses from thousands of candidates in each group."""


def answers(
    folder: Path,
    call: str,
    more: tuple[int, int],
    *,
    level: str,
    runs: int,
    kind: str = "permute_and_flip",
    ranks: str = "permute_and_flip",
    **amounts: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the answers of all groups without and with one row more in each."""
    samples = []
    for name, extra in (("less", False), ("more", True)):
        here = folder / name
        here.mkdir()
        text = SCHEMA.replace("LEVEL", level).replace("KIND", kind).replace("RUNS", str(runs))
        text = text.replace("RANKS", ranks)
        if level == "event":
            lines = [w for w in text.splitlines() if "owner:" not in w and "limits:" not in w]
            text = "\n".join(lines).replace("unit: person, ", "")
        (here / "schema.yaml").write_text(text)
        rows = [(1, 3, 3), (2, 3, 5), (3, 4, 4)]  # owners are numbered anew in each group
        rows += [(4, *more)] if extra else []
        values = ", ".join(map(str, rows))
        con = duckdb.connect(str(here / "rows.duckdb"))
        con.execute("CREATE TABLE rows(uid BIGINT, g INTEGER, x INTEGER, y INTEGER)")
        con.execute(
            f"INSERT INTO rows SELECT 10 * g + u, g, x, y FROM range(1, {runs + 1}) AS t(g), "
            f"(VALUES {values}) AS v(u, x, y)"
        )
        con.close()
        with dp_sql.connect(here / "schema.yaml", ledger=":memory:", reuse=False) as connection:
            sql = f"SELECT {call} AS v FROM rows GROUP BY g"
            asked: dict[str, str] = {"epsilon": str(EPSILON), "delta": "1e-9", **amounts}
            found = connection.sql(sql, **asked).fetchall()  # type: ignore[arg-type]
        assert len(found) == runs
        samples.append(
            np.array([NOTHING if row[0] is None else row[0] for row in found], dtype=float)
        )
    return samples[0], samples[1]


def check(
    folder: Path, name: str, *, level: str, runs: int, kind: str = "permute_and_flip"
) -> None:
    call, more = CASES[name]
    bound = epsilon_at_least(*answers(folder, call, more, level=level, runs=runs, kind=kind))
    assert bound <= EPSILON


@pytest.mark.parametrize(
    "name", ["median", "mode", "bins", "distinct", "correlation", "vector", "blocks"]
)
def test_neighbours_look_no_more_different_than_claimed(name: str, tmp_path: Path) -> None:
    check(tmp_path, name, level="event", runs=2_000)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["event", "user"])
@pytest.mark.parametrize("name", CASES)
def test_neighbours_look_no_more_different_than_claimed_long(
    name: str, level: str, tmp_path: Path
) -> None:
    check(tmp_path, name, level=level, runs=FEWER.get(name, 10_000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exponential", "noisy_max_gumbel", "noisy_max_laplace"])
@pytest.mark.parametrize("name", ["mode", "top"])
def test_each_way_to_choose_a_mode(name: str, kind: str, tmp_path: Path) -> None:
    check(tmp_path, name, level="event", runs=10_000, kind=kind)


@pytest.mark.parametrize(
    ("name", "times"), [pytest.param("median", 6, marks=pytest.mark.slow), ("mode", 2)]
)
def test_the_audit_finds_a_rate_that_is_too_fast(
    name: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = chooser.rate_below

    def fast(limit: object) -> Rate | None:
        return known(times * limit)  # type: ignore[operator]

    monkeypatch.setattr(chooser, "rate_below", fast)
    call, more = CASES[name]
    samples = answers(tmp_path, call, more, level="event", runs=40_000, kind="permute_and_flip")
    assert epsilon_at_least(*samples) > EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("name", ["median", "list of quantiles", "halved quantiles"])
def test_each_way_to_choose_a_quantile(name: str, tmp_path: Path) -> None:
    call, more = CASES[name]
    ranks = "exponential"
    runs = FEWER.get(name, 10_000)
    samples = answers(tmp_path, call, more, level="event", runs=runs, ranks=ranks)
    assert epsilon_at_least(*samples) <= EPSILON


TREE = {"ranks": "tree"}


@pytest.mark.parametrize("level", ["event", pytest.param("user", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("median", 2_000),
        *(pytest.param(n, 10_000, marks=pytest.mark.slow) for n in ("quantile", "maximum")),
    ],
)
def test_neighbours_look_no_more_different_by_a_tree(
    name: str, runs: int, level: str, tmp_path: Path
) -> None:
    call, more = CASES[name]
    assert (
        epsilon_at_least(*answers(tmp_path, call, more, level=level, runs=runs, **TREE)) <= EPSILON
    )


@pytest.mark.parametrize("name", ["median", "bins"])
def test_the_audit_finds_a_tree_or_bins_with_little_noise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = chooser.Chooser.laplace

    def less(self: chooser.Chooser, times: int = 1) -> tuple[int, int]:
        lattice, scale = known(self, times)
        return lattice, scale // 16

    monkeypatch.setattr(chooser.Chooser, "laplace", less)
    call, more = CASES[name]
    samples = answers(tmp_path, call, more, level="event", runs=4_000, **TREE)
    assert epsilon_at_least(*samples) > EPSILON


def test_the_audit_finds_a_vector_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = lower_vector.measured

    def longer(rows: str, measures: list[tuple[int, NormMeasure]]) -> str:
        """Return rows whose vectors may be three times as long as their measures say."""
        wrong = [
            (
                index,
                SimpleNamespace(size=m.size, step=m.step, limit=3 * m.limit, radius=3 * m.radius),
            )
            for index, m in measures
        ]
        return known(rows, wrong)  # type: ignore[arg-type]

    monkeypatch.setattr(lower_vector, "measured", longer)
    call, more = CASES["vector"]
    samples = answers(tmp_path, call, more, level="event", runs=4_000)
    assert epsilon_at_least(*samples) > EPSILON


SAMPLED = {"sample_rate": "0.1", "delta": "0"}


@pytest.mark.parametrize("level", ["event", "user"])
def test_neighbours_look_no_more_different_over_a_sample(level: str, tmp_path: Path) -> None:
    call, more = CASES["vector"]
    bound = epsilon_at_least(*answers(tmp_path, call, more, level=level, runs=4_000, **SAMPLED))
    assert bound <= EPSILON


def test_the_audit_finds_a_sample_that_holds_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower_relation, "_coin", lambda text, _: f"{text} IS NOT NULL")
    call, more = CASES["vector"]
    samples = answers(tmp_path, call, more, level="event", runs=4_000, **SAMPLED)
    assert epsilon_at_least(*samples) > EPSILON


def test_the_audit_finds_a_block_that_moves_further_than_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(one: int, *rest: Any) -> Change:
        found = delta.blocks_moved(one, *rest)
        return Change(tuple(tuple((s // 2, n) for s, n in p) for p in found.profiles))

    monkeypatch.setattr(histogram, "blocks_moved", half)
    call, more = CASES["blocks"]
    samples = answers(tmp_path, call, more, level="event", runs=4_000, kind="permute_and_flip")
    assert epsilon_at_least(*samples) > EPSILON


BY_LOCAL = {
    "smooth": ("MEDIAN(x)", (8, 4), {"ranks": "smooth_sensitivity"}),
    "smooth ninth": ("QUANTILE_DISC(x, 0.9)", (8, 4), {"ranks": "smooth_sensitivity"}),
    "tested": ("MEDIAN(x, proposed => 1)", (8, 4), {"ranks": "propose_test_release"}),
    "mode": ("MODE(y)", (4, 5), {"kind": "propose_test_release"}),
}
DELTA = 0.05  # so large that it shows


@pytest.mark.parametrize("level", ["event", pytest.param("user", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BY_LOCAL)
def test_neighbours_look_no_more_different_by_local_sensitivity(
    name: str, level: str, tmp_path: Path
) -> None:
    call, more, kinds = BY_LOCAL[name]
    samples = answers(tmp_path, call, more, level=level, runs=2_000, delta=str(DELTA), **kinds)
    assert epsilon_at_least(*samples, delta=DELTA) <= EPSILON


def test_the_audit_finds_noise_for_these_data_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = local.moves

    def near(*group: Any) -> local.Moves:
        """Return how far the quantile moves from the data themselves, and no step further."""
        found = known(*group)
        return local.Moves(found.steps[:1], np.minimum(found.places[:1], 1))

    monkeypatch.setattr(local, "moves", near)
    kinds = {"ranks": "smooth_sensitivity", "delta": str(DELTA)}
    call, more, _ = BY_LOCAL["smooth ninth"]
    samples = answers(tmp_path, call, more, level="event", runs=4_000, **kinds)
    assert epsilon_at_least(*samples, delta=DELTA) > EPSILON


def test_the_audit_finds_a_mode_that_is_shown_untested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "laplace_threshold", lambda *_, **__: -(2**60))
    call, more, kinds = BY_LOCAL["mode"]
    samples = answers(tmp_path, call, more, level="event", runs=2_000, delta=str(DELTA), **kinds)
    assert epsilon_at_least(*samples, delta=DELTA) > EPSILON
