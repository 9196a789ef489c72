//! This host's part in a move: what its driver orders.

use super::disks::{Unready, VmDisks, Why, are_here, are_whole, warm_percent};
use crate::control::Control;
use api::roaming::RoamingDisk;
use executor::{AtSource, AtTarget, HostAnswer, HostPart, Left, Side, Task};
use hypervisor::{Hypervisor, HypervisorError, Migration};
use placement::moving::Action;
use std::pin::Pin;
use std::sync::Arc;
use telemetry::{Span, Tracer};

/// This host.
pub(super) struct Here {
    control: Arc<Control>,
    tracer: Tracer,
    hypervisor: Option<Hypervisor>,
}

impl From<Why> for HostAnswer {
    fn from(Why(why): Why) -> Self {
        Self::Refused { why }
    }
}

impl From<Unready> for HostAnswer {
    fn from(unready: Unready) -> Self {
        match unready {
            Unready::Yet(Why(why)) => Self::Failed { why },
            Unready::Wrong(Why(why)) => Self::Refused { why },
        }
    }
}

fn failed(error: &HypervisorError) -> HostAnswer {
    let why = error.to_string();
    match error {
        HypervisorError::Start { .. }
        | HypervisorError::Refused { .. }
        | HypervisorError::Command { .. } => HostAnswer::Refused { why },
        _ => HostAnswer::Failed { why },
    }
}

impl HostPart for Here {
    fn carry_out<'a>(
        &'a self,
        task: &'a Task,
    ) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + 'a>> {
        Box::pin(async move {
            let mut span = self.span(task);
            let doing = span.parent().within(async {
                match task.side {
                    Side::Source => self.as_source(task).await,
                    Side::Target => self.as_target(task).await,
                }
            });
            let answer = doing.await.unwrap_or_else(|answer| answer);
            if let Some(problem) = answer.problem() {
                span.fail("move", problem);
            }
            answer
        })
    }
}

impl Here {
    pub(super) fn new(
        (control, tracer): (Arc<Control>, Tracer),
        hypervisor: Option<Hypervisor>,
    ) -> Self {
        Self {
            control,
            tracer,
            hypervisor,
        }
    }

    /// What this host does for the driver's span; nothing if only a question is answered.
    fn span(&self, task: &Task) -> Span {
        let name = match task.action {
            Action::Prepare => "move prepare",
            Action::Migrate => "move migrate",
            Action::Withdraw => "move withdraw",
            Action::Ask => return Span::off(),
        };
        let above = task.trace.as_ref().and_then(|trace| trace.parse().ok());
        let Some(above) = above else {
            return Span::off();
        };
        let mut span = self.tracer.below(above).child(name);
        span.set("hearth.vm", task.vm.as_str());
        let role = match task.side {
            Side::Source => "source",
            Side::Target => "target",
        };
        span.set("hearth.move.role", role);
        span
    }

    fn disks(&self, task: &Task) -> Result<VmDisks, HostAnswer> {
        let vm = task.vm.as_str().parse();
        let vm = vm.map_err(|_| HostAnswer::from(Why(format!("'{}' is no VM's name", task.vm))))?;
        Ok(VmDisks::new(Arc::clone(&self.control), vm))
    }

    fn hypervisor(&self) -> Result<&Hypervisor, HostAnswer> {
        let why = "nobody migrates VMs of this host: write migrate_with in [hypervisor] of its configuration";
        let none = || HostAnswer::from(Why(why.to_owned()));
        self.hypervisor.as_ref().ok_or_else(none)
    }

    async fn as_source(&self, task: &Task) -> Result<HostAnswer, HostAnswer> {
        if self.hypervisor.is_none() && task.action == Action::Withdraw {
            // Nobody has begun anything.
            return Ok(HostAnswer::Done);
        }
        let hypervisor = self.hypervisor()?;
        let vm = task.vm.as_str();
        match task.action {
            Action::Prepare => {
                let disks = self.disks(task)?.all().await?;
                if !are_here(&disks) {
                    return Err(Why(format!("the disks of '{vm}' are not here")).into());
                }
                let state = hypervisor.state(vm).await.map_err(|error| failed(&error))?;
                if !state.runs {
                    let why = format!("the hypervisor of this host has no VM '{vm}' that runs");
                    return Err(Why(why).into());
                }
            }
            Action::Migrate => {
                let state = hypervisor.state(vm).await.map_err(|error| failed(&error))?;
                if state.runs {
                    let begun = hypervisor.start(&migration(task)).await;
                    begun.map_err(|error| failed(&error))?;
                }
            }
            Action::Withdraw => {
                let ended = hypervisor.cancel(vm).await;
                ended.map_err(|error| HostAnswer::Failed {
                    why: error.to_string(),
                })?;
                let state = hypervisor.state(vm).await.map_err(|error| failed(&error))?;
                if state.completed {
                    return Ok(HostAnswer::Gone);
                }
            }
            Action::Ask => return self.source_state(hypervisor, task).await,
        }
        Ok(HostAnswer::Done)
    }

    async fn source_state(
        &self,
        hypervisor: &Hypervisor,
        task: &Task,
    ) -> Result<HostAnswer, HostAnswer> {
        let vm = task.vm.as_str();
        let state = hypervisor.state(vm).await.map_err(|error| failed(&error))?;
        if let (true, Some(pace)) = (state.migrates, task.pace)
            && let Err(error) = hypervisor.pace(vm, pace).await
        {
            tracing::debug!(vm, %error, "a migration keeps its pace");
        }
        Ok(HostAnswer::Source(AtSource {
            runs: state.runs,
            migrates: state.migrates,
            completed: state.completed,
            failed: state.failed,
            left: state.left.map(|left| Left {
                bytes: left.bytes,
                dirty_per_second: left.dirty_per_second,
            }),
        }))
    }

    async fn as_target(&self, task: &Task) -> Result<HostAnswer, HostAnswer> {
        let disks = self.disks(task)?;
        let all = match disks.all().await {
            // Nothing was announced.
            Err(_) if task.action == Action::Withdraw => return Ok(HostAnswer::Done),
            all => all?,
        };
        if task.action == Action::Ask {
            return Ok(self.target_state(task, &all).await);
        }
        if are_here(&all) {
            return Ok(HostAnswer::Granted);
        }
        match task.action {
            Action::Prepare => {
                disks.expect_from(task.from.as_str()).await?;
                disks.check().await?;
                disks.announce().await?;
            }
            // What was announced ends by itself after a while.
            Action::Migrate => disks.announce().await?,
            Action::Withdraw => disks
                .abort()
                .await
                // It is decided that they come.
                .map_err(|Why(why)| HostAnswer::Failed { why })?,
            Action::Ask => {}
        }
        Ok(HostAnswer::Done)
    }

    async fn target_state(&self, task: &Task, all: &[RoamingDisk]) -> HostAnswer {
        let runs = match &self.hypervisor {
            Some(hypervisor) => hypervisor.state(task.vm.as_str()).await.ok(),
            None => None,
        };
        HostAnswer::Target(AtTarget {
            runs: runs.map(|state| state.runs),
            warm_percent: warm_percent(all),
            is_granted: are_here(all),
            is_drained: are_whole(all),
        })
    }
}

fn migration(task: &Task) -> Migration {
    Migration {
        vm: task.vm.to_string(),
        from: task.from.to_string(),
        to: task.to.to_string(),
        pace: task.pace,
    }
}
