//! The body of a timer's record: its size, and what its reader refuses.

use duly_core::Timestamp;

use super::*;

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
    check(&body(|w| w.field(Layout::EMBEDDED.spec.retry, |w| w.u8(0))), "retry policy", 0);
    check(&body(|w| w.field(UPDATED_AT, |w| w.u64(u64::MAX))), "time", u64::MAX);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    for tag in [Layout::EMBEDDED.spec.slot_key, Layout::EMBEDDED.spec.trace_parent] {
        let bytes = body(|w| w.field(tag, |w| w.u8(0xFF)));
        let error = read(&bytes).expect_err("not UTF-8");
        assert!(matches!(error, DecodeError::Impossible(_)), "{tag}: {error}");
    }
}
