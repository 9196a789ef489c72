//! The golden traces, read and split, are the published streams of block keys to the last bit.
//!
//! In the published streams a block's number is its rank among all distinct blocks of the trace in
//! ascending order, so the splitter's keys are translated before they are hashed.

use sha2::{Digest, Sha256};
use trace::{Batch, Options, Records, Splitter, open};
use units::Bytes;

/// Accesses, distinct blocks and the digest of the keys as little-endian 32-bit numbers.
fn stream_of(path: &std::path::Path) -> (usize, u32, String) {
    let mut opened = open(path, &Options::default()).unwrap();
    let mut splitter = Splitter::new(Bytes::kib(4));
    let (mut records, mut batch, mut keys) = (Records::new(), Batch::default(), Vec::new());
    while opened.reader.read_batch(&mut records).unwrap() {
        splitter.split(&records, &mut batch).unwrap();
        keys.extend_from_slice(&batch.keys);
    }
    let ranks = ranks(&splitter);
    let mut digest = Sha256::new();
    for some in keys.chunks(1 << 16) {
        let bytes: Vec<u8> = some
            .iter()
            .flat_map(|&key| ranks[key as usize].to_le_bytes())
            .collect();
        digest.update(&bytes);
    }
    let digest = format!("{:x}", digest.finalize());
    (keys.len(), splitter.distinct(), digest)
}

/// Each key's rank by volume and block.
fn ranks(splitter: &Splitter) -> Vec<u32> {
    let places = splitter.places();
    let mut by_place: Vec<u32> = (0..splitter.distinct()).collect();
    by_place.sort_unstable_by_key(|&key| places[key as usize]);
    let mut ranks = vec![0; by_place.len()];
    for (rank, &key) in (0..).zip(&by_place) {
        ranks[key as usize] = rank;
    }
    ranks
}

fn is_golden(trace: &str) {
    let rows = trace_fixtures::golden("streams.csv");
    let row = rows.iter().find(|row| row[0] == trace).unwrap();
    let Some(path) = trace_fixtures::real_trace(&row[1]) else {
        return;
    };
    let (accesses, distinct, digest) = stream_of(&path);
    assert_eq!(accesses.to_string(), row[2]);
    assert_eq!(distinct.to_string(), row[3]);
    assert_eq!(digest, row[4]);
}

#[test]
fn oltp_is_the_published_stream() {
    is_golden("OLTP");
}

#[test]
fn p6_is_the_published_stream() {
    is_golden("P6");
}

#[test]
fn p2_is_the_published_stream() {
    is_golden("P2");
}

#[test]
fn cphy_is_the_published_stream() {
    is_golden("cphy");
}

#[test]
fn web2d_is_the_published_stream() {
    is_golden("web2d");
}

#[test]
fn mysql_is_the_published_stream() {
    is_golden("mysql");
}
