"""Plans against a search through every placement of every instance on every GPU."""

from __future__ import annotations

import random
from functools import cache

import pytest

from sightline.errors import RequestError
from sightline.mig.models import WHOLE, Model, find_model, list_models
from sightline.mig.planner import Plan, list_alternatives, plan_gpus
from sightline.mig.wants import Want, list_fitting, measure_excess, parse_want

# Unserved, unserved with the first wants weighing most, GPUs, excess: the goals in their order.
Cost = tuple[int, int, int, float]
H100 = find_model("H100-80GB")


def search(model: Model, gpus: int, wants: list[Want]) -> Cost:
    """The least cost there is: each workload in each place or in none, one after the other."""
    workloads = [n for n, want in enumerate(wants) for _ in range(want.count)]
    moves = {
        n: [
            (key, start, measure_excess(want, model, key))
            for key in list_fitting(want, model)
            for start in ((0,) if key == WHOLE else model.family.find_shape(key).starts)
        ]
        for n, want in enumerate(wants)
    }

    @cache
    def best(number: int, state: tuple[tuple[int, int, bool], ...]) -> Cost:
        if number == len(workloads):
            return 0, 0, 0, 0.0
        want = workloads[number]
        one, weighted, used, excess = best(number + 1, state)
        found = (one + 1, weighted + len(wants) - want, used, excess)
        for place, (mask, compute, media) in enumerate(state):
            if place and state[place - 1] == state[place]:
                continue  # GPUs that are alike
            for key, start, more in moves[want]:
                if key == WHOLE:
                    slots, slices, has_media = (1 << model.family.memory) - 1, 0, False
                else:
                    shape = model.family.find_shape(key)
                    slots, slices = ((1 << shape.memory) - 1) << start, shape.compute
                    has_media = shape.has_media
                if mask & slots or compute + slices > model.family.compute or (media and has_media):
                    continue
                after = list(state)
                after[place] = mask | slots, compute + slices, media or has_media
                rest = best(number + 1, tuple(sorted(after)))
                found = min(found, (rest[0], rest[1], rest[2] + (mask == 0), rest[3] + more))
        return found

    return best(0, ((0, 0, False),) * gpus)


def get_cost(plan: Plan) -> Cost:
    weighted = sum((len(plan.wants) - n) * count for n, count in enumerate(plan.unserved))
    return sum(plan.unserved), weighted, plan.used, plan.excess


def check_plan(plan: Plan, gpus: int) -> None:
    """What must hold of every plan: places apart, enough for the need, all accounted for."""
    served = [0] * len(plan.wants)
    for gpu in plan.gpus:
        taken: set[int] = set()
        for one in gpu.instances:
            shape = gpu.model.family.find_shape(one.key)
            slots = set(range(one.start, one.start + shape.memory))
            assert one.start in shape.starts and not taken & slots
            taken |= slots
            assert one.key in list_fitting(plan.wants[one.want], gpu.model)
            served[one.want] += gpu.count
        if gpu.whole_for is not None:
            assert not gpu.instances
            served[gpu.whole_for] += gpu.count
        assert gpu.measure_waste().compute >= 0
    assert [s + u for s, u in zip(served, plan.unserved, strict=True)] == [
        want.count for want in plan.wants
    ]
    assert plan.used <= gpus


def make_wants(rng: random.Random, model: Model) -> list[Want]:
    """One to four kinds of wants, seven workloads at most, a few of them larger than a GPU."""
    wants = []
    left = rng.randint(1, 7)
    while left > 0 and len(wants) < 4:
        count = rng.randint(1, left)
        left -= count
        if rng.random() < 0.4:
            size = rng.choice(list(model.sizes.values()))
            wants.append(Want(size.name, count, size.name))
        else:
            memory = int(
                model.get_memory_bytes(WHOLE) * rng.choice([0, 0.05, 0.1, 0.2, 0.3, 0.6, 1.1])
            )
            share = rng.choice([0, 0.05, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0])
            media = rng.random() < 0.1
            wants.append(Want(f"w{len(wants)}", count, None, memory, share, media))
    return wants


def compare(seed: int) -> None:
    rng = random.Random(seed)
    model = rng.choice(list_models())
    wants = make_wants(rng, model)
    # Three GPUs only where few workloads keep the search short.
    gpus = rng.choice([1, 1, 2, 3 if sum(want.count for want in wants) < 5 else 2])
    plan = plan_gpus([(model, gpus)], wants)
    check_plan(plan, gpus)
    truth = search(model, gpus, wants)
    assert get_cost(plan) == pytest.approx(truth, abs=1e-6), (model.name, gpus, wants)


@pytest.mark.parametrize("seed", range(60))
def test_plans_are_the_best_there_are(seed: int) -> None:
    compare(seed)


@pytest.mark.campaign
def test_a_thousand_plans_are_the_best_there_are() -> None:
    for seed in range(1000, 2000):
        compare(seed)


def test_a_mix_of_needs_on_h100() -> None:
    wants = [parse_want("1g.10gb:3"), parse_want("memory=9GB,sm=22%,count=2,name=chat")]
    plan = plan_gpus([(H100, 8)], wants)
    (gpu,) = plan.gpus
    assert [(i.key, i.start, i.want) for i in gpu.instances] == [
        ("1g", 0, 0), ("1g", 1, 0), ("2g", 2, 1), ("2g", 4, 1), ("1g", 6, 0)
    ]  # fmt: skip
    assert gpu.measure_waste() == (0, 1, 132 - 3 * 16 - 2 * 32)


def test_what_no_instance_has_gets_a_whole_gpu() -> None:
    # A100's 7g has 98 of 108 SMs.
    plan = plan_gpus([(find_model("A100-40GB"), 2)], [parse_want("sm=100%,count=3,name=train")])
    (gpu,) = plan.gpus
    assert (gpu.count, gpu.instances, gpu.whole_for) == (2, (), 0)
    assert plan.unserved == (1,)


def test_one_name_is_another_profile_on_another_gpu() -> None:
    want = [parse_want("1g.35gb:7")]
    h200, gb300 = find_model("2335"), find_model("31C2")
    assert plan_gpus([(h200, 1)], want).unserved == (3,)
    assert plan_gpus([(gb300, 1)], want).unserved == (0,)
    assert list_fitting(want[0], find_model("A30")) == []


def test_models_are_mixed() -> None:
    fleet = [(find_model("A30"), 1), (H100, 1)]
    plan = plan_gpus(fleet, [parse_want("1g.6gb:2"), parse_want("memory=60GB,name=train")])
    check_plan(plan, 2)
    assert [(gpu.model.name, len(gpu.instances)) for gpu in plan.gpus] == [
        ("A30", 2), ("H100-80GB", 1)
    ]  # fmt: skip
    assert sum(plan.unserved) == 0


def test_a_thousand_gpus_are_planned_with_all_in_place() -> None:
    wants = [
        parse_want("1g.10gb:2000"),
        parse_want("memory=9GB,sm=22%,count=1500,name=chat"),
        parse_want("memory=60GB,count=123,name=train"),
        parse_want("3g.40gb:333"),
    ]
    plan = plan_gpus([(H100, 1000)], wants)
    check_plan(plan, 1000)
    assert sum(plan.unserved) == 0
    # Slices alone need (2000 + 2 x 1500 + 7 x 123 + 3 x 333) / 7 = 980 GPUs: none is wasted.
    assert plan.used == 980


def test_who_comes_first_is_served_first() -> None:
    plan = plan_gpus([(H100, 1)], [parse_want("4g.40gb"), parse_want("7g.80gb")])
    assert plan.unserved == (0, 1)


def test_alternatives_cut_all_gpus_alike() -> None:
    wants = [parse_want("1g.10gb:7"), parse_want("3g.40gb:2")]
    plan = plan_gpus([(H100, 4)], wants)
    others = list_alternatives(H100, 4, wants)
    assert len(others) == 3
    for one in others:
        check_plan(one.plan, 4)
        cuts = {tuple(item.key for item in gpu.instances) for gpu in one.plan.gpus}
        for cut in cuts:
            assert all(cut.count(key) <= dict(one.mix).get(key, 0) for key in cut)
        assert get_cost(one.plan) >= get_cost(plan)
    costs = [(sum(o.plan.unserved), o.plan.used, o.plan.excess) for o in others]
    assert costs == sorted(costs)


@pytest.mark.parametrize(
    "text",
    ["", "1g", "1g.10gb:", "1g.10gb:0", "1g.10gb:x", "9g.10gb", "1g.11gb", "memory=", "sm=0%",
     "sm=101%", "memory=lots", "memory=1GB,memory=2GB", "speed=3", "count=99999999,sm=1%"],
)  # fmt: skip
def test_wants_that_are_not_understood(text: str) -> None:
    with pytest.raises(RequestError):
        parse_want(text)


def test_wants_as_typed() -> None:
    assert parse_want("2g.20gb:4") == Want("2g.20gb", 4, "2g.20gb")
    assert parse_want("memory=9GB,sm=22%,count=3") == Want(
        "9 GB, 22% of the SMs", 3, None, 9 * 10**9, 0.22
    )
    assert parse_want("media=yes,name=video").needs_media


def test_media_engines_are_in_one_instance() -> None:
    plan = plan_gpus([(H100, 1)], [parse_want("media=yes,count=2,name=video")])
    assert plan.unserved == (1,)
    assert [one.key for one in plan.gpus[0].instances] == ["1g+me"]
