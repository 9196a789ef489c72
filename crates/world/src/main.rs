//! `world`: runs seeds of the deterministic world.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that prints its findings")]

use anyhow::bail;
use clap::Parser;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Failure, Marks, Options, Outcome, nbd, run, sites};

/// Runs the deterministic world: the real cache under one seed's guests, faults and crashes.
#[derive(Parser)]
#[command(name = "world")]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Run one seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run a range of seeds, such as 0..10000.
    #[arg(long, value_parser = parse_range)]
    seeds: Option<std::ops::Range<u64>>,
    /// Of a range run every so many seeds: 2 of 1..10000 are the worlds with write-back.
    #[arg(long, requires = "seeds", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Run worlds of an NBD origin: the client of NBD servers between a modelled core and server.
    #[arg(long, conflicts_with_all = ["crash_at", "crash_everywhere"])]
    nbd: bool,
    /// Run worlds of two hosts between which a disk roams.
    #[arg(long, conflicts_with_all = ["crash_at", "crash_everywhere", "nbd"])]
    sites: bool,
    /// Print every event.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// End the first life with a power cut at this operation.
    #[arg(long, requires = "seed")]
    crash_at: Option<u64>,
    /// Run a seed once for each operation of its first life, with a power cut there.
    #[arg(long, requires = "seed", conflicts_with = "crash_at")]
    crash_everywhere: bool,
    /// Go on after a violation, and count them.
    #[arg(long)]
    keep_going: bool,
    /// Take this guard out, of whichever crate it is.
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = world::Rule::named)]
    without: Option<world::Rule>,
    /// Threads for a range; as many as there are processors if not said.
    #[arg(long)]
    threads: Option<usize>,
}

type Run = fn(Options) -> Result<Outcome, Box<Failure>>;

impl Arguments {
    fn run(&self) -> Run {
        match (self.nbd, self.sites) {
            (true, _) => nbd::run,
            (_, true) => sites::run,
            _ => run,
        }
    }

    /// The switch that chooses the kind of world.
    fn kind(&self) -> &'static str {
        match (self.nbd, self.sites) {
            (true, _) => "--nbd ",
            (_, true) => "--sites ",
            _ => "",
        }
    }

    /// Guards are taken out of one thread at a time.
    #[cfg(feature = "mutants")]
    fn take_guards_out(&self) {
        if let Some(rule) = self.without {
            rule.remove();
        }
    }
}

fn parse_range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.trim().parse().map_err(|e| format!("{text}: {e}"));
    Ok(number(from)?..number(to)?)
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Panics of the cache are findings like others; their message is in the report.
    std::panic::set_hook(Box::new(|panic| {
        if std::env::var_os("WORLD_BACKTRACE").is_some() {
            println!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
    #[cfg(feature = "mutants")]
    arguments.take_guards_out();
    match (arguments.seed, arguments.seeds.clone()) {
        (Some(seed), _) if arguments.crash_everywhere => crash_everywhere(seed, &arguments),
        (Some(seed), _) => {
            let options = Options {
                seed,
                trace: arguments.trace,
                crash_at: arguments.crash_at,
            };
            run_one(options, &arguments)
        }
        (None, Some(seeds)) => run_range(&seeds, &arguments),
        (None, None) => bail!("say --seed N or --seeds FROM..TO"),
    }
}

fn run_one(options: Options, arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.run()(options) {
        Ok(outcome) => {
            for line in &outcome.trace {
                println!("{line}");
            }
            for (name, count) in outcome.marks.iter() {
                println!("{count:>10}  {name}");
            }
            println!(
                "seed {}: no violation, digest {:016x}",
                options.seed, outcome.digest
            );
            Ok(())
        }
        Err(failure) => {
            report(options, &failure, arguments);
            bail!("seed {}: {}", options.seed, failure.violation)
        }
    }
}

fn report(options: Options, failure: &Failure, arguments: &Arguments) {
    let mut dice = units::Prng::new(options.seed);
    match arguments.kind() {
        "--nbd " => println!("{:#?}", nbd::Settings::of(&mut dice)),
        // The first line of its trace says what it is like.
        "--sites " => {}
        _ => println!("{:#?}", world::Settings::of(options.seed, &mut dice)),
    }
    for line in &failure.trace {
        println!("{line}");
    }
    println!("VIOLATION seed {}: {}", options.seed, failure.violation);
    let crash = options
        .crash_at
        .map_or(String::new(), |at| format!(" --crash-at {at}"));
    let kind = arguments.kind();
    println!(
        "again: cargo run -p world -- {kind}--seed {}{crash} --trace",
        options.seed
    );
}

fn crash_everywhere(seed: u64, arguments: &Arguments) -> anyhow::Result<()> {
    let whole = Options {
        crash_at: Some(u64::MAX),
        ..Options::new(seed)
    };
    let operations = match run(whole) {
        Ok(outcome) => outcome.operations,
        Err(failure) => bail!("seed {seed}: {}", failure.violation),
    };
    for crash_at in 1..=operations {
        let options = Options {
            crash_at: Some(crash_at),
            ..Options::new(seed)
        };
        if let Err(failure) = run(options) {
            report(options, &failure, arguments);
            bail!(
                "seed {seed}, crash at operation {crash_at}: {}",
                failure.violation
            );
        }
    }
    println!("seed {seed}: {operations} crash points, no violation");
    Ok(())
}

fn run_range(seeds: &std::ops::Range<u64>, arguments: &Arguments) -> anyhow::Result<()> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(available).max(1);
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(0);
    let keep_going = arguments.keep_going;
    let work = || {
        #[cfg(feature = "mutants")]
        arguments.take_guards_out();
        let mut marks = Marks::default();
        loop {
            let seed = next.fetch_add(arguments.every, Ordering::Relaxed);
            if seed >= seeds.end || (failed.load(Ordering::Relaxed) > 0 && !keep_going) {
                return marks;
            }
            let done = (seed - seeds.start) / arguments.every;
            if done > 0 && done.is_multiple_of(1000) {
                println!(
                    "{done} seeds, {} violations",
                    failed.load(Ordering::Relaxed)
                );
            }
            let options = Options::new(seed);
            match arguments.run()(options) {
                Ok(outcome) => marks.merge(&outcome.marks),
                Err(failure) => {
                    if failed.fetch_add(1, Ordering::Relaxed) == 0 && !keep_going {
                        report(options, &failure, arguments);
                    } else {
                        println!("VIOLATION seed {seed}: {}", failure.violation);
                    }
                }
            }
        }
    };
    let mut marks = Marks::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            if let Ok(theirs) = thread.join() {
                marks.merge(&theirs);
            }
        }
    });
    for (name, count) in marks.iter() {
        println!("{count:>12}  {name}");
    }
    match failed.load(Ordering::Relaxed) {
        0 => {
            println!("seeds {}..{}: no violation", seeds.start, seeds.end);
            Ok(())
        }
        count => bail!("{count} violations in seeds {}..{}", seeds.start, seeds.end),
    }
}
