//! A trace as requests of dense block keys, with time from its first record on.

use trace::{Batch, Op, Reader, Records, Splitter};
use units::{Bytes, Instant};

use crate::measure::CurveError;

/// Calls `take` for each request: when it came, what it asks, the keys of its blocks.
pub(crate) fn each(
    reader: &mut dyn Reader,
    block: Bytes,
    mut take: impl FnMut(Instant, Op, &[u32]),
) -> Result<(), CurveError> {
    let mut splitter = Splitter::new(block);
    let (mut records, mut batch) = (Records::new(), Batch::default());
    let mut first = None;
    while reader.read_batch(&mut records)? {
        splitter.know(reader.volumes());
        splitter.split(&records, &mut batch)?;
        for request in &batch.requests {
            let record = &request.record;
            let first = *first.get_or_insert(record.time_us);
            let nanos = record.time_us.saturating_sub(first).saturating_mul(1_000);
            take(
                Instant::from_nanos(nanos),
                record.op,
                batch.keys_of(request),
            );
        }
    }
    Ok(())
}
