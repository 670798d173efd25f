"""What an error shows beside its hint: a statement that is answered, the analyst's own where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dp_sql.errors import DPSQLError, ParameterError, Position, QueryError
from dp_sql.parser import examples
from dp_sql.parser.growth import within_levels
from dp_sql.parser.leaner import leaner
from dp_sql.schema.catalog import Catalog

_TRIED = 8  # statements for one error: each takes some milliseconds


@contextmanager
def with_example(
    catalog: Catalog, query: object, answer: Callable[[str], object]
) -> Iterator[None]:
    """Add a statement that is answered to the error of one that isn't.

    It follows from the statement and the schema alone: the first of the error's `tries` that is
    answered, else the statement without the part that isn't, else an aggregate over a table that it names.

    answer: plans a statement without reading protected rows; raises DPSQLError for one that isn't
    answered. What is inside comes before a charge: levels beyond Python's are a QueryError there.
    """
    try:
        with within_levels():
            yield
    except QueryError as error:
        if isinstance(error, ParameterError) and not error.tries:
            raise
        text = query if isinstance(query, str) else ""
        example = (
            _answered(error.tries, answer)
            or _answered(_leaner(text, error.position), answer)
            or examples.general(catalog, text)
        )
        if example is not None:
            error.show(example)
        raise


def _answered(tries: Iterable[str], answer: Callable[[str], object]) -> str | None:
    """Return the first of some statements that is answered, or of what its own error would show first."""
    left = _TRIED
    for text in tries:
        told: str | None = text
        for _ in range(2):
            if told is None or not left:
                break
            left -= 1
            try:
                with within_levels():
                    answer(told)
            except QueryError as error:
                told = next(iter(error.tries), None)
            except DPSQLError:
                break
            else:
                return told
    return None


def _leaner(text: str, position: Position | None) -> list[str]:
    """Return the statement without the part at a position, none where it has too many levels to look."""
    try:
        found = leaner(text, position)
    except RecursionError:
        return []
    return [] if found is None else [found]
