"""Read hits beside their bars, on a machine that is not quiet: all servers run at once and are loaded in short turns.

    benches/run bars --rounds 10

What else the machine does changes from second to second, and hurts whoever runs then. So everything is loaded in
each round, for half a second each, and what is told is the quotient to raw flash in the same round: medians with
the quartiles. Idle servers cost nothing, or next to nothing. Raw is a file like the flash, of the same bytes on the
same disk: the flash itself is locked by the daemon.
"""

import argparse
import os
import shutil
import statistics
import subprocess

import rig as bench

SIZE_MIB = 512
FLASH_MIB = 1024
SLICE = "500ms"
LOADS = (
    ("4 KiB, depth 1", ["--rw=randread", "--bs=4k", "--norandommap", "--iodepth=1"]),
    ("4 KiB, depth 32", ["--rw=randread", "--bs=4k", "--norandommap", "--iodepth=32"]),
    ("4 KiB, depth 128", ["--rw=randread", "--bs=4k", "--norandommap", "--iodepth=128"]),
    ("1 MiB in order, depth 8", ["--rw=read", "--bs=1m", "--iodepth=8"]),
)
RAW = "raw: a file, O_DIRECT"


def turn(address, pid, options):
    before = bench.cpu_seconds([pid]) if pid else 0
    job = bench.hearth_bench(address, SIZE_MIB, [*options, "--time_based", f"--runtime={SLICE}"])
    read = job["read"]
    cpu = (bench.cpu_seconds([pid]) - before) / read["total_ios"] * 1e6 if pid else None
    return {"iops": read["iops"], "p50": read["lat_ns"]["percentile"]["50.000000"] / 1000, "cpu": cpu}


def start(rig, image):
    """What is loaded: title, address, pid."""
    sockets = {name: rig.socket(name) for name in ("origin", "qsd", "qemu", "file", "memory")}
    nbdkit = ["nbdkit", "-f", "-e", "disk", "-t", "16"]
    rig.start("origin", [*nbdkit, "-U", sockets["origin"], "file", image], sockets["origin"])
    upstream = f"nbd+unix:///disk?socket={sockets['origin']}"
    daemon = bench.Hearth(rig, os.path.join(bench.DATA, "bars.flash"), FLASH_MIB * bench.MIB, upstream, vhost_user=True)
    daemon.start()
    raw = os.path.join(bench.DATA, "bars.raw")
    shutil.copyfile(image, raw)
    subprocess.run(["sync", raw], check=True)
    targets = [
        (RAW, raw, None),
        ("**hearth, vhost-user**", f"vhost-user:{daemon.vhost}", daemon.process.pid),
        ("**hearth, NBD**", daemon.uri(), daemon.process.pid),
    ]
    storage = ["qemu-storage-daemon", "--blockdev", f"driver=file,node-name=f,filename={image},cache.direct=on,aio=io_uring"]
    storage += ["--blockdev", "driver=raw,node-name=d,file=f", "--export", f"type=vhost-user-blk,id=e,node-name=d,addr.type=unix,addr.path={sockets['qsd']}"]
    others = [
        ("qemu-storage-daemon, vhost-user, O_DIRECT", storage, "qsd", f"vhost-user:{sockets['qsd']}"),
        ("qemu-nbd, O_DIRECT", ["qemu-nbd", "-k", sockets["qemu"], "-r", "-f", "raw", "-x", "disk", "-t", "-e", "8", "--cache=none", "--aio=io_uring", image], "qemu", None),
        ("nbdkit file (page cache)", [*nbdkit, "-r", "-U", sockets["file"], "file", image], "file", None),
        ("nbdkit memory", [*nbdkit, "-U", sockets["memory"], "memory", f"{SIZE_MIB}M"], "memory", None),
    ]
    for title, command, name, address in others:
        if shutil.which(command[0]):
            process = rig.start(name, command, sockets[name])
            targets.append((title, address or f"nbd+unix:///disk?socket={sockets[name]}", process.pid))
        else:
            print(f"bench: left out: {title}: {command[0]} is not installed", flush=True)
    for _ in range(2):
        bench.hearth_bench(daemon.uri(), SIZE_MIB, ["--rw=read", "--bs=1m", "--iodepth=8"])
    return daemon, targets


def middle(values, form):
    low, median, high = (statistics.quantiles(values, n=4, method="inclusive")[n] for n in (0, 1, 2))
    return f"{form % median} ({form % low}–{form % high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    image = os.path.join(bench.DATA, "bars.image")
    with bench.Rig() as rig:
        with open(image, "wb") as file:
            for _ in range(SIZE_MIB):
                file.write(os.urandom(bench.MIB))
        daemon, targets = start(rig, image)
        missed, busy = daemon.counters()["read_block_misses"], []
        results = {(title, name): [] for title, _, _ in targets for name, _ in LOADS}
        for number in range(arguments.rounds):
            for name, options in LOADS:
                # Who goes first changes, so that going behind somebody is nobody's advantage.
                for title, address, pid in targets[number % len(targets) :] + targets[: number % len(targets)]:
                    results[title, name].append(turn(address, pid, [*options, f"--randseed={number}"]))
            with open("/proc/loadavg", encoding="ascii") as file:
                busy.append(float(file.read().split()[0]))
        missed = daemon.counters()["read_block_misses"] - missed
    parts = [
        "# Read hits beside their bars",
        "`benches/run bars`",
        f"{bench.machine()}; {bench.versions()}. {SIZE_MIB} MiB, loaded by `hearth bench`, one job, on the same CPUs; all servers at once, {SLICE} each in turn, "
        f"{arguments.rounds} rounds. Quotients are those to raw flash in the same round, medians with the quartiles. Hearth's misses: {missed}. "
        f"Load of the machine during the rounds {min(busy):.0f} to {max(busy):.0f}; everything here ran at a nice of {os.nice(0)}.",
    ]
    for name, _ in LOADS:
        rows = []
        for title, _, pid in targets:
            own, raw = results[title, name], results[RAW, name]
            row = [title, middle([one["iops"] for one in own], "%.0f")]
            row.append("1" if title == RAW else middle([one["iops"] / flash["iops"] for one, flash in zip(own, raw)], "%.2f"))
            row.append(middle([one["p50"] for one in own], "%.0f"))
            row.append("–" if title == RAW else middle([one["p50"] - flash["p50"] for one, flash in zip(own, raw)], "%+.0f"))
            row.append(middle([one["cpu"] for one in own], "%.1f") if pid else "–")
            rows.append(row)
        parts.append(bench.table([name, "requests a second", "to raw", "p50 us", "more than raw's", "server's CPU us each"], rows))
    bench.write_result("bars", "\n\n".join(parts))


main()
