//! A shard on real files, and a small NBD client to talk to it.

#![allow(dead_code, reason = "each test uses a part of it")]

use frontend::limits::ConnectionLimits;
use nbd_server::{Admission, Negotiated, Terms, export};
use origin::{FileSpec, OriginSpec};
use shard::{
    Attached, DiskSpec, Folders, OwnerFile, Reply, Shard, ShardConfig, ShardError, ShardHandle,
    ShardStatus,
};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use units::{Bytes, DiskId};

pub(crate) const FLASH: Bytes = Bytes::mib(64);
pub(crate) const DISK: Bytes = Bytes::mib(16);
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A folder with formatted flash, a state folder and an origin of random bytes.
pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
    /// What the origin should hold.
    pub(crate) expected: Vec<u8>,
    /// Flash elsewhere than in the folder.
    pub(crate) flash: Option<PathBuf>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let mut expected = vec![0; DISK.to_usize()];
        units::Prng::new(7).fill(&mut expected);
        let lab = Self {
            folder,
            expected,
            flash: None,
        };
        std::fs::write(lab.origin_path(), &lab.expected).unwrap();
        lab.format(1);
        lab
    }

    pub(crate) fn format(&self, uuid: u128) {
        let file = std::fs::File::create(self.flash_path()).unwrap();
        file.set_len(FLASH.get()).unwrap();
        let options = cache::FormatOptions::new(FLASH, uuid);
        for (offset, bytes) in cache::format(&options).unwrap() {
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, offset.get()).unwrap();
        }
        file.sync_all().unwrap();
    }

    pub(crate) fn flash_path(&self) -> PathBuf {
        let own = || self.folder.path().join("flash");
        self.flash.clone().unwrap_or_else(own)
    }

    pub(crate) fn origin_path(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    pub(crate) fn config(&self) -> ShardConfig {
        ShardConfig {
            name: "main".to_owned(),
            flash: self.flash_path(),
            state_dir: self.folder.path().join("state"),
            runtime_dir: self.folder.path().join("state"),
            cache: cache::Config {
                write_delay: units::Duration::from_millis(20),
                trust_delay: units::Duration::from_millis(100),
                ..cache::Config::default()
            },
            connection: ConnectionLimits::default(),
            request_memory: Bytes::gib(1),
            connections_per_disk_max: 4,
            lend_timeout: units::Duration::from_millis(200),
        }
    }

    pub(crate) fn spawn(&self) -> ShardHandle {
        Shard::spawn(self.config()).unwrap()
    }

    #[allow(clippy::unused_self, reason = "it reads as the lab's disk")]
    pub(crate) fn spec(&self) -> DiskSpec {
        DiskSpec {
            name: "vm1".to_owned(),
            id: DiskId::from_u128(1),
            size: Some(DISK),
            policy: cache::WritePolicy::Through,
            write_back: cache::WriteBack::default(),
            limits: throttle::Limits::default(),
            owner: self.owner(),
            owned_by: self.owner().load().unwrap().map(|owner| owner.record),
            read_only: false,
            tenant: "vm1".to_owned(),
            shared: false,
            key: None,
            tenure: cache::Tenure::Owner,
        }
    }

    pub(crate) fn owner(&self) -> OwnerFile {
        let id = DiskId::from_u128(1);
        let folders = Folders::alone(&self.config().state_dir);
        OwnerFile::new(id, &self.origin(), &folders, "main")
    }

    pub(crate) fn origin(&self) -> OriginSpec {
        file_origin(&self.origin_path())
    }

    /// Attaches the disk and connects a client to it.
    pub(crate) fn attach(&self, shard: &ShardHandle) -> (Attached, Guest) {
        let opened = origin::open(&self.origin(), false).unwrap();
        let attached = ask(|reply| shard.attach(self.spec(), opened, reply)).unwrap();
        let guest = connect(shard, self.spec().id).unwrap();
        (attached, guest)
    }
}

pub(crate) fn file_origin(path: &Path) -> OriginSpec {
    OriginSpec::File(FileSpec::new(path.to_owned()))
}

/// Waits for the answer to a command.
pub(crate) fn ask<T: Send + 'static>(command: impl FnOnce(Reply<T>)) -> Result<T, ShardError> {
    let (tell, told) = mpsc::channel();
    command(Box::new(move |result| {
        let _nobody_waits = tell.send(result);
    }));
    told.recv_timeout(PATIENCE).expect("an answer in time")
}

pub(crate) fn status(shard: &ShardHandle) -> ShardStatus {
    ask(|reply| shard.status(reply)).unwrap()
}

/// Polls the shard's status until it is as wanted.
pub(crate) fn until(shard: &ShardHandle, wanted: impl Fn(&ShardStatus) -> bool) -> ShardStatus {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let status = status(shard);
        if wanted(&status) {
            return status;
        }
        assert!(std::time::Instant::now() < deadline, "{status:#?}");
        std::thread::yield_now();
    }
}

pub(crate) fn stop(shard: ShardHandle) {
    ask(|reply| shard.stop(reply)).unwrap();
    drop(shard);
}

pub(crate) fn connect(shard: &ShardHandle, disk: DiskId) -> Result<Guest, ShardError> {
    connect_as(shard, disk, None)
}

/// Connects a client of a shared disk.
pub(crate) fn connect_as(
    shard: &ShardHandle,
    disk: DiskId,
    vm: Option<&str>,
) -> Result<Guest, ShardError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let negotiated = Negotiated {
        socket: theirs.into(),
        leftover: Vec::new(),
        export: "vm1".to_owned(),
        terms: Terms {
            export: export(DISK, false, true),
            structured: false,
            base_allocation: false,
        },
        admission: Admission::uncounted(),
    };
    ask(|reply| shard.connect(disk, Box::new(negotiated), vm.map(str::to_owned), reply))?;
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    Ok(Guest {
        socket: ours,
        cookie: 0,
    })
}

pub(crate) const FUA: u16 = 1;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

/// An NBD client in its transmission phase: simple replies, one request at a time unless the
/// test sends and receives apart.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) socket: UnixStream,
    cookie: u64,
}

impl Guest {
    pub(crate) fn send(&mut self, flags: u16, kind: u16, offset: u64, length: u32) -> u64 {
        self.cookie += 1;
        let mut request = Vec::with_capacity(28);
        request.extend(0x2560_9513_u32.to_be_bytes());
        request.extend(flags.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        self.socket.write_all(&request).unwrap();
        self.cookie
    }

    /// The next reply: its cookie and error number.
    pub(crate) fn receive(&mut self) -> std::io::Result<(u64, u32)> {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply)?;
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        let errno = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap());
        Ok((cookie, errno))
    }

    pub(crate) fn send_read(&mut self, offset: u64, length: u32) -> u64 {
        self.send(0, READ, offset, length)
    }

    pub(crate) fn try_read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        let cookie = self.send_read(offset, length);
        let (answered, errno) = self.receive().unwrap();
        assert_eq!(answered, cookie);
        if errno != 0 {
            return Err(errno);
        }
        Ok(self.receive_data(length))
    }

    pub(crate) fn receive_data(&mut self, length: u32) -> Vec<u8> {
        let mut data = vec![0; length as usize];
        self.socket.read_exact(&mut data).unwrap();
        data
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.try_read(offset, length).unwrap()
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        let length = u32::try_from(data.len()).unwrap();
        let cookie = self.send(flags, WRITE, offset, length);
        self.socket.write_all(data).unwrap();
        self.word(cookie)
    }

    pub(crate) fn flush(&mut self) -> u32 {
        let cookie = self.send(0, FLUSH, 0, 0);
        self.word(cookie)
    }

    pub(crate) fn trim(&mut self, offset: u64, length: u32, flags: u16) -> u32 {
        let cookie = self.send(flags, TRIM, offset, length);
        self.word(cookie)
    }

    pub(crate) fn zero(&mut self, offset: u64, length: u32) -> u32 {
        let cookie = self.send(0, WRITE_ZEROES, offset, length);
        self.word(cookie)
    }

    pub(crate) fn disconnect(mut self) {
        self.send(0, DISCONNECT, 0, 0);
        let end = self.socket.read(&mut [0; 1]).unwrap();
        assert_eq!(end, 0, "the server closes after a disconnect");
    }

    fn word(&mut self, cookie: u64) -> u32 {
        let (answered, errno) = self.receive().unwrap();
        assert_eq!(answered, cookie);
        errno
    }
}

/// Reads the whole disk and compares it.
pub(crate) fn verify(guest: &mut Guest, expected: &[u8]) {
    let step = 256 << 10;
    for offset in (0..expected.len()).step_by(step) {
        let data = guest.read(offset as u64, u32::try_from(step).unwrap());
        assert!(
            data == expected[offset..offset + step],
            "wrong bytes near {offset}"
        );
    }
}
