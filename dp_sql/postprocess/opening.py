"""Opens what runs the SQL above the releases: here, or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dp_sql.mechanisms.sampler import Sampler
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.worker import WorkerPostProcessor
from dp_sql.schema.catalog import Catalog, WorkerSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray


def open_above(
    catalog: Catalog,
    files: Mapping[str, str],
    public_columns: Callable[[str], Mapping[str, NDArray[Any]]],
    sampler: Sampler,
    worker: WorkerSpec | None,
) -> PostProcessor:
    """Return what runs the SQL above the releases. worker: the limits of its process, None for this one.

    The others are those of `DuckDBPostProcessor`; a worker has a sampler of its own, of that name.
    Raises EngineError where a process can't be started.
    """
    if worker is not None:
        return WorkerPostProcessor(catalog, files, public_columns, worker)
    from dp_sql.postprocess.embedded import DuckDBPostProcessor  # noqa: PLC0415  a worker loads it

    seconds = catalog.worker.seconds
    return DuckDBPostProcessor(catalog, files, public_columns, sampler, seconds=seconds)
