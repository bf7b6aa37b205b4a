//! Reports the state of a server to the service manager (systemd) that started it.
//!
//! Without one, which is without `NOTIFY_SOCKET` in the environment, nothing is sent.

use sd_notify::NotifyState;

/// Reports that the store is being opened, which can take minutes.
pub(crate) fn opening() {
    notify(&[NotifyState::Status("opening the store; GET /readyz shows the progress")]);
}

/// Reports that the server serves calls, with a sentence for `systemctl status`. Starts to report, several times in the
/// watchdog's time, that the server makes progress: the runtime, and by `makes_progress` the store.
pub(crate) fn ready(status: &str, makes_progress: impl Fn() -> bool + Send + 'static) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    if let Some(timeout) = sd_notify::watchdog_enabled() {
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(timeout / 8);
            loop {
                ticks.tick().await;
                if makes_progress() {
                    notify(&[NotifyState::Watchdog]);
                }
            }
        });
    }
}

/// Reports that the server drains and closes the store.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager was not notified; it may restart the server");
    }
}
