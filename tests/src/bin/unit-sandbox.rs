//! `unit-sandbox ROOT UNIT KEY`: becomes the command under KEY (`ExecStart`) of a unit that was
//! installed into the folder ROOT, under the restrictions of that unit. Tests start it in namespaces
//! of its own: `unshare --mount --uts unit-sandbox ...`.

#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [root, unit, key] = &words[..] else {
        bail!("usage: unit-sandbox ROOT UNIT KEY");
    };
    e2e::enter_sandbox(Path::new(root), unit, key)
}
