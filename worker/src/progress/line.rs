//! One line about a running job.

use std::fmt::Write;

use windlass_common::coordination::EpochMetrics;
use windlass_common::tally::Metric;

use crate::trainer::State;

/// Writes how far the job is and how well it goes. `rate` is in examples a second.
///
/// What matters most stands first: a narrow terminal cuts the end off.
pub(super) fn line(state: &State, rate: f64, waiting: Option<&str>) -> String {
    let progress = &state.progress;
    let epochs = progress.epochs.max(1);
    let epoch = (progress.epoch.0 + 1).min(epochs);
    let mut parts = vec![format!(
        "epoch {epoch}/{epochs}  splits {}/{}",
        progress.done, progress.splits
    )];
    let doing = waiting.unwrap_or(&state.doing);
    if !doing.is_empty() {
        parts.push(doing.to_owned());
    }
    for (name, metric) in [
        ("loss", Metric::LogLoss),
        ("rmse", Metric::Rmse),
        ("auc", Metric::Auc),
    ] {
        parts.extend(
            state
                .tally
                .value(metric)
                .map(|value| format!("{name} {value:.4}")),
        );
    }
    parts.push(format!("{} examples", grouped(state.examples)));
    parts.push(format!("{}/s", short(rate)));
    let stale = [0.5, 0.99].map(|q| state.staleness.quantile(q));
    if let [Some(p50), Some(p99)] = stale {
        parts.push(format!("stale {p50}/{p99}"));
    }
    if state.skipped > 0 {
        parts.push(format!("skipped {}", grouped(state.skipped)));
    }
    parts.join("  ")
}

/// Writes how an epoch went; `best` says that none before was better.
pub(super) fn epoch(metrics: &EpochMetrics, best: bool) -> String {
    let mut text = format!("epoch {}", metrics.epoch.0 + 1);
    for (what, values) in [
        ("train", &metrics.train),
        ("validation", &metrics.validation),
    ] {
        let shown = ["auc", "accuracy", "log_loss", "rmse"];
        let shown = shown
            .iter()
            .filter_map(|name| Some((name, values.get(*name)?)))
            .take(2);
        for (i, (name, value)) in shown.enumerate() {
            let what = if i == 0 {
                format!("  {what}")
            } else {
                String::new()
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "{what} {name} {value:.4}");
        }
    }
    if best {
        text.push_str("  best");
    }
    text
}

/// 1234567 as "1,234,567".
pub(super) fn grouped(n: impl Into<u128>) -> String {
    let digits = n.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1234567.0 as "1.23M".
fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::coordination::Progress;
    use windlass_common::id::Epoch;

    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(grouped(0u64), "0");
        assert_eq!(grouped(999u64), "999");
        assert_eq!(grouped(1_234_567u64), "1,234,567");
        assert_eq!(short(1_234_567.0), "1.23M");
        assert_eq!(short(45_678.0), "46k");
        assert_eq!(short(999.4), "999");
    }

    #[test]
    fn a_line_says_how_far_and_what_is_waited_for() {
        let state = State {
            progress: Progress {
                epoch: Epoch(1),
                epochs: 3,
                done: 4,
                splits: 9,
                ..Progress::default()
            },
            examples: 12_345,
            doing: "waiting for server 2 of 3".into(),
            ..State::default()
        };
        assert_eq!(
            line(&state, 500.0, None),
            "epoch 2/3  splits 4/9  waiting for server 2 of 3  12,345 examples  500/s"
        );
    }

    #[test]
    fn an_epochs_line_has_both_sides() {
        let values =
            |pairs: &[(&str, f64)]| pairs.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
        let metrics = EpochMetrics {
            epoch: Epoch(1),
            train: values(&[("auc", 0.75), ("log_loss", 0.5), ("accuracy", 0.8)]),
            validation: values(&[("auc", 0.7)]),
        };
        assert_eq!(
            epoch(&metrics, true),
            "epoch 2  train auc 0.7500 accuracy 0.8000  validation auc 0.7000  best"
        );
    }
}
