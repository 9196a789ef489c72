"""Fleets, one and many. `ray` is tested here on a cluster of one machine, in `examples/ray_sweep.py` on two nodes."""

import pickle
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest

import hearth

SMALL = {"hosts": 12, "vms": 6, "windows": 10, "faults": "none"}
#: A rate with a day and a night of 60 s, for 200 s.
SWING = "gen:diurnal,requests=20000,blocks=3000,rate=100,period=60s,seed=3"


def test_a_run_has_its_sums_and_each_window():
    run = hearth.simulate_fleet("paper", seed=2, **SMALL)
    assert (run.rule, run.seed, run.hosts, run.windows) == ("paper", 2, 12, 10)
    assert [sample["window"] for sample in run.samples] == list(range(10))
    assert run.moves == sum(sample["done"] for sample in run.samples)
    overloaded = sum(sample["overloaded"] for sample in run.samples)
    assert run.overloaded_part == pytest.approx(overloaded / 120)
    assert run.violations == run.traces == []
    assert hearth.simulate_fleet("paper", seed=2, **SMALL) == run
    assert hearth.simulate_fleet("paper", seed=3, **SMALL) != run
    assert pickle.loads(pickle.dumps(run)) == run


def test_demand_of_a_trace_is_as_large_and_has_another_curve():
    generated = hearth.simulate_fleet("none", **SMALL)
    traced = hearth.simulate_fleet("none", demand_from=SWING, demand_window="5s", **SMALL)
    assert traced.traces[0]["trace"] == SWING
    assert traced.traces[0]["windows"] >= 35

    def load(run):
        return sum(sample["load_mean"] for sample in run.samples)

    assert load(traced) == pytest.approx(load(generated), rel=0.03)
    assert abs(traced.hits - generated.hits) > 0.01


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rule": "luck"}, "none, paper, hearth, gain"),
        ({"faults": "many"}, "none or usual"),
        ({"hosts": 1}, "from 2 to"),
        ({"demand_from": SWING}, "0 whole windows of 2h.*at most 34s"),
        ({"demand_from": SWING, "demand_window": "soon"}, "soon"),
        ({"demand_from": SWING, "demand_window": "1ms"}, "from 1s to"),
        ({"demand_from": "gen:loop,requests=100,blocks=10,rate=1", "demand_window": "1s"}, "used twice"),
    ],
)
def test_mistakes_are_value_errors_that_say_what_to_write(arguments, words):
    with pytest.raises(ValueError, match=words):
        hearth.simulate_fleet(**{**SMALL, **arguments})


def test_a_trace_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="nowhere.csv"):
        hearth.simulate_fleet(demand_from="nowhere.csv", **SMALL)


def wanted():
    return [
        hearth.simulate_fleet(rule, seed=seed, **{**SMALL, "vms": vms})
        for vms in (4, 6)
        for seed in (1, 2)
        for rule in ("none", "hearth")
    ]


SWEPT = ([1, 2], ["none", "hearth"], [{"vms": 4}, {"vms": 6}])


def test_a_sweep_answers_what_single_runs_do_and_is_a_table():
    parts = []
    runs = hearth.sweep_fleet(*SWEPT, workers=3, each=parts.append, **SMALL)
    assert list(runs) == wanted()
    assert len(parts) == 8
    assert all(part.node for part in parts)
    table = pyarrow.table(runs)
    assert table.num_rows == 8
    assert table["seed"].to_pylist() == [1, 1, 2, 2] * 2
    assert table["rule"].to_pylist() == ["none", "hearth"] * 4
    assert table["moves"].to_pylist() == [run.moves for run in runs]
    assert table["overloaded_part"].to_pylist() == [run.overloaded_part for run in runs]
    assert "8 runs" in repr(runs)


def test_a_sweep_on_ray_answers_the_same():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        parts = []
        runs = hearth.sweep_fleet(*SWEPT, ray="local", each=parts.append, **SMALL)
        assert list(runs) == wanted()
        assert all(" node " in part.node for part in parts)
        with pytest.raises(ValueError, match="from 2 to"):
            hearth.sweep_fleet(ray="local", **{**SMALL, "hosts": 1})
    finally:
        ray.shutdown()


def test_the_first_error_ends_a_sweep():
    with pytest.raises(ValueError, match="from 2 to"):
        hearth.sweep_fleet(1, "none", [{"hosts": 1}, {"hosts": 100, "windows": 2000}], workers=2)
    with pytest.raises(ValueError, match="no fleets"):
        hearth.sweep_fleet([])
    with pytest.raises(ValueError, match="workers=0"):
        hearth.sweep_fleet(workers=0)


def test_a_run_may_be_stopped():
    stop = hearth.Stop()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        hearth.simulate_fleet(hosts=100, windows=2000, stop=stop)
    timer.join()


def test_ctrl_c_ends_a_run():
    code = "import hearth; print('begun', flush=True); hearth.simulate_fleet(hosts=100, windows=2000)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in error
