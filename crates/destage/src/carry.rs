//! In which order the steps come that bring a log to its origin: once, for the daemon and for the simulator.
//!
//! ```text
//!  due, and durable here ─► loaded ─► the journal knows it ─► begun ─► written ─► flushed, settled
//! ```
//!
//! [`Destage`](crate::Destage) decides what each step comes to. Who carries the log does the steps with a flash, a
//! journal and an origin of its own: those of a daemon, which take time, or those of a simulation, which do not.

use dirty_log::RecordNumber;

/// Carries one disk's log to its origin.
pub trait Carrier {
    /// The number before which everything may go to the origin now: it is due there, and it is durable here.
    fn goes_before(&mut self) -> RecordNumber;

    /// Begins to read the next batch of records before `wanted`. True if there is one to read.
    fn load(&mut self, wanted: RecordNumber) -> bool;

    /// Whether a batch is read that may be written next: [`Destage::ready`](crate::Destage::ready).
    fn is_ready(&self) -> bool;

    /// Whether the batch that is read may be written, because a recovery would know of everything that its writes
    /// follow. If not, the journal is hurried.
    fn knows_watermark(&mut self) -> bool;

    /// Begins to write the batch that is read, of records before `wanted`. False if it is not fit to be written.
    fn begin(&mut self, wanted: RecordNumber) -> bool;

    /// Writes to the origin as many pieces of the batch as may be on their way.
    fn write(&mut self);

    /// Ends the batch if every piece of it has ended. True if more can be done now.
    fn end(&mut self, wanted: RecordNumber) -> bool;
}

/// Takes a log one step further on its way to its origin. True if something has changed that may let more be
/// done: it is called until it says false, and then again when something has ended or is due.
pub fn carry(carrier: &mut impl Carrier) -> bool {
    let wanted = carrier.goes_before();
    // What is asked of the flash now ends behind this: a batch has what was durable before.
    if carrier.load(wanted) {
        return true;
    }
    if carrier.is_ready() {
        return carrier.knows_watermark() && carrier.begin(wanted);
    }
    carrier.write();
    carrier.end(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one batch, which a test lets go from step to step.
    #[derive(Default)]
    struct Noted {
        has_more: bool,
        is_read: bool,
        is_known: bool,
        steps: Vec<&'static str>,
    }

    impl Carrier for Noted {
        fn goes_before(&mut self) -> RecordNumber {
            self.steps.push("due");
            RecordNumber::FIRST
        }

        fn load(&mut self, _: RecordNumber) -> bool {
            self.steps.push("load");
            std::mem::take(&mut self.has_more)
        }

        fn is_ready(&self) -> bool {
            self.is_read
        }

        fn knows_watermark(&mut self) -> bool {
            self.steps.push("known?");
            self.is_known
        }

        fn begin(&mut self, _: RecordNumber) -> bool {
            self.steps.push("begin");
            self.is_read = false;
            true
        }

        fn write(&mut self) {
            self.steps.push("write");
        }

        fn end(&mut self, _: RecordNumber) -> bool {
            self.steps.push("end");
            false
        }
    }

    fn carried(mut log: Noted) -> Vec<&'static str> {
        while carry(&mut log) {}
        log.steps
    }

    #[test]
    fn a_batch_is_begun_when_its_watermark_is_known_and_then_written() {
        let log = Noted {
            is_read: true,
            is_known: true,
            ..Noted::default()
        };
        let steps = [
            "due", "load", "known?", "begin", "due", "load", "write", "end",
        ];
        assert_eq!(carried(log), steps);
    }

    #[test]
    fn a_batch_whose_watermark_is_not_known_waits() {
        let log = Noted {
            is_read: true,
            ..Noted::default()
        };
        assert_eq!(carried(log), ["due", "load", "known?"]);
    }

    #[test]
    fn the_next_batch_is_read_while_one_is_written() {
        let log = Noted {
            has_more: true,
            ..Noted::default()
        };
        assert_eq!(carried(log), ["due", "load", "due", "load", "write", "end"]);
    }
}
