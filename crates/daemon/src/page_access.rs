//! Who may change something through the page, and what is told of those who may not.
//!
//! ```text
//!   a request that changes something ─► proof: a token, a certificate ─┬─► an operator's name
//!                                                                      └─► Denied ─► counted, told once a minute, slowed down
//! ```
//!
//! Invariants: an operator who shows the right proof waits for nobody's wrong ones; nothing that is not an operator's fills the
//! log or the events.

use configuration::WebConfig;
use events::EventKind;
use operators::{Failures, FileError, OperatorsFile, Watched};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long a wrong proof waits for its answer.
const DELAY: Duration = Duration::from_secs(1);
/// Wrong proofs that wait at a time: an eighth of the page's connections. Further ones are told to come later, at once.
const DELAYED_MAX: usize = 8;

/// What a client shows to prove that it is an operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    /// The header `Authorization`, if there is one: the token is looked at alone.
    pub(crate) authorization: Option<String>,
    /// The names in its certificate, which the page's authority has signed.
    pub(crate) certificate: Vec<String>,
}

/// Why a request that changes something is denied.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The configuration names no file of operators.
    NoOperators,
    /// The file cannot be used.
    Unusable(FileError),
    /// Nothing was shown.
    NoProof,
    /// It is nobody's token.
    WrongToken,
    /// The certificate is no operator's.
    UnknownCertificate,
    /// The request may come from another page.
    Foreign,
    /// The change is not open to the page.
    Closed,
    /// The name that has to be typed is missing or wrong.
    Untyped,
}

impl Denied {
    /// The words of the metric's label, in the order in which they are shown.
    pub(crate) const REASONS: [&'static str; 8] = [
        "no-operators",
        "unusable-file",
        "no-proof",
        "wrong-token",
        "unknown-certificate",
        "foreign",
        "closed",
        "untyped",
    ];

    const fn place(&self) -> usize {
        match self {
            Self::NoOperators => 0,
            Self::Unusable(_) => 1,
            Self::NoProof => 2,
            Self::WrongToken => 3,
            Self::UnknownCertificate => 4,
            Self::Foreign => 5,
            Self::Closed => 6,
            Self::Untyped => 7,
        }
    }

    /// Whether somebody tries what is not theirs.
    const fn is_wrong_proof(&self) -> bool {
        matches!(self, Self::WrongToken | Self::UnknownCertificate)
    }
}

/// What becomes of a denied request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is answered.
    Now,
    /// Too many wait already: it is told to come later.
    Later,
}

/// The operators of the page, and counts of what was denied.
pub(crate) struct PageAccess {
    operators: Option<Arc<Watched>>,
    begun: Instant,
    failures: Mutex<Failures>,
    delays: Semaphore,
    denied: [AtomicU64; Denied::REASONS.len()],
}

impl PageAccess {
    /// As the configuration has it.
    pub(crate) fn of(web: &WebConfig) -> Self {
        let file = web.operators.as_deref();
        let watched = file.map(|path| Arc::new(Watched::new(OperatorsFile::new(path, None))));
        if let Some(watched) = &watched
            && let Err(error) = watched.now()
        {
            tell_of_file(&error);
        }
        Self {
            operators: watched,
            begun: Instant::now(),
            failures: Mutex::default(),
            delays: Semaphore::new(DELAYED_MAX),
            denied: Default::default(),
        }
    }

    /// Whether there is a file of operators.
    pub(crate) fn has_operators(&self) -> bool {
        self.operators.is_some()
    }

    /// Whose proof this is.
    ///
    /// # Errors
    /// Why it is no operator's.
    pub(crate) async fn operator(&self, proof: Proof) -> Result<String, Denied> {
        let Some(watched) = self.operators.clone() else {
            return Err(Denied::NoOperators);
        };
        // A file is looked at, on a file system that may be slow.
        let looked = tokio::task::spawn_blocking(move || name_of(&watched, &proof));
        looked.await.unwrap_or(Err(Denied::NoProof))
    }

    /// Counts and tells of a denied request, and slows down one that shows what is not its own. `what` it was, from where.
    pub(crate) async fn deny(&self, denied: &Denied, what: &str, address: SocketAddr) -> Answer {
        self.denied[denied.place()].fetch_add(1, Ordering::Relaxed);
        let failed = {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.note(self.begun.elapsed())
        };
        if let Some(count) = failed {
            tell(denied, what, address, count);
        }
        if !denied.is_wrong_proof() {
            return Answer::Now;
        }
        let Ok(_place) = self.delays.try_acquire() else {
            return Answer::Later;
        };
        tokio::time::sleep(DELAY).await;
        Answer::Now
    }

    /// Counts a request that an operator may not make.
    pub(crate) fn count(&self, denied: &Denied) {
        self.denied[denied.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were denied, by the reasons of [`Denied::REASONS`].
    pub(crate) fn denied(&self) -> [u64; Denied::REASONS.len()] {
        self.denied
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }
}

fn tell(denied: &Denied, what: &str, address: SocketAddr, count: u64) {
    if let Denied::Unusable(error) = denied {
        tell_of_file(error);
    }
    let reason = Denied::REASONS[denied.place()];
    tracing::warn!(
        event = EventKind::ChangeDenied.word(),
        asked_from = %address,
        reason,
        "requests to change something through the page were denied: {count}, the last one {what}"
    );
}

fn tell_of_file(error: &FileError) {
    tracing::warn!(
        event = EventKind::OperatorsUnusable.word(),
        reason = units::errors::chain(error),
        remedy = error.remedy(),
        "nobody can change anything through the page"
    );
}

fn name_of(watched: &Watched, proof: &Proof) -> Result<String, Denied> {
    let roster = watched.now().map_err(Denied::Unusable)?;
    if let Some(authorization) = &proof.authorization {
        let token = web::bearer(authorization).ok_or(Denied::NoProof)?;
        let name = roster.by_token(token).ok_or(Denied::WrongToken)?;
        return Ok(name.to_owned());
    }
    if proof.certificate.is_empty() {
        return Err(Denied::NoProof);
    }
    let name = roster.by_certificate(&proof.certificate);
    name.map(str::to_owned).ok_or(Denied::UnknownCertificate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use operators::Token;

    fn access(folder: &std::path::Path) -> (PageAccess, Token) {
        let path = folder.join("operators");
        let token = Token::new().unwrap();
        let file = OperatorsFile::new(&path, None);
        file.change(|roster| {
            roster.add_certificate("cert:bob")?;
            roster.add_token("alice", token.hash())
        })
        .unwrap();
        let web = WebConfig {
            operators: Some(path),
            ..WebConfig::default()
        };
        (PageAccess::of(&web), token)
    }

    fn proof(authorization: Option<String>, certificate: &[&str]) -> Proof {
        Proof {
            authorization,
            certificate: certificate.iter().map(ToString::to_string).collect(),
        }
    }

    #[tokio::test]
    async fn a_proof_is_its_operators_and_a_token_goes_before_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (access, token) = access(folder.path());
        let right = Some(format!("Bearer {}", token.text()));
        let wrong = Some("Bearer x".to_owned());
        let of = |proof| access.operator(proof);
        assert_eq!(of(proof(right.clone(), &[])).await.unwrap(), "alice");
        assert_eq!(of(proof(right, &["bob"])).await.unwrap(), "alice");
        assert_eq!(of(proof(None, &["x", "bob"])).await.unwrap(), "cert:bob");
        for (shown, denied) in [
            (proof(None, &[]), Denied::NoProof),
            (proof(Some("Basic x".to_owned()), &["bob"]), Denied::NoProof),
            (proof(wrong.clone(), &["bob"]), Denied::WrongToken),
            (proof(None, &["eve"]), Denied::UnknownCertificate),
        ] {
            let found = of(shown).await.unwrap_err();
            assert_eq!(found.place(), denied.place(), "{found:?}");
        }
    }

    #[tokio::test]
    async fn without_a_file_nobody_is_an_operator() {
        let nobody = PageAccess::of(&WebConfig::default());
        let denied = nobody
            .operator(proof(Some("Bearer x".to_owned()), &[]))
            .await;
        assert!(matches!(denied, Err(Denied::NoOperators)), "{denied:?}");
        let folder = tempfile::tempdir().unwrap();
        let (access, token) = access(folder.path());
        std::fs::remove_file(folder.path().join("operators")).unwrap();
        let right = Some(format!("Bearer {}", token.text()));
        let denied = access.operator(proof(right, &[])).await;
        assert!(matches!(denied, Err(Denied::Unusable(_))), "{denied:?}");
    }

    #[tokio::test]
    async fn wrong_proofs_wait_a_few_at_a_time_and_hold_up_nobody() {
        let access = Arc::new(PageAccess::of(&WebConfig::default()));
        let address = "192.0.2.7:1".parse().unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..DELAYED_MAX {
            let access = Arc::clone(&access);
            waiting.spawn(async move { access.deny(&Denied::WrongToken, "x", address).await });
        }
        while access.delays.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(waiting.try_join_next().is_none(), "each waits");
        let more = access.deny(&Denied::WrongToken, "x", address).await;
        assert_eq!(more, Answer::Later);
        let other = access.deny(&Denied::NoProof, "x", address).await;
        assert_eq!(other, Answer::Now);
        let counts = access.denied();
        assert_eq!(counts[Denied::WrongToken.place()], 9);
        assert_eq!(counts[Denied::NoProof.place()], 1);
    }
}
