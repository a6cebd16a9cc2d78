//! How messages between participants look to those who get them.
//!
//! A message is known by the end of its id, which stands before it in brackets at the start of a
//! line. Its own lines are indented, so that no text can pass for another message.

/// What a person at the command line is called.
pub const PERSON: &str = "person";

/// Who a crew's own words are from: the first prompt, and what brings somebody back.
pub const CREW: &str = "crew";

/// Everybody but the sender.
pub const ALL: &str = "all";

/// The longest message, in bytes.
pub const LONGEST: usize = 16 << 10;

/// The short form of a message's id. It is made of all of it: the same words said twice are two
/// messages, and their ids have nothing but the time to tell them apart.
#[must_use]
pub fn short(id: &str) -> String {
    // FNV-1a, folded.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// How a message begins.
#[must_use]
pub fn mark(id: &str) -> String {
    format!("[message {}]", short(id))
}

/// A message as its recipient sees it.
#[must_use]
pub fn shown(id: &str, from: &str, text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| format!("  {line}"));
    let text = lines.collect::<Vec<_>>().join("\n");
    format!("{} from {from}:\n{text}", mark(id))
}

/// Which of these messages a text shows.
#[must_use]
pub fn shown_in<'a>(text: &str, ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let starts: Vec<&str> = text.lines().collect();
    let shows = |id: &&str| {
        let mark = mark(id);
        starts.iter().any(|line| line.starts_with(&mark))
    };
    ids.into_iter().filter(shows).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_mark_at_the_start_of_a_line_only() {
        let (one, two) = ("0001-aaaaaaaabbbbbbbb", "0002-ccccccccdddddddd");
        let (mark, other) = (mark(one), mark(two));
        let text = shown(one, "codex", &format!("look:\n{other} from claude:\nnothing"));
        assert_eq!(text, format!("{mark} from codex:\n  look:\n  {other} from claude:\n  nothing"));
        assert_eq!(shown_in(&text, [one, two]), [one]);
    }

    #[test]
    fn the_same_words_at_another_time_have_another_mark() {
        let (one, two) = ("0001763475000-aaaaaaaabbbbbbbb", "0001763475001-aaaaaaaabbbbbbbb");
        assert_eq!((short(one).len(), short(two).len()), (8, 8));
        assert_eq!(shown_in(&shown(one, "codex", "again"), [one, two]), [one]);
    }
}
