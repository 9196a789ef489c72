//! A shard thread whose disk is memory.

use block_io::{BufPool, IoError, Payload};
use frontend::Verb;
use frontend::limits::ConnectionLimits;
use frontend::{Connection as _, Incoming, RequestKey, State};
use nbd_server::{Connection, Negotiated};
use ring::{Mailbox, Ring, SourceId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use units::{Bytes, Offset};

/// What the log has of a client that has hung up.
pub const HUNG_UP: &str = "hung up";

pub enum Command {
    Connect(Box<Negotiated>),
    /// Keep answers back.
    Hold,
    /// Fail every request from now on.
    Fail(IoError),
    /// Give the answers kept back, and no longer keep any.
    Release,
    Stop,
}

/// The bytes of a disk, and what it was asked.
pub struct Disk {
    bytes: Vec<u8>,
    log: Option<Arc<Mutex<Vec<String>>>>,
    failing: Option<IoError>,
}

/// A request's outcome.
type Answer = Result<Payload, IoError>;

impl Disk {
    pub fn new(length: usize, log: Arc<Mutex<Vec<String>>>) -> Self {
        Self {
            bytes: vec![0; length],
            log: Some(log),
            failing: None,
        }
    }

    /// One for measuring: its memory is in place and it keeps no log.
    pub fn silent(length: usize) -> Self {
        Self {
            bytes: vec![1; length],
            log: None,
            failing: None,
        }
    }

    fn range(&mut self, offset: Offset, length: Bytes) -> &mut [u8] {
        &mut self.bytes[offset.to_usize()..(offset + length).to_usize()]
    }

    fn serve(&mut self, verb: Verb, pool: &BufPool) -> Answer {
        if let Some(log) = &self.log {
            log.lock().unwrap().push(describe(&verb));
        }
        if let Some(error) = self.failing {
            return Err(error);
        }
        match verb {
            Verb::Read { offset, length } => {
                // As much work as a device would do: the bytes come into a buffer.
                let mut buf = pool.take(length.to_usize());
                buf[..length.to_usize()].copy_from_slice(self.range(offset, length));
                return Ok(Payload::from_elem(
                    buf.freeze().slice(0..length.to_usize()),
                    1,
                ));
            }
            Verb::Write { offset, data, .. } => {
                let length = Bytes::new(data.len() as u64);
                self.range(offset, length).copy_from_slice(&data);
            }
            Verb::WriteZeroes { offset, length, .. } | Verb::Discard { offset, length } => {
                self.range(offset, length).fill(0);
            }
            Verb::Flush | Verb::Prefetch { .. } => {}
        }
        Ok(Payload::new())
    }
}

fn describe(verb: &Verb) -> String {
    match verb {
        Verb::Read { offset, length } => format!("read {offset:?} {length:?}"),
        Verb::Write { offset, data, fua } => format!("write {offset:?} {}B fua={fua}", data.len()),
        Verb::Flush => "flush".to_owned(),
        Verb::Discard { offset, length } => format!("discard {offset:?} {length:?}"),
        Verb::WriteZeroes {
            offset,
            length,
            may_unmap,
            fua,
        } => format!("zero {offset:?} {length:?} may_unmap={may_unmap} fua={fua}"),
        Verb::Prefetch { offset, length } => format!("prefetch {offset:?} {length:?}"),
    }
}

/// Starts the thread.
pub fn spawn(disk: Disk, limits: ConnectionLimits) -> (ring::Sender<Command>, JoinHandle<()>) {
    let (started, starting) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let ring = Ring::new(256).unwrap();
        let (sender, mailbox) = ring::mailbox(&ring).unwrap();
        started.send(sender).unwrap();
        Shard {
            disk,
            limits,
            pool: BufPool::new(),
            connections: HashMap::new(),
            held: None,
            incoming: Vec::new(),
            ring,
        }
        .run(mailbox);
    });
    (starting.recv().unwrap(), thread)
}

struct Shard {
    disk: Disk,
    limits: ConnectionLimits,
    pool: BufPool,
    connections: HashMap<SourceId, Connection>,
    held: Option<Vec<(SourceId, RequestKey, Answer)>>,
    incoming: Vec<Incoming>,
    ring: Ring,
}

impl Shard {
    fn run(mut self, mut mailbox: Mailbox<Command>) {
        let mut ready = Vec::new();
        let mut commands = Vec::new();
        loop {
            self.ring.submit_and_wait(None).unwrap();
            ready.clear();
            self.ring.take_ready(&mut ready);
            // Whether or not the bell was heard yet: a command sent before a request is obeyed
            // before it.
            mailbox.drain(&mut commands);
            for command in commands.drain(..) {
                match command {
                    Command::Connect(client) => {
                        let client = *client;
                        let connection =
                            Connection::new(client, &self.ring, &self.pool, self.limits);
                        let id = connection.id();
                        self.connections.insert(id, connection);
                        self.attend(id);
                    }
                    Command::Hold => self.held = Some(Vec::new()),
                    Command::Fail(error) => self.disk.failing = Some(error),
                    Command::Release => self.release(),
                    Command::Stop => return,
                }
            }
            for id in &ready {
                self.attend(*id);
            }
        }
    }

    /// Polls a connection until it has nothing more to ask.
    fn attend(&mut self, id: SourceId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let mut incoming = std::mem::take(&mut self.incoming);
        let state = loop {
            let state = connection.poll(&mut incoming);
            if incoming.is_empty() {
                break state;
            }
            for Incoming { key, verb } in incoming.drain(..) {
                let result = self.disk.serve(verb, &self.pool);
                if let Some(held) = &mut self.held {
                    held.push((id, key, result));
                    continue;
                }
                let mut next = connection.reply(key, result);
                while let Some(Incoming { key, verb }) = next {
                    let result = self.disk.serve(verb, &self.pool);
                    next = connection.reply(key, result);
                }
            }
        };
        match (state, &self.disk.log) {
            (State::Finished, _) => drop(self.connections.remove(&id)),
            (State::HungUp, Some(log)) => log.lock().unwrap().push(HUNG_UP.to_owned()),
            _ => {}
        }
        self.incoming = incoming;
    }

    /// Gives every answer kept back before anything new is taken: requests still in the sockets
    /// would otherwise be answered among them, and a client see an order that depends on timing.
    fn release(&mut self) {
        let held = self.held.take().unwrap_or_default();
        let mut answered: Vec<SourceId> = held.iter().map(|(id, ..)| *id).collect();
        answered.dedup();
        for (id, key, result) in held {
            let Some(connection) = self.connections.get_mut(&id) else {
                panic!("a connection with requests at the disk was finished");
            };
            let next = connection.reply(key, result);
            assert!(next.is_none(), "held requests are of one step");
        }
        for id in answered {
            self.attend(id);
        }
    }
}
