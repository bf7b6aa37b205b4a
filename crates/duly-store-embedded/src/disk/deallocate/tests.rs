use std::sync::Arc;

use super::{PART_BYTES, deallocate_file, deallocation_ranges, remove_name};
use crate::disk::{Disk, File, RealDisk, SimDisk};

fn disk_with(name: &str, bytes: u64) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(1);
    let file = disk.create(name).expect("created");
    file.write_at(0, &vec![7; usize::try_from(bytes).expect("small")]).expect("written");
    file.sync_all().expect("synced");
    disk.sync_dir("").expect("synced");
    (disk, file)
}

#[test]
fn parts_are_the_whole_range_from_its_end() {
    for bytes in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES] {
        let range = 4_096..4_096 + bytes;
        let mut end = range.end;
        for part in deallocation_ranges(range.clone()) {
            assert_eq!(part.end, end, "of {bytes}");
            assert!(part.end - part.start <= PART_BYTES, "of {bytes}");
            end = part.start;
        }
        assert_eq!(end, range.start, "of {bytes}");
    }
}

#[test]
fn a_file_without_a_name_is_shortened_to_its_first_part() {
    let (disk, written) = disk_with("old", 2 * PART_BYTES + 5);
    let file = remove_name(&disk, "old").expect("removed").expect("it has no other name");
    assert!(disk.list("").expect("listed").is_empty());
    deallocate_file(&file);
    assert_eq!(written.len().expect("open"), PART_BYTES);
}

#[test]
fn an_open_file_keeps_its_bytes() {
    let (disk, _) = disk_with("old", 2 * PART_BYTES + 5);
    let file = remove_name(&disk, "old").expect("removed").expect("it has no other name");
    let reader = Arc::clone(&file);
    deallocate_file(&file);
    assert_eq!(reader.len().expect("open"), 2 * PART_BYTES + 5);
}

#[test]
fn a_file_with_another_name_loses_only_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = RealDisk::open_or_create(folder.path()).expect("opened");
    let bytes = vec![7; usize::try_from(2 * PART_BYTES).expect("small")];
    disk.create("old").expect("created").write_at(0, &bytes).expect("written");
    let copy = folder.path().join("copy");
    std::fs::hard_link(folder.path().join("old"), &copy).expect("linked");
    assert!(remove_name(&disk, "old").expect("removed").is_none());
    assert_eq!(std::fs::read(copy).expect("still there"), bytes);
    assert!(remove_name(&disk, "old").expect("nothing to do").is_none(), "it is gone already");
}
