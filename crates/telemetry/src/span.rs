//! Spans, and how what runs below one finds it.

use crate::context::Context;
use crate::ended::{Ended, Kind, Moment, Value};
use crate::limits::{OF_SPAN_MAX, TEXT_BYTES_MAX};
use crate::queue::Inner;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

tokio::task_local! {
    static HERE: Parent;
}

/// A span that is under way.
struct Open {
    inner: Arc<Inner>,
    began: Instant,
    span: Ended,
}

impl Open {
    fn now_nanos(&self) -> u64 {
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.span.began_nanos.saturating_add(took)
    }
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
        begin(inner, (name, kind), above.map(|above| (above, true)))
    }

    /// A span of another process, as what others may be below here.
    pub fn below(&self, above: Context) -> Parent {
        let inner = self.0.as_ref();
        Parent(inner.map(|inner| Above {
            inner: Arc::clone(inner),
            context: above,
            is_remote: true,
        }))
    }
}

fn begin(
    inner: &Arc<Inner>,
    (name, kind): (&'static str, Kind),
    above: Option<(Context, bool)>,
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
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let began_nanos = u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
    Span(Some(Box::new(Open {
        inner: Arc::clone(inner),
        began: Instant::now(),
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
        let at_nanos = open.now_nanos();
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
            is_remote: false,
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
        open.span.end_nanos = open.now_nanos();
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
    /// It is of another process.
    is_remote: bool,
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
        begin(&above.inner, of, Some((above.context, above.is_remote)))
    }

    /// It, as what others may be below in another process.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|above| above.context)
    }
}
