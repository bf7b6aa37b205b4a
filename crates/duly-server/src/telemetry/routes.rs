//! Metrics of HTTP routes. Handles are looked up once per route and status, not per request.

use std::{collections::HashMap, sync::Arc, time::Duration};

use duly_core::metric_names::{HTTP_REQUESTS_TOTAL, HTTP_SECONDS};
use http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::RwLock;

/// Label of a request that matches no route.
pub const UNMATCHED: &str = "unmatched";

/// Metrics of all requested routes.
#[derive(Default)]
pub struct Routes(RwLock<HashMap<String, Arc<RouteMetrics>>>);

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Routes")
    }
}

struct RouteMetrics {
    seconds: Histogram,
    requests: RwLock<HashMap<StatusCode, Counter>>,
}

impl Routes {
    /// Counts a response.
    pub fn record(&self, route: &str, status: StatusCode, elapsed: Duration) {
        let metrics = self.of(route);
        metrics.seconds.record(elapsed.as_secs_f64());
        if let Some(requests) = metrics.requests.read().get(&status) {
            requests.increment(1);
            return;
        }
        let requests = counter!(
            HTTP_REQUESTS_TOTAL,
            "route" => route.to_owned(),
            "status" => status.as_str().to_owned()
        );
        requests.increment(1);
        metrics.requests.write().insert(status, requests);
    }

    fn of(&self, route: &str) -> Arc<RouteMetrics> {
        if let Some(known) = self.0.read().get(route) {
            return Arc::clone(known);
        }
        let made = Arc::new(RouteMetrics {
            seconds: histogram!(HTTP_SECONDS, "route" => route.to_owned()),
            requests: RwLock::default(),
        });
        Arc::clone(self.0.write().entry(route.to_owned()).or_insert(made))
    }
}
