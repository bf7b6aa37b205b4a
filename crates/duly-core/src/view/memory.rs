//! The memory of a view, and the size of a stored timer.
//!
//! A call that reads timers reserves the memory before they are read (P10). The memory is the sum of the requested
//! sizes of the view's allocations. `tests/memory.rs` of the store's crate compares it with the counts of an allocator.

use std::iter::Sum;

use crate::{
    Destination, NamespaceName, Payload, RetryPolicy, Timer, TimerId, TimerSpec, Tombstone,
    headers::Headers,
    schedule::{Patch, Schedule, SlotKey, Tags},
    timer::Attempt,
    tombstone::Details,
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

/// Estimated size of a stored pending timer besides its id and content, in bytes.
const RECORD_BYTES: u64 = 128;

impl Timer {
    /// Returns the estimated size of the timer in a store while it is pending, in bytes. Limits of bytes count it.
    pub fn stored_bytes(&self) -> u64 {
        stored_bytes(&self.id, self.content_bytes())
    }

    /// Returns the size of the specification and of the reasons of failed attempts, in bytes.
    pub fn content_bytes(&self) -> u64 {
        self.spec.content_bytes() + of_history(&self.history).content as u64
    }
}

impl Schedule {
    /// Returns the estimated size in a store of the timer that it makes, in bytes ([`Timer::stored_bytes`]).
    pub fn stored_bytes(&self) -> u64 {
        stored_bytes(&self.id, self.spec.content_bytes())
    }
}

impl TimerSpec {
    /// Returns the size of all its fields, in bytes.
    pub fn content_bytes(&self) -> u64 {
        of_spec(self).content as u64
    }
}

impl Patch {
    /// Returns the size of all fields that it sets, in bytes: a timer grows by no more.
    pub fn content_bytes(&self) -> u64 {
        // Each field is named here, so that a new field is a compile error until it is counted.
        let Self { when: _, payload, headers, tags, destination, retry } = self;
        let sizes = [
            payload.value().map(of_payload),
            headers.value().map(of_headers),
            tags.value().map(of_tags),
            destination.value().map(of_destination),
            retry.value().map(of_retry),
        ];
        sizes.into_iter().flatten().sum::<Sizes>().content as u64
    }
}

fn stored_bytes(id: &TimerId, content: u64) -> u64 {
    RECORD_BYTES + id.as_str().len() as u64 + content
}

/// Sizes of the allocations of a value, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    /// Its texts and numbers.
    content: usize,
    /// The structures around them.
    structures: usize,
}

impl Sizes {
    const fn content(content: usize) -> Self {
        Self { content, structures: 0 }
    }

    const fn in_memory(self) -> usize {
        self.content + self.structures
    }
}

impl Sum for Sizes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, it| Self {
            content: sum.content + it.content,
            structures: sum.structures + it.structures,
        })
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
    let sizes = [of_spec(&timer.spec), of_history(&timer.history)];
    timer.id.as_str().len() + sizes.into_iter().sum::<Sizes>().in_memory()
}

fn of_spec(spec: &TimerSpec) -> Sizes {
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
    let texts = [slot_key.as_ref().map(SlotKey::as_str), trace_parent.as_deref()];
    let texts = texts.into_iter().flatten().map(|text| Sizes::content(text.len()));
    let sizes = [
        payload.as_ref().map(of_payload),
        Some(of_headers(headers)),
        Some(of_tags(tags)),
        destination.as_ref().map(of_destination),
        retry.as_ref().map(of_retry),
    ];
    sizes.into_iter().flatten().chain(texts).sum()
}

fn of_payload(payload: &Payload) -> Sizes {
    Sizes::content(payload.bytes.len())
}

fn of_tags(tags: &Tags) -> Sizes {
    let tag = |tag: &String| Sizes { content: tag.len(), structures: size_of::<String>() };
    tags.as_slice().iter().map(tag).sum()
}

fn of_tombstone(tombstone: &Tombstone) -> usize {
    let details = tombstone.details.as_deref();
    let of_details =
        |details: &Details| size_of_val(details) + of_history(&details.history).in_memory();
    tombstone.id.as_str().len() + details.map_or(0, of_details)
}

fn of_headers(headers: &Headers) -> Sizes {
    let header = |(name, value): (&str, &str)| Sizes {
        content: name.len() + value.len(),
        structures: size_of::<(String, String)>(),
    };
    headers.iter().map(header).sum()
}

fn of_destination(destination: &Destination) -> Sizes {
    let target = Sizes::content(destination.target_bytes());
    [Some(target), destination.headers().map(of_headers)].into_iter().flatten().sum()
}

const fn of_retry(retry: &RetryPolicy) -> Sizes {
    match retry {
        RetryPolicy::Exponential(_) => Sizes::content(0),
        RetryPolicy::Delays(waits) => Sizes::content(size_of_val(waits.as_slice())),
    }
}

fn of_history(history: &[Attempt]) -> Sizes {
    let attempt = |attempt: &Attempt| Sizes {
        content: attempt.reason.len(),
        structures: size_of::<Attempt>(),
    };
    history.iter().map(attempt).sum()
}
