//! Times and durations: [`SystemTime`] and [`Duration`] here, protobuf's own kinds in messages.
//!
//! Duly counts in milliseconds and rounds up what is finer, so that nothing is ever early.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_core::{Invalid, State, Timestamp};
use duly_proto::v1;

/// A time in a message.
pub(crate) fn time_out(field: &str, time: SystemTime) -> Result<prost_types::Timestamp, Invalid> {
    let since = time.duration_since(UNIX_EPOCH).ok();
    let latest = Duration::from_millis(Timestamp::MAX.unix_ms());
    let Some(since) = since.filter(|since| *since <= latest) else {
        return Err(Invalid::unseen(field, "from 1970-01-01 to 2200-01-01"));
    };
    let (seconds, nanos) = parts(since);
    Ok(prost_types::Timestamp { seconds, nanos })
}

/// A duration in a message. One that is too long for the server is refused by it.
pub(crate) fn duration_out(duration: Duration) -> prost_types::Duration {
    let (seconds, nanos) = parts(duration);
    prost_types::Duration { seconds, nanos }
}

fn parts(duration: Duration) -> (i64, i32) {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    (seconds, i32::try_from(duration.subsec_nanos()).unwrap_or(0))
}

/// A time of an answer; none where it makes no sense.
pub(crate) fn time_from(time: prost_types::Timestamp) -> Option<SystemTime> {
    let seconds = u64::try_from(time.seconds).ok()?;
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

/// A duration of an answer; what is negative is none at all.
pub(crate) fn duration_from(duration: prost_types::Duration) -> Duration {
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    Duration::new(u64::try_from(duration.seconds).unwrap_or(0), nanos.unwrap_or(0))
}

/// A time of the contract.
pub(crate) fn moment(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.unix_ms())
}

/// A state of an answer; none where it is not said, or newer than this client.
pub(crate) fn state_from(number: i32) -> Option<State> {
    Some(match v1::State::try_from(number).ok()? {
        v1::State::Unspecified => return None,
        v1::State::Scheduled => State::Scheduled,
        v1::State::Due => State::Due,
        v1::State::InFlight => State::InFlight,
        v1::State::Retrying => State::Retrying,
        v1::State::Finished => State::Finished,
        v1::State::Dead => State::Dead,
        v1::State::Cancelled => State::Cancelled,
    })
}

/// A state in a message.
pub(crate) const fn state_out(state: State) -> v1::State {
    match state {
        State::Scheduled => v1::State::Scheduled,
        State::Due => v1::State::Due,
        State::InFlight => v1::State::InFlight,
        State::Retrying => v1::State::Retrying,
        State::Finished => v1::State::Finished,
        State::Dead => v1::State::Dead,
        State::Cancelled => v1::State::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_comes_back_to_the_nanosecond() {
        for duration in [0, 1, 999, 1_000, 1_700_000_000_123].map(Duration::from_millis) {
            let time = UNIX_EPOCH + duration + Duration::from_nanos(7);
            assert_eq!(time_from(time_out("due_at", time).unwrap()), Some(time));
            assert_eq!(duration_from(duration_out(duration)), duration);
        }
    }

    #[test]
    fn a_time_that_does_not_exist_is_refused_and_never_becomes_another() {
        let early = UNIX_EPOCH - Duration::from_nanos(1);
        let late = UNIX_EPOCH + Duration::from_millis(Timestamp::MAX.unix_ms() + 1);
        for time in [early, late] {
            assert_eq!(time_out("due_at", time).unwrap_err().field, "due_at");
        }
        assert_eq!(time_from(prost_types::Timestamp { seconds: -1, nanos: 0 }), None);
        assert_eq!(time_from(prost_types::Timestamp { seconds: 0, nanos: -1 }), None);
    }

    #[test]
    fn every_state_has_its_number() {
        for state in State::ALL {
            assert_eq!(state_from(state_out(state).into()), Some(state));
        }
        assert_eq!(state_from(0), None);
        assert_eq!(state_from(99), None);
    }
}
