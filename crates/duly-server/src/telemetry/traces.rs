//! Sends the spans of timers to an OpenTelemetry collector, as OTLP over HTTP.
//!
//! 1. A thread of its own sends them in batches, so a slow collector or none delays no call.
//! 2. Its queue has a limit. Spans that do not fit, and those that the collector does not accept, are dropped.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use duly_core::metric_names as names;
use duly_node::Traces;
use metrics::counter;
use opentelemetry::{KeyValue, global::BoxedTracer, trace::TracerProvider as _};
use opentelemetry_otlp::{
    Protocol, SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
    },
};
use reqwest::blocking::{Client, ClientBuilder};
use tokio::task::spawn_blocking;
use url::Url;

use crate::outgoing;

/// Time limit of one request to the collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a stop waits for the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Most spans that wait for the collector; about 1 KiB each.
const QUEUE_MAX: usize = 16_384;
/// Path of spans at a collector.
const PATH: &str = "/v1/traces";

/// The connection to a collector, if there is one.
#[derive(Debug, Default)]
pub(crate) struct TraceExport(Option<SdkTracerProvider>);

impl TraceExport {
    /// Starts the thread that sends spans. `node` is the name of this node.
    ///
    /// # Errors
    /// A sentence, if the HTTP client cannot be built.
    pub(crate) fn start(
        endpoint: Option<&str>,
        sample_percent: u32,
        node: &str,
    ) -> Result<(Self, Traces), String> {
        let Some(endpoint) = endpoint else {
            return Ok((Self::default(), Traces::default()));
        };
        let address = with_path(endpoint)?;
        let exporter = OtlpExporter::builder()
            .with_http()
            .with_http_client(client(address.scheme())?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| error.to_string())?;
        let exporter = Reported { exporter, is_failing: AtomicBool::new(false) };
        let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE_MAX).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder()
            .with_service_name("duly")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", node.to_owned()),
            ])
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            // The decision is the timer's, and no variable of the environment changes it.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .build();
        let tracer = BoxedTracer::new(Box::new(provider.tracer("duly")));
        let ratio = f64::from(sample_percent) / 100.0;
        Ok((Self(Some(provider)), Traces::new(tracer, ratio)))
    }

    /// Sends the last spans.
    pub(crate) async fn stop(self) {
        if let Some(provider) = self.0 {
            let flushed =
                spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT)).await;
            if !matches!(flushed, Ok(Ok(()))) {
                tracing::warn!("the last spans did not reach the collector in time");
            }
        }
    }
}

/// Returns the address of spans at a collector: a URL without a path gets the standard one.
fn with_path(endpoint: &str) -> Result<Url, String> {
    let mut url = Url::parse(endpoint).map_err(|error| error.to_string())?;
    if url.path() == "/" {
        url.set_path(PATH);
    }
    Ok(url)
}

/// Creates the client for a collector, on a thread of its own, as this one belongs to a runtime.
fn client(scheme: &str) -> Result<Client, String> {
    let builder = ClientBuilder::from(outgoing::builder(scheme)?).timeout(EXPORT_TIMEOUT);
    let built = thread::spawn(move || builder.build()).join();
    built.map_err(|_| "the client panicked".to_owned())?.map_err(|error| error.to_string())
}

/// An exporter whose results are counted. The first failure after a success is logged, and the next success.
#[derive(Debug)]
struct Reported {
    exporter: OtlpExporter,
    is_failing: AtomicBool,
}

impl SpanExporter for Reported {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        let outcome = if result.is_ok() { "exported" } else { "failed" };
        counter!(names::TRACE_SPANS_TOTAL, "outcome" => outcome).increment(spans);
        let was_failing = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !was_failing => {
                tracing::warn!(
                    spans, %error,
                    "collector did not accept spans; they are dropped until it does"
                );
            }
            Ok(()) if was_failing => tracing::info!("collector accepts spans again"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_path_gets_the_standard_one() {
        for (endpoint, address) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example.com/otlp", "https://collector.example.com/otlp"),
        ] {
            assert_eq!(with_path(endpoint).unwrap().as_str(), address);
        }
    }
}
