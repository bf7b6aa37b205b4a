//! Tests of the embedded store through its public face: the conformance suite, the model, crashes.

mod conformance;
mod crash_points;
mod failed_disk;
mod faulty;
mod full_disk;
mod golden;
mod harness;
mod model;
mod races;
mod refusals;
mod rolls;
mod seeds;
mod simulation;
mod snapshot;
mod stage;
mod steps;
mod sudden_end;
mod tail;
mod twins;
mod workload;
