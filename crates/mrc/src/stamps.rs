//! Which time stamps are still some block's newest, and how many of them precede a given one.
//!
//! Olken's one-pass algorithm asks, at each access, how many blocks were accessed since this one
//! was. He keeps the blocks in a balanced tree by time of last access. But stamps are handed out in
//! order and never come back, so all that has to be kept is one bit a stamp, *retired or not*, with
//! counts above it:
//!
//! ```text
//!   before     u32 a book          retired stamps in the books before this one
//!   book       32 x u32            ... in the pages of this book before this one
//!   page       32 x u16            ... in the rows of this page before this one
//!   row        32 x u16            ... in the words of this row before this one
//!   word       64 bits             one stamp each
//! ```
//!
//! A count is five loads and one population count. Retiring a stamp adds one to the counts behind it
//! in its row, page and book: three short loops over whole cache lines that compile to vector
//! instructions, where a tree would chase pointers. New stamps need no work at all, because what is
//! counted is the retired ones.
//!
//! Invariant: stamps below `next` were handed out; `retired` of them are retired.
//! Units: a stamp is a position in the order of accesses since the last [`Stamps::restart`].

const WORD: u32 = 6;
const ROW: u32 = WORD + 5;
const PAGE: u32 = ROW + 5;
const BOOK: u32 = PAGE + 5;
const FAN: usize = 32;
const FAN_MASK: u32 = 31;

/// Stamps that a page holds; room for stamps comes in whole pages.
const PAGE_STAMPS: u64 = 1 << PAGE;

/// Counts of retired stamps over a growing sequence of stamps.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    words: Vec<u64>,
    rows: Vec<[u16; FAN]>,
    pages: Vec<[u16; FAN]>,
    books: Vec<[u32; FAN]>,
    before: Vec<u32>,
    next: u32,
    retired: u32,
    room: u32,
}

impl Stamps {
    /// Room for at least `room` stamps, none handed out.
    pub(crate) fn new(room: u64) -> Self {
        let mut stamps = Self {
            words: Vec::new(),
            rows: Vec::new(),
            pages: Vec::new(),
            books: Vec::new(),
            before: Vec::new(),
            next: 0,
            retired: 0,
            room: 0,
        };
        stamps.restart(0, room);
        stamps
    }

    /// Forgets all stamps: the first `live` are handed out and live, and there is room for at least
    /// `room`, as far as 32 bits go.
    ///
    /// # Panics
    /// If there would be no room for another stamp.
    pub(crate) fn restart(&mut self, live: u32, room: u64) {
        let whole = room.max(1).next_multiple_of(PAGE_STAMPS);
        self.room = u32::try_from(whole).unwrap_or(u32::MAX);
        assert!(live < self.room, "there is room for a stamp");
        let groups = |shift: u32| (self.room >> shift) as usize + 1;
        clear(&mut self.words, groups(WORD), 0);
        clear(&mut self.rows, groups(ROW), [0; FAN]);
        clear(&mut self.pages, groups(PAGE), [0; FAN]);
        clear(&mut self.books, groups(BOOK), [0; FAN]);
        clear(&mut self.before, groups(BOOK), 0);
        self.next = live;
        self.retired = 0;
    }

    /// True if no stamp is left to hand out.
    pub(crate) const fn is_full(&self) -> bool {
        self.next == self.room
    }

    /// Stamps that are not retired.
    pub(crate) const fn live(&self) -> u32 {
        self.next - self.retired
    }

    /// Hands out the next stamp.
    ///
    /// # Panics
    /// If there is none: see [`Stamps::is_full`].
    pub(crate) const fn hand_out(&mut self) -> u32 {
        assert!(self.next < self.room, "a stamp is left");
        let stamp = self.next;
        self.next += 1;
        stamp
    }

    /// How many live stamps were handed out before `stamp`.
    pub(crate) fn live_before(&self, stamp: u32) -> u32 {
        let word = self.words[(stamp >> WORD) as usize];
        let below = word & ((1 << (stamp & 63)) - 1);
        let retired = self.before[(stamp >> BOOK) as usize]
            + self.books[(stamp >> BOOK) as usize][place(stamp, PAGE)]
            + u32::from(self.pages[(stamp >> PAGE) as usize][place(stamp, ROW)])
            + u32::from(self.rows[(stamp >> ROW) as usize][place(stamp, WORD)])
            + below.count_ones();
        stamp - retired
    }

    /// Retires a live stamp.
    ///
    /// # Panics
    /// If it is retired already.
    pub(crate) fn retire(&mut self, stamp: u32) {
        let word = &mut self.words[(stamp >> WORD) as usize];
        let bit = 1 << (stamp & 63);
        assert!(*word & bit == 0, "a stamp is retired once");
        *word |= bit;
        let row = &mut self.rows[(stamp >> ROW) as usize];
        add_behind_u16(row, place_u16(stamp, WORD));
        let page = &mut self.pages[(stamp >> PAGE) as usize];
        add_behind_u16(page, place_u16(stamp, ROW));
        self.retired += 1;
        // Behind the only page there is nothing: so it is with the samples of the daemon.
        if u64::from(self.room) == PAGE_STAMPS {
            return;
        }
        let book = (stamp >> BOOK) as usize;
        let behind = place(stamp, PAGE);
        for (at, count) in self.books[book].iter_mut().enumerate() {
            *count += u32::from(at > behind);
        }
        for count in &mut self.before[book + 1..] {
            *count += 1;
        }
    }

    /// Bytes of memory held.
    pub(crate) const fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
            + self.rows.capacity() * size_of::<[u16; FAN]>()
            + self.pages.capacity() * size_of::<[u16; FAN]>()
            + self.books.capacity() * size_of::<[u32; FAN]>()
            + self.before.capacity() * size_of::<u32>()
    }
}

const fn place(stamp: u32, shift: u32) -> usize {
    ((stamp >> shift) & FAN_MASK) as usize
}

#[allow(clippy::cast_possible_truncation, reason = "masked to five bits")]
const fn place_u16(stamp: u32, shift: u32) -> u16 {
    ((stamp >> shift) & FAN_MASK) as u16
}

/// Adds one to each count behind `place`. Written so that it becomes a compare and a subtract a
/// vector, without a branch.
fn add_behind_u16(counts: &mut [u16; FAN], place: u16) {
    const PLACES: [u16; FAN] = {
        let mut places = [0; FAN];
        let mut at: u16 = 0;
        while (at as usize) < FAN {
            places[at as usize] = at;
            at += 1;
        }
        places
    };
    for (count, at) in counts.iter_mut().zip(PLACES) {
        *count += u16::from(at > place);
    }
}

fn clear<T: Clone>(list: &mut Vec<T>, len: usize, value: T) {
    list.clear();
    list.resize(len, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Prng;

    #[test]
    fn counts_agree_with_counting_over_several_books() {
        let mut stamps = Stamps::new(5 << 20);
        let mut retired = vec![false; 5 << 20];
        for _ in 0..retired.len() {
            stamps.hand_out();
        }
        let mut dice = Prng::new(1);
        for _ in 0..200_000 {
            let stamp = u32::try_from(dice.below(5 << 20)).unwrap();
            if !retired[stamp as usize] {
                retired[stamp as usize] = true;
                stamps.retire(stamp);
            }
        }
        let mut live = 0;
        for (stamp, gone) in retired.iter().enumerate() {
            assert_eq!(stamps.live_before(u32::try_from(stamp).unwrap()), live);
            live += u32::from(!gone);
        }
        assert_eq!(stamps.live(), live);
    }

    #[test]
    fn a_restart_begins_with_live_stamps_only() {
        let mut stamps = Stamps::new(1);
        while !stamps.is_full() {
            stamps.hand_out();
        }
        stamps.retire(7);
        let live = stamps.live();
        stamps.restart(live, 2 * u64::from(live));
        assert_eq!(stamps.live(), live);
        assert_eq!(stamps.live_before(live - 1), live - 1);
        assert_eq!(stamps.hand_out(), live);
    }

    #[test]
    #[should_panic(expected = "retired once")]
    fn a_stamp_is_not_retired_twice() {
        let mut stamps = Stamps::new(1);
        let stamp = stamps.hand_out();
        stamps.retire(stamp);
        stamps.retire(stamp);
    }
}
