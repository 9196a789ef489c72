//! What one connection wrote and was answered for, another one reads (multi-connection).

use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn a_write_on_one_connection_is_read_on_another() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        let script = format!(
            r"
others = [nbd.NBD() for _ in range(4)]
for other in others:
    other.connect_uri('{uri}')
for turn in range(300):
    writer, reader = others[turn % 4], others[(turn + 1) % 4]
    data = turn.to_bytes(4, 'big') * 1024
    writer.pwrite(data, turn % 5 * 4096)
    assert reader.pread(4096, turn % 5 * 4096) == data, turn
others[0].pwrite(b'z' * 4096, 0)
others[1].flush()
for other in others:
    other.shutdown()
"
        );
        nbdsh(None, &script)?;
        Ok(())
    });
}
