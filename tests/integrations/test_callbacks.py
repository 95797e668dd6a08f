"""Callbacks, with stand-ins that have the packages' published signatures.

`test_real_packages.py` runs the same with the packages themselves.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import sightline
from sightline.errors import RequestError
from sightline.integrations._metrics import PARTS
from sightline.record.inline.session import OFF
from support.places import EXAMPLES

EXAMPLE = EXAMPLES / "simulated-dataloader.json.gz"
PLAN = {"wait": 1, "warmup": 1, "active": 2}
STEPS = 6


def _install(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> ModuleType:
    """A stand-in for a package or a module of one; its parents, too."""
    parts = name.split(".")
    for at in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:at]), ModuleType(parts[at - 1]))
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def _load(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A module of sightline.integrations, made anew over the stand-ins."""
    full = f"sightline.integrations.{name}"
    monkeypatch.delitem(sys.modules, full, raising=False)
    return importlib.import_module(full)


@pytest.fixture
def train() -> Any:
    """A training step of PyTorch."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(8, 1)
    return lambda: model(torch.randn(4, 8)).sum().backward()


def _count_steps(folder: Path) -> int:
    rows = sightline.open(folder).table("host_ops", ["layer"]).get_column("layer")
    return int((rows == "step").sum())


class _LightningCallback:
    """lightning.pytorch.callbacks.Callback 2.x: the hooks that are used."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None: ...
    def on_train_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None: ...


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(
    package: str, train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    _install(monkeypatch, package, Callback=_LightningCallback)
    callback = _load(monkeypatch, "lightning").SightlineCallback(str(tmp_path), **PLAN)
    assert isinstance(callback, _LightningCallback)
    callback.on_train_start(None, None)
    for number in range(STEPS):
        train()
        callback.on_train_batch_end(None, None, None, None, number)
    callback.on_train_end(None, None)
    assert _count_steps(tmp_path) == 2


def test_a_training_that_fails_leaves_what_was_recorded(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two steps was recorded."""
    _install(monkeypatch, "lightning.pytorch", Callback=_LightningCallback)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    callback = _load(monkeypatch, "lightning").SightlineCallback(str(tmp_path), **PLAN)
    callback.on_train_start(None, None)
    for number in range(3):
        train()
        callback.on_train_batch_end(None, None, None, None, number)
    callback.on_exception(None, None, ValueError())
    assert _count_steps(tmp_path) >= 1


class _TrainerCallback:
    """transformers.TrainerCallback 5.x: the hooks that are used."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...


def test_transformers(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, "transformers", TrainerCallback=_TrainerCallback)
    callback = _load(monkeypatch, "transformers").SightlineCallback(str(tmp_path), **PLAN)
    callback.on_train_begin(None, None, None, model=None)
    for _ in range(STEPS):
        train()
        callback.on_step_end(None, None, None, model=None)
    callback.on_train_end(None, None, None)
    assert _count_steps(tmp_path) == 2


def test_accelerate(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `Accelerator.profile` makes of ProfileKwargs: a profiler of PyTorch's."""
    torch = pytest.importorskip("torch")
    _install(monkeypatch, "accelerate.utils", ProfileKwargs=lambda **kw: SimpleNamespace(**kw))
    given = _load(monkeypatch, "accelerate").profile_kwargs(str(tmp_path), **PLAN)
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(**given.schedule_option),
        on_trace_ready=given.on_trace_ready,
        record_shapes=given.record_shapes,
    ) as profiler:
        for _ in range(STEPS):
            train()
            profiler.step()
    assert _count_steps(tmp_path) == 2


class _Engine:
    """deepspeed.DeepSpeedEngine: an update of the weights every second step."""

    def __init__(self) -> None:
        self.micro_steps = 0

    def is_gradient_accumulation_boundary(self) -> bool:
        return (self.micro_steps + 1) % 2 == 0

    def step(self, lr_kwargs: Any = None) -> None:
        self.micro_steps += 1


def test_deepspeed(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _load(monkeypatch, "deepspeed")
    engine = _Engine()
    with module.profile_engine(engine, str(tmp_path), **PLAN):
        for _ in range(2 * STEPS):
            train()
            engine.step()
    assert _count_steps(tmp_path) == 2
    assert "step" not in vars(engine), "the engine is as it was"
    with pytest.raises(TypeError):
        module.profile_engine(object(), str(tmp_path)).__enter__()


def test_ray_train(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's first optimizer steps it; Ray sees the arguments that it takes."""
    torch = pytest.importorskip("torch")

    def loop(config: dict[str, Any]) -> str:
        layer = torch.nn.Linear(1, 1)
        first, other = (torch.optim.SGD(layer.parameters(), config["rate"]) for _ in range(2))
        for _ in range(STEPS):
            train()
            first.step()
            other.step()
        return "done"

    recorded = _load(monkeypatch, "ray_train").record_loop(loop, str(tmp_path), **PLAN)
    assert inspect.signature(recorded) == inspect.signature(loop)
    assert recorded({"rate": 0.1}) == "done"
    assert _count_steps(tmp_path) == 2


class _KerasCallback:
    """keras.callbacks.Callback 3.x: the hooks that are used."""

    def on_train_begin(self, logs: Any = None) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None: ...
    def on_train_end(self, logs: Any = None) -> None: ...


def _fit_keras(monkeypatch: pytest.MonkeyPatch, folder: Path, backend: str, train: Any) -> None:
    keras = _install(monkeypatch, "keras", backend=SimpleNamespace(backend=lambda: backend))
    keras.callbacks = _install(monkeypatch, "keras.callbacks", Callback=_KerasCallback)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", keras)
    callback = _load(monkeypatch, "keras").SightlineCallback(str(folder), **PLAN)
    callback.on_train_begin()
    for number in range(STEPS):
        train()
        callback.on_train_batch_end(number)
    callback.on_train_end()


def test_keras_on_torch(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fit_keras(monkeypatch, tmp_path, "torch", train)
    assert _count_steps(tmp_path) == 2


def test_keras_on_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's profiler is begun before the third batch, and ended after the fourth."""
    told: list[str] = []
    profiler = SimpleNamespace(
        start_trace=lambda folder: told.append(f"start {folder}"),
        stop_trace=lambda: told.append("stop"),
    )
    _install(monkeypatch, "jax", profiler=profiler)
    _fit_keras(monkeypatch, tmp_path, "jax", lambda: told.append("batch"))
    assert told == ["batch"] * 2 + [f"start {tmp_path}"] + ["batch"] * 2 + ["stop"] + ["batch"] * 2


def test_keras_on_tensorflow_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _fit_keras(monkeypatch, tmp_path, "tensorflow", lambda: None)
    assert "TensorFlow" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_not_to_be_recorded_is_left_alone(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SIGHTLINE_OFF, by another profiler, by its rank."""
    torch = pytest.importorskip("torch")
    from sightline.integrations._steps import Plan, StepProfiler

    def run(**options: Any) -> None:
        steps = StepProfiler(Plan(tmp_path, **PLAN, **options))
        steps.start()
        for _ in range(STEPS):
            train()
            steps.step()
        steps.stop()

    monkeypatch.setenv(OFF, "1")
    run()
    monkeypatch.delenv(OFF)
    with torch.profiler.profile():
        run()
    monkeypatch.setenv("RANK", "3")
    run(ranks=(0,))
    assert not list(tmp_path.iterdir())
    run(ranks=(0, 3))
    assert [p.name for p in tmp_path.rglob("*.gz")] == ["rank3.pt.trace.json.gz"]


@pytest.mark.parametrize("options", [{"wait": -1}, {"active": 0}])
def test_plans_that_are_none(options: dict[str, int]) -> None:
    from sightline.integrations._steps import Plan

    with pytest.raises(ValueError, match="active"):
        Plan("runs", **options)


def test_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """mlflow.log_metrics(metrics, step=None), log_artifact(local_path, artifact_path=None)."""
    seen: dict[str, Any] = {}

    def log_artifact(local_path: str, artifact_path: str | None = None) -> None:
        seen[Path(local_path).name] = Path(local_path).read_bytes()

    _install(
        monkeypatch,
        "mlflow",
        log_metrics=lambda metrics, step=None: seen.update(metrics=metrics, step=step),
        log_artifact=log_artifact,
    )
    metrics = _load(monkeypatch, "mlflow").log_recording(EXAMPLE, step=3)
    assert seen["metrics"] == metrics
    assert seen["step"] == 3
    assert seen["sightline.md"].startswith(b"# Why is it slow?")
    assert seen["sightline.html"].startswith(b"<!doctype html>")


def test_what_is_logged_is_what_the_report_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares sum to the window; of the findings the gains."""
    written: dict[str, float] = {}
    texts: list[str] = []
    writer = SimpleNamespace(
        add_scalar=lambda name, value, step: written.update({name: value}),
        add_text=lambda name, text, step: texts.append(text),
    )
    metrics = _load(monkeypatch, "tensorboard").log_recording(writer, EXAMPLE, 5)
    assert written == metrics
    assert sum(metrics[f"sightline/{part}_pct"] for part in PARTS) == pytest.approx(100)
    report = sightline.open(EXAMPLE).report()
    gains = {f["rule"]: f["gain_pct"] for f in report["findings"] if f["gain_pct"]}
    assert {
        k.rpartition("/")[2]: v for k, v in metrics.items() if "could_save" in k
    } == pytest.approx(gains)
    assert metrics["sightline/step_ms"] > 0
    assert "Waiting for the DataLoader" in texts[0]


def test_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    """wandb.run, log(data, step=None), Artifact(name, type), add_file, log_artifact."""
    kept: list[Any] = []

    class Artifact:
        def __init__(self, name: str, type: str) -> None:
            self.name, self.files = name, list[str]()

        def add_file(self, local_path: str) -> None:
            self.files.append(Path(local_path).name)

    module = _install(
        monkeypatch,
        "wandb",
        run=None,
        log=lambda data, step=None: kept.append(data),
        Artifact=Artifact,
        log_artifact=kept.append,
    )
    log_recording = _load(monkeypatch, "wandb").log_recording
    with pytest.raises(RequestError, match="no run"):
        log_recording(EXAMPLE)
    module.run = SimpleNamespace(id="abc")  # type: ignore[attr-defined]
    metrics = log_recording(sightline.open(EXAMPLE))
    assert kept[0] == metrics
    assert (kept[1].name, kept[1].files) == ("sightline-abc", ["sightline.md", "sightline.html"])
