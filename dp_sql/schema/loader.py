"""A schema file -> the catalog that everything else reads."""

from __future__ import annotations

import os

from pydantic import ValidationError

from dp_sql.schema.build import build
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.models import SchemaFile
from dp_sql.schema.reader import read
from dp_sql.schema.violations import as_schema_error


def load(path: str | os.PathLike[str], *, database: str | None = None) -> Catalog:
    """Return the catalog that the schema file at `path` declares.

    path: a YAML 1.2 file (or JSON, which is YAML) in UTF-8, below a megabyte.
    database: where the data are, in place of the file's `database`: "duckdb://", "duckdb:///file"
        or a folder.

    The file is read anew at each call; no data are touched. Raises SchemaError, with file, line,
    column and what was expected, for everything that is wrong with the file, and for keys whose
    meaning is not supported yet.
    """
    absolute, document = read(path)
    try:
        model = SchemaFile.model_validate(document.plain())
    except ValidationError as error:
        found = as_schema_error(document, error.errors(include_url=False))
        raise found from None
    return build(model, document, absolute, database)
