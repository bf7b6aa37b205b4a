//! Random steps on a real and a simulated disk: a caller sees the same, and synced bytes outlive a power
//! loss.

use proptest::prelude::*;

use crate::disk::{Disk, Error, RealDisk, SimDisk};

#[derive(Clone, Debug)]
enum Step {
    Create(&'static str),
    Write(&'static str, u64, Vec<u8>),
    SetLen(&'static str, u64),
    PunchHole(&'static str, u64, u64),
    WriteBack(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    MakeDir,
    Sync(&'static str),
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(vec!["a", "b", "d/a", "d/b"]);
    let bytes = prop::collection::vec(any::<u8>(), 0..1500);
    // Elsewhere a hole has no effect, which is not a disagreement.
    let holes = u32::from(cfg!(target_os = "linux"));
    prop_oneof![
        1 => name().prop_map(Step::Create),
        1 => (name(), 0..2000u64, bytes).prop_map(|(name, at, bytes)| Step::Write(name, at, bytes)),
        1 => (name(), 0..3000u64).prop_map(|(name, len)| Step::SetLen(name, len)),
        holes => (name(), 0..3000u64, 0..3000u64)
            .prop_map(|(name, at, len)| Step::PunchHole(name, at, len)),
        1 => name().prop_map(Step::WriteBack),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name().prop_map(Step::Remove),
        1 => Just(Step::MakeDir),
        1 => name().prop_map(Step::Sync),
    ]
}

/// Takes a step and returns the part of its outcome that a caller can see.
fn take(disk: &dyn Disk, step: &Step) -> String {
    let answer = match step {
        Step::Create(name) => disk.create(name).map(drop),
        Step::Write(name, at, bytes) => disk.open(name).and_then(|f| f.write_at(*at, bytes)),
        Step::SetLen(name, len) => disk.open(name).and_then(|f| f.set_len(*len)),
        Step::PunchHole(name, at, len) => {
            disk.open(name).and_then(|f| f.punch_hole(*at, *len)).map(drop)
        }
        Step::WriteBack(name) => disk.open(name).and_then(|f| f.write_back(0, 3000)),
        Step::Rename(from, to) => disk.rename(from, to),
        Step::Remove(name) => disk.remove(name),
        Step::MakeDir => disk.make_dir("d"),
        Step::Sync(name) => disk.open(name).and_then(|f| f.sync_data()),
    };
    match answer {
        Ok(()) => "ok".to_owned(),
        Err(Error::NotFound { .. }) => "not found".to_owned(),
        Err(Error::AlreadyExists { .. }) => "already exists".to_owned(),
        Err(error) => panic!("{step:?}: {error}"),
    }
}

fn contents(disk: &dyn Disk) -> Vec<(String, Vec<u8>)> {
    let mut names = disk.list("").unwrap();
    names.retain(|name| name != "d");
    names.extend(disk.list("d").unwrap().iter().map(|name| format!("d/{name}")));
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    names.into_iter().map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn does_what_a_real_disk_does(steps in prop::collection::vec(any_step(), 1..40), seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let real = RealDisk::open_or_create(dir.path()).unwrap();
        let mut sim = SimDisk::new(seed);
        for step in &steps {
            prop_assert_eq!(take(&real, step), take(&sim, step), "{:?}", step);
        }
        let expected = contents(&real);
        prop_assert_eq!(&contents(&sim), &expected);
        sim = sim.kill();
        prop_assert_eq!(&contents(&sim), &expected, "after a kill");
        for (name, _) in &expected {
            sim.open(name).unwrap().sync_data().unwrap();
        }
        sim.sync_dir("").unwrap();
        if sim.list("").unwrap().contains(&"d".to_owned()) {
            sim.sync_dir("d").unwrap();
        }
        prop_assert_eq!(&contents(&sim.crash()), &expected, "synced, after a power loss");
    }
}
