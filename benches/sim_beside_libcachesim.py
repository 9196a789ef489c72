#!/usr/bin/env python3
"""`hearth sim` as a whole beside libCacheSim, in turn: accesses a CPU-second.

Hearth's side is the whole process: loading the program, reading, unpacking and splitting the published trace,
the policy, all counts, printing. libCacheSim's side is its replay alone, from an unpacked oracleGeneral file of
the same block accesses, as in `beside_libcachesim.py`, whose needs this has too:

    cargo build --release -p hearth
    benches/sim_beside_libcachesim.py arc/P6.lis.zst 65536
    benches/sim_beside_libcachesim.py libcachesim/cloudPhysicsIO.vscsi.zst 27000 --policy lru,segment-clock
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

from beside_libcachesim import BAR, EXAMPLES, THEIRS, spread, theirs

HEARTH = os.path.join(os.path.dirname(__file__), "..", "target", "release", "hearth")


def folder_of_traces():
    """Where the published traces lie."""
    default = os.path.join(os.path.dirname(__file__), "..", "..", "shared", "traces")
    return os.environ.get("HEARTH_TRACES", default)


def ours(trace, blocks, policy):
    """Accesses a CPU-second in millions, and the miss ratio, of one run of the program."""
    command = [HEARTH, "sim", os.path.join(folder_of_traces(), trace), "--json"]
    command += ["--policy", policy, "--size", f"{blocks}blk"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(command, check=True, capture_output=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    run = json.loads(answer)[0]
    return run["accesses"] / cpu / 1e6, run["miss_ratio"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="below the traces' folder, such as arc/P6.lis.zst")
    parser.add_argument("blocks", type=int, help="the cache's size in blocks")
    parser.add_argument("--policy", default=",".join([*BAR, "segment-clock"]))
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blocks.oracleGeneral")
        subprocess.run([os.path.join(EXAMPLES, "blocks"), arguments.trace, path], check=True)
        for policy in arguments.policy.split(","):
            power = 0
            if policy in THEIRS:
                powers = [arguments.blocks.bit_length() + more for more in (0, 1)]
                power = max(powers, key=lambda power: theirs(path, arguments.blocks, policy, power)[0])
            mine, rival = [], []
            for _ in range(arguments.runs):
                if policy in THEIRS:
                    rival.append(theirs(path, arguments.blocks, policy, power)[0])
                mine.append(ours(arguments.trace, arguments.blocks, policy)[0])
            row = [policy, spread(mine)]
            if rival:
                times = statistics.median(mine) / statistics.median(rival)
                row += [spread(rival), f"{times:.1f}"]
            else:
                row += ["-", "-"]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
