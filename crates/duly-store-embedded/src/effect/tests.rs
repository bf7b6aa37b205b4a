use proptest::prelude::*;

use crate::{
    format::{
        DecodeError,
        record::{HEADER_BYTES, bytes_of, decode, encode},
        strategies,
    },
    index::NAMESPACE_MAX,
};

use super::*;

const HASH_KEY: u128 = 0x0BAD_5EED;

fn encoded(namespace: u32, record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, namespace, record);
    bytes
}

/// Gives bytes the checksum that belongs to them.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small").min(bytes.len());
    let crc = crc32c::crc32c(&bytes[4..end]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks that skimming agrees with decoding. Bytes that the decoder refuses for their checksum or
/// length are refused for the same reason.
fn check_against_decode(bytes: &[u8]) {
    let skimmed = Effect::skim(HASH_KEY, bytes);
    match decode(bytes) {
        Ok(decoded) if decoded.namespace <= NAMESPACE_MAX => {
            let skimmed = skimmed.expect("what decodes can be skimmed");
            assert_eq!(skimmed.namespace, decoded.namespace);
            assert_eq!(Some(skimmed.bytes), bytes_of(bytes));
            assert_eq!(skimmed.effect, Effect::of(HASH_KEY, decoded.namespace, &decoded.record));
        }
        Ok(decoded) => {
            let value = decoded.namespace.into();
            assert_eq!(skimmed, Err(DecodeError::Unknown { what: "namespace", value }));
        }
        Err(refused @ DecodeError::Checksum) => assert_eq!(skimmed, Err(refused)),
        // Fields that no effect needs may be wrong.
        Err(_) => drop(skimmed),
    }
}

#[test]
fn an_effect_is_small() {
    assert!(size_of::<Effect>() <= 80, "{} bytes", size_of::<Effect>());
}

proptest! {
    #[test]
    fn a_record_does_the_same_live_and_skimmed(
        namespace in 0..=NAMESPACE_MAX,
        record in strategies::record(),
        behind in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = encoded(namespace, &record);
        let total = bytes_of(&bytes).expect("a header");
        let effect = Effect::of(HASH_KEY, namespace, &record);
        bytes.extend_from_slice(&behind);
        let skimmed = Effect::skim(HASH_KEY, &bytes);
        prop_assert_eq!(skimmed, Ok(Skimmed { namespace, bytes: total, effect }));
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Effect::skim(HASH_KEY, &bytes).is_err(), "no checksum matches by chance");
        prop_assert_eq!(Effect::skim(HASH_KEY, &bytes).err(), decode(&bytes).err());
    }

    #[test]
    fn any_body_behind_a_good_checksum_ends_in_an_answer(
        kind in 0_u8..11,
        cause in 0_u8..10,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&u32::try_from(body.len()).expect("small").to_le_bytes());
        (bytes[8], bytes[9]) = (kind, cause);
        bytes.extend_from_slice(&body);
        check_against_decode(&resealed(bytes));
    }

    #[test]
    fn a_changed_byte_is_refused_or_does_what_the_decoder_says(
        record in strategies::record(),
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = encoded(1, &record);
        let place = place.index(bytes.len());
        bytes[place] = value;
        check_against_decode(&bytes);
        check_against_decode(&resealed(bytes));
    }

    #[test]
    fn a_record_that_ends_anywhere_is_refused(
        record in strategies::record(),
        place in any::<prop::sample::Index>(),
    ) {
        let bytes = encoded(1, &record);
        let total = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small");
        let end = place.index(total);
        let cut = Effect::skim(HASH_KEY, &bytes[..end]);
        prop_assert_eq!(cut, Err(DecodeError::Truncated(end)));
        // The header may say anything: the rest does not lead to its end.
        if end >= HEADER_BYTES {
            let mut short = bytes[..end].to_vec();
            let body = u32::try_from(end - HEADER_BYTES).expect("small");
            short[4..8].copy_from_slice(&body.to_le_bytes());
            prop_assert!(Effect::skim(HASH_KEY, &resealed(short)).is_err());
        }
        let mut long = bytes[..total].to_vec();
        long.push(0);
        let body = u32::try_from(long.len() - HEADER_BYTES).expect("small");
        long[4..8].copy_from_slice(&body.to_le_bytes());
        prop_assert!(Effect::skim(HASH_KEY, &resealed(long)).is_err());
    }
}

/// A small timer, to be damaged.
fn sample() -> Timer {
    match crate::journal::fixture::pending("id", 8) {
        Record::Pending(_, timer) => *timer,
        other => unreachable!("{other:?}"),
    }
}

fn skim_error(bytes: Vec<u8>) -> DecodeError {
    Effect::skim(HASH_KEY, &resealed(bytes)).expect_err("refused")
}

#[test]
fn numbers_out_of_their_range_are_refused_by_name() {
    let pending = |timer: Timer| encoded(1, &Record::Pending(Cause::Created, timer.into()));
    let unknown = |what, value| DecodeError::Unknown { what, value };
    for at in [HEADER_BYTES, HEADER_BYTES + 8] {
        let mut bytes = pending(sample());
        bytes[at..at + 8].fill(0xFF);
        assert_eq!(skim_error(bytes), unknown("time", u64::MAX), "at {at}");
    }
    let mut bytes = pending(sample());
    bytes[12..16].copy_from_slice(&(NAMESPACE_MAX + 1).to_le_bytes());
    assert_eq!(skim_error(bytes), unknown("namespace", 1 << 24));
    for (at, what) in [(8, "record kind"), (9, "cause")] {
        for value in [0, 10, 255] {
            let mut bytes = pending(sample());
            bytes[at] = value;
            assert_eq!(skim_error(bytes), unknown(what, value.into()));
        }
    }
    // The field behind the id is the payload's; 15 is the first unused tag.
    let field_at = HEADER_BYTES + 57 + 4 + 2;
    let mut bytes = pending(sample());
    assert_eq!(bytes[field_at], 1);
    bytes[field_at] = 15;
    assert_eq!(skim_error(bytes), unknown("field", 15));
}

#[test]
fn invalid_timer_ids_are_refused() {
    let id_at = HEADER_BYTES + 57 + 4;
    let called = |name: [u8; 2]| {
        let mut bytes = encoded(1, &Record::Pending(Cause::Created, sample().into()));
        bytes[id_at..id_at + 2].copy_from_slice(&name);
        let bytes = resealed(bytes);
        (Effect::skim(HASH_KEY, &bytes), decode(&bytes))
    };
    for name in [*b"..", *b"a\n", [b'a', 0x7F], [0xC2, 0x85], [0xFF, b'a']] {
        let (skimmed, decoded) = called(name);
        assert_eq!(skimmed.err(), decoded.err(), "{name:?}");
        assert!(called(name).0.is_err(), "{name:?}");
    }
    for name in [*b"ab", *b"a ", [0xC3, 0xA9], *b".a"] {
        assert!(called(name).0.is_ok(), "{name:?}");
    }
}

#[test]
fn a_redriven_timer_names_the_firing_of_its_dead_letter() {
    let mut timer = sample();
    (timer.incarnation, timer.occurrence) = (Incarnation(9), 3);
    let delivery = timer.delivery_id("shop");
    let bytes = encoded(1, &Record::Pending(Cause::Redriven, timer.clone().into()));
    let Effect::Redriven(redriven) = Effect::skim(HASH_KEY, &bytes).expect("whole").effect else {
        panic!("a redrive");
    };
    assert_eq!(redriven.firing.delivery_id("shop"), delivery);
    assert_eq!(redriven.pending.cause, Cause::Redriven);
    let bytes = encoded(1, &Record::Dead(Cause::AttemptFailed, timer.into()));
    let Effect::Dead { firing, .. } = Effect::skim(HASH_KEY, &bytes).expect("whole").effect else {
        panic!("a letter");
    };
    assert_eq!(firing.delivery_id("shop"), delivery);
}
