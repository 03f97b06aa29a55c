//! Examples in columns: what readers fill, models read, and nothing copies.

use crate::key::Key;

/// Examples with sparse features, in compressed rows.
///
/// Example `i` has features `offsets[i]..offsets[i + 1]` of `keys`, `values` and `fields`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// One label an example; a class is its number.
    pub labels: Vec<f32>,
    /// One weight an example, 0 or more.
    pub weights: Vec<f32>,
    /// Where each example's features begin, and at the end their total: `[examples + 1]`.
    pub offsets: Vec<u32>,
    /// The features' keys: `[features]`.
    pub keys: Vec<Key>,
    /// The features' values: `[features]`.
    pub values: Vec<f32>,
    /// The field (column) of each feature: `[features]`.
    pub fields: Vec<u16>,
}

impl Batch {
    /// How many examples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// True without examples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Where example `i`'s features are.
    #[must_use]
    pub fn features(&self, i: usize) -> std::ops::Range<usize> {
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }

    /// Adds a feature to the example that is being written.
    pub fn push_feature(&mut self, field: u16, key: Key, value: f32) {
        self.keys.push(key);
        self.values.push(value);
        self.fields.push(field);
    }

    /// Ends the example whose features were pushed since the last one.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "readers bound a batch below 2^32 features"
    )]
    pub fn finish_example(&mut self, label: f32, weight: f32) {
        self.labels.push(label);
        self.weights.push(weight);
        self.offsets.push(self.keys.len() as u32);
    }

    /// Drops the features that were pushed for an example that turned out bad.
    pub fn abandon_example(&mut self) {
        let end = self.offsets[self.len()] as usize;
        self.keys.truncate(end);
        self.values.truncate(end);
        self.fields.truncate(end);
    }

    /// Copies example `i` to the end of `out`.
    pub fn copy_example(&self, i: usize, out: &mut Self) {
        let range = self.features(i);
        out.keys.extend_from_slice(&self.keys[range.clone()]);
        out.values.extend_from_slice(&self.values[range.clone()]);
        out.fields.extend_from_slice(&self.fields[range]);
        out.finish_example(self.labels[i], self.weights[i]);
    }

    /// Forgets all examples and keeps the memory.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.weights.clear();
        self.offsets.truncate(1);
        self.keys.clear();
        self.values.clear();
        self.fields.clear();
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            labels: Vec::new(),
            weights: Vec::new(),
            offsets: vec![0],
            keys: Vec::new(),
            values: Vec::new(),
            fields: Vec::new(),
        }
    }
}
