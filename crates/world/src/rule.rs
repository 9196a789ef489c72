//! A rule of any crate that the worlds run, taken out by a test or by `world --without`.

use crate::sites;

/// A guard, of whichever crate declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Of what a disk has borrowed from another host, and of what it copies ahead.
    Borrowing(borrowing::Guard),
    /// Of the cache.
    Core(core_guards::Guard),
    /// Of who has a disk that roams.
    HandOver(handoff::Guard),
    /// Of the client of NBD servers.
    Nbd(nbd_client::guard::Guard),
    /// Of the host that carries out what the ownership of a disk says.
    Site(sites::Guard),
}

impl Rule {
    /// The rule of this name, as its crate declares it.
    ///
    /// # Errors
    /// When no crate declares one of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let core = core_guards::Guard::named(name).map(Self::Core);
        core.or_else(|_| handoff::Guard::named(name).map(Self::HandOver))
            .or_else(|_| borrowing::Guard::named(name).map(Self::Borrowing))
            .or_else(|_| sites::Guard::named(name).map(Self::Site))
            .or_else(|_| nbd_client::guard::Guard::named(name).map(Self::Nbd))
    }

    /// Takes the rule out on this thread.
    pub fn remove(self) {
        match self {
            Self::Borrowing(guard) => borrowing::remove(Some(guard)),
            Self::Core(guard) => core_guards::remove(Some(guard)),
            Self::HandOver(guard) => handoff::remove(Some(guard)),
            Self::Nbd(guard) => nbd_client::guard::remove(Some(guard)),
            Self::Site(guard) => sites::remove(Some(guard)),
        }
    }

    /// Puts all rules back on this thread.
    pub fn put_all_back() {
        borrowing::remove(None);
        core_guards::remove(None);
        handoff::remove(None);
        nbd_client::guard::remove(None);
        sites::remove(None);
    }
}
