//! A store in etcd.
//!
//! Every key is below the prefix of its cluster, so several clusters share an etcd. A call that has no answer in
//! [`CALL_TIME_MAX`] is given up; until then it is made again where that does no harm, at another member if there is one.
//! Of a commit that failed on its way nobody knows whether it was done, unless no member was reached or etcd itself says
//! no: that is [`StoreError::Unknown`].

use crate::{
    Answer, Change, Committed, Compare, Events, Key, Lease, PAGE_ENTRIES_MAX, Page, Prefix,
    Renewed, Revision, Store, StoreError, Versioned, Write, check,
};
use etcd_client::{
    Certificate, Client, Compare as EtcdCompare, CompareOp, ConnectOptions, Error, EventType,
    GetOptions, Identity, KeyValue, PutOptions, ResponseHeader, SortOrder, SortTarget, TlsOptions,
    Txn, TxnOp, WatchOptions, WatchStream,
};
use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tonic::{Code, ConnectError, Status};
use units::errors::chain;

/// How long a call waits for its answer.
const CALL_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may say nothing before it is asked, and how long it has to answer then.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// How long a call waits before it is made again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Files of this host for TLS with etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signs the servers' certificates, PEM.
    pub authority: PathBuf,
    /// This host's certificate and its key, PEM, where etcd wants them.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where etcd is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Its members: `http://10.0.0.1:2379`, or `https://`.
    pub endpoints: Vec<String>,
    /// The cluster's name, a part of a key.
    pub cluster: String,
    /// With TLS.
    pub tls: Option<TlsFiles>,
    /// A user and the file of the user's password, where etcd wants them.
    pub user: Option<(String, PathBuf)>,
}

/// A store in etcd.
#[derive(Clone)]
pub struct Etcd {
    options: Arc<EtcdOptions>,
    /// Once somebody has asked for something.
    client: Arc<OnceCell<Client>>,
    /// `/hearth/CLUSTER/`
    prefix: String,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Etcd {
    /// A store in this etcd. It is connected to by the first call.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the cluster has no name, or etcd no member.
    pub fn new(options: EtcdOptions) -> Result<Self, StoreError> {
        if options.endpoints.is_empty() {
            return Err(StoreError::Invalid("etcd has no member".to_owned()));
        }
        let cluster = Key::new(&options.cluster);
        let cluster = cluster.map_err(|error| StoreError::Invalid(error.to_string()))?;
        Ok(Self {
            prefix: format!("/hearth/{cluster}/"),
            options: Arc::new(options),
            client: Arc::default(),
        })
    }

    async fn client(&self) -> Result<Client, Failure> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        Ok(client.clone())
    }

    async fn connect(&self) -> Result<Client, Failure> {
        let options = &self.options;
        let mut connect = ConnectOptions::new()
            .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE)
            .with_keep_alive_while_idle(true)
            .with_connect_timeout(CALL_TIME_MAX)
            .with_require_leader(true);
        if let Some(tls) = &options.tls {
            connect = connect.with_tls(tls_options(tls)?);
        }
        if let Some((user, password)) = &options.user {
            let password = read(password)?;
            connect = connect.with_user(user, password.trim_end_matches('\n'));
        }
        let client = Client::connect(&options.endpoints, Some(connect)).await;
        client.map_err(|error| Failure::of(&error))
    }

    fn path(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The entry that etcd tells of. What is not a key of ours is somebody else's.
    fn versioned(&self, of: &KeyValue) -> Option<Versioned> {
        Some(Versioned {
            key: self.key(of.key())?,
            value: of.value().to_vec(),
            revision: revision(of.mod_revision()),
        })
    }

    fn key(&self, path: &[u8]) -> Option<Key> {
        let path = std::str::from_utf8(path).ok()?;
        Key::new(path.strip_prefix(&self.prefix)?).ok()
    }

    async fn read_page(&self, prefix: &Prefix, after: Option<&Key>) -> Result<Page, StoreError> {
        let below = format!("{}{}", self.prefix, prefix.as_str());
        let end = end_of(&below);
        // A key and the least character: the first path behind it.
        let begin = after.map_or(below, |after| format!("{}\0", self.path(after)));
        let limit = i64::try_from(PAGE_ENTRIES_MAX).unwrap_or(i64::MAX);
        let range = GetOptions::new()
            .with_range(end)
            .with_limit(limit)
            .with_sort(SortTarget::Key, SortOrder::Ascend);
        let call = |mut client: Client| {
            let (begin, range) = (begin.clone(), range.clone());
            async move { client.get(begin, Some(range)).await }
        };
        let found = self.call(Again::Always, call).await?;
        let entries = found.kvs().iter().filter_map(|kv| self.versioned(kv));
        Ok(Page {
            entries: entries.collect(),
            more: found.more(),
            revision: of_header(found.header())?,
        })
    }

    fn compare(&self, compare: &Compare) -> EtcdCompare {
        match compare {
            Compare::Absent(key) => {
                EtcdCompare::create_revision(self.path(key), CompareOp::Equal, 0)
            }
            Compare::Unchanged(key, Revision(revision)) => {
                let revision = i64::try_from(*revision).unwrap_or(i64::MAX);
                EtcdCompare::mod_revision(self.path(key), CompareOp::Equal, revision)
            }
        }
    }

    fn write(&self, write: &Write) -> TxnOp {
        match write {
            Write::Put { key, value, lease } => {
                let options = lease.map(|lease| PutOptions::new().with_lease(lease.id));
                TxnOp::put(self.path(key), value.clone(), options)
            }
            Write::Delete(key) => TxnOp::delete(self.path(key), None),
        }
    }

    async fn committed(&self, when: &[Compare], then: &[Write]) -> Result<Committed, StoreError> {
        check(when, then)?;
        let compares: Vec<_> = when.iter().map(|one| self.compare(one)).collect();
        let writes: Vec<_> = then.iter().map(|one| self.write(one)).collect();
        let txn = Txn::new().when(compares).and_then(writes);
        let call = |mut client: Client| {
            let txn = txn.clone();
            async move {
                match client.txn(txn).await {
                    // Not as it has to be, as a comparison may not hold.
                    Err(error) if is_lease_gone(&error) => Ok(None),
                    answer => answer.map(Some),
                }
            }
        };
        let answer = match self.call(Again::IfUnreached, call).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(Committed::Refused),
            Err(Failure::Lost(why)) => return Err(StoreError::Unknown(why)),
            Err(failure) => return Err(failure.into()),
        };
        if !answer.succeeded() {
            return Ok(Committed::Refused);
        }
        Ok(Committed::Done(of_header(answer.header())?))
    }

    async fn watched(&self, prefix: &Prefix, after: Revision) -> Result<Watched, StoreError> {
        let from = i64::try_from(after.0.saturating_add(1)).unwrap_or(i64::MAX);
        let below = format!("{}{}", self.prefix, prefix.as_str());
        let call = |mut client: Client| {
            let options = WatchOptions::new().with_prefix().with_start_revision(from);
            let below = below.clone();
            async move { client.watch(below, Some(options)).await }
        };
        Ok(Watched {
            stream: self.call(Again::Always, call).await?,
            etcd: self.clone(),
            seen: VecDeque::new(),
        })
    }

    async fn begun(&self, ttl: Duration) -> Result<Lease, StoreError> {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        // One that was granted and is not heard of ends by itself.
        let call = |mut client: Client| async move { client.lease_grant(seconds, None).await };
        let id = self.call(Again::Always, call).await?.id();
        Ok(Lease { id, ttl })
    }

    async fn renewed(&self, lease: Lease) -> Result<Renewed, StoreError> {
        let call = |mut client: Client| async move {
            match client.lease_keep_alive(lease.id).await {
                Ok(_) => Ok(Renewed::Stands),
                Err(Error::LeaseKeepAliveError(_)) => Ok(Renewed::Ended),
                Err(error) => Err(error),
            }
        };
        Ok(self.call(Again::Always, call).await?)
    }

    async fn revoked(&self, lease: Lease) -> Result<(), StoreError> {
        let call = |mut client: Client| async move {
            match client.lease_revoke(lease.id).await {
                Ok(_) => Ok(()),
                Err(error) if is_lease_gone(&error) => Ok(()),
                Err(error) => Err(error),
            }
        };
        Ok(self.call(Again::Always, call).await?)
    }

    /// Makes a call, again and again if need be.
    async fn call<T, F>(&self, again: Again, call: impl Fn(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + CALL_TIME_MAX;
        loop {
            let asking = async {
                let client = self.client().await?;
                call(client).await.map_err(|error| Failure::of(&error))
            };
            let failure = match tokio::time::timeout_at(until, asking).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Lost(format!("no answer in {} s", CALL_TIME_MAX.as_secs())),
            };
            let is_harmless = match (&failure, again) {
                (Failure::Unreached(_), _) | (Failure::Lost(_), Again::Always) => true,
                (Failure::Lost(_), Again::IfUnreached) | (Failure::Said(_), _) => false,
            };
            if !is_harmless || Instant::now() + AGAIN_AFTER > until {
                return Err(failure);
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// When a call may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// Twice is as good as once.
    Always,
    /// It must not be done twice.
    IfUnreached,
}

/// Why a call has no answer.
enum Failure {
    /// No member was reached.
    Unreached(String),
    /// It, or its answer, was lost on the way.
    Lost(String),
    /// etcd, or its client, says no.
    Said(StoreError),
}

impl Failure {
    fn of(error: &Error) -> Self {
        let why = error.to_string();
        let status = match error {
            Error::GRpcStatus(status) => status,
            Error::InvalidArgs(_) | Error::InvalidUri(_) => {
                return Self::Said(StoreError::Invalid(why));
            }
            _ => return Self::Lost(why),
        };
        match status.code() {
            Code::PermissionDenied | Code::Unauthenticated => {
                Self::Said(StoreError::Forbidden(status.message().to_owned()))
            }
            Code::ResourceExhausted if why.contains("space") => {
                Self::Said(StoreError::Full(status.message().to_owned()))
            }
            Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => {
                Self::Said(StoreError::Invalid(status.message().to_owned()))
            }
            _ => match unreached(status) {
                Some(why) => Self::Unreached(why),
                None => Self::Lost(status.message().to_owned()),
            },
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreached(why) | Failure::Lost(why) => Self::Away(why),
            Failure::Said(error) => error,
        }
    }
}

/// Why nobody was connected to, if that is it.
fn unreached(status: &Status) -> Option<String> {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return Some(chain(error));
        }
        source = error.source();
    }
    None
}

impl Store for Etcd {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Versioned>> {
        Box::pin(async move {
            let call = |mut client: Client| async move { client.get(self.path(key), None).await };
            let found = self.call(Again::Always, call).await?;
            Ok(found.kvs().first().and_then(|kv| self.versioned(kv)))
        })
    }

    fn page<'a>(&'a self, prefix: &'a Prefix, after: Option<&'a Key>) -> Answer<'a, Page> {
        Box::pin(self.read_page(prefix, after))
    }

    fn commit<'a>(&'a self, when: &'a [Compare], then: &'a [Write]) -> Answer<'a, Committed> {
        Box::pin(self.committed(when, then))
    }

    fn watch<'a>(&'a self, prefix: &'a Prefix, after: Revision) -> Answer<'a, Box<dyn Events>> {
        Box::pin(async move {
            let watched = self.watched(prefix, after).await?;
            Ok(Box::new(watched) as Box<dyn Events>)
        })
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Lease> {
        Box::pin(self.begun(ttl))
    }

    fn renew(&self, lease: Lease) -> Answer<'_, Renewed> {
        Box::pin(self.renewed(lease))
    }

    fn revoke(&self, lease: Lease) -> Answer<'_, ()> {
        Box::pin(self.revoked(lease))
    }
}

/// Somebody who follows changes.
struct Watched {
    etcd: Etcd,
    stream: WatchStream,
    /// Told, and not handed on yet.
    seen: VecDeque<Change>,
}

impl Events for Watched {
    fn next(&mut self) -> Answer<'_, Change> {
        Box::pin(async {
            loop {
                if let Some(change) = self.seen.pop_front() {
                    return Ok(change);
                }
                let told = self.stream.message().await;
                let told = told.map_err(|error| Failure::of(&error))?;
                let Some(told) = told else {
                    return Err(StoreError::Away("it ended the watch".to_owned()));
                };
                if told.canceled() {
                    // What is asked for was compacted, or is yet to come: etcd was made anew.
                    return Ok(Change::Skipped);
                }
                for event in told.events() {
                    let Some(kv) = event.kv() else { continue };
                    let change = match event.event_type() {
                        EventType::Put => self.etcd.versioned(kv).map(Change::Put),
                        EventType::Delete => self.etcd.key(kv.key()).map(|key| {
                            let revision = revision(kv.mod_revision());
                            Change::Deleted { key, revision }
                        }),
                    };
                    self.seen.extend(change);
                }
            }
        })
    }
}

fn is_lease_gone(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("lease not found"))
}

fn revision(of: i64) -> Revision {
    Revision(u64::try_from(of).unwrap_or(0))
}

fn of_header(header: Option<&ResponseHeader>) -> Result<Revision, StoreError> {
    let header = header.ok_or_else(|| StoreError::Away("an answer without a header".to_owned()))?;
    Ok(revision(header.revision()))
}

/// The first text behind all that begin with this one, which ends with a slash.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn tls_options(files: &TlsFiles) -> Result<TlsOptions, Failure> {
    let mut options =
        TlsOptions::new().ca_certificate(Certificate::from_pem(read(&files.authority)?));
    if let Some((certificate, key)) = &files.client {
        options = options.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(options)
}

/// A file that an operator can put there while the store is away.
fn read(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| Failure::Unreached(format!("{}: {error}", path.display())))
}
