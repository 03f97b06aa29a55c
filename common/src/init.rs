//! The values a row is born with: a function of (seed, table, key), the same on every machine.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::{Key, mix64};

/// How a table's new rows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Init {
    /// All zeros.
    #[default]
    Zeros,
    /// Bell-shaped with this standard deviation.
    Normal {
        /// Standard deviation, 0 or more.
        std: f32,
    },
    /// Uniform in `[-scale, scale)`.
    Uniform {
        /// Half the width, 0 or more.
        scale: f32,
    },
}

/// Fills rows of one table; built once a table.
#[derive(Clone, Copy, Debug)]
pub struct Initializer {
    init: Init,
    seed: u64,
}

impl Initializer {
    /// Binds an init to a job's seed and a table's name.
    #[must_use]
    pub fn new(init: Init, seed: u64, table: &str) -> Self {
        Self {
            init,
            seed: xxh3_64_with_seed(table.as_bytes(), seed),
        }
    }

    /// Writes the initial weights of `key`. Shape: `[dim]`.
    ///
    /// The numbers come from SplitMix64 started at `mix64(key ^ seed)`. The bell is Irwin-Hall: the
    /// sum of twelve 16-bit uniforms less 6, variance 1. It needs no `ln` or `cos`, whose last bits
    /// differ between platforms' libraries.
    pub fn fill(&self, key: Key, weights: &mut [f32]) {
        let mut state = mix64(key.0 ^ self.seed);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix64(state)
        };
        match self.init {
            Init::Zeros => weights.fill(0.0),
            Init::Normal { std } => weights.fill_with(|| {
                let mut sum = 0u32;
                for _ in 0..3 {
                    let bits = next();
                    sum += (0..4)
                        .map(|i| (bits >> (16 * i) & 0xffff) as u32)
                        .sum::<u32>();
                }
                // Twelve uniforms on 0..65536 have mean 12 x 32767.5; both steps are exact.
                (sum as f32 - 393_210.0) * (1.0 / 65_536.0) * std
            }),
            Init::Uniform { scale } => weights.fill_with(|| {
                let unit = (next() >> 40) as f32 * (1.0 / 16_777_216.0);
                (2.0 * unit - 1.0) * scale
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(init: Init, rows: usize) -> Vec<f32> {
        let initializer = Initializer::new(init, 1, "factors");
        let mut all = vec![0.0; rows * 16];
        for (key, row) in all.chunks_exact_mut(16).enumerate() {
            initializer.fill(Key(key as u64), row);
        }
        all
    }

    /// Mean and variance within 5 standard errors of the law's.
    #[test]
    fn the_bell_has_mean_0_and_the_asked_deviation() {
        let values = sample(Init::Normal { std: 0.5 }, 10_000);
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 5.0 * 0.5 / n.sqrt(), "mean {mean}");
        assert!(
            (variance - 0.25).abs() < 5.0 * 0.25 * (2.0 / n).sqrt(),
            "variance {variance}"
        );
    }

    #[test]
    fn the_uniform_stays_in_its_range_and_fills_it() {
        let values = sample(Init::Uniform { scale: 2.0 }, 1000);
        assert!(values.iter().all(|v| (-2.0..2.0).contains(v)));
        assert!(values.iter().any(|v| *v < -1.99) && values.iter().any(|v| *v > 1.99));
    }

    #[test]
    fn seed_table_and_key_each_change_the_row() {
        let row = |seed, table, key| {
            let mut w = [0.0; 4];
            Initializer::new(Init::Normal { std: 1.0 }, seed, table).fill(Key(key), &mut w);
            w
        };
        let one = row(1, "a", 1);
        assert_eq!(one, row(1, "a", 1));
        assert_ne!(one, row(2, "a", 1));
        assert_ne!(one, row(1, "b", 1));
        assert_ne!(one, row(1, "a", 2));
    }
}
