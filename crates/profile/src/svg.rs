//! Flame graphs without a script: a picture with a text on every box.
//!
//! **Invariant:** a box is as wide as its share of the samples and stands on its caller; names are escaped.

use crate::Profile;
use std::{collections::BTreeMap, fmt::Write};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 40.0;
/// Narrower boxes are left out.
const MIN_WIDTH: f64 = 0.3;
const CHARACTER: f64 = 6.6;

/// A function and what it called.
#[derive(Default)]
struct Node {
    count: u64,
    calls: BTreeMap<String, Node>,
}

pub(crate) fn draw(profile: &Profile) -> String {
    let mut root = Node::default();
    let mut depth = 0;
    for (stack, count) in profile.by_name() {
        depth = depth.max(stack.len());
        root.count += count;
        let mut node = &mut root;
        for name in stack {
            node = node.calls.entry(name).or_default();
            node.count += count;
        }
    }
    let height = HEAD + ROW * (depth as f64 + 1.0) + MARGIN;
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fafafa\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\">CPU: {} samples in {:.1} s, {} lost</text>\n",
        root.count,
        profile.took.as_secs_f64(),
        profile.lost,
    );
    let all = root.count.max(1) as f64;
    let scale = (WIDTH - 2.0 * MARGIN) / all;
    root.draw(&mut out, "all", MARGIN, height - MARGIN - ROW, scale, all);
    out.push_str("</svg>\n");
    out
}

impl Node {
    fn draw(&self, out: &mut String, name: &str, x: f64, y: f64, scale: f64, all: f64) {
        let width = self.count as f64 * scale;
        if width < MIN_WIDTH {
            return;
        }
        let share = self.count as f64 * 100.0 / all;
        let shown = escaped(name);
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "<g><title>{shown}: {} samples, {share:.2} %</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"1\" fill=\"{}\"/>",
            self.count,
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
                out,
                "<text x=\"{text_x:.1}\" y=\"{text_y:.1}\">{}</text>",
                escaped(&cut)
            );
        }
        out.push_str("</g>\n");
        let mut x = x;
        for (name, call) in &self.calls {
            call.draw(out, name, x, y - ROW, scale, all);
            x += call.count as f64 * scale;
        }
    }
}

/// Returns a warm colour that is the same for the same name everywhere.
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
