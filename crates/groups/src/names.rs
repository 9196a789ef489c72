//! The names of VMs, each with its place.

use crate::error::TrafficError;
use crate::limits::{NAME_CHARS_MAX, VMS_MAX};
use units::Map;

/// Names, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    all: Vec<String>,
    places: Map<String, usize>,
}

impl Names {
    /// The place of a name, which is the next one if the name is new.
    ///
    /// # Errors
    /// If that is no name, or the VMs are too many.
    pub(crate) fn place(&mut self, name: &str) -> Result<usize, TrafficError> {
        if let Some(place) = self.find(name) {
            return Ok(place);
        }
        check_name(name)?;
        let place = self.all.len();
        if place == VMS_MAX {
            return Err(TrafficError::TooMany);
        }
        self.places.insert(name.to_owned(), place);
        self.all.push(name.to_owned());
        Ok(place)
    }

    /// The place of a name that came.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// All of them, by place.
    pub(crate) fn all(&self) -> &[String] {
        &self.all
    }

    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), TrafficError> {
    let chars = name.chars().take(NAME_CHARS_MAX + 1).count();
    if (1..=NAME_CHARS_MAX).contains(&chars) && !name.contains(char::is_control) {
        return Ok(());
    }
    Err(TrafficError::Name { name: shown(name) })
}

/// A name as an error shows it.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}
