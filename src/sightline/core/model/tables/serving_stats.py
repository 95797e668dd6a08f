"""What a benchmark of an inference server printed: percentiles and rates, without each request."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, real, text

TABLE = Table(
    "serving_stats",
    "a statistic that a benchmark of an inference server printed",
    (
        RANK,
        RECORDING,
        number("benchmark", "number of the benchmark in the file", required=True),
        text(
            "metric",
            "ttft, itl, tpot, latency, queue, request_rate, output_rate, input_tokens, "
            "output_tokens, concurrency, duration or completed",
            required=True,
        ),
        text("statistic", "mean, min, max, total, or a percentile such as p99", required=True),
        real("value", "value"),
        text("unit", "ms, s, 1/s, tokens/s, tokens or requests"),
    ),
)
