//! The demand of the next window, from those of the windows before.
//!
//! Paper: CloudCache (see [`crate::demand`]), section 4.2; exponential smoothing after R. G. Brown 1956
//! and C. C. Holt 1957.
//!
//! ```text
//!   observed ─► Filter (outliers) ─► Predictor (a file each) ─► predicted
//!       └───────────────── error ◄────────────────────────────────┘
//! ```
//!
//! A [`Forecast`] is the three together, one a tenant. The prediction error is the distance between what
//! was predicted for a window and what was then observed, by what was observed.
//!
//! Pure: values in, a value out. Units: whatever is observed, blocks as a rule; never below zero.

pub mod dexp;
pub mod dexp_self;
pub mod exp;
pub mod exp_self;
pub mod last;

mod filter;
mod forecast;
mod registry;

pub use filter::{Filter, FilterError};
pub use forecast::{Forecast, error};
pub use registry::Spec;

/// A method of prediction at work on one series.
pub trait Predictor: Send {
    /// A window is over, and this was its value: finite, zero or more.
    fn observe(&mut self, value: f64);

    /// What the next window's value will be, zero or more; `None` before the first observation.
    fn predicted(&self) -> Option<f64>;
}
