//! Tests of the embedded store through its public API: the conformance suite, the model, crashes and
//! faults.
//!
//! Where a number decides the course of a test, a failure prints the command that repeats it
//! (`seeds::Repeat`). Variables for longer runs; name one module after `--test it` with them, because
//! several modules use them:
//!
//! * `DULY_CRASH_SEEDS`: number of seeds; `DULY_CRASH_SEED`: the first one
//! * `DULY_CRASH_STEPS`: steps of a simulation
//! * `DULY_CRASH_STRIDE`: 1 tries every crash point, and every pair of them
//! * `DULY_CRASH_OP` and `DULY_CRASH_SECOND`: start at this crash point
//! * `DULY_MODEL_SEEDS`, `DULY_MODEL_SEED` and `DULY_RACES`

mod background_faults;
mod backup;
mod backup_crashes;
mod backup_refused;
mod busy_races;
mod callers;
mod check;
mod checkpoint_crashes;
mod clock_jumps;
mod clock_steps;
mod closing;
mod conformance;
mod crash_points;
mod downtime;
mod ended;
mod enospc;
mod every_error;
mod every_file;
mod failed_disk;
mod faulty;
mod forecasts;
mod full_disk;
mod golden;
mod harness;
mod holes;
mod hung_disk;
mod large;
mod many;
mod model;
mod opening;
mod outcomes;
mod races;
mod rearmed;
mod refusals;
mod rolls;
mod rot;
mod scarce;
mod seeds;
mod simulation;
mod snapshot;
mod stage;
mod stalled;
mod steps;
mod sudden_end;
mod tail;
mod tombstone_crashes;
mod torn_sectors;
mod twins;
mod unreadable;
mod workload;
