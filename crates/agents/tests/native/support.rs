//! A tiny HTTP server: one canned answer per connection, and what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use segue_agents::native::{
    Delta, Message, Model, ModelError, ModelSpec, Reply, Request, Secret, Settings, build, tools,
};
use serde_json::Value;

pub(crate) const KEY: &str = "sk-test-0123456789";

/// How to answer one request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// 200 with an event stream, in these chunks.
    Stream(Vec<Vec<u8>>),
    /// 200 whose chunked body is never ended: the connection breaks.
    Broken(Vec<u8>),
    /// These bytes as they are.
    Raw(Vec<u8>),
    /// 200, these bytes, and then silence.
    Hang(Vec<u8>),
}

impl Answer {
    pub(crate) fn stream(text: &str) -> Self {
        Self::Stream(vec![text.as_bytes().to_vec()])
    }

    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        Self::Raw(format!("{text}connection: close\r\n\r\n{body}").into_bytes())
    }
}

/// What came in.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) asked: Receiver<Asked>,
}

impl Server {
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                // A client that went away is some tests' very purpose.
                let _ = serve(stream, &answer, &sender);
            }
        });
        Self { url, asked }
    }

    pub(crate) fn model(&self, spec: &str) -> Box<dyn Model> {
        let settings = Settings {
            base_url: Some(self.url.clone()),
            key: Some(Secret::new(KEY)),
            idle_timeout: Duration::from_secs(20),
            ..Settings::default()
        };
        build(&ModelSpec::parse(spec).unwrap(), &settings).unwrap()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, sender: &Sender<Asked>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let _ = sender.send(Asked { line: line.trim_end().to_owned(), headers, body });

    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    match answer {
        Answer::Raw(bytes) => stream.write_all(bytes)?,
        Answer::Stream(chunks) => {
            stream.write_all(head.as_bytes())?;
            for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                write_chunk(&mut stream, chunk)?;
            }
            stream.write_all(b"0\r\n\r\n")?;
        }
        Answer::Broken(bytes) => {
            stream.write_all(head.as_bytes())?;
            write_chunk(&mut stream, bytes)?;
        }
        Answer::Hang(bytes) => {
            stream.write_all(head.as_bytes())?;
            write_chunk(&mut stream, bytes)?;
            // Until the client hangs up, or for longer than any test takes.
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            let _ = reader.read(&mut [0]);
        }
    }
    stream.flush()
}

fn write_chunk(stream: &mut TcpStream, chunk: &[u8]) -> std::io::Result<()> {
    let mut framed = format!("{:x}\r\n", chunk.len()).into_bytes();
    framed.extend_from_slice(chunk);
    framed.extend_from_slice(b"\r\n");
    stream.write_all(&framed)
}

pub(crate) fn ask(model: &mut dyn Model, messages: &[Message]) -> Result<Reply, ModelError> {
    let tools = tools::specs();
    let request = Request {
        system: "Be kind.",
        messages,
        tools: &tools[3..4],
        max_output: None,
        earlier_replies: 0,
    };
    model.call(&request, &mut |_| ControlFlow::Continue(()))
}

/// One call against one answer.
pub(crate) fn exchange(spec: &str, answer: Answer) -> Result<Reply, ModelError> {
    let server = Server::start(vec![answer]);
    ask(&mut *server.model(spec), &[Message::user("hi")])
}

/// All text, thinking and tool JSON that was seen on the way.
pub(crate) fn seen(spec: &str, answer: Answer) -> (String, String, String, usize) {
    let server = Server::start(vec![answer]);
    let (mut text, mut thinking, mut json, mut raw) =
        (String::new(), String::new(), String::new(), 0);
    let messages = [Message::user("hi")];
    let request = Request {
        system: "",
        messages: &messages,
        tools: &[],
        max_output: None,
        earlier_replies: 0,
    };
    let reply = server.model(spec).call(&request, &mut |delta| {
        match delta {
            Delta::Text(part) => text.push_str(part),
            Delta::Thinking(part) => thinking.push_str(part),
            Delta::ToolInput { json: part, .. } => json.push_str(part),
            Delta::Raw(_) => raw += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    reply.unwrap();
    (text, thinking, json, raw)
}

/// The stream cut off after each of its events but the last `whole`.
pub(crate) fn cuts(stream: &str, whole: usize) -> Vec<String> {
    let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
    (0..=events.len() - whole - 1).map(|count| events[..count].concat()).collect()
}
