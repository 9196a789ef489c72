//! Who connects while the daemon is restarted is not refused: under a service manager that keeps
//! its sockets, and when it becomes another daemon in place.

use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Manager, SHORT, free_port, scenario,
    wait_until,
};
use rustix::process::Signal;

/// The ways in, of a daemon with one disk.
struct Host {
    settings: HearthSettings,
    vhost: PathBuf,
    nbd: PathBuf,
    tcp: SocketAddr,
}

impl Host {
    fn new(lab: &Lab) -> anyhow::Result<Self> {
        let image = Image::new(lab, "disk.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let vhost = lab.path("vda.sock");
        let disk = DiskSettings::on_file("disk", image.path()).vhost_user(&vhost, "");
        let tcp = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        Ok(Self {
            settings: HearthSettings::new(&flash)
                .nbd_key(&format!("tcp_address = '{tcp}'"))
                .disk(&disk),
            vhost,
            nbd: lab.path("nbd.sock"),
            tcp,
        })
    }

    /// Connects by each of them; nobody need be there to serve it.
    fn connect(&self) -> anyhow::Result<Waiting> {
        let tcp = TcpStream::connect(self.tcp).context("over TCP")?;
        tcp.set_read_timeout(Some(SHORT))?;
        Ok(Waiting {
            nbd: connect(&self.nbd, false)?,
            vhost: connect(&self.vhost, true)?,
            tcp,
        })
    }
}

/// Clients that have connected.
struct Waiting {
    nbd: UnixStream,
    vhost: UnixStream,
    tcp: TcpStream,
}

impl Waiting {
    fn expect_service(self) -> anyhow::Result<()> {
        ensure!(&answer(self.nbd)? == b"NBDMAGIC");
        ensure!(&answer(self.tcp)? == b"NBDMAGIC");
        ensure!(answer(self.vhost)?[..4] == 1_u32.to_le_bytes());
        Ok(())
    }
}

/// Connects, and asks for the features if that is over vhost-user.
fn connect(path: &Path, over_vhost: bool) -> anyhow::Result<UnixStream> {
    let mut stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
    stream.set_read_timeout(Some(SHORT))?;
    if over_vhost {
        let message = [1_u32, 1, 0].map(u32::to_le_bytes);
        stream.write_all(&message.concat())?;
    }
    Ok(stream)
}

/// The first words of who serves it.
fn answer(mut stream: impl Read) -> anyhow::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).context("no answer")?;
    Ok(bytes)
}

#[test]
fn who_connects_after_a_crash_or_a_stop_waits_for_the_next_daemon() {
    scenario(&[], |lab| {
        let host = Host::new(lab)?;
        let manager = Manager::new(lab)?;
        let mut hearth = Hearth::start_under(lab, &host.settings, &manager)?;
        for is_killed in [true, false] {
            if is_killed {
                hearth.kill()?;
            } else {
                hearth.stop()?;
            }
            let waiting = host.connect()?;
            hearth = Hearth::start_under(lab, &host.settings, &manager)?;
            waiting.expect_service()?;
        }
        // A disk that is detached leaves nothing behind.
        ensure!(manager.kept()?.len() == 4, "{:?}", manager.kept()?);
        hearth.command(&["disk", "detach", "disk", "--force"])?;
        ensure!(!host.vhost.exists());
        wait_until("the socket to be forgotten", SHORT, || {
            Ok(manager.kept()?.len() == 3)
        })?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn a_disk_that_is_not_attached_any_more_has_no_queue() {
    scenario(&[], |lab| {
        let host = Host::new(lab)?;
        let manager = Manager::new(lab)?;
        Hearth::start_under(lab, &host.settings, &manager)?.kill()?;
        let waiting = connect(&host.vhost, true)?;
        let flash = lab.path("flash.img");
        let without = HearthSettings::new(&Flash::existing(&flash));
        let hearth = Hearth::start_under(lab, &without, &manager)?;
        ensure!(answer(waiting).is_err(), "somebody has answered");
        ensure!(!host.vhost.exists() && manager.kept()?.len() == 3);
        hearth.stop().map(|_| ())
    });
}

#[test]
fn a_daemon_becomes_another_one_without_refusing_anybody() {
    scenario(&[], |lab| {
        let host = Host::new(lab)?;
        let mut hearth = Hearth::start(lab, &host.settings)?;
        let id = hearth.id();
        let is_over = AtomicBool::new(false);
        let came = std::thread::scope(|scope| {
            let clients = scope.spawn(|| -> anyhow::Result<u32> {
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // The daemon that ends may have let a client in, and hang up on it.
                    host.connect()?;
                    count += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Ok(count)
            });
            let renewed = (0..3).try_for_each(|_| hearth.renew());
            is_over.store(true, Ordering::Relaxed);
            let came = clients.join().expect("the clients end");
            renewed.and(came)
        })?;
        ensure!(came > 10, "{came} clients only");
        ensure!(hearth.id() == id);
        host.connect()?.expect_service()?;
        hearth.stop()?;
        ensure!(!host.nbd.exists() && !host.vhost.exists());
        Ok(())
    });
}

#[test]
fn a_daemon_serves_on_if_the_next_one_would_not_start() {
    scenario(&[], |lab| {
        let host = Host::new(lab)?;
        let hearth = Hearth::start(lab, &host.settings)?;
        lab.write("hearth.toml", "[daemon]\nno_such_key = 1\n")?;
        hearth.process().signal(Signal::USR2)?;
        wait_until("the refusal", SHORT, || {
            Ok(hearth
                .log()?
                .contains("serving on: the program would not start"))
        })?;
        host.connect()?.expect_service()?;
        hearth.stop().map(|_| ())
    });
}
