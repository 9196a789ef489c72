//! One guest of a wave, and the QEMU that it moves to.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use groups::{Load, Rate};
use serde_json::{Value, json};
use units::Bytes;
use units::number::{count_near, real};

use super::bottleneck::Bottleneck;
use super::deal::Progress;
use crate::{Guest, GuestKit, LONG, Lab, Qmp, wait_for_listener, wait_until};

/// What a guest is like.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Memory that it rewrites, page by page at random; its kernel has [`Member::KERNEL_MIB`] beside it.
    pub mib: u64,
    /// How much it rewrites in a second.
    pub kib_a_second: u64,
}

impl Member {
    /// Memory that the guest's kernel needs to start.
    pub const KERNEL_MIB: u64 = 88;

    /// Its memory.
    pub(super) fn memory_mib(self) -> u64 {
        self.mib + Self::KERNEL_MIB
    }
}

/// What a page of a guest takes in QEMU's stream: where it belongs, and its bytes.
const PAGE_SENT: u64 = PAGE + 8;
/// What a page of zeroes takes.
const ZEROES_SENT: u64 = 9;
const PAGE: u64 = 4096;

/// How long a guest may stand still at the end of a move: QEMU's own default. What is left then goes as fast as the link
/// lets it, whatever the guest's part of it is, so the longer this is the less the model's rounds say.
const DOWNTIME_LIMIT: Duration = Duration::from_millis(300);

/// How long a dirty rate may be late. One that has not come by then is zero.
const RATE_COMES: Duration = Duration::from_millis(500);

/// A guest that runs, and the QEMU that waits for it.
pub(super) struct Mover {
    source: Guest,
    monitor: Qmp,
    destination: Guest,
    near: String,
    began: Option<Instant>,
    pass: (u64, Instant),
}

impl Mover {
    /// Boots a guest, and a QEMU for it at the other end of the link. `number` is its place in the wave.
    pub(super) fn boot(
        lab: &Lab,
        kit: &GuestKit,
        link: &Bottleneck,
        (number, member): (usize, Member),
    ) -> anyhow::Result<Self> {
        let Member { mib, kib_a_second } = member;
        let steps = format!(
            "memory,mib={mib},kib_a_second={kib_a_second},seconds=100000,seed={number} disk=none pti=on"
        );
        let memory = member.memory_mib().to_string();
        let [near, far] = ["near", "far"].map(|end| lab.path(&format!("{end}{number}.sock")));
        link.lead(&near, far.clone())?;
        let source = format!("source{number}");
        let source = Guest::boot_as_told(lab, kit, &source, &steps, &["-m", &memory])?;
        let destination = format!("destination{number}");
        let incoming = format!("unix:{}", far.display());
        let arguments = ["-m", &memory, "-incoming", &incoming];
        let destination = Guest::boot_as_told(lab, kit, &destination, &steps, &arguments)?;
        wait_for_listener(&far)?;
        Ok(Self {
            monitor: source.monitor()?,
            source,
            destination,
            near: format!("unix:{}", near.display()),
            began: None,
            pass: (0, Instant::now()),
        })
    }

    /// Waits until the guest has filled its memory and rewrites it.
    pub(super) fn wait_until_steady(&mut self) -> anyhow::Result<()> {
        self.source.wait_for("PROBE memory second=2 ")
    }

    /// Begins to count what a move will send, by one into nothing that will not be carried out.
    pub(super) fn begin_count(&mut self, bandwidth: Rate) -> anyhow::Result<()> {
        self.set(whole(bandwidth), Duration::from_millis(1), true)?;
        self.migrate("exec:cat >/dev/null")
    }

    /// What a move will send, once that is counted. The guest goes on as if nothing had been.
    pub(super) fn counted(&mut self) -> anyhow::Result<Option<Load>> {
        let state = self.state()?;
        ensure!(state["status"] != "failed", "{state}");
        if state["ram"]["dirty-sync-count"].as_u64() <= Some(1) {
            self.pass = (1, Instant::now());
            return Ok(None);
        }
        // QEMU looks which pages are dirty a moment before it says at what rate they became so.
        let dirty = dirty(&state)?;
        if dirty.is_none() && self.pass.1.elapsed() < RATE_COMES {
            return Ok(None);
        }
        self.monitor.ask("migrate_cancel", &json!({}))?;
        self.monitor.wait_for_move("cancelled")?;
        let zeroes = number(&state, "duplicate")?;
        let pages = (number(&state, "total")? / PAGE).saturating_sub(zeroes);
        Ok(Some(Load {
            size: Bytes::new(pages * PAGE_SENT + zeroes * ZEROES_SENT),
            dirty: dirty.unwrap_or(Rate::ZERO),
        }))
    }

    /// Begins to move the guest.
    pub(super) fn begin(&mut self, bandwidth: Rate) -> anyhow::Result<()> {
        self.set(whole(bandwidth), DOWNTIME_LIMIT, false)?;
        let now = Instant::now();
        (self.began, self.pass) = (Some(now), (0, now));
        let near = self.near.clone();
        self.migrate(&near)
    }

    /// Gives the guest another part of the link.
    pub(super) fn set_bandwidth(&mut self, bandwidth: Rate) -> anyhow::Result<()> {
        let parameters = json!({ "max-bandwidth": whole(bandwidth) });
        let set = self.monitor.ask("migrate-set-parameters", &parameters);
        set.map(drop)
    }

    /// How far the move has come, or when it ended if it has.
    pub(super) fn look(&mut self) -> anyhow::Result<Result<Instant, Progress>> {
        let state = self.state()?;
        let began = self.began.context("the move has begun")?;
        match state["status"].as_str() {
            Some("completed") => {
                // QEMU says that it has ended a moment before it says how long it took.
                if let Some(ms @ 1..) = state["total-time"].as_u64() {
                    return Ok(Ok(began + Duration::from_millis(ms)));
                }
            }
            Some("failed" | "cancelled") => anyhow::bail!("the move came to nothing: {state}"),
            _ => {}
        }
        let passes = state["ram"]["dirty-sync-count"].as_u64().unwrap_or(0);
        if passes != self.pass.0 {
            self.pass = (passes, Instant::now());
        }
        let bytes = |name| number(&state, name).map(Bytes::new);
        Ok(Err(Progress {
            passes,
            in_pass: self.pass.1.elapsed(),
            sent: bytes("transferred").unwrap_or_default(),
            remaining: bytes("remaining").unwrap_or_default(),
            dirty: dirty(&state).unwrap_or_default(),
        }))
    }

    /// Waits until the guest goes on at the other end, and says how many of its pages were lost on the way.
    pub(super) fn arrive(mut self) -> anyhow::Result<u64> {
        // Twice: a line may have been begun at the other end.
        let said = "PROBE memory second=";
        wait_until("the guest to go on", LONG, || {
            Ok(self.destination.console().matches(said).count() >= 3)
        })?;
        self.destination.wait_for(said)?;
        let console = self.destination.console();
        self.source.kill()?;
        self.destination.kill()?;
        crate::said(&console, said, "bad")
    }

    fn set(&mut self, bandwidth: u64, downtime: Duration, pauses: bool) -> anyhow::Result<()> {
        let downtime = u64::try_from(downtime.as_millis()).context("a downtime")?;
        let parameters = json!({ "max-bandwidth": bandwidth, "downtime-limit": downtime });
        self.monitor.ask("migrate-set-parameters", &parameters)?;
        self.monitor.pause_before_switchover(pauses)
    }

    fn migrate(&mut self, uri: &str) -> anyhow::Result<()> {
        self.monitor
            .ask("migrate", &json!({ "uri": uri }))
            .map(drop)
    }

    fn state(&mut self) -> anyhow::Result<Value> {
        self.monitor.ask("query-migrate", &json!({}))
    }
}

fn whole(rate: Rate) -> u64 {
    count_near(rate.bytes_per_second())
}

/// A number of what QEMU says of memory.
fn number(state: &Value, name: &str) -> anyhow::Result<u64> {
    let number = state["ram"][name].as_u64();
    number.with_context(|| format!("{name} in {state}"))
}

/// What the guest makes dirty, in bytes of QEMU's stream, if it was measured.
fn dirty(state: &Value) -> anyhow::Result<Option<Rate>> {
    let pages = number(state, "dirty-pages-rate")?;
    Ok(Rate::new(real(pages * PAGE_SENT)).filter(|rate| *rate > Rate::ZERO))
}
