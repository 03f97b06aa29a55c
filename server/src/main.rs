//! `windlass-server`: one server of a cluster.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{TokioClock, TokioNetwork};
use windlass_common::config::{ConfigError, ServerConfig};
use windlass_common::id::{Boot, CheckpointId};
use windlass_common::runtime::{Objects, StdDisk};
use windlass_server::Error;
use windlass_server::commands::ask::Asked;
use windlass_server::commands::checkpoint::{self, Selection};
use windlass_server::data_dir::DataDir;
use windlass_server::objects::open_store;
use windlass_server::serve::{Runtime, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of a config that is wrong (EX_CONFIG of sysexits.h).
const BAD_CONFIG: u8 = 78;

/// Holds shards of the model, applies every push exactly once, and may coordinate the cluster.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a server until it is told to stop (Ctrl-C, SIGTERM).
    Run(ConfigArguments),
    /// Shows a cluster's servers, jobs, shards, splits and checkpoints.
    Status(ClusterArguments),
    /// Lists, verifies, creates and restores checkpoints of running jobs.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Looks at a config without running anything.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Says whether a config can be used; exit code 78 and the place of the mistake if not.
    Check(ConfigArguments),
    /// Prints every value in effect.
    Print(ConfigArguments),
}

#[derive(Subcommand)]
enum CheckpointCommand {
    /// Prints a line for each checkpoint, newest first.
    List(CheckpointArguments),
    /// Reads every byte and names what is wrong; exit code 1 if anything is.
    Verify(CheckpointArguments),
    /// Saves a running job now, and waits until the checkpoint is in the store.
    Create {
        /// The job.
        job: String,
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Puts a job of a running cluster back to a checkpoint: what it has learnt since is undone.
    Restore {
        /// The job.
        job: String,
        /// The checkpoint's number, as `list` shows it.
        number: u64,
        #[command(flatten)]
        cluster: ClusterArguments,
    },
}

#[derive(Args)]
struct ClusterArguments {
    /// The server that has the coordinator role.
    #[arg(
        long,
        value_name = "http://HOST:PORT",
        default_value = "http://127.0.0.1:7070"
    )]
    coordinator: String,
}

impl ClusterArguments {
    fn ask(&self) -> Asked {
        let clock = Arc::new(TokioClock::new());
        let connector = Connector::new(Arc::new(TokioNetwork), clock, Options::default());
        Asked::new(connector.admin(&self.coordinator), &self.coordinator)
    }
}

#[derive(Args)]
struct CheckpointArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// The job; without it all jobs.
    job: Option<String>,
    /// The checkpoint's number; without it all of the job.
    number: Option<u64>,
    /// Where to look, instead of at the config's store: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
}

#[derive(Args)]
struct ConfigArguments {
    /// The server's config, a TOML file.
    config: PathBuf,
    /// Sets a key over file and environment, such as listen=127.0.0.1:7071; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArguments {
    fn load(&self) -> Result<ServerConfig, ConfigError> {
        ServerConfig::load(&self.config, std::env::vars(), &self.set)
    }
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match command(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed standard error leaves the exit code to tell.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(if error.is::<ConfigError>() {
                BAD_CONFIG
            } else {
                1
            })
        }
    }
}

fn command(command: &Command) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match command {
        Command::Run(arguments) => run(&arguments.load()?),
        Command::Config(ConfigCommand::Check(arguments)) => {
            arguments.load()?;
            writeln!(out, "{} can be used", arguments.config.display())?;
            Ok(())
        }
        Command::Config(ConfigCommand::Print(arguments)) => {
            write!(out, "{}", arguments.load()?.to_toml())?;
            Ok(())
        }
        Command::Status(cluster) => wait(async { cluster.ask().show(&mut out).await }),
        Command::Checkpoint(CheckpointCommand::Create { job, cluster }) => {
            let clock = TokioClock::new();
            wait(async { cluster.ask().create(&clock, job, &mut out).await })
        }
        Command::Checkpoint(CheckpointCommand::Restore {
            job,
            number,
            cluster,
        }) => wait(async {
            let number = CheckpointId(*number);
            cluster.ask().restore(job, number, &mut out).await
        }),
        Command::Checkpoint(CheckpointCommand::List(arguments)) => {
            let (objects, selection) = look(arguments)?;
            let now = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            checkpoint::list(&objects, &selection, now, &mut out)?;
            Ok(())
        }
        Command::Checkpoint(CheckpointCommand::Verify(arguments)) => {
            let (objects, selection) = look(arguments)?;
            let damaged = checkpoint::verify(&objects, &selection, &mut out)?;
            match damaged {
                0 => Ok(()),
                1 => anyhow::bail!("1 checkpoint is not whole"),
                many => anyhow::bail!("{many} checkpoints are not whole"),
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn wait(question: impl Future<Output = Result<(), Error>>) -> anyhow::Result<()> {
    Ok(question.await?)
}

/// Opens the store that arguments name.
fn look(arguments: &CheckpointArguments) -> anyhow::Result<(Arc<dyn Objects>, Selection)> {
    let config = arguments.config.load()?;
    let named = arguments
        .store
        .clone()
        .or_else(|| config.checkpoint_store());
    let place = named.context(
        "the config names no store: set data_dir, or checkpoint.store, or give --store PLACE",
    )?;
    // Nothing is written, so the writer's life need not be told.
    let objects = open_store(Arc::new(StdDisk), &place, Boot(0))?;
    let selection = Selection {
        job: arguments.job.clone(),
        number: arguments.number.map(CheckpointId),
    };
    Ok((objects, selection))
}

#[tokio::main]
async fn run(config: &ServerConfig) -> anyhow::Result<()> {
    // Held until the process ends.
    let _taken = config.data_dir.as_deref().map(DataDir::take).transpose()?;
    let listener = tokio::net::TcpListener::bind(&config.listen).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: config.listen.clone(),
        source,
    })?;
    let mut terminate = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(config, Runtime::of_machine(), listener, shutdown).await?;
    Ok(())
}
