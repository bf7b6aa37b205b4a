//! One connection to one server, and rounds of scripts over it.
//!
//! A round is one pipeline: its scripts in order and, if replicas must confirm, one `WAIT` as the last
//! command on the same connection. So the `WAIT` covers every script before it. Other rounds may share
//! the connection; the `WAIT` covers their earlier writes too.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_store::query::ShardFault;
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, Value, cmd};

use crate::{
    Options,
    address::Address,
    connect::SharedConnection,
    punctual::{CONNECT, punctually},
    script::{CLOCK, Script},
};

/// Time that each call of a round adds to the bound of the round.
const EACH: Duration = Duration::from_millis(2);

/// Time without use after which a connection is checked before it is used.
const IDLE: Duration = Duration::from_millis(100);

/// A script with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) script: Script,
    pub(crate) arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) const fn new(script: Script, arguments: Vec<Vec<u8>>) -> Self {
        Self { script, arguments }
    }
}

/// Mode in which a call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SendMode {
    /// `true`: with the whole script text, because the server does not know its digest.
    pub(crate) with_text: bool,
}

/// Reply of a server to one call.
#[derive(Debug)]
pub(crate) enum ServerReply {
    Value(Value),
    /// The server does not know the script.
    NoScript,
    /// The slot has moved to this server.
    Moved(String),
    /// The server cannot execute the call now.
    Postponed(String),
    /// The shard does not hold the marker of this deployment; nothing was done.
    Unmarked(ShardFault),
    /// The master carries out no changes for this reason; nothing was done.
    Withheld(ShardFault, String),
    /// The server refused; nothing was done.
    Refused(String),
}

/// Copies of a change that are required before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequiredCopies {
    /// Number of replicas.
    pub(crate) replicas: u32,
    /// `true`: on the disks of the replicas and of the master, not only in their memories.
    pub(crate) on_disk: bool,
    /// Longest wait for them.
    pub(crate) within: Duration,
}

impl RequiredCopies {
    /// Returns the command that waits for the copies, the last one of a round.
    fn wait(&self) -> Cmd {
        let within_ms = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        let mut wait = if self.on_disk { cmd("WAITAOF") } else { cmd("WAIT") };
        if self.on_disk {
            wait.arg(1);
        }
        wait.arg(self.replicas).arg(within_ms);
        wait
    }

    /// Returns `true` if the reply confirms enough copies.
    fn are_there(&self, answer: &Value) -> bool {
        let enough = |have: &Value, wanted: u32| matches!(have, Value::Int(have) if *have >= i64::from(wanted));
        match answer {
            Value::Array(both) if self.on_disk => {
                both.len() == 2 && enough(&both[0], 1) && enough(&both[1], self.replicas)
            }
            have => !self.on_disk && enough(have, self.replicas),
        }
    }
}

/// Error: the connection broke or got no reply in time, and what was sent may have been executed.
#[derive(Debug)]
pub(crate) struct ConnectionLost {
    pub(crate) reason: String,
    /// `true`: the connection is open, and got no reply in time.
    pub(crate) is_late: bool,
}

impl ConnectionLost {
    pub(crate) fn because(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), is_late: false }
    }
}

/// Returns the error of a call that got no reply for this time.
fn late(bound: Duration) -> std::io::Error {
    let text = format!("no reply on this connection for {:.1} s", bound.as_secs_f64());
    std::io::Error::new(std::io::ErrorKind::TimedOut, text)
}

/// One connection. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    shared: SharedConnection,
    silence_timeout: Duration,
    /// Time of the last reply.
    replied: Arc<Mutex<Instant>>,
    texts: Arc<[String]>,
    digests: Arc<[String]>,
    /// Time of the last reply, or of the last use without a check.
    used: Arc<Mutex<Instant>>,
    /// Locked by the caller that checks the connection. Other callers wait for the result and use it if
    /// the connection is not usable.
    state: Arc<tokio::sync::Mutex<ConnectionState>>,
}

/// The result of the check of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    #[default]
    Usable,
    /// It has ended.
    Dead,
    /// It is open, and a reply has not come in time.
    Late,
}

/// Parameters for new connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) connect_within: Duration,
    pub(crate) answer_within: Duration,
    pub(crate) silence_timeout: Duration,
    /// Texts of the scripts, in the order of their places.
    pub(crate) texts: Arc<[String]>,
}

impl ConnectOptions {
    /// Returns the parameters for these options and the deployment of this id.
    pub(crate) fn new(options: &Options, deployment: &str) -> Self {
        let clock = options.clock.as_deref().unwrap_or(CLOCK);
        Self {
            connect_within: options.connect_within,
            answer_within: options.answer_within + options.replication_timeout,
            silence_timeout: options.silence_timeout,
            texts: Script::ALL.iter().map(|script| script.text(clock, deployment)).collect(),
        }
    }
}

impl Connection {
    /// Connects and loads the scripts.
    pub(crate) async fn open(
        address: &Address,
        server: &str,
        connect_options: &ConnectOptions,
    ) -> redis::RedisResult<Self> {
        let config =
            AsyncConnectionConfig::new().set_response_timeout(Some(connect_options.answer_within));
        let within = connect_options.connect_within;
        let silence_timeout = connect_options.silence_timeout;
        let bound = silence_timeout * CONNECT;
        let opened = punctually(
            async {
                let shared =
                    address.connect(server, ProtocolVersion::RESP2, config, within).await?;
                let mut connection = shared.requests.clone();
                // A refused login fails here with its own error, instead of breaking the connection in the
                // middle of a large script.
                cmd("PING").exec_async(&mut connection).await?;
                let mut load = Pipeline::new();
                for text in connect_options.texts.iter() {
                    load.add_command(cmd("SCRIPT").arg("LOAD").arg(text.as_str()).clone());
                }
                let digests: Vec<String> = load.query_async(&mut connection).await?;
                redis::RedisResult::Ok((shared, digests))
            },
            bound,
        )
        .await;
        let (shared, digests) = opened.unwrap_or_else(|| Err(late(bound).into()))?;
        let texts = Arc::clone(&connect_options.texts);
        let used = Arc::new(Mutex::new(Instant::now()));
        Ok(Self {
            shared,
            silence_timeout,
            replied: Arc::new(Mutex::new(Instant::now())),
            texts,
            digests: digests.into(),
            used,
            state: Arc::default(),
        })
    }

    /// Waits for a reply for this time, and longer while the connection gets replies to earlier calls. Returns `None` if
    /// there is none.
    async fn in_time<T>(&self, bound: Duration, reply: impl Future<Output = T>) -> Option<T> {
        let mut reply = pin!(reply);
        loop {
            let waited = punctually(&mut reply, bound).await;
            if waited.is_some() || self.replied.lock().elapsed() >= bound {
                return waited;
            }
        }
    }

    /// Returns `Usable` if the connection can carry a call that must not be sent twice. After idle time it
    /// is checked by `PING` first: a server that restarted, or a proxy that drops idle connections, is
    /// noticed before anything is sent, and no call becomes in doubt. All callers that wait for a
    /// connection share one `PING`, however far away the server is.
    pub(crate) async fn check(&self) -> ConnectionState {
        if self.is_trusted() {
            return ConnectionState::Usable;
        }
        let mut state = self.state.lock().await;
        if *state == ConnectionState::Usable && !self.is_trusted() {
            let mut connection = self.shared.requests.clone();
            let ping = cmd("PING");
            let sent = connection.send_packed_command(&ping);
            *state = match self.in_time(self.silence_timeout, sent).await {
                Some(Ok(Value::ServerError(_)) | Err(_)) => ConnectionState::Dead,
                Some(Ok(_)) => ConnectionState::Usable,
                None => ConnectionState::Late,
            };
            if *state == ConnectionState::Usable {
                self.note_reply();
            }
        }
        *state
    }

    /// Returns the error of a call that has got no reply in time.
    pub(crate) fn late(&self) -> std::io::Error {
        late(self.silence_timeout)
    }

    /// Returns `true` if the connection was used less than [`IDLE`] ago, and counts this as a use.
    fn is_trusted(&self) -> bool {
        let mut used = self.used.lock();
        let is_trusted = used.elapsed() < IDLE;
        if is_trusted {
            *used = Instant::now();
        }
        is_trusted
    }

    /// Has the connection checked before its next use.
    pub(crate) fn distrust(&self) {
        let mut used = self.used.lock();
        *used = used.checked_sub(IDLE).unwrap_or(*used);
    }

    fn note_reply(&self) {
        *self.replied.lock() = Instant::now();
        *self.used.lock() = Instant::now();
    }

    /// Returns `true` if both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.used, &other.used)
    }

    /// Sends a command that is no script.
    pub(crate) async fn command(&self, command: &Cmd) -> redis::RedisResult<Value> {
        let mut connection = self.shared.requests.clone();
        let sent = connection.send_packed_command(command);
        let bound = self.silence_timeout;
        let value = self.in_time(bound, sent).await.unwrap_or_else(|| Err(late(bound).into()))?;
        self.note_reply();
        match value {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }

    /// Sends several commands that are no scripts; each has a reply of its own.
    pub(crate) async fn commands(&self, commands: &[Cmd]) -> Result<Vec<Value>, ConnectionLost> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let mut connection = self.shared.requests.clone();
        let sent = connection.send_packed_commands(&pipeline, 0, commands.len());
        self.replies(sent, commands.len(), Duration::ZERO).await
    }

    /// Waits for the replies to a pipeline of this length that waits for this time itself.
    async fn replies<T>(
        &self,
        sent: impl Future<Output = redis::RedisResult<T>>,
        count: usize,
        waits: Duration,
    ) -> Result<T, ConnectionLost> {
        let bound = self.silence_timeout + waits + EACH * u32::try_from(count).unwrap_or(u32::MAX);
        match self.in_time(bound, sent).await {
            Some(replies) => replies.map_err(ConnectionLost::because),
            None => Err(ConnectionLost { reason: late(bound).to_string(), is_late: true }),
        }
    }

    /// Sends calls in one pipeline. The second result is `true` if the required copies are confirmed.
    pub(crate) async fn round(
        &self,
        seq: &str,
        calls: &[(&Call, SendMode)],
        copies: Option<RequiredCopies>,
    ) -> Result<(Vec<ServerReply>, bool), ConnectionLost> {
        let mut pipeline = Pipeline::with_capacity(calls.len() + 1);
        for (call, mode) in calls {
            let place = call.script as usize;
            let (name, script) = match mode.with_text {
                true => ("EVAL", &self.texts[place]),
                false => ("EVALSHA", &self.digests[place]),
            };
            let mut command = cmd(name);
            command.arg(script).arg(1).arg(seq);
            for argument in &call.arguments {
                command.arg(argument.as_slice());
            }
            pipeline.add_command(command);
        }
        if let Some(copies) = copies {
            pipeline.add_command(copies.wait());
        }
        let count = pipeline.len();
        let mut connection = self.shared.requests.clone();
        let sent = connection.send_packed_commands(&pipeline, 0, count);
        let waits = copies.map_or(Duration::ZERO, |copies| copies.within);
        let mut values = self.replies(sent, count, waits).await?.into_iter();
        self.note_reply();
        let mut replies = Vec::with_capacity(calls.len());
        for _ in calls {
            let value =
                values.next().ok_or_else(|| ConnectionLost::because("a reply is missing"))?;
            replies.push(parse_reply(value));
        }
        let confirmed = copies
            .is_none_or(|copies| values.next().is_some_and(|answer| copies.are_there(&answer)));
        Ok((replies, confirmed))
    }
}

/// Converts a value into a reply.
fn parse_reply(value: Value) -> ServerReply {
    let error = match value {
        Value::ServerError(error) => error,
        value => return ServerReply::Value(value),
    };
    let details = error.details().unwrap_or_default();
    let elsewhere = || details.split_whitespace().last().unwrap_or_default().to_owned();
    let text = format!("{} {details}", error.code());
    match error.code() {
        "NOSCRIPT" => ServerReply::NoScript,
        "MOVED" => ServerReply::Moved(elsewhere()),
        "UNMARKED" => ServerReply::Unmarked(ShardFault::Missing),
        "FOREIGN" => ServerReply::Unmarked(ShardFault::Foreign),
        // A script found only a part of its keys here, and has written nothing.
        "ERR" if details.contains("non local key") => ServerReply::Unmarked(ShardFault::OpenSlot),
        "NOPERM" => ServerReply::Withheld(ShardFault::Denied, text),
        "MISCONF" => ServerReply::Withheld(ShardFault::NotServing, text),
        "NOREPLICAS" => ServerReply::Withheld(ShardFault::NoReplicas, text),
        // The slot is moving to another server (`ASK`). That server is not asked before it owns the
        // slot: a script there would take keys that have not moved yet for absent ones.
        "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY" => {
            ServerReply::Postponed(text)
        }
        _ => ServerReply::Refused(text),
    }
}
