//! Whether settings can hold together, with the arithmetic if they cannot.

use crate::error::SettingsError;
use crate::limits::{
    BUDGET_A_DAY_MIN, CURVE_BLOCKS_MAX, CURVE_BLOCKS_MIN, CURVE_BYTES_A_BLOCK, CURVE_BYTES_FIXED,
    STAGING_MIN, TAG_BYTES_MAX,
};
use crate::settings::{Capacity, Measure, Settings, TenantSettings, Window};
use crate::tenant::wants_tags;
use policy::admission::budget::Budget;
use policy::allocation;
use policy::demand::limits::{SAMPLE_BLOCKS_MAX, SAMPLE_BLOCKS_MIN};
use policy::demand::{Chooser, Sampled, Windows};
use units::{Bytes, TenantSlot};

/// Checks everything: what holds for all, each tenant, and all tenants together.
pub(crate) fn all(
    settings: &Settings,
    capacity: Capacity,
    tenants: &[(TenantSlot, &TenantSettings)],
) -> Result<(), SettingsError> {
    windows(settings)?;
    samples(settings)?;
    budget(settings.budget, capacity.device_reserve())?;
    for (_, tenant) in tenants {
        one(tenant, capacity)?;
    }
    let limits: Vec<_> = tenants
        .iter()
        .map(|(slot, tenant)| (*slot, tenant.limits(capacity)))
        .collect();
    allocation::check(capacity.segments, &limits).map_err(|limits| SettingsError::Limits {
        limits,
        segment: Bytes::new(capacity.segment_bytes()),
    })?;
    remembering(settings, capacity, tenants)?;
    memory(settings, tenants)
}

/// Who has to remember needs memory.
fn remembering(
    settings: &Settings,
    capacity: Capacity,
    tenants: &[(TenantSlot, &TenantSettings)],
) -> Result<(), SettingsError> {
    let of_tenants = tenants.iter().filter_map(|(_, of)| of.admission.as_ref());
    let mut in_force = std::iter::once(&settings.admission).chain(of_tenants);
    match in_force.find(|spec| spec.remembers()) {
        Some(spec) if settings.staging.is_zero() => Err(SettingsError::NoStaging {
            admission: spec.to_string(),
            usual: STAGING_MIN.max(Bytes::new(capacity.bytes().get() / 100)),
            capacity: capacity.bytes(),
        }),
        _ => Ok(()),
    }
}

fn windows(settings: &Settings) -> Result<(), SettingsError> {
    match &settings.window {
        Window::Fixed(length) => {
            Windows::new(&[*length])?;
        }
        Window::Knee { lengths, settings } => {
            Chooser::new(lengths.clone(), *settings)?;
        }
    }
    Ok(())
}

fn samples(settings: &Settings) -> Result<(), SettingsError> {
    let check = |what, blocks: u32, least: u32, most: u32| {
        if (least..=most).contains(&blocks) {
            return Ok(());
        }
        Err(SettingsError::Sample {
            what,
            blocks: blocks.into(),
            least: least.into(),
            most: most.into(),
        })
    };
    check(
        "curves",
        settings.curve_blocks,
        CURVE_BLOCKS_MIN,
        CURVE_BLOCKS_MAX,
    )?;
    if let Measure::Sampled(blocks) = settings.measure {
        check("demand", blocks, SAMPLE_BLOCKS_MIN, SAMPLE_BLOCKS_MAX)?;
    }
    Ok(())
}

fn one(tenant: &TenantSettings, capacity: Capacity) -> Result<(), SettingsError> {
    if let Some(ceiling) = tenant.ceiling {
        let least = Bytes::new(2 * capacity.segment_bytes());
        if ceiling < tenant.floor {
            return Err(SettingsError::CeilingBelowFloor {
                floor: tenant.floor,
                ceiling,
            });
        }
        if ceiling < least {
            return Err(SettingsError::CeilingTooLow { ceiling, least });
        }
    }
    budget(tenant.budget, capacity.reserve())
}

/// What a tenant's measures can come to need, staging aside.
pub(crate) fn each(settings: &Settings, tenant: &TenantSettings) -> Bytes {
    let demand = match settings.measure {
        Measure::Sampled(blocks) => Sampled::bound(blocks),
        Measure::Exact => Bytes::ZERO,
    };
    let curve = CURVE_BYTES_FIXED + u64::from(settings.curve_blocks) * CURVE_BYTES_A_BLOCK;
    let tags = u64::from(wants_tags(tenant, settings)) * TAG_BYTES_MAX;
    demand + Bytes::new(curve + tags)
}

fn memory(
    settings: &Settings,
    tenants: &[(TenantSlot, &TenantSettings)],
) -> Result<(), SettingsError> {
    if !settings.staging.is_zero() && settings.staging < STAGING_MIN {
        return Err(SettingsError::Staging {
            staging: settings.staging,
            least: STAGING_MIN,
        });
    }
    let needs: Bytes = tenants
        .iter()
        .map(|(_, tenant)| each(settings, tenant))
        .sum();
    let frames = settings.frames.unwrap_or(settings.staging);
    if frames < settings.staging {
        return Err(SettingsError::Frames {
            frames,
            staging: settings.staging,
        });
    }
    let sum = frames + needs;
    if sum > settings.memory {
        return Err(SettingsError::Memory {
            frames,
            tenants: tenants.len(),
            needs,
            sum,
            limit: settings.memory,
        });
    }
    Ok(())
}

/// A budget must let something in.
fn budget(budget: Option<Budget>, reserve: Bytes) -> Result<(), SettingsError> {
    let Some(budget) = budget else {
        return Ok(());
    };
    if budget.bytes_per_day() < BUDGET_A_DAY_MIN {
        return Err(SettingsError::BudgetTooSmall {
            a_day: budget.bytes_per_day(),
            least: BUDGET_A_DAY_MIN,
        });
    }
    let least = reserve + Bytes::new(units::BLOCK_BYTES);
    if budget.burst() < least {
        return Err(SettingsError::BurstTooSmall {
            burst: budget.burst(),
            least,
        });
    }
    Ok(())
}
