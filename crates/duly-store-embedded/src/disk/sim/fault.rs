//! What a test plans to go wrong, and the counting until it does.

/// Something that goes wrong at a planned moment. Counting starts at the call of
/// [`SimDisk::plan`](super::SimDisk::plan): 1 is the very next one. A plan replaces an earlier one
/// of its kind and does not outlive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power during this operation, counted as
    /// [`SimDisk::ops`](super::SimDisk::ops) counts. The seed decides how much of it is done; it
    /// and everything after it fails, on every handle.
    CrashAtOp(u64),
    /// This sync, of a file or a directory, answers EIO, once. What it should have made durable is
    /// given up, as Linux does: the seed decides what reached the disk, and no later sync brings
    /// the rest back, though reads go on seeing it.
    ErrorAtSync(u64),
    /// This write-back answers EIO, once, and gives up what it should have written, as a failed
    /// sync does.
    ErrorAtWriteBack(u64),
    /// This write finds the disk full, once. The seed decides how many of its bytes were written.
    NoSpaceAtWrite(u64),
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    crash: Countdown,
    sync_error: Countdown,
    write_back_error: Countdown,
    no_space: Countdown,
}

impl Plan {
    pub(super) fn add(&mut self, fault: Fault) {
        let (countdown, n) = match fault {
            Fault::CrashAtOp(n) => (&mut self.crash, n),
            Fault::ErrorAtSync(n) => (&mut self.sync_error, n),
            Fault::ErrorAtWriteBack(n) => (&mut self.write_back_error, n),
            Fault::NoSpaceAtWrite(n) => (&mut self.no_space, n),
        };
        assert!(n > 0, "{fault:?}: 1 is the next one");
        countdown.left = n;
    }

    pub(super) fn crashes_now(&mut self) -> bool {
        self.crash.tick()
    }

    pub(super) fn sync_fails_now(&mut self) -> bool {
        self.sync_error.tick()
    }

    pub(super) fn write_back_fails_now(&mut self) -> bool {
        self.write_back_error.tick()
    }

    pub(super) fn is_full_now(&mut self) -> bool {
        self.no_space.tick()
    }
}

/// How many more until it happens; 0 is never.
#[derive(Debug, Default)]
struct Countdown {
    left: u64,
}

impl Countdown {
    fn tick(&mut self) -> bool {
        let now = self.left == 1;
        self.left = self.left.saturating_sub(1);
        now
    }
}
