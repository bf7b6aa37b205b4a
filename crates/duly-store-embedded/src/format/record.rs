//! Records: the parts of a frame, each with its own checksum.
//!
//! ```text
//!  0  crc        u32   over bytes 4 .. 16 + length
//!  4  length     u32   bytes of the body
//!  8  kind       u8
//!  9  cause      u8    why a timer record was written (see Cause); 0 for other kinds
//! 10  reserved   u16   0
//! 12  namespace  u32   number of the namespace
//! 16  body, then zeros up to the next multiple of 16
//! ```

use std::sync::Arc;

pub(crate) use duly_core::operate::Cause;
use duly_core::totals::Totals;
use duly_core::{NamespaceName, Settings, Timer, TimerId, Timestamp, Tombstone};
use duly_record::{ReadFields as _, WriteFields as _};

use crate::index::PackedKey;

use super::{
    ALIGN, DecodeError, align_up,
    fields::{FieldReader, FieldWriter},
    settings, timer, tombstone,
};

/// Bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 16;

/// Causes by their code, from 1 on. Totals follow from them, both live and at replay.
const CAUSES: [Cause; 8] = [
    Cause::Created,
    Cause::Replaced,
    Cause::Rescheduled,
    Cause::AttemptFailed,
    Cause::Redriven,
    Cause::Expired,
    Cause::Released,
    Cause::Imported,
];

pub(crate) fn cause_of(code: u8) -> Result<Cause, DecodeError> {
    duly_record::from_code(&CAUSES, code, "cause")
}

/// One record. The number of its namespace is kept beside it, see [`Decoded`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// A complete pending timer.
    Pending(Cause, Box<Timer>),
    /// A complete dead letter.
    Dead(Cause, Box<Timer>),
    /// A timer has ended. `expires_at`: the time until which its tombstone is kept (`None`: no tombstone
    /// is kept). `number`: how many timers of its namespace had ended before, modulo 2^32.
    Ended { tombstone: Box<Tombstone>, expires_at: Option<Timestamp>, number: u32 },
    /// A lease was granted, extended or marked as stopped.
    Lease { id: TimerId, lease: Lease },
    /// A dead letter was purged: the key of its delivery id, and that of its timer as far as it is
    /// known.
    Purged { letter: PackedKey, timer: PackedKey },
    /// The pending timer or the tombstone with this key is gone: its record is unreadable, or a caller
    /// removed the tombstone. A timer leaves a separate dead letter, a tombstone leaves nothing.
    Lost { key: PackedKey },
    /// The tombstones of all ends of the namespace before number `below`, counted from 0, are gone.
    Evicted { below: u64 },
    /// A namespace has these settings from now on.
    Namespace(Box<NamespaceRecord>),
    /// A namespace is deleted, with all its contents.
    NamespaceGone,
}

/// A lease, besides the id or key of its timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) attempt: u32,
    /// `None` for a consumer.
    pub(crate) node: Option<u64>,
    pub(crate) claimed_at: Timestamp,
    pub(crate) lease_ms: u64,
    pub(crate) until: Timestamp,
    /// `true`: this changes a lease that was granted before.
    pub(crate) extends: bool,
    /// `true`: no attempt follows this one.
    pub(crate) stopped: bool,
}

/// The record of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamespaceRecord {
    pub(crate) name: NamespaceName,
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) resumes_at: Option<Timestamp>,
    /// `true`: its first schedule created the namespace, and nothing has changed it since.
    pub(crate) implicit: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) totals: Totals,
}

/// A decoded record with the number of its namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) namespace: u32,
    pub(crate) record: Record,
}

pub(crate) const PENDING: u8 = 1;
pub(crate) const DEAD: u8 = 2;
pub(crate) const ENDED: u8 = 3;
pub(crate) const LEASE: u8 = 4;
pub(crate) const PURGED: u8 = 5;
pub(crate) const NAMESPACE: u8 = 6;
pub(crate) const NAMESPACE_GONE: u8 = 7;
pub(crate) const LOST: u8 = 8;
pub(crate) const EVICTED: u8 = 9;

/// Appends a record to `out`, padded to the alignment. Returns its bytes without the padding.
pub(crate) fn encode(out: &mut Vec<u8>, namespace: u32, record: &Record) -> u32 {
    debug_assert_eq!(out.len() as u64 % ALIGN, 0, "records start aligned");
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let mut writer = FieldWriter(out);
    let (kind, cause) = match record {
        Record::Pending(cause, timer) => {
            timer::encode(&mut writer, timer);
            (PENDING, duly_record::code_in(&CAUSES, cause))
        }
        Record::Dead(cause, timer) => {
            timer::encode(&mut writer, timer);
            (DEAD, duly_record::code_in(&CAUSES, cause))
        }
        Record::Ended { tombstone, expires_at, number } => {
            writer.u64(expires_at.map_or(0, Timestamp::unix_ms));
            writer.u32(*number);
            tombstone::encode(&mut writer, tombstone);
            (ENDED, 0)
        }
        Record::Lease { id, lease } => {
            lease.encode(&mut writer);
            writer.text(id.as_str());
            (LEASE, 0)
        }
        Record::Purged { letter, timer } => {
            writer.raw(letter);
            writer.raw(timer);
            (PURGED, 0)
        }
        Record::Lost { key } => {
            writer.raw(key);
            (LOST, 0)
        }
        Record::Evicted { below } => {
            writer.u64(*below);
            (EVICTED, 0)
        }
        Record::Namespace(namespace) => {
            settings::encode_namespace(&mut writer, namespace);
            (NAMESPACE, 0)
        }
        Record::NamespaceGone => (NAMESPACE_GONE, 0),
    };
    let bytes = out.len() - start;
    let body = u32::try_from(bytes - HEADER_BYTES)
        .expect("a record fits its segment, which is at most 256 MiB");
    let header = &mut out[start..start + HEADER_BYTES];
    header[4..8].copy_from_slice(&body.to_le_bytes());
    header[8] = kind;
    header[9] = cause;
    header[12..16].copy_from_slice(&namespace.to_le_bytes());
    let crc = crc32c::crc32c(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    let padded = usize::try_from(align_up(out.len() as u64)).expect("a frame fits memory");
    out.resize(padded, 0);
    u32::try_from(bytes).expect("checked above through the body")
}

/// Returns the bytes of the record that starts here, with its header, without padding.
pub(crate) fn bytes_of(header: &[u8]) -> Option<u64> {
    let length = header.get(4..8)?;
    Some(HEADER_BYTES as u64 + u64::from(u32::from_le_bytes(length.try_into().ok()?)))
}

/// The fields of a record's header that decoding needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) cause: u8,
    pub(crate) namespace: u32,
}

/// Checks the record at the beginning of `bytes` against its checksum. Returns its header and body.
pub(crate) fn check(bytes: &[u8]) -> Result<(Header, &[u8]), DecodeError> {
    let total = bytes_of(bytes).ok_or(DecodeError::Truncated(bytes.len()))?;
    let total = usize::try_from(total).map_err(|_| DecodeError::Truncated(bytes.len()))?;
    let bytes = bytes.get(..total).ok_or(DecodeError::Truncated(bytes.len()))?;
    let mut header = FieldReader::new(bytes);
    let crc = header.u32()?;
    if crc32c::crc32c(&bytes[4..]) != crc {
        return Err(DecodeError::Checksum);
    }
    let (_length, kind, cause, _reserved) =
        (header.u32()?, header.u8()?, header.u8()?, header.u16()?);
    let namespace = header.u32()?;
    Ok((Header { kind, cause, namespace }, &bytes[HEADER_BYTES..]))
}

/// Checks and decodes the record at the beginning of `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let (Header { kind, cause, namespace }, body) = check(bytes)?;
    let mut body = FieldReader::new(body);
    let record = match kind {
        PENDING => Record::Pending(cause_of(cause)?, Box::new(timer::decode(&mut body)?)),
        DEAD => Record::Dead(cause_of(cause)?, Box::new(timer::decode(&mut body)?)),
        ENDED => {
            let expires_at = match body.u64()? {
                0 => None,
                ms => Some(Timestamp::saturating_from_unix_ms(ms)),
            };
            let number = body.u32()?;
            Record::Ended { tombstone: Box::new(tombstone::decode(&mut body)?), expires_at, number }
        }
        LEASE => {
            let lease = Lease::decode(&mut body)?;
            Record::Lease { lease, id: TimerId::new(body.text()?)? }
        }
        PURGED => Record::Purged { letter: body.array()?, timer: body.array()? },
        LOST => Record::Lost { key: body.array()? },
        EVICTED => Record::Evicted { below: body.u64()? },
        NAMESPACE => Record::Namespace(Box::new(settings::decode_namespace(&mut body)?)),
        NAMESPACE_GONE => Record::NamespaceGone,
        other => return Err(DecodeError::unknown("record kind", other)),
    };
    if !body.is_done() {
        return Err(DecodeError::Impossible("bytes left over after the record".into()));
    }
    Ok(Decoded { namespace, record })
}

impl Lease {
    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u64(self.nonce);
        writer.u32(self.attempt);
        writer.u8(u8::from(self.node.is_some())
            | u8::from(self.extends) << 1
            | u8::from(self.stopped) << 2);
        writer.u64(self.node.unwrap_or(0));
        writer.time(self.claimed_at);
        writer.u64(self.lease_ms);
        writer.time(self.until);
    }

    pub(crate) fn decode(body: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (nonce, attempt, flags, node) = (body.u64()?, body.u32()?, body.u8()?, body.u64()?);
        Ok(Self {
            nonce,
            attempt,
            node: (flags & 1 != 0).then_some(node),
            extends: flags & 2 != 0,
            stopped: flags & 4 != 0,
            claimed_at: body.time()?,
            lease_ms: body.u64()?,
            until: body.time()?,
        })
    }
}

#[cfg(test)]
mod tests;
