//! The report of an experiment: tables for people, plots, and both as JSON.

use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::lab::Lab;
use common::output::Output;
use common::plot::Plot;
use common::setting::Setting;
use common::{ModelFile, Result};

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    /// Pictures that show no measurement: name of the file, and its text.
    pub(crate) pictures: Vec<(&'static str, String)>,
    /// Texts that are printed after the tables: title and lines.
    pub(crate) texts: Vec<(&'static str, Vec<String>)>,
}

pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) enum Cell {
    Text(String),
    Count(usize),
    /// A number, and how many decimals are shown.
    Real(f64, usize),
    /// No value.
    Nothing,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let width = |column: usize| {
            let cells = cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.columns[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))
        };
        line(&mut self.columns.iter().copied())?;
        cells.iter().try_for_each(|row| line(&mut row.iter().map(String::as_str)))
    }

    fn to_json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let fields = self.columns.iter().zip(row).map(|(column, cell)| ((*column).to_owned(), cell.to_json()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(object).collect::<Vec<_>>() })
    }
}

impl Cell {
    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Real(x, _) => json!(x),
            Self::Nothing => Value::Null,
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Real(x, decimals) => write!(f, "{x:.decimals$}"),
            Self::Nothing => f.write_str("-"),
        }
    }
}

/// The files that a report is written to.
pub(crate) struct Outputs {
    folder: PathBuf,
    /// Files that the program reads, besides the model.
    read: Vec<PathBuf>,
    json: Option<Output>,
}

impl Outputs {
    pub(crate) fn open(folder: &Path, json: Option<&Path>, file: &ModelFile, read: Vec<PathBuf>) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder: folder.into(), json: file.output(json, &read)?, read })
    }

    pub(crate) fn write(self, report: &Report, lab: &Lab<'_>, setting: &Setting) -> Result<()> {
        let mut out = stdout().lock();
        let (file, config) = (lab.file.name(), lab.model.config());
        let subtitle = setting.subtitle(lab.file, lab.model, &lab.limits(1), &[lab.args.threads]);
        let [kv, _] = config.kv_shapes;
        writeln!(
            out,
            "{file}: {}, {} layers, {} KV heads of {}, context {}",
            config.architecture, config.layers, kv.heads, kv.head_dim, config.context
        )?;
        for table in &report.tables {
            writeln!(out, "\n{}", table.title)?;
            table.print(&mut out)?;
        }
        for (title, lines) in &report.texts {
            writeln!(out, "\n{title}")?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        writeln!(out)?;
        let plots = report.plots.iter().map(|plot| (plot.file, plot.draw(&subtitle)));
        let pictures = report.pictures.iter().map(|(file, text)| (*file, text.clone()));
        for (name, text) in plots.chain(pictures) {
            let path = self.folder.join(name);
            lab.file.write(&path, &self.read, text.as_bytes())?;
            writeln!(out, "plot: {}", path.display())?;
        }
        if let Some(json) = self.json {
            let tables: Vec<_> = report.tables.iter().map(Table::to_json).collect();
            let plots: Vec<_> = report.plots.iter().map(Plot::to_json).collect();
            let value = json!({ "file": file, "setting": subtitle, "tables": tables, "plots": plots });
            json.write(&serde_json::to_vec_pretty(&value)?)?;
        }
        Ok(())
    }
}
