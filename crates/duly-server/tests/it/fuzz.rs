//! Damaged calls: they cause no fault, and a refused call changes nothing.
//!
//! Every call of the OpenAPI document is built as a valid call and then damaged:
//!
//! 1. Fields of its body are removed, or get another type, another unit, a value at the edge of the
//!    allowed range, or an array in place of an object.
//! 2. Its text is cut off or gets foreign bytes.
//! 3. Parameters of its query are unknown, repeated, broken or long.
//! 4. Namespace, id, path or method is another one.
//! 5. Headers get other values, are repeated, or are removed.
//!
//! A refused call leaves all namespaces, timers, counts and backups as they were. `PROPTEST_CASES` makes
//! the test longer, and `PROPTEST_RNG_SEED` repeats it.

mod arrays;
mod body;
mod calls;
mod damage;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
};

use duly_store::conformance::ManualClock;
use duly_store_embedded::{EmbeddedStore, Options, disk::RealDisk};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use self::{
    calls::{Call, CallInputs, NDJSON, calls},
    damage::{Damage, Draft, damage},
};
use crate::{
    backup::backups_of,
    bench::{Answer, Bench},
};

/// Calls before the compared state is of a fresh server again.
const CALLS: usize = 12;
/// Calls for each row and kind of damage: a long enough run notices one that is never used.
const CALLS_OF_EACH: usize = 8;

/// The store of the backups, and the directory above them.
struct BackedUpStore {
    directory: tempfile::TempDir,
    store: Arc<EmbeddedStore>,
}

impl BackedUpStore {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open_or_create(directory.path().join("data")).unwrap();
        let options =
            Options { min_free_bytes: Some(0), min_free_percent: 0, ..Options::default() };
        let options = Options { segment_bytes: 64 * 1024, ..options };
        let clock = Arc::new(ManualClock::default());
        let store = EmbeddedStore::open(Arc::new(disk), options, clock, &mut |_| {}).unwrap();
        Self { directory, store: Arc::new(store) }
    }

    fn below(&self) -> PathBuf {
        self.directory.path().join("backups")
    }

    /// Returns a fresh server, without backups.
    fn bench(&self) -> Bench {
        if self.below().exists() {
            std::fs::remove_dir_all(self.below()).unwrap();
        }
        Bench::backing_up(backups_of(self.below(), Arc::clone(&self.store)))
    }

    async fn inputs(&self, bench: &Bench) -> CallInputs {
        CallInputs::of(bench, self.below().join("one").to_str().unwrap().into()).await
    }

    /// Returns all state that a refused call could have changed.
    async fn picture(&self, bench: &Bench) -> String {
        fn files(path: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(path).into_iter().flatten() {
                let path = entry.unwrap().path();
                files(&path, found);
                found.push(path);
            }
        }
        let mut found = Vec::new();
        files(&self.below(), &mut found);
        found.sort();
        format!("{} {found:?}", bench.picture().await)
    }
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    calls: usize,
    /// Responses by the first digit of their status.
    answers: [usize; 6],
    refused: usize,
    /// Damage to bodies, queries, paths, headers, methods.
    damage: [usize; 5],
    rows: Vec<usize>,
}

impl Tally {
    fn add(&mut self, row: usize, damage: &[Damage], answer: &Answer) {
        self.calls += 1;
        self.answers[usize::from(answer.status.as_u16() / 100)] += 1;
        self.refused += usize::from(answer.status.as_u16() >= 400);
        self.rows.resize(self.rows.len().max(row + 1), 0);
        self.rows[row] += 1;
        for damage in damage {
            let kind = match damage {
                Damage::Body(_) => 0,
                Damage::Query(_) => 1,
                Damage::Path(_) => 2,
                Damage::Header(..) => 3,
                Damage::Method(_) => 4,
            };
            self.damage[kind] += 1;
        }
    }

    fn shown(&self) -> String {
        let [_, _, ok, moved, refused, fault] = self.answers;
        let [body, query, path, header, method] = self.damage;
        format!(
            "fuzz: {} calls of {} kinds; answers 2xx {ok}, 3xx {moved}, 4xx {refused}, 5xx {fault}; \
             damaged body {body}, query {query}, path {path}, header {header}, method {method}; {} \
             refused, none of which changed anything",
            self.calls,
            self.rows.len(),
            self.refused
        )
    }
}

/// Returns `true` if no part of the call was carried out.
fn is_refused(answer: &Answer) -> bool {
    let are_lines = answer.headers.get("content-type").is_some_and(|kind| kind == NDJSON);
    let is_refusal = |line: &str| {
        ["{\"line\":", "{\"summary\":", "{\"stopped\":"].iter().any(|it| line.starts_with(it))
            && (!line.starts_with("{\"line\":") || line.contains("\"error\":{"))
    };
    answer.status.as_u16() >= 400
        || are_lines && !answer.text.contains("\"summary\"") && answer.text.lines().all(is_refusal)
}

/// Checks a response; an error describes its fault.
fn judge(answer: &Answer) -> Result<(), String> {
    let status = answer.status.as_u16();
    if status >= 500 {
        return Err("a fault".into());
    }
    // Results of many operations have their own codes.
    for code in ["internal", "unavailable", "aborted", "deadline_exceeded"] {
        if answer.text.contains(&format!("\"code\":\"{code}\"")) {
            return Err(format!("a fault inside: {code}"));
        }
    }
    if status < 400 {
        return Ok(());
    }
    let problem = answer.json();
    for member in ["type", "title", "detail", "code"] {
        if problem[member].as_str().is_none_or(str::is_empty) {
            return Err(format!("no {member}"));
        }
    }
    Ok(())
}

/// Sends one call; an error describes its fault.
async fn attack(
    backed: &BackedUpStore,
    bench: &Bench,
    call: &Call,
    damage: &[Damage],
) -> Result<Answer, String> {
    let mut draft = Draft::of(call);
    damage.iter().for_each(|damage| draft.suffer(damage));
    let what = draft.shown();
    let before = backed.picture(bench).await;
    let answer = bench.send(draft.request()).await;
    judge(&answer)
        .map_err(|wrong| format!("{what}: {wrong}: {} {}", answer.status, answer.text))?;
    if is_refused(&answer) {
        let after = backed.picture(bench).await;
        if after != before {
            let text = &answer.text;
            return Err(format!(
                "{what} was refused and changed something: {text}\n{before}\n{after}"
            ));
        }
    }
    Ok(answer)
}

#[test]
fn damaged_calls_cause_no_fault_and_no_unreported_change() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: Config::default().cases.min(100_000),
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let backed = BackedUpStore::new();
    let rows = runtime.block_on(async { calls(&backed.inputs(&backed.bench()).await).len() });
    let one = (0..rows, proptest::collection::vec(damage(), 1..3));
    let many = proptest::collection::vec(one, 1..CALLS);
    let tally = RefCell::new(Tally::default());
    let ran = runner.run(&many, |sequence| {
        runtime.block_on(async {
            let bench = backed.bench();
            let calls = calls(&backed.inputs(&bench).await);
            for (row, damage) in &sequence {
                let answer = attack(&backed, &bench, &calls[*row], damage).await;
                tally.borrow_mut().add(*row, damage, &answer.map_err(TestCaseError::fail)?);
            }
            Ok(())
        })
    });
    if let Err(error) = ran {
        panic!("seed {seed} (PROPTEST_RNG_SEED repeats it): {error}");
    }
    let tally = tally.into_inner();
    println!("{}", tally.shown());
    if tally.calls > rows * CALLS_OF_EACH * 4 {
        let each =
            tally.rows.iter().chain(&tally.damage).chain([&tally.answers[2], &tally.answers[4]]);
        assert!(tally.rows.len() == rows && each.min() >= Some(&CALLS_OF_EACH), "{tally:?}");
    }
}

#[tokio::test]
async fn undamaged_calls_are_accepted() {
    let backed = BackedUpStore::new();
    let total = calls(&backed.inputs(&backed.bench()).await).len();
    for row in 0..total {
        let bench = backed.bench();
        let call = &calls(&backed.inputs(&bench).await)[row];
        let answer = attack(&backed, &bench, call, &[]).await.unwrap();
        // The reference store is not shared: the server reads the body, and then there is nothing to
        // repair.
        if call.path == "/v1/store/repair" {
            answer.problem("permission_denied");
        } else if call.path.ends_with("/forget") {
            // The timer is pending.
            answer.problem("already_exists");
        } else if ["/v1/keys", "/v1/tenants"].iter().any(|begin| call.path.starts_with(begin)) {
            // This server requires no keys: no one may create the first, and tenants need keys.
            assert!(!answer.status.is_server_error(), "{call:?}: {}", answer.text);
        } else {
            assert!(answer.status.is_success(), "{call:?}: {}", answer.text);
        }
    }
}
