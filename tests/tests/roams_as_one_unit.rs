//! The disks of a VM that roam move together: a write to one of them takes all, over kills at each step, and one that
//! cannot go keeps all. Disks of different VMs are a negative control: one of them moves alone.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Expected, Flash, Hearth, HearthSettings, Image, LONG, Lab, Obstacle, Origin,
    OriginSettings, RoamingPair, SHORT, Session, Wire, block, hearth, scenario, wait_until,
};
use serde_json::Value;

const NAMES: [&str; 2] = RoamingPair::NAMES;
const DISKS: [&str; 2] = ["root", "data"];
const IMAGE_MIB: u64 = 8;
const BLOCK: u64 = 4096;
/// How long a client at the destination is there before it looks as if a migration came, and some more.
const LOOKS_INCOMING: Duration = Duration::from_millis(1_200);
/// For a word to get through.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Two hosts with two disks each.
struct Pair {
    hosts: [Option<Hearth>; 2],
    labs: [Lab; 2],
    settings: [HearthSettings; 2],
    images: [Image; 2],
    wire: Wire,
    shared: PathBuf,
}

/// What differs from the usual.
#[derive(Clone, Copy)]
struct Setting<'a> {
    /// The VM of each disk.
    vms: [&'static str; 2],
    dirty: &'static str,
    /// The second disk is an export at this address.
    export: Option<&'a str>,
    /// Whether the second host has the second disk.
    lists_both: bool,
}

const USUAL: Setting = Setting {
    vms: ["web", "web"],
    dirty: "drain",
    export: None,
    lists_both: true,
};

impl Pair {
    fn start(lab: &Lab, setting: Setting<'_>) -> anyhow::Result<Self> {
        let images = [
            Image::new(lab, "root.raw", IMAGE_MIB)?,
            Image::new(lab, "data.raw", IMAGE_MIB)?,
        ];
        Self::over(lab, images, setting)
    }

    fn over(lab: &Lab, images: [Image; 2], setting: Setting<'_>) -> anyhow::Result<Self> {
        let (links, wire) = e2e::linked(lab)?;
        let shared = lab.path("owners");
        std::fs::create_dir_all(&shared)?;
        let host = |at: usize| -> anyhow::Result<(Lab, HearthSettings)> {
            let own = lab.host(NAMES[at])?;
            let flash = Flash::format(&own, "flash.img", 128)?;
            let mut settings = HearthSettings::new(&flash)
                .daemon_key(&format!("owners_dir = '{}'", shared.display()))
                .log("info,daemon=debug")
                .section(&links[at]);
            let lists = |disk: usize| disk == 0 || at == 0 || setting.lists_both;
            for disk in (0..DISKS.len()).filter(|disk| lists(*disk)) {
                let (name, vm, dirty) = (DISKS[disk], setting.vms[disk], setting.dirty);
                let made = match setting.export.filter(|_| disk == 1) {
                    Some(uri) => DiskSettings::on_nbd_with(name, uri, RoamingPair::EXPORT_KEYS),
                    None => DiskSettings::on_file(name, images[disk].path()),
                };
                let made = made
                    .key("roams = true\nwrite_policy = 'back'")
                    .key(&format!("vm = '{vm}'\nid = '{:032x}'", disk + 1))
                    .key(&format!("migration = {{ dirty = '{dirty}' }}"))
                    .key("write_back = { dirty_max = '16MiB', age_max = '1000s', idle_after = '1000s' }");
                settings = settings.disk(&made);
            }
            Ok((own, settings))
        };
        let [(lab_0, settings_0), (lab_1, settings_1)] = [host(0)?, host(1)?];
        let mut pair = Self {
            hosts: [None, None],
            labs: [lab_0, lab_1],
            settings: [settings_0, settings_1],
            images,
            wire,
            shared,
        };
        pair.start_host(0)?;
        pair.wait_until_at(0, &DISKS)?;
        pair.start_host(1)?;
        Ok(pair)
    }

    fn start_host(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at] = Some(Hearth::start(&self.labs[at], &self.settings[at])?);
        Ok(())
    }

    fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.hosts[at].take().context("the host runs")?.kill()
    }

    fn host(&self, at: usize) -> anyhow::Result<&Hearth> {
        self.hosts[at].as_ref().context("the host runs")
    }

    fn client(&self, at: usize, disk: usize) -> anyhow::Result<Session> {
        Session::open(self.host(at)?.nbd_socket(), DISKS[disk])
    }

    fn both(&self, at: usize) -> anyhow::Result<[Session; 2]> {
        Ok([self.client(at, 0)?, self.client(at, 1)?])
    }

    fn is_at(&self, at: usize, disk: &str) -> anyhow::Result<bool> {
        Ok(self.host(at)?.json(&["disk", "show", disk])?["state"] == "attached")
    }

    /// Waits until a host has these disks, and checks that the other one, if it runs, has none of them.
    fn wait_until_at(&self, at: usize, disks: &[&str]) -> anyhow::Result<()> {
        for disk in disks {
            wait_until("the host to have the disk", SHORT, || self.is_at(at, disk))?;
            if self.hosts[1 - at].is_some() {
                ensure!(!self.is_at(1 - at, disk)?, "both hosts have {disk}");
            }
        }
        Ok(())
    }

    /// Where the record of a disk is.
    fn record(&self, disk: usize) -> PathBuf {
        format!("{}.hearth", self.images[disk].path().display()).into()
    }

    /// Which host the record of each disk names.
    fn recorded(&self) -> anyhow::Result<[String; 2]> {
        let named = |disk: usize| -> anyhow::Result<String> {
            let text = std::fs::read_to_string(self.record(disk)).context("the owner's record")?;
            let record: Value = serde_json::from_str(&text)?;
            Ok(record["holder"]["host"].as_str().unwrap_or("").to_owned())
        };
        Ok([named(0)?, named(1)?])
    }

    fn log(&self, at: usize) -> anyhow::Result<String> {
        std::fs::read_to_string(self.labs[at].path("hearth.log")).context("a host's log")
    }

    fn wait_for_log(&self, at: usize, words: &str) -> anyhow::Result<()> {
        wait_until(&format!("host {at} to log '{words}'"), SHORT, || {
            Ok(self.log(at)?.contains(words))
        })
    }

    /// Where a host notes its decision about the disks.
    fn decision(&self, at: usize) -> PathBuf {
        self.labs[at].path(&format!("state/given-{:032x}", 1))
    }

    /// Brings everything to the origins from a host, and compares.
    fn compare(&self, at: usize, expected: &[Expected; 2]) -> anyhow::Result<()> {
        for (disk, name) in DISKS.into_iter().enumerate() {
            self.host(at)?.command(&["disk", "flush", name, "--wait"])?;
            let bytes = std::fs::read(self.images[disk].path())?;
            expected[disk].compare(name, &bytes)?;
        }
        Ok(())
    }

    fn stop(self) -> anyhow::Result<()> {
        let mut hosts = self.hosts.into_iter().flatten();
        hosts.try_for_each(|host| host.stop().map(drop))
    }

    fn expected(&self) -> anyhow::Result<[Expected; 2]> {
        Ok([
            Expected::of(&self.images[0])?,
            Expected::of(&self.images[1])?,
        ])
    }
}

/// Lets a VM write to both of its disks.
fn write_both(
    vm: &mut [Session; 2],
    expected: &mut [Expected; 2],
    round: u8,
) -> anyhow::Result<()> {
    for (client, expected) in vm.iter_mut().zip(expected) {
        expected.write(client, (0..200).step_by(3), round)?;
        client.flush()?;
        expected.write(client, (1..200).step_by(7), round + 100)?;
    }
    Ok(())
}

fn check_both(what: &str, vm: &mut [Session; 2], expected: &[Expected; 2]) -> anyhow::Result<()> {
    let mut disks = vm.iter_mut().zip(expected);
    disks.try_for_each(|(client, expected)| expected.check(what, client))
}

/// A VM moves there and back three times and writes at the destination one disk only, in turn.
fn goes_there_and_back(dirty: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let setting = Setting { dirty, ..USUAL };
        let pair = Pair::start(lab, setting)?;
        let mut expected = pair.expected()?;
        let mut vm = pair.both(0)?;
        for round in 1..=3_u8 {
            let there = usize::from(round % 2);
            write_both(&mut vm, &mut expected, round)?;
            let mut destination = pair.both(there)?;
            check_both(
                "the destination, before it writes",
                &mut destination,
                &expected,
            )?;
            std::thread::sleep(LOOKS_INCOMING);
            // QEMU flushes what was written; nothing else says that the VM has stopped.
            vm.iter_mut().try_for_each(Session::flush)?;
            let one = usize::from(round % 2 == 0);
            expected[one].write(&mut destination[one], 300..301, round)?;
            pair.wait_until_at(there, &DISKS)?;
            check_both("the destination", &mut destination, &expected)?;
            ensure!(
                pair.recorded()? == [NAMES[there]; 2],
                "{:?}",
                pair.recorded()?
            );
            vm = destination;
        }
        pair.compare(1, &expected)?;
        pair.stop()
    });
}

#[test]
fn a_vm_that_writes_one_of_its_disks_has_both() {
    goes_there_and_back("drain");
}

#[test]
fn a_vm_that_writes_one_of_its_disks_has_both_with_what_their_origins_lack() {
    goes_there_and_back("ship");
}

#[test]
fn disks_of_different_vms_move_alone() {
    scenario(RoamingPair::TOOLS, |lab| {
        let vms = ["web", "other"];
        let pair = Pair::start(lab, Setting { vms, ..USUAL })?;
        let mut destination = pair.both(1)?;
        destination[0].write(0, &block(0, 1))?;
        pair.wait_until_at(1, &DISKS[..1])?;
        pair.wait_until_at(0, &DISKS[1..])?;
        ensure!(
            pair.recorded()? == [NAMES[1], NAMES[0]],
            "the records name other hosts"
        );
        pair.stop()
    });
}

#[test]
fn a_vm_whose_other_disk_is_in_use_keeps_both() {
    scenario(RoamingPair::TOOLS, |lab| {
        let pair = Pair::start(lab, USUAL)?;
        let mut vm = pair.both(0)?;
        vm[0].write(0, &block(0, 1))?;
        let mut destination = pair.both(1)?;
        std::thread::sleep(LOOKS_INCOMING);
        vm[0].flush()?;
        let claiming = std::thread::spawn(move || {
            let written = destination[0].try_write(0, &block(0, 2));
            (destination, written)
        });
        // It reads its other disk all the time.
        while !claiming.is_finished() {
            vm[1].read(0, BLOCK)?;
        }
        let (_, written) = claiming.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ensure!(written?.is_err(), "a VM that runs has lost its disks");
        pair.wait_until_at(0, &DISKS)?;
        ensure!(vm[0].read(0, BLOCK)? == block(0, 1), "the first VM's write");
        pair.stop()
    });
}

#[test]
fn a_disk_that_cannot_go_keeps_all() {
    let tools = [RoamingPair::TOOLS, &["nbdkit"]].concat();
    scenario(&tools, |lab| {
        let images = [
            Image::new(lab, "root.raw", IMAGE_MIB)?,
            Image::new(lab, "data.raw", IMAGE_MIB)?,
        ];
        let failing = lab.path("failing");
        let settings = OriginSettings {
            failing_while: Some(failing.clone()),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &images[1], settings)?;
        let uri = origin.uri();
        let setting = Setting {
            export: Some(&uri),
            ..USUAL
        };
        let pair = Pair::over(lab, images, setting)?;
        let mut expected = pair.expected()?;
        let mut vm = pair.both(0)?;
        write_both(&mut vm, &mut expected, 1)?;
        std::fs::write(&failing, "")?;
        for client in vm {
            client.close()?;
        }
        let [mut root, mut data] = pair.both(1)?;
        std::thread::sleep(LOOKS_INCOMING);
        let written = root.try_write(0, &block(0, 2))?;
        ensure!(written.is_err(), "the disk has come alone");
        pair.wait_until_at(0, &DISKS)?;
        // It is told why, at both hosts.
        let shown = pair.host(0)?.json(&["migrate", "show", DISKS[0]])?;
        let problem = shown["problem"].as_str().unwrap_or_default();
        ensure!(problem.contains("'data' cannot go"), "{shown}");
        let kept = "the VM's disks stay here, since one of them cannot go";
        ensure!(pair.log(0)?.contains(kept), "nothing is logged");
        std::fs::remove_file(&failing)?;
        wait_until("the VM to get its disks", LONG, || {
            Ok(root.try_write(0, &block(0, 2))?.is_ok())
        })?;
        expected[0].put(0, &block(0, 2));
        pair.wait_until_at(1, &DISKS)?;
        expected[0].check("root at the destination", &mut root)?;
        expected[1].check("data at the destination", &mut data)?;
        pair.compare(1, &expected)?;
        ensure!(pair.shared.is_dir(), "the records of exports");
        pair.stop()
    });
}

#[test]
fn a_host_that_lists_other_disks_of_the_vm_gets_none() {
    scenario(RoamingPair::TOOLS, |lab| {
        let lists_both = false;
        let pair = Pair::start(
            lab,
            Setting {
                lists_both,
                ..USUAL
            },
        )?;
        let mut client = pair.client(1, 0)?;
        let claiming = std::thread::spawn(move || client.try_write(0, &block(0, 2)));
        wait_until("it to be told why", SHORT, || {
            let shown = pair.host(1)?.json(&["migrate", "show", DISKS[0]])?;
            let problem = shown["problem"].as_str().unwrap_or_default();
            Ok(problem.contains("other disks that roam"))
        })?;
        let written = claiming.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        ensure!(written.is_err(), "half of a VM has moved");
        pair.wait_until_at(0, &DISKS[..1])?;
        ensure!(pair.is_at(0, DISKS[1])?, "the other disk has gone");
        for at in [0, 1] {
            let socket = pair.host(at)?.admin_socket().display().to_string();
            let to = NAMES[1 - at];
            let words = [
                "--socket", &socket, "--json", "migrate", "check", "web", "--to", to,
            ];
            let answer = hearth(&words)?;
            ensure!(answer.code == 4, "{}: {}", answer.code, answer.stderr);
            ensure!(answer.stdout.contains("disks-differ"), "{}", answer.stdout);
        }
        pair.stop()
    });
}

#[test]
fn a_vm_is_taken_whole_from_a_host_that_is_gone() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = Pair::start(lab, USUAL)?;
        pair.kill(0)?;
        let socket = pair.host(1)?.admin_socket().display().to_string();
        let take = |name: &str| {
            let words = ["--socket", &socket, "--json", "migrate", "take", name];
            hearth(&[&words[..], &["--yes-its-owner-is-dead", "--lose-dirty"]].concat())
        };
        let one = take(DISKS[1])?;
        let error: Value = serde_json::from_str(&one.stderr)?;
        ensure!(one.code == 4, "{error}");
        let remedy = error["remedy"].as_str().unwrap_or_default();
        ensure!(remedy.contains("hearth migrate take web"), "{error}");
        wait_until("the link to be known to be down", SHORT, || {
            Ok(take("web")?.code == 0)
        })?;
        pair.wait_until_at(1, &DISKS)?;
        ensure!(
            pair.recorded()? == [NAMES[1]; 2],
            "the records name other hosts"
        );
        pair.stop()
    });
}

/// Waits until a host says of a VM that its disks are at two hosts, in each way that there is to ask.
fn is_told_as_split(pair: &Pair, at: usize) -> anyhow::Result<()> {
    let host = pair.host(at)?;
    wait_until("the host to say what is wrong", SHORT, || {
        let shown = host.json(&["migrate", "show", "web"])?;
        let disks = shown["disks"].as_array().context("disks")?;
        let is_told = |disk: &Value| {
            let problem = disk["problem"].as_str().unwrap_or_default();
            let remedy = disk["remedy"].as_str().unwrap_or_default();
            disk["role"] == "split"
                && problem.contains("'root' at node-b, 'data' at node-a")
                && remedy.contains("hearth migrate take web")
        };
        Ok(disks.len() == 2 && disks.iter().all(is_told))
    })?;
    let listed = host.command(&["migrate", "list"])?.stdout;
    ensure!(listed.matches("split").count() == 2, "{listed}");
    let socket = host.admin_socket().display().to_string();
    let to = NAMES[1 - at];
    let answer = hearth(&["--socket", &socket, "migrate", "check", "web", "--to", to])?;
    ensure!(answer.code == 4, "{}: {}", answer.code, answer.stdout);
    let all = [answer.stdout, answer.stderr].concat();
    let is_right = all.contains("split") && all.contains("hearth migrate take web");
    ensure!(is_right, "{all}");
    Ok(())
}

#[test]
fn a_vm_whose_disks_are_at_two_hosts_is_served_by_neither_until_it_is_taken() {
    scenario(RoamingPair::TOOLS, |lab| {
        let vms = ["web", "other"];
        let mut pair = Pair::start(lab, Setting { vms, ..USUAL })?;
        let mut expected = pair.expected()?;
        let mut vm = [pair.client(1, 0)?, pair.client(0, 1)?];
        write_both(&mut vm, &mut expected, 1)?;
        drop(vm);
        pair.wait_until_at(1, &DISKS[..1])?;
        pair.wait_until_at(0, &DISKS[1..])?;
        // The host goes on from the hand-over that brought the disk there.
        let host = pair.hosts[1].take().context("the host runs")?;
        host.stop()?;
        pair.start_host(1)?;
        pair.wait_until_at(1, &DISKS[..1])?;
        // The hand-made error: disks that were moved alone are one VM's from now on.
        for at in [0, 1] {
            pair.host(at)?
                .command(&["disk", "flush", DISKS[1 - at], "--wait"])?;
            let host = pair.hosts[at].take().context("the host runs")?;
            host.stop()?;
            pair.settings[at] = pair.settings[at].clone().with("vm = 'other'", "vm = 'web'");
        }
        pair.start_host(0)?;
        pair.start_host(1)?;
        for at in [0, 1] {
            is_told_as_split(&pair, at)?;
        }
        let mut client = pair.client(1, 0)?;
        client.set_patience(LONG)?;
        ensure!(
            client.try_write(0, &block(0, 2))?.is_err(),
            "half of a VM is served"
        );
        drop(client);
        let take = ["migrate", "take", "web", "--yes-its-owner-is-dead"];
        pair.host(1)?.command(&take)?;
        pair.wait_until_at(1, &DISKS)?;
        ensure!(pair.recorded()? == [NAMES[1]; 2], "{:?}", pair.recorded()?);
        let mut vm = pair.both(1)?;
        check_both("the host that took them", &mut vm, &expected)?;
        write_both(&mut vm, &mut expected, 3)?;
        wait_until("the other host to see that", SHORT, || {
            let shown = pair.host(0)?.json(&["migrate", "show", "web"])?;
            let disks = shown["disks"].as_array().context("disks")?;
            Ok(disks.iter().all(|disk| disk["role"] == "standby"))
        })?;
        pair.compare(1, &expected)?;
        pair.stop()
    });
}

/// Where a move from host 0 to host 1 stands still when daemons are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    /// The claim is on the link.
    Claimed,
    /// The source cannot note its decision.
    Deciding,
    /// The decision is noted, the first record names the destination, and the second one cannot be written.
    Recording,
    /// Both records name the destination, and the grant is on the link.
    Granted,
}

impl Still {
    fn prepare(self, pair: &Pair) -> anyhow::Result<Option<Obstacle>> {
        match self {
            Self::Claimed => pair.wire.hold(0),
            Self::Granted => pair.wire.hold(1),
            Self::Deciding => return Obstacle::before(&pair.decision(0)).map(Some),
            Self::Recording => return Obstacle::hide(pair.images[1].path()).map(Some),
        }
        Ok(None)
    }

    /// Waits until the move has got here. Returns what holds the move up from then on.
    fn reach(
        self,
        pair: &Pair,
        mut obstacle: Option<Obstacle>,
    ) -> anyhow::Result<Option<Obstacle>> {
        match self {
            Self::Claimed => std::thread::sleep(ON_ITS_WAY),
            Self::Deciding => pair.wait_for_log(0, "the decision cannot be noted")?,
            Self::Recording => {
                pair.wait_for_log(0, "who has the disk now is not recorded yet")?;
                ensure!(pair.decision(0).is_file(), "nothing was decided");
                // Hosts may open the origin again.
                obstacle = Some(Obstacle::before(&pair.record(1))?);
                wait_until("the first record", SHORT, || {
                    Ok(pair.recorded()? == [NAMES[1], NAMES[0]])
                })?;
            }
            Self::Granted => wait_until("both records", SHORT, || {
                Ok(pair.recorded()? == [NAMES[1]; 2])
            })?,
        }
        Ok(obstacle)
    }
}

fn move_over_kills(lab: &Lab, still: Still, victims: &[usize]) -> anyhow::Result<()> {
    let mut pair = Pair::start(lab, USUAL)?;
    let mut expected = pair.expected()?;
    let mut old = pair.both(0)?;
    write_both(&mut old, &mut expected, 1)?;
    for client in old {
        client.close()?;
    }
    let [mut root, data] = pair.both(1)?;
    root.read(0, BLOCK)?;
    std::thread::sleep(LOOKS_INCOMING);
    let obstacle = still.prepare(&pair)?;
    let asking = std::thread::spawn(move || {
        let written = root.try_write(250 * BLOCK, &block(250, 2))?;
        if written.is_ok() {
            root.flush()?;
        }
        anyhow::Ok(written.is_ok())
    });
    let obstacle = still.reach(&pair, obstacle)?;
    ensure!(!asking.is_finished(), "the write was answered");
    for victim in victims {
        pair.kill(*victim)?;
    }
    if still == Still::Recording && victims == [1] {
        // The records name different hosts: the destination takes neither disk.
        pair.start_host(1)?;
        std::thread::sleep(ON_ITS_WAY);
        for disk in DISKS {
            ensure!(!pair.is_at(1, disk)?, "{disk} was taken alone");
        }
        pair.kill(1)?;
    }
    drop(obstacle);
    pair.wire.mend();
    for victim in victims {
        pair.start_host(*victim)?;
    }
    let answered = asking.join().map_err(|_| anyhow::anyhow!("a panic"))?;
    let is_written = matches!(answered, Ok(true));
    if !victims.contains(&1) {
        ensure!(is_written, "the guest of the destination: {answered:?}");
    }
    drop(data);
    let mut vm = pair.both(1)?;
    let found = vm[0].read(250 * BLOCK, BLOCK)?;
    let written = block(250, 2);
    if is_written || found == written {
        expected[0].put(250 * BLOCK, &written);
    }
    check_both(
        "the destination, before it writes again",
        &mut vm,
        &expected,
    )?;
    // Only the second disk is written.
    expected[1].write(&mut vm[1], 210..220, 3)?;
    pair.wait_until_at(1, &DISKS)?;
    check_both("the destination", &mut vm, &expected)?;
    ensure!(pair.recorded()? == [NAMES[1]; 2], "{:?}", pair.recorded()?);
    for client in vm {
        client.close()?;
    }
    // And back.
    let mut vm = pair.both(0)?;
    std::thread::sleep(LOOKS_INCOMING);
    expected[0].write(&mut vm[0], 220..230, 4)?;
    pair.wait_until_at(0, &DISKS)?;
    check_both("the source, which has them back", &mut vm, &expected)?;
    pair.compare(0, &expected)?;
    pair.stop()
}

fn at_each_kill(still: Still) {
    for victims in [&[0][..], &[1], &[0, 1]] {
        scenario(RoamingPair::TOOLS, |lab| {
            move_over_kills(lab, still, victims).with_context(|| format!("{victims:?} killed"))
        });
    }
}

#[test]
fn killed_before_the_source_has_heard_the_claim() {
    at_each_kill(Still::Claimed);
}

#[test]
fn killed_before_the_source_has_decided() {
    at_each_kill(Still::Deciding);
}

#[test]
fn killed_between_two_records() {
    at_each_kill(Still::Recording);
}

#[test]
fn killed_between_the_records_and_the_grant() {
    at_each_kill(Still::Granted);
}
