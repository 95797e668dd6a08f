"""Ranks reduced where Dask's workers run, past one machine.

A task reads a few recordings and packs what is left of their ranks; other tasks bring the packets
together as a tree, on the workers too; the coordinator fetches the few at its root. What a worker
read stays where it is. A worker that dies loses nothing that another cannot read again; a recording
at which workers die again and again is lost, and said to be.
"""

from __future__ import annotations

import importlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sightline.core.model.declare import ImportOptions
from sightline.errors import RequestError
from sightline.fleet.pack import Packed, merge_packed, pack_ranks, unpack_ranks
from sightline.fleet.read import Reduced, collect_ranks, reduce_recording
from sightline.fleet.reduce import Rank
from sightline.opening.paths import expand_paths

if TYPE_CHECKING:
    from distributed import Client, Future

# A task is to take half a second or more, a hundred times what the scheduler spends on it: four
# recordings of 50,000 events (docs/scale.md).
_TOGETHER = 4
_BRANCHES = 16  # packets that become one: some hundred kilobytes of 64 ranks
_LOOK_S = 1.0  # how often it is asked whether any worker is left
PATIENCE_S = 60.0  # without any worker, after which the rest is lost; a nanny restarts one in 2 s
ANSWER_S = 10.0  # within which a scheduler answers
_UNREAD = "it was not read: no worker was left"
_NO_DASK = "Install it here and on the workers:  pip install distributed dask-jobqueue"
# What a job of Slurm asks for where dask-jobqueue's own configuration does not say.
_SLURM = {"cores": 1, "memory": "4 GB"}

Progress = Callable[[str, int, int], None]
T = TypeVar("T")


@contextmanager
def connect_scheduler(address: str) -> Iterator[Client]:
    """A client of a Dask scheduler that runs. Raises RequestError where none answers."""
    distributed = _import("distributed")
    try:
        client = distributed.Client(address, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"no Dask scheduler answers at {address}",
            why=str(error).splitlines()[0] if str(error) else None,
            hint="Start one:  dask scheduler   and workers:  dask worker tcp://HOST:8786",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise RequestError(
                f"the Dask scheduler at {address} has no workers",
                hint=f"Start some:  dask worker {address}",
            ) from error
        yield client


@contextmanager
def start_slurm(partition: str, workers: int) -> Iterator[Client]:
    """A client whose workers are jobs of Slurm, which end with it; waits for the first.

    What else a job asks for stands in dask-jobqueue's configuration (`jobqueue.slurm`). Raises
    RequestError where Slurm takes no job.
    """
    distributed, jobqueue = _import("distributed"), _import("dask_jobqueue")
    import dask

    _ask_slurm(partition)
    # A job is a shell's script: Python may lie in a folder whose name has a blank.
    told = {**_SLURM, "python": shlex.quote(sys.executable)}
    asked = {k: v for k, v in told.items() if not dask.config.get(f"jobqueue.slurm.{k}", None)}
    cluster = jobqueue.SLURMCluster(
        queue=partition,
        # No page of Dask's is served to other machines.
        scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        job_script_prologue=["export POLARS_MAX_THREADS=1"],
        **asked,
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        cluster.scale(jobs=workers)
        client.wait_for_workers(1)
        yield client


def _ask_slurm(partition: str) -> None:
    """Whether Slurm would take a job: dask-jobqueue waits for ever where it does not."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise RequestError(
            "there is no Slurm on this machine: no sbatch in PATH",
            hint="Run this where jobs are submitted, or give a Dask scheduler by --scheduler.",
        )
    command = [sbatch, "--test-only", f"--partition={partition}", "--wrap=true"]
    said = subprocess.run(  # noqa: S603  # fixed arguments, no shell
        command, capture_output=True, text=True, errors="replace", check=False
    )
    if said.returncode:
        lines = [line.strip() for line in said.stderr.splitlines() if line.strip()]
        raise RequestError(
            f"Slurm takes no job for partition {partition}", why=lines[-1] if lines else None
        )


def reduce_on_cluster(
    paths: Sequence[str],
    client: Client,
    *,
    options: ImportOptions | None = None,
    progress: Progress | None = None,
    patience_s: float = PATIENCE_S,
    together: int = _TOGETHER,
    branches: int = _BRANCHES,
) -> Reduced:
    """What `reduce_recordings` gives, read by the client's workers, who must see the same files.

    A task reads `together` recordings, and one brings `branches` packets of them together.

    Raises InputError where no rank is left, or two recordings say that they are the same one.
    """
    names = expand_paths(paths).names
    asked = [(at, str(Path(name).absolute())) for at, name in enumerate(names)]
    found: dict[int, list[Rank] | str] = dict.fromkeys(range(len(names)), _UNREAD)
    for packed in _gather(client, asked, options, patience_s, together, branches):
        found.update(unpack_ranks(packed))
        if progress is not None:
            progress("ranks", sum(value is not _UNREAD for value in found.values()), len(names))
    return collect_ranks((name, found[at]) for at, name in enumerate(names))


def _gather(
    client: Client,
    asked: list[tuple[int, str]],
    options: ImportOptions | None,
    patience_s: float,
    together: int,
    branches: int,
) -> Iterator[Packed]:
    """Packets as the tree's roots are done; of what failed, each recording by itself."""
    leaves = {
        client.submit(_reduce, some, options, pure=False): some for some in _cut(asked, together)
    }
    # Merged before more is read: what is fetched early no worker can lose.
    roots = {
        client.submit(merge_packed, some, pure=False, priority=1): some
        for some in _cut(list(leaves), branches)
    }
    broken = []
    for root, packed in _fetch(client, roots, patience_s):
        if packed is not None:
            yield packed
        else:
            broken += roots[root]
    alone = []
    for leaf, packed in _fetch(client, broken, patience_s):
        if packed is not None:
            yield packed
        elif leaf.status == "error":
            alone += leaves[leaf]
    # One after the other: what waits where a worker dies is suspected as well.
    for one in alone:
        again = client.submit(_reduce, [one], options, pure=False)
        for _, packed in _fetch(client, [again], patience_s):
            if packed is not None:
                yield packed
            elif again.status == "error":
                yield pack_ranks([(one[0], _say_failure(again))])


def _reduce(asked: list[tuple[int, str]], options: ImportOptions | None) -> Packed:
    """On a worker: the ranks of these recordings."""
    return pack_ranks((at, reduce_recording(path, options)) for at, path in asked)


def _fetch(
    client: Client, futures: Iterable[Future[Packed]], patience_s: float
) -> Iterator[tuple[Future[Packed], Packed | None]]:
    """Each as it is done, with what it gave, if it did; ends early where no worker is left."""
    import distributed

    left, alive = set(futures), time.monotonic()
    while left:
        try:
            with client.as_current():
                done, left = distributed.wait(left, timeout=_LOOK_S, return_when="FIRST_COMPLETED")
        except distributed.TimeoutError:
            if _has_workers(client):
                alive = time.monotonic()
            elif time.monotonic() - alive > patience_s:
                return
            continue
        alive = time.monotonic()
        # What a worker had done when it died is done anew by another one.
        lost = {future for future in done if future.status == "lost"}
        left |= lost
        for future in done - lost:
            packed = None
            if future.status == "finished":
                # It may be lost since then, and whoever makes it anew may die of it.
                with suppress(distributed.TimeoutError, distributed.scheduler.KilledWorker):
                    packed = future.result(timeout=patience_s)
            yield future, packed


def _has_workers(client: Client) -> bool:
    try:
        return bool(client.scheduler_info()["workers"])
    except OSError:  # the scheduler itself is gone
        return False


def _say_failure(future: Future[Packed]) -> str:
    """Why a task could not be done."""
    import distributed

    error = future.exception()
    if isinstance(error, distributed.scheduler.KilledWorker):
        return "workers died while they read it; they may have too little memory"
    return f"{type(error).__name__}: {error}"


def _cut(things: list[T], size: int) -> Iterator[list[T]]:
    return (things[at : at + size] for at in range(0, len(things), size))


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RequestError(f"this needs Python's package {name}", hint=_NO_DASK) from error
