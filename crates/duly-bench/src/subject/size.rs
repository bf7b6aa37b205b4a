//! Subject `size`: resources of pending timers. A server of its own holds them; it is idle for a
//! while, is killed and started twice, and at the end nine of ten timers are cancelled.

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::{Run, scattered};
use crate::{
    clock::now_ms,
    offer::Batches,
    own_server::Start,
    page_cache,
    transport::Operation,
    usage::{cpu, resident_bytes, written_bytes},
};

/// Delay of the first timer, and range of the due times.
const FAR_MS: u64 = 24 * 3_600_000;
/// Time without a change after which the files have settled.
const QUIET: Duration = Duration::from_secs(3);
/// Longest wait for the files to settle, and for space after the cancels.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two polls of the files.
const LOOK: Duration = Duration::from_millis(500);
/// Timers per cancel call.
const BATCH: u64 = 1_000;
/// One of this many timers stays.
const STAYS: u64 = 10;

/// Disk use of a folder.
struct Disk {
    allocated: u64,
    changed: SystemTime,
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) async fn size(&mut self) -> Result<()> {
        let first_ms = now_ms() + FAR_MS;
        let base = resident_bytes(self.server_pid()?)?;
        self.fill(move |number| first_ms + scattered(number) % FAR_MS).await?;
        let timers = self.timers as f64;
        self.say("waiting until the files settle");
        let disk = self.settled().await?;
        self.table.add("disk, each", "B", disk.allocated as f64 / timers);
        let written = written_bytes(self.server_pid()?)?;
        self.table.add("bytes written to the disk, each", "B", written as f64 / timers);
        self.add_resident("resident memory, each", base)?;

        self.say("measuring the CPU of an idle server");
        let (began, before) = (Instant::now(), cpu(self.server_pid()?)?);
        sleep(Duration::from_secs(self.options.seconds())).await;
        let used = cpu(self.server_pid()?)?.saturating_sub(before);
        let share = used.as_secs_f64() / began.elapsed().as_secs_f64();
        self.table.add("CPU of the idle server", "% of a core", share * 100.0);

        for (start, name) in [(Start::Warm, "page cache warm"), (Start::Cold, "page cache cold")] {
            self.say("starting after kill -9");
            let own = self.own.as_mut().context(NO_SERVER)?;
            let crash = own.crash(start).await?;
            let took = (crash.ready_us - crash.spawned_us) as f64 / 1e6;
            self.table.add(&format!("from start to ready, {name}"), "s", took);
        }
        self.add_resident("resident memory after a start, each", 0)?;
        self.compare_pending().await?;
        self.reclaim().await
    }

    /// Cancels nine of ten timers, and waits until the disk has at most three times what the others
    /// take, and 1 GiB.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    async fn reclaim(&mut self) -> Result<()> {
        self.say("cancelling nine of ten");
        let before = disk_of(&self.folder)?.allocated;
        let batches = self.batches(std::sync::Arc::new(|_| Vec::new()));
        for first in (0..self.timers).step_by(usize::try_from(BATCH)?) {
            let numbers = first..self.timers.min(first + BATCH);
            let leaving = numbers.filter(|number| number % STAYS != 0);
            let cancels: Vec<_> = leaving.map(|number| Operation::Cancel { number }).collect();
            if !cancels.is_empty() {
                Batches::call(&batches, 0, &self.target.namespace, &cancels).await?;
            }
            if self.stop.is_wanted() {
                return Ok(());
            }
        }
        self.say("waiting for space");
        let bound = 3 * before / STAYS + (1 << 30);
        let began = Instant::now();
        let mut disk = disk_of(&self.folder)?;
        while disk.allocated > bound && began.elapsed() < PATIENCE && !self.stop.is_wanted() {
            sleep(LOOK).await;
            disk = disk_of(&self.folder)?;
        }
        let took = began.elapsed().as_secs_f64();
        self.table.add("nine of ten cancelled: disk", "MiB", disk.allocated as f64 / 1_048_576.0);
        self.table.add("nine of ten cancelled: disk below the bound after", "s", took);
        self.compare_pending().await
    }

    fn server_pid(&self) -> Result<u32> {
        self.pid().context(NO_SERVER)
    }

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    fn add_resident(&mut self, name: &str, base: u64) -> Result<()> {
        let resident = resident_bytes(self.server_pid()?)?.saturating_sub(base);
        self.table.add(name, "B", resident as f64 / self.timers as f64);
        Ok(())
    }

    /// Waits until the files have not changed for a while, and returns their disk use.
    async fn settled(&self) -> Result<Disk> {
        let began = Instant::now();
        loop {
            let disk = disk_of(&self.folder)?;
            let is_quiet = disk.changed.elapsed().is_ok_and(|since| since >= QUIET);
            if is_quiet || began.elapsed() >= PATIENCE || self.stop.is_wanted() {
                return Ok(disk);
            }
            sleep(LOOK).await;
        }
    }
}

const NO_SERVER: &str = "the server of the run is gone";

fn disk_of(folder: &Path) -> Result<Disk> {
    let mut sum = Disk { allocated: 0, changed: SystemTime::UNIX_EPOCH };
    for path in page_cache::files(folder)? {
        // The store may remove a file at any time.
        let Ok(meta) = path.metadata() else { continue };
        sum.allocated += meta.blocks() * 512;
        sum.changed = sum.changed.max(meta.modified()?);
    }
    Ok(sum)
}
