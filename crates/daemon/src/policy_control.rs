//! What an operator can set of caches' policies: checked, told, remembered.
//!
//! ```text
//!   change ─► alone? ─► beside the others? ─► every tenancy that it concerns ─► state directory
//!              │ no         │ no, with the sums      │ no: those told before get the old word back
//!              └────────────┴─────── refused, and nothing has changed ───────┘
//! ```

use super::control::Control;
use super::tenancies::tell_policy;
use api::problem::ProblemKind;
use api::types::{CacheStatus, Problem};
use configuration::{Name, PolicyChange, PolicyConfig};

impl Control {
    /// Changes a cache's policy, and remembers it.
    ///
    /// # Errors
    /// If there is no such cache, the settings contradict each other, or they cannot be remembered: then
    /// nothing is changed.
    pub async fn set_policy_of(
        &self,
        name: &Name,
        change: PolicyChange,
    ) -> Result<CacheStatus, Problem> {
        let before = self.remembered().policies().change_of(name);
        self.change_policy(name, before.then(change)).await
    }

    /// Takes back what was changed of a cache's policy at run time.
    ///
    /// # Errors
    /// As [`Control::set_policy_of`].
    pub async fn reset_policy_of(&self, name: &Name) -> Result<CacheStatus, Problem> {
        self.change_policy(name, PolicyChange::default()).await
    }

    async fn change_policy(
        &self,
        name: &Name,
        change: PolicyChange,
    ) -> Result<CacheStatus, Problem> {
        self.refuse_when_stopping()?;
        let _one_at_a_time = self.alone().await;
        let shard = self.shards().get(name);
        let shard = shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))?;
        let settings = self.remembered().policies().with(name, &change);
        if let Some(fault) = configuration::policy_faults(&settings).first() {
            let detail = format!("{}: {}", fault.key, fault.message);
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let before = self.remembered().policies().change_of(name);
        tell_policy(shard, &settings).await?;
        self.remembered().policies().set(name, change);
        if let Err(problem) = self.remembered().write_settings() {
            self.remembered().policies().set(name, before);
            // It held before, so it holds again.
            let _ = tell_policy(shard, &self.remembered().policies().settings(name)).await;
            return Err(problem);
        }
        tracing::info!(cache = %name, "policy changed");
        let pulse = shard.pulse().await;
        Ok(self.observer().cache(shard, &pulse))
    }
}

/// Has another word of the configuration file hold for a cache's policy. What an operator changed holds over it.
///
/// # Errors
/// If there is no such cache, or the settings contradict each other: then nothing is changed.
pub(super) async fn reread_policy(
    control: &Control,
    name: &Name,
    file: PolicyConfig,
) -> Result<(), Problem> {
    let _one_at_a_time = control.alone().await;
    let shard = control.shards().get(name);
    let shard = shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))?;
    let policies = control.remembered().policies();
    let before = policies.set_file(name, file);
    let settings = policies.settings(name);
    let told = match configuration::policy_faults(&settings).first() {
        Some(fault) => {
            let detail = format!("{}: {}", fault.key, fault.message);
            Err(Problem::new(ProblemKind::Invalid, detail))
        }
        None => tell_policy(shard, &settings).await,
    };
    if told.is_err() {
        policies.set_file(name, before);
    }
    told
}
