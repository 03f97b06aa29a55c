//! What the kernel tells of this process's memory.

/// The share of the private memory that lies on huge pages; `None` where the kernel does not tell.
#[must_use]
pub fn on_huge_pages() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let kib = |field: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(kib("AnonHugePages:")? / kib("Anonymous:")?)
}
