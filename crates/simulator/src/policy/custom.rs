//! A policy that this program does not know: somebody else's code, run beside the built-in ones.

use policy::replacement::Replacement;
use std::fmt;
use std::sync::Arc;

/// Makes a cache of that many blocks.
type Build = dyn Fn(u32) -> Box<dyn Replacement<u32> + Send> + Send + Sync;

/// A policy from outside, with the name that results give it.
///
/// Two are equal if they are clones of one.
#[derive(Clone)]
pub struct Custom {
    name: String,
    build: Arc<Build>,
}

impl Custom {
    /// A policy of that name; `build` is called once for each size of each trace with the size in blocks.
    ///
    /// What it builds must keep the contract of [`Replacement`]: results count a block as written to flash
    /// whenever it was missed, because it is in the cache from then on.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(u32) -> Box<dyn Replacement<u32> + Send> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
        }
    }

    pub(crate) fn build(&self, blocks: u32) -> Box<dyn Replacement<u32> + Send> {
        (self.build)(blocks)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.build, &other.build)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::replacement::{Capacity, Dense, Setup, Spec};

    fn lru() -> Custom {
        Custom::new("mine", |blocks| {
            let spec: Spec = "lru".parse().unwrap();
            spec.build(Setup {
                capacity: Capacity::new(blocks.into()).unwrap(),
                index: Dense::new(),
                future: None,
            })
        })
    }

    #[test]
    fn a_policy_from_outside_has_its_size_and_its_name() {
        let mine = lru();
        assert_eq!(mine.build(7).capacity(), 7);
        assert_eq!(mine.to_string(), "mine");
    }

    #[test]
    fn it_equals_its_clones_and_no_other_of_its_name() {
        let mine = lru();
        assert_eq!(mine, mine.clone());
        assert_ne!(mine, lru());
    }
}
