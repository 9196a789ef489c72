//! Texts of the configuration with places for the VM and the host that it goes to.

use crate::migration::Migration;

/// A text with `{vm}` and `{host}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// This text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text for a migration.
    pub(crate) fn fill(&self, migration: &Migration) -> String {
        self.of_vm(&migration.vm).replace("{host}", &migration.to)
    }

    /// The text for a VM, whoever it goes to.
    pub(crate) fn of_vm(&self, vm: &str) -> String {
        self.0.replace("{vm}", vm)
    }
}
