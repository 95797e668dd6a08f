"""Why a recording of Nsight Systems has no GPU operations, by what it says of itself."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.cuda_errors import HARMLESS, STICKY, name_error
from sightline.core.model.declare import Quality
from sightline.formats.nvidia._nsys.database import Database
from sightline.formats.nvidia._nsys.program_error import find_program_error

# Nsight Systems' own messages (`DIAGNOSTIC_EVENT`), as 2024.6 and 2025.6 write them.
_UNKNOWN_DRIVER = re.compile(
    r"CUDA driver version \(?([\d.]+)\)? is not supported by this build of Nsight Systems"
)
_NOTHING_CAME, _PERHAPS_LOST = "No CUDA events collected", "Not all CUDA events might have been"
# The process ended before its library was there, or CUDA could not be initialized in it.
_NOT_STARTED = re.compile(
    r"CUDA injection initialization failed|Cannot initialize CUDA event collection"
    r"|^CUDA profiling might have not been started correctly"
)
_LAUNCHES = r"^(?:cu|cuda)(?:Graph|Cooperative)?Launch"
_PUTS_WORK = rf"{_LAUNCHES}|^(?:cu|cuda)Mem(?:cpy|set|Prefetch)"
_SET_UP = r"^CUDA profiling (?:initialization|data flush)"  # names in PROFILER_OVERHEAD
# CUDA's runtime, and what compiles PTX: Nsight Systems' own library asks the driver alone.
_OF_CUDA = r"^libcudart\.so|^libnvidia-ptxjitcompiler\.so"
_LOST = (
    "Let the program end by itself, and record again with an Nsight Systems of the same CUDA "
    "version as the program."
)
_VERSION = r"_v\d+$"  # of a call's name
# The version of a kernel of the Windows Subsystem for Linux ends so (microsoft/WSL2-Linux-Kernel).
_WSL = r"(?i)microsoft-standard"
# Programs that start the ranks of a job, and the variable with a rank's number: the manuals of
# Open MPI, MPICH, Slurm and PyTorch. nsys's user guide: %q{NAME} is a variable in a file's name.
_LAUNCHERS = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "jsrun"), "OMPI_COMM_WORLD_RANK"),
    **dict.fromkeys(("mpiexec.hydra", "hydra_pmi_proxy", "aprun"), "PMI_RANK"),
    "srun": "SLURM_PROCID",
    "torchrun": "RANK",
}
_RECORD = "Record with --trace=cuda, and check the profiler's messages."
_PERHAPS_FAILED = (
    "Record with --trace=cuda; if it was, look at what the program printed: where the driver or "
    "its library is not found, every call fails at once, and none is recorded."
)


def saw_no_cuda(db: Database) -> bool:
    """Whether Nsight Systems traced CUDA, and says that nothing came of it."""
    return any(text.startswith(_NOTHING_CAME) for text in _list_messages(db))


def began_tracing(host: pl.DataFrame) -> bool:
    """Whether its own cost shows that Nsight Systems traced CUDA in the program."""
    overhead = host.filter(pl.col("layer") == "overhead").get_column("name").cast(pl.String)
    return bool(overhead.str.contains(_SET_UP).any())


def explain_no_device(db: Database, host: pl.DataFrame) -> Quality:
    """The row of `quality` for a recording without a GPU operation: what is known of why."""
    text, remedy = _explain(db, host)
    return Quality(
        "no_device_ops", "warning", f"no GPU operations were recorded{text}", None, remedy
    )


def _find_sampled_library(db: Database) -> str | None:
    """A library that only a program which uses CUDA runs in, of those that CPU samples lie in."""
    modules = db.rows("SAMPLING_CALLCHAINS", ["module"]).unique()
    names = db.named(
        modules.with_columns(pl.col("module").cast(pl.Int64, strict=False)), n="module"
    )
    files = names.get_column("n").cast(pl.String).str.split("/").list.last().drop_nulls()
    found = files.filter(files.str.contains(_OF_CUDA)).sort()
    return str(found[0]) if found.len() else None


def _explain(db: Database, host: pl.DataFrame) -> tuple[str, str]:
    messages, system = _list_messages(db), read_system(db)
    calls = host.filter(pl.col("layer").is_in(["runtime", "driver"]))
    names = calls.get_column("name").cast(pl.String)
    unknown = next((m for text in messages if (m := _UNKNOWN_DRIVER.search(text))), None)
    is_idle = bool(names.len()) and not names.str.contains(_PUTS_WORK).any()
    # Where calls came, tracing worked in spite of the driver: the program put no work on the GPU.
    if unknown and not is_idle:
        return (
            ": this build of Nsight Systems does not know the installed driver (CUDA "
            f"{unknown[1]})",
            "Update Nsight Systems to a version that knows the driver, and record again.",
        )
    if system.get("NvDriverVersion") == "0":
        return (
            ": the machine has no NVIDIA driver",
            "Record where the driver is loaded (nvidia-smi lists the GPUs).",
        )
    for error in find_program_error(db):
        return f": {error.text}", str(error.remedy)
    if (failed := _find_failure(calls)) is not None:
        name, code = failed
        return (
            f": {re.sub(_VERSION, '', name)} returned {name_error(code)}",
            "Fix that first: check what each call returns, and cudaGetLastError() after each "
            "launch. Then record again.",
        )
    if names.str.contains(_LAUNCHES).any():
        if re.search(_WSL, system.get("SoftwareReleaseVersion", "")):
            return (
                ", though calls that launch them were, under WSL2",
                "Update the driver on Windows and Nsight Systems: older ones cannot see a GPU's "
                "work from inside WSL2; or record on Windows itself.",
            )
        return (
            ", though calls that launch them were",
            "Export the whole report again, and check the profiler's messages for lost records.",
        )
    if names.len():
        if names.str.contains(_PUTS_WORK).any():
            return "", _RECORD
        several = "call" if names.len() == 1 else "calls"
        made = (
            f": the program made {names.len():,} {several} of CUDA, none of which puts work on "
            "the GPU"
        )
        if _was_cut(db):
            return (
                f"{made}, until recording was stopped after the time that was asked for",
                "Record later or longer (--delay, --duration, --capture-range=cudaProfilerApi, or "
                "until the program ends): this is its start-up.",
            )
        return (
            made,
            "Read what the program printed: it may have stopped early. Only cudaGetLastError "
            "reports a failed launch.",
        )
    if launcher := _find_launcher(db, host):
        return (
            f": the recorded program is {launcher}, which starts others, and no CUDA call of "
            "those was seen",
            f"Record each rank inside it:  {launcher} -n N nsys profile -o "
            f"rank%q{{{_LAUNCHERS[launcher]}}} --trace=cuda,mpi PROGRAM  , and read what the "
            "program printed: it may have stopped early.",
        )
    if any(_NOT_STARTED.search(text) for text in messages):
        return (
            ": Nsight Systems could not begin to trace CUDA in the program",
            "Check that the driver is loaded (nvidia-smi lists the GPUs), and read what the "
            "program printed: it may have ended at once, as without its arguments. Else "
            "record with an Nsight Systems of the driver's CUDA version.",
        )
    if saw_no_cuda(db) or began_tracing(host):
        if any(text.startswith(_PERHAPS_LOST) for text in messages):
            return (
                ": CUDA was traced, but no event arrived, and Nsight Systems says that some may "
                "be missing",
                _LOST,
            )
        if library := _find_sampled_library(db):
            return (
                f": CUDA was traced, and CPU samples of the program lie in {library}, but no "
                "CUDA call was recorded: its events are lost",
                _LOST,
            )
        return (
            ": CUDA was traced, but the profiled processes made no CUDA call until recording "
            "stopped",
            "Read what the program printed: it may have stopped early. Else record until it uses "
            "the GPU (without --duration, or a longer one), and the process that does "
            "(--trace-fork-before-exec=true).",
        )
    return "", _PERHAPS_FAILED


def _find_launcher(db: Database, host: pl.DataFrame) -> str | None:
    """The launcher that was recorded, where no process but such has a name."""
    rows = db.rows("PROCESSES", ["pid", "name"]).with_columns(
        pl.col("pid").cast(pl.Int64, strict=False), pl.col("name").cast(pl.String)
    )
    recorded = rows.join(host.select("pid").unique(), on="pid", how="semi").drop_nulls()
    names = recorded.get_column("name").str.split("/").list.last().unique().sort().to_list()
    return str(names[0]) if names and all(name in _LAUNCHERS for name in names) else None


def _find_failure(calls: pl.DataFrame) -> tuple[str, int] | None:
    """The first call that lost the context, or a launch where all of them failed."""
    if "return_value" not in calls.columns:
        return None
    known = calls.select(pl.col("name").cast(pl.String), "return_value").drop_nulls()
    launches = known.filter(pl.col("name").str.contains(_LAUNCHES))
    failed = known.filter(pl.col("return_value").is_in(list(STICKY)))
    if failed.is_empty() and not launches.get_column("return_value").is_in(list(HARMLESS)).any():
        failed = launches
    if failed.is_empty():
        return None
    name, code = failed.row(0)
    return str(name), int(code)


def _was_cut(db: Database) -> bool:
    """Whether recording ended after a time that was asked for (`nsys profile --duration`)."""
    rows = db.rows("META_DATA_CAPTURE", ["name", "value"])
    return any(name == "STOP_TRIGGER" and value == "Delayed" for name, value in rows.iter_rows())


def _list_messages(db: Database) -> list[str]:
    texts = db.rows("DIAGNOSTIC_EVENT", ["text"]).get_column("text").cast(pl.String)
    return texts.drop_nulls().to_list()


def read_system(db: Database) -> dict[str, str]:
    """What a recording says of its machine, by name."""
    rows = db.rows("TARGET_INFO_SYSTEM_ENV", ["name", "value"])
    return {str(name): str(value) for name, value in rows.iter_rows() if value is not None}
