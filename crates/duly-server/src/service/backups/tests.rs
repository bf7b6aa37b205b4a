use super::*;

fn within(count_max: usize, interval: Duration) -> Backups {
    Backups::new(None, BackupLimits { count_max, interval }, None)
}

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
    let backups = within(5, Duration::from_secs(60));
    let start = Instant::now();
    let admit = |after| {
        backups.admit(dir.path(), start + Duration::from_secs(after), backups.limits.interval)
    };
    admit(0).expect("the first");
    let refused = admit(59).expect_err("too soon");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    admit(60).expect("after the interval");
    admit(61).expect_err("counted from the latest");
}

#[test]
fn no_more_backups_begin_than_the_directory_may_hold() {
    let dir = tempfile::tempdir().expect("a directory");
    let backups = within(2, Duration::ZERO);
    for name in ["one", "two"] {
        backups.admit(dir.path(), Instant::now(), Duration::ZERO).expect("there is room");
        made(&dir.path().join(name));
    }
    let refused =
        backups.admit(dir.path(), Instant::now(), Duration::ZERO).expect_err("there are two");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    fs::remove_dir_all(dir.path().join("one")).expect("removed");
    backups.admit(dir.path(), Instant::now(), Duration::ZERO).expect("one is gone");
}
