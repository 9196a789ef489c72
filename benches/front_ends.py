"""Front ends side by side: raw flash, Hearth over NBD and vhost-user, and other servers, one load generator.

    benches/run front_ends                      random reads at depths 1, 32, 128
    benches/run front_ends --loads all          sequential reads and writes too
    benches/run front_ends --only hearth,raw    those whose title has one of the words
    benches/run front_ends --check              hearth bench beside fio, same parameters, on NBD and a file

The load generator is `hearth bench`, so that a difference between rows is the target's. All targets hold
the same bytes. Targets take turns, once in each repetition, so that a busy minute hurts all of them;
figures are medians with half the spread. What other processes of the machine used meanwhile is measured,
and a run that was disturbed is repeated. What is not installed is left out and said so.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import time

import rig as bench

SIZE_MIB = 1024
FLASH_MIB = 2048
DEPTHS = (1, 32, 128)
# CPUs used by others during a run above which it is repeated.
DISTURBED_CPUS = 0.3
# Where the slots of the flash file begin to hold data: behind its tables.
FLASH_DATA_MIB = FLASH_MIB // 8

LOADS = {
    "randread": ("4 KiB random reads", ["--rw=randread", "--bs=4k", "--norandommap"], DEPTHS),
    "randwrite": ("4 KiB random writes", ["--rw=randwrite", "--bs=4k", "--norandommap"], (1, 32)),
    "read": ("1 MiB sequential reads", ["--rw=read", "--bs=1m"], (8,)),
}


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
    """Something to load: its title, the program it needs, how to start it, and its address."""

    def __init__(self, title, start, address, needs=None, options=(), warm="read", writable=True, run=None):
        self.title, self.start, self.address, self.needs = title, start, address, needs
        # Who loads it: hearth bench, unless the row is there to judge hearth bench.
        self.run = run or hearth_bench
        self.options, self.warm, self.writable = list(options), warm, writable


def targets(rig, image, flash):
    origin, socket = rig.socket("origin"), rig.socket("target")
    nbd = f"nbd+unix:///disk?socket={socket}"
    nbdkit = ["nbdkit", "-f", "-e", "disk", "-t", "16"]
    upstream = f"nbd+unix:///disk?socket={origin}"
    over = ["nbd", f"socket={origin}", "export=disk"]
    cached = ["--filter=cache", *over, "cache=writethrough", "cache-on-read=true"]

    def remote(far):
        how = ["--filter=delay", "file", image, "rdelay=1ms", "wdelay=1ms"] if far else ["file", image]
        return rig.start("origin", [*nbdkit, "-U", origin, *how], origin)

    def serve(*words):
        return lambda: [rig.start("target", list(words), socket)]

    def proxied(*words, far=False):
        return lambda: [remote(far), rig.start("target", [*nbdkit, "-U", socket, *words], socket)]

    def hearth(far=False):
        def start():
            server = remote(far)
            daemon = bench.Hearth(rig, flash, FLASH_MIB * bench.MIB, upstream, vhost_user=True)
            daemon.start()
            start.daemon = daemon
            return [server, daemon.process]

        return start

    storage = ["qemu-storage-daemon", "--blockdev", f"driver=file,node-name=f,filename={image},cache.direct=on,aio=io_uring"]
    storage += ["--blockdev", "driver=raw,node-name=d,file=f"]
    vhost_export = f"type=vhost-user-blk,id=e,node-name=d,addr.type=unix,addr.path={socket},writable=on"
    nbd_export = ["--nbd-server", f"addr.type=unix,addr.path={socket}", "--export", "type=nbd,id=e,node-name=d,name=disk,writable=on"]
    qemu_nbd = ["qemu-nbd", "-k", socket, "-f", "raw", "-x", "disk", "-t", "-e", "8", "--cache=none", "--aio=io_uring", image]
    hearth_nbd = f"nbd+unix:///disk?socket={rig.socket('hearth')}"
    flash_part = [f"--offset={FLASH_DATA_MIB}m"]
    return [
        # The flash file of the daemon's last turn: the same extents of the same file.
        Target("raw: the same flash file, O_DIRECT", lambda: [], flash, options=flash_part, warm=None, writable=False),
        Target("the same, loaded by fio (fixed buffers, registered files)", lambda: [], flash, "fio", flash_part, None, False, by_fio),
        Target("**hearth, vhost-user**", hearth(), f"vhost-user:{rig.socket('vhost')}"),
        Target("**hearth, NBD**", hearth(), hearth_nbd),
        Target("qemu-storage-daemon, vhost-user, O_DIRECT", serve(*storage, "--export", vhost_export), f"vhost-user:{socket}", "qemu-storage-daemon"),
        Target("qemu-storage-daemon, NBD, O_DIRECT", serve(*storage, *nbd_export), nbd, "qemu-storage-daemon"),
        Target("qemu-nbd, O_DIRECT", serve(*qemu_nbd), nbd, "qemu-nbd"),
        Target("nbdkit, cache filter (page cache)", proxied(*cached), nbd, "nbdkit"),
        Target("nbdkit, proxy without a cache (page cache)", proxied(*over), nbd, "nbdkit"),
        Target("origin 1 ms away: **hearth, vhost-user**", hearth(far=True), f"vhost-user:{rig.socket('vhost')}", writable=False),
        Target("origin 1 ms away: **hearth, NBD**", hearth(far=True), hearth_nbd, writable=False),
        Target("origin 1 ms away: nbdkit, cache filter", proxied(*cached, far=True), nbd, "nbdkit", writable=False),
        Target("nbdkit file (page cache)", serve(*nbdkit, "-U", socket, "file", image), nbd, "nbdkit"),
        Target("nbdkit memory: what protocol and client allow", serve(*nbdkit, "-U", socket, "memory", f"{SIZE_MIB}M"), nbd, "nbdkit", warm="write"),
    ]


def hearth_bench(address, *options):
    """One load; fio's JSON."""
    command = [bench.HEARTH, "--json", "bench", address, f"--size={SIZE_MIB}m", *options]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=bench.DATA)
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)["jobs"][0]


def fio(*options):
    """One job; fio's JSON."""
    path = os.path.join(bench.DATA, "fio.json")
    command = ["fio", "--name=bench", "--thread=1", "--lat_percentiles=1", "--output-format=json", f"--output={path}", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=bench.DATA)
    with open(path, encoding="ascii") as file:
        text = file.read()
    return json.loads(text[text.index("{") :])["jobs"][0]


def by_fio(path, *options):
    engine = ["--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1"]
    return fio(*engine, f"--filename={path}", f"--size={SIZE_MIB}m", *options)


def figures(job):
    side = max((job["read"], job["write"]), key=lambda side: side["total_ios"])
    # Not clat_ns: fio's begins behind the submission, ours has no such difference.
    percentile = side["lat_ns"]["percentile"]
    return {
        "iops": side["iops"],
        "bytes_second": side["bw_bytes"],
        "ios": side["total_ios"],
        "p50_us": percentile["50.000000"] / 1000,
        "p99_us": percentile["99.000000"] / 1000,
        "client_us": (job["usr_cpu"] + job["sys_cpu"]) / 100 * side["runtime"] * 1000 / max(side["total_ios"], 1),
    }


def undisturbed(run, pids):
    """A measured run; again, up to bench.ATTEMPTS times, if others used the machine meanwhile."""
    for attempt in range(bench.ATTEMPTS):
        # The server that the client talks to is the last one started.
        busy, servers, front = bench.busy_seconds(), bench.cpu_seconds(pids), bench.cpu_seconds(pids[-1:])
        client, began = children_seconds(), time.monotonic()
        result = run()
        elapsed, client = time.monotonic() - began, children_seconds() - client
        servers = bench.cpu_seconds(pids) - servers
        result["others_cpus"] = max(0.0, (bench.busy_seconds() - busy - client - servers) / elapsed)
        result["attempt"] = attempt
        if pids:
            result["cpu_us"] = (bench.cpu_seconds(pids[-1:]) - front) / result["ios"] * 1e6
        if result["others_cpus"] < DISTURBED_CPUS:
            break
    return result


def children_seconds():
    times = os.times()
    return times.children_user + times.children_system


def run_target(rig, target, loads, repetition, out):
    processes = target.start()
    daemon = getattr(target.start, "daemon", None)
    try:
        # Twice: a page that is read once may still be dropped before one that is read again.
        for _ in range(2 if target.warm else 0):
            hearth_bench(target.address, f"--rw={target.warm}", "--bs=1m", "--iodepth=8")
        pids = [process.pid for process in processes]
        for load in loads:
            _, options, depths = LOADS[load]
            if load == "randwrite" and not target.writable:
                continue
            for depth in depths:
                before = daemon.counters() if daemon else None
                # Without a warm-up: the server's processor time is that of all requests.
                timed = ["--time_based", f"--runtime={bench.SECONDS}", f"--iodepth={depth}"]
                seed = f"--randseed={repetition * 1000 + depth}"
                own = [*target.options, *options, *timed, seed]
                result = undisturbed(lambda: figures(target.run(target.address, *own)), pids)
                if daemon and load == "randread":
                    result["misses"] = daemon.counters()["read_block_misses"] - before["read_block_misses"]
                result.update(target=target.title, load=load, depth=depth, repetition=repetition)
                out.write(json.dumps(result) + "\n")
                out.flush()
    finally:
        for process in reversed(processes):
            rig.end(process)


def cell(results, key, form):
    values = [result[key] for result in results if key in result]
    if not values:
        return "–"
    middle = statistics.median(values)
    return form(middle, (max(values) - min(values)) / 2 / middle * 100 if middle else 0)


def load_table(results, load):
    title, _, depths = LOADS[load]
    results = [result for result in results if result["load"] == load]
    large = load == "read"
    header = [title] + [f"depth {depth}" for depth in depths] + [f"p50 / p99 us at {depth}" for depth in depths[:2]]
    header += ["server CPU us a request at " + str(depths[-1 if large else 1]), "client's"]
    rows = []
    for name in dict.fromkeys(result["target"] for result in results):
        at = {depth: [r for r in results if r["target"] == name and r["depth"] == depth] for depth in depths}
        row = [name]
        for depth in depths:
            if large:
                row.append(cell(at[depth], "bytes_second", lambda m, s: f"{m / 1e6:.0f} MB/s ±{s:.0f} %"))
            else:
                row.append(cell(at[depth], "iops", lambda m, s: f"{m / 1000:.1f}k ±{s:.0f} %"))
        for depth in depths[:2]:
            row.append(cell(at[depth], "p50_us", lambda m, _: f"{m:.0f}") + " / " + cell(at[depth], "p99_us", lambda m, _: f"{m:.0f}"))
        middle = at[depths[-1 if large else 1]]
        row.append(cell(middle, "cpu_us", lambda m, _: f"{m:.1f}"))
        row.append(cell(middle, "client_us", lambda m, _: f"{m:.1f}"))
        rows.append(row)
    return bench.table(header, rows)


def report(path, repetitions, skipped):
    with open(path, encoding="ascii") as file:
        results = [json.loads(line) for line in file]
    misses = sum(result.get("misses", 0) for result in results)
    disturbed = max(result["others_cpus"] for result in results)
    parts = [
        "# Front ends, side by side",
        "`make bench`, or `benches/run front_ends`",
        f"{bench.machine()}; {bench.versions()}. {SIZE_MIB} MiB, loaded by `hearth bench` on the same CPUs over unix sockets, one job; medians of "
        f"{repetitions} interleaved runs of {bench.SECONDS} s with half the spread. Hearth's misses during the random reads: {misses}. "
        f"Other processes used at most {disturbed:.2f} CPUs during a run.",
    ]
    parts += [load_table(results, load) for load in LOADS if any(result["load"] == load for result in results)]
    parts += [f"Left out: {title}: {why}." for title, why in skipped.items()]
    return "\n\n".join(parts)


def measure(arguments):
    image, flash = os.path.join(bench.DATA, "image.raw"), os.path.join(bench.DATA, "flash.img")
    results = os.path.join(bench.DATA, "front_ends.jsonl")
    loads = list(LOADS) if arguments.loads == "all" else arguments.loads.split(",")
    skipped = {}
    with bench.Rig() as rig:
        make_image(image)
        listed = targets(rig, image, flash)
        words = [word for word in arguments.only.split(",") if word]
        if words:
            listed = [target for target in listed if any(word in target.title for word in words)]
        if any(not target.warm for target in listed):
            # Hearth goes first once, unmeasured, so that the raw turn has a written flash file.
            first = next(target for target in targets(rig, image, flash) if target.title == "**hearth, NBD**")
            processes = first.start()
            hearth_bench(first.address, "--rw=read", "--bs=1m", "--iodepth=8")
            for process in reversed(processes):
                rig.end(process)
        with open(results, "w", encoding="ascii") as out:
            for repetition in range(arguments.reps):
                for target in listed:
                    if target.title in skipped:
                        continue
                    if target.needs and not shutil.which(target.needs):
                        skipped[target.title] = f"{target.needs} is not installed"
                        print(f"bench: left out: {target.title}: {target.needs} is not installed", flush=True)
                        continue
                    began = time.monotonic()
                    try:
                        run_target(rig, target, loads, repetition, out)
                    except RuntimeError as error:
                        skipped[target.title] = str(error).replace("\n", " ")
                        print(f"bench: left out: {target.title}: {error}", flush=True)
                        continue
                    print(f"bench: {repetition + 1}/{arguments.reps} {target.title}: {time.monotonic() - began:.0f} s", flush=True)
        text = report(results, arguments.reps, skipped)
        if words:
            print(text)
        else:
            bench.write_result("front_ends", text)


CHECKS = (
    ("NBD, random reads, depth 1", "nbd", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    ("NBD, random reads, depth 32", "nbd", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
    ("NBD, random writes, depth 32", "nbd", ["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
    ("NBD, 1 MiB reads, depth 8", "nbd", ["--rw=read", "--bs=1m", "--iodepth=8"]),
    ("file, random reads, depth 1", "file", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    ("file, random reads, depth 32", "file", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
    ("file, random writes, depth 32", "file", ["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
    ("file, zipf 1.1 reads, depth 32", "file", ["--rw=randread", "--bs=4k", "--iodepth=32", "--random_distribution=zipf:1.1"]),
)


def check(arguments):
    """The load generator beside fio: the same parameters, in turn."""
    image = os.path.join(bench.DATA, "image.raw")
    rows = []
    with bench.Rig() as rig:
        make_image(image)
        socket = rig.socket("target")
        server = rig.start("target", ["nbdkit", "-f", "-e", "disk", "-t", "16", "-U", socket, "memory", f"{SIZE_MIB}M"], socket)
        address = f"nbd+unix:///disk?socket={socket}"
        hearth_bench(address, "--rw=write", "--bs=1m", "--iodepth=8")
        for title, kind, options in CHECKS:
            ours, theirs = [], []
            timed = ["--norandommap", "--time_based", f"--runtime={bench.SECONDS}", "--ramp_time=1"]
            timed = timed if "rand" in options[0] else timed[1:]
            pids = [server.pid] if kind == "nbd" else []
            target = address if kind == "nbd" else image
            engine = ["--ioengine=nbd", f"--uri={address}"] if kind == "nbd" else ["--ioengine=io_uring", "--direct=1", f"--filename={image}"]
            fio_options = [*engine, f"--size={SIZE_MIB}m", *options, *timed]
            for repetition in range(arguments.reps):
                pair = [(theirs, lambda: figures(fio(*fio_options))), (ours, lambda: figures(hearth_bench(target, *options, *timed)))]
                # Who goes first changes, so that going second is nobody's advantage.
                for results, run in pair if repetition % 2 else reversed(pair):
                    results.append(undisturbed(run, pids))
            row = [title]
            for key, form in (("iops", "%.0f"), ("p50_us", "%.1f"), ("client_us", "%.2f")):
                other, own = (statistics.median(run[key] for run in runs) for runs in (theirs, ours))
                quotients = sorted(mine[key] / fio_run[key] for mine, fio_run in zip(ours, theirs))
                row.append(f"{form % own} : {form % other} = {statistics.median(quotients):.2f} ({quotients[0]:.2f}–{quotients[-1]:.2f})")
            rows.append(row)
            print(f"bench: {' | '.join(row)}", flush=True)
    text = [
        "# hearth bench beside fio",
        "`benches/run front_ends --check`",
        f"{bench.machine()}; {bench.versions()}. The same parameters, in turn, {arguments.reps} times {bench.SECONDS} s: nbdkit's memory plugin over a unix "
        "socket, and a file with O_DIRECT and io_uring. hearth bench : fio = the median of the quotients of neighbouring runs, with the least and the most.",
        bench.table(["load", "requests a second", "p50 us", "client's CPU us a request"], rows),
    ]
    bench.write_result("beside_fio", "\n\n".join(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=bench.SECONDS, help="of each run")
    parser.add_argument("--attempts", type=int, default=bench.ATTEMPTS, help="at a run that other processes disturb")
    parser.add_argument("--loads", default="randread", help="randread, randwrite, read, separated by commas, or all")
    parser.add_argument("--only", default="", help="words of the titles to run; the table is printed, not written to benches/results")
    parser.add_argument("--check", action="store_true", help="hearth bench beside fio")
    arguments = parser.parse_args()
    bench.SECONDS, bench.ATTEMPTS = arguments.seconds, arguments.attempts
    with contextlib.suppress(KeyboardInterrupt):
        (check if arguments.check else measure)(arguments)


main()
