use super::*;
use crate::{Effect, FormatOptions, Purpose, Recovery, format};
use block_io::{BufPool, FlashOp};
use flash_format::{CheckpointPage, SegmentIndex};
use segment_log::{Phase, Source, Step, StreamKey};
use units::{Bytes, Instant};

const CAPACITY: Bytes = Bytes::mib(2);

/// An empty store, opened from a formatted device.
fn open() -> (Box<Store>, Ports<()>) {
    let mut device = vec![0; CAPACITY.to_usize()];
    let options = FormatOptions {
        segment_bytes: Bytes::kib(64),
        ..FormatOptions::new(CAPACITY, 1)
    };
    for (offset, bytes) in format(&options).unwrap() {
        device[offset.to_usize()..][..bytes.len()].copy_from_slice(&bytes);
    }
    let (pool, now) = (BufPool::new(), Instant::ZERO);
    let mut recovery = Recovery::new(Config::default(), CAPACITY, None, pool.clone(), now);
    let mut found = loop {
        if let Some(recovered) = recovery.finished() {
            break recovered.unwrap();
        }
        let operations: Vec<FlashOp> = recovery.take_operations().collect();
        for op in operations {
            recovery.flash_done(medium::carry_out(&mut device, op), now);
        }
    };
    let mut ports = found.ports(pool, now);
    let (mut store, checkpoint) = (found.store, found.checkpoint);
    store.pump(&mut ports);
    while !store.facts().has_checkpoint(checkpoint) {
        let mut effects = Vec::new();
        ports.take_effects(&mut effects);
        for effect in effects {
            let Effect::Flash(op) = effect else {
                panic!("a checkpoint is on the flash")
            };
            let done = medium::carry_out(&mut device, op);
            if let (Purpose::Store(own), _) = ports.completed(done.token) {
                store.completed(&mut ports, own, true, done.buf);
            }
            store.pump(&mut ports);
        }
    }
    (store, ports)
}

fn trust(flash: &mut Store, ports: &mut Ports<()>, slot: FlashSlot) {
    let (journal, segments) = (&mut flash.journal, &flash.segments);
    flash.trust.trust(ports, journal, segments, slot, 1);
}

fn distrust(flash: &mut Store, ports: &mut Ports<()>, slot: FlashSlot) {
    crate::trust::distrust(ports, &mut flash.journal, &flash.segments, slot);
}

/// Opens a segment for a disk's survivors.
fn segment_of_next_block(flash: &mut Store, disk: DiskSlot) -> (SegmentIndex, u64) {
    match flash
        .segments
        .prepare(StreamKey::of(disk, Source::Survivor), Instant::ZERO)
    {
        Step::Opened {
            segment,
            generation,
        } => (segment, generation),
        other => panic!("a segment is opened, not {other:?}"),
    }
}

/// Closes the segment that is open for a disk's survivors; everything of it is on flash.
fn close(flash: &mut Store, disk: DiskSlot, segment: SegmentIndex) {
    let key = StreamKey::of(disk, Source::Survivor);
    flash.segments.close(key).unwrap();
    flash.segments.table_mut().write_ended(segment);
}

/// Frees a closed segment and opens it again for the same disk. Returns the generation of that use.
fn use_again(flash: &mut Store, disk: DiskSlot, segment: SegmentIndex) -> u64 {
    let key = StreamKey::of(disk, Source::Survivor);
    flash.segments.table_mut().begin_free(segment);
    reclaim::release(&mut flash.trust, &mut flash.segments, segment);
    loop {
        let (next, generation) = segment_of_next_block(flash, disk);
        if next == segment {
            return generation;
        }
        flash.segments.close(key).unwrap();
    }
}

/// Enters a block of a disk whose copy is in this slot, and lays the copy to rest.
fn rest(flash: &mut Store, ports: &mut Ports<()>, disk: DiskSlot, slot: FlashSlot) {
    let (block, count) = (BlockIndex::new(7), flash.origins.write_count(disk));
    flash.segments.enter(disk, block, slot).unwrap();
    let (mut copies, resting) = flash.copies();
    resting.rest(ports, &mut copies, disk, block, slot, count);
}

#[test]
fn the_rest_of_an_earlier_copy_trusts_no_later_one_in_its_slot() {
    let (mut flash, mut ports) = open();
    let disk = DiskSlot::new(0);
    flash.origins.attached(disk, false);
    let (segment, _) = segment_of_next_block(&mut flash, disk);
    let slot = flash.identity.geometry.slot(segment, 1);
    rest(&mut flash, &mut ports, disk, slot);
    close(&mut flash, disk, segment);
    let count = flash.origins.write_count(disk);
    flash.origins.flushed(disk, count);
    // The block is written, which the origin may lose, and its next copy comes into the same slot.
    flash.segments.forget(disk, BlockIndex::new(7));
    use_again(&mut flash, disk, segment);
    flash.origins.write_ended(disk);
    rest(&mut flash, &mut ports, disk, slot);
    close(&mut flash, disk, segment);

    flash.trust_resting(&mut ports, None);
    assert!(
        !flash.trust.contains(slot),
        "the origin has not been flushed"
    );
}

#[test]
fn a_distrust_of_an_earlier_use_of_a_segment_leaves_the_later_one_alone() {
    let (mut flash, mut ports) = open();
    let disk = DiskSlot::new(0);
    let (segment, earlier) = segment_of_next_block(&mut flash, disk);
    let slot = flash.identity.geometry.slot(segment, 1);
    trust(&mut flash, &mut ports, slot);
    distrust(&mut flash, &mut ports, slot);
    // That entry waits for its commit.
    close(&mut flash, disk, segment);
    let reopened = use_again(&mut flash, disk, segment);
    assert!(reopened > earlier);
    trust(&mut flash, &mut ports, slot);

    flash.journal.hurry();
    flash.pump(&mut ports);
    flash.journal_done(&mut ports);

    assert!(
        flash.trust.contains(slot),
        "recovery would trust it: a write has to know"
    );
}

#[test]
fn a_distrust_takes_effect_when_it_is_durable_and_not_before() {
    let (mut flash, mut ports) = open();
    let (segment, _) = segment_of_next_block(&mut flash, DiskSlot::new(0));
    let slot = flash.identity.geometry.slot(segment, 1);
    trust(&mut flash, &mut ports, slot);
    distrust(&mut flash, &mut ports, slot);
    flash.journal.hurry();
    flash.pump(&mut ports);
    assert!(flash.trust.contains(slot));
    flash.journal_done(&mut ports);
    assert!(!flash.trust.contains(slot));
}

#[test]
fn a_checkpoint_has_of_trust_what_the_journal_has_durably() {
    let (mut flash, mut ports) = open();
    let (segment, _) = segment_of_next_block(&mut flash, DiskSlot::new(0));
    let slot = flash.identity.geometry.slot(segment, 1);
    let is_trusted = |flash: &mut Store| {
        let geometry = flash.identity.geometry;
        let segments_of = |page| CheckpointPage::segments_of(&geometry, page);
        let holds = |page: &u64| segments_of(*page).contains(&segment.get());
        let page = (0..1000).find(holds).unwrap();
        let CheckpointPage::Segments(entries) = flash.tables().0.page(page) else {
            panic!("the page has segments")
        };
        let first = segments_of(page).start;
        entries[(segment.get() - first) as usize].is_trusted(1)
    };
    let make_durable = |flash: &mut Store, ports: &mut Ports<()>| {
        flash.journal.hurry();
        flash.pump(ports);
        flash.journal_done(ports);
    };

    trust(&mut flash, &mut ports, slot);
    assert!(!is_trusted(&mut flash));
    make_durable(&mut flash, &mut ports);
    assert!(is_trusted(&mut flash));

    distrust(&mut flash, &mut ports, slot);
    assert!(is_trusted(&mut flash));
    make_durable(&mut flash, &mut ports);
    assert!(!is_trusted(&mut flash));
}

impl Store {
    /// Whether a recovery would believe a slot.
    pub(crate) fn trusts(&self, slot: FlashSlot) -> bool {
        self.trust.contains(slot)
    }

    /// What a segment is.
    pub(crate) fn phase_of(&self, segment: SegmentIndex) -> Phase {
        self.segments.table().get(segment).phase
    }
}
