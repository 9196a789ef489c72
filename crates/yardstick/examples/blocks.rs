//! Writes the block accesses of a real trace as an oracleGeneral file, for `benches/beside_libcachesim.py`.
//!
//! ```text
//! cargo run --release -p yardstick --example blocks -- libcachesim/cloudPhysicsIO.vscsi.zst cphy.oracleGeneral
//!
//! a record, 24 bytes, little-endian:  u32 time  u64 block  u32 size (1)  i64 next access, -1: never
//! ```

#![allow(clippy::unwrap_used, reason = "an example")]

use policy::replacement::belady::{NEVER, next_uses};
use std::io::Write;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments
        .next()
        .expect("which trace, below the traces' folder");
    let to = arguments.next().expect("the file to write");
    let keys = yardstick::keys_of(&trace_fixtures::real_trace(&trace).expect("the trace"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(to).unwrap());
    for (key, next) in keys.iter().zip(next_uses(&keys)) {
        let next = if next == NEVER { -1 } else { i64::from(next) };
        file.write_all(&0u32.to_le_bytes()).unwrap();
        // No block 0: libCacheSim takes it for the end of the trace.
        file.write_all(&(u64::from(*key) + 1).to_le_bytes())
            .unwrap();
        file.write_all(&1u32.to_le_bytes()).unwrap();
        file.write_all(&next.to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
}
