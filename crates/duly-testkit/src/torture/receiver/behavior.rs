//! Behaviour of a receiver: towards one delivery (`ReplyManner`), or towards every connection for a
//! while (`Habit`). Pure.
//!
//! A manner depends only on the seed, the delivery id and the attempt. A habit depends only on the
//! seed and the time since the start. So a seed repeats both.

use std::hash::{BuildHasher, BuildHasherDefault, Hash};
use std::time::Duration;

use rustc_hash::FxHasher;

use crate::history::WebhookReply;
use crate::torture::world::WEBHOOK_TIMEOUT;

/// Duration of a habit of a rude receiver.
const HABIT: Duration = Duration::from_secs(4);

/// Reply to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyManner {
    /// Replies with this status at once.
    Status(u16),
    /// Confirms late: near or after the server's time-out.
    Late(Duration),
    /// Closes without a byte.
    Close,
    /// Closes its own side without a byte and continues to read.
    HalfClose,
    /// Keeps the connection open and never replies.
    Silent,
    /// Replies with bytes that are not HTTP.
    Garbage,
    /// Starts to confirm, byte by byte, and never ends the head.
    DripHead,
    /// Confirms, then sends an endless body, byte by byte.
    DripBody,
    /// Confirms, then sends an endless body at full speed.
    EndlessBody,
    /// Confirms, but sends a shorter body than announced.
    ShortBody,
    /// Confirms, and sends a second response without a request.
    TwoResponses,
    /// Confirms, and resets the connection.
    Reset,
}

impl ReplyManner {
    pub(super) const ALL: [Self; 14] = [
        Self::Status(200),
        Self::Status(503),
        Self::Status(410),
        Self::Late(Duration::from_millis(900)),
        Self::Close,
        Self::HalfClose,
        Self::Silent,
        Self::Garbage,
        Self::DripHead,
        Self::DripBody,
        Self::EndlessBody,
        Self::ShortBody,
        Self::TwoResponses,
        Self::Reset,
    ];

    /// Returns the result for the server: a complete head with 2xx confirms, with anything after
    /// it.
    pub(super) const fn reply(self) -> WebhookReply {
        match self {
            Self::Status(200..=299)
            | Self::DripBody
            | Self::EndlessBody
            | Self::ShortBody
            | Self::TwoResponses => WebhookReply::Confirmed,
            Self::Status(410) => WebhookReply::GaveUp,
            Self::Status(_)
            | Self::Close
            | Self::HalfClose
            | Self::Silent
            | Self::Garbage
            | Self::DripHead => WebhookReply::Rejected,
            Self::Late(_) | Self::Reset => WebhookReply::Unknown,
        }
    }

    /// Chooses a manner by a hash; most confirm.
    pub(super) fn of(seed: u64, delivery_id: &str, attempt: u32) -> Self {
        let hash = hash((seed, delivery_id, attempt));
        match (hash >> 32) % 1_000 {
            0..800 => Self::Status(200),
            800..850 => Self::Status(500),
            850..870 => Self::Status(503),
            870..885 => Self::Status(410),
            885..905 => Self::Late(Duration::from_millis(hash % 900)),
            905..910 => Self::Late(WEBHOOK_TIMEOUT + Duration::from_millis(500)),
            910..940 => Self::Close,
            940..945 => Self::HalfClose,
            945..950 => Self::Silent,
            950..960 => Self::Garbage,
            960..965 => Self::DripHead,
            965..970 => Self::DripBody,
            970..975 => Self::EndlessBody,
            975..980 => Self::ShortBody,
            980..990 => Self::TwoResponses,
            _ => Self::Reset,
        }
    }
}

/// Behaviour of a rude receiver on all connections for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Accepts connections and treats every delivery in the same manner.
    Always(ReplyManner),
    /// Does not listen: connections are refused.
    Down,
    /// Accepts connections and reads nothing.
    Stalled,
    /// Accepts connections and resets them at once.
    Resets,
}

impl Habit {
    /// Chooses a habit by a hash. One in four is good, so the receiver flaps.
    pub(super) fn at(seed: u64, since_start: Duration) -> Self {
        let period = since_start.as_secs() / HABIT.as_secs();
        let hash = hash((seed, "habit", period));
        match (hash >> 32) % 24 {
            0..6 => Self::Always(ReplyManner::Status(200)),
            6..9 => Self::Down,
            9..11 => Self::Stalled,
            11..13 => Self::Resets,
            choice => {
                let rude = &ReplyManner::ALL[1..];
                let i = usize::try_from(choice - 13).expect("fewer than 24");
                Self::Always(rude[(i + usize::try_from(hash % 13).expect("below 13")) % rude.len()])
            }
        }
    }
}

fn hash(of: impl Hash) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(of)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_manners_and_habits_occur_and_repeat_with_the_seed() {
        let manners = |seed| -> Vec<ReplyManner> {
            (0..20_000).map(|n| ReplyManner::of(seed, &format!("fir_{n}"), 1)).collect()
        };
        let kinds: HashSet<_> = manners(7).iter().map(std::mem::discriminant).collect();
        let all: HashSet<_> = ReplyManner::ALL.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds, all);
        assert_eq!(manners(7), manners(7));
        assert_ne!(manners(7), manners(8));
        let habits = (0..4_000).map(|second| Habit::at(7, Duration::from_secs(second)));
        let habits: HashSet<String> = habits.map(|habit| format!("{habit:?}")).collect();
        assert_eq!(habits.len(), ReplyManner::ALL.len() + 3, "{habits:?}");
    }
}
