use duly_core::{Timestamp, destination::LaneKey};
use proptest::prelude::*;

use super::*;
use crate::format::{record::Lease, strategies};

const HEADER: Header = Header {
    version: 1,
    store: 0x1234_5678,
    number: 42,
    replay: ReplayPoint { sequence: 7, offset: 4_096, lsn: 1_001, epoch: 3 },
    begun_at_ms: 1_900,
    retry_due_max_ms: 1_700,
    steady_ms: 1_800,
};

fn seed() -> Seed {
    Seed::of(9)
}

fn encoded(block: &Block<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.encode(&mut bytes, seed());
    bytes
}

/// Decodes the block that these bytes begin with.
fn decoded(bytes: &[u8]) -> Result<Block<'_>, DecodeError> {
    let header = BlockHeader::read(bytes)?;
    Block::decode(&header, header.payload(bytes, seed())?)
}

#[test]
fn a_header_reads_back_and_has_the_documented_layout() {
    let bytes = HEADER.encode(seed());
    assert_eq!(Header::read(&bytes, seed()), Ok(HEADER));
    assert_eq!(bytes.len() as u64, HEADER_BYTES);
    assert_eq!(&bytes[..8], b"DULYCKP\n");
    assert_eq!(bytes[8..12], 1_u32.to_le_bytes());
    let key_crc = crc32c::crc32c(&9_u128.to_le_bytes());
    let crc = crc32c::crc32c_append(key_crc, &[&bytes[..12], &bytes[16..]].concat());
    assert_eq!(bytes[12..16], crc.to_le_bytes());
    assert_eq!(bytes[16..32], 0x1234_5678_u128.to_le_bytes());
    let numbers: Vec<u64> = bytes[32..]
        .chunks(8)
        .map(|number| u64::from_le_bytes(number.try_into().expect("8 bytes")))
        .collect();
    assert_eq!(numbers, [42, 7, 4_096, 1_001, 3, 1_900, 1_700, 1_800]);
}

#[test]
fn every_flipped_bit_and_truncation_of_a_header_is_noticed() {
    let bytes = HEADER.encode(seed());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::read(&damaged, seed()).is_err(), "bit {bit}");
    }
    for end in 0..bytes.len() {
        assert_eq!(Header::read(&bytes[..end], seed()), Err(DecodeError::Truncated(end)));
    }
    assert_eq!(Header::read(&bytes, Seed::of(8)), Err(DecodeError::Checksum));
}

#[test]
fn a_block_has_the_documented_layout() {
    let mut entries = Vec::new();
    append_entry(&mut entries, [1, 2, u64::MAX]);
    append_entry(&mut entries, [4, 5, 6]);
    let bytes = encoded(&Block::Entries(Entries::new(77, IndexKind::DeadByTimer, &entries)));
    assert_eq!(bytes.len(), 16 + 56 + 8, "padded to 16");
    assert_eq!(bytes[..4], 2_u32.to_le_bytes());
    assert_eq!(bytes[4..8], 56_u32.to_le_bytes());
    assert_eq!(bytes[8..12], 2_u32.to_le_bytes());
    let key_crc = crc32c::crc32c(&9_u128.to_le_bytes());
    let crc = crc32c::crc32c_append(key_crc, &[&bytes[..12], &bytes[16..72]].concat());
    assert_eq!(bytes[12..16], crc.to_le_bytes());
    assert_eq!(bytes[16..24], [77, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(bytes[24..32], 1_u64.to_le_bytes());
    assert_eq!(bytes[40..48], [0xFF; 8]);
    assert_eq!(bytes[72..], [0; 8]);

    let file = FileSlot { slot: 0x0201, id: FileId::SortedRun(9) };
    let bytes = encoded(&Block::Files(vec![file]));
    assert_eq!(bytes[16..], [1, 2, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);

    let at = Timestamp::from_unix_ms(6).unwrap();
    let (claimed_at, until, lease_ms) = (at, at, 5);
    let lease = Lease {
        nonce: 2,
        attempt: 3,
        node: Some(4),
        claimed_at,
        lease_ms,
        until,
        extends: false,
        stopped: true,
    };
    let bytes = encoded(&Block::Leases(Leases { namespace: 77, leases: vec![([1; 12], lease)] }));
    assert_eq!(bytes[16..24], [77, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[24..36], [1; 12]);
    assert_eq!(bytes[36..49], [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5]);
    let numbers = [4, 6, 5, 6].map(u64::to_le_bytes).concat();
    assert_eq!(bytes[49..81], numbers, "node, claimed_at, lease_ms, until");

    let end = End { blocks: 1, namespaces: 2, entries: 3, highest_namespace: 4 };
    let bytes = encoded(&Block::End(end));
    assert_eq!(bytes.len() as u64, END_BLOCK_BYTES);
    assert_eq!(bytes[..12], [6, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[16..][..8], 1_u64.to_le_bytes());
    assert_eq!(bytes[32..], [3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn full_blocks_keep_to_the_largest_payload() {
    let entries = vec![7; ENTRIES_MAX * ENTRY_BYTES];
    let lease = Lease {
        nonce: 2,
        attempt: 3,
        node: None,
        claimed_at: Timestamp::MAX,
        lease_ms: 4,
        until: Timestamp::MAX,
        extends: false,
        stopped: false,
    };
    let letter = DeadLetterEntry { timer: [1; 12], dead_lettered_ms: 2, letter: [3; 12] };
    let file = FileSlot { slot: 1, id: FileId::Segment(2) };
    let blocks = [
        Block::Entries(Entries::new(1, IndexKind::Live, &entries)),
        Block::Leases(Leases { namespace: 1, leases: vec![([1; 12], lease); LEASES_MAX] }),
        Block::MultipleDeadLetters(MultipleDeadLetters {
            namespace: 1,
            dead_letters: vec![letter; DEAD_LETTERS_MAX],
        }),
        Block::Files(vec![file; FILES_MAX]),
    ];
    for block in blocks {
        let bytes = encoded(&block);
        let length = u64::from(BlockHeader::read(&bytes).expect("a block").length);
        assert!(length <= PAYLOAD_BYTES_MAX && length + 64 > PAYLOAD_BYTES_MAX, "{length}");
        assert!(decoded(&bytes).expect("it is whole") == block);
    }
}

#[test]
#[should_panic(expected = "a block of 4194320 bytes")]
fn a_longer_block_is_an_error_of_the_caller() {
    let entries = vec![7; (ENTRIES_MAX + 1) * ENTRY_BYTES];
    encoded(&Block::Entries(Entries::new(1, IndexKind::Live, &entries)));
}

#[test]
fn impossible_lengths_counts_and_kinds_are_refused() {
    let seal = |kind: u32, count: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("small");
        let mut bytes: Vec<u8> =
            [kind, length, count, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend_from_slice(payload);
        let crc = seed().crc_around(&bytes, 12);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    let entry_block = [1, 0, 0, 0, 1, 0, 0, 0];
    for count in [1, 2, u32::MAX] {
        for kind in 2..=4 {
            assert!(decoded(&seal(kind, count, &entry_block)).is_err(), "{count} of kind {kind}");
        }
        assert!(decoded(&seal(5, count, &[])).is_err(), "{count} files");
    }
    assert!(decoded(&seal(2, 0, &entry_block)).is_ok(), "none at all are none");
    assert!(decoded(&seal(2, 0, &[1, 0, 0, 0, 5, 0, 0, 0])).is_err(), "an index 5");
    assert!(decoded(&seal(5, 1, &[0, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0])).is_err());
    for kind in [0, 7, u32::MAX] {
        let bytes = seal(kind, 1, &[0; 32]);
        let expected = DecodeError::Unknown { what: "kind of block", value: kind.into() };
        assert_eq!(decoded(&bytes), Err(expected));
    }
    assert!(decoded(&seal(6, 1, &[0; 32])).is_ok());
    for (count, bytes) in [(0, 32), (2, 32), (1, 31), (1, 33), (1, 0)] {
        assert!(decoded(&seal(6, count, &vec![0; bytes])).is_err(), "{count} ends of {bytes}");
    }
    for length in [PAYLOAD_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut bytes = seal(6, 1, &[0; 32]);
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(BlockHeader::read(&bytes), Err(DecodeError::Impossible(_))));
    }
}

#[test]
fn impossible_lanes_are_refused() {
    let lane = |number, key| Lane { number, key };
    let with = |lanes| {
        let record = match crate::journal::fixture::namespace("shop") {
            crate::format::record::Record::Namespace(record) => *record,
            other => panic!("{other:?}"),
        };
        let namespace = Namespace { number: 1, lsn: 2, record, lanes, counts: [0; 4] };
        encoded(&Block::Namespace(Box::new(namespace)))
    };
    assert!(decoded(&with(vec![lane(0, None), lane(1, Some(LaneKey::Pull))])).is_ok());
    assert!(decoded(&with(vec![lane(1, None), lane(1, None)])).is_err(), "two alike");
    assert!(decoded(&with(vec![lane(2, None), lane(1, None)])).is_err(), "unsorted");

    let bytes = with(Vec::new());
    let header = BlockHeader::read(&bytes).expect("a block");
    let mut payload = header.payload(&bytes, seed()).expect("whole").to_vec();
    let at = payload.len() - 4;
    payload[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Block::decode(&header, &payload).is_err(), "4 billion lanes");
}

fn key() -> impl Strategy<Value = [u8; 12]> {
    any::<[u8; 12]>()
}

fn namespace() -> impl Strategy<Value = Namespace> {
    let key = prop_oneof![
        Just(None),
        Just(Some(LaneKey::Pull)),
        Just(Some(LaneKey::Overflow)),
        "https://[a-z]{1,9}\\.example".prop_map(|origin| Some(LaneKey::Receiver(origin.into()))),
    ];
    let lanes = prop::collection::btree_map(any::<u8>(), key, 0..9);
    (any::<u32>(), any::<u64>(), strategies::namespace(), lanes).prop_map(
        |(number, lsn, record, lanes)| {
            let lanes = lanes.into_iter().map(|(number, key)| Lane { number, key }).collect();
            Namespace { number, lsn, record, lanes, counts: [5, 0, u64::MAX, 7] }
        },
    )
}

fn lease() -> impl Strategy<Value = ([u8; 12], Lease)> {
    (key(), strategies::lease())
}

fn letter() -> impl Strategy<Value = DeadLetterEntry> {
    (key(), any::<u64>(), key()).prop_map(|(timer, dead_lettered_ms, letter)| DeadLetterEntry {
        timer,
        dead_lettered_ms,
        letter,
    })
}

fn file() -> impl Strategy<Value = FileSlot> {
    let number = any::<u64>;
    let id = prop_oneof![number().prop_map(FileId::Segment), number().prop_map(FileId::SortedRun),];
    (any::<u16>(), id).prop_map(|(slot, id)| FileSlot { slot, id })
}

/// Any block that owns its contents.
pub(crate) fn block() -> impl Strategy<Value = Block<'static>> {
    let many = 0..5;
    prop_oneof![
        namespace().prop_map(|namespace| Block::Namespace(Box::new(namespace))),
        (any::<u32>(), prop::collection::vec(lease(), many.clone()))
            .prop_map(|(namespace, leases)| Block::Leases(Leases { namespace, leases })),
        (any::<u32>(), prop::collection::vec(letter(), many.clone())).prop_map(
            |(namespace, dead_letters)| Block::MultipleDeadLetters(MultipleDeadLetters {
                namespace,
                dead_letters
            })
        ),
        prop::collection::vec(file(), many).prop_map(Block::Files),
        any::<([u64; 3], u32)>().prop_map(|([blocks, namespaces, entries], highest_namespace)| {
            Block::End(End { blocks, namespaces, entries, highest_namespace })
        }),
    ]
}

proptest! {
    #[test]
    fn any_header_reads_back(
        version: u32, store: u128, epoch: u32, numbers: [u64; 7], key: u128,
    ) {
        let [number, sequence, offset, lsn, begun_at_ms, retry_due_max_ms, steady_ms] = numbers;
        let replay = ReplayPoint { sequence, offset, lsn, epoch };
        let header = Header {
            version,
            store,
            number,
            replay,
            begun_at_ms,
            retry_due_max_ms,
            steady_ms,
        };
        prop_assert_eq!(Header::read(&header.encode(Seed::of(key)), Seed::of(key)), Ok(header));
    }

    #[test]
    fn any_block_reads_back_and_takes_what_its_header_says(block in block()) {
        let bytes = encoded(&block);
        let header = BlockHeader::read(&bytes).expect("a block");
        prop_assert_eq!(header.block_bytes(), bytes.len() as u64);
        prop_assert_eq!(decoded(&bytes), Ok(block));
    }

    #[test]
    fn any_entries_read_back(
        namespace: u32,
        which in prop::sample::select(vec![
            IndexKind::Live, IndexKind::Tombstones, IndexKind::DeadLetters, IndexKind::DeadByTimer,
        ]),
        entries: Vec<[u64; 3]>,
    ) {
        let mut gathered = Vec::new();
        entries.iter().for_each(|entry| append_entry(&mut gathered, *entry));
        let bytes = encoded(&Block::Entries(Entries::new(namespace, which, &gathered)));
        match decoded(&bytes) {
            Ok(Block::Entries(read)) => {
                prop_assert_eq!((read.namespace, read.which), (namespace, which));
                prop_assert_eq!(read.len(), entries.len());
                prop_assert_eq!(read.iter().collect::<Vec<_>>(), entries);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed_and_padding_means_nothing(block in block(), mask in 1..=255_u8) {
        let bytes = encoded(&block);
        let header = BlockHeader::read(&bytes).expect("a block");
        let checked = 16 + header.length as usize;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            if at < checked {
                prop_assert!(decoded(&damaged).is_err(), "byte {}", at);
            } else {
                prop_assert!(decoded(&damaged).as_ref() == Ok(&block), "padding {}", at);
            }
        }
        for end in 0..checked {
            prop_assert!(decoded(&bytes[..end]).is_err(), "cut at {}", end);
        }
    }

    #[test]
    fn any_payload_is_refused_or_decoded_within_its_bytes(
        kind in 0..9_u32,
        count in prop_oneof![0..9_u32, any::<u32>()],
        payload in prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..300),
    ) {
        let length = u32::try_from(payload.len()).expect("small");
        let header = BlockHeader { kind, length, count, crc: 0 };
        if let Ok(block) = Block::decode(&header, &payload) {
            let written = encoded(&block);
            let again = BlockHeader::read(&written).expect("a block");
            prop_assert_eq!((again.kind, again.length, again.count), (kind, length, count));
        }
    }

    #[test]
    fn a_payload_cut_or_extended_is_refused(block in block(), by in 1..40_usize) {
        let bytes = encoded(&block);
        let header = BlockHeader::read(&bytes).expect("a block");
        let payload = header.payload(&bytes, seed()).expect("whole");
        let cut = &payload[..payload.len().saturating_sub(by)];
        if cut.len() < payload.len() {
            prop_assert!(Block::decode(&header, cut).is_err());
        }
        let extended = [payload, &vec![0; by]].concat();
        prop_assert!(Block::decode(&header, &extended).is_err());
    }
}
