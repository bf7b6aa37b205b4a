use proptest::prelude::*;

use super::*;

const SEED: Seed = Seed(0x5EED);

fn frame(records: &[u8], identity: Identity) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    frame.extend_from_slice(records);
    seal(&mut frame, SEED, identity);
    frame
}

fn sample() -> Vec<u8> {
    frame(&[7; 48], Identity { epoch: 3, lsn: 1_000, count: 2, durable_lsn: 990, steady_ms: 5_000 })
}

fn reads(bytes: &[u8]) -> Option<Header> {
    let header = Header::read(bytes, SEED)?;
    let whole = bytes.get(..usize::try_from(header.frame_bytes()).ok()?)?;
    is_intact(whole, SEED, &header).then_some(header)
}

#[test]
fn a_sealed_frame_reads_back() {
    let frame = sample();
    let header = reads(&frame).expect("it is whole");
    assert_eq!((header.length, header.epoch, header.lsn), (48, 3, 1_000));
    assert_eq!(header.steady_ms, 5_000);
    assert_eq!((header.count, header.lag, header.durable_lsn()), (2, 10, 990));
    assert_eq!(header.frame_bytes(), frame.len() as u64);
}

#[test]
fn the_layout_is_the_documented_one() {
    let frame = sample();
    assert_eq!(&frame[..4], b"DLYf");
    assert_eq!(frame[4..8], 48_u32.to_le_bytes());
    let header = [&frame[..8], &frame[12..48]].concat();
    assert_eq!(frame[8..12], crc32c::crc32c_append(0x5EED, &header).to_le_bytes());
    assert_eq!(frame[12..16], crc32c::crc32c_append(0x5EED, &frame[48..]).to_le_bytes());
    assert_eq!(frame[16..24], 1_000_u64.to_le_bytes());
    assert_eq!(frame[24..32], 5_000_u64.to_le_bytes());
    assert_eq!(frame[32..36], 3_u32.to_le_bytes());
    assert_eq!(frame[36..40], 2_u32.to_le_bytes());
    assert_eq!(frame[40..44], 10_u32.to_le_bytes());
    assert_eq!(frame[44..48], [0; 4]);
    assert_eq!(Seed::of(9), Seed(crc32c::crc32c(&9_u128.to_le_bytes())));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let frame = sample();
    for bit in 0..frame.len() * 8 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(reads(&damaged), None, "bit {bit}");
    }
}

/// The header is checked before anything behind it is read.
#[test]
fn every_flipped_bit_of_a_header_is_noticed_by_the_header_alone() {
    let frame = sample();
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = frame[..HEADER_BYTES].to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::read(&damaged, SEED), None, "bit {bit}");
    }
}

#[test]
fn every_truncation_is_noticed() {
    let frame = sample();
    for end in 0..frame.len() {
        assert_eq!(reads(&frame[..end]), None, "cut at {end}");
        let mut zeroed = frame.clone();
        zeroed[end..].fill(0);
        assert_eq!(reads(&zeroed), None, "zeros from {end}");
    }
}

#[test]
fn a_frame_of_another_store_is_not_one() {
    let frame = sample();
    let header = Header::read(&frame, SEED).expect("a header");
    assert!(is_intact(&frame, SEED, &header));
    assert!(!is_intact(&frame, Seed(0), &header), "an unseeded checksum");
    for other in [Seed(0), Seed::of(1)] {
        assert_eq!(Header::read(&frame, other), None);
    }
}

#[test]
fn impossible_lengths_begin_no_frame() {
    let with_length = |length: u32| {
        let mut frame = sample();
        frame[4..8].copy_from_slice(&length.to_le_bytes());
        seal_header(&mut frame, SEED);
        frame
    };
    for length in [0_u32, 1, 15, 17, u32::MAX] {
        assert_eq!(Header::read(&with_length(length), SEED), None, "{length}");
    }
    let far = with_length(u32::MAX - 15);
    assert!(Header::read(&far, SEED).is_some(), "plausible until the bytes are looked for");
    assert_eq!(reads(&far), None);
}

#[test]
fn a_lag_past_its_range_claims_nothing() {
    let identity = Identity {
        epoch: 1,
        lsn: u64::from(u32::MAX) + 500,
        count: 1,
        durable_lsn: 3,
        steady_ms: 0,
    };
    let header = Header::read(&frame(&[0; 16], identity), SEED).expect("a header");
    assert_eq!(header.lag, u32::MAX);
    assert_eq!(header.durable_lsn(), 0, "it is a witness of nothing");
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(reads(&bytes), None, "a checksum does not match by chance");
    }

    #[test]
    fn any_bytes_behind_a_magic_are_a_frame_or_not(
        rest in prop::collection::vec(any::<u8>(), 0..200),
        length in 0_u32..20,
    ) {
        let mut bytes = b"DLYf".to_vec();
        bytes.extend_from_slice(&(length * 16).to_le_bytes());
        bytes.extend_from_slice(&rest);
        prop_assert_eq!(reads(&bytes), None, "a checksum does not match by chance");
    }
}

#[test]
fn a_closing_frame_has_no_records_and_follows_a_durable_one() {
    let identity = Identity { epoch: 3, lsn: 8, count: 5, durable_lsn: 7, steady_ms: 9 };
    let frame = closing(SEED, identity);
    assert_eq!(frame.len(), HEADER_BYTES);
    let header = reads(&frame).expect("it is whole");
    assert!(header.is_closing());
    assert_eq!((header.length, header.count, header.lsn, header.durable_lsn()), (0, 0, 8, 7));
    assert!(!reads(&sample()).expect("whole").is_closing());
    for bit in 0..frame.len() * 8 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(reads(&damaged), None, "bit {bit}");
    }
    // A frame with a count has records.
    let mut counted = frame;
    counted[36] = 1;
    seal_header(&mut counted, SEED);
    assert_eq!(reads(&counted), None);
}
