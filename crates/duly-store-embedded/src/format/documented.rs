//! Keeps the worked dump in `docs/internals/disk-format.md` equal to the output of the encoder.
//!
//! `DULY_WRITE_GOLDEN=1` writes the dump into the page instead of comparing it.

use std::{fmt::Write, path::Path};

use duly_core::{Timestamp, tombstone::Tombstone};

use crate::{
    format::record::Record,
    journal::fixture::{FIRST, Fixture, namespace, pending_with},
    manifest,
};

const BEGIN: &str = "<!-- dump: written by the tests -->\n```text\n";
const END: &str = "```\n<!-- end of dump -->";

/// The parts of a file in order: number of bytes, and meaning.
type Parts = Vec<(usize, &'static str)>;

const MANIFEST_PARTS: &[(usize, &str)] = &[
    (8, "magic \"DULYMAN\\n\""),
    (4, "version"),
    (4, "reader_min"),
    (8, "features"),
    (16, "store"),
    (16, "hash_key"),
    (8, "epoch"),
    (8, "created_at"),
    (4, "crc"),
];

const SEGMENT_PARTS: &[(usize, &str)] = &[
    (8, "SEGMENT magic \"DULYJRN\\n\""),
    (4, "version"),
    (4, "crc"),
    (16, "store"),
    (8, "sequence"),
    (8, "base_lsn"),
    (8, "length 65536"),
    (8, "reserved"),
];

const FRAME_PARTS: &[(usize, &str)] = &[
    (4, "FRAME magic \"DLYf\""),
    (4, "length"),
    (4, "header_crc, seeded"),
    (4, "crc of the records, seeded"),
    (8, "lsn"),
    (8, "steady"),
    (4, "epoch"),
    (4, "count"),
    (4, "lag"),
    (4, "reserved"),
];

const NAMESPACE_PARTS: &[(usize, &str)] = &[
    (4, "RECORD crc"),
    (4, "length"),
    (4, "kind 6: namespace; cause; reserved"),
    (4, "namespace number 1"),
    (8, "name: 4 bytes, \"shop\""),
    (1, "paused"),
    (8, "created_at"),
    (8, "updated_at"),
    (16, "totals: scheduled, fired"),
    (16, "delivered, failed"),
    (16, "cancelled, rescheduled"),
    (8, "dead"),
    (6, "field 1 destination: pull"),
    (10, "field 2 retry: exponential, max_attempts 16"),
    (16, "min_backoff, max_backoff"),
    (16, "multiplier 2.0, jitter 0.2"),
    (13, "field 3 lease"),
    (13, "field 4 retention"),
    (9, "field 5 weight"),
    (13, "field 7 limits: schedules, deliveries a second"),
    (4, "max_in_flight"),
    (16, "max_pending, max_payload_bytes"),
    (16, "max_delay, max_dead"),
    (8, "max_retained"),
    (1, "end of fields"),
    (2, "padding"),
];

const PENDING_PARTS: &[(usize, &str)] = &[
    (4, "RECORD crc"),
    (4, "length"),
    (4, "kind 1: pending; cause 1: created; reserved"),
    (4, "namespace number 1"),
    (8, "due_at"),
    (8, "created_at"),
    (8, "incarnation 7"),
    (16, "request_hash"),
    (8, "revision 1, occurrence 0"),
    (8, "attempts 0, budget_from 0"),
    (1, "flags"),
    (6, "id: 2 bytes, \"t1\""),
    (6, "field 1 payload: 6 bytes; form 3: binary"),
    (5, "\"hello\""),
    (1, "end of fields"),
    (5, "padding"),
];

const ENDED_PARTS: &[(usize, &str)] = &[
    (4, "RECORD crc"),
    (4, "length"),
    (4, "kind 3: ended; cause; reserved"),
    (4, "namespace number 1"),
    (8, "expires_at"),
    (4, "number 0"),
    (8, "ended_at"),
    (8, "due_at"),
    (4, "attempts"),
    (2, "ended 2: cancelled; flags"),
    (6, "id: 2 bytes, \"t1\""),
    (1, "end of fields"),
    (7, "padding"),
];

/// Two commits: a namespace and a timer; then the cancellation of the timer.
fn example() -> Fixture {
    let mut fixture = Fixture::new(1);
    fixture.manifest.write(&fixture.disk).expect("written");
    fixture.append(&namespace("shop"));
    let pending = pending_with("t1", b"hello".to_vec());
    fixture.append(&pending);
    fixture.sync();
    let Record::Pending(_, timer) = pending else {
        panic!("a pending timer");
    };
    let ended_at = Timestamp::saturating_from_unix_ms(1_900_000_030_000);
    let tombstone = Tombstone::cancelled_without_record(timer.id, timer.due_at, ended_at);
    let expires_at = Timestamp::from_unix_ms(1_900_086_430_000);
    fixture.append(&Record::Ended { tombstone: Box::new(tombstone), expires_at, number: 0 });
    fixture.sync();
    fixture
}

/// Formats lines of at most 16 bytes: offset, bytes, meaning.
fn dump(bytes: &[u8], parts: &Parts) -> String {
    let mut text = String::new();
    let mut at = 0_usize;
    for (length, meaning) in parts {
        let begins_a_unit = meaning.starts_with("RECORD") || meaning.starts_with("FRAME");
        let aligned = at.is_multiple_of(16);
        assert!(aligned || !begins_a_unit, "{meaning} at {at}: a length before it is wrong");
        for (line, chunk) in bytes[at..at + length].chunks(16).enumerate() {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let meaning = if line == 0 { meaning } else { "" };
            let line = format!("{:06x}  {:<47}  {meaning}", at + line * 16, hex.join(" "));
            writeln!(text, "{}", line.trim_end()).expect("a String takes everything");
        }
        at += length;
    }
    assert_eq!(at, bytes.len(), "every byte is explained");
    text
}

fn documented_dump() -> String {
    let fixture = example();
    let manifest = fixture.disk.read_file(manifest::NAME);
    let segment = fixture.disk.read_file(FIRST);
    let used = segment.iter().rposition(|byte| *byte != 0).expect("frames") + 1;
    let used = used.next_multiple_of(16);
    let segment_parts =
        [SEGMENT_PARTS, FRAME_PARTS, NAMESPACE_PARTS, PENDING_PARTS, FRAME_PARTS, ENDED_PARTS];
    let mut text = dump(&manifest, &MANIFEST_PARTS.to_vec());
    text.push('\n');
    text += &dump(&segment[..used], &segment_parts.concat());
    writeln!(text, "{used:06x}  zeros up to byte {}", segment.len()).expect("a String");
    text
}

#[test]
fn the_documented_dump_equals_the_encoder_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/disk-format.md");
    let page = std::fs::read_to_string(&path).expect("the page is committed");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the dump");
    let (dump, after) = rest.split_once(END).expect("the dump ends");
    let written = documented_dump();
    if std::env::var_os("DULY_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{written}{END}{after}")).expect("written");
    } else {
        let repeat = "DULY_WRITE_GOLDEN=1 cargo test -p duly-store-embedded --lib documented";
        assert!(dump == written, "the dump has drifted; look at the format, then run: {repeat}");
    }
}
