//! Hits go to where the guest wants them, and are believed only when they are verified there.

use crate::rig::{Rig, page};
use block_io::GuestBuffer;
use cache::{Verb, WriteBack};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tenancy::Settings;
use units::{BLOCK_BYTES, Bytes, Duration, Offset};

/// A guest's memory.
#[derive(Debug)]
struct Lap {
    bytes: RefCell<Vec<u8>>,
    /// So many looks at it find that the guest has written there.
    scribbles: Cell<u32>,
}

impl Lap {
    fn new(blocks: usize) -> Rc<Self> {
        Rc::new(Self {
            bytes: RefCell::new(vec![0xee; blocks * 4096]),
            scribbles: Cell::new(0),
        })
    }

    fn block(&self, number: usize) -> Vec<u8> {
        self.bytes.borrow()[number * 4096..][..4096].to_vec()
    }
}

impl GuestBuffer for Lap {
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        if let Some(left) = self.scribbles.get().checked_sub(1) {
            self.scribbles.set(left);
            self.bytes.borrow_mut()[at] ^= 1;
        }
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
    }
    fn store(&self, at: usize, from: &[u8]) {
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}

fn ask(rig: &mut Rig, offset: u64, lap: &Rc<Lap>) -> u64 {
    let verb = Verb::Read {
        offset: Offset::new(offset),
        length: Bytes::new(lap.bytes() as u64),
    };
    rig.ask_into(verb, Some(Rc::<Lap>::clone(lap) as Rc<dyn GuestBuffer>))
}

/// A cache that has the first four blocks of its disk, 1 to 4 everywhere, on flash.
fn warm() -> Rig {
    let mut rig = Rig::through();
    for (block, byte) in (0..).zip(1..=8) {
        rig.fill_origin(block, byte);
    }
    rig.read_run(0, 4).unwrap();
    rig.pass(Duration::from_secs(1));
    rig.told.clear();
    rig
}

#[test]
fn a_hit_is_read_to_where_the_guest_wants_it() {
    let mut rig = warm();
    let lap = Lap::new(2);
    let id = ask(&mut rig, BLOCK_BYTES, &lap);
    assert!(rig.in_place[&id].is_empty());
    assert_eq!((lap.block(0), lap.block(1)), (page(2), page(3)));
    assert_eq!(rig.cache_mut().facts().stats().in_place_bytes, 8192);
    assert!(rig.told.is_empty());
}

#[test]
fn what_is_not_on_flash_is_handed_over_beside_it() {
    let mut rig = warm();
    let lap = Lap::new(4);
    let id = ask(&mut rig, 2 * BLOCK_BYTES, &lap);
    let rest = &rig.in_place[&id];
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].0, 8192);
    assert_eq!(&rest[0].1[..], [page(5), page(6)].concat());
    assert_eq!((lap.block(0), lap.block(1)), (page(3), page(4)));
    assert_eq!(lap.block(2), page(0xee), "its asker puts it there");
}

#[test]
fn a_part_of_a_block_goes_by_way_of_a_buffer() {
    let mut rig = warm();
    let lap = Lap::new(1);
    let id = ask(&mut rig, 512, &lap);
    let expected = [&page(1)[512..], &page(2)[..512]].concat();
    assert_eq!(rig.bytes(id), Some(Ok(expected)));
    assert_eq!(lap.block(0), page(0xee));
}

#[test]
fn what_a_guest_changes_meanwhile_is_no_fault_of_the_flash() {
    let mut rig = warm();
    let lap = Lap::new(1);
    lap.scribbles.set(1);
    let id = ask(&mut rig, 0, &lap);
    assert_eq!(rig.bytes(id), Some(Ok(page(1))), "from a buffer of ours");
    let stats = rig.cache_mut().facts().stats();
    assert_eq!((stats.reads_repeated, stats.checksum_mismatches), (1, 0));
    assert!(rig.told.is_empty(), "the block is still cached");
}

#[test]
fn what_has_rotted_on_flash_comes_from_the_origin() {
    let mut rig = warm();
    rig.damage(&page(3));
    let lap = Lap::new(4);
    let id = ask(&mut rig, 0, &lap);
    let expected: Vec<u8> = (1..=4).flat_map(page).collect();
    assert_eq!(rig.bytes(id), Some(Ok(expected)));
    let stats = rig.cache_mut().facts().stats();
    assert_eq!((stats.reads_repeated, stats.checksum_mismatches), (1, 1));
    assert_eq!(rig.told.len(), 1);
}

#[test]
fn memory_that_cannot_be_filled_is_no_fault_of_the_flash() {
    let mut rig = warm();
    rig.memory_error = true;
    for _ in 0..100 {
        let id = ask(&mut rig, 0, &Lap::new(1));
        assert_eq!(rig.bytes(id), Some(Ok(page(1))));
    }
    let stats = rig.cache_mut().facts().stats();
    assert_eq!((stats.reads_repeated, stats.flash_errors), (100, 0));
    assert!(rig.told.is_empty());
}

#[test]
fn a_late_read_is_answered_when_the_flash_cannot_write_into_its_memory_any_more() {
    let mut rig = warm();
    rig.hold_flash = true;
    let lap = Lap::new(1);
    let id = ask(&mut rig, 0, &lap);
    assert_eq!(rig.held_at_flash(), (1, 1));
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.told.len(), 1, "the origin was asked");
    assert_eq!(rig.bytes(id), None, "the flash still has the memory");

    // Others do not get into that: while the flash is slow the origin answers them.
    let other = ask(&mut rig, BLOCK_BYTES, &Lap::new(1));
    assert_eq!(rig.held_at_flash(), (1, 1));
    assert_eq!(rig.bytes(other), Some(Ok(page(2))));
    assert_eq!(rig.bytes(id), None);

    rig.hold_flash = false;
    rig.drive();
    assert_eq!(rig.bytes(id), Some(Ok(page(1))));
    // One read a second asks the flash, too; five of them in time end that.
    for _ in 0..6 {
        rig.pass(Duration::from_secs(2));
        ask(&mut rig, 0, &Lap::new(1));
    }
    let third = ask(&mut rig, 2 * BLOCK_BYTES, &lap);
    assert!(rig.in_place.contains_key(&third), "directly again");
}

#[test]
fn what_the_origin_lacks_goes_by_way_of_a_buffer() {
    let mut rig = Rig::new(WriteBack::default());
    rig.write(5, 9);
    rig.pass(Duration::from_millis(200));
    let id = ask(&mut rig, 5 * BLOCK_BYTES, &Lap::new(1));
    assert_eq!(rig.bytes(id), Some(Ok(page(9))));
}

/// The old bytes are right for a read that began before the write, and for none that begins after it.
#[test]
fn what_a_write_overtakes_has_no_copy_in_memory() {
    for in_place in [false, true] {
        let mut rig = warm();
        let settings = Settings {
            frames: Some(Bytes::mib(1)),
            ..Settings::default()
        };
        let now = rig.now();
        rig.cache_mut().set_tenancy(Some(settings), now).unwrap();
        rig.hold_flash = true;
        let lap = Lap::new(1);
        let read = if in_place {
            ask(&mut rig, BLOCK_BYTES, &lap)
        } else {
            rig.begin_read(1)
        };
        let write = rig.begin_write(1, 9);
        rig.free();
        assert!(rig.in_place.contains_key(&read) || rig.bytes(read) == Some(Ok(page(2))));
        assert_eq!(rig.answer(write), Some(Ok(())));
        assert_eq!(rig.read(2).unwrap(), page(3));
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.read(1).unwrap(), page(9), "in place: {in_place}");
        let hot_hits = |rig: &mut Rig| {
            let disk = rig.disk;
            let stats = rig.cache_mut().facts().stats_of(disk);
            stats.unwrap().read_block_hot_hits
        };
        assert_eq!(hot_hits(&mut rig), 0);
        assert_eq!(rig.read(2).unwrap(), page(3));
        assert_eq!(hot_hits(&mut rig), 1, "what nobody wrote has one");
    }
}
