//! JSON Schema: from a schema to rules.
//!
//! A rule stands for a list of schemas, all of which a value has to satisfy. `$ref` and `allOf` add schemas to the
//! list. Each branch of `anyOf` is the list with one schema more. A list that was met before is the same rule, so
//! recursion ends.
//!
//! The code of a rule is made at once, except for its automata. Where one of them takes longer than the unit of work,
//! the code is given up until the automaton is there. Then the code is made from its beginning, with the automata that
//! are known ([`made`]).

mod array;
mod choice;
mod dialect;
mod envelope;
mod finish;
mod formats;
mod keyword;
mod lexeme;
mod made;
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
use self::keyword::{KNOWN, REFUSED};
use self::made::Made;
pub(super) use self::tools::check_list;
use super::calls::Mark;
use super::code::{Code, Program, Rule, rule, set_start};
use super::compile::Options;
use super::dfa::Dfa;
use super::dom::{Dom, Kind, Node};
use super::error::{ErrorKind, GrammarError};
use super::scratch::{Result, Scratch, mix};

/// The most schemas that a value has to satisfy at once.
const MOST: usize = 64;

/// A schema of a list: its node, and which of its keywords were decided elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member(u32);

impl Member {
    /// A branch of `anyOf` was chosen.
    const ANY_OF: u32 = 1;
    /// A branch of `oneOf` was chosen.
    const ONE_OF: u32 = 2;
    /// A value of `enum` was chosen.
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

/// A list of schemas, all of which a value has to satisfy.
type Set = Vec<Member, MOST>;

const BUCKETS: u32 = 1024;
/// The most errors of rules that may turn out not to be needed.
const ERRORS: usize = 32;

// The fields of a rule that waits for its code: the rule, its list of schemas, the length of the list, the next rule
// that waits, the next rule with the same hash, whether it is made only to see whether it has a text.
const RULE: u32 = 0;
const LIST: u32 = 1;
const COUNT: u32 = 2;
const NEXT: u32 = 3;
const CHAIN: u32 = 4;
const PROBE: u32 = 5;

/// The compilation of schemas.
struct Schemas<'c, 's, 't, 'o> {
    scratch: &'c mut Scratch<'s>,
    program: &'c mut Program,
    dom: Dom<'t>,
    options: &'c Options<'o>,
    /// Marks that are tokens.
    marks: &'c [Mark],
    kept: &'c mut Kept,
}

/// What is kept of the compilation of schemas between units of work.
#[derive(Default)]
pub(super) struct Kept {
    root: Node,
    table: u32,
    /// The next rule that waits for its code, or 0.
    first: u32,
    /// The last rule that waits for its code, or 0.
    last: u32,
    /// Whether the rule in the making is only a probe.
    probe: bool,
    /// The rule in the making.
    rule: Rule,
    made: Made,
    /// Pairs of branches of `oneOf` that must not have a text in common: the rule of both, the rule with the `oneOf`,
    /// the place of the `oneOf`, the next pair.
    pairs: u32,
    /// The pair with which the rule in the making goes on.
    pair: (Node, Node),
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
    /// The element of the list of tools whose rule is made next.
    element: Node,
    tools: Callable,
    /// Number of the present round of [`Schemas::expand`], for [`Dom::meet`].
    round: u32,
    /// Number of objects of the document plus 1, or 0 while no reference was met.
    objects_read: usize,
    /// Whether an object other than the root has an `$id` that is no anchor.
    has_resources: bool,
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

impl Kept {
    /// Begins the compilation of the schemas of a text whose root is known.
    pub(super) fn new(scratch: &mut Scratch<'_>, root: Node) -> Result<Self> {
        let never = scratch.record([Kind::False as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        let objects = scratch.record([Kind::Object as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        Ok(Self { root, never, objects, table: scratch.zeroed(BUCKETS as usize)?, ..Self::default() })
    }

    /// Begins with the rule of the root. Returns it.
    pub(super) fn begin(
        &mut self,
        scratch: &mut Scratch<'_>,
        program: &mut Program,
        text: &[u8],
        options: &Options<'_>,
    ) -> Result<Rule> {
        let (root, mut set) = (self.root, Set::new());
        let mut schemas = Schemas { scratch, program, dom: Dom { text }, options, marks: &[], kept: self };
        schemas.expand(&mut set, root, &mut Vec::new())?;
        schemas.rule_of(&set)
    }

    /// Goes on with the rules that wait for their code. Returns whether all have it.
    pub(super) fn go_on(
        &mut self,
        scratch: &mut Scratch<'_>,
        program: &mut Program,
        text: &[u8],
        options: &Options<'_>,
    ) -> Result<bool> {
        Schemas { scratch, program, dom: Dom { text }, options, marks: &[], kept: self }.work()
    }

    /// Checks the rules that were made. Their root and their instructions are known to be sound.
    pub(super) fn check(&self, scratch: &Scratch<'_>) -> Result<()> {
        finish::check(scratch, self.pairs, &self.errors)
    }
}

impl Schemas<'_, '_, '_, '_> {
    /// Goes on with the code of the rules that wait for it. Returns whether all have it.
    fn work(&mut self) -> Result<bool> {
        while self.kept.first != 0 {
            if self.scratch.is_spent() {
                return Ok(false);
            }
            let waiting = self.kept.first;
            let (list, count) = (self.scratch.get(waiting, LIST), self.scratch.get(waiting, COUNT));
            let mut set = Set::new();
            let words = self.scratch.slice(list, count).iter();
            // The list is as long as it was when it was noted, so it fits.
            for word in words {
                let _fits = set.push(Member(*word));
            }
            self.kept.rule = self.scratch.get(waiting, RULE);
            self.kept.probe = self.scratch.get(waiting, PROBE) != 0;
            let code = match self.kept.made.go_on(self.scratch) {
                Ok(false) => return Ok(false),
                Ok(true) => self.code(&set),
                Err(error) => Err(error),
            };
            let code = match code {
                Err(GrammarError { kind: ErrorKind::Unfinished, .. }) => return Ok(false),
                Err(error) if self.kept.probe && !matches!(error.kind, ErrorKind::ScratchTooSmall { .. }) => {
                    // It is an error only if the rule is needed elsewhere. Until then the rule may have any text.
                    self.kept.errors.push((self.kept.rule, error)).map_err(|_| error)?;
                    self.program.end(self.scratch)?
                }
                other => other?,
            };
            set_start(self.scratch, self.kept.rule, code);
            self.end_rule();
            self.kept.first = self.scratch.get(waiting, NEXT);
        }
        self.kept.last = 0;
        Ok(true)
    }

    /// Forgets what was kept of the rule in the making.
    fn end_rule(&mut self) {
        (self.kept.made, self.kept.pair) = (Made::default(), (0, 0));
    }

    /// Returns the rule of a list of schemas.
    fn rule_of(&mut self, set: &Set) -> Result<Rule> {
        let hash = set.iter().fold(0, |hash, member| mix(hash, member.0)) & (BUCKETS - 1);
        let chain = self.scratch.get(self.kept.table, hash);
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
        let waiting = self.scratch.record([rule, list, set.len() as u32, 0, chain, u32::from(self.kept.probe)])?;
        self.scratch.set(self.kept.table, hash, waiting);
        match self.kept.last {
            0 => self.kept.first = waiting,
            last => self.scratch.set(last, NEXT, waiting),
        }
        self.kept.last = waiting;
        Ok(rule)
    }

    /// Adds a schema to a list, with all schemas that it includes. `path` are the schemas that led to it.
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
        if path.is_empty() {
            self.kept.round = self.kept.round.saturating_add(1);
        }
        // If it was met in this round, all schemas that it includes are in the list. Many ways can lead to one schema:
        // their number can double with each schema on the way.
        if !self.dom.meet(self.scratch, node, self.kept.round) {
            return Ok(());
        }
        // A schema of which a choice was made is not equal to this one and is added again: in a circle of choices
        // nothing was chosen yet.
        if set.contains(&Member::new(node, 0)) {
            return Ok(());
        }
        path.push(node).map_err(|_| self.too_many(node))?;
        let mut child = self.dom.child(self.scratch, node);
        while child != 0 {
            self.scratch.spend(1);
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

    /// Returns the first element of the list that is the value of a keyword.
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
