//! Clients of the socket that all disks share take no place at a disk's own socket: a VM that comes there
//! is served however many there are.

use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, nbdsh, scenario};

#[test]
fn clients_of_the_common_socket_keep_nobody_out_of_a_disk_s_own() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let own = lab.path("own.sock");
        let key = format!("nbd = {{ socket = '{}' }}", own.display());
        let settings = HearthSettings::new(&flash)
            .nbd_key("connections_max = 2")
            .nbd_key("connections_per_disk_max = 2")
            .disk(&DiskSettings::on_file("disk", image.path()).key(&key));
        let hearth = Hearth::start(lab, &settings)?;
        let script = format!(
            r"
def connected(uri):
    client = nbd.NBD()
    client.connect_uri(uri)
    assert len(client.pread(4096, 0)) == 4096
    return client

def refused(uri):
    try:
        nbd.NBD().connect_uri(uri)
    except nbd.Error:
        return
    raise AssertionError('there was a place')

common, own = '{}', 'nbd+unix:///disk?socket={}'
clients = [connected(common) for _ in range(2)]
refused(common)
clients += [connected(own) for _ in range(2)]
refused(own)
",
            hearth.uri("disk"),
            own.display()
        );
        nbdsh(None, &script)?;
        hearth.stop().map(drop)
    });
}
