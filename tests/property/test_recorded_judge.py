"""The judge of neighbours sees what it is there for: each broken copy of a mechanism, and each lone error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import fuzz
import pytest
import test_recorded as recorded
from oracle.hostile import attack
from oracle.recorder import one_hash_key
from oracle.world import World

from dp_sql import stages
from dp_sql.errors import (
    BudgetExceededError,
    DPSQLError,
    EngineError,
    InternalError,
    LedgerError,
    NotPrivateError,
    ParameterError,
    Position,
    QueryError,
    SchemaError,
    UnsupportedSQLError,
)
from dp_sql.mechanisms import chooser, measurement, release
from dp_sql.mechanisms.sampler import rate_below
from dp_sql.plan.facts import ExactTable
from dp_sql.privacy.seal_open import open_sealed
from dp_sql.privacy.sealed import Sealed
from dp_sql.sensitivity import contribution


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    """Yield some rows, these and one person more, one person alone, and none."""
    made = recorded.hostile_worlds(tmp_path_factory.mktemp("judge"))
    yield made
    for place in made:
        place.__exit__()


@pytest.fixture(autouse=True)
def _one_key() -> Iterator[None]:
    with one_hash_key():
        yield


def _half_of_whole(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return a calibration that halves the noise of what reads no sample."""

    def calibrated(parts: Any, **more: Any) -> Any:
        whole = all(facts.sample_rate is None for _, facts in parts)
        return (recorded._halved(known) if whole else known)(parts, **more)

    return calibrated


def _twice(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return a selection that counts each unit twice."""

    def selected(selection: Any, noise: Any, sealed: Any, sampler: Any) -> Any:
        table = open_sealed(sealed)
        columns = [[2 * n for n in column] for column in table.columns]
        return known(selection, noise, Sealed(ExactTable(table.keys, columns)), sampler)

    return selected


def _steep(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule of coins whose chance grows four times as fast as it says that it costs."""

    def rule(*arguments: Any) -> Any:
        made = known(*arguments)
        return replace(made, epsilon=4 * made.epsilon)

    return rule


def _light(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return an analysis that takes one of a unit's rows for all that a histogram has of it."""
    return lambda *arguments: replace(known(*arguments), weight=1)


SAMPLED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sample_rate = 0.99) COUNT(*) AS n FROM t"
SETS = "SELECT vc, k, MIN(CLAMP(i, 0, 9)) AS a FROM t GROUP BY GROUPING SETS ((vc, k), ())"
BROKEN: dict[str, tuple[slice, str, tuple[Any, str, Any]]] = {
    "choices of another set than the one without groups": (
        slice(2, 4), SETS, (chooser, "rate_below", lambda limit: rate_below(16 * limit)),
    ),
    "half the noise on a sample": (
        slice(0, 2), SAMPLED, (stages, "calibrate_sets", recorded._halved(stages.calibrate_sets)),
    ),
    "half the noise beside a sample": (
        slice(0, 2), f"SELECT n, (SELECT COUNT(*) FROM t) AS m FROM ({SAMPLED})",
        (stages, "calibrate_sets", _half_of_whole(stages.calibrate_sets)),
    ),
    "scores of selection count twice": (
        slice(0, 2), "SELECT vc, k, COUNT(*) AS n FROM t GROUP BY vc, k",
        (release, "selected", _twice(release.selected)),
    ),
    "coins that are too steep": (
        slice(0, 2), "SELECT vc FROM t GROUP BY vc",
        (measurement, "optimal_rule", _steep(measurement.optimal_rule)),
    ),
    "a third of the weight in a histogram": (
        slice(0, 2), "SELECT HISTOGRAM(k) AS h FROM t",
        (contribution, "derive_histogram", _light(contribution.derive_histogram)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_mechanism_is_found(
    name: str,
    places: list[World],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    near, sql, patch = BROKEN[name]
    recorded.examine(places[near], sql, caplog)
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError):
        recorded.examine(places[near], sql, caplog)
    recorded.FOUND.clear()


def test_statements_over_samples_keep_their_deltas(
    places: list[World], caplog: pytest.LogCaptureFixture
) -> None:
    for seed in range(20):
        sql = fuzz.on_sample(attack(Random(f"samples-{seed}")), "0.9")
        recorded.examine(places[:2], sql, caplog)
    assert recorded.FOUND["compared"] >= 8
    assert recorded.FOUND["moved"] >= 3
    recorded.report("recorded, samples")


FIRST = QueryError("not like this.", hint="otherwise", text="SELECT 1", position=Position(1, 1))
LONE: dict[str, tuple[DPSQLError | None, DPSQLError | None]] = {
    "a refusal": (None, FIRST),
    "a refusal of the first alone": (FIRST, None),
    "an unsupported construct": (None, UnsupportedSQLError("no.")),
    "rows": (None, NotPrivateError("no.")),
    "a parameter": (None, ParameterError("no.")),
    "a budget": (None, BudgetExceededError("no.")),
    "a ledger": (None, LedgerError("no.")),
    "a schema": (None, SchemaError("no.")),
    "the database": (None, EngineError("no.")),
    "the database, of the first alone": (EngineError("no."), None),
    "a bug": (None, InternalError("no.")),
    "another class": (UnsupportedSQLError("no."), NotPrivateError("no.")),
    "another text": (QueryError("no 1."), QueryError("no 2.")),
    "another hint": (QueryError("no.\nInstead: yes"), QueryError("no.", hint="yes")),
    "another place": (QueryError("no."), QueryError("no.", position=Position(1, 2))),
    "another example": (
        QueryError("no.\nFor example: SELECT"),
        QueryError("no.", example="SELECT"),
    ),
    "another amount": (BudgetExceededError("no."), BudgetExceededError("no.", by_epsilon=False)),
}
COUNTED = "SELECT COUNT(*) AS n FROM t"


def _raising(error: DPSQLError | None, known: Callable[..., Any]) -> Callable[..., Any]:
    def raising(*arguments: Any, **more: Any) -> Any:
        if error is not None:
            raise error
        return known(*arguments, **more)

    return raising


def _fail(patch: pytest.MonkeyPatch, place: World, stage: str, error: DPSQLError | None) -> None:
    """Let a world fail while it prepares, while it reads rows, or above the release."""
    owner, name = {
        "prepare": (place, "prepare"), "execute": (place.engine, "execute"), "run": (place.post, "run"),
    }[stage]  # fmt: skip
    patch.setattr(owner, name, _raising(error, getattr(owner, name)))


@pytest.mark.parametrize("stage", ["prepare", "execute", "run"])
@pytest.mark.parametrize("name", LONE)
def test_an_error_that_one_neighbour_alone_has_is_a_fault(
    name: str, stage: str, places: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    near = places[:2]
    for place, error in zip(near, LONE[name], strict=True):
        _fail(monkeypatch, place, stage, error)
    with pytest.raises(AssertionError, match="told apart by an error"):
        fuzz.outcome(near, COUNTED, compared=True)
    recorded.FOUND.clear()


def test_the_same_error_at_another_stage_is_a_fault(
    places: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail(monkeypatch, places[0], "prepare", EngineError("no."))
    _fail(monkeypatch, places[1], "execute", EngineError("no."))
    with pytest.raises(AssertionError, match="stage"):
        fuzz.outcome(places[:2], COUNTED, compared=True)
    recorded.FOUND.clear()


@pytest.mark.parametrize("stage", ["prepare", "execute", "run"])
def test_an_error_that_all_neighbours_have_is_an_outcome(
    stage: str, places: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, shown in ((FIRST, "QueryError"), (EngineError("no."), "failed above the release")):
        with monkeypatch.context() as patch:
            for place in places[:2]:
                _fail(patch, place, stage, error)
            assert fuzz.outcome(places[:2], COUNTED, compared=True) == shown
    assert fuzz.outcome(places[:2], COUNTED, compared=True) == "answered"
    recorded.FOUND.clear()


def test_what_mechanisms_were_given_is_compared_where_a_statement_fails_above_them(
    places: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in places[:2]:
        _fail(monkeypatch, place, "run", EngineError("no."))
    monkeypatch.setattr(stages, "calibrate_sets", recorded._halved(stages.calibrate_sets))
    with pytest.raises(AssertionError, match="costs epsilon"):
        fuzz.outcome(places[:2], COUNTED, compared=True)
    recorded.FOUND.clear()
