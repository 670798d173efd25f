"""The analyst's SQL above the releases: what it reads, and the DuckDB without protected rows that runs it."""
