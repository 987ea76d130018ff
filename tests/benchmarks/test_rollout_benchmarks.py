"""The rollout benchmarks run, and the simulation follows the laws that queues have."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def simulation():
    """The module `simulate_scale`."""
    spec = importlib.util.spec_from_file_location(
        "benchmark_simulate_scale", BENCHMARKS / "simulate_scale.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses look for their module there.
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


COSTS = {
    "nodes": 2,
    "cores": 4,
    "steps": 5.0,
    "browser": 0.02,
    "page": 0.5,
    "put": 0.05,
    "puts_per_second": 1000.0,
    "replicas": 1,
    "slots": 10_000,
    "reply": 0.5,
    "driver": 0.001,
}


def run(simulation, episodes, *, seed=0, warm_up=60.0, seconds=300.0, **changes):
    costs = simulation.Costs(**{**COSTS, **changes})
    simulated = simulation.Simulation(costs, episodes, seed=seed)
    simulated.run(warm_up, seconds)
    return simulated, costs, simulated.utilizations(seconds)


def test_a_queue_waits_as_long_as_theory_says(simulation):
    """M/D/1 at half load: the mean wait is half a service time (Pollaczek and Khinchine)."""
    clock = simulation.Clock()
    part = simulation.Part(clock, 1)
    source = random.Random(0)

    def arrive():
        part.serve(1.0, lambda: None)
        clock.after(source.expovariate(0.5), arrive)

    arrive()
    clock.run_until(200_000.0)
    assert part.wait_seconds / part.served == pytest.approx(0.5, rel=0.05)
    assert part.utilization(200_000.0) == pytest.approx(0.5, rel=0.02)


def test_no_more_are_served_at_once_than_there_are_servers(simulation):
    clock = simulation.Clock()
    part = simulation.Part(clock, 2)
    ends = []
    for _ in range(5):
        part.serve(1.0, lambda: ends.append(clock.now))
    clock.run_until(10.0)
    assert ends == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert part.busy_seconds == 5.0


def test_episodes_that_wait_for_nobody_take_their_own_time(simulation):
    simulated, costs, parts = run(simulation, 40)
    assert simulated.steps / 300 == pytest.approx(
        40 / (costs.seconds_alone / costs.steps), rel=0.03
    )
    assert parts["model"][1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("driver", {"driver": 0.5}),
        ("browsers", {"browser": 1.0}),
        ("puts under way", {"put": 8.0}),
        ("bucket", {"puts_per_second": 5.0}),
        ("model", {"slots": 4}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_part_that_has_too_little_is_the_one_that_saturates(simulation, part, changes):
    simulated, costs, parts = run(simulation, 100, **changes)
    full = [name for name, (used, _) in parts.items() if used >= simulation.SATURATED]
    assert full == [part]
    servers, seconds = costs.parts[part]
    if part not in ("bucket", "puts under way"):  # Nobody waits for puts but rows.
        assert simulated.ended / 300 == pytest.approx(servers / seconds, rel=0.15)


def test_a_simulation_follows_from_its_seed(simulation):
    one, _, parts = run(simulation, 50, seed=3)
    again, _, same = run(simulation, 50, seed=3)
    other, _, _ = run(simulation, 50, seed=4)
    assert (one.steps, parts) == (again.steps, same)
    assert one.steps != other.steps


@pytest.mark.slow
async def test_the_driver_is_measured_by_what_it_really_holds(simulation):
    memory = simulation.driver_memory(2000, 500)
    assert min(memory.plan, memory.scheduler, memory.out, memory.results) > 0
    twice = simulation.driver_memory(4000, 500)
    assert twice.plan == pytest.approx(2 * memory.plan, rel=0.3)
    assert 0 < await simulation.driver_seconds(800, rpc=0.0) < 0.05


def run_benchmark(name, tmp_path, *arguments):
    """Runs a benchmark as its users do, and returns its figures."""
    told = tmp_path / "figures.json"
    subprocess.run(
        [sys.executable, BENCHMARKS / name, *arguments, "--json", told],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
    )
    return json.loads(told.read_text())


@pytest.mark.slow
def test_simulate_scale_runs(tmp_path):
    figures = run_benchmark(
        "simulate_scale.py",
        tmp_path,
        *("--browser-cpu=0.03", "--nodes=4", "--episodes", "40", "400"),
        *("--replicas=1", "--slots=100", "--rows=1000", "--driver-rows=800"),
        *("--warm-up=30", "--seconds=30"),
    )
    few, many = figures["lines"]
    assert few["parts"]["model"][0] < 0.95 <= many["parts"]["model"][0]
    assert figures["memory"]["plan"] > 0


@pytest.mark.browser
@pytest.mark.slow
def test_rollouts_runs(tmp_path):
    figures = run_benchmark(
        "rollouts.py",
        tmp_path,
        *("--parallel", "2", "--episodes", "4", "--repeats", "1"),
        *("--engine-episodes", "50", "--no-peer"),
    )
    bare, rollout = figures["bare x2"], figures["rollout x2"]
    assert bare["solved"] == rollout["solved"] == 4
    assert bare["steps"] == rollout["steps"] >= 4
    assert bare["bytes"] == 0 < rollout["bytes"]
    assert figures["share x2"]["wall"] > 0
    assert figures["runner"]["bytes"] == 0 < figures["runner and record"]["bytes"]
