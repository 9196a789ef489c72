//! The disks that roam: each is carried through the actions of its [`Ownership`] by a task of its own.
//!
//! ```text
//!   link ── what the peer says ──┐
//!   shard ── what clients need ──┼─► task ── events ──► Ownership ── actions ──► shard, origin, record, link
//!   time ── try again, give up ──┘
//! ```

use super::control::Control;
use super::registry::{Entry, Phase};
use super::settings;
use api::types::Problem;
use block_io::{IoError, OriginGeometry};
use durable_file::Readers;
use handoff::{
    Action, Decision, Event, Found, Holder, IncomingClient, Message, Notice, Ownership, Record,
    Refusal, TakeError,
};
use link::{Link, PeerId};
use link_protocol::{DATA_MAX, Frame, Message as Said, NotServed, Refusal as Why};
use origin::Opened;
use shard::{Offer, OwnerFile, ShardHandle};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use units::{Bytes, DiskId, Offset};

/// How long a guest waits for its disk, or for the bytes of a read.
const PATIENCE: Duration = Duration::from_secs(10);
/// After how long what failed or was refused is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// The smallest unit of address and length of a disk whose origin is a file.
const SECTOR: Bytes = Bytes::new(512);

/// What happens to a disk that roams.
pub(super) enum Happens {
    Word(Notice),
    Linked,
    Lost,
    Said(Frame),
}

/// The tasks of the disks that roam, by the names and identities of these.
#[derive(Clone, Default)]
pub(super) struct Roaming(Arc<Mutex<BTreeMap<DiskId, UnboundedSender<Happens>>>>);

impl Roaming {
    fn tell(&self, disk: Option<DiskId>, happens: impl Fn() -> Happens) {
        let disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, task) in disks.iter() {
            if disk.is_none_or(|disk| disk == *id) {
                // One that has ended needs no word.
                let _ = task.send(happens());
            }
        }
    }

    /// Passes what happens on the link to the disks that it concerns, until the link ends.
    pub(super) async fn listen(self, link: Link, mut events: Receiver<link::Event>) {
        while let Some(event) = events.recv().await {
            match event {
                link::Event::Linked { .. } => self.tell(None, || Happens::Linked),
                link::Event::Lost { .. } => self.tell(None, || Happens::Lost),
                link::Event::Said { peer, frame } => {
                    let Some(disk) = disk_of(&frame) else {
                        // An answer to a read has its disk's number in front.
                        let task = (frame.number >> 32) as usize;
                        let disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(task) = disks.values().nth(task) {
                            let _ = task.send(Happens::Said(frame));
                        }
                        continue;
                    };
                    let is_known = {
                        let disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                        disks.contains_key(&disk)
                    };
                    if is_known {
                        let frame = Mutex::new(Some(frame));
                        let take = || {
                            let mut frame = frame.lock().unwrap_or_else(PoisonError::into_inner);
                            frame.take().map_or(Happens::Lost, Happens::Said)
                        };
                        self.tell(Some(disk), take);
                    } else if frame.number != 0 {
                        let why = NotServed::Elsewhere;
                        let _ = link
                            .send(peer, Frame::numbered(frame.number, Said::NotServed { why }))
                            .await;
                    }
                }
            }
        }
    }

    fn enter(&self, disk: DiskId) -> (UnboundedSender<Happens>, UnboundedReceiver<Happens>) {
        let (tell, told) = unbounded_channel();
        let mut disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        disks.insert(disk, tell.clone());
        (tell, told)
    }

    fn place_of(&self, disk: DiskId) -> u64 {
        let disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        disks.keys().position(|id| *id == disk).unwrap_or_default() as u64
    }
}

/// Which disk a message is about. A unit of one disk goes by the disk's identity.
fn disk_of(frame: &Frame) -> Option<DiskId> {
    match &frame.message {
        Said::Read { disk, .. } | Said::AskLook { disk } => Some(DiskId::from_u128(*disk)),
        Said::Client { unit, .. }
        | Said::Claim { unit, .. }
        | Said::Grant { unit, .. }
        | Said::Refuse { unit, .. }
        | Said::List { unit, .. }
        | Said::Unlist { unit }
        | Said::Announce { unit }
        | Said::Stopped { unit } => unit.parse().ok(),
        Said::Look { .. } | Said::Bytes | Said::NotServed { .. } | Said::Alive => None,
    }
}

/// A read of a standby's client that the owner is asked for.
struct Reading {
    ticket: u64,
    offset: Offset,
    length: Bytes,
    bytes: Vec<u8>,
    since: Instant,
    /// Whether the next piece was asked for.
    is_asked: bool,
}

/// A disk that roams.
struct Roamer {
    control: Arc<Control>,
    roaming: Roaming,
    entry: Entry,
    handle: ShardHandle,
    link: Link,
    peer: PeerId,
    /// This host's name on the link, and its peer's.
    names: (String, String),
    size: Bytes,
    ownership: Ownership,
    readings: Vec<Reading>,
    /// Since when a client waits for the disk.
    asked: Option<Instant>,
    /// Whether every claim since the disk was given away was a return.
    are_returns: bool,
    /// Whether the claim that is being answered is a return.
    peer_returns: bool,
    has_client: bool,
    /// What keeps the origin locked while its record is written.
    locked: Mutex<Option<Opened>>,
}

/// Lets a disk roam: it stands by, or is taken at once if the record says so.
pub(super) async fn roam(
    control: Arc<Control>,
    roaming: Roaming,
    entry: Entry,
    (link, peer): (Link, PeerId),
    names: (String, String),
) {
    let (tell, told) = roaming.enter(entry.id);
    let (size, found) = loop {
        match look(&control, &entry, &names).await {
            Ok(found) => break found,
            Err(why) => {
                let problem = Problem::new(api::problem::ProblemKind::Origin, why);
                control.registry().wait(&entry, problem);
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    };
    let Some(shard) = control.shards().get(&entry.cache) else {
        return;
    };
    let handle = shard.handle().clone();
    let offer = Offer {
        name: entry.config.name.to_string(),
        size,
        read_only: false,
        can_discard: true,
    };
    let word = tell.clone();
    handle.roam(
        entry.id,
        offer,
        Arc::new(move |said| {
            let _ = word.send(Happens::Word(said));
        }),
    );
    let geometry = OriginGeometry {
        size,
        sector: SECTOR,
        can_discard: true,
        read_only: false,
    };
    control
        .registry()
        .set_phase(&entry, Phase::Standby { geometry });
    let (ownership, actions) = Ownership::found(found);
    let roamer = Roamer {
        control,
        roaming,
        entry,
        handle,
        link,
        peer,
        names,
        size,
        ownership,
        readings: Vec::new(),
        asked: None,
        are_returns: true,
        peer_returns: false,
        has_client: false,
        locked: Mutex::new(None),
    };
    tokio::spawn(roamer.run(told, actions));
}

/// How large a disk is, and what its record and this host's decision say.
async fn look(
    control: &Control,
    entry: &Entry,
    names: &(String, String),
) -> Result<(Bytes, Found), String> {
    let spec = settings::origin(&entry.config.origin);
    let folders = control.remembered().dir().folders();
    let (id, cache) = (entry.id, entry.cache.to_string());
    let decision = decision_path(control, id);
    let here = names.0.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let size = origin::measure(&spec).map_err(|error| units::errors::chain(&error))?;
        let owner = OwnerFile::new(id, &spec, &folders, &cache).load();
        let owner = owner.map_err(|error| units::errors::chain(&error))?;
        let holder = owner.and_then(|owner| owner.holder);
        let record = holder.map_or(
            // Nobody's: whoever locks it first has it.
            Record {
                owner: Holder::Here,
                epoch: 0,
            },
            |holder| Record {
                owner: if holder.host == here {
                    Holder::Here
                } else {
                    Holder::Peer
                },
                epoch: holder.epoch,
            },
        );
        let decided = match std::fs::read_to_string(&decision) {
            Ok(text) => Some(
                text.trim()
                    .parse::<u64>()
                    .map_err(|error| error.to_string())?,
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.to_string()),
        };
        let decision = decided.map(|epoch| Decision { epoch });
        let record = Some(record);
        Ok((size, Found { record, decision }))
    });
    looking.await.unwrap_or_else(|error| Err(error.to_string()))
}

fn decision_path(control: &Control, disk: DiskId) -> PathBuf {
    control
        .remembered()
        .dir()
        .path()
        .join(format!("given-{disk}"))
}

impl Roamer {
    async fn run(mut self, mut told: UnboundedReceiver<Happens>, actions: Vec<Action>) {
        if self.is_linked() {
            self.happens(Happens::Linked, VecDeque::from(actions)).await;
        } else {
            self.act(actions.into()).await;
        }
        let mut tick = tokio::time::interval(RETRY_PAUSE);
        loop {
            tokio::select! {
                happens = told.recv() => {
                    let Some(happens) = happens else { return };
                    self.happens(happens, VecDeque::new()).await;
                }
                _ = tick.tick() => self.try_again().await,
            }
            if self.control.refuse_when_stopping().is_err() {
                return;
            }
        }
    }

    fn is_linked(&self) -> bool {
        let status = self.link.status();
        status
            .iter()
            .any(|peer| peer.peer.name == self.names.1 && peer.version.is_some())
    }

    async fn try_again(&mut self) {
        let late = |since: Instant| since.elapsed() >= PATIENCE;
        let event = if self.asked.is_some_and(late) {
            self.asked = None;
            Event::PatienceEnded
        } else {
            Event::Retry
        };
        let actions = self.ownership.take_event(event);
        self.act(actions.into()).await;
        let (ended, going): (Vec<_>, Vec<_>) = std::mem::take(&mut self.readings)
            .into_iter()
            .partition(|reading| late(reading.since));
        self.readings = going;
        for reading in ended {
            let failed = Err(IoError::TimedOut);
            self.handle
                .answer_read(self.entry.id, reading.ticket, failed);
        }
        self.ask_for_bytes().await;
    }

    async fn happens(&mut self, happens: Happens, mut actions: VecDeque<Action>) {
        match happens {
            Happens::Word(Notice::Asked(client)) => {
                self.asked.get_or_insert_with(Instant::now);
                actions.extend(self.ownership.take_event(Event::Asked(client)));
            }
            Happens::Word(Notice::Read {
                ticket,
                offset,
                length,
            }) => {
                self.readings.push(Reading {
                    ticket,
                    offset,
                    length,
                    bytes: Vec::new(),
                    since: Instant::now(),
                    is_asked: false,
                });
                self.ask_for_bytes().await;
            }
            Happens::Word(Notice::Client { is_there }) => {
                self.has_client = is_there;
                self.tell_of_client().await;
            }
            Happens::Linked => {
                self.tell_of_client().await;
                actions.extend(self.ownership.take_event(Event::Linked));
            }
            Happens::Lost => {
                for reading in &mut self.readings {
                    reading.is_asked = false;
                }
                self.handle
                    .see_incoming(self.entry.id, IncomingClient::Gone);
                actions.extend(self.ownership.take_event(Event::LinkLost));
            }
            Happens::Said(frame) => actions.extend(self.said(frame).await),
        }
        self.act(actions).await;
    }

    async fn tell_of_client(&self) {
        let (unit, is_there) = (self.entry.id.to_string(), self.has_client);
        self.say(Frame::notice(Said::Client { unit, is_there }))
            .await;
    }

    /// What is lost with the link is said again by who needs it.
    async fn say(&self, frame: Frame) {
        let _ = self.link.send(self.peer, frame).await;
    }

    async fn said(&mut self, frame: Frame) -> Vec<Action> {
        let Frame {
            number,
            message,
            data,
        } = frame;
        let (message, guest_has_stopped) = match message {
            Said::Read {
                disk: _,
                offset,
                length,
            } => {
                self.read_for_peer(number, (offset, length));
                return Vec::new();
            }
            Said::Bytes => {
                self.got(number, Some(data)).await;
                return Vec::new();
            }
            Said::NotServed { .. } => {
                self.got(number, None).await;
                return Vec::new();
            }
            Said::Client { is_there, .. } => {
                let seen = if is_there {
                    IncomingClient::Came
                } else {
                    IncomingClient::Gone
                };
                self.handle.see_incoming(self.entry.id, seen);
                return Vec::new();
            }
            Said::Claim { is_return, .. } => {
                tracing::debug!(disk = %self.entry.config.name, is_return, "the peer claims the disk");
                let (sender, answer) = oneshot::channel();
                self.handle.look_at_roaming(
                    self.entry.id,
                    Box::new(move |look| {
                        let _ = sender.send(look);
                    }),
                );
                let Ok(Ok(look)) = answer.await else {
                    return Vec::new();
                };
                if look.is_changed {
                    self.ownership.take_event(Event::Changing);
                }
                if self.ownership.serves() {
                    self.peer_returns = is_return;
                }
                (Message::Claim { is_return }, look.has_stopped)
            }
            Said::Grant { epoch, .. } => (Message::Grant { epoch }, false),
            Said::Refuse { why, .. } => {
                tracing::debug!(disk = %self.entry.config.name, ?why, "the peer refuses");
                (Message::Refuse { why: heard(why) }, false)
            }
            _ => return Vec::new(),
        };
        self.ownership.take_event(Event::Said {
            message,
            guest_has_stopped,
        })
    }

    fn read_for_peer(&self, number: u64, (offset, length): (u64, u32)) {
        let id = self.entry.id;
        self.handle.see_incoming(id, IncomingClient::Reads);
        let (link, peer) = (self.link.clone(), self.peer);
        let runtime = tokio::runtime::Handle::current();
        self.handle.read_for_peer(
            id,
            Offset::new(offset),
            Bytes::new(u64::from(length)),
            Box::new(move |read| {
                let frame = match read {
                    Ok(data) => Frame {
                        number,
                        message: Said::Bytes,
                        data,
                    },
                    Err(_) => {
                        let why = NotServed::Elsewhere;
                        Frame::numbered(number, Said::NotServed { why })
                    }
                };
                runtime.spawn(async move {
                    // Asked again if it is lost.
                    let _ = link.send(peer, frame).await;
                });
            }),
        );
    }

    async fn ask_for_bytes(&mut self) {
        let place = self.roaming.place_of(self.entry.id) << 32;
        let mut frames = Vec::new();
        for reading in self.readings.iter_mut().filter(|reading| !reading.is_asked) {
            let got = reading.bytes.len() as u64;
            let left = (reading.length.get() - got).min(DATA_MAX as u64);
            reading.is_asked = true;
            let ask = Said::Read {
                disk: self.entry.id.to_u128(),
                offset: reading.offset.get() + got,
                length: u32::try_from(left).unwrap_or(u32::MAX),
            };
            let number = place | (reading.ticket + 1) & u64::from(u32::MAX);
            frames.push(Frame::numbered(number, ask));
        }
        for frame in frames {
            self.say(frame).await;
        }
    }

    /// A piece of a read has come, or the peer does not have it now.
    async fn got(&mut self, number: u64, data: Option<Vec<u8>>) {
        let low = number & u64::from(u32::MAX);
        let is_it = |reading: &Reading| (reading.ticket + 1) & u64::from(u32::MAX) == low;
        let Some(at) = self.readings.iter().position(is_it) else {
            return;
        };
        let reading = &mut self.readings[at];
        reading.is_asked = false;
        let Some(data) = data else {
            // Tried again soon.
            return;
        };
        reading.bytes.extend_from_slice(&data);
        let (got, wanted) = (reading.bytes.len() as u64, reading.length.get());
        if got < wanted {
            return self.ask_for_bytes().await;
        }
        let reading = self.readings.remove(at);
        let result = if got == wanted {
            Ok(reading.bytes)
        } else {
            Err(IoError::Failed)
        };
        self.handle
            .answer_read(self.entry.id, reading.ticket, result);
    }

    async fn act(&mut self, mut actions: VecDeque<Action>) {
        while let Some(action) = actions.pop_front() {
            if let Some(event) = self.carry_out(action).await {
                actions.extend(self.ownership.take_event(event));
            }
        }
    }

    async fn ask_shard(&self, send: impl FnOnce(&ShardHandle, shard::Reply<()>)) -> bool {
        let (sender, answer) = oneshot::channel();
        send(
            &self.handle,
            Box::new(move |result| {
                let _ = sender.send(result);
            }),
        );
        match answer.await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::info!(disk = %self.entry.config.name, %error, "the disk stays as it is");
                false
            }
            Err(_) => false,
        }
    }

    async fn carry_out(&mut self, action: Action) -> Option<Event> {
        let (id, name) = (self.entry.id, self.entry.config.name.clone());
        match action {
            Action::Send(message) => {
                if let Message::Claim { is_return } = message {
                    self.are_returns &= is_return;
                }
                self.say(Frame::notice(worded(message, id.to_string())))
                    .await;
                None
            }
            Action::Settle => {
                let is_return = self.peer_returns;
                let ok = self
                    .ask_shard(|shard, reply| shard.hold(id, is_return, reply))
                    .await
                    && self
                        .ask_shard(|shard, reply| shard.destage(id, reply))
                        .await;
                Some(Event::Settled(ok))
            }
            Action::Close => {
                while !self.ask_shard(|shard, reply| shard.give(id, reply)).await {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                self.are_returns = true;
                self.control.registry().give_origin_back(&self.entry);
                self.show_standby();
                Some(Event::Closed)
            }
            Action::Decide(Decision { epoch }) => {
                let path = decision_path(&self.control, id);
                let text = format!("{epoch}\n");
                let writing = tokio::task::spawn_blocking(move || {
                    durable_file::replace(&path, Readers::Owner, text.as_bytes())
                });
                Some(Event::Decided(matches!(writing.await, Ok(Ok(())))))
            }
            Action::Record { epoch } => Some(Event::Recorded(self.record(epoch).await)),
            Action::Unlock => {
                self.locked = Mutex::new(None);
                tracing::info!(disk = %name, to = self.names.1, "the disk is given away");
                Some(Event::Unlocked)
            }
            Action::Take { epoch } => Some(Event::Taken(self.take(epoch).await)),
            Action::Serve => {
                self.asked = None;
                self.readings.clear();
                self.handle.serve_roaming(id);
                None
            }
            Action::Fail => {
                self.readings.clear();
                self.handle.fail_parked(id);
                None
            }
            Action::EndOldClients => {
                self.asked = None;
                tracing::warn!(disk = %name, owner = self.names.1,
                    "the disk was changed elsewhere: the clients that it was taken from get errors");
                self.handle.end_old_clients(id);
                None
            }
        }
    }

    fn show_standby(&self) {
        let geometry = OriginGeometry {
            size: self.size,
            sector: SECTOR,
            can_discard: true,
            read_only: false,
        };
        self.control
            .registry()
            .set_phase(&self.entry, Phase::Standby { geometry });
    }

    /// Lets the record name the peer, under the origin's lock.
    async fn record(&mut self, epoch: u64) -> bool {
        let spec = settings::origin(&self.entry.config.origin);
        let folders = self.control.remembered().dir().folders();
        let (id, cache) = (self.entry.id, self.entry.cache.to_string());
        let (here, peer) = self.names.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let opened =
                origin::open(&spec, false).map_err(|error| units::errors::chain(&error))?;
            let file = OwnerFile::new(id, &spec, &folders, &cache).of_file(opened.identity());
            let next = shard::Holder { host: peer, epoch };
            let mut file = file;
            let is_next = |before: Option<&shard::Holder>| {
                before.is_some_and(|before| before.host == here && before.epoch + 1 == epoch)
            };
            // If it has gone on from there, the peer knows more than we do.
            file.hand_to(next, is_next)
                .map(|_| opened)
                .map_err(|error| units::errors::chain(&error))
        });
        match writing.await {
            Ok(Ok(opened)) => {
                self.locked = Mutex::new(Some(opened));
                true
            }
            Ok(Err(reason)) => {
                tracing::warn!(disk = %self.entry.config.name, reason, "who has the disk now is not recorded yet");
                false
            }
            Err(_) => false,
        }
    }

    async fn take(&mut self, epoch: u64) -> Result<(), TakeError> {
        if !self.are_returns {
            self.handle.end_old_clients(self.entry.id);
        }
        let holder = shard::Holder {
            host: self.names.0.clone(),
            epoch,
        };
        let policy = self.entry.config.write_policy;
        let taken = self
            .control
            .opener()
            .take_roaming(&self.entry, policy, holder, self.size)
            .await;
        match taken {
            Ok(Some(phase)) => {
                self.control.registry().set_phase(&self.entry, phase);
                tracing::info!(disk = %self.entry.config.name, epoch, "the disk is here");
                Ok(())
            }
            Ok(None) => {
                self.show_standby();
                Err(TakeError::NotOurs)
            }
            Err(problem) => {
                tracing::info!(disk = %self.entry.config.name, reason = problem.in_a_line(),
                    "the disk cannot be taken yet");
                self.show_standby();
                Err(TakeError::Failed)
            }
        }
    }
}

fn worded(message: Message, unit: String) -> Said {
    match message {
        Message::Claim { is_return } => Said::Claim { unit, is_return },
        Message::Grant { epoch } => Said::Grant { unit, epoch },
        Message::Refuse { why } => Said::Refuse {
            unit,
            why: match why {
                Refusal::GuestRuns => Why::GuestRuns,
                Refusal::GuestAsked => Why::GuestAsked,
                Refusal::Failed => Why::Failed,
                Refusal::Busy => Why::Busy,
                Refusal::Changed => Why::Changed,
                Refusal::NotOwner => Why::NotOwner,
            },
        },
    }
}

fn heard(why: Why) -> Refusal {
    match why {
        Why::GuestRuns => Refusal::GuestRuns,
        Why::GuestAsked => Refusal::GuestAsked,
        Why::Failed => Refusal::Failed,
        Why::Busy => Refusal::Busy,
        Why::Changed => Refusal::Changed,
        Why::NotOwner => Refusal::NotOwner,
    }
}
