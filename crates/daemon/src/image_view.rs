//! A base image whose cache follows its VMs, as it is known here, and as operators see it.

use super::{settings, shards};
use api::roaming::MovePhase;
use configuration::{Auto, Name, OriginConfig};
use handoff::{Image, sampled_of};
use link_protocol::ImageLook;
use shard::{ImageHandle, ShardHandle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{Bytes, DiskId};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// What there is to see of an image at a moment.
#[derive(Clone, Debug)]
pub(super) struct ImageView {
    pub(super) phase: MovePhase,
    /// The VMs that are about to come.
    pub(super) coming: Vec<Name>,
}

/// How much of an image has come and was lent, and how it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) came_bytes: u64,
    pub(super) lent_bytes: u64,
    pub(super) rate: Auto<Bytes>,
    pub(super) expected_hit_ratio: Option<f64>,
}

/// Tells the figures of the moment.
type Count = Box<dyn Fn() -> Figures + Send + Sync>;

#[derive(Default)]
struct State {
    size: Option<Bytes>,
    problem: Option<String>,
    view: Option<ImageView>,
    count: Option<Count>,
}

/// What is known of one image.
pub(super) struct ImageLooks {
    /// A hash of its origin's address: what an origin is known by that has no fingerprint.
    address: u128,
    state: Mutex<State>,
    /// The last attachment that a sample was read of, and the sample.
    sampled: tokio::sync::Mutex<Option<(u64, u128)>>,
}

impl ImageLooks {
    /// Of an image with this origin.
    pub(super) fn new(origin: &OriginConfig) -> Self {
        let address = settings::origin(origin).to_string();
        Self {
            address: xxh3_128(address.as_bytes()),
            state: Mutex::default(),
            sampled: tokio::sync::Mutex::default(),
        }
    }

    /// What the image is known by that is attached now, and which attachment that is; none if it is not attached, or cannot
    /// be read.
    pub(super) async fn look(&self, shard: &ShardHandle, disk: DiskId) -> Option<(u64, Image)> {
        let attached = shards::ask(shard, |shard, reply| {
            ImageHandle::of(shard, disk).describe(reply);
        });
        let attached = attached.await.ok()?;
        let mut sampled = self.sampled.lock().await;
        let sample = match *sampled {
            Some((attachment, sample)) if attachment == attached.attachment => sample,
            _ => sample(shard, disk, attached.attachment, attached.size).await?,
        };
        *sampled = Some((attached.attachment, sample));
        self.lock().size = Some(attached.size);
        let image = Image {
            size: attached.size,
            sample,
            fingerprint: Some(attached.fingerprint.unwrap_or(self.address)),
        };
        Some((attached.attachment, image))
    }

    /// How large the image is that was looked at last.
    pub(super) fn size(&self) -> Option<Bytes> {
        self.lock().size
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// Why the cache did not follow a VM, or that it did.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        self.lock().problem = problem;
    }

    /// Who tells the figures.
    pub(super) fn count_by(&self, count: Count) {
        self.lock().count = Some(count);
    }

    /// Notes how things are.
    pub(super) fn note(&self, view: ImageView) {
        self.lock().view = Some(view);
    }

    /// How things are, and why its cache did not follow a VM, if so.
    pub(super) fn view(&self) -> Option<(ImageView, Figures, Option<String>)> {
        let state = self.lock();
        let figures = state.count.as_ref()?();
        Some((state.view.clone()?, figures, state.problem.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash of some blocks of an attachment of an image.
async fn sample(shard: &ShardHandle, disk: DiskId, attachment: u64, size: Bytes) -> Option<u128> {
    let reads = sampled_of(size).into_iter().map(|at| {
        shards::send(shard, |shard, reply| {
            ImageHandle::of(shard, disk).read(attachment, at, reply);
        })
    });
    let reads: Vec<_> = reads.collect();
    let mut hash = Xxh3::new();
    for read in reads {
        hash.update(&read.await.ok()?.ok()?);
    }
    Some(hash.digest128())
}

/// What an image is known by, as the link has it.
pub(super) fn to_wire(image: Image) -> ImageLook {
    ImageLook {
        size: image.size.get(),
        sample: image.sample,
        fingerprint: image.fingerprint,
    }
}

/// The same, as it is compared.
pub(super) fn from_wire(image: ImageLook) -> Image {
    Image {
        size: Bytes::new(image.size),
        sample: image.sample,
        fingerprint: image.fingerprint,
    }
}
