"""How far the clocks of ranks are apart, from the ends of collectives that they had together.

All members of a collective end within the fabric's latency of each other, whenever they began. So
each rank's clock, as an offset and a drift, and each collective's true end are what brings the
recorded ends together: one linear system over all ranks and collectives, solved again and again
with less weight on what lies far off (Huber's M-estimator: P. J. Huber, Robust Statistics, 1981,
7.8). Wall clocks are not asked. Ranks that share no collective, not by way of others either, have
clocks that cannot be compared: they are in components of their own.

What remains after the fit, taken at its 95th percentile, is the uncertainty: what ranks always end
apart cannot be told from a clock that is wrong by as much, and is of the size of what they
sometimes end apart. To the drift's own error it adds up at the ends of the recording.

Where there are too few collectives, the packets between hosts tell (`packet_clocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from sightline.core.model.clock import move_moment
from sightline.core.model.run import Run
from sightline.timeline.collectives import describe_collectives, name_kind, pair_members
from sightline.timeline.mpi import list_mpi_anchors
from sightline.timeline.packet_clocks import CLOCKS, MOST_DRIFT, fit_packet_clocks
from sightline.timeline.packets import match_packets
from sightline.timeline.system_waits import put_on_hosts

if TYPE_CHECKING:
    import numpy as np

# Fewer collectives than this say nothing of a clock: of eight, the 95th percentile is the worst.
LEAST_ANCHORS = 8
# As many collectives of a group are enough for any fit here: offsets to a tenth of the spread.
MOST_ANCHORS = 256
# NCCL's own latency across one machine's links is 10 to 30 µs (nccl-tests, smallest sizes): below
# it, ends that are apart are no sign of clocks that are.
LATENCY_NS = 10_000
# Of well paired collectives none ends before a member begins; a tenth that does is a wrong pairing.
MOST_IMPOSSIBLE = 0.1
# Two thirds of 1.5 standard deviations keep full weight (Huber 1981: k = 1.5, 95 % efficiency).
_HUBER, _ROUNDS = 1.5, 12
# Up to so many ranks the normal matrix is made: 4 MB, and solved in some ms.
MOST_DENSE = 256
_RIDGE = 1e-9
# Of what is to be explained, what may be left: 1e-4 ns of offsets of 50 ms. And steps at most: as
# many as a chain of ranks has unknowns, where each meets the next one only.
_CLOSE, _MOST_STEPS = 1e-12, 20_000
# A drift is taken as real where it is so many times its own error, and no crystal is so far off.
_DRIFT_ERRORS = 5.0
_ON_MONOTONIC = "sightline_mpi"  # the format whose times are CLOCK_MONOTONIC's
COLLECTIVES, PACKETS = "collectives", "packets"  # what clocks are told by


@dataclass(frozen=True)
class Fit:
    """The clocks of ranks: `shift_ns` + `drift` × (t − `at_ns`) is what is added to a time t.

    `impossible` is the share of collectives in which, on these clocks, one member ended before
    another began, or of packets between hosts for which no clocks make all of them arrive after
    they were sent; `anchors` is how many were looked at.
    """

    clocks: pl.DataFrame
    anchors: int
    impossible: float
    method: str = COLLECTIVES

    @property
    def is_contradictory(self) -> bool:
        """Whether no clocks make sense of the pairing."""
        return self.impossible > MOST_IMPOSSIBLE

    def find_shift(self) -> int:
        """The most that any rank's time changes, at the middle of what it recorded, ns."""
        return int(self.clocks.get_column("shift_ns").abs().max() or 0)  # type: ignore[arg-type]

    def is_apart(self) -> bool:
        """Whether a clock is off by more than its uncertainty and the fabric's latency.

        By packets: whether one arrived before it was sent. Clocks that allow all of them stay.
        """
        if self.method == PACKETS:
            return not self.clocks.filter(
                (pl.col("shift_ns") != 0) | (pl.col("drift") != 0)
            ).is_empty()
        off = pl.col("shift_ns").abs() > pl.max_horizontal("uncertainty_ns", LATENCY_NS)
        return bool(self.clocks.select(off.any()).item())


def list_anchors(device_ops: pl.DataFrame, described: pl.DataFrame) -> pl.DataFrame:
    """Members of collectives whose ends tell of clocks: rank, meeting, start_ns, end_ns.

    `described` is what `describe_collectives` gives.

    Sends and receives end apart, and so does what has a root: it may go on before the others come.
    """
    members = pair_members(device_ops, described, together=False).filter("whole")
    kind = name_kind(pl.col("op"))
    return members.filter(
        kind.is_in(["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"])
    ).select("rank", "meeting", *_GROUP_KEYS, "start_ns", "end_ns")


_GROUP_KEYS = ("group", "members")


def list_shared_clocks(run: Run) -> pl.DataFrame:
    """Ranks whose times are a host's monotonic clock, which its processes share: rank, host.

    Those whose MPI calls `sightline run` recorded into a run folder; `offset_ns` is what was added
    to reach the wall clock, which each process read by itself.
    """
    recordings = run.table("recordings").filter(pl.col("format") == _ON_MONOTONIC)
    return (
        recordings.select(
            "rank",
            host=pl.col("process").str.extract(r"^([0-9a-f]{8})-\d+$"),
            offset_ns="clock_offset_ns",
        )
        .drop_nulls()
        .unique("rank", keep="first", maintain_order=True)
    )


def share_a_clock(run: Run) -> bool:
    """Whether all ranks' times are of one host's monotonic clock, with nothing to align."""
    shared = list_shared_clocks(run)
    ranks = {part.rank for part in run.parts}
    return shared.get_column("host").n_unique() == 1 and set(shared.get_column("rank")) == ranks


def fit_run_clocks(run: Run) -> Fit | None:
    """The clocks of a run's ranks, told by collectives (the devices', else MPI's), else packets."""
    return run.once(_fit_run)


def _fit_run(run: Run) -> Fit | None:
    if len({part.rank for part in run.parts}) < 2:
        return None
    described = describe_collectives(run.table("collectives"))
    fit = fit_clocks(list_anchors(run.table("device_ops"), described))
    if fit is None and run.rows("mpi_events"):
        fit = fit_clocks(list_mpi_anchors(run))
    return fit_by_packets(run) if fit is None else fit


def fit_by_packets(run: Run) -> Fit | None:
    """The clocks of hosts by their packets, for all ranks on them; None where no packets tell."""
    if not run.rows("packets"):
        return None
    ends = {"sender": "sender_rank", "receiver": "rank"}
    times = {"sent_ns": "sender_time_ns", "received_ns": "time_ns"}
    found = fit_packet_clocks(match_packets(run).select(**ends, **times))
    if found is None:
        return None
    hosts = put_on_hosts(run, run.table("recordings").select("rank").unique())
    clocks = hosts.join(found.clocks, on="rank").drop("rank").rename({"own": "rank"})
    share = found.contradictory / found.packets
    return Fit(clocks.select(list(CLOCKS)).sort("rank"), found.packets, share, PACKETS)


def fit_clocks(anchors: pl.DataFrame) -> Fit | None:
    """The clocks that bring the ends of collectives together; None where too few are known.

    Relative to the lowest rank of each component. Raises nothing: judge the answer.
    """
    import numpy as np

    rows = _choose_anchors(anchors)
    if rows.is_empty():
        return None
    ranks = rows.get_column("rank").unique().sort()
    base = rows.group_by("rank").agg(at=pl.col("end_ns").min().alias("at")).sort("rank")
    middle = (
        rows.group_by("rank")
        .agg(middle=((pl.col("end_ns").max() - pl.col("end_ns").min()) // 2))
        .sort("rank")
    )
    own = base.get_column("at").to_numpy()
    half = middle.get_column("middle").to_numpy()
    who = np.searchsorted(ranks.to_numpy(), rows.get_column("rank").to_numpy())
    meeting = rows.get_column("meeting").rank("dense").to_numpy().astype(np.int64) - 1
    since = (rows.get_column("end_ns").to_numpy() - own[who]).astype(np.float64)
    scale = float(max(half.max(), 1))
    x = (since - half[who]) / scale
    component = find_components(who, meeting, len(ranks))
    # First all drifts, then those that are none at 0: of a short recording none can be told.
    free = np.ones(len(ranks), bool)
    for _ in range(2):
        solved = _solve(since, x, who, meeting, component, free)
        error = solved.drift_error
        free &= np.abs(solved.drift) > _DRIFT_ERRORS * error
        free &= np.abs(solved.drift) / scale <= MOST_DRIFT
    spread = _find_spread(solved.left, who, len(ranks))
    first = np.array([np.flatnonzero(component == c)[0] for c in component])
    shift = np.rint(solved.offset).astype(np.int64) - own + own[first]
    count = np.bincount(who, minlength=len(ranks))
    clocks = pl.DataFrame(
        {
            "rank": ranks,
            "component": component.astype(np.int64),
            "shift_ns": shift,
            "drift": solved.drift / scale,
            "at_ns": own + half,
            "anchors": count,
            "uncertainty_ns": np.ceil(
                np.maximum(spread, spread[first]) + 2 * np.where(free, solved.drift_error, 0.0)
            ).astype(np.int64),
        },
        schema=CLOCKS,
    )
    moved = move_times(rows, clocks, ("start_ns", "end_ns"))
    impossible = moved.group_by("meeting").agg(
        no=pl.col("start_ns").max() >= pl.col("end_ns").min()
    )
    return Fit(clocks, impossible.height, float(impossible.get_column("no").mean() or 0.0))  # type: ignore[arg-type]


def move_times(frame: pl.DataFrame, clocks: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """The rows with times on the common clock; those of ranks without a clock stay."""
    fitted = ("shift_ns", "drift", "at_ns")
    known = frame.join(clocks.select("rank", *fitted), on="rank", how="left", maintain_order="left")
    return known.with_columns(
        pl.coalesce(move_moment(pl.col(name), *map(pl.col, fitted)), name) for name in columns
    ).drop(fitted)


def _choose_anchors(anchors: pl.DataFrame) -> pl.DataFrame:
    """Evenly chosen collectives of each group, of ranks that have enough of them."""
    meetings = anchors.group_by("meeting", *_GROUP_KEYS).agg(pl.col("end_ns").min()).sort("end_ns")
    n, nth = pl.len().over(_GROUP_KEYS), pl.int_range(pl.len()).over(_GROUP_KEYS)
    most = pl.min_horizontal(n, MOST_ANCHORS)
    chosen = meetings.filter((nth * most) // n != ((nth - 1) * most).floordiv(n))
    rows = anchors.join(chosen.select("meeting"), on="meeting", how="semi")
    enough = pl.len().over("rank") >= LEAST_ANCHORS
    rows = rows.filter(enough)
    return rows.filter(pl.len().over("meeting") > 1).sort("rank", "end_ns", "meeting")


def find_components(who: np.ndarray, meeting: np.ndarray, ranks: int) -> np.ndarray:
    """For each rank the number of the set of ranks whose clocks can be compared with its.

    `who` came to `meeting`, one row each, both numbered from 0; sets are numbered in their order.
    """
    import numpy as np

    # Each takes the lowest number of all that it met, until nothing changes: as often as the
    # longest way from one rank to another by way of others.
    labels = np.arange(ranks)
    while True:
        lowest = np.full(int(meeting.max(initial=-1)) + 1, ranks)
        np.minimum.at(lowest, meeting, labels[who])
        now = labels.copy()
        np.minimum.at(now, who, lowest[meeting])
        if np.array_equal(now, labels):
            return np.unique(labels, return_inverse=True)[1]
        labels = now


@dataclass(frozen=True)
class _Solved:
    offset: np.ndarray  # ns, per rank
    drift: np.ndarray  # ns at the end of half the longest recording, per rank
    drift_error: np.ndarray
    left: np.ndarray  # ns, per member: its end less the collective's


def _solve(
    since: np.ndarray,
    x: np.ndarray,
    who: np.ndarray,
    meeting: np.ndarray,
    component: np.ndarray,
    free: np.ndarray,
) -> _Solved:
    """Offsets and drifts by iterated least squares; the ends of collectives are eliminated.

    The first rank of each component keeps its clock.
    """
    import numpy as np

    ranks, meetings = len(component), int(meeting.max()) + 1
    fixed = np.zeros(ranks, bool)
    fixed[np.unique(component, return_index=True)[1]] = True
    kept = np.concatenate([~fixed, ~fixed & free])
    is_dense = ranks <= MOST_DENSE
    groups = _list_groups(who, meeting) if is_dense else []
    weight = np.ones(len(who))
    found = np.zeros(2 * ranks)
    for _ in range(_ROUNDS):
        total = np.bincount(meeting, weight, meetings)
        mean_end = np.bincount(meeting, weight * since, meetings) / total
        off = weight * (since - mean_end[meeting])
        right = -np.concatenate([np.bincount(who, off, ranks), np.bincount(who, off * x, ranks)])
        if is_dense:
            normal = _add_up(who, x, weight, groups, total, ranks)[np.ix_(kept, kept)]
            normal[np.diag_indices_from(normal)] += _RIDGE
            found[kept] = np.linalg.solve(normal, right[kept])
        else:
            found = _descend(who, x, meeting, weight, total, kept, right, found)
        moved = since + found[who] + found[ranks + who] * x
        left = moved - (np.bincount(meeting, weight * moved, meetings) / total)[meeting]
        deviation = max(1.4826 * float(np.median(np.abs(left))), 1.0)
        weight = np.minimum(1.0, _HUBER * deviation / np.maximum(np.abs(left), 1e-3))
    squares = np.bincount(who, weight * (x - _average(x, who, ranks)[who]) ** 2, ranks)
    error = deviation / np.sqrt(np.maximum(squares, 1e-12))
    return _Solved(found[:ranks], found[ranks:], error, left)


def _descend(
    who: np.ndarray,
    x: np.ndarray,
    meeting: np.ndarray,
    weight: np.ndarray,
    total: np.ndarray,
    kept: np.ndarray,
    right: np.ndarray,
    found: np.ndarray,
) -> np.ndarray:
    """Solve the normal equations without their matrix, which has the square of the ranks.

    By conjugate gradients, preconditioned by the diagonal (M. R. Hestenes and E. Stiefel, 1952;
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2003, 9.2), from what was `found` last.
    """
    import numpy as np

    ranks, meetings = len(kept) // 2, len(total)

    def apply(values: np.ndarray) -> np.ndarray:
        moved = values[who] + values[ranks + who] * x
        mean = np.bincount(meeting, weight * moved, meetings) / total
        off = weight * (moved - mean[meeting])
        both = np.concatenate([np.bincount(who, off, ranks), np.bincount(who, off * x, ranks)])
        return np.where(kept, both + _RIDGE * values, 0.0)

    diagonal = np.concatenate(
        [np.bincount(who, weight, ranks), np.bincount(who, weight * x * x, ranks)]
    )
    scale = 1 / np.maximum(diagonal, _RIDGE)
    right = np.where(kept, right, 0.0)
    left = right - apply(found)
    step = scale * left
    size = float(left @ step)
    least = _CLOSE**2 * float(right @ (scale * right))
    for _ in range(_MOST_STEPS):
        if size <= least:
            break
        image = apply(step)
        length = size / float(step @ image)
        found = found + length * step
        left = left - length * image
        next_step = scale * left
        after = float(left @ next_step)
        step = next_step + (after / size) * step
        size = after
    return found


def _list_groups(who: np.ndarray, meeting: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Collectives with the same members: their numbers, and a row of each member of each.

    So the members of all that one group did are one matrix, and not one for each collective.
    """
    import numpy as np

    order = np.lexsort((who, meeting))
    edges = np.flatnonzero(np.diff(meeting[order])) + 1
    found: dict[bytes, tuple[list[int], list[np.ndarray]]] = {}
    for rows in np.split(order, edges):
        numbers, members = found.setdefault(who[rows].tobytes(), ([], []))
        numbers.append(int(meeting[rows[0]]))
        members.append(rows)
    return [(np.array(numbers), np.stack(members)) for numbers, members in found.values()]


def _add_up(
    who: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    groups: list[tuple[np.ndarray, np.ndarray]],
    total: np.ndarray,
    ranks: int,
) -> np.ndarray:
    """The normal matrix of offsets (first) and drifts of ranks, without the collectives' ends."""
    import numpy as np

    normal = np.zeros((2 * ranks, 2 * ranks))
    each = np.arange(ranks)
    for row, column, value in ((0, 0, 1.0), (0, ranks, x), (ranks, 0, x), (ranks, ranks, x * x)):
        normal[row + each, column + each] = np.bincount(who, weight * value, ranks)
    for numbers, rows in groups:
        members = who[rows[0]]
        both = np.concatenate([members, ranks + members])
        weighted = np.concatenate([weight[rows], weight[rows] * x[rows]], axis=1)
        normal[np.ix_(both, both)] -= weighted.T @ (weighted / total[numbers][:, None])
    return normal


def _average(values: np.ndarray, who: np.ndarray, ranks: int) -> np.ndarray:
    import numpy as np

    return np.bincount(who, values, ranks) / np.maximum(np.bincount(who, minlength=ranks), 1)


def _find_spread(left: np.ndarray, who: np.ndarray, ranks: int) -> np.ndarray:
    """The 95th percentile of what remains, per rank, at least 1 ns."""
    import numpy as np

    order = np.argsort(who, kind="stable")
    parts = np.split(np.abs(left)[order], np.cumsum(np.bincount(who, minlength=ranks))[:-1])
    return np.array([max(1.0, float(np.quantile(p, 0.95, method="higher"))) for p in parts])
