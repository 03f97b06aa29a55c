//! A server in a process of its own: this same program, started again.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use tokio::net::TcpListener;
use windlass_common::config::{Durability, ServerConfig};
use windlass_common::human::{Every, Span};
use windlass_server::serve::{Runtime, serve};

/// The argument that makes a program the server.
const SERVER: &str = "--server";

/// A server's process; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens: `http://HOST:PORT`.
    pub url: String,
}

impl Server {
    /// Starts a server. With a folder it keeps its log and its checkpoints there. With a coordinator
    /// it joins that one, else it is one.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(coordinator: Option<&str>, folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SERVER, coordinator.unwrap_or("self")]);
        command.arg(folder.map_or(OsStr::new(""), Path::as_os_str));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("a server without its output")?;
        let mut server = Self {
            child,
            url: String::new(),
        };
        BufReader::new(stdout).read_line(&mut server.url)?;
        server.url.truncate(server.url.trim_end().len());
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until it is killed if this process was started as a server: then it never returns.
///
/// # Errors
/// What the server says.
pub async fn serve_if_asked() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, coordinator, folder] = arguments.as_slice() else {
        return Ok(());
    };
    if flag != SERVER {
        return Ok(());
    }
    let has_folder = !folder.is_empty();
    let mut config = ServerConfig {
        listen: "127.0.0.1:0".into(),
        coordinator: coordinator.clone(),
        data_dir: has_folder.then(|| Path::new(folder).join("server")),
        durability: Some(if has_folder {
            Durability::Log
        } else {
            Durability::None
        }),
        ..ServerConfig::default()
    };
    // Only on demand.
    config.checkpoint.every = Every::Time(Span::from_secs(86_400));
    if let Some(data_dir) = &config.data_dir {
        std::fs::create_dir_all(data_dir)?;
    }
    let listener = TcpListener::bind(&config.listen).await?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    let runtime = Runtime::of_machine();
    Ok(serve(&config, runtime, listener, std::future::pending()).await?)
}
