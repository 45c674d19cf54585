//! Loom's atomics, locks and threads, in the form of the library's `sync`.
//!
//! Loom treats a sequentially consistent access as one that acquires and releases, and it supports fences. So here a
//! write that asks for sequential consistency has a fence behind it, and a read-modify-write has one on each side, as
//! on x86. Other accesses have no fence.

pub use loom::hint::spin_loop;
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub use loom::thread::{Builder, JoinHandle, yield_now};
pub use std::sync::atomic::Ordering;

use loom::sync::atomic::{self, fence};

/// Number of times that a thread looks for work before it sleeps. To spin is only to look again.
pub const LOOKS: usize = 1;

loom::lazy_static! {
    /// All fences of sequential consistency have one order. Loom tries the orders of changes of one number, but not of
    /// fences, so each fence is a change of this number.
    static ref ORDER: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
}

fn fence_of(order: Ordering) {
    if order == Ordering::SeqCst {
        ORDER.fetch_add(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

fn fenced<R>(order: Ordering, access: impl FnOnce() -> R) -> R {
    fence_of(order);
    let result = access();
    fence_of(order);
    result
}

macro_rules! atomics {
    ($($name:ident $value:ty;)*) => {$(
        #[derive(Debug)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
                fence_of(order);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.swap(value, order))
            }
        }
    )*};
}

atomics! { AtomicBool bool; AtomicU32 u32; AtomicUsize usize; }

macro_rules! numbers {
    ($($name:ident $value:ty;)*) => {$(
        impl $name {
            pub fn into_inner(mut self) -> $value {
                self.0.with_mut(|value| *value)
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.fetch_add(value, order))
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.fetch_sub(value, order))
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.fetch_and(value, order))
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.fetch_or(value, order))
            }

            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                fenced(order, || self.0.fetch_max(value, order))
            }

            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                fenced(success, || self.0.compare_exchange_weak(current, new, success, failure))
            }
        }
    )*};
}

numbers! { AtomicU32 u32; AtomicUsize usize; }

pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self(atomic::AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> AtomicPtr<T> {
    pub fn load(&self, order: Ordering) -> *mut T {
        fenced(order, || self.0.load(order))
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        fenced(order, || self.0.store(value, order));
    }
}

/// A clock on which all waits are over.
pub struct Instant;

impl Instant {
    pub fn now() -> Self {
        Self
    }

    pub fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::MAX
    }
}
