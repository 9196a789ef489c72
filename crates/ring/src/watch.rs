//! Memory in which others leave work without telling the kernel: a guest's rings.
//!
//! While the thread waits awake it looks there itself, and nobody has to wake it. Before it sleeps,
//! whoever leaves work has to be asked to wake it, through something that the ring hears.
//!
//! ```text
//!  awake: completions? has_work()? ─ neither, time is up ─► rest() ─ nothing ─► asleep
//! ```

/// What a thread looks at while it waits.
pub trait Watch {
    /// Whether there is work. Called over and over; it must not touch the ring.
    fn has_work(&mut self) -> bool;

    /// The thread is about to sleep: whoever leaves work from now on has to wake it. True if there
    /// is some already: then it does not sleep. It must not touch the ring.
    fn rest(&mut self) -> bool;
}

/// Nothing but the ring itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn has_work(&mut self) -> bool {
        false
    }

    fn rest(&mut self) -> bool {
        false
    }
}
