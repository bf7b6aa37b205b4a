//! The memory of a view. A call that reads timers reserves it before they are read (P10).
//!
//! It is the sum of the requested sizes of the view's allocations. `tests/memory.rs` of the store's crate
//! compares it with the counts of an allocator.

use crate::{
    Destination, NamespaceName, RetryPolicy, Timer, TimerSpec, Tombstone, headers::Headers,
    timer::Attempt,
};

use super::{Body, TimerView};

/// The error of a view that takes more memory than its caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Memory that the view takes, in bytes.
    pub bytes: u64,
}

impl TimerView {
    /// Returns the memory that it takes, including its payload, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.body {
            Body::Whole(timer) => of_whole(&self.namespace, timer),
            Body::Tombstone(tombstone) => {
                of_view(&self.namespace, size_of::<Tombstone>() + of_tombstone(tombstone))
            }
        }
    }

    /// Checks that the view takes at most `bytes_max` of memory.
    ///
    /// # Errors
    /// [`TooLarge`] with the bytes that it takes.
    pub fn check_memory(&self, bytes_max: u64) -> Result<(), TooLarge> {
        let bytes = self.memory_bytes();
        if bytes <= bytes_max { Ok(()) } else { Err(TooLarge { bytes }) }
    }
}

/// Returns the memory that the view of a timer takes, in bytes.
pub(crate) fn of_whole(namespace: &NamespaceName, timer: &Timer) -> u64 {
    of_view(namespace, size_of::<Timer>() + of_timer(timer))
}

fn of_view(namespace: &NamespaceName, body: usize) -> u64 {
    (size_of::<TimerView>() + namespace.as_str().len() + body) as u64
}

fn of_timer(timer: &Timer) -> usize {
    timer.id.as_str().len() + of_spec(&timer.spec) + of_history(&timer.history)
}

fn of_spec(spec: &TimerSpec) -> usize {
    // Each field is named here, so that a new field is a compile error until it is counted.
    let TimerSpec {
        payload,
        headers,
        tags,
        slot_key,
        destination,
        retry,
        expire_after: _,
        trace_parent,
    } = spec;
    let tags = tags.as_slice().iter();
    payload.as_ref().map_or(0, |payload| payload.bytes.len())
        + of_headers(headers)
        + tags.map(|tag| size_of::<String>() + tag.len()).sum::<usize>()
        + slot_key.as_ref().map_or(0, |key| key.as_str().len())
        + destination.as_ref().map_or(0, of_destination)
        + retry.as_ref().map_or(0, of_retry)
        + trace_parent.as_ref().map_or(0, String::len)
}

fn of_tombstone(tombstone: &Tombstone) -> usize {
    let details = tombstone.details.as_deref();
    tombstone.id.as_str().len()
        + details.map_or(0, |details| size_of_val(details) + of_history(&details.history))
}

fn of_headers(headers: &Headers) -> usize {
    headers
        .iter()
        .map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len())
        .sum()
}

fn of_destination(destination: &Destination) -> usize {
    match destination {
        Destination::Pull => 0,
        Destination::Http(http) => http.url().as_str().len() + of_headers(&http.headers),
    }
}

const fn of_retry(retry: &RetryPolicy) -> usize {
    match retry {
        RetryPolicy::Exponential(_) => 0,
        RetryPolicy::Delays(waits) => size_of_val(waits.as_slice()),
    }
}

fn of_history(history: &[Attempt]) -> usize {
    history.iter().map(|attempt| size_of::<Attempt>() + attempt.reason.len()).sum()
}
