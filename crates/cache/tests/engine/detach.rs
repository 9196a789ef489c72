//! What a disk leaves behind when it is detached asks nothing of its origin any more.

use crate::support::Bench;
use cache::Config;
use units::{BLOCK_BYTES, Bytes, Duration};

const DISK: Bytes = Bytes::mib(1);

#[test]
fn a_disk_whose_origin_could_not_be_flushed_asks_for_nothing_when_it_is_gone() {
    let config = Config {
        trust_delay: Duration::from_millis(20),
        write_delay: Duration::from_millis(1),
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(Bytes::mib(2), Bytes::kib(64), config);
    bench.pause = Duration::from_millis(5);
    bench.flushes = false;
    let gone = bench.attach(&mut cache, 1, DISK);
    // Eight blocks that are worth keeping, since they are read again. The flushes of their origin
    // fail, so what is cached of them at last is what was read after that.
    for block in 0..8 {
        bench.read(&mut cache, gone, block);
        bench.write(&mut cache, gone, block);
        bench.read(&mut cache, gone, block);
    }
    bench.detach(&mut cache, gone);
    bench.asked.clear();

    // Another disk needs the room.
    let other = bench.attach(&mut cache, 2, DISK);
    for block in (0..8).flat_map(|_| 0..DISK.get() / BLOCK_BYTES) {
        bench.read(&mut cache, other, block);
    }
    for _ in 0..10 {
        bench.settle(&mut cache);
        cache.self_check();
    }

    assert!(
        bench.asked.iter().all(|disk| *disk == other),
        "an origin that nobody serves was asked for something"
    );
}
