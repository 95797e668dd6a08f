"""The job with DuckDB's JSON reader: one SQL statement makes a table of the events, three ask it.

    python duckdb_job.py TRACE

The whole trace is one JSON object to DuckDB, which has to hold it: `maximum_object_size`.
"""

import json
import sys
from pathlib import Path

import duckdb

db = duckdb.connect()
size = Path(sys.argv[1]).stat().st_size + 1_000_000
db.execute(
    "create table ops as select e.cat as kind, e.name as name, e.pid as device, "
    "(e.ts * 1000)::bigint as start_ns, ((e.ts + e.dur) * 1000)::bigint as end_ns "
    "from (select unnest(traceEvents) as e from read_json(?, maximum_object_size = "
    f"{size}, columns = {{traceEvents: 'STRUCT(cat VARCHAR, name VARCHAR, pid VARCHAR, "
    "ts DECIMAL(20, 3), dur DECIMAL(20, 3))[]'})) "
    "where e.cat in ('kernel', 'gpu_memcpy', 'gpu_memset')",
    [sys.argv[1]],
)
top = db.execute(
    "select name, count(*), sum(end_ns - start_ns)::bigint as ns from ops "
    "where kind = 'kernel' group by name order by ns desc limit 10"
).fetchall()
whole = db.execute(
    "select count(*), sum(end_ns - start_ns)::bigint from ops where kind = 'kernel'"
).fetchone()
busy = db.execute(
    "with reached as (select *, coalesce(max(end_ns) over (partition by device order by start_ns "
    "rows between unbounded preceding and 1 preceding), 0) as before from ops) "
    "select sum(w)::bigint, sum(b)::bigint from (select max(end_ns) - min(start_ns) as w, "
    "sum(greatest(0, end_ns - greatest(start_ns, before))) as b from reached group by device)"
).fetchone()
assert whole is not None
assert busy is not None
answer = {"kernels": whole[0], "kernel_ns": whole[1], "top": top}
print(json.dumps(answer | {"window_ns": busy[0], "busy_ns": busy[1]}))
