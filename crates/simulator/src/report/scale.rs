//! From values to places on a picture, and the round values that an axis names.

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

    /// A round step that gives four to seven ticks.
    fn step(self, span: f64) -> f64 {
        match self {
            Self::Time => time_step(span),
            Self::Bytes => (span / 4.0).log2().round().exp2(),
            Self::Linear | Self::Log10 | Self::Log2 => decimal_step(span),
        }
    }
}

/// Ticks that an axis has at most.
const TICKS_MAX: usize = 7;

impl Scale {
    /// The scale that shows all `values`: from zero or their least if linear, widened to round values.
    pub(super) fn over(kind: Kind, values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (kind.is_linear() || *value > 0.0))
        {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        if kind.is_linear() {
            if from_zero {
                low = low.min(0.0);
            }
            if high <= low {
                high = low + 1.0;
            }
            let step = kind.step(high - low);
            return Self {
                kind,
                low: (low / step).floor() * step,
                high: (high / step).ceil() * step,
            };
        }
        if high <= low * 1.01 {
            (low, high) = (low / 2.0, high * 2.0);
        }
        Self { kind, low, high }
    }

    /// The scale from zero to `high`, which need not be round.
    pub(super) const fn up_to(kind: Kind, high: f64) -> Self {
        Self {
            kind,
            low: 0.0,
            high,
        }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.kind {
            Kind::Linear | Kind::Time | Kind::Bytes => (value - self.low) / (self.high - self.low),
            Kind::Log10 | Kind::Log2 => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values within the range, from low to high.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear | Kind::Time | Kind::Bytes => {
                multiples(self.low, self.high, self.kind.step(self.high - self.low))
            }
            Kind::Log10 => self.powers(10.0),
            Kind::Log2 => self.powers(2.0),
        }
    }

    fn powers(&self, base: f64) -> Vec<f64> {
        let exponent = |value: f64| value.ln() / base.ln();
        let (low, high) = (exponent(self.low), exponent(self.high));
        let all = multiples((low - 1e-9).ceil(), high + 1e-9, 1.0);
        if all.len() < 3 && base > 2.0 {
            let mut ticks = Vec::new();
            for power in multiples(low.floor(), high.ceil(), 1.0) {
                ticks.extend([1.0, 2.0, 5.0].map(|digit| digit * base.powf(power)));
            }
            ticks.retain(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick));
            return ticks;
        }
        let every = all.len().div_ceil(TICKS_MAX).max(1);
        all.iter()
            .step_by(every)
            .map(|power| base.powf(*power))
            .collect()
    }
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let mut values = Vec::new();
    let mut value = low;
    while value <= high + step * 1e-6 && values.len() < 100 {
        values.push(value);
        value += step;
    }
    values
}

fn time_step(span_us: f64) -> f64 {
    const STEPS_S: [f64; 17] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        14_400.0, 21_600.0, 43_200.0,
    ];
    let rough = span_us / 6.0 / 1e6;
    if rough < 0.5 {
        return decimal_step(span_us);
    }
    let of_a_day = STEPS_S.into_iter().find(|step| *step >= rough);
    of_a_day.map_or_else(
        || decimal_step(span_us / 86_400e6).max(1.0) * 86_400e6,
        |step| step * 1e6,
    )
}

fn decimal_step(span: f64) -> f64 {
    let rough = span / 5.0;
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
        Scale::over(kind, values.iter().copied(), true)
            .ticks()
            .into_iter()
            .map(rounded)
            .collect()
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
                let scale = Scale::over(kind, values.iter().copied(), false);
                assert!(scale.low < scale.high, "{kind:?} {values:?}");
                assert!(scale.place(7.0).is_finite());
            }
        }
    }

    #[test]
    fn places_keep_their_order() {
        let scale = Scale::over(Kind::Log2, [1.0, 16.0].into_iter(), false);
        assert!((scale.place(4.0) - 0.5).abs() < 1e-9);
        assert!(scale.place(0.0) <= 0.0);
    }
}
