//! How often which place is drawn: fio's `random_distribution`.
//!
//! ```text
//!  random     every place alike
//!  zipf:t     the k-th place with a probability proportional to k^-t, scattered over the region
//!  pareto:h   a share h of the places has a share 1 - h of the accesses, scattered
//!  zoned:..   ACCESSES/SIZE:.. in percent from the region's start on, uniform inside
//! ```

use crate::limits::ZONES_MAX;
use crate::unit::whole;
use crate::{ParseError, Scatter, Zipf};
use std::fmt;
use std::str::FromStr;
use units::Prng;
use units::number::real;

/// A part of the region with its share of the accesses, both in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Its share of the accesses.
    pub accesses: f64,
    /// Its share of the region.
    pub size: f64,
}

/// How often which place is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Spread {
    /// Every place alike.
    #[default]
    Uniform,
    /// Zipf's law with this exponent.
    Zipf(f64),
    /// Pareto's principle with this share.
    Pareto(f64),
    /// Zones.
    Zoned(Vec<Zone>),
}

impl FromStr for Spread {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::Spread(text.to_owned());
        let number = |text: &str| -> Result<f64, ParseError> {
            let number: f64 = text.parse().map_err(|_| error())?;
            if number.is_finite() {
                Ok(number)
            } else {
                Err(error())
            }
        };
        match text.split_once(':') {
            None if text == "random" => Ok(Self::Uniform),
            Some(("zipf", theta)) => match number(theta)? {
                theta if (0.0..=10.0).contains(&theta) => Ok(Self::Zipf(theta)),
                _ => Err(error()),
            },
            Some(("pareto", share)) => match number(share)? {
                share if share > 0.0 && share < 1.0 => Ok(Self::Pareto(share)),
                _ => Err(error()),
            },
            Some(("zoned", zones)) => {
                let zone = |entry: &str| {
                    let (accesses, size) = entry.split_once('/').ok_or_else(error)?;
                    let (accesses, size) = (number(accesses)?, number(size)?);
                    Ok(Zone { accesses, size })
                };
                let zones: Vec<Zone> = zones.split(':').map(zone).collect::<Result<_, _>>()?;
                let is_whole = |share: fn(&Zone) -> f64| {
                    let positive = zones.iter().all(|zone| share(zone) >= 0.0);
                    positive && (zones.iter().map(share).sum::<f64>() - 100.0).abs() < 1e-6
                };
                let sound = is_whole(|zone| zone.accesses) && is_whole(|zone| zone.size);
                if sound && zones.len() <= ZONES_MAX {
                    Ok(Self::Zoned(zones))
                } else {
                    Err(error())
                }
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("random"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Pareto(share) => write!(f, "pareto:{share}"),
            Self::Zoned(zones) => {
                f.write_str("zoned")?;
                for zone in zones {
                    write!(f, ":{}/{}", zone.accesses, zone.size)?;
                }
                Ok(())
            }
        }
    }
}

/// A distribution over a number of places.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Uniform {
        places: u64,
    },
    Zipf {
        law: Zipf,
        scatter: Scatter,
    },
    Pareto {
        places: u64,
        power: f64,
        scatter: Scatter,
    },
    Zoned(Vec<Area>),
}

/// A zone in places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// Accesses of this zone and those before it.
    until: f64,
    first: u64,
    places: u64,
}

impl Sampler {
    /// # Panics
    /// If there is no place.
    pub(crate) fn new(spread: &Spread, places: u64) -> Self {
        assert!(places > 0, "a region has a place");
        match spread {
            Spread::Uniform => Self::Uniform { places },
            Spread::Zipf(theta) => Self::Zipf {
                law: Zipf::new(places, *theta),
                scatter: Scatter::new(places),
            },
            Spread::Pareto(share) => Self::Pareto {
                places,
                power: libm::log(*share) / libm::log(1.0 - share),
                scatter: Scatter::new(places),
            },
            Spread::Zoned(zones) => Self::Zoned(areas(zones, places)),
        }
    }

    pub(crate) fn draw(&self, dice: &mut Prng) -> u64 {
        match self {
            Self::Uniform { places } => dice.below(*places),
            Self::Zipf { law, scatter } => scatter.place(law.draw(dice)),
            Self::Pareto {
                places,
                power,
                scatter,
            } => {
                let rank = whole(libm::pow(dice.unit(), *power) * real(*places));
                scatter.place(rank.min(places - 1))
            }
            Self::Zoned(areas) => {
                let at = dice.unit() * 100.0;
                let area = areas.iter().find(|area| at < area.until);
                let area = area.or(areas.last()).expect("there is a zone");
                area.first + dice.below(area.places)
            }
        }
    }
}

/// Zones that have accesses and, as far as there are places, at least one place each.
fn areas(zones: &[Zone], places: u64) -> Vec<Area> {
    let (mut size, mut until, mut first) = (0.0, 0.0, 0);
    let mut areas = Vec::new();
    for zone in zones {
        size += zone.size;
        until += zone.accesses;
        let end = whole(real(places) * size / 100.0 + 0.5).min(places);
        if zone.accesses > 0.0 {
            let first = first.min(places - 1);
            let places = end.saturating_sub(first).max(1);
            areas.push(Area {
                until,
                first,
                places,
            });
        }
        first = end;
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(spread: &str, places: u64, draws: u32) -> Vec<f64> {
        let spread: Spread = spread.parse().unwrap();
        let sampler = Sampler::new(&spread, places);
        let mut dice = Prng::new(5);
        let mut counts = vec![0.0; usize::try_from(places).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(sampler.draw(&mut dice)).unwrap()] += 1.0;
        }
        counts
            .iter()
            .map(|count| count / f64::from(draws))
            .collect()
    }

    fn near(measured: f64, expected: f64) {
        assert!(
            (measured - expected).abs() < 0.005,
            "{measured} for {expected}"
        );
    }

    #[test]
    fn zones_get_their_shares() {
        let shares = shares("zoned:60/10:30/20:0/30:10/40", 100, 200_000);
        near(shares[..10].iter().sum(), 0.60);
        near(shares[10..30].iter().sum(), 0.30);
        near(shares[30..60].iter().sum(), 0.0);
        near(shares[60..].iter().sum(), 0.10);
    }

    #[test]
    fn by_pareto_a_fifth_of_the_places_has_four_fifths_of_the_accesses() {
        let mut shares = shares("pareto:0.2", 1000, 200_000);
        shares.sort_by(f64::total_cmp);
        near(shares[800..].iter().sum(), 0.80);
    }

    #[test]
    fn zipf_s_ranks_are_scattered_and_as_frequent_as_the_law_says() {
        let mut shares = shares("zipf:1.1", 1000, 400_000);
        let harmonic: f64 = (1..=1000).map(|k| libm::pow(f64::from(k), -1.1)).sum();
        assert!(
            shares[1] < shares[0] / 10.0,
            "the second rank lies elsewhere"
        );
        shares.sort_by(|a, b| b.total_cmp(a));
        for rank in [1_u32, 2, 3, 10] {
            let expected = libm::pow(f64::from(rank), -1.1) / harmonic;
            near(shares[rank as usize - 1], expected);
        }
    }

    #[test]
    fn distributions_that_make_no_sense_are_refused() {
        for text in [
            "zipf",
            "zipf:-1",
            "zipf:nan",
            "pareto:1",
            "pareto:0",
            "normal:3",
            "zoned:50/50",
            "zoned:60/50:40/60",
            "zoned:-10/50:110/50",
            "random:1",
        ] {
            assert!(text.parse::<Spread>().is_err(), "{text}");
        }
        let zoned = "zoned:60/10:40/90";
        assert_eq!(zoned.parse::<Spread>().unwrap().to_string(), zoned);
    }

    #[test]
    fn a_zone_smaller_than_a_place_shares_its_neighbours() {
        let shares = shares("zoned:50/1:50/99", 2, 10_000);
        assert!(shares[0] > 0.5, "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
