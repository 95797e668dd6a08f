"""What the vendor's own rules said about a profiled kernel. These are not our findings."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, real, text

TABLE = Table(
    "vendor_rules",
    "a message of one of the vendor's rules, or a rule that ran without a message",
    (
        RANK,
        RECORDING,
        join("kernel_id", "profiled_kernels.kernel_id", "the execution"),
        text("source", "whose rule it is: the tool and its version", required=True),
        text("rule", "identifier of the rule", required=True),
        text("rule_name", "name of the rule"),
        text("section", "section of the report that it belongs to"),
        number("message_id", "number of the message in the rule's result"),
        text("severity", "none, ok, warning, error or optimization; null without a message"),
        text("title", "title of the message"),
        text("text", "the vendor's message, as stored"),
        text("speedup_type", "unknown, local (of the unit) or global (of the kernel)"),
        real("speedup_pct", "the vendor's estimate of the gain", "%"),
        text("focus", "metrics that the message is about, as JSON"),
        text("markers", "places in the source that the rule points to, as JSON"),
    ),
)
