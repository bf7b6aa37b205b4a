//! The embedded engine, driven in process through the `Store` port on a real directory.
//!
//! ```text
//!   round ──┬─ floor, floor-64                          the disk alone
//!           ├─ ingest ─► existing ─► open ─► reschedule ─► cancel     one store, in this order
//!           └─ ingest-serial · ingest-4x64 · fire · claim             a fresh store each
//! ```
//!
//! There is no HTTP and no runtime: callers block on the futures of the port, so CPU beyond the
//! engine's own threads is the cost of making requests and dropping answers. A row that needs a
//! filled store fills it first when `ingest` is not asked for. Rows run in the order above.

mod cancel;
mod claims;
mod existing;
mod ingest;
mod open;
mod options;
mod reschedule;
mod rows;
mod scene;
mod syncs;
mod writer;

use std::{fs, path::Path};

pub use open::{Reopened, reopen};
pub use options::{Name, Options};

use crate::{
    error::{Error, Result},
    machine::{self, Machine},
    report::Report,
    usage,
};

/// Measures what the options ask for.
///
/// # Errors
/// The first thing that did not go as the row says; there is no report then. What was written to
/// the disk is removed in either case.
pub fn run(options: &Options) -> Result<Report> {
    let parent = options.parent();
    fs::create_dir_all(&parent).map_err(Error::io("make", &parent))?;
    let folder = tempfile::Builder::new()
        .prefix("engine-")
        .tempdir_in(&parent)
        .map_err(Error::io("make a folder in", &parent))?;
    let machine = Machine::of(folder.path());
    usage::resident_gain_bytes();
    if let Some(filesystem) = &machine.filesystem
        && machine::is_memory(filesystem)
        && !options.allow_memory_disk
    {
        return Err(Error::MemoryDisk { path: parent, filesystem: filesystem.clone() });
    }
    let mut report = Report::new(command(), machine);
    for round in 1..=options.runs {
        let mut bench = Bench { options, folder: folder.path(), round, report: &mut report };
        bench.round()?;
    }
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
        if Name::ON_FILLED.iter().any(|name| options.wants(*name)) {
            self.tell(Name::Ingest);
            let mut scene = ingest::measure(self)?;
            for name in Name::ON_FILLED.into_iter().filter(|name| options.wants(*name)) {
                if name != Name::Ingest {
                    self.tell(name);
                }
                match name {
                    Name::Existing => existing::measure(self, &scene)?,
                    Name::Open => open::measure(self, &mut scene)?,
                    Name::Reschedule => reschedule::measure(self, &scene)?,
                    Name::Cancel => cancel::measure(self, &scene)?,
                    _ => {}
                }
            }
            scene.remove()?;
        }
        for name in Name::ON_FRESH.into_iter().filter(|name| options.wants(*name)) {
            self.tell(name);
            match name {
                Name::IngestSerial => ingest::measure_serial(self)?,
                Name::Ingest4x64 => ingest::measure_4x64(self)?,
                Name::Fire => claims::measure_fire(self)?,
                Name::Claim => claims::measure_claim(self)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Says on standard error what takes its time.
    fn tell(&self, name: Name) {
        let (round, runs) = (self.round, self.options.runs);
        eprintln!("round {round} of {runs}: {}", name.as_str());
    }
}

/// The command as a person would type it.
fn command() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("duly-bench".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
