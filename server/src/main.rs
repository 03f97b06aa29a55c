//! `windlass-server`: one server of a cluster.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use windlass_client::runtime::{TokioClock, TokioNetwork, TokioPool};
use windlass_common::config::{ConfigError, ServerConfig};
use windlass_server::Error;
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
    }
}

#[tokio::main]
async fn run(config: &ServerConfig) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(&config.listen).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: config.listen.clone(),
        source,
    })?;
    let runtime = Runtime {
        clock: Arc::new(TokioClock::new()),
        pool: Arc::new(TokioPool),
        network: Arc::new(TokioNetwork),
    };
    let mut terminate = signal(SignalKind::terminate()).context("handling SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("handling SIGINT")?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(config, runtime, listener, shutdown).await?;
    Ok(())
}
