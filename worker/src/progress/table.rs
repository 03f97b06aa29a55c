//! What is told at the end: a table of metrics, or what was counted.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass_common::coordination::History;
use windlass_common::tally::Metric;

use super::line::grouped;
use crate::counted::Counted;

type Values = BTreeMap<String, f64>;

/// Writes the metrics of the kept epoch (the last whose rows are kept) and of the test files.
///
/// Columns are the metrics that some row has; rows are train (progressive), validation, test.
#[must_use]
pub fn results(history: &History) -> String {
    let empty = Values::new();
    let kept = history.kept();
    let (train, validation) = kept.map_or((&empty, &empty), |e| (&e.train, &e.validation));
    let rows = [
        ("train", train),
        ("validation", validation),
        ("test", &history.test),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .collect();
    let metrics: Vec<&str> = Metric::ALL
        .into_iter()
        .map(Metric::name)
        .filter(|name| rows.iter().any(|(_, values)| values.contains_key(*name)))
        .collect();
    let mut text = format!("{:<12}", "");
    // Writing to a string cannot fail.
    for name in &metrics {
        let _ = write!(text, "{:>width$}", name, width = name.len().max(8) + 2);
    }
    text.push('\n');
    for (name, values) in rows {
        let _ = write!(text, "{name:<12}");
        for metric in &metrics {
            let width = metric.len().max(8) + 2;
            match values.get(*metric) {
                Some(value) => {
                    let _ = write!(text, "{value:>width$.4}");
                }
                None => {
                    let _ = write!(text, "{:>width$}", "-");
                }
            }
        }
        text.push('\n');
    }
    text
}

/// Says what a job has counted.
#[must_use]
pub fn counted(counted: &Counted) -> String {
    let Counted { total, rows } = *counted;
    let (keys, different) = (grouped(total), grouped(rows));
    format!("counted {keys} keys, {different} different ones")
}

#[cfg(test)]
mod tests {
    use windlass_common::coordination::EpochMetrics;
    use windlass_common::id::Epoch;

    use super::*;

    #[test]
    fn a_count_is_told_in_words() {
        let all = Counted {
            total: 1 << 72,
            rows: 1234,
        };
        let words = "counted 4,722,366,482,869,645,213,696 keys, 1,234 different ones";
        assert_eq!(counted(&all), words);
    }

    #[test]
    fn the_kept_epoch_is_shown_and_gaps_are_dashes() {
        let values =
            |pairs: &[(&str, f64)]| pairs.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
        let history = History {
            epochs: 1,
            progress: vec![
                EpochMetrics {
                    epoch: Epoch(0),
                    train: values(&[("auc", 0.75), ("log_loss", 0.5)]),
                    validation: values(&[("auc", 0.7)]),
                },
                EpochMetrics {
                    epoch: Epoch(1),
                    train: values(&[("auc", 0.9)]),
                    validation: values(&[("auc", 0.6)]),
                },
            ],
            test: values(&[("auc", 0.69), ("log_loss", 0.512_34)]),
            ..History::default()
        };
        let expected = "                   auc  log_loss\n\
                        train           0.7500    0.5000\n\
                        validation      0.7000         -\n\
                        test            0.6900    0.5123\n";
        assert_eq!(results(&history), expected);
    }
}
