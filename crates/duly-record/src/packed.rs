//! The packed form of a timer, for stores that keep records in a database.
//!
//! ```text
//!  0 format u8 = 4 | 1 flags u8 | 2 lane u8 | 3 size u32 | 7 bytes of the core u16
//!  9 created_at u48 | 15 due_at u48 | 21 incarnation u64 | 29 request_hash u128 | 45 present u16
//! 47 the fields that `present` names, in the order of its bits           } up to here: the core
//!    content: tagged fields (payload, headers, tags, destination, …)
//! ```
//!
//! Numbers are big-endian; `u48` is a time in Unix milliseconds. Flags: 1 it is retried (its lane set is
//! `r`), 2 its payload is stored apart, 4 it may expire. `size` counts the content before compression and the
//! reasons of failed attempts. A timer without any event yet takes 47 bytes and its content. An inline payload has
//! 3 to 6 bytes in front and is compressed if that saves enough (`content.rs`). The id is not in the record: the
//! store keeps it as the key.
//!
//! Invariants:
//!
//! 1. The scripts of a store read only the first 21 bytes. They write created_at, due_at and lane of a new timer.
//! 2. The core holds everything that a tombstone keeps.
//! 3. The core differs after every change, so a store can compare it instead of the record.
//! 4. A payload of more than [`INLINE_MAX`] bytes is stored apart, behind the eight bytes of its version. The record
//!    names the version, so a payload is never delivered with the record of another timer.

use std::ops::Range;

use bytes::Bytes;
use duly_core::{Incarnation, Payload, Timer, TimerId, payload::Form, request_hash::RequestHash};

mod content;
mod fields;
#[cfg(test)]
mod tests;

use crate::{
    ReadFields as _, WriteFields as _,
    values::{
        decode_attempt, decode_dead_letter, decode_settled, encode_attempt, encode_dead_letter,
        encode_settled,
    },
};
pub use content::{decode_settings, encode_settings};
pub use fields::{Reader, Result, Unreadable, Writer};

/// Format of the records.
pub const FORMAT: u8 = 4;
/// Largest payload, in bytes, that is stored in the record itself.
pub const INLINE_MAX: usize = 4_096;

/// Bytes of created_at and due_at, which a script writes when a timer is made.
pub const TIMES: Range<usize> = 9..21;

const RETRY: u8 = 1;
const APART: u8 = 2;
const MAY_EXPIRE: u8 = 4;

const UPDATED: u16 = 1;
const REVISION: u16 = 1 << 1;
const OCCURRENCE: u16 = 1 << 2;
const ATTEMPTS: u16 = 1 << 3;
const BUDGET: u16 = 1 << 4;
const NEXT: u16 = 1 << 5;
const FIRED: u16 = 1 << 6;
const MAYBE: u16 = 1 << 7;
const SETTLED: u16 = 1 << 8;
const DEATH: u16 = 1 << 9;
const HISTORY: u16 = 1 << 10;
/// Older builds ignore this bit, and leave it out when they write the record.
const STOPPED: u16 = 1 << 11;

/// Lanes whose number does not depend on the namespace: that of timers that follow its destination, and
/// that of pulled timers. The scripts give every origin a number of its own.
const FOLLOW: u8 = 0;
const PULL: u8 = 1;

/// A timer, with the location of its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The timer.
    pub timer: Timer,
    /// The payload, if it is stored apart. `timer.payload` is then present only if it was read.
    pub apart: Option<SeparatePayload>,
    /// Number of the lane, as the scripts know it.
    pub lane: u8,
    /// `true`: no attempt follows the one under way. Only a leased timer is stopped.
    pub stopped: bool,
}

/// A payload that is stored apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeparatePayload {
    /// Its form.
    pub form: Form,
    /// Its version, which the record names.
    pub version: [u8; 8],
    /// Length before compression.
    pub bytes: u64,
    /// `true`: it is stored as an LZ4 block.
    pub compressed: bool,
}

/// A record in the form in which it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    /// The record.
    pub record: Vec<u8>,
    /// A payload to be stored apart, with its version in front.
    pub payload: Option<Vec<u8>>,
}

impl Record {
    /// Returns a record of a timer in the lane of its destination. The scripts work out the number of an
    /// origin's lane.
    pub fn of(timer: Timer) -> Self {
        let lane = if timer.spec.destination.is_none() { FOLLOW } else { PULL };
        Self { timer, apart: None, lane, stopped: false }
    }

    /// Packs the record. A large payload that is not stored yet gets `version`.
    pub fn pack(&self, version: [u8; 8]) -> Packed {
        let timer = &self.timer;
        let large = timer.spec.payload.as_ref().filter(|payload| payload.bytes.len() > INLINE_MAX);
        let fresh = large.filter(|_| self.apart.is_none()).map(|payload| {
            let (form, bytes) = (payload.form, payload.bytes.len() as u64);
            let block = content::compressed(&payload.bytes);
            let apart = SeparatePayload { form, version, bytes, compressed: block.is_some() };
            (apart, [&version[..], block.as_deref().unwrap_or(&payload.bytes)].concat())
        });
        let (fresh, payload) = fresh.unzip();
        let apart = self.apart.as_ref().or(fresh.as_ref());
        let size = timer.content_bytes() + self.missing_bytes();

        let mut w = Writer::default();
        let flag = |on: bool, flag| if on { flag } else { 0 };
        w.u8(FORMAT);
        w.u8(flag(timer.next_attempt_at.is_some(), RETRY)
            | flag(apart.is_some(), APART)
            | flag(timer.spec.expire_after.is_some(), MAY_EXPIRE));
        w.u8(self.lane);
        w.raw(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
        w.raw(&[0; 2]);
        w.time(timer.created_at);
        w.time(timer.due_at);
        encode_core(&mut w, timer, self.stopped);
        let core = u16::try_from(w.0.len()).expect("16 attempts with 1 KiB each are the most");
        w.0[7..9].copy_from_slice(&core.to_be_bytes());
        content::encode(&mut w, &timer.spec, apart);
        Packed { record: w.0, payload }
    }

    /// Packs the core of a record without content.
    pub fn packed_core(&self) -> Vec<u8> {
        let mut record = self.pack([0; 8]).record;
        let core = core_of(&record).map_or(0, <[u8]>::len);
        record.truncate(core);
        record
    }

    /// Unpacks a record, without a payload that is stored apart.
    ///
    /// # Errors
    /// For bytes that the format does not write.
    pub fn unpack(id: TimerId, bytes: &[u8]) -> Result<Self> {
        let mut r = Reader(bytes);
        let Head { mut timer, lane, core, stopped } = decode_head(&mut r, id)?;
        let mut content = Reader(bytes.get(core..).ok_or(Unreadable::Short)?);
        let apart = content::decode(&mut content, &mut timer.spec)?;
        Ok(Self { timer, apart, lane, stopped })
    }

    /// Attaches the payload to the record if it is its own. Returns `true` if it is.
    ///
    /// # Errors
    /// For a block that cannot be decompressed.
    pub fn attach(&mut self, stored: &Bytes) -> Result<bool> {
        let Some(apart) = &self.apart else { return Ok(true) };
        let own = stored.get(..8) == Some(&apart.version[..]);
        if own {
            let bytes = match apart.compressed {
                true => content::decompressed(&stored[8..], apart.bytes)?,
                false => stored.slice(8..),
            };
            self.timer.spec.payload = Some(Payload { form: apart.form, bytes });
        }
        Ok(own)
    }

    /// Returns the bytes of the payload if it is stored apart and was not read, else 0.
    pub fn missing_bytes(&self) -> u64 {
        self.apart.as_ref().filter(|_| self.lacks_payload()).map_or(0, |apart| apart.bytes)
    }

    /// Returns `true` if the payload is stored apart and was not read.
    pub const fn lacks_payload(&self) -> bool {
        self.apart.is_some() && self.timer.spec.payload.is_none()
    }
}

/// Returns the core of a record, which is compared, and which a tombstone keeps.
///
/// # Errors
/// For bytes that are too short.
pub fn core_of(record: &[u8]) -> Result<&[u8]> {
    if record.is_empty() {
        return Ok(record);
    }
    let length = record.get(7..9).ok_or(Unreadable::Short)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    record.get(..length).ok_or(Unreadable::Short)
}

/// Unpacks a core alone: the timer without its content.
///
/// # Errors
/// For bytes that the format does not write.
pub fn unpack_core(id: TimerId, core: &[u8]) -> Result<Timer> {
    Ok(decode_head(&mut Reader(core), id)?.timer)
}

fn encode_core(w: &mut Writer, timer: &Timer, stopped: bool) {
    w.word(timer.incarnation.0);
    w.raw(&timer.request_hash.0.to_be_bytes());
    let bit = |on: bool, bit| if on { bit } else { 0 };
    let present = bit(timer.updated_at != timer.created_at, UPDATED)
        | bit(timer.revision != 1, REVISION)
        | bit(timer.occurrence != 0, OCCURRENCE)
        | bit(timer.attempts != 0, ATTEMPTS)
        | bit(timer.budget_from != 0, BUDGET)
        | bit(timer.next_attempt_at.is_some(), NEXT)
        | bit(timer.fired_at.is_some(), FIRED)
        | bit(timer.maybe_delivered, MAYBE)
        | bit(timer.last_settled.is_some(), SETTLED)
        | bit(timer.dead_letter.is_some(), DEATH)
        | bit(!timer.history.is_empty(), HISTORY)
        | bit(stopped, STOPPED);
    w.raw(&present.to_be_bytes());
    if timer.updated_at != timer.created_at {
        w.time(timer.updated_at);
    }
    let counts =
        [(timer.revision, 1), (timer.occurrence, 0), (timer.attempts, 0), (timer.budget_from, 0)];
    for (count, usual) in counts {
        if count != usual {
            w.number(u64::from(count));
        }
    }
    for time in [timer.next_attempt_at, timer.fired_at].into_iter().flatten() {
        w.time(time);
    }
    if let Some(settled) = timer.last_settled {
        encode_settled(w, settled);
    }
    if let Some(dead_letter) = timer.dead_letter {
        encode_dead_letter(w, dead_letter);
    }
    if !timer.history.is_empty() {
        w.number(timer.history.len() as u64);
        timer.history.iter().for_each(|attempt| encode_attempt(w, attempt));
    }
}

/// Head and core of a record.
struct Head {
    timer: Timer,
    lane: u8,
    /// Length of the core.
    core: usize,
    stopped: bool,
}

/// Reads head and core.
fn decode_head(r: &mut Reader<'_>, id: TimerId) -> Result<Head> {
    let format = r.u8()?;
    if format != FORMAT {
        return Err(Unreadable::Unknown { what: "format", value: u64::from(format) });
    }
    let (_flags, lane) = (r.u8()?, r.u8()?);
    let _size = r.u32()?;
    let core = usize::from(r.u16()?);
    let (created_at, due_at) = (r.time()?, r.time()?);
    let incarnation = Incarnation(r.word()?);
    let request_hash = RequestHash(u128::from_be_bytes(r.array()?));
    let present = r.u16()?;
    let has = |bit: u16| present & bit != 0;
    let updated_at = if has(UPDATED) { r.time()? } else { created_at };
    let mut count = |bit, usual| if has(bit) { r.count() } else { Ok(usual) };
    let revision = count(REVISION, 1)?;
    let occurrence = count(OCCURRENCE, 0)?;
    let attempts = count(ATTEMPTS, 0)?;
    let budget_from = count(BUDGET, 0)?;
    let next_attempt_at = if has(NEXT) { Some(r.time()?) } else { None };
    let fired_at = if has(FIRED) { Some(r.time()?) } else { None };
    let last_settled = if has(SETTLED) { Some(decode_settled(r)?) } else { None };
    let dead_letter = if has(DEATH) { Some(decode_dead_letter(r)?) } else { None };
    let mut history = Vec::new();
    for _ in 0..if has(HISTORY) { r.number()? } else { 0 } {
        history.push(decode_attempt(r)?);
    }
    let timer = Timer {
        updated_at,
        revision,
        occurrence,
        attempts,
        budget_from,
        next_attempt_at,
        fired_at,
        maybe_delivered: has(MAYBE),
        history,
        last_settled,
        dead_letter,
        ..Timer::bare(id, due_at, created_at, incarnation, request_hash)
    };
    Ok(Head { timer, lane, core, stopped: has(STOPPED) })
}
