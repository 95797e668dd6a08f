"""Models and plans as plain data, as `sightline mig --json` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sightline.mig.models import Model
from sightline.mig.planner import Plan


def describe_models(models: Iterable[Model]) -> list[dict[str, Any]]:
    """GPUs with their profiles, memory in bytes and in slots."""
    return [
        {
            "gpu": model.name,
            "pci": model.pci_ids,
            "sms": model.sms,
            "driver": model.driver,
            "source": model.source,
            "profiles": [
                {
                    "profile": model.sizes[shape.key].name,
                    "compute": shape.compute,
                    "memory_slots": shape.memory,
                    "starts": shape.starts,
                    "most": shape.most,
                    "sms": model.sizes[shape.key].sms,
                    "memory_bytes": model.sizes[shape.key].memory_bytes,
                    "estimated": not model.sizes[shape.key].is_proven,
                }
                for shape in model.family.shapes
                if shape.key in model.sizes
            ],
        }
        for model in models
    ]


def describe_plan(plan: Plan) -> dict[str, Any]:
    """A plan: GPUs by how they are cut, and workloads without a place."""
    return {
        "gpus_used": plan.used,
        "gpus": [
            {
                "model": gpu.model.name,
                "count": gpu.count,
                "cut": gpu.whole_for is None,
                "instances": [
                    {
                        "profile": gpu.model.sizes[one.key].name,
                        "start": one.start,
                        "for": plan.wants[one.want].name,
                    }
                    for one in gpu.instances
                ],
                "for": None if gpu.whole_for is None else plan.wants[gpu.whole_for].name,
                "waste": gpu.measure_waste()._asdict(),
            }
            for gpu in plan.gpus
        ],
        "unserved": {
            want.name: count for want, count in zip(plan.wants, plan.unserved, strict=True) if count
        },
        "excess": round(plan.excess, 6),
    }
