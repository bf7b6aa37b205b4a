use super::*;

fn check(status: u16, retry_after_s: Option<u64>, expected: &str) {
    let retry_after = retry_after_s.map(Millis::from_secs);
    let delivery = Answer { status, retry_after, ..Answer::default() }.verdict();
    let health = delivery.health();
    let got = match delivery {
        Delivery::Confirmed => format!("confirmed {health:?}"),
        Delivery::Rejected { .. } => format!("rejected {health:?}"),
        Delivery::Snoozed { after } => format!("snoozed {after} {health:?}"),
        Delivery::Failed { kind, wait, .. } => format!("{} {wait:?} {health:?}", kind.as_str()),
    };
    assert_eq!(got, expected, "HTTP {status}, Retry-After {retry_after_s:?}");
}

#[test]
fn s1_a_snooze_counts_unless_the_status_is_final() {
    let verdict = |status| {
        let (snooze, retry_after) = (Some(Millis::from_secs(90)), Some(Millis::from_secs(5)));
        Answer { status, snooze, retry_after, ..Answer::default() }.verdict()
    };
    for status in [425, 429, 503, 404, 302] {
        let after = Millis::from_secs(90);
        assert_eq!(verdict(status), Delivery::Snoozed { after }, "HTTP {status}");
        assert_eq!(verdict(status).health(), ReceiverHealth::Good, "it works");
    }
    assert_eq!(verdict(200), Delivery::Confirmed);
    assert!(matches!(verdict(410), Delivery::Rejected { .. }));
}

#[test]
fn s1_every_status_has_its_verdict() {
    for status in [200, 201, 202, 204, 206, 226, 299] {
        check(status, None, "confirmed Good");
        check(status, Some(5), "confirmed Good");
    }
    for status in [410, 489] {
        check(status, None, "rejected Good");
        check(status, Some(5), "rejected Good");
    }
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        check(status, None, "failed Policy Overloaded");
        check(status, Some(5), "failed AtLeast(Millis(5000)) Overloaded");
    }
    for status in
        [300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 413, 422, 451, 499, 600, 999]
    {
        check(status, None, "failed Policy Good");
        check(status, Some(5), "failed Policy Good");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date_and_capped() {
    let now = Timestamp::parse("2026-11-06T08:49:07Z").unwrap();
    let check = |text: &str, expected_ms: Option<u64>| {
        assert_eq!(retry_after(text, now).map(Millis::ms), expected_ms, "{text:?}");
    };
    check("0", Some(0));
    check(" 120 ", Some(120_000));
    check("86400", Some(86_400_000));
    check("86401", Some(86_400_000));
    check("99999999999999999999999", Some(86_400_000));
    check("Fri, 06 Nov 2026 08:49:37 GMT", Some(30_000));
    check("Fri, 06 Nov 2026 08:49:07 GMT", Some(0));
    check("Wed, 06 Nov 1974 08:49:37 GMT", Some(0));
    check("Thu, 31 Dec 2099 23:59:59 GMT", Some(86_400_000));
    for junk in ["", "-1", "1.5", "soon", "+5", "5s", "2026-11-06T08:49:37Z"] {
        check(junk, None);
    }
}

#[test]
fn the_reason_says_what_follows_from_the_status() {
    let check = |answer: Answer, expected: &str| match answer.verdict() {
        Delivery::Failed { reason, .. } | Delivery::Rejected { reason } => {
            assert_eq!(reason, expected);
        }
        Delivery::Confirmed | Delivery::Snoozed { .. } => panic!("{expected}"),
    };
    let answer = |status| Answer { status, ..Answer::default() };
    let moved = |location: &str| Answer {
        location: Some(super::location(location.as_bytes())),
        ..answer(308)
    };
    check(answer(301), "HTTP 301 (redirects are not followed)");
    let unread = Answer { has_unread_snooze: true, ..answer(301) };
    let why = "duly-snooze is neither whole seconds nor an HTTP date";
    check(unread, &format!("HTTP 301 (redirects are not followed): {why}"));
    for (location, shown) in [
        ("https://new.example/a?token=s3cret#x", "https://new.example/a"),
        ("https://user:s3cret@new.example/a", "https://new.example/a"),
        ("//user:s3cret@new.example/a?b", "https://new.example/a"),
        ("/login?next=s3cret", "/login"),
        ("", ""),
        ("/\u{1b}[2J", "/\\u{1b}[2J"),
    ] {
        let expected = format!("HTTP 308 (redirects are not followed): location {shown}");
        check(moved(location), &expected);
    }
    let long = super::location("/x".repeat(1_000).as_bytes());
    assert!(long.len() < 300, "{}", long.len());
    let excerpt = || "busy".to_owned();
    let thirty = Some(Millis::from_secs(30));
    check(
        Answer { excerpt: excerpt(), ..answer(503) },
        "HTTP 503 (repeated if the retry policy allows): busy",
    );
    check(
        Answer { retry_after: thirty, ..answer(429) },
        "HTTP 429 (repeated if the retry policy allows, not before 30s)",
    );
    check(answer(404), "HTTP 404 (no confirmation, repeated if the retry policy allows)");
    check(
        Answer { excerpt: excerpt(), ..answer(410) },
        "HTTP 410 (rejected for good, not repeated): busy",
    );
}
