//! How the cache of a disk comes with it when its VM moves to another host: nine strategies, each a row of the same
//! few columns.
//!
//! Who moves a cache, the daemon or the simulator, asks a row what to do at each stage, and never which strategy it
//! is. So both do the same, and a tenth strategy is a tenth row.
//!
//! ```text
//!   the VM runs at the lender │ requests wait          │ the VM runs at the borrower
//!   ahead                     │ waits_for              │ reads_from, and beside it behind; is_kept
//! ```
//! The *lender* is the host that had the disk, the *borrower* the one that gets it. The *list* has the addresses of
//! what the lender has cached, the newest first; the *origin* is the shared storage.

#![forbid(unsafe_code)]

/// A place that has a block of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The cache of the host that had the disk.
    Lender,
    /// The shared storage.
    Origin,
}

/// What is done while the VM runs at the lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ahead {
    /// Nothing.
    Nothing,
    /// Blocks of the list are copied from this place, in rounds, and the lender says which of them its guest has
    /// changed since.
    Copies(Place),
    /// The disk's storage is being copied through the borrower: it keeps what passes and is on the list.
    Passing,
}

/// What the guest's requests wait for at the hand-over, besides the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitsFor {
    /// What the lender's guest has changed last, where something was copied ahead.
    Changes,
    /// One more round through the list.
    LastRound,
    /// Every block of the list. A round as well, but the only one.
    Everything,
}

/// What one strategy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// While the VM runs at the lender.
    pub ahead: Ahead,
    /// At the hand-over.
    pub waits_for: WaitsFor,
    /// Where the guest's read of a block of the list goes that the borrower does not have.
    pub reads_from: Place,
    /// From where the rest of the list is copied after the hand-over, without being asked for; `None`: it is not.
    pub behind: Option<Place>,
    /// Whether the borrower keeps what a read has brought from the lender.
    pub is_kept: bool,
}

impl Row {
    /// Whether the borrower asks for the list once it has the disk.
    pub const fn lists(&self) -> bool {
        matches!(self.reads_from, Place::Lender) || self.behind.is_some()
    }

    /// Whether requests wait until blocks of the list are copied.
    pub const fn holds_guest(&self) -> bool {
        !matches!(self.waits_for, WaitsFor::Changes)
    }
}

/// How the cache of a disk comes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// It does not: the cache fills as the disk is read.
    None,
    /// The list, and its blocks from the origin behind the hand-over.
    Hotlist,
    /// All blocks, from the lender, while the guest waits.
    Copy,
    /// All blocks, from the lender, behind the hand-over; the guest reads the rest from the origin meanwhile.
    CopyFilter,
    /// Blocks of the list from the origin, while the VM runs at the lender.
    Proactive,
    /// What of the list passes when the disk's storage is copied, and the rest from the origin.
    Piggyback,
    /// What a read needs from the lender at once, and everything else behind it.
    OnDemand,
    /// What a read needs from the lender, each time: nothing is kept.
    Pool,
    /// Blocks from the lender while the VM runs there, and what is left as under `OnDemand`.
    #[default]
    Live,
}

impl Strategy {
    /// Every strategy, in one order for tables and lists.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Hotlist,
        Self::Copy,
        Self::CopyFilter,
        Self::Proactive,
        Self::Piggyback,
        Self::OnDemand,
        Self::Pool,
        Self::Live,
    ];

    /// Its word, in configurations and on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hotlist => "hotlist",
            Self::Copy => "copy",
            Self::CopyFilter => "copy-filter",
            Self::Proactive => "proactive",
            Self::Piggyback => "piggyback",
            Self::OnDemand => "on-demand",
            Self::Pool => "pool",
            Self::Live => "live",
        }
    }

    /// The strategy of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|strategy| strategy.word() == word)
    }

    /// What it does: the table.
    pub const fn row(self) -> Row {
        use Ahead::{Copies, Nothing, Passing};
        use Place::{Lender, Origin};
        use WaitsFor::{Changes, Everything, LastRound};
        match self {
            Self::None => row(Nothing, Changes, Origin, None),
            Self::Hotlist => row(Nothing, Changes, Origin, Some(Origin)),
            Self::Copy => row(Nothing, Everything, Lender, Some(Lender)),
            Self::CopyFilter => row(Nothing, Changes, Origin, Some(Lender)),
            Self::Proactive => row(Copies(Origin), LastRound, Origin, None),
            Self::Piggyback => row(Passing, Changes, Origin, Some(Origin)),
            Self::OnDemand => row(Nothing, Changes, Lender, Some(Lender)),
            Self::Pool => Row {
                is_kept: false,
                ..row(Nothing, Changes, Lender, None)
            },
            Self::Live => row(Copies(Lender), Changes, Lender, Some(Lender)),
        }
    }
}

const fn row(ahead: Ahead, waits_for: WaitsFor, reads_from: Place, behind: Option<Place>) -> Row {
    Row {
        ahead,
        waits_for,
        reads_from,
        behind,
        is_kept: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_has_a_word_and_a_row_of_its_own() {
        for (at, one) in Strategy::ALL.into_iter().enumerate() {
            assert_eq!(Strategy::of_word(one.word()), Some(one));
            for other in &Strategy::ALL[at + 1..] {
                assert_ne!(one.word(), other.word());
                assert_ne!(one.row(), other.row(), "{one:?} and {other:?} are one");
            }
        }
        assert_eq!(Strategy::of_word("Live"), None);
        assert_eq!(Strategy::default(), Strategy::Live);
    }

    #[test]
    fn only_none_and_proactive_ask_for_no_list_behind_the_hand_over() {
        let silent = Strategy::ALL.into_iter();
        let silent: Vec<_> = silent.filter(|one| !one.row().lists()).collect();
        assert_eq!(silent, [Strategy::None, Strategy::Proactive]);
    }

    #[test]
    fn only_copy_and_proactive_hold_the_guest() {
        let holding = Strategy::ALL.into_iter();
        let holding: Vec<_> = holding.filter(|one| one.row().holds_guest()).collect();
        assert_eq!(holding, [Strategy::Copy, Strategy::Proactive]);
    }
}
