//! The traffic of each pair of VMs, as rates in bytes a second.
//!
//! A symmetric matrix with a name to each row: what `u` sends to `v` and what `v` sends to `u` are one rate, since
//! both cross the link when only one of the two is across. What a VM sends to itself never crosses, and is not kept.

use crate::error::TrafficError;
use crate::limits::RATE_BYTES_MAX;
use crate::names::{Names, shown};

/// Rates between named VMs: finite, not negative, symmetric, zero on the diagonal.
#[derive(Clone, Debug, Default)]
pub struct TrafficMatrix {
    names: Names,
    /// Row by row.
    rates: Vec<f64>,
    clamped: usize,
}

impl TrafficMatrix {
    /// These VMs, without traffic.
    ///
    /// # Errors
    /// If a name is no name or is there twice, or the VMs are too many.
    pub fn of_vms<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, TrafficError> {
        let mut matrix = Self::default();
        for name in names {
            if matrix.index_of(name).is_some() {
                return Err(TrafficError::Twice(name.to_owned()));
            }
            matrix.names.place(name)?;
        }
        let vms = matrix.names.len();
        matrix.rates = vec![0.0; vms * vms];
        Ok(matrix)
    }

    /// VMs in the order in which `pairs` name them, with the sum of what is said of each pair, in bytes a second.
    ///
    /// # Errors
    /// If a name is no name, a rate is negative or no number, or the VMs are too many.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str, f64)>,
    ) -> Result<Self, TrafficError> {
        let mut matrix = Self::default();
        let mut found = Vec::new();
        for (first, second, rate) in pairs {
            check_rate(first, second, rate)?;
            let names = &mut matrix.names;
            found.push((names.place(first)?, names.place(second)?, rate));
        }
        let vms = matrix.names.len();
        matrix.rates = vec![0.0; vms * vms];
        for (first, second, rate) in found {
            matrix.put(first, second, rate);
        }
        Ok(matrix)
    }

    /// Adds traffic between two VMs, in bytes a second, to what is known already.
    ///
    /// # Errors
    /// If the rate is negative, endless, or no number.
    ///
    /// # Panics
    /// If there are no such VMs.
    pub fn add(&mut self, first: usize, second: usize, rate: f64) -> Result<(), TrafficError> {
        let names = self.names.all();
        check_rate(&names[first], &names[second], rate)?;
        self.put(first, second, rate);
        Ok(())
    }

    fn put(&mut self, first: usize, second: usize, rate: f64) {
        if first == second {
            return;
        }
        let vms = self.names.len();
        let sum = self.rates[first * vms + second] + rate;
        self.clamped += usize::from(sum > RATE_BYTES_MAX);
        let sum = sum.min(RATE_BYTES_MAX);
        self.rates[first * vms + second] = sum;
        self.rates[second * vms + first] = sum;
    }

    /// The traffic among these VMs alone, in their order. A VM that the matrix does not know has none.
    ///
    /// # Errors
    /// If a name is no name or is there twice, or the VMs are too many.
    pub fn among<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TrafficError> {
        let mut chosen = Self::of_vms(names)?;
        let known: Vec<Option<usize>> = chosen
            .names()
            .iter()
            .map(|name| self.index_of(name))
            .collect();
        for (first, of_first) in known.iter().enumerate() {
            for (second, of_second) in known.iter().enumerate().skip(first + 1) {
                if let (Some(of_first), Some(of_second)) = (of_first, of_second) {
                    chosen.put(first, second, self.rate(*of_first, *of_second));
                }
            }
        }
        Ok(chosen)
    }

    /// How many VMs.
    pub const fn vms(&self) -> usize {
        self.names.len()
    }

    /// Their names, by index.
    pub fn names(&self) -> &[String] {
        self.names.all()
    }

    /// The index of a VM.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// The traffic of a pair, in bytes a second.
    ///
    /// # Panics
    /// If there are no such VMs.
    pub fn rate(&self, first: usize, second: usize) -> f64 {
        self.row(first)[second]
    }

    /// The traffic of one VM with each, in bytes a second.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn row(&self, vm: usize) -> &[f64] {
        let vms = self.names.len();
        &self.rates[vm * vms..(vm + 1) * vms]
    }

    /// The traffic of one VM with all the others, in bytes a second.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn of_vm(&self, vm: usize) -> f64 {
        self.row(vm).iter().sum()
    }

    /// The traffic of all pairs, in bytes a second.
    pub fn total(&self) -> f64 {
        self.rates.iter().sum::<f64>() / 2.0
    }

    /// How many rates were cut down to [`RATE_BYTES_MAX`].
    pub const fn clamped(&self) -> usize {
        self.clamped
    }
}

fn check_rate(first: &str, second: &str, rate: f64) -> Result<(), TrafficError> {
    if rate >= 0.0 && rate.is_finite() {
        return Ok(());
    }
    Err(TrafficError::Rate {
        first: shown(first),
        second: shown(second),
        rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{NAME_CHARS_MAX, VMS_MAX};

    #[test]
    fn both_directions_of_a_pair_are_one_rate() {
        let matrix = TrafficMatrix::from_pairs([
            ("web", "db", 3.0),
            ("db", "web", 4.0),
            ("web", "web", 9.0),
        ])
        .unwrap();
        assert_eq!(matrix.names(), ["web", "db"]);
        assert_eq!(matrix.row(0), [0.0, 7.0]);
        assert_eq!(matrix.row(1), [7.0, 0.0]);
        assert!((matrix.total() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_rate_is_refused_and_what_is_too_much_is_cut_down() {
        for rate in [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = TrafficMatrix::from_pairs([("a", "b", rate)]);
            assert!(matches!(refused, Err(TrafficError::Rate { .. })), "{rate}");
        }
        let huge = TrafficMatrix::from_pairs([("a", "b", 1e300), ("a", "c", 1.0)]).unwrap();
        assert_eq!((huge.rate(0, 1), huge.clamped()), (RATE_BYTES_MAX, 1));
        assert!(huge.total().is_finite());
    }

    #[test]
    fn names_are_short_and_can_be_printed() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["", "a\nb", "\u{1b}[31m", &long] {
            let refused = TrafficMatrix::of_vms([name]);
            assert!(
                matches!(refused, Err(TrafficError::Name { .. })),
                "{name:?}"
            );
        }
        assert!(TrafficMatrix::of_vms(["<script>", "ü"]).is_ok());
        let twice = TrafficMatrix::of_vms(["a", "a"]);
        assert_eq!(twice.unwrap_err(), TrafficError::Twice("a".into()));
    }

    #[test]
    fn a_group_has_a_largest_size() {
        let names: Vec<String> = (0..=VMS_MAX).map(|vm| format!("vm{vm}")).collect();
        let all = names.iter().map(String::as_str);
        assert_eq!(
            TrafficMatrix::of_vms(all.clone()).unwrap_err(),
            TrafficError::TooMany
        );
        assert!(TrafficMatrix::of_vms(all.take(VMS_MAX)).is_ok());
    }

    #[test]
    fn a_part_of_the_vms_keeps_its_traffic() {
        let all = [("a", "b", 1.0), ("b", "c", 2.0), ("a", "c", 4.0)];
        let matrix = TrafficMatrix::from_pairs(all).unwrap();
        let part = matrix.among(["c", "new", "a"]).unwrap();
        assert_eq!(part.names(), ["c", "new", "a"]);
        assert_eq!(part.row(0), [0.0, 0.0, 4.0]);
        assert_eq!(part.row(1), [0.0; 3]);
    }
}
