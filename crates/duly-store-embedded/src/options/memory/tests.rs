use super::*;

/// Returns the limit of the control groups with these files.
fn max(files: &[(&str, &str)]) -> u64 {
    cgroup_max(&|asked| {
        let file = files.iter().find(|(name, _)| *name == asked);
        file.map(|(_, text)| (*text).to_owned())
    })
}

#[test]
fn p10_the_lowest_limit_of_the_group_and_those_above_it_counts() {
    let process = ("/proc/self/cgroup", "0::/system.slice/duly.service\n");
    let root = ("/sys/fs/cgroup/memory.max", "max\n");
    let slice = ("/sys/fs/cgroup/system.slice/memory.max", "4000000\n");
    let service = ("/sys/fs/cgroup/system.slice/duly.service/memory.max", "3000000\n");
    assert_eq!(max(&[process, root]), u64::MAX, "no limit is none");
    assert_eq!(max(&[process, root, slice]), 4_000_000);
    assert_eq!(max(&[process, root, slice, service]), 3_000_000);
    let wide = (service.0, "max\n");
    assert_eq!(max(&[process, root, slice, wide]), 4_000_000);
}

#[test]
fn p10_in_a_container_the_limit_stands_at_the_root() {
    let limit = ("/sys/fs/cgroup/memory.max", "512\n");
    assert_eq!(max(&[("/proc/self/cgroup", "0::/\n"), limit]), 512);
    assert_eq!(max(&[limit]), 512, "whatever the process knows of its group");
    let elsewhere = ("/proc/self/cgroup", "0::/docker/0123456789ab\n");
    assert_eq!(max(&[elsewhere, limit]), 512);
}

#[test]
fn p10_the_first_version_of_control_groups_counts_too() {
    let process = ("/proc/self/cgroup", "12:cpu,memory:/a/b\n3:freezer:/\n0::/\n");
    let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    let above = ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700\n");
    assert_eq!(max(&[process, root, above]), 700);
    assert_eq!(max(&[]), u64::MAX);
}
