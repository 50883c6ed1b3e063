//! `… -- all`: every benchmark but the four with sections of their own on the page, and from its figures `docs/benchmarks.json`, the generated part of
//! `docs/benchmarks.md`, and the plots.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::plot::Plot;
use crate::report::Report;
use crate::{Plan, Result, growth, load, memory, postgres, reading, sqlite, zombie};

const BEGIN: &str = "<!-- written by `benchmarks -- all` from here -->";
const END: &str = "<!-- to here -->";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Small counts: under two minutes, to see that all of it runs. The figures say little.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The folder of `benchmarks.md`, which is rewritten, and of the JSON and the plots.
    #[arg(long, default_value = "docs")]
    docs: PathBuf,
    #[command(flatten)]
    server: postgres::Arguments,
}

/// All figures of a run.
#[derive(Serialize)]
struct Results {
    quick: bool,
    rounds: usize,
    millis: u128,
    processors: usize,
    system: String,
    seconds: u64,
    sections: Vec<Section>,
    plots: Vec<Plot>,
}

/// What one command measures.
#[derive(Serialize)]
struct Section {
    command: &'static str,
    reports: Vec<Report>,
}

pub(crate) async fn run(plan: &Plan, arguments: Arguments) -> Result<()> {
    let page = arguments.docs.join("benchmarks.md");
    // Read first: a page that has no place for the figures is told before minutes have passed.
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let (before, after) = around(&text).ok_or_else(|| format!("{}: it lacks `{BEGIN}` or `{END}`", page.display()))?;
    let start = Instant::now();
    let mut sections = Vec::new();
    let mut add = |command, reports: Vec<Report>| {
        reports.iter().for_each(|report| println!("{report}\n"));
        sections.push(Section { command, reports });
    };
    add("sqlite", vec![sqlite::run(plan).await?]);
    add("zombie", vec![zombie::run(plan).await?]);
    add("memory", vec![memory::run(plan).await?]);
    add("reading", vec![reading::sqlite(plan).await?, reading::postgres(plan, &arguments.server).await?]);
    add("growth", growth::run(plan).await?);
    add("postgres", postgres::throughput(plan, &arguments.server).await?);
    let plots = load::run(plan, &arguments.server).await?;
    let results = Results {
        quick: arguments.quick,
        rounds: plan.rounds,
        millis: plan.time.as_millis(),
        processors: std::thread::available_parallelism()?.get(),
        system: system(),
        seconds: start.elapsed().as_secs(),
        sections,
        plots,
    };
    for plot in &results.plots {
        std::fs::write(svg(&arguments.docs, plot), plot.svg())?;
    }
    std::fs::write(arguments.docs.join("benchmarks.json"), serde_json::to_string_pretty(&results)? + "\n")?;
    std::fs::write(&page, format!("{before}{BEGIN}\n{}{END}{after}", results.page()))?;
    println!("{} s; written: {} and what it shows", results.seconds, page.display());
    Ok(())
}

fn around(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    Some((before, rest.split_once(END)?.1))
}

fn svg(folder: &Path, plot: &Plot) -> PathBuf {
    folder.join(format!("benchmarks-{}.svg", plot.file))
}

/// The kernel and the processor, where they can be told.
fn system() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{} {}, {}", std::env::consts::OS, kernel.trim(), model.map_or(std::env::consts::ARCH, |(_, name)| name))
}

impl Results {
    fn page(&self) -> String {
        let Self { rounds, millis, processors, system, seconds, .. } = self;
        let mut page = format!(
            "\n{processors} processors, {system}. {rounds} rounds of {millis} ms, {seconds} s in all{}.\n",
            if self.quick { ", by `--quick`: too short to compare with" } else { "" }
        );
        for section in &self.sections {
            let _ = write!(page, "\n### `{}`\n", section.command);
            for report in &section.reports {
                let _ = write!(page, "\n{report}\n");
            }
        }
        page += "\n### Load\n\n";
        for plot in &self.plots {
            let _ = writeln!(page, "![{}](benchmarks-{}.svg)", plot.title, plot.file);
        }
        page + "\n"
    }
}
