"""Two hosts on one machine, and the live migration of a VM between their QEMUs."""

import contextlib
import json
import os
import socket
import subprocess
import time

NAMES = ("node-a", "node-b")
DISK_ID = "6ab2c7f031a54d0e9d330f0a52a1c111"


def make_certificates(folder):
    """An authority, and a certificate for each host."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

    def openssl(line):
        subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)

    openssl(f"req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=hearth-demo")
    for name in NAMES:
        with open(os.path.join(folder, "host.ext"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl(f"req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}")
        openssl(
            f"x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial "
            f"-out {name}.pem -days 2 -extfile host.ext"
        )


def link(folder, place, ports):
    """What the configuration of a host says about the other one."""
    name, peer = NAMES[place], NAMES[1 - place]
    return (
        f"\n[link]\nname = '{name}'\naddress = '127.0.0.1:{ports[place]}'\ncertificate = '{folder}/{name}.pem'\n"
        f"key = '{folder}/{name}.key'\nauthority = '{folder}/authority.pem'\n"
        f"\n[[peer]]\nname = '{peer}'\naddress = '127.0.0.1:{ports[1 - place]}'\n"
    )


class Monitor:
    """QEMU's monitor: a command at a time."""

    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.lines = self.stream.makefile("r", encoding="utf-8")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.stream.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            answer = json.loads(self.lines.readline())
            if "error" in answer:
                raise SystemExit(f"demo: QEMU: {command}: {answer['error']['desc']}")
            # Anything else is an event.
            if "return" in answer:
                return answer["return"]

    def quit(self):
        with contextlib.suppress(OSError, ValueError):
            self.ask("quit")
        self.stream.close()


def migrate(monitor, path):
    """Moves the guest to the QEMU that listens at `path`; gives how long it did not run, in seconds."""
    # In one pass: an emulated CPU loses pages of memory when there are several.
    monitor.ask("migrate-set-parameters", **{"max-bandwidth": 2_000_000_000, "downtime-limit": 60_000})
    monitor.ask("migrate", uri=f"unix:{path}")
    while True:
        state = monitor.ask("query-migrate")
        if state.get("status") == "completed":
            return state["downtime"] / 1000
        if state.get("status") == "failed":
            raise SystemExit(f"demo: the migration failed: {state.get('error-desc')}")
        time.sleep(0.02)
