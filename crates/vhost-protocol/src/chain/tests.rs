use super::*;
use crate::area::fake::{Fake, FakeArea};
use crate::queue::QueueAreas;
use proptest::prelude::*;

const SIZE: u16 = 8;
const TABLE: u64 = 0x1000;

fn queue(memory: &Fake) -> Queue<FakeArea<'_>> {
    let areas = QueueAreas {
        descriptors: memory.area(0, 0x100),
        available: memory.area(0x100, 0x100),
        used: memory.area(0x200, 0x100),
    };
    Queue::new(areas, SIZE, 0, true).unwrap()
}

fn descriptor(address: u64, length: u32, flags: u16, next: u16) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

fn memory(at: usize, descriptors: &[(u64, u32, u16, u16)]) -> Fake {
    let memory = Fake::new(0x20_000);
    for (place, (address, length, flags, next)) in descriptors.iter().enumerate() {
        let bytes = descriptor(*address, *length, *flags, *next);
        memory.put(at + 16 * place, &bytes);
    }
    memory
}

fn read(memory: &Fake, head: u16) -> Result<Chain, BadChain> {
    let mut chain = Chain::default();
    chain.read(&queue(memory), memory, head, true)?;
    Ok(chain)
}

fn lengths(segments: &[Segment]) -> Vec<u32> {
    segments.iter().map(|segment| segment.length).collect()
}

/// A table of `descriptors` that descriptor 0 of the ring points to.
fn indirect(descriptors: &[(u64, u32, u16, u16)]) -> Fake {
    let memory = memory(usize::try_from(TABLE).unwrap(), descriptors);
    let length = u32::try_from(descriptors.len() * 16).unwrap();
    memory.put(0, &descriptor(TABLE, length, INDIRECT, 0));
    memory
}

#[test]
fn a_chain_is_followed_and_sorted() {
    let memory = memory(
        0,
        &[
            (0x10, 16, NEXT, 3),
            (0, 0, 0, 0),
            (0x30, 1, WRITE, 0),
            (0x20, 512, NEXT | WRITE, 2),
        ],
    );
    let chain = read(&memory, 0).unwrap();
    assert_eq!(lengths(&chain.readable), [16]);
    assert_eq!(lengths(&chain.writable), [512, 1]);
    assert_eq!(chain.writable[0].address, GuestAddress(0x20));
}

#[test]
fn a_loop_ends() {
    let memory = memory(0, &[(0x10, 16, NEXT, 1), (0x10, 16, NEXT, 0)]);
    assert_eq!(read(&memory, 0), Err(BadChain::TooLong(SIZE)));
    let table = indirect(&[(0x10, 16, NEXT, 1), (0x10, 16, NEXT, 0)]);
    assert_eq!(read(&table, 0), Err(BadChain::TooLong(2)));
}

#[test]
fn what_a_driver_may_not_write_is_refused() {
    let refused = |descriptors: &[(u64, u32, u16, u16)]| read(&memory(0, descriptors), 0);
    assert_eq!(refused(&[(0, 0, 0, 0)]), Err(BadChain::Empty));
    assert_eq!(
        refused(&[(u64::MAX, 1, 0, 0)]),
        Err(BadChain::Overflow(GuestAddress(u64::MAX)))
    );
    assert_eq!(refused(&[(1, 1, NEXT, SIZE)]), Err(BadChain::Next(SIZE)));
    assert_eq!(
        refused(&[(1, 1, NEXT | WRITE, 1), (1, 1, 0, 0)]),
        Err(BadChain::Order)
    );
}

#[test]
fn a_table_is_read_in_any_order() {
    let in_order: Vec<_> = (0..40_u16)
        .map(|place| {
            let flags = if place < 39 { NEXT } else { WRITE };
            (0x100, u32::from(place) + 1, flags, place + 1)
        })
        .collect();
    let chain = read(&indirect(&in_order), 0).unwrap();
    assert_eq!(lengths(&chain.readable), (1..=39).collect::<Vec<u32>>());
    assert_eq!(lengths(&chain.writable), [40]);

    let backwards = [(1, 1, NEXT, 2), (1, 3, 0, 0), (1, 2, NEXT, 1)];
    let chain = read(&indirect(&backwards), 0).unwrap();
    assert_eq!(lengths(&chain.readable), [1, 2, 3]);
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let one = |table: (u64, u32, u16, u16)| read(&memory(0, &[table, (1, 1, 0, 0)]), 0);
    assert_eq!(one((TABLE, 0, INDIRECT, 0)), Err(BadChain::Indirect));
    assert_eq!(one((TABLE, 17, INDIRECT, 0)), Err(BadChain::Indirect));
    assert_eq!(
        one((TABLE, 16 * 1025, INDIRECT, 0)),
        Err(BadChain::Indirect)
    );
    assert_eq!(
        one((TABLE, 16, INDIRECT | NEXT, 1)),
        Err(BadChain::Indirect)
    );
    assert!(matches!(
        one((0x10_0000, 16, INDIRECT, 0)),
        Err(BadChain::Unmapped(_))
    ));
    assert!(matches!(
        one((u64::MAX - 7, 16, INDIRECT, 0)),
        Err(BadChain::Overflow(_))
    ));
    let nested = indirect(&[(TABLE, 16, INDIRECT, 0)]);
    assert_eq!(read(&nested, 0), Err(BadChain::Indirect));
    let behind = memory(0, &[(1, 1, NEXT, 1), (TABLE, 16, INDIRECT, 0)]);
    assert_eq!(read(&behind, 0), Err(BadChain::Indirect));
}

#[test]
fn a_guest_that_did_not_agree_to_tables_has_none() {
    let memory = indirect(&[(1, 1, 0, 0)]);
    let mut chain = Chain::default();
    let refused = chain.read(&queue(&memory), &memory, 0, false);
    assert_eq!(refused, Err(BadChain::Indirect));
}

proptest! {
    #[test]
    fn any_descriptors_are_a_chain_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0x100),
        table in prop::collection::vec(any::<u8>(), 0x200),
        steer in prop::collection::vec((0_u16..8, 0_u16..10, 0_u32..64), 8),
        head in 0..SIZE,
    ) {
        let memory = Fake::new(0x2000);
        memory.put(0, &bytes);
        memory.put(0x1000, &table);
        // Random bytes alone hardly ever make a chain: flags, next and length are steered.
        for (place, (flags, next, length)) in steer.iter().enumerate() {
            let at = place * 16;
            memory.put(at, &TABLE.to_le_bytes());
            memory.put(at + 8, &(length * 16).to_le_bytes());
            memory.put(at + 12, &flags.to_le_bytes());
            memory.put(at + 14, &next.to_le_bytes());
        }
        if let Ok(chain) = read(&memory, head) {
            let all = chain.readable.iter().chain(&chain.writable);
            prop_assert!(chain.readable.len() + chain.writable.len() <= usize::from(CHAIN_SEGMENTS_MAX));
            for segment in all {
                prop_assert!(segment.length > 0);
                prop_assert!(segment.address.checked_add(u64::from(segment.length)).is_some());
            }
        }
    }
}
