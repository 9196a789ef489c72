"""What the tenancy of a cache costs its read hits: one daemon, the tenancy switched off and on while it runs.

    benches/run tenancy_hits --reps 7 --seconds 2

Every block is cached before the tenancy is first switched on, so that each read is a hit. The figures that
count are the quotients on / off: each of a round, in which the states follow each other in an order that rotates, and their
median, so that what else the machine does meanwhile falls on all states alike. CPU is the daemon's, of all its threads.
"""

import argparse
import os
import statistics

import rig as bench

SIZE_MIB = 1024
STATES = {
    "off": ["--enabled", "false"],
    "on, admit always, equal shares": ["--enabled", "true", "--admission", "always", "--staging", "0B", "--allocation", "equal"],
    "on, reuse-age, utility": ["--enabled", "true", "--admission", "reuse-age", "--staging", "32MiB", "--allocation", "utility"],
}


def measure(hearth, depth, seconds):
    pids = [hearth.process.pid]
    before = bench.cpu_seconds(pids)
    read = bench.fio(
        ["--ioengine=nbd", f"--uri={hearth.uri()}", "--rw=randread", "--bs=4k", f"--iodepth={depth}", f"--size={SIZE_MIB}m"]
        + ["--norandommap", "--time_based", f"--runtime={seconds}"]
    )
    return read["iops"], (bench.cpu_seconds(pids) - before) / read["ios"] * 1e6


def quotients(points, off, which):
    """Of each round with the tenancy off in the same one: median and quartiles."""
    each = [point[which] / before[which] for point, before in zip(points, off)]
    least, median, most = statistics.quantiles(each, n=4)
    return f"{median:.3f} ({least:.3f}-{most:.3f})"


def run(hearth, options):
    rows, missed = [], hearth.counters()["origin_read_bytes"]
    for depth in (1, 32):
        results = {state: [] for state in STATES}
        for rep in range(options.reps):
            for state in bench.in_turn(STATES, rep):
                hearth.ask("cache", "set", "flash", *STATES[state])
                results[state].append(measure(hearth, depth, options.seconds))
        for state, points in results.items():
            iops, cpu = ([point[n] for point in points] for n in (0, 1))
            of_off = [quotients(points, results["off"], n) for n in (0, 1)]
            rows.append([str(depth), state, bench.spread(iops, "%.0f"), of_off[0], bench.spread(cpu, "%.2f"), of_off[1]])
    missed = hearth.counters()["origin_read_bytes"] - missed
    text = (
        "# Read hits with the tenancy off and on\n\n"
        f"`benches/run tenancy_hits --reps {options.reps} --seconds {options.seconds}` on {bench.machine()}: random reads of 4 KiB over NBD, all hits "
        f"({missed} bytes read from the origin meanwhile), one daemon, the states in turn; medians with least and most, and of the "
        "quotients within a round the median with quartiles.\n\n"
    )
    header = ["depth", "tenancy", "reads/s", "of off", "CPU us a read", "of off"]
    bench.write_result("tenancy_hits", text + bench.table(header, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    with bench.Rig() as rig:
        origin, flash = rig.socket("origin"), os.path.join(bench.DATA, "tenancy_hits.flash")
        rig.start("origin", ["nbdkit", "-f", "-U", origin, "memory", f"{SIZE_MIB}M"], origin)
        hearth = bench.Hearth(rig, flash, 3 * SIZE_MIB * bench.MIB, f"nbd+unix:///?socket={origin}")
        hearth.start()
        for _ in range(2):
            bench.fio(["--ioengine=nbd", f"--uri={hearth.uri()}", "--rw=read", "--bs=1m", "--iodepth=4", f"--size={SIZE_MIB}m"])
        run(hearth, options)


if __name__ == "__main__":
    main()
