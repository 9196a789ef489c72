//! A small virtio-blk driver: the guest's side of one queue.
//!
//! ```text
//!  base ─► descriptors 16 n │ available 6 + 2 n │ used 6 + 8 n │ tables n x 16 x 8 │ headers n x 32
//! ```

#![allow(dead_code, reason = "each user of this file uses what it needs")]

use super::ram::Ram;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const GET_ID: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const WRITE_ZEROES: u32 = 13;

/// Data segments that an indirect table has room for.
const TABLE: u64 = 8;
const HEADER_BYTES: u64 = 32;
/// A status that no device writes.
pub(crate) const UNANSWERED: u8 = 0xaa;

/// How requests are laid out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    pub(crate) indirect: bool,
    pub(crate) by_index: bool,
}

pub(crate) struct Queue {
    pub(crate) ram: Arc<Ram>,
    pub(crate) size: u16,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    tables: u64,
    headers: u64,
    pub(crate) end: u64,
    style: Style,
    free: Vec<u16>,
    chains: Vec<Vec<u16>>,
    next: u16,
    kicked: u16,
    pub(crate) seen: u16,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
}

impl Queue {
    pub(crate) fn new(ram: &Arc<Ram>, base: u64, size: u16, style: Style) -> Self {
        let n = u64::from(size);
        let descriptors = base;
        let available = descriptors + 16 * n;
        let used = (available + 6 + 2 * n).next_multiple_of(4);
        let tables = (used + 6 + 8 * n).next_multiple_of(16);
        let headers = tables + n * 16 * (TABLE + 2);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Self {
            ram: Arc::clone(ram),
            size,
            descriptors,
            available,
            used,
            tables,
            headers,
            end: headers + n * HEADER_BYTES,
            style,
            free: (0..size).rev().collect(),
            chains: vec![Vec::new(); usize::from(size)],
            next: 0,
            kicked: 0,
            seen: 0,
            kick: eventfd(0, flags).unwrap(),
            call: eventfd(0, flags).unwrap(),
        }
    }

    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Puts a request in and gives its head. `data`: where, how many bytes.
    pub(crate) fn request(&mut self, kind: u32, sector: u64, data: &[(u64, u32)]) -> u16 {
        let head = *self.free.last().expect("room");
        let header = self.headers + u64::from(head) * HEADER_BYTES;
        let mut bytes = [kind.to_le_bytes(), [0; 4]].concat();
        bytes.extend(sector.to_le_bytes());
        bytes.push(UNANSWERED);
        self.ram.write(header, &bytes);
        let writes = matches!(kind, READ | GET_ID);
        let mut chain = vec![(header, 16, false)];
        chain.extend(data.iter().map(|(at, length)| (*at, *length, writes)));
        chain.push((header + 16, 1, true));
        let given = self.chain(&chain);
        assert_eq!(given, head);
        head
    }

    /// Puts a chain in: address, length, writable.
    pub(crate) fn chain(&mut self, pieces: &[(u64, u32, bool)]) -> u16 {
        let head = if self.style.indirect {
            let head = self.free.pop().unwrap();
            let table = self.tables + u64::from(head) * 16 * (TABLE + 2);
            for (place, piece) in pieces.iter().enumerate() {
                let next = (place + 1 < pieces.len()).then_some(u16::try_from(place + 1).unwrap());
                self.describe(table + 16 * place as u64, *piece, next);
            }
            let length = u32::try_from(pieces.len() * 16).unwrap();
            let at = self.descriptors + 16 * u64::from(head);
            let entry = [
                &table.to_le_bytes()[..],
                &length.to_le_bytes(),
                &[4, 0, 0, 0],
            ]
            .concat();
            self.ram.write(at, &entry);
            self.chains[usize::from(head)] = vec![head];
            head
        } else {
            let chain: Vec<u16> = pieces.iter().map(|_| self.free.pop().unwrap()).collect();
            for (place, piece) in pieces.iter().enumerate() {
                let at = self.descriptors + 16 * u64::from(chain[place]);
                self.describe(at, *piece, chain.get(place + 1).copied());
            }
            let head = chain[0];
            self.chains[usize::from(head)] = chain;
            head
        };
        self.offer(head);
        head
    }

    fn describe(&self, at: u64, (address, length, writable): (u64, u32, bool), next: Option<u16>) {
        let flags = u16::from(next.is_some()) | u16::from(writable) << 1;
        let mut bytes = [
            address.to_le_bytes().to_vec(),
            length.to_le_bytes().to_vec(),
        ]
        .concat();
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.unwrap_or(0).to_le_bytes());
        self.ram.write(at, &bytes);
    }

    /// Offers a head, whatever it is.
    pub(crate) fn offer(&mut self, head: u16) {
        let place = u64::from(self.next % self.size);
        self.ram.store(self.available + 4 + 2 * place, head);
        self.next = self.next.wrapping_add(1);
        self.ram.store(self.available + 2, self.next);
    }

    /// Kicks if the device asked for it. True: it did.
    pub(crate) fn kick(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let wanted = if self.style.by_index {
            let event = self.ram.load(self.used + 4 + 8 * u64::from(self.size));
            self.next.wrapping_sub(event).wrapping_sub(1) < self.next.wrapping_sub(self.kicked)
        } else {
            self.ram.load(self.used) & 1 == 0
        };
        self.kicked = self.next;
        if wanted {
            rustix::io::write(&self.kick, &1_u64.to_le_bytes()).unwrap();
        }
        wanted
    }

    /// Asks to be interrupted for the next answer, or only after `later` more.
    pub(crate) fn want_interrupt(&self, later: u16) {
        let event = self.seen.wrapping_add(later);
        self.ram
            .store(self.available + 4 + 2 * u64::from(self.size), event);
        fence(Ordering::SeqCst);
    }

    /// Whether an answer is there.
    pub(crate) fn has_answer(&self) -> bool {
        self.ram.load(self.used + 2) != self.seen
    }

    /// The next answer: head and bytes written.
    pub(crate) fn answer(&mut self) -> Option<(u16, u32)> {
        if !self.has_answer() {
            return None;
        }
        let place = u64::from(self.seen % self.size);
        let mut entry = [0; 8];
        self.ram.read(self.used + 4 + 8 * place, &mut entry);
        self.seen = self.seen.wrapping_add(1);
        let head = u16::from_le_bytes([entry[0], entry[1]]);
        let length = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let chain = std::mem::take(&mut self.chains[usize::from(head)]);
        assert!(!chain.is_empty(), "head {head} was answered twice");
        self.free.extend(chain.into_iter().rev());
        Some((head, length))
    }

    /// The status that a request was answered with.
    pub(crate) fn status(&self, head: u16) -> u8 {
        self.ram
            .bytes(self.headers + u64::from(head) * HEADER_BYTES + 16, 1)[0]
    }

    /// How often the device interrupted since this was asked last.
    pub(crate) fn interrupts(&self) -> u64 {
        counter(&self.call)
    }

    /// Kicks that nobody has read since this was asked last.
    pub(crate) fn kicks(&self) -> u64 {
        counter(&self.kick)
    }

    pub(crate) fn kick_fd(&self) -> OwnedFd {
        self.kick.as_fd().try_clone_to_owned().unwrap()
    }

    pub(crate) fn call_fd(&self) -> OwnedFd {
        self.call.as_fd().try_clone_to_owned().unwrap()
    }
}

fn counter(eventfd: &OwnedFd) -> u64 {
    let mut counter = [0; 8];
    match rustix::io::read(eventfd, &mut counter) {
        Ok(_) => u64::from_le_bytes(counter),
        Err(_) => 0,
    }
}
