//! Rules of a job as a whole, of `[job]`, `[cluster]` and `[train]`.

use super::address::require_http;
use super::model::{has_metric, validate_count};
use super::{require, require_within};
use crate::config::{
    ClusterConfig, ConfigError, JobConfig, TableConfig, TrainConfig, TrainSection,
};
use crate::human::{Size, Span};
use crate::residency::MAX_SIGHTINGS;
use crate::tally::{Metric, Task};
use crate::windows::WIDTH;

impl TrainConfig {
    /// Checks ranges and relations.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with the key and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.job.validate()?;
        if let Some(cluster) = &self.cluster {
            cluster.validate()?;
        }
        let task = self.model.task();
        self.data.validate(task)?;
        self.model.validate(&self.data)?;
        self.optimizer.validate()?;
        for (name, table) in &self.tables {
            table.validate(name)?;
        }
        validate_count(self)?;
        self.train.validate(task, !self.data.validation.is_empty())
    }
}

impl JobConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let name = self.name.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let holds = (1..=128).contains(&name.len()) && name.chars().all(plain);
        require(holds, "job.name", || {
            format!("`{name}` is not 1 to 128 letters, digits, `_`, `-` and `.`")
        })?;
        // `.` and `..` are folders already, and `-x` looks like an option.
        require(!name.starts_with(['.', '-']), "job.name", || {
            format!("`{name}` must begin with a letter, a digit or `_`")
        })
    }
}

impl TableConfig {
    /// Checks what does not depend on the table's shape.
    fn validate(&self, name: &str) -> Result<(), ConfigError> {
        let key = |field: &str| format!("tables.{name}.{field}");
        require_within(self.admission, 1..=MAX_SIGHTINGS, &key("admission"))?;
        for (field, holds) in [
            ("sketch", self.sketch > Size::default()),
            ("ttl", self.ttl != Some(0)),
            ("max_bytes", self.max_bytes != Some(Size::default())),
        ] {
            require(holds, &key(field), || "must be above 0")?;
        }
        Ok(())
    }
}

impl ClusterConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        require_http(&self.coordinator, "cluster.coordinator")?;
        require(self.servers >= 1, "cluster.servers", || "must be 1 or more")?;
        require(self.workers >= 1, "cluster.workers", || "must be 1 or more")?;
        for (key, span) in [
            ("cluster.connect_timeout", self.connect_timeout),
            ("cluster.patience", self.patience),
        ] {
            require(span > Span::default(), key, || "must be above 0")?;
        }
        require(
            self.request_timeout >= Span::from_secs(1),
            "cluster.request_timeout",
            || "must be 1s or more",
        )
    }
}

impl TrainSection {
    fn validate(&self, task: Task, has_validation: bool) -> Result<(), ConfigError> {
        require(self.epochs >= 1, "train.epochs", || "must be 1 or more")?;
        require_within(self.batch_size, 1..=1_048_576, "train.batch_size")?;
        require_within(self.prefetch, 0..=63, "train.prefetch")?;
        // A2: a shard refuses what is further ahead than its windows are wide.
        require_within(self.open_pushes.into(), 1..=WIDTH, "train.open_pushes")?;
        require_within(self.read_ahead, 1..=64, "train.read_ahead")?;
        if let Some(early) = &self.early_stop {
            require(
                has_validation,
                "train.early_stop",
                || "needs files to measure on: set data.validation, or drop it",
            )?;
            require(
                early.patience >= 1,
                "train.early_stop.patience",
                || "must be 1 or more",
            )?;
            let fits = has_metric(task, early.metric);
            require(fits, "train.early_stop.metric", || {
                let known = Metric::ALL.into_iter().filter(|m| has_metric(task, *m));
                let known: Vec<_> = known.map(Metric::name).collect();
                let metric = early.metric.name();
                format!(
                    "this model has no {metric}: choose among {}",
                    known.join(", ")
                )
            })?;
        }
        let rate = self.negative_sampling_rate;
        require(
            rate > 0.0 && rate <= 1.0,
            "train.negative_sampling_rate",
            || format!("{rate} is not above 0 and at most 1"),
        )?;
        let fits = rate == 1.0 || task == Task::Binary;
        require(
            fits,
            "train.negative_sampling_rate",
            || "only models with a binary label (logistic, fm) have negatives: drop it",
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::config::TrainConfig;
    use crate::config::load::tests::{JOB, check};

    fn check_section(section: &str, expected: &str) {
        check(
            &format!("{JOB}{section}\n"),
            &format!("train.toml:4:1: {expected}"),
        );
    }

    #[test]
    fn a_job_without_a_name_of_its_own_writes_under_runs() {
        let mut config = TrainConfig::default();
        assert_eq!(config.output().to_str(), Some("runs/job"));
        config.train.output = Some("here".into());
        assert_eq!(config.output().to_str(), Some("here"));
    }

    #[test]
    fn names_of_jobs_are_names_of_folders() {
        check_section(
            "[job]\nname = \"a/b\"",
            "job.name: `a/b` is not 1 to 128 letters, digits, `_`, `-` and `.`",
        );
        check_section(
            "[job]\nname = \"..\"",
            "job.name: `..` must begin with a letter, a digit or `_`",
        );
    }

    #[test]
    fn rules_of_a_cluster() {
        check_section(
            "[cluster]\ncoordinator = \"https://ps:7070\"",
            "cluster.coordinator: `https://ps:7070`: https is not supported yet; use http:// in a \
             trusted network",
        );
        check_section(
            "[cluster]\nservers = 0",
            "cluster.servers: must be 1 or more",
        );
        check_section(
            "[cluster]\nworkers = 0",
            "cluster.workers: must be 1 or more",
        );
        check_section(
            "[cluster]\npatience = \"0s\"",
            "cluster.patience: must be above 0",
        );
        check_section(
            "[cluster]\nrequest_timeout = \"999ms\"",
            "cluster.request_timeout: must be 1s or more",
        );
    }

    #[test]
    fn ranges_of_the_loop() {
        let check =
            |line: &str, expected: &str| check_section(&format!("[train]\n{line}"), expected);
        check("epochs = 0", "train.epochs: must be 1 or more");
        check(
            "batch_size = 0",
            "train.batch_size: 0 is not in 1..=1048576",
        );
        check(
            "batch_size = 1048577",
            "train.batch_size: 1048577 is not in 1..=1048576",
        );
        check("prefetch = 64", "train.prefetch: 64 is not in 0..=63");
        check("open_pushes = 0", "train.open_pushes: 0 is not in 1..=64");
        check("open_pushes = 65", "train.open_pushes: 65 is not in 1..=64");
        check("read_ahead = 0", "train.read_ahead: 0 is not in 1..=64");
        check(
            "negative_sampling_rate = nan",
            "train.negative_sampling_rate: NaN is not above 0 and at most 1",
        );
    }

    #[test]
    fn early_stop_needs_files_and_a_metric_that_there_is() {
        check_section(
            "[train]\nearly_stop = {}",
            "train.early_stop: needs files to measure on: set data.validation, or drop it",
        );
        let text = "[data]\ntrain = [\"a\"]\nvalidation = [\"b\"]\n";
        check(
            &format!("{text}[train]\nearly_stop = {{ patience = 0 }}\n"),
            "train.toml:5:16: train.early_stop.patience: must be 1 or more",
        );
        check(
            &format!(
                "{text}[model]\nkind = \"linear\"\n[train]\nearly_stop = {{ metric = \"auc\" }}\n"
            ),
            "train.toml:7:16: train.early_stop.metric: this model has no auc: choose among rmse, \
             calibration",
        );
    }

    #[test]
    fn only_binary_labels_have_negatives() {
        check(
            &format!("{JOB}[model]\nkind = \"linear\"\n[train]\nnegative_sampling_rate = 0.1\n"),
            "train.toml:6:1: train.negative_sampling_rate: only models with a binary label \
             (logistic, fm) have negatives: drop it",
        );
    }

    #[test]
    fn settings_of_optimizers_have_ranges_for_every_table() {
        check_section(
            "[optimizer]\nlearning_rate = 0",
            "optimizer.learning_rate: must be above 0",
        );
        check_section(
            "[optimizer.tables.\"my.table\"]\nl2 = -1",
            "optimizer.tables.my.table.l2: must be 0 or more",
        );
    }
}
