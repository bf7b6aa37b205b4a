//! The spans of a timer: their ids, links and attributes, and the contexts that receivers get.

use duly_core::{
    Destination, NamespaceName, Schedule, TimerId, destination::HttpDestination, schedule::When,
};
use duly_store::{SettleVerdict, Settlement};
use opentelemetry::{
    Value,
    global::BoxedTracer,
    trace::{SpanId, Status, TracerProvider as _},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

use super::{pull::request, *};
use crate::Traces;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

struct Traced {
    world: World,
    traces: Traces,
    exporter: InMemorySpanExporter,
}

impl Traced {
    async fn start(ratio: f64) -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let traces = Traces::new(BoxedTracer::new(Box::new(provider.tracer("test"))), ratio);
        let own = traces.clone();
        let world = World::start_with(move |options| options.traces = own).await;
        Self { world, traces, exporter }
    }

    /// Schedules a timer that is due at once, in a call with this trace context.
    async fn schedule(&self, id: &str, url: Option<&str>, caller: Option<String>) {
        let mut schedule = Schedule::new(TimerId::new(id).unwrap(), When::After(ms(0)));
        schedule.spec.trace_parent = caller;
        schedule.spec.destination =
            url.map(|url| Destination::Http(HttpDestination::new(url).unwrap()));
        let span = self.traces.schedule(&self.world.namespace, &mut schedule);
        self.world.apply(schedule).await;
        span.end("created", None);
    }

    /// Takes the spans that have ended, in their order.
    fn spans(&self) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        self.exporter.reset();
        spans
    }
}

fn caller(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key.as_str() == key)?;
    Some(match &found.value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    })
}

/// Returns the `traceparent` of a span.
fn text(span: &SpanData) -> String {
    let context = &span.span_context;
    format!("00-{}-{}-01", context.trace_id(), context.span_id())
}

fn assert_child(span: &SpanData, parent: &SpanData) {
    assert_eq!(span.span_context.trace_id(), parent.span_context.trace_id());
    assert_eq!(span.parent_span_id, parent.span_context.span_id());
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_a_trace_with_a_link_to_schedule() {
    let mut traced = Traced::start(0.0).await;
    traced.schedule("x", Some(A), Some(caller("01"))).await;
    let [scheduled] = &traced.spans()[..] else { panic!("one span") };
    assert_eq!(scheduled.name, "schedule");
    assert_eq!(scheduled.span_context.trace_id().to_string(), TRACE);
    assert_eq!(scheduled.parent_span_id.to_string(), SPAN);
    assert_eq!(attribute(scheduled, "duly.timer.id").as_deref(), Some("x"));

    traced.world.quiet().await;
    let attempts = [
        (failed(AttemptOutcome::Failed), "failed", Status::error("said no")),
        (Delivery::Confirmed, "delivered", Status::Unset),
    ];
    for (number, (delivery, outcome, status)) in (1..).zip(attempts) {
        let call = traced.world.call().await;
        let (sent, stored) =
            (call.envelope.delivery_trace_parent.clone(), call.envelope.spec.trace_parent.clone());
        let delivery_id = call.envelope.delivery_id.to_string();
        call.answer(delivery);
        traced.world.quiet().await;
        let [delivered, settled] = &traced.spans()[..] else { panic!("two spans") };
        assert_eq!((&*delivered.name, &*settled.name), ("deliver", "settle"));
        assert_eq!(delivered.parent_span_id, SpanId::INVALID);
        assert_ne!(delivered.span_context.trace_id().to_string(), TRACE);
        let links: Vec<_> = delivered.links.iter().map(|it| &it.span_context).collect();
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].trace_id(), scheduled.span_context.trace_id());
        assert_eq!(links[0].span_id(), scheduled.span_context.span_id());
        assert_eq!(sent, Some(text(delivered)), "the receiver continues deliver");
        assert_eq!(stored, Some(text(scheduled)));
        assert_child(settled, delivered);
        assert_eq!(delivered.status, status);
        for (key, value) in [
            ("duly.attempt", number.to_string()),
            ("duly.outcome", outcome.to_owned()),
            ("messaging.message.id", delivery_id),
            ("messaging.destination.name", "shop".to_owned()),
        ] {
            assert_eq!(attribute(delivered, key), Some(value), "{key}");
        }
        traced.world.advance(ms(2_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn settle_of_a_consumer_is_a_child_of_deliver() {
    let traced = Traced::start(0.0).await;
    traced.schedule("x", None, Some(caller("01"))).await;
    traced.schedule("y", None, Some(caller("01"))).await;
    traced.spans();
    let leased =
        traced.world.handle.lease(request(&traced.world, 2, Duration::ZERO)).await.unwrap();
    let firings = leased.firings.clone();
    leased.delivered();
    let delivered = traced.spans();
    assert_eq!(delivered.len(), 2);
    for (firing, span) in firings.iter().zip(&delivered) {
        assert_eq!(firing.spec.trace_parent, Some(text(span)));
    }
    let settle = async |firing: usize, verdict: SettleVerdict, trace: Option<&str>| {
        let token = firings[firing].token.clone();
        let namespace = Some(NamespaceName::new("shop").unwrap());
        let settlement = Settlement { token, namespace, verdict };
        traced.world.handle.settle(vec![settlement], trace).await.unwrap();
        traced.spans()
    };
    let extend = SettleVerdict::Extend { lease: ms(60_000) };
    assert_eq!(settle(0, extend, Some(&caller("01"))).await, []);
    let [settled] = &settle(0, SettleVerdict::Ack, None).await[..] else { panic!("one span") };
    assert_child(settled, &delivered[0]);
    assert_eq!(attribute(settled, "duly.verdict").as_deref(), Some("delivered"));
    assert_eq!(attribute(settled, "duly.outcome").as_deref(), Some("ok"));

    let again = settle(0, SettleVerdict::Ack, Some(&caller("01"))).await;
    let [settled] = &again[..] else { panic!("one span") };
    assert_child(settled, &delivered[0]);
    assert_eq!(attribute(settled, "duly.outcome").as_deref(), Some("already_settled"));
}

#[tokio::test(start_paused = true)]
async fn a_span_without_an_outcome_has_failed() {
    let traced = Traced::start(0.0).await;
    let mut schedule = Schedule::new(TimerId::new("x").unwrap(), When::After(ms(0)));
    schedule.spec.trace_parent = Some(caller("01"));
    drop(traced.traces.schedule(&traced.world.namespace, &mut schedule));
    let [scheduled] = &traced.spans()[..] else { panic!("one span") };
    assert_eq!(scheduled.status, Status::error("no outcome"));
    // What another node has leased is a child of the consumer's call, once for each call.
    traced.traces.settle_elsewhere(Some(&caller("01"))).end("done", None);
    let [settled] = &traced.spans()[..] else { panic!("one span") };
    assert_eq!(settled.parent_span_id.to_string(), SPAN);
    traced.traces.settle_elsewhere(Some(&caller("00"))).end("done", None);
    traced.traces.settle_elsewhere(None).end("done", None);
    assert_eq!(traced.spans(), []);
}

#[tokio::test(start_paused = true)]
async fn timers_that_are_not_sampled_have_no_spans() {
    let mut traced = Traced::start(0.0).await;
    for (id, context) in [("flag", Some(caller("00"))), ("none", None)] {
        traced.schedule(id, Some(A), context.clone()).await;
        traced.world.quiet().await;
        let call = traced.world.call().await;
        assert_eq!(call.envelope.spec.trace_parent, context, "passed on unchanged");
        assert_eq!(call.envelope.delivery_trace_parent, None);
        call.answer(Delivery::Confirmed);
        traced.world.until(id, State::Finished).await;
    }
    assert_eq!(traced.spans(), []);

    // With a ratio, a call without a context is sampled; the decision of a caller counts before it.
    let traced = Traced::start(1.0).await;
    traced.schedule("flag", Some(A), Some(caller("00"))).await;
    assert_eq!(traced.spans(), []);
    traced.schedule("none", Some(A), None).await;
    let [scheduled] = &traced.spans()[..] else { panic!("one span") };
    assert_eq!(scheduled.parent_span_id, SpanId::INVALID);
}
