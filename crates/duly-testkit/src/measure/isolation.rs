//! Isolation: lateness of quiet lanes while another lane has a million timers behind a dead
//! receiver, or serves a million at full speed.
//!
//! ```text
//!   stretch:   idle          beside refused     beside silent      beside webhook …
//!   quiet:     ·  ·  ·  ·    ·  ·  ·  ·  ·      ·  ·  ·  ·  ·      ·  ·  ·  ·  ·      the same lanes
//!   other:     nothing       1 M due at once    1 M due at once    1 M due at once    a new namespace
//! ```
//!
//! 1. All parts (`Stretch`) belong to one run on one server.
//! 2. There are two quiet lanes, one leased and one with webhooks. Each has a receiver on its own
//!    thread.
//! 3. The due times of both are random, evenly spread over the part. The part begins when the
//!    timers of the other lane are due.
//! 4. Scheduling happens before the part and is not measured.
//! 5. Every firing, quiet or other, must arrive exactly once and none early.
//! 6. The baseline is the wake-up lateness of a sleeping thread in the same part. It shows how much
//!    of the lateness comes from the machine, which the load generator shares.

mod beside;
mod plot;
mod quiet;
mod series;
mod waking;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::progress::part;
use super::{Kind, Table, floor, load, start, usage};
use crate::checker::Percentiles;
use crate::clock::{now_ms, now_us};
use crate::process::{Options as ServerOptions, Server};
use crate::wire::Connection;
pub use beside::Beside;
use beside::Other;
use quiet::Lane;
use series::{Source, Stretch};
use waking::Waking;

/// Delay of the due times of an idle part, in milliseconds.
const IDLE_LEAD_MS: u64 = 3_000;
/// Shortest part, in microseconds.
const SHORTEST_US: u64 = 1_000_000;
/// Length of the surge at the start of a part, when timers due at one instant become claimable.
/// Figures are also reported without it, to separate lasting effects from this one.
const SURGE_US: u64 = 1_000_000;
/// Time between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Most polls without an arrival on a quiet lane with due timers: those of a minute. Polls are
/// counted, not time, so a machine that slept for a while does not end the run.
const STANDSTILL_LOOKS: u32 = 3_000;

/// Options of `isolation`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Loads beside the quiet lanes, one part each, in this order. A part `idle` always comes
    /// first.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Beside::Refused, Beside::Silent, Beside::Webhook])]
    pub beside: Vec<Beside>,
    /// Timers of the other lane, due at one instant.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=100_000_000))]
    pub timers: u32,
    /// Firings per second of each quiet lane.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Seconds of each part. A part beside a lane that is served ends when that lane is done, but
    /// not before one second.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Seconds from the first schedule call of another lane to the due time. Default: 5, and one
    /// for each 70,000 timers.
    #[arg(long, value_name = "SECONDS")]
    pub lead: Option<u32>,
    /// Draws the lateness over time, with the parts marked, as SVG; of the last round.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Writes the lateness of every firing as CSV; of the last round.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    for (place, beside) in options.beside.iter().enumerate() {
        ensure!(
            !options.beside[..place].contains(beside),
            "--beside has one of them twice ({}); each can be there once",
            beside.name()
        );
    }
    let mut server = start(server).await?;
    let each = usize::try_from(options.rate * options.seconds)?;
    let capacity = each * (options.beside.len() + 1);
    let mut lanes = Vec::new();
    for kind in [Kind::Pull, Kind::Webhook] {
        lanes.push(Lane::start(&server, kind, capacity).await?);
    }
    let waking = Waking::start()?;
    let mut stretches = Vec::new();
    let beside = std::iter::once(None).chain(options.beside.iter().copied().map(Some));
    for (place, beside) in beside.enumerate() {
        part(&format!("stretch {} of {}: {}", place + 1, options.beside.len() + 1, name(beside)));
        stretches.push(stretch(&server, options, beside, place, &lanes, table).await?);
    }
    let woken = waking.stop()?;
    for lane in &lanes {
        lane.arrivals().verify()?;
        lane.ensure_all_delivered().await?;
    }
    let sources: Vec<Source> = lanes
        .iter()
        .map(|lane| Source { name: lane.name(), late_us: lane.arrivals().lateness_us(0..capacity) })
        .chain(std::iter::once(Source { name: "wake-up", late_us: woken }))
        .collect();
    // The lanes end first: they have calls in flight, which would report the end of the server as
    // an error.
    drop(lanes);
    server.kill()?;
    report(&stretches, &sources, table)?;
    if let Some(path) = &options.series {
        series::write_csv(path, &stretches, &sources)?;
    }
    if let Some(path) = &options.plot {
        plot::draw(path, &title(options), &stretches, &sources)?;
    }
    Ok(())
}

/// Returns the name of a part.
const fn name(beside: Option<Beside>) -> &'static str {
    match beside {
        None => "idle",
        Some(beside) => beside.name(),
    }
}

fn title(options: &Options) -> String {
    format!(
        "Lateness of two quiet lanes, {} firings/s each; beside them {} timers due at one instant",
        options.rate, options.timers
    )
}

/// Prepares and runs one part; returns its times.
async fn stretch(
    server: &Server,
    options: &Options,
    beside: Option<Beside>,
    place: usize,
    lanes: &[Lane],
    table: &mut Table,
) -> Result<Stretch> {
    let timers = usize::try_from(options.timers)?;
    let lead_ms = match beside {
        None => IDLE_LEAD_MS,
        Some(_) => load::lead_ms(timers, options.lead),
    };
    let due_ms = now_ms() + lead_ms;
    let other = match beside {
        Some(beside) => Some(Other::prepare(server, beside, timers, due_ms).await?),
        None => None,
    };
    let each = usize::try_from(options.rate * options.seconds)?;
    let span_ms = u64::from(options.seconds) * 1_000;
    let mut rng = SmallRng::seed_from_u64(u64::try_from(place)?);
    for lane in lanes {
        let mut dues_ms: Vec<u64> =
            (0..each).map(|_| due_ms + rng.random_range(0..span_ms)).collect();
        dues_ms.sort_unstable();
        lane.schedule(place * each, &dues_ms).await?;
    }
    load::ensure_still_ahead(due_ms, lead_ms)?;

    let cpu = usage::cpu(server.pid())?;
    usage::forget_peak(server.pid());
    let before = usage::resident_bytes(server.pid())?;
    let other = other.map(|other| other.serve(server));
    let wanted = (place + 1) * each;
    for lane in lanes {
        wait_for(lane, wanted, due_ms + span_ms, name(beside)).await?;
    }
    let cpu = usage::cpu(server.pid())?.saturating_sub(cpu);
    let lasted_us = now_us().saturating_sub(due_ms * 1_000).max(1);
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    let busy = cpu.as_secs_f64() * 1e6 / lasted_us as f64;
    table.add(&format!("{}: CPU of the server", name(beside)), "cores", busy);
    usage::add_memory(table, &format!("{}: ", name(beside)), before, server.pid())?;
    let (begin_us, end_us) = (due_ms * 1_000, (due_ms + span_ms) * 1_000);
    let ended_us = match other {
        Some(other) => other.finish(server, table).await?,
        None => None,
    };
    Ok(Stretch {
        name: name(beside),
        begin_us,
        end_us: ended_us.map_or(end_us, |at_us| at_us.max(begin_us + SHORTEST_US).min(end_us)),
    })
}

/// Waits until `wanted` timers have arrived on a lane in all.
async fn wait_for(lane: &Lane, wanted: usize, end_ms: u64, stretch: &str) -> Result<()> {
    let (mut last, mut looks) = (0, 0);
    loop {
        let out = lane.arrivals().out();
        if out >= wanted {
            return Ok(());
        }
        looks = if out > last || now_ms() < end_ms { 0 } else { looks + 1 };
        last = out;
        ensure!(
            looks < STANDSTILL_LOOKS,
            "{stretch}: for a minute nothing came over the quiet {} lane, of {wanted} timers so \
             far {out}; the server's counts: {}",
            lane.name(),
            lane.stats().await?
        );
        tokio::time::sleep(LOOK).await;
    }
}

/// Adds the percentiles of each part, and their ratios to those of the idle part.
fn report(stretches: &[Stretch], sources: &[Source], table: &mut Table) -> Result<()> {
    for source in sources {
        let mut idle = None;
        for stretch in stretches {
            let late = Percentiles::of(stretch.of(source).map(|(_, late_us)| late_us));
            let name = format!("{}, {}", source.name, stretch.name);
            ensure!(late.count > 0, "{name}: the stretch was so short that nothing was due in it");
            for (share, value_us) in [
                ("p50", late.p50_us),
                ("p99", late.p99_us),
                ("p99.9", late.p999_us),
                ("max", late.max_us),
            ] {
                table.add(&format!("{name}: {share}"), "ms", floor::ms(value_us));
            }
            let idle = *idle.get_or_insert(late);
            if stretch.name != name_of_idle() {
                report_beside(&name, late, idle, table);
                let later = stretch.of(source).filter(|(since_us, _)| *since_us >= SURGE_US);
                let later = Percentiles::of(later.map(|(_, late_us)| late_us));
                if later.count > 0 {
                    let name = format!("{name}, after 1 s");
                    table.add(&format!("{name}: p99"), "ms", floor::ms(later.p99_us));
                    table.add(&format!("{name}: p99.9"), "ms", floor::ms(later.p999_us));
                    report_beside(&name, later, idle, table);
                }
            }
        }
    }
    Ok(())
}

/// Adds the ratios of percentiles to those of the idle part.
fn report_beside(name: &str, late: Percentiles, idle: Percentiles, table: &mut Table) {
    table.add(&format!("{name}: p50 to idle"), "x", ratio(late.p50_us, idle.p50_us));
    table.add(&format!("{name}: p99 to idle"), "x", ratio(late.p99_us, idle.p99_us));
    table.add(&format!("{name}: p99.9 to idle"), "x", ratio(late.p999_us, idle.p999_us));
}

const fn name_of_idle() -> &'static str {
    name(None)
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn ratio(value_us: u64, idle_us: u64) -> f64 {
    value_us as f64 / idle_us.max(1) as f64
}

/// Creates a connection for calls that are not measured.
fn connect(server: &Server) -> Connection {
    Connection::new(server.address())
}

/// Arrivals that several threads note.
type Noted = Arc<super::arrivals::Arrivals>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_compared_with_the_idle_one() {
        let stretches = [
            Stretch { name: "idle", begin_us: 0, end_us: 100 },
            Stretch { name: "beside refused", begin_us: 200, end_us: 300 },
        ];
        let late_us = (0..100).map(|at| (at, 10)).chain((200..300).map(|at| (at, 30))).collect();
        let mut table = Table::default();
        report(&stretches, &[Source { name: "pull", late_us }], &mut table).unwrap();
        let json = table.to_json();
        let median = |name: &str| {
            let rows = json.as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap()["median"].as_f64().unwrap()
        };
        assert!((median("pull, idle: p99") - 0.01).abs() < 1e-9);
        assert!((median("pull, beside refused: p99") - 0.03).abs() < 1e-9);
        assert!((median("pull, beside refused: p99 to idle") - 3.0).abs() < 1e-9);
    }

    #[test]
    fn figures_after_the_surge_are_reported_separately() {
        let stretches = [
            Stretch { name: "idle", begin_us: 0, end_us: 100 },
            Stretch { name: "beside pull", begin_us: 1_000, end_us: 1_000 + 2 * SURGE_US },
        ];
        let late_us = vec![(0, 100), (1_000, 500_000), (1_000 + SURGE_US, 200)];
        let mut table = Table::default();
        report(&stretches, &[Source { name: "pull", late_us }], &mut table).unwrap();
        let text = table.to_string();
        let figure = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().parse::<f64>().unwrap()
        };
        assert!(figure("pull, beside pull: p99 ") > 400.0, "{text}");
        assert!((figure("pull, beside pull, after 1 s: p99 ") - 0.2).abs() < 1e-9, "{text}");
        assert!((figure("pull, beside pull, after 1 s: p99 to idle") - 2.0).abs() < 1e-9, "{text}");
    }

    #[test]
    fn a_phase_without_firings_is_an_error() {
        let stretches = [Stretch { name: "idle", begin_us: 0, end_us: 100 }];
        let source = Source { name: "pull", late_us: vec![(100, 1)] };
        assert!(report(&stretches, &[source], &mut Table::default()).is_err());
    }
}
