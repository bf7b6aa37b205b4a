use super::*;
use crate::{
    disk::Disk as _,
    format::record::decode,
    journal::fixture::{FIRST, Fixture, id_of, pending},
    options::SEGMENT_BYTES_MIN,
};

/// The timers of a part, read by where it says that their bytes are.
fn ids(part: &Gathered) -> Vec<String> {
    let records = part.candidates.iter().map(|it| decode(&part.bytes[it.start..it.end]));
    records.map(|it| id_of(&it.expect("whole").record).expect("a timer").to_owned()).collect()
}

#[test]
fn t11_a_frame_whose_length_is_damaged_costs_nothing_that_stands_before_it() {
    for bit in 0..32 {
        let mut fixture = Fixture::new(1);
        let mut starts = Vec::new();
        for id in ["a", "b", "c"] {
            let location = fixture.append(&pending(id, 300));
            fixture.sync();
            starts.push(location.unit() * ALIGN - frame::HEADER_BYTES as u64);
        }
        // The length stands behind the magic.
        fixture.disk.corrupt(FIRST, starts[1] + 4 + bit / 8, 1 << (bit % 8));
        let source = Source {
            file: fixture.disk.open(FIRST).expect("it is there"),
            id: FileId::Segment(1),
            length: SEGMENT_BYTES_MIN,
            hash_key: fixture.manifest.hash_key,
            seed: fixture.manifest.frame_seed(),
        };
        let part = source.part(None, Gathered::default()).expect("it is read");
        assert_eq!(ids(&part), ["a"], "bit {bit}");
    }
}
