//! A guest whose memory is anything at all.
//!
//! ```text
//!  choice: bit 0 by index, bit 1 indirect allowed, bit 2 sectors of 4096, bit 3 read-only
//!  memory: descriptors 0x000 │ available 0x100 │ used 0x200 │ inflight 0x300 │ whatever, repeated
//! ```

use crate::pieces;
use std::cell::RefCell;
use units::Bytes;
use vhost_protocol::blk::{Ask, Call, Terms};
use vhost_protocol::limits::{CHAIN_SEGMENTS_MAX, PAYLOAD_BYTES_MAX};
use vhost_protocol::{
    Area, Chain, GuestAddress, GuestMemory, Inflight, Queue, QueueAreas, Segment, Unmapped,
};

const SIZE: u16 = 16;
const MEMORY: usize = 0x2000;
const PART: usize = 0x100;

struct Memory(RefCell<Vec<u8>>);

#[derive(Clone, Copy)]
struct Part<'a> {
    memory: &'a Memory,
    start: usize,
    length: usize,
}

impl GuestMemory for Memory {
    fn read(&self, at: GuestAddress, into: &mut [u8]) -> Result<(), Unmapped> {
        let length = into.len() as u64;
        let unmapped = Unmapped { at, length };
        let start = usize::try_from(at.0).map_err(|_| unmapped)?;
        let end = start.checked_add(into.len()).ok_or(unmapped)?;
        into.copy_from_slice(self.0.borrow().get(start..end).ok_or(unmapped)?);
        Ok(())
    }
}

impl Area for Part<'_> {
    fn len(&self) -> usize {
        self.length
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        assert!(at + into.len() <= self.length);
        let start = self.start + at;
        into.copy_from_slice(&self.memory.0.borrow()[start..start + into.len()]);
    }
    fn store(&self, at: usize, from: &[u8]) {
        assert!(at + from.len() <= self.length);
        let start = self.start + at;
        self.memory.0.borrow_mut()[start..start + from.len()].copy_from_slice(from);
    }
    fn load_u16(&self, at: usize) -> u16 {
        let mut bytes = [0; 2];
        self.load(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }
    fn store_u16(&self, at: usize, value: u16) {
        self.store(at, &value.to_le_bytes());
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, bytes)) = pieces::choice(bytes) else {
        return;
    };
    let bit = |n: u8| choice & (1 << n) != 0;
    let terms = Terms {
        size: Bytes::mib(1),
        sector: if bit(2) { 4096 } else { 512 },
        read_only: bit(3),
        can_discard: true,
    };
    let content: Vec<u8> = bytes.iter().copied().cycle().take(MEMORY).collect();
    if content.is_empty() {
        return;
    }
    let memory = Memory(RefCell::new(content));
    let part = |start, length| Part {
        memory: &memory,
        start,
        length,
    };
    let areas = QueueAreas {
        descriptors: part(0, PART),
        available: part(PART, PART),
        used: part(2 * PART, PART),
    };
    let base = areas.used.load_u16(2);
    let mut queue = Queue::new(areas, SIZE, base, bit(0)).expect("a queue of that size");
    let mut heads = Vec::new();
    let region = part(3 * PART, Inflight::<Part<'_>>::stride(SIZE));
    if let Ok(mut inflight) = Inflight::open(region, SIZE, queue.used_index(), &mut heads) {
        assert!(heads.len() <= usize::from(SIZE));
        assert!(heads.iter().all(|head| *head < SIZE));
        inflight.prepare(&heads);
        inflight.finish(&heads, queue.used_index());
    }
    let mut chain = Chain::default();
    for _ in 0..=SIZE {
        let Ok(Some(head)) = queue.pop() else { break };
        assert!(head < SIZE);
        if chain.read(&queue, &memory, head, bit(1)).is_err() {
            break;
        }
        judge_chain(&chain);
        let Ok(call) = Call::read(&mut chain, &memory, &terms) else {
            break;
        };
        judge_call(&call, &chain, &terms);
        queue.put(head, 1);
        queue.publish();
        queue.wants_interrupt();
    }
    // A guest that goes on for ever is the shell's concern; here it is only looked at.
    let _waiting = queue.listen();
}

fn judge_chain(chain: &Chain) {
    let all = chain.readable.iter().chain(&chain.writable);
    assert!(chain.readable.len() + chain.writable.len() <= usize::from(CHAIN_SEGMENTS_MAX));
    for segment in all {
        assert!(segment.length > 0);
        let end = segment.address.checked_add(u64::from(segment.length));
        assert!(end.is_some());
    }
}

fn judge_call(call: &Call, chain: &Chain, terms: &Terms) {
    let total =
        |segments: &[Segment]| -> u64 { segments.iter().map(|one| u64::from(one.length)).sum() };
    assert_eq!(call.room, total(&chain.writable));
    let (offset, length, changes) = match call.ask {
        Err(_) | Ok(Ask::Flush | Ask::Serial) => return,
        Ok(Ask::Read { offset, length }) => {
            assert_eq!(length.get(), total(&chain.writable));
            assert!(length.get() <= PAYLOAD_BYTES_MAX);
            (offset, length, false)
        }
        Ok(Ask::Write { offset, length }) => {
            assert_eq!(length.get(), total(&chain.readable));
            assert!(length.get() <= PAYLOAD_BYTES_MAX);
            (offset, length, true)
        }
        Ok(Ask::Discard { offset, length } | Ask::WriteZeroes { offset, length, .. }) => {
            (offset, length, true)
        }
    };
    assert!(!(changes && terms.read_only));
    assert!(!length.is_zero());
    assert!(
        offset
            .checked_add(length)
            .is_some_and(|end| end.from_start() <= terms.size)
    );
    assert!(offset.is_multiple_of(u64::from(terms.sector)));
    assert!(length.is_multiple_of(u64::from(terms.sector)));
}
