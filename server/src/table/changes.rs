//! What changed in a table since the last two copies were taken of it.

use windlass_common::key::Key;

use super::touched::Touched;

/// Which of the last two copies a delta builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The last one.
    Last,
    /// The one before it.
    BeforeLast,
}

/// What changed since the last two copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    since_last: Changed,
    before_last: Changed,
}

/// What changed between two copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// Rows that were pushed to; some may have gone since.
    pub(super) slots: Touched,
    /// Keys whose rows went; some may be back.
    pub(super) gone: Vec<Key>,
}

impl Changes {
    /// Takes note of a push to a row.
    pub(super) fn touch(&mut self, slot: u32) {
        self.since_last.slots.add(slot);
    }

    /// Takes note of rows that went.
    pub(super) fn go(&mut self, keys: &[Key]) {
        let gone = &mut self.since_last.gone;
        // Lists are rare and long: no memory for what may never come.
        gone.reserve_exact(keys.len());
        gone.extend_from_slice(keys);
    }

    /// How many keys went since the last copy, those that went twice twice.
    pub(super) fn gone(&self) -> usize {
        self.since_last.gone.len()
    }

    /// How many rows and keys changed, at most; those that changed twice may count twice.
    pub(super) fn len(&self, since: Since) -> usize {
        match since {
            Since::Last => self.since_last.len(),
            Since::BeforeLast => self.since_last.len() + self.before_last.len(),
        }
    }

    /// Begins the time since a new copy, which is full or builds on an earlier one, and returns what
    /// changed since that.
    pub(super) fn copied(&mut self, since: Option<Since>) -> Changed {
        let mut last = std::mem::take(&mut self.since_last);
        let before_last = std::mem::take(&mut self.before_last);
        match since {
            // The copy before a full one is no base any more.
            None => return Changed::default(),
            Some(Since::Last) => {}
            Some(Since::BeforeLast) => {
                last.slots.merge(&before_last.slots);
                last.gone.extend(before_last.gone);
            }
        }
        self.before_last = last.clone();
        last
    }

    /// The memory of what is known.
    pub(super) fn bytes(&self) -> usize {
        self.since_last.bytes() + self.before_last.bytes()
    }
}

impl Changed {
    fn len(&self) -> usize {
        self.slots.len() + self.gone.len()
    }

    fn bytes(&self) -> usize {
        self.slots.bytes() + self.gone.capacity() * size_of::<Key>()
    }
}
