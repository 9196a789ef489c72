//! The queues of a device, and which of them are to be looked at.

use crate::bell::Signals;
use crate::kick::Poll;
use crate::tokens::Task;
use crate::vring::Vring;
use ring::{Op, Source};
use vhost_protocol::limits::QUEUES_MAX;

#[derive(Debug)]
pub(crate) struct Queues {
    vrings: Vec<Vring>,
    /// Queues that may have something, a bit each.
    pending: u64,
    /// Queues that were empty and whose guest was not asked to kick, a bit each.
    quiet: u64,
    /// Queues whose kicks may not be polled for, a bit each.
    to_poll: u64,
    /// Queues whose guest is to be interrupted whatever is published, a bit each.
    to_wake: u64,
    /// Polls of descriptors that are gone.
    to_cancel: Vec<u64>,
}

const _: () = assert!(QUEUES_MAX as u32 <= u64::BITS, "a bit for each queue");

impl Default for Queues {
    fn default() -> Self {
        Self {
            vrings: (0..QUEUES_MAX).map(|_| Vring::default()).collect(),
            pending: 0,
            quiet: 0,
            to_poll: 0,
            to_wake: 0,
            to_cancel: Vec::new(),
        }
    }
}

impl Queues {
    pub(crate) fn all(&self) -> &[Vring] {
        &self.vrings
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Vring] {
        &mut self.vrings
    }

    pub(crate) fn vring(&self, queue: usize) -> &Vring {
        &self.vrings[queue]
    }

    pub(crate) fn vring_mut(&mut self, queue: usize) -> &mut Vring {
        &mut self.vrings[queue]
    }

    /// Queues that run.
    pub(crate) fn running(&self) -> usize {
        let running = self.vrings.iter().filter(|vring| vring.is_running());
        running.count()
    }

    /// Queues that may have something, `first` and those behind it before the others.
    pub(crate) fn pending(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        bits(self.pending, first)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending != 0
    }

    /// A queue was found empty, or is not to be read.
    pub(crate) fn is_looked_through(&mut self, queue: usize) {
        self.pending &= !(1 << queue);
    }

    /// Whether there are queues of which the guest tells nobody.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet != 0
    }

    /// A queue was found empty, and its guest was not asked to kick; or is read again.
    pub(crate) fn set_quiet(&mut self, queue: usize, is_quiet: bool) {
        self.quiet = self.quiet & !(1 << queue) | u64::from(is_quiet) << queue;
    }

    /// Whether the guest has put something into a queue of which it tells nobody.
    pub(crate) fn has_quiet_work(&self) -> bool {
        bits(self.quiet, 0).any(|queue| self.vrings[queue].has_work())
    }

    /// Looks at the queues of which the guest tells nobody.
    pub(crate) fn look_at_quiet(&mut self) {
        for queue in bits(self.quiet, 0) {
            if self.vrings[queue].has_work() {
                self.look_at(queue);
            }
        }
    }

    /// Asks the guest to kick from now on. True: something has come already.
    pub(crate) fn rest(&mut self) -> bool {
        let mut found = false;
        for queue in bits(std::mem::take(&mut self.quiet), 0) {
            let vring = &mut self.vrings[queue];
            // What is wrong with a ring is found out, and said, when it is looked at.
            if vring.is_served() && !matches!(vring.listen(), Ok(false)) {
                self.look_at(queue);
                found = true;
            }
        }
        found
    }

    /// Polls for kicks where that has ended.
    pub(crate) fn poll_kicks(&mut self, source: &Source) {
        for queue in bits(std::mem::take(&mut self.to_poll), 0) {
            if let Some((fd, generation)) = self.vrings[queue].poll_kick() {
                let token = Task::Kick { queue, generation }.token();
                source.submit(token, Op::PollEach { fd });
            }
        }
    }

    /// The poll of a kick tells of one, or has failed. True: it was of the kick that the queue has now.
    pub(crate) fn kicked(&mut self, queue: usize, generation: u32, poll: Poll) -> bool {
        let is_present = self.vrings[queue].kick_mut().polled(generation, poll);
        if is_present && poll != Poll::Failed {
            self.look_at(queue);
        }
        is_present
    }

    /// A queue may have something: after it started, was enabled or was kicked.
    pub(crate) fn look_at(&mut self, queue: usize) {
        self.pending |= 1 << queue;
        self.to_poll |= 1 << queue;
    }

    /// The guest may have missed an interrupt: whoever served the disk before may have died after
    /// answering and before telling.
    pub(crate) fn wake(&mut self, queue: usize) {
        self.to_wake |= 1 << queue;
    }

    /// Stops a queue that has nothing in flight, and says how far it was read.
    pub(crate) fn stop(&mut self, queue: usize) -> u16 {
        self.forget_kick(queue);
        self.pending &= !(1 << queue);
        self.to_poll &= !(1 << queue);
        self.to_wake &= !(1 << queue);
        self.vrings[queue].stop()
    }

    /// A poll of the queue's present kick must not go on.
    pub(crate) fn forget_kick(&mut self, queue: usize) {
        if let Some(generation) = self.vrings[queue].kick_mut().forget() {
            self.to_cancel
                .push(Task::Kick { queue, generation }.token());
        }
    }

    /// Whether every queue is idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.vrings.iter().all(Vring::is_idle)
    }

    /// Polls of descriptors that are gone since this was asked last.
    pub(crate) fn take_to_cancel(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.to_cancel.drain(..)
    }

    /// Asks the guests of these queues, a bit each, not to kick: each is about to see an answer, and
    /// has its next request soon. Those that may have something are looked at anyway.
    pub(crate) fn be_quiet(&mut self, answered: u64) {
        for queue in bits(answered & !self.pending & !self.quiet, 0) {
            if self.vrings[queue].be_quiet() {
                self.quiet |= 1 << queue;
            }
        }
    }

    /// Shows guests what was answered in these queues, a bit each, and interrupts them. Gives how many
    /// wanted that.
    pub(crate) fn publish(&mut self, answered: u64, signals: &Signals) -> u64 {
        let mut interrupts = 0;
        let to_wake = std::mem::take(&mut self.to_wake);
        for queue in bits(answered | to_wake, 0) {
            let vring = &mut self.vrings[queue];
            let wanted = vring.publish();
            if wanted || to_wake & (1 << queue) != 0 {
                interrupts += u64::from(wanted);
                vring.interrupt(queue, signals);
            }
        }
        interrupts
    }
}

/// Bits of a mask, lowest first, beginning with bit `first` and going round.
fn bits(mask: u64, first: usize) -> impl Iterator<Item = usize> {
    let rotated = mask.rotate_right(u32::try_from(first % 64).expect("a bit's number"));
    let mut left = rotated;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        Some((bit + first) % 64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_round() {
        let of = |mask, first| bits(mask, first).collect::<Vec<usize>>();
        assert_eq!(of(0b1011, 0), [0, 1, 3]);
        assert_eq!(of(0b1011, 1), [1, 3, 0]);
        assert_eq!(of(1 << 63 | 1, 63), [63, 0]);
        assert!(of(0, 5).is_empty());
    }
}
