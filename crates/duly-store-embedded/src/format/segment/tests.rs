use super::*;

const HEADER: Header =
    Header { version: 1, store: 0x1234_5678, sequence: 42, base_lsn: 1_001, length: 65_536 };

#[test]
fn a_header_reads_back_and_has_the_documented_layout() {
    let bytes = HEADER.encode();
    assert_eq!(Header::read(&bytes), Some(HEADER));
    assert_eq!(bytes.len() as u64, HEADER_BYTES);
    assert_eq!(&bytes[..8], b"DULYJRN\n");
    assert_eq!(bytes[8..12], 1_u32.to_le_bytes());
    let crc = crc32c::crc32c(&[&bytes[..12], &bytes[16..]].concat());
    assert_eq!(bytes[12..16], crc.to_le_bytes());
    assert_eq!(bytes[16..32], 0x1234_5678_u128.to_le_bytes());
    assert_eq!(bytes[32..40], 42_u64.to_le_bytes());
    assert_eq!(bytes[40..48], 1_001_u64.to_le_bytes());
    assert_eq!(bytes[48..56], 65_536_u64.to_le_bytes());
    assert_eq!(bytes[56..], [0; 8]);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = HEADER.encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::read(&damaged), None, "bit {bit}");
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = HEADER.encode();
    for end in 0..bytes.len() {
        assert_eq!(Header::read(&bytes[..end]), None, "cut at {end}");
        let mut torn = bytes.clone();
        torn[end..].fill(0);
        let whole = torn == bytes;
        assert_eq!(Header::read(&torn).is_some(), whole, "zeros from {end}");
    }
    assert_eq!(Header::read(&[0; 64]), None);
    assert_eq!(Header::read(&[0xFF; 64]), None);
}
