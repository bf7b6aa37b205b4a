use super::*;

fn letters() -> Table {
    let headings = ["id", "left out", "attempts", "error"];
    let mut table = Table::new(&headings).numbers(&["attempts"]).cut("error");
    let row = |id: &str, attempts: &str, error: &str| [id, "", attempts, error].map(str::to_owned);
    table.row(Tone::Bad, row("order:1", "16", "503 from a receiver with a great deal to say"));
    table.row(Tone::Plain, row("größe/2", "3", "a\u{1b}[2Jb\nc"));
    table
}

#[test]
fn columns_are_aligned_and_cells_escaped() {
    let text = letters().text(OutputStream::default());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            " ID       ATTEMPTS  ERROR",
            " order:1        16  503 from a receiver with a great deal to say",
            " größe/2         3  a\\u{1b}[2Jb\\nc",
        ]
    );
}

#[test]
fn cells_are_cut_on_a_terminal_alone() {
    let mut table = Table::new(&["error"]).cut("error");
    table.row(Tone::Plain, [String::from_iter(['x'; 500])]);
    assert!(table.text(OutputStream::default()).contains(&"x".repeat(500)));
    assert!(table.text(OutputStream::terminal(1_000)).contains(&format!("{}…", "x".repeat(60))));
}

#[test]
fn on_a_terminal_a_row_is_one_line_and_ids_are_whole() {
    let text = letters().text(OutputStream::terminal(36));
    let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    let lines: Vec<_> = plain.lines().collect();
    assert_eq!(lines.len(), 3, "{plain}");
    assert!(lines.iter().all(|line| line.chars().count() <= 36), "{plain}");
    assert!(lines[1].starts_with(" order:1 ") && lines[1].ends_with('…'), "{plain}");
    assert!(text.lines().next().is_some_and(|line| line.starts_with("\u{1b}[1m")), "{text}");
    assert!(text.contains("\u{1b}[31m order:1"), "{text}");
}

#[test]
fn long_values_continue_on_the_next_line() {
    let pairs =
        || [("id", "x"), ("payload", "one two three four")].map(|(a, b)| (a.into(), b.into()));
    let text = of_pairs(OutputStream::default(), pairs());
    assert_eq!(text, " id       x\n payload  one two three four\n");
    let text = of_pairs(OutputStream::terminal(22), pairs());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() > 2 && lines[1].contains("\u{1b}[1m payload\u{1b}[0m"), "{text:?}");
    assert!(lines[2].starts_with("          "), "{text:?}");
}
