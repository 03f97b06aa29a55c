//! Draws the progress of a job until it ends.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;
use windlass_common::coordination::EpochMetrics;
use windlass_common::runtime::Clock;
use windlass_common::tally::Metric;

use super::line::{epoch, line};
use super::note;
use crate::trainer::{Live, State};

/// A bar is redrawn this often.
const FRAME: Duration = Duration::from_millis(100);

/// A plain line is written this often: often enough to see life, seldom enough for a log.
const LINE: Duration = Duration::from_secs(5);

/// A running view; dropping it tells what is left to tell and stops it.
pub struct View {
    task: JoinHandle<()>,
    told: Arc<Told>,
}

/// What both the drawing task and the end of the view write to.
struct Told {
    live: Arc<Live>,
    bar: Option<ProgressBar>,
    epochs: Mutex<Epochs>,
}

impl View {
    /// Shows `live` on standard error: a bar on a terminal, plain lines elsewhere, and a line for
    /// each epoch, where `metric` on validation says which is best.
    pub fn start(live: Arc<Live>, metric: Metric, clock: Arc<dyn Clock>) -> Self {
        let bar = std::io::stderr().is_terminal().then(bar);
        let told = Arc::new(Told {
            live,
            bar,
            epochs: Mutex::new(Epochs::new(metric)),
        });
        let task = tokio::spawn(draw(Arc::clone(&told), clock));
        Self { task, told }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.task.abort();
        self.told.epochs();
        if let Some(bar) = &self.told.bar {
            bar.finish_and_clear();
        }
    }
}

/// Draws until it is aborted.
async fn draw(told: Arc<Told>, clock: Arc<dyn Clock>) {
    let mut rate = Rate::new(clock.now());
    let mut written = (clock.now(), String::new());
    loop {
        clock.sleep(FRAME).await;
        told.epochs();
        let state = told.live.lock().clone();
        let now = clock.now();
        let rate = rate.update(now, state.examples);
        let text = line(&state, rate, told.live.waiting.text().as_deref());
        match &told.bar {
            Some(bar) => show(bar, &state, text),
            None if now.saturating_sub(written.0) >= LINE && text != written.1 => {
                note(&text);
                written = (now, text);
            }
            None => {}
        }
    }
}

impl Told {
    /// Writes a line for each epoch that has ended since.
    fn epochs(&self) {
        let history = self.live.lock().progress.history.clone();
        // Whole after a panic: it is one number.
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        for line in epochs.lines(&history) {
            match &self.bar {
                Some(bar) => bar.println(line),
                None => note(&line),
            }
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    // The template is a constant; were it wrong, the default style would show. It leaves room at
    // the right, where a terminal echoes `^C` without breaking the line in two.
    if let Ok(style) = ProgressStyle::with_template("{bar:20.cyan/dim} {wide_msg}    ") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar
}

fn show(bar: &ProgressBar, state: &State, text: String) {
    let splits = u64::from(state.progress.splits);
    bar.set_length(splits * u64::from(state.progress.epochs));
    bar.set_position(splits * u64::from(state.progress.epoch.0) + u64::from(state.progress.done));
    bar.set_message(text);
}

/// Which epochs have been told.
struct Epochs {
    metric: Metric,
    told: usize,
}

impl Epochs {
    fn new(metric: Metric) -> Self {
        Self { metric, told: 0 }
    }

    /// The lines of epochs that have ended since.
    fn lines(&mut self, history: &[EpochMetrics]) -> Vec<String> {
        let told = std::mem::replace(&mut self.told, history.len()).min(history.len());
        let value = |m: &EpochMetrics| m.validation.get(self.metric.name()).copied();
        (told..history.len())
            .map(|at| {
                let mine = value(&history[at]);
                let beats = |other: &EpochMetrics| match (mine, value(other)) {
                    (Some(mine), Some(other)) => self.metric.better(mine, other),
                    _ => true,
                };
                epoch(
                    &history[at],
                    mine.is_some() && history[..at].iter().all(beats),
                )
            })
            .collect()
    }
}

/// Examples a second, over about the last five seconds.
struct Rate {
    points: std::collections::VecDeque<(Duration, u64)>,
}

impl Rate {
    fn new(now: Duration) -> Self {
        Self {
            points: [(now, 0)].into(),
        }
    }

    fn update(&mut self, now: Duration, examples: u64) -> f64 {
        self.points.push_back((now, examples));
        while self.points.len() > 2
            && self
                .points
                .front()
                .is_some_and(|(t, _)| now.saturating_sub(*t) > LINE)
        {
            self.points.pop_front();
        }
        let Some(&(then, before)) = self.points.front() else {
            return 0.0;
        };
        let seconds = now.saturating_sub(then).as_secs_f64();
        if seconds > 0.0 {
            (examples - before) as f64 / seconds
        } else {
            0.0
        }
    }
}
