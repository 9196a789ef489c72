//! What is wrong with a host, and what to do about it, in sentences.
//!
//! Pure: the page, the command line and whoever asks the API read the same words.

use super::{Glance, Look};
use crate::registry::{Entry, Phase};
use api::events::{About, Severity};
use api::overview::{Finding, Health};
use api::problem::ProblemKind;
use api::types::{CacheState, CacheStatus, Problem};
use cache::DestageState;
use shard::DiskStatus;
use units::number::real;

/// Findings that are shown; a thousand disks that wait for one origin say the same.
const FINDINGS_MAX: usize = 20;
/// A dirty log that is fuller than this is about to hold writes up.
const LOG_FULL: f64 = 0.9;

const ORIGIN: &str = "restore the origin; the disk is attached by itself when it answers";
const AGAIN: &str = "see why in the daemon's log; it is tried again by itself";

impl Glance<'_> {
    /// Whether all is well with these caches and the disks on them. `vms` is how many VMs there are.
    pub(crate) fn health(&self, caches: &[CacheStatus], vms: u64) -> Health {
        let of_caches = caches.iter().flat_map(of_cache);
        let mut findings: Vec<Finding> = of_caches.collect();
        findings.extend(self.looks().filter_map(of_disk));
        // Stable: what is as bad stays in its order, caches before disks.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let all = findings.len();
        findings.truncate(FINDINGS_MAX);
        let more = all - findings.len();
        let Some(worst) = findings.first() else {
            return well(self.entries.len(), vms, caches.len());
        };
        let sentence = match all {
            1 => worst.sentence.clone(),
            2 => format!("{} One more thing is wrong.", worst.sentence),
            _ => format!("{} {} more things are wrong.", worst.sentence, all - 1),
        };
        Health {
            severity: worst.severity,
            sentence,
            remedy: Some(worst.remedy.clone()),
            more: more as u64,
            findings,
        }
    }
}

fn well(disks: usize, vms: u64, caches: usize) -> Health {
    let counted = |count: u64, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let (sentence, remedy) = match (caches, disks) {
        (0, _) => (
            "No cache is configured.".to_owned(),
            Some("make one with hearth cache format, name it in a [[cache]] section of the configuration, and restart the daemon".to_owned()),
        ),
        (_, 0) => (
            "All is well, and no disk is attached yet.".to_owned(),
            Some("hearth disk attach NAME --origin ADDRESS, or a [[disk]] section of the configuration".to_owned()),
        ),
        _ => (
            format!(
                "All is well: {} of {} on {}.",
                counted(disks as u64, "disk"),
                counted(vms, "VM"),
                counted(caches as u64, "cache")
            ),
            None,
        ),
    };
    Health {
        severity: Severity::Info,
        sentence,
        remedy,
        findings: Vec::new(),
        more: 0,
    }
}

/// What is wrong with a cache.
fn of_cache(cache: &CacheStatus) -> Vec<Finding> {
    let name = &cache.name;
    let finding = |severity, sentence: String, remedy: String| Finding {
        severity,
        about: About {
            cache: Some(name.to_string()),
            ..About::default()
        },
        sentence,
        remedy,
    };
    let reason = cache.reason.as_deref();
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let (problem, warning) = (Severity::Problem, Severity::Warning);
    let mut findings: Vec<Finding> = Vec::new();
    match cache.state {
        CacheState::Silent => findings.push(finding(
            problem,
            format!("Cache '{name}' does not answer."),
            "restart the daemon; guests wait meanwhile and go on afterwards".to_owned(),
        )),
        CacheState::Bypassed => findings.push(finding(
            problem,
            format!("Cache '{name}' is out of use, and every request goes to its origin{because}."),
            format!(
                "look at the flash ({}); when it is sound or replaced, make the cache anew with hearth cache format, \
                 and restart the daemon",
                cache.path
            ),
        )),
        CacheState::Opening => findings.push(finding(
            warning,
            format!("Cache '{name}' is still opening its flash."),
            "wait: disks are attached when it is open, 10 s for a TiB".to_owned(),
        )),
        CacheState::Serving => findings.extend(reason.map(|reason| {
            finding(
                warning,
                format!("Cache '{name}' serves, but {reason}."),
                "look at the flash if this lasts: hearth status shows its latency and its errors"
                    .to_owned(),
            )
        })),
    }
    if let Some(error) = cache
        .policy
        .as_ref()
        .and_then(|policy| policy.error.as_ref())
    {
        findings.push(finding(
            problem,
            format!("Nothing enters the flash of cache '{name}': {error}."),
            "change the settings until they agree: hearth cache set and hearth vm set".to_owned(),
        ));
    }
    findings.extend(of_flash(cache, finding));
    findings
}

/// What the flash of a cache has done wrong since the start.
fn of_flash(
    cache: &CacheStatus,
    finding: impl Fn(Severity, String, String) -> Finding,
) -> Vec<Finding> {
    let (name, warning) = (&cache.name, Severity::Warning);
    let mut findings = Vec::new();
    if cache.checksum_errors + cache.flash_errors > 0 {
        findings.push(finding(
            warning,
            format!(
                "The flash of cache '{name}' has failed {} operations and given {} blocks with a wrong checksum since the \
                 start; clean blocks came from their origins instead.",
                cache.flash_errors, cache.checksum_errors
            ),
            format!("look at the health of {}, and replace it if the numbers grow", cache.path),
        ));
    }
    let budget = cache.policy.as_ref().and_then(|policy| policy.write_budget);
    if let Some(budget) = budget.filter(|budget| budget.debt_bytes > 0) {
        findings.push(finding(
            warning,
            format!(
                "Cache '{name}' has written {} bytes beyond its write budget: nothing more enters until that is made up for.",
                budget.debt_bytes
            ),
            format!("raise the budget, or choose a stricter admission: hearth cache set {name}"),
        ));
    }
    let load = cache.policy.as_ref().map_or(0.0, |policy| policy.load);
    if load > 1.0 {
        findings.push(finding(
            warning,
            format!(
                "The VMs on cache '{name}' want {:.0} % of its flash.",
                100.0 * load
            ),
            "move a VM to another host, give floors to those that matter, or add flash".to_owned(),
        ));
    }
    findings
}

/// What is wrong with a disk, if anything is: the worst of it.
pub(super) fn of_disk(look: Look<'_>) -> Option<Finding> {
    let entry = look.entry;
    if let Phase::Waiting { why } | Phase::Forgetting { why } = &entry.phase {
        let remedy = why.is(ProblemKind::Origin).then_some(ORIGIN);
        return Some(told(
            entry,
            Severity::Problem,
            "is not attached",
            why,
            remedy,
        ));
    }
    let served = look.served.map(|(disk, _)| disk);
    if let Some(stuck) = served.and_then(|disk| of_transfer(entry, disk.dirty.state)) {
        return Some(stuck);
    }
    let warning = |what, why| Some(told(entry, Severity::Warning, what, why, None));
    if let Some(why) = &entry.without_back {
        return warning("is without write-back", why);
    }
    if let Some(why) = &entry.owes {
        return warning("is not in the cluster's store yet", why);
    }
    served.and_then(|disk| of_served(entry, disk))
}

/// A finding about a disk.
fn about(entry: &Entry, severity: Severity, what: &str, remedy: &str) -> Finding {
    let name = &entry.config.name;
    Finding {
        severity,
        about: About {
            disk: Some(name.to_string()),
            vm: (!entry.config.shared).then(|| entry.vm().to_string()),
            ..About::default()
        },
        sentence: format!("Disk '{name}' {what}."),
        remedy: remedy.to_owned(),
    }
}

/// A problem of a disk as a finding; `remedy` is for one that says none itself.
fn told(
    entry: &Entry,
    severity: Severity,
    what: &str,
    why: &Problem,
    remedy: Option<&str>,
) -> Finding {
    let remedy = why.remedy.as_deref().or(remedy).unwrap_or(AGAIN);
    about(entry, severity, &format!("{what}: {}", why.detail), remedy)
}

/// What keeps a disk's origin from getting what it lacks.
fn of_transfer(entry: &Entry, state: DestageState) -> Option<Finding> {
    let name = &entry.config.name;
    let (what, remedy) = match state {
        DestageState::Locked(reason) => (
            format!("is locked: {reason}"),
            format!(
                "stop the daemon and look: hearth recover verify FLASH --disk {name}; then hearth recover destage, \
                 export or drop"
            ),
        ),
        DestageState::Failing { error, .. } => (
            format!("cannot bring to its origin what that lacks: {error}"),
            "restore the origin; nothing is lost meanwhile".to_owned(),
        ),
        _ => return None,
    };
    Some(about(entry, Severity::Problem, &what, &remedy))
}

/// What is wrong with a disk that is served.
fn of_served(entry: &Entry, disk: &DiskStatus) -> Option<Finding> {
    if !disk.origin_connected {
        let what = "has lost the connection to its origin";
        let remedy =
            "restore the connection; hits are served meanwhile, other requests wait for it";
        return Some(about(entry, Severity::Warning, what, remedy));
    }
    let fullness = real(disk.dirty.logged.get()) / real(disk.write_back.dirty_max.get().max(1));
    (fullness >= LOG_FULL).then(|| {
        let what = format!(
            "has a dirty log that is {:.0} % full: writes wait when it is full",
            100.0 * fullness
        );
        let remedy = format!(
            "raise write_back.rate or write_back.dirty_max of the disk, or see why its origin is slow: hearth disk show {}",
            entry.config.name
        );
        about(entry, Severity::Warning, &what, &remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    fn sound() -> CacheStatus {
        let mut cache = samples::status().caches.remove(0);
        cache.state = CacheState::Serving;
        cache.reason = None;
        (cache.checksum_errors, cache.flash_errors) = (0, 0);
        cache.policy = None;
        cache
    }

    #[test]
    fn a_sound_host_says_how_much_it_serves() {
        let health = well(3, 1, 1);
        assert_eq!(health.sentence, "All is well: 3 disks of 1 VM on 1 cache.");
        assert_eq!((health.severity, health.remedy), (Severity::Info, None));
        assert!(of_cache(&sound()).is_empty());
    }

    #[test]
    fn a_host_without_disks_is_told_how_to_attach_one() {
        assert!(well(0, 0, 1).remedy.unwrap().contains("hearth disk attach"));
        assert!(
            well(0, 0, 0)
                .remedy
                .unwrap()
                .contains("hearth cache format")
        );
    }

    #[test]
    fn each_trouble_of_a_cache_says_what_to_do() {
        let worst = |change: fn(&mut CacheStatus)| {
            let mut cache = sound();
            change(&mut cache);
            let findings = of_cache(&cache);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(!findings[0].remedy.is_empty());
            findings[0].severity
        };
        let (problem, warning) = (Severity::Problem, Severity::Warning);
        assert_eq!(worst(|cache| cache.state = CacheState::Silent), problem);
        assert_eq!(worst(|cache| cache.state = CacheState::Bypassed), problem);
        assert_eq!(worst(|cache| cache.state = CacheState::Opening), warning);
        assert_eq!(worst(|cache| cache.reason = Some("late".into())), warning);
        assert_eq!(worst(|cache| cache.checksum_errors = 1), warning);
        let policy = |change: fn(&mut api::vms::PolicyStatus)| {
            let mut cache = samples::status().caches.remove(0);
            let mut policy = cache.policy.take().unwrap();
            (policy.load, policy.error, policy.write_budget) = (0.0, None, None);
            change(&mut policy);
            cache = CacheStatus {
                policy: Some(policy),
                ..sound()
            };
            of_cache(&cache).iter().map(|one| one.severity).max()
        };
        assert_eq!(policy(|_| ()), None);
        assert_eq!(policy(|policy| policy.load = 1.2), Some(warning));
        assert_eq!(
            policy(|policy| policy.error = Some("no".into())),
            Some(problem)
        );
    }
}
