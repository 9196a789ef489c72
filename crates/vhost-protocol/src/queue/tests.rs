use super::*;
use crate::area::fake::{Fake, FakeArea};

const SIZE: u16 = 4;
const AVAILABLE: usize = 0x100;
const USED: usize = 0x200;

fn queue(memory: &Fake, by_index: bool, base: u16) -> Queue<FakeArea<'_>> {
    let areas = QueueAreas {
        descriptors: memory.area(0, 0x100),
        available: memory.area(AVAILABLE, 0x100),
        used: memory.area(USED, 0x100),
    };
    Queue::new(areas, SIZE, base, by_index).unwrap()
}

/// What the guest does: puts a head at an index, and its index behind it.
fn offer(memory: &Fake, index: u16, head: u16) {
    let place = usize::from(index % SIZE);
    memory.put(AVAILABLE + 4 + 2 * place, &head.to_le_bytes());
    memory.put(AVAILABLE + 2, &index.wrapping_add(1).to_le_bytes());
}

fn word(memory: &Fake, at: usize) -> u16 {
    let bytes = memory.0.borrow();
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[test]
fn heads_come_in_order_across_the_end_of_the_index() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, true, 65534);
    memory.put(AVAILABLE + 2, &65534_u16.to_le_bytes());
    assert_eq!(queue.pop(), Ok(None));
    for (index, head) in [(65534, 3), (65535, 1), (0, 2)] {
        offer(&memory, index, head);
    }
    assert_eq!(queue.waiting(), Ok(3));
    let heads: Vec<u16> = std::iter::from_fn(|| queue.pop().unwrap()).collect();
    assert_eq!(heads, [3, 1, 2]);
    assert_eq!(queue.next_available(), 1);
}

#[test]
fn a_guest_that_offers_more_than_fits_is_found_out() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, true, 0);
    memory.put(AVAILABLE + 2, &5_u16.to_le_bytes());
    let runaway = BadQueue::Runaway { ahead: 5, size: 4 };
    assert_eq!(queue.pop(), Err(runaway));
    assert_eq!(queue.listen(), Err(runaway));
    offer(&memory, 0, 4);
    assert_eq!(queue.pop(), Err(BadQueue::Head { head: 4, size: 4 }));
}

#[test]
fn answers_are_seen_when_they_are_published() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, true, 0);
    queue.put(3, 513);
    queue.put(1, 1);
    assert_eq!(word(&memory, USED + 2), 0);
    queue.publish();
    assert_eq!(word(&memory, USED + 2), 2);
    let bytes = memory.0.borrow();
    let entries = [[3, 0, 0, 0, 1, 2, 0, 0], [1, 0, 0, 0, 1, 0, 0, 0]].concat();
    assert_eq!(bytes[USED + 4..USED + 20], entries);
}

#[test]
fn an_interrupt_is_due_when_the_guests_index_is_passed() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, true, 0);
    let used_event = AVAILABLE + 4 + 2 * usize::from(SIZE);
    let answer = |queue: &mut Queue<FakeArea<'_>>, event: u16| {
        memory.put(used_event, &event.to_le_bytes());
        queue.put(0, 1);
        queue.publish();
        queue.wants_interrupt()
    };
    assert!(answer(&mut queue, 9), "nothing is known of the first");
    assert!(answer(&mut queue, 1), "the entry of index 1 was just used");
    assert!(!answer(&mut queue, 3), "that of index 3 was not yet");
    assert!(answer(&mut queue, 3));
    assert!(!queue.wants_interrupt(), "nothing new");
}

#[test]
fn without_indices_the_guests_flag_counts() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, false, 0);
    queue.put(0, 1);
    queue.publish();
    assert!(queue.wants_interrupt());
    memory.put(AVAILABLE, &[1, 0]);
    queue.put(0, 1);
    queue.publish();
    assert!(!queue.wants_interrupt());
}

#[test]
fn what_comes_while_going_to_sleep_is_seen() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, true, 0);
    offer(&memory, 0, 2);
    assert_eq!(queue.pop(), Ok(Some(2)));
    assert_eq!(queue.listen(), Ok(false));
    assert_eq!(word(&memory, USED + 4 + 8 * usize::from(SIZE)), 1);
    offer(&memory, 1, 3);
    assert_eq!(queue.listen(), Ok(true));
}

#[test]
fn without_indices_quiet_is_a_flag() {
    let memory = Fake::new(0x300);
    let mut queue = queue(&memory, false, 0);
    queue.be_quiet();
    assert_eq!(word(&memory, USED), 1);
    assert_eq!(queue.listen(), Ok(false));
    assert_eq!(word(&memory, USED), 0);
}

#[test]
fn a_queue_has_a_sensible_size_and_room_for_it() {
    for size in [0, 3, 2048, 65536, u32::MAX] {
        assert_eq!(check_size(size), Err(BadQueue::Size(size)));
    }
    let memory = Fake::new(0x300);
    let areas = QueueAreas {
        descriptors: memory.area(0, 64),
        available: memory.area(AVAILABLE, 14),
        used: memory.area(USED, 37),
    };
    let short = Queue::new(areas, SIZE, 0, true);
    assert_eq!(short.unwrap_err(), BadQueue::Short);
}

#[test]
fn a_queue_goes_on_where_its_used_ring_is() {
    let memory = Fake::new(0x300);
    memory.put(USED + 2, &7_u16.to_le_bytes());
    let mut queue = queue(&memory, true, 7);
    assert_eq!(queue.used_index(), 7);
    queue.put(0, 1);
    queue.publish();
    assert_eq!(word(&memory, USED + 2), 8);
}
