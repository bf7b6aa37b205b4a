//! A page as its text and its `console` blocks.

/// A part of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    /// A line outside of console blocks.
    Line(String),
    /// The commands between two fences, with their output.
    Console(Vec<Step>),
}

/// A command and its output.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    /// Line number, from 1.
    pub(super) line: usize,
    /// The command after `$ `, continued on the next line after a backslash.
    pub(super) command: String,
    /// The output in the page.
    pub(super) shown: Vec<String>,
}

impl Step {
    /// Returns `true` if the next line of the page continues the command.
    fn is_begun(&self) -> bool {
        self.shown.is_empty() && self.command.ends_with('\\')
    }
}

/// Splits a page into its parts.
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

/// Joins the parts of a page.
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
