//! `windlass-worker`: trains, evaluates and exports models.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use windlass_client::runtime::{TokioClock, TokioNetwork, TokioPool};
use windlass_common::config::{ConfigError, TrainConfig};
use windlass_common::runtime::{Disk, StdDisk};
use windlass_worker::commands::Machine;
use windlass_worker::commands::evaluate::{EvaluateOptions, evaluate};
use windlass_worker::commands::export::{ExportOptions, export};
use windlass_worker::commands::train::{Ending, TrainOptions, train};
use windlass_worker::job::check;
use windlass_worker::progress::{note, say};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of a config that is wrong (EX_CONFIG of sysexits.h).
const BAD_CONFIG: u8 = 78;

/// The exit code of a worker that was asked to stop (128 + SIGINT).
const STOPPED: u8 = 130;

/// Trains models from sparse data, in this process alone or on a cluster of servers.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trains a job to its end, or goes on with it, and keeps its model.
    Train {
        #[command(flatten)]
        config: ConfigArguments,
        /// Forget what was trained before.
        #[arg(long)]
        fresh: bool,
        /// Write a report for machines.
        #[arg(long, value_name = "FILE.json")]
        report: Option<PathBuf>,
    },
    /// Scores the validation and test files with a saved model.
    Evaluate {
        #[command(flatten)]
        config: ConfigArguments,
        /// A checkpoint, or a folder of checkpoints.
        #[arg(long, value_name = "DIR")]
        checkpoint: Option<PathBuf>,
        /// Write a report for machines.
        #[arg(long, value_name = "FILE.json")]
        report: Option<PathBuf>,
    },
    /// Prints a saved model, a row a line.
    Export {
        #[command(flatten)]
        config: ConfigArguments,
        /// A checkpoint, or a folder of checkpoints.
        #[arg(long, value_name = "DIR")]
        checkpoint: Option<PathBuf>,
        /// How rows are written.
        #[arg(long, value_enum, default_value_t = ExportFormat::Text)]
        format: ExportFormat,
        /// Print the optimizer's slots too.
        #[arg(long)]
        slots: bool,
        /// The file to write; without it standard output.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Looks at a config without running anything.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// Table, key, weights and slots, separated by tabs.
    Text,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Says whether a config can be used; exit code 78 and the place of the mistake if not.
    Check(ConfigArguments),
    /// Prints every value in effect.
    Print(ConfigArguments),
}

#[derive(Args)]
struct ConfigArguments {
    /// The job's config, a TOML file.
    config: PathBuf,
    /// Sets a key over file and environment, such as train.epochs=3; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Works on the cluster of this coordinator, http://HOST:PORT: short for --set cluster.coordinator.
    #[arg(long, value_name = "URL")]
    coordinator: Option<String>,
}

impl ConfigArguments {
    fn load(&self) -> Result<TrainConfig, ConfigError> {
        let mut set = self.set.clone();
        set.extend(
            self.coordinator
                .iter()
                .map(|url| format!("cluster.coordinator=\"{url}\"")),
        );
        TrainConfig::load(&self.config, std::env::vars(), &set)
    }

    fn folder(&self) -> &Path {
        self.config.parent().unwrap_or(Path::new(""))
    }
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // Errors name their causes themselves.
            note(&format!("error: {error}"));
            let config = is_config(&error);
            ExitCode::from(if config { BAD_CONFIG } else { 1 })
        }
    }
}

/// Whether the config is to blame, and not what it names.
fn is_config(error: &anyhow::Error) -> bool {
    error.is::<ConfigError>()
        || matches!(
            error.downcast_ref(),
            Some(windlass_worker::Error::Config(_))
        )
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let ending = match command {
        Command::Train {
            config,
            fresh,
            report,
        } => {
            let options = TrainOptions { fresh, report };
            let (config, folder) = (config.load()?, config.folder());
            block_on(async |machine| train(&machine, config, folder, options).await)??
        }
        Command::Evaluate {
            config,
            checkpoint,
            report,
        } => {
            let options = EvaluateOptions { checkpoint, report };
            let (config, folder) = (config.load()?, config.folder());
            block_on(async |machine| evaluate(&machine, config, folder, options).await)??
        }
        Command::Export {
            config,
            checkpoint,
            format: ExportFormat::Text,
            slots,
            output,
        } => {
            let options = ExportOptions {
                checkpoint,
                slots,
                output,
            };
            let disk: Arc<dyn Disk> = Arc::new(StdDisk);
            export(&disk, config.load()?, config.folder(), &options)?;
            Ending::Finished
        }
        Command::Config(ConfigCommand::Check(arguments)) => {
            check(&arguments.load()?)?;
            say(&format!("{} can be used", arguments.config.display()));
            Ending::Finished
        }
        Command::Config(ConfigCommand::Print(arguments)) => {
            say(arguments.load()?.to_toml().trim_end());
            Ending::Finished
        }
    };
    Ok(match ending {
        Ending::Finished => ExitCode::SUCCESS,
        Ending::Stopped => ExitCode::from(STOPPED),
    })
}

/// Runs a command on tokio, two threads: blocking work and computing have pools of their own.
fn block_on<T>(command: impl AsyncFnOnce(Machine) -> T) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    runtime.block_on(async {
        let machine = Machine {
            clock: Arc::new(TokioClock::new()),
            pool: Arc::new(TokioPool),
            network: Arc::new(TokioNetwork),
            disk: Arc::new(StdDisk),
            stop: stop_signal()?,
        };
        Ok(command(machine).await)
    })
}

/// Becomes true at the first Ctrl-C or SIGTERM; at the second the process ends at once.
fn stop_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if sender.send_replace(true) {
                std::process::exit(i32::from(STOPPED));
            }
            note("stopping after this batch; once more stops at once");
        }
    });
    Ok(receiver)
}
