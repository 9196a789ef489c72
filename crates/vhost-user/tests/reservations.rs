//! Two connections to one disk: rings run on one of them at a time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use frontend::limits::ConnectionLimits;
use frontend::{Incoming, RequestKey, Reservation};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use support::driver::{Queue, READ, Style};
use support::front::{Front, start_messages, whole};
use support::{DATA, Rig, disk};
use vhost_protocol::{Features, ProtocolFeatures, Request};
use vhost_user::Connection;

const PLAIN: Style = Style {
    indirect: true,
    by_index: false,
};

/// A second QEMU at the disk of a rig, whose ring and memory it shares.
struct Second {
    front: Front,
    connection: Connection,
    taken: Vec<Incoming>,
}

impl Second {
    fn new(rig: &Rig, reservation: &Reservation) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let limits = ConnectionLimits::default();
        let connection = Connection::new(theirs.into(), &disk(), &rig.ring, &rig.pool, limits);
        Self {
            front: Front { socket: ours },
            connection: connection.reserving(reservation.clone()),
            taken: Vec::new(),
        }
    }

    /// Lets it do what it can do now.
    fn turn(&mut self, rig: &mut Rig) {
        for _ in 0..3 {
            rig.turn();
            self.connection.poll(&mut self.taken);
        }
    }

    fn say(&mut self, rig: &mut Rig, request: &Request, files: &[BorrowedFd<'_>]) {
        self.front.say(request, false, files);
        self.turn(rig);
    }

    /// Everything that a QEMU says until its rings run.
    fn start(&mut self, rig: &mut Rig) {
        self.say(rig, &Request::GetFeatures, &[]);
        let offered = Features::from_bits(self.front.reply().unwrap().number());
        let features = offered.without(Features::LOG_ALL.with(Features::RING_EVENT_IDX));
        self.say(rig, &Request::SetFeatures(features), &[]);
        let protocol = ProtocolFeatures::CONFIG.with(ProtocolFeatures::MQ);
        self.say(rig, &Request::SetProtocolFeatures(protocol), &[]);
        let ram = std::sync::Arc::clone(&rig.ram);
        let table = Request::SetMemoryTable(vec![whole(ram.len())]);
        self.say(rig, &table, &[ram.file().as_fd()]);
    }
}

/// A QEMU that has the reservation, its queue, and a read of 512 bytes that is at the disk.
fn first_with_a_read(reservation: &Reservation) -> (Rig, Queue, RequestKey) {
    let mut rig = Rig::new(&disk());
    let first = rig.connection.take().unwrap();
    rig.connection = Some(first.reserving(reservation.clone()));
    rig.negotiate(Features::LOG_ALL.with(Features::RING_EVENT_IDX));
    rig.give_memory();
    let mut queue = rig.start_queue(0, PLAIN);
    queue.request(READ, 0, &[(DATA, 512)]);
    queue.kick();
    let read = rig.take(1)[0].key;
    (rig, queue, read)
}

#[test]
fn the_second_talks_and_starts_when_the_first_has_stopped() {
    let reservation = Reservation::default();
    let (mut rig, queue, read) = first_with_a_read(&reservation);

    let mut second = Second::new(&rig, &reservation);
    second.start(&mut rig);
    let messages = start_messages(&queue, 0, 1, false);
    second.front.say_all(&messages);
    second.front.say(&Request::GetQueueCount, false, &[]);
    second.turn(&mut rig);
    assert!(second.connection.waits_for_reservation());
    assert_eq!(second.connection.queues(), 0);
    assert!(second.front.reply().is_none());

    // The first stops, which it does not before its request is answered.
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    second.turn(&mut rig);
    assert!(second.connection.waits_for_reservation());
    rig.give(read, &[7; 512]);
    rig.until("the stop", |_| reservation.take_released());
    second.turn(&mut rig);
    assert!(!second.connection.waits_for_reservation());
    assert_eq!(second.connection.queues(), 1);
    assert_eq!(second.front.reply().unwrap().number(), 64);

    // And the first waits now.
    rig.front.say_all(&messages);
    rig.turn();
    assert!(rig.connection().waits_for_reservation());
    drop(second);
    rig.turn();
    assert_eq!(rig.connection().queues(), 1);
}

#[test]
fn a_reservation_outlives_a_socket_until_the_disk_has_answered() {
    let reservation = Reservation::default();
    let (mut rig, queue, read) = first_with_a_read(&reservation);
    let mut second = Second::new(&rig, &reservation);
    second.start(&mut rig);
    second.front.say_all(&start_messages(&queue, 0, 0, false));
    rig.front = Front {
        socket: UnixStream::pair().unwrap().0,
    };
    second.turn(&mut rig);
    assert!(!rig.is_finished());
    assert!(second.connection.waits_for_reservation());
    rig.give(read, &[7; 512]);
    rig.turn();
    assert!(rig.is_finished());
    drop(rig.connection.take());
    second.turn(&mut rig);
    assert_eq!(second.connection.queues(), 1);
    // What the first had begun and nobody answered is asked again.
    assert_eq!(second.taken.len(), 1);
}

#[test]
fn a_qemu_that_hangs_up_while_its_rings_wait_is_heard() {
    let reservation = Reservation::default();
    reservation.close();
    let (mut rig, queue) = {
        let mut rig = Rig::new(&disk());
        let first = rig.connection.take().unwrap();
        rig.connection = Some(first.reserving(reservation.clone()));
        rig.negotiate(Features::LOG_ALL.with(Features::RING_EVENT_IDX));
        rig.give_memory();
        let queue = Queue::new(&rig.ram, 0, 64, PLAIN);
        (rig, queue)
    };
    rig.front.say_all(&start_messages(&queue, 0, 0, false));
    rig.turn();
    assert!(rig.connection().waits_for_reservation());
    // Messages behind the one that waits are not read, and do not hide its end.
    rig.front.say(&Request::GetQueueCount, false, &[]);
    rig.turn();
    assert!(!rig.connection().has_hung_up());
    rig.front = Front {
        socket: UnixStream::pair().unwrap().0,
    };
    rig.until("the end", |rig| rig.is_finished());
}

#[test]
fn a_qemu_that_hangs_up_while_its_queue_drains_is_heard_and_its_request_ends() {
    let reservation = Reservation::default();
    let (mut rig, _queue, read) = first_with_a_read(&reservation);
    rig.front.say(&Request::GetRingBase { ring: 0 }, false, &[]);
    rig.turn();
    assert!(!rig.connection().has_hung_up());
    rig.front = Front {
        socket: UnixStream::pair().unwrap().0,
    };
    rig.until("the hang-up", |rig| rig.connection().has_hung_up());
    assert!(!rig.is_finished());
    rig.give(read, &[7; 512]);
    rig.turn();
    assert!(rig.is_finished());
}
