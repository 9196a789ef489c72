//! What a guest asks comes to the disk, and what the disk answers comes to the guest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use frontend::Verb;
use support::driver::{DISCARD, FLUSH, GET_ID, READ, Style, UNANSWERED, WRITE, WRITE_ZEROES};
use support::front::borrow;
use support::{DATA, Rig, disk};
use units::{Bytes, Offset};
use vhost_protocol::{Features, Region, Request};
use vhost_user::Disk;

const STYLES: [Style; 4] = [
    Style {
        indirect: false,
        by_index: false,
    },
    Style {
        indirect: false,
        by_index: true,
    },
    Style {
        indirect: true,
        by_index: false,
    },
    Style {
        indirect: true,
        by_index: true,
    },
];

fn plain() -> Style {
    STYLES[3]
}

fn pattern(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

#[test]
fn writes_and_reads_carry_their_bytes_in_every_style() {
    for style in STYLES {
        let (mut rig, mut queue) = Rig::started(&disk(), style);
        let bytes = pattern(1536);
        rig.ram.write(DATA, &bytes);
        let head = queue.request(WRITE, 8, &[(DATA, 512), (DATA + 512, 1024)]);
        assert!(queue.kick());
        let asked = rig.take(1).pop().unwrap();
        let Verb::Write { offset, data, fua } = asked.verb else {
            panic!("{asked:?}")
        };
        assert_eq!((offset, &*data, fua), (Offset::kib(4), &bytes[..], false));
        assert!(queue.answer().is_none());
        assert!(rig.succeed(asked.key).is_none());
        assert_eq!(rig.answer(&mut queue), (head, 1));
        assert_eq!(queue.status(head), 0);

        let target = DATA + 0x1_0000;
        let head = queue.request(READ, 8, &[(target, 1000), (target + 4096, 536)]);
        queue.kick();
        let asked = rig.take(1).pop().unwrap();
        let length = Bytes::new(1536);
        let offset = Offset::kib(4);
        assert!(
            matches!(asked.verb, Verb::Read { offset: at, length: of } if (at, of) == (offset, length))
        );
        rig.give(asked.key, &bytes);
        assert_eq!(rig.answer(&mut queue), (head, 1537));
        assert_eq!(rig.ram.bytes(target, 1000), bytes[..1000]);
        assert_eq!(rig.ram.bytes(target + 4096, 536), bytes[1000..]);
    }
}

#[test]
fn a_read_can_be_filled_in_place() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = pattern(8192);
    std::fs::write(file.path(), &bytes).unwrap();
    let head = queue.request(READ, 0, &[(DATA, 4096), (DATA + 8192, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let into = rig.connection().buffers(asked.key).unwrap();
    assert!(into.is_aligned_to(4096));
    let source = rig.ring.source();
    let file = std::rc::Rc::new(file.into_file().into());
    source.submit(
        0,
        ring::Op::ReadInto {
            file,
            offset: 0,
            into,
        },
    );
    rig.until("the read", |_| {
        source.in_flight() == 0 || source.pop().is_some()
    });
    rig.connection().reply_in_place(asked.key, Ok(()));
    assert_eq!(rig.answer(&mut queue), (head, 8193));
    assert_eq!(rig.ram.bytes(DATA, 4096), bytes[..4096]);
    assert_eq!(rig.ram.bytes(DATA + 8192, 4096), bytes[4096..]);
    assert_eq!(queue.status(head), 0);
}

#[test]
fn a_failure_is_told() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let read = queue.request(READ, 0, &[(DATA, 512)]);
    let write = queue.request(WRITE, 0, &[(DATA, 512)]);
    queue.kick();
    for asked in rig.take(2) {
        rig.fail(asked.key);
    }
    assert_eq!(rig.answer(&mut queue), (read, 1));
    assert_eq!(rig.answer(&mut queue), (write, 1));
    assert_eq!((queue.status(read), queue.status(write)), (1, 1));
}

#[test]
fn answers_come_in_the_order_of_the_disk() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let heads: Vec<u16> = (0..4)
        .map(|at| queue.request(READ, at, &[(DATA, 512)]))
        .collect();
    queue.kick();
    let asked = rig.take(4);
    for place in [2, 0, 3, 1] {
        rig.give(asked[place].key, &[1; 512]);
        assert_eq!(rig.answer(&mut queue).0, heads[place]);
    }
}

#[test]
fn flushes_discards_and_zeroes_come_to_the_disk() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let range = |flags: u32| {
        let mut bytes = 16_u64.to_le_bytes().to_vec();
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    };
    rig.ram.write(DATA, &range(0));
    rig.ram.write(DATA + 16, &range(1));
    queue.request(FLUSH, 0, &[]);
    queue.request(DISCARD, 0, &[(DATA, 16)]);
    queue.request(WRITE_ZEROES, 0, &[(DATA + 16, 16)]);
    queue.kick();
    let asked = rig.take(3);
    assert!(matches!(asked[0].verb, Verb::Flush));
    let place = (Offset::kib(8), Bytes::kib(4));
    assert!(matches!(asked[1].verb, Verb::Discard { offset, length } if (offset, length) == place));
    assert!(
        matches!(asked[2].verb, Verb::WriteZeroes { offset, length, may_unmap: true, fua: false } if (offset, length) == place)
    );
    for one in asked {
        assert!(rig.succeed(one.key).is_none());
    }
    for _ in 0..3 {
        let (head, written) = rig.answer(&mut queue);
        assert_eq!((queue.status(head), written), (0, 1));
    }
}

#[test]
fn the_serial_number_is_told_without_the_disk() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let head = queue.request(GET_ID, 0, &[(DATA, 15), (DATA + 100, 15)]);
    queue.kick();
    assert_eq!(rig.answer(&mut queue), (head, 21));
    assert_eq!(rig.ram.bytes(DATA, 9), b"serial-17");
    assert_eq!(rig.ram.bytes(DATA + 100, 6), [0; 6]);
    assert!(rig.taken.is_empty());
}

#[test]
fn what_cannot_be_is_answered_at_once() {
    let read_only = Disk {
        read_only: true,
        ..disk()
    };
    let (mut rig, mut queue) = Rig::started(&read_only, plain());
    let beyond = queue.request(READ, 16 << 11, &[(DATA, 512)]);
    let write = queue.request(WRITE, 0, &[(DATA, 512)]);
    let unknown = queue.request(99, 0, &[]);
    let nowhere = queue.request(READ, 0, &[(1 << 40, 512)]);
    queue.kick();
    for (head, status) in [(beyond, 1), (write, 1), (unknown, 2), (nowhere, 1)] {
        assert_eq!(rig.answer(&mut queue).0, head);
        assert_eq!(queue.status(head), status);
    }
    assert!(rig.taken.is_empty());
}

#[test]
fn without_write_back_every_write_is_durable() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    let wce = |on: u8| Request::SetConfig {
        offset: 32,
        bytes: vec![on],
    };
    assert_eq!(rig.acknowledged(&wce(0), &[]), 0);
    rig.ram
        .write(DATA, &[8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    queue.request(WRITE, 0, &[(DATA, 512)]);
    queue.request(WRITE_ZEROES, 0, &[(DATA, 16)]);
    let discard = queue.request(DISCARD, 0, &[(DATA, 16)]);
    queue.kick();
    let asked = rig.take(3);
    assert!(matches!(asked[0].verb, Verb::Write { fua: true, .. }));
    assert!(matches!(asked[1].verb, Verb::WriteZeroes { fua: true, .. }));
    let more = rig.succeed(asked[2].key).unwrap();
    assert_eq!(more.key, asked[2].key);
    assert!(matches!(more.verb, Verb::Flush));
    assert_eq!(queue.status(discard), UNANSWERED);
    assert!(rig.succeed(more.key).is_none());
    assert_eq!(rig.answer(&mut queue).0, discard);

    assert_eq!(rig.acknowledged(&wce(1), &[]), 0);
    queue.request(WRITE, 0, &[(DATA, 512)]);
    queue.kick();
    assert!(matches!(
        rig.take(1)[0].verb,
        Verb::Write { fua: false, .. }
    ));
}

#[test]
fn a_guest_that_cannot_flush_writes_through() {
    let without = Features::BLK_FLUSH.with(Features::LOG_ALL);
    let mut rig = Rig::negotiated(&disk(), without);
    let mut queue = rig.start_queue(0, plain());
    queue.request(WRITE, 0, &[(DATA, 512)]);
    queue.kick();
    assert!(matches!(rig.take(1)[0].verb, Verb::Write { fua: true, .. }));
}

#[test]
fn queues_are_served_side_by_side() {
    let mut rig = Rig::negotiated(&disk(), Features::LOG_ALL);
    let mut queues: Vec<_> = (0..4).map(|ring| rig.start_queue(ring, plain())).collect();
    for (at, queue) in queues.iter_mut().enumerate() {
        queue.request(READ, at as u64, &[(DATA + 512 * at as u64, 512)]);
        queue.kick();
    }
    for asked in rig.take(4) {
        let Verb::Read { offset, .. } = asked.verb else {
            panic!("{asked:?}")
        };
        let number = u8::try_from(offset.get() / 512).unwrap();
        rig.give(asked.key, &[number; 512]);
    }
    for (at, queue) in queues.iter_mut().enumerate() {
        rig.answer(queue);
        let number = u8::try_from(at).unwrap();
        assert_eq!(rig.ram.bytes(DATA + 512 * at as u64, 512), [number; 512]);
    }
}

#[test]
fn a_buffer_may_lie_across_regions() {
    let mut rig = Rig::new(&disk());
    rig.negotiate(Features::LOG_ALL);
    let half = support::RAM_BYTES as u64 / 2;
    let file = rig.ram.file();
    for start in [0, half] {
        let region = Region {
            guest: start,
            size: half,
            // The other way round, so that nothing is right by chance.
            user: support::front::USER + if start == 0 { 0 } else { 1 << 30 },
            offset: start,
        };
        let request = Request::AddRegion(region);
        let files = [file.try_clone().unwrap()];
        assert_eq!(rig.acknowledged(&request, &borrow(&files)), 0);
    }
    let mut queue = rig.start_queue(0, plain());
    let head = queue.request(READ, 0, &[(half - 100, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let into = rig.connection().buffers(asked.key).unwrap();
    assert_eq!(into.len(), 512);
    drop(into);
    let bytes = pattern(512);
    rig.give(asked.key, &bytes);
    assert_eq!(rig.answer(&mut queue), (head, 513));
    assert_eq!(rig.ram.bytes(half - 100, 512), bytes);
}

#[test]
fn kicks_and_interrupts_are_spared_while_both_sides_are_busy() {
    let (mut rig, mut queue) = Rig::started(&disk(), plain());
    rig.turn();
    queue.interrupts();
    queue.want_interrupt(0);
    for at in 0..8 {
        queue.request(READ, at, &[(DATA, 512)]);
    }
    assert!(queue.kick());
    let asked = rig.take(8);
    // One interrupt for a turn's worth of answers.
    for one in &asked[..4] {
        rig.give(one.key, &[0; 512]);
    }
    rig.turn();
    assert_eq!(queue.interrupts(), 1);
    // None as long as the guest wants none.
    (0..4).for_each(|_| assert!(queue.answer().is_some()));
    queue.want_interrupt(3);
    rig.give(asked[4].key, &[0; 512]);
    rig.turn();
    assert_eq!(queue.interrupts(), 0);
    for one in &asked[5..] {
        rig.give(one.key, &[0; 512]);
    }
    rig.turn();
    assert_eq!(queue.interrupts(), 1);
    let counters = rig.connection().counters();
    assert_eq!((counters.chains, counters.kicks), (8, 1));
}

#[test]
fn a_full_connection_takes_nothing_until_there_is_room() {
    let limits = frontend::limits::ConnectionLimits {
        requests: 2,
        bytes: Bytes::mib(1),
    };
    let mut rig = Rig::with_limits(&disk(), limits);
    rig.negotiate(Features::LOG_ALL);
    rig.give_memory();
    let mut queue = rig.start_queue(0, plain());
    for at in 0..5 {
        queue.request(READ, at, &[(DATA, 512)]);
    }
    queue.kick();
    let mut asked = rig.take(2);
    rig.turn();
    assert!(rig.taken.is_empty());
    for _ in 0..3 {
        rig.give(asked.remove(0).key, &[0; 512]);
        asked.extend(rig.take(1));
    }
    for one in asked {
        rig.give(one.key, &[0; 512]);
    }
    for _ in 0..5 {
        rig.answer(&mut queue);
    }
}

#[test]
fn ranges_that_carry_nothing_are_limited_too() {
    let mut large = disk();
    large.size = Bytes::gib(1024);
    for what in [DISCARD, WRITE_ZEROES] {
        let (mut rig, mut queue) = Rig::started(&large, plain());
        // 2 GiB each, which is all that may be in flight.
        let mut range = 0_u64.to_le_bytes().to_vec();
        range.extend((4_u32 << 20).to_le_bytes());
        range.extend(0_u32.to_le_bytes());
        rig.ram.write(DATA, &range);
        for _ in 0..10 {
            queue.request(what, 0, &[(DATA, 16)]);
        }
        queue.kick();
        for left in (0..10).rev() {
            let one = rig.take(1).remove(0);
            rig.turn();
            assert!(rig.taken.is_empty(), "{left} more wait in the ring");
            assert!(rig.succeed(one.key).is_none());
            rig.answer(&mut queue);
        }
    }
}

#[test]
fn a_guest_that_is_watched_kicks_only_while_nobody_looks() {
    for style in STYLES {
        let (mut rig, mut queue) = Rig::started(&disk(), style);
        rig.watch();
        let read = |rig: &mut Rig, queue: &mut support::driver::Queue, kicks: bool| {
            assert!(!rig.connection().has_work());
            queue.request(READ, 0, &[(DATA, 512)]);
            assert_eq!(queue.kick(), kicks, "{style:?}");
            assert!(kicks || rig.connection().has_work());
            let asked = rig.take(1).pop().unwrap();
            rig.give(asked.key, &[1; 512]);
            rig.answer(queue);
        };
        // It was asked to kick when the queue was started, and never since.
        read(&mut rig, &mut queue, true);
        assert!(rig.connection().is_quiet());
        read(&mut rig, &mut queue, false);
        read(&mut rig, &mut queue, false);
        assert!(!rig.connection().rest(), "nothing has come");
        assert!(!rig.connection().is_quiet());
        read(&mut rig, &mut queue, true);

        // Something comes just before everybody sleeps.
        queue.request(READ, 0, &[(DATA, 512)]);
        assert!(!queue.kick());
        assert!(rig.connection().rest());
        assert!(rig.connection().is_pending());
        let asked = rig.take(1).pop().unwrap();
        rig.give(asked.key, &[1; 512]);
        rig.answer(&mut queue);
    }
}

#[test]
fn a_guest_that_gets_an_answer_is_looked_at_again() {
    for style in STYLES {
        let (mut rig, mut queue) = Rig::started(&disk(), style);
        rig.watch();
        for kicks in [true, false, false] {
            queue.request(READ, 0, &[(DATA, 512)]);
            assert_eq!(queue.kick(), kicks, "{style:?}");
            let asked = rig.take(1).pop().unwrap();
            // The thread sleeps while the disk works, and the guest has to kick meanwhile.
            assert!(!rig.connection().rest());
            rig.give(asked.key, &[1; 512]);
            rig.answer(&mut queue);
            assert!(rig.connection().is_quiet());
        }
        assert!(!rig.connection().rest());
        queue.request(READ, 0, &[(DATA, 512)]);
        assert!(queue.kick(), "the thread sleeps, {style:?}");
        rig.take(1);
    }
}
