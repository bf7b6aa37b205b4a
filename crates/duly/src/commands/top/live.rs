//! The screen of `duly top`, updated at every interval, and its keys.
//!
//! The terminal is restored however the screen ends: by a key, a signal or an error.

use std::{
    io::{self, Write as _},
    thread,
    time::Duration,
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, queue,
    terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen},
};
use duly_core::Millis;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::sleep,
};

use super::{
    scrape::{self, Scrape},
    screen::{self, ScreenFrame, Size},
    view::View,
};
use crate::{Outcome, session::Session};

/// Intervals that the keys select.
const STEPS_MS: [u64; 8] = [200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// Most keys that wait to be processed.
const KEYS_MAX: usize = 16;
/// Time between two checks that the screen still exists.
const KEYS_PAUSE: Duration = Duration::from_millis(100);

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Pause,
    Longer,
    Shorter,
    Redraw,
}

/// A terminal in raw mode, restored when dropped.
struct RawTerminal;

impl RawTerminal {
    fn new() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let terminal_guard = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(terminal_guard)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // If the terminal is gone, nothing else can be done.
        execute!(io::stdout(), Show, LeaveAlternateScreen).ok();
        terminal::disable_raw_mode().ok();
    }
}

/// The state of the screen.
struct Live<'a> {
    session: &'a Session,
    server: String,
    version: Option<String>,
    interval_ms: u64,
    is_paused: bool,
    last: Scrape,
    view: Option<View>,
    unreachable_reason: Option<String>,
}

/// Shows the server until a key or a signal ends the screen. `last` is the first poll.
pub(super) async fn run(
    session: &Session,
    interval: Millis,
    version: Option<String>,
    last: Scrape,
) -> Outcome {
    let (mut stop, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let _terminal = RawTerminal::new()?;
    let mut keys = keys();
    let (server, interval_ms) = (session.http.shown(), interval.ms());
    let (is_paused, view, unreachable_reason) = (false, None, None);
    let mut live =
        Live { session, server, version, interval_ms, is_paused, last, view, unreachable_reason };
    loop {
        live.draw()?;
        let key = tokio::select! {
            key = keys.recv() => key.unwrap_or(Key::Quit),
            _ = stop.recv() => Key::Quit,
            _ = hang_up.recv() => Key::Quit,
            () = live.wait_and_poll(), if !live.is_paused => Key::Redraw,
        };
        match key {
            Key::Quit => return Ok(()),
            Key::Pause => live.is_paused = !live.is_paused,
            Key::Longer => live.interval_ms = longer(live.interval_ms),
            Key::Shorter => live.interval_ms = shorter(live.interval_ms),
            Key::Redraw => {}
        }
    }
}

impl Live<'_> {
    /// Waits for the end of the interval, and polls the server. This future may be dropped by a key:
    /// nothing has changed then, and the time since the last poll still counts.
    async fn wait_and_poll(&mut self) {
        let interval = Duration::from_millis(self.interval_ms);
        // If the server is not reachable, the whole interval is waited for.
        let waited = match self.unreachable_reason {
            Some(_) => Duration::ZERO,
            None => self.last.at.elapsed().min(interval),
        };
        sleep(interval - waited).await;
        match scrape::poll(self.session).await {
            Ok(now) => {
                if self.unreachable_reason.is_some() || self.version.is_none() {
                    self.version = scrape::version(self.session).await;
                }
                self.unreachable_reason = None;
                self.view = Some(View::between(&self.last, &now, self.version.clone()));
                self.last = now;
            }
            Err(failure) => self.unreachable_reason = Some(failure.to_string()),
        }
    }

    fn draw(&self) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let every = Millis::from_ms(self.interval_ms);
        let paused = if self.is_paused { "PAUSED  " } else { "" };
        let keys = format!("{paused}every {every}  q quit  p pause  + longer  - shorter");
        let frame = ScreenFrame {
            server: &self.server,
            unreachable_reason: self.unreachable_reason.as_deref(),
            keys: Some(&keys),
        };
        let size = Size { columns: usize::from(columns), rows: usize::from(rows) };
        let mut stdout = io::stdout().lock();
        for (row, line) in (0..).zip(screen::lines(self.view.as_ref(), &frame, size)) {
            let text = self.session.printer.screen.paint(line.0, &line.1);
            queue!(stdout, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            stdout.write_all(text.as_bytes())?;
        }
        queue!(stdout, Clear(ClearType::FromCursorDown))?;
        stdout.flush()
    }
}

fn longer(ms: u64) -> u64 {
    STEPS_MS.into_iter().find(|step| *step > ms).unwrap_or(ms)
}

fn shorter(ms: u64) -> u64 {
    STEPS_MS.into_iter().rev().find(|step| *step < ms).unwrap_or(ms)
}

/// Starts a thread that reads keys, until the receiver is dropped. Returns the receiver.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, keys) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !sender.is_closed() {
            let event = match event::poll(KEYS_PAUSE) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let Ok(event) = event else {
                return;
            };
            if let Some(key) = meaning(&event) {
                // Keys that are typed faster than the screen is drawn are dropped.
                sender.try_send(key).ok();
            }
        }
    });
    keys
}

fn meaning(event: &Event) -> Option<Key> {
    let &Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else {
        return matches!(event, Event::Resize(..)).then_some(Key::Redraw);
    };
    if kind == KeyEventKind::Release {
        return None;
    }
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') => Some(Key::Quit),
        KeyCode::Char('p') => Some(Key::Pause),
        KeyCode::Char('+' | '=') => Some(Key::Longer),
        KeyCode::Char('-') => Some(Key::Shorter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_actions() {
        let typed = |c, modifiers| meaning(&Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers)));
        for (c, key) in
            [('q', Key::Quit), ('p', Key::Pause), ('+', Key::Longer), ('-', Key::Shorter)]
        {
            assert_eq!(typed(c, KeyModifiers::NONE), Some(key));
        }
        assert_eq!(typed('c', KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(typed('c', KeyModifiers::NONE), None);
        assert_eq!(meaning(&Event::Resize(1, 1)), Some(Key::Redraw));
    }

    #[test]
    fn intervals_stay_within_their_bounds() {
        assert_eq!((longer(1_000), shorter(1_000)), (2_000, 500));
        assert_eq!((longer(700), shorter(700)), (1_000, 500));
        assert_eq!((longer(60_000), shorter(200)), (60_000, 200));
    }
}
