//! Writes the seeds of the fuzz corpus: well-formed inputs from which mutations start.
//!
//! `cargo run -p hostile --example seeds` from the root of the repository.

#![allow(clippy::unwrap_used, reason = "a tool of ours that may stop anywhere")]

#[path = "../../trace/tests/readers/support/mod.rs"]
#[allow(dead_code, reason = "the tests of the readers use the rest")]
mod samples;

#[path = "seeds/frames.rs"]
mod frames;

#[path = "seeds/traffic.rs"]
mod traffic;

use flash_format::{
    CheckpointPage, ChunkHeader, Descriptor, DirtyChunkHeader, DirtyRecord, Erasure, ErasureKind,
    FooterPage, Geometry, JournalEntry, JournalPage, Position, SEGMENT_BYTES_MIN, SegmentEntry,
    SegmentIndex, SegmentKind, Superblock,
};
use nbd_protocol::server::{Found, Handshake, Step, TlsPolicy};
use nbd_protocol::{
    BlockSizes, CommandFlags, Cookie, Errno, Export, RequestHeader, TransmissionFlags, client,
    reply,
};
use std::path::Path;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, Offset};
use vhost_protocol::{Features, Region, Request, RingAddresses, RingDescriptor, encode};

fn main() {
    nbd_options();
    nbd_requests();
    nbd_client_handshake();
    nbd_client_replies();
    flash_page();
    flash_recovery();
    trace();
    frames::link();
    frames::guest();
    traffic::traffic();
    vhost_messages();
    vhost_rings();
    vhost_device();
}

fn write(target: &str, name: &str, choice: u8, bytes: &[u8]) {
    let folder = Path::new("fuzz/corpus").join(target);
    std::fs::create_dir_all(&folder).unwrap();
    let input = [&[choice], bytes].concat();
    std::fs::write(folder.join(format!("seed-{name}")), input).unwrap();
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let parts: [&[u8]; 4] = [
        b"IHAVEOPT",
        &number.to_be_bytes(),
        &length.to_be_bytes(),
        data,
    ];
    parts.concat()
}

const GO: &[u8] = b"\0\0\0\x03vm1\0\x03\0\x01\0\x02\0\x03";
const CONTEXT: &[u8] = b"\0\0\0\x03vm1\0\0\0\x01\0\0\0\x0fbase:allocation";

fn nbd_options() {
    let flags = [0, 0, 0, 3];
    let sessions: [(&str, u8, Vec<Vec<u8>>); 8] = [
        ("go", 0, vec![option(7, GO)]),
        (
            "qemu",
            0,
            vec![option(8, b""), option(10, CONTEXT), option(7, GO)],
        ),
        (
            "list",
            0,
            vec![option(3, b""), option(9, CONTEXT), option(2, b"")],
        ),
        (
            "info",
            1,
            vec![option(8, b""), option(6, GO), option(2, b"")],
        ),
        ("export-name", 0, vec![option(1, b"vm1"), b"rest".to_vec()]),
        (
            "tls",
            1,
            vec![option(5, b""), option(8, b""), option(7, GO)],
        ),
        (
            "tls-required",
            2,
            vec![option(7, GO), option(5, b""), option(7, GO)],
        ),
        (
            "unknown",
            0,
            vec![option(99, b"data"), option(7, &[0; 9000])],
        ),
    ];
    for (name, choice, options) in sessions {
        let stream = [&flags[..], &options.concat()].concat();
        write("nbd_options", name, choice, &stream);
    }
}

fn nbd_requests() {
    let request = |kind, flags, offset, length| {
        let header = RequestHeader {
            flags,
            kind,
            cookie: Cookie(u64::from(kind) + 1),
            offset,
            length,
        };
        header.encode().to_vec()
    };
    let none = CommandFlags::NONE;
    let all = [
        request(0, none, 4096, 4096),
        request(0, CommandFlags::DF, 0, 32 << 20),
        request(1, CommandFlags::FUA, 512, 512),
        request(2, none, 0, 0),
        request(3, none, 0, 0),
        request(4, none, 1 << 20, 1 << 20),
        request(5, none, 0, 1 << 16),
        request(6, CommandFlags::NO_HOLE, (64 << 20) - 4096, 4096),
        request(6, CommandFlags::FAST_ZERO, 0, 64 << 20),
        request(7, CommandFlags::REQ_ONE, 0, 1 << 30),
        request(1, none, u64::MAX - 511, 512),
    ];
    write("nbd_requests", "all", 0xfe, &all.concat());
    write("nbd_requests", "read-only", 0x01, &all.concat());
}

/// What our server says to our client, with and without chunks.
fn nbd_client_handshake() {
    let mut client = client::Handshake::new(client::Wishes {
        export: "vm1".to_owned(),
        tls: false,
    });
    let mut server = Handshake::new(TlsPolicy::Off);
    let mut said = Vec::new();
    loop {
        let output = server.take_output();
        said.extend_from_slice(&output);
        client.receive(&output);
        if client.step() != client::Step::NeedBytes {
            break;
        }
        server.receive(&client.take_output());
        if matches!(server.step(), Step::FindExport { .. }) {
            server.answer(Ok(Found {
                export: Export {
                    size: Bytes::gib(1),
                    flags: TransmissionFlags::KNOWN,
                    blocks: BlockSizes::OURS,
                },
                description: "a disk".to_owned(),
            }));
        }
    }
    write("nbd_client_handshake", "ours", 0, &said);
    let tls = b"NBDMAGICIHAVEOPT\0\x03\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x05\0\0\0\x01\0\0\0\0";
    write("nbd_client_handshake", "tls", 1, tls);
    let mut old = b"NBDMAGICIHAVEOPT\0\0\0\0\0\0\x40\0\0\0\0\x05".to_vec();
    old.extend_from_slice(&[0; 124]);
    write("nbd_client_handshake", "first-newstyle", 0, &old);
}

fn nbd_client_replies() {
    let mut simple = Vec::new();
    simple.extend_from_slice(&reply::simple(Cookie(2), Ok(())));
    simple.extend_from_slice(&[7; 16]);
    simple.extend_from_slice(&reply::simple(Cookie(5), Ok(())));
    simple.extend_from_slice(&reply::simple(Cookie(3), Err(Errno::Io)));
    write("nbd_client_replies", "simple", 0, &simple);
    let start = Offset::mib(1);
    let mut chunks = Vec::new();
    chunks.extend_from_slice(&reply::data_header(Cookie(2), false, start, 8));
    chunks.extend_from_slice(&[7; 8]);
    chunks.extend_from_slice(&reply::none(Cookie(6)));
    chunks.extend_from_slice(&reply::hole(Cookie(2), true, start + Bytes::new(8), 8));
    chunks.extend_from_slice(&reply::hole(Cookie(4), false, start, 2048));
    reply::error(&mut chunks, Cookie(4), Errno::NoSpc, "full");
    write("nbd_client_replies", "chunks", 1, &chunks);
}

/// Pages as they are, without the magic number that the target puts in front.
#[allow(clippy::too_many_lines, reason = "one page after the other")]
fn flash_page() {
    let geometry = Geometry::new(Bytes::mib(64), SEGMENT_BYTES_MIN).unwrap();
    let uuid = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let (segment, disk, generation) = (SegmentIndex::new(5), DiskSlot::new(3), 9);
    let superblock = Superblock {
        uuid,
        sequence: 4,
        geometry,
        incarnation: 1,
        checkpoint: 2,
        checkpoint_area: 1,
        replay_from: 3,
        clean_end: Some(8),
    };
    let journal = JournalPage {
        sequence: 6,
        batch: 6,
        entries: vec![
            JournalEntry::Open {
                segment,
                disk,
                generation,
                kind: SegmentKind::Dirty,
            },
            JournalEntry::Destaged {
                disk,
                to: Position::of_page(generation, 3).next_erasure(),
            },
            JournalEntry::Free {
                segment,
                generation,
            },
        ],
    };
    let blocks: Vec<Descriptor> = (1..40)
        .map(|page| Descriptor {
            block: BlockIndex::new(u64::from(page) * 7),
            checksum: page,
            page,
        })
        .collect();
    let blocks = blocks[..10].to_vec();
    let chunk = ChunkHeader {
        segment,
        generation,
        disk,
        page: 0,
        blocks: blocks.clone(),
    };
    let footer = FooterPage {
        segment,
        generation,
        disk,
        part: 0,
        total: 10,
        blocks,
    };
    let dirty = DirtyChunkHeader {
        segment,
        generation,
        disk,
        page: 4,
        id: DiskId::from_u128(9),
        size: Bytes::mib(4),
        epoch: 2,
        begins_interval: true,
        follows: Position::of_page(generation, 3),
        durable: Position::of_page(generation - 1, 12),
        records: vec![
            DirtyRecord::Data(Descriptor {
                block: BlockIndex::new(7),
                checksum: 1,
                page: 5,
            }),
            DirtyRecord::Erasure(Erasure {
                first: BlockIndex::new(100),
                blocks: 50,
                kind: ErasureKind::Zeroes { may_unmap: true },
            }),
        ],
    };
    let disks = CheckpointPage::Disks(vec![None; CheckpointPage::disks_of(0).unwrap().len()]);
    let first = (0..1000)
        .find(|page| !CheckpointPage::segments_of(&geometry, *page).is_empty())
        .unwrap();
    let count = CheckpointPage::segments_of(&geometry, first).len();
    let segments = vec![SegmentEntry::unused(&geometry); count];
    let segments = CheckpointPage::Segments(segments);
    let keep = |name, choice, page: &[u8]| {
        let end = page.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        write("flash_page", name, choice, &page[8..end]);
    };
    keep("superblock", 0, &superblock.encode());
    keep("journal", 1, &journal.encode(uuid));
    keep("disks", 2, &disks.encode(&geometry, uuid, 2, 0));
    keep("segments", 2, &segments.encode(&geometry, uuid, 2, first));
    keep("chunk", 3, &chunk.encode(uuid));
    keep("footer", 4, &footer.encode(uuid));
    keep("dirty", 5, &dirty.encode(uuid));
    let mut retained = [0; 64].to_vec();
    retained.extend(dirty.retained_head());
    retained.extend(dirty.records.iter().flat_map(DirtyRecord::to_bytes));
    keep("retained", 5, &retained);
}

/// Patches: page, offset, length, bytes.
fn flash_recovery() {
    let target = "flash_recovery";
    write(target, "cut", 0, &[]);
    write(target, "stopped", 1, &[]);
    // The sequence of a page, its count of entries, and its first entries.
    let patches = [
        &[0, 0, 24, 8, 0xff, 0xff, 0, 0, 0, 0, 0, 0][..],
        &[2, 0, 40, 4, 1, 0, 0, 0],
        &[
            3, 0, 64, 16, 3, 0, 0, 0, 0xff, 0xff, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        ],
        &[9, 0, 64, 8, 1, 2, 3, 0, 0, 0, 0, 0],
    ];
    write(target, "patched-cut", 0, &patches.concat());
    write(target, "patched-stopped", 1, &patches.concat());
}

/// The small traces of the trace crate's tests: each recognised, and one packed in each way that we can.
fn trace() {
    for (place, sample) in samples::samples().into_iter().enumerate() {
        let format = trace::Format::all().position(|format| format.name() == sample.format);
        let format = u8::try_from(format.unwrap() + 1).unwrap();
        let choice = if sample.is_given() { format } else { 0 };
        write(
            "trace",
            &format!("{place}-{}", sample.format),
            choice,
            &sample.bytes,
        );
    }
}

/// What QEMU says when it sets a device up and takes it down.
fn vhost_session() -> Vec<(Request, u8)> {
    let ring = RingDescriptor {
        ring: 0,
        has_descriptor: true,
    };
    let region = Region {
        guest: 1 << 32,
        size: 4096,
        user: 1 << 33,
        offset: 0,
    };
    let addresses = RingAddresses {
        ring: 0,
        is_logged: false,
        descriptors: 0x7000_0000_0000,
        used: 0x7000_0000_0200,
        available: 0x7000_0000_0100,
        log: 0x200,
    };
    let config = Request::GetConfig {
        offset: 0,
        size: 60,
        flags: 0,
    };
    let wce = Request::SetConfig {
        offset: 32,
        bytes: vec![0],
    };
    let inflight = Request::SetInflight {
        bytes: 0x1000,
        offset: 0x9000,
        queues: 1,
        size: 16,
    };
    vec![
        (Request::GetFeatures, 0),
        (Request::SetFeatures(Features::OFFERED), 0),
        (config, 0),
        (wce, 0),
        (Request::AddRegion(region), 1),
        (Request::RemoveRegion(region), 1),
        (Request::GetRingBase { ring: 0 }, 0),
        (
            Request::GetInflight {
                queues: 1,
                size: 16,
            },
            0,
        ),
        (inflight, 1),
        (Request::SetRingSize { ring: 0, size: 16 }, 0),
        (Request::SetRingBase { ring: 0, base: 0 }, 0),
        (Request::SetRingAddresses(addresses), 0),
        // The second of two descriptors is an eventfd; one alone is memory and refused.
        (Request::SetRingCall(ring), 1),
        (Request::SetRingKick(ring), 2),
        (Request::SetMemoryTable(vec![region]), 1),
        (Request::ResetDevice, 0),
    ]
}

fn vhost_messages() {
    let all: Vec<u8> = vhost_session()
        .iter()
        .flat_map(|(request, _)| encode(request, true))
        .collect();
    // This target has no choices: the first byte is a message's.
    write("vhost_messages", "session", all[0], &all[1..]);
}

/// A queue of 16 with requests in it, as `vhost_rings` lays memory out.
fn ring_memory() -> Vec<u8> {
    let mut memory = vec![0; 0x800];
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    let descriptor = |address: u64, length: u32, flags: u16, next: u16| {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        bytes
    };
    // A read in the ring, a write through a table, a flush, a discard.
    put(0, &descriptor(0x500, 16, 1, 1));
    put(16, &descriptor(0x700, 513, 2, 0));
    put(32, &descriptor(0x600, 48, 4, 0));
    put(48, &descriptor(0x520, 16, 1, 4));
    put(64, &descriptor(0x710, 1, 2, 0));
    put(80, &descriptor(0x530, 32, 1, 4));
    put(0x600, &descriptor(0x510, 16, 1, 1));
    put(0x610, &descriptor(0x1000, 512, 1, 2));
    put(0x620, &descriptor(0x711, 1, 2, 0));
    put(0x102, &[4, 0, 0, 0, 2, 0, 3, 0, 5, 0]);
    for (at, kind) in [(0x500, 0), (0x510, 1), (0x520, 4), (0x530, 11)] {
        put(at, &[kind, 0, 0, 0, 0, 0, 0, 0, 8]);
    }
    put(0x548, &[8]);
    memory
}

fn vhost_rings() {
    let memory = ring_memory();
    for (name, choice) in [("plain", 3), ("large-sectors", 7), ("read-only", 10)] {
        write("vhost_rings", name, choice, &memory);
    }
}

fn vhost_device() {
    let mut requests = Vec::new();
    for (at, piece) in ring_memory().chunks(128).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            let at = u16::try_from(at * 128).unwrap();
            requests.push(1);
            requests.extend(at.to_le_bytes());
            requests.push(128);
            requests.extend(piece);
        }
    }
    requests.extend([2, 3, 3, 3, 3]);
    let mut session = requests.clone();
    for (request, files) in vhost_session() {
        let bytes = encode(&request, true);
        session.push(files << 4);
        session.push(u8::try_from(bytes.len()).unwrap());
        session.extend(bytes);
    }
    // A script has no choice in front: its first byte is a tag.
    write("vhost_device", "requests", requests[0], &requests[1..]);
    write("vhost_device", "session", session[0], &session[1..]);
}
