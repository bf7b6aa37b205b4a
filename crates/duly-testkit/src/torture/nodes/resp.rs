//! Minimal Redis client for bytes: keys need not be text.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedisReply {
    Bytes(Vec<u8>),
    Number(i64),
    List(Vec<RedisReply>),
    Nil,
    Error(String),
}

impl RedisReply {
    /// Returns the byte strings of a list; other items are skipped.
    pub(super) fn items(self) -> Vec<Vec<u8>> {
        let Self::List(items) = self else { return Vec::new() };
        let bytes = |item| if let Self::Bytes(bytes) = item { Some(bytes) } else { None };
        items.into_iter().filter_map(bytes).collect()
    }
}

/// Sends one command to a server on the loopback address.
pub(super) fn send_command(port: u16, words: &[&[u8]]) -> io::Result<RedisReply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        command.extend_from_slice(word);
        command.extend_from_slice(b"\r\n");
    }
    stream.write_all(&command)?;
    read_reply(&mut BufReader::new(stream))
}

fn read_reply(from: &mut impl BufRead) -> io::Result<RedisReply> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or_else(broken)?;
    let number = || rest.parse::<i64>().map_err(|_| broken());
    Ok(match kind {
        "+" => RedisReply::Bytes(rest.as_bytes().to_vec()),
        "-" => RedisReply::Error(rest.to_owned()),
        ":" => RedisReply::Number(number()?),
        "$" | "*" if number()? < 0 => RedisReply::Nil,
        "$" => {
            let mut bytes = vec![0; usize::try_from(number()?).map_err(|_| broken())? + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            RedisReply::Bytes(bytes)
        }
        "*" => {
            RedisReply::List((0..number()?).map(|_| read_reply(from)).collect::<io::Result<_>>()?)
        }
        _ => return Err(broken()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let text = b"*5\r\n+OK\r\n:-7\r\n$3\r\n\xff\r\n\r\n$-1\r\n-ERR no\r\n";
        let reply = read_reply(&mut &text[..]).unwrap();
        let RedisReply::List(items) = &reply else { panic!("{reply:?}") };
        assert_eq!(items[1..2], [RedisReply::Number(-7)]);
        assert_eq!(items[3..], [RedisReply::Nil, RedisReply::Error("ERR no".to_owned())]);
        assert_eq!(reply.items(), [b"OK".to_vec(), b"\xff\r\n".to_vec()]);
        assert!(read_reply(&mut &b"?\r\n"[..]).is_err());
    }
}
