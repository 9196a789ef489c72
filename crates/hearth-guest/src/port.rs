//! The serial port to the host, and what is said on it.
//!
//! The port is looked at once a second and never waited for: while nobody listens at the other end a write would
//! block, and a read ends at once.

use guest_protocol::{ByteRange, Frame, Frames, Hello, Message, PADDING, Serial};
use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Ranges that the host expects to be read, and that wait: those of a read of the port.
const EXPECTED_MAX: usize = 1024;
/// How long a host that is there may take to greet: an agent that speaks first is greeted afterwards, and begins anew.
const GREETING_TIME: Duration = Duration::from_secs(1);
/// Messages that wait and are sent at one look: what the port has room for.
const SENT_AT_ONCE: usize = 8;
/// Bytes that are read at once, and at one look: the host sends a frame now and then.
const READ_BYTES: usize = 16 << 10;

/// What the agent has of the host.
pub(crate) struct Port {
    name: String,
    opened: Option<Opened>,
    /// What is still to be said.
    waiting: VecDeque<Message>,
    /// What the host expects to be read.
    expected: Vec<(Serial, ByteRange)>,
    /// Whether the host had gone when the port was waited for last.
    has_hung_up: bool,
}

struct Opened {
    file: File,
    frames: Frames,
    /// The sequence number of the next frame; none while the host does not know us.
    next: Option<u32>,
    /// From when on nobody is waited for to speak first.
    speaks_at: Instant,
}

impl Port {
    /// The port of this name, which need not be there.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            opened: None,
            waiting: VecDeque::new(),
            expected: Vec::new(),
            has_hung_up: false,
        }
    }

    /// Opens the port if it is there now; reads what the host says, and answers it. Whether the host has heard us
    /// for the first time.
    pub(crate) fn look(&mut self) -> bool {
        if self.opened.is_none() {
            self.opened = find(&self.name).and_then(|path| Opened::open(&path).ok());
        }
        let Some(opened) = &mut self.opened else {
            return false;
        };
        let looked = opened.look(&mut self.expected);
        if looked.is_err() {
            // The port was unplugged; it may come back under another number.
            self.opened = None;
        }
        let is_new = looked.unwrap_or(true);
        if is_new {
            self.waiting.clear();
        }
        self.send_waiting();
        is_new && self.opened.is_some()
    }

    /// Says what is known of ranges of the disks, a little at each look; if it `begins_anew`, in place of what was said before.
    pub(crate) fn tell_ranges(&mut self, classes: Vec<Message>, begins_anew: bool) {
        // A new beginning that waits is still to be said.
        let begins_anew = begins_anew || matches!(self.waiting.front(), Some(Message::Hello(_)));
        self.waiting.clear();
        if begins_anew {
            self.waiting.push_back(Message::Hello(hello()));
        }
        self.waiting.extend(classes);
        self.send_waiting();
    }

    /// What the host expects to be read since this was asked.
    pub(crate) fn take_expected(&mut self) -> Vec<(Serial, ByteRange)> {
        std::mem::take(&mut self.expected)
    }

    /// The port, to wait until the host says something; none while there is no host: then waiting would end at once.
    pub(crate) fn awaited(&mut self) -> Option<&File> {
        let has_hung_up = std::mem::take(&mut self.has_hung_up);
        let opened = self.opened.as_ref();
        opened
            .filter(|opened| opened.next.is_some() && !has_hung_up)
            .map(|opened| &opened.file)
    }

    /// Waiting for the port has ended since the host is gone.
    pub(crate) fn hung_up(&mut self) {
        self.has_hung_up = true;
    }

    fn send_waiting(&mut self) {
        let Some(opened) = &mut self.opened else {
            return;
        };
        for _ in 0..SENT_AT_ONCE {
            if opened.next.is_none() {
                return;
            }
            let Some(message) = self.waiting.pop_front() else {
                return;
            };
            opened.send(&[], message);
        }
    }

    /// Whether the host has heard us.
    pub(crate) fn is_heard(&self) -> bool {
        let opened = self.opened.as_ref();
        opened.is_some_and(|opened| opened.next.is_some())
    }

    /// Says something, if the host listens.
    pub(crate) fn tell(&mut self, message: Message) {
        if let Some(opened) = &mut self.opened
            && opened.next.is_some()
        {
            opened.send(&[], message);
        }
    }
}

impl Opened {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(path)?;
        Ok(Self {
            file,
            frames: Frames::new(),
            next: None,
            speaks_at: Instant::now() + GREETING_TIME,
        })
    }

    fn look(&mut self, expected: &mut Vec<(Serial, ByteRange)>) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        let bytes = match self.file.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.frames.push(&buffer[..bytes]);
        while let Some(next) = self.frames.take() {
            match next.and_then(Message::decode) {
                // The daemon was started anew, or is another host's: it does not know us.
                Ok(Message::Hello(_)) => {
                    self.next = None;
                    self.speaks_at = Instant::now();
                }
                // It is looked at before it expires.
                Ok(Message::ReadAhead { serial, ranges, .. }) => {
                    let room = EXPECTED_MAX.saturating_sub(expected.len());
                    expected.extend(ranges.into_iter().take(room).map(|range| (serial, range)));
                }
                Ok(_) | Err(_) => {}
            }
        }
        if self.next.is_some() || Instant::now() < self.speaks_at {
            return Ok(false);
        }
        self.send(&PADDING, Message::Hello(hello()));
        Ok(self.next.is_some())
    }

    fn send(&mut self, before: &[u8], message: Message) {
        let sequence = self.next.unwrap_or(0);
        let mut bytes = before.to_vec();
        Frame { sequence, message }.encode(&mut bytes);
        // A frame that is torn, or that nobody takes, is no loss: the next thing said is a new Hello.
        let is_sent = matches!(self.file.write(&bytes), Ok(sent) if sent == bytes.len());
        self.next = is_sent.then(|| sequence.wrapping_add(1));
    }
}

fn hello() -> Hello {
    Hello {
        boot: boot(),
        disks: disks(),
    }
}

/// The device of the port of this name.
fn find(name: &str) -> Option<PathBuf> {
    let ports = std::fs::read_dir("/sys/class/virtio-ports").ok()?;
    let is_it = |folder: &PathBuf| {
        let found = std::fs::read_to_string(folder.join("name"));
        found.is_ok_and(|found| found.trim_end() == name)
    };
    let mut folders = ports.flatten().map(|entry| entry.path());
    let folder = folders.find(is_it)?;
    Some(Path::new("/dev").join(folder.file_name()?))
}

/// The id of this boot.
fn boot() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim_end().replace('-', ""), 16).unwrap_or(0)
}

/// The disks that have serial numbers.
fn disks() -> Vec<Serial> {
    let folders = std::fs::read_dir("/sys/block").into_iter().flatten();
    let serials = folders.flatten().filter_map(|entry| {
        let text = std::fs::read_to_string(entry.path().join("serial")).ok()?;
        text.trim_end().parse().ok()
    });
    let mut serials: Vec<Serial> = serials.collect();
    serials.sort_unstable();
    serials.dedup();
    serials.truncate(guest_protocol::DISKS_MAX);
    serials
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_an_id() {
        assert_ne!(boot(), 0);
    }
}
