//! The request hash: distinguishes a repetition of a request from another request with the same id (P6).
//!
//! It is 128 bits of xxh3 over every field of the request as it was sent (a `delay` as a delay), each tagged
//! and with its length. `if_exists` and the trace context are not part of it. The encoding is frozen,
//! because stored hashes are compared with new ones.

use crate::{
    RetryPolicy, Schedule,
    hash_feed::Feed,
    payload::Form,
    schedule::{TimerSpec, When},
};

/// The hash of a request as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestHash(pub u128);

impl RequestHash {
    /// Hashes a request.
    pub fn of(schedule: &Schedule) -> Self {
        let mut feed = Feed::default();
        match schedule.when {
            When::At(due_at) => feed.number(b'a', due_at.unix_ms()),
            When::After(delay) => feed.number(b'd', delay.ms()),
        }
        // Each field is named here, so that a new field is a compile error until it is hashed.
        let TimerSpec {
            payload,
            headers,
            tags,
            slot_key,
            destination,
            retry,
            expire_after,
            trace_parent: _,
        } = &schedule.spec;
        if let Some(payload) = payload {
            let tag = match payload.form {
                Form::Json => b'j',
                Form::Text => b't',
                Form::Binary => b'b',
            };
            feed.bytes(tag, &payload.bytes);
        }
        feed.headers(headers);
        for tag in tags.as_slice() {
            feed.bytes(b'g', tag.as_bytes());
        }
        if let Some(key) = slot_key {
            feed.bytes(b's', key.as_str().as_bytes());
        }
        if let Some(destination) = destination {
            destination.hash_into(&mut feed);
        }
        if let Some(retry) = retry {
            feed.retry(retry);
        }
        if let Some(expire_after) = expire_after {
            feed.number(b'x', expire_after.ms());
        }
        Self(feed.digest())
    }
}

impl Feed {
    fn retry(&mut self, retry: &RetryPolicy) {
        match retry {
            RetryPolicy::Exponential(policy) => {
                self.number(b'n', u64::from(policy.max_attempts));
                self.number(b'i', policy.min_backoff.ms());
                self.number(b'm', policy.max_backoff.ms());
                self.number(b'f', policy.multiplier.to_bits());
                self.number(b'r', policy.jitter.to_bits());
            }
            RetryPolicy::Delays(waits) => {
                for wait in waits {
                    self.number(b'w', wait.ms());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Destination, Millis, Payload, TimerId, Timestamp, headers::Headers, schedule::Tags,
    };

    fn base() -> Schedule {
        Schedule::new(TimerId::new("a").unwrap(), When::After(Millis::from_secs(1)))
    }

    #[test]
    fn p6_every_field_but_the_trace_counts() {
        let hash = RequestHash::of(&base());
        let differs = |change: fn(&mut Schedule)| {
            let mut other = base();
            change(&mut other);
            assert_ne!(RequestHash::of(&other), hash);
        };
        differs(|s| s.when = When::After(Millis::from_secs(2)));
        differs(|s| s.when = When::At(Timestamp::from_unix_ms(1_000).unwrap()));
        differs(|s| s.spec.payload = Some(Payload { form: Form::Text, bytes: "x".into() }));
        differs(|s| s.spec.headers = Headers::new([("a".into(), "b".into())]).unwrap());
        differs(|s| s.spec.tags = Tags::new(vec!["t".into()]).unwrap());
        differs(|s| s.spec.destination = Some(Destination::Pull));
        differs(|s| s.spec.retry = Some(RetryPolicy::default()));
        differs(|s| s.spec.expire_after = Some(Millis::ZERO));
        let mut traced = base();
        traced.spec.trace_parent = Some("00-1-2-00".into());
        assert_eq!(RequestHash::of(&traced), hash);
    }

    #[test]
    fn p6_the_hash_is_frozen() {
        assert_eq!(RequestHash::of(&base()).0, GOLDEN);
    }

    const GOLDEN: u128 = 121_186_618_506_749_807_449_773_829_672_237_313_334;
}
