//! How much memory this process holds.

use std::fs;

/// Returns the resident bytes of this process, explicit huge pages included; 0 where the system
/// does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return 0 };
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    (kib("VmRSS:").unwrap_or(0) + kib("HugetlbPages:").unwrap_or(0)) * 1024
}
