"""What an error shows beside its hint: a statement that is answered, the analyst's own where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dp_sql.errors import DPSQLError, ParameterError, QueryError
from dp_sql.parser import examples
from dp_sql.parser.growth import within_levels
from dp_sql.schema.catalog import Catalog


@contextmanager
def with_example(
    catalog: Catalog, query: object, answer: Callable[[str], object]
) -> Iterator[None]:
    """Add a statement that is answered to the error of one that isn't.

    It follows from the statement and the schema alone: the first of the error's `tries` that is
    answered, else an aggregate over a table that the statement names.

    answer: plans a statement without reading protected rows; raises DPSQLError for one that isn't
    answered. What is inside comes before a charge: levels beyond Python's are a QueryError there.
    """
    try:
        with within_levels():
            yield
    except ParameterError:
        raise
    except QueryError as error:
        near = (text for text in error.tries if _is_answered(text, answer))
        text = query if isinstance(query, str) else ""
        example = next(near, None) or examples.general(catalog, text)
        if example is not None:
            error.show(example)
        raise


def _is_answered(text: str, answer: Callable[[str], object]) -> bool:
    try:
        with within_levels():
            answer(text)
    except DPSQLError:
        return False
    return True
