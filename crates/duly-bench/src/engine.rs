//! Benchmark of the embedded engine, in process, through the `Store` port, on a real directory.
//!
//! ```text
//!   round ──┬─ floor, floor-64                                      the disk alone
//!           ├─ ingest ─► existing ─► open ─► reschedule ─► -cold ─► cancel   one store, this order
//!           ├─ ingest-serial · ingest-4x64 · fire · claim · fire-cold
//!           │  · lists · reclaim · dead                             a fresh store each
//!           ├─ latency ─► hot ─► hot-claim                          one store that stays filled
//!           └─ resident · disk · writes ─► idle ─► killed           one store in another process
//! ```
//!
//! * There is no HTTP and no async runtime. Callers block on the futures of the port, so CPU beyond
//!   the engine's own threads is the cost of making requests and dropping results.
//! * A row that needs a filled store fills it first when `ingest` is not requested.
//! * Rows run in the order above.

mod cancel;
mod child;
mod claims;
mod commits;
mod consumer;
mod dead;
mod existing;
mod ingest;
mod lists;
mod name;
mod open;
mod options;
mod reclaim;
mod reschedule;
mod room;
mod rows;
mod scene;
mod settle;
mod standing;
mod step;
mod syncs;
mod writer;

use std::path::Path;

pub use name::Name;
pub use options::Options;
use scene::{Due, Scene, Setup};
pub use step::carry_out;

use crate::{
    error::{Error, Result},
    machine::{self, Machine},
    report::Report,
    scratch::Scratch,
    targets, usage,
};

/// Measures the rows that the options request. The first unexpected result ends the run; the report
/// then has the rows measured until then and the reason. The files of the run are removed in any
/// case.
///
/// # Errors
/// When the first row fails. There is no report then.
pub fn run(options: &Options) -> Result<Report> {
    let parent = options.parent();
    let scratch = Scratch::make_in(&parent)?;
    let machine = Machine::of(scratch.path());
    usage::resident_gain_bytes();
    if let Some(filesystem) = &machine.filesystem
        && machine::is_memory(filesystem)
        && !options.allow_memory_disk
    {
        return Err(Error::MemoryDisk { path: parent, filesystem: filesystem.clone() });
    }
    room::check(options, &scratch)?;
    let mut report = Report::new(command(), machine);
    for round in 1..=options.runs {
        let mut bench = Bench { options, folder: scratch.path(), round, report: &mut report };
        if let Err(error) = bench.round() {
            if report.rows.is_empty() {
                return Err(error);
            }
            report.failed = Some(error.to_string());
            break;
        }
    }
    targets::judge(&mut report, options.timers.into());
    Ok(report)
}

/// One round over all rows.
struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    round: u32,
    report: &'a mut Report,
}

impl Bench<'_> {
    fn round(&mut self) -> Result<()> {
        let options = self.options;
        if options.wants(Name::Floor) {
            self.tell(Name::Floor);
            syncs::measure(self)?;
        }
        if options.wants_any(&Name::ON_FILLED) {
            self.on_filled()?;
        }
        for name in wanted(options, &Name::ON_FRESH) {
            self.tell(name);
            match name {
                Name::IngestSerial => ingest::measure_serial(self)?,
                Name::Ingest4x64 => ingest::measure_4x64(self)?,
                Name::Fire => claims::measure_fire(self)?,
                Name::Claim => claims::measure_claim(self)?,
                Name::FireCold => claims::measure_fire_cold(self)?,
                Name::Lists => lists::measure(self)?,
                Name::Reclaim => reclaim::measure(self)?,
                Name::Dead => dead::measure(self)?,
                _ => {}
            }
        }
        if options.wants_any(&Name::BESIDE_PENDING) {
            self.beside_pending()?;
        }
        if options.wants_any(&Name::ELSEWHERE) {
            for name in wanted(options, &Name::ELSEWHERE) {
                self.tell(name);
            }
            standing::measure(self)?;
        }
        Ok(())
    }

    fn on_filled(&mut self) -> Result<()> {
        self.tell(Name::Ingest);
        let mut scene = ingest::measure(self)?;
        for name in wanted(self.options, &Name::ON_FILLED) {
            if name != Name::Ingest {
                self.tell(name);
            }
            match name {
                Name::Existing => existing::measure(self, &scene)?,
                Name::Open => open::measure(self, &mut scene)?,
                Name::Reschedule => reschedule::measure(self, &scene)?,
                Name::RescheduleCold => reschedule::measure_cold(self, &scene)?,
                Name::Cancel => cancel::measure(self, &scene)?,
                _ => {}
            }
        }
        scene.remove()
    }

    fn beside_pending(&mut self) -> Result<()> {
        let options = self.options;
        let scene = Scene::fresh(self.folder, &Setup::new(Due::Spread, options.payload_bytes))?;
        eprintln!("round {} of {}: filling a store", self.round, options.runs);
        ingest::fill(&scene, options.timers, options.batch, options.in_flight)?;
        for name in wanted(options, &Name::BESIDE_PENDING) {
            self.tell(name);
            match name {
                Name::Latency => commits::measure(self, &scene)?,
                name => claims::measure_hot(self, &scene, name)?,
            }
        }
        scene.remove()
    }

    /// Prints on standard error which row runs now.
    fn tell(&self, name: Name) {
        let (round, runs) = (self.round, self.options.runs);
        eprintln!("round {round} of {runs}: {}", name.as_str());
    }
}

/// Returns those of `names` that the options request, in their order.
fn wanted(options: &Options, names: &[Name]) -> impl Iterator<Item = Name> {
    names.iter().copied().filter(|name| options.wants(*name))
}

/// Returns the command line of this process.
fn command() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("duly-bench".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
