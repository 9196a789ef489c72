//! The cable between two hosts: a relay on the loopback that can be cut, and mended.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

/// A cable. Dropping it cuts it for good.
pub struct Wire {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_cut: AtomicBool,
    has_ended: AtomicBool,
    /// What goes to the end with this place is kept back.
    is_held: [AtomicBool; 2],
    passed: [AtomicU64; 2],
    streams: Mutex<(u64, BTreeMap<u64, [TcpStream; 2]>)>,
}

/// Where hosts listen for each other. Connections begin at 127.0.0.1, and none has the port of a host that is not up.
pub(crate) const HOSTS: &str = "127.0.0.2";

/// Between two looks of a relay whether it may go on.
const PAUSE: Duration = Duration::from_millis(2);

impl Wire {
    /// A cable between two places of the loopback. The second ports are where each is reached through it.
    ///
    /// # Errors
    ///
    /// When there are no ports.
    pub fn new(ends: [u16; 2]) -> anyhow::Result<(Self, [u16; 2])> {
        let shared = Arc::new(Shared::default());
        let mut ports = [0; 2];
        for (place, end) in ends.into_iter().enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").context("a cable's end")?;
            ports[place] = listener.local_addr()?.port();
            listener.set_nonblocking(true)?;
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.accept(&listener, place, end));
        }
        Ok((Self { shared }, ports))
    }

    /// Cuts it: what is on it is lost, and both ends see their connections end.
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
        let streams = self.shared.streams.lock();
        let mut streams = streams.unwrap_or_else(PoisonError::into_inner);
        for (_, pair) in std::mem::take(&mut streams.1) {
            for stream in pair {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Mends it: connections pass again.
    pub fn mend(&self) {
        for held in &self.shared.is_held {
            held.store(false, Ordering::SeqCst);
        }
        self.shared.is_cut.store(false, Ordering::SeqCst);
    }

    /// Keeps back what goes to the end with this place, until it is mended, or cut.
    pub fn hold(&self, place: usize) {
        self.shared.is_held[place].store(true, Ordering::SeqCst);
    }

    /// Bytes that have come to the end with this place so far.
    pub fn passed(&self, place: usize) -> u64 {
        self.shared.passed[place].load(Ordering::SeqCst)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.cut();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener, place: usize, end: u16) {
        while !self.has_ended.load(Ordering::SeqCst) {
            let Ok((here, _)) = listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            // One that is dropped has met a cable that is cut, or a host that is down.
            let _ = self.relay(here, place, end);
        }
    }

    fn relay(self: &Arc<Self>, here: TcpStream, place: usize, end: u16) -> std::io::Result<()> {
        here.set_nonblocking(false)?;
        let there = TcpStream::connect((HOSTS, end))?;
        // As both ends do: the cable delays nothing.
        here.set_nodelay(true)?;
        there.set_nodelay(true)?;
        let (mut from_here, mut to_here) = (here.try_clone()?, here.try_clone()?);
        let (mut from_there, mut to_there) = (there.try_clone()?, there.try_clone()?);
        let number = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_cut.load(Ordering::SeqCst) {
                return Ok(());
            }
            streams.0 += 1;
            let number = streams.0;
            streams.1.insert(number, [here, there]);
            number
        };
        let (one, other) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || one.pass(&mut from_here, &mut to_there, place, number));
        std::thread::spawn(move || other.pass(&mut from_there, &mut to_here, 1 - place, number));
        Ok(())
    }

    fn pass(&self, from: &mut TcpStream, to: &mut TcpStream, place: usize, number: u64) {
        let mut piece = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            while self.is_held[place].load(Ordering::SeqCst) && !self.is_cut.load(Ordering::SeqCst)
            {
                std::thread::sleep(PAUSE);
            }
            if self.is_cut.load(Ordering::SeqCst) || to.write_all(&piece[..count]).is_err() {
                break;
            }
            self.passed[place].fetch_add(count as u64, Ordering::SeqCst);
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.1.remove(&number);
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
