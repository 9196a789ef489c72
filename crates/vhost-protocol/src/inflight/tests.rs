use super::*;
use crate::area::fake::{Fake, FakeArea};
use proptest::prelude::*;
use std::cell::Cell;

const QUEUE: u16 = 8;

fn region() -> Fake {
    Fake::new(Inflight::<FakeArea<'_>>::stride(QUEUE))
}

fn open<A: Area>(area: A, used_index: u16) -> (Inflight<A>, Vec<u16>) {
    let mut heads = Vec::new();
    let inflight = Inflight::open(area, QUEUE, used_index, &mut heads).unwrap();
    (inflight, heads)
}

#[test]
fn a_fresh_region_has_nothing_in_flight() {
    let memory = region();
    let (_, heads) = open(memory.area(0, 16 + 16 * 8), 5);
    assert_eq!(heads, []);
    assert_eq!(memory.0.borrow()[8..16], [1, 0, 8, 0, 0, 0, 5, 0]);
}

#[test]
fn what_was_begun_is_found_in_its_order() {
    let memory = region();
    let area = memory.area(0, 16 + 16 * 8);
    let (mut first, _) = open(area, 0);
    for head in [6, 2, 4] {
        first.begin(head);
    }
    first.prepare(&[2]);
    first.finish(&[2], 1);
    let (mut second, heads) = open(area, 1);
    assert_eq!(heads, [6, 4]);
    second.begin(1);
    assert_eq!(open(area, 1).1, [6, 4, 1]);
}

#[test]
fn a_region_of_another_queue_is_refused() {
    let memory = region();
    let area = memory.area(0, 16 + 16 * 8);
    memory.put(8, &[2, 0, 8, 0]);
    let foreign = Inflight::open(area, QUEUE, 0, &mut Vec::new());
    let (version, size) = (2, 8);
    assert_eq!(foreign.unwrap_err(), BadInflight::Foreign { version, size });
    memory.put(8, &[1, 0, 4, 0]);
    assert!(Inflight::open(area, QUEUE, 0, &mut Vec::new()).is_err());
    let short = Inflight::open(memory.area(0, 100), QUEUE, 0, &mut Vec::new());
    let (found, needed) = (100, 144);
    assert_eq!(short.unwrap_err(), BadInflight::Short { found, needed });
}

/// An area on which only so many more stores have an effect: then the process was killed.
struct Mortal<'a> {
    area: FakeArea<'a>,
    stores_left: &'a Cell<u32>,
}

impl Mortal<'_> {
    fn lives(&self) -> bool {
        let left = self.stores_left.get();
        self.stores_left.set(left.saturating_sub(1));
        left > 0
    }
}

impl Area for Mortal<'_> {
    fn len(&self) -> usize {
        self.area.len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        self.area.load(at, into);
    }
    fn store(&self, at: usize, from: &[u8]) {
        if self.lives() {
            self.area.store(at, from);
        }
    }
    fn load_u16(&self, at: usize) -> u16 {
        self.area.load_u16(at)
    }
    fn store_u16(&self, at: usize, value: u16) {
        if self.lives() {
            self.area.store_u16(at, value);
        }
    }
}

proptest! {
    /// Killed at any store: every request that was begun is either in the used ring or found in
    /// flight, and never both.
    #[test]
    fn nothing_is_lost_or_done_twice(
        stores in 0_u32..120,
        steps in prop::collection::vec((0_u16..8, 1_usize..4), 1..12),
    ) {
        let memory = region();
        let used_ring = Cell::new(0_u16);
        let left = Cell::new(u32::MAX);
        let mortal = Mortal { area: memory.area(0, 16 + 16 * 8), stores_left: &left };
        let (mut inflight, _) = open(mortal, 0);
        left.set(stores);
        let mut running: Vec<u16> = Vec::new();
        // What the world outside knows: begun (a store ago), and answered.
        let mut begun: Vec<u16> = Vec::new();
        let mut answered: Vec<u16> = Vec::new();
        for (head, batch) in steps {
            if !running.contains(&head) && !begun.contains(&head) {
                let counted = left.get();
                inflight.begin(head);
                // Two stores: only with the second has it begun.
                if counted >= 2 {
                    begun.push(head);
                }
                running.push(head);
            }
            if running.len() > batch {
                let done: Vec<u16> = running.drain(..batch).collect();
                inflight.prepare(&done);
                if left.get() > 0 {
                    left.set(left.get() - 1);
                    used_ring.set(used_ring.get() + u16::try_from(done.len()).unwrap());
                    answered.extend(&done);
                    begun.retain(|head| !done.contains(head));
                }
                inflight.finish(&done, used_ring.get());
            }
        }
        left.set(u32::MAX);
        let (_, mut heads) = open(memory.area(0, 16 + 16 * 8), used_ring.get());
        heads.sort_unstable();
        begun.sort_unstable();
        prop_assert_eq!(heads, begun);
    }
}
