//! What a caller asks for: a schedule, and a change of one.

use crate::{
    Destination, Millis, Payload, RetryPolicy, TimerId, Timestamp, headers::Headers,
    invalid::Invalid,
};

/// Most tags of one timer.
pub const TAGS_MAX: usize = 16;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// Longest `slot_key`, in bytes.
pub const SLOT_KEY_BYTES_MAX: usize = 256;

/// When a timer is to be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At a point in time, past ones included.
    At(Timestamp),
    /// This long after the store takes it.
    After(Millis),
}

impl When {
    /// The due time, given the store's own time.
    pub fn due_at(self, now: Timestamp) -> Result<Timestamp, Invalid> {
        match self {
            Self::At(due_at) => Ok(due_at),
            Self::After(delay) => after(now, delay),
        }
    }
}

/// Returns the time this long from now.
///
/// # Errors
/// When it lies past 2200-01-01.
pub(crate) fn after(now: Timestamp, delay: Millis) -> Result<Timestamp, Invalid> {
    now.checked_add(delay).ok_or_else(|| {
        Invalid::new("delay", delay, "short enough that the timer is due before 2200-01-01")
    })
}

/// What a POST of an id that is taken by another request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Refuse it.
    #[default]
    Fail,
    /// Answer the existing timer.
    Keep,
    /// Put the new timer in its place.
    Replace,
}

/// A request to deliver a payload at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The caller's id, or one made by the server.
    pub id: TimerId,
    /// When it is due.
    pub when: When,
    /// All that the timer takes over as it is.
    pub spec: TimerSpec,
}

/// The fields of a timer that its caller chooses and that say nothing of its id and due time: a schedule
/// gives them, the timer keeps them, and a change replaces them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimerSpec {
    /// The payload that is delivered.
    pub payload: Option<Payload>,
    /// Headers that travel with it.
    pub headers: Headers,
    /// Tags to find it by.
    pub tags: Tags,
    /// Key by which a broker partitions; never places the timer.
    pub slot_key: Option<SlotKey>,
    /// Its own destination; the namespace's when absent.
    pub destination: Option<Destination>,
    /// Its own retry policy; the namespace's when absent.
    pub retry: Option<RetryPolicy>,
    /// Later than this after due it becomes a dead letter.
    pub expire_after: Option<Millis>,
    /// W3C trace context of the call that scheduled it; not part of the request hash.
    pub trace_parent: Option<String>,
}

impl Schedule {
    /// Returns a schedule with an id and a time and nothing else.
    pub fn new(id: TimerId, when: When) -> Self {
        Self { id, when, spec: TimerSpec::default() }
    }
}

impl TimerSpec {
    /// Returns the bytes of its payload.
    pub fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64)
    }

    /// Returns the bytes of its payload and headers.
    pub fn content_bytes(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        self.payload_bytes() + headers.sum::<usize>() as u64
    }
}

/// Up to [`TAGS_MAX`] distinct tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Checks and takes tags.
    pub fn new(tags: Vec<String>) -> Result<Self, Invalid> {
        if tags.len() > TAGS_MAX {
            return Err(Invalid::new(
                "",
                format!("{} tags", tags.len()),
                format!("at most {TAGS_MAX} tags"),
            ));
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

    /// Tags that were checked when they were taken: what was accepted stays, also when the rules of
    /// [`Self::new`] have become stricter since.
    pub const fn from_stored(tags: Vec<String>) -> Self {
        Self(tags)
    }

    /// The tags, in the caller's order.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Key by which a broker partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotKey(String);

impl SlotKey {
    /// A key that was checked when it was taken: what was accepted stays, also when the rules of
    /// [`Self::new`] have become stricter since.
    pub const fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// Checks and takes a key.
    pub fn new(text: String) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > SLOT_KEY_BYTES_MAX || text.chars().any(char::is_control)
        {
            let allowed =
                format!("1 to {SLOT_KEY_BYTES_MAX} bytes of UTF-8 without control characters");
            return Err(Invalid::new("", text, allowed));
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One field of a change: absent keeps, `null` resets, a value replaces whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Back to its default.
    Reset,
    /// This instead.
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
    /// Whether the field stays as it is.
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
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
    /// Returns the bytes of the payload that it sets.
    pub const fn payload_bytes(&self) -> u64 {
        match &self.payload {
            Change::Set(payload) => payload.bytes.len() as u64,
            Change::Keep | Change::Reset => 0,
        }
    }

    /// Whether it changes nothing.
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
