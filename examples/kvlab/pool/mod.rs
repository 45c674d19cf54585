//! `pool`: shows the blocks of a pool while sequences are forked, rewound and closed.

mod draw;

use clap::Args;
use gleed::cache::{BLOCK_TOKENS, KvCache};
use gleed::{Engine, KvKind, Limits, SeqId};

use crate::lab::{Lab, LabArgs};
use crate::report::{Cell, Report, Table};
use common::{Result, limit};
use draw::{BLOCKS, Block, NAMES, Scene};

#[derive(Args)]
pub(crate) struct PoolArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

/// Number of tokens of the prompt: two full blocks and half of one.
const PROMPT: usize = 40;
/// Number of tokens of the longest sequence.
const LONGEST: usize = 96;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Report> {
    limit::check("the model's context", lab.model.config().context, LONGEST, usize::MAX)?;
    let (sequences, kv_kind) = (NAMES.len(), KvKind::Paged);
    let limits = Limits { sequences, kv_kind, kv_blocks: BLOCKS, prefix_cache: true, ..lab.limits(LONGEST) };
    let scenes = lab.with_engine(&limits, |engine| play(engine, &lab.tokens(LONGEST)))?;
    let mut report = Report::default();
    report.tables.push(table(&scenes));
    report.pictures.push(("pool.svg", draw::draw(&scenes, &subtitle(lab))));
    Ok(report)
}

/// Returns the subtitle of the picture. It does not name the machine, because nothing in the picture depends on it.
fn subtitle(lab: &Lab<'_>) -> String {
    let config = lab.model.config();
    format!("{}: {}, {} layers, KV {}", lab.file.short_name(), config.architecture, config.layers, lab.args.kv_type)
}

/// Plays the scenes in an engine. Returns the state of the pool after each step.
fn play(engine: &mut Engine<'_, '_>, tokens: &[u32]) -> Result<Vec<Scene>> {
    let mut scenes = Vec::new();
    let mut cast: [Option<SeqId>; NAMES.len()] = [None; NAMES.len()];
    let mut look = |engine: &Engine<'_, '_>, cast: &[Option<SeqId>; NAMES.len()], title, text| -> Result<()> {
        scenes.push(Scene::of(engine.cache(), cast, title, text)?);
        Ok(())
    };
    let prompt = &tokens[..PROMPT];
    let narrator = engine.open()?;
    engine.prefill(narrator, prompt)?;
    cast[0] = Some(narrator);
    look(engine, &cast, "A prompt of 40 tokens", "Full blocks are finalized.")?;

    let (anna, ben) = (engine.fork(narrator, PROMPT)?, engine.fork(narrator, PROMPT)?);
    cast = [Some(narrator), Some(anna), Some(ben), None];
    look(engine, &cast, "Two forks", "Three tables name the same blocks.")?;

    // Each sequence continues with tokens of its own.
    engine.prefill(anna, &tokens[PROMPT..PROMPT + 40])?;
    engine.prefill(ben, &tokens[PROMPT + 1..PROMPT + 8])?;
    engine.prefill(narrator, &tokens[PROMPT + 2..PROMPT + 22])?;
    look(engine, &cast, "Each goes on", "A shared block is copied to be written to.")?;

    engine.rewind(anna, PROMPT + 12)?;
    look(engine, &cast, "Anna goes back by 28 tokens", "What only she held can be found again.")?;

    engine.close(narrator)?;
    engine.close(ben)?;
    cast = [None, Some(anna), None, None];
    look(engine, &cast, "Narrator and Ben are closed", "Anna keeps what she shares.")?;

    let dora = engine.open()?;
    engine.prefill_prompt(dora, prompt)?;
    cast[3] = Some(dora);
    look(engine, &cast, "Dora has the same prompt", "Full blocks are found, the rest computed.")?;
    Ok(scenes)
}

impl Scene {
    fn of(
        cache: &KvCache<'_>,
        cast: &[Option<SeqId>; NAMES.len()],
        title: &'static str,
        text: &'static str,
    ) -> Result<Self> {
        let pool = cache.allocator(0)?;
        let mut lengths = [None; NAMES.len()];
        let block = |id| {
            let meta = pool.meta(id);
            let is = |of: fn(&gleed::cache::BlockMeta) -> bool| meta.is_some_and(of);
            let (finalized, cached) = (is(|meta| meta.finalized()), is(|meta| meta.is_cached()));
            Block { tokens: meta.map_or(0, |meta| meta.num_tokens()), holders: Vec::new(), finalized, cached }
        };
        let mut blocks: Vec<Block> = (0..BLOCKS as u32).map(block).collect();
        for (index, seq) in cast.iter().enumerate() {
            let Some(seq) = *seq else { continue };
            let len = cache.seq_len(seq)?;
            lengths[index] = Some(len);
            for (number, &id) in cache.block_table(seq, 0)?.blocks().iter().enumerate() {
                let tokens = len.saturating_sub(number * BLOCK_TOKENS).min(BLOCK_TOKENS);
                blocks.get_mut(id as usize).into_iter().for_each(|block| block.holders.push((index, tokens)));
            }
        }
        Ok(Self { title, text, blocks, lengths })
    }
}

fn table(scenes: &[Scene]) -> Table {
    let title = format!("A pool of {BLOCKS} blocks of {BLOCK_TOKENS} tokens (layer group 0)");
    let columns = ["after", "tokens", "used", "shared", "finalized", "cached", "free"];
    let mut table = Table::new(title, &columns);
    for scene in scenes {
        let tokens = Cell::Count(scene.lengths.iter().flatten().sum());
        let counts = scene.counts().map(Cell::Count);
        table.rows.push([Cell::Text(scene.title.into()), tokens].into_iter().chain(counts).collect());
    }
    table
}
