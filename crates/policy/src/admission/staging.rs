//! Staging: a block enters flash when it was accessed N times before, as far as RAM remembers.
//!
//! ```text
//!   kind=address   miss ─► [ addresses, by last access ] ── access N+1 ──► flash
//!                                     └─► forgotten
//!
//!   kind=data      miss ─► [ addresses and bytes of reads, by last access ] ── access N+1 ──► flash
//!                                     └─► forgotten          reads are served from here
//!
//!   kind=hybrid    read ─► [ addresses and bytes: 7/8 ] ── access N+1 ─────► flash
//!                                     ▼ its bytes dropped                      ▲
//!                  write ► [ addresses: 1/8 ] ── access N+1 ───────────────────┘
//!                                     └─► forgotten
//! ```
//!
//! It admits the reuse working set `RWS_N`: what was reused at least N times within the time that the
//! queue spans. With N = 0 everything is admitted. Both queues are LRU. Of writes only the address is
//! staged: their bytes are with the origin, and a write-only block is no gain. In `data` the one queue's entries
//! count alike, with or without bytes.
//!
//! D. Arteaga, J. Cabrera, J. Xu, S. Sundararaman, M. Zhao, "CloudCache: on-demand flash cache
//! management for cloud computing", FAST 2016. An address costs 24 bytes there and 25 here
//! (`Queues::ROW_BYTES`), beside 4,096 for its bytes.

use units::{BLOCK_BYTES, Bytes};

use super::queues::{MARK_MAX, Queues};
use super::sequential::CUTOFF;
use super::{Access, Admission, Configured, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::{About, BadValue, Key, Parameter, Place, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "staging",
    other_names: &["rws"],
    paper: "D. Arteaga, J. Cabrera, J. Xu, S. Sundararaman, M. Zhao, \"CloudCache: on-demand flash cache management for cloud computing\", FAST 2016",
    queues: &[
        (
            "addresses",
            "ghosts of blocks accessed at most N times, by last access",
        ),
        ("data", "the same with their bytes, in RAM, by last access"),
    ],
    parameters: &[
        Parameter {
            name: "kind",
            meaning: "what is staged: addresses, data with them, or both apart (1:7 by bytes)",
            takes: "address, data or hybrid",
        },
        Parameter {
            name: "n",
            meaning: "accesses before the one on which a block enters flash",
            takes: "0 to 1000",
        },
        CUTOFF,
    ],
    knows_future: false,
};

/// What is staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Addresses.
    Address,
    /// Addresses and the bytes of reads.
    Data,
    /// Both, apart.
    #[default]
    Hybrid,
}

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What is staged.
    pub kind: Kind,
    /// Accesses before the one on which a block enters flash.
    pub n: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kind: Kind::Hybrid,
            n: 1,
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        match (name, value) {
            ("kind", "address") => self.kind = Kind::Address,
            ("kind", "data") => self.kind = Kind::Data,
            ("kind", "hybrid") => self.kind = Kind::Hybrid,
            ("kind", _) => return Err(BadValue),
            _ => self.n = crate::replacement::parse_count(value, 0, 1000)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match (name, self.kind) {
            ("kind", Kind::Address) => "address".to_owned(),
            ("kind", Kind::Data) => "data".to_owned(),
            ("kind", Kind::Hybrid) => "hybrid".to_owned(),
            _ => self.n.to_string(),
        }
    }
}

impl Configured for Config {}

const ADDRESS: usize = 0;
const DATA: usize = 1;

/// A mark is the number of accesses so far and, below it, whether the bytes are staged.
const HAS_BYTES: u32 = 1;
const COUNT_ONE: u32 = 2;

/// Rows of `data` for blocks that are withheld: where none but blocks with bytes could leave for them, they wait here for
/// the next call that can say who does. Part of [`super::limits::FIXED_MEMORY`]; what is withheld beyond is forgotten.
const WITHHELD_ROWS: u32 = 64;

/// Of the staging memory one part in eight is for addresses.
const HYBRID_PARTS: u64 = 8;

/// Staging.
#[derive(Debug)]
pub struct Staging<K: Copy> {
    queues: Queues<K, 2>,
    addresses_max: u32,
    data_max: u32,
    staged: u64,
    kind: Kind,
    n: u32,
}

/// Addresses and data entries that there is room for.
fn room<K: Key>(kind: Kind, staging: Bytes) -> (u32, u32) {
    let rows = |bytes| Queues::<K, 2>::rows_within(Bytes::new(bytes));
    let blocks = |bytes: u64| {
        let blocks = bytes / (BLOCK_BYTES + Queues::<K, 2>::ROW_BYTES);
        u32::try_from(blocks)
            .unwrap_or(u32::MAX)
            .min(rows(u64::MAX))
    };
    // One row more is in use while a newcomer pushes the oldest out.
    let bytes = staging.get().saturating_sub(Queues::<K, 2>::ROW_BYTES);
    let addresses = bytes / HYBRID_PARTS;
    match kind {
        Kind::Address => (rows(bytes), 0),
        Kind::Data if blocks(bytes) == 0 => (rows(0), 0),
        Kind::Data => (0, blocks(bytes)),
        Kind::Hybrid => (rows(addresses), blocks(bytes - addresses)),
    }
}

/// Rows for what is withheld, beside those for addresses and data and one for a newcomer that pushes the oldest out.
const fn withheld_rows(addresses_max: u32) -> u32 {
    if addresses_max == 0 { WITHHELD_ROWS } else { 0 }
}

impl<K: Key> Staging<K> {
    /// Nothing staged.
    pub fn new(config: &Config, share: Share) -> Self {
        let (addresses_max, data_max) = room::<K>(config.kind, share.staging);
        Self {
            queues: Queues::new(addresses_max + data_max + 1 + withheld_rows(addresses_max)),
            addresses_max,
            data_max,
            staged: 0,
            kind: config.kind,
            n: config.n,
        }
    }

    /// Bytes of memory that one address costs.
    pub const fn address_bytes() -> u64 {
        Queues::<K, 2>::ROW_BYTES
    }

    /// Counts an access of a block that is known. True if it was accessed often enough before: then it is
    /// forgotten.
    fn count(&mut self, place: Place) -> bool {
        let mark = self.queues.mark(place);
        if mark / COUNT_ONE >= self.n {
            self.forget(place);
            return true;
        }
        self.queues
            .set_mark(place, (mark + COUNT_ONE).min(MARK_MAX));
        false
    }

    fn forget(&mut self, place: Place) -> bool {
        let (_, mark) = self.queues.forget(place);
        let had_bytes = mark & HAS_BYTES != 0;
        self.staged -= u64::from(had_bytes);
        had_bytes
    }

    /// Puts a block at the front of the queue that it belongs to, with or without its bytes.
    fn place(&mut self, place: Place, bytes: bool) {
        let mark = self.queues.mark(place);
        self.staged -= u64::from(mark & HAS_BYTES);
        self.staged += u64::from(bytes);
        self.queues
            .set_mark(place, mark & !HAS_BYTES | u32::from(bytes));
        let in_data = bytes || self.addresses_max == 0;
        self.queues
            .move_to(place, if in_data { DATA } else { ADDRESS });
    }

    fn trim(&mut self, left: &mut Vec<(K, Fate)>) {
        while self.queues.len(DATA) > self.data_max {
            let oldest = self.queues.oldest(DATA).expect("there are too many");
            let key = self.queues.key(oldest);
            let had_bytes = if self.addresses_max == 0 {
                self.forget(oldest)
            } else {
                let had_bytes = self.queues.mark(oldest) & HAS_BYTES != 0;
                self.place(oldest, false);
                had_bytes
            };
            if had_bytes {
                left.push((key, Fate::Drop));
            }
        }
        while self.queues.len(ADDRESS) > self.addresses_max {
            self.queues.pop_oldest(ADDRESS);
        }
    }

    fn note(
        &mut self,
        key: K,
        place: Option<Place>,
        bytes: bool,
        left: &mut Vec<(K, Fate)>,
    ) -> Verdict {
        let place = place.unwrap_or_else(|| {
            self.queues.push(ADDRESS, key, COUNT_ONE);
            self.queues.find(key).expect("it was just inserted")
        });
        self.place(place, bytes);
        self.trim(left);
        if bytes {
            Verdict::Stage
        } else {
            Verdict::Refuse(Reason::FirstTouch)
        }
    }
}

impl<K: Key> Admission<K> for Staging<K> {
    fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict {
        if self.n == 0 {
            return Verdict::Admit;
        }
        let known = self.queues.find(key);
        if known.is_some_and(|place| self.count(place)) {
            return Verdict::Admit;
        }
        let bytes = !access.write && self.data_max > 0;
        self.note(key, known, bytes, left)
    }

    fn staged_hit(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Staged {
        match self.missed(key, access, left) {
            Verdict::Admit => Staged::Admit,
            Verdict::Stage => Staged::Stays,
            Verdict::Refuse(_) => Staged::Drop,
        }
    }

    fn hit(&mut self, _key: K, _access: Access) {}

    fn evicted(&mut self, _key: K) {}

    fn withheld(&mut self, key: K) {
        if self.n == 0 || self.queues.find(key).is_some() {
            return;
        }
        // The last row is for a newcomer, for whom others can leave.
        if self.addresses_max == 0 && self.queues.free_rows() < 2 {
            return;
        }
        self.queues
            .push(ADDRESS, key, (self.n * COUNT_ONE).min(MARK_MAX));
        let place = self.queues.find(key).expect("it was just inserted");
        self.place(place, false);
        // Nothing with bytes may leave here, where nobody could be told: that waits for the next call.
        if self.queues.len(ADDRESS) > self.addresses_max {
            self.queues.pop_oldest(ADDRESS);
        }
    }

    fn remove(&mut self, key: K) -> bool {
        let known = self.queues.find(key);
        known.is_some_and(|place| self.forget(place))
    }

    fn resize(&mut self, share: Share, left: &mut Vec<(K, Fate)>) {
        let (addresses_max, data_max) = room::<K>(self.kind, share.staging);
        let withheld = withheld_rows(addresses_max);
        let wanted = addresses_max + data_max + 1 + withheld;
        let missing = wanted.saturating_sub(self.queues.capacity_after(wanted));
        let missing = missing.saturating_sub(withheld);
        let fewer = missing.min(addresses_max.saturating_sub(1));
        self.addresses_max = addresses_max - fewer;
        self.data_max = data_max - (missing - fewer);
        // Between kinds of room a block may have to change queues.
        if self.addresses_max == 0 {
            while let Some(oldest) = self.queues.oldest(ADDRESS) {
                self.queues.move_to(oldest, DATA);
            }
        }
        self.trim(left);
        self.queues.resize(wanted);
    }

    fn memory(&self) -> Bytes {
        self.queues.memory() + Bytes::new(self.staged * BLOCK_BYTES)
    }
}
