//! Turns the bytes of a fuzzer into choices.

/// Reads choices from bytes. Behind the end of the bytes, all choices are 0.
pub struct Bytes<'d> {
    data: &'d [u8],
    at: usize,
}

impl<'d> Bytes<'d> {
    pub fn new(data: &'d [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Returns the number of bytes that are left.
    pub fn left(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    pub fn u8(&mut self) -> u8 {
        let byte = self.data.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Returns a number in `0..end`, or 0 if the range is empty.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 | 1 => 0,
            2..=256 => usize::from(self.u8()) % end,
            _ => self.u32() as usize % end,
        }
    }

    pub fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// Returns true once in `times`.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.u8() % times == times - 1
    }

    pub fn pick<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }

    /// Returns all bytes that are left.
    pub fn rest(&mut self) -> &'d [u8] {
        let rest = self.data.get(self.at..).unwrap_or_default();
        self.at = self.data.len();
        rest
    }

    /// Returns a number that is small, at a border, or any.
    pub fn odd(&mut self) -> u64 {
        const BORDERS: [u64; 24] = [
            0,
            1,
            2,
            3,
            4,
            5,
            7,
            8,
            15,
            16,
            17,
            31,
            32,
            33,
            63,
            64,
            255,
            65536,
            0x7fff_ffff,
            0xffff_ffff,
            1 << 32,
            1 << 40,
            i64::MAX as u64,
            u64::MAX,
        ];
        match self.u8() % 4 {
            0 => u64::from(self.u8()),
            1 => self.u64(),
            _ => *self.pick(&BORDERS),
        }
    }

    /// Returns a number that is small, at a border, or any; it can be infinite or NaN.
    pub fn f32(&mut self) -> f32 {
        const BORDERS: [f32; 16] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1e-5,
            1e30,
            -1e30,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-45,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            10000.0,
        ];
        match self.u8() % 3 {
            0 => f32::from_bits(self.u32()),
            1 => f32::from(self.u8() as i8) / 16.0,
            _ => *self.pick(&BORDERS),
        }
    }

    /// Returns some bytes, fewer than `end`.
    pub fn some(&mut self, end: usize) -> Vec<u8> {
        (0..self.below(end)).map(|_| self.u8()).collect()
    }
}
