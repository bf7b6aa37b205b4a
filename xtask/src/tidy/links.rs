//! Checks that every link from a page to a file of this checkout has an existing target, and an existing
//! heading.
//!
//! Links to other sites are not checked. Text in code fences or backticks is not read as a link.

use std::collections::BTreeSet;

use super::Complaint;
use super::tree::File;

/// Complains of each broken link. `paths` are all existing files and folders.
pub(super) fn check(pages: &[File], paths: &BTreeSet<String>) -> Vec<Complaint> {
    let mut found = Vec::new();
    for page in pages {
        for (line, number) in text_lines(&page.text) {
            for target in targets(&without_code(line)) {
                if let Some(text) = check_link(page, &target, pages, paths) {
                    found.push(Complaint::at(&page.path, number, text));
                }
            }
        }
    }
    found
}

/// Returns the fault of a link, if it has one.
fn check_link(
    page: &File,
    target: &str,
    pages: &[File],
    paths: &BTreeSet<String>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { Some(page.path.clone()) } else { resolved(&page.path, path) };
    let Some(path) = path.filter(|path| paths.contains(path)) else {
        return Some(format!("the target of the link `{target}` does not exist"));
    };
    let to = pages.iter().find(|other| other.path == path)?;
    if anchor.is_empty() || headings(&to.text).contains(anchor) {
        return None;
    }
    Some(format!("the link `{target}` names a heading that `{path}` does not have"))
}

/// Returns the path of a link from the root, or `None` if it leads out of the checkout.
fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the lines outside code fences, each with its number.
pub(super) fn text_lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut is_fenced = false;
    text.lines().zip(1..).filter(move |(line, _)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Removes the text between backticks from a line.
fn without_code(line: &str) -> String {
    let pieces = line.split('`').step_by(2);
    pieces.collect()
}

/// Returns the targets of a line's links: `[text](target "title")`.
fn targets(line: &str) -> Vec<String> {
    let behind = line.split("](").skip(1);
    behind
        .filter_map(|rest| {
            let target = rest.split(')').next()?.split_whitespace().next()?;
            Some(target.to_owned())
        })
        .collect()
}

/// Returns the anchors of a page's headings: lower case, spaces as hyphens, no other punctuation. A
/// repeated heading gets a number.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (line, _) in text_lines(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let title = title.trim().to_lowercase();
        let anchor: String =
            title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free =
            std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}
