//! One connection of a VM's QEMU on the channel of its guest, and what the guest says over it.
//!
//! The guest is hostile: what it costs is bounded by the protocol's quota and by a pause after each read, however
//! it cuts its bytes. What it says changes what is shown of it, and nothing else.

use super::guest_hints::{Expected, GuestHints};
use super::guest_peers::Peers;
use api::guests::{GuestFrames, GuestHints as Hints, GuestMemory, GuestPeers, GuestStatus};
use guest_protocol::{
    ByteRange, Counts, Frame, Hello, Memory, Message, PADDING, Quota, Receiver, Serial,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;

/// Bytes that are read at once.
const READ_BYTES: u64 = 16 << 10;
/// From when on it is no use to read ahead what the daemon expects.
const EXPIRES: units::Duration = units::Duration::from_secs(2);
/// Pause after each read, so that bytes which come one by one cost no more than those that come together.
const READ_PAUSE: Duration = Duration::from_millis(10);

/// What is known of a guest. Shared by its connection and those who ask.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    is_connected: bool,
    process: Option<i32>,
    hello: Option<Hello>,
    memory: Option<(Instant, Memory)>,
    /// Of this connection.
    counts: Counts,
    /// Of those before it.
    before: Counts,
    /// Ranges that were too many, or of no disk of the VM.
    refused_ranges: u64,
    /// Whom the guest speaks with; none if that is not kept.
    peers: Option<Peers>,
}

impl Said {
    fn take(&mut self, message: &Message) {
        match message {
            Message::Hello(hello) => {
                self.hello = Some(hello.clone());
                self.refused_ranges = 0;
            }
            Message::Memory(memory) => self.memory = Some((Instant::now(), *memory)),
            Message::Sockets(sockets) => {
                if let Some(peers) = &mut self.peers {
                    peers.take(Instant::now(), sockets);
                }
            }
            // Shards are told of some; they are counted as every message is.
            Message::Classes { .. } | Message::ReadAhead { .. } | Message::Used(_) => {}
        }
    }

    fn end(&mut self) {
        let before = self.before.and(self.counts);
        *self = Self {
            before,
            // What the guest has said holds until it says something else, or its disks leave.
            refused_ranges: self.refused_ranges,
            peers: self.peers.is_some().then(Peers::default),
            ..Self::default()
        };
    }
}

impl Heard {
    /// Nothing was said yet; whether it will be kept whom the guest speaks with.
    pub(super) fn new(keeps_peers: bool) -> Self {
        Self(Mutex::new(Said {
            peers: keeps_peers.then(Peers::default),
            ..Said::default()
        }))
    }

    /// Whom the guest speaks with; none if that is not kept.
    pub(super) fn peers(&self) -> Option<GuestPeers> {
        self.lock().peers.as_ref().map(Peers::shown)
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        // A panic elsewhere leaves what was said whole: every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the API tells it.
    pub(super) fn shown(&self, socket: String, error: Option<String>) -> GuestStatus {
        let said = self.lock();
        let counts = said.before.and(said.counts);
        let hello = said.hello.as_ref();
        GuestStatus {
            socket,
            error,
            process: said.process.filter(|_| said.is_connected),
            boot: hello.map(|hello| uuid(hello.boot)),
            disks: hello.map_or_else(Vec::new, |hello| {
                hello.disks.iter().map(ToString::to_string).collect()
            }),
            memory: said.memory.map(|(at, memory)| GuestMemory {
                available_bytes: memory.available_bytes,
                cache_bytes: memory.cache_bytes,
                pressure_percent: f64::from(memory.pressure_hundredths) / 100.0,
                age_seconds: at.elapsed().as_secs_f64(),
            }),
            frames: GuestFrames {
                messages: counts.messages,
                dropped: counts.dropped,
                invalid: counts.invalid,
                missed: counts.missed,
                skipped_bytes: counts.skipped_bytes,
            },
            hints: Hints {
                refused_ranges: said.refused_ranges,
                ..Hints::default()
            },
            traffic: said.peers.as_ref().and_then(Peers::traffic),
        }
    }
}

/// A boot's id as the kernel writes it.
fn uuid(id: u128) -> String {
    let digits = format!("{id:032x}");
    let cuts = [0..8, 8..12, 12..16, 16..20, 20..32];
    cuts.map(|cut| digits[cut].to_owned()).join("-")
}

/// Greets the agent and takes what it says, until the connection ends.
pub(super) async fn serve(
    stream: UnixStream,
    heard: Arc<Heard>,
    hello: Hello,
    hints: &mut GuestHints,
) {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
    {
        let mut said = heard.lock();
        said.is_connected = true;
        said.process = process;
    }
    // Whatever ends it, the guest may connect again at once.
    let _ = listen(&stream, &heard, hello, hints).await;
    hints.end().await;
    heard.lock().end();
}

async fn listen(
    stream: &UnixStream,
    heard: &Heard,
    hello: Hello,
    hints: &mut GuestHints,
) -> io::Result<()> {
    let began = Instant::now();
    let now = || {
        let passed = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        units::Instant::from_nanos(passed)
    };
    greet(stream, hello).await?;
    let mut sequence = 1;
    let mut receiver = Receiver::new(now());
    let mut buffer = vec![0; usize::try_from(READ_BYTES).unwrap_or(usize::MAX)];
    loop {
        tokio::select! {
            readable = stream.readable() => readable?,
            expected = hints.expected() => {
                tell(stream, &mut sequence, expected)?;
                tokio::time::sleep(READ_PAUSE).await;
                continue;
            }
        }
        let allowed = receiver.allowance(now()).min(READ_BYTES);
        if allowed == 0 {
            tokio::time::sleep(Quota::pause().to_std()).await;
            continue;
        }
        let allowed = usize::try_from(allowed).unwrap_or(buffer.len());
        match stream.try_read(&mut buffer[..allowed]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                let mut messages = Vec::new();
                receiver.receive(&buffer[..bytes], |message| messages.push(message));
                {
                    let mut said = heard.lock();
                    for message in &messages {
                        said.take(message);
                    }
                    said.counts = receiver.counts();
                }
                for message in messages {
                    let refused = hints.tell(message).await;
                    heard.lock().refused_ranges += refused;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
}

/// Tells a guest what will be read, a frame for each of its disks. What the socket does not take at once is not told.
fn tell(stream: &UnixStream, sequence: &mut u32, expected: Vec<Expected>) -> io::Result<()> {
    let mut of_disks: BTreeMap<Serial, Vec<ByteRange>> = BTreeMap::new();
    for (serial, range) in expected {
        of_disks.entry(serial).or_default().push(range);
    }
    for (serial, ranges) in of_disks {
        let message = Message::ReadAhead {
            serial,
            expires: EXPIRES,
            ranges,
        };
        let mut bytes = Vec::new();
        Frame {
            sequence: *sequence,
            message,
        }
        .encode(&mut bytes);
        match stream.try_write(&bytes) {
            Ok(written) if written == bytes.len() => *sequence = sequence.wrapping_add(1),
            // The rest of a frame would be missing.
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The first frame. It fits into the buffer of a socket that is new: one that does not take it whole is given up.
async fn greet(stream: &UnixStream, hello: Hello) -> io::Result<()> {
    let mut bytes = PADDING.to_vec();
    let frame = Frame {
        sequence: 0,
        message: Message::Hello(hello),
    };
    frame.encode(&mut bytes);
    // Until the runtime has looked at the socket no attempt succeeds, though it is writable from the start.
    stream.writable().await?;
    match stream.try_write(&bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) => Err(error),
    }
}

/// The greeting of a daemon that has this id to a VM with these disks.
pub(super) fn hello(boot: u128, serials: impl IntoIterator<Item = String>) -> Hello {
    let serials = serials.into_iter().filter_map(|serial| serial.parse().ok());
    let disks: Vec<Serial> = serials.take(guest_protocol::DISKS_MAX).collect();
    Hello { boot, disks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn pair() -> (UnixStream, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (UnixStream::from_std(ours).unwrap(), theirs)
    }

    /// Of a VM whose disks are gone.
    async fn served(stream: UnixStream, heard: Arc<Heard>, hello: Hello) {
        let mut hints = GuestHints::new("web".parse().unwrap(), Arc::default(), Arc::default());
        serve(stream, heard, hello, &mut hints).await;
    }

    async fn until(heard: &Heard, is_so: impl Fn(&GuestStatus) -> bool) -> GuestStatus {
        let began = Instant::now();
        loop {
            let shown = heard.shown("s".to_owned(), None);
            if is_so(&shown) {
                return shown;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{shown:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn memory(sequence: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let message = Message::Memory(Memory {
            available_bytes: 1 << 20,
            cache_bytes: 2 << 20,
            pressure_hundredths: 150,
        });
        Frame { sequence, message }.encode(&mut bytes);
        bytes
    }

    #[tokio::test]
    async fn a_guest_is_greeted_and_what_it_says_is_shown_while_it_is_there() {
        let heard = Arc::new(Heard::default());
        let (ours, mut agent) = pair();
        let greeting = hello(9, ["web-1".to_owned(), "no serial".to_owned()]);
        let serving = tokio::spawn(served(ours, Arc::clone(&heard), greeting.clone()));
        agent.write_all(&memory(0)).unwrap();
        let shown = until(&heard, |shown| shown.memory.is_some()).await;
        assert_eq!(shown.process, i32::try_from(std::process::id()).ok());
        assert!((shown.memory.unwrap().pressure_percent - 1.5).abs() < 1e-9);
        let mut bytes = vec![0; PADDING.len() + 16 + 20 + 20];
        agent.read_exact(&mut bytes).unwrap();
        let mut frames = guest_protocol::Frames::new();
        frames.push(&bytes[..PADDING.len()]);
        assert_eq!(frames.take(), None);
        frames.push(&bytes[PADDING.len()..]);
        let said = frames.take().unwrap().and_then(Message::decode);
        assert_eq!(said, Ok(Message::Hello(greeting)));
        drop(agent);
        serving.await.unwrap();
        let shown = heard.shown("s".to_owned(), None);
        assert_eq!((shown.process, shown.memory), (None, None));
        assert_eq!(shown.frames.messages, 1, "counts stay");
    }

    fn sockets(sequence: u32, bytes: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let message = Message::Sockets(vec![guest_protocol::Socket {
            peer: "::ffff:10.0.0.2".parse().unwrap(),
            bytes,
        }]);
        Frame { sequence, message }.encode(&mut frame);
        frame
    }

    #[tokio::test]
    async fn whom_a_guest_speaks_with_is_kept_if_the_configuration_says_so_and_while_it_is_there() {
        for keeps in [true, false] {
            let heard = Arc::new(Heard::new(keeps));
            let (ours, mut agent) = pair();
            let serving = tokio::spawn(served(ours, Arc::clone(&heard), hello(0, [])));
            agent
                .write_all(&[sockets(0, 5), sockets(1, 7)].concat())
                .unwrap();
            let shown = until(&heard, |shown| shown.frames.messages == 2).await;
            let bytes = shown.traffic.map(|traffic| traffic.bytes);
            assert_eq!(bytes, keeps.then_some(7));
            let peers = heard.peers().map(|peers| peers.peers.len());
            assert_eq!(peers, keeps.then_some(1));
            drop(agent);
            serving.await.unwrap();
            let left = heard
                .peers()
                .map(|peers| (peers.traffic, peers.peers.len()));
            assert_eq!(left, keeps.then_some((None, 0)));
        }
    }

    /// Bytes that come one by one: each read is followed by a pause, so there are few of them.
    #[tokio::test]
    async fn a_flood_is_dropped_beyond_the_quota() {
        let heard = Arc::new(Heard::default());
        let (ours, mut agent) = pair();
        tokio::spawn(served(ours, Arc::clone(&heard), hello(0, [])));
        let flood: Vec<u8> = (0..2000).flat_map(memory).collect();
        let writing = tokio::task::spawn_blocking(move || agent.write_all(&flood).map(|()| agent));
        let shown = until(&heard, |shown| {
            shown.frames.messages + shown.frames.dropped == 2000
        });
        let shown = shown.await;
        assert!(shown.frames.dropped >= 1000, "{shown:?}");
        drop(writing.await.unwrap().unwrap());
    }

    #[test]
    fn a_boot_is_written_as_the_kernel_does() {
        let id = 0x7c1f_2a6e_9a4b_4a63_8f6e_2f4a_1d0c_9b11;
        assert_eq!(uuid(id), "7c1f2a6e-9a4b-4a63-8f6e-2f4a1d0c9b11");
    }
}
