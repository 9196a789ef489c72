//! Seeds of who talks to whom: an sFlow datagram, a table of connections, csv, addresses.

use crate::write;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A flow sample of a frame with a tag and IPv4, in a datagram of an agent at 192.0.2.1.
fn datagram() -> Vec<u8> {
    let mut frame = vec![
        0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0,
    ];
    frame.extend([
        0x45, 0, 0, 100, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0,
    ]);
    let bytes = |count: usize| u32::try_from(count).unwrap();
    let mut record = words(&[1, bytes(16 + frame.len()), 1, 1_500, 4, bytes(frame.len())]);
    record.extend(frame);
    let mut sample = words(&[1, 3, 400, 1_000, 0, 3, 4, 1]);
    sample.extend(record);
    let mut datagram = words(&[5, 1, 0xc000_0201, 0, 1, 1_000, 1, 1, bytes(sample.len())]);
    datagram.extend(sample);
    datagram
}

pub(crate) fn traffic() {
    write("traffic", "sflow", 0, &datagram());
    let connection = "ipv4 2 tcp 6 9 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=4 dport=80 packets=5 bytes=1000 \
                      src=10.0.0.2 dst=10.0.0.1 sport=80 dport=4 packets=3 bytes=500 [ASSURED] mark=0 use=2\n";
    write("traffic", "conntrack", 1, connection.as_bytes());
    write(
        "traffic",
        "pairs",
        2,
        b"vm,vm,rate\nweb,db,1.5MiB/s\n# x\ndb,log,8kbit\nweb,log,1e300\n",
    );
    write(
        "traffic",
        "addresses",
        3,
        b"vm,address\nweb,52:54:00:12:34:56\ndb,fd00::1\n",
    );
}
