"""An NBD client that knows what a disk must hold after its server was cut off.

    versions.py write  URI STATE SECONDS   write until the server is gone (or SECONDS passed)
    versions.py verify URI STATE           read everything that was ever written and compare; from
                                           then on nothing older than what was found may come back
    versions.py record URI EVENTS SECONDS  write, and note when each request was sent and answered
    versions.py judge  WHAT IMAGE EVENTS AT  whether IMAGE is what a power cut at the monotonic time AT
                                           may leave: WHAT is `disk` or `origin`

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


def write(uri, path, seconds, note=lambda *event: None):
    """State of a block: {"acked": V, "sent": [V, ..]}; `sent` holds what came after `acked`.

    An event is ("sent" | "answered", version, first block, blocks, FUA), a flush has a
    negative number.
    """
    state = load(path)
    handle = connect(uri)
    blocks = handle.get_size() // BLOCK
    dice = random.Random(len(state))
    version = max((max([s["acked"]] + s["sent"]) for s in state.values()), default=0)
    acked = flushes = 0
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
                note("sent", version, first, count, flags)
                cookie = handle.aio_pwrite(buffer, first * BLOCK, flags=flags)
                in_flight[cookie] = (touched, version)
                if dice.random() < FLUSH:
                    flushes += 1
                    note("sent", -flushes, 0, 0, 0)
                    in_flight[handle.aio_flush()] = ((), -flushes)
            handle.poll(1000)
            for cookie in list(in_flight):
                if handle.aio_command_completed(cookie):
                    touched, written = in_flight.pop(cookie)
                    note("answered", written)
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


def record(uri, path, seconds):
    with open(path, "w", encoding="ascii") as events:
        write(uri, path + ".state", seconds, lambda *event: print(json.dumps([time.monotonic(), *event]), file=events))


class Written:
    """What a recorded client has sent, and what it was promised until when."""

    def __init__(self, path):
        self.of_block, self.sent_at, flushes = {}, {}, {}
        # When a version was promised: its own answer if it had FUA, or that of a flush.
        self.promised_at, fua, answered, covered = {}, set(), [], {}
        with open(path, encoding="ascii") as events:
            for line in events:
                at, what, version, *rest = json.loads(line)
                if what == "sent" and version > 0:
                    first, count, flags = rest
                    self.sent_at[version] = at
                    if flags:
                        fua.add(version)
                    for block in range(first, first + count):
                        self.of_block.setdefault(block, [0]).append(version)
                elif what == "sent":
                    flushes[version] = len(answered)
                elif version > 0:
                    answered.append(version)
                    if version in fua:
                        self.promised_at.setdefault(version, at)
                else:
                    for promised in answered[: flushes[version]]:
                        self.promised_at.setdefault(promised, at)

    def promised(self, at):
        """The newest version of each block that a power cut at this time may not take."""
        newest = {}
        for block, versions in self.of_block.items():
            newest[block] = max((v for v in versions if self.promised_at.get(v, at + 1) <= at), default=0)
        return newest


def judge(what, image, path, at):
    """A disk is everything up to one point in the order of the writes, of the write at that point any
    blocks (a disk keeps sectors whole, and not requests), and has what was promised. An
    `ordered` origin has for some moment nothing that was sent after it, and everything that was
    promised before it."""
    written = Written(path)
    found, bad = {}, []
    with open(image, "rb") as file:
        for block, versions in sorted(written.of_block.items()):
            file.seek(block * BLOCK)
            data = file.read(BLOCK)
            for position in range(block * BLOCK, (block + 1) * BLOCK, SECTOR):
                here = data[position - block * BLOCK :][:SECTOR]
                magic, _, version = struct.unpack("<8sQQ", here[:24])
                if magic != b"VERSIONS":
                    version = 0
                elif version not in versions or here != sector(position, version):
                    bad.append(f"sector {position} holds what was never written there: version {version}")
                    continue
                found[position] = version
    newest = max(found.values(), default=0)
    sent = written.sent_at.get(newest, 0.0)
    if sent > at:
        bad.append(f"version {newest} was sent at {sent}, after the cut at {at}")
    moment = at if what == "disk" else max((written.sent_at[v] for v in found.values() if v), default=0.0)
    promised = written.promised(moment)
    for position, version in found.items():
        block = position // BLOCK
        if version < promised[block]:
            bad.append(f"sector {position} has version {version}, and {promised[block]} was promised")
        later = next((v for v in written.of_block[block] if v > version), newest + 1)
        if what == "disk" and later < newest:
            bad.append(f"sector {position} lacks version {later}, and {newest} is there")
    for line in bad[:5]:
        print(line)
    print(f"judged {what}: sectors={len(found)} newest={newest} promised={max(promised.values(), default=0)} bad={len(bad)}")
    if bad or not found:
        sys.exit(1)


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], float(sys.argv[4]))
elif sys.argv[1] == "record":
    record(sys.argv[2], sys.argv[3], float(sys.argv[4]))
elif sys.argv[1] == "judge":
    judge(*sys.argv[2:5], float(sys.argv[5]))
else:
    verify(sys.argv[2], sys.argv[3])
