//! A client of an NBD export that stays connected for as long as its test likes, and asks one thing at a
//! time: what a guest sees of its disk, errors and waiting included.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::limits;

const INIT_PASSWORD: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no zeroes behind the handshake.
const CLIENT_FLAGS: u32 = 3;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const INFO_EXPORT: u16 = 0;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

/// What a request came to.
pub type Outcome<T> = Result<T, Refused>;

/// The server has answered with this error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u32);

/// A connection to an export.
pub struct Session {
    stream: UnixStream,
    bytes: u64,
    handle: u64,
}

impl Session {
    /// Connects to the export `name` of the server at `socket`.
    ///
    /// # Errors
    ///
    /// When the server does not let it in.
    pub fn open(socket: &Path, name: &str) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).context("an NBD server")?;
        // A request that is never answered is a hang, which its test should not share.
        stream.set_read_timeout(Some(limits::SHORT))?;
        let mut session = Self {
            stream,
            bytes: 0,
            handle: 0,
        };
        session.greet(name).context("an NBD handshake")?;
        Ok(session)
    }

    fn greet(&mut self, name: &str) -> anyhow::Result<()> {
        ensure!(self.u64()? == INIT_PASSWORD && self.u64()? == OPTION_MAGIC);
        self.array::<2>()?;
        let mut out = Vec::new();
        out.extend(CLIENT_FLAGS.to_be_bytes());
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend(OPTION_GO.to_be_bytes());
        let length = u32::try_from(name.len())?;
        out.extend((length + 6).to_be_bytes());
        out.extend(length.to_be_bytes());
        out.extend(name.as_bytes());
        out.extend([0; 2]);
        self.stream.write_all(&out)?;
        loop {
            ensure!(self.u64()? == OPTION_REPLY_MAGIC && self.u32()? == OPTION_GO);
            let kind = self.u32()?;
            let length = self.u32()?;
            let body = self.bytes(length as usize)?;
            match (kind, body.first_chunk::<2>()) {
                (REPLY_ACK, _) => return Ok(()),
                (3, Some(info)) if u16::from_be_bytes(*info) == INFO_EXPORT => {
                    let size = body.get(2..10).context("a size")?;
                    self.bytes = u64::from_be_bytes(size.try_into()?);
                }
                (3, _) => {}
                _ => bail!("refused with {kind:#x}: {}", String::from_utf8_lossy(&body)),
            }
        }
    }

    fn array<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn bytes(&mut self, count: usize) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> anyhow::Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> anyhow::Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn send(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> anyhow::Result<()> {
        self.handle += 1;
        let mut out = Vec::with_capacity(28 + data.len());
        out.extend(REQUEST_MAGIC.to_be_bytes());
        out.extend([0; 2]);
        out.extend(kind.to_be_bytes());
        out.extend(self.handle.to_be_bytes());
        out.extend(offset.to_be_bytes());
        out.extend(length.to_be_bytes());
        out.extend(data);
        self.stream.write_all(&out).context("a request")
    }

    fn answer(&mut self) -> anyhow::Result<Outcome<()>> {
        let magic = self.u32().context("an answer")?;
        ensure!(magic == REPLY_MAGIC, "an answer began with {magic:#x}");
        let error = self.u32()?;
        let handle = self.u64()?;
        ensure!(handle == self.handle, "an answer to another request");
        Ok(if error == 0 {
            Ok(())
        } else {
            Err(Refused(error))
        })
    }

    fn ask(&mut self, kind: u16, at: (u64, u64), data: &[u8]) -> anyhow::Result<Outcome<()>> {
        self.send(kind, at.0, u32::try_from(at.1)?, data)?;
        self.answer()
    }

    /// The size of the export.
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// How long it waits for an answer.
    ///
    /// # Errors
    ///
    /// When the system does not let it.
    pub fn set_patience(&self, patience: Duration) -> anyhow::Result<()> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// When no answer comes, or the connection breaks.
    pub fn try_read(&mut self, offset: u64, length: u64) -> anyhow::Result<Outcome<Vec<u8>>> {
        match self.ask(READ, (offset, length), &[])? {
            Ok(()) => self.bytes(usize::try_from(length)?).map(Ok),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Writes.
    ///
    /// # Errors
    ///
    /// When no answer comes, or the connection breaks.
    pub fn try_write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<Outcome<()>> {
        self.ask(WRITE, (offset, data.len() as u64), data)
    }

    /// Discards.
    ///
    /// # Errors
    ///
    /// When no answer comes, or the connection breaks.
    pub fn try_discard(&mut self, offset: u64, length: u64) -> anyhow::Result<Outcome<()>> {
        self.ask(TRIM, (offset, length), &[])
    }

    /// Flushes.
    ///
    /// # Errors
    ///
    /// When no answer comes, or the connection breaks.
    pub fn try_flush(&mut self) -> anyhow::Result<Outcome<()>> {
        self.ask(FLUSH, (0, 0), &[])
    }

    /// Reads, which must succeed.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn read(&mut self, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
        let read = self.try_read(offset, length)?;
        read.map_err(|Refused(error)| anyhow::anyhow!("a read at {offset} failed with {error}"))
    }

    /// Writes, which must succeed.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        let written = self.try_write(offset, data)?;
        written.map_err(|Refused(error)| anyhow::anyhow!("a write at {offset} failed with {error}"))
    }

    /// Flushes, which must succeed.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        let flushed = self.try_flush()?;
        flushed.map_err(|Refused(error)| anyhow::anyhow!("a flush failed with {error}"))
    }

    /// Says goodbye, as a guest that is shut down does.
    ///
    /// # Errors
    ///
    /// When the server has gone.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.send(DISCONNECT, 0, 0, &[])
    }
}
