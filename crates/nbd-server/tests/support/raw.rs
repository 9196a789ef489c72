//! A client by hand, for what real clients never do.

use nbd_protocol::{CommandFlags, Cookie, RequestHeader, wire};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A receive that takes this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Raw {
    pub stream: UnixStream,
}

/// One reply, simple or a single chunk.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub data: Vec<u8>,
}

impl Raw {
    pub fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// True if the server has closed the connection and nothing is left to read.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn option(&mut self, number: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes);
    }

    /// The type and the data of one reply to an option.
    pub fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let header = self.receive(20);
        let length = u32::from_be_bytes(header[16..20].try_into().unwrap());
        let kind = u32::from_be_bytes(header[12..16].try_into().unwrap());
        (kind, self.receive(usize::try_from(length).unwrap()))
    }

    pub fn greet(&mut self) {
        assert_eq!(self.receive(18), b"NBDMAGICIHAVEOPT\x00\x03");
        self.send(&3_u32.to_be_bytes());
    }

    /// `GO` on an export; the type of the last reply.
    pub fn go(&mut self, export: &str) -> u32 {
        let mut data = u32::try_from(export.len()).unwrap().to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&[0, 0]);
        self.option(wire::option::GO, &data);
        loop {
            let (kind, _) = self.option_reply();
            if kind != wire::option_reply::INFO {
                return kind;
            }
        }
    }

    /// A client in transmission, with simple replies.
    pub fn attached(path: &Path, export: &str) -> Self {
        let mut raw = Self::connect(path);
        raw.greet();
        assert_eq!(raw.go(export), wire::option_reply::ACK);
        raw
    }

    /// The same, or nothing if the server hangs up during the handshake.
    pub fn try_attached(path: &Path, export: &str) -> Option<Self> {
        let mut raw = Self::connect(path);
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"IHAVEOPT");
        bytes.extend_from_slice(&wire::option::GO.to_be_bytes());
        let name = u32::try_from(export.len()).unwrap();
        bytes.extend_from_slice(&(name + 6).to_be_bytes());
        bytes.extend_from_slice(&name.to_be_bytes());
        bytes.extend_from_slice(export.as_bytes());
        bytes.extend_from_slice(&[0, 0]);
        raw.stream.write_all(&bytes).ok()?;
        raw.stream.read_exact(&mut [0; 18]).ok()?;
        loop {
            let mut header = [0; 20];
            raw.stream.read_exact(&mut header).ok()?;
            let [.., a, b, c, d] = header;
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
            raw.stream.read_exact(&mut vec![0; length]).ok()?;
            if header[12..16] == wire::option_reply::ACK.to_be_bytes() {
                return Some(raw);
            }
        }
    }

    pub fn request(&mut self, kind: u16, flags: CommandFlags, cookie: u64, range: (u64, u32)) {
        self.send(&header(kind, flags, cookie, range));
    }

    /// One simple reply, with `data` bytes behind it if it is a success.
    pub fn reply(&mut self, data: usize) -> Reply {
        let header = self.receive(16);
        assert_eq!(header[..4], wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(header[8..16].try_into().unwrap());
        let data = self.receive(if error == 0 { data } else { 0 });
        Reply {
            cookie,
            error,
            data,
        }
    }
}

pub fn header(kind: u16, flags: CommandFlags, cookie: u64, range: (u64, u32)) -> Vec<u8> {
    let header = RequestHeader {
        flags,
        kind,
        cookie: Cookie(cookie),
        offset: range.0,
        length: range.1,
    };
    header.encode().to_vec()
}
