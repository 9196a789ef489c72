//! blktrace's binary events, version 7, of either byte order.
//!
//! ```text
//!   0 u32 magic 0x65617400 + version   28 u32 action: event, category in the upper half
//!   4 u32 sequence                     32 u32 process
//!   8 u64 time in ns                   36 u32 device: major above 20 bits of minor
//!  16 u64 sector of 512 bytes          40 u32 cpu
//!  24 u32 bytes                        44 u16 error, u16 length of what follows
//! ```
//!
//! A request shows up in many events: it is queued, issued, completed. One kind is read, by `Event`. A
//! device is a volume; commands that are no block requests are passed over. Each CPU writes a file of its
//! own: open them together, merged by time.

use units::{Bytes, Offset};

use crate::decode::{Decode, Fault, Out, Window, Wrong, scaled};
use crate::error::Position;
use crate::format::Entry;
use crate::format::vscsi::array_at;
use crate::names::VolumeNames;
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "blktrace",
    about: "blktrace's events, binary",
    hints: &["blktrace"],
    recognise: |sample: &Sample<'_>| {
        let order = Order::of(sample.bytes)?;
        let event = Event::best(|event| order.has(sample.bytes, event));
        Some(Guess::new(
            Strength::Certain,
            format!("its magic number; requests as they are {}", event.name()),
        ))
    },
    open: |input, options| {
        let order = Order::of(input.sample()).unwrap_or(Order::Little);
        let event = Event::best(|event| order.has(input.sample(), event));
        let decoder = Blktrace {
            order,
            event,
            devices: VolumeNames::default(),
        };
        Ok(stream(input, decoder, options))
    },
};

/// The event that stands for a request: the first of these that the trace's beginning has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// As the file system or the guest asked for it.
    Queued,
    /// As it went to the device, after merging.
    Issued,
    /// As the device answered it.
    Completed,
}

impl Event {
    pub(super) fn best(has: impl Fn(Self) -> bool) -> Self {
        let all = [Self::Queued, Self::Issued, Self::Completed];
        all.into_iter()
            .find(|&event| has(event))
            .unwrap_or(Self::Queued)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued (Q)",
            Self::Issued => "issued (D)",
            Self::Completed => "completed (C)",
        }
    }

    pub(super) fn letter(self) -> &'static [u8] {
        match self {
            Self::Queued => b"Q",
            Self::Issued => b"D",
            Self::Completed => b"C",
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Queued => 1,
            Self::Issued => 7,
            Self::Completed => 8,
        }
    }
}

const MAGIC: u32 = 0x6561_7407;
const HEADER_BYTES: usize = 48;
const NS_PER_US: u64 = 1_000;

// Bits of the action.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const COMMAND: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
/// The event, without the bit that says that a control group's id follows.
const EVENT: u32 = 0xff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes.first_chunk() {
            Some(&magic) if u32::from_le_bytes(magic) == MAGIC => Some(Self::Little),
            Some(&magic) if u32::from_be_bytes(magic) == MAGIC => Some(Self::Big),
            _ => None,
        }
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(array_at(bytes, at)),
            Self::Big => u16::from_be_bytes(array_at(bytes, at)),
        }
    }

    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(array_at(bytes, at)),
            Self::Big => u32::from_be_bytes(array_at(bytes, at)),
        }
    }

    fn u64_at(self, bytes: &[u8], at: usize) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(array_at(bytes, at)),
            Self::Big => u64::from_be_bytes(array_at(bytes, at)),
        }
    }

    /// True if a trace's beginning has such an event.
    fn has(self, mut bytes: &[u8], event: Event) -> bool {
        while bytes.len() >= HEADER_BYTES {
            let action = self.u32_at(bytes, 28);
            if action & EVENT == event.number() && action & NOTIFY == 0 {
                return true;
            }
            let size = HEADER_BYTES + usize::from(self.u16_at(bytes, 46));
            bytes = bytes.get(size..).unwrap_or_default();
        }
        false
    }
}

struct Blktrace {
    order: Order,
    event: Event,
    devices: VolumeNames,
}

impl Decode for Blktrace {
    const NAME: &'static str = ENTRY.name;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        let mut used = 0;
        while !out.is_full() {
            let rest = &window.bytes[used..];
            let here = Position::Byte(window.offset + used as u64);
            let size = match rest.get(..HEADER_BYTES) {
                Some(header) => HEADER_BYTES + usize::from(self.order.u16_at(header, 46)),
                None => HEADER_BYTES,
            };
            let Some(event) = rest.get(..size) else {
                if window.last && !rest.is_empty() {
                    return Err(Fault::Truncated {
                        position: here,
                        found: format!("{} bytes", rest.len()),
                        expected: format!("{size} expected"),
                    });
                }
                break;
            };
            self.event(event, out)
                .map_err(|wrong| Fault::Wrong(here, wrong))?;
            used += size;
        }
        Ok(used)
    }
}

impl Blktrace {
    fn event(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if Order::of(bytes) != Some(self.order) {
            let found = format!("{:08x}", self.order.u32_at(bytes, 0));
            return Err(Wrong::found(
                "magic",
                found,
                "65617407, version 7 of blktrace",
            ));
        }
        let action = self.order.u32_at(bytes, 28);
        if action & EVENT != self.event.number() || action & (NOTIFY | COMMAND) != 0 {
            return Ok(());
        }
        let length = Bytes::new(u64::from(self.order.u32_at(bytes, 24)));
        let op = if action & DISCARD != 0 {
            Op::Discard
        } else if length.is_zero() {
            if action & FLUSH == 0 {
                return Ok(());
            }
            Op::Flush
        } else if action & WRITE != 0 {
            Op::Write
        } else {
            Op::Read
        };
        let sector = if op == Op::Flush {
            0
        } else {
            self.order.u64_at(bytes, 16)
        };
        let offset = Offset::after(scaled("sector", sector, units::SECTOR_BYTES)?);
        let device = self.order.u32_at(bytes, 36);
        let volume = self.devices.get(&device.to_be_bytes(), out, |_| {
            (
                String::new(),
                format!("{},{}", device >> 20, device & 0xf_ffff),
            )
        });
        let time_us = self.order.u64_at(bytes, 8) / NS_PER_US;
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}
