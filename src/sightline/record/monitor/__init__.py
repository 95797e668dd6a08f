"""What GPUs and their host do now: read from many sources, shown, kept, exported and judged.

    readings   what a source answers, and rates of counters that may be reset
    sources/   one file for each place that is read; see `sources/__init__.py`
    rounds     when to read: every second by the monotonic clock, whatever the wall clock does
    latest     the last value of each metric, with its age
    history    the folder that `watch` keeps, as it is written; `seal` packs and thins it
    watching   the rounds of `watch`: into the history, the exporter and the policies
    notices    a webhook or a command for what is violated
    exporter   /metrics for Prometheus
    policies   conditions on metrics, with duration and hysteresis
    words      what a GPU does, in one sentence
    top/       the terminal's view

The metrics themselves are in `sightline.core.watched_metrics`. Nothing here needs Polars or DuckDB
but what seals the history: a monitor is to be small.
"""
