//! Tests that every record unpacks to what was packed (P11).

use duly_core::{
    Destination, Millis, RetryPolicy, Schedule, Settings, Timestamp,
    destination::HttpDestination,
    headers::Headers,
    schedule::{SlotKey, Tags, When},
    timer::{Attempt, AttemptOutcome, DeadLetterReason, SettledToken, Verdict, Wait},
};
use proptest::prelude::*;

use super::*;

fn id() -> TimerId {
    TimerId::new("an id").unwrap()
}

/// Returns a timer with every optional part.
fn full() -> Timer {
    let mut schedule = Schedule::new(id(), When::At(Timestamp::MAX));
    schedule.spec.payload = Some(Payload { form: Form::Binary, bytes: vec![0, 255, b'\n'].into() });
    schedule.spec.headers = Headers::new([("x-a".to_owned(), "1".to_owned())]).unwrap();
    schedule.spec.tags = Tags::new(vec!["red".to_owned(), "é".to_owned()]).unwrap();
    schedule.spec.slot_key = Some(SlotKey::new("k".to_owned()).unwrap());
    schedule.spec.destination =
        Some(Destination::Http(HttpDestination::new("https://h.example/x?y").unwrap()));
    schedule.spec.retry = Some(RetryPolicy::Delays(vec![Millis::from_ms(5), Millis::ZERO]));
    schedule.spec.expire_after = Some(Millis::from_secs(9));
    schedule.spec.trace_parent = Some("00-1-2-01".to_owned());
    Timer::new(schedule, Timestamp::saturating_from_unix_ms(7), Incarnation(u64::MAX)).unwrap()
}

fn back(record: &Record) -> Record {
    let packed = record.pack([7; 8]);
    let mut back = Record::unpack(record.timer.id.clone(), &packed.record).unwrap();
    if let Some(payload) = packed.payload {
        assert!(back.attach(&payload.into()).unwrap());
        back.apart = None;
    }
    back
}

#[test]
fn p11_every_field_of_a_timer_round_trips() {
    let mut timer = full();
    let record = Record { lane: 9, ..Record::of(timer.clone()) };
    assert_eq!(back(&record), record);
    for n in 1..=20 {
        let ended = Attempt::new(n, Timestamp::MAX, AttemptOutcome::TimedOut, &"r".repeat(2_000));
        timer.attempt_failed(ended, Wait::None, &RetryPolicy::default(), 0, Timestamp::MIN);
    }
    timer.last_settled = Some(SettledToken { nonce: u64::MAX, verdict: Verdict::Release });
    timer.updated_at = Timestamp::MAX;
    (timer.revision, timer.occurrence, timer.budget_from) = (u32::MAX, 1 << 20, 3);
    timer.mark_dead_letter(Timestamp::MAX, DeadLetterReason::Overdue);
    let record = Record { lane: 255, ..Record::of(timer) };
    assert_eq!(back(&record), record);
}

#[test]
fn untouched_timer_takes_47_bytes() {
    let schedule = Schedule::new(id(), When::At(Timestamp::MAX));
    let timer = Timer::new(schedule, Timestamp::MIN, Incarnation(1)).unwrap();
    let record = Record { lane: 1, ..Record::of(timer) }.pack([0; 8]).record;
    assert_eq!(record.len(), 47);
    assert_eq!(core_of(&record).unwrap(), record);
}

#[test]
fn p11_large_payload_is_stored_apart_for_its_own_record_only() {
    let mut timer = full();
    let bytes = noise(INLINE_MAX + 1);
    timer.spec.payload = Some(Payload { form: Form::Text, bytes: bytes.clone().into() });
    let packed = Record { lane: 1, ..Record::of(timer.clone()) }.pack([7; 8]);
    assert!(packed.record.len() < 500);
    let mut record = Record::unpack(id(), &packed.record).unwrap();
    assert!(record.lacks_payload());
    let other = [&[8; 8][..], &bytes].concat();
    assert!(!record.attach(&other.into()).unwrap(), "another record's");
    assert!(record.attach(&packed.payload.unwrap().into()).unwrap());
    assert_eq!(record.timer, timer);
    assert_eq!(record.pack([9; 8]).payload, None, "it stays where it is");
}

/// Returns bytes that cannot be compressed.
fn noise(count: usize) -> Vec<u8> {
    let numbers = (1_u32..).map(|i| i.wrapping_mul(0x9E37_79B9).rotate_left(i % 31) ^ i);
    numbers.flat_map(|number| number.to_be_bytes()).take(count).collect()
}

fn carrying(payload: Vec<u8>) -> Record {
    let mut timer = full();
    timer.spec.payload = Some(Payload { form: Form::Json, bytes: payload.into() });
    Record { lane: 3, ..Record::of(timer) }
}

#[test]
fn p11_compressed_payloads_are_smaller_and_lossless() {
    let size_of =
        |packed: &Packed| u32::from_be_bytes(packed.record[3..7].try_into().unwrap()) as usize;
    let without = carrying(Vec::new()).pack([0; 8]);
    let (rest, empty) = (without.record.len(), size_of(&without));
    let line = r#"{"sku":"1094D466","title":"rain jacket","quantity":2},"#;
    for bytes in [255, 256, 1_000, INLINE_MAX, INLINE_MAX + 1, 1 << 20] {
        let text = line.repeat(bytes / line.len() + 1).into_bytes()[..bytes].to_vec();
        for (payload, shorter) in [(text, bytes >= 256), (noise(bytes), false)] {
            let record = carrying(payload);
            let packed = record.pack([7; 8]);
            let stored = packed.record.len() - rest + packed.payload.as_ref().map_or(0, Vec::len);
            assert_eq!(stored < bytes / 2, shorter, "{stored} for {bytes}");
            assert!(stored <= bytes + 20, "{stored} for {bytes}");
            assert_eq!(size_of(&packed) - empty, bytes, "it counts as given");
            assert_eq!(back(&record), record);
        }
    }
}

#[test]
fn p4_a_stop_is_a_bit_of_the_core_that_older_builds_skip() {
    let record = Record::of(full());
    let stopped = Record { stopped: true, ..record.clone() };
    let [plain, packed] = [&record, &stopped].map(|it| it.pack([7; 8]).record);
    let differs: Vec<_> = (0..plain.len()).filter(|&i| plain[i] != packed[i]).collect();
    assert_eq!((plain.len(), differs.len()), (packed.len(), 1), "no other byte changes");
    assert_eq!(Record::unpack(id(), &packed).unwrap(), stopped);
    assert_ne!(core_of(&plain).unwrap(), core_of(&packed).unwrap(), "it is compared");
}

#[test]
fn a_damaged_block_is_refused() {
    let block = content::compressed(&[b'x'; 600]).unwrap();
    assert_eq!(content::decompressed(&block, 600).unwrap(), vec![b'x'; 600]);
    for wrong in [0, 599, 601, u64::MAX] {
        assert!(content::decompressed(&block, wrong).is_err(), "{wrong}");
    }
    assert!(content::decompressed(&block[..block.len() - 1], 600).is_err());
}

#[test]
fn p11_no_byte_of_a_record_with_every_field_has_changed() {
    let golden: Vec<_> =
        include_str!("golden.txt").lines().map(|line| line.split_once(' ').expect("two")).collect();
    let timer = Timer { id: id(), ..Timer::every_field() };
    let mut plain = timer.clone();
    plain.spec.destination = Some(Destination::Pull);
    plain.spec.retry = Some(Settings::every_field().retry);
    let mut large = timer.clone();
    large.spec.payload = Some(Payload { form: Form::Text, bytes: noise(INLINE_MAX + 1).into() });
    let record = |timer: &Timer| Record { lane: 3, ..Record::of(timer.clone()) };
    let pack = |record: &Record| record.pack([7; 8]).record;
    let stopped = Record { stopped: true, ..record(&timer) };
    let written = [
        ("live", pack(&record(&timer))),
        ("stopped", pack(&stopped)),
        ("pulled", pack(&record(&plain))),
        ("apart", pack(&record(&large))),
        ("settings", encode_settings(&Settings::every_field())),
    ];
    assert_eq!(golden.len(), written.len());
    for ((name, bytes), (golden_name, hex)) in written.iter().zip(&golden) {
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((name, &*written), (golden_name, *hex));
    }
    for (timer, (_, bytes)) in [&timer, &timer, &plain].into_iter().zip(&written) {
        assert_eq!(&Record::unpack(id(), bytes).unwrap().timer, timer);
    }
    let mut apart = Record::unpack(id(), &written[3].1).unwrap();
    assert!(apart.attach(&[&[7; 8][..], &noise(INLINE_MAX + 1)].concat().into()).unwrap());
    assert_eq!(apart.timer, large);
    assert_eq!(decode_settings(&written[4].1).unwrap(), Settings::every_field());
}

proptest! {
    #[test]
    fn damaged_bytes_are_refused_and_never_panic(bytes: Vec<u8>, at: usize, byte: u8) {
        let _any = Record::unpack(id(), &bytes).is_ok();
        let _any = decode_settings(&bytes).is_ok();
        let _any = content::decompressed(&bytes, 1_000).is_ok();
        let mut record = carrying(vec![b'x'; 300]).pack([0; 8]).record;
        let at = at % record.len();
        record[at] = byte;
        let _any = core_of(&record).is_ok();
        let _any = Record::unpack(id(), &record).is_ok();
        record.truncate(at);
        let _any = Record::unpack(id(), &record).is_ok();
    }
}
