//! How much memory this process may still take.

/// Memory in bytes that this process can take without being stopped: on Linux the smaller of the
/// system's `MemAvailable` and what each cgroup above the process leaves (version 1 and 2).
///
/// Elsewhere there is no common way to know that: it is the physical memory on other Unix systems,
/// and 8 GiB if that is unknown too.
#[must_use]
pub(crate) fn available_bytes() -> u64 {
    system::available_bytes()
}

/// The size that is assumed if nothing is known.
#[cfg_attr(target_os = "linux", allow(dead_code))]
const FALLBACK_BYTES: u64 = 8 << 30;

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::path::Path;

    use super::cgroup::{Group, groups};
    use super::{FALLBACK_BYTES, cgroup, mem_available};

    pub(super) fn available_bytes() -> u64 {
        let free = read("/proc/meminfo").as_deref().and_then(mem_available);
        let memberships = read("/proc/self/cgroup").unwrap_or_default();
        let mounts = read("/proc/self/mountinfo").unwrap_or_default();
        let left = groups(&memberships, &mounts).iter().filter_map(headroom).min();
        free.into_iter().chain(left).min().unwrap_or(FALLBACK_BYTES)
    }

    /// What a group's limit leaves; `None` if it has no limit.
    fn headroom(group: &Group) -> Option<u64> {
        let file = |name: &str| read(group.directory.join(name));
        let limit = cgroup::limit(&file(group.version.limit_file())?)?;
        let usage = cgroup::limit(&file(group.version.usage_file())?)?;
        let statistics = file("memory.stat").unwrap_or_default();
        Some(cgroup::headroom(limit, usage, &statistics))
    }

    fn read(path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(path).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn available_bytes() -> u64 {
        super::FALLBACK_BYTES
    }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod cgroup {
    use std::path::{Path, PathBuf};

    /// The generation of the interface.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Version {
        V1,
        V2,
    }

    impl Version {
        pub(super) fn limit_file(self) -> &'static str {
            match self {
                Self::V1 => "memory.limit_in_bytes",
                Self::V2 => "memory.max",
            }
        }

        pub(super) fn usage_file(self) -> &'static str {
            match self {
                Self::V1 => "memory.usage_in_bytes",
                Self::V2 => "memory.current",
            }
        }
    }

    /// A group that this process is in.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Group {
        pub(super) version: Version,
        pub(super) directory: PathBuf,
    }

    /// The groups that limit the process, from its own up to the root, by `/proc/self/cgroup`
    /// and `/proc/self/mountinfo` (proc(5), cgroups(7)).
    pub(super) fn groups(memberships: &str, mounts: &str) -> Vec<Group> {
        let own = |version| own_path(memberships, version).zip(mount(mounts, version));
        [Version::V1, Version::V2]
            .into_iter()
            .filter_map(|version| Some((version, own(version)?)))
            .flat_map(|(version, (path, mount))| chain(version, path, &mount))
            .collect()
    }

    /// The process's path in the hierarchy that has the memory controller.
    fn own_path(memberships: &str, version: Version) -> Option<&str> {
        memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_ours = match version {
                Version::V1 => controllers.split(',').any(|name| name == "memory"),
                Version::V2 => id == "0" && controllers.is_empty(),
            };
            is_ours.then_some(path)
        })
    }

    /// Where the hierarchy is mounted, and which of its groups is seen there.
    struct Mount<'a> {
        root: &'a str,
        point: &'a str,
    }

    fn mount(mounts: &str, version: Version) -> Option<Mount<'_>> {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, point) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1).unwrap_or_default());
            let is_ours = match version {
                Version::V1 => kind == "cgroup" && options.split(',').any(|name| name == "memory"),
                Version::V2 => kind == "cgroup2",
            };
            is_ours.then_some(Mount { root, point })
        })
    }

    fn chain(version: Version, path: &str, mount: &Mount) -> Vec<Group> {
        // In a container the mount often shows the process's own group as the root.
        let inside = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(""));
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        let point = Path::new(mount.point);
        let directories = inside.ancestors().map(|part| point.join(part));
        directories.map(|directory| Group { version, directory }).collect()
    }

    /// A number of a limit file; `None` for `max`, and for version 1's number that means the same.
    pub(super) fn limit(text: &str) -> Option<u64> {
        const UNLIMITED: u64 = i64::MAX as u64 & !0xffff;
        text.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED)
    }

    /// What a limit leaves. File pages that nobody uses count as free: the kernel drops them
    /// before it stops anyone.
    pub(super) fn headroom(limit: u64, usage: u64, statistics: &str) -> u64 {
        let field = |name: &str| {
            statistics
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        let inactive = field("total_inactive_file").or_else(|| field("inactive_file"));
        limit.saturating_sub(usage.saturating_sub(inactive.unwrap_or(0)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const V2_MOUNTS: &str = "\
24 30 0:22 / /proc rw,nosuid - proc proc rw
35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";
        const V1_MOUNTS: &str = "\
40 35 0:33 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct
41 35 0:34 /docker/abc /sys/fs/cgroup/memory ro master:12 - cgroup cgroup rw,memory
";

        fn directories(memberships: &str, mounts: &str) -> Vec<String> {
            let groups = groups(memberships, mounts);
            groups.into_iter().map(|group| group.directory.to_string_lossy().into_owned()).collect()
        }

        #[test]
        fn the_unified_hierarchy_is_walked_up() {
            let found = directories("0::/user.slice/app.scope\n", V2_MOUNTS);
            assert_eq!(
                found.iter().map(|path| path.trim_end_matches('/')).collect::<Vec<_>>(),
                ["/sys/fs/cgroup/user.slice/app.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
            );
        }

        #[test]
        fn a_container_sees_its_group_as_the_root() {
            let memberships = "5:memory:/docker/abc/worker\n3:cpu,cpuacct:/docker/abc\n";
            let found = directories(memberships, V1_MOUNTS);
            assert_eq!(
                found.iter().map(|path| path.trim_end_matches('/')).collect::<Vec<_>>(),
                ["/sys/fs/cgroup/memory/worker", "/sys/fs/cgroup/memory"]
            );
            // The path of a namespace that is not under the mount's root: the root is what is left.
            assert_eq!(directories("5:memory:/\n", V1_MOUNTS).len(), 1);
        }

        #[test]
        fn nothing_mounted_means_no_groups() {
            assert!(groups("0::/\n", "").is_empty());
            assert!(groups("", V2_MOUNTS).is_empty());
        }

        #[test]
        fn limits_may_be_none() {
            assert_eq!(limit("1073741824\n"), Some(1 << 30));
            assert_eq!(limit("max\n"), None);
            assert_eq!(limit("9223372036854771712\n"), None);
        }

        #[test]
        fn idle_file_pages_count_as_free() {
            let v2 = "anon 10\ninactive_file 300\nactive_file 5\n";
            assert_eq!(headroom(1000, 900, v2), 400);
            let v1 = "inactive_file 1\ntotal_inactive_file 200\n";
            assert_eq!(headroom(1000, 900, v1), 300);
            assert_eq!(headroom(1000, 1200, ""), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_counts_in_kibibytes() {
        let text = "MemTotal:       16000000 kB\nMemFree:         1000 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(mem_available(text), Some(2 << 20));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_memory_left() {
        assert!(available_bytes() > 1 << 20);
    }
}
