//! What the admin API tells of the past of a host: points of the charts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Points of some series, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Time between two points.
    pub step_seconds: f64,
    /// When each point was taken, in seconds since 1970.
    pub at_seconds: Vec<f64>,
    /// The series.
    pub series: Vec<Series>,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Its name; the unit is its last word, a part of the whole is a `ratio`.
    pub name: String,
    /// As many values as there are points; none where nothing happened that has this value.
    pub values: Vec<Option<f64>>,
}
