//! The memory that this process may take: that of the machine or the limit of its control groups,
//! whichever is less. Some defaults are shares of it.

/// Returns the bytes of memory that this process may take.
pub fn limit() -> u64 {
    #[cfg(target_os = "linux")]
    let total = {
        let info = rustix::system::sysinfo();
        (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
    };
    #[cfg(not(target_os = "linux"))]
    let total = 8_u64 << 30;
    let read = |file: &str| std::fs::read_to_string(file).ok();
    total.min(cgroup_max(&read))
}

/// Returns the limit of the control groups (v2 and v1). The group of the process and each group above it
/// can set a limit. A limit that is not set or cannot be read does not count.
fn cgroup_max(read: &dyn Fn(&str) -> Option<String>) -> u64 {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let v2 = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let v1 = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    });
    let v1 = v1.unwrap_or("/");
    let limit = |root: &str, group: &str, file: &str| {
        read(&format!("{root}{}/{file}", group.trim_end_matches('/')))?.trim().parse().ok()
    };
    let v2 = and_above(v2).filter_map(|group| limit("/sys/fs/cgroup", group, "memory.max"));
    let v1 = and_above(v1)
        .filter_map(|group| limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    v2.chain(v1).min().unwrap_or(u64::MAX)
}

/// Returns a path and all its parents, the root last.
fn and_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| {
        path.rsplit_once('/').map(|(above, _)| above)
    })
}

#[cfg(test)]
mod tests;
