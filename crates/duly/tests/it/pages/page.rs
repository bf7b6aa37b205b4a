//! A page as its text and its `console` blocks.

/// A part of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    /// A line of anything else.
    Line(String),
    /// What is typed between two fences, and what it prints.
    Console(Vec<Step>),
}

/// A command and its output.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    /// Where it stands, from 1.
    pub(super) line: usize,
    /// What is typed behind `$ `, on as many lines as end with a backslash and one more.
    pub(super) command: String,
    /// What the page shows.
    pub(super) shown: Vec<String>,
}

impl Step {
    /// Whether the next line of the page belongs to what is typed.
    fn is_begun(&self) -> bool {
        self.shown.is_empty() && self.command.ends_with('\\')
    }
}

/// Takes a page apart.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, _)) = lines.next() {
        if line != "```console" {
            parts.push(Part::Line(line.to_owned()));
            continue;
        }
        let mut steps: Vec<Step> = Vec::new();
        for (line, number) in lines.by_ref().take_while(|(line, _)| *line != "```") {
            let begun = steps.last_mut().filter(|step| step.is_begun());
            if let Some(step) = begun {
                step.command = format!("{}\n{line}", step.command);
                continue;
            }
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    let command = command.to_owned();
                    steps.push(Step { line: number, command, shown: Vec::new() });
                }
                (None, Some(step)) => step.shown.push(line.to_owned()),
                (None, None) => panic!("line {number}: a console block begins with a command"),
            }
        }
        parts.push(Part::Console(steps));
    }
    parts
}

/// Puts a page together again.
pub(super) fn text(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for part in parts {
        match part {
            Part::Line(other) => line(other),
            Part::Console(steps) => {
                line("```console");
                for step in steps {
                    line(&format!("$ {}", step.command));
                    step.shown.iter().for_each(|shown| line(shown));
                }
                line("```");
            }
        }
    }
    text
}

#[test]
fn a_page_is_taken_apart_and_put_together() {
    let page = "# A page\n\n```console\n$ one\nprints\nthis\\\n$ two \\\n  more\n```\n\n\
                ```sh\n$ none\n```\n";
    let parts = parts(page);
    let step = |line, command: &str, shown: &[&str]| Step {
        line,
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    let console =
        Part::Console(vec![step(4, "one", &["prints", "this\\"]), step(7, "two \\\n  more", &[])]);
    assert_eq!(parts[2], console);
    assert_eq!(parts.len(), 7, "{parts:?}");
    assert_eq!(text(&parts), page);
}
