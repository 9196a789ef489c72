//! From values to places on a picture, and the round values that an axis names.

use units::number::real;

/// Ticks that an axis of a large picture has, about.
pub(super) const TICKS: usize = 5;

/// How an axis maps values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Equal steps.
    Linear,
    /// Equal steps of microseconds; ticks at whole seconds, minutes, hours or days.
    Time,
    /// Equal steps of bytes; ticks at powers of two times a round number.
    Bytes,
    /// Equal factors; ticks at powers of ten.
    Log10,
    /// Equal factors; ticks at powers of two.
    Log2,
}

/// An axis with its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

impl Kind {
    const fn is_linear(self) -> bool {
        matches!(self, Self::Linear | Self::Time | Self::Bytes)
    }

    /// A round step that gives about as many ticks as are wanted.
    fn step(self, span: f64, wanted: usize) -> f64 {
        let rough = span / real(wanted as u64);
        match self {
            Self::Time => time_step(rough),
            Self::Bytes => (rough * 1.25).log2().round().exp2(),
            Self::Linear | Self::Log10 | Self::Log2 => decimal_step(rough),
        }
    }
}

/// An axis begins at zero if that costs at most this part of its length.
const ZERO_PART_MAX: f64 = 0.35;

impl Scale {
    /// The scale that shows all `values` and little else, with `margin` times their span free at either
    /// end. A linear one begins at zero if that costs it little.
    pub(super) fn fit(kind: Kind, values: impl Iterator<Item = f64>, margin: f64) -> Self {
        let (mut low, mut high) = range(kind, values);
        if !kind.is_linear() {
            if high <= low * 1.01 {
                (low, high) = (low / 2.0, high * 2.0);
            }
            let free = (high / low).powf(margin);
            return Self {
                kind,
                low: low / free,
                high: high * free,
            };
        }
        let begins_at_zero = low >= 0.0 && low <= high * ZERO_PART_MAX;
        if begins_at_zero {
            low = 0.0;
        }
        if high <= low {
            // A single value lies in the middle of a range that shows how large it is.
            let around = if low == 0.0 { 1.0 } else { low.abs() * 0.05 };
            high = low + around;
            if !begins_at_zero {
                low -= around;
            }
        }
        let free = (high - low) * margin;
        Self {
            kind,
            low: if begins_at_zero { 0.0 } else { low - free },
            high: high + free,
        }
    }

    /// The scale from zero to the largest of `values`, widened to a round value: for lengths.
    pub(super) fn of_lengths(values: impl Iterator<Item = f64>) -> Self {
        let kind = Kind::Linear;
        let (_, high) = range(kind, values.chain([0.0]));
        let high = if high > 0.0 { high } else { 1.0 };
        let step = kind.step(high, TICKS);
        Self {
            kind,
            low: 0.0,
            high: (high / step).ceil() * step,
        }
    }

    /// The scale from zero to `high`, which need not be round.
    pub(super) const fn up_to(kind: Kind, high: f64) -> Self {
        Self {
            kind,
            low: 0.0,
            high,
        }
    }

    /// The value at its low end, if it is linear and that is not zero: a picture then says so.
    pub(super) fn cut_at(&self) -> Option<f64> {
        (self.kind.is_linear() && self.low != 0.0).then_some(self.low)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.kind {
            Kind::Linear | Kind::Time | Kind::Bytes => (value - self.low) / (self.high - self.low),
            Kind::Log10 | Kind::Log2 => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values within the range, from low to high, about as many as `wanted`, and the step between
    /// them; a logarithmic scale has no step.
    pub(super) fn ticks(&self, wanted: usize) -> (Vec<f64>, f64) {
        match self.kind {
            Kind::Linear | Kind::Time | Kind::Bytes => {
                let step = self.kind.step(self.high - self.low, wanted);
                (multiples(self.low, self.high, step), step)
            }
            Kind::Log10 => (self.powers(10.0, wanted), 0.0),
            Kind::Log2 => (self.powers(2.0, wanted), 0.0),
        }
    }

    fn powers(&self, base: f64, wanted: usize) -> Vec<f64> {
        let exponent = |value: f64| value.ln() / base.ln();
        let (low, high) = (exponent(self.low), exponent(self.high));
        let all = multiples(low - 1e-9, high + 1e-9, 1.0);
        if all.len() < 3 {
            // Too few powers to read anything from: round values between them too.
            let digits: &[f64] = if base > 2.0 {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0, 1.25, 1.5, 1.75]
            };
            let mut ticks = Vec::new();
            for power in multiples(low.floor(), high.ceil(), 1.0) {
                ticks.extend(digits.iter().map(|digit| digit * base.powf(power)));
            }
            ticks.retain(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick));
            return ticks;
        }
        let every = all.len().div_ceil(wanted + 2).max(1);
        all.iter()
            .step_by(every)
            .map(|power| base.powf(*power))
            .collect()
    }
}

/// The least and the largest value that the kind of axis can show.
fn range(kind: Kind, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite() && (kind.is_linear() || *value > 0.0)) {
        low = low.min(value);
        high = high.max(value);
    }
    if low > high { (1.0, 2.0) } else { (low, high) }
}

/// The multiples of `step` from `low` to `high`.
fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let mut values = Vec::new();
    let first = (low / step - 1e-6).ceil();
    let mut value = first * step;
    while value <= high + step * 1e-6 && values.len() < 100 {
        // Adding zero makes the zero that was below it positive.
        values.push(value + 0.0);
        value = real(values.len() as u64).mul_add(step, first * step);
    }
    values
}

fn time_step(rough_us: f64) -> f64 {
    const STEPS_S: [f64; 17] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        14_400.0, 21_600.0, 43_200.0,
    ];
    let rough = rough_us / 1e6;
    if rough < 0.5 {
        return decimal_step(rough_us);
    }
    let of_a_day = STEPS_S.into_iter().find(|step| *step >= rough);
    of_a_day.map_or_else(
        || decimal_step(rough / 86_400.0).max(1.0) * 86_400e6,
        |step| step * 1e6,
    )
}

fn decimal_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let digit = match rough / power {
        d if d < 1.5 => 1.0,
        d if d < 3.5 => 2.0,
        d if d < 7.5 => 5.0,
        _ => 10.0,
    };
    digit * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(kind: Kind, values: &[f64]) -> Vec<f64> {
        let rounded = |tick: f64| (tick * 1e6).round() / 1e6;
        let scale = Scale::fit(kind, values.iter().copied(), 0.04);
        scale.ticks(TICKS).0.into_iter().map(rounded).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            ticks(Kind::Linear, &[0.31, 0.97]),
            [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        );
        assert_eq!(
            ticks(Kind::Log10, &[80.0, 20_000.0]),
            [100.0, 1000.0, 10_000.0]
        );
        assert_eq!(ticks(Kind::Log10, &[80.0, 600.0]), [100.0, 200.0, 500.0]);
        assert_eq!(
            ticks(Kind::Log2, &[1000.0, 9000.0]),
            [1024.0, 2048.0, 4096.0, 8192.0]
        );
        assert_eq!(
            ticks(Kind::Log2, &[2900.0, 5700.0]),
            [3072.0, 3584.0, 4096.0, 5120.0]
        );
    }

    #[test]
    fn an_axis_fits_its_data_and_says_where_it_is_cut() {
        let fit = |values: [f64; 2]| Scale::fit(Kind::Linear, values.into_iter(), 0.05);
        assert_eq!(fit([0.2, 0.9]).cut_at(), None, "zero costs little");
        let cut = fit([0.62, 0.68]);
        assert!((cut.cut_at().unwrap() - 0.617).abs() < 1e-9);
        assert_eq!(
            ticks(Kind::Linear, &[0.62, 0.68]),
            [0.62, 0.63, 0.64, 0.65, 0.66, 0.67, 0.68]
        );
        assert!(cut.place(0.62) < 0.06 && cut.place(0.68) > 0.94);
        let lengths = Scale::of_lengths([0.62, 0.68].into_iter());
        assert_eq!(lengths.cut_at(), None, "a length begins at zero");
    }

    #[test]
    fn nothing_or_one_value_is_a_range_too() {
        for kind in [
            Kind::Linear,
            Kind::Time,
            Kind::Bytes,
            Kind::Log10,
            Kind::Log2,
        ] {
            for values in [&[][..], &[0.0], &[7.0], &[f64::NAN, f64::INFINITY]] {
                let scale = Scale::fit(kind, values.iter().copied(), 0.0);
                assert!(scale.low < scale.high, "{kind:?} {values:?}");
                assert!(scale.place(7.0).is_finite());
            }
        }
    }

    #[test]
    fn places_keep_their_order() {
        let scale = Scale::fit(Kind::Log2, [1.0, 16.0].into_iter(), 0.0);
        assert!((scale.place(4.0) - 0.5).abs() < 1e-9);
        assert!(scale.place(0.0) <= 0.0);
    }
}
