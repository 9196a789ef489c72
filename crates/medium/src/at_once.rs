//! Flash that carries out each operation at once: what drives a cache in tests, benches and fuzz targets
//! that need neither time nor crashes. What they do to the bytes is theirs ([`FlashBytes`]).

use block_io::{FlashDone, FlashOp, FlashVerb, IoError, OriginDone, OriginVerb};
use units::Offset;

/// The bytes of such flash.
pub trait FlashBytes {
    /// Fills `into` with what lies at `offset`.
    ///
    /// # Errors
    /// What the operation ends with.
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError>;

    /// Puts bytes at `offset`.
    ///
    /// # Errors
    /// What the operation ends with.
    fn store(&mut self, offset: Offset, data: &[u8], durable: bool) -> Result<(), IoError>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// What the operation ends with.
    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }
}

/// Flash that keeps everything and never fails.
impl FlashBytes for Vec<u8> {
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError> {
        into.copy_from_slice(&self[offset.to_usize()..][..into.len()]);
        Ok(())
    }

    fn store(&mut self, offset: Offset, data: &[u8], _durable: bool) -> Result<(), IoError> {
        self[offset.to_usize()..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// Carries out an operation of flash. A read that fails leaves memory that is not ours as it was.
pub fn carry_out(flash: &mut (impl FlashBytes + ?Sized), op: FlashOp) -> FlashDone {
    let mut done = FlashDone {
        token: op.token,
        place: None,
        buf: None,
        result: Ok(()),
    };
    match op.verb {
        FlashVerb::Read {
            offset,
            length,
            mut buf,
        } => {
            done.result = flash.load(offset, &mut buf[..length.to_usize()]);
            done.buf = Some(buf);
        }
        FlashVerb::ReadInto { offset, place } => {
            let mut bytes = vec![0; place.len()];
            done.result = flash.load(offset, &mut bytes);
            if done.result.is_ok() {
                place.store(&bytes);
            }
            done.place = Some(place);
        }
        FlashVerb::Write {
            offset,
            data,
            durable,
        } => done.result = flash.store(offset, &data, durable),
        FlashVerb::Flush => done.result = flash.flush(),
    }
    done
}

/// A flash operation in the words of a medium, which knows more verbs, and no memory but ours.
///
/// # Panics
/// If it reads into other memory: see [`block_io::BounceBuffers`].
pub fn medium_verb(verb: FlashVerb) -> OriginVerb {
    match verb {
        FlashVerb::Read {
            offset,
            length,
            buf,
        } => OriginVerb::Read {
            offset,
            length,
            buf,
        },
        FlashVerb::Write {
            offset,
            data,
            durable,
        } => OriginVerb::Write {
            offset,
            data,
            fua: durable,
        },
        FlashVerb::Flush => OriginVerb::Flush,
        FlashVerb::ReadInto { .. } => unreachable!("a medium reads into buffers of ours"),
    }
}

/// A medium's outcome in the words of flash.
pub fn flash_done(done: OriginDone) -> FlashDone {
    FlashDone {
        token: done.token,
        place: None,
        buf: done.buf,
        result: done.result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::{BufPool, Token};
    use units::Bytes;

    #[test]
    fn what_was_written_is_read() {
        let (pool, mut flash) = (BufPool::new(), vec![0; 8192]);
        let mut ask = |verb| {
            let token = Token(7);
            let done = carry_out(&mut flash, FlashOp { token, verb });
            assert_eq!((done.token, done.result), (token, Ok(())));
            done.buf
        };
        let (offset, durable) = (Offset::kib(4), false);
        let data = pool.copy_of(b"bytes");
        ask(FlashVerb::Write {
            offset,
            data,
            durable,
        });
        ask(FlashVerb::Flush);
        let (length, buf) = (Bytes::new(5), pool.take(4096));
        let read = ask(FlashVerb::Read {
            offset,
            length,
            buf,
        });
        assert_eq!(&read.unwrap()[..5], b"bytes");
    }
}
