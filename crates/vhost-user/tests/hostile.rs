//! A guest or a QEMU that means harm harms itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use proptest::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;
use std::os::fd::AsFd;
use support::driver::{Queue, READ, Style, WRITE};
use support::{DATA, RAM_BYTES, Rig, disk};
use vhost_protocol::{Request, RingDescriptor};

const PLAIN: Style = Style {
    indirect: false,
    by_index: true,
};

/// That a device, its neighbour, is served as ever.
fn serves(rig: &mut Rig, queue: &mut Queue) {
    let head = queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 512]);
    assert_eq!(rig.answer(queue), (head, 513));
}

fn is_broken(rig: &mut Rig) -> bool {
    rig.turn();
    rig.connection().counters().broken == 1 && !rig.is_finished()
}

#[test]
fn a_broken_queue_is_left_alone_and_the_others_go_on() {
    let (mut rig, mut broken) = Rig::started(&disk(), PLAIN);
    let mut good = rig.start_queue(1, PLAIN);
    broken.chain(&[(DATA, 16, true)]);
    broken.kick();
    assert!(is_broken(&mut rig));
    broken.request(READ, 0, &[(DATA, 512)]);
    broken.kick();
    rig.turn();
    assert!(rig.taken.is_empty());
    serves(&mut rig, &mut good);
    // A driver that starts over is served again.
    rig.ask(&Request::GetRingBase { ring: 0 }, &[]);
    let mut anew = Queue::new(&rig.ram, 0x8_0000, 64, PLAIN);
    rig.start(&anew, 0, 0, false);
    serves(&mut rig, &mut anew);
}

#[test]
fn a_broken_queue_is_told_of() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    let error = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let set = Request::SetRingError(RingDescriptor {
        ring: 0,
        has_descriptor: true,
    });
    assert_eq!(rig.acknowledged(&set, &[error.as_fd()]), 0);
    queue.offer(64);
    queue.kick();
    let mut counter = [0; 8];
    rig.until("a signal", |_| {
        rustix::io::read(&error, &mut counter).is_ok()
    });
}

#[test]
fn one_descriptor_is_in_flight_once() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    let head = queue.request(READ, 0, &[(DATA, 512)]);
    queue.offer(head);
    queue.kick();
    assert!(is_broken(&mut rig));
    let asked = rig.take(1).pop().unwrap();
    rig.give(asked.key, &[1; 512]);
    assert_eq!(rig.answer(&mut queue), (head, 513));
    rig.turn();
    assert!(queue.answer().is_none());
}

#[test]
fn an_index_that_runs_away_breaks_the_queue() {
    let (mut rig, queue) = Rig::started(&disk(), PLAIN);
    rig.ram.store(queue.available + 2, 1000);
    rustix::io::write(&queue.kick, &1_u64.to_le_bytes()).unwrap();
    assert!(is_broken(&mut rig));
}

#[test]
fn a_status_outside_of_memory_breaks_the_queue() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    rig.ram.write(DATA, &[0; 16]);
    queue.chain(&[(DATA, 16, false), (DATA, 512, true), (1 << 40, 1, true)]);
    queue.kick();
    assert!(is_broken(&mut rig));
    assert!(rig.taken.is_empty());
}

#[test]
fn what_the_guest_changes_after_it_was_taken_changes_nothing() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    rig.ram.write(DATA, &[1; 512]);
    let head = queue.request(WRITE, 3, &[(DATA, 512)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    // Data, header and descriptors are the guest's to change.
    rig.ram
        .write(0, &vec![0xff; usize::try_from(queue.available).unwrap()]);
    rig.ram.write(DATA, &[2; 512]);
    let frontend::Verb::Write { offset, data, .. } = asked.verb else {
        panic!("a write")
    };
    assert_eq!((offset.get(), &*data), (3 * 512, &[1; 512][..]));
    drop(data);
    assert!(rig.succeed(asked.key).is_none());
    assert_eq!(rig.answer(&mut queue), (head, 1));
}

/// The file is cut, then something touches what was cut.
fn cut(touch: impl FnOnce(&mut Rig, &mut Queue)) {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    let (mut other, mut others) = Rig::started(&disk(), PLAIN);
    touch(&mut rig, &mut queue);
    assert!(rig.is_finished());
    serves(&mut other, &mut others);
}

#[test]
fn memory_that_is_cut_while_rings_are_read_costs_one_connection() {
    cut(|rig, queue| {
        queue.request(READ, 0, &[(DATA, 512)]);
        queue.kick();
        rustix::fs::ftruncate(rig.ram.file(), 0).unwrap();
        rig.turn();
    });
}

#[test]
fn memory_that_is_cut_under_an_answer_costs_one_connection() {
    cut(|rig, queue| {
        queue.request(READ, 0, &[(DATA, 512)]);
        queue.request(READ, 0, &[(DATA, 512)]);
        queue.kick();
        let asked = rig.take(2);
        rustix::fs::ftruncate(rig.ram.file(), 4096).unwrap();
        for one in asked {
            rig.give(one.key, &[1; 512]);
        }
        rig.turn();
    });
}

#[test]
fn memory_that_is_cut_under_the_kernel_is_a_failed_read() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    let head = queue.request(READ, 0, &[(DATA, 4096)]);
    queue.kick();
    let asked = rig.take(1).pop().unwrap();
    let into = rig.connection().buffers(asked.key).unwrap();
    rustix::fs::ftruncate(rig.ram.file(), DATA).unwrap();
    let source = rig.ring.source();
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let file = std::rc::Rc::new(file.into());
    source.submit(
        0,
        ring::Op::ReadInto {
            file,
            offset: 0,
            into,
        },
    );
    let mut done = None;
    rig.until("the read", |_| {
        done = done.take().or_else(|| source.pop());
        done.is_some()
    });
    let error = done.unwrap().result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    let failed = Err(block_io::IoError::Failed);
    rig.connection().reply_in_place(asked.key, failed);
    assert_eq!(rig.answer(&mut queue).0, head);
    assert_eq!(queue.status(head), 1);
}

#[test]
fn an_eventfd_that_is_full_holds_up_nobody() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    let mut good = rig.start_queue(1, PLAIN);
    // Blocking, and without room for one more.
    let full = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&full, &(u64::MAX - 1).to_le_bytes()).unwrap();
    let call = Request::SetRingCall(RingDescriptor {
        ring: 0,
        has_descriptor: true,
    });
    assert_eq!(rig.acknowledged(&call, &[full.as_fd()]), 0);
    serves(&mut rig, &mut queue);
    serves(&mut rig, &mut good);
    // Stopping waits for the interrupt, for this device alone.
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    rig.turn();
    assert!(rig.front.reply().is_none());
    serves(&mut rig, &mut good);
    rustix::io::read(&full, &mut [0; 8]).unwrap();
    assert_eq!(rig.reply().code, 11);
}

#[test]
fn an_eventfd_that_begins_to_block_is_waited_for() {
    let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
    serves(&mut rig, &mut queue);
    queue.interrupts();
    // The descriptor's flags are QEMU's too.
    let call = queue.call_fd();
    rustix::fs::fcntl_setfl(&call, OFlags::empty()).unwrap();
    for _ in 0..3 {
        queue.want_interrupt(0);
        serves(&mut rig, &mut queue);
        rig.until("an interrupt", |_| {
            let mut watched = [PollFd::new(&call, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec::default())).unwrap() == 1
        });
        assert!(queue.interrupts() > 0);
    }
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    assert_eq!(rig.reply().code, 11);
}

#[test]
fn a_flood_of_requests_that_need_no_disk_ends_a_turn() {
    let (mut rig, queue) = Rig::started(&disk(), PLAIN);
    // A ring that is always full: every head is offered again as soon as it is answered.
    let mut flood = queue;
    let heads: Vec<u16> = (0..20).map(|_| flood.request(99, 0, &[])).collect();
    flood.kick();
    let before = rig.connection().counters().chains;
    let mut incoming = Vec::new();
    for _ in 0..200 {
        rig.connection().poll(&mut incoming);
        for head in &heads {
            flood.offer(*head);
        }
        flood.kick();
        rig.turn();
    }
    assert!(rig.connection().counters().chains > before);
    assert!(!rig.is_finished());
}

/// Anything that QEMU can say, more often sense than chance would have it.
fn message() -> impl Strategy<Value = (Vec<u8>, u8)> {
    let code = 0_u32..46;
    let word = prop_oneof![
        Just(0_u64),
        Just(1),
        Just(64),
        Just(4096),
        Just(support::front::USER),
        Just(support::front::USER + 0x1000),
        Just(u64::MAX),
        any::<u64>(),
    ];
    let payload = prop::collection::vec(word, 0..8);
    let files = prop_oneof![Just(0_u8), Just(1), Just(2), 0_u8..12];
    (code, any::<bool>(), payload, files).prop_map(|(code, wants, words, files)| {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = u32::try_from(payload.len()).unwrap();
        let flags = 1 | u32::from(wants) << 3;
        let mut bytes = [code, flags, length].map(u32::to_le_bytes).concat();
        bytes.extend(payload);
        (bytes, files)
    })
}

/// What a guest puts where its rings are: heads, indices, addresses, flags.
fn scribble() -> impl Strategy<Value = (u64, Vec<u8>)> {
    let word = prop_oneof![
        Just(0_u16),
        Just(1),
        Just(2),
        Just(4),
        Just(7),
        Just(16),
        0_u16..70,
        any::<u16>()
    ];
    let words = prop::collection::vec(word, 1..24);
    (0_u64..0x800, words).prop_map(|(at, words)| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (at & !1, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whatever is said and scribbled: no panic, every turn ends, what the disk was asked is
    /// within the disk and is answered once.
    #[test]
    fn nothing_that_is_said_or_scribbled_does_harm(
        steps in prop::collection::vec((message(), scribble(), 0_u16..6, any::<bool>()), 1..24),
    ) {
        let (mut rig, mut queue) = Rig::started(&disk(), PLAIN);
        for ((bytes, files), (at, scribbled), requests, talk) in steps {
            for at in 0..requests.min(u16::try_from(queue.room() / 4).unwrap()) {
                queue.request(u32::from(at % 3), u64::from(at), &[(DATA, 512)]);
            }
            rig.ram.write(at, &scribbled);
            rustix::io::write(&queue.kick, &1_u64.to_le_bytes()).unwrap();
            if talk {
                let files: Vec<_> = (0..files).map(|at| if at % 2 == 0 { rig.ram.file() } else { queue.kick_fd() }).collect();
                rig.front.send(&bytes, &support::front::borrow(&files));
            }
            rig.turn();
            for one in std::mem::take(&mut rig.taken) {
                let (offset, length) = match &one.verb {
                    frontend::Verb::Read { offset, length }
                    | frontend::Verb::Discard { offset, length }
                    | frontend::Verb::WriteZeroes { offset, length, .. } => (offset.get(), length.get()),
                    frontend::Verb::Write { offset, data, .. } => (offset.get(), data.len() as u64),
                    _ => (0, 512),
                };
                prop_assert!(length > 0 && offset + length <= 16 << 20);
                let result = match one.verb {
                    frontend::Verb::Read { length, .. } => {
                        let data = rig.pool.take_zeroed(length.to_usize()).freeze();
                        Ok(smallvec::smallvec![data.slice(0..length.to_usize())])
                    }
                    _ => Ok(block_io::Payload::new()),
                };
                let mut more = rig.connection().reply(one.key, result);
                while let Some(next) = more {
                    more = rig.connection().reply(next.key, Ok(block_io::Payload::new()));
                }
            }
            rig.turn();
            if rig.is_finished() {
                break;
            }
        }
        prop_assert_eq!(rig.connection().in_flight(), 0);
        prop_assert!(rig.ram.len() == RAM_BYTES);
    }
}
