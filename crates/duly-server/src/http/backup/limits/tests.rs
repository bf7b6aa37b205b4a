use std::fs;

use super::*;

fn made(path: &Path) {
    fs::create_dir_all(path.join("journal")).expect("made");
    fs::write(path.join(MANIFEST), "").expect("written");
}

#[test]
fn backups_are_counted_at_any_depth_and_links_are_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let below = dir.path().join("backups");
    assert_eq!(count(&below).expect("none"), 0);
    for path in ["a", "2026/11/21", "2026/11/22"] {
        made(&below.join(path));
    }
    made(&dir.path().join("outside"));
    std::os::unix::fs::symlink(dir.path().join("outside"), below.join("link")).expect("linked");
    assert_eq!(count(&below).expect("counted"), 3);
}

#[test]
fn backups_keep_their_minimum_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let interval = Duration::from_secs(60);
    let admission = BackupAdmission::new(BackupLimits { count_max: 5, interval });
    let start = Instant::now();
    let admit = |after| admission.admit(dir.path(), start + Duration::from_secs(after));
    admit(0).expect("the first");
    let refused = admit(59).expect_err("too soon");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    admit(60).expect("after the interval");
    admit(61).expect_err("counted from the latest");
}

#[test]
fn no_more_backups_begin_than_the_directory_may_hold() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = BackupLimits { count_max: 2, interval: Duration::ZERO };
    let admission = BackupAdmission::new(limits);
    for name in ["one", "two"] {
        admission.admit(dir.path(), Instant::now()).expect("there is room");
        made(&dir.path().join(name));
    }
    let refused = admission.admit(dir.path(), Instant::now()).expect_err("there are two");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    fs::remove_dir_all(dir.path().join("one")).expect("removed");
    admission.admit(dir.path(), Instant::now()).expect("one is gone");
}
