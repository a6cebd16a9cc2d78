//! Server-sent events, read from bytes as they come.
//!
//! Bytes are kept until a line is whole, so a character that is split over two chunks is read
//! right. Ends of line are LF, CRLF or CR; comments are skipped; `data` lines of one event are
//! joined. One event may hold [`MAX_EVENT`] bytes at most, so a broken server cannot fill memory.

/// The most that one event may hold.
pub(super) const MAX_EVENT: usize = 32 * 1024 * 1024;

/// One event: its data, where it had any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: Option<String>,
    pub(super) data: String,
}

/// More came for one event than can be right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Puts events together from chunks.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: Option<String>,
    after_cr: bool,
    started: bool,
}

impl Parser {
    /// Reads a chunk, and gives the events that it completed.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let upto = end.unwrap_or(rest.len());
            if self.line.len() + self.data.len() + upto > MAX_EVENT {
                return Err(TooLong);
            }
            self.line.extend_from_slice(&rest[..upto]);
            let Some(end) = end else { break };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The event whose lines are whole and that only lacks the empty line after it.
    pub(super) fn finish(&mut self) -> Option<Event> {
        self.line.clear();
        self.dispatch()
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut line = std::mem::take(&mut self.line);
        if !self.started {
            self.started = true;
            if line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments have an empty name; `id` and `retry` are for reconnecting, which no model
            // API offers.
            _ => {}
        }
        line.clear();
        self.line = line;
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = self.name.take();
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        Some(Event { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(parser.push(chunk).unwrap());
        }
        events.extend(parser.finish());
        events
    }

    fn event(name: Option<&str>, data: &str) -> Event {
        Event { name: name.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn every_split_of_every_line_ending_reads_the_same() {
        let text =
            "\u{feff}: hi\nevent: a\ndata: grüß\ndata:dich 🦀\n\nid: 1\ndata\n\ndata: [DONE]\n\n";
        let expected = [event(Some("a"), "grüß\ndich 🦀"), event(None, ""), event(None, "[DONE]")];
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            let bytes = text.as_bytes();
            for at in 0..=bytes.len() {
                assert_eq!(all(&[&bytes[..at], &bytes[at..]]), expected, "{ending:?} at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(all(&single), expected);
        }
    }

    #[test]
    fn half_a_line_at_the_end_is_no_event() {
        assert_eq!(all(&[b"data: a\n\ndata: {\"half"]), [event(None, "a")]);
        assert_eq!(all(&[b"data: a\n\ndata: b\n"]), [event(None, "a"), event(None, "b")]);
        assert_eq!(all(&[b"event: a\n\n"]), []);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1024 * 1024];
        let failed = (0..64).find(|_| parser.push(&chunk).is_err());
        assert_eq!(failed, Some(32));
    }
}
