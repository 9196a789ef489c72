"""4 KiB random writes under write-back, beside raw fio on the same flash file and beside nbdkit's cache
filter in its writeback mode; flash bytes for each newly dirtied block.

Targets take turns, once in each repetition; figures are medians. `--every N` is a flush each N writes.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess

import rig as bench

SIZE_MIB = 512
FLASH_MIB = 2048
DIRTY_MIB = 1000
CASES = ((1, 0), (1, 1), (32, 0), (32, 32))


class Back(bench.Hearth):
    """The daemon with one disk under write-back on a file."""

    def __init__(self, rig, flash, image):
        super().__init__(rig, flash, FLASH_MIB * bench.MIB, "nbd://unused/")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(image + ".hearth")
        with open(self.config, encoding="ascii") as file:
            text = file.read()
        head = text[: text.index("[[disk]]")]
        with open(self.config, "w", encoding="ascii") as file:
            file.write(
                f"{head}[[disk]]\nname = '{self.disk}'\norigin = {{ file = '{image}' }}\nwrite_policy = 'back'\n"
                f"[disk.write_back]\ndirty_max = '{DIRTY_MIB}MiB'\nage_max = '1000s'\nidle_after = '1000s'\n"
            )

    def written(self):
        return sum(self.cache()["flash_written_bytes"].values())


def write(options, depth, every, seconds, name):
    out = os.path.join(bench.DATA, "fio.json")
    command = ["fio", f"--name={name}", "--thread=1", "--rw=randwrite", "--bs=4k", "--norandommap=0", f"--iodepth={depth}"]
    command += [f"--size={SIZE_MIB}m", "--time_based=1", f"--runtime={seconds}", "--output-format=json", f"--output={out}"]
    command += [f"--fsync={every}"] if every else []
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL, cwd=bench.DATA)
    with open(out, encoding="ascii") as file:
        text = file.read()
    done = json.loads(text[text.index("{") :])["jobs"][0]
    if done["error"]:
        raise SystemExit(f"bench: fio failed: {command}")
    side = done["write"]
    return {"iops": side["iops"], "p99_us": side["clat_ns"]["percentile"]["99.000000"] / 1000, "ios": side["total_ios"]}


def fresh(image):
    with open(image, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(bench.MIB))
        os.fsync(file.fileno())


def hearth_turn(rig, image, flash, depth, every, seconds):
    daemon = Back(rig, flash, image)
    daemon.start()
    before = daemon.written()
    found = write(["--ioengine=nbd", f"--uri={daemon.uri()}"], depth, every, seconds, "hearth")
    subprocess.run([bench.HEARTH, "--socket", daemon.admin, "disk", "flush", daemon.disk, "--wait"], check=True, stdout=subprocess.DEVNULL)
    found["flash_bytes_a_write"] = (daemon.written() - before) / found["ios"]
    rig.end(daemon.process)
    return found


def raw_turn(_rig, _image, flash, depth, every, seconds):
    return write(["--ioengine=io_uring", "--direct=1", f"--filename={flash}.raw"], depth, every, seconds, "raw")


def nbdkit_turn(rig, image, _flash, depth, every, seconds):
    path = rig.socket("nbdkit")
    command = ["nbdkit", "-f", "-U", path, "-e", "disk", "--filter=cache", "file", image, "cache=writeback"]
    process = rig.start("nbdkit", command, path)
    found = write(["--ioengine=nbd", f"--uri=nbd+unix:///disk?socket={path}"], depth, every, seconds, "nbdkit")
    rig.end(process)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=bench.SECONDS)
    arguments = parser.parse_args()
    targets = (("raw: fio io_uring, O_DIRECT, a file beside the flash", raw_turn), ("**hearth**, `back`", hearth_turn), ("nbdkit, cache filter, writeback (page cache)", nbdkit_turn))
    found = {}
    with bench.Rig() as rig:
        image, flash = os.path.join(bench.DATA, "back-origin.raw"), os.path.join(bench.DATA, "back.flash")
        fresh(image)
        shutil.copyfile(image, flash + ".raw")
        for _ in range(arguments.reps):
            for depth, every in CASES:
                for title, turn in targets:
                    found.setdefault((title, depth, every), []).append(turn(rig, image, flash, depth, every, arguments.seconds))
    header = ["4 KiB random writes"] + [f"depth {d}, " + (f"a flush each {e}" if e else "no flush") for d, e in CASES]
    rows = []
    for title, _ in targets:
        cells = []
        for depth, every in CASES:
            runs = found[title, depth, every]
            middle = lambda key: statistics.median(run[key] for run in runs)
            cell = f"{middle('iops'):,.0f}/s, p99 {middle('p99_us'):,.0f} us"
            if "flash_bytes_a_write" in runs[0]:
                cell += f", {middle('flash_bytes_a_write'):,.0f} B of flash a write"
            cells.append(cell)
        rows.append([title, *cells])
    text = f"## Write-back\n\n{bench.machine()}. Medians of {arguments.reps} runs of {arguments.seconds} s; the origin is a file on the same disk, and nothing is destaged while it is measured.\n\n{bench.table(header, rows)}\n"
    bench.write_section("back", text)


if __name__ == "__main__":
    main()
