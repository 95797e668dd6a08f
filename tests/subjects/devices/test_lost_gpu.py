"""A GPU that does not answer, in each output of nvidia-smi; a sensor that fails alone is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline

HEAD = "index, name, temperature.gpu, power.draw [W]\n0, H100, 40, 300.0 W\n"
QUERY = (
    "==============NVSMI LOG==============\n\nAttached GPUs : 2\nGPU 00000000:01:00.0\n"
    "    Product Name : H100\n    Temperature\n        GPU Current Temp : 40 C\n"
    "GPU 00000000:02:00.0\n    Product Name : [Unknown Error]\n"
    "    Temperature\n        GPU Current Temp : [Unknown Error]\n"
)
HANDLE = "Unable to determine the device handle for GPU0000:1A:00.0: GPU is lost.\n"


@pytest.mark.parametrize(
    ("text", "who"),
    [
        (HEAD + "1, H100, [GPU is lost], [GPU is lost]\n", "GPU 1 does not answer"),
        (HEAD + "1, H100, [Unknown Error], [Unknown Error]\n", "GPU 1 does not answer"),
        (HEAD + HANDLE, "0000:1A:00.0 does not answer"),
        (QUERY, "GPU 1 does not answer"),
        (HANDLE, "0000:1A:00.0 does not answer"),
    ],
)
def test_it_is_found(tmp_path: Path, text: str, who: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(text)
    run = sightline.open(str(path))
    (found,) = [one for one in run.findings() if one.rule == "lost-gpu"]
    assert found.severity == "critical" and who in found.summary
    assert "Unknown Error" not in str(run.table("devices").get_column("name").to_list())


@pytest.mark.parametrize("text", [HEAD + "1, H100, 41, [Unknown Error]\n", HEAD])
def test_one_sensor_alone_is_no_lost_gpu(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    assert not [one for one in sightline.open(str(path)).findings() if one.rule == "lost-gpu"]
