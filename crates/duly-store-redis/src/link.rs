//! One connection to one server, and a round of scripts over it.
//!
//! A round is one pipeline: its scripts in order, and, where replicas are asked for, one `WAIT` as
//! the last command on the same connection, which so vouches for every script before it. Other
//! rounds may share the connection; what they wrote before is vouched for with it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, Value, aio::MultiplexedConnection, cmd};

use crate::{
    Options,
    marker::Mark,
    script::{CLOCK, Script},
};

/// A connection that was not used for so long is asked whether it is there.
const IDLE: Duration = Duration::from_millis(100);

/// A script that is called with these arguments.
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

/// How a call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Manner {
    /// With the whole text, because the server does not know its digest.
    pub(crate) whole: bool,
}

/// What a server said of one call.
#[derive(Debug)]
pub(crate) enum Said {
    Answer(Value),
    /// It does not know the script.
    NoScript,
    /// The slot is elsewhere for good.
    Moved(String),
    /// Not now.
    Later(String),
    /// The shard does not hold the marker of this deployment; nothing was done.
    Unmarked(Mark),
    /// It refused; nothing was done.
    Refused(String),
}

/// Who has to have a change before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    /// How many replicas.
    pub(crate) replicas: u32,
    /// On their disks and the master's, not in their memories alone.
    pub(crate) on_disk: bool,
    /// How long to wait for them.
    pub(crate) within: Duration,
}

impl Copies {
    /// The command that waits for them, as the last one of a round.
    fn wait(&self) -> Cmd {
        let within_ms = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        let mut wait = if self.on_disk { cmd("WAITAOF") } else { cmd("WAIT") };
        if self.on_disk {
            wait.arg(1);
        }
        wait.arg(self.replicas).arg(within_ms);
        wait
    }

    /// Whether the answer says that they have it.
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

/// The connection broke: what was sent may have been done.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) String);

/// One connection. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    texts: Arc<[String]>,
    digests: Arc<[String]>,
    /// When something was last sent in trust, or answered.
    used: Arc<Mutex<Instant>>,
    /// Held by whoever asks whether it is there; the others wait for that answer, and take it when it
    /// says, or its absence, that it is not.
    is_dead: Arc<tokio::sync::Mutex<bool>>,
}

/// How connections are made.
#[derive(Debug, Clone)]
pub(crate) struct Dial {
    pub(crate) connect_within: Duration,
    pub(crate) answer_within: Duration,
    /// Texts of the scripts, in the order of their places.
    pub(crate) texts: Arc<[String]>,
}

impl Dial {
    /// How to connect with these options, for the deployment of this id.
    pub(crate) fn new(options: &Options, deployment: &str) -> Self {
        let clock = options.clock.as_deref().unwrap_or(CLOCK);
        Self {
            connect_within: options.connect_within,
            answer_within: options.answer_within + options.replication_timeout,
            texts: Script::ALL.iter().map(|script| script.text(clock, deployment)).collect(),
        }
    }
}

impl Link {
    /// Connects and loads the scripts.
    pub(crate) async fn open(client: Client, dial: &Dial) -> redis::RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(dial.connect_within))
            .set_response_timeout(Some(dial.answer_within));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        // Who may not speak here is told so, and not cut off in the middle of a large script.
        cmd("PING").exec_async(&mut connection).await?;
        let mut load = Pipeline::new();
        for text in dial.texts.iter() {
            load.add_command(cmd("SCRIPT").arg("LOAD").arg(text.as_str()).clone());
        }
        let digests: Vec<String> = load.query_async(&mut connection).await?;
        let texts = Arc::clone(&dial.texts);
        let used = Arc::new(Mutex::new(Instant::now()));
        Ok(Self { connection, texts, digests: digests.into(), used, is_dead: Arc::default() })
    }

    /// Whether it can be trusted with something that must not be sent twice. A server that was
    /// started anew, or whatever lies between that forgets idle connections, is noticed by asking
    /// first; then nothing was sent, and nobody has to be told that it is in doubt. However far away
    /// the server is, all who wait for a connection wait for one answer.
    pub(crate) async fn is_alive(&self) -> bool {
        if self.is_trusted() {
            return true;
        }
        let mut is_dead = self.is_dead.lock().await;
        if !*is_dead && !self.is_trusted() {
            *is_dead = self.command(&cmd("PING")).await.is_err();
        }
        !*is_dead
    }

    /// Whether it was used a moment ago; then it is again now.
    fn is_trusted(&self) -> bool {
        let mut used = self.used.lock();
        let is_trusted = used.elapsed() < IDLE;
        if is_trusted {
            *used = Instant::now();
        }
        is_trusted
    }

    fn has_answered(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Whether both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.used, &other.used)
    }

    /// Sends a command that is no script.
    pub(crate) async fn command(&self, command: &Cmd) -> redis::RedisResult<Value> {
        let mut connection = self.connection.clone();
        let value = connection.send_packed_command(command).await?;
        self.has_answered();
        match value {
            Value::ServerError(error) => Err(error.into()),
            value => Ok(value),
        }
    }

    /// Sends several commands that are no scripts; each is answered for itself.
    pub(crate) async fn commands(&self, commands: &[Cmd]) -> Result<Vec<Value>, Lost> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let mut connection = self.connection.clone();
        let sent = connection.send_packed_commands(&pipeline, 0, commands.len()).await;
        sent.map_err(|error| Lost(error.to_string()))
    }

    /// Sends calls in one go. The second answer is whether so many copies are there as are wanted.
    pub(crate) async fn round(
        &self,
        seq: &str,
        calls: &[(&Call, Manner)],
        copies: Option<Copies>,
    ) -> Result<(Vec<Said>, bool), Lost> {
        let mut pipeline = Pipeline::with_capacity(calls.len() + 1);
        for (call, manner) in calls {
            let place = call.script.place();
            let mut command = if manner.whole {
                let mut command = cmd("EVAL");
                command.arg(&self.texts[place]);
                command
            } else {
                let mut command = cmd("EVALSHA");
                command.arg(&self.digests[place]);
                command
            };
            command.arg(1).arg(seq);
            for argument in &call.arguments {
                command.arg(argument.as_slice());
            }
            pipeline.add_command(command);
        }
        if let Some(copies) = copies {
            pipeline.add_command(copies.wait());
        }
        let count = pipeline.len();
        let mut connection = self.connection.clone();
        let values = connection.send_packed_commands(&pipeline, 0, count).await;
        let mut values = values.map_err(|error| Lost(error.to_string()))?.into_iter();
        self.has_answered();
        let mut said = Vec::with_capacity(calls.len());
        for _ in calls {
            let value = values.next().ok_or_else(|| Lost("an answer is missing".to_owned()))?;
            said.push(heard(value));
        }
        let confirmed = copies
            .is_none_or(|copies| values.next().is_some_and(|answer| copies.are_there(&answer)));
        Ok((said, confirmed))
    }
}

/// What an answer means.
fn heard(value: Value) -> Said {
    let error = match value {
        Value::ServerError(error) => error,
        value => return Said::Answer(value),
    };
    let details = error.details().unwrap_or_default();
    let elsewhere = || details.split_whitespace().last().unwrap_or_default().to_owned();
    let text = format!("{} {details}", error.code());
    match error.code() {
        "NOSCRIPT" => Said::NoScript,
        "MOVED" => Said::Moved(elsewhere()),
        "UNMARKED" => Said::Unmarked(Mark::Missing),
        "FOREIGN" => Said::Unmarked(Mark::Foreign),
        // The slot is on its way to another server. That one is never asked before it has the slot for
        // good: a script there would take keys that are not there yet for keys that are not.
        "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY" => {
            Said::Later(text)
        }
        _ => Said::Refused(text),
    }
}
