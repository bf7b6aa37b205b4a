use proptest::prelude::*;

use super::*;

#[test]
fn numbers_are_little_endian_and_come_back() {
    let mut bytes = Vec::new();
    let mut w = FieldWriter(&mut bytes);
    w.u8(0x01);
    w.u32(0x0203_0405);
    w.u64(0x0607_0809_0A0B_0C0D);
    w.u128(0x0E);
    w.text("é");
    assert_eq!(bytes[..5], [1, 5, 4, 3, 2]);
    let mut r = FieldReader::new(&bytes);
    assert_eq!(r.u8(), Ok(0x01));
    assert_eq!(r.u32(), Ok(0x0203_0405));
    assert_eq!(r.u64(), Ok(0x0607_0809_0A0B_0C0D));
    assert_eq!(r.u128(), Ok(0x0E));
    assert_eq!(r.text(), Ok("é"));
    assert!(r.is_done());
}

#[test]
fn a_wrong_length_is_found_before_allocation() {
    for claimed in [1_u32, 5, 1 << 20, u32::MAX] {
        let mut bytes = claimed.to_le_bytes().to_vec();
        assert_eq!(FieldReader::new(&bytes).bytes(), Err(DecodeError::Truncated(4)), "{claimed}");
        bytes.insert(0, 7);
        let field = FieldReader::new(&bytes).field();
        assert_eq!(field.err(), Some(DecodeError::Truncated(5)), "{claimed}");
    }
}

#[test]
fn times_end_at_2200() {
    let check = |ms: u64, known: bool| {
        assert_eq!(FieldReader::new(&ms.to_le_bytes()).time().is_ok(), known, "{ms}");
    };
    check(0, true);
    check(Timestamp::MAX.unix_ms(), true);
    check(Timestamp::MAX.unix_ms() + 1, false);
    check(u64::MAX, false);
}

#[test]
fn a_list_of_fields_ends_with_tag_0_and_not_otherwise() {
    let mut bytes = Vec::new();
    let mut w = FieldWriter(&mut bytes);
    w.field(3, |w| w.u8(9));
    w.field(200, |_| {});
    w.end();
    let read = |bytes: &[u8]| {
        let mut r = FieldReader::new(bytes);
        let mut tags = Vec::new();
        while let Some((tag, mut field)) = r.field()? {
            tags.push((tag, field.rest().to_vec()));
        }
        Ok::<_, DecodeError>(tags)
    };
    assert_eq!(read(&bytes), Ok(vec![(3, vec![9]), (200, vec![])]));
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "cut at {end}");
    }
}

proptest! {
    #[test]
    fn any_reads_of_any_bytes_end_in_an_answer(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        reads in prop::collection::vec(0_u8..9, 0..20),
    ) {
        let mut r = FieldReader::new(&bytes);
        for read in reads {
            let before = r.at;
            let taken = match read {
                0 => r.u8().map(|_| 1),
                1 => r.u16().map(|_| 2),
                2 => r.u32().map(|_| 4),
                3 => r.u64().map(|_| 8),
                4 => r.u128().map(|_| 16),
                5 => r.time().map(|_| 8),
                6 => r.bytes().map(|b| 4 + b.len()),
                7 => r.text().map(|t| 4 + t.len()),
                _ => Ok(r.rest().len()),
            };
            prop_assert!(r.at <= bytes.len());
            if let Ok(taken) = taken {
                prop_assert_eq!(r.at, before + taken);
            }
        }
    }
}
