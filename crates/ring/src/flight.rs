//! The slab of operations in flight: owner of everything that the kernel may touch.
//!
//! An entry is made by [`Flights::board`] and ended by [`Flights::land`] with the kernel's
//! completion; its index is the `user_data` of both. All pointers given to the kernel point
//! into heap memory that the entry owns (pages of a [`Buf`], bytes behind a [`Slice`], a boxed
//! [`Message`]) or into memory that it keeps mapped ([`Foreign`]), so that the slab itself may grow and move.

#![allow(
    unsafe_code,
    reason = "building submissions means handing raw pointers to the kernel"
)]

use crate::foreign::{Foreign, Vectors};
use crate::limits::{PIECES_MAX, SEND_SLICES_MAX, SPARE_MESSAGES_MAX};
use crate::op::{Completion, Op};
use block_io::{Buf, Slice};
use io_uring::{opcode, squeue, types};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// A `sendmsg` argument that stays where it is until its completion.
struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
    slices: Vec<Slice>,
}

impl Message {
    fn new() -> Self {
        Self {
            // SAFETY: msghdr is plain integers and pointers, for which all zeroes is a value.
            header: unsafe { mem::zeroed() },
            vectors: Vec::new(),
            slices: Vec::new(),
        }
    }

    fn load(&mut self, slices: Vec<Slice>) {
        assert!(
            slices.len() <= SEND_SLICES_MAX,
            "a send fits one iovec array"
        );
        self.vectors.clear();
        self.vectors.extend(slices.iter().map(|slice| libc::iovec {
            iov_base: slice.as_ptr().cast_mut().cast(),
            iov_len: slice.len(),
        }));
        self.slices = slices;
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
    }
}

/// What an operation holds on to. The fields not read again are there to be dropped late.
enum Cargo {
    Fill {
        _fd: Rc<OwnedFd>,
        buf: Buf,
    },
    Write {
        _fd: Rc<OwnedFd>,
        _data: Slice,
    },
    Foreign {
        _fd: Rc<OwnedFd>,
        _into: Foreign,
    },
    Send {
        _fd: Rc<OwnedFd>,
        message: Box<Message>,
    },
    Bare {
        _fd: Rc<OwnedFd>,
    },
    Nothing,
}

struct Flight {
    source: u32,
    token: u64,
    is_for_disk: bool,
    cargo: Cargo,
}

enum Seat {
    Taken(Flight),
    /// The next free seat, or `NONE`.
    Free(u32),
}

const NONE: u32 = u32::MAX;

/// Operations in flight by index.
pub(crate) struct Flights {
    seats: Vec<Seat>,
    free: u32,
    taken: usize,
    /// Of these, operations that a disk carries out.
    for_disk: usize,
    #[allow(
        clippy::vec_box,
        reason = "the kernel has the address; a message moves between seats in its box"
    )]
    spare: Vec<Box<Message>>,
}

impl Flights {
    pub(crate) fn new() -> Self {
        Self {
            seats: Vec::new(),
            free: NONE,
            taken: 0,
            for_disk: 0,
            spare: Vec::new(),
        }
    }

    /// Operations that have boarded and not landed.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// Whether a disk has something to do for one of them.
    pub(crate) fn has_for_disk(&self) -> bool {
        self.for_disk > 0
    }

    /// Takes an operation in and returns its submission, which is valid until it lands. Of a read
    /// the kernel may know the buffer by `number`.
    ///
    /// # Panics
    /// If its lengths exceed its buffer, its slices the kernel's limit, or 4 GiB are asked for.
    pub(crate) fn board(
        &mut self,
        source: u32,
        token: u64,
        op: Op,
        number: Option<u16>,
    ) -> squeue::Entry {
        let is_for_disk = op.is_for_disk();
        let (entry, cargo) = self.load(op, number);
        let flight = Flight {
            source,
            token,
            is_for_disk,
            cargo,
        };
        self.taken += 1;
        self.for_disk += usize::from(is_for_disk);
        let index = if self.free == NONE {
            let index = u32::try_from(self.seats.len()).expect("fewer than 2^32 operations");
            self.seats.push(Seat::Taken(flight));
            index
        } else {
            let index = self.free;
            let seat = &mut self.seats[index as usize];
            let Seat::Free(next) = *seat else {
                unreachable!("the free list holds free seats")
            };
            self.free = next;
            *seat = Seat::Taken(flight);
            index
        };
        entry.user_data(u64::from(index))
    }

    /// Ends the operation with that `user_data`: its source and what to tell it.
    ///
    /// # Panics
    /// If there is none: the kernel completed an operation twice.
    pub(crate) fn land(&mut self, user_data: u64, result: i32) -> (u32, Completion) {
        let index = u32::try_from(user_data).expect("user data is a seat's index");
        let seat = &mut self.seats[index as usize];
        let Seat::Taken(flight) = mem::replace(seat, Seat::Free(self.free)) else {
            unreachable!("an operation completes once")
        };
        self.free = index;
        self.taken -= 1;
        self.for_disk -= usize::from(flight.is_for_disk);
        let mut completion = Completion::bare(flight.token, result);
        match flight.cargo {
            Cargo::Fill { buf, .. } => completion.buf = Some(buf),
            Cargo::Send { mut message, .. } => {
                completion.slices = mem::take(&mut message.slices);
                if self.spare.len() < SPARE_MESSAGES_MAX {
                    self.spare.push(message);
                }
            }
            Cargo::Write { .. } | Cargo::Foreign { .. } | Cargo::Bare { .. } | Cargo::Nothing => {}
        }
        (flight.source, completion)
    }

    /// What the operation with that `user_data`, which goes on, tells its source.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn report(&self, user_data: u64, result: i32) -> (u32, Completion) {
        let index = usize::try_from(user_data).expect("user data is a seat's index");
        let Seat::Taken(flight) = &self.seats[index] else {
            unreachable!("an operation that goes on is in flight")
        };
        let mut completion = Completion::bare(flight.token, result);
        completion.goes_on = true;
        (flight.source, completion)
    }

    /// The `user_data` of every operation of a source that has this token.
    pub(crate) fn with_token(&self, source: u32, token: u64) -> Vec<u64> {
        let is_it = |flight: &Flight| flight.source == source && flight.token == token;
        (0..)
            .zip(&self.seats)
            .filter_map(|(index, seat)| match seat {
                Seat::Taken(flight) if is_it(flight) => Some(index),
                Seat::Taken(_) | Seat::Free(_) => None,
            })
            .collect()
    }

    /// The `user_data` of every operation of a source, or of all sources.
    pub(crate) fn of(&self, source: Option<u32>) -> Vec<u64> {
        (0..)
            .zip(&self.seats)
            .filter_map(|(index, seat)| match seat {
                Seat::Taken(flight) if source.is_none_or(|one| one == flight.source) => Some(index),
                Seat::Taken(_) | Seat::Free(_) => None,
            })
            .collect()
    }

    fn load(&mut self, op: Op, number: Option<u16>) -> (squeue::Entry, Cargo) {
        match op {
            Op::Read {
                file,
                offset,
                buf,
                length,
            } => load_read(file, offset, buf, length, number),
            Op::Write {
                file,
                offset,
                data,
                dsync,
            } => load_write(file, offset, data, dsync),
            Op::Signal { eventfd, count } => load_write(eventfd, 0, count, false),
            Op::Recv {
                socket,
                buf,
                start,
                end,
            } => load_recv(socket, buf, start, end),
            Op::Send { socket, slices } => {
                let mut message = self.spare.pop().unwrap_or_else(|| Box::new(Message::new()));
                message.load(slices);
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                let entry = opcode::SendMsg::new(fd(&socket), &raw const message.header)
                    .flags(flags.cast_unsigned())
                    .build();
                let cargo = Cargo::Send {
                    _fd: socket,
                    message,
                };
                (entry, cargo)
            }
            Op::Fsync { file, datasync } => {
                let mut flags = types::FsyncFlags::empty();
                if datasync {
                    flags |= types::FsyncFlags::DATASYNC;
                }
                let entry = opcode::Fsync::new(fd(&file)).flags(flags).build();
                (entry, Cargo::Bare { _fd: file })
            }
            Op::Fallocate {
                file,
                mode,
                offset,
                length,
            } => {
                let entry = opcode::Fallocate::new(fd(&file), length)
                    .offset(offset)
                    .mode(mode)
                    .build();
                (entry, Cargo::Bare { _fd: file })
            }
            Op::Forget { file } => {
                let whole = 0;
                let entry =
                    opcode::Fadvise::new(fd(&file), whole, libc::POSIX_FADV_DONTNEED).build();
                (entry, Cargo::Bare { _fd: file })
            }
            Op::Stat { file, buf } => load_stat(file, buf),
            Op::PollIn { fd } => load_poll(fd, libc::POLLIN, false),
            Op::PollEach { fd } => load_poll(fd, libc::POLLIN, true),
            // The kernel tells of all that unasked.
            Op::PollHangUp { fd } => load_poll(fd, 0, false),
            Op::PollOut { fd } => load_poll(fd, libc::POLLOUT, false),
            Op::ReadInto { file, offset, into } => load_foreign(file, offset, into),
            Op::Nop => (opcode::Nop::new().build(), Cargo::Nothing),
        }
    }
}

impl Drop for Flights {
    /// Gives up the memory of what has not landed for good: the kernel may still write there.
    fn drop(&mut self) {
        if self.taken > 0 {
            mem::forget(mem::take(&mut self.seats));
        }
    }
}

fn fd(owned: &OwnedFd) -> types::Fd {
    types::Fd(owned.as_raw_fd())
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("one operation moves less than 4 GiB")
}

fn load_stat(file: Rc<OwnedFd>, mut buf: Buf) -> (squeue::Entry, Cargo) {
    assert!(
        buf.len() >= size_of::<libc::statx>(),
        "a status fits its buffer"
    );
    let target = buf.as_mut_ptr().cast();
    let entry = opcode::Statx::new(fd(&file), c"".as_ptr(), target)
        .flags(libc::AT_EMPTY_PATH)
        .mask(libc::STATX_BASIC_STATS)
        .build();
    (entry, Cargo::Fill { _fd: file, buf })
}

fn load_read(
    file: Rc<OwnedFd>,
    offset: u64,
    mut buf: Buf,
    length: usize,
    number: Option<u16>,
) -> (squeue::Entry, Cargo) {
    let target = buf[..length].as_mut_ptr();
    let (fd, bytes) = (fd(&file), length_u32(length));
    let entry = match number {
        Some(number) => opcode::ReadFixed::new(fd, target, bytes, number)
            .offset(offset)
            .build(),
        None => opcode::Read::new(fd, target, bytes).offset(offset).build(),
    };
    (entry, Cargo::Fill { _fd: file, buf })
}

fn load_write(file: Rc<OwnedFd>, offset: u64, data: Slice, dsync: bool) -> (squeue::Entry, Cargo) {
    let flags = if dsync { libc::RWF_DSYNC } else { 0 };
    let entry = opcode::Write::new(fd(&file), data.as_ptr(), length_u32(data.len()))
        .offset(offset)
        .rw_flags(flags)
        .build();
    (
        entry,
        Cargo::Write {
            _fd: file,
            _data: data,
        },
    )
}

fn load_foreign(file: Rc<OwnedFd>, offset: u64, into: Foreign) -> (squeue::Entry, Cargo) {
    let entry = match into.vectors() {
        Vectors::One(one) => {
            let length = length_u32(one.iov_len);
            opcode::Read::new(fd(&file), one.iov_base.cast(), length)
                .offset(offset)
                .build()
        }
        Vectors::Many(vectors, count) => {
            assert!(count <= PIECES_MAX, "a read fits one iovec array");
            opcode::Readv::new(fd(&file), vectors, length_u32(count))
                .offset(offset)
                .build()
        }
    };
    let cargo = Cargo::Foreign {
        _fd: file,
        _into: into,
    };
    (entry, cargo)
}

fn load_recv(
    socket: Rc<OwnedFd>,
    mut buf: Buf,
    start: usize,
    end: usize,
) -> (squeue::Entry, Cargo) {
    let target = &mut buf[start..end];
    assert!(
        !target.is_empty(),
        "a receive into nothing looks like the end of the stream"
    );
    let length = length_u32(target.len());
    let entry = opcode::Recv::new(fd(&socket), target.as_mut_ptr(), length).build();
    (entry, Cargo::Fill { _fd: socket, buf })
}

fn load_poll(watched: Rc<OwnedFd>, events: libc::c_short, goes_on: bool) -> (squeue::Entry, Cargo) {
    let mask = u32::from(events.cast_unsigned());
    let poll = opcode::PollAdd::new(fd(&watched), mask).multi(goes_on);
    let entry = poll.build();
    (entry, Cargo::Bare { _fd: watched })
}
