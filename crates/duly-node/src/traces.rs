//! Traces of timers for a tracing system (OpenTelemetry).
//!
//! 1. A *schedule* span covers the call that schedules a timer. It is a child of the caller's span, and its
//!    context is stored with the timer.
//! 2. A *deliver* span covers one attempt. It begins a trace of its own with a link to *schedule*, because days
//!    may lie between the two. The receiver gets its context.
//! 3. A *settle* span covers the write of the verdict, and is a child of *deliver*.
//! 4. A timer is sampled if its caller's span is, and a call without a span by chance. The stored context says
//!    so to every node. For a timer that is not sampled, nothing is created.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use duly_core::{NamespaceName, Schedule, TimerId, timer::own_reason};
use duly_store::{Firing, SettleVerdict, Token};
use lru::LruCache;
use opentelemetry::{
    Context, KeyValue,
    global::BoxedTracer,
    trace::{
        Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt,
        TraceFlags, TraceId, TraceState, Tracer as _,
    },
};
use parking_lot::Mutex;
use rand::Rng;

use crate::{recorder::DeliveryMode, settler::attempt_end};

/// Sampled leases of consumers that are remembered, so that their *settle* spans find the *deliver* span.
const LEASES_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Creates the spans of timers; cheap to clone. By default it creates none.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Enabled>>);

struct Enabled {
    tracer: BoxedTracer,
    /// Share of the calls without a span of their own that are sampled, from 0 to 1.
    ratio: f64,
    /// *Deliver* spans of the newest sampled leases.
    leases: Mutex<LruCache<Token, SpanContext>>,
}

impl fmt::Debug for Enabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enabled").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

impl Traces {
    /// Creates spans with `tracer`. `ratio` is the share, from 0 to 1, of the calls without a sampling decision
    /// of their caller that are sampled.
    pub fn new(tracer: BoxedTracer, ratio: f64) -> Self {
        let leases = Mutex::new(LruCache::new(LEASES_MAX));
        Self(Some(Arc::new(Enabled { tracer, ratio, leases })))
    }

    /// Begins the *schedule* span of a timer, and puts its context into the timer.
    pub fn schedule(&self, namespace: &NamespaceName, schedule: &mut Schedule) -> TimerSpan {
        let Some(enabled) = &self.0 else { return TimerSpan::default() };
        let trace_parent = &mut schedule.spec.trace_parent;
        let caller = trace_parent.as_deref().and_then(parse);
        let is_sampled = match &caller {
            Some(caller) => caller.is_sampled(),
            None => rand::rng().random::<f64>() < enabled.ratio,
        };
        if !is_sampled {
            return TimerSpan::default();
        }
        let parent = caller.map_or_else(Context::new, remote);
        let attributes = attributes("schedule", "send", namespace, &schedule.id);
        let span = enabled.start("schedule", SpanKind::Server, attributes, &parent);
        *trace_parent = span.trace_parent();
        span
    }

    /// Begins the *deliver* span of a firing.
    pub(crate) fn deliver(&self, firing: &Firing, mode: DeliveryMode) -> TimerSpan {
        let Some(enabled) = &self.0 else { return TimerSpan::default() };
        let scheduled = firing.spec.trace_parent.as_deref().and_then(parse);
        let Some(scheduled) = scheduled.filter(SpanContext::is_sampled) else {
            return TimerSpan::default();
        };
        let kind = match mode {
            DeliveryMode::Push => SpanKind::Client,
            DeliveryMode::Pull => SpanKind::Producer,
        };
        let mut attributes = attributes("deliver", "send", &firing.namespace, &firing.id);
        attributes.extend([
            KeyValue::new("messaging.message.id", firing.delivery_id.to_string()),
            KeyValue::new("duly.attempt", i64::from(firing.attempt)),
            KeyValue::new("duly.due_at", firing.due_at.to_string()),
        ]);
        let builder =
            builder("deliver", kind, attributes).with_links(vec![Link::with_context(scheduled)]);
        enabled.start_built(builder, &Context::new())
    }

    /// Begins the *deliver* span of a firing that is leased to a consumer, which gets its context, and ends it.
    pub(crate) fn lease(&self, firing: &mut Firing) {
        let Some(enabled) = &self.0 else { return };
        let span = self.deliver(firing, DeliveryMode::Pull);
        if let Some(context) = span.context() {
            Arc::make_mut(&mut firing.spec).trace_parent = Some(text(&context));
            enabled.leases.lock().put(firing.token.clone(), context);
        }
    }

    /// Begins the *settle* span of a lease of a consumer: a child of its *deliver* span, if this node has leased
    /// it.
    pub(crate) fn settle_lease(&self, token: &Token, verdict: &SettleVerdict) -> TimerSpan {
        let Some(enabled) = &self.0 else { return TimerSpan::default() };
        if matches!(verdict, SettleVerdict::Extend { .. }) {
            return TimerSpan::default();
        }
        let leased = enabled.leases.lock().get(token).cloned();
        leased.map_or_else(TimerSpan::default, |parent| {
            enabled.settle(SpanKind::Server, outcome(verdict), parent)
        })
    }

    /// Begins the one *settle* span of a call whose leases another node may have made: a child of the caller's
    /// span.
    pub(crate) fn settle_elsewhere(&self, caller: Option<&str>) -> TimerSpan {
        let caller = caller.and_then(parse).filter(SpanContext::is_sampled);
        let (Some(enabled), Some(caller)) = (&self.0, caller) else { return TimerSpan::default() };
        enabled.settle(SpanKind::Server, "unknown", caller)
    }

    /// Ends the *deliver* span of a push attempt by its verdict, and begins the *settle* span.
    pub(crate) fn settle_attempt(&self, deliver: TimerSpan, verdict: &SettleVerdict) -> TimerSpan {
        let (Some(enabled), Some(context)) = (&self.0, deliver.context()) else {
            return TimerSpan::default();
        };
        let reason = match verdict {
            SettleVerdict::Retry { reason, .. } | SettleVerdict::Dead { reason } => Some(reason),
            _ => None,
        };
        deliver.end(outcome(verdict), reason.map(|reason| own_reason(reason)));
        enabled.settle(SpanKind::Internal, outcome(verdict), context)
    }
}

impl Enabled {
    fn settle(&self, kind: SpanKind, verdict: &'static str, parent: SpanContext) -> TimerSpan {
        let attributes = vec![
            KeyValue::new("messaging.system", "duly"),
            KeyValue::new("messaging.operation.name", "settle"),
            KeyValue::new("messaging.operation.type", "settle"),
            KeyValue::new("duly.verdict", verdict),
        ];
        self.start("settle", kind, attributes, &remote(parent))
    }

    fn start(
        &self,
        name: &'static str,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        parent: &Context,
    ) -> TimerSpan {
        self.start_built(builder(name, kind, attributes), parent)
    }

    fn start_built(&self, builder: SpanBuilder, parent: &Context) -> TimerSpan {
        TimerSpan(Some(Box::new(self.tracer.build_with_context(builder, parent))))
    }
}

/// A span of a timer, or nothing if the timer is not sampled. If it is dropped without an outcome, as when a call
/// fails or times out, it ends as failed.
#[derive(Default)]
pub struct TimerSpan(Option<Box<opentelemetry::global::BoxedSpan>>);

impl fmt::Debug for TimerSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimerSpan").field(&self.trace_parent()).finish()
    }
}

impl TimerSpan {
    /// Returns `true` if there is no span.
    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    fn context(&self) -> Option<SpanContext> {
        self.0.as_ref().map(|span| span.span_context().clone())
    }

    /// Returns its context as a W3C `traceparent`.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        self.context().as_ref().map(text)
    }

    /// Ends the span with its outcome; a `failure` marks it as failed.
    pub fn end(mut self, outcome: &'static str, failure: Option<&str>) {
        if let Some(mut span) = self.0.take() {
            span.set_attribute(KeyValue::new("duly.outcome", outcome));
            if let Some(failure) = failure {
                span.set_status(Status::error(failure.to_owned()));
            }
        }
    }
}

impl Drop for TimerSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.set_status(Status::error("no outcome"));
        }
    }
}

fn builder(name: &'static str, kind: SpanKind, attributes: Vec<KeyValue>) -> SpanBuilder {
    SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes)
}

/// Returns the attributes of a span, with the names of OpenTelemetry for messaging where it has one.
fn attributes(
    operation: &'static str,
    kind: &'static str,
    namespace: &NamespaceName,
    id: &TimerId,
) -> Vec<KeyValue> {
    vec![
        KeyValue::new("messaging.system", "duly"),
        KeyValue::new("messaging.operation.name", operation),
        KeyValue::new("messaging.operation.type", kind),
        KeyValue::new("messaging.destination.name", namespace.to_string()),
        KeyValue::new("duly.timer.id", id.to_string()),
    ]
}

fn outcome(verdict: &SettleVerdict) -> &'static str {
    attempt_end(verdict).map_or("released", |end| end.as_str())
}

fn remote(parent: SpanContext) -> Context {
    Context::new().with_remote_span_context(parent)
}

/// Parses a W3C `traceparent`: `00-` trace id `-` parent id `-` flags.
fn parse(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (_version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::NONE,
    );
    context.is_valid().then_some(context)
}

/// Formats a W3C `traceparent`.
fn text(context: &SpanContext) -> String {
    let (trace, span) = (context.trace_id(), context.span_id());
    format!("00-{trace}-{span}-{:02x}", context.trace_flags().to_u8())
}
