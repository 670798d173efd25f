"""Login roles of the tests' PostgreSQL server, and how they connect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from postgres_cluster import Cluster

SECRET = "pa55-of-ada"  # noqa: S105  of roles that live for a minute


@contextmanager
def login(cluster: Cluster, worker: str, name: str) -> Iterator[str]:
    """Yield the name of a login role that may do nothing yet, and that is gone afterwards."""
    quoted = '"' + name.replace('"', '""') + '"'
    cluster.run(f"CREATE ROLE {quoted} LOGIN PASSWORD '{SECRET}'")
    yield name
    for database in (f"ledger_{worker}", "postgres"):
        cluster.run(f"DROP OWNED BY {quoted}", database=database)
    cluster.run(f"DROP ROLE {quoted}")


def url_of(cluster: Cluster, database: str, role: str) -> str:
    """Return the URL at which a role that `login` made connects to a database."""
    return cluster.url(database, role.replace('"', "%22").replace(" ", "%20"), SECRET)
