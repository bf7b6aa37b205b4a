//! The properties of stdout and stderr: a terminal with a width and colours, or a pipe or file without.
//!
//! 1. Colours are used on terminals only, unless `NO_COLOR` is set or the terminal cannot show them.
//! 2. Only a terminal has a width. Output to a file or pipe is never cut.

use std::{
    env,
    io::{self, IsTerminal},
    os::fd::AsFd,
};

use rustix::termios::tcgetwinsize;

/// The properties of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputStream {
    /// `true`: the output is a terminal.
    pub(crate) is_terminal: bool,
    /// Number of columns, if known.
    pub(crate) width: Option<u16>,
    /// `true`: the terminal shows colours.
    has_colours: bool,
}

/// The meaning of a text, which selects its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing special.
    Plain,
    /// A heading or name.
    Strong,
    /// Under way.
    Busy,
    /// In order.
    Good,
    /// Needs attention.
    Warning,
    /// An error.
    Bad,
    /// Ended.
    Faint,
}

impl OutputStream {
    /// Returns the properties of stdout.
    pub(crate) fn stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// Returns the properties of stderr.
    pub(crate) fn stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(file: &(impl AsFd + IsTerminal)) -> Self {
        let is_terminal = file.is_terminal();
        let columns = || tcgetwinsize(file).ok().map(|size| size.ws_col);
        Self {
            is_terminal,
            width: if is_terminal { columns().filter(|columns| *columns > 0) } else { None },
            has_colours: is_terminal && colours_are_wanted(),
        }
    }

    /// Returns the length at which a text is cut: this one on a terminal, none elsewhere.
    pub(crate) const fn cut_at(self, chars_max: usize) -> usize {
        if self.is_terminal { chars_max } else { usize::MAX }
    }

    /// Returns the text in the colour of its tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Strong => "1",
            Tone::Busy => "36",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.has_colours && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns `true` unless colours are disabled. See <https://no-color.org>: any value but the empty one
/// disables them.
fn colours_are_wanted() -> bool {
    let forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

#[cfg(test)]
impl OutputStream {
    /// Returns a terminal of this width, with colours.
    pub(crate) fn terminal(width: u16) -> Self {
        Self { is_terminal: true, width: Some(width), has_colours: true }
    }
}
