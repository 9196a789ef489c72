//! What the tenancy costs with many VMs: `cargo bench -p tenancy --bench tenants`.
//!
//! Memory when every sample is full and has its second generation, beside the sum that settings are checked by;
//! CPU of a hit that goes to another VM than the one before, so that little of what it needs is in the processor's
//! caches; CPU of the end of a window, when the demand of all is looked at and the flash divided. All as the
//! daemon has it by default.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may end where it finds nothing"
)]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use policy::admission::Verdict;
use tenancy::{Capacity, Request, Settings, SettingsError, Tenancy, TenantSettings};
use units::{BlockIndex, Bytes, DiskSlot, Duration, Instant, Prng, TenantSlot};

const VMS: [u16; 3] = [10, 100, 300];
/// Blocks that each VM uses: 1 GiB.
const SPAN: u64 = 1 << 18;
/// Accesses of each VM that fill its samples.
const FILL: usize = 30_000;
/// Hits of all together that are timed, and window ends.
const HITS: u64 = 1_000_000;
const WINDOWS: u32 = 15;

/// CPU time of this thread: other work on the machine does not count.
fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn settings() -> Settings {
    Settings {
        admission: "reuse-age".parse().unwrap(),
        allocation: "utility".parse().unwrap(),
        staging: Bytes::mib(256),
        fill: true,
        memory: Bytes::gib(4),
        ..Settings::default()
    }
}

/// So many VMs with a disk each.
struct Host {
    tenancy: Tenancy<u64>,
    vms: u64,
    dice: Prng,
    now: Instant,
    left: Vec<(u64, policy::admission::Fate)>,
}

impl Host {
    fn new(vms: u16) -> Self {
        let capacity = Capacity {
            segments: 50_000,
            segment_blocks: 1008,
            checkpoint: Bytes::ZERO,
        };
        let mut tenancy = Tenancy::new(settings(), capacity, Instant::ZERO).unwrap();
        let mut left = Vec::new();
        for vm in 0..vms {
            let slot = TenantSlot::new(vm);
            tenancy
                .attach(slot, TenantSettings::default(), &mut left)
                .unwrap();
        }
        Self {
            tenancy,
            vms: vms.into(),
            dice: Prng::new(1),
            now: Instant::ZERO,
            left,
        }
    }

    /// An access by any VM, which is found on flash or not.
    fn access(&mut self, hit: bool) {
        let vm = u16::try_from(self.dice.below(self.vms)).unwrap();
        let (tenant, disk) = (TenantSlot::new(vm), DiskSlot::new(vm));
        let block = self.dice.below(SPAN);
        let arrival = self.tenancy.arrives(&Request {
            vm: tenant,
            tenant,
            disk,
            first: BlockIndex::new(block),
            count: 1,
            write: false,
            now: self.now,
        });
        let key = u64::from(vm) << 40 | block;
        if hit {
            self.tenancy.hit(&arrival, key);
        } else {
            assert_eq!(
                self.tenancy.missed(&arrival, key, &mut self.left),
                Verdict::Admit,
                "flash is filled first"
            );
        }
    }

    fn fill(&mut self) {
        for _ in 0..FILL * usize::try_from(self.vms).unwrap() {
            self.access(false);
        }
    }

    /// Ends a window.
    fn tick(&mut self) {
        self.now = self.tenancy.next_tick();
        let ended = self.tenancy.tick(self.now, |_| SPAN, &mut self.left);
        assert!(ended.is_some());
    }

    /// What settings are checked by.
    fn bound(&mut self) -> Bytes {
        let too_little = Settings {
            memory: Bytes::kib(1),
            staging: Bytes::ZERO,
            admission: "always".parse().unwrap(),
            ..settings()
        };
        match self.tenancy.set(too_little, &mut self.left) {
            Err(SettingsError::Memory { needs, .. }) => needs,
            other => panic!("a kibibyte is too little: {other:?}"),
        }
    }
}

fn main() {
    println!("VMs  memory, measured of bound  a VM  ns a hit  ms a window's end");
    for vms in VMS {
        let mut host = Host::new(vms);
        host.fill();
        // A day, after which the curves' second samples are there, to be filled as well.
        let second = Instant::ZERO + Duration::from_secs(25 * 3600);
        while host.now < second {
            host.tick();
        }
        host.fill();
        let (memory, bound) = (host.tenancy.memory(), host.bound() + settings().staging);
        let begun = cpu_nanos();
        for _ in 0..HITS {
            host.access(true);
        }
        let hit = (cpu_nanos() - begun) as f64 / HITS as f64;
        let mut ends: Vec<i64> = (0..WINDOWS)
            .map(|_| {
                let begun = cpu_nanos();
                host.tick();
                cpu_nanos() - begun
            })
            .collect();
        ends.sort_unstable();
        let [least, median, most] =
            [0, ends.len() / 2, ends.len() - 1].map(|at| ends[at] as f64 / 1e6);
        println!(
            "{vms:3}  {memory} of {bound}  {:.2} MiB  {hit:.0}  {median:.1} ({least:.1}-{most:.1})",
            (memory.get() as f64) / f64::from(vms) / f64::from(1 << 20)
        );
    }
}
