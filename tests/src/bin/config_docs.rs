//! Writes `docs/config.md` from the doc comments and defaults of the configuration's structs; with
//! `--check` it only says whether the page is up to date.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use toml::Table;
use windlass_common::config::{
    CheckpointConfig, ClusterConfig, DataConfig, EarlyStop, JobConfig, ModelConfig, NumericColumn,
    ServerConfig, TableConfig, TrainSection,
};
use windlass_common::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};

const COMMAND: &str = "cargo run -p windlass-tests --bin config_docs";

/// Where the structs are, from the repository's root.
const SOURCES: [&str; 8] = [
    "common/src/config/data.rs",
    "common/src/config/model.rs",
    "common/src/config/optimizer.rs",
    "common/src/config/server.rs",
    "common/src/config/tables.rs",
    "common/src/config/train.rs",
    "common/src/optimizer.rs",
    "common/src/tally.rs",
];

const HEAD: &str = "\
# Configuration

A server is configured by `server.toml`, a job by `train.toml`.
Every key has a default, so a file holds only what differs.

A value is taken from the last of these that has it:

1. the defaults below;
2. the file;
3. the environment: `WINDLASS_TRAIN__BATCH_SIZE=512` sets `train.batch_size`, `WINDLASS_LISTEN=127.0.0.1:7070` sets a server's `listen`;
4. the command line: `--set train.batch_size=512`.

Values of the environment and the command line are read as TOML where they are TOML, else as text.
Sizes are written `\"512KiB\"`, `\"64MiB\"` or `\"10MB\"`, times `\"250ms\"`, `\"5s\"` or `\"10m\"`.
An unknown key or a value that breaks a rule is an error which names file, line and column.
";

fn main() -> Result<()> {
    let check = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        other => bail!("{}: the only argument is --check", other.join(" ")),
    };
    let page = page()?;
    let path = root().join("docs/config.md");
    if check {
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(held == page, "docs/config.md is stale; run `{COMMAND}`");
        return Ok(());
    }
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> Result<String> {
    let mut page = Page::default();
    for source in SOURCES {
        let text = std::fs::read_to_string(root().join(source)).context(source)?;
        page.items.extend(items(&text));
    }
    page.text = format!(
        "{HEAD}\n<!-- Written by `{COMMAND}` from the doc comments in common/src/config: change \
         those. -->\n"
    );
    page.text += "\n## server.toml\n";
    page.section("", "ServerConfig", &ServerConfig::default())?;
    page.text += "\n`checkpoint` is a table:\n";
    page.section(
        "checkpoint",
        "CheckpointConfig",
        &CheckpointConfig::default(),
    )?;

    page.text += "\n## train.toml\n";
    page.heading("job")?;
    page.section("job", "JobConfig", &JobConfig::default())?;
    page.heading("cluster")?;
    page.section("cluster", "ClusterConfig", &ClusterConfig::default())?;
    page.heading("data")?;
    page.section("data", "DataConfig", &DataConfig::default())?;
    page.text += "\nAn element of `data.numeric` is a column's name, or a table:\n";
    page.section("data.numeric[]", "NumericColumn", &NumericColumn::default())?;
    page.heading("model")?;
    page.section("model", "ModelConfig", &ModelConfig::default())?;
    page.heading("optimizer")?;
    page.optimizers()?;
    page.heading("tables")?;
    page.section("tables.NAME", "TableConfig", &TableConfig::default())?;
    page.heading("train")?;
    page.section("train", "TrainSection", &TrainSection::default())?;
    page.text += "\n`train.early_stop` is a table:\n";
    page.section("train.early_stop", "EarlyStop", &EarlyStop::default())?;
    Ok(page.text)
}

/// The page as far as it is written, and what there is to write about.
#[derive(Default)]
struct Page {
    items: Vec<Item>,
    text: String,
}

impl Page {
    fn item(&self, name: &str) -> Result<&Item> {
        let item = self.items.iter().find(|item| item.name == name);
        item.with_context(|| format!("{name} is in none of the sources"))
    }

    /// Begins a section with what its field in `TrainConfig` says of it.
    fn heading(&mut self, section: &str) -> Result<()> {
        let job = self.item("TrainConfig")?;
        let field = job.members.iter().find(|member| member.name == section);
        let doc = &field.with_context(|| format!("no section {section}"))?.doc;
        self.text += &format!("\n### `[{section}]`\n\n{}\n", sentences(doc));
        Ok(())
    }

    /// Writes a struct's keys as a table, and below it what each word of an enum means.
    fn section(&mut self, section: &str, name: &str, default: &impl Serialize) -> Result<()> {
        // Through text, so that a float is shown as it is written and not as its nearest double.
        let defaults: Table = toml::from_str(&toml::to_string(default)?)?;
        let item = self.item(name)?;
        let mut rows = "\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n".to_string();
        let mut words = String::new();
        for field in &item.members {
            let key = match section {
                "" => field.name.clone(),
                _ => format!("{section}.{}", field.name),
            };
            let default = match defaults.get(&field.name) {
                Some(value) => format!("`{value}`"),
                None if field.kind.starts_with("Vec<") => "`[]`".into(),
                None => String::new(),
            };
            let kind = self.type_in_words(&field.kind)?;
            let doc = field.doc.replace('|', "\\|");
            rows += &format!("| `{key}` | {kind} | {default} | {doc} |\n");
            if let Ok(choice) = self.choice(&field.kind) {
                words += &format!("\n`{key}`:\n\n");
                for word in &choice.members {
                    words += &format!("- `\"{}\"`: {}\n", snake_case(&word.name), word.doc);
                }
            }
        }
        self.text += &rows;
        self.text += &words;
        Ok(())
    }

    fn optimizers(&mut self) -> Result<()> {
        let section = self.item("OptimizerConfig")?;
        let tables = section
            .members
            .iter()
            .find(|member| member.name == "tables");
        let tables = tables.context("OptimizerConfig has no tables")?.doc.clone();
        self.text += &format!(
            "\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n\
             | `optimizer.kind` | one of the below | `\"{}\"` | Which optimizer. |\n\
             | `optimizer.tables.NAME` | table |  | {tables} It has the same keys as \
             `[optimizer]`. |\n",
            OptimizerSpec::default().kind()
        );
        self.optimizer("Sgd", OptimizerSpec::Sgd(Sgd::default()), &Sgd::default())?;
        let momentum = Momentum::default();
        self.optimizer(
            "Momentum",
            OptimizerSpec::Momentum(momentum.clone()),
            &momentum,
        )?;
        let adagrad = Adagrad::default();
        self.optimizer("Adagrad", OptimizerSpec::Adagrad(adagrad.clone()), &adagrad)?;
        let rowwise = OptimizerSpec::RowwiseAdagrad(adagrad.clone());
        self.optimizer("RowwiseAdagrad", rowwise, &adagrad)?;
        let adam = Adam::default();
        self.optimizer("Adam", OptimizerSpec::Adam(adam.clone()), &adam)?;
        let ftrl = Ftrl::default();
        self.optimizer("Ftrl", OptimizerSpec::Ftrl(ftrl.clone()), &ftrl)
    }

    fn optimizer(
        &mut self,
        variant: &str,
        spec: OptimizerSpec,
        default: &impl Serialize,
    ) -> Result<()> {
        let kinds = self.item("OptimizerSpec")?;
        let kind = kinds.members.iter().find(|member| member.name == variant);
        let kind = kind.with_context(|| format!("no optimizer {variant}"))?;
        let settings = kind.kind.clone();
        self.text += &format!("\n`kind = \"{}\"`: {}\n", spec.kind(), kind.doc);
        self.section("optimizer", &settings, default)
    }

    /// The enum that a field's type is, if it is one of plain words.
    fn choice(&self, kind: &str) -> Result<&Item> {
        let kind = kind
            .strip_prefix("Option<")
            .unwrap_or(kind)
            .trim_end_matches('>');
        let item = self.item(kind)?;
        ensure!(item.is_enum && item.members.iter().all(|m| m.kind.is_empty()));
        Ok(item)
    }

    fn type_in_words(&self, kind: &str) -> Result<String> {
        if let Some(inner) = inner(kind, "Option") {
            return self.type_in_words(inner);
        }
        if let Some(inner) = inner(kind, "Vec") {
            let of = self.type_in_words(inner)?;
            return Ok(match of.strip_prefix("list of ") {
                Some(of) => format!("list of lists of {of}"),
                None => format!(
                    "list of {}",
                    of.replace("string", "strings").replace("table", "tables")
                ),
            });
        }
        if let Ok(choice) = self.choice(kind) {
            let words = choice
                .members
                .iter()
                .map(|m| format!("`\"{}\"`", snake_case(&m.name)));
            return Ok(words.collect::<Vec<_>>().join(", "));
        }
        Ok(match kind {
            "String" | "Transform" => "string",
            "PathBuf" => "path",
            "bool" => "true or false",
            "char" => "one character",
            "u32" | "u64" | "ShardCount" => "whole number",
            "f32" | "f64" => "number",
            "Size" => "size",
            "Span" => "time",
            "Column" => "string or table",
            "Every" => "time or examples",
            "EarlyStop" | "CheckpointConfig" => "table",
            _ => bail!("no words for the type {kind}"),
        }
        .into())
    }
}

/// A struct or an enum of the sources, with its public fields or its variants.
#[derive(Debug, PartialEq)]
struct Item {
    name: String,
    is_enum: bool,
    members: Vec<Member>,
}

/// A field, or a variant.
#[derive(Debug, PartialEq)]
struct Member {
    name: String,
    /// The field's type, or what is in a variant's parentheses.
    kind: String,
    doc: String,
}

/// Finds the public items of a source as rustfmt writes them: members are indented by four blanks,
/// and an item ends with a brace at the line's begin.
fn items(source: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut open: Option<Item> = None;
    let mut doc: Vec<&str> = Vec::new();
    for line in source.lines() {
        let begin = |word| {
            line.strip_prefix(word)
                .and_then(|rest: &str| rest.strip_suffix(" {"))
        };
        if let Some(name) = begin("pub struct ").or_else(|| begin("pub enum ")) {
            open = Some(Item {
                name: name.into(),
                is_enum: line.starts_with("pub enum"),
                members: Vec::new(),
            });
            doc.clear();
        } else if line == "}" {
            items.extend(open.take());
        } else if let (Some(item), Some(line)) = (&mut open, line.strip_prefix("    ")) {
            if let Some(text) = line.strip_prefix("///") {
                doc.push(text.trim());
            } else if let Some((name, kind)) = member(line, item.is_enum) {
                item.members.push(Member {
                    name: name.into(),
                    kind: kind.into(),
                    doc: doc.join(" "),
                });
                doc.clear();
            }
        }
    }
    items
}

/// Reads `pub name: Type,`, `Name,`, `Name(Type),` or `Name {`, whose type is `{`.
fn member(line: &str, is_enum: bool) -> Option<(&str, &str)> {
    if !is_enum {
        return line
            .strip_prefix("pub ")?
            .strip_suffix(',')?
            .split_once(": ");
    }
    if !line.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    if let Some(name) = line.strip_suffix(" {") {
        return Some((name, "{"));
    }
    let line = line.trim_end_matches([',', ')']);
    Some(line.split_once('(').unwrap_or((line, "")))
}

/// The `T` of `Outer<T>`.
fn inner<'a>(kind: &'a str, outer: &str) -> Option<&'a str> {
    kind.strip_prefix(outer)?
        .strip_prefix('<')?
        .strip_suffix('>')
}

/// A variant's name as serde writes it: `RowwiseAdagrad` is `rowwise_adagrad`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Puts every sentence on a line of its own.
fn sentences(doc: &str) -> String {
    doc.replace(". ", ".\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let held = std::fs::read_to_string(root().join("docs/config.md")).unwrap_or_default();
        assert!(
            held == page().unwrap(),
            "docs/config.md is stale; run `{COMMAND}`"
        );
    }

    #[test]
    fn fields_and_variants_are_read_with_their_comments() {
        let source = "/// Not a member's.\n#[serde(default)]\npub struct A {\n    /// One\n    /// \
                      two.\n    #[serde(skip)]\n    pub b: Option<u32>,\n    hidden: u8,\n}\n\npub \
                      enum C {\n    /// D.\n    #[default]\n    DoIt,\n    /// E.\n    E(Sgd),\n    \
                      /// F.\n    F {\n        /// Inside.\n        width: f64,\n    },\n}\n";
        let member = |name: &str, kind: &str, doc: &str| Member {
            name: name.into(),
            kind: kind.into(),
            doc: doc.into(),
        };
        let [a, c] = items(source).try_into().unwrap();
        assert_eq!(a.members, [member("b", "Option<u32>", "One two.")]);
        assert!(!a.is_enum && c.is_enum);
        let [do_it, e, f] = c.members.try_into().unwrap();
        assert_eq!(do_it, member("DoIt", "", "D."));
        assert_eq!(e, member("E", "Sgd", "E."));
        assert_eq!(f, member("F", "{", "F."));
        assert_eq!(snake_case("DoIt"), "do_it");
    }
}
