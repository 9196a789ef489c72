//! Two rigs that share a disk: what one has that the origin lacks goes to the other.

use super::{Rig, lazy};
use cache::{
    Borrowed, Command, ControlError, ControlOutcome, LoanId, LoanRequest, NotLent, OfDirty,
    OwnerRecord, RecordsAsked, Shipment, Tenure, WriteBack, WritePolicy,
};
use std::collections::BTreeSet;
use units::{BlockIndex, Bytes, DiskId, Duration};

/// What comes out of one cache, as another one can take it.
pub(crate) type Records = Shipment<Vec<u8>>;

/// The number of the standby's cache.
const STANDBY: u128 = 9;

impl Rig {
    pub(crate) fn attach_as(
        &mut self,
        tenure: Tenure,
        policy: WritePolicy,
        write_back: WriteBack,
    ) -> Result<(), ControlError> {
        let id = self.command(Command::Attach {
            disk: DiskId::from_u128(1),
            name: "vda".into(),
            size: self.size,
            policy,
            read_only: false,
            tenant: "vm".into(),
            shared: false,
            fingerprint: self.fingerprint,
            owner: self.record,
            write_back,
            tenure,
        });
        match self.outcome(id).expect("an attach ends") {
            Ok(ControlOutcome::Attached { disk, .. }) => self.disk = disk,
            Ok(ControlOutcome::Done) => panic!("an attach gives a slot"),
            Err(error) => return Err(error),
        }
        self.settle();
        Ok(())
    }

    /// Another host, which stands by for the disk of `owner`.
    pub(crate) fn standby_of(owner: &Self) -> Self {
        let mut rig = Self::named(STANDBY, Bytes::mib(8));
        rig.stand_by(owner);
        rig
    }

    /// The disk is attached as that of `owner`.
    pub(crate) fn stand_by(&mut self, owner: &Self) {
        self.see_origin_of(owner);
        self.record = owner.record;
        self.attach_as(Tenure::Standby, WritePolicy::Through, lazy())
            .unwrap();
    }

    /// The origin is one.
    pub(crate) fn see_origin_of(&mut self, other: &Self) {
        self.origin.copy_from_slice(&other.origin);
        self.origin_durable.copy_from_slice(&other.origin_durable);
    }

    /// The epoch in which the standby of this disk would have it.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.record.expect("it is recorded").epoch + 1
    }

    /// Another host asks for this.
    pub(crate) fn lend(&mut self, request: LoanRequest) -> Result<Borrowed, NotLent> {
        let now = self.now;
        self.cache_mut().lend(LoanId(0), request, now);
        self.settle();
        self.lent.take().expect("a loan is answered")
    }

    /// The blocks that another host would find listed, in no order.
    ///
    /// # Panics
    /// If the disk is not lent.
    pub(crate) fn listed(&mut self) -> BTreeSet<u64> {
        let disk = DiskId::from_u128(1);
        let Ok(Borrowed::Segments(segments)) = self.lend(LoanRequest::Segments { disk }) else {
            panic!("the disk is lent");
        };
        let contents = segments.into_iter().flat_map(|segment| {
            match self.lend(LoanRequest::Contents { disk, segment }) {
                Ok(Borrowed::Contents(blocks)) => blocks,
                other => panic!("a segment has contents, not {other:?}"),
            }
        });
        contents.map(BlockIndex::get).collect()
    }

    /// The owner is asked for records.
    pub(crate) fn records(&mut self, from: u64) -> Result<Records, NotLent> {
        self.begin_records(from, None);
        self.settle();
        self.records_came().expect("a loan is answered")
    }

    /// The owner is asked for records by who knows that the origin lacks this one and no older one. It may wait for some.
    pub(crate) fn begin_records(&mut self, from: u64, settled: Option<u64>) {
        let (disk, now) = (DiskId::from_u128(1), self.now);
        let asked = RecordsAsked {
            disk,
            from,
            settled,
        };
        let request = LoanRequest::Records(asked);
        self.cache_mut().lend(LoanId(0), request, now);
        self.drive();
    }

    /// The answer, if it has come.
    pub(crate) fn records_came(&mut self) -> Option<Result<Records, NotLent>> {
        let lent = self.lent.take()?;
        Some(lent.map(|lent| match lent {
            Borrowed::Records(shipment) => shipment.map(|bytes| {
                let bytes = bytes.iter().flat_map(|slice| slice.to_vec());
                bytes.collect::<Vec<u8>>()
            }),
            other => panic!("records were asked for, not {other:?}"),
        }))
    }

    /// The standby is to keep them: the number of the command.
    pub(crate) fn begin_keep(&mut self, epoch: u64, records: Records) -> u64 {
        let pool = self.pool.clone();
        let shipment = records.map(|bytes| std::iter::once(pool.copy_of(&bytes)).collect());
        let disk = self.disk;
        self.command(Command::Ship {
            disk,
            epoch,
            shipment,
        })
    }

    /// Brings what `owner` has from `next` on to this standby, which keeps it.
    pub(crate) fn pull(&mut self, owner: &mut Self, next: &mut u64) {
        loop {
            let records = owner.records(*next).expect("the owner ships");
            let count = records.records.len() as u64;
            let (from, end) = (records.first, records.end);
            let id = self.begin_keep(owner.next_epoch(), records);
            self.pass(Duration::from_millis(200));
            assert!(
                matches!(self.outcome(id), Some(Ok(_))),
                "they are kept, not {:?}",
                self.outcome(id)
            );
            *next = from + count;
            if *next == end {
                return;
            }
        }
    }

    /// `owner` has given the disk away: the record names this cache.
    pub(crate) fn is_granted_by(&mut self, owner: &Self) {
        self.see_origin_of(owner);
        self.record = Some(OwnerRecord {
            epoch: owner.next_epoch(),
            cache: STANDBY,
            open: true,
        });
        self.told.clear();
    }

    /// The disk is granted to this standby, which takes it.
    pub(crate) fn succeed(&mut self, owner: &Self) {
        self.detach(OfDirty::Keep).unwrap();
        self.is_granted_by(owner);
        self.attach_as(Tenure::Successor, WritePolicy::Back, lazy())
            .unwrap();
    }

    /// The same, but the host has lost power after the grant.
    pub(crate) fn succeed_after_power_cut(&mut self, owner: &Self) {
        self.flash.copy_from_slice(&self.flash_durable);
        self.power_cut_of_nothing();
        self.is_granted_by(owner);
        self.attach(WritePolicy::Back, lazy()).unwrap();
    }
}
