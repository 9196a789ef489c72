//! A relay before a server on a unix socket: its connections can be cut, and the server is not told why.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

/// Bytes that are passed at a time.
const PIECE: usize = 64 << 10;

type Ends = Arc<Mutex<Vec<UnixStream>>>;

/// A relay; it ends with its test.
pub struct Relay {
    socket: PathBuf,
    ends: Ends,
}

impl Relay {
    /// Listens at `socket`, and passes everything to `server` and back.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn start(socket: PathBuf, server: PathBuf) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(&socket).context("a relay")?;
        let ends = Ends::default();
        let known = Arc::clone(&ends);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client whose server is away sees its connection end.
                let Ok(behind) = UnixStream::connect(&server) else {
                    continue;
                };
                let copies = (client.try_clone(), behind.try_clone());
                let (Ok(client_too), Ok(behind_too)) = copies else {
                    continue;
                };
                let both = [&client, &behind].into_iter();
                let both = both.filter_map(|end| end.try_clone().ok());
                known
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(both);
                std::thread::spawn(move || pass(client, &behind));
                std::thread::spawn(move || pass(behind_too, &client_too));
            }
        });
        Ok(Self { socket, ends })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends all connections; new ones are taken.
    pub fn cut(&self) {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ends {
            // One that has ended needs no word.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: UnixStream, mut to: &UnixStream) {
    let mut bytes = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other way may have something left to say.
    let _ = to.shutdown(Shutdown::Write);
}
