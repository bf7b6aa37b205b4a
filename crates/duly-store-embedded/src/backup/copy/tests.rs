use super::*;

#[test]
fn a_hole_of_a_run_stays_one_in_its_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let [source, target] = ["source", "target"].map(|name| {
        let disk = RealDisk::open_or_create(dir.path().join(name)).expect("a directory");
        disk.make_dir(SORTED_RUNS.dir).expect("made");
        disk
    });
    let name = SORTED_RUNS.name(1);
    let file = source.create(&name).expect("a file");
    let (hole, end) = (8 * CHUNK_BYTES as u64, 9 * CHUNK_BYTES as u64);
    file.write_at(hole, &[7; CHUNK_BYTES]).expect("written");
    let mut heard = Vec::new();
    let mut tell = |progress| heard.push(progress);
    let mut copying = Copying::new(&source, &target, Box::new(|_| {}), &|| false, &mut tell);
    copying.expect([&name].into_iter()).expect("it is there");
    copying.copy(&name).expect("copied");
    assert_eq!(copying.end(), (1, end, end));
    let last = BackupProgress { bytes_done: end, bytes_total: end };
    assert_eq!(heard.last(), Some(&last));
    let copied = target.open(&name).expect("it was copied");
    assert_eq!(copied.len().expect("healthy"), end);
    let mut bytes = vec![0; CHUNK_BYTES];
    copied.read_exact_at(hole, &mut bytes).expect("healthy");
    assert!(bytes.iter().all(|byte| *byte == 7));
    let before = (file.allocated_bytes().expect("healthy"), file.holes().expect("healthy"));
    assert_eq!(
        (copied.allocated_bytes().expect("healthy"), copied.holes().expect("healthy")),
        before
    );
}
