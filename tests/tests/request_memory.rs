//! Clients cannot have more memory allocated than the budget, and one that asks little is served while
//! others keep all that there is.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::ensure;
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, LONG, SHORT, nbdsh, scenario, wait_until};

const MIB: u64 = 1 << 20;

/// The least that may be set; half of it is for large requests: one of the largest.
const BUDGET_MIB: u64 = 64;

/// Clients that each announce the largest write there is and send most of it: 3 GiB in all.
const GREEDY: usize = 96;

/// A client that has negotiated an export.
fn attached(socket: &Path, export: &str) -> anyhow::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SHORT))?;
    stream.set_write_timeout(Some(SHORT))?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    ensure!(greeting.starts_with(b"NBDMAGIC"), "no NBD greeting");
    let mut go = Vec::from(3_u32.to_be_bytes());
    go.extend(b"IHAVEOPT");
    go.extend(7_u32.to_be_bytes());
    let name = u32::try_from(export.len())?;
    go.extend((name + 6).to_be_bytes());
    go.extend(name.to_be_bytes());
    go.extend(export.as_bytes());
    go.extend(0_u16.to_be_bytes());
    stream.write_all(&go)?;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let number = |at: usize| -> anyhow::Result<u32> {
            Ok(u32::from_be_bytes(head[at..at + 4].try_into()?))
        };
        let mut rest = vec![0; usize::try_from(number(16)?)?];
        stream.read_exact(&mut rest)?;
        match number(12)? {
            1 => return Ok(stream),
            3 => {}
            other => anyhow::bail!("option reply {other:#x}"),
        }
    }
}

/// The header of a write.
fn write_header(offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
    let mut header = Vec::from(0x2560_9513_u32.to_be_bytes());
    header.extend([0, 0, 0, 1]);
    header.extend(17_u64.to_be_bytes());
    header.extend(offset.to_be_bytes());
    header.extend(u32::try_from(length)?.to_be_bytes());
    Ok(header)
}

/// Announces a write of 32 MiB and sends as much of it as the daemon takes at once, but not all.
fn greedy(socket: &Path) -> anyhow::Result<UnixStream> {
    let mut stream = attached(socket, "large")?;
    stream.write_all(&write_header(0, 32 * MIB)?)?;
    stream.set_nonblocking(true)?;
    let (mut sent, mut refused, page) = (0, 0, vec![7; 1 << 16]);
    while sent < 31 * MIB && refused < 100 {
        if let Ok(bytes) = stream.write(&page) {
            (sent, refused) = (sent + bytes as u64, 0);
        } else {
            // Either it is slow, or it does not take any more.
            refused += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Ok(stream)
}

fn memory(hearth: &Hearth) -> anyhow::Result<serde_json::Value> {
    Ok(hearth.json(&["status"])?["caches"][0]["request_memory"].clone())
}

#[test]
fn many_large_writes_that_never_arrive_take_bounded_memory_and_an_honest_client_is_served() {
    scenario(&["nbdsh"], |lab| {
        let (large, small) = (lab.path("large.raw"), lab.path("small.raw"));
        File::create(&large)?.set_len(64 * MIB)?;
        File::create(&small)?.set_len(64 * MIB)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .daemon_key(&format!("request_memory_max = '{BUDGET_MIB}MiB'"))
            .nbd_key("connections_per_disk_max = 200")
            .disk(&DiskSettings::on_file("large", &large))
            .disk(&DiskSettings::on_file("small", &small));
        let hearth = Hearth::start(lab, &settings)?;
        let before = hearth.peak_mib()?;
        let mut clients: Vec<UnixStream> = (0..GREEDY)
            .map(|_| greedy(hearth.nbd_socket()))
            .collect::<anyhow::Result<_>>()?;
        wait_until("the greedy clients to wait for memory", SHORT, || {
            Ok(memory(&hearth)?["waiting"].as_u64() == Some(GREEDY as u64 - 1))
        })?;
        // Small requests need none of what the others keep.
        let honest = "h.pwrite(b'x' * 4096, 0)\nassert h.pread(4096, 0) == b'x' * 4096\nh.flush()";
        nbdsh(Some(&hearth.uri("small")), honest)?;
        // A large one gets in, too: whoever keeps memory and does nothing is cut off for it.
        drop(clients.split_off(1));
        let big = "h.pwrite(b'y' * (16 << 20), 0)\nassert h.pread(4096, 4096) == b'y' * 4096";
        nbdsh(Some(&hearth.uri("small")), big)?;
        wait_until("the memory to be given back", LONG, || {
            Ok(memory(&hearth)?["waiting"].as_u64() == Some(0))
        })?;
        let shown = memory(&hearth)?;
        ensure!(shown["limit_bytes"] == BUDGET_MIB * MIB, "{shown}");
        ensure!(shown["refused"] == 1, "one client is cut off: {shown}");
        let taken = hearth.peak_mib()? - before;
        ensure!(taken < 3 * BUDGET_MIB, "the clients took {taken} MiB");
        let log = hearth.log()?;
        ensure!(log.contains("cut off"), "the log does not say why");
        drop(clients);
        hearth.stop().map(drop)
    });
}
