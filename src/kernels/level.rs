//! The instruction sets, and the detection of the ones that a machine has.

use core::fmt;

use super::fetch::FetchOrder;

/// The instruction set that the kernels use: made once, by [`Level::detect`] or by name, and passed down.
///
/// A value is a proof that the machine has the instructions: there is no other safe way to get one.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level {
    pub(super) isa: Isa,
    pub(super) fetch: FetchOrder,
}

/// Makes the instruction sets from a table: the type, their names and features, and `dispatch!`. The first token is a
/// `$`, which the definition of the inner macro `dispatch!` needs.
macro_rules! levels {
    ($dollar:tt $($(#[$when:meta])* $isa:ident = $name:literal, $built:meta, $arch:ident::$kernels:ident, $detect:expr;)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum Isa {
            Scalar,
            $($(#[$when])* $isa,)+
        }

        /// All levels of this target, the slowest first.
        const ISAS: &[(Isa, &str)] = &[(Isa::Scalar, "scalar"), $($(#[$when])* (Isa::$isa, $name),)+];

        impl Isa {
            /// Returns whether this build has the kernels of this instruction set, as the features `level-*` say.
            pub(super) const fn is_built(self) -> bool {
                match self {
                    Self::Scalar => true,
                    $($(#[$when])* Self::$isa => cfg!($built),)+
                }
            }

            fn is_available(self) -> bool {
                // Miri interprets Rust alone. It has neither the instruction that asks the processor nor most of the
                // others.
                let interpreted = cfg!(miri) && self != Self::Scalar;
                self.is_built()
                    && !interpreted
                    && match self {
                        Self::Scalar => true,
                        $($(#[$when])* Self::$isa => $detect,)+
                    }
            }
        }

        /// Calls a kernel of a level.
        macro_rules! dispatch {
            ($dollar level:expr, $dollar kernel:ident($dollar($dollar argument:expr),*)) => {
                match $dollar level.isa {
                    $($(#[$when])*
                    // Some kernels are safe: the ones that need only instructions that every machine of the target has.
                    #[allow(unused_unsafe)]
                    // SAFETY: this level is made only where detection found its instructions, or the caller of `assume`
                    // promised them.
                    Isa::$isa if const { Isa::$isa.is_built() } => unsafe {
                        $arch::$kernels::$dollar kernel($dollar($dollar argument),*)
                    },)+
                    // Plain Rust, and levels that are not in this build, of which no value exists.
                    _ => scalar::$dollar kernel($dollar($dollar argument),*),
                }
            };
        }

        pub(super) use dispatch;
    };
}

levels! { $
    // Isa = name, the condition under which it is built, the module of its kernels, whether this machine has it. The
    // slowest comes first.

    // WebAssembly SIMD of 128 bits. A host that does not know an instruction of a module does not load the module at
    // all.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128 = "simd128", all(), wasm32::simd128, true;

    // NEON, which every AArch64 processor with floating-point registers has.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon = "neon", feature = "level-neon", aarch64::neon, super::aarch64::has_neon();

    // NEON with dot products of bytes.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Dotprod = "dotprod", feature = "level-dotprod", aarch64::dotprod, super::aarch64::has_dotprod();

    // NEON with dot products and matrix products of bytes.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    I8mm = "i8mm", feature = "level-i8mm", aarch64::i8mm, super::aarch64::has_i8mm();

    // AVX2, FMA, F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2 = "avx2", feature = "level-avx2", x86_64::avx2, super::x86_64::has_avx2();

    // AVX2, FMA, F16C, AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni = "avxvnni", feature = "level-avxvnni", x86_64::avxvnni, super::x86_64::has_avxvnni();

    // AVX-512 F, BW, VL, VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512 = "avx512", feature = "level-avx512", x86_64::avx512, super::x86_64::has_avx512();

    // AVX-512 F, BW, VL, VNNI, and AMX with bytes. The process needs the permission of `Level::allow_amx`.
    #[cfg(target_arch = "x86_64")]
    Amx = "amx", feature = "level-amx", x86_64::amx, super::x86_64::has_amx();
}

impl Level {
    /// Plain Rust, on every machine. It is the specification of the arithmetic.
    pub const SCALAR: Self = Self { isa: Isa::Scalar, fetch: FetchOrder::Rows };

    /// Returns the levels that this machine has, the slowest first. AMX is one of them only after [`Level::allow_amx`].
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        ISAS.iter().filter(|(isa, _)| isa.is_available()).map(|&(isa, _)| Self::new(isa))
    }

    /// Returns the fastest level that this machine has.
    pub fn detect() -> Self {
        Self::available().next_back().unwrap_or(Self::SCALAR)
    }

    /// Asks the operating system to let this process use AMX, and returns whether the process may use it. The level
    /// "amx" is available only after such a call, because a library should not change the process of its host unasked.
    ///
    /// Linux grants this on processors with AMX for bytes. Everywhere else the call returns false. The permission is
    /// for all threads of the process, and permanent. Signal frames get larger (by 8 KB) on threads that use AMX. So
    /// Linux refuses if a thread has an alternate signal stack that is too small for them.
    pub fn allow_amx() -> bool {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return Isa::Amx.is_built() && super::x86_64::allow_amx();
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        false
    }

    /// Returns the level with this name, if this machine has it. `simd` is another name of the fastest level.
    ///
    /// # Errors
    /// [`UnknownLevel`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownLevel> {
        if name == "simd" {
            return Ok(Self::detect());
        }
        Self::available().find(|level| level.name() == name).ok_or(UnknownLevel)
    }

    /// Returns the level with this name without asking the machine, for programs that know the machine better. On
    /// AArch64 without std, for example, "dotprod" is detected only if the program is compiled for it.
    ///
    /// # Errors
    /// [`UnknownLevel`] where this build has no such level.
    ///
    /// # Safety
    /// The machine has the instructions of the level, and the operating system saves their registers.
    pub unsafe fn assume(name: &str) -> Result<Self, UnknownLevel> {
        ISAS.iter()
            .find(|(isa, known)| *known == name && isa.is_built())
            .map(|&(isa, _)| Self::new(isa))
            .ok_or(UnknownLevel)
    }

    /// Returns the level with another fetch order than the processor's, so that both can be measured. The bits are the
    /// same.
    #[must_use]
    pub fn with_fetch_order(self, fetch: FetchOrder) -> Self {
        Self { fetch, ..self }
    }

    /// Returns the order in which the kernels fetch weights ahead of time: [`FetchOrder::detect`], unless it was
    /// changed by [`Level::with_fetch_order`].
    pub fn fetch_order(self) -> FetchOrder {
        self.fetch
    }

    /// Returns the name of the level, for example "scalar".
    pub fn name(self) -> &'static str {
        ISAS.iter().find(|(isa, _)| *isa == self.isa).map_or("", |&(_, name)| name)
    }

    fn new(isa: Isa) -> Self {
        // Plain Rust fetches nothing.
        let fetch = if isa == Isa::Scalar { FetchOrder::default() } else { FetchOrder::detect() };
        Self { isa, fetch }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Level({})", self.name())
    }
}

/// No level of this machine has the name that was asked for.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown level; this machine has")?;
        for (i, level) in Level::available().enumerate() {
            f.write_str(if i == 0 { " " } else { ", " })?;
            f.write_str(level.name())?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownLevel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_are_one_to_one() {
        // The first call, because this test compares available levels, and other tests make AMX available meanwhile.
        Level::allow_amx();
        for level in Level::available() {
            assert_eq!(Level::from_name(level.name()), Ok(level));
            // SAFETY: detection found the instructions: the level is available.
            assert_eq!(unsafe { Level::assume(level.name()) }, Ok(level));
        }
        // SAFETY: no level has this name, so there is none whose instructions are missing.
        assert_eq!(unsafe { Level::assume("Scalar") }, Err(UnknownLevel));
        assert_eq!(Level::available().next(), Some(Level::SCALAR));
        assert_eq!(Level::available().last(), Some(Level::detect()));
        assert_eq!(Level::from_name("simd"), Ok(Level::detect()));
        let message = Level::from_name("Scalar").unwrap_err().to_string();
        assert!(message.starts_with("unknown level; this machine has scalar"), "{message}");
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    #[test]
    fn amx_is_there_with_the_permission() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let expected = has("amx_tile") && has("amx_int8") && Level::from_name("avx512").is_ok();
        assert_eq!(Level::allow_amx(), expected);
        assert_eq!(Level::from_name("amx").is_ok(), expected);
        assert!(!expected || Level::detect().name() == "amx");
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn detection_agrees_with_the_standard_library() {
        let has = |name: &str| Level::from_name(name).is_ok();
        let beside = std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("f16c");
        assert_eq!(has("avx2"), std::is_x86_feature_detected!("avx2") && beside);
        assert_eq!(has("avxvnni"), has("avx2") && std::is_x86_feature_detected!("avxvnni"));
        let avx512 = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512vnni");
        assert_eq!(has("avx512"), avx512);
    }
}
