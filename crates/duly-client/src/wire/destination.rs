//! Destinations and retry policies.

use duly_proto::v1::{self, destination::Kind};

use super::{
    headers_in, headers_out, required,
    time::{duration_from, duration_out},
};
use crate::{
    destination::{Destination, HttpDestination, RetryPolicy},
    error::Error,
};

pub(crate) fn destination_out(destination: Destination) -> v1::Destination {
    let kind = match destination {
        Destination::Pull => Kind::Pull(v1::PullDestination {}),
        Destination::Http(http) => Kind::Http(v1::HttpDestination {
            url: http.url,
            method: http.method,
            headers: headers_out(http.headers),
            timeout: http.timeout.map(duration_out),
        }),
    };
    v1::Destination { kind: Some(kind) }
}

pub(crate) fn destination_in(destination: v1::Destination) -> Result<Destination, Error> {
    Ok(match required("kind of its destination", destination.kind)? {
        Kind::Pull(_) => Destination::Pull,
        Kind::Http(http) => Destination::Http(HttpDestination {
            url: http.url,
            method: http.method,
            headers: headers_in(http.headers),
            timeout: http.timeout.map(duration_from),
        }),
    })
}

pub(crate) fn retry_out(retry: RetryPolicy) -> v1::Retry {
    v1::Retry {
        max_attempts: retry.max_attempts,
        min_backoff: retry.min_backoff.map(duration_out),
        max_backoff: retry.max_backoff.map(duration_out),
        multiplier: retry.multiplier,
        jitter: retry.jitter,
        delays: retry.delays.into_iter().map(duration_out).collect(),
    }
}

pub(crate) fn retry_in(retry: v1::Retry) -> RetryPolicy {
    RetryPolicy {
        max_attempts: retry.max_attempts,
        min_backoff: retry.min_backoff.map(duration_from),
        max_backoff: retry.max_backoff.map(duration_from),
        multiplier: retry.multiplier,
        jitter: retry.jitter,
        delays: retry.delays.into_iter().map(duration_from).collect(),
    }
}
