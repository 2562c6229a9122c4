//! Memory of each NUMA node, and where allocations came from.
//!
//! Invariant: names are the kernel's, as in the meminfo collector; nodes are looked for at a refresh.

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::rows::Rows;
use crate::scan::{each_line, float, label_text, next_field};
use crate::sink::{Desc, Sink};
use crate::sysdir;

pub(crate) struct MeminfoNuma {
    directory: PathBuf,
    nodes: Vec<Node>,
    rows: Rows,
}

struct Node {
    number: String,
    meminfo: OpenFile,
    numastat: OpenFile,
}

impl MeminfoNuma {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            directory: config.sysfs.join("devices/system/node"),
            nodes: Vec::new(),
            rows: Rows::new(),
        }
    }
}

impl Collector for MeminfoNuma {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        if ctx.refresh {
            let found = sysdir::numbered_if_there(&self.directory, "node")?;
            let nodes = found.into_iter().map(|(path, number)| Node {
                number,
                meminfo: OpenFile::new(path.join("meminfo")),
                numastat: OpenFile::new(path.join("numastat")),
            });
            self.nodes = nodes.collect();
        }
        let Self { nodes, rows, .. } = self;
        rows.begin();
        for node in nodes {
            let text = node.meminfo.read(ctx.buf, End::Short)?;
            let parsed = parse_meminfo(text, rows, out);
            parsed.map_err(|source| node.meminfo.malformed(source))?;
            let text = node.numastat.read(ctx.buf, End::Short)?;
            let parsed = parse_numastat(&node.number, text, rows, out);
            parsed.map_err(|source| node.numastat.malformed(source))?;
        }
        rows.end(out);
        Ok(())
    }
}

/// Parses lines such as `Node 0 Active(anon):   706004 kB`.
pub(crate) fn parse_meminfo(
    text: &[u8],
    rows: &mut Rows,
    out: &mut Sink,
) -> Result<(), ParseError> {
    each_line(text, |mut line| {
        let error = "a node, a field, a number, and no unit or kB";
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut word = || next_field(&mut line);
        let (_, node, field) = (word(), word().ok_or(error)?, word().ok_or(error)?);
        let value = word().and_then(float).ok_or(error)?;
        let value = match (word(), word()) {
            (None, _) => value,
            (Some(b"kB"), None) => value * 1024.0,
            _ => return Err(error),
        };
        rows.set(&[node, field], &[value], out, |out| {
            let field = label_text(field);
            // `Active(anon)` is exported as `Active_anon`.
            let field = field
                .trim_end_matches(':')
                .replace('(', "_")
                .replace(')', "");
            let name = format!("node_memory_numa_{field}");
            let help = format!("Memory of the node: {field}.");
            vec![out.add(&Desc::gauge(&name, &help), &[("node", &label_text(node))])]
        });
        Ok(())
    })
}

pub(crate) fn parse_numastat(
    node: &str,
    text: &[u8],
    rows: &mut Rows,
    out: &mut Sink,
) -> Result<(), ParseError> {
    each_line(text, |mut line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let field = next_field(&mut line);
        let value = next_field(&mut line).and_then(float);
        let (Some(field), Some(value), None) = (field, value, next_field(&mut line)) else {
            return Err("a field and a number");
        };
        rows.set(&[node.as_bytes(), field], &[value], out, |out| {
            let field = label_text(field);
            let name = format!("node_memory_numa_{field}_total");
            let help = format!("Allocations of the node: {field}.");
            vec![out.add(&Desc::counter(&name, &help), &[("node", node)])]
        });
        Ok(())
    })
}
