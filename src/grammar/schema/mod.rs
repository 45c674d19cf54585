//! JSON Schema: from a schema to rules.
//!
//! A rule stands for a list of schemas that a value satisfies all at once: `$ref` and `allOf` add to the list, each
//! branch of `anyOf` is the list with one schema more. Lists that were met before are the same rule, so recursion ends.

mod array;
mod choice;
mod dialect;
mod envelope;
mod finish;
mod formats;
mod keyword;
mod members;
mod number;
mod object;
mod reference;
mod string;
mod tools;
mod value;

use heapless::Vec;

use self::dialect::Dialect;
use self::envelope::Callable;
use self::finish::check;
use self::keyword::{KNOWN, REFUSED};
pub(super) use self::tools::compile_calls;
use super::calls::Mark;
use super::code::{self, Code, Codec, Program, Rule, rule, set_start};
use super::compile::{Options, Whitespace};
use super::dfa::{self, Dfa};
use super::dom::{self, Dom, Kind, Node};
use super::error::{ErrorKind, GrammarError};
use super::scratch::{Result, Scratch, mix};

/// The most schemas that a value has to satisfy at once.
const MOST: usize = 64;

/// A schema of a list: its node, and what of it was decided elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member(u32);

impl Member {
    /// A branch of `anyOf`, of `oneOf`, or a value of `enum` was chosen.
    const ANY_OF: u32 = 1;
    const ONE_OF: u32 = 2;
    const ENUM: u32 = 4;
    /// The node is no schema, but the value itself.
    const VALUE: u32 = 8;

    fn new(node: Node, flags: u32) -> Self {
        Self(node << 4 | flags)
    }

    fn node(self) -> Node {
        self.0 >> 4
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// Schemas that a value satisfies all at once.
type Set = Vec<Member, MOST>;

const BUCKETS: u32 = 1024;
/// The most errors of rules that may turn out not to be needed.
const ERRORS: usize = 32;

// The fields of a rule that waits for its code: the rule, its list, how long it is, the next to wait, the next with the
// same hash, whether it is made only to see whether it has a text.
const RULE: u32 = 0;
const LIST: u32 = 1;
const COUNT: u32 = 2;
const NEXT: u32 = 3;
const CHAIN: u32 = 4;
const PROBE: u32 = 5;

/// What is compiled.
struct Schemas<'c, 's, 't, 'o> {
    scratch: &'c mut Scratch<'s>,
    program: &'c mut Program,
    dom: Dom<'t>,
    root: Node,
    options: &'c Options<'o>,
    table: u32,
    /// The first and the last rule that wait or waited for their code.
    first: u32,
    last: u32,
    /// Whether the rule in the making is only a probe.
    probe: bool,
    /// The rule in the making.
    rule: Rule,
    /// Pairs of branches of `oneOf` that may have no text in common: the rule of both, that of the `oneOf`, where it is.
    pairs: u32,
    errors: Vec<(Rule, GrammarError), ERRORS>,
    /// A schema without any value.
    never: Node,
    /// A schema of any object.
    objects: Node,
    shared: Shared,
    /// How values are written.
    dialect: Dialect,
    /// Whether the object in the making is the arguments of a tool, and not a value in them.
    is_arguments: bool,
    /// Marks that are tokens.
    marks: &'c [Mark],
}

/// Automata that many rules use.
#[derive(Default)]
struct Shared {
    space: Dfa,
    string: Dfa,
    integer: Dfa,
    number: Dfa,
    marks: [Dfa; 6],
}

/// Compiles the text of a schema and returns the rule of its values.
pub(super) fn compile(
    scratch: &mut Scratch<'_>,
    program: &mut Program,
    text: &[u8],
    options: &Options<'_>,
) -> Result<Rule> {
    let mut schemas = Schemas::new(scratch, program, text, options)?;
    let (root, mut set) = (schemas.root, Set::new());
    schemas.expand(&mut set, root, &mut Vec::new())?;
    let rule = schemas.rule_of(&set)?;
    schemas.work()?;
    let (pairs, errors) = (schemas.pairs, schemas.errors);
    check(scratch, program, rule, Callable::default(), (pairs, &errors))
}

impl<'c, 's, 't, 'o> Schemas<'c, 's, 't, 'o> {
    fn new(
        scratch: &'c mut Scratch<'s>,
        program: &'c mut Program,
        text: &'t [u8],
        options: &'c Options<'o>,
    ) -> Result<Self> {
        let root = dom::read(text, scratch)?;
        let never = scratch.record([Kind::False as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        let objects = scratch.record([Kind::Object as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        let table = scratch.zeroed(BUCKETS as usize)?;
        Ok(Self {
            scratch,
            program,
            dom: Dom { text },
            root,
            options,
            table,
            first: 0,
            last: 0,
            probe: false,
            rule: 0,
            pairs: 0,
            errors: Vec::new(),
            never,
            objects,
            shared: Shared::default(),
            dialect: Dialect::Json,
            is_arguments: false,
            marks: &[],
        })
    }
}

impl Schemas<'_, '_, '_, '_> {
    /// Makes the code of all rules that wait for it.
    fn work(&mut self) -> Result<()> {
        let mut waiting = self.first;
        while waiting != 0 {
            let (list, count) = (self.scratch.get(waiting, LIST), self.scratch.get(waiting, COUNT));
            let mut set = Set::new();
            let words = self.scratch.slice(list, count).iter();
            // As long as it was when it was noted, so that it fits.
            for word in words {
                let _fits = set.push(Member(*word));
            }
            self.rule = self.scratch.get(waiting, RULE);
            self.probe = self.scratch.get(waiting, PROBE) != 0;
            let code = match self.code(&set) {
                Err(error) if self.probe && !matches!(error.kind, ErrorKind::ScratchTooSmall { .. }) => {
                    // It is an error only if the rule is needed elsewhere. Until then it may have any text.
                    self.errors.push((self.rule, error)).map_err(|_| error)?;
                    self.program.end(self.scratch)?
                }
                other => other?,
            };
            set_start(self.scratch, self.rule, code);
            waiting = self.scratch.get(waiting, NEXT);
        }
        (self.first, self.last) = (0, 0);
        Ok(())
    }

    /// Returns the rule of a list of schemas.
    fn rule_of(&mut self, set: &Set) -> Result<Rule> {
        let hash = set.iter().fold(0, |hash, member| mix(hash, member.0)) & (BUCKETS - 1);
        let chain = self.scratch.get(self.table, hash);
        let mut known = chain;
        while known != 0 {
            let (list, count) = (self.scratch.get(known, LIST), self.scratch.get(known, COUNT));
            if self.scratch.slice(list, count).iter().eq(set.iter().map(|member| &member.0)) {
                return Ok(self.scratch.get(known, RULE));
            }
            known = self.scratch.get(known, CHAIN);
        }
        let at = set.first().map_or(0, |member| self.dom.at(self.scratch, member.node()));
        let rule = rule(self.scratch, at)?;
        let list = self.scratch.zeroed(set.len())?;
        for (index, member) in (0..).zip(set) {
            self.scratch.set(list, index, member.0);
        }
        let waiting = self.scratch.record([rule, list, set.len() as u32, 0, chain, u32::from(self.probe)])?;
        self.scratch.set(self.table, hash, waiting);
        match self.last {
            0 => self.first = waiting,
            last => self.scratch.set(last, NEXT, waiting),
        }
        self.last = waiting;
        Ok(rule)
    }

    /// Adds a schema to a list, with all that it includes. `path` are the schemas that led to it.
    fn expand(&mut self, set: &mut Set, node: Node, path: &mut Vec<Node, MOST>) -> Result<()> {
        match self.dom.kind(self.scratch, node) {
            Kind::True => return Ok(()),
            Kind::False => return self.include(set, Member::new(node, 0)),
            Kind::Object => {}
            _ => return self.wrong("schema", node),
        }
        if path.contains(&node) {
            return self.refused("$ref", self.dom.at(self.scratch, node));
        }
        // One of which a choice was made is added again: in a circle of choices nothing was chosen yet.
        if set.contains(&Member::new(node, 0)) {
            return Ok(());
        }
        path.push(node).map_err(|_| self.too_many(node))?;
        let mut child = self.dom.child(self.scratch, node);
        while child != 0 {
            match self.keyword(child) {
                Some("$ref") => {
                    let target = self.reference(child)?;
                    self.expand(set, target, path)?;
                }
                Some("allOf") => {
                    let mut branch = self.list(child, "allOf")?;
                    while branch != 0 {
                        self.expand(set, branch, path)?;
                        branch = self.dom.next(self.scratch, branch);
                    }
                }
                Some(_) => self.include(set, Member::new(node, 0))?,
                None => {}
            }
            child = self.dom.next(self.scratch, child);
        }
        path.pop();
        Ok(())
    }

    fn include(&self, set: &mut Set, member: Member) -> Result<()> {
        if set.contains(&member) {
            return Ok(());
        }
        set.push(member).map_err(|member| self.too_many(member.node()))
    }

    /// Returns the keyword that the name of a member is, unless it is to be ignored.
    fn keyword(&self, child: Node) -> Option<&'static str> {
        let name = self.dom.name(self.scratch, child);
        let is = |keyword: &&&'static str| name.clone().eq(keyword.bytes().map(u32::from));
        let keyword = *KNOWN.iter().chain(REFUSED).find(is)?;
        let ignored = keyword != "format" && self.options.ignore.contains(&keyword);
        (!ignored).then_some(keyword)
    }

    /// Returns the value of a keyword of a schema, or 0.
    fn value(&self, member: Member, keyword: &'static str) -> Node {
        if member.has(Member::VALUE) || (keyword != "format" && self.options.ignore.contains(&keyword)) {
            return 0;
        }
        self.dom.member(self.scratch, member.node(), keyword)
    }

    /// Returns the first element of the list that a keyword has.
    fn list(&self, node: Node, keyword: &'static str) -> Result<Node> {
        if self.dom.kind(self.scratch, node) != Kind::Array {
            return self.wrong(keyword, node);
        }
        Ok(self.dom.child(self.scratch, node))
    }

    /// Returns the code of the values of a list of schemas, or 0 if there are none.
    fn code(&mut self, set: &Set) -> Result<Code> {
        self.refuse(set)?;
        for member in set {
            let any_of = self.value(*member, "anyOf");
            if any_of != 0 && !member.has(Member::ANY_OF) {
                return self.any_of(set, *member, any_of);
            }
            let one_of = self.value(*member, "oneOf");
            if one_of != 0 && !member.has(Member::ONE_OF) {
                return self.one_of(set, *member, one_of);
            }
        }
        self.values(set)
    }

    /// Refuses keywords that are not supported.
    fn refuse(&self, set: &Set) -> Result<()> {
        for member in set.iter().filter(|member| !member.has(Member::VALUE)) {
            let mut child = self.dom.child(self.scratch, member.node());
            while child != 0 {
                if let Some(keyword) = self.keyword(child).filter(|keyword| REFUSED.contains(keyword)) {
                    return self.refused(keyword, self.dom.name_at(self.scratch, child));
                }
                child = self.dom.next(self.scratch, child);
            }
        }
        Ok(())
    }

    /// Returns the code of white space between lexemes.
    fn space(&mut self, then: Code) -> Result<Code> {
        let expression: &[u8] = match self.whitespace() {
            Whitespace::Compact | Whitespace::Spaced => return Ok(then),
            Whitespace::Bounded => b"( |\\n[ \\t]{0,40})?",
            Whitespace::Any => b"[ \\t\\r\\n]*",
        };
        if self.shared.space == 0 {
            self.shared.space = self.expression(expression, 0, true)?;
        }
        self.program.text(self.scratch, self.shared.space, Codec::Raw, then)
    }

    /// Returns the code of white space, then a rule. The space is in a rule of its own with it: so the rule is called once, and
    /// not again behind each blank.
    fn spaced_call(&mut self, rule: Rule, then: Code) -> Result<Code> {
        if matches!(self.whitespace(), Whitespace::Compact | Whitespace::Spaced) {
            return self.program.call(self.scratch, rule, then);
        }
        let mut spaced = code::spaced(self.scratch, rule);
        if spaced == 0 {
            let end = self.program.end(self.scratch)?;
            let call = self.program.call(self.scratch, rule, end)?;
            let start = self.space(call)?;
            spaced = code::rule(self.scratch, code::rule_at(self.scratch, rule))?;
            code::set_start(self.scratch, spaced, start);
            code::set_spaced(self.scratch, rule, spaced);
        }
        self.program.call(self.scratch, spaced, then)
    }

    /// Returns the code of a punctuation mark.
    fn mark(&mut self, mark: u8, then: Code) -> Result<Code> {
        let index = b"{}[],:".iter().position(|other| *other == mark).unwrap_or(0);
        if self.shared.marks.get(index) == Some(&0) {
            let spaced = self.whitespace() == Whitespace::Spaced && matches!(mark, b',' | b':');
            let text = [u32::from(mark), 0x20];
            let dfa = dfa::literal(self.scratch, text.into_iter().take(1 + usize::from(spaced)))?;
            self.shared.marks.get_mut(index).into_iter().for_each(|place| *place = dfa);
        }
        let dfa = self.shared.marks.get(index).copied().unwrap_or(0);
        self.program.text(self.scratch, dfa, Codec::Raw, then)
    }

    /// Returns the code of a mark that ends a value, after white space.
    fn closing(&mut self, mark: u8) -> Result<Code> {
        let end = self.program.end(self.scratch)?;
        let close = self.mark(mark, end)?;
        self.space(close)
    }

    fn wrong<T>(&self, keyword: &'static str, node: Node) -> Result<T> {
        Err(GrammarError { kind: ErrorKind::Value(keyword), at: self.dom.at(self.scratch, node) })
    }

    fn refused<T>(&self, keyword: &'static str, at: usize) -> Result<T> {
        Err(GrammarError { kind: ErrorKind::Unsupported(keyword), at })
    }

    fn too_many(&self, node: Node) -> GrammarError {
        GrammarError { kind: ErrorKind::Unsupported("allOf"), at: self.dom.at(self.scratch, node) }
    }
}
