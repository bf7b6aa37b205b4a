use parking_lot::Mutex;

use super::*;
use crate::disk::{Fault, SimDisk};

const TEMPORARY: &str = "d/a.tmp";

fn disk(seed: u64) -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new(seed);
    sim.make_dir("d").unwrap();
    sim.sync_dir("").unwrap();
    (sim.clone(), Arc::new(sim))
}

fn create(disk: &Arc<dyn Disk>) -> Result<FreshFile, Error> {
    FreshFile::create(Arc::clone(disk), TEMPORARY.to_owned(), Box::new(|_| {}), Caching::Kept)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8 + 1).collect()
}

#[test]
fn appends_of_any_sizes_read_back() {
    let expected = bytes(10 * CHUNK_BYTES + 17);
    for piece in [1, 100, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 7 * CHUNK_BYTES] {
        let (sim, disk) = disk(1);
        let mut file = create(&disk).unwrap();
        for (number, part) in expected.chunks(piece).enumerate() {
            assert_eq!(file.len(), (number * piece) as u64);
            file.append(part).unwrap();
        }
        assert_eq!(file.finish().unwrap(), expected.len() as u64);
        assert!(sim.read_file(TEMPORARY) == expected, "pieces of {piece}");
    }
}

#[test]
fn each_write_is_heard_of_and_every_fourth_is_written_back() {
    let (sim, disk) = disk(1);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = {
        let heard = Arc::clone(&heard);
        Box::new(move |bytes| heard.lock().push(bytes))
    };
    let mut file = FreshFile::create(disk, TEMPORARY.to_owned(), hear, Caching::Kept).unwrap();
    let before = sim.ops();
    file.append(&bytes(8 * CHUNK_BYTES + 5)).unwrap();
    assert_eq!(sim.ops() - before, 8 + 2);
    file.finish().unwrap();
    assert_eq!(sim.ops() - before, 8 + 2 + 2, "the rest and the sync");
    assert_eq!(*heard.lock(), [vec![CHUNK_BYTES as u64; 8], vec![5]].concat());
}

#[test]
fn a_finished_file_survives_a_crash_under_its_final_name() {
    for seed in 0..50 {
        let (sim, disk) = disk(seed);
        let mut file = create(&disk).unwrap();
        file.append(&bytes(5000)).unwrap();
        file.finish().unwrap();
        publish(&*disk, TEMPORARY, "d/a").unwrap();
        let after = sim.crash();
        assert_eq!(after.names(), ["d/a"]);
        assert!(after.read_file("d/a") == bytes(5000));
    }
}

#[test]
fn a_dropped_or_failed_file_removes_its_temporary() {
    let write = |disk: &Arc<dyn Disk>| {
        let mut file = create(disk)?;
        file.append(&bytes(9 * CHUNK_BYTES))?;
        file.finish()?;
        publish(&**disk, TEMPORARY, "d/a")
    };
    let faults = [
        Fault::NoSpaceAtWrite(1),
        Fault::NoSpaceAtWrite(9),
        Fault::ErrorAtWriteBack(1),
        Fault::ErrorAtWriteBack(2),
        Fault::ErrorAtSync(1),
    ];
    for fault in faults {
        let (sim, disk) = disk(1);
        sim.plan(fault);
        let error = write(&disk).unwrap_err();
        assert!(error.to_string().contains(TEMPORARY), "{fault:?}: {error}");
        assert_eq!(sim.names(), [""; 0], "{fault:?}");
        write(&disk).unwrap();
        assert_eq!(sim.names(), ["d/a"]);
    }
    let (sim, disk) = disk(1);
    drop(create(&disk).unwrap());
    assert_eq!(sim.names(), [""; 0]);
}

#[test]
fn a_left_over_of_an_earlier_attempt_is_replaced() {
    let (sim, disk) = disk(1);
    sim.create(TEMPORARY).unwrap().write_at(0, &[9; 9000]).unwrap();
    let mut file = create(&disk).unwrap();
    file.append(b"new").unwrap();
    file.finish().unwrap();
    assert_eq!(sim.read_file(TEMPORARY), b"new");
}

#[test]
fn a_rename_that_fails_removes_the_temporary() {
    let (sim, disk) = disk(1);
    create(&disk).unwrap().finish().unwrap();
    let error = publish(&*disk, TEMPORARY, "nowhere/a").unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(sim.names(), [""; 0]);
}
