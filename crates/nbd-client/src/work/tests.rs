//! What is sent when, without a server.

use super::*;
use block_io::{IoError, OriginVerb};
use nbd_protocol::{BlockSizes, CommandFlags, Export, TransmissionFlags, wire};
use units::{Bytes, DiskSlot, Offset};

const TIME: Duration = Duration::from_secs(10);
const START: Instant = Instant::from_nanos(1_000_000_000);

fn terms(flags: TransmissionFlags) -> Terms {
    Terms {
        export: Export {
            size: Bytes::gib(1),
            flags,
            blocks: BlockSizes::OURS,
        },
        structured: true,
        base_allocation: false,
    }
}

fn able() -> TransmissionFlags {
    TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY)
}

/// Work, and the far side played by hand.
struct Bench {
    work: Work,
    pool: BufPool,
    sent: VecDeque<Request>,
    done: Vec<OriginDone>,
    now: Instant,
}

impl Bench {
    fn new(flags: TransmissionFlags) -> Self {
        Self::of_disk(flags, false)
    }

    fn of_disk(flags: TransmissionFlags, read_only: bool) -> Self {
        let pool = BufPool::new();
        Self {
            work: Work::new(&terms(flags), read_only, TIME, pool.clone()),
            pool,
            sent: VecDeque::new(),
            done: Vec::new(),
            now: START,
        }
    }

    fn submit(&mut self, token: u64, verb: OriginVerb) {
        let op = OriginOp {
            token: Token(token),
            disk: DiskSlot::new(0),
            verb,
        };
        self.work.submit(op, self.now, &mut self.done);
        self.issue();
    }

    fn issue(&mut self) {
        let sent = &mut self.sent;
        self.work.issue(64, &mut |request| sent.push_back(request));
    }

    fn write(&mut self, token: u64, offset: u64, length: usize, fua: bool) {
        self.write_bytes(token, offset, length, 7, fua);
    }

    fn write_bytes(&mut self, token: u64, offset: u64, length: usize, byte: u8, fua: bool) {
        let data = self.pool.copy_of(&vec![byte; length]);
        let offset = Offset::new(offset);
        self.submit(token, OriginVerb::Write { offset, data, fua });
    }

    /// Reads 4 KiB, of which the server says that they are all `byte`.
    fn see(&mut self, token: u64, offset: u64, byte: u8) {
        let read = self.read(offset);
        self.submit(token, read);
        let asked = self.sent.front().map(|request| request.piece);
        let piece = asked.expect("the read was sent");
        self.work.place(&piece, 0, &[byte; 4096]);
        assert_eq!(self.answer(Ok(())), (READ, offset, 4096));
    }

    /// What is sent to 4 KiB at this offset, oldest first: the byte that fills them.
    fn sent_to(&self, offset: u64) -> Vec<u8> {
        let hits = self.sent.iter().filter_map(|request| {
            let payload = request.payload.as_ref()?;
            let skip = usize::try_from(offset.checked_sub(request.offset)?).ok()?;
            payload.get(skip..skip + 4096).map(|bytes| {
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                bytes[0]
            })
        });
        hits.collect()
    }

    /// A read of 4 KiB.
    fn read(&self, offset: u64) -> OriginVerb {
        OriginVerb::Read {
            offset: Offset::new(offset),
            length: Bytes::kib(4),
            buf: self.pool.take(4096),
        }
    }

    /// Answers the oldest request; what was it?
    fn answer(&mut self, result: Result<(), Errno>) -> (u16, u64, u32) {
        let request = self.sent.pop_front().expect("something was sent");
        let piece = request.piece;
        self.work.answered(&piece, result, self.now, &mut self.done);
        self.issue();
        (request.command, request.offset, piece.length)
    }

    fn results(&mut self) -> Vec<(u64, Result<(), IoError>)> {
        let done = self.done.drain(..);
        done.map(|done| (done.token.0, done.result)).collect()
    }

    fn reconnect(&mut self, flags: TransmissionFlags) {
        self.sent.clear();
        self.work.restart(&terms(flags), &mut self.done);
        self.issue();
    }

    fn sent(&self) -> Vec<(u16, u64)> {
        let sent = self.sent.iter();
        sent.map(|request| (request.command, request.offset))
            .collect()
    }
}

const READ: u16 = wire::command::READ;
const WRITE: u16 = wire::command::WRITE;
const FLUSH: u16 = wire::command::FLUSH;
const ZERO: u16 = wire::command::WRITE_ZEROES;

#[test]
fn a_large_operation_is_cut_and_ends_once() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 10 << 20, false);
    assert_eq!(bench.sent.len(), 8, "no more pieces at a time");
    for n in 0..10 {
        assert!(bench.results().is_empty());
        assert_eq!(bench.answer(Ok(())), (WRITE, n << 20, 1 << 20));
    }
    assert_eq!(bench.results(), [(1, Ok(()))]);
}

#[test]
fn a_piece_that_fails_fails_the_operation_when_the_others_are_back() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 10 << 20, false);
    bench.answer(Err(Errno::NoSpc));
    assert_eq!(bench.sent.len(), 7, "nothing more of it is sent");
    for _ in 0..7 {
        assert!(bench.results().is_empty());
        bench.answer(Ok(()));
    }
    assert_eq!(bench.results(), [(1, Err(IoError::NoSpace))]);
    assert!(bench.sent.is_empty());
}

#[test]
fn fua_without_fua_is_a_write_and_then_a_flush() {
    let mut bench = Bench::new(able().without(TransmissionFlags::SEND_FUA));
    bench.write(1, 0, 2 << 20, true);
    assert_eq!(bench.sent(), [(WRITE, 0), (WRITE, 1 << 20)]);
    bench.answer(Ok(()));
    assert_eq!(
        bench.sent(),
        [(WRITE, 1 << 20)],
        "no flush overtakes a write"
    );
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(FLUSH, 0)]);
    assert!(bench.results().is_empty());
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Ok(()))]);
}

#[test]
fn zeroes_are_written_where_the_server_cannot_zero() {
    let mut bench = Bench::new(able().without(TransmissionFlags::SEND_WRITE_ZEROES));
    let length = Bytes::new((512 << 10) + 512);
    bench.submit(
        1,
        OriginVerb::WriteZeroes {
            offset: Offset::ZERO,
            length,
            may_unmap: true,
            fua: false,
        },
    );
    let payloads = bench.sent.iter().map(|request| {
        let payload = request.payload.as_ref().expect("zeroes follow");
        assert!(payload.iter().all(|byte| *byte == 0));
        payload.len()
    });
    assert_eq!(payloads.collect::<Vec<_>>(), [256 << 10, 256 << 10, 512]);
}

#[test]
fn allocation_is_the_callers_choice() {
    for (may_unmap, flags) in [(true, CommandFlags::NONE), (false, CommandFlags::NO_HOLE)] {
        let mut bench = Bench::new(able());
        let verb = OriginVerb::WriteZeroes {
            offset: Offset::ZERO,
            length: Bytes::kib(4),
            may_unmap,
            fua: false,
        };
        bench.submit(1, verb);
        assert_eq!(bench.sent(), [(ZERO, 0)]);
        assert_eq!(bench.sent[0].flags, flags);
    }
}

#[test]
fn what_was_not_answered_is_sent_again_after_what_may_be_forgotten() {
    let mut bench = Bench::new(able());
    bench.write(1, 4096, 4096, false);
    bench.answer(Ok(()));
    bench.write(2, 0, 512, false);
    bench.submit(3, OriginVerb::Flush);
    assert_eq!(bench.results(), [(1, Ok(()))]);
    bench.reconnect(able());
    assert_eq!(bench.sent(), [(WRITE, 4096)], "first what may be forgotten");
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(WRITE, 0), (FLUSH, 0)]);
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(2, Ok(())), (3, Ok(()))]);
    // The flush was sent after 1 was repeated, and 2 had not been acknowledged then.
    bench.reconnect(able());
    assert_eq!(bench.sent(), [(WRITE, 0)]);
}

#[test]
fn the_servers_number_is_told_once_of_what_the_server_has_failed() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 2 << 20, false);
    bench.answer(Err(Errno::NoMem));
    assert_eq!(bench.work.error_number(Token(1)), None, "it has not ended");
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Err(IoError::Failed))]);
    assert_eq!(bench.work.error_number(Token(1)), Some(12));
    assert_eq!(bench.work.error_number(Token(1)), None);
}

#[test]
fn a_number_of_a_try_that_was_lost_is_not_told_of_the_next_one() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 2 << 20, false);
    bench.answer(Err(Errno::NoMem));
    bench.reconnect(able());
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Ok(()))]);
    assert_eq!(bench.work.error_number(Token(1)), None);
}

#[test]
fn what_ran_out_of_time_has_no_number_of_the_server() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 2 << 20, false);
    bench.answer(Err(Errno::NoMem));
    let late = bench.now + TIME;
    bench.work.expire(late, IoError::TimedOut, &mut bench.done);
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Err(IoError::TimedOut))]);
    assert_eq!(bench.work.error_number(Token(1)), None);
}

#[test]
fn a_repetition_that_fails_asks_for_another_try() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 4096, false);
    bench.answer(Ok(()));
    bench.reconnect(able());
    bench.answer(Err(Errno::Io));
    assert!(bench.work.wants_restart());
    bench.reconnect(able());
    assert!(!bench.work.wants_restart());
    assert_eq!(bench.sent(), [(WRITE, 0)]);
}

#[test]
fn a_failed_flush_is_told_and_its_changes_are_repeated() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 4096, false);
    bench.answer(Ok(()));
    bench.submit(2, OriginVerb::Flush);
    bench.answer(Err(Errno::Io));
    assert_eq!(bench.results(), [(1, Ok(())), (2, Err(IoError::Failed))]);
    assert!(bench.work.wants_restart());
    bench.reconnect(able());
    assert_eq!(bench.sent(), [(WRITE, 0)]);
}

#[test]
fn a_late_write_keeps_what_follows_in_its_range_waiting() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 4096, false);
    bench.now = START + TIME;
    let mut done = Vec::new();
    bench.work.expire(bench.now, IoError::TimedOut, &mut done);
    assert_eq!(done[0].result, Err(IoError::TimedOut));
    bench.write(2, 2048, 4096, false);
    bench.write(3, 8192, 4096, false);
    let read = bench.read(512);
    bench.submit(4, read);
    assert_eq!(bench.sent(), [(WRITE, 0), (WRITE, 8192)]);
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(WRITE, 8192), (WRITE, 2048)]);
    assert!(bench.results().is_empty());
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(READ, 512)]);
    assert_eq!(bench.results(), [(3, Ok(())), (2, Ok(()))]);
}

#[test]
fn a_read_that_ran_out_of_time_gives_its_buffer_back_and_ignores_its_answer() {
    let mut bench = Bench::new(able());
    let read = bench.read(0);
    bench.submit(1, read);
    assert_eq!(bench.work.next_deadline(), Some(START + TIME));
    bench.now = START + TIME;
    let mut done = Vec::new();
    bench
        .work
        .expire(bench.now, IoError::Disconnected, &mut done);
    assert!(done[0].buf.is_some());
    let piece = bench.sent[0].piece;
    bench.work.place(&piece, 0, &[1; 4096]);
    assert_eq!(bench.answer(Ok(())), (READ, 0, 4096));
    assert!(bench.results().is_empty());
    assert_eq!(bench.work.next_deadline(), None);
}

#[test]
fn progress_buys_time() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 4 << 20, false);
    for _ in 0..3 {
        bench.now = bench.now + Duration::from_secs(9);
        bench.answer(Ok(()));
        let (now, error) = (bench.now, IoError::TimedOut);
        bench.work.expire(now, error, &mut bench.done);
        assert!(bench.done.is_empty());
    }
    bench.now = bench.now + TIME;
    let (now, error) = (bench.now, IoError::TimedOut);
    bench.work.expire(now, error, &mut bench.done);
    assert_eq!(bench.results(), [(1, Err(IoError::TimedOut))]);
}

#[test]
fn a_standstill_of_ours_counts_against_no_operation() {
    let mut bench = Bench::new(able());
    let still = Duration::from_secs(60);
    bench.write(1, 0, 4096, false);
    bench.write(2, 0, 4096, false);
    bench.now = START + still;
    bench.work.stood_still(still);
    let error = IoError::TimedOut;
    bench.work.expire(bench.now, error, &mut bench.done);
    assert!(bench.results().is_empty(), "sent or not, it has its time");
    assert_eq!(bench.work.next_deadline(), Some(bench.now + TIME));
    bench.work.expire(bench.now + TIME, error, &mut bench.done);
    assert_eq!(bench.results().len(), 2);
}

#[test]
fn much_that_is_not_flushed_makes_us_flush_and_then_wait() {
    let mut bench = Bench::new(able());
    for n in 0..32 {
        bench.write(n, n << 20, 1 << 20, false);
        bench.answer(Ok(()));
    }
    assert_eq!(bench.sent(), [(FLUSH, 0)]);
    let flush = bench.sent.pop_front().expect("just seen");
    for n in 32..64 {
        bench.write(n, n << 20, 1 << 20, false);
        bench.answer(Ok(()));
    }
    bench.write(64, 64 << 20, 4096, false);
    assert!(bench.sent.is_empty(), "memory has a bound");
    bench.submit(65, OriginVerb::Flush);
    bench.submit(66, OriginVerb::Flush);
    assert!(bench.sent.is_empty(), "one flush at a time");
    bench
        .work
        .answered(&flush.piece, Ok(()), START, &mut bench.done);
    bench.issue();
    assert_eq!(bench.sent(), [(FLUSH, 0), (WRITE, 64 << 20)]);
    bench.done.clear();
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(65, Ok(())), (66, Ok(()))], "for both");
}

#[test]
fn a_server_without_flush_has_nothing_to_forget() {
    let mut bench = Bench::new(TransmissionFlags::HAS_FLAGS);
    bench.write(1, 0, 4096, true);
    bench.answer(Ok(()));
    bench.submit(2, OriginVerb::Flush);
    let verb = OriginVerb::Discard {
        offset: Offset::ZERO,
        length: Bytes::kib(4),
    };
    bench.submit(3, verb);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.results(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
    bench.reconnect(TransmissionFlags::HAS_FLAGS);
    assert!(bench.sent.is_empty());
}

#[test]
fn what_a_new_server_cannot_do_is_not_asked_of_it() {
    let mut bench = Bench::new(able());
    bench.submit(1, OriginVerb::Flush);
    let verb = OriginVerb::Discard {
        offset: Offset::ZERO,
        length: Bytes::kib(4),
    };
    bench.submit(2, verb);
    bench.reconnect(TransmissionFlags::HAS_FLAGS);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.results(), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn changes_of_a_common_range_are_sent_one_after_the_other() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 4096, false);
    bench.write(2, 3584, 1024, false);
    bench.write(3, 4096, 4096, false);
    assert_eq!(bench.sent(), [(WRITE, 0)], "3 waits for 2, 2 for 1");
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(WRITE, 3584)]);
    bench.answer(Ok(()));
    assert_eq!(bench.sent(), [(WRITE, 4096)]);
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
}

#[test]
fn a_repetition_keeps_the_order_of_changes_that_were_in_flight() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 4096, 1, false);
    bench.write_bytes(2, 0, 4096, 2, false);
    bench.answer(Ok(()));
    bench.reconnect(able());
    assert_eq!(bench.sent_to(0), [1], "acknowledged, and may be forgotten");
    bench.answer(Ok(()));
    assert_eq!(bench.sent_to(0), [2]);
    bench.answer(Ok(()));
    bench.reconnect(able());
    assert_eq!(
        bench.sent_to(0),
        [2],
        "nothing repeats what was overwritten"
    );
}

#[test]
fn what_was_seen_of_a_failed_change_is_not_undone_by_a_repetition() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 2 << 20, 1, false);
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    // Its first piece is carried out, its second is not.
    bench.write_bytes(2, 0, 2 << 20, 2, false);
    bench.answer(Ok(()));
    bench.answer(Err(Errno::Io));
    assert_eq!(bench.results(), [(1, Ok(())), (2, Err(IoError::Failed))]);
    bench.see(3, 4096, 2);
    bench.see(4, 1 << 20, 1);
    bench.reconnect(able());
    assert_eq!(bench.sent_to(4096), [2], "somebody has seen it");
    assert_eq!(bench.sent_to(1 << 20), [1]);
    assert_eq!(bench.sent_to(8192), [1], "nobody has: the acknowledged one");
}

#[test]
fn what_was_seen_of_a_late_change_is_not_undone_by_a_repetition() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 8192, 1, false);
    bench.answer(Ok(()));
    bench.write_bytes(2, 0, 8192, 2, false);
    bench.now = START + TIME;
    let mut done = Vec::new();
    bench.work.expire(bench.now, IoError::TimedOut, &mut done);
    assert_eq!(done[0].result, Err(IoError::TimedOut));
    bench.answer(Ok(()));
    bench.see(3, 0, 2);
    bench.reconnect(able());
    assert_eq!(bench.sent_to(0), [2], "it has happened after all");
    assert_eq!(bench.sent_to(4096), [1], "nobody knows what is there");
}

#[test]
fn what_a_server_refuses_because_it_shuts_down_is_sent_to_the_next() {
    let mut bench = Bench::new(able());
    bench.write(1, 0, 2 << 20, false);
    let read = bench.read(4 << 20);
    bench.submit(2, read);
    let refused = bench.sent.pop_front().expect("a piece was sent");
    bench.work.refused(&refused.piece, &mut bench.done);
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(2, Ok(()))], "half a write is none");
    bench.reconnect(able());
    assert_eq!(bench.sent(), [(WRITE, 0), (WRITE, 1 << 20)]);
    bench.answer(Ok(()));
    bench.answer(Ok(()));
    assert_eq!(bench.results(), [(1, Ok(()))]);
}

#[test]
fn a_read_that_ran_out_of_time_keeps_no_change_waiting() {
    let mut bench = Bench::new(able());
    let read = bench.read(0);
    bench.submit(1, read);
    bench.write(2, 0, 4096, false);
    assert_eq!(
        bench.sent(),
        [(READ, 0)],
        "it must not see a change that may fail"
    );
    bench.now = START + TIME;
    bench.write(3, 0, 4096, false);
    let mut done = Vec::new();
    bench.work.expire(bench.now, IoError::TimedOut, &mut done);
    assert_eq!(done.len(), 2, "the read and the write behind it");
    bench.issue();
    assert_eq!(bench.sent(), [(READ, 0), (WRITE, 0)]);
}

#[test]
fn a_change_that_was_sent_before_a_loss_and_given_up_after_it_leaves_doubt() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 4096, 1, true);
    bench.answer(Ok(()));
    bench.write_bytes(2, 0, 4096, 2, false);
    bench.write_bytes(3, 8192, 4096, 3, false);
    bench.now = START + TIME;
    bench.work.restart(&terms(able()), &mut bench.done);
    let mut done = Vec::new();
    bench
        .work
        .expire(bench.now, IoError::Disconnected, &mut done);
    assert_eq!(done.len(), 2);
    bench.sent.clear();
    bench.see(4, 0, 2);
    bench.reconnect(able());
    assert_eq!(bench.sent_to(0), [2], "somebody has seen it");
    assert_eq!(bench.sent_to(8192), [], "nobody has");
}

#[test]
fn what_a_former_session_left_holds_its_range_until_it_is_over() {
    let mut bench = Bench::new(able());
    let left = SentChange {
        cookie: 99,
        offset: 4096,
        length: 4096,
    };
    let patience = START + Duration::from_secs(30);
    bench.work.expect_late_changes(&[left], patience);
    bench.write(1, 4096, 512, false);
    let read = bench.read(4096);
    bench.submit(2, read);
    bench.write(3, 8192, 512, false);
    assert_eq!(bench.sent.len(), 1, "the rest of the disk goes on");
    assert_eq!(bench.answer(Ok(())), (WRITE, 8192, 512));
    // What waits for it has all its time from when it should be over, and a new session waits too.
    bench.now = patience;
    bench
        .work
        .expire(bench.now, IoError::TimedOut, &mut bench.done);
    assert_eq!(bench.done.len(), 1);
    let terms = terms(able());
    bench.work.restart(&terms, &mut bench.done);
    bench.issue();
    assert_eq!((bench.sent.len(), bench.work.late_bytes()), (1, 4096));
    assert_eq!(bench.answer(Ok(())), (WRITE, 8192, 512), "it is repeated");
    bench.work.late_change_is_over(99);
    bench.issue();
    assert_eq!(bench.answer(Ok(())), (WRITE, 4096, 512));
    bench.issue();
    assert_eq!(bench.answer(Ok(())), (READ, 4096, 4096));
}

#[test]
fn a_read_says_that_an_earlier_flush_does_not_vouch_for_a_late_change() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 4096, 1, false);
    bench.now = START + TIME;
    let mut done = Vec::new();
    bench.work.expire(bench.now, IoError::TimedOut, &mut done);
    assert_eq!(done[0].result, Err(IoError::TimedOut));
    bench.submit(2, OriginVerb::Flush);
    let late = bench.sent.pop_front().expect("the write was sent");
    assert_eq!(bench.answer(Ok(())), (FLUSH, 0, 0));
    bench.sent.push_front(late);
    bench.answer(Ok(()));
    bench.done.clear();
    bench.see(3, 0, 1);
    bench.see(4, 0, 1);
    let said = bench.done.drain(..).map(|done| done.volatile);
    assert_eq!(said.collect::<Vec<_>>(), [true, false], "once");
}

#[test]
fn a_flush_that_is_sent_when_a_late_change_is_over_vouches_for_it() {
    let mut bench = Bench::new(able());
    bench.write_bytes(1, 0, 4096, 1, false);
    bench.now = START + TIME;
    bench
        .work
        .expire(bench.now, IoError::TimedOut, &mut bench.done);
    bench.answer(Ok(()));
    bench.submit(2, OriginVerb::Flush);
    assert_eq!(bench.answer(Ok(())), (FLUSH, 0, 0));
    bench.done.clear();
    bench.see(3, 0, 1);
    assert!(!bench.done[0].volatile);
}

#[test]
fn what_was_seen_of_a_former_sessions_change_is_not_undone_by_a_crash_of_the_server() {
    let mut bench = Bench::new(able());
    let left = SentChange {
        cookie: 99,
        offset: 0,
        length: 8192,
    };
    bench.work.expect_late_changes(&[left], START);
    bench.submit(1, OriginVerb::Flush);
    assert_eq!(bench.answer(Ok(())), (FLUSH, 0, 0));
    bench.work.late_change_is_over(99);
    bench.done.clear();
    bench.see(2, 0, 2);
    assert!(
        bench.done[0].volatile,
        "no flush of this session knew of it"
    );
    bench.reconnect(able());
    assert_eq!(bench.sent_to(0), [2], "somebody has seen it");
    assert_eq!(bench.sent_to(4096), [], "nobody has");
}

#[test]
fn a_session_that_may_not_write_repeats_nothing_that_it_has_seen() {
    let mut bench = Bench::of_disk(able(), true);
    let left = SentChange {
        cookie: 99,
        offset: 0,
        length: 4096,
    };
    bench.work.expect_late_changes(&[left], START);
    bench.work.late_change_is_over(99);
    bench.see(1, 0, 2);
    assert!(bench.done[0].volatile);
    bench.reconnect(able());
    assert_eq!(bench.sent(), []);
    bench.submit(2, OriginVerb::Flush);
    assert_eq!(bench.answer(Ok(())), (FLUSH, 0, 0));
    bench.done.clear();
    bench.see(3, 0, 2);
    assert!(!bench.done[0].volatile, "the flush vouches for it");
}
