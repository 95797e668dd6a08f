"""SQL: questions of one's own over the tables of a served run."""

from __future__ import annotations

from sightline.core.model.tables import load_table
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError

PANEL = Panel("sql", "SQL", 120)

_EXAMPLES = (
    (
        "device_ops",
        "SELECT name, count(*) AS n, sum(end_ns - start_ns) AS total_ns\n"
        "FROM device_ops GROUP BY name ORDER BY total_ns DESC LIMIT 20",
    ),
    (
        "host_ops",
        "SELECT layer, count(*) AS n, sum(end_ns - start_ns) AS total_ns\n"
        "FROM host_ops GROUP BY layer ORDER BY n DESC",
    ),
    (
        "kernel_metrics",
        "SELECT metric, unit, max(value) AS highest\n"
        "FROM kernel_metrics WHERE instance_id IS NULL GROUP BY metric, unit ORDER BY metric",
    ),
)


def data(view: View) -> list[Block]:
    """A box for a query, with the tables that there are and their columns."""
    if not view.served:
        raise MissingDataError(
            "no SQL", why="a page from disk has no tables: sightline serve, or sightline sql"
        )
    present = view.run.present()
    return [
        {
            "kind": "sql",
            "examples": [query for table, query in _EXAMPLES if table in present],
            "tables": [
                {
                    "name": name,
                    "doc": load_table(name).row,
                    "columns": [[c.name, c.doc] for c in load_table(name).columns],
                }
                for name in present
            ],
        }
    ]
