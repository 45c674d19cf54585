//! A calculator that a model can call. It knows numbers, `+ - * / % ^`, parentheses and a few functions, and runs
//! nothing else.

/// Most levels of nesting of parentheses, signs and powers.
const MOST_DEPTH: usize = 32;
/// Length of the longest expression, in bytes.
const MOST_BYTES: usize = 1_000;

/// Returns the value of an expression, or a message that says what is wrong with it.
pub fn calculate(expression: &str) -> Result<f64, String> {
    if expression.len() > MOST_BYTES {
        return Err(format!("the expression has {} bytes, the most are {MOST_BYTES}", expression.len()));
    }
    let mut reader = Reader { text: expression.as_bytes(), at: 0 };
    let value = reader.sum(0)?;
    match reader.peek() {
        None if value.is_finite() => Ok(value),
        None => Err("the result is no finite number".to_owned()),
        Some(_) => Err(reader.unexpected()),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    /// Skips white space and returns the next byte without taking it.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, sign: u8) -> bool {
        let found = self.peek() == Some(sign);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&mut self) -> String {
        match self.peek() {
            Some(_) => format!("this is not understood at byte {} of the expression", self.at),
            None => "the expression ends too early".to_owned(),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<f64, String> {
        let mut value = self.product(depth)?;
        loop {
            if self.takes(b'+') {
                value += self.product(depth)?;
            } else if self.takes(b'-') {
                value -= self.product(depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<f64, String> {
        let mut value = self.power(depth)?;
        loop {
            if self.text.get(self.at..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"**")) {
                return Err(self.unexpected());
            } else if self.takes(b'*') {
                value *= self.power(depth)?;
            } else if self.takes(b'/') {
                value /= nonzero(self.power(depth)?)?;
            } else if self.takes(b'%') {
                value %= nonzero(self.power(depth)?)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// `-a^b` is `-(a^b)`, `a^b^c` is `a^(b^c)`; `**` is `^`.
    fn power(&mut self, depth: usize) -> Result<f64, String> {
        if depth >= MOST_DEPTH {
            return Err(format!("the expression is nested more than {MOST_DEPTH} deep"));
        }
        if self.takes(b'-') {
            return Ok(-self.power(depth + 1)?);
        }
        if self.takes(b'+') {
            return self.power(depth + 1);
        }
        let base = self.atom(depth)?;
        self.peek();
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"**")) {
            self.at += 2;
        } else if !self.takes(b'^') {
            return Ok(base);
        }
        Ok(base.powf(self.power(depth + 1)?))
    }

    fn atom(&mut self, depth: usize) -> Result<f64, String> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                self.closed(depth)
            }
            Some(b'0'..=b'9' | b'.') => self.number(),
            Some(letter) if letter.is_ascii_alphabetic() => self.word(depth),
            _ => Err(self.unexpected()),
        }
    }

    /// Reads an expression and its closing parenthesis. The opening one has been taken.
    fn closed(&mut self, depth: usize) -> Result<f64, String> {
        let value = self.sum(depth + 1)?;
        if self.takes(b')') { Ok(value) } else { Err(self.unexpected()) }
    }

    fn number(&mut self) -> Result<f64, String> {
        let rest = &self.text[self.at..];
        let digits =
            |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let mut len = digits(0);
        if matches!(rest.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(len + 1), Some(b'+' | b'-')));
            let exponent = digits(len + 1 + sign);
            len += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let value = text.parse().map_err(|_| self.unexpected())?;
        self.at += len;
        Ok(value)
    }

    fn word(&mut self, depth: usize) -> Result<f64, String> {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let word = String::from_utf8_lossy(&rest[..len]).to_ascii_lowercase();
        self.at += len;
        match word.as_str() {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            _ => {}
        }
        if !self.takes(b'(') {
            return Err(format!("{word} is not known"));
        }
        let value = self.closed(depth)?;
        Ok(match word.as_str() {
            "sqrt" => value.sqrt(),
            "abs" => value.abs(),
            "round" => value.round(),
            "floor" => value.floor(),
            "ceil" => value.ceil(),
            "sin" => value.sin(),
            "cos" => value.cos(),
            "tan" => value.tan(),
            "ln" | "log" => value.ln(),
            "exp" => value.exp(),
            _ => return Err(format!("{word} is not known")),
        })
    }
}

fn nonzero(divisor: f64) -> Result<f64, String> {
    if divisor == 0.0 { Err("this divides by zero".to_owned()) } else { Ok(divisor) }
}
