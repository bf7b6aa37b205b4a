//! Finds the lane of a stored destination without decoding it whole.

use duly_core::destination::HttpDestination;

use crate::format::{
    DecodeError,
    fields::FieldReader,
    timer::{self, METHODS},
};

use super::LaneOf;

/// Decodes a destination and returns its lane.
pub(super) fn lane_of(r: &mut FieldReader<'_>) -> Result<LaneOf, DecodeError> {
    match r.u8()? {
        timer::PULL => Ok(LaneOf::Pull),
        timer::HTTP => {
            timer::from_code(&METHODS, r.u8()?, "method")?;
            let _timeout = r.millis()?;
            Ok(LaneOf::Receiver(Box::new(HttpDestination::lane_key_of_stored(r.text()?)?)))
        }
        other => Err(DecodeError::unknown("destination", other)),
    }
}

#[cfg(test)]
mod tests;
