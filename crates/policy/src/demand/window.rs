//! The window's length: at the knee of *hit ratio by window length*, chosen again and again.
//!
//! Paper: CloudCache (see [`super`]), section 4.1 and figure 3: simulate the hit ratio of a cache that is
//! given `RWSS(T)` blocks for each `T`, and take the `T` from which it flattens out; a workload whose
//! ratio grows slowly without a knee takes a small window.
//!
//! ```text
//!   hit ratio │           ____x───────x      for each T:  RWSS(T), the mean of recent history
//!             │      x───'    ▲               ─► hit ratio of a cache of RWSS(T) blocks,
//!             │   x'        the knee                read from the live miss-ratio curve
//!             └───┴──┴────────┴───────┴─ T
//! ```
//!
//! The paper profiles now and then, offline. Here `RWSS(T)` is observed for all windows at once, the
//! curve is there anyway, and so the choice is free and can be made each window. Two things keep it
//! steady: history fades slowly, and the chosen length stays while its height above the diagonal is
//! within a margin of the knee's.
//!
//! The curve begins at no window and no hits, so that what counts as flat is measured against all hits
//! there are. It is made concave first, because sampled sizes wobble.
//! Units: time by length, blocks, ratios 0 to 1.

use super::{Knee, Windows, knee};
use units::Duration;
use units::number::{count_near, real};

/// How windows are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSettings {
    /// The length taken without a knee, and before there is any history. It must be among the windows.
    pub small: Duration,
    /// How far below the knee, in height above the diagonal (0 to 1), the chosen length may be and stay.
    pub margin: f64,
    /// How many observations the mean reaches back: a day of minutes, for example.
    pub memory: u32,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            small: Duration::from_secs(600),
            margin: 0.05,
            memory: 1_440,
        }
    }
}

/// Settings that nothing can be chosen by.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WindowSettingsError {
    /// The small window is not measured.
    #[error("the small window of {0} is not among the windows: add it, or take one of them")]
    SmallNotMeasured(Duration),
    /// The margin is no height.
    #[error("a margin of {0}: give a height from 0 to 1")]
    Margin(f64),
    /// Nothing would be remembered.
    #[error("a memory of no observations: give 1 or more")]
    NoMemory,
}

/// A window length, and what a tenant that is given its demand could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// The length.
    pub window: Duration,
    /// Mean `RWSS` over it.
    pub blocks: u64,
    /// Hit ratio of a cache of so many blocks.
    pub hit_ratio: f64,
}

/// What was chosen, and from what.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The length from now on.
    pub window: Duration,
    /// Whether it was another before.
    pub changed: bool,
    /// The length at the knee, if there is one; not always the one chosen.
    pub knee: Option<Duration>,
    /// The curve, by rising length.
    pub curve: Vec<Rung>,
}

/// Chooses a tenant's window length.
#[derive(Clone, Debug)]
pub struct Chooser {
    windows: Windows,
    settings: WindowSettings,
    /// Mean sizes by window.
    means: Vec<f64>,
    observations: u32,
    window: Duration,
}

impl Chooser {
    /// Begins with the small window.
    ///
    /// # Errors
    /// If the settings contradict the windows or themselves.
    pub fn new(windows: Windows, settings: WindowSettings) -> Result<Self, WindowSettingsError> {
        if windows.position(settings.small).is_none() {
            return Err(WindowSettingsError::SmallNotMeasured(settings.small));
        }
        if !(0.0..=1.0).contains(&settings.margin) {
            return Err(WindowSettingsError::Margin(settings.margin));
        }
        if settings.memory == 0 {
            return Err(WindowSettingsError::NoMemory);
        }
        Ok(Self {
            means: vec![0.0; windows.as_slice().len()],
            windows,
            settings,
            observations: 0,
            window: settings.small,
        })
    }

    /// The length chosen last.
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// `RWSS` of each window at one moment, as [`super::Demand::ladder`] gives it. Called at even
    /// distances in time, a minute for example.
    ///
    /// # Panics
    /// If there is not one size a window.
    pub fn observe(&mut self, sizes: &[u64]) {
        assert_eq!(sizes.len(), self.means.len(), "a size for each window");
        self.observations = (self.observations + 1).min(self.settings.memory);
        let part = f64::from(self.observations).recip();
        for (mean, size) in self.means.iter_mut().zip(sizes) {
            *mean += (real(*size) - *mean) * part;
        }
    }

    /// Chooses the length from what was observed. `hit_ratio` says what a cache of so many blocks hits,
    /// 0 to 1; it is asked once a window.
    pub fn choose(&mut self, hit_ratio: impl Fn(u64) -> f64) -> Choice {
        let rungs = self.windows.as_slice().iter().zip(&self.means);
        let curve: Vec<Rung> = rungs
            .map(|(&window, &mean)| {
                let blocks = count_near(mean);
                Rung {
                    window,
                    blocks,
                    hit_ratio: hit_ratio(blocks),
                }
            })
            .collect();
        let corners = corners(&curve);
        let knee = knee(&corners).map(|Knee { at, height }| (corners[at].0, height));
        let at_knee = knee.and_then(|(secs, _)| {
            let rung = curve.iter().find(|rung| seconds(rung.window) >= secs);
            rung.map(|rung| rung.window)
        });
        let best = at_knee.unwrap_or(self.settings.small);
        let stays = knee.is_some_and(|(_, height)| {
            height_of(&curve, self.window) >= height - self.settings.margin
        });
        let before = self.window;
        if !stays {
            self.window = best;
        }
        Choice {
            window: self.window,
            changed: self.window != before,
            knee: at_knee,
            curve,
        }
    }

    /// All memory held.
    pub fn memory(&self) -> units::Bytes {
        let windows = size_of_val(self.windows.as_slice());
        units::Bytes::new((size_of::<Self>() + windows + self.means.capacity() * 8) as u64)
    }
}

fn seconds(window: Duration) -> f64 {
    real(window.as_nanos()) / 1e9
}

/// The concave upper bound of the curve from nothing on: `(seconds, hit ratio)`.
fn corners(curve: &[Rung]) -> Vec<(f64, f64)> {
    let mut corners = vec![(0.0, 0.0)];
    for rung in curve {
        let point = (seconds(rung.window), rung.hit_ratio);
        while let [.., a, b] = corners[..]
            && (b.1 - a.1) * (point.0 - a.0) <= (point.1 - a.1) * (b.0 - a.0)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// How far above the diagonal a window's point is.
fn height_of(curve: &[Rung], window: Duration) -> f64 {
    let (Some(last), Some(rung)) = (
        curve.last(),
        curve.iter().find(|rung| rung.window == window),
    ) else {
        return 0.0;
    };
    if last.hit_ratio <= 0.0 {
        return 0.0;
    }
    rung.hit_ratio / last.hit_ratio - seconds(window) / seconds(last.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);

    fn windows() -> Windows {
        Windows::new(&[
            MINUTE,
            Duration::from_secs(600),
            HOUR,
            Duration::from_secs(36_000),
        ])
        .unwrap()
    }

    fn chooser(memory: u32) -> Chooser {
        let settings = WindowSettings {
            memory,
            ..WindowSettings::default()
        };
        Chooser::new(windows(), settings).unwrap()
    }

    /// A cache of up to 1,000 blocks hits .8 of the accesses in proportion, beyond that nothing more.
    fn up_to_a_thousand(blocks: u64) -> f64 {
        0.8 * (real(blocks) / 1000.0).min(1.0)
    }

    #[test]
    fn the_window_is_where_the_hit_ratio_flattens_out() {
        let mut chooser = chooser(1);
        // .08, .24, .8, .8: above the diagonal by .1-.002, .3-.017, 1-.1, 0.
        chooser.observe(&[100, 300, 1000, 5000]);
        let choice = chooser.choose(up_to_a_thousand);
        assert_eq!(choice.window, HOUR);
        assert_eq!(choice.knee, Some(HOUR));
        assert!(choice.changed);
        assert_eq!(choice.curve[3].blocks, 5000);
        assert!((choice.curve[1].hit_ratio - 0.24).abs() < 1e-12);
    }

    #[test]
    fn a_curve_without_a_knee_takes_the_small_window() {
        let mut chooser = chooser(1);
        chooser.observe(&[1, 16, 100, 1000]);
        let choice = chooser.choose(up_to_a_thousand);
        assert_eq!(choice.knee, None);
        assert_eq!(choice.window, Duration::from_secs(600));
        chooser.observe(&[0, 0, 0, 0]);
        assert_eq!(chooser.choose(|_| 0.0).window, Duration::from_secs(600));
    }

    #[test]
    fn a_window_nearly_as_good_as_the_knee_stays() {
        let mut chooser = chooser(1);
        chooser.observe(&[100, 300, 1000, 1000]);
        assert_eq!(chooser.choose(up_to_a_thousand).window, HOUR);
        // Ten minutes are now .95-.017 high and the hour .9: within the margin of .05.
        chooser.observe(&[100, 950, 1000, 1000]);
        let choice = chooser.choose(up_to_a_thousand);
        assert_eq!(choice.knee, Some(Duration::from_secs(600)));
        assert_eq!((choice.window, choice.changed), (HOUR, false));
        // Now .983 against .9.
        chooser.observe(&[100, 1000, 1000, 1000]);
        let choice = chooser.choose(up_to_a_thousand);
        assert_eq!(
            (choice.window, choice.changed),
            (Duration::from_secs(600), true)
        );
    }

    #[test]
    fn sizes_are_means_of_recent_history() {
        let mut chooser = chooser(2);
        for size in [100, 200, 400] {
            chooser.observe(&[size, size, size, size]);
        }
        // (100 + 200) / 2 = 150, then half way to 400.
        assert_eq!(chooser.choose(up_to_a_thousand).curve[0].blocks, 275);
    }

    #[test]
    fn settings_that_contradict_the_windows_are_refused() {
        let with = |settings| Chooser::new(windows(), settings).unwrap_err().to_string();
        let default = WindowSettings::default();
        let small = Duration::from_secs(120);
        assert!(with(WindowSettings { small, ..default }).contains("2min is not among"));
        assert!(
            with(WindowSettings {
                margin: 1.5,
                ..default
            })
            .contains("1.5")
        );
        assert!(
            with(WindowSettings {
                memory: 0,
                ..default
            })
            .contains("1 or more")
        );
    }
}
