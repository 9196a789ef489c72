//! A disk that roams goes to another host: its record names that one from then on.

use super::text::{self, Said};
use super::{Holder, OwnerError, OwnerFile};
use cache::OwnerRecord;

/// What becomes of what a record says of a cache when the disk goes to another host.
#[derive(Clone, Copy)]
enum Becomes {
    /// It stays.
    AsItWas,
    /// The next host's cache has what the origin lacks.
    OfNext(OwnerRecord),
    /// No cache has any bytes of the disk that count.
    Lost,
}

impl OwnerFile {
    /// Makes `next` the holder of a disk that roams, durably, if `may_follow` agrees to who that was until now;
    /// records that are written from now on name it, too. Returns whether it is the holder. May block.
    ///
    /// # Errors
    /// [`OwnerError`]; then the new holder may stand in the record all the same.
    pub fn hand_to(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::AsItWas)
    }

    /// The same, with the record of the cache at `next` that has what the origin lacks.
    ///
    /// # Errors
    /// As [`OwnerFile::hand_to`].
    pub fn hand_with(
        &mut self,
        next: Holder,
        kept: OwnerRecord,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::OfNext(kept))
    }

    /// The same, and no cache may have bytes any more that the origin lacks: those of the one that did are lost, and what
    /// else it has of the disk does not count. May block.
    ///
    /// # Errors
    /// As [`OwnerFile::hand_to`].
    pub fn hand_to_without_dirty(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
    ) -> Result<bool, OwnerError> {
        self.hand(next, may_follow, Becomes::Lost)
    }

    /// Whoever has the disk next also has it attached.
    fn hand(
        &mut self,
        next: Holder,
        may_follow: impl FnOnce(Option<&Holder>) -> bool,
        becomes: Becomes,
    ) -> Result<bool, OwnerError> {
        let found = self.load()?;
        let before = found.as_ref().and_then(|owner| owner.holder.as_ref());
        if before != Some(&next) {
            if !may_follow(before) {
                return Ok(false);
            }
            let record = found.as_ref().map(|owner| owner.record);
            let record = record.unwrap_or(OwnerRecord {
                epoch: 0,
                cache: 0,
                open: false,
            });
            let cache_name = found.as_ref().map_or("", |owner| &*owner.cache_name);
            let here = text::host();
            let (record, named) = match becomes {
                Becomes::AsItWas => (record, (cache_name, &*here)),
                Becomes::Lost => (
                    OwnerRecord {
                        epoch: record.epoch + 1,
                        cache: 0,
                        open: false,
                    },
                    (cache_name, &*here),
                ),
                // What the peer calls its cache it says when it has it.
                Becomes::OfNext(kept) => (kept, (&*next.host, &*next.host)),
            };
            let (cache_name, host) = named;
            let said = Said {
                record,
                cache_name,
                host,
                identity: self.identity,
                holder: Some(&next),
                attachment: None,
            };
            // Beside the origin or nowhere: the other host has to see it.
            match &self.cluster {
                Some(cluster) => cluster.hand(said, found.as_ref())?,
                None => self.replace(self.path(), &text::encode(self.disk, said))?,
            }
        }
        self.holder = Some(next);
        Ok(true)
    }
}
