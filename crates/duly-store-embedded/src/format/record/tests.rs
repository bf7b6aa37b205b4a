use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    format::strategies::{self, CAUSES},
    index::NAMESPACE_MAX,
};

use duly_record::packed;

use super::*;

fn encoded(namespace: u32, record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, namespace, record);
    bytes
}

/// Makes the same few records of every kind each time.
fn samples() -> Vec<Record> {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let mut of_kind = [0; 10];
    let mut samples = Vec::new();
    while of_kind[1..].contains(&0) || samples.len() < 24 {
        let record = strategies::record().new_tree(&mut runner).expect("a record").current();
        let kind = usize::from(encoded(0, &record)[8]);
        if of_kind[kind] < 4 {
            of_kind[kind] += 1;
            samples.push(record);
        }
    }
    samples
}

/// Gives bytes the checksum that belongs to them.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small").min(bytes.len());
    let crc = crc32c::crc32c(&bytes[4..end]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

proptest! {
    #[test]
    fn every_record_reads_back(
        records in prop::collection::vec((0..=NAMESPACE_MAX, strategies::record()), 1..5),
    ) {
        let mut bytes = Vec::new();
        for (namespace, record) in &records {
            encode(&mut bytes, *namespace, record);
        }
        let mut at = 0;
        for (namespace, record) in records {
            let rest = &bytes[at..];
            let length = usize::try_from(bytes_of(rest).expect("a header")).expect("small");
            let padded = length.next_multiple_of(16);
            let expected = Decoded { namespace, record };
            prop_assert_eq!(&decode(rest), &Ok(expected.clone()));
            prop_assert_eq!(decode(&rest[..length]), Ok(expected), "without padding");
            prop_assert!(rest[length..padded].iter().all(|byte| *byte == 0));
            at += padded;
        }
        prop_assert_eq!(at, bytes.len());
    }

    /// The packed form of the stores in databases keeps what this form keeps, and the other way round.
    #[test]
    fn p11_both_forms_keep_every_timer(timer in strategies::timer()) {
        let record = |timer| encoded(1, &Record::Pending(Cause::Created, Box::new(timer)));
        let packed = packed::Record::of(timer.clone()).pack([7; 8]);
        let mut unpacked = packed::Record::unpack(timer.id.clone(), &packed.record).expect("packed");
        if let Some(payload) = packed.payload {
            prop_assert!(unpacked.attach(&payload.into()).expect("stored"));
        }
        prop_assert_eq!(&unpacked.timer, &timer);
        prop_assert_eq!(record(unpacked.timer), record(timer));
    }

    #[test]
    fn p11_both_forms_keep_all_settings(namespace in strategies::namespace()) {
        let packed = packed::encode_settings(&namespace.settings);
        let settings = packed::decode_settings(&packed).expect("packed");
        prop_assert_eq!(&settings, &*namespace.settings);
        let record = |namespace| encoded(1, &Record::Namespace(Box::new(namespace)));
        let unpacked = NamespaceRecord { settings: Arc::new(settings), ..namespace.clone() };
        prop_assert_eq!(record(unpacked), record(namespace));
    }

    #[test]
    fn any_bytes_end_in_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err(), "a checksum does not match by chance");
    }

    #[test]
    fn any_body_behind_a_good_checksum_ends_in_an_answer(
        kind in 0_u8..10,
        cause in 0_u8..10,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&u32::try_from(body.len()).expect("small").to_le_bytes());
        (bytes[8], bytes[9]) = (kind, cause);
        bytes.extend_from_slice(&body);
        drop(decode(&resealed(bytes)));
    }

    /// Closer to real input than random bytes: one byte of a real record differs.
    #[test]
    fn a_changed_byte_behind_a_good_checksum_ends_in_an_answer(
        record in strategies::record(),
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = encoded(1, &record);
        let place = place.index(bytes.len());
        bytes[place] = value;
        if let Ok(decoded) = decode(&resealed(bytes)) {
            let again = encoded(decoded.namespace, &decoded.record);
            let reread = decode(&again).map(|again| again.namespace);
            prop_assert_eq!(reread, Ok(decoded.namespace), "what can be read can be written");
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for record in samples() {
        let bytes = encoded(1, &record);
        let length = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small");
        for bit in 0..length * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit} of {record:?}");
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    for record in samples() {
        let bytes = encoded(1, &record);
        let length = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small");
        for end in 0..length {
            let cut = decode(&bytes[..end]);
            assert_eq!(cut, Err(DecodeError::Truncated(end)), "cut at {end} of {record:?}");
            // As the rest of a torn sector would be. The length may be among the lost bytes.
            let mut zeroed = bytes.clone();
            zeroed[end..].fill(0);
            if zeroed != bytes {
                assert!(decode(&zeroed).is_err(), "zeros from {end} of {record:?}");
            }
        }
    }
}

#[test]
fn a_cut_body_is_refused_even_with_a_valid_checksum() {
    for record in samples() {
        let bytes = encoded(1, &record);
        let length = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small");
        for end in HEADER_BYTES..length {
            let mut short = bytes[..end].to_vec();
            let body = u32::try_from(end - HEADER_BYTES).expect("small");
            short[4..8].copy_from_slice(&body.to_le_bytes());
            assert!(decode(&resealed(short)).is_err(), "body ends at {end} of {record:?}");
        }
        let mut long = bytes[..length].to_vec();
        long.push(0);
        let body = u32::try_from(long.len() - HEADER_BYTES).expect("small");
        long[4..8].copy_from_slice(&body.to_le_bytes());
        assert!(decode(&resealed(long)).is_err(), "one byte more than {record:?}");
    }
}

#[test]
fn wrong_lengths_within_a_body_are_refused() {
    for record in samples() {
        let bytes = encoded(1, &record);
        let length = usize::try_from(bytes_of(&bytes).expect("a header")).expect("small");
        for at in HEADER_BYTES..length.saturating_sub(3) {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].fill(0xFF);
            // Some of these bytes are plain numbers; none may lead to more than the input holds.
            if let Ok(decoded) = decode(&resealed(damaged)) {
                let again = encoded(decoded.namespace, &decoded.record);
                assert!(again.len() <= bytes.len() + 16, "at {at} of {record:?}");
            }
        }
    }
}

#[test]
fn kinds_and_causes_have_the_documented_numbers() {
    let timer = || {
        samples().into_iter().find_map(|record| match record {
            Record::Pending(_, timer) => Some(timer),
            _ => None,
        })
    };
    let timer = timer().expect("samples have every kind");
    for (place, cause) in CAUSES.into_iter().enumerate() {
        let pending = encoded(0, &Record::Pending(cause, timer.clone()));
        assert_eq!(usize::from(pending[9]), place + 1, "{cause:?}");
        let dead = encoded(0, &Record::Dead(cause, timer.clone()));
        assert_eq!((dead[8], dead[9]), (2, pending[9]));
    }
    for record in samples() {
        let expected = match record {
            Record::Pending(..) => 1,
            Record::Dead(..) => 2,
            Record::Ended { .. } => 3,
            Record::Lease { .. } => 4,
            Record::Purged { .. } => 5,
            Record::Lost { .. } => 8,
            Record::Evicted { .. } => 9,
            Record::Namespace(_) => 6,
            Record::NamespaceGone => 7,
        };
        let bytes = encoded(0x00AB_CDEF, &record);
        assert_eq!(bytes[8], expected, "{record:?}");
        assert_eq!(bytes[10..16], [0, 0, 0xEF, 0xCD, 0xAB, 0], "{record:?}");
    }
}

#[test]
fn kinds_and_causes_of_later_builds_are_refused_by_name() {
    let check = |at: usize, value: u8, what: &'static str| {
        let mut bytes = samples()
            .iter()
            .map(|record| encoded(1, record))
            .find(|bytes| bytes[8] == 1)
            .expect("samples have every kind");
        bytes[at] = value;
        let unknown = DecodeError::Unknown { what, value: u64::from(value) };
        assert_eq!(decode(&resealed(bytes)), Err(unknown));
    };
    check(8, 0, "record kind");
    check(8, 10, "record kind");
    check(8, 255, "record kind");
    check(9, 0, "cause");
    check(9, 9, "cause");
}

#[test]
fn no_limit_is_the_largest_number() {
    use duly_core::limits::Limits;
    let limits = Limits { max_pending: None, schedule_per_second: None, ..Limits::default() };
    let settings = Settings { limits: limits.clone(), ..Settings::default() };
    let namespace = NamespaceRecord {
        name: NamespaceName::new("a").expect("a name"),
        settings: Arc::new(settings),
        paused: true,
        resumes_at: None,
        implicit: true,
        created_at: Timestamp::MIN,
        updated_at: Timestamp::MAX,
        totals: Totals::default(),
    };
    let record = Record::Namespace(Box::new(namespace));
    let Ok(Decoded { record: Record::Namespace(read), .. }) = decode(&encoded(1, &record)) else {
        panic!("a namespace reads back");
    };
    assert_eq!(read.settings.limits, limits);
}

/// Returns one record of each kind that has optional parts, with every one of them.
fn with_every_field() -> Vec<(&'static str, Record)> {
    let timer = Timer::every_field();
    let mut plain = timer.clone();
    plain.spec.destination = Some(duly_core::Destination::Pull);
    plain.spec.retry = Some(Settings::every_field().retry);
    let tombstone = Tombstone::of(&timer, duly_core::tombstone::Ended::Finished, Timestamp::MAX);
    let at = |ms| Timestamp::saturating_from_unix_ms(ms);
    let totals = Totals {
        scheduled: 1,
        fired: 2,
        delivered: 3,
        failed: 4,
        cancelled: 5,
        rescheduled: 6,
        dead: 7,
    };
    let namespace = NamespaceRecord {
        name: NamespaceName::new("orders").expect("a name"),
        settings: Arc::new(Settings::every_field()),
        paused: true,
        resumes_at: Some(at(8)),
        implicit: true,
        created_at: at(9),
        updated_at: at(10),
        totals,
    };
    vec![
        ("pending", Record::Pending(Cause::Imported, Box::new(timer.clone()))),
        ("pulled", Record::Pending(Cause::Created, Box::new(plain))),
        ("dead", Record::Dead(Cause::AttemptFailed, Box::new(timer))),
        ("ended", Record::Ended { tombstone: tombstone.into(), expires_at: None, number: 11 }),
        ("namespace", Record::Namespace(Box::new(namespace))),
    ]
}

#[test]
fn p11_no_byte_of_a_record_with_every_field_has_changed() {
    let golden = include_str!("golden.txt").lines().map(|line| line.split_once(' ').expect("two"));
    let records = with_every_field();
    assert_eq!(golden.clone().count(), records.len());
    for ((name, record), (golden_name, hex)) in records.into_iter().zip(golden) {
        let bytes = encoded(12, &record);
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((name, &*written), (golden_name, hex));
        assert_eq!(decode(&bytes), Ok(Decoded { namespace: 12, record }), "{name}");
    }
}
