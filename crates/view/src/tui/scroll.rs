//! Which one of a list is selected, and which part of the list is seen.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scroll {
    /// The place of the selected one.
    pub(crate) at: usize,
    /// The place of the first one that is shown.
    pub(crate) top: usize,
    /// How many are shown.
    pub(crate) height: usize,
}

impl Default for Scroll {
    fn default() -> Self {
        Self { at: 0, top: 0, height: 1 }
    }
}

impl Scroll {
    /// Moves so far down, or up, or as far as there is something.
    pub(crate) fn step(&mut self, by: isize, count: usize) {
        self.at = self.at.saturating_add_signed(by).min(count.saturating_sub(1));
    }

    /// How far a page goes: the last line of one is the first of the next.
    pub(crate) fn page(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Scrolls as little as needed for the selected one to be within so many lines, and fills
    /// them where there is enough.
    pub(crate) fn fit(&mut self, height: usize, count: usize) {
        self.height = height.max(1);
        let last_top = count.saturating_sub(self.height);
        let lowest = (self.at + 1).saturating_sub(self.height);
        self.top = self.top.clamp(lowest, self.at).min(last_top);
    }
}
