//! Tests of the embedded store through its public face: the conformance suite, the model, crashes.

mod conformance;
mod crash_points;
mod golden;
mod failed_disk;
mod faulty;
mod harness;
mod model;
mod seeds;
mod simulation;
mod snapshot;
mod stage;
mod steps;
mod twins;
mod workload;
