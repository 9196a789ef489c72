//! Steps on a database: `commit` and `account`.
//!
//! `SQLite`, by its own program, with `synchronous=FULL`: what `COMMIT` has answered must be there after
//! any crash, whole. (With a rollback journal that takes `EXTRA`: under `FULL` the deletion of the
//! journal, which is the commit, is not synced, and a power cut may undo the last transaction.) Transaction `t` inserts [`ROWS`] rows that can be recognised and moves one unit
//! from one account to the next, so the accounts always sum up to nothing and a transaction that is
//! there in part shows.
//!
//! ```text
//! commit ──"BEGIN; ...; COMMIT; SELECT t;"──► sqlite3 ──"t"──► PROBE committed transaction=t
//! ```

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::outcome::{Doing as _, ProbeError, Verdict, say};
use crate::step::Step;

/// The program that the image has.
const SQLITE: &str = "/usr/bin/sqlite3";
/// Rows that a transaction inserts.
const ROWS: u64 = 4;
/// Accounts between which units move.
const ACCOUNTS: u64 = 16;
/// Bytes of a row's text: few fit into a page, so that a transaction touches several.
const TEXT_BYTES: u64 = 900;

/// A running sqlite3 that is asked line by line.
struct Sqlite {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Sqlite {
    fn open(database: &Path) -> Result<Self, ProbeError> {
        let mut child = Command::new(SQLITE)
            .args(["-batch", "-bail"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(SQLITE)?;
        let answers = child.stdout.take().map(BufReader::new);
        let answers = answers.ok_or_else(|| ProbeError::Usage("sqlite3 is silent".to_owned()))?;
        Ok(Self { child, answers })
    }

    /// Sends statements whose last one answers with one line, and gives that.
    fn ask(&mut self, statements: &str) -> Result<String, ProbeError> {
        if let Some(to) = &mut self.child.stdin {
            to.write_all(statements.as_bytes())
                .doing("asking sqlite3")?;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).doing("hearing sqlite3")?;
        Ok(line.trim_end().to_owned())
    }

    /// The same for an answer that is a number.
    fn number(&mut self, statements: &str) -> Result<u64, ProbeError> {
        let line = self.ask(statements)?;
        line.parse()
            .map_err(|_| ProbeError::Usage(format!("sqlite3 answered '{line}'")))
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.child.stdin = None;
        let _ = self.child.wait();
    }
}

fn schema(wal: bool) -> String {
    let (journal, synchronous) = if wal {
        ("wal", "FULL")
    } else {
        ("delete", "EXTRA")
    };
    format!(
        "PRAGMA busy_timeout=60000;\n.output /dev/null\nPRAGMA journal_mode={journal};\n.output stdout\n\
         PRAGMA synchronous={synchronous};\n\
         CREATE TABLE IF NOT EXISTS entries(txn INTEGER, item INTEGER, text TEXT, PRIMARY KEY(txn, item));\n\
         CREATE TABLE IF NOT EXISTS accounts(id INTEGER PRIMARY KEY, units INTEGER);\n\
         INSERT OR IGNORE INTO accounts WITH RECURSIVE n(i) AS \
         (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<{}) SELECT i, 0 FROM n;\n",
        ACCOUNTS - 1
    )
}

/// What the text of a row must be, as an SQL expression over its columns.
fn text() -> String {
    format!("printf('%.*c', {TEXT_BYTES}, char(65 + (txn * 7 + item) % 26))")
}

/// `commit`: transactions one after the other, each named once its commit was answered.
pub(crate) fn commit(step: &Step) -> Result<Verdict, ProbeError> {
    let database = step.path("db")?;
    let count = step.number_or("transactions", 10)?;
    let wal = step.number_or("wal", 0)? == 1;
    let mut sqlite = Sqlite::open(&database)?;
    // The busy timeout answers with a line of its own.
    sqlite.ask(&schema(wal))?;
    let last = sqlite.number("SELECT coalesce(max(txn), 0) FROM entries;\n")?;
    let began = Instant::now();
    for txn in last + 1..=last + count {
        let statements = format!(
            "BEGIN IMMEDIATE;\n\
             INSERT INTO entries SELECT txn, item, {text} FROM (SELECT {txn} AS txn, id AS item FROM accounts WHERE id < {ROWS});\n\
             UPDATE accounts SET units = units - 1 WHERE id = {from};\n\
             UPDATE accounts SET units = units + 1 WHERE id = {to};\n\
             COMMIT;\nSELECT {txn};\n",
            text = text(),
            from = txn % ACCOUNTS,
            to = (txn + 1) % ACCOUNTS,
        );
        let answer = sqlite.number(&statements)?;
        if answer != txn {
            return Err(ProbeError::Usage(format!("{answer} for {txn}")));
        }
        say(&format!("committed transaction={txn}"));
    }
    let ms = began.elapsed().as_millis();
    say(&format!("commits transactions={count} ms={ms}"));
    Ok(Verdict::Pass)
}

/// `account`: the database is sound, has every transaction up to `through`, and each whole.
pub(crate) fn account(step: &Step) -> Result<Verdict, ProbeError> {
    let database = step.path("db")?;
    let through = step.number_or("through", 0)?;
    let mut sqlite = Sqlite::open(&database)?;
    let sound = sqlite.ask("PRAGMA integrity_check(1);\n")?;
    let tables = sqlite.number("SELECT count(*) FROM sqlite_master WHERE type = 'table';\n")?;
    if tables < 2 {
        // From before its first transaction.
        say(&format!("database sound={sound} tables={tables}"));
        return Ok(Verdict::from_bad(u64::from(sound != "ok" || through > 0)));
    }
    let last = sqlite.number("SELECT coalesce(max(txn), 0) FROM entries;\n")?;
    let rows = sqlite.number("SELECT count(*) FROM entries;\n")?;
    let other = format!("SELECT count(*) FROM entries WHERE text <> {};\n", text());
    let other = sqlite.number(&other)?;
    // Transaction t takes from account t and gives to account t + 1: all but the ends cancel out.
    let sum =
        sqlite.number("SELECT coalesce(abs(sum(units)) + sum(abs(units)), 0) FROM accounts;\n")?;
    let moved = if last % ACCOUNTS == 0 { 0 } else { 2 };
    say(&format!(
        "database sound={sound} transactions={last} rows={rows} other={other} moved={sum}"
    ));
    let bad = [
        ("sound", sound != "ok"),
        ("through", last < through),
        ("rows", rows != last * ROWS),
        ("other", other != 0),
        ("moved", sum != moved),
    ];
    for (what, is_bad) in bad {
        if is_bad {
            say(&format!("bad database {what}"));
        }
    }
    let bad = bad.iter().filter(|(_, is_bad)| *is_bad).count();
    Ok(Verdict::from_bad(bad as u64))
}
