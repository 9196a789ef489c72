//! The deadlines of the origins that have one: most have none most of the time, and the loop
//! asks every turn.

use units::{DiskSlot, Instant};

/// Deadlines by disk. A short list, searched in order.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(Vec<(DiskSlot, Instant)>);

impl Deadlines {
    /// Sets or clears a disk's deadline.
    pub(crate) fn set(&mut self, disk: DiskSlot, deadline: Option<Instant>) {
        if deadline.is_none() && self.0.is_empty() {
            return;
        }
        let known = self.0.iter().position(|(other, _)| *other == disk);
        match (known, deadline) {
            (Some(at), Some(deadline)) => self.0[at].1 = deadline,
            (Some(at), None) => {
                self.0.swap_remove(at);
            }
            (None, Some(deadline)) => self.0.push((disk, deadline)),
            (None, None) => {}
        }
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.iter().map(|(_, deadline)| *deadline).min()
    }

    /// A disk whose time has come.
    pub(crate) fn due(&self, now: Instant) -> Option<DiskSlot> {
        let mut all = self.0.iter();
        all.find(|(_, deadline)| *deadline <= now)
            .map(|(disk, _)| *disk)
    }

    /// Clears a disk's deadline.
    pub(crate) fn clear(&mut self, disk: DiskSlot) {
        self.set(disk, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_deadline_is_known_as_they_come_and_go() {
        let mut deadlines = Deadlines::default();
        let (a, b) = (DiskSlot::new(1), DiskSlot::new(2));
        deadlines.set(a, Some(Instant::from_nanos(20)));
        deadlines.set(b, Some(Instant::from_nanos(10)));
        assert_eq!(deadlines.first(), Some(Instant::from_nanos(10)));
        deadlines.set(b, Some(Instant::from_nanos(30)));
        assert_eq!(deadlines.first(), Some(Instant::from_nanos(20)));
        assert_eq!(deadlines.due(Instant::from_nanos(19)), None);
        assert_eq!(deadlines.due(Instant::from_nanos(20)), Some(a));
        deadlines.clear(a);
        deadlines.set(b, None);
        assert_eq!(deadlines.first(), None);
    }
}
