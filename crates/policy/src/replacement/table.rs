//! What a policy knows of each block, cached or remembered: key, links, and 32 bits of its own.

use super::index::{Index, Place};
use super::list::{Link, Links};

const NONE: u32 = u32::MAX;

/// A block's row: 16 bytes with 32-bit keys, so that four of them share a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<K> {
    pub(crate) key: K,
    link: Link,
    /// The policy's own.
    pub(crate) tag: u32,
}

/// The rows by place.
#[derive(Debug)]
pub(crate) struct Nodes<K>(Vec<Node<K>>);

impl<K> std::ops::Index<Place> for Nodes<K> {
    type Output = Node<K>;

    #[inline]
    fn index(&self, place: Place) -> &Node<K> {
        &self.0[place.to_usize()]
    }
}

impl<K> std::ops::IndexMut<Place> for Nodes<K> {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut Node<K> {
        &mut self.0[place.to_usize()]
    }
}

impl<K> Links for Nodes<K> {
    #[inline]
    fn link(&self, place: Place) -> Link {
        self[place].link
    }

    #[inline]
    fn link_mut(&mut self, place: Place) -> &mut Link {
        &mut self[place].link
    }
}

/// Index and rows together: each key in the index has a row that names it, and the other way round.
#[derive(Debug)]
pub(crate) struct Table<K, I> {
    index: I,
    pub(crate) nodes: Nodes<K>,
    /// The first of the chain of free places.
    free: u32,
}

impl<K: Copy, I: Index<K>> Table<K, I> {
    pub(crate) fn new(index: I) -> Self {
        Self {
            index,
            nodes: Nodes(Vec::new()),
            free: NONE,
        }
    }

    #[inline]
    pub(crate) fn find(&self, key: K) -> Option<Place> {
        self.index.get(key)
    }

    /// A row for `key`, which had none. Its links are loose.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, tag: u32) -> Place {
        let node = Node {
            key,
            link: Link::LOOSE,
            tag,
        };
        let place = if self.free == NONE {
            self.extend(node)
        } else {
            let place = Place(self.free);
            self.free = self.nodes[place].link.chain();
            self.nodes[place] = node;
            place
        };
        self.index.insert(key, place);
        place
    }

    /// Frees the row of a key, whose links must be loose already, and says which key it was.
    #[inline]
    pub(crate) fn release(&mut self, place: Place) -> K {
        let key = self.nodes[place].key;
        self.index.remove(key);
        self.nodes[place].link = Link::chained_to(self.free);
        self.free = place.0;
        key
    }

    /// Gives the row of one key to another that had none, and says which the first was. Links and tag
    /// stay.
    #[inline]
    pub(crate) fn rekey(&mut self, place: Place, key: K) -> K {
        let before = std::mem::replace(&mut self.nodes[place].key, key);
        self.index.remove(before);
        self.index.insert(key, place);
        before
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.nodes.0.capacity() * size_of::<Node<K>>()
    }

    /// A further row: room for an eighth more at a time, as in [`super::Dense`].
    fn extend(&mut self, node: Node<K>) -> Place {
        let rows = &mut self.nodes.0;
        if rows.len() == rows.capacity() {
            rows.reserve_exact((rows.len() / 8).max(64));
        }
        let place = u32::try_from(rows.len()).expect("limits.rs keeps places below 2^32");
        rows.push(node);
        Place(place)
    }
}
