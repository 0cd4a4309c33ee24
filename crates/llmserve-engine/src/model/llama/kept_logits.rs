//! Logits of a batch that took several calls: llama.cpp keeps those of the last one only.

/// The wanted logits of a batch, by row.
pub(super) struct KeptLogits {
    rows: Vec<Option<Box<[f32]>>>,
}

impl KeptLogits {
    /// No logits yet, of a batch of `num_rows`.
    pub(super) fn new(num_rows: usize) -> Self {
        Self { rows: vec![None; num_rows] }
    }

    pub(super) fn keep(&mut self, row: usize, logits: Option<&[f32]>) {
        self.rows[row] = logits.map(Into::into);
    }

    pub(super) fn get(&self, row: usize) -> Option<&[f32]> {
        self.rows.get(row)?.as_deref()
    }
}
