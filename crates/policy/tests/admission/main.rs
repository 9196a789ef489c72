//! Admission policies: what each promises, slow twins, examples worked by hand.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a test, with small numbers"
)]

mod promises;
mod steps;
mod twins;
mod worked;
