//! The `facts` and `trim` steps: how the kernel sees a disk, and that it takes discards.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::outcome::{Doing as _, ProbeError, Verdict, say};
use crate::step::Step;

/// How long a new size may take to arrive: the host tells it when it likes.
const RESIZE_TIME_MAX: Duration = Duration::from_mins(1);

/// `facts`: one line of what sysfs says of a disk; with `sectors`, once it has as many.
pub(crate) fn tell(step: &Step) -> Result<Verdict, ProbeError> {
    let disk = step.path("disk")?;
    let folder = Path::new("/sys/block").join(&disk);
    let read = |name: &str| -> Result<String, ProbeError> {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).doing(path.display())?;
        Ok(text.trim().replace(' ', "-"))
    };
    let wanted = step.number_or("sectors", 0)?;
    let began = Instant::now();
    while wanted > 0 && read("size")? != wanted.to_string() && began.elapsed() < RESIZE_TIME_MAX {
        std::thread::sleep(Duration::from_millis(50));
    }
    let queues = fs::read_dir(folder.join("mq")).doing("the queues")?.count();
    say(&format!(
        "facts size={} sector={} serial={} read_only={} queues={queues} cache={} discard={} zeroes={}",
        read("size")?,
        read("queue/logical_block_size")?,
        read("serial")?,
        read("ro")?,
        read("queue/write_cache")?,
        read("queue/discard_max_bytes")?,
        read("queue/write_zeroes_max_bytes")?,
    ));
    let is_right = wanted == 0 || read("size")? == wanted.to_string();
    Ok(if is_right {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}

/// `trim`: discards what a file system does not use.
pub(crate) fn trim(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let output = Command::new("/bin/busybox")
        .args(["fstrim", "-v"])
        .arg(&dir)
        .output()
        .doing("fstrim")?;
    let said = String::from_utf8_lossy(&output.stdout);
    say(&format!("trim {}", said.trim()));
    Ok(if output.status.success() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
