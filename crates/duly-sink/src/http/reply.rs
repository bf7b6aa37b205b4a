//! Reads the body of a reply, within limits (S4).
//!
//! The body of a confirmed reply is read so that its connection can be used again. The first kibibyte of
//! any other reply is kept for the history. Both are limited in bytes and in time. So an endless or slow
//! body costs its connection, not a worker.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

/// Most bytes kept of a reply that does not confirm.
const EXCERPT_BYTES_MAX: usize = 1024;

/// The result of reading a body.
#[derive(Debug)]
pub(super) struct ReplyBody {
    /// The beginning of the body.
    pub(super) kept: Vec<u8>,
    /// `true`: the whole body was read, so the connection can be used again.
    pub(super) is_whole: bool,
}

/// Reads a body to its end if that comes within `bytes_max` and before `until`, and keeps its beginning.
/// The status is known already, so no failure here is an error.
pub(super) async fn read(mut body: Incoming, until: Instant, bytes_max: usize) -> ReplyBody {
    let mut kept = Vec::new();
    let mut seen_bytes = 0;
    while !body.is_end_stream() {
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return ReplyBody { kept, is_whole: false },
        };
        if let Some(chunk) = frame.data_ref() {
            seen_bytes += chunk.len();
            let left = EXCERPT_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..chunk.len().min(left)]);
        }
        if seen_bytes > bytes_max {
            return ReplyBody { kept, is_whole: false };
        }
    }
    ReplyBody { kept, is_whole: true }
}

/// Converts bytes to text. Invalid UTF-8 is replaced and control characters are escaped, so a reply can
/// forge neither a log line nor a terminal sequence.
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
