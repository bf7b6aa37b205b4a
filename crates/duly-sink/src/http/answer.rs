//! Reading as much of an answer as is of use, and no more (S4).
//!
//! A confirmed answer's body is read so that its connection can be used again; any other answer's
//! first kibibyte is kept for the history. Both are bounded in bytes and in time: an endless or
//! slow body costs its connection, not a worker.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes kept of an answer that is no confirmation.
const EXCERPT_BYTES_MAX: usize = 1024;
/// Most bytes read of a confirmation, to keep its connection.
const DRAIN_BYTES_MAX: usize = 64 * 1024;
/// Longest time spent on the body of an answer whose status is known.
const BODY_WITHIN: Duration = Duration::from_millis(500);

/// Reads a confirmation's body to its end, if that is near.
pub(super) async fn drain(response: reqwest::Response, ends_at: Instant) {
    read(response, ends_at, DRAIN_BYTES_MAX, |_| {}).await;
}

/// The beginning of a body as printable text.
pub(super) async fn excerpt(response: reqwest::Response, ends_at: Instant) -> String {
    let mut kept = Vec::new();
    read(response, ends_at, EXCERPT_BYTES_MAX, |chunk| {
        let room = EXCERPT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
    })
    .await;
    printable(&kept)
}

async fn read(
    mut response: reqwest::Response,
    ends_at: Instant,
    bytes_max: usize,
    mut take: impl FnMut(&[u8]),
) {
    let until = ends_at.min(Instant::now() + BODY_WITHIN);
    let mut seen_bytes = 0;
    while seen_bytes < bytes_max {
        match tokio::time::timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                seen_bytes += chunk.len();
                take(&chunk);
            }
            // The end, a broken body, or out of time: the status has been said already.
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        }
    }
}

/// Text of bytes: what is not UTF-8 is replaced, control characters are escaped, so that an answer
/// can forge neither a log line nor a terminal sequence.
pub(super) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}
