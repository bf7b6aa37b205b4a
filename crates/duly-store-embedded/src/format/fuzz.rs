//! Fuzzing of all decoders: damages encoded pieces and repairs their checksums, so that the damage
//! reaches the decoders.
//!
//! The decoders must refuse the bytes, or return a value that encodes and decodes to itself. They must
//! not panic, and must not take more memory than the bytes account for.
//!
//! `DULY_FUZZ_SEED` and `DULY_FUZZ_SEEDS` repeat one seed or try many. The rounds run in a process of
//! their own with a bounded address space. So a length that is used before it is checked ends the
//! process.

use std::process::Command;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod mutate;
mod pieces;

use pieces::Piece;

/// Set in the process that runs the rounds.
const CHILD: &str = "DULY_FUZZ_CHILD";
/// Memory that the process may take in addition to that at its start. Its inputs are a few KiB.
const MORE_BYTES: u64 = 512 << 20;
/// Damaged copies of each piece, for one seed.
const COPIES: usize = 40;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Checks the pieces of one seed, and damaged copies of each.
fn run(seed: u64) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut random = StdRng::seed_from_u64(seed);
    let pieces: Vec<Piece> = pieces::all(&mut runner);
    for (place, piece) in pieces.iter().enumerate() {
        assert!((piece.check)(&piece.bytes), "a {} as it was encoded is refused", piece.name);
        for _ in 0..COPIES {
            let other = &pieces[(place + random.next_u32() as usize) % pieces.len()];
            let mut damaged = mutate::damaged(&mut random, &piece.bytes, &other.bytes);
            if !random.next_u32().is_multiple_of(8) {
                (piece.seal)(&mut damaged);
            }
            (piece.check)(&damaged);
        }
    }
}

fn value<T>(runner: &mut TestRunner, of: &impl Strategy<Value = T>) -> T {
    of.new_tree(runner).expect("the strategies reject little").current()
}

/// Bounds the address space of this process, if its present size is known.
fn bound_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let taken = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = taken.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(kib) = kib {
        let limit = Rlimit { current: Some((kib << 10) + MORE_BYTES), ..getrlimit(Resource::As) };
        setrlimit(Resource::As, limit).expect("a process may take less than it may");
    }
}

#[test]
fn damaged_bytes_are_refused_or_decoded_within_bounds() {
    let first = number("DULY_FUZZ_SEED", 1);
    let seeds = first..first + number("DULY_FUZZ_SEEDS", 60);
    if std::env::var_os(CHILD).is_some() {
        bound_memory();
        for seed in seeds {
            // The test harness has begun a line of its own.
            println!("\nseed {seed}");
            run(seed);
        }
        return;
    }
    let test = "format::fuzz::damaged_bytes_are_refused_or_decoded_within_bounds";
    let program = std::env::current_exe().expect("the test knows where it is");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("it starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let begun = || text.lines().filter_map(|line| line.strip_prefix("seed ")?.parse().ok());
    let last: u64 = begun().next_back().expect("it got as far as the first seed");
    assert!(
        output.status.success(),
        "seed {last}: {}: {}\nrepeat with: DULY_FUZZ_SEED={last} DULY_FUZZ_SEEDS=1 cargo test -p \
         duly-store-embedded --lib fuzz",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(last + 1, seeds.end, "every seed was run");
}

#[test]
fn an_unchecked_length_ends_the_fuzz_process() {
    const TEST: &str = "format::fuzz::an_unchecked_length_ends_the_fuzz_process";
    if std::env::var_os(CHILD).is_some() {
        bound_memory();
        let believed = usize::try_from(u32::MAX).expect("64 bits");
        std::hint::black_box(Vec::<u8>::with_capacity(believed));
        return;
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let program = std::env::current_exe().expect("the test knows where it is");
    let mut child = Command::new(program);
    child.args(["--exact", TEST, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = child.output().expect("it starts again");
    assert!(!output.status.success(), "{output:?}");
}
