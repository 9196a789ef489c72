"""Many disks: read hits of 1, 4, 16 and 64 disks on one and two shards beside raw flash, and what idle ones cost.

    benches/run scaling                   both tables
    benches/run scaling --only idle

Each disk is loaded over vhost-user by a `hearth bench` of its own, all at once; the requests in flight are the
same in all, shared out among the disks. Beside it, in turn: as many `hearth bench` on a file like the flash, which
itself is locked by the daemon.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import time

import rig as bench

DISKS = (1, 4, 16, 64)
SHARDS = (1, 2)
IN_FLIGHT = 128
WORKING_SET_MIB = 512
FLASH_MIB = 1024
IDLE_DISKS = 100
IDLE_SECONDS = 20


class Hearth(bench.Hearth):
    """The daemon with several caches and many disks on sparse files."""

    def __init__(self, rig, disks, shards, mib):
        self.rig, self.disk = rig, f"disk{disks - 1}"
        self.admin, self.listen = rig.socket("admin"), rig.socket("hearth")
        self.config = os.path.join(bench.DATA, "scaling.toml")
        state = os.path.join(bench.DATA, "state")
        shutil.rmtree(state, ignore_errors=True)
        os.makedirs(state)
        self.flashes = [os.path.join(bench.DATA, f"scaling{shard}.flash") for shard in range(shards)]
        self.sockets = [rig.socket(f"v{disk}") for disk in range(disks)]
        text = (
            f"[daemon]\nadmin_socket = '{self.admin}'\nstate_dir = '{state}'\nmetrics_address = 'off'\n"
            f"log = 'warn'\nlog_target = 'stderr'\n\n[nbd]\nunix_socket = '{self.listen}'\n"
        )
        for shard, flash in enumerate(self.flashes):
            size = f"{FLASH_MIB * bench.MIB}B"
            subprocess.run([bench.HEARTH, "cache", "format", flash, "--size", size, "--force"], check=True, stdout=subprocess.DEVNULL)
            text += f"\n[[cache]]\nname = 'flash{shard}'\npath = '{flash}'\n"
        for disk, path in enumerate(self.sockets):
            origin = os.path.join(bench.DATA, f"scaling{disk}.origin")
            with open(origin, "wb") as file:
                file.truncate(mib * bench.MIB)
            text += f"\n[[disk]]\nname = 'disk{disk}'\ncache = 'flash{disk % shards}'\norigin = {{ file = '{origin}' }}\n"
            text += f"[disk.vhost_user]\nsocket = '{path}'\n"
        with open(self.config, "w", encoding="ascii") as file:
            file.write(text)
        self.process = None

    def count(self, counter):
        return sum(disk["counters"][counter] for disk in self.ask("disk", "list")["disks"])


def load_all(targets, options):
    """One `hearth bench` for each target with its own options, all at once; fio's job of each."""
    command = [bench.HEARTH, "--json", "bench"]
    loads = [
        subprocess.Popen([*command, target, *own, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for target, own in targets
    ]
    jobs = []
    for load in loads:
        out, errors = load.communicate()
        if load.returncode != 0:
            raise RuntimeError(errors.strip())
        jobs.append(json.loads(out)["jobs"][0])
    return jobs


def random_reads(targets, depth, seconds):
    options = ["--rw=randread", "--bs=4k", "--norandommap", "--time_based", f"--runtime={seconds}", "--ramp_time=1", f"--iodepth={depth}"]
    reads = [job["read"] for job in load_all(targets, options)]
    return {
        "iops": sum(read["iops"] for read in reads),
        "least": min(read["iops"] for read in reads) / statistics.mean(read["iops"] for read in reads),
        "p99_us": statistics.median(read["lat_ns"]["percentile"]["99.000000"] / 1000 for read in reads),
    }


def make_raw():
    """Written, not only allocated: reading a hole costs nothing."""
    path = os.path.join(bench.DATA, "scaling.raw")
    with open(path, "wb") as file:
        for _ in range(WORKING_SET_MIB):
            file.write(os.urandom(bench.MIB))
        file.flush()
        os.fsync(file.fileno())
    return path


def measure(rig, disks, shards, path, arguments):
    mib = WORKING_SET_MIB // disks
    hearth = Hearth(rig, disks, shards, mib)
    hearth.start()
    ours = [(f"vhost-user:{path}", [f"--randseed={disk}"]) for disk, path in enumerate(hearth.sockets)]
    # Twice: a page that is read once may still be dropped before one that is read again.
    for _ in range(2):
        load_all(ours, ["--rw=read", "--bs=1m", "--iodepth=2"])
    before, results = hearth.count("read_block_misses"), []
    raw = [(path, [f"--randseed={disk}", f"--offset={disk * mib}m", f"--size={mib}m"]) for disk in range(disks)]
    depth = IN_FLIGHT // disks
    for _ in range(arguments.reps):
        requests, cpu = hearth.count("read_requests"), bench.cpu_seconds([hearth.process.pid])
        busy, began = bench.busy_seconds(), time.monotonic()
        result = random_reads(ours, depth, arguments.seconds)
        result["busy"] = (bench.busy_seconds() - busy) / (time.monotonic() - began)
        cpu = bench.cpu_seconds([hearth.process.pid]) - cpu
        result["cpu_us"] = cpu / (hearth.count("read_requests") - requests) * 1e6
        result["raw"] = random_reads(raw, depth, arguments.seconds)["iops"]
        results.append(result)
    missed = hearth.count("read_block_misses") - before
    rig.end(hearth.process)
    print(f"bench: {disks} disks, {shards} shards: {[round(r['iops'] / r['raw'], 2) for r in results]}", flush=True)
    return results, missed


def spread(results, key, form):
    values = [key(result) for result in results]
    middle = statistics.median(values)
    return f"{form(middle)} ±{(max(values) - min(values)) / 2 / middle * 100 if middle else 0:.0f} %"


def scaling(rig, arguments):
    rows, missed, busy, raw = [], 0, [], make_raw()
    for disks in DISKS:
        for shards in SHARDS:
            if shards > disks:
                continue
            results, misses = measure(rig, disks, shards, raw, arguments)
            missed += misses
            busy += [result["busy"] for result in results]
            rows.append(
                [
                    f"{disks} on {shards}, depth {IN_FLIGHT // disks} each",
                    spread(results, lambda r: r["iops"], lambda m: f"{m / 1000:.1f}k"),
                    spread(results, lambda r: r["raw"], lambda m: f"{m / 1000:.1f}k"),
                    spread(results, lambda r: r["iops"] / r["raw"], lambda m: f"{m:.2f}"),
                    spread(results, lambda r: r["cpu_us"], lambda m: f"{m:.1f}"),
                    spread(results, lambda r: r["least"], lambda m: f"{m:.2f}"),
                    spread(results, lambda r: r["p99_us"], lambda m: f"{m / 1000:.1f}"),
                ]
            )
    header = ["disks on shards", "reads a second, all", "raw, as many clients", "hearth : raw", "daemon's CPU us a read", "slowest disk : mean", "p99 ms, median disk"]
    text = [
        "# Many disks",
        "`benches/run scaling`",
        f"{bench.machine()}; {bench.versions()}. Random reads of 4 KiB over vhost-user, {WORKING_SET_MIB} MiB in all, {IN_FLIGHT} requests in flight in all, a load "
        f"generator for each disk on the same CPUs; a shard is a flash file, all on one device. Raw: as many load generators on a file of the same disk, in turn. Medians of "
        f"{arguments.reps} runs of {arguments.seconds} s with half the spread; blocks missed meanwhile: {missed}. The machine's CPUs, all that ran on them "
        f"included, were busy {statistics.median(busy):.1f} of {os.cpu_count()}.",
        bench.table(header, rows),
    ]
    bench.write_result("scaling", "\n\n".join(text))


def connect(path, export):
    """An NBD client that has negotiated and asks nothing."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    stream = client.makefile("rwb")
    stream.read(18)
    name = export.encode("ascii")
    stream.write(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">III", 7, len(name) + 6, len(name)) + name + struct.pack(">H", 0))
    stream.flush()
    while True:
        _, _, kind, length = struct.unpack(">QIII", stream.read(20))
        stream.read(length)
        if kind == 1:
            return client
        if kind & 1 << 31:
            raise RuntimeError(f"{export}: refused with {kind:#x}")


def idle(rig, arguments):
    hearth = Hearth(rig, IDLE_DISKS, 1, 8)
    hearth.start()
    rows, busy = [], []
    with contextlib.ExitStack() as clients:
        for state in ("attached", "attached, an idle NBD client each"):
            if "client" in state:
                for disk in range(IDLE_DISKS):
                    clients.enter_context(connect(hearth.listen, f"disk{disk}"))
            time.sleep(2)
            shares = []
            for _ in range(arguments.reps):
                cpu, all_busy = bench.cpu_seconds([hearth.process.pid]), bench.busy_seconds()
                time.sleep(IDLE_SECONDS)
                shares.append((bench.cpu_seconds([hearth.process.pid]) - cpu) / IDLE_SECONDS * 100)
                busy.append((bench.busy_seconds() - all_busy) / IDLE_SECONDS)
            rows.append([f"{IDLE_DISKS} disks {state}", f"{statistics.median(shares):.2f} % ({min(shares):.2f}–{max(shares):.2f})", "1 %"])
    rig.end(hearth.process)
    text = [
        "# Idle disks",
        "`benches/run scaling --only idle`",
        f"{bench.machine()}. CPU of the daemon, all its threads, in {arguments.reps} times {IDLE_SECONDS} s, counted in hundredths of a second. "
        f"The machine's CPUs were busy {statistics.median(busy):.1f} of {os.cpu_count()} with other things.",
        bench.table(["what", "CPU of one core, median, least and most", "bar"], rows),
    ]
    bench.write_result("idle", "\n\n".join(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each run")
    parser.add_argument("--only", default="scaling,idle", help="which of the two tables")
    arguments = parser.parse_args()
    with bench.Rig() as rig:
        if "scaling" in arguments.only:
            scaling(rig, arguments)
        if "idle" in arguments.only:
            idle(rig, arguments)


main()
