//! A disk that goes to another cache and comes back: what the first one had of it may be older than
//! the origin, and is not served. The origin is an NBD export, of which nobody can see that it was
//! written meanwhile.

use anyhow::ensure;
use e2e::{
    Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, nbdsh, scenario, writes,
};

const BLOCKS: u64 = 64;

struct TwoCaches {
    origin: Origin,
    settings: HearthSettings,
}

impl TwoCaches {
    fn new(lab: &Lab) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let other = Flash::format(lab, "other.img", 64)?;
        let settings = HearthSettings::new(&flash).cache("other", &other);
        Ok(Self { origin, settings })
    }

    fn attach(&self, hearth: &Hearth, cache: &str, policy: &str) -> anyhow::Result<()> {
        let origin = self.origin.uri();
        let words = ["disk", "attach", "web", "--origin", &origin];
        let more = ["--cache", cache, "--write-policy", policy];
        hearth.command(&[&words[..], &more].concat()).map(drop)
    }
}

fn reads(hearth: &Hearth, round: u8) -> anyhow::Result<()> {
    let script = format!(
        "for b in range({BLOCKS}):\n    assert h.pread(4096, b * 4096) == bytes([b % 251, {round}]) * 2048, b"
    );
    nbdsh(Some(&hearth.uri("web")), &script).map(drop)
}

fn comes_back(policy: &'static str) {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let two = TwoCaches::new(lab)?;
        let hearth = Hearth::start(lab, &two.settings)?;
        let mut round = 0;
        for cache in ["flash", "other", "flash", "other"] {
            two.attach(&hearth, cache, policy)?;
            if round > 0 {
                reads(&hearth, round)?;
                let shown = hearth.json(&["disk", "show", "web"])?;
                let why = shown["dropped"].as_str().unwrap_or_default();
                ensure!(round == 1 || why.contains("another cache"), "{shown}");
            }
            round += 1;
            nbdsh(Some(&hearth.uri("web")), &writes(0, BLOCKS, round))?;
            reads(&hearth, round)?;
            // Once more, from flash.
            reads(&hearth, round)?;
            hearth.command(&["disk", "detach", "web"])?;
        }
        // Back to where it was last: warm.
        two.attach(&hearth, "other", policy)?;
        let shown = hearth.json(&["disk", "show", "web"])?;
        ensure!(shown["dropped"].is_null(), "{shown}");
        ensure!(shown["warm_blocks"].as_u64() > Some(0), "{shown}");
        reads(&hearth, round)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn what_it_has_is_dropped_under_through() {
    comes_back("through");
}

#[test]
fn what_it_has_is_dropped_under_around() {
    comes_back("around");
}
