//! The bodies of messages as they are on the wire. All numbers are little-endian.
//!
//! ```text
//!   1 Hello      boot 16 │ disks 2 │ 0 2 │ serial 20, for each disk
//!   2 Classes    serial 20 │ class 4 │ ranges 2 │ 0 2 │ offset 8, length 8, for each range
//!   3 ReadAhead  serial 20 │ expires 4, ms │ ranges 2 │ 0 2 │ offset 8, length 8, for each range
//!   4 Used       read 8 │ of 8
//!   5 Memory     available 8 │ cache 8 │ pressure 4, 1/100 % │ 0 4
//!   6 Sockets    sockets 2 │ 0 2 │ peer 16, bytes 8, for each socket
//! ```

use crate::frames::{Fault, Raw};
use crate::header::Header;
use crate::limits::{BODY_BYTES_MAX, DISKS_MAX, RANGES_MAX, SERIAL_BYTES, SOCKETS_MAX};
use crate::message::{ByteRange, Class, Frame, Hello, Memory, Message, Serial, Socket, Used};
use units::{Bytes, Duration, Offset};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const HELLO: u8 = 1;
const CLASSES: u8 = 2;
const READ_AHEAD: u8 = 3;
const USED: u8 = 4;
const MEMORY: u8 = 5;
const SOCKETS: u8 = 6;

macro_rules! wire {
    ($(#[$about:meta] $name:ident { $($field:ident: $kind:ty),* })*) => {$(
        #[$about]
        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        struct $name { $($field: $kind),* }
    )*};
}

wire! {
    /// How many items follow.
    Count { items: U16, zero: U16 }
    /// Head of `Hello`.
    HelloHead { boot: U128 }
    /// Head of `Classes` and `ReadAhead`; `about` is the class, or milliseconds.
    RangesHead { serial: [u8; SERIAL_BYTES], about: U32 }
    /// A range.
    RangeItem { offset: U64, length: U64 }
    /// All of `Used`.
    UsedBody { read: U64, of: U64 }
    /// All of `Memory`.
    MemoryBody { available: U64, cache: U64, pressure: U32, zero: U32 }
    /// A socket.
    SocketItem { peer: [u8; 16], bytes: U64 }
}

const _: () = {
    let ranges = size_of::<RangesHead>() + size_of::<Count>() + RANGES_MAX * size_of::<RangeItem>();
    let sockets = size_of::<Count>() + SOCKETS_MAX * size_of::<SocketItem>();
    let hello = size_of::<HelloHead>() + size_of::<Count>() + DISKS_MAX * SERIAL_BYTES;
    assert!(ranges <= BODY_BYTES_MAX);
    assert!(sockets <= BODY_BYTES_MAX);
    assert!(hello <= BODY_BYTES_MAX);
};

impl Frame {
    /// Appends its bytes to `out`.
    ///
    /// # Panics
    /// If a list is longer than it may be: the sender keeps to the limits.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.message.is_within_limits(), "a message that is allowed");
        let (kind, body) = encode(&self.message);
        let header = Header::of(kind, self.sequence, &body);
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&body);
    }
}

impl Message {
    /// The message of a frame.
    ///
    /// # Errors
    /// [`Fault::Kind`] or [`Fault::Body`].
    pub fn decode(raw: Raw<'_>) -> Result<Self, Fault> {
        decode(raw.kind, raw.body)
    }
}

/// The number of a message, and its body.
fn encode(message: &Message) -> (u8, Vec<u8>) {
    match message {
        Message::Hello(hello) => {
            let head = HelloHead {
                boot: U128::new(hello.boot),
            };
            let disks = hello.disks.iter().map(|serial| serial.to_wire());
            (HELLO, listed(head.as_bytes(), disks))
        }
        Message::Classes {
            serial,
            class,
            ranges,
        } => {
            let place = Class::ALL.iter().position(|one| one == class);
            let number = u32::try_from(place.expect("every class is listed")).expect("a few");
            (CLASSES, with_ranges(*serial, number + 1, ranges))
        }
        Message::ReadAhead {
            serial,
            expires,
            ranges,
        } => {
            let ms = u32::try_from(expires.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
            (READ_AHEAD, with_ranges(*serial, ms, ranges))
        }
        Message::Used(used) => {
            let body = UsedBody {
                read: U64::new(used.read_bytes),
                of: U64::new(used.of_bytes),
            };
            (USED, body.as_bytes().to_vec())
        }
        Message::Memory(memory) => {
            let body = MemoryBody {
                available: U64::new(memory.available_bytes),
                cache: U64::new(memory.cache_bytes),
                pressure: U32::new(memory.pressure_hundredths),
                zero: U32::ZERO,
            };
            (MEMORY, body.as_bytes().to_vec())
        }
        Message::Sockets(sockets) => {
            let items = sockets.iter().map(|socket| SocketItem {
                peer: socket.peer.octets(),
                bytes: U64::new(socket.bytes),
            });
            (SOCKETS, listed(&[], items))
        }
    }
}

fn with_ranges(serial: Serial, about: u32, ranges: &[ByteRange]) -> Vec<u8> {
    let head = RangesHead {
        serial: serial.to_wire(),
        about: U32::new(about),
    };
    let items = ranges.iter().map(|range| RangeItem {
        offset: U64::new(range.offset().get()),
        length: U64::new(range.length().get()),
    });
    listed(head.as_bytes(), items)
}

fn listed<T: IntoBytes + Immutable>(
    head: &[u8],
    items: impl ExactSizeIterator<Item = T>,
) -> Vec<u8> {
    let count = Count {
        items: U16::new(u16::try_from(items.len()).expect("a list within its limit")),
        zero: U16::ZERO,
    };
    let mut body = [head, count.as_bytes()].concat();
    items.for_each(|item| body.extend_from_slice(item.as_bytes()));
    body
}

/// The message of a kind in these bytes.
///
/// # Errors
/// If there is no such kind, or the body is none of its messages, or longer.
fn decode(kind: u8, body: &[u8]) -> Result<Message, Fault> {
    match kind {
        HELLO => {
            let (head, rest) = head::<HelloHead>(body)?;
            let disks = items::<[u8; SERIAL_BYTES]>(rest, DISKS_MAX)?;
            let disks = disks.iter().map(|bytes| serial(*bytes));
            Ok(Message::Hello(Hello {
                boot: head.boot.get(),
                disks: disks.collect::<Result<_, _>>()?,
            }))
        }
        CLASSES => {
            let (head, rest) = head::<RangesHead>(body)?;
            let class = (head.about.get() as usize)
                .checked_sub(1)
                .and_then(|place| Class::ALL.get(place));
            Ok(Message::Classes {
                serial: serial(head.serial)?,
                class: *class.ok_or(Fault::Body)?,
                ranges: ranges(rest)?,
            })
        }
        READ_AHEAD => {
            let (head, rest) = head::<RangesHead>(body)?;
            Ok(Message::ReadAhead {
                serial: serial(head.serial)?,
                expires: Duration::from_millis(u64::from(head.about.get())),
                ranges: ranges(rest)?,
            })
        }
        USED => {
            let body = UsedBody::read_from_bytes(body).map_err(|_| Fault::Body)?;
            Ok(Message::Used(Used {
                read_bytes: body.read.get(),
                of_bytes: body.of.get(),
            }))
        }
        MEMORY => {
            let body = MemoryBody::read_from_bytes(body).map_err(|_| Fault::Body)?;
            is_zero(body.zero.get())?;
            Ok(Message::Memory(Memory {
                available_bytes: body.available.get(),
                cache_bytes: body.cache.get(),
                pressure_hundredths: body.pressure.get(),
            }))
        }
        SOCKETS => {
            let sockets = items::<SocketItem>(body, SOCKETS_MAX)?.iter();
            let sockets = sockets.map(|item| Socket {
                peer: item.peer.into(),
                bytes: item.bytes.get(),
            });
            Ok(Message::Sockets(sockets.collect()))
        }
        other => Err(Fault::Kind(other)),
    }
}

fn is_zero(reserved: u32) -> Result<(), Fault> {
    (reserved == 0).then_some(()).ok_or(Fault::Body)
}

fn serial(bytes: [u8; SERIAL_BYTES]) -> Result<Serial, Fault> {
    Serial::from_wire(bytes).map_err(|_| Fault::Body)
}

fn head<T: FromBytes>(body: &[u8]) -> Result<(T, &[u8]), Fault> {
    T::read_from_prefix(body).map_err(|_| Fault::Body)
}

/// The items behind their count, which is what the rest of the body holds and no more than `most`.
fn items<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    body: &[u8],
    most: usize,
) -> Result<&[T], Fault> {
    let (count, rest) = head::<Count>(body)?;
    is_zero(u32::from(count.zero.get()))?;
    let items = <[T]>::ref_from_bytes(rest).map_err(|_| Fault::Body)?;
    let is_right = items.len() == usize::from(count.items.get()) && items.len() <= most;
    is_right.then_some(items).ok_or(Fault::Body)
}

fn ranges(rest: &[u8]) -> Result<Vec<ByteRange>, Fault> {
    let items = items::<RangeItem>(rest, RANGES_MAX)?.iter();
    items
        .map(|item| {
            let (offset, length) = (
                Offset::new(item.offset.get()),
                Bytes::new(item.length.get()),
            );
            ByteRange::new(offset, length).ok_or(Fault::Body)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::samples::any_message;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_decoded_encodes_to_the_same(
            kind in 0..9_u8, body in proptest::collection::vec(0..3_u8, 0..80),
        ) {
            if let Ok(message) = decode(kind, &body) {
                prop_assert_eq!(encode(&message), (kind, body));
            }
        }

        #[test]
        fn bodies_that_are_cut_or_longer_are_refused(message in any_message(), more in 1..40_usize) {
            let (kind, body) = encode(&message);
            prop_assert_eq!(decode(kind, &body), Ok(message));
            for length in 0..body.len() {
                prop_assert_eq!(decode(kind, &body[..length]), Err(Fault::Body));
            }
            let longer = [body, vec![0; more]].concat();
            prop_assert_eq!(decode(kind, &longer), Err(Fault::Body));
        }
    }

    #[test]
    fn the_bytes_of_each_message_are_pinned() {
        let serial: Serial = "d1".parse().unwrap();
        let range = ByteRange::new(Offset::new(0x0102), Bytes::new(0x0304)).unwrap();
        let (kind, body) = encode(&Message::Classes {
            serial,
            class: Class::Preferred,
            ranges: vec![range],
        });
        let mut expected = vec![b'd', b'1'];
        expected.resize(20, 0);
        expected.extend([
            5, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0,
        ]);
        assert_eq!((kind, body), (2, expected));
        let (kind, body) = encode(&Message::Hello(Hello {
            boot: 1,
            disks: vec![serial],
        }));
        assert_eq!((kind, body.len()), (1, 40));
        assert_eq!((body[0], &body[16..22]), (1, &[1, 0, 0, 0, b'd', b'1'][..]));
    }

    #[test]
    fn lists_beyond_their_limits_are_refused() {
        let item = [1_u8; 16];
        let long = |count: u16| {
            let mut body = vec![b'd'; 20];
            body.extend(1_u32.to_le_bytes());
            body.extend(count.to_le_bytes());
            body.extend([0, 0]);
            body.extend(item.repeat(usize::from(count)));
            body
        };
        assert!(decode(CLASSES, &long(64)).is_ok());
        assert_eq!(decode(CLASSES, &long(65)), Err(Fault::Body));
        assert_eq!(decode(READ_AHEAD, &long(65)), Err(Fault::Body));
        let mut lying = long(3);
        lying[24] = 2;
        assert_eq!(decode(CLASSES, &lying), Err(Fault::Body));
    }

    #[test]
    fn unknown_classes_kinds_and_empty_ranges_are_refused() {
        let body = |class: u32, length: u64| {
            let mut body = vec![b'd'; 20];
            body.extend(class.to_le_bytes());
            body.extend([1, 0, 0, 0]);
            body.extend(7_u64.to_le_bytes());
            body.extend(length.to_le_bytes());
            body
        };
        assert!(decode(CLASSES, &body(5, 1)).is_ok());
        for (class, length) in [(0, 1), (6, 1), (5, 0), (5, u64::MAX)] {
            assert_eq!(decode(CLASSES, &body(class, length)), Err(Fault::Body));
        }
        assert_eq!(decode(0, &[]), Err(Fault::Kind(0)));
        assert_eq!(decode(7, &[]), Err(Fault::Kind(7)));
    }
}
