use proptest::prelude::*;

use super::*;

const HEADER: Header = Header {
    version: 1,
    store: 0x1234_5678,
    id: 42,
    kind: RunKind::Tombstones,
    created_at_ms: 1_900,
};

fn seed() -> Seed {
    Seed::of(9)
}

/// Groups of 1, 2 and 3 records of 32 bytes each.
fn directory() -> Directory {
    let group = |hour, namespace, unit, count| Group { hour, namespace, unit, count };
    Directory { groups: vec![group(5, 7, 4, 1), group(6, 1, 6, 2), group(6, 3, 10, 3)] }
}

fn trailer(directory: &Directory) -> Trailer {
    Trailer {
        directory_crc: directory.encode(seed()).1,
        id: 42,
        records: 6,
        directory_at: 64 + 6 * 32,
        groups: directory.groups.len() as u64,
        time_min_ms: 5 * HOUR_MS,
        time_max_ms: 7 * HOUR_MS - 1,
    }
}

/// Length of the file that [`trailer`] describes.
const LENGTH: u64 = 64 + 6 * 32 + 3 * 16 + 64;

#[test]
fn a_header_reads_back_and_has_the_documented_layout() {
    let bytes = HEADER.encode(seed());
    assert_eq!(Header::read(&bytes, seed()), Ok(HEADER));
    assert_eq!(bytes.len() as u64, HEADER_BYTES);
    assert_eq!(&bytes[..8], b"DULYRUN\n");
    assert_eq!(bytes[8..12], 1_u32.to_le_bytes());
    let key_crc = crc32c::crc32c(&9_u128.to_le_bytes());
    let crc = crc32c::crc32c_append(key_crc, &[&bytes[..12], &bytes[16..]].concat());
    assert_eq!(bytes[12..16], crc.to_le_bytes());
    assert_eq!(bytes[16..32], 0x1234_5678_u128.to_le_bytes());
    assert_eq!(bytes[32..40], 42_u64.to_le_bytes());
    assert_eq!(bytes[40..48], [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[48..56], 1_900_u64.to_le_bytes());
    assert_eq!(bytes[56..], [0; 8]);
}

#[test]
fn trailer_and_directory_have_the_documented_layout() {
    let directory = directory();
    let (entries, crc) = directory.encode(seed());
    assert_eq!(entries[..16], [5, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0]);
    let trailer = trailer(&directory);
    let bytes = trailer.encode(seed());
    assert_eq!(bytes.len() as u64, TRAILER_BYTES);
    assert_eq!(&bytes[..8], b"DULYRNE\n");
    assert_eq!(bytes[12..16], crc.to_le_bytes());
    let numbers: Vec<u64> = bytes[16..]
        .chunks(8)
        .map(|number| u64::from_le_bytes(number.try_into().expect("8 bytes")))
        .collect();
    assert_eq!(numbers, [42, 6, 256, 3, 18_000_000, 25_199_999]);
    let read = Trailer::read(&bytes, seed(), LENGTH).expect("it is whole");
    assert_eq!(read, trailer);
    assert_eq!(Directory::decode(&entries, &read, seed()), Ok(directory));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let header = HEADER.encode(seed());
    let trailer = trailer(&directory());
    let trailer_bytes = trailer.encode(seed());
    let (entries, _) = directory().encode(seed());
    let flipped = |bytes: &[u8], bit: usize| {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged
    };
    for bit in 0..64 * 8 {
        assert!(Header::read(&flipped(&header, bit), seed()).is_err(), "header bit {bit}");
        let damaged = flipped(&trailer_bytes, bit);
        assert!(Trailer::read(&damaged, seed(), LENGTH).is_err(), "trailer bit {bit}");
    }
    for bit in 0..entries.len() * 8 {
        let answer = Directory::decode(&flipped(&entries, bit), &trailer, seed());
        let error = answer.expect_err("a flipped bit");
        assert_eq!(error, Misplaced { offset: 0, error: DecodeError::Checksum }, "bit {bit}");
    }
}

#[test]
fn every_truncation_and_another_seed_are_noticed() {
    let header = HEADER.encode(seed());
    let trailer = trailer(&directory()).encode(seed());
    for end in 0..64 {
        assert_eq!(Header::read(&header[..end], seed()), Err(DecodeError::Truncated(end)));
        let answer = Trailer::read(&trailer[..end], seed(), LENGTH);
        assert_eq!(answer, Err(DecodeError::Truncated(end)));
    }
    assert_eq!(Header::read(&header, Seed::of(8)), Err(DecodeError::Checksum));
    assert_eq!(Trailer::read(&trailer, Seed::of(8), LENGTH), Err(DecodeError::Checksum));
    assert!(Header::read(&trailer, seed()).is_err(), "a trailer is no header");
    assert!(Trailer::read(&header, seed(), LENGTH).is_err());
}

#[test]
fn an_unknown_kind_is_refused() {
    let mut bytes = HEADER.encode(seed());
    for kind in [0, 4, 255] {
        bytes[40] = kind;
        seed().seal(&mut bytes, HEADER_CRC_AT);
        let expected = DecodeError::Unknown { what: "kind of run", value: u64::from(kind) };
        assert_eq!(Header::read(&bytes, seed()), Err(expected));
    }
}

#[test]
fn a_trailer_that_contradicts_the_file_is_refused() {
    let good = trailer(&directory());
    let wrong = [
        Trailer { directory_at: good.directory_at + 16, ..good },
        Trailer { directory_at: u64::MAX, ..good },
        Trailer { groups: u64::MAX, ..good },
        Trailer { groups: u64::MAX / 16 + 1, ..good },
        Trailer { groups: 4, ..good },
        Trailer { groups: 4, directory_at: good.directory_at - 16, records: 3, ..good },
        Trailer { records: 13, ..good },
        Trailer { records: u64::MAX, ..good },
        Trailer { records: 0, ..good },
        Trailer { records: 2, ..good },
        Trailer { groups: 0, directory_at: good.directory_at + 48, ..good },
        Trailer { time_min_ms: good.time_max_ms + 1, ..good },
    ];
    for trailer in wrong {
        let answer = Trailer::read(&trailer.encode(seed()), seed(), LENGTH);
        assert!(matches!(answer, Err(DecodeError::Impossible(_))), "{trailer:?}: {answer:?}");
    }
    let bytes = good.encode(seed());
    for length in [0, 1, 64, 127, 128, LENGTH - 16, LENGTH - 1, LENGTH + 1, u64::MAX] {
        assert!(Trailer::read(&bytes, seed(), length).is_err(), "a file of {length} bytes");
    }
    let off_grid = Trailer { directory_at: good.directory_at + 1, ..good };
    assert!(Trailer::read(&off_grid.encode(seed()), seed(), LENGTH + 1).is_err());
    let in_header = Trailer { directory_at: 48, groups: 1, records: 1, ..good };
    assert!(Trailer::read(&in_header.encode(seed()), seed(), 48 + 16 + 64).is_err());
}

#[test]
fn a_contradictory_directory_is_refused() {
    let change = |index: usize, change: fn(&mut Group)| {
        let mut directory = directory();
        change(&mut directory.groups[index]);
        (index, directory)
    };
    let wrong = [
        change(0, |group| group.unit = 3),
        change(0, |group| group.unit = 5),
        change(0, |group| group.unit = u32::MAX),
        change(0, |group| group.count = 0),
        change(0, |group| group.count = 3),
        change(1, |group| group.count = u32::MAX),
        change(2, |group| group.count = 7),
        change(2, |group| group.unit = 17),
        change(2, |group| group.namespace = 0),
        change(1, |group| group.hour = 4),
    ];
    for (index, directory) in wrong {
        let (bytes, _) = directory.encode(seed());
        let error = Directory::decode(&bytes, &trailer(&directory), seed()).expect_err("wrong");
        // A wrong unit also shows in the group before it.
        let at = usize::try_from(error.offset).expect("small") / 16;
        assert!(at == index || at + 1 == index, "{directory:?}: {error:?}");
        assert!(matches!(error.error, DecodeError::Impossible(_)), "{error:?}");
    }
    let good = directory();
    let (bytes, _) = good.encode(seed());
    let others = [
        Trailer { records: 5, ..trailer(&good) },
        Trailer { records: 7, ..trailer(&good) },
        Trailer { groups: 2, ..trailer(&good) },
        Trailer { groups: 4, ..trailer(&good) },
        Trailer { time_min_ms: 4 * HOUR_MS, ..trailer(&good) },
        Trailer { time_max_ms: 7 * HOUR_MS, ..trailer(&good) },
    ];
    for trailer in others {
        assert!(Directory::decode(&bytes, &trailer, seed()).is_err(), "{trailer:?}");
    }
}

#[test]
fn an_empty_run_is_one() {
    let directory = Directory::default();
    let (bytes, directory_crc) = directory.encode(seed());
    let trailer = Trailer {
        directory_crc,
        id: 42,
        records: 0,
        directory_at: 64,
        groups: 0,
        time_min_ms: 0,
        time_max_ms: 0,
    };
    let read = Trailer::read(&trailer.encode(seed()), seed(), 128).expect("nothing is missing");
    assert_eq!(Directory::decode(&bytes, &read, seed()), Ok(directory));
}

prop_compose! {
    fn any_group()(hour in 0..4_u32, namespace in 0..4_u32, unit in 0..30_u32, count in 0..4_u32)
        -> Group {
        Group { hour, namespace, unit, count }
    }
}

proptest! {
    #[test]
    fn any_header_reads_back(
        version: u32, store: u128, id: u64, kind in 1..=3_u8, created_at_ms: u64, key: u128,
    ) {
        let kind = RunKind::from_u8(kind).expect("a kind");
        let header = Header { version, store, id, kind, created_at_ms };
        prop_assert_eq!(Header::read(&header.encode(Seed::of(key)), Seed::of(key)), Ok(header));
    }

    #[test]
    fn any_bytes_with_a_right_checksum_are_refused_or_sound(
        mut groups in prop::collection::vec(any_group(), 0..5),
        records in 0..12_u64,
        directory_units in 0..30_u64,
        hours in (0..4_u64, 0..4_u64),
        sorted: bool,
    ) {
        if sorted {
            groups.sort_by_key(|group| (group.hour, group.namespace, group.unit));
        }
        let directory = Directory { groups };
        let (bytes, directory_crc) = directory.encode(seed());
        let trailer = Trailer {
            directory_crc,
            id: 1,
            records,
            directory_at: directory_units * 16,
            groups: directory.groups.len() as u64,
            time_min_ms: hours.0 * HOUR_MS,
            time_max_ms: hours.1 * HOUR_MS,
        };
        let length = trailer.directory_at + bytes.len() as u64 + 64;
        if let Ok(read) = Trailer::read(&trailer.encode(seed()), seed(), length)
            && let Ok(read) = Directory::decode(&bytes, &read, seed())
        {
            prop_assert!(read.groups.is_sorted_by(|a, b| a.key() <= b.key() && a.unit < b.unit));
            let counted: u64 = read.groups.iter().map(|group| u64::from(group.count)).sum();
            prop_assert_eq!(counted, records);
            let inside = |group: &Group| (4..directory_units).contains(&u64::from(group.unit));
            prop_assert!(read.groups.iter().all(inside));
        }
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), length: u64) {
        prop_assert!(Header::read(&bytes, seed()).is_err());
        prop_assert!(Trailer::read(&bytes, seed(), length).is_err());
        prop_assert!(Directory::decode(&bytes, &trailer(&directory()), seed()).is_err());
    }
}
