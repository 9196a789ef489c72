"""Policies over traces."""

import json
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest
from conftest import ROOT

import hearth


def test_results_are_in_order_and_have_the_programs_keys(mix):
    runs = hearth.simulate(mix, ["lru", "s3-fifo:small=0.2"], ["10%", "400KiB", "64blk"])
    assert [(run.policy, run.size) for run in runs] == [
        (policy, size) for policy in ("lru", "s3-fifo:small=0.2") for size in ("10%", "400KiB", "64blk")
    ]
    run = runs[1]
    assert run["size_blocks"] == 100
    assert run.hits + run.misses == run.accesses == 25000
    assert run.miss_ratio == pytest.approx(run.misses / run.accesses)
    assert {"trace", "flash_writes_blocks", "origin_read_bytes", "volumes"} <= set(run)
    assert [volume["vm"] for volume in run.volumes] == ["web", "db"]
    with pytest.raises(AttributeError, match="miss_ratio"):
        run.mis_ratio


def test_results_are_an_arrow_table(mix):
    runs = hearth.simulate(mix, "lru,fifo", "10%", latency=True)
    table = pyarrow.table(runs)
    assert table["miss_ratio"].to_pylist() == [run.miss_ratio for run in runs]
    assert table.schema.field("size_blocks").type == pyarrow.uint64()
    assert table.column_names == [key for key in runs[0] if key not in ("volumes", "series")]
    assert json.loads(runs.to_json())[1]["policy"] == "fifo"


def test_results_do_not_depend_on_threads_and_can_be_pickled(mix):
    sizes = ["1%", "5%", "20%"]
    one = hearth.simulate(mix, "lru,arc,segment-clock:segment=64KiB", ["3MiB", "5MiB"], threads=1, depth=4)
    many = hearth.simulate(mix, "lru,arc,segment-clock:segment=64KiB", ["3MiB", "5MiB"], threads=4, depth=4)
    assert one == many
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert copy[0].latency_cumulative == one[0].latency_cumulative
    ratios = [run.miss_ratio for run in hearth.simulate(mix, "belady", sizes)]
    assert ratios == sorted(ratios, reverse=True)


def test_series_latency_and_footprint_are_there_for_plots(mix):
    runs = hearth.simulate(mix, "lru", "10%", interval="5s", latency=True, footprint_map=True)
    series = runs[0].series
    assert (series["axis"], series["interval"]) == ("time_us", 5_000_000)
    assert sum(sample["reads"] + sample["writes"] for sample in series["samples"]) == 25000
    assert runs[0].latency_cumulative[-1][1] == 1.0
    facts = runs.traces[0]
    assert facts.footprint_map["maps"][1]["volume"].startswith("db")
    assert sum(facts.footprint_map["maps"][1]["map"]["cells"]) == 5000
    assert facts.format == "generated" or facts.recognised_by


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policies": "lruu"}, "did you mean 'lru'"),
        ({"sizes": "4096"}, "not a cache size"),
        ({"sizes": []}, "nothing to simulate"),
        ({"write_policy": "sideways"}, "write_policy="),
        ({"block": "4000"}, "power of two"),
        ({"block": 1000}, "power of two"),
        ({"interval": "often"}, "not an interval"),
        ({"speed": 0.0}, "factor"),
        ({"depth": 0}, "outstanding"),
        ({"depth": 4, "speed": 1.0}, "one of them"),
        ({"flash": "tape"}, "tape"),
        ({"policies": "daemon", "write_policy": "back", "write_miss": "bypass"}, "takes every write"),
    ],
)
def test_mistakes_are_value_errors_that_say_what_to_write(mix, arguments, words):
    with pytest.raises(ValueError, match=words):
        hearth.simulate(mix, **{"policies": "lru", "sizes": "10%", **arguments})


def test_sizes_must_say_what_they_are(mix):
    with pytest.raises(TypeError, match="4MiB"):
        hearth.simulate(mix, "lru", [0.1])


def test_the_golden_rows_of_lru(real_trace, golden):
    trace = real_trace("libcachesim/cloudPhysicsIO.vscsi.zst")
    rows = [row for row in golden if row[0] == "cphy" and row[2] == "lru"]
    assert rows
    runs = hearth.simulate(trace, "lru", [f"{row[1]}blk" for row in rows])
    for run, (_, _, _, accesses, ratio) in zip(runs, rows, strict=True):
        assert run.accesses == int(accesses)
        assert f"{run.miss_ratio:.4f}" == ratio


def test_the_program_answers_the_same(mix):
    built = [ROOT / "target" / profile / "hearth" for profile in ("release", "debug")]
    built = sorted((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime)
    program = str(built[-1]) if built else shutil.which("hearth")
    if program is None:
        pytest.skip("hearth is neither built nor on the path")
    command = [program, "sim", mix, "--policy", "lru,arc", "--size", "10%", "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(answer) == list(hearth.simulate(mix, "lru,arc", "10%"))


LONG = "gen:zipf,requests=2000000000,blocks=100000"


@pytest.mark.parametrize("policy", ["'lru'", "lambda blocks: test_policy.Lru(blocks)"])
def test_ctrl_c_ends_a_run(policy):
    begin = f"import sys; sys.path.insert(0, {str(ROOT / 'python' / 'tests')!r})"
    code = f"{begin}; import hearth, test_policy; print('begun', flush=True); "
    code += f"hearth.simulate({LONG!r}, {policy}, '100blk')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"begun\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in error


def test_other_threads_run_meanwhile_and_may_stop_it():
    stop = hearth.Stop()
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        hearth.simulate(LONG, "lru", "100blk", stop=stop)
    timer.join()
