"""Sweeps on one machine; `examples/ray_sweep.py` shows them on a cluster."""

import pytest

import hearth

TRACES = [f"gen:zipf,requests=5000,blocks=1000,seed={seed}" for seed in range(6)]


def test_a_sweep_answers_what_simulate_does():
    wanted = hearth.simulate(TRACES, ["lru", "arc"], ["5%", "20%"])
    parts = []
    assert hearth.sweep(TRACES, ["lru", "arc"], ["5%", "20%"], workers=3, each=parts.append) == wanted
    assert sorted(part.trace for part in parts) == TRACES
    assert all(part.node for part in parts)


def test_the_first_error_ends_a_sweep(tmp_path):
    endless = "gen:zipf,requests=2000000000,blocks=100000"
    with pytest.raises(FileNotFoundError, match="gone"):
        hearth.sweep([endless, str(tmp_path / "gone")], "lru", "100blk", workers=2)


def test_nobody_is_no_worker():
    with pytest.raises(ValueError, match="workers=0"):
        hearth.sweep(TRACES, workers=0)
    with pytest.raises(ValueError, match="no traces"):
        hearth.sweep([])
