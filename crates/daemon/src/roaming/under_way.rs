//! The step of a hand-over that is carried out beside the task, one at a time.

use handoff::Event;
use tokio::task::JoinHandle;

/// A step, and whether it is [`Action::Settle`](handoff::Action::Settle), which a request of a guest ends.
struct Step {
    is_settling: bool,
    ending: JoinHandle<Event>,
}

/// The step that is under way, if there is one.
#[derive(Default)]
pub(super) struct UnderWay(Option<Step>);

impl UnderWay {
    /// Begins a step.
    pub(super) fn begin(
        &mut self,
        is_settling: bool,
        step: impl Future<Output = Event> + Send + 'static,
    ) {
        debug_assert!(self.0.is_none(), "one step is under way at a time");
        let ending = tokio::spawn(step);
        self.0 = Some(Step {
            is_settling,
            ending,
        });
    }

    /// Ends what only settles, unfinished. When this returns it does nothing more: what it has told a shard comes before
    /// what the caller tells.
    pub(super) async fn stop_settling(&mut self) {
        if let Some(settling) = self.0.take_if(|step| step.is_settling) {
            settling.ending.abort();
            // It may have ended meanwhile; nobody asks how.
            let _ = settling.ending.await;
        }
    }

    /// What the step has come to, when it has ended. Never, if there is none.
    ///
    /// # Panics
    /// If the step has panicked.
    pub(super) async fn ended(&mut self) -> Event {
        let Some(Step { ending, .. }) = &mut self.0 else {
            return std::future::pending().await;
        };
        let event = ending.await;
        self.0 = None;
        event.expect("a step ends, or is forgotten with its end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_settling_that_was_stopped_does_nothing_more() {
        let (begins, began) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let settling = tell.clone();
        let mut under_way = UnderWay::default();
        under_way.begin(true, async move {
            begins.send(()).unwrap();
            // A thread is not stopped between two awaits.
            std::thread::sleep(Duration::from_millis(50));
            settling.send("hold").unwrap();
            std::future::pending().await
        });
        began.await.unwrap();
        under_way.stop_settling().await;
        tell.send("serve").unwrap();
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["hold", "serve"]);
    }
}
