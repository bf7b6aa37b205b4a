//! A namespace in a checkpoint.
//!
//! ```text
//! 0  number  u32
//! 4  lsn     u64  of the newest record whose effect on the totals is in them
//!    counts  4 x u64  about how many entries of each index follow, to reserve memory
//!    body         as in a namespace's record: name, times, totals, settings
//!    lanes   u32  how many, then of each, ascending:
//!                 number u8, key text: "" follows the namespace, "pull", "overflow", or an origin
//! ```

use duly_core::destination::LaneKey;

use crate::format::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    record::NamespaceRecord,
    settings,
};

/// The copy of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Namespace {
    pub(crate) number: u32,
    /// Records up to this lsn are already counted in the totals.
    pub(crate) lsn: u64,
    pub(crate) record: NamespaceRecord,
    /// Lanes, by number.
    pub(crate) lanes: Vec<Lane>,
    /// Approximate number of entries of each index that follow: a hint.
    pub(crate) counts: [u64; 4],
}

/// A lane and its number in index entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) number: u8,
    /// `None` for the lane that follows the namespace's own destination.
    pub(crate) key: Option<LaneKey>,
}

impl Namespace {
    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u32(self.number);
        writer.u64(self.lsn);
        for count in self.counts {
            writer.u64(count);
        }
        settings::encode_namespace(writer, &self.record);
        let lanes = u32::try_from(self.lanes.len()).expect("lanes have numbers of one byte");
        writer.u32(lanes);
        for lane in &self.lanes {
            writer.u8(lane.number);
            writer.text(lane.key.as_ref().map_or("", LaneKey::label));
        }
    }

    pub(super) fn decode(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (number, lsn) = (reader.u32()?, reader.u64()?);
        let counts = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let record = settings::decode_namespace(reader)?;
        // Ascending numbers of one byte: there are never more than 256.
        let mut lanes: Vec<Lane> = Vec::new();
        for _ in 0..reader.u32()? {
            let lane = Lane { number: reader.u8()?, key: key_of(reader.text()?) };
            if lanes.last().is_some_and(|last| last.number >= lane.number) {
                return Err(DecodeError::Impossible("the lanes are not sorted".into()));
            }
            lanes.push(lane);
        }
        Ok(Self { number, lsn, record, lanes, counts })
    }
}

/// Origins are `scheme://host:port`, so they cannot equal the labels of the other lanes.
fn key_of(label: &str) -> Option<LaneKey> {
    if label.is_empty() {
        return None;
    }
    let named = [LaneKey::Pull, LaneKey::Overflow].into_iter().find(|key| key.label() == label);
    Some(named.unwrap_or_else(|| LaneKey::Origin(label.into())))
}
