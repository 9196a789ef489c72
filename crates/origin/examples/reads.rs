//! Reads of 4 KiB at random from an image of Ceph or a unit of iSCSI, so many at a time: what the origin itself does, without
//! a cache and a front end. It prints the reads a second.
//!
//! ```text
//! cargo run --release -p origin --example reads -- ceph CONF USER POOL IMAGE DEPTH SECONDS
//! cargo run --release -p origin --example reads -- iscsi PORTAL TARGET UNIT DEPTH SECONDS
//! ```

use block_io::{BufPool, OriginOp, OriginVerb, Token};
use origin::{IscsiSpec, OriginSpec, RbdSpec};
use ring::Ring;
use std::error::Error;
use std::io::Write as _;
use std::time::Instant;
use units::{Bytes, DiskSlot, Duration, Offset};

const BLOCK: u64 = 4096;
const USAGE: &str =
    "ceph CONF USER POOL IMAGE DEPTH SECONDS, or iscsi PORTAL TARGET UNIT DEPTH SECONDS";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (spec, depth, seconds) = match words[..] {
        ["ceph", conf, user, pool, image, depth, seconds] => {
            (ceph(conf, user, pool, image), depth, seconds)
        }
        ["iscsi", portal, target, unit, depth, seconds] => {
            (iscsi(portal, target, unit.parse()?), depth, seconds)
        }
        _ => return Err(USAGE.into()),
    };
    let (reads, time) = measure(&spec, depth.parse()?, seconds.parse()?)?;
    writeln!(std::io::stdout(), "{:.0}", reads / time)?;
    Ok(())
}

fn ceph(conf: &str, user: &str, pool: &str, image: &str) -> OriginSpec {
    OriginSpec::Rbd(RbdSpec {
        name: format!("rbd:{pool}/{image}"),
        conf: Some(conf.into()),
        user: Some(user.to_owned()),
        pool: pool.to_owned(),
        namespace: String::new(),
        image: image.to_owned(),
        snapshot: None,
        connect_timeout: Duration::from_secs(30),
        request_timeout: Duration::from_secs(30),
    })
}

fn iscsi(portal: &str, target: &str, unit: u16) -> OriginSpec {
    OriginSpec::Iscsi(IscsiSpec {
        name: format!("iscsi://{portal}/{target}/{unit}"),
        portal: portal.to_owned(),
        target: target.to_owned(),
        unit,
        initiator: "iqn.2026-01.org.example:reads".to_owned(),
        chap: None,
        target_chap: None,
        connect_timeout: Duration::from_secs(30),
        reconnect_pause_max: Duration::from_secs(5),
        request_timeout: Duration::from_secs(30),
    })
}

/// Reads for so many seconds with `depth` reads in flight: how many there were, and how long it took.
fn measure(spec: &OriginSpec, depth: u64, seconds: u64) -> Result<(f64, f64), Box<dyn Error>> {
    let (ring, pool) = (Ring::new(256)?, BufPool::new());
    let opened = origin::open(spec, true)?;
    let blocks = opened.geometry().size.get() / BLOCK;
    let mut origin = opened.start(&ring, &pool);
    // A linear congruential generator (Knuth, MMIX): it costs nothing beside a read.
    let mut state = 1_u64;
    let mut read = |token, buf| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let verb = OriginVerb::Read {
            offset: Offset::new((state >> 33) % blocks * BLOCK),
            length: Bytes::new(BLOCK),
            buf,
        };
        let disk = DiskSlot::new(0);
        OriginOp { token, disk, verb }
    };
    for number in 0..depth {
        let op = read(Token(number), pool.take(usize::try_from(BLOCK)?));
        origin.submit(op, ring.now());
    }
    let (began, mut reads) = (Instant::now(), 0_u32);
    let (mut ready, mut done) = (Vec::new(), Vec::new());
    while began.elapsed().as_secs() < seconds {
        ring.submit_and_wait(Some(Duration::from_secs(1)))?;
        ready.clear();
        ring.take_ready(&mut ready);
        origin.poll(ring.now(), &mut done);
        for ended in done.drain(..) {
            ended.result?;
            reads += 1;
            let buf = ended.buf.ok_or("a read without its buffer")?;
            origin.submit(read(ended.token, buf), ring.now());
        }
    }
    Ok((f64::from(reads), began.elapsed().as_secs_f64()))
}
