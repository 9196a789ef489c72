//! What the operator asks of the cache: attachments, commands about disks, settings of tenants. What must
//! hold when a command is done or refused is in `outcomes` and `refusals`.

mod outcomes;
mod refusals;
mod scrubs;
mod toy_cipher;

use self::toy_cipher::Toy;
use crate::attachment::Standing;
use crate::checker::Moment;
use crate::context::Context;
use crate::disks::Disks;
use crate::phases::name_of;
use crate::settings::{Special, draw_settings, draw_tenant, pick, without_memory};
use cache::{Command, ControlId, DestageOrder, OfDirty, Tenure, WriteBack, WritePolicy};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use tenancy::Capacity;
use units::{Bytes, DiskSlot, SECTOR_BYTES};

/// A command about a disk that is under way.
#[derive(Clone, Copy, Debug)]
struct Commanded {
    number: usize,
    what: What,
    issued: Moment,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Attach {
        policy: WritePolicy,
        write_back: WriteBack,
        /// The cache may have had bytes of it that the origin lacks.
        was_open: bool,
    },
    /// Shorter than it was when something of it began to wait.
    AttachResized,
    /// It is attached, or about to be, or about to be no more.
    AttachAgain,
    Detach(OfDirty),
    Drop,
    Policy {
        /// Its writes go back already, whatever was asked for: a disk with a log goes back until that
        /// is empty.
        was_back: bool,
        policy: WritePolicy,
    },
    WriteBack(WriteBack),
    Destage {
        back: bool,
    },
    /// Its origin has this many sectors already.
    Grow(u64),
}

/// What the operator does about every disk, or the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Attaches every disk that is away, in any order: which slot a disk gets must not matter.
    AttachAll,
    /// Brings everything to the origins that was acknowledged.
    DestageAll,
    /// Detaches every disk before a clean stop. What waits is flushed or kept; in the last life it
    /// is flushed.
    DetachAll {
        /// That was tried, and some may have refused.
        again: bool,
    },
    /// Stops the cache.
    Stop,
}

/// The commands of one life that nobody has answered yet.
#[derive(Default)]
pub(crate) struct Operator {
    /// Every command of this life, and whether it was answered.
    answered: BTreeMap<ControlId, bool>,
    /// Those about disks that are under way.
    commanded: BTreeMap<ControlId, Commanded>,
}

impl Operator {
    /// No command is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.answered.values().all(|answered| *answered)
    }

    /// The life has ended with commands under way.
    pub(crate) fn abandon(self, disks: &mut Disks) {
        for commanded in self.commanded.values() {
            if let What::Grow(sectors) = commanded.what {
                disks[commanded.number].grow(sectors);
            }
        }
    }

    /// For a message: the commands about disks that are under way.
    pub(crate) fn what_waits(&self) -> String {
        format!("{:?}", self.commanded)
    }

    /// Carries out an order.
    pub(crate) fn carry_out(&mut self, order: Order, cx: &mut Context) {
        match order {
            Order::AttachAll => self.attach_all(cx),
            Order::DestageAll => self.destage_all(cx),
            Order::DetachAll { again } => self.detach_all(again, cx),
            Order::Stop => {
                self.control(Command::Stop, cx);
            }
        }
    }

    /// Gives a command to the cache.
    fn control(&mut self, command: Command, cx: &mut Context) -> ControlId {
        let id = ControlId(cx.run.next_id());
        cx.run
            .event(&[12, id.0], || format!("control {}: {command:?}", id.0));
        self.answered.insert(id, false);
        let now = cx.run.now();
        if let Some(cache) = cx.process.cache_mut() {
            cache.control(id, command, now);
        }
        id
    }

    /// A command about a disk; what it means is kept until it ends.
    fn control_disk(&mut self, number: usize, what: What, command: Command, cx: &mut Context) {
        let issued = cx.run.next_moment();
        let id = ControlId(cx.run.peek_id());
        if !matches!(command, Command::Attach { .. } | Command::Detach { .. }) {
            self.note_tried(number, &command, cx);
        }
        self.commanded.insert(
            id,
            Commanded {
                number,
                what,
                issued,
            },
        );
        let given = self.control(command, cx);
        assert_eq!(id, given, "ids are given in order");
    }

    /// A command about a disk is about to be given.
    fn note_tried(&self, number: usize, command: &Command, cx: &mut Context) {
        if let Some(name) = name_of(command) {
            cx.run.tried(name, self.phase_of(number, cx));
        }
    }

    /// The phase of a disk, in the words of [`crate::PHASES`].
    fn phase_of(&self, number: usize, cx: &Context) -> &'static str {
        let is_open = cx.disks[number].is_open();
        match cx.process.disk(number).standing() {
            Standing::Away if is_open => return "detached with what waits",
            Standing::Away => return "detached",
            Standing::Attaching => return "attaching",
            Standing::Detaching(_) => return "detaching",
            Standing::Served(_) => {}
        }
        if cx.process.is_bypassed() {
            return if is_open { "flash failed" } else { "bypassed" };
        }
        let mut changes = self.commanded.values().filter_map(|command| {
            let What::Policy { was_back, policy } = command.what else {
                return None;
            };
            let to_back = policy == WritePolicy::Back;
            (command.number == number && was_back != to_back).then_some(to_back)
        });
        match changes.next() {
            Some(true) => "entering",
            Some(false) => "leaving",
            None if cx.process.policy_of(number) == Some(WritePolicy::Back) => "back",
            None => "through",
        }
    }

    // Attachments.

    fn attach_all(&mut self, cx: &mut Context) {
        let mut away: Vec<usize> = (0..cx.disks.count()).collect();
        while !away.is_empty() {
            let number = away.swap_remove(cx.run.index(away.len()));
            if cx.process.disk(number).is_away() {
                cx.disks[number].change_size(cx.run);
            }
            if !cx.process.disk(number).is_given_up() {
                self.start_attach(number, cx);
            }
        }
    }

    fn start_attach(&mut self, number: usize, cx: &mut Context) {
        if !cx.process.disk(number).is_away() || cx.belongs_elsewhere(number) {
            return;
        }
        let policy = draw_policy(number, cx);
        let write_back = draw_write_back(cx);
        let key = draw_key(number, cx);
        let disk = &mut cx.disks[number];
        disk.origin_mut().session_begins();
        if let Some(cache) = cx.process.cache_mut() {
            cache.set_cipher(disk.id(), key.map(|key| Box::new(Toy(key)) as _));
        }
        let mut size = disk.size();
        let is_open = disk.is_open();
        let mut what = What::Attach {
            policy,
            write_back,
            was_open: is_open,
        };
        // An origin that was cut short behind the cache's back.
        if is_open && let Some(too_short) = disk.write_back_mut().too_short(cx.run) {
            cx.run.hit("attached with a shorter origin");
            what = What::AttachResized;
            size = too_short;
        }
        let command = attach_command(number, size, policy, write_back, cx);
        self.note_tried(number, &command, cx);
        // The command may be answered at once, and says where the disk is then.
        cx.process.disk_mut(number).attach(key);
        self.control_disk(number, what, command, cx);
    }

    /// A disk that is here, is coming or is going is attached once more, which must be refused.
    pub(crate) fn attach_again(&mut self, number: usize, cx: &mut Context) {
        if cx.process.disk(number).is_away() {
            return;
        }
        let policy = draw_policy(number, cx);
        let write_back = draw_write_back(cx);
        let size = cx.disks[number].size();
        let command = attach_command(number, size, policy, write_back, cx);
        self.note_tried(number, &command, cx);
        self.control_disk(number, What::AttachAgain, command, cx);
    }

    fn detach_all(&mut self, again: bool, cx: &mut Context) {
        let back = cx.run.settings().back;
        for number in 0..cx.disks.count() {
            let dirty = match (back, cx.run.is_last_life()) {
                (None, _) | (Some(_), true) if !again => OfDirty::Refuse,
                (Some(_), false) if !again => {
                    *pick(cx.run.dice(), &[OfDirty::Flush, OfDirty::Keep])
                }
                _ => OfDirty::Keep,
            };
            self.start_detach(number, dirty, cx);
        }
    }

    fn start_detach(&mut self, number: usize, dirty: OfDirty, cx: &mut Context) {
        let Standing::Served(slot) = cx.process.disk(number).standing() else {
            return;
        };
        let command = Command::Detach {
            disk: slot,
            fingerprint: cx.disks[number].fingerprint(),
            dirty,
        };
        self.note_tried(number, &command, cx);
        let drops = dirty == OfDirty::Drop;
        cx.process.disk_mut(number).detach(slot, drops);
        self.control_disk(number, What::Detach(dirty), command, cx);
    }

    // Other commands.

    /// The operator does something with some disk. If that is to attach it although it is attached, its
    /// number is given, for [`Operator::attach_again`].
    pub(crate) fn command(&mut self, cx: &mut Context) -> Option<usize> {
        if matches!(cx.run.special(), Special::Scrubbed { .. }) && cx.run.one_in(2) {
            self.scrub(cx);
            return None;
        }
        let number = cx.run.index(cx.disks.count());
        let kinds = match cx.run.special() {
            Special::Pestered => 9,
            _ if cx.run.settings().goes_back() => 8,
            _ => 4,
        };
        let favourite = cx.run.special().favourite_command();
        let which = match favourite {
            _ if cx.run.settings().only_drops => 1,
            Some(favourite) if cx.run.one_in(2) => favourite,
            _ => cx.run.below(kinds),
        };
        match (which, cx.process.disk(number).standing()) {
            (0 | 4, Standing::Served(slot)) => self.start_policy(number, slot, cx),
            (1, Standing::Served(disk)) => {
                cx.run.hit("drop");
                self.control_disk(number, What::Drop, Command::Drop { disk }, cx);
            }
            (2, Standing::Served(_)) if !self.is_growing(number) => {
                cx.run.hit("detach");
                let dirty = draw_of_dirty(cx);
                self.start_detach(number, dirty, cx);
            }
            (3, Standing::Served(slot)) => self.start_growing(number, slot, cx),
            (5, Standing::Served(slot)) => self.start_write_back(number, slot, cx),
            (6 | 7, Standing::Served(slot)) => self.start_destage(number, slot, cx),
            (_, Standing::Away) => {
                cx.run.hit("attach while running");
                cx.strangers_write();
                self.start_attach(number, cx);
            }
            _ if cx.run.special() == Special::Pestered => return Some(number),
            _ => {}
        }
        None
    }

    fn start_policy(&mut self, number: usize, disk: DiskSlot, cx: &mut Context) {
        let policy = if cx.run.settings().goes_back() {
            let among = [WritePolicy::Through, WritePolicy::Around, WritePolicy::Back];
            *pick(cx.run.dice(), &among)
        } else {
            *pick(cx.run.dice(), &[WritePolicy::Through, WritePolicy::Around])
        };
        let is_back = cx.process.policy_of(number) == Some(WritePolicy::Back);
        let was_back = is_back || cx.disks[number].is_open();
        let what = What::Policy { was_back, policy };
        self.control_disk(number, what, Command::SetPolicy { disk, policy }, cx);
    }

    fn start_write_back(&mut self, number: usize, disk: DiskSlot, cx: &mut Context) {
        let write_back = draw_write_back(cx);
        if write_back.order == DestageOrder::Unordered {
            cx.disks[number].write_back_mut().out_of_order();
        }
        let command = Command::SetWriteBack { disk, write_back };
        self.control_disk(number, What::WriteBack(write_back), command, cx);
    }

    fn destage_all(&mut self, cx: &mut Context) {
        for number in cx.process.served() {
            if let Some(slot) = cx.process.disk(number).served_as() {
                self.start_destage(number, slot, cx);
            }
        }
    }

    fn start_destage(&mut self, number: usize, disk: DiskSlot, cx: &mut Context) {
        let back = cx.process.policy_of(number) == Some(WritePolicy::Back);
        let command = Command::Destage { disk };
        self.control_disk(number, What::Destage { back }, command, cx);
    }

    /// A disk that was made shorter before it was attached becomes longer again.
    fn start_growing(&mut self, number: usize, slot: DiskSlot, cx: &mut Context) {
        let disk = &cx.disks[number];
        let (sectors, most) = (disk.sectors(), disk.sectors_most() / 8);
        if !sectors.is_multiple_of(8) || sectors / 8 >= most {
            return;
        }
        let grown = sectors + 8 * (1 + cx.run.below(most - sectors / 8));
        let size = Bytes::new(grown * SECTOR_BYTES);
        let command = Command::Grow { disk: slot, size };
        self.control_disk(number, What::Grow(grown), command, cx);
    }

    /// Whether the cache may or may not know that a disk is longer.
    fn is_growing(&self, number: usize) -> bool {
        let grows = |command: &Commanded| matches!(command.what, What::Grow(_));
        let mut all = self.commanded.values();
        all.any(|command| command.number == number && grows(command))
    }
}

/// The operator changes what holds for tenants.
pub(crate) fn change_tenancy(cx: &mut Context) {
    let capacity = Capacity::of(&cx.run.settings().geometry());
    let all = cx.run.one_in(2);
    let number = cx.run.index(cx.disks.count());
    let tenant = tenant_name(number, cx);
    let mut settings = draw_settings(cx.run.dice(), capacity);
    if !cx.run.settings().memory {
        without_memory(&mut settings);
    }
    let of_tenant = draw_tenant(cx.run.dice(), capacity);
    let off = cx.run.one_in(6);
    let now = cx.run.now();
    let Some(cache) = cx.process.cache_mut() else {
        return;
    };
    let result = if all {
        cache.set_tenancy((!off).then_some(settings), now)
    } else {
        cache.set_tenant(&tenant, of_tenant, now)
    };
    let refused = result.is_err();
    cx.run.hit(if refused {
        "settings refused"
    } else {
        "settings changed"
    });
    cx.run.event(&[17, u64::from(refused)], || {
        format!("tenants set, all: {all}, off: {off}: {result:?}")
    });
}

/// Whose share a disk takes. Two disks may have one tenant.
fn tenant_name(number: usize, cx: &Context) -> String {
    if cx.disks[number].settings().shared {
        format!("image {number}")
    } else {
        format!("vm {}", number / cx.run.settings().disks_per_vm)
    }
}

/// What attaches a disk with this size.
fn attach_command(
    number: usize,
    size: Bytes,
    policy: WritePolicy,
    write_back: WriteBack,
    cx: &Context,
) -> Command {
    let disk = &cx.disks[number];
    Command::Attach {
        disk: disk.id(),
        name: format!("disk {number}"),
        size,
        policy,
        read_only: disk.settings().read_only,
        tenant: tenant_name(number, cx),
        shared: disk.settings().shared,
        fingerprint: disk.fingerprint(),
        owner: disk.owner(),
        write_back,
        tenure: Tenure::Owner,
    }
}

/// What writes of a disk do that is about to be attached.
fn draw_policy(number: usize, cx: &mut Context) -> WritePolicy {
    let past_flash = [WritePolicy::Through, WritePolicy::Around];
    let Some(back) = cx.run.settings().back else {
        return *pick(cx.run.dice(), &past_flash);
    };
    // What waits on flash is only served under write-back; and now and then somebody asks for
    // what cannot be.
    let sense = cx.disks[number].can_go_back() || cx.run.one_in(20);
    if sense && (back.late > 1 && !cx.run.one_in(back.late)) {
        WritePolicy::Back
    } else {
        *pick(cx.run.dice(), &past_flash)
    }
}

/// How writes go back, for a disk that is attached or changed.
fn draw_write_back(cx: &mut Context) -> WriteBack {
    let suspect = cx.flash_is_suspect();
    let special = cx.run.special();
    match cx.run.settings().back {
        Some(back) => back.draw_write_back(special, suspect, cx.run.dice()),
        None => WriteBack::default(),
    }
}

/// What becomes of a disk's bytes when it is detached while the cache goes on.
fn draw_of_dirty(cx: &mut Context) -> OfDirty {
    let back = cx.run.settings().back;
    match back {
        None => OfDirty::Refuse,
        Some(back) if back.drops && cx.run.one_in(4) => OfDirty::Drop,
        Some(_) => *pick(
            cx.run.dice(),
            &[OfDirty::Refuse, OfDirty::Flush, OfDirty::Keep],
        ),
    }
}

/// The key that a disk comes with: now and then another than it had.
fn draw_key(number: usize, cx: &mut Context) -> Option<NonZeroU64> {
    let key = cx.disks[number].key();
    let is_last = cx.run.is_last_life();
    if cx.run.special() != Special::Commanded || is_last || !cx.run.one_in(4) {
        return key;
    }
    cx.run.hit("key drawn");
    *pick(
        cx.run.dice(),
        &[None, NonZeroU64::new(1), NonZeroU64::new(2)],
    )
}
