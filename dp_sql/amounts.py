"""Which epsilon and delta each release of a statement gets, and from whom: the first who says wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.parser.setting import Setting
from dp_sql.plan.release import Query, Share
from dp_sql.privacy.amount import Amount, parse_delta, parse_epsilon, show, show_up
from dp_sql.schema.catalog import PrivacyDefaults


@dataclass(frozen=True, slots=True)
class Amounts:
    """An epsilon above 0 and a delta in [0, 1). None: not said."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one release may spend. gaussian: whether its noise is Gaussian wherever it may be."""

    epsilon: Fraction
    delta: Fraction
    gaussian: bool = False


def read_amounts(
    epsilon: Amount | None, delta: Amount | None, defaults: PrivacyDefaults
) -> Amounts:
    """Return the amounts as exact fractions, or raise ParameterError, also above the schema's caps."""
    read = Amounts(
        None if epsilon is None else parse_epsilon(epsilon),
        None if delta is None else parse_delta(delta),
    )
    _check("epsilon", read.epsilon, defaults.max_epsilon)
    _check("delta", read.delta, defaults.max_delta)
    return read


def after_set(session: Amounts, setting: Setting, text: str, defaults: PrivacyDefaults) -> Amounts:
    """Return a session's amounts after a SET or RESET, or raise ParameterError with its place in `text`."""
    try:
        if setting.name == "epsilon":
            return replace(session, epsilon=read_amounts(setting.value, None, defaults).epsilon)
        return replace(session, delta=read_amounts(None, setting.value, defaults).delta)
    except ParameterError as error:
        most = defaults.max_epsilon if setting.name == "epsilon" else defaults.max_delta
        raise setting.refused(error, text, most) from None


def parts(
    query: Query, call: Amounts, session: Amounts, defaults: PrivacyDefaults
) -> tuple[Part, ...]:
    """Return what each release of a statement may spend, aligned with the releases.

    An amount of the call is for the whole statement. Without one, an amount of a privacy clause is for
    the releases under it, and the session's or else the schema's for all others together. Releases
    share theirs evenly.

    Claim:   no statement spends more than the schema's cap for one statement.
    Why:     the sums over all releases are compared with it, wherever the amounts are from.
    Assumes: each release spends at most its part.
    Source:  [Dwork2006b]

    Raises ParameterError above a cap, and where a release has no epsilon.
    """
    said = [release.options for release in query.releases]
    epsilons = _shared([o.epsilon for o in said], call.epsilon, session.epsilon or defaults.epsilon)
    left = session.delta if session.delta is not None else defaults.delta
    deltas = _shared([o.delta for o in said], call.delta, Fraction(0) if left is None else left)
    found = []
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        if epsilon is None or delta is None:
            raise ParameterError("this statement needs an epsilon.", hint="epsilon=0.1")
        found.append(Part(epsilon, delta))
    total = Part(
        sum((p.epsilon for p in found), Fraction(0)), sum((p.delta for p in found), Fraction(0))
    )
    _check("epsilon", total.epsilon, defaults.max_epsilon, [o.epsilon for o in said])
    _check("delta", total.delta, defaults.max_delta, [o.delta for o in said])
    return tuple(found)


def _shared(
    said: Sequence[Share | None], call: Fraction | None, others: Fraction | None
) -> list[Fraction | None]:
    if call is not None:
        return [call / len(said) for _ in said]
    counts = Counter(said)
    amounts = [others if share is None else share.amount for share in said]
    return [
        None if amount is None else amount / counts[share]
        for share, amount in zip(said, amounts, strict=True)
    ]


def _check(
    name: str, amount: Fraction | None, cap: Fraction | None, said: Sequence[Share | None] = ()
) -> None:
    """Raise ParameterError for an amount above the cap. said: the shares that may be why."""
    if amount is None or cap is None or amount <= cap:
        return
    high = max((s for s in said if s is not None), key=lambda s: s.amount, default=None)
    text, position = (None, None) if high is None or high.place is None else high.place
    raise ParameterError(
        f"{name} {show_up(amount)} is above the cap of {show(cap)} for one statement.",
        hint=f"{name} = {show(cap)}",
        text=text,
        position=position,
    )
