//! Runs the suite on the reference store, and checks the list of cases.

use std::{collections::BTreeSet, fs, path::Path};

use super::{CaseResult, ManualClock, MemoryHarness, Report, block_on, cases, run_all};

crate::conformance_tests!(|| MemoryHarness::new(1));

#[test]
fn the_whole_run_agrees_with_the_single_tests() {
    let Report { passed, skipped, failed } = run_all(|| MemoryHarness::new(2));
    let of_nodes = cases().into_iter().filter(|case| case.topic == "deployment");
    let of_nodes: Vec<_> = of_nodes.map(|case| case.name).collect();
    assert_eq!((failed, &skipped), (vec![], &of_nodes));
    assert_eq!(passed.len() + skipped.len(), cases().len());
}

#[test]
fn a_memory_store_can_be_shared_by_nodes() {
    for case in cases().into_iter().filter(|case| case.topic == "deployment") {
        let ran = block_on(async {
            let harness = MemoryHarness::shared(ManualClock::default(), 3);
            case.run(&harness).await
        });
        assert_eq!(ran, CaseResult::Whole, "{case:?}");
    }
}

#[test]
fn names_are_unique_and_say_what_they_prove() {
    let all = cases();
    let names: BTreeSet<&str> = all.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), all.len());
    for case in &all {
        assert!(!case.proves().is_empty(), "{case:?}");
    }
    let proved: BTreeSet<&str> = all.iter().flat_map(super::Case::proves).collect();
    for promise in 1..=12 {
        assert!(proved.contains(format!("p{promise}").as_str()), "nothing proves p{promise}");
    }
}

#[test]
fn every_case_that_is_written_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let listed: BTreeSet<String> =
        cases().iter().map(|case| format!("{}::{}", case.topic, case.name)).collect();
    let mut written = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let topic = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap_or_default();
        for name in text.split("pub(super) async fn ").skip(1) {
            let name: String =
                name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let numbered =
                name.starts_with(['p', 't']) && name[1..].starts_with(|c: char| c.is_ascii_digit());
            if numbered {
                written.insert(format!("{topic}::{name}"));
            }
        }
    }
    assert_eq!(written, listed);
}
