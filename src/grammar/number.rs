//! Numbers with bounds as automata over their decimals.

use super::ast::{Ast, Expr, List, OPEN, make};
use super::class;
use super::decimal::Decimal;
use super::dfa::{Builder, Dfa, Growing, append, chained, key};
use super::error::{ErrorKind, GrammarError};
use super::scratch::{Result, Scratch, mix};

/// A set of decimals, before bounds apply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `-?(0|[1-9][0-9]*)`
    Integer,
    /// Integers without `-0`.
    IntegerOneZero,
    /// JSON's numbers.
    Number,
    /// Numbers without an exponent, in which zero has no sign.
    DecimalOneZero,
}

/// A bound, and on which side the numbers lie.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    pub(super) lower: bool,
    pub(super) exclusive: bool,
}

/// Returns the expression of a form. The expression of [`Form::IntegerOneZero`] also has decimals that are no integers,
/// which the caller takes out.
pub(super) fn form(scratch: &mut Scratch<'_>, form: Form) -> Result<Ast> {
    let mut maker = Maker { scratch };
    let integer = maker.integer()?;
    let fraction = match form {
        Form::Integer | Form::IntegerOneZero => 0,
        _ => maker.fraction()?,
    };
    let exponent = if form == Form::Number { maker.exponent()? } else { 0 };
    let positive = maker.sequence(&[integer, fraction, exponent])?;
    let negative = match form {
        Form::IntegerOneZero | Form::DecimalOneZero => maker.above(b"0", b"", true)?,
        _ => {
            let (integer, fraction) = (maker.integer()?, if fraction == 0 { 0 } else { maker.fraction()? });
            let exponent = if form == Form::Number { maker.exponent()? } else { 0 };
            maker.sequence(&[integer, fraction, exponent])?
        }
    };
    maker.signed(positive, negative)
}

/// Returns the expression of the decimals on the right side of a bound.
pub(super) fn bounded(scratch: &mut Scratch<'_>, bound: &Bound) -> Result<Ast> {
    let mut maker = Maker { scratch };
    let Bound { value, lower, exclusive } = bound;
    let (integer, fraction) = (value.integer(), value.fraction());
    let zero = value.is_zero();
    // On the far side of zero from the bound, all numbers are in range or none is.
    let (positive, negative) = match (*lower, value.negative) {
        (true, false) => (Some(maker.above(integer, fraction, *exclusive)?), None),
        (true, true) => (Some(maker.all()?), Some(maker.below(integer, fraction, *exclusive)?)),
        (false, false) if zero => {
            (Some(maker.below(integer, fraction, *exclusive)?), Some(maker.above(b"0", b"", *exclusive)?))
        }
        (false, false) => (Some(maker.below(integer, fraction, *exclusive)?), Some(maker.all()?)),
        (false, true) => (None, Some(maker.above(integer, fraction, *exclusive)?)),
    };
    match (positive, negative) {
        (Some(positive), Some(negative)) => maker.signed(positive, negative),
        (Some(positive), None) => Ok(positive),
        (None, negative) => {
            let minus = maker.char(b'-', b'-')?;
            maker.sequence(&[minus, negative.unwrap_or(0)])
        }
    }
}

/// Makes expressions of decimals without a sign.
struct Maker<'p, 's> {
    scratch: &'p mut Scratch<'s>,
}

impl Maker<'_, '_> {
    fn char(&mut self, low: u8, high: u8) -> Result<Ast> {
        let class = class::of(self.scratch, &[(u32::from(low), u32::from(high))])?;
        make(self.scratch, Expr::Class(class))
    }

    fn digits(&mut self, min: u32, max: u32) -> Result<Ast> {
        let digit = self.char(b'0', b'9')?;
        make(self.scratch, Expr::Repeat(digit, min, max))
    }

    /// Returns the expression of the parts one after the other. Parts that are 0 are left out.
    fn sequence(&mut self, parts: &[Ast]) -> Result<Ast> {
        let mut list = List::default();
        parts.iter().filter(|part| **part != 0).for_each(|part| list.push(self.scratch, *part));
        make(self.scratch, Expr::Sequence(list.first))
    }

    fn optional(&mut self, inner: Ast) -> Result<Ast> {
        make(self.scratch, Expr::Repeat(inner, 0, 1))
    }

    fn choice(&mut self, list: List) -> Result<Ast> {
        make(self.scratch, Expr::Choice(list.first))
    }

    /// `positive|-negative`
    fn signed(&mut self, positive: Ast, negative: Ast) -> Result<Ast> {
        let minus = self.char(b'-', b'-')?;
        let negative = self.sequence(&[minus, negative])?;
        let mut list = List::default();
        list.push(self.scratch, positive);
        list.push(self.scratch, negative);
        self.choice(list)
    }

    /// `0|[1-9][0-9]*`
    fn integer(&mut self) -> Result<Ast> {
        let mut list = List::default();
        let zero = self.char(b'0', b'0')?;
        let (first, rest) = (self.char(b'1', b'9')?, self.digits(0, OPEN)?);
        let other = self.sequence(&[first, rest])?;
        list.push(self.scratch, zero);
        list.push(self.scratch, other);
        self.choice(list)
    }

    /// `(\.[0-9]+)?`
    fn fraction(&mut self) -> Result<Ast> {
        let (point, digits) = (self.char(b'.', b'.')?, self.digits(1, OPEN)?);
        let fraction = self.sequence(&[point, digits])?;
        self.optional(fraction)
    }

    /// `([eE][+-]?[0-9]+)?`
    fn exponent(&mut self) -> Result<Ast> {
        let letter = class::of(self.scratch, &[(0x45, 0x45), (0x65, 0x65)])?;
        let letter = make(self.scratch, Expr::Class(letter))?;
        let sign = class::of(self.scratch, &[(0x2B, 0x2B), (0x2D, 0x2D)])?;
        let sign = make(self.scratch, Expr::Class(sign))?;
        let (sign, digits) = (self.optional(sign)?, self.digits(1, OPEN)?);
        let exponent = self.sequence(&[letter, sign, digits])?;
        self.optional(exponent)
    }

    fn all(&mut self) -> Result<Ast> {
        let (integer, fraction) = (self.integer()?, self.fraction()?);
        self.sequence(&[integer, fraction])
    }

    fn text(&mut self, digits: &[u8]) -> Result<Ast> {
        let mut list = List::default();
        for digit in digits {
            let digit = self.char(*digit, *digit)?;
            list.push(self.scratch, digit);
        }
        make(self.scratch, Expr::Sequence(list.first))
    }

    /// Returns the expression of digits that agree with `digits` before place `index` and have a greater or a lesser
    /// digit there. Behind it they have from `rest.0` to `rest.1` digits. 0 if there is no such digit.
    fn differing(&mut self, digits: &[u8], index: usize, greater: bool, least: u8, rest: (u32, u32)) -> Result<Ast> {
        let digit = digits.get(index).copied().unwrap_or(b'0');
        let (low, high) = if greater { (digit.saturating_add(1), b'9') } else { (least, digit.saturating_sub(1)) };
        if low > high {
            return Ok(0);
        }
        let same = self.text(digits.get(..index).unwrap_or(&[]))?;
        let (other, rest) = (self.char(low, high)?, self.digits(rest.0, rest.1)?);
        self.sequence(&[same, other, rest])
    }

    /// Adds to `list` the greater or lesser integers with as many digits as `integer`, with any fraction.
    fn other_integers(&mut self, list: &mut List, integer: &[u8], greater: bool) -> Result<()> {
        for index in 0..integer.len() {
            let least = if index == 0 && integer.len() > 1 { b'1' } else { b'0' };
            let rest = (integer.len() - index).saturating_sub(1) as u32;
            let part = self.differing(integer, index, greater, least, (rest, rest))?;
            if part != 0 {
                let fraction = self.fraction()?;
                let part = self.sequence(&[part, fraction])?;
                list.push(self.scratch, part);
            }
        }
        Ok(())
    }

    /// Returns the expression of the decimals of at least this value or, if `exclusive`, of more.
    fn above(&mut self, integer: &[u8], fraction: &[u8], exclusive: bool) -> Result<Ast> {
        let mut list = List::default();
        let (first, rest) = (self.char(b'1', b'9')?, self.digits(integer.len() as u32, OPEN)?);
        let any = self.fraction()?;
        let longer = self.sequence(&[first, rest, any])?;
        list.push(self.scratch, longer);
        self.other_integers(&mut list, integer, true)?;
        let mut tails = List::default();
        for index in 0..fraction.len() {
            let part = self.differing(fraction, index, true, b'0', (0, OPEN))?;
            if part != 0 {
                tails.push(self.scratch, part);
            }
        }
        let same = self.text(fraction)?;
        let end = if exclusive { self.more_than_zeros()? } else { self.digits(u32::from(fraction.is_empty()), OPEN)? };
        let end = self.sequence(&[same, end])?;
        tails.push(self.scratch, end);
        let (point, tails) = (self.char(b'.', b'.')?, self.choice(tails)?);
        let tail = self.sequence(&[point, tails])?;
        let tail = if fraction.is_empty() && !exclusive { self.optional(tail)? } else { tail };
        let same = self.text(integer)?;
        let same = self.sequence(&[same, tail])?;
        list.push(self.scratch, same);
        self.choice(list)
    }

    /// `[0-9]*[1-9][0-9]*`
    fn more_than_zeros(&mut self) -> Result<Ast> {
        let (before, digit, after) = (self.digits(0, OPEN)?, self.char(b'1', b'9')?, self.digits(0, OPEN)?);
        self.sequence(&[before, digit, after])
    }

    /// Returns the expression of the decimals of at most this value or, if `exclusive`, of less.
    fn below(&mut self, integer: &[u8], fraction: &[u8], exclusive: bool) -> Result<Ast> {
        let mut list = List::default();
        if integer.len() > 1 {
            let (zero, first) = (self.char(b'0', b'0')?, self.char(b'1', b'9')?);
            let rest = self.digits(0, integer.len().saturating_sub(2) as u32)?;
            let (one, other) = (self.fraction()?, self.fraction()?);
            let (zero, shorter) = (self.sequence(&[zero, one])?, self.sequence(&[first, rest, other])?);
            list.push(self.scratch, zero);
            list.push(self.scratch, shorter);
        }
        self.other_integers(&mut list, integer, false)?;
        let mut tails = List::default();
        for index in 0..fraction.len() {
            let part = self.differing(fraction, index, false, b'0', (0, OPEN))?;
            if part != 0 {
                tails.push(self.scratch, part);
            }
            if index > 0 {
                let shorter = self.text(fraction.get(..index).unwrap_or(&[]))?;
                tails.push(self.scratch, shorter);
            }
        }
        if !exclusive {
            let (same, zero) = (self.text(fraction)?, self.char(b'0', b'0')?);
            let zeros = make(self.scratch, Expr::Repeat(zero, u32::from(fraction.is_empty()), OPEN))?;
            let same = self.sequence(&[same, zeros])?;
            tails.push(self.scratch, same);
        }
        if tails.first != 0 {
            let (point, tails) = (self.char(b'.', b'.')?, self.choice(tails)?);
            let tail = self.sequence(&[point, tails])?;
            // Without a fraction the number is the bound's integer, which is in range unless it is the bound itself and
            // excluded.
            let tail = if fraction.is_empty() && exclusive { tail } else { self.optional(tail)? };
            let same = self.text(integer)?;
            let same = self.sequence(&[same, tail])?;
            list.push(self.scratch, same);
        }
        if list.first == 0 {
            // Nothing is below: a class of no characters.
            return make(self.scratch, Expr::Class(0));
        }
        self.choice(list)
    }
}

// The part of a decimal that was read. A state also has the remainder.
const START: u32 = 0;
const SIGN: u32 = 1;
const ZERO: u32 = 2;
const INTEGER: u32 = 3;
/// The point. `POINT` + `n`: also `n` digits behind it.
const POINT: u32 = 4;

/// An automaton in the making, of the decimals that are multiples of a number and have at most as many digits behind
/// the point.
pub(super) struct Multiples {
    growing: Growing,
    states: Remainders,
}

impl Multiples {
    pub(super) fn new(scratch: &mut Scratch<'_>, of: &Decimal, limit: u32, at: usize) -> Result<Self> {
        let too_many = GrammarError { kind: ErrorKind::TooManyStates { limit }, at };
        let digits = of.integer().iter().chain(of.fraction());
        let modulus = digits.fold(0_u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit & 15)));
        let modulus =
            u32::try_from(modulus).ok().filter(|modulus| *modulus <= limit.saturating_mul(16)).ok_or(too_many)?;
        if of.negative || modulus == 0 {
            return Err(GrammarError { kind: ErrorKind::Value("multipleOf"), at });
        }
        let places = of.fraction().len() as u32;
        let mut builder = Builder::new(scratch, limit.saturating_mul(16), at)?;
        let states = Remainders { modulus, places };
        states.state(scratch, &mut builder, START, 0)?;
        Ok(Self { growing: Growing::new(builder), states })
    }

    /// Goes on. Returns the automaton when it is made, which is not trimmed.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<Option<Dfa>> {
        let states = self.states;
        self.growing.go_on(scratch, |scratch, builder, state| states.edges(scratch, builder, state))
    }
}

/// The states of decimals by their remainder.
#[derive(Clone, Copy)]
struct Remainders {
    modulus: u32,
    places: u32,
}

impl Remainders {
    /// Makes the edges of a state.
    fn edges(self, scratch: &mut Scratch<'_>, builder: &mut Builder, state: u32) -> Result<()> {
        let (phase, rest) = key(scratch, state);
        let places = self.places;
        let mut last = 0;
        if phase == START {
            let target = self.state(scratch, builder, SIGN, 0)?;
            last = append(scratch, state, last, 0x2D, 0x2D, target)?;
        }
        if matches!(phase, ZERO | INTEGER) && places > 0 {
            let target = self.state(scratch, builder, POINT, rest)?;
            last = append(scratch, state, last, 0x2E, 0x2E, target)?;
        }
        for digit in 0..10 {
            let to = match phase {
                START | SIGN if digit == 0 => ZERO,
                START | SIGN | INTEGER => INTEGER,
                ZERO => continue,
                _ if phase - POINT >= places => continue,
                _ => phase + 1,
            };
            let target = self.state(scratch, builder, to, self.after(rest, digit))?;
            last = append(scratch, state, last, 0x30 + digit, 0x30 + digit, target)?;
        }
        Ok(())
    }

    fn after(self, rest: u32, digit: u32) -> u32 {
        let value = u64::from(rest) * 10 + u64::from(digit);
        value.checked_rem(u64::from(self.modulus)).unwrap_or(0) as u32
    }

    fn state(self, scratch: &mut Scratch<'_>, builder: &mut Builder, phase: u32, rest: u32) -> Result<u32> {
        let hash = mix(mix(0, phase), rest);
        let mut state = builder.bucket(scratch, hash);
        while state != 0 {
            if key(scratch, state) == (phase, rest) {
                return Ok(state);
            }
            state = chained(scratch, state);
        }
        let left = match phase {
            START | SIGN | POINT => None,
            ZERO | INTEGER => Some(self.places),
            _ => self.places.checked_sub(phase - POINT),
        };
        let accept = left.is_some_and(|left| (0..left).fold(rest, |rest, _| self.after(rest, 0)) == 0);
        builder.push(scratch, (phase, rest), hash, u32::from(accept))
    }
}
