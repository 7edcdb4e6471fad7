//! How much memory there is for this program.

use std::fs;
use std::path::Path;

/// Returns how much memory is free for this program, if the system tells: of the machine, and of the control groups that the
/// program is in, as those of a container, which ends programs that take more.
pub(crate) fn free_bytes() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb = line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = left_bytes(Path::new("/sys/fs/cgroup"), &groups);
    Some((kb << 10).min(left.unwrap_or(usize::MAX)))
}

/// Returns how much the groups let the program take that a process's list of them names, one a line; `None` if they do not say.
fn left_bytes(root: &Path, groups: &str) -> Option<usize> {
    let left = groups.lines().filter_map(|line| {
        let (kinds, group) = line.split_once(':')?.1.split_once(":/")?;
        match kinds {
            "" => left_in(root, group, ["memory.max", "memory.current", "file"]),
            // The older version of groups.
            _ if kinds.split(',').any(|kind| kind == "memory") => {
                let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"];
                left_in(&root.join("memory"), group, names)
            }
            _ => None,
        }
    });
    left.min()
}

/// The same of a group and those above it. In a container that does not see these, the root is its own.
///
/// A group has a file for its limit and one for what it has taken, and its statistics have a line for how much of that are pages
/// of files, which it gives back when it has to.
fn left_in(root: &Path, group: &str, [limit, taken, files]: [&str; 3]) -> Option<usize> {
    let own = root.join(group);
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    let left = groups.filter_map(|group| {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        // Without a limit it says "max".
        let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
        let (limit, taken) = (number(limit)?, number(taken)?);
        let statistics = read("memory.stat").unwrap_or_default();
        let of_files = statistics.lines().find_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            bytes.parse::<usize>().ok().filter(|_| name == files)
        });
        Some(limit.saturating_sub(taken.saturating_sub(of_files.unwrap_or(0))))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_group_says_how_much_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let write = |group: &str, files: [(&str, &str); 3]| {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            for (name, text) in files {
                fs::write(group.join(name), text).unwrap();
            }
        };
        let current = |max, taken| {
            [("memory.max", max), ("memory.current", taken), ("memory.stat", "anon 70\nfile 30\n")]
        };
        write("a", current("500\n", "100\n"));
        write("a/b", current("max\n", "100\n"));
        write("a/b/c", current("600\n", "90\n"));
        write("a/full", current("50\n", "100\n"));
        let left = |groups: &str| left_bytes(folder.path(), groups);
        assert_eq!(left("0::/a/b/c\n"), Some(430));
        assert_eq!(left("0::/a/full\n"), Some(0));
        // The files of the machine's own groups are not in a container, whose group is the root.
        assert_eq!(left("0::/docker/1234\n"), None);
        write("", current("2000", "130"));
        assert_eq!(left("0::/docker/1234\n"), Some(1900));
        write(
            "memory/d",
            [
                ("memory.limit_in_bytes", "400\n"),
                ("memory.usage_in_bytes", "90\n"),
                ("memory.stat", "cache 1\ntotal_cache 40\n"),
            ],
        );
        assert_eq!(left("9:name=systemd:/\n4:cpu,memory:/d\n3:cpuset:/\n"), Some(350));
        assert_eq!(left("3:cpuset:/\n"), None);
        assert_eq!(left(""), None);
    }
}
