use std::fs;

use super::*;

/// Returns a page of `docs/`.
fn page(path: &str) -> String {
    let path = format!("{}/../../docs/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The part of the page about codes: headings and the text below them.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let codes = page.split("\n## ").find(|part| part.starts_with("Error codes\n")).unwrap();
    let sections = codes.split("\n### ").skip(1);
    sections.map(|section| section.split_once('\n').unwrap()).collect()
}

#[test]
fn error_codes_and_page_sections_match() {
    let page = page("operate/errors.md");
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
fn http_page_has_one_row_for_each_code_and_rule() {
    let page = page("reference/http.md");
    let codes = page.split("\n## ").find(|part| part.starts_with("Codes\n")).unwrap();
    for code in Code::ALL {
        let (name, status) = (code.as_str(), code.http_status());
        let (grpc, repeat) = (code.grpc().as_str(), code.repeat().as_str());
        let row = format!(
            "\n| [`{name}`](../operate/errors.md#{name}) | {status} | {grpc} | `{repeat}` | {} |\n",
            code.title()
        );
        assert_eq!(codes.matches(&row).count(), 1, "{row}");
    }
    assert_eq!(codes.matches("\n| [`").count(), Code::ALL.len());
    let rules: Vec<_> = codes.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let names: Vec<_> = rules.iter().map(|row| row.split('`').next().unwrap()).collect();
    assert_eq!(names, Repeat::NAMES);
}

#[test]
fn grpc_statuses_have_their_numbers() {
    for (status, number) in [(Grpc::Ok, 0), (Grpc::NotFound, 5), (Grpc::Unauthenticated, 16)] {
        assert_eq!(status as i32, number);
    }
    assert_eq!(Code::Unavailable.grpc_status(), 14);
}
