//! The link between two sites: connections that share so many bytes a second.
//!
//! QEMU lifts its own limit when a guest has stopped, and sends what is left as fast as it goes. A link does not get
//! faster then, so the limit of the link is here, and QEMU's `max-bandwidth` only says who has which part of it.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use groups::Rate;
use units::number::real;

/// Bytes that pass at a time. Connections that are waiting take turns with them.
const PIECE: usize = 32 << 10;

/// How far the link may lag behind its rate, and make up for it, because a thread woke late.
const LAG: Duration = Duration::from_millis(10);

/// A link; connections through it end with the test.
pub(super) struct Bottleneck {
    pace: Arc<Pace>,
}

struct Pace {
    rate: Rate,
    free_at: Mutex<Instant>,
}

impl Bottleneck {
    /// A link of so many bytes a second.
    pub(super) fn new(rate: Rate) -> Self {
        let free_at = Mutex::new(Instant::now());
        Self {
            pace: Arc::new(Pace { rate, free_at }),
        }
    }

    /// Listens at `socket`, and passes what its one connection says to `server`.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub(super) fn lead(&self, socket: &Path, server: PathBuf) -> anyhow::Result<()> {
        let listener = UnixListener::bind(socket).context("the near end of a link")?;
        let pace = Arc::clone(&self.pace);
        std::thread::spawn(move || {
            if let (Ok((from, _)), Ok(to)) = (listener.accept(), UnixStream::connect(server)) {
                pace.pass(from, &to);
            }
        });
        Ok(())
    }
}

impl Pace {
    fn pass(&self, mut from: UnixStream, mut to: &UnixStream) {
        let mut bytes = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            self.wait_for(count as u64);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // A far end that has gone needs no word.
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Waits until so many bytes have had their time on the link.
    fn wait_for(&self, bytes: u64) {
        let takes = Duration::from_secs_f64(real(bytes) / self.rate.bytes_per_second());
        let now = Instant::now();
        let through = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = now
                .checked_sub(LAG)
                .map_or(now, |early| early.max(*free_at))
                + takes;
            *free_at
        };
        std::thread::sleep(through.saturating_duration_since(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_rate_of_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let said = vec![7; 400_000];
        let link = Bottleneck::new(Rate::new(8e6).unwrap());
        let began = Instant::now();
        let ends: Vec<_> = (0..2)
            .map(|number| {
                let [near, far] =
                    ["near", "far"].map(|end| folder.path().join(format!("{end}{number}")));
                let said = said.clone();
                let server = UnixListener::bind(&far).unwrap();
                link.lead(&near, far).unwrap();
                std::thread::spawn(move || {
                    UnixStream::connect(near).unwrap().write_all(&said).unwrap();
                    let mut came = Vec::new();
                    server.accept().unwrap().0.read_to_end(&mut came).unwrap();
                    came
                })
            })
            .collect();
        for end in ends {
            assert_eq!(end.join().unwrap(), said);
        }
        assert!(began.elapsed() >= Duration::from_millis(90));
    }
}
