//! Rows `floor`, `floor-64` and `pages`: the baseline, the disk alone with the bytes that the
//! engine would write.

use super::{
    Bench,
    ingest::{self, SMALL_BATCH},
    rows,
    scene::{Due, Scene, Setup},
};
use crate::{error::Result, floor};

/// Fewest and most commits of a baseline.
const COMMITS: (u32, u32) = (50, 2_000);

/// Measures the baseline of the batches that other rows send.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    let batch = bench.options.batch;
    let bytes_each = journal_bytes_each(bench)?;
    for (name, batch) in [("floor", batch), ("floor-64", SMALL_BATCH)] {
        let commits = bench.options.timers.div_ceil(batch).clamp(COMMITS.0, COMMITS.1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
        let commit_bytes = (bytes_each * f64::from(batch)) as usize;
        let floor = floor::measure(bench.folder, commit_bytes, commits)?;
        let about = format!(
            "the disk alone: append of {commit_bytes} B, as {batch} timers take, and fdatasync"
        );
        let items = u64::from(commits) * u64::from(batch);
        let row = bench.report.row(name, about, items);
        rows::add_latencies(row, &floor.latencies);
        row.add("per_second", "/s", rows::per_second(items, floor.elapsed))
            .add("commits", "/s", rows::per_second(u64::from(commits), floor.elapsed))
            .add("written", "MB/s", rows::per_second(floor.bytes, floor.elapsed) / 1e6);
    }
    let pages = floor::page_cache(bench.folder)?;
    let about = "into the page cache, without a sync: pages new to their file, and over them again";
    let row = bench.report.row("pages", about.to_owned(), pages.bytes >> 12);
    row.add("new", "MB/s", rows::per_second(pages.bytes, pages.new_pages) / 1e6).add(
        "known",
        "MB/s",
        rows::per_second(pages.bytes, pages.known_pages) / 1e6,
    );
    Ok(())
}

/// Returns the journal bytes of one timer, measured by scheduling one batch.
fn journal_bytes_each(bench: &Bench<'_>) -> Result<f64> {
    let scene = Scene::fresh(bench.folder, &Setup::new(Due::Spread, bench.options.payload_bytes))?;
    let (sent, spent) = ingest::fill(&scene, bench.options.batch, bench.options.batch, 1)?;
    scene.remove()?;
    Ok(rows::each(spent.committed_bytes, sent.items))
}
