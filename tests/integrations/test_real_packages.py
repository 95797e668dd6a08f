"""Callbacks with the real packages, on a CPU: each is skipped where its package is not installed.

`pip install lightning transformers accelerate keras tensorboard mlflow wandb ray[train] deepspeed`
into an environment of its own, then `python -m pytest tests/integrations/test_real_packages.py`.
docs/integrations.md says with which versions that was last done.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.record.inline.session import state

torch: Any = None
pytestmark = pytest.mark.filterwarnings("ignore")
PLAN = {"wait": 1, "warmup": 1, "active": 2}


@pytest.fixture(autouse=True, scope="module")
def _load_torch() -> None:
    """Not while tests are collected: each worker would take seconds for it."""
    globals()["torch"] = pytest.importorskip("torch")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    assert not state.on, "a recorded process is left alone"
    return str(tmp_path / "runs")


def _assert_recorded(folder: str, steps: int = 2) -> None:
    run = sightline.open(folder)
    assert run.table("recordings").item(0, "tool") == "PyTorch profiler"
    marked = run.table("host_ops", ["layer", "name"]).to_dicts()
    assert sum(row["layer"] == "step" for row in marked) == steps
    assert any(row["name"].startswith("aten::") for row in marked)


def _make_data(count: int = 48) -> Any:
    inputs = torch.randn(count, 8)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))


def _train_lightning(package: Any, folder: str, tmp_path: Path) -> None:
    from sightline.integrations.lightning import SightlineCallback

    class Model(package.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    trainer = package.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[SightlineCallback(folder, **PLAN)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(_make_data(), batch_size=4))


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(name: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip(name)
    # A program has one of both; the module takes the one that is there.
    monkeypatch.delitem(sys.modules, "sightline.integrations.lightning", raising=False)
    for other in [m for m in sys.modules if m.split(".")[0] == "pytorch_lightning"]:
        if name != "pytorch_lightning":
            monkeypatch.delitem(sys.modules, other)
    for other in [m for m in sys.modules if m == "lightning.pytorch"]:
        if name == "pytorch_lightning":
            monkeypatch.delitem(sys.modules, other)
    _train_lightning(package, folder, tmp_path)
    _assert_recorded(folder)


def test_transformers(folder: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from sightline.integrations.transformers import SightlineCallback

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, inputs: Any, labels: Any) -> Any:
            return {"loss": torch.nn.functional.mse_loss(self.layer(inputs), labels)}

    rows = [{"inputs": one, "labels": other} for one, other in _make_data()]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        max_steps=8,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=Model(),
        args=arguments,
        train_dataset=rows,
        callbacks=[SightlineCallback(folder, **PLAN)],
    )
    trainer.train()
    _assert_recorded(folder)


def test_accelerate(folder: str) -> None:
    accelerate = pytest.importorskip("accelerate")
    from sightline.integrations.accelerate import profile_kwargs

    accelerator = accelerate.Accelerator(cpu=True, kwargs_handlers=[profile_kwargs(folder, **PLAN)])
    model = torch.nn.Linear(8, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01))
    with accelerator.profile() as profiler:
        for _ in range(6):
            accelerator.backward(model(torch.randn(4, 8)).sum())
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    _assert_recorded(folder)


def test_keras_on_its_backend(folder: str) -> None:
    """KERAS_BACKEND=torch or jax."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    from sightline.integrations.keras import SightlineCallback

    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    rows = torch.randn(48, 8).numpy()
    model.fit(
        rows,
        rows.sum(1, keepdims=True),
        batch_size=4,
        verbose=0,
        callbacks=[SightlineCallback(folder, **PLAN)],
    )
    if keras.backend.backend() == "torch":
        _assert_recorded(folder)
    else:
        assert sightline.open(folder).rows("host_ops")


def test_ray_train(folder: str, tmp_path: Path) -> None:
    """Two workers, which write into one folder."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.train.torch")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from sightline.integrations.ray_train import record_loop

    def loop(config: dict[str, Any]) -> None:
        import ray.train.torch

        model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), config["rate"])
        for _ in range(6):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        TorchTrainer(
            record_loop(loop, folder, **PLAN),
            train_loop_config={"rate": 0.01},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    run = sightline.open(folder)
    assert sorted(run.table("recordings").get_column("rank")) == [0, 1]


def test_deepspeed(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29641")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    deepspeed = pytest.importorskip("deepspeed")
    from sightline.integrations.deepspeed import profile_engine

    model = torch.nn.Linear(8, 1)
    settings = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), 0.01),
        config=settings,
        dist_init_required=True,
    )
    with profile_engine(engine, folder, **PLAN):
        for _ in range(12):
            engine.backward(engine(torch.randn(4, 8)).sum())
            engine.step()
    _assert_recorded(folder)


EXAMPLE = Path(__file__).parents[2] / "examples" / "simulated-dataloader.json.gz"


def test_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    from sightline.integrations.mlflow import log_recording

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    place = (tmp_path / "artifacts").as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("sightline", place))
    with mlflow.start_run() as run:
        metrics = log_recording(EXAMPLE)
    client = mlflow.MlflowClient()
    kept = client.get_run(run.info.run_id).data.metrics
    assert kept["sightline/idle_pct"] == pytest.approx(metrics["sightline/idle_pct"])
    names = {Path(a.path).name for a in client.list_artifacts(run.info.run_id, "sightline")}
    assert names == {"sightline.md", "sightline.html"}


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from sightline.errors import RequestError
    from sightline.integrations.wandb import log_recording

    with pytest.raises(RequestError):
        log_recording(EXAMPLE)
    run = wandb.init(mode="offline", dir=str(tmp_path), project="sightline")
    metrics = log_recording(EXAMPLE)
    assert run.summary["sightline/idle_pct"] == pytest.approx(metrics["sightline/idle_pct"])
    wandb.finish()
    assert list(tmp_path.rglob("*.wandb"))


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    from sightline.integrations.tensorboard import log_recording

    with SummaryWriter(str(tmp_path)) as writer:
        metrics = log_recording(writer, EXAMPLE, 7)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (event,) = events.Scalars("sightline/idle_pct")
    assert (event.step, event.value) == (7, pytest.approx(metrics["sightline/idle_pct"], rel=1e-5))
