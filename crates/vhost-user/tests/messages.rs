//! What QEMU says is done, or refused without harm.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use support::driver::{READ, Style, WRITE};
use support::front::{USER, addresses, borrow, start_messages, whole};
use support::{DATA, RAM_BYTES, Rig, disk, open_descriptors};
use units::Bytes;
use vhost_protocol::limits::{QUEUES_MAX, REGIONS_MAX};
use vhost_protocol::{Features, ProtocolFeatures, Region, Request, RingAddresses, RingDescriptor};

fn plain() -> Style {
    Style {
        indirect: false,
        by_index: true,
    }
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

#[test]
fn what_is_offered_is_told() {
    let mut rig = Rig::new(&disk());
    let features = Features::from_bits(rig.ask(&Request::GetFeatures, &[]).number());
    for feature in [
        Features::BLK_FLUSH,
        Features::BLK_MQ,
        Features::BLK_DISCARD,
        Features::LOG_ALL,
        Features::PROTOCOL_FEATURES,
        Features::VERSION_1,
    ] {
        assert!(features.has(feature));
    }
    let protocol = rig.ask(&Request::GetProtocolFeatures, &[]).number();
    assert_eq!(protocol, ProtocolFeatures::OFFERED.bits());
    let queues = rig.ask(&Request::GetQueueCount, &[]).number();
    assert_eq!(queues, u64::from(QUEUES_MAX));
    let slots = rig.ask(&Request::GetMemorySlots, &[]).number();
    assert_eq!(slots, REGIONS_MAX as u64);
}

#[test]
fn the_configuration_space_is_read_and_follows_a_resize() {
    let mut rig = Rig::negotiated(&disk(), Features::NONE);
    let capacity = |rig: &mut Rig| {
        let get = Request::GetConfig {
            offset: 0,
            size: 60,
            flags: 0,
        };
        let reply = rig.ask(&get, &[]);
        assert_eq!(reply.payload.len(), 12 + 60);
        u64::from_le_bytes(reply.payload[12..20].try_into().unwrap())
    };
    assert_eq!(capacity(&mut rig), 16 << 11);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let channel = [OwnedFd::from(theirs)];
    let set = Request::SetBackendChannel;
    assert_eq!(rig.acknowledged(&set, &borrow(&channel)), 0);
    rig.connection().resize(Bytes::mib(32));
    let mut told = [0; 12];
    std::io::Read::read_exact(&mut &ours, &mut told).unwrap();
    assert_eq!(told, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(capacity(&mut rig), 32 << 11);
    let mut queue = rig.start_queue(0, plain());
    queue.request(READ, 20 << 11, &[(DATA, 512)]);
    queue.kick();
    rig.take(1);
}

#[test]
fn a_new_connection_tells_once_to_look_at_the_size() {
    let mut rig = Rig::negotiated(&disk(), Features::NONE);
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let channel = [OwnedFd::from(theirs)];
    let set = Request::SetBackendChannel;
    assert_eq!(rig.acknowledged(&set, &borrow(&channel)), 0);
    let mut told = [0; 64];
    let mut hear = || std::io::Read::read(&mut &ours, &mut told).unwrap_or(0);
    // QEMU listens when rings run, not before.
    assert_eq!(hear(), 0);
    rig.start_queue(0, plain());
    assert_eq!(hear(), 12);
    rig.start_queue(1, plain());
    rig.tell(
        &Request::EnableRing {
            ring: 0,
            enabled: true,
        },
        &[],
    );
    assert_eq!(hear(), 0);
}

#[test]
fn a_queue_stops_when_nothing_of_it_is_in_flight() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let head = queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    rig.turn();
    // What comes meanwhile is left for later.
    queue.request(READ, 1, &[(DATA, 512)]);
    queue.kick();
    rig.turn();
    assert!(rig.front.reply().is_none());
    assert!(rig.taken.is_empty());
    assert!(rig.connection().is_stopping());
    queue.interrupts();
    rig.give(asked.key, &[7; 512]);
    let reply = rig.reply();
    assert_eq!(reply.payload, [0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(queue.answer(), Some((head, 513)));
    assert_eq!(queue.interrupts(), 1, "the interrupt came before the reply");
    rig.turn();
    assert!(rig.taken.is_empty());

    rig.start(&queue, 0, 1, false);
    rig.take(1);
    assert!(!rig.connection().is_stopping());
}

#[test]
fn a_reply_that_says_a_queue_has_stopped_comes_behind_its_interrupt() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    rig.turn();
    queue.interrupts();
    rig.give(asked.key, &[7; 512]);
    // Without a turn of the ring behind it.
    rig.connection().poll(&mut Vec::new());
    assert!(rig.front.reply().is_some());
    assert_eq!(queue.interrupts(), 1);
}

#[test]
fn a_queue_that_has_stopped_leaves_no_kick_behind() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    for sector in 0..2 {
        queue.request(READ, sector, &[(DATA, 512)]);
        assert!(queue.kick());
        let asked = rig.take(1).pop().unwrap();
        rig.give(asked.key, &[7; 512]);
        rig.answer(&mut queue);
        rig.turn();
    }
    rig.ask(&Request::GetRingBase { ring: 0 }, &[]);
    assert_eq!(queue.kicks(), 0);
}

#[test]
fn a_queue_that_is_not_enabled_is_left_alone() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let enable = |enabled| Request::EnableRing { ring: 0, enabled };
    rig.acknowledged(&enable(false), &[]);
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    rig.turn();
    assert!(rig.taken.is_empty());
    rig.acknowledged(&enable(true), &[]);
    rig.take(1);
}

#[test]
fn a_device_starts_anew_after_a_reset() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.front.say(&Request::ResetDevice, true, &[]);
    rig.turn();
    assert!(rig.front.reply().is_none());
    rig.give(asked.key, &[0; 512]);
    assert_eq!(rig.reply().number(), 0);
    let offered = rig.ask(&Request::GetFeatures, &[]).number();
    rig.tell(&Request::SetFeatures(Features::from_bits(offered)), &[]);
    let mut queue = rig.start_queue(1, plain());
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    rig.take(1);
}

#[test]
fn regions_come_and_go_under_a_running_queue() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let mut queue = rig.start_queue(0, plain());
    let file = [rig.ram.file()];
    // The same bytes a second time, far up.
    let far = Region {
        guest: 1 << 40,
        size: RAM_BYTES as u64,
        user: USER + (1 << 40),
        offset: 0,
    };
    let read = |rig: &mut Rig, queue: &mut support::driver::Queue| {
        let head = queue.request(READ, 0, &[((1 << 40) + DATA, 512)]);
        queue.kick();
        rig.turn();
        head
    };
    let head = read(&mut rig, &mut queue);
    assert_eq!(rig.answer(&mut queue).0, head);
    assert_eq!(queue.status(head), 1, "no such memory yet");
    assert_eq!(
        rig.acknowledged(&Request::AddRegion(far), &borrow(&file)),
        0
    );
    read(&mut rig, &mut queue);
    let asked = rig.take(1).pop().unwrap();
    // Taken away while a request is in flight: it keeps what it needs.
    assert_eq!(
        rig.acknowledged(&Request::RemoveRegion(far), &borrow(&file)),
        0
    );
    rig.give(asked.key, &[9; 512]);
    let (head, _) = rig.answer(&mut queue);
    assert_eq!(queue.status(head), 0);
    assert_eq!(rig.ram.bytes(DATA, 512), [9; 512]);
    let head = read(&mut rig, &mut queue);
    rig.answer(&mut queue);
    assert_eq!(queue.status(head), 1);
}

#[test]
fn a_ring_without_memory_is_not_touched_any_more() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let whole = Request::RemoveRegion(whole(RAM_BYTES));
    assert_eq!(rig.acknowledged(&whole, &[]), 1);
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    rig.turn();
    assert!(rig.taken.is_empty());
    assert!(!rig.is_finished());
}

/// Messages that are refused, each with the descriptors that it comes with.
fn nonsense(rig: &Rig) -> Vec<(Request, Vec<OwnedFd>)> {
    let mut all = nonsense_about_rings(rig);
    all.extend(nonsense_about_memory(rig));
    all
}

fn nonsense_about_rings(rig: &Rig) -> Vec<(Request, Vec<OwnedFd>)> {
    let kick = |ring, has_descriptor| {
        Request::SetRingKick(RingDescriptor {
            ring,
            has_descriptor,
        })
    };
    let place = RingAddresses {
        ring: 0,
        is_logged: false,
        descriptors: USER,
        used: USER,
        available: USER,
        log: 0,
    };
    let enable = Request::EnableRing {
        ring: u32::MAX,
        enabled: true,
    };
    let protocol = ProtocolFeatures::from_bits(1 << 63);
    vec![
        (Request::SetFeatures(Features::from_bits(1 << 63)), vec![]),
        (Request::SetProtocolFeatures(protocol), vec![]),
        (Request::SetRingSize { ring: 0, size: 3 }, vec![]),
        (Request::SetRingSize { ring: 64, size: 8 }, vec![]),
        (Request::SetRingBase { ring: 0, base: 5 }, vec![]),
        (Request::GetRingBase { ring: 64 }, vec![]),
        (Request::SetRingAddresses(place), vec![]),
        (kick(64, true), vec![event()]),
        (kick(0, true), vec![]),
        (kick(0, true), vec![event(), event()]),
        (kick(1, true), vec![event()]),
        (kick(0, true), vec![rig.ram.file()]),
        (kick(0, false), vec![]),
        (enable, vec![]),
    ]
}

fn nonsense_about_memory(rig: &Rig) -> Vec<(Request, Vec<OwnedFd>)> {
    let size = RAM_BYTES as u64;
    let far = |size, offset| Region {
        guest: 1 << 40,
        size,
        user: 1 << 40,
        offset,
    };
    let add = |region| (Request::AddRegion(region), vec![rig.ram.file()]);
    let inflight = |bytes, queues, size| {
        let request = Request::SetInflight {
            bytes,
            offset: 0,
            queues,
            size,
        };
        (request, vec![rig.ram.file()])
    };
    let log = Request::SetLogBase {
        size: size + 1,
        offset: 0,
    };
    let get = |queues, size| (Request::GetInflight { queues, size }, vec![]);
    vec![
        add(far(0, 0)),
        add(far(size + 1, 0)),
        add(far(size, 1)),
        add(far(4096, u64::MAX)),
        add(whole(4096)),
        (Request::AddRegion(far(4096, 0)), vec![event()]),
        (Request::AddRegion(far(4096, 0)), vec![]),
        (Request::RemoveRegion(far(4096, 0)), vec![rig.ram.file()]),
        (log, vec![rig.ram.file()]),
        (Request::SetLogDescriptor, vec![rig.ram.file()]),
        inflight(0, 1, 64),
        inflight(size, 0, 64),
        inflight(size, 65, 64),
        // Nothing is wrong with it but that a queue runs.
        inflight(size, 1, 64),
        get(0, 1),
        get(1, u16::MAX),
    ]
}

#[test]
fn nonsense_is_refused_and_everything_goes_on() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    rig.turn();
    let before = open_descriptors();
    for (request, files) in nonsense(&rig) {
        assert_eq!(
            rig.acknowledged(&request, &borrow(&files)),
            1,
            "{request:?}"
        );
    }
    rig.turn();
    assert_eq!(open_descriptors(), before, "every descriptor was closed");
    let head = queue.request(WRITE, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    assert!(rig.succeed(asked.key).is_none());
    assert_eq!(rig.answer(&mut queue).0, head);
}

#[test]
fn nonsense_that_nobody_waits_for_ends_the_connection() {
    for place in 0..nonsense(&Rig::new(&disk())).len() {
        let (mut rig, _queue) = Rig::started(&disk(), plain());
        let (request, files) = nonsense(&rig).swap_remove(place);
        rig.front.say(&request, false, &borrow(&files));
        rig.turn();
        assert!(rig.is_finished(), "{request:?}");
    }
}

#[test]
fn descriptors_do_not_pile_up() {
    let (mut rig, queue) = Rig::started(&disk(), plain());
    rig.turn();
    let before = open_descriptors();
    for _ in 0..20 {
        for (request, file) in start_messages(&queue, 0, 0, false) {
            // Size, base and a start are refused for a queue that runs; its eventfds change.
            let files: Vec<OwnedFd> = file.into_iter().collect();
            rig.acknowledged(&request, &borrow(&files));
        }
        let many = [event(), event(), event(), event(), event()];
        rig.acknowledged(&Request::SetOwner, &borrow(&many));
    }
    rig.until("polls of old kicks to end", |_| {
        open_descriptors() <= before
    });
    // A reboot is a stop and a start.
    for _ in 0..20 {
        rig.ask(&Request::GetRingBase { ring: 0 }, &[]);
        rig.start(&queue, 0, 0, false);
    }
    rig.until("polls of old kicks to end", |_| {
        open_descriptors() <= before
    });
}

#[test]
fn more_descriptors_than_allowed_end_the_connection() {
    let mut rig = Rig::new(&disk());
    let many: Vec<OwnedFd> = (0..12).map(|_| event()).collect();
    rig.front.say(&Request::GetFeatures, false, &borrow(&many));
    rig.turn();
    assert!(rig.is_finished());
}

#[test]
fn bytes_that_are_no_message_end_the_connection() {
    for bytes in [
        &[0xff; 12][..],
        &[5, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        &[2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4],
        &[200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut rig = Rig::new(&disk());
        rig.front.send(bytes, &[]);
        rig.turn();
        assert!(rig.is_finished(), "{bytes:?}");
    }
}

#[test]
fn an_unknown_message_can_be_refused() {
    let mut rig = Rig::negotiated(&disk(), Features::NONE);
    rig.front.send(&[44, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0], &[]);
    let reply = rig.reply();
    assert_eq!((reply.code, reply.number()), (44, 1));
}

#[test]
fn a_message_may_come_in_pieces() {
    let mut rig = Rig::new(&disk());
    let bytes = vhost_protocol::encode(&Request::GetFeatures, false);
    for byte in bytes {
        assert!(rig.front.reply().is_none());
        rig.front.send(&[byte], &[]);
        rig.turn();
    }
    assert_eq!(rig.reply().code, 1);
}

#[test]
fn a_vm_that_goes_is_waited_for_at_the_disk_only() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let (other, _) = UnixStream::pair().unwrap();
    rig.front.socket = other;
    rig.turn();
    assert!(!rig.is_finished());
    rig.give(asked.key, &[1; 512]);
    rig.turn();
    assert!(rig.is_finished());
    assert!(
        queue.answer().is_none(),
        "the rings may be another's by now"
    );
    assert_eq!(rig.ram.bytes(DATA, 512), [0; 512]);
}

#[test]
fn closing_answers_what_was_taken_and_takes_nothing_more() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let head = queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.connection().close();
    queue.request(READ, 1, &[(DATA, 512)]);
    queue.kick();
    rig.turn();
    assert!(!rig.is_finished());
    rig.give(asked.key, &[1; 512]);
    rig.until("the end", |rig| rig.is_finished());
    assert_eq!(queue.answer(), Some((head, 513)));
    assert!(queue.answer().is_none());
    assert!(rig.taken.is_empty());
}

#[test]
fn the_same_place_may_be_said_again_to_a_running_queue() {
    let (mut rig, queue) = Rig::started(&disk(), plain());
    let same = Request::SetRingAddresses(addresses(&queue, 0, true));
    assert_eq!(rig.acknowledged(&same, &[]), 0);
    let file = rig.ram.file();
    let log = Request::SetLogBase {
        size: 4096,
        offset: 0,
    };
    assert_eq!(rig.ask(&log, &[file.as_fd()]).number(), 0);
}
