"""The keys of a schema file as pydantic models: what may stand where, with a word on each.

Only shapes are checked here (keys, YAML types, ranges of single numbers). What keys mean together
is checked in `build`. The JSON Schema that editors use is made from these models.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dp_sql.schema.document import describe, suggestion
from dp_sql.schema.number_types import Delta, Epsilon, Memory, Radius, Seconds, wrong

MAX_VALUES = 100_000
MAX_COUNT = 1_000_000_000  # of groups, rows, units, characters: far inside of 64 bits
MAX_GROUP_SIZE = 1_000_000


class _Keys(BaseModel):
    """A mapping of the file. Unknown, missing and empty keys are errors that name the key."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for key, inner in value.items():
            if key not in cls.model_fields:
                raise PydanticCustomError(
                    "unknown_key",
                    "{message}",
                    {"key": key, "message": suggestion(key, cls.model_fields)},
                )
            if inner is None:
                raise PydanticCustomError("empty_key", "", {"key": key})
        for key, field in cls.model_fields.items():
            if field.is_required() and key not in value:
                raise PydanticCustomError(
                    "missing_key", "{message}", {"key": key, "message": field.description or ""}
                )
        return value


def _version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        raise wrong(f"must be 1, the only version of this format, not {describe(value)}")
    return 1


def _data_version(value: object) -> str:
    """Return a data version as text: a word, a whole number or a date."""
    if isinstance(value, bool | Decimal | dict | list) or value is None:
        raise wrong(f"must be a text, a whole number or a date, not {describe(value)}")
    return str(value)


def _is_mapping(value: object) -> str:
    return "keys" if isinstance(value, dict) else "word"


Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Word = Annotated[str, Field(min_length=1, max_length=1000)]
_ScalarList = WithJsonSchema(
    {
        "type": "array",
        "items": {"type": ["boolean", "number", "string"]},
        "minItems": 1,
        "maxItems": MAX_VALUES,
        "uniqueItems": True,
    }
)
_Pair = WithJsonSchema(
    {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
)


class Amounts(_Keys):
    """An epsilon and a delta, each of which may be left out."""

    epsilon: Epsilon | None = Field(
        default=None, description="Epsilon, above 0; read as a decimal."
    )
    delta: Delta | None = Field(default=None, description="Delta, at least 0 and below 1.")


class Privacy(_Keys):
    """What is protected, and what a statement may ask."""

    level: Literal["user", "event"] = Field(
        description="The privacy unit: `user` protects everything one owner has, `event` one row."
    )
    adjacency: Literal["add_remove", "substitution", "zero_out", "metric"] = Field(
        default="add_remove",
        description="What a neighbouring data set may change: `add_remove` (one unit comes or "
        "goes), `substitution` (one unit is replaced; the number of units is public), `zero_out` "
        "(one unit's protected columns become NULL; that it is there is public) or `metric` (one "
        "row's place moves by at most `radius`; all else is public).",
    )
    group_size: Annotated[int, Field(ge=1, le=MAX_GROUP_SIZE)] = Field(
        default=1, description="How many units are protected at once; 1 protects each unit."
    )
    unit: Annotated[str, Field(min_length=1, max_length=60)] | None = Field(
        default=None, description="What a unit is called in messages, such as `customer`."
    )
    defaults: Amounts | None = Field(
        default=None,
        description="Epsilon and delta of a statement for which the analyst names none.",
    )
    caps: Amounts | None = Field(
        default=None, description="The most epsilon and delta that one statement may ask."
    )
    consistent: bool = Field(
        default=True,
        description="Make the answers by several sets of keys (GROUPING SETS, ROLLUP, CUBE) add up: "
        "totals equal the sum of their parts.",
    )
    radius: Radius | None = Field(
        default=None, description="Metres that a row's place may move (adjacency `metric`)."
    )
    budget: Amounts | None = Field(
        default=None,
        description="What one unit may lose over all tables, below each table's own budget: the costs "
        "to all tables of all statements count. Level `user` alone, and `unit` names it.",
    )


class Budget(_Keys):
    """The privacy budget of one table, for its whole life or for each period of it."""

    epsilon: Epsilon = Field(description="Epsilon that all statements together may spend.")
    delta: Delta | None = Field(
        default=None, description="Delta that all statements together may spend; 0 when left out."
    )
    accountant: Literal["pure", "sequential", "advanced", "zcdp", "renyi", "gdp"] = Field(
        default="renyi",
        description="The rule that adds statements up: `renyi` (many noisy answers), `zcdp` (sums of "
        "rho, for a promise in zCDP), `advanced` (sums of squared epsilons), all of which need a "
        "delta above 0, `sequential` (sums of epsilon and delta) or `pure` (sums of epsilon). `gdp` "
        "is refused: what noise on integers adds to its mu is not proved.",
    )
    selection_delta: Delta | None = Field(
        default=None,
        description="The part of delta that showing private group keys, and local sensitivity, may spend "
        "(under `advanced` Gaussian noise spends it too): half of it for `renyi`, `zcdp` and `advanced`, "
        "all of it for `sequential` and `pure`, unless given.",
    )
    blocks: Word | None = Field(
        default=None, description="A column, such as the day: each of its values has this budget."
    )
    per_analyst: Amounts | None = Field(
        default=None,
        description="What each named analyst may spend of it: an epsilon, and a delta if it is less "
        "than the table's. The owner has no cap.",
    )
    renew: Literal["never", "daily", "weekly", "monthly", "yearly"] = Field(
        default="never",
        description="When a new period begins, in UTC. All amounts are then those of one period: over "
        "several a unit may lose their sum.",
    )


class Limits(_Keys):
    """How much of one unit a release may hold."""

    max_groups: Count = Field(
        default=1,
        description="Groups of one GROUP BY that one unit may count in; further ones are dropped. "
        "1 when left out. At level `event` it is always 1.",
    )
    max_rows_per_group: Count = Field(
        default=1,
        description="Rows of one unit that count in one group; more are weighed down. "
        "1 when left out. At level `event` it is always 1.",
    )
    min_units_per_group: Count = Field(
        default=1,
        description="Units that a private group key needs at least before it may be shown.",
    )


class Column(_Keys):
    """One column that statements may name."""

    type: Word = Field(
        description="The SQL type, such as bigint, double, varchar, date or timestamp; a decimal "
        'inside braces needs quotes: "decimal(12,2)".'
    )
    bounds: Annotated[list[Any] | None, Field(min_length=2, max_length=2), _Pair] = Field(
        default=None,
        description="[lowest, highest]: values beyond are moved to the nearest end. A number, date "
        "or timestamp needs them to be summed or averaged.",
    )
    values: Annotated[list[Any] | None, Field(min_length=1, max_length=MAX_VALUES), _ScalarList] = (
        Field(
            default=None,
            description="The public list of values. Grouping by the column shows every one of "
            "them; rows with others are left out.",
        )
    )
    unique: bool = Field(default=False, description="True where no two rows share a value.")
    nullable: bool = Field(default=True, description="False where the column is never NULL.")
    max_length: Count | None = Field(
        default=None, description="The most characters of a text; longer ones are cut."
    )
    max_frequency: Count | None = Field(
        default=None, description="Rows that share one value at most (public tables only)."
    )
    constant_per_unit: bool = Field(
        default=False,
        description="True where all rows of a unit agree. Only `false` is supported yet.",
    )
    immutable: bool = Field(
        default=False, description="True where a row keeps its value for ever (a column of blocks)."
    )
    protected: bool | None = Field(
        default=None,
        description="False where everybody may know a unit's values (adjacency `zero_out`); true "
        "when left out, but for owners and the keys that lead to them.",
    )
    latitude: bool = Field(
        default=False,
        description="True where the column is the latitude of a row, in degrees (adjacency `metric`).",
    )
    longitude: bool = Field(
        default=False,
        description="True where the column is the longitude of a row, in degrees (adjacency "
        "`metric`).",
    )


class Through(_Keys):
    """Ownership by foreign key: a row belongs to the owner of the row it points to."""

    through: Word = Field(description="The protected table that the foreign key points to.")
    on: Annotated[
        Annotated[Word, Tag("word")]
        | Annotated[Annotated[dict[str, Word], Field(min_length=1)], Tag("keys")],
        Discriminator(_is_mapping),
    ] = Field(
        description="The column that both tables have, or {column here: column of that table, …}."
    )


class Table(_Keys):
    """One table or file. It is protected unless `public: true`."""

    source: Word | None = Field(
        default=None,
        description="A Parquet or CSV file below the data folder, when this isn't a table of the "
        "database.",
    )
    id: Word | None = Field(
        default=None,
        description="What the ledger knows the table by; its real path and name when left out.",
    )
    owner: (
        Annotated[
            Annotated[Word, Tag("word")] | Annotated[Through, Tag("keys")],
            Discriminator(_is_mapping),
        ]
        | None
    ) = Field(
        default=None,
        description="The column that says whose row it is (level `user`), or {through: table, on: "
        "column}.",
    )
    public: bool = Field(default=False, description="True for a table without anybody's data.")
    unique: list[Annotated[list[Word], Field(min_length=1)]] = Field(
        default_factory=list, description="Lists of columns that are unique together."
    )
    budget: Budget | None = Field(
        default=None, description="The privacy budget; every protected table has one."
    )
    limits: Limits | None = Field(
        default=None, description="How much of one unit counts; 1 group and 1 row when left out."
    )
    columns: Annotated[dict[str, Column], Field(min_length=1)] = Field(
        description="The columns that statements may name, by name."
    )
    data_version: Annotated[
        str,
        PlainValidator(_data_version),
        WithJsonSchema({"type": ["string", "integer"]}),
    ] = Field(
        default="1",
        description="Change it when the data have changed: repeated statements are then new ones.",
    )
    round_counts: bool = Field(
        default=False, description="True to show counts as whole numbers of at least 0."
    )


class Worker(_Keys):
    """Limits of the processes that read the data and run SQL. They hold for each statement that is sent."""

    memory: Memory | None = Field(
        default=None,
        description="Memory that a statement may take, such as 500MB or 2GB, from 256MB to 1024GB; "
        "DuckDB spills to disk beyond three quarters of it. 4GB when left out.",
    )
    seconds: Seconds | None = Field(
        default=None,
        description="Seconds that a statement may run, from 0.1 to 86,400. 600 when left out.",
    )
    cpu_seconds: Seconds | None = Field(
        default=None,
        description="Seconds of processor time that a statement may take, all processors together. When "
        "left out, as many as they have in `seconds`.",
    )
    in_process: bool = Field(
        default=False,
        description="True where the data are read in the process that connects, which must be "
        "trusted with them; the limits are then not kept.",
    )


class Mechanisms(_Keys):
    """The mechanisms that are allowed, the preferred one first; by default, all but the local ones."""

    noise: Annotated[list[Literal["laplace", "gaussian"]], Field(min_length=1)] = Field(
        default=["laplace", "gaussian"],
        description="Noise on counts and sums: the better of these.",
    )
    quantiles: Annotated[
        list[
            Literal[
                "permute_and_flip",
                "exponential",
                "tree",
                "smooth_sensitivity",
                "propose_test_release",
            ]
        ],
        Field(min_length=1),
    ] = Field(
        default=["permute_and_flip", "exponential", "tree"],
        description="How quantiles, MIN and MAX are chosen. `tree` answers many quantiles of one argument "
        "where that errs less, and all of them where it comes first. `smooth_sensitivity` and "
        "`propose_test_release` need a delta, and err by more on most data.",
    )
    mode: Annotated[
        list[
            Literal[
                "permute_and_flip",
                "exponential",
                "noisy_max_gumbel",
                "noisy_max_laplace",
                "propose_test_release",
            ]
        ],
        Field(min_length=1),
    ] = Field(
        default=["permute_and_flip", "exponential", "noisy_max_gumbel", "noisy_max_laplace"],
        description="How MODE and TOP_K are chosen. `propose_test_release` needs a delta, gives NULL "
        "where the most frequent value isn't far ahead, and answers MODE alone.",
    )
    keys: Annotated[
        list[
            Literal[
                "laplace",
                "gaussian",
                "weighted_laplace",
                "weighted_gaussian",
                "optimal",
                "two_rounds",
            ]
        ],
        Field(min_length=1),
    ] = Field(
        default=[
            "laplace",
            "gaussian",
            "weighted_laplace",
            "weighted_gaussian",
            "optimal",
            "two_rounds",
        ],
        description="How private group keys are selected: the best of these for each statement.",
    )


class SchemaFile(_Keys):
    """A dp_sql schema: what the data owner declares about tables that hold personal data."""

    version: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})] = Field(
        description="The version of this format: 1."
    )
    database: Word | None = Field(
        default=None,
        description="`duckdb://` (in memory, for tables with a source), `duckdb:///file` or a "
        "folder of Parquet and CSV files.",
    )
    privacy: Privacy = Field(description="The privacy unit, and the epsilon of statements.")
    tables: Annotated[dict[str, Table], Field(min_length=1)] = Field(
        description="The tables, by the name that statements use."
    )
    ledger: Word | None = Field(
        default=None, description="Path or URL of the ledger that keeps the budgets."
    )
    sampler: Literal["exact", "opendp"] = Field(
        default="exact", description="Who draws the noise: dp_sql's exact samplers, or OpenDP's."
    )
    mechanisms: Mechanisms = Field(
        default_factory=Mechanisms, description="The mechanisms that are allowed, for each purpose."
    )
    worker: Worker = Field(
        default_factory=Worker,
        description="The processes that read the data and run SQL, and their limits.",
    )
    answer_time: Literal["exact", "bucketed"] = Field(
        default="exact",
        description="When answers are given: `exact` (when they are ready) or `bucketed` (at the next of "
        "1/8, 1/4, 1/2, 1, 2, … seconds after the statement came).",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a schema file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dp_sql schema",
        **_plain_schema(SchemaFile.model_json_schema()),
    }


def json_schema_text() -> str:
    """Return the JSON Schema as the text of `schemas/dp_sql.schema.json`."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _plain_schema(node: Any, *, names: bool = False) -> Any:
    """Return pydantic's schema without its titles and without null, which no key may be.

    `names`: the keys of this mapping are names that the file uses, not words of JSON Schema.
    """
    match node:
        case list():
            return [_plain_schema(item) for item in node]
        case {"anyOf": [inner, {"type": "null"}], **rest} if not names:
            return _plain_schema({**inner, **rest})
        case dict():
            return {
                key: _plain_schema(value, names=not names and key in ("properties", "$defs"))
                for key, value in node.items()
                if names or not (key == "title" or (key == "default" and value is None))
            }
        case _:
            return node
