use crate::format::fields::FieldWriter;

use super::*;

#[test]
fn codes_of_later_builds_are_refused_by_name() {
    let refused = |bytes: &[u8], what: &'static str, value: u64| {
        let answer = lane_of(&mut FieldReader::new(bytes));
        assert_eq!(answer, Err(DecodeError::Unknown { what, value }));
    };
    refused(&[0], "destination", 0);
    refused(&[3], "destination", 3);
    refused(&[timer::HTTP, 4], "method", 4);
    assert_eq!(lane_of(&mut FieldReader::new(&[timer::PULL])), Ok(LaneOf::Pull));
    let mut bytes = vec![timer::HTTP, 1];
    FieldWriter(&mut bytes).u64(30_000);
    FieldWriter(&mut bytes).text("not a URL");
    assert!(lane_of(&mut FieldReader::new(&bytes)).is_err());
}
