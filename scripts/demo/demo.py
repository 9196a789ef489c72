"""The product shown in two minutes: a VM's disk on a slow origin, without Hearth and with it.

Every figure in the closing table was measured in this run. The origin's bytes come from the origin's
own log, everything else that Hearth knows from `hearth status` and `hearth disk show`.

    VM ── NBD ── hearth ── NBD ── nbdkit, +1 ms a request ── disk image
                   └── flash file
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


def free_port():
    for port in (9809, 0):
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

    def read_bytes(self):
        """Bytes read from it since the last call."""
        total = 0
        with open(self.log, encoding="ascii", errors="replace") as file:
            file.seek(self.seen)
            for line in file:
                match = re.search(r" Read id=\S+ offset=\S+ count=0x([0-9a-f]+)", line)
                total += int(match.group(1), 16) if match else 0
            self.seen = file.tell()
        return total


class Hearth:
    """The daemon, asked through its command line."""

    def __init__(self, sockets, origins):
        self.admin = os.path.join(sockets, "admin.sock")
        self.socket = os.path.join(sockets, "hearth.sock")
        self.port = free_port()
        self.flash = os.path.join(DATA, "flash.img")
        self.config = os.path.join(DATA, "hearth.toml")
        self.disks = [origin.name for origin in origins]
        self.process = None
        os.makedirs(os.path.join(DATA, "state"))
        with open(self.config, "w", encoding="ascii") as file:
            file.write(
                f"[daemon]\nadmin_socket = '{self.admin}'\nstate_dir = '{DATA}/state'\n"
                f"metrics_address = '127.0.0.1:{self.port}'\nlog_target = 'stderr'\n\n"
                f"[nbd]\nunix_socket = '{self.socket}'\n\n"
                f"[[cache]]\nname = 'flash'\npath = '{self.flash}'\n"
            )
            for origin in origins:
                file.write(f"\n[[disk]]\nname = '{origin.name}'\norigin = {{ nbd = '{origin.uri()}' }}\n")
        subprocess.run([HEARTH, "cache", "format", self.flash, "--size", f"{FLASH_MIB}MiB"], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        """Starts it and gives the seconds until its disks could be used."""
        for path in (self.admin, self.socket):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        began = time.monotonic()
        self.process = start([HEARTH, "serve", "--config", self.config], os.path.join(DATA, "hearth.log"))
        wait_for("hearth", lambda: listens(self.socket) and self.is_ready(), self.process)
        return time.monotonic() - began

    def is_ready(self):
        answer = self.ask("disk", "list", check=False)
        return answer is not None and all(disk["state"] == "attached" for disk in answer["disks"])

    def ask(self, *words, check=True):
        answer = subprocess.run([HEARTH, "--socket", self.admin, "--json", *words], capture_output=True, check=check)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def uri(self, disk):
        return f"nbd+unix:///{disk}?socket={self.socket}"

    def counters(self):
        """Hits, lookups and flash bytes of all disks since the daemon started."""
        disks = [disk["counters"] for disk in self.ask("disk", "list")["disks"]]
        hits = sum(disk["read_block_hits"] for disk in disks)
        misses = sum(disk["read_block_misses"] for disk in disks)
        flash = sum(sum(cache["flash_written_bytes"].values()) for cache in self.ask("status")["caches"])
        return {"hits": hits, "lookups": hits + misses, "flash": flash}


def guest(socket_path, export, name):
    """Boots the guest, does its work, and gives what it measured."""
    console = os.path.join(DATA, f"{name}-console.log")
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256"]
    command += ["-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-kernel", f"{GUEST}/vmlinuz", "-initrd", f"{GUEST}/initrd.gz"]
    # no_timer_check: on a busy machine the emulated timer may come too late, and the kernel would panic.
    command += ["-append", f"console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on probe={GUEST_STEPS}"]
    command += ["-serial", f"file:{console}"]
    command += ["-blockdev", f"driver=nbd,node-name=disk,server.type=unix,server.path={socket_path},export={export}"]
    command += ["-device", "virtio-blk-pci,drive=disk"]
    process = start(command, os.path.join(DATA, f"{name}-qemu.log"))
    wait_for("the guest to power off", lambda: process.poll() is not None)
    started.remove(process)
    with open(console, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if "result=PASS" not in text:
        raise SystemExit(f"demo: the guest found something wrong; its console is {console}\n{text}")

    def value(line, key):
        return float(re.search(rf"PROBE {line} .*?\b{key}=([0-9.]+)", text).group(1))

    return {
        "boot": value("start", "uptime_ms") / 1000,
        "read": value("read", "ms") / 1000,
        "read_mib": value("read", "bytes") / MIB,
        "iops": value("random", "iops"),
        "p50": value("random", "p50_us"),
        "p99": value("random", "p99_us"),
        "fsync": value("wrote", "p50_us") / 1000,
    }


def fio(uri, depth, offset_mib, size_mib, seconds=None):
    """Random reads of 4 KiB: each block of the range once, or for some seconds."""
    out = os.path.join(DATA, "fio.json")
    command = ["fio", "--name=demo", "--ioengine=nbd", "--thread=1", f"--uri={uri}", "--rw=randread", "--bs=4k"]
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


def table(columns, rows):
    widths = [max(len(row[place]) for row in [columns] + rows) for place in range(len(columns))]
    for row in [columns] + rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "   ".join(cells))
        if row is columns:
            print("  " + "─" * (sum(widths) + 3 * (len(widths) - 1)))


def row(title, key, form, results):
    return [title] + [form.format(each[key]) if each.get(key) is not None else "–" for each in results]


def closing_table(vm, disk):
    names = ["without Hearth", "cold", "warm", "after kill -9"]
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

    say("1/6 the VM straight from the origin, without Hearth")
    vm.append(measured(None, vm_origin, lambda: guest(vm_origin.socket, "vm1", "without")))
    say("2/6 fio straight from the origin")
    disk.append(measured(None, fio_origin, both_depths(fio_origin.uri(), 4)))

    hearth = Hearth(sockets, [vm_origin, fio_origin])
    hearth.start()
    say(f"3/6 hearth serves both disks, {FLASH_MIB} MiB of flash, empty; the VM boots cold")
    say(f"    meanwhile: curl http://127.0.0.1:{hearth.port}/metrics")
    say(f"    or:        {os.path.relpath(HEARTH, os.getcwd())} --socket {hearth.admin} top")
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "cold")))
    say("4/6 the VM boots warm")
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "warm")))
    say("5/6 fio through hearth, cold then warm")
    disk.append(measured(hearth, fio_origin, both_depths(hearth.uri("data"), None)))
    disk.append(measured(hearth, fio_origin, both_depths(hearth.uri("data"), 4)))

    say("6/6 kill -9 of hearth, start again, the VM boots a third time")
    held = sum(each["cached_blocks"] for each in hearth.ask("disk", "list")["disks"])
    end(hearth.process, signal.SIGKILL)
    ready = hearth.start()
    status = hearth.ask("status")["caches"][0]
    kept = status["recovered_blocks"]
    vm.append(measured(hearth, vm_origin, lambda: guest(hearth.socket, "vm1", "killed")))

    closing_table(vm, disk)
    print(f"  kill -9: {kept:,} of {held:,} blocks came back ({kept / max(held, 1):.2%}); serving again after {ready:.2f} s,")
    print(f"  {status['recovery_seconds'] * 1000:.0f} ms of that for recovery. Memory of the cache: {status['memory_bytes'] / MIB:.0f} MiB.")
    print(f"  Metrics were at http://127.0.0.1:{hearth.port}/metrics while it ran; logs and consoles are in {os.path.relpath(DATA, os.getcwd())}/")
    print("  HEARTH_DEMO_KEEP=1 make demo leaves it running to look around.")
    if os.environ.get("HEARTH_DEMO_KEEP"):
        input("demo: everything still runs; Enter ends it ")
    end(hearth.process)


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
        for name in ("vm1.raw", "data.raw", "flash.img"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(DATA, name))


main()
