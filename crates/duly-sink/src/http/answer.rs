//! Reading as much of an answer as is of use, and no more (S4).
//!
//! A confirmed answer's body is read so that its connection can be used again; any other answer's
//! first kibibyte is kept for the history. Both are bounded in bytes and in time: an endless or
//! slow body costs its connection, not a worker.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

/// Bytes kept of an answer that is no confirmation.
const EXCERPT_BYTES_MAX: usize = 1024;

/// What was read of a body.
#[derive(Debug)]
pub(super) struct Read {
    /// Its beginning.
    pub(super) kept: Vec<u8>,
    /// Whether all of it has come, so that its connection is free.
    pub(super) ended: Ended,
}

/// How far a body was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// To its end.
    Whole,
    /// Not: it was too long, too slow, or broke off.
    Cut,
}

/// Reads a body to its end if that comes within `bytes_max` and before `until`, and keeps its
/// beginning. The status has been said already, so nothing that goes wrong here is an error.
pub(super) async fn read(mut body: Incoming, until: Instant, bytes_max: usize) -> Read {
    let mut kept = Vec::new();
    let mut seen_bytes = 0;
    while !body.is_end_stream() {
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return Read { kept, ended: Ended::Cut },
        };
        if let Some(chunk) = frame.data_ref() {
            seen_bytes += chunk.len();
            let room = EXCERPT_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        if seen_bytes > bytes_max {
            return Read { kept, ended: Ended::Cut };
        }
    }
    Read { kept, ended: Ended::Whole }
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
