//! Texts that must not grow without end.

/// Adds to a text up to a length: its start is what matters.
pub(super) fn keep_start(text: &mut String, more: &str, most: usize) {
    let room = most.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room)]);
}

/// Adds to a text, and lets go of its start when it gets too long.
pub(super) fn keep_end(text: &mut String, more: &str, most: usize) {
    text.push_str(more);
    if text.len() > most {
        text.drain(..text.ceil_char_boundary(text.len() - most));
    }
}
