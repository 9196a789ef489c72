#!/usr/bin/env python3
"""How fast curves are drawn: accesses a CPU-second of the whole program, reading and printing included.

    benches/curves.py TRACE...        (after cargo build --release -p hearth)
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HEARTH = Path(__file__).parent.parent / "target/release/hearth"
RUNS = 7
METHODS = (["--exact"], ["--sample", "0.01"], ["--samples", "8192"])


def cpu_seconds(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def main():
    print("trace, method, million accesses a CPU-second: median (least-most)")
    for trace in sys.argv[1:]:
        for method in METHODS:
            command = [str(HEARTH), "mrc", trace, *method, "--json"]
            answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            accesses = answer[0]["accesses"] / 1e6
            speeds = sorted(accesses / cpu_seconds(command) for _ in range(RUNS))
            middle = statistics.median(speeds)
            print(f"{Path(trace).name}, {' '.join(method)}, {middle:.1f} ({speeds[0]:.1f}-{speeds[-1]:.1f})")


main()
