"""GPU clocks held at their base for the time of a recording, and set free after it.

NVML API reference: nvmlDeviceSetGpuLockedClocks takes NVML_CLOCK_LIMIT_ID_TDP for the base clock
(nvml.h), needs root, and lasts until the driver unloads, which persistence
mode keeps from happening. A lock that somebody else had set cannot be read, so it is not restored.
"""

from __future__ import annotations

from typing import Any

from sightline.core.cleanup import register_cleanup, unregister_cleanup
from sightline.record.nvml import library

_BASE = 0xFFFFFF01  # nvml.h: NVML_CLOCK_LIMIT_ID_TDP, where the binding has no name for it
BY_HAND = (
    "As root:  nvidia-smi -pm 1; nvidia-smi -lgc MHZ   and after the program  nvidia-smi -rgc  : "
    "clocks then neither boost nor fall with temperature, so that runs can be compared"
)


class ClockLock:
    """Clocks of every GPU, locked; `stop` sets them free, also at an interrupt."""

    def __init__(self, nvml: Any | None = None) -> None:
        """Raises Unavailable where NVML is not there, or the right to change clocks."""
        self._nvml = library.connect_nvml() if nvml is None else nvml
        self._locked: list[tuple[Any, bool]] = []
        self.names: list[str] = []
        register_cleanup(self.stop)
        try:
            self._lock()
        except BaseException:
            self.stop()
            raise

    def _lock(self) -> None:
        nvml = self._nvml
        base = getattr(nvml, "NVML_CLOCK_LIMIT_ID_TDP", _BASE)
        for gpu in library.find_gpus(nvml):
            if gpu.handle is None:
                continue
            try:
                persists = bool(nvml.nvmlDeviceGetPersistenceMode(gpu.handle))
                if not persists:
                    nvml.nvmlDeviceSetPersistenceMode(gpu.handle, 1)
                self._locked.append((gpu.handle, persists))
                nvml.nvmlDeviceSetGpuLockedClocks(gpu.handle, base, base)
            except (nvml.NVMLError, AttributeError) as error:
                raise library.Unavailable(f"GPU {gpu.number}: {error}") from error
            self.names.append(f"GPU {gpu.number}")

    def stop(self) -> None:
        """Set all free; a GPU that fails meanwhile keeps no other from it."""
        unregister_cleanup(self.stop)
        nvml, locked = self._nvml, self._locked
        self._locked = []
        for handle, persists in locked:
            for name, arguments in (
                ("nvmlDeviceResetGpuLockedClocks", ()),
                *([] if persists else [("nvmlDeviceSetPersistenceMode", (0,))]),
            ):
                try:
                    getattr(nvml, name)(handle, *arguments)
                except (nvml.NVMLError, AttributeError):
                    continue
