//! Words: values of a fixed set, which have a name in JSON and a number in protobuf.
//!
//! A message holds the number, as protobuf does; `Word` reads and writes the name for serde. A number without
//! a name comes from a newer client: [`Words::known`] refuses it.

use std::{borrow::Cow, fmt, marker::PhantomData};

use duly_core::{Invalid, similar_name::with_similar};
use serde::{Deserializer, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, Schema, Type},
    },
};

/// A set of words.
pub trait Words: Copy + Eq + TryFrom<i32> + Into<i32> + 'static {
    /// Each word with its value. The value 0 has no word: it means that no word is given.
    const ALL: &'static [(&'static str, Self)];

    /// Meaning of the set and of each word, in Markdown.
    const MEANING: &'static str;

    /// Returns the word; empty for the value 0.
    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }

    /// Returns the value of a word.
    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
    }

    /// Returns the value with this number; `None` for 0.
    ///
    /// # Errors
    /// When no value has the number; the error names `field`.
    fn known(field: &str, number: i32) -> Result<Option<Self>, Invalid> {
        match Self::try_from(number) {
            Ok(_) if number == 0 => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(_) => {
                Err(Invalid::new(field, number, "a value of its enum (see the .proto files)"))
            }
        }
    }
}

/// Describes the allowed words.
fn one_of<T: Words>() -> String {
    let words: Vec<_> = T::ALL.iter().map(|(word, _)| *word).collect();
    format!("one of {}", words.join(", "))
}

/// Reads and writes a number, or one that may be absent, as its word: for `#[serde(with = "Word::<T>")]`.
pub(crate) struct Word<T>(PhantomData<T>);

impl<T: Words> Word<T> {
    pub(crate) fn serialize<N: Copy + Into<Option<i32>>, S: Serializer>(
        number: &N,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let value = T::try_from((*number).into().unwrap_or_default());
        serializer.serialize_str(value.map_or("", T::as_str))
    }

    pub(crate) fn deserialize<'de, N: From<i32>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<N, D::Error> {
        deserializer.deserialize_any(WordVisitor::<T>(PhantomData)).map(N::from)
    }
}

/// Returns `true` for 0, so that serde leaves out a word that is not given.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(crate) const fn is_unspecified(number: &i32) -> bool {
    *number == 0
}

struct WordVisitor<T>(PhantomData<T>);

impl<T: Words> de::Visitor<'_> for WordVisitor<T> {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_of::<T>())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i32, E> {
        let value = T::parse(text).map(Into::into);
        value.ok_or_else(|| {
            let words = T::ALL.iter().map(|(word, _)| *word);
            let allowed = with_similar(one_of::<T>(), text, words);
            E::invalid_value(de::Unexpected::Str(text), &&*allowed)
        })
    }

    fn visit_unit<E>(self) -> Result<i32, E> {
        Ok(0)
    }
}

pub(crate) fn schema_of<T: Words>() -> RefOr<Schema> {
    let words = T::ALL.iter().map(|(word, _)| *word);
    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
    RefOr::T(Schema::Object(schema.description(Some(T::MEANING)).build()))
}

/// Defines sets of words. The comments are the descriptions in the OpenAPI document.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident {
            $($(#[doc = $value_doc:literal])* $value:ident = $number:literal $word:literal,)+
        }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
        #[repr(i32)]
        pub enum $name {
            /// No word is given.
            Unspecified = 0,
            $($(#[doc = $value_doc])* $value = $number,)+
        }

        impl Words for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),+];
            const MEANING: &'static str =
                concat!($($doc,)* "\n\n", $("- `", $word, "`:", $($value_doc,)* "\n",)+).trim_ascii();
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                schema_of::<Self>()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

/// Converts between a set of words and the enum of the core that has the same values.
macro_rules! same_as_core {
    ($($name:ident = $core:ty { $($value:ident),+ })+) => {$(
        const _: () = {
            type Core = $core;

            impl From<Core> for $name {
                fn from(value: Core) -> Self {
                    match value {
                        $(Core::$value => Self::$value,)+
                    }
                }
            }

            impl $name {
                /// Returns the value of the core; `None` if no word is given.
                pub const fn to_core(self) -> Option<$core> {
                    match self {
                        Self::Unspecified => None,
                        $(Self::$value => Some(Core::$value),)+
                    }
                }
            }
        };
    )+};
}

words! {
    /// The state of a timer.
    State {
        /// Waits for its due time.
        Scheduled = 1 "scheduled",
        /// Its due time has come, and no attempt is under way.
        Due = 2 "due",
        /// Leased: an attempt is under way.
        InFlight = 3 "in_flight",
        /// Waits for its next attempt.
        Retrying = 4 "retrying",
        /// Ended: its delivery was confirmed.
        Finished = 5 "finished",
        /// Ended: its last firing is a dead letter.
        Dead = 6 "dead",
        /// Ended: a caller cancelled it.
        Cancelled = 7 "cancelled",
    }

    /// The effect of a schedule whose id is taken by another request. The default is `fail`. The same request
    /// again returns the existing timer with every value but `restart`; a dead letter is refused then: `dead`.
    /// The id of a cancelled timer is free.
    IfExists {
        /// The schedule is refused: `already_exists` for a pending timer, `finished` or `dead` for an ended
        /// one.
        Fail = 1 "fail",
        /// The existing timer is returned as it is, with `existing`, an ended one too. Nothing changes.
        Keep = 2 "keep",
        /// The new timer takes the place of a pending or ended one. A timer in flight stays, and the schedule
        /// is refused: `in_flight`.
        Replace = 3 "replace",
        /// As `replace`, and the same request again also replaces the timer: its time starts again. So only
        /// the last of many equal calls fires (debounce).
        Restart = 4 "restart",
    }

    /// The reason for which a call changed nothing.
    Unchanged {
        /// The same request made this timer before.
        SameRequest = 1 "same_request",
        /// Another request made this timer, and `if_exists` is `keep`.
        Kept = 2 "kept",
        /// The timer to fire is due or in flight already.
        AlreadyDue = 3 "already_due",
    }

    /// The end of an attempt.
    AttemptOutcome {
        /// The receiver confirmed it.
        Delivered = 1 "delivered",
        /// The receiver or consumer refused it.
        Failed = 2 "failed",
        /// No response in time.
        TimedOut = 3 "timed_out",
        /// No connection, so nothing was sent.
        NotConnected = 4 "not_connected",
        /// The connection broke after something was sent.
        ConnectionLost = 5 "connection_lost",
        /// The lease ended before a verdict.
        LeaseLost = 6 "lease_lost",
        /// The receiver or consumer refused it for good.
        Rejected = 7 "rejected",
    }

    /// The reason for which a firing was dead-lettered.
    DeadReason {
        /// All attempts were used.
        AttemptsSpent = 1 "attempts_spent",
        /// The receiver or consumer refused it for good.
        Rejected = 2 "rejected",
        /// `expire_after` passed.
        Expired = 3 "expired",
        /// Its record is unreadable.
        Corrupt = 4 "corrupt",
        /// An operator dead-lettered it because it was overdue.
        Overdue = 5 "overdue",
    }

    /// The result of a settlement that was not refused.
    SettleOutcome {
        /// The settlement was accepted.
        Ok = 1 "ok",
        /// The settlement was accepted; that retry was the last attempt, so the firing is a dead letter
        /// now.
        Dead = 2 "dead",
        /// The same token was settled the same way before.
        AlreadySettled = 3 "already_settled",
        /// The lease is not held any more; nothing changed.
        LeaseLost = 4 "lease_lost",
        /// The text is not a token of this store or namespace.
        InvalidToken = 5 "invalid_token",
        /// The settlement was accepted; a caller had cancelled the timer during the attempt, so the timer is
        /// cancelled now.
        Cancelled = 6 "cancelled",
    }

    /// A field of a timer that can be reset.
    TimerField {
        /// No payload.
        Payload = 1 "payload",
        /// No headers.
        Headers = 2 "headers",
        /// No tags.
        Tags = 3 "tags",
        /// The destination of the namespace.
        Destination = 4 "destination",
        /// The retry policy of the namespace.
        Retry = 5 "retry",
    }

    /// A setting of a namespace that can be reset to its default.
    NamespaceField {
        /// Pull.
        Destination = 1 "destination",
        /// None.
        Fallback = 2 "fallback",
        /// The default policy.
        Retry = 3 "retry",
        /// 30 s.
        Lease = 4 "lease",
        /// One day.
        Retention = 5 "retention",
        /// 1.
        Weight = 6 "weight",
        /// None: webhooks are not signed.
        SigningSecrets = 7 "signing_secrets",
        /// All defaults.
        Limits = 8 "limits",
    }

    /// The fields of the timers in a list. The default is `full`.
    View {
        /// All of them.
        Full = 1 "full",
        /// Without payload, headers and history.
        Summary = 2 "summary",
    }
}

same_as_core! {
    State = duly_core::State { Scheduled, Due, InFlight, Retrying, Finished, Dead, Cancelled }
    IfExists = duly_core::schedule::IfExists { Fail, Keep, Replace, Restart }
    AttemptOutcome = duly_core::timer::AttemptOutcome {
        Delivered, Failed, TimedOut, NotConnected, ConnectionLost, LeaseLost, Rejected
    }
    DeadReason = duly_core::timer::DeadLetterReason {
        AttemptsSpent, Rejected, Expired, Corrupt, Overdue
    }
}
