//! A modelled NBD server: several connections, each a stream of bytes in both directions.
//!
//! ```text
//!   client ──bytes──► input ──parse──► jobs (any order, sector by sector) ──► answers ──► output ──► client
//!
//!   a connection ends:  input is dropped · jobs go on, or not, unanswered · then the end of the stream
//!   a crash:            jobs stop where they are · what is volatile may be forgotten
//!   a shutdown:         what arrives is refused with ESHUTDOWN · jobs are finished · then a crash
//! ```

use super::SECTORS;
use super::connection::Connection;
use super::disk::{Answered, Disk};
use super::settings::Settings;
use nbd_protocol::{Command, Cookie, Errno, Terms, reply};
use units::{Bytes, Offset, Prng, SECTOR_BYTES};

const SECTOR: usize = 512;

#[derive(Debug)]
enum What {
    Read(Vec<Option<u64>>),
    Change { values: Vec<u64>, fua: bool },
    Flush(Answered),
}

/// A request that is being carried out.
#[derive(Debug)]
struct Job {
    connection: u64,
    cookie: Cookie,
    first: usize,
    what: What,
    /// Sectors that are still to be done.
    left: Vec<usize>,
    /// It ends with this error when so many sectors are left.
    fails: Option<(Errno, usize)>,
    /// How often it is passed over.
    delay: u64,
}

/// Whether it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Up,
    /// It ends what it has begun and refuses what comes.
    Stopping,
}

#[derive(Debug)]
pub(super) struct Server {
    settings: Settings,
    dice: Prng,
    disk: Disk,
    connections: Vec<Connection>,
    jobs: Vec<Job>,
    made: u64,
    state: State,
    /// Nothing is carried out or answered.
    frozen: bool,
    /// Requests fail now and then.
    failing: bool,
    /// Errors that were given as answers.
    errors: u64,
}

impl Server {
    pub(super) fn new(settings: Settings, dice: Prng) -> Self {
        Self {
            settings,
            dice,
            disk: Disk::default(),
            connections: Vec::new(),
            jobs: Vec::new(),
            made: 0,
            state: State::Up,
            frozen: false,
            failing: false,
            errors: 0,
        }
    }

    /// What it keeps.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Errors that were given as answers.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Whether it runs at all.
    pub(super) fn is_up(&self) -> bool {
        self.state != State::Down
    }

    /// Whether it is being shut down.
    pub(super) fn is_stopping(&self) -> bool {
        self.state == State::Stopping
    }

    /// Whether a client that calls is answered.
    pub(super) fn takes_clients(&self) -> bool {
        self.state == State::Up && !self.frozen
    }

    /// It runs again.
    pub(super) fn start(&mut self) {
        self.state = State::Up;
    }

    /// It is being shut down: what it has begun it ends, what comes it refuses.
    pub(super) fn stop(&mut self) {
        self.state = State::Stopping;
    }

    /// It carries nothing out and answers nothing, or goes on.
    pub(super) fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Requests fail now and then, or no more.
    pub(super) fn fail(&mut self, failing: bool) {
        self.failing = failing;
    }

    /// Whether requests fail now and then.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// Takes a client in; returns what the connection is called.
    pub(super) fn accept(&mut self) -> u64 {
        self.made += 1;
        self.connections.push(Connection::new(self.made));
        self.made
    }

    fn find(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|one| one.id() == id)
    }

    /// Bytes of the client. False if they cannot be sent any more.
    pub(super) fn send(&mut self, id: u64, bytes: &[u8]) -> bool {
        self.find(id)
            .is_some_and(|connection| connection.send(bytes))
    }

    pub(super) fn half_close(&mut self, id: u64) {
        if let Some(connection) = self.find(id) {
            connection.half_close();
        }
    }

    /// The client has closed its end: what it has sent still arrives.
    pub(super) fn close(&mut self, id: u64) {
        if let Some(connection) = self.find(id) {
            connection.close();
        }
    }

    /// Up to `count` bytes for the client; none at the end of the stream.
    pub(super) fn receive(&mut self, id: u64, count: usize) -> Option<Vec<u8>> {
        match self.find(id) {
            Some(connection) => connection.receive(count),
            None => Some(Vec::new()),
        }
    }

    /// The connection breaks at any byte of what is on its way to the client. What the server has
    /// received goes on.
    pub(super) fn drop_connection(&mut self) -> bool {
        let open: Vec<usize> = (0..self.connections.len())
            .filter(|index| !self.connections[*index].is_deaf())
            .collect();
        if open.is_empty() {
            return false;
        }
        let pick = open[self.index(open.len())];
        let cut = self.index(self.connections[pick].on_their_way() + 1);
        self.connections[pick].break_behind(cut);
        true
    }

    /// Bytes that no server may send.
    pub(super) fn send_nonsense(&mut self) -> bool {
        let mut open = self.connections.iter_mut();
        let Some(connection) = open.find(|one| one.is_open()) else {
            return false;
        };
        connection.answer(&[0xff; 16]);
        true
    }

    /// The process dies.
    pub(super) fn crash(&mut self) {
        self.jobs.clear();
        for index in 0..self.connections.len() {
            let cut = self.index(self.connections[index].on_their_way() + 1);
            self.connections[index].crash(cut);
        }
        if self.settings.has_flush() {
            self.disk.crash(&mut self.dice);
        }
        self.state = State::Down;
        self.frozen = false;
    }

    /// Whether a shutdown has come to its end.
    pub(super) fn is_quiet(&self) -> bool {
        self.jobs.is_empty() && self.connections.iter().all(Connection::has_ended)
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.dice.below(below as u64)).expect("an index")
    }

    /// Works a little: reads a request, or brings a job forward.
    pub(super) fn work(&mut self, terms: &Terms) {
        if self.state == State::Down {
            return;
        }
        for index in 0..self.connections.len() {
            if self.dice.one_in(2) {
                self.read_request(index, terms);
            }
        }
        if self.frozen {
            return;
        }
        for _ in 0..self.jobs.len().div_ceil(3) {
            if !self.jobs.is_empty() {
                self.bring_forward();
            }
        }
        let Self {
            connections, jobs, ..
        } = self;
        for connection in connections.iter_mut() {
            if !jobs.iter().any(|job| job.connection == connection.id()) {
                connection.end_if_quiet();
            }
        }
        connections.retain(|one| !one.is_over());
    }

    fn read_request(&mut self, index: usize, terms: &Terms) {
        let connection = &mut self.connections[index];
        let id = connection.id();
        let Some((header, payload)) = connection.next_request() else {
            return;
        };
        if self.state == State::Stopping {
            self.answer_simple(id, header.cookie, Err(Errno::Shutdown));
            return;
        }
        let command = header.command(terms);
        let command = command.expect("the client asks only for what the server can do");
        self.begin(id, header.cookie, command, &payload);
    }

    fn begin(&mut self, connection: u64, cookie: Cookie, command: Command, payload: &[u8]) {
        let (offset, length, what) = match command {
            Command::Read { offset, length, .. } => (offset, length, What::Read(Vec::new())),
            Command::Write {
                offset,
                length,
                fua,
            } => {
                let sectors = payload.chunks(SECTOR);
                let values = sectors.map(value_of).collect();
                (offset, length, What::Change { values, fua })
            }
            Command::Trim {
                offset,
                length,
                fua,
            }
            | Command::WriteZeroes {
                offset,
                length,
                fua,
                ..
            } => {
                let values = vec![0; sectors_in(length)];
                (offset, length, What::Change { values, fua })
            }
            Command::Flush => {
                let arrived = self.disk.flush_arrives();
                (Offset::ZERO, Bytes::ZERO, What::Flush(arrived))
            }
            Command::Disconnect | Command::Cache { .. } | Command::BlockStatus { .. } => {
                unreachable!("the client never asks for this")
            }
        };
        let count = sectors_in(length);
        let what = match what {
            What::Read(_) => What::Read(vec![None; count]),
            what => what,
        };
        let error = [Errno::Io, Errno::NoSpc, Errno::NoMem][self.index(3)];
        let fails = (self.failing && self.dice.one_in(self.settings.error_every))
            .then(|| (error, self.index(count + 1)));
        let delay = if self.dice.one_in(6) {
            self.dice.below(60)
        } else {
            0
        };
        self.jobs.push(Job {
            delay,
            connection,
            cookie,
            first: sectors_in(offset.from_start()),
            what,
            left: (0..count).collect(),
            fails,
        });
    }

    /// Does one sector of a job, or ends it.
    fn bring_forward(&mut self) {
        let pick = self.index(self.jobs.len());
        if self.jobs[pick].delay > 0 {
            self.jobs[pick].delay -= 1;
            return;
        }
        let left = self.jobs[pick].left.len();
        if let Some((errno, at)) = self.jobs[pick].fails
            && left <= at
        {
            let job = self.jobs.swap_remove(pick);
            match &job.what {
                What::Flush(_) => self.disk.fail_flush(&mut self.dice),
                What::Change { values, .. } => {
                    // What was carried out of it is in the server's memory like all the rest.
                    for sector in job.first..job.first + values.len() {
                        self.disk.answer(sector, false);
                    }
                }
                What::Read(_) => {}
            }
            self.errors += 1;
            self.answer_simple(job.connection, job.cookie, Err(errno));
            return;
        }
        if left == 0 {
            let job = self.jobs.swap_remove(pick);
            self.finish(job);
            return;
        }
        let which = self.index(left);
        let job = &mut self.jobs[pick];
        let at = job.left.swap_remove(which);
        match &mut job.what {
            What::Read(seen) => seen[at] = Some(self.disk.value(job.first + at)),
            What::Change { values, .. } => self.disk.write(job.first + at, values[at]),
            What::Flush(_) => {}
        }
        if !self.settings.has_flush() {
            self.disk.settle();
        }
    }

    fn finish(&mut self, job: Job) {
        match job.what {
            What::Read(seen) => {
                let values = seen.into_iter().map(|value| value.expect("it was read"));
                let bytes: Vec<u8> = values.flat_map(bytes_of).collect();
                self.answer_read(job.connection, job.cookie, job.first, &bytes);
                return;
            }
            What::Change { values, fua } => {
                for sector in job.first..job.first + values.len() {
                    self.disk.answer(sector, fua);
                }
            }
            What::Flush(arrived) => self.disk.flush(&arrived, &mut self.dice),
        }
        if self.settings.structured {
            self.answer(job.connection, &reply::none(job.cookie));
        } else {
            self.answer_simple(job.connection, job.cookie, Ok(()));
        }
    }

    fn answer_read(&mut self, connection: u64, cookie: Cookie, first: usize, bytes: &[u8]) {
        if !self.settings.structured {
            self.answer_simple(connection, cookie, Ok(()));
            self.answer(connection, bytes);
            return;
        }
        let offset = Offset::new(first as u64 * SECTOR_BYTES);
        let length = u32::try_from(bytes.len()).expect("a read is within its limit");
        if bytes.iter().all(|byte| *byte == 0) {
            self.answer(connection, &reply::hole(cookie, true, offset, length));
        } else {
            self.answer(
                connection,
                &reply::data_header(cookie, true, offset, length),
            );
            self.answer(connection, bytes);
        }
    }

    fn answer_simple(&mut self, connection: u64, cookie: Cookie, result: Result<(), Errno>) {
        self.answer(connection, &reply::simple(cookie, result));
    }

    fn answer(&mut self, connection: u64, bytes: &[u8]) {
        if let Some(connection) = self.find(connection) {
            connection.answer(bytes);
        }
    }
}

fn sectors_in(bytes: Bytes) -> usize {
    let sectors = usize::try_from(bytes.get() / SECTOR_BYTES).expect("a small disk");
    assert!(sectors <= SECTORS, "nothing is asked beyond the disk");
    sectors
}

/// The bytes of a sector with this value.
pub(super) fn bytes_of(value: u64) -> impl Iterator<Item = u8> {
    let word = value.to_le_bytes();
    (0..SECTOR).map(move |at| word[at % word.len()])
}

/// The value of a sector's bytes, all ones if they are of two.
pub(super) fn value_of(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8).map(|word| {
        let word = word.try_into().expect("eight bytes");
        u64::from_le_bytes(word)
    });
    let first = words.next().unwrap_or(u64::MAX);
    if words.all(|word| word == first) {
        first
    } else {
        u64::MAX
    }
}
