"""GoogleSQL's privacy options: the clause of a block and the contribution bounds of an aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dp_sql.errors import ParameterError
from dp_sql.parser.aggregates import aggregate_name
from dp_sql.parser.dialect import BOUNDS, PrivacyClause
from dp_sql.parser.scope import Environment, Scope, Statement
from dp_sql.parser.text import nearest, position_of
from dp_sql.plan.accuracy import read_accuracy, read_confidence, read_width
from dp_sql.plan.release import KeyChoice, Options, Share
from dp_sql.privacy.amount import parse_delta, parse_epsilon
from dp_sql.privacy.sampling import parse_rate
from dp_sql.privacy.unit import Level

_MOST = 2**31 - 1  # of a limit

_NOT_YET = {
    "max_rows_contributed": (
        "rows are limited in each group, not over all of them",
        "max_groups_contributed, and contribution_bounds_per_group => (low, high) of an aggregate",
    ),
    "kappa": ("that is its old name", "max_groups_contributed"),
    "k_threshold": ("that is an old form", "min_privacy_units_per_group, with a delta"),
}  # options that exist elsewhere: why not here, and what to write


@contextmanager
def entered(statement: Statement, node: exp.Select, env: Environment) -> Iterator[Environment]:
    """Give the environment inside a block: `env`, and what the block's own privacy clause says.

    A clause holds for its block and those inside it; the inner one wins. Its epsilon and delta are
    shared by the releases that it holds for.
    Raises QueryError for options that aren't known or fit no release, at the end of the block also
    where the block has no release.
    """
    clause = node.args.get("hint")
    if not isinstance(clause, PrivacyClause):
        yield env
        return
    before = len(statement.releases)
    yield _read(statement, clause, env)
    if len(statement.releases) == before:
        raise statement.wrong(
            "this block aggregates no protected rows, so its privacy options mean nothing.",
            clause if clause.expressions else node,
            hint="write them where COUNT, SUM or AVG stands",
        )


def _read(statement: Statement, clause: PrivacyClause, env: Environment) -> Environment:
    statement.clauses += 1
    reader = _Reader(statement, statement.clauses)
    seen: set[str] = set()
    options, columns = env.options, env.unit_columns
    for item in clause.expressions:
        name, value = item.this.name.lower(), item.expression
        if name in seen:
            raise statement.wrong(
                f"the option {name} stands here twice.", item.this, hint="write it once"
            )
        seen.add(name)
        if name == "privacy_unit_column":
            columns = (*columns, reader.column(value))
            continue
        change = reader.changes.get(name)
        if change is None:
            raise reader.unknown(name, item.this)
        options = change(options, value)
    options = reader.accurate(options, clause)
    if options.keys is KeyChoice.PUBLIC and options.min_units is not None:
        raise statement.wrong(
            "min_privacy_units_per_group chooses among private groups; PUBLIC_GROUPS shows all.",
            clause,
            hint="HAVING COUNT(DISTINCT …) >= …, or group_selection_strategy = LAPLACE_THRESHOLD",
        )
    return replace(env, options=options, unit_columns=columns)


class _Reader:
    """Reads the values of one clause. changes: by option, from the options before to those after."""

    def __init__(self, statement: Statement, number: int) -> None:
        self._statement = statement
        self._number = number
        self._within: Fraction | None = None
        self._confidence: Fraction | None = None
        self.changes: dict[str, Callable[[Options, exp.Expr], Options]] = {
            "epsilon": self._epsilon,
            "delta": self._delta,
            "max_groups_contributed": self._max_groups,
            "min_privacy_units_per_group": self._min_units,
            "group_selection_strategy": self._keys,
            "within": self._width,
            "confidence": self._share,
            "sample_rate": self._rate,
        }

    def unknown(self, name: str, node: exp.Expr) -> Exception:
        if name in _NOT_YET:
            why, hint = _NOT_YET[name]
            return self._statement.unsupported(
                f"the option {name} isn't answered: {why}.", node, hint=hint
            )
        known = [*self.changes, "privacy_unit_column"]
        close = nearest(name, known)
        return self._statement.unsupported(
            f"there is no privacy option {name}.", node, hint=close or f"one of {', '.join(known)}"
        )

    def column(self, value: exp.Expr) -> exp.Column:
        if not isinstance(value, exp.Column):
            raise self._statement.wrong(
                "privacy_unit_column is the name of a column.", value, hint="leave it out"
            )
        return value

    def _amount(self, value: exp.Expr, parse: Callable[..., Fraction], name: str) -> Share:
        text = number_text(value)
        if text is None:
            raise self._statement.out_of_range(
                f"{name} is a number.",
                value,
                hint=f"{name} = {'0.5' if name == 'epsilon' else '1e-9'}",
            )
        found = position_of(self._statement.text, value)
        place = None if found is None else (self._statement.text, found)
        try:
            return Share(parse(text, name=name), self._number, place)
        except ParameterError as error:
            raise self._statement.out_of_range(error.message, value, hint=error.hint) from None

    def _epsilon(self, options: Options, value: exp.Expr) -> Options:
        epsilon = self._amount(value, parse_epsilon, "epsilon")
        return replace(options, epsilon=epsilon, accuracy=None)

    def _delta(self, options: Options, value: exp.Expr) -> Options:
        return replace(options, delta=self._amount(value, parse_delta, "delta"))

    def accurate(self, options: Options, clause: exp.Expr) -> Options:
        """Return the options with the accuracy that the clause asks for in place of an epsilon."""
        if self._within is None:
            if self._confidence is not None:
                raise self._statement.wrong(
                    "confidence belongs to within.",
                    clause,
                    hint="OPTIONS(within = 100, confidence = 0.95)",
                )
            return options
        if options.epsilon is not None and options.epsilon.clause == self._number:
            raise self._statement.wrong(
                "epsilon and within can't both be said: within finds the epsilon.",
                clause,
                hint="OPTIONS(within = 100), or OPTIONS(epsilon = 0.5)",
            )
        accuracy = read_accuracy(self._within, self._confidence)
        return replace(options, epsilon=None, accuracy=accuracy)

    def _width(self, options: Options, value: exp.Expr) -> Options:
        self._within = self._real(value, "within", "100", read_width)
        return options

    def _share(self, options: Options, value: exp.Expr) -> Options:
        self._confidence = self._real(value, "confidence", "0.95", read_confidence)
        return options

    def _real(
        self, value: exp.Expr, name: str, example: str, parse: Callable[[str], Fraction]
    ) -> Fraction:
        text = number_text(value)
        if text is None:
            raise self._statement.out_of_range(
                f"{name} is a number.", value, hint=f"{name} = {example}"
            )
        try:
            return parse(text)
        except ParameterError as error:
            raise self._statement.out_of_range(error.message, value, hint=error.hint) from None

    def _rate(self, options: Options, value: exp.Expr) -> Options:
        return replace(options, sample_rate=self._real(value, "sample_rate", "0.01", parse_rate))

    def _whole(self, value: exp.Expr, name: str) -> int:
        text = number_text(value)
        if text is None or not text.isdigit() or not 1 <= int(text[:20]) <= _MOST:
            raise self._statement.out_of_range(
                f"{name} is a whole number from 1 to {_MOST:,}.", value, hint=f"{name} = 3"
            )
        return int(text)

    def _max_groups(self, options: Options, value: exp.Expr) -> Options:
        if self._statement.catalog.unit.level is Level.EVENT:
            raise self._statement.unsupported(
                "max_groups_contributed isn't answered: this schema protects single rows.",
                value,
                hint="leave it out",
            )
        if isinstance(value, exp.Null):
            self._statement.notes["max_groups_contributed = NULL limits nobody, which no noise could hide: "
                                  "the schema's limit holds."] = None  # fmt: skip
            return replace(options, max_groups=None)
        return replace(options, max_groups=self._whole(value, "max_groups_contributed"))

    def _min_units(self, options: Options, value: exp.Expr) -> Options:
        return replace(options, min_units=self._whole(value, "min_privacy_units_per_group"))

    def _keys(self, options: Options, value: exp.Expr) -> Options:
        word = value.name.upper() if isinstance(value, exp.Column) else ""
        if word not in [choice.value for choice in KeyChoice]:
            raise self._statement.out_of_range(
                "group_selection_strategy is LAPLACE_THRESHOLD or PUBLIC_GROUPS.",
                value,
                hint="group_selection_strategy = LAPLACE_THRESHOLD",
            )
        return replace(options, keys=KeyChoice(word))


def number_text(node: exp.Expr) -> str | None:
    """Return a number of the text as it is written, with its sign, or None for anything else."""
    if isinstance(node, exp.Neg):
        inner = number_text(node.this)
        return None if inner is None or inner.startswith("-") else f"-{inner}"
    return node.name if isinstance(node, exp.Literal) and not node.is_string else None


def check_owner(scope: Scope, owners: frozenset[int], env: Environment) -> None:
    """Raise NotPrivateError where a clause names another privacy unit than the schema does.

    Claim:   whose rows are bounded is what the schema declares, whatever the statement says.
    Why:     the option is compared with the owner's column and changes nothing.
    Assumes: nothing more.
    Source:  [Dwork2006b]
    """
    for node in env.unit_columns:
        column = scope.find(node)
        if column is None:
            raise scope.unknown(node)
        if column.number in owners:
            continue
        named = next((n.name for n in scope.named() if n.column.number in owners), None)
        why = (
            "this schema protects single rows, so no column names a privacy unit."
            if scope.statement.catalog.unit.level is Level.EVENT
            else f"{node.name!r} isn't the privacy unit: whose rows are whose is the schema's to say."
        )
        raise scope.statement.not_private(
            why,
            node,
            hint="leave privacy_unit_column out"
            if named is None
            else f"privacy_unit_column = {named}",
        )


def check_places(statement: Statement, tree: exp.Expr) -> None:
    """Raise UnsupportedSQLError for contribution bounds of what is no aggregate, or is a window."""
    for node in tree.walk():
        if BOUNDS not in node.args:
            continue
        around = node.parent
        while isinstance(around, exp.Filter | exp.IgnoreNulls):
            around = around.parent
        if aggregate_name(node) is None or isinstance(around, exp.Window):
            raise statement.unsupported(
                "contribution bounds and proposals belong to an aggregate.",
                node.args[BOUNDS][0],
                hint="SUM(x, contribution_bounds_per_group => (0, 100))",
            )
