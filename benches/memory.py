"""What memory in front of the flash, prefetch and the channels of guests cost.

    benches/run memory                      all tables
    benches/run memory --only hits          CPU of a read hit in memory beside one on flash
    benches/run memory --only saturated     waits at a saturated origin with prefetch and without
    benches/run memory --only channels      an idle channel of each of 100 guests

States are measured in turn within each round, and the figures that count are quotients of a round: what else the machine
does meanwhile falls on all of them alike.
"""

import argparse
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

import rig as bench

SIZE_MIB = 256
HITS = {
    "flash": ["--frames", "auto"],
    "memory": ["--frames", f"{2 * SIZE_MIB}MiB", "--hot", "lru"],
}
FRONT_ENDS = {"vhost-user": (1, 32), "NBD": (1, 32)}
# The origin of `saturated`: so many requests at a time, each takes so long.
ORIGIN_REQUESTS, ORIGIN_DELAY_MS = 4, 5
ORIGIN_GIB = 1024
RANDOM_DEPTH = 32
PREFETCH = {"off": "none", "on": "readahead,vip,mithril"}
CHANNELS = 100
IDLE_SECONDS = 20
MEMORY_KIND, MEMORY_SECONDS = 5, 10


def hit(hearth, address, depth, seconds):
    """Reads a second, and microseconds of the daemon's CPU a read."""
    before = bench.cpu_seconds([hearth.process.pid])
    options = ["--rw=randread", "--bs=4k", f"--iodepth={depth}", "--norandommap", "--time_based", f"--runtime={seconds}"]
    read = bench.hearth_bench(address, SIZE_MIB, options)["read"]
    cpu = bench.cpu_seconds([hearth.process.pid]) - before
    return read["iops"], cpu / read["total_ios"] * 1e6


def hits(rig, arguments):
    origin, flash = rig.socket("origin"), os.path.join(bench.DATA, "memory.flash")
    server = rig.start("origin", ["nbdkit", "-f", "-U", origin, "memory", f"{SIZE_MIB}M"], origin)
    hearth = bench.Hearth(rig, flash, 4 * SIZE_MIB * bench.MIB, f"nbd+unix:///?socket={origin}", vhost_user=True)
    hearth.start()
    hearth.ask("cache", "set", "flash", "--admission", "always")
    addresses = {"vhost-user": f"vhost-user:{hearth.vhost}", "NBD": hearth.uri()}
    fill = ["--rw=read", "--bs=1m", "--iodepth=4"]
    for _ in range(2):
        bench.hearth_bench(hearth.uri(), SIZE_MIB, fill)
    missed = hearth.counters()["origin_read_bytes"]
    found = {}
    for repetition in range(arguments.reps):
        for state in bench.in_turn(HITS, repetition):
            hearth.ask("cache", "set", "flash", *HITS[state])
            bench.hearth_bench(hearth.uri(), SIZE_MIB, fill)
            for front_end, depths in FRONT_ENDS.items():
                for depth in depths:
                    before = hearth.counters()["read_block_hot_hits"]
                    point = hit(hearth, addresses[front_end], depth, arguments.seconds)
                    in_memory = hearth.counters()["read_block_hot_hits"] - before
                    found.setdefault((front_end, depth, state), []).append((*point, in_memory))
    missed = hearth.counters()["origin_read_bytes"] - missed
    rows = []
    for (front_end, depth, state), points in sorted(found.items()):
        of_flash = [ours[1] / flash[1] for ours, flash in zip(points, found[front_end, depth, "flash"])]
        rows.append(
            [front_end, str(depth), state, bench.spread([p[0] for p in points], "%.0f"), bench.spread([p[1] for p in points]), bench.spread(of_flash)]
            + [f"{sum(p[2] for p in points):,}"]
        )
    rig.end(hearth.process)
    rig.end(server)
    header = ["front end", "depth", "the blocks are in", "reads/s", "CPU us a read", "CPU of flash's", "blocks from memory"]
    return (
        f"## A read hit in memory\n\nRandom reads of 4 KiB of {SIZE_MIB} MiB, all hits ({missed} bytes read from the origin meanwhile), {arguments.reps} rounds of "
        f"{arguments.seconds} s; medians with least and most. CPU is the daemon's, of all its threads.\n\n" + bench.table(header, rows)
    )


def saturated(rig, arguments):
    origin, flash = rig.socket("origin"), os.path.join(bench.DATA, "memory.flash")
    delay = ["--filter=delay", "memory", f"{ORIGIN_GIB}G", f"rdelay={ORIGIN_DELAY_MS}ms"]
    server = rig.start("origin", ["nbdkit", "-f", "-t", str(ORIGIN_REQUESTS), "-U", origin, *delay], origin)
    hearth = bench.Hearth(rig, flash, 1024 * bench.MIB, f"nbd+unix:///?socket={origin}")
    hearth.start()
    found = {state: [] for state in PREFETCH}
    half_mib = ORIGIN_GIB * 1024 // 2
    rounds = 0
    for repetition in range(arguments.reps):
        for state in bench.in_turn(PREFETCH, repetition):
            hearth.ask("cache", "set", "flash", "--prefetch", PREFETCH[state])
            # One guest jumps about in one half of the disk, another one reads on in the other one, where nobody was before.
            rounds += 1
            stream = {}

            def read_on(at=half_mib + rounds * 1024):
                options = ["--rw=read", "--bs=4k", "--iodepth=1", f"--offset={at}m", "--time_based", f"--runtime={arguments.seconds}"]
                stream.update(bench.hearth_bench(hearth.uri(), 1024, options)["read"])

            beside = threading.Thread(target=read_on)
            beside.start()
            options = ["--rw=randread", "--bs=4k", f"--iodepth={RANDOM_DEPTH}", f"--randseed={rounds}", "--norandommap"]
            options += ["--time_based", f"--runtime={arguments.seconds}"]
            jumps = bench.hearth_bench(hearth.uri(), half_mib, options)["read"]
            beside.join()
            found[state].append((jumps, stream))
    of = hearth.ask("vm", "show", "disk")["shares"][0]["prefetch"]
    rows = []
    for state, points in found.items():
        p99 = [jumps["clat_ns"]["percentile"]["99.000000"] / 1e6 for jumps, _ in points]
        of_off = [
            ours["clat_ns"]["percentile"]["99.000000"] / off["clat_ns"]["percentile"]["99.000000"]
            for (ours, _), (off, _) in zip(points, found["off"])
        ]
        rows.append([state, bench.spread(p99), bench.spread(of_off), bench.spread([j["iops"] for j, _ in points], "%.0f"), bench.spread([s["iops"] for _, s in points], "%.0f")])
    rig.end(hearth.process)
    rig.end(server)
    header = ["prefetch", "p99 of random reads, ms", "of off", "random reads/s", "reads/s in order"]
    return (
        f"## A saturated origin\n\nAn origin that answers {ORIGIN_REQUESTS} requests at a time, each in {ORIGIN_DELAY_MS} ms. One guest reads at random, {RANDOM_DEPTH} requests "
        f"in flight, nothing twice; another one reads the same disk in order. {arguments.reps} rounds of {arguments.seconds} s, with `{PREFETCH['on']}` and without; medians with "
        f"least and most. With prefetch {of['fetched_blocks']} blocks were fetched, {of['used_blocks']} used and {of['wasted_blocks']} wasted; {of['refused_guesses']} guesses were "
        f"refused by price, {of['dropped_guesses']} gave way to the guests' reads.\n\n" + bench.table(header, rows)
    )


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def memory_frame(sequence):
    """What an idle agent says: memory available, page cache, pressure."""
    body = struct.pack("<QQII", 1 << 30, 600 << 20, 25, 0)
    head = struct.pack("<4sBBHI", b"HrGu", 1, MEMORY_KIND, len(body), sequence)
    return head + struct.pack("<I", crc32c(head + body)) + body


def channels(rig, arguments):
    folder = os.path.join(bench.DATA, "channels")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    sockets = folder_of_sockets(rig)
    admin, listen, config = rig.socket("admin"), rig.socket("hearth"), os.path.join(folder, "hearth.toml")
    flash = os.path.join(folder, "flash")
    subprocess.run([bench.HEARTH, "cache", "format", flash, "--size", "1GiB", "--force"], check=True, stdout=subprocess.DEVNULL)
    text = (
        f"[daemon]\nadmin_socket = '{admin}'\nstate_dir = '{folder}'\nmetrics_address = 'off'\nlog = 'warn'\nlog_target = 'stderr'\n"
        f"[guest]\ndirectory = '{sockets}'\n[nbd]\nunix_socket = '{listen}'\n[[cache]]\nname = 'flash'\npath = '{flash}'\n"
    )
    for disk in range(CHANNELS):
        image = os.path.join(folder, f"{disk}.raw")
        with open(image, "wb") as file:
            file.truncate(8 * bench.MIB)
        text += f"[[disk]]\nname = 'disk{disk}'\norigin = {{ file = '{image}' }}\n"
    with open(config, "w", encoding="ascii") as file:
        file.write(text)
    process = rig.start("hearth", [bench.HEARTH, "serve", "--config", config], listen)
    paths = [os.path.join(sockets, f"disk{disk}.sock") for disk in range(CHANNELS)]
    bench.wait_for("the channels", lambda: all(os.path.exists(path) for path in paths), process)

    def share(tell=None):
        shares = []
        for repetition in range(arguments.reps):
            before, ends = bench.cpu_seconds([process.pid]), time.monotonic() + IDLE_SECONDS
            sequence = repetition * IDLE_SECONDS
            while (left := ends - time.monotonic()) > 0:
                if tell:
                    sequence += 1
                    tell(sequence)
                time.sleep(min(left, MEMORY_SECONDS))
            shares.append((bench.cpu_seconds([process.pid]) - before) / IDLE_SECONDS * 100)
        return shares

    rows = []
    with contextlib.ExitStack() as open_ones:
        time.sleep(2)
        rows.append([f"{CHANNELS} channels without a guest", bench.spread(share())])
        clients = []
        for path in paths:
            client = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(path)
            clients.append(client)
        time.sleep(2)
        rows.append([f"{CHANNELS} guests that say nothing", bench.spread(share())])

        def tell(sequence):
            for client in clients:
                client.sendall(memory_frame(sequence))

        rows.append([f"{CHANNELS} guests, each with an idle agent", bench.spread(share(tell))])
        answer = subprocess.run([bench.HEARTH, "--socket", admin, "vm", "show", "disk7"], capture_output=True, text=True, check=True)
        if "1.00GiB of memory available" not in answer.stdout:
            raise RuntimeError(f"what an agent says did not arrive: {answer.stdout}")
    rig.end(process)
    return (
        f"## Idle channels\n\nCPU of the daemon, all its threads, in {arguments.reps} times {IDLE_SECONDS} s with {CHANNELS} attached disks, counted in hundredths of a second. An idle "
        f"agent tells its guest's memory each {MEMORY_SECONDS} s.\n\n" + bench.table(["what", "% of one core, median, least and most"], rows)
    )


def folder_of_sockets(rig):
    path = rig.socket("guest").removesuffix(".sock")
    os.makedirs(path)
    return path


TABLES = {"hits": hits, "saturated": saturated, "channels": channels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(TABLES), help="which of the tables")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    arguments = parser.parse_args()
    parts = []
    with bench.Rig() as rig:
        for name in arguments.only.split(","):
            parts.append(TABLES[name](rig, arguments))
            print(parts[-1], flush=True)
    head = f"# Memory, prefetch and guests\n\n`benches/run memory --reps {arguments.reps} --seconds {arguments.seconds}` on {bench.machine()}; {bench.versions()}."
    bench.write_result("memory", "\n\n".join([head, *parts]))


if __name__ == "__main__":
    main()
