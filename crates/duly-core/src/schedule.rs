//! Requests of a caller: a schedule, and a change of a timer.

use crate::{
    Destination, Millis, Payload, RetryPolicy, TimerId, Timestamp, headers::Headers,
    invalid::Invalid,
};

/// Largest number of tags of one timer.
pub const TAGS_MAX: usize = 16;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// Shortest time from the due time to the expiry of a timer.
pub const EXPIRE_AFTER_MIN: Millis = Millis::from_secs(1);
/// Longest `slot_key`, in bytes.
pub const SLOT_KEY_BYTES_MAX: usize = 256;

/// The requested due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A point in time, which may be in the past.
    At(Timestamp),
    /// A delay from the time at which the store accepts the request.
    After(Millis),
}

impl When {
    /// Returns the due time, given the store's own time.
    pub fn due_at(self, now: Timestamp) -> Result<Timestamp, Invalid> {
        match self {
            Self::At(due_at) => Ok(due_at),
            Self::After(delay) => after(now, delay),
        }
    }
}

/// Returns the time `delay` after `now`.
///
/// # Errors
/// When it lies past 2200-01-01.
pub(crate) fn after(now: Timestamp, delay: Millis) -> Result<Timestamp, Invalid> {
    now.checked_add(delay).ok_or_else(|| {
        Invalid::new("delay", delay, "short enough that the timer is due before 2200-01-01")
    })
}

/// The mode of a schedule for an id that is taken: by another request, and for [`Self::Restart`] by any request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Refuses the request.
    #[default]
    Fail,
    /// Returns the existing timer.
    Keep,
    /// Replaces the existing timer.
    Replace,
    /// Replaces the existing timer, also if the same request made it: its time starts again.
    Restart,
}

/// A request to deliver a payload at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The caller's id, or one made by the server.
    pub id: TimerId,
    /// The requested due time.
    pub when: When,
    /// All other fields of the timer.
    pub spec: TimerSpec,
}

/// All that a schedule gives a timer besides its id and due time. A change can replace the payload, headers,
/// tags, destination and retry policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimerSpec {
    /// The payload that is delivered.
    pub payload: Option<Payload>,
    /// Headers that travel with it.
    pub headers: Headers,
    /// Tags for lists and cancels.
    pub tags: Tags,
    /// Key by which a broker partitions. It does not affect where the timer is stored.
    pub slot_key: Option<SlotKey>,
    /// Its own destination; if absent, the destination of the namespace.
    pub destination: Option<Destination>,
    /// Its own retry policy; if absent, the policy of the namespace.
    pub retry: Option<RetryPolicy>,
    /// Time after the due time at which the timer expires and becomes a dead letter.
    pub expire_after: Option<Millis>,
    /// W3C trace context of the call that scheduled it; not part of the request hash.
    pub trace_parent: Option<String>,
}

impl Schedule {
    /// Creates a schedule with an id and a time and nothing else.
    pub fn new(id: TimerId, when: When) -> Self {
        Self { id, when, spec: TimerSpec::default() }
    }
}

impl TimerSpec {
    /// Returns the size of its payload, in bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64)
    }
}

/// Up to [`TAGS_MAX`] distinct tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Creates tags, after checking them.
    pub fn new(tags: Vec<String>) -> Result<Self, Invalid> {
        if tags.len() > TAGS_MAX {
            let (seen, allowed) =
                (format!("{} tags", tags.len()), format!("at most {TAGS_MAX} tags"));
            return Err(Invalid::new("", seen, allowed));
        }
        for (i, tag) in tags.iter().enumerate() {
            if tag.is_empty() || tag.len() > TAG_BYTES_MAX || tag.chars().any(char::is_control) {
                let allowed =
                    format!("1 to {TAG_BYTES_MAX} bytes of UTF-8 without control characters");
                return Err(Invalid::new(format!("[{i}]"), tag, allowed));
            }
        }
        Ok(Self(tags))
    }

    /// Creates tags that were checked when they were accepted. Accepted tags stay valid, even if the rules
    /// of [`Self::new`] have become stricter since.
    pub const fn from_stored(tags: Vec<String>) -> Self {
        Self(tags)
    }

    /// Returns the tags, in the caller's order.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Returns `true` if there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A key by which a broker partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotKey(String);

impl SlotKey {
    /// Creates a key that was checked when it was accepted. An accepted key stays valid, even if the rules
    /// of [`Self::new`] have become stricter since.
    pub const fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// Creates a key, after checking it.
    pub fn new(text: String) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > SLOT_KEY_BYTES_MAX || text.chars().any(char::is_control)
        {
            let allowed =
                format!("1 to {SLOT_KEY_BYTES_MAX} bytes of UTF-8 without control characters");
            return Err(Invalid::new("", text, allowed));
        }
        Ok(Self(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The change of one field: absent keeps it, `null` resets it, a value replaces it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// Keeps the field.
    #[default]
    Keep,
    /// Resets the field to its default.
    Reset,
    /// Replaces the field.
    Set(T),
}

impl<T: Default> Change<T> {
    /// Writes the change into a field whose default is the type's.
    pub fn write_to(self, field: &mut T) {
        match self {
            Self::Keep => {}
            Self::Reset => *field = T::default(),
            Self::Set(value) => *field = value,
        }
    }
}

impl<T> Change<T> {
    /// Returns `true` if the field stays as it is.
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Returns the new value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Reset => None,
        }
    }

    /// Writes the change into a field that may be absent.
    pub fn write_to_option(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Reset => *field = None,
            Self::Set(value) => *field = Some(value),
        }
    }
}

/// A change of a pending timer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// A new due time.
    pub when: Option<When>,
    /// The payload.
    pub payload: Change<Payload>,
    /// The headers.
    pub headers: Change<Headers>,
    /// The tags.
    pub tags: Change<Tags>,
    /// The destination.
    pub destination: Change<Destination>,
    /// The retry policy.
    pub retry: Change<RetryPolicy>,
}

impl Patch {
    /// Returns the size of the payload that it sets, in bytes.
    pub const fn payload_bytes(&self) -> u64 {
        match self.payload.value() {
            Some(payload) => payload.bytes.len() as u64,
            None => 0,
        }
    }

    /// Returns `true` if it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p12_a_delay_past_2200_is_an_error_never_now() {
        let now = Timestamp::from_unix_ms(1_900_000_000_000).unwrap();
        for delay in
            [Millis::MAX, Millis::from_ms(i64::MAX as u64), Millis::from_secs(6_000_000_000)]
        {
            assert_eq!(When::After(delay).due_at(now).unwrap_err().field, "delay");
        }
        assert_eq!(When::After(Millis::ZERO).due_at(now), Ok(now));
        assert_eq!(
            When::After(Millis::from_ms(1 << 32)).due_at(now).unwrap().unix_ms(),
            now.unix_ms() + (1 << 32)
        );
    }

    #[test]
    fn tags_are_bounded() {
        assert!(Tags::new(vec!["a".into(); 16]).is_ok());
        assert!(Tags::new(vec!["a".into(); 17]).is_err());
        assert_eq!(Tags::new(vec!["a".into(), String::new()]).unwrap_err().field, "[1]");
        assert!(Tags::new(vec!["x".repeat(65)]).is_err());
    }
}
