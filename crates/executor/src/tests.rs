//! Whole moves over the store in memory: drivers, planners and two hosts as tasks, with hosts that are models.

use crate::testkit::{Quiet, name};
use crate::*;
use placement::moving::{Action, Cause, Move, Stage, Timeouts};
use placement::{Mode, Name};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use store::{Faults, Memory, Store, Write, keys};
use tokio::task::JoinSet;
use units::Instant;

const TICK: Duration = Duration::from_millis(5);

/// A VM and the hypervisors of its hosts.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a model's state is what its parts are, each by itself"
)]
struct Vm {
    standby: bool,
    migrates: bool,
    granted: bool,
    /// It is at the target, and its disks are not yet.
    left: bool,
    starts: usize,
    /// How often a host has to be asked until the migration goes on.
    patience: usize,
    refuses: bool,
}

/// A host of the model.
struct Host(Arc<Mutex<Vm>>);

impl Host {
    fn vm(&self) -> MutexGuard<'_, Vm> {
        self.0.lock().unwrap()
    }

    fn answer(&self, task: &Task) -> HostAnswer {
        let mut vm = self.vm();
        match (task.action, task.side) {
            (Action::Ask, Side::Source) => {
                if vm.migrates && vm.patience == 0 {
                    (vm.migrates, vm.granted) = (false, true);
                }
                vm.patience = vm.patience.saturating_sub(1);
                HostAnswer::Source(AtSource {
                    runs: !vm.granted && !vm.left,
                    migrates: vm.migrates,
                    completed: vm.granted || vm.left,
                    failed: None,
                    left: None,
                })
            }
            (Action::Ask, Side::Target) => HostAnswer::Target(AtTarget {
                runs: Some(vm.granted),
                warm_percent: 100,
                is_granted: vm.granted,
                is_drained: vm.granted,
            }),
            (_, Side::Target) if vm.granted => HostAnswer::Granted,
            (Action::Prepare, _) if vm.refuses => HostAnswer::Refused {
                why: "no room".to_owned(),
            },
            (Action::Prepare, Side::Target) => {
                vm.standby = true;
                HostAnswer::Done
            }
            (Action::Withdraw, Side::Source) if vm.left => HostAnswer::Gone,
            (Action::Migrate, Side::Target) => {
                vm.standby = true;
                vm.granted = vm.left;
                HostAnswer::Done
            }
            (Action::Migrate, Side::Source) if !vm.granted && !vm.left && !vm.migrates => {
                assert!(vm.standby, "it migrates to a host that is not prepared");
                vm.migrates = true;
                vm.starts += 1;
                HostAnswer::Done
            }
            (Action::Withdraw, side) => {
                if side == Side::Source {
                    vm.migrates = false;
                } else {
                    vm.standby = false;
                }
                HostAnswer::Done
            }
            _ => HostAnswer::Done,
        }
    }
}

impl HostPart for Host {
    fn carry_out<'a>(
        &'a self,
        task: &'a Task,
    ) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + 'a>> {
        Box::pin(std::future::ready(self.answer(task)))
    }
}

/// Three hosts: `a` has the VMs, `b` may have them, `c` only drives.
struct Cluster {
    memory: Memory,
    store: Arc<dyn Store>,
    vm: Arc<Mutex<Vm>>,
    tasks: JoinSet<()>,
}

impl Cluster {
    async fn new(faults: Faults, seed: u64) -> Self {
        let calm = Memory::new(seed, faults);
        let mut cluster = Self {
            store: Arc::new(calm.client("observer")),
            memory: calm,
            vm: Arc::default(),
            tasks: JoinSet::new(),
        };
        for host in ["a", "b"] {
            cluster.hear(host).await;
            let part = Arc::new(Host(Arc::clone(&cluster.vm)));
            let part = keep_part(cluster.client(host), name(host), part);
            cluster.tasks.spawn(part);
        }
        cluster
    }

    fn client(&self, host: &str) -> Arc<dyn Store> {
        Arc::new(self.memory.client(host))
    }

    async fn put(&self, key: store::Key, value: Vec<u8>) {
        while self
            .store
            .commit(&[], &[Write::put(key.clone(), value.clone())])
            .await
            .is_err()
        {}
    }

    async fn hear(&self, host: &str) {
        self.put(keys::host(host).unwrap(), b"{}".to_vec()).await;
    }

    fn drive(&mut self, host: &str, leads: bool) {
        let leads = Arc::new(AtomicBool::new(leads));
        let drivers = Drivers::new(self.client(host), name(host), leads, Arc::new(Quiet));
        let minute = units::Duration::from_secs(60);
        let timeouts = Timeouts {
            warm: minute,
            migrate: minute,
            drain: minute,
            withdraw: minute,
        };
        self.tasks.spawn(drivers.with(timeouts, TICK).keep());
    }

    /// The record, when it is as wanted.
    async fn wait(&self, vm: &str, is_it: impl Fn(&Move) -> bool) -> Move {
        let waiting = async {
            loop {
                if let Ok(Some(found)) = read(&*self.store, vm).await
                    && is_it(&found.record)
                {
                    return found.record;
                }
                tokio::time::sleep(TICK).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
        let Ok(record) = waited else {
            panic!("it is not as wanted: {:?}", read(&*self.store, vm).await);
        };
        record
    }

    async fn ends(&self, vm: &str) -> Stage {
        self.wait(vm, |record| record.stage.is_final()).await.stage
    }

    async fn begin(&self, vm: &str) {
        let (a, b) = (name("a"), name("b"));
        begin(&*self.store, &name(vm), (&a, &b), None)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_approved_goes_to_its_end() {
    let mut cluster = Cluster::new(Faults::default(), 1).await;
    cluster.drive("a", false);
    cluster.begin("v").await;
    let store = &*cluster.store;
    assert!(matches!(
        begin(store, &name("v"), (&name("a"), &name("b")), None).await,
        Err(MoveError::UnderWay { .. })
    ));
    approve(store, &name("a"), "v").await.unwrap();
    assert_eq!(cluster.ends("v").await, Stage::Done);
    assert_eq!(cluster.vm.lock().unwrap().starts, 1);
    assert!(matches!(
        approve(store, &name("a"), "v").await,
        Err(MoveError::Stage { .. })
    ));
    let last = read(store, "v").await.unwrap().unwrap().record;
    let back = begin(store, &name("v"), (&name("b"), &name("a")), None).await;
    assert!(back.unwrap().record.step > last.step);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_a_move_and_says_why() {
    let mut cluster = Cluster::new(Faults::default(), 1).await;
    cluster.vm.lock().unwrap().refuses = true;
    cluster.drive("a", false);
    cluster.begin("v").await;
    approve(&*cluster.store, &name("a"), "v").await.unwrap();
    assert_eq!(cluster.ends("v").await, Stage::RolledBack(Cause::Refused));
    assert_eq!(cluster.vm.lock().unwrap().starts, 0);
}

/// A cluster in which a VM's migration goes on until the test ends it.
async fn migrating() -> Cluster {
    let mut cluster = Cluster::new(Faults::default(), 1).await;
    cluster.vm.lock().unwrap().patience = usize::MAX;
    cluster.drive("a", false);
    cluster.begin("v").await;
    approve(&*cluster.store, &name("a"), "v").await.unwrap();
    while cluster.vm.lock().unwrap().starts == 0 {
        tokio::time::sleep(TICK).await;
    }
    cluster
}

/// Cancels the move at a host that drives other moves.
async fn cancel_elsewhere(cluster: &mut Cluster) {
    cluster.hear("c").await;
    cluster.drive("c", false);
    cancel(&*cluster.store, &name("c"), "v").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_migration_leaves_the_vm_at_its_source() {
    let mut cluster = migrating().await;
    cancel_elsewhere(&mut cluster).await;
    assert_eq!(cluster.ends("v").await, Stage::RolledBack(Cause::Cancelled));
    let vm = cluster.vm.lock().unwrap();
    assert!(!vm.migrates && !vm.standby && !vm.granted, "{vm:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_vm_has_left_lets_its_disks_follow() {
    let mut cluster = migrating().await;
    {
        let mut vm = cluster.vm.lock().unwrap();
        (vm.migrates, vm.left) = (false, true);
    }
    cancel_elsewhere(&mut cluster).await;
    assert_eq!(cluster.ends("v").await, Stage::Done);
    let vm = cluster.vm.lock().unwrap();
    assert!(vm.granted && vm.starts == 1, "{vm:?}");
}

/// The record as a driver left it that died right after its commit.
fn left_at(stage: Stage) -> Move {
    let planned = Move::planned(name("v"), name("a"), name("b"), Instant::ZERO);
    let mut left = planned.entered(stage, &name("c"), clock::now());
    left.step = 7;
    left
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_died_at_a_stage_is_replaced() {
    let stages = [
        Stage::Approved,
        Stage::Prepared,
        Stage::Migrating,
        Stage::Granted,
        Stage::Draining,
        Stage::Withdrawing(Cause::Cancelled),
    ];
    for stage in stages {
        let mut cluster = Cluster::new(Faults::default(), 1).await;
        {
            let mut vm = cluster.vm.lock().unwrap();
            vm.standby = !matches!(stage, Stage::Approved | Stage::Prepared);
            vm.granted = matches!(stage, Stage::Granted | Stage::Draining);
        }
        let left = serde_json::to_vec(&left_at(stage)).unwrap();
        cluster.put(keys::moving("v").unwrap(), left).await;
        cluster.drive("b", true);
        let expected = match stage {
            Stage::Withdrawing(cause) => Stage::RolledBack(cause),
            _ => Stage::Done,
        };
        assert_eq!(cluster.ends("v").await, expected, "left at {stage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_plan_leaves_a_dead_drivers_move_alone() {
    let mut cluster = Cluster::new(Faults::default(), 1).await;
    let left = serde_json::to_vec(&left_at(Stage::Approved)).unwrap();
    cluster.put(keys::moving("v").unwrap(), left.clone()).await;
    cluster.drive("b", false);
    tokio::time::sleep(20 * TICK).await;
    let found = cluster.store.get(&keys::moving("v").unwrap()).await;
    assert_eq!(found.unwrap().unwrap().value, left);
}

/// Answers and questions are lost, the store goes away, and two hosts take each other for dead all the time.
#[tokio::test(start_paused = true)]
async fn a_move_starts_one_migration_whatever_the_store_loses() {
    for seed in 0..50 {
        let faults = Faults {
            lost_answers: 60,
            lost_questions: 60,
            away: 100,
            compactions: 20,
        };
        let mut cluster = Cluster::new(faults, seed).await;
        cluster.vm.lock().unwrap().patience = 3;
        cluster
            .put(keys::moving("v").unwrap(), {
                serde_json::to_vec(&left_at(Stage::Approved)).unwrap()
            })
            .await;
        // Neither is heard of by the other.
        cluster.drive("x", true);
        cluster.drive("y", true);
        let stage = cluster.ends("v").await;
        let vm = cluster.vm.lock().unwrap();
        assert_eq!(stage, Stage::Done, "seed {seed}: {vm:?}");
        assert_eq!(vm.starts, 1, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_sends_one_vm_at_a_time() {
    let mut cluster = Cluster::new(Faults::default(), 1).await;
    cluster.vm.lock().unwrap().patience = 2;
    cluster.drive("a", false);
    let vms = ["v1", "v2", "v3"];
    for vm in vms {
        cluster.begin(vm).await;
        approve(&*cluster.store, &name("a"), vm).await.unwrap();
    }
    let mut most = 0;
    loop {
        let moves = all(&*cluster.store).await.unwrap();
        let under_way = moves.iter().filter(|one| one.record.stage.is_under_way());
        most = most.max(under_way.count());
        if moves.iter().all(|one| one.record.stage.is_final()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(most, 1);
}

/// A host of 100 GiB that wants this much, with these VMs.
fn load(host: &str, vms: &[(&str, u64)]) -> Vec<u8> {
    let vms: Vec<String> = vms
        .iter()
        .map(|(vm, gib)| {
            let bytes = gib << 30;
            format!(
                r#"{{"vm":"{vm}","rwss_bytes":{bytes},"curve":[[{bytes},0.1]],"reads_per_second":10.0}}"#
            )
        })
        .collect();
    let before = 120_u64 << 30;
    format!(
        r#"{{"version":1,"host":"{host}","capacity_bytes":{},"demand_before_bytes":[{before},{before},{before}],
        "free":{{"cpu_millis":1000,"memory_bytes":1073741824}},"hit_us":100.0,"miss_us":5000.0,
        "bandwidth_bytes":1000000000,"slowdown":0.1,"vms":[{}]}}"#,
        100_u64 << 30,
        vms.join(",")
    )
    .into_bytes()
}

async fn overloaded(mode: Mode) -> (Cluster, Arc<AtomicBool>, Planner) {
    let cluster = Cluster::new(Faults::default(), 1).await;
    let full = load("a", &[("v", 60), ("w", 60)]);
    cluster.put(keys::load("a").unwrap(), full).await;
    let empty = load("b", &[("x", 1)]);
    cluster.put(keys::load("b").unwrap(), empty).await;
    change_settings(&*cluster.store, |settings| settings.mode = mode)
        .await
        .unwrap();
    let leads = Arc::new(AtomicBool::new(false));
    let planner = Planner::new(
        cluster.client("b"),
        name("b"),
        Arc::clone(&leads),
        Arc::new(Quiet),
    );
    (cluster, leads, planner)
}

/// Lets it plan once while it has the key.
async fn plan_once(cluster: &Cluster, planner: &Planner) {
    let value = b"b".to_vec();
    let mut place = store::Exclusive::new(keys::leader(), value, Duration::from_secs(15));
    let held = place.hold(&*cluster.store).await.unwrap().unwrap();
    planner.plan(&held).await.unwrap();
    place.release(&*cluster.store).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_mode_says_what_becomes_of_a_plan() {
    for (mode, expected) in [
        (Mode::Off, None),
        (Mode::Advise, None),
        (Mode::Approve, Some(Stage::Planned)),
        (Mode::Auto, Some(Stage::Approved)),
    ] {
        let (cluster, _, planner) = overloaded(mode).await;
        plan_once(&cluster, &planner).await;
        plan_once(&cluster, &planner).await;
        let moves = all(&*cluster.store).await.unwrap();
        let stages: Vec<_> = moves.iter().map(|one| one.record.stage).collect();
        assert_eq!(stages, Vec::from_iter(expected), "{mode:?}");
        let planned = all_planned(&*cluster.store).await.unwrap();
        assert_eq!(planned.len(), usize::from(mode.records_moves()));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_with_a_host_that_is_not_heard_of() {
    let (cluster, _, planner) = overloaded(Mode::Approve).await;
    let gone = [Write::Delete(keys::host("b").unwrap())];
    cluster.store.commit(&[], &gone).await.unwrap();
    plan_once(&cluster, &planner).await;
    assert_eq!(all(&*cluster.store).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_was_cancelled_is_not_planned_again_at_once() {
    let (cluster, _, planner) = overloaded(Mode::Approve).await;
    plan_once(&cluster, &planner).await;
    let planned = all(&*cluster.store).await.unwrap().remove(0).record.vm;
    cancel(&*cluster.store, &name("a"), planned.as_str())
        .await
        .unwrap();
    plan_once(&cluster, &planner).await;
    let moves = all(&*cluster.store).await.unwrap();
    let again = moves.iter().find(|one| one.record.vm == planned).unwrap();
    assert_eq!(again.record.stage, Stage::RolledBack(Cause::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_pinned_vm_is_not_planned_for() {
    let (cluster, _, planner) = overloaded(Mode::Approve).await;
    let pins = |settings: &mut Settings| settings.pins = ["v", "w"].map(name).into();
    change_settings(&*cluster.store, pins).await.unwrap();
    plan_once(&cluster, &planner).await;
    assert_eq!(all(&*cluster.store).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_planner_that_is_replaced_plans_no_more() {
    let (cluster, leads, planner) = overloaded(Mode::Auto).await;
    let mut place = store::Exclusive::new(keys::leader(), b"a".to_vec(), Duration::from_secs(15));
    let held = place.hold(&*cluster.store).await.unwrap().unwrap();
    cluster.memory.pass(Duration::from_secs(16));
    let mut next = store::Exclusive::new(keys::leader(), b"c".to_vec(), Duration::from_secs(15));
    assert!(next.hold(&*cluster.store).await.unwrap().is_some());
    planner.plan(&held).await.unwrap();
    assert_eq!(all(&*cluster.store).await.unwrap(), []);
    // And one that has not the key does not begin.
    let mut other = cluster;
    other.tasks.spawn(planner.keep());
    tokio::time::sleep(10 * TICK).await;
    assert!(!leads.load(Ordering::Relaxed));
    assert_eq!(all(&*other.store).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_is_written_beside_what_was_expected() {
    let (cluster, _, planner) = overloaded(Mode::Approve).await;
    plan_once(&cluster, &planner).await;
    let planned = all(&*cluster.store).await.unwrap().remove(0).record;
    let vm = planned.vm.clone();
    let hour_ago = clock::now().as_nanos() - 3_600_000_000_000;
    let done = planned.entered(Stage::Done, &name("b"), Instant::from_nanos(hour_ago));
    let value = serde_json::to_vec(&done).unwrap();
    cluster.put(keys::moving(vm.as_str()).unwrap(), value).await;
    plan_once(&cluster, &planner).await;
    let found = async |store| all_planned(store).await.unwrap().remove(0).1.found;
    assert_eq!(
        found(&*cluster.store).await,
        None,
        "its target does not have it yet"
    );
    let came = load("b", &[("x", 1), (vm.as_str(), 20)]);
    cluster.put(keys::load("b").unwrap(), came).await;
    plan_once(&cluster, &planner).await;
    let compared = found(&*cluster.store).await.unwrap();
    assert_eq!(compared.demand_expected_bytes, 60 << 30);
    assert_eq!(compared.demand_found_bytes, 20 << 30);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_failed_is_cleared_by_an_operator() {
    let cluster = Cluster::new(Faults::default(), 1).await;
    let failed = left_at(Stage::Failed(Cause::Silent));
    let value = serde_json::to_vec(&failed).unwrap();
    cluster.put(keys::moving("v").unwrap(), value).await;
    let me: Name = name("a");
    let cleared = clear(&*cluster.store, &me, "v").await.unwrap();
    assert_eq!(cleared.record.stage, Stage::RolledBack(Cause::Silent));
    forget(&*cluster.store, &cleared).await.unwrap();
    assert!(matches!(
        clear(&*cluster.store, &me, "v").await,
        Err(MoveError::None(_))
    ));
}
