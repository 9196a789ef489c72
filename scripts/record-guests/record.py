"""Boots guests from one base image through Hearth, each with its own overlay, and records what they ask.

    guest ── qcow2 ─┬─ own disk  NBD ─┐
                    └─ base image NBD ┴── hearth ── files
                                            └── trace record

Each guest's root is a qcow2 overlay that lies on a disk of its own; what the overlay does not hold is
read from the base image, through an export that is the guest's own, so that each record says which VM
asked. The guests run at the same time and do different work (`work` in this folder).

    record.py --image base.raw --output guests.csv.zst [--hearth PROGRAM] [--guest DIR] [--memory MIB]
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

WORK = ["search", "database", "build", "verify", "idle"]
# One begins after the other, as after a power cut, in seconds.
STAGGER_SECONDS = 4
OVERLAY_MIB = 1536
FLASH_MIB = 2048
DEADLINE_SECONDS = 3600

started = []


def say(text):
    print(f"record-guests: {text}", flush=True)


def start(command, log):
    with open(log, "ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    started.append(process)
    return process


def listens(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def wait_for(what, is_so, alive, deadline=60):
    ends = time.monotonic() + deadline
    while not is_so():
        if alive.poll() is not None:
            raise SystemExit(f"record-guests: {what}: the program ended with {alive.returncode}")
        if time.monotonic() > ends:
            raise SystemExit(f"record-guests: waited {deadline} s for {what}")
        time.sleep(0.05)


def overlay(path):
    """An empty overlay in a file that is as large as it may become: an NBD export does not grow."""
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "base", "-F", "raw", path, f"{OVERLAY_MIB - 256}M"],
        check=True,
    )
    os.truncate(path, OVERLAY_MIB << 20)


def configuration(folder, image):
    text = (
        f"[daemon]\nadmin_socket = '{folder}/admin.sock'\nstate_dir = '{folder}/state'\n"
        "metrics_address = 'off'\nlog_target = 'stderr'\n\n"
        f"[nbd]\nunix_socket = '{folder}/nbd.sock'\n\n"
        f"[[cache]]\nname = 'flash'\npath = '{folder}/flash.img'\n\n"
        f"[[disk]]\nname = 'debian-12'\nshared = true\norigin = {{ file = '{image}' }}\n"
    )
    for work in WORK:
        text += (
            f"\n[[vm]]\nname = '{work}'\nimages = ['debian-12']\n"
            f"\n[[disk]]\nname = '{work}-root'\nvm = '{work}'\norigin = {{ file = '{folder}/{work}.qcow2' }}\n"
        )
    return text


def boot(folder, guest, work, memory):
    nbd = f"driver=nbd,server.type=unix,server.path={folder}/nbd.sock"
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1"]
    command += ["-m", str(memory), "-nodefaults", "-display", "none"]
    command += ["-kernel", f"{guest}/vmlinuz", "-initrd", f"{guest}/initrd.gz"]
    # no_timer_check: on a busy machine the emulated timer may come too late, and the kernel would panic.
    command += ["-append", f"console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on work={work}"]
    command += ["-serial", f"file:{folder}/{work}-console.log"]
    command += ["-blockdev", f"{nbd},node-name=own,export={work}-root,discard=unmap"]
    command += ["-blockdev", f"{nbd},node-name=image,export=debian-12@{work},read-only=on"]
    command += ["-blockdev", "driver=raw,node-name=base,file=image,read-only=on"]
    command += ["-blockdev", "driver=qcow2,node-name=root,file=own,backing=base,discard=unmap"]
    command += ["-device", "virtio-blk-pci,drive=root"]
    return start(command, f"{folder}/{work}-qemu.log")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", required=True, help="the base image, from `image`")
    parser.add_argument("--output", required=True, help="the trace; must not exist")
    parser.add_argument("--hearth", required=True, help="the program")
    parser.add_argument("--guest", required=True, help="the folder of vmlinuz and initrd.gz, from scripts/guest/build")
    parser.add_argument("--memory", type=int, default=192, help="of each guest, in MiB")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and disks")
    arguments = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="record-guests-")
    output = os.path.abspath(arguments.output)
    os.mkdir(f"{folder}/state")
    for work in WORK:
        overlay(f"{folder}/{work}.qcow2")
    with open(f"{folder}/hearth.toml", "w", encoding="ascii") as file:
        file.write(configuration(folder, os.path.abspath(arguments.image)))
    subprocess.run(
        [arguments.hearth, "cache", "format", f"{folder}/flash.img", "--size", f"{FLASH_MIB}MiB"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    daemon = start([arguments.hearth, "serve", "--config", f"{folder}/hearth.toml"], f"{folder}/hearth.log")
    wait_for("hearth to serve", lambda: listens(f"{folder}/nbd.sock"), daemon)

    def ask(*words):
        command = [arguments.hearth, "--socket", f"{folder}/admin.sock", "--json", *words]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    ask("trace", "record", "--output", output)
    begun = time.monotonic()
    guests = {}
    for work in WORK:
        guests[work] = boot(folder, os.path.abspath(arguments.guest), work, arguments.memory)
        say(f"{work} boots")
        time.sleep(STAGGER_SECONDS)
    while guests:
        for work, process in list(guests.items()):
            if process.poll() is None:
                continue
            with open(f"{folder}/{work}-console.log", encoding="utf-8", errors="replace") as file:
                ended = f"WORK {work}" in (said := file.read()) and " ends" in said
            say(f"{work} {'has ended its work' if ended else 'ENDED EARLY'} after {time.monotonic() - begun:.0f} s")
            if not ended:
                raise SystemExit(f"record-guests: the console of {work} is in {folder}")
            del guests[work]
        if time.monotonic() - begun > DEADLINE_SECONDS:
            raise SystemExit(f"record-guests: {', '.join(guests)} after {DEADLINE_SECONDS} s; consoles are in {folder}")
        time.sleep(0.5)
    recording = ask("trace", "record", "--stop")
    status = ask("disk", "list")
    daemon.terminate()
    daemon.wait()
    say(f"{recording['requests']} requests, {recording['lost_requests']} lost, {os.path.getsize(output)} bytes")
    for disk in status["disks"]:
        counters = disk["counters"]
        say(f"{disk['name']}: {counters['read_bytes'] >> 20} MiB read, {counters['written_bytes'] >> 20} MiB written")
    if recording["lost_requests"]:
        raise SystemExit("record-guests: requests were lost; record again on a quieter machine")
    if arguments.keep:
        say(f"kept {folder}")
    else:
        shutil.rmtree(folder)


try:
    main()
finally:
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
sys.exit(0)
