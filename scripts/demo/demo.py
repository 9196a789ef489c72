"""The product shown in two minutes: a VM's disk on a slow origin, without Hearth and with it.

Every figure in the closing table was measured in this run. The origin's bytes come from the origin's
own log, everything else that Hearth knows from `hearth status` and `hearth disk show`.

    VM ── NBD ── hearth ── NBD ── nbdkit, +1 ms a request ── disk image
                   ├── flash file
                   └── link ── a second hearth with flash of its own, to which the VM moves in the end
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import migration

ROOT = sys.argv[1]
HEARTH = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "hearth")
GUEST = os.environ.get("HEARTH_GUEST_DIR", os.path.join(ROOT, "scratch", "guest"))
DATA = os.path.join(ROOT, "scratch", "demo")
DELAY = "1ms"
FLASH_MIB = 1024
FIO_DISK_MIB = 256
MIB = 1 << 20
GUEST_STEPS = (
    "random,dir=/srv/files,reads=3000"
    "+read,dir=/srv/files"
    "+write,dir=/var/probe,from=1,files=16,kib=128"
    "+verify,dir=/var/probe,through=16"
)
# What the guest that moves does again and again.
ROUND_STEPS = "random,dir=/srv/files,reads=3000+write,dir=/var/probe,from=1,files=16,kib=128+again"
SECONDS_AFTER_MOVE = 3
# What a boot reads: files that the agent in the guest has seen used twice, and the rest of them a little later.
BOOT_READS = "read,dir=/srv/files,from=15"
LEARN_READS = f"read,dir=/srv/files+read,dir=/srv/files+{BOOT_READS}"
AGENT = " agent=--epoch,200ms"
# Read in order and at random, without prefetch and with it: behind what the other steps read of the disk.
FORESEEN_FROM_MIB = 200
FORESEEN_MIB = 8
DEADLINE_SECONDS = 120

started = []


def say(text):
    print(f"demo: {text}", flush=True)


def start(command, log):
    with open(log, "ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    started.append(process)
    return process


def end(process, how=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process in started:
        started.remove(process)


def wait_for(what, is_so, alive=None):
    ends = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        if alive is not None and alive.poll() is not None:
            raise SystemExit(f"demo: {what}: the program ended with {alive.returncode}; its log is in {DATA}")
        if time.monotonic() > ends:
            raise SystemExit(f"demo: waited {DEADLINE_SECONDS} s for {what}; logs are in {DATA}")
        time.sleep(0.01)


def listens(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def free_port(wanted=0):
    for port in (wanted, 0):
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise SystemExit("demo: no free TCP port")


class Origin:
    """nbdkit over an image; its log says what reached it."""

    def __init__(self, name, image, sockets):
        self.name = name
        self.socket = os.path.join(sockets, f"{name}.sock")
        self.log = os.path.join(DATA, f"{name}-requests.txt")
        command = ["nbdkit", "-f", "-U", self.socket, "-e", name, "--filter=log", "--filter=delay"]
        command += ["file", image, f"logfile={self.log}", f"rdelay={DELAY}", f"wdelay={DELAY}"]
        process = start(command, os.path.join(DATA, f"{name}.log"))
        wait_for("the origin", lambda: listens(self.socket), process)
        self.seen = 0

    def uri(self):
        return f"nbd+unix:///{self.name}?socket={self.socket}"

    def reads(self):
        """The bytes of each read that reached it since the last call."""
        with open(self.log, encoding="ascii", errors="replace") as file:
            file.seek(self.seen)
            text = file.read()
            self.seen = file.tell()
        return [int(count, 16) for count in re.findall(r" Read id=\S+ offset=\S+ count=0x([0-9a-f]+)", text)]

    def read_bytes(self):
        """Bytes read from it since the last call."""
        return sum(self.reads())


class Hearth:
    """The daemon of a host, asked through its command line. The first of its disks roams."""

    def __init__(self, place, sockets, origins, link):
        name = migration.NAMES[place]
        self.admin = os.path.join(sockets, f"{name}-admin.sock")
        self.socket = os.path.join(sockets, f"{name}.sock")
        self.port = free_port(9809 + place)
        self.page_port = free_port(9811 + place)
        self.flash = os.path.join(DATA, f"{name}-flash.img")
        self.config = os.path.join(DATA, f"{name}.toml")
        self.log = os.path.join(DATA, f"{name}.log")
        self.process = None
        state = os.path.join(DATA, f"{name}-state")
        os.makedirs(state)
        with open(self.config, "w", encoding="ascii") as file:
            file.write(
                f"[daemon]\nadmin_socket = '{self.admin}'\nstate_dir = '{state}'\nowners_dir = '{DATA}/owners'\n"
                f"metrics_address = '127.0.0.1:{self.port}'\nlog_target = 'stderr'\n\n"
                f"[web]\naddress = '127.0.0.1:{self.page_port}'\nhistory_step = '1s'\n\n"
                f"[nbd]\nunix_socket = '{self.socket}'\n{link}\n"
                f"[[cache]]\nname = 'flash'\npath = '{self.flash}'\n"
            )
            for origin in origins:
                file.write(f"\n[[disk]]\nname = '{origin.name}'\norigin = {{ nbd = '{origin.uri()}' }}\n")
                if origin is origins[0]:
                    file.write(f"id = '{migration.DISK_ID}'\nroams = true\n")
        subprocess.run([HEARTH, "cache", "format", self.flash, "--size", f"{FLASH_MIB}MiB"], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        """Starts it and gives the seconds until its disks could be used."""
        for path in (self.admin, self.socket):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        began = time.monotonic()
        self.process = start([HEARTH, "serve", "--config", self.config], self.log)
        wait_for("hearth", lambda: listens(self.socket) and self.is_ready(), self.process)
        return time.monotonic() - began

    def is_ready(self):
        answer = self.ask("disk", "list", check=False)
        return answer is not None and all(disk["state"] in ("attached", "standby") for disk in answer["disks"])

    def ask(self, *words, check=True):
        answer = subprocess.run([HEARTH, "--socket", self.admin, "--json", *words], capture_output=True, check=check)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def page(self):
        """The address of its page."""
        return f"http://127.0.0.1:{self.page_port}/"

    def picture(self, path):
        """Keeps a picture of its page as a browser shows it; gives whether there is one."""
        browser = shutil.which("chromium")
        if browser is None:
            return False
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1100"]
        command += [f"--user-data-dir={DATA}/browser", "--virtual-time-budget=5000", f"--screenshot={path}", self.page()]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
        shutil.rmtree(f"{DATA}/browser", ignore_errors=True)
        return os.path.exists(path)

    def uri(self, disk):
        return f"nbd+unix:///{disk}?socket={self.socket}"

    def counters(self):
        """Hits, lookups and flash bytes of all disks since the daemon started."""
        disks = [disk["counters"] for disk in self.ask("disk", "list")["disks"] if disk["state"] == "attached"]
        hits = sum(disk["read_block_hits"] for disk in disks)
        misses = sum(disk["read_block_misses"] for disk in disks)
        flash = sum(sum(cache["flash_written_bytes"].values()) for cache in self.ask("status")["caches"])
        return {"hits": hits, "lookups": hits + misses, "flash": flash}

    def roaming(self, disk):
        """What `hearth migrate show` says of a disk."""
        return self.ask("migrate", "show", disk)


def qemu(socket_path, export, name, steps, *more):
    """Starts a VM; gives its process and where its console is written."""
    console = os.path.join(DATA, f"{name}-console.log")
    open(console, "w", encoding="ascii").close()
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256"]
    command += ["-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-kernel", f"{GUEST}/vmlinuz", "-initrd", f"{GUEST}/initrd.gz"]
    # no_timer_check: on a busy machine the emulated timer may come too late, and the kernel would panic.
    command += ["-append", f"console=ttyS0 quiet panic=-1 no_timer_check nokaslr random.trust_cpu=on probe={steps}"]
    command += ["-serial", f"file:{console}"]
    command += ["-blockdev", f"driver=nbd,node-name=disk,server.type=unix,server.path={socket_path},export={export}"]
    command += ["-device", "virtio-blk-pci,drive=disk", *more]
    return start(command, os.path.join(DATA, f"{name}-qemu.log")), console


def said(console):
    """What the guest has said, if nothing of it is wrong."""
    with open(console, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if "PROBE bad" in text or "PROBE error" in text or "result=FAIL" in text:
        raise SystemExit(f"demo: the guest found something wrong; its console is {console}\n{text}")
    return text


def value(text, line, key):
    """The last that a guest has said of something."""
    return float(re.findall(rf"PROBE {line} .*?\b{key}=([0-9.]+)", text)[-1])


def rates(text):
    return {
        "iops": value(text, "random", "iops"),
        "p50": value(text, "random", "p50_us"),
        "p99": value(text, "random", "p99_us"),
        "fsync": value(text, "wrote", "p50_us") / 1000,
    }


def guest(socket_path, export, name):
    """Boots the guest, does its work, and gives what it measured."""
    process, console = qemu(socket_path, export, name, GUEST_STEPS)
    wait_for("the guest to power off", lambda: process.poll() is not None)
    started.remove(process)
    text = said(console)
    if "result=PASS" not in text:
        raise SystemExit(f"demo: the guest did not come to its end; its console is {console}\n{text}")
    return rates(text) | {
        "boot": value(text, "start", "uptime_ms") / 1000,
        "read": value(text, "read", "ms") / 1000,
        "read_mib": value(text, "read", "bytes") / MIB,
    }


def preloaded(hearth):
    """Boots with the agent that remembers, then without and with what it reads ahead; what the reads of both waited for."""
    results = []
    for name, steps in (("learns", LEARN_READS + AGENT), ("alone", BOOT_READS), ("preloaded", BOOT_READS + AGENT)):
        process, console = qemu(hearth.socket, "vm1", name, steps)
        wait_for("the guest to power off", lambda process=process: process.poll() is not None)
        started.remove(process)
        text = said(console)
        results.append({"waits": value(text, "read", "waits"), "read": value(text, "read", "ms") / 1000})
    return results[1:]


def hits_of_seconds(hearth, seconds):
    """The part of the blocks read that were hits, in each of the next seconds."""
    ratios, before, began = [], hearth.counters(), time.monotonic()
    for second in range(1, seconds + 1):
        time.sleep(max(0.0, began + second - time.monotonic()))
        after = hearth.counters()
        lookups = after["lookups"] - before["lookups"]
        ratios.append((after["hits"] - before["hits"]) / lookups if lookups else None)
        before = after
    return ratios


def move(hosts, origin, sockets):
    """Migrates the VM live from the first host to the second; gives what it measures there, and what the move cost."""
    at_source, at_destination = hosts
    monitors = [os.path.join(sockets, f"monitor-{name}") for name in migration.NAMES]
    incoming = os.path.join(sockets, "incoming")

    def qmp(place):
        return "-qmp", f"unix:{monitors[place]},server=on,wait=off"

    source, console = qemu(at_source.socket, "vm1", "leaving", ROUND_STEPS, *qmp(0))
    wait_for("the guest to end a round", lambda: said(console).count("PROBE wrote") > 0, source)
    destination, arrived = qemu(at_destination.socket, "vm1", "arriving", ROUND_STEPS, *qmp(1), "-incoming", f"unix:{incoming}")
    wait_for("the other QEMU to listen", lambda: os.path.exists(incoming), destination)
    # A second at least, which QEMU needs for the memory of a larger guest: then it is a migration, and no second start.
    wait_for("the cache to have gone ahead", lambda: at_destination.roaming("vm1")["cache_move"]["came_bytes"] > 0)
    time.sleep(2)
    monitor = migration.Monitor(monitors[0])
    origin.read_bytes()
    downtime = migration.migrate(monitor, incoming)
    wait_for("the disk to be at the other host", lambda: at_destination.roaming("vm1")["role"] == "owner")
    seconds = hits_of_seconds(at_destination, SECONDS_AFTER_MOVE)
    monitor.quit()
    end(source)
    rounds = said(arrived).count("PROBE wrote")
    # The round in which it moved began at the source.
    wait_for("a round at the other host", lambda: said(arrived).count("PROBE wrote") > rounds + 1, destination)
    result = rates(said(arrived)) | {"origin": origin.read_bytes() / MIB}
    counters, roaming = at_destination.counters(), at_destination.roaming("vm1")
    migration.Monitor(monitors[1]).quit()
    end(destination)
    result["ratio"] = counters["hits"] / counters["lookups"]
    result["flash"] = counters["flash"] / MIB
    cost = {
        "downtime": downtime,
        "held": roaming["last_hand_over"]["held_seconds"],
        "link": roaming["cache_move"]["came_bytes"] / MIB,
        "seconds": seconds,
    }
    return result, cost


def fio(uri, depth, offset_mib, size_mib, seconds=None, order="randread"):
    """Reads of 4 KiB: each block of the range once, or for some seconds."""
    out = os.path.join(DATA, "fio.json")
    command = ["fio", "--name=demo", "--ioengine=nbd", "--thread=1", f"--uri={uri}", f"--rw={order}", "--bs=4k"]
    command += [f"--iodepth={depth}", f"--offset={offset_mib}m", f"--size={size_mib}m", "--output-format=json", f"--output={out}"]
    if seconds:
        command += ["--time_based", f"--runtime={seconds}", "--norandommap"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=DATA)
    with open(out, encoding="ascii") as file:
        text = file.read()
    read = json.loads(text[text.index("{") :])["jobs"][0]["read"]
    percentile = read["clat_ns"]["percentile"]
    return {"iops": read["iops"], "p50": percentile["50.000000"] / 1000, "p99": percentile["99.000000"] / 1000}


def make_fio_image(path):
    """Bytes that no file system or cache can shorten."""
    with open(path, "wb") as file:
        for _ in range(FIO_DISK_MIB):
            file.write(os.urandom(MIB))


def measured(hearth, origin, work):
    """Does `work` and adds what reached the origin and the flash meanwhile."""
    origin.read_bytes()
    before = hearth.counters() if hearth else None
    result = work()
    result["origin"] = origin.read_bytes() / MIB
    if hearth:
        # Blocks wait up to a second for company before they go to flash.
        time.sleep(1.5)
        after = hearth.counters()
        lookups = after["lookups"] - before["lookups"]
        result["ratio"] = (after["hits"] - before["hits"]) / lookups if lookups else None
        result["flash"] = (after["flash"] - before["flash"]) / MIB
    return result


def foreseen(hearth, origin, offset_mib):
    """Reads in order and at random of what is not cached, without prefetch and with it."""
    results = []
    for order in ("read", "randread"):
        for miners in ("none", "readahead"):
            hearth.ask("cache", "set", "flash", "--prefetch", miners)
            origin.reads()
            result = fio(hearth.uri(origin.name), 1, offset_mib, FORESEEN_MIB, order=order)
            result["requests"] = len(origin.reads())
            results.append(result)
            offset_mib += FORESEEN_MIB
    hearth.ask("cache", "set", "flash", "--prefetch", "none")
    return results


def table(columns, rows):
    widths = [max(len(row[place]) for row in [columns] + rows) for place in range(len(columns))]
    for row in [columns] + rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "   ".join(cells))
        if row is columns:
            print("  " + "─" * (sum(widths) + 3 * (len(widths) - 1)))


def row(title, key, form, results):
    return [title] + [form.format(each[key]) if each.get(key) is not None else "–" for each in results]


def closing_table(vm, disk, ahead):
    names = ["without Hearth", "cold", "warm", "after kill -9", "after live migration"]
    print()
    print(f"The VM: Linux on an emulated CPU, which takes much of an I/O's time itself. The origin: +{DELAY} a request.")
    table(
        [""] + names,
        [
            row("boot to init", "boot", "{:.2f} s", vm),
            row("random 4 KiB reads, depth 1", "iops", "{:,.0f} IOPS", vm),
            row("  half within", "p50", "{:,.0f} us", vm),
            row("  99 of 100 within", "p99", "{:,.0f} us", vm),
            row(f"then read {vm[0]['read_mib']:.0f} MiB of files", "read", "{:.2f} s", vm),
            row("write a 128 KiB file and fsync", "fsync", "{:.1f} ms", vm),
            row("read from the origin", "origin", "{:.1f} MiB", vm),
            row("blocks read that were hits", "ratio", "{:.1%}", vm),
            row("written to flash", "flash", "{:.1f} MiB", vm),
        ],
    )
    print()
    print("fio beside it, random 4 KiB reads over NBD")
    shallow, deep = [each["shallow"] for each in disk], [each["deep"] for each in disk]
    table(
        [""] + names[:3],
        [
            row("depth 1", "iops", "{:,.0f} IOPS", shallow),
            row("  half within", "p50", "{:,.0f} us", shallow),
            row("  99 of 100 within", "p99", "{:,.0f} us", shallow),
            row("depth 32", "iops", "{:,.0f} IOPS", deep),
            row("  half within", "p50", "{:,.0f} us", deep),
            row("  99 of 100 within", "p99", "{:,.0f} us", deep),
            row("read from the origin", "origin", "{:.1f} MiB", disk),
            row("blocks read that were hits", "ratio", "{:.1%}", disk),
            row("written to flash", "flash", "{:.1f} MiB", disk),
        ],
    )
    print()
    print(f"fio, {FORESEEN_MIB} MiB that nobody has read yet, 4 KiB at a time, depth 1: prefetch off, and 'readahead'")
    table(
        ["", "in order, off", "in order, on", "at random, off", "at random, on"],
        [
            row("reads", "iops", "{:,.0f} IOPS", ahead),
            row("  half within", "p50", "{:,.0f} us", ahead),
            row("  99 of 100 within", "p99", "{:,.0f} us", ahead),
            row("requests to the origin", "requests", "{:,}", ahead),
        ],
    )
    print()


def both_depths(uri, seconds):
    def work():
        return {"shallow": fio(uri, 1, 0, 8, seconds), "deep": fio(uri, 32, 64, 128, seconds)}

    return work


def run(sockets):
    vm_image, fio_image = os.path.join(DATA, "vm1.raw"), os.path.join(DATA, "data.raw")
    subprocess.run(["cp", "--sparse=always", f"{GUEST}/root.raw", vm_image], check=True)
    make_fio_image(fio_image)
    say(f"origin: two disk images behind nbdkit, {DELAY} added to each request")
    vm_origin, fio_origin = Origin("vm1", vm_image, sockets), Origin("data", fio_image, sockets)
    vm, disk = [], []
    migration.make_certificates(DATA)
    ports = [free_port(), free_port()]
    os.makedirs(os.path.join(DATA, "owners"))

    say("1/9 the VM straight from the origin, without Hearth")
    vm.append(measured(None, vm_origin, lambda: guest(vm_origin.socket, "vm1", "without")))
    say("2/9 fio straight from the origin")
    disk.append(measured(None, fio_origin, both_depths(fio_origin.uri(), 4)))

    hearth = Hearth(0, sockets, [vm_origin, fio_origin], migration.link(DATA, 0, ports))
    hearth.start()
    say(f"3/9 hearth serves both disks, {FLASH_MIB} MiB of flash, empty; the VM boots cold")
    say(f"    meanwhile: {hearth.page()} in a browser")
    say(f"    or:        curl http://127.0.0.1:{hearth.port}/metrics")
    say(f"    or:        {os.path.relpath(HEARTH, os.getcwd())} --socket {hearth.admin} top")
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "cold")))
    say("4/9 the VM boots warm")
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "warm")))
    say("5/9 fio through hearth, cold then warm")
    disk.append(measured(hearth, fio_origin, both_depths(hearth.uri("data"), None)))
    disk.append(measured(hearth, fio_origin, both_depths(hearth.uri("data"), 4)))

    say("6/9 fio through hearth, what nobody has read yet, prefetch off and on")
    ahead = foreseen(hearth, fio_origin, FORESEEN_FROM_MIB)

    say("7/9 kill -9 of hearth, start again, the VM boots a third time")
    held = sum(each["cached_blocks"] for each in hearth.ask("disk", "list")["disks"])
    end(hearth.process, signal.SIGKILL)
    ready = hearth.start()
    status = hearth.ask("status")["caches"][0]
    kept = status["recovered_blocks"]
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "killed")))

    say("8/9 the VM boots with an agent in it that remembers its files; then without and with what the agent reads ahead")
    boots = preloaded(hearth)

    say("9/9 a second host with flash of its own; the VM moves there live, while it reads and writes")
    other = Hearth(1, sockets, [vm_origin], migration.link(DATA, 1, ports))
    other.start()
    moved, cost = move((hearth, other), vm_origin, sockets)
    vm.append(moved)

    closing_table(vm, disk, ahead)
    seconds = ", ".join(f"{ratio:.1%}" if ratio is not None else "no read" for ratio in cost["seconds"])
    print(f"  Live migration: the VM stood still for {cost['downtime'] * 1000:.0f} ms, in which Hearth held its disk for {cost['held'] * 1000:.0f} ms.")
    print(f"  Hits in its first {SECONDS_AFTER_MOVE} seconds at the other host: {seconds}. {cost['link']:.1f} MiB of its cache went over the link.")
    alone, with_agent = boots
    print(f"  Second boot: its reads waited {alone['waits']:.0f} times, {alone['read']:.2f} s in all; {with_agent['waits']:.0f} times, {with_agent['read']:.2f} s, with the agent in the guest.")
    print(f"  kill -9: {kept:,} of {held:,} blocks came back ({kept / max(held, 1):.2%}); serving again after {ready:.2f} s,")
    print(f"  {status['recovery_seconds'] * 1000:.0f} ms of that for recovery. Memory of the cache: {status['memory_bytes'] / MIB:.0f} MiB.")
    print(f"  Metrics were at http://127.0.0.1:{hearth.port}/metrics while it ran; logs and consoles are in {os.path.relpath(DATA, os.getcwd())}/")
    print("  HEARTH_DEMO_KEEP=1 make demo leaves it running to look around.")
    picture = os.path.join(DATA, "page.png")
    if hearth.picture(picture):
        print(f"  The page of the first host, at {hearth.page()} while it runs, looks like {os.path.relpath(picture, os.getcwd())}.")
    else:
        print(f"  The page of the first host is at {hearth.page()} while it runs; without Chromium there is no picture of it.")
    if os.environ.get("HEARTH_DEMO_KEEP"):
        input("demo: everything still runs; Enter ends it ")
    for host in (other, hearth):
        end(host.process)


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("demo: interrupted"))
    shutil.rmtree(DATA, ignore_errors=True)
    os.makedirs(DATA)
    # A socket's path has at most 107 bytes, and this folder may lie deep.
    sockets = tempfile.mkdtemp(prefix="hearth-demo-")
    began = time.monotonic()
    try:
        run(sockets)
        say(f"done in {time.monotonic() - began:.0f} s")
    finally:
        for process in reversed(list(started)):
            end(process)
        shutil.rmtree(sockets, ignore_errors=True)
        for name in ("vm1.raw", "data.raw", *(f"{host}-flash.img" for host in migration.NAMES)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(DATA, name))


main()
