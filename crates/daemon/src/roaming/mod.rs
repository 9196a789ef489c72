//! The disks that roam: those of a VM are a unit, which a task of its own carries through the actions of its
//! [`Ownership`](handoff::Ownership).
//!
//! ```text
//!   link ── what the peer says ──┐
//!   shard ── what clients need ──┼─► task ── events ──► Ownership ── actions ──► steps: shard, origin, record
//!   time ── try again, give up ──┘                                          └──► link
//! ```

mod borrowing;
mod demand;
mod draining;
mod entering;
mod expected;
mod held_copy;
mod image;
mod images;
mod keeping;
mod lending;
mod loans;
mod member;
mod naming;
mod origin_lock;
mod places;
mod plan;
mod proxied_reads;
mod pulling;
mod questions;
mod register;
mod same_origin;
mod session;
mod shipping;
mod split;
mod standing;
mod steps;
mod task;
mod together;
mod under_way;
mod wording;

use super::control::Control;
use super::looks::Looks;
use super::orders::Order;
use super::pace::Pace;
use super::peering::Peering;
use super::registry::Entry;
use super::roaming_answers::{RoamingAnswers, RoamingPlace};
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{Address, Auto, Config, LinkConfig, Name, Switch};
use images::Coming;
use link::{Event, Identity, IdentityError, Link, Peer, PeerId, Times};
use link_protocol::{Frame, Message, NotServed};
use places::{Entered, Gathering, Places, Tell};
use shard::{ImageHandle, StandbyNeeds};
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use telemetry::Tracer;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use units::{Bytes, DiskId};

pub use register::given_in;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What happens to a disk that roams.
enum Happens {
    /// It needs something of the other host.
    Needed(StandbyNeeds),
    /// What it borrows is listed, or pulled: the contents of a segment of the other host are needed.
    NeedsContents {
        at: u32,
        answer: oneshot::Sender<pulling::Contents>,
    },
    /// Everything that could be borrowed was pulled.
    Pulled,
    /// Who copies its cache ahead has a question for the other host.
    Asks {
        question: Message,
        answer: oneshot::Sender<Frame>,
    },
    /// Its cache is copied ahead; the other host has the disk in this epoch.
    Stands {
        epoch: u64,
    },
    /// The records of the unit's disks were looked at: which disk is where, if it is split.
    Split {
        why: Option<String>,
    },
    /// It is a base image, and this is known of a VM that reads it.
    Comes {
        vm: Name,
        coming: Coming,
        from: PeerId,
    },
    /// It is a base image, and an operator says at which rate the caches of a VM that reads it are copied.
    Rate(Auto<Bytes>),
    /// A round through the other host's image has ended, or why not well.
    RoundEnded {
        problem: Option<String>,
    },
    /// The other host's image is the same as this attachment of ours, or is not: the answer to the question of this number.
    Compared {
        to: PeerId,
        number: u64,
        outcome: Result<u64, NotServed>,
    },
    Linked(PeerId),
    Lost(PeerId),
    Said(PeerId, Frame),
    /// The record of a disk names this host, in this epoch.
    Named {
        host: String,
        epoch: u64,
    },
    /// An operator says something.
    Ordered(Order),
    /// It is time to look again whether the guest has stopped, for this claim.
    LookAgain {
        is_return: bool,
        claim: u64,
    },
}

/// The disks that roam, and the hosts that they roam among.
#[derive(Clone)]
pub(super) struct Roaming {
    peering: Peering,
    places: Arc<Mutex<Places>>,
    /// Looks that are under way for the peer.
    looking: Arc<Semaphore>,
    tracer: Tracer,
}

/// How long a guest waits for its disk, or for the bytes of a read.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Looks at disks for the peer at a time; others are not answered.
const LOOKS_MAX: usize = 8;

impl Roaming {
    /// Starts the link to the peers. `None`: no disk roams.
    pub(super) async fn start(config: &Config, tracer: &Tracer) -> Result<Option<Self>, Error> {
        let settings = &config.link;
        let roams = config.disks.iter().any(|disk| disk.roams);
        let (Some(here), true) = (&settings.name, roams) else {
            return Ok(None);
        };
        let identity = identity(here, settings)?;
        let peers = config.peers.iter().map(|peer| Peer {
            name: peer.name.clone(),
            address: peer.address.clone(),
        });
        let (link, events) = Link::new(identity, peers.collect(), instance()?, Times::default())?;
        if let Switch::On(Address(address)) = settings.address.0 {
            let listener = tokio::net::TcpListener::bind(address).await;
            let listener = listener
                .map_err(|error| format!("the link cannot listen at {address}: {error}"))?;
            tokio::spawn(link.clone().listen(listener));
        }
        link.peers()
            .for_each(|peer| drop(tokio::spawn(link.clone().dial(peer))));
        let pace = Pace::new(settings.rate.0);
        let Some(peering) = Peering::new(link, here.clone(), pace) else {
            return Ok(None);
        };
        let places = Places::new(&config.disks, || peering.with(peering.peer()));
        let roaming = Self {
            peering,
            places: Arc::new(Mutex::new(places)),
            looking: Arc::new(Semaphore::new(LOOKS_MAX)),
            tracer: tracer.clone(),
        };
        tokio::spawn(roaming.clone().listen(events));
        Ok(Some(roaming))
    }

    /// Where operators look at its disks.
    pub(super) fn answers(&self) -> RoamingAnswers {
        let places = self.places();
        let images = places.iter();
        let images = images.filter_map(|(disk, place)| {
            Some((*disk, (place.image.clone()?, place.peering.clone())))
        });
        let images = images.collect();
        let disks = places.iter().filter(|(_, place)| place.image.is_none());
        let places = disks.map(|(disk, place)| {
            let tell = place.tell.clone();
            let order = move |order| {
                // A unit that has ended drops it.
                let _ = tell.send(Happens::Ordered(order));
            };
            (
                *disk,
                RoamingPlace::new(
                    (Arc::clone(&place.seen), place.peering.clone()),
                    place.others.clone(),
                    Box::new(order),
                ),
            )
        });
        RoamingAnswers::new(self.peering.clone(), places.collect(), images)
    }

    /// Lets a disk roam from now on, with the others of its VM once they have entered.
    pub(super) async fn enter(self, control: Arc<Control>, entry: Entry) {
        // Only disks of the configuration roam, and each enters once.
        if let Some((disks, told)) = self.gather(&control, &entry) {
            let images = self.places().images();
            entering::run(disks, images, told, self.tracer).await;
        }
    }

    /// A disk enters. The disks of its VM, if it is the last of them; else it waits.
    fn gather(&self, control: &Arc<Control>, entry: &Entry) -> Option<(Vec<Entered>, Told)> {
        // Until the disk is shown as waiting no other one enters: the last one begins them all, and from then on none waits.
        let mut places = self.places();
        match places.enter(Arc::clone(control), entry.clone())? {
            Gathering::All(disks, told) => Some((disks, told)),
            Gathering::WaitsFor(others) => {
                let others = others.iter().map(DiskId::to_string);
                let others = others.collect::<Vec<_>>().join(", ");
                let detail = format!(
                    "it moves with other disks of its VM, which are not there yet: {others}"
                );
                let why = Problem::new(ProblemKind::NotReady, detail);
                control.registry().wait(entry, why);
                None
            }
        }
    }

    /// Lets the cache of a base image follow the VMs that read it, from when it is attached next.
    pub(super) fn follow(&self, control: &Arc<Control>, entry: &Entry) {
        let gathered = self.places().enter(Arc::clone(control), entry.clone());
        let (Some(Gathering::All(mut images, told)), Some(shard)) =
            (gathered, control.shards().get(&entry.cache))
        else {
            return;
        };
        let image = images.pop();
        let Some((image, looks)) =
            image.and_then(|mut of| of.image.take().map(|looks| (of, looks)))
        else {
            return;
        };
        let (shard, tell) = (shard.handle().clone(), image.tell.clone());
        let needed = Arc::new(move |needs| {
            // The daemon stops.
            let _ = tell.send(Happens::Needed(needs));
        });
        ImageHandle::of(&shard, entry.id).follow(needed);
        tokio::spawn(image::run((image, looks), shard, told));
    }

    /// Passes what happens on the link to the disks that it concerns, until the link ends.
    async fn listen(self, mut events: Receiver<Event>) {
        while let Some(event) = events.recv().await {
            match event {
                Event::Linked { peer, .. } => {
                    self.places().tell_units(|| Happens::Linked(peer));
                }
                Event::Lost { peer } => {
                    self.peering.with(peer).looks().lost();
                    self.places().tell_units(|| Happens::Lost(peer));
                }
                Event::Said { peer, frame } => {
                    let Err(unknown) = self.pass(peer, frame) else {
                        continue;
                    };
                    if unknown != 0 {
                        let why = NotServed::Elsewhere;
                        let frame = Frame::numbered(unknown, Message::NotServed { why });
                        // The peer asks again.
                        let _ = self.peering.with(peer).say(frame).await;
                    }
                }
            }
        }
    }

    /// Passes what the peer says to the disk that it is about; if that is not known here, its number comes back.
    fn pass(&self, peer: PeerId, frame: Frame) -> Result<(), u64> {
        if Looks::is_question(frame.number) && self.is_about_looks(peer, &frame) {
            return Ok(());
        }
        let places = self.places();
        let place = if let Some(disk) = wording::disk_of(&frame.message) {
            places.get(disk).ok_or(frame.number)?
        } else {
            // Nobody asked for it.
            let number = proxied_reads::disk_of(frame.number);
            places.numbered(number).ok_or(0_u64)?
        };
        // A unit that has ended needs no word.
        let _ = place.tell.send(Happens::Said(peer, frame));
        Ok(())
    }

    /// Whether a frame is an answer to a question about a disk, or such a question about a disk that is known here.
    fn is_about_looks(&self, peer: PeerId, frame: &Frame) -> bool {
        let peering = self.peering.with(peer);
        match &frame.message {
            Message::Look { look } => peering.looks().answered(frame.number, look.clone()),
            Message::NotServed { why } => peering.looks().not_served(frame.number, *why),
            Message::AskLook { disk } => {
                let places = self.places();
                let Some(at) = places.get(DiskId::from_u128(*disk)) else {
                    return false;
                };
                let place = Arc::clone(&self.looking).try_acquire_owned().ok();
                look_for_peer(peering, frame.number, at.entered.clone().zip(place));
            }
            _ => return false,
        }
        true
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a peer what a disk is here.
fn look_for_peer(
    peering: Peering,
    number: u64,
    at: Option<((Arc<Control>, Entry), OwnedSemaphorePermit)>,
) {
    tokio::spawn(async move {
        let message = match at {
            Some(((control, entry), _place)) => Message::Look {
                look: control.observer().disk_look(&entry).await,
            },
            None => Message::NotServed {
                why: NotServed::Failed,
            },
        };
        // The peer hears of the session's end.
        let _ = peering.say(Frame::numbered(number, message)).await;
    });
}

/// What happens to the disks of a unit, each by its place there.
type Told = UnboundedReceiver<(usize, Happens)>;

/// What this host shows its peers.
///
/// # Errors
/// If the files of `[link]` cannot be used, or are another host's.
pub(super) fn identity(name: &str, settings: &LinkConfig) -> Result<Identity, IdentityError> {
    let LinkConfig {
        certificate,
        key,
        authority,
        ..
    } = settings;
    Identity::load(name, certificate, key, authority)
}

/// A number that tells this run of the daemon from others.
fn instance() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
