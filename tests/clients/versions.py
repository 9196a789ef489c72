"""An NBD client that knows what a disk must hold after its server was cut off.

    versions.py write  URI STATE SECONDS   write until the server is gone (or SECONDS passed)
    versions.py verify URI STATE           read everything that was ever written and compare; from
                                           then on nothing older than what was found may come back

Every 512-byte sector says which disk position and which version it is. STATE keeps for each block
the last version that was acknowledged and all that were sent after it: one of those must be found
in each sector, whole. Flushes and FUA writes are sprinkled in, for what they set off in the server;
nothing more is asked because of them: a server that is killed owes its clients all that it answered.
"""

import json
import random
import struct
import sys
import time

import nbd

BLOCK = 4096
SECTOR = 512
DEPTH = 16
# Of the writes, those that must be durable when they are answered, and those that a flush follows.
FUA = 1 / 24
FLUSH = 1 / 48


def sector(position, version):
    head = struct.pack("<8sQQ", b"VERSIONS", position, version)
    return head + bytes((position // SECTOR * 31 + version * 7 + i) & 0xFF for i in range(SECTOR - len(head)))


def payload(offset, length, version):
    return b"".join(sector(offset + at, version) for at in range(0, length, SECTOR))


def load(path):
    try:
        with open(path, encoding="ascii") as file:
            return {int(block): versions for block, versions in json.load(file).items()}
    except FileNotFoundError:
        return {}


def save(path, state):
    with open(path, "w", encoding="ascii") as file:
        json.dump(state, file)


def connect(uri):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle


def write(uri, path, seconds):
    """State of a block: {"acked": V, "sent": [V, ..]}; `sent` holds what came after `acked`."""
    state = load(path)
    handle = connect(uri)
    blocks = handle.get_size() // BLOCK
    dice = random.Random(len(state))
    version = max((max([s["acked"]] + s["sent"]) for s in state.values()), default=0)
    acked = 0
    in_flight = {}
    ends = time.monotonic() + seconds
    print("writing", flush=True)
    try:
        while time.monotonic() < ends:
            while len(in_flight) < DEPTH:
                count = dice.choice((1, 1, 1, 2, 8))
                first = dice.randrange(blocks - count)
                # Two writes to one block in flight would have no order to check.
                touched = range(first, first + count)
                if any(b in busy for busy, _ in in_flight.values() for b in touched):
                    continue
                version += 1
                for b in touched:
                    state.setdefault(b, {"acked": 0, "sent": []})["sent"].append(version)
                data = payload(first * BLOCK, count * BLOCK, version)
                flags = nbd.CMD_FLAG_FUA if dice.random() < FUA else 0
                buffer = nbd.Buffer.from_bytearray(bytearray(data))
                cookie = handle.aio_pwrite(buffer, first * BLOCK, flags=flags)
                in_flight[cookie] = (touched, version)
                if dice.random() < FLUSH:
                    in_flight[handle.aio_flush()] = ((), 0)
            handle.poll(1000)
            for cookie in list(in_flight):
                if handle.aio_command_completed(cookie):
                    touched, written = in_flight.pop(cookie)
                    acked += 1
                    for b in touched:
                        state[b] = {"acked": written, "sent": []}
                    if acked == 200:
                        print("warm", flush=True)
    except nbd.Error as error:
        print(f"the server is gone: {error}", flush=True)
    save(path, state)
    print(f"acknowledged={acked} unanswered={len(in_flight)} blocks={len(state)}", flush=True)


def verify(uri, path):
    state = load(path)
    handle = connect(uri)
    bad = 0
    for block, versions in sorted(state.items()):
        allowed = set(versions["sent"]) | {versions["acked"]}
        data = handle.pread(BLOCK, block * BLOCK)
        seen = set()
        for at in range(0, BLOCK, SECTOR):
            found = data[at : at + SECTOR]
            position = block * BLOCK + at
            match = next((v for v in allowed if v and found == sector(position, v)), None)
            if match is not None:
                seen.add(match)
                continue
            # A block that was never acknowledged may still hold what it held before.
            if versions["acked"] == 0 and not found.startswith(b"VERSIONS"):
                continue
            bad += 1
            if bad <= 5:
                magic, where, version = struct.unpack("<8sQQ", found[:24])
                print(f"bad sector {position}: {magic} of {where}, version {version}; allowed {sorted(allowed)}")
        if len(seen) == 1:
            state[block] = {"acked": seen.pop(), "sent": []}
    save(path, state)
    print(f"verified blocks={len(state)} bad={bad}")
    if bad or not state:
        sys.exit(1)


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], float(sys.argv[4]))
else:
    verify(sys.argv[2], sys.argv[3])
