//! What befalls the server.

use super::NbdWorld;
use units::Duration;

impl NbdWorld {
    /// Something goes wrong.
    pub(super) fn fault(&mut self) {
        let kind = self.dice.below(9);
        let name = match kind {
            _ if !self.server.is_up() => return,
            0 | 1 => {
                self.server.crash();
                "crash"
            }
            2 | 3 if self.server.drop_connection() => "connection broke",
            4 if !self.server.is_stopping() => {
                self.server.stop();
                "shutdown"
            }
            5 => {
                self.server.freeze(true);
                "standstill"
            }
            6 if self.server.send_nonsense() => "nonsense",
            7 | 8 => {
                self.server.fail(!self.server.is_failing());
                "errors"
            }
            _ => return,
        };
        self.marks.hit(name);
        self.trace.event(self.now, &[3, kind], || name.to_owned());
        let longest = self.settings.request_timeout.as_nanos() * 3 / 2;
        let lasts = Duration::from_nanos(self.dice.below(longest));
        self.fault_ends = self.fault_ends.max(self.now + lasts);
    }

    /// What has to come to an end does.
    pub(super) fn end_faults(&mut self) {
        let due = !self.faults || self.fault_ends <= self.now;
        if self.server.is_stopping() && (due || self.server.is_quiet()) {
            self.trace.event(self.now, &[4], || "shut down".to_owned());
            self.server.crash();
        } else if due && !self.server.is_up() {
            self.short = self.faults && self.dice.one_in(12);
            self.server.start();
            self.trace.event(self.now, &[5], || "up again".to_owned());
        } else if due && self.short && self.server.is_up() {
            // Somebody repairs it.
            self.server.crash();
        } else if due {
            self.server.freeze(false);
        }
    }
}
