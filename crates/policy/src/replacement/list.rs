//! Queues through a table: doubly linked rings of 32-bit places, without allocation.
//!
//! ```text
//!   front ─► A ⇄ B ⇄ C ⇄ back        next: towards the back (older)
//!            ▲______________│         prev: towards the front (newer)
//! ```
//!
//! The ring is closed, so the back is the front's `prev`, and moving the back to the front, which is
//! what reusing the oldest place for a newcomer comes to, writes nothing but the front.

use super::index::Place;

const NONE: u32 = u32::MAX;

/// The neighbours of a place in a list.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    /// Of a place in no list.
    pub const LOOSE: Self = Self {
        prev: NONE,
        next: NONE,
    };

    /// A loose place's link, where the table chains its free places.
    pub(crate) const fn chained_to(next: u32) -> Self {
        Self { prev: NONE, next }
    }

    pub(crate) const fn chain(self) -> u32 {
        self.next
    }
}

/// Something that holds a link for each place.
pub trait Links {
    /// The link of a place.
    fn link(&self, place: Place) -> Link;
    /// The same, to be changed.
    fn link_mut(&mut self, place: Place) -> &mut Link;
}

/// Links apart from the nodes, for policies with two lists through one place.
#[derive(Debug, Default)]
pub(crate) struct SideLinks(Vec<Link>);

impl SideLinks {
    /// Makes room for `place`.
    pub(crate) fn cover(&mut self, place: Place) {
        if place.to_usize() >= self.0.len() {
            self.0.resize(place.to_usize() + 1, Link::LOOSE);
        }
    }
}

impl Links for SideLinks {
    #[inline]
    fn link(&self, place: Place) -> Link {
        self.0[place.to_usize()]
    }

    #[inline]
    fn link_mut(&mut self, place: Place) -> &mut Link {
        &mut self.0[place.to_usize()]
    }
}

/// One queue. A place is in at most one list of the same links.
#[derive(Debug)]
pub struct List {
    front: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            front: NONE,
            len: 0,
        }
    }

    /// How many places are in it.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether none is.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The newest, unless there is none.
    pub const fn front(&self) -> Option<Place> {
        if self.len == 0 {
            None
        } else {
            Some(Place(self.front))
        }
    }

    /// The oldest, unless there is none.
    #[inline]
    pub fn back(&self, links: &impl Links) -> Option<Place> {
        self.front().map(|front| Place(links.link(front).prev))
    }

    /// The next newer one; from the front around to the back.
    #[inline]
    pub fn newer(place: Place, links: &impl Links) -> Place {
        Place(links.link(place).prev)
    }

    /// A place that was in no list of these links becomes the newest.
    #[inline]
    pub fn push_front(&mut self, place: Place, links: &mut impl Links) {
        self.push_back(place, links);
        self.front = place.0;
    }

    /// A place that was in no list of these links becomes the oldest.
    #[inline]
    pub fn push_back(&mut self, place: Place, links: &mut impl Links) {
        if self.len == 0 {
            *links.link_mut(place) = Link {
                prev: place.0,
                next: place.0,
            };
            self.front = place.0;
        } else {
            let front = Place(self.front);
            let back = Place(links.link(front).prev);
            *links.link_mut(place) = Link {
                prev: back.0,
                next: front.0,
            };
            links.link_mut(front).prev = place.0;
            links.link_mut(back).next = place.0;
        }
        self.len += 1;
    }

    /// Puts `place` where `older`, which is in the list, becomes the next older one.
    pub fn insert_newer(&mut self, place: Place, older: Place, links: &mut impl Links) {
        let newer = Place(links.link(older).prev);
        *links.link_mut(place) = Link {
            prev: newer.0,
            next: older.0,
        };
        links.link_mut(newer).next = place.0;
        links.link_mut(older).prev = place.0;
        if self.front == older.0 {
            self.front = place.0;
        }
        self.len += 1;
    }

    /// A place of this list leaves it.
    #[inline]
    pub fn remove(&mut self, place: Place, links: &mut impl Links) {
        let Link { prev, next } = links.link(place);
        links.link_mut(Place(prev)).next = next;
        links.link_mut(Place(next)).prev = prev;
        if self.front == place.0 {
            self.front = next;
        }
        self.len -= 1;
    }

    /// A place of this list becomes the newest.
    #[inline]
    pub fn move_to_front(&mut self, place: Place, links: &mut impl Links) {
        if self.front == place.0 {
            return;
        }
        let front = Place(self.front);
        if links.link(front).prev != place.0 {
            self.remove(place, links);
            self.push_back(place, links);
        }
        self.front = place.0;
    }

    /// The oldest becomes the newest. There must be one.
    #[inline]
    pub fn rotate(&mut self, links: &impl Links) {
        self.front = links.link(Place(self.front)).prev;
    }

    /// The oldest leaves, unless there is none.
    #[inline]
    pub fn pop_back(&mut self, links: &mut impl Links) -> Option<Place> {
        let back = self.back(links)?;
        self.remove(back, links);
        Some(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn walk(list: &List, links: &SideLinks) -> Vec<u32> {
        let Some(mut place) = list.back(links) else {
            return Vec::new();
        };
        (0..list.len())
            .map(|_| {
                let this = place.0;
                place = List::newer(place, links);
                this
            })
            .collect()
    }

    proptest! {
        /// Beside a double-ended queue, oldest first, after every step.
        #[test]
        fn a_list_is_a_queue(steps in prop::collection::vec((0u8..7, 0u32..8), 0..200)) {
            let mut links = SideLinks::default();
            links.cover(Place(8));
            let mut list = List::new();
            let mut model: VecDeque<u32> = VecDeque::new();
            for (what, which) in steps {
                let at = model.iter().position(|place| *place == which);
                match (what, at) {
                    (0, None) => {
                        list.push_front(Place(which), &mut links);
                        model.push_back(which);
                    }
                    (1, None) => {
                        list.push_back(Place(which), &mut links);
                        model.push_front(which);
                    }
                    (2, Some(at)) => {
                        list.remove(Place(which), &mut links);
                        model.remove(at);
                    }
                    (3, Some(at)) => {
                        list.move_to_front(Place(which), &mut links);
                        model.remove(at);
                        model.push_back(which);
                    }
                    (4, _) if !model.is_empty() => {
                        list.rotate(&links);
                        model.rotate_left(1);
                    }
                    (5, None) if !model.is_empty() => {
                        let older = model[model.len() / 2];
                        list.insert_newer(Place(which), Place(older), &mut links);
                        model.insert(model.len() / 2 + 1, which);
                    }
                    (6, _) => {
                        let popped = list.pop_back(&mut links).map(|place| place.0);
                        prop_assert_eq!(popped, model.pop_front());
                    }
                    _ => {}
                }
                prop_assert_eq!(walk(&list, &links), Vec::from(model.clone()));
                prop_assert_eq!(list.front().map(|place| place.0), model.back().copied());
            }
        }
    }
}
