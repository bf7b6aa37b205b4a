//! The pieces of the format: makes each, repairs its checksum after damage, and checks it.
//!
//! Accepted bytes must encode to bytes that decode to the same value. Otherwise a rewrite, which copies
//! decoded records, would change them.

use proptest::{prelude::*, test_runner::TestRunner};

use super::value;
use crate::{
    disk::{Disk, SimDisk},
    effect::Effect,
    engine::leases,
    format::{
        checkpoint::{self, Block, BlockHeader},
        frame::{self, Seed},
        record, segment, sorted_run, strategies,
    },
    manifest::{self, Manifest},
};

const KEY: u128 = 77;

/// Valid bytes, and the functions for them.
pub(super) struct Piece {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Repairs the checksum, if there is one and there are enough bytes.
    pub(super) seal: fn(&mut [u8]),
    /// Returns `true` if the bytes are accepted. Panics if the accepted value does not encode to itself.
    pub(super) check: fn(&[u8]) -> bool,
}

fn seed() -> Seed {
    Seed::of(KEY)
}

/// Makes one piece of every kind.
pub(super) fn all(runner: &mut TestRunner) -> Vec<Piece> {
    let mut pieces = vec![manifest(runner), segment(runner), token(runner), frame(runner)];
    pieces.extend((0..8).map(|_| record(runner)));
    pieces.extend([checkpoint_header(runner), run_header(runner), run_trailer(), directory()]);
    pieces.extend((0..6).map(|_| block(runner)));
    pieces.push(entries(runner));
    pieces
}

fn put(bytes: &mut [u8], at: usize, crc: u32) {
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn manifest(runner: &mut TestRunner) -> Piece {
    let (store, epoch, created_at_ms) = value(runner, &any::<(u128, u64, u64)>());
    let (version, reader_min, features) =
        (crate::format::VERSION, crate::format::READER_MIN, crate::format::FEATURES);
    let made =
        Manifest { version, reader_min, features, store, hash_key: KEY, epoch, created_at_ms };
    let disk = SimDisk::new(1);
    made.write(&disk).expect("there is room");
    let seal = |bytes: &mut [u8]| {
        if let Some(end) = bytes.len().checked_sub(4).filter(|end| *end > 0) {
            let crc = crc32c::crc32c(&bytes[..end]);
            put(bytes, end, crc);
        }
    };
    let check = |bytes: &[u8]| {
        let read = |bytes: &[u8]| {
            let disk = SimDisk::new(1);
            let file = disk.create(manifest::NAME).expect("there is room");
            file.write_at(0, bytes).expect("there is room");
            Manifest::read(&disk).ok().flatten()
        };
        let Some(manifest) = read(bytes) else {
            return false;
        };
        let disk = SimDisk::new(1);
        manifest.write(&disk).expect("there is room");
        assert_eq!(read(&disk.read_file(manifest::NAME)), Some(manifest));
        true
    };
    Piece { name: "manifest", bytes: disk.read_file(manifest::NAME), seal, check }
}

fn segment(runner: &mut TestRunner) -> Piece {
    let (store, [sequence, base_lsn, length]) = value(runner, &any::<(u128, [u64; 3])>());
    let header = segment::Header { version: 1, store, sequence, base_lsn, length };
    let seal = |bytes: &mut [u8]| {
        if bytes.len() >= 64 {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
            put(bytes, 12, crc);
        }
    };
    let check = |bytes: &[u8]| {
        let header = segment::Header::read(bytes);
        header.is_some_and(|header| {
            assert_eq!(segment::Header::read(&header.encode()), Some(header));
            true
        })
    };
    Piece { name: "segment header", bytes: header.encode(), seal, check }
}

fn token(runner: &mut TestRunner) -> Piece {
    let (key, nonce) = value(runner, &any::<([u8; 12], u64)>());
    let token = leases::token(crate::index::Key::unpack(key), nonce);
    let check = |bytes: &[u8]| {
        let token = std::str::from_utf8(bytes).ok().and_then(duly_store::Token::parse);
        token.and_then(|token| Some((leases::parse(&token)?, token))).is_some_and(
            |((key, nonce), token)| {
                assert_eq!(leases::token(key, nonce), token);
                true
            },
        )
    };
    Piece { name: "token", bytes: token.to_string().into_bytes(), seal: |_| {}, check }
}

fn frame(runner: &mut TestRunner) -> Piece {
    let mut bytes = vec![0; frame::HEADER_BYTES];
    for number in 0..3 {
        record::encode(&mut bytes, number, &value(runner, &strategies::record()));
    }
    let identity = frame::Identity { epoch: 1, lsn: 9, count: 3, durable_lsn: 7, steady_ms: 5 };
    frame::seal(&mut bytes, seed(), identity);
    let seal = |bytes: &mut [u8]| {
        if bytes.len() >= frame::HEADER_BYTES {
            let crc = seed().crc(&bytes[frame::HEADER_BYTES..]);
            put(bytes, 12, crc);
            frame::seal_header(bytes, seed());
        }
    };
    let check = |bytes: &[u8]| {
        let header = frame::Header::read(bytes, seed());
        header.is_some_and(|header| {
            let _ = (header.frame_bytes(), header.durable_lsn());
            frame::is_intact(bytes, seed(), &header)
        })
    };
    Piece { name: "frame", bytes, seal, check }
}

fn record(runner: &mut TestRunner) -> Piece {
    let mut bytes = Vec::new();
    record::encode(&mut bytes, 5, &value(runner, &strategies::record()));
    let seal = |bytes: &mut [u8]| {
        let whole = record::bytes_of(bytes).and_then(|total| usize::try_from(total).ok());
        if let Some(end) = whole.filter(|end| *end <= bytes.len()) {
            let crc = crc32c::crc32c(&bytes[4..end]);
            put(bytes, 0, crc);
        }
    };
    let check = |bytes: &[u8]| {
        let skimmed = Effect::skim(KEY, bytes);
        let Ok(decoded) = record::decode(bytes) else {
            return false;
        };
        let effect = Effect::of(KEY, decoded.namespace & 0xFF_FFFF, &decoded.record);
        if decoded.namespace <= crate::index::NAMESPACE_MAX {
            let skimmed = skimmed.expect("what is decoded is skimmed as well");
            assert_eq!((skimmed.namespace, skimmed.effect), (decoded.namespace, effect));
        }
        let mut again = Vec::new();
        record::encode(&mut again, decoded.namespace, &decoded.record);
        assert_eq!(record::decode(&again), Ok(decoded));
        true
    };
    Piece { name: "record", bytes, seal, check }
}

/// Repairs the checksum of a header of `count` bytes.
fn seal_header(bytes: &mut [u8], count: usize, crc_at: usize) {
    if bytes.len() >= count {
        let crc = seed().crc_around(&bytes[..count], crc_at);
        put(bytes, crc_at, crc);
    }
}

fn checkpoint_header(runner: &mut TestRunner) -> Piece {
    let (store, epoch, [number, sequence, offset, lsn, begun_at_ms, steady_ms]) =
        value(runner, &any::<(u128, u32, [u64; 6])>());
    let replay = checkpoint::ReplayPoint { sequence, offset, lsn, epoch };
    let retry_due_max_ms = begun_at_ms / 2;
    let header = checkpoint::Header {
        version: 1,
        store,
        number,
        replay,
        begun_at_ms,
        retry_due_max_ms,
        steady_ms,
    };
    let check = |bytes: &[u8]| {
        checkpoint::Header::read(bytes, seed()).is_ok_and(|header| {
            assert_eq!(checkpoint::Header::read(&header.encode(seed()), seed()), Ok(header));
            true
        })
    };
    let (bytes, seal) = (header.encode(seed()), |bytes: &mut [u8]| seal_header(bytes, 96, 12));
    Piece { name: "checkpoint header", bytes, seal, check }
}

fn run_header(runner: &mut TestRunner) -> Piece {
    let (store, id, created_at_ms) = value(runner, &any::<(u128, u64, u64)>());
    let header = sorted_run::Header {
        version: 1,
        store,
        id,
        kind: sorted_run::RunKind::Tombstones,
        created_at_ms,
    };
    let check = |bytes: &[u8]| {
        sorted_run::Header::read(bytes, seed()).is_ok_and(|header| {
            assert_eq!(sorted_run::Header::read(&header.encode(seed()), seed()), Ok(header));
            true
        })
    };
    let (bytes, seal) = (header.encode(seed()), |bytes: &mut [u8]| seal_header(bytes, 64, 12));
    Piece { name: "run header", bytes, seal, check }
}

/// Groups of 1, 2 and 3 records of 32 bytes each.
fn some_directory() -> (sorted_run::Directory, sorted_run::Trailer) {
    let group = |hour, namespace, unit, count| sorted_run::Group { hour, namespace, unit, count };
    let directory = sorted_run::Directory { groups: vec![group(5, 7, 4, 1), group(6, 1, 6, 2)] };
    let trailer = sorted_run::Trailer {
        directory_crc: directory.encode(seed()).1,
        id: 42,
        records: 3,
        directory_at: 64 + 3 * 32,
        groups: 2,
        time_min_ms: 5 * sorted_run::HOUR_MS,
        time_max_ms: 7 * sorted_run::HOUR_MS - 1,
    };
    (directory, trailer)
}

fn run_trailer() -> Piece {
    const LENGTH: u64 = 64 + 3 * 32 + 2 * 16 + 64;
    let check = |bytes: &[u8]| {
        sorted_run::Trailer::read(bytes, seed(), LENGTH).is_ok_and(|trailer| {
            assert!(trailer.groups * sorted_run::GROUP_BYTES <= LENGTH, "room is made for them");
            let again = sorted_run::Trailer::read(&trailer.encode(seed()), seed(), LENGTH);
            assert_eq!(again, Ok(trailer));
            true
        })
    };
    let bytes = some_directory().1.encode(seed());
    Piece { name: "run trailer", bytes, seal: |bytes| seal_header(bytes, 64, 8), check }
}

fn directory() -> Piece {
    let check = |bytes: &[u8]| {
        // As with a trailer that was damaged consistently.
        let trailer = sorted_run::Trailer {
            directory_crc: seed().crc(bytes),
            groups: bytes.len() as u64 / sorted_run::GROUP_BYTES,
            ..some_directory().1
        };
        sorted_run::Directory::decode(bytes, &trailer, seed()).is_ok_and(|directory| {
            assert_eq!(directory.encode(seed()).0, bytes);
            true
        })
    };
    let bytes = some_directory().0.encode(seed()).0;
    Piece { name: "run directory", bytes, seal: |_| {}, check }
}

fn block(runner: &mut TestRunner) -> Piece {
    let mut bytes = Vec::new();
    value(runner, &checkpoint::tests::block()).encode(&mut bytes, seed());
    Piece { name: "checkpoint block", bytes, seal: seal_block, check: check_block }
}

fn entries(runner: &mut TestRunner) -> Piece {
    let mut gathered = Vec::new();
    for words in value(runner, &prop::collection::vec(any::<[u64; 3]>(), 0..9)) {
        checkpoint::append_entry(&mut gathered, words);
    }
    let entries = checkpoint::Entries::new(3, checkpoint::IndexKind::Live, &gathered);
    let mut bytes = Vec::new();
    Block::Entries(entries).encode(&mut bytes, seed());
    Piece { name: "block of entries", bytes, seal: seal_block, check: check_block }
}

fn seal_block(bytes: &mut [u8]) {
    let whole = BlockHeader::read(bytes).map(|header| 16 + header.length as usize);
    if let Ok(end) = whole
        && end <= bytes.len()
    {
        let crc = seed().crc_around(&bytes[..end], 12);
        put(bytes, 12, crc);
    }
}

fn check_block(bytes: &[u8]) -> bool {
    let decode = |header: &BlockHeader, payload| Block::decode(header, payload);
    let Ok(header) = BlockHeader::read(bytes) else {
        return false;
    };
    let Ok(payload) = header.payload(bytes, seed()) else {
        return false;
    };
    let Ok(block) = decode(&header, payload) else {
        return false;
    };
    let mut again = Vec::new();
    block.encode(&mut again, seed());
    let header = BlockHeader::read(&again).expect("it was just written");
    let payload = header.payload(&again, seed()).expect("it was just sealed");
    assert_eq!(decode(&header, payload).as_ref(), Ok(&block));
    true
}
