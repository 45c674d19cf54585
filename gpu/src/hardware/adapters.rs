//! The adapters of the machine.

use std::time::Duration;

use super::wait::within;
use crate::adapter::{AdapterInfo, Choice};
use crate::error::GpuError;

pub(super) async fn adapters(patience: Duration) -> Result<Vec<wgpu::Adapter>, GpuError> {
    let all = wgpu::Backends::PRIMARY;
    let wanted = wgpu::InstanceDescriptor { backends: all, ..wgpu::InstanceDescriptor::new_without_display_handle() };
    within(wgpu::Instance::new(wanted).enumerate_adapters(all), patience).await
}

/// Returns the first adapter that fits the choice, hardware before software.
pub(super) async fn adapter(choice: &Choice) -> Result<wgpu::Adapter, GpuError> {
    let mut adapters = adapters(choice.patience).await?;
    let found = adapters.iter().map(|adapter| info(adapter).to_string()).collect();
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::Cpu => 3,
        _ => 2,
    });
    adapters.retain(|adapter| {
        let info = info(adapter);
        let is_wanted = choice.backend.is_none_or(|backend| info.backend == backend.name());
        is_wanted && (choice.software || !info.software)
    });
    adapters.into_iter().next().ok_or(GpuError::NoAdapter { found })
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn info(adapter: &wgpu::Adapter) -> AdapterInfo {
    let info = adapter.get_info();
    described(info.name.clone(), format!("{} {}", info.driver, info.driver_info), &info)
}

/// Returns the description of an adapter. A browser can keep the adapter's name to itself. The browser's name and
/// version stand for the driver's.
#[cfg(target_arch = "wasm32")]
pub(super) fn info(adapter: &wgpu::Adapter) -> AdapterInfo {
    let of = |object: &js_sys::wasm_bindgen::JsValue, name: &str| js_sys::Reflect::get(object, &name.into()).ok();
    let navigator = of(&js_sys::global(), "navigator");
    let browser = navigator.and_then(|navigator| of(&navigator, "userAgent")).and_then(|agent| agent.as_string());
    let info = adapter.get_info();
    let name = if info.name.is_empty() { "an adapter without a name" } else { &info.name };
    described(name.to_owned(), browser.unwrap_or_default(), &info)
}

fn described(name: String, driver: String, info: &wgpu::AdapterInfo) -> AdapterInfo {
    AdapterInfo {
        name,
        backend: info.backend.to_str().to_owned(),
        driver,
        software: info.device_type == wgpu::DeviceType::Cpu,
    }
}
