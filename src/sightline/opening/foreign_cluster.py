"""Files of clusters that are no job: configurations, licences, lists. Pattern, what, what to do."""

from __future__ import annotations

_SACCT = "Print it with its names:  sacct --parsable2 --allusers --format=ALL > jobs.txt"
_QUEUE = "Print the queue as data:  squeue --json > queue.json"
_ARCHIVE = "Give the archive or a job in it:  sightline jobs ARCHIVE"
_RULES = "Rules are read by  sightline jobs SOURCE --rules FOLDER"

CLUSTER_FILES: tuple[tuple[bytes, str, str | None], ...] = (
    (rb"\A\s*(?:The )?MIT License\b", "it is a license", None),
    (rb"\A\s*\{[^{}]{0,200}\"\$schema\"\s*:", "it is a JSON schema: it says what files hold", None),
    (
        rb"\A\s*(?:\{\s*)?\"?swagger\"?\s*:|\A(?:basePath|definitions): *\S*\n",
        "it is the description of a REST API",
        None,
    ),
    (rb"\APartitionName=", "it is Slurm's list of partitions, without a job", _SACCT),
    (rb"\AConfiguration data as of ", "it is Slurm's configuration, without a job", _SACCT),
    (
        rb"\A\s*\{\s*\"statistics\"\s*:\s*\{\s*\"parts_packed\"",
        "it is sdiag's report of Slurm's own work, without a job",
        _SACCT,
    ),
    (
        rb"\A(?:Name\|Priority\|GraceTime\||\s*\[\s*\{\s*\"Name\":[^}]{0,200}\"GraceTime\")",
        "it is sacctmgr's list of qualities of service, without a job",
        _SACCT,
    ),
    (
        rb"\A(?:[\w-]{0,60}\|){2}[^\n|]{0,60}\|[\d|]{2,80}\n(?:[\w-]{0,60}\|){2}\d*\|",
        "it is sacctmgr's list of accounts and their limits, without a job",
        _SACCT,
    ),
    (
        rb"\A\s*\{\s*\"a\"\s*:\s*\"[^\"\n]*\",\s*\"id\"\s*:\s*\d+,\s*\"end_time\"",
        "it is squeue in the form that an exporter for Prometheus asks for",
        _QUEUE,
    ),
    (
        rb"\A(?:N/A|gres/[\w:/]{1,60}|\(null\)|)\|#\d{1,9}\|#\d{1,18}",
        "it is squeue without the names of its columns",
        _QUEUE,
    ),
    (
        rb"\A\d{1,18}(?:_\d{1,9})?(?:\.\w+)?\|[^\n|]{0,200}\|[^\n]{0,400}\|[A-Z_]{4,20}"
        rb"(?: by \d+)?\|\d+:\d+\|",
        "it is sacct without the names of its columns (--noheader)",
        _SACCT,
    ),
    (
        rb"\AAVAIL\||\A[\w.-]{1,80} *\|gpu:[\w:]{1,60} *\|gpu:",
        "it is sinfo's list of nodes, in columns that are not known",
        "Print it as data:  sinfo --json > nodes.json",
    ),
    (
        rb"\A\s*\{[^}]{0,400}\"(?:sinks|collectors|receivers)(?:-file)?\"\s*:\s*\"[^\"]*\.json\""
        rb"|\A\s*\{\s*\"(?:add_tags|process_messages|interval_timestamp)\"\s*:"
        rb"|\A\s*\{\s*\"\w{1,60}\"\s*:\s*\{\s*\"type\"\s*:\s*\"(?:influx|libganglia|ganglia|http|nats"
        rb"|stdout|prometheus|ipmi|redfish)"
        rb"|\A\s*\{\s*\"(?:nfs\w{0,8}|memstat|cpustat|diskstat|iostat|schedstat|likwid|loadavg|nvidia|ibstat|netstat)\"\s*:",
        "it is a configuration of ClusterCockpit's collector",
        _ARCHIVE,
    ),
    (
        rb"\A\s*\{\s*\"(?:metrics|addr|main|job-list|clusters)\"\s*:",
        "it is a configuration of ClusterCockpit",
        _ARCHIVE,
    ),
    (
        rb"\A\s*\{[^}]{0,400}\"(?:rule|requirements|tag)\"\s*:.*\"metrics\"\s*:"
        rb"|\A\s*\{\s*\"\w{1,80}_(?:threshold|factor|seconds|samples|threshold_factor)\"\s*:\s*[\d.]+",
        "it is a rule about jobs, or its parameters",
        _RULES,
    ),
    (
        rb"\A(?=[^\n]{0,200}SOCKET;POWER_LIMIT;)",
        "it is a table of power limits and their effect, without a job",
        None,
    ),
    (rb"\A\d{1,18}\s*\Z", "it holds a number and nothing else", None),
    (
        rb"\A(?:[-\w\\+.]{2,24}(?: \S{1,24})?\r?\n){1,40}(?:[-\w\\+.]{2,24})?\s*\Z",
        "it is a list of words and no measurement",
        None,
    ),
    (
        rb"\A#{1,2} [A-Z][^\n]{3,120}\n(?:\s*\n(?:[A-Z*\[#|<][^\n]{20,}|## [^\n]+)\n|\s*\Z)"
        rb"|\A#{1,2} [A-Z][a-zA-Z ]{3,120}\n?\Z",
        "it is a page of documentation",
        None,
    ),
)
