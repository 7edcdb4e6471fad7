//! The machine a result comes from.

use std::fs;
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

/// Facts that a figure means little without.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) last_level_cache: String,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) transparent_huge_pages: String,
    pub(crate) reserved_huge_pages: u64,
    pub(crate) allocator: String,
    pub(crate) fanread: String,
}

impl Machine {
    /// Asks the system; what it does not tell is empty or 0.
    pub(crate) fn detect() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map(|(_, value)| value.trim().to_string()).unwrap_or_default()
        };
        let number = |text: &str| text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = pages.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: available_parallelism().map_or(0, usize::from),
            last_level_cache: read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
            memory_gib: (number(&memory).unwrap_or(0) + (1 << 19)) >> 20,
            kernel: read("/proc/sys/kernel/osrelease"),
            transparent_huge_pages: chosen.map_or("none", |(chosen, _)| chosen).into(),
            reserved_huge_pages: number(&read("/proc/sys/vm/nr_hugepages")).unwrap_or(0),
            allocator: "mimalloc".into(),
            fanread: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Returns the facts as name and value, for people.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("processor", self.cpu.clone()),
            ("cores", self.cores.to_string()),
            ("last-level cache", self.last_level_cache.clone()),
            ("memory", format!("{} GiB", self.memory_gib)),
            ("kernel", self.kernel.clone()),
            ("transparent huge pages", self.transparent_huge_pages.clone()),
            ("reserved huge pages", self.reserved_huge_pages.to_string()),
            ("allocator", self.allocator.clone()),
            ("fanread", self.fanread.clone()),
        ]
    }

    /// Returns the facts as one line.
    pub(crate) fn line(&self) -> String {
        let Self { cpu, cores, last_level_cache, memory_gib, kernel, .. } = self;
        format!(
            "{cpu}, {cores} cores, {last_level_cache} last-level cache, {memory_gib} GiB, \
             Linux {kernel}, huge pages {}, {}",
            self.transparent_huge_pages, self.allocator
        )
    }
}
