//! Places where a test stops a process, to kill it there from outside.
//!
//! They are there with the cargo feature `failpoints` only, which no build but that of the tests has.
//! `FAILPOINTS="log-sync-after=3*off->return"` in the environment lets three pass and stops the fourth:
//! it says `failpoint log-sync-after reached` on standard error and never goes on. A process cannot
//! end itself as a power cut would, so it waits for its SIGKILL.
//!
//! The one global of the code: a place knows nothing of who runs it.

/// Stops here for good if the environment says so; nothing without the feature `failpoints`.
#[inline]
pub fn reached(name: &'static str) {
    #[cfg(feature = "failpoints")]
    armed::reached(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Whether the environment switches something off that must always be on, so that a test can show
/// that it would be missed; always false without the feature `failpoints`.
#[inline]
#[must_use]
pub fn is_on(name: &'static str) -> bool {
    #[cfg(feature = "failpoints")]
    return armed::is_on(name);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = name;
        false
    }
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::io::Write as _;
    use std::sync::OnceLock;

    use fail::{FailScenario, fail_point};

    /// Reads the environment, once; most processes have nothing there and pay one load a place.
    fn are() -> bool {
        static ARMED: OnceLock<bool> = OnceLock::new();
        *ARMED.get_or_init(|| {
            let armed = std::env::var_os("FAILPOINTS").is_some();
            if armed {
                // Its end would take the places back.
                std::mem::forget(FailScenario::setup());
            }
            armed
        })
    }

    pub(super) fn reached(name: &'static str) {
        if are() {
            fail_point!(name, |_| stop(name));
        }
    }

    pub(super) fn is_on(name: &'static str) -> bool {
        if are() {
            fail_point!(name, |_| true);
        }
        false
    }

    fn stop(name: &str) {
        // Nobody may listen; it stops all the same.
        let _ = writeln!(std::io::stderr(), "failpoint {name} reached");
        loop {
            std::thread::park();
        }
    }
}
