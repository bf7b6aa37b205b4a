//! Value parsers: convert text of the command line to checked values, with the checks of `duly-core`.
//!
//! Each function is a clap value parser: its error completes "invalid value … for …: ".

use std::{convert::Infallible, net::SocketAddr};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use duly_api::{Header, State, namespace::PER_SECOND_MAX};
use duly_core::{Invalid, Millis, NamespaceName, TimerId, Timestamp};
use duly_server::Address;
use reqwest::Url;
use serde_json::value::RawValue;

use crate::context;

/// Returns the part of a refusal that names the allowed values; clap prints the value itself.
fn allowed(invalid: Invalid) -> String {
    format!("it must be {}", invalid.allowed)
}

/// A text that is checked later: clap prints values that a parser refuses, and this one may be a secret.
#[derive(Clone)]
pub(crate) struct Unchecked(pub(crate) String);

/// Accepts any text.
pub(crate) fn unchecked(text: &str) -> Result<Unchecked, Infallible> {
    Ok(Unchecked(text.to_owned()))
}

/// Parses the name of a namespace, or `.` for that of the context.
pub(crate) fn namespace(text: &str) -> Result<NamespaceName, String> {
    if text == context::DEFAULT_NAMESPACE {
        return context::namespace();
    }
    NamespaceName::new(text).map_err(allowed)
}

/// Parses a timer's id.
pub(crate) fn timer_id(text: &str) -> Result<TimerId, String> {
    TimerId::new(text).map_err(allowed)
}

/// Parses a duration: `2h30m`, or 0.
pub(crate) fn duration(text: &str) -> Result<Millis, String> {
    match text.parse::<i128>() {
        Ok(number) => Millis::from_bare_integer(number),
        Err(_) => Millis::parse(text),
    }
    .map_err(allowed)
}

/// Parses a time: RFC 3339, or Unix milliseconds as an integer.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    match text.parse::<i128>() {
        Ok(number) => Timestamp::from_bare_integer(number),
        Err(_) => Timestamp::parse(text),
    }
    .map_err(allowed)
}

/// Parses a whole number, which the server takes from `FROM` to `TO`. The server refuses a number outside.
pub(crate) fn whole<N: TryFrom<u64>, const FROM: u64, const TO: u64>(
    text: &str,
) -> Result<N, String> {
    let number = text.parse().ok().and_then(|number: u64| N::try_from(number).ok());
    number.ok_or_else(|| match TO {
        u64::MAX => format!("it must be a whole number from {FROM}"),
        _ => format!("it must be a whole number from {FROM} to {TO}"),
    })
}

/// Parses a whole number from 0 that has no upper bound.
pub(crate) fn any_whole(text: &str) -> Result<u64, String> {
    whole::<_, 0, { u64::MAX }>(text)
}

/// Parses a revision of a timer.
pub(crate) fn revision(text: &str) -> Result<u32, String> {
    whole::<_, 1, { u32::MAX as u64 }>(text)
}

/// Parses a rate of a namespace.
pub(crate) fn per_second(text: &str) -> Result<u32, String> {
    whole::<_, 1, { PER_SECOND_MAX as u64 }>(text)
}

/// Parses a whole number within bounds.
pub(crate) fn within<const FROM: u16, const TO: u16>(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (FROM..=TO).contains(number));
    number.ok_or_else(|| format!("it must be a whole number from {FROM} to {TO}"))
}

/// Parses a number that may have a fraction.
pub(crate) fn decimal(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "it must be a number such as 2 or 0.5".to_owned())
}

/// Returns a parser of a fixed set of values by name; the help shows the meaning of each.
pub(crate) fn named<T: Copy + Send + Sync + 'static>(
    values: &[(T, &'static str)],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let shown = values.iter().map(|(value, help)| PossibleValue::new(name(*value)).help(*help));
    let values: Vec<_> = values.iter().map(|(value, _)| *value).collect();
    PossibleValuesParser::new(shown.collect::<Vec<_>>()).try_map(move |word| {
        values.iter().copied().find(|value| name(*value) == word).ok_or("it is not known")
    })
}

/// The states of timers.
pub(crate) const STATES: [(State, &str); 7] = [
    (State::Scheduled, "Waiting for its due time"),
    (State::Due, "Due, not yet claimed"),
    (State::InFlight, "Being delivered"),
    (State::Retrying, "Waiting for its next attempt"),
    (State::Finished, "Delivered"),
    (State::Cancelled, "Cancelled"),
    (State::Dead, "Dead letter"),
];

/// Parses a JSON value and keeps its exact text.
pub(crate) fn json(text: &str) -> Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| {
        // The habit of curl, and of other command lines: @FILE.
        if let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) {
            return format!("it must be JSON; the content of a file is --payload-file {file}");
        }
        let looks_like_json = text.trim_start().starts_with(['{', '[', '"']);
        let cure = if looks_like_json {
            "in a shell, put it into single quotes"
        } else {
            "plain text is --payload-text"
        };
        format!("it must be JSON ({error}); {cure}")
    })
}

/// Parses `name:value`.
pub(crate) fn header(text: &str) -> Result<Header, String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok(Header { name: name.trim().to_owned(), value: value.trim().to_owned() })
        }
        _ => Err("it must be a header as \"name:value\"".to_owned()),
    }
}

/// Parses the address of a server.
pub(crate) fn server_url(text: &str) -> Result<Url, String> {
    let refuse = || {
        "it must be an address such as \"http://127.0.0.1:3859\" or \"unix:/run/duly.sock\", in \
         --server or in DULY_SERVER"
            .to_owned()
    };
    let url = Url::parse(text).map_err(|_| refuse())?;
    let is_complete = match url.scheme() {
        "http" | "https" => url.has_host(),
        "unix" => url.to_file_path().is_ok(),
        _ => false,
    };
    if is_complete { Ok(url) } else { Err(refuse()) }
}

/// Parses an address for the server to listen on.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    text.parse().map_err(|()| {
        "it must be an IP address with a port, such as 127.0.0.1:3859 or [::1]:3859, or the file of \
         a Unix socket, such as unix:/run/duly.sock"
            .to_owned()
    })
}

/// Parses an address for `receive` to listen on.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it must be an IP address with a port, such as 127.0.0.1:3859 or [::1]:3859".to_owned()
    })
}

#[cfg(test)]
mod tests;
