//! Waiting: a native driver blocks, a browser calls back.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::error::GpuError;

/// Returns the value of a future that only waits for a native driver, which blocks.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// Returns the value of a future of wgpu, or fails after `patience`. Native drivers have the value at once. A browser
/// has limits of its own.
pub(super) async fn within<T>(future: impl Future<Output = T>, patience: Duration) -> Result<T, GpuError> {
    let watch = Stopwatch::start();
    let mut future = std::pin::pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending if watch.elapsed() > patience => Poll::Ready(Err(GpuError::Timeout(patience))),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A sign that something has happened. A driver can set it from any thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Signal(Arc<Mutex<(bool, Option<Waker>)>>);

impl Signal {
    pub(super) fn set(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A clock for the time that something takes. `std` has none in a browser.
pub(super) struct Stopwatch {
    #[cfg(not(target_arch = "wasm32"))]
    started: std::time::Instant,
    #[cfg(target_arch = "wasm32")]
    started: f64,
}

#[cfg(not(target_arch = "wasm32"))]
impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { started: std::time::Instant::now() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(target_arch = "wasm32")]
impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { started: js_sys::Date::now() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_secs_f64((js_sys::Date::now() - self.started).max(0.0) / 1e3)
    }
}
