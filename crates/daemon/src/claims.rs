//! Which origins the disks of this daemon use. A file is locked against a second use; an NBD export is
//! not, and its server may let two connections write what neither sees of the other.

use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{Name, NbdConfig, OriginPlace};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The origins in use: each of one disk that writes it, or of disks that only read.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Where this daemon serves.
    nbd: NbdConfig,
    claims: Mutex<Vec<Claim>>,
}

/// Who uses an origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct User<'a> {
    /// Of its attachment.
    pub(super) serial: u64,
    pub(super) name: &'a Name,
    /// Whether it only reads.
    pub(super) read_only: bool,
}

#[derive(Debug)]
struct Claim {
    serial: u64,
    name: Name,
    place: OriginPlace,
    read_only: bool,
}

impl Claims {
    /// Of a daemon that serves so.
    pub(super) fn new(nbd: NbdConfig) -> Self {
        Self {
            nbd,
            claims: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Claim>> {
        // Every change is one operation on the list.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the use of an origin, until it is given back. One of an attachment that is not there any more, by its
    /// serial number, is in nobody's way.
    ///
    /// # Errors
    /// If a disk has the origin and one of both writes, or it is this daemon's own export.
    pub(super) fn claim(
        &self,
        user: User<'_>,
        place: OriginPlace,
        is_there: impl Fn(u64) -> bool,
    ) -> Result<(), Problem> {
        let User {
            serial,
            name,
            read_only,
        } = user;
        if place.is_served_by(&self.nbd) {
            let detail = format!("the origin of '{name}' is an export of this daemon");
            return Err(Problem::new(ProblemKind::Refused, detail)
                .with_remedy("name the server that has the disk's bytes"));
        }
        let mut claims = self.lock();
        let conflicts = |claim: &Claim| claim.place.is(&place) && !(claim.read_only && read_only);
        claims.retain(|claim| {
            claim.serial != serial && (!conflicts(claim) || is_there(claim.serial))
        });
        if let Some(other) = claims.iter().find(|claim| conflicts(claim)) {
            let detail = format!(
                "the disk '{}' uses the origin of '{name}' already, and one of them writes",
                other.name
            );
            return Err(Problem::new(ProblemKind::Origin, detail)
                .with_remedy(format!("hearth disk detach {}", other.name)));
        }
        claims.push(Claim {
            serial,
            name: name.clone(),
            place,
            read_only,
        });
        Ok(())
    }

    /// The attachment does not use its origin.
    pub(super) fn give_back(&self, serial: u64) {
        self.lock().retain(|claim| claim.serial != serial);
    }
}
