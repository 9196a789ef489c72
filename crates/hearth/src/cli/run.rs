//! From a parsed command line to an exit code.

use super::args::{Cache, Cli, Command, Global};
use super::{
    adopt, caches, disks, health, hook, migrate, offline, overview, recover, reload, render, scrub,
    serve, vms,
};
use crate::advise::host_words;
use crate::group::args::Group;
use crate::support::args::Support;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{print, progress, shown};
use crate::traces::{self, args::Trace};
use crate::{
    advise, bench, cluster, config, docs, event_log, group, moves, mrc, operator, plan, resources,
    sim, support, top, traffic, xml,
};
use api::advice::HostAdvice;
use api::client::Client;
use api::overview::Overview;
use api::resources::Resources;
use api::types::Status;
use clap::{CommandFactory, Parser};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version were asked for: no errors.
        Err(answer) if !answer.use_stderr() => answer.exit(),
        Err(error) if wants_json(std::env::args_os()) => {
            return end(&CliError::of_usage(&error), true);
        }
        Err(error) => error.exit(),
    };
    match dispatch(&cli).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end(&error, cli.global.json),
    }
}

/// Whether a command line that cannot be read asks for JSON.
fn wants_json(words: impl Iterator<Item = OsString>) -> bool {
    words
        .take_while(|word| word != "--")
        .any(|word| word == "--json")
}

/// Tells an error on standard error: standard output has an answer or nothing.
fn end(error: &CliError, json: bool) -> ExitCode {
    if !error.message.is_empty() {
        let text = if json {
            error.to_json()
        } else {
            error.to_string()
        };
        // Standard error may be closed; there is nobody left to tell.
        let _ = writeln!(io::stderr(), "{text}");
    }
    error.exit.into()
}

/// Does what was asked and returns what to print.
fn dispatch(cli: &Cli) -> Result<Vec<u8>, CliError> {
    let global = &cli.global;
    match &cli.command {
        Command::Serve(arguments) => serve::run(arguments, global.json),
        Command::Operator(asked) => operator::run(asked, global.json),
        Command::Config(asked) => config::run(asked, global.json),
        Command::Cache(Cache::Format(format)) => offline::format(format, global.json),
        Command::Cache(Cache::Check(check)) => offline::check(check, global.json),
        Command::Recover(command) => recover::run(command, global.json),
        Command::Group(of) if let Group::Plan(asked) = &**of => group::plan(asked, global.json),
        Command::Traffic(arguments) => traffic::run(&client(global), arguments, global.json),
        Command::Mrc(arguments) => mrc::run(arguments, global.json),
        Command::Advise(arguments) if !arguments.asks_host() => advise::run(arguments, global.json),
        Command::Plan(arguments) if let Some(loads) = &arguments.loads => {
            plan::of_file(arguments, loads, global.json)
        }
        Command::Sim(arguments) => sim::run(arguments, global.json),
        Command::Bench(arguments) => bench::run(arguments, &global.socket, global.json),
        Command::Completions { shell } => Ok(docs::completions(*shell, Cli::command())),
        Command::Man { dir } => written(docs::man(dir, Cli::command())),
        Command::Generate { root } => written(docs::generate(root, Cli::command())),
        Command::Overview
        | Command::Reload(_)
        | Command::Support(_)
        | Command::Status
        | Command::Adopt(_)
        | Command::Hook(_)
        | Command::Advise(_)
        | Command::Cache(Cache::Set(_) | Cache::Scrub(_) | Cache::Health(_))
        | Command::Disk(_)
        | Command::Migrate(_)
        | Command::Xml(_)
        | Command::Vm(_)
        | Command::Top(_)
        | Command::Resources(_)
        | Command::Cluster(_)
        | Command::Move(_)
        | Command::Events(_)
        | Command::Group(_)
        | Command::Plan(_)
        | Command::Monitor(_)
        | Command::Trace(_) => {
            if let Command::Trace(trace) = &cli.command
                && let Some(done) = traces::offline(trace, global.json)
            {
                return done;
            }
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| CliError::of(Exit::Failed, &error))?;
            runtime.block_on(remote(global, &cli.command))
        }
    }
}

fn written(outcome: io::Result<()>) -> Result<Vec<u8>, CliError> {
    outcome
        .map(|()| Vec::new())
        .map_err(|error| CliError::of(Exit::Failed, &error))
}

/// The daemon. What is asked of it belongs to the trace of who runs this program, as the environment says.
fn client(global: &Global) -> Client {
    let traceparent = std::env::var("TRACEPARENT").ok();
    Client::new(&global.socket).traced(traceparent.as_deref())
}

async fn remote(global: &Global, command: &Command) -> Result<Vec<u8>, CliError> {
    let client = client(global);
    match command {
        Command::Top(top) => top::run(&client, top, global.json)
            .await
            .map(String::into_bytes),
        Command::Disk(disk) => disks::run(&client, global, disk).await,
        Command::Adopt(args) => adopt::run(&client, global, args).await,
        Command::Hook(hook) => hook::run(&client, global, hook).await,
        Command::Migrate(command) => migrate::run(&client, global, command).await,
        Command::Vm(vm) => vms::run(&client, global, vm).await,
        Command::Xml(args) => xml::run(&client, args, global.json).await,
        Command::Cache(Cache::Set(set)) => caches::set(&client, global, set).await,
        Command::Cache(Cache::Scrub(asked)) => scrub::run(&client, global, asked).await,
        Command::Cache(Cache::Health(asked)) => health::health(&client, global, asked).await,
        Command::Resources(arguments) => {
            let path = format!("/v1/resources?samples={}", arguments.samples);
            let known: Resources = client.get(&path).await?;
            show(global, &known, resources::write)
        }
        Command::Cluster(of) => cluster::run(&client, global.json, of).await,
        Command::Group(of) if let Group::Run(asked) = &**of => {
            group::moved(&client, asked, global.json).await
        }
        Command::Move(what) => moves::run(&client, global.json, what).await,
        Command::Events(asked) => event_log::run(&client, global.json, asked).await,
        Command::Plan(arguments) => plan::of_cluster(&client, arguments, global.json).await,
        Command::Monitor(arguments) => resources::monitor(&client, arguments).await,
        Command::Support(Support::Bundle(asked)) => {
            support::bundle(&client, asked, global.json).await
        }
        Command::Reload(asked) => reload::run(&client, global, asked.dry_run).await,
        Command::Overview => {
            let seen: Overview = client.get("/v1/overview").await?;
            show(global, &seen, overview::write)
        }
        Command::Advise(_) => {
            let advice: HostAdvice = client.get("/v1/advice").await?;
            show(global, &advice, host_words::write)
        }
        Command::Trace(trace) if let Trace::Record(record) = &**trace => {
            let asked = traces::record(&client, record);
            let recording = progress::waiting("waiting for the daemon".to_owned(), asked).await?;
            show(global, &recording, traces::render_recording)
        }
        _ => {
            let status: Status = client.get("/v1/status").await?;
            show(global, &status, render::status)
        }
    }
}

/// An answer as text, or as JSON.
pub(super) fn show<T: Serialize>(
    global: &Global,
    answer: &T,
    text: fn(&mut String, &T) -> std::fmt::Result,
) -> Result<Vec<u8>, CliError> {
    shown(global.json, answer, text)
}
