"""What the benchmarks share: servers that end with the run, fio, the daemon, tables in `benches/results`."""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEARTH = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "hearth")
DATA = os.environ.get("HEARTH_BENCH_DIR", os.path.join(ROOT, "scratch", "bench"))
RESULTS = os.path.join(ROOT, "benches", "results")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
DEADLINE_SECONDS = 120
# Of each measured run, unless told otherwise.
SECONDS = 4
# How often a run is tried that other processes disturb.
ATTEMPTS = 3


class Rig:
    """A folder, sockets, and processes that end with the run."""

    def __init__(self):
        os.makedirs(DATA, exist_ok=True)
        self.sockets = tempfile.mkdtemp(prefix="hearth-bench-")
        self.started = []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.started)):
            self.end(process)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def socket(self, name):
        return os.path.join(self.sockets, f"{name}.sock")

    def start(self, name, command, path):
        """Starts a server and waits until it listens on the unix socket `path`."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with open(os.path.join(DATA, f"{name}.log"), "ab") as log:
            # nbdkit's cache filter keeps its blocks in TMPDIR: the same disk as everybody's.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "TMPDIR": DATA})
        self.started.append(process)
        wait_for(name, lambda: listens(path), process)
        return process

    def end(self, process, how=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.started:
            self.started.remove(process)


def wait_for(what, is_so, process, deadline=DEADLINE_SECONDS):
    ends = time.monotonic() + deadline
    while not is_so():
        if process.poll() is not None:
            sys.exit(f"bench: {what} ended with {process.returncode}; its log is in {DATA}")
        if time.monotonic() > ends:
            sys.exit(f"bench: waited {deadline} s for {what}")
        time.sleep(0.005)


def listens(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def cpu_seconds(pids):
    """CPU time that processes have used so far."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def busy_seconds():
    """CPU time of the whole machine so far, idle and waiting left out."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


class Hearth:
    """The daemon with one cache and one disk on an NBD origin."""

    def __init__(self, rig, flash, flash_bytes, origin_uri, disk="disk", read_only=False, vhost_user=False):
        self.rig, self.disk = rig, disk
        self.vhost = rig.socket("vhost") if vhost_user else None
        self.admin, self.listen = rig.socket("admin"), rig.socket("hearth")
        self.config = os.path.join(DATA, "hearth.toml")
        state = os.path.join(DATA, "state")
        shutil.rmtree(state, ignore_errors=True)
        os.makedirs(state)
        with open(self.config, "w", encoding="ascii") as file:
            file.write(
                f"[daemon]\nadmin_socket = '{self.admin}'\nstate_dir = '{state}'\nmetrics_address = 'off'\n"
                f"log = 'warn'\nlog_target = 'stderr'\n\n[nbd]\nunix_socket = '{self.listen}'\n\n"
                f"[[cache]]\nname = 'flash'\npath = '{flash}'\n\n"
                f"[[disk]]\nname = '{disk}'\nread_only = {str(read_only).lower()}\n"
                f"origin = {{ nbd = '{origin_uri}' }}\n"
            )
            if vhost_user:
                file.write(f"\n[disk.vhost_user]\nsocket = '{self.vhost}'\n")
        subprocess.run([HEARTH, "cache", "format", flash, "--size", f"{flash_bytes}B", "--force"], check=True, stdout=subprocess.DEVNULL)
        self.process = None

    def start(self):
        """Starts it; gives the seconds until the disk could be used."""
        began = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.admin)
        self.process = self.rig.start("hearth", [HEARTH, "serve", "--config", self.config], self.listen)
        wait_for("the disk", self.is_ready, self.process)
        return time.monotonic() - began

    def is_ready(self):
        answer = subprocess.run([HEARTH, "--socket", self.admin, "--json", "disk", "show", self.disk], capture_output=True)
        return answer.returncode == 0 and json.loads(answer.stdout)["state"] == "attached"

    def ask(self, *words):
        answer = subprocess.run([HEARTH, "--socket", self.admin, "--json", *words], capture_output=True, check=True)
        return json.loads(answer.stdout)

    def cache(self):
        return self.ask("status")["caches"][0]

    def counters(self):
        return self.ask("disk", "show", self.disk)["counters"]

    def uri(self):
        return f"nbd+unix:///{self.disk}?socket={self.listen}"


def fio(options, out="fio.json"):
    """Runs one fio job and gives its read side, with fio's own CPU seconds."""
    path = os.path.join(DATA, out)
    command = ["fio", "--name=bench", "--thread=1", "--randrepeat=0", "--output-format=json", f"--output={path}", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=DATA)
    with open(path, encoding="ascii") as file:
        text = file.read()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    read = job["read"]
    if job["error"] or not read["total_ios"]:
        sys.exit(f"bench: fio failed: {command}")
    percentile = read["clat_ns"]["percentile"]
    return {
        "iops": read["iops"],
        "p50_us": percentile["50.000000"] / 1000,
        "p99_us": percentile["99.000000"] / 1000,
        "ios": read["total_ios"],
        "bytes_second": read["bw_bytes"],
    }


def hearth_bench(address, size_mib, options):
    """Runs `hearth bench` and gives its job: what fio calls so, over vhost-user and NBD and on raw files."""
    command = [HEARTH, "--json", "bench", address, f"--size={size_mib}m", *options]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"bench: {address}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)["jobs"][0]


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return (
        f"{os.cpu_count()} CPUs ({model.group(1) if model else platform.machine()}), Linux {platform.release().split('-')[0]}, "
        f"{time.strftime('%Y-%m-%d')}, commit {commit}"
    )


def versions():
    """What was measured, of those that are installed."""
    asked = {"qemu-nbd": "qemu-nbd", "qemu-storage-daemon": "qemu-storage-daemon", "nbdkit": "nbdkit", "fio": "fio"}
    found = []
    for title, program in asked.items():
        if shutil.which(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            number = re.search(r"\d+(\.\d+)+", said)
            found.append(f"{title} {number.group(0) if number else '?'}")
    return ", ".join(found)


def in_turn(states, repetition):
    """The names of states, in an order that rotates with each repetition."""
    names = list(states)
    turn = repetition % len(names)
    return names[turn:] + names[:turn]


def spread(values, form="%.2f"):
    """The median, with the least and the most."""
    return f"{form % statistics.median(values)} ({form % min(values)}-{form % max(values)})"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def write_result(name, text):
    """Replaces the table `name` in `benches/results`."""
    with open(os.path.join(RESULTS, f"{name}.md"), "w", encoding="utf-8") as file:
        file.write(f"{text.strip()}\n")
    print(text)
