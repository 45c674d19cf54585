//! Draws the picture of `pool`.

use common::plot::svg::{Anchor, SMALL, Svg, text_width};
use gleed::cache::BLOCK_TOKENS;

/// Number of blocks of the pool. `COLUMNS` is the number of blocks in a row of the picture.
pub(super) const BLOCKS: usize = 16;
const COLUMNS: usize = 8;

/// Names of the sequences. Each has a colour of its own.
pub(super) const NAMES: [&str; 4] = ["Narrator", "Anna", "Ben", "Dora"];

/// A block as it is drawn.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) tokens: usize,
    /// Sequences whose block tables have it, as indices into [`NAMES`], and the number of its tokens that belong to
    /// each.
    pub(super) holders: Vec<(usize, usize)>,
    pub(super) finalized: bool,
    pub(super) cached: bool,
}

/// The pool after a step.
pub(super) struct Scene {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) blocks: Vec<Block>,
    /// Number of tokens of each open sequence.
    pub(super) lengths: [Option<usize>; NAMES.len()],
}

impl Scene {
    fn count(&self, of: impl Fn(&Block) -> bool) -> usize {
        self.blocks.iter().filter(|block| of(block)).count()
    }

    /// Returns numbers of blocks: used; shared; used and finalized; held by nobody but cached; free.
    pub(super) fn counts(&self) -> [usize; 5] {
        [
            self.count(|block| !block.holders.is_empty()),
            self.count(|block| block.holders.len() > 1),
            self.count(|block| !block.holders.is_empty() && block.finalized),
            self.count(|block| block.holders.is_empty() && block.cached),
            self.count(|block| block.holders.is_empty() && !block.cached),
        ]
    }
}

/// Width of the picture, of a scene, and of a block with its margin; width and height of a block.
const WIDTH: f64 = 880.0;
const SCENE: f64 = 278.0;
const PLACE: f64 = 31.0;
const BLOCK: [f64; 2] = [27.0, 32.0];

pub(super) fn draw(scenes: &[Scene], subtitle: &str) -> String {
    let mut svg = Svg::new(WIDTH);
    let title = format!("One pool of {BLOCKS} blocks, each for {BLOCK_TOKENS} tokens");
    let top = svg.heading(&title, subtitle);
    let top = legend(&mut svg, top + 16.0);
    let rows = (BLOCKS / COLUMNS) as f64;
    let height = 60.0 + rows * (BLOCK[1] + 5.0) + 22.0;
    for (index, scene) in scenes.iter().enumerate() {
        let at = [28.0 + SCENE * (index % 3) as f64, top + height * (index / 3) as f64];
        draw_scene(&mut svg, index + 1, scene, at);
    }
    let described = |scene: &Scene| {
        let [used, shared, _, cached, free] = scene.counts();
        format!("{}: {used} blocks used, {shared} shared, {cached} cached, {free} free.", scene.title)
    };
    let description: Vec<String> = scenes.iter().map(described).collect();
    svg.finish(top + height * scenes.len().div_ceil(3) as f64, &title, &description.join(" "))
}

/// Draws the meaning of colours and frames. Returns the y coordinate at which the scenes begin.
fn legend(svg: &mut Svg, y: f64) -> f64 {
    let held = |holders: &[usize], tokens, finalized| {
        let holders = holders.iter().map(|&holder| (holder, tokens)).collect();
        Block { tokens, holders, finalized, cached: false }
    };
    let nobody = |cached, tokens| Block { tokens, holders: Vec::new(), finalized: false, cached };
    let names = NAMES.iter().enumerate().map(|(index, name)| (*name, held(&[index], BLOCK_TOKENS, true)));
    let kinds = [
        ("shared", held(&[0, 1], BLOCK_TOKENS, true)),
        ("written to", held(&[1], 9, false)),
        ("nobody's, but its prefix is found", nobody(true, BLOCK_TOKENS)),
        ("free", nobody(false, 0)),
    ];
    let mut x = 28.0;
    for (name, block) in names.chain(kinds) {
        draw_block(svg, &block, [x, y], [17.0, 20.0]);
        svg.text("text", [x + 23.0, y + 14.0], SMALL, Anchor::Start, name);
        x += 23.0 + text_width(name, SMALL) + 16.0;
    }
    y + 46.0
}

fn draw_scene(svg: &mut Svg, number: usize, scene: &Scene, [x, y]: [f64; 2]) {
    svg.text("text", [x, y + 6.0], 13.0, Anchor::Start, &format!("{number}. {}", scene.title));
    svg.text("quiet", [x, y + 23.0], 11.0, Anchor::Start, scene.text);
    let top = y + 34.0;
    for (index, block) in scene.blocks.iter().enumerate() {
        let place = [x + PLACE * (index % COLUMNS) as f64, top + (BLOCK[1] + 5.0) * (index / COLUMNS) as f64];
        draw_block(svg, block, place, BLOCK);
    }
    let [used, shared, _, cached, free] = scene.counts();
    let counts = format!("{used} used, {shared} of them shared, {cached} cached, {free} free");
    let bottom = top + (BLOCKS / COLUMNS) as f64 * (BLOCK[1] + 5.0);
    svg.text("quiet", [x, bottom + 12.0], 11.0, Anchor::Start, &counts);
}

/// Draws a block, filled as far as its tokens fill it, with a stripe for each sequence. A dashed frame marks a block
/// that is written to.
fn draw_block(svg: &mut Svg, block: &Block, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
    let nobodys = block.holders.is_empty();
    svg.rect("cell", [x, y], [width, height], r#"rx="3""#);
    let full = |tokens: usize| height * tokens as f64 / BLOCK_TOKENS as f64;
    let stripe = width / block.holders.len().max(1) as f64;
    for (index, &(holder, tokens)) in block.holders.iter().enumerate() {
        let place = [x + stripe * index as f64, y + height - full(tokens)];
        svg.rect(&format!("f{holder}"), place, [stripe, full(tokens)], "");
    }
    if nobodys && block.cached {
        let full = full(block.tokens);
        svg.rect("f5", [x, y + height - full], [width, full], r#"rx="3" opacity="0.35""#);
    }
    if !nobodys {
        let frame = if block.finalized {
            r#"rx="3" stroke-width="1.6""#
        } else {
            r#"rx="3" stroke-width="1.6" stroke-dasharray="3 2.5""#
        };
        svg.rect(&format!("line c{}", block.holders[0].0), [x, y], [width, height], frame);
    }
}
