"""Reads of a Ceph image and an iSCSI unit through Hearth with nothing cached, beside the storage's own client, by turns.

Ceph: fio on librbd, Hearth's origin alone, and fio on Hearth's export. iSCSI: a loop over libiscsi (`iscsi-perf`), `qemu-nbd`
over QEMU's iscsi driver, Hearth's origin alone, and Hearth's export. The origin alone is `crates/origin/examples/reads.rs`, without
cache and front end. Everything is on one machine: the storage takes its share of the processors from whoever reads. Needs ceph-mon, ceph-osd, tgt, libiscsi-bin, fio and qemu-block-extra.
"""

import argparse
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys

import rig

READS = os.path.join(os.path.dirname(rig.HEARTH), "examples", "reads")
CEPH = os.path.join(rig.ROOT, "scripts", "ceph")
TARGET = "iqn.2026-01.org.example:bench"
SIZE_MIB = 256
# A sixteenth of the image at most.
FLASH = "16MiB"


def free_port():
    """One that is also a number of tgt's control sockets."""
    for port in range(20000, 30000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    sys.exit("bench: no port is free")


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start(lab, name, command, is_so):
    with open(os.path.join(rig.DATA, f"{name}.log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    lab.started.append(process)
    rig.wait_for(name, is_so, process)


def ceph(lab, data):
    """A cluster with two images of the same bytes: one of them is Hearth's alone."""
    folder = os.path.join(lab.sockets, "ceph")
    conf = os.path.join(folder, "ceph.conf")
    start(lab, "ceph", [CEPH, folder, str(free_port())], lambda: os.path.exists(os.path.join(folder, "ready")))
    os.environ["CEPH_CONF"] = conf
    for image in ("own", "other"):
        subprocess.run(["rbd", "import", "--no-progress", data, f"rbd/{image}"], check=True)
    return conf


def target(lab, data):
    """A target with two units of the same bytes."""
    port = free_port()
    os.makedirs("/var/run/tgtd", exist_ok=True)
    start(lab, "tgtd", ["tgtd", "-f", "-C", str(port), "--iscsi", f"portal=127.0.0.1:{port}"], lambda: answers(port))

    def tell(*words):
        subprocess.run(["tgtadm", "-C", str(port), "--lld", "iscsi", *words], check=True)

    tell("--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET)
    for unit in ("1", "2"):
        file = f"{data}-{unit}"
        subprocess.run(["cp", data, file], check=True)
        tell("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", unit, "--backing-store", file)
    tell("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
    return f"iscsi://127.0.0.1:{port}/{TARGET}"


def hearth(lab, disks):
    """A daemon whose cache is too small to matter; the address of each disk for fio."""
    flash, listen = os.path.join(rig.DATA, "origins.flash"), lab.socket("origins")
    folder = os.path.join(lab.sockets, "state")
    os.makedirs(folder)
    config = os.path.join(lab.sockets, "hearth.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(
            f"[daemon]\nadmin_socket = '{lab.socket('admin')}'\nstate_dir = '{folder}'\nmetrics_address = 'off'\nlog = 'warn'\n"
            f"[nbd]\nunix_socket = '{listen}'\n[[cache]]\nname = 'flash'\npath = '{flash}'\n"
        )
        for name, origin in disks.items():
            file.write(f"[[disk]]\nname = '{name}'\norigin = {origin}\n")
    subprocess.run([rig.HEARTH, "cache", "format", flash, "--size", FLASH, "--force"], check=True, stdout=subprocess.DEVNULL)
    lab.start("hearth-origins", [rig.HEARTH, "serve", "--config", config], listen)
    return {name: f"--uri=nbd+unix:///{name}?socket={listen}" for name in disks}


def by_fio(depth, seconds, *options):
    common = ["--rw=randread", "--bs=4k", f"--iodepth={depth}", f"--runtime={seconds}", "--time_based", f"--size={SIZE_MIB}m"]
    return rig.fio([*common, *options])["iops"]


def by_libiscsi(url, depth, seconds):
    words = ["iscsi-perf", "-r", "-b", "8", "-m", str(depth), "-t", str(seconds), url]
    said = subprocess.run(words, capture_output=True, check=True).stdout.decode()
    found = re.findall(r"iops average\s+(\d+)", said)
    if not found:
        sys.exit(f"bench: iscsi-perf says no average: {said[-300:]}")
    return float(found[-1])


def by_origin(*words):
    said = subprocess.run([READS, *map(str, words)], capture_output=True, check=True).stdout
    return float(said)


def beside(title, sides, repetitions):
    """A row of each side; the first one is what the others are compared with."""
    base = next(iter(sides))
    measured = {name: [] for name in sides}
    for repetition in range(repetitions):
        for name in rig.in_turn(sides, repetition):
            measured[name].append(sides[name]())
    rows = []
    for name, values in measured.items():
        ratios = [one / other for one, other in zip(values, measured[base], strict=True)]
        rows.append([title, name, f"{statistics.median(values):.0f}", rig.spread(ratios)])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=rig.SECONDS)
    parser.add_argument("--reps", type=int, default=5)
    arguments = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "--locked", "--package=origin", "--example=reads"], cwd=rig.ROOT, check=True)
    with rig.Rig() as lab:
        data = os.path.join(rig.DATA, "origins.data")
        with open(data, "wb") as file:
            file.write(os.urandom(1 << 20) * SIZE_MIB)
        conf, url = ceph(lab, data), target(lab, data)
        portal = url.split("/")[2]
        bridge = lab.socket("bridge")
        lab.start("bridge", ["qemu-nbd", "--persistent", "--shared=4", "--read-only", "--format=raw", "--socket", bridge, f"{url}/2"], bridge)
        exports = hearth(lab, {"ceph": f'{{ rbd = "rbd:rbd/own?conf={conf}" }}', "iscsi": f'{{ iscsi = "{url}/1" }}'})
        rows = []
        for depth in (1, 32):
            at, time = f"depth {depth}", arguments.seconds
            rows += beside(f"Ceph, {at}", {
                "fio on librbd": lambda: by_fio(depth, time, "--ioengine=rbd", "--pool=rbd", "--rbdname=other", "--clientname=admin"),
                "Hearth's origin alone": lambda: by_origin("ceph", conf, "admin", "rbd", "other", depth, time),
                "Hearth over NBD": lambda: by_fio(depth, time, "--ioengine=nbd", exports["ceph"]),
            }, arguments.reps)
            rows += beside(f"iSCSI, {at}", {
                "a loop over libiscsi": lambda: by_libiscsi(f"{url}/2", depth, time),
                "qemu-nbd": lambda: by_fio(depth, time, "--ioengine=nbd", f"--uri=nbd+unix:///?socket={bridge}"),
                "Hearth's origin alone": lambda: by_origin("iscsi", portal, TARGET, 2, depth, time),
                "Hearth over NBD": lambda: by_fio(depth, time, "--ioengine=nbd", exports["iscsi"]),
            }, arguments.reps)
        text = rig.table(["storage", "read by", "reads/s", "beside the first (least-most)"], rows)
        rig.write_result("origins", f"# Origins beside their own clients\n\n4 KiB at random, nothing cached. `benches/run origins`, {rig.machine()}, load {os.getloadavg()[0]:.1f}.\n\n{text}")


if __name__ == "__main__":
    main()
