//! A policy written in Python, run as if it were a built-in one, and looked over at every access.
//!
//! ```text
//!   access(key) ─► Python: access(key) -> bool, evict(key) any number of times
//!                    │ compared with
//!                    ▼
//!                  a bit for each block that is in the cache, and their number
//! ```
//!
//! The bits are the truth: a policy that says hit for a block that is not in the cache, evicts what is not
//! there, or holds more blocks than its capacity is an exception, with the access at which it was seen. From
//! then on it is asked nothing more, and the run ends with the next batch of the trace.

use crate::error::PolicyError;
use crate::guard::Fault;
use policy::replacement::Replacement;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use simulator::Policy;
use simulator::policy::Custom;

/// The policy that a class, or any other maker of one, stands for.
pub(crate) fn policy(maker: &Bound<'_, PyAny>, fault: &Fault) -> PyResult<Policy> {
    if !maker.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "{} is no policy: give a name such as 'lru', or a subclass of hearth.Policy",
            maker.repr()?
        )));
    }
    let name = match maker.getattr_opt("name")? {
        Some(name) if name.extract::<String>().is_ok() => name,
        _ => maker.getattr("__name__")?,
    };
    let name: String = name.extract()?;
    let maker = maker.clone().unbind();
    let fault = fault.clone();
    let shown = name.clone();
    Ok(Policy::Custom(Custom::new(shown, move |blocks| {
        Box::new(Checked::new(&maker, &name, blocks, &fault))
    })))
}

/// The object at work.
struct Instance {
    access: Py<PyAny>,
    remove: Py<PyAny>,
    /// Where `hearth.Policy.evict` puts the keys.
    evicted: Py<PyList>,
}

/// It beside what must be true of it.
struct Checked {
    name: String,
    capacity: u32,
    fault: Fault,
    /// `None` after an exception.
    instance: Option<Instance>,
    cached: Vec<u64>,
    count: u32,
    accesses: u64,
}

impl Checked {
    fn new(maker: &Py<PyAny>, name: &str, capacity: u32, fault: &Fault) -> Self {
        let instance = Python::attach(|py| instance(maker.bind(py), capacity));
        Self {
            name: name.to_owned(),
            capacity,
            fault: fault.clone(),
            instance: instance.map_err(|error| fault.raise(error)).ok(),
            cached: Vec::new(),
            count: 0,
            accesses: 0,
        }
    }

    fn is_cached(&self, key: u32) -> bool {
        let word = self.cached.get(key as usize / 64);
        word.is_some_and(|word| word & (1 << (key % 64)) != 0)
    }

    /// True if that was new.
    fn set(&mut self, key: u32, is_cached: bool) -> bool {
        if self.is_cached(key) == is_cached {
            return false;
        }
        let word = key as usize / 64;
        if word >= self.cached.len() {
            self.cached.resize((word + 1).next_power_of_two(), 0);
        }
        self.cached[word] ^= 1 << (key % 64);
        if is_cached {
            self.count += 1;
        } else {
            self.count -= 1;
        }
        true
    }

    fn lie(&self, what: &str) -> PyErr {
        PolicyError::new_err(format!(
            "{}, capacity {}, access {}: {what}",
            self.name, self.capacity, self.accesses
        ))
    }

    fn one(&mut self, py: Python<'_>, key: u32, evicted: &mut Vec<u32>) -> PyResult<bool> {
        let Some(instance) = &self.instance else {
            return Ok(false);
        };
        self.accesses += 1;
        let answer = instance.access.call1(py, (key,))?;
        let answer = answer.extract::<bool>(py).map_err(|_| {
            self.lie(&format!(
                "access({key}) returned {answer}; it returns True if the block was in the cache, False if not"
            ))
        })?;
        let keys = instance.evicted.clone_ref(py);
        let is_hit = self.is_cached(key);
        if answer != is_hit {
            return Err(self.lie(&disagreement(key, answer)));
        }
        self.take_evicted(py, keys.bind(py), key, evicted)?;
        self.set(key, true);
        if self.count > self.capacity {
            return Err(self.lie(&format!(
                "the cache holds {} blocks: call self.evict(key) for one before a new one comes in",
                self.count
            )));
        }
        Ok(is_hit)
    }

    fn take_evicted(
        &mut self,
        py: Python<'_>,
        keys: &Bound<'_, PyList>,
        key: u32,
        evicted: &mut Vec<u32>,
    ) -> PyResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        for gone in keys.iter() {
            let gone: u32 = gone.extract().map_err(|_| {
                self.lie(&format!(
                    "evict({gone}) is not a key that access was called with"
                ))
            })?;
            if gone == key {
                return Err(self.lie(&format!(
                    "evict({gone}) is the block that is being accessed, which must stay"
                )));
            }
            if !self.set(gone, false) {
                return Err(self.lie(&format!(
                    "evict({gone}), but that block is not in the cache"
                )));
            }
            evicted.push(gone);
        }
        keys.as_any().call_method0(pyo3::intern!(py, "clear"))?;
        Ok(())
    }

    /// The answer, or a miss and the end of this policy's part in the run.
    fn settle<T: Default>(&mut self, answer: PyResult<T>) -> T {
        answer.unwrap_or_else(|error| {
            self.instance = None;
            self.fault.raise(error);
            T::default()
        })
    }

    fn forget(&mut self, py: Python<'_>, key: u32) -> PyResult<()> {
        let Some(instance) = &self.instance else {
            return Ok(());
        };
        let keys = instance.evicted.clone_ref(py);
        instance.remove.call1(py, (key,))?;
        self.set(key, false);
        let mut others = Vec::new();
        self.take_evicted(py, keys.bind(py), key, &mut others)
    }
}

/// # Errors
/// If the maker fails, or what it makes is no `hearth.Policy`.
fn instance(maker: &Bound<'_, PyAny>, capacity: u32) -> PyResult<Instance> {
    let made = maker.call1((capacity,))?;
    let base = maker.py().import("hearth")?.getattr("Policy")?;
    if !made.is_instance(&base)? {
        return Err(PyTypeError::new_err(format!(
            "{} made {}, which is no hearth.Policy: derive its class from that",
            maker.repr()?,
            made.repr()?
        )));
    }
    Ok(Instance {
        access: made.getattr("access")?.unbind(),
        remove: made.getattr("remove")?.unbind(),
        evicted: made.getattr("_evicted")?.cast_into::<PyList>()?.unbind(),
    })
}

fn disagreement(key: u32, says_hit: bool) -> String {
    if says_hit {
        return format!(
            "access({key}) said hit, but that block is not in the cache: it was never admitted, or was evicted or \
             removed since"
        );
    }
    format!(
        "access({key}) said miss, but that block is in the cache: every miss admits its block until evict({key}) \
         is called"
    )
}

impl Replacement<u32> for Checked {
    fn access(&mut self, key: u32, evicted: &mut Vec<u32>) -> bool {
        let answer = Python::attach(|py| self.one(py, key, evicted));
        self.settle(answer)
    }

    fn run(&mut self, keys: &[u32], hits: &mut [u8]) {
        assert_eq!(keys.len(), hits.len());
        let mut evicted = Vec::new();
        Python::attach(|py| {
            for (key, hit) in keys.iter().zip(hits) {
                let answer = self.one(py, *key, &mut evicted);
                *hit = u8::from(self.settle(answer));
                evicted.clear();
            }
        });
    }

    fn remove(&mut self, key: u32) -> bool {
        let was_cached = self.is_cached(key);
        if was_cached {
            let answer = Python::attach(|py| self.forget(py, key));
            self.settle(answer);
        }
        was_cached
    }

    fn contains(&self, key: u32) -> bool {
        self.is_cached(key)
    }

    fn len(&self) -> u32 {
        self.count
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn pass(&mut self) {}
}
