"""Where the microseconds go: the daemon's CPU a read hit by stage, from profiles with call stacks.

    benches/run stages

Needs `perf`, and the right to profile the kernel. The daemon's CPU a request is counted by the system; the profile
says how it is shared out. A sample in the kernel belongs to the innermost call that a stage has below, one outside to
the function that it is in. Nothing is instrumented, and the program is the one that is released.
"""

import argparse
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys

import rig as bench

SIZE_MIB = 256
FLASH_MIB = 1024
DEPTHS = (1, 32, 128)
HERTZ = 4999

# In the kernel: the first stage of which a function is in the stack.
KERNEL = (
    ("interrupts of devices, timers", ("handle_softirqs", "asm_common_interrupt", "asm_sysvec_apic_timer_interrupt", "asm_sysvec_call_function_single")),
    ("interrupt to the guest, kick (eventfd)", ("eventfd_write", "eventfd_read", "eventfd_poll", "io_poll_add", "io_poll_task_func")),
    ("NBD: send", ("io_send", "io_sendmsg")),
    ("NBD: receive", ("io_recv", "io_recvmsg")),
    ("flash: the kernel's read", ("__io_read", "io_read", "io_read_fixed", "ext4_file_read_iter", "blkdev_read_iter", "__blk_flush_plug", "io_submit_sqes", "io_req_rw_complete")),
    ("completions: the kernel's part", ("__io_run_local_work", "io_run_local_work", "tctx_task_work")),
    ("asleep and woken", ("io_cqring_wait", "schedule")),
)
KERNEL_REST = "system calls, in and out"
# Outside: the first stage that the function's name, or the library's, matches.
USER = (
    ("waiting awake", r"Inner::turn|has_work|clock_gettime|\[vdso\]"),
    ("checksum", r"crc|checksum|verify_hit|is_whole"),
    ("copies and allocations (libc)", r"libc"),
    ("ring: submission, completion", r"ring::|io_uring|syscall"),
    ("vhost-user: rings, descriptors, answers", r"vhost"),
    ("NBD: parsing, answers", r"nbd|frontend"),
    ("engine: index", r"index::"),
    ("engine: tenancy", r"tenancy|policy::|mrc::"),
    ("engine: the rest", r"cache::|segment_log"),
    ("buffers", r"block_io"),
    ("shard: loop, devices, latency", r"shard::|device::|hashbrown"),
)
USER_REST = "the rest"


def stage(stack):
    """Of a stack of (function, library), innermost first."""
    function, library = stack[0]
    if "kernel" in library:
        inside = {name for name, _ in stack}
        return next((title for title, names in KERNEL if inside & set(names)), KERNEL_REST)
    return next((title for title, pattern in USER if re.search(pattern, f"{function} {library}")), USER_REST)


def samples(path):
    """The stacks of a profile, those of the shard's thread."""
    said = subprocess.run(["perf", "script", "-i", path, "-F", "comm,ip,sym,dso"], capture_output=True, text=True, check=True).stdout
    for block in said.split("\n\n"):
        head, *frames = block.strip().split("\n")
        found = (re.match(r"\s*[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$", frame) for frame in frames)
        stack = [match.groups() for match in found if match]
        if head.startswith("shard") and stack:
            yield stack


def load(address, depth, seconds):
    options = ["--rw=randread", "--bs=4k", "--norandommap", "--time_based", f"--runtime={seconds}", f"--iodepth={depth}", f"--size={SIZE_MIB}m"]
    return subprocess.Popen([bench.HEARTH, "--json", "bench", address, *options], stdout=subprocess.DEVNULL)


def profile(daemon, address, depth, seconds):
    """Microseconds of the daemon's CPU a read by stage."""
    path, pid = os.path.join(bench.DATA, "perf.data"), daemon.process.pid
    client = load(address, depth, seconds + 2)
    requests, cpu = daemon.counters()["read_requests"], bench.cpu_seconds([pid])
    record = ["perf", "record", "-q", "-F", str(HERTZ), "-g", "-p", str(pid), "-o", path, "--", "sleep", str(seconds)]
    subprocess.run(record, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    cpu, requests = bench.cpu_seconds([pid]) - cpu, daemon.counters()["read_requests"] - requests
    client.wait()
    counted = collections.Counter(stage(stack) for stack in samples(path))
    each = cpu / requests * 1e6
    return {title: count / counted.total() * each for title, count in counted.items()} | {"all": each}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each profile")
    arguments = parser.parse_args()
    if not shutil.which("perf"):
        sys.exit("bench: perf is not installed (Debian: linux-perf)")
    columns = [(front, depth) for front in ("vhost-user", "NBD") for depth in DEPTHS]
    runs = {column: [] for column in columns}
    with bench.Rig() as rig:
        origin, flash = rig.socket("origin"), os.path.join(bench.DATA, "stages.flash")
        rig.start("origin", ["nbdkit", "-f", "-U", origin, "memory", f"{SIZE_MIB}M"], origin)
        daemon = bench.Hearth(rig, flash, FLASH_MIB * bench.MIB, f"nbd+unix:///?socket={origin}", vhost_user=True)
        daemon.start()
        addresses = {"vhost-user": f"vhost-user:{daemon.vhost}", "NBD": daemon.uri()}
        for _ in range(2):
            warm = [bench.HEARTH, "bench", daemon.uri(), "--rw=read", "--bs=1m", "--iodepth=8", f"--size={SIZE_MIB}m"]
            subprocess.run(warm, check=True, stdout=subprocess.DEVNULL)
        missed, busy = daemon.counters()["read_block_misses"], []
        for _ in range(arguments.reps):
            for front, depth in columns:
                before = bench.busy_seconds()
                runs[front, depth].append(profile(daemon, addresses[front], depth, arguments.seconds))
                busy.append(bench.busy_seconds() - before)
        missed = daemon.counters()["read_block_misses"] - missed
    titles = [*(title for title, _ in KERNEL), KERNEL_REST, *(title for title, _ in USER), USER_REST]
    middle = {column: {title: statistics.median(run.get(title, 0) for run in runs[column]) for title in [*titles, "all"]} for column in columns}
    titles.sort(key=lambda title: -middle["vhost-user", 32][title])
    rows = [[title, *(f"{middle[column][title]:.2f}" for column in columns)] for title in titles]
    rows.append(["**all, median**", *(f"{middle[column]['all']:.2f}" for column in columns)])
    ranges = [(min(run["all"] for run in runs[column]), max(run["all"] for run in runs[column])) for column in columns]
    rows.append(["least and most", *(f"{least:.2f}–{most:.2f}" for least, most in ranges)])
    text = [
        "# Where the microseconds go",
        "`benches/run stages`",
        f"{bench.machine()}. The daemon's CPU for a random read hit of 4 KiB, in microseconds, by stage: profiles with call stacks ({HERTZ} samples a second of "
        f"CPU), {arguments.reps} of {arguments.seconds} s each in turn, medians of each stage (so that columns add up nearly); blocks missed meanwhile: {missed}. "
        "Waiting awake is the wait of at most 50 us after work; what the disk's interrupts cost falls on whoever runs.",
        bench.table(["stage", *(f"{front}, depth {depth}" for front, depth in columns)], rows),
    ]
    bench.write_result("stages", "\n\n".join(text))


main()
