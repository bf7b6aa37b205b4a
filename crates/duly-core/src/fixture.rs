//! Examples in which every field is set, for the tests of each form in which a timer is stored or sent.
//!
//! The literals are exhaustive: a new field does not compile until it has a value here, and then each round
//! trip that lost the field would fail.

use crate::{
    Destination, Incarnation, Millis, Payload, RetryPolicy, Settings, Timer, TimerId, TimerSpec,
    Timestamp,
    destination::{HttpDestination, Method},
    headers::Headers,
    limits::Limits,
    namespace::{Fallback, SigningSecret},
    payload::Form,
    request_hash::RequestHash,
    retry::Exponential,
    schedule::{SlotKey, Tags},
    timer::{Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, SettledToken, Verdict},
};

const VALID: &str = "the value keeps the rules of its type";

fn receiver(url: &str, method: Method) -> Destination {
    Destination::Http(HttpDestination::every_field(url, method).expect(VALID))
}

impl TimerSpec {
    /// Returns an example in which every field is set.
    pub fn every_field() -> Self {
        Self {
            payload: Some(Payload { form: Form::Json, bytes: r#"{"order":17}"#.into() }),
            headers: Headers::new([("x-a".to_owned(), "1".to_owned())]).expect(VALID),
            tags: Tags::new(vec!["red".to_owned(), "é".to_owned()]).expect(VALID),
            slot_key: Some(SlotKey::new("customer:9".to_owned()).expect(VALID)),
            destination: Some(receiver("https://hooks.example.com:8443/a?b=c", Method::Put)),
            retry: Some(RetryPolicy::Delays(vec![Millis::from_ms(1_500), Millis::ZERO])),
            expire_after: Some(Millis::from_secs(90)),
            trace_parent: Some(
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            ),
        }
    }
}

impl Timer {
    /// Returns an example in which every field is set, and differs from that of a new timer.
    pub fn every_field() -> Self {
        let at = |ms: u64| Timestamp::saturating_from_unix_ms(1_900_000_000_000 + ms);
        Self {
            id: TimerId::new("order:17:close").expect(VALID),
            due_at: at(60_000),
            created_at: at(1),
            updated_at: at(2),
            revision: 3,
            incarnation: Incarnation(0x0102_0304_0506_0708),
            occurrence: 4,
            spec: TimerSpec::every_field(),
            request_hash: RequestHash(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20),
            attempts: 300,
            budget_from: 200,
            next_attempt_at: Some(at(62_000)),
            fired_at: Some(at(60_001)),
            maybe_delivered: true,
            history: vec![
                Attempt::new(299, at(60_500), AttemptOutcome::TimedOut, "no response"),
                Attempt::new(300, at(61_000), AttemptOutcome::Rejected, "HTTP 410"),
            ],
            last_settled: Some(SettledToken { nonce: u64::MAX - 1, verdict: Verdict::Release }),
            dead_letter: Some(DeadLetter { at: at(61_001), reason: DeadLetterReason::Rejected }),
        }
    }
}

impl Settings {
    /// Returns an example in which every field is set, and differs from its default.
    pub fn every_field() -> Self {
        let secret = |byte: u8| {
            let key = data_encoding::BASE64.encode(&[byte; 32]);
            SigningSecret::new(&format!("whsec_{key}")).expect(VALID)
        };
        Self {
            destination: receiver("http://orders.example/fire", Method::Patch),
            fallback: Some(Fallback {
                destination: receiver("http://fallback.example/", Method::Post),
                after_attempts: 7,
                after_open: Millis::from_secs(8),
            }),
            retry: RetryPolicy::Exponential(Exponential {
                max_attempts: 129,
                min_backoff: Millis::from_ms(11),
                max_backoff: Millis::from_secs(12),
                multiplier: 1.5,
                jitter: 0.25,
            }),
            lease: Millis::from_secs(13),
            retention: Millis::from_secs(14),
            weight: 150,
            signing_secrets: vec![secret(1), secret(2)],
            limits: Limits {
                schedule_per_second: Some(16),
                deliver_per_second: Some(1_700),
                max_in_flight: 18,
                max_pending: Some(1_900_000),
                max_payload_bytes: 20_000,
                max_delay: Some(Millis::from_secs(21)),
                max_dead: 22,
                max_retained: 2_300,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_valid_and_differ_from_the_defaults() {
        let settings = Settings::every_field();
        assert_eq!(settings.clone().check(), Ok(settings));
        assert!(TimerSpec::every_field().retry.unwrap().check().is_ok());
    }
}
