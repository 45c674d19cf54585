//! Panels: weights for several rows of activations, unpacked in the order in which an instruction reads them. A panel
//! has eight rows of weights, which are multiplied with up to four rows of activations at a time (see `sweeps`).
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::marker::PhantomData;

use crate::kernels::generic::{COLS, Family, Row};
use crate::quant::{Layout256, Parts};

/// Number of rows of weights at a time.
pub(super) const ROWS: usize = 8;

/// An instruction that multiplies bytes. A value proves that the machine has it. `INPUTS` is the number of rows of
/// inputs whose outputs share a register. If it is 2, a sweep takes an even number of rows.
pub(super) trait Instruction<const INPUTS: usize>: Copy {
    /// Continues the chains of the outputs by blocks of 32. `MINS` says whether the blocks have minima.
    ///
    /// # Safety
    /// The machine has the instruction. Every row has `blocks` blocks, at most [`COLS`] elements, that can be read.
    unsafe fn sweep_32<const T: usize, const MINS: bool>(
        self,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    );

    /// Continues the chains of the outputs by super-blocks. `MINS` says whether the super-blocks have minima.
    ///
    /// # Safety
    /// The machine has the instruction. Every row has `blocks` super-blocks, at most [`COLS`] elements, that can be
    /// read.
    unsafe fn sweep_256<const SUBS: usize, const T: usize, const MINS: bool>(
        self,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    );
}

/// A format with blocks of `PARTS` times 32 elements.
pub(super) struct Of32<I, B, const PARTS: usize, const INPUTS: usize>(PhantomData<(I, B)>);

/// A format with super-blocks of 256 elements in `SUBS` sub-blocks.
pub(super) struct Of256<I, B, const SUBS: usize, const INPUTS: usize>(PhantomData<(I, B)>);

/// Unpacked blocks of eight rows, in the order in which they are multiplied. Scales, minima and sub-scales of a row are
/// repeated for each of the `INPUTS` inputs that share a register.
pub(super) struct Panel<const INPUTS: usize> {
    /// Codes per 16 columns: groups of 4 `INPUTS` columns, each group for all rows.
    pub(super) codes: [[i8; 16 * ROWS]; COLS / 16],
    /// Scales per block.
    pub(super) scales: [[[f32; INPUTS]; ROWS]; COLS / 32],
    /// Minima per block, if `has_mins`.
    pub(super) mins: [[[f32; INPUTS]; ROWS]; COLS / 32],
    /// Sub-scales per sub-block.
    pub(super) sub_scales: [[[i32; INPUTS]; ROWS]; COLS / 16],
    /// Sub-minima per super-block, one for every 16 elements, of at most 6 bits. They are laid out as the codes of 16
    /// columns.
    pub(super) sub_mins: [[i8; 16 * ROWS]; COLS / 256],
    has_mins: bool,
}

impl<const INPUTS: usize> Panel<INPUTS> {
    const ZERO: Self = Self {
        codes: [[0; 16 * ROWS]; COLS / 16],
        scales: [[[0.0; INPUTS]; ROWS]; COLS / 32],
        mins: [[[0.0; INPUTS]; ROWS]; COLS / 32],
        sub_scales: [[[0; INPUTS]; ROWS]; COLS / 16],
        sub_mins: [[0; 16 * ROWS]; COLS / 256],
        has_mins: false,
    };
}

impl<I: Instruction<INPUTS>, B: Parts<32, PARTS>, const PARTS: usize, const INPUTS: usize> Family<ROWS>
    for Of32<I, B, PARTS, INPUTS>
{
    type Proof = I;
    type Block = B;
    type Panel = Panel<INPUTS>;
    const LEN: usize = 32 * PARTS;
    const SCALED: usize = 32;
    const MOST: usize = 4;

    const ZERO: Panel<INPUTS> = Panel::ZERO;

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel<INPUTS>) {
        let places = panel.codes.as_chunks_mut::<2>().0.iter_mut().zip(&mut panel.scales).zip(&mut panel.mins);
        for (block, ((codes, scales), mins)) in blocks.iter().flat_map(B::parts).zip(places) {
            place::<INPUTS>(codes, row, &block.codes);
            set(scales, row, [block.scale; INPUTS]);
            set(mins, row, [block.min.unwrap_or_default(); INPUTS]);
            panel.has_mins = block.min.is_some();
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: I,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: `proof` says that the machine has the instruction; the caller promises the blocks of every row, and
        // `twice` passes such a row two times.
        unsafe {
            match (T % INPUTS, panel.has_mins) {
                (0, true) => proof.sweep_32::<T, true>(panel, blocks * PARTS, x, acc),
                (0, false) => proof.sweep_32::<T, false>(panel, blocks * PARTS, x, acc),
                _ => twice(x, acc, |x, acc| Self::sweep::<2>(proof, panel, blocks, x, acc)),
            }
        }
    }
}

impl<I: Instruction<INPUTS>, B: Layout256<SUBS>, const SUBS: usize, const INPUTS: usize> Family<ROWS>
    for Of256<I, B, SUBS, INPUTS>
{
    type Proof = I;
    type Block = B;
    type Panel = Panel<INPUTS>;
    const LEN: usize = 256;
    const SCALED: usize = 256;
    const MOST: usize = 4;

    const ZERO: Panel<INPUTS> = Panel::ZERO;

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel<INPUTS>) {
        let subs = panel.sub_scales.as_chunks_mut::<SUBS>().0.iter_mut().zip(&mut panel.sub_mins);
        let scales = panel.scales.iter_mut().zip(&mut panel.mins);
        let places = panel.codes.as_chunks_mut::<16>().0.iter_mut().zip(subs).zip(scales);
        for (block, ((codes, (sub_scales, sub_mins)), (scales, mins))) in blocks.iter().zip(places) {
            let block = block.unpack();
            place::<INPUTS>(codes, row, &block.codes);
            set(scales, row, [block.scale; INPUTS]);
            for (sub_scales, sub_scale) in sub_scales.iter_mut().zip(block.sub_scales) {
                set(sub_scales, row, [i32::from(sub_scale); INPUTS]);
            }
            panel.has_mins = block.mins.is_some();
            if let Some(from) = block.mins {
                set(mins, row, [from.min; INPUTS]);
                let mut of_parts = [0; 16];
                for (part, sub_min) in of_parts.iter_mut().enumerate() {
                    *sub_min = from.sub_mins[part * SUBS / 16].cast_signed();
                }
                place::<INPUTS>(core::slice::from_mut(sub_mins), row, &of_parts);
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: I,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: `proof` says that the machine has the instruction; the caller promises the blocks of every row, and
        // `twice` passes such a row two times.
        unsafe {
            match (T % INPUTS, panel.has_mins) {
                (0, true) => proof.sweep_256::<SUBS, T, true>(panel, blocks, x, acc),
                (0, false) => proof.sweep_256::<SUBS, T, false>(panel, blocks, x, acc),
                _ => twice(x, acc, |x, acc| Self::sweep::<2>(proof, panel, blocks, x, acc)),
            }
        }
    }
}

/// Sets the codes of a row, 16 columns in each element of `places`.
#[inline(always)]
fn place<const INPUTS: usize>(places: &mut [[i8; 16 * ROWS]], row: usize, codes: &[i8]) {
    for (place, codes) in places.iter_mut().zip(codes.as_chunks::<16>().0) {
        match INPUTS {
            1 => groups::<4>(place, row, codes),
            _ => groups::<8>(place, row, codes),
        }
    }
}

/// Sets 16 codes of a row in an element of a panel, in groups of `LEN` codes side by side.
#[inline(always)]
fn groups<const LEN: usize>(place: &mut [i8; 16 * ROWS], row: usize, codes: &[i8; 16]) {
    let groups = place.as_chunks_mut::<LEN>().0.chunks_exact_mut(ROWS).zip(codes.as_chunks::<LEN>().0);
    for (rows, &codes) in groups {
        if let Some(group) = rows.get_mut(row) {
            *group = codes;
        }
    }
}

#[inline(always)]
fn set<T>(of_rows: &mut [T; ROWS], row: usize, value: T) {
    if let Some(place) = of_rows.get_mut(row) {
        *place = value;
    }
}

/// Multiplies one row of inputs as if it were two, for an instruction that takes two rows.
#[inline(always)]
fn twice<const T: usize>(x: [Row; T], acc: &mut [[f32; ROWS]; T], sweep: impl FnOnce([Row; 2], &mut [[f32; ROWS]; 2])) {
    let mut both = [acc[0]; 2];
    sweep([x[0]; 2], &mut both);
    acc[0] = both[0];
}
