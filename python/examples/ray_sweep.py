"""A sweep on a Ray cluster of two nodes, beside the same sweep on this machine alone.

The cluster is two Ray nodes on this machine, which the script starts and ends; on machines of your
own it would be `ray start --head` on one of them, `ray start --address HEAD:6379` on the others, and the same
call of `hearth.sweep` with `ray="auto"`.

    pip install './python[ray]'
    python python/examples/ray_sweep.py [TRACE...]
"""

import sys
from collections import OrderedDict

import hearth

TRACES = [f"gen:zipf,requests=200000,blocks=50000,theta={theta},seed=7" for theta in (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)]
POLICIES = ["lru", "arc", "s3-fifo", "sieve"]
SIZES = ["1%", "10%"]


class TwoTouch(hearth.Policy):
    """Written in Python: what was accessed once leaves before what was accessed again. It travels to the nodes."""

    def __init__(self, capacity):
        self.once, self.again = OrderedDict(), OrderedDict()

    def access(self, key):
        if key in self.once:
            del self.once[key]
            self.again[key] = None
            return True
        if key in self.again:
            self.again.move_to_end(key)
            return True
        if len(self.once) + len(self.again) == self.capacity:
            self.evict((self.once or self.again).popitem(last=False)[0])
        self.once[key] = None
        return False


def show(part: hearth.Part) -> None:
    runs = ", ".join(f"{run.policy} {run.miss_ratio:.4f}" for run in part.results if run.size == "10%")
    print(f"  on {part.node}: {part.trace}\n      {runs}", flush=True)


def main() -> None:
    from ray.cluster_utils import Cluster

    traces = sys.argv[1:] or TRACES
    policies = [*POLICIES, TwoTouch]
    print("on this machine alone:")
    alone = hearth.sweep(traces, policies, SIZES, each=show)

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        nodes = set()

        def note(part: hearth.Part) -> None:
            nodes.add(part.node)
            show(part)

        print(f"on a cluster of two nodes at {cluster.address}:")
        together = hearth.sweep(traces, policies, SIZES, ray=cluster.address, each=note)
    finally:
        cluster.shutdown()
    if len(nodes) != 2:
        sys.exit(f"only {len(nodes)} of two nodes took part: {', '.join(sorted(nodes))}")
    if together != alone:
        sys.exit("the cluster's results differ from those of this machine")
    print(f"{len(alone)} runs, equal to the last digit; both nodes took part")


if __name__ == "__main__":
    main()
