//! Payloads as LZ4 blocks, where that is worth it: what a timer costs is its memory in Redis, and
//! most payloads are JSON.
//!
//! The format of a block is that of <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>; how
//! many bytes it stands for is kept beside it.

use bytes::Bytes;
use duly_core::payload::PAYLOAD_BYTES_HARD;

use super::fields::{Result, Unreadable};

/// Shorter payloads stay as they are: few of them become shorter by much.
const FROM: usize = 256;

/// The payload as a block; `None` unless that saves an eighth, about a size class of the
/// allocator that Redis uses.
pub(super) fn compressed(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < FROM {
        return None;
    }
    let block = lz4_flex::block::compress(payload);
    (block.len() <= payload.len() / 8 * 7).then_some(block)
}

/// The payload of so many bytes that a block stands for.
pub(super) fn decompressed(block: &[u8], bytes: u64) -> Result<Bytes> {
    let wrong = |why: String| Unreadable::Impossible(format!("a payload of {bytes} bytes: {why}"));
    if bytes > PAYLOAD_BYTES_HARD {
        return Err(wrong("more than there may be".to_owned()));
    }
    let room = usize::try_from(bytes).map_err(|error| wrong(error.to_string()))?;
    let payload = lz4_flex::block::decompress(block, room).map_err(|e| wrong(e.to_string()))?;
    if payload.len() != room {
        return Err(wrong(format!("{} are stored", payload.len())));
    }
    Ok(payload.into())
}
