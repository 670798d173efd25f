from __future__ import annotations

from fractions import Fraction

import pytest
from budget_cases import budget, coins, fine_laplace, gaussian, laplace, rule_of, selection

from dp_sql.budget.accountant import NOTHING, Filter, Spend, fits, price
from dp_sql.budget.left import Share, largest_epsilon, refusal, repeats, shares
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.schema.catalog import AccountantKind

PURE, SEQUENTIAL, ADVANCED, ZCDP, RENYI = AccountantKind


def spend_of(rule: Filter, *costs: Cost) -> Spend:
    spent = NOTHING
    for cost in costs:
        spent += price(rule, cost)
    return spent


def test_shares_name_the_rules_of_each_accountant() -> None:
    half = Fraction(1, 2)
    pure = rule_of(budget("1", "1e-6", PURE, "1e-6"))
    spent = spend_of(pure, laplace("0.5"), selection("0.25", "2e-7"))
    delta = Share("selection_delta", Fraction(2, 10**7), Fraction(1, 10**6))
    assert shares(pure, spent) == (Share("epsilon", Fraction(3, 4), Fraction(1)), delta)
    sequential = rule_of(budget("2", "1e-6", SEQUENTIAL, "0"))
    spent = spend_of(sequential, gaussian(10, "0.5", "1e-7"))
    assert shares(sequential, spent) == (
        Share("epsilon", half, Fraction(2)),
        Share("delta", Fraction(1, 10**7), Fraction(1, 10**6)),
    )
    zcdp = rule_of(budget("1", "2e-6", ZCDP))
    rho, selected = shares(zcdp, spend_of(zcdp, gaussian(10), selection("0.1", "2e-7")))
    assert (rho.rule, rho.spent, selected.spent) == ("rho", Fraction(1, 100), Fraction(2, 10**7))
    assert rho.budget == Fraction(24355970359, 10**12)
    advanced = rule_of(budget("1", "2e-6", ADVANCED))
    spent = spend_of(advanced, gaussian(10, "0.1", "1e-7"), selection("0.1", "2e-7"))
    squares, own = shares(advanced, spent)
    assert (squares.rule, squares.spent) == ("squares", Fraction(1, 50))
    assert own == Share("statement_delta", Fraction(3, 10**7), Fraction(1, 10**6))
    renyi = rule_of(budget("1"))
    epsilon, divergence, selected = shares(renyi, spend_of(renyi, gaussian(10)))
    assert epsilon == Share("epsilon", None, Fraction(1))
    assert divergence.rule == "renyi"
    assert divergence.spent is not None
    assert 0 < divergence.spent < divergence.budget < 1
    assert selected.rule == "selection_delta"


def test_nothing_is_left_of_an_infinite_or_exceeded_share() -> None:
    assert Share("epsilon", None, Fraction(1)).left == 0
    assert Share("epsilon", Fraction(4), Fraction(1)).left == 0
    assert Share("epsilon", Fraction(1, 4), Fraction(1)).left == Fraction(3, 4)


@pytest.mark.parametrize("accountant", list(AccountantKind))
@pytest.mark.parametrize(
    "cost",
    [laplace("0.05"), laplace("0.5"), laplace("2"), gaussian(40), selection("0.01", "1e-7")],
    ids=["small", "half", "too large", "gaussian", "selection"],
)
def test_repeats_counts_what_really_fits(accountant: AccountantKind, cost: Cost) -> None:
    rule = rule_of(budget("1", "1e-6", accountant, "5e-7"))
    spend = price(rule, cost)
    spent = NOTHING
    for left in range(repeats(rule, spent, spend) or 0, 0, -1):
        assert repeats(rule, spent, spend) == left
        assert fits(rule, spent, spend)
        spent += spend
    assert not fits(rule, spent, spend)
    assert repeats(rule, spent, spend) == 0


def test_free_statements_repeat_for_ever() -> None:
    for accountant in AccountantKind:
        rule = rule_of(budget("1", "1e-6", accountant, "0"))
        assert repeats(rule, NOTHING, price(rule, FREE)) is None


def test_the_largest_epsilon_is_what_is_left_of_a_plain_sum() -> None:
    rule = rule_of(budget("1", "0", PURE, "0"))
    spent = spend_of(rule, laplace("0.8"))
    assert largest_epsilon(rule, spent, laplace("0.5")) == Fraction(1, 5)
    assert largest_epsilon(rule, spent, fine_laplace("7")) == Fraction(1, 5)
    spent = spend_of(rule, laplace("0.8"), laplace("0.16"), laplace("0.03125"))
    assert largest_epsilon(rule, spent, laplace("0.5")) == Fraction(875, 10**5)
    full = spend_of(rule, laplace("0.5"), laplace("0.5"))
    assert largest_epsilon(rule, full, laplace("0.5")) is None


@pytest.mark.parametrize(
    ("accountant", "statements"),
    [(ADVANCED, 3), (ADVANCED, 348), (ZCDP, 150), (ZCDP, 486)]
    + [(RENYI, n) for n in (3, 150, 300, 491)],
)
def test_the_largest_epsilon_fits_and_little_more_does_not(
    accountant: AccountantKind, statements: int
) -> None:
    rule = rule_of(budget("1", "2e-6", accountant))
    spent = spend_of(rule, *[laplace("0.01")] * statements)
    found = largest_epsilon(rule, spent, fine_laplace("2"))
    assert found is not None
    assert fits(rule, spent, price(rule, fine_laplace(found)))
    assert not fits(rule, spent, price(rule, fine_laplace(found * Fraction(102, 100))))


def test_the_largest_epsilon_of_coins_is_what_is_left() -> None:
    for accountant in (PURE, RENYI):
        rule = rule_of(budget("1", "2e-6", accountant, "1e-6"))
        spent = spend_of(rule, laplace("0.8"))
        found = largest_epsilon(rule, spent, coins("0.5", "1e-9", 2))
        assert found is not None
        assert found >= Fraction(1, 5)
        asked = coins(str(found), "1e-9", 2)
        assert fits(rule, spent, price(rule, asked))


def test_no_epsilon_is_promised_for_other_noise() -> None:
    for accountant in (ZCDP, RENYI):
        rule = rule_of(budget("1", "2e-6", accountant))
        assert largest_epsilon(rule, NOTHING, gaussian(1)) is None
        assert largest_epsilon(rule, NOTHING, FREE) is None


def test_the_rules_of_guarantees_promise_an_epsilon_for_all_noise() -> None:
    sequential = rule_of(budget("1", "1e-6", SEQUENTIAL, "0"))
    spent = spend_of(sequential, gaussian(10, "0.75", "1e-9"))
    assert largest_epsilon(sequential, spent, gaussian(10, "0.5", "1e-9")) == Fraction(1, 4)
    advanced = rule_of(budget("1", "2e-6", ADVANCED))
    two = gaussian(1, "1", "1e-9").then(gaussian(1, "1", "1e-9"))
    found = largest_epsilon(advanced, NOTHING, two)
    assert found is not None
    half = gaussian(1, str(float(found / 2)), "1e-9")
    assert fits(advanced, NOTHING, price(advanced, half.then(half)))
    more = gaussian(1, str(float(found / 2) + 0.001), "1e-9")
    assert not fits(advanced, NOTHING, price(advanced, more.then(more)))


@pytest.mark.parametrize(
    ("accountant", "message"),
    [
        (
            ADVANCED,
            "Asked epsilon 0.5 of `purchases`, whose square counts 0.25; 0.0049378 of 0.0349378 is left.",
        ),
        (
            ZCDP,
            "Asked epsilon 0.5 of `purchases`, which is zCDP of 0.125; 0.00935597 of 0.0243559 is left.",
        ),
    ],
)
def test_a_refusal_names_the_sum_that_has_no_room(accountant: AccountantKind, message: str) -> None:
    rule = rule_of(budget("1", "2e-6", accountant))
    error = refusal("`purchases`", rule, spend_of(rule, *[laplace("0.01")] * 300), laplace("0.5"))
    assert error.message == message
    assert error.hint is not None
    assert error.hint.endswith("would fit")
    wide = refusal("`purchases`", rule, NOTHING, gaussian(1, "5", "1e-9"))
    assert ("would fit" in (wide.hint or "")) == (accountant is ADVANCED)


def test_a_refusal_names_what_is_asked_what_is_left_and_what_would_fit() -> None:
    rule = rule_of(budget("1", "0", PURE, "0"))
    error = refusal("`purchases`", rule, spend_of(rule, laplace("0.8")), laplace("0.5"))
    assert str(error) == (
        "Asked epsilon 0.5 of `purchases`; 0.2 of epsilon 1 is left.\n"
        "Instead: epsilon = 0.2 would fit"
    )
    full = spend_of(rule, laplace("0.5"), laplace("0.5"))
    assert str(refusal("`purchases`", rule, full, laplace("0.5"))) == (
        "Asked epsilon 0.5 of `purchases`; nothing of epsilon 1 is left."
    )


def test_a_refusal_of_the_renyi_accountant_names_both_rules() -> None:
    rule = rule_of(budget("1"))
    spent = spend_of(rule, *[laplace("0.01")] * 300)
    error = refusal("`purchases`", rule, spent, laplace("0.5"))
    assert error.message == (
        "Asked epsilon 0.5 of `purchases`; nothing of epsilon 1 is left as a plain sum, and "
        "0.209263 of 0.535453 by the Rényi rule, of which the statement asks 0.468223."
    )
    assert error.hint is not None
    assert error.hint.startswith("epsilon = 0.")
    after_gauss = spend_of(rule, gaussian(6))
    unknown = refusal("`t`", rule, after_gauss, gaussian(6))
    assert unknown.by_epsilon
    assert unknown.hint is unknown.fitting is None


def test_a_refusal_about_delta_says_so() -> None:
    rule = rule_of(budget("10", "1e-6", RENYI, "5e-7"))
    spent = spend_of(rule, selection("0.01", "4.5e-7"))
    assert str(refusal("`t`", rule, spent, selection("0.01", "1e-7"))) == (
        "Asked 1e-07 of the delta of key selection of `t`; 5e-08 of 5e-07 is left.\n"
        "Instead: a smaller delta, or keys whose values the schema lists: they need no delta"
    )
    advanced = rule_of(budget("10", "1e-6", ADVANCED, "5e-7"))
    error = refusal("`t`", advanced, NOTHING, gaussian(10, "1", "3e-6"))
    assert error.message == (
        "Asked 3e-06 of the delta of statements of `t`; 5e-07 of 5e-07 is left."
    )
    sequential = rule_of(budget("10", "1e-6", SEQUENTIAL, "0"))
    error = refusal("`t`", sequential, NOTHING, gaussian(10, "1", "3e-6"))
    assert error.message == "Asked 3e-06 of delta of `t`; 1e-06 of 1e-06 is left."


def test_a_refusal_of_gaussian_noise_by_the_pure_accountant_says_why() -> None:
    rule = rule_of(budget("10", "1e-6", PURE, "0"))
    error = refusal("`t`", rule, NOTHING, gaussian(10))
    assert "no finite epsilon" in error.message
    assert error.hint is not None
    assert "Laplace" in error.hint
