//! Flame graphs without scripts: an image with a tooltip on every box.
//!
//! **Invariant:** a box's width is its share of the samples, and it is on top of its caller; names are escaped.

use std::{collections::BTreeMap, fmt::Write};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 40.0;
/// Width below which boxes are omitted.
const MIN_WIDTH: f64 = 0.3;
const CHARACTER: f64 = 6.6;

/// A function and its callees.
#[derive(Default)]
struct Node {
    count: u64,
    calls: BTreeMap<String, Node>,
}

/// Draws stacks, outermost function first, with their values in `unit`.
pub(crate) fn draw(title: &str, unit: &str, stacks: Vec<(Vec<String>, u64)>) -> String {
    let mut root = Node::default();
    let mut depth = 0;
    for (stack, count) in stacks {
        depth = depth.max(stack.len());
        root.count += count;
        let mut node = &mut root;
        for name in stack {
            node = node.calls.entry(name).or_default();
            node.count += count;
        }
    }
    let height = HEAD + ROW * (depth as f64 + 1.0) + MARGIN;
    let out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fafafa\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title),
    );
    let all = root.count.max(1) as f64;
    let scale = (WIDTH - 2.0 * MARGIN) / all;
    let mut picture = Picture {
        out,
        unit,
        scale,
        all,
    };
    root.draw(&mut picture, "all", MARGIN, height - MARGIN - ROW);
    let mut out = picture.out;
    out.push_str("</svg>\n");
    out
}

/// An image under construction.
struct Picture<'a> {
    out: String,
    unit: &'a str,
    /// Width of one sample.
    scale: f64,
    /// Total of all samples.
    all: f64,
}

impl Node {
    fn draw(&self, picture: &mut Picture<'_>, name: &str, x: f64, y: f64) {
        let width = self.count as f64 * picture.scale;
        if width < MIN_WIDTH {
            return;
        }
        let share = self.count as f64 * 100.0 / picture.all;
        let shown = escaped(name);
        // Writing to a string does not fail.
        let _ = write!(
            picture.out,
            "<g><title>{shown}: {} {}, {share:.2} %</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"1\" fill=\"{}\"/>",
            self.count,
            picture.unit,
            ROW - 1.0,
            colour(name),
        );
        let fits = ((width - 4.0) / CHARACTER) as usize;
        if fits >= 3 {
            let cut: String = if name.chars().count() > fits {
                name.chars().take(fits - 2).chain("..".chars()).collect()
            } else {
                name.to_owned()
            };
            let (text_x, text_y) = (x + 2.0, y + ROW - 5.0);
            let _ = write!(
                picture.out,
                "<text x=\"{text_x:.1}\" y=\"{text_y:.1}\">{}</text>",
                escaped(&cut)
            );
        }
        picture.out.push_str("</g>\n");
        let mut x = x;
        for (name, call) in &self.calls {
            call.draw(picture, name, x, y - ROW);
            x += call.count as f64 * picture.scale;
        }
    }
}

/// Returns a warm colour that depends only on the name.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!(
        "hsl({},{}%,{}%)",
        10 + hash % 45,
        75 + (hash >> 8) % 20,
        60 + (hash >> 16) % 15
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
