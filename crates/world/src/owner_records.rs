//! Owner's records on their way: what a cache asks to be recorded of who has a disk takes a while, and may
//! fail.

use crate::attachment::RecordOnItsWay;
use crate::context::Context;
use crate::disks::Disks;
use crate::process::Process;
use crate::run::Run;
use crate::violation::Violation;
use block_io::Token;
use cache::OwnerRecord;
use units::{DiskId, Duration};

/// The cache asks to record who has a disk.
///
/// # Errors
/// A violation if it must not say so.
pub(crate) fn ask(
    token: Token,
    id: DiskId,
    record: OwnerRecord,
    cx: &mut Context,
) -> Result<(), Violation> {
    let fails = cx.run.settings().back.map_or(0, |back| back.own_fails);
    let fails = cx.run.one_in(fails);
    let until = cx.run.now() + Duration::from_micros(1 + cx.run.below(20_000));
    cx.run.event(&[18, record.epoch], || {
        format!("own {} {id:?} {record:?}, fails: {fails}", token.0)
    });
    let Some(number) = cx.disks.number_of(id) else {
        return Err(Violation::new("I4", format!("a record for {id:?}")));
    };
    // A host without flash has no cache to name.
    let nobody = record.cache == 0 && !record.open && cx.process.is_bypassed();
    let disk = &cx.disks[number];
    disk.judge_record(record, cx.device.uuid(), nobody)?;
    let attachment = cx.process.disk_mut(number);
    if !record.open && disk.is_open() && !attachment.is_dropping() {
        cx.run.hit("owner's record closed");
        disk.origin_has(cx.run.current_moment())?;
    }
    attachment.record_asked(RecordOnItsWay {
        token,
        record,
        until,
        recorded: !fails,
    });
    Ok(())
}

/// The first record of a disk on its way is durable, or could not be made.
pub(crate) fn answer(number: usize, cx: &mut Context) {
    let attachment = cx.process.disk_mut(number);
    let Some(made) = attachment.take_record() else {
        return;
    };
    // The answer may be lost where the record is not. One that is open then keeps others away, and no more;
    // and what was to be dropped then is there still, until the cache dies.
    let dropping = attachment.is_dropping();
    let may_stand = !made.record.open && !dropping;
    if made.recorded || (may_stand && cx.run.one_in(2)) {
        let now = cx.run.current_moment();
        cx.disks[number].recorded(made.record, dropping, now);
    }
    if !made.recorded {
        cx.run.hit("owner not recorded");
    }
    cx.run.event(&[19, u64::from(made.recorded)], || {
        format!("disk {number} recorded: {made:?}")
    });
    if let Some(cache) = cx.process.cache_mut() {
        cache.owned(made.token, made.recorded, cx.run.now());
    }
}

/// The process has died: records that were on their way are there or not.
pub(crate) fn end(process: &mut Process, disks: &mut Disks, run: &mut Run) {
    let now = run.current_moment();
    for (number, disk) in disks.iter_mut().enumerate() {
        let attachment = process.disk_mut(number);
        let dropping = attachment.is_dropping();
        while let Some(made) = attachment.take_record() {
            if run.one_in(2) {
                disk.recorded(made.record, dropping, now);
            }
        }
    }
}
