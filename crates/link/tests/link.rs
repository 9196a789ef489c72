//! Two hosts on the loopback, with real certificates and real TLS.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use link::{Event, Identity, Link, NotLinked, Peer, PeerStatus, Times};
use link_protocol::{DATA_MAX, Frame, Message, Preface};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const TIMES: Times = Times {
    handshake_max: Duration::from_secs(5),
    heartbeat: Duration::from_millis(50),
    silence_max: Duration::from_millis(1500),
    pause_min: Duration::from_millis(10),
    pause_max: Duration::from_millis(50),
};
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// An authority, and a folder for what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
    file: PathBuf,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let file = folder.path().join("authority.pem");
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self {
            issuer,
            folder,
            file,
        }
    }

    /// Certificate and key of a host with this name.
    fn files(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |what: &str| self.folder.path().join(format!("{name}-{what}.pem"));
        let (certificate_file, key_file) = (path("certificate"), path("key"));
        std::fs::write(&certificate_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (certificate_file, key_file)
    }

    /// A host with this name that believes those whom `believes` has signed.
    fn identity(&self, name: &str, believes: &Path) -> Identity {
        let (certificate, key) = self.files(name);
        Identity::load(name, &certificate, &key, believes).unwrap()
    }
}

/// A host with its link; its tasks end with it.
struct Host {
    link: Link,
    events: Receiver<Event>,
    tasks: JoinSet<()>,
}

impl Host {
    fn new(identity: Identity, peer: &str, address: SocketAddr, instance: u64) -> Self {
        let peer = Peer {
            name: peer.to_owned(),
            address: address.to_string(),
        };
        let (link, events) = Link::new(identity, vec![peer], instance, TIMES).unwrap();
        let tasks = JoinSet::new();
        Self {
            link,
            events,
            tasks,
        }
    }

    fn listen(&mut self, listener: TcpListener) {
        self.tasks.spawn(self.link.clone().listen(listener));
    }

    fn dial(&mut self) {
        let peer = self.link.peers().next().unwrap();
        self.tasks.spawn(self.link.clone().dial(peer));
    }

    async fn next(&mut self) -> Event {
        let next = timeout(PATIENCE, self.events.recv());
        next.await.expect("an event").unwrap()
    }

    /// Whether anything happens within a second.
    async fn something_happens(&mut self) -> bool {
        timeout(Duration::from_secs(1), self.events.recv())
            .await
            .is_ok()
    }

    async fn linked(&mut self) {
        loop {
            if let Event::Linked { .. } = self.next().await {
                return;
            }
        }
    }

    async fn lost(&mut self) {
        loop {
            if let Event::Lost { .. } = self.next().await {
                return;
            }
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), NotLinked> {
        let peer = self.link.peers().next().unwrap();
        self.link.send(peer, frame).await
    }

    fn status(&self) -> PeerStatus {
        self.link.status_of(self.link.peers().next().unwrap())
    }

    fn problem(&self) -> Option<String> {
        self.status().problem
    }

    /// Waits until there is a reason why this host is not linked.
    async fn refused(&self) -> String {
        let waiting = async {
            loop {
                if let Some(problem) = self.problem() {
                    return problem;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("a reason")
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn claim(number: u64) -> Frame {
    Frame::numbered(number, Message::AskLook { disk: 7 })
}

/// A host that listens as node-b and lets node-a in.
async fn node_b(authority: &Authority, instance: u64) -> (Host, SocketAddr) {
    let (listener, address) = listener().await;
    let identity = authority.identity("node-b", &authority.file);
    // Nobody is there: it only listens.
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let mut host = Host::new(identity, "node-a", nowhere, instance);
    host.listen(listener);
    (host, address)
}

fn node_a(authority: &Authority, address: SocketAddr, instance: u64) -> Host {
    let identity = authority.identity("node-a", &authority.file);
    let mut host = Host::new(identity, "node-b", address, instance);
    host.dial();
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_that_dial_each_other_keep_one_connection_and_its_order() {
    let authority = Authority::new();
    for (of_a, of_b) in [(1, 2), (2, 1)] {
        let ((listens_a, at_a), (listens_b, at_b)) = (listener().await, listener().await);
        let mut a = Host::new(
            authority.identity("node-a", &authority.file),
            "node-b",
            at_b,
            of_a,
        );
        let mut b = Host::new(
            authority.identity("node-b", &authority.file),
            "node-a",
            at_a,
            of_b,
        );
        a.listen(listens_a);
        b.listen(listens_b);
        a.dial();
        b.dial();
        a.linked().await;
        b.linked().await;
        // Of two connections one is dropped, soon.
        while a.something_happens().await || b.something_happens().await {}
        let data = vec![0x5a; DATA_MAX];
        for number in 1..=40 {
            let big = Frame {
                data: data.clone(),
                ..Frame::numbered(number, Message::Bytes)
            };
            let (there, back) = tokio::join!(a.send(big), b.send(claim(number)));
            there.unwrap();
            back.unwrap();
            let Event::Said { frame, .. } = b.next().await else {
                panic!("it says something");
            };
            assert_eq!((frame.number, frame.data.len()), (number, DATA_MAX));
            let Event::Said { frame, .. } = a.next().await else {
                panic!("it says something");
            };
            assert_eq!(frame, claim(number));
        }
        assert!(a.status().version.is_some() && a.problem().is_none());
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_and_dialed_again() {
    let authority = Authority::new();
    let (mut b, at_b) = node_b(&authority, 2).await;
    let (relay, at_relay) = listener().await;
    let mut a = node_a(&authority, at_relay, 1);
    for _ in 0..3 {
        let (mut from_a, _) = relay.accept().await.unwrap();
        let mut to_b = TcpStream::connect(at_b).await.unwrap();
        let copying = tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut from_a, &mut to_b).await;
        });
        a.linked().await;
        b.linked().await;
        a.send(claim(1)).await.unwrap();
        assert!(matches!(b.next().await, Event::Said { .. }));
        copying.abort();
        a.lost().await;
        b.lost().await;
    }
    assert_eq!(b.send(claim(2)).await, Err(NotLinked));
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_lost_and_one_that_only_idles_is_not() {
    let authority = Authority::new();
    let (mut b, at_b) = node_b(&authority, 2).await;
    let (relay, at_relay) = listener().await;
    let mut a = node_a(&authority, at_relay, 1);
    let (from_a, _) = relay.accept().await.unwrap();
    let to_b = TcpStream::connect(at_b).await.unwrap();
    let (mut a_reads, mut a_writes) = from_a.into_split();
    let (mut b_reads, mut b_writes) = to_b.into_split();
    let there = tokio::spawn(async move { tokio::io::copy(&mut a_reads, &mut b_writes).await });
    let back = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut b_reads, &mut a_writes).await;
        a_writes
    });
    a.linked().await;
    b.linked().await;
    sleep(TIMES.silence_max * 2).await;
    assert!(a.events.try_recv().is_err() && b.events.try_recv().is_err());
    // The relay stays connected to both, and carries nothing any more.
    there.abort();
    back.abort();
    a.lost().await;
    b.lost().await;
    assert!(!a.refused().await.is_empty());
}

#[tokio::test]
async fn who_is_no_peer_is_let_in_nowhere() {
    let authority = Authority::new();
    let (mut b, at_b) = node_b(&authority, 2).await;
    // Signed by the authority, and not on the list.
    let identity = authority.identity("node-c", &authority.file);
    let mut other = Host::new(identity, "node-b", at_b, 1);
    other.dial();
    assert!(!other.refused().await.is_empty());
    // On the list by its name, and signed by somebody else.
    let forger = Authority::new();
    let mut forged = Host::new(
        forger.identity("node-a", &authority.file),
        "node-b",
        at_b,
        1,
    );
    forged.dial();
    assert!(!forged.refused().await.is_empty());
    // The one that is dialed has to be who it should be, too.
    let identity = authority.identity("node-a", &authority.file);
    let mut misled = Host::new(identity, "node-z", at_b, 1);
    misled.dial();
    let reason = misled.refused().await;
    assert!(reason.contains("TLS"), "{reason}");
    // No TLS at all.
    let mut plain = TcpStream::connect(at_b).await.unwrap();
    plain.write_all(&Preface::ours(1).encode()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(b.events.try_recv().is_err(), "nobody was let in");
    // Who is one still gets in.
    let mut a = node_a(&authority, at_b, 1);
    a.linked().await;
    b.linked().await;
}

#[tokio::test]
async fn strangers_that_say_nothing_do_not_keep_peers_out_for_good() {
    let authority = Authority::new();
    let (mut b, at_b) = node_b(&authority, 2).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(at_b).await.unwrap());
    }
    let mut a = node_a(&authority, at_b, 1);
    a.linked().await;
    b.linked().await;
}

/// A peer with the right certificate that says these bytes after the handshake. Returns why it was dropped.
async fn says(bytes: Vec<u8>) -> String {
    let authority = Authority::new();
    let (listener, address) = listener().await;
    let (certificate, key) = authority.files("node-b");
    let server = acceptor(&certificate, &key);
    let peer = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = server.accept(stream).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            stream.flush().await.unwrap();
            let mut sink = Vec::new();
            let _ = stream.read_to_end(&mut sink).await;
        }
    });
    let a = node_a(&authority, address, 1);
    let reason = a.refused().await;
    peer.abort();
    reason
}

fn acceptor(certificate: &Path, key: &Path) -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(certificate).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config).into()
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_is_dropped_with_the_reason() {
    let reason = says(b"GET / HTTP/1.1\r\nHost: node-b\r\n\r\n".to_vec()).await;
    assert!(reason.contains("does not speak"), "{reason}");
    let newer = Preface {
        oldest: 900,
        newest: 901,
        ..Preface::ours(2)
    };
    let reason = says(newer.encode().to_vec()).await;
    assert!(reason.contains("upgrade the older one"), "{reason}");
    let mut bytes = Preface::ours(2).encode().to_vec();
    bytes.extend_from_slice(&[0xff; 16]);
    let reason = says(bytes).await;
    assert!(reason.contains("broke the protocol"), "{reason}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let (certificate, key) = authority.files("node-a");
    let missing = authority.folder.path().join("missing.pem");
    let problem = |certificate: &Path, key: &Path, authority: &Path| {
        let loaded = Identity::load("node-a", certificate, key, authority);
        loaded.err().unwrap().to_string()
    };
    assert!(problem(&missing, &key, &authority.file).contains("missing.pem"));
    assert!(problem(&certificate, &missing, &authority.file).contains("missing.pem"));
    assert!(problem(&certificate, &key, &missing).contains("missing.pem"));
    assert!(problem(&key, &key, &authority.file).contains("no certificate in"));
    let (theirs, other) = authority.files("node-b");
    let refused = problem(&theirs, &other, &authority.file);
    assert!(refused.contains("is not one of 'node-a'"), "{refused}");
    assert!(problem(&certificate, &other, &authority.file).contains("its key cannot be used"));
    let identity = authority.identity("node-c", &authority.file);
    let peer = Peer {
        name: "not a name!".to_owned(),
        address: "127.0.0.1:1".to_owned(),
    };
    let refused = Link::new(identity, vec![peer], 1, TIMES).err().unwrap();
    assert!(refused.to_string().contains("no DNS name"));
}
