//! Replies of scripts, and their parsing.

use duly_core::{NamespaceName, TimerId, Timestamp};
use duly_store::Result;
use redis::Value;

use crate::error::damaged;

/// The items of a reply, taken one by one.
#[derive(Debug)]
pub(crate) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Converts a reply that must be a list.
    pub(crate) fn list(value: Value) -> Result<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            other => Err(strange(&other)),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    pub(crate) fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| damaged("the reply of a script is too short"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        bytes(self.next()?)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        text(self.next()?)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        match self.next()? {
            Value::Int(number) => {
                u64::try_from(number).map_err(|_| damaged(format!("a count below zero: {number}")))
            }
            other => parse(&text(other)?),
        }
    }

    /// Takes a number, or `None` for an empty text.
    pub(crate) fn maybe_number(&mut self) -> Result<Option<u64>> {
        match self.next()? {
            Value::BulkString(bytes) if bytes.is_empty() => Ok(None),
            Value::Int(number) => Ok(u64::try_from(number).ok()),
            other => parse(&text(other)?).map(Some),
        }
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::saturating_from_unix_ms(self.number()?))
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.maybe_number()?.map(Timestamp::saturating_from_unix_ms))
    }

    /// Takes the name of a namespace.
    pub(crate) fn name(&mut self) -> Result<NamespaceName> {
        namespace_name(&self.text()?)
    }

    pub(crate) fn timer_id(&mut self) -> Result<TimerId> {
        TimerId::new(&self.text()?).map_err(|_| damaged("a timer's id"))
    }

    /// Takes the name of a namespace, or `None` for an empty one.
    pub(crate) fn maybe_name(&mut self) -> Result<Option<NamespaceName>> {
        match self.text()?.as_str() {
            "" => Ok(None),
            name => namespace_name(name).map(Some),
        }
    }

    pub(crate) fn items(&mut self) -> Result<Self> {
        Self::list(self.next()?)
    }

    /// Takes the remaining items, row by row.
    pub(crate) fn rest<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let rows = std::iter::from_fn(|| (!self.is_done()).then(|| read(self)));
        rows.collect()
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.bytes()? == b"1")
    }
}

pub(crate) fn namespace_name(name: &str) -> Result<NamespaceName> {
    NamespaceName::new(name).map_err(|_| damaged("a namespace's name"))
}

fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Nil => Ok(Vec::new()),
        other => Err(strange(&other)),
    }
}

fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| damaged("the reply of a script is not UTF-8"))
}

fn parse(text: &str) -> Result<u64> {
    text.parse().map_err(|_| damaged(format!("{text:?} is not a number")))
}

fn strange(value: &Value) -> duly_store::Error {
    damaged(format!("unknown reply of a script: {value:?}"))
}
