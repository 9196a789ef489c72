#!/usr/bin/env python3
"""Rows of the papers beside ours, by `hearth sim`: see book/src/reproduction.md.

    cargo build --release -p hearth
    benches/reproduce.py reuses                           # N = 0, 1, 2
    benches/reproduce.py staging                          # address, data, hybrid
    benches/reproduce.py allocation A.csv B.csv           # RWSS, WSS, HEC, LARC, none: a VM each
    benches/reproduce.py sharing src2_1.csv src2_2.csv    # T-CLOCK beside S-CAVE
    benches/reproduce.py peers                            # bcache's and dm-cache's traces
    benches/reproduce.py better                           # our default beside the rivals, everywhere

Without traces each row takes those that the tests use ($HEARTH_TRACES), which are other workloads than the papers';
whoever has the papers' traces names them. The figures are counts: the same on every machine.
"""

import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import tempfile

import tradeoff

HERE = os.path.dirname(os.path.abspath(__file__))
HEARTH = os.path.join(HERE, "..", "target", "release", "hearth")
GUESTS = os.path.join(HERE, "..", "fixtures", "guests", "debian-12-five.csv.zst")

# With times, so that demand has windows.
TIMED = {
    "cphy": "libcachesim/cloudPhysicsIO.vscsi.zst",
    "web2d": "blkreplay/linux-webserver-2-dedup.csv.zst",
    "mysql": "blkreplay/linux-mysql.load.gz",
    "ajw": "disksim/ajw.1week.srt.zst",
    "rsrch_1": "msr/rsrch_1.csv.zst",
}
UNTIMED = {"OLTP": "arc/OLTP.lis.zst", "P6": "arc/P6.lis.zst", "P2": "arc/P2.lis.zst"}


def published(path):
    default = os.path.join(HERE, "..", "..", "shared", "traces")
    return os.path.join(os.environ.get("HEARTH_TRACES", default), path)


class Sim:
    """Runs the program; remembers each command, so that a table says how it was made."""

    def __init__(self, program):
        self.program = program
        self.commands = []
        self.folder = tempfile.TemporaryDirectory()

    def __call__(self, traces, **options):
        words = [self.program, "sim", *traces, "--json"]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        done = subprocess.run(words, capture_output=True, check=False)
        # The daemon's log has segments of 64 KiB and more: so small a cache it cannot have. Other runs have their results.
        too_small = b"log cannot be had" in done.stderr
        if done.returncode != 0 and not too_small:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr.decode()}")
        self.commands.append(["hearth", *words[1:]])
        return json.loads(done.stdout) if done.stdout else []

    def as_one_format(self, traces):
        """The same traces in one format, as machines of one host must be."""
        if len(traces) < 2:
            return traces
        converted = []
        for trace in traces:
            path = os.path.join(self.folder.name, os.path.basename(trace).split(".")[0] + ".csv")
            if not os.path.exists(path):
                command = [self.program, "trace", "convert", trace, "--output", path]
                subprocess.run(command, check=True, capture_output=True)
                self.commands.append(["hearth", *command[1:]])
            converted.append(path)
        return converted


def method(run):
    name = run["policy"] if run["admission"] == "always" else f"{run['admission']} + {run['policy']}"
    return name if run["allocation"] == "none" else f"{name}, {run['allocation']}"


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
    print()


def change(new, old):
    return f"{(new / old - 1) * 100:+.0f} %" if old else "-"


def named(arguments, names):
    if arguments.traces:
        return {os.path.basename(path): path for path in arguments.traces}
    return {name: published(path) for name, path in names.items()}


def reuses(sim, arguments):
    """CloudCache, figure 2: what waiting for N reuses costs and saves, in a cache that has room for all."""
    print("Paper (median of 36 MSR traces): N 0 -> 1 costs 8 % of the hit ratio and saves 82 % of the cache and 19 % of "
          "the flash writes.\n")
    rows, changes = [], []
    for name, path in named(arguments, {**TIMED, **UNTIMED}).items():
        admission = ",".join(f"staging:kind=address,n={n}" for n in range(3))
        runs = sim([path], policy="lru", size="100%", staging="100%", admission=admission)
        for n, run in enumerate(runs):
            rows.append([name, n, f"{run['hit_ratio']:.4f}", run["used_blocks_peak"], f"{run['flash_writes_per_access']:.4f}"])
        none, one = runs[0], runs[1]
        changes.append([one[key] / none[key] - 1 for key in ("hit_ratio", "used_blocks_peak", "flash_writes_per_access")])
    table(["trace", "N", "hit ratio", "blocks cached, most", "flash writes / access"], rows)
    medians = [f"{statistics.median(column) * 100:+.0f} %" for column in zip(*changes)]
    table(["N 0 -> 1", "hit ratio", "cache", "flash writes"],
          [["paper, median", "-8 %", "-82 %", "-19 %"], [f"ours, median of {len(changes)}", *medians]])


def staging(sim, arguments):
    """CloudCache, figure 7: what is best kept in RAM of blocks that have not been reused yet."""
    print("Paper: hybrid is best on every trace; data gains 67 % of the read hits on one trace beside address and loses 9 % on "
          "another.\n")
    rows = []
    kinds = ("address", "data", "hybrid")
    for name, path in named(arguments, {**TIMED, **UNTIMED}).items():
        for size in arguments.size or ["5%", "20%"]:
            for part in ("0.1%", "1%"):
                admission = ",".join(f"staging:kind={kind}" for kind in kinds)
                runs = sim([path], policy="lru", size=size, staging=part, admission=admission)
                hits = [run["read_hits"] for run in runs]
                rows.append([name, size, part, *(f"{run['read_hit_ratio']:.4f}" for run in runs), change(hits[1], hits[0]),
                             change(hits[2], max(hits[:2])), *(f"{run['flash_writes_per_access']:.3f}" for run in runs)])
    table(["trace", "flash", "RAM", *(f"read hits, {kind}" for kind in kinds), "data / address", "hybrid / better",
           *(f"flash writes, {kind}" for kind in kinds)], rows)


def allocation(sim, arguments):
    """CloudCache, figures 8 to 11: VMs on one host, room for all of them or not."""
    print("Paper, RWSS beside WSS: up to 76 % less cache, up to 37 % fewer flash writes, hit ratio 4 % lower. HEC: up to 3.7x "
          "the cache, up to 29.2 % more flash writes, up to 6.4 % more hits. LARC: up to 3 % fewer hits, up to 18 % more flash "
          "writes.\n")
    traces = list(named(arguments, {name: TIMED[name] for name in ("cphy", "web2d", "mysql")}).values())
    traces = sim.as_one_format(traces)
    rows = []
    for size in arguments.size or ["10%", "40%"]:
        common = {"size": size, "together": "from-zero"}
        window = {"window": arguments.window}
        runs = [("none", run) for run in sim(traces, policy="lru", **common)]
        for admission in ("larc", "hec"):
            runs += [(admission, run) for run in sim(traces, policy="lru", admission=admission, **common)]
        runs += [("WSS", run) for run in sim(traces, policy="lru", allocation="wss", spare="idle", **window, **common)]
        runs += [("RWSS", run) for run in sim(traces, policy="lru", allocation="rwss", admission="staging", spare="idle",
                                               **window, **common)]
        wss = runs[-2][1]
        for name, run in runs:
            rows.append([size, name, f"{run['hit_ratio']:.4f}", f"{run['read_hit_ratio']:.4f}", f"{run['used_blocks_mean']:.0f}",
                         f"{run['flash_writes_per_access']:.4f}", change(run["hit_ratio"], wss["hit_ratio"]),
                         change(run["used_blocks_mean"], wss["used_blocks_mean"]),
                         change(run["flash_writes_blocks"], wss["flash_writes_blocks"])])
    table(["flash", "method", "hit ratio", "read hits", "blocks held, mean", "flash writes / access", "hits to WSS", "cache to WSS",
           "writes to WSS"], rows)


def sharing(sim, arguments):
    """The T-CLOCK poster: two VMs (or more) whose images share blocks."""
    print("Poster (src2_1 + src2_2, WebSearch2 + WebSearch3): hit ratio with T-CLOCK and rCrS 31 to 63 % above S-CAVE.\n")
    policies = ["s-cave", "shr-clock:metric=recs", "shr-ref:metric=recs", "shr-tclock:metric=none", "shr-tclock:metric=recs",
                "shr-tclock:metric=rcrs", "shr-tclock:metric=rcrs-plus"]
    rows = []
    workloads = {"given": arguments.traces} if arguments.traces else {
        "five guests of one image": [GUESTS],
        "two VMs, generated": ["gen:base-image,requests=2M,vms=2,image=512MiB,footprint=256MiB,shared=0.8,reads=0.9,theta=0.8"],
    }
    for name, traces in workloads.items():
        for size in arguments.size or ["5%", "10%", "20%", "40%"]:
            options = {"together": "from-zero"} if len(traces) > 1 else {}
            runs = sim(sim.as_one_format(traces), policy=",".join(policies), size=size, **options)
            for run in runs:
                rows.append([name, size, run["policy"], f"{run['hit_ratio']:.4f}", f"{run['read_hit_ratio']:.4f}",
                             change(run["hit_ratio"], runs[0]["hit_ratio"]), f"{run['flash_writes_per_access']:.4f}"])
    table(["workload", "flash", "method", "hit ratio", "read hits", "hits to S-CAVE", "flash writes / access"], rows)


# Of 200,000 operations the second half counts.
PEER_TRACES = {
    "A": "gen:zipf,requests=200k,footprint=512MiB,theta=0.9,reads=1,arrival=fixed",
    "B": "gen:zipf,requests=200k,footprint=512MiB,theta=0.9,reads=0.7,arrival=fixed",
    "C": "gen:zipf,requests=200k,footprint=512MiB,theta=0.9,reads=0.7,arrival=fixed,places=clustered",
    "D": "gen:zipf,requests=200k,footprint=512MiB,theta=0.9,reads=0.7,arrival=fixed,vm=vm1"
    + "".join(f"+sequential,requests=4096,footprint=512MiB,run=16MiB,reads=1,rate=1000000,arrival=fixed,start={at}s,vm=vm1"
              for at in range(20, 201, 20)),
}
# Read hit ratio and 4 KiB flash writes an operation, measured in a QEMU guest.
PEERS = {
    "A": [("bcache, through", .734, .184), ("dm-cache smq, through", .525, .000)],
    "B": [("bcache, back", .599, .545), ("bcache, through", .459, .332), ("dm-cache smq 64K, back", .520, .203),
          ("dm-cache smq 32K, back", .582, .175)],
    "C": [("bcache, back", .564, .484), ("dm-cache smq, back", .747, .284), ("dm-cache smq, through", .714, .214)],
    "D": [("bcache, back", .491, .454), ("dm-cache smq, back", .451, .125)],
}


def peers(sim, arguments):
    """bcache and dm-cache: 128 MiB of cache, 512 MiB of disk, zipf .9."""
    rows = []
    for name, trace in PEER_TRACES.items():
        rows += [[name, f"{who} (measured)", f"{hits:.3f}", f"{writes:.3f}"] for who, hits, writes in PEERS[name]]
        common = {"size": "128MiB", "warmup": "50%"}
        runs = sim([trace], policy="lru", **common)
        runs += sim([trace], policy=f"lru,{arguments.log}", admission=",".join(RIVALS + arguments.ours), **common)
        for run in runs:
            rows.append([name, method(run), f"{run['read_hit_ratio']:.3f}", f"{run['flash_writes_per_access']:.3f}"])
    table(["trace", "cache", "read hits", "flash writes / operation"], rows)


RIVALS = ["staging", "larc", "hec"]
OURS = ["reuse-age", "reuse-age:writes=data", "probation:threshold=1,writes=note"]
SIZES = ["1%", "5%", "10%", "25%", "40%"]
MIXES = {
    "cphy+web2d+mysql": ["cphy", "web2d", "mysql"],
    "cphy+rsrch_1+ajw": ["cphy", "rsrch_1", "ajw"],
    "all five": list(TIMED),
}
BYPASS = " (writes bypass)"
FILLED = " (filled first)"


def hosts():
    """Several VMs of one host, by name: those that were recorded together, and mixes of the traces."""
    return {"guests": [GUESTS], **{name: [published(TIMED[part]) for part in parts] for name, parts in MIXES.items()}}


def at_sizes(sim, arguments, name, traces, **options):
    """Runs at every size at which the daemon's log can be had."""
    sizes = arguments.size or SIZES
    if len(traces) > 1:
        options["together"] = "from-zero"

    def run(sizes):
        if arguments.reports and not options.keys() & {"allocation", "write_miss", "fill"}:
            options["report"] = os.path.join(arguments.reports, f"{name}-{sizes}.html".replace("%", "").replace(" ", "-"))
        return sim(traces, size=sizes, **options)

    return run(",".join(sizes)) or [one for size in sizes for one in run(size)]


def measure(sim, arguments, name, traces, is_host):
    """One workload: a run for each method and size, by size and method."""
    both = f"lru,{arguments.log}"
    methods = {"policy": both if is_host else f"lru,clock,{arguments.log}", "admission": ",".join(["always", *RIVALS, *arguments.ours])}
    points = {}
    for one in at_sizes(sim, arguments, name, traces, **methods):
        points.setdefault(one["size"], {})[method(one)] = one
    if is_host:
        divided = {"policy": both, "admission": ",".join(RIVALS + arguments.ours), "allocation": "utility,rwss", "window": arguments.window}
        for one in at_sizes(sim, arguments, name, traces, **divided):
            points[one["size"]][method(one)] = one
    elif any(one["writes"] for at in points.values() for one in at.values()):
        bypass = {"policy": both, "admission": ",".join(RIVALS), "write_miss": "bypass"}
        for one in at_sizes(sim, arguments, name, traces, **bypass):
            points[one["size"]][method(one) + BYPASS] = one
    # What the daemon does unless it is told otherwise.
    defaults = {"policy": arguments.log, "admission": arguments.ours[0], "fill": True}
    if is_host:
        defaults |= {"allocation": "utility", "window": arguments.window}
    for one in at_sizes(sim, arguments, name, traces, **defaults):
        points[one["size"]][method(one) + FILLED] = one
    return {(name, size): at for size, at in points.items()}


def better(sim, arguments):
    """Our defaults beside CloudCache's, LARC and HEC, on every trace and as VMs of one host."""
    if arguments.known:
        known = kept(arguments.known)
        vms = {key: at for key, at in known.items() if key[0] in hosts()}
        report_all({key: at for key, at in known.items() if key not in vms}, vms, arguments)
        return
    wanted = lambda name: not arguments.only or name in arguments.only
    single = [(name, [path], False) for name, path in named(arguments, {**TIMED, **UNTIMED}).items() if wanted(name)]
    mixed = {} if arguments.traces else {name: traces for name, traces in hosts().items() if wanted(name)}
    together = [(name, sim.as_one_format(traces), True) for name, traces in mixed.items()]
    traces, vms = ({key: at for workload in group for key, at in measure(sim, arguments, *workload).items()}
                   for group in (single, together))
    if arguments.points:
        keep(arguments.points, {**traces, **vms})
    report_all(traces, vms, arguments)


def whole(points):
    """Those at which every method could be had: a very small cache has no log."""
    methods = max((set(at) for at in points.values()), key=len, default=set())
    some = {key: at for key, at in points.items() if {which for which in methods if not which.endswith(BYPASS)} <= set(at)}
    for name, size in points.keys() - some.keys():
        print(f"Left out: {name} at {size} has no log.\n")
    return some


def report_all(traces, vms, arguments):
    traces, vms = whole(traces), whole(vms)
    if traces:
        print(f"# Traces, each alone: {len(traces)} points\n")
        report_better(traces, arguments, [""])
        report_traces(traces, arguments)
        if arguments.plot:
            plot(arguments.plot, traces, arguments)
    if vms:
        print(f"# Several VMs on one host: {len(vms)} points\n")
        report_better(vms, arguments, ["", ", utility", ", rwss"])


def keep(path, points):
    """Writes every point down."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("workload,size,method,reads,read_hits,ram_read_hits,accesses,hits,flash_writes_blocks,write_amplification\n")
        for (name, size), at in points.items():
            for which, run in at.items():
                counts = [run[key] for key in ("reads", "read_hits", "ram_read_hits", "accesses", "hits", "flash_writes_blocks")]
                file.write(f"\"{name}\",{size},\"{which}\",{','.join(map(str, counts))},{run['write_amplification']:.4f}\n")


def kept(path):
    """The points that were written down."""
    points = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            run = {key: float(text) if key == "write_amplification" else int(text) for key, text in list(row.items())[3:]}
            run["hit_ratio"] = run["hits"] / max(run["accesses"], 1)
            run["read_hit_ratio"] = run["read_hits"] / max(run["reads"], 1)
            run["flash_writes_per_access"] = run["flash_writes_blocks"] / max(run["accesses"], 1)
            points.setdefault((row["workload"], row["size"]), {})[row["method"]] = run
    return points


def mean(points, which, key):
    return statistics.mean(at[which][key] for at in points.values() if which in at)


def compared(points, mine, theirs):
    """At how many points mine has at least as many read hits, at most as many flash bytes, both, neither."""
    pairs = [(at[mine], at[theirs]) for at in points.values()]
    hits = [a["read_hits"] >= b["read_hits"] for a, b in pairs]
    bytes_ = [a["flash_writes_blocks"] <= b["flash_writes_blocks"] for a, b in pairs]
    both = sum(a and b for a, b in zip(hits, bytes_))
    neither = sum(not a and not b for a, b in zip(hits, bytes_))
    return [len(pairs), sum(hits), sum(bytes_), both, neither]


def report_better(points, arguments, divisions):
    for at in points.values():
        for run in at.values():
            run["ram_part"] = run["ram_read_hits"] / max(run["reads"], 1)
    summary(points, [which for which in next(iter(points.values())) if not which.endswith(BYPASS)])
    print("Points at which ours has at least as many read hits, at most as many flash bytes, both, neither:\n")
    rows = []
    for ours, division in itertools.product(arguments.ours, divisions):
        mine = f"{ours} + {arguments.log}{division}"
        for place, rival in itertools.product([arguments.log, "lru"], RIVALS):
            # Divided as ours is, and as CloudCache divides.
            for other in dict.fromkeys([division, divisions[-1]] if rival == "staging" else [division]):
                rows.append([mine, f"{rival} + {place}{other}", *compared(points, mine, f"{rival} + {place}{other}")])
    table(["ours", "rival", "points", "read hits", "flash bytes", "both", "neither"], rows)
    bypassed = {key: at for key, at in points.items() if any(which.endswith(BYPASS) for which in at)}
    if bypassed:
        print("Where there are writes, the rivals with writes that pass by what is not cached:\n")
        named = [f"{rival} + {place}{BYPASS}" for place in ("lru", arguments.log) for rival in RIVALS]
        summary(bypassed, [f"{ours} + {arguments.log}" for ours in arguments.ours] + named)


def summary(points, methods):
    """Means over the points."""
    rows = [[which, f"{mean(points, which, 'read_hit_ratio'):.4f}", f"{mean(points, which, 'ram_part'):.4f}",
             f"{mean(points, which, 'hit_ratio'):.4f}", f"{mean(points, which, 'flash_writes_per_access'):.4f}"] for which in methods]
    table(["method", "read hits", "of these in RAM", "hits", "flash blocks / access"], rows)


def report_traces(points, arguments):
    """Each trace by itself, and the mean without it: whether one of them makes the result."""
    admissions = ["always", *RIVALS, *arguments.ours]
    over_log = [arguments.log] + [f"{admission} + {arguments.log}" for admission in admissions[1:]]
    names = list(dict.fromkeys(name for name, _ in points))
    of = {name: {key: at for key, at in points.items() if key[0] == name} for name in names}
    print("Over the log, by trace, means of the sizes: read hits, flash blocks / access:\n")
    rows = [[name, *(f"{mean(of[name], which, 'read_hit_ratio'):.4f} {mean(of[name], which, 'flash_writes_per_access'):.4f}"
                     for which in over_log)] for name in names]
    table(["trace", *admissions], rows)
    print("Flash bytes for each byte admitted or rewritten:\n")
    rows = [[name, *(f"{mean(of[name], which, 'write_amplification'):.2f}" for which in over_log)] for name in names]
    table(["trace", *admissions], rows)
    mine = f"{arguments.ours[0]} + {arguments.log}"
    print(f"{mine}: at how many of a trace's sizes both hold against each rival over the log:\n")
    rows = [[name, len(of[name]), *(compared(of[name], mine, f"{rival} + {arguments.log}")[3] for rival in RIVALS)] for name in names]
    table(["trace", "sizes", *RIVALS], rows)
    if len(names) > 1:
        print("Means without one trace, over the log: read hits, flash blocks / access:\n")
        less = {name: {key: at for key, at in points.items() if key[0] != name} for name in names}
        rows = [[name, *(f"{mean(less[name], which, 'read_hit_ratio'):.4f} {mean(less[name], which, 'flash_writes_per_access'):.4f}"
                         for which in over_log)] for name in names]
        table(["without", *admissions], rows)


def plot(path, points, arguments):
    """Means over the traces at each size: a line for each admission over the log, and the rivals in place."""
    lines = {}
    for admission in ["always", *RIVALS, *arguments.ours]:
        for place in [arguments.log] + (["lru"] if admission in RIVALS else []):
            which = place if admission == "always" else f"{admission} + {place}"
            name = f"{admission}, {'log' if place == arguments.log else 'in place'}"
            at = {size: {key: one for key, one in points.items() if key[1] == size} for size in arguments.size or SIZES}
            lines[name] = [(mean(here, which, "flash_writes_per_access"), mean(here, which, "read_hit_ratio"))
                           for here in at.values() if here]
    with open(path, "w", encoding="utf-8") as file:
        file.write(tradeoff.svg(lines, "flash blocks written an access", "read hits"))


ROWS = {row.__name__: row for row in (reuses, staging, allocation, sharing, peers, better)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("traces", nargs="*", help="instead of the published ones; several of a host for allocation and sharing")
    parser.add_argument("--hearth", default=HEARTH, help="the program")
    parser.add_argument("--size", type=lambda text: text.split(","), help="sizes, as hearth sim takes them")
    parser.add_argument("--window", default="5min", help="of demand, for allocation")
    parser.add_argument("--log", default="segment-twin-clock", help="which log of the daemon")
    parser.add_argument("--ours", type=lambda text: text.split(";"), default=OURS, help="our admissions, several with ;")
    parser.add_argument("--points", help="better: write every point to this csv")
    parser.add_argument("--known", help="better: report the points of this csv, and simulate nothing")
    parser.add_argument("--plot", help="better: draw the means as this SVG")
    parser.add_argument("--reports", help="better: write the simulator's report of each workload, with all its points, to this folder")
    parser.add_argument("--only", type=lambda text: text.split(","), help="better: only these workloads")
    arguments = parser.parse_intermixed_args()
    sim = Sim(arguments.hearth)
    ROWS[arguments.row](sim, arguments)
    if sim.commands:
        print("By:")
    for command in sim.commands:
        print("    " + " ".join(command))


if __name__ == "__main__":
    main()
