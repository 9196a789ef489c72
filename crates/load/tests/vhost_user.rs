//! The whole load generator against our own vhost-user front end, without daemon, VM or QEMU: a
//! disk in memory behind `vhost_user::Connection`, on a thread of its own.

#![allow(clippy::unwrap_used, reason = "tests that may stop anywhere")]

use block_io::{BufPool, Payload};
use frontend::limits::ConnectionLimits;
use frontend::{Incoming, Verb};
use load::{Address, JobOutcome, LoadError, Rates, Settings, Verify};
use ring::Ring;
use smallvec::smallvec;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use units::{Bytes, Duration};
use vhost_user::{Connection, Disk};
use workload::{Shape, Spread, SyncEvery};

const DISK_BYTES: usize = 4 << 20;

/// How the disk behaves.
#[derive(Clone, Copy, Default)]
struct Manners {
    read_only: bool,
    /// The write of this block is answered and not done.
    loses_block: Option<u64>,
    /// Every read of this block fails.
    fails_block: Option<u64>,
    /// The server hangs up after so many requests.
    hangs_up_after: Option<u64>,
}

/// A server that ends with the test.
struct Server {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(manners: Manners) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("disk.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || serve(&listener, manners, &asked));
        Self {
            socket,
            stop,
            thread: Some(thread),
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap();
        // A panic of the server is the test's, unless it is panicking already.
        if thread.join().is_err() {
            assert!(thread::panicking(), "the server does not panic");
        }
    }
}

fn serve(listener: &UnixListener, manners: Manners, stop: &AtomicBool) {
    let ring = Ring::new(64).unwrap();
    let pool = BufPool::new();
    let disk = Disk {
        name: "test".to_owned(),
        serial: "test".to_owned(),
        size: Bytes::new(DISK_BYTES as u64),
        sector: 512,
        read_only: manners.read_only,
        can_discard: true,
    };
    let mut bytes = vec![0; DISK_BYTES];
    let mut connection = None;
    let (mut incoming, mut ready) = (Vec::new(), Vec::new());
    let mut served = 0;
    while !stop.load(Ordering::Relaxed) {
        if connection.is_none()
            && let Ok((socket, _)) = listener.accept()
        {
            let limits = ConnectionLimits::default();
            let socket = OwnedFd::from(socket);
            connection = Some(Connection::new(socket, &disk, &ring, &pool, limits));
        }
        if let Some(open) = &mut connection {
            open.poll(&mut incoming);
            while let Some(Incoming { key, verb }) = incoming.pop() {
                served += 1;
                let result = answer(&mut bytes, &pool, verb, manners);
                incoming.extend(open.reply(key, result));
            }
            let is_enough = manners.hangs_up_after.is_some_and(|most| served >= most);
            if open.is_finished() || is_enough {
                connection = None;
            }
            if is_enough {
                return;
            }
        }
        ring.submit_and_wait(Some(Duration::from_millis(5)))
            .unwrap();
        ready.clear();
        ring.take_ready(&mut ready);
    }
}

fn answer(
    disk: &mut [u8],
    pool: &BufPool,
    verb: Verb,
    manners: Manners,
) -> Result<Payload, block_io::IoError> {
    match verb {
        Verb::Read { offset, .. } if manners.fails_block == Some(offset.get() / 4096) => {
            Err(block_io::IoError::Failed)
        }
        Verb::Read { offset, length } => {
            let at = offset.to_usize();
            Ok(smallvec![pool.copy_of(&disk[at..at + length.to_usize()])])
        }
        Verb::Write { offset, data, .. } => {
            if manners.loses_block != Some(offset.get() / 4096) {
                let at = offset.to_usize();
                disk[at..at + data.len()].copy_from_slice(&data);
            }
            Ok(Payload::new())
        }
        Verb::Flush | Verb::Discard { .. } | Verb::WriteZeroes { .. } => Ok(Payload::new()),
        Verb::Prefetch { .. } => unreachable!("virtio has no such request"),
    }
}

fn settings(socket: &Path, shape: Shape) -> Settings {
    Settings {
        name: "test".to_owned(),
        target: Address::VhostUser {
            socket: socket.to_owned(),
        },
        shape,
        sizes: "4k".parse().unwrap(),
        iodepth: 16,
        numjobs: 1,
        offset: 0,
        offset_increment: 0,
        size: None,
        io_size: None,
        runtime: None,
        time_based: false,
        ramp_time: Duration::ZERO,
        spread: Spread::Uniform,
        norandommap: false,
        rwmixread: 50,
        rates: Rates::default(),
        sync: None,
        verify: None,
        randseed: 3,
    }
}

const VERIFY: Option<Verify> = Some(Verify {
    interval: None,
    read_back: true,
});

fn run(settings: &Settings) -> JobOutcome {
    load::run(settings, &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .together()
}

#[test]
fn random_writes_read_back_right() {
    let server = Server::start(Manners::default());
    let writes = Settings {
        verify: VERIFY,
        sync: Some(SyncEvery {
            writes: 64,
            data_only: false,
        }),
        sizes: "4k/60:32k/40".parse().unwrap(),
        ..settings(&server.socket, Shape::RandWrite)
    };
    let outcome = run(&writes);
    let verified = outcome.verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (1024, 0));
    assert_eq!(outcome.directions[1].bytes, 4 << 20);
    assert!(outcome.syncs.times.count() > 0);
    assert!(outcome.error.is_none());
    // Another run finds what the first one left.
    let reads = Settings {
        verify: VERIFY,
        ..settings(&server.socket, Shape::Read)
    };
    let verified = run(&reads).verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (1024, 0));
}

#[test]
fn several_queues_serve_several_jobs() {
    let server = Server::start(Manners::default());
    let mixed = Settings {
        numjobs: 4,
        size: Some(1 << 20),
        offset_increment: 1 << 20,
        verify: VERIFY,
        ..settings(&server.socket, Shape::RandRw)
    };
    let outcome = run(&mixed);
    let moved: u64 = outcome.directions.iter().map(|tally| tally.bytes).sum();
    assert_eq!(moved, 4 << 20);
    assert_eq!(outcome.verified.unwrap().wrong, 0);
}

#[test]
fn a_lost_write_is_found() {
    let server = Server::start(Manners {
        loses_block: Some(77),
        ..Manners::default()
    });
    let writes = Settings {
        verify: VERIFY,
        ..settings(&server.socket, Shape::RandWrite)
    };
    let verified = run(&writes).verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (1023, 1));
    assert_eq!(verified.findings[0].offset, 77 * 4096);
}

#[test]
fn a_failed_read_ends_the_load_and_is_told_with_its_place() {
    let server = Server::start(Manners {
        fails_block: Some(512),
        ..Manners::default()
    });
    let error = run(&settings(&server.socket, Shape::Read)).error.unwrap();
    assert_eq!(
        error.to_string(),
        "a read of 4096 bytes at offset 2097152 failed"
    );
    assert_eq!(error.number(), 5);
}

#[test]
fn a_server_that_hangs_up_is_noticed() {
    let server = Server::start(Manners {
        hangs_up_after: Some(100),
        ..Manners::default()
    });
    let error = run(&settings(&server.socket, Shape::RandRead)).error;
    assert_eq!(error.unwrap().to_string(), "the target is gone");
}

#[test]
fn a_read_only_device_is_not_written() {
    let server = Server::start(Manners {
        read_only: true,
        ..Manners::default()
    });
    let writes = settings(&server.socket, Shape::Write);
    let refused = load::run(&writes, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(LoadError::Unfit { .. })));
    assert!(
        run(&settings(&server.socket, Shape::RandRead))
            .error
            .is_none()
    );
}

#[test]
fn trims_and_deep_queues_are_served() {
    let server = Server::start(Manners::default());
    let trims = Settings {
        iodepth: 341,
        ..settings(&server.socket, Shape::RandTrim)
    };
    assert_eq!(run(&trims).directions[2].times.count(), 1024);
    let deeper = Settings {
        iodepth: 342,
        ..settings(&server.socket, Shape::RandRead)
    };
    let refused = load::run(&deeper, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(LoadError::Unfit { .. })));
}

#[test]
fn nobody_there_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = settings(&folder.path().join("none.sock"), Shape::Read);
    let error = load::run(&nobody, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
}
