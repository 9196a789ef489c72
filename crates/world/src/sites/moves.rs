//! What the guest does, and where: `guest.rs` has the picture.

use super::Sites;
use super::clients::Served;
use super::guest::{Ending, Guest, Kind, Phase, Place, Second};
use crate::violation::Violation;
use units::{Duration, Instant};

impl Sites {
    /// The guest boots somewhere, alone.
    pub(super) fn boot(&mut self, site: usize) -> Result<(), Violation> {
        self.drop_other()?;
        let place = self.guest.place;
        self.disconnect(place)?;
        self.run.hit("boot");
        let left = 1 + self.run.below(60);
        let client = self.run.next_id();
        self.run.event(&[61, site as u64, client], || {
            format!("the guest boots at host {site} as client {client}")
        });
        self.guest = Guest::new(Place { site, client }, left, self.run.now());
        Ok(())
    }

    fn disconnect(&mut self, place: Place) -> Result<(), Violation> {
        self.outstanding.retain(|_, request| request.place != place);
        self.at(place.site, |site, at| site.disconnect(place.client, at))
    }

    pub(super) fn drop_other(&mut self) -> Result<(), Violation> {
        match self.guest.other.take() {
            Some(other) => self.disconnect(other),
            None => Ok(()),
        }
    }

    /// A connection that was lost with its daemon is made again. False if there is no daemon.
    fn reconnect(&mut self, place: Place) -> Option<Place> {
        let site = &self.hosts[place.site];
        if !site.is_up() {
            return None;
        }
        if site.clients().served(place.client).is_some() {
            return Some(place);
        }
        let client = self.run.next_id();
        self.at(place.site, |site, at| site.connect(client, at));
        self.run.event(&[62, client], || {
            format!("client {client} connects to host {}", place.site)
        });
        Some(Place { client, ..place })
    }

    /// The guest asks next after so long.
    pub(super) fn guest_waits(&mut self, pause: Duration) {
        self.guest.next_at = self.run.now() + pause;
    }

    pub(super) fn guest_acts(&mut self) -> Result<(), Violation> {
        let pause = self.run.below(self.plan.pause.as_nanos() + 1);
        self.guest_waits(Duration::from_nanos(pause));
        let Some(place) = self.reconnect(self.guest.place) else {
            self.guest_waits(Duration::from_millis(20));
            return Ok(());
        };
        if place != self.guest.place {
            // Nobody knows any more that it was served before.
            if let Phase::Returned { .. } = self.guest.phase {
                self.guest.phase = Phase::Runs;
            }
            self.guest.place = place;
        }
        self.plan_trouble();
        match self.guest.phase {
            Phase::Runs if self.guest.left == 0 && !self.is_calm => self.begin_move(),
            Phase::Warms { until, ending } => self.warm(until, ending),
            Phase::Twice(second) => self.twice(second),
            Phase::Stops { ending } => self.stop(ending),
            Phase::Flushes { .. } => Ok(()),
            Phase::Moved { goes_at, ending } => self.moved(goes_at, ending),
            Phase::Runs | Phase::Returned { .. } => self.ask_something(place),
        }
    }

    fn begin_move(&mut self) -> Result<(), Violation> {
        let place = self.guest.place;
        if !self.hosts[place.site].serves() {
            // Its first change brings the disk; until then the other host serves it.
            if self.outstanding.values().any(|one| one.place == place) {
                self.guest_waits(Duration::from_millis(30));
                return Ok(());
            }
            return self.ask_at(place, Kind::Write { fua: false });
        }
        self.plan.moves = self.plan.moves.saturating_sub(1);
        let there = Place {
            site: 1 - self.guest.place.site,
            client: 0,
        };
        let Some(there) = self.reconnect(there) else {
            self.guest.left = 1 + self.run.below(10);
            return Ok(());
        };
        self.guest.other = Some(there);
        if self.run.one_in(5) {
            self.run.hit("second start");
            let owns = self.hosts[1 - there.site].serves();
            let since = owns.then_some(self.run.now());
            self.guest.phase = Phase::Twice(Second {
                reads_left: 70,
                writes_left: 4,
                since,
            });
            return Ok(());
        }
        let ending = match self.run.below(6) {
            0 => Ending::GivenUp,
            1 | 2 => Ending::Returns,
            _ => Ending::Well,
        };
        let wait = Duration::from_micros(1_100_000 + self.run.below(1_500_000));
        let until = self.run.now() + wait;
        self.run
            .event(&[63], || format!("a move begins, {ending:?}"));
        self.guest.phase = Phase::Warms { until, ending };
        for _ in 0..self.run.below(8) {
            self.ask_at(there, Kind::Read)?;
        }
        Ok(())
    }

    fn warm(&mut self, until: Instant, ending: Ending) -> Result<(), Violation> {
        if self.run.now() >= until {
            self.guest.phase = Phase::Stops { ending };
            return Ok(());
        }
        if self.outstanding.len() >= self.plan.depth + 8 || self.run.one_in(3) {
            self.guest_waits(Duration::from_millis(50));
            return Ok(());
        }
        let place = self.guest.place;
        self.ask_something(place)
    }

    /// The other one boots, reads and writes, while this one is idle.
    fn twice(&mut self, second: Second) -> Result<(), Violation> {
        let Some(other) = self.guest.other.and_then(|other| self.reconnect(other)) else {
            self.drop_other()?;
            self.guest.phase = Phase::Runs;
            return Ok(());
        };
        self.guest.other = Some(other);
        self.guest_waits(Duration::from_millis(30));
        if second.reads_left == 1 {
            // Idle, and as flushed as one that moves.
            let place = self.guest.place;
            self.ask_at(place, Kind::Flush)?;
            self.guest_waits(Duration::from_millis(300));
        }
        if second.reads_left > 0 {
            let reads_left = second.reads_left - 1;
            self.guest.phase = Phase::Twice(Second {
                reads_left,
                ..second
            });
            return self.ask_at(other, Kind::Read);
        }
        let is_asked = self.outstanding.values().any(|one| one.place == other);
        if is_asked {
            return Ok(());
        }
        if self.run.one_in(4) || second.writes_left == 0 {
            self.drop_other()?;
            self.guest.phase = Phase::Runs;
            self.guest.left = 1 + self.run.below(20);
            return Ok(());
        }
        // If a claim that nobody waited for any more was granted, nothing is taken from anybody now.
        let is_there = self.hosts[self.guest.place.site].serves();
        self.guest.phase = Phase::Twice(Second {
            writes_left: second.writes_left - 1,
            since: second.since.filter(|_| is_there),
            ..second
        });
        self.ask_at(other, Kind::Write { fua: false })
    }

    fn stop(&mut self, ending: Ending) -> Result<(), Violation> {
        let place = self.guest.place;
        let is_early = self.hosts[place.site]
            .clients()
            .incoming_still_reads(self.run.now());
        if is_early || self.outstanding.values().any(|one| one.place == place) {
            self.guest_waits(Duration::from_micros(500));
            return Ok(());
        }
        let request = self.run.peek_id();
        self.guest.phase = Phase::Flushes { request, ending };
        self.ask_at(place, Kind::Flush)
    }

    /// The last flush has been answered.
    pub(super) fn stopped(&mut self, ok: bool, ending: Ending) -> Result<(), Violation> {
        let other = self.guest.other.and_then(|other| self.reconnect(other));
        self.guest.other = other.or(self.guest.other);
        let given_up = !ok || ending == Ending::GivenUp;
        let Some(there) = other.filter(|_| !given_up) else {
            self.run.hit("move given up");
            if let (Some(other), true) = (other, self.run.one_in(2)) {
                // The destination has begun, and dies before it is served: its claim is on its way.
                self.ask_at(other, Kind::Write { fua: false })?;
            }
            self.drop_other()?;
            self.guest.phase = Phase::Runs;
            self.guest.left = 1 + self.run.below(20);
            let pause = [0, 40_000, 300_000][self.run.index(3)];
            let pause = Duration::from_micros(self.run.below(pause + 1));
            self.guest_waits(pause);
            return Ok(());
        };
        self.run.hit("moved");
        self.run
            .event(&[64], || format!("the guest goes on at {there:?}"));
        let wait = [1_000, 2_000_000][self.run.index(2)];
        let wait = Duration::from_micros(self.run.below(wait));
        let goes_at = self.run.now() + wait;
        self.guest.other = Some(std::mem::replace(&mut self.guest.place, there));
        self.guest.phase = Phase::Moved { goes_at, ending };
        self.guest.has_changed = false;
        self.guest.left = match ending {
            Ending::Returns => self.run.below(6),
            _ => 1 + self.run.below(40),
        };
        let pause = [0, 100_000, 1_000_000][self.run.index(3)];
        let pause = Duration::from_micros(self.run.below(pause + 1));
        self.guest_waits(pause);
        Ok(())
    }

    fn moved(&mut self, goes_at: Instant, ending: Ending) -> Result<(), Violation> {
        let place = self.guest.place;
        if ending == Ending::Returns {
            if self.guest.left > 0 {
                return self.ask_something(place);
            }
            let Some(source) = self.guest.other.take() else {
                self.guest.phase = Phase::Runs;
                return Ok(());
            };
            // Some of what the destination asked may not be answered yet.
            self.run.hit("source goes on");
            let served = self.hosts[source.site].clients().served(source.client);
            let was_served = served.is_some_and(|served| served != Served::Never);
            let is_overtaken = self.guest.has_changed && was_served;
            if self.guest.has_changed && !was_served {
                // Its host never had the disk for it, and cannot know that it is no new one.
                self.run.hit("a guest that only read was overtaken");
            }
            self.run.event(&[65, u64::from(is_overtaken)], || {
                format!("the source goes on, overtaken: {is_overtaken}")
            });
            self.disconnect(place)?;
            self.guest.place = source;
            self.guest.phase = Phase::Returned { is_overtaken };
            self.guest.left = 1 + self.run.below(10);
            return Ok(());
        }
        if self.run.now() >= goes_at {
            self.drop_other()?;
        }
        if self.guest.left == 0 && self.guest.other.is_none() {
            self.guest.phase = Phase::Runs;
            self.guest.left = 1 + self.run.below(20);
            return Ok(());
        }
        if self.guest.left == 0 {
            self.guest_waits(Duration::from_millis(30));
            return Ok(());
        }
        self.ask_something(place)
    }
}
