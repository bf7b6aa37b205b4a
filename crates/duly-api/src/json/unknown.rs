//! Explains an unknown field: the field that its sender is likely to have meant, or the known ones.

use duly_core::{Invalid, similar_name::most_similar};

use crate::destination::THIS_BUILD;

/// The error of a field that stands for a timer that repeats.
const RECURRING: &str = "left out: recurring timers do not exist yet; schedule the next timer when one fires, or let \
                         cron schedule each";
/// The error of a field that stands for the time of a timer, or for one that repeats.
const SCHEDULE: &str = "left out: the time is due_at or delay, and recurring timers do not exist yet; schedule the next \
                        timer when one fires, or let cron schedule each";

/// The error of a field that stands for a key of repeated calls.
const IDEMPOTENCY_KEY: &str = "left out: a repeated call is recognised by its id; send the key as id, or as the header \
                               Idempotency-Key of a call that schedules one timer";

/// Fields that later versions will have, and words of other systems for them, with the value that is allowed until then.
const RESERVED: [(&str, &str); 22] = [
    ("idempotency_key", IDEMPOTENCY_KEY),
    ("idempotency_token", IDEMPOTENCY_KEY),
    ("deduplication_id", IDEMPOTENCY_KEY),
    ("message_deduplication_id", IDEMPOTENCY_KEY),
    ("schedule", SCHEDULE),
    ("schedule_expression", SCHEDULE),
    ("recurring", RECURRING),
    ("repeats", RECURRING),
    ("repeat_every", RECURRING),
    ("repeat_interval", RECURRING),
    ("cron_expression", RECURRING),
    ("crontab", RECURRING),
    ("repeat", RECURRING),
    ("cron", RECURRING),
    ("rrule", RECURRING),
    ("every", RECURRING),
    ("interval", RECURRING),
    ("recurrence", RECURRING),
    ("kafka", THIS_BUILD),
    ("nats", THIS_BUILD),
    ("amqp", THIS_BUILD),
    ("redis_stream", THIS_BUILD),
];

/// Paths of fields, each with names of other systems for it. A field that stands at another depth is found by its last
/// part.
const PATHS: [(&str, &[&str]); 27] = [
    ("id", &["key", "timer_id", "task_id", "job_id", "message_id", "name"]),
    (
        "due_at",
        &[
            "at",
            "due",
            "due_date",
            "due_time",
            "time",
            "when",
            "fire_at",
            "run_at",
            "execute_at",
            "scheduled_at",
            "scheduled_for",
            "deliver_at",
            "eta",
        ],
    ),
    ("delay", &["countdown", "in", "after", "deliver_after", "wait"]),
    ("payload", &["body", "data", "message", "message_body", "content"]),
    ("headers", &["attributes", "message_attributes", "metadata"]),
    ("tags", &["tag", "labels"]),
    ("slot_key", &["partition_key", "message_group_id", "ordering_key"]),
    ("expire_after", &["ttl", "expires_in", "expiration"]),
    ("retry", &["retries", "retry_policy", "backoff"]),
    ("destination", &["target", "sink"]),
    (
        "destination.http.url",
        &["uri", "webhook", "webhook_url", "callback", "callback_url", "endpoint"],
    ),
    ("destination.http.method", &["http_method", "verb"]),
    ("destination.http.timeout", &[]),
    ("destination.http.headers", &[]),
    ("retry.max_attempts", &["attempts", "max_retries", "max_receive_count"]),
    ("retry.min_backoff", &[]),
    ("retry.max_backoff", &[]),
    ("retry.multiplier", &[]),
    ("retry.jitter", &[]),
    ("retry.delays", &[]),
    ("limits.lane.deliver_per_second", &[]),
    ("limits.lane.max_in_flight", &["concurrency"]),
    ("limits.namespace.schedule_per_second", &[]),
    ("limits.namespace.max_pending", &[]),
    ("limits.namespace.max_payload_bytes", &[]),
    ("limits.namespace.max_delay", &[]),
    ("limits.namespace.max_dead", &[]),
];

/// Endings of names that give a unit. Duly's values have units of their own.
const UNITS: [&str; 9] =
    ["_seconds", "_secs", "_sec", "_s", "_milliseconds", "_millis", "_ms", "_minutes", "_at"];

/// Returns the error of an unknown field of an object that has the fields of `known`, as serde lists them.
pub(super) fn field(field: String, name: &str, known: &str) -> Invalid {
    let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
    let snake = snake_case(name);
    let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == snake);
    let is_timer_or_destination = known.contains(&"delay") || known.contains(&"http");
    if let Some((_, allowed)) = reserved.filter(|_| is_timer_or_destination) {
        return Invalid::new(field, name, *allowed);
    }
    let without_unit = UNITS.iter().find_map(|unit| snake.strip_suffix(unit));
    let similar = |name: &str| most_similar(name, known.iter().copied());
    let meant = known
        .iter()
        .copied()
        .find(|known| *known == snake || Some(*known) == without_unit)
        .or_else(|| path(&snake, &known))
        .or_else(|| similar(&snake))
        .or_else(|| without_unit.and_then(|name| path(name, &known).or_else(|| similar(name))));
    // The suggestion is a path from the same place as the field.
    let object = field.strip_suffix(name).unwrap_or_default();
    let meant = meant.map(|meant| format!("{object}{meant}"));
    Invalid::unknown("field", field, name, meant.as_deref(), known)
}

/// Returns the path, from an object with the known fields, of the field that has this name elsewhere.
fn path(name: &str, known: &[&str]) -> Option<&'static str> {
    let ends = |path: &'static str| {
        // A part of the path leads on from the object, which may itself be at any place of the path.
        let starts = path.match_indices('.').map(|(at, _)| at + 1);
        std::iter::once(0).chain(starts).map(move |start| &path[start..])
    };
    PATHS.iter().find_map(|(path, others)| {
        let last = path.rsplit('.').next()?;
        if last != name && !others.contains(&name) {
            return None;
        }
        ends(path).find(|path| {
            let first = path.split('.').next().unwrap_or(path);
            known.contains(&first) && *path != name
        })
    })
}

/// Returns a name as Duly writes names: `dueAt`, `DueAt`, `due-at` and `DUE_AT` as `due_at`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
        before = c;
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: &str = ", expected one of `id`, `due_at`, `delay`, `payload`, `headers`, `tags`, \
                         `destination`, `retry`, `expire_after`, `if_exists`";

    #[test]
    fn the_field_that_was_meant_is_named() {
        let destination = ", expected `pull` or `http`";
        let http = ", expected one of `url`, `method`, `headers`, `timeout`";
        let settings = ", expected one of `destination`, `retry`, `weight`, `limits`";
        for (name, known, meant) in [
            ("dealy", TIMER, "delay"),
            ("Delay", TIMER, "delay"),
            ("dueAt", TIMER, "due_at"),
            ("DueAt", TIMER, "due_at"),
            ("due-at", TIMER, "due_at"),
            ("DelaySeconds", TIMER, "delay"),
            ("delay_ms", TIMER, "delay"),
            ("delaySecs", TIMER, "delay"),
            ("dely_ms", TIMER, "delay"),
            ("runAt", TIMER, "due_at"),
            ("due", TIMER, "due_at"),
            ("dueDate", TIMER, "due_at"),
            ("eta", TIMER, "due_at"),
            ("MessageBody", TIMER, "payload"),
            ("body", TIMER, "payload"),
            ("ttl", TIMER, "expire_after"),
            ("url", TIMER, "destination.http.url"),
            ("webhookUrl", TIMER, "destination.http.url"),
            ("url", destination, "http.url"),
            ("URL", http, "url"),
            ("verb", http, "method"),
            ("verb", TIMER, "destination.http.method"),
            ("timeout", TIMER, "destination.http.timeout"),
            ("timeout_ms", http, "timeout"),
            ("max_attempts", TIMER, "retry.max_attempts"),
            ("maxRetries", TIMER, "retry.max_attempts"),
            ("max_pending", settings, "limits.namespace.max_pending"),
            ("concurrency", settings, "limits.lane.max_in_flight"),
            ("wieght", settings, "weight"),
        ] {
            for object in ["", "destination.", "operations[0].schedule."] {
                let path = format!("{object}{name}");
                let message = field(path.clone(), name, known).to_string();
                let expected = format!("unknown field {path}: did you mean {object}{meant}?");
                assert_eq!(message, expected);
            }
        }
    }

    #[test]
    fn a_field_that_nothing_resembles_gets_the_known_ones() {
        let invalid = field("color".to_owned(), "color", ", expected `a` or `b`");
        assert_eq!(invalid.to_string(), "unknown field color: known here: a, b");
        let long = "delay".repeat(100);
        assert!(field(long.clone(), &long, TIMER).allowed.contains("known here: id, due_at"));
        let invalid = field("color".to_owned(), "color", ", there are no fields");
        assert_eq!(invalid.to_string(), "unknown field color: no field is known here");
    }

    #[test]
    fn a_key_of_repeated_calls_is_the_id() {
        for name in ["idempotency_key", "idempotencyKey", "MessageDeduplicationId"] {
            let invalid = field(name.to_owned(), name, TIMER);
            assert!(invalid.allowed.contains("send the key as id, or as the header"), "{name}");
        }
    }

    #[test]
    fn recurring_timers_are_said_not_to_exist_yet() {
        let repeats = ["cron", "Cron", "cronExpression", "recurring", "repeat", "every", "rrule"];
        let rows = repeats.map(|name| (name, RECURRING)).into_iter();
        for (name, allowed) in rows.chain([("schedule", SCHEDULE), ("Schedule", SCHEDULE)]) {
            let invalid = field(name.to_owned(), name, TIMER);
            assert_eq!(invalid.allowed, allowed, "{name}");
            assert!(allowed.contains("recurring timers do not exist yet"));
            assert!(allowed.contains("schedule the next timer when one fires"));
        }
        let elsewhere = field("every".to_owned(), "every", ", expected `a` or `b`");
        assert_eq!(elsewhere.allowed, "left out; known here: a, b");
    }
}
