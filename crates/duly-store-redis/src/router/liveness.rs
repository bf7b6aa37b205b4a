//! Liveness of one server.
//!
//! A server that hangs (a stopped process, lost packets, a blocked disk) keeps its connections open, so each
//! call would wait for its own time-out. A probe finds such a server once, for all calls:
//!
//! 1. The probe asks the server for its time, over a connection of its own, when a call takes long and when
//!    the health is polled. A `WAIT` or a long pipeline of another connection does not delay the probe.
//! 2. A server that does not reply for the silence time-out is *silent*. The calls that wait for the server
//!    end, and later calls are refused at once, until the server replies again.
//! 3. A reply on any connection counts, and time during which this process did not run does not.
//! 4. One connection may get no reply while the probe does: its packets are dropped, or the server withholds the
//!    call. Each call has a bound of its own (`punctual.rs`). After that its connection is replaced, and the
//!    master is *suspected*: a trial finds out if it withholds changes from all (`faults.rs`).

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisError, RedisResult, cmd};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::AbortHandle,
    time,
};

use super::MasterFault;
use crate::{
    address::Address,
    connect::SharedConnection,
    punctual::{CONNECT, punctually},
    skew::ClockReading,
};

/// Part of the silence time-out after which a call has the probe ask, and again each time it has passed.
const ASK_PARTS: u32 = 8;
/// Bound of the client's own time-outs; the silence time-out ends a wait before.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The latest result of the probe.
#[derive(Debug, Clone)]
pub(crate) enum Contact {
    /// The first question is under way.
    Pending,
    Replied(ClockReading),
    Failed(String),
    /// An error is the reply.
    Refused(MasterFault),
    /// The probe gets no reply, and calls do.
    Unanswered,
    Silent(Silence),
}

/// Error: the server does not reply, and calls to it wait no longer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    since: Instant,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.since.elapsed().as_secs_f64();
        write!(f, "no reply for {seconds:.1} s; calls are not sent to it until it replies")
    }
}

impl From<Silence> for RedisError {
    fn from(silence: Silence) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, silence.to_string()).into()
    }
}

/// The probe of one server. Dropping it ends the probe.
#[derive(Debug)]
pub(super) struct Liveness {
    contact: watch::Receiver<Contact>,
    ask_now: Arc<Notify>,
    /// Time after which a call has the probe ask.
    ask_after: Duration,
    silences: Arc<AtomicU64>,
    last_reply: LastReply,
    probe: AbortHandle,
}

/// Time of the last reply of a server on any connection; at first, time of the start.
type LastReply = Arc<Mutex<Instant>>;

impl Drop for Liveness {
    fn drop(&mut self) {
        self.probe.abort();
    }
}

impl Liveness {
    /// Starts the probe of a server that is silent after `silence_timeout` without a reply.
    pub(super) fn start(
        runtime: &Handle,
        server: String,
        address: Address,
        silence_timeout: Duration,
    ) -> Self {
        let (sender, contact) = watch::channel(Contact::Pending);
        let (silences, ask_now) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let last_reply = Arc::new(Mutex::new(Instant::now()));
        let probe = Probe {
            server,
            silence_timeout,
            sender,
            ask_now: Arc::clone(&ask_now),
            silences: Arc::clone(&silences),
            last_reply: Arc::clone(&last_reply),
        };
        let probe = runtime.spawn(probe.run(address)).abort_handle();
        let ask_after = silence_timeout / ASK_PARTS;
        Self { contact, ask_now, ask_after, silences, last_reply, probe }
    }

    /// Asks the server now, and returns the result; of a silent server the latest one.
    pub(super) async fn contact(&self) -> Contact {
        let mut contact = self.contact.clone();
        contact.mark_unchanged();
        self.ask_now.notify_one();
        if !self.is_silent() && contact.changed().await.is_err() {
            // The runtime ends.
            return Contact::Failed("the probe has ended".to_owned());
        }
        contact.borrow().clone()
    }

    /// Returns `true` if the server is silent.
    pub(super) fn is_silent(&self) -> bool {
        matches!(*self.contact.borrow(), Contact::Silent(_))
    }

    /// Notes that the server has replied on a connection.
    pub(super) fn note_reply(&self) {
        *self.last_reply.lock() = Instant::now();
    }

    /// Returns how often the server has become silent. A connection from before a silence may be dead.
    pub(super) fn silences(&self) -> u64 {
        self.silences.load(Ordering::Acquire)
    }

    /// Waits for `work` unless the server is silent, or becomes silent.
    ///
    /// # Errors
    /// The silence; `work` may have been executed.
    pub(super) async fn unless_silent<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Silence> {
        let mut contact = self.contact.clone();
        let silent = async {
            let is_silent = |contact: &Contact| matches!(contact, Contact::Silent(_));
            let found = contact.wait_for(is_silent).await.map(|contact| contact.clone());
            match found {
                Ok(Contact::Silent(silence)) => silence,
                // The runtime ends.
                _ => std::future::pending().await,
            }
        };
        let ask = async {
            loop {
                time::sleep(self.ask_after).await;
                self.ask_now.notify_one();
            }
        };
        tokio::select! {
            biased;
            silence = silent => Err(silence),
            done = work => Ok(done),
            () = ask => unreachable!("it has no end"),
        }
    }
}

/// The task behind a [`Liveness`].
struct Probe {
    server: String,
    silence_timeout: Duration,
    sender: watch::Sender<Contact>,
    ask_now: Arc<Notify>,
    silences: Arc<AtomicU64>,
    last_reply: LastReply,
}

impl Probe {
    async fn run(self, address: Address) {
        let mut connection = None;
        loop {
            let asked = self.ask(&address, &mut connection).await;
            match asked {
                Some(Ok(reading)) => {
                    *self.last_reply.lock() = reading.answered;
                    self.set(Contact::Replied(reading));
                    self.ask_now.notified().await;
                }
                Some(Err(error)) => {
                    connection = None;
                    self.set(match MasterFault::of(&error) {
                        Some(fault) => Contact::Refused(fault),
                        None => Contact::Failed(error.to_string()),
                    });
                    self.ask_now.notified().await;
                }
                None => {
                    connection = None;
                    let since = *self.last_reply.lock();
                    self.set(match since.elapsed() >= self.silence_timeout {
                        true => Contact::Silent(Silence { since }),
                        // The poll of the health must not wait for ever.
                        false => Contact::Unanswered,
                    });
                }
            }
        }
    }

    /// Asks the server for its time, after a connect if there is no connection. Returns `None` if the server
    /// is silent.
    async fn ask(
        &self,
        address: &Address,
        connection: &mut Option<SharedConnection>,
    ) -> Option<RedisResult<ClockReading>> {
        if connection.is_none() {
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(CLIENT_TIMEOUT));
            let connect =
                address.connect(&self.server, ProtocolVersion::RESP2, config, CLIENT_TIMEOUT);
            match punctually(connect, self.silence_timeout * CONNECT).await? {
                Ok(made) => *connection = Some(made),
                Err(error) => return Some(Err(error)),
            }
        }
        let connection = &mut connection.as_mut()?.requests;
        let asked = Instant::now();
        let time = cmd("TIME");
        let answer =
            punctually(time.query_async::<(u64, u64)>(connection), self.silence_timeout).await?;
        Some(answer.map(|(seconds, micros)| ClockReading {
            server: self.server.clone(),
            shown: Duration::from_secs(seconds) + Duration::from_micros(micros),
            asked,
            answered: Instant::now(),
        }))
    }

    fn set(&self, contact: Contact) {
        let is_silent = matches!(contact, Contact::Silent(_));
        let was_silent = matches!(*self.sender.borrow(), Contact::Silent(_));
        if is_silent && !was_silent {
            self.silences.fetch_add(1, Ordering::AcqRel);
            tracing::warn!(
                server = %self.server,
                "Redis server does not reply; calls are not sent to it until it replies"
            );
        } else if was_silent && !is_silent {
            tracing::info!(server = %self.server, "Redis server replies again");
        }
        self.sender.send_replace(contact);
    }
}
