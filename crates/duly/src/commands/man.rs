//! `duly man`: writes the manual pages, one for each command.

use std::{fs, path::PathBuf};

use clap::Command;
use clap_mangen::Man;
use serde_json::json;

use crate::{
    Outcome, cli,
    failure::Failure,
    output::{Printer, text},
};

/// Write the manual pages, one for each command
///
/// Use a directory in which `man` searches: ~/.local/share/man/man1 for yourself,
/// /usr/local/share/man/man1 for all users. Then: man duly, man duly-schedule.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// The end of each page.
const CLOSING: &[u8] = br#".SH "EXIT STATUS"
.TP
0
Done; also when the reader of the output has closed it.
.TP
1
Refused or failed.
.TP
2
The command line is invalid: nothing was sent.
.TP
74
duly serve: the store has ended; the last line of the log has the reason.
.SH ENVIRONMENT
.TP
DULY_SERVER
The server, where \-\-server does not name it.
.TP
NO_COLOR
Any value disables colours.
"#;

/// Runs the command.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    let cannot = |what: &PathBuf, error: std::io::Error| {
        let what = what.display();
        Failure::new(format_args!(
            "cannot write {what}: {error}; name another directory with --dir"
        ))
    };
    let mut pages = Vec::new();
    collect(&mut pages, &cli::shown())?;
    fs::create_dir_all(&args.dir).map_err(|error| cannot(&args.dir, error))?;
    for (file, text) in &pages {
        let path = args.dir.join(file);
        fs::write(&path, text).map_err(|error| cannot(&path, error))?;
    }
    let directory = args.dir.display().to_string();
    let files: Vec<_> = pages.iter().map(|(file, _)| file).collect();
    let document = json!({ "path": directory, "files": files });
    printer.document(&document.to_string(), || {
        let directory = text::lines(&directory);
        Ok(format!("{directory}  {} written: duly.1 and one for each command", files.len()))
    })
}

/// Collects the file name and text of a command's page, and of its subcommands' pages.
fn collect(pages: &mut Vec<(String, String)>, command: &Command) -> Outcome {
    let page = Man::new(command.clone()).source(concat!("duly ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    text.extend_from_slice(CLOSING);
    pages.push((page.get_filename(), ascii(&String::from_utf8_lossy(&text))));
    let mut inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    inner.try_for_each(|inner| collect(pages, inner))
}

/// Escapes characters that are not ASCII: not every `man` knows the encoding of a page.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() { out.push(c) } else { out.push_str(&format!("\\[u{:04X}]", u32::from(c))) }
    }
    out
}
