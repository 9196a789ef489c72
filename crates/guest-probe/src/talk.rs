//! The `listen` and `talk` steps: bytes over TCP at a steady rate, so that somebody else can count them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::{Doing as _, ProbeError, Verdict, say};
use crate::step::Step;

/// How long the other guest may take to listen.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are read or written at once.
const PIECE_BYTES: usize = 16 << 10;

/// `listen`: takes what comes over a number of connections, one after the other.
pub(crate) fn listen(step: &Step) -> Result<Verdict, ProbeError> {
    let port = step.number_or("port", 7000)?;
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).doing("a port")?;
    say("listening");
    let mut piece = vec![0; PIECE_BYTES];
    for number in 1..=step.number_or("connections", 1)? {
        let (mut stream, _) = listener.accept().doing("a connection")?;
        let mut bytes = 0_u64;
        loop {
            let read = stream.read(&mut piece).doing("bytes")?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
        }
        say(&format!("heard connection={number} bytes={bytes}"));
    }
    Ok(Verdict::Pass)
}

/// `talk`: sends bytes at a rate over one connection, or over a new one for each piece.
pub(crate) fn talk(step: &Step) -> Result<Verdict, ProbeError> {
    let to = step.path("to")?;
    let bytes_a_second = step.number_or("kib_a_second", 256)? << 10;
    let each_bytes = step.number_or("each_kib", u64::MAX >> 10)? << 10;
    let total = step
        .number_or("seconds", 10)?
        .saturating_mul(bytes_a_second);
    let piece = vec![7; PIECE_BYTES];
    let mut stream = connect(&to)?;
    let (began, mut sent, mut connections) = (Instant::now(), 0, 1);
    let mut left = each_bytes;
    say("talking");
    while sent < total {
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = (elapsed_ms.saturating_mul(bytes_a_second) / 1000).min(total);
        while sent < due {
            if left == 0 {
                drop(stream);
                stream = connect(&to)?;
                (left, connections) = (each_bytes, connections + 1);
            }
            let bytes = (due - sent).min(left).min(PIECE_BYTES as u64);
            let length = usize::try_from(bytes).unwrap_or(PIECE_BYTES);
            stream.write_all(&piece[..length]).doing("sending")?;
            (sent, left) = (sent + bytes, left - bytes);
        }
        thread::sleep(PAUSE);
    }
    let ms = began.elapsed().as_millis();
    say(&format!(
        "talked bytes={sent} connections={connections} ms={ms}"
    ));
    Ok(Verdict::Pass)
}

/// Connects once the other end is there and listens.
fn connect(to: &Path) -> Result<TcpStream, ProbeError> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(to.display().to_string()) {
            Err(error)
                if began.elapsed() < PATIENCE
                    && matches!(
                        error.kind(),
                        ErrorKind::ConnectionRefused
                            | ErrorKind::HostUnreachable
                            | ErrorKind::TimedOut
                    ) =>
            {
                thread::sleep(Duration::from_millis(200));
            }
            connected => return connected.doing("connecting"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_sends_the_other_hears() {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let heard = Step::parse(&format!("listen,port={port},connections=4")).unwrap();
        let heard = thread::spawn(move || listen(&heard).is_ok());
        let text = format!("talk,to=127.0.0.1:{port},kib_a_second=64,seconds=1,each_kib=16");
        let said = talk(&Step::parse(&text).unwrap());
        assert!(said.is_ok());
        assert!(heard.join().unwrap());
    }
}
