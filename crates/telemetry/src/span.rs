//! Spans, and how what runs below one finds it.

use crate::clock::Clock;
use crate::context::Context;
use crate::ended::{Ended, Kind, Moment, Value};
use crate::limits::{OF_SPAN_MAX, TEXT_BYTES_MAX};
use crate::queue::Inner;
use std::sync::Arc;

tokio::task_local! {
    static HERE: Parent;
}

/// A span that is under way.
struct Open {
    inner: Arc<Inner>,
    clock: Clock,
    span: Ended,
}

/// Begins traces. Cloning shares it.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

impl Tracer {
    /// Nothing is traced.
    pub fn off() -> Self {
        Self(None)
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self(Some(inner))
    }

    /// Begins a span: below one of another process, if somebody says so, or a trace.
    pub fn span(&self, name: &'static str, kind: Kind, above: Option<Context>) -> Span {
        let Some(inner) = &self.0 else {
            return Span(None);
        };
        let above = above.map(|above| (above, true));
        begin(inner, (name, kind), above, Clock::start())
    }

    /// A span of another process, as what others may be below here.
    pub fn below(&self, above: Context) -> Parent {
        let inner = self.0.as_ref();
        Parent(inner.map(|inner| Above {
            inner: Arc::clone(inner),
            context: above,
            clock: None,
        }))
    }
}

fn begin(
    inner: &Arc<Inner>,
    (name, kind): (&'static str, Kind),
    above: Option<(Context, bool)>,
    clock: Clock,
) -> Span {
    let (trace, span) = inner.numbers();
    let context = match above {
        Some((above, _)) => Context::new(above.trace(), span, above.is_sampled()),
        None => Context::new(trace, span, true),
    };
    // The dice have come up 0: this span is not there.
    let Some(context) = context else {
        return Span(None);
    };
    let began_nanos = clock.unix_nanos();
    Span(Some(Box::new(Open {
        inner: Arc::clone(inner),
        clock,
        span: Ended {
            context,
            above: above.map(|(above, is_remote)| (above.span(), is_remote)),
            name,
            kind,
            began_nanos,
            end_nanos: began_nanos,
            attributes: Vec::new(),
            attributes_left_out: 0,
            moments: Vec::new(),
            moments_left_out: 0,
            failure: None,
        },
    })))
}

/// Something that takes time. It ends when it is dropped.
#[must_use]
#[derive(Default)]
pub struct Span(Option<Box<Open>>);

impl Span {
    /// One that is not recorded.
    pub fn off() -> Self {
        Self(None)
    }

    /// Says something of it: a text, of which the first kilobyte counts, or a number.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let Some(open) = &mut self.0 else {
            return;
        };
        let attributes = &mut open.span.attributes;
        attributes.retain(|(known, _)| *known != key);
        if attributes.len() < OF_SPAN_MAX {
            attributes.push((key, value.into()));
        } else {
            open.span.attributes_left_out += 1;
        }
    }

    /// Says that something happens now, and what.
    pub fn moment(&mut self, name: &'static str, key: &'static str, what: &str) {
        let Some(open) = &mut self.0 else {
            return;
        };
        if open.span.moments.len() >= OF_SPAN_MAX {
            open.span.moments_left_out += 1;
            return;
        }
        let at_nanos = open.clock.unix_nanos();
        open.span.moments.push(Moment {
            name,
            at_nanos,
            attributes: vec![(key, what.into())],
        });
    }

    /// It has failed: a word for the kind of failure, and a line for whoever looks.
    pub fn fail(&mut self, kind: &str, why: &str) {
        self.set("error.type", kind);
        if let Some(open) = &mut self.0 {
            let end = why.floor_char_boundary(TEXT_BYTES_MAX);
            open.span.failure = Some(why[..end].to_owned());
        }
    }

    /// It, as what others may be below in another process.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|open| open.span.context)
    }

    /// It, as what others may be below here.
    pub fn parent(&self) -> Parent {
        let open = self.0.as_ref();
        Parent(open.map(|open| Above {
            inner: Arc::clone(&open.inner),
            context: open.span.context,
            clock: Some(open.clock),
        }))
    }

    /// Ends it now.
    pub fn end(self) {}
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(mut open) = self.0.take() else {
            return;
        };
        open.span.end_nanos = open.clock.unix_nanos();
        if open.span.context.is_sampled() {
            let Open { inner, span, .. } = *open;
            inner.ended(span);
        }
    }
}

#[derive(Clone)]
struct Above {
    inner: Arc<Inner>,
    context: Context,
    /// That of the trace here; none if this span is of another process.
    clock: Option<Clock>,
}

/// A span that others may be below; or none. Cloning shares it.
#[derive(Clone, Default)]
pub struct Parent(Option<Above>);

impl Parent {
    /// That of what runs here; none if nothing around it has one.
    pub fn here() -> Self {
        HERE.try_with(Self::clone).unwrap_or_default()
    }

    /// Runs something below it. What that spawns has no parent unless it is given one.
    pub async fn within<T>(self, what: impl Future<Output = T>) -> T {
        HERE.scope(self, what).await
    }

    /// Begins a span below it.
    pub fn child(&self, name: &'static str) -> Span {
        let Some(above) = &self.0 else {
            return Span(None);
        };
        let of = (name, Kind::Internal);
        let clock = above.clock.unwrap_or_else(Clock::start);
        begin(
            &above.inner,
            of,
            Some((above.context, above.clock.is_none())),
            clock,
        )
    }

    /// It, as what others may be below in another process.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|above| above.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Counts;
    use tokio::sync::mpsc::channel;
    use units::Prng;

    #[test]
    fn a_wall_clock_that_is_set_amid_a_trace_moves_no_span_of_it() {
        let (queue, mut ended) = channel(2);
        let inner = Arc::new(Inner::new(queue, Arc::new(Counts::default()), Prng::new(1)));
        let above = begin(&inner, ("move", Kind::Server), None, Clock::of_1970());
        above.parent().child("step").end();
        above.end();
        let (child, above) = (ended.try_recv().unwrap(), ended.try_recv().unwrap());
        let in_order = [
            above.began_nanos,
            child.began_nanos,
            child.end_nanos,
            above.end_nanos,
        ];
        assert!(in_order.is_sorted(), "{in_order:?}");
    }
}
