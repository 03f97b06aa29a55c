//! Rules of `[model]`: its ranges, and what it asks of the input, of metrics and of a job that only
//! counts.

use super::{require, require_within};
use crate::config::{
    ConfigError, DataConfig, Format, LossKind, ModelConfig, ModelKind, OptimizerConfig, TrainConfig,
};
use crate::schema::MAX_DIM;
use crate::tally::{Metric, Task};

impl ModelConfig {
    pub(super) fn validate(&self, data: &DataConfig) -> Result<(), ConfigError> {
        require_within(self.factors, 1..=1024, "model.factors")?;
        let std = self.init_std;
        require(std.is_finite() && std >= 0.0, "model.init_std", || {
            format!("{std} is not 0 or more")
        })?;
        if self.kind == ModelKind::Softmax {
            require_within(self.classes, 2..=MAX_DIM, "model.classes")?;
        }
        let fits = self.loss == LossKind::Logistic || self.kind == ModelKind::Fm;
        require(fits, "model.loss", || {
            let kind = self.kind.name();
            format!("only fm chooses its loss, and model.kind is {kind}: drop it")
        })?;
        self.validate_user_and_item(data)
    }

    fn validate_user_and_item(&self, data: &DataConfig) -> Result<(), ConfigError> {
        let names = [("model.user", &self.user), ("model.item", &self.item)];
        if self.kind != ModelKind::Mf {
            return names.into_iter().try_for_each(|(key, name)| {
                require(name.is_none(), key, || {
                    format!("is for mf, and model.kind is {}: drop it", self.kind.name())
                })
            });
        }
        let columns = &data.categorical;
        let enough = data.format == Format::Csv && columns.len() >= 2;
        require(enough, "model.kind", || {
            "mf learns from two columns: set data.format = \"csv\" and data.categorical = [USER, \
             ITEM]"
        })?;
        for (key, name) in names {
            let known = name.as_ref().is_none_or(|name| columns.contains(name));
            require(known, key, || {
                let name = name.as_deref().unwrap_or_default();
                format!("`{name}` is not in data.categorical: add it there")
            })?;
        }
        let user = self.user.as_ref().unwrap_or(&columns[0]);
        let item = self.item.as_ref().unwrap_or(&columns[1]);
        // Only what was named can collide; it is told where it stands.
        let key = if self.item.is_some() {
            "model.item"
        } else {
            "model.user"
        };
        require(user != item, key, || {
            format!("user and item are both `{user}`: name two columns")
        })
    }
}

/// Refuses what asks a job that counts to learn or to score: it would change nothing, unseen.
pub(super) fn validate_count(job: &TrainConfig) -> Result<(), ConfigError> {
    if job.model.kind != ModelKind::Count {
        return Ok(());
    }
    let learnt = job.optimizer != OptimizerConfig::default();
    require(
        !learnt,
        "optimizer",
        || "is for models that learn, and model.kind is count: drop the section",
    )?;
    for (key, set) in [
        ("data.validation", !job.data.validation.is_empty()),
        ("data.test", !job.data.test.is_empty()),
        ("train.early_stop", job.train.early_stop.is_some()),
    ] {
        require(
            !set,
            key,
            || "is for models that predict, and model.kind is count: drop it",
        )?;
    }
    Ok(())
}

/// Whether examples of a task have a metric: the same table as [`Tally::value`].
///
/// [`Tally::value`]: crate::tally::Tally::value
pub(super) fn has_metric(task: Task, metric: Metric) -> bool {
    let on_labels = task != Task::Unscored;
    match metric {
        Metric::Auc | Metric::NormalizedEntropy => task == Task::Binary,
        Metric::LogLoss | Metric::Accuracy => on_labels && task != Task::Real,
        Metric::Rmse => task == Task::Real,
        Metric::Calibration => on_labels && task != Task::Classes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::{JOB, check};
    use crate::tally::Tally;

    fn check_model(section: &str, expected: &str) {
        check(&format!("{JOB}[model]\n{section}\n"), expected);
    }

    #[test]
    fn ranges_of_a_model() {
        check_model(
            "kind = \"fm\"\nfactors = 0",
            "train.toml:5:1: model.factors: 0 is not in 1..=1024",
        );
        check_model(
            "kind = \"fm\"\ninit_std = -0.5",
            "train.toml:5:1: model.init_std: -0.5 is not 0 or more",
        );
        check_model(
            "kind = \"softmax\"\nclasses = 1",
            "train.toml:5:1: model.classes: 1 is not in 2..=65536",
        );
    }

    #[test]
    fn settings_of_another_model_are_refused() {
        check_model(
            "kind = \"linear\"\nloss = \"squared\"",
            "train.toml:5:1: model.loss: only fm chooses its loss, and model.kind is linear: drop it",
        );
        check_model(
            "user = \"u\"",
            "train.toml:4:1: model.user: is for mf, and model.kind is logistic: drop it",
        );
    }

    #[test]
    fn mf_needs_two_different_columns() {
        let csv = |columns: &str, names: &str, expected: &str| {
            let text = format!(
                "[data]\nformat = \"csv\"\ntrain = [\"a\"]\nlabel = \"r\"\n\
                 categorical = {columns}\n[model]\nkind = \"mf\"\n{names}\n"
            );
            check(&text, expected);
        };
        let two = "model.kind: mf learns from two columns: set data.format = \"csv\" and \
                   data.categorical = [USER, ITEM]";
        check_model("kind = \"mf\"", &format!("train.toml:4:1: {two}"));
        csv("[\"u\"]", "", &format!("train.toml:7:1: {two}"));
        csv(
            "[\"u\", \"i\"]",
            "user = \"x\"",
            "train.toml:8:1: model.user: `x` is not in data.categorical: add it there",
        );
        csv(
            "[\"u\", \"i\"]",
            "user = \"i\"",
            "train.toml:8:1: model.user: user and item are both `i`: name two columns",
        );
    }

    #[test]
    fn a_count_neither_learns_nor_predicts() {
        let count = "kind = \"count\"";
        check_model(
            &format!("{count}\nloss = \"squared\""),
            "train.toml:5:1: model.loss: only fm chooses its loss, and model.kind is count: drop it",
        );
        check_model(
            &format!("{count}\n[optimizer]\nkind = \"adam\""),
            "train.toml:5:2: optimizer: is for models that learn, and model.kind is count: drop \
             the section",
        );
        check_model(
            &format!("{count}\n[train]\nearly_stop = {{}}"),
            "train.toml:6:1: train.early_stop: is for models that predict, and model.kind is \
             count: drop it",
        );
        for key in ["validation", "test"] {
            let data = format!("[data]\ntrain = [\"a\"]\n{key} = [\"b\"]\n[model]\n{count}\n");
            check(
                &data,
                &format!(
                    "train.toml:3:1: data.{key}: is for models that predict, and model.kind is \
                     count: drop it"
                ),
            );
        }
        check_model(
            &format!("{count}\n[train]\nnegative_sampling_rate = 0.5"),
            "train.toml:6:1: train.negative_sampling_rate: only models with a binary label \
             (logistic, fm) have negatives: drop it",
        );
        check_model(
            "kind = \"logistic\"\n[optimizer]\nkind = \"count\"",
            "train.toml:6:1: optimizer.kind: \"count\" is none of sgd, momentum, adagrad, \
             rowwise_adagrad, adam, ftrl",
        );
    }

    #[test]
    fn metrics_that_are_promised_are_those_that_are_measured() {
        for task in [Task::Binary, Task::Classes, Task::Real, Task::Unscored] {
            let mut tally = Tally::new(task);
            match task {
                Task::Binary => {
                    tally.add_binary(1.0, 0.7, 1.0, 1.0);
                    tally.add_binary(-1.0, 0.3, 0.0, 1.0);
                }
                Task::Classes => tally.add_class(0.5, true, 1.0),
                Task::Real => tally.add_real(1.0, 2.0, 1.0),
                Task::Unscored => tally.add_unscored(1.0),
            }
            for metric in Metric::ALL {
                let measured = tally.value(metric).is_some();
                assert_eq!(has_metric(task, metric), measured, "{task:?} {metric:?}");
            }
        }
    }
}
