//! Messages from other threads wake the ring and none is lost.

use ring::{Ring, SendError, mailbox};
use units::Duration;

const TURN: Duration = Duration::from_secs(10);

#[test]
fn a_message_wakes_a_waiting_ring() {
    let ring = Ring::new(8).unwrap();
    let (sender, mut mailbox) = mailbox(&ring).unwrap();
    ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
    let thread = std::thread::spawn(move || {
        sender.send("hello").unwrap();
        sender
    });
    ring.submit_and_wait(Some(TURN)).unwrap();
    let mut ready = Vec::new();
    ring.take_ready(&mut ready);
    assert_eq!(ready, [mailbox.id()]);
    let mut got = Vec::new();
    mailbox.drain(&mut got);
    assert_eq!(got, ["hello"]);
    assert!(!mailbox.is_closed());
    drop(thread.join().unwrap());
}

#[test]
fn messages_of_many_threads_arrive_each_once_and_in_their_order() {
    const THREADS: u64 = 4;
    const MESSAGES: u64 = 5_000;
    let ring = Ring::new(8).unwrap();
    let (sender, mut mailbox) = mailbox(&ring).unwrap();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for message in 0..MESSAGES {
                    sender.send((thread, message)).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut next = [0; 4];
    let mut got = Vec::new();
    let mut ready = Vec::new();
    while !mailbox.is_closed() {
        ring.submit_and_wait(Some(TURN)).unwrap();
        ready.clear();
        ring.take_ready(&mut ready);
        assert!(!ready.is_empty(), "a wake-up was lost");
        mailbox.drain(&mut got);
        for (thread, message) in got.drain(..) {
            let expected = &mut next[usize::try_from(thread).unwrap()];
            assert_eq!(message, *expected);
            *expected += 1;
        }
    }
    assert_eq!(next, [MESSAGES; 4]);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn the_last_sender_to_go_wakes_the_ring() {
    let ring = Ring::new(8).unwrap();
    let (sender, mut mailbox) = mailbox::<()>(&ring).unwrap();
    let thread = std::thread::spawn(move || drop(sender));
    while !mailbox.is_closed() {
        let before = ring.now();
        ring.submit_and_wait(Some(TURN)).unwrap();
        assert!(ring.now().since(before) < TURN, "nobody rang");
        ring.take_ready(&mut Vec::new());
        mailbox.drain(&mut Vec::new());
    }
    thread.join().unwrap();
}

#[test]
fn a_message_to_a_dropped_mailbox_comes_back() {
    let ring = Ring::new(8).unwrap();
    let (sender, mailbox) = mailbox(&ring).unwrap();
    drop(mailbox);
    assert_eq!(sender.send(5), Err(SendError(5)));
}
