//! Error numbers of replies.

use block_io::IoError;
use std::fmt;

/// An error number that the protocol knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Errno {
    /// Not permitted, as a write to a read-only export.
    Perm,
    /// Input/output error.
    Io,
    /// Out of memory.
    NoMem,
    /// Invalid request.
    Inval,
    /// No space left, or a write beyond the end.
    NoSpc,
    /// The answer would be too large for one piece.
    Overflow,
    /// Not supported as asked, as a fast write of zeroes.
    NotSup,
    /// The server is shutting down.
    Shutdown,
}

impl Errno {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Perm,
        Self::Io,
        Self::NoMem,
        Self::Inval,
        Self::NoSpc,
        Self::Overflow,
        Self::NotSup,
        Self::Shutdown,
    ];

    /// The number on the wire.
    pub const fn to_wire(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::NoMem => 12,
            Self::Inval => 22,
            Self::NoSpc => 28,
            Self::Overflow => 75,
            Self::NotSup => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error of a number on the wire; `None` for zero, which means success. A number that
    /// the protocol does not know counts as `EINVAL`, as it demands.
    pub fn from_wire(number: u32) -> Option<Self> {
        if number == 0 {
            return None;
        }
        let known = Self::ALL.into_iter().find(|e| e.to_wire() == number);
        Some(known.unwrap_or(Self::Inval))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "EPERM",
            Self::Io => "EIO",
            Self::NoMem => "ENOMEM",
            Self::Inval => "EINVAL",
            Self::NoSpc => "ENOSPC",
            Self::Overflow => "EOVERFLOW",
            Self::NotSup => "ENOTSUP",
            Self::Shutdown => "ESHUTDOWN",
        })
    }
}

impl From<IoError> for Errno {
    fn from(error: IoError) -> Self {
        match error {
            // The protocol has no number for a time-out or a lost far side.
            IoError::Failed | IoError::Disconnected | IoError::TimedOut => Self::Io,
            IoError::NoSpace => Self::NoSpc,
            IoError::NotPermitted => Self::Perm,
            IoError::Invalid => Self::Inval,
            IoError::ShuttingDown => Self::Shutdown,
        }
    }
}

impl From<Errno> for IoError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Perm => Self::NotPermitted,
            Errno::Io | Errno::NoMem => Self::Failed,
            Errno::Inval | Errno::Overflow | Errno::NotSup => Self::Invalid,
            Errno::NoSpc => Self::NoSpace,
            Errno::Shutdown => Self::ShuttingDown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_the_wire() {
        for errno in Errno::ALL {
            assert_eq!(Errno::from_wire(errno.to_wire()), Some(errno));
        }
        assert_eq!(Errno::from_wire(0), None);
        assert_eq!(Errno::from_wire(4711), Some(Errno::Inval));
    }

    #[test]
    fn a_lost_far_side_is_an_input_output_error() {
        assert_eq!(Errno::from(IoError::Disconnected), Errno::Io);
        assert_eq!(Errno::from(IoError::TimedOut), Errno::Io);
    }
}
