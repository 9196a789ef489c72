#!/usr/bin/env python3
"""Hearth's policies and libCacheSim's in turn: accesses a CPU-second, trace reading included.

Needs the Python package libcachesim (0.3.5 is what the book's figures are from) and the examples:

    pip install libcachesim==0.3.5
    cargo build --release -p yardstick --examples
    benches/beside_libcachesim.py libcachesim/cloudPhysicsIO.vscsi.zst 27000
    benches/beside_libcachesim.py arc/P6.lis.zst 65536 --policy lru,arc --runs 7

libCacheSim reads the same block accesses from an oracleGeneral file, unpacked and in the page cache;
Hearth reads the trace as it was published, unpacks it and splits requests into blocks. libCacheSim's hash
table gets the size at which it is fastest here: the two powers of two above the cache's blocks are tried
once, the better one is measured. Building its cache (zeroing that table) is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "target", "release", "examples")
THEIRS = {
    "lru": "LRU",
    "fifo": "FIFO",
    "clock": "Clock",
    "sieve": "Sieve",
    "arc": "ARC",
    "lirs": "LIRS",
    "s3-fifo": "S3FIFO",
    "w-tinylfu": "WTinyLFU",
    "clock2q+": "Clock2QPlus",
    "2q": "TwoQ",
    "slru": "SLRU",
    "belady": "Belady",
}
BAR = ["lru", "fifo", "clock", "sieve", "arc", "lirs", "s3-fifo", "w-tinylfu"]


def ours(trace, blocks, policy):
    """Accesses a CPU-second in millions, and the miss ratio, of one run of Hearth's policy."""
    command = [os.path.join(EXAMPLES, "speed"), trace, str(blocks), policy]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1]
    _, miss_ratio, read_ns, run_ns = line.split("\t")
    return 1e3 / (float(read_ns) + float(run_ns)), 1e3 / float(run_ns), float(miss_ratio)


def theirs(path, blocks, policy, hashpower):
    """The same of one run of libCacheSim's, in this process."""
    import libcachesim

    reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    accesses = reader.n_total_req
    cache = getattr(libcachesim, THEIRS[policy])(cache_size=blocks, hashpower=hashpower)
    before = time.process_time()
    miss_ratio, _ = cache.process_trace(reader)
    return accesses / (time.process_time() - before) / 1e6, miss_ratio


def spread(values):
    """Median, and least and most in brackets."""
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="below the traces' folder, such as arc/P6.lis.zst")
    parser.add_argument("blocks", type=int, help="the cache's size in blocks")
    parser.add_argument("--policy", default=",".join(BAR), help="of " + ", ".join(THEIRS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blocks.oracleGeneral")
        subprocess.run([os.path.join(EXAMPLES, "blocks"), arguments.trace, path], check=True)
        for policy in arguments.policy.split(","):
            powers = [arguments.blocks.bit_length() + more for more in (0, 1)]
            power = max(powers, key=lambda power: theirs(path, arguments.blocks, policy, power)[0])
            whole, alone, rival = [], [], []
            for _ in range(arguments.runs):
                rate, miss_ratio_theirs = theirs(path, arguments.blocks, policy, power)
                rival.append(rate)
                rate, rate_alone, miss_ratio = ours(arguments.trace, arguments.blocks, policy)
                whole.append(rate)
                alone.append(rate_alone)
            times = statistics.median(whole) / statistics.median(rival)
            rows.append(
                {
                    "policy": policy,
                    "miss_ratio": miss_ratio,
                    "miss_ratio_libcachesim": round(miss_ratio_theirs, 4),
                    "hearth_maccesses_per_cpu_s": whole,
                    "hearth_policy_alone_maccesses_per_cpu_s": alone,
                    "libcachesim_maccesses_per_cpu_s": rival,
                    "libcachesim_hashpower": power,
                    "times": round(times, 2),
                }
            )
            if not arguments.json:
                print(
                    f"| {policy} | {spread(whole)} | {spread(alone)} | {spread(rival)} | {times:.1f} |",
                    flush=True,
                )
    if arguments.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
