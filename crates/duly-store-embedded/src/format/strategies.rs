//! Strategies for everything that a record can hold, for property tests. Values follow the rules of
//! `duly_core`, which the decoders apply again.

use std::sync::Arc;

use duly_core::totals::Totals;
use duly_core::{
    Destination, Incarnation, Millis, NamespaceName, Payload, RetryPolicy, Settings, Timer,
    TimerId, TimerSpec, Timestamp, Tombstone,
    destination::{HttpDestination, Method},
    headers::Headers,
    limits::Limits,
    namespace::{Fallback, SigningSecret},
    payload::Form,
    request_hash::RequestHash,
    retry::Exponential,
    schedule::{SlotKey, Tags},
    timer::{Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, SettledToken, Verdict},
    tombstone::{Details, Ended},
};
use proptest::{option, prelude::*, sample::select};

use super::record::{Cause, Lease, NamespaceRecord, Record};

pub(crate) const CAUSES: [Cause; 8] = [
    Cause::Created,
    Cause::Replaced,
    Cause::Rescheduled,
    Cause::AttemptFailed,
    Cause::Redriven,
    Cause::Expired,
    Cause::Released,
    Cause::Imported,
];

/// Any record.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    let cause = || select(&CAUSES[..]);
    prop_oneof![
        4 => (cause(), timer()).prop_map(|(cause, timer)| Record::Pending(cause, timer.into())),
        2 => (cause(), timer()).prop_map(|(cause, timer)| Record::Dead(cause, timer.into())),
        3 => (tombstone(), option::of(1..=Timestamp::MAX.unix_ms()), any::<u32>()).prop_map(
            |(tombstone, expires, number)| {
                let expires_at = expires.and_then(Timestamp::from_unix_ms);
                Record::Ended { tombstone: tombstone.into(), expires_at, number }
            },
        ),
        2 => (id(), lease()).prop_map(|(id, lease)| Record::Lease { id, lease }),
        1 => any::<[[u8; 12]; 2]>().prop_map(|[letter, timer]| Record::Purged { letter, timer }),
        1 => any::<[u8; 12]>().prop_map(|key| Record::Lost { key }),
        1 => any::<u64>().prop_map(|below| Record::Evicted { below }),
        2 => namespace().prop_map(|namespace| Record::Namespace(namespace.into())),
        1 => Just(Record::NamespaceGone),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..=Timestamp::MAX.unix_ms()).prop_map(Timestamp::saturating_from_unix_ms)
}

fn millis() -> impl Strategy<Value = Millis> {
    any::<u64>().prop_map(Millis::from_ms)
}

fn id() -> impl Strategy<Value = TimerId> {
    "\\PC{1,40}".prop_filter_map("not an id", |text| TimerId::new(&text).ok())
}

fn payload() -> impl Strategy<Value = Payload> {
    let form = select(&[Form::Json, Form::Text, Form::Binary][..]);
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    (form, bytes).prop_map(|(form, bytes)| Payload { form, bytes: bytes.into() })
}

fn headers() -> impl Strategy<Value = Headers> {
    prop::collection::btree_map("[a-z][a-z0-9_]{0,12}", "[!-~]{0,20}", 0..4)
        .prop_filter_map("not headers", |pairs| Headers::new(pairs).ok())
}

fn tags() -> impl Strategy<Value = Tags> {
    prop::collection::vec("\\PC{1,8}", 0..4)
        .prop_filter_map("not tags", |tags| Tags::new(tags).ok())
}

fn slot_key() -> impl Strategy<Value = SlotKey> {
    "\\PC{1,20}".prop_filter_map("not a slot key", |text| SlotKey::new(text).ok())
}

fn destination() -> impl Strategy<Value = Destination> {
    let methods = select(&[Method::Post, Method::Put, Method::Patch][..]);
    let http = ("[a-z]{1,9}", "[a-zé ]{0,9}", methods, headers(), millis()).prop_map(
        |(host, path, method, headers, timeout)| {
            let url = format!("https://{host}.example/{path}?q={path}");
            let mut http = HttpDestination::new(&url).expect("an allowed URL");
            (http.method, http.headers, http.timeout) = (method, headers, timeout);
            Destination::Http(http)
        },
    );
    prop_oneof![Just(Destination::Pull), http]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let wait = || (0..=2_592_000_000_u64).prop_map(Millis::from_ms);
    let exponential = (1..=1_000_u32, wait(), wait(), 1.0..=100.0_f64, 0.0..=1.0_f64).prop_map(
        |(max_attempts, a, b, multiplier, jitter)| {
            let (min_backoff, max_backoff) = (a.min(b), a.max(b));
            RetryPolicy::Exponential(Exponential {
                max_attempts,
                min_backoff,
                max_backoff,
                multiplier,
                jitter,
            })
        },
    );
    let schedule = prop::collection::vec(wait(), 1..6).prop_map(RetryPolicy::Delays);
    prop_oneof![exponential, schedule]
}

fn history() -> impl Strategy<Value = Vec<Attempt>> {
    let attempt = (any::<u32>(), time(), select(&AttemptOutcome::ALL[..]), "\\PC{0,30}");
    let attempt =
        attempt.prop_map(|(attempt, at, outcome, reason)| Attempt { attempt, at, outcome, reason });
    prop::collection::vec(attempt, 0..4)
}

fn settled() -> impl Strategy<Value = SettledToken> {
    let verdicts = [Verdict::Ack, Verdict::Retry, Verdict::Dead, Verdict::Release];
    (any::<u64>(), select(verdicts.to_vec()))
        .prop_map(|(nonce, verdict)| SettledToken { nonce, verdict })
}

fn dead_letter() -> impl Strategy<Value = DeadLetter> {
    (time(), select(&DeadLetterReason::ALL[..])).prop_map(|(at, reason)| DeadLetter { at, reason })
}

/// Any timer, including combinations of parts that make no sense.
pub(crate) fn timer() -> impl Strategy<Value = Timer> {
    let numbers = (any::<u64>(), any::<u128>(), any::<[u32; 4]>(), any::<bool>());
    let times = (time(), time(), time(), option::of(time()), option::of(time()));
    let asked = (
        option::of(payload()),
        headers(),
        tags(),
        option::of(slot_key()),
        option::of(destination()),
        option::of(retry()),
        option::of(millis()),
        option::of("\\PC{1,30}"),
    );
    let happened = (history(), option::of(settled()), option::of(dead_letter()));
    (id(), numbers, times, asked, happened).prop_map(|(id, numbers, times, asked, happened)| {
        let (incarnation, hash, [revision, occurrence, attempts, budget_from], unsure) = numbers;
        let (due_at, created_at, updated_at, next_attempt_at, fired_at) = times;
        let (payload, headers, tags, slot_key, destination, retry, expire_after, trace) = asked;
        let (history, last_settled, dead_letter) = happened;
        Timer {
            id,
            due_at,
            created_at,
            updated_at,
            revision,
            incarnation: Incarnation(incarnation),
            occurrence,
            request_hash: RequestHash(hash),
            attempts,
            budget_from,
            next_attempt_at,
            fired_at,
            maybe_delivered: unsure,
            history,
            last_settled,
            dead_letter,
            spec: TimerSpec {
                payload,
                headers,
                tags,
                slot_key,
                destination,
                retry,
                expire_after,
                trace_parent: trace,
            },
        }
    })
}

fn tombstone() -> impl Strategy<Value = Tombstone> {
    let details = (
        (time(), time(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u128>()),
        option::of(time()),
        history(),
        option::of(settled()),
        any::<u32>(),
    );
    let details = details.prop_map(|(numbers, fired_at, history, settled, uncounted)| {
        let (created_at, updated_at, revision, incarnation, occurrence, hash) = numbers;
        Box::new(Details {
            created_at,
            updated_at,
            revision,
            incarnation: Incarnation(incarnation),
            occurrence,
            request_hash: RequestHash(hash),
            fired_at,
            uncounted,
            history,
            settled,
        })
    });
    let ended = select(&[Ended::Finished, Ended::Cancelled][..]);
    (id(), ended, time(), time(), any::<u32>(), any::<bool>(), option::of(details)).prop_map(
        |(id, ended, ended_at, due_at, attempts, maybe_delivered, details)| Tombstone {
            id,
            ended,
            ended_at,
            due_at,
            attempts,
            maybe_delivered,
            details,
        },
    )
}

pub(crate) fn lease() -> impl Strategy<Value = Lease> {
    let node = option::of(any::<u64>());
    let marks = (any::<bool>(), any::<bool>());
    (any::<u64>(), any::<u32>(), node, time(), any::<u64>(), time(), marks).prop_map(
        |(nonce, attempt, node, claimed_at, lease_ms, until, (extends, stopped))| Lease {
            nonce,
            attempt,
            node,
            claimed_at,
            lease_ms,
            until,
            extends,
            stopped,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let rate = || option::of(0..u32::MAX);
    let many = || option::of(0..u64::MAX);
    (rate(), rate(), any::<u32>(), many(), any::<u64>(), many(), any::<u64>(), any::<u64>())
        .prop_map(|(schedule, deliver, in_flight, pending, payload, delay, dead, retained)| {
            Limits {
                schedule_per_second: schedule,
                deliver_per_second: deliver,
                max_in_flight: in_flight,
                max_pending: pending,
                max_payload_bytes: payload,
                max_delay: delay.map(Millis::from_ms),
                max_dead: dead,
                max_retained: retained,
            }
        })
}

pub(crate) fn namespace() -> impl Strategy<Value = NamespaceRecord> {
    let secret = "[A-Za-z0-9+/]{32}"
        .prop_map(|text| SigningSecret::new(&format!("whsec_{text}")).expect("24 bytes"));
    let settings = (
        destination(),
        retry(),
        millis(),
        millis(),
        any::<u32>(),
        prop::collection::vec(secret, 0..3),
        limits(),
        option::of((destination(), any::<u32>(), millis())),
    );
    let settings = settings.prop_map(
        |(destination, retry, lease, retention, weight, secrets, limits, second)| {
            let fallback = second.and_then(|(destination, after_attempts, after_open)| {
                let is_sent = !destination.is_pull();
                is_sent.then_some(Fallback { destination, after_attempts, after_open })
            });
            Settings {
                destination,
                fallback,
                retry,
                lease,
                retention,
                weight,
                signing_secrets: secrets,
                limits,
            }
        },
    );
    let name = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}";
    (name, settings, any::<[bool; 2]>(), option::of(time()), time(), time(), any::<[u64; 7]>())
        .prop_map(
            |(name, settings, [paused, implicit], resumes_at, created_at, updated_at, totals)| {
                let [scheduled, fired, delivered, failed, cancelled, rescheduled, dead] = totals;
                NamespaceRecord {
                    name: NamespaceName::new(&name).expect("an allowed name"),
                    settings: Arc::new(settings),
                    paused,
                    resumes_at,
                    implicit,
                    created_at,
                    updated_at,
                    totals: Totals {
                        scheduled,
                        fired,
                        delivered,
                        failed,
                        cancelled,
                        rescheduled,
                        dead,
                    },
                }
            },
        )
}
