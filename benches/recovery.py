"""How much of a large cache survives kill -9, and how soon the disk can be used again.

The origin is nbdkit's pattern plugin, so that filling needs no second copy of the data. The cache is
filled by sequential reads through the daemon, left until nothing waits in memory, killed, and started.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import nbd
import rig as bench

GIB = 1 << 30


def fill(hearth, gib):
    command = ["fio", "--name=fill", "--thread=1", "--ioengine=nbd", f"--uri={hearth.uri()}", "--rw=read", "--bs=1m", "--iodepth=8", f"--size={gib}g"]
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=bench.DATA)
    return time.monotonic() - began


def settle(hearth):
    """Waits until what waits in memory is on flash: the bytes written no longer grow."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < 3:
        now = sum(hearth.cache()["flash_written_bytes"].values())
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.2)


def check(hearth, gib):
    """Reads blocks at random: nbdkit's pattern says what each must hold."""
    dice = random.Random(7)
    handle = nbd.NBD()
    handle.connect_uri(hearth.uri())
    for _ in range(500):
        offset = dice.randrange(gib * GIB // 4096) * 4096
        expected = b"".join(at.to_bytes(8, "big") for at in range(offset, offset + 4096, 8))
        if handle.pread(4096, offset) != expected:
            sys.exit(f"bench: the block at {offset} is wrong")
    handle.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=int, default=16, help="size of the flash file")
    parser.add_argument("--kills", type=int, default=3)
    arguments = parser.parse_args()
    # As the systemd unit does.
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    gib = arguments.gib
    # The last tenth stays empty, so that nothing is reclaimed and every block should be there.
    filled = gib * 9 // 10
    flash = os.path.join(bench.DATA, "recovery.img")
    rows, memory, room = [], 0, 1
    with bench.Rig() as rig:
        origin = rig.socket("origin")
        rig.start("origin", ["nbdkit", "-f", "-U", origin, "-e", "disk", "pattern", f"{gib}G"], origin)
        hearth = bench.Hearth(rig, flash, gib * GIB, f"nbd+unix:///disk?socket={origin}", read_only=True)
        hearth.start()
        # Nothing is read twice before it should be there.
        hearth.ask("cache", "set", "flash", "--admission", "always")
        seconds = fill(hearth, filled)
        settle(hearth)
        # Once more: what came faster than the flash could write was not kept the first time.
        fill(hearth, filled)
        for _ in range(arguments.kills):
            settle(hearth)
            cache = hearth.cache()
            held, memory, room = cache["cached_blocks"], cache["memory_bytes"], cache["blocks_max"]
            rig.end(hearth.process, signal.SIGKILL)
            ready = hearth.start()
            after = hearth.cache()
            rows.append({"held": held, "kept": after["recovered_blocks"], "ready": ready, "recovery": after["recovery_seconds"]})
            check(hearth, filled)
        started = time.monotonic()
        hearth.process.send_signal(signal.SIGTERM)
        hearth.process.wait()
        stop = time.monotonic() - started
        rig.started.remove(hearth.process)
        clean = hearth.start()
        clean_kept = hearth.cache()["recovered_blocks"]
    os.unlink(flash)
    held, kept = rows[-1]["held"], min(row["kept"] for row in rows)
    recovery = statistics.median(row["recovery"] for row in rows)
    lines = [
        "# A cache after kill -9",
        "`benches/run recovery --gib " + str(gib) + "`",
        f"{bench.machine()}. A cache of {gib} GiB holding {held:,} blocks, filled in {seconds:.0f} s from nbdkit's pattern plugin; "
        f"{arguments.kills} kills, the worst for blocks, the median for times. After each start 500 blocks at random were right. The daemon's memory is in huge pages, as under the systemd unit.",
        bench.table(
            ["what", "figure"],
            [
                ["blocks kept after kill -9", f"{kept:,} of {held:,} ({kept / held:.3%})"],
                ["recovery", f"{recovery:.2f} s, {kept / max(recovery, 1e-9) / 1e6:.1f} M blocks/s"],
                ["from exec until the disk could be used", f"{statistics.median(row['ready'] for row in rows):.2f} s"],
                ["clean stop, and start after it", f"{stop:.2f} s, {clean:.2f} s; {clean_kept:,} blocks"],
                ["memory of the cache, all counted by the daemon", f"{memory / bench.MIB:.1f} MiB: {memory / held:.1f} bytes a block held, {memory / room:.1f} a block that there is room for"],
            ],
        ),
    ]
    bench.write_result("recovery", "\n\n".join(lines))


main()
