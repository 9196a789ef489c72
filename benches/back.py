"""Writes: under write-back beside raw flash and nbdkit's write-back filter, under write-through beside the origin
itself, with and without encryption; reads while a log goes to its origin; a long mixed load at the bound.

Targets take turns, once in each repetition. Tables have medians with half the spread; a ratio is the median of the
ratios of neighbouring runs. `--only` takes some of: writes, through, encryption, destage, mixed.
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

SIZE_MIB = 512
FLASH_MIB = 2048
DIRTY_MIB = 1000
# Writes after which hearth flushes an NBD server on its own, which may forget them (`UNSTABLE_COUNT_SOFT`).
UNSTABLE_COUNT = 8192
# Depth, and a flush each so many writes.
CASES = ((1, 0), (1, 1), (8, 0), (32, 0), (32, 32))
MIXED_DIRTY_MIB = 64
MIXED_SAMPLE_SECONDS = 5
FIO_NBD = "--ioengine=nbd"
RAW = ("--ioengine=io_uring", "--direct=1")
NEVER = "age_max = '1000s'\nidle_after = '1000s'\n"


class Disk(bench.Hearth):
    """The daemon with one disk on a file or an NBD origin."""

    def __init__(self, rig, flash, origin, policy="back", write_back="", key=None):
        super().__init__(rig, flash, FLASH_MIB * bench.MIB, "nbd://unused/", vhost_user=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{origin}.hearth")
        with open(self.config, encoding="ascii") as file:
            head = file.read().split("[[disk]]")[0]
        kind = "nbd" if origin.startswith("nbd") else "file"
        text = f"{head}[[disk]]\nname = '{self.disk}'\norigin = {{ {kind} = '{origin}' }}\nwrite_policy = '{policy}'\n"
        if write_back:
            text += f"[disk.write_back]\n{write_back}"
        text += f"[disk.vhost_user]\nsocket = '{self.vhost}'\n"
        if key:
            text += f"[disk.encryption]\nkey_file = '{key}'\n"
        with open(self.config, "w", encoding="ascii") as file:
            file.write(text)
        self.start()

    def written(self):
        return sum(self.cache()["flash_written_bytes"].values())

    def dirty(self):
        return self.ask("disk", "show", self.disk)["write_back"]

    def flush(self):
        """Waits until the log is at the origin, as fast as it goes by itself."""
        self.ask("disk", "set", self.disk, "--age-max", "1ms")
        bench.wait_for("the log", lambda: not self.dirty()["log_bytes"], self.process)

    def cpu(self):
        return bench.cpu_seconds([self.process.pid])

    def end(self):
        self.rig.end(self.process)


def fio(options, seconds, size_mib=SIZE_MIB, side="write"):
    out = os.path.join(bench.DATA, "fio.json")
    command = ["fio", "--name=back", "--thread=1", "--bs=4k", "--time_based=1", f"--runtime={seconds}", f"--size={size_mib}m"]
    subprocess.run([*command, *options, "--output-format=json", f"--output={out}"], check=True, stdout=subprocess.DEVNULL, cwd=bench.DATA)
    with open(out, encoding="ascii") as file:
        text = file.read()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    if job["error"] or not job[side]["total_ios"]:
        raise SystemExit(f"bench: fio failed: {options}")
    percentile = job[side]["clat_ns"]["percentile"]
    return {
        "iops": job[side]["iops"],
        "p50_us": percentile["50.000000"] / 1000,
        "p99_us": percentile["99.000000"] / 1000,
        "mean_us": job[side]["clat_ns"]["mean"] / 1000,
        "ios": job[side]["total_ios"],
    }


def vhost_user(disk, options, seconds):
    """The same by `hearth bench`, since fio does not speak vhost-user."""
    common = ["--bs=4k", "--norandommap", "--time_based", f"--runtime={seconds}s"]
    found = bench.hearth_bench(f"vhost-user:{disk.vhost}", SIZE_MIB, [*common, *options])["write"]
    percentile = found["lat_ns"]["percentile"]
    return {
        "iops": found["iops"],
        "p50_us": percentile["50.000000"] / 1000,
        "p99_us": percentile["99.000000"] / 1000,
        "ios": found["total_ios"],
    }


def random_writes(depth, every=0):
    return ["--rw=randwrite", f"--iodepth={depth}", *([f"--fsync={every}"] if every else [])]


def fresh(image):
    """An image of which nothing is in the page cache: direct writes over what is there wait for a thread of the kernel's."""
    with open(image, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(bench.MIB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settled(flash):
    """A flash file whose blocks the file system has written once: its first pass over new extents is not ours."""
    with open(flash, "wb") as file:
        for _ in range(FLASH_MIB):
            file.write(bytes(bench.MIB))
        os.fsync(file.fileno())


def measured(disk, options, seconds, side="write", over="nbd"):
    """A run against the daemon, with its CPU and the bytes that flash was written for it, destaging included."""
    cpu, written = disk.cpu(), disk.written()
    if over == "nbd":
        found = fio([FIO_NBD, f"--uri={disk.uri()}", *options], seconds, side=side)
    else:
        found = vhost_user(disk, options, seconds)
    found["cpu_us"] = (disk.cpu() - cpu) * 1e6 / found["ios"]
    if disk.dirty():
        found["stalls"] = disk.dirty()["stalled_writes"]
        disk.flush()
    found["flash_bytes"] = (disk.written() - written) / found["ios"]
    return found


class Turns:
    """Runs of several targets, in turn."""

    def __init__(self, reps):
        self.reps, self.found = reps, {}

    def take(self, targets, cases):
        for _ in range(self.reps):
            for case in cases:
                for title, turn in targets:
                    self.found.setdefault((title, case), []).append(turn(*case))

    def values(self, title, case, key):
        return [run[key] for run in self.found[title, case]]

    def text(self, title, case, key, form="{:,.0f}"):
        values = self.values(title, case, key)
        middle = statistics.median(values)
        spread = (max(values) - min(values)) / 2 / middle if middle else 0
        return f"{form.format(middle)} ±{spread:.0%}".replace("%", " %")

    def ratio(self, title, other, case, key="iops"):
        pairs = zip(self.values(title, case, key), self.values(other, case, key))
        return statistics.median(a / b for a, b in pairs)


def writes(rig, image, flash, arguments):
    seconds, raw = arguments.seconds, f"{flash}.raw"
    shutil.copyfile(image, raw)
    titles = ("raw: fio io_uring, O_DIRECT, a file beside the flash", "**hearth**, `back`, NBD", "**hearth**, `back`, vhost-user", "nbdkit, cache filter, writeback (page cache)")

    def raw_turn(depth, every):
        return fio([*RAW, f"--filename={raw}", *random_writes(depth, every)], seconds)

    def hearth(over):
        def turn(depth, every):
            disk = Disk(rig, flash, image, write_back=f"dirty_max = '{DIRTY_MIB}MiB'\n{NEVER}")
            found = measured(disk, random_writes(depth, every), seconds, over=over)
            disk.end()
            return found

        return turn

    def nbdkit_turn(depth, every):
        path = rig.socket("nbdkit")
        process = rig.start("nbdkit", ["nbdkit", "-f", "-U", path, "-e", "disk", "--filter=cache", "file", image, "cache=writeback"], path)
        cpu = bench.cpu_seconds([process.pid])
        found = fio([FIO_NBD, f"--uri=nbd+unix:///disk?socket={path}", *random_writes(depth, every)], seconds)
        found["cpu_us"] = (bench.cpu_seconds([process.pid]) - cpu) * 1e6 / found["ios"]
        rig.end(process)
        return found

    turns = Turns(arguments.reps)
    turns.take(list(zip(titles, (raw_turn, hearth("nbd"), hearth("vhost-user"), nbdkit_turn))), CASES)
    header = ["4 KiB random writes"] + [f"depth {d}, " + (f"a flush each {e}" if e else "no flush") for d, e in CASES]
    rows = [[title, *(f"{turns.text(title, case, 'iops')} /s, p99 {turns.text(title, case, 'p99_us')} us" for case in CASES)] for title in titles]
    for title, what in zip(titles[1:], ("hearth, NBD", "hearth, vhost-user", "nbdkit")):
        rows.append([f"{what} : raw", *(f"{turns.ratio(title, titles[0], case):.2f}" for case in CASES)])
        rows.append([f"{what}: server's CPU a write, us", *(turns.text(title, case, "cpu_us", "{:.1f}") for case in CASES)])
    rows.append(["hearth: flash bytes a write, destaging included", *(turns.text(titles[1], case, "flash_bytes") for case in CASES)])
    rows.append(["hearth, vhost-user: writes that waited for room in the log", *(turns.text(titles[2], case, "stalls") for case in CASES)])
    note = f"NBD is loaded by fio, vhost-user by `hearth bench`. The origin is a file on the same disk; what is written is destaged afterwards, and the bytes of that are counted, unless the log reaches dirty_max ({DIRTY_MIB} MiB) before the run ends: then writes wait for the origin. Latency is of the writes, not of the flushes."
    return "# Writes under write-back", note, bench.table(header, rows)


def through(rig, image, flash, arguments):
    seconds, cases = arguments.seconds, ((1,), (32,))
    file_titles = ("the origin itself: fio io_uring, O_DIRECT", "**hearth**, `through`, file origin, NBD", "**hearth**, `through`, file origin, vhost-user")
    nbd_titles = ("the origin itself: fio, nbdkit file", f"the same, flushed each {UNSTABLE_COUNT:,} writes", "**hearth**, `through`, NBD origin, NBD")

    def of(origin, over="nbd"):
        def turn(depth):
            disk = Disk(rig, flash, origin, policy="through")
            found = measured(disk, random_writes(depth), seconds, over=over)
            disk.end()
            return found

        return turn

    path = rig.socket("origin")
    uri = f"nbd+unix:///disk?socket={path}"
    # nbdkit's image is another one, since it comes into the page cache.
    served = f"{image}.nbdkit"
    fresh(served)
    server = rig.start("origin", ["nbdkit", "-f", "-U", path, "-e", "disk", "file", served], path)
    turns = Turns(arguments.reps)
    raw = lambda depth: fio([*RAW, f"--filename={image}", *random_writes(depth)], seconds)
    proxy = lambda depth: fio([FIO_NBD, f"--uri={uri}", *random_writes(depth)], seconds)
    flushed = lambda depth: fio([FIO_NBD, f"--uri={uri}", *random_writes(depth, UNSTABLE_COUNT)], seconds)
    turns.take(list(zip(file_titles + nbd_titles, (raw, of(image), of(image, "vhost-user"), proxy, flushed, of(uri)))), cases)
    rig.end(server)
    os.unlink(served)
    header, rows = ["4 KiB random writes", "depth 1", "depth 32", "to the origin's own, at 1 / 32", "to the flushed, at 1 / 32", "daemon's CPU us a write at 32"], []
    for titles in (file_titles, nbd_titles):
        for title in titles:
            cells = [f"{turns.text(title, case, 'iops')} /s, p50 {turns.text(title, case, 'p50_us')} us" for case in cases]
            is_ours = title.startswith("**")
            cpu = turns.text(title, cases[1], "cpu_us", "{:.1f}") if is_ours else "–"
            to = lambda rival: " / ".join(f"{turns.ratio(title, rival, case):.2f}" for case in cases)
            to_flushed = to(titles[1]) if is_ours and titles == nbd_titles else "–"
            rows.append([title, *cells, to(titles[0]), to_flushed, cpu])
    note = (
        "No block is cached, as of a guest that only writes. The file origin is written with O_DIRECT on both sides, and nothing of it is in the page "
        "cache; nbdkit answers from the page cache. hearth keeps what a server may forget, to repeat it, and flushes before that is too much."
    )
    return "# Writes through, beside the origin's own speed", note, bench.table(header, rows)


def encryption(rig, image, flash, arguments):
    key = os.path.join(bench.DATA, "key")
    with open(key, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(os.urandom(32))
    cases = (("write", 1), ("write", 32), ("read", 1), ("read", 32))
    titles = ("plain", "AES-256-XTS")
    settings = f"dirty_max = '{DIRTY_MIB}MiB'\n{NEVER}"

    def of(own):
        def turn(side, depth):
            disk = Disk(rig, flash, image, write_back=settings, key=own)
            if side == "read":
                # Everything is on flash before it is read.
                fio([FIO_NBD, f"--uri={disk.uri()}", "--rw=write", "--bs=1m", "--iodepth=4", "--time_based=0"], 0, size_mib=256)
                disk.flush()
            options = [f"--rw=rand{side}", f"--iodepth={depth}", "--size=256m"]
            found = measured(disk, options, arguments.seconds, side=side)
            disk.end()
            return found

        return turn

    turns = Turns(arguments.reps)
    turns.take([(titles[0], of(None)), (titles[1], of(key))], cases)
    name = lambda case: f"{'hits' if case[0] == 'read' else 'writes, `back`'}, depth {case[1]}"
    header = ["4 KiB, NBD", *map(name, cases)]
    rows = [[title, *(f"{turns.text(title, case, 'iops')} /s, p50 {turns.text(title, case, 'p50_us')} us" for case in cases)] for title in titles]
    for title in titles:
        rows.append([f"{title}: daemon's CPU us each", *(turns.text(title, case, "cpu_us", "{:.1f}") for case in cases)])
    more = [statistics.median(turns.values(titles[1], case, "cpu_us")) - statistics.median(turns.values(titles[0], case, "cpu_us")) for case in cases]
    rows.append(["more CPU us each", *(f"{us:+.1f}" for us in more)])
    rows.append(["encrypted : plain, a second", *(f"{turns.ratio(titles[1], titles[0], case):.2f}" for case in cases)])
    return "# Encryption at rest, end to end", "The same runs without and with a key.", bench.table(header, rows)


def destage(rig, image, flash, arguments):
    """Half of the disk is cached and read; the other half is dirty, and goes to the origin meanwhile or not."""
    half = SIZE_MIB // 2
    cases = (("hits",), ("misses",))
    titles = ("nothing is destaged", "while the log goes to the origin")

    def of(destages):
        def turn(what):
            disk = Disk(rig, flash, image, write_back=f"dirty_max = '{DIRTY_MIB}MiB'\n{NEVER}")
            uri = [FIO_NBD, f"--uri={disk.uri()}"]
            if what == "hits":
                fio([*uri, "--rw=read", "--bs=1m", "--iodepth=4", "--time_based=0"], 0, size_mib=half, side="read")
            for _ in range(2):
                fio([*uri, "--rw=randwrite", "--iodepth=32", f"--offset={half}m", "--norandommap=0", "--time_based=0"], 0, size_mib=half)
            before = disk.dirty()["destaged_bytes"]
            if destages:
                disk.ask("disk", "set", disk.disk, "--age-max", "1ms")
            found = fio([*uri, "--rw=randread", "--iodepth=1"], arguments.seconds, size_mib=half, side="read")
            found["destaged_mib"] = (disk.dirty()["destaged_bytes"] - before) / bench.MIB
            found["left_mib"] = disk.dirty()["dirty_bytes"] / bench.MIB
            disk.end()
            return found

        return turn

    turns = Turns(arguments.reps)
    turns.take([(titles[0], of(False)), (titles[1], of(True))], cases)
    header = ["4 KiB random reads, depth 1", "hits", "misses"]
    rows = [[title, *(f"mean {turns.text(title, case, 'mean_us')} us, p50 {turns.text(title, case, 'p50_us')}, p99 {turns.text(title, case, 'p99_us')}" for case in cases)] for title in titles]
    rows.append(["ratio of the means", *(f"{turns.ratio(titles[1], titles[0], case, 'mean_us'):.2f}" for case in cases)])
    rows.append(["ratio of the p50", *(f"{turns.ratio(titles[1], titles[0], case, 'p50_us'):.2f}" for case in cases)])
    rows.append(["MiB destaged meanwhile", *(turns.text(titles[1], case, "destaged_mib") for case in cases)])
    rows.append(["MiB of the log left then", *(turns.text(titles[1], case, "left_mib") for case in cases)])
    return "# Reads while a log is destaged", "Flash and origin are files on the same disk, so what is destaged is in the way of both.", bench.table(header, rows)


def mixed(rig, image, flash, arguments):
    disk = Disk(rig, flash, image, write_back=f"dirty_max = '{MIXED_DIRTY_MIB}MiB'\n")
    options = [FIO_NBD, f"--uri={disk.uri()}", "--rw=randrw", "--rwmixread=50", "--iodepth=32", "--fsync=128"]
    out = os.path.join(bench.DATA, "mixed.json")
    command = ["fio", "--name=mixed", "--thread=1", "--bs=4k", "--time_based=1", f"--runtime={arguments.mixed_seconds}", f"--size={SIZE_MIB}m"]
    cpu, written, began = disk.cpu(), disk.written(), time.monotonic()
    process = subprocess.Popen([*command, *options, "--output-format=json", f"--output={out}"], stdout=subprocess.DEVNULL, cwd=bench.DATA)
    dirty, memory, done = [], [], []
    while process.poll() is None:
        now = disk.dirty()
        dirty.append(now["log_bytes"])
        counters = disk.counters()
        done.append(counters["read_requests"] + counters["write_requests"])
        with open(f"/proc/{disk.process.pid}/status", encoding="ascii") as file:
            memory += [int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS")]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=MIXED_SAMPLE_SECONDS)
    took, stalls = time.monotonic() - began, disk.dirty()["stalled_writes"]
    with open(out, encoding="ascii") as file:
        text = file.read()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    if process.returncode or job["error"]:
        raise SystemExit("bench: fio failed under the mixed load")
    ios = job["read"]["total_ios"] + job["write"]["total_ios"]
    flash_bytes = (disk.written() - written) / job["write"]["total_ios"]
    used = (disk.cpu() - cpu) * 1e6 / ios
    disk.end()
    steps = [b - a for a, b in zip(done, done[1:])][1:-1] or [0]
    at_bound = sum(bytes_ > MIXED_DIRTY_MIB * bench.MIB * 0.45 for bytes_ in dirty)
    side = lambda name, key: job[name]["clat_ns"]["percentile"][key] / 1000
    rows = [
        ["reads and writes", f"{job['read']['iops']:,.0f} /s and {job['write']['iops']:,.0f} /s for {took:.0f} s, no error"],
        ["reads p50 / p99 / p99.9, us", " / ".join(f"{side('read', key):,.0f}" for key in ("50.000000", "99.000000", "99.900000"))],
        ["writes p50 / p99 / p99.9, us", " / ".join(f"{side('write', key):,.0f}" for key in ("50.000000", "99.000000", "99.900000"))],
        ["operations in each of the samples, least : median", f"{min(steps) / max(statistics.median(steps), 1):.2f}"],
        ["the log in the samples, MiB, median and most", f"{statistics.median(dirty) / bench.MIB:.0f} and {max(dirty) / bench.MIB:.0f} of {MIXED_DIRTY_MIB}; above .45 of it in {at_bound} of {len(dirty)}"],
        ["writes that waited for room", f"{stalls}"],
        ["daemon's CPU us an operation", f"{used:.1f}"],
        ["flash bytes a write, fills of reads included", f"{flash_bytes:,.0f}"],
        ["daemon's memory in the first tenth of the samples and the last, MiB, median", f"{statistics.median(memory[: len(memory) // 10 + 1]):.0f} and {statistics.median(memory[-(len(memory) // 10 + 1) :]):.0f}"],
    ]
    note = f"Half reads, half writes, 4 KiB at random over {SIZE_MIB} MiB, depth 32, a flush each 128, dirty_max {MIXED_DIRTY_MIB} MiB, everything else as it comes."
    return f"# {took / 60:.0f} minutes of mixed load at the bound", note, bench.table(["what", "figure"], rows)


PARTS = {"writes": writes, "through": through, "encryption": encryption, "destage": destage, "mixed": mixed}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=bench.SECONDS)
    parser.add_argument("--mixed-seconds", type=int, default=600)
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    image, flash = os.path.join(bench.DATA, "back-origin.raw"), os.path.join(bench.DATA, "back.flash")
    with bench.Rig() as rig:
        fresh(image)
        settled(flash)
        for name in arguments.only.split(","):
            busy, began = bench.busy_seconds(), time.monotonic()
            title, note, table = PARTS[name](rig, image, flash, arguments)
            load = (bench.busy_seconds() - busy) / (time.monotonic() - began)
            length = "" if name == "mixed" else f" {arguments.reps} runs of {arguments.seconds} s each, in turn, medians with half the spread."
            text = f"{title}\n\n`benches/run back --only {name}`\n\n{bench.machine()}; {bench.versions()}.{length} The machine's CPUs, all that ran on them included, were busy {load:.1f} of {os.cpu_count()}. {note}\n\n{table}\n"
            bench.write_result(f"back_{name}", text)


if __name__ == "__main__":
    main()
