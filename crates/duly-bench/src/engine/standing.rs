//! Rows of a child process that only holds pending timers: memory, disk, idle CPU, and start after
//! a kill.
//!
//! ```text
//!   child: fill ─► settle ─► idle ─► ingest ─► SIGKILL      two fresh children: open warm, open cold
//!     resident, disk, writes     idle                          killed, killed-cold, resident
//! ```

use std::{fs, path::Path};

use duly_core::Millis;

use super::{
    Bench, Name,
    child::Child,
    open::elsewhere,
    rows, settle,
    step::{Acked, End, FillStep, Filled, Idle, OpenStep, Opened, Request, Step, Usage},
};
use crate::{
    error::{Error, Result},
    pages,
    usage::disk_bytes,
};

/// Lead of the clock at the open after a kill: the timers of the first day are overdue.
const OUTAGE: Millis = Millis::from_secs(48 * 3_600);
/// The killed ingest has added at least one timer per `KILLED_SHARE` timers that were there before.
const KILLED_SHARE: u32 = 10;

/// Folders of a store, and the names of their figures.
const PARTS: [(&str, &str); 3] = [
    ("settled: journal", "journal"),
    ("settled: runs", "runs"),
    ("settled: checkpoints", "checkpoints"),
];

/// State of the page cache for the store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
}

/// Measures all rows of the child.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let path = bench.folder.join("store");
    let mut child = fill(bench, options.timers)?;
    let filled: Filled = child.answer()?;
    let disk = disk_bytes(&path)?;
    eprintln!("  waiting for its files to stop changing");
    let settled = settle::wait(&path, options.settle_seconds)?;
    child.send(&Request::Usage)?;
    let after: Usage = child.answer()?;
    if options.wants(Name::Resident) {
        add_resident(bench, &filled, &after);
    }
    if options.wants(Name::Disk) {
        add_disk(bench, &filled, disk, &settled);
        add_parts(bench, &path)?;
    }
    if options.wants(Name::Writes) {
        add_writes(bench, &filled, &after);
    }
    if options.wants(Name::Idle) {
        add_idle(bench, &mut child)?;
    }
    if options.wants_any(&[Name::Killed, Name::Resident]) {
        let acked = kill_in_ingest(bench, &mut child)?;
        drop(child);
        measure_opens(bench, &path, acked)?;
    } else {
        drop(child);
    }
    fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
    if options.wants(Name::Idle) {
        add_idle_floor(bench)?;
    }
    Ok(())
}

fn fill(bench: &Bench<'_>, timers: u32) -> Result<Child> {
    let options = bench.options;
    let step = FillStep {
        folder: bench.folder.to_owned(),
        timers,
        batch: options.batch,
        in_flight: options.in_flight,
        payload_bytes: options.payload_bytes,
    };
    Child::start(options.program.as_deref(), &Step::Fill(step))
}

fn add_resident(bench: &mut Bench<'_>, filled: &Filled, after: &Usage) {
    let timers = u64::from(bench.options.timers);
    let about = "whole process that scheduled them all, then settled: memory per pending timer";
    bench
        .report
        .row(Name::Resident.as_str(), about.to_owned(), timers)
        .add("resident", "B each", rows::each(after.resident_bytes, timers))
        .add("before settling", "B each", rows::each(filled.usage.resident_bytes, timers))
        .add("peak", "B each", rows::each(after.resident_peak_bytes, timers))
        .add("empty process", "MB", rows::each(filled.base_bytes, 1_000_000))
        .add("index", "B each", rows::each(filled.index_bytes, timers))
        .add("calendar", "B each", rows::each(filled.calendar_bytes, timers));
}

fn add_disk(bench: &mut Bench<'_>, filled: &Filled, disk: u64, settled: &settle::Settled) {
    let timers = u64::from(bench.options.timers);
    let logical = filled.logical_bytes_each * timers;
    let about = "blocks of the folder per pending timer; logical: id, due time, payload";
    bench
        .report
        .row(Name::Disk.as_str(), about.to_owned(), timers)
        .add("after load", "B each", rows::each(disk, timers))
        .beside("after load", "logical bytes", rows::each(logical, timers))
        .add("settled", "B each", rows::each(settled.bytes, timers))
        .beside("settled", "logical bytes", rows::each(logical, timers))
        .add("settled/logical", "x", rows::each(settled.bytes, logical))
        .add("journal", "B each", rows::each(filled.journal_bytes, timers))
        .add("settling took", "s", settled.after.as_secs_f64())
        .add("stopped changing", "1 = yes", f64::from(u8::from(settled.is_still)));
}

/// Adds the bytes of each folder of a settled store to the row `disk`.
fn add_parts(bench: &mut Bench<'_>, path: &Path) -> Result<()> {
    let timers = u64::from(bench.options.timers);
    for (figure, folder) in PARTS {
        let bytes = disk_bytes(&path.join(folder))?;
        let row = bench.report.row(Name::Disk.as_str(), String::new(), timers);
        row.add(figure, "B each", rows::each(bytes, timers));
    }
    Ok(())
}

fn add_writes(bench: &mut Bench<'_>, filled: &Filled, after: &Usage) {
    let timers = u64::from(bench.options.timers);
    let logical = filled.logical_bytes_each * timers;
    let settling = after.written_bytes.saturating_sub(filled.usage.written_bytes);
    let about = "bytes the process wrote to the disk, beside logical bytes: id, due time, payload";
    bench
        .report
        .row(Name::Writes.as_str(), about.to_owned(), timers)
        .add("ingest", "B each", rows::each(filled.written_bytes, timers))
        .beside("ingest", "logical bytes", rows::each(logical, timers))
        .add("with settling", "B each", rows::each(filled.written_bytes + settling, timers))
        .beside("with settling", "logical bytes", rows::each(logical, timers))
        .add("write amplification", "x", rows::each(filled.written_bytes + settling, logical));
}

fn add_idle(bench: &mut Bench<'_>, child: &mut Child) -> Result<()> {
    let percent = idle_percent(bench, child)?;
    let timers = u64::from(bench.options.timers);
    let about = format!("CPU of a settled store over {} s", bench.options.idle_seconds);
    bench.report.row(Name::Idle.as_str(), about, timers).add("of a core", "%", percent);
    Ok(())
}

/// Adds the same for a store without timers, as the baseline.
fn add_idle_floor(bench: &mut Bench<'_>) -> Result<()> {
    let mut child = fill(bench, 0)?;
    let percent = idle_percent(bench, &mut child)?;
    drop(child);
    let path = bench.folder.join("store");
    fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
    let timers = u64::from(bench.options.timers);
    let row = bench.report.row(Name::Idle.as_str(), String::new(), timers);
    row.beside("of a core", "the same of an empty store", percent);
    Ok(())
}

fn idle_percent(bench: &Bench<'_>, child: &mut Child) -> Result<f64> {
    child.send(&Request::Idle { seconds: bench.options.idle_seconds })?;
    let idle: Idle = child.answer()?;
    Ok(idle.cpu_s / idle.elapsed_s * 100.0)
}

/// Makes the child schedule more timers and kills it meanwhile. Returns how many more timers the
/// child acknowledged.
fn kill_in_ingest(bench: &Bench<'_>, child: &mut Child) -> Result<u64> {
    let options = bench.options;
    let enough = u64::from((options.timers / KILLED_SHARE).max(options.batch));
    child.send(&Request::Ingest)?;
    loop {
        let Acked(acked) = child.answer()?;
        if acked >= enough {
            break;
        }
    }
    child.kill()?;
    // Replies that the child wrote before its death count: these timers were acknowledged.
    let mut last = enough;
    while let Some(Acked(acked)) = child.next()? {
        last = last.max(acked);
    }
    Ok(last)
}

fn measure_opens(bench: &mut Bench<'_>, path: &Path, acked: u64) -> Result<()> {
    let options = bench.options;
    let least = u64::from(options.timers) + acked;
    let most = least + u64::from(options.in_flight) * u64::from(options.batch);
    for (cache, name) in [(Cache::Warm, "killed"), (Cache::Cold, "killed-cold")] {
        if cache == Cache::Cold {
            if !options.wants(Name::Killed) {
                break;
            }
            pages::drop_cached(path)?;
        }
        let plain = pages::read_plainly(path)?;
        if cache == Cache::Cold {
            pages::drop_cached(path)?;
        }
        let step =
            OpenStep { folder: path.to_owned(), ahead_ms: OUTAGE.ms(), end: End::ClaimAndAbandon };
        let opened = elsewhere(bench, step)?;
        if opened.pending < least || opened.pending > most {
            let expected = format!("{least} to {most} pending timers after the kill");
            return Err(Error::Unexpected { expected, found: opened.pending.to_string() });
        }
        if options.wants(Name::Killed) {
            add_opened(bench, name, cache, &opened, &plain)?;
        }
        if options.wants(Name::Resident) && cache == Cache::Warm {
            let timers = u64::from(options.timers);
            let row = bench.report.row(Name::Resident.as_str(), String::new(), timers);
            let each = rows::each(opened.resident_bytes, opened.pending);
            row.add("reopened after kill", "B each", each);
        }
    }
    Ok(())
}

fn add_opened(
    bench: &mut Bench<'_>,
    name: &'static str,
    cache: Cache,
    opened: &Opened,
    plain: &pages::PlainRead,
) -> Result<()> {
    let first_s = opened.first_firing_s.ok_or_else(|| Error::Unexpected {
        expected: "an overdue firing after the opening".to_owned(),
        found: "none".to_owned(),
    })?;
    let timers = rows::each(opened.pending, 1);
    let (cache, floor) = match cache {
        Cache::Warm => ("warm", "plain reading of all files, warm"),
        Cache::Cold => ("cold, opened once before", "plain reading of all files, cold"),
    };
    let about = format!(
        "open after kill -9 during ingest, page cache {cache}; a day's timers overdue; items were \
         there before that ingest"
    );
    bench
        .report
        .row(name, about, bench.options.timers.into())
        .add("per_second", "/s", timers / opened.open_s.max(1e-9))
        .add("cpu", "µs", opened.cpu_s * 1e6 / timers)
        .add("open", "s", opened.open_s)
        .beside("open", floor, plain.elapsed.as_secs_f64())
        .add("first firing after", "ms", first_s * 1e3)
        .add("pending", "", timers)
        .add("read from disk", "MB", rows::each(opened.read_bytes, 1_000_000));
    Ok(())
}
