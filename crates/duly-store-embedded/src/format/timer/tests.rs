//! The codes of enumerations are their places in lists that `duly_core` owns. A place that moved would
//! change the meaning of every existing directory.

use duly_core::Timestamp;

use super::*;

#[test]
fn the_codes_of_enumerations_are_frozen() {
    let outcomes = ["delivered", "failed", "timed_out", "not_connected", "connection_lost"];
    let outcomes = [&outcomes[..], &["lease_lost", "rejected"]].concat();
    for (place, name) in outcomes.iter().enumerate() {
        let code = u8::try_from(place + 1).expect("few");
        let outcome = from_code(&AttemptOutcome::ALL, code, "").expect("a known code");
        assert_eq!(outcome.as_str(), *name, "attempt outcome {code}");
    }
    for (place, name) in
        ["attempts_spent", "rejected", "expired", "corrupt", "overdue"].iter().enumerate()
    {
        let code = u8::try_from(place + 1).expect("few");
        let reason = from_code(&DeadLetterReason::ALL, code, "").expect("a known code");
        assert_eq!(reason.as_str(), *name, "death reason {code}");
    }
    let check = |codes: [u8; 2], expected: [u8; 2]| assert_eq!(codes, expected);
    check([code_in(&FORMS, &Form::Json), code_in(&FORMS, &Form::Text)], [1, 2]);
    check([code_in(&FORMS, &Form::Binary), code_in(&METHODS, &Method::Post)], [3, 1]);
    check([code_in(&METHODS, &Method::Put), code_in(&METHODS, &Method::Patch)], [2, 3]);
    check([code_in(&VERDICTS, &Verdict::Ack), code_in(&VERDICTS, &Verdict::Retry)], [1, 2]);
    check([code_in(&VERDICTS, &Verdict::Dead), code_in(&VERDICTS, &Verdict::Release)], [3, 4]);
}

#[test]
fn every_member_has_a_code() {
    for outcome in AttemptOutcome::ALL {
        let code = code_in(&AttemptOutcome::ALL, &outcome);
        assert_eq!(from_code(&AttemptOutcome::ALL, code, ""), Ok(outcome));
    }
    for reason in DeadLetterReason::ALL {
        assert_eq!(
            from_code(&DeadLetterReason::ALL, code_in(&DeadLetterReason::ALL, &reason), ""),
            Ok(reason)
        );
    }
    for code in [0, 8, 255] {
        let unknown = from_code(&AttemptOutcome::ALL, code, "attempt outcome");
        let value = u64::from(code);
        assert_eq!(unknown, Err(DecodeError::Unknown { what: "attempt outcome", value }));
    }
}

fn body(fields: impl FnOnce(&mut FieldWriter<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = FieldWriter(&mut bytes);
    w.time(Timestamp::MAX);
    w.time(Timestamp::MIN);
    w.u64(1);
    w.u128(2);
    for number in [1, 0, 0, 0] {
        w.u32(number);
    }
    w.u8(0);
    w.text("a");
    fields(&mut w);
    w.end();
    bytes
}

fn read(bytes: &[u8]) -> Result<Timer, DecodeError> {
    decode(&mut FieldReader::new(bytes))
}

#[test]
fn a_timer_without_extras_takes_62_bytes_and_its_id() {
    let bytes = body(|_| {});
    assert_eq!(bytes.len(), 57 + 4 + 1 + 1);
    let timer = read(&bytes).expect("a timer");
    let mut again = Vec::new();
    encode(&mut FieldWriter(&mut again), &timer);
    assert_eq!(again, bytes);
}

#[test]
fn unknown_fields_are_refused_by_name() {
    let check = |bytes: &[u8], what: &'static str, value: u64| {
        assert_eq!(read(bytes), Err(DecodeError::Unknown { what, value }));
    };
    check(&body(|w| w.field(15, |_| {})), "field", 15);
    check(&body(|w| w.field(PAYLOAD, |w| w.u8(4))), "payload form", 4);
    check(&body(|w| w.field(DESTINATION, |w| w.u8(3))), "destination", 3);
    check(&body(|w| w.field(RETRY, |w| w.u8(0))), "retry policy", 0);
    check(&body(|w| w.field(UPDATED_AT, |w| w.u64(u64::MAX))), "time", u64::MAX);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    for tag in [SLOT_KEY, TRACE_PARENT] {
        let bytes = body(|w| w.field(tag, |w| w.u8(0xFF)));
        let error = read(&bytes).expect_err("not UTF-8");
        assert!(matches!(error, DecodeError::Impossible(_)), "{tag}: {error}");
    }
}
