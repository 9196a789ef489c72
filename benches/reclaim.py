#!/usr/bin/env python3
"""What reclaim costs: hits and flash bytes of the daemon's log beside policies in place.

    benches/reclaim.py [--hearth target/release/hearth] [--traces ../shared/traces] [--policies ...] [--only ...] [--space]

Each trace at 1, 5, 10 and 25 % of its footprint, with everything admitted and behind the probation queue.
A row says how many of the accesses hit flash or RAM in place and in the log, the difference to CLOCK in
points and in proportion, and the bytes that the log wrote for a byte admitted: blocks, survivors, headers,
footers, journal and checkpoints, and all but the last two, which are the price of trusting rewritten blocks
after a crash and not of reclaim. The bar is 1.30 at no more than 1 % fewer hits. Prints a summary at the end.

With --space it says instead where the hits go: how many blocks the log held in the mean of those that CLOCK held, what
CLOCK in place loses with only so many, and what is left, which is reclaim's choice of blocks.
"""

import argparse
import json
import pathlib
import subprocess
import sys

TRACES = [
    ("OLTP", "arc/OLTP.lis.zst"),
    ("P2", "arc/P2.lis.zst"),
    ("P6", "arc/P6.lis.zst"),
    ("cphy", "libcachesim/cloudPhysicsIO.vscsi.zst"),
    ("web2d", "blkreplay/linux-webserver-2-dedup.csv.zst"),
    ("mysql", "blkreplay/linux-mysql.load.gz"),
    ("ajw", "disksim/ajw.1week.srt.zst"),
    ("rsrch_1", "msr/rsrch_1.csv.zst"),
    ("sprite", "lirs/sprite.trace.gz"),
    ("2_pools", "lirs/2_pools.trace.gz"),
]
SIZES = ["1%", "5%", "10%", "25%"]
IN_PLACE = ["clock", "lru"]
HITS_LOST_MAX = 0.01
AMPLIFICATION_MAX = 1.30
BLOCK = 4096
# Smaller logs have a tenth and more of their flash in headers, footers and free segments.
BLOCKS_MIN = 2048


def run(hearth, trace, policies, sizes, admission):
    command = [hearth, "sim", str(trace), "--json", "--policy", ",".join(policies), "--size", ",".join(sizes)]
    if admission != "always":
        command += ["--admission", admission]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout), None


def amplification(row):
    admitted = row["flash_fill_blocks"] + row["flash_update_blocks"]
    return row["flash_writes_blocks"] / admitted if admitted else float("nan")


def amplification_of_the_log(row):
    admitted = row["flash_fill_blocks"] + row["flash_update_blocks"]
    without = row["flash_writes_blocks"] - row["flash_journal_blocks"]
    return without / admitted if admitted else float("nan")


def points(arguments, path, admission):
    """By size: what each policy did there. All in one pass over the trace, unless a log is too small for one of them."""
    policies = IN_PLACE + arguments.policies
    found, _ = run(arguments.hearth, path, policies, SIZES, admission)
    if found is not None:
        by_place = {(row["policy"], row["size"]): row for row in found}
        return {size: {policy: by_place[policy, size] for policy in policies} for size in SIZES}
    results = {size: {} for size in SIZES}
    for size in SIZES:
        for policy in policies:
            found, error = run(arguments.hearth, path, [policy], [size], admission)
            if found is None:
                print(f"{path.name} {size} {policy}: {error}", file=sys.stderr)
                continue
            results[size][policy] = found[0]
    return results


def rows(arguments):
    for name, path in TRACES:
        if arguments.only and name not in arguments.only:
            continue
        for admission in ["always", "probation"]:
            for size, results in points(arguments, arguments.traces / path, admission).items():
                if all(policy in results for policy in IN_PLACE + arguments.policies[:1]):
                    yield name, admission, size, results


def space(arguments):
    """One line a point: the blocks held, what CLOCK loses with so few, and what the log's choice adds to that."""
    print("| trace | admission | size | blocks | CLOCK in place | log | blocks held | CLOCK with so many | reclaim's choice |")
    print("|" + "---|" * 9)
    policy = arguments.policies[0]
    for name, admission, size, results in rows(arguments):
        clock, log = results["clock"], results[policy]
        held = log["used_blocks_mean"] / clock["used_blocks_mean"]
        blocks = max(1, round(clock["size_blocks"] * held))
        path = arguments.traces / dict(TRACES)[name]
        smaller, error = run(arguments.hearth, path, ["clock"], [f"{blocks}blk"], admission)
        if smaller is None:
            print(f"{name} {size}: {error}", file=sys.stderr)
            continue
        hits, room = clock["hit_ratio"], smaller[0]["hit_ratio"]
        cells = [name, admission, size, str(clock["size_blocks"]), f"{hits:.4f}", f"{100 * (log['hit_ratio'] / hits - 1):+.1f} %"]
        cells += [f"{100 * held:.0f} %", f"{100 * (room / hits - 1):+.1f} %", f"{100 * (log['hit_ratio'] / room - 1):+.1f} %"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hearth", default="target/release/hearth")
    parser.add_argument("--traces", type=pathlib.Path, default=pathlib.Path("../shared/traces"))
    parser.add_argument("--policies", nargs="+", default=["segment-twin-clock", "segment-clock"])
    parser.add_argument("--only", nargs="+", help="traces by name")
    parser.add_argument("--space", action="store_true", help="where the hits go")
    arguments = parser.parse_args()
    if arguments.space:
        space(arguments)
        return
    heads = ["trace", "admission", "size", "blocks", "clock", "lru"]
    for policy in arguments.policies:
        heads += [policy, "points", "relative", "written", "less journal"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    seen = {policy: [] for policy in arguments.policies}
    for name, admission, size, results in rows(arguments):
        clock = results["clock"]["hit_ratio"]
        blocks = results["clock"]["size_blocks"]
        cells = [name, admission, size, str(blocks), f"{clock:.4f}", f"{results['lru']['hit_ratio']:.4f}"]
        for policy in arguments.policies:
            if policy not in results:
                cells += ["-"] * 5
                continue
            row = results[policy]
            hits, written = row["hit_ratio"], amplification(row)
            relative = hits / clock - 1 if clock else 0.0
            own = amplification_of_the_log(row)
            seen[policy].append((name, blocks, relative, hits - clock, written, own))
            cells += [f"{hits:.4f}", f"{100 * (hits - clock):+.1f}", f"{100 * relative:+.1f} %", f"{written:.2f}", f"{own:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    for policy, found in seen.items():
        for least in [0, BLOCKS_MIN]:
            some = [row for row in found if row[1] >= least]
            if not some:
                continue
            within = sum(row[2] >= -HITS_LOST_MAX for row in some)
            points = sum(row[3] >= -HITS_LOST_MAX for row in some)
            cheap = sum(row[4] <= AMPLIFICATION_MAX for row in some)
            both = sum(row[2] >= -HITS_LOST_MAX and row[4] <= AMPLIFICATION_MAX for row in some)
            own = sum(row[5] <= AMPLIFICATION_MAX for row in some)
            print(
                f"\n{policy}, logs of {least} blocks and more: {len(some)} points; hits within 1 % {within}, within a point"
                f" {points}; at most 1.30 bytes {cheap}, without the journal {own}; both {both}; mean hits {100 * sum(r[2] for r in some) / len(some):+.1f} %,"
                f" mean bytes {sum(r[4] for r in some) / len(some):.3f}, without the journal {sum(r[5] for r in some) / len(some):.3f}"
            )


if __name__ == "__main__":
    main()
