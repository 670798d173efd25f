"""How private keys are selected: the rule that shows most keys, of those that the schema allows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import UnsupportedSQLError
from dp_sql.plan.release import Release
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import AccountantKind, Catalog, KeyRule, Limits

THRESHOLDS: tuple[KeyRule, ...] = (KeyRule.LAPLACE, KeyRule.GAUSSIAN)
WEIGHED = (KeyRule.WEIGHTED_LAPLACE, KeyRule.WEIGHTED_GAUSSIAN, KeyRule.TWO_ROUNDS)
FIRST_ROUND = Fraction(15, 100)  # of the selection's budget
WEIGHT = 2**16  # of a unit
_MOST_WEIGHED = 1000  # groups: the SQL lists what a unit adds to each
_FEW_GROUPS = 2  # up to which coins show more keys than weights do
_MORE_GROUPS = 5  # likewise of even weights, where there is no Gaussian noise
_MUCH = 4  # an epsilon at which key selection needs no more than a few units
_LEAST_STEP = Fraction(1, 1000)  # an epsilon of one key below which coins would have too many steps


@dataclass(frozen=True, slots=True)
class Wish:
    """What the choice of a rule depends on; all of it is public.

    groups: that a unit touches, over all sets of keys. epsilon: of the whole release. parts: among how
    many it is divided. counted: whether a number of units is shown that may be held against a threshold,
    at no cost of its own. free: whether no neighbour changes the rows or their keys.
    """

    limits: Limits
    groups: int
    epsilon: Fraction
    parts: int
    counted: bool
    free: bool


def key_rules(release: Release, catalog: Catalog, wish: Wish) -> tuple[KeyRule, ...]:
    """Return the rule that selects the private keys of a release, or both thresholds.

    A number of units that is shown anyhow selects at no cost: a rule of its own would halve the epsilon
    of both, which takes more keys than any rule gains. Otherwise, as measured on Zipf data (keys shown
    at delta 1e-6; 20,000 units, of which most have more groups than they may add to):

        max_groups       1     2     3     5    10    20     (epsilon 1)
        laplace        135   132   120   109    85    53
        optimal        141   140   129   123    99    66
        weighted       134   128   126   123   115   112     (evenly, Laplace noise)
        gaussian        86   119   134   159   177   165
        weighted        90   118   140   168   208   223     (Gaussian noise)
        two rounds     121   165   200   232   262   270

    At epsilon 0.1 coins show most for 1 or 2 groups (18 and 19 against 12 and 16), two rounds from 3 on
    (21 against 17, and 28 against 8 for 20 groups). Where a unit has few groups, round two gains nothing,
    so coins are taken for 2, and no further. From how many units on a key shows half of the time, at
    delta 1e-6, by coins, by weights where every unit has all groups that it may, and where it has one:

        max_groups             2                   3                   4
        epsilon 0.1     217  270  191       326  336  194       434  392  196
        epsilon 1        27   32   23        40   40   23        53   46   23
        epsilon 4         8   10    7        12   12    7        16   14    7

    At delta 1e-9 and epsilon 0.1 it is 533, 561 and 324 for 3 groups: weights lose a twentieth at most there,
    and gain up to a half. A weight divided over a unit's groups loses keys of few units with many
    groups, which shows once epsilon is large, and it is no number of units, which
    `min_units_per_group` speaks of.

    Raises UnsupportedSQLError where no rule that the schema allows can be used.
    """
    if wish.free:
        return THRESHOLDS
    allowed = catalog.mechanisms.keys
    reasons = {rule: _hindrance(rule, release, catalog, wish.limits) for rule in allowed}
    usable = [rule for rule in allowed if reasons[rule] is None]
    for rules in _preferred(wish, catalog, usable):
        found = tuple(rule for rule in rules if rule in usable)
        if found:
            return found
    told = "; ".join(f"{rule.value} needs {reason}" for rule, reason in reasons.items())
    raise UnsupportedSQLError(
        f"No way to select keys that aren't public can be used that the schema allows: {told}.",
        hint="mechanisms: {keys: [optimal]} in the schema, which holds for every statement, or keys "
        "whose values or bounds it declares",
    )


def _preferred(
    wish: Wish, catalog: Catalog, usable: list[KeyRule]
) -> Iterator[tuple[KeyRule, ...]]:
    """Yield the rules in the order in which they show keys."""
    optimal, twice = (KeyRule.OPTIMAL,), (KeyRule.TWO_ROUNDS,)
    weighted, evenly = (KeyRule.WEIGHTED_GAUSSIAN,), (KeyRule.WEIGHTED_LAPLACE,)
    groups = wish.groups
    unit = catalog.unit
    sides = unit.group_size * (1 if unit.adjacency is Adjacency.ADD_REMOVE else 2)
    coarse = wish.epsilon / (wish.parts * groups * sides) < _LEAST_STEP
    normal = KeyRule.GAUSSIAN in usable
    least = wish.limits.min_units_per_group > 1
    if wish.counted or least or coarse:
        yield THRESHOLDS
    elif groups <= _FEW_GROUPS:
        yield optimal
    elif wish.epsilon <= _MUCH:
        yield twice
        yield weighted
        if not normal and groups > _MORE_GROUPS:
            yield evenly
    if normal:
        yield THRESHOLDS
    yield from (optimal, THRESHOLDS, twice, weighted, evenly)


def _hindrance(rule: KeyRule, release: Release, catalog: Catalog, limits: Limits) -> str | None:
    """Return what a statement would need for a rule, None where it can be used."""
    if rule is KeyRule.OPTIMAL:
        return None
    laplace = rule in (KeyRule.LAPLACE, KeyRule.WEIGHTED_LAPLACE)
    if laplace and "laplace" not in catalog.mechanisms.noise:
        return "Laplace noise to be allowed"
    if not laplace and not gaussian_allowed(release.tables, catalog):
        return "Gaussian noise to be allowed, and an accountant other than pure"
    if rule in THRESHOLDS:
        return None
    if catalog.unit.level is not Level.USER:
        return "level: user, since it weighs units by the number of their groups"
    most = limits.max_groups
    return None if most <= _MOST_WEIGHED else f"max_groups of at most {_MOST_WEIGHED}"


def gaussian_allowed(tables: tuple[str, ...], catalog: Catalog) -> bool:
    """Return whether a release of these tables may have Gaussian noise."""
    budgets = [catalog.tables[t].budget for t in tables]
    if catalog.people is not None:
        budgets.append(catalog.people)
    allowed = "gaussian" in catalog.mechanisms.noise
    return allowed and all(
        b is not None and b.accountant is not AccountantKind.PURE for b in budgets
    )


def shown_keys(release: Release) -> str:
    """Return the name of the table of keys that the first of two rounds shows."""
    return f"{release.name}_shown"
