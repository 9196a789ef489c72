"""A storage device that remembers everything: NBD exports over files, and the disks that a power cut
could have left of them.

    recorder.py serve  LOG SOCKET=EXPORT=FILE ...      serve, and log every write and flush, in order
    recorder.py replay LOG EXPORT BASE SEED OUT POINT  OUT becomes what a power cut at POINT leaves of
                                                       EXPORT, which was BASE when the log began
    recorder.py points LOG                             all points: number, monotonic time, kind, export

LOG is a line of JSON for each operation, its bytes are in LOG.data. Writes go to a volatile cache: a
flush makes durable what had been *answered* when the flush was received, a FUA write itself, both once
they were answered. A power cut at a point comes while that operation is under way. Of what is not
durable then any part may be there, in pieces of a sector; of two writes to a sector the later one counts
if it is there. All exports share one order, so a point is one moment for all of them.
"""

import json
import os
import random
import socket
import struct
import sys
import threading
import time

SECTOR = 512
READ, WRITE, DISCONNECT, FLUSH, TRIM, ZEROES = 0, 1, 2, 3, 4, 6
KINDS = {WRITE: "write", TRIM: "zero", ZEROES: "zero", FLUSH: "flush"}
FUA = 1
# HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES; one connection at a time is meant.
FEATURES = 1 | 4 | 8 | 0x20 | 0x40
OPTION_MAGIC = 0x49484156454F5054
REPLY_MAGIC = 0x3E889045565A9
REQUEST = struct.Struct(">IHHQQI")
REQUEST_MAGIC, SIMPLE_MAGIC = 0x25609513, 0x67446698
EINVAL = 22


class Log:
    def __init__(self, path):
        self.lock = threading.Lock()
        self.lines = open(path, "w", encoding="ascii")
        self.data = open(path + ".data", "wb")
        self.place = 0

    def note(self, **entry):
        """With the lock held."""
        data = entry.pop("data", None)
        if data is not None:
            entry["place"] = self.place
            self.data.write(data)
            self.place += len(data)
            self.data.flush()
        self.lines.write(json.dumps(entry) + "\n")
        self.lines.flush()


class Export:
    def __init__(self, name, path, log):
        self.name, self.log = name, log
        self.file = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        # Changes so far, and those among them that were answered.
        self.changes = 0
        self.answered = 0

    def carry_out(self, kind, flags, offset, length, data, covers):
        if kind == READ:
            return os.pread(self.file, length, offset)
        with self.log.lock:
            entry = {"export": self.name, "at": time.monotonic(), "kind": KINDS[kind], "fua": bool(flags & FUA)}
            if kind == FLUSH:
                self.log.note(**entry, covers=covers)
                return b""
            if kind == WRITE:
                os.pwrite(self.file, data, offset)
                self.log.note(**entry, offset=offset, length=length, data=data)
            else:
                os.pwrite(self.file, bytes(length), offset)
                self.log.note(**entry, offset=offset, length=length)
            self.changes += 1
            return b""


class Connection:
    def __init__(self, link, exports):
        self.link, self.exports = link, exports
        self.buffer = bytearray()

    def need(self, count):
        while len(self.buffer) < count:
            more = self.link.recv(1 << 20)
            if not more:
                raise EOFError
            self.buffer += more
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def negotiate(self):
        self.link.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, 3))
        self.need(4)
        while True:
            _, option, length = struct.unpack(">QII", self.need(16))
            data = self.need(length)
            if option == 1:
                export = self.exports[data.decode()]
                self.link.sendall(struct.pack(">QH", export.size, FEATURES))
                return export
            if option in (6, 7):
                name = data[4 : 4 + struct.unpack(">I", data[:4])[0]].decode()
                export = self.exports.get(name)
                if export is None:
                    self.answer(option, 0x80000006, b"")
                    continue
                self.answer(option, 3, struct.pack(">HQH", 0, export.size, FEATURES))
                self.answer(option, 1, b"")
                if option == 7:
                    return export
            elif option == 2:
                self.answer(option, 1, b"")
                raise EOFError
            else:
                self.answer(option, 0x80000001, b"")

    def answer(self, option, kind, data):
        self.link.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

    def serve(self, export):
        while True:
            # What comes next may have been sent before anything that is answered from here on.
            covers = export.answered
            batch = [self.request()]
            while len(self.buffer) >= REQUEST.size:
                batch.append(self.request())
            for flags, kind, cookie, offset, length, data in batch:
                if kind == DISCONNECT:
                    raise EOFError
                error, found = 0, b""
                if offset + length > export.size or (kind != READ and kind not in KINDS):
                    error = EINVAL
                else:
                    found = export.carry_out(kind, flags, offset, length, data, covers)
                self.link.sendall(struct.pack(">IIQ", SIMPLE_MAGIC, error, cookie) + found)
                export.answered = export.changes

    def request(self):
        magic, flags, kind, cookie, offset, length = REQUEST.unpack(self.need(REQUEST.size))
        assert magic == REQUEST_MAGIC, hex(magic)
        data = self.need(length) if kind == WRITE else b""
        return flags, kind, cookie, offset, length, data


def attend(link, exports):
    try:
        connection = Connection(link, exports)
        connection.serve(connection.negotiate())
    except (EOFError, ConnectionError):
        pass
    finally:
        link.close()


def listen(path, exports):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    while True:
        link, _ = server.accept()
        threading.Thread(target=attend, args=(link, exports), daemon=True).start()


def serve(path, places):
    log = Log(path)
    for place in places:
        address, name, file = place.split("=")
        exports = {name: Export(name, file, log)}
        threading.Thread(target=listen, args=(address, exports), daemon=True).start()
    threading.Event().wait()


def entries(path):
    with open(path, encoding="ascii") as lines:
        # The recorder may have been killed half way through its last line.
        return [json.loads(line) for line in lines if line.endswith("\n")]


def durable(log, point):
    """The changes before `point` that a power cut there cannot take, by their place among them."""
    changes, sure = [], set()
    for number, entry in enumerate(log):
        if number > point:
            break
        under_way = number == point
        if entry["kind"] == "flush":
            if not under_way:
                sure.update(range(entry["covers"]))
            continue
        if entry["fua"] and not under_way:
            sure.add(len(changes))
        changes.append(entry)
    return changes, sure


def replay(path, name, base, seed, out, point):
    # Points are counted over all exports.
    log = entries(path)
    before = sum(1 for entry in log[: point + 1] if entry["export"] == name)
    is_under_way = log[point]["export"] == name
    own = [entry for entry in log if entry["export"] == name]
    changes, sure = durable(own[:before], before - 1 if is_under_way else before)
    dice = random.Random(f"{seed} {name} {point}")
    # Some power cuts take little, some nearly all.
    kept = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    lost = 0
    os.system(f"cp --sparse=always '{base}' '{out}'")
    with open(path + ".data", "rb") as data, open(out, "r+b") as image:
        for number, entry in enumerate(changes):
            length = entry["length"]
            if entry["kind"] == "zero":
                payload = bytes(length)
            else:
                data.seek(entry["place"])
                payload = data.read(length)
            if number in sure:
                image.seek(entry["offset"])
                image.write(payload)
                continue
            torn = dice.random() < 0.3
            whole = dice.random() < kept
            for at in range(0, length, SECTOR):
                if dice.random() < kept if torn else whole:
                    image.seek(entry["offset"] + at)
                    image.write(payload[at : at + SECTOR])
                else:
                    lost += 1
    print(f"changes={len(changes)} durable={len(sure)} sectors_lost={lost} at={log[point]['at']}")


if sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "points":
    for number, entry in enumerate(entries(sys.argv[2])):
        print(number, entry["at"], entry["kind"], entry["export"])
else:
    replay(*sys.argv[2:7], int(sys.argv[7]))
