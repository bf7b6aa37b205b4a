//! Decodes the effect of a record from its bytes, without building the record.
//!
//! It checks all parts of the effect as [`record::decode`] checks them, and also the checksum, the kind,
//! and the sequence of fields up to the last byte. It skips the fields that only a reader of the whole
//! record needs: payload, headers, tags, history and similar ones.

use duly_core::{Incarnation, TimerId, Timestamp, ids::TIMER_ID_BYTES_MAX, timer::DeadLetter};
use duly_record::{
    ReadFields as _,
    values::{decode_dead_letter, decode_lane_key},
};

use crate::{
    format::{
        DecodeError,
        fields::FieldReader,
        record::{self, Cause, HEADER_BYTES, Header, Lease, cause_of},
        settings, timer, tombstone,
    },
    index::{Key, NAMESPACE_MAX},
};

use super::{DeadLetterOrigin, Effect, Firing, LaneOf, Pending, claimable, expired_from};

/// Bytes of a timer's body that no effect depends on: the hash of its request; then its attempts, the
/// attempt from which their budget counts, and its flags.
const REQUEST_HASH_BYTES: usize = 16;
const ATTEMPTS_AND_FLAGS_BYTES: usize = 4 + 4 + 1;

/// The effect of a record, with two fields of its header.
#[derive(Debug, PartialEq)]
pub(crate) struct Skimmed {
    pub(crate) namespace: u32,
    /// Bytes of the record, without the padding behind it.
    pub(crate) bytes: u64,
    pub(crate) effect: Effect,
}

impl Effect {
    /// Checks the record at the beginning of `bytes` and returns its effect.
    pub(crate) fn skim(hash_key: u128, bytes: &[u8]) -> Result<Skimmed, DecodeError> {
        let (Header { kind, cause, namespace }, body) = record::check(bytes)?;
        if namespace > NAMESPACE_MAX {
            return Err(DecodeError::unknown("namespace", namespace));
        }
        let key = |id: &str| Key::of(hash_key, namespace, id);
        let bytes = (HEADER_BYTES + body.len()) as u64;
        let mut reader = FieldReader::new(body);
        let r = &mut reader;
        let effect = match kind {
            record::PENDING => {
                let (cause, timer) = (cause_of(cause)?, Timer::skim(r)?);
                let redriven = (cause == Cause::Redriven).then(|| timer.firing()).transpose()?;
                let key = key(timer.id);
                Self::pending(timer.pending(key, cause), redriven)
            }
            record::DEAD => {
                let (cause, timer) = (cause_of(cause)?, Timer::skim(r)?);
                let (dead_lettered_ms, dead_letter_origin) =
                    timer.dead_letter.unwrap_or((timer.due_ms, DeadLetterOrigin::Firing));
                let firing = Box::new(timer.firing()?);
                let (key, due_ms) = (key(timer.id), timer.due_ms);
                Self::Dead { key, cause, dead_letter_origin, due_ms, dead_lettered_ms, firing }
            }
            record::ENDED => skim_ended(r, key)?,
            record::LEASE => {
                let lease = Box::new(Lease::decode(r)?);
                Self::Lease { key: key(TimerId::new(r.text()?)?.as_str()), lease }
            }
            record::PURGED => {
                let (letter, timer) = (Key::unpack(r.array()?), Key::unpack(r.array()?));
                Self::Purged { letter, timer }
            }
            record::LOST => Self::Lost { key: Key::unpack(r.array()?) },
            record::EVICTED => Self::Evicted { below: r.u64()? },
            record::NAMESPACE => Self::Namespace(Box::new(settings::decode_namespace(r)?)),
            record::NAMESPACE_GONE => Self::NamespaceGone,
            other => return Err(DecodeError::unknown("record kind", other)),
        };
        if !reader.is_done() {
            return Err(DecodeError::Impossible("bytes left over after the record".into()));
        }
        Ok(Skimmed { namespace, bytes, effect })
    }
}

/// The fields of a timer that an effect can need.
struct Timer<'a> {
    id: &'a str,
    due_ms: u64,
    incarnation: Incarnation,
    occurrence: u32,
    next_attempt_at: Option<Timestamp>,
    lane: LaneOf,
    expires_ms: Option<u64>,
    dead_letter: Option<(u64, DeadLetterOrigin)>,
}

impl<'a> Timer<'a> {
    fn skim(r: &mut FieldReader<'a>) -> Result<Self, DecodeError> {
        let (due_at, _created_at) = (r.time()?, r.time()?);
        let incarnation = Incarnation(r.u64()?);
        r.take(REQUEST_HASH_BYTES)?;
        let (_revision, occurrence) = (r.u32()?, r.u32()?);
        r.take(ATTEMPTS_AND_FLAGS_BYTES)?;
        let mut skimmed = Self {
            id: timer_id(r)?,
            due_ms: due_at.unix_ms(),
            incarnation,
            occurrence,
            next_attempt_at: None,
            lane: LaneOf::Default,
            expires_ms: None,
            dead_letter: None,
        };
        while let Some((tag, mut field)) = r.field()? {
            match tag {
                timer::DESTINATION => skimmed.lane = decode_lane_key(&mut field)?.into(),
                timer::EXPIRE_AFTER => {
                    let expires_at = due_at.saturating_add(field.millis()?);
                    skimmed.expires_ms = Some(expired_from(expires_at));
                }
                timer::NEXT_ATTEMPT_AT => skimmed.next_attempt_at = Some(field.time()?),
                timer::DEATH => {
                    let DeadLetter { at, reason } = decode_dead_letter(&mut field)?;
                    skimmed.dead_letter = Some((at.unix_ms(), DeadLetterOrigin::of(reason)));
                }
                timer::PAYLOAD..=timer::LAST_SETTLED => {}
                other => return Err(timer::unknown_tag(other)),
            }
        }
        Ok(skimmed)
    }

    fn pending(self, key: Key, cause: Cause) -> Pending {
        let claimable = claimable(self.due_ms, self.next_attempt_at);
        let Self { due_ms, lane, expires_ms, .. } = self;
        Pending { key, cause, claimable, due_ms, lane, expires_ms }
    }

    fn firing(&self) -> Result<Firing, DecodeError> {
        let (incarnation, occurrence) = (self.incarnation, self.occurrence);
        Ok(Firing { id: TimerId::new(self.id)?, incarnation, occurrence })
    }
}

fn skim_ended(r: &mut FieldReader<'_>, key: impl Fn(&str) -> Key) -> Result<Effect, DecodeError> {
    let ends_ms = match r.u64()? {
        0 => None,
        ms => Some(Timestamp::saturating_from_unix_ms(ms).unix_ms()),
    };
    let number = r.u32()?;
    let (ended_at, _due_at, _attempts) = (r.time()?, r.time()?, r.u32()?);
    let ended = r.code(&tombstone::ENDED, "end")?;
    let _flags = r.u8()?;
    let key = key(timer_id(r)?);
    let mut has_details = false;
    while let Some((tag, _)) = r.field()? {
        match tag {
            tombstone::DETAILS => has_details = true,
            tombstone::FIRED_AT..=tombstone::UNCOUNTED if has_details => {}
            tombstone::FIRED_AT..=tombstone::UNCOUNTED => {
                return Err(DecodeError::Impossible(
                    "a tombstone's field before its details".into(),
                ));
            }
            other => return Err(timer::unknown_tag(other)),
        }
    }
    let ended_ms = ended_at.unix_ms();
    Ok(Effect::Ended { key, ended, ended_ms, ends_ms, number })
}

/// Reads the next text, which must be a valid timer id. Plain ASCII, as nearly all ids are, is checked
/// here; [`TimerId`] checks the rest.
fn timer_id<'a>(r: &mut FieldReader<'a>) -> Result<&'a str, DecodeError> {
    let id = r.text()?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic()) && id.len() <= TIMER_ID_BYTES_MAX;
    if !is_plain || id.len() <= 2 {
        TimerId::new(id)?;
    }
    Ok(id)
}
