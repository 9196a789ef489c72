//! Limits, each with its reason.

/// VMs of a group. The matrix of that many takes 8 MiB, and a plan up to a minute.
pub const VMS_MAX: usize = 1_024;

/// Lines of a text of pairs: each pair of the largest group twice, with room for comments.
pub const LINES_MAX: usize = 1_200_000;

/// Characters of a VM's name: libvirt's are shorter, and names are printed in tables.
pub const NAME_CHARS_MAX: usize = 256;

/// Bytes a second of one pair of VMs, and of a link: 80 Tbit/s, above every network card. Larger rates of a source are
/// cut down to it, so that sums and products stay finite.
pub const RATE_BYTES_MAX: f64 = 1e13;

/// Draws that the mean of [`random`](crate::methods::random) is made of, as the paper's control group was many.
pub const RANDOM_DRAWS: usize = 100;

/// VMs that `exact` takes: its tables hold 2^16 sets.
pub const EXACT_VMS_MAX: usize = 16;

/// Steps of `annealed`.
pub const ANNEALING_STEPS: usize = 40_000;

/// Rounds of k-means: 200 VMs in 100 clusters then take 0.8 s.
pub const K_MEANS_ROUNDS_MAX: usize = 10;

/// Comparisons of k-means, of a VM with a centre, after which no round begins: more than 200 VMs have fewer rounds. A
/// comparison of 1,000 rates takes 25 us.
pub const K_MEANS_COMPARISONS_MAX: usize = 250_000;

/// Part of the link that the dirty rates of a wave should take at most: pre-copy then takes at most twice as long as
/// for VMs that write nothing. [`Sizes::Auto`](crate::Sizes::Auto) cuts so, and the search goes beyond it only where it has
/// to: the volume alone would not stop it, since nothing is split while the first wave crosses, however long that takes.
pub const WAVE_DIRTY_SHARE: f64 = 0.5;

/// Part of the link that the search believes to be left when a wave does not converge. Such a wave is then a thousand
/// times as long, which the search avoids, instead of endless, of which two could not be compared.
pub const SEARCH_LEFT_SHARE: f64 = 1e-3;

/// Sources that [`Smoothing`](crate::Smoothing) keeps: one for each host of a large cluster.
pub const SOURCES_MAX: usize = 1_024;
