//! What of a drive's facts an operator should know.

use crate::limits::USED_PERCENT_WARNED;
use crate::place::{Drive, DriveKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is the matter with a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConcernCode {
    /// The drive fails its own judgement or reports critical warnings.
    Failing,
    /// Spare blocks are below the drive's threshold.
    Spare,
    /// Its endurance is used up, or nearly.
    Worn,
    /// Its cache loses what was not flushed when power fails.
    VolatileCache,
}

/// What is the matter with a drive, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Concern {
    /// Of which kind.
    pub code: ConcernCode,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub remedy: String,
}

const REPLACE: &str = "replace the drive: hearth disk flush brings what waits on it to the origins, and a cache on another drive fills again by itself";

/// What is the matter with a drive, the worst first.
pub fn judge(drive: &Drive) -> Vec<Concern> {
    let mut concerns = Vec::new();
    let mut concern = |code, found: String, remedy: &str| {
        concerns.push(Concern {
            code,
            found,
            remedy: remedy.to_owned(),
        });
    };
    if let Some(health) = drive.smart.health() {
        if !health.critical_warnings.is_empty() {
            let words = health.critical_warnings.join(", ");
            concern(
                ConcernCode::Failing,
                format!("the drive warns: {words}"),
                REPLACE,
            );
        } else if health.passed == Some(false) {
            let found = "the drive says that it fails".to_owned();
            concern(ConcernCode::Failing, found, REPLACE);
        }
        if let (Some(spare), Some(least)) = (health.spare_percent, health.spare_threshold_percent)
            && spare < least
        {
            let found =
                format!("{spare} % of its spare blocks are left, below its threshold of {least} %");
            concern(ConcernCode::Spare, found, REPLACE);
        }
        if let Some(used) = health.used_percent
            && used >= USED_PERCENT_WARNED
        {
            let found = format!("{used} % of its endurance is used");
            let remedy = "plan to replace it; until then a write budget (hearth cache set NAME --write-budget) slows the wear";
            concern(ConcernCode::Worn, found, remedy);
        }
    }
    // A virtual disk's cache is its host's affair, and a disk in memory has no power to lose.
    let is_real = matches!(drive.kind, DriveKind::Nvme | DriveKind::Scsi);
    if is_real && drive.has_volatile_cache == Some(true) {
        concern(
            ConcernCode::VolatileCache,
            "it has no power-loss protection that the kernel knows of: its write cache is volatile"
                .to_owned(),
            "nothing that Hearth has acknowledged as durable is lost as long as the drive obeys flushes, but each flush of a guest waits for the drive: write-back wants a drive with power-loss protection",
        );
    }
    concerns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smart::{Health, Smart};

    fn codes(
        kind: DriveKind,
        has_volatile_cache: Option<bool>,
        health: Health,
    ) -> Vec<ConcernCode> {
        let drive = Drive {
            device: "/dev/nvme0n1".to_owned(),
            kind,
            model: None,
            is_rotational: Some(false),
            has_volatile_cache,
            smart: Smart::Known(health),
        };
        judge(&drive).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn a_sound_drive_is_no_concern() {
        let sound = Health {
            passed: Some(true),
            used_percent: Some(89),
            spare_percent: Some(10),
            spare_threshold_percent: Some(10),
            ..Health::default()
        };
        assert_eq!(codes(DriveKind::Nvme, Some(false), sound), []);
    }

    #[test]
    fn what_wears_out_or_fails_is_one() {
        let health = |used, spare, warnings: &[&str]| Health {
            used_percent: Some(used),
            spare_percent: Some(spare),
            spare_threshold_percent: Some(10),
            critical_warnings: warnings.iter().map(|one| (*one).to_owned()).collect(),
            ..Health::default()
        };
        let of = |health| codes(DriveKind::Nvme, None, health);
        assert_eq!(of(health(90, 100, &[])), [ConcernCode::Worn]);
        assert_eq!(of(health(0, 9, &[])), [ConcernCode::Spare]);
        assert_eq!(of(health(0, 100, &["read-only"])), [ConcernCode::Failing]);
        let fails = Health {
            passed: Some(false),
            ..Health::default()
        };
        assert_eq!(of(fails), [ConcernCode::Failing]);
    }

    #[test]
    fn a_volatile_cache_concerns_real_drives_only() {
        let of = |kind, cache| codes(kind, cache, Health::default());
        assert_eq!(
            of(DriveKind::Nvme, Some(true)),
            [ConcernCode::VolatileCache]
        );
        assert_eq!(
            of(DriveKind::Scsi, Some(true)),
            [ConcernCode::VolatileCache]
        );
        assert_eq!(of(DriveKind::Nvme, None), []);
        assert_eq!(of(DriveKind::Virtual, Some(true)), []);
        assert_eq!(of(DriveKind::Other, Some(true)), []);
    }
}
