"""Policies written in Python."""

from collections import OrderedDict

import pytest

import hearth

LOOP = "gen:loop,requests=1000,blocks=50"


class Lru(hearth.Policy):
    name = "my-lru"

    def __init__(self, capacity):
        self.blocks = OrderedDict()

    def access(self, key):
        if key in self.blocks:
            self.blocks.move_to_end(key)
            return True
        if len(self.blocks) == self.capacity:
            self.evict(self.blocks.popitem(last=False)[0])
        self.blocks[key] = None
        return False

    def remove(self, key):
        del self.blocks[key]


class Fifo(Lru):
    name = None

    def access(self, key):
        return key in self.blocks or super().access(key)


@pytest.mark.parametrize("write_policy", ["through", "around", "back"])
def test_it_counts_as_the_built_in_one_does(mix, write_policy):
    runs = hearth.simulate(
        mix + "+uniform,requests=1000,blocks=4000,discards=0.5,rate=50,vm=web",
        ["lru", Lru, "fifo", Fifo],
        ["2%", "10%"],
        write_policy=write_policy,
        latency=True,
    )
    theirs, ours = {}, {}
    for run in runs:
        side = ours if run.policy in ("my-lru", "Fifo") else theirs
        policy = {"my-lru": "lru", "Fifo": "fifo"}.get(run.policy, run.policy)
        side[policy, run.size] = {key: value for key, value in run.items() if key != "policy"}
    assert len(ours) == 4
    assert ours == theirs


def test_a_function_may_make_one():
    def half(capacity):
        policy = Lru(capacity)
        policy.capacity = capacity // 2
        return policy

    runs = hearth.simulate(LOOP, [half, Lru], "50blk")
    assert [(run.policy, run.misses) for run in runs] == [("half", 1000), ("my-lru", 50)]


class Hoarder(Lru):
    def access(self, key):
        hit = key in self.blocks
        self.blocks[key] = None
        return hit


class Boaster(Lru):
    def access(self, key):
        super().access(key)
        return True


class Denier(Lru):
    def access(self, key):
        super().access(key)
        return False


class Forger(Lru):
    def access(self, key):
        self.evict(12345)
        return super().access(key)


class Suicide(Lru):
    def access(self, key):
        self.evict(key)
        return super().access(key)


class Mute(Lru):
    def access(self, key):
        return None


@pytest.mark.parametrize(
    ("liar", "words"),
    [
        (Hoarder, "capacity 10, access 11: the cache holds 11 blocks"),
        (Boaster, r"access 1: access\(0\) said hit, but"),
        (Denier, r"access 51: access\(0\) said miss, but"),
        (Forger, r"evict\(12345\), but that block is not in the cache"),
        (Suicide, "being accessed"),
        (Mute, "returned None"),
    ],
)
def test_a_lie_is_an_error_with_the_access(liar, words):
    size = "100blk" if liar is Denier else "10blk"
    liar.name = liar.__name__
    with pytest.raises(hearth.PolicyError, match=f"{liar.__name__}.*{words}"):
        hearth.simulate(LOOP, ["lru", liar], size)


def test_an_exception_in_it_comes_out(mix):
    class Broken(hearth.Policy):
        def access(self, key):
            return self.blocks[key]

    with pytest.raises(AttributeError, match="blocks"):
        hearth.simulate(mix, Broken, "10%")
    with pytest.raises(NotImplementedError, match="access"):
        hearth.simulate(mix, hearth.Policy, "10%")


def test_what_is_no_policy_is_refused(mix):
    with pytest.raises(TypeError, match="subclass of hearth.Policy"):
        hearth.simulate(mix, [42], "10%")
    with pytest.raises(TypeError, match="no hearth.Policy"):
        hearth.simulate(mix, lambda capacity: {}, "10%")


def test_remove_is_asked_for_where_it_is_needed(mix):
    class NoRemove(hearth.Policy):
        def access(self, key):
            self.blocks = getattr(self, "blocks", set())
            if key in self.blocks:
                return True
            if len(self.blocks) == self.capacity:
                self.evict(self.blocks.pop())
            self.blocks.add(key)
            return False

    assert hearth.simulate(mix, NoRemove, "10%")[0].hits > 0
    with pytest.raises(NotImplementedError, match="remove"):
        hearth.simulate(mix, NoRemove, "10%", write_policy="around")
