//! A conversation with QEMU's monitor (QMP) that only asks.
//!
//! ```text
//!   QEMU: greeting ─► we: qmp_capabilities ─► answer ─► one query after the other ─► figures
//!                                               events in between are skipped
//! ```
//!
//! QEMU is as trusted as its guest: a line that makes no sense ends the conversation, and so does one that never ends.
//! The caller opens the socket, carries the bytes and keeps the time.

use crate::vm::{BlockReading, VmFigures};
use serde_json::Value;

/// Bytes that QEMU may say in one conversation, its answers to all queries: those about a hundred disks are 200 KiB.
pub const QMP_BYTES_MAX: usize = 1 << 20;

/// What is asked, in this order.
const COMMANDS: [&str; 5] = [
    "qmp_capabilities",
    "query-cpus-fast",
    "query-memory-size-summary",
    "query-balloon",
    "query-blockstats",
];

/// What a conversation wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QmpStep {
    /// Say this to QEMU, if anything, and listen.
    Say(String),
    /// All is known. The socket can be closed.
    Done(VmFigures),
}

/// QEMU's monitor said something that no monitor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QmpError {
    /// Not one JSON object a line.
    #[error("what answers is not QEMU's monitor: a line is not a JSON object")]
    NoObject,
    /// An object that does not greet.
    #[error("what answers is not QEMU's monitor: it does not greet")]
    NoGreeting,
    /// An answer without what the command is asked for.
    #[error("QEMU's answer to {0} is not what its manual says")]
    Unlike(&'static str),
    /// Commands are refused altogether.
    #[error("QEMU's monitor refuses commands")]
    Refused,
    /// More than [`QMP_BYTES_MAX`].
    #[error("QEMU's monitor says more than {QMP_BYTES_MAX} bytes")]
    TooMuch,
}

/// A conversation with one QEMU.
#[derive(Debug, Default)]
pub struct Qmp {
    heard_bytes: usize,
    /// The beginning of a line.
    line: Vec<u8>,
    has_greeted: bool,
    /// Commands that are answered.
    answered: usize,
    figures: VmFigures,
}

impl Qmp {
    /// QEMU has said this, any part of its lines.
    ///
    /// # Errors
    /// If it is nothing that QEMU says: then the socket is closed, and nothing is known.
    pub fn heard(&mut self, bytes: &[u8]) -> Result<QmpStep, QmpError> {
        self.heard_bytes = self.heard_bytes.saturating_add(bytes.len());
        if self.heard_bytes > QMP_BYTES_MAX {
            return Err(QmpError::TooMuch);
        }
        let mut say = String::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if self.take(&line)? {
                let Some(command) = COMMANDS.get(self.answered) else {
                    return Ok(QmpStep::Done(self.figures));
                };
                say.push_str("{\"execute\":\"");
                say.push_str(command);
                say.push_str("\"}\n");
            }
        }
        Ok(QmpStep::Say(say))
    }

    /// A line. True if it answers, so that the next command can be given.
    fn take(&mut self, line: &[u8]) -> Result<bool, QmpError> {
        let said: Value = serde_json::from_slice(line).map_err(|_| QmpError::NoObject)?;
        let said = said.as_object().ok_or(QmpError::NoObject)?;
        if !self.has_greeted {
            self.has_greeted = said.contains_key("QMP");
            return if self.has_greeted {
                Ok(true)
            } else {
                Err(QmpError::NoGreeting)
            };
        }
        if said.contains_key("event") {
            return Ok(false);
        }
        let command = COMMANDS[self.answered];
        match (said.get("return"), said.get("error")) {
            (Some(answer), None) => self
                .answer(command, answer)
                .ok_or(QmpError::Unlike(command))?,
            (None, Some(_)) if self.answered == 0 => return Err(QmpError::Refused),
            // One without a balloon, or of a version that does not have the query.
            (None, Some(_)) => {}
            _ => return Err(QmpError::Unlike(command)),
        }
        self.answered += 1;
        Ok(true)
    }

    /// What a command was asked for. None if it is not in the answer.
    fn answer(&mut self, command: &str, answer: &Value) -> Option<()> {
        let figures = &mut self.figures;
        match command {
            "query-cpus-fast" => figures.vcpus = Some(answer.as_array()?.len() as u64),
            "query-memory-size-summary" => {
                let plugged = answer
                    .get("plugged-memory")
                    .map_or(Some(0), Value::as_u64)?;
                let base = answer.get("base-memory")?.as_u64()?;
                figures.given_memory_bytes = Some(base.checked_add(plugged)?);
            }
            "query-balloon" => figures.balloon_bytes = Some(answer.get("actual")?.as_u64()?),
            "query-blockstats" => {
                let disks = answer.as_array()?.iter().map(block);
                let disks: Vec<BlockReading> = disks.collect::<Option<_>>()?;
                figures.block = disks.into_iter().reduce(BlockReading::with);
            }
            _ => {}
        }
        Some(())
    }
}

fn block(disk: &Value) -> Option<BlockReading> {
    let stats = disk.get("stats")?;
    let count = |key: &str| stats.get(key)?.as_u64();
    Some(BlockReading {
        read_bytes: count("rd_bytes")?,
        written_bytes: count("wr_bytes")?,
        reads: count("rd_operations")?,
        writes: count("wr_operations")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What QEMU 7.2 said: two processors, 256 MiB, a balloon, and two disks, from one of which the firmware read a sector.
    const WITH_BALLOON: &str = include_str!("../fixtures/qmp_balloon.txt");
    /// The same of one without a balloon, and without disks that QEMU serves.
    const WITHOUT: &str = include_str!("../fixtures/qmp_bare.txt");

    /// The conversation to its end, a line at a time, and what was asked.
    fn talk(text: &str) -> (Vec<String>, Result<QmpStep, QmpError>) {
        let (mut qmp, mut asked) = (Qmp::default(), Vec::new());
        for line in text.split_inclusive('\n') {
            match qmp.heard(line.as_bytes()) {
                Ok(QmpStep::Say(say)) => asked.push(say),
                end => return (asked, end),
            }
        }
        (asked, Err(QmpError::NoGreeting))
    }

    #[test]
    fn qemu_is_asked_one_thing_after_the_other() {
        let (asked, end) = talk(WITH_BALLOON);
        let expected = COMMANDS.map(|name| format!("{{\"execute\":\"{name}\"}}\n"));
        // An event needs no answer.
        let asked: Vec<&String> = asked.iter().filter(|say| !say.is_empty()).collect();
        assert_eq!(asked, expected.iter().collect::<Vec<_>>());
        let figures = VmFigures {
            vcpus: Some(2),
            given_memory_bytes: Some(256 << 20),
            balloon_bytes: Some(256 << 20),
            block: Some(BlockReading {
                read_bytes: 512,
                reads: 1,
                ..BlockReading::default()
            }),
        };
        assert_eq!(end, Ok(QmpStep::Done(figures)));
    }

    #[test]
    fn a_vm_without_a_balloon_has_the_other_figures() {
        let figures = VmFigures {
            vcpus: Some(1),
            given_memory_bytes: Some(128 << 20),
            balloon_bytes: None,
            block: None,
        };
        assert_eq!(talk(WITHOUT).1, Ok(QmpStep::Done(figures)));
    }

    #[test]
    fn disks_are_added_up() {
        let disk =
            r#"{"stats":{"rd_bytes":1,"wr_bytes":20,"rd_operations":300,"wr_operations":4000}}"#;
        let stats: Value = serde_json::from_str(&format!("[{disk},{disk}]")).unwrap();
        let mut qmp = Qmp::default();
        assert_eq!(qmp.answer("query-blockstats", &stats), Some(()));
        let expected = BlockReading {
            read_bytes: 2,
            written_bytes: 40,
            reads: 600,
            writes: 8000,
        };
        assert_eq!(qmp.figures.block, Some(expected));
    }

    #[test]
    fn what_is_not_qemu_is_an_error() {
        const HELLO: &str = "{\"QMP\": {}}\n{\"return\": {}}\n";
        let deep = "[".repeat(100_000);
        for (said, error) in [
            ("SSH-2.0-OpenSSH_9.2\n", QmpError::NoObject),
            ("[]\n", QmpError::NoObject),
            ("{\"a\": \n", QmpError::NoObject),
            (&format!("{deep}\n"), QmpError::NoObject),
            ("{\"return\": {}}\n", QmpError::NoGreeting),
            ("{\"QMP\": {}}\n{\"error\": {}}\n", QmpError::Refused),
            (
                &format!("{HELLO}{{\"id\": 1}}\n"),
                QmpError::Unlike("query-cpus-fast"),
            ),
            (
                &format!("{HELLO}{{\"return\": 7}}\n"),
                QmpError::Unlike("query-cpus-fast"),
            ),
        ] {
            assert_eq!(talk(said).1, Err(error), "{said:.60}");
        }
    }

    #[test]
    fn an_answer_unlike_the_manual_is_an_error() {
        let with = |at: usize, answer: &str| {
            let mut lines = vec!["{\"QMP\": 0}", "{\"return\": {}}", "{\"return\": []}"];
            lines.extend([
                "{\"return\": {\"base-memory\": 1}}",
                "{\"return\": {\"actual\": 1}}",
            ]);
            lines.truncate(at + 1);
            lines.push(answer);
            talk(&(lines.join("\n") + "\n")).1
        };
        for (at, answer) in [
            (2, "{\"return\": {\"base-memory\": -1}}"),
            (
                2,
                "{\"return\": {\"base-memory\": 18446744073709551615, \"plugged-memory\": 1}}",
            ),
            (2, "{\"return\": {\"base-memory\": 1.5}}"),
            (2, "{\"return\": {\"base-memory\": 1e99}}"),
            (3, "{\"return\": {\"actual\": null}}"),
            (4, "{\"return\": {}}"),
            (4, "{\"return\": [1]}"),
            (4, "{\"return\": [{\"stats\": {\"rd_bytes\": \"many\"}}]}"),
        ] {
            assert_eq!(
                with(at, answer),
                Err(QmpError::Unlike(COMMANDS[at])),
                "{answer}"
            );
        }
    }

    #[test]
    fn one_that_never_ends_is_left() {
        let mut qmp = Qmp::default();
        let much = vec![b' '; QMP_BYTES_MAX / 2];
        assert_eq!(qmp.heard(&much), Ok(QmpStep::Say(String::new())));
        assert_eq!(qmp.heard(&much), Ok(QmpStep::Say(String::new())));
        assert_eq!(qmp.heard(b" "), Err(QmpError::TooMuch));
        // Events without end are no different.
        let mut qmp = Qmp::default();
        let events = "{\"event\": \"RTC_CHANGE\"}\n".repeat(10_000);
        assert!(qmp.heard(b"{\"QMP\": {}}\n").is_ok());
        let ended = (0..10).find_map(|_| qmp.heard(events.as_bytes()).err());
        assert_eq!(ended, Some(QmpError::TooMuch));
    }

    proptest! {
        /// The real answers with bytes changed, and cut anywhere: an error or figures, and never a panic.
        #[test]
        fn changed_bytes_never_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            piece in 1usize..900,
        ) {
            let mut bytes = WITH_BALLOON.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let mut qmp = Qmp::default();
            for piece in bytes.chunks(piece) {
                if !matches!(qmp.heard(piece), Ok(QmpStep::Say(_))) {
                    break;
                }
            }
        }
    }
}
