//! A disk whose owner's record cannot be opened when it is attached: it is served without write-back, and
//! comes under it when there is room for the record.

use super::control::Control;
use super::problems::problem;
use super::registry::{Entry, Phase};
use api::types::Problem;
use configuration::WritePolicy;
use events::EventKind;

/// Attaches a disk as it is wanted. Where its owner's record cannot be opened, as on a file system that
/// was full before the disk came, a disk that is to be under write-back is served without, and the
/// reason is given: a VM that waits for room for a record would wait for nothing that it needs.
pub(super) async fn attach(
    control: &Control,
    entry: &Entry,
) -> Result<(Phase, Option<Problem>), Problem> {
    let (name, wanted) = (&entry.config.name, entry.config.write_policy);
    let why = match control.opener().open_and_attach(entry, wanted).await {
        Ok(phase) => return Ok((phase, None)),
        Err(unattached) if unattached.is_unrecorded && wanted == WritePolicy::Back => {
            unattached.problem
        }
        Err(unattached) => return Err(unattached.problem),
    };
    match control
        .opener()
        .open_and_attach(entry, WritePolicy::Through)
        .await
    {
        Ok(phase) => {
            tracing::warn!(event = EventKind::WriteBackOff.word(),
                disk = %name, reason = why.in_a_line(),
                "the disk is served without write-back, which is tried again");
            Ok((phase, Some(why)))
        }
        // What it was not attached for at first is what has to be mended.
        Err(_) => Err(why),
    }
}

/// Tries to bring a disk under write-back that is served without. False: it has to be tried again.
pub(super) async fn try_again(control: &Control, entry: &Entry) -> bool {
    let (name, id) = (&entry.config.name, entry.id);
    let Ok(shard) = control.shards().of(entry) else {
        return true;
    };
    // An operator who asks for something else meanwhile gets that.
    let wanted = || Some(control.registry().get(name)?.config.write_policy);
    let mut done = None;
    while let Some(policy) = wanted().filter(|policy| done != Some(*policy)) {
        let outcome = shard
            .ask(|handle, reply| handle.set_policy(id, policy.into(), reply))
            .await;
        if let Err(error) = outcome {
            let why = problem(name, &error);
            control
                .registry()
                .update(entry, |entry| entry.without_back = Some(why));
            return false;
        }
        done = Some(policy);
    }
    tracing::info!(event = EventKind::WriteBackOn.word(),
        disk = %name, "the disk has its write policy now");
    control
        .registry()
        .update(entry, |entry| entry.without_back = None);
    true
}
