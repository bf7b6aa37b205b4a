//! Payloads as LZ4 blocks, if that saves enough: a timer costs its memory in Redis, and most payloads
//! are JSON.
//!
//! The format of a block is that of <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>. The
//! length before compression is kept beside it.

use bytes::Bytes;
use duly_core::payload::PAYLOAD_BYTES_HARD;

use super::fields::{Result, Unreadable};

/// Shortest payload, in bytes, that is compressed: few shorter ones become much shorter.
const FROM: usize = 256;

/// Compresses a payload into a block. Returns `None` unless that saves an eighth, about a size class of
/// the allocator that Redis uses.
pub(super) fn compressed(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < FROM {
        return None;
    }
    let block = lz4_flex::block::compress(payload);
    (block.len() <= payload.len() / 8 * 7).then_some(block)
}

/// Decompresses a block into the payload of `bytes` bytes.
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
