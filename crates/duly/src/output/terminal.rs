//! What stdout is: a terminal with a width and colours, or something that wants neither.
//!
//! Colours are for terminals only, and not where `NO_COLOR` is set or the terminal cannot show
//! them. Widths are those of terminals only: what goes into a file or a pipe is never cut for want
//! of room.

use std::{
    env,
    io::{self, IsTerminal},
    os::fd::AsFd,
};

use rustix::termios::tcgetwinsize;

/// Where text goes, and what it may look like there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Whether somebody looks at it.
    is_terminal: bool,
    /// Columns, where they are known.
    width: Option<u16>,
    /// Whether it shows colours.
    has_colours: bool,
}

/// What text means, where colours can show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing special.
    Plain,
    /// A heading or name.
    Strong,
    /// Under way.
    Busy,
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// Over.
    Faint,
}

impl Screen {
    /// What stdout is.
    pub(crate) fn stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// What stderr is.
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

    /// Whether somebody looks at it.
    pub(crate) fn is_terminal(self) -> bool {
        self.is_terminal
    }

    /// Columns, where they are known.
    pub(crate) fn width(self) -> Option<u16> {
        self.width
    }

    /// The text in the colour of its tone.
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

/// <https://no-color.org>: set to anything but nothing, it forbids colours.
fn colours_are_wanted() -> bool {
    let forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

#[cfg(test)]
impl Screen {
    /// A terminal of this width, with colours.
    pub(crate) fn terminal(width: u16) -> Self {
        Self { is_terminal: true, width: Some(width), has_colours: true }
    }
}
