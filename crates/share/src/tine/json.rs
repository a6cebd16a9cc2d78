//! JSON as the `.tine` format means it: whole numbers of any length, fractions as they are
//! printed by Python, objects without an order.
//!
//! Reading takes nothing that two readers could understand in two ways: no key twice, no `NaN`, no
//! half of a surrogate pair, nothing deeper or denser than the other implementation takes.

use std::collections::BTreeMap;

pub type Map = BTreeMap<String, Value>;

/// How deep objects and lists may be within one another.
pub(crate) const MAX_DEPTH: usize = 512;
const MAX_DIGITS: usize = 4096;
/// How many brackets, commas and colons there may be, whatever the size.
const TOKENS: (usize, usize) = (200_000, 16_000_000);
/// Beyond the first of these, one for so many bytes: in a file, and where there is no white space.
const BYTES_PER_TOKEN: usize = 4;
const COMPACT_BYTES_PER_TOKEN: usize = 1;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// Its digits, perhaps with a minus before them: no leading zeros, and no `-0`.
    Int(String),
    /// Never infinite, and always a number.
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Map(Map),
}

/// Why something is no such JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJson {
    #[error("it is not UTF-8")]
    Utf8,
    #[error("its structure is deeper or denser than a reader takes")]
    Structure,
    #[error("byte {0}: this is not JSON")]
    Syntax(usize),
    #[error("byte {at}: the key {key:?} is there twice")]
    Twice { at: usize, key: String },
    #[error("byte {0}: a number that is not finite, or too long")]
    Number(usize),
    #[error("byte {0}: half of a surrogate pair")]
    Surrogate(usize),
}

impl Value {
    /// Reads one document, as a file has it.
    pub fn read(bytes: &[u8]) -> Result<Self, BadJson> {
        check_shape(bytes, BYTES_PER_TOKEN)?;
        Self::parse(bytes)
    }

    /// Whether [`Value::read`] takes a text that was written here, whatever it says.
    pub(crate) fn can_be_read(bytes: &[u8]) -> Result<(), BadJson> {
        check_shape(bytes, BYTES_PER_TOKEN)
    }

    /// Reads one that has no white space, and is denser for it.
    pub(crate) fn read_compact(bytes: &[u8]) -> Result<Self, BadJson> {
        check_shape(bytes, COMPACT_BYTES_PER_TOKEN)?;
        Self::parse(bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, BadJson> {
        let text = std::str::from_utf8(bytes).map_err(|_| BadJson::Utf8)?;
        let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
        // A mark that some editors put first.
        reader.take("\u{feff}");
        reader.space();
        let value = reader.value()?;
        reader.space();
        if reader.at < bytes.len() {
            return Err(BadJson::Syntax(reader.at));
        }
        Ok(value)
    }

    #[must_use]
    pub fn map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    #[must_use]
    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    #[must_use]
    pub fn is_true(&self) -> bool {
        *self == Self::Bool(true)
    }

    /// A number that is finite, as a fraction.
    #[must_use]
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(float) => Some(*float),
            Self::Int(digits) => digits.parse().ok().filter(|float: &f64| float.is_finite()),
            _ => None,
        }
    }

    /// A count: whole and not below zero, also where it is written as a fraction.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Int(digits) => digits.parse().ok(),
            Self::Float(float)
                if *float >= 0.0 && float.fract() == 0.0 && *float < 2f64.powi(53) =>
            {
                Some(*float as u64)
            }
            _ => None,
        }
    }

    /// How deep it is: 0 for what has nothing within it.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Self::depth).max().unwrap_or(0),
            Self::Map(map) => 1 + map.values().map(Self::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// A field of an object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.map()?.get(key)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Int(count.to_string())
    }
}

impl From<i64> for Value {
    fn from(count: i64) -> Self {
        Self::Int(count.to_string())
    }
}

impl From<f64> for Value {
    fn from(float: f64) -> Self {
        Self::Float(float)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

/// An object of some fields.
pub fn map<const N: usize>(fields: [(&str, Value); N]) -> Map {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The bounds that the other implementation has, counted as it counts: before anything is read.
fn check_shape(bytes: &[u8], bytes_per_token: usize) -> Result<(), BadJson> {
    let most = (bytes.len() / bytes_per_token).clamp(TOKENS.0, TOKENS.1);
    let (mut depth, mut tokens) = (0usize, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            0 => return Err(BadJson::Utf8),
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                tokens += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                tokens += 1;
            }
            b',' | b':' => tokens += 1,
            _ => {}
        }
        if depth > MAX_DEPTH || tokens > most {
            return Err(BadJson::Structure);
        }
    }
    Ok(())
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn bad<T>(&self) -> Result<T, BadJson> {
        Err(BadJson::Syntax(self.at))
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.bytes[self.at..].starts_with(word.as_bytes());
        if there {
            self.at += word.len();
        }
        there
    }

    fn value(&mut self) -> Result<Value, BadJson> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ if self.take("null") => Ok(Value::Null),
            _ => self.bad(),
        }
    }

    fn object(&mut self) -> Result<Value, BadJson> {
        self.at += 1;
        let mut map = Map::new();
        self.space();
        if self.take("}") {
            return Ok(Value::Map(map));
        }
        loop {
            self.space();
            let at = self.at;
            if self.peek() != Some(b'"') {
                return self.bad();
            }
            let key = self.string()?;
            self.space();
            if !self.take(":") {
                return self.bad();
            }
            self.space();
            let value = self.value()?;
            if map.contains_key(&key) {
                return Err(BadJson::Twice { at, key });
            }
            map.insert(key, value);
            self.space();
            if self.take("}") {
                return Ok(Value::Map(map));
            }
            if !self.take(",") {
                return self.bad();
            }
        }
    }

    fn array(&mut self) -> Result<Value, BadJson> {
        self.at += 1;
        let mut list = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(Value::List(list));
        }
        loop {
            self.space();
            list.push(self.value()?);
            self.space();
            if self.take("]") {
                return Ok(Value::List(list));
            }
            if !self.take(",") {
                return self.bad();
            }
        }
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Value, BadJson> {
        let from = self.at;
        self.take("-");
        let leading = self.peek();
        let whole = self.digits();
        if whole == 0 || (leading == Some(b'0') && whole > 1) {
            return self.bad();
        }
        let mut fraction = false;
        if self.take(".") {
            fraction = true;
            if self.digits() == 0 {
                return self.bad();
            }
        }
        if self.take("e") || self.take("E") {
            fraction = true;
            if !self.take("+") {
                self.take("-");
            }
            if self.digits() == 0 {
                return self.bad();
            }
        }
        let text = &self.text[from..self.at];
        if fraction {
            let float: f64 = text.parse().map_err(|_| BadJson::Number(from))?;
            return match float.is_finite() {
                true => Ok(Value::Float(float)),
                false => Err(BadJson::Number(from)),
            };
        }
        if whole > MAX_DIGITS {
            return Err(BadJson::Number(from));
        }
        Ok(Value::Int(if text == "-0" { "0".to_owned() } else { text.to_owned() }))
    }

    fn string(&mut self) -> Result<String, BadJson> {
        self.at += 1;
        let mut said = String::new();
        loop {
            let from = self.at;
            while self.peek().is_some_and(|byte| byte >= 0x20 && !matches!(byte, b'"' | b'\\')) {
                self.at += 1;
            }
            said.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(said);
                }
                Some(b'\\') => said.push(self.escape()?),
                _ => return self.bad(),
            }
        }
    }

    fn escape(&mut self) -> Result<char, BadJson> {
        let from = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(from),
            _ => return self.bad(),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self, from: usize) -> Result<char, BadJson> {
        self.at += 1;
        let first = self.hex()?;
        let code = match first {
            0xd800..=0xdbff if self.take("\\u") => match self.hex()? {
                second @ 0xdc00..=0xdfff => 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                _ => return Err(BadJson::Surrogate(from)),
            },
            other => other,
        };
        char::from_u32(code).ok_or(BadJson::Surrogate(from))
    }

    fn hex(&mut self) -> Result<u32, BadJson> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return self.bad() };
        self.at += 4;
        Ok(digits
            .iter()
            .fold(0, |code, digit| code * 16 + char::from(*digit).to_digit(16).unwrap_or_default()))
    }
}
