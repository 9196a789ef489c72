//! What a cache asks of the origins, and what the ends of flushes there mean for guests.

use crate::context::Context;
use crate::violation::Violation;
use block_io::{OriginOp, OriginVerb, Token};

/// The cache asks something of an origin.
///
/// # Errors
/// I4 if no attached disk has it.
pub(crate) fn submit(op: OriginOp, cx: &mut Context) -> Result<(), Violation> {
    let token = op.token.0;
    let Some(number) = cx.process.number_of(op.disk) else {
        return Err(Violation::new(
            "I4",
            format!("an operation for {:?}, which no attached disk has", op.disk),
        ));
    };
    cx.run.event(&[5, token, number as u64], || {
        format!("origin {number} {token} {:?}", op.verb)
    });
    if matches!(op.verb, OriginVerb::Flush) {
        let now = cx.run.next_moment();
        cx.process.disk_mut(number).flush_asked(op.token, now);
    }
    let origin = cx.disks[number].origin_mut();
    let handle = cx.process.origin_mut(number);
    origin.submit(handle, op.token, op.verb, cx.run.now());
    cx.disks.plan_release(cx.run);
    Ok(())
}

/// A flush of an origin has made durable what was written through, or has failed and taken some of
/// it along: the guest may see that, and has to be told with its next flush.
pub(crate) fn flush_ended(number: usize, token: Token, ok: bool, cx: &mut Context) {
    let Some(issued) = cx.process.disk_mut(number).flush_ended(token) else {
        return;
    };
    let status = cx.process.write_back_of(number);
    if status.is_some_and(|status| !status.logged.is_zero()) {
        // What was written through before was flushed when the log began, and what the log has is
        // written again.
        return;
    }
    let now = cx.run.next_moment();
    let history = cx.disks[number].history_mut();
    if ok {
        history.durable_before(issued);
    } else if cx.process.origin_mut(number).has_forgotten(token) && history.lost_unflushed(now) {
        cx.run.hit("failed flush has lost writes");
        cx.process.disk_mut(number).lose_writes(now);
    }
}
