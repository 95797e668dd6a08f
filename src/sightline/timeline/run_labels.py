"""What a run's kernels are called on every screen: one list, so that one kernel has one name."""

from __future__ import annotations

from sightline.core.kernel_labels import label_kernels
from sightline.core.model.run import Run


def label_run_kernels(run: Run) -> dict[str, str]:
    """The label of each kernel name of a run, told apart from all others of the run."""
    return run.once(_label)


def _label(run: Run) -> dict[str, str]:
    ops = run.scan("device_ops").select("name", "kind").unique().collect()
    names = {name for name, kind in ops.iter_rows() if kind in ("kernel", "graph") and name}
    if run.rows("profiled_kernels"):
        profiled = run.table("profiled_kernels", ["name"]).get_column("name")
        names.update(name for name in profiled.unique() if name)
    return label_kernels(sorted(names))
