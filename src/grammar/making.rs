//! A compilation, piece by piece.

use super::ast::Choice;
use super::check::{Checking, Marking};
use super::code::{Program, Rule, rule, set_start};
use super::compile::{Grammar, Options, Source, identity};
use super::dom;
use super::error::{ErrorKind, GrammarError};
use super::json::{first_char, syntax};
use super::lower::Lowering;
use super::pack::Packing;
use super::regex::{Parser, Place};
use super::rest::Filling;
use super::rules;
use super::schema::{self, Kept};
use super::scratch::{Result, Scratch};
use crate::mem::{Arena, MemoryError};
use crate::num::Xxh64;

/// A [`Grammar`] in the making. The work is done in units, so that a host with a deadline can spread it. The grammar
/// has the same bytes however the work is cut.
///
/// [Example](crate::grammar#in-pieces).
pub struct GrammarBuild<'b, 'm> {
    source: Source<'b>,
    options: Options<'b>,
    scratch: Scratch<'b>,
    program: Program,
    /// The rules of a schema or of a list of tools. `None` for other sources.
    schemas: Option<Kept>,
    root: Rule,
    packing: Packing,
    stage: Stage<'b>,
    words: Option<&'m mut [u32]>,
    /// Why the grammar is refused.
    error: Option<GrammarError>,
}

impl core::fmt::Debug for GrammarBuild<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GrammarBuild")
            .field("source", &self.source)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The stages of the work: first everything is compiled and measured, then it is written.
enum Stage<'t> {
    Begin,
    Read(dom::Reading<'t>),
    Schemas,
    Tools,
    Gbnf(rules::Reading<'t>),
    Regex(Place<Utf8<'t>>, Choice),
    Lower(Lowering),
    Mark(Marking),
    Check(Checking),
    Pack,
    Measured,
    Write,
    /// The hash of the grammar so far, and the number of words that are in it.
    Identify(Xxh64, usize),
    Rests(Filling),
    Done,
}

impl<'b, 'm> GrammarBuild<'b, 'm> {
    /// Begins a compilation in `scratch`. [`Grammar::scratch_len`] words are enough for most grammars. If the scratch
    /// is too small, [`GrammarBuild::step`] returns an error, and the host begins again with more.
    pub fn new(source: Source<'b>, options: Options<'b>, scratch: &'b mut [u32]) -> Self {
        Self {
            source,
            options,
            scratch: Scratch::new(scratch),
            program: Program::default(),
            schemas: None,
            root: 0,
            packing: Packing::default(),
            stage: Stage::Begin,
            words: None,
            error: None,
        }
    }

    /// Goes on for `units` units, at least one. A unit is the work of some ten microseconds, or more where one object
    /// of a schema or one state of an automaton takes more. Returns whether the bytes of the grammar are known or,
    /// after [`GrammarBuild::place`], whether the grammar is finished.
    ///
    /// # Errors
    /// The grammar is refused, now or before, or takes more scratch.
    pub fn step(&mut self, units: usize) -> Result<bool> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for _ in 0..units.max(1) {
            if self.rests() {
                break;
            }
            self.scratch.begin_unit();
            while !self.scratch.is_spent() && !self.rests() {
                self.go_on().inspect_err(|error| self.error = Some(*error))?;
            }
        }
        Ok(self.rests())
    }

    /// Returns the work so far: the number of records that were made, and of those that were looked at in loops over
    /// many. It depends on the grammar only.
    pub fn work(&self) -> u64 {
        self.scratch.work()
    }

    /// Returns the number of bytes of memory that the grammar takes.
    ///
    /// # Errors
    /// [`ErrorKind::Unfinished`] before [`GrammarBuild::step`] has returned true.
    pub fn bytes(&self) -> Result<usize> {
        if !matches!(self.stage, Stage::Measured) && self.words.is_none() {
            return Err(unfinished());
        }
        let mut arena = Arena::measuring();
        arena.slice::<u32>("grammar", self.len()).map_err(memory)?;
        Ok(arena.used())
    }

    /// Gives the grammar its memory, which starts at a multiple of [`crate::mem::ALIGN`].
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] if the memory does not suit [`GrammarBuild::bytes`]; [`ErrorKind::Unfinished`] unless the
    /// bytes have just become known.
    pub fn place(&mut self, memory: &'m mut [u8]) -> Result<()> {
        if !matches!(self.stage, Stage::Measured) {
            return Err(unfinished());
        }
        let mut arena = Arena::new(memory).map_err(self::memory)?;
        let words = arena.slice::<u32>("grammar", self.len()).map_err(self::memory)?;
        self.packing.begin(&mut self.scratch, words);
        (self.words, self.stage) = (Some(words), Stage::Write);
        Ok(())
    }

    /// Returns the finished grammar, once.
    ///
    /// # Errors
    /// [`ErrorKind::Unfinished`] before [`GrammarBuild::step`] has returned true after [`GrammarBuild::place`], and
    /// when called again.
    pub fn finish(&mut self) -> Result<Grammar<'m>> {
        let is_done = matches!(self.stage, Stage::Done);
        let words = self.words.take_if(|_| is_done).ok_or_else(unfinished)?;
        Ok(Grammar::made(words))
    }

    /// Returns whether there is nothing to do until the host has done something.
    fn rests(&self) -> bool {
        matches!(self.stage, Stage::Measured | Stage::Done)
    }

    /// Returns the number of words of the grammar, with those of the table behind it.
    fn len(&self) -> usize {
        (self.packing.words() as usize).saturating_mul(if self.options.close { 2 } else { 1 })
    }

    /// Goes on with the present stage, and to the next one at its end.
    fn go_on(&mut self) -> Result<()> {
        let (scratch, program, options) = (&mut self.scratch, &mut self.program, &self.options);
        let text = self.source.text();
        let next = match &mut self.stage {
            Stage::Begin => Some(begin(self.source, scratch)?),
            Stage::Read(reading) => match reading.go_on(scratch)? {
                None => None,
                Some(root) => Some(self.begin_schemas(root)?),
            },
            Stage::Schemas => {
                let Some(schemas) = &mut self.schemas else { return Err(unfinished()) };
                schemas.go_on(scratch, program, text, options)?.then(|| Stage::Mark(Marking::new(program)))
            }
            Stage::Tools => {
                let (Some(schemas), Source::Tools(calls)) = (&mut self.schemas, self.source) else {
                    return Err(unfinished());
                };
                schemas.go_on_tools(scratch, program, calls, options)?.map(|root| {
                    self.root = root;
                    Stage::Mark(Marking::new(program))
                })
            }
            Stage::Gbnf(reading) => reading.go_on(scratch, program)?.map(|root| {
                self.root = root;
                Stage::Mark(Marking::new(program))
            }),
            Stage::Regex(place, choice) => {
                let mut parser = Parser::resumed(scratch, place.clone());
                let parsed = parser.go_on(choice)?;
                *place = parser.place();
                match parsed {
                    None => None,
                    Some(ast) => Some(Stage::Lower(Lowering::new(ast, program.end(scratch)?))),
                }
            }
            Stage::Lower(lowering) => match lowering.go_on(scratch, program)? {
                None => None,
                Some(start) => {
                    self.root = rule(scratch, 0)?;
                    set_start(scratch, self.root, start);
                    Some(Stage::Mark(Marking::new(program)))
                }
            },
            Stage::Mark(marking) => match marking.go_on(scratch) {
                false => None,
                true => {
                    self.schemas.as_ref().map_or(Ok(()), |schemas| schemas.check_tools(scratch))?;
                    Some(Stage::Check(Checking::new(scratch, self.root)?))
                }
            },
            Stage::Check(checking) => match (checking.go_on(scratch), &self.schemas) {
                (Ok(false), _) => None,
                (Ok(true), schemas) => {
                    schemas.as_ref().map_or(Ok(()), |schemas| schemas.check(scratch))?;
                    self.packing = Packing::new(scratch, self.root)?;
                    Some(Stage::Pack)
                }
                // A value can begin with itself only by a `$ref`.
                (Err(GrammarError { kind: ErrorKind::LeftRecursion, at }), Some(_)) => {
                    return Err(GrammarError { kind: ErrorKind::Unsupported("$ref"), at });
                }
                (Err(error), _) => return Err(error),
            },
            Stage::Pack => self.packing.place(scratch)?.then_some(Stage::Measured),
            _ => {
                self.write();
                return Ok(());
            }
        };
        if let Some(next) = next {
            self.stage = next;
        }
        Ok(())
    }

    /// Begins with the rules of a schema, or of a list of tools.
    fn begin_schemas(&mut self, root: dom::Node) -> Result<Stage<'b>> {
        let mut schemas = Kept::new(&mut self.scratch, root)?;
        let stage = if let Source::Tools(calls) = self.source {
            schemas.begin_tools(&mut self.scratch, calls)?;
            Stage::Tools
        } else {
            self.root = schemas.begin(&mut self.scratch, &mut self.program, self.source.text(), &self.options)?;
            Stage::Schemas
        };
        self.schemas = Some(schemas);
        Ok(stage)
    }

    /// Goes on writing the grammar.
    fn write(&mut self) {
        let Some(whole) = self.words.as_deref_mut() else { return };
        let (words, rests) = whole.split_at_mut_checked(self.packing.words() as usize).unwrap_or_default();
        let next = match &mut self.stage {
            Stage::Write => {
                let is_done = self.packing.write(&mut self.scratch, words);
                is_done.then(|| Stage::Identify(identity(self.source, &self.options), 0))
            }
            Stage::Identify(hash, at) => {
                const PIECE: usize = 4096;
                self.scratch.spend(PIECE / 32);
                let piece = words.get(*at..words.len().min(at.saturating_add(PIECE))).unwrap_or_default();
                let (blocks, rest) = piece.as_chunks::<16>();
                blocks.iter().for_each(|block| hash.update(block.map(u32::to_le_bytes).as_flattened()));
                rest.iter().for_each(|word| hash.update(&word.to_le_bytes()));
                *at = at.saturating_add(PIECE);
                (*at >= words.len()).then(|| {
                    let identity = hash.clone().finish();
                    let halves = [identity as u32, (identity >> 32) as u32];
                    words.iter_mut().skip(4).zip(halves).for_each(|(place, half)| *place = half);
                    if rests.is_empty() { Stage::Done } else { Stage::Rests(Filling::new()) }
                })
            }
            Stage::Rests(filling) => filling.go_on(&mut self.scratch, words, rests).then_some(Stage::Done),
            _ => None,
        };
        if let Some(next) = next {
            self.stage = next;
        }
    }
}

fn begin<'t>(source: Source<'t>, scratch: &mut Scratch<'_>) -> Result<Stage<'t>> {
    scratch.spend(source.text().len() / 256);
    match source {
        Source::Schema(text) => dom::Reading::new(scratch, text).map(Stage::Read),
        Source::Tools(calls) => {
            schema::check_list(calls.tools)?;
            dom::Reading::new(scratch, calls.tools).map(Stage::Read)
        }
        Source::Gbnf(text) => rules::Reading::new(scratch, text).map(Stage::Gbnf),
        Source::Regex(text) => match core::str::from_utf8(text) {
            Ok(_) => Ok(Stage::Regex(Place::new(Utf8(text)), Choice::default())),
            Err(error) => syntax("not UTF-8", error.valid_up_to()),
        },
    }
}

fn unfinished() -> GrammarError {
    GrammarError { kind: ErrorKind::Unfinished, at: 0 }
}

fn memory(error: MemoryError) -> GrammarError {
    GrammarError { kind: ErrorKind::Memory(error), at: 0 }
}

/// The characters of UTF-8 that was checked.
#[derive(Clone)]
struct Utf8<'t>(&'t [u8]);

impl Iterator for Utf8<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (char, length) = first_char(self.0)?;
        self.0 = self.0.get(length..)?;
        Some(char)
    }
}
