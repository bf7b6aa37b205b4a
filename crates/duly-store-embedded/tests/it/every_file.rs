//! Every file of a data directory and of a backup, damaged, missing, doubled and older: a start, `store check`, a
//! backup and a restore.
//!
//! Nothing that was acknowledged is lost in silence: everything is there, or a report names the file. A check is never
//! clean if the store does not open, or lost something. What a restore accepts is complete.
//!
//! The kinds of files are those that a course of a store makes. The table in `docs/operate/troubleshooting.md` has a
//! row for each, and says of each fault if the store opens.
//!
//! The nightly run takes every file and many places.
//!
//! One fault is not seen: after kill -9, an earlier copy of the last segment looks like a store that ended then.

mod base;
mod fault;
mod log;
mod observe;

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use base::{Base, KILLED, bases};
use duly_store::conformance::is_nightly;
use fault::{Fault, How, cells};
use observe::Observed;

pub(crate) use base::tempdir;

use crate::faulty::kind_of;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/troubleshooting.md");
/// The heading above the table.
const HEADING: &str = "\n## A file is damaged, missing, doubled or older\n";
/// Says in the table that a store does not open.
const REFUSED: &str = "not opened";

/// Returns the cells of the table by the kind of file.
fn table() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(PAGE).expect("the page is committed");
    let section = page.split(HEADING).nth(1).expect("the page has the section");
    let section = section.split("\n## ").next().expect("a section");
    let mut table = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let kinds = cells[0].split('`').skip(1).step_by(2);
        let faults: Vec<String> = cells[1..5].iter().map(|&cell| cell.to_owned()).collect();
        table.extend(kinds.map(|kind| (kind.to_owned(), faults.clone())));
    }
    table
}

/// Returns `true` for the fault that cannot be seen.
fn is_unseen(base: &Base, fault: &Fault) -> bool {
    base.what == KILLED && fault.how == How::Older && kind_of(&fault.name) == "journal/N.log"
}

/// The result of the faults of a directory: the promises that do not hold, and whether a store did not open, by the
/// kind of file and of fault.
#[derive(Default)]
struct Tried {
    broken: Vec<String>,
    is_refused: BTreeMap<(String, How), bool>,
}

fn attack(base: &Base) -> Tried {
    let expected = base.expected();
    let mut tried = Tried::default();
    for fault in cells(base, is_nightly()) {
        let observed = Observed::of(base, &expected, &fault);
        let kind = kind_of(&fault.name);
        *tried.is_refused.entry((kind, fault.how)).or_default() |= observed.start.is_err();
        if !is_unseen(base, &fault) {
            let broken = observed.broken_promises().into_iter();
            tried.broken.extend(broken.map(|what| format!("{}: {fault}: {what}", base.what)));
        }
    }
    tried
}

#[test]
fn p1_no_fault_of_a_file_loses_anything_in_silence() {
    let bases = bases();
    let tried = thread::scope(|scope| {
        let running: Vec<_> = bases.iter().map(|base| scope.spawn(|| attack(base))).collect();
        running.into_iter().map(|it| it.join().expect("no panic")).collect::<Vec<_>>()
    });
    let broken: Vec<String> = tried.iter().flat_map(|tried| tried.broken.clone()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));

    let table = table();
    let kinds: BTreeSet<String> =
        bases.iter().flat_map(|base| base.files.keys()).map(|name| kind_of(name)).collect();
    assert_eq!(kinds, table.keys().cloned().collect(), "each kind of file has a row");
    let mut is_refused = BTreeMap::new();
    for ((kind, how), refused) in tried.into_iter().flat_map(|tried| tried.is_refused) {
        *is_refused.entry((kind, how)).or_insert(false) |= refused;
    }
    for ((kind, how), refused) in is_refused {
        let cell = &table[&kind][how as usize];
        // Fewer faults meet fewer refusals.
        let is_right =
            if is_nightly() || refused { cell.contains(REFUSED) == refused } else { true };
        assert!(is_right, "{kind} {how:?}, refused: {refused}; the table says: {cell}");
    }
}
