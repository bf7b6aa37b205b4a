//! The faults that a test plans, and the countdowns to them.

/// A fault at a planned operation. Counting starts at the call of
/// [`SimDisk::plan`](super::SimDisk::plan): 1 is the next operation. A plan replaces an earlier one of
/// its kind and does not outlive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power during this operation, counted as [`SimDisk::ops`](super::SimDisk::ops)
    /// counts. The seed decides how much of the operation is done. The operation and everything after it
    /// fails, on every handle.
    CrashAtOp(u64),
    /// This sync, of a file or a directory, returns EIO, once. The unsynced bytes are given up, as in
    /// Linux: the seed decides which reached the disk. No later sync writes the rest, though reads still
    /// see it.
    ErrorAtSync(u64),
    /// This write-back returns EIO, once, and gives up its bytes, as a failed sync does.
    ErrorAtWriteBack(u64),
    /// This write finds the disk full, once. The seed decides how many of its bytes were written.
    NoSpaceAtWrite(u64),
}

#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    crash: Countdown,
    sync_error: Countdown,
    write_back_error: Countdown,
    no_space: Countdown,
}

impl FaultPlan {
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

/// Operations left until the fault; 0 means never.
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
