"""Read hits over NBD, beside raw flash and beside other servers, one client on the same machine.

All servers read the same bytes. Targets take turns, once in each repetition, so that a busy minute hurts
all of them; figures are medians with the half spread. What other processes of the machine used meanwhile
is measured, and a run that was disturbed is repeated.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import rig as bench

SIZE_MIB = 1024
FLASH_MIB = 2048
DEPTHS = (1, 32, 128)
# CPUs used by others during a run above which it is repeated, and how often.
DISTURBED_CPUS = 0.3
ATTEMPTS = 3


def make_image(path):
    """Written, not only allocated: reading a hole costs nothing."""
    if os.path.exists(path) and os.path.getsize(path) == SIZE_MIB * bench.MIB:
        return
    with open(path, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(bench.MIB))
        file.flush()
        os.fsync(file.fileno())


class Target:
    """Something to read from: its title, how to start it, and what fio is told."""

    # Reading everything twice: a page that is read once may still be dropped before one that is read again.
    def __init__(self, title, start, options, warm_passes=2):
        self.title, self.start, self.options, self.warm_passes = title, start, options, warm_passes


def targets(rig, image, flash):
    origin, socket = rig.socket("origin"), rig.socket("target")
    uri = f"--uri=nbd+unix:///disk?socket={socket}"
    nbdkit = ["nbdkit", "-f", "-e", "disk", "-t", "16"]
    serve = lambda *words: (lambda: [rig.start("target", list(words), socket)])
    remote = lambda *how: rig.start("origin", [*nbdkit, "-U", origin, *how, "file", image, *(["rdelay=1ms", "wdelay=1ms"] if how else [])], origin)
    far = "--filter=delay"
    over = ["nbd", f"socket={origin}", "export=disk"]

    def proxied(*words, how=()):
        return lambda: [remote(*how), rig.start("target", [*nbdkit, "-U", socket, *words], socket)]

    daemon = []

    def hearth(*how):
        upstream = remote(*how)
        daemon[:] = [bench.Hearth(rig, flash, FLASH_MIB * bench.MIB, f"nbd+unix:///disk?socket={origin}")]
        daemon[0].start()
        return [upstream, daemon[0].process]

    nbd = ["--ioengine=nbd", uri]
    direct = ["--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1"]
    return [
        # The flash file of the daemon's last turn: the same extents of the same file.
        Target("raw: fio io_uring, O_DIRECT, the same flash file", lambda: [], [*direct, f"--filename={flash}", f"--offset={FLASH_MIB // 8}m"]),
        Target("**hearth**", hearth, ["--ioengine=nbd", f"--uri=nbd+unix:///disk?socket={rig.socket('hearth')}"]),
        Target("qemu-nbd, O_DIRECT, io_uring, straight from the file", serve("qemu-nbd", "-k", socket, "-f", "raw", "-x", "disk", "-t", "-e", "4", "--cache=none", "--aio=io_uring", image), nbd),
        Target("nbdkit, cache filter (page cache)", proxied("--filter=cache", *over, "cache=writethrough", "cache-on-read=true"), nbd),
        Target("nbdkit, no cache filter: proxy (page cache)", proxied(*over), nbd),
        Target("origin 1 ms away: no cache, nbdkit proxy", proxied(*over, how=[far]), nbd, warm_passes=1),
        Target("origin 1 ms away: nbdkit, cache filter", proxied("--filter=cache", *over, "cache=writethrough", "cache-on-read=true", how=[far]), nbd),
        Target("origin 1 ms away: **hearth**", lambda: hearth(far), ["--ioengine=nbd", f"--uri=nbd+unix:///disk?socket={rig.socket('hearth')}"]),
        Target("nbdkit file (page cache)", serve(*nbdkit, "-U", socket, "file", image), nbd),
        Target("nbdkit memory: what protocol and client allow", serve(*nbdkit, "-U", socket, "memory", f"{SIZE_MIB}M"), nbd),
    ], daemon


def run_depth(target, depth, pids):
    """One measured run; again, up to ATTEMPTS times, if others used the machine meanwhile."""
    options = [*target.options, "--rw=randread", "--bs=4k", f"--iodepth={depth}", f"--size={SIZE_MIB}m"]
    options += ["--norandommap", "--time_based", f"--runtime={bench.SECONDS}"]
    for attempt in range(ATTEMPTS):
        # The server that the client talks to is the last one started.
        busy, servers, front = bench.busy_seconds(), bench.cpu_seconds(pids), bench.cpu_seconds(pids[-1:])
        client, began = client_seconds(), time.monotonic()
        result = bench.fio(options)
        elapsed, client = time.monotonic() - began, client_seconds() - client
        servers = bench.cpu_seconds(pids) - servers
        result["others_cpus"] = max(0.0, (bench.busy_seconds() - busy - client - servers) / elapsed)
        result["attempt"] = attempt
        if pids:
            result["cpu_us"] = (bench.cpu_seconds(pids[-1:]) - front) / result["ios"] * 1e6
        if result["others_cpus"] < DISTURBED_CPUS:
            break
    return result


def client_seconds():
    times = os.times()
    return times.children_user + times.children_system


def run_target(rig, target, daemon, repetition, out):
    processes = target.start()
    try:
        if processes:
            for _ in range(target.warm_passes):
                warm_up(target, "write" if "memory" in target.title else "read")
        pids = [process.pid for process in processes]
        hearth = daemon[0] if daemon and daemon[0].process in processes else None
        for depth in DEPTHS:
            before = hearth.counters() if hearth else None
            result = run_depth(target, depth, pids)
            if hearth:
                result["misses"] = hearth.counters()["read_block_misses"] - before["read_block_misses"]
            result.update(target=target.title, depth=depth, repetition=repetition)
            out.write(json.dumps(result) + "\n")
            out.flush()
    finally:
        for process in reversed(processes):
            rig.end(process)


def warm_up(target, how):
    command = ["fio", "--name=warm", "--thread=1", f"--rw={how}", "--bs=1m", "--iodepth=8", f"--size={SIZE_MIB}m", *target.options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=bench.DATA)


def cell(results, key, form):
    values = [result[key] for result in results if key in result]
    if not values:
        return "–"
    middle = statistics.median(values)
    return form(middle, (max(values) - min(values)) / 2 / middle * 100 if middle else 0)


def report(path, repetitions):
    with open(path, encoding="ascii") as file:
        results = [json.loads(line) for line in file]
    titles = list(dict.fromkeys(result["target"] for result in results))
    header = ["4 KiB random reads"] + [f"depth {depth}" for depth in DEPTHS] + ["p50 / p99 us at 1", "p50 / p99 us at 32", "server CPU us a read at 32"]
    rows = []
    for title in titles:
        at = {depth: [r for r in results if r["target"] == title and r["depth"] == depth] for depth in DEPTHS}
        row = [title]
        row += [cell(at[depth], "iops", lambda m, s: f"{m / 1000:.1f}k ±{s:.0f} %") for depth in DEPTHS]
        for depth in (1, 32):
            row.append(cell(at[depth], "p50_us", lambda m, _: f"{m:.0f}") + " / " + cell(at[depth], "p99_us", lambda m, _: f"{m:.0f}"))
        row.append(cell(at[32], "cpu_us", lambda m, _: f"{m:.1f}"))
        rows.append(row)
    misses = sum(result.get("misses", 0) for result in results)
    disturbed = max(result["others_cpus"] for result in results)
    return "\n\n".join(
        [
            "## Read hits over NBD",
            "`make bench`, or `benches/run hits`",
            f"{bench.machine()}. {SIZE_MIB} MiB read at random over one unix-socket connection by fio's nbd engine on the same CPUs; "
            f"medians of {repetitions} interleaved runs of {bench.SECONDS} s with half the spread. Hearth's misses during the measured runs: {misses}. "
            f"Other processes used at most {disturbed:.2f} CPUs during a run.",
            bench.table(header, rows),
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=bench.SECONDS, help="of each run")
    arguments = parser.parse_args()
    bench.SECONDS = arguments.seconds
    image, flash = os.path.join(bench.DATA, "image.raw"), os.path.join(bench.DATA, "flash.img")
    results = os.path.join(bench.DATA, "hits.jsonl")
    with bench.Rig() as rig:
        make_image(image)
        listed, daemon = targets(rig, image, flash)
        # Hearth goes first once, unmeasured, so that the raw turn has a written flash file.
        warm = listed[1].start()
        warm_up(listed[1], "read")
        for process in reversed(warm):
            rig.end(process)
        with open(results, "w", encoding="ascii") as out:
            for repetition in range(arguments.reps):
                for target in listed:
                    began = time.monotonic()
                    run_target(rig, target, daemon, repetition, out)
                    print(f"bench: {repetition + 1}/{arguments.reps} {target.title}: {time.monotonic() - began:.0f} s", flush=True)
        bench.write_section("hits", report(results, arguments.reps))


main()
