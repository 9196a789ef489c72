//! What libvirt says, asked by its own program, which may only read.

use super::sources::Round;
use monitor::{DOMSTATS_BYTES_MAX, DomstatsError, VmReading, domstats};
use std::io::{self, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long it may take. libvirt leaves out what it would have to wait for.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Bytes of what virsh complains that are told.
const COMPLAINT_BYTES_MAX: u64 = 1024;

/// Why libvirt says nothing.
#[derive(Debug, thiserror::Error)]
enum Silent {
    #[error("virsh: {0}: install libvirt's clients, or run hearth monitor without --libvirt")]
    Start(io::Error),
    #[error("virsh: {0}")]
    Lost(#[from] io::Error),
    #[error("virsh printed nothing more for 5 s: see whether libvirt answers `virsh -r list`")]
    Late,
    #[error("virsh: {0}: see whether the user of hearth monitor may run `virsh -r list`")]
    Refused(String),
    #[error("virsh printed more than {DOMSTATS_BYTES_MAX} bytes: use --qmp instead")]
    TooMuch,
    #[error("{0}: use --qmp instead")]
    Says(#[from] DomstatsError),
}

/// Asks libvirt about all VMs that run.
pub(super) async fn ask(uri: String, round: &mut Round) {
    let source = format!("--libvirt={uri}");
    let asked = tokio::task::spawn_blocking(move || ask_virsh(&uri)).await;
    match asked.unwrap_or_else(|error| Err(io::Error::other(error).into())) {
        Ok(vms) => vms.into_iter().for_each(|of| round.add(of.vm, of.figures)),
        Err(silent) => round.lacks(source, silent.to_string()),
    }
}

fn ask_virsh(uri: &str) -> Result<Vec<VmReading>, Silent> {
    let mut command = Command::new("virsh");
    command
        .args([
            "-r",
            "-c",
            uri,
            "domstats",
            "--balloon",
            "--block",
            "--vcpu",
        ])
        .args(["--raw", "--list-running", "--nowait"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Silent::Start)?;
    let printed = printed(&mut child);
    if printed.is_err() {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
    }
    let ended = child.wait()?;
    let printed = printed?;
    if !ended.success() {
        let mut complaint = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            stderr
                .take(COMPLAINT_BYTES_MAX)
                .read_to_end(&mut complaint)?;
        }
        let complaint = String::from_utf8_lossy(&complaint);
        let lines: Vec<&str> = complaint.lines().map(str::trim).collect();
        return Err(Silent::Refused(lines.join(" ").trim().to_owned()));
    }
    Ok(domstats(&String::from_utf8_lossy(&printed))?)
}

/// All that it prints, within time and size.
fn printed(child: &mut Child) -> Result<Vec<u8>, Silent> {
    let Some(stdout) = child.stdout.take() else {
        return Ok(Vec::new());
    };
    let (tell, told) = mpsc::channel();
    // It ends with the child, which is killed if it does not end by itself.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout
            .take(DOMSTATS_BYTES_MAX as u64 + 1)
            .read_to_end(&mut text);
        // Who asked may have left.
        let _ = tell.send(read.map(|_| text));
    });
    let text = told.recv_timeout(ANSWER_TIME).map_err(|_| Silent::Late)??;
    if text.len() > DOMSTATS_BYTES_MAX {
        return Err(Silent::TooMuch);
    }
    Ok(text)
}
