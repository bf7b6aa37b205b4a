use super::*;
use crate::disk::SimDisk;

const FILES: Numbered = Numbered { dir: "d", suffix: ".ckp" };

fn disk(names: &[&str]) -> SimDisk {
    let disk = SimDisk::new(1);
    disk.make_dir("d").unwrap();
    for name in names {
        disk.create(&format!("d/{name}")).unwrap();
    }
    disk
}

#[test]
fn numbers_are_listed_in_order_and_other_names_left_alone() {
    let disk = disk(&[
        "0000000000000010.ckp",
        "0000000000000009.ckp",
        "0000000000000011.tmp",
        "notes.txt",
        "10.run",
    ]);
    assert_eq!(FILES.list(&disk).unwrap(), [9, 10]);
    assert_eq!(FILES.list(&SimDisk::new(1)).unwrap(), [0; 0], "a missing directory is empty");
}

#[test]
fn names_that_duly_does_not_give_are_refused() {
    for name in ["1.ckp", "0000000000000000.ckp", "copy.ckp", ".ckp", "+000000000000001.ckp"] {
        let error = FILES.list(&disk(&[name])).unwrap_err();
        let expected = format!("d/{name}");
        assert!(
            matches!(&error, OpenError::Damaged { file, offset: 0, .. } if *file == expected),
            "{name}: {error}"
        );
    }
}

#[test]
fn names_stay_names_beyond_16_digits() {
    let name = FILES.name(u64::MAX);
    assert_eq!(FILES.list(&disk(&[name.strip_prefix("d/").unwrap()])).unwrap(), [u64::MAX]);
}

#[test]
fn temporaries_are_removed_and_nothing_else() {
    let disk = disk(&["0000000000000001.ckp", "0000000000000002.tmp", "x.tmp", "x"]);
    FILES.remove_temporaries(&disk).unwrap();
    assert_eq!(disk.names(), ["d/0000000000000001.ckp", "d/x"]);
    FILES.remove_temporaries(&SimDisk::new(1)).unwrap();
}
