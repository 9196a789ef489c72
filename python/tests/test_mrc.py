"""Miss-ratio curves."""

import pytest

import hearth


def test_an_exact_curve_equals_simulations(mix):
    sizes = ["1%", "5%", "20%", "80%"]
    curve = hearth.mrc(mix, exact=True, sizes=sizes)
    runs = hearth.simulate(mix, "lru", sizes)
    assert curve.sizes_blocks == [run.size_blocks for run in runs]
    assert curve.miss_ratios == pytest.approx([run.miss_ratio for run in runs], abs=1e-12)
    assert (curve.method, curve.rate, curve.accesses) == ("exact", 1.0, 25000)


def test_the_default_is_exact_and_has_points_for_a_plot(mix):
    curve = hearth.mrc(mix)
    assert curve.method == "exact"
    assert len(curve.points) > 20
    assert curve.miss_ratios == sorted(curve.miss_ratios, reverse=True)


def test_samples_come_near():
    trace = "gen:zipf,requests=400000,blocks=100000,theta=0.7"
    sizes = ["5%", "20%", "60%"]
    exact = hearth.mrc(trace, sizes=sizes)
    blocks = [f"{size}blk" for size in exact.sizes_blocks]
    for sampled in (
        hearth.mrc(trace, sample=0.1, sizes=blocks),
        hearth.mrc(trace, samples=8192, sizes=blocks),
    ):
        assert sampled.sampled_blocks < 20000
        assert sampled.miss_ratios == pytest.approx(exact.miss_ratios, abs=0.03)


def test_other_policies_are_simulated_in_miniature(mix):
    curve = hearth.mrc(mix, policy="s3-fifo", sizes=["10%", "50%"])
    runs = hearth.simulate(mix, "s3-fifo", [f"{size}blk" for size in curve.sizes_blocks])
    assert curve.method == "miniature"
    assert curve.miss_ratios == pytest.approx([run.miss_ratio for run in runs], abs=1e-12)


def test_each_volume_has_a_curve_of_its_own(mix):
    curves = hearth.mrc_by_volume(mix)
    assert [curve.accesses for curve in curves.values()] == [20000, 5000]
    assert curves[next(reversed(curves))].footprint_blocks == 600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sample": 0.0}, "above 0"),
        ({"samples": 0}, "at least one"),
        ({"sample": 0.1, "samples": 10}, "one of them"),
        ({"exact": True, "sample": 0.1}, "leave out"),
        ({"writes": "maybe"}, "allocate"),
        ({"policy": "belady"}, "hearth.simulate"),
    ],
)
def test_mistakes_are_value_errors(mix, arguments, words):
    with pytest.raises(ValueError, match=words):
        hearth.mrc(mix, **arguments)
