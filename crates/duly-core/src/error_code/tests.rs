use std::fs;

use super::*;

/// Names of the gRPC statuses, by number.
const GRPC_NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The page that describes the remedy for every code.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/errors.md");
    fs::read_to_string(path).expect("docs/operate/errors.md is committed")
}

/// The part of the page about codes: headings and the text below them.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let codes = page.split("\n## ").find(|part| part.starts_with("Error codes\n")).unwrap();
    let sections = codes.split("\n### ").skip(1);
    sections.map(|section| section.split_once('\n').unwrap()).collect()
}

#[test]
fn error_codes_and_page_sections_match() {
    let page = page();
    let sections = sections(&page);
    let headings: Vec<_> = sections.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let codes = Code::ALL.map(|code| format!("`{}`", code.as_str()));
    assert_eq!(headings, codes);
    for (code, (_, text)) in Code::ALL.iter().zip(sections) {
        let status = format!("\nHTTP {}. ", code.http_status());
        assert!(text.starts_with(&status), "{}: {text}", code.as_str());
        assert!(text.contains("\nDo: ") || text.contains("| what to do |"), "{}", code.as_str());
    }
}

#[test]
fn code_overview_is_complete_and_its_links_resolve() {
    let page = page();
    for code in Code::ALL {
        let (name, status) = (code.as_str(), code.http_status());
        let grpc = GRPC_NAMES[usize::try_from(code.grpc_status()).unwrap()];
        let row = format!("| [`{name}`](#{name}) | {status} | {grpc} | ");
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
}
