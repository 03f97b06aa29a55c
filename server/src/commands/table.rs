//! Plain tables: columns set to the left or, for numbers, to the right.

use std::ops::Range;

/// Lines of cells under titles.
pub(super) struct Table {
    lines: Vec<Vec<String>>,
    numbers: Range<usize>,
}

impl Table {
    /// Starts with titles; the columns in `numbers` are set to the right.
    pub(super) fn new(titles: &[&str], numbers: Range<usize>) -> Self {
        Self {
            lines: vec![titles.iter().map(|&title| title.to_owned()).collect()],
            numbers,
        }
    }

    /// Adds a line of as many cells as there are titles.
    pub(super) fn add<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(self.lines.first().map(Vec::len), Some(N));
        self.lines.push(cells.into());
    }

    /// Writes the table, a line each.
    pub(super) fn text(&self) -> String {
        let columns = self.lines.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for line in &self.lines {
            let cells = line.iter().zip(&widths).enumerate();
            let set = |(i, (cell, &width)): (usize, (&String, &usize))| {
                if self.numbers.contains(&i) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            };
            text.push_str(cells.map(set).collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_set_to_the_left_and_numbers_to_the_right() {
        let mut table = Table::new(&["job", "rows", "state"], 1..2);
        table.add(["clicks".into(), "7".into(), "whole".into()]);
        table.add(["a".into(), "12345".into(), "".into()]);
        assert_eq!(
            table.text(),
            "job      rows  state\nclicks      7  whole\na       12345\n"
        );
    }
}
